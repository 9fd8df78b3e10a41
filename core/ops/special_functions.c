// Special functions (special_functions.h), in extended precision where the compiler has it.
//
// Sources: NIST Digital Library of Mathematical Functions (dlmf.nist.gov), by section number below. Integrals over
// analytic functions that decay fast are done by the trapezoidal rule, which converges exponentially for them
// (Trefethen, Weideman: The exponentially convergent trapezoidal rule, 2014).
#include "core/ops/special_functions.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

typedef long double wide;
static const wide pi = 3.14159265358979323846264338327950288L;

// ---- gamma and its kin ----
// DLMF 5.11.2, behind the recurrence 5.5.2.
static wide digamma_positive(wide x) {
  static const wide bernoulli[] = {1.0L / 12,       -1.0L / 120, 1.0L / 252,      -1.0L / 240,     1.0L / 132,
                                   -691.0L / 32760, 1.0L / 12,   -3617.0L / 8160, 43867.0L / 14364};
  wide shift = 0;
  for (; x < 20; x += 1) shift += 1 / x;
  wide s = 0, p = 1 / (x * x), power = p;
  for (int k = 0; k < 9; k++, power *= p) s += bernoulli[k] * power;
  return logl(x) - 0.5L / x - s - shift;
}
double tc_digamma(double x) {
  if (x == 0) return copysign(INFINITY, -x);
  if (isinf(x)) return x > 0 ? x : NAN;
  if (x > 0) return (double)digamma_positive(x);
  wide whole, part = modfl(x, &whole);
  if (part == 0) return NAN;
  return (double)(digamma_positive(1 - (wide)x) - pi / tanl(pi * part)); // DLMF 5.5.4
}

// Euler's and Maclaurin's sum (DLMF 25.11.5) behind the first terms.
double tc_hurwitz_zeta(double s, double q) {
  static const wide even[] = {1.0L / 6,       -1.0L / 30,       1.0L / 42,      -1.0L / 30,
                              5.0L / 66,      -691.0L / 2730,   7.0L / 6,       -3617.0L / 510,
                              43867.0L / 798, -174611.0L / 330, 854513.0L / 138};
  if (s == 1) return INFINITY;
  if (s < 1) return NAN;
  if (q <= 0) {
    if (q == floor(q)) return INFINITY;
    if (s != floor(s)) return NAN;
  }
  if (isnan(s) || isnan(q)) return NAN;
  if (isinf(q)) return NAN;
  wide sum = 0, a = q;
  for (int k = 0; k < 25 || a < 15; k++, a += 1) {
    wide term = powl(a, -(wide)s);
    sum += term;
    if (a > 1 && term < sum * 1e-22L) return (double)sum;
    if (k > 10000000) return NAN; // so far below 0 that nothing would be right
  }
  wide f = powl(a, -(wide)s), factor = (wide)s / (a * 2), result = sum + f * a / ((wide)s - 1) + f / 2;
  for (int k = 0; k < 11; k++) {
    result += even[k] * factor * f;
    factor *= ((wide)s + 2 * k + 1) * ((wide)s + 2 * k + 2) / (a * a * (2 * k + 3) * (2 * k + 4));
  }
  if ((double)result == 0 && s > 2.5e13) return NAN; // PyTorch's correction overflows while all terms vanish
  return (double)result;
}

// DLMF 5.15.6, 5.15.8. The sine is of the rounded product, as in PyTorch, which decides what poles give.
static wide trigamma(wide x) {
  if (!(x < 0.5L)) return isinf(x) ? 0 : (wide)tc_hurwitz_zeta(2, (double)x);
  wide s = (wide)sin((double)pi * (double)x);
  return pi * pi / (s * s) - trigamma(1 - x);
}
double tc_polygamma(double n, double x) {
  if (n == 0) return tc_digamma(x);
  if (n == 1) return (double)trigamma(x);
  double sign = fmod(n, 2) == 1 ? 1 : -1; // DLMF 5.15.1 and 25.11.12
  return sign * (double)(expl(lgammal((wide)n + 1)) * (wide)tc_hurwitz_zeta(n + 1, x));
}

