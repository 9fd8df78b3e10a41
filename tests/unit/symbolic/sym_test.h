// What the tests of core/symbolic share: text to expression and back, ranges by text.
#ifndef TC_TESTS_UNIT_SYMBOLIC_SYM_TEST_H_
#define TC_TESTS_UNIT_SYMBOLIC_SYM_TEST_H_

#include "core/symbolic/sym.h"
#include "tests/unit/unit.h"

static inline const tc_sym *sym_parse(tc_sym_ctx *c, const char *text) {
  tc_lexer lx;
  const tc_sym *e = NULL;
  tc_lex_init(&lx, tc_sym_arena(c), TC_SV("test"), tc_sv_of(text));
  assert_ok(tc_sym_parse(c, &lx, &e));
  if (lx.tok.kind != TC_TOK_END) fail_msg("junk behind the expression in '%s'", text);
  return e;
}

static inline const char *sym_text(tc_sym_ctx *c, const tc_sym *e) {
  tc_sb sb = tc_sb_make(tc_sym_arena(c));
  tc_sym_print(&sb, e);
  return sb.text;
}

// Bounds: numbers, and expressions as text or NULL.
static inline const tc_sym *sym_range(tc_sym_ctx *c, const char *name, int64_t lo, int64_t hi, const char *lo_expr,
                                      const char *hi_expr) {
  const tc_sym *s = sym_parse(c, name), *l = lo_expr ? sym_parse(c, lo_expr) : NULL,
               *h = hi_expr ? sym_parse(c, hi_expr) : NULL;
  tc_sym_info *info = tc_sym_info_of(c, s);
  info->lo = lo;
  info->hi = hi;
  info->lo_expr = l;
  info->hi_expr = h;
  return s;
}

#define assert_sym(c, text, want)                                                                            \
  do {                                                                                                       \
    const tc_sym *got_ = sym_parse((c), (text)), *want_ = sym_parse((c), (want));                            \
    if (got_ != want_) fail_msg("%s gave %s, wanted %s", (text), sym_text((c), got_), sym_text((c), want_)); \
  } while (0)

#endif
