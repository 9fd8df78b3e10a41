// Shared by the files of core/ir only.
#ifndef TC_CORE_IR_INTERNAL_H_
#define TC_CORE_IR_INTERNAL_H_

#include "core/ir/opargs.h"

// A value without a definer, with a unique name; TENSOR: a copy of `type`, SYM: `symbol`.
tc_value *tc_graph_new_value(tc_graph *g, int32_t kind, tc_sv name, const tc_tensor_type *type, const tc_sym *symbol);
// Lets others of the graph have the value's name; it is to get another one at once.
void tc_value_give_up_name(tc_value *v);
// MISMATCH naming both types unless they are provably the same.
tc_status tc_types_agree(tc_module *m, const tc_tensor_type *declared, const tc_tensor_type *computed);
// Links a node whose fields are set, before `before` (NULL: at the end).
void tc_graph_link(tc_graph *g, tc_node *n, tc_node *before);
const char *tc_arg_kind_name(int32_t kind);
// Decomposes `op` (that of `a`, or what it is the in-place form of) in a scratch graph and takes the types of its
// results (expand.c).
tc_status tc_expand_meta(tc_op_args *a, const tc_op *op);
// Fails the call if a restriction of the op holds.
void tc_op_check_limits(tc_op_args *a, const tc_op *op);

// Functions of lists in the language of graph texts, by name and number of arguments (buildlists.c).
typedef struct tc_build_list_row {
  const char *name;
  int32_t n_args;
  tc_status (*run)(tc_module *m, const tc_arg *args, tc_arg *out);
} tc_build_list_row;
// The function, or NULL if there is none of that name with that many arguments.
const tc_build_list_row *tc_build_list_find(tc_sv name, int32_t n_args);

#endif
