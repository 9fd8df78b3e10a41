// The tape: what has to be differentiated of the ops that a thread runs one by one.
//
// A handle that needs a gradient is a leaf, or result `output` of a node. A node holds what its backward reads:
// snapshots of its operands (handles of their own, so that writing in place to an operand's handle afterwards does not
// move the node), results, and values that the forward saved. Nodes are numbered as they are made; operands are older
// than results, so that the backward takes nodes by falling number and needs no other order.
//
// Storages count writes. A snapshot, and a handle, know the count that they were made at: what was overwritten since is
// an error when a backward needs it, never a wrong gradient. Handles of one memory follow what is written through any
// of them (tape_views.c).
#ifndef TC_CORE_API_TAPE_H_
#define TC_CORE_API_TAPE_H_

#include "core/api/internal.h"

typedef struct api_node api_node;

void api_node_unref(api_node *n); // NULL is ignored
// Is a gradient wanted of what this op gives?
bool api_on_tape(const tc_op *op, int32_t n_args, const tc_argument *args);
// Runs an op whose operands, or some of them, need gradients.
int32_t api_tape_op(tc_context *c, const char *here, const tc_op *op, int32_t n_args, const tc_argument *args,
                    int32_t capacity, tc_tensor **results, int32_t *n_results);
// Do gradients flow to the tensor, and are they enabled in this thread?
bool api_is_tracked(const tc_tensor *t);

// ---- handles and what is written to their memory ----
static inline uint32_t api_tape_version(const tc_tensor *t) {
  return t->storage ? __atomic_load_n(&t->storage->version, __ATOMIC_RELAXED) : 0;
}
// The handle is result i of the node from now on; NULL: no gradient flows to it.
void api_tape_place(tc_tensor *t, api_node *n, int32_t i);
// Gives a view whose memory was written since the place that it has now. INVALID_ARGUMENT: nobody knows it.
TC_NODISCARD tc_status api_tape_freshen(tc_tensor *t);
// The handle was written and placed: if it is a view, its base is what that makes it.
TC_NODISCARD tc_status api_tape_written(tc_tensor *t);
// Puts an op on the tape whose one result, `value`, is there already. *out is the scope's; NULL: no gradient flows.
TC_NODISCARD tc_status api_tape_note(tc_context *c, const char *name, int32_t n_args, const tc_argument *args,
                                     const tc_tensor *value, tc_tensor **out);

#endif