// P by its series (DLMF 8.7.1, 8.5.1), Q by its continued fraction (8.9.2, evaluated by Lentz's method).
static wide gamma_factor(wide a, wide x) { return expl(a * logl(x) - x - lgammal(a)); }
static wide gamma_series(wide a, wide x) {
  wide term = 1 / a, sum = term;
  for (int k = 1; k < 10000000 && fabsl(term) > fabsl(sum) * 1e-21L; k++) sum += term *= x / (a + k);
  return sum * gamma_factor(a, x);
}
static wide gamma_fraction(wide a, wide x) {
  const wide tiny = 1e-4000L;
  wide b = x + 1 - a, c = 1 / tiny, d = 1 / b, h = d;
  for (int k = 1; k < 10000000; k++) {
    wide an = -k * (k - a);
    b += 2;
    d = an * d + b, c = b + an / c;
    if (fabsl(d) < tiny) d = tiny;
    if (fabsl(c) < tiny) c = tiny;
    d = 1 / d;
    h *= d * c;
    if (fabsl(d * c - 1) < 1e-19L) break;
  }
  return h * gamma_factor(a, x);
}
// Large a: the normal distribution and its first correction (DLMF 8.12.3, 8.12.10).
static wide gamma_large(wide a, wide x, bool upper) {
  wide mu = (x - a) / a, half = mu - log1pl(mu), eta = copysignl(sqrtl(2 * half), mu);
  wide c = fabsl(mu) < 1e-6L ? -1 / 3.0L + mu / 12 : 1 / mu - 1 / eta;
  wide tail = expl(-a * half) / sqrtl(2 * pi * a) * c;
  return upper ? erfcl(eta * sqrtl(a / 2)) / 2 + tail : erfcl(-eta * sqrtl(a / 2)) / 2 - tail;
}
static double gamma_part(double a, double x, bool upper) {
  if (a < 0 || x < 0 || (a == 0 && !(x > 0)) || (isinf(a) && isinf(x))) return NAN;
  if (a == 0) return upper ? 0 : 1;
  if (x == 0 || isinf(a)) return upper ? 1 : 0;
  if (isinf(x)) return upper ? 0 : 1;
  if (isnan(a) || isnan(x)) return NAN;
  if (a > 1e8) return (double)gamma_large(a, x, upper);
  bool series = x < a + 1;
  wide v = series ? gamma_series(a, x) : gamma_fraction(a, x);
  return (double)(series == upper ? 1 - v : v);
}
double tc_gamma_lower(double a, double x) { return gamma_part(a, x, false); }
double tc_gamma_upper(double a, double x) { return gamma_part(a, x, true); }

// ---- the error function's kin ----
// erfc(y) = q, by Halley's method. The start is Winitzki's closed approximation of erf's inverse.
static wide erfc_inverse(wide q) {
  const wide c = 0.147L;
  wide l = logl(q * (2 - q)), t = 2 / (pi * c) + l / 2, y = sqrtl(fmaxl(sqrtl(t * t - l / c) - t, 0));
  if (q > 1) y = -y;
  for (int k = 0; k < 6; k++) {
    wide u = (erfcl(y) - q) / (-2 / sqrtl(pi) * expl(-y * y));
    if (!isfinite(u)) break;
    y -= u / (1 + u * y);
  }
  return y;
}
double tc_erfinv(double x) {
  if (isnan(x) || fabs(x) > 1) return NAN;
  if (fabs(x) == 1) return copysign(INFINITY, x);
  if (fabs(x) > 0.5) return (double)copysignl(erfc_inverse(1 - fabsl((wide)x)), x);
  wide y = x * sqrtl(pi) / 2;
  for (int k = 0; k < 6; k++) {
    wide u = (erfl(y) - x) / (2 / sqrtl(pi) * expl(-y * y));
    y -= u / (1 + u * y);
  }
  return (double)y;
}
double tc_ndtri(double p) {
  if (!(p >= 0 && p <= 1)) return NAN;
  if (p == 0 || p == 1) return p == 0 ? -INFINITY : INFINITY;
  return (double)(-sqrtl(2) * erfc_inverse(2 * (wide)p));
}
double tc_erfcx(double x) {
  if (isnan(x)) return x;
  if (x < -27) return INFINITY;
  if (x < 60) return (double)(expl((wide)x * x) * erfcl(x));
  wide s = 1, term = 1, d = 2 * (wide)x * x; // DLMF 7.12.1
  for (int k = 1; k < 10; k++) s += term *= -(2 * k - 1) / d;
  return (double)(s / (x * sqrtl(pi)));
}

