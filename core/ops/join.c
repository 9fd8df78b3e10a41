// Tensors put together: cat, stack and their kin.
#include "core/ops/ops.h"

// ---- cat ----
// An empty tensor of rank 1 counts as nothing (what PyTorch keeps for old programs).
static bool skipped(tc_op_args *a, const tc_tensor_type *t) {
  return t->rank == 1 && tc_int_eq(a, t->sizes[0], tc_int_const(a, 0)) == 1;
}

static const tc_tensor_type *first_of(tc_op_args *a) {
  for (int32_t k = 0; k < tc_op_count(a, 0); k++) {
    if (!skipped(a, tc_op_tensor_at(a, 0, k))) return tc_op_tensor_at(a, 0, k);
  }
  return tc_op_tensor_at(a, 0, 0);
}

static int32_t cat_meta(tc_op_args *a) {
  int32_t n = tc_op_count(a, 0);
  if (n == 0) return tc_op_fail(a, "expected a non-empty list of tensors");
  const int32_t list = 0;
  const tc_tensor_type *first = first_of(a);
  int64_t dim = tc_op_dim(a, 1, first->rank);
  tc_dtype d = tc_op_promote(a, 1, &list);
  if (dim < 0 || d == TC_DTYPE_NONE) return TC_STATUS_INVALID_ARGUMENT;
  if (first->rank == 0) return tc_op_fail(a, "tensors of rank 0 cannot be concatenated");
  tc_int sizes[TC_MAX_RANK], total = tc_int_const(a, 0), strides[TC_MAX_RANK];
  int32_t format = tc_suggested_format(a, first);
  for (int32_t i = 0; i < first->rank; i++) sizes[i] = first->sizes[i];
  for (int32_t k = 0; k < n; k++) {
    const tc_tensor_type *t = tc_op_tensor_at(a, 0, k);
    if (tc_suggested_format(a, t) != format) format = TC_FORMAT_CONTIGUOUS;
    if (skipped(a, t)) continue;
    if (t->rank != first->rank)
      return tc_op_fail(a, "tensors must have the same number of dimensions: got %d and %d", first->rank, t->rank);
    for (int32_t i = 0; i < t->rank; i++) {
      if (i != dim && tc_int_require_eq(a, t->sizes[i], sizes[i]))
        return tc_op_fail(a, "sizes of tensors must match except in dimension %lld; tensor %d differs in dimension %d",
                          (long long)dim, k, i);
    }
    total = tc_int_add(a, total, t->sizes[dim]);
  }
  sizes[dim] = total;
  if (format == TC_FORMAT_CONTIGUOUS) return tc_op_set_result(a, 0, d, first->rank, sizes, NULL);
  tc_strides_make_channels_last(a->syms, first->rank, sizes, strides);
  return tc_op_set_result(a, 0, d, first->rank, sizes, strides);
}

// A piece per tensor: outside of it the value of the pieces before stays.
static int32_t cat_lower(tc_op_args *a) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  int64_t dim = tc_op_dim(a, 1, r->rank);
  tc_int index[TC_MAX_RANK], at[TC_MAX_RANK], start = tc_int_const(a, 0);
  int32_t n = tc_op_count(a, 0);
  tc_lt *x = TC_NEW_ARRAY(a->arena, tc_lt, n);
  for (int32_t k = 0; k < n; k++) x[k] = tc_lo_arg_at(a, 0, k);
  tc_lo_begin(a, r->rank, r->sizes, index);
  tc_bval v = tc_lo_const(a, r->dtype, 0, 0);
  for (int32_t k = 0; k < n; k++) {
    const tc_tensor_type *t = tc_op_tensor_at(a, 0, k);
    if (skipped(a, t)) continue;
    tc_int end = tc_int_add(a, start, t->sizes[dim]);
    for (int32_t i = 0; i < r->rank; i++) at[i] = index[i];
    at[dim] = tc_int_sub(a, index[dim], start);
    tc_bval other = tc_lo_const(a, tc_lo_dtype(a, x[k]), 0, 0);
    tc_int inside = tc_int_within(a, index[dim], start, end);
    if (tc_lo_dtype(a, x[k]) == r->dtype) {
      v = tc_lo_load_if(a, x[k], at, inside, v);
    } else {
      tc_bval here = tc_lo_cast(a, tc_lo_load_if(a, x[k], at, inside, other), r->dtype);
      v = tc_lo_op3(a, TC_K_SELECT, tc_lower_condition(a, inside), here, v);
    }
    start = end;
  }
  tc_lo_result(a, 0, tc_lo_end(a, v, r->dtype));
  return TC_STATUS_OK;
}

