// An executable: a plan made ready for one device. Immutable and re-entrant: several threads may run it at once; each run
// checks out an arena of its own.
#ifndef TC_CORE_RUNTIME_EXEC_H_
#define TC_CORE_RUNTIME_EXEC_H_

#include "core/plan/plan.h"
#include "core/runtime/device.h"
#include "core/tensor/tensor.h"

typedef struct tc_exec tc_exec;

// Compiles the plan's kernels (or finds them in the cache) and loads them. The plan and the device must outlive it.
TC_NODISCARD tc_status tc_exec_create(tc_device *d, const tc_plan *plan, tc_exec **out, tc_compile_stats *out_stats);
void tc_exec_destroy(tc_exec *e);

// What a run did, for bench, explain and tests; filled when asked for.
typedef struct tc_launch_record {
  tc_sv name;
  double ms;
  int64_t bytes, flops, blocks;
  bool call;
} tc_launch_record;
typedef struct tc_run_report {
  tc_launch_record *launches; // capacity tc_exec_op_count, given by the caller
  int32_t n_launches;
  int64_t arena_bytes, largest_bytes;
} tc_run_report;
int32_t tc_exec_op_count(const tc_exec *e);

// inputs[i]: the tensor of graph input i (ignored where the graph has a constant there). Host tensors with the sizes,
// strides and dtypes that the graph promises; others are an error in words. outputs[i]: graph output i, new tensors owned
// by the caller (outputs that are inputs share their storage); numbers come as rank-0 tensors. On failure no output is set.
TC_NODISCARD tc_status tc_exec_run(tc_exec *e, const tc_tensor *inputs, tc_tensor *outputs, tc_run_report *report);

#endif
