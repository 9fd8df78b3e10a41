// Elements put elsewhere: repeat, flip, roll, triangles, windows and diagonals as views, grids, shuffles, copies of
// views.
#include "core/ops/ops.h"

static int32_t room(tc_op_args *a, int32_t rank) {
  return rank <= TC_MAX_RANK ? TC_STATUS_OK
                             : tc_op_fail(a, "a result of rank %d; the largest rank is %d", rank, TC_MAX_RANK);
}

// Copies result element i from argument 0's element map(i); the map is made by `place` of the row's references.
typedef void place_fn(tc_op_args *a, const tc_ref_view *x, const int64_t *iy, int64_t *ix);
static int32_t ref_placed(tc_op_args *a, place_fn *place) {
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_result_data(a, 0);
  int64_t iy[TC_MAX_RANK] = {0}, ix[TC_MAX_RANK] = {0};
  for (bool more = tc_ref_numel(y) > 0; more; more = tc_ref_next(y->rank, y->sizes, iy)) {
    place(a, x, iy, ix);
    tc_ref_copy(y, tc_ref_offset(y, iy), x, tc_ref_offset(x, ix));
  }
  return TC_STATUS_OK;
}

// ---- repeat ----
static int32_t repeat_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  int32_t n = tc_op_count(a, 1);
  bool tile = tc_sv_is(a->op->schema.name, "tile");
  if (n < t->rank && !tile)
    return tc_op_fail(a, "the number of repeats (%d) must not be less than the tensor's rank (%d)", n, t->rank);
  int32_t rank = n > t->rank ? n : t->rank;
  tc_int sizes[TC_MAX_RANK];
  if (room(a, rank)) return TC_STATUS_INVALID_ARGUMENT;
  for (int32_t d = 0; d < rank; d++) {
    int32_t from = d - (rank - t->rank), by = d - (rank - n);
    tc_int times = by >= 0 ? tc_op_sym_at(a, 1, by) : tc_int_const(a, 1);
    if (tc_int_lt(a, times, tc_int_const(a, 0)) == 1) return tc_op_fail(a, "repeats must not be negative");
    sizes[d] = from >= 0 ? tc_int_mul(a, t->sizes[from], times) : times;
  }
  return tc_op_set_result(a, 0, t->dtype, rank, sizes, NULL);
}
static int32_t repeat_lower(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0), *r = tc_op_result_type(a, 0);
  tc_int index[TC_MAX_RANK], map[TC_MAX_RANK];
  tc_lo_indices(a, r->rank, r->sizes, index);
  for (int32_t d = 0; d < t->rank; d++) map[d] = tc_int_mod(a, index[d + r->rank - t->rank], t->sizes[d]);
  tc_lo_result(a, 0, tc_lo_view(a, tc_lo_arg(a, 0), r->rank, r->sizes, index, map));
  return TC_STATUS_OK;
}
static void repeat_place(tc_op_args *a, const tc_ref_view *x, const int64_t *iy, int64_t *ix) {
  int32_t lead = tc_op_result_type(a, 0)->rank - x->rank;
  for (int32_t d = 0; d < x->rank; d++) ix[d] = iy[d + lead] % x->sizes[d];
}
static int32_t repeat_ref(tc_op_args *a) { return ref_placed(a, repeat_place); }

// ---- flip, roll ----
static int32_t flip_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  bool flipped[TC_MAX_RANK];
  if (tc_op_count(a, 1) && tc_reduced_dims(a, 1, t->rank, flipped)) return TC_STATUS_INVALID_ARGUMENT;
  return tc_op_format_result(a, 0, t->dtype, t->rank, t->sizes, TC_FORMAT_PRESERVE, 0);
}
static int32_t flip_lower(tc_op_args *a) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  bool flipped[TC_MAX_RANK] = {0};
  tc_int index[TC_MAX_RANK], map[TC_MAX_RANK];
  if (tc_op_count(a, 1) && tc_reduced_dims(a, 1, r->rank, flipped)) return TC_STATUS_INVALID_ARGUMENT;
  tc_lo_indices(a, r->rank, r->sizes, index);
  for (int32_t d = 0; d < r->rank; d++)
    map[d] = flipped[d] ? tc_int_sub(a, tc_int_sub(a, r->sizes[d], tc_int_const(a, 1)), index[d]) : index[d];
  tc_lo_result(a, 0, tc_lo_view(a, tc_lo_arg(a, 0), r->rank, r->sizes, index, map));
  return TC_STATUS_OK;
}
static void flip_place(tc_op_args *a, const tc_ref_view *x, const int64_t *iy, int64_t *ix) {
  for (int32_t d = 0; d < x->rank; d++) ix[d] = iy[d];
  for (int32_t i = 0; x->rank && i < tc_op_count(a, 1); i++) {
    int64_t d = tc_op_int_at(a, 1, i, 0);
    if (d < 0) d += x->rank;
    ix[d] = x->sizes[d] - 1 - iy[d];
  }
}
static int32_t flip_ref(tc_op_args *a) { return ref_placed(a, flip_place); }

