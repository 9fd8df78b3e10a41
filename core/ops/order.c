// Order statistics and counting by value: medians, quantiles, modes, searches in sorted sequences, histograms.
#include <math.h>

#include "core/ops/ops.h"

#include "tc/lower.h"

// ---- mode: the most frequent value, the smallest of several; the index of its last place ----
static int32_t mode_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  bool reduced[TC_MAX_RANK] = {0}, keep = tc_op_bool(a, 2, 0);
  int64_t dim = tc_op_dim(a, 1, t->rank);
  if (dim < 0) return TC_STATUS_INVALID_ARGUMENT;
  if (tc_dtype_is_complex(t->dtype))
    return tc_op_fail(a, "mode is not implemented for %s", tc_dtype_torch_name(t->dtype));
  if (t->rank && tc_int_eq(a, t->sizes[dim], tc_int_const(a, 0)) == 1)
    return tc_op_fail(a, "expected reduction dim %lld to have non-zero size: %s", (long long)dim,
                      tc_op_shape_text(a, 0));
  reduced[dim] = true;
  return tc_meta_reduced(a, 0, t->dtype, reduced, keep) || tc_meta_reduced(a, 1, TC_I64, reduced, keep);
}
static int32_t mode_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_result_data(a, 0), *ids = tc_op_result_data(a, 1);
  int64_t dim = tc_op_dim(a, 1, x->rank), i[TC_MAX_RANK] = {0}, out = 0, n = x->rank ? x->sizes[dim] : 1,
          s = x->rank ? x->strides[dim] : 0;
  for (bool more = tc_ref_numel(x) > 0; more; more = tc_ref_next(x->rank, x->sizes, i)) {
    if (x->rank && i[dim]) continue; // a line of the dimension is done at its first element
    int64_t base = tc_ref_offset(x, i), best = -1, most = 0;
    for (int64_t k = 0; k < n; k++) {
      double v = tc_ref_f(x, base + k * s);
      int64_t count = 0;
      for (int64_t j = 0; j < n; j++) count += tc_ref_f(x, base + j * s) == v;
      bool smaller = best >= 0 && v <= tc_ref_f(x, base + best * s);
      if (count > most || (count == most && smaller) || best < 0) best = k, most = count;
    }
    int64_t to = 0;
    for (int32_t d = 0, k = 0; d < x->rank; d++) {
      if (d == dim) k += y->rank == x->rank;
      else to += i[d] * y->strides[k++];
    }
    tc_ref_copy(y, to, x, base + best * s);
    tc_ref_put_i(ids, to, best);
    out++;
  }
  return TC_STATUS_OK;
}

// ---- bincount, histc, histogram ----
static int32_t bincount_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0), *w = tc_op_tensor(a, 1);
  char c = tc_dtype_class(t->dtype);
  if (t->rank != 1 || (c != 'i' && c != 'u'))
    return tc_op_fail(a, "bincount only supports 1-d non-negative integral inputs, not %s", tc_op_shape_text(a, 0));
  if (w && (w->rank != 1 || tc_int_require_eq(a, w->sizes[0], t->sizes[0])))
    return tc_op_fail(a, "weights should be 1-d and have the same length as input: %s and %s", tc_op_shape_text(a, 1),
                      tc_op_shape_text(a, 0));
  tc_int n = tc_op_unbacked(a, 0, INT64_MAX);
  return tc_op_set_result(a, 0, !w ? TC_I64 : w->dtype == TC_F32 ? TC_F32 : TC_F64, 1, &n, NULL);
}
static int32_t bincount_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *w = tc_op_data(a, 1);
  int64_t n = tc_op_int(a, 2, 0), count = tc_ref_numel(x);
  for (int64_t k = 0; k < count; k++) {
    int64_t v = tc_ref_i(x, k * x->strides[0]);
    if (v < 0) return tc_op_fail(a, "bincount only supports 1-d non-negative integral inputs");
    if (v >= n) n = v + 1;
  }
  const tc_ref_view *y = tc_op_alloc_result(a, 0, 1, &n);
  if (!y) return TC_STATUS_INVALID_ARGUMENT;
  for (int64_t k = 0; k < count; k++) {
    int64_t v = tc_ref_i(x, k * x->strides[0]);
    if (w) tc_ref_put(y, v, (tc_c128){tc_ref_f(y, v) + tc_ref_f(w, k * w->strides[0]), 0});
    else tc_ref_put_i(y, v, tc_ref_i(y, v) + 1);
  }
  return TC_STATUS_OK;
}

