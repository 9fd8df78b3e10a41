// lgamma: log |Γ(x)|.
//
// Polynomials around 1, 2 (with their zeros as factors) and 4, Stirling's series above 8, a step down below ½; negative
// arguments by reflection. All are evaluated, one is selected; one logarithm serves them.
// Bounds (ulp), both types: 4, of max(1, |log Γ(x)|) and for x < 0 of log Γ(|x|), from which the result is a
// difference.
#include "core/kernel/maths/coefficients.h"
#include "core/kernel/maths/maths.h"

static tc_kval positive(const tc_km *m, tc_kval a, tc_kval log_a) {
  tc_kval one = k_real(m, 1), below = k_lt(m, a, k_real(m, 0.5));
  tc_kval t1 = k_select(m, below, a, k_sub(m, a, one)), t2 = k_addc(m, a, -2), t4 = k_addc(m, a, -4);
  tc_kval near1 = k_addc(m, k_mul(m, t1, K_POLY(m, t1, lgamma1)), 0.0); // 0, not -0, at 1
  near1 = k_select(m, below, k_sub(m, near1, log_a), near1);
  tc_kval near2 = k_mul(m, t2, K_POLY(m, t2, lgamma2)), near4 = K_POLY(m, t4, lgamma4);
  tc_kval w = k_div(m, one, a), z = k_mul(m, w, w);
  const double rest = 0.91893853320467274178 - 0.5; // log √(2π) - ½
  tc_kval tail = k_fma(m, w, K_POLY(m, z, stirling), k_real(m, rest));
  tc_kval far = k_fma(m, k_addc(m, a, -0.5), k_addc(m, log_a, -1), tail);
  tc_kval r = k_select(m, k_lt(m, a, k_real(m, 8)), near4, far);
  r = k_select(m, k_lt(m, a, k_real(m, 3)), near2, r);
  return k_select(m, k_lt(m, a, k_real(m, 1.5)), near1, r);
}

// |sin πx|
static tc_kval sin_pi(const tc_km *m, tc_kval a) {
  tc_kval r = k_abs(m, k_sub(m, a, k_rint(m, a))), half = k_real(m, 0.5), far = k_gt(m, r, k_real(m, 0.25));
  tc_kval v = k_mulc(m, k_select(m, far, k_sub(m, half, r), r), 0x1.921fb54442d18p+1), z = k_mul(m, v, v);
  tc_kval s = k_fma(m, k_mul(m, v, z), K_POLY(m, z, sin), v);
  tc_kval c = k_fma(m, k_mul(m, z, z), K_POLY(m, z, cos), k_fma(m, z, k_real(m, -0.5), k_real(m, 1)));
  return k_select(m, far, c, s);
}

tc_kval tc_km_op_lgamma(const tc_km *m, tc_kval x) {
  tc_kval a = k_abs(m, x), zero = k_real(m, 0), log_a = tc_km_log(m, a), inf = k_real(m, __builtin_inf());
  tc_kval r = positive(m, a, log_a);
  // log Γ(-a) = log(π / (a |sin πa|)) - log Γ(a)
  tc_kval pole = tc_km_log(m, k_div(m, k_real(m, 0x1.921fb54442d18p+1), k_mul(m, a, sin_pi(m, a))));
  r = k_select(m, k_lt(m, x, zero), k_sub(m, pole, r), r);
  r = k_select(m, k_or(m, k_eq(m, a, inf), k_and(m, k_lt(m, x, zero), k_eq(m, pole, inf))), inf, r);
  return k_select(m, k_lt(m, a, k_pick(m, 0x1p-30, 0x1p-60)), k_neg(m, log_a), r);
}
