// torch.save files. An input that is no zip archive is taken as the pickle of one with a storage "0" of 64 bytes, so
// that the fuzzer need not find CRCs.
#include "core/frontends/pt2/unpickle.h"
#include "tests/fuzz/fuzz.h"

static int64_t walk(const tc_pickle *v, int depth) {
  tc_fuzz_require(depth <= TC_PICKLE_MAX_DEPTH);
  int64_t nodes = 1;
  if (v->kind == TC_PICKLE_TENSOR) tc_fuzz_require(v->tensor->storage != NULL);
  if (v->kind < TC_PICKLE_TUPLE) return nodes;
  tc_fuzz_require(v->kind <= TC_PICKLE_DICT);
  for (int32_t i = 0; i < (v->kind == TC_PICKLE_DICT ? 2 : 1) * v->count; i++) nodes += walk(v->items[i], depth + 1);
  return nodes;
}

static tc_status body(tc_arena *arena, tc_storage *bytes) {
  const tc_allocator *a = tc_arena_allocator(arena);
  tc_storage *file = bytes;
  if (bytes->size < 2 || memcmp(bytes->data, "PK", 2) != 0) {
    tc_zip_item items[] = {{TC_SV("x/data.pkl"), bytes->size, 0}, {TC_SV("x/data/0"), 64, 0}};
    size_t total;
    TC_TRY(tc_zip_layout(items, 2, &total));
    TC_TRY(tc_storage_create(a, total, &file));
    memset(file->data, 0, total);
    memcpy((uint8_t *)file->data + items[0].offset, bytes->data, bytes->size);
    tc_zip_finish(file->data, items, 2);
  }
  tc_pickle_file f;
  tc_status s = tc_pickle_read(a, arena, file, 0, file->size, &f);
  if (s == TC_OK) {
    walk(f.root, 0);
    for (int32_t i = 0; i < f.tensor_count; i++) tc_fuzz_touch(a, f.tensors[i]);
    tc_pickle_free(&f);
  }
  if (file != bytes) tc_storage_unref(file);
  return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return tc_fuzz_run(data, size, body); }
