// Loading models and their inputs, running them.
#include <string.h>

#include "core/ir/refexec.h"
#include "tcrun/tcrun.h"

static tc_status load_text(tc_context *c, run_options *o, model *m) {
  tc_sv text;
  TC_TRY(tc_file_read(o->arena, m->path.data, &text));
  TC_TRY(tc_module_create(c->allocator, c->ops, &m->module));
  tc_lexer lx;
  tc_lex_init(&lx, m->module->arena, m->path, tc_sv_copy(m->module->arena, text));
  return tc_graph_parse(m->module, &lx, &m->graph);
}

static tc_status load_archive(tc_context *c, run_options *o, model *m) {
  tc_pt2_options po = {.allocator = c->allocator};
  TC_TRY(tc_pt2_open(m->path.data, c->ops, &po, &m->archive));
  int32_t i = 0;
  if (o->method.size) {
    i = tc_pt2_find(m->archive, o->method);
    if (i < 0)
      return tc_error(TC_STATUS_NOT_FOUND, TC_SV_FMT " has no program '" TC_SV_FMT "'", TC_SV_ARG(m->path),
                      TC_SV_ARG(o->method));
  }
  TC_TRY(tc_pt2_load(m->archive, i, &m->program));
  m->module = m->program->module;
  m->graph = m->program->graph;
  return TC_OK;
}

tc_status tcrun_load(tc_context *c, run_options *o, const char *path, model *m) {
  *m = (model){.path = tc_sv_copy(o->arena, tc_sv_of(path))};
  tc_sv base = tc_path_base(m->path), rest = tc_sv_cut(base, '.', &m->name);
  (void)rest;
  tc_status s = tc_sv_ends(base, ".tc") ? load_text(c, o, m) : load_archive(c, o, m);
  if (s != TC_OK) {
    tcrun_unload(m);
    return tc_status_note(s, "while loading %s", path);
  }
  return TC_OK;
}

void tcrun_unload(model *m) {
  if (m->program) tc_program_destroy(m->program);
  else tc_module_destroy(m->module);
  tc_pt2_close(m->archive);
  *m = (model){0};
}

// ---- inputs ----
static tc_status random_tensor(tc_context *c, const tc_graph_input *in, tc_sym_ctx *syms, uint64_t seed,
                               tc_tensor *out) {
  const tc_tensor_type *t = &in->value->type;
  int64_t sizes[TC_MAX_RANK], strides[TC_MAX_RANK];
  for (int32_t d = 0; d < t->rank; d++) {
    if (!tc_sym_hint(syms, t->sizes[d], &sizes[d]))
      return tc_error(TC_STATUS_INVALID_ARGUMENT,
                      "input '" TC_SV_FMT "' has a size without an example value: give --inputs",
                      TC_SV_ARG(in->target));
    strides[d] = tc_sym_hint_or(syms, t->strides[d], 1);
  }
  TC_TRY(tc_tensor_create_strided(c->allocator, t->dtype, t->rank, sizes, strides, out));
  char cls = tc_dtype_class(t->dtype);
  if (cls == 'f' || cls == 'c') tc_tensor_fill_normal(out, seed, 0, 1);
  else tc_tensor_fill_uniform_int(out, seed, 0, 2);
  return TC_OK;
}

