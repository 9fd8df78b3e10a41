// Powers of zero, which go by way of a logarithm that is not finite: PyTorch's values.
#include <math.h>

#include "core/base/complex_parts.h"
#include "core/base/complex_power.h"
#include "tests/unit/unit.h"

#undef I

TC_TEST(raises_zero) {
  static const double parts[] = {0.0, -0.0, 0.5, 3, INFINITY, -0.5, -3, -INFINITY, NAN};
  enum { PARTS = sizeof parts / sizeof *parts };
  for (int32_t i = 0; i < PARTS * PARTS; i++) {
    double re = parts[i / PARTS], im = parts[i % PARTS];
    double complex r = tc_complex_pow(0, CMPLX(re, im));
    bool fine = isinf(im) && isfinite(re) ? isnan(creal(r)) && isnan(cimag(r))
                : re > 0                  ? creal(r) == 0 && cimag(r) == 0
                : re < 0                  ? isinf(creal(r)) && isnan(cimag(r))
                                          : isnan(creal(r)) && isnan(cimag(r));
    if (!fine) fail_msg("0^(%g, %g): got (%g, %g)", re, im, creal(r), cimag(r));
  }
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(raises_zero)};
  return TC_RUN(tests);
}
