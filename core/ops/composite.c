// Ops that are a short text over others.
#include <math.h>

#include "core/base/complex_parts.h"
#include "core/ops/ops.h"

// addcmul, addcdiv: one rounding, at the end. The dtype is that of the three tensors.
static int32_t addc_meta(tc_op_args *a) {
  const int32_t tensors[] = {0, 1, 2};
  tc_dtype d = tc_op_promote(a, 3, tensors);
  if (d == TC_BOOL) return tc_op_fail(a, "not implemented for 'Bool'");
  return tc_op_number_fits(a, 3, d) ? TC_STATUS_INVALID_ARGUMENT : tc_op_pointwise_result(a, 0, d, 3, tensors);
}
static int32_t addcdiv_meta(tc_op_args *a) {
  const tc_tensor_type *x = tc_op_tensor(a, 1), *y = tc_op_tensor(a, 2);
  bool real = tc_dtype_is_float(x->dtype) || tc_dtype_is_complex(x->dtype) || tc_dtype_is_float(y->dtype) ||
              tc_dtype_is_complex(y->dtype);
  return real ? addc_meta(a) : tc_op_fail(a, "Integer division with addcdiv is no longer supported");
}
static int32_t addc_ref(tc_op_args *a, bool divide) {
  const tc_ref_view *y = tc_op_result_data(a, 0), *x[3];
  int64_t i[TC_MAX_RANK] = {0};
  tc_number value = {.re = 1, .i = 1};
  tc_op_number(a, 3, &value);
  for (int32_t k = 0; k < 3; k++) x[k] = tc_op_data(a, k);
  for (bool more = tc_ref_numel(y) > 0; more; more = tc_ref_next(y->rank, y->sizes, i)) {
    double complex v[3];
    int64_t at[3] = {0};
    for (int32_t k = 0; k < 3; k++) {
      for (int32_t d = 0; d < x[k]->rank; d++)
        at[k] += x[k]->sizes[d] == 1 ? 0 : i[d + y->rank - x[k]->rank] * x[k]->strides[d];
      tc_c128 z = tc_ref_c(x[k], at[k]);
      v[k] = CMPLX(z.re, z.im);
    }
    if (y->dtype == TC_I64 && !divide) {
      uint64_t p = (uint64_t)value.i * (uint64_t)tc_ref_i(x[1], at[1]) * (uint64_t)tc_ref_i(x[2], at[2]);
      tc_ref_put_i(y, tc_ref_offset(y, i), (int64_t)((uint64_t)tc_ref_i(x[0], at[0]) + p));
    } else if (y->dtype != TC_C128) { // real arithmetic keeps infinities clean
      double p = creal(v[1]), q = creal(v[2]);
      tc_ref_put(y, tc_ref_offset(y, i), (tc_c128){creal(v[0]) + value.re * (divide ? p / q : p * q), 0});
    } else {
      double complex w = v[0] + CMPLX(value.re, value.im) * (divide ? v[1] / v[2] : v[1] * v[2]);
      tc_ref_put(y, tc_ref_offset(y, i), (tc_c128){creal(w), cimag(w)});
    }
  }
  return TC_STATUS_OK;
}
static int32_t addcmul_ref(tc_op_args *a) { return addc_ref(a, false); }
static int32_t addcdiv_ref(tc_op_args *a) { return addc_ref(a, true); }

