// The core's op families: one file per family, each one array of rows (tc/op.h). docs/ADDING_AN_OP.md shows how to add
// one; nothing but the row's own file changes.
#ifndef TC_CORE_OPS_OPS_H_
#define TC_CORE_OPS_OPS_H_

#include "core/ir/op.h"
#include "core/ir/opargs.h"

#include "tc/lower.h"

// X(family): every family file defines `const tc_op_family tc_ops_<family>`.
// clang-format off
#define TC_OP_FAMILIES(X)                                                                                   \
  X(arithmetic) X(unary) X(compare) X(activation) X(cast) X(create) X(view) X(reduce) X(softmax) X(norm)    \
  X(matmul) X(attention) X(attention_backward) X(effect) X(join) X(pad) X(split) X(rearrange) X(complex) X(conv) X(upsample)      \
  X(conv_packed) \
  X(sample) X(patches) X(conv_backward) X(pool) X(index) X(extreme) X(scan) X(batch_norm) X(composite) X(scatter)            \
  X(index_put) X(sort)                                                                                      \
  X(loss) X(ctc) X(grouped) X(vector_norm) X(contract) X(numeric) X(window) X(calculus) X(special)                            \
  X(scatter_reduce) X(masked) X(order) X(backward) X(linalg) X(random) X(bags)                                                              \
  X(control) X(item) X(compact) X(unique) X(statistics) X(aliases) X(recurrent)                                                                \
  X(space_derivatives) X(place_derivatives) X(linalg_derivatives) X(value_derivatives) X(sample_steps) X(restrictions)
// clang-format on
#define X(family) extern const tc_op_family tc_ops_##family;
TC_OP_FAMILIES(X)
#undef X
#define TC_OP_TABLE(table) (table), (int32_t)(sizeof(table) / sizeof *(table))
#define TC_OP_NO_TABLE NULL, 0
#define TC_OP_FAMILY(family) \
  const tc_op_family tc_ops_##family = {TC_OP_TABLE(rows), TC_OP_NO_TABLE, TC_OP_NO_TABLE, TC_OP_NO_TABLE}
// The same with a table `derivatives` of rows that macros write, or a table `refusals`, or both.
#define TC_OP_FAMILY_WITH_DERIVATIVES(family) \
  const tc_op_family tc_ops_##family = {TC_OP_TABLE(rows), TC_OP_TABLE(derivatives), TC_OP_NO_TABLE, TC_OP_NO_TABLE}
#define TC_OP_FAMILY_WITH_REFUSALS(family) \
  const tc_op_family tc_ops_##family = {TC_OP_TABLE(rows), TC_OP_NO_TABLE, TC_OP_TABLE(refusals), TC_OP_NO_TABLE}
#define TC_OP_FAMILY_WITH_BOTH(family)                                                                      \
  const tc_op_family tc_ops_##family = {TC_OP_TABLE(rows), TC_OP_TABLE(derivatives), TC_OP_TABLE(refusals), \
                                        TC_OP_NO_TABLE}

// A family of derivatives only, for ops that other files declare.
#define TC_OP_DERIVATIVES(family) \
  const tc_op_family tc_ops_##family = {TC_OP_NO_TABLE, TC_OP_TABLE(derivatives), TC_OP_NO_TABLE, TC_OP_NO_TABLE}

// Registers every family.
TC_NODISCARD tc_status tc_ops_register_core(tc_op_registry *r);

