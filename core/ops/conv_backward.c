// Derivatives of convolutions and of maximum pooling, in terms of other ops.
//
// By the input: the transposed convolution of the gradient (and the other way round), with as much output padding as
// the input's size asks for. By the weight: Σ over samples and positions of gradient · input is a convolution too, in
// which samples are the channels, the gradient is the kernel, and stride and dilation change places; what it makes
// beyond the kernel's size is cut off. Of a transposed convolution, input and gradient change places. By the bias: a
// sum. A maximum gets the gradient where it stood.
#include "core/ops/ops.h"

enum { GRAD, INPUT, WEIGHT, BIAS_SIZES, STRIDE, PADDING, DILATION, TRANSPOSED, OUTPUT_PADDING, GROUPS, MASK };
enum { MAX_SPACE = 3 };

static tc_int number_at(tc_op_args *a, int32_t arg, int32_t i) {
  return tc_op_sym_at(a, arg, tc_op_count(a, arg) == 1 ? 0 : i);
}

static tc_gv with_ints(tc_op_args *a, const char *op, tc_gv x, int32_t n, const tc_int *v) {
  tc_ex_begin(a, op);
  tc_ex_push(a, x);
  tc_ex_push_ints(a, n, v);
  return tc_ex_make(a, 1, NULL);
}

static tc_gv convolution(tc_op_args *a, tc_gv x, tc_gv w, int32_t n, const tc_int *stride, const tc_int *padding,
                         const tc_int *dilation, bool transposed, const tc_int *output_padding, tc_int groups) {
  tc_ex_begin(a, "aten::convolution");
  tc_ex_push(a, x);
  tc_ex_push(a, w);
  tc_ex_push_none(a);
  tc_ex_push_ints(a, n, stride);
  tc_ex_push_ints(a, n, padding);
  tc_ex_push_ints(a, n, dilation);
  tc_ex_push_bool(a, transposed);
  tc_ex_push_ints(a, n, output_padding);
  tc_ex_push_int(a, groups);
  return tc_ex_make(a, 1, NULL);
}

// [b, g·c, …] → [c, g·b, …]: the channels of each group become the batch.
static tc_gv swap_batch(tc_op_args *a, tc_gv x, const tc_tensor_type *t, tc_int groups) {
  int32_t n = t->rank - 2;
  tc_int per_group = tc_int_floordiv(a, t->sizes[1], groups), split[MAX_SPACE + 3] = {t->sizes[0], groups, per_group},
         order[MAX_SPACE + 3] = {tc_int_const(a, 2), tc_int_const(a, 1), tc_int_const(a, 0)}, joined[MAX_SPACE + 2];
  joined[0] = per_group, joined[1] = tc_int_mul(a, groups, t->sizes[0]);
  for (int32_t i = 0; i < n; i++) split[3 + i] = joined[2 + i] = t->sizes[2 + i], order[3 + i] = tc_int_const(a, 3 + i);
  return with_ints(a, "aten::reshape",
                   with_ints(a, "aten::permute", with_ints(a, "aten::reshape", x, n + 3, split), n + 3, order), n + 2,
                   joined);
}

// The first of each space dimension's positions.
static tc_gv cut(tc_op_args *a, tc_gv v, int32_t n, const tc_int *sizes) {
  for (int32_t i = 0; i < n; i++) {
    tc_ex_begin(a, "aten::slice.Tensor");
    tc_ex_push(a, v);
    tc_ex_push_int(a, tc_int_const(a, 2 + i));
    tc_ex_push_int(a, tc_int_const(a, 0));
    tc_ex_push_int(a, sizes[i]);
    v = tc_ex_make(a, 1, NULL);
  }
  return v;
}

