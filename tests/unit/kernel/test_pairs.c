// Products of pairs: what the interpreter makes of dot2, and that the kernel without it computes the same.
#include <math.h>

#include "tests/unit/kernel/kernel_test.h"

enum { COUNT = 64 };

static uint32_t pair_of(float low, float high) {
  return (uint32_t)tc_f64_to_bf16((double)low) | (uint32_t)tc_f64_to_bf16((double)high) << 16;
}

static bool same(float a, float b) { return (isnan(a) && isnan(b)) || a == b; }

KERNEL_TEST(with_and_without) {
  static const char text[] =
      "kernel @k (%x : global i32 readonly, %y : global i32 readonly, %z : global f32 readonly, %o : "
      "global f32) blocks 1 lanes 8 {\n  %b = block\n  lanes {\n    %l = lane\n    %i = fma %b, 8, %l\n"
      "    %p = load %x[%i]\n    %q = load %y[%i]\n    %c = load %z[%i]\n    %r = dot2 %p, %q, %c\n"
      "    store %o[%i], %r\n  }\n}\n";
  uint32_t x[COUNT], y[COUNT];
  float z[COUNT], want[COUNT], got[COUNT];
  for (int32_t i = 0; i < COUNT; i++) { // small integers: no rounding, so no order of the sum shows
    float v[5];
    for (int32_t k = 0; k < 5; k++) v[k] = (float)((i * 37 + k * 59) % 201 - 100);
    if (i == 3) v[0] = NAN;
    if (i == 5) v[1] = INFINITY, v[3] = 2;
    x[i] = pair_of(v[0], v[1]), y[i] = pair_of(v[2], v[3]), z[i] = v[4];
    want[i] = v[4] + v[0] * v[2] + v[1] * v[3];
  }
  tc_karg args[4] = {{.data = x, .count = COUNT},
                     {.data = y, .count = COUNT},
                     {.data = z, .count = COUNT},
                     {.data = got, .count = COUNT}};
  tc_kernel *k = kernel_of(arena, text), *plain, *again;
  for (int32_t expanded = 0; expanded < 2; expanded++) {
    if (expanded) {
      CHECK_OK(tc_kernel_expand_pairs(arena, k, &plain));
      CHECK_OK(tc_kernel_verify_plain(plain));
      tc_sb sb = tc_sb_make(arena);
      tc_kernel_print(&sb, plain);
      assert_null(strstr(sb.text, "dot2"));
      CHECK_OK(tc_kernel_expand_pairs(arena, plain, &again));
      assert_ptr_equal(again, plain);
      k = plain;
    }
    memset(got, 0, sizeof got);
    CHECK_OK(tc_kernel_interpret(tc_system_allocator(), k, COUNT / 8, args, 4, NULL));
    for (int32_t i = 0; i < COUNT; i++)
      if (!same(got[i], want[i])) fail_msg("%d: %g instead of %g", i, (double)got[i], (double)want[i]);
  }
}

KERNEL_TEST(types) {
  tc_kb *b = tc_kb_create(arena, TC_SV("k"), 1);
  tc_kval i = tc_kb_int(b, TC_I32, 1), f = tc_kb_real(b, TC_F32, 1);
  assert_true(tc_kb_op3(b, TC_K_DOT2, i, i, f) >= 0);
  assert_int_equal(tc_kb_op3(b, TC_K_DOT2, i, f, f), -1);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(with_and_without), cmocka_unit_test(types)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
