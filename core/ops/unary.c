// Unary functions of mathematics. Definitions: C99 for real and complex functions, PyTorch's documentation elsewhere.
#include <math.h>

#include "core/base/complex_parts.h"
#include "core/base/complex_power.h"
#include "core/ops/ops.h"

static double complex z_of(tc_c128 z) { return CMPLX(z.re, z.im); }
static tc_c128 pack(double complex z) { return (tc_c128){creal(z), cimag(z)}; }

// X(name, complex function): functions of C's library with the same name in both worlds.
#define LIBRARY(X) \
  X(exp, cexp)     \
  X(log, clog)     \
  X(sin, csin)     \
  X(cos, ccos)     \
  X(tan, ctan)     \
  X(asin, casin)   \
  X(acos, cacos)   \
  X(atan, catan)   \
  X(sinh, csinh) X(cosh, ccosh) X(tanh, ctanh) X(asinh, casinh) X(acosh, cacosh) X(atanh, catanh) X(sqrt, csqrt)
#define X(name, cname)                                                \
  static double name##_f(double x) { return name(x); }                \
  static tc_c128 name##_c(tc_c128 x) { return pack(cname(z_of(x))); } \
  static const tc_scalar_ref name##_ref = {.f1 = name##_f, .c1 = name##_c};
LIBRARY(X)
#undef X

#define REAL(name, expr)                            \
  static double name##_f(double x) { return expr; } \
  static const tc_scalar_ref name##_ref = {.f1 = name##_f};
REAL(erf, erf(x))
REAL(erfc, erfc(x))
REAL(lgamma, lgamma(x))
#undef REAL

// Other bases: complex values through the natural functions.
#define BASE(name, cexpr)                                    \
  static double name##_f(double x) { return name(x); }       \
  static tc_c128 name##_c(tc_c128 x) { return pack(cexpr); } \
  static const tc_scalar_ref name##_ref = {.f1 = name##_f, .c1 = name##_c};
BASE(exp2, tc_complex_exp2(z_of(x)))
BASE(log2, clog(z_of(x)) / M_LN2)
BASE(log10, clog(z_of(x)) / M_LN10)
#undef BASE
static double expm1_f(double x) { return expm1(x); }
static tc_c128 expm1_c(tc_c128 z) { // e^z - 1 without cancellation: expm1(x) cos y - 2 sin²(y/2), e^x sin y
  double s = sin(z.im / 2);
  return (tc_c128){expm1(z.re) * cos(z.im) - 2 * s * s, exp(z.re) * sin(z.im)};
}
static const tc_scalar_ref expm1_ref = {.f1 = expm1_f, .c1 = expm1_c};
static double log1p_f(double x) { return log1p(x); }
static tc_c128 log1p_c(tc_c128 z) { // log|1+z| = log1p(x² + 2x + y²)/2
  double m = z.re * (z.re + 2) + z.im * z.im;
  // PyTorch has log(1+z) z / ((1+z) - 1) for small z: no value where a part is NaN, or y infinite and x was rounded.
  if (isnan(z.re) || isnan(z.im) || (isinf(z.im) && 1 + z.re - 1 != z.re)) return (tc_c128){NAN, NAN};
  return (tc_c128){fabs(z.re) < 0.5 && fabs(z.im) < 0.5 ? 0.5 * log1p(m) : log(hypot(1 + z.re, z.im)),
                   atan2(z.im, 1 + z.re)};
}
static const tc_scalar_ref log1p_ref = {.f1 = log1p_f, .c1 = log1p_c};

