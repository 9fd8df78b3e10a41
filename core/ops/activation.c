// Activations. Definitions: PyTorch's documentation of torch.nn.functional.
#include <math.h>

#include "core/base/complex_parts.h"
#include "core/ir/refexec.h"
#include "core/ops/ops.h"

static double sigmoid_f(double x) { return 1 / (1 + exp(-x)); }
static tc_c128 over_one_plus_exp(tc_c128 top, tc_c128 z) {
  if (z.re < -40 && z.re > -700) { // e^-z may be infinite in less precision: 1 beside it is nothing
    double complex w = CMPLX(top.re, top.im) * cexp(CMPLX(z.re, z.im));
    return (tc_c128){creal(w), cimag(w)};
  }
  double complex w = cexp(CMPLX(-z.re, -z.im));
  return tc_ref_quotient(top, (tc_c128){1 + creal(w), cimag(w)});
}
static tc_c128 sigmoid_c(tc_c128 z) { return over_one_plus_exp((tc_c128){1, 0}, z); }
static const tc_scalar_ref sigmoid_ref = {.f1 = sigmoid_f, .c1 = sigmoid_c};
static double silu_f(double x) { return x / (1 + exp(-x)); }
static tc_c128 silu_c(tc_c128 z) { return over_one_plus_exp(z, z); }
static const tc_scalar_ref silu_ref = {.f1 = silu_f, .c1 = silu_c};
static double mish_f(double x) { return x * tanh(log1p(exp(x))); }
static const tc_scalar_ref mish_ref = {.f1 = mish_f};
static double relu6_f(double x) { return isnan(x) ? x : fmin(fmax(x, 0), 6); }
static const tc_scalar_ref relu6_ref = {.f1 = relu6_f};
static double hardsigmoid_f(double x) { return relu6_f(x + 3) / 6; }
static const tc_scalar_ref hardsigmoid_ref = {.f1 = hardsigmoid_f};
static double hardswish_f(double x) { return x * relu6_f(x + 3) / 6; }
static const tc_scalar_ref hardswish_ref = {.f1 = hardswish_f};
static double leaky_f(double x, double slope) { return x > 0 ? x : x * slope; }
static const tc_scalar_ref leaky_ref = {.f2 = leaky_f};
static int32_t relu_meta(tc_op_args *a) {
  if (tc_op_tensor(a, 0)->dtype == TC_BOOL) return tc_op_fail(a, "Boolean inputs not supported for relu");
  return tc_meta_same(a);
}
static int32_t hardtanh_meta(tc_op_args *a) {
  tc_dtype d = tc_op_tensor(a, 0)->dtype;
  if (d == TC_BOOL) return tc_op_fail(a, "Bool inputs not supported for hardtanh");
  return tc_op_bounds_fit(a, 1, 2, d) ? TC_STATUS_INVALID_ARGUMENT : tc_meta_same(a);
}
static int32_t clamp_meta(tc_op_args *a) {
  if (tc_meta_promote(a)) return TC_STATUS_INVALID_ARGUMENT;
  tc_dtype d = tc_op_result_type(a, 0)->dtype;
  if (d == TC_BOOL) return tc_op_fail(a, "not implemented for 'Bool'");
  return tc_op_bounds_fit(a, tc_op_arg_index(a, "min"), tc_op_arg_index(a, "max"), d);
}
static double softplus_f(double x, double beta, double threshold) {
  return x * beta > threshold ? x : log1p(exp(x * beta)) / beta;
}
static const tc_scalar_ref softplus_ref = {.f3 = softplus_f};

// ---- clamp and relu ----
typedef struct limit {
  const tc_ref_view *view; // NULL: none
  bool number;             // a Python number
} limit;

// In the order of y's dtype.
static bool below(const tc_ref_view *y, int64_t a, int64_t b) {
  return y->nominal == TC_U64 ? (uint64_t)a < (uint64_t)b : a < b;
}

// A bound among integers. A tensor is of y's dtype first; a number that the dtype does not hold is a bound like others,
// but that 64-bit unsigned integers have none below 0. Real ones are truncated.
static int64_t integer_of(limit l, const tc_ref_view *y, int64_t offset) {
  int64_t b = tc_ref_i(l.view, offset);
  if (!l.number) return tc_ref_convert((tc_ref_number){.dtype = TC_I64, .integer = b}, y->nominal).integer;
  return y->nominal == TC_U64 && b < 0 ? 0 : b;
}

