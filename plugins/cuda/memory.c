// Memory: stream-ordered allocation, copies through pinned buffers, fills.
//
// As long as there is one stream, memory is allocated and freed in its order (no waiting); with several, allocation is
// the driver's synchronous one. Copies from the host have taken the bytes when they return; copies to the host have
// delivered them. Both go through two pinned buffers in turns, so that the device copies one while the processor fills
// or empties the other.
#include <string.h>

#include "cuda.h"

static cu_stream stream_of(tc_handle h) { return (cu_stream)(uintptr_t)h; }

int32_t cuda_alloc(tc_device_ *d, uint64_t size, tc_handle *out) {
  cu_ptr memory = 0;
  int32_t s = cuda_enter(d);
  if (s != TC_STATUS_OK) return s;
  pthread_mutex_lock(&d->memory_lock);
  cu_stream stream = d->pools ? d->stream : NULL;
  pthread_mutex_unlock(&d->memory_lock);
  size += !size;
  if (stream) s = cuda_check(d, "cuMemAllocAsync", d->driver.memory_alloc_async(&memory, size, stream));
  else s = cuda_check(d, "cuMemAlloc", d->driver.memory_alloc(&memory, size));
  *out = memory;
  return s;
}

void cuda_free(tc_device_ *d, tc_handle memory) {
  if (!memory || cuda_enter(d) != TC_STATUS_OK) return;
  pthread_mutex_lock(&d->memory_lock);
  cu_stream stream = d->pools ? d->stream : NULL;
  pthread_mutex_unlock(&d->memory_lock);
  if (stream) d->driver.memory_free_async(memory, stream);
  else d->driver.memory_free(memory);
}

// ---- Staging ----
// Under the lock: the next pinned buffer, when the device is done with it.
static int32_t take_stage(tc_device_ *d, cuda_stage **out) {
  cuda_stage *g = &d->stages[d->next_stage];
  int32_t s = TC_STATUS_OK;
  if (!g->memory) s = cuda_check(d, "cuMemHostAlloc", d->driver.host_alloc(&g->memory, CUDA_STAGE_BYTES, 0));
  if (s == TC_STATUS_OK && !g->done)
    s = cuda_check(d, "cuEventCreate", d->driver.event_create(&g->done, CU_EVENT_NO_TIMING));
  if (s == TC_STATUS_OK && g->busy) s = cuda_check(d, "cuEventSynchronize", d->driver.event_synchronize(g->done));
  if (s != TC_STATUS_OK) return s;
  g->busy = 0;
  d->next_stage = (d->next_stage + 1) % CUDA_STAGES;
  *out = g;
  return TC_STATUS_OK;
}

static int32_t mark_stage(tc_device_ *d, cuda_stage *g, cu_stream stream) {
  int32_t s = cuda_check(d, "cuEventRecord", d->driver.event_record(g->done, stream));
  g->busy = s == TC_STATUS_OK;
  return s;
}

// One thread moves bytes at a third of what the bus takes.
typedef struct bytes_move {
  char *to;
  const char *from;
  uint64_t size;
} bytes_move;
enum { MOVED_AT_ONCE = 64 << 10, MOVES_OF_A_THREAD = 16 };

static void move_range(void *arg, int64_t begin, int64_t end) {
  const bytes_move *m = arg;
  uint64_t from = (uint64_t)begin * MOVED_AT_ONCE, to = (uint64_t)end * MOVED_AT_ONCE;
  memcpy(m->to + from, m->from + from, (to < m->size ? to : m->size) - from);
}

static void move_bytes(const tc_device_ *d, void *to, const void *from, uint64_t size) {
  bytes_move m = {to, from, size};
  int64_t n = (int64_t)((size + MOVED_AT_ONCE - 1) / MOVED_AT_ONCE);
  d->host->parallel_for(d->host->self, n, MOVES_OF_A_THREAD, move_range, &m);
}

static uint64_t piece(uint64_t left) { return left < CUDA_STAGE_BYTES ? left : CUDA_STAGE_BYTES; }

int32_t cuda_copy_in(tc_device_ *d, tc_handle stream, tc_handle dst, int64_t dst_offset, const void *src,
                     uint64_t size) {
  int32_t s = cuda_enter(d);
  cu_ptr to = dst + (uint64_t)dst_offset;
  pthread_mutex_lock(&d->memory_lock);
  for (uint64_t at = 0, n; at < size && s == TC_STATUS_OK; at += n) {
    cuda_stage *g = NULL;
    n = piece(size - at);
    s = take_stage(d, &g);
    if (s != TC_STATUS_OK) break;
    move_bytes(d, g->memory, (const char *)src + at, n);
    s = cuda_check(d, "cuMemcpyHtoDAsync", d->driver.copy_in(to + at, g->memory, n, stream_of(stream)));
    if (s == TC_STATUS_OK) s = mark_stage(d, g, stream_of(stream));
  }
  pthread_mutex_unlock(&d->memory_lock);
  return s;
}

