// Kernel text: round trips, literals in place, and messages with line and column.
#include "tests/unit/kernel/kernel_test.h"

static const char rms[] = "kernel @rms (%x : global f32 readonly noalias align 16, %y : global f32 writeonly, %rows : "
                          "i32, %n : i32 in [1, 16384] div 4)\n"
                          "    blocks 1 lanes 256 {\n"
                          "  shared %t : f32[256]\n"
                          "  lane_array %v : f32[16]\n"
                          "  table %w : f32 = [1.0, 0.5]\n"
                          "  %b = block\n"
                          "  %q = lanes {\n"
                          "    %l = lane\n"
                          "    %z = const 0.0 : f32\n"
                          "    %acc = for %j = 0 to %n step 256 unroll (%s = %z) {\n"
                          "      %k = add %j, %l\n"
                          "      %ok = lt %k, %n\n"
                          "      %i = fma %b, %n, %k nowrap\n"
                          "      %e = load %x[%i] if %ok else %z\n"
                          "      %s1 = fma %e, %e, %s\n"
                          "      yield %s1\n"
                          "    }\n"
                          "    store %t[%l], %acc\n"
                          "    %0 = add %acc, 1.5\n"
                          "    yield %0\n"
                          "  }\n"
                          "  %sum = reduce.add %q\n"
                          "  barrier\n"
                          "  %c = gt %sum, 0.1\n"
                          "  %m = if %c {\n"
                          "    %1 = div %sum, 3.0 fast\n"
                          "    yield %1\n"
                          "  } else {\n"
                          "    yield %sum\n"
                          "  }\n"
                          "  lanes {\n"
                          "    %l.1 = lane\n"
                          "    %2 = select true, 1, 2 : i32 rare\n"
                          "    %3 = mul %l.1, 2\n"
                          "    %4, %5 = load.v2 %x[%3]\n"
                          "    %6 = load %t[%l.1]\n"
                          "    %7 = load %w[1]\n"
                          "    %8 = cast %l.1 : f32\n"
                          "    store.v4 %y[%3], %4, %m, 0.0, inf if true\n"
                          "    check %c, 3\n"
                          "  }\n"
                          "}\n";

KERNEL_TEST(round_trip) {
  tc_kernel *k = kernel_of(arena, rms);
  assert_string_equal(text_of(arena, k), rms);
  tc_kernel_stats s;
  tc_kernel_count(k, &s);
  assert_int_equal(s.loads, 2);
  assert_int_equal(s.stores, 1);
  assert_int_equal(s.lanes_regions, 2);
  assert_int_equal(s.barriers, 1);
  assert_int_equal(s.collectives, 1);
  assert_int_equal(s.shared_bytes, 1024);
}

KERNEL_TEST(literals) {
  const char *text = "kernel @k (%y : global f64)\n    blocks 1 lanes 4 {\n"
                     "  table %c : c64 = [0.0, 1.0, -0.0, -1.0]\n"
                     "  table %u : u8 = [0, 255]\n"
                     "  %0 = const 0xffffffffffffffff : u64\n"
                     "  %1 = const -9223372036854775808 : i64\n"
                     "  %2 = const nan : f16\n"
                     "  %3 = const 0.1 : f64\n"
                     "  %4 = const 0.1 : bf16\n"
                     "  %5 = const 1e+30 : f32\n"
                     "  %6 = complex 1.0, -0.0 : f32\n"
                     "}\n";
  assert_string_equal(text_of(arena, kernel_of(arena, text)), text);
}

static void refused(tc_arena *arena, const char *body, const char *message) {
  tc_kernel *k;
  tc_sv text = tc_sv_printf(arena, "kernel @k (%%x : global f32, %%n : i32) blocks 1 lanes 8 {\n%s}\n", body);
  expect_error(parse_text(arena, text.data, &k), message);
}

KERNEL_TEST(messages) {
  refused(arena, "  %a = add %n, 1.5\n", "test.tc:2:16: expected i32, not a real number");
  refused(arena, "  %a = add %b, 1\n", "test.tc:2:12: %b is not defined");
  refused(arena, "  %val = add %n, 1\n  %c = add %vla, 1\n", "did you mean %val?");
  refused(arena, "  %a = addd %n, 1\n", "test.tc:2:8: there is no operation 'addd'; did you mean 'add'?");
  refused(arena, "  %a = add %n\n", "add takes 2 operands, not 1");
  refused(arena, "  %a = sqrt %n\n", "sqrt (i32): operands must be floating");
  refused(arena, "  %a = lane\n", "test.tc:2:8: lane: only inside a lanes region");
  refused(arena, "  store %x[0], 1.0\n", "test.tc:2:3: store %x: only inside a lanes region");
  refused(arena, "  %a = const 256 : u8\n", "256 does not fit u8");
  refused(arena, "  %n = const 1 : u8\n", "%n is defined a second time");
  refused(arena, "  %a, %b = add %n, 1\n", "add has 1 results, 2 are named");
  refused(arena, "  %a = for %i = 0 to %n (%s = 0.0 : f32) {\n  }\n", "1 values are carried, 0 are yielded");
  refused(arena, "  lanes {\n    %l = lane\n    %c = lt %l, 3\n    if %c {\n    }\n  }\n",
          "test.tc:5:5: if: the condition must be the same in all lanes");
  refused(arena, "  %q = lanes {\n    %l = lane\n    yield %l\n  }\n  %z = add %q, 1\n",
          "what a lanes region yields may only be used by collectives");
  refused(arena, "  lanes {\n    lanes {\n    }\n  }\n", "do not nest");
  refused(arena, "  lanes {\n", "expected");
  refused(arena, "  %a = select %n, 1, 2 : i32\n", "the condition must be bool");
}

