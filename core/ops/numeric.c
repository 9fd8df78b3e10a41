// Functions that know the format of numbers (signs, limits, roundings), closeness, and integer number theory.
#include <complex.h>
#include <float.h>
#include <math.h>

#include "core/ops/ops.h"

#include "tc/lower.h"

// The next number of the result's own format.
static double next_after(double x, double y, tc_dtype d) {
  if (isnan(x) || isnan(y)) return NAN;
  if (x == y) return y;
  if (d == TC_F64) return nextafter(x, y);
  if (d == TC_F32) return (double)nextafterf((float)x, (float)y);
  int32_t mantissa = d == TC_F16 ? 10 : 7, least = d == TC_F16 ? -24 : -133, e;
  if (x == 0) return copysign(ldexp(1, least), y);
  double limit = d == TC_F16 ? 65504 : 0x1.fep127, m = frexp(fabs(x), &e);
  if (isinf(x)) return copysign(limit, x);
  bool away = (y > x) == (x > 0);
  int32_t step = e - 1 - mantissa - (!away && m == 0.5);
  double r = fabs(x) + (away ? 1 : -1) * ldexp(1, step < least ? least : step);
  return copysign(r > limit ? INFINITY : r, x);
}
static int32_t next_after_ref(tc_op_args *a) {
  const tc_ref_view *x[2] = {tc_op_data(a, 0), tc_op_data(a, 1)}, *y = tc_op_result_data(a, 0);
  int64_t i[TC_MAX_RANK] = {0};
  for (bool more = tc_ref_numel(y) > 0; more; more = tc_ref_next(y->rank, y->sizes, i)) {
    double v[2];
    for (int32_t k = 0; k < 2; k++) {
      int64_t at = 0;
      for (int32_t d = 0; d < x[k]->rank; d++)
        at += x[k]->sizes[d] == 1 ? 0 : i[d + y->rank - x[k]->rank] * x[k]->strides[d];
      v[k] = tc_ref_f(x[k], at);
    }
    tc_ref_put(y, tc_ref_offset(y, i), (tc_c128){next_after(v[0], v[1], y->nominal), 0});
  }
  return TC_STATUS_OK;
}

// In f64, where one step of a narrower format is exact: |x| moves by a bit more than half of a unit, which rounds to
// one (Rump, Zimmermann, Boldo, Melquiond: Computing predecessor and successor in rounding to nearest, 2009), but by no
// less than the least number. Small f64 are scaled, so that they have all their bits.
static int32_t next_after_lower(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_result_type(a, 0);
  static const char *const names[] = {"x", "y", "part", "least", "most"};
  double unit, least, most;
  switch (t->dtype) {
  case TC_F64: unit = 0x1p-53, least = 0x1p-1074, most = DBL_MAX; break;
  case TC_F32: unit = 0x1p-24, least = 0x1p-149, most = (double)FLT_MAX; break;
  case TC_F16: unit = 0x1p-11, least = 0x1p-24, most = 65504; break;
  case TC_BF16: unit = 0x1p-8, least = 0x1p-133, most = 0x1.fep127; break;
  default: return tc_op_fail(a, "nextafter is not implemented for %s", tc_op_shape_text(a, 0));
  }
  tc_lt x[2];
  for (int32_t k = 0; k < 2; k++) x[k] = tc_lo_expand(a, tc_lo_arg(a, k), t->rank, t->sizes);
  tc_int index[TC_MAX_RANK];
  tc_lo_begin(a, t->rank, t->sizes, index);
  tc_bval v[5] = {-1, -1, tc_lo_const(a, TC_F64, unit * (1 + 2 * unit), 0), tc_lo_const(a, TC_F64, least, 0),
                  tc_lo_const(a, TC_F64, most, 0)};
  for (int32_t k = 0; k < 2; k++) v[k] = tc_lo_cast(a, tc_lo_load(a, x[k], index), TC_F64);
  tc_bval r = tc_lo_text(a,
                         "let r = abs(x); let s = where(r < 1e-250, 4.149515568880993e180, 1);"
                         "let step = max(r * s * part, least * s); let away = where(y > x, x > 0, x < 0);"
                         "let m = where(r == inf, most, (r * s + where(away, step, -step)) / s);"
                         "where(x != x || y != y, nan, where(x == y, y, where(x == 0, copysign(least, y), "
                         "copysign(m, x))))",
                         5, names, v);
  tc_lo_result(a, 0, tc_lo_end(a, r, t->dtype));
  return TC_STATUS_OK;
}

