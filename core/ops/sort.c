// Order along a dimension: sort, argsort, topk.
//
// Lowering: an element's place is the number of elements that come before it (a reduction), and the element of a place
// is found by a second reduction over the places. That is quadratic in the dimension and correct on every backend;
// equal elements keep their order. NaN counts as the largest value, as in PyTorch.
#include <math.h>

#include "core/ops/ops.h"

typedef struct order {
  int64_t dim;
  bool descending;
  tc_int keep; // places that are results
} order;

static int32_t read_order(tc_op_args *a, order *o) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  int32_t descending = tc_op_arg_index(a, "descending"), largest = tc_op_arg_index(a, "largest"),
          k = tc_op_arg_index(a, "k");
  o->dim = tc_op_dim(a, tc_op_arg_index(a, "dim"), t->rank);
  if (o->dim < 0) return TC_STATUS_INVALID_ARGUMENT;
  if (tc_dtype_is_complex(t->dtype)) return tc_op_fail(a, "complex numbers have no order: %s", tc_op_shape_text(a, 0));
  if (t->rank == 0) return tc_op_fail(a, "ordering a tensor of rank 0 is not available");
  o->descending = largest >= 0 ? tc_op_bool(a, largest, 1) : tc_op_bool(a, descending, 0);
  o->keep = k >= 0 ? tc_op_sym(a, k) : t->sizes[o->dim];
  if (k >= 0 && (tc_int_lt(a, t->sizes[o->dim], o->keep) == 1 || tc_int_lt(a, o->keep, tc_int_const(a, 0)) == 1))
    return tc_op_fail(a, "k is out of range for dimension %lld of %s", (long long)o->dim, tc_op_shape_text(a, 0));
  return TC_STATUS_OK;
}
static int32_t order_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  order o;
  tc_int sizes[TC_MAX_RANK];
  if (read_order(a, &o)) return TC_STATUS_INVALID_ARGUMENT;
  for (int32_t d = 0; d < t->rank; d++) sizes[d] = d == o.dim ? o.keep : t->sizes[d];
  int32_t format = tc_op_arg_index(a, "k") >= 0 ? TC_FORMAT_CONTIGUOUS : TC_FORMAT_PRESERVE, last = a->n_results - 1;
  if (last > 0 && tc_op_format_result(a, 0, t->dtype, t->rank, sizes, format, 0)) return TC_STATUS_INVALID_ARGUMENT;
  return tc_op_format_result(a, last, TC_I64, t->rank, sizes, format, 0);
}

