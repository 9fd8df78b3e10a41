// The text form, trees with a resolver, SymPy's srepr text, and what is refused.
#include "tests/unit/symbolic/sym_test.h"

TC_TEST(prints_what_it_reads) {
  tc_sym_ctx *c = tc_sym_create(arena);
  static const char *const same[] = {"0",
                                     "-7",
                                     "-9223372036854775808",
                                     "s0",
                                     "-s0",
                                     "4*s0 - s1 + 8",
                                     "4*s0 + s1//8 + Mod(s2, 3) + Max(s0, 1)",
                                     "s0**2*s1 + 3*s0*s1 + s0 + 1",
                                     "-(s0//8)",
                                     "4*(s0//8)",
                                     "(s0 + 1)//(2*s1)",
                                     "s2*(s0//s1) - s0//s1",
                                     "Min(s0, 64)",
                                     "Mod(s1, 8) == 0 && s0 <= 64",
                                     "s0 == 1 || s1 != s2",
                                     "Where(s0 < s1, s0, s1 + 1)",
                                     "2**s0",
                                     "s0**s1",
                                     "(s0 < s1) + 1",
                                     "-s0*s1 + 5",
                                     "s0 + -9223372036854775808",
                                     "1 + 9223372036854775807",
                                     "(4*s0)*4611686018427387904",
                                     "2**70",
                                     "(2**70)**2 + 1"};
  for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
    const tc_sym *e = sym_parse(c, same[i]);
    const char *text = sym_text(c, e);
    if (strcmp(text, same[i]) != 0) fail_msg("'%s' prints as '%s'", same[i], text);
    const tc_sym *back = sym_parse(c, text);
    if (back != e) fail_msg("'%s' printed as '%s', which is '%s'", same[i], text, sym_text(c, back));
  }
  assert_string_equal(sym_text(c, sym_parse(c, "Max(s0, 1) + Mod(s2, 3) + s1//8 + 4*s0")),
                      "4*s0 + s1//8 + Mod(s2, 3) + Max(s0, 1)");
  assert_string_equal(sym_text(c, sym_parse(c, "64 >= s0 && s1 % 8 == 0")), "Mod(s1, 8) == 0 && s0 <= 64");
  assert_sym(c, "s1%8", "Mod(s1, 8)");
  assert_sym(c, "CeilDiv(s0, 4)", "(s0 + 3)//4");
  assert_sym(c, "Abs(s0)", "Max(s0, -s0)");
  assert_sym(c, "ModularIndexing(s0, 4, 8)", "Mod(s0//4, 8)");
  assert_sym(c, "s0 << 3", "8*s0");
  assert_sym(c, "s0 >> 3", "s0//8");
  assert_sym(c, "s0 > 3", "4 <= s0");
  assert_sym(c, "!(s0 > 3)", "s0 <= 3");
  assert_sym(c, "4*!s0 && s1 + s2", "s0 == 0 && s1 + s2 != 0");
  assert_sym(c, "4*(s0 < s1) == 0", "s1 <= s0");
  assert_sym(c, "min(s0, 3) + true", "Min(s0, 3) + 1");
  return TC_OK;
}

