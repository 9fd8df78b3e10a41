// Loop text (.tc), whose opcodes are those of kernel IR: any text is read or refused with an error; what is read has
// been verified, and prints as a text that reads back the same.
#include "core/loop/loop.h"
#include "tests/fuzz/fuzz_graph.h"

static tc_status parse(tc_arena *arena, tc_sv text, tc_loops **out) {
  tc_lexer lx;
  tc_lex_init(&lx, arena, TC_SV("fuzz.tc"), text);
  return tc_loops_parse(tc_fuzz_module(arena), &lx, out);
}

static tc_sv print(tc_arena *arena, const tc_loops *l) {
  tc_sb sb = tc_sb_make(arena);
  tc_loops_print(&sb, l);
  return tc_sb_view(&sb);
}

static tc_status body(tc_arena *arena, tc_sv text) {
  tc_loops *l, *again;
  TC_TRY(parse(arena, text, &l));
  tc_sv once = print(arena, l);
  tc_fuzz_ok(parse(arena, once, &again), once.data);
  tc_fuzz_same(once, print(arena, again));
  return TC_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return tc_fuzz_text(data, size, body); }
