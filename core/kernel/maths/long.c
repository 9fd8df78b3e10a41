// Logarithm and argument in two words, for powers: an error of them is multiplied by the exponent.
//
// log x: with s = f/(2+f) in two words, log(1+f) = 2s + s³ (2/3 + s² p(s²)), where the first terms are exact to two
// words and p adds less than 2^-13 of them. The argument of a + ib: the smaller part over the larger one is t, c the
// nearest quarter to it, z = (t - c) / (1 + t c) in two words, |z| ≤ 1/8, and atan t = atan c + z - z³ (1/3 - z²
// p(z²)). Relative errors: below 2^-30 in f32, 2^-62 in f64.
#include "core/kernel/maths/coefficients.h"
#include "core/kernel/maths/maths.h"

static const double pi_hi = 0x1.921fb54442d18p+1, pi_lo = 0x1.1a62633145c07p-53;

// A constant in two words of the type.
static tc_km_sum constant(const tc_km *m, double hi, double lo) {
  return (tc_km_sum){k_real(m, hi), k_real(m, k_low(m, hi, lo))};
}

static tc_km_sum product(const tc_km *m, tc_km_sum x, tc_km_sum y) {
  tc_km_sum p = tc_km_two_prod(m, x.hi, y.hi);
  p.lo = k_fma(m, x.lo, y.hi, k_fma(m, x.hi, y.lo, p.lo));
  return p;
}

// s³ (lead + tail), tail small: z is s² in two words.
static tc_km_sum cubic(const tc_km *m, tc_km_sum s, tc_km_sum z, tc_km_sum lead, tc_kval tail) {
  tc_km_sum g = tc_km_two_sum(m, lead.hi, tail);
  g.lo = k_add(m, g.lo, lead.lo);
  return product(m, s, product(m, z, g));
}

tc_km_sum tc_km_long_log(const tc_km *m, tc_kval x, tc_kval more, tc_kval doubled) {
  tc_km_log_parts l = tc_km_split(m, x);
  tc_kval d = k_addc(m, l.f, 2), d_lo = k_sub(m, l.f, k_addc(m, d, -2)), inverse = k_div(m, k_real(m, 1), d);
  tc_km_sum s = {.hi = k_mul(m, l.f, inverse)};
  tc_kval minus_s = k_neg(m, s.hi);
  s.lo = k_mul(m, k_fma(m, minus_s, d_lo, k_fma(m, minus_s, d, l.f)), inverse);
  tc_km_sum z = tc_km_two_prod(m, s.hi, s.hi);
  z.lo = k_fma(m, k_add(m, s.hi, s.hi), s.lo, z.lo);
  tc_km_sum v =
      cubic(m, s, z, constant(m, 0x1.5555555555555p-1, 0x1.5555555555555p-55), k_mul(m, z.hi, K_POLY(m, z.hi, atanh5)));
  tc_km_sum sum = tc_km_two_sum(m, k_add(m, s.hi, s.hi), v.hi);
  sum.lo = k_add(m, sum.lo, k_fma(m, k_real(m, 2), s.lo, v.lo));
  if (more >= 0) sum.lo = k_add(m, sum.lo, k_div(m, more, x));
  if (doubled >= 0) l.e = k_add(m, l.e, doubled);
  // e · ln 2 with a first part so short that the product is exact.
  double short_hi = m->wide ? 0x1.62e42fefa38p-1 : 0x1.62e4p-1, ln2 = 0x1.62e42fefa39efp-1,
         ln2_lo = 0x1.abc9e3b39803fp-56;
  tc_km_sum t = tc_km_two_sum(m, k_mulc(m, l.e, short_hi), sum.hi);
  t.lo = k_add(m, t.lo, k_fma(m, l.e, k_real(m, (ln2 - short_hi) + ln2_lo), sum.lo));
  return tc_km_two_sum(m, t.hi, t.lo);
}

// atan z / z = 1 - z² (1/3 - z² (1/5 - …)): the series from 1/5 on.
static tc_kval atan_tail(const tc_km *m, tc_kval z2) {
  enum { F32 = 4, F64 = 9 };
  double c[F64];
  for (int32_t k = 0; k < F64; k++) c[k] = (k % 2 ? -1.0 : 1.0) / (2 * k + 5);
  return k_mul(m, k_neg(m, z2), tc_km_poly(m, z2, m->wide ? F64 : F32, c));
}

