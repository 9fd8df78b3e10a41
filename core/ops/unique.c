// Elements, or slices along a dimension, each once: _unique, _unique2, unique_dim (sorted) and unique_consecutive
// (runs).
//
// Results: the values in order; for each element (slice) which of them it is; how often each occurs. A NaN is like no
// other, and comes last. As in PyTorch, what a flag does not ask for is empty, but slices always have all three.
//
// Kernels: the sorted sequence is compared with itself one place on; where it changes is a mask, whose places
// (core/ops/compact.c) are the values'. Slices are sorted by their elements from the last to the first, stably.
#include <math.h>

#include "core/ops/ops.h"

enum { MOST_COLUMNS = 256 }; // that slices are sorted by: each is a sort

typedef struct request {
  int64_t dim; // -1: of the flat tensor
  bool sorts, inverse, counts;
} request;

static int32_t read_request(tc_op_args *a, request *q) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  int32_t dim = tc_op_arg_index(a, "dim"), inverse = tc_op_arg_index(a, "return_inverse"),
          counts = tc_op_arg_index(a, "return_counts");
  bool sliced = dim >= 0 && tc_op_kind(a, dim) != TC_AK_NONE;
  tc_sv name = a->op->schema.name;
  *q = (request){.dim = -1, .sorts = !tc_sv_ends(name, "consecutive")};
  q->inverse = sliced || (inverse >= 0 && tc_op_bool(a, inverse, 0));
  q->counts = sliced || (counts >= 0 && tc_op_bool(a, counts, 0));
  if (tc_dtype_is_complex(t->dtype))
    return tc_op_fail(a, "unique is not implemented for %s", tc_dtype_torch_name(t->dtype));
  if (!sliced) return TC_STATUS_OK;
  if (t->rank == 0) return tc_op_fail(a, "a dimension is specified, but the tensor has none");
  q->dim = tc_op_wrap_dim(a, tc_op_int(a, dim, 0), t->rank);
  if (q->dim < 0) return TC_STATUS_INVALID_ARGUMENT;
  for (int32_t d = 0; d < t->rank; d++)
    if (d != q->dim && tc_sym_is_int(t->sizes[d], 0))
      return tc_op_fail(a, "there are dimensions of size 0 that are not selected: %s", tc_op_shape_text(a, 0));
  return TC_STATUS_OK;
}

static int32_t unique_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  request q;
  if (read_request(a, &q)) return TC_STATUS_INVALID_ARGUMENT;
  tc_int n = tc_op_unbacked(a, 0, INT64_MAX), none = tc_int_const(a, 0), sizes[TC_MAX_RANK], strides[TC_MAX_RANK],
         step = tc_int_const(a, 1);
  int32_t rank = q.dim < 0 ? 1 : t->rank, failed;
  for (int32_t d = 0; d < rank; d++) sizes[d] = d == q.dim || q.dim < 0 ? n : t->sizes[d];
  for (int32_t d = rank - 1; d >= 0; d--) {
    strides[d] = step;
    step = tc_int_mul(a, step, tc_int_max(a, sizes[d], tc_int_const(a, 1)));
  }
  failed = tc_op_set_result(a, 0, t->dtype, rank, sizes, strides);
  bool flat = q.dim < 0 && q.inverse;
  failed |= tc_op_set_result(a, 1, TC_I64, flat ? t->rank : 1,
                             flat        ? t->sizes
                             : q.inverse ? &t->sizes[q.dim]
                                         : &none,
                             NULL);
  if (a->n_results > 2) failed |= tc_op_set_result(a, 2, TC_I64, 1, q.counts ? &n : &none, NULL);
  return failed;
}

// ---- the reference ----
typedef struct slices {
  const tc_ref_view *x;
  int64_t n, width;       // slices; elements of each
  int64_t *first, *along; // offsets of slices, and of elements within
} slices;

