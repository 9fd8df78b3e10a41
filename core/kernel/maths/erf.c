// erf and erfc.
//
// erf: x + x p(x²) below 0.875. Above it, f32 has one polynomial up to where the result is 1; f64 takes 1 - erfc.
// erfc(x) is 1 - erf(x) for |x| < ½; else, for a = |x|, e^(-a²) / (1 + 2a) · (1 + p((a-4)/(a+4))) (after Shepherd and
// Laframboise), with a² in two parts. Bounds (ulp), f32 / f64: erf 2/1.5, erfc 1.5/1.5.
// Where only its absolute error counts, erf is 1 - 2^(-a p(a)) for all a: two thirds of the operations. It is at most
// 2^-23, and 1 from 4 on.
#include "core/kernel/maths/coefficients.h"
#include "core/kernel/maths/maths.h"

static tc_kval erfc_positive(const tc_km *m, tc_kval a) {
  a = k_at_most(m, a, k_pick(m, 11, 28));
  tc_kval four = k_real(m, 4), one = k_real(m, 1);
  tc_kval t = k_div(m, k_sub(m, a, four), k_add(m, a, four));
  tc_km_sum sq = tc_km_two_prod(m, a, a), g = tc_km_two_sum(m, one, K_POLY(m, t, erfc)), d;
  tc_km_power2 e = tc_km_exp_parts(m, k_neg(m, sq.hi), k_neg(m, sq.lo));
  // g / (1 + 2a) in two words, then times e: only the last operation rounds.
  d = tc_km_two_sum(m, k_add(m, a, a), one);
  tc_kval inverse = k_div(m, one, d.hi), q = k_mul(m, g.hi, inverse), minus_q = k_neg(m, q);
  tc_kval rest = k_add(m, k_fma(m, minus_q, d.hi, g.hi), k_fma(m, minus_q, d.lo, g.lo));
  tc_kval low = k_fma(m, e.p_lo, q, k_mul(m, e.p, k_mul(m, rest, inverse)));
  return tc_km_scale(m, k_fma(m, e.p, q, low), e.n);
}

static tc_kval erf_near(const tc_km *m, tc_kval x) { return k_fma(m, x, K_POLY(m, k_mul(m, x, x), erf), x); }

tc_kval tc_km_op_erf(const tc_km *m, tc_kval x) {
  tc_kval a = k_abs(m, x), one = k_real(m, 1), far, near = erf_near(m, a);
  if (m->wide) {
    far = k_sub(m, one, erfc_positive(m, a));
  } else {
    tc_kval u = k_addc(m, a, -2.4);
    far = k_select(m, k_gt(m, a, k_real(m, 3.92)), one,
                   tc_km_poly(m, u, sizeof erf_far_f32 / sizeof(double), erf_far_f32));
  }
  return k_copysign(m, k_select(m, k_lt(m, a, k_real(m, 0.875)), near, far), x);
}

tc_kval tc_km_short_erf(const tc_km *m, tc_kval x) {
  tc_kval a = k_at_most(m, k_abs(m, x), k_real(m, 4));
  tc_kval p = tc_km_poly(m, a, sizeof erf_power_f32 / sizeof(double), erf_power_f32);
  tc_kval power, e = tc_km_exp2_of_product(m, k_neg(m, a), p, &power); // the power is at least 2^-26
  tc_kval near = k_fma(m, k_neg(m, e), power, k_real(m, 1));
  return k_copysign(m, near, x);
}

tc_kval tc_km_op_erfc(const tc_km *m, tc_kval x) {
  tc_kval a = k_abs(m, x), r = erfc_positive(m, a);
  r = k_select(m, k_lt(m, x, k_real(m, 0)), k_sub(m, k_real(m, 2), r), r);
  return k_select(m, k_lt(m, a, k_real(m, 0.5)), k_sub(m, k_real(m, 1), erf_near(m, x)), r);
}
