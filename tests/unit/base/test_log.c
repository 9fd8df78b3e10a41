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

static void masks_are(const char *list, uint32_t mask, uint32_t detail) {
  tc_logger lg = {0};
  assert_ok(tc_log_parse(tc_sv_of(list), &lg));
  assert_int_equal(lg.mask, mask);
  assert_int_equal(lg.detail, detail);
  for (int32_t i = 0; i < TC_LOG_COUNT; i++) assert_int_equal(tc_log_in_detail(&lg, i), detail >> i & 1u);
}

TC_TEST(lists_become_masks) {
  uint32_t all = (1u << TC_LOG_COUNT) - 1, fusion = 1u << TC_LOG_FUSION, cache = 1u << TC_LOG_CACHE;
  masks_are("guards, fusion", 1u << TC_LOG_GUARDS | fusion, 0);
  masks_are("fusion,-cache,all", all & ~cache, 0);
  masks_are(" , ,", 0, 0);
  masks_are("+all", all, all);
  masks_are("+all,-cache", all & ~cache, all & ~cache);
  masks_are("cache,+fusion", cache | fusion, fusion);
  masks_are("+cache,cache", cache, cache);
  masks_are("-cache,+cache", 0, 0);
  tc_logger lg = {.mask = 77, .detail = 5};
  assert_error(tc_log_parse(TC_SV("guards,fuson"), &lg), TC_STATUS_INVALID_ARGUMENT, "did you mean 'fusion'?");
  assert_error(tc_log_parse(TC_SV("unheard-of-thing"), &lg), TC_STATUS_INVALID_ARGUMENT, "there are: all, guards");
  assert_int_equal(lg.mask, 77);
  assert_int_equal(lg.detail, 5);
  return TC_OK;
}

TC_TEST(lines_arrive_when_asked_for) {
  sink s = {0};
  tc_logger lg = {.mask = 1u << TC_LOG_CACHE, .write = keep, .self = &s};
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
  for (int32_t i = 0; i < TC_LOG_COUNT; i++) { masks_are(tc_log_name(i), 1u << i, 0); }
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
