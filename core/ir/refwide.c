// Wide values of the reference engine: buffers, strided copies with conversion, rounding to declared dtypes.
#include <math.h>
#include <string.h>

#include "core/ir/refexec_internal.h"

tc_dtype ref_wide_of(tc_dtype d) {
  char c = tc_dtype_class(d);
  return c == 'f' ? TC_F64 : c == 'c' ? TC_C128 : TC_I64;
}

static size_t wide_size(tc_dtype wide) { return wide == TC_C128 ? 16 : 8; }

int64_t ref_numel(int32_t rank, const int64_t *sizes) {
  int64_t n = 1;
  for (int32_t i = 0; i < rank; i++) n *= sizes[i];
  return n;
}

bool ref_span(int32_t rank, const int64_t *sizes, const int64_t *strides, int64_t *out) {
  int64_t span = 1, reach;
  for (int32_t i = 0; i < rank; i++) {
    if (sizes[i] == 0) return *out = 0, true;
    if (sizes[i] < 0 || strides[i] < 0) return false;
    if (__builtin_mul_overflow(sizes[i] - 1, strides[i], &reach) || __builtin_add_overflow(span, reach, &span))
      return false;
  }
  *out = span;
  return span < INT64_MAX / 16;
}

static tc_status new_at(ref_run *r, tc_dtype nominal, int32_t rank, const int64_t *sizes, const int64_t *strides,
                        int64_t offset, ref_tensor *out) {
  *out = (ref_tensor){.wide = ref_wide_of(nominal), .nominal = nominal, .rank = rank, .offset = offset};
  if (rank > 0) memcpy(out->sizes, sizes, sizeof *sizes * (size_t)rank);
  if (strides && rank > 0) memcpy(out->strides, strides, sizeof *strides * (size_t)rank);
  else tc_contiguous_strides(rank, sizes, out->strides);
  int64_t span;
  if (!ref_span(rank, sizes, out->strides, &span) || offset < 0 || __builtin_add_overflow(span, offset, &span))
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "a tensor of that size cannot be held");
  ref_buffer *b = tc_alloc(r->allocator, sizeof *b);
  if (!b) return tc_error(TC_STATUS_OUT_OF_MEMORY, "out of memory for a reference value");
  b->data = tc_alloc(r->allocator, (size_t)span * wide_size(out->wide));
  if (!b->data) {
    tc_free(r->allocator, b);
    return tc_error(TC_STATUS_OUT_OF_MEMORY, "out of memory for a reference value of %lld elements", (long long)span);
  }
  b->refs = 1, b->wide = out->wide, b->count = span;
  b->next = r->buffers;
  if (r->buffers) r->buffers->prev = b;
  r->buffers = b;
  out->buffer = b;
  return TC_OK;
}

tc_status ref_new(ref_run *r, tc_dtype nominal, int32_t rank, const int64_t *sizes, const int64_t *strides,
                  ref_tensor *out) {
  return new_at(r, nominal, rank, sizes, strides, 0, out);
}

void ref_hold(ref_tensor *t) { t->buffer->refs++; }

void ref_drop(ref_run *r, ref_tensor *t) {
  ref_buffer *b = t->buffer;
  t->buffer = NULL;
  if (!b || --b->refs > 0) return;
  if (b->prev) b->prev->next = b->next;
  else r->buffers = b->next;
  if (b->next) b->next->prev = b->prev;
  tc_free(r->allocator, b->data);
  tc_free(r->allocator, b);
}

bool ref_next(int32_t rank, const int64_t *sizes, int64_t *index) {
  for (int32_t d = rank - 1; d >= 0; d--) {
    if (++index[d] < sizes[d]) return true;
    index[d] = 0;
  }
  return false;
}

// ---- elements ----
void ref_load(const ref_tensor *t, int64_t at, tc_c128 *out) {
  if (t->wide == TC_C128) {
    *out = ((const tc_c128 *)t->buffer->data)[at];
    if (t->conj) out->im = -out->im;
  } else {
    out->re = ((const double *)t->buffer->data)[at];
    out->im = 0;
  }
}

static double round_real(tc_dtype d, double v) {
  switch (d) {
  case TC_F16:
  case TC_C32: return tc_f16_to_f32(tc_f64_to_f16(v));
  case TC_BF16:
  case TC_BC32: return tc_bf16_to_f32(tc_f64_to_bf16(v));
  case TC_F32:
  case TC_C64: return (double)(float)v;
  default: return v;
  }
}

static int64_t wrap_int(tc_dtype d, int64_t v) {
  switch (d) {
  case TC_BOOL: return v != 0;
  case TC_U8: return (uint8_t)v;
  case TC_I8: return (int8_t)v;
  case TC_I16: return (int16_t)v;
  case TC_U16: return (uint16_t)v;
  case TC_I32: return (int32_t)v;
  case TC_U32: return (uint32_t)v;
  default: return v;
  }
}

