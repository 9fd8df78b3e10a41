// Special functions as ops: a text each, in double precision where TC_OP_COMPUTE_WIDE says so (polynomials from
// tools/fit_special.py), or the template "iterate" where the number of steps comes from data. References:
// special_functions.h. Bounds are in units in the last place of the double result, unless said otherwise.
#include <math.h>

#include "core/ir/opargs.h"
#include "core/ops/ops.h"
#include "core/ops/special_coefficients.h"
#include "core/ops/special_functions.h"

#include "tc/lower.h"

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
F1(trigamma, tc_polygamma(1, x))
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

// Modified Bessel functions: the power series (DLMF 10.25.2) up to 18, the asymptotic sum (10.40.1) beyond, where the
// exponential is taken in halves, so that it does not overflow before the product does.
#define I0_SERIES                                                                                    \
  "1.0, 1.0, 0.25, 0.027777777777777776, 0.001736111111111111, 6.944444444444444e-05, "              \
  "1.9290123456790124e-06, 3.936759889140842e-08, 6.151187326782565e-10, 7.594058428126624e-12, "    \
  "7.594058428126623e-14, 6.276081345559193e-16, 4.358389823304995e-18, 2.5789288895295828e-20, "    \
  "1.3157800456783586e-22, 5.8479113141260385e-25, 2.2843403570804838e-27, 7.904291893012054e-30, "  \
  "2.4395962632753253e-32, 6.757884385804225e-35, 1.6894710964510564e-37, 3.8310002187098785e-40, "  \
  "7.915289708078262e-43, 1.4962740468957016e-45, 2.5976979980828152e-48, 4.156316796932504e-51, "   \
  "6.14839762859838e-54, 8.434015951438106e-57, 1.0757673407446564e-59, 1.2791526049282477e-62, "    \
  "1.4212806721424974e-65, 1.4789601166935458e-68, 1.4442969889585408e-71, 1.3262598613026087e-74, " \
  "1.147283617043779e-77, 9.365580547296156e-81"
#define I0_FAR                                                                                         \
  "1.0, 0.125, 0.0703125, 0.0732421875, 0.112152099609375, 0.22710800170898438, 0.5725014209747314, "  \
  "1.7277275025844574, 6.074042001273483, 24.380529699556064, 110.01714026924674, 551.3358961220206, " \
  "3038.090510922384, 18257.755474293175, 118838.42625678325, 832859.3040162893, 6252951.493434797, "  \
  "50069589.531988926, 425939216.5047669, 3836255180.2304335, 36468400807.06556, 364901081884.98334, " \
  "3833534661393.9443, 42189715702840.97, 485401468685290.06, 5827244631566907.0"
#define I1_SERIES                                                                                         \
  "1.0, 0.5, 0.08333333333333333, 0.006944444444444444, 0.00034722222222222224, 1.1574074074074073e-05, " \
  "2.755731922398589e-07, 4.920949861426052e-09, 6.834652585313961e-11, 7.594058428126623e-13, "          \
  "6.903689480115112e-15, 5.230067787965994e-17, 3.352607556388458e-19, 1.842092063949702e-21, "          \
  "8.771866971189057e-24, 3.654944571328774e-26, 1.3437296218120491e-28, 4.391273273895586e-31, "         \
  "1.2839980333028028e-33, 3.3789421929021126e-36, 8.045100459290744e-39, 1.7413637357772174e-41, "       \
  "3.4414303078601135e-44, 6.234475195398757e-47, 1.0390791992331261e-49, 1.5985833834355786e-52, "       \
  "2.2771843068882885e-55, 3.0121485540850376e-58, 3.7095425542919185e-61, 4.263842016427493e-64, "       \
  "4.5847763617499917e-67, 4.6217503646673306e-70, 4.376657542298608e-73, 3.900764297948849e-76, "        \
  "3.2779531915536543e-79, 2.60155015202671e-82"
#define I1_FAR                                                                                             \
  "1.0, -0.375, -0.1171875, -0.1025390625, -0.144195556640625, -0.2775764465332031, -0.6765925884246826, " \
  "-1.993531733751297, -6.883914268109947, -27.248827311268542, -121.59789187653587, -603.8440767050702, " \
  "-3302.2722944808525, -19718.37591223663, -127641.2726461746, -890297.8767070678, -6656367.718817688, "  \
  "-53104110.10968523, -450278600.3050393, -4043620325.107754, -38338575207.427895, -382701134659.8606, "  \
  "-4011838599133.1978, -44064814178522.79, -506056850331472.6, -6065091351222699.0"
