// The builder: folding, sharing, what it refuses, and that short memory is an error and never a crash.
#include <math.h>

#include "tests/unit/kernel/kernel_test.h"

// A kernel whose lanes region is filled by `body`, as text.
static const char *built(tc_arena *arena, void (*body)(tc_kb *b, tc_kmem x, tc_kmem y)) {
  tc_kb *b = tc_kb_create(arena, TC_SV("k"), 8);
  tc_kmem x = tc_kb_global(b, TC_SV("x"), TC_F32, TC_MEM_READONLY | TC_MEM_NOALIAS, 0),
          y = tc_kb_global(b, TC_SV("y"), TC_F32, TC_MEM_NOALIAS, 0);
  tc_kb_scalar(b, TC_SV("n"), TC_I32, 0, 100, 1);
  tc_kb_lanes(b);
  body(b, x, y);
  tc_kb_end_lanes(b, 0, NULL, NULL);
  tc_kernel *k;
  CHECK_OK(tc_kb_finish(b, &k));
  CHECK_OK(tc_kernel_verify(k));
  const char *text = text_of(arena, k), *brace = strstr(text, "lanes {\n");
  return brace + strlen("lanes {\n");
}

static tc_kval f(tc_kb *b, double v) { return tc_kb_real(b, TC_F32, v); }
static tc_kval i(tc_kb *b, int64_t v) { return tc_kb_int(b, TC_I32, v); }

static void fold_body(tc_kb *b, tc_kmem x, tc_kmem y) {
  tc_kval l = tc_kb_lane(b), n = tc_kb_param(b, 0);
  tc_kval a = tc_kb_op2(b, TC_K_ADD, tc_kb_op2(b, TC_K_ADD, l, i(b, 3)), i(b, 4)); // l + 7
  tc_kval c = tc_kb_op3(b, TC_K_FMA, n, i(b, 1), tc_kb_op2(b, TC_K_MUL, a, i(b, 1)));
  tc_kval e = tc_kb_load1(b, x, tc_kb_op2(b, TC_K_SUB, c, c), -1, -1);             // x[0]
  tc_kval g = tc_kb_load1(b, x, i(b, 0), tc_kb_op2(b, TC_K_EQ, n, n), f(b, 1));    // the same load
  tc_kval h = tc_kb_op2(b, TC_K_DIV, tc_kb_op2(b, TC_K_SUB, e, f(b, 0)), f(b, 4)); // e / 4 is e · ¼
  tc_kval s = tc_kb_op2(b, TC_K_ADD, h, tc_kb_op1(b, TC_K_NEG, g));                // h - e
  s = tc_kb_op2(b, TC_K_MUL, s, tc_kb_op2(b, TC_K_MUL, f(b, 0.5), f(b, 2)));       // · 1
  tc_kb_store(b, y, c, 1, &s, tc_kb_op2(b, TC_K_LE, i(b, 2), i(b, 3)));            // mask true
  tc_kb_store(b, y, c, 1, &s, tc_kb_int(b, TC_BOOL, 0));                           // never
}

KERNEL_TEST(folding) {
  assert_string_equal(built(arena, fold_body),
                      "    %0 = lane\n    %1 = add %0, 7\n    %2 = add %n, %1\n    %3 = load %x[0]\n    %4 = mul %3, "
                      "0.25\n    %5 = sub %4, %3\n    store %y[%2], %5\n  }\n}\n");
}

