// Allocators and the arena.
//
// The arena is a list of chunks with a bump pointer in the newest one. Chunks double from 4 KiB to 4 MiB; a larger
// request gets a chunk of its own, placed behind the newest one, so that the newest one's rest stays in use. Memory is
// zeroed when handed out, not when a chunk is taken: it is then warm in the cache.
//
// Under the address sanitizer, what is not handed out is poisoned, with a gap behind every allocation: an overrun
// inside a chunk is then seen as one.
#include "core/base/alloc.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define TC_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TC_ASAN 1
#endif
#endif
#ifdef TC_ASAN
#include <sanitizer/asan_interface.h>
#define POISON(p, n) __asan_poison_memory_region((p), (n))
#define UNPOISON(p, n) __asan_unpoison_memory_region((p), (n))
static const size_t arena_gap = 16;
#else
#define POISON(p, n) ((void)(p), (void)(n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
static const size_t arena_gap = 0;
#endif

enum { ALLOC_ALIGN = 64, CHUNK_FIRST = 4096, CHUNK_MOST = 4 << 20, ARENA_ALIGN = 16, ARENA_ALIGN_MOST = 4096 };

// Large blocks lie on huge pages where the system grants them: one fault for 2 MiB in place of 512, and fewer misses of
// the address cache behind it.
static const size_t HUGE_PAGE = (size_t)2 << 20, HUGE_LEAST = (size_t)2 << 20;

static void *system_alloc(void *self, size_t size) {
  (void)self;
  if (size == 0) size = 1;
  if (size > (size_t)PTRDIFF_MAX - HUGE_PAGE) return NULL;
  const size_t align = size >= HUGE_LEAST ? HUGE_PAGE : ALLOC_ALIGN;
  size = (size + ALLOC_ALIGN - 1) & ~(size_t)(ALLOC_ALIGN - 1);
  void *p; // not aligned_alloc, which may ask for a size that is a multiple of the alignment
  if (posix_memalign(&p, align, size) != 0) return NULL;
#ifdef MADV_HUGEPAGE
  // Asked for whole pages inside the block only. A kernel without huge pages refuses, which costs nothing.
  if (size >= HUGE_LEAST) madvise(p, size & ~(size_t)(HUGE_PAGE - 1), MADV_HUGEPAGE);
#endif
  return p;
}

static void system_free(void *self, void *ptr) {
  (void)self;
  free(ptr);
}

static const tc_allocator system_allocator = {NULL, system_alloc, system_free};
const tc_allocator *tc_system_allocator(void) { return &system_allocator; }

void *tc_alloc(const tc_allocator *allocator, size_t size) {
  void *p = allocator->alloc(allocator->self, size);
  if (p != NULL) memset(p, 0, size);
  return p;
}

void tc_free(const tc_allocator *allocator, void *ptr) {
  if (ptr != NULL) allocator->free(allocator->self, ptr);
}

bool tc_mul_size(size_t a, size_t b, size_t *out) { return !__builtin_mul_overflow(a, b, out); }

// ---- fault allocator: a 64-byte header in front of every block keeps its size

