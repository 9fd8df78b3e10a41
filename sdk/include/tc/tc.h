// tc for embedders: contexts, tensors, eager ops, compiled functions. C11 and C++.
//
// Handles. Every function that gives a `tc_tensor *` gives a new reference. It belongs to the thread's innermost open
// scope, which releases it when it is closed; without a scope it belongs to the caller (tc_release). What is to outlive
// the scope is retained.
//
// Errors. Functions that give a handle give NULL when they fail, and pass NULL on: an op with a NULL operand gives NULL
// and leaves the first error in place, so that a whole expression can be checked at its end. Other functions return a
// TC_STATUS_* code. tc_last_error tells the calling thread's error in words until the next tc_clear_error.
//
// Threads. A context may be used by several threads at once. A tensor's data is the caller's to synchronise. Scopes and
// errors belong to the thread.
#ifndef TC_TC_H_
#define TC_TC_H_

#include "tc/types.h"

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

typedef struct tc_context tc_context;
typedef struct tc_tensor tc_tensor;
typedef struct tc_scope tc_scope;
typedef struct tc_function tc_function;

// The place of a call in the caller's source, as the macros pass it: "file.c:12".
#define TC_HERE __FILE__ ":" TC_HERE_TEXT_(__LINE__)
#define TC_HERE_TEXT_(line) TC_HERE_TEXT2_(line)
#define TC_HERE_TEXT2_(line) #line

const char *tc_version(void); // of the library that is loaded: "MAJOR.MINOR.PATCH"

// ---- Contexts ----
// `settings` are "key=value" as in `tcrun --set` (backend=cpu, mode=inductor, config=FILE.toml, …), applied over the
// environment. *out is set only on success; tc_close it when nothing made by it is in use.
int32_t tc_open(const char *const *settings, int32_t n_settings, tc_context **out);
void tc_close(tc_context *c); // NULL is ignored
// Random ops draw different numbers in every call. After this they draw the same ones in the same order again, on every
// backend, op by op or compiled. A context begins with the option `seed`. Calls of other threads draw from the same
// row.
void tc_manual_seed(tc_context *c, uint64_t seed);
// Log artifacts such as "guards,recompiles"; lines go to `write` (NULL: standard error). Not while others use the
// context.
int32_t tc_set_logs(tc_context *c, const char *artifacts, void (*write)(void *self, const char *artifact, tc_sv text),
                    void *self);

// ---- Errors of the calling thread ----
int32_t tc_last_code(void);      // TC_STATUS_OK if nothing failed since the last tc_clear_error
const char *tc_last_error(void); // "" if nothing failed; valid until the thread's next call that fails
void tc_clear_error(void);

// ---- Scopes ----
tc_scope *tc_scope_open(void);      // NULL when memory is short
void tc_scope_close(tc_scope *s);   // with the scopes opened inside it; NULL is ignored
tc_tensor *tc_retain(tc_tensor *t); // a further reference, which is the caller's
void tc_release(tc_tensor *t);      // NULL is ignored

// ---- Tensors ----
// Sizes and strides count elements. Host memory, 64-byte aligned, row-major, uninitialised.
tc_tensor *tc_new_tensor(tc_context *c, tc_dtype dtype, int32_t rank, const int64_t *sizes);
// A copy of row-major data.
tc_tensor *tc_tensor_from(tc_context *c, tc_dtype dtype, int32_t rank, const int64_t *sizes, const void *data);
// The caller's memory; strides NULL: row-major, else ≥ 0. `release(owner, data)` is called when the last reference
// goes, and when this fails; NULL: the memory outlives the tensor.
tc_tensor *tc_tensor_borrow(tc_context *c, tc_dtype dtype, int32_t rank, const int64_t *sizes, const int64_t *strides,
                            void *data, void (*release)(void *owner, void *data), void *owner);
