// JSON: any bytes parse or fail with an error; a parsed tree can be walked, and its strings quoted and read again.
#include "core/base/json.h"
#include "tests/fuzz/fuzz_text.h"

static void walk(tc_arena *arena, tc_json v) {
  tc_sv s;
  if (tc_json_str(v, &s)) {
    tc_sb sb = tc_sb_make(arena);
    tc_json_quote(&sb, s);
    tc_json_doc *doc;
    tc_json back;
    tc_sv again;
    tc_status status = tc_json_parse(tc_arena_allocator(arena), tc_sb_view(&sb), &doc, &back);
    tc_fuzz_must(status == TC_OK && tc_json_str(back, &again) && tc_sv_eq(s, again));
    tc_json_free(doc);
  }
  int64_t count = 0;
  for (tc_json_iter it = tc_json_begin(v); tc_json_next(&it); count++) walk(arena, it.value);
  tc_fuzz_must(count == tc_json_count(v));
}

static tc_status body(tc_arena *arena, tc_sv text) {
  tc_json_doc *doc;
  tc_json root;
  TC_TRY(tc_json_parse(tc_arena_allocator(arena), text, &doc, &root));
  walk(arena, root);
  tc_json_free(doc);
  return TC_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return tc_fuzz_text(data, size, body); }
