// Convolutions over packed weights with what follows them, of the compiler's own making: what a library does in one
// call (core/runtime/call_convolution.c makes them).
//
// _pack_convolution: weights [O, C, k…] of `groups` groups as [groups, ⌈O' / 16⌉, taps, ⌈C' / 32⌉, 16, 32], O' = O /
// groups, zero where there are no channels. The last two dimensions are 16 pairs of input channels by 16 output
// channels by the two of a pair, as matrix units take them. taps are the kernel's positions and C' = C; with `rows`
// taps are the kernel's rows, and the input's channels of all of its columns follow each other: C' = columns · C.
//
// _convolution_packed: y = then(convolution · scale[o] + shift[o] + other), computed in the accumulator's type and
// rounded once. `kernel` are the sizes of the kernel, `channels` the output's.
#include <math.h>

#include "core/ops/ops.h"

enum { SIDE = 16, DEPTH = 32, PACKED_RANK = 6, MOST_SPACE = 2 };

// ---- packing ----
static tc_int ceil_div(tc_op_args *a, tc_int x, int64_t by) {
  return tc_int_floordiv(a, tc_int_add(a, x, tc_int_const(a, by - 1)), tc_int_const(a, by));
}

static int32_t pack_meta(tc_op_args *a) {
  const tc_tensor_type *w = tc_op_tensor(a, 0);
  bool rows = tc_op_bool(a, 2, 0);
  tc_int groups = tc_int_const(a, tc_op_known(a, 1, 0, 1)), taps = tc_int_const(a, 1), in;
  if (w->rank < 3 || w->rank > 2 + MOST_SPACE)
    return tc_op_fail(a, "the weights %s are not those of a convolution", tc_op_shape_text(a, 0));
  for (int32_t d = 2; d < w->rank - rows; d++) taps = tc_int_mul(a, taps, w->sizes[d]);
  in = rows ? tc_int_mul(a, w->sizes[1], w->sizes[w->rank - 1]) : w->sizes[1];
  tc_int sizes[PACKED_RANK] = {groups,
                               ceil_div(a, tc_int_floordiv(a, w->sizes[0], groups), SIDE),
                               taps,
                               ceil_div(a, in, DEPTH),
                               tc_int_const(a, SIDE),
                               tc_int_const(a, DEPTH)};
  return tc_op_set_result(a, 0, w->dtype, PACKED_RANK, sizes, NULL);
}

static int32_t pack_lower(tc_op_args *a) {
  const tc_tensor_type *w = tc_op_tensor(a, 0), *r = tc_op_result_type(a, 0);
  bool rows = tc_op_bool(a, 2, 0);
  tc_lt from = tc_lo_arg(a, 0);
  tc_int i[PACKED_RANK], at[2 + MOST_SPACE], two = tc_int_const(a, 2),
                                             own = tc_int_floordiv(a, w->sizes[0], r->sizes[0]);
  tc_lo_begin(a, PACKED_RANK, r->sizes, i);
  tc_int o = tc_int_add(a, tc_int_mul(a, i[1], tc_int_const(a, SIDE)), tc_int_floordiv(a, i[5], two));
  tc_int c = tc_int_add(a, tc_int_mul(a, i[3], tc_int_const(a, DEPTH)),
                        tc_int_add(a, tc_int_mul(a, i[4], two), tc_int_mod(a, i[5], two)));
  int32_t last = w->rank - 1;
  tc_int rest = i[2], column = rows ? tc_int_floordiv(a, c, w->sizes[1]) : NULL, zero = tc_int_const(a, 0);
  for (int32_t d = last - rows; d >= 2; d--) {
    at[d] = d == 2 ? rest : tc_int_mod(a, rest, w->sizes[d]);
    rest = tc_int_floordiv(a, rest, w->sizes[d]);
  }
  if (rows) at[last] = column;
  at[0] = tc_int_add(a, tc_int_mul(a, i[0], own), o);
  at[1] = rows ? tc_int_mod(a, c, w->sizes[1]) : c;
  tc_int channels = rows ? tc_int_mul(a, w->sizes[1], w->sizes[last]) : w->sizes[1];
  tc_int inside = tc_sym_and(a->syms, tc_int_within(a, o, zero, own), tc_int_within(a, c, zero, channels));
  tc_bval v = tc_lo_load_if(a, from, at, inside, tc_lo_const(a, r->dtype, 0, 0));
  tc_lo_keep(a);
  tc_lo_result(a, 0, tc_lo_end(a, v, r->dtype));
  return TC_STATUS_OK;
}

