// Declaring an op: one row says all there is to know about it. The core's own ops (core/ops) are rows of this very
// struct and go through the same registrar as a plugin's.
//
// The functions a row names get one `tc_op_args`: the arguments of one use of the op, in schema order, defaults filled
// in. What may be called on it depends on the moment: meta (sizes are symbolic, no data), reference (data there, sizes
// are numbers), lower (loop IR is built, tc/lower.h). Arguments are named by their number in the schema.
//
// Thread-safety: a tc_op_args belongs to the call it is passed to. Rows are immutable.
#ifndef TC_OP_H_
#define TC_OP_H_

#include "tc/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tc_op_args tc_op_args;
typedef const struct tc_sym *tc_int; // a symbolic integer; borrowed until the compilation ends

// What an argument is in this use.
enum {
  TC_AK_NONE,
  TC_AK_TENSOR,
  TC_AK_TENSORS,
  TC_AK_INT,
  TC_AK_INTS,
  TC_AK_FLOAT,
  TC_AK_FLOATS,
  TC_AK_BOOL,
  TC_AK_BOOLS,
  TC_AK_COMPLEX,
  TC_AK_STRING,
  TC_AK_STRINGS,
  TC_AK_DTYPE,
  TC_AK_LAYOUT,
  TC_AK_MEMORY_FORMAT,
  TC_AK_DEVICE,
  TC_AK_GRAPH
};

// Memory formats (as in PyTorch's schema of .pt2).
enum { TC_FORMAT_CONTIGUOUS = 1, TC_FORMAT_CHANNELS_LAST = 2, TC_FORMAT_CHANNELS_LAST_3D = 3, TC_FORMAT_PRESERVE = 4 };

typedef struct tc_tensor_type {
  tc_dtype dtype;
  int32_t rank;
  const tc_int *sizes, *strides; // elements
  tc_int offset;
  int32_t wrapped; // 1: a Python number in a Tensor slot; takes part in promotion by its class only
  int32_t conj;    // reads conjugated
} tc_tensor_type;

// A Python number.
typedef struct tc_number {
  int32_t kind; // TC_AK_BOOL, INT, FLOAT or COMPLEX
  int32_t reserved;
  int64_t i;     // BOOL, INT
  double re, im; // always set
  tc_int sym;    // INT: as an expression (meta, lower)
} tc_number;

typedef struct tc_c128 {
  double re, im;
} tc_c128;

// ---- Arguments (any moment) ----
int32_t tc_op_kind(const tc_op_args *a, int32_t arg);  // TC_AK_*
int32_t tc_op_count(const tc_op_args *a, int32_t arg); // length of a list; 1 for a single value, 0 for none
const tc_tensor_type *tc_op_tensor(const tc_op_args *a,
                                   int32_t arg); // NULL for none; numbers in Tensor slots are rank 0, wrapped
const tc_tensor_type *tc_op_tensor_at(const tc_op_args *a, int32_t arg,
                                      int32_t k);                       // element of a Tensor[]; NULL for none
