// Loop IR: buffers, and nodes that each define one or two of them by an iteration domain and a scalar body.
//
// Views do not exist here: they only change index expressions. A load names a buffer and one integer expression per
// dimension, over the node's loop variables and the module's size symbols. Where a dimension's index comes from data
// (embedding, index) the load has a gather value for it.
//
// Body values are scalars; complex dtypes are scalars too and are taken apart in kernel IR. Opcodes are those of kernel
// IR (tc/kernel.h) plus LOAD and INDEX below.
//
// Domain: n_par parallel variables, then n_red reduced ones. Result 0 (and 1) of a node is stored at the parallel
// variables in order, so a node's output buffer has rank n_par and its sizes are the parallel extents. Variables are
// symbols of origin LOOP of the module's symbolic context with range [0, extent - 1].
//
// Text form (round trips; `tcrun dump --stage=loop`; the grammar is in parse.c):
//   loops @forward [s0 in [2, 64] hint 2] (
//       %x : f32[s0, 64] = user "x") {
//     %x : f32[s0, 64]{64, 1} = input 0
//     %h : f32[s0, 64] = pointwise [i0 : s0, i1 : 64] { %0 = load %x[i0, i1]  %1 = exp %0  yield %1 }
//     %n : f32[s0] = reduce.sum [i0 : s0] over [r0 : 64] { %0 = load %h[i0, r0]  yield %0 }
//     %y : c64[s0, 64] = template fft.c2c (%h, %x[q0 : 64, q1 : s0 -> q1, q0]) attrs [1, 0]
//     return user %n as f32[s0]{1}, user %h as f32[s0, 8, 8]{64, 8, 1}
//   }
#ifndef TC_CORE_LOOP_LOOP_H_
#define TC_CORE_LOOP_LOOP_H_

#include "core/ir/graph.h"

#include "tc/kernel.h"
#include "tc/lower.h"

typedef struct tc_lnode tc_lnode;
typedef struct tc_loops tc_loops;

enum { TC_BUF_INPUT, TC_BUF_INTERNAL };
typedef struct tc_buf {
  int32_t id, kind;
  tc_sv name;
  tc_dtype dtype;
  int32_t rank;
  const tc_sym *const *sizes;
  const tc_sym *const *strides; // elements of dtype; NULL: left to the scheduler
  const tc_sym *const *prefer;  // INTERNAL: strides that the graph promised for the value, or NULL
  const tc_sym *offset;         // INPUT: elements; else 0
  int32_t input;                // INPUT: number of the graph input
  tc_lnode *def;                // INTERNAL: the node that defines it, NULL if removed
  int32_t def_result;
  int32_t output; // ≥ 0: graph output that this buffer is, else -1
  bool placed;    // a result of a region: it may begin anywhere
  // INTERNAL: its storage is that of this buffer, an input or in place of one itself, whose elements its definer
  // changes; what the definer does not write stays as it was. Everything that reads the old buffer comes before the
  // definer.
  const struct tc_buf *inplace;
  bool overwritten; // another buffer is in place of this one
  // INTERNAL, when plans are made: it may have the place of this buffer, which its definer is the last to read
  // (core/plan/over.c); or NULL. It is no text.
  const struct tc_buf *over;
  bool planar; // INTERNAL, complex: all real parts come first, then all imaginary ones (core/schedule/layout.c)
} tc_buf;

// Body opcodes beyond TC_K_*.
enum {
  TC_B_LOAD =
      TC_K_COUNT, // buf, index (per dimension); gather (value per dimension or -1, NULL if none); cond, args[0] other
  TC_B_INDEX,     // expr as a number of `dtype`
  TC_B_CHECK      // args[1], where the bool args[0] holds; where it does not the run fails in the words `text`
};
typedef struct tc_binst {
  int32_t op;
  tc_dtype dtype;
  int32_t n_args;
  int32_t args[3];
  int64_t imm;   // CONST of integers and bool
  double re, im; // CONST of floats and complex
  const tc_buf *buf;
  const tc_sym *const *index;
  const int32_t *gather;
  const tc_sym *cond; // LOAD: NULL, or where it is false args[0] is the value
  const tc_sym *expr; // INDEX
  bool wrap;          // gathers: negative indices count from the end
  tc_sv text;         // CHECK: what has happened, "ZeroDivisionError"
  tc_sv source;       // gathers, CHECK: the model's line, for the error of the run
} tc_binst;
typedef TC_VEC(tc_binst) tc_binsts;
typedef struct tc_body {
  tc_binsts insts;
  int32_t results[2];
  int32_t n_results;
} tc_body;

