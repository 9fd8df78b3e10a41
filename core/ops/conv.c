// Convolutions in 1 to 3 dimensions, with stride, padding, dilation, groups, transposed.
//
// Lowering: the direct loop nest, one reduction over (channel of the group, kernel position):
//   out[n, o, p] = Σ_{c, k} in[n, g·C' + c, p·stride + k·dilation - padding] · weight[o, c, k],   g = o // (O / groups)
// transposed:
//   out[n, o, p] = Σ_{c, k} in[n, g·C' + c, (p + padding - k·dilation) / stride] · weight[g·C' + c, o mod (O / groups),
//   k]
// where the division has no rest. Outside of the input, elements are zero in the former, and there are no products in
// the latter: weights that are no numbers do not spread there. Bias is added in the accumulator's type.
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
  return tc_op_known(a, arg, tc_op_count(a, arg) == 1 ? 0 : i, otherwise);
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
  *c = (conv){.n = w->rank - 2, .groups = tc_op_known(a, tc_op_arg_index(a, "groups"), 0, 1)};
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
  if (tc_int_lt(a, w->sizes[0], tc_int_const(a, c->groups)) == 1)
    return tc_op_fail(a, "expected the weight %s to be at least groups = %lld at dimension 0",
                      tc_op_shape_text(a, WEIGHT), (long long)c->groups);
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
  if (b && b->dtype != x->dtype)
    return tc_op_fail(a, "the input %s and the bias %s should have the same dtype", tc_op_shape_text(a, INPUT),
                      tc_op_shape_text(a, BIAS));
  if (tc_int_eq(a, x->sizes[c.batched], tc_int_const(a, 0)) == 1)
    sizes[c.batched] = tc_int_const(a, 0); // as PyTorch has it
  for (int32_t i = 0; i < c.n; i++) {
    sizes[rank++] = out_size(a, &c, i);
    if (tc_int_lt(a, sizes[rank - 1], tc_int_const(a, 0)) == 1)
      return tc_op_fail(a, "the kernel of %s is larger than the padded input %s", tc_op_shape_text(a, WEIGHT),
                        tc_op_shape_text(a, INPUT));
  }
  int32_t format = c.n == 1 ? tc_suggested_row_format(a, w) : tc_suggested_format(a, x);
  if (format == TC_FORMAT_CONTIGUOUS && c.batched && c.n > 1) format = tc_suggested_format(a, w);
  if (format == TC_FORMAT_CONTIGUOUS) return tc_op_set_result(a, 0, x->dtype, rank, sizes, NULL);
  if (c.n == 1) tc_row_strides(a, rank, sizes, strides);
  else tc_strides_make_channels_last(a->syms, rank, sizes, strides);
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

// The direct loop nest.
static tc_lt lower_direct(tc_op_args *a, const conv *c, tc_lt x, tc_lt weight, tc_dtype out) {
  const tc_tensor_type *r = tc_op_result_type(a, 0), *w = tc_op_tensor(a, WEIGHT);
  tc_dtype compute = tc_op_math_type(r->dtype);
  tc_int index[TC_MAX_RANK], red[MAX_SPACE + 1], xi[MAX_SPACE + 2], wi[MAX_SPACE + 2], inside = tc_int_const(a, 1),
                                                                                       g = tc_int_const(a, c->groups);
  tc_int per_group_in = c->transposed ? tc_int_floordiv(a, w->sizes[0], g) : w->sizes[1];
  tc_int per_group_out = c->transposed ? w->sizes[1] : tc_int_floordiv(a, w->sizes[0], g);
  red[0] = per_group_in;
  for (int32_t i = 0; i < c->n; i++) red[1 + i] = w->sizes[2 + i];
  tc_lo_begin_reduce(a, TC_RED_SUM, r->rank, r->sizes, 1 + c->n, red, index);
  const tc_int *taps = index + r->rank;
  tc_int o = index[c->batched], group = tc_int_floordiv(a, o, per_group_out);
  tc_int channel = c->groups == 1 ? taps[0] : tc_int_add(a, tc_int_mul(a, group, per_group_in), taps[0]);
  if (c->batched) xi[0] = index[0];
  xi[c->batched] = channel;
  wi[0] = c->transposed ? channel : o;
  wi[1] = !c->transposed ? taps[0] : c->groups == 1 ? o : tc_int_mod(a, o, per_group_out);
  for (int32_t i = 0; i < c->n; i++) {
    xi[c->batched + 1 + i] = input_position(a, c, i, index[c->batched + 1 + i], taps[1 + i], &inside);
    wi[2 + i] = taps[1 + i];
  }
  tc_bval v = tc_sym_is_int(inside, 1) ? tc_lo_load(a, x, xi)
                                       : tc_lo_load_if(a, x, xi, inside, tc_lo_const(a, tc_lo_dtype(a, x), 0, 0));
  v = tc_lo_op2(a, TC_K_MUL, tc_lo_cast(a, v, compute), tc_lo_cast(a, tc_lo_load(a, weight, wi), compute));
  if (c->transposed && !tc_sym_is_int(inside, 1))
    v = tc_lo_op3(a, TC_K_SELECT, tc_lo_index(a, inside, TC_BOOL), v, tc_lo_const(a, compute, 0, 0));
  return tc_lo_end(a, v, out);
}