static double neg_f(double x) { return -x; }
static tc_c128 neg_c(tc_c128 z) { return (tc_c128){-z.re, -z.im}; }
static int64_t neg_i(int64_t x) { return (int64_t)(0 - (uint64_t)x); }
static const tc_scalar_ref neg_ref = {.f1 = neg_f, .c1 = neg_c, .i1 = neg_i};
static double abs_f(double x) { return fabs(x); }
static tc_c128 abs_c(tc_c128 z) { return (tc_c128){hypot(z.re, z.im), 0}; }
static int64_t abs_i(int64_t x) { return x < 0 ? (int64_t)(0 - (uint64_t)x) : x; }
static const tc_scalar_ref abs_ref = {.f1 = abs_f, .c1 = abs_c, .i1 = abs_i};
static double same_f(double x) { return x; }
static int64_t same_i(int64_t x) { return x; }
static double rsqrt_f(double x) { return 1 / sqrt(x); }
static tc_c128 rsqrt_c(tc_c128 z) { return tc_ref_quotient((tc_c128){1, 0}, pack(csqrt(z_of(z)))); }
static const tc_scalar_ref rsqrt_ref = {.f1 = rsqrt_f, .c1 = rsqrt_c};
static double reciprocal_f(double x) { return 1 / x; }
static tc_c128 reciprocal_c(tc_c128 z) { return tc_ref_quotient((tc_c128){1, 0}, z); }
static const tc_scalar_ref reciprocal_ref = {.f1 = reciprocal_f, .c1 = reciprocal_c};
static double square_f(double x) { return x * x; }
static tc_c128 square_c(tc_c128 z) { return tc_ref_product(z, z); }
static int64_t square_i(int64_t x) { return (int64_t)((uint64_t)x * (uint64_t)x); }
static const tc_scalar_ref square_ref = {.f1 = square_f, .c1 = square_c, .i1 = square_i};
static double floor_f(double x) { return floor(x); }
static double ceil_f(double x) { return ceil(x); }
static double trunc_f(double x) { return trunc(x); }
static double round_f(double x) { return nearbyint(x); }
static double frac_f(double x) { return x - trunc(x); }
static const tc_scalar_ref floor_ref = {.f1 = floor_f, .i1 = same_i}, ceil_ref = {.f1 = ceil_f, .i1 = same_i},
                           trunc_ref = {.f1 = trunc_f, .i1 = same_i};
static const tc_scalar_ref round_ref = {.f1 = round_f, .i1 = same_i}, frac_ref = {.f1 = frac_f};
static double sign_f(double x) { return (x > 0) - (x < 0); } // of NaN: 0
static int64_t sign_i(int64_t x) { return (x > 0) - (x < 0); }
static const tc_scalar_ref sign_ref = {.f1 = sign_f, .i1 = sign_i};
static int64_t not_i(int64_t x) { return ~x; }

static tc_c128 conj_c(tc_c128 z) { return (tc_c128){z.re, -z.im}; }
static const tc_scalar_ref conj_ref = {.f1 = same_f, .c1 = conj_c, .i1 = same_i};

// Integers stay as they are: floor and its kin.
static int32_t lower_rounding(tc_op_args *a, const char *text) {
  tc_dtype d = tc_op_result_type(a, 0)->dtype, compute = tc_op_math_type(d);
  const char *name = "v";
  tc_lt x = tc_lo_arg(a, 0);
  tc_lo_result(a, 0, tc_lower_text(a, tc_dtype_is_float(d) ? text : "v", 1, &name, &x, compute, d));
  return TC_STATUS_OK;
}
static int32_t lower_floor(tc_op_args *a) { return lower_rounding(a, "floor(v)"); }
static int32_t lower_ceil(tc_op_args *a) { return lower_rounding(a, "ceil(v)"); }
static int32_t lower_trunc(tc_op_args *a) { return lower_rounding(a, "trunc(v)"); }
static int32_t lower_round(tc_op_args *a) { return lower_rounding(a, "rint(v)"); }

// ~ on bool is logical.
static int32_t lower_bitwise_not(tc_op_args *a) {
  tc_dtype d = tc_op_result_type(a, 0)->dtype;
  const char *name = "v";
  tc_lt x = tc_lo_arg(a, 0);
  tc_lo_result(a, 0, tc_lower_text(a, d == TC_BOOL ? "!v" : "~v", 1, &name, &x, d, d));
  return TC_STATUS_OK;
}
static int32_t ref_bitwise_not(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_result_data(a, 0);
  int64_t index[TC_MAX_RANK] = {0};
  if (tc_ref_numel(y) == 0) return TC_STATUS_OK;
  do {
    int64_t v = tc_ref_i(x, tc_ref_offset(x, index));
    tc_ref_put_i(y, tc_ref_offset(y, index), x->nominal == TC_BOOL ? !v : not_i(v));
  } while (tc_ref_next(y->rank, y->sizes, index));
  return TC_STATUS_OK;
}

