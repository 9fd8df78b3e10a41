// Order along a dimension: sort, argsort, topk.
//
// Lowering: the template "sort" over the dimension, made the last one, gives the order; values are gathered. Equal
// elements keep their order. NaN counts as the largest value, as in PyTorch. Of long rows of which few elements are
// wanted the template keeps lists of as many, LISTS at most, instead of the whole order.
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
  o->descending = largest >= 0 ? tc_op_bool(a, largest, 1) : tc_op_bool(a, descending, 0);
  o->keep = k >= 0 ? tc_op_sym(a, k) : t->rank ? t->sizes[o->dim] : tc_int_const(a, 1);
  if (k < 0 || !t->rank) return TC_STATUS_OK;
  tc_int values[] = {o->keep, tc_int_const(a, o->dim), t->sizes[o->dim]};
  return tc_op_require(a, tc_int_within(a, o->keep, tc_int_const(a, 0), tc_int_add(a, values[2], tc_int_const(a, 1))),
                       "k = {} is out of range for dimension {} of size {}", 3, values);
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

// How many words the template works on, for rows of n.
static tc_int words_of(tc_op_args *a, tc_int n, int64_t wanted) {
  enum { LISTS = 32, SHORTEST = 8, LONGEST = 64 };
  int64_t length = SHORTEST, row;
  while (length < wanted) length *= 2;
  bool lists = wanted > 0 && length <= LONGEST && tc_int_is_const(n, &row) && row > LISTS * length;
  return lists ? tc_int_const(a, LISTS * length) : n;
}

// One use of the template: which element comes i-th, in the low halves of plane 0.
static tc_lt sorted(tc_op_args *a, tc_lt x, int32_t part, bool descending, int64_t wanted) {
  tc_int sizes[TC_MAX_RANK], index[TC_MAX_RANK], map[TC_MAX_RANK];
  int32_t rank = tc_lo_rank(a, x);
  for (int32_t d = 0; d < rank - 1; d++) sizes[d] = tc_lo_size(a, x, d);
  sizes[rank - 1] = tc_int_const(a, 2);
  sizes[rank] = words_of(a, tc_lo_size(a, x, rank - 1), wanted);
  tc_int attrs[3] = {tc_int_const(a, part), tc_int_const(a, descending), tc_int_const(a, wanted)};
  tc_lt words = tc_lo_template(a, "sort", 1, &x, TC_I64, rank + 1, sizes, 3, attrs);
  sizes[rank - 1] = sizes[rank];
  tc_lo_indices(a, rank, sizes, index);
  for (int32_t d = 0; d < rank - 1; d++) map[d] = index[d];
  map[rank - 1] = tc_int_const(a, 0);
  map[rank] = index[rank - 1];
  return tc_lo_view(a, words, rank, sizes, index, map);
}
static tc_bval place_in(tc_op_args *a, tc_lt words, const tc_int *index) {
  return tc_lo_op2(a, TC_K_AND, tc_lo_load(a, words, index), tc_lo_const_int(a, TC_I64, UINT32_MAX));
}

// The stable order of the last dimension, as words, of which the first `wanted` (0: all) are right: 64-bit values by
// their low halves first, then by the high ones.
static tc_lt order_of(tc_op_args *a, tc_lt x, bool descending, int64_t wanted) {
  tc_dtype d = tc_lo_dtype(a, x);
  bool wide = d == TC_I64 || d == TC_U64 || d == TC_F64;
  tc_lt words = sorted(a, x, wide ? TC_SORT_LOW : TC_SORT_WHOLE, descending, wide ? 0 : wanted);
  if (!wide) return words;
  int32_t rank = tc_lo_rank(a, x);
  tc_int sizes[TC_MAX_RANK], index[TC_MAX_RANK], at[TC_MAX_RANK];
  tc_bval by[TC_MAX_RANK];
  for (int32_t k = 0; k < rank; k++) sizes[k] = tc_lo_size(a, x, k);
  tc_lo_begin(a, rank, sizes, index);
  for (int32_t k = 0; k < rank; k++) by[k] = k == rank - 1 ? place_in(a, words, index) : -1, at[k] = index[k];
  at[rank - 1] = tc_int_const(a, 0);
  tc_lt high = sorted(a, tc_lo_end(a, tc_lo_gather(a, x, at, by, 0), d), TC_SORT_HIGH, descending, wanted);
  if (wanted > 0) sizes[rank - 1] = tc_int_const(a, wanted); // the others are not even positions
  tc_lo_begin(a, rank, sizes, index);
  for (int32_t k = 0; k < rank; k++) by[k] = k == rank - 1 ? place_in(a, high, index) : -1, at[k] = index[k];
  at[rank - 1] = tc_int_const(a, 0);
  return tc_lo_end(a, tc_lo_gather(a, words, at, by, 0), TC_I64);
}

