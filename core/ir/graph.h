// Graph IR: SSA over tensors; the level at which ops have PyTorch's names and meanings.
//
// A graph lives in a tc_module together with its symbols; everything is in the module's arena and nothing is freed
// singly. Ints are symbolic expressions wherever they occur (sizes, arguments): `aten.sym_size` and integer arithmetic
// of archives become expressions on import and are never nodes. A node that makes a number from data (item) has a
// result of kind SYM whose symbol is unbacked.
//
// Rewriting: passes walk `nodes` in order, insert new nodes before the current one with a builder, forward old values
// to new ones (tc_graph_forward), and end with tc_graph_sweep, which applies forwards, drops dead nodes and renumbers.
//
// Text form (round trips):
//   graph @forward [s0 in [2, 64] hint 2] (
//       %p_q : f32[64, 64] = parameter "q.weight",
//       %x : f32[s0, 16, 64] = user "x") {
//     %linear : f32[s0, 16, 64] = aten::linear(%x, %p_q, none) @ "model.py:12 q = self.q(x)"
//     %a : f32[3], %b : i64[3] = aten::max.dim(%t, 1, false)
//     return user %linear, buffer "count" %c, user 3
//   }
// Strides are printed where they are not row-major: f32[4, 3]{1, 4}; an offset as {1, 4}+8. In-place nodes print
// `inplace N` after the arguments. Regions print as nested graphs.
#ifndef TC_CORE_IR_GRAPH_H_
#define TC_CORE_IR_GRAPH_H_

#include "core/base/log.h"
#include "core/symbolic/sym.h"
#include "core/tensor/tensor.h"

#include "tc/op.h"

typedef struct tc_op tc_op; // core/ir/op.h
typedef struct tc_node tc_node;
typedef struct tc_value tc_value;
typedef struct tc_graph tc_graph;
typedef struct tc_module tc_module;

enum { TC_VALUE_TENSOR, TC_VALUE_SYM, TC_VALUE_FLOAT, TC_VALUE_BOOL, TC_VALUE_TOKEN, TC_VALUE_NONE };

struct tc_value {
  int32_t kind, id; // id: position after the last sweep
  tc_sv name;
  tc_tensor_type type;  // TENSOR; sizes and strides in the arena, never NULL (rank 0: empty)
  const tc_sym *symbol; // SYM
  tc_node *def;         // NULL for graph inputs
  int32_t def_index;    // result or input number
  int32_t n_uses;       // after a sweep; graph outputs count
  tc_value *forward;    // replaced by this one, until the next sweep
  tc_graph *graph;
  int32_t view_arg;  // the argument of `def` whose storage this result shares, or -1
  int32_t view_item; // where that is a list of tensors, which of them
};

typedef struct tc_arg {
  int32_t kind;              // TC_AK_*
  int32_t n;                 // lists
  tc_value *value;           // TENSOR; also SYM, FLOAT and BOOL values used as INT, FLOAT, BOOL
  tc_value **values;         // TENSORS; elements may be NULL (optional)
  const tc_sym *sym;         // INT
  const tc_sym *const *syms; // INTS
  double real, imag;         // FLOAT, COMPLEX
  const double *reals;       // FLOATS
  const int64_t *integers;   // defaults of schemas only, which belong to no symbol context: INT in `integer`, INTS here
  int64_t integer;           // BOOL, DTYPE, LAYOUT, MEMORY_FORMAT
  const uint8_t *bools;      // BOOLS
  tc_sv text;                // STRING, DEVICE
  const tc_sv *texts;        // STRINGS
  tc_graph *graph;           // GRAPH
} tc_arg;

struct tc_node {
  const tc_op *op;
  tc_graph *graph;
  tc_node *prev, *next;
  int32_t id, n_args, n_results;
  tc_arg *args;       // one per schema argument, defaults filled in; higher-order ops: as given
  tc_value **results; // Tensor[] results are flattened
  int32_t inplace;    // number of the argument whose storage the first result takes over, or -1 (pass reinplace)
  bool dead;          // unlinked at the next sweep
  uint64_t
      stream; // of a random op: its place among the program's draws (the first of its own), from 1; every pass keeps it
  tc_sv name;
  tc_sv source; // the model's own source line: "file.py:12 y = f(x)", or empty
};

