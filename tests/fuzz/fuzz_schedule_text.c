// Schedule text (.tc) behind its loops: any text is read or refused with an error; what is read has been verified, and
// prints as a text that reads back the same.
#include "core/schedule/schedule.h"
#include "tests/fuzz/fuzz_graph.h"

static tc_status parse(tc_arena *arena, tc_sv text, tc_schedule **out) {
  tc_lexer lx;
  tc_loops *l;
  tc_lex_init(&lx, arena, TC_SV("fuzz.tc"), text);
  TC_TRY(tc_loops_parse(tc_fuzz_module(arena), &lx, &l));
  return tc_schedule_parse(l, &lx, out);
}

static tc_sv print(tc_arena *arena, const tc_schedule *s) {
  tc_sb sb = tc_sb_make(arena);
  tc_schedule_print(&sb, s);
  return tc_sb_view(&sb);
}

static tc_status body(tc_arena *arena, tc_sv text) {
  tc_schedule *s, *again;
  TC_TRY(parse(arena, text, &s));
  tc_sv once = print(arena, s);
  tc_fuzz_ok(parse(arena, once, &again), once.data);
  tc_fuzz_same(once, print(arena, again));
  return TC_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return tc_fuzz_text(data, size, body); }
