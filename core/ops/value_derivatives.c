// Derivatives of ops by value that do not stand beside their rows: special functions (Abramowitz and Stegun, chapters
// 5 to 10), moments, products, losses by sorted lists, random numbers, and what nothing flows through.
#include "core/ops/ops.h"

#define ZERO(op) {op, "self: zeros_like(self)"}
#define NONE(op, x) {op, x ": none"}
// g: the gradient of the variance, in the place of the reduced dimensions; c: the correction.
#define VARIANCE(c, dims, g)                                                                                          \
  "let n = self.numel // max(1, result.numel); let c = " c "; let g = reshape(" g                                     \
  ", aten::sum.dim_IntList(self, " dims ", true).sizes); let d = mul(mul(g, 2), sub(self, aten::mean.dim(self, " dims \
  ", true))); self: div(d, if(is_int(c), n - c, float(n) - c))"
// Where the norm is zero the gradient is zero, which is one of its subgradients.
#define NORM                                                                                                           \
  "let k = aten::sum.dim_IntList(self, dim, true).sizes; let g = reshape(grad, k); let n = reshape(result, k); let "   \
  "p = float(ord); let top = to(eq(abs(self), n), self.real_dtype); let power = where(eq(n, 0), 0, div(g, pow(n, p - " \
  "1.0))); self: if(p == 0.0, zeros_like(self), if(p == 1.0, mul(g, sgn(self)), if(p == 2.0, where(eq(n, 0), 0, "      \
  "mul(self, div(g, n))), if(p == inf || p == -inf, mul(sgn(self), mul(top, div(g, aten::sum.dim_IntList(top, dim, "   \
  "true)))), if(p < 1.0, mul(mul(where(eq(self, 0), 0, mul(sgn(self), pow(abs(self), p - 1.0))), g), pow(n, 1.0 - "    \
  "p)), if(p < 2.0, mul(mul(sgn(self), pow(abs(self), p - 1.0)), power), mul(mul(self, pow(abs(self), p - 2.0)), "     \
  "power)))))))"
#define OF_STD "where(eq(result, 0), 0, div(grad, mul(result, 2)))"
#define UNBIASED "if(unbiased, 1, 0)"
#define CORRECTION "if(is_none(correction), 1, correction)"

