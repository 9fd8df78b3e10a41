// JSON: any bytes parse or fail with an error; a parsed tree can be walked, and its strings quoted and read again.
#include "core/base/json.h"

typedef struct input {
  tc_arena *arena;
  tc_sv text;
} input;

static void walk(tc_arena *arena, tc_json v) {
  tc_sv s;
  if (tc_json_str(v, &s)) {
    tc_sb sb = tc_sb_make(arena);
    tc_json_quote(&sb, s);
    tc_json_doc *doc;
    tc_json back;
    tc_sv again;
    tc_status status = tc_json_parse(tc_arena_allocator(arena), tc_sb_view(&sb), &doc, &back);
    if (status != TC_OK || !tc_json_str(back, &again) || !tc_sv_eq(s, again)) __builtin_trap();
    tc_json_free(doc);
  }
  int64_t count = 0;
  for (tc_json_iter it = tc_json_begin(v); tc_json_next(&it); count++) walk(arena, it.value);
  if (count != tc_json_count(v)) __builtin_trap();
}

static tc_status run(void *arg) {
  input *in = arg;
  tc_json_doc *doc;
  tc_json root;
  TC_TRY(tc_json_parse(tc_arena_allocator(in->arena), in->text, &doc, &root));
  walk(in->arena, root);
  tc_json_free(doc);
  return TC_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  input in = {NULL, {(const char *)data, size}};
  tc_status s = tc_arena_create(tc_system_allocator(), &in.arena);
  if (s == TC_OK) s = tc_arena_guard(in.arena, run, &in);
  tc_status_free(s);
  tc_arena_destroy(in.arena);
  return 0;
}
