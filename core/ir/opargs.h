// tc_op_args: the arguments of one use of an op, as the functions of its row see them (tc/op.h, tc/lower.h).
//
// One struct for all moments:
//   META    sizes are symbolic, no data; results are described          (this folder: opargs.c, promote.c, intfn.c)
//   EXPAND  the op is replaced by others: tc_ex_* make graph nodes       (this folder: expand.c)
//   REF     data is there, sizes are numbers                             (this folder: refargs.c, driven by refexec.c)
//   LOWER   tc_lo_* make loop IR                                         (core/loop, through tc_lower_hooks)
// A moment's functions called at another moment fail the call with a message; they never crash.
//
// Failure: the first failure is kept in `status`; the row's function may go on (results are then harmless zeros), the
// driver returns that status. Memory: `arena`, which must be guarded by the driver.
#ifndef TC_CORE_IR_OPARGS_H_
#define TC_CORE_IR_OPARGS_H_

#include "core/base/failure.h"
#include "core/ir/op.h"

#include "tc/lower.h"

enum { TC_MOMENT_META, TC_MOMENT_EXPAND, TC_MOMENT_REF, TC_MOMENT_LOWER };

typedef struct tc_op_result {
  bool set;
  bool absent;       // an undefined tensor (optional results)
  int32_t view_arg;  // argument whose storage it shares, or -1
  int32_t view_item; // of an argument that is a list: which of its tensors
  tc_tensor_type type;
  const tc_sym *symbol; // int results
} tc_op_result;

// What core/loop fills in for the moment LOWER: one entry per tc_lo_* function, same parameters.
typedef struct tc_lower_hooks {
  tc_lt (*arg)(tc_op_args *a, int32_t arg);
  tc_lt (*arg_at)(tc_op_args *a, int32_t arg, int32_t k);
  tc_dtype (*dtype)(tc_op_args *a, tc_lt t);
  int32_t (*rank)(tc_op_args *a, tc_lt t);
  tc_int (*size)(tc_op_args *a, tc_lt t, int32_t dim);
  void (*result)(tc_op_args *a, int32_t result, tc_lt t);
  void (*indices)(tc_op_args *a, int32_t rank, const tc_int *sizes, tc_int *out);
  tc_lt (*view)(tc_op_args *a, tc_lt src, int32_t rank, const tc_int *sizes, const tc_int *index, const tc_int *map);
  tc_lt (*expand)(tc_op_args *a, tc_lt src, int32_t rank, const tc_int *sizes);
  tc_lt (*reshape)(tc_op_args *a, tc_lt src, int32_t rank, const tc_int *sizes);
  void (*begin)(tc_op_args *a, int32_t rank, const tc_int *sizes, tc_int *out_index);
  void (*begin_reduce)(tc_op_args *a, int32_t kind, int32_t n_par, const tc_int *par_sizes, int32_t n_red,
                       const tc_int *red_sizes, tc_int *out_index);
  tc_bval (*load)(tc_op_args *a, tc_lt t, const tc_int *index);
  tc_bval (*gather)(tc_op_args *a, tc_lt t, const tc_int *index, const tc_bval *idx, int32_t wrap);
  tc_bval (*load_if)(tc_op_args *a, tc_lt t, const tc_int *index, tc_int condition, tc_bval otherwise);
  tc_bval (*index)(tc_op_args *a, tc_int e, tc_dtype dtype);
  tc_bval (*constant)(tc_op_args *a, tc_dtype dtype, double re, double im);
  tc_bval (*constant_int)(tc_op_args *a, tc_dtype dtype, int64_t v);
  tc_bval (*op1)(tc_op_args *a, int32_t op, tc_bval x);
  tc_bval (*op2)(tc_op_args *a, int32_t op, tc_bval x, tc_bval y);
  tc_bval (*op3)(tc_op_args *a, int32_t op, tc_bval x, tc_bval y, tc_bval z);
  tc_bval (*cast)(tc_op_args *a, tc_bval x, tc_dtype dtype);
  tc_bval (*text)(tc_op_args *a, const char *body, int32_t n, const char *const *names, const tc_bval *values);
  void (*keep)(tc_op_args *a);
  tc_lt (*end)(tc_op_args *a, tc_bval value, tc_dtype dtype);
  void (*end2)(tc_op_args *a, tc_bval value, tc_dtype dtype, tc_lt out[2]);
  tc_lt (*make_template)(tc_op_args *a, const char *name, int32_t n, const tc_lt *operands, tc_dtype dtype,
                         int32_t rank, const tc_int *sizes, int32_t n_attrs, const tc_int *attrs);
  void (*call)(tc_op_args *a);
  int32_t (*in_place)(tc_op_args *a);
  void (*store_at)(tc_op_args *a, const tc_int *index, const tc_bval *idx, int32_t wrap, tc_bval condition);
  tc_bval (*require)(tc_op_args *a, tc_bval condition, tc_bval value, const char *text);
  void (*random)(tc_op_args *a, tc_int element, tc_bval out[4]);
  int32_t (*pairs)(tc_op_args *a, tc_dtype dtype);
  int32_t (*in_order)(tc_op_args *a, tc_lt t);
  int32_t (*lies)(tc_op_args *a, tc_lt t);
  int32_t (*made)(tc_op_args *a, tc_lt t);
  int32_t (*keep_by_rows)(tc_op_args *a, tc_lt t);
  int64_t (*on_chip)(tc_op_args *a);
  int32_t (*simd_bytes)(tc_op_args *a);
} tc_lower_hooks;

