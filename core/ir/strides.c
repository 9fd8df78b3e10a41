// PyTorch's stride rules on symbolic sizes.
//
// Sources: c10's TensorImpl (contiguity, channels-last, non-overlapping and dense), TensorIterator (order of dimensions
// of pointwise results), infer_dense_strides (empty_like). Comparisons that cannot be proved are decided by the
// symbols' hints: whatever comes out is what the value's type says from then on, so a wrong guess costs nothing but a
// layout that PyTorch would not have chosen.
#include "core/ir/opargs.h"

bool tc_sym_decide(tc_sym_ctx *c, int32_t kind, const tc_sym *x, const tc_sym *y, bool otherwise) {
  const tc_sym *e = tc_sym_cmp(c, kind, x, y);
  int32_t known = tc_sym_prove(c, e);
  if (known >= 0) return known;
  int64_t v;
  return tc_sym_hint(c, e, &v) ? v != 0 : otherwise;
}

static bool is(tc_sym_ctx *c, const tc_sym *e, int64_t v) {
  return tc_sym_decide(c, TC_SYM_EQ, e, tc_sym_int(c, v), false);
}
static bool same(tc_sym_ctx *c, const tc_sym *x, const tc_sym *y) {
  return x == y || tc_sym_decide(c, TC_SYM_EQ, x, y, false);
}
static bool less(tc_sym_ctx *c, const tc_sym *x, const tc_sym *y) {
  return x != y && tc_sym_decide(c, TC_SYM_LT, x, y, false);
}
static bool at_most_one(tc_sym_ctx *c, const tc_sym *e) { return less(c, e, tc_sym_int(c, 2)); }

static bool empty(tc_sym_ctx *c, int32_t rank, const tc_int *sizes) {
  for (int32_t i = 0; i < rank; i++)
    if (is(c, sizes[i], 0)) return true;
  return false;
}

// Dense with dimensions from the fastest, order[0], to the slowest; those of size 1 do not matter.
static bool packed(tc_sym_ctx *c, int32_t rank, const tc_int *sizes, const tc_int *strides, const int32_t *order) {
  const tc_sym *expected = tc_sym_int(c, 1);
  for (int32_t k = 0; k < rank; k++) {
    int32_t d = order[k];
    if (is(c, sizes[d], 1)) continue;
    if (!same(c, strides[d], expected)) return false;
    expected = tc_sym_mul(c, expected, sizes[d]);
  }
  return true;
}

static void pack(tc_sym_ctx *c, int32_t rank, const tc_int *sizes, const int32_t *order, tc_int *out) {
  const tc_sym *s = tc_sym_int(c, 1);
  for (int32_t k = 0; k < rank; k++) {
    out[order[k]] = s;
    if (!is(c, sizes[order[k]], 0)) s = tc_sym_mul(c, s, sizes[order[k]]);
  }
}

// Channels fastest, then the image's dimensions from the last, then the batch if there is one.
static int32_t channels_last_order(int32_t rank, int32_t *order) {
  int32_t batch = rank == 3 ? 0 : 1, n = 0;
  order[n++] = batch;
  for (int32_t d = rank - 1; d > batch; d--) order[n++] = d;
  if (batch) order[n++] = 0;
  return n;
}

static void row_order(int32_t rank, int32_t *order) {
  for (int32_t i = 0; i < rank; i++) order[i] = rank - 1 - i;
}

bool tc_strides_contiguous(tc_sym_ctx *c, int32_t rank, const tc_int *sizes, const tc_int *strides) {
  int32_t order[TC_MAX_RANK];
  row_order(rank, order);
  return empty(c, rank, sizes) || packed(c, rank, sizes, strides, order);
}

bool tc_strides_channels_last(tc_sym_ctx *c, int32_t rank, const tc_int *sizes, const tc_int *strides) {
  int32_t order[TC_MAX_RANK];
  if (rank != 4 && rank != 5) return false;
  channels_last_order(rank, order);
  return packed(c, rank, sizes, strides, order);
}

bool tc_strides_dense(tc_sym_ctx *c, int32_t rank, const tc_int *sizes, const tc_int *strides) {
  if (empty(c, rank, sizes)) return true; // whatever its strides
  if (rank == 1) return at_most_one(c, sizes[0]) || is(c, strides[0], 1);
  int32_t order[TC_MAX_RANK], n = 0;
  for (int32_t d = 0; d < rank; d++) { // by stride, those of size < 2 last (they do not matter)
    if (at_most_one(c, sizes[d])) continue;
    int32_t k = n++;
    for (; k > 0 && less(c, strides[d], strides[order[k - 1]]); k--) order[k] = order[k - 1];
    order[k] = d;
  }
  return packed(c, n, sizes, strides, order);
}

void tc_strides_make_contiguous(tc_sym_ctx *c, int32_t rank, const tc_int *sizes, tc_int *out) {
  int32_t order[TC_MAX_RANK];
  row_order(rank, order);
  pack(c, rank, sizes, order, out);
}

void tc_strides_make_channels_last(tc_sym_ctx *c, int32_t rank, const tc_int *sizes, tc_int *out) {
  int32_t order[TC_MAX_RANK];
  int32_t n = channels_last_order(rank, order);
  pack(c, n, sizes, order, out);
}

// ---- the order of dimensions that TensorIterator finds ----
typedef struct operand {
  bool used;
  tc_int strides[TC_MAX_RANK]; // of the broadcast shape, 0 where broadcast
} operand;

