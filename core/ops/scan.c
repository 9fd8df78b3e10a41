// Running sums, products, extremes and log-sums along a dimension.
//
// Lowering: the template "scan" over the dimension, made the last one. Few long rows are scanned in chunks, so that
// all cores take part: the chunks' sums (a reduction), a scan of those, then the scan that starts from them. Running
// extremes are scanned as positions; their values are gathered.
#include <math.h>

#include "core/ops/ops.h"

enum { CHUNK = 16384, FEW_ROWS = 8 };

static int32_t kind_of(tc_op_args *a) {
  static const char *const names[] = {
      [TC_SCAN_SUM] = "cumsum", [TC_SCAN_PROD] = "cumprod",        [TC_SCAN_MAX] = "cummax",
      [TC_SCAN_MIN] = "cummin", [TC_SCAN_LOGSUM] = "logcumsumexp",
  };
  for (int32_t i = 0; i < (int32_t)(sizeof names / sizeof *names); i++) {
    if (tc_sv_is(a->op->schema.name, names[i])) return i;
  }
  return -1;
}

static int32_t scan_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  int32_t kind = kind_of(a);
  bool number = tc_dtype_is_float(t->dtype) || tc_dtype_is_complex(t->dtype);
  if (tc_op_dim(a, 1, t->rank) < 0) return TC_STATUS_INVALID_ARGUMENT;
  if (kind <= TC_SCAN_PROD) {
    tc_dtype d = tc_op_dtype(a, 2, number ? t->dtype : TC_I64);
    if (d == TC_BOOL)
      return tc_op_fail(a, "\"%s\" not implemented for 'Bool'", kind == TC_SCAN_SUM ? "cumsum" : "cumprod");
    return tc_op_set_result(a, 0, d, t->rank, t->sizes, NULL);
  }
  if (kind == TC_SCAN_LOGSUM && !number)
    return tc_op_fail(a, "logcumsumexp is for floating point numbers: %s", tc_op_shape_text(a, 0));
  if (kind != TC_SCAN_LOGSUM && tc_dtype_is_complex(t->dtype))
    return tc_op_fail(a, "complex numbers have no order: %s", tc_op_shape_text(a, 0));
  int32_t status = tc_op_set_result(a, 0, t->dtype, t->rank, t->sizes, NULL);
  return status || kind == TC_SCAN_LOGSUM ? status : tc_op_set_result(a, 1, TC_I64, t->rank, t->sizes, NULL);
}

// Sums or products of the chunks of the last dimension, scanned: what comes before the chunk behind.
static tc_lt chunk_ends(tc_op_args *a, tc_lt x, int32_t kind, tc_dtype type) {
  int32_t rank = tc_lo_rank(a, x);
  tc_int n = tc_lo_size(a, x, rank - 1), length = tc_int_const(a, CHUNK), sizes[TC_MAX_RANK], index[TC_MAX_RANK + 1];
  for (int32_t d = 0; d < rank - 1; d++) sizes[d] = tc_lo_size(a, x, d);
  sizes[rank - 1] = tc_int_floordiv(a, tc_int_add(a, n, tc_int_const(a, CHUNK - 1)), length);
  tc_lo_begin_reduce(a, kind == TC_SCAN_SUM ? TC_RED_SUM : TC_RED_PROD, rank, sizes, 1, &length, index);
  tc_int at = tc_int_add(a, tc_int_mul(a, index[rank - 1], length), index[rank]);
  tc_bval none = tc_lo_cast(a, tc_lo_const_int(a, TC_I64, kind == TC_SCAN_PROD), tc_lo_dtype(a, x));
  tc_int inside = tc_sym_cmp(a->syms, TC_SYM_LT, at, n);
  index[rank - 1] = at;
  tc_lt sums = tc_lo_end(a, tc_lo_cast(a, tc_lo_load_if(a, x, index, inside, none), type), type);
  tc_int attrs[3] = {tc_int_const(a, kind), tc_int_const(a, 0), tc_int_const(a, 0)};
  return tc_lo_template(a, "scan", 1, &sums, type, rank, sizes, 3, attrs);
}

