// Complex arithmetic by parts.
//
// Products are (ac - bd, ad + bc), each term rounded: z times its conjugate is exactly real; infinities are not
// recovered from NaN (as in PyTorch). Quotients scale both operands by powers of two, so that nothing over- or
// underflows that the result does not. exp, log and sqrt follow Annex G at zeros, infinities and branch cuts. log
// is right to a few ulp also where |z| is near 1: there |z|² - 1 is summed from exact products (after Hull, Fairgrieve
// and Tang).
#include "core/kernel/complex.h"

tc_kval tc_kcx_larger(const tc_km *m, cx z) {
  tc_kval ax = k_abs(m, z.re), ay = k_abs(m, z.im);
  return k_select(m, k_gt(m, ax, ay), ax, ay);
}

tc_kval tc_kcx_exponent(const tc_km *m, tc_kval x) {
  tc_kval e = k_sub(m, k_shr(m, k_bits(m, x), k_int(m, m->mantissa)), k_int(m, m->bias));
  tc_kval low = k_int(m, 2 - m->bias), high = k_int(m, m->bias - 1);
  return k_select(m, k_lt(m, e, low), low, k_select(m, k_gt(m, e, high), high, e));
}

static tc_kval minus(const tc_km *m, tc_kval e) { return k_sub(m, k_int(m, 0), e); }

cx tc_kcx_mul(const tc_km *m, cx x, cx y) {
  return (cx){k_sub(m, k_mul(m, x.re, y.re), k_mul(m, x.im, y.im)),
              k_add(m, k_mul(m, x.re, y.im), k_mul(m, x.im, y.re))};
}

// z times a real number. What is not finite meets the imaginary part, which is zero, as in PyTorch.
static cx by_real(const tc_km *m, cx z, tc_kval c) {
  tc_kval zero = k_real(m, 0);
  return (cx){k_fma(m, k_neg(m, z.im), zero, k_mul(m, z.re, c)), k_fma(m, z.re, zero, k_mul(m, z.im, c))};
}

// Smith's quotient ("Algorithm 116: complex division", 1962) of scaled operands, so that what is not finite comes out
// as in PyTorch: with |c| ≥ |d| (else both are turned by -i) and r = d / c, ((a + b r) + i (b - a r)) / (c + d r).
cx tc_kcx_div(const tc_km *m, cx x, cx y) {
  tc_kval zero = k_real(m, 0), ex = tc_kcx_exponent(m, tc_kcx_larger(m, x)),
          ey = tc_kcx_exponent(m, tc_kcx_larger(m, y));
  tc_kval sx = tc_km_power(m, minus(m, ex)), sy = tc_km_power(m, minus(m, ey));
  tc_kval a = k_mul(m, x.re, sx), b = k_mul(m, x.im, sx), c = k_mul(m, y.re, sy), d = k_mul(m, y.im, sy);
  tc_kval by_zero = k_and(m, k_eq(m, y.re, zero), k_eq(m, y.im, zero));
  tc_kval keep = k_not(m, k_lt(m, k_abs(m, c), k_abs(m, d)));
  keep = k_and(m, keep, k_eq(m, y.re, y.re)); // a NaN is not the larger
  tc_kval p = k_select(m, keep, a, b), q = k_select(m, keep, b, k_neg(m, a));
  tc_kval u = k_select(m, keep, c, d), v = k_select(m, keep, d, k_neg(m, c));
  tc_kval r = k_div(m, v, u), den = k_select(m, by_zero, zero, k_fma(m, v, r, u));
  tc_kval re = k_select(m, by_zero, x.re, k_fma(m, q, r, p)),
          im = k_select(m, by_zero, x.im, k_fma(m, k_neg(m, p), r, q));
  tc_kval limit = k_int(m, 2 * m->bias - 4), low = minus(m, limit), e = k_sub(m, ex, ey);
  e = k_select(m, k_gt(m, e, limit), limit, k_select(m, k_lt(m, e, low), low, e));
  return (cx){tc_km_scale(m, k_div(m, re, den), e), tc_km_scale(m, k_div(m, im, den), e)};
}

