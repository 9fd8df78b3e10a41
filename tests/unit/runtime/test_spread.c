// What rounding the inputs changes in results: some units in the last place of a copy, of a difference that cancels as
// much as its operands are large, nothing of what does not move; and short memory.
#include <math.h>

#include "core/ir/spread.h"
#include "tests/unit/runtime/rig.h"

enum { COUNT = 64, MOST = 4 };

typedef struct results {
  tc_tensor wide[MOST], spread[MOST];
} results;

static tc_status open_rig(rig *r, tc_arena *arena, const char *text) {
  TC_TRY(rig_context(r, tc_arena_allocator(arena), "ref", NULL));
  TC_TRY(rig_graph(r, text));
  assert_true(r->graph->outputs.count <= MOST);
  return rig_inputs(r, tc_test_seed());
}

static tc_status find(rig *r, const tc_allocator *a, results *out) {
  *out = (results){0};
  TC_TRY(tc_ref_run(r->graph, a, r->n_inputs, r->inputs, out->wide, &(tc_ref_options){.wide = true}));
  return tc_ref_spread(r->graph, a, r->n_inputs, r->inputs, out->wide, out->spread, NULL);
}

static void drop(results *x) {
  for (int32_t i = 0; i < MOST; i++) {
    tc_tensor_unref(&x->wide[i]);
    tc_tensor_unref(&x->spread[i]);
  }
}

TC_TEST(copies_move_by_units) {
  rig r;
  results x;
  TC_TRY(open_rig(&r, arena,
                  "graph @f (%x : f32[64] = user \"x\", %y : f32[64] = user \"y\") {\n"
                  "%c = aten::neg(%x)\n%z = aten::mul.Scalar(%y, 1000.0)\n%s = aten::add.Tensor(%x, %z)\n"
                  "%d = aten::sub.Tensor(%s, %z)\n%g = aten::gt.Scalar(%x, 0)\nreturn user %c, user %d, user %g }"));
  float *p = tc_tensor_data(&r.inputs[0]), *q = tc_tensor_data(&r.inputs[1]);
  p[7] = 0, p[8] = INFINITY, p[9] = NAN;
  TC_TRY(find(&r, r.allocator, &x));
  assert_null(x.spread[2].storage); // not floating
  assert_int_equal(x.spread[0].dtype, TC_F64);
  const double *copy = tc_tensor_data(&x.spread[0]), *difference = tc_tensor_data(&x.spread[1]);
  double sum = 0;
  for (int32_t i = 0; i < COUNT; i++) {
    double unit = 0x1p-23 * fabs((double)p[i]);
    if (i >= 7 && i <= 9) {
      assert_true(copy[i] == 0);
      continue;
    }
    assert_true(copy[i] <= 2.5 * unit); // and the rounding to f32
    sum += copy[i] / unit;
    assert_true(difference[i] <= 2.5 * unit + 1e-10 * fabs((double)q[i])); // nothing is rounded between
  }
  assert_true(sum > COUNT / 2);
  drop(&x);
  rig_close(&r);
  return TC_OK;
}

// x - y of numbers that are nearly the same, and its logarithm.
static void check_cancelling(tc_arena *arena, const char *text, int32_t parts) {
  rig r;
  results x;
  assert_ok(open_rig(&r, arena, text));
  float *p = tc_tensor_data(&r.inputs[0]), *q = tc_tensor_data(&r.inputs[1]);
  for (int32_t i = 0; i < COUNT * parts; i++) p[i] = fabsf(p[i]) + 1, q[i] = p[i] * (1 - 0x1p-10f);
  assert_ok(find(&r, r.allocator, &x));
  const double *d = tc_tensor_data(&x.spread[0]), *l = tc_tensor_data(&x.spread[1]);
  for (int32_t i = 0; i < COUNT; i++) {
    double size = parts == 2 ? hypot((double)p[2 * i], (double)p[2 * i + 1]) : (double)p[i];
    assert_true(d[i] < 0x1p-20 * size && l[i] < 0x1p-10);
    // Six draws that are all below the hundredth part of what they may be: hardly ever, one of 10^12.
    assert_true(d[i] > 0x1p-29 * size && l[i] > 0x1p-19);
  }
  drop(&x);
  rig_close(&r);
}

TC_TEST(what_cancels_moves_as_its_operands) {
  check_cancelling(arena,
                   "graph @f (%x : f32[64] = user \"x\", %y : f32[64] = user \"y\") {\n%d = aten::sub.Tensor(%x, %y)\n"
                   "%l = aten::log(%d)\nreturn user %d, user %l }",
                   1);
  check_cancelling(arena,
                   "graph @f (%x : c64[64] = user \"x\", %y : c64[64] = user \"y\") {\n%d = aten::sub.Tensor(%x, %y)\n"
                   "%l = aten::log(%d)\nreturn user %d, user %l }",
                   2);
  return TC_OK;
}

TC_TEST(short_memory_leaves_nothing) {
  rig r;
  results x;
  TC_TRY(open_rig(&r, arena,
                  "graph @f (%x : c64[2, 3]{1, 2} = user \"x\", %b : f16[3] = user \"b\") {\n"
                  "%c = aten::mul.Tensor(%x, %b)\n%s = aten::abs(%c)\nreturn user %c, user %s }"));
  for (int64_t n = 1, through = 0; !through; n++) {
    tc_fault_allocator f;
    tc_fault_allocator_init(&f, r.allocator);
    f.fail_at = n;
    tc_status s = find(&r, &f.iface, &x);
    through = s == TC_OK;
    if (!through) assert_int_equal(tc_status_code(s), TC_STATUS_OUT_OF_MEMORY);
    tc_status_free(s);
    drop(&x);
    assert_int_equal(f.live, 0);
  }
  rig_close(&r);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(copies_move_by_units),
                                     cmocka_unit_test(what_cancels_moves_as_its_operands),
                                     cmocka_unit_test(short_memory_leaves_nothing)};
  return TC_RUN(tests);
}
