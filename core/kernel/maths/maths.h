// Mathematical functions as plain arithmetic: class-m opcodes on f32 and f64, written once for all backends.
//
// Every function is branch-free (selects only), so that it vectorises; specials are C's (inf, NaN, -0, subnormals).
// f32 stays in f32: no f64 arithmetic. Stated bounds are largest errors in units in the last place over all arguments
// (f32: exhaustive or dense sampling; f64: random sampling against quadruple precision), see the comments at the
// functions and tests/unit/kernel/test_maths.c.
//
// The polynomials come from fit.py. Sums that need more than one word of precision are written as high and low part
// with exact error terms by fma (Dekker, Knuth; Handbook of Floating-Point Arithmetic, ch. 4 and 5).
#ifndef TC_CORE_KERNEL_MATHS_MATHS_H_
#define TC_CORE_KERNEL_MATHS_MATHS_H_

#include "core/kernel/ir.h"

// Lowers a class-m opcode with f32 or f64 operands. Fails the builder on an opcode that it does not know.
tc_kval tc_km_lower(tc_kb *b, int32_t op, int32_t n, const tc_kval *args);

// erf of f32 with an absolute error of 2^-23, which is what sums with 1 show of it.
tc_kval tc_km_erf_in_sum(tc_kb *b, tc_kval x);

// The product of n sigmoids of f32 or f64, 1 ≤ n ≤ 2, by one quotient: each of x, or of x (c0 + c1 x²), as in gelu by
// tanh, with constants within tc_km_cubic_fits.
typedef struct tc_km_sigmoid {
  tc_kval x;
  bool of_cubic;
  double c0, c1;
} tc_km_sigmoid;
tc_kval tc_km_sigmoid_product(tc_kb *b, int32_t n, const tc_km_sigmoid *factors);
// Both are of moderate size, and the cubic rises, so that its limits are limits of x.
static inline bool tc_km_cubic_fits(double c0, double c1) { return c0 > 0.01 && c0 < 100 && c1 >= 0 && c1 < 100; }

// ---- What the files of this folder share ----

typedef struct tc_km {
  tc_kb *b;
  tc_dtype t, i, u; // the real type, and the signed and unsigned integers of its size
  bool wide;        // f64
  int32_t mantissa; // stored bits of the significand: 23, 52
  int32_t bias;     // 127, 1023
} tc_km;

typedef struct tc_km_sum { // hi + lo, |lo| ≤ ulp(hi)/2 or nearly so
  tc_kval hi, lo;
} tc_km_sum;

#define K1(name, op) \
  static inline tc_kval name(const tc_km *m, tc_kval x) { return tc_kb_op1(m->b, op, x); }
#define K2(name, op) \
  static inline tc_kval name(const tc_km *m, tc_kval x, tc_kval y) { return tc_kb_op2(m->b, op, x, y); }
#define K3(name, op) \
  static inline tc_kval name(const tc_km *m, tc_kval x, tc_kval y, tc_kval z) { return tc_kb_op3(m->b, op, x, y, z); }
// clang-format off
K1(k_neg, TC_K_NEG) K1(k_abs, TC_K_ABS) K1(k_sqrt, TC_K_SQRT) K1(k_trunc, TC_K_TRUNC) K1(k_rint, TC_K_RINT)
K1(k_not, TC_K_NOT) K2(k_add, TC_K_ADD) K2(k_sub, TC_K_SUB) K2(k_mul, TC_K_MUL)
K2(k_copysign, TC_K_COPYSIGN) K2(k_and, TC_K_AND) K2(k_or, TC_K_OR) K2(k_xor, TC_K_XOR) K2(k_shl, TC_K_SHL)
K2(k_shr, TC_K_SHR) K2(k_mulhi, TC_K_MULHI) K2(k_lt, TC_K_LT) K2(k_le, TC_K_LE) K2(k_gt, TC_K_GT) K2(k_ge, TC_K_GE)
K2(k_eq, TC_K_EQ) K2(k_ne, TC_K_NE) K3(k_fma, TC_K_FMA) K3(k_select, TC_K_SELECT)
#undef K1
#undef K2
#undef K3
static inline tc_kval k_real(const tc_km *m, double v) { return tc_kb_real(m->b, m->t, v); }
// clang-format on
// The quotient within 2 ulp of the type, which the bounds of the functions that divide allow.
tc_kval k_quotient(const tc_km *m, tc_kval x, tc_kval y);
// The same of a finite number and a divisor of moderate size, or NaN.
tc_kval k_plain_quotient(const tc_km *m, tc_kval x, tc_kval y);
static inline tc_kval k_div(const tc_km *m, tc_kval x, tc_kval y) { return tc_kb_op2(m->b, TC_K_DIV, x, y); }
static inline tc_kval k_int(const tc_km *m, int64_t v) { return tc_kb_int(m->b, m->i, v); }
static inline tc_kval k_bits(const tc_km *m, tc_kval x) { return tc_kb_bitcast(m->b, m->i, x); }
static inline tc_kval k_from_bits(const tc_km *m, tc_kval x) { return tc_kb_bitcast(m->b, m->t, x); }
// The constant that belongs to the type.
static inline tc_kval k_pick(const tc_km *m, double narrow, double wide) { return k_real(m, m->wide ? wide : narrow); }
static inline tc_kval k_addc(const tc_km *m, tc_kval x, double c) { return k_add(m, x, k_real(m, c)); }
static inline tc_kval k_mulc(const tc_km *m, tc_kval x, double c) { return k_mul(m, x, k_real(m, c)); }
// One that is seldom `rare`, which threads may leave out.
tc_kval k_unless(const tc_km *m, tc_kval usual, tc_kval x, tc_kval rare);
// x limited from one side; NaN passes (one instruction where minimum returns its second operand on NaN).
static inline tc_kval k_at_most(const tc_km *m, tc_kval x, tc_kval c) { return k_select(m, k_lt(m, c, x), c, x); }
static inline tc_kval k_at_least(const tc_km *m, tc_kval x, tc_kval c) { return k_select(m, k_gt(m, c, x), c, x); }
// A constant as high and low part: the nearest value of the type and the rest.
static inline double k_low(const tc_km *m, double hi, double lo) { return m->wide ? lo : hi - (double)(float)hi + lo; }

