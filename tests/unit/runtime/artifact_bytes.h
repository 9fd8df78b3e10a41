// Artifacts as bytes, for tests and fuzzers: damage that hashes would find is made to look whole again, so that what
// lies behind them is reached.
#ifndef TC_TESTS_UNIT_RUNTIME_ARTIFACT_BYTES_H_
#define TC_TESTS_UNIT_RUNTIME_ARTIFACT_BYTES_H_

#include <string.h>

#include "core/base/str.h"

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

#endif
