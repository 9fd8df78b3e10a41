// The interpreter: semantics of structure and memory, and the faults that it must find.
#include <math.h>

#include "tests/unit/kernel/kernel_test.h"

static float in[64], out[64];

static tc_status run(tc_arena *arena, const char *body, int64_t n, int64_t *site) {
  tc_sv text = tc_sv_printf(arena,
                            "kernel @k (%%x : global f32 readonly, %%y : global f32, %%n : i32 in [0, 64]) blocks 1 "
                            "lanes 8 {\n  shared %%s : f32[8]\n  lane_array %%v : f32[2]\n%s}\n",
                            body);
  tc_karg args[3] = {{.data = in, .count = 64}, {.data = out, .count = 64}, {.bits = n}};
  for (int32_t i = 0; i < 64; i++) in[i] = (float)i, out[i] = -1;
  return tc_kernel_interpret(tc_system_allocator(), kernel_of(arena, text.data), 2, args, 3, site);
}

static void fails(tc_arena *arena, const char *body, const char *message) {
  expect_error(run(arena, body, 8, NULL), message);
}

KERNEL_TEST(structure) {
  int64_t site;
  CHECK_OK(run(arena,
               "  %b = block\n  %q = lanes {\n    %l = lane\n    %i = fma %b, 8, %l\n    %ok = lt %i, %n\n    %e = "
               "load %x[%i] if %ok else 100.0\n    check %ok, 5\n"
               "    %a, %c = for %j = 0 to 3 (%p = %e, %r = 1.0 : f32) {\n      yield %r, %p\n    }\n    store %v[1], "
               "%a\n    store %s[%l], %e\n    yield %c\n  }\n"
               "  %sum = reduce.add %q\n  %third = broadcast %q, 3\n  barrier\n  %big = gt %sum, 50.0\n  %w = if %big "
               "{\n    %h = mul %sum, 0.5\n    yield %h\n  } else {\n    yield %third\n  }\n"
               "  lanes {\n    %l2 = lane\n    %m = sub 7, %l2\n    %t = load %s[%m]\n    %u = load %v[1]\n    %z = "
               "add %t, %u\n    %k = fma %b, 8, %l2\n    %z2 = add %z, %w\n    store %y[%k], %z2\n  }\n",
               12, &site));
  // Block 0: e = 0…7, three swaps give (1, e): c = e, sum 28, w = third = 3; block 1: 8…11 and 100s: sum = 438, w =
  // 219.
  for (int32_t i = 0; i < 8; i++) assert_true(out[i] == (float)(7 - i) + 1 + 3);
  for (int32_t i = 0; i < 8; i++) assert_true(out[8 + i] == (7 - i < 4 ? (float)(8 + 7 - i) : 100) + 1 + 219);
  assert_int_equal(site, 5);
  CHECK_OK(run(arena, "  lanes {\n    %l = lane\n    %ok = ge %l, 0\n    check %ok, 5\n  }\n", 8, &site));
  assert_int_equal(site, -1);
}

KERNEL_TEST(atomics_and_masks) {
  CHECK_OK(run(arena,
               "  lanes {\n    %l = lane\n    %odd = and %l, 1\n    %m = eq %odd, 1\n    %far = mul %l, 1000\n    %i = "
               "select %m, 0, %far\n    atomic_add %y[%i], 1.0 if %m\n  }\n",
               8, NULL));
  assert_true(out[0] == -1 + 2 * 4);
}

