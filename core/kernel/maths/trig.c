// sin, cos, tan for every finite argument.
//
// Reduction (Payne and Hanek): |x| = M 2^e with an integer M, so |x|·(2/π) mod 4 needs only a window of the bits of
// 2/π, which begins at a place given by e. The window (three words of the argument's size) times M, modulo 4, is exact
// integer arithmetic; it gives the quadrant and a fraction that is right to more than twice the precision of the type,
// enough for the worst argument (no number comes closer to a multiple of π/2 than 2^-30 in f32, 2^-62 in f64).
// Below π/4 the argument is used as it is. One path for all sizes: on a vector machine two paths would both be run.
// Where lanes are threads, which can leave out what they do not select, arguments below 2^14 (2^20 in f64) are reduced
// by three words of π/2 (Cody and Waite, "Software Manual for the Elementary Functions", 1980; exact by fma). The words
// are chosen by selects in f32 (eight words) and from a table in f64 (twenty). Bounds (ulp), both types: sin, cos 1,
// tan 1.2.
#include "core/kernel/builder.h"
#include "core/kernel/maths/coefficients.h"
#include "core/kernel/maths/maths.h"

// 2/π behind the binary point; the zero in front lets windows begin there.
static const uint64_t two_over_pi[20] = {0,
                                         0xa2f9836e4e441529,
                                         0xfc2757d1f534ddc0,
                                         0xdb6295993c439041,
                                         0xfe5163abdebbc561,
                                         0xb7246e3a424dd2e0,
                                         0x06492eea09d1921c,
                                         0xfe1deb1cb129a73e,
                                         0xe88235f52ebb4484,
                                         0xe99c7026b45f7e41,
                                         0x3991d639835339f4,
                                         0x9c845f8bbdf9283b,
                                         0x1ff897ffde05980f,
                                         0xef2f118b5a0a6d1f,
                                         0x6d367ecf27cb09b7,
                                         0x4f463f669e5fea2d,
                                         0x7527bac7ebe5f17b,
                                         0x3d0739f78a5292ea,
                                         0x6bfb5fb11f8d5d08,
                                         0x56033046fc7b6bab};

enum { WORDS = 4 };

// Words idx … idx+3 of 2/π.
static void window32(const tc_km *m, tc_kval idx, tc_kval *out) {
  tc_kval w[8];
  w[0] = tc_kb_int(m->b, m->u, 0);
  for (int32_t i = 1; i < 8; i++)
    w[i] = tc_kb_int(m->b, m->u, (int64_t)(uint32_t)(two_over_pi[(i + 1) / 2] >> (i % 2 ? 32 : 0)));
  int32_t n = 8;
  for (int32_t bit = 4; bit; bit >>= 1) { // idx ≤ 4: shift by 4, 2, 1 words where its bits say so
    tc_kval on = k_ne(m, k_and(m, idx, k_int(m, bit)), k_int(m, 0));
    int32_t left = WORDS + bit - 1;
    for (int32_t i = 0; i < left; i++) w[i] = i + bit < n ? k_select(m, on, w[i + bit], w[i]) : w[i];
    n = left;
  }
  for (int32_t i = 0; i < WORDS; i++) out[i] = w[i];
}

static void window64(const tc_km *m, tc_kval idx, tc_kval *out) {
  tc_kmem table = tc_kb_constant_table(m->b, TC_SV("$two_over_pi"), TC_U64, 20, two_over_pi);
  for (int32_t i = 0; i < WORDS; i++) out[i] = tc_kb_load1(m->b, table, k_add(m, idx, k_int(m, i)), -1, -1);
}

typedef struct quadrant {
  tc_kval q;   // quadrant; all but the two low bits are anything
  tc_km_sum r; // what is left, within ±π/4
} quadrant;

