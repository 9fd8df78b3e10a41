// Derivatives of what works on images: convolutions, pooling, padding, resampling, patches, norms by channel.
//
// Two ways serve most of them. An op that is linear and works dimension by dimension is, along each dimension, a
// product with a small matrix, which the op itself gives when it is applied to the identity; its derivative is the
// product with the transposed matrix. An op that copies elements gives their positions when it is applied to 0, 1, 2,
// …; its derivative adds the gradient up at those positions. The derivatives of the norms are those of Ioffe and
// Szegedy (2015), with h for the normalised input: dx = (g - mean(g) - h · mean(g · h)) / σ, g = grad · weight.
#include "core/ops/ops.h"

// A list of one number stands for all dimensions.
#define AT(list, i) "if(len(" list ") > 1, " list "[" i "], " list "[0])"

// ---- convolutions: one sample where the input has no batch ----
#define CONV(transposed, output_padding)                                                                           \
  "let batch = input.rank == weight.rank; let x = if(batch, input, unsqueeze(input, 0)); let g = if(batch, grad, " \
  "unsqueeze(grad, 0)); let r = convolution_backward(g, conj(x), conj(weight), none, stride, padding, "            \
  "dilation, " transposed ", " output_padding ", groups, [true, true, false]); input: r[0]; weight: r[1]; bias: "  \
  "sum(g, [0] + range(2, g.rank))"
// Where padding is a word: "same" is done in front of the convolution, for it need not be symmetric.
#define REACH(i) AT("dilation", i) " * (weight.size(" i " + 2) - 1)"
#define BOTH(i) REACH(i) " // 2, " REACH(i) " - " REACH(i) " // 2"
#define CONV_WORD(op, pads, zeros)                                                                          \
  op "(if(padding == \"same\", constant_pad_nd(input, [" pads "], 0), input), weight, bias, stride, " zeros \
     ", dilation, groups)"

// ---- what works dimension by dimension ----
#define START(x) "let in = " x "; let w = wide(grad.dtype); let g = to(grad, w);"
#define EYE(i) "eye(in.size(" i "), dtype=w)"
// The products with matrices mw, mh, md of [in, out] elements.
#define TIMES_1 "matmul(g, mT(mw))"
#define TIMES_2 "matmul(mh, matmul(g, mT(mw)))"
#define TIMES_3                                                                                         \
  "reshape(matmul(md, reshape(matmul(mh, matmul(g, mT(mw))), part(grad.sizes, 0, -2) + [in.size(-2) * " \
  "in.size(-1)])), in.sizes)"
#define MATRICES_2(of) "let mh = " of("-2", "0") "; let mw = " of("-1", "1") ";"
#define MATRICES_3(of) "let md = " of("-3", "0") "; let mh = " of("-2", "1") "; let mw = " of("-1", "2") ";"

// Averages over the whole are spread evenly.
#define ADAPTIVE(i, at) "adaptive_avg_pool1d(" EYE(i) ", [grad.size(" i ")])"
#define TO_ONE(n) "product(part(grad.sizes, -" n ", grad.rank)) == 1"
#define SPREAD(n) "div(expand(g, in.sizes), product(part(in.sizes, -" n ", in.rank)))"
#define ADAPTIVE_1 \
  START("self") "let mw = " ADAPTIVE("-1", "0") "; self: if(" TO_ONE("1") ", " SPREAD("1") ", " TIMES_1 ")"
#define ADAPTIVE_2 START("self") MATRICES_2(ADAPTIVE) "self: if(" TO_ONE("2") ", " SPREAD("2") ", " TIMES_2 ")"
#define ADAPTIVE_3 START("self") MATRICES_3(ADAPTIVE) "self: if(" TO_ONE("3") ", " SPREAD("3") ", " TIMES_3 ")"

// Where the divisor is given, what counts is which elements lie in a window.
#define AVERAGE(i, at, pad)                                                                                   \
  "avg_pool1d(" EYE(i) ", [" AT("kernel_size", at) "], [if(len(stride) == 0, " AT("kernel_size", at) ", " AT( \
      "stride", at) ")], [" AT("padding", at) "], ceil_mode, " pad ")"
#define WINDOW(i, at) \
  "if(is_none(divisor_override), " AVERAGE(i, at, "count_include_pad") ", to(ne(" AVERAGE(i, at, "true") ", 0), w))"
#define DIVIDED(x) "if(is_none(divisor_override), " x ", div(" x ", divisor_override))"