KERNEL_TEST(faults) {
  fails(arena, "  lanes {\n    %l = lane\n    %i = mul %l, 10\n    %e = load %x[%i]\n  }\n",
        "index 70 lies outside the 64 elements");
  fails(arena, "  lanes {\n    %l = lane\n    %e, %f = load.v2 %x[63]\n  }\n", "index 64 lies outside");
  fails(arena, "  lanes {\n    store %y[-1], 0.0\n  }\n", "index -1 lies outside");
  fails(arena, "  lanes {\n    %e = load %s[0]\n  }\n", "shared element 0 is read before it is written");
  fails(arena, "  lanes {\n    %e = load %v[1]\n  }\n", "element 1 of the lane array is read before it is written");
  fails(arena, "  lanes {\n    store %s[3], 1.0\n  }\n", "written by lane 1 and by another (0)");
  fails(arena,
        "  lanes {\n    %l = lane\n    %f = cast %l : f32\n    store %s[%l], %f\n    %m = xor %l, 1\n    %e = load "
        "%s[%m]\n  }\n",
        "without a barrier between");
  fails(arena,
        "  lanes {\n    %l = lane\n    %f = cast %l : f32\n    store %s[%l], %f\n  }\n  barrier\n  lanes {\n    %l2 = "
        "lane\n    %m = xor %l2, 1\n    %e = load %s[%m]\n    store %s[%l2], %e\n  }\n",
        "without a barrier between");
  fails(arena, "  %z = div 1, 0 : i32\n", "division by zero");
  fails(arena, "  %z = sub %n, 8\n  %d = rem %n, %z\n", "in kernel @k, instruction 4: rem to %d, block 0, lane 0");
}

KERNEL_TEST(arguments) {
  expect_error(run(arena, "", 65, NULL), "%n = 65 contradicts the facts that are declared");
  tc_kernel *k = kernel_of(arena, "kernel @k (%x : global f32) blocks 1 lanes 1 {\n}\n");
  expect_error(tc_kernel_interpret(tc_system_allocator(), k, 1, NULL, 0, NULL), "takes 1 arguments, not 0");
  expect_error(tc_kernel_interpret(tc_system_allocator(), k, -1, &(tc_karg){0}, 1, NULL), "-1 blocks");
}

KERNEL_TEST(types_and_casts) {
  tc_kernel *k = kernel_of(
      arena,
      "kernel @k (%x : global f16 readonly, %y : global u8, %z : global i64, %c : global c64, %s : f64, %t : bool) "
      "blocks 1 lanes 1 {\n  lanes {\n    %a = load %x[0]\n    %b = mul %a, 3.0\n    %f = cast %b : f32\n"
      "    %u = cast %f : u8\n    store %y[0], %u\n    %w = sub %u, 255\n    store %y[1], %w\n    %bits = bitcast %a : "
      "u16\n    %i = cast %bits : i64\n    store %z[0], %i\n    %h = mulhi %i, -1\n    store %z[1], %h\n"
      "    %sf = cast %s : f32\n    %k = complex %sf, 2.0\n    %m = mul %k, %k\n    store %c[0], %m\n    %tt = cast %t "
      ": i64\n    store %z[2], %tt\n  }\n}\n");
  uint16_t x = tc_f32_to_f16(1.1f);
  uint8_t y[2];
  int64_t z[3];
  float c[2];
  double s = 3;
  tc_karg args[6] = {{.data = &x, .count = 1},
                     {.data = y, .count = 2},
                     {.data = z, .count = 3},
                     {.data = c, .count = 1},
                     {.bits = 0},
                     {.bits = 1}};
  memcpy(&args[4].bits, &s, 8);
  CHECK_OK(tc_kernel_interpret(tc_system_allocator(), k, 1, args, 6, NULL));
  assert_int_equal(y[0], (uint8_t)tc_f16_to_f32(tc_f32_to_f16(tc_f16_to_f32(x) * 3)));
  assert_int_equal(y[1], (uint8_t)(y[0] + 1));
  assert_int_equal(z[0], x);
  assert_int_equal(z[1], -1);
  assert_int_equal(z[2], 1);
  assert_true(c[0] == 5 && c[1] == 12);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(structure), cmocka_unit_test(atomics_and_masks),
                                     cmocka_unit_test(faults), cmocka_unit_test(arguments),
                                     cmocka_unit_test(types_and_casts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
