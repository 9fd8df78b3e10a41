// Building graph nodes from a description: decompositions in text or in C, derivatives in text.
//
// The text language (parsed by core/base/expr.h; `decompose` and `grad` of op rows) on graph values:
//   names      what the caller gives (arguments of the op, grad, result), lets, dtypes (f32), memory formats, true,
//   none calls      mul(x, y), aten::add.Tensor(x, y, alpha=2), fft::…; without overload the one that fits the
//   arguments'
//              kinds best is taken, declared order breaking ties; a call of an op with several results is a list
//   operators  on tensors the aten op (+ add, - sub, * mul, / div, // floor_divide, % remainder, ** pow, == eq, …,
//              & bitwise_and, && logical_and, unary - neg, ~ bitwise_not, ! logical_not); on numbers arithmetic
//   members    x.size(i), x.sizes, x.stride(i), x.strides, x.offset, x.numel, x.rank, x.dtype, x.real_dtype; negative i
//              counts from the end
//   lists      [a, b], list[i], len(list); of ints a == b, a != b, a + b, part(list, from, to), repeated(list, n),
//   product(list),
//              inverse(permutation), negated(list), last(n) = [-n, …, -1], range(from, to) = [from, …, to - 1],
//              evens(n) = [0, 2, …, 2n - 2],
//              pairs(a, b) = [a0, b0, a1, …] (the shorter one is filled up by 1s in front), span(sizes, strides),
//              sizes_of(tensors, dim), given(tensors): those that are not none
//   choice     if(condition, a, b), evaluated at build time: the condition is a bool or an int that is known (symbolic
//              ones are decided by their ranges, else required as hinted); is_none(x), is_complex(x), is_float(x),
//              is_row_major(x), is_int(x) (bool too); fail("why") where there is no answer
//   other rows derivative("op", "argument", grad=g, self=x, …): what the op's row says of the argument's derivative
//   numbers    min, max of ints; float(n); limit(dtype), the largest finite value; eps(dtype)
//   dtypes     promote(x, y, …) of tensors and numbers; wide(dtype), what arithmetic is done in (f16, bf16: f32)
#ifndef TC_CORE_IR_EXPAND_H_
#define TC_CORE_IR_EXPAND_H_

#include "core/ir/op.h"

// Where nodes are made, and what they are called.
typedef struct tc_build {
  tc_graph *graph;
  tc_node *before; // NULL: at the end
  tc_sv source;    // the model's source line of each node made
  // Of random nodes made: that of the random op which is built from them; 0: one of their own. By an `expand`, each has
  // the next one while there are more than one.
  uint64_t stream, streams;
  bool derivative; // what the text refuses by fail() has no derivative: UNIMPLEMENTED instead of INVALID_ARGUMENT
} tc_build;

typedef struct tc_build_name {
  tc_sv name;
  tc_arg arg; // TENSORS for lists of tensors
} tc_build_name;

// Evaluates a program. Results: one arg per result expression (tensors, numbers, none; TENSORS for calls with several
// results). Errors name the text's line and column.
TC_NODISCARD tc_status tc_build_text(const tc_build *b, tc_sv ns, const tc_ex_program *p, int32_t n_names,
                                     const tc_build_name *names, int32_t *out_n, tc_arg **out);
// Calls an op by name ("aten::mul", "aten::mul.Tensor"), choosing the overload by the arguments. Result as in
// tc_build_text.
TC_NODISCARD tc_status tc_build_call(const tc_build *b, tc_sv name, int32_t n, const tc_arg *args,
                                     const tc_sv *arg_names, tc_arg *out);
// Builds what stands for one use of the op where gradients are wanted (op->forward, which must be there).
TC_NODISCARD tc_status tc_expand_forward(const tc_build *b, const tc_op *op, int32_t n_args, const tc_arg *args,
                                         int32_t *out_n, tc_arg **out);
// For building what stands for a node.
tc_build tc_build_for(const tc_node *n, tc_graph *g, tc_node *before);
// Has the op a decomposition?
bool tc_op_can_expand(const tc_op *op);
// Builds the decomposition of one use of the op; args normalised. Results: one per result of the op, none where absent.
TC_NODISCARD tc_status tc_expand_op(const tc_build *b, const tc_op *op, int32_t n_args, const tc_arg *args,
                                    int32_t *out_n, tc_arg **out);

#endif
