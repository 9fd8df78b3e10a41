// Exponentials: exp, exp2, expm1, sinh, cosh, tanh, sigmoid.
//
// x = k ln 2 + r, |r| ≤ ln 2 / 2, with k found by adding 1.5·2^(mantissa bits) and ln 2 in two parts (Cody and Waite);
// e^r - 1 = r + r² q(r). The integer k is read from the bits of the sum, so nothing is converted.
// Where a vector holds 16 numbers k counts sixteenths in f32, whose powers of two are looked up there (Tang, 1989): |r|
// is at most ln 2 / 32 and a cubic does. The entries are rounded, which exp, exp2, sigmoid of a cubic and what it is
// multiplied by have room for; sigmoid alone would be within 3.1 and tanh within 1.7, so that these take the whole k.
//
// Bounds (ulp), both types: exp 1.1, exp2 1.1, expm1 1.8, sinh 1.8, cosh 1.8, tanh 1.6, sigmoid 2, sigmoid of a cubic
// u 2.5 (1 + |u| (1 - sigmoid)), the product of two sigmoids 5 (4.6 is the largest of a hundred million); where a
// device takes its quotients within 2 ulp: sinh 2.5, cosh 2.5, tanh 2.5, sigmoid 4.
#include <math.h>
#include <string.h>

#include "core/kernel/builder.h"
#include "core/kernel/maths/coefficients.h"
#include "core/kernel/maths/maths.h"

static const double log2_e = 0x1.71547652b82fep+0;
static const double ln2_hi = 0x1.62e42fefa39efp-1, ln2_lo = 0x1.abc9e3b39803fp-56;

typedef struct reduced {
  tc_kval n, r; // n: k as an integer
} reduced;

// What is added to round; the sum's bits hold the integer, and `more`, too.
static tc_kval magic_and(const tc_km *m, int32_t more) { return k_real(m, (m->wide ? 0x1.8p52 : 0x1.8p23) + more); }
static tc_kval round_magic(const tc_km *m) { return magic_and(m, 0); }
// With the exponent's bias for more, a shift makes the power of two.
static tc_kval power_of_sum(const tc_km *m, tc_kval sum) {
  return k_from_bits(m, k_shl(m, k_bits(m, sum), k_int(m, m->mantissa)));
}

// x + low - k ln 2; low: -1, or a small value.
static tc_kval rest_of(const tc_km *m, tc_kval x, tc_kval k, tc_kval low) {
  tc_kval r = k_fma(m, k, k_real(m, -ln2_hi), x), rest = k_real(m, -k_low(m, ln2_hi, ln2_lo));
  return low < 0 ? k_fma(m, k, rest, r) : k_add(m, r, k_fma(m, k, rest, low));
}

static reduced reduce(const tc_km *m, tc_kval x, tc_kval low) {
  tc_kval magic = round_magic(m);
  tc_kval t = k_fma(m, x, k_real(m, log2_e), magic), k = k_sub(m, t, magic);
  return (reduced){k_sub(m, k_bits(m, t), k_bits(m, magic)), rest_of(m, x, k, low)};
}

// ---- By a table ----
enum { SIXTEENTHS = 4, LAST_SIXTEENTH = (1 << SIXTEENTHS) - 1 }; // bits of k behind the point
static const double table_magic = 0x1.8p19;
static const int64_t table_magic_bits = 0x49400000;

static bool has_table(const tc_km *m) { return m->b->tables && !m->wide; }

static tc_kval sixteenth_of(const tc_km *m, tc_kmem table, tc_kval bits) {
  return tc_kb_load1(m->b, table, k_and(m, bits, k_int(m, LAST_SIXTEENTH)), -1, -1);
}

#define K_TABLE_POLY(m, r, name) tc_km_poly(m, r, (int32_t)(sizeof name##_f32 / sizeof(double)), name##_f32)

// e^r · 2^k, where e^r = 1 + r q(r) and sum = k + table_magic; every k.
static tc_kval by_table(const tc_km *m, tc_kval sum, tc_kval r, tc_kval q) {
  float powers[LAST_SIXTEENTH + 1];
  for (int32_t j = 0; j <= LAST_SIXTEENTH; j++) powers[j] = (float)powers_f32[j];
  tc_kmem table = tc_kb_constant_table(m->b, TC_SV("$powers"), TC_F32, LAST_SIXTEENTH + 1, powers);
  tc_kval bits = k_bits(m, sum), power = sixteenth_of(m, table, bits);
  tc_kval n = k_shr(m, k_sub(m, bits, k_int(m, table_magic_bits)), k_int(m, SIXTEENTHS));
  return tc_km_scale(m, k_fma(m, k_mul(m, r, power), q, power), n);
}

