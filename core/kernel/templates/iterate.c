// Functions of two operands, element by element, whose number of steps comes from data: orthogonal polynomials,
// Hurwitz's zeta function, incomplete gamma functions, common divisors.
//
// A block takes a strip of lanes at a time: lanes say how many steps their element needs, the largest of these is the
// bound of a loop over all of them, and lanes that are done keep what they have. Real arithmetic is in f64, integers
// are of 64 bits.
//
// Sources, by section of the NIST Digital Library of Mathematical Functions (dlmf.nist.gov): three-term recurrences
// 18.9; Euler's and Maclaurin's sum for zeta 25.11.5; the incomplete gamma functions' series 8.7.1, continued fraction
// 8.9.2 by Lentz's method, and uniform expansion 8.12.3 (Temme). Bounds: polynomials a few ulp per step as the
// recurrences have; zeta 8 ulp; gamma functions 8 + 2 |log of the result| ulp.
//
// Operands: 0 x [n], 1 y [n]. attrs: 0 kind (TC_ITERATE_*).
#include <stdbool.h>

#include "core/kernel/templates/igamma_coefficients.h"
#include "core/kernel/templates/templates.h"

#include "tc/lower.h"
#include "tc/plugin.h"

enum { STRIPS = 4, MOST_LOOPS = 2, MOST_STEPS = 1000000 };

typedef struct iterate {
  tc_stage *s;
  tc_kb *b;
  int32_t kind;
  tc_kval x, y;              // of the lane's element
  tc_kval steps[MOST_LOOPS]; // the largest number over the lanes
} iterate;

static int32_t candidates(const tc_stage *s, int32_t max, tc_stage_config *out, int32_t *out_n) {
  const tc_device_props *dev = tc_stage_device(s);
  *out_n = 0;
  if (max < 1) return TC_STATUS_OK;
  int32_t lanes = dev->simd_bytes ? dev->simd_bytes / 8 : 128;
  if (dev->max_lanes && lanes > dev->max_lanes) lanes = dev->max_lanes;
  *out_n = 1;
  out[0] = (tc_stage_config){.lanes = lanes, .tile = {(int64_t)lanes * STRIPS}};
  out[0].cost = 50.0 * (double)tc_stage_out_hint(s, 0);
  return TC_STATUS_OK;
}

// ---- arithmetic in short words ----
static tc_kval real(iterate *t, double v) { return tc_kb_real(t->b, TC_F64, v); }
static tc_kval whole(iterate *t, int64_t v) { return tc_kb_int(t->b, TC_I64, v); }
static tc_kval op1(iterate *t, int32_t op, tc_kval x) { return tc_kb_op1(t->b, op, x); }
static tc_kval op2(iterate *t, int32_t op, tc_kval x, tc_kval y) { return tc_kb_op2(t->b, op, x, y); }
static tc_kval fma3(iterate *t, tc_kval x, tc_kval y, tc_kval z) { return tc_kb_op3(t->b, TC_K_FMA, x, y, z); }
static tc_kval pick(iterate *t, tc_kval c, tc_kval x, tc_kval y) { return tc_kb_op3(t->b, TC_K_SELECT, c, x, y); }
#define OP2(name, op) \
  static tc_kval name(iterate *t, tc_kval x, tc_kval y) { return op2(t, op, x, y); }
