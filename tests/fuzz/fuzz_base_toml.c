// TOML: any bytes parse or fail with an error; every value of a parsed tree has a kind and lies behind its parent's
// earlier ones.
#include "core/base/toml.h"

typedef struct input {
  tc_arena *arena;
  tc_sv text;
} input;

static void walk(const tc_toml *v) {
  if (v->kind < TC_TOML_STRING || v->kind > TC_TOML_TABLE) __builtin_trap();
  for (int32_t i = 0; i < v->n; i++) {
    const tc_toml *kid = &v->kids[i];
    if (i > 0 && v->kind == TC_TOML_TABLE && kid->line < kid[-1].line) __builtin_trap();
    walk(kid);
  }
}

static tc_status run(void *arg) {
  input *in = arg;
  const tc_toml *root;
  TC_TRY(tc_toml_parse(in->arena, TC_SV("fuzz.toml"), in->text, &root));
  walk(root);
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