// ---- lowering to the template ----
// A convolution without transposition over tensors with a batch dimension.
typedef struct plain {
  int32_t n;
  int64_t groups, out, in; // groups; channels of a group
  int64_t k[MAX_SPACE], stride[MAX_SPACE], dilation[MAX_SPACE];
  tc_int before[MAX_SPACE], size[MAX_SPACE]; // padding, output
  tc_int after[MAX_SPACE];                   // padding behind, where it is flipped
  bool flipped;                              // weights [g·in, out, …], read backwards; products with padding are none
  int64_t columns;                           // > 0: each output channel is one position of a kernel of so many
  bool pairs;                                // input channels go two by two (dot2)
  bool each;                                 // depthwise with groups in the place of output channels
} plain;

static bool known(tc_int x, int64_t *out) { return tc_int_is_const(x, out) && *out > 0; }

static tc_int channel_of_pair(tc_op_args *a, tc_int pair, int32_t half) {
  return tc_int_add(a, tc_int_mul(a, pair, tc_int_const(a, 2)), tc_int_const(a, half));
}

// The weight for output channel o of group g, input channel c, kernel position `tap`.
static tc_bval load_weight(tc_op_args *a, const plain *p, tc_lt w, tc_int g, tc_int o, tc_int c, tc_int tap,
                           tc_int condition) {
  tc_int at[MAX_SPACE + 2], rest = tap;
  int32_t rank = tc_lo_rank(a, w);
  if (p->columns) {
    rest = tc_int_mod(a, o, tc_int_const(a, p->columns));
    o = tc_int_floordiv(a, o, tc_int_const(a, p->columns));
  }
  bool transposed = (p->flipped || p->columns) && !p->each;
  int64_t per_group = transposed ? p->in : p->out; // of the dimension that holds the groups
  at[0] = tc_int_add(a, tc_int_mul(a, g, tc_int_const(a, per_group)), transposed ? c : o);
  at[1] = transposed ? o : c;
  for (int32_t d = rank - 1; d >= 2; d--) {
    tc_int size = tc_lo_size(a, w, d), k = d == 2 ? rest : tc_int_mod(a, rest, size);
    at[d] = p->flipped ? tc_int_sub(a, tc_int_sub(a, size, tc_int_const(a, 1)), k) : k;
    rest = tc_int_floordiv(a, rest, size);
  }
  tc_bval zero = tc_lo_const(a, tc_lo_dtype(a, w), 0, 0);
  return tc_sym_is_int(condition, 1) ? tc_lo_load(a, w, at) : tc_lo_load_if(a, w, at, condition, zero);
}

