// JSON through the tape.
#include <math.h>

#include "core/base/json.h"
#include "tests/unit/unit.h"

static tc_json parse(tc_arena *arena, tc_json_doc **doc, const char *text) {
  tc_json root;
  assert_ok(tc_json_parse(tc_arena_allocator(arena), tc_sv_of(text), doc, &root));
  return root;
}

TC_TEST(values_have_kinds) {
  tc_json_doc *doc;
  tc_json v = parse(arena, &doc,
                    "{\"n\":null,\"t\":true,\"f\":false,\"i\":-7,\"u\":18446744073709551615,\"d\":2.5,"
                    "\"s\":\"a\\u00e9\\n\",\"a\":[],\"o\":{}}");
  static const struct {
    const char *key;
    int32_t kind;
  } rows[] = {{"n", TC_JSON_NULL},   {"t", TC_JSON_BOOL},     {"f", TC_JSON_BOOL},   {"i", TC_JSON_INT},
              {"u", TC_JSON_UINT},   {"d", TC_JSON_DOUBLE},   {"s", TC_JSON_STRING}, {"a", TC_JSON_ARRAY},
              {"o", TC_JSON_OBJECT}, {"none", TC_JSON_ABSENT}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tc_json m = tc_json_get(v, rows[i].key);
    assert_int_equal(tc_json_kind(m), rows[i].kind);
    assert_int_equal(tc_json_present(m), rows[i].kind > TC_JSON_NULL);
  }
  assert_int_equal(tc_json_count(v), 9);
  int64_t i;
  double d;
  bool b;
  tc_sv s;
  assert_true(tc_json_int(tc_json_get(v, "i"), &i) && i == -7);
  assert_false(tc_json_int(tc_json_get(v, "u"), &i));
  assert_false(tc_json_int(tc_json_get(v, "d"), &i));
  assert_false(tc_json_int((tc_json){0}, &i));
  assert_true(tc_json_double(tc_json_get(v, "i"), &d) && d == -7);
  assert_true(tc_json_double(tc_json_get(v, "u"), &d) && d == 18446744073709551615.0);
  assert_true(tc_json_double(tc_json_get(v, "d"), &d) && d == 2.5);
  assert_false(tc_json_double(tc_json_get(v, "s"), &d));
  assert_true(tc_json_bool(tc_json_get(v, "t"), &b) && b);
  assert_true(tc_json_bool(tc_json_get(v, "f"), &b) && !b);
  assert_false(tc_json_bool(tc_json_get(v, "n"), &b));
  assert_true(tc_json_str(tc_json_get(v, "s"), &s));
  assert_sv(s, "aé\n");
  assert_false(tc_json_str(v, &s));
  tc_json_free(doc);
  v = parse(arena, &doc, "[\"Infinity\",\"-Infinity\",\"NaN\",\"nan\",9223372036854775807,-9223372036854775808]");
  tc_json_iter it = tc_json_begin(v);
  assert_true(tc_json_next(&it) && tc_json_double(it.value, &d) && d == HUGE_VAL);
  assert_true(tc_json_next(&it) && tc_json_double(it.value, &d) && d == -HUGE_VAL);
  assert_true(tc_json_next(&it) && tc_json_double(it.value, &d) && isnan(d));
  assert_true(tc_json_next(&it) && !tc_json_double(it.value, &d));
  assert_true(tc_json_next(&it) && tc_json_int(it.value, &i) && i == INT64_MAX);
  assert_true(tc_json_next(&it) && tc_json_int(it.value, &i) && i == INT64_MIN);
  assert_false(tc_json_next(&it));
  tc_json_free(doc);
  return TC_OK;
}

TC_TEST(iteration_skips_what_is_inside) {
  tc_json_doc *doc;
  tc_json v = parse(arena, &doc, "{\"a\":[[1,2],[3]],\"b\":{\"x\":{\"y\":5.5}},\"a\":7,\"\":0}");
  const char *keys[] = {"a", "b", "a", ""};
  int n = 0;
  for (tc_json_iter it = tc_json_begin(v); tc_json_next(&it); n++) assert_sv(it.key, keys[n]);
  assert_int_equal(n, 4);
  assert_int_equal(tc_json_kind(tc_json_get(v, "a")), TC_JSON_ARRAY); // the first of two
  double d;
  assert_true(tc_json_double(tc_json_get(tc_json_get(tc_json_get(v, "b"), "x"), "y"), &d) && d == 5.5);
  assert_int_equal(tc_json_count(tc_json_get(v, "a")), 2);
  assert_int_equal(tc_json_kind(tc_json_get(tc_json_get(v, "a"), "a")), TC_JSON_ABSENT);
  tc_json_iter none = tc_json_begin((tc_json){0});
  assert_false(tc_json_next(&none));
  tc_json_free(doc);
  v = parse(arena, &doc, " 42 ");
  int64_t i;
  assert_true(tc_json_int(v, &i) && i == 42);
  assert_int_equal(tc_json_count(v), 0);
  tc_json_free(doc);
  return TC_OK;
}

