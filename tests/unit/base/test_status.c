// Errors: codes, notes, the macros.
#include "core/base/status.h"
#include "tests/unit/unit.h"

static tc_status inner(int32_t code) { return code ? tc_error(code, "no '%s' in %d places", "x", 3) : TC_OK; }
static tc_status outer(int32_t code) {
  TC_TRY(inner(code));
  TC_TRY(inner(code), "never seen");
  return TC_OK;
}
static tc_status outermost(int32_t code) {
  TC_TRY(outer(code), "while reading '%s'", "a.pt2");
  return TC_OK;
}
static tc_status with_cleanup(int32_t code, int *cleaned) {
  tc_status s;
  TC_TRY_GOTO(s, done, outermost(code));
done:
  ++*cleaned;
  return s;
}

TC_TEST(carries_code_text_and_notes) {
  int cleaned = 0;
  tc_status s = with_cleanup(TC_STATUS_NOT_FOUND, &cleaned);
  assert_int_equal(tc_status_code(s), TC_STATUS_NOT_FOUND);
  assert_string_equal(tc_status_text(s), "no 'x' in 3 places\n  while reading 'a.pt2'");
  assert_int_equal(cleaned, 1);
  tc_status_free(s);
  return with_cleanup(TC_STATUS_OK, &cleaned);
}

TC_TEST(success_is_null) {
  assert_int_equal(tc_status_code(TC_OK), TC_STATUS_OK);
  assert_string_equal(tc_status_text(TC_OK), "ok");
  assert_true(tc_status_note(TC_OK, "note") == TC_OK);
  tc_status_free(TC_OK);
  return TC_OK;
}

TC_TEST(long_texts_and_many_notes) {
  char text[5000];
  memset(text, 'a', sizeof text - 1);
  text[sizeof text - 1] = 0;
  tc_status s = tc_error(TC_STATUS_INTERNAL, "%s", text);
  size_t size = sizeof text - 1;
  for (int i = 0; i < 300; i++) {
    s = tc_status_note(s, "note %03d", i);
    size += 11;
  }
  assert_int_equal(strlen(tc_status_text(s)), size);
  assert_int_equal(tc_status_code(s), TC_STATUS_INTERNAL);
  assert_non_null(strstr(tc_status_text(s), "aaa\n  note 000\n  note 001\n"));
  assert_string_equal(tc_status_text(s) + size - 8, "note 299");
  tc_status_free(s);
  return TC_OK;
}

TC_TEST(names_come_from_the_list) {
#define X(name, number, text) assert_string_equal(tc_status_name(number), text);
  TC_STATUS_LIST(X)
#undef X
  assert_string_equal(tc_status_name(-1), "unknown status");
  tc_status s = tc_error(TC_STATUS_OK, "an error is never ok");
  assert_int_equal(tc_status_code(s), TC_STATUS_INTERNAL);
  tc_status_free(s);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(carries_code_text_and_notes),
      cmocka_unit_test(success_is_null),
      cmocka_unit_test(long_texts_and_many_notes),
      cmocka_unit_test(names_come_from_the_list),
  };
  return TC_RUN(tests);
}