static int32_t cat_ref(tc_op_args *a) {
  const tc_ref_view *y = tc_op_result_data(a, 0);
  int64_t dim = tc_op_dim(a, 1, y->rank), start = 0;
  for (int32_t k = 0; k < tc_op_count(a, 0); k++) {
    const tc_ref_view *x = tc_op_data_at(a, 0, k);
    int64_t ix[TC_MAX_RANK] = {0};
    if (skipped(a, tc_op_tensor_at(a, 0, k))) continue;
    for (bool more = tc_ref_numel(x) > 0; more; more = tc_ref_next(x->rank, x->sizes, ix)) {
      tc_ref_copy(y, tc_ref_offset(y, ix) + start * y->strides[dim], x, tc_ref_offset(x, ix));
    }
    start += x->sizes[dim];
  }
  return TC_STATUS_OK;
}

// ---- in terms of cat ----
static tc_gv cat(tc_op_args *a, int32_t n, const tc_gv *v, int64_t dim) {
  tc_ex_begin(a, "aten::cat");
  tc_ex_push_list(a, n, v);
  tc_ex_push_int(a, tc_int_const(a, dim));
  return tc_ex_make(a, 1, NULL);
}
// Put together along the dimension before which they are stacked, which is then cut: the layout is cat's.
static tc_gv cut_cat(tc_op_args *a, int32_t n, const tc_gv *v, const tc_tensor_type *t, int64_t dim) {
  tc_int sizes[TC_MAX_RANK];
  for (int32_t d = 0; d < t->rank; d++) sizes[d < dim ? d : d + 1] = t->sizes[d];
  sizes[dim] = tc_int_const(a, n);
  tc_gv whole = cat(a, n, v, dim);
  tc_ex_begin(a, "aten::view");
  tc_ex_push(a, whole);
  tc_ex_push_ints(a, t->rank + 1, sizes);
  return tc_ex_make(a, 1, NULL);
}
static int32_t stack_expand(tc_op_args *a) {
  int32_t n = tc_op_count(a, 0);
  if (n == 0) return tc_op_fail(a, "expected a non-empty list of tensors");
  const tc_tensor_type *first = tc_op_tensor_at(a, 0, 0);
  int64_t dim = tc_op_wrap_dim(a, tc_op_int(a, 1, 0), first->rank + 1);
  if (dim < 0) return TC_STATUS_INVALID_ARGUMENT;
  if (first->rank == TC_MAX_RANK) return tc_op_fail(a, "tensors of rank %d cannot be stacked", first->rank);
  tc_gv *v = TC_NEW_ARRAY(a->arena, tc_gv, n);
  bool row_major = true;
  for (int32_t k = 0; k < n; k++) {
    const tc_tensor_type *t = tc_op_tensor_at(a, 0, k);
    bool same = t->rank == first->rank;
    for (int32_t d = 0; d < t->rank && same; d++) same = !tc_int_require_eq(a, t->sizes[d], first->sizes[d]);
    if (!same) return tc_op_fail(a, "stack expects each tensor to be of equal size");
    row_major &= tc_strides_contiguous(a->syms, t->rank, t->sizes, t->strides);
    v[k] = tc_ex_arg_at(a, 0, k);
  }
  if (!row_major && dim < first->rank) {
    tc_ex_result(a, 0, cut_cat(a, n, v, first, dim));
    return TC_STATUS_OK;
  }
  for (int32_t k = 0; k < n; k++) {
    tc_gv x = v[k];
    tc_ex_begin(a, "aten::unsqueeze");
    tc_ex_push(a, x);
    tc_ex_push_int(a, tc_int_const(a, dim));
    v[k] = tc_ex_make(a, 1, NULL);
  }
  tc_ex_result(a, 0, cat(a, n, v, dim));
  return TC_STATUS_OK;
}
// hstack, vstack, dstack: at least that rank, then cat.
static int32_t stack_along(tc_op_args *a, int32_t rank, int64_t dim) {
  int32_t n = tc_op_count(a, 0);
  if (n == 0) return tc_op_fail(a, "expected a non-empty list of tensors");
  const char *const ops[] = {NULL, "aten::atleast_1d", "aten::atleast_2d", "aten::atleast_3d"};
  tc_gv *v = TC_NEW_ARRAY(a->arena, tc_gv, n);
  for (int32_t k = 0; k < n; k++) {
    v[k] = tc_ex_arg_at(a, 0, k);
    if (tc_op_tensor_at(a, 0, k)->rank >= rank) continue;
    tc_ex_begin(a, ops[rank]);
    tc_ex_push(a, v[k]);
    v[k] = tc_ex_make(a, 1, NULL);
  }
  tc_ex_result(a, 0, cat(a, n, v, dim));
  return TC_STATUS_OK;
}
static int32_t hstack_expand(tc_op_args *a) {
  return stack_along(a, 1, tc_op_count(a, 0) && tc_op_tensor_at(a, 0, 0)->rank > 1);
}
static int32_t vstack_expand(tc_op_args *a) { return stack_along(a, 2, 0); }
// column_stack: what has no columns becomes one.
static int32_t column_stack_expand(tc_op_args *a) {
  int32_t n = tc_op_count(a, 0);
  if (n == 0) return tc_op_fail(a, "expected a non-empty list of tensors");
  tc_gv *v = TC_NEW_ARRAY(a->arena, tc_gv, n);
  for (int32_t k = 0; k < n; k++) {
    v[k] = tc_ex_arg_at(a, 0, k);
    if (tc_op_tensor_at(a, 0, k)->rank > 1) continue;
    tc_int column[2] = {tc_op_numel(a, tc_op_tensor_at(a, 0, k)), tc_int_const(a, 1)};
    tc_ex_begin(a, "aten::reshape");
    tc_ex_push(a, v[k]);
    tc_ex_push_ints(a, 2, column);
    v[k] = tc_ex_make(a, 1, NULL);
  }
  tc_ex_result(a, 0, cat(a, n, v, 1));
  return TC_STATUS_OK;
}
static int32_t dstack_expand(tc_op_args *a) { return stack_along(a, 3, 2); }

