// Views: results that share the argument's storage. Meta gives PyTorch's sizes, strides and offset; lowering is an
// index map. The reference engine looks at the same storage by the strides; only what may have to copy has a reference.
#include "core/ops/ops.h"

// ---- helpers ----
typedef struct shape {
  int32_t rank;
  tc_int sizes[TC_MAX_RANK], strides[TC_MAX_RANK];
  tc_int offset;
} shape;

static shape shape_of(const tc_tensor_type *t) {
  shape s = {.rank = t->rank, .offset = t->offset};
  for (int32_t d = 0; d < t->rank; d++) s.sizes[d] = t->sizes[d], s.strides[d] = t->strides[d];
  return s;
}
static int32_t set_view(tc_op_args *a, int32_t result, const shape *s) {
  return tc_op_set_view(a, result, 0, tc_op_tensor(a, 0)->dtype, s->rank, s->sizes, s->strides, s->offset);
}
static int32_t room(tc_op_args *a, int32_t rank) {
  return rank <= TC_MAX_RANK ? TC_STATUS_OK
                             : tc_op_fail(a, "a result of rank %d; the largest rank is %d", rank, TC_MAX_RANK);
}

// Row-major order of the logical elements is kept: reshapes.
static int32_t ref_in_order(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_result_data(a, 0);
  int64_t ix[TC_MAX_RANK] = {0}, iy[TC_MAX_RANK] = {0};
  if (tc_ref_numel(y) == 0) return TC_STATUS_OK;
  do {
    tc_ref_copy(y, tc_ref_offset(y, iy), x, tc_ref_offset(x, ix));
    tc_ref_next(x->rank, x->sizes, ix);
  } while (tc_ref_next(y->rank, y->sizes, iy));
  return TC_STATUS_OK;
}

static int32_t lower_reshape(tc_op_args *a) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  tc_lo_result(a, 0, tc_lo_reshape(a, tc_lo_arg(a, 0), r->rank, r->sizes));
  return TC_STATUS_OK;
}
static int32_t lower_same(tc_op_args *a) {
  tc_lo_result(a, 0, tc_lo_arg(a, 0));
  return TC_STATUS_OK;
}

// ---- reshapes ----
// Strides of a view of `t` with the sizes, or false where a copy is needed (PyTorch's computeStride, on symbolic
// sizes).
static bool view_strides(tc_op_args *a, const tc_tensor_type *t, int32_t rank, const tc_int *sizes, tc_int *strides) {
  tc_int one = tc_int_const(a, 1);
  for (int32_t d = 0; d < t->rank; d++) {
    if (tc_int_eq(a, t->sizes[d], tc_int_const(a, 0)) == 1) { // empty: any strides do
      tc_strides_make_contiguous(a->syms, rank, sizes, strides);
      return true;
    }
  }
  int32_t v = rank - 1;
  if (t->rank == 0) {
    for (; v >= 0; v--) strides[v] = one;
    return true;
  }
  tc_int chunk_base = t->strides[t->rank - 1], numel = one, view_numel = one;
  for (int32_t d = t->rank - 1; d >= 0; d--) {
    numel = tc_int_mul(a, numel, t->sizes[d]);
    bool end = d == 0;
    if (!end) {
      bool unit = tc_int_eq(a, t->sizes[d - 1], one) == 1;
      end = !unit && tc_int_eq(a, t->strides[d - 1], tc_int_mul(a, numel, chunk_base)) != 1;
    }
    if (!end) continue;
    while (v >= 0 && (tc_int_eq(a, view_numel, numel) != 1 || tc_int_eq(a, sizes[v], one) == 1)) {
      strides[v] = tc_int_mul(a, view_numel, chunk_base);
      view_numel = tc_int_mul(a, view_numel, sizes[v]);
      v--;
    }
    if (tc_int_eq(a, view_numel, numel) != 1) return false;
    if (d > 0) {
      chunk_base = t->strides[d - 1];
      numel = view_numel = one;
    }
  }
  return v == -1;
}

