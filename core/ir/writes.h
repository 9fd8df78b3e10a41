// The functional forms of ops that write to arguments other than as `op_` does: into arguments for results ("f.out"),
// or beside their results (batch norm in training updates its running statistics, which not every schema says).
#ifndef TC_CORE_IR_WRITES_H_
#define TC_CORE_IR_WRITES_H_

#include "core/ir/op.h"

enum { TC_MOST_WRITTEN = 16 };

typedef struct tc_writes {
  const tc_op *functional; // takes arguments of the same names; NULL: the node writes nothing in this way
  int32_t keep;            // the first results of both are the same; further ones of the node are what is written
  int32_t n;               // arguments that are written; 0: none of these is given
  struct {
    int32_t arg, result; // the argument's new value is this result of the functional op
  } written[TC_MOST_WRITTEN];
} tc_writes;

// Both are thread-safe and allocate nothing.
tc_writes tc_writes_of(const tc_node *n);
// What a call of the op writes beside its results only; the arguments are normalised.
tc_writes tc_writes_beside(const tc_op_registry *ops, const tc_op *op, int32_t n_args, const tc_arg *args);
// Makes the functional op with the node's arguments of the same names, in front of `before` of graph g (NULL: at its
// end); arguments that the node lacks have their defaults, or are none.
TC_NODISCARD tc_status tc_writes_call(const tc_writes *w, tc_graph *g, tc_node *before, const tc_node *n,
                                      tc_node **out);

#endif