// Places whole rounds of lanes apart differ by constants; what may be negative or wrap around stays as it is.
static void quotient_body(tc_kb *b, tc_kmem x, tc_kmem y) {
  tc_kval l = tc_kb_lane(b), n = tc_kb_param(b, 0), four = i(b, 4);
  tc_kval ahead = tc_kb_op2(b, TC_K_ADD, l, i(b, 24)), r[8];
  tc_kval line = tc_kb_op2(b, TC_K_DIV, ahead, four), at = tc_kb_op2(b, TC_K_REM, ahead, four);
  tc_kval row = tc_kb_op2(b, TC_K_ADD, tc_kb_op2(b, TC_K_MUL, line, i(b, 8)), at);
  r[0] = line, r[1] = at;                                                       // lane / 4 + 6, lane % 4
  r[2] = tc_kb_op2(b, TC_K_DIV, row, four);                                     // line · 2, since at / 4 is 0
  r[3] = tc_kb_op2(b, TC_K_REM, row, i(b, 8));                                  // at
  r[4] = tc_kb_op2(b, TC_K_DIV, tc_kb_op2(b, TC_K_SUB, l, i(b, 8)), four);      // negative
  r[5] = tc_kb_op2(b, TC_K_REM, tc_kb_op2(b, TC_K_ADD, n, i(b, 24)), four);     // no lane
  r[6] = tc_kb_op2(b, TC_K_DIV, tc_kb_op2(b, TC_K_ADD, l, i(b, 22)), four);     // no multiple
  r[7] = tc_kb_op2(b, TC_K_DIV, tc_kb_op2(b, TC_K_ADD, l, i(b, 16)), i(b, 32)); // 0 for all
  for (int32_t k = 0; k < 8; k++) {
    tc_kval v = tc_kb_cast(b, TC_F32, r[k]);
    tc_kb_store(b, y, i(b, k), 1, &v, -1);
  }
  (void)x;
}

KERNEL_TEST(quotients_of_lanes) {
  assert_string_equal(
      built(arena, quotient_body),
      "    %0 = lane\n    %1 = div %0, 4\n    %2 = add %1, 6\n    %3 = rem %0, 4\n    %4 = mul %2, 2\n    %5 = add %0, "
      "-8\n    %6 = div %5, 4\n    %7 = add %n, 24\n    %8 = rem %7, 4\n    %9 = add %0, 22\n    %10 = div %9, 4\n    "
      "%11 = cast %2 : f32\n    store %y[0], %11\n    %12 = cast %3 : f32\n    store %y[1], %12\n    %13 = cast %4 : "
      "f32\n    store %y[2], %13\n    store %y[3], %12\n    %14 = cast %6 : f32\n    store %y[4], %14\n    %15 = cast "
      "%8 : f32\n    store %y[5], %15\n    %16 = cast %10 : f32\n    store %y[6], %16\n    store %y[7], 0.0\n  }\n}\n");
}

static void keep_body(tc_kb *b, tc_kmem x, tc_kmem y) {
  // What looks like an identity but is none: x + 0 (-0), x · 0, x - x, and sums of three.
  tc_kval e = tc_kb_load1(b, x, tc_kb_lane(b), -1, -1), r[4];
  r[0] = tc_kb_op2(b, TC_K_ADD, e, f(b, 0));
  r[1] = tc_kb_op2(b, TC_K_MUL, e, f(b, 0));
  r[2] = tc_kb_op2(b, TC_K_SUB, e, e);
  r[3] = tc_kb_op2(b, TC_K_ADD, tc_kb_op2(b, TC_K_ADD, e, f(b, 1)), f(b, 2));
  tc_kb_store(b, y, i(b, 0), 4, r, tc_kb_op2(b, TC_K_EQ, tc_kb_lane(b), i(b, 0)));
}

static void least_body(tc_kb *b, tc_kmem x, tc_kmem y) {
  // What a float is never below answers comparisons, if NaN answers them alike.
  tc_kval e = tc_kb_load1(b, x, tc_kb_lane(b), -1, -1), square = tc_kb_op2(b, TC_K_MUL, e, e),
          a = tc_kb_op1(b, TC_K_ABS, e);
  tc_kval above = tc_kb_op2(b, TC_K_ADD, tc_kb_op3(b, TC_K_FMA, e, e, square), f(b, 2)), r[8];
  r[0] = tc_kb_op2(b, TC_K_LT, above, f(b, 2)); // false
  r[1] = tc_kb_op2(b, TC_K_EQ, above, f(b, 1)); // false
  r[2] = tc_kb_op2(b, TC_K_NE, above, f(b, 1)); // true
  r[3] = tc_kb_op2(b, TC_K_LE, a, f(b, -1));    // false
  r[4] = tc_kb_op2(b, TC_K_GT, f(b, 1), above); // the same as above < 1: false
  r[5] = tc_kb_op2(b, TC_K_GE, above, f(b, 1)); // not for NaN
  r[6] = tc_kb_op2(b, TC_K_LE, a, f(b, 0));     // 0 is
  r[7] = tc_kb_op2(b, TC_K_LT, tc_kb_op2(b, TC_K_MUL, e, a), f(b, 0));
  for (int32_t k = 0; k < 8; k++) {
    tc_kval v = tc_kb_op3(b, TC_K_SELECT, r[k], f(b, k + 10), f(b, k + 20));
    tc_kb_store(b, y, i(b, k), 1, &v, -1);
  }
}