// Where a graph input comes from, where an output goes.
enum { TC_IN_USER, TC_IN_PARAMETER, TC_IN_BUFFER, TC_IN_CONSTANT, TC_IN_TOKEN, TC_IN_OPERAND /* of a region */ };
enum {
  TC_OUT_USER,
  TC_OUT_BUFFER_MUTATION,
  TC_OUT_INPUT_MUTATION,
  TC_OUT_PARAMETER_MUTATION,
  TC_OUT_TOKEN,
  TC_OUT_LOSS
};

typedef struct tc_graph_input {
  int32_t kind;
  bool persistent; // BUFFER: part of the state dict
  tc_value *value; // NULL for a specialised Python constant (kept so that positions stay true)
  tc_arg constant; // when value is NULL
  tc_sv target;    // user name, or fully qualified name of parameter, buffer, constant
} tc_graph_input;

typedef struct tc_graph_output {
  int32_t kind;
  tc_arg arg;   // TENSOR, INT, FLOAT, BOOL, STRING, NONE
  tc_sv target; // name of the mutated buffer or input; user outputs: name in the output pytree, or ""
} tc_graph_output;

// What must hold of symbols when a graph runs, such as that an index is one. Nothing follows from it for the program.
typedef struct tc_check {
  const tc_sym *condition;
  tc_sv text; // what is wrong where it does not hold; each {} stands for the next of the values
  int32_t n;
  const tc_sym *const *values;
} tc_check;

struct tc_graph {
  tc_module *module;
  tc_sv name;
  TC_VEC(tc_graph_input) inputs;
  TC_VEC(tc_graph_output) outputs;
  TC_VEC(tc_check) checks;
  tc_node *first, *last;
  int32_t n_nodes, n_values; // after a sweep
  int32_t scratch;           // > 0: made only to find types, this deep
  tc_map *names;             // names of values in use → the next number to try behind it
};

// A tensor that comes with a program: weights, buffers, constants.
typedef struct tc_binding {
  tc_sv name;       // fully qualified
  tc_tensor tensor; // storage NULL: missing, must be supplied
  bool is_parameter;
} tc_binding;

// A pytree as in pt2_format: leaves are numbered in order.
typedef struct tc_pytree {
  int32_t kind; // 'l' leaf, 't' tuple, 'L' list, 'd' dict, 'n' named tuple, 'x' other registered type
  int32_t n;
  tc_sv type; // 'x', 'n': its registered name
  const struct tc_pytree **kids;
  const tc_sv *keys; // 'd', 'n'
} tc_pytree;

struct tc_module {
  tc_arena *arena;
  tc_sym_ctx *syms;
  const struct tc_op_registry *ops;
  TC_VEC(tc_graph *) graphs;        // entry points, by name ("forward" or the archive's method)
  TC_VEC(const tc_sym *) requires_; // conditions on symbols that inputs must meet (range constraints, asserts, guards)
  tc_map *bindings;                 // name → tc_binding *, shared by the graphs
  uint64_t random_nodes;            // made so far; one that draws several times (tc_node_streams) counts as many
};

// ---- building ----
TC_NODISCARD tc_status tc_module_create(const tc_allocator *a, const struct tc_op_registry *ops,
                                        tc_module **out); // own arena
void tc_module_destroy(tc_module *m);                     // with its tensors
tc_graph *tc_graph_create(tc_module *m, tc_sv name);
tc_value *tc_graph_add_input(tc_graph *g, int32_t kind, tc_sv name, tc_sv target, const tc_tensor_type *type);
tc_value *tc_graph_add_number_input(tc_graph *g, int32_t kind, tc_sv name, tc_sv target, int32_t value_kind,
                                    const tc_sym *symbol); // SYM, FLOAT, BOOL, TOKEN
void tc_graph_add_constant_input(tc_graph *g, int32_t kind, tc_sv target,
                                 tc_arg constant); // no value: a specialised Python constant
void tc_graph_add_output(tc_graph *g, int32_t kind, tc_arg arg, tc_sv target);
tc_graph *tc_module_find(const tc_module *m, tc_sv name); // NULL if absent

// Does running the node draw random numbers? Ops that draw do not where their `dropout_p` is 0 or `train` false.
bool tc_node_draws(const tc_node *n);
// How many streams it has for that: layers of recurrent networks drop out each by themselves.
uint64_t tc_node_streams(const tc_node *n);
// Does it draw them as the parts that it is made of (its `expand`), although it has a lowering or reference for when it
// draws none?
bool tc_node_draws_by_parts(const tc_node *n);

