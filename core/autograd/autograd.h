// Reverse-mode differentiation of graphs.
//
// A joint graph computes what the graph computes and the gradients of its inputs, given the gradients ("cotangents") of
// its outputs. Conventions are PyTorch's: for complex tensors the gradient is the conjugate Wirtinger derivative
// ∂L/∂Re + i ∂L/∂Im; a real tensor that was promoted to complex gets the real part; integer and bool tensors have none;
// at kinks each op's derivative says what it takes. Derivatives are texts over graph ops (tc_op_def.grad); an op
// without one is decomposed; if that ends in an op without one, through which a gradient must flow, that is an error
// that names it.
#ifndef TC_CORE_AUTOGRAD_AUTOGRAD_H_
#define TC_CORE_AUTOGRAD_AUTOGRAD_H_

#include "core/ir/expand.h"
#include "core/ir/op.h"

typedef struct tc_joint {
  tc_graph *graph; // functional; the forward graph's inputs, then the cotangents
  int32_t n_cotangents;
  int32_t *cotangents; // by user output: its input's number, or -1 where the output is not differentiable
  int32_t *gradients;  // by input of the forward graph: its output's number, or -1 where there is none
  int32_t n_ops;       // uses of derivative texts, ops of which several nodes were differentiated more than once
  const tc_op *const *ops;
} tc_joint;

// Builds the joint graph of `g`, which stays as it is, in its module. wanted[i]: input i's gradient is wanted (those
// that are not differentiable get none). Outputs: the forward graph's, then the gradients in the order of the inputs. A
// wanted input on which no output depends has none. Needs an open guard of the module's arena.
TC_NODISCARD tc_status tc_autograd_joint(tc_graph *g, const bool *wanted, tc_joint *out);

// The same for a graph whose first user output is a loss: a real tensor of one element. Its cotangent is 1, there are
// no others; what flows back from other outputs is nothing. A wanted input that is differentiable but does not reach
// the loss has zeros, one that is not is an error.
TC_NODISCARD tc_status tc_autograd_loss(tc_graph *g, const bool *wanted, tc_joint *out);

// Puts in the place of each node higher_order::grad (core/ir/control.h) what it asks for; a graph without one stays as
// it is, others become functional. In the order of the nodes, so that gradients can be differentiated again. Regions
// are graphs of their own. Needs an open guard of the module's arena.
TC_NODISCARD tc_status tc_autograd_requests(tc_graph *g);

// Can a gradient flow through values of this type?
bool tc_differentiable(const tc_tensor_type *t);

#endif