// Shift of each dimension; without dims the elements are shifted in row-major order (flat).
static int32_t read_shifts(tc_op_args *a, int32_t rank, tc_int *shift, bool *flat) {
  int32_t n = tc_op_count(a, 1), dims = tc_op_count(a, 2);
  *flat = dims == 0;
  for (int32_t d = 0; d < rank; d++) shift[d] = tc_int_const(a, 0);
  if (*flat && n != 1) return tc_op_fail(a, "shifts and dimensions must align: %d shifts, %d dims", n, dims);
  if (!*flat && n != dims) return tc_op_fail(a, "shifts and dimensions must align: %d shifts, %d dims", n, dims);
  for (int32_t i = 0; i < dims; i++) {
    int64_t d = tc_op_wrap_dim(a, tc_op_int_at(a, 2, i, 0), rank);
    if (d < 0) return TC_STATUS_INVALID_ARGUMENT;
    if (rank) shift[d] = tc_int_add(a, shift[d], tc_op_sym_at(a, 1, i));
  }
  return TC_STATUS_OK;
}
static int32_t roll_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  tc_int shift[TC_MAX_RANK];
  bool flat;
  if (read_shifts(a, t->rank, shift, &flat)) return TC_STATUS_INVALID_ARGUMENT;
  return tc_op_set_result(a, 0, t->dtype, t->rank, t->sizes, NULL);
}
static tc_lt lower_rolled(tc_op_args *a, tc_lt x, int32_t rank, const tc_int *sizes, const tc_int *shift) {
  tc_int index[TC_MAX_RANK], map[TC_MAX_RANK];
  tc_lo_indices(a, rank, sizes, index);
  for (int32_t d = 0; d < rank; d++) {
    bool still = tc_sym_is_int(shift[d], 0) || tc_sym_is_int(sizes[d], 0);
    map[d] = still ? index[d] : tc_int_mod(a, tc_int_sub(a, index[d], shift[d]), sizes[d]);
  }
  return tc_lo_view(a, x, rank, sizes, index, map);
}
static int32_t roll_lower(tc_op_args *a) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  tc_int shift[TC_MAX_RANK], numel = tc_op_numel(a, r);
  bool flat;
  if (read_shifts(a, r->rank, shift, &flat)) return TC_STATUS_INVALID_ARGUMENT;
  tc_lt x = tc_lo_arg(a, 0);
  if (!flat) {
    tc_lo_result(a, 0, lower_rolled(a, x, r->rank, r->sizes, shift));
    return TC_STATUS_OK;
  }
  tc_int by = tc_op_sym_at(a, 1, 0);
  tc_lo_result(a, 0,
               tc_lo_reshape(a, lower_rolled(a, tc_lo_reshape(a, x, 1, &numel), 1, &numel, &by), r->rank, r->sizes));
  return TC_STATUS_OK;
}
static void roll_place(tc_op_args *a, const tc_ref_view *x, const int64_t *iy, int64_t *ix) {
  if (tc_op_count(a, 2) == 0) { // flat
    int64_t n = tc_ref_numel(x), at = 0;
    for (int32_t d = 0; d < x->rank; d++) at = at * x->sizes[d] + iy[d];
    at = ((at - tc_op_int_at(a, 1, 0, 0)) % n + n) % n;
    for (int32_t d = x->rank - 1; d >= 0; d--) ix[d] = at % x->sizes[d], at /= x->sizes[d];
    return;
  }
  for (int32_t d = 0; d < x->rank; d++) ix[d] = iy[d];
  for (int32_t i = 0; x->rank && i < tc_op_count(a, 2); i++) {
    int64_t d = tc_op_int_at(a, 2, i, 0);
    if (d < 0) d += x->rank;
    int64_t n = x->sizes[d];
    ix[d] = ((ix[d] - tc_op_int_at(a, 1, i, 0)) % n + n) % n;
  }
}
static int32_t roll_ref(tc_op_args *a) { return ref_placed(a, roll_place); }

// ---- triangles ----
static bool is_lower(tc_op_args *a) { return tc_sv_is(a->op->schema.name, "tril"); }
static int32_t triangle_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  if (t->rank < 2) return tc_op_fail(a, "input tensor must have at least 2 dimensions: %s", tc_op_shape_text(a, 0));
  return tc_op_set_result(a, 0, t->dtype, t->rank, t->sizes, NULL);
}
// A diagonal beyond all sizes: as good as any further one, and differences with it stay in range.
static int64_t reachable(int64_t diagonal) {
  const int64_t most = INT64_MAX / 4;
  return diagonal > most ? most : diagonal < -most ? -most : diagonal;
}
static int32_t triangle_lower(tc_op_args *a) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  tc_int index[TC_MAX_RANK], zero = tc_int_const(a, 0), diagonal = tc_op_sym(a, 1);
  int64_t known;
  if (tc_int_is_const(diagonal, &known)) diagonal = tc_int_const(a, reachable(known));
  tc_lt x = tc_lo_arg(a, 0);
  tc_lo_begin(a, r->rank, r->sizes, index);
  tc_int over =
      tc_int_sub(a, tc_int_sub(a, index[r->rank - 1], index[r->rank - 2]), diagonal); // column - row - diagonal
  tc_int keep = is_lower(a) ? tc_sym_cmp(a->syms, TC_SYM_LE, over, zero) : tc_sym_cmp(a->syms, TC_SYM_LE, zero, over);
  tc_bval v = tc_lo_load_if(a, x, index, keep, tc_lo_const(a, r->dtype, 0, 0));
  tc_lo_result(a, 0, tc_lo_end(a, v, r->dtype));
  return TC_STATUS_OK;
}
static int32_t triangle_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_result_data(a, 0);
  int64_t i[TC_MAX_RANK] = {0}, diagonal = reachable(tc_op_int(a, 1, 0));
  for (bool more = tc_ref_numel(y) > 0; more; more = tc_ref_next(y->rank, y->sizes, i)) {
    int64_t over = i[y->rank - 1] - i[y->rank - 2] - diagonal;
    if (is_lower(a) ? over <= 0 : over >= 0) tc_ref_copy(y, tc_ref_offset(y, i), x, tc_ref_offset(x, i));
  }
  return TC_STATUS_OK;
}