#define BESSEL(order, odd, near_scale, far_scale)                                      \
  "let z = abs(self * 1); let t = z * z * 0.25; let s = horner(t, " I##order##_SERIES  \
      ")" odd ";"                                                                      \
      "let p = horner(1 / z, " I##order##_FAR ") / sqrt(6.283185307179586476925 * z);" \
                                              "let v = where(z > 18, p" far_scale ", s" near_scale ");"
#define GROWN "* exp(z * 0.5) * exp(z * 0.5)"
#define I0_BODY BESSEL(0, "", "", GROWN) "v"
#define I0E_BODY BESSEL(0, "", " * exp(-z)", "") "v"
#define I1_BODY BESSEL(1, " * z * 0.5", "", GROWN) "copysign(v, self)"
#define I1E_BODY BESSEL(1, " * z * 0.5", " * exp(-z)", "") "copysign(v, self)"

// Winitzki's approximation, then Halley's method on erf or, near the ends, on erfc.
#define HALLEY(y, y0)                                                                                             \
  "let r" y " = where(a <= 0.5, erf(" y0 ") - a, (1 - a) - erfc(" y0 ")); let u" y " = r" y " * exp(" y0 " * " y0 \
  ") * 0.886226925452758013649; let " y " = " y0 " - u" y " / (1 + u" y " * " y0 ");"
#define ERFINV_BODY                                                                                  \
  "let a = abs(self * 1); let l = log((1 - a) * (1 + a)); let w = 4.330746750799873 + l * 0.5;"      \
  "let b = sqrt(max(sqrt(w * w - l * 6.802721088435374) - w, 0));" HALLEY("c", "b") HALLEY("d", "c") \
      HALLEY("f", "d") "copysign(where(a == 1, inf, f), self)"

// e^(x²) from a part of x whose square is exact; beyond 8 the asymptotic sum (DLMF 7.12.1).
#define ERFCX_BODY                                                                                        \
  "let h = trunc(self * 16) * 0.0625; let near = exp(h * h) * exp((self - h) * (self + h)) * erfc(self);" \
  "let far = horner(0.5 / (self * self), " ERFCX_FAR                                                      \
  ") * 0.564189583547756286948 / self; where(self > 8, far, where(self < -27, inf, near))"
#define ERFCX_FAR                                                                                   \
  "1.0, -1.0, 3.0, -15.0, 105.0, -945.0, 10395.0, -135135.0, 2027025.0, -34459425.0, 654729075.0, " \
  "-13749310575.0, 316234143225.0, -7905853580625.0, 213458046676875.0, -6190283353629375.0, "      \
  "1.9189878396251062e+17"

// ---- gamma's derivatives ----
// DLMF 5.11.2 from 8 on, behind the recurrence 5.5.2: the first term by itself, the others as one fraction. Negative
// arguments by reflection (5.5.4), with the distance to the nearest whole number. 4 of max(1, |ψ|).
#define PSI_STEP(k, before, now) \
  "let d" #now " = d" #before " * (x + " #k ") + p" #before "; let p" #now " = p" #before " * (x + " #k ");"
#define DIGAMMA_BODY                                                                                                  \
  "let v = self * 1; let x = where(v < 0, 1 - v, v); let d1 = 1; let p1 = x + 1;" PSI_STEP(2, 1, 2) PSI_STEP(3, 2, 3) \
      PSI_STEP(4, 3, 4) PSI_STEP(5, 4, 5) PSI_STEP(6, 5, 6) PSI_STEP(                                                 \
          7, 6, 7) "let y = where(x < 8, x + 8, x); let w = 1 / (y * y);"                                             \
                   "let far = log(y) - 0.5 / y + w * horner(w, " DIGAMMA_FAR ");"                                     \
                   "let psi = where(x < 8, (far - d7 / p7) - 1 / x, where(x == inf, inf, far));"                      \
                   "let r = v - rint(v); let pole = pi * cos(pi * r) / sin(pi * r);"                                  \
                   "where(v == 0, copysign(inf, -v), where(v < 0, where(r == 0 || v == -inf, nan, psi - pole), psi))"
