// Reductions over groups of consecutive rows: bags of embeddings and segments, whose borders come from data; and a loss
// over lists that end where data say.
//
// Which group an element belongs to is found by counting the borders before it; groups are then combined by writes in
// order (template "scatter") into one row more than there are groups, which takes what belongs to none.
#include <math.h>

#include "core/ops/ops.h"

// ---- _embedding_bag: mode 0 sum, 1 mean, 2 max ----
typedef struct bag {
  int32_t mode;
  bool last; // offsets end with the number of indices
  int64_t padding;
} bag;
static bag bag_of(tc_op_args *a) {
  bag b = {(int32_t)tc_op_int(a, 4, 0), tc_op_bool(a, 7, 0), tc_op_int(a, 8, -1)};
  int64_t rows;
  if (tc_op_tensor(a, 0)->rank > 0 && tc_int_is_const(tc_op_tensor(a, 0)->sizes[0], &rows) &&
      tc_op_kind(a, 8) == TC_AK_INT && b.padding < 0 && tc_sv_is(a->op->schema.name, "embedding_bag"))
    b.padding += rows;
  return b;
}
static int32_t bag_meta(tc_op_args *a) {
  const tc_tensor_type *w = tc_op_tensor(a, 0), *i = tc_op_tensor(a, 1), *o = tc_op_tensor(a, 2);
  bag b = bag_of(a);
  if (w->rank != 2 || i->rank != 1 || o->rank != 1)
    return tc_op_fail(a, "weight has to be a matrix, indices and offsets vectors: %s, %s, %s", tc_op_shape_text(a, 0),
                      tc_op_shape_text(a, 1), tc_op_shape_text(a, 2));
  const tc_tensor_type *scale = tc_op_tensor(a, 6);
  if (scale && (scale->rank != 1 || scale->dtype != w->dtype || tc_int_require_eq(a, scale->sizes[0], i->sizes[0])))
    return tc_op_fail(a, "expected a weight of the dtype of %s for each of %s indices: %s", tc_op_shape_text(a, 0),
                      tc_op_shape_text(a, 1), tc_op_shape_text(a, 6));
  if (tc_dtype_is_float(i->dtype) || tc_dtype_is_float(o->dtype) || tc_dtype_is_complex(i->dtype) ||
      tc_dtype_is_complex(o->dtype))
    return tc_op_fail(a, "indices and offsets must be integers: %s and %s", tc_op_shape_text(a, 1),
                      tc_op_shape_text(a, 2));
  if (i->dtype != TC_I32 && i->dtype != TC_I64)
    return tc_op_fail(a,
                      "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, "
                      "Int; but got %s instead",
                      tc_dtype_torch_name(i->dtype));
  if (!tc_dtype_is_float(w->dtype))
    return tc_op_fail(a,
                      "Expected tensor for argument #1 'weight' to have one of the following scalar types: Half, "
                      "BFloat16, Float, Double; but got %s instead",
                      tc_dtype_torch_name(w->dtype));
  if (b.last && tc_int_lt(a, o->sizes[0], tc_int_const(a, 1)) == 1)
    return tc_op_fail(a, "include_last_offset: the number of offsets should be at least 1: %s", tc_op_shape_text(a, 2));
  if (b.mode < 0 || b.mode > 2) return tc_op_fail(a, "mode %d is not 0 (sum), 1 (mean) or 2 (max)", b.mode);
  tc_int bags = b.last ? tc_int_sub(a, o->sizes[0], tc_int_const(a, 1)) : o->sizes[0], none = tc_int_const(a, 0),
         out[2] = {bags, w->sizes[1]};
  return tc_op_set_result(a, 0, w->dtype, 2, out, NULL) ||
         tc_op_set_result(a, 1, i->dtype, 1, b.mode || b.padding >= 0 ? &i->sizes[0] : &none, NULL) ||
         tc_op_set_result(a, 2, i->dtype, 1, &bags, NULL) ||
         tc_op_set_result(a, 3, i->dtype, b.mode == 2 ? 2 : 1, out, NULL);
}
static int32_t bag_ref(tc_op_args *a) {
  const tc_ref_view *w = tc_op_data(a, 0), *idx = tc_op_data(a, 1), *off = tc_op_data(a, 2), *scale = tc_op_data(a, 6),
                    *y = tc_op_result_data(a, 0), *owner = tc_op_result_data(a, 1), *size = tc_op_result_data(a, 2),
                    *best = tc_op_result_data(a, 3);
  bag b = bag_of(a);
  int64_t bags = y->sizes[0], n = y->sizes[1], total = tc_ref_numel(idx);
  for (int64_t j = 0; j < total; j++) { // those of no bag, too, as in compiled programs
    int64_t row = tc_ref_i(idx, j * idx->strides[0]);
    if (row < 0 || row >= w->sizes[0])
      return tc_op_fail(a, "index %lld is out of bounds for %lld rows", (long long)row, (long long)w->sizes[0]);
    if (bags == 0 && (b.mode || b.padding >= 0)) tc_ref_put_i(owner, j, -1);
  }
  for (int64_t k = 0; k < bags; k++) {
    int64_t from = tc_ref_i(off, k * off->strides[0]),
            to = k + 1 < off->sizes[0] ? tc_ref_i(off, (k + 1) * off->strides[0]) : total, count = 0;
    if ((k == 0 && from != 0) || from < 0 || to > total || from > to)
      return tc_op_fail(a, "offsets must rise from 0 to at most %lld", (long long)total);
    for (int64_t j = from; j < (k + 1 < bags ? to : total); j++) {
      int64_t row = tc_ref_i(idx, j * idx->strides[0]);
      if (b.mode || b.padding >= 0) tc_ref_put_i(owner, j, k);
      if (row == b.padding || j >= to) continue; // what lies behind the end of the last is counted to it there only
      double f = scale ? tc_ref_f(scale, j * scale->strides[0]) : 1;
      for (int64_t c = 0; c < n; c++) {
        double v = tc_ref_f(w, row * w->strides[0] + c * w->strides[1]) * f, old = tc_ref_f(y, k * n + c);
        bool takes = b.mode == 2 && (count == 0 || v > old);
        if (takes) tc_ref_put_i(best, k * n + c, row);
        if (b.mode < 2 || takes) tc_ref_put(y, k * n + c, (tc_c128){b.mode < 2 ? old + v : v, 0});
      }
      count++;
    }
    for (int64_t c = 0; c < n && b.mode == 1 && count > 0; c++)
      tc_ref_put(y, k * n + c, (tc_c128){tc_ref_f(y, k * n + c) / (double)count, 0});
    tc_ref_put_i(size, k, b.mode ? count : 0);
    if (b.mode == 1) tc_ref_put_i(best, k, count); // as PyTorch leaves it
  }
  return TC_STATUS_OK;
}

