// asin, acos, atan, atan2.
//
// asin: x + x³ p(x²) up to ½, above it π/2 - 2 asin √((1-x)/2). atan: the quotient n/d of atan2 is brought into [0, 1]
// by swapping, then into [-0.415, 0.415] by (n-d)/(n+d) with π/4 added, before the one division. In f64 atan adds what
// the quotient lost, which takes no second division since n or d is 1. Bounds (ulp), f32 / f64: asin, acos 1.5/1.5,
// atan 2/1, atan2 2/2.
#include "core/kernel/maths/coefficients.h"
#include "core/kernel/maths/maths.h"

static const double pi = 0x1.921fb54442d18p+1, pi_lo = 0x1.1a62633145c07p-53;

static tc_kval pi_part(const tc_km *m, double fraction) { return k_real(m, pi * fraction); }
static tc_kval pi_rest(const tc_km *m, double fraction) { return k_real(m, k_low(m, pi * fraction, pi_lo * fraction)); }

typedef struct arc {
  tc_kval large, s, tail; // asin of s is s + tail; large: s is √((1-|x|)/2)
} arc;

static arc arc_sine(const tc_km *m, tc_kval x) {
  tc_kval a = k_abs(m, x), half = k_real(m, 0.5);
  arc r;
  r.large = k_gt(m, a, half);
  tc_kval z = k_select(m, r.large, k_mul(m, k_sub(m, k_real(m, 1), a), half), k_mul(m, a, a));
  r.s = k_select(m, r.large, k_sqrt(m, z), a);
  r.tail = k_mul(m, r.s, k_mul(m, z, K_POLY(m, z, asin)));
  return r;
}

tc_kval tc_km_op_asin(const tc_km *m, tc_kval x) {
  arc r = arc_sine(m, x);
  tc_kval sum = k_add(m, r.s, r.tail), minus_two = k_real(m, -2);
  tc_km_sum d = tc_km_two_sum(m, pi_part(m, 0.5), k_mul(m, r.s, minus_two));
  tc_kval far = k_add(m, d.hi, k_fma(m, r.tail, minus_two, k_add(m, d.lo, pi_rest(m, 0.5))));
  return k_copysign(m, k_select(m, r.large, far, sum), x);
}

tc_kval tc_km_op_acos(const tc_km *m, tc_kval x) {
  arc r = arc_sine(m, x);
  tc_kval sum = k_add(m, r.s, r.tail), twice = k_add(m, sum, sum);
  tc_kval near = k_sub(m, pi_part(m, 0.5), k_sub(m, x, k_sub(m, pi_rest(m, 0.5), k_copysign(m, r.tail, x))));
  tc_kval left = k_sub(m, pi_part(m, 1), k_sub(m, twice, pi_rest(m, 1)));
  return k_select(m, r.large, k_select(m, k_lt(m, x, k_real(m, 0)), left, twice), near);
}

// What atan of the quotient loses by rounding: t is num/den rounded, where num and den are the rounded n - d and n + d
// with `turn`, else n and d. One of n and d is 1: n with `swap`, else d.
static tc_kval lost(const tc_km *m, tc_kval n, tc_kval d, tc_kval swap, tc_kval turn, tc_kval num, tc_kval den,
                    tc_kval t) {
  tc_kval zero = k_real(m, 0), one = k_real(m, 1);
  tc_kval e = k_sub(m, n, k_add(m, num, d)), f = k_sub(m, n, k_sub(m, den, d)); // exact, since n ≤ d
  tc_kval rest = k_fma(m, k_neg(m, t), den, num);
  rest = k_add(m, rest, k_select(m, turn, k_fma(m, k_neg(m, t), f, e), zero));
  // 1/(n + d) = (1 - t)/2d = (1 + t)/2n
  tc_kval half = k_mulc(m, k_add(m, one, k_select(m, swap, t, k_neg(m, t))), 0.5);
  tc_kval over = k_select(m, turn, half, k_select(m, swap, t, one));
  tc_kval c = k_mul(m, k_mul(m, rest, over), k_sub(m, one, k_mul(m, t, t))); // the derivative, about
  return k_select(m, k_eq(m, c, c), c, zero);                                // d is infinite
}