// Both edges belong to the range. Bins of equal width, or between given edges.
static int32_t histc_meta(tc_op_args *a) {
  tc_int n = tc_op_sym(a, 1);
  double lo = tc_op_float(a, 2, 0), hi = tc_op_float(a, 3, 0);
  if (!tc_dtype_is_float(tc_op_tensor(a, 0)->dtype))
    return tc_op_fail(a, "histc is not implemented for %s", tc_dtype_torch_name(tc_op_tensor(a, 0)->dtype));
  if (!isfinite(lo) || !isfinite(hi) || lo > hi)
    return tc_op_fail(a, "the range must be finite, and max be larger than min: [%g, %g]", lo, hi);
  if (tc_int_lt(a, n, tc_int_const(a, 1)) == 1)
    return tc_op_fail(a, "bins must be > 0, but got %lld", (long long)tc_op_int(a, 1, 0));
  return tc_op_set_result(a, 0, tc_op_tensor(a, 0)->dtype, 1, &n, NULL);
}
static int32_t range_of(tc_op_args *a, const tc_ref_view *x, double *lo, double *hi) {
  int64_t i[TC_MAX_RANK] = {0};
  bool finite = true;
  if (tc_ref_numel(x) == 0) return TC_STATUS_OK;
  *lo = INFINITY, *hi = -INFINITY;
  for (bool more = true; more; more = tc_ref_next(x->rank, x->sizes, i)) {
    double v = tc_ref_f(x, tc_ref_offset(x, i));
    finite = finite && isfinite(v);
    *lo = fmin(*lo, v), *hi = fmax(*hi, v);
  }
  return finite ? TC_STATUS_OK : tc_op_fail(a, "the range of what is counted is not finite");
}
static void count_bins(const tc_ref_view *x, const tc_ref_view *w, const tc_ref_view *y, double lo, double hi,
                       const tc_ref_view *edges) {
  int64_t i[TC_MAX_RANK] = {0}, bins = y->sizes[0];
  for (bool more = tc_ref_numel(x) > 0; more; more = tc_ref_next(x->rank, x->sizes, i)) {
    double v = tc_ref_f(x, tc_ref_offset(x, i));
    if (!(v >= lo && v <= hi)) continue;
    double place = (v - lo) / (hi - lo) * (double)bins;
    int64_t b = place > 0 ? (int64_t)fmin(place, (double)bins) : 0; // NaN: edges that coincide
    if (edges) {
      b = bins > 0 ? 0 : -1;
      for (int64_t k = 1; k < bins; k++) b += v >= tc_ref_f(edges, k * edges->strides[0]);
    }
    if (b >= bins) b = bins - 1;
    if (b < 0) return; // no bins between a single edge
    double add = w ? tc_ref_f(w, tc_ref_offset(w, i)) : 1;
    tc_ref_put(y, b, (tc_c128){tc_ref_f(y, b) + add, 0});
  }
}
static int32_t histc_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_result_data(a, 0);
  double lo = tc_op_float(a, 2, 0), hi = tc_op_float(a, 3, 0);
  if (lo == hi && range_of(a, x, &lo, &hi)) return TC_STATUS_INVALID_ARGUMENT;
  if (lo == hi) lo -= 1, hi += 1;
  count_bins(x, NULL, y, lo, hi, NULL);
  return TC_STATUS_OK;
}
// What all histograms ask of numbers, weights and ranges; `n` dimensions. Numbers of bins are made edges of in f32 and
// f64 only.
static int32_t check_histogram(tc_op_args *a, int64_t n) {
  const tc_tensor_type *t = tc_op_tensor(a, 0), *w = tc_op_tensor(a, tc_op_arg_index(a, "weight"));
  bool edges = tc_op_kind(a, 1) == TC_AK_TENSOR || tc_op_kind(a, 1) == TC_AK_TENSORS;
  if (!tc_dtype_is_float(t->dtype) || (!edges && t->dtype != TC_F32 && t->dtype != TC_F64))
    return tc_op_fail(a, "histograms are not implemented for %s", tc_dtype_torch_name(t->dtype));
  if (w && w->dtype != t->dtype)
    return tc_op_fail(a, "input and weight must have the same dtype: %s and %s", tc_op_shape_text(a, 0),
                      tc_op_shape_text(a, tc_op_arg_index(a, "weight")));
  int32_t range = tc_op_arg_index(a, "range");
  if (range < 0 || tc_op_kind(a, range) == TC_AK_NONE) return TC_STATUS_OK;
  if (tc_op_count(a, range) != 2 * n)
    return tc_op_fail(a, "for a %lld-dimensional histogram range should have %lld elements, but got %d", (long long)n,
                      (long long)(2 * n), tc_op_count(a, range));
  for (int32_t d = 0; d < n; d++) {
    double lo = tc_op_float_at(a, range, 2 * d, 0), hi = tc_op_float_at(a, range, 2 * d + 1, 0);
    if (!isfinite(lo) || !isfinite(hi) || lo > hi)
      return tc_op_fail(a, "the range of dimension %d must be finite, and min not exceed max: [%g, %g]", d, lo, hi);
  }
  return TC_STATUS_OK;
}
static int32_t histogram_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0), *edges = tc_op_kind(a, 1) == TC_AK_TENSOR ? tc_op_tensor(a, 1) : NULL;
  if (edges && edges->rank != 1) return tc_op_fail(a, "bins must be a vector: %s", tc_op_shape_text(a, 1));
  if (check_histogram(a, 1)) return TC_STATUS_INVALID_ARGUMENT;
  if (edges && (edges->dtype != t->dtype || tc_int_lt(a, edges->sizes[0], tc_int_const(a, 2)) == 1))
    return tc_op_fail(a, "bins must be edges of the input's dtype, at least two: %s for %s", tc_op_shape_text(a, 1),
                      tc_op_shape_text(a, 0));
  if (!edges && tc_int_lt(a, tc_op_sym(a, 1), tc_int_const(a, 1)) == 1)
    return tc_op_fail(a, "bins must be > 0, but got %lld", (long long)tc_op_int(a, 1, 0));
  int32_t weight = tc_op_arg_index(a, "weight");
  const tc_tensor_type *w = tc_op_tensor(a, weight);
  bool same = !w || w->rank == t->rank;
  for (int32_t d = 0; w && same && d < t->rank; d++) same = !tc_int_require_eq(a, w->sizes[d], t->sizes[d]);
  if (!same)
    return tc_op_fail(a, "weight must have the input's shape: %s and %s", tc_op_shape_text(a, weight),
                      tc_op_shape_text(a, 0));
  tc_int one = tc_int_const(a, 1), bins = edges ? tc_int_sub(a, edges->sizes[0], one) : tc_op_sym(a, 1),
         ends = tc_int_add(a, bins, one);
  return tc_op_set_result(a, 0, t->dtype, 1, &bins, NULL) || tc_op_set_result(a, 1, t->dtype, 1, &ends, NULL);
}
static int32_t histogram_ref(tc_op_args *a) {
  int32_t range = tc_op_arg_index(a, "range"), weight = tc_op_arg_index(a, "weight"),
          density = tc_op_arg_index(a, "density");
  bool given = tc_op_kind(a, 1) == TC_AK_TENSOR;
  const tc_ref_view *x = tc_op_data(a, 0), *w = tc_op_data(a, weight), *y = tc_op_result_data(a, 0),
                    *ends = tc_op_result_data(a, 1), *edges = given ? tc_op_data(a, 1) : ends;
  int64_t bins = y->sizes[0];
  double lo = 0, hi = tc_ref_numel(x) == 0; // of nothing
  if (range >= 0 && tc_op_count(a, range) == 2)
    lo = tc_op_float_at(a, range, 0, 0), hi = tc_op_float_at(a, range, 1, 0);
  else if (!given && range_of(a, x, &lo, &hi)) return TC_STATUS_INVALID_ARGUMENT;
  if (lo == hi) lo -= 0.5, hi += 0.5;
  for (int64_t k = 0; k <= bins; k++) {
    if (given) tc_ref_copy(ends, k, edges, k * edges->strides[0]);
    else
      tc_ref_put(ends, k,
                 (tc_c128){k < (bins + 1) / 2 ? lo + (double)k * ((hi - lo) / (double)bins)
                                              : hi - (double)(bins - k) * ((hi - lo) / (double)bins),
                           0});
  }
  if (given && bins >= 0) lo = tc_ref_f(ends, 0), hi = tc_ref_f(ends, bins);
  count_bins(x, w, y, lo, hi, ends);
  double total = 0;
  for (int64_t k = 0; k < bins; k++) total += tc_ref_f(y, k);
  for (int64_t k = 0; k < bins && tc_op_bool(a, density, 0); k++)
    tc_ref_put(y, k, (tc_c128){tc_ref_f(y, k) / total / (tc_ref_f(ends, k + 1) - tc_ref_f(ends, k)), 0});
  return TC_STATUS_OK;
}

