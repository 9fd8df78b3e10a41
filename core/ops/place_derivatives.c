// Derivatives of ops that read or write at places: indexing, scattering, sorting, running sums and products, bags.
//
// What was read is added up where it stood; what was written is read where it went. Products are differentiated without
// dividing by zero: the only zero of a line (or of a place) sees the product of the others, and all behind or beside it
// see zero.
#include "core/ops/ops.h"

#define BACK "if(keepdim || self.rank == 0, grad, unsqueeze(grad, dim))"
#define BACK_INDEX "if(keepdim || self.rank == 0, result1, unsqueeze(result1, dim))"
#define REVERSED(op, x) "flip(" op "(flip(" x ", [dim]), dim), [dim])"
// Of a single element all is read.
#define OF_ONE(x) "self: if(self.rank == 0, reshape(sum(grad), []), " x ")"
#define EXTREME OF_ONE("scatter_add(zeros_like(self), dim, result1, grad)")
#define CHOSEN OF_ONE("scatter(zeros_like(self), dim, result1, grad)")

// ---- reductions into places ----
// `read`: the elements that a source went to; `add`: sources added to what is there; `again`: the op itself.
#define READ_ALONG(x) "gather(" x ", dim, index)"
// As in PyTorch; tensors of rank 0 and 1 may stand for one another.
#define OF_INDEX_SIZE(x)                                                                                   \
  "if(index.sizes != src.sizes && (index.rank == src.rank || index.rank > 1 || src.rank > 1), fail(\"the " \
  "derivative of a scatter needs a source of the index's size\"), " x ")"
#define NO_INDEX_SIZE(x) x
#define ADD_ALONG(to, x) "scatter_add(" to ", dim, index, " x ")"
#define CLEAR_ALONG(x) "scatter(" x ", dim, index, 0)"
#define AGAIN_ALONG(self, src) "scatter_reduce(" self ", dim, index, " src ", reduce, include_self=include_self)"
#define READ_ROWS(x) "index_select(" x ", dim, index)"
#define ADD_ROWS(to, x) "index_add(" to ", dim, index, " x ")"
#define CLEAR_ROWS(x) "index_fill(" x ", dim, to(index, i64), 0)"
#define AGAIN_ROWS(self, src) "index_reduce(" self ", dim, index, " src ", reduce, include_self=include_self)"
// clang-format off: one statement a line
#define REDUCED(src, OF_SIZE, READ, ADD, CLEAR, AGAIN) \
  "let sum = reduce == \"sum\" || reduce == \"add\"; " \
  "let many = maximum(" ADD("if(include_self, ones_like(self), zeros_like(self))", "ones_like(" src ")") ", 1); " \
  "let here = to(eq(self, result), self.dtype); " \
  "let there = to(eq(" src ", " READ("result") "), self.dtype); " \
  "let share = div(grad, maximum(" ADD("if(include_self, here, " CLEAR("here") ")", "there") ", 1)); " \
  "let zero = eq(" src ", 0); " \
  "let alone = logical_and(zero, eq(" READ(ADD("zeros_like(self)", "to(zero, self.dtype)")) ", 1)); " \
  "let rest = where(alone, " READ("mul(grad, conj(" AGAIN("self", "where(alone, 1, " src ")") "))") ", " \
  "div(" READ("mul(grad, conj(result))") ", conj(where(zero, 1, " src ")))); " \
  "let mine = if(sum, grad, if(reduce == \"mean\", div(grad, many), " \
  "if(reduce == \"prod\", mul(grad, conj(" AGAIN("ones_like(self)", src) ")), mul(here, share)))); " \
  "self: if(include_self, mine, " CLEAR("mine") "); " \
  src ": " OF_SIZE("if(sum, " READ("grad") ", if(reduce == \"mean\", " READ("div(grad, many)") ", " \
  "if(reduce == \"prod\", rest, mul(there, " READ("share") "))))")
// clang-format on

