// A device's memory in the host's memory (tc/hostmem.h).
#include "tc/hostmem.h"

#include <string.h>

void tc_answer_struct(const void *mine, uint64_t size, void *out) {
  uint64_t room;
  memcpy(&room, out, sizeof room);
  if (room < size) size = room;
  if (size > sizeof room) memcpy((char *)out + sizeof room, (const char *)mine + sizeof room, size - sizeof room);
}

// What is known of any plugin's device.
typedef struct head {
  const tc_host *host;
} head;
static const tc_host *host_of(const tc_device_ *d) { return ((const head *)(const void *)d)->host; }

int32_t tc_hostmem_alloc(tc_device_ *d, uint64_t size, tc_handle *out) {
  static const char text[] = "the host has no memory left";
  const tc_host *h = host_of(d);
  void *p = h->alloc(h->self, size + !size);
  *out = (tc_handle)(uintptr_t)p;
  if (p) return TC_STATUS_OK;
  h->diag(h->self, TC_STATUS_OUT_OF_MEMORY, (tc_sv){text, sizeof text - 1});
  return TC_STATUS_OUT_OF_MEMORY;
}

void tc_hostmem_free(tc_device_ *d, tc_handle memory) {
  const tc_host *h = host_of(d);
  h->free(h->self, tc_hostmem_at(memory, 0));
}

int32_t tc_hostmem_stream_create(tc_device_ *d, tc_handle *out) {
  (void)d;
  *out = 1;
  return TC_STATUS_OK;
}
void tc_hostmem_stream_destroy(tc_device_ *d, tc_handle stream) { (void)d, (void)stream; }
int32_t tc_hostmem_synchronize(tc_device_ *d, tc_handle stream) { return (void)d, (void)stream, TC_STATUS_OK; }

static int32_t move(void *to, const void *from, uint64_t size) {
  if (size) memmove(to, from, size);
  return TC_STATUS_OK;
}

int32_t tc_hostmem_copy_in(tc_device_ *d, tc_handle stream, tc_handle dst, int64_t dst_offset, const void *src,
                           uint64_t size) {
  (void)d, (void)stream;
  return move(tc_hostmem_at(dst, dst_offset), src, size);
}

int32_t tc_hostmem_copy_out(tc_device_ *d, tc_handle stream, void *dst, tc_handle src, int64_t src_offset,
                            uint64_t size) {
  (void)d, (void)stream;
  return move(dst, tc_hostmem_at(src, src_offset), size);
}

int32_t tc_hostmem_copy(tc_device_ *d, tc_handle stream, tc_handle dst, int64_t dst_offset, tc_handle src,
                        int64_t src_offset, uint64_t size) {
  (void)d, (void)stream;
  return move(tc_hostmem_at(dst, dst_offset), tc_hostmem_at(src, src_offset), size);
}

int32_t tc_hostmem_fill(tc_device_ *d, tc_handle stream, tc_handle dst, int64_t offset, uint8_t value, uint64_t size) {
  (void)d, (void)stream;
  if (size) memset(tc_hostmem_at(dst, offset), value, size);
  return TC_STATUS_OK;
}
