// Proofs from ranges, symbolic bounds and assumptions, intervals, divisors, and what assumptions change.
#include "tests/unit/symbolic/sym_test.h"

static int32_t prove(tc_sym_ctx *c, const char *text) { return tc_sym_prove(c, sym_parse(c, text)); }

#define assert_proves(c, text, want)                                                       \
  do {                                                                                     \
    int32_t got_ = prove((c), (text));                                                     \
    if (got_ != (want)) fail_msg("'%s': %d, expected %d", (text), (int)got_, (int)(want)); \
  } while (0)

TC_TEST(proves_from_ranges) {
  tc_sym_ctx *c = tc_sym_create(arena);
  sym_range(c, "s0", 2, 64, NULL, NULL);
  sym_range(c, "s1", 1, TC_SYM_INF, NULL, NULL);
  sym_range(c, "u", -TC_SYM_INF, TC_SYM_INF, NULL, NULL);
  assert_proves(c, "s0 <= 64", 1);
  assert_proves(c, "s0 < 2", 0);
  assert_proves(c, "s0 <= 10", -1);
  assert_proves(c, "s0*s1 >= 2", 1);
  assert_proves(c, "s0*s1 >= s1", 1);
  assert_proves(c, "s0*s1 >= s0 + s1 - 1", 1);
  assert_proves(c, "s1*s1 >= s1", 1);
  assert_proves(c, "s0*s0 - 3*s0 + 2 >= 0", 1);
  assert_proves(c, "s1*s1 - 3*s1 + 1 >= 0", -1);
  assert_proves(c, "s1**3 + 2*s1 >= 3*s1**2 - 6", -1);
  assert_proves(c, "s0**3 >= 4*s0", 1);
  assert_proves(c, "u*u >= 0", 1);
  assert_proves(c, "s0 != 0", 1);
  assert_proves(c, "s0 == 100", 0);
  assert_proves(c, "2*u == 7", 0);
  assert_proves(c, "Mod(u, 8) < 8", 1);
  assert_proves(c, "Mod(u, s1) < s1", 1);
  assert_proves(c, "Mod(u, s1) <= s1*2", 1);
  assert_proves(c, "s0//2 <= 32", 1);
  assert_proves(c, "2*(s1//2) <= s1", 1);
  assert_proves(c, "2*(s1//2) >= s1 - 1", 1);
  assert_proves(c, "2*(s1//2) >= s1", -1);
  assert_proves(c, "s1//3 <= s1", 1);
  assert_proves(c, "s1//3 < s1", 1);
  assert_proves(c, "u//3 <= u", -1);
  assert_proves(c, "(s1 + 7)//8*8 >= s1", 1);
  assert_proves(c, "s1//4 + s1//2 <= s1", 1);
  assert_proves(c, "Min(s0, s1) <= s1", 1);
  assert_proves(c, "Max(s0, s1) >= s0", 1);
  assert_proves(c, "Min(s0, s1)*2 <= s0 + s1", 1);
  assert_proves(c, "Where(u > 0, s0, s1) >= 1", 1);
  assert_proves(c, "s0 >= 2 && s1 >= 1", 1);
  assert_proves(c, "s0 > 100 || u > 0", -1);
  assert_proves(c, "s0 > 100 && u > 0", 0);
  assert_proves(c, "u", -1);
  assert_proves(c, "s0", 1);
  assert_int_equal(tc_sym_eq(c, sym_parse(c, "s0*(s1 + 1)"), sym_parse(c, "s0 + s0*s1")), true);
  assert_int_equal(tc_sym_eq(c, sym_parse(c, "s0"), sym_parse(c, "s1")), false);
  return TC_OK;
}

TC_TEST(proves_from_symbolic_bounds) {
  tc_sym_ctx *c = tc_sym_create(arena);
  sym_range(c, "n", 1, TC_SYM_INF, NULL, NULL);
  sym_range(c, "m", 1, TC_SYM_INF, NULL, NULL);
  sym_range(c, "i", 0, TC_SYM_INF, NULL, "n - 1");
  sym_range(c, "j", 0, TC_SYM_INF, NULL, "m - 1");
  sym_range(c, "k", -TC_SYM_INF, TC_SYM_INF, "i", "n - 1"); // a triangle
  sym_range(c, "r", 0, TC_SYM_INF, NULL, "8*n - 1");
  assert_proves(c, "i < n", 1);
  assert_proves(c, "i <= n", 1);
  assert_proves(c, "i >= n", 0);
  assert_proves(c, "i < m", -1);
  assert_proves(c, "i*m + j < n*m", 1);
  assert_proves(c, "i*m + j >= 0", 1);
  assert_proves(c, "j*n + i < n*m", 1);
  assert_proves(c, "i*m + j + 1 < n*m", -1);
  assert_proves(c, "i*m + j < n*m*2", 1);
  assert_proves(c, "n - 1 - i >= 0", 1);
  assert_proves(c, "k - i >= 0", 1);
  assert_proves(c, "k < n", 1);
  assert_proves(c, "k + i <= 2*n - 2", 1);
  assert_proves(c, "r//8 < n", 1);
  assert_proves(c, "(r//8)*m + j < n*m", 1);
  assert_proves(c, "Mod(r, 8) + 8*i < 8*n", 1);
  assert_proves(c, "Min(i + 4, n) <= n", 1);
  assert_proves(c, "Where(i < 3, i, n) <= n", 1);
  int64_t lo, hi;
  tc_sym_info_of(c, sym_parse(c, "n"))->hi = 100;
  tc_sym_range(c, sym_parse(c, "i"), &lo, &hi);
  assert_int_equal(hi, 99);
  tc_sym_range(c, sym_parse(c, "r//8 + 1"), &lo, &hi);
  assert_int_equal(lo, 1);
  assert_int_equal(hi, 100);
  return TC_OK;
}

