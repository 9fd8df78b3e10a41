// Complex powers in double precision for references: C's library multiplies logarithms that are rounded to double,
// which loses as many digits as the exponent has. No state; thread-safe.
#ifndef TC_CORE_BASE_COMPLEX_POWER_H_
#define TC_CORE_BASE_COMPLEX_POWER_H_

double _Complex tc_complex_pow(double _Complex x, double _Complex y); // at zero and infinities as C's
double _Complex tc_complex_exp2(double _Complex z);                   // 2^z

#endif