OP2(add, TC_K_ADD)
OP2(sub, TC_K_SUB)
OP2(mul, TC_K_MUL)
OP2(quo, TC_K_DIV)
OP2(lt, TC_K_LT)
OP2(gt, TC_K_GT)
OP2(eq, TC_K_EQ)
OP2(both, TC_K_AND)
OP2(either, TC_K_OR)
#undef OP2
static tc_kval neg(iterate *t, tc_kval x) { return op1(t, TC_K_NEG, x); }
static tc_kval size_of(iterate *t, tc_kval x) { return op1(t, TC_K_ABS, x); }
static tc_kval is_nan(iterate *t, tc_kval x) { return op2(t, TC_K_NE, x, x); }
static tc_kval is_whole(iterate *t, tc_kval x) { return eq(t, x, op1(t, TC_K_TRUNC, x)); }
static tc_kval is_odd(iterate *t, tc_kval x) {
  tc_kval half = mul(t, x, real(t, 0.5));
  return op2(t, TC_K_NE, half, op1(t, TC_K_FLOOR, half));
}
static tc_kval nan_of(iterate *t) { return real(t, __builtin_nan("")); }
static tc_kval inf_of(iterate *t) { return real(t, __builtin_inf()); }
static tc_kval poly(iterate *t, tc_kval x, int32_t n, const double *c) {
  tc_kval v = real(t, c[n - 1]);
  for (int32_t i = n - 2; i >= 0; i--) v = fma3(t, v, x, real(t, c[i]));
  return v;
}
#define POLY(t, x, c) poly(t, x, (int32_t)(sizeof(c) / sizeof(double)), c)

// A number of steps as the bound of a loop: what is not within 0 … most is.
static tc_kval steps_of(iterate *t, tc_kval v, double most) {
  v = pick(t, lt(t, v, real(t, most)), v, real(t, most));
  v = pick(t, gt(t, v, real(t, 0)), v, real(t, 0)); // NaN too
  return tc_kb_cast(t->b, TC_I32, v);
}
// Opens a loop over the steps; `k` is its number as a real.
static tc_kval open_loop(iterate *t, int32_t loop, int32_t n, const tc_kval *init, tc_kval *carried) {
  tc_kval k = tc_kb_for(t->b, tc_kb_int(t->b, TC_I32, 0), t->steps[loop], 1, 0, n, init, carried);
  return tc_kb_cast(t->b, TC_F64, k);
}

// ---- orthogonal polynomials ----
static bool is_chebyshev(int32_t kind) { return kind <= TC_ITERATE_SHIFTED_W; }
static tc_kval argument(iterate *t) { // of shifted ones
  bool shifted = t->kind >= TC_ITERATE_SHIFTED_T && t->kind <= TC_ITERATE_SHIFTED_W;
  return shifted ? sub(t, add(t, t->x, t->x), real(t, 1)) : t->x;
}
// The degree as a whole number; -1 for what has none.
static tc_kval degree(iterate *t) {
  tc_kval fits = both(t, gt(t, t->y, real(t, -1)), lt(t, t->y, real(t, 0x1p63)));
  return pick(t, fits, size_of(t, op1(t, TC_K_TRUNC, t->y)), real(t, -1));
}
// Inside of (-1, 1) Chebyshev's of high degree are taken from the cosine.
static tc_kval by_cosine(iterate *t, tc_kval x, tc_kval n) {
  return both(t, lt(t, size_of(t, x), real(t, 1)), gt(t, n, real(t, 6)));
}
static void polynomial_steps(iterate *t, tc_kval *out) {
  tc_kval x = argument(t), n = degree(t);
  if (t->kind == TC_ITERATE_H || t->kind == TC_ITERATE_HE) {
    n = pick(t, gt(t, n, real(t, 512)), real(t, 0), n); // nothing is left in range there
  } else if (is_chebyshev(t->kind)) {
    tc_kval none = either(t, by_cosine(t, x, n), eq(t, size_of(t, x), real(t, 1)));
    n = pick(t, none, real(t, 0), sub(t, n, real(t, 1)));
  }
  out[0] = steps_of(t, n, MOST_STEPS);
}

// The next one from the last two, p before q, which has degree k.
static tc_kval recurrence(iterate *t, tc_kval x, tc_kval k, tc_kval p, tc_kval q) {
  tc_kval one = real(t, 1), twice = add(t, x, x), k1 = add(t, k, one), odd = add(t, k, k1);
  switch (t->kind) {
  case TC_ITERATE_H: return sub(t, mul(t, twice, q), mul(t, add(t, k, k), p));
  case TC_ITERATE_HE: return sub(t, mul(t, x, q), mul(t, k, p));
  case TC_ITERATE_L: return quo(t, sub(t, mul(t, sub(t, odd, x), q), mul(t, k, p)), k1);
  case TC_ITERATE_P: return quo(t, sub(t, mul(t, mul(t, odd, x), q), mul(t, k, p)), k1);
  default: return sub(t, mul(t, twice, q), p);
  }
}