// ---- hash_tensor: exclusive or over the bits of all elements, as 64-bit numbers ----
static int32_t hash_meta(tc_op_args *a) {
  bool reduced[TC_MAX_RANK];
  if (tc_op_int(a, 3, 0) != 0) return tc_op_fail(a, "hash_tensor knows mode 0 only");
  if (tc_reduced_dims(a, 1, tc_op_tensor(a, 0)->rank, reduced)) return TC_STATUS_INVALID_ARGUMENT;
  return tc_meta_reduced(a, 0, TC_U64, reduced, tc_op_bool(a, 2, 0));
}
static int32_t hash_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_result_data(a, 0);
  bool reduced[TC_MAX_RANK], keep = tc_op_bool(a, 2, 0);
  int64_t i[TC_MAX_RANK] = {0};
  if (tc_reduced_dims(a, 1, x->rank, reduced)) return TC_STATUS_INVALID_ARGUMENT;
  for (bool more = tc_ref_numel(x) > 0; more; more = tc_ref_next(x->rank, x->sizes, i)) {
    union {
      double real;
      int64_t bits;
    } v;
    int64_t to = 0, at = tc_ref_offset(x, i);
    for (int32_t d = 0, k = 0; d < x->rank; d++) {
      if (!reduced[d]) to += i[d] * y->strides[k++];
      else k += keep;
    }
    if (x->dtype == TC_I64) v.bits = tc_ref_i(x, at);
    else v.real = tc_ref_f(x, at);
    tc_ref_put_i(y, to, tc_ref_i(y, to) ^ v.bits);
  }
  return TC_STATUS_OK;
}

