// Rows of elements as wide values: how everything in this folder reads and writes tensors' memory. Private.
//
// Floating and complex elements are doubles (re, im), the others int64 (u64 as its bits). `step` is in bytes; data need
// not be aligned.
#ifndef TC_CORE_TENSOR_ELEMENT_H_
#define TC_CORE_TENSOR_ELEMENT_H_

#include "core/tensor/tensor.h"

static inline bool tc_dtype_is_wide_int(tc_dtype d) { return d < TC_F16; } // bool and integers
void tc_row_load_ints(tc_dtype d, const void *data, int64_t step, int32_t n, int64_t *out);
void tc_row_load_floats(tc_dtype d, const void *data, int64_t step, int32_t n, double *re, double *im);
// Into any dtype; `is_u64` says that the values are the bits of unsigned ones.
void tc_row_store_ints(tc_dtype d, void *data, int64_t step, int32_t n, const int64_t *values, bool is_u64);
void tc_row_store_floats(tc_dtype d, void *data, int64_t step, int32_t n, const double *re, const double *im);

// 4·TC_NORMAL_BLOCK normals of mean 0 and variance 1: those of the counters from block·TC_NORMAL_BLOCK on (normal.c).
enum { TC_NORMAL_BLOCK = 64 };
void tc_normals(uint64_t seed, uint64_t block, float *out);

// The negative of a wide integer as its dtype has it: modulo the width.
int64_t tc_wide_negate(tc_dtype d, int64_t v);

// Byte address of the element at a row-major position `index[rank]`.
static inline uint8_t *tc_tensor_at(const tc_tensor *t, const int64_t *index) {
  int64_t offset = 0;
  for (int32_t i = 0; i < t->rank; i++) offset += index[i] * t->strides[i];
  return (uint8_t *)((uintptr_t)tc_tensor_data(t) + (uintptr_t)(offset * tc_dtype_size(t->dtype)));
}
// Steps to the next row-major position; false after the last.
static inline bool tc_index_next(int32_t rank, const int64_t *sizes, int64_t *index) {
  for (int32_t i = rank - 1; i >= 0; i--) {
    if (++index[i] < sizes[i]) return true;
    index[i] = 0;
  }
  return false;
}

#endif