static tc_kval chebyshev_cosine(iterate *t, int32_t kind, tc_kval x, tc_kval n) {
  tc_kval a = op1(t, TC_K_ACOS, x), half = mul(t, a, real(t, 0.5)), middle = mul(t, add(t, n, real(t, 0.5)), a);
  switch (kind) {
  case TC_ITERATE_T: return op1(t, TC_K_COS, mul(t, n, a));
  case TC_ITERATE_U: return quo(t, op1(t, TC_K_SIN, mul(t, add(t, n, real(t, 1)), a)), op1(t, TC_K_SIN, a));
  case TC_ITERATE_V: return quo(t, op1(t, TC_K_COS, middle), op1(t, TC_K_COS, half));
  default: return quo(t, op1(t, TC_K_SIN, middle), op1(t, TC_K_SIN, half));
  }
}

static tc_kval polynomial(iterate *t) {
  tc_kval x = argument(t), n = degree(t), one = real(t, 1), zero = real(t, 0), carried[2], last[2];
  bool chebyshev = is_chebyshev(t->kind);
  bool shifted = chebyshev && t->kind >= TC_ITERATE_SHIFTED_T;
  int32_t kind = shifted ? t->kind - TC_ITERATE_SHIFTED_T + TC_ITERATE_T : t->kind;
  tc_kval twice = add(t, x, x), init[2] = {chebyshev ? one : zero, one};
  if (chebyshev)
    init[1] = kind == TC_ITERATE_T   ? x
              : kind == TC_ITERATE_U ? twice
              : kind == TC_ITERATE_V ? sub(t, twice, one)
                                     : add(t, twice, one);
  tc_kval k = open_loop(t, 0, 2, init, carried);
  if (chebyshev) k = add(t, k, one);
  tc_kval on = lt(t, k, n), next[2] = {pick(t, on, carried[1], carried[0]), -1};
  next[1] = pick(t, on, recurrence(t, x, k, carried[0], carried[1]), carried[1]);
  tc_kb_end_for(t->b, 2, next, last);
  tc_kval v = pick(t, gt(t, n, real(t, MOST_STEPS)), nan_of(t), last[1]), at_one = eq(t, size_of(t, x), one);
  tc_kval sign = pick(t, is_odd(t, n), real(t, -1), one), up = gt(t, x, zero), n1 = add(t, n, one), n2 = add(t, n, n1);
  if (chebyshev) {
    v = pick(t, eq(t, n, zero), one, v);
    v = pick(t, by_cosine(t, x, n), chebyshev_cosine(t, kind, x, n), v);
    tc_kval top = kind == TC_ITERATE_U ? n1 : kind == TC_ITERATE_W ? n2 : one;
    tc_kval bottom = kind == TC_ITERATE_U ? n1 : kind == TC_ITERATE_V ? n2 : one;
    v = pick(t, at_one, pick(t, up, top, mul(t, sign, bottom)), v);
  } else if (kind == TC_ITERATE_P) {
    v = pick(t, at_one, pick(t, up, one, sign), v);
  } else if (kind == TC_ITERATE_L) {
    v = pick(t, eq(t, x, zero), one, v);
  } else {
    v = pick(t, gt(t, n, real(t, 512)), nan_of(t), v);
  }
  return pick(t, lt(t, n, zero), zero, v);
}

