// Complex powers: 2^z, and x^y = e^(y log x), with logarithms, products and angles in two words, since exponents
// multiply their errors: within 4 ulp (of |x^y|) as long as the angle is below 2^20 (f32) or 2^50. What is not finite
// is as log, product and exp by Annex G make it.
#include "core/kernel/complex.h"

static tc_km_sum sum_of(const tc_km *m, tc_kval a, tc_kval b) { // exact (Knuth)
  tc_kval s = k_add(m, a, b), back = k_sub(m, s, a);
  return (tc_km_sum){s, k_add(m, k_sub(m, a, k_sub(m, s, back)), k_sub(m, b, back))};
}

// cos and sin of an angle in two words.
static cx direction_of(const tc_km *m, tc_km_sum t) {
  tc_kval c = real1(m, TC_K_COS, t.hi), s = real1(m, TC_K_SIN, t.hi);
  tc_kval cl = real1(m, TC_K_COS, t.lo), sl = real1(m, TC_K_SIN, t.lo);
  return (cx){k_fma(m, k_neg(m, s), sl, k_mul(m, c, cl)), k_fma(m, c, sl, k_mul(m, s, cl))};
}

// Nothing is added to what is not finite, nor to angles so large that two words say nothing of their direction: there
// the rounded product is as good, and PyTorch's.
static tc_km_sum settled(const tc_km *m, tc_km_sum x) {
  tc_kval small = k_lt(m, k_abs(m, x.hi), k_pick(m, 0x1p20, 0x1p50));
  tc_km_sum s = tc_km_two_sum(m, x.hi, x.lo);
  return (tc_km_sum){k_select(m, small, s.hi, x.hi), k_select(m, small, s.lo, k_real(m, 0))};
}

cx tc_kcx_exp2(const tc_km *m, cx z) {
  const double ln2 = 0x1.62e42fefa39efp-1, ln2_lo = 0x1.abc9e3b39803fp-56;
  tc_kval most = k_pick(m, 240, 2000);
  tc_km_sum t = tc_km_two_prod(m, z.im, k_real(m, ln2));
  t.lo = k_fma(m, z.im, k_real(m, k_low(m, ln2, ln2_lo)), t.lo);
  cx d = direction_of(m, settled(m, t));
  return tc_kcx_turned(m, z.re, z.im, tc_km_exp2_parts(m, tc_kcx_within(m, z.re, most)), most, d.re, d.im);
}

// x y ± u v
static tc_km_sum combined(const tc_km *m, tc_kval x, tc_km_sum y, tc_kval u, tc_km_sum v, bool minus) {
  if (minus) u = k_neg(m, u);
  tc_km_sum p = tc_km_two_prod(m, x, y.hi), q = tc_km_two_prod(m, u, v.hi), s = sum_of(m, p.hi, q.hi);
  tc_kval rest = k_fma(m, x, y.lo, k_fma(m, u, v.lo, k_add(m, p.lo, q.lo)));
  return settled(m, (tc_km_sum){s.hi, k_add(m, s.lo, rest)});
}

// log |x| and arg x. Both parts are scaled by the exponent of the larger, which |x|² gets back as 2e ln 2.
static void polar_of(const tc_km *m, cx x, tc_km_sum *out_log, tc_km_sum *out_arg) {
  tc_kval zero = k_real(m, 0), top = tc_kcx_larger(m, x), tiny = k_lt(m, top, k_real(m, 0x1p-60));
  tc_kval up = k_select(m, tiny, k_real(m, 0x1p100), k_real(m, 1)), inf = k_inf(m);
  cx z = {k_mul(m, x.re, up), k_mul(m, x.im, up)};
  tc_kval e = tc_kcx_exponent(m, tc_kcx_larger(m, z)), down = tc_km_power(m, k_sub(m, k_int(m, 0), e));
  tc_kval a = k_mul(m, z.re, down), b = k_mul(m, z.im, down), swap = k_lt(m, k_abs(m, a), k_abs(m, b));
  tc_kval l = k_select(m, swap, b, a), s = k_select(m, swap, a, b);
  tc_km_sum p = tc_km_two_prod(m, l, l), q = tc_km_two_prod(m, s, s), h = tc_km_two_sum(m, p.hi, q.hi);
  tc_kval more = k_add(m, h.lo, k_add(m, p.lo, q.lo));
  tc_kval er = k_sub(m, tc_km_to_real(m, e), k_select(m, tiny, k_real(m, 100), zero));
  tc_km_sum r = tc_km_long_log(m, h.hi, more, k_add(m, er, er)), t = tc_km_long_arg(m, b, a);
  tc_kval infinite = k_or(m, is_inf(m, x.re), is_inf(m, x.im)), null = k_eq(m, top, zero);
  tc_kval finite = k_and(m, k_lt(m, k_abs(m, x.re), inf), k_lt(m, k_abs(m, x.im), inf));
  tc_kval usual = k_and(m, finite, k_not(m, null)), nan = k_add(m, x.re, x.im);
  tc_kval size = k_select(m, infinite, inf, k_select(m, null, k_neg(m, inf), nan));
  tc_kval arg = real2(m, TC_K_ATAN2, x.im, x.re);
  *out_log =
      (tc_km_sum){k_select(m, usual, k_mulc(m, r.hi, 0.5), size), k_select(m, usual, k_mulc(m, r.lo, 0.5), zero)};
  *out_arg = (tc_km_sum){k_select(m, usual, t.hi, arg), k_select(m, usual, t.lo, zero)};
}

cx tc_kcx_pow(const tc_km *m, cx x, cx y) {
  tc_km_sum l, t;
  polar_of(m, x, &l, &t);
  tc_km_sum size = combined(m, y.re, l, y.im, t, true), angle = combined(m, y.re, t, y.im, l, false);
  tc_kval most = k_pick(m, 150, 1200), zero = k_real(m, 0);
  tc_kval beyond = k_gt(m, k_abs(m, size.hi), most);
  tc_km_power2 e = tc_km_exp_parts(m, tc_kcx_within(m, size.hi, most), k_select(m, beyond, zero, size.lo));
  cx d = direction_of(m, angle), r = tc_kcx_turned(m, size.hi, angle.hi, e, most, d.re, d.im);
  // Powers of zero with a positive exponent; the others are what infinities and NaN make of them.
  tc_kval null = k_and(m, k_and(m, k_eq(m, x.re, zero), k_eq(m, x.im, zero)), k_gt(m, y.re, zero));
  tc_kval open = k_and(m, is_inf(m, y.im), k_lt(m, y.re, k_inf(m)));
  null = k_and(m, null, k_not(m, open));
  return (cx){k_select(m, null, zero, r.re), k_select(m, null, zero, r.im)};
}
