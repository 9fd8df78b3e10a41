// The container of executable blobs: entries by kind and name, each with its hash. blob.h has the layout; plans and
// tensors in it are in blob_plan.c.
//
// Nothing that is read is trusted: positions are checked against the size before they are used, and the table against
// its hash.
#include "core/plan/blob.h"

#include <string.h>

#include "core/plan/blob_internal.h"

static const char magic[8] = "tc blob\n";

typedef struct header {
  char magic[8];
  uint32_t format, count;
  uint64_t size, head, hash, zero[3];
} header;
typedef struct row {
  uint32_t kind, zero;
  uint64_t name_at, name_size, at, size, hash, zeros[2];
} row;
_Static_assert(sizeof(header) == TC_BLOB_ALIGN && sizeof(row) == 64, "the layout has no holes");

static uint64_t aligned(uint64_t at) { return (at + TC_BLOB_ALIGN - 1) / TC_BLOB_ALIGN * TC_BLOB_ALIGN; }

// Entries are found by kind and name: one key of both.
static tc_map_entry *lookup(const tc_map *map, tc_arena *arena, int32_t kind, tc_sv name, bool *out_fresh) {
  char few[128], *key = name.size < sizeof few ? few : tc_arena_alloc(arena, name.size + 1);
  key[0] = (char)kind;
  if (name.size) memcpy(key + 1, name.data, name.size);
  tc_sv whole = {key, name.size + 1};
  return out_fresh ? tc_map_put((tc_map *)(uintptr_t)map, whole, out_fresh) : tc_map_find(map, whole);
}

// ---- writing ----
tc_blob_writer *tc_blob_begin(tc_arena *arena) {
  tc_blob_writer *w = TC_NEW(arena, tc_blob_writer);
  *w = (tc_blob_writer){.arena = arena, .by_name = tc_map_create(arena), .spans = tc_map_create(arena)};
  return w;
}

bool blob_has(const tc_blob_writer *w, int32_t kind, tc_sv name) {
  return lookup(w->by_name, w->arena, kind, name, NULL) != NULL;
}

tc_status tc_blob_add(tc_blob_writer *w, int32_t kind, tc_sv name, tc_sv contents) {
  bool fresh;
  lookup(w->by_name, w->arena, kind, name, &fresh);
  if (!fresh) return tc_error(TC_STATUS_INVALID_ARGUMENT, "'" TC_SV_FMT "' is in the blob twice", TC_SV_ARG(name));
  tc_blob_entry e = {.kind = kind, .name = tc_sv_copy(w->arena, name), .contents = contents};
  e.hash = tc_hash(contents.data, contents.size);
  tc_vec_push(w->arena, &w->entries, e);
  return TC_OK;
}

static uint64_t head_size(const tc_blob_writer *w) {
  uint64_t size = sizeof(header) + (uint64_t)w->entries.count * sizeof(row);
  for (int32_t i = 0; i < w->entries.count; i++) size += w->entries.data[i].name.size;
  return size;
}

uint64_t tc_blob_size(tc_blob_writer *w) {
  uint64_t at = head_size(w);
  for (int32_t i = 0; i < w->entries.count; i++) at = aligned(at) + w->entries.data[i].contents.size;
  return at;
}

// Header, table and names.
static char *make_head(tc_blob_writer *w, uint64_t size) {
  char *head = tc_arena_alloc(w->arena, size);
  header *h = (header *)(void *)head;
  row *rows = (row *)(void *)(head + sizeof *h);
  uint64_t name_at = sizeof *h + (uint64_t)w->entries.count * sizeof *rows, at = size;
  for (int32_t i = 0; i < w->entries.count; i++) {
    const tc_blob_entry *e = &w->entries.data[i];
    at = aligned(at);
    rows[i] = (row){.kind = (uint32_t)e->kind,
                    .name_at = name_at,
                    .name_size = e->name.size,
                    .at = at,
                    .size = e->contents.size,
                    .hash = e->hash};
    if (e->name.size) memcpy(head + name_at, e->name.data, e->name.size);
    name_at += e->name.size, at += e->contents.size;
  }
  *h = (header){.format = TC_BLOB_FORMAT, .count = (uint32_t)w->entries.count, .size = at, .head = size};
  memcpy(h->magic, magic, sizeof magic);
  h->hash = tc_hash(head + sizeof *h, size - sizeof *h);
  return head;
}

uint64_t tc_blob_mark_to_be(tc_blob_writer *w) { return ((header *)(void *)make_head(w, head_size(w)))->hash; }

tc_status tc_blob_write(tc_blob_writer *w, tc_blob_put put, void *self) {
  static const char zeros[TC_BLOB_ALIGN] = {0};
  uint64_t at = head_size(w);
  TC_TRY(put(self, make_head(w, at), at));
  for (int32_t i = 0; i < w->entries.count; i++) {
    tc_sv c = w->entries.data[i].contents;
    if (aligned(at) != at) TC_TRY(put(self, zeros, aligned(at) - at));
    if (c.size) TC_TRY(put(self, c.data, c.size));
    at = aligned(at) + c.size;
  }
  return TC_OK;
}