// Resampling: a row of the identity is a channel of one line, or (where the op takes images) a column.
#define LINE(op, i, arguments) "select(" op "(unsqueeze(" EYE(i) ", 0), [grad.size(" i ")], " arguments "), 0, 0)"
#define COLUMN(op, i, arguments) \
  "select(select(" op "(unsqueeze(unsqueeze(" EYE(i) ", 0), -1), [grad.size(" i "), 1], " arguments "), -1, 0), 0, 0)"
#define LISTED(at) "if(is_none(scale_factors), none, scale_factors[" at "])"
#define UP_1(op, x, how, scale) START(x) "let mw = " LINE(op, "-1", how scale) "; " x ": " TIMES_1
#define UP_2(make, op, x, how, sh, sw) \
  START(x) "let mh = " make(op, "-2", how sh) "; let mw = " make(op, "-1", how sw) "; " x ": " TIMES_2
#define UP_3(op, x, how, sd, sh, sw)                                                          \
  START(x)                                                                                    \
  "let md = " LINE(op, "-3", how sd) "; let mh = " LINE(op, "-2", how sh) "; let mw = " LINE( \
      op, "-1", how sw) "; " x ": " TIMES_3
// Both forms of an op: with scales one by one, and with a list of them.
#define FORMS_1(name, op, how) \
  {name, UP_1(op, "self", how, "scales")}, { name ".vec", UP_1(op, "input", how, LISTED("0")) }
#define FORMS_2(make, name, op, how, end)                                       \
  {name, UP_2(make, op, "self", how, "scales_h" end, "scales_w" end)}, {        \
    name ".vec", UP_2(make, op, "input", how, LISTED("0") end, LISTED("1") end) \
  }
#define FORMS_3(name, op, how)                                                 \
  {name, UP_3(op, "self", how, "scales_d", "scales_h", "scales_w")}, {         \
    name ".vec", UP_3(op, "input", how, LISTED("0"), LISTED("1"), LISTED("2")) \
  }
#define IMAGES(name) FORMS_2(COLUMN, name, name, "align_corners, ", ", none")

// ---- what copies elements of the last n dimensions: positions ----
#define LAST(x, n) "part(" x ".sizes, -" n ", " x ".rank)"
#define OTHERS(x, n) "part(" x ".sizes, 0, -" n ")"
#define ADD_UP(n, positions)                                                                                     \
  "let lead = product(" OTHERS("self", n) "); let space = product(" LAST(                                        \
      "self",                                                                                                    \
      n) "); let at = reshape(" positions                                                                        \
         ", [-1]); self: reshape(index_add(zeros([lead, space], dtype=grad.dtype), 1, at, reshape(grad, [lead, " \
         "product(" LAST("grad", n) ")])), self.sizes)"
#define NUMBERS(n) "reshape(arange(product(" LAST("self", n) ")), [1] + " LAST("self", n) ")"
#define PADDED(op, n) {op, ADD_UP(n, op "(" NUMBERS(n) ", padding)")}
// `gaps`: windows may have holes, and with them nothing but padding: what they point to is nowhere.
#define EXTREME_WITH(n, gaps)                                                                                        \
  "let lead = product(" OTHERS("self", n) "); let in = product(" LAST("self", n) "); let out = product(" LAST(       \
      "result", n) "); let there = lt(result1, in); let at = if(" gaps ", where(there, result1, 0), result1); "      \
                   "let g = if(" gaps ", where(there, grad, 0), grad); self: reshape(scatter_add(zeros([lead, in], " \
                   "dtype=g.dtype), 1, reshape(at, [lead, out]), reshape(g, [lead, out])), self.sizes)"
#define EXTREME(n) EXTREME_WITH(n, "false")
#define LARGEST(n, last) EXTREME_WITH(n, "dilation[0] > 1 || dilation[len(dilation) - 1] > 1" last)

// ---- norms ----
#define CHANNELS                                                                                          \
  "let w = wide(input.dtype); let x = to(input, w); let g = to(grad, w); let by = [1, -1] + repeated(1, " \
  "input.rank - 2);"
// With mean m and 1/σ r: `own` where these are the input's own.
#define NORMED(own, other)                                                                                         \
  "let h = mul(sub(x, m), r); let gw = if(is_none(weight), g, mul(g, reshape(to(weight, w), by))); input: if(" own \
  ", mul(r, sub(sub(gw, mean(gw, dims, true)), mul(h, mean(mul(gw, h), dims, true)))), mul(gw, r)); "              \
  "weight: sum(mul(g, h), " other "dims); bias: sum(g, " other "dims)"
