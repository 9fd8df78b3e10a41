// Identities that index expressions depend on: each line is a text and what it must simplify to.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/symbolic/sym.h"

typedef struct fixture {
  tc_arena *arena;
  tc_sym_ctx *c;
} fixture;

static const tc_sym *parse(tc_sym_ctx *c, const char *text) {
  tc_lexer lx;
  const tc_sym *e = NULL;
  tc_lex_init(&lx, tc_sym_arena(c), TC_SV("test"), tc_sv_of(text));
  tc_status st = tc_sym_parse(c, &lx, &e);
  if (st) fail_msg("%s", tc_status_text(st));
  if (lx.tok.kind != TC_TOK_END) fail_msg("junk behind '%s'", text);
  return e;
}

static const char *text_of(tc_sym_ctx *c, const tc_sym *e) {
  tc_sb sb = tc_sb_make(tc_sym_arena(c));
  tc_sym_print(&sb, e);
  return sb.text;
}

static void range(tc_sym_ctx *c, const char *name, int64_t lo, int64_t hi, const char *lo_expr, const char *hi_expr) {
  const tc_sym *l = lo_expr ? parse(c, lo_expr) : NULL, *h = hi_expr ? parse(c, hi_expr) : NULL;
  tc_sym_info *info = tc_sym_info_of(c, parse(c, name));
  info->lo = lo;
  info->hi = hi;
  info->lo_expr = l;
  info->hi_expr = h;
}

// Sizes s0, s1, s2 ≥ 1; t is a multiple of 8; loop variables i < s0, j < s1, k < s2; a < 4, b < 8, d < 16, m < 128.
static tc_status build(void *arg) {
  fixture *f = arg;
  f->c = tc_sym_create(f->arena);
  tc_sym_ctx *c = f->c;
  range(c, "s0", 1, TC_SYM_INF, NULL, NULL);
  range(c, "s1", 1, TC_SYM_INF, NULL, NULL);
  range(c, "s2", 1, TC_SYM_INF, NULL, NULL);
  range(c, "t", 8, TC_SYM_INF, NULL, NULL);
  tc_sym_info_of(c, parse(c, "t"))->divisor = 8;
  range(c, "i", 0, TC_SYM_INF, NULL, "s0 - 1");
  range(c, "j", 0, TC_SYM_INF, NULL, "s1 - 1");
  range(c, "k", 0, TC_SYM_INF, NULL, "s2 - 1");
  range(c, "a", 0, 3, NULL, NULL);
  range(c, "b", 0, 7, NULL, NULL);
  range(c, "d", 0, 15, NULL, NULL);
  range(c, "m", 0, 127, NULL, NULL);
  range(c, "u", -TC_SYM_INF, TC_SYM_INF, NULL, NULL);
  return TC_OK;
}

static int setup(void **state) {
  static fixture f;
  if (tc_arena_create(tc_system_allocator(), &f.arena) != TC_OK) return 1;
  *state = &f;
  return tc_arena_guard(f.arena, build, &f) == TC_OK ? 0 : 1;
}
static int teardown(void **state) {
  tc_arena_destroy(((fixture *)*state)->arena);
  return 0;
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
    {"u//-4", "-u//4"},
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

static tc_status check_cases(void *arg) {
  tc_sym_ctx *c = ((fixture *)arg)->c;
  int32_t wrong = 0;
  for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
    const tc_sym *got = parse(c, CASES[i][0]), *want = parse(c, CASES[i][1]);
    if (got == want) continue;
    wrong++;
    print_error("%s gave %s, wanted %s\n", CASES[i][0], text_of(c, got), text_of(c, want));
  }
  assert_int_equal(wrong, 0);
  return TC_OK;
}

static void test_cases(void **state) { assert_null(tc_arena_guard(((fixture *)*state)->arena, check_cases, *state)); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_cases, setup, teardown)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
