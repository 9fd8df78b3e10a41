// Zip archives: the directory, and every member.
#include "tests/fuzz/fuzz.h"

static tc_status body(tc_arena *arena, tc_storage *bytes) {
  tc_zip z;
  TC_TRY(tc_zip_open(arena, bytes->data, bytes->size, &z));
  for (int32_t i = 0; i < z.count; i++) {
    tc_sv text;
    tc_fuzz_require(tc_zip_find(&z, z.entries[i].name) == &z.entries[i]);
    tc_status s = tc_zip_read(arena, &z, &z.entries[i], 1 << 20, &text);
    if (s == TC_OK) tc_fuzz_require(text.size == z.entries[i].size);
    tc_status_free(s);
  }
  return TC_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return tc_fuzz_run(data, size, body); }