KERNEL_TEST(closed_regions) {
  refused(arena, "  lanes {\n    %a = add %n, 1\n  }\n  %b = add %a, 1\n", "belongs to a region that is closed");
}

KERNEL_TEST(varying_is_found_through_loops) {
  tc_kernel *k = kernel_of(
      arena,
      "kernel @k (%n : i32) blocks 1 lanes 8 {\n  lanes {\n    %z = const 0 : i32\n    %l = lane\n"
      "    %r = for %i = 0 to %n (%s = %z) {\n      %t = for %j = 0 to 2 (%u = %s) {\n        yield %u\n      }\n"
      "      %v = add %t, %l\n      yield %v\n    }\n  }\n}\n");
  for (int32_t i = 0; i < tc_k_value_count(k); i++) {
    tc_kvalue v;
    tc_k_value(k, i, &v);
    tc_sv name = k->names[i];
    if (tc_sv_is(name, "t") || tc_sv_is(name, "u") || tc_sv_is(name, "s") || tc_sv_is(name, "r"))
      assert_true(v.varying);
    if (tc_sv_is(name, "i") || tc_sv_is(name, "j") || tc_sv_is(name, "z")) assert_false(v.varying);
  }
}

KERNEL_TEST(uniform_conditions_stay_checked) {
  // %s starts uniform, so the `if` is accepted; the next value varies, which the verifier sees.
  tc_kernel *k;
  CHECK_OK(parse_text(arena,
                      "kernel @k (%n : i32) blocks 1 lanes 8 {\n  lanes {\n    %z = const 0 : i32\n    %l = lane\n"
                      "    %r = for %i = 0 to %n (%s = %z) {\n      %c = lt %s, 4\n      if %c {\n      }\n      yield "
                      "%l\n    }\n  }\n}\n",
                      &k));
  expect_error(tc_kernel_verify(k), "the condition must be the same in all lanes");
}

static void barrier_case(tc_arena *arena, const char *body, const char *message) {
  tc_kernel *k;
  tc_sv text = tc_sv_printf(arena, "kernel @k (%%n : i32) blocks 1 lanes 8 {\n  shared %%t : f32[8]\n%s}\n", body);
  CHECK_OK(parse_text(arena, text.data, &k));
  if (message) expect_error(tc_kernel_verify(k), message);
  else CHECK_OK(tc_kernel_verify(k));
}

#define WRITE "  lanes {\n    store %t[0], 1.0\n  }\n"
KERNEL_TEST(barriers) {
  const char *missing = "without a barrier between";
  barrier_case(arena, WRITE "  barrier\n" WRITE, NULL);
  barrier_case(arena, WRITE WRITE, missing);
  barrier_case(arena, "  %a = load %t[0]\n  %b = load %t[1]\n", NULL);
  barrier_case(arena, WRITE "  %a = load %t[0]\n", missing);
  barrier_case(arena, "  for %i = 0 to %n {\n" WRITE "  }\n", missing);
  barrier_case(arena, "  for %i = 0 to %n {\n" WRITE "    barrier\n  }\n", NULL);
  barrier_case(arena, "  for %i = 0 to %n {\n    barrier\n" WRITE "  }\n" WRITE, missing);
  barrier_case(arena, "  %c = lt %n, 3\n" WRITE "  if %c {\n    barrier\n  }\n" WRITE, missing);
  barrier_case(arena, "  %c = lt %n, 3\n" WRITE "  if %c {\n    barrier\n  } else {\n    barrier\n  }\n" WRITE, NULL);
}

// Names that two things have are told apart in the text.
KERNEL_TEST(names_of_memory_are_unique) {
  tc_kb *b = tc_kb_create(arena, TC_SV("twice"), 4);
  tc_kmem x = tc_kb_global(b, TC_SV("x"), TC_F32, 0, 0), s = tc_kb_shared(b, TC_SV("t"), TC_F32, 4);
  tc_kmem t = tc_kb_shared(b, TC_SV("t"), TC_F32, 8);
  tc_kb_scalar(b, TC_SV("x"), TC_I32, 0, 8, 1);
  tc_kb_lanes(b);
  tc_kval l = tc_kb_lane(b), v = tc_kb_load1(b, x, l, -1, -1);
  tc_kb_store(b, s, l, 1, &v, -1);
  tc_kb_store(b, t, l, 1, &v, -1);
  tc_kb_end_lanes(b, 0, NULL, NULL);
  tc_kernel *k;
  CHECK_OK(tc_kb_finish(b, &k));
  const char *text = text_of(arena, k);
  assert_non_null(strstr(text, "shared %t : f32[4]"));
  assert_non_null(strstr(text, "shared %t.1 : f32[8]"));
  assert_non_null(strstr(text, "%x.1 : i32"));
  assert_string_equal(text_of(arena, kernel_of(arena, text)), text);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(round_trip),
                                     cmocka_unit_test(literals),
                                     cmocka_unit_test(messages),
                                     cmocka_unit_test(closed_regions),
                                     cmocka_unit_test(varying_is_found_through_loops),
                                     cmocka_unit_test(uniform_conditions_stay_checked),
                                     cmocka_unit_test(barriers),
                                     cmocka_unit_test(names_of_memory_are_unique)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
