// Mixed precision by PyTorch's lists of ops (torch.autocast): see autocast.c.
#ifndef TC_CORE_PASSES_AUTOCAST_H_
#define TC_CORE_PASSES_AUTOCAST_H_

#include "core/ops/mixed.h"

// Casts operands of the graph's nodes in place; dtypes of results follow. Before gradients are made of it, so that
// these are cast, too: parameters stay as they are, and their gradients have their types. What writes to its arguments
// is left to work in the types of what it writes. Errors: of building casts.
TC_NODISCARD tc_status tc_autocast(tc_graph *g, const tc_autocast_options *o);

#endif
