// Ops as the compiler knows them: a declaration row (tc/op.h) with its schema parsed, in a registry.
//
// A registry is filled once (core rows, then plugins') and immutable afterwards; it may then be read from many threads.
#ifndef TC_CORE_IR_OP_H_
#define TC_CORE_IR_OP_H_

#include "core/ir/graph.h"

// Types of schema arguments and returns.
enum {
  TC_ST_TENSOR,
  TC_ST_INT,
  TC_ST_FLOAT,
  TC_ST_BOOL,
  TC_ST_SCALAR,
  TC_ST_STRING,
  TC_ST_DTYPE,
  TC_ST_LAYOUT,
  TC_ST_DEVICE,
  TC_ST_MEMORY_FORMAT,
  TC_ST_GENERATOR,
  TC_ST_OTHER
};

typedef struct tc_schema_arg {
  tc_sv name;
  int32_t type;
  bool is_list, is_optional, elements_optional; // Tensor?[] has both is_list and elements_optional
  int32_t list_size;                            // int[2]: a single int is repeated; 0: any
  bool kwarg_only, writes;                      // Tensor(a!)
  bool symbolic;                                // SymInt
  int32_t alias;                                // letter of the alias set, 0: none
  bool has_default;
  tc_arg preset; // the default
} tc_schema_arg;

typedef struct tc_schema {
  tc_sv ns, name, overload; // "aten", "add", "Tensor"
  int32_t n_args, n_returns;
  const tc_schema_arg *args, *returns;
  bool varargs; // ends in `...`: further arguments are kept as given (higher-order ops)
} tc_schema;

// A restriction of an op (tc_op_restrict); `when` gives 1 where it holds.
typedef struct tc_op_limit {
  const struct tc_op_limit *next;
  tc_ex_program when;
  const char *text;
} tc_op_limit;

struct tc_op {
  tc_sv full_name; // "aten::add.Tensor"; without overload "aten::relu"
  tc_schema schema;
  const tc_op_def *def;
  tc_ex_program body, decompose; // parsed at registration; n_results 0: none
  tc_ex_program grad;            // the derivative: a result per argument that has one; n_results 0: none is known
  const tc_sv *grad_labels;      // the arguments' names
  tc_ex_program forward;         // what stands for the op where gradients are wanted; n_results 0: the op itself
  tc_sv plugin;                  // "" for the core's
  // Of an in-place op that no row declares ("aten::add_.Tensor"): the op it is made from; the registry makes one for
  // each functional op whose first argument and only result are tensors. NULL for declared ops.
  const tc_op *functional;
  bool declared; // known by its schema alone: what it gives is what a text says (tc_op_declare)
  // Of an op that no row declares and that writes its results into arguments ("aten::add.out"): the op without these,
  // which are the last arguments. NULL for others.
  const tc_op *out_of;
  const tc_op_limit *limits;     // calls that are refused (tc_op_restrict)
  const char *refusal;           // what is said of complex arguments (tc_op_refuse); NULL: the usual words
  const struct tc_user_op *user; // an op whose kernels somebody wrote by hand (core/ir/userop.h); NULL for others
};