// Sizes given as a list with at most one -1.
static int32_t infer_sizes(tc_op_args *a, int32_t arg, const tc_tensor_type *t, tc_int *sizes) {
  int32_t n = tc_op_count(a, arg), unknown = -1;
  if (room(a, n)) return -1;
  tc_int numel = tc_int_const(a, 1), known = numel;
  for (int32_t d = 0; d < t->rank; d++) numel = tc_int_mul(a, numel, t->sizes[d]);
  for (int32_t i = 0; i < n; i++) {
    int64_t v;
    sizes[i] = tc_op_sym_at(a, arg, i);
    bool constant = tc_int_is_const(sizes[i], &v);
    if (tc_op_require_size(a, sizes[i])) return -1;
    if (constant && v == -1) {
      if (unknown >= 0) return tc_op_fail(a, "only one dimension can be inferred"), -1;
      unknown = i;
    } else if (constant && v < -1) {
      return tc_op_fail(a, "invalid shape dimension %lld", (long long)v), -1;
    } else {
      known = tc_int_mul(a, known, sizes[i]);
    }
  }
  if (unknown >= 0) {
    int64_t zero;
    if (tc_int_is_const(known, &zero) && zero == 0)
      return tc_op_fail(a, "cannot reshape a tensor of 0 elements into a shape with an inferred dimension"), -1;
    sizes[unknown] = tc_int_floordiv(a, numel, known);
    known = tc_int_mul(a, known, sizes[unknown]);
  }
  if (tc_int_require_eq(a, known, numel)) {
    tc_sb sb = tc_sb_make(a->arena);
    for (int32_t i = 0; i < n; i++) tc_sb_putz(&sb, i ? ", " : ""), tc_sym_print(&sb, tc_op_sym_at(a, arg, i));
    return tc_op_fail(a, "shape '[%s]' is invalid for input of shape %s", sb.text, tc_op_shape_text(a, 0)), -1;
  }
  return n;
}

// Every shape of as many elements is a view of what is row-major, also where no part of it is known to match.
static bool row_major_strides(tc_op_args *a, const tc_tensor_type *t, int32_t n, const tc_int *sizes, tc_int *strides) {
  tc_int expected = tc_int_const(a, 1);
  for (int32_t d = t->rank - 1; d >= 0; d--) {
    if (tc_int_eq(a, t->strides[d], expected) != 1) return false;
    expected = tc_int_mul(a, expected, t->sizes[d]);
  }
  tc_strides_make_contiguous(a->syms, n, sizes, strides);
  return true;
}

static int32_t reshaped(tc_op_args *a, int32_t n, const tc_int *sizes, bool may_copy) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  tc_int strides[TC_MAX_RANK];
  if (view_strides(a, t, n, sizes, strides) || row_major_strides(a, t, n, sizes, strides))
    return tc_op_set_view(a, 0, 0, t->dtype, n, sizes, strides, t->offset);
  if (may_copy) return tc_op_set_result(a, 0, t->dtype, n, sizes, NULL);
  return tc_op_fail(a,
                    "view size is not compatible with the tensor's size and stride (%s): at least one dimension spans "
                    "two subspaces; use reshape",
                    tc_op_shape_text(a, 0));
}

static int32_t view_meta(tc_op_args *a) {
  tc_int sizes[TC_MAX_RANK];
  int32_t n = infer_sizes(a, 1, tc_op_tensor(a, 0), sizes);
  return n < 0 ? TC_STATUS_INVALID_ARGUMENT : reshaped(a, n, sizes, false);
}
static int32_t reshape_meta(tc_op_args *a) {
  tc_int sizes[TC_MAX_RANK];
  int32_t n = infer_sizes(a, 1, tc_op_tensor(a, 0), sizes);
  return n < 0 ? TC_STATUS_INVALID_ARGUMENT : reshaped(a, n, sizes, true);
}
static int32_t unsafe_view_meta(tc_op_args *a) {
  tc_int sizes[TC_MAX_RANK];
  int32_t n = infer_sizes(a, 1, tc_op_tensor(a, 0), sizes);
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  tc_int strides[TC_MAX_RANK];
  if (n < 0) return TC_STATUS_INVALID_ARGUMENT;
  bool seen = view_strides(a, t, n, sizes, strides) && tc_strides_dense(a->syms, n, sizes, strides);
  return tc_op_set_result(a, 0, t->dtype, n, sizes, seen ? strides : NULL);
}
static int32_t flatten_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  int64_t from = tc_op_wrap_dim(a, tc_op_int(a, 1, 0), t->rank), to = tc_op_wrap_dim(a, tc_op_int(a, 2, -1), t->rank);
  if (from < 0 || to < 0) return TC_STATUS_INVALID_ARGUMENT;
  if (from > to) return tc_op_fail(a, "start_dim must come before end_dim");
  tc_int sizes[TC_MAX_RANK];
  int32_t n = 0;
  if (t->rank == 0) sizes[n++] = tc_int_const(a, 1);
  for (int32_t d = 0; d < t->rank; d++) {
    if (d > from && d <= to) sizes[n - 1] = tc_int_mul(a, sizes[n - 1], t->sizes[d]);
    else sizes[n++] = t->sizes[d];
  }
  return reshaped(a, n, sizes, true);
}

