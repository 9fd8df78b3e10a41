// Convolutions in 1 to 3 dimensions, with stride, padding, dilation, groups, transposed.
//
// Lowering: the direct loop nest, one reduction over (channel of the group, kernel position):
//   out[n, o, p] = Σ_{c, k} in[n, g·C' + c, p·stride + k·dilation - padding] · weight[o, c, k],   g = o // (O / groups)
// transposed:
//   out[n, o, p] = Σ_{c, k} in[n, g·C' + c, (p + padding - k·dilation) / stride] · weight[g·C' + c, o mod (O / groups),
//   k]
// where the division has no rest. Positions outside of the input count as zero. Bias is added in the accumulator's
// type.
#include "core/ops/ops.h"

enum { INPUT, WEIGHT, BIAS, MAX_SPACE = 3 };

typedef struct conv {
  int32_t n; // spatial dimensions
  bool transposed, batched;
  int64_t groups;
  int64_t stride[MAX_SPACE], dilation[MAX_SPACE], output_padding[MAX_SPACE];
  tc_int before[MAX_SPACE], after[MAX_SPACE]; // padding
} conv;

static int64_t space_arg(tc_op_args *a, const char *name, int32_t i, int64_t otherwise) {
  int32_t arg = tc_op_arg_index(a, name);
  if (arg < 0 || tc_op_count(a, arg) == 0) return otherwise;
  return tc_op_int_at(a, arg, tc_op_count(a, arg) == 1 ? 0 : i, otherwise);
}

static int32_t read_padding(tc_op_args *a, conv *c) {
  const tc_tensor_type *w = tc_op_tensor(a, WEIGHT);
  int32_t arg = tc_op_arg_index(a, "padding");
  for (int32_t i = 0; i < c->n; i++) c->before[i] = c->after[i] = tc_int_const(a, 0);
  if (tc_op_kind(a, arg) == TC_AK_STRING) {
    tc_sv mode = tc_op_string(a, arg);
    if (tc_sv_is(mode, "valid")) return TC_STATUS_OK;
    if (!tc_sv_is(mode, "same")) return tc_op_fail(a, "the padding '" TC_SV_FMT "' is not known", TC_SV_ARG(mode));
    for (int32_t i = 0; i < c->n; i++) {
      if (c->stride[i] != 1) return tc_op_fail(a, "padding='same' is not supported for strided convolutions");
      tc_int total = tc_int_mul(a, tc_int_const(a, c->dilation[i]), tc_int_sub(a, w->sizes[2 + i], tc_int_const(a, 1)));
      c->before[i] = tc_int_floordiv(a, total, tc_int_const(a, 2));
      c->after[i] = tc_int_sub(a, total, c->before[i]);
    }
    return TC_STATUS_OK;
  }
  for (int32_t i = 0; i < c->n; i++) {
    int32_t count = tc_op_count(a, arg);
    if (count) c->before[i] = c->after[i] = tc_op_sym_at(a, arg, count == 1 ? 0 : i);
    if (tc_int_lt(a, c->before[i], tc_int_const(a, 0)) == 1) return tc_op_fail(a, "negative padding is not supported");
  }
  return TC_STATUS_OK;
}

static int32_t read_conv(tc_op_args *a, conv *c) {
  const tc_tensor_type *x = tc_op_tensor(a, INPUT), *w = tc_op_tensor(a, WEIGHT);
  *c = (conv){.n = w->rank - 2, .groups = tc_op_int(a, tc_op_arg_index(a, "groups"), 1)};
  int32_t transposed = tc_op_arg_index(a, "transposed");
  c->transposed = transposed >= 0 ? tc_op_bool(a, transposed, 0) : tc_sv_starts(a->op->schema.name, "conv_transpose");
  c->batched = x->rank == w->rank;
  if (c->n < 1 || c->n > MAX_SPACE || (!c->batched && x->rank != w->rank - 1))
    return tc_op_fail(a, "the input %s and the weight %s do not fit a convolution", tc_op_shape_text(a, INPUT),
                      tc_op_shape_text(a, WEIGHT));
  if (x->dtype != w->dtype)
    return tc_op_fail(a, "the input and the weight must have the same dtype: %s and %s", tc_op_shape_text(a, INPUT),
                      tc_op_shape_text(a, WEIGHT));
  if (c->groups < 1) return tc_op_fail(a, "groups must be positive");
  for (int32_t i = 0; i < c->n; i++) {
    c->stride[i] = space_arg(a, "stride", i, 1);
    c->dilation[i] = space_arg(a, "dilation", i, 1);
    c->output_padding[i] = space_arg(a, "output_padding", i, 0);
    if (c->stride[i] < 1 || c->dilation[i] < 1) return tc_op_fail(a, "stride and dilation must be positive");
  }
  tc_int channels = x->sizes[c->batched], g = tc_int_const(a, c->groups),
         per_group = c->transposed ? tc_int_floordiv(a, w->sizes[0], g) : w->sizes[1];
  if (tc_int_require_eq(a, channels, tc_int_mul(a, per_group, g)))
    return tc_op_fail(a, "groups = %lld, the weight %s and the input %s do not fit: the channels differ",
                      (long long)c->groups, tc_op_shape_text(a, WEIGHT), tc_op_shape_text(a, INPUT));
  if (!c->transposed && tc_int_require_eq(a, tc_int_mod(a, w->sizes[0], g), tc_int_const(a, 0)))
    return tc_op_fail(a, "the number of output channels must be divisible by groups = %lld: %s", (long long)c->groups,
                      tc_op_shape_text(a, WEIGHT));
  return read_padding(a, c);
}