static int32_t block_diag_expand(tc_op_args *a) {
  int32_t n = tc_op_count(a, 0);
  tc_int zero = tc_int_const(a, 0), one = tc_int_const(a, 1), total = zero, before = zero, none[2] = {one, zero};
  if (n == 0) {
    tc_ex_begin(a, "aten::zeros");
    tc_ex_push_ints(a, 2, none);
    tc_ex_result(a, 0, tc_ex_make(a, 1, NULL));
    return TC_STATUS_OK;
  }
  tc_gv *v = TC_NEW_ARRAY(a->arena, tc_gv, n);
  tc_int *wide = TC_NEW_ARRAY(a->arena, tc_int, n);
  for (int32_t k = 0; k < n; k++) {
    const tc_tensor_type *t = tc_op_tensor_at(a, 0, k);
    if (t->rank > 2) return tc_op_fail(a, "block_diag takes tensors of rank 2 or less; tensor %d has %d", k, t->rank);
    tc_int shape[2] = {t->rank == 2 ? t->sizes[0] : one, t->rank == 0 ? one : t->sizes[t->rank - 1]};
    tc_gv x = tc_ex_arg_at(a, 0, k);
    tc_ex_begin(a, "aten::reshape");
    tc_ex_push(a, x);
    tc_ex_push_ints(a, 2, shape);
    v[k] = tc_ex_make(a, 1, NULL);
    wide[k] = shape[1];
    total = tc_int_add(a, total, shape[1]);
  }
  for (int32_t k = 0; k < n; k++) {
    tc_int pad[2] = {before, tc_int_sub(a, tc_int_sub(a, total, before), wide[k])};
    tc_ex_begin(a, "aten::constant_pad_nd");
    tc_ex_push(a, v[k]);
    tc_ex_push_ints(a, 2, pad);
    v[k] = tc_ex_make(a, 1, NULL);
    before = tc_int_add(a, before, wide[k]);
  }
  tc_ex_result(a, 0, cat(a, n, v, 0));
  return TC_STATUS_OK;
}

enum { C = TC_OP_COMPLEX };
static const tc_op_def rows[] = {
    {.schema = "cat(Tensor[] tensors, int dim=0) -> Tensor",
     .traits = C,
     .meta = cat_meta,
     .lower = cat_lower,
     .ref = cat_ref},
    {.schema = "concat(Tensor[] tensors, int dim=0) -> Tensor",
     .traits = C,
     .meta = cat_meta,
     .lower = cat_lower,
     .ref = cat_ref},
    {.schema = "concatenate(Tensor[] tensors, int dim=0) -> Tensor",
     .traits = C,
     .meta = cat_meta,
     .lower = cat_lower,
     .ref = cat_ref},
    {.schema = "stack(Tensor[] tensors, int dim=0) -> Tensor", .traits = C, .expand = stack_expand},
    {.schema = "hstack(Tensor[] tensors) -> Tensor", .traits = C, .expand = hstack_expand},
    {.schema = "vstack(Tensor[] tensors) -> Tensor", .traits = C, .expand = vstack_expand},
    {.schema = "dstack(Tensor[] tensors) -> Tensor", .traits = C, .expand = dstack_expand},
    {.schema = "column_stack(Tensor[] tensors) -> Tensor", .traits = C, .expand = column_stack_expand},
    {.schema = "block_diag(Tensor[] tensors) -> Tensor", .traits = C, .expand = block_diag_expand},
};
// Derivatives; see docs/ADDING_AN_OP.md for what the texts can name.
static const tc_op_derivative derivatives[] = {
    {"cat", "tensors: split_with_sizes(grad, sizes_of(tensors, dim), dim)"},
    {"concat", "tensors: split_with_sizes(grad, sizes_of(tensors, dim), dim)"},
    {"concatenate", "tensors: split_with_sizes(grad, sizes_of(tensors, dim), dim)"},
};
TC_OP_FAMILY_WITH_DERIVATIVES(join);
