// Writing elements at positions: slices, single indices, and positions that come from data.
//
// Every op here is functional: the result is self with some elements replaced. Slices and indices known beforehand are
// a choice per element. Where positions come from data the template "scatter" copies self and writes in order.
//
// Where self is overwritten anyway (a cache), only what changes is written: a loop over the source, whose elements say
// where they go. Of several that go to one place the last one is written, as the template does.
#include "core/ops/ops.h"

static int32_t same_dtype(tc_op_args *a, int32_t arg) {
  if (tc_op_tensor(a, arg)->dtype == tc_op_tensor(a, 0)->dtype) return TC_STATUS_OK;
  return tc_op_fail(a, "self and source must have the same dtype: %s and %s", tc_op_shape_text(a, 0),
                    tc_op_shape_text(a, arg));
}
void tc_ref_self(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_result_data(a, 0);
  int64_t i[TC_MAX_RANK] = {0};
  for (bool more = tc_ref_numel(y) > 0; more; more = tc_ref_next(y->rank, y->sizes, i))
    tc_ref_copy(y, tc_ref_offset(y, i), x, tc_ref_offset(x, i));
}

// ---- slice_scatter, select_scatter ----
typedef struct place {
  int64_t dim;
  tc_int start, length, step;
  bool drop; // the source lacks the dimension
} place;
static int32_t read_place(tc_op_args *a, place *p) {
  const tc_tensor_type *t = tc_op_tensor(a, 0), *s = tc_op_tensor(a, 1);
  *p = (place){.drop = tc_sv_is(a->op->schema.name, "select_scatter")};
  if (p->drop) {
    if (t->rank == 0) return tc_op_fail(a, "select_scatter cannot be applied to a 0-dim tensor");
    p->dim = tc_op_dim(a, 2, t->rank);
    if (p->dim < 0) return TC_STATUS_INVALID_ARGUMENT;
    p->length = p->step = tc_int_const(a, 1);
    if (tc_op_wrap_index(a, tc_op_sym(a, 3), p->dim, t->sizes[p->dim], &p->start)) return TC_STATUS_INVALID_ARGUMENT;
  } else if (tc_op_read_slice(a, 2, &p->dim, &p->start, &p->length, &p->step)) {
    return TC_STATUS_INVALID_ARGUMENT;
  }
  bool fits = s->rank == t->rank - p->drop;
  for (int32_t d = 0, k = 0; fits && d < t->rank; d++) {
    if (d == p->dim && p->drop) continue;
    fits = tc_int_require_eq(a, s->sizes[k++], d == p->dim ? p->length : t->sizes[d]) == TC_STATUS_OK;
  }
  return fits ? TC_STATUS_OK
              : tc_op_fail(a, "the source %s does not have the shape of the part of %s that it replaces",
                           tc_op_shape_text(a, 1), tc_op_shape_text(a, 0));
}
static int32_t place_meta(tc_op_args *a) {
  place p;
  return read_place(a, &p) ? TC_STATUS_INVALID_ARGUMENT : tc_meta_same_strides(a);
}
static int32_t place_in_place(tc_op_args *a, const place *p) {
  const tc_tensor_type *r = tc_op_result_type(a, 0), *s = tc_op_tensor(a, 1);
  tc_int index[TC_MAX_RANK], at[TC_MAX_RANK];
  tc_lt src = tc_lo_arg(a, 1);
  tc_lo_begin(a, s->rank, s->sizes, index);
  for (int32_t d = 0, k = 0; d < r->rank; d++) {
    if (d != p->dim) at[d] = index[k++];
    else at[d] = p->drop ? p->start : tc_int_add(a, p->start, tc_int_mul(a, index[k++], p->step));
  }
  tc_bval v = tc_lo_load(a, src, index);
  tc_lo_store_at(a, at, NULL, 0, -1);
  tc_lo_result(a, 0, tc_lo_end(a, v, r->dtype));
  return TC_STATUS_OK;
}
static int32_t place_lower(tc_op_args *a) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  place p;
  tc_int index[TC_MAX_RANK], at[TC_MAX_RANK];
  if (read_place(a, &p)) return TC_STATUS_INVALID_ARGUMENT;
  if (tc_lo_in_place(a)) return place_in_place(a, &p);
  tc_lt self = tc_lo_arg(a, 0), src = tc_lo_arg(a, 1);
  tc_lo_begin(a, r->rank, r->sizes, index);
  tc_int from = tc_int_sub(a, index[p.dim], p.start), zero = tc_int_const(a, 0);
  tc_int inside = tc_int_within(a, from, zero, tc_int_mul(a, p.length, p.step)),
         on = tc_sym_cmp(a->syms, TC_SYM_EQ, tc_int_mod(a, from, p.step), zero);
  if (!tc_sym_is_int(on, 1)) inside = tc_sym_and(a->syms, inside, on);
  for (int32_t d = 0, k = 0; d < r->rank; d++) {
    if (d != p.dim) at[k++] = index[d];
    else if (!p.drop) at[k++] = tc_int_floordiv(a, from, p.step);
  }
  tc_bval old = tc_lo_load(a, self, index);
  if (tc_lo_dtype(a, src) == r->dtype) {
    tc_lo_result(a, 0, tc_lo_end(a, tc_lo_load_if(a, src, at, inside, old), r->dtype));
  } else {
    tc_bval v = tc_lo_cast(a, tc_lo_load_if(a, src, at, inside, tc_lo_const_int(a, tc_lo_dtype(a, src), 0)), r->dtype);
    tc_lo_result(a, 0, tc_lo_end(a, tc_lo_op3(a, TC_K_SELECT, tc_lower_condition(a, inside), v, old), r->dtype));
  }
  return TC_STATUS_OK;
}
static int32_t place_ref(tc_op_args *a) {
  const tc_ref_view *s = tc_op_data(a, 1), *y = tc_op_result_data(a, 0);
  int64_t i[TC_MAX_RANK] = {0}, start = 0, step = 1;
  place p;
  if (read_place(a, &p)) return TC_STATUS_INVALID_ARGUMENT;
  tc_int_is_const(p.start, &start), tc_int_is_const(p.step, &step);
  tc_ref_self(a);
  for (bool more = tc_ref_numel(s) > 0; more; more = tc_ref_next(s->rank, s->sizes, i)) {
    int64_t to = 0;
    for (int32_t d = 0, k = 0; d < y->rank; d++) {
      if (d == p.dim) to += (start + (p.drop ? 0 : step * i[k++])) * y->strides[d];
      else to += i[k++] * y->strides[d];
    }
    tc_ref_copy(y, to, s, tc_ref_offset(s, i));
  }
  return TC_STATUS_OK;
}