// [g, ⌈out / panel⌉, in, k, panel], zero behind the last channel, in the type that is computed in. In pairs:
// neighbouring input channels as one i32, in halves, and a zero behind the last one.
static tc_lt pack_weights(tc_op_args *a, const plain *p, tc_lt w, int64_t panel, tc_dtype compute) {
  int64_t taps = 1;
  for (int32_t i = 0; i < p->n; i++) taps *= p->k[i];
  int64_t in = p->pairs ? (p->in + 1) / 2 : p->in;
  tc_int sizes[5] = {tc_int_const(a, p->groups), tc_int_const(a, (p->out + panel - 1) / panel), tc_int_const(a, in),
                     tc_int_const(a, taps), tc_int_const(a, panel)},
         i[5], condition = tc_int_const(a, 1);
  tc_lo_begin(a, 5, sizes, i);
  tc_int o = tc_int_add(a, tc_int_mul(a, i[1], sizes[4]), i[4]);
  if (p->out % panel) condition = tc_sym_cmp(a->syms, TC_SYM_LT, o, tc_int_const(a, p->out));
  tc_lo_keep(a);
  if (!p->pairs)
    return tc_lo_end(a, tc_lo_cast(a, load_weight(a, p, w, i[0], o, i[2], i[3], condition), compute), compute);
  tc_bval halves[2];
  for (int32_t half = 0; half < 2; half++) {
    tc_int c = channel_of_pair(a, i[2], half);
    if (half && p->in % 2) condition = both(a, condition, tc_sym_cmp(a->syms, TC_SYM_LT, c, tc_int_const(a, p->in)));
    halves[half] = load_weight(a, p, w, i[0], o, c, i[3], condition);
  }
  return tc_lo_end(a, tc_lower_pair(a, halves), TC_I32);
}

// Places of dimension i that the kernels meet, and whether they lie in the input.
static tc_int places(tc_op_args *a, const plain *p, tc_lt x, int32_t i, bool *fits) {
  tc_int one = tc_int_const(a, 1), reach = tc_int_const(a, (p->k[i] - 1) * p->dilation[i] + 1);
  tc_int need = tc_int_add(a, tc_int_mul(a, tc_int_sub(a, p->size[i], one), tc_int_const(a, p->stride[i])), reach);
  *fits = tc_sym_is_int(p->before[i], 0) && tc_int_lt(a, tc_lo_size(a, x, 2 + i), need) == 0;
  return need;
}

// Do blocks bring in the part of the input that they need? Where it lies in memory in every run anew, is not read as it
// lies, and has few channels: those of some rows are no more than what a block has room for (as the template has it).
static bool own_by_blocks(tc_op_args *a, const plain *p, tc_lt x, tc_dtype compute) {
  enum { ROOM = 1 << 16, LONG = 16, ROWS = 8, MORE_ROWS = 32 }; // micro-tiles have several rows where these are short
  int64_t bytes = p->in * tc_dtype_size(compute), size, width;
  bool same = tc_lo_dtype(a, x) == compute, fits;
  if (tc_lo_in_order(a, x) || tc_lo_lies(a, x) != 1 || !known(p->size[p->n - 1], &width)) return false;
  int64_t rows = p->n > 1 && width >= LONG ? ROWS : MORE_ROWS;
  for (int32_t i = 0; i < p->n; i++) {
    places(a, p, x, i, &fits);
    same = same && fits;
    if (!known(p->size[i], &size)) return false;
    int64_t most = i < p->n - 2 ? 1 : i == p->n - 1 && i > 0 ? size : rows;
    if (size > most) size = most;
    bytes *= (size - 1) * p->stride[i] + (p->k[i] - 1) * p->dilation[i] + 1;
    if (bytes > ROOM || bytes > tc_lo_on_chip(a)) return false;
  }
  return !same;
}

