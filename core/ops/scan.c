// Running sums and products along a dimension.
//
// Lowering: element i is a reduction over the elements up to i. That is quadratic in the dimension, and correct on
// every backend; loop IR has no scan.
#include "core/ops/ops.h"

static bool is_sum(tc_op_args *a) { return tc_sv_is(a->op->schema.name, "cumsum"); }

static int32_t scan_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  bool integer = !tc_dtype_is_float(t->dtype) && !tc_dtype_is_complex(t->dtype);
  if (tc_op_dim(a, 1, t->rank) < 0) return TC_STATUS_INVALID_ARGUMENT;
  return tc_op_set_result(a, 0, tc_op_dtype(a, 2, integer ? TC_I64 : t->dtype), t->rank, t->sizes, NULL);
}

static int32_t scan_lower(tc_op_args *a) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  int64_t dim = tc_op_dim(a, 1, r->rank);
  tc_dtype compute = tc_op_math_type(r->dtype);
  tc_int index[TC_MAX_RANK + 1], at[TC_MAX_RANK];
  tc_lt x = tc_lo_arg(a, 0);
  if (r->rank == 0) {
    tc_lo_begin(a, 0, NULL, index);
    tc_lo_result(a, 0, tc_lo_end(a, tc_lo_load(a, x, index), r->dtype));
    return TC_STATUS_OK;
  }
  tc_lo_begin_reduce(a, is_sum(a) ? TC_RED_SUM : TC_RED_PROD, r->rank, r->sizes, 1, &r->sizes[dim], index);
  for (int32_t d = 0; d < r->rank; d++) at[d] = d == dim ? index[r->rank] : index[d];
  tc_int upto = tc_sym_cmp(a->syms, TC_SYM_LE, index[r->rank], index[dim]);
  tc_dtype in = tc_lo_dtype(a, x);
  char c = tc_dtype_class(in);
  tc_bval neutral = c == 'f' || c == 'c' ? tc_lo_const(a, in, !is_sum(a), 0) : tc_lo_const_int(a, in, !is_sum(a));
  tc_lo_result(a, 0, tc_lo_end(a, tc_lo_cast(a, tc_lo_load_if(a, x, at, upto, neutral), compute), r->dtype));
  return TC_STATUS_OK;
}

static int32_t scan_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_result_data(a, 0);
  int64_t dim = tc_op_dim(a, 1, x->rank), index[TC_MAX_RANK] = {0};
  for (bool more = tc_ref_numel(y) > 0; more; more = tc_ref_next(y->rank, y->sizes, index)) {
    int64_t to = tc_ref_offset(y, index), at = tc_ref_offset(x, index);
    if (x->rank == 0 || index[dim] == 0) {
      tc_ref_copy(y, to, x, at);
      continue;
    }
    int64_t before = to - y->strides[dim];
    if (y->dtype == TC_I64) {
      uint64_t p = (uint64_t)tc_ref_i(y, before), q = (uint64_t)tc_ref_i(x, at);
      tc_ref_put_i(y, to, (int64_t)(is_sum(a) ? p + q : p * q));
    } else {
      tc_c128 p = tc_ref_c(y, before), q = tc_ref_c(x, at);
      tc_ref_put(y, to,
                 is_sum(a) ? (tc_c128){p.re + q.re, p.im + q.im}
                           : (tc_c128){p.re * q.re - p.im * q.im, p.re * q.im + p.im * q.re});
    }
  }
  return TC_STATUS_OK;
}

#define ROW(s) \
  {.schema = s, .traits = TC_OP_COMPLEX, .meta = scan_meta, .lower = scan_lower, .ref = scan_ref, .flops = "numel"}
static const tc_op_def rows[] = {
    ROW("cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"),
    ROW("cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"),
};
TC_OP_FAMILY(scan);
