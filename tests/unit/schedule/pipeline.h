// A graph's text through lowering, scheduling, emission and memory planning, run by the kernel interpreter and compared
// with the references, on every device of the graph fuzzer, with fusion and without.
#ifndef TC_TESTS_UNIT_SCHEDULE_PIPELINE_H_
#define TC_TESTS_UNIT_SCHEDULE_PIPELINE_H_

#include "core/ir/refexec.h"
#include "core/kernel/templates/templates.h"
#include "core/ops/ops.h"
#include "core/passes/passes.h"
#include "tests/fuzz/graphs/compare.h"
#include "tests/fuzz/graphs/execute.h"
#include "tests/unit/unit.h"

typedef struct pipeline {
  tc_arena *arena;
  tc_module *m;
  tc_graph *g;
  tc_template_registry templates;
  int64_t *symbols;
  // Chooses configurations of templates, as tc_emit_options.pick does; or NULL.
  int32_t (*pick)(void *self, tc_sv name, tc_sv stage, int32_t n, const tc_stage_config *configs);
  void *pick_self;
  tc_tensor in[MOST_IO], narrow[MOST_IO], wide[MOST_IO];
} pipeline;

// Symbols have the values given, in order of their names in the text, then their hints.
static inline tc_status pipeline_open_at(pipeline *p, tc_arena *arena, const char *text, int32_t n_values,
                                         const int64_t *values) {
  *p = (pipeline){.arena = arena};
  tc_op_registry *ops;
  TC_TRY(tc_op_registry_create(arena, &ops));
  TC_TRY(tc_ops_register_core(ops));
  p->m = TC_NEW(arena, tc_module);
  *p->m = (tc_module){.arena = arena, .ops = ops, .syms = tc_sym_create(arena), .bindings = tc_map_create(arena)};
  tc_templates_register_core(arena, &p->templates);
  tc_lexer lx;
  tc_lex_init(&lx, arena, TC_SV("test.tc"), tc_sv_of(text));
  TC_TRY(tc_graph_parse(p->m, &lx, &p->g));
  int32_t n = tc_sym_symbol_count(p->m->syms);
  p->symbols = TC_NEW_ARRAY(arena, int64_t, n + 4096);
  for (int32_t i = 0; i < n; i++) {
    int64_t hint = tc_sym_info_of(p->m->syms, tc_sym_symbol_at(p->m->syms, i))->hint;
    p->symbols[i] = i < n_values ? values[i] : hint == INT64_MIN ? 1 : hint;
  }
  TC_TRY(make_inputs(p->g, p->symbols, tc_test_seed(), p->in));
  tc_ref_options plain = {0}, wide = {.wide = true};
  TC_TRY(tc_ref_run(p->g, tc_system_allocator(), p->g->inputs.count, p->in, p->narrow, &plain));
  TC_TRY(tc_ref_run(p->g, tc_system_allocator(), p->g->inputs.count, p->in, p->wide, &wide));
  bool progress = true;
  for (int32_t round = 0; round < 4 && progress; round++) TC_TRY(tc_pass_decompose.run(p->g, &progress));
  return TC_OK;
}

static inline tc_status pipeline_open(pipeline *p, tc_arena *arena, const char *text) {
  return pipeline_open_at(p, arena, text, 0, NULL);
}

static inline void pipeline_close(pipeline *p) {
  for (int32_t i = 0; i < MOST_IO; i++) {
    tc_tensor_unref(&p->in[i]);
    tc_tensor_unref(&p->narrow[i]);
    tc_tensor_unref(&p->wide[i]);
  }
}

static inline tc_status pipeline_compile(pipeline *p, const tc_device_props *device, bool fuse, tc_plan **out) {
  tc_lower_options lo = {.logger = &tc_logger_silent, .templates = &p->templates};
  lo.simd_bytes = device->simd_bytes;
  lo.on_chip = device->simd_bytes ? device->shared_bytes : 0;
  lo.lock_step = !device->simd_bytes && device->subgroup > 1;
  tc_loops *l;
  TC_TRY(tc_lower_graph(p->g, &lo, &l));
  TC_TRY(tc_loops_verify(l));
  tc_schedule_options so = {.logger = &tc_logger_silent, .device = device, .fuse = fuse, .horizontal = true};
  tc_schedule *s;
  TC_TRY(tc_schedule_loops(l, &so, &s));
  TC_TRY(tc_loops_verify(l));
  tc_emit_options eo = {.logger = &tc_logger_silent, .device = device, .outside_align = 16};
  eo.pick = p->pick, eo.pick_self = p->pick_self;
  return tc_plan_build(s, &eo, out);
}

static inline tc_status pipeline_check(pipeline *p, const tc_plan *plan, tolerance tol) {
  plan_run r = {.p = plan, .symbols = p->symbols, .inputs = p->in};
  tc_tensor out[MOST_IO] = {0};
  tc_status s = plan_run_all(&r, p->arena, out);
  for (int32_t i = 0; i < plan->outputs.count && s == TC_OK; i++)
    s = compare(&out[i], &p->narrow[i], &p->wide[i], tol, i);
  for (int32_t i = 0; i < plan->outputs.count; i++) tc_tensor_unref(&out[i]);
  return s;
}

// Everywhere; `kernels` (0: any number) is what the first device needs with fusion.
static inline tc_status pipeline_all(tc_arena *arena, const char *text, tolerance tol, int32_t kernels) {
  pipeline p;
  tc_status s = pipeline_open(&p, arena, text);
  for (int32_t d = 0; d < N_DEVICES && s == TC_OK; d++) {
    for (int32_t fuse = 1; fuse >= 0 && s == TC_OK; fuse--) {
      tc_plan *plan = NULL;
      s = pipeline_compile(&p, &devices[d].props, fuse, &plan);
      if (s == TC_OK && kernels && d == 0 && fuse && plan->ops.count != kernels)
        s = tc_error(TC_STATUS_MISMATCH, "%d kernels, expected %d", plan->ops.count, kernels);
      if (s == TC_OK) s = pipeline_check(&p, plan, tol);
      if (s != TC_OK) s = tc_status_note(s, "on %s, %s", devices[d].name, fuse ? "fused" : "unfused");
    }
  }
  pipeline_close(&p);
  return s;
}

static const tolerance exactly = {.exact = true}, closely = {.eps = 1e-4, .least = 1e-5};

#endif
