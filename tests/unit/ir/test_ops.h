// A small set of ops with plain meta functions and references, so that graphs, passes and the reference engine are
// tested without the op families. Names and meanings are PyTorch's; only what the tests need is there.
#ifndef TC_TESTS_UNIT_IR_TEST_OPS_H_
#define TC_TESTS_UNIT_IR_TEST_OPS_H_

#include <math.h>

#include "core/ir/expand.h"
#include "core/ir/opargs.h"
#include "tests/unit/unit.h"

// ---- meta ----
static inline int32_t m_same(tc_op_args *a) {
  const int32_t self = 0;
  return tc_op_pointwise_result(a, 0, tc_op_tensor(a, 0)->dtype, 1, &self);
}

static inline int32_t m_binary(tc_op_args *a) {
  const int32_t both[] = {0, 1};
  return tc_op_pointwise_result(a, 0, tc_op_promote(a, 2, both), 2, both);
}

// self's type; the other argument must broadcast to it
static inline int32_t m_into_self(tc_op_args *a) {
  const int32_t both[] = {0, 1};
  int32_t rank;
  const tc_tensor_type *x = tc_op_tensor(a, 0);
  const tc_int *sizes = tc_op_broadcast(a, 2, both, &rank);
  if (!sizes) return TC_STATUS_INVALID_ARGUMENT;
  if (rank != x->rank) return tc_op_fail(a, "%s does not fit into %s", tc_op_shape_text(a, 1), tc_op_shape_text(a, 0));
  for (int32_t i = 0; i < rank; i++)
    if (tc_int_eq(a, sizes[i], x->sizes[i]) != 1)
      return tc_op_fail(a, "%s does not fit into %s", tc_op_shape_text(a, 1), tc_op_shape_text(a, 0));
  return m_same(a);
}

static inline int32_t m_compare(tc_op_args *a) {
  const int32_t both[] = {0, 1};
  return tc_op_pointwise_result(a, 0, TC_BOOL, 2, both);
}

static inline int32_t m_mm(tc_op_args *a) {
  const tc_tensor_type *x = tc_op_tensor(a, 0), *y = tc_op_tensor(a, 1);
  if (x->rank != 2 || y->rank != 2)
    return tc_op_fail(a, "'self' (%s) and 'mat2' (%s) must be matrices", tc_op_shape_text(a, 0),
                      tc_op_shape_text(a, 1));
  if (tc_int_require_eq(a, x->sizes[1], y->sizes[0]))
    return tc_op_fail(a, "columns of 'self' (%s) and rows of 'mat2' (%s) differ", tc_op_shape_text(a, 0),
                      tc_op_shape_text(a, 1));
  tc_int sizes[] = {x->sizes[0], y->sizes[1]};
  return tc_op_set_result(a, 0, x->dtype, 2, sizes, NULL);
}

// sum.dim_IntList(self, dim, keepdim): no dims means all
static inline int32_t m_sum(tc_op_args *a) {
  const tc_tensor_type *x = tc_op_tensor(a, 0);
  bool reduced[TC_MAX_RANK] = {0};
  tc_int sizes[TC_MAX_RANK];
  int32_t rank = 0, n = tc_op_count(a, 1);
  for (int32_t i = 0; i < n; i++) {
    int64_t d = tc_op_wrap_dim(a, tc_op_int_at(a, 1, i, 0), x->rank);
    if (d < 0) return TC_STATUS_INVALID_ARGUMENT;
    reduced[d] = true;
  }
  for (int32_t d = 0; d < x->rank; d++)
    if (n && !reduced[d]) sizes[rank++] = x->sizes[d];
    else if (tc_op_bool(a, 2, 0)) sizes[rank++] = tc_int_const(a, 1);
  return tc_op_set_result(a, 0, x->dtype, rank, sizes, NULL);
}

// ---- views ----
static inline int32_t m_alias(tc_op_args *a) {
  const tc_tensor_type *x = tc_op_tensor(a, 0);
  return tc_op_set_view(a, 0, 0, x->dtype, x->rank, x->sizes, x->strides, x->offset);
}

static inline int32_t m_permute(tc_op_args *a) {
  const tc_tensor_type *x = tc_op_tensor(a, 0);
  tc_int sizes[TC_MAX_RANK], strides[TC_MAX_RANK];
  if (tc_op_count(a, 1) != x->rank) return tc_op_fail(a, "%d dims for %s", tc_op_count(a, 1), tc_op_shape_text(a, 0));
  for (int32_t i = 0; i < x->rank; i++) {
    int64_t d = tc_op_wrap_dim(a, tc_op_int_at(a, 1, i, 0), x->rank);
    if (d < 0) return TC_STATUS_INVALID_ARGUMENT;
    sizes[i] = x->sizes[d], strides[i] = x->strides[d];
  }
  return tc_op_set_view(a, 0, 0, x->dtype, x->rank, sizes, strides, x->offset);
}

// A dimension that the tensor has; -1 and a failure otherwise.
static inline int64_t dim_of(tc_op_args *a, int64_t dim, int32_t rank) {
  if (rank == 0) return tc_op_fail(a, "'self' has no dimensions"), -1;
  return tc_op_wrap_dim(a, dim, rank);
}

