// What the tests of plans share: reading a text and doing something with the plan.
#ifndef TC_TESTS_UNIT_PLAN_PLAN_TEST_H_
#define TC_TESTS_UNIT_PLAN_PLAN_TEST_H_

#include "core/ops/ops.h"
#include "core/plan/plan.h"
#include "tests/unit/unit.h"

static inline tc_status read_plan(tc_arena *arena, const char *text, tc_module **module, tc_plan **out) {
  tc_op_registry *ops;
  TC_TRY(tc_op_registry_create(arena, &ops));
  TC_TRY(tc_module_create(tc_arena_allocator(arena), ops, module));
  tc_lexer lx;
  tc_lex_init(&lx, (*module)->arena, TC_SV("test"), tc_sv_copy((*module)->arena, tc_sv_of(text)));
  return tc_plan_parse(*module, &lx, out);
}

typedef struct guarded {
  tc_arena *arena;
  const char *text;
  tc_module *module;
  tc_plan *plan;
  tc_status (*then)(struct guarded *g);
} guarded;

static inline tc_status enter(void *arg) {
  guarded *g = arg;
  TC_TRY(read_plan(g->arena, g->text, &g->module, &g->plan));
  return g->then ? g->then(g) : TC_OK;
}

// Reads, then does something with the plan; the module is gone afterwards.
static inline tc_status with(tc_arena *arena, const char *text, tc_status (*then)(guarded *g)) {
  guarded g = {arena, text, NULL, NULL, then};
  tc_status s = enter(&g);
  tc_module_destroy(g.module);
  return s;
}

static inline tc_status prints_the_same(guarded *g) {
  tc_sb sb = tc_sb_make(g->arena);
  tc_plan_print(&sb, g->plan);
  assert_string_equal(sb.text, g->text);
  return TC_OK;
}

#endif
