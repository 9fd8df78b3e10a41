// Logarithms: log, log2, log10, log1p, asinh, acosh, atanh.
//
// x = (1 + f) 2^e with 1 + f in [√½, √2), found in the integer representation. In f32, log(1+f) = f - f²/2 + f³ p(f).
// In f64, with s = f/(2+f): log(1+f) = 2 atanh s = f - (f²/2 - s (f²/2 + s² p(s²))), which costs a division but a short
// polynomial.
// Bounds (ulp), both types: log, log2 1.1, log10 1.3, log1p 1.5, asinh, acosh, atanh 2.
#include "core/kernel/maths/coefficients.h"
#include "core/kernel/maths/maths.h"

static const double ln2_hi = 0x1.62e42fefa39efp-1, ln2_lo = 0x1.abc9e3b39803fp-56;

static tc_kval root_half(const tc_km *m) { return k_int(m, m->wide ? 0x3fe6a09e667f3bcd : 0x3f3504f3); }

// The exponent e (integer) of x = m 2^e, m in [√½, √2), and m.
static tc_kval exponent(const tc_km *m, tc_kval x, tc_kval *out_m) {
  tc_kval bits = k_bits(m, x), shift = k_int(m, m->mantissa);
  tc_kval e = k_shr(m, k_sub(m, bits, root_half(m)), shift);
  *out_m = k_from_bits(m, k_sub(m, bits, k_shl(m, e, shift)));
  return e;
}

tc_km_log_parts tc_km_split(const tc_km *m, tc_kval x) {
  double up = m->wide ? 54 : 25;
  tc_kval small = k_lt(m, x, k_pick(m, 0x1p-126, 0x1p-1022)), one_plus_f;
  tc_kval e = exponent(m, k_select(m, small, k_mul(m, x, k_pick(m, 0x1p25, 0x1p54)), x), &one_plus_f);
  tc_kval er = tc_km_to_real(m, e);
  return (tc_km_log_parts){k_addc(m, one_plus_f, -1), k_select(m, small, k_addc(m, er, -up), er)};
}

// log(1+f) = f - half + rest, half = f²/2.
static void series(const tc_km *m, tc_kval f, tc_kval *half, tc_kval *rest) {
  tc_kval z = k_mul(m, f, f);
  *half = k_mulc(m, z, 0.5);
  if (!m->wide) {
    *rest = k_mul(m, k_mul(m, f, z), tc_km_poly(m, f, sizeof log_f32 / sizeof(double), log_f32));
    return;
  }
  tc_kval s = k_div(m, f, k_addc(m, f, 2)), s2 = k_mul(m, s, s);
  *rest = k_mul(m, s, k_fma(m, s2, K_POLY(m, s2, atanh), *half));
}

static tc_kval assemble(const tc_km *m, tc_kval f, tc_kval e) {
  tc_kval half, rest;
  if (!m->wide) { // what log(2) lacks as one number is a 20th of an ulp
    tc_kval p = tc_km_poly(m, f, sizeof log_f32 / sizeof(double), log_f32);
    tc_kval r = k_fma(m, k_mul(m, f, f), k_fma(m, p, f, k_real(m, -0.5)), f);
    return k_fma(m, e, k_real(m, ln2_hi), r);
  }
  series(m, f, &half, &rest);
  tc_kval low = k_fma(m, e, k_real(m, k_low(m, ln2_hi, ln2_lo)), rest);
  return k_fma(m, e, k_real(m, ln2_hi), k_sub(m, f, k_sub(m, half, low)));
}

// What every logarithm is at `pole` (-inf), below it (NaN), at infinity and at NaN (x itself).
static tc_kval specials(const tc_km *m, tc_kval x, double pole, tc_kval r) {
  tc_kval inf = k_real(m, __builtin_inf()), at = k_real(m, pole);
  r = k_select(m, k_lt(m, x, inf), r, x);
  r = k_select(m, k_eq(m, x, at), k_neg(m, inf), r);
  return k_select(m, k_lt(m, x, at), k_real(m, __builtin_nan("")), r);
}

tc_kval tc_km_log(const tc_km *m, tc_kval x) {
  tc_km_log_parts p = tc_km_split(m, x);
  return specials(m, x, 0, assemble(m, p.f, p.e));
}

tc_kval tc_km_op_log(const tc_km *m, tc_kval x) { return tc_km_log(m, x); }