// Where an operation would overflow it is kept, evaluates exactly or says so, and comes back from text.
TC_TEST(overflow_is_kept) {
  tc_sym_ctx *c = tc_sym_create(arena);
  static const char *const rows[] = {"9223372036854775807 + 1",
                                     "-9223372036854775808 - 1",
                                     "-(-9223372036854775808)",
                                     "9223372036854775807*2",
                                     "9223372036854775807*s0 + s0",
                                     "s0*9223372036854775807*9223372036854775807",
                                     "(s0*4611686018427387904)*(s1*4)",
                                     "(3*s0 + 1)**50",
                                     "s0**9223372036854775807*s0",
                                     "(3*s0)**100",
                                     "(9223372036854775807*s0 + 1)*9223372036854775807 + s1",
                                     "-9223372036854775808//-1",
                                     "Mod(s0, -9223372036854775808)",
                                     "9223372036854775807*s0 <= 9223372036854775807*s1 + 9223372036854775807",
                                     "s0 - -9223372036854775808 < s1",
                                     "(-9223372036854775808 + s0)//-9223372036854775808"};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const tc_sym *e = sym_parse(c, rows[i]);
    const char *text = sym_text(c, e);
    const tc_sym *back = sym_parse(c, text);
    if (back != e) fail_msg("'%s' printed as '%s', which is '%s'", rows[i], text, sym_text(c, back));
    int64_t lo, hi;
    tc_sym_range(c, e, &lo, &hi);
    (void)tc_sym_divisor(c, e);
    (void)tc_sym_prove(c, e);
  }
  int64_t v = 0, values[2] = {1, 0};
  assert_error(tc_sym_eval(sym_parse(c, rows[0]), values, &v), TC_STATUS_OUT_OF_RANGE, "64 bits");
  assert_ok(tc_sym_eval(sym_parse(c, "(9223372036854775807 + 1) - 1"), values, &v));
  assert_int_equal(v, INT64_MAX);
  values[0] = 1;
  assert_error(tc_sym_eval(sym_parse(c, rows[4]), values, &v), TC_STATUS_OUT_OF_RANGE, "64 bits");
  values[0] = 0;
  assert_ok(tc_sym_eval(sym_parse(c, rows[4]), values, &v));
  assert_int_equal(v, 0);
  return TC_OK;
}