// ---- zeta(s, q) ----
static tc_kval zeta_terms(iterate *t) { // so many that what follows begins at 10 or later
  tc_kval ten = real(t, 10), more = sub(t, ten, op1(t, TC_K_FLOOR, t->y));
  return pick(t, gt(t, more, ten), more, ten);
}
static void zeta_steps(iterate *t, tc_kval *out) { out[0] = steps_of(t, zeta_terms(t), MOST_STEPS); }
static tc_kval zeta(iterate *t) {
  static const double bernoulli[] = {1.0 / 6,       -1.0 / 30,       1.0 / 42,      -1.0 / 30,
                                     5.0 / 66,      -691.0 / 2730,   7.0 / 6,       -3617.0 / 510,
                                     43867.0 / 798, -174611.0 / 330, 854513.0 / 138};
  tc_kval s = t->x, q = t->y, power = neg(t, s), n = zeta_terms(t), zero = real(t, 0), sum, one = real(t, 1);
  tc_kval k = open_loop(t, 0, 1, &zero, &sum);
  tc_kval term = op2(t, TC_K_POW, add(t, q, k), power);
  tc_kval next = pick(t, lt(t, k, n), add(t, sum, term), sum);
  tc_kb_end_for(t->b, 1, &next, &sum);
  tc_kval a = add(t, q, n), f = op2(t, TC_K_POW, a, power), w = quo(t, one, mul(t, a, a));
  tc_kval factor = quo(t, s, add(t, a, a)), tail = add(t, quo(t, a, sub(t, s, one)), real(t, 0.5));
  for (int32_t i = 0; i < (int32_t)(sizeof bernoulli / sizeof *bernoulli); i++) {
    tail = fma3(t, real(t, bernoulli[i]), factor, tail);
    tc_kval up = mul(t, add(t, s, real(t, 2 * i + 1)), add(t, s, real(t, 2 * i + 2)));
    factor = mul(t, factor, mul(t, mul(t, up, w), real(t, 1.0 / ((2 * i + 3) * (2 * i + 4)))));
  }
  tc_kval small = lt(t, f, mul(t, size_of(t, sum), real(t, 1e-30))), v = pick(t, small, sum, fma3(t, tail, f, sum));
  v = pick(t, lt(t, n, real(t, MOST_STEPS)), v, nan_of(t));
  // Where s is so large that PyTorch's correction overflows while all terms vanish.
  v = pick(t, both(t, eq(t, v, zero), gt(t, s, real(t, 2.5e13))), nan_of(t), v);
  tc_kval endless = either(t, eq(t, size_of(t, q), inf_of(t)), is_nan(t, q));
  tc_kval pole = both(t, op2(t, TC_K_LE, q, zero), is_whole(t, q));
  v = pick(t, both(t, lt(t, q, zero), op1(t, TC_K_NOT, is_whole(t, s))), nan_of(t), v);
  v = pick(t, either(t, endless, is_nan(t, s)), nan_of(t), v);
  v = pick(t, pole, inf_of(t), v);
  return pick(t, eq(t, s, one), inf_of(t), pick(t, lt(t, s, one), nan_of(t), v));
}

// ---- incomplete gamma functions ----
// μ - log(1 + μ) for μ = (x - a)/a.
static tc_kval phi(iterate *t, tc_kval mu) {
  static const double odd[] = {1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9,  1.0 / 11, 1.0 / 13,
                               1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21, 1.0 / 23, 1.0 / 25};
  tc_kval s = quo(t, mu, add(t, mu, real(t, 2))), z = mul(t, s, s); // log(1 + μ) = 2 atanh s
  tc_kval near = mul(t, s, sub(t, mu, mul(t, add(t, z, z), POLY(t, z, odd))));
  return pick(t, lt(t, size_of(t, mu), real(t, 0.4)), near, sub(t, mu, op1(t, TC_K_LOG1P, mu)));
}
// log Γ*(a), Stirling's series for a ≥ 16 (DLMF 5.11.1).
static tc_kval stirling(iterate *t, tc_kval a) {
  static const double c[] = {1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188, -691.0 / 360360.0, 1.0 / 156};
  tc_kval w = quo(t, real(t, 1), a);
  return mul(t, w, POLY(t, mul(t, w, w), c));
}