#define DIGAMMA_FAR                                                                                     \
  "-0.083333333333333333, 0.0083333333333333333, -0.003968253968253968254, 0.0041666666666666666667, "  \
  "-0.0075757575757575757576, 0.021092796092796092796, -0.083333333333333333, 0.44325980392156862745, " \
  "-3.0539543302701197438, 26.456212121212121212, -281.46014492753623188"
// DLMF 5.15.8 from 10 on, behind the recurrence; below ½ by reflection (5.15.6), the sine of the rounded product as in
// PyTorch, which decides what poles give.
#define TRI(k) "+ recip((x + " #k ") * (x + " #k "))"
#define TRIGAMMA_BODY                                                                               \
  "let v = self * 1; let x = where(v < 0.5, 1 - v, v); let y = x + 10; let w = 1 / (y * y);"        \
  "let near = recip(x * x)" TRI(1) TRI(2) TRI(3) TRI(4) TRI(5) TRI(6) TRI(7) TRI(8)                 \
      TRI(9) ";"                                                                                    \
             "let far = (1 + 0.5 "                                                                  \
             "/ y + w * horner(w, " TRIGAMMA_FAR ")) / y; let s = sin(pi * v); let t = far + near;" \
             "where(v < 0.5, pi * pi / (s * s) - t, where(v == inf, 0, t))"
#define TRIGAMMA_FAR                                                                                      \
  "0.16666666666666666667, -0.033333333333333333333, 0.023809523809523809524, -0.033333333333333333333, " \
  "0.075757575757575757576, -0.25311355311355311355, 1.1666666666666666667, -7.0921568627450980392"

// The derivatives by Hurwitz's zeta function (DLMF 5.15.1 and 25.11.12).
static int32_t polygamma_expand(tc_op_args *a) {
  int64_t n = tc_op_int(a, 0, -1);
  tc_dtype d = tc_op_tensor(a, 1)->dtype, result = tc_dtype_is_float(d) ? d : TC_F32;
  if (n < 0) return tc_op_fail(a, "polygamma(n, x) does not support negative n");
  tc_ex_begin(a, n == 0 ? "aten::digamma" : n == 1 ? "aten::_trigamma" : "aten::to.dtype");
  tc_ex_push(a, tc_ex_arg(a, 1));
  if (n > 1) tc_ex_push_dtype(a, TC_F64);
  tc_gv v = tc_ex_make(a, 1, NULL);
  if (n > 1) {
    tc_ex_begin(a, "aten::special_zeta.self_scalar");
    tc_ex_push_float(a, (double)n + 1);
    tc_ex_push(a, v);
    v = tc_ex_make(a, 1, NULL);
    tc_ex_begin(a, "aten::mul.Scalar");
    tc_ex_push(a, v);
    tc_ex_push_float(a, (n % 2 ? 1 : -1) * tgamma((double)n + 1));
    v = tc_ex_make(a, 1, NULL);
    tc_ex_begin(a, "aten::to.dtype");
    tc_ex_push(a, v);
    tc_ex_push_dtype(a, result);
    v = tc_ex_make(a, 1, NULL);
  }
  tc_ex_result(a, 0, v);
  return TC_STATUS_OK;
}

// ---- the normal distribution's quantile ----
#define NDTRI_BODY                                                                                            \
  "let v = self * 1; let y = v - 0.5; let q = min(v, 1 - v); let r = sqrt(-log(q));"                          \
  "let mid = y * horner(y * y * 20 - 1, " NDTRI_MID "); let a = horner(r * 1.6 - 3, " NDTRI_TAIL_A            \
  "); let b = horner((r * 2 - 8.5) / 3.5, " NDTRI_TAIL_B "); let c = horner((r * 2 - 34) / 22, " NDTRI_TAIL_C \
  "); let t = where(r < 2.5, a, where(r < 6, b, c)); let w = where(q == 0, -inf, where(y < 0, t, -t));"       \
  "where(abs(y) < 0.3, mid, where(v >= 0 && v <= 1, where(v == 1, inf, w), nan))"

