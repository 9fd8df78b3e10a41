// Complex sin, cos, tan, sinh, cosh, tanh and their inverses.
//
// The direct ones are built from cosh and sinh of one part with a common power of two that is applied last, so that
// products that are in range do not overflow on the way. tan and tanh, and the inverses, follow Kahan ("Branch cuts for
// complex elementary functions"), which settles signs on the cuts by signed zeros.
#include "core/kernel/complex.h"
#include "core/kernel/maths/coefficients.h"

typedef struct hyper_parts {
  tc_kval ch, sh, n; // cosh x = ch 2^n, |sinh x| = sh 2^n
} hyper_parts;

// With e^|x| = p 2^n: cosh x = 2^n (p + 2^-2n / p) / 2, and sinh alike; below 1 sinh by its polynomial.
static hyper_parts hyper(const tc_km *m, tc_kval x) {
  tc_kval a = k_at_most(m, k_abs(m, x), k_pick(m, 150, 1200)), half = k_real(m, 0.5);
  tc_km_power2 e = tc_km_exp_parts(m, a, -1);
  tc_kval far = k_int(m, m->wide ? 400 : 50); // 2^-2n is nothing beyond
  tc_kval n = k_select(m, k_gt(m, e.n, far), far, e.n), down = tc_km_power(m, k_sub(m, k_int(m, 0), n));
  tc_kval q = k_div(m, k_mul(m, down, down), e.p), z = k_mul(m, a, a);
  tc_kval small = k_mul(m, k_fma(m, k_mul(m, a, z), K_POLY(m, z, sinh), a), down);
  tc_kval sh = k_select(m, k_lt(m, a, k_real(m, 1)), small, k_mul(m, k_sub(m, e.p, q), half));
  return (hyper_parts){k_mul(m, k_add(m, e.p, q), half), sh, e.n};
}

// sin(a + ib) = sin a cosh b + i cos a sinh b; cos(a + ib) = cos a cosh b - i sin a sinh b.
static cx wave(const tc_km *m, tc_kval a, tc_kval b, bool cosine) {
  hyper_parts h = hyper(m, b);
  tc_kval s = real1(m, TC_K_SIN, a), c = real1(m, TC_K_COS, a), zero = k_real(m, 0);
  tc_kval sh = k_copysign(m, h.sh, b), re = tc_km_scale(m, k_mul(m, cosine ? c : s, h.ch), h.n);
  tc_kval im = tc_km_scale(m, k_mul(m, cosine ? k_neg(m, s) : c, sh), h.n);
  tc_kval flat = k_eq(m, b, zero); // also for infinite a, where the sine has no value
  tc_kval level = cosine ? k_mul(m, k_select(m, k_lt(m, k_abs(m, a), k_inf(m)), k_neg(m, s), zero), b) : b;
  if (!cosine) level = k_select(m, k_lt(m, c, zero), k_neg(m, b), b);
  im = k_select(m, flat, level, im);
  // Annex G: where b is infinite one part is, whatever a is; where a is 0 the sine's part is, whatever b is.
  tc_kval endless = k_gt(m, k_abs(m, b), k_pick(m, 150, 1200)), grown = k_copysign(m, k_inf(m), b);
  tc_kval wild = k_and(m, is_inf(m, b), k_not(m, k_lt(m, k_abs(m, a), k_inf(m))));
  tc_kval none = k_eq(m, a, zero), one = k_real(m, 1), nan = k_ne(m, b, b);
  tc_kval first = k_mul(m, k_inf(m), cosine ? k_select(m, wild, one, c) : s);
  tc_kval second = cosine ? k_mul(m, grown, k_neg(m, s)) : k_select(m, wild, k_inf(m), k_mul(m, grown, c));
  re = k_select(m, endless, first, re), im = k_select(m, endless, second, im);
  tc_kval still = k_and(m, none, k_or(m, endless, nan));
  if (cosine) im = k_select(m, still, k_mul(m, k_neg(m, s), k_copysign(m, one, b)), im);
  else re = k_select(m, still, a, re);
  return (cx){re, im};
}

