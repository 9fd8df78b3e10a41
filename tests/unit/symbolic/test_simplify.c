// Identities that index expressions depend on: each line is a text and what it must simplify to.
#include "tests/unit/symbolic/sym_test.h"

// Sizes s0, s1, s2 ≥ 1; t is a multiple of 8; loop variables i < s0, j < s1, k < s2; a < 4, b < 8, d < 16, m < 128.
static tc_sym_ctx *context(tc_arena *arena) {
  tc_sym_ctx *c = tc_sym_create(arena);
  sym_range(c, "s0", 1, TC_SYM_INF, NULL, NULL);
  sym_range(c, "s1", 1, TC_SYM_INF, NULL, NULL);
  sym_range(c, "s2", 1, TC_SYM_INF, NULL, NULL);
  tc_sym_info_of(c, sym_range(c, "t", 8, TC_SYM_INF, NULL, NULL))->divisor = 8;
  sym_range(c, "i", 0, TC_SYM_INF, NULL, "s0 - 1");
  sym_range(c, "j", 0, TC_SYM_INF, NULL, "s1 - 1");
  sym_range(c, "k", 0, TC_SYM_INF, NULL, "s2 - 1");
  sym_range(c, "a", 0, 3, NULL, NULL);
  sym_range(c, "b", 0, 7, NULL, NULL);
  sym_range(c, "d", 0, 15, NULL, NULL);
  sym_range(c, "m", 0, 127, NULL, NULL);
  return c;
}

static const char *const CASES[][2] = {
    // sums of products
    {"s0 + s1 + s0", "2*s0 + s1"},
    {"(s0 + 1)*(s0 - 1)", "s0**2 - 1"},
    {"s0*s1 - s1*s0", "0"},
    {"2*(s0 + 3) - 6", "2*s0"},
    {"s0**2*s0", "s0**3"},
    // constants
    {"(8*i + b)//8", "i"},
    {"Mod(8*i + b, 8)", "b"},
    {"(8*i + b + 16)//8", "i + 2"},
    {"Mod(u*8 + 3, 8)", "3"},
    {"b//8", "0"},
    {"(b + 8)//8", "1"},
    {"Mod(b - 8, 8)", "b"},
    {"(6*u)//4", "u + u//2"},
    {"Mod(6*u, 4)", "2*Mod(u, 2)"},
    {"(8*a + b)//16", "a//2"},
    {"Mod(8*a + b, 16)", "8*Mod(a, 2) + b"},
    {"Mod(Mod(u, 12), 4)", "Mod(u, 4)"},
    {"Mod(3*Mod(u, 4) + d, 12)", "Mod(3*u + d, 12)"},
    {"(u//3)//5", "u//15"},
    {"(u//3 + 2)//5", "(u + 6)//15"},
    {"Mod(m, 32)//8", "Mod(m//8, 4)"},
    {"u//-4", "-CeilDiv(u, 4)"},
    {"-((-u)//4)", "(u + 3)//4"},
    {"(7 - u)//4", "1 - u//4"},
    {"Mod(7 - u, 4)", "3 - Mod(u, 4)"},
    {"Mod(-u, 4)", "3 - Mod(u + 3, 4)"},
    {"4*((7 - u)//4) + Mod(7 - u, 4)", "7 - u"},
    {"Mod(s1 - 1 - j, s1)", "s1 - 1 - j"},
    {"(-1 - u)//s1", "-1 - u//s1"},
    // divisors
    {"Mod(t, 4)", "0"},
    {"(t//8)*8", "t"},
    {"(t + b)//8", "t//8"},
    {"Mod(t + b, 8)", "b"},
    {"Mod(t*s0 + b, 8)", "b"},
    // symbolic extents
    {"(i*s1 + j)//s1", "i"},
    {"Mod(i*s1 + j, s1)", "j"},
    {"(i*s1*s2 + j*s2 + k)//s2", "i*s1 + j"},
    {"((i*s1*s2 + j*s2 + k)//s2)//s1", "i"},
    {"(i*s1*s2 + j*s2 + k)//(s1*s2)", "i"},
    {"Mod((i*s1*s2 + j*s2 + k)//s2, s1)", "j"},
    {"Mod(i*s1*s2 + j*s2 + k, s1*s2)", "j*s2 + k"},
    {"Mod(Mod(i*s1*s2 + j*s2 + k, s1*s2), s2)", "k"},
    {"(j*s2 + k)//(s1*s2)", "0"},
    {"(4*j + a)//(4*s1)", "0"},
    {"Mod(4*j + a, 4*s1)", "4*j + a"},
    {"(i*(s1 + 1) + j)//(s1 + 1)", "i"},
    {"Mod(i*(s1 + 1) + j, s1 + 1)", "j"},
    {"(4*s0)//s0", "4"},
    {"(s0*s1)//(s1*2)", "s0//2"},
    {"(i*s1 + s1 - 1 - j)//s1", "i"},
    {"j//s1", "0"},
    {"(8*s0 + 7)//8", "s0"},
    // quotient and remainder meet again
    {"8*(m//8) + Mod(m, 8)", "m"},
    {"s0*(u//s0) + Mod(u, s0)", "u"},
    {"u - 8*(u//8)", "Mod(u, 8)"},
    {"32*(m//32) + 8*Mod(m//8, 4) + Mod(m, 8)", "m"},
    {"4*Mod(u//4, 6) + Mod(u, 4)", "Mod(u, 24)"},
    {"s1*s2*(u//(s1*s2)) + s2*Mod(u//s2, s1) + Mod(u, s2)", "u"},
    // min, max, conditions
    {"Max(s0, 1)", "s0"},
    {"Min(a, 3)", "a"},
    {"Min(Min(s0, 8), Min(s0, 16))", "Min(s0, 8)"},
    {"Max(s0 + 3, s0)", "s0 + 3"},
    {"Min(j, s1 - 1)", "j"},
    {"Where(j < s1, u, 0)", "u"},
    {"Where(u < 3, 1, 0)", "u <= 2"},
    {"2*u <= 2*s0 + 7", "u <= s0 + 3"},
    {"!(u < s0)", "s0 <= u"},
    {"u < s0 || u >= s0", "1"},
    {"u == 3 && u == 3", "u == 3"},
    {"2*u == 5", "0"},
    {"(u < 3) == 0", "3 <= u"},
};

TC_TEST(simplifies) {
  tc_sym_ctx *c = context(arena);
  int32_t wrong = 0;
  for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
    const tc_sym *got = sym_parse(c, CASES[i][0]), *want = sym_parse(c, CASES[i][1]);
    if (got == want) continue;
    wrong++;
    print_error("%s gave %s, wanted %s\n", CASES[i][0], sym_text(c, got), sym_text(c, want));
  }
  assert_int_equal(wrong, 0);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(simplifies)};
  return TC_RUN(tests);
}
