// Slots of a device table for devices whose memory is the host's and that do everything at once: handles are addresses
// (host_memory = 1), a stream is a number, and what was asked for is done when the function returns. A plugin puts them
// into its table and writes the rest. And what every device needs: answering into a struct of the asker's size.
//
// The plugin's struct tc_device_ must begin with `const tc_host *host`. All functions may be called from any thread.
// These are static helpers (libtc_sdk.a), no part of the interface.
#ifndef TC_HOSTMEM_H_
#define TC_HOSTMEM_H_

#include "tc/plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

// Copies as much of `mine`, a struct of `size` bytes that begins with its struct_size, as *out says that it has room
// for; out->struct_size is kept.
void tc_answer_struct(const void *mine, uint64_t size, void *out);

int32_t tc_hostmem_alloc(tc_device_ *d, uint64_t size, tc_handle *out); // zeroed
void tc_hostmem_free(tc_device_ *d, tc_handle memory);
int32_t tc_hostmem_stream_create(tc_device_ *d, tc_handle *out);
void tc_hostmem_stream_destroy(tc_device_ *d, tc_handle stream);
int32_t tc_hostmem_synchronize(tc_device_ *d, tc_handle stream);
int32_t tc_hostmem_copy_in(tc_device_ *d, tc_handle stream, tc_handle dst, int64_t dst_offset, const void *src,
                           uint64_t size);
int32_t tc_hostmem_copy_out(tc_device_ *d, tc_handle stream, void *dst, tc_handle src, int64_t src_offset,
                            uint64_t size);
int32_t tc_hostmem_copy(tc_device_ *d, tc_handle stream, tc_handle dst, int64_t dst_offset, tc_handle src,
                        int64_t src_offset, uint64_t size);
int32_t tc_hostmem_fill(tc_device_ *d, tc_handle stream, tc_handle dst, int64_t offset, uint8_t value, uint64_t size);

// The slots above, in an initialiser of a tc_device_table.
#define TC_HOSTMEM_SLOTS                                                                                             \
  .alloc = tc_hostmem_alloc, .free = tc_hostmem_free, .stream_create = tc_hostmem_stream_create,                     \
  .stream_destroy = tc_hostmem_stream_destroy, .synchronize = tc_hostmem_synchronize, .copy_in = tc_hostmem_copy_in, \
  .copy_out = tc_hostmem_copy_out, .copy = tc_hostmem_copy, .fill = tc_hostmem_fill

// Address of a place in such memory.
static inline void *tc_hostmem_at(tc_handle memory, int64_t offset) { return (char *)(uintptr_t)memory + offset; }

#ifdef __cplusplus
}
#endif
#endif