// Makes a node before `before` (NULL: at the end) with args in schema order (missing trailing ones get defaults), runs
// the op's meta function and names the results. Errors name the op, the argument, and the source line.
TC_NODISCARD tc_status tc_graph_add_node(tc_graph *g, tc_node *before, const tc_op *op, int32_t n_args,
                                         const tc_arg *args, tc_sv name, tc_sv source, tc_node **out);

// The same at the end for an op that is known by its schema alone (tc_op_declare): its results are what is declared.
typedef struct tc_declared_result {
  int32_t kind;         // TENSOR, SYM, FLOAT, BOOL
  tc_tensor_type type;  // TENSOR
  const tc_sym *symbol; // SYM
} tc_declared_result;
TC_NODISCARD tc_status tc_graph_add_declared_node(tc_graph *g, const tc_op *op, int32_t n_args, const tc_arg *args,
                                                  int32_t n_results, const tc_declared_result *results, tc_sv name,
                                                  tc_sv source, tc_node **out);

tc_arg tc_arg_none(void);
tc_arg tc_arg_tensor(tc_value *v);
tc_arg tc_arg_tensors(tc_value **v, int32_t n);
tc_arg tc_arg_sym(const tc_sym *e);
tc_arg tc_arg_syms(const tc_sym *const *e, int32_t n);
tc_arg tc_arg_float(double v);
tc_arg tc_arg_bool(bool v);
tc_arg tc_arg_dtype(tc_dtype d);
tc_arg tc_arg_string(tc_sv s);
tc_arg tc_arg_floats(const double *v, int32_t n);
tc_arg tc_arg_complex(double re, double im);
tc_arg tc_arg_graph(tc_graph *g);
// Gives a value another name (made unique in its graph).
void tc_value_set_name(tc_graph *g, tc_value *v, tc_sv name);
// Records a condition on symbols that inputs must meet, once, and assumes it.
void tc_module_require(tc_module *m, const tc_sym *condition);
// Adds a check, once, also where the condition follows from what is assumed. The text and the values are copied.
void tc_graph_add_check(tc_graph *g, const tc_check *check);
void tc_graph_copy_checks(tc_graph *to, const tc_graph *from);
// INVALID_ARGUMENT, in the words of the first check that does not hold. Symbol i of n has values[i] where known[i] is
// set (NULL: where it is not INT64_MIN); checks on others are passed over. From any thread, while none changes the
// graph.
TC_NODISCARD tc_status tc_graph_check(const tc_graph *g, int32_t n, const int64_t *values, const uint8_t *known);
// The node whose result an unbacked symbol comes from, or NULL: readers of the symbol depend on it.
tc_node *tc_graph_definer(const tc_graph *g, const tc_sym *symbol);
// Calls fn(arg, v) for each value a node reads (tensors, list elements, numbers), with the place it is stored in.
bool tc_node_counts_storage(const tc_node *n); // from where an operand's storage begins: a `storage_offset` is given
void tc_node_each_value(tc_node *n, void (*fn)(void *arg, tc_value **place), void *arg);

// Calls value(self, v) for the values that a node reads, and symbol(self, s) for the symbols in its arguments, results
// and regions, as often as they occur.
typedef struct tc_visit {
  void (*value)(void *self, tc_value *v);
  void (*symbol)(void *self, const tc_sym *s);
  void *self;
} tc_visit;
void tc_visit_node(const tc_visit *v, const tc_node *n);
// A graph of the nodes (in order), with inputs for what they read and outputs for what is read outside of them. Nodes
// are copied. Numbers among the inputs become number inputs. `symbols`: the symbols that the nodes use become number
// inputs, too, except those that the nodes define.
typedef struct tc_extract {
  tc_graph *graph;
  tc_value **inputs, **outputs; // of the graph that the nodes are from, by position; behind them the symbols
  const tc_sym **symbols;
  int32_t n_inputs, n_outputs, n_symbols;
} tc_extract;
void tc_graph_extract(tc_graph *from, int32_t n, tc_node *const *nodes, bool symbols, tc_extract *out);