// ---- permutations ----
static int32_t permute_perm(tc_op_args *a, int64_t *perm) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  bool seen[TC_MAX_RANK] = {0};
  if (tc_op_count(a, 1) != t->rank)
    return tc_op_fail(a, "permute: the number of dims (%d) must be the tensor's rank (%d)", tc_op_count(a, 1), t->rank);
  for (int32_t d = 0; d < t->rank; d++) {
    perm[d] = tc_op_wrap_dim(a, tc_op_int_at(a, 1, d, 0), t->rank);
    if (perm[d] < 0) return TC_STATUS_INVALID_ARGUMENT;
    if (seen[perm[d]]) return tc_op_fail(a, "repeated dim %lld", (long long)perm[d]);
    seen[perm[d]] = true;
  }
  return TC_STATUS_OK;
}

// Named dimensions go where they are told; the others keep their order in the places that are left.
static int32_t move_perm(tc_op_args *a, int64_t *perm) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  bool moved[TC_MAX_RANK] = {0}, taken[TC_MAX_RANK] = {0};
  if (tc_op_count(a, 1) != tc_op_count(a, 2))
    return tc_op_fail(a, "movedim: source has %d dims, destination %d", tc_op_count(a, 1), tc_op_count(a, 2));
  for (int32_t i = 0; i < tc_op_count(a, 1); i++) {
    int64_t from = tc_op_wrap_dim(a, tc_op_int_at(a, 1, i, 0), t->rank),
            to = tc_op_wrap_dim(a, tc_op_int_at(a, 2, i, 0), t->rank);
    if (from < 0 || to < 0) return TC_STATUS_INVALID_ARGUMENT;
    if (t->rank == 0) return TC_STATUS_OK;
    if (moved[from] || taken[to]) return tc_op_fail(a, "movedim: repeated dim in source or destination");
    moved[from] = taken[to] = true;
    perm[to] = from;
  }
  for (int32_t d = 0, from = 0; d < t->rank; d++) {
    if (taken[d]) continue;
    while (moved[from]) from++;
    perm[d] = from++;
  }
  return TC_STATUS_OK;
}

