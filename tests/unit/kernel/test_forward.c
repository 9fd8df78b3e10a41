// Forwarding of shared memory that is a lane's own.
#include "tests/unit/kernel/kernel_test.h"

#define HEAD "kernel @k (%x : global f32 readonly noalias, %y : global f32 noalias)\n    blocks 1 lanes 8 {\n"

// Two of a lane's elements are stored in shared memory; the lines given load %q from it.
static tc_kernel *kernel_with(tc_arena *arena, const char *load) {
  static const char before[] = HEAD "  shared %s : f32[32]\n  lanes {\n    %l = lane\n    %a = add %l, 8\n    %b = add "
                                    "%a, 16\n    %v = load %x[%l]\n    "
                                    "%w = load %x[%b]\n    store %s[%l], %v\n    store %s[%b], %w\n  }\n  barrier\n  "
                                    "lanes {\n    %m = lane\n    %r = sub "
                                    "7, %m\n";
  return kernel_of(arena, tc_sv_printf(arena, "%s%s    store %%y[%%m], %%q\n  }\n}\n", before, load).data);
}

static void run_both(tc_arena *arena, tc_kernel *k, tc_kernel *made) {
  float x[32], want[8] = {0}, got[8] = {0};
  for (int32_t i = 0; i < 32; i++) x[i] = (float)(i * i + 1);
  tc_karg args[2] = {{.data = x, .count = 32}, {.data = want, .count = 8}};
  CHECK_OK(tc_kernel_interpret(tc_system_allocator(), k, 1, args, 2, NULL));
  args[1].data = got;
  CHECK_OK(tc_kernel_interpret(tc_system_allocator(), made, 1, args, 2, NULL));
  assert_memory_equal(want, got, sizeof got);
  (void)arena;
}

KERNEL_TEST(own_elements) {
  tc_kernel *k = kernel_with(arena, "    %i = add 24, %m\n    %q = load %s[%i]\n"), *made, *again;
  tc_kernel_stats stats;
  CHECK_OK(tc_kernel_forward(arena, k, &made));
  CHECK_OK(tc_kernel_verify(made));
  tc_kernel_count(made, &stats);
  assert_int_equal(stats.shared_bytes, 0);
  assert_non_null(strstr(text_of(arena, made), "lane_array %s : f32[2]"));
  assert_non_null(strstr(text_of(arena, made), "store %s[1], %w"));
  run_both(arena, k, made);
  CHECK_OK(tc_kernel_forward(arena, made, &again));
  assert_ptr_equal(again, made);
}

// Elements from both ends, and one in the middle that is the first lane's.
KERNEL_TEST(mirrored_elements) {
  tc_kernel *made,
      *k = kernel_of(arena, HEAD "  shared %s : f32[32]\n  lanes {\n    %l = lane\n    %a = sub 31, %l\n    "
                                 "%c = eq %l, 0\n    %v = load %x[%l]\n    %w = load %x[%a]\n    "
                                 "store %s[%l], %v\n    store %s[%a], %w\n    "
                                 "store %s[16], %v if %c\n  }\n  barrier\n  lanes {\n    %m = lane\n    "
                                 "%d = eq %m, 0\n    %e = sub 31, %m\n    %p = load %s[%m]\n    "
                                 "%q = load %s[%e]\n    %r = load %s[16] if %d else 1.0\n    "
                                 "%t = sub %p, %q\n    %u = add %t, %r\n    store %y[%m], %u\n  }\n}\n");
  tc_kernel_stats stats;
  CHECK_OK(tc_kernel_forward(arena, k, &made));
  CHECK_OK(tc_kernel_verify(made));
  tc_kernel_count(made, &stats);
  assert_int_equal(stats.shared_bytes, 0);
  run_both(arena, k, made);
}

// Another lane's element, one that is nobody's by a rule, and several at once.
KERNEL_TEST(what_stays) {
  static const char *const indices[] = {
      "    %i = sub 31, %m\n    %q = load %s[%i]\n    %z = sub 30, %m\n    store %s[%z], %q\n",
      "    %q = load %s[16]\n    store %s[16], %q\n", "    %q = load %s[%r]\n",
      "    %i = add %m, 1\n    %c = lt %m, 7\n    %q = load %s[%i] if %c else 0.0\n",
      "    %j = and %m, 7\n    %q = load %s[%j]\n"};
  for (size_t i = 0; i < sizeof indices / sizeof *indices; i++) {
    tc_kernel *k = kernel_with(arena, indices[i]), *made;
    CHECK_OK(tc_kernel_forward(arena, k, &made));
    if (made != k) fail_msg("%s is forwarded:\n%s", indices[i], text_of(arena, made));
  }
  // Too many registers.
  tc_sb sb = tc_sb_make(arena);
  tc_sb_putz(&sb, HEAD "  shared %s : f32[8192]\n  lanes {\n    %l = lane\n");
  for (int32_t i = 0; i < 65; i++)
    tc_sb_printf(&sb, "    %%i%d = add %%l, %d\n    store %%s[%%i%d], 1.0\n", i, 8 * i, i);
  tc_sb_putz(&sb, "    %q = load %s[%l]\n    store %y[%l], %q\n  }\n}\n");
  tc_kernel *made, *k = kernel_of(arena, sb.text);
  CHECK_OK(tc_kernel_forward(arena, k, &made));
  assert_ptr_equal(made, k);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(own_elements), cmocka_unit_test(mirrored_elements),
                                     cmocka_unit_test(what_stays)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
