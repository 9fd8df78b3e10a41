// Selecting and writing by masks, lists of indices and strides, as texts or short programs over other ops.
#include "core/ops/ops.h"

#include "tc/lower.h"

static tc_gv reshaped(tc_op_args *a, tc_gv x, int32_t n, const tc_int *sizes) {
  tc_ex_begin(a, "aten::reshape");
  tc_ex_push(a, x);
  tc_ex_push_ints(a, n, sizes);
  return tc_ex_make(a, 1, NULL);
}
static tc_gv flat(tc_op_args *a, tc_gv x) {
  tc_int all = tc_int_const(a, -1);
  return reshaped(a, x, 1, &all);
}

// Where the elements of a view lie in its storage, in row-major order of the view.
static tc_gv positions(tc_op_args *a, tc_int start, int32_t n, const tc_int *sizes, const tc_int *strides) {
  tc_ex_begin(a, "aten::full");
  tc_ex_push_ints(a, 0, NULL);
  tc_ex_push_int(a, start);
  tc_ex_push_dtype(a, TC_I64);
  tc_gv at = tc_ex_make(a, 1, NULL);
  for (int32_t d = 0; d < n; d++) {
    tc_ex_begin(a, "aten::arange");
    tc_ex_push_int(a, sizes[d]);
    tc_gv k = tc_ex_make(a, 1, NULL);
    tc_ex_begin(a, "aten::mul.Scalar");
    tc_ex_push(a, k);
    tc_ex_push_int(a, strides[d]);
    k = tc_ex_make(a, 1, NULL);
    tc_ex_begin(a, "aten::unsqueeze");
    tc_ex_push(a, at);
    tc_ex_push_int(a, tc_int_const(a, -1));
    tc_gv before = tc_ex_make(a, 1, NULL);
    tc_ex_begin(a, "aten::add.Tensor");
    tc_ex_push(a, before);
    tc_ex_push(a, k);
    at = tc_ex_make(a, 1, NULL);
  }
  return flat(a, at);
}
static tc_int span(tc_op_args *a, tc_int start, int32_t n, const tc_int *sizes, const tc_int *strides) {
  tc_int end = tc_int_add(a, start, tc_int_const(a, 1));
  for (int32_t d = 0; d < n; d++)
    end = tc_int_add(a, end, tc_int_mul(a, tc_int_sub(a, sizes[d], tc_int_const(a, 1)), strides[d]));
  return end;
}
static tc_gv put(tc_op_args *a, tc_gv self, tc_gv list, tc_gv values) {
  tc_ex_begin(a, "aten::index_put");
  tc_ex_push(a, self);
  tc_ex_push_list(a, 1, &list);
  tc_ex_push(a, values);
  return tc_ex_make(a, 1, NULL);
}

// What as_strided_scatter refuses: other than a view that src fits.
static int32_t check_strided(tc_op_args *a) {
  const tc_tensor_type *src = tc_op_tensor(a, 1);
  int32_t n = tc_op_count(a, 2);
  tc_int zero = tc_int_const(a, 0);
  if (n != tc_op_count(a, 3) || n > TC_MAX_RANK) return tc_op_fail(a, "mismatch in length of strides and shape");
  bool fits = src->rank == n;
  for (int32_t d = 0; d < n; d++) {
    if (tc_int_lt(a, tc_op_sym_at(a, 3, d), zero) == 1) return tc_op_fail(a, "stride %d is negative", d);
    fits = fits && !tc_int_require_eq(a, src->sizes[d], tc_op_sym_at(a, 2, d));
  }
  if (!fits) return tc_op_fail(a, "src, %s, must have the size of the slice", tc_op_shape_text(a, 1));
  if (tc_op_kind(a, 4) != TC_AK_NONE && tc_int_lt(a, tc_op_sym(a, 4), zero) == 1)
    return tc_op_fail(a, "the storage offset is negative");
  return TC_STATUS_OK;
}