// The part of the input that kernels meet, with zeros around it, in the type that is computed in; the input itself
// where it is that. Channels stay last where they are last. In pairs: of channels, as pack_weights has them. Positions
// of 16-bit channels that lie last are read as they are where a step of wide vectors makes a good part of the output
// channels of each: widening them once for all is a pass through memory. f16 take more to widen.
static tc_lt pad_input(tc_op_args *a, const plain *p, tc_lt x, bool channels_last, bool joined, tc_dtype compute) {
  enum { FEW_OUT = 128, FEWER_OUT = 64, WIDE = 64 };
  tc_int sizes[MAX_SPACE + 2], index[MAX_SPACE + 2], at[MAX_SPACE + 2], inside = tc_int_const(a, 1), i[MAX_SPACE + 2],
                                                                        map[MAX_SPACE + 2], view[MAX_SPACE + 2];
  int32_t rank = p->n + 2;
  int64_t few = tc_lo_dtype(a, x) == TC_BF16 ? FEW_OUT : FEWER_OUT;
  bool narrow = joined && channels_last && p->groups == 1 && p->out <= few && tc_lo_simd_bytes(a) >= WIDE;
  bool same = (tc_lo_dtype(a, x) == compute || narrow) && !p->pairs;
  for (int32_t d = 0; d < rank; d++) view[d] = tc_lo_size(a, x, d);
  for (int32_t d = 0; d < p->n; d++) {
    bool fits;
    view[2 + d] = places(a, p, x, d, &fits);
    same = same && fits;
  }
  if (same) return x;
  tc_int channels = view[1];
  if (p->pairs) view[1] = tc_int_const(a, (p->groups * p->in + 1) / 2);
  for (int32_t d = 0; d < rank; d++) {
    int32_t to = !channels_last || d == 0 ? d : d == 1 ? rank - 1 : d - 1;
    sizes[to] = view[d];
  }
  tc_lo_begin(a, rank, sizes, index);
  for (int32_t d = 0; d < rank; d++) at[d] = index[!channels_last || d == 0 ? d : d == 1 ? rank - 1 : d - 1];
  for (int32_t d = 0; d < p->n; d++) {
    at[2 + d] = tc_int_sub(a, at[2 + d], p->before[d]);
    inside = both(a, inside, tc_int_within(a, at[2 + d], tc_int_const(a, 0), tc_lo_size(a, x, 2 + d)));
  }
  tc_bval v[2], zero = tc_lo_const(a, tc_lo_dtype(a, x), 0, 0);
  tc_int pair = at[1];
  for (int32_t half = 0; half <= p->pairs; half++) {
    if (p->pairs) at[1] = channel_of_pair(a, pair, half);
    if (half && p->in % 2) inside = both(a, inside, tc_sym_cmp(a->syms, TC_SYM_LT, at[1], channels));
    v[half] = tc_sym_is_int(inside, 1) ? tc_lo_load(a, x, at) : tc_lo_load_if(a, x, at, inside, zero);
  }
  tc_lo_keep(a);
  tc_lt padded =
      p->pairs ? tc_lo_end(a, tc_lower_pair(a, v), TC_I32) : tc_lo_end(a, tc_lo_cast(a, v[0], compute), compute);
  tc_lo_indices(a, rank, view, i);
  for (int32_t d = 0; d < rank; d++) map[!channels_last || d == 0 ? d : d == 1 ? rank - 1 : d - 1] = i[d];
  return tc_lo_view(a, padded, rank, view, i, map);
}

