// Writing elements where index tensors or masks say: index_put.
//
// Lowering: the indexed dimensions become one, in front, and the template "scatter" writes along it; its positions are
// made from the indices, with -1 where one is out of range. A mask with one value is a choice per element.
#include "core/ops/ops.h"

// Values for what is indexed. How much masks select is seen when they are there: until then it goes for one place.
static int32_t check_values(tc_op_args *a) {
  const tc_tensor_type *v = tc_op_tensor(a, 2);
  tc_indexing x;
  tc_int sizes[TC_MAX_RANK];
  int32_t from[TC_MAX_RANK];
  tc_int one = tc_int_const(a, 1);
  if (tc_read_indexing(a, 1, one, &x)) return TC_STATUS_INVALID_ARGUMENT;
  int32_t rank = tc_indexed_sizes(a, &x, sizes, from), more = rank - v->rank, given = 0;
  for (int32_t k = 0; k < tc_op_count(a, 1); k++) given += tc_op_tensor_at(a, 1, k) != NULL;
  // One value for one mask fills, whatever its dimensions.
  if (x.masks && given == 1 && !tc_op_bool(a, 3, 0) && tc_sym_is_int(tc_op_numel(a, v), 1)) return TC_STATUS_OK;
  bool fits = more >= 0;
  for (int32_t d = 0; fits && d < v->rank; d++)
    fits = tc_int_eq(a, v->sizes[d], one) != 0 || tc_int_eq(a, v->sizes[d], sizes[more + d]) != 0 ||
           (x.masks && from[more + d] < 0);
  return fits ? TC_STATUS_OK
              : tc_op_fail(a, "shape mismatch: the values %s do not broadcast to what is indexed",
                           tc_op_shape_text(a, 2));
}

static int32_t index_put_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  if (tc_op_tensor(a, 2)->dtype != t->dtype)
    return tc_op_fail(a, "self and values must have the same dtype: %s and %s", tc_op_shape_text(a, 0),
                      tc_op_shape_text(a, 2));
  bool any = false;
  int32_t bare = 0, bytes = 0;
  for (int32_t k = 0; k < tc_op_count(a, 1); k++) {
    const tc_tensor_type *i = tc_op_tensor_at(a, 1, k);
    bool mask = i && i->rank == 0 && tc_is_index_mask(i);
    any = any || (i && !mask), bare += mask, bytes += mask && i->dtype == TC_U8;
  }
  if (!any && !bare && !tc_sym_is_int(tc_op_numel(a, t), 0))
    return tc_op_fail(a, "at least one index must be provided");
  bool fills = bare == 1 && bytes == 0 && !tc_op_bool(a, 3, 0); // one value where the mask says so
  if (!any && bare && !(fills && tc_sym_is_int(tc_op_numel(a, tc_op_tensor(a, 2)), 1)))
    return tc_op_fail(a, "masks without a dimension select nothing by themselves");
  if (check_values(a)) return TC_STATUS_INVALID_ARGUMENT;
  return tc_op_format_result(a, 0, t->dtype, t->rank, t->sizes, TC_FORMAT_PRESERVE, 0);
}

static int32_t index_put_ref(tc_op_args *a) {
  const tc_ref_view *s = tc_op_data(a, 2), *y = tc_op_result_data(a, 0);
  tc_index_positions p;
  int64_t sizes[TC_MAX_RANK], i[TC_MAX_RANK] = {0}, numel = 1;
  tc_ref_self(a);
  if (tc_ref_positions(a, 1, &p)) return TC_STATUS_INVALID_ARGUMENT;
  int32_t rank = tc_ref_indexed_sizes(&p, y, sizes);
  for (int32_t d = 0; d < rank; d++) numel *= sizes[d];
  int32_t own = tc_ref_numel(s) == 1 ? 0 : s->rank; // dimensions that move
  if (own > rank) return tc_op_fail(a, "the values have more dimensions (%d) than what is indexed (%d)", s->rank, rank);
  for (int32_t d = 0; d < own; d++) {
    int64_t have = s->sizes[d], want = sizes[d + rank - s->rank];
    if (have != 1 && have != want)
      return tc_op_fail(a, "the values do not broadcast to what is indexed: %lld and %lld", (long long)have,
                        (long long)want);
  }
  for (bool more = numel > 0; more; more = tc_ref_next(rank, sizes, i)) {
    int64_t to = tc_ref_position(a, &p, y, i), from = 0;
    if (to < 0) return TC_STATUS_INVALID_ARGUMENT;
    for (int32_t d = 0; d < own; d++) from += s->sizes[d] == 1 ? 0 : i[d + rank - s->rank] * s->strides[d];
    if (tc_op_bool(a, 3, 0)) tc_ref_add(y, to, s, from, (tc_number){.re = 1});
    else tc_ref_copy(y, to, s, from);
  }
  return TC_STATUS_OK;
}