// Bounds may refer to each other in a circle; that must end.
TC_TEST(circular_bounds_end) {
  tc_sym_ctx *c = tc_sym_create(arena);
  sym_range(c, "a", 0, TC_SYM_INF, NULL, "b");
  sym_range(c, "b", 0, TC_SYM_INF, NULL, "a*2 + c");
  sym_range(c, "c", 0, TC_SYM_INF, "a - b", "b*b");
  assert_proves(c, "a <= b", 1);
  (void)prove(c, "a*c + b <= c*c*3");
  (void)prove(c, "c*a//(b + 1) < a");
  return TC_OK;
}

TC_TEST(assumptions_become_facts) {
  tc_sym_ctx *c = tc_sym_create(arena);
  int64_t lo, hi;
  tc_sym_assume(c, sym_parse(c, "x >= 3 && x < 10"));
  tc_sym_range(c, sym_parse(c, "x"), &lo, &hi);
  assert_int_equal(lo, 3);
  assert_int_equal(hi, 9);
  tc_sym_assume(c, sym_parse(c, "2*x <= 13"));
  tc_sym_range(c, sym_parse(c, "3*x + 1"), &lo, &hi);
  assert_int_equal(hi, 19);
  tc_sym_assume(c, sym_parse(c, "x != 3"));
  tc_sym_range(c, sym_parse(c, "x"), &lo, &hi);
  assert_int_equal(lo, 4);

  assert_proves(c, "Mod(y, 8) == 0", -1);
  tc_sym_assume(c, sym_parse(c, "Mod(y, 8) == 0"));
  assert_proves(c, "Mod(y, 4) == 0", 1);
  tc_sym_assume(c, sym_parse(c, "Mod(y, 12) == 0"));
  assert_int_equal(tc_sym_divisor(c, sym_parse(c, "y")), 24);
  assert_sym(c, "(y//8)*8", "y");
  tc_sym_assume(c, sym_parse(c, "Mod(p*q, 6) == 0"));
  assert_int_equal(tc_sym_divisor(c, sym_parse(c, "2*p*q")), 12);
  assert_sym(c, "Mod(p*q + 1, 3)", "1");

  tc_sym_assume(c, sym_parse(c, "p*q <= 1000"));
  tc_sym_range(c, sym_parse(c, "2*p*q + 5"), &lo, &hi);
  assert_int_equal(hi, 2005);
  assert_proves(c, "p*q < 2000", 1);

  assert_proves(c, "v < w", -1);
  tc_sym_assume(c, sym_parse(c, "v < w"));
  assert_proves(c, "v < w", 1);
  assert_proves(c, "v >= w", 0);
  assert_proves(c, "v + 1 <= w", 1);
  assert_proves(c, "v < w + 5", 1);
  assert_proves(c, "2*v < 2*w", 1);
  assert_sym(c, "Min(v, w)", "v");

  assert_proves(c, "g == h + 1", -1);
  tc_sym_assume(c, sym_parse(c, "g == h + 1"));
  assert_proves(c, "g == h + 1", 1);
  assert_proves(c, "g*g == h*h + 2*h + 1", 1);
  assert_proves(c, "g > h", 1);
  assert_proves(c, "g == h", 0);
  assert_true(tc_sym_eq(c, sym_parse(c, "3*g"), sym_parse(c, "3*h + 3")));

  assert_proves(c, "a > 0 || b > 0", -1);
  tc_sym_assume(c, sym_parse(c, "a > 0 || b > 0"));
  assert_proves(c, "a > 0 || b > 0", 1);
  return TC_OK;
}