tc_dtype tc_dtype_of(const tc_tensor *t); // TC_DTYPE_NONE for NULL
int32_t tc_rank_of(const tc_tensor *t);   // -1 for NULL
// In a compiled function a size is read as a number, which a graph without breaks is then specialised to. A size that
// depends on data (of nonzero, say) is a graph break.
int64_t tc_size_of_at(const char *here, const tc_tensor *t, int32_t dim); // negative dims count from the end; -1: none
int64_t tc_stride_of_at(const char *here, const tc_tensor *t, int32_t dim); // elements; -1 if there is none
int64_t tc_numel_of_at(const char *here, const tc_tensor *t);               // -1 for NULL
#define tc_size_of(t, dim) tc_size_of_at(TC_HERE, t, dim)
#define tc_stride_of(t, dim) tc_stride_of_at(TC_HERE, t, dim)
#define tc_numel_of(t) tc_numel_of_at(TC_HERE, t)
// Address of the first element in host memory, conj and neg bits not applied; valid as long as the tensor. NULL for
// NULL. In a compiled function this is a graph break (see tc_compile): get the address behind the ops that are to see
// the memory as it was, and write through it before those that are to see what was written.
void *tc_data_of_at(const char *here, tc_tensor *t);
#define tc_data_of(t) tc_data_of_at(TC_HERE, t)
// The one element of a tensor, converted. Fails for others. In a compiled function this is a graph break.
int32_t tc_item_f64_at(const char *here, tc_tensor *t, double *re, double *im); // im may be NULL for real tensors
int32_t tc_item_i64_at(const char *here, tc_tensor *t, int64_t *out);
#define tc_item_f64(t, re, im) tc_item_f64_at(TC_HERE, t, re, im)
#define tc_item_i64(t, out) tc_item_i64_at(TC_HERE, t, out)

// DLPack 1.0 (dmlc/dlpack, include/dlpack/dlpack.h) without versions: `DLManagedTensor *`, host memory. Export: the
// caller calls its deleter. Import: takes the tensor over, also when it fails.
struct DLManagedTensor;
struct DLManagedTensor *tc_to_dlpack_at(const char *here, tc_tensor *t);
#define tc_to_dlpack(t) tc_to_dlpack_at(TC_HERE, t)
tc_tensor *tc_from_dlpack(tc_context *c, struct DLManagedTensor *m);

// ---- Ops ----
// Typed functions for every op are in tc/ops.h; this is what they call. Numbers in Tensor slots are wrapped numbers, as
// in PyTorch.
enum {
  TC_ARGUMENT_NONE,
  TC_ARGUMENT_TENSOR,
  TC_ARGUMENT_TENSORS, // elements may be NULL
  TC_ARGUMENT_INT,
  TC_ARGUMENT_INTS,
  TC_ARGUMENT_REAL,
  TC_ARGUMENT_REALS,
  TC_ARGUMENT_BOOL,
  TC_ARGUMENT_BOOLS, // bytes
  TC_ARGUMENT_COMPLEX,
  TC_ARGUMENT_TEXT,
  TC_ARGUMENT_DTYPE,
  TC_ARGUMENT_MEMORY_FORMAT
};
typedef struct tc_argument {
  int32_t kind, n; // n: length of lists
  union {
    tc_tensor *tensor;
    tc_tensor *const *tensors;
    int64_t integer; // INT, BOOL, DTYPE, MEMORY_FORMAT
    const int64_t *integers;
    double parts[2]; // REAL, COMPLEX
    const double *reals;
    const uint8_t *bools;
    const char *text;
  } v;
} tc_argument;

