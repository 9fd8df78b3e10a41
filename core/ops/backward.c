// Backward ops that occur in graphs by themselves, as texts. Definitions: the derivatives of the forward ops; where the
// row of the forward op has a derivative, that is taken.
#include "core/ops/ops.h"

// In the dtype that both promote to, which must be of floats.
static int32_t slope_meta(tc_op_args *a) {
  if (tc_meta_promote_tensors(a)) return TC_STATUS_INVALID_ARGUMENT;
  return tc_op_needs_floats(a, tc_op_result_type(a, 0)->dtype);
}
// In self's type.
static int32_t mish_meta(tc_op_args *a) {
  const int32_t both[] = {0, 1};
  tc_dtype d = tc_op_tensor(a, 1)->dtype;
  if (tc_op_needs_floats(a, d)) return TC_STATUS_INVALID_ARGUMENT;
  return tc_op_converted_result(a, 0, d, tc_op_promote(a, 2, both), 2, both);
}
static int32_t swapped_slope_meta(tc_op_args *a) {
  if (tc_meta_promote_swapped(a)) return TC_STATUS_INVALID_ARGUMENT;
  return tc_op_needs_floats(a, tc_op_result_type(a, 0)->dtype);
}

#define TEXT(s, d) {.schema = s, .decompose = d}
#define CTEXT(s, d) {.schema = s, .traits = TC_OP_COMPLEX, .decompose = d}
// 16-bit floats are computed in f32 and rounded once.
#define WIDENED(x) "to(" x ", wide(grad_output.dtype))"
#define NARROWED(x) "to(" x ", grad_output.dtype)"
#define OF_SELF(x) "to(" x ", wide(self.dtype))"
// `d` in channels-last order where self is.
#define LIKE_SELF                                                                                                 \
  "contiguous(d, memory_format=if(self.rank < 4, contiguous_format, if(self.stride(1) == 1 && self.size(1) > 1, " \
  "if(self.rank == 4, channels_last, channels_last_3d), contiguous_format)))"
// In the type that both promote to, in the order of dimensions that they give.
#define BOTH(x) \
  "let d = promote(grad_output, " x "); let w = wide(d); let g = to(grad_output, w); let x = to(" x ", w);"
#define POINTWISE(s, t, text) {.schema = s, .traits = t, .meta = slope_meta, .decompose = text}
#define POINT(op, schema, names) POINTWISE(schema, 0, SLOPE(op, "self", "self=x" names))
// The same with self before the gradient.
#define POINT_OF_SELF(op, s, names) \
  {.schema = s, .meta = swapped_slope_meta, .decompose = SLOPE(op, "self", "self=x" names)}
#define SLOPE(op, x, names) BOTH(x) "to(derivative(\"" op "\", \"self\", grad=g, " names "), d)"
// Where only the sizes of the input are given.
#define EMPTY "new_empty(grad_output, input_size)"
#define SPACE_1 "1", "3"
#define SPACE_2 "2", "4"
#define SPACE_3 "3", "5"
// The gradient has the sizes of the output.
#define FITS(rank, sizes)                                                                                       \
  "len(output_size) == " rank " - 2 && len(input_size) == " rank " && grad_output.rank == " rank                \
  " && grad_output.size(0) == input_size[0] && grad_output.size(1) == input_size[1] && grad_output.size(2) == " \
  "output_size[0]" sizes
#define FITS_1 FITS("3", "")
#define FITS_2 FITS("4", " && grad_output.size(3) == output_size[1]")
#define FITS_3 FITS("5", " && grad_output.size(3) == output_size[1] && grad_output.size(4) == output_size[2]")
#define RESIZED_AS(as, op, d, names, numbers) RESIZED(as, op, SPACE_##d, FITS_##d, names SCALES_##d, numbers BY_##d)
#define RESIZED(...) RESIZED_ROW(__VA_ARGS__)
#define RESIZED_ROW(as, op, n, in, fits, names, numbers)                                                              \
  TEXT(op "_backward(Tensor grad_output, SymInt[" n "] output_size, SymInt[" in "] input_size, " names ") -> Tensor", \
       "if(" fits ", " as(NARROWED("derivative(\"" op "\", \"self\", grad=grad_output, self=" EMPTY numbers           \
                                   ")")) ", fail(\"the gradient does not have the sizes of the output\"))")
