// tcrun compile: programs of one or more models, for each backend and each choice of sizes, into one artifact.
#include <stdio.h>

#include "tcrun/tcrun.h"

typedef struct one {
  model m;
  model fixed; // the same with sizes fixed: its module, graph and source; or nothing
  tc_session *session;
} one;

typedef struct compilation {
  run_options *o;
  TC_VEC(tc_context *) contexts;
  TC_VEC(one *) programs;
  TC_VEC(tc_tcx_source) sources;
} compilation;

// ---- Sizes ----
typedef struct sizing {
  tc_arena *arena;
  const model *m;
  tc_sv text; // of the option, for messages
  fixed_sizes *out;
} sizing;

static tc_status fix(sizing *z, tc_sv name, int64_t value) {
  for (int32_t i = 0; i < z->out->n; i++) {
    if (!tc_sv_eq(z->out->names[i], name)) continue;
    if (z->out->values[i] == value) return TC_OK;
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "--sizes=" TC_SV_FMT ": " TC_SV_FMT " is %lld and %lld",
                    TC_SV_ARG(z->text), TC_SV_ARG(name), (long long)z->out->values[i], (long long)value);
  }
  z->out->names[z->out->n] = name, z->out->values[z->out->n++] = value;
  return TC_OK;
}

static tc_status fix_symbol(sizing *z, tc_sv name, int64_t value) {
  tc_sym_ctx *c = z->m->module->syms;
  tc_sb known = tc_sb_make(z->arena);
  for (int32_t i = 0; i < tc_sym_symbol_count(c); i++) {
    const tc_sym *x = tc_sym_symbol_at(c, i);
    if (tc_sym_info_read(c, x)->origin != TC_SYM_BACKED) continue;
    if (tc_sv_eq(x->name, name)) return fix(z, x->name, value);
    tc_sb_printf(&known, "%s" TC_SV_FMT, known.size ? ", " : "", TC_SV_ARG(x->name));
  }
  return tc_error(TC_STATUS_INVALID_ARGUMENT,
                  "--sizes=" TC_SV_FMT ": the program has no open size and no input '" TC_SV_FMT
                  "'; its open sizes: %s",
                  TC_SV_ARG(z->text), TC_SV_ARG(name), known.size ? known.text : "none");
}

// x=1x16x64: the symbols that are sizes of that input. What is computed from them follows.
static tc_status fix_input(sizing *z, const tc_tensor_type *t, tc_sv name, tc_sv shape) {
  int32_t d = 0;
  for (tc_sv rest = shape, size; rest.size; d++) {
    int64_t n;
    rest = tc_sv_cut(rest, 'x', &size);
    if (!tc_sv_to_int(size, &n) || d >= t->rank) break;
    const tc_sym *x = t->sizes[d];
    if (x->kind == TC_SYM_SYMBOL) TC_TRY(fix(z, x->name, n));
    if (!rest.size && d + 1 == t->rank) return TC_OK;
  }
  return tc_error(TC_STATUS_INVALID_ARGUMENT,
                  "--sizes=" TC_SV_FMT ": '" TC_SV_FMT "' takes %d sizes, such as " TC_SV_FMT "=%s", TC_SV_ARG(z->text),
                  TC_SV_ARG(name), t->rank, TC_SV_ARG(name), t->rank == 1 ? "16" : "1x16");
}

// Is the shape that was asked for the one that comes out?
static tc_status check_input(const sizing *z, const tc_graph *fixed, tc_sv name, tc_sv shape) {
  for (int32_t i = 0; i < fixed->inputs.count; i++) {
    const tc_graph_input *in = &fixed->inputs.data[i];
    if (!in->value || in->value->kind != TC_VALUE_TENSOR || !tc_sv_eq(in->target, name)) continue;
    tc_sv size, rest = shape;
    for (int32_t d = 0; d < in->value->type.rank; d++) {
      int64_t n;
      rest = tc_sv_cut(rest, 'x', &size);
      if (tc_sv_to_int(size, &n) && tc_sym_is_int(in->value->type.sizes[d], n)) continue;
      tc_sb sb = tc_sb_make(z->arena);
      tc_type_print(&sb, &in->value->type);
      return tc_error(TC_STATUS_INVALID_ARGUMENT, "--sizes=" TC_SV_FMT ": the program takes '" TC_SV_FMT "' as %s",
                      TC_SV_ARG(z->text), TC_SV_ARG(name), sb.text);
    }
  }
  return TC_OK;
}

static const tc_tensor_type *find_input(const model *m, tc_sv name) {
  for (int32_t i = 0; i < m->n_in; i++) {
    const tc_value *v = m->graph->inputs.data[m->in[i]].value;
    if (v && v->kind == TC_VALUE_TENSOR && tc_sv_eq(m->graph->inputs.data[m->in[i]].target, name)) return &v->type;
  }
  return NULL;
}

