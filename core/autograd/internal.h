// Shared by the files of core/autograd only.
#ifndef TC_CORE_AUTOGRAD_INTERNAL_H_
#define TC_CORE_AUTOGRAD_INTERNAL_H_

#include "core/autograd/autograd.h"
#include "core/ir/control.h"

// Is a node with regions differentiated by tc_autograd_control?
bool tc_autograd_has_control(const tc_op *op);
// Adds to g what gives the gradients of a control-flow node's operands: cotangents[i] of result i (NULL where the
// result is not differentiable), gradients[k] of operand k where wanted[k]; others are NULL, or of no interest. The
// node may be replaced by one that gives more.
tc_status tc_autograd_control(tc_graph *g, tc_node *n, const tc_control *c, tc_value *const *cotangents,
                              const bool *wanted, tc_value **gradients);

#endif