// Bit by bit: the parity of how many elements have it.
static int32_t hash_lower(tc_op_args *a) {
  enum { BITS = 64 };
  const tc_tensor_type *x = tc_op_tensor(a, 0), *y = tc_op_result_type(a, 0);
  bool reduced[TC_MAX_RANK];
  tc_int par[TC_MAX_RANK + 1], red[TC_MAX_RANK], i[2 * TC_MAX_RANK + 1], at[TC_MAX_RANK], bits = tc_int_const(a, BITS);
  int32_t n_par = 0, n_red = 0;
  if (tc_reduced_dims(a, 1, x->rank, reduced)) return TC_STATUS_INVALID_ARGUMENT;
  for (int32_t d = 0; d < x->rank; d++) {
    if (reduced[d]) red[n_red++] = x->sizes[d];
    else par[n_par++] = x->sizes[d];
  }
  if (n_par >= TC_MAX_RANK) return tc_op_fail(a, "rank %d is too large", x->rank);
  par[n_par] = bits;
  tc_lo_begin_reduce(a, TC_RED_SUM, n_par + 1, par, n_red, red, i);
  for (int32_t d = 0, p = 0, r = n_par + 1; d < x->rank; d++) at[d] = reduced[d] ? i[r++] : i[p++];
  static const char *const names[] = {"x", "j"};
  char c = tc_dtype_class(x->dtype);
  tc_bval values[2] = {tc_lo_load(a, tc_lo_arg(a, 0), at), tc_lo_index(a, i[n_par], TC_I64)};
  tc_bval word = c == 'f' ? tc_lo_text(a, "bits_of(f64(x))", 1, names, values) : tc_lo_cast(a, values[0], TC_I64);
  tc_bval one = tc_lo_const_int(a, TC_I64, 1);
  tc_lt sums = tc_lo_end(a, tc_lo_op2(a, TC_K_AND, tc_lo_op2(a, TC_K_SHR, word, values[1]), one), TC_I64);
  tc_lo_begin_reduce(a, TC_RED_SUM, n_par, par, 1, &bits, i);
  tc_bval odd = tc_lo_op2(a, TC_K_AND, tc_lo_load(a, sums, i), tc_lo_const_int(a, TC_I64, 1));
  tc_lt v = tc_lo_end(a, tc_lo_op2(a, TC_K_SHL, odd, tc_lo_index(a, i[n_par], TC_I64)), TC_I64);
  tc_lt whole = tc_lo_reshape(a, v, y->rank, y->sizes);
  tc_lo_begin(a, y->rank, y->sizes, i);
  tc_lo_result(a, 0, tc_lo_end(a, tc_lo_load(a, whole, i), TC_U64));
  return TC_STATUS_OK;
}

// ---- histogramdd: joint bins of the columns of points ----
static tc_gv column_edges(tc_op_args *a, tc_gv column, int32_t d) {
  int32_t range = tc_op_arg_index(a, "range");
  bool ranged = range >= 0 && tc_op_count(a, range) > 0;
  if (tc_op_kind(a, 1) == TC_AK_TENSORS) {
    tc_gv edges = tc_ex_arg_at(a, 1, d);
    tc_ex_begin(a, "aten::clone");
    tc_ex_push(a, edges);
    return tc_ex_make(a, 1, NULL);
  }
  tc_ex_begin(a, "aten::_histogram_edges");
  tc_ex_push(a, column);
  tc_ex_push_int(a, tc_op_sym_at(a, 1, tc_op_count(a, 1) > 1 ? d : 0));
  for (int32_t i = 0; i < 2; i++) {
    if (ranged) tc_ex_push_float(a, tc_op_float_at(a, range, 2 * d + i, 0));
    else tc_ex_push_none(a);
  }
  return tc_ex_make(a, 1, NULL);
}