// as_strided_scatter: self's elements in storage order, with those replaced that the strides reach. Of a tensor that is
// not row-major a new storage is filled, of which the result is the view that self was; an element behind its last
// takes what the strides reach further on, however far.
static int32_t strided_expand(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  int32_t n = tc_op_count(a, 2);
  tc_int sizes[TC_MAX_RANK], strides[TC_MAX_RANK],
      zero = tc_int_const(a, 0),
      start = tc_op_kind(a, 4) == TC_AK_NONE ? zero : tc_int_sub(a, tc_op_sym(a, 4), t->offset);
  if (check_strided(a)) return TC_STATUS_INVALID_ARGUMENT;
  bool in_front = tc_int_lt(a, start, zero) == 1; // of the tensor; what lies there is nobody's
  tc_int first = in_front ? tc_int_sub(a, zero, start) : zero;
  if (in_front) start = zero;
  for (int32_t d = 0; d < n; d++) sizes[d] = tc_op_sym_at(a, 2, d), strides[d] = tc_op_sym_at(a, 3, d);
  if (tc_int_eq(a, tc_op_numel(a, tc_op_tensor(a, 1)), zero) == 1) // however large the other sizes are
    for (int32_t d = 0; d < n; d++) sizes[d] = zero;
  tc_gv list = positions(a, start, n, sizes, strides), src = flat(a, tc_ex_arg(a, 1));
  if (!in_front && tc_strides_contiguous(a->syms, t->rank, t->sizes, t->strides)) {
    tc_gv rows = put(a, flat(a, tc_ex_arg(a, 0)), list, src);
    tc_ex_result(a, 0, reshaped(a, rows, t->rank, t->sizes));
    return TC_STATUS_OK;
  }
  tc_int behind = span(a, first, t->rank, t->sizes, t->strides), size = tc_int_add(a, behind, tc_int_const(a, 1));
  tc_ex_begin(a, "aten::clamp");
  tc_ex_push(a, list);
  tc_ex_push_none(a);
  tc_ex_push_int(a, behind);
  list = tc_ex_make(a, 1, NULL);
  tc_ex_begin(a, "aten::zeros");
  tc_ex_push_ints(a, 1, &size);
  tc_ex_push_dtype(a, t->dtype);
  tc_gv storage = tc_ex_make(a, 1, NULL), own = positions(a, first, t->rank, t->sizes, t->strides);
  storage = put(a, put(a, storage, own, flat(a, tc_ex_arg(a, 0))), list, src);
  tc_ex_begin(a, "aten::as_strided");
  tc_ex_push(a, storage);
  tc_ex_push_ints(a, t->rank, t->sizes);
  tc_ex_push_ints(a, t->rank, t->strides);
  tc_ex_push_int(a, first);
  tc_ex_result(a, 0, tc_ex_make(a, 1, NULL));
  return TC_STATUS_OK;
}