// ---- meta functions that families share (meta.c) ----
int32_t tc_meta_same(tc_op_args *a);            // unary pointwise, the argument's dtype
int32_t tc_meta_float(tc_op_args *a);           // unary pointwise; integers and bool give the default float
int32_t tc_meta_real_part(tc_op_args *a);       // unary pointwise; complex gives its real dtype
int32_t tc_meta_same_strides(tc_op_args *a);    // argument 0's dtype, sizes and strides, also where those leave holes
int32_t tc_meta_bool(tc_op_args *a);            // pointwise over all Tensor and Scalar arguments, result bool
int32_t tc_meta_promote(tc_op_args *a);         // pointwise over all Tensor and Scalar arguments, promoted
int32_t tc_meta_promote_float(tc_op_args *a);   // the same; integers and bool give the default float
int32_t tc_meta_promote_tensors(tc_op_args *a); // pointwise over the Tensor arguments only, promoted
int32_t tc_meta_promote_swapped(tc_op_args *a); // over arguments 1 and 0, in this order
int32_t tc_meta_row_major(tc_op_args *a);       // argument 0's dtype and sizes in row-major order
int32_t tc_meta_same_float(tc_op_args *a);      // tc_meta_same; refuses integers and bools
// The number in an argument, if it is known when the call is checked: no value from data, no symbol.
bool tc_op_known_number(const tc_op_args *a, int32_t arg, tc_number *out);
// PyTorch's checks of numbers, each a failure of the call where it does not hold. A number that is not known passes.
int32_t tc_op_number_fits(tc_op_args *a, int32_t arg, tc_dtype d); // can be converted to d (c10's `overflows`)
int32_t tc_op_bounds_fit(tc_op_args *a, int32_t min, int32_t max, tc_dtype d); // clamp's: something of d lies between
int32_t tc_op_alpha_fits(tc_op_args *a, int32_t arg, tc_dtype d); // the factor of sums: no reals among integers …
int32_t tc_op_needs_floats(tc_op_args *a, tc_dtype d);            // the op has no meaning on integers and bools
// Numbers of the Tensor and Scalar arguments that take part in promotion; `n` of them.
int32_t tc_promoting_args(tc_op_args *a, int32_t out[8]);

// Dimensions of a reduction: the list argument `dims` (absent or empty: all), wrapped and checked. Marks reduced[d].
int32_t tc_reduced_dims(tc_op_args *a, int32_t dims, int32_t rank, bool reduced[TC_MAX_RANK]);
// Result of a reduction over the marked dimensions.
int32_t tc_meta_reduced(tc_op_args *a, int32_t result, tc_dtype dtype, const bool *reduced, bool keepdim);
// Lowers a reduction of tensor `x` over the marked dimensions; the element goes through `body` (a scalar text in `v`,
// NULL: as it is) in type `compute` and the sum has type `out`. The result has the reduced dimensions dropped, or kept
// as 1.
tc_lt tc_lower_reduced(tc_op_args *a, tc_lt x, int32_t kind, const bool *reduced, bool keepdim, const char *body,
                       tc_dtype compute, tc_dtype out);
// Where a long reduction that reads its elements twice is cut, so that a part stays in the cache: a dimension becomes
// [parts, part]; `part` and what is reduced inside of it, `count` elements, are one part.
typedef struct tc_reduction_cut {
  int32_t dim; // -1: it is not cut
  int64_t parts, part, count;
} tc_reduction_cut;
tc_reduction_cut tc_cut_reduction(tc_op_args *a, tc_lt x, const bool *reduced);
// x with that dimension as two; which of its dimensions are reduced in a part, and which in all (TC_MAX_RANK each).
tc_lt tc_cut_view(tc_op_args *a, tc_lt x, const bool *reduced, const tc_reduction_cut *c, bool *inside, bool *all);
// Elementwise text over loop tensors that are broadcast to the first one's sizes: names[i] is x[i].
tc_lt tc_lower_text(tc_op_args *a, const char *text, int32_t n, const char *const *names, const tc_lt *x,
                    tc_dtype compute, tc_dtype out);
tc_lt tc_lower_cast(tc_op_args *a, tc_lt x, tc_dtype to); // x itself where it has the type
tc_dtype tc_op_math_type(tc_dtype d);                     // the type to compute in: f16, bf16 → f32
// The same over tensor and number arguments, broadcast to the result's sizes: names[i] is argument args[i]. Sets result
// 0.
int32_t tc_lower_args(tc_op_args *a, const char *text, int32_t n, const char *const *names, const int32_t *args,
                      tc_dtype compute);
// channels_last (also 3d) where the strides suggest it (c10's suggest_memory_format), else contiguous.
int32_t tc_suggested_format(tc_op_args *a, const tc_tensor_type *t);
// The same of [N, C, L], which PyTorch computes as the image [N, C, 1, L].
int32_t tc_suggested_row_format(tc_op_args *a, const tc_tensor_type *t);
// Strides of [N, C, L] or [C, L] with the channels innermost.
void tc_row_strides(tc_op_args *a, int32_t rank, const tc_int *sizes, tc_int *strides);
int64_t tc_op_dim(tc_op_args *a, int32_t arg,
                  int32_t rank); // a dimension argument, wrapped; 0 for rank 0; -1 after a failure
