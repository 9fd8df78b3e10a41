// TOML: any bytes parse or fail with an error; every value of a parsed tree has a kind and lies behind its parent's
// earlier ones.
#include "core/base/toml.h"
#include "tests/fuzz/fuzz_text.h"

static void walk(const tc_toml *v) {
  tc_fuzz_must(v->kind >= TC_TOML_STRING && v->kind <= TC_TOML_TABLE);
  for (int32_t i = 0; i < v->n; i++) {
    const tc_toml *kid = &v->kids[i];
    tc_fuzz_must(i == 0 || v->kind != TC_TOML_TABLE || kid->line >= kid[-1].line);
    walk(kid);
  }
}

static tc_status body(tc_arena *arena, tc_sv text) {
  const tc_toml *root;
  TC_TRY(tc_toml_parse(arena, TC_SV("fuzz.toml"), text, &root));
  walk(root);
  return TC_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return tc_fuzz_text(data, size, body); }