// Data of the moment REF, filled by the reference engine.
typedef struct tc_ref_hooks {
  const tc_ref_view *(*data)(const tc_op_args *a, int32_t arg, int32_t k); // k -1: the argument itself
  const tc_ref_view *(*result)(tc_op_args *a, int32_t result);
  const tc_ref_view *(*alloc)(tc_op_args *a, int32_t result, int32_t rank, const int64_t *sizes);
  void *(*scratch)(tc_op_args *a, uint64_t size);
} tc_ref_hooks;

struct tc_expansion; // expand.c

struct tc_op_args {
  int32_t moment;
  const tc_op *op;     // at META and REF of an in-place op: the functional one, which its row is written for
  const tc_op *called; // what the program has: errors name it
  tc_module *module;   // may be NULL at REF
  tc_graph *graph;     // may be NULL
  tc_sym_ctx *syms;
  tc_arena *arena;
  int32_t n_args;
  const tc_arg *args;                 // one per schema argument, normalised (tc_op_normalize)
  const tc_tensor_type **arg_types;   // of TENSOR arguments and numbers in Tensor slots, else NULL; n_args entries
  const tc_tensor_type ***elem_types; // of TENSORS arguments; n_args entries
  tc_sv source;
  int32_t n_results, cap_results;
  tc_op_result *results;
  const tc_sym *next_unbacked; // made by tc_op_unbacked, not yet used by an int result
  tc_failure failure;          // the first one
  const tc_lower_hooks *lower;
  const tc_ref_hooks *ref;
  struct tc_expansion *expansion;
  void *state; // of the driver of LOWER or REF
};

// Makes the arguments of one use ready: conversions by the schema (an int for an int[2], an int for a float, …),
// defaults, types of tensors. Fails with the op's name, the argument's name and the source line.
TC_NODISCARD tc_status tc_op_normalize(tc_module *m, const tc_op *op, int32_t n_args, const tc_arg *args, tc_sv source,
                                       int32_t *out_n, tc_arg **out_args);
// `args` normalised. Results are empty. Ownership: the arena.
void tc_op_args_init(tc_op_args *a, int32_t moment, tc_module *m, tc_graph *g, const tc_op *op, int32_t n_args,
                     const tc_arg *args, tc_sv source);
// Fills tensor types from the arguments' values; the engine of REF sets its own.
// Runs the row's meta function (or the rules that replace it: in-place ops, pointwise ops, decompositions).
TC_NODISCARD tc_status tc_op_meta(tc_op_args *a);
// Refuses complex arguments of a pointwise op that has no meaning on them (real_only.c).
int32_t tc_op_check_real(tc_op_args *a, const tc_op *op);
// Takes the failure out of the args (with the note on arguments and source line), or OK.
TC_NODISCARD tc_status tc_op_finish(tc_op_args *a);
// Keeps the first failure and returns its code. Takes `status`.
int32_t tc_op_keep(tc_op_args *a, tc_status status);
// As a default of a schema in a module's symbol context.
tc_arg tc_arg_of_preset(tc_module *m, const tc_arg *preset);
// The dtype a number has in a Tensor slot: bool, i64, f64 or c128; NONE for other arguments.
tc_dtype tc_arg_number_dtype(const tc_arg *g);