static int32_t pack_ref(tc_op_args *a) {
  const tc_ref_view *w = tc_op_data(a, 0), *y = tc_op_result_data(a, 0);
  bool rows = tc_op_bool(a, 2, 0);
  int64_t i[TC_MAX_RANK] = {0}, own = w->sizes[0] / y->sizes[0], last = w->rank - 1;
  for (bool more = tc_ref_numel(y) > 0; more; more = tc_ref_next(y->rank, y->sizes, i)) {
    int64_t o = i[1] * SIDE + i[5] / 2, c = i[3] * DEPTH + i[4] * 2 + i[5] % 2, rest = i[2];
    int64_t column = rows ? c / w->sizes[1] : 0, at = (i[0] * own + o) * w->strides[0];
    bool inside = o < own && (rows ? column < w->sizes[last] : c < w->sizes[1]);
    at += (rows ? c % w->sizes[1] : c) * w->strides[1] + column * w->strides[last];
    for (int64_t d = last - rows; d >= 2; d--) at += rest % w->sizes[d] * w->strides[d], rest /= w->sizes[d];
    tc_ref_put(y, tc_ref_offset(y, i), inside ? tc_ref_c(w, at) : (tc_c128){0, 0});
  }
  return TC_STATUS_OK;
}

// ---- the convolution ----
enum { INPUT, PACKED, FACTOR, SHIFT, OTHER, THEN, KERNEL, STRIDE, PADDING, DILATION, GROUPS, CHANNELS };

typedef struct follower {
  const char *name, *text;
  double (*value)(double v);
} follower;
static double clamp6(double v) { return v < 0 ? 0 : v > 6 ? 6 : v; }
static double value_none(double v) { return v; }
static double value_relu(double v) { return v < 0 ? 0 : v; }
static double value_hardswish(double v) { return v * clamp6(v + 3) / 6; }
static double value_silu(double v) { return v / (1 + exp(-v)); }
static const follower followers[] = {{"", "v", value_none},
                                     {"relu", "max(v, 0)", value_relu},
                                     {"relu6", "min(max(v, 0), 6)", clamp6},
                                     {"hardswish", "v * min(max(v + 3, 0), 6) / 6", value_hardswish},
                                     {"silu", "v * sigmoid(v)", value_silu}};
static const follower *follower_of(tc_op_args *a) {
  for (size_t i = 0; i < sizeof followers / sizeof *followers; i++)
    if (tc_sv_is(tc_op_string(a, THEN), followers[i].name)) return &followers[i];
  return NULL;
}

// A known number of a list with one for each dimension, or one for all.
static int64_t space_arg(tc_op_args *a, int32_t arg, int32_t i) {
  return tc_op_known(a, arg, tc_op_count(a, arg) == 1 ? 0 : i, 1);
}

static int32_t conv_meta(tc_op_args *a) {
  const tc_tensor_type *x = tc_op_tensor(a, INPUT), *w = tc_op_tensor(a, PACKED), *other = tc_op_tensor(a, OTHER);
  int32_t n = x->rank - 2;
  if (n < 1 || n > MOST_SPACE || w->rank != PACKED_RANK || w->dtype != x->dtype || !tc_dtype_is_float(x->dtype))
    return tc_op_fail(a, "the input %s and the packed weights %s do not fit", tc_op_shape_text(a, INPUT),
                      tc_op_shape_text(a, PACKED));
  if (!follower_of(a)) return tc_op_fail(a, "_convolution_packed has no function of this name");
  tc_int sizes[2 + MOST_SPACE] = {x->sizes[0], tc_op_sym(a, CHANNELS)}, strides[2 + MOST_SPACE],
                   one = tc_int_const(a, 1);
  for (int32_t i = 0; i < n; i++) {
    int64_t reach = space_arg(a, DILATION, i) * (space_arg(a, KERNEL, i) - 1) + 1 - 2 * space_arg(a, PADDING, i);
    tc_int room = tc_int_sub(a, x->sizes[2 + i], tc_int_const(a, reach));
    sizes[2 + i] = tc_int_add(a, tc_int_floordiv(a, room, tc_int_const(a, space_arg(a, STRIDE, i))), one);
  }
  for (int32_t arg = FACTOR; arg <= SHIFT; arg++) {
    const tc_tensor_type *t = tc_op_tensor(a, arg);
    if (t && (t->dtype != TC_F32 || t->rank != 1 || tc_int_require_eq(a, t->sizes[0], sizes[1])))
      return tc_op_fail(a, "%s is no row of single precision by output channels", tc_op_shape_text(a, arg));
  }
  bool same = !other || (other->dtype == x->dtype && other->rank == x->rank);
  for (int32_t d = 0; other && same && d < x->rank; d++) same = tc_int_require_eq(a, other->sizes[d], sizes[d]) == 0;
  if (!same) return tc_op_fail(a, "what is added (%s) is not like the result", tc_op_shape_text(a, OTHER));
  bool last = tc_suggested_format(a, x) != TC_FORMAT_CONTIGUOUS;
  if (last) tc_strides_make_channels_last(a->syms, x->rank, sizes, strides);
  return tc_op_set_result(a, 0, x->dtype, x->rank, sizes, last ? strides : NULL);
}