// ---- Bessel functions ----
// Asymptotic sums of DLMF 10.40: Σ (∓1)^k a_k(ν)/x^k.
static wide bessel_far(int order, wide x, int sign) {
  wide s = 1, term = 1, mu = 4.0L * order * order;
  for (int k = 1; k < 60; k++) {
    wide next = term * sign * (mu - (wide)(2 * k - 1) * (2 * k - 1)) / (8 * k * x);
    if (fabsl(next) > fabsl(term) || fabsl(next) < 1e-21L) break;
    s += term = next;
  }
  return s;
}
double tc_bessel_i(int order, double x, int scaled) {
  wide z = fabsl((wide)x), v;
  if (isnan(x)) return x;
  if (isinf(x)) return scaled ? 0 : NAN;
  if (z > 35) {
    v = bessel_far(order, z, -1) / sqrtl(2 * pi * z) * (scaled ? 1 : expl(z));
  } else { // DLMF 10.25.2
    wide term = order ? z / 2 : 1, sum = term, h = z * z / 4;
    for (int k = 1; k < 500 && term > sum * 1e-22L; k++) sum += term *= h / ((wide)k * (k + order));
    v = scaled ? sum * expl(-z) : sum;
  }
  return (double)(order && x < 0 ? -v : v);
}
// e^x·K of a real order: ∫ exp(x - x·cosh t)·cosh(νt) dt over t ≥ 0 (DLMF 10.32.9).
static wide bessel_k_integral(wide order, wide x) {
  const wide h = 1.0L / 64;
  wide sum = 0.5L;
  for (int k = 1; k < 100000; k++) {
    wide t = k * h, term = expl(-2 * x * sinhl(t / 2) * sinhl(t / 2)) * coshl(order * t);
    sum += term;
    if (term < sum * 1e-22L) break;
  }
  return sum * h;
}
double tc_bessel_k(int order, double x, int scaled) {
  if (isnan(x) || x < 0) return NAN;
  if (x == 0) return INFINITY;
  if (isinf(x)) return 0;
  wide z = x, v = z > 40 ? bessel_far(order, z, 1) * sqrtl(pi / (2 * z)) : bessel_k_integral(order, z);
  return (double)(scaled ? v : v * expl(-z));
}

double tc_airy_ai(double x) {
  if (isnan(x) || isinf(x)) return NAN;
  wide z = x, zeta = 2 / 3.0L * powl(fabsl(z), 1.5L);
  if (x > 2) return (double)(sqrtl(z / 3) / pi * bessel_k_integral(1 / 3.0L, zeta) * expl(-zeta)); // DLMF 9.6.2
  if (x > -4) {                                                                                    // DLMF 9.4.1
    wide f = 0.355028053887817239260L, g = -0.258819403792806798405L * z, sum = f + g, cube = z * z * z;
    for (int k = 1; k < 100; k++) {
      f *= cube / ((3.0L * k - 1) * (3 * k)), g *= cube / ((3.0L * k) * (3 * k + 1));
      sum += f + g;
    }
    return (double)sum;
  }
  if (x < -12) { // DLMF 9.7.9
    wide u = 1, even = 1, odd = 0;
    for (int k = 1; k < 40; k++) {
      wide next = u * ((6.0L * k - 5) * (6 * k - 3) * (6 * k - 1)) / (216.0L * k * (2 * k - 1) * zeta);
      if (next > u || next < 1e-22L) break;
      u = next;
      if (k % 2) odd += k % 4 == 1 ? u : -u;
      else even += k % 4 == 0 ? u : -u;
    }
    return (double)((cosl(zeta - pi / 4) * even + sinl(zeta - pi / 4) * odd) / (sqrtl(pi) * powl(-z, 0.25L)));
  }
  // ∫ exp(i(s³/3 + xs)) ds / 2π along s = u + iη (DLMF 9.5.4, the contour shifted).
  const wide h = 1.0L / 64, eta = 1 / sqrtl(-z);
  wide sum = 0;
  for (int k = 0; k < 4000; k++) {
    wide u = k * h, size = expl(eta * eta * eta / 3 - z * eta - eta * u * u);
    sum += (k ? 2 : 1) * size * cosl(u * u * u / 3 - eta * eta * u + z * u);
    if (k && size < 1e-24L) break;
  }
  return (double)(sum * h / (2 * pi));
}

