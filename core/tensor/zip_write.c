// Zip archives, writing: stored members in one buffer that the caller fills.
//
// Source: PKWARE APPNOTE 6.3.9. Payloads start at multiples of 64, by a padding field in the local header as PyTorch's
// writer has it, so that readers can use them in place. The date is fixed: equal contents give equal files.
#include <string.h>

#include "core/tensor/files.h"
#include "core/tensor/zip_format.h"

static bool is_big(uint64_t v) { return v >= UINT32_MAX; }

// Bytes between a local header's fixed part with name and ZIP64 field, and the payload: a padding field, or nothing.
static uint64_t padding(uint64_t at) {
  const uint64_t gap = (PAYLOAD_ALIGN - at % PAYLOAD_ALIGN) % PAYLOAD_ALIGN;
  return gap == 0 || gap >= 4 ? gap : gap + PAYLOAD_ALIGN; // the field itself takes four
}
static uint64_t local_head(const tc_zip_item *item) {
  return LOCAL_SIZE + item->name.size + (is_big(item->size) ? 20u : 0u);
}
// Central records always carry all three ZIP64 numbers when one is big: 28 bytes.
static uint64_t central_extra(const tc_zip_item *item, uint64_t local) {
  return is_big(item->size) || is_big(local) ? 28u : 0u;
}

typedef struct layout {
  uint64_t directory, directory_size, total;
  bool zip64;
} layout;

// Walks the archive once; with `items_out` it also sets their offsets.
static bool lay_out(const tc_zip_item *items, int32_t count, tc_zip_item *items_out, layout *out) {
  uint64_t at = 0, central = 0;
  for (int32_t i = 0; i < count; i++) {
    const uint64_t local = at, head = local_head(&items[i]), payload = at + head + padding(at + head);
    if (items[i].size > INT64_MAX - payload) return false;
    if (items_out) items_out[i].offset = payload;
    central += CENTRAL_SIZE + items[i].name.size + central_extra(&items[i], local);
    at = payload + items[i].size;
  }
  const bool zip64 = is_big(at) || is_big(central) || count >= 0xffff;
  *out = (layout){at, central, at + central + (zip64 ? END64_SIZE + LOCATOR_SIZE : 0) + END_SIZE, zip64};
  return out->total <= INT64_MAX;
}

tc_status tc_zip_layout(tc_zip_item *items, int32_t count, size_t *out_total) {
  layout l;
  *out_total = 0;
  for (int32_t i = 0; i < count; i++) TC_TRY(tc_zip_check_name(items[i].name));
  if (count > MAX_ENTRIES || !lay_out(items, count, items, &l))
    return tc_error(TC_STATUS_OUT_OF_RANGE, "zip: the archive would be too large");
  *out_total = (size_t)l.total;
  return TC_OK;
}

static uint8_t *put(uint8_t *p, uint64_t v, int bytes) {
  for (int i = 0; i < bytes; i++) *p++ = (uint8_t)(v >> 8 * i);
  return p;
}

// The part that local and central headers share, from "version needed" to the lengths. The date is 1980-01-01: equal
// contents give equal files.
static uint8_t *put_common(uint8_t *p, const tc_zip_item *item, uint32_t crc, bool big, uint64_t extra) {
  p = put(p, big ? 45 : 20, 2);
  p = put(p, FLAG_UTF8, 2);
  p = put(p, 0, 2); // stored
  p = put(p, 0x00210000u, 4);
  p = put(p, crc, 4);
  p = put(p, big ? UINT32_MAX : item->size, 4);
  p = put(p, big ? UINT32_MAX : item->size, 4);
  p = put(p, item->name.size, 2);
  return put(p, extra, 2);
}

static uint8_t *put_name(uint8_t *p, tc_sv name) {
  memcpy(p, name.data, name.size);
  return p + name.size;
}

void tc_zip_finish(uint8_t *buffer, const tc_zip_item *items, int32_t count) {
  layout l;
  if (!lay_out(items, count, NULL, &l)) return; // tc_zip_layout has refused it
  uint8_t *c = buffer + l.directory;
  uint64_t at = 0;
  for (int32_t i = 0; i < count; i++) {
    const tc_zip_item *item = &items[i];
    const uint32_t crc = tc_zip_crc(buffer + item->offset, item->size);
    const uint64_t local = at, pad = item->offset - at - local_head(item), extra = central_extra(item, local);
    const bool big = is_big(item->size);
    uint8_t *p = put(buffer + local, SIG_LOCAL, 4);
    p = put_name(put_common(p, item, crc, big, (big ? 20 : 0) + pad), item->name);
    if (big) p = put(put(put(put(p, ID_ZIP64, 2), 16, 2), item->size, 8), item->size, 8);
    if (pad) memset(put(put(p, ID_PADDING, 2), pad - 4, 2), 'Z', (size_t)pad - 4);

    c = put(put(c, SIG_CENTRAL, 4), 45, 2);
    c = put_common(c, item, crc, extra != 0, extra);
    c = put(put(c, 0, 2), 0, 8); // no comment; first disk, no attributes
    c = put_name(put(c, extra ? UINT32_MAX : local, 4), item->name);
    if (extra) c = put(put(put(put(put(c, ID_ZIP64, 2), 24, 2), item->size, 8), item->size, 8), local, 8);
    at = item->offset + item->size;
  }
  if (l.zip64) {
    const uint64_t end64 = (uint64_t)(c - buffer);
    c = put(put(put(put(c, SIG_END64, 4), END64_SIZE - 12, 8), 45, 2), 45, 2);
    c = put(put(c, 0, 8), (uint64_t)count, 8); // disks, entries here
    c = put(put(put(c, (uint64_t)count, 8), l.directory_size, 8), l.directory, 8);
    c = put(put(put(put(c, SIG_LOCATOR, 4), 0, 4), end64, 8), 1, 4);
  }
  const uint64_t n = l.zip64 ? 0xffff : (uint64_t)count;
  c = put(put(put(put(c, SIG_END, 4), 0, 4), n, 2), n, 2);
  c = put(put(c, l.zip64 ? UINT32_MAX : l.directory_size, 4), l.zip64 ? UINT32_MAX : l.directory, 4);
  put(c, 0, 2);
}