// _unsafe_masked_index: where the mask is false the index need not be valid, so it is brought into range.
static int32_t masked_index_expand(tc_op_args *a) {
  bool put = tc_op_count(a, 3) == 1 && tc_op_kind(a, 3) == TC_AK_TENSOR;
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  int32_t n = tc_op_count(a, 2);
  tc_gv list[TC_MAX_RANK], self = tc_ex_arg(a, 0), mask = tc_ex_arg(a, 1);
  if (n > t->rank) return tc_op_fail(a, "too many indices for %s", tc_op_shape_text(a, 0));
  for (int32_t i = 0; i < n; i++) {
    list[i] = tc_ex_arg_at(a, 2, i);
    if (list[i] < 0) continue;
    tc_ex_begin(a, "aten::clamp");
    tc_ex_push(a, list[i]);
    tc_ex_push_int(a, tc_int_sub(a, tc_int_const(a, 0), t->sizes[i]));
    tc_ex_push_int(a, tc_int_sub(a, t->sizes[i], tc_int_const(a, 1)));
    list[i] = tc_ex_make(a, 1, NULL);
  }
  tc_ex_begin(a, "aten::logical_not");
  tc_ex_push(a, mask);
  tc_gv off = tc_ex_make(a, 1, NULL);
  if (put) {
    tc_ex_begin(a, "aten::masked_fill.Scalar");
    tc_ex_push_arg(a, 3);
    tc_ex_push(a, off);
    tc_ex_push_int(a, tc_int_const(a, 0));
    tc_gv values = tc_ex_make(a, 1, NULL);
    tc_ex_begin(a, "aten::index_put");
    tc_ex_push(a, self);
    tc_ex_push_list(a, n, list);
    tc_ex_push(a, values);
    tc_ex_push_bool(a, 1);
    tc_ex_result(a, 0, tc_ex_make(a, 1, NULL));
    return TC_STATUS_OK;
  }
  tc_ex_begin(a, "aten::index.Tensor");
  tc_ex_push(a, self);
  tc_ex_push_list(a, n, list);
  tc_gv picked = tc_ex_make(a, 1, NULL);
  tc_ex_begin(a, "aten::masked_fill.Scalar");
  tc_ex_push(a, picked);
  tc_ex_push(a, off);
  tc_ex_push_arg(a, 3);
  tc_ex_result(a, 0, tc_ex_make(a, 1, NULL));
  return TC_STATUS_OK;
}

// _chunk_cat: each tensor is padded to whole chunks along dim; chunk i of the result holds chunk i of every tensor,
// flat.
static int32_t chunk_cat_expand(tc_op_args *a) {
  int32_t n = tc_op_count(a, 0);
  int64_t chunks = tc_op_int(a, 2, 0);
  if (n < 1 || chunks < 1 || chunks > INT32_MAX)
    return tc_op_fail(a, "expected tensors and at least one chunk, got %d and %lld", n, (long long)chunks);
  tc_gv parts[64];
  int64_t dim = 0;
  if (n > 64) return tc_op_fail(a, "more than 64 tensors");
  for (int32_t i = 0; i < n; i++) {
    const tc_tensor_type *t = tc_op_tensor_at(a, 0, i);
    dim = tc_op_wrap_dim(a, tc_op_int(a, 1, 0), t->rank);
    if (dim < 0) return TC_STATUS_INVALID_ARGUMENT;
    if (t->rank == 0) return tc_op_fail(a, "expected tensors of rank 1 or more, element %d has none", i);
    if (t->dtype != tc_op_tensor_at(a, 0, 0)->dtype)
      return tc_op_fail(a, "expects all input tensors with the same dtype");
    tc_int count = tc_int_const(a, chunks),
           each = tc_int_floordiv(a, tc_int_add(a, t->sizes[dim], tc_int_const(a, chunks - 1)), count),
           sizes[TC_MAX_RANK], pad[2 * TC_MAX_RANK];
    int32_t np = 0;
    for (int32_t d = t->rank - 1; d >= dim; d--) {
      pad[np++] = tc_int_const(a, 0);
      pad[np++] = d == dim ? tc_int_sub(a, tc_int_mul(a, each, count), t->sizes[dim]) : tc_int_const(a, 0);
    }
    tc_gv x = tc_ex_arg_at(a, 0, i);
    if (tc_int_eq(a, tc_int_mod(a, t->sizes[dim], count), tc_int_const(a, 0)) != 1) {
      tc_ex_begin(a, "aten::contiguous"); // what is padded is row-major
      tc_ex_push(a, x);
      x = tc_ex_make(a, 1, NULL);
      tc_ex_begin(a, "aten::constant_pad_nd");
      tc_ex_push(a, x);
      tc_ex_push_ints(a, np, pad);
      x = tc_ex_make(a, 1, NULL);
    }
    for (int32_t d = 0; d < dim; d++) sizes[d] = t->sizes[d];
    sizes[dim] = count, sizes[dim + 1] = each;
    for (int32_t d = (int32_t)dim + 1; d < t->rank; d++) sizes[dim + 1] = tc_int_mul(a, sizes[dim + 1], t->sizes[d]);
    parts[i] = reshaped(a, x, (int32_t)dim + 2, sizes);
  }
  tc_ex_begin(a, "aten::cat");
  tc_ex_push_list(a, n, parts);
  tc_ex_push_int(a, tc_int_const(a, dim + 1));
  tc_ex_result(a, 0, tc_ex_make(a, 1, NULL));
  return TC_STATUS_OK;
}

