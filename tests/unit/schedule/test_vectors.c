// What vectors of 64 bytes change: a table of powers is a register, and convolutions of kernels of size 1 read bf16 as
// they lie.
#include "tests/unit/schedule/pipeline.h"

typedef struct compiled {
  pipeline p;
  tc_plan *plan;
  tc_sb text; // all kernels
} compiled;

static tc_status compile_for(tc_arena *arena, int32_t simd_bytes, const char *text, compiled *out) {
  tc_device_props device = devices[0].props;
  device.simd_bytes = simd_bytes;
  *out = (compiled){.text = tc_sb_make(arena)};
  TC_TRY(pipeline_open(&out->p, arena, text));
  TC_TRY(pipeline_compile(&out->p, &device, true, &out->plan));
  for (int32_t i = 0; i < out->plan->kernels.count; i++)
    if (out->plan->kernels.data[i]->kernel) tc_kernel_print(&out->text, out->plan->kernels.data[i]->kernel);
  return TC_OK;
}

static tc_status close_checked(compiled *c, tolerance tol) {
  tc_status s = pipeline_check(&c->p, c->plan, tol);
  pipeline_close(&c->p);
  return s;
}

static bool has(const compiled *c, const char *what) { return strstr(c->text.text, what) != NULL; }

TC_TEST(tables_are_registers) {
  static const char *const bodies[] = {"exp(%x)", "exp2(%x)", "gelu(%x, \"tanh\")", "softmax.int(%x, 1)"};
  for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
    for (int32_t bytes = 32; bytes <= 64; bytes *= 2) {
      char text[200];
      snprintf(text, sizeof text,
               "graph @f (%%x : f32[7, 67] = user \"x\") {\n  %%r = aten::%s\n  return user %%r\n}\n", bodies[i]);
      compiled c;
      TC_TRY(compile_for(arena, bytes, text, &c));
      assert_int_equal(has(&c, "powers"), bytes == 64);
      TC_TRY(close_checked(&c, closely), "%s with vectors of %d bytes", bodies[i], bytes);
    }
  return TC_OK;
}

static const char convolution[] =
    "graph @f (%x : bf16[2, 40, 7, 9]{2520, 1, 360, 40} = user \"x\", %w : bf16[64, 40, 1, 1] = user \"w\") {\n"
    "  %r = aten::conv2d(%x, %w, none, [1, 1], [0, 0], [1, 1], 1)\n  return user %r\n}\n";

// Few output channels of a kernel of size 1: only the weights are packed, the operand is read as it lies.
TC_TEST(narrow_operands) {
  for (int32_t bytes = 32; bytes <= 64; bytes *= 2) {
    compiled c;
    TC_TRY(compile_for(arena, bytes, convolution, &c));
    assert_int_equal(c.plan->ops.count, bytes == 64 ? 2 : 3);
    TC_TRY(close_checked(&c, (tolerance){.eps = 1e-2, .least = 1e-2}));
  }
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(tables_are_registers), cmocka_unit_test(narrow_operands)};
  return TC_RUN(tests);
}
