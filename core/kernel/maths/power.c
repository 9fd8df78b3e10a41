// pow, and the roots rsqrt, cbrt, hypot.
//
// pow: x^y = e^(y log x) with log x in two words (long.c).
// cbrt: a cubic polynomial and Halley's iteration, the residual in two words.
// Bounds (ulp), both types: pow, rsqrt 1.5, cbrt 0.6, hypot 1.1.
#include "core/kernel/builder.h"
#include "core/kernel/maths/coefficients.h"
#include "core/kernel/maths/maths.h"

tc_kval tc_km_op_pow(const tc_km *m, tc_kval x, tc_kval y) {
  tc_kval a = k_abs(m, x), zero = k_real(m, 0), one = k_real(m, 1), inf = k_real(m, __builtin_inf());
  tc_km_sum l = tc_km_long_log(m, a, -1, -1);
  tc_kval a_zero = k_eq(m, a, zero), a_inf = k_eq(m, a, inf), a_one = k_eq(m, a, one);
  l.hi = k_select(m, a_zero, k_neg(m, inf), k_select(m, a_inf, inf, l.hi));
  tc_km_sum p = tc_km_two_prod(m, y, l.hi);
  tc_kval limit = k_pick(m, 110, 800), big = k_not(m, k_le(m, k_abs(m, p.hi), limit));
  p.lo = k_select(m, big, zero, k_fma(m, y, l.lo, p.lo));
  p.hi = k_at_least(m, k_at_most(m, p.hi, limit), k_neg(m, limit));
  tc_km_power2 e = tc_km_exp_parts(m, p.hi, p.lo);
  tc_kval r = tc_km_scale(m, e.p, e.n);
  // Negative bases: the sign of odd powers, NaN for powers that are no integers.
  tc_kval half = k_mulc(m, y, 0.5), whole = k_eq(m, k_trunc(m, y), y);
  tc_kval odd = k_and(m, whole, k_ne(m, k_trunc(m, half), half)), negative = k_lt(m, k_bits(m, x), k_int(m, 0));
  r = k_select(m, a_one, one, r); // also 1 ** inf, where y log x has no value
  r = k_select(m, k_and(m, odd, negative), k_neg(m, r), r);
  tc_kval no_real = k_and(m, k_and(m, k_lt(m, x, zero), k_not(m, a_inf)), k_not(m, whole));
  r = k_select(m, no_real, k_real(m, __builtin_nan("")), r);
  tc_kval nan = k_or(m, k_ne(m, x, x), k_ne(m, y, y));
  r = k_select(m, nan, k_add(m, x, y), r);
  return k_select(m, k_or(m, k_eq(m, x, one), k_eq(m, y, zero)), one, r);
}

tc_kval tc_km_op_rsqrt(const tc_km *m, tc_kval x) { return k_div(m, k_real(m, 1), k_sqrt(m, x)); }

// Both sides are scaled by the power of two of the larger.
static tc_kval scaled_hypot(const tc_km *m, tc_kval ax, tc_kval ay) {
  tc_kval swap = k_lt(m, ax, ay), a = k_select(m, swap, ay, ax), b = k_select(m, swap, ax, ay);
  tc_kval shift = k_int(m, m->mantissa), e = k_shr(m, k_bits(m, a), shift);
  tc_kval top = k_int(m, 2 * m->bias - 1), one = k_int(m, 1);
  e = k_select(m, k_gt(m, e, top), top, k_select(m, k_lt(m, e, one), one, e));
  tc_kval down = k_from_bits(m, k_shl(m, k_sub(m, k_int(m, 2 * m->bias), e), shift)),
          up = k_from_bits(m, k_shl(m, e, shift));
  tc_kval as = k_mul(m, a, down), bs = k_mul(m, b, down);
  tc_kval r = k_mul(m, k_sqrt(m, k_fma(m, as, as, k_mul(m, bs, bs))), up), inf = k_real(m, __builtin_inf());
  return k_select(m, k_or(m, k_eq(m, ax, inf), k_eq(m, ay, inf)), inf, r);
}

// Threads scale where squares could be too large, or too small to count.
tc_kval tc_km_op_hypot(const tc_km *m, tc_kval x, tc_kval y) {
  tc_kval ax = k_abs(m, x), ay = k_abs(m, y), r = scaled_hypot(m, ax, ay);
  if (!m->b->threads) return r;
  tc_kval a = tc_kb_op2(m->b, TC_K_MAX, ax, ay), b = tc_kb_op2(m->b, TC_K_MIN, ax, ay);
  tc_kval usual = k_and(m, k_ge(m, a, k_pick(m, 0x1p-40, 0x1p-400)), k_le(m, a, k_pick(m, 0x1p60, 0x1p500)));
  return k_unless(m, usual, k_sqrt(m, k_fma(m, a, a, k_mul(m, b, b))), r);
}

static tc_kval halley(const tc_km *m, tc_kval t, tc_kval x) {
  tc_km_sum sq = tc_km_two_prod(m, t, t);
  tc_kval residual = k_fma(m, sq.lo, t, k_fma(m, sq.hi, t, k_neg(m, x)));
  tc_kval slope = k_fma(m, k_add(m, sq.hi, sq.hi), t, x);
  return k_sub(m, t, k_div(m, k_mul(m, t, residual), slope));
}

tc_kval tc_km_op_cbrt(const tc_km *m, tc_kval x) {
  tc_kval a = k_abs(m, x), shift = k_int(m, m->mantissa), small = k_lt(m, a, k_pick(m, 0x1p-126, 0x1p-1022));
  int32_t up = m->wide ? 54 : 24, offset = m->wide ? 1200 : 300; // multiples of 3
  tc_kval bits = k_bits(m, k_select(m, small, k_mul(m, a, k_pick(m, 0x1p24, 0x1p54)), a));
  tc_kval e = k_add(m, k_shr(m, bits, shift), k_int(m, offset - m->bias)); // ≥ 0
  tc_kval q = k_shr(m, k_mul(m, e, k_int(m, 43691)), k_int(m, 17));        // e / 3
  tc_kval left = k_sub(m, e, k_mul(m, q, k_int(m, 3)));
  int64_t mask = (INT64_C(1) << m->mantissa) - 1;
  tc_kval one_bits = k_or(m, k_and(m, bits, k_int(m, mask)), k_int(m, (int64_t)m->bias << m->mantissa));
  tc_kval base = k_from_bits(m, one_bits), scaled = k_from_bits(m, k_add(m, one_bits, k_shl(m, left, shift)));
  tc_kval one = k_eq(m, left, k_int(m, 1)), two = k_eq(m, left, k_int(m, 2));
  tc_kval root = k_select(m, two, k_real(m, 0x1.965fea53d6e3dp+0),
                          k_select(m, one, k_real(m, 0x1.428a2f98d728bp+0), k_real(m, 1)));
  tc_kval t = halley(m, k_mul(m, K_POLY(m, base, cbrt), root), scaled);
  if (m->wide) t = halley(m, t, scaled);
  q = k_add(m, q, k_int(m, -offset / 3));
  q = k_select(m, small, k_add(m, q, k_int(m, -up / 3)), q);
  tc_kval r = k_mul(m, t, tc_km_power(m, q)), zero = k_real(m, 0);
  return k_select(m, k_and(m, k_gt(m, a, zero), k_lt(m, a, k_real(m, __builtin_inf()))), k_copysign(m, r, x),
                  k_add(m, x, x));
}
