// Reading elements at positions that come from data: embedding, index_select, gather, advanced indexing, masks.
#include "core/ops/ops.h"

// ---- advanced indexing: index.Tensor ----
bool tc_is_index_mask(const tc_tensor_type *t) { return t->dtype == TC_BOOL || t->dtype == TC_U8; }

static int32_t broadcast_one(tc_op_args *a, tc_indexing *x, int32_t n, const tc_int *sizes) {
  if (n > x->nb) {
    for (int32_t d = n - 1; d >= 0; d--)
      x->bsizes[d] = d >= n - x->nb ? x->bsizes[d - (n - x->nb)] : tc_int_const(a, 1);
    x->nb = n;
  }
  for (int32_t d = 0; d < n; d++) {
    tc_int *s = &x->bsizes[d + x->nb - n], one = tc_int_const(a, 1);
    if (tc_int_eq(a, sizes[d], one) == 1) continue;
    if (tc_int_eq(a, *s, one) == 1) *s = sizes[d];
    else if (tc_int_require_eq(a, *s, sizes[d]))
      return tc_op_fail(a, "shape mismatch: indexing tensors could not be broadcast together");
  }
  return TC_STATUS_OK;
}

int32_t tc_check_indices(tc_op_args *a, int32_t list) {
  for (int32_t k = 0; k < tc_op_count(a, list); k++) {
    const tc_tensor_type *t = tc_op_tensor_at(a, list, k);
    if (t && !tc_is_index_mask(t) && t->dtype != TC_I64 && t->dtype != TC_I32)
      return tc_op_fail(a, "tensors used as indices must be long, int, byte or bool tensors, not %s",
                        tc_dtype_torch_name(t->dtype));
  }
  return TC_STATUS_OK;
}

// Beside other indices a mask without dimensions says nothing, whatever it holds (so in PyTorch).
static bool says_nothing(tc_op_args *a, int32_t list, const tc_tensor_type *mask) {
  if (mask->rank || !tc_is_index_mask(mask)) return false;
  for (int32_t k = 0; k < tc_op_count(a, list); k++) {
    const tc_tensor_type *t = tc_op_tensor_at(a, list, k);
    if (t && (t->rank || !tc_is_index_mask(t))) return true;
  }
  return false;
}

int32_t tc_read_indexing(tc_op_args *a, int32_t list, tc_int count, tc_indexing *x) {
  const tc_tensor_type *self = tc_op_tensor(a, 0);
  *x = (tc_indexing){.rank = self->rank, .nb = 0};
  for (int32_t d = 0; d < self->rank; d++) x->by[d] = x->mask_dim[d] = -1;
  int32_t d = 0;
  if (tc_check_indices(a, list)) return TC_STATUS_INVALID_ARGUMENT;
  if (tc_op_count(a, list) > self->rank)
    return tc_op_fail(a, "too many indices for a tensor of dimension %d (got %d)", self->rank, tc_op_count(a, list));
  for (int32_t k = 0; k < tc_op_count(a, list); k++) {
    const tc_tensor_type *t = tc_op_tensor_at(a, list, k);
    int32_t width = t && tc_is_index_mask(t) ? t->rank : 1;
    if (d + width > self->rank) return tc_op_fail(a, "too many indices for a tensor of dimension %d", self->rank);
    if (!t) {
      d++;
      continue;
    }
    if (says_nothing(a, list, t)) continue;
    if (!tc_is_index_mask(t)) {
      if (broadcast_one(a, x, t->rank, t->sizes)) return TC_STATUS_INVALID_ARGUMENT;
      x->by[d++] = k;
    } else {
      if (!count) count = tc_op_unbacked(a, 0, INT64_MAX);
      for (int32_t m = 0; m < t->rank; m++) {
        if (tc_int_require_eq(a, t->sizes[m], self->sizes[d + m]))
          return tc_op_fail(a,
                            "the shape of the mask does not match the shape of the indexed tensor %s at dimension %d",
                            tc_op_shape_text(a, 0), d + m);
        x->by[d + m] = k, x->mask_dim[d + m] = m;
      }
      x->masks = true;
      if (broadcast_one(a, x, 1, &count)) return TC_STATUS_INVALID_ARGUMENT;
      d += t->rank;
    }
  }
  int32_t first = -1, last = -1;
  for (int32_t i = 0; i < x->rank; i++) {
    if (x->by[i] < 0) continue;
    if (first < 0) first = i;
    last = i;
    x->n_indexed++;
  }
  bool adjacent = first >= 0 && last - first + 1 == x->n_indexed;
  x->at = adjacent ? first : 0;
  if (x->rank - x->n_indexed + x->nb > TC_MAX_RANK)
    return tc_op_fail(a, "the result would have more than %d dimensions", TC_MAX_RANK);
  return TC_STATUS_OK;
}

