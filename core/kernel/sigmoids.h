// Sigmoids whose surroundings make them shorter, for legalisation: those of a cubic, as in gelu by tanh, and products
// of two, which need one quotient.
#ifndef TC_CORE_KERNEL_SIGMOIDS_H_
#define TC_CORE_KERNEL_SIGMOIDS_H_

#include "core/kernel/ir.h"

// How often each value is an operand.
int32_t *tc_kir_uses(tc_arena *arena, const tc_kernel *k);
// in, of the kernel that is copied, in plain arithmetic; -1: it is no such form.
tc_kval tc_kir_sigmoids(tc_kir_copy *c, const int32_t *uses, const tc_kinst *in);

#endif