tc_int tc_op_sym(tc_op_args *a, int32_t arg);                           // INT
tc_int tc_op_sym_at(tc_op_args *a, int32_t arg, int32_t k);             // INTS, or INT when k is 0
int64_t tc_op_int(const tc_op_args *a, int32_t arg, int64_t otherwise); // a constant; `otherwise` if none or symbolic
int64_t tc_op_int_at(const tc_op_args *a, int32_t arg, int32_t k, int64_t otherwise);
double tc_op_float(const tc_op_args *a, int32_t arg, double otherwise); // INT, BOOL too
double tc_op_float_at(const tc_op_args *a, int32_t arg, int32_t k, double otherwise);
int32_t tc_op_bool(const tc_op_args *a, int32_t arg, int32_t otherwise);
int32_t tc_op_bool_at(const tc_op_args *a, int32_t arg, int32_t k, int32_t otherwise);
tc_sv tc_op_string(const tc_op_args *a, int32_t arg); // "" for none
tc_dtype tc_op_dtype(const tc_op_args *a, int32_t arg, tc_dtype otherwise);
int32_t tc_op_memory_format(const tc_op_args *a, int32_t arg, int32_t otherwise);
int32_t tc_op_number(const tc_op_args *a, int32_t arg, tc_number *out); // 1 if the argument is a number
int32_t tc_op_result_count(const tc_op_args *a);
const tc_tensor_type *tc_op_result_type(const tc_op_args *a, int32_t result); // after meta
tc_sv tc_op_name(const tc_op_args *a);                                        // "aten::add.Tensor"
int32_t tc_op_arg_index(const tc_op_args *a, const char *name);               // -1 if the schema has none
// Fails the call: sets the message (printf without %n; names of op and argument are added) and returns
// INVALID_ARGUMENT.
int32_t tc_op_fail(tc_op_args *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// "f32[2, s0]" of a tensor argument, for messages; borrowed until the call ends.
const char *tc_op_shape_text(tc_op_args *a, int32_t arg);

// ---- Symbolic integers (meta, lower) ----
tc_int tc_int_const(tc_op_args *a, int64_t v);
tc_int tc_int_add(tc_op_args *a, tc_int x, tc_int y);
tc_int tc_int_sub(tc_op_args *a, tc_int x, tc_int y);
tc_int tc_int_mul(tc_op_args *a, tc_int x, tc_int y);
tc_int tc_int_floordiv(tc_op_args *a, tc_int x, tc_int y);
tc_int tc_int_mod(tc_op_args *a, tc_int x, tc_int y);
tc_int tc_int_min(tc_op_args *a, tc_int x, tc_int y);
tc_int tc_int_max(tc_op_args *a, tc_int x, tc_int y);
int32_t tc_int_is_const(tc_int x, int64_t *out); // 1 and the value if constant
// Conditions: 1 true, 0 false, -1 not known.
int32_t tc_int_eq(tc_op_args *a, tc_int x, tc_int y);
int32_t tc_int_lt(tc_op_args *a, tc_int x, tc_int y);
// Requires x == y: proves it, or records a guard; INVALID_ARGUMENT if provably different.
int32_t tc_int_require_eq(tc_op_args *a, tc_int x, tc_int y);
int64_t tc_int_hint(tc_op_args *a, tc_int x, int64_t otherwise);

// ---- Meta: describe result i. strides NULL: row-major. ----
int32_t tc_op_set_result(tc_op_args *a, int32_t result, tc_dtype dtype, int32_t rank, const tc_int *sizes,
                         const tc_int *strides);
// Result i is a view of tensor argument `arg` (strides and offset as given).
int32_t tc_op_set_view(tc_op_args *a, int32_t result, int32_t arg, tc_dtype dtype, int32_t rank, const tc_int *sizes,
                       const tc_int *strides, tc_int offset);
int32_t tc_op_set_result_count(tc_op_args *a, int32_t n); // for Tensor[] results
// A fresh unbacked size in [lo, hi] for data-dependent results.
tc_int tc_op_unbacked(tc_op_args *a, int64_t lo, int64_t hi);
// Shared rules (PyTorch's): promotion, broadcasting, strides of pointwise results (TensorIterator's order).
tc_dtype tc_op_promote(tc_op_args *a, int32_t n, const int32_t *args); // with wrapped numbers; NONE on failure
int32_t tc_op_pointwise_result(tc_op_args *a, int32_t result, tc_dtype dtype, int32_t n, const int32_t *args);
int64_t tc_op_wrap_dim(tc_op_args *a, int64_t dim, int32_t rank); // -1 and a failure if out of range

// ---- Reference: plain C in the widest type of the class ----
// Tensors arrive as views of double (floats), tc_c128 (complex) or int64_t (integers and bool); results are written the
// same way and rounded by the host to the declared dtype.
typedef struct tc_ref_view {
  tc_dtype dtype; // TC_F64, TC_C128 or TC_I64
  int32_t rank;
  const int64_t *sizes, *strides; // elements of the wide type
  void *data;
  tc_dtype nominal; // the dtype it stands for
  int32_t reserved;
} tc_ref_view;
const tc_ref_view *tc_op_data(const tc_op_args *a, int32_t arg); // NULL for none; numbers are rank 0
const tc_ref_view *tc_op_data_at(const tc_op_args *a, int32_t arg, int32_t k);
// Row-major, allocated after meta and zeroed; results with unbacked sizes are allocated by tc_op_alloc_result.
const tc_ref_view *tc_op_result_data(tc_op_args *a, int32_t result);
const tc_ref_view *tc_op_alloc_result(tc_op_args *a, int32_t result, int32_t rank, const int64_t *sizes);
// Freed after the call. NULL when memory is short: that is then the call's failure, whatever the reference returns.
void *tc_op_scratch(tc_op_args *a, uint64_t size);

// A pointwise op's reference: a function per class and arity; NULL where the op has no meaning.
typedef struct tc_scalar_ref {
  double (*f1)(double);
  double (*f2)(double, double);
  double (*f3)(double, double, double);
  tc_c128 (*c1)(tc_c128);
  tc_c128 (*c2)(tc_c128, tc_c128);
  tc_c128 (*c3)(tc_c128, tc_c128, tc_c128);
  int64_t (*i1)(int64_t);
  int64_t (*i2)(int64_t, int64_t);
  int64_t (*i3)(int64_t, int64_t, int64_t);
} tc_scalar_ref;

// ---- Traits ----
enum {
  TC_OP_POINTWISE = 1 << 0, // results[i] depends on the broadcast arguments at i only
  TC_OP_COMPLEX = 1 << 1,   // has a meaning on complex tensors
  TC_OP_VIEW = 1 << 2,      // results share the first tensor argument's storage
  TC_OP_REDUCTION = 1 << 3,
  TC_OP_RANDOM = 1 << 4,
  TC_OP_NONDETERMINISTIC = 1 << 5,
  TC_OP_NOT_CAPTURE_SAFE = 1 << 6,
  TC_OP_DATA_DEPENDENT = 1 << 7, // result sizes depend on values
  TC_OP_EFFECT = 1 << 8,         // kept although nothing uses it (asserts)
  TC_OP_COMPUTE_PROMOTED =
      1 << 9, // the body computes in the promoted type of the arguments (comparisons), not of the result
  TC_OP_INT_TO_FLOAT = 1 << 10, // integers are promoted to the default float before the body
  TC_OP_MAYBE_VIEW = 1 << 11,   // a view where strides allow, else a copy (reshape, contiguous, to)
  TC_OP_COMPUTE_WIDE = 1 << 12, // the body computes in f64 (c128) and is rounded once
  TC_OP_MAY_EXPAND = 1 << 13,   // `expand` may decline by giving no result: a lowering or the reference stays
  // The lowering reads numbers by tc_lo_arg, so that they may come from data (a body's numbers always may).
  TC_OP_TAKES_NUMBERS = 1 << 14,
  // Much slower where the sizes along its argument `dim`, or those of its argument `weight`, are no constants
  // (transforms, convolutions): compiled by itself, it is compiled for each of them; other sizes may still be any
  TC_OP_KNOWN_LENGTHS = 1 << 15,
  // Argument 1 divides: where the result is an integer, a 0 among its elements is an error of the run. The references
  // look for it; a lowering does so itself.
  TC_OP_DIVIDES = 1 << 16,
  // Integers are picked by their order (maximum), for which 64-bit unsigned ones are handed to the scalar reference
  // with their highest bit turned over, as its result is: its order is that of int64_t.
  TC_OP_ORDERS = 1 << 17
};

// The body, decomposition and derivative are texts in the one expression language (docs/ADDING_AN_OP_PLUGIN.md):
//   body       scalar opcodes over the arguments at one index:            "self * sigmoid(self)"
//   decompose  graph ops; "aten::" may be omitted; several results by ,   "let m = mean(self, dim, true); sub(self, m)"
//   grad       "self: …; other: …" with grad, result, and the arguments
//   flops      symbols numel (of the result), and members such as self.size(0)
typedef struct tc_op_def {
  uint64_t struct_size; // 0 in the core's own tables: this version's
  const char *schema;   // PyTorch's own string: "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
  uint64_t traits;
  int32_t (*meta)(tc_op_args *a);
  const char *body;
  const char *decompose;
  int32_t (*expand)(
      tc_op_args *a); // decomposition in C where text does not read better: builds with tc_ex_* of tc/lower.h
  const char *grad;
  const char *grad_forward;
  const char *flops;
  int32_t (*lower)(tc_op_args *a);
  const tc_scalar_ref *scalar_ref; // pointwise reference
  int32_t (*ref)(tc_op_args *a);   // any other reference
  const char *samples;             // argument lists to test with (docs/ADDING_AN_OP_PLUGIN.md)
} tc_op_def;

#ifdef __cplusplus
}
#endif
#endif