bool tc_scatters_nothing(tc_op_args *a) {
  return tc_sv_starts(a->op->schema.name, "scatter") &&
         tc_int_eq(a, tc_op_numel(a, tc_op_tensor(a, 2)), tc_int_const(a, 0)) == 1;
}

int32_t tc_scatter_check(tc_op_args *a, int64_t dim) {
  const tc_tensor_type *t = tc_op_tensor(a, 0), *i = tc_op_tensor(a, 2);
  const tc_tensor_type *s = tc_op_kind(a, 3) == TC_AK_TENSOR ? tc_op_tensor(a, 3) : NULL;
  bool fits = true;
  if (tc_int_eq(a, tc_op_numel(a, i), tc_int_const(a, 0)) == 1) return TC_STATUS_OK;
  tc_int one = tc_int_const(a, 1); // of what has no dimension
  for (int32_t d = 0; d < i->rank && fits; d++) {
    fits = d >= t->rank || d == dim || tc_int_lt(a, t->sizes[d], i->sizes[d]) != 1;
    if (s && d < s->rank) fits = fits && tc_int_lt(a, s->sizes[d], i->sizes[d]) != 1;
    if (s && s->rank == 0) fits = fits && tc_int_lt(a, one, i->sizes[d]) != 1;
  }
  if (fits) return TC_STATUS_OK;
  if (!s)
    return tc_op_fail(a, "expected index %s to be no larger than self %s apart from dimension %lld",
                      tc_op_shape_text(a, 2), tc_op_shape_text(a, 0), (long long)dim);
  return tc_op_fail(a,
                    "expected index %s to be no larger than self %s apart from dimension %lld and to be no larger than "
                    "src %s",
                    tc_op_shape_text(a, 2), tc_op_shape_text(a, 0), (long long)dim, tc_op_shape_text(a, 3));
}

