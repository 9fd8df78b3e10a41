// Symbolic integers: any text is read or refused with an error; what was read prints as a text that reads back the
// same, and its value can be asked for.
#include "core/symbolic/sym.h"
#include "tests/fuzz/fuzz_text.h"

static tc_status parse(tc_sym_ctx *c, tc_sv text, const tc_sym **out) {
  tc_lexer lx;
  tc_lex_init(&lx, tc_sym_arena(c), TC_SV("fuzz"), text);
  TC_TRY(tc_sym_parse(c, &lx, out));
  if (lx.tok.kind != TC_TOK_END) return tc_lex_error(&lx, "expected the end");
  return TC_OK;
}

static void check(tc_arena *arena, tc_sym_ctx *c, const tc_sym *e) {
  tc_sb sb = tc_sb_make(arena), other = tc_sb_make(arena);
  const tc_sym *again;
  tc_sym_print(&sb, e);
  tc_fuzz_ok(parse(c, tc_sb_view(&sb), &again), sb.text);
  tc_sym_print(&other, again);
  tc_fuzz_same(tc_sb_view(&sb), tc_sb_view(&other));
  (void)tc_sym_hint_or(c, e, 0);
}

static tc_status body(tc_arena *arena, tc_sv text) {
  tc_sym_ctx *c = tc_sym_create(arena);
  const tc_sym *e;
  TC_TRY(parse(c, text, &e));
  check(arena, c, e);
  return TC_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return tc_fuzz_text(data, size, body); }
