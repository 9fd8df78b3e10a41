// Graph text (.tc) with the core's ops, whose meta functions see whatever arguments the text gives: any text is read or
// refused with an error; what is read and verifies prints as a text that reads back the same.
#include "tests/fuzz/fuzz_graph.h"

static tc_status parse(tc_arena *arena, tc_sv text, tc_graph **out) {
  tc_lexer lx;
  tc_lex_init(&lx, arena, TC_SV("fuzz.tc"), text);
  TC_TRY(tc_graph_parse(tc_fuzz_module(arena), &lx, out));
  return tc_graph_verify(*out);
}

static tc_sv print(tc_arena *arena, const tc_graph *g) {
  tc_sb sb = tc_sb_make(arena);
  tc_graph_print(&sb, g);
  return tc_sb_view(&sb);
}

static tc_status body(tc_arena *arena, tc_sv text) {
  tc_graph *g, *again;
  TC_TRY(parse(arena, text, &g));
  tc_sv once = print(arena, g);
  tc_fuzz_ok(parse(arena, once, &again), once.data);
  tc_fuzz_same(once, print(arena, again));
  return TC_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return tc_fuzz_text(data, size, body); }
