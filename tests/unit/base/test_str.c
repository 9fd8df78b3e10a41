// Views, numbers, the builder, hashes.
#include <locale.h>
#include <math.h>

#include "core/base/str.h"
#include "tests/unit/unit.h"

TC_TEST(views_compare_and_cut) {
  tc_sv s = TC_SV("alpha=beta=gamma"), head;
  assert_true(tc_sv_starts(s, "alpha"));
  assert_true(tc_sv_ends(s, "gamma"));
  assert_false(tc_sv_ends(TC_SV("a"), "aa"));
  assert_true(tc_sv_starts(TC_SV(""), ""));
  tc_sv rest = tc_sv_cut(s, '=', &head);
  assert_sv(head, "alpha");
  assert_sv(rest, "beta=gamma");
  rest = tc_sv_cut(TC_SV("plain"), '=', &head);
  assert_sv(head, "plain");
  assert_sv(rest, "");
  rest = tc_sv_cut((tc_sv){NULL, 0}, '=', &head);
  assert_sv(head, "");
  assert_sv(tc_sv_trim(TC_SV(" \t\r\n a b \n")), "a b");
  assert_sv(tc_sv_trim(TC_SV("  \n")), "");
  assert_sv(tc_sv_sub(s, 6, 10), "beta");
  assert_sv(tc_sv_sub(s, 11, 1000), "gamma");
  assert_sv(tc_sv_sub(s, 9, 3), "");
  assert_true(tc_sv_cmp(TC_SV("a"), TC_SV("b")) < 0);
  assert_true(tc_sv_cmp(TC_SV("ab"), TC_SV("a")) > 0);
  assert_true(tc_sv_cmp(TC_SV(""), (tc_sv){NULL, 0}) == 0);
  assert_sv(tc_sv_of(NULL), "");
  return TC_OK;
}

TC_TEST(integers_are_strict) {
  static const struct {
    const char *text;
    bool ok;
    int64_t value;
  } rows[] = {{"0", true, 0},
              {"-0", true, 0},
              {"+17", true, 17},
              {"007", true, 7},
              {"9223372036854775807", true, INT64_MAX},
              {"-9223372036854775808", true, INT64_MIN},
              {"9223372036854775808", false, 0},
              {"-9223372036854775809", false, 0},
              {"99999999999999999999999", false, 0},
              {"", false, 0},
              {"-", false, 0},
              {"+", false, 0},
              {" 1", false, 0},
              {"1 ", false, 0},
              {"1.0", false, 0},
              {"0x10", false, 0},
              {"--1", false, 0}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    int64_t v = 0;
    if (tc_sv_to_int(tc_sv_of(rows[i].text), &v) != rows[i].ok || v != rows[i].value) fail_msg("'%s'", rows[i].text);
  }
  return TC_OK;
}

TC_TEST(doubles_are_strict) {
  static const struct {
    const char *text;
    bool ok;
    double value;
  } rows[] = {{"0", true, 0},
              {"1.5", true, 1.5},
              {"-1e3", true, -1000},
              {"+.5", true, .5},
              {"5.", true, 5},
              {"1e-400", true, 0},
              {"0.00000000000000000000001e-310", true, 0},
              {"4.9406564584124654e-324", true, 4.9406564584124654e-324},
              {"1.7976931348623157e308", true, 1.7976931348623157e308},
              {"1e309", false, 0},
              {"1e99999999999999999999", false, 0},
              {"1e-99999999999999999999", true, 0},
              {"0e99999", true, 0},
              {"inf", true, HUGE_VAL},
              {"-inf", true, -HUGE_VAL},
              {"0x1.8p3", true, 12},
              {"-0x10", true, -16},
              {"infinity", false, 0},
              {"INF", false, 0},
              {"nan(1)", false, 0},
              {"", false, 0},
              {"-", false, 0},
              {"+-1", false, 0},
              {"e5", false, 0},
              {".", false, 0},
              {"1e", false, 0},
              {"0x", false, 0},
              {"0x-1", false, 0},
              {" 1", false, 0},
              {"1,5", false, 0},
              {"1f", false, 0}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    double v = 0;
    if (tc_sv_to_double(tc_sv_of(rows[i].text), &v) != rows[i].ok || v != rows[i].value)
      fail_msg("'%s' gave %g", rows[i].text, v);
  }
  double v;
  assert_true(tc_sv_to_double(TC_SV("nan"), &v) && isnan(v));
  assert_true(tc_sv_to_double(TC_SV("-0.0"), &v) && v == 0 && signbit(v));
  return TC_OK;
}