static int32_t read_slices(tc_op_args *a, const request *q, slices *s) {
  const tc_ref_view *x = tc_op_data(a, 0);
  int64_t numel = tc_ref_numel(x), i[TC_MAX_RANK] = {0};
  *s = (slices){.x = x, .n = q->dim < 0 ? numel : x->sizes[q->dim], .width = 1};
  if (q->dim >= 0) s->width = s->n ? numel / s->n : 0;
  s->first = tc_op_scratch(a, (uint64_t)(s->n + 1) * sizeof(int64_t));
  s->along = tc_op_scratch(a, (uint64_t)(s->width + 1) * sizeof(int64_t));
  if (!s->first || !s->along) return TC_STATUS_OUT_OF_MEMORY;
  s->along[0] = 0;
  int64_t k = 0, j = 0;
  for (bool more = numel > 0; more; more = tc_ref_next(x->rank, x->sizes, i)) {
    if (q->dim < 0) s->first[k++] = tc_ref_offset(x, i);
    else if (i[q->dim] == 0) s->along[j++] = tc_ref_offset(x, i);
  }
  for (; q->dim >= 0 && k < s->n; k++) s->first[k] = k * x->strides[q->dim];
  return TC_STATUS_OK;
}

// -1, 0, 1; a NaN is behind all else, and unlike itself, but where slices are put in order.
static int32_t compare(const slices *s, int64_t p, int64_t q, bool order) {
  for (int64_t j = 0; j < s->width; j++) {
    int64_t at = s->first[p] + s->along[j], to = s->first[q] + s->along[j];
    if (s->x->dtype == TC_I64) {
      int64_t v = tc_ref_i(s->x, at), w = tc_ref_i(s->x, to);
      if (v != w) return v < w ? -1 : 1;
      continue;
    }
    double v = tc_ref_f(s->x, at), w = tc_ref_f(s->x, to);
    if (isnan(w) && !isnan(v)) return -1;
    if (order && isnan(v) && isnan(w)) continue;
    if (v != w) return v < w ? -1 : 1;
  }
  return 0;
}

// Stable; `list` has room for twice as many.
static void sort(const slices *s, int64_t *list) {
  int64_t *spare = list + s->n;
  for (int64_t k = 0; k < s->n; k++) list[k] = k;
  for (int64_t w = 1; w < s->n; w *= 2) {
    for (int64_t lo = 0; lo < s->n; lo += 2 * w) {
      int64_t mid = lo + w < s->n ? lo + w : s->n, hi = lo + 2 * w < s->n ? lo + 2 * w : s->n;
      for (int64_t i = lo, j = mid, k = lo; k < hi; k++) {
        bool second = i == mid || (j < hi && compare(s, list[j], list[i], true) < 0);
        spare[k] = second ? list[j++] : list[i++];
      }
    }
    for (int64_t k = 0; k < s->n; k++) list[k] = spare[k];
  }
}

static int32_t unique_ref(tc_op_args *a) {
  request q;
  slices s;
  if (read_request(a, &q) || read_slices(a, &q, &s)) return TC_STATUS_INVALID_ARGUMENT;
  int64_t *list = tc_op_scratch(a, (uint64_t)(4 * s.n + 1) * sizeof *list), count = 0;
  if (!list) return TC_STATUS_OUT_OF_MEMORY;
  int64_t *which = list + 2 * s.n, *starts = list + 3 * s.n, i[TC_MAX_RANK] = {0}, sizes[TC_MAX_RANK];
  if (q.sorts) sort(&s, list);
  for (int64_t k = 0; k < s.n; k++) {
    int64_t p = q.sorts ? list[k] : k, before = k == 0 ? p : q.sorts ? list[k - 1] : k - 1;
    if (k == 0 || compare(&s, before, p, false)) starts[count++] = k;
    which[p] = count - 1;
  }
  int32_t rank = q.dim < 0 ? 1 : s.x->rank;
  for (int32_t d = 0; d < rank; d++) sizes[d] = d == q.dim || q.dim < 0 ? count : s.x->sizes[d];
  const tc_ref_view *y = tc_op_alloc_result(a, 0, rank, sizes), *inverse = tc_op_result_data(a, 1);
  if (!y) return TC_STATUS_INVALID_ARGUMENT;
  for (bool more = tc_ref_numel(y) > 0; more; more = tc_ref_next(rank, sizes, i)) {
    int32_t d = q.dim < 0 ? 0 : (int32_t)q.dim;
    int64_t k = starts[i[d]], from = s.first[q.sorts ? list[k] : k];
    for (int32_t e = 0; q.dim >= 0 && e < rank; e++) from += e == d ? 0 : i[e] * s.x->strides[e];
    tc_ref_copy(y, tc_ref_offset(y, i), s.x, from);
  }
  for (int64_t k = 0; q.inverse && k < s.n; k++) tc_ref_put_i(inverse, k, which[k]);
  if (!q.counts || a->n_results < 3) return TC_STATUS_OK;
  const tc_ref_view *counts = tc_op_alloc_result(a, 2, 1, &count);
  if (!counts) return TC_STATUS_INVALID_ARGUMENT;
  for (int64_t k = 0; k < count; k++) tc_ref_put_i(counts, k, (k + 1 < count ? starts[k + 1] : s.n) - starts[k]);
  return TC_STATUS_OK;
}