// A Python number.
typedef tc_argument tc_scalar;
static inline tc_argument tc_arg_nothing(void) {
  tc_argument a;
  a.kind = TC_ARGUMENT_NONE, a.n = 0, a.v.integer = 0;
  return a;
}
static inline tc_scalar tc_scalar_int(int64_t v) {
  tc_scalar a = tc_arg_nothing();
  a.kind = TC_ARGUMENT_INT, a.v.integer = v;
  return a;
}
static inline tc_scalar tc_scalar_bool(int32_t v) {
  tc_scalar a = tc_arg_nothing();
  a.kind = TC_ARGUMENT_BOOL, a.v.integer = v != 0;
  return a;
}
static inline tc_scalar tc_scalar_real(double v) {
  tc_scalar a = tc_arg_nothing();
  a.kind = TC_ARGUMENT_REAL, a.v.parts[0] = v, a.v.parts[1] = 0;
  return a;
}
static inline tc_scalar tc_scalar_complex(double re, double im) {
  tc_scalar a = tc_arg_nothing();
  a.kind = TC_ARGUMENT_COMPLEX, a.v.parts[0] = re, a.v.parts[1] = im;
  return a;
}

int32_t tc_has_op(const tc_context *c, const char *name); // 1 if "aten::add.Tensor" is known
// Runs an op by its full name, or records it where an operand is being captured. Arguments in schema order; missing
// trailing ones get their defaults. The context may be NULL if there is a tensor among them. An op in place
// ("aten::add_.Tensor") gives a new reference to what it wrote. results[capacity] gets new references; *n_results their
// number (NULL: must be `capacity`).
int32_t tc_call_op_at(const char *here, tc_context *c, const char *op, int32_t n_args, const tc_argument *args,
                      int32_t capacity, tc_tensor **results, int32_t *n_results);
#define tc_call_op(c, op, n_args, args, capacity, results, n_results) \
  tc_call_op_at(TC_HERE, c, op, n_args, args, capacity, results, n_results)

// ---- Kernels by hand ----
// Defines ops whose kernels the caller wrote: `text` holds definitions as a .tc file does in front of its program (the
// manual "User kernels" explains them): source per backend, sizes, launch configurations, derivative, operations. They
// are then called by name like any op, at once or in compiled functions. The same definition again changes nothing.
// Errors name line and column. Not while others use the context.
int32_t tc_kernel_define(tc_context *c, const char *text);
// What computes an op on the host, in C: results[n_results] are there to be filled, args as tc_call_op has them, in the
// schema's order, with every default. Tensors are row-major (tc_data_of) and last until it returns. It gives
// TC_STATUS_OK or what failed, is called from whichever thread runs the op, from several at once for different
// programs, and calls no ops itself.
typedef int32_t (*tc_host_kernel)(void *self, const char *op, int32_t n_args, const tc_argument *args,
                                  int32_t n_results, tc_tensor *const *results);
// tc_kernel_define for definitions without a graph, which `run` computes on the references and wherever no source is
// for the device, whatever the options say of fallbacks. `run` and `self` outlive the context.
int32_t tc_kernel_define_on_host(tc_context *c, const char *text, tc_host_kernel run, void *self);
// 1 if the plugin of that backend ("cpu", …) is there and finds a device; "ref" always is.
int32_t tc_has_backend(const tc_context *c, const char *name);

// ---- Compiled functions ----
// A function of tensors. It reports failure by a TC_STATUS_*. outputs[n_outputs] are filled with tensors that it owns
// or its scope does; the library retains them.
//
// Capture: the first call runs the body with ops that record. If it reads no value, what it recorded is one graph,
// which is compiled, and the body is not called again while the graph's guards hold: it must depend on nothing but its
// inputs, what stays as it is, and numbers that it reads by tc_guard_int and its kin. Tensors from elsewhere that it
// uses are kept by the graph.
//
// Graph breaks: tc_item_*, tc_data_of, tc_to_dlpack, tc_save_tensors and tc_load_tensors, tc_artifact_call, a size that
// depends on data, and tc_graph_break end a segment. It is run, and recording goes on. The body of such a function runs
// in every call and decides anew what it calls; what it calls between two breaks is compared with the segments that
// were compiled before, which run as a whole. So it may depend on anything, print, and loop as often as data says.
// Under `suppress_errors` a function that cannot be compiled runs op by op, which is logged once (graph_breaks,
// perf_hints). An op that the backend does not do ends a segment, too, runs by the references, and stays behind the
// guards. Under `fullgraph` a break is an error that names its place. Ops do not run when they are called, but
// before the next break at the latest; a body that fails may have run some.
typedef int32_t (*tc_function_body)(void *self, tc_tensor *const *inputs, int32_t n_inputs, tc_tensor **outputs,
                                    int32_t n_outputs);