// a - k π/2 for the nearest k: the first difference is exact, since both are multiples of the last place of π/2's first
// word, and the products with the other words are kept in two.
static quadrant reduce_near(const tc_km *m, tc_kval a) {
  static const double words[2][3] = {{0x1.921fb6p+0, -0x1.777a5cp-25, -0x1.ee59dap-50},
                                     {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54, -0x1.f1976b7ed8fbcp-110}};
  const double *w = words[m->wide];
  tc_kval half_ulp = k_pick(m, 0x1.8p23, 0x1.8p52); // added, it leaves whole numbers in the low bits
  tc_kval t = k_fma(m, a, k_real(m, 0x1.45f306dc9c883p-1), half_ulp), minus_k = k_sub(m, half_ulp, t);
  tc_kval r = k_fma(m, minus_k, k_real(m, w[0]), a);
  tc_km_sum p = tc_km_two_prod(m, minus_k, k_real(m, w[1]));
  tc_kval s = k_add(m, r, p.hi), back = k_sub(m, s, r);
  tc_kval lost = k_add(m, k_sub(m, r, k_sub(m, s, back)), k_sub(m, p.hi, back));
  tc_kval low = k_fma(m, minus_k, k_real(m, w[2]), k_add(m, lost, p.lo));
  return (quadrant){k_bits(m, t), tc_km_two_sum(m, s, low)};
}

static quadrant reduce_far(const tc_km *m, tc_kval a) {
  tc_kb *b = m->b;
  int32_t width = m->wide ? 64 : 32;
  tc_kval bits = k_bits(m, a), zero = k_int(m, 0);
  // First bit of the window: M 2^e = a with e = exponent - bias - mantissa bits, and 2/π begins after `width` zeros.
  tc_kval s = k_add(m, k_shr(m, bits, k_int(m, m->mantissa)), k_int(m, width - 2 - m->bias - m->mantissa));
  s = k_select(m, k_lt(m, s, zero), zero, s);
  tc_kval last = k_int(m, m->wide ? 16 * 64 + 63 : 4 * 32 + 31); // inf and NaN stay inside the table
  s = k_select(m, k_gt(m, s, last), last, s);
  tc_kval word[WORDS], v[3];
  tc_kval idx = k_shr(m, s, k_int(m, m->wide ? 6 : 5));
  if (m->wide) window64(m, idx, word);
  else window32(m, idx, word);
  tc_kval left = tc_kb_cast(b, m->u, k_and(m, s, k_int(m, width - 1)));
  tc_kval right = k_sub(m, tc_kb_int(b, m->u, width - 1), left), one = tc_kb_int(b, m->u, 1);
  for (int32_t i = 0; i < 3; i++) v[i] = k_or(m, k_shl(m, word[i], left), k_shr(m, k_shr(m, word[i + 1], one), right));
  int64_t hidden = INT64_C(1) << m->mantissa;
  tc_kval mant = tc_kb_cast(b, m->u, k_or(m, k_and(m, bits, k_int(m, hidden - 1)), k_int(m, hidden)));
  // M · window modulo 4 quadrants, as a fraction of a full turn of two words.
  tc_kval mid = k_mul(m, mant, v[1]), low = k_add(m, mid, k_mulhi(m, mant, v[2]));
  tc_kval carry = tc_kb_cast(b, m->u, k_lt(m, low, mid));
  tc_kval top = k_add(m, k_add(m, k_mul(m, mant, v[0]), k_mulhi(m, mant, v[1])), carry);
  tc_kval top_i = tc_kb_cast(b, m->i, top), down = k_int(m, width - 2);
  tc_kval q = k_shr(m, k_add(m, top_i, k_int(m, INT64_C(1) << (width - 3))), down);
  tc_kval rest = k_sub(m, top_i, k_shl(m, q, down));
  // rest (signed) and low, as reals: rest loses low bits only when it is large.
  tc_kval hi = tc_kb_cast(b, m->t, rest);
  tc_kval lost = tc_kb_cast(b, m->t, k_sub(m, rest, tc_kb_cast(b, m->i, hi)));
  double half_word = m->wide ? 0x1p-63 : 0x1p-31;
  tc_kval lo = k_fma(m, tc_kb_cast(b, m->t, tc_kb_cast(b, m->i, k_shr(m, low, one))), k_real(m, half_word), lost);
  // Times π/2 in units of `rest`.
  double unit = m->wide ? 0x1p-62 : 0x1p-30, c = 0x1.921fb54442d18p+0 * unit, c_lo = 0x1.1a62633145c07p-54 * unit;
  tc_kval ch = k_real(m, c), cl = k_real(m, k_low(m, c, c_lo));
  tc_km_sum p = tc_km_two_prod(m, hi, ch);
  tc_kval err = k_fma(m, hi, cl, k_fma(m, lo, ch, p.lo));
  tc_km_sum r = tc_km_two_sum(m, p.hi, err);
  // hi may be 0 and lo not: then p is 0 and the sum above is exact all the same.
  tc_kval small = k_lt(m, a, k_real(m, 0x1.921fb54442d18p-1));
  return (quadrant){k_select(m, small, zero, q), {k_select(m, small, a, r.hi), k_select(m, small, k_real(m, 0), r.lo)}};
}