// ---- views of storage: as_strided, diagonal, unfold ----
static int32_t as_strided_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  int32_t n = tc_op_count(a, 1);
  tc_int sizes[TC_MAX_RANK], strides[TC_MAX_RANK];
  if (tc_op_count(a, 2) != n) return tc_op_fail(a, "mismatch in length of strides and shape");
  if (room(a, n)) return TC_STATUS_INVALID_ARGUMENT;
  tc_int zero = tc_int_const(a, 0), offset = tc_op_kind(a, 3) == TC_AK_NONE ? t->offset : tc_op_sym(a, 3);
  for (int32_t d = 0; d < n; d++) {
    sizes[d] = tc_op_sym_at(a, 1, d), strides[d] = tc_op_sym_at(a, 2, d);
    tc_int values[] = {tc_int_const(a, d), strides[d]};
    if (tc_op_require(a, tc_sym_cmp(a->syms, TC_SYM_LE, zero, strides[d]),
                      "negative strides are not supported: stride {} is {}", 2, values))
      return TC_STATUS_INVALID_ARGUMENT;
  }
  if (tc_op_require(a, tc_sym_cmp(a->syms, TC_SYM_LE, zero, offset), "the storage offset {} is negative", 1, &offset))
    return TC_STATUS_INVALID_ARGUMENT;
  return tc_op_set_view(a, 0, 0, t->dtype, n, sizes, strides, offset);
}
// resize (resize_ in graphs): the storage's first elements, row by row; what has these sizes already stays as it lies.
// Where that is not known, and makes a difference, it is what the hints say, and every run must agree.
static int32_t has_sizes(tc_op_args *a, const tc_int *sizes, bool *out) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  tc_int equal = tc_int_const(a, 1);
  bool may = tc_op_count(a, 1) == t->rank && tc_op_kind(a, 2) == TC_AK_NONE, known = may;
  for (int32_t d = 0; d < t->rank && may; d++) known &= tc_int_eq(a, sizes[d], t->sizes[d]) == 1;
  *out = known;
  if (known || !may || tc_strides_contiguous(a->syms, t->rank, t->sizes, t->strides)) return TC_STATUS_OK;
  *out = true;
  for (int32_t d = 0; d < t->rank; d++) {
    *out &= tc_sym_decide(a->syms, TC_SYM_EQ, sizes[d], t->sizes[d], false);
    equal = tc_sym_and(a->syms, equal, tc_sym_cmp(a->syms, TC_SYM_EQ, sizes[d], t->sizes[d]));
  }
  return tc_op_require(a, *out ? equal : tc_sym_not(a->syms, equal),
                       *out ? "the tensor does not lie row by row, and was taken to have these sizes already"
                            : "the tensor does not lie row by row, and was taken not to have these sizes yet",
                       0, NULL);
}
static int32_t resize_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  int32_t n = tc_op_count(a, 1), format = tc_op_memory_format(a, 2, TC_FORMAT_CONTIGUOUS);
  tc_int sizes[TC_MAX_RANK], strides[TC_MAX_RANK], numel = tc_int_const(a, 1);
  if (room(a, n)) return TC_STATUS_INVALID_ARGUMENT;
  for (int32_t d = 0; d < n; d++) sizes[d] = tc_op_sym_at(a, 1, d), numel = tc_int_mul(a, numel, sizes[d]);
  tc_int counts[] = {tc_op_numel(a, t), numel};
  if (tc_op_require(a, tc_sym_cmp(a->syms, TC_SYM_LE, numel, counts[0]),
                    "resizing {} elements to {} would leave some of them without a value", 2, counts))
    return TC_STATUS_INVALID_ARGUMENT;
  bool same;
  if (has_sizes(a, sizes, &same)) return TC_STATUS_INVALID_ARGUMENT;
  if (same) return tc_op_set_view(a, 0, 0, t->dtype, n, sizes, t->strides, t->offset);
  if (format == TC_FORMAT_CONTIGUOUS) tc_strides_make_contiguous(a->syms, n, sizes, strides);
  else if (n == (format == TC_FORMAT_CHANNELS_LAST ? 4 : 5)) tc_strides_make_channels_last(a->syms, n, sizes, strides);
  else return tc_op_fail(a, "this memory format is not for a tensor of rank %d", n);
  return tc_op_set_view(a, 0, 0, t->dtype, n, sizes, strides, t->offset);
}
// Storage positions become indices of the argument: its dimensions from the slowest on take their part of the position.
static int32_t as_strided_lower(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0), *r = tc_op_result_type(a, 0);
  tc_int index[TC_MAX_RANK], map[TC_MAX_RANK];
  int32_t order[TC_MAX_RANK], n = 0;
  if (!tc_strides_dense(a->syms, t->rank, t->sizes, t->strides))
    return tc_op_fail(a, "as_strided of a tensor with gaps or overlaps is not available: %s", tc_op_shape_text(a, 0));
  tc_lo_indices(a, r->rank, r->sizes, index);
  tc_int at = tc_int_sub(a, r->offset, t->offset);
  tc_int end = tc_int_add(a, at, tc_int_const(a, 1));
  for (int32_t d = 0; d < r->rank; d++)
    end = tc_int_add(a, end, tc_int_mul(a, tc_int_sub(a, r->sizes[d], tc_int_const(a, 1)), r->strides[d]));
  bool empty = tc_int_eq(a, tc_op_numel(a, r), tc_int_const(a, 0)) == 1;
  if (!empty && (tc_int_lt(a, at, tc_int_const(a, 0)) == 1 || tc_int_lt(a, tc_op_numel(a, t), end) == 1))
    return tc_op_fail(a, "as_strided reaches outside of its argument %s; what else its storage holds is not known here",
                      tc_op_shape_text(a, 0));
  tc_int numel = tc_op_numel(a, t), first[] = {at, end, numel};
  tc_int within = tc_sym_and(a->syms, tc_sym_cmp(a->syms, TC_SYM_LE, tc_int_const(a, 0), at),
                             tc_sym_cmp(a->syms, TC_SYM_LE, end, numel));
  within = tc_sym_or(a->syms, tc_sym_cmp(a->syms, TC_SYM_EQ, tc_op_numel(a, r), tc_int_const(a, 0)), within);
  if (!empty && tc_op_require(a, within, "elements [{}, {}) are taken of a storage of {}", 3, first))
    return TC_STATUS_INVALID_ARGUMENT;
  for (int32_t d = 0; d < r->rank; d++) at = tc_int_add(a, at, tc_int_mul(a, index[d], r->strides[d]));
  for (int32_t d = 0; d < t->rank; d++) {
    map[d] = tc_int_const(a, 0);
    if (tc_sym_decide(a->syms, TC_SYM_EQ, t->sizes[d], tc_int_const(a, 1), false)) continue;
    int32_t k = n++;
    for (; k > 0 && tc_sym_decide(a->syms, TC_SYM_LT, t->strides[order[k - 1]], t->strides[d], false); k--)
      order[k] = order[k - 1];
    order[k] = d;
  }
  for (int32_t k = 0; k < n; k++) {
    int32_t d = order[k];
    map[d] = tc_int_floordiv(a, at, t->strides[d]);
    at = tc_int_mod(a, at, t->strides[d]);
  }
  tc_lo_result(a, 0, tc_lo_view(a, tc_lo_arg(a, 0), r->rank, r->sizes, index, map));
  return TC_STATUS_OK;
}

