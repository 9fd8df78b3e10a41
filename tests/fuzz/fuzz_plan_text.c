// Plan text (.tc), with or without kernels behind it: any text is read or refused with an error; what is read prints as
// a text that reads back the same.
#include "core/plan/plan.h"
#include "tests/fuzz/fuzz_graph.h"

static tc_status parse(tc_arena *arena, tc_sv text, tc_plan **out) {
  tc_lexer lx;
  tc_lex_init(&lx, arena, TC_SV("fuzz.tc"), text);
  return tc_plan_parse(tc_fuzz_module(arena), &lx, out);
}

static tc_sv print(tc_arena *arena, const tc_plan *p) {
  tc_sb sb = tc_sb_make(arena);
  tc_plan_print(&sb, p);
  return tc_sb_view(&sb);
}

static tc_status body(tc_arena *arena, tc_sv text) {
  tc_plan *p, *again;
  TC_TRY(parse(arena, text, &p));
  tc_sv once = print(arena, p);
  tc_fuzz_ok(parse(arena, once, &again), once.data);
  tc_fuzz_same(once, print(arena, again));
  return TC_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return tc_fuzz_text(data, size, body); }