// 2^(k + lift), a normal number. The entries are powers' bits less those that the sum adds to them.
static tc_kval power_by_table(const tc_km *m, tc_kval sum, int32_t lift) {
  int32_t shift = m->mantissa - SIXTEENTHS, entries[LAST_SIXTEENTH + 1];
  for (int32_t j = 0; j <= LAST_SIXTEENTH; j++) {
    float power = (float)ldexp(powers_f32[j], lift);
    uint32_t bits;
    memcpy(&bits, &power, sizeof bits);
    entries[j] = (int32_t)(bits - ((uint32_t)(table_magic_bits + j) << shift));
  }
  tc_kmem table = tc_kb_constant_table(m->b, TC_SV("$lifted_powers"), TC_I32, LAST_SIXTEENTH + 1, entries);
  tc_kval bits = k_bits(m, sum);
  return k_from_bits(m, k_add(m, k_shl(m, bits, k_int(m, shift)), sixteenth_of(m, table, bits)));
}

// e^x = power · e^r / 2^lift; the power must be a normal number.
typedef struct power_and_rest {
  tc_kval power, r;
} power_and_rest;

static power_and_rest split(const tc_km *m, tc_kval x, int32_t lift) {
  tc_kval magic = magic_and(m, m->bias + lift), t = k_fma(m, x, k_real(m, log2_e), magic);
  return (power_and_rest){power_of_sum(m, t), rest_of(m, x, k_sub(m, t, magic), -1)};
}

// e^r - 1
static tc_kval core(const tc_km *m, tc_kval r) { return k_fma(m, k_mul(m, r, r), K_POLY(m, r, exp), r); }

tc_km_power2 tc_km_exp_parts(const tc_km *m, tc_kval x, tc_kval low) {
  reduced d = reduce(m, x, low);
  tc_km_sum p = tc_km_two_sum(m, k_real(m, 1), core(m, d.r));
  return (tc_km_power2){p.hi, p.lo, d.n};
}

// Beyond these the result is inf or 0 for certain.
static tc_kval limit(const tc_km *m, tc_kval x) {
  return k_at_least(m, k_at_most(m, x, k_pick(m, 90, 711)), k_pick(m, -105, -747));
}

// Powers of two of every n that exp of what is not positive has are normal once they are this much larger, and so is
// what they are multiplied by once it is this much smaller: one product then gives the result and rounds it once, also
// where it is subnormal.
static int32_t lift(const tc_km *m) { return m->wide ? 100 : 64; }
static double up(const tc_km *m) { return m->wide ? 0x1p100 : 0x1p64; }

// scale (e^r - 1) + last, |r| ≤ ln 2 / 2.
static tc_kval scaled_exp(const tc_km *m, tc_kval r, double scale, tc_kval last) {
  return k_fma(m, k_fma(m, K_SCALED_POLY(m, r, exp_sum, scale), r, k_real(m, scale)), r, last);
}

// e^x, where |x| is no larger than the limits; its error is below 1 ulp.
static tc_kval limited_exp(const tc_km *m, tc_kval x, bool never_positive) {
  if (has_table(m)) {
    tc_kval magic = k_real(m, table_magic), sum = k_fma(m, x, k_real(m, log2_e), magic);
    tc_kval r = rest_of(m, x, k_sub(m, sum, magic), -1);
    return by_table(m, sum, r, K_TABLE_POLY(m, r, exp_table));
  }
  if (never_positive) {
    power_and_rest e = split(m, x, lift(m));
    return k_mul(m, scaled_exp(m, e.r, 1 / up(m), k_real(m, 1 / up(m))), e.power);
  }
  reduced d = reduce(m, x, -1);
  return tc_km_scale(m, scaled_exp(m, d.r, 1, k_real(m, 1)), d.n);
}

tc_kval tc_km_exp(const tc_km *m, tc_kval x) { return limited_exp(m, limit(m, x), tc_kb_most(m->b, x) <= 0); }

tc_kval tc_km_op_exp(const tc_km *m, tc_kval x) { return tc_km_exp(m, x); }

// 2^r, |r| ≤ ½
static tc_kval exp2_core(const tc_km *m, tc_kval r) { return k_fma(m, r, K_POLY(m, r, exp2), k_real(m, 1)); }