// ---- one index tensor along a dimension: index_copy, index_add, scatter, scatter_add ----
// `whole`: the index has all dimensions (scatter); else it is a vector (index_*). `sum`: added, not replaced. `wraps`:
// negative positions count from the end.
typedef struct along {
  int64_t dim;
  bool whole, sum, number, wraps;
  int32_t src;
} along;
static int32_t read_along(tc_op_args *a, along *w) {
  const tc_tensor_type *t = tc_op_tensor(a, 0), *i = tc_op_tensor(a, 2), *s = tc_op_tensor(a, 3);
  tc_sv name = a->op->schema.name;
  *w = (along){.whole = tc_sv_starts(name, "scatter"), .sum = tc_sv_ends(name, "_add"), .src = 3};
  w->wraps = tc_sv_is(name, "index_fill");
  w->number = tc_op_kind(a, 3) != TC_AK_TENSOR;
  w->dim = tc_op_dim(a, 1, t->rank);
  if (w->dim < 0) return TC_STATUS_INVALID_ARGUMENT;
  if (i->dtype != TC_I64 && i->dtype != TC_I32)
    return tc_op_fail(a, "the index must be i32 or i64, not %s", tc_dtype_torch_name(i->dtype));
  if (tc_scatters_nothing(a)) return w->number ? TC_STATUS_OK : same_dtype(a, 3);
  if (t->rank == 0 && w->whole) { // as a vector of one element
    if (i->rank > 1 || (!w->number && s->rank > 1))
      return tc_op_fail(a, "a tensor of rank 0 takes an index and a source that are vectors: %s",
                        tc_op_shape_text(a, 2));
    if (tc_scatter_check(a, w->dim)) return TC_STATUS_INVALID_ARGUMENT;
    return w->number ? TC_STATUS_OK : same_dtype(a, 3);
  }
  if (t->rank == 0) {
    if (i->rank > 1 || tc_int_eq(a, tc_op_numel(a, i), tc_int_const(a, 1)) == 0)
      return tc_op_fail(a, "a tensor of rank 0 takes an index of one element: %s", tc_op_shape_text(a, 2));
    if (!w->number && (s->rank > !w->sum || tc_int_eq(a, tc_op_numel(a, s), tc_int_const(a, 1)) == 0))
      return tc_op_fail(a, "a tensor of rank 0 takes a source of one element: %s", tc_op_shape_text(a, 3));
    return w->number ? TC_STATUS_OK : same_dtype(a, 3);
  }
  if (w->whole && i->rank != t->rank)
    return tc_op_fail(a, "the index must have as many dimensions as self: %s and %s", tc_op_shape_text(a, 2),
                      tc_op_shape_text(a, 0));
  if (!w->whole && i->rank > 1)
    return tc_op_fail(a, "the index is supposed to be a vector: %s", tc_op_shape_text(a, 2));
  if (w->whole && tc_scatter_check(a, w->dim)) return TC_STATUS_INVALID_ARGUMENT;
  if (w->number) return TC_STATUS_OK;
  if (s->rank != t->rank)
    return tc_op_fail(a, "self and source must have the same number of dimensions: %s and %s", tc_op_shape_text(a, 0),
                      tc_op_shape_text(a, 3));
  for (int32_t d = 0; !w->whole && d < t->rank; d++) {
    if (tc_int_require_eq(a, s->sizes[d], d == w->dim ? tc_op_numel(a, i) : t->sizes[d]))
      return tc_op_fail(a, "the source %s does not fit self %s and the index %s", tc_op_shape_text(a, 3),
                        tc_op_shape_text(a, 0), tc_op_shape_text(a, 2));
  }
  return same_dtype(a, 3);
}
static int32_t along_meta(tc_op_args *a) {
  along w;
  if (read_along(a, &w) || tc_op_number_fits(a, 3, tc_op_tensor(a, 0)->dtype)) return TC_STATUS_INVALID_ARGUMENT;
  return tc_meta_row_major(a);
}

