// Backward ops that occur in graphs by themselves, as texts. Definitions: the derivatives of the forward ops.
#include "core/ops/ops.h"

#define TEXT(s, d) {.schema = s, .decompose = d}
#define WIDE "let d = grad_out.dtype; let w = wide(d); let g = to(grad_out, w); let x = to(input, w);"
static const tc_op_def rows[] = {
    TEXT("native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor",
         "mul(mul(grad_output, to(mask, grad_output.dtype)), scale)"),
    TEXT("_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor",
         "let p = to(output, wide(output.dtype)); let g = mul(to(grad_output, wide(output.dtype)), p);"
         "to(sub(g, mul(p, sum(g, [dim], true))), input_dtype)"),
    TEXT("_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor",
         "let y = to(output, wide(output.dtype)); let g = to(grad_output, wide(output.dtype));"
         "to(sub(g, mul(exp(y), sum(g, [dim], true))), input_dtype)"),
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
    TEXT("embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, SymInt padding_idx, bool "
         "scale_grad_by_freq) -> Tensor",
         "let n = grad_output.size(-1); let i = reshape(indices, [-1]); let w = wide(grad_output.dtype);"
         "let g = mul(to(reshape(grad_output, [-1, n]), w), unsqueeze(ne(i, padding_idx), 1));"
         "let times = index_add(zeros([num_weights], dtype=w), 0, i, ones([i.size(0)], dtype=w));"
         "let s = if(scale_grad_by_freq, div(g, unsqueeze(index(times, [i]), 1)), g);"
         "to(index_add(zeros([num_weights, n], dtype=w), 0, i, s), grad_output.dtype)"),
};
static const tc_op_derivative derivatives[] = {
    {"embedding_dense_backward", "let g = index_select(grad, 0, reshape(indices, [-1])); grad_output: reshape(mul(g, "
                                 "unsqueeze(to(ne(reshape(indices, "
                                 "[-1]), padding_idx), grad.dtype), 1)), grad_output.sizes)"},
};
TC_OP_FAMILY_WITH_DERIVATIVES(backward);