// Values at positions along a dimension; the positions have the results' sizes.
static tc_lt taken(tc_op_args *a, tc_lt x, tc_lt places, int64_t dim) {
  int32_t rank = tc_lo_rank(a, places);
  tc_int sizes[TC_MAX_RANK], index[TC_MAX_RANK];
  tc_bval by[TC_MAX_RANK];
  for (int32_t k = 0; k < rank; k++) sizes[k] = tc_lo_size(a, places, k);
  tc_lo_begin(a, rank, sizes, index);
  for (int32_t k = 0; k < rank; k++) by[k] = k == dim ? tc_lo_load(a, places, index) : -1;
  return tc_lo_end(a, tc_lo_gather(a, x, index, by, 0), tc_lo_dtype(a, x));
}

static int32_t order_lower(tc_op_args *a) {
  const tc_tensor_type *r = tc_op_result_type(a, a->n_results - 1);
  order o;
  tc_int index[TC_MAX_RANK];
  if (read_order(a, &o)) return TC_STATUS_INVALID_ARGUMENT;
  tc_lt x = tc_lo_arg(a, 0);
  if (r->rank == 0) { // one element, in its place
    tc_lo_begin(a, 0, NULL, index);
    tc_lo_result(a, a->n_results - 1, tc_lo_end(a, tc_lo_const_int(a, TC_I64, 0), TC_I64));
    if (a->n_results > 1) tc_lo_result(a, 0, x);
    return TC_STATUS_OK;
  }
  int64_t wanted = 0;
  if (tc_op_arg_index(a, "k") < 0 || !tc_int_is_const(o.keep, &wanted)) wanted = 0;
  tc_lt words = order_of(a, tc_lower_moved(a, x, o.dim, r->rank - 1), o.descending, wanted);
  words = tc_lower_moved(a, words, r->rank - 1, o.dim);
  tc_lo_begin(a, r->rank, r->sizes, index); // the first of them
  tc_lt places = tc_lo_end(a, place_in(a, words, index), TC_I64);
  tc_lo_result(a, a->n_results - 1, places);
  if (a->n_results > 1) tc_lo_result(a, 0, taken(a, x, places, o.dim));
  return TC_STATUS_OK;
}

static bool ref_less(const tc_ref_view *x, int64_t p, int64_t q) {
  if (x->dtype == TC_I64) return tc_ref_i(x, p) < tc_ref_i(x, q);
  double v = tc_ref_f(x, p), w = tc_ref_f(x, q);
  return v < w || (isnan(w) && !isnan(v));
}
// Merges list[lo, mid) and list[mid, hi) of positions: stable.
static void ref_merge(const tc_ref_view *x, int64_t base, int64_t s, bool descending, int64_t *list, int64_t *spare,
                      int64_t lo, int64_t mid, int64_t hi) {
  for (int64_t i = lo, j = mid, k = lo; k < hi; k++) {
    int64_t p = i < mid ? base + list[i] * s : 0, q = j < hi ? base + list[j] * s : 0;
    bool second = i == mid || (j < hi && (descending ? ref_less(x, p, q) : ref_less(x, q, p)));
    spare[k] = second ? list[j++] : list[i++];
  }
}
// The stable order of n elements; list has room for 2 n.
static void ref_order(const tc_ref_view *x, int64_t base, int64_t s, int64_t n, bool descending, int64_t *list) {
  int64_t *spare = list + n;
  for (int64_t k = 0; k < n; k++) list[k] = k;
  for (int64_t w = 1; w < n; w *= 2) {
    for (int64_t lo = 0; lo < n; lo += 2 * w) {
      int64_t mid = lo + w < n ? lo + w : n, hi = lo + 2 * w < n ? lo + 2 * w : n;
      ref_merge(x, base, s, descending, list, spare, lo, mid, hi);
    }
    for (int64_t k = 0; k < n; k++) list[k] = spare[k];
  }
}

static int32_t order_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *ids = tc_op_result_data(a, a->n_results - 1),
                    *values = a->n_results > 1 ? tc_op_result_data(a, 0) : NULL;
  order o;
  if (read_order(a, &o)) return TC_STATUS_INVALID_ARGUMENT;
  if (x->rank == 0) {
    tc_ref_put_i(ids, 0, 0);
    if (values) tc_ref_copy(values, 0, x, 0);
    return TC_STATUS_OK;
  }
  int64_t n = x->sizes[o.dim], keep = ids->sizes[o.dim], i[TC_MAX_RANK] = {0}, s = x->strides[o.dim];
  int64_t *list = tc_op_scratch(a, (uint64_t)(2 * n + 1) * sizeof *list);
  if (!list) return TC_STATUS_OUT_OF_MEMORY;
  for (bool more = tc_ref_numel(x) > 0; more; more = tc_ref_next(x->rank, x->sizes, i)) {
    if (i[o.dim]) continue;
    int64_t base = tc_ref_offset(x, i), to = tc_ref_offset(ids, i);
    ref_order(x, base, s, n, o.descending, list);
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