tc_lt tc_lower_scatter(tc_op_args *a, int32_t kind, int32_t across, int32_t negative, tc_lt self, tc_lt positions,
                       tc_lt values, tc_dtype dtype) {
  tc_int sizes[TC_MAX_RANK], attrs[3] = {tc_int_const(a, kind), tc_int_const(a, across), tc_int_const(a, negative)};
  tc_lt operands[3] = {self, positions, values};
  int32_t rank = tc_lo_rank(a, self);
  for (int32_t d = 0; d < rank; d++) sizes[d] = tc_lo_size(a, self, d);
  return tc_lo_template(a, "scatter", 3, operands, dtype, rank, sizes, 3, attrs);
}

int32_t tc_scatter_across(tc_op_args *a, const tc_tensor_type *t, bool last_indexed, bool whole) {
  bool across = t->rank > 1 && !last_indexed && tc_int_hint(a, t->sizes[t->rank - 1], 8) >= 4;
  return !across ? 0 : whole ? 1 : 2;
}

tc_lt tc_lower_converted(tc_op_args *a, tc_lt x, tc_dtype dtype) {
  static const char *const v = "v";
  if (tc_lo_dtype(a, x) == dtype) return x;
  return tc_lower_text(a, "v", 1, &v, &x, tc_lo_dtype(a, x), dtype);
}

static tc_int reached(tc_op_args *a, bool whole, int64_t dim, const tc_int *index) {
  const tc_tensor_type *it = tc_op_tensor(a, 2);
  tc_int all = tc_int_const(a, 1);
  for (int32_t d = 0; whole && d < it->rank; d++) {
    tc_int in = tc_int_within(a, index[d], tc_int_const(a, 0), it->sizes[d]);
    if (d != dim && !tc_sym_is_int(in, 1)) all = tc_sym_is_int(all, 1) ? in : tc_sym_and(a->syms, all, in);
  }
  return all;
}
int32_t tc_scatter_operands(tc_op_args *a, bool whole, int64_t dim, tc_lt *positions, tc_lt *values) {
  const tc_tensor_type *r = tc_op_result_type(a, 0), *it = tc_op_tensor(a, 2);
  tc_lt src = tc_lo_arg(a, 3), idx = tc_lo_arg(a, 2);
  tc_int sizes[TC_MAX_RANK], index[TC_MAX_RANK], n = whole ? it->sizes[dim] : tc_op_numel(a, it);
  for (int32_t d = 0; d < r->rank; d++) sizes[d] = d == dim ? n : r->sizes[d];
  tc_lo_indices(a, r->rank, sizes, index);
  if (whole) idx = tc_lo_view(a, idx, r->rank, sizes, index, index);
  else idx = tc_lo_view(a, tc_lo_reshape(a, idx, 1, &n), r->rank, sizes, index, &index[dim]);
  if (tc_lo_rank(a, src) == 0) src = tc_lo_expand(a, src, r->rank, sizes);
  else src = tc_lo_view(a, src, r->rank, sizes, index, index);
  bool all = tc_sym_is_int(reached(a, whole, dim, index), 1);
  if (!all) {
    tc_dtype d = tc_lo_dtype(a, src), p = tc_lo_dtype(a, idx);
    tc_lo_begin(a, r->rank, sizes, index);
    tc_int in = reached(a, whole, dim, index);
    tc_bval at = tc_lo_cast(a, tc_lo_load_if(a, idx, index, in, tc_lo_const_int(a, p, 0)), TC_I64);
    at = tc_lo_op2(a, TC_K_MAX, at, tc_lo_const_int(a, TC_I64, INT64_MIN + 1)); // the caller's own is an error
    at = tc_lo_op3(a, TC_K_SELECT, tc_lower_condition(a, in), at, tc_lo_const_int(a, TC_I64, INT64_MIN));
    idx = tc_lo_end(a, at, TC_I64);
    tc_lo_begin(a, r->rank, sizes, index);
    tc_bval none = tc_lo_cast(a, tc_lo_const_int(a, TC_I64, 0), d);
    src = tc_lo_end(a, tc_lo_load_if(a, src, index, reached(a, whole, dim, index), none), d);
  }
  *positions = tc_lower_moved(a, idx, dim, 0);
  *values = tc_lower_moved(a, src, dim, 0);
  return all ? TC_NEGATIVE_ERROR : TC_NEGATIVE_LEFT_OUT;
}