// 1: dimension d0 belongs behind (is slower than) d1; -1: before it; 0: the operands do not say.
static int32_t compare_dims(tc_sym_ctx *c, int32_t n, const operand *ops, const tc_int *sizes, int32_t d0, int32_t d1) {
  for (int32_t k = 0; k < n; k++) {
    if (!ops[k].used) continue;
    tc_int s0 = ops[k].strides[d0], s1 = ops[k].strides[d1];
    if (is(c, s0, 0) || is(c, s1, 0)) continue;
    if (less(c, s0, s1)) return -1;
    if (less(c, s1, s0)) return 1;
    if (less(c, sizes[d1], sizes[d0])) return 1;
  }
  return 0;
}

// Fastest first. An insertion sort, because comparisons may be undecided: the result depends on this very algorithm.
static void sort_dims(tc_sym_ctx *c, int32_t n, const operand *ops, int32_t rank, const tc_int *sizes, int32_t *order) {
  row_order(rank, order);
  for (int32_t i = 1; i < rank; i++)
    for (int32_t k = i - 1, moving = i; k >= 0; k--) {
      int32_t cmp = compare_dims(c, n, ops, sizes, order[k], order[moving]);
      if (cmp < 0) break;
      if (cmp == 0) continue;
      int32_t t = order[k];
      order[k] = order[moving], order[moving] = t;
      moving = k;
    }
}

void tc_strides_make_preserve(tc_sym_ctx *c, int32_t rank, const tc_int *sizes, const tc_int *strides, tc_int *out) {
  if (tc_strides_dense(c, rank, sizes, strides)) {
    for (int32_t i = 0; i < rank; i++) out[i] = strides[i];
    return;
  }
  operand op = {.used = true};
  for (int32_t i = 0; i < rank; i++) op.strides[i] = strides[i];
  int32_t order[TC_MAX_RANK];
  sort_dims(c, 1, &op, rank, sizes, order);
  pack(c, rank, sizes, order, out);
}

static bool same_sizes(tc_sym_ctx *c, const tc_tensor_type *t, int32_t rank, const tc_int *sizes) {
  if (t->rank != rank) return false;
  for (int32_t i = 0; i < rank; i++)
    if (!same(c, t->sizes[i], sizes[i])) return false;
  return true;
}

static bool same_strides(tc_sym_ctx *c, const tc_tensor_type *a, const tc_tensor_type *b) {
  for (int32_t i = 0; i < a->rank; i++)
    if (!same(c, a->strides[i], b->strides[i])) return false;
  return true;
}

// Operands of one shape and one layout give that layout; false if that rule does not apply.
static bool common_layout(tc_sym_ctx *c, int32_t n, const tc_tensor_type *const *ops, int32_t rank, const tc_int *sizes,
                          tc_int *out) {
  bool contiguous = true, channels_last = rank == 4, dense = true;
  const tc_tensor_type *first = NULL;
  for (int32_t k = 0; k < n; k++) {
    if (!ops[k]) continue;
    if (!same_sizes(c, ops[k], rank, sizes)) return false;
    if (!first) first = ops[k];
    contiguous = contiguous && tc_strides_contiguous(c, rank, sizes, ops[k]->strides);
    channels_last = channels_last && tc_strides_channels_last(c, rank, sizes, ops[k]->strides);
    dense = dense && same_strides(c, first, ops[k]) && tc_strides_dense(c, rank, sizes, ops[k]->strides);
  }
  if (!first || contiguous) tc_strides_make_contiguous(c, rank, sizes, out);
  else if (channels_last) tc_strides_make_channels_last(c, rank, sizes, out);
  else if (dense)
    for (int32_t i = 0; i < rank; i++) out[i] = first->strides[i];
  else return false;
  return true;
}

void tc_strides_make_pointwise(tc_sym_ctx *c, int32_t n, const tc_tensor_type *const *operands, int32_t rank,
                               const tc_int *sizes, tc_int *out) {
  enum { MAX_OPERANDS = 16 };
  if (n > MAX_OPERANDS) n = MAX_OPERANDS;
  if (common_layout(c, n, operands, rank, sizes, out)) return;
  operand ops[MAX_OPERANDS];
  for (int32_t k = 0; k < n; k++) {
    const tc_tensor_type *t = operands[k];
    ops[k].used = t != NULL;
    if (!t) continue;
    int32_t lead = rank - t->rank;
    for (int32_t i = 0; i < rank; i++) {
      bool broadcast = i < lead || (is(c, t->sizes[i - lead], 1) && !is(c, sizes[i], 1));
      ops[k].strides[i] = broadcast ? tc_sym_int(c, 0) : t->strides[i - lead];
    }
  }
  int32_t order[TC_MAX_RANK];
  bool inverted = true;
  if (rank == 1) order[0] = 0;
  else sort_dims(c, n, ops, rank, sizes, order);
  for (int32_t i = 0; i < rank; i++) inverted = inverted && order[i] == rank - 1 - i;
  if (inverted) {
    tc_strides_make_contiguous(c, rank, sizes, out);
    return;
  }
  const tc_sym *s = tc_sym_int(c, 1); // a size of 0 makes the slower strides 0 here, as in PyTorch
  for (int32_t k = 0; k < rank; k++) {
    out[order[k]] = s;
    s = tc_sym_mul(c, s, sizes[order[k]]);
  }
}