// ---- segment_reduce along axis 0 or the last of the batch dimensions ----
enum { SUM, MEAN, MAX, MIN, PROD };
static int32_t segment_kind(tc_op_args *a) {
  static const char *const names[] = {"sum", "mean", "max", "min", "prod"};
  for (int32_t k = 0; k < 5; k++)
    if (tc_sv_is(tc_op_string(a, 1), names[k])) return k;
  return -1;
}
static int32_t segment_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0), *lengths = tc_op_tensor(a, 2), *offsets = tc_op_tensor(a, 4),
                       *by = lengths ? lengths : offsets;
  int64_t axis = tc_op_dim(a, 5, t->rank);
  tc_int sizes[TC_MAX_RANK];
  if (axis < 0) return TC_STATUS_INVALID_ARGUMENT;
  if (segment_kind(a) < 0 || !by || tc_op_kind(a, 3) != TC_AK_NONE || t->rank == 0 || by->rank != axis + 1)
    return tc_op_fail(a, "expected a known reduction and lengths or offsets of rank axis + 1");
  if (!tc_dtype_is_float(t->dtype))
    return tc_op_fail(a, "not implemented for %s: data must be floating-point", tc_dtype_torch_name(t->dtype));
  if (by->dtype != TC_I32 && by->dtype != TC_I64)
    return tc_op_fail(a, "lengths and offsets must be i32 or i64, not %s", tc_dtype_torch_name(by->dtype));
  for (int32_t d = 0; d < axis; d++)
    if (tc_int_require_eq(a, by->sizes[d], t->sizes[d]))
      return tc_op_fail(a, "lengths and offsets must have the batch dimensions of data: %s and %s",
                        tc_op_shape_text(a, lengths ? 2 : 4), tc_op_shape_text(a, 0));
  for (int32_t d = 0; d < t->rank; d++)
    sizes[d] = d != axis ? t->sizes[d] : lengths ? by->sizes[axis] : tc_int_sub(a, by->sizes[axis], tc_int_const(a, 1));
  return tc_op_set_result(a, 0, t->dtype, t->rank, sizes, NULL);
}
static int32_t segment_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *lengths = tc_op_data(a, 2), *by = lengths ? lengths : tc_op_data(a, 4),
                    *y = tc_op_result_data(a, 0);
  int32_t kind = segment_kind(a);
  int64_t axis = tc_op_dim(a, 5, x->rank), i[TC_MAX_RANK] = {0};
  tc_number start;
  static const double empty[] = {0, NAN, -INFINITY, INFINITY, 1};
  bool given = tc_op_number(a, 7, &start) != 0;
  for (bool more = tc_ref_numel(y) > 0; more; more = tc_ref_next(y->rank, y->sizes, i)) {
    int64_t row = 0, from = 0, to;
    for (int32_t d = 0; d < axis; d++) row += i[d] * by->strides[d];
    if (lengths) {
      for (int64_t k = 0; k < i[axis]; k++) from += tc_ref_i(by, row + k * by->strides[axis]);
      to = from + tc_ref_i(by, row + i[axis] * by->strides[axis]);
    } else {
      from = tc_ref_i(by, row + i[axis] * by->strides[axis]),
      to = tc_ref_i(by, row + (i[axis] + 1) * by->strides[axis]);
    }
    if (from < 0 || to > x->sizes[axis] || from > to) return tc_op_fail(a, "a segment lies outside of the data");
    double v = given ? start.re : kind == MEAN ? 0 : empty[kind];
    int64_t at = tc_ref_offset(x, i) - i[axis] * x->strides[axis];
    for (int64_t k = from; k < to; k++) {
      double e = tc_ref_f(x, at + k * x->strides[axis]);
      switch (kind) {
      case MAX: v = isnan(e) || e > v ? e : v; break;
      case MIN: v = isnan(e) || e < v ? e : v; break;
      case PROD: v *= e; break;
      default: v += e;
      }
    }
    if (kind == MEAN) v = to > from ? v / (double)(to - from) : given ? v : empty[MEAN];
    tc_ref_put(y, tc_ref_offset(y, i), (tc_c128){v, 0});
  }
  return TC_STATUS_OK;
}