TC_TEST(refuses_other_text) {
  tc_sym_ctx *c = tc_sym_create(arena);
  static const char *const rows[][2] = {{"s0/2", "use '//'"},
                                        {"1.5*s0", "no fractions"},
                                        {"~s0", "no meaning"},
                                        {"s0 & 3", "no meaning"},
                                        {"f(s0)", "not a symbolic"},
                                        {"Mod(s0)", "does not take 1"},
                                        {"Min(a=3)", "named arguments"},
                                        {"\"s0\"", "no meaning"},
                                        {"s0.size", "no meaning"},
                                        {"none", "no meaning"},
                                        {"f.g(1)", "only a function"},
                                        {"3 + nan", "no fractions"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tc_lexer lx;
    const tc_sym *e = NULL;
    tc_lex_init(&lx, arena, TC_SV("x"), tc_sv_of(rows[i][0]));
    assert_error(tc_sym_parse(c, &lx, &e), TC_STATUS_INVALID_ARGUMENT, rows[i][1]);
  }
  tc_lexer lx;
  const tc_ex *ex = NULL;
  const tc_sym *e = NULL;
  tc_sym_symbol(c, TC_SV("batch"));
  tc_lex_init(&lx, arena, TC_SV("x"), TC_SV("3 + bach"));
  assert_ok(tc_ex_parse(&lx, &ex));
  assert_error(tc_sym_from_ex(c, &lx, ex, false, &e), TC_STATUS_INVALID_ARGUMENT,
               "x:1:5: unknown symbol 'bach'; did you mean 'batch'");
  assert_error(tc_sym_from_ex(c, NULL, ex, false, &e), TC_STATUS_INVALID_ARGUMENT, "1:5: unknown symbol");
  return TC_OK;
}

static tc_status resolve(void *self, tc_sym_ctx *c, const tc_ex *ex, const tc_sym **out) {
  (void)self;
  if (ex->kind == TC_EX_MEMBER && tc_sv_is(ex->text, "numel")) *out = sym_parse(c, "s0*s1");
  if (ex->kind == TC_EX_CALL && ex->kids[0]->kind == TC_EX_MEMBER) *out = sym_parse(c, "s1");
  if (ex->kind == TC_EX_NAME && tc_sv_is(ex->text, "bad")) return tc_error(TC_STATUS_NOT_FOUND, "no such operand");
  return TC_OK;
}

TC_TEST(asks_a_resolver) {
  tc_sym_ctx *c = tc_sym_create(arena);
  tc_lexer lx;
  const tc_ex *ex = NULL;
  const tc_sym *e = NULL;
  tc_lex_init(&lx, arena, TC_SV("flops"), TC_SV("2 * out.numel * weight.size(1) + Max(s0, 2)"));
  assert_ok(tc_ex_parse(&lx, &ex));
  assert_ok(tc_sym_from_ex_with(c, &lx, ex, false, resolve, NULL, &e));
  assert_ptr_equal(e, sym_parse(c, "2*s0*s1**2 + Max(s0, 2)"));
  tc_lex_init(&lx, arena, TC_SV("flops"), TC_SV("bad + 1"));
  assert_ok(tc_ex_parse(&lx, &ex));
  assert_error(tc_sym_from_ex_with(c, &lx, ex, false, resolve, NULL, &e), TC_STATUS_NOT_FOUND, "no such operand");
  return TC_OK;
}

#define S(name) "Symbol('" name "', positive=True, integer=True)"

TC_TEST(reads_srepr) {
  tc_sym_ctx *c = tc_sym_create(arena);
  // The forms of exported models, and of functions that larger models use.
  static const char *const rows[][2] = {
      {"Symbol('u0', integer=True)", "u0"},
      {S("s77"), "s77"},
      {"LessThan(Symbol('u1', integer=True), Integer(7))", "u1 <= 7"},
      {"GreaterThan(Symbol('u0', integer=True), Integer(0))", "u0 >= 0"},
      {"Pow(" S("s70") ", Integer(2))", "s70**2"},
      {"Mul(Integer(2048), " S("s18") ")", "2048*s18"},
      {"FloorDiv(" S("s77") ", Integer(2))", "s77//2"},
      {"Add(Mul(Integer(1088), " S("s18") "), Integer(544))", "1088*s18 + 544"},
      {"Mul(Integer(2), Pow(" S("s27") ", Integer(2)))", "2*s27**2"},
      {"Min(Integer(32), Mul(Integer(32), " S("s70") "))", "Min(32, 32*s70)"},
      {"Mul(" S("s70") ", " S("s72") ")", "s70*s72"},
      {"Add(" S("s17") ", " S("s77") ", FloorDiv(" S("s77") ", Integer(2)))", "s17 + s77 + s77//2"},
      {"Add(Mul(Integer(-1), " S("s0") "), Integer(3))", "3 - s0"},
      {"FloorToInt(IntTrueDiv(" S("s0") ", Integer(3)))", "s0//3"},
      {"CeilToInt(IntTrueDiv(" S("s0") ", Integer(3)))", "CeilDiv(s0, 3)"},
      {"TruncToInt(IntTrueDiv(" S("s0") ", Integer(3)))", "s0//3"},
      {"FloorToInt(FloatTrueDiv(ToFloat(" S("s0") "), Float('2.0', precision=53)))", "s0//2"},
      {"FloorToInt(Mul(Float('0.5', precision=53), ToFloat(" S("s0") ")))", "s0//2"},
      {"Mul(Rational(1, 2), Add(Mul(Integer(2), " S("s0") "), Integer(4)))", "s0 + 2"},
      {"Add(Mul(Rational(1, 2), " S("s0") "), Mul(Rational(1, 2), " S("s0") "))", "s0"},
      {"ModularIndexing(" S("s0") ", Integer(4), Integer(8))", "Mod(s0//4, 8)"},
      {"PythonMod(Symbol('u0', integer=True), Integer(8))", "Mod(u0, 8)"},
      {"Where(StrictLessThan(Symbol('u0', integer=True), Integer(3)), Integer(1), Integer(2))", "Where(u0 < 3, 1, 2)"},
      {"Piecewise(ExprCondPair(Integer(1), Equality(Symbol('u0', integer=True), Integer(0))), ExprCondPair(" S(
           "s0") ", true))",
       "Where(u0 == 0, 1, s0)"},
      {"And(Not(Unequality(" S("s0") ", Integer(4))), Or(StrictGreaterThan(" S("s1") ", Integer(2)), false))",
       "s0 == 4 && s1 > 2"},
      {"PowByNatural(" S("s0") ", Integer(3))", "s0**3"},
      {"LShift(" S("s0") ", Integer(3))", "8*s0"},
      {"Mul(Pow(" S("s1") ", Integer(-1)), " S("s0") ", " S("s1") ")", "s0"},
      {"StrictLessThan(Mul(Rational(1, 2), " S("s0") "), " S("s1") ")", "s0 < 2*s1"},
      {"  Add ( Integer( 3 ) ,\n Symbol ( \"s0\" ) ) ", "s0 + 3"},
      {"s77", "s77"},
      {"4*s18", "4*s18"},
      {"Max(1, s15 + 1)", "Max(1, s15 + 1)"},
      {"12", "12"},
  };
  int32_t wrong = 0;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const tc_sym *e = NULL;
    tc_status st = tc_sym_parse_srepr(c, tc_sv_of(rows[i][0]), &e);
    if (st) fail_msg("'%s': %s", rows[i][0], tc_status_text(st));
    const tc_sym *want = sym_parse(c, rows[i][1]);
    if (e == want) continue;
    print_error("'%s' is %s, expected %s\n", rows[i][0], sym_text(c, e), sym_text(c, want));
    wrong++;
  }
  assert_int_equal(wrong, 0);
  assert_int_equal(tc_sym_info_of(c, sym_parse(c, "s77"))->lo, 1);
  assert_int_equal(tc_sym_info_of(c, sym_parse(c, "u0"))->lo, -TC_SYM_INF);
  return TC_OK;
}