static tc_lt scaled(tc_op_args *a, tc_lt x, tc_dtype dtype) {
  static const char *const names[] = {"v", "alpha"};
  tc_number alpha;
  int32_t arg = tc_op_arg_index(a, "alpha");
  if (arg < 0 || !tc_op_number(a, arg, &alpha) || (alpha.re == 1 && alpha.im == 0)) return x;
  tc_lo_begin(a, 0, NULL, NULL);
  bool real = tc_dtype_is_float(dtype) || tc_dtype_is_complex(dtype);
  tc_bval c = real ? tc_lo_const(a, dtype, alpha.re, alpha.im) : tc_lo_const_int(a, dtype, (int64_t)alpha.re);
  tc_lt pair[2] = {x, tc_lo_end(a, c, dtype)};
  return tc_lower_text(a, "v * alpha", 2, names, pair, dtype, dtype);
}

tc_dtype tc_scatter_type(tc_op_args *a, tc_dtype dtype, tc_int places, tc_int elements) {
  enum { SUMMED = 64 };
  bool many = tc_int_hint(a, elements, 1) / SUMMED > tc_int_hint(a, places, 1);
  return dtype == TC_F32 && many ? TC_F64 : tc_op_math_type(dtype);
}

// A position as i64; `size`: negative ones count from the end (NULL: they do not).
static tc_bval position(tc_op_args *a, tc_lt idx, const tc_int *at, tc_int size) {
  tc_bval p = tc_lo_cast(a, tc_lo_load(a, idx, at), TC_I64), zero = tc_lo_const_int(a, TC_I64, 0);
  if (!size) return p;
  return tc_lo_op3(a, TC_K_SELECT, tc_lo_op2(a, TC_K_LT, p, zero),
                   tc_lo_op2(a, TC_K_ADD, p, tc_lo_index(a, size, TC_I64)), p);
}

// The last number along dimension `dim` of idx at which the same position stands; -1 where there is but one number.
static tc_lt last_of_same(tc_op_args *a, tc_lt idx, int32_t dim, tc_int size) {
  tc_int sizes[TC_MAX_RANK], index[TC_MAX_RANK + 1], other[TC_MAX_RANK];
  int32_t rank = tc_lo_rank(a, idx);
  int64_t n;
  for (int32_t d = 0; d < rank; d++) sizes[d] = tc_lo_size(a, idx, d);
  if (tc_int_is_const(sizes[dim], &n) && n <= 1) return -1;
  tc_lo_begin_reduce(a, TC_RED_MAX, rank, sizes, 1, &sizes[dim], index);
  for (int32_t d = 0; d < rank; d++) other[d] = d == dim ? index[rank] : index[d];
  tc_bval same = tc_lo_op2(a, TC_K_EQ, position(a, idx, index, size), position(a, idx, other, size));
  return tc_lo_end(
      a, tc_lo_op3(a, TC_K_SELECT, same, tc_lo_index(a, index[rank], TC_I64), tc_lo_const_int(a, TC_I64, -1)), TC_I64);
}