// ---- multilabel_margin_loss: a row's targets end at the first negative one ----
static int32_t margin_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  const tc_tensor_type *target = tc_op_tensor(a, 1);
  if (t->rank > 2) return tc_op_fail(a, "expected a vector or a matrix: %s", tc_op_shape_text(a, 0));
  if (!tc_dtype_is_float(t->dtype) || target->dtype != TC_I64)
    return tc_op_fail(a, "expected an input of a floating point dtype and int64 targets: %s and %s",
                      tc_op_shape_text(a, 0), tc_op_shape_text(a, 1));
  bool same = tc_int_require_eq(a, tc_op_numel(a, target), tc_op_numel(a, t)) == TC_STATUS_OK;
  for (int32_t d = 0; d < t->rank && same && target->rank > 1; d++)
    same = target->rank == t->rank && !tc_int_require_eq(a, target->sizes[d], t->sizes[d]);
  if (!same || target->rank > t->rank)
    return tc_op_fail(a, "inconsistent target size: %s for input of size: %s", tc_op_shape_text(a, 1),
                      tc_op_shape_text(a, 0));
  return tc_op_set_result(a, 0, t->dtype, t->rank == 2 && tc_op_int(a, 2, 1) == 0 ? 1 : 0, t->sizes, NULL);
}
static int32_t margin_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *t = tc_op_data(a, 1), *y = tc_op_result_data(a, 0);
  int64_t rows = x->rank == 2 ? x->sizes[0] : 1, n = x->rank ? x->sizes[x->rank - 1] : 1,
          sx = x->rank ? x->strides[x->rank - 1] : 0, st = t->rank ? t->strides[t->rank - 1] : 0,
          reduction = tc_op_int(a, 2, 1);
  double total = 0;
  for (int64_t r = 0; r < rows; r++) {
    int64_t bx = x->rank == 2 ? r * x->strides[0] : 0, bt = t->rank == 2 ? r * t->strides[0] : 0, count = 0;
    double loss = 0;
    for (int64_t k = 0; k < n; k++) {
      int64_t p = tc_ref_i(t, bt + k * st);
      if (p < -1 || p >= n) return tc_op_fail(a, "a target is out of range");
      if (p >= 0 && count == k) count++;
    }
    for (int64_t k = 0; k < n; k++) {
      bool target = false;
      for (int64_t j = 0; j < count; j++) target = target || tc_ref_i(t, bt + j * st) == k;
      for (int64_t j = 0; j < count && !target; j++)
        loss += fmax(0, 1 - (tc_ref_f(x, bx + tc_ref_i(t, bt + j * st) * sx) - tc_ref_f(x, bx + k * sx)));
    }
    loss /= (double)n;
    total += loss;
    if (reduction == 0) tc_ref_put(y, y->rank ? r : 0, (tc_c128){loss, 0});
  }
  if (reduction) tc_ref_put(y, 0, (tc_c128){reduction == 1 ? total / (double)rows : total, 0});
  return TC_STATUS_OK;
}

