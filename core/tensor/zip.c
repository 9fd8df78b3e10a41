// Zip archives, reading: by the central directory.
//
// Source: PKWARE APPNOTE 6.3.9: end of central directory §4.3.16, ZIP64 §4.3.14-15 and §4.5.3, headers §4.3.7 and
// §4.3.12. Sizes come from the central directory alone (writers such as PyTorch leave them out of local headers and
// append a descriptor); local headers give only where payloads start, and are checked against the directory's names.
// Everything read is untrusted: each number is compared with what is left of the file before it is used.
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "core/tensor/files.h"
#include "core/tensor/zip_format.h"

static uint16_t u16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }
static uint32_t u32(const uint8_t *p) { return (uint32_t)u16(p) | (uint32_t)u16(p + 2) << 16; }
static uint64_t u64(const uint8_t *p) { return (uint64_t)u32(p) | (uint64_t)u32(p + 4) << 32; }

#define CORRUPT(...) tc_error(TC_STATUS_DATA_LOSS, "zip: " __VA_ARGS__)

typedef struct directory {
  uint64_t offset, size, count;
} directory;

// The end record is the last one whose comment ends exactly where the file does.
static const uint8_t *find_end(const uint8_t *data, size_t size) {
  if (size < END_SIZE) return NULL;
  const size_t last = size - END_SIZE, first = last > 0xffff ? last - 0xffff : 0;
  for (size_t at = last + 1; at-- > first;)
    if (u32(data + at) == SIG_END && at + END_SIZE + u16(data + at + 20) == size) return data + at;
  return NULL;
}

static tc_status find_directory(const uint8_t *data, size_t size, directory *out) {
  const uint8_t *end = find_end(data, size);
  if (!end) return CORRUPT("no end of central directory: not a zip archive, or cut short");
  uint64_t limit = (uint64_t)(end - data); // the directory ends at or before this
  uint64_t disk = u16(end + 4), first_disk = u16(end + 6), here = u16(end + 8);
  *out = (directory){.offset = u32(end + 16), .size = u32(end + 12), .count = u16(end + 10)};
  if (limit >= LOCATOR_SIZE && u32(end - LOCATOR_SIZE) == SIG_LOCATOR) {
    const uint8_t *locator = end - LOCATOR_SIZE;
    const uint64_t at = u64(locator + 8);
    limit -= LOCATOR_SIZE;
    if (u32(locator + 4) != 0 || u32(locator + 16) > 1) return CORRUPT("archives in several parts are not supported");
    if (limit < END64_SIZE || at > limit - END64_SIZE || u32(data + at) != SIG_END64)
      return CORRUPT("the ZIP64 end record is missing");
    const uint8_t *end64 = data + at;
    disk = u32(end64 + 16), first_disk = u32(end64 + 20), here = u64(end64 + 24);
    *out = (directory){.offset = u64(end64 + 48), .size = u64(end64 + 40), .count = u64(end64 + 32)};
    limit = at;
  }
  if (disk != 0 || first_disk != 0 || here != out->count) return CORRUPT("archives in several parts are not supported");
  if (out->offset > limit || out->size > limit - out->offset)
    return CORRUPT("the central directory lies outside the file");
  if (out->count > MAX_ENTRIES) return CORRUPT("more than %d entries", (int)MAX_ENTRIES);
  if (out->count > out->size / CENTRAL_SIZE)
    return CORRUPT("%llu entries do not fit a directory of %llu bytes", (unsigned long long)out->count,
                   (unsigned long long)out->size);
  return TC_OK;
}

// Names are keys of ours and never paths on disk; they are still held to what a path inside an archive may be.
tc_status tc_zip_check_name(tc_sv name) {
  const tc_sv shown = tc_sv_sub(name, 0, 80);
  if (name.size == 0 || name.size > MAX_NAME) return CORRUPT("an entry's name has %zu bytes", name.size);
  if (memchr(name.data, 0, name.size)) return CORRUPT("an entry's name holds a NUL byte");
  if (name.data[0] == '/' || memchr(name.data, '\\', name.size))
    return CORRUPT("'" TC_SV_FMT "' is an absolute name or holds a backslash", TC_SV_ARG(shown));
  for (tc_sv rest = name, part; rest.size;) {
    rest = tc_sv_cut(rest, '/', &part);
    if (tc_sv_is(part, "..")) return CORRUPT("'" TC_SV_FMT "' leaves the archive", TC_SV_ARG(shown));
  }
  return TC_OK;
}

// Replaces the fields that say "see ZIP64" from the extra field, where they stand in this order.
static tc_status read_zip64(const uint8_t *extra, size_t size, tc_zip_entry *e, uint64_t *local) {
  uint64_t *fields[3] = {&e->size, &e->stored_size, local};
  bool wanted = false;
  for (int i = 0; i < 3; i++) wanted |= *fields[i] == UINT32_MAX;
  if (!wanted) return TC_OK;
  while (size >= 4) {
    const size_t n = u16(extra + 2);
    if (n > size - 4) break;
    if (u16(extra) == ID_ZIP64) {
      const uint8_t *p = extra + 4, *stop = p + n;
      for (int i = 0; i < 3; i++) {
        if (*fields[i] != UINT32_MAX) continue;
        if (stop - p < 8) return CORRUPT("a ZIP64 field is cut short");
        *fields[i] = u64(p);
        p += 8;
      }
      return TC_OK;
    }
    extra += 4 + n, size -= 4 + n;
  }
  return TC_OK; // without the field the numbers mean themselves
}