// [n, groups · out, size…] in type `out`. PANEL channels go together; fewer than FEW in a group are no work for lanes.
enum { PANEL = 16, FEW = 8 };
// `joined`: positions are one row of a kernel of size 1. Depthwise, channels that lie last are those of the lanes.
static tc_lt lower_plain(tc_op_args *a, const plain *what, tc_lt x, tc_lt w, bool channels_last, bool joined,
                         tc_dtype out) {
  tc_dtype compute = tc_op_math_type(out);
  plain own = *what, *p = &own;
  bool each = channels_last && p->groups >= FEW && p->in == 1 && p->out == 1 && !tc_lo_in_order(a, x);
  if (each) own.out = own.groups, own.groups = 1, own.each = true;
  bool positions = p->out < FEW;
  own.pairs =
      !positions && !each && tc_lo_pairs(a, tc_lo_dtype(a, x)) && p->in > 1 && (p->groups == 1 || p->in % 2 == 0);
  tc_int sizes[MAX_SPACE + 3], attrs[4 + 6 * MAX_SPACE], zero = tc_int_const(a, 0);
  int32_t rank = 0, n_attrs = 0;
  bool as_it_lies = positions || (!p->pairs && !each && own_by_blocks(a, p, x, compute));
  tc_lt operands[2] = {as_it_lies ? x : pad_input(a, p, x, channels_last, joined, compute),
                       pack_weights(a, p, w, positions ? 1 : PANEL, compute)};
  sizes[rank++] = tc_lo_size(a, x, 0);
  if (p->groups > 1) sizes[rank++] = tc_int_const(a, p->groups);
  sizes[rank++] = tc_int_const(a, p->out);
  for (int32_t i = 0; i < p->n; i++) sizes[rank++] = p->size[i];
  bool either = joined && !each && !channels_last && p->groups == 1 && tc_dtype_class(compute) == 'f';
  int64_t way = positions ? 1 : p->pairs ? 2 : as_it_lies ? 5 : either ? 3 : each ? 4 : 0;
  attrs[n_attrs++] = tc_int_const(a, way), attrs[n_attrs++] = tc_int_const(a, p->n);
  attrs[n_attrs++] = tc_int_const(a, p->groups), attrs[n_attrs++] = tc_int_const(a, channels_last);
  for (int32_t i = 0; i < p->n; i++) {
    attrs[n_attrs++] = tc_int_const(a, p->k[i]), attrs[n_attrs++] = tc_int_const(a, p->stride[i]);
    attrs[n_attrs++] = tc_int_const(a, p->dilation[i]), attrs[n_attrs++] = as_it_lies ? p->before[i] : zero;
  }
  for (int32_t i = 0; p->flipped && i < p->n; i++) {
    attrs[n_attrs++] = as_it_lies ? zero : p->before[i];
    attrs[n_attrs++] = as_it_lies ? zero : p->after[i];
  }
  tc_lt y = tc_lo_template(a, "conv", 2, operands, out, rank, sizes, n_attrs, attrs);
  if (p->groups == 1) return y;
  sizes[1] = tc_int_const(a, p->groups * p->out);
  for (int32_t i = 0; i < p->n; i++) sizes[2 + i] = p->size[i];
  return tc_lo_reshape(a, y, 2 + p->n, sizes);
}

// Positions of a kernel of size 1 are one row.
static bool one_row(tc_op_args *a, const plain *p, const tc_tensor_type *t) {
  for (int32_t i = 0; i < p->n; i++) {
    if (p->k[i] != 1 || p->stride[i] != 1 || !tc_sym_is_int(p->before[i], 0)) return false;
    if (tc_int_eq(a, p->size[i], t->sizes[t->rank - p->n + i]) != 1) return false;
    int32_t d = t->rank - p->n + i;
    if (i + 1 < p->n && tc_int_eq(a, t->strides[d], tc_int_mul(a, t->strides[d + 1], t->sizes[d + 1])) != 1)
      return false;
  }
  return p->n > 1;
}
// A kernel of size 1 that leaves positions out.
static bool skips(const plain *p) {
  bool strided = false;
  for (int32_t i = 0; i < p->n; i++) {
    if (p->k[i] != 1 || !tc_sym_is_int(p->before[i], 0)) return false;
    strided = strided || p->stride[i] > 1;
  }
  return strided && p->n > 1 && p->groups == 1 && p->out >= FEW && !p->flipped;
}
// The positions that it meets, side by side; a node of its own unless pad_input makes one.
static tc_lt take_positions(tc_op_args *a, plain *p, tc_lt x) {
  tc_int sizes[MAX_SPACE + 2] = {tc_lo_size(a, x, 0), tc_lo_size(a, x, 1)}, at[MAX_SPACE + 2];
  for (int32_t i = 0; i < p->n; i++) sizes[2 + i] = p->size[i];
  tc_lo_begin(a, 2 + p->n, sizes, at);
  for (int32_t i = 0; i < p->n; i++)
    at[2 + i] = tc_int_mul(a, at[2 + i], tc_int_const(a, p->stride[i])), p->stride[i] = 1;
  tc_bval v = tc_lo_load(a, x, at);
  tc_dtype dtype = tc_lo_dtype(a, x);
  if (dtype == tc_op_math_type(dtype)) tc_lo_keep(a);
  return tc_lo_end(a, v, dtype);
}
static tc_lt lower_rows(tc_op_args *a, plain p, tc_lt x, tc_lt w, bool channels_last, tc_dtype out) {
  tc_int flat[3] = {tc_lo_size(a, x, 0), tc_lo_size(a, x, 1), tc_int_const(a, 1)}, sizes[MAX_SPACE + 2];
  for (int32_t i = 0; i < p.n; i++) sizes[2 + i] = p.size[i], flat[2] = tc_int_mul(a, flat[2], tc_lo_size(a, x, 2 + i));
  int32_t n = p.n;
  p.n = 1, p.size[0] = flat[2];
  tc_lt y = lower_plain(a, &p, tc_lo_reshape(a, x, 3, flat), w, channels_last, true, out);
  sizes[0] = flat[0], sizes[1] = tc_lo_size(a, y, 1);
  return n == 1 ? y : tc_lo_reshape(a, y, n + 2, sizes);
}