// diff: n times the difference of neighbours, after what is put before and behind.
static int32_t diff_expand(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  int64_t n = tc_op_int(a, 1, 1), dim = tc_op_dim(a, 2, t->rank);
  if (dim < 0) return TC_STATUS_INVALID_ARGUMENT;
  if (t->rank == 0 || n < 0)
    return tc_op_fail(a, "diff expects a tensor of at least one dimension and a non-negative order");
  if (n == 0) { // then nothing is put before or behind either
    tc_ex_begin(a, "aten::clone");
    tc_ex_push_arg(a, 0);
    tc_ex_result(a, 0, tc_ex_make(a, 1, NULL));
    return TC_STATUS_OK;
  }
  tc_gv parts[3], x = tc_ex_arg(a, 0);
  int32_t count = 0;
  if (tc_op_tensor(a, 3)) parts[count++] = tc_ex_arg(a, 3);
  parts[count++] = x;
  if (tc_op_tensor(a, 4)) parts[count++] = tc_ex_arg(a, 4);
  if (count > 1) {
    tc_ex_begin(a, "aten::cat");
    tc_ex_push_list(a, count, parts);
    tc_ex_push_int(a, tc_int_const(a, dim));
    x = tc_ex_make(a, 1, NULL);
  }
  for (int64_t k = 0; k < n && tc_ex_type(a, x); k++) {
    tc_int size = tc_ex_type(a, x)->sizes[dim],
           ends[2][2] = {{tc_int_const(a, 1), size}, {tc_int_const(a, 0), tc_int_sub(a, size, tc_int_const(a, 1))}};
    tc_gv side[2];
    if (tc_sym_is_int(size, 0)) break;
    bool bools = tc_ex_type(a, x)->dtype == TC_BOOL;
    for (int32_t i = 0; i < 2; i++) {
      tc_ex_begin(a, "aten::slice.Tensor");
      tc_ex_push(a, x);
      tc_ex_push_int(a, tc_int_const(a, dim));
      tc_ex_push_int(a, ends[i][0]);
      tc_ex_push_int(a, ends[i][1]);
      side[i] = tc_ex_make(a, 1, NULL);
    }
    tc_ex_begin(a, bools ? "aten::logical_xor" : "aten::sub.Tensor");
    tc_ex_push(a, side[0]);
    tc_ex_push(a, side[1]);
    x = tc_ex_make(a, 1, NULL);
  }
  tc_ex_result(a, 0, x);
  return TC_STATUS_OK;
}

// log(e^x + e^y) of complex numbers, ordered by their real parts; PyTorch's answers where these are infinite.
tc_c128 tc_ref_logaddexp(tc_c128 x, tc_c128 y) {
  bool first = x.re >= y.re;
  tc_c128 high = first ? x : y, low = first ? y : x;
  double complex m = CMPLX(high.re, high.im), n = CMPLX(low.re, low.im), r;
  if (isnan(x.re) || isnan(x.im) || isnan(y.re) || isnan(y.im)) return (tc_c128){NAN, NAN};
  if (isinf(low.re) && low.re == high.re) {
    if (low.re < 0) return low;
    r = clog(cexp(n) + cexp(m));
  } else {
    double complex e = cexp(n - m);
    double a = creal(e), b = cimag(e), square = a * (a + 2) + b * b;
    bool small = fabs(a) < 0.5 && fabs(b) < 0.5; // log(1 + e) without cancellation
    r = m + (small ? CMPLX(0.5 * log1p(square), atan2(b, 1 + a)) : clog(1 + e));
  }
  return (tc_c128){creal(r), cimag(r)};
}
static int32_t logaddexp_meta(tc_op_args *a) {
  if (!tc_dtype_is_complex(tc_op_tensor(a, 0)->dtype) && !tc_dtype_is_complex(tc_op_tensor(a, 1)->dtype))
    return tc_op_fail(a, "expected complex numbers: %s and %s", tc_op_shape_text(a, 0), tc_op_shape_text(a, 1));
  return tc_meta_promote(a);
}
static const tc_scalar_ref logaddexp_ref = {.c2 = tc_ref_logaddexp};

