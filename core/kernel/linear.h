// Integers of a kernel as sums of others: what passes over finished kernels ask of indices.
#ifndef TC_CORE_KERNEL_LINEAR_H_
#define TC_CORE_KERNEL_LINEAR_H_

#include "core/kernel/ir.h"

enum { TC_KIR_TERMS = 8 };

// c + the sum of by · v; terms have different v, none is 0, ordered by v.
typedef struct tc_kir_linear {
  int64_t c;
  int32_t n;
  struct {
    tc_kval v;
    int64_t by;
  } terms[TC_KIR_TERMS];
} tc_kir_linear;

// The instruction that makes a value, or NULL for a region's parameter.
static inline const tc_kinst *tc_kir_made_by(const tc_kernel *k, tc_kval v) {
  return k->values[v].inst < 0 ? NULL : &k->insts[k->values[v].inst];
}

// v as such a sum; where `instead` is given, instead[v] stands for v unless it is negative. Sums are made as if no
// integer of the kernel wrapped. False: there are too many terms.
bool tc_kir_linear_of(const tc_kernel *k, tc_kval v, const tc_kval *instead, tc_kir_linear *out);
bool tc_kir_linear_add(tc_kir_linear *sum, const tc_kir_linear *x, int64_t by); // sum += by · x
bool tc_kir_linear_same_terms(const tc_kir_linear *x, const tc_kir_linear *y);
// True if no sum and no product that v is made of wraps, in a grid of no more than `blocks` blocks (range.c).
bool tc_kir_is_exact(const tc_kernel *k, int64_t blocks, tc_kval v);

#endif
