// Artifacts (.tcx): tcrun compile, and models that come from one.
#include <stdio.h>

#include "tcrun/tcrun.h"

// ---- Loading ----
tc_status tcrun_artifact_backend(const run_options *o, tc_sv *out) {
  tc_tcx *x;
  *out = (tc_sv){0};
  for (int32_t i = 0; i < o->args.count; i++) {
    if (!tc_sv_ends(o->args.data[i], ".tcx")) continue;
    TC_TRY(tc_tcx_open(tc_system_allocator(), tc_sv_z(o->arena, o->args.data[i]), &x));
    tc_status s = TC_OK;
    char kind[64]; // a copy without the arena, which could unwind
    snprintf(kind, sizeof kind, TC_SV_FMT, TC_SV_ARG(tc_tcx_at(x, 0)->backend));
    tc_tcx_close(x);
    *out = tc_sv_copy(o->arena, tc_sv_of(kind));
    return s;
  }
  return TC_OK;
}

static void use_plan(model *m) {
  m->module = m->packed.module;
  m->graph = (tc_graph *)(uintptr_t)m->packed.plan->graph;
  m->source = (tc_source){.stage = TC_STAGE_PLAN, .graph = m->graph, .plan = m->packed.plan};
}

// From the program's text, with the tensors of the artifact.
static tc_status use_text(tc_context *c, model *m) {
  TC_TRY(tcrun_read_text(c, m->path, m->packed.graph, m));
  return tcrun_bind(m, m->packed.module);
}

// Does the device take the code?
static tc_status try_code(const tc_tcx *x, int32_t i, tc_context *c, const model *m) {
  tc_session *s;
  TC_TRY(tc_tcx_check(x, i, c));
  if (tc_sv_is(tc_tcx_at(x, i)->target, c->device->props.target)) return TC_OK;
  TC_TRY(tc_tcx_refused(x, i, c, tc_session_create_plan(c, m->packed.plan, &s)));
  tc_session_destroy(s);
  return TC_OK;
}

static tc_status load(const tc_tcx *x, tc_context *c, run_options *o, model *m) {
  int32_t i = tc_tcx_find(x, o->method, c->backend);
  if (i < 0) i = tc_tcx_find(x, o->method, TC_SV("")); // its text will do
  if (i < 0) return tc_error(TC_STATUS_NOT_FOUND, "there is no program '" TC_SV_FMT "'", TC_SV_ARG(o->method));
  TC_TRY(tc_tcx_load(x, i, &m->packed));
  tc_status s = c->is_ref ? tc_tcx_check(x, i, c) : try_code(x, i, c, m);
  if (s != TC_OK && !m->packed.graph.size) return s;
  if (s != TC_OK) {
    tc_log(&c->logger, TC_LOG_PERF_HINTS, "compiled again: %s", tc_status_text(s));
    tc_status_free(s);
    TC_TRY(use_text(c, m));
  } else {
    use_plan(m);
  }
  return tcrun_note_promises(m);
}

tc_status tcrun_load_artifact(tc_context *c, run_options *o, model *m) {
  tc_tcx *x;
  TC_TRY(tc_tcx_open(c->allocator, m->path.data, &x));
  // An unwinding past this frame would leave the file open.
  tc_arena_catch catch_;
  tc_status s;
  if (TC_ARENA_CATCH(o->arena, catch_)) s = load(x, c, o, m);
  else s = tc_arena_refusal(o->arena);
  tc_arena_catch_end(o->arena, &catch_);
  tc_tcx_close(x);
  return s;
}

// ---- Compiling ----
typedef struct one {
  model m;
  tc_session *session;
} one;

typedef struct compilation {
  run_options *o;
  TC_VEC(tc_context *) contexts;
  TC_VEC(one *) programs;
  TC_VEC(tc_tcx_source) sources;
} compilation;

