// The graph passes, one file each. A pass is `tc_status run(tc_graph *, bool *out_progress)` (core/ir/graph.h) and leaves
// the graph swept.
#ifndef TC_CORE_PASSES_PASSES_H_
#define TC_CORE_PASSES_PASSES_H_

#include "core/ir/op.h"

// Replaces every node whose op has a decomposition and nothing better to be lowered from (no body, no lowering).
extern const tc_pass tc_pass_decompose;

#endif