static quadrant reduce(const tc_km *m, tc_kval a) {
  quadrant far = reduce_far(m, a);
  if (!m->b->threads) return far;
  quadrant near = reduce_near(m, a);
  tc_kval is_near = k_le(m, a, k_pick(m, 0x1p14, 0x1p20));
  return (quadrant){k_unless(m, is_near, near.q, far.q),
                    {k_unless(m, is_near, near.r.hi, far.r.hi), k_unless(m, is_near, near.r.lo, far.r.lo)}};
}

static tc_km_sum sine(const tc_km *m, tc_km_sum r, tc_kval z) {
  return tc_km_two_sum(m, r.hi, k_fma(m, k_mul(m, r.hi, z), K_POLY(m, z, sin), r.lo));
}

// 1 - z/2 is rounded; what it loses comes back with the small terms.
static tc_km_sum cosine(const tc_km *m, tc_km_sum r, tc_kval z) {
  tc_kval one = k_real(m, 1), half = k_mulc(m, z, 0.5), w = k_sub(m, one, half);
  tc_kval lost = k_sub(m, k_sub(m, one, w), half);
  tc_kval tail = k_fma(m, k_mul(m, z, z), K_POLY(m, z, cos), k_neg(m, k_mul(m, r.hi, r.lo)));
  return tc_km_two_sum(m, w, k_add(m, lost, tail));
}

static tc_kval bit_set(const tc_km *m, tc_kval q, int64_t bit) {
  return k_ne(m, k_and(m, q, k_int(m, bit)), k_int(m, 0));
}

// sin or cos of a ≥ 0 in its quadrant, with the sign that `flip` (an integer whose sign bit counts) adds.
static tc_kval wave(const tc_km *m, tc_kval x, bool cos, tc_kval flip) {
  quadrant d = reduce(m, k_abs(m, x));
  tc_kval z = k_mul(m, d.r.hi, d.r.hi), q = cos ? k_add(m, d.q, k_int(m, 1)) : d.q;
  tc_kval v = k_select(m, bit_set(m, q, 1), cosine(m, d.r, z).hi, sine(m, d.r, z).hi);
  tc_kval sign = k_shl(m, k_and(m, q, k_int(m, 2)), k_int(m, m->wide ? 62 : 30));
  if (flip >= 0) sign = k_xor(m, sign, flip);
  return tc_km_if_finite(m, x, k_from_bits(m, k_xor(m, k_bits(m, v), sign)), k_sub(m, x, x));
}

static tc_kval sign_bit(const tc_km *m, tc_kval x) {
  return k_and(m, k_bits(m, x), k_int(m, m->wide ? INT64_MIN : INT32_MIN));
}

tc_kval tc_km_op_sin(const tc_km *m, tc_kval x) { return wave(m, x, false, sign_bit(m, x)); }

tc_kval tc_km_op_cos(const tc_km *m, tc_kval x) { return wave(m, x, true, -1); }

// sin/cos or -cos/sin with both in two words: q = n/d, and what it lacks times 1/d.
tc_kval tc_km_op_tan(const tc_km *m, tc_kval x) {
  quadrant r = reduce(m, k_abs(m, x));
  tc_kval z = k_mul(m, r.r.hi, r.r.hi), odd = bit_set(m, r.q, 1);
  tc_km_sum s = sine(m, r.r, z), c = cosine(m, r.r, z);
  tc_kval n = k_select(m, odd, k_neg(m, c.hi), s.hi), n_lo = k_select(m, odd, k_neg(m, c.lo), s.lo);
  tc_kval d = k_select(m, odd, s.hi, c.hi), d_lo = k_select(m, odd, s.lo, c.lo);
  tc_kval inverse = k_div(m, k_real(m, 1), d), q = k_mul(m, n, inverse), minus_q = k_neg(m, q);
  tc_kval rest = k_add(m, k_fma(m, minus_q, d, n), k_fma(m, minus_q, d_lo, n_lo));
  tc_kval t = k_fma(m, rest, inverse, q);
  t = k_select(m, k_eq(m, s.hi, k_real(m, 0)), s.hi, t);
  return tc_km_if_finite(m, x, k_from_bits(m, k_xor(m, k_bits(m, t), sign_bit(m, x))), k_sub(m, x, x));
}