tc_km_power2 tc_km_exp2_parts(const tc_km *m, tc_kval x) {
  tc_kval magic = round_magic(m), t = k_add(m, x, magic), n = k_sub(m, k_bits(m, t), k_bits(m, magic));
  return (tc_km_power2){exp2_core(m, k_sub(m, x, k_sub(m, t, magic))), -1, n};
}

tc_kval tc_km_exp2_of_product(const tc_km *m, tc_kval x, tc_kval y, tc_kval *out_power) {
  tc_kval magic = magic_and(m, m->bias), t = k_fma(m, x, y, magic);
  *out_power = power_of_sum(m, t);
  return exp2_core(m, k_fma(m, x, y, k_neg(m, k_sub(m, t, magic))));
}

tc_kval tc_km_op_exp2(const tc_km *m, tc_kval x) {
  x = k_at_least(m, k_at_most(m, x, k_pick(m, 129, 1025)), k_pick(m, -151, -1076));
  if (has_table(m)) {
    tc_kval magic = k_real(m, table_magic), sum = k_add(m, x, magic), r = k_sub(m, x, k_sub(m, sum, magic));
    return by_table(m, sum, r, K_TABLE_POLY(m, r, exp2_table));
  }
  tc_km_power2 e = tc_km_exp2_parts(m, x);
  return tc_km_scale(m, e.p, e.n);
}

// s (e^r - 1) + (s - 1) with s = 2^k: no cancellation, and for k = 0 the core itself.
static tc_kval expm1_parts(const tc_km *m, tc_kval em1, tc_kval s) { return k_fma(m, s, em1, k_addc(m, s, -1)); }

tc_kval tc_km_op_expm1(const tc_km *m, tc_kval x) {
  reduced d = reduce(m, k_at_least(m, k_at_most(m, x, k_pick(m, 89, 710)), k_pick(m, -30, -60)), -1);
  tc_kval top = k_int(m, m->bias); // 2^(bias+1) is no number: the last factor 2 is taken outside
  tc_kval over = k_gt(m, d.n, top);
  tc_kval s = tc_km_power(m, k_select(m, over, top, d.n));
  tc_kval y = k_mul(m, expm1_parts(m, core(m, d.r), s), k_select(m, over, k_real(m, 2), k_real(m, 1)));
  return k_copysign(m, y, x);
}

// e^a / 2, also where e^a overflows.
static tc_kval half_exp(const tc_km *m, tc_kval a) {
  tc_km_power2 e = tc_km_exp_parts(m, k_at_most(m, a, k_pick(m, 91, 712)), -1);
  return tc_km_scale(m, e.p, k_add(m, e.n, k_int(m, -1)));
}

tc_kval tc_km_op_sinh(const tc_km *m, tc_kval x) {
  tc_kval a = k_abs(m, x), z = k_mul(m, a, a), h = half_exp(m, a);
  tc_kval small = k_fma(m, k_mul(m, a, z), K_POLY(m, z, sinh), a);
  tc_kval large = k_sub(m, h, k_quotient(m, k_real(m, 0.25), h));
  return k_copysign(m, k_select(m, k_lt(m, a, k_real(m, 1)), small, large), x);
}

tc_kval tc_km_op_cosh(const tc_km *m, tc_kval x) {
  tc_kval h = half_exp(m, k_abs(m, x));
  return k_add(m, h, k_quotient(m, k_real(m, 0.25), h));
}

// A polynomial below 0.55, 1 - 2 / (e^2a + 1) above it.
tc_kval tc_km_op_tanh(const tc_km *m, tc_kval x) {
  tc_kval a = k_at_most(m, k_abs(m, x), k_pick(m, 10, 22)), z = k_mul(m, a, a), one = k_real(m, 1);
  tc_kval near = k_fma(m, k_mul(m, a, z), K_POLY(m, z, tanh), a);
  power_and_rest e = split(m, k_add(m, a, a), 0);
  tc_kval below = k_fma(m, e.power, core(m, e.r), k_add(m, e.power, one));
  tc_kval far = k_sub(m, one, k_plain_quotient(m, k_real(m, 2), below));
  return k_copysign(m, k_select(m, k_lt(m, a, k_real(m, 0.55)), near, far), x);
}

// With x = k ln 2 + r, s = 2^k and e^-r = 1 + c, 1 / (1 + e^-x) is s / (s + c + 1), on both sides of 0. Each of the
// sums rounds once; s is exact, so that the quotient is at most 1, and nothing overflows, since the result is 1 from 40
// on. All three are lifted, so that s is normal.
static double sigmoid_low(const tc_km *m) { return m->wide ? -747 : -105; }
enum { SIGMOID_HIGH = 40 };