// diagonal: dim1 and dim2 go, their diagonal becomes the last dimension.
typedef struct diagonal {
  int64_t dim1, dim2;
  tc_int row, column, length; // where it starts; at 0, 0 where it is known to have no element
} diagonal;
static int32_t read_diagonal(tc_op_args *a, diagonal *g) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  tc_int zero = tc_int_const(a, 0), offset = tc_op_sym(a, 1);
  if (t->rank < 2) return tc_op_fail(a, "diagonal needs a tensor of rank 2 or more: %s", tc_op_shape_text(a, 0));
  g->dim1 = tc_op_dim(a, 2, t->rank), g->dim2 = tc_op_dim(a, 3, t->rank);
  if (g->dim1 < 0 || g->dim2 < 0) return TC_STATUS_INVALID_ARGUMENT;
  if (g->dim1 == g->dim2)
    return tc_op_fail(a, "diagonal dimensions cannot be identical %lld, %lld", (long long)g->dim1, (long long)g->dim2);
  g->column = tc_int_max(a, offset, zero);
  g->row = tc_int_max(a, tc_int_sub(a, zero, offset), zero);
  g->length = tc_int_max(
      a, tc_int_min(a, tc_int_sub(a, t->sizes[g->dim1], g->row), tc_int_sub(a, t->sizes[g->dim2], g->column)), zero);
  if (tc_sym_is_int(g->length, 0)) g->row = g->column = zero;
  return TC_STATUS_OK;
}
static int32_t diagonal_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  diagonal g;
  tc_int sizes[TC_MAX_RANK], strides[TC_MAX_RANK], offset = t->offset;
  int32_t n = 0;
  if (read_diagonal(a, &g)) return TC_STATUS_INVALID_ARGUMENT;
  for (int32_t d = 0; d < t->rank; d++) {
    if (d != g.dim1 && d != g.dim2) sizes[n] = t->sizes[d], strides[n++] = t->strides[d];
  }
  sizes[n] = g.length;
  strides[n++] = tc_int_add(a, t->strides[g.dim1], t->strides[g.dim2]);
  offset = tc_int_add(
      a, offset, tc_int_add(a, tc_int_mul(a, g.row, t->strides[g.dim1]), tc_int_mul(a, g.column, t->strides[g.dim2])));
  return tc_op_set_view(a, 0, 0, t->dtype, n, sizes, strides, offset);
}
static int32_t diagonal_lower(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0), *r = tc_op_result_type(a, 0);
  diagonal g;
  tc_int index[TC_MAX_RANK], map[TC_MAX_RANK];
  if (read_diagonal(a, &g)) return TC_STATUS_INVALID_ARGUMENT;
  tc_lo_indices(a, r->rank, r->sizes, index);
  for (int32_t d = 0, k = 0; d < t->rank; d++) {
    bool own = d == g.dim1 || d == g.dim2;
    map[d] = own ? tc_int_add(a, index[r->rank - 1], d == g.dim1 ? g.row : g.column) : index[k++];
  }
  tc_lo_result(a, 0, tc_lo_view(a, tc_lo_arg(a, 0), r->rank, r->sizes, index, map));
  return TC_STATUS_OK;
}

static int32_t unfold_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  tc_int sizes[TC_MAX_RANK], strides[TC_MAX_RANK], one = tc_int_const(a, 1);
  int64_t dim = tc_op_dim(a, 1, t->rank), size = tc_op_int(a, 2, -1), step = tc_op_int(a, 3, 0);
  if (dim < 0 || room(a, t->rank + 1)) return TC_STATUS_INVALID_ARGUMENT;
  if (size < 0 || step <= 0)
    return tc_op_fail(a, "unfold: size %lld must not be negative, step %lld must be positive", (long long)size,
                      (long long)step);
  for (int32_t d = 0; d < t->rank; d++) sizes[d] = t->sizes[d], strides[d] = t->strides[d];
  tc_int have = t->rank ? sizes[dim] : one, stride = t->rank ? strides[dim] : one;
  if (tc_int_lt(a, have, tc_int_const(a, size)) == 1)
    return tc_op_fail(a, "maximum size for dimension %lld is less than %lld: %s", (long long)dim, (long long)size,
                      tc_op_shape_text(a, 0));
  if (t->rank) {
    sizes[dim] =
        tc_int_add(a, tc_int_floordiv(a, tc_int_sub(a, have, tc_int_const(a, size)), tc_int_const(a, step)), one);
    strides[dim] = tc_int_mul(a, stride, tc_int_const(a, step));
  }
  sizes[t->rank] = tc_int_const(a, size);
  strides[t->rank] = stride;
  return tc_op_set_view(a, 0, 0, t->dtype, t->rank + 1, sizes, strides, t->offset);
}
static int32_t unfold_lower(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0), *r = tc_op_result_type(a, 0);
  tc_int index[TC_MAX_RANK], map[TC_MAX_RANK];
  int64_t dim = tc_op_dim(a, 1, t->rank);
  tc_lo_indices(a, r->rank, r->sizes, index);
  for (int32_t d = 0; d < t->rank; d++) map[d] = index[d];
  if (t->rank) map[dim] = tc_int_add(a, tc_int_mul(a, index[dim], tc_op_sym(a, 3)), index[t->rank]);
  tc_lo_result(a, 0, tc_lo_view(a, tc_lo_arg(a, 0), r->rank, r->sizes, index, map));
  return TC_STATUS_OK;
}

