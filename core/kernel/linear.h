// Integers of a kernel as sums of products, for passes that compare indices.
#ifndef TC_CORE_KERNEL_LINEAR_H_
#define TC_CORE_KERNEL_LINEAR_H_

#include "core/kernel/ir.h"

enum { TC_LINEAR_TERMS = 8 };

// c + the sum of by · v; terms have different v, none is 0, ordered by v. Made as if no integer of the kernel wrapped:
// as a number of its own type it is the same where one does, but comparisons are not, so that each pass says why it may
// ask.
typedef struct tc_linear {
  int64_t c;
  int32_t n;
  struct {
    tc_kval v;
    int64_t by;
  } terms[TC_LINEAR_TERMS];
} tc_linear;

// False where v is no integer, or its sum has too many terms or steps.
bool tc_linear_of(const tc_kernel *k, tc_kval v, tc_linear *out);
// *sum becomes *sum + by · *x; false where that has too many terms.
bool tc_linear_add(tc_linear *sum, const tc_linear *x, int64_t by);
// Do they differ by a constant?
bool tc_linear_same_terms(const tc_linear *x, const tc_linear *y);
// What makes a value; NULL for the parameters of regions.
const tc_kinst *tc_kir_made_by(const tc_kernel *k, tc_kval v);
// The same where it is of this opcode, else NULL.
const tc_kinst *tc_kir_made_by_op(const tc_kernel *k, tc_kval v, int32_t op);
// Is v an integer constant of 32 bits?
bool tc_kir_is_constant(const tc_kernel *k, tc_kval v, int64_t *c);

#endif