static uint64_t magnitude(int64_t x) { return x < 0 ? 0 - (uint64_t)x : (uint64_t)x; }
static int64_t gcd_i(int64_t x, int64_t y) {
  uint64_t p = magnitude(x), q = magnitude(y);
  while (q) {
    uint64_t r = p % q;
    p = q, q = r;
  }
  return (int64_t)p;
}
static int64_t lcm_i(int64_t x, int64_t y) {
  int64_t g = gcd_i(x, y);
  return g ? (int64_t)(magnitude(x) / (uint64_t)g * magnitude(y)) : 0;
}
static int32_t gcd_lower(tc_op_args *a) { return tc_lower_iterate(a, TC_ITERATE_GCD); }
static int32_t lcm_lower(tc_op_args *a) { return tc_lower_iterate(a, TC_ITERATE_LCM); }
static const tc_scalar_ref gcd_ref = {.i2 = gcd_i}, lcm_ref = {.i2 = lcm_i};

// Its argument `nan` has no name in texts, where that is a number.
static int32_t nan_to_num_expand(tc_op_args *a) {
  tc_ex_begin(a, "aten::_replace_special");
  tc_ex_push_arg(a, 0);
  tc_ex_push_float(a, tc_op_float(a, 1, 0));
  tc_ex_push_arg(a, 2);
  tc_ex_push_arg(a, 3);
  tc_ex_result(a, 0, tc_ex_make(a, 1, NULL));
  return TC_STATUS_OK;
}

// sin(πx) / πx with x reduced to the nearest integer. Of complex numbers a + ib a is, πb has two words, and cosh and
// sinh of large πb as e^(π|b|/2) times itself, since they overflow before the quotient does. Where that overflows, too,
// and where a has no fraction or x is not finite, it is what the plain formula gives, as in PyTorch.
static double sinc_f(double x) {
  double near = rint(x), s = sin(M_PI * (x - near));
  return x == 0 ? 1 : (fmod(near, 2) != 0 ? -s : s) / (M_PI * x);
}
static tc_c128 sinc_c(tc_c128 x) {
  const long double pi = 3.14159265358979323846264338327950288L;
  if (x.re == 0 && x.im == 0) return (tc_c128){1, 0};
  if (!(fabs(x.re) < 1e15) || !(fabs(x.im) < 3000)) { // cosh leaves long double's range
    double _Complex s = csin(M_PI * x.re + M_PI * x.im * I);
    return tc_ref_quotient((tc_c128){creal(s), cimag(s)}, (tc_c128){M_PI * x.re, M_PI * x.im});
  }
  long double near = rintl(x.re), r = pi * (x.re - near), y = pi * x.im, sign = fmodl(near, 2) != 0 ? -1 : 1;
  long double _Complex s = sign * sinl(r) * coshl(y) + sign * cosl(r) * sinhl(y) * I, q = s / (pi * x.re + y * I);
  return (tc_c128){(double)creall(q), (double)cimagl(q)};
}
static const tc_scalar_ref sinc_ref = {.f1 = sinc_f, .c1 = sinc_c};

// low: π less its nearest value in the type.
#define SINC_HEIGHT(low)                                                                             \
  "let h = b * 3.14159265358979323846; let l = fma(b, " low ", fma(b, 3.14159265358979323846, -h));" \
  "let far = abs(h) > 20; let e = exp(abs(h) * 0.5);"
#define SINC_SINE(low)                                                                                 \
  SINC_HEIGHT(low)                                                                                     \
  "let k = rint(a); let r = a - k; let p = fma(r, " low ", r * 3.14159265358979323846);"               \
  "let half = k * 0.5; let g = where(floor(half) == half, 1, -1); let ch = cosh(h); let sh = sinh(h);" \
  "complex(g * sin(p) * where(far, e, fma(l, sh, ch)), g * cos(p) * where(far, copysign(e, h), fma(l, ch, sh)))"
