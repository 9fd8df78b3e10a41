// Short windows (pooling, sums of a few elements), whose lanes run beside them, and what is read in runs behind a
// convolution's stores: the same results as the references', on every device.
#include "tests/unit/schedule/pipeline.h"

#define IMAGE(type) "graph @f (%x : " type "[2, 3, 13, 37] = user \"x\") {\n"
#define END "  return user %y\n}\n"

TC_TEST(pooling) {
  static const char *const programs[] = {
      IMAGE("f32") "  %y = aten::max_pool2d(%x, [3, 3], [2, 2], [1, 1])\n" END,
      IMAGE("bf16") "  %y = aten::max_pool2d(%x, [3, 3], [2, 2], [1, 1])\n" END,
      IMAGE("f32") "  %y = aten::max_pool2d(%x, [2, 2], [2, 2], [0, 0], [1, 1], true)\n" END,
      IMAGE("f32") "  %y = aten::max_pool2d(%x, [2, 3], [1, 3], [0, 1], [2, 2])\n" END,
      IMAGE("i64") "  %y = aten::max_pool2d(%x, [3, 2], [1, 4], [1, 1])\n" END,
      IMAGE("f32") "  %z, %y = aten::max_pool2d_with_indices(%x, [3, 3], [2, 2], [1, 1])\n" END,
      IMAGE("f32") "  %y = aten::avg_pool2d(%x, [3, 3], [2, 2], [1, 1], true, false)\n" END,
      IMAGE("f16") "  %y = aten::avg_pool2d(%x, [2, 5], [2, 9], [1, 2])\n" END,
      IMAGE("f32") "  %a = aten::relu(%x)\n  %p = aten::max_pool2d(%a, [3, 3], [2, 2], [1, 1])\n"
                   "  %y = aten::mul.Tensor(%p, %p)\n" END,
      IMAGE("f32") "  %y = aten::adaptive_avg_pool2d(%x, [13, 12])\n" END,
  };
  for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
    TC_TRY(pipeline_all(arena, programs[i], closely, 0), "program %d", (int)i);
  return TC_OK;
}

TC_TEST(sums_of_a_few) {
  static const char *const programs[] = {
      "graph @f (%x : f32[41, 3] = user \"x\") {\n  %y = aten::sum.dim_IntList(%x, [1])\n" END,
      "graph @f (%x : f32[5, 70, 8] = user \"x\") {\n  %y = aten::amax(%x, [2], true)\n" END,
      "graph @f (%x : bf16[19, 2, 4] = user \"x\") {\n  %y = aten::mean.dim(%x, [1, 2])\n" END,
      "graph @f (%x : f32[33, 9] = user \"x\") {\n  %y = aten::sum.dim_IntList(%x, [1])\n" END,
      "graph @f (%x : f32[40, 4]{1, 40} = user \"x\") {\n  %y = aten::prod.dim_int(%x, 1)\n" END,
      "graph @f (%x : f32[64, 4] = user \"x\") {\n  %y = aten::_softmax(%x, -1, false)\n" END,
  };
  for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
    TC_TRY(pipeline_all(arena, programs[i], closely, 0), "program %d", (int)i);
  return TC_OK;
}

// Whole vectors of channels and fewer, rows that are runs of 16 and shorter ones; operands that lie otherwise, that are
// as wide as one element, and that are read under a condition.
TC_TEST(sums_behind_convolutions) {
#define CONV(out, h, w)                                                                                              \
  "graph @f (%x : f32[2, 5, " h ", " w "] = user \"x\", %w : f32[" out ", 5, 3, 3] = user \"w\", %o : f32[2, " out   \
  ", " h ", " w "] = user \"o\", %r : f32[" w "] = user \"r\", %t : f32[2, " out ", " w ", " h "] = user \"t\") {\n" \
  "  %c = aten::conv2d(%x, %w, none, [1, 1], [1, 1])\n"
  static const char *const programs[] = {
      CONV("32", "7", "16") "  %s = aten::add.Tensor(%c, %o)\n  %y = aten::relu(%s)\n" END,
      CONV("19", "4", "23") "  %s = aten::add.Tensor(%c, %o)\n  %y = aten::mul.Tensor(%s, %o)\n" END,
      CONV("16", "5", "11") "  %s = aten::add.Tensor(%c, %r)\n  %y = aten::relu(%s)\n" END,
      CONV("16", "6", "9") "  %u = aten::transpose.int(%t, 2, 3)\n  %y = aten::add.Tensor(%c, %u)\n" END,
      CONV("16", "4", "12") "  %p = aten::constant_pad_nd(%r, [-2, 2])\n  %y = aten::add.Tensor(%c, %p)\n" END,
      CONV("24", "3", "14") "  %q = aten::flip(%o, [3])\n  %s = aten::add.Tensor(%c, %q)\n"
                            "  %y = aten::add.Tensor(%s, %o)\n" END,
      "graph @f (%x : f32[2, 20, 6, 8] = user \"x\", %w : f32[32, 20, 1, 1] = user \"w\", %o : f32[2, 32, 6, 8] = user "
      "\"o\") {\n  %c = aten::conv2d(%x, %w)\n  %s = aten::add.Tensor(%c, %o)\n  %y = aten::relu(%s)\n" END,
  };
  for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
    TC_TRY(pipeline_all(arena, programs[i], closely, 0), "program %d", (int)i);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(pooling), cmocka_unit_test(sums_of_a_few),
                                     cmocka_unit_test(sums_behind_convolutions)};
  return TC_RUN(tests);
}