// "s0=16,x=1x16x64". Calls for each part; then the names and values are all there.
static tc_status read_sizes(sizing *z) {
  int32_t most = tc_sym_symbol_count(z->m->module->syms);
  z->out->names = TC_NEW_ARRAY(z->arena, tc_sv, most + 1);
  z->out->values = TC_NEW_ARRAY(z->arena, int64_t, most + 1);
  for (tc_sv rest = z->text, part; rest.size;) {
    tc_sv name;
    int64_t n;
    rest = tc_sv_cut(rest, ',', &part);
    tc_sv value = tc_sv_cut(part, '=', &name);
    const tc_tensor_type *input = find_input(z->m, name);
    if (input) TC_TRY(fix_input(z, input, name, value));
    else if (tc_sv_to_int(value, &n)) TC_TRY(fix_symbol(z, name, n));
    else
      return tc_error(TC_STATUS_INVALID_ARGUMENT,
                      "--sizes=" TC_SV_FMT ": SYMBOL=N or INPUT=NxNx… is expected, or any for all sizes",
                      TC_SV_ARG(z->text));
  }
  return TC_OK;
}

static tc_status fix_sizes(compilation *k, tc_context *c, one *x, tc_sv sizes, tc_sv text, tc_sv *out_words) {
  tc_arena *arena = k->o->arena;
  fixed_sizes fixed = {0};
  sizing z = {arena, &x->m, sizes, &fixed};
  tc_sb words = tc_sb_make(arena);
  if (x->m.source.stage > TC_STAGE_FUNCTIONAL)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "--sizes takes a graph; the sizes of later stages are what they are");
  TC_TRY(read_sizes(&z));
  TC_TRY(tcrun_read_fixed(c, x->m.path, text, &fixed, &x->fixed), "for --sizes=" TC_SV_FMT, TC_SV_ARG(sizes));
  for (tc_sv rest = sizes, part; rest.size;) {
    tc_sv name;
    rest = tc_sv_cut(rest, ',', &part);
    tc_sv shape = tc_sv_cut(part, '=', &name);
    if (find_input(&x->m, name)) TC_TRY(check_input(&z, x->fixed.graph, name, shape));
  }
  for (int32_t i = 0; i < fixed.n; i++)
    tc_sb_printf(&words, "%s" TC_SV_FMT "=%lld", i ? ", " : "", TC_SV_ARG(fixed.names[i]), (long long)fixed.values[i]);
  *out_words = tc_sb_view(&words);
  return tcrun_bind(&x->fixed, x->m.module);
}

// ---- Programs ----
static tc_status compile_model(compilation *k, tc_context *c, one *x, tc_sv sizes) {
  tc_arena *arena = k->o->arena;
  model *m = &x->m;
  tc_source *source = &m->source;
  tc_tcx_source s = {.name = m->program ? m->program->name : m->graph->name, .context = c};
  tc_sb text = tc_sb_make(arena);
  if (source->stage <= TC_STAGE_FUNCTIONAL) tc_source_print(&text, source, TC_STAGE_GRAPH);
  s.graph = tc_sb_view(&text);
  if (sizes.size && !tc_sv_is(sizes, "any")) {
    TC_TRY(fix_sizes(k, c, x, sizes, s.graph, &s.sizes));
    source = &x->fixed.source;
  }
  source->stages = true; // with the kernels themselves
  tcrun_progress_say(k->o->progress, "compiling " TC_SV_FMT " for " TC_SV_FMT, TC_SV_ARG(m->graph->name),
                     TC_SV_ARG(c->backend));
  TC_TRY(tc_session_create_from(c, source, TC_STAGE_EXEC, &x->session), "while compiling '" TC_SV_FMT "'",
         TC_SV_ARG(m->graph->name));
  tc_tcx_leaf *leaves = TC_NEW_ARRAY(arena, tc_tcx_leaf, m->n_in);
  for (int32_t i = 0; i < m->n_in; i++) leaves[i] = (tc_tcx_leaf){tcrun_input_name(m, i), m->in[i]};
  s.session = x->session, s.n_inputs = m->n_in, s.inputs = leaves;
  tc_vec_push(arena, &k->sources, s);
  return TC_OK;
}

