// Rows that several phases read: kept in registers where lanes are threads, whatever their length.
#include "tests/unit/schedule/pipeline.h"

static tc_status norm(tc_arena *arena, const char *type, int64_t rows, int64_t n) {
  tc_sv text =
      tc_sv_printf(arena,
                   "graph @norm (%%x : %s[%d, %d] = user \"x\", %%y : %s[%d, %d] = user \"y\", %%w : %s[%d] = user "
                   "\"w\", %%b : %s[%d] = user \"b\") {\n"
                   "  %%s = aten::add.Tensor(%%x, %%y)\n"
                   "  %%n = aten::layer_norm(%%s, [%d], %%w, %%b, 1e-05, false)\n"
                   "  return user %%n\n}\n",
                   type, (int)rows, (int)n, type, (int)rows, (int)n, type, (int)n, type, (int)n, (int)n);
  static const tolerance half = {.eps = 1e-2, .least = 1e-2};
  return tc_status_note(pipeline_all(arena, text.data, type[0] == 'b' ? half : closely, 0), "rows of %d", (int)n);
}

// Around what one trip of the lanes covers, and beyond what is kept.
TC_TEST(norms) {
  static const int64_t sizes[] = {1, 7, 128, 384, 1000, 1024, 1028, 2048, 4096, 4100, 12288, 40000};
  uint64_t seed = tc_test_seed();
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    if (sizes[i] > 1028 && tc_test_random(&seed) % 2) continue; // the interpreter is slow
    TC_TRY(norm(arena, tc_test_random(&seed) % 2 ? "f32" : "bf16", 2, sizes[i]));
  }
  return TC_OK;
}

TC_TEST(complex_rows) {
  return pipeline_all(arena,
                      "graph @c (%x : c64[3, 1024] = user \"x\") {\n"
                      "  %m = aten::mean.dim(%x, [1], true)\n  %d = aten::sub.Tensor(%x, %m)\n"
                      "  %a = aten::abs(%d)\n  %s = aten::sum.dim_IntList(%a, [1], true)\n"
                      "  %r = aten::div.Tensor(%d, %s)\n  return user %r\n}\n",
                      closely, 0);
}

// Two reductions over rows, and a value between them that is worth keeping.
TC_TEST(softmax) {
  TC_TRY(pipeline_all(arena,
                      "graph @s (%x : f32[3, 2048] = user \"x\") {\n"
                      "  %s = aten::softmax.int(%x, -1)\n  %l = aten::log_softmax.int(%x, -1)\n"
                      "  %r = aten::add.Tensor(%s, %l)\n  return user %r\n}\n",
                      closely, 0));
  return TC_OK;
}

// The same row read forwards and backwards, two dimensions reduced, and rows that a mask makes shorter.
TC_TEST(other_reads) {
  TC_TRY(pipeline_all(
      arena,
      "graph @f (%x : f32[2, 1024] = user \"x\") {\n"
      "  %m = aten::mean.dim(%x, [1], true)\n  %f = aten::flip(%x, [1])\n"
      "  %d = aten::sub.Tensor(%x, %m)\n  %e = aten::mul.Tensor(%d, %f)\n"
      "  %q = aten::sum.dim_IntList(%e, [1], true)\n  %r = aten::div.Tensor(%d, %q)\n  return user %r\n}\n",
      (tolerance){.eps = 1e-3, .least = 1e-3}, 0));
  return pipeline_all(arena,
                      "graph @g (%x : f32[2, 4, 3, 512] = user \"x\") {\n"
                      "  %m = aten::mean.dim(%x, [1, 3], true)\n  %d = aten::sub.Tensor(%x, %m)\n"
                      "  %v = aten::mul.Tensor(%d, %d)\n  %q = aten::mean.dim(%v, [1, 3], true)\n"
                      "  %p = aten::constant_pad_nd(%d, [0, 512], 0.0)\n"
                      "  %t = aten::sum.dim_IntList(%p, [3], true)\n"
                      "  %r = aten::add.Tensor(%d, %q)\n  %z = aten::add.Tensor(%r, %t)\n  return user %z\n}\n",
                      closely, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(norms), cmocka_unit_test(softmax), cmocka_unit_test(complex_rows),
                                     cmocka_unit_test(other_reads)};
  return TC_RUN(tests);
}
