// safetensors files.
#include "tests/fuzz/fuzz.h"

static tc_status body(tc_arena *arena, tc_storage *bytes) {
  tc_tensor_list l;
  TC_TRY(tc_safetensors_parse(tc_arena_allocator(arena), arena, bytes, &l));
  for (int32_t i = 0; i < l.count; i++) tc_fuzz_touch(tc_arena_allocator(arena), &l.items[i].tensor);
  tc_tensor_list_free(&l);
  return TC_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return tc_fuzz_run(data, size, body); }