static tc_sv print_double(tc_arena *arena, double v) {
  tc_sb sb = tc_sb_make(arena);
  tc_sb_double(&sb, v);
  return tc_sb_view(&sb);
}

static tc_sv print_float(tc_arena *arena, float v) {
  tc_sb sb = tc_sb_make(arena);
  tc_sb_float(&sb, v);
  return tc_sb_view(&sb);
}

// What reads them rounds to a double first.
TC_TEST(floats_read_back_equal) {
  assert_sv(print_float(arena, 0.1f), "0.1");
  assert_sv(print_float(arena, -0.0f), "-0.0");
  assert_sv(print_float(arena, 16777216), "16777216.0");
  assert_sv(print_float(arena, -HUGE_VALF), "-inf");
  assert_sv(print_float(arena, NAN), "nan");
  uint64_t random = tc_test_seed();
  for (int i = 0; i < 20000; i++) {
    uint32_t bits = (uint32_t)tc_test_random(&random);
    float v;
    double back;
    memcpy(&v, &bits, sizeof v);
    if (isnan(v)) continue;
    tc_sv text = print_float(arena, v);
    if (!tc_sv_to_double(text, &back) || (float)back != v || text.size > 16)
      fail_msg("%a became " TC_SV_FMT, (double)v, TC_SV_ARG(text));
  }
  return TC_OK;
}

TC_TEST(doubles_read_back_equal) {
  assert_sv(print_double(arena, 0.1), "0.1");
  assert_sv(print_double(arena, -3), "-3.0");
  assert_sv(print_double(arena, 1e300), "1e+300");
  assert_sv(print_double(arena, -0.0), "-0.0");
  assert_sv(print_double(arena, HUGE_VAL), "inf");
  assert_sv(print_double(arena, -HUGE_VAL), "-inf");
  assert_sv(print_double(arena, -NAN), "nan");
  uint64_t random = tc_test_seed();
  for (int i = 0; i < 20000; i++) {
    uint64_t bits = tc_test_random(&random), back_bits;
    double v, back;
    memcpy(&v, &bits, sizeof v);
    if (i % 4 == 0) v = (double)(int64_t)(bits >> 40);
    if (isnan(v)) continue;
    tc_sv text = print_double(arena, v);
    if (!tc_sv_to_double(text, &back)) fail_msg("'" TC_SV_FMT "' is not read", TC_SV_ARG(text));
    memcpy(&bits, &v, sizeof v);
    memcpy(&back_bits, &back, sizeof v);
    if (bits != back_bits) fail_msg("%a reads back as %a", v, back);
    if (isfinite(v) && strpbrk(text.data, ".e") == NULL) fail_msg("'%s' looks like an integer", text.data);
  }
  return TC_OK;
}

// A locale with a decimal comma must change nothing.
TC_TEST(numbers_know_no_locale) {
  const char *names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE"};
  bool set = false;
  for (int i = 0; i < 3 && !set; i++) set = setlocale(LC_NUMERIC, names[i]) != NULL;
  double v = 0;
  bool read = tc_sv_to_double(TC_SV("2.5"), &v);
  tc_sv text = print_double(arena, 0.25);
  setlocale(LC_NUMERIC, "C");
  assert_true(read && v == 2.5);
  assert_sv(text, "0.25");
  return TC_OK;
}