// Integer k of the argument, which has to be known: a failure where it is a symbol; `otherwise` where there is none.
int64_t tc_op_known(tc_op_args *a, int32_t arg, int32_t k, int64_t otherwise);
// A size: a symbol is held to be one, and never what a negative number would mean in its place.
int32_t tc_op_require_size(tc_op_args *a, tc_int size);
tc_int tc_op_numel(tc_op_args *a, const tc_tensor_type *t);
// Tensor argument `arg` must broadcast to these sizes; a failure that names both where it does not.
int32_t tc_op_fits(tc_op_args *a, int32_t arg, int32_t rank, const tc_int *sizes);
// lo ≤ e < hi as a condition, without what is known to hold.
tc_int tc_int_within(tc_op_args *a, tc_int e, tc_int lo, tc_int hi);

// ---- ranges of a dimension of argument 0, as view results (view.c) ----
// A slice of argument 0 as slice.Tensor takes it: dim, start, end, step are the arguments from `first` on.
int32_t tc_op_read_slice(tc_op_args *a, int32_t first, int64_t *dim, tc_int *start, tc_int *length, tc_int *step);
int32_t tc_view_range(tc_op_args *a, int32_t result, int64_t dim, tc_int start, tc_int length);
void tc_lower_range(tc_op_args *a, int32_t result, int64_t dim, tc_int start, tc_int step);

// A condition over indices as a bool of the open node's body.
tc_bval tc_lower_condition(tc_op_args *a, tc_int condition);
// Two 16-bit floats as one i32: the bits of the first in its low half (operands of dot2; see tc_lo_pairs).
tc_bval tc_lower_pair(tc_op_args *a, const tc_bval halves[2]);

// ---- advanced indexing (index.c) ----
// Dimension d of self is indexed by list element `by[d]` (or -1). Index tensors broadcast together; their dimensions
// take the place of the indexed ones if those are adjacent, else they come first. A mask of rank m stands for m
// indices: the positions where it is true, as many as there are.
typedef struct tc_indexing {
  int32_t rank, n_indexed; // of self
  int32_t by[TC_MAX_RANK];
  int32_t mask_dim[TC_MAX_RANK]; // which dimension of the mask, or -1
  bool masks;
  int32_t nb, at; // broadcast dimensions, and where they stand in the result
  tc_int bsizes[TC_MAX_RANK];
} tc_indexing;
bool tc_is_index_mask(const tc_tensor_type *t); // of bool, or of bytes as in older programs
// A failure where one of the Tensor?[] argument holds no integers or masks.
int32_t tc_check_indices(tc_op_args *a, int32_t list);
// `list`: number of the Tensor?[] argument. `count`: the size of masks' index (NULL: made here).
int32_t tc_read_indexing(tc_op_args *a, int32_t list, tc_int count, tc_indexing *x);
// Decomposition of an op whose index list (argument 1) has masks: indices instead. Declines where there are none.
int32_t tc_expand_masks(tc_op_args *a);
// Sizes of the result, and which of self's dimensions each is (-1: a broadcast one). Returns their number.
int32_t tc_indexed_sizes(tc_op_args *a, const tc_indexing *x, tc_int *sizes, int32_t *from);

// ---- writing at positions (scatter.c) ----
// Elements of `values` [m, …] at `positions` [m, …] of the first dimension of `self` [n, …], with a kind
// (TC_SCATTER_*); `negative`: what positions below zero mean (TC_NEGATIVE_*).
tc_lt tc_lower_scatter(tc_op_args *a, int32_t kind, int32_t across, int32_t negative, tc_lt self, tc_lt positions,
                       tc_lt values, tc_dtype dtype);
