// Calls that PyTorch refuses although the arithmetic would take them: wrong kinds of numbers, ranks, lengths of lists,
// words. Each row is a condition over the arguments and what is said where it holds; what depends on sizes is the meta
// functions' to say.
#include "core/ops/ops.h"

#define NO_KERNEL(op, when) {op, when, "\"" op "\" not implemented for floating point numbers"}
#define BITS(op) NO_KERNEL(op, "is_float(self) || is_float(other)")
#define REDUCTION(op) {op, "reduction < 0 || reduction > 2", "reduction is none of none (0), mean (1) and sum (2)"}
#define RANKS(op, arg, a, b, text) {op, arg ".rank != " #a " && " arg ".rank != " #b, text}
#define LENGTHS(op, arg, n) \
  {op, "len(" arg ") != 1 && len(" arg ") != " #n, "expected " arg " to be a single integer or a list of " #n " values"}
#define CONV(op, n, low, high)                                                                          \
  RANKS(op, "input", low, high, "expected " #low "D (unbatched) or " #high "D (batched) input to " op), \
      LENGTHS(op, "stride", n), LENGTHS(op, "dilation", n)
#define PADDED(op, n, low, high)                                     \
  {op, "len(padding) != " #n, "padding size is expected to be " #n}, \
      RANKS(op, "self", low, high, "expected " #low "D or " #high "D (batch mode) tensor for input")
#define PADS(n, twice, low, high)                                                                        \
  PADDED("reflection_pad" #n "d", twice, low, high), PADDED("replication_pad" #n "d", twice, low, high), \
      PADDED("reflection_pad" #n "d_backward", twice, low, high),                                        \
      PADDED("replication_pad" #n "d_backward", twice, low, high)
#define FLOATS(op, text) {op, "is_int(self)", text}
#define DISTANCES(op) {op, "is_int(x1) || is_int(x2)", "cdist only supports floating-point dtypes"}
#define NORM_DTYPE(op)                                                       \
  {op, "if(is_none(dtype), false, !(is_float(dtype) || is_complex(dtype)))", \
   "norm(): the desired output dtype should be either floating point or complex"}

static const tc_op_restriction restrictions[] = {
    BITS("bitwise_and"),
    BITS("bitwise_or"),
    BITS("bitwise_xor"),
    BITS("bitwise_left_shift"),
    BITS("bitwise_right_shift"),
    BITS("__and__"),
    BITS("__or__"),
    BITS("__xor__"),
    BITS("__lshift__"),
    BITS("__rshift__"),
    NO_KERNEL("bitwise_not", "is_float(self)"),
    {"clamp", "is_none(min) && is_none(max)", "torch.clamp: At least one of 'min' or 'max' must not be None"},
    {"neg", "self.dtype == bool",
     "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the `~` "
     "or "
     "`logical_not()` operator instead."},
    {"_neg_view", "self.dtype == bool", "Negation, the `-` operator, on a bool tensor is not supported."},
    {"gelu_backward", "approximate != \"none\" && approximate != \"tanh\"",
     "approximate argument must be either none or tanh."},
    {"trapezoid", "y.dtype == bool", "trapezoid: received a bool input for `y`, but bool is not supported"},
    {"trapezoid.x", "x.dtype == bool", "trapezoid: received a bool input for `x`, but bool is not supported"},
    {"trapz", "y.dtype == bool", "trapezoid: received a bool input for `y`, but bool is not supported"},
    {"trapz.x", "x.dtype == bool", "trapezoid: received a bool input for `x`, but bool is not supported"},
    {"nanmean", "is_int(self)", "nanmean(): expected input to have floating point or complex dtype"},
    {"kl_div", "is_int(self) || is_int(target)", "kl_div: Integral inputs not supported."},
    REDUCTION("mse_loss"),
    REDUCTION("smooth_l1_loss"),
    {"multi_margin_loss", "p != 1 && p != 2", "only p == 1 and p == 2 supported"},
    {"triplet_margin_loss", "anchor.rank != positive.rank || anchor.rank != negative.rank",
     "The anchor, positive, and negative tensors are expected to have the same number of dimensions"},
    RANKS("nll_loss", "self", 1, 2, "input tensor should be 1D or 2D"),
    RANKS("nll_loss_forward", "self", 1, 2, "input tensor should be 1D or 2D"),
    RANKS("nll_loss_backward", "self", 1, 2, "input tensor should be 1D or 2D"),
    DISTANCES("cdist"),
    DISTANCES("_cdist_forward"),
    FLOATS("pdist", "pdist only supports floating-point dtypes"),
    FLOATS("_pdist_forward", "pdist only supports floating-point dtypes"),
    FLOATS("_pdist_backward", "pdist only supports floating-point dtypes"),
    FLOATS("_pdist_backward_of_pairs", "pdist only supports floating-point dtypes"),
    FLOATS("linalg_vector_norm", "linalg.vector_norm: Expected a floating point or complex tensor as input"),
    FLOATS("linalg_matrix_norm", "linalg.matrix_norm: Expected a floating point or complex tensor as input"),
    FLOATS("linalg_norm", "linalg.vector_norm: Expected a floating point or complex tensor as input"),
    FLOATS("norm", "norm(): input dtype should be either floating point or complex"),
    FLOATS("frobenius_norm", "norm(): input dtype should be either floating point or complex"),
    NORM_DTYPE("norm.ScalarOpt_dtype"),
    NORM_DTYPE("norm.ScalarOpt_dim_dtype"),
    {"dist", "is_int(self) && is_int(other)", "norm(): input dtype should be either floating point or complex"},
    {"bucketize", "boundaries.rank != 1", "boundaries tensor must be 1 dimension"},
    {"searchsorted.Scalar", "sorted_sequence.rank != 1",
     "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1"},
    {"trace", "self.rank != 2", "trace: expected a matrix"},
    RANKS("diag", "self", 1, 2, "diag(): Supports 1D or 2D tensors"),
    RANKS("matrix_H", "self", 0, 2, "tensor.H is only supported on matrices (2-D tensors)"),
    {"meshgrid", "len(tensors) == 0", "meshgrid expects a non-empty TensorList"},
    {"index_fill.int_Tensor", "value.rank != 0", "index_fill_ only supports a 0-dimensional value tensor"},
    {"index_fill", "index.dtype != i64", "index_fill_(): Expected dtype int64 for index"},
    {"linspace.Tensor_Tensor", "start.rank != 0 || end.rank != 0",
     "linspace only supports 0-dimensional start and end tensors"},
    {"linspace.Tensor_Scalar", "start.rank != 0", "linspace only supports 0-dimensional start and end tensors"},
    {"linspace.Scalar_Tensor", "end.rank != 0", "linspace only supports 0-dimensional start and end tensors"},
    {"logspace.Tensor_Tensor", "start.rank != 0 || end.rank != 0",
     "logspace only supports 0-dimensional start and end tensors"},
    {"logspace.Tensor_Scalar", "start.rank != 0", "logspace only supports 0-dimensional start and end tensors"},
    {"logspace.Scalar_Tensor", "end.rank != 0", "logspace only supports 0-dimensional start and end tensors"},
    {"scatter.reduce", "reduce != \"add\" && reduce != \"multiply\"",
     "reduce argument must be either add or multiply."},
    {"scatter.value_reduce", "reduce != \"add\" && reduce != \"multiply\"",
     "reduce argument must be either add or multiply."},
    {"isin.Tensor_Scalar", "elements.dtype == bool", "Unsupported input type encountered for isin(): Bool"},
    {"lerp", "self.dtype != end.dtype", "expected self and end to have the same dtype"},
    PADS(1, 2, 2, 3),
    PADS(2, 4, 3, 4),
    PADS(3, 6, 4, 5),
    CONV("conv1d", 1, 2, 3),
    CONV("conv2d", 2, 3, 4),
    CONV("conv3d", 3, 4, 5),
    CONV("conv_transpose1d", 1, 2, 3),
    CONV("conv_transpose2d", 2, 3, 4),
    CONV("conv_transpose3d", 3, 4, 5),
};
const tc_op_family tc_ops_restrictions = {TC_OP_NO_TABLE, TC_OP_NO_TABLE, TC_OP_NO_TABLE, TC_OP_TABLE(restrictions)};