static tc_status compile_model(compilation *k, tc_context *c, one *x) {
  tc_arena *arena = k->o->arena;
  model *m = &x->m;
  tc_sb text = tc_sb_make(arena);
  if (m->source.stage <= TC_STAGE_FUNCTIONAL) tc_source_print(&text, &m->source, TC_STAGE_GRAPH);
  m->source.stages = true; // with the kernels themselves
  tcrun_progress_say(k->o->progress, "compiling " TC_SV_FMT " for " TC_SV_FMT, TC_SV_ARG(m->graph->name),
                     TC_SV_ARG(c->backend));
  TC_TRY(tc_session_create_from(c, &m->source, TC_STAGE_EXEC, &x->session), "while compiling '" TC_SV_FMT "'",
         TC_SV_ARG(m->graph->name));
  tc_tcx_leaf *leaves = TC_NEW_ARRAY(arena, tc_tcx_leaf, m->n_in);
  for (int32_t i = 0; i < m->n_in; i++) leaves[i] = (tc_tcx_leaf){tcrun_input_name(m, i), m->in[i]};
  tc_tcx_source s = {.name = m->program ? m->program->name : m->graph->name, .context = c, .session = x->session};
  s.n_inputs = m->n_in, s.inputs = leaves, s.graph = tc_sb_view(&text);
  tc_vec_push(arena, &k->sources, s);
  return TC_OK;
}

// Every program of the archive, or the one that --method names.
static tc_status compile_all(compilation *k, tc_context *c) {
  run_options one_of = *k->o;
  const char *path = tc_sv_z(k->o->arena, k->o->args.data[0]);
  for (int32_t i = 0, n = 1; i < n; i++) {
    one *x = TC_NEW(k->o->arena, one);
    tc_vec_push(k->o->arena, &k->programs, x);
    TC_TRY(tcrun_load(c, &one_of, path, &x->m));
    if (i == 0 && !k->o->method.size && x->m.archive && x->m.program) n = tc_pt2_count(x->m.archive);
    if (i + 1 < n) one_of.method = tc_sv_copy(k->o->arena, tc_pt2_name(x->m.archive, i + 1));
    TC_TRY(compile_model(k, c, x));
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

static tc_status compile(void *arg) {
  compilation *k = arg;
  run_options *o = k->o;
  double start = tc_now_ms();
  tc_sv rest = tc_config_text(o->config, TC_OPT_ID_BACKEND), backend;
  while (rest.size) {
    rest = tc_sv_cut(rest, ',', &backend);
    TC_TRY(compile_for(k, backend));
  }
  const char *path = tc_sv_z(o->arena, o->output);
  tcrun_progress_say(o->progress, "writing %s", path);
  tc_sv weights = tc_sv_printf(o->arena, TC_SV_FMT ".tensors", TC_SV_ARG(tc_path_base(o->output)));
  TC_TRY(tc_tcx_write(o->arena, path, o->beside ? weights.data : NULL, k->sources.count, k->sources.data));
  tcrun_progress_stop(o->progress);
  if (o->quiet) return TC_OK;
  for (int32_t i = 0; i < k->sources.count; i++) {
    const tc_tcx_source *s = &k->sources.data[i];
    printf(TC_SV_FMT " for " TC_SV_FMT " (%s): %d launches and calls\n", TC_SV_ARG(s->name),
           TC_SV_ARG(s->context->backend), s->context->device->props.name, tc_session_op_count(s->session));
  }
  printf("written in %.0f ms: %s\n", tc_now_ms() - start, path);
  return TC_OK;
}

tc_status cmd_compile(run_options *o) {
  compilation k = {.o = o};
  if (o->args.count != 1) return tc_error(TC_STATUS_INVALID_ARGUMENT, "which model? tcrun compile MODEL -o FILE.tcx");
  if (!tc_sv_ends(o->output, ".tcx"))
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "where to? tcrun compile MODEL -o FILE.tcx");
  tc_arena_catch catch_;
  tc_status s;
  if (TC_ARENA_CATCH(o->arena, catch_)) s = compile(&k);
  else s = tc_arena_refusal(o->arena);
  tc_arena_catch_end(o->arena, &catch_);
  for (int32_t i = 0; i < k.programs.count; i++) {
    tc_session_destroy(k.programs.data[i]->session);
    tcrun_unload(&k.programs.data[i]->m);
  }
  for (int32_t i = 0; i < k.contexts.count; i++) tc_context_destroy(k.contexts.data[i]);
  return s;
}
