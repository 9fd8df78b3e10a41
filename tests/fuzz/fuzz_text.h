// What the fuzz targets of text forms share: an arena with a guard around each input, over an allocator that counts,
// and the input in memory of its exact size, so that the address sanitizer sees every read beyond it.
#ifndef TC_TESTS_FUZZ_FUZZ_TEXT_H_
#define TC_TESTS_FUZZ_FUZZ_TEXT_H_

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/lex.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct tc_fuzz_text_call {
  tc_arena *arena;
  tc_sv text;
  tc_status (*body)(tc_arena *arena, tc_sv text);
} tc_fuzz_text_call;

static inline tc_status tc_fuzz_text_enter(void *arg) {
  tc_fuzz_text_call *call = arg;
  return call->body(call->arena, call->text);
}

static inline void tc_fuzz_must(bool holds) {
  if (!holds) abort();
}

// What must succeed; a failure is a finding, and is shown.
static inline void tc_fuzz_ok(tc_status s, const char *what) {
  if (s == TC_OK) return;
  fprintf(stderr, "%s: %s\n", what, tc_status_text(s));
  abort();
}

static inline void tc_fuzz_same(tc_sv a, tc_sv b) {
  if (tc_sv_eq(a, b)) return;
  fprintf(stderr, "printed:\n" TC_SV_FMT "\nand read again:\n" TC_SV_FMT "\n", TC_SV_ARG(a), TC_SV_ARG(b));
  abort();
}

// Runs the body over a copy of the input; whatever it takes it must give back.
static inline int tc_fuzz_text(const uint8_t *data, size_t size, tc_status (*body)(tc_arena *arena, tc_sv text)) {
  tc_fault_allocator counter;
  tc_fault_allocator_init(&counter, tc_system_allocator());
  char *exact = malloc(size ? size : 1);
  if (!exact) return 0;
  if (size) memcpy(exact, data, size);
  tc_fuzz_text_call call = {NULL, {exact, size}, body};
  tc_fuzz_ok(tc_arena_create(&counter.iface, &call.arena), "the arena");
  tc_status_free(tc_arena_guard(call.arena, tc_fuzz_text_enter, &call));
  tc_arena_destroy(call.arena);
  tc_fuzz_must(counter.live == 0);
  free(exact);
  return 0;
}

#endif