// ---- combinations: the places of each r elements in lexicographic order ----
// -1: more than can be counted.
static int64_t choose(int64_t n, int64_t r) {
  int64_t c = 1;
  if (r > n) return 0;
  for (int64_t k = 1; k <= r; k++) {
    if (__builtin_mul_overflow(c, n - r + k, &c)) return -1;
    c /= k;
  }
  return c;
}
static int32_t combinations_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  int64_t n, r = tc_op_int(a, 1, 2);
  if (t->rank != 1) return tc_op_fail(a, "expects a 1-dimensional vector, got %s", tc_op_shape_text(a, 0));
  if (r < 0 || !tc_int_is_const(t->sizes[0], &n)) return tc_op_fail(a, "expects a known length and r ≥ 0");
  if (r > TC_MAX_RANK * 4) return tc_op_fail(a, "r = %lld is too large", (long long)r);
  bool repeat = tc_op_bool(a, 2, 0);
  int64_t rows = r == 0 || (repeat && n == 0) ? 0 : choose(repeat ? n + r - 1 : n, r);
  if (rows < 0) return tc_op_fail(a, "r = %lld of %s are too many", (long long)r, tc_op_shape_text(a, 0));
  tc_int sizes[2] = {tc_int_const(a, rows), tc_int_const(a, r)};
  return tc_op_set_result(a, 0, t->dtype, r == 0 ? 1 : 2, sizes, NULL);
}
static tc_gv binary(tc_op_args *a, const char *op, tc_gv x, tc_gv y) {
  tc_ex_begin(a, op);
  tc_ex_push(a, x);
  tc_ex_push(a, y);
  return tc_ex_make(a, 1, NULL);
}
static tc_gv with_int(tc_op_args *a, const char *op, tc_gv x, int64_t v) {
  tc_ex_begin(a, op);
  tc_ex_push(a, x);
  tc_ex_push_int(a, tc_int_const(a, v));
  return tc_ex_make(a, 1, NULL);
}
// Digit `from the left` of numbers below n^r.
static tc_gv digit(tc_op_args *a, tc_gv v, int64_t n, int64_t power) {
  tc_ex_begin(a, "aten::div.Scalar_mode");
  tc_ex_push(a, v);
  tc_ex_push_int(a, tc_int_const(a, power));
  tc_ex_push_string(a, (tc_sv){"floor", 5});
  return with_int(a, "aten::remainder.Scalar", tc_ex_make(a, 1, NULL), n);
}
// All r-digit numbers of base n in order; those with rising digits go to their rank among themselves, the others to a
// place behind, and what is found there is read digit by digit.
static int32_t combinations_expand(tc_op_args *a) {
  int64_t n, r = tc_op_int(a, 1, 2), count, numbers = 1, power = 1;
  bool repeat = tc_op_bool(a, 2, 0);
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  if (t->rank != 1) return tc_op_fail(a, "expects a 1-dimensional vector, got %s", tc_op_shape_text(a, 0));
  if (r < 0 || !tc_int_is_const(t->sizes[0], &n)) return tc_op_fail(a, "expects a known length and r ≥ 0");
  if (r == 1) {
    tc_ex_result(a, 0, with_int(a, "aten::unsqueeze", tc_ex_arg(a, 0), 1));
    return TC_STATUS_OK;
  }
  count = r == 0 ? 0 : repeat ? (n ? choose(n + r - 1, r) : 0) : choose(n, r);
  if (count == 0) {
    tc_int sizes[2] = {tc_int_const(a, 0), tc_int_const(a, r)};
    tc_ex_begin(a, "aten::new_zeros");
    tc_ex_push(a, tc_ex_arg(a, 0));
    tc_ex_push_ints(a, r == 0 ? 1 : 2, sizes);
    tc_ex_result(a, 0, tc_ex_make(a, 1, NULL));
    return TC_STATUS_OK;
  }
  for (int64_t k = 0; k < r; k++) {
    if (numbers > INT32_MAX / n) return TC_STATUS_OK; // left to the references
    numbers *= n;
  }
  tc_ex_begin(a, "aten::arange");
  tc_ex_push_int(a, tc_int_const(a, numbers));
  tc_gv all = tc_ex_make(a, 1, NULL), rising = -1;
  for (int64_t k = 0; k + 1 < r; k++, power *= n) {
    tc_gv right = digit(a, all, n, power), left = digit(a, all, n, power * n);
    tc_gv up = binary(a, repeat ? "aten::le.Tensor" : "aten::lt.Tensor", left, right);
    rising = rising < 0 ? up : binary(a, "aten::logical_and", rising, up);
  }
  tc_gv rank = with_int(a, "aten::sub.Scalar", with_int(a, "aten::cumsum", rising, 0), 1);
  tc_ex_begin(a, "aten::where.ScalarOther");
  tc_ex_push(a, rising);
  tc_ex_push(a, rank);
  tc_ex_push_int(a, tc_int_const(a, count));
  tc_gv place = tc_ex_make(a, 1, NULL);
  tc_int size = tc_int_const(a, count + 1);
  tc_ex_begin(a, "aten::new_zeros");
  tc_ex_push(a, all);
  tc_ex_push_ints(a, 1, &size);
  tc_gv found = tc_ex_make(a, 1, NULL);
  tc_ex_begin(a, "aten::scatter.src");
  tc_ex_push(a, found);
  tc_ex_push_int(a, tc_int_const(a, 0));
  tc_ex_push(a, place);
  tc_ex_push(a, all);
  found = tc_ex_make(a, 1, NULL);
  tc_ex_begin(a, "aten::slice.Tensor");
  tc_ex_push(a, found);
  tc_ex_push_int(a, tc_int_const(a, 0));
  tc_ex_push_int(a, tc_int_const(a, 0));
  tc_ex_push_int(a, tc_int_const(a, count));
  found = tc_ex_make(a, 1, NULL);
  tc_gv columns[TC_MAX_RANK * 4];
  if (r > TC_MAX_RANK * 4) return tc_op_fail(a, "r = %lld is too large", (long long)r);
  for (int64_t k = 0; k < r; k++, power /= n) {
    tc_gv at = digit(a, found, n, power);
    tc_ex_begin(a, "aten::index_select");
    tc_ex_push(a, tc_ex_arg(a, 0));
    tc_ex_push_int(a, tc_int_const(a, 0));
    tc_ex_push(a, at);
    columns[k] = tc_ex_make(a, 1, NULL);
  }
  tc_ex_begin(a, "aten::stack");
  tc_ex_push_list(a, (int32_t)r, columns);
  tc_ex_push_int(a, tc_int_const(a, 1));
  tc_ex_result(a, 0, tc_ex_make(a, 1, NULL));
  return TC_STATUS_OK;
}
static int32_t combinations_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_result_data(a, 0);
  int64_t r = tc_op_int(a, 1, 2), n = x->sizes[0], *at = tc_op_scratch(a, (uint64_t)(r + 1) * sizeof *at);
  bool repeat = tc_op_bool(a, 2, 0);
  if (!at) return TC_STATUS_OUT_OF_MEMORY;
  for (int64_t k = 0; k < r; k++) at[k] = repeat ? 0 : k;
  for (int64_t row = 0; r > 0 && row < y->sizes[0]; row++) {
    for (int64_t k = 0; k < r; k++) tc_ref_copy(y, row * r + k, x, at[k] * x->strides[0]);
    int64_t k = r - 1;
    while (k >= 0 && at[k] == (repeat ? n - 1 : n - r + k)) k--;
    if (k < 0) break;
    at[k]++;
    for (int64_t j = k + 1; j < r; j++) at[j] = repeat ? at[k] : at[j - 1] + 1;
  }
  return TC_STATUS_OK;
}