static int32_t permutation(tc_op_args *a, int64_t *perm) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  tc_sv name = a->op->schema.name;
  if (tc_sv_is(name, "permute")) return permute_perm(a, perm);
  if (tc_sv_is(name, "movedim") || tc_sv_is(name, "moveaxis")) return move_perm(a, perm);
  for (int32_t d = 0; d < t->rank; d++) perm[d] = d;
  int64_t x = 0, y = 1;
  if (a->op->schema.n_args == 3) { // transpose and its other names
    x = tc_op_wrap_dim(a, tc_op_int(a, 1, 0), t->rank), y = tc_op_wrap_dim(a, tc_op_int(a, 2, 0), t->rank);
    if (x < 0 || y < 0) return TC_STATUS_INVALID_ARGUMENT;
  } else if (tc_sv_is(name, "numpy_T")) {
    for (int32_t d = 0; d < t->rank; d++) perm[d] = t->rank - 1 - d;
    return TC_STATUS_OK;
  } else if (tc_sv_is(name, "mT")) {
    if (t->rank == 0) return TC_STATUS_OK;
    if (t->rank < 2)
      return tc_op_fail(a, "tensor.mT is only supported on matrices or batches of matrices; this tensor is %s",
                        tc_op_shape_text(a, 0));
    x = t->rank - 2, y = t->rank - 1;
  } else if (t->rank > 2) {
    return tc_op_fail(a, "t() expects a tensor with at most 2 dimensions, but self is %dD", t->rank);
  }
  if (t->rank > 1) perm[x] = y, perm[y] = x;
  return TC_STATUS_OK;
}
static int32_t permute_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  int64_t perm[TC_MAX_RANK];
  if (permutation(a, perm)) return TC_STATUS_INVALID_ARGUMENT;
  shape s = shape_of(t);
  for (int32_t d = 0; d < t->rank; d++) s.sizes[d] = t->sizes[perm[d]], s.strides[d] = t->strides[perm[d]];
  return set_view(a, 0, &s);
}
static int32_t lower_permute(tc_op_args *a) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  int64_t perm[TC_MAX_RANK];
  tc_int index[TC_MAX_RANK], map[TC_MAX_RANK];
  if (permutation(a, perm)) return TC_STATUS_INVALID_ARGUMENT;
  tc_lo_indices(a, r->rank, r->sizes, index);
  for (int32_t d = 0; d < r->rank; d++) map[perm[d]] = index[d];
  tc_lo_result(a, 0, tc_lo_view(a, tc_lo_arg(a, 0), r->rank, r->sizes, index, map));
  return TC_STATUS_OK;
}

// ---- dimensions of size one ----
static int32_t unsqueeze_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  int64_t dim = tc_op_wrap_dim(a, tc_op_int(a, 1, 0), t->rank + 1);
  if (dim < 0 || room(a, t->rank + 1)) return TC_STATUS_INVALID_ARGUMENT;
  shape s = shape_of(t);
  for (int32_t d = t->rank; d > dim; d--) s.sizes[d] = s.sizes[d - 1], s.strides[d] = s.strides[d - 1];
  s.strides[dim] = dim < t->rank ? tc_int_mul(a, t->sizes[dim], t->strides[dim]) : tc_int_const(a, 1);
  s.sizes[dim] = tc_int_const(a, 1);
  s.rank++;
  return set_view(a, 0, &s);
}
static int32_t squeeze_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  bool chosen[TC_MAX_RANK];
  if (tc_reduced_dims(a, a->op->schema.n_args > 1 ? 1 : -1, t->rank, chosen)) return TC_STATUS_INVALID_ARGUMENT;
  bool none = a->op->schema.n_args > 1 && tc_op_count(a, 1) == 0; // an empty list squeezes nothing
  shape s = shape_of(t);
  s.rank = 0;
  for (int32_t d = 0; d < t->rank; d++) {
    bool drop = chosen[d] && !none && tc_int_eq(a, t->sizes[d], tc_int_const(a, 1)) == 1;
    if (drop) continue;
    s.sizes[s.rank] = t->sizes[d];
    s.strides[s.rank++] = t->strides[d];
  }
  return set_view(a, 0, &s);
}

// ---- expand ----
static int32_t expand_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  int32_t n = tc_op_count(a, 1);
  if (n < t->rank)
    return tc_op_fail(a, "expand: the number of sizes (%d) must be at least the tensor's rank (%d)", n, t->rank);
  if (room(a, n)) return TC_STATUS_INVALID_ARGUMENT;
  shape s = {.rank = n, .offset = t->offset};
  for (int32_t d = 0; d < n; d++) {
    int32_t from = d - (n - t->rank);
    int64_t v;
    tc_int want = tc_op_sym_at(a, 1, d);
    bool keep = tc_int_is_const(want, &v) && v == -1;
    if (tc_op_require_size(a, want)) return TC_STATUS_INVALID_ARGUMENT;
    if (from < 0 && keep) return tc_op_fail(a, "expand: -1 is not allowed in a leading, non-existing dimension %d", d);
    s.sizes[d] = keep ? t->sizes[from] : want;
    bool same = from >= 0 && (keep || tc_int_eq(a, t->sizes[from], want) == 1);
    s.strides[d] = same ? t->strides[from] : tc_int_const(a, 0);
    bool one = from < 0 || tc_int_eq(a, t->sizes[from], tc_int_const(a, 1)) == 1;
    if (!same && !one) {
      if (tc_int_require_eq(a, t->sizes[from], want))
        return tc_op_fail(a, "expand: the size of dimension %d does not match: %s", d, tc_op_shape_text(a, 0));
      s.strides[d] = t->strides[from];
    }
  }
  return set_view(a, 0, &s);
}
static int32_t lower_expand(tc_op_args *a) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  tc_lo_result(a, 0, tc_lo_expand(a, tc_lo_arg(a, 0), r->rank, r->sizes));
  return TC_STATUS_OK;
}