static tc_kval limited(const tc_km *m, tc_kval x, double low, double high) {
  return k_at_least(m, k_at_most(m, x, k_real(m, high)), k_real(m, low));
}

tc_kval tc_km_op_sigmoid(const tc_km *m, tc_kval x) {
  power_and_rest e = split(m, limited(m, x, sigmoid_low(m), SIGMOID_HIGH), lift(m));
  return k_plain_quotient(m, e.power, k_addc(m, scaled_exp(m, k_neg(m, e.r), up(m), e.power), up(m)));
}

// ---- Sigmoids as s / (s + s e^-x) ----
// s is so small that s e^-x is finite for every x that matters. It rounds once more, but the dividend is a constant.
static int32_t dividend_lift(const tc_km *m) { return m->wide ? -56 : -24; }
static double dividend(const tc_km *m) { return ldexp(1, dividend_lift(m)); }
static tc_kval lifted_magic(const tc_km *m, bool table) {
  return table ? k_real(m, table_magic) : magic_and(m, m->bias + dividend_lift(m));
}
static tc_kval divisor(const tc_km *m, bool table, tc_kval sum, tc_kval exp_of_rest) {
  tc_kval power = table ? power_by_table(m, sum, dividend_lift(m)) : power_of_sum(m, sum);
  return k_fma(m, exp_of_rest, power, k_real(m, dividend(m)));
}

// Signs are those of constants, as far as they can be: no instruction negates what a limit gives.
static tc_kval divisor_of_x(const tc_km *m, bool table, tc_kval x) {
  tc_kval magic = lifted_magic(m, table), one = k_real(m, 1);
  x = limited(m, x, sigmoid_low(m), SIGMOID_HIGH);
  tc_kval sum = k_fma(m, x, k_real(m, -log2_e), magic);
  tc_kval r = k_neg(m, rest_of(m, x, k_neg(m, k_sub(m, sum, magic)), -1));
  return divisor(m, table, sum, table ? k_fma(m, r, K_TABLE_POLY(m, r, exp_table), one) : scaled_exp(m, r, 1, one));
}

// The x of x (c0 + c1 x²) = y > 0.
static double cubic_root(double c0, double c1, double y) {
  double low = 0, high = y / c0;
  for (int32_t i = 0; i < 60; i++) {
    double x = (low + high) / 2;
    *(x * (c0 + c1 * x * x) < y ? &low : &high) = x;
  }
  return low;
}

// With 2^r for e^r: the cubic times log2 e is a product that is not rounded, and what limits it limits x.
static tc_kval divisor_of_cubic(const tc_km *m, bool table, tc_km_sigmoid f) {
  double low = -cubic_root(f.c0, f.c1, -sigmoid_low(m)), high = cubic_root(f.c0, f.c1, SIGMOID_HIGH);
  tc_kval x = limited(m, f.x, low, high), magic = lifted_magic(m, table);
  tc_kval factor = k_fma(m, k_real(m, -f.c1 * log2_e), k_mul(m, x, x), k_real(m, -f.c0 * log2_e));
  tc_kval sum = k_fma(m, x, factor, magic), r = k_fma(m, x, factor, k_neg(m, k_sub(m, sum, magic)));
  tc_kval power = table ? k_fma(m, r, K_TABLE_POLY(m, r, exp2_table), k_real(m, 1)) : exp2_core(m, r);
  return divisor(m, table, sum, power);
}

// A product of divisors that is too large belongs to a result far below the least number of the type: 0, which the
// largest power of two gives, too.
tc_kval tc_km_sigmoids(const tc_km *m, int32_t n, const tc_km_sigmoid *f) {
  if (n == 1 && !f->of_cubic) return tc_km_op_sigmoid(m, f->x);
  tc_kval by = -1;
  bool table = has_table(m) && (f[0].of_cubic || f[n - 1].of_cubic);
  for (int32_t i = 0; i < n; i++) {
    tc_kval d = f[i].of_cubic ? divisor_of_cubic(m, table, f[i]) : divisor_of_x(m, table, f[i].x);
    by = i ? k_at_most(m, k_mul(m, by, d), k_pick(m, 0x1p127, 0x1p1023)) : d;
  }
  return k_plain_quotient(m, k_real(m, ldexp(1, n * dividend_lift(m))), by);
}