// Under the lock: waits for a buffer that the device fills, and empties it.
static int32_t deliver(tc_device_ *d, cuda_stage *g, void *to, uint64_t size) {
  int32_t s = cuda_check(d, "cuEventSynchronize", d->driver.event_synchronize(g->done));
  g->busy = 0;
  if (s == TC_STATUS_OK) move_bytes(d, to, g->memory, size);
  return s;
}

int32_t cuda_copy_out(tc_device_ *d, tc_handle stream, void *dst, tc_handle src, int64_t src_offset, uint64_t size) {
  int32_t s = cuda_enter(d);
  cu_ptr from = src + (uint64_t)src_offset;
  cuda_stage *before = NULL; // on its way, with the piece before this one
  pthread_mutex_lock(&d->memory_lock);
  for (uint64_t at = 0, n; at < size && s == TC_STATUS_OK; at += n) {
    cuda_stage *g = NULL;
    n = piece(size - at);
    s = take_stage(d, &g);
    if (s != TC_STATUS_OK) break;
    s = cuda_check(d, "cuMemcpyDtoHAsync", d->driver.copy_out(g->memory, from + at, n, stream_of(stream)));
    if (s == TC_STATUS_OK) s = mark_stage(d, g, stream_of(stream));
    if (s == TC_STATUS_OK && before) s = deliver(d, before, (char *)dst + at - CUDA_STAGE_BYTES, CUDA_STAGE_BYTES);
    before = g;
  }
  uint64_t last = size % CUDA_STAGE_BYTES ? size % CUDA_STAGE_BYTES : CUDA_STAGE_BYTES;
  if (s == TC_STATUS_OK && before) s = deliver(d, before, (char *)dst + size - last, last);
  pthread_mutex_unlock(&d->memory_lock);
  return s;
}

int32_t cuda_copy(tc_device_ *d, tc_handle stream, tc_handle dst, int64_t dst_offset, tc_handle src, int64_t src_offset,
                  uint64_t size) {
  int32_t s = cuda_enter(d);
  if (s != TC_STATUS_OK || !size) return s;
  cu_result code = d->driver.copy(dst + (uint64_t)dst_offset, src + (uint64_t)src_offset, size, stream_of(stream));
  return cuda_check(d, "cuMemcpyDtoDAsync", code);
}

int32_t cuda_fill(tc_device_ *d, tc_handle stream, tc_handle dst, int64_t offset, uint8_t value, uint64_t size) {
  int32_t s = cuda_enter(d);
  if (s != TC_STATUS_OK || !size) return s;
  return cuda_check(d, "cuMemsetD8Async", d->driver.fill(dst + (uint64_t)offset, value, size, stream_of(stream)));
}

void cuda_memory_close(tc_device_ *d) {
  for (int32_t i = 0; i < CUDA_STAGES; i++) {
    cuda_stage *g = &d->stages[i];
    if (g->busy) d->driver.event_synchronize(g->done);
    if (g->done) d->driver.event_destroy(g->done);
    if (g->memory) d->driver.host_free(g->memory);
  }
}

int32_t cuda_memory_stats(tc_device_ *d, tc_memory_stats *out) {
  tc_memory_stats m = {.used_bytes = -1, .peak_bytes = -1};
  size_t unused = 0, total = 0;
  cu_pool pool;
  uint64_t used = 0, most = 0;
  int32_t s = cuda_enter(d);
  if (s == TC_STATUS_OK) s = cuda_check(d, "cuMemGetInfo", d->driver.memory_info(&unused, &total));
  if (s != TC_STATUS_OK) return s;
  m.total_bytes = (int64_t)total, m.free_bytes = (int64_t)unused;
  if (d->pools && d->driver.pool_get(&pool, d->device) == CU_OK &&
      d->driver.pool_read(pool, CU_POOL_USED, &used) == CU_OK &&
      d->driver.pool_read(pool, CU_POOL_USED_MOST, &most) == CU_OK)
    m.used_bytes = (int64_t)used, m.peak_bytes = (int64_t)most;
  tc_answer_struct(&m, sizeof m, out);
  return TC_STATUS_OK;
}
