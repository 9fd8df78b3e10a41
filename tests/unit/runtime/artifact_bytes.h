// Artifacts as bytes, for tests and fuzzers: damage that hashes would find is made to look whole again, so that what
// lies behind them is reached.
#ifndef TC_TESTS_UNIT_RUNTIME_ARTIFACT_BYTES_H_
#define TC_TESTS_UNIT_RUNTIME_ARTIFACT_BYTES_H_

#include <string.h>

#include "core/runtime/tcx.h"

// The layout of core/plan/blob.h.
enum { ARTIFACT_HEADER = 64, ARTIFACT_ROW = 64 };

static inline uint64_t artifact_u64(const char *at) {
  uint64_t v;
  memcpy(&v, at, sizeof v);
  return v;
}

// Sets the hashes of contents that lie inside, and of the table.
static inline void artifact_repair(char *bytes, size_t size) {
  uint32_t count;
  if (size < ARTIFACT_HEADER) return;
  memcpy(&count, bytes + 12, sizeof count);
  uint64_t head = artifact_u64(bytes + 24), whole = size;
  memcpy(bytes + 16, &whole, sizeof whole);
  if (head < ARTIFACT_HEADER || head > size || count > (head - ARTIFACT_HEADER) / ARTIFACT_ROW) return;
  for (uint32_t i = 0; i < count; i++) {
    char *row = bytes + ARTIFACT_HEADER + (size_t)i * ARTIFACT_ROW;
    uint64_t at = artifact_u64(row + 24), n = artifact_u64(row + 32);
    if (at > size || n > size - at) continue;
    uint64_t hash = tc_hash(bytes + at, n);
    memcpy(row + 40, &hash, sizeof hash);
  }
  uint64_t hash = tc_hash(bytes + ARTIFACT_HEADER, head - ARTIFACT_HEADER);
  memcpy(bytes + 32, &hash, sizeof hash);
}

// Reads everything that there is.
static inline tc_status artifact_read_all(const tc_allocator *a, const char *bytes, size_t size) {
  tc_storage *s;
  tc_tcx *x = NULL;
  TC_TRY(tc_storage_create(a, size ? size : 1, &s));
  if (size) memcpy(s->data, bytes, size);
  s->size = size;
  tc_status status = tc_tcx_open_storage(a, s, TC_SV("/nowhere"), &x);
  tc_storage_unref(s);
  for (int32_t i = 0; status == TC_OK && i < tc_tcx_count(x); i++) {
    tc_tcx_program p, *others;
    int32_t n;
    status = tc_tcx_load(x, i, TC_TCX_PLAN | TC_TCX_TENSORS, &p);
    if (status != TC_OK) break;
    status = tc_tcx_load_others(x, i, &others, &n);
    if (status == TC_OK) tc_tcx_unload_all(a, others, n);
    tc_tcx_unload(&p);
  }
  tc_tcx_close(x);
  return status;
}

#endif
