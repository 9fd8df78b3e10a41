// What tests of all ops with random calls share: a round with a fixed seed and one with a fresh one.
//   TC_TEST_ROUNDS=N TC_TEST_SEED=N TC_TEST_OP=aten::cat   fresh rounds (1), their seed; one op only
#ifndef TC_TESTS_UNIT_OPS_ROUNDS_H_
#define TC_TESTS_UNIT_OPS_ROUNDS_H_

#include "core/ops/ops.h"
#include "tests/fuzz/graphs/calls.h"
#include "tests/unit/unit.h"

typedef struct rounds {
  tc_op_registry *ops;
  const char *only; // the op to take; NULL: all
  uint64_t seed;
  int64_t count; // of rounds
} rounds;

// The test, which each file has: `count` rounds of each of the core's ops that it takes.
static void run_rounds(const rounds *r);

static inline bool rounds_take(const rounds *r, const tc_op *op) {
  return call_possible(op) && (!r->only || tc_sv_is(op->full_name, r->only));
}

static inline uint64_t rounds_seed(const rounds *r, int32_t op, int64_t round) {
  return r->seed + (uint64_t)round * 1000003u + (uint64_t)op;
}

// A module in the arena, and calls for it.
static inline tc_module *rounds_module(tc_arena *arena, const tc_op_registry *ops, uint64_t seed, call_gen *calls) {
  tc_module *m = TC_NEW(arena, tc_module);
  *m = (tc_module){.arena = arena, .ops = ops, .syms = tc_sym_create(arena), .bindings = tc_map_create(arena)};
  *calls = (call_gen){.state = seed, .arena = arena, .syms = m->syms};
  return m;
}

static void make_rounds(uint64_t seed, int64_t count) {
  tc_arena *arena;
  rounds r = {.only = getenv("TC_TEST_OP"), .seed = seed, .count = count};
  assert_ok(tc_arena_create(tc_system_allocator(), &arena));
  assert_ok(tc_op_registry_create(arena, &r.ops));
  assert_ok(tc_ops_register_core(r.ops));
  run_rounds(&r);
  tc_arena_destroy(arena);
}

static void fixed_seed(void **state) {
  (void)state;
  make_rounds(1, 1);
}

static void fresh_seed(void **state) {
  (void)state;
  const char *count = getenv("TC_TEST_ROUNDS");
  make_rounds(tc_test_seed(), count ? strtoll(count, NULL, 10) : 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(fixed_seed), cmocka_unit_test(fresh_seed)};
  return TC_RUN(tests);
}

#endif