// A buffer seen through an index map: element (index) of the view is buf's element (map), over the index symbols.
typedef struct tc_lview {
  const tc_buf *buf;
  int32_t rank;
  const tc_sym *const *sizes;
  const tc_sym *const *index; // rank symbols
  const tc_sym *const *map;   // buf->rank expressions
} tc_lview;

// A CALL is an op that no kernel does: a library's, or control flow, whose regions stay graphs until plans are built
// (core/ir/control.h; its operands are the predicate if that is a tensor, then the node's operands).
enum { TC_LN_POINTWISE, TC_LN_REDUCE, TC_LN_TEMPLATE, TC_LN_CALL };
struct tc_lnode {
  int32_t id, kind;
  tc_sv name;   // of the graph value it came from
  tc_sv source; // model's line
  tc_sv op;     // name of the op that it came from, after which kernels are called; may be empty
  int32_t n_par, n_red;
  const tc_sym *const *vars; // n_par + n_red
  const tc_sym *const *extents;
  bool keep;      // the result is always made in memory: a layout that a template wants, say
  int32_t reduce; // TC_RED_*
  tc_body body;
  // POINTWISE into a buffer in place: where an element goes, by dimension of the buffer; NULL: to the variables' index.
  const tc_sym *const *store;
  const int32_t *store_gather; // by dimension: a value of the body instead, or -1; NULL if none
  bool store_wrap;             // negative ones count from the end
  int32_t store_if;            // with `store`: a bool of the body, without which nothing is written; -1: always
  int32_t n_outs;
  tc_buf **outs; // at most two, of calls any number
  // TEMPLATE, CALL
  const struct tc_template_table *tmpl; // TEMPLATE
  const tc_node *node;                  // CALL: the op; TEMPLATE: where it came from
  int32_t n_operands;
  const tc_lview *operands;
  int32_t n_attrs;
  const tc_sym *const *attrs;
};

typedef struct tc_loop_output {
  int32_t kind;        // TC_OUT_*
  const tc_buf *buf;   // NULL: a number, `number`
  tc_tensor_type type; // sizes, strides and offset that the caller sees, over buf's storage
  tc_arg number;
  tc_sv target;
} tc_loop_output;

struct tc_loops {
  tc_module *module;
  const tc_graph *graph; // a signature when parsed from text
  int32_t fixed_from;    // of a loop's body: inputs from this number on are the same in every turn; 0: it is none
  tc_arena *arena;
  tc_sym_ctx *syms;
  tc_sv name;
  TC_VEC(tc_buf *) bufs;
  TC_VEC(tc_lnode *) nodes; // in an order in which they can run
  TC_VEC(tc_loop_output) outputs;
  // tc_value * → const tc_lview *: where the graph's values are, also of buffers that later stages removed. It is no
  // text: NULL where the loops were parsed.
  const tc_map *values;
};

// Templates known by name; the core's own and plugins'. See core/loop/template.h.
struct tc_template_registry;

typedef struct tc_lower_options {
  const tc_logger *logger;
  // Asked for ops without body, decomposition or lowering, and for ops whose rows offer a choice: may the node be a
  // call?
  bool (*call_supported)(void *self, const tc_node *n);
  // Asked for ops that have a lowering: is there a library that would rather do it? NULL: never.
  bool (*call_preferred)(void *self, const tc_node *n);
  bool calls_only; // the device generates no code: pointwise ops are asked about, too
  void *self;
  uint64_t pairs;  // bit TC_x: the device has dot2 over pairs of x (tc_device_props)
  int64_t on_chip; // bytes that a block has, where lanes are SIMD elements; 0: products pack in front of their kernels
  int32_t simd_bytes; // of a register whose elements are lanes; 0: lanes are threads
  bool lock_step;     // lanes are threads that run in lock-step: products read their operands where they lie
  const struct tc_template_registry *templates;
  // Of a region: what its results must look like, by output (NULL: no tensor is wanted there). Each then is a whole
  // buffer of its own, which whoever runs the region places.
  const tc_tensor_type *const *results;
  int32_t fixed_from; // tc_loops.fixed_from
} tc_lower_options;