enum { TC_DYNAMIC_AUTO, TC_DYNAMIC_ALWAYS, TC_DYNAMIC_NEVER };
typedef struct tc_dim_mark { // a dimension that is to be symbolic from the first call on
  int32_t input, dim;
  int64_t lo, hi, divisor; // 0: nothing promised
} tc_dim_mark;
// Makes the calling function one that is called each time: what it does besides calling ops (input and output, say) is
// then done each time. Ops in front run before this returns. Gives TC_STATUS_OK where nothing is being captured.
int32_t tc_graph_break_at(const char *here, const char *reason);
#define tc_graph_break(reason) tc_graph_break_at(TC_HERE, reason)

// Numbers besides tensors that a body depends on. Each reads what lies at the address and gives it. Where a graph
// without breaks is captured, it holds for this number only: every later call reads the address again, and another
// number is a guard that fails ("int 'width' mismatch. expected 8, actual 16"), so that the body is captured once more.
// The address must be valid as long as the function, and is written between calls only. `name` (NULL: none) is for
// messages.
int64_t tc_guard_int_at(const char *here, const char *name, const int64_t *at);
int32_t tc_guard_bool_at(const char *here, const char *name, const int32_t *at);   // gives 0 or 1
int64_t tc_guard_length_at(const char *here, const char *name, const int64_t *at); // of a list or a dict
// Whether the pointer that lies at `at` (a `T **`) is not NULL: what a function may be given or not.
int32_t tc_guard_given_at(const char *here, const char *name, const void *at);
#define tc_guard_int(name, at) tc_guard_int_at(TC_HERE, name, at)
#define tc_guard_bool(name, at) tc_guard_bool_at(TC_HERE, name, at)
#define tc_guard_length(name, at) tc_guard_length_at(TC_HERE, name, at)
#define tc_guard_given(name, at) tc_guard_given_at(TC_HERE, name, at)

// A number that may differ from call to call without another capture: in graphs, segments and regions it is a symbol.
// tc_dynamic_int reads the address like tc_guard_int, holds what lies there to [lo, hi] (INVALID_ARGUMENT; another
// number is an error of that call) and gives what stands for it: `as_argument` is good for the integers that ops take,
// sizes and indices in lists too, and as the integer of a tc_scalar, until the call of the function ends; it is for
// nothing else, and what is computed with it stands for nothing. Indices, lengths and sizes are held to what the op
// allows in each call. tc_dynamic_value gives the number itself, to compute with or to branch on; that and an op which
// takes no symbol there (a dimension, say) make the number a guard, as tc_guard_int does, and the list of guards says
// where. So does `dynamic` = TC_DYNAMIC_NEVER. In a function with graph breaks, whose body runs in every call, such an
// op makes a segment for each number. Where nothing is captured it is the number itself.
typedef struct tc_dynamic {
  int64_t as_argument;
} tc_dynamic;
tc_dynamic tc_dynamic_int_at(const char *here, const char *name, const int64_t *at, int64_t lo, int64_t hi);
int64_t tc_dynamic_value_at(const char *here, tc_dynamic number);
#define tc_dynamic_int(name, at, lo, hi) tc_dynamic_int_at(TC_HERE, name, at, lo, hi)
#define tc_dynamic_value(number) tc_dynamic_value_at(TC_HERE, number)

