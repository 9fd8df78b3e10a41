// Tensors of the embedder's API: making, reading, DLPack.
#include <string.h>

#include "core/api/trace.h"

// ---- making ----
static bool good_shape(tc_dtype dtype, int32_t rank, const int64_t *sizes) {
  if (rank < 0 || rank > TC_MAX_RANK) {
    api_fail_text(TC_STATUS_INVALID_ARGUMENT, "rank %d; the largest is %d", rank, TC_MAX_RANK);
    return false;
  }
  if (!tc_dtype_size(dtype)) {
    api_fail_text(TC_STATUS_INVALID_ARGUMENT, "%d is no dtype", dtype);
    return false;
  }
  for (int32_t d = 0; d < rank; d++) {
    if (sizes[d] >= 0) continue;
    api_fail_text(TC_STATUS_INVALID_ARGUMENT, "size %lld at index %d", (long long)sizes[d], d);
    return false;
  }
  return true;
}

tc_tensor *tc_new_tensor(tc_context *c, tc_dtype dtype, int32_t rank, const int64_t *sizes) {
  tc_tensor t;
  if (!good_shape(dtype, rank, sizes)) return NULL;
  if (api_fail(tc_tensor_create(c->allocator, dtype, rank, sizes, &t)) != TC_STATUS_OK) return NULL;
  return api_wrap(c, t);
}

tc_tensor *tc_tensor_from(tc_context *c, tc_dtype dtype, int32_t rank, const int64_t *sizes, const void *data) {
  tc_tensor *t = tc_new_tensor(c, dtype, rank, sizes);
  if (!t) return NULL;
  size_t bytes = (size_t)tc_tensor_numel(t) * (size_t)tc_dtype_size(dtype);
  if (bytes) memcpy(tc_tensor_data(t), data, bytes);
  return t;
}

// Bytes from the first to behind the last element.
static tc_status span_bytes(tc_dtype dtype, int32_t rank, const int64_t *sizes, const int64_t *strides, size_t *out) {
  int64_t last = 0;
  *out = 0;
  for (int32_t d = 0; d < rank; d++) {
    int64_t step;
    if (sizes[d] == 0) return TC_OK;
    if (strides[d] < 0)
      return tc_error(TC_STATUS_INVALID_ARGUMENT, "stride %lld at index %d", (long long)strides[d], d);
    if (__builtin_mul_overflow(sizes[d] - 1, strides[d], &step) || __builtin_add_overflow(last, step, &last))
      return tc_error(TC_STATUS_OUT_OF_RANGE, "the sizes and strides overflow");
  }
  if (!tc_mul_size((size_t)last + 1, (size_t)tc_dtype_size(dtype), out))
    return tc_error(TC_STATUS_OUT_OF_RANGE, "the sizes and strides overflow");
  return TC_OK;
}

static tc_status borrow(tc_context *c, tc_dtype dtype, int32_t rank, const int64_t *sizes, const int64_t *strides,
                        void *data, void (*release)(void *, void *), void *owner, tc_tensor *out) {
  int64_t own[TC_MAX_RANK];
  size_t bytes;
  tc_storage *s;
  if (!strides) tc_contiguous_strides(rank, sizes, own), strides = own;
  TC_TRY(span_bytes(dtype, rank, sizes, strides, &bytes));
  if (bytes && (uintptr_t)data % (uintptr_t)tc_dtype_align(dtype))
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "the address of %s elements is no multiple of %d",
                    tc_dtype_torch_name(dtype), tc_dtype_align(dtype));
  TC_TRY(tc_storage_wrap(c->allocator, data, bytes, release, owner, &s));
  tc_status status = tc_tensor_view(s, dtype, rank, sizes, strides, 0, out);
  if (status != TC_OK) s->release = NULL; // the caller does
  tc_storage_unref(s);
  return status;
}

tc_tensor *tc_tensor_borrow(tc_context *c, tc_dtype dtype, int32_t rank, const int64_t *sizes, const int64_t *strides,
                            void *data, void (*release)(void *owner, void *data), void *owner) {
  tc_tensor t;
  bool ok = good_shape(dtype, rank, sizes) &&
            api_fail(borrow(c, dtype, rank, sizes, strides, data, release, owner, &t)) == TC_STATUS_OK;
  if (ok) return api_wrap(c, t);
  if (release) release(owner, data);
  return NULL;
}

// ---- reading ----
tc_dtype tc_dtype_of(const tc_tensor *t) { return t ? t->dtype : TC_DTYPE_NONE; }
int32_t tc_rank_of(const tc_tensor *t) { return t ? t->rank : -1; }

