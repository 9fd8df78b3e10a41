// Ops whose kernels users write by hand: the definition as text, the op that it becomes, and the expressions in it.
//
// A definition stands in a .tc file in front of a program, or is given to tc_kernel_define. It becomes an op like any
// other: with a meta function made of its shapes, a decomposition (`graph`), a derivative (`grad`), operations
// (`flops`). Where one of its sources is for the device, it is lowered to a call, which the plan makes a launch of
// (core/plan/user.c); elsewhere the graph stands for it. docs/USER_KERNELS.md explains the text by examples.
//
//   definition := 'op' STRING '{' { item } '}'                       the string is the schema: "user::add(Tensor x, …"
//   item       := NAME ':' type                                      of a tensor argument or result
//              | 'dtype' NAME 'in' '(' dtype { ',' dtype } ')'       what a name in place of a dtype may be
//              | 'let' NAME '=' expr | 'constant' NAME '=' expr | 'heuristic' NAME '=' expr
//              | 'constant' NAME '=' NAME ':' ( dtype | NAME )       of a float argument, f32 or f64
//              | 'autotune' '(' expr { ',' expr } ')' { '{' NAME '=' expr { ',' NAME '=' expr } '}' }
//              | 'mutates' NAME { ',' NAME } | 'strided' NAME { ',' NAME }
//              | 'launch' '(' arg { ',' arg } ')' 'blocks' '(' expr { ',' expr } ')' 'lanes' '(' expr ')'
//              | 'source' STRING [ 'declarations' STRING 'body' ] STRING
//              | 'graph' STRING | 'grad' STRING | 'flops' '(' expr ')'
//   type       := ( dtype | NAME ) '[' ( '...' | [ expr { ',' expr } ] ) ']'
//   arg        := NAME [ [ '=' expr ] ':' ( dtype | NAME ) ]
//
// Sizes: a name that stands alone in a shape is bound by the first shape with it; later ones must be equal. All shapes
// `[...]` of one definition are equal. Expressions know these names, lets, constants, int arguments, numel(x),
// x.size(i) and cdiv(a, b); of what is strided also x.stride(i) and x.offset.
//
// A definition is immutable once it is registered, and may then be read from many threads.
#ifndef TC_CORE_IR_USEROP_H_
#define TC_CORE_IR_USEROP_H_

#include "core/ir/op.h"

typedef struct tc_user_shape {
  tc_sv name;
  int32_t arg, result; // number of the schema's argument or result; the other is -1
  tc_dtype dtype;      // NONE: `variable`
  tc_sv variable;
  bool any;     // [...]
  bool strided; // an argument that the kernel takes as it lies
  int32_t rank;
  const tc_ex *const *sizes;
} tc_user_shape;

typedef struct tc_user_name {
  tc_sv name;
  const tc_ex *value;
} tc_user_name;

// A constant that is a float argument of the op.
typedef struct tc_user_real {
  tc_sv name;
  int32_t number; // the schema's argument
  tc_dtype dtype; // NONE: `variable`
  tc_sv variable;
} tc_user_real;

typedef struct tc_user_dtypes {
  tc_sv name;
  uint64_t set; // bit TC_x
} tc_user_dtypes;

typedef struct tc_user_config {
  int32_t n;
  const tc_user_name *set;
} tc_user_config;

// An argument of the kernel: memory of a tensor argument or result, or a number.
typedef struct tc_user_arg {
  tc_sv name;
  const tc_user_shape *shape; // NULL: a number
  const tc_ex *value;         // of a number; NULL: the op's own number of that name
  int32_t number;             // the schema's argument then, else -1
  tc_dtype dtype;             // NONE: `variable`
  tc_sv variable;
} tc_user_arg;

typedef struct tc_user_source {
  tc_sv language; // of a device's code generator, or TC_USER_KERNEL_IR
  tc_sv declarations, body;
} tc_user_source;
#define TC_USER_KERNEL_IR "kernel"
// A heuristic has at most so many values in one program: a kernel is made for each. Where it could have more the sizes
// are required to give what they give now.
enum { TC_USER_HEURISTIC_VALUES = 16 };

