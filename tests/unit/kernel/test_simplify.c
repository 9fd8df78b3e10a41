// Simplification: text in, text out.
#include "tests/unit/kernel/kernel_test.h"
#include "tests/unit/unit.h"

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

// What all lanes answer alike needs no mask.
KERNEL_TEST(comparisons_of_lanes) {
  becomes(
      arena,
      "  lanes {\n    %l = lane\n    %a = mul %l, 2\n    %b = add %a, 17\n    %c = lt %b, 32\n    %m = sub 7, %l\n"
      "    %d = gt %m, 7\n    %e = load %x[%l] if %c else 0.0\n    store %y[%l], %e\n    store %y[%a], %e if %d\n  }\n",
      "  lanes {\n    %l = lane\n    %e = load %x[%l]\n    store %y[%l], %e\n  }\n");
}

static int64_t below(uint64_t *seed, int64_t n) { return (int64_t)(tc_test_random(seed) % (uint64_t)n); }

// c ± k·lane beside numbers around its ends; large ones, too, of which the product wraps around.
KERNEL_TEST(comparisons_are_the_same) {
  static const char *const ops[] = {"lt", "le", "gt", "ge", "eq", "ne"}, *const sums[] = {"add", "sub"};
  uint64_t seed = tc_test_seed();
  for (int32_t round = 0; round < 300; round++) {
    int64_t k = below(&seed, 9) - 4, c = below(&seed, 41) - 20;
    int64_t at = c + (below(&seed, 3) - 1) * 7 * k + below(&seed, 5) - 2;
    if (below(&seed, 10) == 0) k = 1 << 29, at = below(&seed, 2) ? INT32_MAX - 3 : INT32_MIN + 3;
    tc_sb sb = tc_sb_make(arena);
    tc_sb_putz(&sb, HEAD);
    tc_sb_printf(&sb, "  lanes {\n    %%l = lane\n    %%a = mul %%l, %lld\n    %%b = %s %lld, %%a\n", (long long)k,
                 sums[below(&seed, 2)], (long long)c);
    tc_sb_printf(&sb,
                 "    %%c = %s %%b, %lld\n    %%one = const 1.0 : f32\n    %%v = select %%c, %%one, 2.0\n    store "
                 "%%y[%%l], %%v\n  }\n}\n",
                 ops[below(&seed, 6)], (long long)at);
    tc_kernel *simple, *kernel = kernel_of(arena, sb.text);
    float want[8] = {0}, got[8] = {0}, x[1] = {0};
    tc_karg args[3] = {{.data = x, .count = 1}, {.data = want, .count = 8}, {.bits = 1}};
    CHECK_OK(tc_kernel_simplify(arena, kernel, &simple));
    CHECK_OK(tc_kernel_interpret(tc_system_allocator(), kernel, 1, args, 3, NULL));
    args[1].data = got;
    CHECK_OK(tc_kernel_interpret(tc_system_allocator(), simple, 1, args, 3, NULL));
    if (memcmp(want, got, sizeof want) != 0) fail_msg("differs:\n%s", sb.text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(dead_code),
                                     cmocka_unit_test(loop_invariants),
                                     cmocka_unit_test(known_control_flow),
                                     cmocka_unit_test(nothing_leaves_branches),
                                     cmocka_unit_test(comparisons_of_lanes),
                                     cmocka_unit_test(comparisons_are_the_same)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
