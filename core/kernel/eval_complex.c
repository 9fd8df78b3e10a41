// Evaluation of opcodes on complex scalars in double, functions by C's library (Annex G): the oracle of the expansion
// in complex.c.
#include <math.h>

#include "core/base/complex_parts.h"
#include "core/base/complex_power.h"
#include "core/kernel/ir.h"

#undef I

// Products and quotients by the plain formulas, which is what PyTorch has where something is not finite.
static double complex product(double complex x, double complex y) {
  double a = creal(x), b = cimag(x), c = creal(y), d = cimag(y);
  return CMPLX(a * c - b * d, a * d + b * c);
}

// Smith's: the smaller part of the divisor over the larger one.
static double complex quotient(double complex x, double complex y) {
  double a = creal(x), b = cimag(x), c = creal(y), d = cimag(y);
  if (c == 0 && d == 0) return CMPLX(a / fabs(c), b / fabs(d));
  if (fabs(c) >= fabs(d)) {
    double r = d / c, den = c + d * r;
    return CMPLX((a + b * r) / den, (b - a * r) / den);
  }
  double r = c / d, den = c * r + d;
  return CMPLX((a * r + b) / den, (b * r - a) / den);
}

static double complex unary(int32_t op, double complex z) {
  switch (op) {
  case TC_K_NEG: return -z;
  case TC_K_CONJ: return conj(z);
  case TC_K_SQRT: return csqrt(z);
  case TC_K_RSQRT: return quotient(1, csqrt(z));
  case TC_K_EXP: return cexp(z);
  case TC_K_EXP2: return tc_complex_exp2(z);
  case TC_K_EXPM1: { // e^x cos y - 1 = expm1(x) - 2 e^x sin²(y/2)
    double x = creal(z), y = cimag(z), h = sin(y / 2);
    return CMPLX(expm1(x) - 2 * exp(x) * h * h, exp(x) * sin(y));
  }
  case TC_K_LOG: return clog(z);
  case TC_K_LOG2: return CMPLX(log2(cabs(z)), carg(z) * 0x1.71547652b82fep+0);
  case TC_K_LOG10: return CMPLX(creal(clog(z)) * 0x1.bcb7b1526e50ep-2, carg(z) * 0x1.bcb7b1526e50ep-2);
  case TC_K_LOG1P: { // |1+z|² - 1 = 2x + x² + y²
    double x = creal(z), y = cimag(z);
    if (isnan(x) || isnan(y) || (isinf(y) && 1 + x - 1 != x)) return CMPLX(NAN, NAN); // as PyTorch
    if (fabs(x) < 0.5 && fabs(y) < 0.5) return CMPLX(0.5 * log1p(fma(x, x, fma(y, y, 2 * x))), atan2(y, 1 + x));
    return clog(CMPLX(1 + x, y));
  }
  case TC_K_SIN: return csin(z);
  case TC_K_COS: return ccos(z);
  case TC_K_TAN: return ctan(z);
  case TC_K_ASIN: return casin(z);
  case TC_K_ACOS: return cacos(z);
  case TC_K_ATAN: return catan(z);
  case TC_K_SINH: return csinh(z);
  case TC_K_COSH: return ccosh(z);
  case TC_K_TANH: return ctanh(z);
  case TC_K_ASINH: return casinh(z);
  case TC_K_ACOSH: return cacosh(z);
  case TC_K_ATANH: return catanh(z);
  case TC_K_SIGMOID: return quotient(1, 1 + cexp(-z));
  default: return CMPLX(NAN, NAN);
  }
}

void tc_kir_eval_complex(int32_t op, tc_dtype type, tc_knum x, tc_knum y, tc_knum z, tc_knum *out) {
  tc_dtype part = tc_dtype_real(type);
  double complex a = CMPLX(x.re, x.im), b = CMPLX(y.re, y.im), c = CMPLX(z.re, z.im), r;
  switch (op) {
  case TC_K_SELECT: *out = x.i ? y : z; return;
  case TC_K_EQ: out->i = a == b; return;
  case TC_K_NE: out->i = a != b; return;
  case TC_K_REAL: out->re = x.re; return;
  case TC_K_IMAG: out->re = x.im; return;
  case TC_K_ABS: out->re = tc_kir_round(part, cabs(a)); return;
  case TC_K_ABS2: out->re = tc_kir_round(part, x.re * x.re + x.im * x.im); return;
  case TC_K_ANGLE: out->re = tc_kir_round(part, carg(a)); return;
  case TC_K_ADD: r = a + b; break;
  case TC_K_SUB: r = a - b; break;
  case TC_K_MUL: r = product(a, b); break;
  case TC_K_DIV: r = quotient(a, b); break;
  case TC_K_FMA: r = product(a, b) + c; break;
  case TC_K_POW: r = tc_complex_pow(a, b); break;
  default: r = unary(op, a);
  }
  out->re = tc_kir_round(part, creal(r));
  out->im = tc_kir_round(part, cimag(r));
}