#define ROW_MAJOR(x) x
// Channels are innermost where they are in what comes in.
#define CHANNELS(x, format)                                                                           \
  "contiguous(" x ", memory_format=if(grad_output.stride(1) == 1 && grad_output.size(1) > 1, " format \
  ", contiguous_format))"
#define CHANNELS_2(x) CHANNELS(x, "channels_last")
#define CHANNELS_3(x) CHANNELS(x, "channels_last_3d")
#define SCALES_1 "float? scales=None"
#define SCALES_2 "float? scales_h=None, float? scales_w=None"
#define SCALES_3 "float? scales_d=None, float? scales_h=None, float? scales_w=None"
#define BY_1 ", scales=scales"
#define BY_2 ", scales_h=scales_h, scales_w=scales_w"
#define BY_3 ", scales_d=scales_d, scales_h=scales_h, scales_w=scales_w"
#define ALIGN "bool align_corners, "
#define BY_ALIGN ", align_corners=align_corners"
#define PADDED(op, n)                                                                     \
  CTEXT(op "_backward(Tensor grad_output, Tensor self, SymInt[" n "] padding) -> Tensor", \
        "let d = derivative(\"" op "\", \"self\", grad=grad_output, self=self, padding=padding);" LIKE_SELF)
#define LOSS(text, name, arguments, slope)                                                            \
  text(name "_backward(Tensor grad_output, Tensor self, Tensor target, " arguments ") -> Tensor",     \
       "let x = " OF_SELF("self") "; let t = " OF_SELF("target") "; let g = " OF_SELF(                \
           "grad_output") "; let d = mul(" slope                                                      \
                          ", g); let s = to(if(reduction == 1, div(d, self.numel), d), self.dtype); " \
                          "if(s.sizes == self.sizes, contiguous(s), s)")
#define NLL(name)                                                                                                      \
  TEXT(                                                                                                                \
      name "_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int reduction, SymInt "          \
           "ignore_index, Tensor total_weight) -> Tensor",                                                             \
      "let c = if(self.rank == 1, 0, 1); let counts = ne(target, ignore_index); let t = to(where(counts, target, 0), " \
      "i64); let w = where(counts, if(is_none(weight), ones([], dtype=self.dtype), index(weight, [t])), 0);"           \
      "let g = if(reduction == 1, div(grad_output, total_weight), grad_output);"                                       \
      "scatter(new_zeros(self, self.sizes), c, unsqueeze(t, c), unsqueeze(neg(mul(w, g)), c))")
#define WIDE "let d = grad_out.dtype; let w = wide(d); let g = to(grad_out, w); let x = to(input, w);"
#define BATCH(arg)                                                             \
  "derivative(\"native_batch_norm\", \"" arg                                   \
  "\", grad=grad_out, input=input, weight=weight, running_mean=running_mean, " \
  "running_var=running_var, training=train, eps=eps, result1=save_mean, result2=save_invstd)"
