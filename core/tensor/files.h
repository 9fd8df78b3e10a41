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
  tc_sv name; // in the arena
  tc_tensor tensor; // views the mapping, which its storage keeps open
} tc_named_tensor;

typedef struct tc_tensor_list {
  tc_named_tensor *items;
  int32_t count;
} tc_tensor_list;

// Reads by extension. Tensors are mapped where alignment allows and copied where not; release with tc_tensor_list_free.
TC_NODISCARD tc_status tc_tensors_read(const tc_allocator *a, tc_arena *arena, const char *path, tc_tensor_list *out);
TC_NODISCARD tc_status tc_tensors_write(tc_arena *arena, const char *path, const tc_tensor_list *list); // .safetensors, .npz
void tc_tensor_list_free(tc_tensor_list *list);
const tc_tensor *tc_tensor_list_find(const tc_tensor_list *list, tc_sv name); // NULL if absent
TC_NODISCARD tc_status tc_npy_read(const tc_allocator *a, tc_arena *arena, const char *path, tc_tensor *out);
TC_NODISCARD tc_status tc_npy_write(tc_arena *arena, const char *path, const tc_tensor *t);

// Parsers over memory, for tests and fuzzing. `keep` (may be NULL) is referenced by every tensor made.
TC_NODISCARD tc_status tc_safetensors_parse(const tc_allocator *a, tc_arena *arena, tc_storage *bytes, tc_tensor_list *out);
TC_NODISCARD tc_status tc_npy_parse(const tc_allocator *a, tc_arena *arena, tc_storage *bytes, size_t offset, size_t size, tc_tensor *out);

// Zip: central directory only; ZIP64; members stored or deflated. Refuses `..`, absolute names, duplicates, overlapping
// extents, more than 2^20 entries.
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

#endif
