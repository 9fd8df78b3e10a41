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
      LENGTHS(op, "stride", n), LENGTHS(op, "dilation", n),                                             \
      {op, "weight.rank != " #high, "expected a weight of " #high " dimensions"}
#define PADDED(op, n, low, high)                                     \
  {op, "len(padding) != " #n, "padding size is expected to be " #n}, \
      RANKS(op, "self", low, high, "expected " #low "D or " #high "D (batch mode) tensor for input")
#define PADS(n, twice, low, high)                                                                        \
  PADDED("reflection_pad" #n "d", twice, low, high), PADDED("replication_pad" #n "d", twice, low, high), \
      PADDED("reflection_pad" #n "d_backward", twice, low, high),                                        \
      PADDED("replication_pad" #n "d_backward", twice, low, high)
#define FLOATS(op, text) {op, "is_int(self)", text}
#define DISTANCES(op) {op, "is_int(x1) || is_int(x2)", "cdist only supports floating-point dtypes"}
#define KIND_OF_NORM(op)                                                                        \
  {op, "if(is_none(dtype), false, if(is_complex(self), !is_complex(dtype), !is_float(dtype)))", \
   "linalg norms: dtype should be floating point for real inputs and complex for complex inputs"}
#define NORM_DTYPE(op)                                                       \
  {op, "if(is_none(dtype), false, !(is_float(dtype) || is_complex(dtype)))", \
   "norm(): the desired output dtype should be either floating point or complex"}

#define REAL_CORRECTION(op)                                                    \
  {op ".correction", "if(is_none(correction), false, is_complex(correction))", \
   "value cannot be converted to type double without overflow"}
#define SQUARE(op, arg) {op, arg ".size(-1) != " arg ".size(-2)", "linalg." op ": A must be batches of square matrices"}
#define SQUARE_ALSO_AS(op, arg) SQUARE(op, arg), SQUARE("linalg_" op, "A"), SQUARE("_linalg_" op, "A")
#define TRIANGLE(op) \
  {op, "!(UPLO == \"L\" || UPLO == \"U\" || UPLO == \"l\" || UPLO == \"u\")", "Expected UPLO argument to be 'L' or 'U'"}
#define NORM_WORD(op, arg) {op, arg " != \"fro\" && " arg " != \"nuc\"", op ": the norm is neither \"fro\" nor \"nuc\""}
#define ROUNDING(op)                                                                                  \
  {op, "if(is_none(rounding_mode), false, rounding_mode != \"trunc\" && rounding_mode != \"floor\")", \
   "div expected rounding_mode to be one of None, 'trunc', or 'floor'"}
#define CONDITION(op) \
  {op, "condition.dtype != bool && condition.dtype != u8", "where expected condition to be a boolean tensor"}
#define QUANTILE(op)                                                                                                  \
  {op, "self.dtype != f32 && self.dtype != f64", "quantile() input tensor must be either float or double dtype"},     \
      {op, "self.numel == 0", "quantile() input tensor must be non-empty"},                                           \
      {op, "q.rank > 1", "quantile() q must be a scalar or 1D tensor"},                                               \
      {op, "q.dtype != self.dtype", "quantile() q tensor must be same dtype as the input tensor"},                    \
      {op ".scalar", "!(q >= 0.0 && q <= 1.0)", "quantile() q must be in the range [0, 1]"},                          \
      {op,                                                                                                            \
       "!(interpolation == \"linear\" || interpolation == \"lower\" || interpolation == \"higher\" || interpolation " \
       "== \"midpoint\" || interpolation == \"nearest\")",                                                            \
       "quantile() interpolation must be one of linear, lower, higher, midpoint or nearest"}
#define TARGETS(op) {op, "target.dtype != i64 && target.dtype != u8", "expected target dtype to be Long or Byte"}
#define ALIKE(op, x, y) {op, x ".dtype != " y ".dtype", "expected " x " and " y " to have the same dtype"}
#define INTS(op, arg, n) {op, "len(" arg ") != " #n, "expected " arg " to be a list of " #n " values"}
#define PER_DIMENSION(op, arg)                                 \
  {op, "len(" arg ") != 1 && len(" arg ") != weight.rank - 2", \
   "expected " arg " to be a single integer value or a list of a value for each dimension of the images"}
#define CONVOLUTION(op) PER_DIMENSION(op, "stride"), PER_DIMENSION(op, "padding"), PER_DIMENSION(op, "dilation")
#define DIM_OF(op, sizes)                                                                              \
  {op, "if(len(" sizes ") == 0, dim < -1 || dim > 0, dim < -len(" sizes ") || dim >= len(" sizes "))", \
   "Dimension out of range"}
#define WINDOW(op) \
  {op, "if(is_none(dtype), false, !(is_float(dtype) || is_complex(dtype)))", op " expects floating point dtypes"}
#define CHANCE(op) {op, "!(p >= 0.0 && p <= 1.0)", "dropout probability has to be between 0 and 1"}
#define FLOATS_ONLY(op) {op, "is_int(self)", op " is a continuous distribution: dtype must be a floating point type"}
#define BOUNDS(op, low, high) {op, low " >= " high, "random_ expects 'from' to be less than 'to'"}
#define NOT_BOOL(op, arg) {op, arg ".dtype == bool", "\"" op "\" not implemented for 'Bool'"}
#define SIDE(op)                                                          \
  {op, "if(is_none(side), false, side != \"left\" && side != \"right\")", \
   "torch.searchsorted(): side can only be 'left' or 'right'"}
#define CELL(op, gates, hidden)                                              \
  {op, "input.rank != 2", "Expected 2D input (batch x feature)"},            \
      {op, hidden ".rank != 2", "Expected 2D hidden (batch x hidden_size)"}, \
      {op, "w_ih.rank != 2 || w_hh.rank != 2", "Expected 2D weights"},       \
      {op, "w_ih.size(0) != " #gates " * " hidden ".size(1)", "weight_ih first dim must be " #gates " * hidden_size"}
#define THREE(op)                                                                                                     \
  {op, "self.size(dim) != 3 || other.size(dim) != 3", "linalg.cross: inputs must have length 3 along the dimension"}, \
      {op, "self.rank != other.rank", "linalg.cross: inputs must have the same number of dimensions."}
#define MODE(op)                                                                                                \
  {op, "if(is_none(compute_mode), false, compute_mode < 0 || compute_mode > 2)", "possible modes: None, 1, 2"}, \
      {op, "x1.size(-1) != x2.size(-1)", "X1 and X2 must have the same number of columns."}
#define DRIVER(op) {op, "!is_none(driver)", "torch.linalg.svd: keyword argument `driver=` is not supported"}
#define AFFINE(op, arg)                                                  \
  {op, "if(is_none(" arg "), false, " arg ".sizes != normalized_shape)", \
   "Expected " arg " to be of same shape as normalized_shape"}
#define SAMPLED(op, n)                                                             \
  {op, "input.rank != " #n " + 2 || grid.rank != " #n " + 2",                      \
   "grid_sampler(): expected input and grid of as many dimensions as the op has"}, \
      {op, "grid.size(-1) != " #n, "grid_sampler(): expected grid to have size " #n " in last dimension"}
#define ATTENTION(op) {op, "query.rank != 4 || key.rank != 4 || value.rank != 4", op ": Accept only 4 dims inputs"}
#define BOTH_BOOL(op, x, y) {op, x ".dtype == bool && " y ".dtype == bool", "\"" op "\" not implemented for 'Bool'"}
#define NOT_BOOLS(op, arg) {op, arg ".dtype == bool && " arg ".numel != 0", "\"" op "\" not implemented for 'Bool'"}
// What is computed is written into something of this argument's type.
#define INTO(op, x, y)                                                               \
  {op, "is_int(" x ") && !is_int(" y ") || !is_complex(" x ") && is_complex(" y ")", \
   "result type of " x " and " y " can't be cast to the desired output type"}
#define CLASSES(op)                                                                                 \
  {op, "if(self.rank == 2, self.size(1) == 0, if(self.rank == 1, self.numel == 0, self.rank > 2))", \
   "Expected non-empty vector or matrix with optional 0-dim batch size"}
#define CONTIGUOUS(op, x) {op, x ".numel != 0 && !is_row_major(" x ")", x " must be contiguous"}
#define FIRST_OR_LAST(op, x) \
  {op, "if(" x ".rank == 0, true, dim != 0 && dim != " x ".rank - 1)", "Expected dim to be the first or last dimension"}
#define POOLED(op, n)                                                                                                 \
  LENGTHS(op, "kernel_size", n), LENGTHS(op, "padding", n), LENGTHS(op, "dilation", n),                               \
      {op, "if(len(stride) == 0, false, stride[0] == 0 || stride[len(stride) - 1] == 0)",                             \
       "stride should not be zero"},                                                                                  \
      {op, "kernel_size[0] < 1 || kernel_size[len(kernel_size) - 1] < 1", "kernel size should be greater than zero"}, \
      {op, "dilation[0] < 1 || dilation[len(dilation) - 1] < 1", "dilation should be greater than zero"},             \
      {op, "padding[0] > ((kernel_size[0] - 1) * dilation[0] + 1) // 2",                                              \
       "pad should be at most half of effective kernel size"},                                                        \
      ALIKE(op, "grad_output", "self")
#define COUNTS(op) {op, "repeats.dtype == bool", "\"repeat_interleave\" not implemented for 'Bool'"}
#define REDUCE(op, words, text) {op, words, "reduce argument must be one of " text}
#define PAIR_OF_DIMS(op)                                              \
  {op, "len(dim) != 2", "linalg.matrix_norm: dim must be a 2-tuple"}, \
      {op, "self.rank < 2", "linalg.matrix_norm: The input tensor A must have at least 2 dimensions."}
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
    {"_linalg_checked", "info.dtype != i32", "info is of i32"},
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
    KIND_OF_NORM("linalg_norm"),
    KIND_OF_NORM("linalg_matrix_norm"),
    KIND_OF_NORM("linalg_vector_norm"),
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
    LENGTHS("conv_transpose1d", "padding", 1),
    CONV("conv_transpose2d", 2, 3, 4),
    LENGTHS("conv_transpose2d", "padding", 2),
    CONV("conv_transpose3d", 3, 4, 5),
    LENGTHS("conv_transpose3d", "padding", 3),

    // ---- words ----
    TRIANGLE("linalg_eigh"),
    TRIANGLE("linalg_eigvalsh"),
    TRIANGLE("_linalg_eigh"),
    NORM_WORD("linalg_cond.p_str", "p"),
    NORM_WORD("linalg_norm.ord_str", "ord"),
    NORM_WORD("linalg_matrix_norm.str_ord", "ord"),
    ROUNDING("div.Tensor_mode"),
    ROUNDING("div.Scalar_mode"),
    ROUNDING("divide.Tensor_mode"),
    ROUNDING("divide.Scalar_mode"),
    {"gelu", "approximate != \"none\" && approximate != \"tanh\"", "approximate argument must be either none or tanh."},
    SIDE("searchsorted.Tensor"),
    SIDE("searchsorted.Scalar"),
    DRIVER("_linalg_svd"),
    DRIVER("linalg_svd"),
    DRIVER("linalg_svdvals"),

    // ---- kinds of numbers ----
    CONDITION("where.self"),
    CONDITION("where.ScalarSelf"),
    CONDITION("where.ScalarOther"),
    CONDITION("where.Scalar"),
    QUANTILE("quantile"),
    QUANTILE("nanquantile"),
    TARGETS("nll_loss"),
    TARGETS("nll_loss_forward"),
    TARGETS("nll_loss_nd"),
    {"cross_entropy_loss", "is_int(target) && target.dtype != i64 && target.dtype != u8",
     "expected target dtype to be Long or Byte"},
    ALIKE("huber_loss_backward", "grad_output", "self"),
    ALIKE("huber_loss_backward", "self", "target"),
    ALIKE("log_sigmoid_backward", "grad_output", "self"),
    ALIKE("log_sigmoid_backward", "self", "buffer"),
    ALIKE("binary_cross_entropy", "self", "target"),
    ALIKE("binary_cross_entropy_backward", "grad_output", "self"),
    ALIKE("binary_cross_entropy_backward", "self", "target"),
    ALIKE("_prelu_kernel", "self", "weight"),
    ALIKE("_prelu_kernel_backward", "grad_output", "self"),
    ALIKE("_prelu_kernel_backward", "self", "weight"),
    ALIKE("prelu", "self", "weight"),
    ALIKE("isclose", "self", "other"),
    ALIKE("allclose", "self", "other"),
    ALIKE("heaviside", "self", "values"),
    ALIKE("tensordot", "self", "other"),
    ALIKE("masked_select_backward", "grad", "input"),
    ALIKE("_softmax_backward_data", "grad_output", "output"),
    ALIKE("_log_softmax_backward_data", "grad_output", "output"),
    {"masked_select_backward", "mask.dtype != bool", "masked_scatter_ only supports boolean masks"},
    {"norm.ScalarOpt_dtype", "is_complex(self) || is_complex(dtype)", "norm(): a dtype is for real numbers only"},
    {"norm.ScalarOpt_dim_dtype", "is_complex(self) || is_complex(dtype)", "norm(): a dtype is for real numbers only"},
    REAL_CORRECTION("var"),
    REAL_CORRECTION("std"),
    REAL_CORRECTION("var_mean"),
    REAL_CORRECTION("std_mean"),
    {"nansum", "is_complex(self)", "nansum does not support complex inputs"},
    {"nanmean", "is_complex(self)", "nansum does not support complex inputs"},
    {"frexp.Tensor", "!is_float(self)", "torch.frexp() only supports floating-point dtypes"},
    {"one_hot", "self.dtype != i64", "one_hot is only applicable to index tensor of type LongTensor."},
    {"max_unpool2d", "indices.dtype != i64", "elements in indices should be type int64"},
    {"max_unpool3d", "indices.dtype != i64", "elements in indices should be type int64"},
    {"take_along_dim", "!is_none(dim) && indices.dtype != i64",
     "torch.take_along_dim(): dtype of indices should be Long"},
    {"index_copy", "index.dtype != i64", "index_copy_(): Expected a long tensor for index"},
    {"narrow.Tensor", "start.rank != 0 || !is_int(start) || start.dtype == bool",
     "start must be an 0-dim integral Tensor."},
    {"multinomial", "!is_float(self)", "multinomial only supports floating-point dtypes for input"},
    {"cosine_similarity", "is_int(promote(x1, x2))", "expected common dtype to be floating point"},
    {"positive", "self.dtype == bool", "The `+` operator, on a bool tensor is not supported."},
    {"argmin", "self.dtype == bool", "argmin(): does not support bool input"},
    {"argmax", "self.dtype == bool", "argmax(): does not support bool input"},
    {"topk", "self.dtype == bool", "topk does not support bool dtypes"},
    {"cov", "self.dtype == bool", "cov(): bool dtype is not supported for input"},
    {"corrcoef", "self.dtype == bool", "cov(): bool dtype is not supported for input"},
    {"gradient", "self.dtype == u8", "torch.gradient does not support uint8 input."},
    {"linalg_vander", "x.dtype == bool", "linalg.vander supports floating point, complex, and integer tensors"},
    {"mvlgamma", "self.dtype == bool", "The input tensor may not be a boolean tensor."},
    {"special_multigammaln", "self.dtype == bool", "The input tensor may not be a boolean tensor."},
    {"isin.Tensor_Tensor", "elements.dtype == bool || test_elements.dtype == bool",
     "Unsupported input type encountered for isin(): Bool"},
    {"cumulative_trapezoid.dx", "y.dtype == bool", "cumulative_trapezoid: received a bool input for `y`"},
    {"cumulative_trapezoid.x", "y.dtype == bool || x.dtype == bool", "cumulative_trapezoid: received a bool input"},
    {"linalg_pinv.atol_rtol_tensor", "if(is_none(atol), false, is_complex(atol))",
     "torch.linalg.pinv: atol tensor of complex type is not supported"},
    {"linalg_pinv.atol_rtol_tensor", "if(is_none(rtol), false, is_complex(rtol))",
     "torch.linalg.pinv: rtol tensor of complex type is not supported"},
    NOT_BOOL("abs", "self"),
    BOTH_BOOL("bitwise_left_shift", "self", "other"),
    BOTH_BOOL("bitwise_right_shift", "self", "other"),
    BOTH_BOOL("__lshift__.Tensor", "self", "other"),
    BOTH_BOOL("__rshift__.Tensor", "self", "other"),
    BOTH_BOOL("gcd", "self", "other"),
    BOTH_BOOL("lcm", "self", "other"),
    BOTH_BOOL("nextafter", "self", "other"),
    BOTH_BOOL("logaddexp2", "self", "other"),
    NOT_BOOLS("median.default", "self"),
    NOT_BOOLS("nanmedian.default", "self"),
    NOT_BOOL("median.dim", "self"),
    NOT_BOOL("nanmedian.dim", "self"),
    {"kthvalue", "self.dtype == bool && self.rank != 0", "\"kthvalue\" not implemented for 'Bool'"},
    {"searchsorted.Tensor", "sorted_sequence.dtype == bool && self.dtype == bool && self.numel != 0",
     "\"searchsorted\" not implemented for 'Bool'"},
    {"bucketize.Tensor", "boundaries.dtype == bool && self.dtype == bool && self.numel != 0",
     "\"searchsorted\" not implemented for 'Bool'"},
    NOT_BOOL("prelu", "self"),
    NOT_BOOL("_prelu_kernel_backward", "self"),
    NOT_BOOLS("replication_pad1d", "self"),
    NOT_BOOLS("replication_pad2d", "self"),
    NOT_BOOLS("replication_pad3d", "self"),
    NOT_BOOLS("reflection_pad1d", "self"),
    NOT_BOOLS("reflection_pad2d", "self"),
    NOT_BOOLS("reflection_pad3d", "self"),
    NOT_BOOLS("bernoulli.default", "self"),
    NOT_BOOLS("geometric", "self"),
    NOT_BOOLS("normal_functional", "self"),
    COUNTS("repeat_interleave.self_Tensor"),
    COUNTS("repeat_interleave.Tensor"),
    INTO("soft_margin_loss", "self", "promote(self, target)"),
    {"soft_margin_loss", "is_int(self)", "result type Float can't be cast to an integer output type"},
    INTO("soft_margin_loss_backward", "self", "promote(grad_output, target)"),
    {"soft_margin_loss_backward", "is_int(self)", "result type Float can't be cast to an integer output type"},
    {"glu_backward", "is_int(self)", "result type Float can't be cast to an integer output type"},
    INTO("huber_loss", "self", "target"),
    INTO("smooth_l1_loss_backward", "self", "promote(grad_output, target)"),
    INTO("mse_loss_backward", "self", "promote(grad_output, target)"),
    CONTIGUOUS("_weight_norm_differentiable_backward", "grad_w"),
    CONTIGUOUS("_weight_norm_differentiable_backward", "saved_v"),
    CONTIGUOUS("_weight_norm_differentiable_backward", "saved_g"),
    CONTIGUOUS("_weight_norm_differentiable_backward", "saved_norms"),
    FIRST_OR_LAST("_weight_norm_differentiable_backward", "saved_v"),
    CONTIGUOUS("_weight_norm_interface_backward", "saved_v"),
    CONTIGUOUS("_weight_norm_interface_backward", "saved_g"),
    CONTIGUOUS("_weight_norm_interface_backward", "saved_norms"),
    FIRST_OR_LAST("_weight_norm_interface_backward", "saved_v"),
    FIRST_OR_LAST("_weight_norm_interface", "v"),
    CONTIGUOUS("_pdist_forward", "self"),
    CONTIGUOUS("_pdist_backward", "self"),
    CONTIGUOUS("_pdist_backward", "pdist"),
    {"_pdist_backward", "grad.dtype != self.dtype || pdist.dtype != self.dtype", "expected tensors of the same dtype"},
    ALIKE("_euclidean_dist", "x1", "x2"),
    {"_euclidean_dist", "x1.size(-1) != x2.size(-1)", "mat1 and mat2 shapes cannot be multiplied"},
    POOLED("max_pool2d_with_indices_backward", 2),
    POOLED("max_pool3d_with_indices_backward", 3),
    ALIKE("adaptive_max_pool2d_backward", "grad_output", "self"),
    ALIKE("adaptive_max_pool3d_backward", "grad_output", "self"),
    {"_conj_copy", "!is_complex(self)", "only complex tensors are conjugated by a bit"},
    {"randint_like.default", "if(is_none(dtype), is_complex(self), is_complex(dtype))",
     "check_random_bounds handles only integral, floating-point and boolean types"},
    {"randint_like.low_dtype", "if(is_none(dtype), is_complex(self), is_complex(dtype))",
     "check_random_bounds handles only integral, floating-point and boolean types"},
    REDUCE("scatter_reduce.two", "reduce == \"add\" || reduce == \"multiply\"", "sum, prod, mean, amax and amin"),
    REDUCE("index_reduce", "reduce == \"add\" || reduce == \"sum\"", "prod, mean, amax and amin"),
    PAIR_OF_DIMS("linalg_matrix_norm.str_ord"),
    {"linalg_norm.ord_str", "if(is_none(dim), false, len(dim) != 2)", "linalg.matrix_norm: dim must be a 2-tuple"},
    {"linalg_norm.ord_str", "self.rank < 2", "linalg.matrix_norm: The input tensor A must have at least 2 dimensions."},
    {"adaptive_avg_pool1d", "is_int(self) && output_size[0] == 1",
     "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype."},
    INTS("adaptive_max_pool2d", "output_size", 2),
    INTS("adaptive_max_pool3d", "output_size", 3),
    {"renorm", "self.rank < 2", "renorm: input needs at least 2 dimensions"},
    {"repeat_interleave.self_int",
     "if(is_none(output_size), false, output_size != repeats * if(is_none(dim), self.numel, self.size(dim)))",
     "repeat_interleave: Invalid output_size"},
    {"cross_entropy_loss", "is_float(target) && ignore_index >= 0",
     "ignore_index is not supported for floating point target"},
    {"pad", "mode != \"constant\" && if(is_none(value), false, value != 0.0)",
     "this padding mode doesn't take in a value argument"},
    {"linalg_matrix_rank.atol_rtol_tensor", "if(is_none(atol), false, is_complex(atol))",
     "torch.linalg.matrix_rank: atol tensor of complex type is not supported"},
    {"linalg_matrix_rank.atol_rtol_tensor", "if(is_none(rtol), false, is_complex(rtol))",
     "torch.linalg.matrix_rank: rtol tensor of complex type is not supported"},
    {"cdist", "!(p >= 0.0)", "cdist only supports non-negative p values"},
    {"_cdist_forward", "!(p >= 0.0)", "cdist only supports non-negative p values"},
    {"linalg_cross", "self.rank == 0", "Dimension specified as -1 but tensor has no dimensions"},
    INTS("max_unpool3d", "stride", 3),
    INTS("max_unpool3d", "padding", 3),
    {"max_unpool3d", "stride[0] < 1 || stride[1] < 1 || stride[2] < 1", "strides should be greater than zero"},
    {"linalg_vander", "x.dtype == f16 || x.dtype == bf16",
     "linalg.vander supports floating point, complex, and integer tensors"},
    {"rot90", "dims[0] == dims[1] || dims[0] - dims[1] == self.rank || dims[1] - dims[0] == self.rank",
     "expected rotation dims to be different"},
    NOT_BOOL("trunc", "self"),
    NOT_BOOL("frac", "self"),
    NOT_BOOL("floor", "self"),
    NOT_BOOL("ceil", "self"),
    NOT_BOOL("round", "self"),
    NOT_BOOL("trace", "self"),
    NOT_BOOL("igamma", "self"),
    NOT_BOOL("igammac", "self"),
    NOT_BOOL("special_gammainc", "self"),
    NOT_BOOL("special_gammaincc", "self"),
    WINDOW("hann_window"),
    WINDOW("hamming_window"),
    WINDOW("blackman_window"),
    WINDOW("bartlett_window"),
    WINDOW("kaiser_window"),
    FLOATS_ONLY("exponential"),
    FLOATS_ONLY("cauchy"),
    FLOATS_ONLY("log_normal"),
    {"normal.float_Tensor", "is_complex(std)", "normal expects standard deviation to be non-complex"},
    {"normal.Tensor_Tensor", "is_complex(std)", "normal expects standard deviation to be non-complex"},

    // ---- values of numbers ----
    CHANCE("dropout"),
    CHANCE("feature_dropout"),
    CHANCE("alpha_dropout"),
    CHANCE("feature_alpha_dropout"),
    {"bernoulli.p", "!(p >= 0.0 && p <= 1.0)", "bernoulli_ expects p to be in [0, 1]"},
    {"geometric", "!(p > 0.0 && p < 1.0)", "geometric_ expects p to be in (0, 1)"},
    {"exponential", "!(lambd > 0.0)", "exponential_ expects lambda > 0.0"},
    {"log_normal", "!(std > 0.0)", "log_normal_ expects std > 0.0"},
    {"normal.Tensor_float", "!(std >= 0.0)", "normal expects std >= 0.0"},
    {"normal.float_float", "!(std >= 0.0)", "normal expects std >= 0.0"},
    {"uniform", "from > to", "uniform_ expects to return a [from, to) range, but from > to"},
    BOUNDS("randint.default", "0", "high"),
    BOUNDS("randint.low", "low", "high"),
    BOUNDS("randint_like.default", "0", "high"),
    BOUNDS("randint_like.low_dtype", "low", "high"),
    BOUNDS("random.to", "0", "to"),
    {"random.from", "if(is_none(to), false, from >= to)", "random_ expects 'from' to be less than 'to'"},
    {"renorm", "!(float(p) > 0.0)", "renorm: non-positive-norm not supported"},
    {"renorm", "float(maxnorm) < 0.0", "renorm: expected maxnorm to be >= 0"},
    {"huber_loss", "!(delta > 0.0)", "huber_loss does not support non-positive values for delta."},
    {"smooth_l1_loss", "beta < 0.0", "smooth_l1_loss does not support negative values for beta."},
    {"celu", "float(alpha) == 0.0", "ZeroDivisionError: alpha cannot be 0 for CELU"},
    {"rrelu", "float(lower) > float(upper)", "Lower bound should be less than or equal to the upper bound"},
    {"softshrink", "!(float(lambd) >= 0.0)", "lambda must not be negative"},
    {"leaky_relu_backward", "self_is_result && float(negative_slope) < 0.0",
     "In-place leakyReLu backward calculation is triggered with a negative slope which is not supported."},
    {"elu_backward", "is_result && float(alpha) < 0.0",
     "In-place elu backward calculation is triggered with a negative slope which is not supported."},
    {"mvlgamma", "p < 1", "p has to be greater than or equal to 1"},
    {"special_multigammaln", "p < 1", "p has to be greater than or equal to 1"},
    {"arange.default", "float(end) < 0.0", "upper bound and lower bound inconsistent with step sign"},
    {"arange.start", "float(start) > float(end)", "upper bound and lower bound inconsistent with step sign"},
    {"arange.start_step", "if(float(step) > 0.0, float(start) > float(end), float(start) < float(end))",
     "upper bound and lower bound inconsistent with step sign"},
    {"instance_norm", "!use_input_stats && (is_none(running_mean) || is_none(running_var))",
     "Expected running_mean and running_var to be defined when use_input_stats is false"},

    // ---- ranks, sizes and lengths ----
    SQUARE_ALSO_AS("det", "self"),
    SQUARE_ALSO_AS("slogdet", "self"),
    SQUARE("logdet", "self"),
    SQUARE("matrix_power", "self"),
    SQUARE("linalg_matrix_power", "self"),
    {"linalg_polar", "A.size(-2) < A.size(-1)", "linalg.polar: input must have at least as many rows as columns"},
    {"linalg_norm", "!is_none(ord) && is_none(dim) && self.rank != 1 && self.rank != 2",
     "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D."},
    {"linalg_norm.ord_str", "is_none(dim) && self.rank != 2",
     "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D."},
    {"frobenius_norm.dim", "len(dim) > 2", "Expected at most 2 dimensions"},
    {"logsumexp", "len(dim) == 0 && self.rank > 0", "logsumexp needs a dimension to reduce"},
    {"special_logsumexp", "len(dim) == 0 && self.rank > 0", "logsumexp needs a dimension to reduce"},
    {"max.default", "self.numel == 0", "max(): Expected reduction dim to be specified for an empty input"},
    {"min.default", "self.numel == 0", "min(): Expected reduction dim to be specified for an empty input"},
    {"amin", "len(dim) == 0 && self.numel == 0", "amin(): Expected reduction dim to be specified for an empty input"},
    {"amax", "len(dim) == 0 && self.numel == 0", "amax(): Expected reduction dim to be specified for an empty input"},
    {"pdist", "self.rank != 2", "pdist only supports 2D tensors"},
    {"_pdist_forward", "self.rank != 2", "pdist only supports 2D tensors"},
    MODE("cdist"),
    MODE("_cdist_forward"),
    THREE("linalg_cross"),
    THREE("cross"),
    {"vander", "x.rank != 1", "x must be a one-dimensional tensor."},
    {"linalg_vander", "if(is_none(N), if(x.rank == 0, true, x.size(-1) < 2), N < 2)", "N must be greater than 1."},
    {"inner", "self.size(-1) != other.size(-1)", "inner() the last dimension must match on both input tensors"},
    {"addr", "vec1.rank != 1 || vec2.rank != 1", "addr: Expected 1-D arguments vec1 and vec2"},
    {"bilinear", "input1.size(-1) != weight.size(1)", "bilinear(): input1 size does not match weight size"},
    {"bilinear", "input2.size(-1) != weight.size(2)", "bilinear(): input2 size does not match weight size"},
    {"ormqr", "other.rank != self.rank", "torch.ormqr: Expected other to have the same number of dimensions as input"},
    {"kthvalue", "if(self.rank == 0, k != 1, k < 1 || k > self.size(dim))",
     "kthvalue(): selected number k out of range"},
    {"topk", "if(self.rank == 0, k < 0 || k > 1, k < 0 || k > self.size(dim))", "selected index k out of range"},
    {"flipud", "self.rank < 1", "Input must be >= 1-d."},
    {"rot90", "self.rank < 2", "expected total dims >= 2"},
    INTS("rot90", "dims", 2),
    {"take", "self.numel == 0 && index.numel != 0", "take(): tried to take from an empty tensor"},
    {"repeat_interleave.self_Tensor", "self.rank == 0 && !is_none(dim)",
     "a dimension is specified but the tensor has no dimensions"},
    {"repeat_interleave.self_Tensor",
     "if(repeats.rank == 0, false, repeats.size(0) != 1 && repeats.size(0) != "
     "if(is_none(dim), self.numel, self.size(dim)))",
     "repeats must have the same size as input along dim"},
    {"searchsorted.Tensor",
     "sorted_sequence.rank != 1 && part(sorted_sequence.sizes, 0, -1) != part(self.sizes, 0, -1)",
     "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor "
     "and "
     "input value tensor must match"},
    {"_pad_circular", "len(pad) // 2 != self.rank - 1 && len(pad) // 2 != self.rank - 2",
     "Invalid padding size, expected 1 or 2 non-padded dimensions"},
    {"glu", "self.size(dim) % 2 != 0", "Halving dimension must be even"},
    {"glu_backward", "self.size(dim) % 2 != 0", "Halving dimension must be even"},
    {"glu_backward", "grad_output.size(dim) * 2 != self.size(dim)",
     "grad_output must be half of self along the dimension"},
    {"prelu", "weight.rank > 1", "prelu: Expected `weight` to be a scalar or 1D tensor"},
    {"prelu", "weight.numel != 1 && weight.numel != if(self.rank < 2, 1, self.size(1))",
     "Mismatch of parameter numbers and input channel size."},
    {"cosine_embedding_loss", "target.rank > 1", "0D or 1D target tensor expected, multi-target not supported"},
    {"cosine_embedding_loss", "input1.rank != target.rank + 1",
     "a target of one dimension less than the inputs is expected"},
    CLASSES("multi_margin_loss"),
    CLASSES("multilabel_margin_loss"),
    {"embedding_dense_backward", "grad_output.numel != indices.numel * grad_output.size(-1)",
     "grad_output does not have a row for each index"},
    {"native_layer_norm_backward", "len(normalized_shape) == 0",
     "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element"},
    {"native_layer_norm_backward",
     "if(input.rank < len(normalized_shape), true, part(input.sizes, input.rank - len(normalized_shape), input.rank) "
     "!= "
     "normalized_shape)",
     "expected input's last sizes to be normalized_shape"},
    AFFINE("native_layer_norm_backward", "weight"),
    AFFINE("native_layer_norm_backward", "bias"),
    {"native_group_norm", "C < 1", "Expected number of channels to be greater than 0"},
    {"native_group_norm", "HxW < 1", "Expected HxW to be greater than 0"},
    {"native_group_norm", "N != 0 && input.numel != N * C * HxW", "Expected X.numel() == N * C * HxW to be true"},
    {"group_norm", "input.size(1) < 1", "Expected number of channels to be greater than 0"},
    CONVOLUTION("convolution"),
    CONVOLUTION("convolution_backward"),
    FLOATS("_adaptive_avg_pool2d_backward", "\"adaptive_avg_pool2d_backward\" not implemented for integers"),
    FLOATS("_adaptive_avg_pool3d_backward", "\"adaptive_avg_pool3d_backward\" not implemented for integers"),
    INTS("adaptive_avg_pool1d", "output_size", 1),
    INTS("adaptive_max_pool1d", "output_size", 1),
    INTS("adaptive_avg_pool2d", "output_size", 2),
    INTS("_adaptive_avg_pool2d", "output_size", 2),
    INTS("adaptive_avg_pool3d", "output_size", 3),
    INTS("_adaptive_avg_pool3d", "output_size", 3),
    INTS("avg_pool1d", "kernel_size", 1),
    INTS("max_pool1d", "kernel_size", 1),
    INTS("max_pool1d_with_indices", "kernel_size", 1),
    SAMPLED("grid_sampler_2d", 2),
    SAMPLED("grid_sampler_3d", 3),
    SAMPLED("grid_sampler_2d_backward", 2),
    SAMPLED("grid_sampler_3d_backward", 3),
    {"_scaled_dot_product_flash_attention_for_cpu", "dropout_p > 0.0",
     "scaled_dot_product_attention_flash_attention: Currently do not support dropout > 0"},
    ATTENTION("_scaled_dot_product_flash_attention_for_cpu_backward"),
    {"_linalg_cofactors", "A.sizes != LU.sizes || A.dtype != LU.dtype", "LU must be the factors of A"},
    {"_softmax_backward_data", "grad_output.sizes != output.sizes", "expected grad and output to have the same size"},
    DIM_OF("index_select_backward", "self_sizes"),
    {"index_select_backward", "index.rank > 1", "index_add_(): Index is supposed to be a vector"},
    {"index_select_backward", "index.dtype != i32 && index.dtype != i64",
     "index_add_(): Expected dtype int32/int64 for index"},
    DIM_OF("unfold_backward", "input_sizes"),
    {"unfold_backward", "step < 1", "step must be > 0"},
    {"trace_backward", "len(sizes) != 2", "expected matrix input"},
    {"trace_backward", "grad.rank != 0", "index_fill_ only supports a 0-dimensional value tensor"},
    CELL("rnn_tanh_cell", 1, "hx"),
    CELL("rnn_relu_cell", 1, "hx"),
    CELL("gru_cell", 3, "hx"),
    CELL("lstm_cell", 4, "hx[0]"),
};
const tc_op_family tc_ops_restrictions = {TC_OP_NO_TABLE, TC_OP_NO_TABLE, TC_OP_NO_TABLE, TC_OP_TABLE(restrictions)};