struct tc_user_op {
  tc_sv text; // the definition as it was written
  tc_sv schema;
  TC_VEC(tc_user_shape) shapes;
  TC_VEC(tc_user_dtypes) dtypes;
  TC_VEC(tc_user_name) lets, constants, heuristics;
  TC_VEC(tc_user_real) reals;
  TC_VEC(const tc_ex *) key;
  TC_VEC(tc_user_config) configs; // none: one, of the constants as they are
  TC_VEC(tc_user_arg) args;
  TC_VEC(const tc_ex *) grid; // none: the definition has no kernel of its own
  const tc_ex *lanes;
  TC_VEC(tc_user_source) sources;
  const tc_user_source *chosen;  // for the device of the context; NULL: none is
  TC_VEC(tc_user_shape) mutates; // arguments whose memory the kernel changes: the i-th is result i then
  tc_sv graph, grad;
  const tc_ex *flops; // NULL: not said
  const void *host;   // of the device's `reference`
};

typedef struct tc_user_device {
  tc_sv language; // of source that its code generator takes; empty: none
  bool generates; // kernel IR is compiled for it
  // What computes an op without a graph on the host: where no source is for the device, and on the references. NULL:
  // nothing does. It finds `host` in the op's definition; that outlives the registry.
  int32_t (*reference)(tc_op_args *a);
  const void *host;
} tc_user_device;
// Reads the definitions that begin at the lexer's token, none or more, and registers them. The same text again changes
// nothing; another definition of a name that is there is an error. Errors name line and column. The registry must be in
// nobody else's use. The lexer's text is copied: what is read behind the definitions lives as long as the registry.
TC_NODISCARD tc_status tc_user_ops_define(tc_op_registry *r, tc_lexer *lx, const tc_user_device *device);
// The definitions that the graph's nodes use, each once, as text in front of it.
void tc_user_ops_print(tc_sb *sb, const tc_graph *g);

// ---- The names of one use ----
typedef struct tc_user_bound {
  tc_sv name;
  const tc_sym *value;
} tc_user_bound;
typedef struct tc_user_env {
  const struct tc_user_op *u;
  const tc_op *op;
  tc_arena *arena;
  tc_sym_ctx *syms;
  int32_t n_args;
  const tc_arg *args;
  TC_VEC(tc_user_bound) bound;  // the latest one of a name counts
  TC_VEC(tc_user_bound) types;  // dtype variables; the value is the dtype's number
  TC_VEC(const tc_sym *) equal; // pairs that must be equal for the shapes to fit
  const tc_tensor_type *like;   // the first shape [...]
  // How arguments lie: strides and offset count for those that are strided. NULL, or an entry: as the graph's value.
  const tc_tensor_type *const *layouts;
} tc_user_env;
// Binds sizes, dtypes, numbers and lets; constants have their presets. `args` normalised. layouts[n_args] or NULL.
TC_NODISCARD tc_status tc_user_env_make(tc_arena *arena, tc_sym_ctx *syms, const tc_op *op, int32_t n_args,
                                        const tc_arg *args, const tc_tensor_type *const *layouts, tc_user_env *out);
// Is the schema's argument one that the kernel takes as it lies?
bool tc_user_is_strided(const struct tc_user_op *u, int32_t arg);
void tc_user_env_set(tc_user_env *e, tc_sv name, const tc_sym *value);
// Constants as configuration c (-1: none) has them; then lets. Heuristics are not set.
TC_NODISCARD tc_status tc_user_env_configure(tc_user_env *e, int32_t c);
TC_NODISCARD tc_status tc_user_eval(tc_user_env *e, const tc_ex *x, const tc_sym **out);
// The values that a heuristic may have, of the configuration that was set; false: too many.
TC_NODISCARD tc_status tc_user_heuristic(tc_user_env *e, int32_t i, const tc_sym **out, int64_t *lo, int64_t *hi,
                                         bool *out_few);
tc_dtype tc_user_dtype(const tc_user_env *e, tc_dtype dtype, tc_sv variable);
// Operations of one use, or NULL if the definition does not say.
const tc_sym *tc_user_flops(tc_arena *arena, tc_sym_ctx *syms, const tc_op *op, int32_t n_args, const tc_arg *args);

#endif
