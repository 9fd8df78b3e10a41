// Ops that are a short text over others.
#include "core/ops/ops.h"

enum { C = TC_OP_COMPLEX };
#define TEXT(s, t, d) {.schema = s, .traits = t, .decompose = d}
static const tc_op_def rows[] = {
    TEXT("addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor", C, "add(self, mul(mul(tensor1, value), tensor2))"),
    TEXT("addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor", C, "add(self, mul(div(tensor1, tensor2), value))"),
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
};
TC_OP_FAMILY(composite);