// ---- Bessel functions ----
// Up to 5 polynomials of x², with the first zero as a factor; then Hankel's form (DLMF 10.17.3), its phase by the sine
// and cosine of x itself. Errors are 4 units of the amplitude √(2/πx) beyond 5, of max(1, |value|) below.
#define J_NEAR(n)                                                                                               \
  "((x - " J##n##_ZERO ") - (" J##n##_ZERO_LOW ")) * (x + " J##n##_ZERO ") * where(z < 9, horner(za, " J##n##_A \
      "), horner(zb, " J##n##_B "))"
#define J_START(n)                                                                                                   \
  "let x = abs(self * 1); let z = x * x; let za = z * 0.22222222222222222222 - 1; let zb = z * 0.125 - 2.125;"       \
  "let r = 5 / x; let w = r * r * 2 - 1; let p = horner(w, " HANKEL##n##_P "); let q = r * horner(w, " HANKEL##n##_Q \
      "); let s = sin(x); let c = cos(x); let size = 0.56418958354775628695 / sqrt(x);"
#define J0_BODY J_START(0) "where(x > 5, size * (p * (c + s) - q * (s - c)), " J_NEAR(0) ")"
#define J1_BODY \
  J_START(1) "let v = where(x > 5, size * (p * (s - c) + q * (s + c)), x * " J_NEAR(1) "); where(self < 0, -v, v)"
#define Y_NEAR(n) "where(z < 9, horner(za, " Y##n##_A "), horner(zb, " Y##n##_B "))"
#define TWO_BY_PI "0.63661977236758134308"
#define Y0_BODY                                                              \
  J_START(0)                                                                 \
  "let j = " J_NEAR(0) "; let near = " TWO_BY_PI " * log(x) * j + " Y_NEAR(  \
      0) "; let v = where(x > 5, size * (p * (s - c) + q * (c + s)), near);" \
         "where(self < 0, nan, where(x == 0, -inf, v))"
#define Y1_BODY                                                                               \
  J_START(1)                                                                                  \
  "let j = x * " J_NEAR(1) "; let near = " TWO_BY_PI " * (log(x) * j - 1 / x) + x * " Y_NEAR( \
      1) "; let v = where(x > 5, size * (q * (s - c) - p * (s + c)), near);"                  \
         "where(self < 0, nan, where(x == 0, -inf, v))"
// Up to 1 by the logarithm and polynomials (DLMF 10.31), then e^-x/√x times a polynomial of 1/x. 4.
#define K_BODY(name, near, n, near_scale, far_scale)                                         \
  "let x = " name " * 1; let z = x * x * 2 - 1; let l = log(x); let i = horner(z, " K##n##_I \
      "); let h = horner(z, " K##n##_NEAR "); let near = " near ";"                          \
                                          "let far = horner(2 / x - 1, " K##n##_FAR          \
      ") / sqrt(x);"                                                                         \
      "where(x < 0, nan, where(x == 0, inf, where(x > 1, far" far_scale ", near" near_scale ")))"
#define K0_BODY K_BODY("self", "h - l * i", 0, "", " * exp(-x)")
#define K1_BODY K_BODY("self", "1 / x + x * (h + l * i)", 1, "", " * exp(-x)")
#define K0E_BODY K_BODY("x", "h - l * i", 0, " * exp(x)", "")
#define K1E_BODY K_BODY("x", "1 / x + x * (h + l * i)", 1, " * exp(x)", "")
// ζ = 2/3 |x|^(3/2) in two words, for the exponential and the phase (DLMF 9.7.5, 9.7.9). 4, of the amplitude below -1.
#define AIRY_BODY                                                                                                     \
  "let v = x * 1; let a = abs(v); let s = sqrt(a); let sl = fma(-s, s, a) / (s + s); let h = a * s;"                  \
  "let l = fma(a, s, -h) + a * sl; let m = (h + h) / 3; let ml = fma(-3, m, h + h) / 3 + l * 0.66666666666666666667;" \
  "let far = exp(-m) * (1 - ml) / sqrt(s) * horner(1.3333333333333333333 / m - 1, " AIRY_FAR                          \
  "); let c0 = cos(m); let s0 = sin(m); let d = where(m < 1e8, ml, 0); let cm = c0 - d * s0; let sm = s0 + d * c0; "  \
  "let r = 3 / a;"                                                                                                    \
  "let w = r * r * r * 2 - 1; let p = horner(w, " AIRY_P "); let q = horner(w, " AIRY_Q ") / m;"                      \
  "let wave = (p * (cm + sm) + q * (sm - cm)) * 0.39894228040143267794 / sqrt(s);"                                    \
  "let mid = where(v < -1, horner(v + 2, " AIRY_A "), horner(v, " AIRY_B "));"                                        \
  "where(a == inf, nan, where(v > 110, 0, where(v > 1, far, where(v < -3, wave, mid))))"