// ---- decompositions in C ----
static tc_gv reshape(tc_op_args *a, tc_gv x, int32_t n, const tc_int *sizes) {
  tc_ex_begin(a, "aten::reshape");
  tc_ex_push(a, x);
  tc_ex_push_ints(a, n, sizes);
  return tc_ex_make(a, 1, NULL);
}
static int32_t unflatten_expand(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  int32_t n = tc_op_count(a, 2), rank = 0;
  int64_t dim = tc_op_dim(a, 1, t->rank);
  tc_int sizes[2 * TC_MAX_RANK];
  if (dim < 0 || room(a, n) || room(a, t->rank + n - 1)) return TC_STATUS_INVALID_ARGUMENT;
  if (n == 0) return tc_op_fail(a, "unflatten: sizes must be non-empty");
  tc_int known = tc_int_const(a, 1);
  for (int32_t i = 0; i < n; i++) {
    if (!tc_sym_is_int(tc_op_sym_at(a, 2, i), -1)) known = tc_int_mul(a, known, tc_op_sym_at(a, 2, i));
  }
  for (int32_t d = 0; d < t->rank; d++) {
    for (int32_t i = 0; d == dim && i < n; i++) {
      tc_int s = tc_op_sym_at(a, 2, i);
      sizes[rank++] = tc_sym_is_int(s, -1) ? tc_int_floordiv(a, t->sizes[d], known) : s;
    }
    if (d != dim) sizes[rank++] = t->sizes[d];
  }
  tc_gv x = tc_ex_arg(a, 0);
  tc_ex_begin(a, "aten::view");
  tc_ex_push(a, x);
  tc_ex_push_ints(a, rank, sizes);
  tc_ex_result(a, 0, tc_ex_make(a, 1, NULL));
  return TC_STATUS_OK;
}

// Sizes that all tensors of a list broadcast to.
static int32_t common_sizes(tc_op_args *a, tc_int *sizes) {
  int32_t rank = 0;
  for (int32_t k = 0; k < tc_op_count(a, 0); k++) {
    if (tc_op_tensor_at(a, 0, k)->rank > rank) rank = tc_op_tensor_at(a, 0, k)->rank;
  }
  for (int32_t d = 0; d < rank; d++) sizes[d] = tc_int_const(a, 1);
  for (int32_t k = 0; k < tc_op_count(a, 0); k++) {
    const tc_tensor_type *t = tc_op_tensor_at(a, 0, k);
    for (int32_t d = 0; d < t->rank; d++) {
      tc_int *s = &sizes[d + rank - t->rank];
      if (tc_sym_is_int(t->sizes[d], 1)) continue;
      if (tc_sym_is_int(*s, 1)) *s = t->sizes[d];
      else if (tc_int_require_eq(a, *s, t->sizes[d]))
        return tc_op_fail(a, "tensor %d does not broadcast with those before it", k), -1;
    }
  }
  return rank;
}
static int32_t broadcast_tensors_expand(tc_op_args *a) {
  tc_int sizes[TC_MAX_RANK];
  int32_t rank = common_sizes(a, sizes);
  for (int32_t k = 0; rank >= 0 && k < tc_op_count(a, 0); k++) {
    tc_gv x = tc_ex_arg_at(a, 0, k);
    tc_ex_begin(a, "aten::expand");
    tc_ex_push(a, x);
    tc_ex_push_ints(a, rank, sizes);
    tc_ex_result(a, k, tc_ex_make(a, 1, NULL));
  }
  return rank < 0 ? TC_STATUS_INVALID_ARGUMENT : TC_STATUS_OK;
}
static int32_t meshgrid_expand(tc_op_args *a) {
  int32_t n = tc_op_count(a, 0);
  tc_sv indexing = tc_op_string(a, 1);
  bool swap = tc_sv_is(indexing, "xy") && n >= 2;
  tc_int sizes[TC_MAX_RANK], shape[TC_MAX_RANK];
  if (room(a, n)) return TC_STATUS_INVALID_ARGUMENT;
  if (indexing.size && !tc_sv_is(indexing, "xy") && !tc_sv_is(indexing, "ij"))
    return tc_op_fail(a, "indexing must be one of \"xy\" or \"ij\", but received: " TC_SV_FMT, TC_SV_ARG(indexing));
  for (int32_t k = 0; k < n; k++) sizes[k] = tc_op_numel(a, tc_op_tensor_at(a, 0, swap && k < 2 ? 1 - k : k));
  for (int32_t k = 0; k < n; k++) {
    if (tc_op_tensor_at(a, 0, k)->rank > 1)
      return tc_op_fail(a, "expected 0D or 1D tensors; tensor %d has rank %d", k, tc_op_tensor_at(a, 0, k)->rank);
    if (tc_op_tensor_at(a, 0, k)->dtype != tc_op_tensor_at(a, 0, 0)->dtype)
      return tc_op_fail(a, "meshgrid expects all tensors to have the same dtype");
    int32_t place = swap && k < 2 ? 1 - k : k;
    for (int32_t d = 0; d < n; d++) shape[d] = d == place ? sizes[d] : tc_int_const(a, 1);
    tc_gv x = reshape(a, tc_ex_arg_at(a, 0, k), n, shape);
    tc_ex_begin(a, "aten::expand");
    tc_ex_push(a, x);
    tc_ex_push_ints(a, n, sizes);
    tc_ex_result(a, k, tc_ex_make(a, 1, NULL));
  }
  return TC_STATUS_OK;
}
// cartesian_prod: the meshes' elements side by side; of one tensor itself.
static int32_t cartesian_prod_expand(tc_op_args *a) {
  int32_t n = tc_op_count(a, 0);
  tc_gv mesh[TC_MAX_RANK], list[TC_MAX_RANK];
  tc_int flat = tc_int_const(a, -1);
  if (n == 0) return tc_op_fail(a, "expected a non-empty list of tensors");
  if (room(a, n)) return TC_STATUS_INVALID_ARGUMENT;
  for (int32_t k = 0; k < n; k++) {
    list[k] = tc_ex_arg_at(a, 0, k);
    if (tc_op_tensor_at(a, 0, k)->rank != 1)
      return tc_op_fail(a, "Expect a 1D vector, but got shape %s", tc_op_shape_text(a, 0));
  }
  if (n == 1) {
    tc_ex_result(a, 0, reshape(a, list[0], 1, &flat));
    return TC_STATUS_OK;
  }
  tc_ex_begin(a, "aten::meshgrid");
  tc_ex_push_list(a, n, list);
  tc_ex_make(a, n, mesh);
  for (int32_t k = 0; k < n; k++) mesh[k] = reshape(a, mesh[k], 1, &flat);
  tc_ex_begin(a, "aten::stack");
  tc_ex_push_list(a, n, mesh);
  tc_ex_push_int(a, tc_int_const(a, 1));
  tc_ex_result(a, 0, tc_ex_make(a, 1, NULL));
  return TC_STATUS_OK;
}
static int32_t atleast_sequence(tc_op_args *a, const char *op) {
  for (int32_t k = 0; k < tc_op_count(a, 0); k++) {
    tc_gv x = tc_ex_arg_at(a, 0, k);
    tc_ex_begin(a, op);
    tc_ex_push(a, x);
    tc_ex_result(a, k, tc_ex_make(a, 1, NULL));
  }
  return TC_STATUS_OK;
}
static int32_t atleast_1d_expand(tc_op_args *a) { return atleast_sequence(a, "aten::atleast_1d"); }
static int32_t atleast_2d_expand(tc_op_args *a) { return atleast_sequence(a, "aten::atleast_2d"); }
static int32_t atleast_3d_expand(tc_op_args *a) { return atleast_sequence(a, "aten::atleast_3d"); }