// x < y where NaN is the largest value.
static tc_bval less(tc_op_args *a, tc_dtype d, tc_bval x, tc_bval y) {
  tc_bval lt = tc_lo_op2(a, TC_K_LT, x, y);
  if (!tc_dtype_is_float(d)) return lt;
  return tc_lo_op2(a, TC_K_OR, lt, tc_lo_op2(a, TC_K_AND, tc_lo_op2(a, TC_K_NE, y, y), tc_lo_op2(a, TC_K_EQ, x, x)));
}
static int32_t order_lower(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0), *r = tc_op_result_type(a, a->n_results - 1);
  order o;
  tc_int index[TC_MAX_RANK + 1], at[TC_MAX_RANK], n;
  if (read_order(a, &o)) return TC_STATUS_INVALID_ARGUMENT;
  tc_lt x = tc_lo_arg(a, 0);
  tc_dtype in = tc_lo_dtype(a, x), d = in == TC_BOOL ? TC_U8 : tc_op_math_type(in);
  n = t->sizes[o.dim];
  tc_lo_begin_reduce(a, TC_RED_SUM, t->rank, t->sizes, 1, &n, index);
  for (int32_t k = 0; k < t->rank; k++) at[k] = k == o.dim ? index[t->rank] : index[k];
  tc_bval own = tc_lo_cast(a, tc_lo_load(a, x, index), d), other = tc_lo_cast(a, tc_lo_load(a, x, at), d);
  tc_bval before = o.descending ? less(a, d, own, other) : less(a, d, other, own),
          after = o.descending ? less(a, d, other, own) : less(a, d, own, other);
  tc_bval earlier = tc_lower_condition(a, tc_sym_cmp(a->syms, TC_SYM_LT, index[t->rank], index[o.dim]));
  tc_bval first = tc_lo_op2(a, TC_K_OR, before, tc_lo_op2(a, TC_K_AND, tc_lo_op1(a, TC_K_NOT, after), earlier));
  tc_lt rank = tc_lo_end(a, tc_lo_cast(a, first, TC_I64), TC_I64);
  tc_lo_begin_reduce(a, TC_RED_MAX, r->rank, r->sizes, 1, &n, index);
  for (int32_t k = 0; k < t->rank; k++) at[k] = k == o.dim ? index[t->rank] : index[k];
  tc_bval hit = tc_lo_op2(a, TC_K_EQ, tc_lo_load(a, rank, at), tc_lo_index(a, index[o.dim], TC_I64));
  tc_lt where = tc_lo_end(
      a, tc_lo_op3(a, TC_K_SELECT, hit, tc_lo_index(a, index[t->rank], TC_I64), tc_lo_const_int(a, TC_I64, 0)), TC_I64);
  tc_lo_result(a, a->n_results - 1, where);
  if (a->n_results < 2) return TC_STATUS_OK;
  tc_bval by[TC_MAX_RANK];
  tc_lo_begin(a, r->rank, r->sizes, index);
  for (int32_t k = 0; k < t->rank; k++) by[k] = k == o.dim ? tc_lo_load(a, where, index) : -1;
  for (int32_t k = 0; k < t->rank; k++) at[k] = k == o.dim ? tc_int_const(a, 0) : index[k];
  tc_lo_result(a, 0, tc_lo_end(a, tc_lo_gather(a, x, at, by, 0), in));
  return TC_STATUS_OK;
}

static bool ref_less(const tc_ref_view *x, int64_t p, int64_t q) {
  if (x->dtype == TC_I64) return tc_ref_i(x, p) < tc_ref_i(x, q);
  double v = tc_ref_f(x, p), w = tc_ref_f(x, q);
  return v < w || (isnan(w) && !isnan(v));
}
static int32_t order_ref(tc_op_args *a) { // by insertion: stable
  const tc_ref_view *x = tc_op_data(a, 0), *ids = tc_op_result_data(a, a->n_results - 1),
                    *values = a->n_results > 1 ? tc_op_result_data(a, 0) : NULL;
  order o;
  if (read_order(a, &o)) return TC_STATUS_INVALID_ARGUMENT;
  int64_t n = x->sizes[o.dim], keep = ids->sizes[o.dim], i[TC_MAX_RANK] = {0}, s = x->strides[o.dim];
  int64_t *list = tc_op_scratch(a, (uint64_t)(n + 1) * sizeof *list);
  if (!list) return TC_STATUS_OUT_OF_MEMORY;
  for (bool more = tc_ref_numel(x) > 0; more; more = tc_ref_next(x->rank, x->sizes, i)) {
    if (i[o.dim]) continue;
    int64_t base = tc_ref_offset(x, i), to = tc_ref_offset(ids, i);
    for (int64_t k = 0; k < n; k++) {
      int64_t at = k;
      for (; at > 0; at--) {
        int64_t p = base + list[at - 1] * s, q = base + k * s;
        if (!(o.descending ? ref_less(x, p, q) : ref_less(x, q, p))) break;
        list[at] = list[at - 1];
      }
      list[at] = k;
    }
    for (int64_t k = 0; k < keep; k++) {
      tc_ref_put_i(ids, to + k * ids->strides[o.dim], list[k]);
      if (values) tc_ref_copy(values, to + k * values->strides[o.dim], x, base + list[k] * s);
    }
  }
  return TC_STATUS_OK;
}

#define ROW(s) {.schema = s, .meta = order_meta, .lower = order_lower, .ref = order_ref}
static const tc_op_def rows[] = {
    ROW("sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)"),
    ROW("sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor "
        "indices)"),
    ROW("argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor"),
    ROW("topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor "
        "indices)"),
};
TC_OP_FAMILY(sort);