// ---- slices ----
typedef struct slice {
  int64_t dim;
  tc_int start, length, step;
} slice;

static tc_int clamp_index(tc_op_args *a, tc_int v, tc_int size) {
  v = tc_int_wrap(a, v, size);
  return tc_int_max(a, tc_int_min(a, v, size), tc_int_const(a, 0));
}
static int32_t read_slice_at(tc_op_args *a, int32_t first, slice *s) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  if (t->rank == 0) return tc_op_fail(a, "slice() cannot be applied to a 0-dim tensor");
  s->dim = tc_op_wrap_dim(a, tc_op_int(a, first, 0), t->rank);
  if (s->dim < 0) return TC_STATUS_INVALID_ARGUMENT;
  tc_int size = t->sizes[s->dim];
  int64_t step = tc_op_known(a, first + 3, 0, 1), end;
  if (step <= 0) return tc_op_fail(a, "slice step must be positive, not %lld", (long long)step);
  s->start =
      tc_op_kind(a, first + 1) == TC_AK_NONE ? tc_int_const(a, 0) : clamp_index(a, tc_op_sym(a, first + 1), size);
  tc_int stop = size;
  if (tc_op_kind(a, first + 2) != TC_AK_NONE) {
    tc_int e = tc_op_sym(a, first + 2);
    bool all = tc_int_is_const(e, &end) && end == INT64_MAX;
    stop = all ? size : clamp_index(a, e, size);
  }
  s->step = tc_int_const(a, step);
  tc_int span = tc_int_max(a, tc_int_sub(a, stop, s->start), tc_int_const(a, 0));
  s->length = tc_int_floordiv(a, tc_int_add(a, span, tc_int_const(a, step - 1)), s->step);
  return TC_STATUS_OK;
}
static int32_t read_slice(tc_op_args *a, slice *s) { return read_slice_at(a, 1, s); }
int32_t tc_op_read_slice(tc_op_args *a, int32_t first, int64_t *dim, tc_int *start, tc_int *length, tc_int *step) {
  slice s;
  if (read_slice_at(a, first, &s)) return TC_STATUS_INVALID_ARGUMENT;
  *dim = s.dim, *start = s.start, *length = s.length, *step = s.step;
  return TC_STATUS_OK;
}
static int32_t slice_meta(tc_op_args *a) {
  slice v;
  if (read_slice(a, &v)) return TC_STATUS_INVALID_ARGUMENT;
  shape s = shape_of(tc_op_tensor(a, 0));
  s.offset = tc_int_add(a, s.offset, tc_int_mul(a, v.start, s.strides[v.dim]));
  s.sizes[v.dim] = v.length;
  s.strides[v.dim] = tc_int_mul(a, s.strides[v.dim], v.step);
  return set_view(a, 0, &s);
}
int32_t tc_view_range(tc_op_args *a, int32_t result, int64_t dim, tc_int start, tc_int length) {
  shape s = shape_of(tc_op_tensor(a, 0));
  s.offset = tc_int_add(a, s.offset, tc_int_mul(a, start, s.strides[dim]));
  s.sizes[dim] = length;
  return set_view(a, result, &s);
}
// The result is argument 0 with dimension `dim` at start + step·i.
void tc_lower_range(tc_op_args *a, int32_t result, int64_t dim, tc_int start, tc_int step) {
  const tc_tensor_type *r = tc_op_result_type(a, result);
  tc_int index[TC_MAX_RANK], map[TC_MAX_RANK];
  tc_lo_indices(a, r->rank, r->sizes, index);
  for (int32_t d = 0; d < r->rank; d++)
    map[d] = d == dim ? tc_int_add(a, start, tc_int_mul(a, index[d], step)) : index[d];
  tc_lo_result(a, result, tc_lo_view(a, tc_lo_arg(a, 0), r->rank, r->sizes, index, map));
}
static int32_t lower_slice(tc_op_args *a) {
  slice v;
  if (read_slice(a, &v)) return TC_STATUS_INVALID_ARGUMENT;
  tc_lower_range(a, 0, v.dim, v.start, v.step);
  return TC_STATUS_OK;
}