// Where each method is used: Temme's expansion for large a near x = a, the fraction for x ≥ max(a, 1.1), else series.
static tc_kval is_uniform(iterate *t) {
  tc_kval near = lt(t, size_of(t, sub(t, t->y, t->x)), mul(t, t->x, real(t, 0.3)));
  return both(t, near, op2(t, TC_K_GE, t->x, real(t, 100)));
}
static tc_kval is_fraction(iterate *t) { return both(t, op2(t, TC_K_GE, t->y, t->x), gt(t, t->y, real(t, 1.1))); }
static void gamma_steps(iterate *t, tc_kval *out) {
  tc_kval a = pick(t, lt(t, t->x, real(t, 100)), t->x, real(t, 100)), root = op1(t, TC_K_SQRT, a), zero = real(t, 0);
  tc_kval series = fma3(t, root, real(t, 8.2), real(t, 30));
  tc_kval fraction = add(t, fma3(t, root, real(t, 4.3), real(t, 16)), quo(t, real(t, 92), t->y));
  tc_kval by_fraction = is_fraction(t), uniform = is_uniform(t);
  out[0] = steps_of(t, pick(t, either(t, by_fraction, uniform), zero, series), 120);
  out[1] = steps_of(t, pick(t, uniform, zero, pick(t, by_fraction, fraction, zero)), 160);
}

static tc_kval uniform(iterate *t, tc_kval mu, tc_kval p, tc_kval decay, bool upper) {
  static const struct {
    const double *c;
    int32_t n;
  } c[] = {
#define C(k) {temme_##k, (int32_t)(sizeof temme_##k / sizeof(double))}
      C(0), C(1), C(2), C(3), C(4),
      C(5), C(6), C(7)
#undef C
  };
  tc_kval eta = op2(t, TC_K_COPYSIGN, op1(t, TC_K_SQRT, add(t, p, p)), mu), w = quo(t, real(t, 1), t->x), sum = -1;
  for (int32_t k = (int32_t)(sizeof c / sizeof *c) - 1; k >= 0; k--) {
    tc_kval v = poly(t, eta, c[k].n, c[k].c);
    sum = sum < 0 ? v : fma3(t, sum, w, v);
  }
  tc_kval z = op2(t, TC_K_COPYSIGN, op1(t, TC_K_SQRT, mul(t, t->x, p)), mu), half = real(t, 0.5);
  tc_kval edge = mul(t, half, op1(t, TC_K_ERFC, upper ? z : neg(t, z))), rest = mul(t, decay, sum);
  return upper ? add(t, edge, rest) : sub(t, edge, rest);
}