// Transposed with strides: every input position makes a whole kernel of outputs (a product), and each output position
// gathers those that fall on it: kernel positions r + t·stride, r = (p + padding) mod stride, of input (p + padding) //
// stride - t.
static tc_lt lower_columns(tc_op_args *a, const conv *c, plain p, tc_lt x, tc_lt w, tc_dtype out) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  tc_dtype compute = tc_op_math_type(out);
  tc_int sizes[MAX_SPACE + 2], reduced[MAX_SPACE], index[2 * MAX_SPACE + 2], at[MAX_SPACE + 2],
      inside = tc_int_const(a, 1), tap = tc_int_const(a, 0);
  int64_t k[MAX_SPACE], all = 1;
  bool sum = false;
  p.columns = 1;
  for (int32_t i = 0; i < p.n; i++) {
    k[i] = p.k[i], p.columns *= k[i], p.k[i] = 1, p.stride[i] = 1, p.before[i] = tc_int_const(a, 0);
    p.size[i] = tc_lo_size(a, x, 2 + i);
    reduced[i] = tc_int_const(a, (k[i] + c->stride[i] - 1) / c->stride[i]);
    sum = sum || k[i] > c->stride[i];
    all *= k[i];
  }
  p.out *= all;
  tc_lt cols = lower_rows(a, p, x, w, false, compute);
  sizes[0] = tc_lo_size(a, x, 0), sizes[1] = tc_int_const(a, p.groups * p.out / all);
  for (int32_t i = 0; i < p.n; i++) sizes[2 + i] = r->sizes[c->batched + 1 + i];
  if (sum) tc_lo_begin_reduce(a, TC_RED_SUM, 2 + p.n, sizes, p.n, reduced, index);
  else tc_lo_begin(a, 2 + p.n, sizes, index);
  for (int32_t i = 0; i < p.n; i++) {
    tc_int s = tc_int_const(a, c->stride[i]), q = tc_int_add(a, index[2 + i], c->before[i]),
           t = sum ? index[2 + p.n + i] : tc_int_const(a, 0),
           kernel = tc_int_add(a, tc_int_mod(a, q, s), tc_int_mul(a, t, s));
    at[2 + i] = tc_int_sub(a, tc_int_floordiv(a, q, s), t);
    inside = both(a, inside, tc_int_within(a, at[2 + i], tc_int_const(a, 0), p.size[i]));
    inside = both(a, inside, tc_int_within(a, kernel, tc_int_const(a, 0), tc_int_const(a, k[i])));
    tap = tc_int_add(a, tc_int_mul(a, tap, tc_int_const(a, k[i])), kernel);
  }
  at[0] = index[0], at[1] = tc_int_add(a, tc_int_mul(a, index[1], tc_int_const(a, all)), tap);
  tc_bval v = tc_sym_is_int(inside, 1) ? tc_lo_load(a, cols, at)
                                       : tc_lo_load_if(a, cols, at, inside, tc_lo_const(a, compute, 0, 0));
  return tc_lo_end(a, v, out);
}

