// Expressions and the programs of op rows: any text parses or fails with an error; what parses prints as a text that
// reads back the same.
#include "core/base/expr.h"
#include "tests/fuzz/fuzz_text.h"

static tc_status parse(tc_arena *arena, tc_sv text, const tc_ex **out) {
  tc_lexer lx;
  tc_lex_init(&lx, arena, TC_SV("fuzz"), text);
  TC_TRY(tc_ex_parse(&lx, out));
  if (lx.tok.kind != TC_TOK_END) return tc_lex_error(&lx, "expected the end");
  return TC_OK;
}

static tc_sv print(tc_arena *arena, const tc_ex *e) {
  tc_sb sb = tc_sb_make(arena);
  tc_ex_print(&sb, e);
  return tc_sb_view(&sb);
}

static tc_status body(tc_arena *arena, tc_sv text) {
  tc_ex_program program;
  tc_status_free(tc_ex_parse_program(arena, TC_SV("fuzz"), text, &program));
  const tc_ex *e, *again;
  TC_TRY(parse(arena, text, &e));
  tc_sv once = print(arena, e);
  tc_fuzz_ok(parse(arena, once, &again), once.data);
  tc_fuzz_same(once, print(arena, again));
  return TC_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return tc_fuzz_text(data, size, body); }