// Σ x[b, g·i + c, p·stride + k·dilation - padding] · y[b, g·o + d, p] as [g·o, i, k].
static tc_gv by_weight(tc_op_args *a, int32_t x, int32_t y, const tc_int *stride, const tc_int *padding,
                       const tc_int *dilation, tc_int groups) {
  const tc_tensor_type *w = tc_op_tensor(a, WEIGHT);
  int32_t n = w->rank - 2;
  tc_int order[MAX_SPACE + 2] = {tc_int_const(a, 1), tc_int_const(a, 0)}, none[MAX_SPACE];
  for (int32_t i = 0; i < n; i++) order[2 + i] = tc_int_const(a, 2 + i), none[i] = tc_int_const(a, 0);
  tc_gv input = swap_batch(a, tc_ex_arg(a, x), tc_op_tensor(a, x), groups),
        kernel = with_ints(a, "aten::permute", tc_ex_arg(a, y), n + 2, order),
        v = convolution(a, input, kernel, n, dilation, padding, stride, false, none, groups);
  v = cut(a, v, n, w->sizes + 2);
  v = with_ints(a, "aten::permute", v, n + 2, order);
  tc_ex_begin(a, "aten::contiguous");
  tc_ex_push(a, v);
  return tc_ex_make(a, 1, NULL);
}

static int32_t convolution_backward_expand(tc_op_args *a) {
  const tc_tensor_type *g = tc_op_tensor(a, GRAD), *x = tc_op_tensor(a, INPUT), *w = tc_op_tensor(a, WEIGHT);
  int32_t n = w->rank - 2;
  if (n < 1 || n > MAX_SPACE || x->rank != w->rank || g->rank != w->rank)
    return tc_op_fail(a, "expected gradient, input and weight of one rank: %s, %s and %s", tc_op_shape_text(a, GRAD),
                      tc_op_shape_text(a, INPUT), tc_op_shape_text(a, WEIGHT));
  if (tc_int_lt(a, w->sizes[0], tc_op_sym(a, GROUPS)) == 1)
    return tc_op_fail(a, "expected the weight %s to be at least groups at dimension 0", tc_op_shape_text(a, WEIGHT));
  bool transposed = tc_op_bool(a, TRANSPOSED, 0);
  // No element, no gradient; channels that are the batch of a convolution, or none, would give that no channels either.
  bool none = tc_sym_is_int(tc_op_numel(a, g), 0);
  for (int32_t i = INPUT; none && i <= WEIGHT; i++)
    if (tc_op_bool_at(a, MASK, i - INPUT, 0))
      tc_ex_result(a, i - INPUT, with_ints(a, "aten::new_zeros", tc_ex_arg(a, i), w->rank, tc_op_tensor(a, i)->sizes));
  tc_int stride[MAX_SPACE], padding[MAX_SPACE], dilation[MAX_SPACE], extra[MAX_SPACE], one = tc_int_const(a, 1),
                                                                                       groups = tc_op_sym(a, GROUPS);
  for (int32_t i = 0; i < n; i++) {
    stride[i] = number_at(a, STRIDE, i), padding[i] = number_at(a, PADDING, i), dilation[i] = number_at(a, DILATION, i);
    tc_int reach = tc_int_mul(a, dilation[i], tc_int_sub(a, w->sizes[2 + i], one));
    tc_int made = tc_int_add(a, tc_int_mul(a, tc_int_sub(a, g->sizes[2 + i], one), stride[i]),
                             tc_int_sub(a, tc_int_add(a, reach, one), tc_int_mul(a, padding[i], tc_int_const(a, 2))));
    extra[i] = transposed ? tc_int_const(a, 0) : tc_int_sub(a, x->sizes[2 + i], made);
  }
  if (!none && tc_op_bool_at(a, MASK, 0, 0)) {
    tc_gv v = convolution(a, tc_ex_arg(a, GRAD), tc_ex_arg(a, WEIGHT), n, stride, padding, dilation, !transposed, extra,
                          groups);
    // Output padding of a stride or more makes positions that no input had.
    tc_ex_result(a, 0, transposed ? cut(a, v, n, x->sizes + 2) : v);
  }
  if (!none && tc_op_bool_at(a, MASK, 1, 0))
    tc_ex_result(a, 1,
                 by_weight(a, transposed ? GRAD : INPUT, transposed ? INPUT : GRAD, stride, padding, dilation, groups));
  if (tc_op_bool_at(a, MASK, 2, 0)) {
    tc_int dims[MAX_SPACE + 1] = {tc_int_const(a, 0)};
    for (int32_t i = 0; i < n; i++) dims[1 + i] = tc_int_const(a, 2 + i);
    tc_ex_result(a, 2, with_ints(a, "aten::sum.dim_IntList", tc_ex_arg(a, GRAD), n + 1, dims));
  }
  return TC_STATUS_OK;
}

