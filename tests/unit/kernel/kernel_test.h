// What the tests of kernel IR share: an arena with a guard around each test, and texts to kernels.
#ifndef TESTS_UNIT_KERNEL_KERNEL_TEST_H_
#define TESTS_UNIT_KERNEL_KERNEL_TEST_H_

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/fs.h"
#include "core/kernel/ir.h"
#include "tests/run_seed.h"

#define CHECK_OK(expr)                                                \
  do {                                                                \
    tc_status check_status_ = (expr);                                 \
    if (check_status_) fail_msg("%s", tc_status_text(check_status_)); \
  } while (0)

// The error must contain the text; frees it.
static inline void expect_error(tc_status s, const char *text) {
  if (!s) fail_msg("expected an error with '%s'", text);
  if (!strstr(tc_status_text(s), text)) fail_msg("expected '%s' in:\n%s", text, tc_status_text(s));
  tc_status_free(s);
}

typedef struct guarded {
  tc_arena *arena;
  void (*fn)(tc_arena *arena);
} guarded;

static inline tc_status run_guarded(void *arg) {
  guarded *g = arg;
  g->fn(g->arena);
  return TC_OK;
}

static inline void with_arena(void (*fn)(tc_arena *arena)) {
  guarded g = {.fn = fn};
  CHECK_OK(tc_arena_create(tc_system_allocator(), &g.arena));
  CHECK_OK(tc_arena_guard(g.arena, run_guarded, &g));
  tc_arena_destroy(g.arena);
}

static inline tc_status parse_text(tc_arena *arena, const char *text, tc_kernel **out) {
  tc_lexer lx;
  tc_lex_init(&lx, arena, TC_SV("test.tc"), tc_sv_of(text));
  return tc_kernel_parse(arena, &lx, out);
}

static inline tc_kernel *kernel_of(tc_arena *arena, const char *text) {
  tc_kernel *k;
  CHECK_OK(parse_text(arena, text, &k));
  CHECK_OK(tc_kernel_verify(k));
  return k;
}

static inline const char *text_of(tc_arena *arena, const tc_kernel *k) {
  tc_sb sb = tc_sb_make(arena);
  tc_kernel_print(&sb, k);
  return sb.text;
}

// A cmocka test that runs its body in a fresh arena.
#define KERNEL_TEST(name)                   \
  static void name##_body(tc_arena *arena); \
  static void name(void **state) {          \
    (void)state;                            \
    with_arena(name##_body);                \
  }                                         \
  static void name##_body(tc_arena *arena)

#endif