// Lowers a functional graph. Errors name the node that has no lowering.
TC_NODISCARD tc_status tc_lower_graph(const tc_graph *g, const tc_lower_options *o, tc_loops **out);

// Is the view its buffer as it is?
bool tc_lview_is_whole(const tc_lview *v);

// The strides and offset of a view in terms of its buffer's, in elements of it: false if it is not affine.
bool tc_lview_strides(tc_loops *l, const tc_lview *v, const tc_sym *const *buf_strides, const tc_sym **strides,
                      const tc_sym **offset);

// Drops nodes whose results are not needed, and numbers the rest; their buffers stay, without a definer.
void tc_loops_sweep(tc_loops *l);
// Cuts nodes of which only the first elements are read to what is read (demand.c).
void tc_loops_demand(tc_loops *l);
// Cuts templates to what is not known to be zero (zeros.c).
void tc_loops_zeros(tc_loops *l);
// Gives pointwise nodes in front of and behind templates the template's order of dimensions (turn.c).
void tc_loops_turn(tc_loops *l);

const tc_buf *tc_buf_storage(const tc_buf *b); // the buffer whose storage it has: itself, or an input
bool tc_buf_is_inlined(const tc_buf *b);       // nobody stores it: once scheduled, it is computed where it is read
tc_buf *tc_loops_buf(tc_loops *l, tc_sv name, tc_dtype dtype, int32_t rank, const tc_sym *const *sizes);
// Names of buffers are made unique; numbers of buffers and nodes are not text.
void tc_loops_print(tc_sb *sb, const tc_loops *l);
// The same; afterwards `names` (an empty map at first) has the name of every buffer in the text: tc_buf * → tc_sv *.
void tc_loops_print_named(tc_sb *sb, const tc_loops *l, tc_map *names);
tc_map *tc_loops_names(tc_arena *arena, const tc_loops *l); // these names, for who tells of buffers
tc_sv tc_loops_name(tc_map *names, const tc_buf *b);        // its own where the text does not have it
// The op of a call as a graph of one node, as loops and plans print it, and back, at "graph"; it has n_results.
void tc_call_print(tc_sb *sb, tc_module *m, const tc_node *call);
TC_NODISCARD tc_status tc_call_parse(tc_module *m, tc_lexer *lx, int32_t n_results, const tc_node **out);
// At "loops". The result has been verified; its `graph` is a signature, which says that every input is the user's where
// the text says nothing. Errors name line and column. The module should be
// fresh: the size symbols of the text are made in it. Templates are found by name; without a registry they are refused.
TC_NODISCARD tc_status tc_loops_parse_with(tc_module *m, const struct tc_template_registry *templates, tc_lexer *lx,
                                           tc_loops **out);
TC_NODISCARD tc_status tc_loops_parse(tc_module *m, tc_lexer *lx, tc_loops **out); // without templates
// Order of definition, ranks and sizes, types of bodies, which symbols occur where, indices that are surely out of
// bounds.
TC_NODISCARD tc_status tc_loops_verify(const tc_loops *l);

const char *tc_reduce_text(int32_t kind); // of TC_RED_*: "sum"; NULL if there is none
// The dtype that an opcode of class a, c, m or t gives for operands of these dtypes (CAST and BITCAST: the operand's
// own); NONE where they do not go together.
tc_dtype tc_body_op_type(int32_t op, int32_t n, const tc_dtype *args);

// Cost of a body in scalar operations per point (functions count as their polynomial).
int32_t tc_body_cost(const tc_body *b);
int32_t tc_k_op_cost(int32_t op, tc_dtype dtype);

#endif