enum {
  PW = TC_OP_POINTWISE,
  PWC = TC_OP_POINTWISE | TC_OP_COMPLEX,
  FLOAT = PW | TC_OP_INT_TO_FLOAT,
  FLOATC = PWC | TC_OP_INT_TO_FLOAT
};
#define FN(name)                              \
  {.schema = #name "(Tensor self) -> Tensor", \
   .traits = FLOATC,                          \
   .meta = tc_meta_float,                     \
   .body = #name "(self)",                    \
   .scalar_ref = &name##_ref,                 \
   .flops = "numel"}
#define FNR(name)                             \
  {.schema = #name "(Tensor self) -> Tensor", \
   .traits = FLOAT,                           \
   .meta = tc_meta_float,                     \
   .body = #name "(self)",                    \
   .scalar_ref = &name##_ref,                 \
   .flops = "numel"}
// A power with an integer exponent, of which there is none for bool.
static int32_t square_meta(tc_op_args *a) {
  const int32_t self = 0;
  tc_dtype d = tc_op_tensor(a, 0)->dtype;
  return tc_op_pointwise_result(a, 0, d == TC_BOOL ? TC_I64 : d, 1, &self);
}
// PyTorch gives real tensors back as they are.
static int32_t conj_meta(tc_op_args *a) {
  return tc_dtype_is_complex(tc_op_tensor(a, 0)->dtype) ? tc_meta_same(a) : tc_meta_same_strides(a);
}

#define SAME(s, t, b, r)                  \
  {.schema = s "(Tensor self) -> Tensor", \
   .traits = t,                           \
   .meta = tc_meta_same,                  \
   .body = b,                             \
   .scalar_ref = &(r),                    \
   .flops = "numel"}
#define INPLACE(name) {.schema = name "_(Tensor(a!) self) -> Tensor(a!)", .traits = PWC}

