// Strided tensors: creating, viewing, and the arithmetic of sizes and strides. Strides follow PyTorch (a dimension of
// size 0 counts as 1 in the strides before it).
//
// Invariant of every tensor made here: each index inside the sizes addresses an element wholly inside the storage.
#include "core/tensor/tensor.h"

#include <string.h>

static tc_status check_shape(tc_dtype d, int32_t rank, const int64_t *sizes) {
  if (tc_dtype_size(d) == 0) return tc_error(TC_STATUS_INVALID_ARGUMENT, "unknown dtype %d", (int)d);
  if (rank < 0 || rank > TC_MAX_RANK)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "a tensor of rank %d; at most %d dimensions are supported", (int)rank,
                    TC_MAX_RANK);
  for (int32_t i = 0; i < rank; i++)
    if (sizes[i] < 0)
      return tc_error(TC_STATUS_INVALID_ARGUMENT, "size %lld in dimension %d is negative", (long long)sizes[i], (int)i);
  return TC_OK;
}

static bool is_empty(int32_t rank, const int64_t *sizes) {
  for (int32_t i = 0; i < rank; i++)
    if (sizes[i] == 0) return true;
  return false;
}

// Smallest and largest element offsets that indices reach, relative to element 0; not for empty shapes. False on
// overflow.
static bool reach(int32_t rank, const int64_t *sizes, const int64_t *strides, int64_t *out_low, int64_t *out_high) {
  *out_low = *out_high = 0;
  for (int32_t i = 0; i < rank; i++) {
    int64_t far, *side = strides[i] < 0 ? out_low : out_high;
    if (__builtin_mul_overflow(sizes[i] - 1, strides[i], &far) || __builtin_add_overflow(*side, far, side))
      return false;
  }
  return true;
}

static tc_status too_large(void) {
  return tc_error(TC_STATUS_OUT_OF_RANGE, "the tensor's extent in bytes does not fit 63 bits");
}

void tc_contiguous_strides(int32_t rank, const int64_t *sizes, int64_t *out_strides) {
  uint64_t step = 1; // unsigned: shapes whose product overflows wrap here and are refused where storage is made
  for (int32_t i = rank - 1; i >= 0; i--) {
    out_strides[i] = (int64_t)step;
    step *= (uint64_t)(sizes[i] > 0 ? sizes[i] : 1);
  }
}

static void set_shape(tc_tensor *t, tc_dtype d, int32_t rank, const int64_t *sizes, const int64_t *strides) {
  *t = (tc_tensor){.dtype = d, .rank = rank};
  for (int32_t i = 0; i < rank; i++) {
    t->sizes[i] = sizes[i];
    t->strides[i] = strides[i];
  }
}

tc_status tc_tensor_create_strided(const tc_allocator *a, tc_dtype d, int32_t rank, const int64_t *sizes,
                                   const int64_t *strides, tc_tensor *out) {
  *out = (tc_tensor){0};
  TC_TRY(check_shape(d, rank, sizes));
  for (int32_t i = 0; i < rank; i++)
    if (strides[i] < 0)
      return tc_error(TC_STATUS_INVALID_ARGUMENT, "stride %lld in dimension %d is negative", (long long)strides[i],
                      (int)i);
  int64_t low = 0, high = -1, bytes;
  if (!is_empty(rank, sizes) && !reach(rank, sizes, strides, &low, &high)) return too_large();
  if (__builtin_add_overflow(high, 1, &high) || __builtin_mul_overflow(high, (int64_t)tc_dtype_size(d), &bytes))
    return too_large();
  tc_tensor t;
  set_shape(&t, d, rank, sizes, strides);
  TC_TRY(tc_storage_create(a, (size_t)bytes, &t.storage));
  *out = t;
  return TC_OK;
}