// `pad`: the index that is left out.
#define BAGS(pad)                                                                                                      \
  "let ends = if(include_last_offset, 1, 0); let n = indices.size(0); let bags = offsets.size(0) - ends;"              \
  "let place = unsqueeze(arange(n, dtype=i64), 1); let wide = wide(weight.dtype);"                                     \
  "let borders = to(slice(offsets, 0, 0, bags), i64);"                                                                 \
  "let first_is_0 = index_select(zeros([1], dtype=i64), 0, slice(borders, 0, 0, 1));"                                  \
  "let owner = add(sub(sum(le(unsqueeze(borders, 0), place), [1]), 1), sum(first_is_0));"                              \
  "let left_out = " pad                                                                                                \
  "; let behind = if(include_last_offset, ge(squeeze(place, 1), to(slice(offsets, 0, bags), i64)), lt(owner, 0));"     \
  "let out = logical_or(logical_or(eq(indices, left_out), behind), lt(owner, 0)); let to_row = where(out, bags, "      \
  "owner);"                                                                                                            \
  "let rows = to(index_select(weight, 0, indices), wide);"                                                             \
  "let v = if(is_none(per_sample_weights), rows, mul(rows, to(unsqueeze(per_sample_weights, 1), wide)));"              \
  "let counts = slice(index_add(zeros([bags + 1], dtype=i64), 0, to_row, ones_like(indices, dtype=i64)), 0, 0, bags);" \
  "let some = unsqueeze(gt(counts, 0), 1); let none_yet = zeros([bags + 1, weight.size(1)], dtype=wide);"              \
  "let sums = if(mode == 2, none_yet, index_add(none_yet, 0, to_row, v));"                                             \
  "let most = if(mode == 2, index_reduce(sub(none_yet, inf), 0, to_row, v, \"amax\"), sums);"                          \
  "let found = if(mode == 2, eq(v, index_select(most, 0, to_row)), none);"                                             \
  "let first = if(mode == 2, slice(index_reduce(add(zeros_like(most, dtype=i64), n), 0, to_row, where(found, place, "  \
  "n), \"amin\"), 0, 0, bags), none);"                                                                                 \
  "let y = slice(most, 0, 0, bags); let kind = indices.dtype;"                                                         \
  "to(if(mode == 0, y, if(mode == 1, div(y, unsqueeze(clamp_min(counts, 1), 1)), where(some, y, 0.0))), "              \
  "weight.dtype), if(mode == 0 && left_out < 0, zeros([0], dtype=kind), to(owner, kind)), if(mode == 0, "              \
  "zeros([bags], dtype=kind), "                                                                                        \
  "to(counts, kind)), if(mode == 0, zeros([bags], dtype=kind), if(mode == 1, to(counts, kind), if(n == 0, "            \
  "zeros_like(first, dtype=kind), to(where(some, index(indices, [clamp_max(first, n - 1)]), 0), kind))))"