static inline int32_t m_transpose(tc_op_args *a) {
  const tc_tensor_type *x = tc_op_tensor(a, 0);
  tc_int sizes[TC_MAX_RANK], strides[TC_MAX_RANK];
  int64_t d0 = dim_of(a, tc_op_int(a, 1, 0), x->rank), d1 = dim_of(a, tc_op_int(a, 2, 0), x->rank);
  if (d0 < 0 || d1 < 0) return TC_STATUS_INVALID_ARGUMENT;
  for (int32_t i = 0; i < x->rank; i++) {
    int64_t d = i == d0 ? d1 : i == d1 ? d0 : i;
    sizes[i] = x->sizes[d], strides[i] = x->strides[d];
  }
  return tc_op_set_view(a, 0, 0, x->dtype, x->rank, sizes, strides, x->offset);
}

static inline int32_t m_select(tc_op_args *a) {
  const tc_tensor_type *x = tc_op_tensor(a, 0);
  int64_t d = dim_of(a, tc_op_int(a, 1, 0), x->rank);
  if (d < 0) return TC_STATUS_INVALID_ARGUMENT;
  tc_int sizes[TC_MAX_RANK], strides[TC_MAX_RANK], at = tc_op_sym(a, 2);
  int32_t rank = 0;
  if (tc_int_lt(a, at, x->sizes[d]) == 0 || tc_int_lt(a, tc_int_add(a, at, x->sizes[d]), tc_int_const(a, 0)) == 1)
    return tc_op_fail(a, "index out of range");
  if (tc_int_lt(a, at, tc_int_const(a, 0)) == 1) at = tc_int_add(a, at, x->sizes[d]);
  for (int32_t i = 0; i < x->rank; i++)
    if (i != d) sizes[rank] = x->sizes[i], strides[rank++] = x->strides[i];
  return tc_op_set_view(a, 0, 0, x->dtype, rank, sizes, strides,
                        tc_int_add(a, x->offset, tc_int_mul(a, at, x->strides[d])));
}

// slice.Tensor(self, dim, start, end, step), clamped as in Python
static inline tc_int clamp_index(tc_op_args *a, tc_int i, tc_int size) {
  if (tc_int_lt(a, i, tc_int_const(a, 0)) == 1) i = tc_int_max(a, tc_int_add(a, i, size), tc_int_const(a, 0));
  return tc_int_min(a, i, size);
}

static inline int32_t m_slice(tc_op_args *a) {
  const tc_tensor_type *x = tc_op_tensor(a, 0);
  int64_t d = dim_of(a, tc_op_int(a, 1, 0), x->rank), step = tc_op_int(a, 4, 1);
  if (d < 0 || step < 1) return tc_op_fail(a, "step"), TC_STATUS_INVALID_ARGUMENT;
  tc_int sizes[TC_MAX_RANK], strides[TC_MAX_RANK];
  for (int32_t i = 0; i < x->rank; i++) sizes[i] = x->sizes[i], strides[i] = x->strides[i];
  tc_int start = tc_op_kind(a, 2) == TC_AK_NONE ? tc_int_const(a, 0) : clamp_index(a, tc_op_sym(a, 2), x->sizes[d]);
  tc_int end = tc_op_kind(a, 3) == TC_AK_NONE || tc_op_int(a, 3, 0) == INT64_MAX
                   ? x->sizes[d]
                   : clamp_index(a, tc_op_sym(a, 3), x->sizes[d]);
  tc_int length = tc_int_max(a, tc_int_sub(a, end, start), tc_int_const(a, 0));
  sizes[d] = tc_int_floordiv(a, tc_int_add(a, length, tc_int_const(a, step - 1)), tc_int_const(a, step));
  strides[d] = tc_int_mul(a, x->strides[d], tc_int_const(a, step));
  return tc_op_set_view(a, 0, 0, x->dtype, x->rank, sizes, strides,
                        tc_int_add(a, x->offset, tc_int_mul(a, start, x->strides[d])));
}

static inline int32_t m_unsqueeze(tc_op_args *a) {
  const tc_tensor_type *x = tc_op_tensor(a, 0);
  int64_t d = tc_op_wrap_dim(a, tc_op_int(a, 1, 0), x->rank + 1);
  if (d < 0) return TC_STATUS_INVALID_ARGUMENT;
  tc_int sizes[TC_MAX_RANK], strides[TC_MAX_RANK];
  for (int32_t i = 0, k = 0; i <= x->rank; i++) {
    if (i != d) sizes[i] = x->sizes[k], strides[i] = x->strides[k++];
    else
      sizes[i] = tc_int_const(a, 1),
      strides[i] = k < x->rank ? tc_int_mul(a, x->sizes[k], x->strides[k]) : tc_int_const(a, 1);
  }
  return tc_op_set_view(a, 0, 0, x->dtype, x->rank + 1, sizes, strides, x->offset);
}

static inline int32_t m_squeeze(tc_op_args *a) {
  const tc_tensor_type *x = tc_op_tensor(a, 0);
  int64_t d = dim_of(a, tc_op_int(a, 1, 0), x->rank);
  if (d < 0) return TC_STATUS_INVALID_ARGUMENT;
  if (tc_int_eq(a, x->sizes[d], tc_int_const(a, 1)) != 1)
    return tc_op_set_view(a, 0, 0, x->dtype, x->rank, x->sizes, x->strides, x->offset);
  tc_int sizes[TC_MAX_RANK], strides[TC_MAX_RANK];
  int32_t rank = 0;
  for (int32_t i = 0; i < x->rank; i++)
    if (i != d) sizes[rank] = x->sizes[i], strides[rank++] = x->strides[i];
  return tc_op_set_view(a, 0, 0, x->dtype, rank, sizes, strides, x->offset);
}