static int32_t check_points(tc_op_args *a, int64_t *out_n) {
  const tc_tensor_type *t = tc_op_tensor(a, 0), *w = tc_op_tensor(a, tc_op_arg_index(a, "weight"));
  bool lists = tc_op_kind(a, 1) == TC_AK_TENSORS;
  if (t->rank < 2 || !tc_int_is_const(t->sizes[t->rank - 1], out_n) || *out_n < 1 || *out_n > TC_MAX_RANK)
    return tc_op_fail(a, "input must have at least 2 dimensions, the last of 1 to %d coordinates: %s", TC_MAX_RANK,
                      tc_op_shape_text(a, 0));
  if (check_histogram(a, *out_n)) return TC_STATUS_INVALID_ARGUMENT;
  if (tc_op_kind(a, 1) != TC_AK_INT && tc_op_count(a, 1) != *out_n)
    return tc_op_fail(a, "expected bins for each of %lld dimensions, but got %d", (long long)*out_n, tc_op_count(a, 1));
  for (int32_t d = 0; d < *out_n; d++) {
    const tc_tensor_type *e = lists ? tc_op_tensor_at(a, 1, d) : NULL;
    if (lists && (!e || e->rank != 1 || e->dtype != t->dtype || tc_int_lt(a, e->sizes[0], tc_int_const(a, 1)) == 1))
      return tc_op_fail(a, "bins must be vectors of edges of the input's dtype, at least one each");
    if (!lists && tc_int_lt(a, tc_op_sym_at(a, 1, tc_op_count(a, 1) > 1 ? d : 0), tc_int_const(a, 1)) == 1)
      return tc_op_fail(a, "the number of bins of dimension %d must be positive", d);
  }
  bool same = !w || w->rank == t->rank - 1;
  for (int32_t d = 0; w && same && d < w->rank; d++) same = !tc_int_require_eq(a, w->sizes[d], t->sizes[d]);
  return same ? TC_STATUS_OK
              : tc_op_fail(a, "weight must have the input's shape without its last dimension: %s and %s",
                           tc_op_shape_text(a, tc_op_arg_index(a, "weight")), tc_op_shape_text(a, 0));
}

static int32_t joint_expand(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  int64_t n;
  tc_gv edges[TC_MAX_RANK], both[2] = {-1, -1}, x = tc_ex_arg(a, 0);
  tc_int bins[TC_MAX_RANK], one = tc_int_const(a, 1);
  if (check_points(a, &n)) return TC_STATUS_INVALID_ARGUMENT;
  bool edges_only = tc_sv_is(a->op->schema.name, "_histogramdd_bin_edges"),
       count_only = a->op->schema.n_returns == 1 && !edges_only;
  tc_int rows = one;
  for (int32_t d = 0; d < t->rank - 1; d++) rows = tc_int_mul(a, rows, t->sizes[d]);
  tc_int flat[2] = {rows, t->sizes[t->rank - 1]};
  tc_ex_begin(a, "aten::reshape");
  tc_ex_push(a, x);
  tc_ex_push_ints(a, 2, flat);
  x = tc_ex_make(a, 1, NULL);
  for (int32_t d = 0; d < n; d++) {
    tc_gv at[4] = {both[0], both[1]};
    tc_ex_begin(a, "aten::select.int");
    tc_ex_push(a, x);
    tc_ex_push_int(a, one);
    tc_ex_push_int(a, tc_int_const(a, d));
    tc_gv column = tc_ex_make(a, 1, NULL);
    edges[d] = column_edges(a, column, d);
    if (!tc_ex_type(a, edges[d])) return TC_STATUS_INVALID_ARGUMENT;
    bins[d] = tc_int_sub(a, tc_ex_type(a, edges[d])->sizes[0], one);
    tc_ex_begin(a, "aten::_histogram_place");
    tc_ex_push(a, column);
    tc_ex_push(a, edges[d]);
    tc_ex_make(a, 2, d ? at + 2 : both);
    if (d == 0) continue;
    tc_ex_begin(a, "aten::_histogram_joint");
    for (int32_t i = 0; i < 4; i++) tc_ex_push(a, at[i]);
    tc_ex_push_int(a, bins[d]);
    tc_ex_make(a, 2, both);
  }
  for (int32_t d = 0; d < n && !count_only; d++) tc_ex_result(a, d + !edges_only, edges[d]);
  if (edges_only) return TC_STATUS_OK;
  tc_ex_begin(a, "aten::_histogram_count");
  tc_ex_push(a, both[0]);
  tc_ex_push(a, both[1]);
  tc_ex_push_arg(a, tc_op_arg_index(a, "weight"));
  tc_ex_push_ints(a, (int32_t)n, bins);
  tc_gv count = tc_ex_make(a, 1, NULL);
  if (tc_op_bool(a, tc_op_arg_index(a, "density"), 0)) {
    tc_ex_begin(a, "aten::sum");
    tc_ex_push(a, count);
    tc_gv total = tc_ex_make(a, 1, NULL);
    tc_ex_begin(a, "aten::div.Tensor");
    tc_ex_push(a, count);
    tc_ex_push(a, total);
    count = tc_ex_make(a, 1, NULL);
    for (int32_t d = 0; d < n; d++) {
      tc_ex_begin(a, "aten::_histogram_by_width");
      tc_ex_push(a, count);
      tc_ex_push(a, edges[d]);
      tc_ex_push_int(a, tc_int_const(a, n - 1 - d));
      count = tc_ex_make(a, 1, NULL);
    }
  }
  tc_ex_begin(a, "aten::to.dtype");
  tc_ex_push(a, count);
  tc_ex_push_dtype(a, t->dtype);
  tc_ex_result(a, 0, tc_ex_make(a, 1, NULL));
  return TC_STATUS_OK;
}

