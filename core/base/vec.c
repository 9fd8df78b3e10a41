// Growing arrays, and a hash map that iterates in insertion order.
//
// The map: entries lie in segments of 8, 8, 16, 32, … so that a pointer to an entry stays valid; an open-addressing
// table (linear probing, at most 3/4 full) holds the entry's number and 32 bits of its hash. Nothing is ever removed.
#include "core/base/vec.h"

#include <string.h>

#include "core/base/str.h"

void *tc_vec_reserve_(tc_arena *arena, void *data, size_t size, int32_t count, int32_t *capacity, int32_t want) {
  if (want <= *capacity) return data;
  void *larger = tc_arena_array(arena, size, (size_t)want);
  if (count > 0) memcpy(larger, data, size * (size_t)count);
  *capacity = want;
  return larger;
}

void *tc_vec_grow_(tc_arena *arena, void *data, size_t size, int32_t count, int32_t *capacity) {
  if (count < *capacity) return data;
  if (count == INT32_MAX) return tc_arena_array(arena, SIZE_MAX, 2); // unwinds
  int32_t want = count < 4 ? 8 : count > INT32_MAX / 2 ? INT32_MAX : count * 2;
  return tc_vec_reserve_(arena, data, size, count, capacity, want);
}

enum { SEGMENT_FIRST_BITS = 3, SEGMENTS = 29 };

typedef struct slot {
  uint32_t hash;
  int32_t number; // of the entry + 1; 0: free
} slot;

struct tc_map {
  tc_arena *arena;
  tc_map_entry *segments[SEGMENTS];
  int32_t count;
  uint32_t n_slots; // a power of two, or 0
  slot *slots;
};

tc_map *tc_map_create(tc_arena *arena) {
  tc_map *map = TC_NEW(arena, tc_map);
  map->arena = arena;
  return map;
}

int32_t tc_map_count(const tc_map *map) { return map->count; }

// Entries 0..7 are in segment 0, 8..15 in 1, 16..31 in 2, …
static int32_t segment_of(int32_t i, int32_t *out_first) {
  if (i < 1 << SEGMENT_FIRST_BITS) return *out_first = 0;
  int32_t top = 31 - __builtin_clz((uint32_t)i);
  *out_first = 1 << top;
  return top - SEGMENT_FIRST_BITS + 1;
}

tc_map_entry *tc_map_at(const tc_map *map, int32_t i) {
  int32_t first, s = segment_of(i, &first);
  return &map->segments[s][i - first];
}

// The slot where the key is or would be.
static slot *probe(const tc_map *map, tc_sv key, uint32_t hash) {
  for (uint32_t mask = map->n_slots - 1, i = hash & mask;; i = (i + 1) & mask) {
    slot *s = &map->slots[i];
    if (s->number == 0 || (s->hash == hash && tc_sv_eq(tc_map_at(map, s->number - 1)->key, key))) return s;
  }
}

static void grow_slots(tc_map *map) {
  if (map->n_slots > UINT32_MAX / 4) (void)tc_arena_array(map->arena, SIZE_MAX, 2); // unwinds
  uint32_t old_n = map->n_slots, n = old_n ? old_n * 2 : 16;
  slot *old = map->slots, *slots = TC_NEW_ARRAY(map->arena, slot, n);
  for (uint32_t i = 0; i < old_n; i++) {
    if (old[i].number == 0) continue;
    uint32_t at = old[i].hash & (n - 1);
    while (slots[at].number != 0) at = (at + 1) & (n - 1);
    slots[at] = old[i];
  }
  map->slots = slots;
  map->n_slots = n;
}

tc_map_entry *tc_map_find(const tc_map *map, tc_sv key) {
  if (map->count == 0) return NULL;
  slot *s = probe(map, key, (uint32_t)tc_hash(key.data, key.size));
  return s->number ? tc_map_at(map, s->number - 1) : NULL;
}

tc_map_entry *tc_map_put(tc_map *map, tc_sv key, bool *out_new) {
  if ((uint64_t)map->count + 1 > (uint64_t)map->n_slots * 3 / 4) grow_slots(map);
  uint32_t hash = (uint32_t)tc_hash(key.data, key.size);
  slot *s = probe(map, key, hash);
  if (out_new) *out_new = s->number == 0;
  if (s->number != 0) return tc_map_at(map, s->number - 1);
  int32_t first, segment = segment_of(map->count, &first);
  if (map->segments[segment] == NULL)
    map->segments[segment] = TC_NEW_ARRAY(map->arena, tc_map_entry, first ? first : 1 << SEGMENT_FIRST_BITS);
  tc_map_entry *e = &map->segments[segment][map->count - first];
  e->key = tc_sv_copy(map->arena, key);
  *s = (slot){hash, ++map->count}; // last: an unwinding above leaves the map as it was
  return e;
}

static tc_sv key_of_int(const int64_t *key) { return (tc_sv){(const char *)key, sizeof *key}; }

tc_map_entry *tc_map_find_int(const tc_map *map, int64_t key) { return tc_map_find(map, key_of_int(&key)); }
tc_map_entry *tc_map_put_int(tc_map *map, int64_t key, bool *out_new) {
  return tc_map_put(map, key_of_int(&key), out_new);
}
tc_map_entry *tc_map_find_ptr(const tc_map *map, const void *key) { return tc_map_find_int(map, (intptr_t)key); }
tc_map_entry *tc_map_put_ptr(tc_map *map, const void *key, bool *out_new) {
  return tc_map_put_int(map, (intptr_t)key, out_new);
}
