// A graph's text (definitions of kernels by hand may stand in front), from a context to a session, for tests of the
// runtime.
#ifndef TC_TESTS_UNIT_RUNTIME_RIG_H_
#define TC_TESTS_UNIT_RUNTIME_RIG_H_

#include "core/ir/userop.h"
#include "core/runtime/session.h"
#include "tests/unit/unit.h"

enum { RIG_MOST = 8 }; // inputs

typedef struct rig {
  tc_arena *arena; // of the test, where it has one
  const tc_allocator *allocator;
  tc_context *context;
  tc_module *module;
  tc_graph *graph;
  tc_session *session;
  const char *text;
  int32_t n_inputs;
  tc_tensor inputs[RIG_MOST];
} rig;

// A context with the backend and further options; `options` is name, value, …, NULL. Logs go nowhere.
static inline tc_status rig_context(rig *r, const tc_allocator *a, const char *backend, const char *const *options) {
  tc_config *config;
  *r = (rig){.allocator = a};
  TC_TRY(tc_config_create(a, &config));
  TC_TRY(tc_config_set(config, TC_SV("backend"), tc_sv_of(backend), "test"));
  for (; options && options[0]; options += 2)
    TC_TRY(tc_config_set(config, tc_sv_of(options[0]), tc_sv_of(options[1]), "test"));
  TC_TRY(tc_context_create(a, config, tc_logger_silent, &r->context));
  return tc_context_open_backend(r->context);
}

static inline tc_status rig_parse(void *arg) {
  rig *r = arg;
  tc_lexer lx;
  tc_user_device device = tc_context_user_device(r->context);
  tc_lex_init(&lx, r->module->arena, TC_SV("test"), tc_sv_of(r->text));
  TC_TRY(tc_user_ops_define(r->context->ops, &lx, &device));
  return tc_graph_parse(r->module, &lx, &r->graph);
}

static inline tc_status rig_graph(rig *r, const char *text) {
  r->text = text;
  TC_TRY(tc_module_create(r->allocator, r->context->ops, &r->module));
  return tc_arena_guard(r->module->arena, rig_parse, r);
}

// Normal numbers for all inputs; sizes that are symbols take their hints.
static inline tc_status rig_inputs(rig *r, uint64_t seed) {
  assert_true(r->graph->inputs.count <= RIG_MOST);
  r->n_inputs = r->graph->inputs.count;
  for (int32_t i = 0; i < r->n_inputs; i++) {
    const tc_tensor_type *t = &r->graph->inputs.data[i].value->type;
    int64_t sizes[TC_MAX_RANK];
    for (int32_t d = 0; d < t->rank; d++) sizes[d] = tc_sym_hint_or(r->module->syms, t->sizes[d], 3);
    TC_TRY(tc_tensor_create(r->allocator, t->dtype, t->rank, sizes, &r->inputs[i]));
    tc_tensor_fill_normal(&tc_executor_serial, &r->inputs[i], seed + (uint64_t)i, 0, 1);
  }
  return TC_OK;
}

static inline void rig_close(rig *r) {
  tc_session_destroy(r->session);
  for (int32_t i = 0; i < r->n_inputs; i++) tc_tensor_unref(&r->inputs[i]);
  tc_module_destroy(r->module);
  tc_context_destroy(r->context);
}

// Compiles the text for a backend and runs it on normal numbers; `calls`: the option of that name. *out_called (or
// NULL) becomes true if the plan leaves the op, or
// any if it is NULL, to a library.
static inline tc_status rig_run_on(const char *backend, const char *calls, const char *text, uint64_t seed,
                                   const char *op, tc_tensor *out, bool *out_called) {
  const char *const options[] = {"calls", calls, "cache.enabled", "false", NULL};
  rig r;
  TC_TRY(rig_context(&r, tc_system_allocator(), backend, options));
  tc_status s = rig_graph(&r, text);
  if (s == TC_OK) s = rig_inputs(&r, seed);
  if (s == TC_OK) s = tc_session_create(r.context, r.graph, TC_STAGE_EXEC, &r.session);
  if (s == TC_OK) s = tc_session_run(r.session, r.inputs, out, NULL);
  const tc_plan *p = s == TC_OK ? tc_session_plan(r.session) : NULL;
  for (int32_t i = 0; p && out_called && i < p->ops.count; i++)
    *out_called |=
        p->ops.data[i].kind == TC_PLAN_CALL && (!op || tc_sv_is(p->ops.data[i].call->node->op->full_name, op));
  rig_close(&r);
  return s;
}

// Element i of a dense tensor of bf16.
static inline double rig_bf16(const tc_tensor *t, int64_t i) {
  uint32_t bits = (uint32_t)((const uint16_t *)tc_tensor_data(t))[i] << 16;
  float f;
  memcpy(&f, &bits, sizeof f);
  return (double)f;
}

#endif