static inline int32_t m_expand(tc_op_args *a) {
  const tc_tensor_type *x = tc_op_tensor(a, 0);
  tc_int sizes[TC_MAX_RANK], strides[TC_MAX_RANK];
  int32_t n = tc_op_count(a, 1);
  if (n < x->rank || n > TC_MAX_RANK)
    return tc_op_fail(a, "%s cannot be expanded to %d dimensions", tc_op_shape_text(a, 0), n);
  for (int32_t i = 0; i < n; i++) {
    int32_t k = i - (n - x->rank);
    sizes[i] = tc_op_sym_at(a, 1, i);
    if (tc_op_int_at(a, 1, i, 0) == -1) sizes[i] = k < 0 ? tc_int_const(a, 1) : x->sizes[k];
    bool broadcast = k < 0 || (tc_int_is_const(x->sizes[k], NULL) && x->sizes[k]->value == 1 &&
                               tc_int_eq(a, sizes[i], x->sizes[k]) != 1);
    strides[i] = broadcast ? tc_int_const(a, 0) : x->strides[k];
  }
  return tc_op_set_view(a, 0, 0, x->dtype, n, sizes, strides, x->offset);
}

static inline int32_t m_as_strided(tc_op_args *a) {
  tc_int sizes[TC_MAX_RANK], strides[TC_MAX_RANK];
  int32_t n = tc_op_count(a, 1);
  if (n > TC_MAX_RANK || tc_op_count(a, 2) != n) return tc_op_fail(a, "as many strides as sizes are wanted");
  for (int32_t i = 0; i < n; i++) sizes[i] = tc_op_sym_at(a, 1, i), strides[i] = tc_op_sym_at(a, 2, i);
  return tc_op_set_view(a, 0, 0, tc_op_tensor(a, 0)->dtype, n, sizes, strides,
                        tc_op_kind(a, 3) == TC_AK_NONE ? NULL : tc_op_sym(a, 3));
}

// view(self, size) of contiguous tensors
static inline int32_t m_view(tc_op_args *a) {
  const tc_tensor_type *x = tc_op_tensor(a, 0);
  tc_int sizes[TC_MAX_RANK], known = tc_int_const(a, 1), numel = tc_int_const(a, 1);
  int32_t n = tc_op_count(a, 1), open = -1;
  if (n > TC_MAX_RANK) return tc_op_fail(a, "too many sizes");
  for (int32_t i = 0; i < x->rank; i++) numel = tc_int_mul(a, numel, x->sizes[i]);
  for (int32_t i = 0; i < n; i++) {
    sizes[i] = tc_op_sym_at(a, 1, i);
    if (tc_op_int_at(a, 1, i, 0) == -1) open = i;
    else known = tc_int_mul(a, known, sizes[i]);
  }
  if (open >= 0) sizes[open] = tc_int_floordiv(a, numel, known), known = tc_int_mul(a, known, sizes[open]);
  if (tc_int_require_eq(a, known, numel))
    return tc_op_fail(a, "%s cannot be seen with that number of elements", tc_op_shape_text(a, 0));
  return tc_op_set_view(a, 0, 0, x->dtype, n, sizes, NULL, x->offset);
}

static inline int32_t m_unbind(tc_op_args *a) {
  const tc_tensor_type *x = tc_op_tensor(a, 0);
  int64_t d = dim_of(a, tc_op_int(a, 1, 0), x->rank), n;
  if (d < 0) return TC_STATUS_INVALID_ARGUMENT;
  if (!tc_int_is_const(x->sizes[d], &n)) return tc_op_fail(a, "the number of results depends on a symbolic size");
  tc_op_set_result_count(a, (int32_t)n);
  tc_int sizes[TC_MAX_RANK], strides[TC_MAX_RANK];
  int32_t rank = 0;
  for (int32_t i = 0; i < x->rank; i++)
    if (i != d) sizes[rank] = x->sizes[i], strides[rank++] = x->strides[i];
  for (int32_t k = 0; k < n; k++)
    tc_op_set_view(a, k, 0, x->dtype, rank, sizes, strides,
                   tc_int_add(a, x->offset, tc_int_mul(a, tc_int_const(a, k), x->strides[d])));
  return TC_STATUS_OK;
}

static inline int32_t m_conj(tc_op_args *a) {
  m_alias(a);
  return tc_op_set_conj(a, 0, !tc_op_tensor(a, 0)->conj);
}

// ---- others ----
static inline int32_t m_self(tc_op_args *a) {
  const tc_tensor_type *x = tc_op_tensor(a, 0);
  return tc_op_format_result(a, 0, x->dtype, x->rank, x->sizes, TC_FORMAT_PRESERVE, 0);
}

static inline int32_t m_clone(tc_op_args *a) {
  const tc_tensor_type *x = tc_op_tensor(a, 0);
  return tc_op_format_result(a, 0, x->dtype, x->rank, x->sizes, tc_op_memory_format(a, 1, TC_FORMAT_PRESERVE), 0);
}