// Nobody has written down what it is, PyTorch neither: an error where it is wanted, not a zero.
#define UNKNOWN(op) "self: fail(\"the derivative of " op " for its first argument is not known\"); "
static const tc_op_derivative derivatives[] = {
    {"fmax",
     "let mine = logical_or(ge(self, other), isnan(other)); self: where(mine, grad, 0); other: where(mine, 0, grad)"},
    {"fmin",
     "let mine = logical_or(le(self, other), isnan(other)); self: where(mine, grad, 0); other: where(mine, 0, grad)"},
    {"atan2",
     "let r = div(grad, add(mul(self, self), mul(other, other))); self: mul(r, other); other: neg(mul(r, self))"},
    {"hypot", "self: mul(grad, div(self, result)); other: mul(grad, div(other, result))"},
    {"copysign.Tensor", "self: where(eq(self, 0), 0, mul(grad, div(result, self))); other: zeros_like(other)"},
    {"frac", "self: grad"},
    {"special_erfinv", "self: mul(mul(grad, exp(mul(result, result))), 0.886226925452758)"},
    {"special_erfcx", "self: mul(grad, sub(mul(mul(self, result), 2), 1.1283791670955126))"},
    {"special_ndtri", "self: mul(mul(grad, exp(mul(mul(result, result), 0.5))), 2.5066282746310002)"},
    {"i0", "self: mul(grad, special_i1(self))"},
    {"special_i0", "self: mul(grad, special_i1(self))"},
    {"special_i0e", "self: mul(grad, sub(special_i1e(self), mul(sgn(self), result)))"},
    {"special_i1", "self: mul(grad, where(eq(self, 0), 0.5, sub(i0(self), div(result, self))))"},
    {"special_i1e",
     "self: mul(grad, where(eq(self, 0), 0.5, sub(special_i0e(self), mul(result, add(sgn(self), reciprocal(self))))))"},
    {"special_modified_bessel_i0", "self: mul(grad, special_modified_bessel_i1(self))"},
    {"special_modified_bessel_i1",
     "self: mul(grad, where(eq(self, 0), 0.5, sub(special_modified_bessel_i0(self), div(result, self))))"},
    {"special_modified_bessel_k0", "self: neg(mul(grad, special_modified_bessel_k1(self)))"},
    {"special_modified_bessel_k1", "self: neg(mul(grad, add(special_modified_bessel_k0(self), div(result, self))))"},
    {"special_scaled_modified_bessel_k0", "x: mul(grad, sub(result, special_scaled_modified_bessel_k1(x)))"},
    {"special_scaled_modified_bessel_k1",
     "x: mul(grad, sub(sub(result, special_scaled_modified_bessel_k0(x)), div(result, x)))"},
    {"special_bessel_j0", "self: neg(mul(grad, special_bessel_j1(self)))"},
    {"special_bessel_j1", "self: mul(grad, where(eq(self, 0), 0.5, sub(special_bessel_j0(self), div(result, self))))"},
    {"special_bessel_y0", "self: neg(mul(grad, special_bessel_y1(self)))"},
    {"special_bessel_y1", "self: mul(grad, sub(special_bessel_y0(self), div(result, self)))"},
    {"special_zeta", UNKNOWN("special_zeta") "other: neg(mul(mul(grad, self), special_zeta(add(self, 1), other)))"},
    {"special_zeta.self_scalar", "other: neg(mul(mul(grad, self), special_zeta(self + 1, other)))"},
#define GAMMA "exp(sub(sub(mul(log(other), sub(self, 1)), other), lgamma(self)))"
    {"igamma", UNKNOWN("igamma") "other: mul(grad, " GAMMA ")"},
    {"igammac", UNKNOWN("igammac") "other: neg(mul(grad, " GAMMA "))"},
    {"special_gammainc", UNKNOWN("special_gammainc") "other: mul(grad, " GAMMA ")"},
    {"special_gammaincc", UNKNOWN("special_gammaincc") "other: neg(mul(grad, " GAMMA "))"},
    {"lift_fresh_copy", "self: grad"},
    {"to.dtype_layout", "self: grad"},
    {"to.device", "self: grad"},
    {"to.other", "self: grad"},
    {"swapaxes", "self: transpose(grad, axis0, axis1)"},
    {"swapdims", "self: transpose(grad, dim0, dim1)"},
    {"moveaxis.int", "self: movedim(grad, destination, source)"},
    {"moveaxis.intlist", "self: movedim(grad, destination, source)"},
    {"numpy_T", "self: numpy_T(grad)"},
    {"mT", "self: mT(grad)"},
    NONE("detach", "self"),
    {"split.sizes", "self: cat(grads, dim)"},
    {"tensor_split.sections", "self: cat(grads, dim)"},
    // Pieces may overlap: indices need not rise.
    {"tensor_split.indices", "self: index_add(zeros_like(self), dim, cat(tensor_split(arange(self.size(dim)), indices, "
                             "0), 0), cat(grads, dim))"},
    {"unsafe_chunk", "self: cat(grads, dim)"},
    {"tile",
     "self: reshape(sum(reshape(grad, pairs(dims, self.sizes)), evens(max(len(dims), self.rank))), self.sizes)"},
    // Products without one element, from both sides.
    {"prod.dim_int",
     "let x = to(self, result.dtype); let one = ones_like(sum(x, [dim], true)); let before = "
     "cumprod(aten::slice.Tensor("
     "cat([one, x], dim), dim, 0, -1), dim); let back = flip(x, [dim]); let after = "
     "flip(cumprod(aten::slice.Tensor(cat([one, back], dim), dim, 0, -1), dim), [dim]); self: if(self.rank == 0, grad, "
     "mul(if(keepdim, grad, unsqueeze(grad, dim)), conj(mul(before, after))))"},
    {"prod", "forward: aten::prod.dim_int(reshape(self, [-1]), 0, false, dtype=dtype)"},
    {"native_dropout", "input: mul(mul(grad, to(result1, grad.dtype)), if(is_none(train), 1.0, if(train, if(p == 1.0, "
                       "0.0, 1.0 / (1.0 - p)), 1.0)))"},
    {"linalg_vector_norm", NORM},
    {"logit",
     "let d = div(grad, abs(mul(self, sub(1, self)))); self: if(is_none(eps), where(logical_or(lt(self, 0), gt(self, "
     "1)), nan, d), where(logical_or(lt(self, eps), gt(self, 1.0 - eps)), 0, d))"},
    {"special_entr", "self: mul(grad, neg(add(log(self), 1)))"},
    // PyTorch's has no number at -inf.
    {"special_log_ndtr", "self: where(eq(self, -inf), sub(self, self), mul(div(grad, special_erfcx(mul(self, "
                         "-0.7071067811865476))), 0.7978845608028654))"},
    // Margins between every target and every class that is none; targets end at the first negative one.
    {"multilabel_margin_loss",
     "let n = if(self.rank == 0, 1, self.size(-1)); let x = reshape(self, [-1, n]); let t = reshape(target, [-1, "
     "n]); let valid = cumprod(to(ge(t, 0), x.dtype), 1); let at = where(ge(t, 0), t, 0); let is = "
     "gt(scatter_add(zeros_like(x), 1, at, valid), 0); let m = mul(mul(relu(add(sub(1, unsqueeze(gather(x, 1, at), "
     "2)), "
     "unsqueeze(x, 1))), unsqueeze(valid, 2)), to(unsqueeze(logical_not(is), 1), x.dtype)); let each = div(sum(m, [1, "
     "2]), n); forward: if(reduction == 0, reshape(each, part(self.sizes, 0, max(self.rank, 1) - 1)), "
     "if(reduction == 1, mean(each), sum(each)))"},
    ZERO("fill.Scalar"),
    NONE("new_zeros", "self"),
    NONE("new_ones", "self"),
    NONE("new_full", "self"),
    NONE("new_empty", "self"),
    NONE("new_empty_strided", "self"),
    NONE("empty_like", "self"),
    NONE("rand_like", "self"),
    NONE("randn_like", "self"),
    NONE("randint_like", "self"),
    ZERO("uniform"),
    ZERO("normal_functional"),
    {"normal.Tensor_float", "mean: zeros_like(mean)"},
    {"normal.float_Tensor", "std: zeros_like(std)"},
    {"normal.Tensor_Tensor", "mean: zeros_like(mean); std: zeros_like(std)"},
    ZERO("normal"),
    ZERO("random"),
    ZERO("exponential"),
    ZERO("geometric"),
    ZERO("log_normal"),
    ZERO("cauchy"),
    ZERO("bernoulli"),
    NONE("histc", "self"),
    NONE("bitwise_not", "self"),
    {"nextafter", "self: grad; other: zeros_like(other)"},
    {"var.dim", VARIANCE(UNBIASED, "dim", "grad")},
    {"var.correction", VARIANCE(CORRECTION, "dim", "grad")},
    {"var", VARIANCE(UNBIASED, "none", "grad")},
    {"std.dim", VARIANCE(UNBIASED, "dim", OF_STD)},
    {"std.correction", VARIANCE(CORRECTION, "dim", OF_STD)},
    {"std", VARIANCE(UNBIASED, "none", OF_STD)},
};
TC_OP_DERIVATIVES(value_derivatives);
