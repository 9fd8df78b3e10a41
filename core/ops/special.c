// Special functions as ops. Those without a text have only their reference (special_functions.h) so far.
#include <math.h>

#include "core/ops/ops.h"
#include "core/ops/special_functions.h"

#define F1(name, expr)                              \
  static double name##_f(double x) { return expr; } \
  static const tc_scalar_ref name##_ref = {.f1 = name##_f};
#define F2(name, expr)                                        \
  static double name##_f(double x, double y) { return expr; } \
  static const tc_scalar_ref name##_ref = {.f2 = name##_f};
F1(digamma, tc_digamma(x))
F1(erfinv, tc_erfinv(x))
F1(ndtri, tc_ndtri(x))
F1(erfcx, tc_erfcx(x))
F1(log_ndtr, tc_log_ndtr(x))
F1(i0, tc_bessel_i(0, x, 0))
F1(i0e, tc_bessel_i(0, x, 1))
F1(i1, tc_bessel_i(1, x, 0))
F1(i1e, tc_bessel_i(1, x, 1))
F1(k0, tc_bessel_k(0, x, 0))
F1(k0e, tc_bessel_k(0, x, 1))
F1(k1, tc_bessel_k(1, x, 0))
F1(k1e, tc_bessel_k(1, x, 1))
// At infinity, where they tend to 0, PyTorch gives NaN.
F1(bessel_j0, isinf(x) ? NAN : j0(x))
F1(bessel_j1, isinf(x) ? NAN : j1(x))
F1(bessel_y0, x < 0 || isinf(x) ? NAN : y0(x))
F1(bessel_y1, x < 0 || isinf(x) ? NAN : y1(x))
F1(airy_ai, tc_airy_ai(x))
F2(polygamma, tc_polygamma(x, y))
F2(zeta, tc_hurwitz_zeta(x, y))
F2(igamma, tc_gamma_lower(x, y))
F2(igammac, tc_gamma_upper(x, y))
F2(chebyshev_t, tc_chebyshev_t(x, y))
F2(chebyshev_u, tc_chebyshev_u(x, y))
F2(chebyshev_v, tc_chebyshev_v(x, y))
F2(chebyshev_w, tc_chebyshev_w(x, y))
F2(shifted_t, tc_chebyshev_t(2 * x - 1, y))
F2(shifted_u, tc_chebyshev_u(2 * x - 1, y))
F2(shifted_v, tc_chebyshev_v(2 * x - 1, y))
F2(shifted_w, tc_chebyshev_w(2 * x - 1, y))
F2(hermite_h, tc_hermite_h(x, y))
F2(hermite_he, tc_hermite_he(x, y))
F2(laguerre_l, tc_laguerre_l(x, y))
F2(legendre_p, tc_legendre_p(x, y))

static int32_t polygamma_meta(tc_op_args *a) {
  const int32_t self = 1;
  tc_dtype d = tc_op_tensor(a, 1)->dtype;
  if (tc_op_int(a, 0, 0) < 0) return tc_op_fail(a, "polygamma(n, x) does not support negative n");
  return tc_op_pointwise_result(a, 0, tc_dtype_is_float(d) ? d : TC_F32, 1, &self);
}

enum { FLOAT = TC_OP_POINTWISE | TC_OP_INT_TO_FLOAT };
#define ONE(name, r) {.schema = name, .traits = FLOAT, .meta = tc_meta_float, .scalar_ref = &(r), .flops = "20 * numel"}
#define SELF(name, r) ONE(name "(Tensor self) -> Tensor", r)
#define X(name, r) ONE(name "(Tensor x) -> Tensor", r)
#define TWO(name, r) \
  {.schema = name, .traits = FLOAT, .meta = tc_meta_promote_float, .scalar_ref = &(r), .flops = "20 * numel"}
#define POLYNOMIAL(name, r)                                              \
  TWO("special_" name "(Tensor x, Tensor n) -> Tensor", r),              \
      TWO("special_" name ".x_scalar(Scalar x, Tensor n) -> Tensor", r), \
      TWO("special_" name ".n_scalar(Tensor x, Scalar n) -> Tensor", r)
#define POLYGAMMA(name)                             \
  {.schema = name "(int n, Tensor self) -> Tensor", \
   .traits = FLOAT,                                 \
   .meta = polygamma_meta,                          \
   .scalar_ref = &polygamma_ref,                    \
   .flops = "20 * numel"}
