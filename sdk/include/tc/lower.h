// Building from an op's arguments: graph ops (decompositions in C) and loop IR (lowerings).
//
// Graph building (`expand`): values are handles; each call makes a node and runs its meta function.
//
// Loop building (`lower`): a loop tensor (tc_lt) is a buffer seen through an index map, so views cost nothing. A node
// is built by running: open it with its domain, get index symbols, load and compute scalars, close it with what is
// stored.
//
//   // row sums of squares:
//   tc_int par[1] = {n}, red[1] = {k}, i[2];
//   tc_lo_begin_reduce(a, TC_RED_SUM, 1, par, 1, red, i);
//   tc_bval v = tc_lo_load(a, x, i);
//   tc_lt s = tc_lo_end(a, tc_lo_op2(a, TC_K_MUL, v, v), TC_F32);
//
// A failed call marks the args; later calls return -1 and the lowering fails with the first reason.
#ifndef TC_LOWER_H_
#define TC_LOWER_H_

#include "tc/kernel.h"
#include "tc/op.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Graph building ----
typedef int32_t tc_gv; // a graph value; -1 is none
tc_gv tc_ex_arg(tc_op_args *a, int32_t arg);
tc_gv tc_ex_arg_at(tc_op_args *a, int32_t arg, int32_t k);
const tc_tensor_type *tc_ex_type(tc_op_args *a, tc_gv v);
// Arguments of the op to make, pushed in order by position or by name; then make.
void tc_ex_begin(tc_op_args *a, const char *op); // "aten::mul.Tensor"
void tc_ex_push(tc_op_args *a, tc_gv v);
void tc_ex_push_list(tc_op_args *a, int32_t n, const tc_gv *v);
void tc_ex_push_int(tc_op_args *a, tc_int v);
void tc_ex_push_ints(tc_op_args *a, int32_t n, const tc_int *v);
void tc_ex_push_float(tc_op_args *a, double v);
void tc_ex_push_bool(tc_op_args *a, int32_t v);
void tc_ex_push_dtype(tc_op_args *a, tc_dtype d);
void tc_ex_push_string(tc_op_args *a, tc_sv s);
void tc_ex_push_none(tc_op_args *a);
void tc_ex_push_arg(tc_op_args *a, int32_t arg);                    // passes an argument of this op on, whatever it is
tc_gv tc_ex_make(tc_op_args *a, int32_t n_results, tc_gv *results); // returns results[0]; results may be NULL
void tc_ex_result(tc_op_args *a, int32_t result, tc_gv v);

// ---- Loop building ----
typedef int32_t tc_lt;   // a loop tensor; -1 is none
typedef int32_t tc_bval; // a scalar in the body of the open node

// Reductions. MAX/MIN propagate NaN. ARGMAX/ARGMIN: index of the first extreme (NaN counts as extreme), i64.
// WELFORD gives mean and M2 (Σ(x-mean)²) as two results; SUM of 16-bit and f32 accumulates in f32.
enum {
  TC_RED_SUM,
  TC_RED_PROD,
  TC_RED_MAX,
  TC_RED_MIN,
  TC_RED_ANY,
  TC_RED_ALL,
  TC_RED_ARGMAX,
  TC_RED_ARGMIN,
  TC_RED_WELFORD,
  TC_RED_COUNT
};

tc_lt tc_lo_arg(tc_op_args *a, int32_t arg); // a tensor argument (or a number in a Tensor slot, as a rank-0 constant)
tc_lt tc_lo_arg_at(tc_op_args *a, int32_t arg, int32_t k);
tc_dtype tc_lo_dtype(tc_op_args *a, tc_lt t);
int32_t tc_lo_rank(tc_op_args *a, tc_lt t);
tc_int tc_lo_size(tc_op_args *a, tc_lt t, int32_t dim);
void tc_lo_result(tc_op_args *a, int32_t result, tc_lt t);

// Index symbols i[0..rank) with ranges [0, sizes[k]), for index maps.
void tc_lo_indices(tc_op_args *a, int32_t rank, const tc_int *sizes, tc_int *out);
// `src` seen as a tensor of `sizes`: element (index) is src's element (map), expressions over `index`.
tc_lt tc_lo_view(tc_op_args *a, tc_lt src, int32_t rank, const tc_int *sizes, const tc_int *index, const tc_int *map);
tc_lt tc_lo_expand(tc_op_args *a, tc_lt src, int32_t rank, const tc_int *sizes);  // broadcast from the right
tc_lt tc_lo_reshape(tc_op_args *a, tc_lt src, int32_t rank, const tc_int *sizes); // row-major order of the elements