// Unlike a slice, what narrow takes must be there: start in [-size, size], start + length <= size, length >= 0.
static int32_t read_narrow(tc_op_args *a, slice *s) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  tc_sym_ctx *c = a->syms;
  if (t->rank == 0) return tc_op_fail(a, "narrow() cannot be applied to a 0-dim tensor");
  s->dim = tc_op_wrap_dim(a, tc_op_int(a, 1, 0), t->rank);
  if (s->dim < 0) return TC_STATUS_INVALID_ARGUMENT;
  tc_int size = t->sizes[s->dim], start = tc_op_sym(a, 2), zero = tc_int_const(a, 0);
  s->start = tc_int_wrap(a, start, size), s->length = tc_op_sym(a, 3), s->step = tc_int_const(a, 1);
  tc_int starts[] = {start, tc_int_const(a, s->dim), size}, both[] = {start, s->length, starts[1], size};
  tc_int last =
      tc_sym_and(c, tc_sym_cmp(c, TC_SYM_LE, tc_sym_neg(c, size), start), tc_sym_cmp(c, TC_SYM_LE, start, size));
  if (tc_op_require(a, tc_sym_cmp(c, TC_SYM_LE, zero, s->length), "length {} is negative", 1, &s->length) ||
      tc_op_require(a, last, "start {} is out of range for dimension {} of size {}", 3, starts))
    return TC_STATUS_INVALID_ARGUMENT;
  return tc_op_require(a, tc_sym_cmp(c, TC_SYM_LE, tc_sym_add(c, s->start, s->length), size),
                       "start {} and length {} exceed dimension {} of size {}", 4, both);
}
static int32_t narrow_meta(tc_op_args *a) {
  slice v;
  return read_narrow(a, &v) ? TC_STATUS_INVALID_ARGUMENT : tc_view_range(a, 0, v.dim, v.start, v.length);
}
static int32_t lower_narrow(tc_op_args *a) {
  slice v;
  if (read_narrow(a, &v)) return TC_STATUS_INVALID_ARGUMENT;
  tc_lower_range(a, 0, v.dim, v.start, v.step);
  return TC_STATUS_OK;
}

static int32_t select_index(tc_op_args *a, int64_t *dim, tc_int *index) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  if (t->rank == 0) return tc_op_fail(a, "select() cannot be applied to a 0-dim tensor");
  *dim = tc_op_wrap_dim(a, tc_op_int(a, 1, 0), t->rank);
  if (*dim < 0) return TC_STATUS_INVALID_ARGUMENT;
  return tc_op_wrap_index(a, tc_op_sym(a, 2), *dim, t->sizes[*dim], index);
}
static void drop_dim(shape *s, int64_t dim) {
  for (int64_t d = dim; d + 1 < s->rank; d++) s->sizes[d] = s->sizes[d + 1], s->strides[d] = s->strides[d + 1];
  s->rank--;
}
static int32_t select_meta(tc_op_args *a) {
  int64_t dim;
  tc_int i;
  if (select_index(a, &dim, &i)) return TC_STATUS_INVALID_ARGUMENT;
  shape s = shape_of(tc_op_tensor(a, 0));
  s.offset = tc_int_add(a, s.offset, tc_int_mul(a, i, s.strides[dim]));
  drop_dim(&s, dim);
  return set_view(a, 0, &s);
}
static void lower_select_at(tc_op_args *a, int32_t result, int64_t dim, tc_int at) {
  const tc_tensor_type *r = tc_op_result_type(a, result);
  tc_int index[TC_MAX_RANK], map[TC_MAX_RANK];
  tc_lo_indices(a, r->rank, r->sizes, index);
  for (int32_t d = 0, k = 0; d <= r->rank; d++) map[d] = d == dim ? at : index[k++];
  tc_lo_result(a, result, tc_lo_view(a, tc_lo_arg(a, 0), r->rank, r->sizes, index, map));
}
static int32_t lower_select(tc_op_args *a) {
  int64_t dim;
  tc_int i;
  if (select_index(a, &dim, &i)) return TC_STATUS_INVALID_ARGUMENT;
  lower_select_at(a, 0, dim, i);
  return TC_STATUS_OK;
}