#define GIVEN(x) "reshape(to(" x ", w), by)"
#define RUNNING_R "reshape(rsqrt(add(to(running_var, w), eps)), by)"
#define MOMENTS "let mine = mean(x, dims, true); let c = sub(x, mine); let v = mean(mul(c, c), dims, true);"
#define BATCH CHANNELS "let dims = [0] + range(2, input.rank);"
#define BATCH_SAVED BATCH "let m = " GIVEN("result1") "; let r = " GIVEN("result2") ";" NORMED("true", "")
#define BATCH_RUNNING BATCH "let m = " GIVEN("running_mean") "; let r = " RUNNING_R ";" NORMED("false", "")
#define BATCH_EITHER                                                                                          \
  BATCH "let m = if(training, " GIVEN("result1") ", " GIVEN("running_mean") "); let r = if(training, " GIVEN( \
      "result2") ", " RUNNING_R ");" NORMED("training", "")
#define BATCH_AGAIN                                                                                                \
  BATCH MOMENTS                                                                                                    \
      "let m = if(training, mine, " GIVEN("running_mean") "); let r = if(training, rsqrt(add(v, eps)), " RUNNING_R \
                                                          ");" NORMED("training", "")
#define INSTANCE                                                                                              \
  CHANNELS "let dims = range(2, input.rank); let own = use_input_stats || is_none(running_mean);" MOMENTS     \
           "let m = if(own, mine, " GIVEN("running_mean") "); let r = if(own, rsqrt(add(v, eps)), " RUNNING_R \
                                                          ");" NORMED("own", "[0] + ")
// Rows are the groups of a sample; weight and bias go by channels.
// `beside`: what flows back from the statistics.
#define GROUPS(groups, stats, beside)                                                                              \
  "let w = wide(input.dtype); let n = input.size(0); let k = input.size(1); let rows = [n, " groups                \
  ", input.numel // max(1, n * " groups ")]; let image = [n, k, input.numel // max(1, n * k)]; let x = "           \
  "reshape(to(input, w), rows); let g = reshape(to(grad, w), image);" stats "let h = mul(sub(x, m), r); let gw = " \
  "reshape(if(is_none(weight), g, mul(g, reshape(to(weight, w), [1, -1, 1]))), rows); input: reshape(add(mul(r, "  \
  "sub(sub(gw, mean(gw, [2], true)), mul(h, mean(mul(gw, h), [2], true)))), " beside                               \
  "), input.sizes); weight: sum(mul(g, reshape(h, image)), [0, 2]); bias: sum(g, [0, 2])"