TC_TEST(refuses_other_srepr) {
  tc_sym_ctx *c = tc_sym_create(arena);
  static const struct {
    const char *text;
    int32_t code;
    const char *part;
  } rows[] = {{"IntTrueDiv(" S("s77") ", Integer(3))", TC_STATUS_UNIMPLEMENTED, "not an integer"},
              {"OpaqueUnaryFn_sqrt(Symbol('s0'))", TC_STATUS_UNIMPLEMENTED, "OpaqueUnaryFn_sqrt"},
              {"Pow(Symbol('s0'), Rational(1, 2))", TC_STATUS_UNIMPLEMENTED, "fractional exponent"},
              {"Mul(Float('0.1', precision=53), Symbol('s0'))", TC_STATUS_UNIMPLEMENTED, "binary fraction"},
              {"__import__('os').system('true') or Integer(1)", TC_STATUS_INVALID_ARGUMENT, "expected"},
              {"Add(Integer(1), Symbol('s0')", TC_STATUS_INVALID_ARGUMENT, "expected ',' or ')'"},
              {"Add(Integer(1)) + Integer(2)", TC_STATUS_INVALID_ARGUMENT, "text behind"},
              {"Integer(99999999999999999999)", TC_STATUS_INVALID_ARGUMENT, "64 bits"},
              {"Integer('3')", TC_STATUS_INVALID_ARGUMENT, "64 bits"},
              {"Rational(1, 0)", TC_STATUS_INVALID_ARGUMENT, "denominator"},
              {"Symbol('a b')", TC_STATUS_INVALID_ARGUMENT, "identifier"},
              {"Symbol('a\\'')", TC_STATUS_INVALID_ARGUMENT, "not closed"},
              {"Symbol('a', evil=os)", TC_STATUS_INVALID_ARGUMENT, "True or False"},
              {"Symbol('a", TC_STATUS_INVALID_ARGUMENT, "not closed"},
              {"Pow(Integer(0), Integer(-1))", TC_STATUS_INVALID_ARGUMENT, "division by zero"},
              {"Mod(Symbol('a'), Integer(1), Integer(2))", TC_STATUS_UNIMPLEMENTED, "3 arguments"},
              {"Min(Integer(1), )", TC_STATUS_INVALID_ARGUMENT, "expected a function"},
              {"", TC_STATUS_INVALID_ARGUMENT, "expected"},
              {"s0 +", TC_STATUS_INVALID_ARGUMENT, "expected"},
              {"s0 s1", TC_STATUS_INVALID_ARGUMENT, "end of the expression"},
              {"Piecewise(ExprCondPair(Integer(1), Equality(Symbol('u'), Integer(0))))", TC_STATUS_INVALID_ARGUMENT,
               "last case"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const tc_sym *e = NULL;
    assert_error(tc_sym_parse_srepr(c, tc_sv_of(rows[i].text), &e), rows[i].code, rows[i].part);
  }
  tc_sb deep = tc_sb_make(arena), wide = tc_sb_make(arena);
  for (int32_t i = 0; i < 100000; i++) tc_sb_putz(&deep, "Add(");
  tc_sb_putz(&deep, "Integer(1)");
  tc_sb_putz(&wide, "Add(Integer(1)");
  for (int32_t i = 0; i < 1000; i++) tc_sb_putz(&wide, ", Integer(1)");
  const tc_sym *e = NULL;
  assert_error(tc_sym_parse_srepr(c, tc_sb_view(&deep), &e), TC_STATUS_INVALID_ARGUMENT, "too deep");
  assert_error(tc_sym_parse_srepr(c, tc_sb_view(&wide), &e), TC_STATUS_INVALID_ARGUMENT, "too many");
  for (int32_t i = 0; i < 200000; i++) tc_sb_putz(&wide, "        ");
  assert_error(tc_sym_parse_srepr(c, tc_sb_view(&wide), &e), TC_STATUS_INVALID_ARGUMENT, "bytes");
  return TC_OK;
}

// Damaged text is an error or another expression, nothing else.
TC_TEST(survives_damaged_text) {
  static const char *const whole[] = {
      "Piecewise(ExprCondPair(Mod(Symbol('s0', positive=True), Integer(4)), Equality(FloorDiv(Symbol('s1'), "
      "Rational(1, 3)), Float('2.5', precision=53))), ExprCondPair(Pow(Symbol('s2'), Integer(-2)), true))",
      "Mod(s0*s1 + 3, s1**2)//(s0 - 1) + Min(s0, -7)*Where(s0 < s1 && s2 != 3, 9223372036854775807, 0 - s2)",
      "CeilToInt(IntTrueDiv(Mul(Integer(-9223372036854775808), Symbol('s0')), Symbol('s1', nonnegative=True)))"};
  uint64_t seed = tc_test_seed();
  tc_sym_ctx *c = NULL;
  for (int32_t i = 0; i < 20000; i++) {
    if (i % 200 == 0) c = tc_sym_create(arena);
    const char *from = whole[tc_test_random(&seed) % 3];
    size_t n = strlen(from);
    char *text = malloc(n);
    memcpy(text, from, n);
    for (uint64_t k = tc_test_random(&seed) % 4; k > 0; k--) {
      size_t a = tc_test_random(&seed) % n, b = tc_test_random(&seed) % n;
      if (tc_test_random(&seed) % 2) text[a] = from[b];
      else n = a + 1;
    }
    const tc_sym *e = NULL;
    tc_status st = tc_sym_parse_srepr(c, (tc_sv){text, n}, &e);
    if (st == TC_OK) (void)tc_sym_prove(c, e);
    tc_status_free(st);
    free(text);
  }
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(prints_what_it_reads), cmocka_unit_test(overflow_is_kept),
                                     cmocka_unit_test(refuses_other_text),   cmocka_unit_test(asks_a_resolver),
                                     cmocka_unit_test(reads_srepr),          cmocka_unit_test(refuses_other_srepr),
                                     cmocka_unit_test(survives_damaged_text)};
  return TC_RUN(tests);
}
