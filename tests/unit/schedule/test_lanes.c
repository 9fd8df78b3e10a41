// Devices whose lanes are threads and whose blocks have few of them, down to one: no kernel has more, and the results
// stay the same.
#include "core/kernel/ir.h"
#include "tests/unit/schedule/pipeline.h"

static const char *const programs[] = {
    "graph @product (%x : f32[33, 20] = user \"x\", %y : f32[20, 47] = user \"y\") {\n"
    "  %a : f32[33, 47] = aten::mm(%x, %y)\n  %z : f32[33, 47] = aten::relu(%a)\n  return user %z\n}\n",
    "graph @complex_product (%x : c64[7, 20] = user \"x\", %y : c64[20, 70] = user \"y\") {\n"
    "  %z : c64[7, 70] = aten::mm(%x, %y)\n  return user %z\n}\n",
    "graph @conv (%x : f32[2, 4, 9, 11] = user \"x\", %w : f32[6, 4, 3, 3] = user \"w\") {\n"
    "  %z : f32[2, 6, 9, 11] = aten::conv2d(%x, %w, none, [1, 1], [1, 1])\n  return user %z\n}\n",
    "graph @depthwise (%x : f32[2, 4, 9, 11] = user \"x\", %w : f32[4, 1, 3, 3] = user \"w\") {\n"
    "  %z : f32[2, 4, 9, 11] = aten::conv2d(%x, %w, none, [1, 1], [1, 1], [1, 1], 4)\n  return user %z\n}\n",
    "graph @attention (%q : f32[1, 2, 9, 16] = user \"q\", %k : f32[1, 2, 9, 16] = user \"k\", %v : f32[1, 2, 9, 16] = "
    "user \"v\") {\n  %z : f32[1, 2, 9, 16] = aten::scaled_dot_product_attention(%q, %k, %v)\n  return user %z\n}\n",
    "graph @norm (%x : f32[5, 130] = user \"x\") {\n  %z : f32[5, 130] = aten::_softmax(%x, -1, false)\n"
    "  %s : f32[130] = aten::sum.dim_IntList(%x, [0])\n  return user %z, user %s\n}\n",
    "graph @sort (%x : f32[3, 77] = user \"x\") {\n  %c : f32[3, 77] = aten::cumsum(%x, 1)\n"
    "  %z : f32[3, 77], %i : i64[3, 77] = aten::sort(%c, -1, true)\n  return user %z\n}\n",
    "graph @turned (%x : f32[40, 30] = user \"x\") {\n  %w : f32[30, 40]{1, 30} = aten::permute(%x, [1, 0])\n"
    "  %z : f32[30, 40] = aten::contiguous(%w)\n  return user %z\n}\n",
};

static tc_status run_on(tc_arena *arena, const char *text, const tc_device_props *device) {
  pipeline p;
  tc_plan *plan = NULL;
  tc_status s = pipeline_open(&p, arena, text);
  if (s == TC_OK) s = pipeline_compile(&p, device, true, &plan);
  for (int32_t i = 0; s == TC_OK && i < plan->kernels.count; i++) {
    int32_t lanes = tc_k_lanes(plan->kernels.data[i]->kernel);
    if (lanes > device->max_lanes) s = tc_error(TC_STATUS_MISMATCH, "a kernel has %d lanes", (int)lanes);
  }
  if (s == TC_OK) s = pipeline_check(&p, plan, closely);
  pipeline_close(&p);
  return s;
}

TC_TEST(blocks_of_few_lanes) {
  static const int32_t most[] = {1, 2, 5, 16, 48};
  for (size_t l = 0; l < sizeof most / sizeof *most; l++) {
    tc_device_props threads = {.max_lanes = most[l], .cores = 2, .shared_bytes = 32768, .bytes_per_ns = 20};
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
      TC_TRY(run_on(arena, programs[i], &threads), "program %d, at most %d lanes", (int)i, (int)most[l]);
  }
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(blocks_of_few_lanes)};
  return TC_RUN(tests);
}