// ---- repeat_interleave: how often comes from data ----
static int32_t repeat_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  tc_int sizes[TC_MAX_RANK], strides[TC_MAX_RANK],
      step = tc_int_const(a, 1), n = tc_op_kind(a, 3) == TC_AK_NONE ? tc_op_unbacked(a, 0, INT64_MAX) : tc_op_sym(a, 3);
  const tc_tensor_type *times = tc_op_tensor(a, 1);
  if (times->rank > 1 || tc_dtype_is_float(times->dtype) || tc_dtype_is_complex(times->dtype))
    return tc_op_fail(a, "repeats must be an integer or a vector of integers: %s", tc_op_shape_text(a, 1));
  if (tc_op_kind(a, 2) == TC_AK_NONE) return tc_op_set_result(a, 0, t->dtype, 1, &n, NULL);
  int64_t dim = tc_op_dim(a, 2, t->rank);
  if (dim < 0) return TC_STATUS_INVALID_ARGUMENT;
  for (int32_t d = 0; d < t->rank; d++) sizes[d] = d == dim ? n : t->sizes[d];
  for (int32_t d = t->rank - 1; d >= 0; d--) {
    strides[d] = step;
    step = tc_int_mul(a, step, tc_int_max(a, sizes[d], tc_int_const(a, 1)));
  }
  return tc_op_set_result(a, 0, t->dtype, t->rank, sizes, strides);
}
static int32_t repeat_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *times = tc_op_data(a, 1);
  bool all = tc_op_kind(a, 2) == TC_AK_NONE;
  int64_t dim = all ? 0 : tc_op_dim(a, 2, x->rank), length = all ? tc_ref_numel(x) : x->sizes[dim], total = 0,
          i[TC_MAX_RANK] = {0}, count = tc_ref_numel(times);
  if (count != length && count != 1)
    return tc_op_fail(a, "repeats must have the size of the dimension (%lld) or 1, it has %lld", (long long)length,
                      (long long)count);
  int64_t step = times->rank && count != 1 ? times->strides[0] : 0;
  int64_t *from = tc_op_scratch(a, (uint64_t)(length + 1) * sizeof *from);
  if (!from) return TC_STATUS_OUT_OF_MEMORY;
  for (int64_t k = 0; k < length; k++) {
    int64_t r = tc_ref_i(times, k * step);
    if (r < 0) return tc_op_fail(a, "repeats can not be negative");
    if (r > INT64_MAX - total) return tc_op_fail(a, "the repeats sum to more than a size can be");
    from[k] = total, total += r;
  }
  if (tc_op_kind(a, 3) != TC_AK_NONE && tc_op_int(a, 3, total) != total)
    return tc_op_fail(a, "allocated size does not match required size: output_size is %lld, the repeats sum to %lld",
                      (long long)tc_op_int(a, 3, total), (long long)total);
  int64_t sizes[TC_MAX_RANK];
  for (int32_t d = 0; d < x->rank; d++) sizes[d] = d == dim ? total : x->sizes[d];
  const tc_ref_view *y = tc_op_alloc_result(a, 0, all ? 1 : x->rank, all ? &total : sizes);
  if (!y) return TC_STATUS_INVALID_ARGUMENT;
  int64_t place = 0;
  for (bool more = tc_ref_numel(x) > 0; more; more = tc_ref_next(x->rank, x->sizes, i), place++) {
    int64_t k = all ? place : i[dim], to = 0;
    for (int32_t d = 0; d < x->rank && !all; d++) to += (d == dim ? from[k] : i[d]) * y->strides[d];
    if (all) to = from[k];
    for (int64_t r = 0; r < tc_ref_i(times, k * step); r++)
      tc_ref_copy(y, to + r * y->strides[all ? 0 : dim], x, tc_ref_offset(x, i));
  }
  return TC_STATUS_OK;
}