static const tc_op_def rows[] = {
    FN(exp),
    FN(log),
    FN(sin),
    FN(cos),
    FN(tan),
    FN(asin),
    FN(acos),
    FN(atan),
    FN(sinh),
    FN(cosh),
    FN(tanh),
    FN(asinh),
    FN(acosh),
    FN(atanh),
    FN(sqrt),
    FN(expm1),
    FN(log1p),
    FN(rsqrt),
    FN(exp2),
    FN(log2),
    FN(log10),
    FNR(erf),
    FNR(erfc),
    FNR(lgamma),
    {.schema = "reciprocal(Tensor self) -> Tensor",
     .traits = FLOATC,
     .meta = tc_meta_float,
     .body = "1 / self",
     .scalar_ref = &reciprocal_ref,
     .flops = "numel"},
    SAME("neg", PWC, "-self", neg_ref),
    {.schema = "square(Tensor self) -> Tensor",
     .traits = PWC,
     .meta = square_meta,
     .body = "self * self",
     .scalar_ref = &square_ref,
     .flops = "numel"},
    SAME("sign", PW, "sign(self)", sign_ref),
    SAME("frac", PW, "frac(self)", frac_ref),
    {.schema = "conj_physical(Tensor self) -> Tensor",
     .traits = PWC,
     .meta = conj_meta,
     .body = "conj(self)",
     .scalar_ref = &conj_ref,
     .flops = "numel"},
    SAME("_conj_physical", PWC, "conj(self)", conj_ref),
    {.schema = "abs(Tensor self) -> Tensor",
     .traits = PWC,
     .meta = tc_meta_real_part,
     .body = "abs(self)",
     .scalar_ref = &abs_ref,
     .flops = "numel"},
    {.schema = "floor(Tensor self) -> Tensor",
     .traits = PW,
     .meta = tc_meta_same,
     .lower = lower_floor,
     .scalar_ref = &floor_ref,
     .flops = "numel"},
    {.schema = "ceil(Tensor self) -> Tensor",
     .traits = PW,
     .meta = tc_meta_same,
     .lower = lower_ceil,
     .scalar_ref = &ceil_ref,
     .flops = "numel"},
    {.schema = "trunc(Tensor self) -> Tensor",
     .traits = PW,
     .meta = tc_meta_same,
     .lower = lower_trunc,
     .scalar_ref = &trunc_ref,
     .flops = "numel"},
    {.schema = "round(Tensor self) -> Tensor",
     .traits = PW,
     .meta = tc_meta_same,
     .lower = lower_round,
     .scalar_ref = &round_ref,
     .flops = "numel"},
    {.schema = "bitwise_not(Tensor self) -> Tensor",
     .traits = PW,
     .meta = tc_meta_same,
     .lower = lower_bitwise_not,
     .ref = ref_bitwise_not,
     .flops = "numel"},
    INPLACE("exp"),
    INPLACE("sqrt"),
    INPLACE("rsqrt"),
    INPLACE("tanh"),
    INPLACE("neg"),
    INPLACE("abs"),
    INPLACE("reciprocal"),
};
// Derivatives; see docs/ADDING_AN_OP.md for what the texts can name.
static const tc_op_derivative derivatives[] = {
    {"neg", "self: neg(grad)"},
    {"exp", "self: mul(grad, conj(result))"},
    {"exp2", "self: mul(grad, conj(mul(result, 0.6931471805599453)))"},
    {"expm1", "self: mul(grad, conj(add(result, 1)))"},
    {"log", "self: div(grad, conj(self))"},
    {"log2", "self: div(grad, conj(mul(self, 0.6931471805599453)))"},
    {"log10", "self: div(grad, conj(mul(self, 2.302585092994046)))"},
    {"log1p", "self: div(grad, conj(add(self, 1)))"},
    {"sin", "self: mul(grad, conj(cos(self)))"},
    {"cos", "self: neg(mul(grad, conj(sin(self))))"},
    {"tan", "self: mul(grad, conj(add(mul(result, result), 1)))"},
    {"sinh", "self: mul(grad, conj(cosh(self)))"},
    {"cosh", "self: mul(grad, conj(sinh(self)))"},
    {"tanh", "self: mul(grad, conj(sub(1, mul(result, result))))"},
    {"asin", "self: mul(grad, conj(rsqrt(sub(1, mul(self, self)))))"},
    {"acos", "self: neg(mul(grad, conj(rsqrt(sub(1, mul(self, self))))))"},
    {"atan", "self: div(grad, conj(add(mul(self, self), 1)))"},
    {"asinh", "self: mul(grad, conj(rsqrt(add(mul(self, self), 1))))"},
    {"acosh", "self: if(is_complex(self), div(grad, conj(mul(sqrt(add(self, 1)), sqrt(sub(self, 1))))), mul(grad, "
              "rsqrt(sub(mul(self, self), 1))))"},
    {"atanh", "self: div(grad, conj(sub(1, mul(self, self))))"},
    {"sqrt", "self: div(grad, conj(mul(result, 2)))"},
    {"rsqrt", "self: mul(grad, conj(mul(mul(mul(result, result), result), -0.5)))"},
    {"reciprocal", "self: neg(mul(grad, conj(mul(result, result))))"},
    {"abs", "self: mul(grad, sgn(self))"},
    {"erf", "self: mul(mul(grad, exp(neg(mul(self, self)))), 1.1283791670955126)"},
    {"erfc", "self: mul(mul(grad, exp(neg(mul(self, self)))), -1.1283791670955126)"},
    {"erfinv", "self: mul(mul(grad, exp(mul(result, result))), 0.886226925452758)"},
    {"lgamma", "self: mul(grad, digamma(self))"},
    {"floor", "self: zeros_like(grad)"},
    {"ceil", "self: zeros_like(grad)"},
    {"trunc", "self: zeros_like(grad)"},
    {"round", "self: zeros_like(grad)"},
    {"sign", "self: zeros_like(grad)"},
    {"square", "self: mul(grad, conj(mul(self, 2)))"},
    {"conj_physical", "self: conj(grad)"},
    {"_conj_physical", "self: conj(grad)"},
};
static const tc_op_refusal refusals[] = {
    {"ceil", "ceil is not supported for complex inputs"},
    {"floor", "floor is not supported for complex inputs"},
    {"trunc", "trunc is not supported for complex inputs"},
    {"sign", "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead."},
};
TC_OP_FAMILY_WITH_BOTH(unary);