// ---- PyTorch's promotion (c10/core/ScalarType.h, aten/src/ATen/native/TypeProperties.cpp) ----
tc_dtype tc_promote_types(tc_dtype a, tc_dtype b); // NONE where PyTorch has no answer (u16 with i32)
// Accumulates operands into three categories: tensors with dimensions, rank-0 tensors, wrapped numbers.
typedef struct tc_promotion {
  tc_dtype dim, zero, wrapped;
  bool bad;
} tc_promotion;
void tc_promotion_add(tc_promotion *p, const tc_tensor_type *t);
tc_dtype tc_promotion_result(const tc_promotion *p);

// ---- Strides (PyTorch's rules, on symbolic sizes; unknown comparisons are decided by hints) ----
bool tc_strides_contiguous(tc_sym_ctx *c, int32_t rank, const tc_int *sizes, const tc_int *strides);
bool tc_strides_channels_last(tc_sym_ctx *c, int32_t rank, const tc_int *sizes, const tc_int *strides); // rank 4 or 5
bool tc_strides_dense(tc_sym_ctx *c, int32_t rank, const tc_int *sizes,
                      const tc_int *strides); // non-overlapping and dense
void tc_strides_make_contiguous(tc_sym_ctx *c, int32_t rank, const tc_int *sizes, tc_int *out);
void tc_strides_make_channels_last(tc_sym_ctx *c, int32_t rank, const tc_int *sizes,
                                   tc_int *out); // rank 3 (of a 2-d image), 4 or 5
// empty_like with memory_format=preserve: dense strides are kept, others are packed in their order.
void tc_strides_make_preserve(tc_sym_ctx *c, int32_t rank, const tc_int *sizes, const tc_int *strides, tc_int *out);
// Result of a pointwise op over operands broadcast to `sizes` (TensorIterator).
void tc_strides_make_pointwise(tc_sym_ctx *c, int32_t n, const tc_tensor_type *const *operands, int32_t rank,
                               const tc_int *sizes, tc_int *out);
// Decides a comparison (TC_SYM_EQ, NE, LT, LE): provable, else by hints, else `otherwise`.
bool tc_sym_decide(tc_sym_ctx *c, int32_t kind, const tc_sym *x, const tc_sym *y, bool otherwise);

// ---- For rows of the core (moment REF) ----
// Are results rounded to their dtypes in this run of the references? Then what an op converts on its way is, too.
bool tc_op_ref_rounds(const tc_op_args *a);

