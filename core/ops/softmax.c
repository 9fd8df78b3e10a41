// softmax and log_softmax along a dimension: the row's maximum is subtracted first, of its numbers: one NaN makes the
// sum NaN, and with it the row. What is left is not positive, which the exponential is told.
#include <math.h>

#include "core/ops/ops.h"

static int32_t softmax_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  bool half_to_float = a->op->schema.args[2].type == TC_ST_BOOL && tc_op_bool(a, 2, 0);
  tc_dtype d =
      a->op->schema.args[2].type == TC_ST_BOOL ? (half_to_float ? TC_F32 : t->dtype) : tc_op_dtype(a, 2, t->dtype);
  if (tc_op_dim(a, 1, t->rank) < 0) return TC_STATUS_INVALID_ARGUMENT;
  if (!tc_dtype_is_float(d)) return tc_op_fail(a, "softmax is not implemented for %s", tc_dtype_torch_name(d));
  return tc_op_set_result(a, 0, d, t->rank, t->sizes, NULL); // row-major whatever the input is
}

// What a reduction takes of an element whose row is NaN anyway.
static const char number[] = "where(v == v, v, -inf)";

static int32_t lower(tc_op_args *a, bool log) {
  tc_dtype out = tc_op_result_type(a, 0)->dtype, compute = tc_op_math_type(out);
  tc_lt x = tc_lower_cast(a, tc_lo_arg(a, 0), out); // a dtype that is asked for is the input's, too
  int32_t rank = tc_lo_rank(a, x);
  bool reduced[TC_MAX_RANK] = {0};
  int64_t dim = rank ? tc_op_wrap_dim(a, tc_op_int(a, 1, 0), rank) : 0;
  if (rank) reduced[dim] = true;
  static const char *const names[] = {"x", "m", "s"};
  tc_lt max = tc_lower_reduced(a, x, TC_RED_MAX, reduced, true, number, compute, compute);
  tc_lt pair[2] = {x, max};
  tc_lt shifted = tc_lower_text(a, log ? "x - m" : "exp(min(x - m, 0))", 2, names, pair, compute, compute);
  tc_lt sum = tc_lower_reduced(a, shifted, TC_RED_SUM, reduced, true, log ? "exp(min(v, 0))" : NULL, compute, compute);
  tc_lt last[3] = {shifted, sum, sum};
  tc_lo_result(a, 0, tc_lower_text(a, log ? "x - log(m)" : "x * (1 / m)", 2, names, last, compute, out));
  return TC_STATUS_OK;
}
static int32_t lower_softmax(tc_op_args *a) { return lower(a, false); }
static int32_t lower_log_softmax(tc_op_args *a) { return lower(a, true); }

static int32_t ref(tc_op_args *a, bool log_) {
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_result_data(a, 0);
  int64_t dim = x->rank ? tc_op_wrap_dim(a, tc_op_int(a, 1, 0), x->rank) : 0, n = x->rank ? x->sizes[dim] : 1,
          index[TC_MAX_RANK] = {0};
  int64_t sx = x->rank ? x->strides[dim] : 0, sy = y->rank ? y->strides[dim] : 0;
  if (tc_ref_numel(y) == 0) return TC_STATUS_OK;
  do {
    if (x->rank && index[dim]) continue;
    int64_t at = tc_ref_offset(x, index), to = tc_ref_offset(y, index);
    double max = -INFINITY, sum = 0, v;
    for (int64_t i = 0; i < n; i++) {
      v = tc_ref_f_as(a, x, at + i * sx, y->nominal);
      max = v > max || isnan(v) ? v : max;
    }
    for (int64_t i = 0; i < n; i++) sum += exp(tc_ref_f_as(a, x, at + i * sx, y->nominal) - max);
    for (int64_t i = 0; i < n; i++) {
      v = tc_ref_f_as(a, x, at + i * sx, y->nominal) - max;
      tc_ref_put(y, to + i * sy, (tc_c128){log_ ? v - log(sum) : exp(v) / sum, 0});
    }
  } while (tc_ref_next(x->rank, x->sizes, index));
  return TC_STATUS_OK;
}
static int32_t ref_softmax(tc_op_args *a) { return ref(a, false); }
static int32_t ref_log_softmax(tc_op_args *a) { return ref(a, true); }

// Complex numbers with a real dtype to convert them to are taken.
enum { RED = TC_OP_REDUCTION, REDC = TC_OP_REDUCTION | TC_OP_COMPLEX };
#define ROW(s, t, l, r) \
  {.schema = s, .traits = t, .meta = softmax_meta, .lower = l, .ref = r, .flops = "5 * self.numel"}
static const tc_op_def rows[] = {
    ROW("softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", REDC, lower_softmax, ref_softmax),
    ROW("_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", RED, lower_softmax, ref_softmax),
    ROW("log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", REDC, lower_log_softmax,
        ref_log_softmax),
    ROW("_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", RED, lower_log_softmax, ref_log_softmax),
};
// Derivatives; see docs/ADDING_AN_OP.md for what the texts can name.
static const tc_op_derivative derivatives[] = {
    {"_softmax", "self: mul(result, sub(grad, sum(mul(grad, result), [dim], true)))"},
    {"softmax", "self: mul(result, sub(grad, sum(mul(grad, result), [dim], true)))"},
    {"_log_softmax", "self: sub(grad, mul(exp(result), sum(grad, [dim], true)))"},
    {"log_softmax", "self: sub(grad, mul(exp(result), sum(grad, [dim], true)))"},
};
TC_OP_FAMILY_WITH_DERIVATIVES(softmax);