#define JOINT(s, results) {.schema = s " -> " results, .expand = joint_expand}
#define MORE "Tensor? weight=None, bool density=False)"
#define TEXT(s, d) {.schema = s, .decompose = d}
#define CODE(s, m, r) {.schema = s, .meta = m, .ref = r}
// A rank-0 tensor has one element to choose from.
#define LINE "let x = if(self.rank == 0, unsqueeze(self, 0), self); let n = x.size(dim);"
#define OUT(v) "if(self.rank == 0, squeeze(" v ", 0), if(keepdim, " v ", squeeze(" v ", dim)))"
// The lower median; a NaN is the median where there is one, its first place the index.
#define MEDIAN                                                                                    \
  LINE "let v, i = sort.stable(x, stable=true, dim=dim, descending=false); let m = (n - 1) // 2;" \
       "let p = slice(v, dim, m, m + 1); let q = slice(i, dim, m, m + 1); let bad = isnan(x);"    \
       "let any = any(bad, dim, true); let where_nan = argmax(to(bad, u8), dim, true);"           \
       "let r = if(is_int(x), p, where(any, nan, p)); let s = if(is_int(x), q, where(any, where_nan, q));"
#define NANMEDIAN                                                                                                      \
  LINE "let v, i = sort.stable(x, stable=true, dim=dim, descending=false); let c = sum(logical_not(isnan(x)), [dim], " \
       "true);"                                                                                                        \
       "let m = clamp_min(div(sub(c, 1), 2, rounding_mode=\"floor\"), 0);"                                             \
       "let r = gather(v, dim, m); let s = gather(i, dim, m);"
#define KTH                                                                 \
  LINE "let v, i = sort.stable(x, stable=true, dim=dim, descending=false);" \
       "let at = full([1], k - 1, dtype=i64); let r = index_select(v, dim, at); let s = index_select(i, dim, at);"
// Quantiles of lines x (last dimension) at ranks; `c` counts what takes part.
#define QUANTILE(count, after)                                                                                         \
  "let x = if(is_none(dim), reshape(self, [-1]), movedim(self, dim, -1)); let v, order = sort(x, -1); let c = " count  \
  ";"                                                                                                                  \
  "let qs = reshape(if(is_none(q_list), full([1], q_number, dtype=x.dtype), q_list), [-1]);"                           \
  "let rank = mul(clamp_min(to(sub(c, 1), x.dtype), 0), qs);"                                                          \
  "let place = if(interpolation == \"lower\", floor(rank), if(interpolation == \"higher\", ceil(rank), "               \
  "if(interpolation == \"nearest\", round(rank), rank))); let low = floor(place); let high = ceil(place);"             \
  "let y0 = gather(v, -1, to(low, i64)); let y1 = gather(v, -1, to(high, i64));"                                       \
  "let t = if(interpolation == \"midpoint\", mul(ones_like(place), 0.5), sub(place, low));"                            \
  "let between = lerp(y0, y1, t); let r = " after ";"                                                                  \
  "let all = if(is_none(q_list) || q_list.rank == 0, squeeze(r, -1), movedim(r, -1, 0));"                              \
  "if(!keepdim, all, if(is_none(dim), reshape(all, if(is_none(q_list) || q_list.rank == 0, sum(self, [], "             \
  "true).sizes, "                                                                                                      \
  "unsqueeze(sum(self, [], true), 0).sizes)), unsqueeze(all, if(is_none(q_list) || q_list.rank == 0 || dim < 0, dim, " \
  "dim + 1))))"
// The range of counted values: as given, or that of the data (of none: 0 to `empty`), widened where it is a point.
#define RANGE(low, high, of_data, empty, by)                                                         \
  "let l = if(" of_data ", if(self.numel == 0, zeros([], dtype=f64), amin(x)), " low ");"            \
  "let h = if(" of_data ", if(self.numel == 0, full([], " empty ", dtype=f64), amax(x)), " high ");" \
  "let point = eq(l, h); let lo = where(point, sub(l, " by "), l); let hi = where(point, add(h, " by "), h);"
