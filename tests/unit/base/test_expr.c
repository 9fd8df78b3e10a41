// The expression parser: precedence, programs, errors, and trees that print and parse back equal.
#include <math.h>

#include "core/base/expr.h"
#include "tests/unit/unit.h"

static const tc_ex *parse(tc_arena *arena, const char *text) {
  tc_lexer lx;
  const tc_ex *e = NULL;
  tc_lex_init(&lx, arena, TC_SV("x"), tc_sv_of(text));
  assert_ok(tc_ex_parse(&lx, &e));
  if (lx.tok.kind != TC_TOK_END) fail_msg("'%s' stops at '" TC_SV_FMT "'", text, TC_SV_ARG(lx.tok.text));
  return e;
}

// Every operation in brackets.
static void shape(tc_sb *sb, const tc_ex *e) {
  if (e->kind == TC_EX_BINARY || e->kind == TC_EX_UNARY || e->n > 0) tc_sb_putc(sb, '(');
  if (e->kind == TC_EX_INT) tc_sb_int(sb, e->integer);
  else if (e->kind == TC_EX_FLOAT) tc_sb_double(sb, e->real);
  else if (e->kind == TC_EX_BOOL) tc_sb_putz(sb, e->integer ? "true" : "false");
  else if (e->kind == TC_EX_NONE) tc_sb_putz(sb, "none");
  else if (e->kind == TC_EX_CALL) tc_sb_putz(sb, "call");
  else if (e->kind == TC_EX_LIST) tc_sb_putz(sb, "list");
  else if (e->kind == TC_EX_INDEX) tc_sb_putz(sb, "index");
  else if (e->kind == TC_EX_STRING) tc_sb_quoted(sb, e->text);
  else tc_sb_put(sb, e->text);
  for (int32_t i = 0; i < e->n; i++) {
    tc_sb_putc(sb, ' ');
    if (e->kind == TC_EX_CALL && e->names[i].size) tc_sb_printf(sb, TC_SV_FMT "=", TC_SV_ARG(e->names[i]));
    shape(sb, e->kids[i]);
  }
  if (e->kind == TC_EX_BINARY || e->kind == TC_EX_UNARY || e->n > 0) tc_sb_putc(sb, ')');
}

