// Threads belong to the embedder: work is given to an executor, which can be replaced. fn(arg, begin, end) is called
// for disjoint ranges that cover [0, n), possibly from several threads, and parallel_for returns when all are done.
// Calls from inside fn, and concurrent callers while the team is busy, run inline.
#ifndef TC_CORE_BASE_EXECUTOR_H_
#define TC_CORE_BASE_EXECUTOR_H_

#include "core/base/status.h"

typedef void (*tc_range_fn)(void *arg, int64_t begin, int64_t end);
typedef struct tc_executor {
  void *self;
  int32_t (*threads)(void *self);
  // `grain`: ranges are no smaller than this where possible; n ≤ grain runs inline on the caller.
  void (*parallel_for)(void *self, int64_t n, int64_t grain, tc_range_fn fn, void *arg);
} tc_executor;

// OpenMP team of `threads` (0: OMP_NUM_THREADS or all). One team at a time; static, stateless.
TC_NODISCARD tc_status tc_executor_openmp(int32_t threads, tc_executor *out);
// Own pthread pool: for thread-sanitizer runs and for embedders without OpenMP.
TC_NODISCARD tc_status tc_executor_pthread(int32_t threads, tc_executor *out);
void tc_executor_destroy(tc_executor *e);
extern const tc_executor tc_executor_serial;

#endif
