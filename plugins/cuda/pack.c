// Several of a kernel's blocks in one block of the device.
//
// A multiprocessor starts a block in so many cycles, however few lanes it has: 500 000 rows with a block of a warp each
// take 0.3 ms for nothing else (H200). A block of few lanes that share no memory need not be alone, so up to THREADS
// threads of the device's block are such blocks, side by side along y; the last threads may have none left. How many
// there are is chosen at each launch, so that few blocks still spread over all multiprocessors.
#include <stdio.h>

#include "cuda.h"

enum { WARP = 32, THREADS = 256, ENOUGH = 16 }; // blocks for each multiprocessor

static int32_t value_bytes(const tc_kernel *k, tc_kval v) {
  tc_kvalue info;
  tc_k_value(k, v, &info);
  switch (info.dtype) {
  case TC_F32:
  case TC_I32:
  case TC_U32: return 4;
  case TC_F64:
  case TC_I64:
  case TC_U64: return 8;
  default: return 0; // goes through shared memory
  }
}

int32_t cuda_pack_most(const tc_kernel *k) {
  tc_ksource source;
  int32_t lanes = tc_k_lanes(k), most = THREADS / lanes;
  if (lanes % WARP || most < 2 || tc_k_source(k, &source)) return 1;
  for (tc_kmem i = 0; i < tc_k_mem_count(k); i++) {
    tc_kmem_info m;
    tc_k_mem(k, i, &m);
    if (m.space == TC_SPACE_SHARED) return 1;
  }
  for (int32_t i = 0; i < tc_k_inst_count(k); i++) {
    tc_kinst in;
    tc_k_inst(k, i, &in);
    int32_t collective = in.op >= TC_K_REDUCE_ADD && in.op <= TC_K_BROADCAST;
    if (lanes > WARP && (collective || in.op == TC_K_BARRIER)) return 1;
    if (collective && (in.op == TC_K_BROADCAST || !value_bytes(k, in.results[0]))) return 1;
  }
  return most;
}

void cuda_pack_dialect(int32_t most, int32_t lanes, tc_cdialect *dialect) {
  if (most < 2) return;
  dialect->block = "tc_block";
  if (lanes == WARP) dialect->barrier = "__syncwarp();";
  dialect->errors = "long long *errors, int tc_blocks";
  dialect->start = "const int tc_block = (int)(blockIdx.x * blockDim.y + threadIdx.y);\n"
                   "  if (!tc_start() || tc_block >= tc_blocks) return;";
}

void cuda_pack_bounds(int32_t most, int32_t blocks, size_t size, char *out) {
  char times[16] = "", fit[16] = "";
  if (most > 1) snprintf(times, sizeof times, " * %d", (int)most);
  if (blocks) snprintf(fit, sizeof fit, ", %d", (int)blocks);
  snprintf(out, size, "__launch_bounds__(%%d%s%s)", times, fit);
}

unsigned cuda_pack_at(const tc_device_ *d, int32_t most, int64_t blocks) {
  int64_t enough = (int64_t)ENOUGH * (d->props.cores > 0 ? d->props.cores : 1);
  while (most > 1 && blocks / most < enough) most /= 2;
  return (unsigned)most;
}
