// Log artifacts.
#include "core/base/log.h"
#include "tests/unit/unit.h"

typedef struct sink {
  int lines;
  int32_t artifact;
  size_t size;
  char text[8192];
} sink;

static void keep(void *self, int32_t artifact, tc_sv text) {
  sink *s = self;
  s->lines++;
  s->artifact = artifact;
  s->size = text.size;
  memcpy(s->text, text.data, text.size);
  s->text[text.size] = 0;
}

TC_TEST(lists_become_masks) {
  uint32_t mask = 0, all = (1u << TC_LOG_COUNT) - 1;
  assert_ok(tc_log_parse(TC_SV("guards, fusion"), &mask));
  assert_int_equal(mask, 1u << TC_LOG_GUARDS | 1u << TC_LOG_FUSION);
  assert_ok(tc_log_parse(TC_SV("fusion,-cache,all"), &mask));
  assert_int_equal(mask, all & ~(1u << TC_LOG_CACHE));
  assert_ok(tc_log_parse(TC_SV("+all"), &mask));
  assert_int_equal(mask, all);
  assert_ok(tc_log_parse(TC_SV(" , ,"), &mask));
  assert_int_equal(mask, 0);
  mask = 77;
  assert_error(tc_log_parse(TC_SV("guards,fuson"), &mask), TC_STATUS_INVALID_ARGUMENT, "did you mean 'fusion'?");
  assert_error(tc_log_parse(TC_SV("unheard-of-thing"), &mask), TC_STATUS_INVALID_ARGUMENT, "there are: all, guards");
  assert_int_equal(mask, 77);
  return TC_OK;
}

TC_TEST(lines_arrive_when_asked_for) {
  sink s = {0};
  tc_logger lg = {1u << TC_LOG_CACHE, keep, &s};
  tc_log(&lg, TC_LOG_GUARDS, "not %s", "seen");
  assert_int_equal(s.lines, 0);
  tc_log(&lg, TC_LOG_CACHE, "hit %d", 7);
  assert_int_equal(s.lines, 1);
  assert_int_equal(s.artifact, TC_LOG_CACHE);
  assert_string_equal(s.text, "hit 7");
  char big[5000];
  for (size_t size = 1020; size <= 1028; size++) { // around the buffer's size
    memset(big, 'x', size);
    big[size] = 0;
    tc_log(&lg, TC_LOG_CACHE, "%s", big);
    assert_int_equal(s.size, size);
    assert_string_equal(s.text, big);
  }
  tc_log(&tc_logger_silent, TC_LOG_CACHE, "nothing");
  return TC_OK;
}

TC_TEST(names_are_known) {
  assert_string_equal(tc_log_name(TC_LOG_GRAPH_BREAKS), "graph_breaks");
  assert_string_equal(tc_log_name(-1), "unknown");
  assert_string_equal(tc_log_name(TC_LOG_COUNT), "unknown");
  for (int32_t i = 0; i < TC_LOG_COUNT; i++) {
    uint32_t mask;
    assert_ok(tc_log_parse(tc_sv_of(tc_log_name(i)), &mask));
    assert_int_equal(mask, 1u << i);
  }
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lists_become_masks),
      cmocka_unit_test(lines_arrive_when_asked_for),
      cmocka_unit_test(names_are_known),
  };
  return TC_RUN(tests);
}
