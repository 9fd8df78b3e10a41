// Complex numbers from their two parts. `re + im * I` is not that: an infinite imaginary part makes the real one NaN.
// C11's macros, which are missing from some pairs of compiler and library.
#ifndef TC_CORE_BASE_COMPLEX_PARTS_H_
#define TC_CORE_BASE_COMPLEX_PARTS_H_

#include <complex.h>

#ifndef CMPLX
#define CMPLX(re, im) __builtin_complex((double)(re), (double)(im))
#endif
#ifndef CMPLXL
#define CMPLXL(re, im) __builtin_complex((long double)(re), (long double)(im))
#endif

#endif
