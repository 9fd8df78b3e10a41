// Tensor files: .npy, .npz, .safetensors; and the zip archives under .npz and .pt2.
//
// Sources: NumPy's format description (NEP 1), safetensors' format page (8-byte little-endian header length, JSON,
// data), PKWARE APPNOTE for zip. Complex dtypes without a safetensors name are stored with suffixes: `name.c128` is
// F64 [..., 2], `name.c32` is F16 [..., 2]; readers undo that.
// Inputs are untrusted: sizes are overflow-checked, extents must fit and not overlap, names are unique.
#ifndef TC_CORE_TENSOR_FILES_H_
#define TC_CORE_TENSOR_FILES_H_

#include "core/base/fs.h"
#include "core/base/vec.h"
#include "core/tensor/tensor.h"

typedef struct tc_named_tensor {
  tc_sv name;       // in the arena
  tc_tensor tensor; // views the mapping, which its storage keeps open
} tc_named_tensor;

typedef struct tc_tensor_list {
  tc_named_tensor *items;
  int32_t count;
} tc_tensor_list;

// Reads by extension. Tensors are mapped where alignment allows and copied where not; release with tc_tensor_list_free.
TC_NODISCARD tc_status tc_tensors_read(const tc_allocator *a, tc_arena *arena, const char *path, tc_tensor_list *out);
TC_NODISCARD tc_status tc_tensors_write(tc_arena *arena, const char *path,
                                        const tc_tensor_list *list); // .safetensors, .npz
void tc_tensor_list_free(tc_tensor_list *list);
const tc_tensor *tc_tensor_list_find(const tc_tensor_list *list, tc_sv name); // NULL if absent
TC_NODISCARD tc_status tc_npy_read(const tc_allocator *a, tc_arena *arena, const char *path, tc_tensor *out);
TC_NODISCARD tc_status tc_npy_write(tc_arena *arena, const char *path, const tc_tensor *t);

// A file mapped as a storage: READ-ONLY memory, unmapped with the last reference. What a program writes must be copied
// first (tc_tensor_create and tc_tensor_copy). This holds for every tensor that the readers of this file return.
TC_NODISCARD tc_status tc_storage_map(const tc_allocator *a, const char *path, tc_storage **out);
// Where a storage is such a file or a slice of one: its memory goes back to the system until somebody reads it again.
void tc_storage_forget(const tc_storage *s);
// `size` bytes of a parent from `offset`: a view that keeps the parent alive, or a copy where the address is no
// multiple of `align`. OUT_OF_RANGE beyond the parent.
TC_NODISCARD tc_status tc_storage_slice(const tc_allocator *a, tc_storage *parent, size_t offset, size_t size,
                                        size_t align, tc_storage **out);

// Parsers over memory, for tests and fuzzing. `bytes` is referenced by every tensor that views it.
TC_NODISCARD tc_status tc_safetensors_parse(const tc_allocator *a, tc_arena *arena, tc_storage *bytes,
                                            tc_tensor_list *out);
TC_NODISCARD tc_status tc_npz_parse(const tc_allocator *a, tc_arena *arena, tc_storage *bytes, tc_tensor_list *out);
TC_NODISCARD tc_status tc_npy_parse(const tc_allocator *a, tc_arena *arena, tc_storage *bytes, size_t offset,
                                    size_t size, tc_tensor *out);

// Zip: central directory only; ZIP64; members stored or deflated. Refuses `..`, absolute names, duplicates, overlapping
// extents, more than 2^20 entries, encryption, archives in several parts.
typedef struct tc_zip_entry {
  tc_sv name;
  uint64_t offset;      // of the payload in the file
  uint64_t stored_size; // bytes in the file
  uint64_t size;        // bytes unpacked
  uint32_t crc;
  int32_t method; // 0 stored, 8 deflate
} tc_zip_entry;
typedef struct tc_zip {
  const uint8_t *data;
  size_t size;
  tc_zip_entry *entries;
  int32_t count;
  tc_map *by_name; // set when opened
} tc_zip;
TC_NODISCARD tc_status tc_zip_open(tc_arena *arena, const uint8_t *data, size_t size, tc_zip *out);
const tc_zip_entry *tc_zip_find(const tc_zip *z, tc_sv name); // NULL if absent
// The payload: a view of the archive when stored, else inflated into the arena (at most `limit` bytes); CRC verified.
TC_NODISCARD tc_status tc_zip_read(tc_arena *arena, const tc_zip *z, const tc_zip_entry *e, uint64_t limit, tc_sv *out);
// The same into `out` of e->size bytes; `a` serves inflating. Neither needs an arena guard.
TC_NODISCARD tc_status tc_zip_read_into(const tc_allocator *a, const tc_zip *z, const tc_zip_entry *e, void *out);

// Writing: all members stored, payloads at multiples of 64, ZIP64 where sizes demand it. First the layout is computed
// from names and sizes; then the caller fills the payloads of a buffer of the total size, and the headers follow.
typedef struct tc_zip_item {
  tc_sv name;
  uint64_t size;   // of the payload
  uint64_t offset; // set by tc_zip_layout: where the payload belongs
} tc_zip_item;
TC_NODISCARD tc_status tc_zip_layout(tc_zip_item *items, int32_t count, size_t *out_total);
void tc_zip_finish(uint8_t *buffer, const tc_zip_item *items, int32_t count);

#endif