// One value wherever the mask is true.
static int32_t lower_mask(tc_op_args *a, const tc_indexing *x) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  int32_t first = 0, rank = tc_op_tensor(a, 2)->rank;
  while (x->by[first] < 0) first++;
  tc_lt self = tc_lo_arg(a, 0), mask = tc_lo_arg_at(a, 1, x->by[first]), values = tc_lo_arg(a, 2);
  if (tc_lo_rank(a, mask) != x->n_indexed || !tc_sym_is_int(tc_op_numel(a, tc_op_tensor(a, 2)), 1))
    return tc_op_fail(a, "writing through a mask is lowered for one mask and one value");
  tc_dtype compute = tc_op_math_type(r->dtype);
  tc_int index[TC_MAX_RANK], zeros[TC_MAX_RANK];
  for (int32_t d = 0; d < rank; d++) zeros[d] = tc_int_const(a, 0);
  tc_lo_begin(a, r->rank, r->sizes, index);
  tc_bval old = tc_lo_load(a, self, index), v = tc_lo_load(a, values, zeros);
  if (tc_op_bool(a, 3, 0))
    v = tc_lo_cast(a, tc_lo_op2(a, TC_K_ADD, tc_lo_cast(a, old, compute), tc_lo_cast(a, v, compute)), r->dtype);
  tc_bval here = tc_lo_cast(a, tc_lo_load(a, mask, &index[first]), TC_BOOL);
  tc_lo_result(a, 0, tc_lo_end(a, tc_lo_op3(a, TC_K_SELECT, here, v, old), r->dtype));
  return TC_STATUS_OK;
}

// One value everywhere, or nowhere, as a mask without a dimension says; self has no element where there is none.
static int32_t lower_bare(tc_op_args *a) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  int32_t n = tc_op_count(a, 1), k = 0, rank = tc_op_tensor(a, 2)->rank;
  tc_int index[TC_MAX_RANK], zeros[TC_MAX_RANK];
  while (k < n && !tc_op_tensor_at(a, 1, k)) k++;
  if (k == n || tc_sym_is_int(tc_op_numel(a, r), 0)) {
    tc_lo_result(a, 0, tc_lo_arg(a, 0));
    return TC_STATUS_OK;
  }
  for (int32_t d = 0; d < rank; d++) zeros[d] = tc_int_const(a, 0);
  tc_lt self = tc_lo_arg(a, 0), mask = tc_lo_arg_at(a, 1, k), values = tc_lo_arg(a, 2);
  tc_lo_begin(a, r->rank, r->sizes, index);
  tc_bval here = tc_lo_cast(a, tc_lo_load(a, mask, index), TC_BOOL);
  tc_bval v = tc_lo_op3(a, TC_K_SELECT, here, tc_lo_load(a, values, zeros), tc_lo_load(a, self, index));
  tc_lo_result(a, 0, tc_lo_end(a, v, r->dtype));
  return TC_STATUS_OK;
}

// The indexed dimensions of a view as one, in front of the others; `index` of the result, row-major.
static void unravel(tc_op_args *a, tc_int flat, int32_t n, const tc_int *sizes, tc_int *out) {
  for (int32_t d = n - 1; d >= 0; d--) {
    out[d] = d ? tc_int_mod(a, flat, sizes[d]) : flat;
    flat = tc_int_floordiv(a, flat, sizes[d]);
  }
}

// Positions along the joined dimension, over the broadcast dimensions of the indices.
static tc_lt positions_of(tc_op_args *a, const tc_indexing *x) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  tc_lt by[TC_MAX_RANK];
  tc_int index[TC_MAX_RANK];
  for (int32_t d = 0; d < x->rank; d++)
    by[d] = x->by[d] < 0 ? -1 : tc_lo_expand(a, tc_lo_arg_at(a, 1, x->by[d]), x->nb, x->bsizes);
  tc_lo_begin(a, x->nb, x->bsizes, index);
  tc_bval flat = -1, fine = -1, zero = tc_lo_const_int(a, TC_I64, 0);
  for (int32_t d = 0; d < x->rank; d++) {
    if (by[d] < 0) continue;
    tc_bval p = tc_lo_cast(a, tc_lo_load(a, by[d], index), TC_I64), n = tc_lo_index(a, r->sizes[d], TC_I64);
    p = tc_lo_op3(a, TC_K_SELECT, tc_lo_op2(a, TC_K_LT, p, zero), tc_lo_op2(a, TC_K_ADD, p, n), p);
    tc_bval in = tc_lo_op2(a, TC_K_AND, tc_lo_op2(a, TC_K_GE, p, zero), tc_lo_op2(a, TC_K_LT, p, n));
    fine = fine < 0 ? in : tc_lo_op2(a, TC_K_AND, fine, in);
    flat = flat < 0 ? p : tc_lo_op2(a, TC_K_ADD, tc_lo_op2(a, TC_K_MUL, flat, n), p);
  }
  return tc_lo_end(a, tc_lo_op3(a, TC_K_SELECT, fine, flat, tc_lo_const_int(a, TC_I64, -1)), TC_I64);
}