typedef struct extent {
  uint64_t begin, end; // of local header and payload
} extent;

static int by_begin(const void *a, const void *b) {
  const extent *x = a, *y = b;
  return x->begin < y->begin ? -1 : x->begin > y->begin;
}

// Reads the directory record at *p and the local header that it points to.
static tc_status read_entry(const tc_zip *z, const directory *dir, const uint8_t **p, const uint8_t *stop,
                            tc_zip_entry *e, extent *out_extent) {
  const uint8_t *r = *p;
  if (stop - r < CENTRAL_SIZE || u32(r) != SIG_CENTRAL) return CORRUPT("a record of the central directory is damaged");
  const size_t name = u16(r + 28), extra = u16(r + 30), comment = u16(r + 32);
  if (name + extra + comment > (size_t)(stop - r - CENTRAL_SIZE))
    return CORRUPT("a record of the central directory is cut short");
  *p = r + CENTRAL_SIZE + name + extra + comment;
  *e = (tc_zip_entry){.name = {(const char *)r + CENTRAL_SIZE, name},
                      .stored_size = u32(r + 20),
                      .size = u32(r + 24),
                      .crc = u32(r + 16),
                      .method = u16(r + 10)};
  uint64_t local = u32(r + 42);
  TC_TRY(tc_zip_check_name(e->name));
  TC_TRY(read_zip64(r + CENTRAL_SIZE + name, extra, e, &local));
  const tc_sv shown = tc_sv_sub(e->name, 0, 80);
  if (u16(r + 8) & FLAG_ENCRYPTED) return CORRUPT("'" TC_SV_FMT "' is encrypted", TC_SV_ARG(shown));
  if (e->method == 0 && e->size != e->stored_size)
    return CORRUPT("'" TC_SV_FMT "' is stored but has two sizes", TC_SV_ARG(shown));
  if (local > dir->offset || dir->offset - local < LOCAL_SIZE || u32(z->data + local) != SIG_LOCAL)
    return CORRUPT("'" TC_SV_FMT "' has no local header", TC_SV_ARG(shown));
  const uint8_t *h = z->data + local;
  const uint64_t skip = (uint64_t)LOCAL_SIZE + u16(h + 26) + u16(h + 28), room = dir->offset - local;
  if (skip > room || e->stored_size > room - skip)
    return CORRUPT("'" TC_SV_FMT "' reaches beyond the payloads", TC_SV_ARG(shown));
  if (u16(h + 26) != name || memcmp(h + LOCAL_SIZE, e->name.data, name) != 0)
    return CORRUPT("'" TC_SV_FMT "' has another name in its local header", TC_SV_ARG(shown));
  e->offset = local + skip;
  *out_extent = (extent){local, e->offset + e->stored_size};
  return TC_OK;
}

tc_status tc_zip_open(tc_arena *arena, const uint8_t *data, size_t size, tc_zip *out) {
  *out = (tc_zip){.data = data, .size = size};
  directory dir = {0};
  TC_TRY(find_directory(data, size, &dir));
  out->entries = TC_NEW_ARRAY(arena, tc_zip_entry, dir.count);
  out->by_name = tc_map_create(arena);
  extent *extents = TC_NEW_ARRAY(arena, extent, dir.count);
  const uint8_t *p = data + dir.offset, *stop = p + dir.size;
  for (uint64_t i = 0; i < dir.count; i++) {
    tc_zip_entry *e = &out->entries[i];
    TC_TRY(read_entry(out, &dir, &p, stop, e, &extents[i]));
    bool fresh;
    tc_map_put(out->by_name, e->name, &fresh)->value.num = (int64_t)i;
    if (!fresh) return CORRUPT("two entries are named '" TC_SV_FMT "'", TC_SV_ARG(tc_sv_sub(e->name, 0, 80)));
    out->count++;
  }
  if (p != stop) return CORRUPT("the central directory holds more than its %d entries", (int)out->count);
  if (dir.count) qsort(extents, (size_t)dir.count, sizeof *extents, by_begin);
  for (uint64_t i = 1; i < dir.count; i++)
    if (extents[i].begin < extents[i - 1].end)
      return CORRUPT("two entries overlap at byte %llu", (unsigned long long)extents[i].begin);
  return TC_OK;
}

const tc_zip_entry *tc_zip_find(const tc_zip *z, tc_sv name) {
  const tc_map_entry *found = z->by_name ? tc_map_find(z->by_name, name) : NULL;
  return found ? &z->entries[found->value.num] : NULL;
}

