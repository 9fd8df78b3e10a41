// Allocation: every byte that the core takes comes through a tc_allocator, so that embedders can count or bound it and
// tests can make the n-th allocation fail.
//
// An arena holds everything that one compilation makes. Nothing in it is freed singly. Allocation from an arena never
// returns NULL: when memory is short it unwinds (longjmp) to the innermost tc_arena_guard, which returns OUT_OF_MEMORY.
// Between a guard and the code it runs there may therefore be no frame that owns anything outside the arena, and no
// frame of a plugin: host functions that plugins call open a guard of their own.
#ifndef TC_CORE_BASE_ALLOC_H_
#define TC_CORE_BASE_ALLOC_H_

#include <setjmp.h>

#include "core/base/status.h"

// Thread-safe. `alloc` returns memory aligned to 64 bytes or NULL; size 0 gives a unique pointer.
typedef struct tc_allocator {
  void *self;
  void *(*alloc)(void *self, size_t size);
  void (*free)(void *self, void *ptr); // NULL is ignored
} tc_allocator;

const tc_allocator *tc_system_allocator(void);

// NULL when memory is short. Zeroed.
void *tc_alloc(const tc_allocator *allocator, size_t size);
void tc_free(const tc_allocator *allocator, void *ptr);
// size * count with an overflow check; false on overflow.
bool tc_mul_size(size_t a, size_t b, size_t *out);

// An allocator for tests: passes to `base`, counts live blocks and bytes, and fails the `fail_at`-th allocation
// (1-based; 0: never) and, if `fail_after`, all later ones. Thread-safe.
typedef struct tc_fault_allocator {
  tc_allocator iface;
  const tc_allocator *base;
  int64_t fail_at;
  int32_t fail_after;
  int64_t count;      // allocations so far
  int64_t live;       // blocks not freed
  int64_t live_bytes; // their size
  int64_t peak_bytes;
} tc_fault_allocator;
void tc_fault_allocator_init(tc_fault_allocator *f, const tc_allocator *base);

typedef struct tc_arena tc_arena;
// Not thread-safe. The allocator must outlive the arena.
TC_NODISCARD tc_status tc_arena_create(const tc_allocator *allocator, tc_arena **out_arena);
void tc_arena_destroy(tc_arena *arena);
// Zeroed, aligned to 16 (or `align`, a power of two ≤ 4096). Unwinds when memory is short; needs an open guard.
void *tc_arena_alloc(tc_arena *arena, size_t size);
void *tc_arena_alloc_aligned(tc_arena *arena, size_t size, size_t align);
// The same, but NULL when memory is short; needs no guard.
void *tc_arena_try_alloc(tc_arena *arena, size_t size);
void *tc_arena_copy(tc_arena *arena, const void *data, size_t size);
size_t tc_arena_used(const tc_arena *arena);
const tc_allocator *tc_arena_allocator(const tc_arena *arena);
// Runs `clean(arg)` when the arena is destroyed, in reverse order: for the few things outside memory that a
// compilation owns.
void tc_arena_on_destroy(tc_arena *arena, void (*clean)(void *arg), void *arg);
// Runs fn(arg) with a guard open; guards nest.
TC_NODISCARD tc_status tc_arena_guard(tc_arena *arena, tc_status (*fn)(void *arg), void *arg);
// The same without a function, for code that is generated around others (the host functions that plugins call):
//   tc_arena_catch c;
//   if (TC_ARENA_CATCH(arena, c)) { what may unwind }   // a plain block: no return, no jump out of it
//   else status = tc_arena_refusal(arena);
//   tc_arena_catch_end(arena, &c);
typedef struct tc_arena_catch {
  struct tc_arena_catch *outer;
  jmp_buf env;
} tc_arena_catch;
#define TC_ARENA_CATCH(arena, c) (tc_arena_catch_begin((arena), &(c)), setjmp((c).env) == 0)
void tc_arena_catch_begin(tc_arena *arena, tc_arena_catch *c);
void tc_arena_catch_end(tc_arena *arena, tc_arena_catch *c);
TC_NODISCARD tc_status tc_arena_refusal(const tc_arena *arena); // the error of the last unwinding

#define TC_NEW(arena, type) ((type *)tc_arena_alloc((arena), sizeof(type)))
#define TC_NEW_ARRAY(arena, type, n) ((type *)tc_arena_array((arena), sizeof(type), (size_t)(n)))
void *tc_arena_array(tc_arena *arena, size_t size, size_t count); // overflow unwinds as out of memory

#endif
