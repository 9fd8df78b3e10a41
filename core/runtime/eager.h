// Ops one at a time, without a graph around them: each is compiled on first use and found again by its op, the values
// of its arguments that are no operands, and guards on the tensors. Sizes are symbols (0 and 1 apart), so that a second
// shape compiles nothing; numbers that only go into arithmetic (add's alpha, the value of a fill) are operands, so that
// another value compiles nothing; views are made without a kernel. The number of entries of an op is bounded.
//
// Thread-safe: lookups share a lock; compilations wait for each other, and for nobody who only looks up.
#ifndef TC_CORE_RUNTIME_EAGER_H_
#define TC_CORE_RUNTIME_EAGER_H_

#include "core/runtime/context.h"
#include "core/tensor/tensor.h"

#include "tc/tc.h"

typedef struct tc_eager tc_eager;
TC_NODISCARD tc_status tc_eager_create(tc_context *c, tc_eager **out); // the context must outlive it
void tc_eager_destroy(tc_eager *e);                                    // NULL is ignored

// Runs an op; arguments in schema order, missing trailing ones are defaults. An op that writes stores into its
// operand's memory and gives a reference to it. *out (from the context's allocator, tc_free it) has *out_n new tensors;
// absent results have no storage. A random op draws from the context (tc_context_draw).
TC_NODISCARD tc_status tc_eager_run(tc_eager *e, const tc_op *op, int32_t n_args, const tc_argument *args,
                                    tc_tensor **out, int32_t *out_n);

typedef struct tc_eager_stats {
  int64_t calls, compiles; // compiles: entries that were made, those of views (which have no code) among them
  int64_t kernels, hits;   // of these entries; those that the cache on disk had
} tc_eager_stats;
tc_eager_stats tc_eager_stats_of(tc_eager *e);

// An argument as graphs have it, in the graph's arena. TENSOR and TENSORS are left to the caller (none is returned).
TC_NODISCARD tc_status tc_argument_to_arg(tc_module *m, const tc_argument *a, const tc_schema_arg *schema, tc_arg *out);

#endif
