// .npy files, and .npz files where the input is a zip archive.
#include "tests/fuzz/fuzz.h"

static tc_status body(tc_arena *arena, tc_storage *bytes) {
  const tc_allocator *a = tc_arena_allocator(arena);
  if (bytes->size > 2 && memcmp(bytes->data, "PK", 2) == 0) {
    tc_tensor_list l;
    TC_TRY(tc_npz_parse(a, arena, bytes, &l));
    for (int32_t i = 0; i < l.count; i++) tc_fuzz_touch(a, &l.items[i].tensor);
    tc_tensor_list_free(&l);
    return TC_OK;
  }
  tc_tensor t;
  TC_TRY(tc_npy_parse(a, arena, bytes, 0, bytes->size, &t));
  tc_fuzz_touch(a, &t);
  tc_tensor_unref(&t);
  return TC_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return tc_fuzz_run(data, size, body); }