static void *fault_alloc(void *self, size_t size) {
  tc_fault_allocator *f = self;
  int64_t nth = __atomic_add_fetch(&f->count, 1, __ATOMIC_RELAXED);
  if (f->fail_at > 0 && (nth == f->fail_at || (f->fail_after && nth > f->fail_at))) return NULL;
  if (size > SIZE_MAX - ALLOC_ALIGN) return NULL;
  char *block = f->base->alloc(f->base->self, size + ALLOC_ALIGN);
  if (block == NULL) return NULL;
  memcpy(block, &size, sizeof size);
  __atomic_add_fetch(&f->live, 1, __ATOMIC_RELAXED);
  int64_t bytes = __atomic_add_fetch(&f->live_bytes, (int64_t)size, __ATOMIC_RELAXED);
  int64_t peak = __atomic_load_n(&f->peak_bytes, __ATOMIC_RELAXED);
  while (bytes > peak &&
         !__atomic_compare_exchange_n(&f->peak_bytes, &peak, bytes, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
  return block + ALLOC_ALIGN;
}

static void fault_free(void *self, void *ptr) {
  if (ptr == NULL) return;
  tc_fault_allocator *f = self;
  char *block = (char *)ptr - ALLOC_ALIGN;
  size_t size;
  memcpy(&size, block, sizeof size);
  __atomic_sub_fetch(&f->live, 1, __ATOMIC_RELAXED);
  __atomic_sub_fetch(&f->live_bytes, (int64_t)size, __ATOMIC_RELAXED);
  f->base->free(f->base->self, block);
}

void tc_fault_allocator_init(tc_fault_allocator *f, const tc_allocator *base) {
  *f = (tc_fault_allocator){.iface = {f, fault_alloc, fault_free}, .base = base};
}

// ---- arena

typedef struct chunk {
  struct chunk *next; // older
  char *at, *end;     // free part
} chunk;

typedef struct cleanup {
  struct cleanup *next; // registered earlier
  void (*clean)(void *arg);
  void *arg;
} cleanup;

struct tc_arena {
  const tc_allocator *allocator;
  chunk *chunks; // the first is the one in use
  size_t next_chunk, used, refused;
  cleanup *cleanups;
  tc_arena_catch *guard; // innermost
};

tc_status tc_arena_create(const tc_allocator *allocator, tc_arena **out_arena) {
  tc_arena *a = tc_alloc(allocator, sizeof *a);
  *out_arena = a;
  if (a == NULL) return tc_error(TC_STATUS_OUT_OF_MEMORY, "out of memory (arena)");
  a->allocator = allocator;
  a->next_chunk = CHUNK_FIRST;
  return TC_OK;
}

void tc_arena_destroy(tc_arena *arena) {
  if (arena == NULL) return;
  for (cleanup *c = arena->cleanups; c != NULL; c = c->next) c->clean(c->arg);
  for (chunk *c = arena->chunks, *next; c != NULL; c = next) {
    next = c->next;
    UNPOISON(c + 1, (size_t)(c->end - (char *)(c + 1)));
    tc_free(arena->allocator, c);
  }
  tc_free(arena->allocator, arena);
}

static _Noreturn void unwind(tc_arena *arena, size_t refused) {
  arena->refused = refused;
  if (arena->guard == NULL) __builtin_trap(); // the contract: an arena is used inside a guard
  longjmp(arena->guard->env, 1);
}

// A chunk with `size` free bytes, or NULL.
static chunk *take_chunk(tc_arena *arena, size_t size) {
  if (size > SIZE_MAX - sizeof(chunk)) return NULL;
  chunk *c = arena->allocator->alloc(arena->allocator->self, sizeof(chunk) + size);
  if (c == NULL) return NULL;
  *c = (chunk){NULL, (char *)(c + 1), (char *)(c + 1) + size};
  POISON(c->at, size);
  return c;
}

static void *bump(tc_arena *arena, chunk *c, size_t size, size_t align) {
  if (c == NULL) return NULL;
  size_t skip = (size_t)(-(uintptr_t)c->at & (align - 1)), room = (size_t)(c->end - c->at);
  if (skip > room || size > room - skip) return NULL;
  char *p = c->at + skip;
  size_t gap = room - skip - size;
  c->at = p + size + (gap < arena_gap ? gap : arena_gap);
  UNPOISON(p, size);
  arena->used += size;
  return memset(p, 0, size);
}

static void *try_alloc(tc_arena *arena, size_t size, size_t align) {
  void *p = bump(arena, arena->chunks, size, align);
  if (p != NULL) return p;
  if (size > SIZE_MAX - align - arena_gap) return NULL;
  size_t want = size + align + arena_gap; // suffices wherever the chunk lies
  chunk *c;
  if (want > arena->next_chunk / 2 && arena->chunks != NULL) {
    if ((c = take_chunk(arena, want)) == NULL) return NULL;
    c->next = arena->chunks->next;
    arena->chunks->next = c;
  } else {
    if ((c = take_chunk(arena, want > arena->next_chunk ? want : arena->next_chunk)) == NULL) return NULL;
    if (arena->next_chunk < CHUNK_MOST) arena->next_chunk *= 2;
    c->next = arena->chunks;
    arena->chunks = c;
  }
  return bump(arena, c, size, align);
}

void *tc_arena_alloc_aligned(tc_arena *arena, size_t size, size_t align) {
  void *p = align <= ARENA_ALIGN_MOST ? try_alloc(arena, size, align < ARENA_ALIGN ? ARENA_ALIGN : align) : NULL;
  if (p == NULL) unwind(arena, size);
  return p;
}

void *tc_arena_try_alloc(tc_arena *arena, size_t size) { return try_alloc(arena, size, ARENA_ALIGN); }

void *tc_arena_alloc(tc_arena *arena, size_t size) { return tc_arena_alloc_aligned(arena, size, ARENA_ALIGN); }

void *tc_arena_array(tc_arena *arena, size_t size, size_t count) {
  size_t bytes;
  if (!tc_mul_size(size, count, &bytes)) unwind(arena, SIZE_MAX);
  return tc_arena_alloc(arena, bytes);
}

void *tc_arena_copy(tc_arena *arena, const void *data, size_t size) {
  void *p = tc_arena_alloc(arena, size);
  if (size > 0) memcpy(p, data, size);
  return p;
}

size_t tc_arena_used(const tc_arena *arena) { return arena->used; }
const tc_allocator *tc_arena_allocator(const tc_arena *arena) { return arena->allocator; }

void tc_arena_on_destroy(tc_arena *arena, void (*clean)(void *arg), void *arg) {
  cleanup *c = try_alloc(arena, sizeof *c, ARENA_ALIGN);
  if (c == NULL) {
    clean(arg); // nobody else would: the caller does not come back from here
    unwind(arena, sizeof *c);
  }
  *c = (cleanup){arena->cleanups, clean, arg};
  arena->cleanups = c;
}

void tc_arena_catch_begin(tc_arena *arena, tc_arena_catch *c) {
  c->outer = arena->guard;
  arena->guard = c;
}

void tc_arena_catch_end(tc_arena *arena, tc_arena_catch *c) { arena->guard = c->outer; }

tc_status tc_arena_refusal(const tc_arena *arena) {
  return tc_error(TC_STATUS_OUT_OF_MEMORY, "out of memory: %zu bytes were refused while %zu are in use", arena->refused,
                  arena->used);
}

tc_status tc_arena_guard(tc_arena *arena, tc_status (*fn)(void *arg), void *arg) {
  tc_arena_catch c;
  tc_status status;
  if (TC_ARENA_CATCH(arena, c)) status = fn(arg);
  else status = tc_arena_refusal(arena);
  tc_arena_catch_end(arena, &c);
  return status;
}