KERNEL_TEST(comparisons_below_all_values_fold) {
  const char *text = built(arena, least_body);
  static const char *const stores[] = {"store %y[0], 20.0",
                                       "store %y[1], 21.0",
                                       "store %y[2], 12.0",
                                       "store %y[3], 23.0",
                                       "store %y[4], 24.0",
                                       "= ge ",
                                       "= le ",
                                       "= lt "};
  for (size_t k = 0; k < sizeof stores / sizeof *stores; k++)
    if (!strstr(text, stores[k])) fail_msg("no '%s' in\n%s", stores[k], text);
}

KERNEL_TEST(floating_point_is_left_alone) {
  assert_string_equal(
      built(arena, keep_body),
      "    %0 = lane\n    %1 = load %x[%0]\n    %2 = add %1, 0.0\n    %3 = mul %1, 0.0\n    %4 = sub %1, %1\n    %5 = "
      "add %1, 1.0\n    %6 = add %5, 2.0\n    %7 = eq %0, 0\n    store.v4 %y[0], %2, %3, %4, %6 if %7\n  }\n}\n");
}

static void scope_body(tc_kb *b, tc_kmem x, tc_kmem y) {
  // A value of a closed region is not shared with what follows it.
  tc_kval n = tc_kb_param(b, 0), l = tc_kb_lane(b);
  tc_kb_for(b, i(b, 0), n, 1, 0, 0, NULL, NULL);
  tc_kval e = tc_kb_load1(b, x, tc_kb_op2(b, TC_K_ADD, l, n), -1, -1);
  tc_kb_store(b, y, l, 1, &e, -1);
  tc_kb_end_for(b, 0, NULL, NULL);
  e = tc_kb_load1(b, x, tc_kb_op2(b, TC_K_ADD, l, n), -1, -1);
  tc_kb_store(b, y, l, 1, &e, -1);
}

KERNEL_TEST(sharing_ends_with_the_region) {
  const char *text = built(arena, scope_body);
  const char *first = strstr(text, "add "), *second = first ? strstr(first + 1, "add ") : NULL;
  assert_non_null(second);
}

KERNEL_TEST(loads_are_not_shared_across_stores) {
  tc_kb *b = tc_kb_create(arena, TC_SV("k"), 1);
  tc_kmem x = tc_kb_global(b, TC_SV("x"), TC_F32, TC_MEM_READONLY, 0),
          y = tc_kb_global(b, TC_SV("y"), TC_F32, 0, 0); // may overlap
  tc_kb_lanes(b);
  tc_kval p = tc_kb_load1(b, x, i(b, 0), -1, -1), q = tc_kb_load1(b, x, i(b, 0), -1, -1);
  assert_int_equal(p, q);
  tc_kb_store(b, y, i(b, 0), 1, &p, -1);
  assert_int_not_equal(tc_kb_load1(b, x, i(b, 0), -1, -1), p);
  tc_kb_end_lanes(b, 0, NULL, NULL);
  tc_kernel *k;
  CHECK_OK(tc_kb_finish(b, &k));
}