int32_t tc_lower_along_in_place(tc_op_args *a, int32_t dim, tc_lt idx, bool wrap, tc_lt values) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  bool whole = tc_lo_rank(a, idx) == r->rank && r->rank > 1;
  tc_int sizes[TC_MAX_RANK], index[TC_MAX_RANK], to[TC_MAX_RANK], size = wrap ? r->sizes[dim] : NULL;
  for (int32_t d = 0; d < r->rank; d++)
    sizes[d] = whole ? tc_lo_size(a, idx, d) : d == dim ? tc_lo_size(a, idx, 0) : r->sizes[d];
  if (tc_lo_rank(a, values) == 0) values = tc_lo_expand(a, values, r->rank, sizes);
  tc_lt last = last_of_same(a, idx, whole ? dim : 0, size);
  tc_lo_begin(a, r->rank, sizes, index);
  const tc_int *at = whole ? index : &index[dim];
  tc_bval v = tc_lo_cast(a, tc_lo_load(a, values, index), r->dtype), by[TC_MAX_RANK], is_last = -1;
  tc_bval p = position(a, idx, at, size);
  for (int32_t d = 0; d < r->rank; d++) {
    to[d] = d == dim ? tc_int_const(a, 0) : index[d];
    by[d] = d == dim ? p : -1;
  }
  if (last >= 0) is_last = tc_lo_op2(a, TC_K_EQ, tc_lo_load(a, last, at), tc_lo_index(a, index[dim], TC_I64));
  tc_lo_store_at(a, to, by, 0, is_last);
  tc_lo_result(a, 0, tc_lo_end(a, v, r->dtype));
  return TC_STATUS_OK;
}

static int32_t along_in_place(tc_op_args *a, const along *w) {
  tc_int n = tc_op_numel(a, tc_op_tensor(a, 2));
  tc_lt idx = w->whole ? tc_lo_arg(a, 2) : tc_lo_reshape(a, tc_lo_arg(a, 2), 1, &n);
  return tc_lower_along_in_place(a, (int32_t)w->dim, idx, w->wraps, tc_lo_arg(a, 3));
}

static int32_t expand_copy(tc_op_args *a) {
  tc_ex_begin(a, "aten::_row_major");
  tc_ex_push_arg(a, 0);
  tc_ex_result(a, 0, tc_ex_make(a, 1, NULL));
  return TC_STATUS_OK;
}

// Tensors of rank 0 have one element along a dimension of their own, beside those of rank 1, too; others are lowered as
// they are.
int32_t tc_expand_rank0_scatter(tc_op_args *a) {
  if (tc_scatters_nothing(a)) return expand_copy(a);
  tc_int one = tc_int_const(a, 1);
  tc_gv v[4] = {-1, -1, -1, -1};
  bool scalar = tc_op_tensor(a, 0)->rank == 0, found = false;
  if (tc_op_tensor(a, 0)->rank > 1) return TC_STATUS_OK;
  for (int32_t i = 0; i < 4; i++) {
    if (i == 1 || tc_op_kind(a, i) != TC_AK_TENSOR || tc_op_tensor(a, i)->rank > 0) continue;
    tc_gv x = tc_ex_arg(a, i);
    tc_ex_begin(a, "aten::reshape");
    tc_ex_push(a, x);
    tc_ex_push_ints(a, 1, &one);
    v[i] = tc_ex_make(a, 1, NULL);
    found = true;
  }
  if (!found) return TC_STATUS_OK;
  tc_ex_begin(a, tc_sv_z(a->arena, tc_op_name(a)));
  for (int32_t i = 0; i < a->n_args; i++) {
    if (i < 4 && v[i] >= 0) tc_ex_push(a, v[i]);
    else tc_ex_push_arg(a, i);
  }
  tc_gv y = tc_ex_make(a, 1, NULL);
  if (scalar) {
    tc_ex_begin(a, "aten::squeeze.dim");
    tc_ex_push(a, y);
    tc_ex_push_int(a, tc_int_const(a, 0));
    y = tc_ex_make(a, 1, NULL);
  }
  tc_ex_result(a, 0, y);
  return TC_STATUS_OK;
}

