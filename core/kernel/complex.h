// Complex expansion: shared by complex.c (arithmetic, exp, log, roots), complex_pow.c and complex_trig.c.
#ifndef TC_CORE_KERNEL_COMPLEX_H_
#define TC_CORE_KERNEL_COMPLEX_H_

#include "core/kernel/legalise.h"

typedef tc_kcx cx;

static inline tc_kval real1(const tc_km *m, int32_t op, tc_kval x) { return tc_kir_plain(m->b, op, 1, &x); }
static inline tc_kval real2(const tc_km *m, int32_t op, tc_kval x, tc_kval y) {
  return tc_kir_plain(m->b, op, 2, (tc_kval[]){x, y});
}
static inline tc_kval k_inf(const tc_km *m) { return k_real(m, __builtin_inf()); }
static inline tc_kval is_inf(const tc_km *m, tc_kval x) { return k_eq(m, k_abs(m, x), k_inf(m)); }

cx tc_kcx_mul(const tc_km *m, cx x, cx y);
cx tc_kcx_div(const tc_km *m, cx x, cx y);
cx tc_kcx_sqrt(const tc_km *m, cx z);
tc_kval tc_kcx_larger(const tc_km *m, cx z); // part by size
// The binary exponent of x ≥ 0, kept where 2^±e are normal numbers.
tc_kval tc_kcx_exponent(const tc_km *m, tc_kval x);
tc_kval tc_kcx_within(const tc_km *m, tc_kval x, tc_kval most); // -most … most; NaN stays
// e = exp a or the like, infinite where a > most; c and s are cos and sin of an angle that is zero where b is. By Annex
// G at infinities.
cx tc_kcx_turned(const tc_km *m, tc_kval a, tc_kval b, tc_km_power2 e, tc_kval most, tc_kval c, tc_kval s);
// complex_pow.c.
cx tc_kcx_exp2(const tc_km *m, cx z);
cx tc_kcx_pow(const tc_km *m, cx x, cx y);
// complex_trig.c: the trigonometric and hyperbolic functions and their inverses. False: the opcode is none of them.
bool tc_kcx_trig(const tc_km *m, int32_t op, cx z, cx *out);

#endif