int32_t tc_indexed_sizes(tc_op_args *a, const tc_indexing *x, tc_int *sizes, int32_t *from) {
  const tc_tensor_type *self = tc_op_tensor(a, 0);
  int32_t n = 0;
  for (int32_t d = 0, placed = 0; d <= x->rank; d++) {
    if (!placed && n == x->at) {
      for (int32_t b = 0; b < x->nb; b++) from[n] = -1, sizes[n++] = x->bsizes[b];
      placed = 1;
    }
    if (d < x->rank && x->by[d] < 0) from[n] = d, sizes[n++] = self->sizes[d];
  }
  return n;
}

// The strides of an index over the dimensions of the result.
static void spread_index(tc_op_args *a, const tc_indexing *x, int32_t list, int32_t rank, tc_int *out) {
  const tc_tensor_type *t = tc_op_tensor_at(a, 1, list);
  tc_int zero = tc_int_const(a, 0);
  for (int32_t d = 0; d < rank; d++) {
    int32_t own = d - x->at - (x->nb - t->rank);
    bool has = d >= x->at && d < x->at + x->nb && own >= 0 && !tc_sym_is_int(t->sizes[own], 1);
    out[d] = has ? t->strides[own] : zero;
  }
}

static int32_t index_meta(tc_op_args *a) {
  const tc_tensor_type *self = tc_op_tensor(a, 0);
  tc_indexing x;
  tc_int sizes[TC_MAX_RANK], strides[TC_MAX_RANK], seen[TC_MAX_RANK + 1][TC_MAX_RANK];
  tc_tensor_type operands[TC_MAX_RANK + 1];
  const tc_tensor_type *listed[TC_MAX_RANK + 1];
  int32_t from[TC_MAX_RANK], n = 1;
  if (tc_read_indexing(a, 1, NULL, &x)) return TC_STATUS_INVALID_ARGUMENT;
  if (tc_op_count(a, 1) == 0 || (x.n_indexed == 0 && !x.masks && tc_sym_is_int(tc_op_numel(a, self), 0) == 0))
    return tc_op_fail(a, "at least one index must be provided");
  if (x.masks && x.n_indexed == 0) return tc_op_fail(a, "masks without a dimension select nothing by themselves");
  int32_t rank = tc_indexed_sizes(a, &x, sizes, from);
  // The result follows self's order of dimensions, in which indexed ones count as broadcast, then those of the indices
  // (PyTorch iterates that way).
  for (int32_t d = 0; d < rank; d++) seen[0][d] = from[d] < 0 ? tc_int_const(a, 0) : self->strides[from[d]];
  operands[0] = (tc_tensor_type){.dtype = self->dtype, .rank = rank, .sizes = sizes, .strides = seen[0]};
  for (int32_t d = 0; d < x.rank && !x.masks; d++) {
    if (x.by[d] < 0) continue;
    spread_index(a, &x, x.by[d], rank, seen[n]);
    operands[n] = operands[0], operands[n].strides = seen[n], n++;
  }
  for (int32_t i = 0; i < n; i++) listed[i] = &operands[i];
  tc_strides_make_pointwise(a->syms, n, listed, rank, sizes, strides);
  return tc_op_set_result(a, 0, self->dtype, rank, sizes, x.masks ? NULL : strides);
}

// The length of two lists that are broadcast, whichever is found to be 1.
static tc_int joined_length(tc_op_args *a, tc_int x, tc_int y) {
  tc_int one = tc_int_const(a, 1);
  if (tc_int_eq(a, x, y) == 1 || tc_sym_is_int(y, 1)) return x;
  return tc_int_add(a, x, tc_int_mul(a, tc_sym_cmp(a->syms, TC_SYM_EQ, x, one), tc_int_sub(a, y, one)));
}

// 0 … length - 1, where the length is a number that comes from data: the result's own, too.
static tc_gv positions_of(tc_op_args *a, tc_int length) {
  tc_ex_begin(a, "aten::full");
  tc_ex_push_ints(a, 0, NULL);
  tc_ex_push_int(a, length);
  tc_ex_push_dtype(a, TC_I64);
  tc_gv n = tc_ex_make(a, 1, NULL);
  tc_ex_begin(a, "aten::item");
  tc_ex_push(a, n);
  n = tc_ex_make(a, 1, NULL);
  tc_ex_begin(a, "aten::arange");
  tc_ex_push(a, n);
  return tc_ex_make(a, 1, NULL);
}

// The places where a mask is true, [count, rank]; if that is one place, it stands for all positions, `length` of them.
static tc_gv repeat_one(tc_op_args *a, tc_gv places, tc_gv positions, tc_int length) {
  tc_int count = tc_ex_type(a, places)->sizes[0], one = tc_int_const(a, 1);
  tc_int alone = tc_sym_cmp(a->syms, TC_SYM_EQ, count, one), same = tc_sym_cmp(a->syms, TC_SYM_EQ, count, length);
  tc_int either = tc_int_add(a, same, tc_int_mul(a, alone, tc_int_sub(a, one, same)));
  if (tc_int_require_eq(a, either, one)) return -1;
  tc_ex_begin(a, "aten::mul.Scalar");
  tc_ex_push(a, positions);
  tc_ex_push_int(a, tc_int_sub(a, one, alone));
  tc_gv at = tc_ex_make(a, 1, NULL);
  tc_ex_begin(a, "aten::index_select");
  tc_ex_push(a, places);
  tc_ex_push_int(a, tc_int_const(a, 0));
  tc_ex_push(a, at);
  return tc_ex_make(a, 1, NULL);
}