static tc_kval gamma_part(iterate *t) {
  bool upper = t->kind == TC_ITERATE_GAMMA_UPPER;
  tc_kval a = t->x, x = t->y, one = real(t, 1), zero = real(t, 0), inf = inf_of(t), c[4], last[4];
  tc_kval mu = quo(t, sub(t, x, a), a), p = phi(t, mu), log_x = op1(t, TC_K_LOG, x);
  // x^a e^-x / Γ(a + 1)
  tc_kval root = op1(t, TC_K_SQRT, mul(t, a, real(t, 6.283185307179586476925)));
  tc_kval large = quo(t, op1(t, TC_K_EXP, neg(t, mul(t, a, p))), root);
  tc_kval small = op1(t, TC_K_EXP, sub(t, sub(t, mul(t, a, log_x), x), op1(t, TC_K_LGAMMA, add(t, a, one))));
  tc_kval scaled = mul(t, large, op1(t, TC_K_EXP, neg(t, stirling(t, a))));
  tc_kval factor = pick(t, lt(t, a, real(t, 16)), small, scaled);
  // Series: the sums of x^k / ((a + 1) … (a + k)) and of (-x)^k / (k! (a + k)).
  tc_kval init[4] = {one, one, one, zero};
  tc_kval k = add(t, open_loop(t, 0, 4, init, c), one), ak = add(t, a, k), term = mul(t, c[0], quo(t, x, ak));
  tc_kval other = neg(t, mul(t, c[2], quo(t, x, k)));
  tc_kb_end_for(t->b, 4, (tc_kval[]){term, add(t, c[1], term), other, add(t, c[3], quo(t, other, ak))}, last);
  tc_kval series = mul(t, factor, last[1]);
  // The fraction, in terms of b, and Lentz's c, d and product.
  tc_kval b0 = add(t, sub(t, x, a), one), d0 = quo(t, one, b0), start[4] = {b0, real(t, 1e300), d0, d0}, f[4];
  k = add(t, open_loop(t, 1, 4, start, c), one);
  tc_kval an = mul(t, k, sub(t, a, k)), b = add(t, c[0], real(t, 2)), d = quo(t, one, fma3(t, an, c[2], b));
  tc_kval cc = add(t, b, quo(t, an, c[1]));
  tc_kb_end_for(t->b, 4, (tc_kval[]){b, cc, d, mul(t, c[3], mul(t, cc, d))}, f);
  tc_kval fraction = mul(t, mul(t, factor, a), f[3]), v = pick(t, is_fraction(t), fraction, series);
  if (upper) {
    // 1 - P where that loses nothing, else the series of Q itself.
    tc_kval e = mul(t, a, sub(t, log_x, POLY(t, sub(t, quo(t, a, real(t, 0.625)), one), lgamma1p)));
    tc_kval tiny = neg(t, add(t, op1(t, TC_K_EXPM1, e), mul(t, mul(t, a, op1(t, TC_K_EXP, e)), last[3])));
    tc_kval edge = pick(t, gt(t, x, real(t, 0.5)), mul(t, x, real(t, 1.1)), quo(t, real(t, -0.4), log_x));
    tc_kval lost = both(t, op2(t, TC_K_LE, x, real(t, 1.1)), op2(t, TC_K_LE, a, edge));
    v = pick(t, is_fraction(t), v, pick(t, lost, tiny, sub(t, one, v)));
  } else {
    v = pick(t, is_fraction(t), sub(t, one, v), v);
  }
  v = pick(t, is_uniform(t), uniform(t, mu, p, large, upper), v);
  v = pick(t, either(t, is_nan(t, a), is_nan(t, x)), nan_of(t), v);
  tc_kval all = upper ? one : zero, none = upper ? zero : one;
  v = pick(t, eq(t, x, inf), none, v);
  v = pick(t, either(t, eq(t, x, zero), eq(t, a, inf)), all, v);
  v = pick(t, eq(t, a, zero), pick(t, gt(t, x, zero), none, nan_of(t)), v);
  tc_kval wrong = either(t, lt(t, a, zero), lt(t, x, zero));
  tc_kval both_inf = both(t, eq(t, a, inf), eq(t, x, inf));
  return pick(t, either(t, wrong, both_inf), nan_of(t), v);
}

// ---- common divisors and multiples (Euclid) ----
static tc_kval magnitude(iterate *t, tc_kval x) { return pick(t, lt(t, x, whole(t, 0)), neg(t, x), x); }
// Each two steps halve the numbers at least; the exponent of the smaller one bounds their length.
static void euclid_steps(iterate *t, tc_kval *out) {
  tc_kval x = magnitude(t, t->x), y = magnitude(t, t->y), less = pick(t, lt(t, x, y), x, y);
  tc_kval bits = tc_kb_bitcast(t->b, TC_I64, tc_kb_cast(t->b, TC_F64, less));
  tc_kval length = tc_kb_cast(t->b, TC_F64, sub(t, op2(t, TC_K_SHR, bits, whole(t, 52)), whole(t, 1022)));
  length = pick(t, gt(t, length, real(t, 0)), length, real(t, 0)); // of 0: only the one step that swaps the two
  tc_kval overflow = lt(t, less, whole(t, 0));                     // INT64_MIN
  out[0] = steps_of(t, pick(t, overflow, real(t, 100), fma3(t, length, real(t, 1.5), real(t, 3))), 100);
}
static tc_kval euclid(iterate *t) {
  tc_kval zero = whole(t, 0), init[2] = {magnitude(t, t->x), magnitude(t, t->y)}, c[2], last[2];
  open_loop(t, 0, 2, init, c);
  tc_kval done = eq(t, c[1], zero), r = op2(t, TC_K_REM, c[0], pick(t, done, whole(t, 1), c[1]));
  tc_kb_end_for(t->b, 2, (tc_kval[]){pick(t, done, c[0], c[1]), pick(t, done, zero, r)}, last);
  if (t->kind == TC_ITERATE_GCD) return magnitude(t, last[0]);
  tc_kval none = eq(t, last[0], zero), by = pick(t, none, whole(t, 1), last[0]);
  return pick(t, none, zero, mul(t, quo(t, init[0], by), init[1]));
}

