// Every derivative of the core's rows against differences: derivatives.h. TC_TEST_OP=aten::cat takes one op.
#include "tests/unit/autograd/derivatives.h"

#define CASES TC_SOURCE_DIR "/tests/unit/ops/cases.txt"

static int32_t missing(derivative_check *x, const tc_op *op, int32_t order) {
  const derivative_score *q = derivative_score_of(x, op);
  int32_t best = q->order[0] > q->order[1] ? q->order[0] : q->order[1];
  bool listed = derivative_listed(x, op, "") || (order == 2 && derivative_listed(x, op, ", second"));
  if (best >= order || (order == 2 && best < 1) || listed) return 0;
  print_error("%.*s%s: %s\n", (int)op->full_name.size, op->full_name.data, order == 2 ? ", second" : "",
              q->undecided                ? q->undecided
              : q->taken[0] + q->taken[1] ? "undecided"
                                          : "no call was found");
  return 1;
}

TC_TEST(every_row) {
  // The same calls in every run, unless a seed is given: whether one is found must not be luck.
  derivative_check x = {.arena = arena, .scores = tc_map_create(arena)};
  TC_TRY(undecided_read(arena, &x.reasons));
  x.base = getenv("TC_TEST_SEED") ? tc_test_seed() : 1;
  const char *only = getenv("TC_TEST_OP");
  uint64_t share = tc_run_seed();
  TC_TRY(tc_op_registry_create(arena, &x.ops));
  TC_TRY(tc_ops_register_core(x.ops));
  if (!only) derivative_cases(&x, CASES);
  int32_t declared = 0, decided[2][DERIVATIVE_CLASSES] = {{0}}, unknown = 0;
  for (int32_t i = 0; i < tc_op_registry_count(x.ops); i++) {
    const tc_op *op = tc_op_registry_at(x.ops, i);
    if (!op->grad.n_results || (only && !tc_sv_is(op->full_name, only))) continue;
    if (!only && !tc_run_takes(share, i)) continue;
    declared++;
    for (int32_t class = 0; class < DERIVATIVE_CLASSES; class ++) {
      if (class == DERIVATIVE_REAL || op->def->traits & TC_OP_COMPLEX)
        derivative_search(&x, op, class, DERIVATIVE_TRIES);
      for (int32_t order = 1; order <= 2; order++)
        decided[order - 1][class] += derivative_score_of(&x, op)->order[class] >= order;
    }
    for (int32_t order = 1; order <= 2; order++) unknown += missing(&x, op, order);
  }
  print_message(
      "%d calls; of %d derivatives declared %d were decided in f64 (%d in second order), %d in complex128 (%d)\n",
      (int)x.calls, (int)declared, (int)decided[0][0], (int)decided[1][0], (int)decided[0][1], (int)decided[1][1]);
  assert_int_equal(x.failed, 0);
  assert_int_equal(unknown, 0);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_row)};
  return TC_RUN(tests);
}