KERNEL_TEST(first_failure_stays) {
  tc_kb *b = tc_kb_create(arena, TC_SV("k"), 4);
  tc_kernel *k;
  tc_kval bad = tc_kb_op2(b, TC_K_ADD, i(b, 1), f(b, 1));
  assert_int_equal(bad, -1);
  assert_int_equal(tc_kb_op1(b, TC_K_SQRT, i(b, 1)), -1);
  tc_kb_barrier(b);
  expect_error(tc_kb_finish(b, &k), "kernel @k: add (i32, f32): operands must have one type");
  b = tc_kb_create(arena, TC_SV("open"), 4);
  tc_kb_lanes(b);
  expect_error(tc_kb_finish(b, &k), "1 regions are still open");
  b = tc_kb_create(arena, TC_SV("lanes"), 0);
  expect_error(tc_kb_finish(b, &k), "1 to 4096 lanes, not 0");
  b = tc_kb_create(arena, TC_SV("twice"), 1);
  CHECK_OK(tc_kb_finish(b, &k));
  expect_error(tc_kb_finish(b, &k), "the kernel is finished");
}

// ---- Folding equals interpretation: random operations on constants, built folded and raw ----

static uint64_t random_state = 12345;
static uint64_t random_bits(void) {
  uint64_t z = random_state += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

static tc_kval small_constant(tc_kb *b, tc_dtype t) {
  static const double picks[] = {0, -0.0, 1, -1, 2, 0.5, 3, -7, 1e30, -1e-30, 100};
  double v = picks[random_bits() % (sizeof picks / sizeof *picks)];
  return tc_dtype_is_float(t) ? tc_kb_real(b, t, v)
                              : tc_kb_int(b, t, fabs(v) > 1000 || fabs(v) < 1 ? (int64_t)random_bits() : (int64_t)v);
}

static tc_kernel *random_kernel(tc_arena *arena, tc_dtype t, bool raw, uint64_t seed) {
  random_state = seed;
  tc_kb *b = tc_kb_create(arena, TC_SV("k"), 1);
  tc_kb_set_raw(b, raw);
  tc_kmem x = tc_kb_global(b, TC_SV("x"), t, TC_MEM_READONLY, 0), y = tc_kb_global(b, TC_SV("y"), t, 0, 0);
  tc_kb_lanes(b);
  tc_kval v[64];
  int32_t n = 0;
  while (n < 4) v[n] = tc_kb_load1(b, x, i(b, n), -1, -1), n++;
  while (n < 64) {
    int32_t op = (int32_t)(random_bits() % TC_K_COUNT), arity = tc_kir_arity(op);
    tc_dtype types[3] = {t, t, t}, out;
    if (op == TC_K_SELECT) types[0] = TC_BOOL;
    char cls = (char)tc_k_op_class(op);
    if ((cls != 'a' && cls != 'c' && op != TC_K_SELECT) || arity < 1 || tc_kir_type_rule(op, arity, types, &out) ||
        op == TC_K_RCP_APPROX)
      continue;
    if ((op == TC_K_DIV || op == TC_K_REM) && tc_kir_is_int(t)) continue;
    tc_kval args[3];
    for (int32_t a = 0; a < 3; a++) args[a] = random_bits() % 3 ? v[random_bits() % (uint64_t)n] : small_constant(b, t);
    if (op == TC_K_SHL || op == TC_K_SHR) args[1] = tc_kb_int(b, t, (int64_t)(random_bits() % 8));
    if (op == TC_K_SELECT) args[0] = tc_kb_op2(b, TC_K_LT, args[1], args[0]);
    tc_kval r = tc_kb_op(b, op, arity, args);
    if (cls == 'c') r = tc_kb_cast(b, t, r);
    v[n++] = r;
  }
  for (int32_t j = 0; j < n; j++) tc_kb_store(b, y, i(b, j), 1, &v[j], -1);
  tc_kb_end_lanes(b, 0, NULL, NULL);
  tc_kernel *k;
  CHECK_OK(tc_kb_finish(b, &k));
  CHECK_OK(tc_kernel_verify(k));
  return k;
}

KERNEL_TEST(folded_kernels_compute_the_same) {
  static const tc_dtype types[] = {TC_I32, TC_U8, TC_I64, TC_F32, TC_F64, TC_U32};
  for (uint64_t seed = 1; seed <= 300; seed++) {
    tc_dtype t = types[seed % 6];
    tc_kernel *raw = random_kernel(arena, t, true, seed), *folded = random_kernel(arena, t, false, seed), *simple;
    CHECK_OK(tc_kernel_simplify(arena, raw, &simple));
    uint8_t x[4 * 8], y[3][64 * 8];
    for (int32_t j = 0; j < 4; j++)
      tc_kir_write(t, x + j * tc_dtype_size(t),
                   tc_dtype_is_float(t) ? (tc_knum){.re = (double)(int64_t)random_bits() * 0x1p-60}
                                        : tc_kir_int(t, (int64_t)random_bits()));
    const tc_kernel *variants[3] = {raw, folded, simple};
    for (int32_t v = 0; v < 3; v++) {
      tc_karg args[2] = {{.data = x, .count = 4}, {.data = y[v], .count = 64}};
      CHECK_OK(tc_kernel_interpret(tc_system_allocator(), variants[v], 1, args, 2, NULL));
    }
    for (int32_t j = 0; j < 64; j++)
      for (int32_t v = 1; v < 3; v++) {
        tc_knum p = tc_kir_read(t, y[0] + j * tc_dtype_size(t)), q = tc_kir_read(t, y[v] + j * tc_dtype_size(t));
        bool same = tc_dtype_is_float(t)
                        ? (p.re == q.re && signbit(p.re) == signbit(q.re)) || (p.re != p.re && q.re != q.re)
                        : p.i == q.i;
        if (!same)
          fail_msg("seed %d, value %d, %s: %s", (int)seed, (int)j, v == 1 ? "folded" : "simplified",
                   text_of(arena, variants[v]));
      }
  }
}

// ---- Short memory: every allocation fails once ----

static tc_status everything_once(void *arg) {
  tc_arena *arena = arg;
  static const char text[] = "kernel @k (%x : global c64 readonly, %y : global c64, %n : i32) blocks 1 lanes 4 {\n  "
                             "shared %s : f32[4]\n  lanes {\n    %l = lane\n    %a = load %x[%l]\n    %b = exp %a\n"
                             "    %r = for %i = 0 to %n (%c = %b) {\n      %d = mul %c, %a\n      yield %d\n    }\n    "
                             "store %y[%l], %r\n  }\n}\n";
  tc_lexer lx;
  tc_kernel *k, *plain;
  tc_lex_init(&lx, arena, TC_SV("test.tc"), TC_SV(text));
  TC_TRY(tc_kernel_parse(arena, &lx, &k));
  TC_TRY(tc_kernel_legalise(arena, k, 32, &plain));
  tc_sb sb = tc_sb_make(arena);
  tc_kernel_print(&sb, plain);
  float x[16] = {0}, y[16];
  tc_karg args[3] = {{.data = x, .count = 8}, {.data = y, .count = 8}, {.bits = 2}};
  return tc_kernel_interpret(tc_arena_allocator(arena), plain, 1, args, 3, NULL);
}

static void short_memory(void **state) {
  (void)state;
  int64_t at = 1;
  for (bool done = false; !done; at++) {
    tc_fault_allocator fault;
    tc_fault_allocator_init(&fault, tc_system_allocator());
    fault.fail_at = at, fault.fail_after = 1;
    tc_arena *arena;
    tc_status s = tc_arena_create(&fault.iface, &arena);
    if (!s) {
      s = tc_arena_guard(arena, everything_once, arena);
      tc_arena_destroy(arena);
    }
    done = !s;
    if (s) assert_int_equal(tc_status_code(s), TC_STATUS_OUT_OF_MEMORY);
    tc_status_free(s);
    assert_int_equal(fault.live, 0);
  }
  assert_true(at > 5);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(folding),
                                     cmocka_unit_test(comparisons_below_all_values_fold),
                                     cmocka_unit_test(quotients_of_lanes),
                                     cmocka_unit_test(floating_point_is_left_alone),
                                     cmocka_unit_test(sharing_ends_with_the_region),
                                     cmocka_unit_test(loads_are_not_shared_across_stores),
                                     cmocka_unit_test(first_failure_stays),
                                     cmocka_unit_test(folded_kernels_compute_the_same),
                                     cmocka_unit_test(short_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