static int64_t number_of(const char *here, const tc_tensor *t, int32_t dim, bool stride) {
  api_trace *trace = api_current_trace();
  if (!t || dim < -t->rank || dim >= t->rank) return -1;
  if (dim < 0) dim += t->rank;
  if (trace && trace->context == api_of(t)->context) return api_trace_size(trace, here, &api_of(t)->value, dim, stride);
  return stride ? t->strides[dim] : t->sizes[dim];
}
int64_t tc_size_of_at(const char *here, const tc_tensor *t, int32_t dim) { return number_of(here, t, dim, false); }
int64_t tc_stride_of_at(const char *here, const tc_tensor *t, int32_t dim) { return number_of(here, t, dim, true); }

int64_t tc_numel_of_at(const char *here, const tc_tensor *t) {
  int64_t n = 1;
  if (!t) return -1;
  for (int32_t d = 0; d < t->rank; d++) n *= tc_size_of_at(here, t, d);
  return n;
}

// ---- numbers besides tensors ----
static int64_t guarded(const char *here, int32_t kind, const char *name, const void *at) {
  static const char *const words[] = {"int", "bool", "list", "optional"};
  tc_guard_fact f = {.kind = kind, .expected = tc_guard_fact_read(kind, at), .at = at};
  api_trace *trace = api_current_trace();
  f.name = tc_sv_of(name ? name : words[kind]), f.origin = tc_sv_of(here);
  return trace && api_trace_fact(trace, &f) != TC_STATUS_OK ? 0 : f.expected;
}

int64_t tc_guard_int_at(const char *here, const char *name, const int64_t *at) {
  return guarded(here, TC_FACT_INT, name, at);
}
int32_t tc_guard_bool_at(const char *here, const char *name, const int32_t *at) {
  return (int32_t)guarded(here, TC_FACT_BOOL, name, at);
}
int64_t tc_guard_length_at(const char *here, const char *name, const int64_t *at) {
  return guarded(here, TC_FACT_LENGTH, name, at);
}
int32_t tc_guard_given_at(const char *here, const char *name, const void *at) {
  return (int32_t)guarded(here, TC_FACT_GIVEN, name, at);
}

bool api_readable(const char *here, const char *reason, tc_tensor *t, bool writes) {
  api_trace *trace = api_current_trace();
  bool recording = trace && trace->context == api_of(t)->context;
  if (recording && api_trace_read(trace, here, reason, t, writes) != TC_STATUS_OK) return false;
  if (writes) api_note_effect();
  if (!t->storage)
    api_fail_text(TC_STATUS_INVALID_ARGUMENT, "a tensor that was recorded and never computed is read\n  at %s", here);
  return t->storage != NULL;
}

void *tc_data_of_at(const char *here, tc_tensor *t) {
  return t && api_readable(here, "the data of a tensor is read (tc_data_of)", t, true) ? tc_tensor_data(t) : NULL;
}

// The one element's position, or an error.
static bool one_element(const char *here, tc_tensor *t, int64_t *index) {
  if (!t) {
    api_fail_text(TC_STATUS_INVALID_ARGUMENT, "no tensor\n  at %s", here);
    return false;
  }
  if (!api_readable(here, "a value is read (tc_item)", t, false)) return false;
  if (tc_tensor_numel(t) != 1) {
    api_fail_text(TC_STATUS_INVALID_ARGUMENT, "a tensor of %lld elements is no number\n  at %s",
                  (long long)tc_tensor_numel(t), here);
    return false;
  }
  memset(index, 0, TC_MAX_RANK * sizeof *index);
  return true;
}

int32_t tc_item_f64_at(const char *here, tc_tensor *t, double *re, double *im) {
  int64_t index[TC_MAX_RANK];
  double ignored;
  if (!one_element(here, t, index)) return tc_last_code();
  if (!im && tc_dtype_is_complex(t->dtype))
    return api_fail_text(TC_STATUS_INVALID_ARGUMENT, "a complex number has an imaginary part\n  at %s", here);
  tc_tensor_get(t, index, re, im ? im : &ignored);
  return TC_STATUS_OK;
}

int32_t tc_item_i64_at(const char *here, tc_tensor *t, int64_t *out) {
  int64_t index[TC_MAX_RANK];
  if (!one_element(here, t, index)) return tc_last_code();
  if (tc_dtype_is_complex(t->dtype) || tc_dtype_is_float(t->dtype))
    return api_fail_text(TC_STATUS_INVALID_ARGUMENT, "%s is no integer\n  at %s", tc_dtype_torch_name(t->dtype), here);
  *out = tc_tensor_get_int(t, index);
  return TC_STATUS_OK;
}
