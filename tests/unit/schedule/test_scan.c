// Running sums, products and extremes through lowering, scheduling and emission, on every device of the interpreter.
#include "tests/unit/schedule/pipeline.h"

// One op over one input, whose sizes are symbolic with the given hints.
static tc_status scanned(tc_arena *arena, const char *op, const char *dtype, int32_t rows, int32_t columns, int32_t dim,
                         tolerance tol) {
  bool pair = strstr(op, "max") || strstr(op, "min");
  bool wide = (strcmp(op, "cumsum") == 0 || strcmp(op, "cumprod") == 0) && !strchr("fc", dtype[0]) &&
              strcmp(dtype, "bf16") != 0;
  // Symbols need a hint; empty tensors have constant sizes.
  bool symbols = rows > 0 && columns > 0;
  const char *to = wide ? "i64" : dtype;
  char text[1024], sizes[64], head[128] = "";
  if (symbols) snprintf(head, sizeof head, "[s0 in [0, 4096] hint %d, s1 in [0, 4096] hint %d] ", rows, columns);
  if (symbols) snprintf(sizes, sizeof sizes, "[s0, s1]");
  else snprintf(sizes, sizeof sizes, "[%d, %d]", (int)rows, (int)columns);
  snprintf(text, sizeof text,
           "graph @f %s(%%x : %s%s = user \"x\") {\n  %%y : %s%s%s%s = aten::%s(%%x, %d)\n  return user %%y%s\n}\n",
           head, dtype, sizes, to, sizes, pair ? ", %z : i64" : "", pair ? sizes : "", op, (int)dim,
           pair ? ", user %z" : "");
  return pipeline_all(arena, text, tol, 0);
}

TC_TEST(every_kind_along_and_across) {
  static const char *const kinds[] = {"cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"};
  uint64_t seed = tc_test_seed();
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    for (int32_t dim = 0; dim < 2; dim++) {
      for (int32_t i = 0; i < 2; i++) {
        int32_t rows = 1 + (int32_t)(tc_test_random(&seed) % 40), columns = 1 + (int32_t)(tc_test_random(&seed) % 300);
        TC_TRY(scanned(arena, kinds[k], "f32", rows, columns, dim, closely), "%s of %d × %d along %d", kinds[k],
               (int)rows, (int)columns, (int)dim);
      }
    }
  }
  return TC_OK;
}

TC_TEST(every_type) {
  static const char *const exact[] = {"bool", "u8", "i8", "i16", "i32", "i64"};
  for (size_t t = 0; t < sizeof exact / sizeof *exact; t++) {
    TC_TRY(scanned(arena, "cumsum", exact[t], 3, 130, 1, exactly), "%s", exact[t]);
    TC_TRY(scanned(arena, "cummin", exact[t], 3, 130, 1, exactly), "%s", exact[t]);
    TC_TRY(scanned(arena, "cummax", exact[t], 9, 20, 0, exactly), "%s", exact[t]);
  }
  static const tolerance half = {.eps = 2e-2, .least = 2e-2};
  TC_TRY(scanned(arena, "cumsum", "bf16", 3, 70, 1, half));
  TC_TRY(scanned(arena, "cummax", "f16", 3, 70, 1, exactly));
  TC_TRY(scanned(arena, "cumprod", "f64", 5, 33, 0, closely));
  return scanned(arena, "cumsum", "c64", 3, 70, 1, closely);
}

TC_TEST(nothing_and_little) {
  static const int32_t sizes[][2] = {{0, 5}, {5, 0}, {1, 1}, {1, 8}, {8, 1}, {2, 64}, {2, 65}, {1, 511}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    for (int32_t dim = 0; dim < 2; dim++)
      TC_TRY(scanned(arena, "cumsum", "i64", sizes[i][0], sizes[i][1], dim, exactly), "%d × %d along %d",
             (int)sizes[i][0], (int)sizes[i][1], (int)dim);
  }
  return TC_OK;
}

// Few long rows are made in chunks: sums, their scan, the scan.
TC_TEST(long_rows_in_chunks) {
  TC_TRY(pipeline_all(arena,
                      "graph @f (%x : i32[70001] = user \"x\") {\n"
                      "  %y : i64[70001] = aten::cumsum(%x, 0)\n  return user %y\n}\n",
                      exactly, 3));
  return pipeline_all(arena,
                      "graph @f [s0 in [1, 100000] hint 65537] (%x : f32[2, s0] = user \"x\") {\n"
                      "  %y : f32[2, s0] = aten::cumsum(%x, 1)\n  return user %y\n}\n",
                      closely, 3);
}

// What follows a scan runs in its stores; a mean of the row in the same kernel.
TC_TEST(what_follows_is_fused) {
  return pipeline_all(arena,
                      "graph @f (%x : f32[6, 50] = user \"x\", %w : f32[50] = user \"w\") {\n"
                      "  %a : f32[6, 50] = aten::cumsum(%x, 1)\n  %b : f32[6, 50] = aten::mul.Tensor(%a, %w)\n"
                      "  %y : f32[6, 50] = aten::relu(%b)\n  return user %y\n}\n",
                      closely, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_kind_along_and_across), cmocka_unit_test(every_type),
                                     cmocka_unit_test(nothing_and_little), cmocka_unit_test(long_rows_in_chunks),
                                     cmocka_unit_test(what_follows_is_fused)};
  return TC_RUN(tests);
}