// tanh(x + iy): with t = tan y, s = sinh x, β = 1 + t²: (β s √(1+s²) + i t) / (1 + β s²); far out ±1 + i 4 sin y cos y
// e^-2|x|.
static cx complex_tanh(const tc_km *m, cx z) {
  tc_kval bound = k_pick(m, 10, 21), a = k_abs(m, z.re), far = k_gt(m, a, bound), one = k_real(m, 1);
  tc_kval s = real1(m, TC_K_SINH, k_copysign(m, k_at_most(m, a, bound), z.re)), t = real1(m, TC_K_TAN, z.im);
  tc_kval beta = k_fma(m, t, t, one), rho = k_sqrt(m, k_fma(m, s, s, one)), bs = k_mul(m, beta, s);
  tc_kval den = k_fma(m, bs, s, one);
  cx near = {k_div(m, k_mul(m, bs, rho), den), k_div(m, t, den)};
  tc_kval sc = k_mul(m, real1(m, TC_K_SIN, z.im), real1(m, TC_K_COS, z.im));
  tc_kval e = real1(m, TC_K_EXP, k_neg(m, a)); // e^-2|x| in two factors
  tc_kval im = k_mul(m, k_mul(m, k_mulc(m, sc, 4), e), e);
  tc_kval zero = k_real(m, 0);
  im = k_select(m, is_inf(m, z.re), k_copysign(m, zero, sc), im);
  // Annex G: a part that is 0 stays, whatever the other one is.
  tc_kval sign = k_copysign(m, one, z.re), lost = k_and(m, k_ne(m, sc, sc), k_not(m, is_inf(m, z.re)));
  return (cx){k_select(m, k_and(m, far, k_not(m, lost)), sign, k_select(m, k_eq(m, z.re, zero), z.re, near.re)),
              k_select(m, k_eq(m, z.im, zero), z.im, k_select(m, far, im, near.im))};
}

static cx plus_one(const tc_km *m, double sign, cx z) { // 1 ± z
  tc_kval one = k_real(m, 1);
  if (sign > 0) return (cx){k_add(m, one, z.re), z.im};
  return (cx){k_sub(m, one, z.re), k_neg(m, z.im)};
}

// Parts of conj(p) q and of p q.
static tc_kval re_conj(const tc_km *m, cx p, cx q) { return k_fma(m, p.re, q.re, k_mul(m, p.im, q.im)); }
static tc_kval im_conj(const tc_km *m, cx p, cx q) { return k_fma(m, p.re, q.im, k_neg(m, k_mul(m, p.im, q.re))); }
static tc_kval re_prod(const tc_km *m, cx p, cx q) { return k_fma(m, p.re, q.re, k_neg(m, k_mul(m, p.im, q.im))); }

// ---- what is not finite, by Annex G ----
// 1 where x is infinite, 0 where it is finite, else NaN.
static tc_kval unit(const tc_km *m, tc_kval x) {
  return k_select(m, is_inf(m, x), k_real(m, 1), k_mul(m, x, k_real(m, 0)));
}
static tc_kval any_inf(const tc_km *m, cx z) { return k_or(m, is_inf(m, z.re), is_inf(m, z.im)); }
// The direction of an infinite number from the positive real axis, in [0, π]; `x` decides the half.
static tc_kval direction(const tc_km *m, tc_kval y, tc_kval x, bool both_halves) {
  tc_kval ux = unit(m, x);
  return real2(m, TC_K_ATAN2, k_abs(m, unit(m, y)), both_halves ? k_copysign(m, ux, x) : k_abs(m, ux));
}
static tc_kval half_pi(const tc_km *m) { return k_real(m, 0x1.921fb54442d18p+0); }

static cx complex_asin(const tc_km *m, cx z) {
  cx p = tc_kcx_sqrt(m, plus_one(m, -1, z)), q = tc_kcx_sqrt(m, plus_one(m, 1, z));
  tc_kval re = real2(m, TC_K_ATAN2, z.re, re_prod(m, p, q)), im = real1(m, TC_K_ASINH, im_conj(m, p, q));
  tc_kval endless = any_inf(m, z);
  re = k_select(m, endless, k_copysign(m, direction(m, z.re, z.im, false), z.re), re);
  re = k_select(m, k_eq(m, z.re, k_real(m, 0)), z.re, re); // the imaginary axis stays
  return (cx){re, k_select(m, endless, k_copysign(m, k_inf(m), z.im), im)};
}

// acos, and acosh, whose parts change places: the part in [0, π], and the other.
static tc_kval settled_angle(const tc_km *m, cx z, tc_kval angle) {
  angle = k_select(m, any_inf(m, z), direction(m, z.im, z.re, true), angle);
  tc_kval nowhere = k_and(m, k_eq(m, z.re, k_real(m, 0)), k_ne(m, z.im, z.im)); // 0 + i NaN
  return k_select(m, nowhere, half_pi(m), angle);
}

static cx complex_acos(const tc_km *m, cx z) {
  cx p = tc_kcx_sqrt(m, plus_one(m, -1, z)), q = tc_kcx_sqrt(m, plus_one(m, 1, z));
  tc_kval half = real2(m, TC_K_ATAN2, p.re, q.re), im = real1(m, TC_K_ASINH, im_conj(m, q, p));
  im = k_select(m, any_inf(m, z), k_neg(m, k_copysign(m, k_inf(m), z.im)), im);
  return (cx){settled_angle(m, z, k_add(m, half, half)), im};
}