// With t = √((|a| + |z|) / 2): (t, b/2t) for a ≥ 0, (|b|/2t, ±t) for a < 0; z is scaled by a power of four.
cx tc_kcx_sqrt(const tc_km *m, cx z) {
  tc_kval zero = k_real(m, 0), half_real = k_real(m, 0.5), e = tc_kcx_exponent(m, tc_kcx_larger(m, z));
  tc_kval half = k_shr(m, e, k_int(m, 1)), s = tc_km_power(m, minus(m, half));
  tc_kval a = k_mul(m, k_mul(m, z.re, s), s), b = k_mul(m, k_mul(m, z.im, s), s);
  tc_kval h = k_sqrt(m, k_fma(m, a, a, k_mul(m, b, b)));
  tc_kval t = k_sqrt(m, k_mul(m, k_add(m, k_abs(m, a), h), half_real)), up = tc_km_power(m, half);
  tc_kval u = k_div(m, k_mul(m, b, half_real), t), negative = k_lt(m, z.re, zero);
  tc_kval re = k_mul(m, k_select(m, negative, k_abs(m, u), t), up);
  tc_kval im = k_mul(m, k_select(m, negative, k_copysign(m, t, b), u), up);
  tc_kval null = k_and(m, k_eq(m, z.re, zero), k_eq(m, z.im, zero)), inf = k_inf(m);
  re = k_select(m, null, zero, re), im = k_select(m, null, z.im, im);
  // ∞: √(+∞+ib) = ∞ + i0, √(-∞+ib) = 0 + i∞ (NaN where b is), √(a±i∞) = ∞ ± i∞.
  tc_kval a_inf = is_inf(m, z.re), b_inf = is_inf(m, z.im), b_zero = k_mul(m, z.im, zero), right = k_gt(m, z.re, zero);
  re = k_select(m, a_inf, k_select(m, right, inf, k_abs(m, b_zero)), re);
  im = k_select(m, a_inf, k_select(m, right, b_zero, k_copysign(m, inf, z.im)), im);
  return (cx){k_select(m, b_inf, inf, re), k_select(m, b_inf, z.im, im)};
}

cx tc_kcx_turned(const tc_km *m, tc_kval a, tc_kval b, tc_km_power2 e, tc_kval most, tc_kval c, tc_kval s) {
  tc_kval zero = k_real(m, 0);
  e.p = k_select(m, k_gt(m, a, most), k_inf(m), e.p); // however small the other factor is
  tc_kval re = tc_km_scale(m, k_mul(m, e.p, c), e.n), im = tc_km_scale(m, k_mul(m, e.p, s), e.n);
  im = k_select(m, k_eq(m, b, zero), b, im);
  tc_kval wild = k_not(m, k_lt(m, k_abs(m, b), k_inf(m))); // no direction: 0 or ∞ all the same
  tc_kval left = k_and(m, wild, k_eq(m, a, k_neg(m, k_inf(m)))), right = k_and(m, wild, k_eq(m, a, k_inf(m)));
  re = k_select(m, left, zero, k_select(m, right, k_inf(m), re));
  return (cx){re, k_select(m, left, k_copysign(m, zero, b), im)};
}

tc_kval tc_kcx_within(const tc_km *m, tc_kval x, tc_kval most) {
  return k_at_least(m, k_at_most(m, x, most), k_neg(m, most));
}

// e^a (cos b, sin b), with the power of two applied last.
static cx complex_exp(const tc_km *m, cx z) {
  tc_kval most = k_pick(m, 150, 1200);
  return tc_kcx_turned(m, z.re, z.im, tc_km_exp_parts(m, tc_kcx_within(m, z.re, most), -1), most,
                       real1(m, TC_K_COS, z.im), real1(m, TC_K_SIN, z.im));
}

// e^z - 1: the real part is (e^a - 1) cos b - 2 sin² (b/2). What is not finite is as these formulas give it.
static cx complex_expm1(const tc_km *m, cx z) {
  tc_kval h = real1(m, TC_K_SIN, k_mulc(m, z.im, 0.5)), c = real1(m, TC_K_COS, z.im), em1 = real1(m, TC_K_EXPM1, z.re);
  tc_kval s = real1(m, TC_K_SIN, z.im), inf = k_inf(m);
  cx e = complex_exp(m, z);
  tc_kval near = k_fma(m, em1, c, k_mul(m, k_mulc(m, h, -2), h));
  tc_kval above = k_gt(m, z.re, k_pick(m, 0x1.62e42ep+6, 0x1.62e42fefa39efp+9)); // e^a is infinite
  tc_kval endless = k_or(m, k_or(m, above, is_inf(m, z.re)), k_ne(m, z.re, z.re));
  tc_kval far = k_and(m, k_gt(m, k_abs(m, z.re), k_real(m, 20)), k_not(m, endless));
  tc_kval grown = k_mul(m, k_select(m, above, inf, k_mul(m, k_real(m, 0), em1)), s);
  return (cx){k_select(m, far, k_addc(m, e.re, -1), near), k_select(m, endless, grown, e.im)};
}

// ½ log(1 + t) + e ln 2
static tc_kval half_log(const tc_km *m, tc_kval t, tc_kval e) {
  return k_fma(m, tc_km_to_real(m, e), k_real(m, 0x1.62e42fefa39efp-1), k_mulc(m, tc_km_log1p(m, t), 0.5));
}