TC_TEST(globs_match) {
  static const struct {
    const char *text, *pattern;
    bool match;
  } rows[] = {{"", "", true},           {"", "*", true},          {"a", "", false},        {"abc", "a*c", true},
              {"abc", "a?c", true},     {"abc", "a?", false},     {"abcbc", "a*bc", true}, {"abcbd", "a*bc", false},
              {"aaaaab", "*a*b", true}, {"x.pt2", "*.pt2", true}, {"abc", "***", true},    {"abc", "*?*?*?*", true},
              {"ab", "*?*?*?*", false}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (tc_sv_glob(tc_sv_of(rows[i].text), tc_sv_of(rows[i].pattern)) != rows[i].match)
      fail_msg("'%s' and '%s'", rows[i].text, rows[i].pattern);
  // Many stars over a long text must not take exponential time.
  char text[4000];
  memset(text, 'a', sizeof text);
  assert_false(tc_sv_glob((tc_sv){text, sizeof text}, TC_SV("*a*a*a*a*a*a*a*a*a*b")));
  return TC_OK;
}

TC_TEST(nearest_names) {
  tc_sv names[] = {TC_SV("fusion"), TC_SV("guards"), TC_SV("max-autotune"), TC_SV("eager"), TC_SV("")};
  assert_sv(tc_sv_nearest(TC_SV("fuison"), names, 5), "fusion");
  assert_sv(tc_sv_nearest(TC_SV("GUARD"), names, 5), "guards");
  assert_sv(tc_sv_nearest(TC_SV("maxautotune"), names, 5), "max-autotune");
  assert_sv(tc_sv_nearest(TC_SV("quantum"), names, 5), "");
  assert_sv(tc_sv_nearest(TC_SV("x"), names, 0), "");
  char longest[500];
  memset(longest, 'q', sizeof longest);
  assert_sv(tc_sv_nearest((tc_sv){longest, sizeof longest}, names, 5), "");
  return TC_OK;
}

TC_TEST_TORTURED(builder_builds) {
  tc_sb sb = tc_sb_make(arena);
  assert_string_equal(sb.text, "");
  for (int i = 0; i < 500; i++) {
    tc_sb_putz(&sb, "ab");
    tc_sb_putc(&sb, ',');
    tc_sb_printf(&sb, "%05d;", i);
  }
  assert_int_equal(sb.size, 500 * 9);
  assert_int_equal(strlen(sb.text), sb.size);
  assert_memory_equal(sb.text + 499 * 9, "ab,00499;", 9);
  assert_sv(tc_sv_printf(arena, "%s-%d", "x", 4), "x-4");
  char big[3000];
  memset(big, 'z', sizeof big - 1);
  big[sizeof big - 1] = 0;
  assert_int_equal(tc_sv_printf(arena, "<%s>", big).size, sizeof big + 1);
  assert_string_equal(tc_sv_z(arena, TC_SV("zed")), "zed");
  return TC_OK;
}

TC_TEST(integers_print) {
  tc_sb sb = tc_sb_make(arena);
  int64_t values[] = {0, -1, 42, INT64_MAX, INT64_MIN};
  for (int i = 0; i < 5; i++) tc_sb_int(&sb, values[i]), tc_sb_putc(&sb, ' ');
  assert_sv(tc_sb_view(&sb), "0 -1 42 9223372036854775807 -9223372036854775808 ");
  return TC_OK;
}

TC_TEST(quotes_escape) {
  tc_sb sb = tc_sb_make(arena);
  tc_sb_quoted(&sb, TC_SV("a\"b\\c\nd\te\x01\x7f\0é"));
  assert_sv(tc_sb_view(&sb), "\"a\\\"b\\\\c\\nd\\te\\x01\\x7f\\x00é\"");
  return TC_OK;
}

// Hashes are keys on disk: they must never change. Values of XXH3 from its specification's reference program.
TC_TEST(hashes_are_fixed) {
  assert_true(tc_hash("", 0) == 0x2d06800538d394c2u);
  assert_true(tc_hash(NULL, 0) == tc_hash("", 0));
  tc_hash128 h = tc_hash_long("", 0);
  assert_true(h.hi == 0x99aa06d3014798d8u && h.lo == 0x6001c324468d497fu);
  assert_true(tc_hash("a", 1) != tc_hash("b", 1));
  assert_true(tc_hash_mix(1, 2) != tc_hash_mix(2, 1));
  assert_true(tc_hash_mix(1, 2) == tc_hash_mix(1, 2));
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(views_compare_and_cut),
      cmocka_unit_test(integers_are_strict),
      cmocka_unit_test(doubles_are_strict),
      cmocka_unit_test(floats_read_back_equal),
      cmocka_unit_test(doubles_read_back_equal),
      cmocka_unit_test(numbers_know_no_locale),
      cmocka_unit_test(globs_match),
      cmocka_unit_test(nearest_names),
      cmocka_unit_test(builder_builds),
      cmocka_unit_test(integers_print),
      cmocka_unit_test(quotes_escape),
      cmocka_unit_test(hashes_are_fixed),
  };
  return TC_RUN(tests);
}