TC_TEST_TORTURED(binds_as_usual) {
  static const char *const rows[][2] = {
      {"1 + 2*3", "(+ 1 (* 2 3))"},
      {"a - b - c", "(- (- a b) c)"},
      {"a % b", "(% a b)"},
      {"s1%8", "(% s1 8)"},
      {"a %b ^c", "(^ (% a b) c)"},
      {"a//b/c", "(/ (// a b) c)"},
      {"-a**2", "(- (** a 2))"},
      {"2**-1", "(** 2 (- 1))"},
      {"a**b**c", "(** a (** b c))"},
      {"-x.y(1)[2]", "(- (index (call (y x) 1) 2))"},
      {"a || b && c == d | e ^ f & g << h + i", "(|| a (&& b (== c (| d (^ e (& f (<< g (+ h i))))))))"},
      {"!a && ~b < 3", "(&& (! a) (< (~ b) 3))"},
      {"aten::add.Tensor(a, b, alpha=2)", "(call (Tensor aten::add) a b alpha=2)"},
      {"f(g(x), [1, 2.5, \"s\"], none, true)", "(call f (call g x) (list 1 2.5 \"s\") none true)"},
      {"t.0.1", "(1 (0 t))"},
      {"x[i, j + 1]", "(index x i (+ j 1))"},
      {"f()", "(call f)"},
      {"[]", "list"},
      {"-9223372036854775808", "-9223372036854775808"},
      {"(1 < 2) == (a < b)", "(== (< 1 2) (< a b))"},
      {"inf - nan", "(- inf nan)"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tc_lexer lx;
    const tc_ex *e = NULL;
    tc_lex_init(&lx, arena, TC_SV("x"), tc_sv_of(rows[i][0]));
    TC_TRY(tc_ex_parse(&lx, &e));
    tc_sb sb = tc_sb_make(arena);
    shape(&sb, e);
    if (strcmp(sb.text, rows[i][1]) != 0) fail_msg("'%s' is %s", rows[i][0], sb.text);
  }
  return TC_OK;
}

TC_TEST_TORTURED(reads_programs) {
  tc_ex_program p;
  TC_TRY(tc_ex_parse_program(arena, TC_SV("body"), TC_SV("let a, b = split(x); let c = a + b; c*2, # first\n a"), &p));
  assert_int_equal(p.n_lets, 2);
  assert_int_equal(p.lets[0].n_names, 2);
  assert_sv(p.lets[0].names[1], "b");
  assert_sv(p.lets[1].names[0], "c");
  assert_int_equal(p.n_results, 2);
  assert_int_equal(p.results[1]->kind, TC_EX_NAME);
  assert_int_equal(p.results[1]->line, 2);
  return TC_OK;
}

TC_TEST(reports_errors_with_their_place) {
  static const char *const rows[][2] = {{"", "x:1:1: expected an expression, found the end"},
                                        {"1 +", "1:4: expected an expression"},
                                        {"(1 + 2", "expected ')'"},
                                        {"f(1, 2", "expected ')'"},
                                        {"x[]", "index must not be empty"},
                                        {"a < b < c", "do not chain"},
                                        {"a.(b)", "behind '.'"},
                                        {"a.0x8. 088", "behind '.'"},
                                        {"a::3", "a name"},
                                        {"1 2", "end of the text"},
                                        {"let = 3; 1", "a name"},
                                        {"let a = 3", "expected ';'"},
                                        {"let a = 3;", "expected an expression"},
                                        {"f(a=)", "expected an expression"},
                                        {"9223372036854775808", "64 bits"},
                                        {"\"open", "not closed"},
                                        {"= 3", "found '='"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tc_ex_program p;
    assert_error(tc_ex_parse_program(arena, TC_SV("x"), tc_sv_of(rows[i][0]), &p), TC_STATUS_INVALID_ARGUMENT,
                 rows[i][1]);
  }
  return TC_OK;
}

TC_TEST(bounds_depth) {
  static const char *const openers[] = {"(", "[", "-", "f(", "x[", "2**", "1+(", "a=f("};
  for (size_t k = 0; k < sizeof openers / sizeof *openers; k++) {
    tc_sb sb = tc_sb_make(arena);
    for (int32_t i = 0; i < 100000; i++) tc_sb_putz(&sb, openers[k]);
    tc_ex_program p;
    assert_error(tc_ex_parse_program(arena, TC_SV("x"), tc_sb_view(&sb), &p), TC_STATUS_INVALID_ARGUMENT, "");
  }
  tc_sb chain = tc_sb_make(arena);
  tc_ex_program p;
  tc_sb_putz(&chain, "a");
  for (int32_t i = 0; i < 2500; i++) tc_sb_putz(&chain, " + a");
  assert_ok(tc_ex_parse_program(arena, TC_SV("x"), tc_sb_view(&chain), &p));
  for (int32_t i = 0; i < 2500; i++) tc_sb_putz(&chain, ".a");
  assert_ok(tc_ex_parse_program(arena, TC_SV("x"), tc_sb_view(&chain), &p));
  for (int32_t i = 0; i < 2500; i++) tc_sb_putz(&chain, " - a");
  assert_error(tc_ex_parse_program(arena, TC_SV("x"), tc_sb_view(&chain), &p), TC_STATUS_INVALID_ARGUMENT, "too deep");
  return TC_OK;
}

// ---- random trees

static tc_ex *node(tc_arena *arena, int32_t kind, tc_sv text, int32_t n) {
  tc_ex *e = TC_NEW(arena, tc_ex);
  *e = (tc_ex){.kind = kind, .text = text, .n = n, .kids = n ? TC_NEW_ARRAY(arena, const tc_ex *, n) : NULL};
  return e;
}

static const tc_ex *grow(tc_arena *arena, uint64_t *seed, int32_t depth) {
  static const char *const binary[] = {"||", "&&", "==", "!=", "<", "<=", ">", ">=", "|", "^",
                                       "&",  "<<", ">>", "+",  "-", "*",  "/", "//", "%", "**"};
  static const char *const unary[] = {"-", "!", "~"};
  static const char *const names[] = {"x", "s0", "aten::add", "let", "e1"};
  uint64_t r = tc_test_random(seed);
  int32_t what = depth <= 0 ? (int32_t)(r % 6) : 6 + (int32_t)(r % 8);
  r >>= 16;
  tc_ex *e;
  switch (what) {
  case 0:
    e = node(arena, TC_EX_INT, (tc_sv){0}, 0);
    e->integer = r % 5 ? (int64_t)(r % 1000) : INT64_MIN + (int64_t)(r % 2) * INT64_MAX + (int64_t)(r % 2);
    return e;
  case 1:
    e = node(arena, TC_EX_FLOAT, (tc_sv){0}, 0);
    e->real = r % 4 ? ldexp((double)(r % 100000), (int32_t)(r % 60) - 30) : (double)INFINITY;
    return e;
  case 2: return node(arena, TC_EX_STRING, TC_SV("a\"\n\\"), 0);
  case 3:
    e = node(arena, r % 2 ? TC_EX_BOOL : TC_EX_NONE, (tc_sv){0}, 0);
    e->integer = e->kind == TC_EX_BOOL && r % 4 == 1;
    return e;
  case 4:
  case 5: return node(arena, TC_EX_NAME, tc_sv_of(names[r % 5]), 0);
  case 6: e = node(arena, TC_EX_UNARY, tc_sv_of(unary[r % 3]), 1); break;
  case 7: e = node(arena, TC_EX_MEMBER, r % 2 ? TC_SV("size") : TC_SV("0"), 1); break;
  case 8: {
    e = node(arena, TC_EX_CALL, (tc_sv){0}, 1 + (int32_t)(r % 3));
    tc_sv *arg_names = TC_NEW_ARRAY(arena, tc_sv, e->n);
    if (e->n > 1 && r % 2) arg_names[1] = TC_SV("alpha");
    e->names = arg_names;
    break;
  }
  case 9: e = node(arena, TC_EX_INDEX, (tc_sv){0}, 2 + (int32_t)(r % 2)); break;
  case 10: e = node(arena, TC_EX_LIST, (tc_sv){0}, (int32_t)(r % 4)); break;
  default: e = node(arena, TC_EX_BINARY, tc_sv_of(binary[r % 20]), 2);
  }
  for (int32_t i = 0; i < e->n; i++) e->kids[i] = grow(arena, seed, depth - 1 - (int32_t)(tc_test_random(seed) % 2));
  return e;
}

static bool equal(const tc_ex *a, const tc_ex *b) {
  if (a->kind != b->kind || a->n != b->n || !tc_sv_eq(a->text, b->text)) return false;
  if ((a->kind == TC_EX_INT || a->kind == TC_EX_BOOL) && a->integer != b->integer) return false;
  if (a->kind == TC_EX_FLOAT && a->real != b->real) return false;
  for (int32_t i = 0; i < a->n; i++) {
    if (a->kind == TC_EX_CALL && !tc_sv_eq(a->names[i], b->names[i])) return false;
    if (!equal(a->kids[i], b->kids[i])) return false;
  }
  return true;
}

TC_TEST(prints_what_parses_back_equal) {
  uint64_t seed = tc_test_seed();
  for (int32_t i = 0; i < 10000; i++) {
    const tc_ex *e = grow(arena, &seed, (int32_t)(tc_test_random(&seed) % 6));
    tc_sb sb = tc_sb_make(arena);
    tc_ex_print(&sb, e);
    const tc_ex *back = parse(arena, sb.text);
    if (!equal(e, back)) fail_msg("%s", sb.text);
  }
  return TC_OK;
}

TC_TEST(survives_any_text) {
  uint64_t seed = tc_test_seed();
  static const char *const bits[] = {"a",  "1",  ".5", "%", "(",  ")", "[", "]",    ",",   "=", "**",  "-",
                                     "//", "::", "==", "!", "\"", ";", "^", "let ", "2.0", "<", "x::", " "};
  for (int32_t i = 0; i < 20000; i++) {
    tc_sb sb = tc_sb_make(arena);
    for (uint64_t k = tc_test_random(&seed) % 20; k > 0; k--) tc_sb_putz(&sb, bits[tc_test_random(&seed) % 24]);
    tc_ex_program p;
    tc_status_free(tc_ex_parse_program(arena, TC_SV("x"), tc_sb_view(&sb), &p));
  }
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(binds_as_usual),
                                     cmocka_unit_test(reads_programs),
                                     cmocka_unit_test(reports_errors_with_their_place),
                                     cmocka_unit_test(bounds_depth),
                                     cmocka_unit_test(prints_what_parses_back_equal),
                                     cmocka_unit_test(survives_any_text)};
  return TC_RUN(tests);
}
