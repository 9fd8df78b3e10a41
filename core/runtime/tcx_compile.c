// Programs of artifacts whose code is not for the device at hand: compiled again from the text that they carry (tcx.h).
#include "core/runtime/tcx.h"

typedef struct compiling {
  tc_context *context;
  const tc_tcx_program *program;
  tc_sv text;
  tc_module *module;
  tc_source source;
} compiling;

static tc_status bind(tc_module *m, const tc_module *from, const tc_graph_input *in) {
  bool state = in->kind == TC_IN_PARAMETER || in->kind == TC_IN_BUFFER || in->kind == TC_IN_CONSTANT;
  const tc_map_entry *e = state ? tc_map_find(from->bindings, in->target) : NULL;
  const tc_binding *b = e ? e->value.ptr : NULL;
  if (!b) return TC_OK;
  tc_binding *own = TC_NEW(m->arena, tc_binding);
  *own = (tc_binding){.name = in->target, .is_parameter = in->kind == TC_IN_PARAMETER};
  bool fresh;
  tc_map_entry *place = tc_map_put(m->bindings, in->target, &fresh);
  if (!fresh) return tc_error(TC_STATUS_DATA_LOSS, "two inputs are '" TC_SV_FMT "'", TC_SV_ARG(in->target));
  own->tensor = tc_tensor_ref(&b->tensor);
  place->value.ptr = own;
  return TC_OK;
}

static tc_status read(void *arg) {
  compiling *x = arg;
  tc_module *m = x->module;
  const tc_tcx_program *p = x->program;
  tc_lexer lx;
  tc_lex_init(&lx, m->arena, TC_SV("the artifact's program"), tc_sv_copy(m->arena, x->text));
  TC_TRY(tc_source_parse(x->context, m, &lx, &x->source));
  const tc_graph *g = x->source.graph;
  for (int32_t i = 0; i < g->inputs.count; i++) TC_TRY(bind(m, p->module, &g->inputs.data[i]));
  for (int32_t i = 0; i < p->n_inputs; i++)
    if (p->inputs[i].index >= g->inputs.count)
      return tc_error(TC_STATUS_DATA_LOSS, "the program has no input %d", p->inputs[i].index);
  return TC_OK;
}

static tc_status compile_one(tc_context *c, const tc_tcx_program *p, tc_sv text, tc_module **out_module,
                             tc_session **out) {
  compiling x = {.context = c, .program = p, .text = text};
  TC_TRY(tc_module_create(c->allocator, c->ops, &x.module));
  tc_status s = tc_arena_guard(x.module->arena, read, &x);
  if (s == TC_OK) s = tc_session_create_from(c, &x.source, TC_STAGE_EXEC, out);
  if (s != TC_OK) {
    tc_module_destroy(x.module);
    return s;
  }
  *out_module = x.module;
  return TC_OK;
}

// ---- Several texts ----
typedef struct keeping {
  tc_module *first, *module;
} keeping;
static void destroy_module(void *module) { tc_module_destroy(module); }
static tc_status keep(void *arg) {
  const keeping *k = arg;
  tc_arena_on_destroy(k->first->arena, destroy_module, k->module);
  return TC_OK;
}

static tc_status compile_next(tc_context *c, const tc_tcx_program *p, tc_sv text, tc_module *first, tc_session *to) {
  tc_module *module;
  tc_session *session;
  TC_TRY(compile_one(c, p, text, &module, &session));
  tc_status s = tc_arena_guard(first->arena, keep, &(keeping){first, module});
  if (s == TC_OK) return tc_session_add(to, session);
  tc_session_destroy(session);
  tc_module_destroy(module);
  return s;
}

tc_status tc_tcx_compile(tc_context *c, const tc_tcx_program *p, int32_t which, tc_module **out_module,
                         tc_session **out) {
  tc_status s = TC_OK;
  *out_module = NULL, *out = NULL;
  for (int32_t i = 0; i < p->n_texts && s == TC_OK; i++) {
    if (!tc_tcx_text_is(p, i, which)) continue;
    if (!*out) s = compile_one(c, p, p->texts[i].graph, out_module, out);
    else s = compile_next(c, p, p->texts[i].graph, *out_module, *out);
  }
  if (s == TC_OK) return s;
  tc_session_destroy(*out);
  tc_module_destroy(*out_module);
  *out_module = NULL, *out = NULL;
  return s;
}