// ---- orthogonal polynomials: three-term recurrences (DLMF 18.9) ----
// Chebyshev's of four kinds differ in their first: T x, U 2x, V 2x-1, W 2x+1. Within (-1, 1) high degrees are taken
// from the cosine, which does not lose accuracy with the degree. The degree as a whole number; -1 for what PyTorch's
// cast to an integer makes negative.
static double degree_of(double n) { return n > -1 && n < 0x1p63 ? fabs(trunc(n)) : -1; }
// What a double cannot hold is infinite, products before their difference, too, which is NaN then, as in PyTorch.
static wide in_range(wide v) { return fabsl(v) > (wide)DBL_MAX ? copysignl(INFINITY, v) : v; }
enum { KIND_T, KIND_U, KIND_V, KIND_W };
enum { MOST_DEGREE = 1000000 }; // of recurrences; NaN beyond it, where kernels stop, too
static double chebyshev(double x, double degree, int kind) {
  double n = degree_of(degree), parity = fmod(n, 2) == 1 ? -1 : 1;
  if (n < 0) return 0;
  if (fabs(x) == 1) {
    double at_one = kind == KIND_U   ? n + 1
                    : kind == KIND_W ? 2 * n + 1
                                     : 1,
           at_minus = kind == KIND_U   ? n + 1
                      : kind == KIND_V ? 2 * n + 1
                                       : 1;
    return x > 0 ? at_one : parity * at_minus;
  }
  if (n == 0) return 1;
  if (isnan(x)) return x;
  wide t = fabs(x) < 1 ? acosl(x) : 0;
  if (fabs(x) < 1 && n > 6) {
    switch (kind) {
    case KIND_T: return (double)cosl(n * t);
    case KIND_U: return (double)(sinl((n + 1) * t) / sinl(t));
    case KIND_V: return (double)(cosl((n + 0.5L) * t) / cosl(t / 2));
    default: return (double)(sinl((n + 0.5L) * t) / sinl(t / 2));
    }
  }
  wide p = 1, q = kind == KIND_T   ? x
                  : kind == KIND_U ? 2 * (wide)x
                  : kind == KIND_V ? 2 * (wide)x - 1
                                   : 2 * (wide)x + 1;
  for (double k = 1; k < n; k++) {
    wide r = in_range(in_range(2 * x * q) - p);
    p = q, q = r;
    if (isnan(q) || k > MOST_DEGREE) return NAN;
  }
  return (double)q;
}
double tc_chebyshev_t(double x, double n) { return chebyshev(x, n, KIND_T); }
double tc_chebyshev_u(double x, double n) { return chebyshev(x, n, KIND_U); }
double tc_chebyshev_v(double x, double n) { return chebyshev(x, n, KIND_V); }
double tc_chebyshev_w(double x, double n) { return chebyshev(x, n, KIND_W); }

// Hermite's: q' = a·x·q - b·k·p; beyond degree 512 nothing is left in range and the value is NaN.
static double hermite(double x, double degree, wide a, wide b) {
  double n = degree_of(degree);
  if (n < 0) return 0;
  if (n > 512) return NAN;
  wide p = 0, q = 1;
  for (double k = 0; k < n; k++) {
    wide r = in_range(in_range(a * x * q) - in_range(b * k * p));
    p = q, q = r;
  }
  return (double)q;
}
double tc_hermite_h(double x, double n) { return hermite(x, n, 2, 2); }
double tc_hermite_he(double x, double n) { return hermite(x, n, 1, 1); }

double tc_laguerre_l(double x, double degree) {
  double n = degree_of(degree);
  if (n < 0) return 0;
  if (x == 0) return 1;
  if (n > MOST_DEGREE) return NAN;
  wide p = 0, q = 1;
  for (double k = 0; k < n && !isnan(q); k++) {
    wide r = in_range((in_range((2 * k + 1 - x) * q) - in_range(k * p)) / (k + 1));
    p = q, q = r;
  }
  return (double)q;
}
double tc_legendre_p(double x, double degree) {
  double n = degree_of(degree);
  if (n < 0) return 0;
  if (fabs(x) == 1) return x > 0 || fmod(n, 2) == 0 ? 1 : -1;
  if (n > MOST_DEGREE) return NAN;
  wide p = 0, q = 1;
  for (double k = 0; k < n && !isnan(q); k++) {
    wide r = in_range((in_range((2 * k + 1) * x * q) - in_range(k * p)) / (k + 1));
    p = q, q = r;
  }
  return (double)q;
}
