// The reference engine (backend `ref`): runs a graph op by op on the rows' references in the widest type of each class
// (double, complex double, int64), rounding every result to its declared dtype. Slow and plain on purpose: it is what
// everything else is compared with.
//
// Storage: each value that is no view has a buffer laid out by its declared strides; views (value.view_arg) share it.
// So graphs that are not functional run too: an in-place op writes through the views it is given. An op without a
// reference but with a decomposition is decomposed first (in a scratch graph).
#ifndef TC_CORE_IR_REFEXEC_H_
#define TC_CORE_IR_REFEXEC_H_

#include "core/ir/graph.h"

typedef struct tc_ref_options {
  bool wide;       // never round; outputs are f64, c128, i64, and inputs may be, too
  bool write_back; // store mutated inputs, parameters and buffers into the inputs' own storage
  uint64_t seed;   // of random ops (tc_ref_seed)
  uint64_t stream; // added to the streams of their nodes: what other programs drew before
  // Called after each node with its results as they are (declared dtype, unless wide); NULL: not wanted.
  void (*watch)(void *self, const tc_node *n, int32_t n_results, const tc_tensor *results);
  void *watch_self;
  bool watch_moves;   // the run goes on with what `watch` leaves in the results
  bool watch_parts;   // the same for the nodes of decompositions (their graphs have `scratch` set)
  bool watch_regions; // and for those of regions, turn by turn, unless a decomposition made these
} tc_ref_options;

// inputs[i] belongs to the i-th graph input that has a value (numbers: rank 0, i64, f64 or bool); one without storage
// is taken from the module's bindings by its target. Sizes bind the symbols and are checked, as are the module's
// requirements. outputs[i] is made for every graph output (numbers: rank 0; none and strings: without storage); release
// them with tc_tensor_unref. Errors name the node and its source line; on failure no output is made.
// The module is only read from, apart from scratch memory in its arena (open a guard); not to be run in two threads.
TC_NODISCARD tc_status tc_ref_run(tc_graph *g, const tc_allocator *a, int32_t n_inputs, const tc_tensor *inputs,
                                  tc_tensor *outputs, const tc_ref_options *options);

// A single value of a dtype: integer for integers and bool, else value.
typedef struct tc_ref_number {
  tc_dtype dtype;
  tc_c128 value;
  int64_t integer;
} tc_ref_number;
// Converts with rounding, as a cast does.
tc_ref_number tc_ref_convert(tc_ref_number v, tc_dtype to);
// A pointwise op with a scalar reference on single values: the rounded result. False if the row does not say it.
bool tc_ref_fold(const tc_op *op, tc_dtype result, int32_t n, const tc_ref_number *args, tc_ref_number *out);

// The seed of the run and the node's stream (tc_node): for references of random ops.
struct tc_op_args;
void tc_ref_seed(const struct tc_op_args *a, uint64_t *out_seed, uint64_t *out_node);

#endif