// Adds up `weights` by bin, those inside only.
#define COUNT(bin, weights) \
  "let count = index_add(zeros([bins], dtype=f64), 0, where(inside, " bin ", 0), to(" weights ", f64));"
#define WEIGHTS "let w = if(is_none(weight), ones_like(b, dtype=f64), to(reshape(weight, [-1]), f64));"
#define HISTOGRAM                                                                                    \
  "let b, inside = _histogram_place(reshape(self, [-1]), edges); let n = edges.size(0) - 1;" WEIGHTS \
  "let c = index_add(zeros([n], dtype=f64), 0, where(inside, b, 0), where(inside, w, 0.0));"         \
  "to(if(density, _histogram_by_width(div(c, sum(c)), edges, 0), c), self.dtype), edges"
#define PLAIN QUANTILE("sum(ones_like(x, dtype=i64), [-1], true)", "where(any(isnan(x), -1, true), nan, between)")
#define WITHOUT_NAN QUANTILE("sum(logical_not(isnan(x)), [-1], true)", "between")
#define QUANTILES(name, text)                                                                                        \
  TEXT(name "(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation=\"linear\") -> Tensor", \
       "_" name "(self, q, 0.0, dim, keepdim, interpolation)"),                                                      \
      TEXT(name                                                                                                      \
           ".scalar(Tensor self, float q, int? dim=None, bool keepdim=False, *, str interpolation=\"linear\") -> "   \
           "Tensor",                                                                                                 \
           "_" name "(self, none, q, dim, keepdim, interpolation)"),                                                 \
      TEXT("_" name                                                                                                  \
           "(Tensor self, Tensor? q_list, float q_number, int? dim, bool keepdim, str interpolation) -> Tensor",     \
           text)
// The place in a sorted sequence: how many of its elements come before. Comparisons are negated so that NaN is last.
#define SEARCH(sequence, values)                                                                                  \
  "let seq = " sequence "; let v = " values "; let after = right || (!is_none(side_of) && side_of == \"right\");" \
  "let s = if(seq.rank == 1, seq, unsqueeze(seq, -2)); let w = unsqueeze(v, -1);"                                 \
  "sum(if(after, logical_not(gt(s, w)), logical_not(ge(s, w))), [-1], dtype=if(out_int32, i32, i64))"
