// Growing arrays and hash maps in an arena.
//
//   TC_VEC(int32_t) v = {0};  tc_vec_push(arena, &v, 7);  v.data[i], v.count
//
// A map goes from a byte-string key (or an int64, or a pointer) to a void pointer or an int64. Iteration is in
// insertion order, so that whatever is printed or numbered from a map is deterministic.
#ifndef TC_CORE_BASE_VEC_H_
#define TC_CORE_BASE_VEC_H_

#include "core/base/alloc.h"

#define TC_VEC(type)         \
  struct {                   \
    type *data;              \
    int32_t count, capacity; \
  }
#define tc_vec_push(arena, v, value)                                                            \
  ((v)->data = tc_vec_grow_((arena), (v)->data, sizeof *(v)->data, (v)->count, &(v)->capacity), \
   (v)->data[(v)->count++] = (value))
#define tc_vec_last(v) ((v)->data[(v)->count - 1])
#define tc_vec_reserve(arena, v, n) \
  ((v)->data = tc_vec_reserve_((arena), (v)->data, sizeof *(v)->data, (v)->count, &(v)->capacity, (n)))
void *tc_vec_grow_(tc_arena *arena, void *data, size_t size, int32_t count, int32_t *capacity);
void *tc_vec_reserve_(tc_arena *arena, void *data, size_t size, int32_t count, int32_t *capacity, int32_t want);

typedef struct tc_map tc_map;
typedef struct tc_map_entry {
  tc_sv key; // a copy in the arena; integer and pointer keys are their 8 bytes
  union {
    void *ptr;
    int64_t num;
  } value;
} tc_map_entry;

tc_map *tc_map_create(tc_arena *arena);
int32_t tc_map_count(const tc_map *map);
tc_map_entry *tc_map_at(const tc_map *map, int32_t i); // i-th inserted
// NULL if absent.
tc_map_entry *tc_map_find(const tc_map *map, tc_sv key);
tc_map_entry *tc_map_find_int(const tc_map *map, int64_t key);
tc_map_entry *tc_map_find_ptr(const tc_map *map, const void *key);
// The entry of the key, made (value zero) if absent; *out_new (may be NULL) says so.
tc_map_entry *tc_map_put(tc_map *map, tc_sv key, bool *out_new);
tc_map_entry *tc_map_put_int(tc_map *map, int64_t key, bool *out_new);
tc_map_entry *tc_map_put_ptr(tc_map *map, const void *key, bool *out_new);

#endif