// What the template can do: channels and kernel known, nothing empty. Fills in the convolution without transposition.
static bool as_plain(tc_op_args *a, const conv *c, plain *p) {
  const tc_tensor_type *w = tc_op_tensor(a, WEIGHT), *r = tc_op_result_type(a, 0);
  int64_t first, second;
  char class = tc_dtype_class(r->dtype);
  *p = (plain){.n = c->n, .groups = c->groups};
  if ((class != 'f' && class != 'c') || !known(w->sizes[0], &first) || !known(w->sizes[1], &second)) return false;
  p->out = c->transposed ? second : first / c->groups, p->in = c->transposed ? first / c->groups : second;
  bool strided = false, dilated = false;
  for (int32_t d = 0; d < r->rank; d++)
    if (tc_sym_is_int(r->sizes[d], 0)) return false;
  for (int32_t i = 0; i < c->n; i++) {
    if (!known(w->sizes[2 + i], &p->k[i])) return false;
    strided = strided || c->stride[i] > 1, dilated = dilated || c->dilation[i] > 1;
    p->stride[i] = c->stride[i], p->dilation[i] = c->dilation[i], p->before[i] = c->before[i];
    p->size[i] = r->sizes[c->batched + 1 + i];
    if (c->transposed && c->stride[i] == 1) { // read backwards: the reach less the padding lies before
      p->before[i] = tc_int_sub(a, tc_int_const(a, c->dilation[i] * (p->k[i] - 1)), c->before[i]);
      p->after[i] = tc_int_add(a, p->before[i], tc_int_const(a, c->output_padding[i]));
    }
    int64_t at;
    if (!tc_int_is_const(p->before[i], &at)) return false;
  }
  if (!c->transposed) return true;
  p->flipped = !strided;
  return !strided || !dilated;
}

static tc_lt lower_template(tc_op_args *a, const conv *c, plain *p, tc_lt x, tc_lt w, tc_dtype out) {
  const tc_tensor_type *t = tc_op_tensor(a, INPUT), *r = tc_op_result_type(a, 0);
  tc_int sizes[MAX_SPACE + 2] = {tc_int_const(a, 1)};
  bool channels_last = tc_suggested_format(a, t) != TC_FORMAT_CONTIGUOUS;
  for (int32_t d = 0; d < t->rank && !c->batched; d++) sizes[1 + d] = t->sizes[d];
  if (!c->batched) x = tc_lo_reshape(a, x, t->rank + 1, sizes);
  bool is_wide = t->dtype == tc_op_math_type(t->dtype);
  tc_lt y;
  if (c->transposed && !p->flipped) y = lower_columns(a, c, *p, x, w, out);
  else if (one_row(a, p, t)) y = lower_rows(a, *p, x, w, channels_last, out);
  // Threads in lock-step read them where they lie, and so do others channels that lie last, which are whole vectors, of
  // the type that is computed in.
  else if (skips(p) && (!channels_last || !is_wide) && !tc_lo_in_order(a, x))
    x = take_positions(a, p, x), y = lower_rows(a, *p, x, w, channels_last, out);
  else y = lower_plain(a, p, x, w, channels_last, false, out);
  return c->batched ? y : tc_lo_reshape(a, y, r->rank, r->sizes);
}