typedef struct tc_op_registry tc_op_registry;
TC_NODISCARD tc_status tc_op_registry_create(tc_arena *arena, tc_op_registry **out);
// Parses schema and texts; an error names the row. Two rows of one name are an error.
TC_NODISCARD tc_status tc_op_register(tc_op_registry *r, const tc_op_def *def, tc_sv plugin);
// The same for an op with kernels by hand; the row and the definition must live as long as the registry.
// The argument that a result is because the op writes it, or -1.
int32_t tc_op_written_argument(const tc_op *op, int32_t result);
TC_NODISCARD tc_status tc_op_register_user(tc_op_registry *r, const tc_op_def *def, const struct tc_user_op *user);
tc_arena *tc_op_registry_arena(const tc_op_registry *r);
// An op of which nothing but the schema is known, for texts that libraries run: their types are taken as they stand.
// One that is there stays.
TC_NODISCARD tc_status tc_op_declare(tc_op_registry *r, tc_sv schema);
const tc_op *tc_op_find(const tc_op_registry *r, tc_sv full_name); // "aten::add.Tensor"; NULL if absent
// "torch.ops.aten.add.Tensor" or "aten.relu.default" → the op; an error names the target and the nearest known ones.
TC_NODISCARD tc_status tc_op_find_target(const tc_op_registry *r, tc_sv target, const tc_op **out);
int32_t tc_op_registry_count(const tc_op_registry *r); // declared ops, without the in-place ones made from them
// The op that an in-place op ("add_.Tensor", derived or declared) is the in-place form of; NULL if there is none.
const tc_op *tc_op_functional(const tc_op_registry *r, const tc_op *op);
// May a number among the arguments be a value of the graph? Floats and truth values from data are tensors of no
// dimensions where a body, or a filling, reads them.
bool tc_op_takes_numbers(const tc_op *op);
// Declared ops of one base name ("aten::add" → add.Tensor, add.Scalar) in the order of declaration.
const tc_op *const *tc_op_overloads(const tc_op_registry *r, tc_sv base, int32_t *out_count);
const tc_op *tc_op_registry_at(const tc_op_registry *r, int32_t i);
TC_NODISCARD tc_status tc_schema_parse(tc_arena *arena, tc_sv text, tc_schema *out);

// core/ops: the core's own rows, one array per family file.
typedef struct tc_op_family {
  const tc_op_def *rows;
  int32_t n;
  const struct tc_op_derivative *derivatives; // of rows that do not carry their own
  int32_t n_derivatives;
  const struct tc_op_refusal *refusals;
  int32_t n_refusals;
  const struct tc_op_restriction *restrictions;
  int32_t n_restrictions;
} tc_op_family;
// The derivative of an op ("add.Tensor"), or of all overloads of a name ("add"), for rows that are written by macros.
typedef struct tc_op_derivative {
  const char *op, *grad; // as tc_op_def.grad; "forward: …" for what is tc_op_def.grad_forward
} tc_op_derivative;
// Gives ops of a namespace (or of the one in front of the name) their derivatives; naming an op that is not there is an
// error. Before the registry is used.
TC_NODISCARD tc_status tc_op_derive(tc_op_registry *r, const char *ns, const tc_op_derivative *d);
// What is said where a row without TC_OP_COMPLEX is given complex arguments, for all overloads of a name: PyTorch's
// words, where they are not `"op" not implemented for 'ComplexFloat'`. A text that ends with a blank goes on with the
// type.
typedef struct tc_op_refusal {
  const char *op, *text;
} tc_op_refusal;
// Naming an op that is not there, or that has a meaning on complex numbers, is an error. Before the registry is used.
TC_NODISCARD tc_status tc_op_refuse(tc_op_registry *r, const char *ns, const tc_op_refusal *d);
// A call of an op ("cat", all overloads, "where.Scalar", or "max.default") that PyTorch refuses although the arithmetic
// would take it: `when` is a condition over the arguments in the language of decompositions (core/ir/expand.h), `text`
// what is said. One that cannot be told of a call (a number from data) does not hold.
typedef struct tc_op_restriction {
  const char *op, *when, *text;
} tc_op_restriction;
// The same errors, and those of the condition's text.
TC_NODISCARD tc_status tc_op_restrict(tc_op_registry *r, const char *ns, const tc_op_restriction *d);

// ---- The arguments object that rows' functions get (implements the tc_op_* functions of tc/op.h) ----
// One struct for all moments; see core/ir/opargs.h.
TC_NODISCARD tc_status tc_op_run_meta(tc_graph *g, const tc_op *op, int32_t n_args, const tc_arg *args, tc_sv source,
                                      int32_t *out_n_results, tc_tensor_type **out_types);

#endif