// Every element `repeats` times along a dimension (none: of the flat tensor).
static int32_t repeat_interleave_expand(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  tc_int wide[TC_MAX_RANK], flat[TC_MAX_RANK], numel = tc_op_numel(a, t), times = tc_op_sym(a, 1);
  const tc_int *sizes = t->sizes;
  int32_t rank = t->rank;
  int64_t dim = 0;
  tc_gv x = tc_ex_arg(a, 0);
  if (tc_op_kind(a, 2) == TC_AK_NONE) {
    x = reshape(a, x, 1, &numel);
    sizes = &numel, rank = 1;
  } else {
    dim = tc_op_dim(a, 2, rank);
  }
  if (dim < 0 || room(a, rank + 1)) return TC_STATUS_INVALID_ARGUMENT;
  for (int32_t d = 0; d < rank; d++) {
    wide[d <= dim ? d : d + 1] = sizes[d];
    flat[d] = d == dim ? tc_int_mul(a, sizes[d], times) : sizes[d];
  }
  wide[dim + 1] = times;
  tc_ex_begin(a, "aten::unsqueeze");
  tc_ex_push(a, x);
  tc_ex_push_int(a, tc_int_const(a, dim + 1));
  x = tc_ex_make(a, 1, NULL);
  tc_ex_begin(a, "aten::expand");
  tc_ex_push(a, x);
  tc_ex_push_ints(a, rank + 1, wide);
  x = tc_ex_make(a, 1, NULL);
  tc_ex_begin(a, "aten::_row_major");
  tc_ex_push(a, x);
  tc_ex_result(a, 0, reshape(a, tc_ex_make(a, 1, NULL), rank, flat));
  return TC_STATUS_OK;
}

// [.., C·r², H, W] → [.., C, H·r, W·r] and back.
static int32_t pixels(tc_op_args *a, bool join) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  int32_t lead = t->rank - 3;
  tc_int r = tc_op_sym(a, 1), sizes[TC_MAX_RANK], five[5];
  if (lead < 0 || room(a, lead + 5))
    return tc_op_fail(a, "expected an input with at least 3 dimensions: %s", tc_op_shape_text(a, 0));
  if (tc_int_lt(a, r, tc_int_const(a, 1)) != 0) return tc_op_fail(a, "the factor must be positive");
  tc_int c = t->sizes[lead], h = t->sizes[lead + 1], w = t->sizes[lead + 2], rr = tc_int_mul(a, r, r);
  for (int32_t d = 0; d < lead; d++) sizes[d] = t->sizes[d];
  if (join && tc_int_require_eq(a, tc_int_mod(a, c, rr), tc_int_const(a, 0)))
    return tc_op_fail(a, "the channels of %s must be divisible by the square of the factor", tc_op_shape_text(a, 0));
  if (!join && (tc_int_require_eq(a, tc_int_mod(a, h, r), tc_int_const(a, 0)) ||
                tc_int_require_eq(a, tc_int_mod(a, w, r), tc_int_const(a, 0))))
    return tc_op_fail(a, "height and width of %s must be divisible by the factor", tc_op_shape_text(a, 0));
  tc_int hr = tc_int_floordiv(a, h, r), wr = tc_int_floordiv(a, w, r), in[5] = {tc_int_floordiv(a, c, rr), r, r, h, w},
         out[5] = {c, hr, r, wr, r};
  for (int32_t i = 0; i < 5; i++) five[i] = join ? in[i] : out[i];
  tc_int wide[TC_MAX_RANK], order[TC_MAX_RANK], last[3] = {in[0], tc_int_mul(a, h, r), tc_int_mul(a, w, r)},
                                                back[3] = {tc_int_mul(a, c, rr), hr, wr};
  const int32_t to_join[5] = {0, 3, 1, 4, 2}, to_cut[5] = {0, 2, 4, 1, 3};
  for (int32_t d = 0; d < lead; d++) wide[d] = t->sizes[d], order[d] = tc_int_const(a, d);
  for (int32_t i = 0; i < 5; i++)
    wide[lead + i] = five[i], order[lead + i] = tc_int_const(a, lead + (join ? to_join[i] : to_cut[i]));
  for (int32_t i = 0; i < 3; i++) sizes[lead + i] = join ? last[i] : back[i];
  tc_gv x = reshape(a, tc_ex_arg(a, 0), lead + 5, wide);
  tc_ex_begin(a, "aten::permute");
  tc_ex_push(a, x);
  tc_ex_push_ints(a, lead + 5, order);
  x = tc_ex_make(a, 1, NULL);
  tc_ex_begin(a, "aten::_row_major");
  tc_ex_push(a, x);
  tc_ex_result(a, 0, reshape(a, tc_ex_make(a, 1, NULL), t->rank, sizes));
  return TC_STATUS_OK;
}
static int32_t pixel_shuffle_expand(tc_op_args *a) { return pixels(a, true); }
static int32_t pixel_unshuffle_expand(tc_op_args *a) { return pixels(a, false); }
static int32_t channel_shuffle_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  if (t->rank < 3 || room(a, t->rank + 1))
    return tc_op_fail(a, "channel_shuffle expects an input with more than 2 dimensions: %s", tc_op_shape_text(a, 0));
  if (tc_int_lt(a, tc_op_sym(a, 1), tc_int_const(a, 1)) == 1)
    return tc_op_fail(a, "the number of groups to divide channels in must be positive");
  if (tc_int_require_eq(a, tc_int_mod(a, t->sizes[1], tc_op_sym(a, 1)), tc_int_const(a, 0)))
    return tc_op_fail(a, "the channels of %s must be divisible by groups", tc_op_shape_text(a, 0));
  return tc_op_format_result(a, 0, t->dtype, t->rank, t->sizes, tc_suggested_format(a, t), 0);
}
static int32_t channel_shuffle_expand(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  tc_int groups = tc_op_sym(a, 1), wide[TC_MAX_RANK];
  wide[0] = t->sizes[0], wide[1] = groups, wide[2] = tc_int_floordiv(a, t->sizes[1], groups);
  for (int32_t d = 2; d < t->rank; d++) wide[d + 1] = t->sizes[d];
  tc_gv x = reshape(a, tc_ex_arg(a, 0), t->rank + 1, wide);
  tc_ex_begin(a, "aten::transpose.int");
  tc_ex_push(a, x);
  tc_ex_push_int(a, tc_int_const(a, 1));
  tc_ex_push_int(a, tc_int_const(a, 2));
  x = tc_ex_make(a, 1, NULL);
  tc_ex_begin(a, "aten::_row_major");
  tc_ex_push(a, x);
  tc_ex_result(a, 0, reshape(a, tc_ex_make(a, 1, NULL), t->rank, t->sizes));
  return TC_STATUS_OK;
}