// atan(n/d) for 0 ≤ n ≤ d; as B - or + it, B a multiple of π/2 given by `swap` (π/2 - …) and `left` (π - …).
// `one`: n or d is 1, as lost() wants it.
static tc_kval arc_tangent(const tc_km *m, tc_kval n, tc_kval d, tc_kval swap, tc_kval left, bool one) {
  tc_kval turn = k_gt(m, n, k_mulc(m, d, 0x1.a82799p-2)); // tan(π/8), about
  tc_kval num = k_select(m, turn, k_sub(m, n, d), n), den = k_select(m, turn, k_add(m, n, d), d);
  tc_kval t = k_div(m, num, den);
  tc_kval zero = k_real(m, 0), z = k_mul(m, t, t);
  tc_kval hi = k_select(m, turn, pi_part(m, 0.25), zero), lo = k_select(m, turn, pi_rest(m, 0.25), zero);
  // π/2 - π/4 = π/4, π - π/4 = 3π/4, π - π/2 = π/2: the base of each case, and whether t counts negatively.
  tc_kval minus = swap;
  hi = k_select(m, swap, k_select(m, turn, hi, pi_part(m, 0.5)), hi);
  lo = k_select(m, swap, k_select(m, turn, lo, pi_rest(m, 0.5)), lo);
  if (left >= 0) {
    tc_kval far = k_select(m, swap, hi, k_select(m, turn, pi_part(m, 0.75), pi_part(m, 1)));
    tc_kval rest = k_select(m, swap, lo, k_select(m, turn, pi_rest(m, 0.75), pi_rest(m, 1)));
    // With swap and turn the base π/4 becomes 3π/4.
    tc_kval both = k_and(m, swap, turn);
    far = k_select(m, both, pi_part(m, 0.75), far), rest = k_select(m, both, pi_rest(m, 0.75), rest);
    hi = k_select(m, left, far, hi), lo = k_select(m, left, rest, lo);
    minus = k_xor(m, minus, left);
  }
  if (one && m->wide) {
    tc_kval c = lost(m, n, d, swap, turn, num, den, t);
    lo = k_add(m, lo, k_select(m, minus, k_neg(m, c), c));
  }
  tc_kval u = k_select(m, minus, k_neg(m, t), t);
  return k_add(m, hi, k_add(m, u, k_fma(m, k_mul(m, u, z), K_POLY(m, z, atan), lo)));
}

tc_kval tc_km_op_atan(const tc_km *m, tc_kval x) {
  tc_kval a = k_abs(m, x), one = k_real(m, 1), swap = k_gt(m, a, one);
  return k_copysign(m, arc_tangent(m, k_select(m, swap, one, a), k_select(m, swap, a, one), swap, -1, true), x);
}

tc_kval tc_km_op_atan2(const tc_km *m, tc_kval y, tc_kval x) {
  tc_kval ay = k_abs(m, y), ax = k_abs(m, x), swap = k_gt(m, ay, ax), zero = k_real(m, 0), one = k_real(m, 1);
  tc_kval n = k_select(m, swap, ax, ay), d = k_select(m, swap, ay, ax);
  // Out of the way of overflow in n + d, of 0/0, and of inf/inf.
  tc_kval huge = k_gt(m, d, k_pick(m, 0x1p100, 0x1p1000)), quarter = k_real(m, 0.25);
  tc_kval inf = k_real(m, __builtin_inf()), infinite = k_eq(m, d, inf), both = k_eq(m, n, inf);
  n = k_select(m, huge, k_mul(m, n, quarter), n), d = k_select(m, huge, k_mul(m, d, quarter), d);
  tc_kval nan = k_ne(m, n, n);
  n = k_select(m, infinite, k_select(m, both, one, k_select(m, nan, n, zero)), n);
  d = k_select(m, k_or(m, infinite, k_eq(m, d, zero)), one, d);
  tc_kval left = k_lt(m, k_bits(m, x), k_int(m, 0));
  return k_copysign(m, arc_tangent(m, n, d, swap, left, false), y);
}
