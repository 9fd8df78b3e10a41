// Special functions in double precision, for references and folding. Arguments outside of a function's domain give NaN;
// at poles the value is infinite where PyTorch's is. Errors are a few units of the last place, except close to zeros.
#ifndef TC_CORE_OPS_SPECIAL_FUNCTIONS_H_
#define TC_CORE_OPS_SPECIAL_FUNCTIONS_H_

double tc_digamma(double x);
double tc_polygamma(double n, double x);    // derivative n of digamma; n a whole number ≥ 0
double tc_hurwitz_zeta(double s, double q); // Σ (q+k)^-s
double tc_gamma_lower(double a, double x);  // regularised, P(a, x)
double tc_gamma_upper(double a, double x);  // Q(a, x) = 1 - P
double tc_erfinv(double x);
double tc_ndtri(double p);                           // quantile of the normal distribution
double tc_erfcx(double x);                           // e^(x²)·erfc(x)
double tc_bessel_i(int order, double x, int scaled); // order 0 or 1; scaled by e^-|x|
double tc_bessel_k(int order, double x, int scaled); // by e^x
double tc_airy_ai(double x);

// Orthogonal polynomials of degree n (truncated to a whole number; negative: 0) at x.
double tc_chebyshev_t(double x, double n);
double tc_chebyshev_u(double x, double n);
double tc_chebyshev_v(double x, double n);
double tc_chebyshev_w(double x, double n);
double tc_hermite_h(double x, double n);
double tc_hermite_he(double x, double n);
double tc_laguerre_l(double x, double n);
double tc_legendre_p(double x, double n);

#endif