static int32_t scan_lower(tc_op_args *a) {
  int32_t kind = kind_of(a), last = a->n_results - 1;
  const tc_tensor_type *r = tc_op_result_type(a, last);
  int64_t dim = tc_op_dim(a, 1, r->rank), rows = 1;
  tc_lt x = tc_lo_arg(a, 0);
  tc_int index[TC_MAX_RANK], sizes[TC_MAX_RANK];
  if (r->rank == 0) {
    tc_lo_begin(a, 0, NULL, index);
    tc_lo_result(a, 0, tc_lo_end(a, tc_lo_load(a, x, index), tc_op_result_type(a, 0)->dtype));
    if (last == 0) return TC_STATUS_OK;
    tc_lo_begin(a, 0, NULL, index);
    tc_lo_result(a, 1, tc_lo_end(a, tc_lo_const_int(a, TC_I64, 0), TC_I64));
    return TC_STATUS_OK;
  }
  tc_lt operands[2] = {tc_lower_moved(a, x, dim, r->rank - 1), -1};
  for (int32_t d = 0; d < r->rank; d++) {
    sizes[d] = tc_lo_size(a, operands[0], d);
    if (d < r->rank - 1) rows *= tc_int_hint(a, sizes[d], FEW_ROWS);
  }
  // Lanes run along what is contiguous: the last dimension, unless that is a handful of elements.
  bool across = dim != r->rank - 1 && tc_int_hint(a, r->sizes[r->rank - 1], 8) >= 4;
  bool chunked = kind <= TC_SCAN_PROD && rows < FEW_ROWS && !across && tc_int_hint(a, r->sizes[dim], CHUNK) > 4 * CHUNK;
  tc_dtype ends = r->dtype == TC_F32 ? TC_F64 : tc_op_math_type(r->dtype);
  if (chunked) operands[1] = chunk_ends(a, operands[0], kind, ends);
  tc_int attrs[3] = {tc_int_const(a, kind), tc_int_const(a, across), tc_int_const(a, chunked ? CHUNK : 0)};
  tc_lt scanned = tc_lo_template(a, "scan", 1 + chunked, operands, r->dtype, r->rank, sizes, 3, attrs);
  tc_lt y = tc_lower_moved(a, scanned, r->rank - 1, dim);
  tc_lo_result(a, last, y);
  if (last == 0) return TC_STATUS_OK;
  tc_bval by[TC_MAX_RANK];
  tc_lo_begin(a, r->rank, r->sizes, index);
  for (int32_t k = 0; k < r->rank; k++) by[k] = k == dim ? tc_lo_load(a, y, index) : -1;
  tc_lo_result(a, 0, tc_lo_end(a, tc_lo_gather(a, x, index, by, 0), tc_op_result_type(a, 0)->dtype));
  return TC_STATUS_OK;
}

static tc_gv slice(tc_op_args *a, tc_gv x, int64_t dim, tc_int from, tc_int to) {
  tc_ex_begin(a, "aten::slice.Tensor");
  tc_ex_push(a, x);
  tc_ex_push_int(a, tc_int_const(a, dim));
  tc_ex_push_int(a, from);
  tc_ex_push_int(a, to);
  return tc_ex_make(a, 1, NULL);
}

static tc_gv log_add(tc_op_args *a, tc_gv x, tc_gv y) {
  tc_ex_begin(a, "aten::_logaddexp_complex");
  tc_ex_push(a, x);
  tc_ex_push(a, y);
  return tc_ex_make(a, 1, NULL);
}
static tc_gv joined(tc_op_args *a, int32_t n, const tc_gv *v, int64_t dim) {
  tc_ex_begin(a, "aten::cat");
  tc_ex_push_list(a, n, v);
  tc_ex_push_int(a, tc_int_const(a, dim));
  return tc_ex_make(a, 1, NULL);
}

// logcumsumexp of complex numbers, in the type that arithmetic is done in. One after the other, since the order decides
// by which multiples of 2π logarithms differ; of long lines each step adds what lies 1, 2, 4, … places before (Hillis,
// Steele: Data Parallel Algorithms, 1986).
static int32_t logsum_expand(tc_op_args *a) {
  enum { SHORT = 32 };
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  int64_t dim = tc_op_dim(a, 1, t->rank), n = 1;
  if (!tc_dtype_is_complex(t->dtype)) return TC_STATUS_OK; // the lowering's
  tc_int zero = tc_int_const(a, 0), size = t->rank ? t->sizes[dim] : NULL;
  if (size && !tc_int_is_const(size, &n))
    return tc_op_fail(a, "logcumsumexp of complex numbers needs a known size: %s", tc_op_shape_text(a, 0));
  tc_ex_begin(a, "aten::_to_copy");
  tc_ex_push(a, tc_ex_arg(a, 0));
  tc_ex_push_dtype(a, tc_op_math_type(t->dtype));
  tc_gv y = tc_ex_make(a, 1, NULL);
  tc_gv part[SHORT];
  for (int64_t k = 0; n > 1 && n <= SHORT && k < n; k++) {
    part[k] = slice(a, y, dim, tc_int_const(a, k), tc_int_const(a, k + 1));
    if (k > 0) part[k] = log_add(a, part[k], part[k - 1]);
  }
  if (n > 1 && n <= SHORT) y = joined(a, (int32_t)n, part, dim);
  for (int64_t k = 1; n > SHORT && k < n; k *= 2) {
    part[0] = slice(a, y, dim, zero, tc_int_const(a, k));
    part[1] = log_add(a, slice(a, y, dim, tc_int_const(a, k), size), slice(a, y, dim, zero, tc_int_const(a, n - k)));
    y = joined(a, 2, part, dim);
  }
  tc_ex_begin(a, "aten::_to_copy");
  tc_ex_push(a, y);
  tc_ex_push_dtype(a, t->dtype);
  tc_ex_result(a, 0, tc_ex_make(a, 1, NULL));
  return TC_STATUS_OK;
}