// ---- maximum pooling: the last `n` dimensions of the input are a plane, which indices count through ----
static int32_t max_backward_expand(tc_op_args *a) {
  const tc_tensor_type *x = tc_op_tensor(a, 1);
  int32_t ids = tc_op_arg_index(a, "indices"), n = 2;
  for (size_t i = 0; i + 1 < a->op->schema.name.size; i++)
    if (a->op->schema.name.data[i] == '3' && a->op->schema.name.data[i + 1] == 'd') n = 3;
  int32_t lead = x->rank - n;
  const tc_tensor_type *t = tc_op_tensor(a, ids);
  if (lead < 1 || t->rank != x->rank)
    return tc_op_fail(a, "input and indices do not fit: %s and %s", tc_op_shape_text(a, 1), tc_op_shape_text(a, ids));
  tc_int plane[TC_MAX_RANK], pooled[TC_MAX_RANK];
  for (int32_t d = 0; d < lead; d++) plane[d] = pooled[d] = x->sizes[d];
  plane[lead] = pooled[lead] = tc_int_const(a, 1);
  for (int32_t d = lead; d < x->rank; d++)
    plane[lead] = tc_int_mul(a, plane[lead], x->sizes[d]), pooled[lead] = tc_int_mul(a, pooled[lead], t->sizes[d]);
  tc_gv where = with_ints(a, "aten::reshape", tc_ex_arg(a, ids), lead + 1, pooled),
        grad = with_ints(a, "aten::reshape", tc_ex_arg(a, 0), lead + 1, pooled),
        zeros = with_ints(a, "aten::new_zeros", tc_ex_arg(a, 0), lead + 1, plane);
  tc_ex_begin(a, "aten::scatter_add");
  tc_ex_push(a, zeros);
  tc_ex_push_int(a, tc_int_const(a, lead));
  tc_ex_push(a, where);
  tc_ex_push(a, grad);
  tc_ex_result(a, 0, with_ints(a, "aten::reshape", tc_ex_make(a, 1, NULL), x->rank, x->sizes));
  return TC_STATUS_OK;
}

#define MAX_BACKWARD(s) {.schema = s, .expand = max_backward_expand}
static const tc_op_def rows[] = {
    {.schema = "convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, SymInt[] "
               "stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, "
               "bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
     .traits = TC_OP_COMPLEX,
     .expand = convolution_backward_expand},
    MAX_BACKWARD("max_pool2d_with_indices_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, "
                 "int[2] padding, int[2] dilation, bool ceil_mode, Tensor indices) -> Tensor"),
    MAX_BACKWARD("max_pool3d_with_indices_backward(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] stride, "
                 "int[3] padding, int[3] dilation, bool ceil_mode, Tensor indices) -> Tensor"),
    MAX_BACKWARD("adaptive_max_pool2d_backward(Tensor grad_output, Tensor self, Tensor indices) -> Tensor"),
    MAX_BACKWARD("adaptive_max_pool3d_backward(Tensor grad_output, Tensor self, Tensor indices) -> Tensor"),
    MAX_BACKWARD("fractional_max_pool2d_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] "
                 "output_size, Tensor indices) -> Tensor"),
    MAX_BACKWARD("fractional_max_pool3d_backward(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] "
                 "output_size, Tensor indices) -> Tensor"),
};
TC_OP_FAMILY(conv_backward);
