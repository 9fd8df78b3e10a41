// The reference: recursion over the prime factors of the length (decimation in time), each prime by its definition.
// Plain C in double, with nothing of the template but the unit roots.
#include <math.h>

#include "fft.h"

static int64_t smallest_factor(int64_t n) {
  for (int64_t p = 2; p * p <= n; p++)
    if (n % p == 0) return p;
  return n;
}

typedef struct roots {
  const tc_c128 *w; // exp(∓2πi t/n)
  int64_t n;
  tc_c128 *points; // room for one prime
} roots;

static tc_c128 times(tc_c128 x, tc_c128 y) { return (tc_c128){x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re}; }

static void transform(const roots *r, int64_t n, const tc_c128 *in, int64_t stride, tc_c128 *out) {
  if (n == 1) {
    out[0] = in[0];
    return;
  }
  int64_t p = smallest_factor(n), m = n / p, unit = r->n / n;
  for (int64_t i = 0; i < p; i++) transform(r, m, in + i * stride, stride * p, out + i * m);
  for (int64_t k = 0; k < m; k++) {
    for (int64_t i = 0; i < p; i++) r->points[i] = times(out[i * m + k], r->w[i * k * unit % r->n]);
    for (int64_t j = 0; j < p; j++) {
      tc_c128 sum = {0, 0};
      for (int64_t i = 0; i < p; i++) {
        tc_c128 t = times(r->points[i], r->w[i * j % p * (r->n / p)]);
        sum.re += t.re, sum.im += t.im;
      }
      out[k + j * m] = sum;
    }
  }
}

void fft_reference(int64_t n, bool forward, double scale, tc_c128 *x, tc_c128 *scratch) {
  tc_c128 *in = scratch, *w = scratch + n;
  roots r = {w, n, scratch + 2 * n};
  for (int64_t i = 0; i < n; i++) {
    in[i] = x[i];
    fft_unit(forward ? -i : i, n, &w[i].re, &w[i].im);
  }
  transform(&r, n, in, 1, x);
  for (int64_t i = 0; i < n; i++) x[i].re *= scale, x[i].im *= scale;
}

static bool next(int32_t rank, const int64_t *sizes, int32_t without, int64_t *index) {
  for (int32_t d = rank - 1; d >= 0; d--) {
    if (d == without) continue;
    if (++index[d] < sizes[d]) return true;
    index[d] = 0;
  }
  return false;
}

static int64_t offset(const tc_ref_view *v, const int64_t *index) {
  int64_t at = 0;
  for (int32_t d = 0; d < v->rank; d++) at += index[d] * v->strides[d];
  return at;
}

double fft_norm(int64_t norm, double n) { return norm == 2 ? 1 / n : norm == 1 ? 1 / sqrt(n) : 1; }

int32_t fft_ref_c2c(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_result_data(a, 0);
  if (!x || !y) return TC_STATUS_INTERNAL;
  int64_t norm = tc_op_int(a, 2, 0), longest = 1, numel = 1, index[TC_MAX_RANK] = {0};
  bool forward = tc_op_bool(a, 3, 1);
  for (int32_t d = 0; d < x->rank; d++) {
    numel *= x->sizes[d];
    if (x->sizes[d] > longest) longest = x->sizes[d];
  }
  if (numel == 0) return TC_STATUS_OK;
  tc_c128 *row = tc_op_scratch(a, (uint64_t)longest * 4 * sizeof *row), *to = y->data;
  const tc_c128 *from = x->data;
  if (!row) return tc_op_fail(a, "no memory for the reference"), TC_STATUS_OUT_OF_MEMORY;
  do to[offset(y, index)] = from[offset(x, index)];
  while (next(x->rank, x->sizes, -1, index));
  for (int32_t i = 0; i < tc_op_count(a, 1); i++) {
    int32_t d = (int32_t)tc_op_wrap_dim(a, tc_op_int_at(a, 1, i, 0), x->rank);
    if (d < 0) return TC_STATUS_INVALID_ARGUMENT;
    int64_t n = x->sizes[d], step = y->strides[d];
    do {
      tc_c128 *at = to + offset(y, index);
      for (int64_t k = 0; k < n; k++) row[k] = at[k * step];
      fft_reference(n, forward, fft_norm(norm, (double)n), row, row + n);
      for (int64_t k = 0; k < n; k++) at[k * step] = row[k];
    } while (next(x->rank, x->sizes, d, index));
  }
  return TC_STATUS_OK;
}