// The direct loop nest: Σ over (channel of the group, kernel's positions).
static tc_lt lower_sum(tc_op_args *a, tc_dtype compute) {
  const tc_tensor_type *x = tc_op_tensor(a, INPUT), *w = tc_op_tensor(a, PACKED), *r = tc_op_result_type(a, 0);
  int32_t n = x->rank - 2;
  tc_lt input = tc_lo_arg(a, INPUT), packed = tc_lo_arg(a, PACKED);
  tc_int red[1 + MOST_SPACE], index[TC_MAX_RANK], taps = tc_int_const(a, 1), zero = tc_int_const(a, 0),
                                                  groups = tc_op_sym(a, GROUPS), two = tc_int_const(a, 2);
  red[0] = tc_int_floordiv(a, x->sizes[1], groups);
  for (int32_t i = 0; i < n; i++)
    red[1 + i] = tc_int_const(a, space_arg(a, KERNEL, i)), taps = tc_int_mul(a, taps, red[1 + i]);
  bool rows = tc_int_eq(a, taps, w->sizes[2]) != 1;
  tc_lo_begin_reduce(a, TC_RED_SUM, r->rank, r->sizes, 1 + n, red, index);
  tc_int own = tc_int_floordiv(a, r->sizes[1], groups), group = tc_int_floordiv(a, index[1], own),
         o = tc_int_mod(a, index[1], own), c = index[r->rank], tap = zero, inside = tc_int_const(a, 1);
  tc_int at[2 + MOST_SPACE] = {index[0], tc_int_add(a, tc_int_mul(a, group, red[0]), c)};
  for (int32_t i = 0; i < n; i++) {
    tc_int k = index[r->rank + 1 + i];
    if (!rows || i + 1 < n) tap = tc_int_add(a, tc_int_mul(a, tap, red[1 + i]), k);
    else c = tc_int_add(a, tc_int_mul(a, k, red[0]), c);
    at[2 + i] = tc_int_add(a, tc_int_mul(a, index[2 + i], tc_int_const(a, space_arg(a, STRIDE, i))),
                           tc_int_sub(a, tc_int_mul(a, k, tc_int_const(a, space_arg(a, DILATION, i))),
                                      tc_int_const(a, space_arg(a, PADDING, i))));
    inside = tc_sym_and(a->syms, inside, tc_int_within(a, at[2 + i], zero, x->sizes[2 + i]));
  }
  tc_int side = tc_int_const(a, SIDE), depth = tc_int_const(a, DEPTH), pair = tc_int_mod(a, c, depth);
  tc_int wi[PACKED_RANK] = {group,
                            tc_int_floordiv(a, o, side),
                            tap,
                            tc_int_floordiv(a, c, depth),
                            tc_int_floordiv(a, pair, two),
                            tc_int_add(a, tc_int_mul(a, tc_int_mod(a, o, side), two), tc_int_mod(a, pair, two))};
  tc_bval v = tc_lo_load_if(a, input, at, inside, tc_lo_const(a, x->dtype, 0, 0));
  v = tc_lo_op2(a, TC_K_MUL, tc_lo_cast(a, v, compute), tc_lo_cast(a, tc_lo_load(a, packed, wi), compute));
  return tc_lo_end(a, v, compute);
}