tc_status tc_tensor_create(const tc_allocator *a, tc_dtype d, int32_t rank, const int64_t *sizes, tc_tensor *out) {
  *out = (tc_tensor){0};
  TC_TRY(check_shape(d, rank, sizes));
  int64_t strides[TC_MAX_RANK], numel = 1;
  for (int32_t i = 0; i < rank && !is_empty(rank, sizes); i++)
    if (__builtin_mul_overflow(numel, sizes[i], &numel)) return too_large();
  tc_contiguous_strides(rank, sizes, strides);
  if (is_empty(rank, sizes)) // strides of empty shapes may have wrapped; they are never followed
    for (int32_t i = 0; i < rank; i++)
      if (strides[i] < 0) return too_large();
  return tc_tensor_create_strided(a, d, rank, sizes, strides, out);
}

tc_status tc_tensor_view(tc_storage *s, tc_dtype d, int32_t rank, const int64_t *sizes, const int64_t *strides,
                         int64_t offset, tc_tensor *out) {
  *out = (tc_tensor){0};
  TC_TRY(check_shape(d, rank, sizes));
  int64_t low = 0, high = 0, end;
  const int64_t item = tc_dtype_size(d);
  if (offset < 0) return tc_error(TC_STATUS_OUT_OF_RANGE, "storage offset %lld is negative", (long long)offset);
  if (is_empty(rank, sizes)) { // PyTorch leaves any offset on empty views
    if (__builtin_mul_overflow(offset, item, &end)) return too_large();
  } else {
    if (!reach(rank, sizes, strides, &low, &high) || __builtin_add_overflow(low, offset, &low) ||
        __builtin_add_overflow(high, offset, &high) || __builtin_add_overflow(high, 1, &end) ||
        __builtin_mul_overflow(end, item, &end))
      return too_large();
    if (low < 0)
      return tc_error(TC_STATUS_OUT_OF_RANGE, "the view reaches element %lld of its storage", (long long)low);
    if ((uint64_t)end > s->size)
      return tc_error(TC_STATUS_OUT_OF_RANGE, "the view reaches byte %lld of a storage of %zu bytes", (long long)end,
                      s->size);
  }
  set_shape(out, d, rank, sizes, strides);
  out->offset = offset;
  out->storage = s;
  tc_storage_ref(s);
  return TC_OK;
}

tc_tensor tc_tensor_ref(const tc_tensor *t) {
  if (t->storage) tc_storage_ref(t->storage);
  return *t;
}

void tc_tensor_unref(tc_tensor *t) {
  tc_storage_unref(t->storage);
  *t = (tc_tensor){0};
}

int64_t tc_tensor_numel(const tc_tensor *t) {
  int64_t n = 1;
  if (is_empty(t->rank, t->sizes)) return 0;
  for (int32_t i = 0; i < t->rank; i++)
    if (__builtin_mul_overflow(n, t->sizes[i], &n)) return INT64_MAX; // expanded (stride 0) views can be that large
  return n;
}

void *tc_tensor_data(const tc_tensor *t) { // as integers: an empty view may carry an offset beyond its storage
  return (void *)((uintptr_t)t->storage->data + (uintptr_t)t->offset * (uintptr_t)tc_dtype_size(t->dtype));
}

bool tc_tensor_is_contiguous(const tc_tensor *t) {
  if (is_empty(t->rank, t->sizes)) return true;
  int64_t step = 1;
  for (int32_t i = t->rank - 1; i >= 0; i--) {
    if (t->sizes[i] == 1) continue;
    if (t->strides[i] != step || __builtin_mul_overflow(step, t->sizes[i], &step)) return false;
  }
  return true;
}

tc_status tc_tensor_contiguous(const tc_allocator *a, const tc_tensor *src, tc_tensor *out) {
  if (tc_tensor_is_contiguous(src) && !src->conj && !src->neg) {
    *out = tc_tensor_ref(src);
    return TC_OK;
  }
  TC_TRY(tc_tensor_create(a, src->dtype, src->rank, src->sizes, out));
  tc_status status = tc_tensor_copy(src, out);
  if (status) tc_tensor_unref(out);
  return status;
}