// ---- what takes a number of steps that comes from data ----
// An operand over all elements of the result, in one dimension. Integers are of the result's type before they are
// widened to the template's.
static tc_lt flat(tc_op_args *a, int32_t arg, tc_int numel) {
  const tc_tensor_type *t = tc_op_result_type(a, 0);
  tc_int index[1];
  tc_number n;
  if (tc_op_kind(a, arg) == TC_AK_TENSOR) {
    tc_lt x = tc_lo_reshape(a, tc_lo_expand(a, tc_lo_arg(a, arg), t->rank, t->sizes), 1, &numel);
    if (tc_lo_dtype(a, x) == t->dtype || tc_dtype_is_float(t->dtype)) return x;
    tc_lo_begin(a, 1, &numel, index);
    return tc_lo_end(a, tc_lo_cast(a, tc_lo_load(a, x, index), t->dtype), t->dtype);
  }
  if (!tc_op_number(a, arg, &n)) return -1;
  tc_lo_begin(a, 1, &numel, index);
  return tc_lo_end(a, tc_lo_const(a, TC_F64, n.re, 0), TC_F64);
}
int32_t tc_lower_iterate(tc_op_args *a, int32_t kind) {
  const tc_tensor_type *t = tc_op_result_type(a, 0);
  tc_int numel = tc_int_const(a, 1), attr = tc_int_const(a, kind);
  for (int32_t d = 0; d < t->rank; d++) numel = tc_int_mul(a, numel, t->sizes[d]);
  tc_lt operands[] = {flat(a, 0, numel), flat(a, 1, numel)};
  tc_lt v = tc_lo_template(a, "iterate", 2, operands, t->dtype, 1, &numel, 1, &attr);
  tc_lo_result(a, 0, tc_lo_reshape(a, v, t->rank, t->sizes));
  return TC_STATUS_OK;
}
static int32_t iterate_lower(tc_op_args *a) {
  static const struct {
    const char *name; // how the op's name begins; the first that fits
    int32_t kind;
  } kinds[] = {{"special_shifted_chebyshev_polynomial_t", TC_ITERATE_SHIFTED_T},
               {"special_shifted_chebyshev_polynomial_u", TC_ITERATE_SHIFTED_U},
               {"special_shifted_chebyshev_polynomial_v", TC_ITERATE_SHIFTED_V},
               {"special_shifted_chebyshev_polynomial_w", TC_ITERATE_SHIFTED_W},
               {"special_chebyshev_polynomial_t", TC_ITERATE_T},
               {"special_chebyshev_polynomial_u", TC_ITERATE_U},
               {"special_chebyshev_polynomial_v", TC_ITERATE_V},
               {"special_chebyshev_polynomial_w", TC_ITERATE_W},
               {"special_hermite_polynomial_he", TC_ITERATE_HE},
               {"special_hermite_polynomial_h", TC_ITERATE_H},
               {"special_laguerre_polynomial_l", TC_ITERATE_L},
               {"special_legendre_polynomial_p", TC_ITERATE_P},
               {"special_zeta", TC_ITERATE_ZETA},
               {"special_gammaincc", TC_ITERATE_GAMMA_UPPER},
               {"special_gammainc", TC_ITERATE_GAMMA_LOWER},
               {"igammac", TC_ITERATE_GAMMA_UPPER},
               {"igamma", TC_ITERATE_GAMMA_LOWER}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (tc_sv_starts(a->op->schema.name, kinds[i].name)) return tc_lower_iterate(a, kinds[i].kind);
  return tc_op_fail(a, "there are no steps for this op");
}

enum { FLOAT = TC_OP_POINTWISE | TC_OP_INT_TO_FLOAT, WIDE = FLOAT | TC_OP_COMPUTE_WIDE };
#define ONE(name, t, b, r) \
  {.schema = name, .traits = t, .meta = tc_meta_float, .body = b, .scalar_ref = &(r), .flops = "40 * numel"}
#define BODY(name, b, r) ONE(name "(Tensor self) -> Tensor", FLOAT, b, r)
#define SELF(name, b, r) ONE(name "(Tensor self) -> Tensor", WIDE, b, r)
#define X(name, b, r) ONE(name "(Tensor x) -> Tensor", WIDE, b, r)
#define TWO(name, r)              \
  {.schema = name,                \
   .traits = FLOAT,               \
   .meta = tc_meta_promote_float, \
   .lower = iterate_lower,        \
   .scalar_ref = &(r),            \
   .flops = "100 * numel"}
#define POLYNOMIAL(name, r)                                              \
  TWO("special_" name "(Tensor x, Tensor n) -> Tensor", r),              \
      TWO("special_" name ".x_scalar(Scalar x, Tensor n) -> Tensor", r), \
      TWO("special_" name ".n_scalar(Tensor x, Scalar n) -> Tensor", r)
#define POLYGAMMA(name) {.schema = name "(int n, Tensor self) -> Tensor", .expand = polygamma_expand}
#define TEXT(s, d) {.schema = s, .decompose = d}
static const tc_op_def rows[] = {
    SELF("digamma", DIGAMMA_BODY, digamma_ref),
    SELF("special_digamma", DIGAMMA_BODY, digamma_ref),
    SELF("_trigamma", TRIGAMMA_BODY, trigamma_ref),
    POLYGAMMA("polygamma"),
    POLYGAMMA("special_polygamma"),
    BODY("erfinv", ERFINV_BODY, erfinv_ref),
    BODY("special_erfinv", ERFINV_BODY, erfinv_ref),
    SELF("special_ndtri", NDTRI_BODY, ndtri_ref),
    BODY("special_erfcx", ERFCX_BODY, erfcx_ref),
    TEXT("special_log_ndtr(Tensor self) -> Tensor",
         "let f = if(is_int(self), to(self, f32), self); let x = to(f, wide(f.dtype)); let t = mul(x, "
         "0.70710678118654752440); to(where(lt(x, -1), sub(log(mul(special_erfcx(neg(t)), 0.5)), mul(t, t)), "
         "log1p(mul(erfc(t), -0.5))), f.dtype)"),
    BODY("i0", I0_BODY, i0_ref),
    BODY("special_i0", I0_BODY, i0_ref),
    BODY("special_i0e", I0E_BODY, i0e_ref),
    BODY("special_i1", I1_BODY, i1_ref),
    BODY("special_i1e", I1E_BODY, i1e_ref),
    BODY("special_modified_bessel_i0", I0_BODY, i0_ref),
    BODY("special_modified_bessel_i1", I1_BODY, i1_ref),
    SELF("special_modified_bessel_k0", K0_BODY, k0_ref),
    SELF("special_modified_bessel_k1", K1_BODY, k1_ref),
    X("special_scaled_modified_bessel_k0", K0E_BODY, k0e_ref),
    X("special_scaled_modified_bessel_k1", K1E_BODY, k1e_ref),
    SELF("special_bessel_j0", J0_BODY, bessel_j0_ref),
    SELF("special_bessel_j1", J1_BODY, bessel_j1_ref),
    SELF("special_bessel_y0", Y0_BODY, bessel_y0_ref),
    SELF("special_bessel_y1", Y1_BODY, bessel_y1_ref),
    X("special_airy_ai", AIRY_BODY, airy_ai_ref),
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
    {"_trigamma", "self: mul(grad, polygamma(2, self))"},
    {"digamma", "self: mul(grad, polygamma(1, self))"},
    {"special_digamma", "self: mul(grad, polygamma(1, self))"},
    {"polygamma", "self: mul(grad, polygamma(n + 1, self))"},
    {"special_polygamma", "self: mul(grad, polygamma(n + 1, self))"},
};
TC_OP_FAMILY_WITH_DERIVATIVES(special);