TC_TEST(bad_texts_are_errors) {
  const char *texts[] = {"",        " ",        "{",     "[1,]", "{\"a\":}", "{\"a\" 1}",
                         "\"abc",   "01",       "1e999", "tru",  "[1 2]",    "{}x",
                         "\"\\q\"", "\"\xff\"", "nul",   "-",    "[",        "\"\\u12\"",
                         "{1:2}",   "\"\x01\"", "]",     "[[[",  "}",        "123456789012345678901"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    tc_json_doc *doc;
    tc_json root;
    tc_status s = tc_json_parse(tc_arena_allocator(arena), tc_sv_of(texts[i]), &doc, &root);
    if (s == TC_OK) fail_msg("'%s' was accepted", texts[i]);
    assert_int_equal(tc_status_code(s), TC_STATUS_DATA_LOSS);
    assert_null(doc);
    assert_int_equal(tc_json_kind(root), TC_JSON_ABSENT);
    tc_status_free(s);
  }
  return TC_OK;
}

static tc_status parse_nested(tc_arena *arena, size_t depth) {
  char *text = tc_arena_alloc(arena, depth * 2 + 1);
  memset(text, '[', depth);
  memset(text + depth, ']', depth);
  tc_json_doc *doc;
  tc_json root;
  tc_status s = tc_json_parse(tc_arena_allocator(arena), (tc_sv){text, depth * 2}, &doc, &root);
  tc_json_free(doc);
  return s;
}

TC_TEST(depth_is_bounded) {
  assert_ok(parse_nested(arena, 1000));
  assert_error(parse_nested(arena, 1025), TC_STATUS_RESOURCE_EXHAUSTED, "deeper than 1024");
  assert_error(parse_nested(arena, 1000000), TC_STATUS_RESOURCE_EXHAUSTED, "deeper than 1024");
  return TC_OK;
}

// The tape's own count stops at 2^24 - 1.
TC_TEST(long_arrays_are_counted) {
  size_t n = (1u << 24) + 5;
  char *text = malloc(n * 2 + 1);
  for (size_t i = 0; i < n; i++) text[i * 2] = ',', text[i * 2 + 1] = '7';
  text[0] = '[';
  text[n * 2] = ']';
  tc_json_doc *doc;
  tc_json root;
  assert_ok(tc_json_parse(tc_system_allocator(), (tc_sv){text, n * 2 + 1}, &doc, &root));
  free(text);
  assert_int_equal(tc_json_count(root), n);
  tc_json_free(doc);
  return TC_OK;
}

TC_TEST(views_outlive_the_text) {
  char *text = tc_arena_copy(arena, "{\"k\":\"value\"}", 14);
  tc_json_doc *doc;
  tc_json root;
  assert_ok(tc_json_parse(tc_arena_allocator(arena), (tc_sv){text, 13}, &doc, &root));
  memset(text, 'x', 13);
  tc_sv s;
  assert_true(tc_json_str(tc_json_get(root, "k"), &s));
  assert_sv(s, "value");
  tc_json_free(doc);
  return TC_OK;
}

TC_TEST_TORTURED(short_memory_is_an_error) {
  tc_json_doc *doc;
  tc_json root;
  TC_TRY(tc_json_parse(tc_arena_allocator(arena), TC_SV("[1,2,3]"), &doc, &root), "while parsing");
  tc_json_free(doc);
  return TC_OK;
}

// What tc_json_quote writes parses back as the same bytes, for every valid text; and always parses.
TC_TEST(quotes_read_back) {
  uint64_t random = tc_test_seed();
  for (int i = 0; i < 3000; i++) {
    char bytes[24];
    size_t n = tc_test_random(&random) % sizeof bytes;
    bool ascii = i % 2 == 0;
    for (size_t k = 0; k < n; k++) bytes[k] = (char)(tc_test_random(&random) & (ascii ? 0x7f : 0xff));
    tc_sb sb = tc_sb_make(arena);
    tc_json_quote(&sb, (tc_sv){bytes, n});
    tc_json_doc *doc;
    tc_json v;
    assert_ok(tc_json_parse(tc_arena_allocator(arena), tc_sb_view(&sb), &doc, &v));
    tc_sv back;
    assert_true(tc_json_str(v, &back));
    if (ascii) {
      assert_int_equal(back.size, n);
      assert_memory_equal(back.data, bytes, n);
    }
    tc_json_free(doc);
  }
  tc_sb sb = tc_sb_make(arena);
  tc_json_quote(&sb, TC_SV("é€😀\xed\xa0\x80\xc0\x80\"\\\n\x02"));
  assert_sv(tc_sb_view(&sb), "\"é€😀\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\\"\\\\\\n\\u0002\"");
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values_have_kinds),        cmocka_unit_test(iteration_skips_what_is_inside),
      cmocka_unit_test(bad_texts_are_errors),     cmocka_unit_test(depth_is_bounded),
      cmocka_unit_test(long_arrays_are_counted),  cmocka_unit_test(views_outlive_the_text),
      cmocka_unit_test(short_memory_is_an_error), cmocka_unit_test(quotes_read_back),
  };
  return TC_RUN(tests);
}