static cx complex_acosh(const tc_km *m, cx z) {
  cx p = tc_kcx_sqrt(m, (cx){k_addc(m, z.re, -1), z.im}), q = tc_kcx_sqrt(m, plus_one(m, 1, z));
  tc_kval half = real2(m, TC_K_ATAN2, p.im, q.re), re = real1(m, TC_K_ASINH, re_conj(m, p, q));
  tc_kval angle = k_copysign(m, settled_angle(m, z, k_abs(m, k_add(m, half, half))), z.im);
  return (cx){k_select(m, any_inf(m, z), k_inf(m), re), angle};
}

// Quarter of log1p(4x / ((1-x)² + y²)), half the angle of (1-x)(1+x) - y² + 2iy; for x < 0 by oddness.
static cx complex_atanh(const tc_km *m, cx z) {
  tc_kval one = k_real(m, 1), x = k_abs(m, z.re), y = z.im, d = k_sub(m, one, x);
  // Huge arguments are scaled: x / |z|² is all that is left, and the angle is ±π/2.
  tc_kval huge = k_or(m, k_gt(m, x, k_pick(m, 0x1p60, 0x1p500)), k_gt(m, k_abs(m, y), k_pick(m, 0x1p60, 0x1p500)));
  tc_kval den = k_fma(m, d, d, k_mul(m, y, y));
  tc_kval re = k_mulc(m, tc_km_log1p(m, k_div(m, k_mulc(m, x, 4), den)), 0.25);
  cx inverse = tc_kcx_div(m, (cx){one, k_real(m, 0)}, (cx){x, y});
  re = k_select(m, huge, inverse.re, re);
  tc_kval angle = real2(m, TC_K_ATAN2, k_add(m, y, y), k_fma(m, d, k_add(m, one, x), k_neg(m, k_mul(m, y, y))));
  tc_kval im = k_select(m, huge, k_copysign(m, half_pi(m), y), k_mulc(m, angle, 0.5));
  // At ±1, so near that the distance's square is nothing: ½ (ln 2 - ln |y|).
  tc_kval none = k_real(m, 0), close = k_and(m, k_eq(m, d, none), k_lt(m, k_abs(m, y), k_pick(m, 0x1p-50, 0x1p-500)));
  tc_kval depth = real1(m, TC_K_LOG, k_abs(m, y));
  re = k_select(m, close, k_mulc(m, k_sub(m, k_real(m, 0x1.62e42fefa39efp-1), depth), 0.5), re);
  // Annex G.
  tc_kval lost = k_or(m, k_ne(m, x, x), k_ne(m, y, y));
  re = k_select(m, lost, k_add(m, x, y), re), im = k_select(m, lost, k_add(m, x, y), im);
  re = k_select(m, k_or(m, any_inf(m, z), k_eq(m, z.re, none)), none, re);
  lost = k_and(m, is_inf(m, z.re), lost);
  im = k_select(m, any_inf(m, z), k_select(m, lost, y, k_copysign(m, half_pi(m), y)), im);
  return (cx){k_copysign(m, re, z.re), im};
}

static cx times_i(const tc_km *m, cx z) { return (cx){k_neg(m, z.im), z.re}; }
static cx over_i(const tc_km *m, cx z) { return (cx){z.im, k_neg(m, z.re)}; }

bool tc_kcx_trig(const tc_km *m, int32_t op, cx z, cx *out) {
  cx w;
  switch (op) {
  case TC_K_SIN: *out = wave(m, z.re, z.im, false); return true;
  case TC_K_COS: *out = wave(m, z.re, z.im, true); return true;
  case TC_K_SINH: // -i sin(iz) = (sinh a cos b, cosh a sin b)
    w = wave(m, z.im, z.re, false);
    *out = (cx){w.im, w.re};
    return true;
  case TC_K_COSH: // cos(iz)
    w = wave(m, k_neg(m, z.im), z.re, true);
    *out = w;
    return true;
  case TC_K_TANH: *out = complex_tanh(m, z); return true;
  case TC_K_TAN: *out = over_i(m, complex_tanh(m, times_i(m, z))); return true;
  case TC_K_ASIN: *out = complex_asin(m, z); return true;
  case TC_K_ACOS: *out = complex_acos(m, z); return true;
  case TC_K_ACOSH: *out = complex_acosh(m, z); return true;
  case TC_K_ASINH:
    // The real part has the sign of z's, also where that is a NaN and the other part infinite: a GPU that negates a NaN
    // on the way there and back need not turn its sign.
    w = times_i(m, complex_asin(m, over_i(m, z)));
    *out = (cx){k_copysign(m, w.re, z.re), w.im};
    return true;
  case TC_K_ATANH: *out = complex_atanh(m, z); return true;
  case TC_K_ATAN: *out = over_i(m, complex_atanh(m, times_i(m, z))); return true;
  default: return false;
  }
}
