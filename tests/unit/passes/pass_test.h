// Helpers of the pass tests: a text goes in, runs through passes with every check on, a text comes out.
#ifndef TC_TESTS_UNIT_PASSES_PASS_TEST_H_
#define TC_TESTS_UNIT_PASSES_PASS_TEST_H_

#include "core/ir/refexec.h"
#include "core/passes/passes.h"
#include "tests/unit/ir/test_ops.h"

static inline tc_status run_checked(tc_graph *g, const tc_pass *const *passes, int32_t n) {
  return tc_run_passes(g, passes, n, 8, &(tc_pass_options){.verify = true});
}

// The body of the printed graph: from behind "{\n" to the end of the return line.
static inline const char *body_text(tc_graph *g) {
  const char *text = test_print(g), *body = strstr(text, ") {\n");
  return body ? body + 4 : text;
}

// Runs the passes on `in` (inputs and nodes) and wants the body `want` (with indentation, without the closing brace).
static inline tc_status expect_body(tc_arena *arena, const tc_pass *const *passes, int32_t n, const char *in,
                                    const char *want) {
  tc_module *m;
  tc_graph *g;
  TC_TRY(test_module(arena, &m));
  TC_TRY(test_parse(m, in, &g));
  TC_TRY(run_checked(g, passes, n), "on\n%s", in);
  const char *got = body_text(g);
  tc_sv expected = tc_sv_printf(arena, "%s}\n", want);
  if (!tc_sv_is(expected, got)) fail_msg("of\n%s\ncame\n%s\nexpected\n%s", in, got, expected.data);
  return TC_OK;
}

#define EXPECT(pass, in, want) TC_TRY(expect_body(arena, (const tc_pass *const[]){&tc_pass_##pass}, 1, in, want))
#define EXPECT2(p1, p2, in, want) \
  TC_TRY(expect_body(arena, (const tc_pass *const[]){&tc_pass_##p1, &tc_pass_##p2}, 2, in, want))

#endif