#define BAG(s, pad) {.schema = s, .meta = bag_meta, .decompose = BAGS(pad), .ref = bag_ref}
// Segments along `axis` of data with all later dimensions in one; `first` and `ends` say where each begins and ends.
#define SEGMENTS                                                                                                       \
  "let by = if(is_none(lengths), offsets, lengths); let axis = by.rank - 1; let s = by.size(axis) - if(is_none("       \
  "lengths), 1, 0);"                                                                                                   \
  "let n = data.size(axis); let wide = wide(data.dtype); let x = flatten(unsqueeze(to(data, wide), -1), axis + 1, "    \
  "-1);"                                                                                                               \
  "let ends = if(is_none(lengths), slice(by, axis, 1, s + 1), cumsum(by, axis));"                                      \
  "let first = if(is_none(lengths), slice(by, axis, 0, s), sub(ends, by));"                                            \
  "let start = if(is_none(initial), if(reduce == \"max\", 0.0 - inf, if(reduce == \"min\", inf, if(reduce == "         \
  "\"prod\", "                                                                                                         \
  "1.0, 0.0))), initial);"                                                                                             \
  "let place = arange(n, dtype=i64); let owner = sum(le(unsqueeze(ends, axis), unsqueeze(place, 1)), [-1]);"           \
  "let inside = logical_and(ge(place, sum(slice(first, axis, 0, 1), [axis], true)), lt(owner, s));"                    \
  "let row = expand(unsqueeze(where(inside, owner, s), -1), x.sizes);"                                                 \
  "let base = add(zeros_like(index_select(x, axis, zeros([s + 1], dtype=i64))), start);"                               \
  "let all = if(reduce == \"sum\" || reduce == \"mean\", scatter_add(base, axis, row, x), if(reduce == \"prod\", "     \
  "scatter_reduce(base, axis, row, x, \"prod\"), scatter_reduce(base, axis, row, x, if(reduce == \"max\", \"amax\", "  \
  "\"amin\"))));"                                                                                                      \
  "let y = slice(all, axis, 0, s); let size = unsqueeze(sub(ends, first), -1); let empty = if(is_none(initial), nan, " \
  "start);"                                                                                                            \
  "let r = if(reduce == \"mean\", where(gt(size, 0), div(y, size), empty), y);"                                        \
  "to(reshape(r, index_select(data, axis, zeros([s], dtype=i64)).sizes), data.dtype)"
// Terms by target and by what is no target, of a row's list that ends at the first -1; numbers behind it must be
// targets or -1, too, which reading their elements sees to.
#define MULTILABEL                                                                                                   \
  "let w = to(self, wide(self.dtype)); let x = if(self.rank == 2, w, reshape(w, [1, -1])); let n = x.size(1);"       \
  "let t = if(target.rank == 2, target, reshape(target, [1, -1])); let valid = eq(cumsum(to(lt(t, 0), i64), 1), 0);" \
  "let j = where(valid, t, 0); let each = unsqueeze(arange(n, dtype=i64), 1);"                                       \
  "let is_target = any(logical_and(unsqueeze(valid, 1), eq(unsqueeze(j, 1), each)), 2);"                             \
  "let own = gather(x, 1, where(eq(t, -1), 0, t)); let gap = add(sub(unsqueeze(x, 2), unsqueeze(own, 1)), 1);"       \
  "let terms = where(logical_and(unsqueeze(valid, 1), logical_and(logical_not(unsqueeze(is_target, 2)), gt(gap, "    \
  "0))), gap, 0.0);"                                                                                                 \
  "let s = div(sum(terms, [1, 2]), n); let r = if(reduction == 0, if(self.rank == 2, s, squeeze(s, 0)), "            \
  "if(reduction == 1, mean(s), sum(s))); to(r, self.dtype)"
static const tc_op_def rows[] = {
    BAG("_embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool "
        "sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1) -> "
        "(Tensor, "
        "Tensor, Tensor, Tensor)",
        "padding_idx"),
    BAG("_embedding_bag_forward_only(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int "
        "mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int "
        "padding_idx=-1) "
        "-> (Tensor, Tensor, Tensor, Tensor)",
        "padding_idx"),
    BAG("embedding_bag.padding_idx(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq, int mode, "
        "bool "
        "sparse, Tensor? per_sample_weights, bool include_last_offset, int? padding_idx) -> (Tensor, Tensor, Tensor, "
        "Tensor)",
        "if(is_none(padding_idx), -1, if(padding_idx < 0, padding_idx + weight.size(0), padding_idx))"),
    BAG("embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool "
        "sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False) -> (Tensor, Tensor, Tensor, "
        "Tensor)",
        "-1"),
    {.schema = "segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? "
               "offsets=None, int axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor",
     .meta = segment_meta,
     .decompose = SEGMENTS,
     .ref = segment_ref},
    {.schema = "multilabel_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
     .meta = margin_meta,
     .decompose = MULTILABEL,
     .ref = margin_ref},
};
TC_OP_FAMILY(bags);