static tc_int out_channels(tc_op_args *a, const conv *c) {
  const tc_tensor_type *w = tc_op_tensor(a, WEIGHT);
  return c->transposed ? tc_int_mul(a, w->sizes[1], tc_int_const(a, c->groups)) : w->sizes[0];
}

static tc_int out_size(tc_op_args *a, const conv *c, int32_t i) {
  tc_int in = tc_op_tensor(a, INPUT)->sizes[c->batched + 1 + i], k = tc_op_tensor(a, WEIGHT)->sizes[2 + i],
         one = tc_int_const(a, 1);
  tc_int reach = tc_int_mul(a, tc_int_const(a, c->dilation[i]), tc_int_sub(a, k, one)),
         pad = tc_int_add(a, c->before[i], c->after[i]), s = tc_int_const(a, c->stride[i]);
  if (!c->transposed)
    return tc_int_add(a, tc_int_floordiv(a, tc_int_sub(a, tc_int_sub(a, tc_int_add(a, in, pad), reach), one), s), one);
  tc_int full = tc_int_add(a, tc_int_mul(a, tc_int_sub(a, in, one), s),
                           tc_int_add(a, reach, tc_int_const(a, c->output_padding[i] + 1)));
  return tc_int_sub(a, full, pad);
}

static int32_t conv_meta(tc_op_args *a) {
  const tc_tensor_type *x = tc_op_tensor(a, INPUT), *w = tc_op_tensor(a, WEIGHT), *b = tc_op_tensor(a, BIAS);
  conv c;
  tc_int sizes[MAX_SPACE + 2], strides[MAX_SPACE + 2];
  if (read_conv(a, &c)) return TC_STATUS_INVALID_ARGUMENT;
  int32_t rank = 0;
  if (c.batched) sizes[rank++] = x->sizes[0];
  sizes[rank++] = out_channels(a, &c);
  if (b && (b->rank != 1 || tc_int_require_eq(a, b->sizes[0], sizes[rank - 1])))
    return tc_op_fail(a, "the bias %s does not match the output channels of the weight %s", tc_op_shape_text(a, BIAS),
                      tc_op_shape_text(a, WEIGHT));
  for (int32_t i = 0; i < c.n; i++) {
    sizes[rank++] = out_size(a, &c, i);
    if (tc_int_lt(a, sizes[rank - 1], tc_int_const(a, 0)) == 1)
      return tc_op_fail(a, "the kernel of %s is larger than the padded input %s", tc_op_shape_text(a, WEIGHT),
                        tc_op_shape_text(a, INPUT));
  }
  int32_t format = tc_suggested_format(a, x);
  if (format == TC_FORMAT_CONTIGUOUS && c.batched) format = tc_suggested_format(a, w);
  if (format == TC_FORMAT_CONTIGUOUS) return tc_op_set_result(a, 0, x->dtype, rank, sizes, NULL);
  tc_strides_make_channels_last(a->syms, rank, sizes, strides);
  return tc_op_set_result(a, 0, x->dtype, rank, sizes, strides);
}

// ---- lowering ----
static tc_int both(tc_op_args *a, tc_int x, tc_int y) {
  return tc_sym_is_int(x, 1) ? y : tc_sym_is_int(y, 1) ? x : tc_sym_and(a->syms, x, y);
}

