// Control flow: what nodes with regions mean, read off their arguments. One place for meta functions, the reference
// engine, lowering and sessions.
//
//   cond(pred, true, false, [operands])             one of two regions
//   while_loop(cond, body, [carried], [further])    body: carried, further → carried, until cond gives false
//   scan(body, [carried], [xs], [further], reverse) along dimension 0 of xs: carried, slices, further → carried, ys;
//                                                   `reverse`, which may be left out: from the last element on
//   map_impl(body, [xs], [further])                 along dimension 0 of xs: slices, further → ys
//   associative_scan(body, [xs], [further])         y[0] = x[0], y[i] = body(y[i-1], x[i], further)
//
// And, without a region, a request that core/autograd puts the derivative in the place of:
//   grad([outputs], [cotangents], [inputs])         the gradients of the inputs; a cotangent that is absent is 1
//
// Results are what is carried, then the ys stacked along a new first dimension. Regions take tensors only, in the
// order of the operands; sizes of the graph around mean the same inside.
//
// Random numbers: each turn draws from a seed of its own (tc_turn_seed). A turn is known by its element where there is
// one, else counted from 0, so that a gradient that goes through a turn again draws what the turn drew.
#ifndef TC_CORE_IR_CONTROL_H_
#define TC_CORE_IR_CONTROL_H_

#include "core/ir/op.h"

enum { TC_CONTROL_NONE, TC_CONTROL_COND, TC_CONTROL_WHILE, TC_CONTROL_SCAN, TC_CONTROL_MAP, TC_CONTROL_ASSOCIATIVE };

typedef struct tc_control {
  int32_t kind;
  const tc_arg *predicate; // COND: a tensor of one element, a truth value, or an expression that is 0 or 1
  int32_t n_regions;
  tc_graph *regions[2]; // COND: true, false; WHILE: condition, body; else the body
  int32_t n_operands, n_carry, n_xs;
  tc_value **operands; // carried, then xs, then the others
  bool reverse;        // SCAN
} tc_control;

int32_t tc_op_control(const tc_op *op); // TC_CONTROL_*
bool tc_op_is_grad(const tc_op *op);    // a request for gradients, whose arguments are these lists
enum { TC_GRAD_OUTPUTS, TC_GRAD_COTANGENTS, TC_GRAD_INPUTS };
// The region that gives the node's results.
static inline tc_graph *tc_control_body(const tc_control *c) { return c->regions[c->kind == TC_CONTROL_WHILE ? 1 : 0]; }
// Of what a loop's turn draws, from the seed of what is around the loop.
uint64_t tc_turn_seed(uint64_t seed, int64_t turn);
// Reads the arguments of a node (or of a call that is to become one) and checks their form: INVALID_ARGUMENT where
// regions are missing or take another number of operands. The operands are in the arena.
TC_NODISCARD tc_status tc_control_read(tc_arena *arena, const tc_op *op, int32_t n_args, const tc_arg *args,
                                       tc_control *out);

#endif
