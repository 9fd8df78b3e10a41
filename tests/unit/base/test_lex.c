// Tokens, their places, and errors that show the line.
#include <math.h>

#include "core/base/lex.h"
#include "tests/unit/unit.h"

static tc_lexer start(tc_arena *arena, const char *text) {
  tc_lexer lx;
  tc_lex_init(&lx, arena, TC_SV("file.tc"), tc_sv_of(text));
  return lx;
}

TC_TEST_TORTURED(splits_into_tokens) {
  static const struct {
    int32_t kind;
    const char *text;
  } want[] = {{TC_TOK_SIGIL, "%x.1"}, {TC_TOK_PUNCT, "="},      {TC_TOK_IDENT, "aten"},  {TC_TOK_PUNCT, "::"},
              {TC_TOK_IDENT, "add"},  {TC_TOK_PUNCT, "("},      {TC_TOK_SIGIL, "@w$0"},  {TC_TOK_PUNCT, ","},
              {TC_TOK_INT, "12"},     {TC_TOK_PUNCT, ")"},      {TC_TOK_PUNCT, "->"},    {TC_TOK_IDENT, "f32"},
              {TC_TOK_SIGIL, "^bb0"}, {TC_TOK_FLOAT, "1.5e-3"}, {TC_TOK_PUNCT, "//"},    {TC_TOK_PUNCT, "**"},
              {TC_TOK_PUNCT, "<<"},   {TC_TOK_PUNCT, "<="},     {TC_TOK_PUNCT, "<"},     {TC_TOK_PUNCT, "%"},
              {TC_TOK_PUNCT, "&"},    {TC_TOK_PUNCT, "&&"},     {TC_TOK_STRING, "a\"b"}, {TC_TOK_END, ""}};
  tc_lexer lx =
      start(arena, "%x.1 = aten::add(@w$0, 12) -> f32 # comment -> gone\n ^bb0 1.5e-3 // ** << <= < % & && \"a\\\"b\"");
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
    if (lx.tok.kind != want[i].kind || !tc_sv_is(lx.tok.text, want[i].text))
      fail_msg("token %d is %d '" TC_SV_FMT "', expected '%s'", (int)i, (int)lx.tok.kind, TC_SV_ARG(lx.tok.text),
               want[i].text);
    tc_lex_next(&lx);
  }
  assert_int_equal(lx.tok.kind, TC_TOK_END); // and stays there
  return TC_OK;
}

TC_TEST(knows_places) {
  tc_lexer lx = start(arena, "a\n  bc\n\"x\" d");
  static const int32_t want[][2] = {{1, 1}, {2, 3}, {3, 1}, {3, 5}};
  for (size_t i = 0; i < 4; i++, tc_lex_next(&lx)) {
    assert_int_equal(lx.tok.line, want[i][0]);
    assert_int_equal(lx.tok.column, want[i][1]);
  }
  return TC_OK;
}

TC_TEST(reads_numbers) {
  static const struct {
    const char *text;
    double v;
  } rows[] = {{"0", 0},
              {"1.", 1},
              {"1.25", 1.25},
              {"1e3", 1000},
              {"2.5E-1", 0.25},
              {"0x1p-3", 0.125},
              {"0x1.8p1", 3},
              {"0x.8p1", 1},
              {"0xffp0", 255},
              {"inf", INFINITY},
              {"-1.5", -1.5},
              {"-7", -7},
              {"0x1.fffffffffffffp1023", 0x1.fffffffffffffp1023},
              {"0x1p-1074", 0x1p-1074},
              {"0x1.00000000000008000000000000001p0", 0x1.0000000000001p0},
              {"123456789012345678901234567890.0", 123456789012345678901234567890.0}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tc_lexer lx = start(arena, rows[i].text);
    double v = 0;
    assert_ok(tc_lex_double(&lx, &v));
    if (v != rows[i].v) fail_msg("'%s' is %a", rows[i].text, v);
    assert_int_equal(lx.tok.kind, TC_TOK_END);
  }
  tc_lexer lx = start(arena, "nan 0xff -9223372036854775808 9223372036854775807 0xffffffffffffffff");
  double d = 0;
  int64_t v = 0;
  assert_ok(tc_lex_double(&lx, &d));
  assert_true(isnan(d));
  static const int64_t want[] = {255, INT64_MIN, INT64_MAX, -1};
  for (size_t i = 0; i < 4; i++) {
    assert_ok(tc_lex_int(&lx, &v));
    assert_int_equal(v, want[i]);
  }
  return TC_OK;
}

// A float that was printed by the builder comes back with the same bits, also as a hexadecimal float.
TC_TEST(floats_come_back) {
  uint64_t seed = tc_test_seed();
  for (int32_t i = 0; i < 20000; i++) {
    uint64_t bits = tc_test_random(&seed);
    double v, back = 0;
    memcpy(&v, &bits, sizeof v);
    if (!isfinite(v)) continue;
    char hex[64];
    snprintf(hex, sizeof hex, "%a", v);
    tc_sb sb = tc_sb_make(arena);
    tc_sb_double(&sb, v);
    tc_lexer lx = start(arena, hex), ly = start(arena, sb.text);
    assert_ok(tc_lex_double(&lx, &back));
    if (back != v) fail_msg("%s was read as %a", hex, back);
    assert_ok(tc_lex_double(&ly, &back));
    if (back != v) fail_msg("%s was read as %a", sb.text, back);
  }
  return TC_OK;
}