static const tc_op_derivative derivatives[] = {
    {"conv1d", CONV("false", "[0]")},
    {"conv2d", CONV("false", "[0, 0]")},
    {"conv3d", CONV("false", "[0, 0, 0]")},
    {"conv_transpose1d", CONV("true", "output_padding")},
    {"conv_transpose2d.input", CONV("true", "output_padding")},
    {"conv_transpose3d.input", CONV("true", "output_padding")},
    {"convolution", CONV("transposed", "output_padding")},
    {"conv1d.padding", "forward: " CONV_WORD("conv1d", BOTH("0"), "[0]")},
    {"conv2d.padding", "forward: " CONV_WORD("conv2d", BOTH("1") ", " BOTH("0"), "[0, 0]")},
    {"conv3d.padding", "forward: " CONV_WORD("conv3d", BOTH("2") ", " BOTH("1") ", " BOTH("0"), "[0, 0, 0]")},
    {"adaptive_avg_pool1d", ADAPTIVE_1},
    {"adaptive_avg_pool2d", ADAPTIVE_2},
    {"_adaptive_avg_pool2d", ADAPTIVE_2},
    {"adaptive_avg_pool3d", ADAPTIVE_3},
    {"_adaptive_avg_pool3d", ADAPTIVE_3},
    {"_adaptive_avg_pool2d_backward",
     "grad_output: _adaptive_avg_pool2d(grad, part(grad_output.sizes, -2, grad_output.rank))"},
    {"_adaptive_avg_pool3d_backward",
     "grad_output: _adaptive_avg_pool3d(grad, part(grad_output.sizes, -3, grad_output.rank))"},
    {"avg_pool1d", START("self") "let mw = " AVERAGE("-1", "0", "count_include_pad") "; self: " TIMES_1},
    {"avg_pool2d", START("self") MATRICES_2(WINDOW) "self: " DIVIDED(TIMES_2)},
    {"avg_pool3d", START("self") MATRICES_3(WINDOW) "self: " DIVIDED(TIMES_3)},
    {"avg_pool2d_backward",
     "grad_output: avg_pool2d(grad, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)"},
    {"avg_pool3d_backward",
     "grad_output: avg_pool3d(grad, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)"},
    {"max_pool1d", "forward: max_pool1d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode)[0]"},
    {"max_pool2d", "forward: max_pool2d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode)[0]"},
    {"max_pool3d", "forward: max_pool3d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode)[0]"},
    {"max_pool1d_with_indices", LARGEST("1", "")},
    {"max_pool2d_with_indices", LARGEST("2", "")},
    {"max_pool3d_with_indices", LARGEST("3", " || " AT("dilation", "1") " > 1")},
    {"adaptive_max_pool1d", EXTREME("1")},
    {"adaptive_max_pool2d", EXTREME("2")},
    {"adaptive_max_pool3d", EXTREME("3")},
    {"fractional_max_pool2d", EXTREME("2")},
    {"fractional_max_pool3d", EXTREME("3")},
    FORMS_1("upsample_nearest1d", "upsample_nearest1d", ""),
    FORMS_2(LINE, "upsample_nearest2d", "upsample_nearest1d", "", ""),
    FORMS_3("upsample_nearest3d", "upsample_nearest1d", ""),
    FORMS_1("_upsample_nearest_exact1d", "_upsample_nearest_exact1d", ""),
    FORMS_2(LINE, "_upsample_nearest_exact2d", "_upsample_nearest_exact1d", "", ""),
    FORMS_3("_upsample_nearest_exact3d", "_upsample_nearest_exact1d", ""),
    FORMS_1("upsample_linear1d", "upsample_linear1d", "align_corners, "),
    FORMS_2(LINE, "upsample_bilinear2d", "upsample_linear1d", "align_corners, ", ""),
    FORMS_3("upsample_trilinear3d", "upsample_linear1d", "align_corners, "),
    IMAGES("upsample_bicubic2d"),
    IMAGES("_upsample_bilinear2d_aa"),
    IMAGES("_upsample_bicubic2d_aa"),
    {"affine_grid_generator",
     "let n = len(size) - 2; let one = unsqueeze(eye.m(n, n + 1, dtype=grad.dtype), 0); let at = reshape("
     "affine_grid_generator(one, [1] + part(size, 1, len(size)), align_corners), [-1, n]); theta: "
     "mT(matmul(mT(cat([at, new_ones(at, [at.size(0), 1])], 1)), reshape(grad, [grad.size(0), -1, n])))"},
    {"im2col", "self: col2im(grad, part(self.sizes, -2, self.rank), kernel_size, dilation, padding, stride)"},
    {"col2im", "self: im2col(grad, kernel_size, dilation, padding, stride)"},
    PADDED("reflection_pad1d", "1"),
    PADDED("reflection_pad2d", "2"),
    PADDED("reflection_pad3d", "3"),
    PADDED("replication_pad1d", "1"),
    PADDED("replication_pad2d", "2"),
    PADDED("replication_pad3d", "3"),
    {"_pad_circular", // what is no pair is passed over
     "let k = len(pad) // 2 * 2; forward: if(k == 0, clone(self), pad(self, part(pad, 0, k), \"circular\"))"},
    {"pad",
     "let k = len(pad) // 2; let lead = product(part(self.sizes, 0, self.rank - k)); let tail = part(self.sizes, "
     "self.rank - k, self.rank); let at = reshape(aten::pad(reshape(arange(product(tail)), [1] + tail), pad, mode), "
     "[-1]); self: if(mode == \"constant\", constant_pad_nd(grad, negated(pad), 0), reshape(index_add(zeros([lead, "
     "product(tail)], dtype=grad.dtype), 1, at, reshape(grad, [lead, product(part(grad.sizes, self.rank - k, "
     "self.rank))])), self.sizes))"},
    {"batch_norm", BATCH_AGAIN},
    {"native_batch_norm", BATCH_EITHER},
    {"_native_batch_norm_legit.no_stats", BATCH_SAVED},
    {"_native_batch_norm_legit_functional", BATCH_EITHER},
    {"_native_batch_norm_legit_no_training", BATCH_RUNNING},
    {"_batch_norm_with_update_functional", BATCH_SAVED},
    {"_batch_norm_no_update", BATCH_RUNNING},
    {"instance_norm", INSTANCE},
    {"tc::instance_norm_functional", INSTANCE},
    {"group_norm",
     GROUPS("num_groups",
            "let m = mean(x, [2], true); let c = sub(x, m); let r = rsqrt(add(mean(mul(c, c), [2], true), "
            "eps));",
            "0")},
    {"native_group_norm",
     GROUPS("group", "let m = reshape(to(result1, w), [n, group, 1]); let r = reshape(to(result2, w), [n, group, 1]);",
            "if(flows1 || flows2, div(sub(reshape(to(grad1, w), [n, group, 1]), mul(h, mul(reshape(to(grad2, w), [n, "
            "group, 1]), mul(r, r)))), rows[2]), 0)")},
};
TC_OP_DERIVATIVES(space_derivatives);
