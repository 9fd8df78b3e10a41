// Products of small matrices in all their ways: numbers of matrices that fill no vector, any order of dimensions in
// memory, what comes before and after them, and devices of every kind.
#include "tests/unit/schedule/pipeline.h"

static int32_t up_to(uint64_t *seed, int32_t most) { return 1 + (int32_t)(tc_test_random(seed) % (uint64_t)most); }

// A tensor of three sizes whose dimensions lie in memory in the order given (0 … 5), with gaps between rows.
static void push_type(tc_sb *sb, const char *dtype, const int32_t *sizes, int32_t order, int32_t gap) {
  static const int32_t orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  int32_t strides[3], step = 1;
  for (int32_t i = 2; i >= 0; i--) {
    int32_t d = orders[order][i];
    strides[d] = step;
    step *= sizes[d] + (i == 2 ? gap : 0);
  }
  tc_sb_printf(sb, "%s[%d, %d, %d]{%d, %d, %d}", dtype, (int)sizes[0], (int)sizes[1], (int)sizes[2], (int)strides[0],
               (int)strides[1], (int)strides[2]);
}

// conj(a) · b of `count` matrices, then a function of the result and its sum along rows.
static tc_status batched(tc_arena *arena, const char *dtype, int32_t count, int32_t m, int32_t k, int32_t n,
                         uint64_t *seed, tolerance tol) {
  tc_sb sb = tc_sb_make(arena);
  bool complex = dtype[0] == 'c', around = tc_test_random(seed) % 2;
  tc_sb_printf(&sb, "graph @f (%%a : ");
  int32_t order = (int32_t)(tc_test_random(seed) % 6), gap = up_to(seed, 3) - 1;
  push_type(&sb, dtype, (int32_t[]){count, m, k}, around ? 0 : order, around ? 0 : gap);
  tc_sb_printf(&sb, " = user \"a\", %%b : ");
  push_type(&sb, dtype, (int32_t[]){count, k, n}, (int32_t)(tc_test_random(seed) % 6), up_to(seed, 3) - 1);
  tc_sb_printf(&sb, " = user \"b\") {\n");
  if (around)
    tc_sb_printf(&sb, "  %%p : %s[%d, %d, %d] = aten::%s(%%a)\n", dtype, (int)count, (int)m, (int)k,
                 complex ? "conj_physical" : "neg");
  tc_sb_printf(&sb, "  %%c : %s[%d, %d, %d] = aten::bmm(%%%s, %%b)\n", dtype, (int)count, (int)m, (int)n,
               around ? "p" : "a");
  if (around)
    tc_sb_printf(&sb,
                 "  %%d : %s[%d, %d, %d] = aten::add.Tensor(%%c, %%c)\n  %%e : %s[%d, %d] = aten::sum.dim_IntList(%%d, "
                 "[2])\n  return user %%d, user %%e\n}\n",
                 dtype, (int)count, (int)m, (int)n, dtype, (int)count, (int)m);
  else tc_sb_printf(&sb, "  return user %%c\n}\n");
  return tc_status_note(pipeline_all(arena, sb.text, tol, 0), "in\n%s", sb.text);
}

static const tolerance doubles = {.eps = 1e-12, .least = 1e-13};

TC_TEST(matrices_of_every_size) {
  uint64_t seed = tc_test_seed();
  static const char *const types[] = {"c64", "f32", "c128", "f64"};
  for (int32_t i = 0; i < 12; i++) {
    int32_t most = i % 3 == 0 ? 32 : i % 3 == 1 ? 9 : 4;
    int32_t count = 2 + (int32_t)(tc_test_random(&seed) % 40), m = up_to(&seed, most), k = up_to(&seed, most),
            n = up_to(&seed, most);
    TC_TRY(batched(arena, types[i % 4], count, m, k, n, &seed, i % 4 < 2 ? closely : doubles));
  }
  return TC_OK;
}

TC_TEST(powers_of_two) {
  uint64_t seed = tc_test_seed();
  for (int32_t n = 2; n <= 16; n *= 2) TC_TRY(batched(arena, "c64", 19, n, n, n, &seed, closely));
  return batched(arena, "f32", 33, 4, 4, 4, &seed, closely);
}

TC_TEST(rows_times_one_matrix) {
  uint64_t seed = tc_test_seed();
  static const char *const types[] = {"c64", "f32", "f64"};
  for (int32_t i = 0; i < 6; i++) {
    const char *t = types[i % 3];
    int32_t k = up_to(&seed, i < 3 ? 8 : 32), n = 1 + up_to(&seed, i < 3 ? 7 : 31), rows = up_to(&seed, 200);
    tc_sb sb = tc_sb_make(arena);
    tc_sb_printf(
        &sb,
        "graph @f [s0 in [0, 4096] hint %d] (%%x : %s[s0, %d] = user \"x\", %%w : %s[%d, %d] = user \"w\", %%b "
        ": %s[%d] = user \"b\") {\n  %%y : %s[s0, %d] = aten::linear(%%x, %%w, %%b)\n  return user %%y\n}\n",
        (int)rows, t, (int)k, t, (int)n, (int)k, t, (int)n, t, (int)n);
    TC_TRY(pipeline_all(arena, sb.text, i % 3 == 2 ? doubles : closely, 0), "%d rows, %d by %d of %s", (int)rows,
           (int)k, (int)n, t);
  }
  return TC_OK;
}

TC_TEST(whole_numbers) {
  return pipeline_all(arena,
                      "graph @f (%a : i64[21, 3, 5] = user \"a\", %b : i64[21, 5, 6] = user \"b\") {\n"
                      "  %c : i64[21, 3, 6] = aten::bmm(%a, %b)\n  return user %c\n}\n",
                      exactly, 0);
}

// A count that is not known, also none at all.
TC_TEST(any_number_of_matrices) {
  static const int64_t counts[] = {0, 1, 5, 16, 33};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    pipeline p;
    tc_status s =
        pipeline_open_at(&p, arena,
                         "graph @f [s0 in [0, 4096] hint 40] (%a : c64[s0, 3, 2] = user \"a\", %b : c64[s0, 2, "
                         "3] = user \"b\") {\n  %c : c64[s0, 3, 3] = aten::bmm(%a, %b)\n  return user %c\n}\n",
                         1, &counts[i]);
    for (int32_t d = 0; d < N_DEVICES && s == TC_OK; d++) {
      tc_plan *plan = NULL;
      s = pipeline_compile(&p, &devices[d].props, true, &plan);
      if (s == TC_OK) s = pipeline_check(&p, plan, closely);
    }
    pipeline_close(&p);
    TC_TRY(s, "with %lld matrices", (long long)counts[i]);
  }
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(matrices_of_every_size), cmocka_unit_test(powers_of_two),
      cmocka_unit_test(rows_times_one_matrix),  cmocka_unit_test(whole_numbers),
      cmocka_unit_test(any_number_of_matrices),
  };
  return TC_RUN(tests);
}