// ---- several results ----
static int32_t unbind_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  int64_t dim = tc_op_wrap_dim(a, tc_op_int(a, 1, 0), t->rank), n;
  if (dim < 0) return TC_STATUS_INVALID_ARGUMENT;
  if (t->rank == 0) return tc_op_fail(a, "unbind() cannot be applied to a 0-dim tensor");
  if (!tc_int_is_const(t->sizes[dim], &n))
    return tc_op_fail(a, "unbind along dimension %lld needs a constant size: %s", (long long)dim,
                      tc_op_shape_text(a, 0));
  if (tc_op_set_result_count(a, (int32_t)n)) return TC_STATUS_INVALID_ARGUMENT;
  for (int64_t i = 0; i < n; i++) {
    shape s = shape_of(t);
    s.offset = tc_int_add(a, s.offset, tc_int_mul(a, tc_int_const(a, i), s.strides[dim]));
    drop_dim(&s, dim);
    if (set_view(a, (int32_t)i, &s)) return TC_STATUS_INVALID_ARGUMENT;
  }
  return TC_STATUS_OK;
}
static int32_t lower_unbind(tc_op_args *a) {
  int64_t dim = tc_op_wrap_dim(a, tc_op_int(a, 1, 0), tc_op_tensor(a, 0)->rank);
  for (int32_t i = 0; i < tc_op_result_count(a); i++) lower_select_at(a, i, dim, tc_int_const(a, i));
  return TC_STATUS_OK;
}

static int32_t alias_meta(tc_op_args *a) {
  shape s = shape_of(tc_op_tensor(a, 0));
  return set_view(a, 0, &s);
}

