// What every unit test uses besides cmocka: tests in an arena, checks of statuses, random numbers that differ from run
// to run, and torture by failing allocations.
//
//   TC_TEST(parses_numbers) { int64_t v; assert_true(tc_sv_to_int(TC_SV("7"), &v)); … return TC_OK; }
//   int main(void) { const struct CMUnitTest tests[] = {cmocka_unit_test(parses_numbers)}; return TC_RUN(tests); }
//
// A TC_TEST runs inside a guard with `arena` open, over an allocator that counts; what it leaks fails it, and so does
// an error that it returns, which lets it use TC_TRY.
#ifndef TC_TESTS_UNIT_UNIT_H_
#define TC_TESTS_UNIT_UNIT_H_

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/alloc.h"
#include "core/base/fs.h"
#include "tests/run_seed.h"

typedef tc_status (*tc_test_body)(tc_arena *arena);

typedef struct tc_test_call {
  tc_test_body body;
  tc_arena *arena;
} tc_test_call;

static inline tc_status tc_test_enter(void *arg) {
  tc_test_call *call = arg;
  return call->body(call->arena);
}

// Runs the body in a new arena over `f`. The arena is gone afterwards.
static inline tc_status tc_test_in_arena(tc_fault_allocator *f, tc_test_body body) {
  tc_test_call call = {body, NULL};
  tc_status s = tc_arena_create(&f->iface, &call.arena);
  if (s == TC_OK) s = tc_arena_guard(call.arena, tc_test_enter, &call);
  tc_arena_destroy(call.arena);
  return s;
}

static inline void tc_test_run(tc_test_body body) {
  tc_fault_allocator f;
  tc_fault_allocator_init(&f, tc_system_allocator());
  tc_status s = tc_test_in_arena(&f, body);
  if (s != TC_OK) fail_msg("unexpected error: %s", tc_status_text(s));
  assert_int_equal(f.live, 0);
}

// Fails the first allocation, then the second, … until the body gets through. Every failure must come back as
// OUT_OF_MEMORY and leave nothing behind.
static inline void tc_test_torture(tc_test_body body) {
  for (int64_t n = 1;; n++) {
    tc_fault_allocator f;
    tc_fault_allocator_init(&f, tc_system_allocator());
    f.fail_at = n;
    f.fail_after = (int32_t)(n & 1);
    tc_status s = tc_test_in_arena(&f, body);
    int32_t code = tc_status_code(s);
    if (code != TC_STATUS_OK && code != TC_STATUS_OUT_OF_MEMORY)
      fail_msg("allocation %d failed, and the error is: %s", (int)n, tc_status_text(s));
    tc_status_free(s);
    if (f.live != 0) fail_msg("allocation %d failed, and %d blocks stay", (int)n, (int)f.live);
    if (code == TC_STATUS_OK && f.count < n) return;
  }
}

#define TC_TEST(name)                             \
  static tc_status name##_body_(tc_arena *arena); \
  static void name(void **state) {                \
    (void)state;                                  \
    tc_test_run(name##_body_);                    \
  }                                               \
  static tc_status name##_body_(__attribute__((unused)) tc_arena *arena)

// The same body under torture as well.
#define TC_TEST_TORTURED(name)                    \
  static tc_status name##_body_(tc_arena *arena); \
  static void name(void **state) {                \
    (void)state;                                  \
    tc_test_run(name##_body_);                    \
    tc_test_torture(name##_body_);                \
  }                                               \
  static tc_status name##_body_(__attribute__((unused)) tc_arena *arena)

#define assert_ok(expr)                                                      \
  do {                                                                       \
    tc_status ok_ = (expr);                                                  \
    if (ok_ != TC_OK) fail_msg("unexpected error: %s", tc_status_text(ok_)); \
  } while (0)

// The expression must fail with this code and a text that has `part` in it.
#define assert_error(expr, code_, part)                                                                             \
  do {                                                                                                              \
    tc_status got_ = (expr);                                                                                        \
    if (got_ == TC_OK) fail_msg("%s went through", #expr);                                                          \
    if (tc_status_code(got_) != (code_) || strstr(tc_status_text(got_), (part)) == NULL)                            \
      fail_msg("error %s: \"%s\", expected %s: \"%s\"", tc_status_name(tc_status_code(got_)), tc_status_text(got_), \
               tc_status_name(code_), (part));                                                                      \
    tc_status_free(got_);                                                                                           \
  } while (0)

#define assert_sv(sv, text)                                                                               \
  do {                                                                                                    \
    tc_sv got_ = (sv);                                                                                    \
    if (!tc_sv_is(got_, (text))) fail_msg("\"" TC_SV_FMT "\", expected \"%s\"", TC_SV_ARG(got_), (text)); \
  } while (0)

// A random state; TC_TEST_SEED repeats a test whose seed was printed.
static inline uint64_t tc_test_seed(void) {
  const char *given = getenv("TC_TEST_SEED");
  uint64_t seed = given ? strtoull(given, NULL, 10) : tc_run_seed();
  print_message("TC_TEST_SEED=%llu\n", (unsigned long long)seed);
  return seed;
}

// SplitMix64 (Steele, Lea, Flood 2014).
static inline uint64_t tc_test_random(uint64_t *state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

#define TC_RUN(tests) cmocka_run_group_tests((tests), NULL, NULL)

#endif