// Control flow that stays in a graph. Bodies are called as functions are, with n tensors; in a graph that is being
// captured each runs once, to be recorded, and may use only the tensors that it gets. Where nothing is captured, and in
// functions with graph breaks, the host decides and bodies run as often as needed. results[n_results] get new
// references. Bodies give tensors of the same dtypes and sizes as each other (cond) or as what they carry, and write to
// nothing.
//
// One of two bodies, by the one element of `predicate`.
int32_t tc_cond_at(const char *here, tc_tensor *predicate, tc_function_body yes, tc_function_body no, void *self,
                   int32_t n, tc_tensor *const *operands, int32_t n_results, tc_tensor **results);
#define tc_cond(predicate, yes, no, self, n, operands, n_results, results) \
  tc_cond_at(TC_HERE, predicate, yes, no, self, n, operands, n_results, results)
// As long as `condition` (one output, a bool) holds, `body` gives the next of the first n_carried tensors; the others
// stay. Gives the last carried ones.
int32_t tc_while_loop_at(const char *here, tc_function_body condition, tc_function_body body, void *self,
                         int32_t n_carried, int32_t n, tc_tensor *const *tensors, tc_tensor **results);
#define tc_while_loop(condition, body, self, n_carried, n, tensors, results) \
  tc_while_loop_at(TC_HERE, condition, body, self, n_carried, n, tensors, results)
// Along dimension 0 of n_scanned tensors behind the n_carried ones: `body` gets the carried, a slice of each scanned
// and the others, and gives the carried, then what is stacked along a new dimension 0 (n_results − n_carried of those).
int32_t tc_scan_at(const char *here, tc_function_body body, void *self, int32_t n_carried, int32_t n_scanned, int32_t n,
                   tc_tensor *const *tensors, int32_t n_results, tc_tensor **results);
#define tc_scan(body, self, n_carried, n_scanned, n, tensors, n_results, results) \
  tc_scan_at(TC_HERE, body, self, n_carried, n_scanned, n, tensors, n_results, results)

typedef struct tc_compile_options {
  uint32_t struct_size;           // sizeof(tc_compile_options)
  const char *name;               // in logs; NULL: "function"
  const char *const *input_names; // in guards; NULL: in.0, in.1, …
  int32_t n_inputs, n_outputs;
  int32_t dynamic; // TC_DYNAMIC_*
  int32_t n_marks;
  const tc_dim_mark *marks;
  int32_t
      limit; // of entries, before calls run eagerly; 0: the option guards.max_entries. Of segments 16 times as many.
} tc_compile_options;

// Nothing is compiled before the first call. The body and `self` must outlive the function; the context too.
int32_t tc_compile(tc_context *c, tc_function_body body, void *self, const tc_compile_options *o, tc_function **out);
void tc_function_destroy(tc_function *f); // NULL is ignored; not while it is called
// Runs the entry whose guards hold, compiling one if none does. inputs may be NULL where an input is absent.
// outputs[n_outputs] get new references. Re-entrant: threads may call and compile at the same time.
int32_t tc_call(tc_function *f, tc_tensor *const *inputs, tc_tensor **outputs);
void tc_reset(tc_function *f); // forgets all entries; not while it is called
// A compiled function that also gives gradients. Its outputs are the body's and, behind them, one per wrt[n_wrt]: the
// gradient of output 0, which has to be a real tensor of one element, with respect to that input. Conventions are
// PyTorch's (complex inputs: ∂L/∂Re + i ∂L/∂Im); an input that output 0 does not depend on has zeros. Forward and
// backward are one graph: what the backward needs is kept on the device or computed again, as the scheduler sees fit.
// The body reads no values (no graph breaks) and is not itself called within a capture. Options as for tc_compile,
// n_outputs being the body's; errors too, and UNIMPLEMENTED naming an op that has no derivative, when it is first
// called.
int32_t tc_value_and_grad(tc_context *c, tc_function_body body, void *self, const tc_compile_options *o, int32_t n_wrt,
                          const int32_t *wrt, tc_function **out);
