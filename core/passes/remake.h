// Making nodes again whose operands have other types than when they were made.
#ifndef TC_CORE_PASSES_REMAKE_H_
#define TC_CORE_PASSES_REMAKE_H_

#include "core/ir/graph.h"

typedef struct tc_remake tc_remake;
struct tc_remake {
  tc_graph *graph;
  // Exchanges *v, which node n reads, for what n is to read; may add nodes in front of n.
  tc_status (*read)(tc_remake *r, tc_node *n, tc_value **v);
  // Exchanges *v, whose type was another one when the graph was made, for what has that type; may add nodes in front of
  // `before` (NULL: at the end).
  tc_status (*restore)(tc_remake *r, tc_node *before, const tc_tensor_type *was, tc_value **v);
  tc_map *was; // value → the tc_tensor_type that stood there before
};

void tc_remake_begin(tc_remake *r, tc_graph *g);
// Makes a live node again if any operand is another one, or of another type; its meta function says what its results
// are then. What cannot be made again - control flow, sizes that come from data, ops that refuse the operands - gets
// its operands as they were. Nodes are to come in order.
TC_NODISCARD tc_status tc_remake_node(tc_remake *r, tc_node *n);
// Gives the graph's outputs the types that they had (fixed says of which; NULL: of all), and sweeps the graph.
TC_NODISCARD tc_status tc_remake_end(tc_remake *r, bool (*fixed)(const tc_remake *r, const tc_graph_output *out));

#endif