// diagonal_scatter: the source is as large as the diagonal.
static int32_t masked_scatter_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0), *mask = tc_op_tensor(a, 1), *source = tc_op_tensor(a, 2);
  const int32_t both[] = {0, 1};
  int32_t rank;
  if (mask->dtype != TC_BOOL)
    return tc_op_fail(a, "masked_scatter only supports boolean masks, but got mask with dtype %s",
                      tc_dtype_torch_name(mask->dtype));
  if (source->dtype != t->dtype)
    return tc_op_fail(a, "expected self and source to have same dtypes but got %s and %s",
                      tc_dtype_torch_name(t->dtype), tc_dtype_torch_name(source->dtype));
  const tc_int *sizes = tc_op_broadcast(a, 2, both, &rank);
  return sizes ? tc_op_set_result(a, 0, t->dtype, rank, sizes, NULL) : TC_STATUS_INVALID_ARGUMENT;
}
static int32_t put_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0), *index = tc_op_tensor(a, 1), *source = tc_op_tensor(a, 2);
  if (index->dtype != TC_I64)
    return tc_op_fail(a, "Expected a long tensor for index, but got %s", tc_dtype_torch_name(index->dtype));
  if (source->dtype != t->dtype)
    return tc_op_fail(a, "self and source expected to have the same dtype, but got %s and %s",
                      tc_dtype_torch_name(t->dtype), tc_dtype_torch_name(source->dtype));
  if (tc_int_require_eq(a, tc_op_numel(a, index), tc_op_numel(a, source)))
    return tc_op_fail(a, "Expected source and index to have the same number of elements: %s and %s",
                      tc_op_shape_text(a, 2), tc_op_shape_text(a, 1));
  return tc_op_format_result(a, 0, t->dtype, t->rank, t->sizes, TC_FORMAT_PRESERVE, 0);
}
static int32_t diagonal_scatter_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0), *src = tc_op_tensor(a, 1);
  if (t->rank < 2) return tc_op_fail(a, "expected a tensor of at least two dimensions: %s", tc_op_shape_text(a, 0));
  int64_t d1 = tc_op_dim(a, 3, t->rank), d2 = tc_op_dim(a, 4, t->rank), offset = tc_op_int(a, 2, 0);
  if (d1 < 0 || d2 < 0) return TC_STATUS_INVALID_ARGUMENT;
  if (d1 == d2) return tc_op_fail(a, "diagonal dimensions cannot be identical: %lld", (long long)d1);
  tc_int rows = t->sizes[d1], columns = t->sizes[d2], by = tc_int_const(a, offset);
  tc_int n =
      tc_int_min(a, offset < 0 ? tc_int_add(a, rows, by) : rows, offset < 0 ? columns : tc_int_sub(a, columns, by));
  bool fits = src->rank == t->rank - 1;
  for (int32_t d = 0, k = 0; d < t->rank && fits; d++)
    if (d != d1 && d != d2) fits = !tc_int_require_eq(a, src->sizes[k++], t->sizes[d]);
  if (!fits || tc_int_require_eq(a, src->sizes[src->rank - 1], tc_int_max(a, n, tc_int_const(a, 0))))
    return tc_op_fail(a, "expected src to have a size equal to the diagonal of self: %s for %s", tc_op_shape_text(a, 1),
                      tc_op_shape_text(a, 0));
  return tc_meta_same_strides(a);
}