// A vector takes many elements: parts of these are added up side by side, then their sums. -1: they are few, or how
// many is not known.
static tc_lt summed_by_parts(tc_op_args *a, tc_lt self, tc_lt positions, tc_lt values, tc_dtype type) {
  enum { PARTS = 64, FEWEST = 1 << 16 };
  tc_int places = tc_lo_size(a, self, 0), elements = tc_lo_size(a, positions, 0), index[2];
  int64_t n, m;
  if (tc_lo_rank(a, self) != 1 || !tc_int_is_const(places, &n) || !tc_int_is_const(elements, &m)) return -1;
  tc_int row[] = {tc_int_const(a, 1), places};
  if (m < FEWEST || m / PARTS < n || !tc_lo_in_order(a, tc_lo_reshape(a, self, 2, row))) return -1;
  tc_int parts = tc_int_const(a, PARTS), length = tc_int_const(a, (m + PARTS - 1) / PARTS);
  tc_lt operands[3]; // zeros, and positions and values by parts
  tc_dtype of_value = tc_lo_dtype(a, values);
  for (int32_t i = 0; i < 3; i++) {
    tc_int here[] = {i ? length : places, parts};
    tc_lo_begin(a, 2, here, index);
    tc_int at = tc_int_add(a, tc_int_mul(a, index[1], length), index[0]),
           in = tc_sym_cmp(a->syms, TC_SYM_LT, at, elements);
    tc_bval least = tc_lo_const_int(a, TC_I64, INT64_MIN),
            zero = tc_lo_cast(a, tc_lo_const_int(a, TC_I64, 0), i ? of_value : type);
    if (i == 1) {
      tc_bval p =
          tc_lo_cast(a, tc_lo_load_if(a, positions, &at, in, tc_lo_const_int(a, tc_lo_dtype(a, positions), 0)), TC_I64);
      p = tc_lo_op2(a, TC_K_MAX, p, tc_lo_const_int(a, TC_I64, INT64_MIN + 1)); // the caller's own is an error
      operands[i] = tc_lo_end(a, tc_lo_op3(a, TC_K_SELECT, tc_lower_condition(a, in), p, least), TC_I64);
    } else {
      operands[i] = i ? tc_lo_end(a, tc_lo_load_if(a, values, &at, in, zero), of_value) : tc_lo_end(a, zero, type);
    }
  }
  tc_lt sums =
      tc_lower_scatter(a, TC_SCATTER_ADD, 0, TC_NEGATIVE_LEFT_OUT, operands[0], operands[1], operands[2], type);
  tc_lo_begin_reduce(a, TC_RED_SUM, 1, &places, 1, &parts, index);
  tc_lt pair[] = {self, tc_lo_end(a, tc_lo_load(a, sums, index), type)};
  static const char *const names[] = {"x", "y"};
  return tc_lower_text(a, "x + y", 2, names, pair, type, type);
}

static int32_t along_lower(tc_op_args *a) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  along w;
  if (read_along(a, &w)) return TC_STATUS_INVALID_ARGUMENT;
  if (!w.sum && tc_lo_in_place(a)) return along_in_place(a, &w);
  tc_lt positions, values;
  int32_t negative = tc_scatter_operands(a, w.whole, w.dim, &positions, &values);
  if (w.wraps) negative = TC_NEGATIVE_WRAPS;
  tc_dtype type = w.sum ? tc_scatter_type(a, r->dtype, r->sizes[w.dim], tc_lo_size(a, positions, 0)) : r->dtype;
  if (w.sum) values = scaled(a, values, type);
  int32_t across = tc_scatter_across(a, r, w.dim == r->rank - 1, w.whole);
  tc_lt self = tc_lower_moved(a, tc_lo_arg(a, 0), w.dim, 0), out = -1;
  if (w.sum && negative == TC_NEGATIVE_ERROR) out = summed_by_parts(a, self, positions, values, type);
  if (out < 0)
    out = tc_lower_scatter(a, w.sum ? TC_SCATTER_ADD : TC_SCATTER_SET, across, negative, self, positions, values, type);
  tc_lo_result(a, 0, tc_lower_converted(a, tc_lower_moved(a, out, 0, w.dim), r->dtype));
  return TC_STATUS_OK;
}