// The input's position that meets output position p at kernel position k, and where there is one.
static tc_int input_position(tc_op_args *a, const conv *c, int32_t i, tc_int p, tc_int k, tc_int *condition) {
  tc_int size = tc_op_tensor(a, INPUT)->sizes[c->batched + 1 + i], zero = tc_int_const(a, 0),
         s = tc_int_const(a, c->stride[i]);
  tc_int tap = tc_int_mul(a, k, tc_int_const(a, c->dilation[i])), at;
  if (!c->transposed) {
    at = tc_int_sub(a, tc_int_add(a, tc_int_mul(a, p, s), tap), c->before[i]);
  } else {
    tc_int t = tc_int_sub(a, tc_int_add(a, p, c->before[i]), tap);
    if (c->stride[i] > 1) *condition = both(a, *condition, tc_sym_cmp(a->syms, TC_SYM_EQ, tc_int_mod(a, t, s), zero));
    at = tc_int_floordiv(a, t, s);
  }
  *condition = both(a, *condition, tc_int_within(a, at, zero, size));
  return at;
}

static int32_t conv_lower(tc_op_args *a) {
  const tc_tensor_type *r = tc_op_result_type(a, 0), *w = tc_op_tensor(a, WEIGHT);
  conv c;
  if (read_conv(a, &c)) return TC_STATUS_INVALID_ARGUMENT;
  tc_lt x = tc_lo_arg(a, INPUT), weight = tc_lo_arg(a, WEIGHT), bias = tc_op_tensor(a, BIAS) ? tc_lo_arg(a, BIAS) : -1;
  tc_dtype compute = tc_op_math_type(r->dtype);
  tc_int index[TC_MAX_RANK], red[MAX_SPACE + 1], xi[MAX_SPACE + 2], wi[MAX_SPACE + 2], inside = tc_int_const(a, 1),
                                                                                       g = tc_int_const(a, c.groups);
  tc_int per_group_in = c.transposed ? tc_int_floordiv(a, w->sizes[0], g) : w->sizes[1];
  tc_int per_group_out = c.transposed ? w->sizes[1] : tc_int_floordiv(a, w->sizes[0], g);
  red[0] = per_group_in;
  for (int32_t i = 0; i < c.n; i++) red[1 + i] = w->sizes[2 + i];
  tc_lo_begin_reduce(a, TC_RED_SUM, r->rank, r->sizes, 1 + c.n, red, index);
  const tc_int *taps = index + r->rank;
  tc_int o = index[c.batched], group = tc_int_floordiv(a, o, per_group_out);
  tc_int channel = c.groups == 1 ? taps[0] : tc_int_add(a, tc_int_mul(a, group, per_group_in), taps[0]);
  if (c.batched) xi[0] = index[0];
  xi[c.batched] = channel;
  wi[0] = c.transposed ? channel : o;
  wi[1] = !c.transposed ? taps[0] : c.groups == 1 ? o : tc_int_mod(a, o, per_group_out);
  for (int32_t i = 0; i < c.n; i++) {
    xi[c.batched + 1 + i] = input_position(a, &c, i, index[c.batched + 1 + i], taps[1 + i], &inside);
    wi[2 + i] = taps[1 + i];
  }
  tc_bval v = tc_sym_is_int(inside, 1) ? tc_lo_load(a, x, xi)
                                       : tc_lo_load_if(a, x, xi, inside, tc_lo_const(a, tc_lo_dtype(a, x), 0, 0));
  v = tc_lo_op2(a, TC_K_MUL, tc_lo_cast(a, v, compute), tc_lo_cast(a, tc_lo_load(a, weight, wi), compute));
  tc_lt y = tc_lo_end(a, v, bias >= 0 ? compute : r->dtype);
  if (bias >= 0) {
    tc_lo_begin(a, r->rank, r->sizes, index);
    tc_bval b = tc_lo_cast(a, tc_lo_load(a, bias, &index[c.batched]), compute);
    y = tc_lo_end(a, tc_lo_op2(a, TC_K_ADD, tc_lo_load(a, y, index), b), r->dtype);
  }
  tc_lo_result(a, 0, y);
  return TC_STATUS_OK;
}