// ---- bags: rows of indices from offsets[k] to offsets[k + 1]; mode 0 sum, 1 mean, 2 max ----
#define BAGS(padding)                                                                                               \
  "let bag = bucketize(arange(indices.size(0)), slice(offsets, 0, 1), right=true); let inside = lt(bag, "           \
  "grad.size(0)); let owner = clamp_max(bag, grad.size(0) - 1); let valid = logical_and(inside, " padding           \
  "); let g = index_select(if(mode == 1, div(grad, unsqueeze(to(maximum(result2, 1), grad.dtype), 1)), grad), 0, "  \
  "owner); let scaled = if(is_none(per_sample_weights), g, mul(g, unsqueeze(per_sample_weights, 1))); let times = " \
  "index_select(index_add(zeros([weight.size(0)], dtype=grad.dtype), 0, indices, ones([indices.size(0)], "          \
  "dtype=grad.dtype)), 0, indices); let rare = if(scale_grad_by_freq, div(scaled, unsqueeze(times, 1)), scaled);"   \
  "weight: if(mode == 2, scatter_add(zeros_like(weight), 0, result3, mul(grad, unsqueeze(gt(result2, 0), 1))), "    \
  "index_add(zeros_like(weight), 0, indices, mul(rare, unsqueeze(valid, 1)))); per_sample_weights: "                \
  "mul(sum(mul(g, index_select(weight, 0, indices)), [1]), valid)"
#define ALL_VALID "ones_like(indices, dtype=bool)"
#define NOT_PADDING "if(is_none(padding_idx), " ALL_VALID ", ne(indices, padding_idx))"
#define NOT_WRAPPED                                                                                        \
  "if(is_none(padding_idx), " ALL_VALID ", ne(indices, if(padding_idx < 0, padding_idx + weight.size(0), " \
  "padding_idx)))"

// One value through a mask may have more dimensions than what the mask selects; a mask without a dimension takes all of
// self or nothing, and no index at all writes nothing.
#define PUT                                                                                                     \
  "let own = given(indices); let bare = if(len(own) == 1, own[0].rank == 0 && own[0].dtype == bool, false); "   \
  "let g = if(len(indices) == 0, zeros_like(values), if(bare, where(own[0], grad, 0), index(grad, indices))); " \
  "self: if(accumulate || len(indices) == 0, grad, index_put(grad, indices, zeros([], dtype=grad.dtype)));"     \
  "values: if(bare || values.rank > g.rank, reshape(sum(g), values.sizes), g)"