// The table's entry for the quarter nearest to t, in [0, 1].
static tc_kval at_quarter(const tc_km *m, tc_kval t, const double c[5]) {
  tc_kval r = k_real(m, c[0]);
  for (int32_t k = 1; k < 5; k++) r = k_select(m, k_gt(m, t, k_real(m, k * 0.25 - 0.125)), k_real(m, c[k]), r);
  return r;
}

// y / x for 0 ≤ y ≤ x, as its arc tangent.
static tc_km_sum atan_of_ratio(const tc_km *m, tc_kval y, tc_kval x) {
  static const double quarters[5] = {0, 0.25, 0.5, 0.75, 1},
                      arcs[5] = {0, 0x1.f5b75f92c80ddp-3, 0x1.dac670561bb4fp-2, 0x1.4978fa3269ee1p-1,
                                 0x1.921fb54442d18p-1},
                      rests[5] = {0, 0x1.8ab6e3cf7afbdp-57, 0x1.a2b7f222f65e2p-56, 0x1.2419a87f2a458p-56,
                                  0x1.1a62633145c07p-55};
  double low[5];
  for (int32_t k = 0; k < 5; k++) low[k] = k_low(m, arcs[k], rests[k]);
  tc_kval t = k_div(m, y, x), t_lo = k_div(m, k_fma(m, k_neg(m, t), x, y), x), c = at_quarter(m, t, quarters);
  tc_kval n = k_sub(m, t, c);
  tc_km_sum p = tc_km_two_prod(m, t, c), d = tc_km_two_sum(m, k_real(m, 1), p.hi);
  d.lo = k_add(m, d.lo, k_fma(m, t_lo, c, p.lo));
  tc_km_sum z = {.hi = k_div(m, k_add(m, n, t_lo), d.hi)};
  tc_kval left = k_fma(m, k_neg(m, z.hi), d.hi, n); // n - z d
  z.lo = k_div(m, k_add(m, k_fma(m, k_neg(m, z.hi), d.lo, left), t_lo), d.hi);
  tc_km_sum z2 = tc_km_two_prod(m, z.hi, z.hi);
  z2.lo = k_fma(m, k_add(m, z.hi, z.hi), z.lo, z2.lo);
  tc_km_sum q = cubic(m, z, z2, constant(m, 0x1.5555555555555p-2, 0x1.5555555555555p-56), atan_tail(m, z2.hi));
  tc_km_sum r = tc_km_two_sum(m, at_quarter(m, t, arcs), z.hi), w = tc_km_two_sum(m, r.hi, k_neg(m, q.hi));
  w.lo = k_add(m, w.lo, k_add(m, r.lo, k_add(m, at_quarter(m, t, low), k_sub(m, z.lo, q.lo))));
  return tc_km_two_sum(m, w.hi, w.lo);
}

static tc_km_sum without(const tc_km *m, double hi, double lo, tc_km_sum x) { // hi + lo - x, 0 ≤ x ≤ hi
  tc_km_sum c = constant(m, hi, lo), r = tc_km_two_sum(m, c.hi, k_neg(m, x.hi));
  r.lo = k_add(m, r.lo, k_sub(m, c.lo, x.lo));
  return tc_km_two_sum(m, r.hi, r.lo);
}

static tc_km_sum choose(const tc_km *m, tc_kval which, tc_km_sum x, tc_km_sum y) {
  return (tc_km_sum){k_select(m, which, x.hi, y.hi), k_select(m, which, x.lo, y.lo)};
}

tc_km_sum tc_km_long_arg(const tc_km *m, tc_kval y, tc_kval x) {
  tc_kval ax = k_abs(m, x), ay = k_abs(m, y), steep = k_gt(m, ay, ax);
  tc_km_sum r = atan_of_ratio(m, k_select(m, steep, ax, ay), k_select(m, steep, ay, ax));
  r = choose(m, steep, without(m, pi_hi / 2, pi_lo / 2, r), r);
  r = choose(m, k_lt(m, x, k_real(m, 0)), without(m, pi_hi, pi_lo, r), r);
  tc_kval below = k_lt(m, k_bits(m, y), k_int(m, 0)); // also -0
  return choose(m, below, (tc_km_sum){k_neg(m, r.hi), k_neg(m, r.lo)}, r);
}
