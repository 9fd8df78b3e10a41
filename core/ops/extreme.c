// Where extremes stand: argmax, argmin, max and min along a dimension with their indices, both at once.
//
// Lowering: the extreme is a reduction; a second one takes the smallest index at which it stands. A NaN is an extreme,
// and then the first NaN's index is wanted. Long ones are made of parts that stay in the cache in between. The
// reference walks once.
#include <math.h>

#include "core/ops/ops.h"

static bool highest(tc_op_args *a) {
  return tc_sv_is(a->op->schema.name, "max") || tc_sv_is(a->op->schema.name, "argmax");
}

// The reduced dimension; -1 for all of them (the index then counts row-major); -2 after a failure.
static int64_t dim_of(tc_op_args *a, int32_t rank) {
  if (tc_op_kind(a, 1) == TC_AK_NONE) return -1;
  int64_t d = tc_op_dim(a, 1, rank);
  return d < 0 ? -2 : d;
}

static int32_t read_reduced(tc_op_args *a, int32_t rank, bool *reduced, int64_t *dim) {
  *dim = dim_of(a, rank);
  if (*dim == -2) return TC_STATUS_INVALID_ARGUMENT;
  for (int32_t d = 0; d < rank; d++) reduced[d] = *dim < 0 || d == *dim;
  return TC_STATUS_OK;
}

static int32_t extreme_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  bool reduced[TC_MAX_RANK] = {0}, keep = tc_op_bool(a, 2, 0);
  int64_t dim;
  if (read_reduced(a, t->rank, reduced, &dim)) return TC_STATUS_INVALID_ARGUMENT;
  if (tc_dtype_is_complex(t->dtype)) return tc_op_fail(a, "extremes are not defined on complex numbers");
  for (int32_t d = 0; d < t->rank; d++) {
    if (reduced[d] && tc_int_eq(a, t->sizes[d], tc_int_const(a, 0)) == 1)
      return tc_op_fail(a, "dimension %d has no elements to choose from: %s", d, tc_op_shape_text(a, 0));
  }
  if (a->n_results == 1) return tc_meta_reduced(a, 0, TC_I64, reduced, keep);
  return tc_meta_reduced(a, 0, t->dtype, reduced, keep) || tc_meta_reduced(a, 1, TC_I64, reduced, keep);
}

// The smallest index among `all` dimensions at which the best of the `reduced` ones stands, or, where these are
// extremes of parts, the one in `where`.
static tc_lt first_of(tc_op_args *a, tc_lt x, tc_lt best, const tc_lt *where, const bool *reduced, const bool *all) {
  int32_t rank = tc_lo_rank(a, x), n_par = 0, n_red = 0;
  tc_dtype d = tc_lo_dtype(a, x);
  tc_int par[TC_MAX_RANK], red[TC_MAX_RANK], index[TC_MAX_RANK], at[TC_MAX_RANK], flat = tc_int_const(a, 0);
  for (int32_t k = 0; k < rank; k++) {
    if (reduced[k]) red[n_red++] = tc_lo_size(a, x, k);
    else par[n_par++] = tc_lo_size(a, x, k);
  }
  tc_lo_begin_reduce(a, TC_RED_MIN, n_par, par, n_red, red, index);
  for (int32_t k = 0, p = 0, q = n_par; k < rank; k++) at[k] = reduced[k] ? index[q++] : index[p++];
  for (int32_t k = 0; k < rank; k++) {
    if (all[k]) flat = tc_int_add(a, tc_int_mul(a, flat, tc_lo_size(a, x, k)), at[k]);
  }
  tc_bval v = tc_lo_load(a, x, at), m = tc_lo_load(a, best, index), hit = tc_lo_op2(a, TC_K_EQ, v, m);
  if (tc_dtype_is_float(d)) hit = tc_lo_op2(a, TC_K_OR, hit, tc_lo_op2(a, TC_K_NE, v, v)); // a NaN wins: then m is one
  tc_bval here = where ? tc_lo_load(a, *where, at) : tc_lo_index(a, flat, TC_I64);
  return tc_lo_end(a, tc_lo_op3(a, TC_K_SELECT, hit, here, tc_lo_const_int(a, TC_I64, INT64_MAX)), TC_I64);
}

static int32_t extreme_lower(tc_op_args *a) {
  tc_lt x = tc_lo_arg(a, 0);
  int32_t rank = tc_lo_rank(a, x), last = a->n_results - 1, kind = highest(a) ? TC_RED_MAX : TC_RED_MIN;
  bool reduced[TC_MAX_RANK] = {0}, inside[TC_MAX_RANK], all[TC_MAX_RANK], outside[TC_MAX_RANK] = {0};
  int64_t dim;
  if (read_reduced(a, rank, reduced, &dim)) return TC_STATUS_INVALID_ARGUMENT;
  tc_dtype d = tc_lo_dtype(a, x);
  const tc_tensor_type *r = tc_op_result_type(a, last);
  tc_reduction_cut c = tc_cut_reduction(a, x, reduced);
  tc_lt best, where;
  if (c.dim < 0) {
    best = tc_lower_reduced(a, x, kind, reduced, false, NULL, d, d);
    where = first_of(a, x, best, NULL, reduced, reduced);
  } else {
    x = tc_cut_view(a, x, reduced, &c, inside, all);
    for (int32_t k = 0, n = 0; k <= rank; k++)
      if (!inside[k]) outside[n++] = all[k];
    tc_lt parts = tc_lower_reduced(a, x, kind, inside, false, NULL, d, d);
    tc_lt places = first_of(a, x, parts, NULL, inside, all);
    best = tc_lower_reduced(a, parts, kind, outside, false, NULL, d, d);
    where = first_of(a, parts, best, &places, outside, outside);
  }
  if (last > 0) tc_lo_result(a, 0, tc_lo_reshape(a, best, r->rank, r->sizes));
  tc_lo_result(a, last, tc_lo_reshape(a, where, r->rank, r->sizes));
  return TC_STATUS_OK;
}