static int32_t keep_between(tc_op_args *a, limit low, limit high) {
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_result_data(a, 0);
  const limit bound[2] = {low, high};
  int64_t index[TC_MAX_RANK] = {0};
  if (tc_ref_numel(y) == 0) return TC_STATUS_OK;
  do {
    int64_t o[3] = {0};
    const tc_ref_view *all[3] = {x, low.view, high.view};
    for (int32_t k = 0; k < 3; k++) {
      for (int32_t d = 0; all[k] && d < all[k]->rank; d++)
        o[k] += all[k]->sizes[d] == 1 ? 0 : index[d + y->rank - all[k]->rank] * all[k]->strides[d];
    }
    double v = tc_ref_f(x, o[0]);
    for (int32_t k = 0; k < 2; k++) {
      double b = bound[k].view ? tc_ref_f(bound[k].view, o[k + 1]) : 0;
      if (bound[k].view && (isnan(b) || (k ? v > b : v < b))) v = b;
    }
    if (y->dtype == TC_I64) {
      int64_t i = tc_ref_i(x, o[0]);
      if (low.view && below(y, i, integer_of(low, y, o[1]))) i = integer_of(low, y, o[1]);
      if (high.view && below(y, integer_of(high, y, o[2]), i)) i = integer_of(high, y, o[2]);
      tc_ref_put_i(y, tc_ref_offset(y, index), i);
    } else {
      tc_ref_put(y, tc_ref_offset(y, index), (tc_c128){v, 0});
    }
  } while (tc_ref_next(y->rank, y->sizes, index));
  return TC_STATUS_OK;
}

static int32_t relu_ref(tc_op_args *a) {
  int64_t nothing = 0;
  tc_ref_view zero = {.dtype = TC_I64, .nominal = TC_I64, .data = &nothing};
  return keep_between(a, (limit){&zero, true}, (limit){0});
}

// Either bound may be absent.
static int32_t clamp_ref(tc_op_args *a) {
  limit l[2];
  for (int32_t k = 0; k < 2; k++) {
    l[k].view = tc_op_data(a, k + 1);
    l[k].number = l[k].view && tc_op_tensor(a, k + 1)->wrapped;
  }
  return keep_between(a, l[0], l[1]);
}

// gelu: the approximation is a string, which scalar texts do not have.
static bool is_tanh(tc_op_args *a) { return tc_sv_is(tc_op_string(a, 1), "tanh"); }
static int32_t gelu_meta(tc_op_args *a) {
  tc_sv approximate = tc_op_string(a, 1);
  if (approximate.size && !tc_sv_is(approximate, "none") && !is_tanh(a))
    return tc_op_fail(a, "approximate argument must be either none or tanh");
  if (!tc_dtype_is_float(tc_op_tensor(a, 0)->dtype))
    return tc_op_fail(a, "gelu is not implemented for %s", tc_dtype_torch_name(tc_op_tensor(a, 0)->dtype));
  return tc_meta_same(a);
}
static int32_t gelu_lower(tc_op_args *a) {
  tc_dtype out = tc_op_result_type(a, 0)->dtype;
  const char *name = "v";
  tc_lt x = tc_lo_arg(a, 0);
  tc_lo_result(a, 0,
               tc_lower_text(a, is_tanh(a) ? "gelu_tanh(v)" : "gelu_erf(v)", 1, &name, &x, tc_op_math_type(out), out));
  return TC_STATUS_OK;
}
static int32_t gelu_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_result_data(a, 0);
  int64_t index[TC_MAX_RANK] = {0};
  if (tc_ref_numel(y) == 0) return TC_STATUS_OK;
  do {
    double v = tc_ref_f(x, tc_ref_offset(x, index));
    double g = is_tanh(a) ? v / (1 + exp(-1.59576912160573071176 * (v + 0.044715 * v * v * v))) // 1 + tanh u cancels
                          : 0.5 * v * erfc(-v * 0.70710678118654752440);
    tc_ref_put(y, tc_ref_offset(y, index), (tc_c128){g, 0});
  } while (tc_ref_next(y->rank, y->sizes, index));
  return TC_STATUS_OK;
}

