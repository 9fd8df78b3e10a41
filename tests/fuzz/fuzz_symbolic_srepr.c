// SymPy's srepr text: what parses prints, and the print parses back to the same expression.
#include "core/symbolic/sym.h"
#include "tests/fuzz/fuzz_text.h"

static tc_status body(tc_arena *arena, tc_sv text) {
  tc_sym_ctx *c = tc_sym_create(arena);
  const tc_sym *e, *again;
  TC_TRY(tc_sym_parse_srepr(c, text, &e));
  tc_sb sb = tc_sb_make(arena);
  tc_sym_print(&sb, e);
  int64_t lo, hi;
  tc_sym_range(c, e, &lo, &hi);
  tc_fuzz_must(lo <= hi);
  (void)tc_sym_divisor(c, e);
  tc_lexer lx;
  tc_lex_init(&lx, arena, TC_SV("print"), tc_sb_view(&sb));
  TC_TRY(tc_sym_parse(c, &lx, &again));
  tc_fuzz_must(again == e);
  return TC_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return tc_fuzz_text(data, size, body); }