enum { VIEW = TC_OP_VIEW | TC_OP_COMPLEX, MAYBE = TC_OP_MAYBE_VIEW | TC_OP_COMPLEX };
#define PERMUTE(s) {.schema = s, .traits = VIEW, .meta = permute_meta, .lower = lower_permute}
static const tc_op_def rows[] = {
    {.schema = "view(Tensor(a) self, SymInt[] size) -> Tensor(a)",
     .traits = VIEW,
     .meta = view_meta,
     .lower = lower_reshape},
    {.schema = "_unsafe_view(Tensor self, SymInt[] size) -> Tensor",
     .traits = TC_OP_COMPLEX,
     .meta = unsafe_view_meta,
     .lower = lower_reshape,
     .ref = ref_in_order},
    {.schema = "reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)",
     .traits = MAYBE,
     .meta = reshape_meta,
     .lower = lower_reshape,
     .ref = ref_in_order},
    {.schema = "flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)",
     .traits = MAYBE,
     .meta = flatten_meta,
     .lower = lower_reshape,
     .ref = ref_in_order},
    PERMUTE("permute(Tensor(a) self, int[] dims) -> Tensor(a)"),
    PERMUTE("transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)"),
    PERMUTE("swapaxes(Tensor(a) self, int axis0, int axis1) -> Tensor(a)"),
    PERMUTE("swapdims(Tensor(a) self, int dim0, int dim1) -> Tensor(a)"),
    PERMUTE("movedim.int(Tensor(a) self, int source, int destination) -> Tensor(a)"),
    PERMUTE("movedim.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)"),
    PERMUTE("moveaxis.int(Tensor(a) self, int source, int destination) -> Tensor(a)"),
    PERMUTE("moveaxis.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)"),
    PERMUTE("numpy_T(Tensor(a) self) -> Tensor(a)"),
    PERMUTE("mT(Tensor(a) self) -> Tensor(a)"),
    PERMUTE("t(Tensor(a) self) -> Tensor(a)"),
    {.schema = "unsqueeze(Tensor(a) self, int dim) -> Tensor(a)",
     .traits = VIEW,
     .meta = unsqueeze_meta,
     .lower = lower_reshape},
    {.schema = "squeeze(Tensor(a) self) -> Tensor(a)", .traits = VIEW, .meta = squeeze_meta, .lower = lower_reshape},
    {.schema = "squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)",
     .traits = VIEW,
     .meta = squeeze_meta,
     .lower = lower_reshape},
    {.schema = "squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)",
     .traits = VIEW,
     .meta = squeeze_meta,
     .lower = lower_reshape},
    {.schema = "expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)",
     .traits = VIEW,
     .meta = expand_meta,
     .lower = lower_expand},
    {.schema =
         "slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)",
     .traits = VIEW,
     .meta = slice_meta,
     .lower = lower_slice},
    {.schema = "select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)",
     .traits = VIEW,
     .meta = select_meta,
     .lower = lower_select},
    {.schema = "unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]",
     .traits = VIEW,
     .meta = unbind_meta,
     .lower = lower_unbind},
    {.schema = "alias(Tensor(a) self) -> Tensor(a)", .traits = VIEW, .meta = alias_meta, .lower = lower_same},
    {.schema = "narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)",
     .traits = VIEW,
     .meta = narrow_meta,
     .lower = lower_narrow},
    {.schema = "view_as(Tensor(a) self, Tensor other) -> Tensor(a)",
     .traits = VIEW,
     .decompose = "view(self, other.sizes)"},
    {.schema = "reshape_as(Tensor(a) self, Tensor other) -> Tensor(a)",
     .traits = MAYBE,
     .decompose = "reshape(self, other.sizes)"},
    {.schema = "expand_as(Tensor(a) self, Tensor other) -> Tensor(a)",
     .traits = VIEW,
     .decompose = "expand(self, other.sizes)"},
    {.schema = "broadcast_to(Tensor(a) self, SymInt[] size) -> Tensor(a)",
     .traits = VIEW,
     .decompose = "expand(self, size)"},
    {.schema = "ravel(Tensor(a) self) -> Tensor(a)", .traits = MAYBE, .decompose = "reshape(contiguous(self), [-1])"},
    {.schema = "detach(Tensor(a) self) -> Tensor(a)", .traits = VIEW, .meta = alias_meta, .lower = lower_same},
};
// Derivatives; see docs/ADDING_AN_OP.md for what the texts can name.
static const tc_op_derivative derivatives[] = {
    {"view", "self: reshape(grad, self.sizes)"},
    {"_unsafe_view", "self: reshape(grad, self.sizes)"},
    {"reshape", "self: reshape(grad, self.sizes)"},
    {"flatten.using_ints", "self: reshape(grad, self.sizes)"},
    {"permute", "self: permute(grad, inverse(dims))"},
    {"transpose.int", "self: transpose(grad, dim0, dim1)"},
    {"t", "self: t(grad)"},
    {"unsqueeze", "self: reshape(grad, self.sizes)"},
    {"squeeze", "self: reshape(grad, self.sizes)"},
    {"expand", "self: grad"},
    {"alias", "self: grad"},
    {"slice.Tensor", "self: slice_scatter(zeros_like(self), grad, dim, start, end, step)"},
    {"narrow.Tensor", "let s = reshape(start, []); self: index_add(zeros_like(self), dim, add(where(lt(s, 0), add(s, "
                      "self.size(dim)), s), arange(length)), grad)"},
    {"narrow",
     "let s = if(start < 0, start + self.size(dim), start); self: slice_scatter(zeros_like(self), grad, dim, s, "
     "s + length, 1)"},
    {"select.int", "self: select_scatter(zeros_like(self), grad, dim, index)"},
    {"unbind.int", "self: stack(grads, dim)"},
    {"movedim.int", "self: movedim(grad, destination, source)"},
    {"movedim.intlist", "self: movedim(grad, destination, source)"},
    {"squeeze.dim", "self: reshape(grad, self.sizes)"},
    {"squeeze.dims", "self: reshape(grad, self.sizes)"},
};
TC_OP_FAMILY_WITH_DERIVATIVES(view);