// log to another base: scale · log(1+f) + e · log(2)/log(base), scale and the latter in two parts.
static tc_kval log_base(const tc_km *m, tc_kval x, double scale, double scale_lo, double two, double two_lo) {
  tc_km_log_parts p = tc_km_split(m, x);
  tc_kval half, rest;
  series(m, p.f, &half, &rest);
  tc_km_sum l = tc_km_two_sum(m, p.f, k_neg(m, half));
  tc_kval low = k_add(m, l.lo, rest), c = k_real(m, scale);
  tc_km_sum y = tc_km_two_prod(m, l.hi, c);
  tc_kval err = k_fma(m, l.hi, k_real(m, k_low(m, scale, scale_lo)), k_fma(m, low, c, y.lo));
  double rest2 = k_low(m, two, two_lo);
  if (rest2 != 0) err = k_fma(m, p.e, k_real(m, rest2), err);
  return specials(m, x, 0, k_fma(m, p.e, k_real(m, two), k_add(m, y.hi, err)));
}

tc_kval tc_km_op_log2(const tc_km *m, tc_kval x) {
  return log_base(m, x, 0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56, 1, 0);
}

tc_kval tc_km_op_log10(const tc_km *m, tc_kval x) {
  return log_base(m, x, 0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57, 0x1.34413509f79ffp-2, -0x1.9dc1da994fd21p-59);
}

// 1 + x = m 2^e; then f = x 2^-e + (2^-e - 1) is right to half an ulp, whatever 1 + x has lost.
tc_kval tc_km_log1p(const tc_km *m, tc_kval x) {
  tc_kval one_plus_f, u = k_addc(m, x, 1);
  tc_kval e = exponent(m, u, &one_plus_f);
  tc_kval s = tc_km_power(m, k_sub(m, k_int(m, 0), e));
  tc_kval f = k_fma(m, x, s, k_addc(m, s, -1));
  f = k_select(m, k_gt(m, x, k_pick(m, 0x1p40, 0x1p80)), k_addc(m, one_plus_f, -1), f); // 2^-e may not exist
  tc_kval r = specials(m, x, -1, assemble(m, f, tc_km_to_real(m, e)));
  return k_select(m, k_eq(m, x, k_real(m, 0)), x, r);
}

tc_kval tc_km_op_log1p(const tc_km *m, tc_kval x) { return tc_km_log1p(m, x); }

// log1p(small) where x is moderate, log(2x) = log(x) + ln 2 where squares would overflow.
static tc_kval log_of_double(const tc_km *m, tc_kval x, tc_kval moderate) {
  tc_kval large = k_gt(m, x, k_pick(m, 0x1p30, 0x1p60));
  tc_kval r = tc_km_log1p(m, k_select(m, large, x, moderate));
  return k_select(m, large, k_add(m, r, k_real(m, ln2_hi)), r);
}

// asinh a = log1p(a + a² / (1 + √(1 + a²)))
tc_kval tc_km_op_asinh(const tc_km *m, tc_kval x) {
  tc_kval a = k_abs(m, x), one = k_real(m, 1), z = k_mul(m, a, a);
  tc_kval w = k_div(m, z, k_add(m, one, k_sqrt(m, k_fma(m, a, a, one))));
  return k_copysign(m, log_of_double(m, a, k_add(m, a, w)), x);
}

// acosh x = log1p(t + √(t (t + 2))), t = x - 1
tc_kval tc_km_op_acosh(const tc_km *m, tc_kval x) {
  tc_kval t = k_addc(m, x, -1), w = k_sqrt(m, k_fma(m, t, t, k_add(m, t, t)));
  tc_kval r = log_of_double(m, x, k_add(m, t, w));
  return k_select(m, k_lt(m, x, k_real(m, 1)), k_real(m, __builtin_nan("")), r);
}

// atanh a = ½ log1p(2a / (1 - a)); below ½ the argument is 2a + 2a² / (1 - a), which keeps the leading part exact.
tc_kval tc_km_op_atanh(const tc_km *m, tc_kval x) {
  tc_kval a = k_abs(m, x), d = k_sub(m, k_real(m, 1), a), t = k_add(m, a, a);
  tc_kval small = k_lt(m, a, k_real(m, 0.5));
  tc_kval q = k_div(m, k_select(m, small, k_mul(m, t, a), t), d);
  tc_kval u = k_select(m, small, k_add(m, t, q), q);
  return k_copysign(m, k_mulc(m, tc_km_log1p(m, u), 0.5), x);
}