uint32_t tc_zip_crc(const uint8_t *data, uint64_t size) {
  uLong crc = crc32(0, NULL, 0);
  while (size > 0) {
    const uInt n = size > (1u << 30) ? 1u << 30 : (uInt)size;
    crc = crc32(crc, data, n);
    data += n, size -= n;
  }
  return (uint32_t)crc;
}

static tc_status check_crc(const tc_zip_entry *e, const uint8_t *data) {
  const uint32_t crc = tc_zip_crc(data, e->size);
  if (crc == e->crc) return TC_OK;
  return CORRUPT("'" TC_SV_FMT "' is damaged: CRC-32 is %08x, the directory says %08x",
                 TC_SV_ARG(tc_sv_sub(e->name, 0, 80)), (unsigned)crc, (unsigned)e->crc);
}

// What can be said before memory is taken. Deflate's best ratio is 1032:1 (258 bytes from two bits).
static tc_status check_unpacked_size(const tc_zip_entry *e) {
  const tc_sv shown = tc_sv_sub(e->name, 0, 80);
  if (e->method != 0 && e->method != 8)
    return tc_error(TC_STATUS_UNIMPLEMENTED,
                    "zip: '" TC_SV_FMT "' uses compression method %d; stored and deflated are known", TC_SV_ARG(shown),
                    (int)e->method);
  if (e->method == 8 && e->size / 1032 > e->stored_size)
    return CORRUPT("'" TC_SV_FMT "' claims to unpack %llu bytes into %llu", TC_SV_ARG(shown),
                   (unsigned long long)e->stored_size, (unsigned long long)e->size);
  return TC_OK;
}

static void *zlib_alloc(void *self, unsigned count, unsigned size) {
  size_t bytes;
  return tc_mul_size(count, size, &bytes) ? tc_alloc(self, bytes) : NULL;
}
static void zlib_free(void *self, void *ptr) { tc_free(self, ptr); }

static tc_status inflate_all(const tc_allocator *a, const tc_zip *z, const tc_zip_entry *e, uint8_t *out) {
  const tc_sv shown = tc_sv_sub(e->name, 0, 80);
  z_stream s = {.zalloc = zlib_alloc, .zfree = zlib_free, .opaque = (void *)(uintptr_t)a};
  if (inflateInit2(&s, -MAX_WBITS) != Z_OK)
    return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory to unpack '" TC_SV_FMT "'", TC_SV_ARG(shown));
  uint64_t in_left = e->stored_size, out_left = e->size;
  uint8_t spare; // zlib wants room for zero bytes too
  s.next_in = (Bytef *)(uintptr_t)(z->data + e->offset);
  s.next_out = e->size ? out : &spare;
  int rc = Z_OK;
  while (rc == Z_OK) {
    if (s.avail_in == 0 && in_left > 0) s.avail_in = in_left > INT_MAX ? INT_MAX : (uInt)in_left, in_left -= s.avail_in;
    if (s.avail_out == 0 && out_left > 0)
      s.avail_out = out_left > INT_MAX ? INT_MAX : (uInt)out_left, out_left -= s.avail_out;
    rc = inflate(&s, Z_NO_FLUSH); // Z_BUF_ERROR when neither side has anything left
  }
  const bool complete = rc == Z_STREAM_END && in_left + s.avail_in == 0 && out_left + s.avail_out == 0;
  inflateEnd(&s);
  if (rc == Z_MEM_ERROR)
    return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory to unpack '" TC_SV_FMT "'", TC_SV_ARG(shown));
  if (!complete) return CORRUPT("'" TC_SV_FMT "' does not unpack to its stated size", TC_SV_ARG(shown));
  return TC_OK;
}

tc_status tc_zip_read_into(const tc_allocator *a, const tc_zip *z, const tc_zip_entry *e, void *out) {
  TC_TRY(check_unpacked_size(e));
  if (e->method == 8) TC_TRY(inflate_all(a, z, e, out));
  else if (e->size) memcpy(out, z->data + e->offset, (size_t)e->size);
  return check_crc(e, out);
}

tc_status tc_zip_read(tc_arena *arena, const tc_zip *z, const tc_zip_entry *e, uint64_t limit, tc_sv *out) {
  *out = (tc_sv){0};
  TC_TRY(check_unpacked_size(e));
  if (e->method == 0) {
    TC_TRY(check_crc(e, z->data + e->offset));
    *out = (tc_sv){(const char *)z->data + e->offset, (size_t)e->size};
    return TC_OK;
  }
  if (e->size > limit)
    return tc_error(TC_STATUS_RESOURCE_EXHAUSTED,
                    "zip: '" TC_SV_FMT "' unpacks to %llu bytes, more than the limit of %llu",
                    TC_SV_ARG(tc_sv_sub(e->name, 0, 80)), (unsigned long long)e->size, (unsigned long long)limit);
  uint8_t *data = tc_arena_alloc(arena, (size_t)e->size);
  TC_TRY(tc_zip_read_into(tc_arena_allocator(arena), z, e, data));
  *out = (tc_sv){(const char *)data, (size_t)e->size};
  return TC_OK;
}