static int32_t conv_lower(tc_op_args *a) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  tc_dtype compute = tc_op_math_type(r->dtype);
  tc_lt sum = lower_sum(a, compute);
  static const char *const names[] = {"scale", "shift", "other", "v"};
  const char *known[4];
  tc_bval values[4];
  tc_int index[TC_MAX_RANK];
  tc_lo_begin(a, r->rank, r->sizes, index);
  values[0] = tc_lo_load(a, sum, index);
  static const int32_t kinds[] = {TC_K_MUL, TC_K_ADD, TC_K_ADD};
  for (int32_t i = 0; i < 3; i++) {
    if (!tc_op_tensor(a, FACTOR + i)) continue;
    tc_bval y = tc_lo_load(a, tc_lo_arg(a, FACTOR + i), i == 2 ? index : &index[1]);
    values[0] = tc_lo_op2(a, kinds[i], values[0], tc_lo_cast(a, y, compute));
  }
  known[0] = names[3];
  tc_lo_result(a, 0, tc_lo_end(a, tc_lo_text(a, follower_of(a)->text, 1, known, values), r->dtype));
  return TC_STATUS_OK;
}

static double ref_sum(tc_op_args *a, const int64_t *iy) {
  const tc_ref_view *x = tc_op_data(a, INPUT), *w = tc_op_data(a, PACKED), *y = tc_op_result_data(a, 0);
  int32_t n = x->rank - 2;
  int64_t groups = w->sizes[0], in = x->sizes[1] / groups, own = y->sizes[1] / groups, taps = 1;
  int64_t kernel[MOST_SPACE], k[MOST_SPACE] = {0}, o = iy[1] % own;
  for (int32_t i = 0; i < n; i++) kernel[i] = space_arg(a, KERNEL, i), taps *= kernel[i];
  bool rows = taps != w->sizes[2];
  double sum = 0;
  for (bool more = taps > 0; more; more = tc_ref_next(n, kernel, k)) {
    int64_t at = iy[0] * x->strides[0], tap = 0;
    bool inside = true;
    for (int32_t i = 0; i < n; i++) {
      int64_t p = iy[2 + i] * space_arg(a, STRIDE, i) + k[i] * space_arg(a, DILATION, i) - space_arg(a, PADDING, i);
      inside = inside && p >= 0 && p < x->sizes[2 + i];
      at += p * x->strides[2 + i];
      if (!rows || i + 1 < n) tap = tap * kernel[i] + k[i];
    }
    for (int64_t c = 0; inside && c < in; c++) {
      int64_t packed = rows ? k[n - 1] * in + c : c;
      int64_t wi[PACKED_RANK] = {iy[1] / own,    o / SIDE,           tap,
                                 packed / DEPTH, packed % DEPTH / 2, o % SIDE * 2 + packed % 2};
      sum += tc_ref_f(x, at + (iy[1] / own * in + c) * x->strides[1]) * tc_ref_f(w, tc_ref_offset(w, wi));
    }
  }
  return sum;
}

static int32_t conv_ref(tc_op_args *a) {
  const tc_ref_view *y = tc_op_result_data(a, 0), *scale = tc_op_data(a, FACTOR), *shift = tc_op_data(a, SHIFT),
                    *other = tc_op_data(a, OTHER);
  const follower *f = follower_of(a);
  int64_t i[TC_MAX_RANK] = {0};
  for (bool more = tc_ref_numel(y) > 0; more; more = tc_ref_next(y->rank, y->sizes, i)) {
    double v = ref_sum(a, i);
    if (scale) v *= tc_ref_f(scale, i[1] * scale->strides[0]);
    if (shift) v += tc_ref_f(shift, i[1] * shift->strides[0]);
    if (other) v += tc_ref_f(other, tc_ref_offset(other, i));
    tc_ref_put(y, tc_ref_offset(y, i), (tc_c128){f->value(v), 0});
  }
  return TC_STATUS_OK;
}

static const tc_op_def rows[] = {
    {.schema = "_pack_convolution(Tensor weight, SymInt groups, bool rows) -> Tensor",
     .meta = pack_meta,
     .lower = pack_lower,
     .ref = pack_ref},
    {.schema =
         "_convolution_packed(Tensor input, Tensor packed, Tensor? scale, Tensor? shift, Tensor? other, str then, "
         "SymInt[] kernel, SymInt[] stride, SymInt[] padding, SymInt[] dilation, SymInt groups, SymInt channels) "
         "-> Tensor",
     .meta = conv_meta,
     .lower = conv_lower,
     .ref = conv_ref,
     .flops = "2 * numel * product(kernel) * input.size(1) / groups"},
};
TC_OP_FAMILY(conv_packed);