// log |z|, given |z|² - 1 where that is small (else any value).
static tc_kval log_abs(const tc_km *m, cx z, tc_kval excess) {
  // Below the normal range there are too few bits left to scale: numbers near it are brought up first.
  tc_kval top = tc_kcx_larger(m, z), tiny = k_lt(m, top, k_real(m, 0x1p-60));
  tc_kval up = k_select(m, tiny, k_real(m, 0x1p100), k_real(m, 1)), raised = k_int(m, 100);
  tc_kval infinite = k_or(m, is_inf(m, z.re), is_inf(m, z.im));
  z = (cx){k_mul(m, z.re, up), k_mul(m, z.im, up)};
  tc_kval near = k_lt(m, k_abs(m, excess), k_real(m, 0.5)), e = tc_kcx_exponent(m, tc_kcx_larger(m, z));
  tc_kval s = tc_km_power(m, minus(m, e)), a = k_mul(m, z.re, s), b = k_mul(m, z.im, s);
  tc_kval t = k_select(m, near, excess, k_addc(m, k_fma(m, a, a, k_mul(m, b, b)), -1));
  e = k_sub(m, e, k_select(m, tiny, raised, k_int(m, 0)));
  tc_kval r = half_log(m, t, k_select(m, near, k_int(m, 0), e));
  return k_select(m, infinite, k_inf(m), r); // also where the other part is NaN
}

// a² + b² - 1 from exact products, the larger square first.
static tc_kval excess_of(const tc_km *m, cx z) {
  tc_kval ax = k_abs(m, z.re), ay = k_abs(m, z.im), swap = k_lt(m, ax, ay);
  tc_kval x = k_select(m, swap, ay, ax), y = k_select(m, swap, ax, ay);
  tc_km_sum p = tc_km_two_prod(m, x, x), q = tc_km_two_prod(m, y, y);
  return k_add(m, k_add(m, k_addc(m, p.hi, -1), q.hi), k_add(m, p.lo, q.lo));
}

static cx complex_log(const tc_km *m, cx z) {
  return (cx){log_abs(m, z, excess_of(m, z)), real2(m, TC_K_ATAN2, z.im, z.re)};
}

// |1+z|² - 1 = a (2 + a) + b²
static cx complex_log1p(const tc_km *m, cx z) {
  tc_kval two = k_real(m, 2), w = k_add(m, z.re, two), w_lo = k_sub(m, z.re, k_sub(m, w, two));
  tc_km_sum p = tc_km_two_prod(m, z.re, w), q = tc_km_two_prod(m, z.im, z.im);
  tc_kval excess = k_add(m, k_add(m, p.hi, q.hi), k_add(m, k_fma(m, z.re, w_lo, p.lo), q.lo));
  cx u = {k_addc(m, z.re, 1), z.im};
  // As PyTorch, which for small z has log(1+z) z / ((1+z) - 1): no value where a part is NaN, or b is infinite and a
  // was rounded.
  tc_kval angle = real2(m, TC_K_ATAN2, u.im, u.re), rounded = k_ne(m, k_addc(m, u.re, -1), z.re);
  angle = k_select(m, k_and(m, is_inf(m, z.im), rounded), k_real(m, __builtin_nan("")), angle);
  return (cx){k_select(m, k_eq(m, angle, angle), log_abs(m, u, excess), angle), angle};
}

static cx scaled(const tc_km *m, cx z, double c) { return (cx){k_mulc(m, z.re, c), k_mulc(m, z.im, c)}; }

static bool is_constant(const tc_km *m, tc_kval v, double c) {
  tc_knum n;
  return tc_kb_const_of(m->b, v, &n) && n.re == c;
}

static cx reciprocal(const tc_km *m, cx z) { return tc_kcx_div(m, (cx){k_real(m, 1), k_real(m, 0)}, z); }

// 1 / (1 + e^-z). Near its poles (odd multiples of πi) the real part of the sum is 2 e^-a cos² (b/2) - (e^-a - 1). Far
// to the left, where e^-z may be infinite in this precision, it is e^z; farther still, where it is in every one,
// PyTorch's is no number, and so is this.
static cx complex_sigmoid(const tc_km *m, cx z) {
  tc_kval one = k_real(m, 1), a = k_neg(m, z.re), h = real1(m, TC_K_COS, k_mulc(m, z.im, 0.5)),
          em1 = real1(m, TC_K_EXPM1, a), far = k_and(m, k_gt(m, a, k_real(m, 40)), k_lt(m, a, k_real(m, 700)));
  cx e = complex_exp(m, (cx){k_select(m, far, z.re, a), k_select(m, far, z.im, k_neg(m, z.im))});
  tc_kval near = k_and(m, k_lt(m, k_abs(m, a), one), k_lt(m, e.re, k_real(m, 0)));
  tc_kval twice = k_mul(m, k_add(m, k_addc(m, em1, 1), k_addc(m, em1, 1)), h);
  tc_kval re = k_select(m, near, k_fma(m, twice, h, k_neg(m, em1)), k_add(m, e.re, one));
  cx r = reciprocal(m, (cx){re, e.im});
  return (cx){k_select(m, far, e.re, r.re), k_select(m, far, e.im, r.im)};
}