// Masks among the indices: the op again, with the places where they are true, which are broadcast with the other
// indices. Declines where there are none, or where one value is written (a choice per element is better).
int32_t tc_expand_masks(tc_op_args *a) {
  tc_gv list[TC_MAX_RANK], places[TC_MAX_RANK], positions = -1;
  int32_t n = 0, masks = 0, others = 0, lists = 0, count = tc_op_count(a, 1);
  tc_int length = tc_int_const(a, 1);
  for (int32_t k = 0; k < count; k++) {
    const tc_tensor_type *t = tc_op_tensor_at(a, 1, k);
    bool mask = t && tc_is_index_mask(t);
    masks += mask, others += t && !mask;
    if (t && !mask && t->rank) lists++, length = joined_length(a, length, t->sizes[t->rank - 1]);
  }
  bool one_value = tc_op_arg_index(a, "values") >= 0 && tc_sym_is_int(tc_op_numel(a, tc_op_tensor(a, 2)), 1);
  if (masks == 0 || (masks == 1 && others == 0 && one_value)) return TC_STATUS_OK;
  if (count > TC_MAX_RANK) return tc_op_fail(a, "too many indices");
  for (int32_t k = 0; k < count; k++) {
    const tc_tensor_type *t = tc_op_tensor_at(a, 1, k);
    if (!t || !tc_is_index_mask(t) || !t->rank) continue;
    tc_ex_begin(a, "aten::nonzero");
    tc_ex_push(a, tc_ex_arg_at(a, 1, k));
    places[k] = tc_ex_make(a, 1, NULL);
    const tc_tensor_type *found = tc_ex_type(a, places[k]);
    if (!found) return TC_STATUS_INVALID_ARGUMENT;
    lists++, length = joined_length(a, length, found->sizes[0]);
  }
  if (lists > 1) positions = positions_of(a, length);
  for (int32_t k = 0; k < count; k++) {
    const tc_tensor_type *t = tc_op_tensor_at(a, 1, k);
    int32_t width = t && tc_is_index_mask(t) ? t->rank : 1;
    if (n + width > TC_MAX_RANK) return tc_op_fail(a, "too many indices");
    if (!t || !tc_is_index_mask(t)) {
      list[n++] = tc_ex_arg_at(a, 1, k);
      continue;
    }
    if (!t->rank) continue; // says nothing
    tc_gv found = positions < 0 ? places[k] : repeat_one(a, places[k], positions, length);
    for (int32_t d = 0; d < t->rank; d++) {
      tc_ex_begin(a, "aten::select.int");
      tc_ex_push(a, found);
      tc_ex_push_int(a, tc_int_const(a, 1));
      tc_ex_push_int(a, tc_int_const(a, d));
      list[n++] = tc_ex_make(a, 1, NULL);
    }
  }
  tc_ex_begin(a, tc_sv_z(a->arena, tc_op_name(a)));
  tc_ex_push(a, tc_ex_arg(a, 0));
  tc_ex_push_list(a, n, list);
  for (int32_t k = 2; k < a->n_args; k++) tc_ex_push_arg(a, k);
  tc_ex_result(a, 0, tc_ex_make(a, 1, NULL));
  return TC_STATUS_OK;
}

static int32_t index_lower(tc_op_args *a) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  tc_indexing x;
  tc_int sizes[TC_MAX_RANK], index[TC_MAX_RANK], at[TC_MAX_RANK];
  int32_t from[TC_MAX_RANK];
  tc_lt by[TC_MAX_RANK];
  tc_bval idx[TC_MAX_RANK];
  if (tc_read_indexing(a, 1, NULL, &x)) return TC_STATUS_INVALID_ARGUMENT;
  if (x.masks) return tc_op_fail(a, "indexing with a mask has a size that depends on data; it is not lowered");
  int32_t rank = tc_indexed_sizes(a, &x, sizes, from);
  tc_lt self = tc_lo_arg(a, 0);
  for (int32_t d = 0; d < x.rank; d++)
    by[d] = x.by[d] < 0 ? -1 : tc_lo_expand(a, tc_lo_arg_at(a, 1, x.by[d]), x.nb, x.bsizes);
  tc_lo_begin(a, rank, r->sizes, index);
  for (int32_t d = 0; d < rank; d++) {
    if (from[d] >= 0) at[from[d]] = index[d];
  }
  for (int32_t d = 0; d < x.rank; d++) {
    idx[d] = by[d] < 0 ? -1 : tc_lo_load(a, by[d], &index[x.at]);
    if (by[d] >= 0) at[d] = tc_int_const(a, 0);
  }
  tc_lo_result(a, 0, tc_lo_end(a, tc_lo_gather(a, self, at, idx, 1), r->dtype));
  return TC_STATUS_OK;
}

