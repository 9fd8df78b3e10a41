// What the fuzz targets share: an arena with a guard around each input, and memory of the input's exact size, so that
// the address sanitizer sees every read beyond it.
#ifndef TC_TESTS_FUZZ_FUZZ_H_
#define TC_TESTS_FUZZ_FUZZ_H_

#include <stdlib.h>
#include <string.h>

#include "core/tensor/files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct tc_fuzz_call {
  tc_arena *arena;
  tc_storage *bytes;
  tc_status (*body)(tc_arena *arena, tc_storage *bytes);
} tc_fuzz_call;

static inline tc_status tc_fuzz_enter(void *arg) {
  tc_fuzz_call *call = arg;
  return call->body(call->arena, call->bytes);
}

static inline void tc_fuzz_require(bool holds) {
  if (!holds) abort();
}

// Runs the body over a copy of the input; whatever it takes it must give back.
static inline int tc_fuzz_run(const uint8_t *data, size_t size, tc_status (*body)(tc_arena *arena, tc_storage *bytes)) {
  tc_fault_allocator counter;
  tc_fault_allocator_init(&counter, tc_system_allocator());
  tc_fuzz_call call = {.body = body};
  uint8_t *exact = malloc(size ? size : 1);
  if (size) memcpy(exact, data, size);
  tc_status s = tc_arena_create(&counter.iface, &call.arena);
  tc_fuzz_require(s == TC_OK);
  s = tc_storage_wrap(&counter.iface, exact, size, NULL, NULL, &call.bytes);
  tc_fuzz_require(s == TC_OK);
  tc_status_free(tc_arena_guard(call.arena, tc_fuzz_enter, &call));
  tc_fuzz_require(call.bytes->refs == 1);
  tc_storage_unref(call.bytes);
  tc_arena_destroy(call.arena);
  tc_fuzz_require(counter.live == 0);
  free(exact);
  return 0;
}

// Reads every element of a tensor.
static inline void tc_fuzz_touch(const tc_allocator *a, const tc_tensor *t) {
  tc_tensor wide;
  if (tc_tensor_numel(t) > 1 << 20) return; // stride 0 makes small files large
  tc_status s = tc_tensor_create(a, TC_C128, t->rank, t->sizes, &wide);
  if (s == TC_OK) s = tc_tensor_copy(t, &wide);
  tc_fuzz_require(s == TC_OK);
  tc_tensor_unref(&wide);
}

#endif
