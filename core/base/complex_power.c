// x^y = e^(y log x) and 2^z in long double, 11 bits more than double on x86; where long double is double they are as
// good as C's own.
#include "core/base/complex_power.h"

#include <math.h>
#include <stdbool.h>

#include "core/base/complex_parts.h"

#undef I

static bool is_usual(double complex z) { return isfinite(creal(z)) && isfinite(cimag(z)); }

double complex tc_complex_pow(double complex x, double complex y) {
  if (!is_usual(x) || !is_usual(y) || x == 0) return cpow(x, y);
  long double complex l = clogl(x);
  long double a = creal(y), b = cimag(y), s = creall(l), t = cimagl(l);
  if (fabsl(fmal(a, t, b * s)) > 0x1p60L) return cpow(x, y); // no digit of the angle is left: as C's
  return (double complex)cexpl(CMPLXL(fmal(a, s, -b * t), fmal(a, t, b * s)));
}

double complex tc_complex_exp2(double complex z) {
  const long double ln2 = 0.693147180559945309417232121458176568L,
                    rest = (0x1.62e42fefa39efp-1L - ln2) + 0x1.abc9e3b39803fp-56L;
  if (!is_usual(z) || fabs(cimag(z)) > 0x1p50) return cexp(z * 0x1.62e42fefa39efp-1);
  long double b = cimag(z), t = b * ln2, low = fmal(b, ln2, -t) + b * rest, size = exp2l(creal(z));
  long double c = cosl(t) * cosl(low) - sinl(t) * sinl(low), s = sinl(t) * cosl(low) + cosl(t) * sinl(low);
  return (double complex)CMPLXL(size * c, b == 0 ? b : size * s);
}