tc_sv tc_blob_bytes(tc_blob_writer *w) {
  uint64_t size = tc_blob_size(w), at = head_size(w);
  char *all = tc_arena_alloc_aligned(w->arena, size, TC_BLOB_ALIGN);
  memcpy(all, make_head(w, at), at);
  for (int32_t i = 0; i < w->entries.count; i++) {
    tc_sv c = w->entries.data[i].contents;
    if (c.size) memcpy(all + aligned(at), c.data, c.size);
    at = aligned(at) + c.size;
  }
  return (tc_sv){all, size};
}

// ---- reading ----
struct tc_blob {
  tc_arena *arena;
  uint64_t mark;
  int32_t count;
  tc_blob_entry *entries;
  tc_map *by_name;
};

static tc_status damaged(const char *what) { return tc_error(TC_STATUS_DATA_LOSS, "the blob is damaged: %s", what); }

static bool lies_in(uint64_t at, uint64_t size, uint64_t lo, uint64_t hi) {
  return at >= lo && at <= hi && size <= hi - at;
}

static tc_status read_row(tc_blob *b, tc_sv bytes, const header *h, int32_t i) {
  row r;
  bool fresh;
  memcpy(&r, bytes.data + sizeof *h + (size_t)i * sizeof r, sizeof r);
  uint64_t names = sizeof *h + (uint64_t)h->count * sizeof r;
  if (r.kind >= TC_BLOB_KINDS || !lies_in(r.name_at, r.name_size, names, h->head))
    return damaged("an entry without a name");
  if (!lies_in(r.at, r.size, h->head, h->size) || r.at % TC_BLOB_ALIGN) return damaged("an entry lies outside of it");
  tc_blob_entry *e = &b->entries[i];
  *e = (tc_blob_entry){.kind = (int32_t)r.kind,
                       .name = {bytes.data + r.name_at, r.name_size},
                       .contents = {bytes.data + r.at, r.size},
                       .hash = r.hash};
  lookup(b->by_name, b->arena, e->kind, e->name, &fresh)->value.ptr = e;
  return fresh ? TC_OK : damaged("two entries have one name");
}

tc_status tc_blob_open(tc_arena *arena, tc_sv bytes, tc_blob **out) {
  header h;
  if (bytes.size < sizeof h) return tc_error(TC_STATUS_INVALID_ARGUMENT, "this is no executable blob: it is too short");
  memcpy(&h, bytes.data, sizeof h);
  if (memcmp(h.magic, magic, sizeof magic) != 0)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "this is no executable blob");
  if (h.format != TC_BLOB_FORMAT)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "the blob has format %u; this program reads format %d", h.format,
                    TC_BLOB_FORMAT);
  if (h.size != bytes.size) return damaged("it is not as long as it says");
  if (h.head < sizeof h || h.head > h.size || h.count > (h.head - sizeof h) / sizeof(row))
    return damaged("its table lies outside of it");
  if (h.hash != tc_hash(bytes.data + sizeof h, h.head - sizeof h)) return damaged("its table has another hash");
  tc_blob *b = TC_NEW(arena, tc_blob);
  *b = (tc_blob){.arena = arena, .mark = h.hash, .count = (int32_t)h.count, .by_name = tc_map_create(arena)};
  b->entries = TC_NEW_ARRAY(arena, tc_blob_entry, h.count);
  for (int32_t i = 0; i < b->count; i++) TC_TRY(read_row(b, bytes, &h, i));
  *out = b;
  return TC_OK;
}

uint64_t tc_blob_mark(const tc_blob *b) { return b->mark; }
int32_t tc_blob_count(const tc_blob *b) { return b->count; }
const tc_blob_entry *tc_blob_at(const tc_blob *b, int32_t i) { return &b->entries[i]; }

const tc_blob_entry *tc_blob_find(const tc_blob *b, int32_t kind, tc_sv name) {
  const tc_map_entry *e = lookup(b->by_name, b->arena, kind, name, NULL);
  return e ? e->value.ptr : NULL;
}

tc_status tc_blob_get(const tc_blob *b, int32_t kind, tc_sv name, tc_sv *out) {
  const tc_blob_entry *e = tc_blob_find(b, kind, name);
  if (!e) return tc_error(TC_STATUS_NOT_FOUND, "the blob has no '" TC_SV_FMT "'", TC_SV_ARG(name));
  if (tc_hash(e->contents.data, e->contents.size) != e->hash)
    return tc_error(TC_STATUS_DATA_LOSS, "the blob is damaged: '" TC_SV_FMT "' has another hash", TC_SV_ARG(name));
  *out = e->contents;
  return TC_OK;
}