// scale (c[0] + c[1] x + …) (Horner), where scale is a power of two; scale 1.
tc_kval tc_km_scaled_poly(const tc_km *m, tc_kval x, int32_t n, const double *c, double scale);
tc_kval tc_km_poly(const tc_km *m, tc_kval x, int32_t n, const double *c);
#define K_SCALED_POLY(m, x, name, scale)                                                                     \
  ((m)->wide ? tc_km_scaled_poly((m), (x), (int32_t)(sizeof name##_f64 / sizeof(double)), name##_f64, scale) \
             : tc_km_scaled_poly((m), (x), (int32_t)(sizeof name##_f32 / sizeof(double)), name##_f32, scale))
#define K_POLY(m, x, name)                                                                     \
  ((m)->wide ? tc_km_poly((m), (x), (int32_t)(sizeof name##_f64 / sizeof(double)), name##_f64) \
             : tc_km_poly((m), (x), (int32_t)(sizeof name##_f32 / sizeof(double)), name##_f32))
tc_kval tc_km_power(const tc_km *m, tc_kval n); // 2^n for integers n in the normal range
// x 2^n, |n| < 2·bias - 2, rounded once; over- and underflow right
tc_kval tc_km_scale(const tc_km *m, tc_kval x, tc_kval n);
tc_kval tc_km_to_real(const tc_km *m, tc_kval n);                             // a small integer (|n| < 2^22) as a real
tc_kval tc_km_if_finite(const tc_km *m, tc_kval x, tc_kval r, tc_kval other); // x finite ? r : other
tc_km_sum tc_km_two_sum(const tc_km *m, tc_kval a, tc_kval b);                // exact; |a| ≥ |b| or a = 0
tc_km_sum tc_km_two_prod(const tc_km *m, tc_kval a, tc_kval b);               // exact

// e^(x + low) as (p + p_lo) 2^n with p in [0.7, 1.42]. x must lie within ±1400 (f64) or ±170 (f32); low: -1, or a small
// value.
typedef struct tc_km_power2 {
  tc_kval p, p_lo, n;
} tc_km_power2;
tc_km_power2 tc_km_exp_parts(const tc_km *m, tc_kval x, tc_kval low);
tc_km_power2 tc_km_exp2_parts(const tc_km *m, tc_kval x); // 2^x, p in [0.7, 1.42], p_lo: -1
// 2^(x y) as the result times the power, which must be a normal number; x y is not rounded.
tc_kval tc_km_exp2_of_product(const tc_km *m, tc_kval x, tc_kval y, tc_kval *out_power);
// log (x + more) + doubled · ln 2 in two words, x > 0 finite, more ≪ x; -1: none of them.
tc_km_sum tc_km_long_log(const tc_km *m, tc_kval x, tc_kval more, tc_kval doubled);
// The argument of x + iy in two words: both finite, not both zero, and of a size that quotients and their rests have.
tc_km_sum tc_km_long_arg(const tc_km *m, tc_kval y, tc_kval x);
// x > 0 as (1 + f) 2^e with f in [-0.293, 0.415]; subnormals too. e is a real.
typedef struct tc_km_log_parts {
  tc_kval f, e;
} tc_km_log_parts;
tc_km_log_parts tc_km_split(const tc_km *m, tc_kval x);

tc_kval tc_km_exp(const tc_km *m, tc_kval x);
tc_kval tc_km_log(const tc_km *m, tc_kval x);
tc_kval tc_km_log1p(const tc_km *m, tc_kval x);
tc_kval tc_km_short_erf(const tc_km *m, tc_kval x);                              // tc_km_erf_in_sum
tc_kval tc_km_sigmoids(const tc_km *m, int32_t n, const tc_km_sigmoid *factors); // tc_km_sigmoid_product

// One function per opcode; the table is in maths.c.
// clang-format off
#define TC_KM_LIST(X)                                                                                                  \
  X(EXP, exp) X(EXP2, exp2) X(EXPM1, expm1) X(SINH, sinh) X(COSH, cosh) X(TANH, tanh) X(SIGMOID, sigmoid)              \
  X(LOG, log) X(LOG2, log2) X(LOG10, log10) X(LOG1P, log1p) X(ASINH, asinh) X(ACOSH, acosh) X(ATANH, atanh)            \
  X(SIN, sin) X(COS, cos) X(TAN, tan) X(ASIN, asin) X(ACOS, acos) X(ATAN, atan) X(ERF, erf) X(ERFC, erfc)              \
  X(RSQRT, rsqrt) X(ROUND, round) X(CBRT, cbrt) X(LGAMMA, lgamma)
// clang-format on
#define TC_KM_LIST2(X) X(ATAN2, atan2) X(POW, pow) X(HYPOT, hypot) X(FMOD, fmod)
#define X(op, name) tc_kval tc_km_op_##name(const tc_km *m, tc_kval x);
TC_KM_LIST(X)
#undef X
#define X(op, name) tc_kval tc_km_op_##name(const tc_km *m, tc_kval x, tc_kval y);
TC_KM_LIST2(X)
#undef X

#endif