// ---- For rows of the core: changing tensors in place (moment LOWER) ----
// May result 0 take over argument 0's storage (pass reinplace), so that only what changes need be written? Then the
// lowering may open a node over the elements that change, say where each goes, and end it with its new value; what the
// end gives is the whole tensor.
int32_t tc_lo_in_place(tc_op_args *a);
// Does the device multiply pairs of this dtype (dot2)?
int32_t tc_lo_pairs(tc_op_args *a, tc_dtype dtype);
// How do products on this device read a matrix of two or more dimensions? 0: packed. Where it lies (lanes run in
// lock-step): 1 along its last dimension, 2 along the one before, whose elements are neighbours in memory.
int32_t tc_lo_in_order(tc_op_args *a, tc_lt t);
// Does it lie in memory that is another in every run: an input that is no constant of the program? 0: no, or nothing is
// known of it. 1: elements along its last dimension are neighbours. 2: they are not.
int32_t tc_lo_lies(tc_op_args *a, tc_lt t);
// The same of what a template makes, as long as no other order is preferred later.
int32_t tc_lo_made(tc_op_args *a, tc_lt t);
// Has a template read it where it will lie: if it is all of what a node of this program makes, in the order of its
// rows, the node's result is always made in memory from now on. 0: it is not, and nothing has changed.
int32_t tc_lo_keep_by_rows(tc_op_args *a, tc_lt t);
// Bytes that a block has for panels of its own, where lanes are SIMD elements; 0: what is packed is packed in front.
int64_t tc_lo_on_chip(tc_op_args *a);
// Bytes of a register whose elements are lanes; 0: lanes are threads.
int32_t tc_lo_simd_bytes(tc_op_args *a);
// In the open node: its element goes to `index` of argument 0; idx[d] ≥ 0 is the index of dimension d instead (i64;
// wrap: negative ones count from the end; out of range is an error of the run). idx may be NULL. Nothing is written
// where `condition` is false (-1: always). No two elements that are written may go to one place.
void tc_lo_store_at(tc_op_args *a, const tc_int *index, const tc_bval *idx, int32_t wrap, tc_bval condition);
// In the open node: `value`, of which the bool `condition` must hold at every element of the domain; where it does not
// the run fails in the words `text`, which must outlive the compilation, with the model's line.
tc_bval tc_lo_require(tc_op_args *a, tc_bval condition, tc_bval value, const char *text);
// What the core's template "scatter" makes of a position below zero (its third attribute): an error; it counts from the
// end; or it is an error but for INT64_MIN, which is left out.
enum { TC_NEGATIVE_ERROR, TC_NEGATIVE_WRAPS, TC_NEGATIVE_LEFT_OUT };
// The four words (u32) of the node's random stream that belong to an element, given by its number in row-major order:
// Philox 4×32-10, as in core/ops/random.c.
void tc_lo_random(tc_op_args *a, tc_int element, tc_bval out[4]);

// ---- For rows of the core: conditions on symbols ----
// Requires the condition of every run (moments META and LOWER): refused where it is provably false, a check of the
// graph where it is not provable. `text` is in words what is wrong then, where each {} stands for the next of the
// values.
int32_t tc_op_require(tc_op_args *a, tc_int condition, const char *text, int32_t n, const tc_int *values);
// An index of dimension `dim`, whose size is `size`: required to lie in [-size, size), and wrapped.
int32_t tc_op_wrap_index(tc_op_args *a, tc_int index, int64_t dim, tc_int size, tc_int *out);
// v, or v + size where it is negative.
tc_int tc_int_wrap(tc_op_args *a, tc_int v, tc_int size);

// ---- For rows of the core: results by memory format ----
// Result of `sizes` in a memory format; PRESERVE takes the strides of tensor argument `arg` (empty_like; same sizes).
int32_t tc_op_format_result(tc_op_args *a, int32_t result, tc_dtype dtype, int32_t rank, const tc_int *sizes,
                            int32_t format, int32_t arg);
// Result i is undefined (an optional result that is not computed).
int32_t tc_op_absent_result(tc_op_args *a, int32_t result);
// Result i reads conjugated (views only; they start with their base's bit).
int32_t tc_op_set_conj(tc_op_args *a, int32_t result, int32_t conj);
// A region as the next argument (moment EXPAND; tc_ex_* of tc/lower.h).
void tc_ex_push_graph(tc_op_args *a, tc_graph *g);
// A new region, in which tc_ex_make makes nodes until it ends; no region begins within one. What it takes comes in as
// row-major tensors of the sizes of `like`, without its first `skip` dimensions. NULL, and -1, on failure.
tc_graph *tc_ex_begin_region(tc_op_args *a, const char *name);
tc_gv tc_ex_region_input(tc_op_args *a, const char *name, const tc_tensor_type *like, int32_t skip);
void tc_ex_end_region(tc_op_args *a, int32_t n_outputs, const tc_gv *outputs);
// tc_op_pointwise_result of an op that computes in dtype `common`: operands of another one are converted first, by
// copies without holes whose strides then count.
int32_t tc_op_converted_result(tc_op_args *a, int32_t result, tc_dtype dtype, tc_dtype common, int32_t n,
                               const int32_t *args);
// The broadcast shape of n tensor arguments; rank in *out_rank, sizes in the arena; NULL on failure.
const tc_int *tc_op_broadcast(tc_op_args *a, int32_t n, const int32_t *args, int32_t *out_rank);

#endif