// In memory the heads of a row lie side by side.
#define ROWS(x) "transpose(contiguous(transpose(to(" x ", d), 1, 2)), 1, 2)"
#define ZEROS "new_zeros(grad_output, input_sizes)"
static const tc_op_def rows[] = {
    CTEXT("native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor",
          "mul(mul(grad_output, mask), scale)"),
    TEXT("_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor",
         "let p = to(output, wide(output.dtype)); let g = mul(to(grad_output, wide(output.dtype)), p);"
         "contiguous(to(sub(g, mul(p, sum(g, [dim], true))), grad_output.dtype))"),
    TEXT("_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor",
         "let y = to(output, wide(output.dtype)); let g = to(grad_output, wide(output.dtype));"
         "contiguous(to(sub(g, mul(exp(y), sum(g, [dim], true))), grad_output.dtype))"),
    // Rows of n normalised elements; dx = rstd·(g - mean(g) - x̂·mean(g·x̂)) with g = grad·weight.
    TEXT("native_layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] normalized_shape, Tensor mean, Tensor "
         "rstd, "
         "Tensor? weight, Tensor? bias, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
         WIDE "let rows = mean.numel; let size = [rows, input.numel // rows]; let gr = reshape(g, size); let r = "
              "reshape(to(rstd, w), [rows, 1]); let h = mul(sub(reshape(x, size), reshape(to(mean, w), [rows, 1])), r);"
              "let gw = if(is_none(weight), gr, mul(gr, reshape(to(weight, w), [-1])));"
              "let dx = mul(sub(sub(gw, mean(gw, [1], true)), mul(h, mean(mul(gw, h), [1], true))), r);"
              "if(output_mask[0], to(reshape(dx, input.sizes), d), none), if(output_mask[1] && !is_none(weight), "
              "to(reshape(sum(mul(gr, h), [0]), normalized_shape), weight.dtype), none), if(output_mask[2] && "
              "!is_none(bias), to(reshape(sum(gr, [0]), normalized_shape), bias.dtype), none)"),
    TEXT(
        "native_group_norm_backward(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, Tensor? weight, SymInt N, "
        "SymInt C, SymInt HxW, int group, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
        WIDE
        "let rows = [N, group, C // group * HxW]; let image = [N, C, HxW]; let r = unsqueeze(to(reshape(rstd, [N, "
        "group]), w), -1); let h = mul(sub(reshape(x, rows), unsqueeze(to(reshape(mean, [N, group]), w), -1)), r);"
        "let gi = reshape(g, image); let gw = reshape(if(is_none(weight), gi, mul(gi, reshape(to(weight, w), [1, C, "
        "1]))), rows); let dx = mul(sub(sub(gw, mean(gw, [2], true)), mul(h, mean(mul(gw, h), [2], true))), r);"
        "if(output_mask[0], to(reshape(dx, input.sizes), d), none), if(output_mask[1], to(sum(mul(gi, reshape(h, "
        "image)), [0, 2]), d), none), if(output_mask[2], to(sum(gi, [0, 2]), d), none)"),
    CTEXT("embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, SymInt padding_idx, bool "
          "scale_grad_by_freq) -> Tensor",
          "let n = grad_output.size(-1); let i = reshape(indices, [-1]); let w = wide(grad_output.dtype);"
          "let g = mul(to(reshape(grad_output, [-1, n]), w), unsqueeze(ne(i, padding_idx), 1));"
          "let times = index_add(zeros([num_weights], dtype=w), 0, i, ones([i.size(0)], dtype=w));"
          "let s = if(scale_grad_by_freq, div(g, unsqueeze(index(times, [i]), 1)), g);"
          "to(index_add(zeros([num_weights, n], dtype=w), 0, i, s), grad_output.dtype)"),
    TEXT("native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? running_mean, Tensor? "
         "running_var, Tensor? save_mean, Tensor? save_invstd, bool train, float eps, bool[3] output_mask) -> (Tensor, "
         "Tensor, Tensor)",
         "let d = if(is_none(weight), grad_out.dtype, weight.dtype);"
         "if(output_mask[0], to(" BATCH("input") ", grad_out.dtype), none), if(output_mask[1], to(" BATCH(
             "weight") ", d), none), if(output_mask[2], to(" BATCH("bias") ", d), none)"),
    TEXT("_fused_rms_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor rstd, Tensor? weight, "
         "bool[2] output_mask) -> (Tensor, Tensor)",
         WIDE "let rows = rstd.numel; let size = [rows, input.numel // rows]; let gr = reshape(g, size); let r = "
              "reshape(to(rstd, w), [rows, 1]); let h = mul(reshape(x, size), r);"
              "let gw = if(is_none(weight), gr, mul(gr, reshape(to(weight, w), [-1])));"
              "let dx = mul(sub(gw, mul(h, mean(mul(gw, h), [1], true))), r);"
              "if(output_mask[0], to(reshape(dx, input.sizes), d), none), if(output_mask[1] && !is_none(weight), "
              "to(reshape(sum(mul(gr, h), [0]), normalized_shape), weight.dtype), none)"),
    // p = exp(s - logsumexp) are the shares again, delta the mean of what flows to a query's shares.
    TEXT(
        "_scaled_dot_product_flash_attention_for_cpu_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, "
        "Tensor out, Tensor logsumexp, float dropout_p, bool is_causal, *, Tensor? attn_mask=None, float? scale=None) "
        "-> (Tensor grad_query, Tensor grad_key, Tensor grad_value)",
        "let d = query.dtype; let w = wide(d); let q = to(query, w); let k = to(key, w); let g = to(grad_out, w);"
        "let f = if(is_none(scale), 1.0 / float(query.size(-1)) ** 0.5, scale); let a = mul(matmul(q, mT(k)), f);"
        "let b = if(is_none(attn_mask), a, add(a, attn_mask)); let s = if(is_causal, where(ge(unsqueeze(arange("
        "q.size(-2)), 1), arange(k.size(-2))), b, -inf), b); let p = exp(sub(s, unsqueeze(logsumexp, -1)));"
        "let delta = sum(mul(g, to(out, w)), [-1], true);"
        "let ds = mul(mul(p, sub(matmul(g, mT(to(value, w))), delta)), f);" ROWS("matmul(ds, k)") ", " ROWS(
            "matmul(mT(ds), q)") ", " ROWS("matmul(mT(p), g)")),

    // ---- activations ----
    POINT("gelu", "gelu_backward(Tensor grad_output, Tensor self, *, str approximate=\"none\") -> Tensor",
          ", approximate=approximate"),
    POINT_OF_SELF("gelu", "infinitely_differentiable_gelu_backward(Tensor grad_output, Tensor self) -> Tensor", ""),
    // Of complex numbers without the conjugate that a gradient has.
    POINTWISE("silu_backward(Tensor grad_output, Tensor self) -> Tensor", TC_OP_COMPLEX,
              SLOPE("silu", "self", "self=conj(x)")),
    {.schema = "mish_backward(Tensor grad_output, Tensor self) -> Tensor",
     .meta = mish_meta,
     .decompose = BOTH("self") "to(derivative(\"mish\", \"self\", grad=g, self=x), self.dtype)"},
    POINT("hardswish", "hardswish_backward(Tensor grad_output, Tensor self) -> Tensor", ""),
    POINT("hardsigmoid", "hardsigmoid_backward(Tensor grad_output, Tensor self) -> Tensor", ""),
    POINT("hardtanh", "hardtanh_backward(Tensor grad_output, Tensor self, Scalar min_val, Scalar max_val) -> Tensor",
          ", min_val=min_val, max_val=max_val"),
    POINT_OF_SELF(
        "leaky_relu",
        "leaky_relu_backward(Tensor grad_output, Tensor self, Scalar negative_slope, bool self_is_result) -> Tensor",
        ", negative_slope=negative_slope"),
    POINT("softplus", "softplus_backward(Tensor grad_output, Tensor self, Scalar beta, Scalar threshold) -> Tensor",
          ", beta=beta, threshold=threshold"),
    POINT("softshrink", "softshrink_backward(Tensor grad_output, Tensor self, Scalar lambd) -> Tensor",
          ", lambd=lambd"),
    POINT("logit", "logit_backward(Tensor grad_output, Tensor self, float? eps=None) -> Tensor", ", eps=eps"),
    POINTWISE("sigmoid_backward(Tensor grad_output, Tensor output) -> Tensor", TC_OP_COMPLEX,
              SLOPE("sigmoid", "output", "result=x")),
    POINTWISE("tanh_backward(Tensor grad_output, Tensor output) -> Tensor", TC_OP_COMPLEX,
              SLOPE("tanh", "output", "result=x")),
    TEXT("threshold_backward(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor",
         "to(where(le(self, threshold), 0, grad_output), promote(grad_output, self))"),
    POINTWISE("hardshrink_backward(Tensor grad_out, Tensor self, Scalar lambd) -> Tensor", 0,
              "to(where(logical_and(ge(self, 0.0 - float(lambd)), le(self, lambd)), 0, grad_out), promote(grad_out, "
              "self))"),
    POINTWISE("elu_backward(Tensor grad_output, Scalar alpha, Scalar scale, Scalar input_scale, bool is_result, Tensor "
              "self_or_result) -> Tensor",
              0,
              BOTH("self_or_result") "to(if(is_result, where(le(x, 0), mul(mul(g, input_scale), add(x, float(alpha) * "
                                     "float(scale))), mul(g, scale)), derivative(\"elu\", \"self\", grad=g, self=x, "
                                     "alpha=alpha, scale=scale, "
                                     "input_scale=input_scale)), d)"),
    TEXT("log_sigmoid_forward(Tensor self) -> (Tensor output, Tensor buffer)",
         "contiguous(log_sigmoid(self)), contiguous(exp(neg(abs(self))))"),
    TEXT("log_sigmoid_backward(Tensor grad_output, Tensor self, Tensor buffer) -> Tensor",
         "let z = " WIDENED("buffer") "; let part = div(z, add(z, 1)); " NARROWED(
             "mul(" WIDENED("grad_output") ", where(lt(self, 0), rsub(part, 1), part))")),
    TEXT("glu_backward(Tensor grad_output, Tensor self, int dim) -> Tensor",
         "let n = self.size(dim) // 2; let x = " WIDENED("self") "; let g = " WIDENED(
             "grad_output") "; let a = narrow(x, dim, 0, n); let s = sigmoid(narrow(x, dim, n, n)); let gs = mul(g, "
                            "s);" NARROWED("cat([gs, mul(mul(gs, rsub(s, 1)), a)], dim)")),
    TEXT(
        "_prelu_kernel_backward(Tensor grad_output, Tensor self, Tensor weight) -> (Tensor, Tensor)",
        "let above = gt(self, 0); let r = where(above, grad_output, mul(weight, grad_output)); let w = where(above, 0, "
        "mul(self, grad_output)); r, if(w.sizes == r.sizes, w, contiguous(expand(w, r.sizes)))"),
    CTEXT("rrelu_with_noise_backward(Tensor grad_output, Tensor self, Tensor noise, Scalar lower, Scalar upper, bool "
          "training, bool self_is_result) -> Tensor",
          "if(training, mul(noise, grad_output), "
          "leaky_relu_backward(grad_output, self, (float(lower) + float(upper)) / 2.0, self_is_result))"),

    // ---- losses ----
    LOSS(TEXT, "mse_loss", "int reduction", "mul(sub(x, t), 2)"),
    LOSS(TEXT, "smooth_l1_loss", "int reduction, float beta",
         "if(beta == 0.0, sign(sub(x, t)), clamp(div(sub(x, t), beta), -1, 1))"),
    LOSS(TEXT, "huber_loss", "int reduction, float delta", "clamp(sub(x, t), 0.0 - delta, delta)"),
    // In the order of dimensions that targets and inputs give.
    CTEXT("soft_margin_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction) -> Tensor",
          "let x = " OF_SELF("self") "; let t = " OF_SELF(
              "target") "; let d = mul(mul(neg(t), sigmoid(neg(mul(t, "
                        "x)))), " OF_SELF("grad_output") "); to("
                                                         "if(reduction == 1, div(d, self.numel), d), self.dtype)"),
    TEXT("binary_cross_entropy_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight=None, int "
         "reduction=1) -> Tensor",
         "let x = " WIDENED("self") "; let d = div(mul(" WIDENED(
             "grad_output") ", sub(x, target)), clamp_min(mul(sub(1, "
                            "x), x), 9.999999960041972e-13)); let s = if(is_none(weight), d, mul(d, weight)); let r "
                            "= " NARROWED("if(reduction == 1, div(s, self.numel), s)") "; if(r.sizes == self.sizes, "
                                                                                       "copy(zeros_like(self), r), r)"),
    NLL("nll_loss"),
    NLL("nll_loss2d"),

    // ---- resampling and padding ----
    RESIZED_AS(ROW_MAJOR, "upsample_nearest1d", 1, "", ""),
    RESIZED_AS(CHANNELS_2, "upsample_nearest2d", 2, "", ""),
    RESIZED_AS(ROW_MAJOR, "upsample_nearest3d", 3, "", ""),
    RESIZED_AS(ROW_MAJOR, "_upsample_nearest_exact1d", 1, "", ""),
    RESIZED_AS(CHANNELS_2, "_upsample_nearest_exact2d", 2, "", ""),
    RESIZED_AS(ROW_MAJOR, "_upsample_nearest_exact3d", 3, "", ""),
    RESIZED_AS(ROW_MAJOR, "upsample_linear1d", 1, ALIGN, BY_ALIGN),
    RESIZED_AS(CHANNELS_2, "upsample_bilinear2d", 2, ALIGN, BY_ALIGN),
    RESIZED_AS(ROW_MAJOR, "upsample_bicubic2d", 2, ALIGN, BY_ALIGN),
    RESIZED_AS(CHANNELS_2, "_upsample_bilinear2d_aa", 2, ALIGN, BY_ALIGN),
    RESIZED_AS(ROW_MAJOR, "_upsample_bicubic2d_aa", 2, ALIGN, BY_ALIGN),
    RESIZED_AS(CHANNELS_3, "upsample_trilinear3d", 3, ALIGN, BY_ALIGN),
    PADDED("reflection_pad1d", "2"),
    PADDED("reflection_pad2d", "4"),
    PADDED("reflection_pad3d", "6"),
    PADDED("replication_pad1d", "2"),
    PADDED("replication_pad2d", "4"),
    PADDED("replication_pad3d", "6"),

    // ---- places ----
    CTEXT("slice_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt start, SymInt end, SymInt step) -> "
          "Tensor",
          "let z = " ZEROS "; slice_scatter(z, expand(grad_output, slice(z, dim, start, end, step).sizes), dim, start, "
          "end, step)"),
    CTEXT("select_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt index) -> Tensor",
          "let z = " ZEROS "; select_scatter(z, expand(grad_output, select(z, dim, index).sizes), dim, index)"),
    CTEXT("diagonal_backward(Tensor grad_output, SymInt[] input_sizes, int offset, int dim1, int dim2) -> Tensor",
          "let z = " ZEROS "; diagonal_scatter(z, expand(grad_output, diagonal(z, offset, dim1, dim2).sizes), offset, "
          "dim1, dim2)"),
    CTEXT("unfold_backward(Tensor grad_in, SymInt[] input_sizes, int dim, int size, int step) -> Tensor",
          "derivative(\"unfold\", \"self\", grad=grad_in, self=new_zeros(grad_in, input_sizes), dimension=dim, "
          "size=size, step=step)"),
    CTEXT("index_select_backward(Tensor grad, SymInt[] self_sizes, int dim, Tensor index) -> Tensor",
          "derivative(\"index_select\", \"self\", grad=grad, self=new_zeros(grad, self_sizes), dim=dim, index=index)"),
    CTEXT("trace_backward(Tensor grad, SymInt[] sizes) -> Tensor",
          "mul(eye.m(sizes[0], sizes[1], dtype=grad.dtype), grad)"),
    CTEXT("masked_select_backward(Tensor grad, Tensor input, Tensor mask) -> Tensor",
          "let d = derivative(\"masked_select\", \"self\", grad=grad, self=input, mask=mask); "
          "copy(zeros_like(expand(input, d.sizes)), d)"),
    CTEXT("cumprod_backward(Tensor grad, Tensor input, int dim, Tensor output) -> Tensor",
          "derivative(\"cumprod\", \"self\", grad=grad, self=input, dim=dim, result=output)"),
    CTEXT("value_selecting_reduction_backward(Tensor grad, int dim, Tensor indices, SymInt[] sizes, bool keepdim) -> "
          "Tensor",
          "if(len(sizes) == 0, scatter(new_zeros(grad, sizes), dim, indices, grad), if(keepdim, "
          "scatter(new_zeros(grad, sizes), dim, indices, grad), scatter(new_zeros(grad, sizes), dim, "
          "unsqueeze(indices, dim), unsqueeze(grad, dim))))"),
    TEXT("affine_grid_generator_backward(Tensor grad, SymInt[] size, bool align_corners) -> Tensor",
         "derivative(\"affine_grid_generator\", \"theta\", grad=grad, size=size, align_corners=align_corners)"),
};
static const tc_op_derivative derivatives[] = {
    {"embedding_dense_backward", "let g = index_select(grad, 0, reshape(indices, [-1])); grad_output: reshape(mul(g, "
                                 "unsqueeze(to(ne(reshape(indices, "
                                 "[-1]), padding_idx), grad.dtype), 1)), grad_output.sizes)"},
};
TC_OP_FAMILY_WITH_DERIVATIVES(backward);