// Indices as numbers: per indexed dimension of self a list with strides over the broadcast dimensions.
static int32_t read_positions(tc_op_args *a, int32_t list, tc_index_positions *p) {
  int64_t count = -1;
  for (int32_t k = 0; k < tc_op_count(a, list); k++) {
    const tc_ref_view *m = tc_op_data_at(a, list, k);
    if (!m || (m->nominal != TC_BOOL && m->nominal != TC_U8)) continue;
    if (says_nothing(a, list, tc_op_tensor_at(a, list, k))) continue;
    int64_t i[TC_MAX_RANK] = {0}, n = 0;
    for (bool more = tc_ref_numel(m) > 0; more; more = tc_ref_next(m->rank, m->sizes, i))
      n += tc_ref_i(m, tc_ref_offset(m, i)) != 0;
    if (count >= 0 && count != n && n != 1 && count != 1)
      return tc_op_fail(a, "shape mismatch: masks with %lld and %lld true elements", (long long)count, (long long)n);
    if (count < 0 || count == 1) count = n;
  }
  tc_indexing x;
  if (tc_read_indexing(a, list, tc_int_const(a, count < 0 ? 0 : count), &x)) return TC_STATUS_INVALID_ARGUMENT;
  *p = (tc_index_positions){.rank = x.rank, .nb = x.nb, .at = x.at};
  for (int32_t b = 0; b < x.nb; b++) tc_int_is_const(x.bsizes[b], &p->bsizes[b]);
  for (int32_t d = 0; d < x.rank; d++) {
    p->indexed[d] = x.by[d] >= 0;
    if (x.by[d] < 0) continue;
    const tc_ref_view *v = tc_op_data_at(a, list, x.by[d]);
    if (x.mask_dim[d] < 0) {
      p->data[d] = v->data;
      for (int32_t i = 0; i < v->rank; i++) p->strides[d][i + x.nb - v->rank] = v->sizes[i] == 1 ? 0 : v->strides[i];
      continue;
    }
    int64_t *positions = tc_op_scratch(a, (uint64_t)(tc_ref_numel(v) + 1) * sizeof *positions), i[TC_MAX_RANK] = {0},
            n = 0;
    if (!positions) return TC_STATUS_OUT_OF_MEMORY;
    for (bool more = tc_ref_numel(v) > 0; more; more = tc_ref_next(v->rank, v->sizes, i)) {
      if (tc_ref_i(v, tc_ref_offset(v, i))) positions[n++] = i[x.mask_dim[d]];
    }
    p->data[d] = positions;
    if (x.nb) p->strides[d][x.nb - 1] = n == 1 ? 0 : 1;
  }
  return TC_STATUS_OK;
}
int32_t tc_ref_positions(tc_op_args *a, int32_t list, tc_index_positions *p) { return read_positions(a, list, p); }

int64_t tc_ref_position(tc_op_args *a, const tc_index_positions *p, const tc_ref_view *self, const int64_t *index) {
  int64_t to = 0;
  for (int32_t d = 0, plain = 0; d < p->rank; d++) {
    int64_t i;
    if (p->indexed[d]) {
      int64_t o = 0;
      for (int32_t b = 0; b < p->nb; b++) o += index[p->at + b] * p->strides[d][b];
      i = p->data[d][o];
      if (i < -self->sizes[d] || i >= self->sizes[d])
        return tc_op_fail(a, "index %lld is out of bounds for dimension %d with size %lld", (long long)i, d,
                          (long long)self->sizes[d]),
               -1;
      if (i < 0) i += self->sizes[d];
    } else {
      i = index[plain < p->at ? plain : plain + p->nb];
      plain++;
    }
    to += i * self->strides[d];
  }
  return to;
}

int32_t tc_ref_indexed_sizes(const tc_index_positions *p, const tc_ref_view *self, int64_t *sizes) {
  int32_t n = 0, plain = 0;
  for (int32_t d = 0; d < p->rank; d++) {
    if (!p->indexed[d]) sizes[plain < p->at ? plain : plain + p->nb] = self->sizes[d], plain++;
  }
  for (int32_t b = 0; b < p->nb; b++) sizes[p->at + b] = p->bsizes[b];
  n = plain + p->nb;
  return n;
}

static int32_t index_ref(tc_op_args *a) {
  const tc_ref_view *self = tc_op_data(a, 0);
  tc_index_positions p;
  int64_t sizes[TC_MAX_RANK], i[TC_MAX_RANK] = {0};
  if (read_positions(a, 1, &p)) return TC_STATUS_INVALID_ARGUMENT;
  int32_t rank = tc_ref_indexed_sizes(&p, self, sizes);
  const tc_ref_view *y = tc_op_alloc_result(a, 0, rank, sizes);
  if (!y) return TC_STATUS_INVALID_ARGUMENT;
  for (bool more = tc_ref_numel(y) > 0; more; more = tc_ref_next(rank, sizes, i)) {
    int64_t from = tc_ref_position(a, &p, self, i);
    if (from < 0) return TC_STATUS_INVALID_ARGUMENT;
    tc_ref_copy(y, tc_ref_offset(y, i), self, from);
  }
  return TC_STATUS_OK;
}