// Opens a pointwise node over `sizes`.
void tc_lo_begin(tc_op_args *a, int32_t rank, const tc_int *sizes, tc_int *out_index);
// Opens a reduction: out_index gets the parallel indices, then the reduced ones.
void tc_lo_begin_reduce(tc_op_args *a, int32_t kind, int32_t n_par, const tc_int *par_sizes, int32_t n_red,
                        const tc_int *red_sizes, tc_int *out_index);
tc_bval tc_lo_load(tc_op_args *a, tc_lt t, const tc_int *index); // index per dimension of t
// The same with run-time indices: where idx[k] >= 0 that body value replaces index[k]. It is checked against the size
// (after adding the size to negative ones if `wrap`): out of range is a run-time error that names the op.
tc_bval tc_lo_gather(tc_op_args *a, tc_lt t, const tc_int *index, const tc_bval *idx, int32_t wrap);
// Where the condition over indices is false the load is not made and `otherwise` is given (pads, masks).
tc_bval tc_lo_load_if(tc_op_args *a, tc_lt t, const tc_int *index, tc_int condition, tc_bval otherwise);
tc_bval tc_lo_index(tc_op_args *a, tc_int e, tc_dtype dtype); // an integer expression as a scalar
tc_bval tc_lo_const(tc_op_args *a, tc_dtype dtype, double re, double im);
tc_bval tc_lo_const_int(tc_op_args *a, tc_dtype dtype, int64_t v);
tc_bval tc_lo_op1(tc_op_args *a, int32_t op, tc_bval x); // TC_K_*; complex types allowed
tc_bval tc_lo_op2(tc_op_args *a, int32_t op, tc_bval x, tc_bval y);
tc_bval tc_lo_op3(tc_op_args *a, int32_t op, tc_bval x, tc_bval y, tc_bval z);
tc_bval tc_lo_cast(tc_op_args *a, tc_bval x, tc_dtype dtype);
// Evaluates a text of the scalar language with named values: names[i] stands for values[i].
tc_bval tc_lo_text(tc_op_args *a, const char *body, int32_t n, const char *const *names, const tc_bval *values);
// The open node's result is always made in memory, never computed again where it is used: a packed layout.
void tc_lo_keep(tc_op_args *a);
// Closes the node: what is stored or reduced, and the dtype of the result buffer.
tc_lt tc_lo_end(tc_op_args *a, tc_bval value, tc_dtype dtype);
void tc_lo_end2(tc_op_args *a, tc_bval value, tc_dtype dtype, tc_lt out[2]); // reductions with two results

// Elements of the longest heads that the core's templates of attention take; how many a head has is a constant there.
enum { TC_ATTENTION_LONGEST = 512 };
// Kinds of the core's template "scan" (its first attribute): running sums, products, positions of the maximum and of
// the minimum, log(Σ exp).
enum { TC_SCAN_SUM, TC_SCAN_PROD, TC_SCAN_MAX, TC_SCAN_MIN, TC_SCAN_LOGSUM };
// Kinds of the core's template "scatter": the last one stays, or all of them are combined.
enum { TC_SCATTER_SET, TC_SCATTER_ADD, TC_SCATTER_MUL, TC_SCATTER_MAX, TC_SCATTER_MIN };
// Kinds of the core's template "iterate" (its first attribute): functions of two operands whose number of steps comes
// from data. Polynomials of the first operand whose degree is the second; zeta(s, q), P(a, x), Q(a, x); of integers.
enum {
  TC_ITERATE_T,
  TC_ITERATE_U,
  TC_ITERATE_V,
  TC_ITERATE_W,
  TC_ITERATE_SHIFTED_T,
  TC_ITERATE_SHIFTED_U,
  TC_ITERATE_SHIFTED_V,
  TC_ITERATE_SHIFTED_W,
  TC_ITERATE_H,
  TC_ITERATE_HE,
  TC_ITERATE_L,
  TC_ITERATE_P,
  TC_ITERATE_ZETA,
  TC_ITERATE_GAMMA_LOWER,
  TC_ITERATE_GAMMA_UPPER,
  TC_ITERATE_GCD,
  TC_ITERATE_LCM
};
// What the core's template "sort" compares: values of up to 32 bits, or a half of those of 64.
enum { TC_SORT_WHOLE, TC_SORT_LOW, TC_SORT_HIGH };

// A template node (KERNELS.md §4): `name` is a registered template; it gets this op's arguments and the operands.
tc_lt tc_lo_template(tc_op_args *a, const char *name, int32_t n, const tc_lt *operands, tc_dtype dtype, int32_t rank,
                     const tc_int *sizes, int32_t n_attrs, const tc_int *attrs);
// A call node: the op itself, done by a library of the device or by the fallback.
void tc_lo_call(tc_op_args *a);

#ifdef __cplusplus
}
#endif
#endif