#define SINC_RATIO(low, top, tiny)                                                                   \
  SINC_HEIGHT(low)                                                                                   \
  "let w = where(far, fma(e, l * copysign(1, h), e) * 0.5, 1) * 0.31830988618379067154;"             \
  "let one = abs(a) < " tiny " && abs(b) < " tiny "; let usual = abs(h) < " top " && abs(a) < 1e15;" \
  "complex(where(one, 1, where(usual, u * w, x)), where(one, 0, where(usual, t * w, y)))"
static void complex_sinc_lower(tc_op_args *a) {
  static const char *const names[] = {"a", "b", "u", "t", "x", "y"}, *const pair[] = {"n", "v"};
  tc_dtype result = tc_op_result_type(a, 0)->dtype, d = tc_op_math_type(result), part = tc_dtype_real(d);
  bool wide = part == TC_F64;
  tc_lt v = tc_lo_arg(a, 0), z[3], x[6];
  x[0] = tc_lower_text(a, "real(v)", 1, &pair[1], &v, d, part);
  x[1] = tc_lower_text(a, "imag(v)", 1, &pair[1], &v, d, part);
  z[0] = tc_lower_text(a, wide ? SINC_SINE("1.2246467991473532e-16") : SINC_SINE("-8.7422780126189537e-8"), 2, names, x,
                       part, d);
  z[1] = tc_lower_text(a, "n / v", 2, pair, (tc_lt[]){z[0], v}, d, d);
  z[2] = tc_lower_text(a, "let p = v * 3.14159265358979323846; sin(p) / p", 1, &pair[1], &v, d, d);
  for (int32_t k = 1; k < 3; k++) {
    x[2 * k] = tc_lower_text(a, "real(n)", 1, pair, &z[k], d, part);
    x[2 * k + 1] = tc_lower_text(a, "imag(n)", 1, pair, &z[k], d, part);
  }
  const char *ratio =
      wide ? SINC_RATIO("1.2246467991473532e-16", "1410", "3e-9") : SINC_RATIO("-8.7422780126189537e-8", "170", "1e-4");
  tc_lo_result(a, 0, tc_lower_text(a, ratio, 6, names, x, part, result));
}
static int32_t sinc_lower(tc_op_args *a) {
  static const char *const name = "v";
  tc_dtype result = tc_op_result_type(a, 0)->dtype;
  tc_lt x = tc_lo_arg(a, 0);
  if (tc_dtype_is_complex(result)) return complex_sinc_lower(a), TC_STATUS_OK;
  tc_lo_result(a, 0,
               tc_lower_text(a,
                             "let k = rint(v); let h = k * 0.5; let s = sin((v - k) * 3.14159265358979323846);"
                             "where(v == 0, 1, where(floor(h) == h, s, -s) / (v * 3.14159265358979323846))",
                             1, &name, &x, tc_op_math_type(result), result));
  return TC_STATUS_OK;
}

static int32_t threshold_meta(tc_op_args *a) {
  tc_dtype d = tc_op_tensor(a, 0)->dtype;
  if (d == TC_BOOL) return tc_op_fail(a, "not implemented for 'Bool'");
  return tc_op_number_fits(a, 1, d) || tc_op_number_fits(a, 2, d) ? TC_STATUS_INVALID_ARGUMENT : tc_meta_same(a);
}

