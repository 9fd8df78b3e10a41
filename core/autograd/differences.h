// The numerical gradient check: derivatives against differences, in f64 and complex128.
#ifndef TC_CORE_AUTOGRAD_DIFFERENCES_H_
#define TC_CORE_AUTOGRAD_DIFFERENCES_H_

#include "core/autograd/autograd.h"

typedef struct tc_gradcheck {
  const tc_allocator *allocator;
  tc_arena *arena;         // for what lives as long as the check
  tc_graph *graph;         // stays as it is; its module is not used by others meanwhile
  const tc_tensor *inputs; // by graph input; without storage: the module's binding
  uint64_t seed;           // of directions and cotangents
} tc_gradcheck;

typedef struct tc_gradcheck_result {
  int32_t order;         // of the last derivative that was checked: 0, 1, 2
  double worst;          // relative error over all directions
  const char *undecided; // why an order was not checked ("not smooth here", "… has no derivative"), or NULL
  int32_t n_ops;         // ops whose derivatives were used, in first order
  const tc_op *const *ops;
} tc_gradcheck_result;

// Runs the graph on the references, never rounding, at x ± h·u for random directions u and several h, and compares the
// slope of Re(conj(ct)·y) with what the joint graph says; then the same of the joint graph itself, up to `order` (1 or
// 2). MISMATCH names the input. Where differences do not settle for any h (kinks, branch cuts, infinities) nothing is
// said: `undecided`.
TC_NODISCARD tc_status tc_gradcheck_run(const tc_gradcheck *g, int32_t order, tc_gradcheck_result *out);

#endif