enum { C = TC_OP_COMPLEX, PWC = TC_OP_COMPLEX | TC_OP_POINTWISE };
#define TEXT(s, t, d) {.schema = s, .traits = t, .decompose = d}
// In front of the text of an op that PyTorch has for floats only.
#define REALS "let of = if(is_int(self), fail(\"not implemented for integers\"), self); "
static const tc_op_def rows[] = {
    {.schema = "addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
     .traits = PWC,
     .meta = addc_meta,
     .body = "self + value * tensor1 * tensor2",
     .ref = addcmul_ref,
     .flops = "numel"},
    {.schema = "addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
     .traits = PWC,
     .meta = addcdiv_meta,
     .body = "self + value * (tensor1 / tensor2)",
     .ref = addcdiv_ref,
     .flops = "numel"},
    TEXT("lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor", C,
         REALS "add(self, mul(sub(end, self), weight))"),
    TEXT("lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor", C,
         REALS "add(self, mul(sub(end, self), weight))"),
    TEXT("glu(Tensor self, int dim=-1) -> Tensor", 0, REALS "let p = chunk(self, 2, dim); mul(p[0], sigmoid(p[1]))"),
    TEXT("outer(Tensor self, Tensor vec2) -> Tensor", C,
         "if(self.rank == 1 && vec2.rank == 1, mul(unsqueeze(self, 1), unsqueeze(vec2, 0)), fail(\"expected "
         "vectors\"))"),
    TEXT("dot(Tensor self, Tensor tensor) -> Tensor", C,
         "if(self.rank == 1 && tensor.rank == 1, matmul(self, tensor), fail(\"expected vectors\"))"),
    TEXT("vdot(Tensor self, Tensor other) -> Tensor", C,
         "if(self.rank == 1 && other.rank == 1, matmul(_conj(self), other), fail(\"expected vectors\"))"),
    TEXT("mv(Tensor self, Tensor vec) -> Tensor", C,
         "if(self.rank == 2 && vec.rank == 1, matmul(self, vec), fail(\"expected a matrix and a vector\"))"),
    TEXT("subtract.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", C, "sub(self, other, alpha=alpha)"),
    TEXT("divide.Tensor(Tensor self, Tensor other) -> Tensor", C, "div(self, other)"),
    TEXT("true_divide.Tensor(Tensor self, Tensor other) -> Tensor", C, "div(self, other)"),
    // Complex values are ordered by their real parts.
    TEXT(
        "logaddexp(Tensor self, Tensor other) -> Tensor", C,
        "let d = promote(self, other); let p = to(self, d); let q = to(other, d); let f = if(is_int(p), f32, p.dtype); "
        "if(is_complex(p), _logaddexp_complex(self, other), _logaddexp_real(to(p, f), to(q, f)))"),
    TEXT("_logaddexp_real(Tensor self, Tensor other) -> Tensor", 0,
         "let m = maximum(self, other); where(eq(self, other), add(self, 0.69314718055994530942), add(m, "
         "log1p(exp(neg(abs(sub(self, other)))))))"),
    {.schema = "_logaddexp_complex(Tensor self, Tensor other) -> Tensor",
     .traits = C | TC_OP_POINTWISE,
     .meta = logaddexp_meta,
     .decompose =
         "let first = ge(real(self), real(other)); let m = where(first, self, other); let n = where(first, other, "
         "self); let far = logical_and(eq(real(m), real(n)), isinf(real(m))); where(logical_or(ne(self, self), "
         "ne(other, other)), mul(self, other), where(far, where(lt(real(m), 0), n, log(add(exp(n), exp(m)))), "
         "add(m, log1p(exp(neg(sub(m, n)))))))",
     .grad = "self: mul(grad, conj(exp(sub(self, result)))); other: mul(grad, conj(exp(sub(other, result))))",
     .scalar_ref = &logaddexp_ref,
     .flops = "numel"},
    TEXT("float_power.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor", C,
         "pow(to(self, if(is_complex(self), c128, f64)), exponent)"),
    TEXT("clamp_max.Tensor(Tensor self, Tensor max) -> Tensor", 0, "minimum(self, max)"),
    TEXT("clamp_min.Tensor(Tensor self, Tensor min) -> Tensor", 0, "maximum(self, min)"),
    TEXT("rad2deg(Tensor self) -> Tensor", 0, "mul(self, 57.295779513082320876798)"),
    TEXT("deg2rad(Tensor self) -> Tensor", 0, "mul(self, 0.017453292519943295769237)"),
    TEXT("log_sigmoid(Tensor self) -> Tensor", 0, REALS "sub(clamp(self, none, 0), log1p(exp(neg(abs(self)))))"),
    TEXT("zero(Tensor self) -> Tensor", C, "zeros_like(self)"),
    TEXT("inner(Tensor self, Tensor other) -> Tensor", C,
         "if(self.rank == 0 || other.rank == 0, mul(self, other), tensordot(self, other, [-1], [-1]))"),
    TEXT("addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor", C,
         "squeeze(addmm(unsqueeze(expand(self, [mat.size(0)]), 1), mat, unsqueeze(vec, 1), beta=beta, alpha=alpha), "
         "1)"),
    {.schema = "xlogy.Tensor(Tensor self, Tensor other) -> Tensor",
     .meta = tc_meta_promote_float,
     .decompose = "let f = if(is_int(self) && is_int(other), to(self, f32), self); let d = promote(f, other);"
                  "let x = to(f, d); let y = to(other, d); where(isnan(y), add(x, y), where(eq(x, 0), "
                  "zeros_like(mul(x, y)), mul(x, log(y))))"},
    TEXT("softshrink(Tensor self, Scalar lambd=0.5) -> Tensor", 0,
         REALS "where(gt(self, lambd), sub(self, lambd), where(lt(self, -lambd), add(self, lambd), mul(self, 0)))"),
    TEXT("cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor", 0,
         "let d = promote(x1, x2); if(d == wide(d), _cosine_similarity(x1, x2, dim, eps), "
         "to(_cosine_similarity(to(x1, wide(d)), to(x2, wide(d)), dim, eps), d))"),
    TEXT("_cosine_similarity(Tensor x1, Tensor x2, int dim, float eps) -> Tensor", 0,
         "let p = mul(x1, x2); let x = expand(x1, p.sizes); let y = expand(x2, p.sizes); "
         "let n = clamp(sqrt(sum(mul(x, x), [dim])), eps); let m = clamp(sqrt(sum(mul(y, y), [dim])), eps); "
         "div(sum(p, [dim]), mul(n, m))"),
    TEXT("logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor", C,
         "let x = if(is_int(self), to(self, f32), self); let m = amax(if(is_complex(x), real(x), x), dim, true);"
         "let f = where(isinf(m), zeros_like(m), m); let r = add(log(sum(exp(sub(x, f)), dim, true)), f);"
         "if(keepdim, r, squeeze(r, dim))"),
    {.schema = "diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor",
     .traits = C,
     .expand = diff_expand},
    TEXT("var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> "
         "(Tensor, Tensor)",
         C, "var(self, dim, correction=correction, keepdim=keepdim), _exact_mean(self, dim, keepdim)"),
    TEXT("std_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> "
         "(Tensor, Tensor)",
         C, "std(self, dim, correction=correction, keepdim=keepdim), _exact_mean(self, dim, keepdim)"),
};
// Derivatives; see docs/ADDING_AN_OP.md for what the texts can name.
static const tc_op_derivative derivatives[] = {
    {"addcmul",
     "self: grad; tensor1: mul(grad, conj(mul(tensor2, value))); tensor2: mul(grad, conj(mul(tensor1, value)))"},
    {"addcdiv", "self: grad; tensor1: mul(grad, conj(mul(reciprocal(tensor2), value))); tensor2: neg(mul(grad, "
                "conj(div(mul(tensor1, value), mul(tensor2, tensor2)))))"},
    {"softshrink", "self: where(logical_and(ge(self, -float(lambd)), le(self, lambd)), 0, grad)"},
};
static const tc_op_refusal refusals[] = {
    {"deg2rad", "deg2rad is not supported for complex tensors."},
    {"rad2deg", "rad2deg is not supported for complex tensors."},
    {"clamp_max", "clamp is not supported for complex types"},
    {"clamp_min", "clamp is not supported for complex types"},
};
TC_OP_FAMILY_WITH_BOTH(composite);