// ---- one index tensor: embedding, index_select, gather ----
static int32_t bad_index(tc_op_args *a, const tc_tensor_type *t) {
  if (t->dtype == TC_I64 || t->dtype == TC_I32) return TC_STATUS_OK;
  return tc_op_fail(a, "the index must be i32 or i64, not %s", tc_dtype_torch_name(t->dtype));
}

static int32_t embedding_meta(tc_op_args *a) {
  const tc_tensor_type *w = tc_op_tensor(a, 0), *i = tc_op_tensor(a, 1);
  tc_int sizes[TC_MAX_RANK];
  if (w->rank != 2) return tc_op_fail(a, "'weight' must be 2-D: %s", tc_op_shape_text(a, 0));
  if (bad_index(a, i)) return TC_STATUS_INVALID_ARGUMENT;
  if (i->rank >= TC_MAX_RANK) return tc_op_fail(a, "the index has too many dimensions");
  for (int32_t d = 0; d < i->rank; d++) sizes[d] = i->sizes[d];
  sizes[i->rank] = w->sizes[1];
  return tc_op_set_result(a, 0, w->dtype, i->rank + 1, sizes, NULL);
}
static int32_t embedding_lower(tc_op_args *a) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  tc_int index[TC_MAX_RANK], at[2] = {tc_int_const(a, 0)};
  tc_lt w = tc_lo_arg(a, 0), i = tc_lo_arg(a, 1);
  tc_lo_begin(a, r->rank, r->sizes, index);
  at[1] = index[r->rank - 1];
  tc_bval idx[2] = {tc_lo_load(a, i, index), -1};
  tc_lo_result(a, 0, tc_lo_end(a, tc_lo_gather(a, w, at, idx, 0), r->dtype));
  return TC_STATUS_OK;
}
static int32_t embedding_ref(tc_op_args *a) {
  const tc_ref_view *w = tc_op_data(a, 0), *idx = tc_op_data(a, 1), *y = tc_op_result_data(a, 0);
  int64_t i[TC_MAX_RANK] = {0};
  for (bool more = tc_ref_numel(y) > 0; more; more = tc_ref_next(y->rank, y->sizes, i)) {
    int64_t row = tc_ref_i(idx, tc_ref_offset(idx, i));
    if (row < 0 || row >= w->sizes[0])
      return tc_op_fail(a, "index %lld is out of range: the table has %lld rows", (long long)row,
                        (long long)w->sizes[0]);
    tc_ref_copy(y, tc_ref_offset(y, i), w, row * w->strides[0] + i[y->rank - 1] * w->strides[1]);
  }
  return TC_STATUS_OK;
}

