// Pools of memory.
//
// Size classes: eight per power of two, so at most an eighth is wasted; a class is a list, last in first out (the block
// that is warm in the caches goes first). One lock: takes are few beside what is computed in the memory.
#include "core/runtime/pool.h"

#include <pthread.h>
#include <string.h>

enum { SMALLEST = 64, STEPS = 8, CLASSES = 64 * STEPS };

struct tc_pool {
  const tc_allocator *allocator;
  tc_pool_source source;
  int64_t most_idle;
  pthread_mutex_t lock;
  // Under the lock:
  int64_t refs; // the owner, and every block that is out
  bool closed;
  tc_pool_stats stats;
  tc_pool_block *idle[CLASSES];
};

// The class of a size, and the size that all its blocks have.
static int32_t class_of(int64_t size, int64_t *out_size) {
  if (size < SMALLEST) size = SMALLEST;
  int32_t bits = 63 - __builtin_clzll((uint64_t)size);
  int64_t step = ((int64_t)1 << bits) / STEPS, over = size - ((int64_t)1 << bits);
  int64_t k = (over + step - 1) / step; // 0 … STEPS
  *out_size = ((int64_t)1 << bits) + k * step;
  return bits * STEPS + (int32_t)k; // k == STEPS is the next power's first
}

tc_status tc_pool_create(const tc_allocator *a, tc_pool_source source, int64_t most_idle, tc_pool **out) {
  tc_pool *p = tc_alloc(a, sizeof *p);
  *out = p;
  if (!p) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for a pool");
  p->allocator = a;
  p->source = source;
  p->most_idle = most_idle;
  p->refs = 1;
  pthread_mutex_init(&p->lock, NULL);
  return TC_OK;
}

static tc_status host_alloc(void *self, size_t size, uint64_t *out) {
  const tc_allocator *a = self;
  void *data = a->alloc(a->self, size);
  *out = (uint64_t)(uintptr_t)data;
  return data ? TC_OK : tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for %zu bytes", size);
}

static void host_free(void *self, uint64_t memory) { tc_free(self, (void *)(uintptr_t)memory); }

tc_status tc_pool_create_host(const tc_allocator *a, int64_t most_idle, tc_pool **out) {
  return tc_pool_create(a, (tc_pool_source){(void *)(uintptr_t)a, host_alloc, host_free, 0}, most_idle, out);
}

static void drop_block(tc_pool *p, tc_pool_block *b) {
  p->source.free(p->source.self, b->memory);
  tc_free(p->allocator, b);
}

static void unref(tc_pool *p) { // unlocks
  bool last = --p->refs == 0;
  pthread_mutex_unlock(&p->lock);
  if (!last) return;
  pthread_mutex_destroy(&p->lock);
  tc_free(p->allocator, p);
}

void tc_pool_close(tc_pool *p) {
  if (!p) return;
  pthread_mutex_lock(&p->lock);
  p->closed = true;
  for (int32_t i = 0; i < CLASSES; i++) {
    for (tc_pool_block *b = p->idle[i], *next; b; b = next) {
      next = b->next;
      drop_block(p, b);
    }
    p->idle[i] = NULL;
  }
  p->stats.idle_bytes = 0;
  unref(p);
}

static void count_taken(tc_pool *p, tc_pool_block *b, int64_t asked) {
  p->refs++;
  b->asked = asked;
  p->stats.taken_bytes += b->size;
  p->stats.asked_bytes += asked;
  if (p->stats.asked_bytes > p->stats.most_asked) p->stats.most_asked = p->stats.asked_bytes;
  int64_t held = p->stats.taken_bytes + p->stats.idle_bytes;
  if (held > p->stats.peak_bytes) p->stats.peak_bytes = held;
}

static tc_status take_fresh(tc_pool *p, int64_t size, int64_t asked, tc_pool_block **out) {
  tc_pool_block *b = tc_alloc(p->allocator, sizeof *b);
  if (!b) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for %lld bytes", (long long)size);
  *b = (tc_pool_block){.pool = p, .size = size};
  tc_status s = p->source.alloc(p->source.self, (size_t)size, &b->memory);
  if (s != TC_OK) {
    tc_free(p->allocator, b);
    return s;
  }
  pthread_mutex_lock(&p->lock);
  p->stats.fresh++;
  count_taken(p, b, asked);
  pthread_mutex_unlock(&p->lock);
  *out = b;
  return TC_OK;
}

tc_status tc_pool_take(tc_pool *p, int64_t size, tc_pool_block **out) {
  *out = NULL;
  if (size < 0 || size > INT64_MAX / 4)
    return tc_error(TC_STATUS_OUT_OF_MEMORY, "a buffer of %lld bytes", (long long)size);
  int64_t rounded;
  int32_t c = class_of(size, &rounded);
  const int64_t largest = p->source.largest;
  if (size <= largest && rounded > largest) rounded = largest; // for all of its class
  pthread_mutex_lock(&p->lock);
  tc_pool_block *b = p->idle[c];
  if (b && b->size < size) b = NULL; // as large as the source gives, which is too little
  if (b) {
    p->idle[c] = b->next;
    p->stats.idle_bytes -= b->size;
    p->stats.reused++;
    count_taken(p, b, size);
  }
  pthread_mutex_unlock(&p->lock);
  if (!b) return take_fresh(p, rounded, size, out);
  b->next = NULL;
  *out = b;
  return TC_OK;
}

void tc_pool_give(tc_pool_block *b) {
  if (!b) return;
  tc_pool *p = b->pool;
  int64_t size;
  int32_t c = class_of(b->size, &size);
  pthread_mutex_lock(&p->lock);
  p->stats.taken_bytes -= b->size;
  p->stats.asked_bytes -= b->asked;
  if (!p->closed && p->stats.idle_bytes + b->size <= p->most_idle) {
    b->next = p->idle[c];
    p->idle[c] = b;
    p->stats.idle_bytes += b->size;
  } else {
    drop_block(p, b);
  }
  unref(p);
}

static void release_block(void *owner, void *data) {
  (void)data;
  tc_pool_give(owner);
}

tc_status tc_pool_storage(tc_pool *p, int64_t size, int32_t device, tc_storage **out) {
  tc_pool_block *b;
  TC_TRY(tc_pool_take(p, size, &b));
  tc_status s = tc_storage_wrap(p->allocator, (void *)(uintptr_t)b->memory, (size_t)size, release_block, b, out);
  if (s != TC_OK) {
    tc_pool_give(b);
    return s;
  }
  (*out)->device = device;
  return TC_OK;
}

void tc_pool_read_stats(tc_pool *p, tc_pool_stats *out) {
  pthread_mutex_lock(&p->lock);
  *out = p->stats;
  pthread_mutex_unlock(&p->lock);
}

void tc_pool_mark(tc_pool *p) {
  pthread_mutex_lock(&p->lock);
  p->stats.most_asked = p->stats.asked_bytes;
  pthread_mutex_unlock(&p->lock);
}
