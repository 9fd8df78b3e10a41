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

// The next index, `without` one dimension; false when all have been.
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

// Transforms dimension d of complex numbers of that shape in place.
static void along(double scale, bool forward, int32_t d, const tc_ref_view *shape, const int64_t *strides, tc_c128 *to,
                  tc_c128 *row) {
  int64_t n = shape->sizes[d], index[TC_MAX_RANK] = {0};
  tc_ref_view v = *shape;
  v.strides = strides;
  do {
    tc_c128 *at = to + offset(&v, index);
    for (int64_t k = 0; k < n; k++) row[k] = at[k * strides[d]];
    fft_reference(n, forward, scale, row, row + n);
    for (int64_t k = 0; k < n; k++) at[k * strides[d]] = row[k];
  } while (next(v.rank, v.sizes, d, index));
}

typedef struct work {
  int64_t norm, numel, strides[TC_MAX_RANK]; // row-major
  int32_t n, dims[TC_MAX_RANK];
  tc_c128 *row, *all; // room for a transform along the longest dimension; for a copy of `shape`
} work;

// For an input or result of sizes `shape`.
static int32_t begin(tc_op_args *a, const tc_ref_view *shape, bool copy, work *w) {
  int64_t longest = 1;
  *w = (work){.norm = tc_op_int(a, 2, 0), .numel = 1, .n = tc_op_count(a, 1)};
  for (int32_t d = shape->rank - 1; d >= 0; d--) {
    w->strides[d] = w->numel;
    w->numel *= shape->sizes[d];
    if (shape->sizes[d] > longest) longest = shape->sizes[d];
  }
  for (int32_t i = 0; i < w->n; i++) {
    w->dims[i] = (int32_t)tc_op_wrap_dim(a, tc_op_int_at(a, 1, i, 0), shape->rank);
    if (w->dims[i] < 0) return TC_STATUS_INVALID_ARGUMENT;
  }
  if (w->numel == 0) return TC_STATUS_OK;
  w->row = tc_op_scratch(a, (uint64_t)longest * 4 * sizeof *w->row);
  if (copy) w->all = tc_op_scratch(a, (uint64_t)w->numel * sizeof *w->all);
  if (w->row && (w->all || !copy)) return TC_STATUS_OK;
  return TC_STATUS_OUT_OF_MEMORY;
}

int32_t fft_ref_c2c(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_result_data(a, 0);
  work w;
  if (!x || !y) return TC_STATUS_INTERNAL;
  int32_t status = begin(a, x, false, &w);
  if (status || w.numel == 0) return status;
  tc_c128 *to = y->data;
  const tc_c128 *from = x->data;
  int64_t index[TC_MAX_RANK] = {0};
  do to[offset(y, index)] = from[offset(x, index)];
  while (next(x->rank, x->sizes, -1, index));
  for (int32_t i = 0; i < w.n; i++)
    along(fft_norm(w.norm, (double)x->sizes[w.dims[i]]), tc_op_bool(a, 3, 1), w.dims[i], y, y->strides, to, w.row);
  return TC_STATUS_OK;
}

// The whole complex transform, of which the result is a part.
int32_t fft_ref_r2c(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_result_data(a, 0);
  work w;
  if (!x || !y) return TC_STATUS_INTERNAL;
  int32_t status = begin(a, x, true, &w);
  if (status || w.numel == 0) return status;
  tc_c128 *to = y->data;
  const double *from = x->data;
  int64_t index[TC_MAX_RANK] = {0};
  tc_ref_view all = *x;
  all.strides = w.strides;
  do w.all[offset(&all, index)] = (tc_c128){from[offset(x, index)], 0};
  while (next(x->rank, x->sizes, -1, index));
  for (int32_t i = 0; i < w.n; i++)
    along(fft_norm(w.norm, (double)x->sizes[w.dims[i]]), true, w.dims[i], &all, w.strides, w.all, w.row);
  do to[offset(y, index)] = w.all[offset(&all, index)];
  while (next(y->rank, y->sizes, -1, index));
  return TC_STATUS_OK;
}

// The leading dimensions first; then the last one from its half: the other half is its mirror, and what has no mirror
// is real.
int32_t fft_ref_c2r(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_result_data(a, 0);
  work w;
  if (!x || !y) return TC_STATUS_INTERNAL;
  int32_t status = begin(a, x, true, &w);
  if (status || w.numel == 0) return status;
  const tc_c128 *from = x->data;
  double *to = y->data;
  int64_t index[TC_MAX_RANK] = {0};
  int32_t last = w.dims[w.n - 1];
  int64_t n = y->sizes[last];
  tc_ref_view all = *x;
  all.strides = w.strides;
  do w.all[offset(&all, index)] = from[offset(x, index)];
  while (next(x->rank, x->sizes, -1, index));
  for (int32_t i = 0; i + 1 < w.n; i++)
    along(fft_norm(w.norm, (double)x->sizes[w.dims[i]]), false, w.dims[i], &all, w.strides, w.all, w.row);
  tc_c128 *row = tc_op_scratch(a, (uint64_t)n * 4 * sizeof *row);
  if (!row) return TC_STATUS_OUT_OF_MEMORY;
  do {
    const tc_c128 *half = w.all + offset(&all, index);
    for (int64_t k = 0; k < n; k++) {
      tc_c128 v = half[(k <= n / 2 ? k : n - k) * w.strides[last]];
      bool alone = k == 0 || 2 * k == n;
      row[k] = (tc_c128){v.re, alone ? 0 : k <= n / 2 ? v.im : -v.im};
    }
    fft_reference(n, false, fft_norm(w.norm, (double)n), row, row + n);
    double *at = to + offset(y, index);
    for (int64_t k = 0; k < n; k++) at[k * y->strides[last]] = row[k].re;
  } while (next(y->rank, y->sizes, last, index));
  return TC_STATUS_OK;
}