static bool better(const tc_ref_view *x, int64_t at, int64_t best, bool high) {
  if (x->dtype == TC_I64) return high ? tc_ref_i(x, at) > tc_ref_i(x, best) : tc_ref_i(x, at) < tc_ref_i(x, best);
  double v = tc_ref_f(x, at), b = tc_ref_f(x, best);
  if (isnan(b)) return false;
  return isnan(v) || (high ? v > b : v < b);
}
static int32_t extreme_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *ids = tc_op_result_data(a, a->n_results - 1),
                    *values = a->n_results > 1 ? tc_op_result_data(a, 0) : NULL;
  bool reduced[TC_MAX_RANK] = {0}, keep = tc_op_bool(a, 2, 0);
  int64_t dim, index[TC_MAX_RANK] = {0}, n = tc_ref_numel(ids);
  if (read_reduced(a, x->rank, reduced, &dim)) return TC_STATUS_INVALID_ARGUMENT;
  int64_t *best = tc_op_scratch(a, (uint64_t)(n > 0 ? n : 1) * sizeof *best);
  if (!best) return TC_STATUS_OUT_OF_MEMORY;
  for (int64_t i = 0; i < n; i++) best[i] = -1;
  for (bool more = tc_ref_numel(x) > 0; more; more = tc_ref_next(x->rank, x->sizes, index)) {
    int64_t to = 0, flat = 0, at = tc_ref_offset(x, index);
    for (int32_t d = 0, k = 0; d < x->rank; d++) {
      if (reduced[d]) flat = flat * x->sizes[d] + index[d], k += keep;
      else to += index[d] * ids->strides[k++];
    }
    if (best[to] >= 0 && !better(x, at, best[to], highest(a))) continue;
    best[to] = at;
    tc_ref_put_i(ids, to, flat);
    if (values) tc_ref_copy(values, to, x, at);
  }
  return TC_STATUS_OK;
}

static int32_t aminmax_expand(tc_op_args *a) {
  for (int32_t i = 0; i < 2; i++) {
    bool all = tc_op_kind(a, 1) == TC_AK_NONE;
    tc_int dim = all ? NULL : tc_op_sym(a, 1);
    tc_gv x = tc_ex_arg(a, 0);
    tc_ex_begin(a, i ? "aten::amax" : "aten::amin");
    tc_ex_push(a, x);
    tc_ex_push_ints(a, !all, &dim);
    tc_ex_push_bool(a, tc_op_bool(a, 2, 0));
    tc_ex_result(a, i, tc_ex_make(a, 1, NULL));
  }
  return TC_STATUS_OK;
}

#define ROW(s)                \
  {.schema = s,               \
   .traits = TC_OP_REDUCTION, \
   .meta = extreme_meta,      \
   .lower = extreme_lower,    \
   .ref = extreme_ref,        \
   .flops = "2 * self.numel"}
static const tc_op_def rows[] = {
    ROW("argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor"),
    ROW("argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor"),
    ROW("max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"),
    ROW("min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"),
    {.schema = "max.other(Tensor self, Tensor other) -> Tensor", .decompose = "maximum(self, other)"},
    {.schema = "min.other(Tensor self, Tensor other) -> Tensor", .decompose = "minimum(self, other)"},
    {.schema = "aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)",
     .traits = TC_OP_REDUCTION,
     .expand = aminmax_expand},
};
// Derivatives; see docs/ADDING_AN_OP.md for what the texts can name.
static const tc_op_derivative derivatives[] = {
    {"max.dim", "self: scatter(zeros_like(self), dim, if(keepdim, result1, unsqueeze(result1, dim)), if(keepdim, grad, "
                "unsqueeze(grad, dim)))"},
    {"min.dim", "self: scatter(zeros_like(self), dim, if(keepdim, result1, unsqueeze(result1, dim)), if(keepdim, grad, "
                "unsqueeze(grad, dim)))"},
    {"max.other", "forward: maximum(self, other)"},
    {"min.other", "forward: minimum(self, other)"},
    {"max", "let m = to(eq(self, result), self.dtype); self: mul(grad, div(m, sum(m)))"},
    {"min", "let m = to(eq(self, result), self.dtype); self: mul(grad, div(m, sum(m)))"},
};
TC_OP_FAMILY_WITH_DERIVATIVES(extreme);
