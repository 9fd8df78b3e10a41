// Cutting a joint graph into a forward and a backward graph.
//
// The forward graph computes what the program computes and saves values; the backward graph takes them, the graph's
// inputs that it needs, and the cotangents, and gives the gradients. What is not saved is computed again. Random ops
// are never computed again, inputs of the graph are there anyway and cost nothing, and views are made again from what
// they look at.
#ifndef TC_CORE_AUTOGRAD_PARTITION_H_
#define TC_CORE_AUTOGRAD_PARTITION_H_

#include "core/autograd/autograd.h"

typedef struct tc_partition_options {
  // true: everything that the backward reads is saved.
  bool save_all;
  // Else: 1: as few bytes as possible, computing again only what is cheap (pointwise ops, copies, constants); 0: all
  // that can be computed again is; between: of the bytes at 1, at most this part is kept, those that are dearest to
  // compute.
  double budget;
} tc_partition_options;

typedef struct tc_partition {
  tc_graph *forward;               // inputs: the program's; outputs: the program's, then n_saved values
  tc_graph *backward;              // inputs by `sources`; outputs: the joint graph's gradients, in order
  int32_t n_saved, n_user_outputs; // n_user_outputs: the program's own
  int32_t n_sources, *sources;     // by input of the backward: input of the joint graph, or -1 - k for saved value k
  int64_t saved_bytes;             // by the symbols' hints
  int32_t n_recomputed;            // nodes of the forward that the backward has, too
} tc_partition;

// `j` has cotangents (tc_autograd_joint) and stays as it is. UNIMPLEMENTED where sizes come
// from data, but for those made of numbers that the forward reads. Needs an open
// guard of the module's arena.
TC_NODISCARD tc_status tc_autograd_partition(const tc_joint *j, const tc_partition_options *o, tc_partition *out);

// Takes inputs below n_droppable that nothing reads out of a graph that has been swept, but keeps those that alone tell
// a size in use. Gives the number of inputs that are left; (*out_kept)[i] is what input i was before.
int32_t tc_autograd_drop_unread(tc_graph *g, int32_t n_droppable, int32_t **out_kept);

#endif
