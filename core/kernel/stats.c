// Static counts of a kernel, for explain and tests.
#include "core/kernel/ir.h"

void tc_kernel_count(const tc_kernel *k, tc_kernel_stats *out) {
  *out = (tc_kernel_stats){0};
  for (int32_t i = 0; i < k->n_insts; i++) {
    int32_t op = k->insts[i].op;
    bool global = k->insts[i].mem >= 0 && k->mems[k->insts[i].mem].space == TC_SPACE_GLOBAL;
    out->loads += op == TC_K_LOAD && global;
    out->stores += (op == TC_K_STORE || op == TC_K_ATOMIC_ADD) && global;
    out->lanes_regions += op == TC_K_LANES;
    out->barriers += op == TC_K_BARRIER;
    out->collectives += op >= TC_K_REDUCE_ADD && op <= TC_K_BROADCAST;
  }
  for (int32_t i = 0; i < k->n_mems; i++)
    if (k->mems[i].space == TC_SPACE_SHARED) out->shared_bytes += k->mems[i].count * tc_dtype_size(k->mems[i].dtype);
}