typedef struct tc_function_stats {
  int64_t calls, compiles, misses; // misses: compiles of whole graphs after the first
  int32_t entries;                 // whole graphs
  int32_t segments;                // of a function with graph breaks
} tc_function_stats;
tc_function_stats tc_function_stats_of(const tc_function *f);
// The guards of all entries and segments, a line each; release with tc_text_free. NULL when memory is short.
char *tc_function_guards(const tc_function *f);
void tc_text_free(char *text);

// ---- Gradients of ops that run one by one ----
// Ops on tensors that require a gradient, and on what was computed from those, are put on a tape; tc_grad and
// tc_backward go back over it. A tape lives as long as the tensors at its end; going back may be repeated. Conventions
// are those of tc_value_and_grad. Writing in place to what was computed is followed (`add_` and its kin on a whole
// tensor); into a part of a tensor it is an error, and so is a gradient that needs what was overwritten. A compiled
// function that gets such tensors runs op by op on the tape (compiled gradients: tc_value_and_grad); while a function
// is captured nothing is put there, and tc_grad is recorded like an op: inputs are any tensors of the graph, what
// nothing depends on has zeros, and gradients can be differentiated again. With tc_optimizer_step behind it a whole
// training step is one graph. Such a function reads no values (no graph breaks).
//
// Floats and complex; a tensor that was computed cannot be a leaf (take aten::detach of it). on 0: not any more.
int32_t tc_set_requires_grad(tc_tensor *t, int32_t on);
int32_t tc_requires_grad(const tc_tensor *t); // a leaf, or computed from one
int32_t tc_set_grad_enabled(int32_t on);      // of the calling thread: 0 puts nothing on tapes. Gives what was before.
// gradients[n_inputs] get new references: of Σ Re(conj(cotangent)·output) with respect to inputs, which are leaves or
// computed ones; NULL where nothing depends on one. cotangents NULL, or an element: 1, of an output that is one real
// number. create_graph: the gradients are on the tape themselves, so that they can be differentiated again.
int32_t tc_grad(int32_t n_outputs, tc_tensor *const *outputs, tc_tensor *const *cotangents, int32_t n_inputs,
                tc_tensor *const *inputs, int32_t create_graph, tc_tensor **gradients);
// Adds the gradient of every leaf to what the leaf has.
int32_t tc_backward(tc_tensor *output, tc_tensor *cotangent);
tc_tensor *tc_gradient_of(const tc_tensor *t); // what tc_backward has added up: a new reference; NULL: nothing
void tc_clear_gradient(tc_tensor *t);
// Calls `body` and keeps its inputs alone: when gradients are wanted it runs again. Random ops draw the same numbers
// then, if no other thread draws meanwhile. The body depends on nothing that has changed since; `self` outlives the
// tape.
int32_t tc_checkpoint(tc_context *c, tc_function_body body, void *self, int32_t n_inputs, tc_tensor *const *inputs,
                      int32_t n_outputs, tc_tensor **outputs);
// Calls `body`, whose derivative is not that of its ops but `derivative`: of the inputs, the outputs, and their
// cotangents, it gives the inputs' gradients (NULL: none).
int32_t tc_with_derivative(tc_context *c, tc_function_body body, tc_function_body derivative, void *self,
                           int32_t n_inputs, tc_tensor *const *inputs, int32_t n_outputs, tc_tensor **outputs);

// ---- Optimizers ----
// The state of a descent and its step, compiled once: everything in place, one function for all parameters. Definitions
// are PyTorch's (torch.optim.SGD, Adam, AdamW); state is kept in f32, or in f64 for parameters of f64.
enum { TC_SGD, TC_ADAM, TC_ADAMW };
typedef struct tc_optimizer_options {
  uint32_t struct_size;         // sizeof(tc_optimizer_options)
  int32_t kind;                 // TC_SGD, …
  double rate;                  // of learning
  double momentum;              // SGD: 0 for none
  int32_t nesterov;             // SGD
  double beta1, beta2, epsilon; // Adam, AdamW: 0 for 0.9, 0.999 and 1e-8
  double decay;                 // of weights: added to the gradient (SGD, Adam), or by itself (AdamW)
  double clip;                  // the norm that all gradients together are scaled down to; 0: as they are
  // Scaling of the loss: the gradients are those of the loss times tc_optimizer_scale, which is this at first; 0: none.
  // A step whose gradients have an element that is not finite changes nothing but the scale, which is halved; after
  // `interval` (0: 2000) steps without one it is doubled.
  double scale;
  int64_t interval;
} tc_optimizer_options;
typedef struct tc_optimizer tc_optimizer;
// Parameters are real, and changed in place by every step; they are retained.
int32_t tc_optimizer_create(tc_context *c, const tc_optimizer_options *o, int32_t n, tc_tensor *const *parameters,
                            tc_optimizer **out);