// Arguments self, dim, index of as many dimensions, source or number: refuses an index that is larger than self beside
// `dim`, or than the source. An empty one always fits.
int32_t tc_scatter_check(tc_op_args *a, int64_t dim);
// Is it an op whose index has all dimensions, and no element? It gives self, whatever the other ranks are.
bool tc_scatters_nothing(tc_op_args *a);
// Positions (argument 2) and values (argument 3) with dimension `dim` first, as large as self in the others: what a
// smaller index does not reach is left out. `whole`: the index has all dimensions, else it is a vector. Returns what
// positions below zero mean.
int32_t tc_scatter_operands(tc_op_args *a, bool whole, int64_t dim, tc_lt *positions, tc_lt *values);
// Decomposition of an op (self, dim, index, source or number, …) on a tensor of rank 0, or that scatters nothing;
// declines for others.
int32_t tc_expand_rank0_scatter(tc_op_args *a);
// Where self may be changed in place (tc_lo_in_place): the elements of `values` go to the places of dimension `dim`
// that idx names, a vector or (rank > 1) as many dimensions as self; `wrap`: negative places count from the end. Sets
// result 0.
int32_t tc_lower_along_in_place(tc_op_args *a, int32_t dim, tc_lt idx, bool wrap, tc_lt values);
// Lanes run across columns if those lie side by side: the last dimension, unless it is the one that is scattered along
// or has a handful of elements.
// 0: they do not; 2: all columns have the same positions, as those of a vector are (`whole`: each has its own); 1: they
// may differ.
int32_t tc_scatter_across(tc_op_args *a, const tc_tensor_type *t, bool last_indexed, bool whole);
// The type to add up in: 16-bit sums are rounded once, and so are those of f32 where places get more than 64 elements
// on average (small results then).
tc_dtype tc_scatter_type(tc_op_args *a, tc_dtype dtype, tc_int places, tc_int elements);
// The same elements in another dtype, or the same tensor.
tc_lt tc_lower_converted(tc_op_args *a, tc_lt x, tc_dtype dtype);
// The tensor with dimension `from` in the place of number `to`, the others in order.
tc_lt tc_lower_moved(tc_op_args *a, tc_lt x, int64_t from, int64_t to);
void tc_ref_self(tc_op_args *a); // the result is a copy of argument 0
void tc_ref_add(const tc_ref_view *y, int64_t to, const tc_ref_view *s, int64_t from, tc_number alpha);

// log(e^x + e^y) (composite.c)
tc_c128 tc_ref_logaddexp(tc_c128 x, tc_c128 y);

// ---- advanced indexing in references (index.c): where the elements lie that a list of index tensors names ----
typedef struct tc_index_positions {
  int32_t rank, nb, at; // of self; broadcast dimensions of the indices, and where they stand in the result
  bool indexed[TC_MAX_RANK];
  const int64_t *data[TC_MAX_RANK]; // by self's dimension
  int64_t strides[TC_MAX_RANK][TC_MAX_RANK], bsizes[TC_MAX_RANK];
} tc_index_positions;
int32_t tc_ref_positions(tc_op_args *a, int32_t list, tc_index_positions *p);
int32_t tc_ref_indexed_sizes(const tc_index_positions *p, const tc_ref_view *self, int64_t *sizes); // the rank
// Offset in self of the element at `index` of the result; -1 and a failure where an index is out of range.
int64_t tc_ref_position(tc_op_args *a, const tc_index_positions *p, const tc_ref_view *self, const int64_t *index);

// ---- norms (norm.c) ----
// Parameters of a norm (weight, bias, running statistics; -1 or absent ones do not count) share the dtype of argument
// 0, or are all f32 where that is of 16 bits. Fails the call if not.
int32_t tc_norm_parameters(tc_op_args *a, int32_t n, const int32_t *args);

// ---- iteration over reference views (ref.c) ----
// Steps `index` through `sizes` in row-major order; false at the end.
bool tc_ref_next(int32_t rank, const int64_t *sizes, int64_t *index);
int64_t tc_ref_offset(const tc_ref_view *v, const int64_t *index); // by v's strides, broadcast not applied
int64_t tc_ref_numel(const tc_ref_view *v);
double tc_ref_f(const tc_ref_view *v, int64_t offset); // as double, whatever the class
// Converted to float d if it is of another type, in a run that rounds.
double tc_ref_f_as(const tc_op_args *a, const tc_ref_view *v, int64_t offset, tc_dtype d);
tc_c128 tc_ref_c(const tc_ref_view *v, int64_t offset);
int64_t tc_ref_i(const tc_ref_view *v, int64_t offset);
void tc_ref_put(const tc_ref_view *v, int64_t offset,
                tc_c128 x); // as v's class; imaginary parts of real results are dropped
void tc_ref_put_i(const tc_ref_view *v, int64_t offset, int64_t x);
// Complex products and quotients (Smith's) by the plain formulas, as PyTorch computes them: what is not finite comes
// out accordingly.
tc_c128 tc_ref_product(tc_c128 x, tc_c128 y);
tc_c128 tc_ref_quotient(tc_c128 x, tc_c128 y);
// Copies an element; integers stay exact among themselves.
void tc_ref_copy(const tc_ref_view *to, int64_t to_offset, const tc_ref_view *from, int64_t from_offset);

// Lowering of a pointwise op of two arguments by the template "iterate" (TC_ITERATE_*).
int32_t tc_lower_iterate(tc_op_args *a, int32_t kind);

#endif
