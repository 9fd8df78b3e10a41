// Simplification: text in, text out.
#include "tests/unit/kernel/kernel_test.h"

#define HEAD "kernel @k (%x : global f32 readonly noalias, %y : global f32 noalias, %n : i32)\n    blocks 1 lanes 8 {\n"

static void becomes(tc_arena *arena, const char *body, const char *expected) {
  tc_kernel *simple, *again;
  CHECK_OK(tc_kernel_simplify(arena, kernel_of(arena, tc_sv_printf(arena, "%s%s}\n", HEAD, body).data), &simple));
  CHECK_OK(tc_kernel_verify(simple));
  const char *text = text_of(arena, simple);
  assert_string_equal(text, tc_sv_printf(arena, "%s%s}\n", HEAD, expected).data);
  CHECK_OK(tc_kernel_simplify(arena, simple, &again));
  assert_string_equal(text_of(arena, again), text);
}

KERNEL_TEST(dead_code) {
  becomes(arena,
          "  %b = block\n  %c = add %b, 1\n  %q, %r = lanes {\n    %l = lane\n    %d = mul %l, %l\n    %e = load "
          "%x[%l]\n    yield %d, %l\n  }\n  %s = reduce.add %r\n"
          "  lanes {\n    %l2 = lane\n    %f, %g = for %i = 0 to %n (%u = %l2, %v = %l2) {\n      %u1 = add %u, 1\n    "
          "  %v1 = mul %v, %u\n      yield %u1, %v1\n    }\n    %h = add %f, %s\n    %hf = cast %h : f32\n    store "
          "%y[%l2], %hf\n  }\n",
          "  %r = lanes {\n    %l = lane\n    yield %l\n  }\n  %s = reduce.add %r\n"
          "  lanes {\n    %l2 = lane\n    %f = for %i = 0 to %n (%u = %l2) {\n      %u1 = add %u, 1\n      yield %u1\n "
          "   }\n    %h = add %s, %f\n    %hf = cast %h : f32\n    store %y[%l2], %hf\n  }\n");
}

KERNEL_TEST(loop_invariants) {
  becomes(
      arena,
      "  lanes {\n    %l = lane\n    for %i = 0 to %n {\n      %a = mul %l, %n\n      for %j = 0 to %n {\n        %c = "
      "add %a, %i\n        %d = add %l, 3\n        %e = add %c, %j\n        %q = div %l, %n\n        %r = div %l, 5\n"
      "        %i2 = add %e, %d\n        %i3 = add %q, %r\n        %i4 = add %i2, %i3\n        store %y[%i4], 1.0\n    "
      "  }\n    }\n  }\n",
      "  lanes {\n    %l = lane\n    %a = mul %l, %n\n    %d = add %l, 3\n    %r = div %l, 5\n    for %i = 0 to %n {\n "
      "     %c = add %a, %i\n      for %j = 0 to %n {\n        %e = add %c, %j\n        %q = div %l, %n\n"
      "        %i2 = add %d, %e\n        %i3 = add %r, %q\n        %i4 = add %i2, %i3\n        store %y[%i4], 1.0\n    "
      "  }\n    }\n  }\n");
}

KERNEL_TEST(known_control_flow) {
  becomes(
      arena,
      "  lanes {\n    %l = lane\n    %z = const 1.0 : f32\n    %a = for %i = 0 to 1 (%s = %z) {\n      %t = add %s, "
      "1.0\n      yield %t\n    }\n    %b = for %j = 4 to 4 (%u = %a) {\n      %w = mul %u, %u\n      yield %w\n    }\n"
      "    %c = if true {\n      yield %b\n    } else {\n      yield %z\n    }\n    %e = load %x[%l]\n    %f = load "
      "%x[%l]\n    %g = add %e, %f\n    %h = add %g, %c\n    store %y[%l], %h\n  }\n",
      "  lanes {\n    %l = lane\n    %e = load %x[%l]\n    %g = add %e, %e\n    %h = add %g, 2.0\n    store %y[%l], "
      "%h\n  }\n");
}

KERNEL_TEST(nothing_leaves_branches) {
  const char *body = "  lanes {\n    %l = lane\n    %c = gt %n, 3\n    if %c {\n      for %i = 0 to %n {\n        %k = "
                     "add %l, %i\n        store %y[%k], 1.0\n      }\n    }\n  }\n";
  becomes(arena, body, body);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(dead_code), cmocka_unit_test(loop_invariants),
                                     cmocka_unit_test(known_control_flow), cmocka_unit_test(nothing_leaves_branches)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