static const tc_op_def rows[] = {
    TEXT("median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
         MEDIAN "_row_major(" OUT("r") "), _row_major(" OUT("s") ")"),
    TEXT("median(Tensor self) -> Tensor", "let v, i = median(reshape(self, [-1]), 0, false); v"),
    TEXT("nanmedian.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
         NANMEDIAN OUT("r") ", " OUT("s")),
    TEXT("nanmedian(Tensor self) -> Tensor", "let v, i = nanmedian(reshape(self, [-1]), 0, false); v"),
    TEXT("kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
         KTH OUT("r") ", " OUT("s")),
    // The first of the longest runs of equal elements in order: the smallest value, at its last place.
    {.schema = "mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
     .meta = mode_meta,
     .decompose = LINE "let v, i = sort.stable(x, stable=true, dim=dim, descending=false);"
                       "let k = sub(cumsum(ones_like(v, dtype=i64), dim), 1);"
                       "let first = where(logical_or(eq(k, 0), ne(v, roll(v, [1], [dim]))), k, 0);"
                       "let start, at = cummax(first, dim); let p = argmax(sub(k, start), dim, true);"
                       "let r = gather(v, dim, p); let s = gather(i, dim, p);" OUT("r") ", " OUT("s"),
     .ref = mode_ref},
    QUANTILES("quantile", PLAIN),
    QUANTILES("nanquantile", WITHOUT_NAN),
    TEXT("searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False, str? "
         "side=None, Tensor? sorter=None) -> Tensor",
         "let side_of = side; " SEARCH("if(is_none(sorter), sorted_sequence, gather(sorted_sequence, -1, sorter))",
                                       "self")),
    TEXT("searchsorted.Scalar(Tensor sorted_sequence, Scalar self, *, bool out_int32=False, bool right=False, str? "
         "side=None, Tensor? sorter=None) -> Tensor",
         "let side_of = side; " SEARCH("if(is_none(sorter), sorted_sequence, gather(sorted_sequence, -1, sorter))",
                                       "scalar_tensor(self)")),
    TEXT("bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
         "let side_of = none; " SEARCH("boundaries", "self")),
    TEXT("bucketize.Scalar(Scalar self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
         "let side_of = none; " SEARCH("boundaries", "scalar_tensor(self)")),
    {.schema = "bincount(Tensor self, Tensor? weights=None, SymInt minlength=0) -> Tensor",
     .traits = TC_OP_DATA_DEPENDENT,
     .meta = bincount_meta,
     .decompose = "let x = to(self, i64); let top = amax(cat([x, full([1], minlength - 1, dtype=i64)]), [0]);"
                  "let low = amin(cat([x, full([1], 0, dtype=i64)]), [0]);"
                  "let n = item(where(lt(low, 0), -1, add(top, 1)));"
                  "let w = if(is_none(weights), ones_like(x), to(weights, if(weights.dtype == f32, f32, f64)));"
                  "scatter_add(full([n], 0, dtype=w.dtype), 0, x, w)",
     .ref = bincount_ref},
    {.schema = "histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor",
     .meta = histc_meta,
     .decompose = "let x = to(reshape(self, [-1]), f64);" RANGE(
         "full([], min, dtype=f64)", "full([], max, dtype=f64)", "min == max", "0",
         "1") "let inside = logical_and(ge(x, lo), le(x, hi));"
              "let b = to(mul(div(sub(x, lo), sub(hi, lo)), bins), i64);" COUNT("clamp(b, 0, bins - 1)",
                                                                                "inside") "to(count, "
                                                                                          "self.dtype)",
     .ref = histc_ref},
    {.schema = "histogram.bin_ct(Tensor self, int bins=100, *, float[]? range=None, Tensor? weight=None, bool "
               "density=False) -> (Tensor hist, Tensor bin_edges)",
     .meta = histogram_meta,
     .decompose = "let edges = _histogram_edges(self, bins, if(is_none(range), none, range[0]), if(is_none(range), "
                  "none, range[1]));" HISTOGRAM,
     .ref = histogram_ref},
    {.schema = "histogram.bins_tensor(Tensor self, Tensor bins, *, Tensor? weight=None, bool density=False) -> (Tensor "
               "hist, Tensor bin_edges)",
     .meta = histogram_meta,
     .decompose = "let edges = clone(bins);" HISTOGRAM,
     .ref = histogram_ref},
    TEXT("_histogram_edges(Tensor self, int bins, float? low, float? high) -> Tensor",
         "let x = to(reshape(self, [-1]), f64);" RANGE(
             "full([], low, dtype=f64)", "full([], high, dtype=f64)", "is_none(low)", "1",
             "0.5") "let k = to(arange(bins + 1), f64); let step = div(sub(hi, lo), bins); to(where(lt(k, (bins + 1) "
                    "// 2), "
                    "add(lo, mul(k, step)), sub(hi, mul(rsub(k, bins), step))), self.dtype)"),
    // The bin is the number of inner edges that are not above. Second: is it between the outer ones?
    TEXT("_histogram_place(Tensor self, Tensor edges) -> (Tensor, Tensor)",
         "let x = to(self, f64); let e = to(edges, f64); let n = e.size(0) - 1; searchsorted(slice(e, 0, 1, n), x, "
         "right=true), logical_and(ge(x, slice(e, 0, 0, 1)), le(x, slice(e, 0, n, n + 1)))"),
    TEXT("_histogram_by_width(Tensor self, Tensor edges, int behind) -> Tensor",
         "let e = to(edges, f64); let n = e.size(0) - 1; div(self, reshape(sub(slice(e, 0, 1, n + 1), slice(e, 0, 0, "
         "n)), [n] + repeated(1, behind)))"),
    TEXT("_histogram_joint(Tensor place, Tensor inside, Tensor more, Tensor inside_more, SymInt n) -> (Tensor, Tensor)",
         "add(mul(place, n), more), logical_and(inside, inside_more)"),
    TEXT("_histogram_count(Tensor b, Tensor inside, Tensor? weight, SymInt[] sizes) -> Tensor",
         WEIGHTS "reshape(index_add(zeros([product(sizes)], dtype=f64), 0, where(inside, b, 0), where(inside, w, "
                 "0.0)), sizes)"),
    JOINT("histogramdd(Tensor self, int[] bins, float[]? range=None, " MORE, "(Tensor hist, Tensor[] bin_edges)"),
    JOINT("histogramdd.int_bins(Tensor self, int bins, float[]? range=None, " MORE,
          "(Tensor hist, Tensor[] bin_edges)"),
    JOINT("histogramdd.TensorList_bins(Tensor self, Tensor[] bins, float[]? range=None, " MORE,
          "(Tensor hist, Tensor[] bin_edges)"),
    JOINT("_histogramdd_bin_edges(Tensor self, int[] bins, *, float[]? range=None, " MORE, "Tensor[]"),
    JOINT("_histogramdd_from_bin_cts(Tensor self, int[] bins, *, float[]? range=None, " MORE, "Tensor"),
    JOINT("_histogramdd_from_bin_tensors(Tensor self, Tensor[] bins, *, " MORE, "Tensor"),
    {.schema = "hash_tensor(Tensor self, int[1] dim=[], *, bool keepdim=False, int mode=0) -> Tensor",
     .meta = hash_meta,
     .lower = hash_lower,
     .ref = hash_ref},
};
TC_OP_FAMILY(order);