static tc_status user_input(tc_context *c, const run_options *o, model *m, int32_t i, int32_t leaf,
                            const tc_tensor_list *given, tc_tensor *out) {
  const tc_graph_input *in = &m->graph->inputs.data[i];
  const tc_tensor *t = tc_tensor_list_find(given, in->target);
  if (!t) t = tc_tensor_list_find(given, tc_sv_printf(o->arena, "in.%d", leaf));
  if (!t && given->count)
    return tc_error(TC_STATUS_NOT_FOUND, "the inputs have neither '" TC_SV_FMT "' nor 'in.%d'", TC_SV_ARG(in->target),
                    leaf);
  if (!t) return random_tensor(c, in, m->module->syms, o->seed + (uint64_t)i, out);
  // Files are row-major; the program may want other strides.
  int64_t sizes[TC_MAX_RANK], strides[TC_MAX_RANK];
  bool same = t->rank == in->value->type.rank;
  for (int32_t d = 0; same && d < t->rank; d++) {
    const tc_sym *s = in->value->type.strides[d];
    sizes[d] = t->sizes[d];
    strides[d] = tc_sym_is_const(s) ? s->value : t->strides[d];
    same = strides[d] == t->strides[d];
  }
  bool relayout = !same && t->rank == in->value->type.rank;
  if (!relayout) {
    *out = tc_tensor_ref(t);
    return TC_OK;
  }
  TC_TRY(tc_tensor_create_strided(c->allocator, t->dtype, t->rank, sizes, strides, out));
  return tc_tensor_copy(t, out);
}

static tc_status bound_input(const model *m, const tc_graph_input *in, tc_tensor *out) {
  tc_map_entry *e = tc_map_find(m->module->bindings, in->target);
  const tc_binding *b = e ? e->value.ptr : NULL;
  if (!b || !b->tensor.storage)
    return tc_error(TC_STATUS_NOT_FOUND, "the archive has no values for '" TC_SV_FMT "'", TC_SV_ARG(in->target));
  *out = tc_tensor_ref(&b->tensor);
  return TC_OK;
}

tc_status tcrun_inputs(tc_context *c, const run_options *o, model *m, tc_tensor **out) {
  int32_t n = m->graph->inputs.count, leaf = 0;
  tc_tensor *t = TC_NEW_ARRAY(o->arena, tc_tensor, n);
  tc_tensor_list given = {0};
  tc_status s = TC_OK;
  if (o->inputs.size) s = tc_tensors_read(c->allocator, o->arena, tc_sv_z(o->arena, o->inputs), &given);
  else if (!o->random && m->archive) {
    s = tc_pt2_sample_inputs(m->archive, m->program, &given);
    if (tc_status_code(s) == TC_STATUS_NOT_FOUND) tc_status_free(s), s = TC_OK;
  }
  for (int32_t i = 0; i < n && s == TC_OK; i++) {
    const tc_graph_input *in = &m->graph->inputs.data[i];
    bool user = in->kind == TC_IN_USER;
    if (in->value && in->value->kind == TC_VALUE_TENSOR)
      s = user ? user_input(c, o, m, i, leaf, &given, &t[i]) : bound_input(m, in, &t[i]);
    leaf += user;
  }
  tc_tensor_list_free(&given);
  if (s != TC_OK) tcrun_free_tensors(t, n);
  *out = t;
  return s;
}

void tcrun_free_tensors(tc_tensor *t, int32_t n) {
  for (int32_t i = 0; i < n; i++) tc_tensor_unref(&t[i]);
}

// ---- running ----
tc_status tcrun_prepare(tc_context *c, model *m, runner *r) {
  *r = (runner){.context = c, .m = m};
  if (c->is_ref) return TC_OK;
  return tc_compile_graph(c, m->graph, TC_STAGE_EXEC, &r->compiled);
}

tc_status tcrun_execute(runner *r, const tc_tensor *inputs, tc_tensor *outputs, tc_run_report *report) {
  if (!r->context->is_ref) return tc_exec_run(r->compiled.exec, inputs, outputs, report);
  tc_ref_options ro = {.wide = tc_config_bool(r->context->config, TC_OPT_ID_REF_WIDE)};
  tc_tensor *dense = TC_NEW_ARRAY(r->m->module->arena, tc_tensor, r->m->graph->inputs.count);
  int32_t n = 0;
  for (int32_t i = 0; i < r->m->graph->inputs.count; i++) {
    if (r->m->graph->inputs.data[i].value) dense[n++] = inputs[i];
  }
  return tc_ref_run(r->m->graph, r->context->allocator, n, dense, outputs, &ro);
}

void tcrun_finish(runner *r) { tc_compiled_free(&r->compiled); }