// A vector on the diagonal dim1, dim2 of a new tensor: element (…, i, i + offset).
static int32_t diag_embed_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  int32_t rank = t->rank + 1;
  if (t->rank == 0 || room(a, rank)) return tc_op_fail(a, "diag_embed needs a tensor of rank 1 or more");
  int64_t d1 = tc_op_dim(a, 2, rank), d2 = tc_op_dim(a, 3, rank), offset = tc_op_int(a, 1, 0);
  if (d1 < 0 || d2 < 0) return TC_STATUS_INVALID_ARGUMENT;
  if (d1 == d2) return tc_op_fail(a, "diagonal dimensions cannot be identical");
  if (offset < -INT32_MAX || offset > INT32_MAX)
    return tc_op_fail(a, "an offset of %lld is out of range", (long long)offset);
  tc_int side = tc_int_add(a, t->sizes[t->rank - 1], tc_int_const(a, offset < 0 ? -offset : offset)),
         sizes[TC_MAX_RANK];
  for (int32_t d = 0, k = 0; d < rank; d++) sizes[d] = d == d1 || d == d2 ? side : t->sizes[k++];
  return tc_op_set_result(a, 0, t->dtype, rank, sizes, NULL);
}
static int32_t diag_embed_lower(tc_op_args *a) {
  const tc_tensor_type *r = tc_op_result_type(a, 0), *t = tc_op_tensor(a, 0);
  int64_t d1 = tc_op_dim(a, 2, r->rank), d2 = tc_op_dim(a, 3, r->rank), offset = tc_op_int(a, 1, 0);
  tc_int index[TC_MAX_RANK], at[TC_MAX_RANK];
  tc_lt x = tc_lo_arg(a, 0);
  tc_lo_begin(a, r->rank, r->sizes, index);
  tc_int row = index[d1], column = index[d2], i = offset < 0 ? column : row;
  for (int32_t d = 0, k = 0; d < r->rank; d++) {
    if (d != d1 && d != d2) at[k++] = index[d];
  }
  at[t->rank - 1] = i;
  tc_int on = tc_sym_cmp(a->syms, TC_SYM_EQ, column, tc_int_add(a, row, tc_int_const(a, offset)));
  tc_lo_result(a, 0, tc_lo_end(a, tc_lo_load_if(a, x, at, on, tc_lo_const(a, r->dtype, 0, 0)), r->dtype));
  return TC_STATUS_OK;
}
static int32_t diag_embed_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_result_data(a, 0);
  int64_t d1 = tc_op_dim(a, 2, y->rank), d2 = tc_op_dim(a, 3, y->rank), offset = tc_op_int(a, 1, 0),
          ix[TC_MAX_RANK] = {0};
  for (bool more = tc_ref_numel(x) > 0; more; more = tc_ref_next(x->rank, x->sizes, ix)) {
    int64_t i = ix[x->rank - 1],
            to = (i - (offset < 0 ? offset : 0)) * y->strides[d1] + (i + (offset > 0 ? offset : 0)) * y->strides[d2];
    for (int32_t d = 0, k = 0; d < y->rank; d++) {
      if (d != d1 && d != d2) to += ix[k++] * y->strides[d];
    }
    tc_ref_copy(y, to, x, tc_ref_offset(x, ix));
  }
  return TC_STATUS_OK;
}

