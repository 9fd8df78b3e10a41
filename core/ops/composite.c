// Ops that are a short text over others.
#include "core/ops/ops.h"

enum { C = TC_OP_COMPLEX };
#define TEXT(s, t, d) {.schema = s, .traits = t, .decompose = d}
static const tc_op_def rows[] = {
    TEXT("addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor", C,
         "add(self, mul(mul(tensor1, value), tensor2))"),
    TEXT("addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor", C,
         "add(self, mul(div(tensor1, tensor2), value))"),
    TEXT("lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor", C, "add(self, mul(sub(end, self), weight))"),
    TEXT("lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor", C, "add(self, mul(sub(end, self), weight))"),
    TEXT("glu(Tensor self, int dim=-1) -> Tensor", 0, "let p = chunk(self, 2, dim); mul(p[0], sigmoid(p[1]))"),
    TEXT("outer(Tensor self, Tensor vec2) -> Tensor", C, "mul(unsqueeze(self, 1), unsqueeze(vec2, 0))"),
    TEXT("dot(Tensor self, Tensor tensor) -> Tensor", C, "matmul(self, tensor)"),
    TEXT("vdot(Tensor self, Tensor other) -> Tensor", C, "matmul(_conj(self), other)"),
    TEXT("mv(Tensor self, Tensor vec) -> Tensor", C, "matmul(self, vec)"),
    TEXT("subtract.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", C, "sub(self, other, alpha=alpha)"),
    TEXT("divide.Tensor(Tensor self, Tensor other) -> Tensor", C, "div(self, other)"),
    TEXT("true_divide.Tensor(Tensor self, Tensor other) -> Tensor", C, "div(self, other)"),
    TEXT("logaddexp(Tensor self, Tensor other) -> Tensor", 0,
         "let m = maximum(self, other); where(eq(self, other), add(self, 0.69314718055994530942), add(m, "
         "log1p(exp(neg(abs(sub(self, other)))))))"),
    TEXT("float_power.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor", C,
         "pow(to(self, if(is_complex(self), c128, f64)), exponent)"),
    TEXT("clamp_max.Tensor(Tensor self, Tensor max) -> Tensor", 0, "minimum(self, max)"),
    TEXT("clamp_min.Tensor(Tensor self, Tensor min) -> Tensor", 0, "maximum(self, min)"),
    TEXT("rad2deg(Tensor self) -> Tensor", 0, "mul(self, 57.295779513082320876798)"),
    TEXT("deg2rad(Tensor self) -> Tensor", 0, "mul(self, 0.017453292519943295769237)"),
    TEXT("log_sigmoid(Tensor self) -> Tensor", 0, "sub(clamp(self, none, 0), log1p(exp(neg(abs(self)))))"),
    TEXT("zero(Tensor self) -> Tensor", C, "zeros_like(self)"),
    TEXT("inner(Tensor self, Tensor other) -> Tensor", C,
         "if(self.rank == 0, mul(self, other), if(other.rank == 0, mul(self, other), if(self.rank == 1, matmul(other, "
         "self), if(other.rank == 1, matmul(self, other), matmul(self, transpose(other, -2, -1))))))"),
    TEXT("addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor", C,
         "add(mul(self, beta), mul(matmul(mat, vec), alpha))"),
    TEXT("xlogy.Tensor(Tensor self, Tensor other) -> Tensor", 0,
         "where(isnan(other), add(self, other), where(eq(self, 0), zeros_like(mul(self, other)), mul(self, "
         "log(other))))"),
    TEXT("softshrink(Tensor self, Scalar lambd=0.5) -> Tensor", 0,
         "where(gt(self, lambd), sub(self, lambd), where(lt(self, -lambd), add(self, lambd), mul(self, 0)))"),
};
TC_OP_FAMILY(composite);