// gradients[n], of the parameters' sizes; NULL elements are an error. In a function that is captured the step becomes
// part of its graph.
int32_t tc_optimizer_step(tc_optimizer *o, tc_tensor *const *gradients);
int32_t tc_optimizer_set_rate(tc_optimizer *o, double rate); // for the steps to come; nothing is compiled again
// The scale (f32, one element) that the loss is to be multiplied by; NULL and an error without scaling.
tc_tensor *tc_optimizer_scale(tc_optimizer *o);
// What a checkpoint keeps besides the parameters: the number of steps (f32), then each parameter's momentum, or both of
// its moments; with scaling the scale, and for how many steps it has held. New references; write through them to
// restore. *n: how many there are; tensors may be NULL.
int32_t tc_optimizer_state(tc_optimizer *o, int32_t capacity, tc_tensor **tensors, int32_t *n);
void tc_optimizer_destroy(tc_optimizer *o); // NULL is ignored

// ---- Checkpoints: named tensors in a .safetensors file (.npz by its name) ----
// The file is replaced as a whole, or left as it was. Names are the caller's, each once.
int32_t tc_save_tensors_at(const char *here, const char *path, int32_t n, const char *const *names,
                           tc_tensor *const *tensors);
#define tc_save_tensors(path, n, names, tensors) tc_save_tensors_at(TC_HERE, path, n, names, tensors)
// Stores into the memory of the tensors given, which have the dtypes and the sizes of the file's; all are compared
// before the first is stored. NOT_FOUND: the file lacks one. It may have others.
int32_t tc_load_tensors_at(const char *here, const char *path, int32_t n, const char *const *names,
                           tc_tensor *const *tensors);
#define tc_load_tensors(path, n, names, tensors) tc_load_tensors_at(TC_HERE, path, n, names, tensors)

// ---- Artifacts: programs that were compiled ahead of time (`tcrun compile`; tc/rt.h runs them without the compiler)
// ----
typedef struct tc_artifact tc_artifact;
// The program of that name in a .tcx file (NULL: the first). DATA_LOSS: the file is damaged; INVALID_ARGUMENT: of
// another version, or for another device and without the program's text; where it is there, the program is compiled
// again. Of a program in several executables each call takes one whose sizes fit; where none does, and the text leaves
// them open, it is compiled then. The context must outlive it. One thread at a time per context.
int32_t tc_artifact_load(tc_context *c, const char *path, const char *program, tc_artifact **out);
void tc_artifact_unload(tc_artifact *a); // NULL is ignored; not while it is called
int32_t tc_artifact_input_count(const tc_artifact *a);
int32_t tc_artifact_output_count(const tc_artifact *a);
// inputs[tc_artifact_input_count]: checked against what the program was compiled for. outputs[tc_artifact_output_count]
// get new references (NULL where the model gives none); on failure they are NULL. What the program changes is stored:
// its state in the artifact, inputs in the tensors given. Several threads may call a program that changes nothing.
int32_t tc_artifact_call_at(const char *here, tc_artifact *a, tc_tensor *const *inputs, tc_tensor **outputs);
#define tc_artifact_call(a, inputs, outputs) tc_artifact_call_at(TC_HERE, a, inputs, outputs)

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
