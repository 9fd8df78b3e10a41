// Kernel text (.tc): any text is read or refused with an error. What is read and verifies prints as a text that reads
// back the same, stays correct when simplified, and what legalising gives is plain.
#include "core/kernel/kernel.h"
#include "tests/fuzz/fuzz_text.h"

static tc_status parse(tc_arena *arena, tc_sv text, tc_kernel **out) {
  tc_lexer lx;
  tc_lex_init(&lx, arena, TC_SV("fuzz.tc"), text);
  TC_TRY(tc_kernel_parse(arena, &lx, out));
  return tc_kernel_verify(*out);
}

static tc_sv print(tc_arena *arena, const tc_kernel *k) {
  tc_sb sb = tc_sb_make(arena);
  tc_kernel_print(&sb, k);
  return tc_sb_view(&sb);
}

static tc_status body(tc_arena *arena, tc_sv text) {
  tc_kernel *k, *again, *simple, *plain;
  TC_TRY(parse(arena, text, &k));
  tc_sv once = print(arena, k);
  tc_fuzz_ok(parse(arena, once, &again), once.data);
  tc_fuzz_same(once, print(arena, again));
  tc_kernel_stats stats;
  tc_kernel_count(k, &stats);
  tc_fuzz_ok(tc_kernel_simplify(arena, k, &simple), "simplify");
  tc_fuzz_ok(tc_kernel_verify(simple), "verify what was simplified");
  TC_TRY(tc_kernel_legalise(arena, simple, false, &plain));
  tc_fuzz_ok(tc_kernel_verify_plain(plain), "verify what was legalised");
  return TC_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return tc_fuzz_text(data, size, body); }
