// Names that PyTorch gives to ops which have another one, and ops that are one call of another.
#include "core/ops/ops.h"

#define C TC_OP_COMPLEX
#define TEXT(s, d) {.schema = s, .traits = C, .decompose = d}
#define REAL(s, d) {.schema = s, .decompose = d}
#define UNARY(text, name, of) text(name "(Tensor self) -> Tensor", of "(self)")
#define BINARY(text, name, of) text(name "(Tensor self, Tensor other) -> Tensor", of "(self, other)")
#define SCALAR(text, name, of) text(name ".Scalar(Tensor self, Scalar other) -> Tensor", of "(self, other)")

static const tc_op_def rows[] = {
    UNARY(TEXT, "absolute", "abs"),
    UNARY(TEXT, "arccos", "acos"),
    UNARY(TEXT, "arccosh", "acosh"),
    UNARY(TEXT, "arcsin", "asin"),
    UNARY(TEXT, "arcsinh", "asinh"),
    UNARY(TEXT, "arctan", "atan"),
    UNARY(TEXT, "arctanh", "atanh"),
    UNARY(REAL, "fix", "trunc"),
    UNARY(TEXT, "negative", "neg"),
    UNARY(REAL, "special_erf", "erf"),
    UNARY(REAL, "special_erfc", "erfc"),
    UNARY(TEXT, "special_exp2", "exp2"),
    UNARY(TEXT, "special_expit", "sigmoid"),
    UNARY(TEXT, "special_expm1", "expm1"),
    UNARY(REAL, "special_gammaln", "lgamma"),
    UNARY(TEXT, "special_log1p", "log1p"),
    UNARY(REAL, "special_psi", "digamma"),
    UNARY(TEXT, "special_sinc", "sinc"),
    UNARY(TEXT, "linalg_matrix_exp", "matrix_exp"),
    BINARY(REAL, "arctan2", "atan2"),
    BINARY(REAL, "special_xlogy", "xlogy"),
    TEXT("ger(Tensor self, Tensor vec2) -> Tensor", "outer(self, vec2)"),
    BINARY(REAL, "greater.Tensor", "gt"),
    BINARY(REAL, "greater_equal.Tensor", "ge"),
    BINARY(REAL, "less.Tensor", "lt"),
    BINARY(REAL, "less_equal.Tensor", "le"),
    BINARY(TEXT, "not_equal.Tensor", "ne"),
    BINARY(TEXT, "multiply.Tensor", "mul"),
    SCALAR(REAL, "greater", "gt"),
    SCALAR(REAL, "greater_equal", "ge"),
    SCALAR(REAL, "less", "lt"),
    SCALAR(REAL, "less_equal", "le"),
    SCALAR(TEXT, "not_equal", "ne"),
    SCALAR(TEXT, "multiply", "mul"),
    SCALAR(TEXT, "divide", "div"),
    SCALAR(TEXT, "true_divide", "div"),
    TEXT("subtract.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", "sub(self, other, alpha=alpha)"),
    TEXT("divide.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor",
         "div(self, other, rounding_mode=rounding_mode)"),
    TEXT("divide.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor",
         "div(self, other, rounding_mode=rounding_mode)"),
    REAL("clip(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor", "clamp(self, min, max)"),
    REAL("clip.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor", "clamp.Tensor(self, min, max)"),
    REAL("special_round(Tensor self, *, int decimals=0) -> Tensor", "round.decimals(self, decimals=decimals)"),
    REAL("special_logit(Tensor self, float? eps=None) -> Tensor", "logit(self, eps)"),
    REAL("special_multigammaln(Tensor self, int p) -> Tensor", "mvlgamma(self, p)"),
    TEXT("special_logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor", "logsumexp(self, dim, keepdim)"),
    TEXT("special_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", "softmax(self, dim, dtype)"),
    TEXT("special_log_softmax(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
         "log_softmax(self, dim, dtype)"),
    TEXT("row_stack(Tensor[] tensors) -> Tensor", "vstack(tensors)"),
    TEXT("vander(Tensor x, SymInt? N=None, bool increasing=False) -> Tensor",
         "let v = _vander(x, if(is_none(N), x.size(0), N)); if(increasing, v, flip(v, [-1]))"),
    REAL("one_hot(Tensor self, int num_classes=-1) -> Tensor",
         "embedding(eye(if(num_classes == -1, item(add(max(self), 1)), num_classes), dtype=i64), self)"),
    {.schema = "positive(Tensor(a) self) -> Tensor(a)", .traits = C | TC_OP_VIEW, .decompose = "alias(self)"},
    {.schema = "linalg_diagonal(Tensor(a) A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor(a)",
     .traits = C | TC_OP_VIEW,
     .decompose = "diagonal(A, offset, dim1, dim2)"},
};
static const tc_op_refusal refusals[] = {
    {"clip", "clamp is not supported for complex types"},
    {"fix", "trunc is not supported for complex inputs"},
};
TC_OP_FAMILY_WITH_REFUSALS(aliases);