static const struct {
  int32_t first, last; // kinds
  tc_dtype type;
  int32_t loops;
  void (*steps)(iterate *t, tc_kval *out);
  tc_kval (*value)(iterate *t);
} families[] = {
    {TC_ITERATE_T, TC_ITERATE_P, TC_F64, 1, polynomial_steps, polynomial},
    {TC_ITERATE_ZETA, TC_ITERATE_ZETA, TC_F64, 1, zeta_steps, zeta},
    {TC_ITERATE_GAMMA_LOWER, TC_ITERATE_GAMMA_UPPER, TC_F64, 2, gamma_steps, gamma_part},
    {TC_ITERATE_GCD, TC_ITERATE_LCM, TC_I64, 1, euclid_steps, euclid},
};

// Opens the lanes over the strip that begins at `base`, and loads their elements.
static tc_kval open_lanes(iterate *t, tc_kval base, tc_dtype type, tc_kval *out_inside) {
  tc_kb_lanes(t->b);
  tc_kval at = add(t, base, tc_kb_cast(t->b, TC_I64, tc_kb_lane(t->b)));
  tc_kval inside = tc_stage_exact(t->s, 0) ? -1 : lt(t, at, tc_stage_extent(t->s, 0));
  t->x = tc_kb_cast(t->b, type, tc_stage_load(t->s, 0, &at, inside));
  t->y = tc_kb_cast(t->b, type, tc_stage_load(t->s, 1, &at, inside));
  *out_inside = inside;
  return at;
}

static int32_t emit(tc_stage *s, const tc_stage_config *config) {
  iterate t = {.s = s, .b = tc_stage_builder(s), .kind = (int32_t)tc_stage_attr(s, 0, -1)};
  size_t f = 0, count = sizeof families / sizeof *families;
  while (f < count && (t.kind < families[f].first || t.kind > families[f].last)) f++;
  if (f == count) return TC_STATUS_INVALID_ARGUMENT;
  tc_kval origin = tc_stage_origin(s, 0), end = add(&t, origin, whole(&t, config->tile[0])), inside;
  tc_kval base = tc_kb_for(t.b, origin, end, config->lanes, 0, 0, NULL, NULL);
  tc_kval wanted[MOST_LOOPS], largest[MOST_LOOPS];
  open_lanes(&t, base, families[f].type, &inside);
  families[f].steps(&t, wanted);
  for (int32_t i = 0; i < families[f].loops && inside >= 0; i++)
    wanted[i] = pick(&t, inside, wanted[i], tc_kb_int(t.b, TC_I32, 0));
  tc_kb_end_lanes(t.b, families[f].loops, wanted, largest);
  for (int32_t i = 0; i < families[f].loops; i++) t.steps[i] = tc_kb_collective(t.b, TC_K_REDUCE_MAX, largest[i], 0);
  tc_kval at = open_lanes(&t, base, families[f].type, &inside);
  tc_stage_store(s, &at, tc_kb_cast(t.b, tc_stage_dtype(s), families[f].value(&t)), inside);
  tc_kb_end_lanes(t.b, 0, NULL, NULL);
  tc_kb_end_for(t.b, 0, NULL, NULL);
  return TC_STATUS_OK;
}

const tc_template_table tc_template_iterate = {
    .struct_size = sizeof(tc_template_table),
    .name = {"iterate", 7},
    .candidates = candidates,
    .emit = emit,
    .flops = "100 * out.numel",
};