void tc_ref_add(const tc_ref_view *y, int64_t to, const tc_ref_view *s, int64_t from, tc_number alpha) {
  if (y->dtype == TC_I64) {
    tc_ref_put_i(y, to,
                 (int64_t)((uint64_t)tc_ref_i(y, to) + (uint64_t)(int64_t)alpha.re * (uint64_t)tc_ref_i(s, from)));
    return;
  }
  tc_c128 p = tc_ref_c(y, to), q = tc_ref_c(s, from);
  tc_ref_put(y, to, (tc_c128){p.re + alpha.re * q.re - alpha.im * q.im, p.im + alpha.re * q.im + alpha.im * q.re});
}
static int32_t along_ref(tc_op_args *a) {
  const tc_ref_view *idx = tc_op_data(a, 2), *s = tc_op_data(a, 3), *y = tc_op_result_data(a, 0);
  along w;
  if (read_along(a, &w)) return TC_STATUS_INVALID_ARGUMENT;
  tc_number alpha = {.re = 1};
  if (tc_op_arg_index(a, "alpha") >= 0) tc_op_number(a, tc_op_arg_index(a, "alpha"), &alpha);
  int64_t walk[TC_MAX_RANK], i[TC_MAX_RANK] = {0}, numel = 1;
  if (w.whole && tc_ref_numel(idx) == 0) return tc_ref_self(a), TC_STATUS_OK;
  for (int32_t d = 0; d < y->rank; d++) {
    walk[d] = w.whole ? idx->sizes[d] : d == w.dim ? tc_ref_numel(idx) : y->sizes[d];
    numel *= walk[d];
  }
  tc_ref_self(a);
  for (int64_t k = 0, n = y->rank == 0 ? tc_ref_numel(idx) : 0; k < n; k++) {
    int64_t p = tc_ref_i(idx, idx->rank ? k * idx->strides[0] : 0), from = w.number || !s->rank ? 0 : k * s->strides[0];
    if (p) return tc_op_fail(a, "index %lld is out of bounds for a tensor of rank 0", (long long)p);
    if (w.sum) tc_ref_add(y, 0, s, from, alpha);
    else tc_ref_copy(y, 0, s, from);
  }
  if (y->rank == 0) return TC_STATUS_OK;
  for (bool more = numel > 0; more; more = tc_ref_next(y->rank, walk, i)) {
    int64_t p = tc_ref_i(idx, w.whole ? tc_ref_offset(idx, i) : idx->rank ? i[w.dim] * idx->strides[0] : 0), to = 0;
    int64_t size = y->sizes[w.dim];
    if (p < (w.wraps ? -size : 0) || p >= size)
      return tc_op_fail(a, "index %lld is out of bounds for dimension %lld with size %lld", (long long)p,
                        (long long)w.dim, (long long)size);
    if (p < 0) p += size;
    for (int32_t d = 0; d < y->rank; d++) to += (d == w.dim ? p : i[d]) * y->strides[d];
    int64_t from = w.number ? 0 : tc_ref_offset(s, i);
    if (w.sum) tc_ref_add(y, to, s, from, alpha);
    else tc_ref_copy(y, to, s, from);
  }
  return TC_STATUS_OK;
}

enum { C = TC_OP_COMPLEX };
#define PLACE(s) {.schema = s, .traits = C, .meta = place_meta, .lower = place_lower, .ref = place_ref}
#define ALONG(s)                      \
  {.schema = s,                       \
   .traits = C | TC_OP_MAY_EXPAND,    \
   .meta = along_meta,                \
   .expand = tc_expand_rank0_scatter, \
   .lower = along_lower,              \
   .ref = along_ref}
static const tc_op_def rows[] = {
    PLACE("slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> "
          "Tensor"),
    PLACE("select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor"),
    ALONG("index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor"),
    ALONG("index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor"),
    ALONG("index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor"),
    ALONG("scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor"),
    ALONG("scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor"),
    ALONG("scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor"),
};
TC_OP_FAMILY(scatter);
