// round (half away from zero) and fmod, both exact.
#include "core/kernel/maths/maths.h"

// The largest number below ½ is added: ½ itself would lift it to 1.
tc_kval tc_km_op_round(const tc_km *m, tc_kval x) {
  return k_trunc(m, k_add(m, x, k_copysign(m, k_pick(m, 0x1.fffffep-2, 0x1.fffffffffffffp-2), x)));
}

// The exponent of x ≥ 0 (0 and subnormals: as if normalised, at least as large as the true one is small).
static tc_kval exponent(const tc_km *m, tc_kval x) {
  tc_kval small = k_lt(m, x, k_pick(m, 0x1p-126, 0x1p-1022)), shift = k_int(m, m->mantissa);
  tc_kval lifted = k_select(m, small, k_mul(m, x, k_pick(m, 0x1p24, 0x1p54)), x),
          e = k_shr(m, k_bits(m, lifted), shift);
  return k_select(m, small, k_sub(m, e, k_int(m, m->wide ? 54 : 24)), e);
}

// Long division: each round subtracts q · y·2^s with s such that the quotient fits the significand, which is exact; it
// shortens r by as many bits. The number of rounds covers the widest distance of exponents.
tc_kval tc_km_op_fmod(const tc_km *m, tc_kval x, tc_kval y) {
  tc_kb *b = m->b;
  tc_kval a = k_abs(m, x), d = k_abs(m, y), zero = k_real(m, 0), izero = k_int(m, 0);
  tc_kval ed = exponent(m, d), r;
  int32_t step = m->mantissa - 1, distance = m->wide ? 2098 : 277;
  tc_kval first = tc_kb_int(b, TC_I32, 0), last = tc_kb_int(b, TC_I32, distance / step + 1);
  tc_kb_for(b, first, last, 1, 0, 1, &a, &r);
  tc_kval s = k_sub(m, k_sub(m, exponent(m, r), ed), k_int(m, step));
  s = k_select(m, k_lt(m, s, izero), izero, s);
  tc_kval most = k_int(m, distance); // only inf and NaN go beyond
  s = k_select(m, k_gt(m, s, most), most, s);
  tc_kval third = k_shr(m, s, k_int(m, 2)), rest = k_sub(m, s, k_mul(m, third, k_int(m, 3)));
  tc_kval p = tc_km_power(m, third), ds = k_mul(m, k_mul(m, k_mul(m, k_mul(m, d, p), p), p), tc_km_power(m, rest));
  tc_kval q = k_trunc(m, k_div(m, r, ds)), left = k_fma(m, k_neg(m, q), ds, r);
  left = k_select(m, k_lt(m, left, zero), k_add(m, left, ds), left); // the quotient was rounded up
  tc_kval next, out;
  next = k_select(m, k_lt(m, r, d), r, left);
  tc_kb_end_for(b, 1, &next, &out);
  tc_kval inf = k_real(m, __builtin_inf()), nan = k_real(m, __builtin_nan(""));
  out = k_select(m, k_eq(m, d, inf), a, out);
  tc_kval bad = k_or(m, k_or(m, k_eq(m, d, zero), k_ne(m, d, d)), k_not(m, k_lt(m, a, inf)));
  return k_copysign(m, k_select(m, bad, nan, out), x);
}
