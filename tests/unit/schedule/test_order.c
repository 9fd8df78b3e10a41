// Sorting, and writing at positions, through lowering, scheduling and emission, on every device of the interpreter.
#include "tests/unit/schedule/pipeline.h"

static tc_status sorted(tc_arena *arena, const char *dtype, int32_t rows, int32_t columns, int32_t dim,
                        bool descending) {
  char text[700], n[64];
  snprintf(n, sizeof n, "[s0, s1]");
  snprintf(text, sizeof text,
           "graph @f [s0 in [1, 4096] hint %d, s1 in [1, 4096] hint %d] (%%x : %s%s = user \"x\") {\n"
           "  %%v : %s%s, %%i : i64%s = aten::sort(%%x, %d, %s)\n  return user %%v, user %%i\n}\n",
           (int)rows, (int)columns, dtype, n, dtype, n, n, (int)dim, descending ? "true" : "false");
  return pipeline_all(arena, text, exactly, 0);
}

TC_TEST(sorting) {
  static const char *const types[] = {"f32", "f64", "bf16", "i64", "i32", "i8", "u8", "bool"};
  uint64_t seed = tc_test_seed();
  for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
    int32_t rows = 1 + (int32_t)(tc_test_random(&seed) % 5), columns = 1 + (int32_t)(tc_test_random(&seed) % 150);
    int32_t dim = (int32_t)(tc_test_random(&seed) % 2), descending = (int32_t)(tc_test_random(&seed) % 2);
    TC_TRY(sorted(arena, types[t], rows, columns, dim, descending), "%s of %d × %d along %d", types[t], (int)rows,
           (int)columns, (int)dim);
  }
  for (int32_t n = 1; n < 40; n += 5) TC_TRY(sorted(arena, "f32", 2, n, 1, false), "%d", (int)n);
  return sorted(arena, "f32", 1, 3000, 1, true);
}

TC_TEST(the_first_ones) {
  static const char *const types[] = {"f32", "f64", "i64", "bf16"};
  for (int32_t k = 1, t = 0; k < 90; k = k * 3 + 1, t++) {
    const char *type = types[t % 4];
    char text[400];
    snprintf(text, sizeof text,
             "graph @f (%%x : %s[3, 700] = user \"x\") {\n  %%v : %s[3, %d], %%i : i64[3, %d] = aten::topk(%%x, %d)\n"
             "  return user %%v, user %%i\n}\n",
             type, type, (int)k, (int)k, (int)k);
    TC_TRY(pipeline_all(arena, text, exactly, 0), "%d", (int)k);
  }
  return TC_OK;
}

// Positions are made from random numbers by arithmetic, so that they are in range.
TC_TEST(scattering) {
  static const char *const along[] = {"scatter.src(%x, DIM, %p, %s)", "scatter_add(%x, DIM, %p, %s)",
                                      "scatter_reduce.two(%x, DIM, %p, %s, \"amax\", include_self=false)"};
  uint64_t seed = tc_test_seed();
  for (size_t k = 0; k < sizeof along / sizeof *along; k++) {
    for (int32_t dim = 0; dim < 2; dim++) {
      int32_t size[2], index[2];
      for (int32_t d = 0; d < 2; d++) {
        size[d] = 1 + (int32_t)(tc_test_random(&seed) % 30);
        index[d] = d == dim ? 1 + (int32_t)(tc_test_random(&seed) % 50)
                            : 1 + (int32_t)(tc_test_random(&seed) % (uint32_t)size[d]);
      }
      tc_sb sb = tc_sb_make(arena);
      const char *at = strstr(along[k], "DIM");
      tc_sb_printf(
          &sb,
          "graph @f (%%x : f32[%d, %d] = user \"x\", %%i : i64[%d, %d] = user \"i\", %%s : f32[%d, %d] = user "
          "\"s\") {\n  %%p : i64[%d, %d] = aten::remainder.Scalar(%%i, %d)\n  %%y : f32[%d, %d] = aten::%.*s%d%s\n"
          "  return user %%y\n}\n",
          (int)size[0], (int)size[1], (int)index[0], (int)index[1], (int)index[0], (int)index[1], (int)index[0],
          (int)index[1], (int)size[dim], (int)size[0], (int)size[1], (int)(at - along[k]), along[k], (int)dim, at + 3);
      TC_TRY(pipeline_all(arena, sb.text, closely, 0), "%s", sb.text);
    }
  }
  return TC_OK;
}

TC_TEST(putting) {
  TC_TRY(pipeline_all(arena,
                      "graph @f [s0 in [1, 99] hint 13] (%x : f32[7, 5, 20] = user \"x\", %i : i64[s0] = user \"i\", "
                      "%j : i64[s0] = user \"j\", %s : f32[s0, 20] = user \"s\") {\n"
                      "  %p : i64[s0] = aten::remainder.Scalar(%i, 7)\n  %q : i64[s0] = aten::remainder.Scalar(%j, 5)\n"
                      "  %r : i64[s0] = aten::sub.Scalar(%q, 5)\n"
                      "  %y : f32[7, 5, 20] = aten::index_put(%x, [%p, %r], %s)\n"
                      "  %z : f32[7, 5, 20] = aten::index_put(%x, [%p, %r], %s, true)\n"
                      "  return user %y, user %z\n}\n",
                      closely, 0));
  return pipeline_all(arena,
                      "graph @f (%x : bf16[40, 33] = user \"x\", %i : i64[64] = user \"i\", %s : bf16[64, 33] = user "
                      "\"s\") {\n  %p : i64[64] = aten::remainder.Scalar(%i, 3)\n"
                      "  %y : bf16[40, 33] = aten::index_add(%x, 0, %p, %s, alpha=2)\n  return user %y\n}\n",
                      (tolerance){.eps = 2e-2, .least = 2e-2}, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(sorting), cmocka_unit_test(the_first_ones),
                                     cmocka_unit_test(scattering), cmocka_unit_test(putting)};
  return TC_RUN(tests);
}