// What was built before keeps its form; tc_sym_simplify uses what is known by then.
TC_TEST(later_facts_are_used_by_simplify) {
  tc_sym_ctx *c = tc_sym_create(arena);
  const tc_sym *e = sym_parse(c, "Mod(s0, 4) + Min(s0, 64)"), *cond = sym_parse(c, "s0 <= 64 && s1 > 2");
  tc_sym_info *info = tc_sym_info_of(c, sym_parse(c, "s0"));
  info->lo = 1;
  info->hi = 64;
  info->divisor = 4;
  assert_ptr_equal(tc_sym_simplify(c, e), sym_parse(c, "s0"));
  assert_ptr_equal(tc_sym_simplify(c, cond), sym_parse(c, "s1 > 2"));
  assert_ptr_equal(sym_parse(c, "s0 <= 64 && s1 > 2"), cond); // conditions do not vanish by themselves
  info->divisor = 8;                                          // through the same pointer
  assert_int_equal(tc_sym_divisor(c, sym_parse(c, "s0*2")), 16);
  return TC_OK;
}

TC_TEST(linear_parts) {
  tc_sym_ctx *c = tc_sym_create(arena);
  const tc_sym *coeff, *rest, *i = sym_parse(c, "i");
  assert_true(tc_sym_linear(c, sym_parse(c, "i*s0 + 4*i + j*s0 + 7"), i, &coeff, &rest));
  assert_ptr_equal(coeff, sym_parse(c, "s0 + 4"));
  assert_ptr_equal(rest, sym_parse(c, "j*s0 + 7"));
  assert_true(tc_sym_linear(c, sym_parse(c, "j + Mod(k, 3)"), i, &coeff, &rest));
  assert_true(tc_sym_is_int(coeff, 0));
  assert_false(tc_sym_linear(c, sym_parse(c, "i*i"), i, &coeff, &rest));
  assert_false(tc_sym_linear(c, sym_parse(c, "i + i//2"), i, &coeff, &rest));
  assert_false(tc_sym_linear(c, sym_parse(c, "i*Mod(i, 4)"), i, &coeff, &rest));
  assert_true(tc_sym_linear(c, sym_parse(c, "i*Mod(j, 4)"), i, &coeff, &rest));
  assert_true(tc_sym_uses(sym_parse(c, "Min(j, 3 + i//2)"), i));
  assert_false(tc_sym_uses(sym_parse(c, "Min(j, 3 + k//2)"), i));
  return TC_OK;
}

TC_TEST(fresh_symbols_are_new) {
  tc_sym_ctx *c = tc_sym_create(arena);
  tc_sym_symbol(c, TC_SV("i1"));
  assert_sv(tc_sym_fresh(c, "i", TC_SYM_LOOP)->name, "i0");
  const tc_sym *s = tc_sym_fresh(c, "i", TC_SYM_LOOP);
  assert_sv(s->name, "i2");
  assert_int_equal(tc_sym_info_of(c, s)->origin, TC_SYM_LOOP);
  assert_int_equal(tc_sym_symbol_count(c), 3);
  assert_ptr_equal(tc_sym_symbol_at(c, s->symbol), s);
  return TC_OK;
}

TC_TEST(copies_carry_their_symbols) {
  tc_sym_ctx *from = tc_sym_create(arena), *to = tc_sym_create(arena);
  sym_range(from, "n", 1, TC_SYM_INF, NULL, NULL);
  sym_range(from, "i", 0, TC_SYM_INF, NULL, "n - 1");
  sym_parse(to, "z + i2");
  const tc_sym *e = tc_sym_import(to, from, sym_parse(from, "i*7 + Mod(n, 3)"));
  assert_string_equal(sym_text(to, e), "7*i + Mod(n, 3)");
  assert_proves(to, "i < n", 1);
  assert_ptr_equal(tc_sym_import(from, from, e), e);
  return TC_OK;
}

TC_TEST_TORTURED(short_memory_is_reported) {
  tc_sym_ctx *c = tc_sym_create(arena);
  static const char text[] = "Mod(i*s0*s1 + j*s1 + k//4, s0*s1) + Min(s0, 8)*(s1 + 1)";
  tc_lexer lx;
  const tc_sym *e = NULL;
  int64_t v = 0, values[5] = {3, 4, 5, 6, 7};
  tc_lex_init(&lx, arena, TC_SV("x"), TC_SV(text));
  TC_TRY(tc_sym_parse(c, &lx, &e));
  tc_sym_assume(c, tc_sym_cmp(c, TC_SYM_LT, e, tc_sym_int(c, 100)));
  TC_TRY(tc_sym_run(tc_sym_compile(arena, e), values, &v));
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(proves_from_ranges),
                                     cmocka_unit_test(proves_from_symbolic_bounds),
                                     cmocka_unit_test(circular_bounds_end),
                                     cmocka_unit_test(assumptions_become_facts),
                                     cmocka_unit_test(later_facts_are_used_by_simplify),
                                     cmocka_unit_test(linear_parts),
                                     cmocka_unit_test(fresh_symbols_are_new),
                                     cmocka_unit_test(copies_carry_their_symbols),
                                     cmocka_unit_test(short_memory_is_reported)};
  return TC_RUN(tests);
}