void ref_store(const ref_tensor *t, int64_t at, tc_c128 v, int64_t i) {
  if (t->wide == TC_C128) ((tc_c128 *)t->buffer->data)[at] = (tc_c128){v.re, t->conj ? -v.im : v.im};
  else if (t->wide == TC_F64) ((double *)t->buffer->data)[at] = v.re;
  else ((int64_t *)t->buffer->data)[at] = i;
}

tc_ref_number tc_ref_convert(tc_ref_number v, tc_dtype to) {
  tc_ref_number out = {.dtype = to};
  bool from_int = ref_wide_of(v.dtype) == TC_I64;
  if (from_int) v.value = (tc_c128){v.dtype == TC_U64 ? (double)(uint64_t)v.integer : (double)v.integer, 0};
  else v.integer = to == TC_BOOL ? v.value.re != 0 || v.value.im != 0 : tc_float_to_int(to, v.value.re);
  if (ref_wide_of(to) == TC_I64) out.integer = wrap_int(to, v.integer);
  else out.value = (tc_c128){round_real(to, v.value.re), tc_dtype_is_complex(to) ? round_real(to, v.value.im) : 0};
  return out;
}

// One element from any class to any class; ints stay exact among themselves.
static void copy_element(const ref_tensor *from, int64_t i, const ref_tensor *to, int64_t o, bool round) {
  tc_ref_number v = {.dtype = from->wide == TC_I64 ? from->nominal : from->wide};
  if (from->wide == TC_I64) v.integer = ((const int64_t *)from->buffer->data)[i];
  else ref_load(from, i, &v.value);
  v = tc_ref_convert(v, round || to->wide == TC_I64 ? to->nominal : to->wide);
  ref_store(to, o, v.value, v.integer);
}

void ref_copy(const ref_run *r, const ref_tensor *from, const ref_tensor *to, bool round) {
  int64_t index[TC_MAX_RANK] = {0};
  if (ref_numel(to->rank, to->sizes) == 0) return;
  round = round && !r->options->wide;
  do {
    int64_t i = from->offset, o = to->offset;
    for (int32_t d = 0; d < to->rank; d++) i += index[d] * from->strides[d], o += index[d] * to->strides[d];
    copy_element(from, i, to, o, round);
  } while (ref_next(to->rank, to->sizes, index));
}

// ---- tensors in and out ----
tc_status ref_from_tensor(ref_run *r, const tc_tensor *from, const int64_t *strides, int64_t offset, bool conj,
                          ref_tensor *out) {
  TC_TRY(new_at(r, from->dtype, from->rank, from->sizes, strides, offset, out));
  out->conj = conj;
  // a tensor over the wide buffer: the copy converts and resolves the neg bit, and a conj bit where `conj` has none
  int64_t index[TC_MAX_RANK] = {0};
  if (ref_numel(from->rank, from->sizes) == 0) return TC_OK;
  do {
    int64_t o = out->offset, n = 0;
    tc_c128 v = {0};
    for (int32_t d = 0; d < out->rank; d++) o += index[d] * out->strides[d];
    if (out->wide == TC_I64) n = tc_tensor_get_int(from, index);
    else tc_tensor_get(from, index, &v.re, &v.im);
    ref_store(out, o, v, n);
  } while (ref_next(out->rank, out->sizes, index));
  return TC_OK;
}

tc_status ref_to_tensor(ref_run *r, const ref_tensor *t, bool wide, tc_tensor *out) {
  // the wide values in the result's own layout, then one converting copy
  ref_tensor flat;
  int64_t span;
  int64_t strides[TC_MAX_RANK];
  memcpy(strides, t->strides, sizeof strides);
  TC_TRY(ref_new(r, t->nominal, t->rank, t->sizes, NULL, &flat));
  ref_copy(r, t, &flat, true);
  tc_storage *storage = NULL;
  tc_tensor view = {0};
  tc_status s = tc_storage_wrap(r->allocator, flat.buffer->data, (size_t)flat.buffer->count * wide_size(flat.wide),
                                NULL, NULL, &storage);
  if (!s) s = tc_tensor_view(storage, flat.wide, flat.rank, flat.sizes, flat.strides, 0, &view);
  if (!s && !ref_span(t->rank, t->sizes, strides, &span)) s = tc_error(TC_STATUS_INVALID_ARGUMENT, "negative strides");
  if (!s) s = tc_tensor_create_strided(r->allocator, wide ? flat.wide : t->nominal, t->rank, t->sizes, strides, out);
  if (!s) s = tc_tensor_copy(&view, out);
  tc_tensor_unref(&view);
  tc_storage_unref(storage);
  ref_drop(r, &flat);
  return s;
}