static const tc_op_derivative derivatives[] = {
    {"index_put", PUT},
    {"_unsafe_index_put", PUT},
    {"index_add", "self: grad; source: mul(index_select(grad, dim, index), conj(alpha))"},
    {"index_copy", "self: index_fill(grad, dim, to(index, i64), 0); source: index_select(grad, dim, index)"},
    {"index_fill.int_Scalar", "self: index_fill(grad, dim, index, 0)"},
    {"scatter.src", "self: scatter(grad, dim, index, 0); src: " OF_INDEX_SIZE("gather(grad, dim, index)")},
    {"scatter.value", "self: scatter(grad, dim, index, 0)"},
    {"scatter_add", "self: grad; src: " OF_INDEX_SIZE("gather(grad, dim, index)")},
    {"scatter.reduce", "forward: scatter_reduce(self, dim, index, src, if(reduce == \"add\", \"sum\", \"prod\"))"},
    {"scatter.value_reduce", "forward: scatter_reduce(self, dim, index, full(index.sizes, value, dtype=self.dtype), "
                             "if(reduce == \"add\", \"sum\", "
                             "\"prod\"))"},
    {"scatter_reduce.two", REDUCED("src", OF_INDEX_SIZE, READ_ALONG, ADD_ALONG, CLEAR_ALONG, AGAIN_ALONG)},
    {"index_reduce", REDUCED("source", NO_INDEX_SIZE, READ_ROWS, ADD_ROWS, CLEAR_ROWS, AGAIN_ROWS)},
    {"slice_scatter",
     "self: slice_scatter(grad, zeros_like(src), dim, start, end, step); src: aten::slice.Tensor(grad, dim, start, "
     "end, step)"},
    {"select_scatter", "self: select_scatter(grad, zeros_like(src), dim, index); src: select(grad, dim, index)"},
    {"sort", CHOSEN},
    {"sort.stable", CHOSEN},
    {"topk", CHOSEN},
    {"mode", OF_ONE("scatter(zeros_like(self), dim, " BACK_INDEX ", " BACK ")")},
    {"cummax", EXTREME},
    {"cummin", EXTREME},
    {"cumprod",
     "let x = to(self, result.dtype); let zero = eq(x, 0); let zeros_ = cumsum(to(zero, i64), dim); let first = "
     "logical_and(zero, eq(zeros_, 1)); let y = where(first, 1, x); self: if(self.rank == 0, grad, "
     "where(first, " REVERSED("cumsum", "mul(grad, conj(cumprod(y, dim)))") ", where(gt(zeros_, 0), 0, div(" REVERSED(
         "cumsum", "mul(grad, "
                   "conj(result))") ", conj(y)))))"},
    // Signs apart, for the sums are taken of logarithms.
    {"logcumsumexp",
     "let up = log(maximum(grad, 0)); let down = log(maximum(neg(grad), 0)); self: if(self.rank == 0, grad, "
     "if(is_complex(self), mul(conj(exp(self)), " REVERSED(
         "cumsum",
         "mul(grad, conj(exp(neg(result))))") "), sub(exp(add(" REVERSED("logcumsumexp",
                                                                         "sub(up, result)") ", self)), "
                                                                                            "exp(add(" REVERSED(
                                                                                                "logcum"
                                                                                                "sumex"
                                                                                                "p",
                                                                                                "sub("
                                                                                                "down, "
                                                                                                "result"
                                                                                                ")") ","
                                                                                                     " "
                                                                                                     "s"
                                                                                                     "e"
                                                                                                     "l"
                                                                                                     "f"
                                                                                                     ")"
                                                                                                     ")"
                                                                                                     ")"
                                                                                                     ")"
                                                                                                     ")"},
    {"repeat", "self: reshape(sum(reshape(grad, pairs(repeats, self.sizes)), evens(len(repeats))), self.sizes)"},
    {"repeat_interleave.self_Tensor",
     "let x = if(is_none(dim), reshape(self, [-1]), self); let d = if(is_none(dim), 0, dim); let n = x.size(d); self: "
     "reshape(index_add(zeros_like(x), d, to(repeat_interleave(expand(repeats, [n]), "
     "output_size=grad.size(d)), i64), grad), self.sizes)"},
    {"combinations",
     "self: index_add(zeros_like(self), 0, reshape(combinations(arange(self.size(0)), r, with_replacement), [-1]), "
     "reshape(grad, [-1]))"},
    // How many were taken before an element says where its gradient is; the others read a zero in front.
    {"masked_select",
     "let m = logical_and(mask, ones_like(self, dtype=bool)); let flat = reshape(m, [-1]); let at = where(flat, "
     "cumsum(to(flat, i64), 0), 0); self: reshape(index(cat([zeros([1], dtype=grad.dtype), grad], 0), [at]), m.sizes)"},
    {"unfold",
     "let at = reshape(unfold(arange(self.size(dimension)), 0, size, step), [-1]); let d = if(dimension < 0, dimension "
     "+ self.rank, dimension); let g = movedim(grad, -1, d + 1); self: if(self.rank == 0, if(size == 0, "
     "zeros_like(self), reshape(grad, [])), "
     "index_add(zeros_like(self), d, at, reshape(g, part(g.sizes, 0, d) + [at.numel] + part(g.sizes, d + 2, "
     "g.rank))))"},
    // By way of the storage: each element of it is what the views share. Elements of self that lie in one place share
    // its gradient evenly, as in PyTorch.
    {"as_strided",
     "let from = if(is_none(storage_offset), self.offset, storage_offset); let n = max(self.offset + "
     "span(self.sizes, self.strides), from + span(size, stride)); let places = arange(n); let at = "
     "reshape(as_strided(places, size, stride, from), [-1]); let all = index_add(zeros([n], dtype=grad.dtype), 0, at, "
     "reshape(grad, [-1])); let own = reshape(as_strided(places, self.sizes, self.strides, self.offset), [-1]); let "
     "here = maximum(index_add(zeros([n], dtype=self.real_dtype), 0, own, "
     "ones([own.numel], dtype=self.real_dtype)), 1); self: as_strided(if(is_row_major(self), all, div(all, here)), "
     "self.sizes, self.strides, self.offset)"},
    // As PyTorch has it: what is read of self is only what src covers.
    {"as_strided_scatter", "let taken = as_strided(grad, size, stride, storage_offset); self: "
                           "as_strided_scatter(zeros_like(self), taken, size, "
                           "stride, storage_offset); src: taken"},
    {"bincount", "weights: index(grad, [to(self, i64)])"},
    {"_embedding_bag", BAGS(NOT_PADDING)},
    {"_embedding_bag_forward_only", BAGS(NOT_PADDING)},
    {"embedding_bag.padding_idx", BAGS(NOT_WRAPPED)},
    {"embedding_bag", BAGS(ALL_VALID)},
    // Rows in front of the first segment and behind the last belong to none. Batches of rows become one behind another.
    {"segment_reduce",
     "let ends = if(is_none(lengths), slice(offsets, -1, 1), cumsum(lengths, -1)); let n = ends.size(-1); let place = "
     "arange(data.size(ends.rank - 1)); let owner = if(ends.rank == 1, bucketize(place, ends, right=true), "
     "sum(to(ge(unsqueeze(place, 1), unsqueeze(ends, -2)), i64), [-1])); let batch = if(ends.rank == 1, 0, "
     "reshape(mul(arange(ends.numel // max(n, 1)), n), part(ends.sizes, 0, ends.rank - 1) + [1])); let at = "
     "reshape(add(clamp(owner, 0, max(n - 1, 0)), batch), [-1]); let rest = part(data.sizes, ends.rank, data.rank); "
     "let "
     "valid = if(is_none(lengths), logical_and(lt(owner, n), ge(place, slice(offsets, -1, 0, 1))), lt(owner, n)); let "
     "inside = reshape(to(valid, grad.dtype), [at.numel] + repeated(1, len(rest))); let flat = [ends.numel] + rest; "
     "let "
     "x = reshape(data, [at.numel] + rest); let y = index_select(reshape(result, flat), 0, at); let g = "
     "mul(index_select(reshape(grad, flat), 0, at), inside); let none_ = zeros(flat, dtype=grad.dtype); let there = "
     "mul(to(eq(x, y), grad.dtype), inside); let zero = eq(x, 0); let count = index_add(none_, 0, at, "
     "mul(ones_like(x), inside)); let ties = index_add(none_, 0, at, there); let zeros_ = index_add(none_, 0, at, "
     "mul(to(zero, grad.dtype), inside)); let alone = logical_and(zero, eq(index_select(zeros_, 0, at), 1)); let "
     "others "
     "= index_select(reshape(segment_reduce(reshape(where(alone, 1, x), data.sizes), reduce, lengths=lengths, "
     "indices=indices, offsets=offsets, axis=axis, unsafe=unsafe, initial=initial), flat), 0, at); data: if(n == 0, "
     "zeros_like(data), reshape(if(reduce == \"sum\", g, if(reduce == \"mean\", div(g, maximum(index_select(count, 0, "
     "at), 1)), if(reduce == \"prod\", where(alone, mul(g, others), div(mul(g, y), where(zero, 1, x))), div(mul(g, "
     "there), maximum(index_select(ties, 0, at), 1))))), data.sizes))"},
};
TC_OP_DERIVATIVES(place_derivatives);
