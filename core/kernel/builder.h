// The kernel builder's inside, shared by builder.c (memory, declarations, emission), builder_flow.c (regions) and
// fold.c (constants and identities).
//
// Memory: nothing is allocated while an instruction is made. Each public call first runs tc_kbi_ready, which reserves
// room for everything that the call may add, under an arena guard of its own only when something must grow. So no
// frame of a caller, plugin or core, is ever unwound.
#ifndef TC_CORE_KERNEL_BUILDER_H_
#define TC_CORE_KERNEL_BUILDER_H_

#include "core/kernel/ir.h"

// An open region with what its end needs to know.
typedef struct tc_kbi_frame {
  int32_t kind, region, then_region; // kind: TC_KIR_*; then_region: for ELSE
  tc_kval lo, hi, cond;
  int64_t step;
  int32_t flags, n;
  const tc_kval *init;
} tc_kbi_frame;

struct tc_kb {
  tc_arena *arena;
  tc_sv name;
  int32_t lanes;
  TC_VEC(tc_kparam) params;
  TC_VEC(tc_kmem_info) mems;
  TC_VEC(tc_kscalar_info) scalars;
  TC_VEC(tc_kinst) insts;
  TC_VEC(tc_kvalue) values;
  TC_VEC(tc_sv) names;
  TC_VEC(int32_t) value_regions;
  TC_VEC(tc_kir_region) regions;
  TC_VEC(tc_kbi_frame) frames;
  int32_t *pool, pool_left; // bump memory for operand, result and region lists
  int32_t *shared;          // hash table of shareable instructions: number + 1, 0 is empty
  int32_t shared_size, shared_used;
  int32_t epoch; // grows with each write to global memory: loads before and after are not the same
  int32_t flags; // pending TC_KI_*
  bool raw;
  bool threads;      // tc_kernel_legalise
  bool tables;       // a vector holds 16 numbers of 32 bits, of which each lane may take any
  tc_ksource source; // language empty: none
  int32_t fail_code;
  char fail[512];
};

// False if the builder has failed, or fails now for want of memory. `items`: operands and results of the coming call.
bool tc_kbi_ready(tc_kb *b, int32_t items);
void tc_kbi_fail(tc_kb *b, int32_t code, const char *fmt, ...) TC_PRINTF(3, 4);
// Is v a value that may be used here? Fails the builder if not.
bool tc_kbi_usable(tc_kb *b, tc_kval v, const char *what);
tc_kir_region *tc_kbi_region(tc_kb *b); // the innermost open region
int32_t *tc_kbi_list(tc_kb *b, int32_t n);
// Appends an instruction with results of the given types; operands are copied. Returns its number. `region` -1: the
// innermost.
int32_t tc_kbi_emit(tc_kb *b, tc_kinst in, int32_t n_results, const tc_dtype *types);
// The same, but an equal earlier instruction that is visible here is returned instead. `salt` tells apart what the
// instruction's fields do not.
int32_t tc_kbi_emit_shared(tc_kb *b, tc_kinst in, int32_t n_results, const tc_dtype *types, uint64_t salt);
tc_kval tc_kbi_value(tc_kb *b, tc_dtype type, bool varying, int32_t inst, int32_t result);
tc_kval tc_kbi_const(tc_kb *b, tc_dtype type, tc_knum v);
// A pure operation, typed and checked; no identities.
tc_kval tc_kbi_pure(tc_kb *b, int32_t op, tc_dtype type, int32_t n, const tc_kval *args);
// fold.c: the value that replaces the operation, or -1. May reorder args and change the opcode.
tc_kval tc_kbi_fold(tc_kb *b, int32_t *op, tc_dtype type, int32_t n, tc_kval *args);
tc_kval tc_kbi_fold_cast(tc_kb *b, tc_dtype to, tc_kval x);

#endif