enum { C = TC_OP_COMPLEX, VIEW = TC_OP_VIEW | TC_OP_COMPLEX, MAYBE = TC_OP_MAYBE_VIEW | TC_OP_COMPLEX };
#define TEXT(s, t, d) {.schema = s, .traits = t, .decompose = d}
#define CODE(s, t, f) {.schema = s, .traits = t, .expand = f}
#define COPY(s, d) {.schema = s, .traits = C, .decompose = "_row_major(" d ")"}
static const tc_op_def rows[] = {
    {.schema = "repeat(Tensor self, SymInt[] repeats) -> Tensor",
     .traits = C,
     .meta = repeat_meta,
     .lower = repeat_lower,
     .ref = repeat_ref},
    {.schema = "tile(Tensor self, SymInt[] dims) -> Tensor",
     .traits = C,
     .meta = repeat_meta,
     .lower = repeat_lower,
     .ref = repeat_ref},
    {.schema = "flip(Tensor self, int[] dims) -> Tensor",
     .traits = C,
     .meta = flip_meta,
     .lower = flip_lower,
     .ref = flip_ref},
    {.schema = "roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor",
     .traits = C,
     .meta = roll_meta,
     .lower = roll_lower,
     .ref = roll_ref},
    {.schema = "tril(Tensor self, SymInt diagonal=0) -> Tensor",
     .traits = C,
     .meta = triangle_meta,
     .lower = triangle_lower,
     .ref = triangle_ref},
    {.schema = "triu(Tensor self, SymInt diagonal=0) -> Tensor",
     .traits = C,
     .meta = triangle_meta,
     .lower = triangle_lower,
     .ref = triangle_ref},
    {.schema = "resize(Tensor(a) self, SymInt[] size, *, MemoryFormat? memory_format=None) -> Tensor(a)",
     .traits = VIEW,
     .meta = resize_meta,
     .lower = as_strided_lower},
    {.schema = "as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)",
     .traits = VIEW,
     .meta = as_strided_meta,
     .lower = as_strided_lower},
    {.schema = "diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)",
     .traits = VIEW,
     .meta = diagonal_meta,
     .lower = diagonal_lower},
    {.schema = "unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)",
     .traits = VIEW,
     .meta = unfold_meta,
     .lower = unfold_lower},
    {.schema = "diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor",
     .traits = C,
     .meta = diag_embed_meta,
     .lower = diag_embed_lower,
     .ref = diag_embed_ref},
    TEXT("diag(Tensor self, int diagonal=0) -> Tensor", C,
         "if(self.rank == 1, diag_embed(self, diagonal), _row_major(diagonal(self, diagonal)))"),
    TEXT("diagflat(Tensor self, int offset=0) -> Tensor", C, "diag_embed(reshape(self, [-1]), offset)"),
    TEXT("trace(Tensor self) -> Tensor", C, "sum(diagonal(self))"),
    TEXT("fliplr(Tensor self) -> Tensor", C, "flip(self, [1])"),
    TEXT("flipud(Tensor self) -> Tensor", C, "flip(self, [0])"),
    TEXT("rot90(Tensor self, int k=1, int[] dims=[0, 1]) -> Tensor", C,
         "let q = k % 4; if(q == 0, _row_major(self), if(q == 1, transpose(flip(self, [dims[1]]), dims[0], dims[1]), "
         "if(q "
         "== 2, flip(self, dims), transpose(flip(self, [dims[0]]), dims[0], dims[1]))))"),
    CODE("unflatten.int(Tensor(a) self, int dim, SymInt[] sizes) -> Tensor(a)", VIEW, unflatten_expand),
    CODE("broadcast_tensors(Tensor[] tensors) -> Tensor[]", C, broadcast_tensors_expand),
    CODE("meshgrid(Tensor[] tensors) -> Tensor[]", C, meshgrid_expand),
    CODE("cartesian_prod(Tensor[] tensors) -> Tensor", C, cartesian_prod_expand),
    CODE("meshgrid.indexing(Tensor[] tensors, *, str indexing) -> Tensor[]", C, meshgrid_expand),
    CODE(
        "repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor",
        C, repeat_interleave_expand),
    CODE("pixel_shuffle(Tensor self, int upscale_factor) -> Tensor", C, pixel_shuffle_expand),
    CODE("pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor", C, pixel_unshuffle_expand),
    {.schema = "channel_shuffle(Tensor self, SymInt groups) -> Tensor",
     .traits = C,
     .meta = channel_shuffle_meta,
     .expand = channel_shuffle_expand},
    TEXT("atleast_1d(Tensor self) -> Tensor", MAYBE, "if(self.rank == 0, reshape(self, [1]), self)"),
    TEXT("atleast_2d(Tensor self) -> Tensor", MAYBE,
         "if(self.rank == 0, reshape(self, [1, 1]), if(self.rank == 1, unsqueeze(self, 0), self))"),
    TEXT("atleast_3d(Tensor self) -> Tensor", MAYBE,
         "if(self.rank == 0, reshape(self, [1, 1, 1]), if(self.rank == 1, unsqueeze(unsqueeze(self, 0), -1), "
         "if(self.rank == 2, unsqueeze(self, -1), self)))"),
    CODE("atleast_1d.Sequence(Tensor[] tensors) -> Tensor[]", C, atleast_1d_expand),
    CODE("atleast_2d.Sequence(Tensor[] tensors) -> Tensor[]", C, atleast_2d_expand),
    CODE("atleast_3d.Sequence(Tensor[] tensors) -> Tensor[]", C, atleast_3d_expand),
    COPY("squeeze_copy(Tensor self) -> Tensor", "squeeze(self)"),
    COPY("squeeze_copy.dim(Tensor self, int dim) -> Tensor", "squeeze(self, dim)"),
    COPY("squeeze_copy.dims(Tensor self, int[] dim) -> Tensor", "squeeze(self, dim)"),
    COPY("unsqueeze_copy(Tensor self, int dim) -> Tensor", "unsqueeze(self, dim)"),
    COPY("select_copy.int(Tensor self, int dim, SymInt index) -> Tensor", "select(self, dim, index)"),
    COPY("slice_copy.Tensor(Tensor self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor",
         "slice(self, dim, start, end, step)"),
    COPY("narrow_copy(Tensor self, int dim, SymInt start, SymInt length) -> Tensor",
         "narrow(self, dim, start, length)"),
    COPY("permute_copy(Tensor self, int[] dims) -> Tensor", "permute(self, dims)"),
    COPY("transpose_copy.int(Tensor self, int dim0, int dim1) -> Tensor", "transpose(self, dim0, dim1)"),
    COPY("t_copy(Tensor self) -> Tensor", "t(self)"),
    COPY("expand_copy(Tensor self, SymInt[] size, *, bool implicit=False) -> Tensor", "expand(self, size)"),
    COPY("view_copy(Tensor self, SymInt[] size) -> Tensor", "view(self, size)"),
    COPY("alias_copy(Tensor self) -> Tensor", "self"),
    COPY("diagonal_copy(Tensor self, int offset=0, int dim1=0, int dim2=1) -> Tensor",
         "diagonal(self, offset, dim1, dim2)"),
    COPY("unfold_copy(Tensor self, int dimension, int size, int step) -> Tensor",
         "unfold(self, dimension, size, step)"),
    COPY("as_strided_copy(Tensor self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor",
         "as_strided(self, size, stride, storage_offset)"),
};
// Derivatives; see docs/ADDING_AN_OP.md for what the texts can name.
static const tc_op_derivative derivatives[] = {
    {"flip", "self: flip(grad, dims)"},
    {"roll", "self: roll(grad, negated(shifts), dims)"},
    {"tril", "self: tril(grad, diagonal)"},
    {"triu", "self: triu(grad, diagonal)"},
    {"diagonal", "self: diagonal_scatter(zeros_like(self), grad, offset, dim1, dim2)"},
    {"diag_embed", "self: diagonal(grad, offset, dim1, dim2)"},
};
TC_OP_FAMILY_WITH_DERIVATIVES(rearrange);
