// The numerical gradient check: derivatives against differences, in f64 and complex128.
#ifndef TC_TCRUN_GRADCHECK_H_
#define TC_TCRUN_GRADCHECK_H_

#include "tcrun/tcrun.h"

typedef struct gradcheck {
  const tc_allocator *allocator;
  tc_arena *arena;         // for what lives as long as the check
  tc_graph *graph;         // stays as it is; its module is not used by others meanwhile
  const tc_tensor *inputs; // by graph input; without storage: the module's binding
  uint64_t seed;           // of directions and cotangents
} gradcheck;

typedef struct gradcheck_result {
  int32_t order;         // of the last derivative that was checked: 0, 1, 2
  double worst;          // relative error over all directions
  const char *undecided; // why an order was not checked ("not smooth here", "… has no derivative"), or NULL
  int32_t n_ops;         // ops whose derivatives were used, in first order
  const tc_op *const *ops;
} gradcheck_result;

// Runs the graph on the references, never rounding, at x ± h·u for random directions u and several h, and compares the
// slope of Re(conj(ct)·y) with what the joint graph says; then the same of the joint graph itself, up to `order` (1 or
// 2). MISMATCH names the input. Where differences do not settle for any h (kinks, branch cuts, infinities) nothing is
// said: `undecided`.
TC_NODISCARD tc_status tcrun_gradcheck(const gradcheck *g, int32_t order, gradcheck_result *out);

// tcrun gradcheck: the check command's files, cases and report, with this check in the place of stored results.
tc_status cmd_gradcheck(run_options *o);
// Of `checked` (full names of ops): prints which of the derivatives that are declared had no case.
TC_NODISCARD tc_status tcrun_gradcheck_coverage(run_options *o, const tc_map *checked);

#endif