static inline int32_t m_full(tc_op_args *a) {
  tc_int sizes[TC_MAX_RANK];
  if (tc_op_count(a, 0) > TC_MAX_RANK) return tc_op_fail(a, "too many sizes");
  for (int32_t i = 0; i < tc_op_count(a, 0); i++) sizes[i] = tc_op_sym_at(a, 0, i);
  return tc_op_set_result(a, 0, tc_op_dtype(a, 2, TC_F32), tc_op_count(a, 0), sizes, NULL);
}

static inline int32_t m_to(tc_op_args *a) {
  const tc_tensor_type *x = tc_op_tensor(a, 0);
  if (tc_op_dtype(a, 1, x->dtype) == x->dtype) return m_alias(a);
  return tc_op_format_result(a, 0, tc_op_dtype(a, 1, x->dtype), x->rank, x->sizes, TC_FORMAT_PRESERVE, 0);
}

static inline int32_t m_to_copy(tc_op_args *a) {
  const tc_tensor_type *x = tc_op_tensor(a, 0);
  return tc_op_format_result(a, 0, tc_op_dtype(a, 1, x->dtype), x->rank, x->sizes, TC_FORMAT_PRESERVE, 0);
}

static inline int32_t m_max_dim(tc_op_args *a) {
  const tc_tensor_type *x = tc_op_tensor(a, 0);
  int64_t d = dim_of(a, tc_op_int(a, 1, 0), x->rank);
  if (d < 0) return TC_STATUS_INVALID_ARGUMENT;
  tc_int sizes[TC_MAX_RANK];
  int32_t rank = 0;
  for (int32_t i = 0; i < x->rank; i++)
    if (i != d) sizes[rank++] = x->sizes[i];
  tc_op_set_result(a, 0, x->dtype, rank, sizes, NULL);
  return tc_op_set_result(a, 1, TC_I64, rank, sizes, NULL);
}

static inline int32_t m_cat(tc_op_args *a) {
  const tc_tensor_type *x = tc_op_tensor_at(a, 0, 0);
  int64_t d = x ? dim_of(a, tc_op_int(a, 1, 0), x->rank) : -1;
  if (d < 0) return tc_op_fail(a, "nothing to concatenate");
  tc_int sizes[TC_MAX_RANK];
  for (int32_t i = 0; i < x->rank; i++) sizes[i] = x->sizes[i];
  for (int32_t k = 1; k < tc_op_count(a, 0); k++)
    if (!tc_op_tensor_at(a, 0, k) || tc_op_tensor_at(a, 0, k)->rank != x->rank)
      return tc_op_fail(a, "tensors of different ranks");
  for (int32_t k = 1; k < tc_op_count(a, 0); k++)
    sizes[d] = tc_int_add(a, sizes[d], tc_op_tensor_at(a, 0, k)->sizes[d]);
  const int32_t all[] = {0};
  return tc_op_set_result(a, 0, tc_op_promote(a, 1, all), x->rank, sizes, NULL);
}

static inline int32_t m_nonzero(tc_op_args *a) {
  const tc_tensor_type *x = tc_op_tensor(a, 0);
  tc_int sizes[] = {tc_op_unbacked(a, 0, TC_SYM_INF), tc_int_const(a, x->rank)};
  return tc_op_set_result(a, 0, TC_I64, 2, sizes, NULL);
}

static inline int32_t m_out(tc_op_args *a) {
  const tc_tensor_type *out = tc_op_tensor(a, 3);
  return tc_op_set_view(a, 0, 3, out->dtype, out->rank, out->sizes, out->strides, out->offset);
}

static inline int32_t m_batch_norm(tc_op_args *a) {
  const tc_tensor_type *x = tc_op_tensor(a, 0), *stat = tc_op_tensor(a, 3);
  tc_op_set_result(a, 0, x->dtype, x->rank, x->sizes, NULL);
  for (int32_t i = 1; i < 5; i++) tc_op_set_result(a, i, stat->dtype, stat->rank, stat->sizes, NULL);
  return TC_STATUS_OK;
}

static inline int32_t m_item(tc_op_args *a) { return tc_op_set_result(a, 0, tc_op_tensor(a, 0)->dtype, 0, NULL, NULL); }

