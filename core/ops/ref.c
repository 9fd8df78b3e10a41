// Iteration over the views that references work on.
#include <math.h>

#include "core/ops/ops.h"

bool tc_ref_next(int32_t rank, const int64_t *sizes, int64_t *index) {
  for (int32_t d = rank - 1; d >= 0; d--) {
    if (++index[d] < sizes[d]) return true;
    index[d] = 0;
  }
  return false;
}

int64_t tc_ref_offset(const tc_ref_view *v, const int64_t *index) {
  int64_t at = 0;
  for (int32_t d = 0; d < v->rank; d++) at += index[d] * v->strides[d];
  return at;
}

int64_t tc_ref_numel(const tc_ref_view *v) {
  int64_t n = 1;
  for (int32_t d = 0; d < v->rank; d++) n *= v->sizes[d];
  return n;
}

double tc_ref_f(const tc_ref_view *v, int64_t o) {
  if (v->dtype == TC_F64) return ((const double *)v->data)[o];
  if (v->dtype == TC_C128) return ((const tc_c128 *)v->data)[o].re;
  int64_t i = ((const int64_t *)v->data)[o];
  return v->nominal == TC_U64 ? (double)(uint64_t)i : (double)i;
}

tc_c128 tc_ref_c(const tc_ref_view *v, int64_t o) {
  return v->dtype == TC_C128 ? ((const tc_c128 *)v->data)[o] : (tc_c128){tc_ref_f(v, o), 0};
}

int64_t tc_ref_i(const tc_ref_view *v, int64_t o) {
  return v->dtype == TC_I64 ? ((const int64_t *)v->data)[o] : tc_float_to_int(TC_I64, tc_ref_f(v, o));
}

double tc_ref_f_as(const tc_op_args *a, const tc_ref_view *v, int64_t offset, tc_dtype d) {
  double x = tc_ref_f(v, offset);
  if (v->nominal == d || !tc_op_ref_rounds(a)) return x;
  if (d == TC_F16) return tc_f16_to_f32(tc_f32_to_f16((float)x));
  if (d == TC_BF16) return tc_bf16_to_f32(tc_f32_to_bf16((float)x));
  return d == TC_F32 ? (double)(float)x : x;
}

void tc_ref_put(const tc_ref_view *v, int64_t o, tc_c128 x) {
  if (v->dtype == TC_F64) ((double *)v->data)[o] = x.re;
  else if (v->dtype == TC_C128) ((tc_c128 *)v->data)[o] = x;
  else ((int64_t *)v->data)[o] = v->nominal == TC_BOOL ? x.re != 0 || x.im != 0 : tc_float_to_int(v->nominal, x.re);
}

void tc_ref_put_i(const tc_ref_view *v, int64_t o, int64_t x) {
  if (v->dtype == TC_I64) ((int64_t *)v->data)[o] = v->nominal == TC_BOOL ? x != 0 : x;
  else tc_ref_put(v, o, (tc_c128){(double)x, 0});
}

void tc_ref_copy(const tc_ref_view *to, int64_t to_offset, const tc_ref_view *from, int64_t from_offset) {
  if (from->dtype == TC_I64 && to->dtype == TC_I64) tc_ref_put_i(to, to_offset, tc_ref_i(from, from_offset));
  else tc_ref_put(to, to_offset, tc_ref_c(from, from_offset));
}

tc_c128 tc_ref_product(tc_c128 x, tc_c128 y) { return (tc_c128){x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re}; }

tc_c128 tc_ref_quotient(tc_c128 x, tc_c128 y) {
  if (y.re == 0 && y.im == 0) return (tc_c128){x.re / fabs(y.re), x.im / fabs(y.im)};
  if (fabs(y.re) >= fabs(y.im)) {
    double r = y.im / y.re, den = y.re + y.im * r;
    return (tc_c128){(x.re + x.im * r) / den, (x.im - x.re * r) / den};
  }
  double r = y.re / y.im, den = y.re * r + y.im;
  return (tc_c128){(x.re * r + x.im) / den, (x.im * r - x.re) / den};
}
