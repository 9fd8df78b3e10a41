// Shared by the files of core/autograd only.
#ifndef TC_CORE_AUTOGRAD_INTERNAL_H_
#define TC_CORE_AUTOGRAD_INTERNAL_H_

#include "core/autograd/autograd.h"

// Adds to g the node that gives the gradients of a cond's operands: cotangents[i] of result i (NULL where the result is
// not differentiable), gradients[k] of operand k where wanted[k], else NULL.
tc_status tc_autograd_cond(tc_graph *g, const tc_node *n, tc_value *const *cotangents, const bool *wanted,
                           tc_value **gradients);

#endif
