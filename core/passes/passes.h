// The graph passes, one file each. A pass is `tc_status run(tc_graph *, bool *out_progress)` (core/ir/graph.h) and
// leaves the graph swept. Unless said otherwise a pass expects a functional graph and keeps it functional.
//
// The usual order: functionalize once; then decompose, views, conj, fold, patterns, weights, cse, dce until nothing
// changes; reinplace last (behind it nothing may move a node across another).
#ifndef TC_CORE_PASSES_PASSES_H_
#define TC_CORE_PASSES_PASSES_H_

#include "core/ir/expand.h"
#include "core/ir/op.h"

// Replaces ops that write (in place, through views, into `out`) by functional ones; writes to graph inputs become
// mutation outputs, in front of the user's.
extern const tc_pass tc_pass_functionalize;
// Takes views that count in the storage from the value that has all of it. For functional graphs, in every mode.
extern const tc_pass tc_pass_storage;
// Replaces every node whose op has a decomposition and nothing better to be lowered from (no body, no lowering).
extern const tc_pass tc_pass_decompose;
// Removes views that show what is already there, copies that nobody can tell from their source, and chains of reshapes.
extern const tc_pass tc_pass_views;
// Removes conjugations that cancel or mean nothing (real tensors).
extern const tc_pass tc_pass_conj;
// Folds tensors of one value, arithmetic with neutral elements, casts there and back.
extern const tc_pass tc_pass_fold;
// Rewrites what a table of patterns knows a better op for: attention from its parts.
extern const tc_pass tc_pass_patterns;
// The same for patterns that move work to weights, where these are constants (option `freeze`): batch norm into the
// convolution in front of it.
extern const tc_pass tc_pass_weights;
// Makes equal computations one.
extern const tc_pass tc_pass_cse;
// Removes what nothing needs. Ops with effects stay, and what gives a size that something needs.
extern const tc_pass tc_pass_dce;
// Marks nodes whose first result may take over an argument's storage: updates of mutated inputs, scatters into a value
// that nothing reads afterwards.
extern const tc_pass tc_pass_reinplace;

// Lets images lie with their channels last inside a functional graph, as convolutions whose lanes are channels read and
// write them without moving elements: `always`, or where such convolutions are most of what the graph's convolutions do
// and worth copies at its borders. What leaves the graph has the strides that it had. Behind the passes above but
// reinplace.
TC_NODISCARD tc_status tc_channels_last(tc_graph *g, bool always);

// Everything before lowering, in the order above; n in *out_n.
const tc_pass *const *tc_standard_passes(int32_t *out_n);

// ---- what passes share ----
// Decomposes each node whose op can be and that `stays` does not keep; for_gradients: by what stands for the op where
// gradients are wanted, if it says so.
TC_NODISCARD tc_status tc_decompose(tc_graph *g, bool (*stays)(void *self, const tc_node *n), void *self,
                                    bool for_gradients, bool *out_progress);
// The root of the views that v is: the value that owns the storage.
tc_value *tc_view_root(tc_value *v);
// Is this node free of effects, so that it may be dropped, moved or made once for all?
bool tc_node_pure(const tc_node *n);
bool tc_node_writes(const tc_node *n);   // into an argument
bool tc_graph_writes(const tc_graph *g); // any node or region, also by ops whose schemas do not say so
// Is this an aten op of that name, whatever its overload, that is not the in-place form?
bool tc_node_is(const tc_node *n, const char *name);
// Do attention's templates take queries, or values, of this type? False where the length of their rows is known, and 0
// or too long for them.
bool tc_attention_takes_heads(const tc_tensor_type *t);
bool tc_counts_in_storage(const tc_node *n); // a view of its operand by positions in the storage: as_strided, resize
// v in the layout of `like` (dtype, sizes and strides), copied if need be; for values that replace others of that type.
// A layout that no op gives stays as it is.
TC_NODISCARD tc_status tc_match_layout(const tc_build *b, tc_value *v, const tc_tensor_type *like, tc_value **out);
// The same, also where the layout has gaps, which are filled with zeros: for what leaves the graph, or is seen by
// positions in its storage.
TC_NODISCARD tc_status tc_match_gaps(const tc_build *b, tc_value *v, const tc_tensor_type *like, tc_value **out);

#endif
