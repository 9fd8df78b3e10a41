// Convolutions as kernels against the references: the ways that the template has for kernels of size 1 over long rows,
// for several images with large weights, and for depthwise kernels over channels that lie last.
#include <math.h>

#include "tests/unit/runtime/rig.h"

enum { CASES = 12 };

static int64_t draw(uint64_t *seed, int64_t low, int64_t high) {
  return low + (int64_t)(tc_test_random(seed) % (uint64_t)(high - low + 1));
}

static tc_status compare(tc_sv text, uint64_t seed) {
  tc_tensor got, want;
  TC_TRY(rig_run_on("cpu", "never", text.data, seed, NULL, &got, NULL), "of\n%s", text.data);
  TC_TRY(rig_run_on("ref", "never", text.data, seed, NULL, &want, NULL), "of\n%s", text.data);
  const float *x = tc_tensor_data(&got), *y = tc_tensor_data(&want);
  assert_int_equal(tc_tensor_numel(&got), tc_tensor_numel(&want));
  for (int64_t i = 0; i < tc_tensor_numel(&want); i++)
    if (!(fabs((double)x[i] - (double)y[i]) <= 1e-4 * (1 + fabs((double)y[i]))))
      fail_msg("element %lld is %g, not %g, of\n%s", (long long)i, (double)x[i], (double)y[i], text.data);
  tc_tensor_unref(&got), tc_tensor_unref(&want);
  return TC_OK;
}

static tc_sv graph_of(tc_arena *arena, const int64_t x[4], int64_t out, int64_t k, int64_t padding, bool sum) {
  long long h = x[2] + 2 * padding - k + 1, w = x[3] + 2 * padding - k + 1;
  return tc_sv_printf(arena,
                      "graph @g (%%x : f32[%lld, %lld, %lld, %lld] = user \"x\", %%w : f32[%lld, %lld, %lld, %lld] = "
                      "user \"w\", %%b : f32[%lld] = user \"b\", %%o : f32[%lld, %lld, %lld, %lld] = user \"o\") {\n"
                      "  %%c = aten::conv2d(%%x, %%w, %%b, [1, 1], [%lld, %lld], [1, 1], 1)\n"
                      "  %%a = %s\n  %%r = aten::relu(%%a)\n  return user %%r\n}\n",
                      (long long)x[0], (long long)x[1], (long long)x[2], (long long)x[3], (long long)out,
                      (long long)x[1], (long long)k, (long long)k, (long long)out, (long long)x[0], (long long)out, h,
                      w, (long long)padding, (long long)padding, sum ? "aten::add.Tensor(%c, %o)" : "aten::neg(%c)");
}

TC_TEST(long_rows) {
  uint64_t seed = tc_test_seed();
  for (int32_t i = 0; i < CASES; i++) {
    int64_t x[4] = {draw(&seed, 1, 3), draw(&seed, 1, 40), draw(&seed, 20, 45), draw(&seed, 52, 70)};
    TC_TRY(compare(graph_of(arena, x, draw(&seed, 8, 50), 1, 0, draw(&seed, 0, 1) != 0), seed));
  }
  return TC_OK;
}

TC_TEST(many_weights) {
  uint64_t seed = tc_test_seed();
  for (int32_t i = 0; i < CASES; i++) {
    int64_t x[4] = {draw(&seed, 2, 4), draw(&seed, 20, 80), draw(&seed, 1, 7), draw(&seed, 1, 7)};
    TC_TRY(compare(graph_of(arena, x, draw(&seed, 100, 260), 3, 1, draw(&seed, 0, 1) != 0), seed));
  }
  return TC_OK;
}

// Depthwise over channels that lie last.
TC_TEST(each_channel_alone) {
  uint64_t seed = tc_test_seed();
  for (int32_t i = 0; i < CASES; i++) {
    long long k = draw(&seed, 1, 7), stride = draw(&seed, 1, 2), padding = draw(&seed, 0, 3);
    long long dilation = k < 5 ? 1 + stride : 1, least = dilation * (k - 1) + 1; // kernels fit without padding
    long long n = draw(&seed, 1, 3), c = draw(&seed, 8, 70), h = draw(&seed, 8, 20), w = least + draw(&seed, 0, 12);
    tc_sv text =
        tc_sv_printf(arena,
                     "graph @g (%%x0 : f32[%lld, %lld, %lld, %lld] = user \"x\", %%w : f32[%lld, 1, %lld, %lld] "
                     "= user \"w\", %%b : f32[%lld] = user \"b\") {\n"
                     "  %%x = aten::permute(%%x0, [0, 3, 1, 2])\n"
                     "  %%c = aten::conv2d(%%x, %%w, %s, [%lld, 1], [%lld, %lld], [1, %lld], %lld)\n"
                     "  %%r = aten::relu(%%c)\n  return user %%r\n}\n",
                     n, h, w, c, c, k, k, c, draw(&seed, 0, 1) ? "%b" : "none", stride, padding, padding, dilation, c);
    TC_TRY(compare(text, seed));
  }
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(long_rows), cmocka_unit_test(many_weights),
                                     cmocka_unit_test(each_channel_alone)};
  return TC_RUN(tests);
}