// ---- references ----
static int32_t sum_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_result_data(a, 0);
  int64_t dim = tc_op_dim(a, 1, x->rank), index[TC_MAX_RANK] = {0};
  bool sum = kind_of(a) == TC_SCAN_SUM;
  for (bool more = tc_ref_numel(y) > 0; more; more = tc_ref_next(y->rank, y->sizes, index)) {
    int64_t to = tc_ref_offset(y, index), at = tc_ref_offset(x, index);
    if (x->rank == 0 || index[dim] == 0) {
      tc_ref_copy(y, to, x, at);
      continue;
    }
    int64_t before = to - y->strides[dim];
    if (y->dtype == TC_I64) {
      uint64_t p = (uint64_t)tc_ref_i(y, before), q = (uint64_t)tc_ref_i(x, at);
      tc_ref_put_i(y, to, (int64_t)(sum ? p + q : p * q));
    } else {
      tc_c128 p = tc_ref_c(y, before), q = tc_ref_c(x, at);
      tc_ref_put(y, to,
                 sum ? (tc_c128){p.re + q.re, p.im + q.im}
                     : (tc_c128){p.re * q.re - p.im * q.im, p.re * q.im + p.im * q.re});
    }
  }
  return TC_STATUS_OK;
}

static int32_t logsum_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_result_data(a, 0);
  int64_t dim = tc_op_dim(a, 1, x->rank), index[TC_MAX_RANK] = {0};
  for (bool more = tc_ref_numel(y) > 0; more; more = tc_ref_next(y->rank, y->sizes, index)) {
    int64_t to = tc_ref_offset(y, index);
    if (y->dtype == TC_C128) {
      tc_c128 z = tc_ref_c(x, tc_ref_offset(x, index));
      bool first = x->rank == 0 || index[dim] == 0;
      tc_ref_put(y, to, first ? z : tc_ref_logaddexp(z, tc_ref_c(y, to - y->strides[dim])));
      continue;
    }
    double v = tc_ref_f(x, tc_ref_offset(x, index));
    if (x->rank > 0 && index[dim] > 0) {
      double w = tc_ref_f(y, to - y->strides[dim]), high = v > w ? v : w, low = v > w ? w : v;
      if (isnan(v) || isnan(w)) v = NAN;
      else v = isinf(high) ? high : high + log1p(exp(low - high));
    }
    tc_ref_put(y, to, (tc_c128){v, 0});
  }
  return TC_STATUS_OK;
}

static bool replaces(const tc_ref_view *x, int64_t at, int64_t best, bool highest) {
  if (x->dtype == TC_I64) return highest ? tc_ref_i(x, at) >= tc_ref_i(x, best) : tc_ref_i(x, at) <= tc_ref_i(x, best);
  double v = tc_ref_f(x, at), b = tc_ref_f(x, best);
  return isnan(v) || (!isnan(b) && (highest ? v >= b : v <= b));
}
static int32_t extreme_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_result_data(a, 0), *ids = tc_op_result_data(a, 1);
  int64_t dim = tc_op_dim(a, 1, x->rank), index[TC_MAX_RANK] = {0};
  for (bool more = tc_ref_numel(y) > 0; more; more = tc_ref_next(y->rank, y->sizes, index)) {
    int64_t at = tc_ref_offset(x, index), k = x->rank ? index[dim] : 0, best = k, step = x->rank ? x->strides[dim] : 0;
    if (k > 0) best = tc_ref_i(ids, tc_ref_offset(ids, index) - ids->strides[dim]);
    int64_t old = at + (best - k) * step;
    if (replaces(x, at, old, kind_of(a) == TC_SCAN_MAX)) best = k, old = at;
    tc_ref_put_i(ids, tc_ref_offset(ids, index), best);
    tc_ref_copy(y, tc_ref_offset(y, index), x, old);
  }
  return TC_STATUS_OK;
}

#define ROW(s, t, r) {.schema = s, .traits = t, .meta = scan_meta, .lower = scan_lower, .ref = r, .flops = "numel"}
static const tc_op_def rows[] = {
    ROW("cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", TC_OP_COMPLEX, sum_ref),
    ROW("cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", TC_OP_COMPLEX, sum_ref),
    {.schema = "logcumsumexp(Tensor self, int dim) -> Tensor",
     .traits = TC_OP_COMPLEX | TC_OP_MAY_EXPAND,
     .meta = scan_meta,
     .expand = logsum_expand,
     .lower = scan_lower,
     .ref = logsum_ref,
     .flops = "numel"},
    ROW("cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)", 0, extreme_ref),
    ROW("cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)", 0, extreme_ref),
};
// Derivatives; see docs/ADDING_AN_OP.md for what the texts can name.
static const tc_op_derivative derivatives[] = {
    {"cumsum", "self: flip(cumsum(flip(grad, [dim]), dim), [dim])"},
};
TC_OP_FAMILY_WITH_DERIVATIVES(scan);