// ---- rewriting ----
void tc_graph_forward(tc_value *from, tc_value *to);
tc_value *tc_value_resolve(tc_value *v); // follows forwards
// The value that v is a view of: what `def` was given where v shares the storage of a tensor, or of one of a list. NULL
// if v has a storage of its own, is an input, or shares what is no tensor.
tc_value *tc_value_base(const tc_value *v);
// Has it results, all of them views?
bool tc_node_is_view(const tc_node *n);
void tc_node_kill(tc_node *n);
void tc_graph_sweep(tc_graph *g);
void tc_value_set_type(tc_value *v, const tc_tensor_type *type); // copies sizes and strides into the arena
tc_graph *tc_graph_clone(tc_graph *g, tc_sv name);

// ---- types ----
const tc_sym *const *tc_row_major(tc_module *m, int32_t rank, const tc_sym *const *sizes); // strides
bool tc_type_is_row_major(tc_module *m, const tc_tensor_type *t);
const tc_sym *tc_type_numel(tc_module *m, const tc_tensor_type *t);
bool tc_type_same(tc_module *m, const tc_tensor_type *a, const tc_tensor_type *b); // dtype, sizes, strides, offset

// ---- text, checks ----
void tc_graph_print(tc_sb *sb, const tc_graph *g);
void tc_type_print(tc_sb *sb, const tc_tensor_type *t);
// With strides, offset and conj where they are not the plain ones.
void tc_type_print_full(tc_sb *sb, tc_module *m, const tc_tensor_type *t);
// An argument as the text form has it; `type` is the schema's TC_ST_* (OTHER: none).
void tc_arg_print(tc_sb *sb, const tc_arg *g, int32_t type);
// What the text forms of graphs, loops and plans share. The list of size symbols behind a name:
// " [s0 in [2, 64] hint 2, u0 unbacked in [0, inf] div 4, require s0 % 8 == 0]"; used[symbol] != 0 where one is to be
// shown (those of the module's conditions are marked here); nothing if there is none. Reading: the list, or nothing.
void tc_symbols_print(tc_sb *sb, const tc_module *m, uint8_t *used);
TC_NODISCARD tc_status tc_symbols_parse(tc_module *m, tc_lexer *lx);
const char *tc_output_kind_text(int32_t kind); // "user", "buffer", …; NULL beyond the last
TC_NODISCARD tc_status tc_graph_parse(tc_module *m, tc_lexer *lx, tc_graph **out); // at "graph"
// Signatures: graphs without nodes. Loops and plans carry one behind their symbols, so that what runs them is told the
// same about inputs and outputs as by a graph: ' (\n    %x : f32[2] = user "x")'. The outputs follow from the program.
void tc_signature_print(tc_sb *sb, const tc_graph *g);
void tc_inputs_mark(uint8_t *used, const tc_graph *g);    // the symbols of its inputs
void tc_signature_mark(uint8_t *used, const tc_graph *g); // … and of its checks
void tc_graph_mark(uint8_t *used, const tc_graph *g);     // … of its nodes and outputs
TC_NODISCARD tc_status tc_signature_parse(tc_module *m, tc_lexer *lx, tc_sv name, tc_graph **out); // at "("
// Inputs that are all the user's: names[i] and types[i] are of input i, which is nothing where the name is empty.
tc_graph *tc_signature_plain(tc_module *m, tc_sv name, int32_t n, const tc_sv *names, const tc_tensor_type *types);
// Is input i a tensor of that dtype?
bool tc_signature_has(const tc_graph *g, int32_t i, tc_dtype dtype);
// An output: a value of that name and type, or, with type NULL, a number or nothing.
void tc_signature_add_output(tc_graph *g, int32_t kind, tc_sv target, tc_sv name, const tc_tensor_type *type,
                             tc_arg number);
TC_NODISCARD tc_status tc_graph_verify(const tc_graph *g); // SSA order, schema types, meta agrees

// ---- passes ----
typedef struct tc_pass {
  const char *name;
  TC_NODISCARD tc_status (*run)(tc_graph *g, bool *out_progress);
} tc_pass;
typedef struct tc_pass_options {
  const tc_logger *logger;
  bool verify;        // after each pass; and that reported progress is true
  tc_sv skip;         // comma-separated names
  int32_t stop_after; // stop after the n-th run pass (bisection); 0: never
} tc_pass_options;
// Runs the passes in order, each to the end of the list, until none makes progress or `rounds` are done.
TC_NODISCARD tc_status tc_run_passes(tc_graph *g, const tc_pass *const *passes, int32_t n, int32_t rounds,
                                     const tc_pass_options *options);

#endif