// ---- of other ops ----
static tc_gv call(tc_op_args *a, const char *op, tc_gv x) {
  tc_ex_begin(a, op);
  tc_ex_push(a, x);
  return tc_ex_make(a, 1, NULL);
}
static tc_gv picked(tc_op_args *a, tc_gv x, tc_gv places) {
  tc_ex_begin(a, "aten::index_select");
  tc_ex_push(a, x);
  tc_ex_push_int(a, tc_int_const(a, 0));
  tc_ex_push(a, places);
  return tc_ex_make(a, 1, NULL);
}

// The order of the rows of x [n, width]: by its columns, the last one first.
static tc_gv row_order(tc_op_args *a, tc_gv x, int64_t width) {
  tc_gv order = -1;
  for (int64_t c = width - 1; c >= 0; c--) {
    tc_ex_begin(a, "aten::select.int");
    tc_ex_push(a, x);
    tc_ex_push_int(a, tc_int_const(a, 1));
    tc_ex_push_int(a, tc_int_const(a, c));
    tc_gv key = tc_ex_make(a, 1, NULL), pair[2];
    if (order >= 0) key = picked(a, key, order);
    tc_ex_begin(a, "aten::sort.stable");
    tc_ex_push(a, key);
    tc_ex_push_bool(a, 1);
    tc_ex_push_int(a, tc_int_const(a, 0));
    tc_ex_push_bool(a, 0);
    tc_ex_make(a, 2, pair);
    order = order < 0 ? pair[1] : picked(a, order, pair[1]);
  }
  return order;
}