// ---- references ----
static inline double r_add(double x, double y) { return x + y; }
static inline double r_sub(double x, double y) { return x - y; }
static inline double r_mul(double x, double y) { return x * y; }
static inline double r_div(double x, double y) { return x / y; }
static inline double r_relu(double x) { return x > 0 || x != x ? x : 0; }
static inline double r_neg(double x) { return -x; }
static inline double r_lt(double x, double y) { return x < y; }
static inline double r_second(double x, double y) { return (void)x, y; }
static inline int64_t ri_add(int64_t x, int64_t y) { return x + y; }
static inline int64_t ri_mul(int64_t x, int64_t y) { return x * y; }
static inline int64_t ri_second(int64_t x, int64_t y) { return (void)x, y; }
static inline int64_t ri_lt(int64_t x, int64_t y) { return x < y; }
static inline tc_c128 rc_mul(tc_c128 x, tc_c128 y) {
  return (tc_c128){x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}
static inline tc_c128 rc_add(tc_c128 x, tc_c128 y) { return (tc_c128){x.re + y.re, x.im + y.im}; }
static inline tc_c128 rc_self(tc_c128 x) { return x; }
static inline double r_self(double x) { return x; }
static inline int64_t ri_self(int64_t x) { return x; }
static inline double r_where(double c, double x, double y) { return c != 0 ? x : y; }
static const tc_scalar_ref s_where = {.f3 = r_where};
static const tc_scalar_ref s_add = {.f2 = r_add, .i2 = ri_add, .c2 = rc_add}, s_sub = {.f2 = r_sub},
                           s_mul = {.f2 = r_mul, .i2 = ri_mul, .c2 = rc_mul}, s_div = {.f2 = r_div},
                           s_relu = {.f1 = r_relu}, s_neg = {.f1 = r_neg}, s_exp = {.f1 = exp},
                           s_lt = {.f2 = r_lt, .i2 = ri_lt}, s_copy = {.f2 = r_second, .i2 = ri_second},
                           s_self = {.f1 = r_self, .i1 = ri_self, .c1 = rc_self};

static inline int32_t ref_mm(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_data(a, 1), *r = tc_op_result_data(a, 0);
  for (int64_t i = 0; i < x->sizes[0]; i++)
    for (int64_t j = 0; j < y->sizes[1]; j++) {
      double s = 0;
      for (int64_t k = 0; k < x->sizes[1]; k++)
        s += ((double *)x->data)[i * x->strides[0] + k * x->strides[1]] *
             ((double *)y->data)[k * y->strides[0] + j * y->strides[1]];
      ((double *)r->data)[i * r->strides[0] + j * r->strides[1]] = s;
    }
  return TC_STATUS_OK;
}

// sums of doubles over the dims that the result lacks (keepdim too: a size of 1)
static inline int32_t ref_sum(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *r = tc_op_result_data(a, 0);
  bool reduced[TC_MAX_RANK];
  int32_t n = tc_op_count(a, 1), keep = tc_op_bool(a, 2, 0);
  for (int32_t d = 0; d < x->rank; d++) reduced[d] = n == 0;
  for (int32_t i = 0; i < n; i++) reduced[tc_op_wrap_dim(a, tc_op_int_at(a, 1, i, 0), x->rank)] = true;
  int64_t numel = 1, index[TC_MAX_RANK];
  for (int32_t d = 0; d < x->rank; d++) numel *= x->sizes[d];
  for (int64_t e = 0; e < numel; e++) {
    int64_t rest = e, from = 0, to = 0;
    for (int32_t d = x->rank - 1; d >= 0; d--)
      index[d] = rest % x->sizes[d], rest /= x->sizes[d], from += index[d] * x->strides[d];
    for (int32_t d = 0, k = 0; d < x->rank; d++)
      if (!reduced[d]) to += index[d] * r->strides[k++];
      else k += keep;
    ((double *)r->data)[to] += ((double *)x->data)[from];
  }
  return TC_STATUS_OK;
}

static inline int32_t ref_full(tc_op_args *a) {
  const tc_ref_view *r = tc_op_result_data(a, 0);
  tc_number v;
  tc_op_number(a, 1, &v);
  int64_t numel = 1;
  for (int32_t d = 0; d < r->rank; d++) numel *= r->sizes[d];
  for (int64_t i = 0; i < numel; i++)
    if (r->dtype == TC_I64) ((int64_t *)r->data)[i] = v.i;
    else if (r->dtype == TC_C128) ((tc_c128 *)r->data)[i] = (tc_c128){v.re, v.im};
    else ((double *)r->data)[i] = v.re;
  return TC_STATUS_OK;
}

static inline int32_t ref_nonzero(tc_op_args *a) { // rank 1
  const tc_ref_view *x = tc_op_data(a, 0);
  int64_t n = 0, k = 0;
  for (int64_t i = 0; i < x->sizes[0]; i++) n += ((double *)x->data)[i * x->strides[0]] != 0;
  const tc_ref_view *r = tc_op_alloc_result(a, 0, 2, (int64_t[]){n, 1});
  for (int64_t i = 0; i < x->sizes[0]; i++)
    if (((double *)x->data)[i * x->strides[0]] != 0) ((int64_t *)r->data)[k++] = i;
  return TC_STATUS_OK;
}

static inline int32_t ref_cat(tc_op_args *a) { // doubles, along dim 0
  const tc_ref_view *r = tc_op_result_data(a, 0);
  double *out = r->data;
  for (int32_t k = 0; k < tc_op_count(a, 0); k++) {
    const tc_ref_view *x = tc_op_data_at(a, 0, k);
    int64_t numel = 1;
    for (int32_t d = 0; d < x->rank; d++) numel *= x->sizes[d];
    for (int64_t e = 0; e < numel; e++) {
      int64_t rest = e, from = 0;
      for (int32_t d = x->rank - 1; d >= 0; d--) from += rest % x->sizes[d] * x->strides[d], rest /= x->sizes[d];
      *out++ = ((double *)x->data)[from];
    }
  }
  return TC_STATUS_OK;
}

// Writes src into the part of a copy of self that starts at element `offset` and has these strides (wide elements).
static inline int32_t scatter_part(tc_op_args *a, const tc_ref_view *src, int64_t offset, const int64_t *strides) {
  const tc_ref_view *x = tc_op_data(a, 0), *r = tc_op_result_data(a, 0);
  size_t size = r->dtype == TC_C128 ? 16 : 8;
  int64_t numel = 1, part = 1;
  for (int32_t d = 0; d < x->rank; d++) numel *= x->sizes[d];
  for (int32_t d = 0; d < src->rank; d++) part *= src->sizes[d];
  for (int64_t e = 0; e < numel; e++) {
    int64_t rest = e, from = 0;
    for (int32_t d = x->rank - 1; d >= 0; d--) from += rest % x->sizes[d] * x->strides[d], rest /= x->sizes[d];
    memcpy((char *)r->data + (size_t)e * size, (const char *)x->data + (size_t)from * size, size);
  }
  for (int64_t e = 0; e < part; e++) {
    int64_t rest = e, from = 0, to = offset;
    for (int32_t d = src->rank - 1; d >= 0; d--) {
      int64_t i = rest % src->sizes[d];
      from += i * src->strides[d], to += i * strides[d], rest /= src->sizes[d];
    }
    memcpy((char *)r->data + (size_t)to * size, (const char *)src->data + (size_t)from * size, size);
  }
  return TC_STATUS_OK;
}

static inline int32_t ref_slice_scatter(tc_op_args *a) {
  const tc_ref_view *r = tc_op_result_data(a, 0), *src = tc_op_data(a, 1);
  int64_t d = tc_op_wrap_dim(a, tc_op_int(a, 2, 0), r->rank), start = tc_op_int(a, 3, 0), strides[TC_MAX_RANK];
  if (start < 0) start += r->sizes[d];
  if (start < 0) start = 0;
  if (start > r->sizes[d]) start = r->sizes[d];
  for (int32_t i = 0; i < r->rank; i++) strides[i] = r->strides[i] * (i == d ? tc_op_int(a, 5, 1) : 1);
  return scatter_part(a, src, start * r->strides[d], strides);
}

static inline int32_t ref_select_scatter(tc_op_args *a) {
  const tc_ref_view *r = tc_op_result_data(a, 0), *src = tc_op_data(a, 1);
  int64_t d = tc_op_wrap_dim(a, tc_op_int(a, 2, 0), r->rank), at = tc_op_int(a, 3, 0), strides[TC_MAX_RANK];
  for (int32_t i = 0, k = 0; i < r->rank; i++)
    if (i != d) strides[k++] = r->strides[i];
  return scatter_part(a, src, (at < 0 ? at + r->sizes[d] : at) * r->strides[d], strides);
}

static inline int32_t ref_as_strided_scatter(tc_op_args *a) {
  int64_t strides[TC_MAX_RANK];
  for (int32_t i = 0; i < tc_op_count(a, 3); i++) strides[i] = tc_op_int_at(a, 3, i, 0);
  return scatter_part(a, tc_op_data(a, 1), tc_op_int(a, 4, 0), strides);
}

// reshape: a view of contiguous tensors, a copy of others
static inline int32_t m_reshape(tc_op_args *a) {
  const tc_tensor_type *x = tc_op_tensor(a, 0);
  int32_t code = m_view(a);
  if (code != TC_STATUS_OK || tc_strides_contiguous(a->syms, x->rank, x->sizes, x->strides)) return code;
  const tc_tensor_type *t = tc_op_result_type(a, 0);
  return tc_op_set_result(a, 0, x->dtype, t->rank, t->sizes, NULL);
}

static inline int32_t m_strict_view(tc_op_args *a) {
  const tc_tensor_type *x = tc_op_tensor(a, 0);
  if (!tc_strides_contiguous(a->syms, x->rank, x->sizes, x->strides))
    return tc_op_fail(a, "%s is not contiguous", tc_op_shape_text(a, 0));
  return m_view(a);
}

static inline int32_t ref_reshape(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *r = tc_op_result_data(a, 0);
  int64_t numel = 1;
  for (int32_t d = 0; d < x->rank; d++) numel *= x->sizes[d];
  for (int64_t e = 0; e < numel; e++) {
    int64_t rest = e, from = 0;
    for (int32_t d = x->rank - 1; d >= 0; d--) from += rest % x->sizes[d] * x->strides[d], rest /= x->sizes[d];
    ((double *)r->data)[e] = ((double *)x->data)[from];
  }
  return TC_STATUS_OK;
}

static inline int32_t m_as_real(tc_op_args *a) {
  const tc_tensor_type *x = tc_op_tensor(a, 0);
  tc_int sizes[TC_MAX_RANK], strides[TC_MAX_RANK], two = tc_int_const(a, 2);
  if (!tc_dtype_is_complex(x->dtype) || x->conj)
    return tc_op_fail(a, "%s cannot be seen as real", tc_op_shape_text(a, 0));
  for (int32_t i = 0; i < x->rank; i++) sizes[i] = x->sizes[i], strides[i] = tc_int_mul(a, x->strides[i], two);
  sizes[x->rank] = two, strides[x->rank] = tc_int_const(a, 1);
  return tc_op_set_view(a, 0, 0, tc_dtype_real(x->dtype), x->rank + 1, sizes, strides, tc_int_mul(a, x->offset, two));
}

static inline int32_t m_as_complex(tc_op_args *a) {
  const tc_tensor_type *x = tc_op_tensor(a, 0);
  tc_int strides[TC_MAX_RANK], two = tc_int_const(a, 2);
  if (x->rank < 1 || tc_dtype_complex(x->dtype) == TC_DTYPE_NONE || tc_int_eq(a, x->sizes[x->rank - 1], two) != 1)
    return tc_op_fail(a, "%s cannot be seen as complex", tc_op_shape_text(a, 0));
  for (int32_t i = 0; i + 1 < x->rank; i++) strides[i] = tc_int_floordiv(a, x->strides[i], two);
  return tc_op_set_view(a, 0, 0, tc_dtype_complex(x->dtype), x->rank - 1, x->sizes, strides,
                        tc_int_floordiv(a, x->offset, two));
}

// softplus-like op decomposed in C: log-free, relu(x) + relu(-x)
static inline int32_t expand_abs(tc_op_args *a) {
  tc_gv x = tc_ex_arg(a, 0);
  tc_ex_begin(a, "aten::neg"), tc_ex_push(a, x);
  tc_gv n = tc_ex_make(a, 0, NULL);
  tc_ex_begin(a, "aten::relu"), tc_ex_push(a, x);
  tc_gv p = tc_ex_make(a, 0, NULL);
  tc_ex_begin(a, "aten::relu"), tc_ex_push(a, n);
  tc_gv q = tc_ex_make(a, 0, NULL);
  tc_ex_begin(a, "aten::add"), tc_ex_push(a, p), tc_ex_push(a, q);
  tc_ex_result(a, 0, tc_ex_make(a, 0, NULL));
  return TC_STATUS_OK;
}

enum { PW = TC_OP_POINTWISE | TC_OP_COMPLEX };
static const tc_op_def test_rows[] = {
    {.schema = "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
     .traits = PW,
     .meta = m_binary,
     .scalar_ref = &s_add},
    {.schema = "add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
     .traits = PW,
     .meta = m_binary,
     .scalar_ref = &s_add},
    {.schema = "sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
     .traits = PW,
     .meta = m_binary,
     .scalar_ref = &s_sub},
    {.schema = "mul.Tensor(Tensor self, Tensor other) -> Tensor",
     .traits = PW | TC_OP_COMPLEX,
     .meta = m_binary,
     .scalar_ref = &s_mul},
    {.schema = "mul.Scalar(Tensor self, Scalar other) -> Tensor",
     .traits = PW | TC_OP_COMPLEX,
     .meta = m_binary,
     .scalar_ref = &s_mul},
    {.schema = "div.Tensor(Tensor self, Tensor other) -> Tensor",
     .traits = PW | TC_OP_INT_TO_FLOAT,
     .scalar_ref = &s_div},
    {.schema = "relu(Tensor self) -> Tensor", .traits = PW, .meta = m_same, .scalar_ref = &s_relu},
    {.schema = "neg(Tensor self) -> Tensor", .traits = PW, .meta = m_same, .scalar_ref = &s_neg},
    {.schema = "exp(Tensor self) -> Tensor", .traits = PW | TC_OP_INT_TO_FLOAT, .scalar_ref = &s_exp},
    {.schema = "lt.Tensor(Tensor self, Tensor other) -> Tensor", .traits = PW, .meta = m_compare, .scalar_ref = &s_lt},
    {.schema = "copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor",
     .traits = PW,
     .meta = m_into_self,
     .scalar_ref = &s_copy},
    {.schema = "fill.Scalar(Tensor self, Scalar value) -> Tensor", .traits = PW, .meta = m_same, .scalar_ref = &s_copy},
    {.schema = "clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
     .traits = PW | TC_OP_COMPLEX,
     .meta = m_clone,
     .scalar_ref = &s_self},
    {.schema = "mm(Tensor self, Tensor mat2) -> Tensor", .traits = TC_OP_COMPLEX, .meta = m_mm, .ref = ref_mm},
    {.schema = "sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
     .traits = TC_OP_REDUCTION | TC_OP_COMPLEX,
     .meta = m_sum,
     .ref = ref_sum},
    {.schema = "mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
     .traits = TC_OP_COMPLEX,
     .decompose = "let s = sum(self, dim, keepdim); s / (self.numel // s.numel)"},
    {.schema = "linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
     .traits = TC_OP_COMPLEX,
     .decompose = "let y = mm(input, permute(weight, [1, 0])); if(is_none(bias), y, y + bias)"},
    {.schema = "abs(Tensor self) -> Tensor", .traits = TC_OP_COMPLEX, .expand = expand_abs},
    {.schema = "max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
     .traits = TC_OP_COMPLEX,
     .meta = m_max_dim},
    {.schema = "alias(Tensor(a) self) -> Tensor(a)", .traits = TC_OP_VIEW | TC_OP_COMPLEX, .meta = m_alias},
    {.schema = "detach(Tensor(a) self) -> Tensor(a)", .traits = TC_OP_VIEW | TC_OP_COMPLEX, .meta = m_alias},
    {.schema = "permute(Tensor(a) self, int[] dims) -> Tensor(a)",
     .traits = TC_OP_VIEW | TC_OP_COMPLEX,
     .meta = m_permute},
    {.schema = "transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)",
     .traits = TC_OP_VIEW | TC_OP_COMPLEX,
     .meta = m_transpose},
    {.schema = "select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)",
     .traits = TC_OP_VIEW | TC_OP_COMPLEX,
     .meta = m_select},
    {.schema =
         "slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)",
     .traits = TC_OP_VIEW | TC_OP_COMPLEX,
     .meta = m_slice},
    {.schema = "unsqueeze(Tensor(a) self, int dim) -> Tensor(a)",
     .traits = TC_OP_VIEW | TC_OP_COMPLEX,
     .meta = m_unsqueeze},
    {.schema = "squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)",
     .traits = TC_OP_VIEW | TC_OP_COMPLEX,
     .meta = m_squeeze},
    {.schema = "expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)",
     .traits = TC_OP_VIEW | TC_OP_COMPLEX,
     .meta = m_expand},
    {.schema = "as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)",
     .traits = TC_OP_VIEW | TC_OP_COMPLEX,
     .meta = m_as_strided},
    {.schema = "view(Tensor(a) self, SymInt[] size) -> Tensor(a)",
     .traits = TC_OP_VIEW | TC_OP_COMPLEX,
     .meta = m_strict_view},
    {.schema = "reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)",
     .traits = TC_OP_MAYBE_VIEW | TC_OP_COMPLEX,
     .meta = m_reshape,
     .ref = ref_reshape},
    {.schema = "view_as_real(Tensor(a) self) -> Tensor(a)", .traits = TC_OP_VIEW | TC_OP_COMPLEX, .meta = m_as_real},
    {.schema = "view_as_complex(Tensor(a) self) -> Tensor(a)",
     .traits = TC_OP_VIEW | TC_OP_COMPLEX,
     .meta = m_as_complex},
    {.schema = "resolve_conj(Tensor(a) self) -> Tensor(a)",
     .traits = PW | TC_OP_COMPLEX,
     .meta = m_self,
     .scalar_ref = &s_self},
    {.schema = "where.self(Tensor condition, Tensor self, Tensor other) -> Tensor",
     .traits = PW,
     .scalar_ref = &s_where},
    {.schema = "batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool "
               "training, float momentum, float eps, bool cudnn_enabled) -> Tensor",
     .traits = TC_OP_COMPLEX,
     .meta = m_same},
    {.schema = "_native_batch_norm_legit_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, "
               "Tensor running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor "
               "running_mean_out, Tensor running_var_out)",
     .traits = TC_OP_COMPLEX,
     .meta = m_batch_norm},
    {.schema = "sub.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)",
     .traits = TC_OP_COMPLEX,
     .meta = m_out},
    {.schema = "unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]",
     .traits = TC_OP_VIEW | TC_OP_COMPLEX,
     .meta = m_unbind},
    {.schema = "_conj(Tensor(a) self) -> Tensor(a)", .traits = TC_OP_VIEW | TC_OP_COMPLEX, .meta = m_conj},
    {.schema = "slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) "
               "-> Tensor",
     .traits = TC_OP_COMPLEX,
     .meta = m_self,
     .ref = ref_slice_scatter},
    {.schema = "select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor",
     .traits = TC_OP_COMPLEX,
     .meta = m_self,
     .ref = ref_select_scatter},
    {.schema = "as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, SymInt? "
               "storage_offset=None) -> Tensor",
     .traits = TC_OP_COMPLEX,
     .meta = m_self,
     .ref = ref_as_strided_scatter},
    {.schema = "full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? "
               "device=None, bool? pin_memory=None) -> Tensor",
     .traits = TC_OP_COMPLEX,
     .meta = m_full,
     .ref = ref_full},
    {.schema = "to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? "
               "memory_format=None) -> Tensor(a)",
     .traits = PW | TC_OP_MAYBE_VIEW | TC_OP_COMPLEX,
     .meta = m_to,
     .scalar_ref = &s_self},
    {.schema = "_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
               "pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor",
     .traits = PW | TC_OP_COMPLEX,
     .meta = m_to_copy,
     .scalar_ref = &s_self},
    {.schema = "cat(Tensor[] tensors, int dim=0) -> Tensor", .traits = TC_OP_COMPLEX, .meta = m_cat, .ref = ref_cat},
    {.schema = "nonzero(Tensor self) -> Tensor", .traits = TC_OP_DATA_DEPENDENT, .meta = m_nonzero, .ref = ref_nonzero},
    {.schema = "item(Tensor self) -> Scalar", .traits = TC_OP_DATA_DEPENDENT, .meta = m_item},
};

static inline tc_status test_registry(tc_arena *arena, tc_op_registry **out) {
  TC_TRY(tc_op_registry_create(arena, out));
  for (size_t i = 0; i < sizeof test_rows / sizeof *test_rows; i++)
    TC_TRY(tc_op_register(*out, &test_rows[i], TC_SV("")));
  return TC_OK;
}

// A module whose arena is `arena` (a test's), with the test ops.
static inline tc_status test_module(tc_arena *arena, tc_module **out) {
  tc_op_registry *ops;
  TC_TRY(test_registry(arena, &ops));
  tc_module *m = TC_NEW(arena, tc_module);
  *m = (tc_module){.arena = arena, .ops = ops, .syms = tc_sym_create(arena), .bindings = tc_map_create(arena)};
  *out = m;
  return TC_OK;
}

static inline tc_status test_parse(tc_module *m, const char *text, tc_graph **out) {
  tc_lexer lx;
  tc_lex_init(&lx, m->arena, TC_SV("test.tc"), tc_sv_of(text));
  TC_TRY(tc_graph_parse(m, &lx, out));
  return TC_OK;
}

static inline const char *test_print(tc_graph *g) {
  tc_sb sb = tc_sb_make(g->module->arena);
  tc_graph_print(&sb, g);
  return sb.text;
}

#endif
