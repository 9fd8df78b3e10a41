// How long symbolic work takes for a graph of ten thousand nodes. It prints times and asserts results, not times: a
// machine may be busy.
#include "core/base/fs.h"
#include "tests/unit/symbolic/sym_test.h"

enum { GRAPH = 10000, RANK = 4 };

static const tc_sym *loop_variable(tc_sym_ctx *c, const tc_sym *extent) {
  const tc_sym *i = tc_sym_fresh(c, "i", TC_SYM_LOOP);
  tc_sym_info *info = tc_sym_info_of(c, i);
  info->lo = 0;
  info->hi_expr = tc_sym_addi(c, extent, -1);
  return i;
}

static const tc_sym *linear_index(tc_sym_ctx *c, const tc_sym *const *index, const tc_sym *const *size, int32_t rank) {
  const tc_sym *e = tc_sym_int(c, 0), *stride = tc_sym_int(c, 1);
  for (int32_t d = rank; d-- > 0;) {
    e = tc_sym_add(c, e, tc_sym_mul(c, index[d], stride));
    stride = tc_sym_mul(c, stride, size[d]);
  }
  return e;
}

// Each node merges all dimensions and splits them again: four loop variables, four divisions and remainders by products
// of symbolic and constant sizes, four comparisons with the extents.
TC_TEST(reshapes_of_a_large_graph) {
  tc_sym_ctx *c = tc_sym_create(arena);
  uint64_t seed = tc_test_seed();
  const tc_sym *sizes[8];
  static const int64_t widths[] = {64, 128, 12, 3};
  for (int32_t i = 0; i < 4; i++) {
    sizes[i] = tc_sym_fresh(c, "s", TC_SYM_BACKED);
    tc_sym_info_of(c, sizes[i])->lo = 1;
    sizes[4 + i] = tc_sym_int(c, widths[i]);
  }
  double start = tc_now_ms();
  for (int32_t n = 0; n < GRAPH; n++) {
    const tc_sym *size[RANK], *index[RANK];
    for (int32_t d = 0; d < RANK; d++) {
      size[d] = sizes[tc_test_random(&seed) % 8];
      index[d] = loop_variable(c, size[d]);
    }
    const tc_sym *left = linear_index(c, index, size, RANK);
    for (int32_t d = RANK; d-- > 0;) {
      const tc_sym *at = d ? tc_sym_mod(c, left, size[d]) : left;
      left = tc_sym_floordiv(c, left, size[d]);
      if (at != index[d]) fail_msg("%s instead of %s", sym_text(c, at), sym_text(c, index[d]));
      assert_int_equal(tc_sym_prove(c, tc_sym_cmp(c, TC_SYM_LT, at, size[d])), 1);
    }
  }
  print_message("%d reshapes: %.1f ms, %.1f MB, %d symbols\n", GRAPH, tc_now_ms() - start,
                (double)tc_arena_used(arena) / 1e6, (int)tc_sym_symbol_count(c));
  return TC_OK;
}

// Divisions that cannot be simplified cost a failing proof each; equal questions are answered from the caches.
TC_TEST(divisions_that_stay) {
  tc_sym_ctx *c = tc_sym_create(arena);
  const tc_sym *s0 = sym_range(c, "s0", 1, TC_SYM_INF, NULL, NULL), *s1 = sym_range(c, "s1", 1, TC_SYM_INF, NULL, NULL);
  double start = tc_now_ms();
  for (int32_t n = 0; n < GRAPH; n++) {
    const tc_sym *i = loop_variable(c, s0), *j = loop_variable(c, tc_sym_muli(c, s1, 3));
    const tc_sym *at = tc_sym_add(c, tc_sym_mul(c, i, s0), j);
    const tc_sym *q = tc_sym_floordiv(c, at, s1), *r = tc_sym_mod(c, at, s1);
    assert_ptr_equal(tc_sym_add(c, tc_sym_mul(c, q, s1), r), at);
  }
  print_message("%d pairs of divisions: %.1f ms, %.1f MB\n", GRAPH, tc_now_ms() - start,
                (double)tc_arena_used(arena) / 1e6);
  return TC_OK;
}

TC_TEST(sums_of_shapes) {
  tc_sym_ctx *c = tc_sym_create(arena);
  const tc_sym *s[6], *total = tc_sym_int(c, 0);
  for (int32_t i = 0; i < 6; i++) {
    s[i] = tc_sym_fresh(c, "s", TC_SYM_BACKED);
    tc_sym_info_of(c, s[i])->lo = 1;
    tc_sym_info_of(c, s[i])->hint = 7;
  }
  uint64_t seed = tc_test_seed();
  double start = tc_now_ms();
  int64_t want = 0;
  for (int32_t n = 0; n < 10 * GRAPH; n++) {
    const tc_sym *a = s[tc_test_random(&seed) % 6], *b = s[tc_test_random(&seed) % 6];
    total = tc_sym_add(c, total, tc_sym_muli(c, tc_sym_mul(c, a, b), 4 + n % 3));
    want += 49 * (4 + n % 3);
  }
  int64_t got = 0;
  assert_true(tc_sym_hint(c, total, &got));
  assert_int_equal(got, want);
  print_message("%d sizes summed: %.1f ms, %.1f MB\n", 10 * GRAPH, tc_now_ms() - start,
                (double)tc_arena_used(arena) / 1e6);
  tc_sym_code code = tc_sym_compile(arena, total);
  int64_t values[6] = {1, 2, 3, 4, 5, 6}, sum = 0;
  start = tc_now_ms();
  for (int32_t n = 0; n < GRAPH; n++) {
    values[0] = n;
    assert_ok(tc_sym_run(code, values, &got));
    sum += got & 1;
  }
  print_message("compiled code of %d words: %.3f us a run (%lld)\n", (int)code.n, (tc_now_ms() - start) * 1e3 / GRAPH,
                (long long)sum);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(reshapes_of_a_large_graph), cmocka_unit_test(divisions_that_stay),
                                     cmocka_unit_test(sums_of_shapes)};
  return TC_RUN(tests);
}
