// Memory that is used again: blocks that are given back are kept by size class and handed out to the next taker, so
// that the outputs of a repeated run do not pay for fresh pages each time.
//
// A pool is reference-counted: it goes when it is closed and the last block has come back. Thread-safe, except close.
#ifndef TC_CORE_RUNTIME_POOL_H_
#define TC_CORE_RUNTIME_POOL_H_

#include "core/tensor/tensor.h"

typedef struct tc_pool tc_pool;

// Where blocks come from. `memory` is a host address or a device's handle; never 0.
typedef struct tc_pool_source {
  void *self;
  tc_status (*alloc)(void *self, size_t size, uint64_t *out_memory);
  void (*free)(void *self, uint64_t memory);
  int64_t largest; // more is not asked for where less would do; 0: no bound
} tc_pool_source;

typedef struct tc_pool_block {
  tc_pool *pool;
  struct tc_pool_block *next;
  uint64_t memory;
  int64_t size;  // bytes that may be used: at least what was asked for
  int64_t asked; // while it is out
} tc_pool_block;

typedef struct tc_pool_stats {
  int64_t taken_bytes, idle_bytes, peak_bytes; // out, kept, the most that was held at once
  int64_t fresh, reused;                       // takes that went to the source, that did not
  int64_t asked_bytes, most_asked; // of what is out, as it was asked for; the most at once since tc_pool_mark
} tc_pool_stats;

// Idle memory beyond `most_idle` bytes goes back to the source at once.
TC_NODISCARD tc_status tc_pool_create(const tc_allocator *a, tc_pool_source source, int64_t most_idle, tc_pool **out);
// A pool of host memory from the allocator, aligned to 64 bytes, not cleared.
TC_NODISCARD tc_status tc_pool_create_host(const tc_allocator *a, int64_t most_idle, tc_pool **out);
// Gives idle memory back. Blocks that are still out stay good and go to the source when they come back. NULL is
// ignored.
void tc_pool_close(tc_pool *p);

TC_NODISCARD tc_status tc_pool_take(tc_pool *p, int64_t size, tc_pool_block **out);
void tc_pool_give(tc_pool_block *b); // NULL is ignored
// A storage of `size` bytes whose memory comes back with the last reference. `device` as in tc_storage.
TC_NODISCARD tc_status tc_pool_storage(tc_pool *p, int64_t size, int32_t device, tc_storage **out);
void tc_pool_read_stats(tc_pool *p, tc_pool_stats *out);
void tc_pool_mark(tc_pool *p); // most_asked counts from here on

#endif