#define TEXT(s, d) {.schema = s, .decompose = d}
static const tc_op_def rows[] = {
    SELF("digamma", digamma_ref),
    SELF("special_digamma", digamma_ref),
    POLYGAMMA("polygamma"),
    POLYGAMMA("special_polygamma"),
    SELF("erfinv", erfinv_ref),
    SELF("special_erfinv", erfinv_ref),
    SELF("special_ndtri", ndtri_ref),
    SELF("special_erfcx", erfcx_ref),
    SELF("special_log_ndtr", log_ndtr_ref),
    SELF("i0", i0_ref),
    SELF("special_i0", i0_ref),
    SELF("special_i0e", i0e_ref),
    SELF("special_i1", i1_ref),
    SELF("special_i1e", i1e_ref),
    SELF("special_modified_bessel_i0", i0_ref),
    SELF("special_modified_bessel_i1", i1_ref),
    SELF("special_modified_bessel_k0", k0_ref),
    SELF("special_modified_bessel_k1", k1_ref),
    X("special_scaled_modified_bessel_k0", k0e_ref),
    X("special_scaled_modified_bessel_k1", k1e_ref),
    SELF("special_bessel_j0", bessel_j0_ref),
    SELF("special_bessel_j1", bessel_j1_ref),
    SELF("special_bessel_y0", bessel_y0_ref),
    SELF("special_bessel_y1", bessel_y1_ref),
    X("special_airy_ai", airy_ai_ref),
    TEXT("special_spherical_bessel_j0(Tensor x) -> Tensor",
         "let f = if(is_int(x), to(x, f32), x); let v = to(f, wide(f.dtype)); let s = mul(v, v); to(where(isinf(v), "
         "0.0, "
         "where(lt(abs(v), 0.5), add(mul(s, add(mul(s, add(mul(s, add(mul(s, add(mul(s, add(mul(s, "
         "0.00000000016059043836821615), -0.00000002505210838544172)), 0.0000027557319223985893)), "
         "-0.0001984126984126984)), 0.008333333333333333)), -0.16666666666666667)), 1), div(sin(v), v))), f.dtype)"),
    TEXT("special_ndtr(Tensor self) -> Tensor",
         "let f = if(is_int(self), to(self, f32), self); let x = to(f, wide(f.dtype));"
         "to(mul(erfc(mul(x, -0.70710678118654752440)), 0.5), f.dtype)"),
    TWO("special_zeta(Tensor self, Tensor other) -> Tensor", zeta_ref),
    TWO("special_zeta.self_scalar(Scalar self, Tensor other) -> Tensor", zeta_ref),
    TWO("special_zeta.other_scalar(Tensor self, Scalar other) -> Tensor", zeta_ref),
    TWO("igamma(Tensor self, Tensor other) -> Tensor", igamma_ref),
    TWO("igammac(Tensor self, Tensor other) -> Tensor", igammac_ref),
    TWO("special_gammainc(Tensor self, Tensor other) -> Tensor", igamma_ref),
    TWO("special_gammaincc(Tensor self, Tensor other) -> Tensor", igammac_ref),
    POLYNOMIAL("chebyshev_polynomial_t", chebyshev_t_ref),
    POLYNOMIAL("chebyshev_polynomial_u", chebyshev_u_ref),
    POLYNOMIAL("chebyshev_polynomial_v", chebyshev_v_ref),
    POLYNOMIAL("chebyshev_polynomial_w", chebyshev_w_ref),
    POLYNOMIAL("shifted_chebyshev_polynomial_t", shifted_t_ref),
    POLYNOMIAL("shifted_chebyshev_polynomial_u", shifted_u_ref),
    POLYNOMIAL("shifted_chebyshev_polynomial_v", shifted_v_ref),
    POLYNOMIAL("shifted_chebyshev_polynomial_w", shifted_w_ref),
    POLYNOMIAL("hermite_polynomial_h", hermite_h_ref),
    POLYNOMIAL("hermite_polynomial_he", hermite_he_ref),
    POLYNOMIAL("laguerre_polynomial_l", laguerre_l_ref),
    POLYNOMIAL("legendre_polynomial_p", legendre_p_ref),
};
// Derivatives; see docs/ADDING_AN_OP.md for what the texts can name.
static const tc_op_derivative derivatives[] = {
    {"digamma", "self: mul(grad, polygamma(1, self))"},
    {"special_digamma", "self: mul(grad, polygamma(1, self))"},
    {"polygamma", "self: mul(grad, polygamma(n + 1, self))"},
    {"special_polygamma", "self: mul(grad, polygamma(n + 1, self))"},
};
TC_OP_FAMILY_WITH_DERIVATIVES(special);