static int32_t index_select_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0), *i = tc_op_tensor(a, 2);
  tc_int sizes[TC_MAX_RANK];
  int64_t dim = tc_op_dim(a, 1, t->rank);
  if (dim < 0 || bad_index(a, i)) return TC_STATUS_INVALID_ARGUMENT;
  if (i->rank > 1) return tc_op_fail(a, "index_select(): index is supposed to be a vector, but got dim: %d", i->rank);
  if (t->rank == 0 && tc_int_require_eq(a, tc_op_numel(a, i), tc_int_const(a, 1)))
    return tc_op_fail(a, "index_select(): Index to scalar can have only 1 value: %s", tc_op_shape_text(a, 2));
  for (int32_t d = 0; d < t->rank; d++) sizes[d] = d == dim ? tc_op_numel(a, i) : t->sizes[d];
  return tc_op_set_result(a, 0, t->dtype, t->rank, sizes, NULL);
}
static int32_t gather_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0), *i = tc_op_tensor(a, 2);
  if (tc_op_dim(a, 1, t->rank) < 0 || bad_index(a, i)) return TC_STATUS_INVALID_ARGUMENT;
  bool empty = tc_int_eq(a, tc_op_numel(a, i), tc_int_const(a, 0)) == 1;
  int32_t rx = t->rank ? t->rank : 1, ri = i->rank ? i->rank : 1;
  if (rx != ri && !empty)
    return tc_op_fail(a, "gather(): the index must have the same number of dimensions as the input: %s and %s",
                      tc_op_shape_text(a, 2), tc_op_shape_text(a, 0));
  int64_t dim = tc_op_dim(a, 1, t->rank);
  for (int32_t d = 0; d < t->rank && d < i->rank && !empty; d++)
    if (d != dim && tc_int_lt(a, t->sizes[d], i->sizes[d]) == 1)
      return tc_op_fail(a,
                        "Size does not match at dimension %d: expected index %s to be no larger than self %s apart "
                        "from dimension %lld",
                        d, tc_op_shape_text(a, 2), tc_op_shape_text(a, 0), (long long)dim);
  return tc_op_set_result(a, 0, t->dtype, i->rank, i->sizes, NULL);
}
// Dimension dim of self by data, the others by position. `whole`: the index has all of the result's dimensions.
static int32_t lower_by(tc_op_args *a, bool whole) {
  const tc_tensor_type *t = tc_op_tensor(a, 0), *r = tc_op_result_type(a, 0), *it = tc_op_tensor(a, 2);
  int64_t dim = tc_op_dim(a, 1, t->rank);
  tc_int index[TC_MAX_RANK], at[TC_MAX_RANK], none[1] = {tc_int_const(a, 0)};
  tc_bval idx[TC_MAX_RANK];
  tc_lt x = tc_lo_arg(a, 0), i = tc_lo_arg(a, 2);
  tc_lo_begin(a, r->rank, r->sizes, index);
  if (whole && r->rank && r->rank < t->rank) { // an index without elements may have any rank
    tc_lo_result(a, 0, tc_lo_end(a, tc_lo_cast(a, tc_lo_const_int(a, TC_I64, 0), r->dtype), r->dtype));
    return TC_STATUS_OK;
  }
  for (int32_t d = 0; d < t->rank; d++) at[d] = r->rank ? index[d] : none[0], idx[d] = -1;
  const tc_int *where = whole ? index : it->rank ? &index[dim] : none;
  if (t->rank) idx[dim] = tc_lo_load(a, i, it->rank == 0 ? none : where);
  tc_lo_result(a, 0, tc_lo_end(a, t->rank ? tc_lo_gather(a, x, at, idx, 0) : tc_lo_load(a, x, at), r->dtype));
  return TC_STATUS_OK;
}
static int32_t index_select_lower(tc_op_args *a) { return lower_by(a, false); }
static int32_t gather_lower(tc_op_args *a) { return lower_by(a, true); }
static int32_t ref_by(tc_op_args *a, bool whole) {
  const tc_ref_view *x = tc_op_data(a, 0), *idx = tc_op_data(a, 2), *y = tc_op_result_data(a, 0);
  int64_t dim = tc_op_dim(a, 1, x->rank), i[TC_MAX_RANK] = {0};
  for (bool more = tc_ref_numel(y) > 0; more; more = tc_ref_next(y->rank, y->sizes, i)) {
    int64_t at = 0,
            v = tc_ref_i(idx, idx->rank == 0 ? 0
                              : whole        ? tc_ref_offset(idx, i)
                                             : i[dim] * idx->strides[0]),
            n = x->rank ? x->sizes[dim] : 1;
    if (v < 0 || v >= n)
      return tc_op_fail(a, "index %lld is out of bounds for dimension %lld with size %lld", (long long)v,
                        (long long)dim, (long long)n);
    for (int32_t d = 0; d < x->rank; d++) at += (d == dim ? v : i[d]) * x->strides[d];
    tc_ref_copy(y, tc_ref_offset(y, i), x, at);
  }
  return TC_STATUS_OK;
}
static int32_t index_select_ref(tc_op_args *a) { return ref_by(a, false); }
static int32_t gather_ref(tc_op_args *a) { return ref_by(a, true); }

// take_along_dim: gather after broadcasting everything but the dimension.
static int32_t take_along_expand(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0), *i = tc_op_tensor(a, 1);
  tc_int xs[TC_MAX_RANK], is[TC_MAX_RANK], numel[1];
  tc_gv x = tc_ex_arg(a, 0), idx = tc_ex_arg(a, 1);
  bool flat = tc_op_kind(a, 2) == TC_AK_NONE;
  int64_t dim = flat ? 0 : tc_op_dim(a, 2, t->rank);
  if (dim < 0) return TC_STATUS_INVALID_ARGUMENT;
  if (!flat && t->rank != i->rank)
    return tc_op_fail(a, "input and indices should have the same number of dimensions: %s and %s",
                      tc_op_shape_text(a, 0), tc_op_shape_text(a, 1));
  for (int32_t k = 0; k < 2; k++) {
    const tc_tensor_type *own = k ? i : t, *other = k ? t : i;
    tc_int *sizes = k ? is : xs;
    for (int32_t d = 0; !flat && d < own->rank; d++)
      sizes[d] = d == dim || tc_int_eq(a, own->sizes[d], tc_int_const(a, 1)) != 1 ? own->sizes[d] : other->sizes[d];
    numel[0] = tc_op_numel(a, own);
    tc_ex_begin(a, flat ? "aten::reshape" : "aten::expand");
    tc_ex_push(a, k ? idx : x);
    tc_ex_push_ints(a, flat ? 1 : own->rank, flat ? numel : sizes);
    *(k ? &idx : &x) = tc_ex_make(a, 1, NULL);
  }
  tc_ex_begin(a, "aten::gather");
  tc_ex_push(a, x);
  tc_ex_push_int(a, tc_int_const(a, dim));
  tc_ex_push(a, idx);
  tc_ex_result(a, 0, tc_ex_make(a, 1, NULL));
  return TC_STATUS_OK;
}