static bool unary(const tc_km *m, int32_t op, cx z, cx *out) {
  switch (op) {
  case TC_K_NEG: *out = (cx){k_neg(m, z.re), k_neg(m, z.im)}; return true;
  case TC_K_CONJ: *out = (cx){z.re, k_neg(m, z.im)}; return true;
  case TC_K_ABS: *out = (cx){real2(m, TC_K_HYPOT, z.re, z.im), -1}; return true;
  case TC_K_ABS2: *out = (cx){k_fma(m, z.re, z.re, k_mul(m, z.im, z.im)), -1}; return true;
  case TC_K_ANGLE: *out = (cx){real2(m, TC_K_ATAN2, z.im, z.re), -1}; return true;
  case TC_K_SQRT: *out = tc_kcx_sqrt(m, z); return true;
  case TC_K_RSQRT: *out = reciprocal(m, tc_kcx_sqrt(m, z)); return true;
  case TC_K_EXP: *out = complex_exp(m, z); return true;
  case TC_K_EXP2: *out = tc_kcx_exp2(m, z); return true;
  case TC_K_EXPM1: *out = complex_expm1(m, z); return true;
  case TC_K_LOG: *out = complex_log(m, z); return true;
  case TC_K_LOG2: *out = scaled(m, complex_log(m, z), 0x1.71547652b82fep+0); return true;
  case TC_K_LOG10: *out = scaled(m, complex_log(m, z), 0x1.bcb7b1526e50ep-2); return true;
  case TC_K_LOG1P: *out = complex_log1p(m, z); return true;
  case TC_K_SIGMOID: *out = complex_sigmoid(m, z); return true;
  default: return tc_kcx_trig(m, op, z, out);
  }
}

tc_kcx tc_kir_complex(tc_kb *b, int32_t op, int32_t n, const tc_kcx *v) {
  tc_dtype t = tc_kb_type(b, v[0].re);
  bool wide = t == TC_F64;
  tc_km context = {b, t, wide ? TC_I64 : TC_I32, wide ? TC_U64 : TC_U32, wide, wide ? 52 : 23, wide ? 1023 : 127},
        *m = &context;
  cx r = {-1, -1};
  switch (op) {
  case TC_K_ADD: return (cx){k_add(m, v[0].re, v[1].re), k_add(m, v[0].im, v[1].im)};
  case TC_K_SUB: return (cx){k_sub(m, v[0].re, v[1].re), k_sub(m, v[0].im, v[1].im)};
  case TC_K_MUL:
    if (is_constant(m, v[1].im, 0)) return by_real(m, v[0], v[1].re);
    if (is_constant(m, v[0].im, 0)) return by_real(m, v[1], v[0].re);
    return tc_kcx_mul(m, v[0], v[1]);
  case TC_K_DIV:
    if (is_constant(m, v[1].im, 0)) { // a real divisor; what is not finite meets the zero, as in PyTorch
      tc_kval zero = k_real(m, 0), c = k_select(m, k_eq(m, v[1].re, zero), zero, v[1].re);
      return (cx){k_div(m, k_fma(m, v[0].im, zero, v[0].re), c),
                  k_div(m, k_fma(m, v[0].re, k_neg(m, zero), v[0].im), c)};
    }
    return tc_kcx_div(m, v[0], v[1]);
  case TC_K_FMA:
    return (cx){k_fma(m, v[0].re, v[1].re, k_fma(m, k_neg(m, v[0].im), v[1].im, v[2].re)),
                k_fma(m, v[0].re, v[1].im, k_fma(m, v[0].im, v[1].re, v[2].im))};
  case TC_K_POW: return tc_kcx_pow(m, v[0], v[1]);
  case TC_K_EQ: return (cx){k_and(m, k_eq(m, v[0].re, v[1].re), k_eq(m, v[0].im, v[1].im)), -1};
  case TC_K_NE: return (cx){k_or(m, k_ne(m, v[0].re, v[1].re), k_ne(m, v[0].im, v[1].im)), -1};
  default: break;
  }
  if (n != 1 || !unary(m, op, v[0], &r)) tc_kb_fail(b, "%s has no complex form", tc_k_op_text(op));
  return r;
}