// ---- reference ----
static tc_c128 at_output(tc_op_args *a, const conv *c, const int64_t *iy) {
  const tc_ref_view *x = tc_op_data(a, INPUT), *w = tc_op_data(a, WEIGHT), *b = tc_op_data(a, BIAS);
  int64_t out = c->transposed ? w->sizes[1] : w->sizes[0] / c->groups,
          in = c->transposed ? w->sizes[0] / c->groups : w->sizes[1];
  int64_t o = iy[c->batched], group = o / out, k[MAX_SPACE] = {0}, taps = 1;
  tc_c128 sum = b ? tc_ref_c(b, o * b->strides[0]) : (tc_c128){0, 0};
  for (int32_t i = 0; i < c->n; i++) taps *= w->sizes[2 + i];
  for (int64_t tap = 0; tap < taps; tap++, tc_ref_next(c->n, w->sizes + 2, k)) {
    int64_t xo = c->batched ? iy[0] * x->strides[0] : 0, wo = 0;
    bool inside = true;
    for (int32_t i = 0; i < c->n; i++) {
      int64_t p = iy[c->batched + 1 + i], pad = 0, at;
      tc_int_is_const(c->before[i], &pad);
      if (c->transposed) {
        at = p + pad - k[i] * c->dilation[i];
        inside = inside && at >= 0 && at % c->stride[i] == 0;
        at /= c->stride[i];
      } else {
        at = p * c->stride[i] + k[i] * c->dilation[i] - pad;
      }
      inside = inside && at >= 0 && at < x->sizes[c->batched + 1 + i];
      xo += at * x->strides[c->batched + 1 + i];
      wo += k[i] * w->strides[2 + i];
    }
    for (int64_t ch = 0; inside && ch < in; ch++) {
      int64_t from = group * in + ch, at = c->transposed ? from * w->strides[0] + o % out * w->strides[1]
                                                         : o * w->strides[0] + ch * w->strides[1];
      tc_c128 p = tc_ref_c(x, xo + from * x->strides[c->batched]), q = tc_ref_c(w, wo + at);
      sum.re += p.re * q.re - p.im * q.im;
      sum.im += p.re * q.im + p.im * q.re;
    }
  }
  return sum;
}
static int32_t conv_ref(tc_op_args *a) {
  const tc_ref_view *y = tc_op_result_data(a, 0);
  conv c;
  int64_t iy[TC_MAX_RANK] = {0};
  if (read_conv(a, &c)) return TC_STATUS_INVALID_ARGUMENT;
  for (bool more = tc_ref_numel(y) > 0; more; more = tc_ref_next(y->rank, y->sizes, iy))
    tc_ref_put(y, tc_ref_offset(y, iy), at_output(a, &c, iy));
  return TC_STATUS_OK;
}

#define ROW(s)              \
  {.schema = s,             \
   .traits = TC_OP_COMPLEX, \
   .meta = conv_meta,       \
   .lower = conv_lower,     \
   .ref = conv_ref,         \
   .flops = "2 * numel * weight.numel / weight.size(0)"}
static const tc_op_def rows[] = {
    ROW("conv1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], SymInt[1] padding=[0], SymInt[1] "
        "dilation=[1], SymInt groups=1) -> Tensor"),
    ROW("conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0], "
        "SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor"),
    ROW("conv3d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], SymInt[3] padding=[0, 0, "
        "0], SymInt[3] dilation=[1, 1, 1], SymInt groups=1) -> Tensor"),
    ROW("conv1d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], str padding=\"valid\", "
        "SymInt[1] dilation=[1], SymInt groups=1) -> Tensor"),
    ROW("conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], str "
        "padding=\"valid\", SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor"),
    ROW("conv3d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], str "
        "padding=\"valid\", SymInt[3] dilation=[1, 1, 1], SymInt groups=1) -> Tensor"),
    ROW("conv_transpose1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], SymInt[1] padding=[0], "
        "SymInt[1] output_padding=[0], SymInt groups=1, SymInt[1] dilation=[1]) -> Tensor"),
    ROW("conv_transpose2d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] "
        "padding=[0, 0], SymInt[2] output_padding=[0, 0], SymInt groups=1, SymInt[2] dilation=[1, 1]) -> Tensor"),
    ROW("conv_transpose3d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], SymInt[3] "
        "padding=[0, 0, 0], SymInt[3] output_padding=[0, 0, 0], SymInt groups=1, SymInt[3] dilation=[1, 1, 1]) -> "
        "Tensor"),
    ROW("convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, "
        "bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor"),
};
TC_OP_FAMILY(conv);