// elu(x) = scale·x for x > 0, scale·alpha·expm1(x·input_scale) otherwise
static int32_t elu_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_result_data(a, 0);
  double alpha = tc_op_float(a, 1, 1), scale = tc_op_float(a, 2, 1), in = tc_op_float(a, 3, 1);
  int64_t index[TC_MAX_RANK] = {0};
  if (tc_ref_numel(y) == 0) return TC_STATUS_OK;
  do {
    double v = tc_ref_f(x, tc_ref_offset(x, index));
    tc_ref_put(y, tc_ref_offset(y, index), (tc_c128){v > 0 ? scale * v : scale * alpha * expm1(v * in), 0});
  } while (tc_ref_next(y->rank, y->sizes, index));
  return TC_STATUS_OK;
}

enum { PW = TC_OP_POINTWISE, FLOAT = TC_OP_POINTWISE | TC_OP_INT_TO_FLOAT };
#define ROW(s, m, b, r) {.schema = s, .traits = PW, .meta = m, .body = b, .scalar_ref = &(r), .flops = "numel"}
#define INPLACE(s) {.schema = s, .traits = PW}
static const tc_op_def rows[] = {
    {.schema = "relu(Tensor self) -> Tensor",
     .traits = PW,
     .meta = relu_meta,
     .body = "max(self, 0)",
     .ref = relu_ref,
     .flops = "numel"},
    INPLACE("relu_(Tensor(a!) self) -> Tensor(a!)"),
    {.schema = "sigmoid(Tensor self) -> Tensor",
     .traits = FLOAT | TC_OP_COMPLEX,
     .meta = tc_meta_float,
     .body = "sigmoid(self)",
     .scalar_ref = &sigmoid_ref,
     .flops = "numel"},
    INPLACE("sigmoid_(Tensor(a!) self) -> Tensor(a!)"),
    {.schema = "silu(Tensor self) -> Tensor",
     .traits = PW | TC_OP_COMPLEX,
     .meta = tc_meta_same_float,
     .body = "self / (1 + exp(-self))",
     .scalar_ref = &silu_ref,
     .flops = "numel"},
    INPLACE("silu_(Tensor(a!) self) -> Tensor(a!)"),
    ROW("mish(Tensor self) -> Tensor", tc_meta_same_float, "self * tanh(softplus(self, 1, 20))", mish_ref),
    ROW("relu6(Tensor self) -> Tensor", hardtanh_meta, "min(max(self, 0), 6)", relu6_ref),
    ROW("hardsigmoid(Tensor self) -> Tensor", tc_meta_same_float, "min(max(self + 3, 0), 6) / 6", hardsigmoid_ref),
    ROW("hardswish(Tensor self) -> Tensor", tc_meta_same_float, "self * min(max(self + 3, 0), 6) / 6", hardswish_ref),
    INPLACE("hardswish_(Tensor(a!) self) -> Tensor(a!)"),
    ROW("leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor", tc_meta_same_float,
        "where(self > 0, self, self * negative_slope)", leaky_ref),
    INPLACE("leaky_relu_(Tensor(a!) self, Scalar negative_slope=0.01) -> Tensor(a!)"),
    {.schema = "hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor",
     .traits = PW,
     .meta = hardtanh_meta,
     .body = "clamp(self, min_val, max_val)",
     .ref = clamp_ref,
     .flops = "numel"},
    INPLACE("hardtanh_(Tensor(a!) self, Scalar min_val=-1, Scalar max_val=1) -> Tensor(a!)"),
    ROW("softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor", tc_meta_same_float,
        "softplus(self, beta, threshold)", softplus_ref),
    {.schema = "elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor",
     .traits = PW,
     .meta = tc_meta_same_float,
     .body = "where(self > 0, scale * self, scale * alpha * expm1(self * input_scale))",
     .ref = elu_ref,
     .flops = "numel"},
    {.schema = "clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor",
     .traits = PW,
     .meta = clamp_meta,
     .body = "clamp(self, min, max)",
     .ref = clamp_ref,
     .flops = "numel"},
    {.schema = "clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor",
     .traits = PW,
     .meta = clamp_meta,
     .body = "min(max(self, min), max)",
     .ref = clamp_ref,
     .flops = "numel"},
    {.schema = "clamp_min(Tensor self, Scalar min) -> Tensor",
     .traits = PW,
     .meta = clamp_meta,
     .decompose = "clamp(self, min, none)"},
    {.schema = "clamp_max(Tensor self, Scalar max) -> Tensor",
     .traits = PW,
     .meta = clamp_meta,
     .decompose = "clamp(self, none, max)"},
    {.schema = "gelu(Tensor self, *, str approximate=\"none\") -> Tensor",
     .traits = PW,
     .meta = gelu_meta,
     .lower = gelu_lower,
     .ref = gelu_ref,
     .flops = "numel"},
};
// Derivatives; see docs/ADDING_AN_OP.md for what the texts can name.
static const tc_op_derivative derivatives[] = {
    {"sigmoid", "self: mul(grad, conj(mul(result, sub(1, result))))"},
    {"silu", "let s = sigmoid(self); self: mul(grad, conj(mul(s, add(mul(self, sub(1, s)), 1))))"},
    {"relu", "self: where(le(result, 0), zeros_like(grad), grad)"},
    {"relu6", "self: where(logical_or(le(self, 0), ge(self, 6)), zeros_like(grad), grad)"},
    {"elu", "self: mul(grad, where(le(self, 0), mul(exp(mul(self, input_scale)), float(alpha) * float(scale) * "
            "float(input_scale)), scale))"},
    {"leaky_relu", "self: where(gt(self, 0), grad, mul(grad, negative_slope))"},
    {"hardtanh", "self: where(logical_or(le(self, min_val), ge(self, max_val)), zeros_like(grad), grad)"},
    {"hardsigmoid", "self: where(logical_and(gt(self, -3), lt(self, 3)), div(grad, 6), zeros_like(grad))"},
    {"hardswish",
     "self: where(le(self, -3), zeros_like(grad), where(lt(self, 3), mul(grad, add(div(self, 3), 0.5)), grad))"},
    {"softplus", "self: where(gt(mul(self, beta), threshold), grad, mul(grad, sigmoid(mul(self, beta))))"},
    {"mish", "let t = tanh(softplus(self)); self: mul(grad, add(t, mul(mul(self, sigmoid(self)), sub(1, mul(t, t)))))"},
    {"clamp",
     "let low = if(is_none(min), 0, where(lt(self, min), zeros_like(grad), grad)); let in_low = if(is_none(min), grad, "
     "low); self: if(is_none(max), in_low, where(gt(self, max), zeros_like(grad), in_low))"},
    {"clamp.Tensor",
     "let in_low = if(is_none(min), grad, where(lt(self, min), zeros_like(grad), grad)); self: if(is_none(max), "
     "in_low, where(gt(self, max), zeros_like(grad), in_low)); min: where(if(is_none(max), lt(self, min), "
     "logical_and(lt(self, min), le(min, max))), grad, zeros_like(grad)); max: where(if(is_none(min), gt(self, max), "
     "logical_or(gt(self, max), lt(max, min))), grad, zeros_like(grad))"},
    {"clamp_min.Tensor", "self: where(ge(self, min), grad, 0); min: where(lt(self, min), grad, 0)"},
    {"clamp_max.Tensor", "self: where(le(self, max), grad, 0); max: where(gt(self, max), grad, 0)"},
    {"clamp_min", "self: where(ge(self, min), grad, zeros_like(grad))"},
    {"clamp_max", "self: where(le(self, max), grad, zeros_like(grad))"},
    {"gelu",
     "let x2 = mul(self, self); let t = tanh(mul(mul(self, add(mul(x2, 0.044715), 1)), 0.7978845608028654)); let "
     "by_tanh = mul(add(add(t, 1), mul(mul(self, sub(1, mul(t, t))), mul(add(mul(x2, 0.134145), 1), "
     "0.7978845608028654))), 0.5); self: mul(grad, if(approximate == \"tanh\", by_tanh, add(mul(add(erf(mul(self, "
     "0.7071067811865476)), 1), 0.5), mul(mul(self, exp(mul(x2, -0.5))), 0.3989422804014327))))"},
};
#define NO_CLAMP "clamp is not supported for complex types"
static const tc_op_refusal refusals[] = {
    {"clamp", NO_CLAMP},
    {"hardtanh", NO_CLAMP},
    {"relu", NO_CLAMP},
    {"relu6", NO_CLAMP},
};
TC_OP_FAMILY_WITH_BOTH(activation);