static int32_t unique_expand(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  request q;
  if (read_request(a, &q)) return TC_STATUS_INVALID_ARGUMENT;
  tc_int n = q.dim < 0 ? tc_op_numel(a, t) : t->sizes[q.dim], width = tc_int_const(a, 1), shape[2];
  for (int32_t d = 0; q.dim >= 0 && d < t->rank; d++)
    if (d != q.dim) width = tc_int_mul(a, width, t->sizes[d]);
  int64_t columns = 1;
  if (q.sorts && (!tc_int_is_const(width, &columns) || columns > MOST_COLUMNS))
    return TC_STATUS_OK; // left to the references
  tc_gv x = tc_ex_arg(a, 0);
  if (q.dim > 0) {
    tc_ex_begin(a, "aten::movedim.int");
    tc_ex_push(a, x);
    tc_ex_push_int(a, tc_int_const(a, q.dim));
    tc_ex_push_int(a, tc_int_const(a, 0));
    x = tc_ex_make(a, 1, NULL);
  }
  shape[0] = n, shape[1] = width;
  tc_ex_begin(a, "aten::reshape");
  tc_ex_push(a, x);
  tc_ex_push_ints(a, 2, shape);
  x = tc_ex_make(a, 1, NULL);
  tc_gv order = -1, out[3];
  if (q.sorts) order = row_order(a, x, columns), x = picked(a, x, order);
  tc_ex_begin(a, "tc::runs"); // values [count, width], number of each row's run [n], lengths [count]
  tc_ex_push(a, x);
  tc_ex_make(a, 3, out);
  tc_gv values = out[0], inverse = out[1];
  if (order >= 0) {
    tc_gv zeros = call(a, "aten::zeros_like", inverse);
    tc_ex_begin(a, "aten::scatter.src");
    tc_ex_push(a, zeros);
    tc_ex_push_int(a, tc_int_const(a, 0));
    tc_ex_push(a, order);
    tc_ex_push(a, inverse);
    inverse = tc_ex_make(a, 1, NULL);
  }
  const tc_tensor_type *v = tc_ex_type(a, values);
  if (!v) return TC_STATUS_INVALID_ARGUMENT;
  tc_int sizes[TC_MAX_RANK] = {v->sizes[0]};
  int32_t rank = 1;
  for (int32_t d = 0; q.dim >= 0 && d < t->rank; d++)
    if (d != q.dim) sizes[rank++] = t->sizes[d];
  tc_ex_begin(a, "aten::reshape");
  tc_ex_push(a, values);
  tc_ex_push_ints(a, rank, sizes);
  values = tc_ex_make(a, 1, NULL);
  if (q.dim > 0) {
    tc_ex_begin(a, "aten::movedim.int");
    tc_ex_push(a, values);
    tc_ex_push_int(a, tc_int_const(a, 0));
    tc_ex_push_int(a, tc_int_const(a, q.dim));
    values = call(a, "aten::_row_major", tc_ex_make(a, 1, NULL));
  }
  if (q.dim < 0) {
    tc_ex_begin(a, "aten::reshape");
    tc_ex_push(a, inverse);
    tc_ex_push_ints(a, t->rank, t->sizes);
    inverse = tc_ex_make(a, 1, NULL);
  }
  tc_gv results[3] = {values, inverse, out[2]};
  for (int32_t i = 0; i < 3 && i < a->n_results; i++) {
    if ((i == 1 && !q.inverse) || (i == 2 && !q.counts)) {
      tc_int none = tc_int_const(a, 0);
      tc_ex_begin(a, "aten::full");
      tc_ex_push_ints(a, 1, &none);
      tc_ex_push_int(a, none);
      tc_ex_push_dtype(a, TC_I64);
      results[i] = tc_ex_make(a, 1, NULL);
    }
    tc_ex_result(a, i, results[i]);
  }
  return TC_STATUS_OK;
}

#define ROW(s)                                        \
  {.schema = s,                                       \
   .traits = TC_OP_DATA_DEPENDENT | TC_OP_MAY_EXPAND, \
   .meta = unique_meta,                               \
   .expand = unique_expand,                           \
   .ref = unique_ref}
static const tc_op_def rows[] = {
    ROW("_unique(Tensor self, bool sorted=True, bool return_inverse=False) -> (Tensor, Tensor)"),
    ROW("_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, "
        "Tensor, Tensor)"),
    ROW("unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> "
        "(Tensor, Tensor, Tensor)"),
    ROW("unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? dim=None) -> "
        "(Tensor, Tensor, Tensor)"),
    ROW("unique_dim_consecutive(Tensor self, int dim, bool return_inverse=False, bool return_counts=False) -> (Tensor, "
        "Tensor, Tensor)"),
    {.schema = "tc::runs(Tensor self) -> (Tensor, Tensor, Tensor)",
     .decompose = "let n = self.size(0); let place = arange(n); let last = n - 1;"
                  "let before = cat([slice(self, 0, 0, min(n, 1)), slice(self, 0, 0, max(last, 0))], 0);"
                  "let m = logical_or(any(ne(self, before), 1), eq(place, 0)); let e = tc::mask_ends(m);"
                  "let p = tc::mask_places(m, e, item(select(e, 0, -1))); let count = p.size(0);"
                  "let ends = cat([slice(p, 0, 1), full([1], n, dtype=i64)], 0);"
                  "index_select(self, 0, p), sub(cumsum(to(m, i64), 0), 1), sub(slice(ends, 0, 0, count), p)"},
};
TC_OP_FAMILY(unique);