// ---- sizes that depend on data ----
static int32_t nonzero_meta(tc_op_args *a) {
  tc_int sizes[2] = {tc_op_unbacked(a, 0, INT64_MAX), tc_int_const(a, tc_op_tensor(a, 0)->rank)},
         strides[2] = {tc_int_const(a, 1), sizes[0]};
  return tc_op_set_result(a, 0, TC_I64, 2, sizes, strides);
}
static int32_t nonzero_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0);
  int64_t i[TC_MAX_RANK] = {0}, n = 0;
  const tc_ref_view *y = NULL;
  for (int32_t pass = 0; pass < 2; pass++) {
    if (pass == 1) {
      int64_t sizes[2] = {n, x->rank};
      y = tc_op_alloc_result(a, 0, 2, sizes);
      if (!y) return TC_STATUS_INVALID_ARGUMENT;
    }
    n = 0;
    for (int32_t d = 0; d < x->rank; d++) i[d] = 0;
    for (bool more = tc_ref_numel(x) > 0; more; more = tc_ref_next(x->rank, x->sizes, i)) {
      tc_c128 v = tc_ref_c(x, tc_ref_offset(x, i));
      if (v.re == 0 && v.im == 0) continue;
      for (int32_t d = 0; pass == 1 && d < x->rank; d++) tc_ref_put_i(y, n * x->rank + d, i[d]);
      n++;
    }
  }
  return TC_STATUS_OK;
}
static int32_t take_meta(tc_op_args *a) {
  const tc_tensor_type *i = tc_op_tensor(a, 1);
  if (i->dtype != TC_I64)
    return tc_op_fail(a, "Expected a long tensor for index, but got %s", tc_dtype_torch_name(i->dtype));
  return tc_op_set_result(a, 0, tc_op_tensor(a, 0)->dtype, i->rank, i->sizes, NULL);
}
static int32_t masked_select_meta(tc_op_args *a) {
  const int32_t both[] = {0, 1};
  int32_t rank;
  if (tc_op_tensor(a, 1)->dtype != TC_BOOL)
    return tc_op_fail(a, "expected BoolTensor for mask, but got %s", tc_dtype_torch_name(tc_op_tensor(a, 1)->dtype));
  if (!tc_op_broadcast(a, 2, both, &rank)) return TC_STATUS_INVALID_ARGUMENT;
  tc_int n = tc_op_unbacked(a, 0, INT64_MAX);
  return tc_op_set_result(a, 0, tc_op_tensor(a, 0)->dtype, 1, &n, NULL);
}
static int64_t broadcast_offset(const tc_ref_view *v, int32_t rank, const int64_t *index) {
  int64_t at = 0;
  for (int32_t d = 0; d < v->rank; d++) at += v->sizes[d] == 1 ? 0 : index[d + rank - v->rank] * v->strides[d];
  return at;
}
static int32_t masked_select_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *m = tc_op_data(a, 1), *y = NULL;
  int32_t rank = x->rank > m->rank ? x->rank : m->rank;
  int64_t sizes[TC_MAX_RANK], numel = 1;
  for (int32_t d = 0; d < rank; d++) {
    int64_t p = d - (rank - x->rank) >= 0 ? x->sizes[d - (rank - x->rank)] : 1,
            q = d - (rank - m->rank) >= 0 ? m->sizes[d - (rank - m->rank)] : 1;
    sizes[d] = p == 1 ? q : p;
    numel *= sizes[d];
  }
  int64_t n = 0;
  for (int32_t pass = 0; pass < 2; pass++) {
    int64_t i[TC_MAX_RANK] = {0};
    if (pass == 1 && !(y = tc_op_alloc_result(a, 0, 1, &n))) return TC_STATUS_INVALID_ARGUMENT;
    n = 0;
    for (bool more = numel > 0; more; more = tc_ref_next(rank, sizes, i)) {
      if (!tc_ref_i(m, broadcast_offset(m, rank, i))) continue;
      if (pass == 1) tc_ref_copy(y, n, x, broadcast_offset(x, rank, i));
      n++;
    }
  }
  return TC_STATUS_OK;
}

// ---- membership: comparisons with every element of the other tensor ----
static int32_t isin_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  return tc_op_set_result(a, 0, TC_BOOL, t->rank, t->sizes, NULL);
}
static int32_t isin_lower(tc_op_args *a) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  const int32_t both[] = {0, 1};
  tc_dtype d = tc_op_promote(a, 2, both);
  tc_int index[TC_MAX_RANK + 1], n = tc_op_numel(a, tc_op_tensor(a, 1));
  tc_lt x = tc_lo_arg(a, 0), set = tc_lo_reshape(a, tc_lo_arg(a, 1), 1, &n);
  bool invert = tc_op_bool(a, tc_op_arg_index(a, "invert"), 0);
  tc_lo_begin_reduce(a, invert ? TC_RED_ALL : TC_RED_ANY, r->rank, r->sizes, 1, &n, index);
  tc_bval same = tc_lo_op2(a, invert ? TC_K_NE : TC_K_EQ, tc_lo_cast(a, tc_lo_load(a, x, index), d),
                           tc_lo_cast(a, tc_lo_load(a, set, &index[r->rank]), d));
  tc_lo_result(a, 0, tc_lo_end(a, same, TC_BOOL));
  return TC_STATUS_OK;
}
static int32_t isin_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *set = tc_op_data(a, 1), *y = tc_op_result_data(a, 0);
  bool invert = tc_op_bool(a, tc_op_arg_index(a, "invert"), 0);
  int64_t i[TC_MAX_RANK] = {0};
  for (bool more = tc_ref_numel(y) > 0; more; more = tc_ref_next(y->rank, y->sizes, i)) {
    bool found = false;
    int64_t k[TC_MAX_RANK] = {0};
    for (bool next = tc_ref_numel(set) > 0; next && !found; next = tc_ref_next(set->rank, set->sizes, k))
      found = tc_ref_f(x, tc_ref_offset(x, i)) == tc_ref_f(set, tc_ref_offset(set, k));
    tc_ref_put_i(y, tc_ref_offset(y, i), found != invert);
  }
  return TC_STATUS_OK;
}