enum { C = TC_OP_COMPLEX };
#define TEXT(s, d) {.schema = s, .traits = C, .decompose = d}
#define CODE(s, f) {.schema = s, .traits = C, .expand = f}
static const tc_op_def rows[] = {
    {.schema = "masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor",
     .traits = C,
     .meta = masked_scatter_meta,
     .decompose =
         "let both = broadcast_tensors([self, mask]); let n = sub(cumsum(reshape(to(both[1], i64), [-1]), 0), 1);"
         "if(source.numel == 0, clone(both[0]), where(both[1], reshape(index(reshape(source, [-1]), [clamp_min(n, "
         "0)]), "
         "both[0].sizes), both[0]))"},
    {.schema = "diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor",
     .traits = C,
     .meta = diagonal_scatter_meta,
     .decompose = "let x = movedim(self, [dim1, dim2], [-2, -1]); let r = unsqueeze(arange(x.size(-2)), 1); let c = "
                  "arange(x.size(-1)); let down = offset >= 0; let k = clamp(if(down, arange(x.size(-2)), c), 0, "
                  "src.size(-1) - 1);"
                  "if(src.numel == 0, clone(self), slice_scatter(self, movedim(where(eq(sub(c, r), offset), "
                  "unsqueeze(index_select(src, -1, k), "
                  "if(down, -1, -2)), x), [-2, -1], [dim1, dim2]), 0, 0, none))"},
    CODE("as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> "
         "Tensor",
         strided_expand),
    // self's elements, row by row, with those replaced that the strides reach: a write through a view, whose gradients
    // are those of what is left of self and of what was written, unlike as_strided_scatter's (place_derivatives.c).
    TEXT("tc::strided_put(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, SymInt storage_offset) -> Tensor",
         "let all = if(src.sizes == size, self, fail(\"src must have the size of what is written\"));"
         "reshape(index_put(reshape(all, [-1]), [reshape(as_strided(arange(self.numel), size, stride, "
         "storage_offset), [-1])], reshape(src, [-1])), self.sizes)"),
    CODE("_unsafe_masked_index(Tensor self, Tensor mask, Tensor?[] indices, Scalar fill) -> Tensor",
         masked_index_expand),
    CODE("_unsafe_masked_index_put_accumulate(Tensor self, Tensor mask, Tensor?[] indices, Tensor values) -> Tensor",
         masked_index_expand),
    {.schema = "put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor",
     .traits = C,
     .meta = put_meta,
     .decompose = "reshape(index_put(reshape(self, [-1]), [reshape(index, [-1])], reshape(source, [-1]), accumulate), "
                  "self.sizes)"},
    TEXT("index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor",
         "where(index_fill(zeros_like(self, dtype=bool), dim, index, true), to(value, self.dtype), self)"),
    CODE("_chunk_cat(Tensor[] tensors, int dim, int num_chunks) -> Tensor", chunk_cat_expand),
    {.schema = "combinations(Tensor self, int r=2, bool with_replacement=False) -> Tensor",
     .traits = C | TC_OP_MAY_EXPAND,
     .meta = combinations_meta,
     .expand = combinations_expand,
     .ref = combinations_ref},
    {.schema =
         "repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, SymInt? output_size=None) -> "
         "Tensor",
     .traits = C | TC_OP_DATA_DEPENDENT,
     .meta = repeat_meta,
     .decompose = "let x = if(is_none(dim), reshape(self, [self.numel]), self); let d = if(is_none(dim), 0, dim);"
                  "let each = to(if(repeats.numel == 1, expand(reshape(repeats, [1]), [x.size(d)]), repeats), i64);"
                  "let n = if(is_none(output_size), item(where(any(lt(each, 0)), -1, sum(each))), output_size);"
                  "index_select(x, d, tc::steps(cumsum(each, 0), n))",
     .ref = repeat_ref},
    TEXT("repeat_interleave.Tensor(Tensor repeats, *, SymInt? output_size=None) -> Tensor",
         "to(repeat_interleave(arange(repeats.size(0)), repeats, 0, output_size=output_size), repeats.dtype)"),
};
TC_OP_FAMILY(masked);
