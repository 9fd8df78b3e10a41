// What the file formats share. Private.
#ifndef TC_CORE_TENSOR_FILES_INTERNAL_H_
#define TC_CORE_TENSOR_FILES_INTERNAL_H_

#include "core/tensor/files.h"

// A tensor as a file holds it: complex dtypes that the format has no name for become pairs of reals, a last dimension
// of size 2, and the name gets a suffix.
typedef struct tc_stored {
  tc_sv name;
  tc_dtype dtype;
  int32_t rank;
  int64_t sizes[TC_MAX_RANK + 1];
  uint64_t bytes;
} tc_stored;
// `has` says whether the format names a dtype itself.
tc_status tc_stored_of(tc_arena *arena, const tc_named_tensor *item, bool (*has)(tc_dtype), tc_stored *out);
// The way back: if the name's suffix says so, joins the pairs of `s` and cuts the suffix.
void tc_stored_join(tc_stored *s);
// bytes = product of the sizes and the item size; false on overflow.
bool tc_stored_measure(tc_stored *s);

// Row-major tensor over `size` bytes of `bytes` (which fit it), viewing where aligned.
tc_status tc_stored_view(const tc_allocator *a, tc_storage *bytes, size_t offset, const tc_stored *s, tc_tensor *out);
// Writes the tensor's values row-major to memory of s->bytes, in any alignment.
tc_status tc_stored_put(const tc_allocator *a, const tc_tensor *t, uint8_t *to);
// Adds to a list of fixed capacity; refuses a second tensor of the same name. Takes over `t`.
tc_status tc_list_add(tc_tensor_list *list, tc_map *names, tc_sv name, tc_tensor *t);

// The .npy header for a row-major tensor; its size is a multiple of 64.
tc_status tc_npy_header(tc_arena *arena, const tc_stored *s, tc_sv *out);
bool tc_npy_has(tc_dtype d);

tc_status tc_safetensors_build(tc_arena *arena, const tc_tensor_list *list, uint8_t **out_file, size_t *out_size);
tc_status tc_npz_build(tc_arena *arena, const tc_tensor_list *list, uint8_t **out_file, size_t *out_size);

#endif