static int32_t index_put_lower(tc_op_args *a) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  tc_indexing x;
  tc_int shape[TC_MAX_RANK], sizes[TC_MAX_RANK], index[TC_MAX_RANK], map[TC_MAX_RANK], parts[TC_MAX_RANK];
  int32_t from[TC_MAX_RANK], dims[TC_MAX_RANK], n = 0, rank = 1;
  if (tc_read_indexing(a, 1, NULL, &x)) return TC_STATUS_INVALID_ARGUMENT;
  if (x.n_indexed == 0) return lower_bare(a);
  if (x.masks) return lower_mask(a, &x);
  if (x.n_indexed == 1 && x.nb == 1 && !tc_op_bool(a, 3, 0) && tc_lo_in_place(a)) {
    int32_t dim = 0, full = tc_indexed_sizes(a, &x, shape, from);
    while (x.by[dim] < 0) dim++;
    return tc_lower_along_in_place(a, dim, tc_lo_arg_at(a, 1, x.by[dim]), true,
                                   tc_lo_expand(a, tc_lo_arg(a, 2), full, shape));
  }
  for (int32_t d = 0; d < x.rank; d++) { // first the joined dimension, then those that no index takes
    if (x.by[d] >= 0) dims[n] = d, parts[n++] = r->sizes[d];
    else sizes[rank++] = r->sizes[d];
  }
  sizes[0] = tc_int_const(a, 1);
  for (int32_t k = 0; k < n; k++) sizes[0] = tc_int_mul(a, sizes[0], parts[k]);
  tc_int joined[TC_MAX_RANK];
  tc_lo_indices(a, rank, sizes, index);
  unravel(a, index[0], n, parts, joined);
  for (int32_t d = 0, k = 0, plain = 1; d < x.rank; d++) map[d] = x.by[d] >= 0 ? joined[k++] : index[plain++];
  tc_lt self = tc_lo_view(a, tc_lo_arg(a, 0), rank, sizes, index, map);

  // Positions and values as [m, …].
  tc_int m = tc_int_const(a, 1), own[TC_MAX_RANK], flat[TC_MAX_RANK];
  for (int32_t b = 0; b < x.nb; b++) m = tc_int_mul(a, m, x.bsizes[b]);
  own[0] = m;
  for (int32_t d = 1; d < rank; d++) own[d] = sizes[d];
  bool plain = n == 1 && x.nb == 1;
  tc_lt at = plain ? tc_lo_arg_at(a, 1, x.by[dims[0]]) : tc_lo_reshape(a, positions_of(a, &x), 1, &m);
  int32_t full = tc_indexed_sizes(a, &x, shape, from);
  tc_lt values = tc_lo_expand(a, tc_lo_arg(a, 2), full, shape);
  tc_lo_indices(a, rank, own, index);
  tc_lt positions = tc_lo_view(a, at, rank, own, index, index);
  unravel(a, index[0], x.nb, x.bsizes, flat);
  for (int32_t d = 0, b = 0, p = 1; d < full; d++) map[d] = from[d] < 0 ? flat[b++] : index[p++];
  values = tc_lo_view(a, values, rank, own, index, map);

  bool sum = tc_op_bool(a, 3, 0);
  int32_t across = tc_scatter_across(a, r, x.by[r->rank - 1] >= 0, false);
  tc_lt out =
      tc_lower_scatter(a, sum ? TC_SCATTER_ADD : TC_SCATTER_SET, across, plain ? TC_NEGATIVE_WRAPS : TC_NEGATIVE_ERROR,
                       self, positions, values, sum ? tc_scatter_type(a, r->dtype, sizes[0], m) : r->dtype);
  tc_lo_indices(a, r->rank, r->sizes, index);
  map[0] = tc_int_const(a, 0);
  for (int32_t k = 0; k < n; k++) map[0] = tc_int_add(a, tc_int_mul(a, map[0], parts[k]), index[dims[k]]);
  for (int32_t d = 0, p = 1; d < r->rank; d++) {
    if (x.by[d] < 0) map[p++] = index[d];
  }
  tc_lo_result(a, 0, tc_lower_converted(a, tc_lo_view(a, out, r->rank, r->sizes, index, map), r->dtype));
  return TC_STATUS_OK;
}

#define ROW(s)                                 \
  {.schema = s,                                \
   .traits = TC_OP_COMPLEX | TC_OP_MAY_EXPAND, \
   .meta = index_put_meta,                     \
   .expand = tc_expand_masks,                  \
   .lower = index_put_lower,                   \
   .ref = index_put_ref}
static const tc_op_def rows[] = {
    ROW("index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor"),
    ROW("_unsafe_index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor"),
};
TC_OP_FAMILY(index_put);