TC_TEST(strings_come_back) {
  char bytes[256];
  for (int32_t i = 0; i < 256; i++) bytes[i] = (char)i;
  tc_sb sb = tc_sb_make(arena);
  tc_sb_quoted(&sb, (tc_sv){bytes, 256});
  tc_lexer lx = start(arena, sb.text);
  tc_sv got;
  assert_ok(tc_lex_string(&lx, &got));
  assert_true(tc_sv_eq(got, (tc_sv){bytes, 256}));
  return TC_OK;
}

TC_TEST(reports_what_it_cannot_read) {
  static const char *const rows[][2] = {{"\"open", "not closed"},
                                        {"\"open\nnext\"", "not closed"},
                                        {"\"a\\q\"", "unknown escape"},
                                        {"\"a\\x4\"", "two hexadecimal digits"},
                                        {"\"a\\", "not closed"},
                                        {"12ab", "run into a name"},
                                        {"9223372036854775809", "64 bits"},
                                        {"0x", "digits"},
                                        {"0x10000000000000000", "64 bits"},
                                        {"0x1.8", "exponent"},
                                        {"0x1p", "exponent"},
                                        {"\x01", "byte"},
                                        {"\xc3\xa4", "byte"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tc_lexer lx = start(arena, rows[i][0]);
    tc_sv text;
    assert_int_equal(lx.tok.kind, TC_TOK_BAD);
    assert_error(tc_lex_string(&lx, &text), TC_STATUS_INVALID_ARGUMENT, rows[i][1]);
  }
  return TC_OK;
}

TC_TEST_TORTURED(errors_show_the_line) {
  tc_lexer lx = start(arena, "first\n\tlet x + 3\nlast");
  for (int32_t i = 0; i < 3; i++) tc_lex_next(&lx);
  assert_true(tc_lex_at(&lx, "+"));
  tc_status st = tc_lex_expect(&lx, "=");
  if (tc_status_code(st) == TC_STATUS_OUT_OF_MEMORY) return st;
  assert_string_equal(tc_status_text(st), "file.tc:2:8: expected '=', found '+'\n  \tlet x + 3\n  \t      ^");
  tc_status_free(st);
  char longer[4000];
  memset(longer, 'a', sizeof longer);
  memcpy(longer + 2000, " ? ", 3);
  longer[3999] = 0;
  lx = start(arena, longer);
  tc_lex_next(&lx);
  st = tc_lex_expect(&lx, "=");
  if (tc_status_code(st) == TC_STATUS_OUT_OF_MEMORY) return st;
  assert_true(strlen(tc_status_text(st)) < 400);
  assert_non_null(strstr(tc_status_text(st), "file.tc:1:2002"));
  tc_status_free(st);
  return TC_OK;
}

TC_TEST(takes_what_it_is_asked_for) {
  tc_lexer lx = start(arena, "name %val 3 \"=\" 9223372036854775808");
  tc_sv s;
  int64_t v;
  assert_error(tc_lex_sigil(&lx, '%', &s), TC_STATUS_INVALID_ARGUMENT, "starts with '%'");
  assert_ok(tc_lex_ident(&lx, &s));
  assert_sv(s, "name");
  assert_error(tc_lex_sigil(&lx, '@', &s), TC_STATUS_INVALID_ARGUMENT, "found '%val'");
  assert_ok(tc_lex_sigil(&lx, '%', &s));
  assert_sv(s, "val");
  assert_error(tc_lex_ident(&lx, &s), TC_STATUS_INVALID_ARGUMENT, "a name");
  assert_ok(tc_lex_int(&lx, &v));
  assert_false(tc_lex_eat(&lx, "=")); // a string is not a sign
  assert_ok(tc_lex_string(&lx, &s));
  assert_error(tc_lex_int(&lx, &v), TC_STATUS_INVALID_ARGUMENT, "64 bits");
  return TC_OK;
}

// Any bytes give tokens and an end, in as many steps as there are bytes at most.
TC_TEST(survives_any_text) {
  uint64_t seed = tc_test_seed();
  static const char likely[] = "%@^\"\\x0123456789abcdef.eEpP+-*/<>=!&| \n#_";
  for (int32_t i = 0; i < 20000; i++) {
    char text[40];
    size_t n = tc_test_random(&seed) % sizeof text;
    for (size_t k = 0; k < n; k++)
      text[k] =
          tc_test_random(&seed) % 8 ? likely[tc_test_random(&seed) % (sizeof likely - 1)] : (char)tc_test_random(&seed);
    char *exact = malloc(n ? n : 1); // so that a sanitizer sees reads behind the end
    memcpy(exact, text, n);
    tc_lexer lx;
    tc_lex_init(&lx, arena, TC_SV("x"), (tc_sv){exact, n});
    size_t steps = 0;
    for (; lx.tok.kind != TC_TOK_END; tc_lex_next(&lx)) {
      assert_true(++steps <= n);
      if (lx.tok.kind == TC_TOK_BAD) tc_status_free(tc_lex_error(&lx, "bad"));
    }
    free(exact);
  }
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(splits_into_tokens),   cmocka_unit_test(knows_places),
      cmocka_unit_test(reads_numbers),        cmocka_unit_test(floats_come_back),
      cmocka_unit_test(strings_come_back),    cmocka_unit_test(reports_what_it_cannot_read),
      cmocka_unit_test(errors_show_the_line), cmocka_unit_test(takes_what_it_is_asked_for),
      cmocka_unit_test(survives_any_text)};
  return TC_RUN(tests);
}