enum { C = TC_OP_COMPLEX, PW = TC_OP_POINTWISE };
#define TEXT(s, d) {.schema = s, .decompose = d}
#define CTEXT(s, d) {.schema = s, .traits = C, .decompose = d}
// A number as a tensor that takes part in promotion like it.
#define AS_TENSOR(x) "scalar_tensor(" x ", dtype=promote(self, other))"
#define FLOAT_OF_INT(x) "if(is_int(" x "), to(" x ", f32), " x ")"
static const tc_op_def rows[] = {
    TEXT("isposinf(Tensor self) -> Tensor", "if(is_float(self), eq(self, inf), zeros_like(self, dtype=bool))"),
    TEXT("isneginf(Tensor self) -> Tensor", "if(is_float(self), eq(self, -inf), zeros_like(self, dtype=bool))"),
    TEXT("signbit(Tensor self) -> Tensor", "if(is_float(self), lt(copysign(ones_like(self), self), 0), lt(self, 0))"),
    TEXT("copysign.Scalar(Tensor self, Scalar other) -> Tensor",
         "copysign(self, to(scalar_tensor(other), if(is_float(self), self.dtype, f32)))"),
    TEXT("round.decimals(Tensor self, *, int decimals) -> Tensor",
         "if(is_int(self), clone(self), if(decimals == 0, round(self), _round_scaled(self, decimals)))"),
    TEXT("_round_scaled(Tensor self, int decimals) -> Tensor",
         "let x = to(self, wide(self.dtype)); let s = 10.0 ** float(if(decimals < 0, -decimals, decimals));"
         "to(if(decimals < 0, mul(round(div(x, s)), s), div(round(mul(x, s)), s)), self.dtype)"),
    {.schema = "nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor",
     .traits = C,
     .expand = nan_to_num_expand},
    CTEXT("_replace_special(Tensor self, float for_nan, float? up, float? down) -> Tensor",
          "if(is_int(self), clone(self), if(is_complex(self), complex(_replace_special(real(self), for_nan, up, down), "
          "_replace_special(imag(self), for_nan, up, down)), where(isnan(self), for_nan, where(eq(self, inf), "
          "if(is_none(up), limit(self.dtype), up), where(eq(self, -inf), if(is_none(down), 0.0 - limit(self.dtype), "
          "down), self)))))"),
    CTEXT("ldexp.Tensor(Tensor self, Tensor other) -> Tensor",
          "let y = mul(self, pow(2.0, other)); if(is_int(self), y, to(y, promote(self, other)))"),
    {.schema = "nextafter(Tensor self, Tensor other) -> Tensor",
     .traits = PW,
     .meta = tc_meta_promote,
     .lower = next_after_lower,
     .ref = next_after_ref,
     .flops = "numel"},
    {.schema = "gcd(Tensor self, Tensor other) -> Tensor",
     .traits = PW,
     .meta = tc_meta_promote,
     .lower = gcd_lower,
     .scalar_ref = &gcd_ref,
     .flops = "numel"},
    {.schema = "lcm(Tensor self, Tensor other) -> Tensor",
     .traits = PW,
     .meta = tc_meta_promote,
     .lower = lcm_lower,
     .scalar_ref = &lcm_ref,
     .flops = "numel"},
    CTEXT("isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor",
          "let same = eq(self, other); let e = if(equal_nan && !is_int(self), logical_or(same, "
          "logical_and(isnan(self), isnan(other))), same); let y = " FLOAT_OF_INT(
              "other") ";"
                       "let d = abs(sub(self, y)); if(rtol == 0.0 && atol == 0.0, e, logical_or(e, "
                       "logical_and(isfinite(d), le(d, "
                       "add(abs(mul(y, rtol)), atol)))))"),
    CTEXT("allclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor",
          "all(isclose(self, other, rtol, atol, equal_nan))"),
    {.schema = "sinc(Tensor self) -> Tensor",
     .traits = PW | C | TC_OP_INT_TO_FLOAT,
     .meta = tc_meta_float,
     .lower = sinc_lower,
     .scalar_ref = &sinc_ref,
     .grad = "self: mul(grad, conj(where(eq(self, 0), 0, div(sub(cos(mul(self, 3.14159265358979323846)), result), "
             "self))))",
     .flops = "numel"},
    TEXT("logit(Tensor self, float? eps=None) -> Tensor",
         "let f = " FLOAT_OF_INT("self") "; let x = to(f, wide(f.dtype)); let z = if(is_none(eps), x, where(lt(x, "
                                         "eps), eps, where(gt(x, 1.0 - "
                                         "eps), 1.0 - eps, x))); to(log(div(z, rsub(z, 1))), f.dtype)"),
    TEXT("logaddexp2(Tensor self, Tensor other) -> Tensor",
         "let d = promote(self, other); let p = to(self, d); let q = to(other, d); let x = " FLOAT_OF_INT(
             "p") "; let y = " FLOAT_OF_INT("q") "; let m = maximum(x, y); where(eq(x, y), add(x, 1), add(m, "
                                                 "mul(log1p(exp2(neg(abs(sub(x, y))))), "
                                                 "1.44269504088896340736)))"),
    TEXT("special_entr(Tensor self) -> Tensor",
         "let x = " FLOAT_OF_INT("self") "; where(isnan(x), x, where(gt(x, 0), mul(neg(x), log(x)), where(eq(x, 0), "
                                         "zeros_like(x), -inf)))"),
    TEXT("xlogy.Scalar_Other(Tensor self, Scalar other) -> Tensor", "xlogy(self, " AS_TENSOR("other") ")"),
    TEXT("xlogy.Scalar_Self(Scalar self, Tensor other) -> Tensor", "xlogy(" AS_TENSOR("self") ", other)"),
    {.schema = "special_xlog1py(Tensor self, Tensor other) -> Tensor",
     .meta = tc_meta_promote_float,
     .decompose = "let f = if(is_int(self) && is_int(other), to(self, f32), self); let d = promote(f, other);"
                  "let x = to(f, d); let y = to(other, d); where(isnan(y), add(x, y), where(eq(x, 0), "
                  "zeros_like(mul(x, y)), mul(x, log1p(y))))"},
    TEXT("special_xlog1py.other_scalar(Tensor self, Scalar other) -> Tensor",
         "special_xlog1py(self, " AS_TENSOR("other") ")"),
    TEXT("special_xlog1py.self_scalar(Scalar self, Tensor other) -> Tensor",
         "special_xlog1py(" AS_TENSOR("self") ", other)"),
    TEXT("remainder.Scalar_Tensor(Scalar self, Tensor other) -> Tensor", "remainder.Tensor(self, other)"),
    CTEXT("float_power.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor",
          "let d = if(is_complex(self) || is_complex(exponent), c128, f64); pow(to(self, d), to(exponent, d))"),
    CTEXT("float_power.Scalar(Scalar self, Tensor exponent) -> Tensor",
          "pow(self, to(exponent, if(is_complex(self) || is_complex(exponent), c128, f64)))"),
    TEXT("celu(Tensor self, Scalar alpha=1.) -> Tensor", "elu(self, alpha, 1, 1.0 / float(alpha))"),
    TEXT("selu(Tensor self) -> Tensor",
         "elu(self, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946)"),
    TEXT("prelu(Tensor self, Tensor weight) -> Tensor",
         "where(gt(self, 0), self, if(self.rank < 2, mul(self, reshape(weight, if(self.rank == 0, [], [-1]))), "
         "movedim(mul(movedim(self, 1, -1), reshape(weight, [-1])), -1, 1)))"),
    {.schema =
         "rrelu(Tensor self, Scalar lower=0.125, Scalar upper=0.3333333333333333, bool training=False, Generator? "
         "generator=None) -> Tensor",
     .traits = TC_OP_RANDOM,
     .decompose = "contiguous(if(training, where(gt(self, 0), self, mul(self, uniform(self, float(lower), "
                  "float(upper)))), leaky_relu(self, (float(lower) + float(upper)) / 2.0)))"},
    TEXT("_prelu_kernel(Tensor self, Tensor weight) -> Tensor", "where(gt(self, 0), self, mul(self, weight))"),
    {.schema = "threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor",
     .meta = threshold_meta,
     .decompose = "let t = scalar_tensor(threshold, dtype=self.dtype); "
                  "where(le(self, t), scalar_tensor(value, dtype=self.dtype), self)"},
    TEXT("hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor",
         "let of = if(is_int(self), fail(\"not implemented for integers\"), self); "
         "where(logical_and(ge(self, 0.0 - float(lambd)), le(self, lambd)), 0, self)"),
    CTEXT("chalf(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
          "if(is_none(memory_format), to(self, c32), _to_copy(self, dtype=c32, memory_format=memory_format))"),
    {.schema = "heaviside(Tensor self, Tensor values) -> Tensor",
     .meta = tc_meta_promote,
     .decompose = "where(isnan(self), self, where(eq(self, 0), values, to(gt(self, 0), self.dtype)))"},
};
static const tc_op_refusal refusals[] = {
    {"isneginf", "isneginf does not support complex inputs."},
    {"isposinf", "isposinf does not support complex inputs."},
    {"signbit", "signbit is not implemented for complex tensors."},
    {"heaviside", "heaviside is not yet implemented for complex tensors."},
};
TC_OP_FAMILY_WITH_REFUSALS(numeric);