static int32_t conv_lower(tc_op_args *a) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  conv c;
  plain p;
  if (read_conv(a, &c)) return TC_STATUS_INVALID_ARGUMENT;
  tc_lt x = tc_lo_arg(a, INPUT), w = tc_lo_arg(a, WEIGHT), bias = tc_op_tensor(a, BIAS) ? tc_lo_arg(a, BIAS) : -1;
  tc_dtype compute = tc_op_math_type(r->dtype), out = bias >= 0 ? compute : r->dtype;
  tc_lt y = as_plain(a, &c, &p) ? lower_template(a, &c, &p, x, w, out) : lower_direct(a, &c, x, w, out);
  if (bias >= 0) {
    tc_int index[TC_MAX_RANK];
    tc_lo_begin(a, r->rank, r->sizes, index);
    tc_bval b = tc_lo_cast(a, tc_lo_load(a, bias, &index[c.batched]), compute);
    y = tc_lo_end(a, tc_lo_op2(a, TC_K_ADD, tc_lo_load(a, y, index), b), r->dtype);
  }
  tc_lo_result(a, 0, y);
  return TC_STATUS_OK;
}

// ---- reference ----
// Integers are exact, and wrap.
static tc_c128 at_output(tc_op_args *a, const conv *c, const int64_t *iy, int64_t *whole) {
  const tc_ref_view *x = tc_op_data(a, INPUT), *w = tc_op_data(a, WEIGHT), *b = tc_op_data(a, BIAS);
  int64_t out = c->transposed ? w->sizes[1] : w->sizes[0] / c->groups,
          in = c->transposed ? w->sizes[0] / c->groups : w->sizes[1];
  int64_t o = iy[c->batched], group = o / out, k[MAX_SPACE] = {0}, taps = 1;
  tc_c128 sum = b ? tc_ref_c(b, o * b->strides[0]) : (tc_c128){0, 0};
  *whole = b ? tc_ref_i(b, o * b->strides[0]) : 0;
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
      if (x->dtype == TC_I64) {
        uint64_t p = (uint64_t)tc_ref_i(x, xo + from * x->strides[c->batched]), q = (uint64_t)tc_ref_i(w, wo + at);
        *whole = (int64_t)((uint64_t)*whole + p * q);
        continue;
      }
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
  int64_t iy[TC_MAX_RANK] = {0}, whole;
  if (read_conv(a, &c)) return TC_STATUS_INVALID_ARGUMENT;
  for (bool more = tc_ref_numel(y) > 0; more; more = tc_ref_next(y->rank, y->sizes, iy)) {
    tc_c128 sum = at_output(a, &c, iy, &whole);
    if (y->dtype == TC_I64) tc_ref_put_i(y, tc_ref_offset(y, iy), whole);
    else tc_ref_put(y, tc_ref_offset(y, iy), sum);
  }
  return TC_STATUS_OK;
}

#define ROW_OF(s, positions)                      \
  {.schema = s,                                   \
   .traits = TC_OP_COMPLEX | TC_OP_KNOWN_LENGTHS, \
   .meta = conv_meta,                             \
   .lower = conv_lower,                           \
   .ref = conv_ref,                               \
   .flops = "convolution: (2 + 4 * complex) * (" positions ") * weight.numel / weight.size(0)"}
#define ROW(s) ROW_OF(s, "numel")
#define TRANSPOSED(s) ROW_OF(s, "input.numel")
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
    TRANSPOSED(
        "conv_transpose1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], SymInt[1] padding=[0], "
        "SymInt[1] output_padding=[0], SymInt groups=1, SymInt[1] dilation=[1]) -> Tensor"),
    TRANSPOSED(
        "conv_transpose2d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] "
        "padding=[0, 0], SymInt[2] output_padding=[0, 0], SymInt groups=1, SymInt[2] dilation=[1, 1]) -> Tensor"),
    TRANSPOSED(
        "conv_transpose3d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], SymInt[3] "
        "padding=[0, 0, 0], SymInt[3] output_padding=[0, 0, 0], SymInt groups=1, SymInt[3] dilation=[1, 1, 1]) -> "
        "Tensor"),
    ROW_OF(
        "convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, "
        "bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor",
        "input.numel * transposed + numel * (1 - transposed)"),
};
TC_OP_FAMILY(conv);