// Every program of the archive, or the one that --method names.
static tc_status compile_archive(compilation *k, tc_context *c, const char *path, tc_sv sizes) {
  run_options one_of = *k->o;
  for (int32_t i = 0, n = 1; i < n; i++) {
    one *x = TC_NEW(k->o->arena, one);
    tc_vec_push(k->o->arena, &k->programs, x);
    TC_TRY(tcrun_load(c, &one_of, path, &x->m));
    if (i == 0 && !k->o->method.size && x->m.archive && x->m.program) n = tc_pt2_count(x->m.archive);
    if (i + 1 < n) one_of.method = tc_sv_copy(k->o->arena, tc_pt2_name(x->m.archive, i + 1));
    TC_TRY(compile_model(k, c, x, sizes));
  }
  return TC_OK;
}

// The references take any sizes: what they run is the text.
static tc_status compile_all(compilation *k, tc_context *c) {
  const run_options *o = k->o;
  for (int32_t i = 0; i < o->args.count; i++) {
    const char *path = tc_sv_z(o->arena, o->args.data[i]);
    if (!o->sizes.count || c->is_ref) TC_TRY(compile_archive(k, c, path, (tc_sv){0}));
    for (int32_t s = 0; s < o->sizes.count && !c->is_ref; s++) TC_TRY(compile_archive(k, c, path, o->sizes.data[s]));
  }
  return TC_OK;
}

static tc_status compile_for(compilation *k, tc_sv backend) {
  run_options again;
  tc_status s = tcrun_parse(k->o->arena, k->o->argc, k->o->argv, &again);
  again.progress = k->o->progress;
  if (s == TC_OK) s = tc_config_set(again.config, TC_SV("backend"), backend, "--backend");
  tc_context *c = NULL;
  if (s == TC_OK) s = tcrun_open(&again, &c);
  tc_config_destroy(again.config); // NULL once the context has it
  if (s != TC_OK) return s;
  tc_vec_push(k->o->arena, &k->contexts, c);
  return compile_all(k, c);
}

static tc_status compile_list(compilation *k, tc_sv rest) {
  for (tc_sv backend; rest.size;) {
    rest = tc_sv_cut(rest, ',', &backend);
    TC_TRY(compile_for(k, backend));
  }
  return TC_OK;
}

static void tell(const compilation *k, double ms) {
  for (int32_t i = 0; i < k->sources.count; i++) {
    const tc_tcx_source *s = &k->sources.data[i];
    const tc_device *d = s->context->device;
    printf(TC_SV_FMT " for " TC_SV_FMT " (%s)", TC_SV_ARG(s->name), TC_SV_ARG(s->context->backend),
           d ? d->props.name : "as text");
    if (s->sizes.size) printf(", " TC_SV_FMT, TC_SV_ARG(s->sizes));
    if (d) printf(": %d launches and calls", tc_session_op_count(s->session));
    putchar('\n');
  }
  printf("written in %.0f ms: " TC_SV_FMT "\n", ms, TC_SV_ARG(k->o->output));
}

static tc_status compile(compilation *k) {
  run_options *o = k->o;
  double start = tc_now_ms();
  for (int32_t i = 0; i < o->backends.count; i++) TC_TRY(compile_list(k, o->backends.data[i]));
  if (!o->backends.count) TC_TRY(compile_list(k, tc_config_text(o->config, TC_OPT_ID_BACKEND)));
  const char *path = tc_sv_z(o->arena, o->output);
  tcrun_progress_say(o->progress, "writing %s", path);
  tc_sv weights = tc_sv_printf(o->arena, TC_SV_FMT ".tensors", TC_SV_ARG(tc_path_base(o->output)));
  TC_TRY(tc_tcx_write(o->arena, path, o->beside ? weights.data : NULL, k->sources.count, k->sources.data));
  tcrun_progress_stop(o->progress);
  if (!o->quiet) tell(k, tc_now_ms() - start);
  return TC_OK;
}

tc_status cmd_compile(run_options *o) {
  compilation k = {.o = o};
  if (o->args.count < 1) return tc_error(TC_STATUS_INVALID_ARGUMENT, "which model? tcrun compile MODEL -o FILE.tcx");
  if (!tc_sv_ends(o->output, ".tcx"))
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "where to? tcrun compile MODEL -o FILE.tcx");
  tc_arena_catch catch_;
  tc_status s;
  if (TC_ARENA_CATCH(o->arena, catch_)) s = compile(&k);
  else s = tc_arena_refusal(o->arena);
  tc_arena_catch_end(o->arena, &catch_);
  for (int32_t i = 0; i < k.programs.count; i++) {
    tc_session_destroy(k.programs.data[i]->session);
    tcrun_unload(&k.programs.data[i]->fixed);
    tcrun_unload(&k.programs.data[i]->m);
  }
  for (int32_t i = 0; i < k.contexts.count; i++) tc_context_destroy(k.contexts.data[i]);
  return s;
}