enum { C = TC_OP_COMPLEX, DATA = TC_OP_COMPLEX | TC_OP_DATA_DEPENDENT };
static const tc_op_def rows[] = {
    {.schema = "index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
     .traits = C | TC_OP_MAY_EXPAND,
     .meta = index_meta,
     .expand = tc_expand_masks,
     .lower = index_lower,
     .ref = index_ref},
    {.schema = "_unsafe_index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
     .traits = C | TC_OP_MAY_EXPAND,
     .meta = index_meta,
     .expand = tc_expand_masks,
     .lower = index_lower,
     .ref = index_ref},
    {.schema = "embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool "
               "sparse=False) -> Tensor",
     .traits = C,
     .meta = embedding_meta,
     .lower = embedding_lower,
     .ref = embedding_ref},
    {.schema = "index_select(Tensor self, int dim, Tensor index) -> Tensor",
     .traits = C,
     .meta = index_select_meta,
     .lower = index_select_lower,
     .ref = index_select_ref},
    {.schema = "gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor",
     .traits = C,
     .meta = gather_meta,
     .lower = gather_lower,
     .ref = gather_ref},
    {.schema = "take(Tensor self, Tensor index) -> Tensor",
     .traits = C,
     .meta = take_meta,
     .decompose = "index(reshape(self, [-1]), [index])"},
    {.schema = "take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor",
     .traits = C,
     .expand = take_along_expand},
    {.schema = "nonzero(Tensor self) -> Tensor",
     .traits = DATA,
     .meta = nonzero_meta,
     .decompose = "let m = reshape(ne(self, 0), [self.numel]); let e = tc::mask_ends(m);"
                  "transpose(tc::unravel(tc::mask_places(m, e, item(select(e, 0, -1))), self.sizes), 0, 1)",
     .ref = nonzero_ref},
    {.schema = "nonzero_static(Tensor self, *, SymInt size, int fill_value=-1) -> Tensor",
     .traits = C,
     .decompose = "let m = reshape(ne(self, 0), [self.numel]); let p = tc::mask_places(m, tc::mask_ends(m), size);"
                  "_row_major(transpose(where(lt(p, 0), fill_value, tc::unravel(p, self.sizes)), 0, 1))"},
    {.schema = "nonzero_numpy(Tensor self) -> Tensor[]",
     .traits = C,
     .decompose = "unbind(nonzero(if(self.rank == 0, unsqueeze(self, 0), self)), 1)"},
    {.schema = "argwhere(Tensor self) -> Tensor", .traits = C, .decompose = "nonzero(self)"},
    {.schema = "masked_select(Tensor self, Tensor mask) -> Tensor",
     .traits = DATA,
     .meta = masked_select_meta,
     .decompose = "let both = broadcast_tensors([self, mask]); let n = both[1].numel;"
                  "let m = reshape(ne(both[1], 0), [n]); let e = tc::mask_ends(m);"
                  "index_select(reshape(both[0], [n]), 0, tc::mask_places(m, e, item(select(e, 0, -1))))",
     .ref = masked_select_ref},
    {.schema = "isin.Tensor_Tensor(Tensor elements, Tensor test_elements, *, bool assume_unique=False, bool "
               "invert=False) -> Tensor",
     .meta = isin_meta,
     .lower = isin_lower,
     .ref = isin_ref},
    {.schema = "isin.Tensor_Scalar(Tensor elements, Scalar test_element, *, bool assume_unique=False, bool "
               "invert=False) -> Tensor",
     .meta = isin_meta,
     .lower = isin_lower,
     .ref = isin_ref},
};
// Derivatives; see docs/ADDING_AN_OP.md for what the texts can name.
static const tc_op_derivative derivatives[] = {
    {"index.Tensor", "self: index_put(zeros_like(self), indices, grad, true)"},
    {"_unsafe_index.Tensor", "self: index_put(zeros_like(self), indices, grad, true)"},
    {"index_select", "self: if(self.rank == 0, reshape(sum(grad), []), index_add(zeros_like(self), dim, index, grad))"},
    {"gather", "self: if(self.rank == 0, reshape(sum(grad), []), scatter_add(zeros_like(self), dim, index, grad))"},
    {"embedding", "let g = if(padding_idx >= 0, where(unsqueeze(ne(indices, padding_idx), -1), grad, "
                  "zeros_like(grad)), grad); weight: index_put(zeros_like(weight), [indices], g, true)"},
};
static const tc_op_refusal refusals[] = {
    {"isin", "Unsupported input type encountered for isin(): "},
};
TC_OP_FAMILY_WITH_BOTH(index);
