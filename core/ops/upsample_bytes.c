// Resampling of images of bytes, in integers.
//
// PyTorch's definition (the CPU kernels of ATen): one dimension after the other, the last one first, each rounded to
// bytes. The weights of a dimension are computed in double precision and brought to integers of at most 16 bits, all
// by one power of two: p is the largest up to 22 with ⌊½ + m·2^p⌋ < 2^15, where m is the largest weight. A byte is then
//   clamp((2^(p-1) + Σ weight·byte) >> p, 0, 255).
// Taps beyond a border are added to the border's weight, one after the other; m is the largest of these sums, partial
// ones included, which counts where taps are negative.
//
// Lowering computes the same in small nodes over [out, taps] in front of the sum, so that sizes may be symbols.
#include <math.h>

#include "core/ops/upsample.h"

enum { MOST_BITS = 22, LIMIT = 1 << 15 };

// ---- lowering ----
typedef struct bytes {
  const tc_resize *r;
  int32_t i;   // the dimension
  tc_int taps; // how many, at most
  tc_int num, den;
} bytes;

// Of the taps of output o without antialiasing: the number of the first, before borders, and the rest in 1 / den.
static void start_of(tc_op_args *a, const bytes *b, tc_int o, tc_int *first, tc_int *rest, tc_int *den) {
  const tc_resize *r = b->r;
  tc_int one = tc_int_const(a, 1), two = tc_int_const(a, 2), src = tc_int_mul(a, o, b->num);
  *den = b->den;
  if (!r->align) { // ((2o + 1)·num - den) / 2den
    src = tc_int_sub(a, tc_int_mul(a, tc_int_add(a, tc_int_mul(a, o, two), one), b->num), b->den);
    *den = tc_int_mul(a, b->den, two);
  }
  if (r->kind == TC_RESIZE_LINEAR) src = tc_int_max(a, src, tc_int_const(a, 0));
  tc_int low = tc_int_min(a, tc_int_floordiv(a, src, *den), tc_int_sub(a, r->in[b->i], one));
  *rest = tc_int_min(a, tc_int_sub(a, src, tc_int_mul(a, low, *den)), *den);
  *first = tc_int_sub(a, low, tc_int_const(a, r->kind == TC_RESIZE_CUBIC));
}

// Where tap k of output o lies.
static tc_int place_of(tc_op_args *a, const bytes *b, tc_int o, tc_int k) {
  tc_int first, rest, den, zero = tc_int_const(a, 0);
  if (b->r->aa) {
    tc_resize_window w;
    tc_resize_window_at(a, b->r, b->i, o, &w);
    return tc_int_add(a, w.first, k);
  }
  start_of(a, b, o, &first, &rest, &den);
  tc_int last = tc_int_sub(a, b->r->in[b->i], tc_int_const(a, 1));
  return tc_int_min(a, tc_int_max(a, tc_int_add(a, first, k), zero), last);
}
// Is it one at all?
static tc_int inside_of(tc_op_args *a, const bytes *b, tc_int o, tc_int k) {
  tc_resize_window w;
  if (!b->r->aa) return tc_int_const(a, 1);
  tc_resize_window_at(a, b->r, b->i, o, &w);
  return tc_int_within(a, tc_int_add(a, w.first, k), tc_int_const(a, 0), w.end);
}

static tc_bval only_where(tc_op_args *a, tc_int condition, tc_bval v, tc_dtype d) {
  tc_bval none = d == TC_F64 ? tc_lo_const(a, d, 0, 0) : tc_lo_const_int(a, d, 0);
  return tc_lo_op3(a, TC_K_SELECT, tc_lower_condition(a, condition), v, none);
}

// [out, taps]: the kernel at each tap, as it is.
static tc_lt kernel_values(tc_op_args *a, const bytes *b) {
  static const char *const names[] = {"d", "s"};
  static const char *const texts[] = {
      [TC_RESIZE_LINEAR] = "max(1 - abs(d / s), 0)",
      [TC_RESIZE_CUBIC] = "let u = abs(d / s); where(u < 1, (1.25 * u - 2.25) * u * u + 1, where(u < 2, ((-0.75 * u + "
                          "3.75) * u - 6) * u + 3, 0))"};
  static const char *const softer = "let u = abs(d / s); where(u < 1, (1.5 * u - 2.5) * u * u + 1, where(u < 2, ((-0.5 "
                                    "* u + 2.5) * u - 4) * u + 2, 0))";
  const tc_resize *r = b->r;
  bool cubic = r->kind == TC_RESIZE_CUBIC;
  tc_int sizes[2] = {r->out[b->i], b->taps}, at[2], off, unit;
  tc_lo_begin(a, 2, sizes, at);
  if (r->aa) {
    tc_resize_window w;
    tc_resize_window_at(a, r, b->i, at[0], &w);
    tc_int twice = tc_int_mul(a, w.half, tc_int_const(a, 2)), pos = tc_int_add(a, w.first, at[1]);
    off = tc_int_sub(a, tc_int_add(a, tc_int_mul(a, pos, twice), w.half), w.center), unit = w.stretch;
  } else {
    tc_int first, rest;
    start_of(a, b, at[0], &first, &rest, &unit);
    tc_int k = tc_int_sub(a, at[1], tc_int_const(a, cubic));
    off = tc_int_sub(a, tc_int_mul(a, k, unit), rest);
  }
  tc_bval v[2] = {tc_lo_index(a, off, TC_F64), tc_lo_index(a, unit, TC_F64)};
  tc_bval w = tc_lo_text(a, r->aa && cubic ? softer : texts[r->kind], 2, names, v);
  return tc_lo_end(a, only_where(a, inside_of(a, b, at[0], at[1]), w, TC_F64), TC_F64);
}

// [out, taps]: with antialiasing the parts of the whole; else what has come together at the tap's place so far.
static tc_lt weights(tc_op_args *a, const bytes *b, tc_lt values) {
  tc_int out = b->r->out[b->i], sizes[2] = {out, b->taps}, at[3];
  tc_lo_begin_reduce(a, TC_RED_SUM, b->r->aa ? 1 : 2, sizes, 1, &b->taps, at);
  tc_int from[2] = {at[0], at[b->r->aa ? 1 : 2]};
  tc_bval v = tc_lo_load(a, values, from);
  if (b->r->aa) {
    tc_lt total = tc_lo_end(a, v, TC_F64);
    tc_lo_begin(a, 2, sizes, at);
    return tc_lo_end(a, tc_resize_share(a, tc_lo_load(a, values, at), tc_lo_load(a, total, at), TC_F64), TC_F64);
  }
  tc_int before = tc_sym_cmp(a->syms, TC_SYM_LE, at[2], at[1]),
         same = tc_sym_cmp(a->syms, TC_SYM_EQ, place_of(a, b, at[0], at[2]), place_of(a, b, at[0], at[1]));
  return tc_lo_end(a, only_where(a, tc_sym_and(a->syms, before, same), v, TC_F64), TC_F64);
}

// p, a number: of the bits k = 0, 1, … those count with ⌊½ + m·2^(k+1)⌋ < 2^15, which gets false once and stays so.
static tc_lt precision(tc_op_args *a, const bytes *b, tc_lt w) {
  static const char *const names[] = {"m", "s"};
  tc_int sizes[2] = {b->r->out[b->i], b->taps}, at[2], bits = tc_int_const(a, MOST_BITS), k;
  tc_lo_begin_reduce(a, TC_RED_MAX, 0, NULL, 2, sizes, at);
  tc_lt largest = tc_lo_end(a, tc_lo_load(a, w, at), TC_F64);
  tc_lo_begin_reduce(a, TC_RED_SUM, 0, NULL, 1, &bits, &k);
  tc_bval one = tc_lo_const_int(a, TC_I32, 1);
  tc_bval scale = tc_lo_op2(a, TC_K_SHL, one, tc_lo_op2(a, TC_K_ADD, tc_lo_index(a, k, TC_I32), one));
  tc_bval v[2] = {tc_lo_load(a, largest, NULL), tc_lo_cast(a, scale, TC_F64)};
  tc_bval fits = tc_lo_text(a, "floor(0.5 + m * s) < 32768", 2, names, v);
  return tc_lo_end(a, tc_lo_cast(a, fits, TC_I32), TC_I32);
}

// [out, taps]: integers. Of taps at one place the last one has all of its weight.
static tc_lt integers(tc_op_args *a, const bytes *b, tc_lt w, tc_lt p) {
  static const char *const names[] = {"w", "s"};
  tc_int sizes[2] = {b->r->out[b->i], b->taps}, at[2], one = tc_int_const(a, 1);
  tc_lo_begin(a, 2, sizes, at);
  tc_bval scale = tc_lo_op2(a, TC_K_SHL, tc_lo_const_int(a, TC_I32, 1), tc_lo_load(a, p, NULL));
  tc_bval v[2] = {tc_lo_load(a, w, at), tc_lo_cast(a, scale, TC_F64)};
  tc_bval n = tc_lo_cast(a, tc_lo_text(a, "let v = w * s; trunc(v + where(v < 0, -0.5, 0.5))", 2, names, v), TC_I32);
  if (b->r->aa) return tc_lo_end(a, n, TC_I32);
  tc_int end = tc_sym_cmp(a->syms, TC_SYM_EQ, at[1], tc_int_sub(a, b->taps, one)),
         moves = tc_sym_cmp(a->syms, TC_SYM_LT, place_of(a, b, at[0], at[1]),
                            place_of(a, b, at[0], tc_int_add(a, at[1], one)));
  tc_bval last = tc_lo_op2(a, TC_K_OR, tc_lower_condition(a, end), tc_lower_condition(a, moves));
  return tc_lo_end(a, tc_lo_op3(a, TC_K_SELECT, last, n, tc_lo_const_int(a, TC_I32, 0)), TC_I32);
}

static tc_lt along(tc_op_args *a, const tc_resize *r, int32_t i, tc_lt x) {
  bytes b = {.r = r, .i = i, .taps = tc_int_const(a, r->kind == TC_RESIZE_CUBIC ? 4 : 2)};
  int32_t rank = r->n + 2, axis = 2 + i;
  tc_int sizes[TC_MAX_RANK], index[TC_MAX_RANK + 1];
  tc_resize_ratio(a, r, i, &b.num, &b.den);
  if (r->aa) {
    tc_resize_window w;
    tc_resize_window_at(a, r, i, tc_int_const(a, 0), &w);
    b.taps = w.size;
  }
  tc_lt w = weights(a, &b, kernel_values(a, &b)), p = precision(a, &b, w), n = integers(a, &b, w, p);
  for (int32_t d = 0; d < rank; d++) sizes[d] = d == axis ? r->out[i] : tc_lo_size(a, x, d);
  tc_lo_begin_reduce(a, TC_RED_SUM, rank, sizes, 1, &b.taps, index);
  tc_int o = index[axis], k = index[rank], tap[2] = {o, k};
  index[axis] = place_of(a, &b, o, k);
  tc_int inside = inside_of(a, &b, o, k);
  tc_bval v = tc_sym_is_int(inside, 1) ? tc_lo_load(a, x, index)
                                       : tc_lo_load_if(a, x, index, inside, tc_lo_const_int(a, TC_U8, 0));
  tc_lt sum = tc_lo_end(a, tc_lo_op2(a, TC_K_MUL, tc_lo_load(a, n, tap), tc_lo_cast(a, v, TC_I32)), TC_I32);
  tc_lo_begin(a, rank, sizes, index);
  tc_bval one = tc_lo_const_int(a, TC_I32, 1), bits = tc_lo_load(a, p, NULL);
  tc_bval half = tc_lo_op2(a, TC_K_SHL, one, tc_lo_op2(a, TC_K_SUB, bits, one));
  v = tc_lo_op2(a, TC_K_SHR, tc_lo_op2(a, TC_K_ADD, tc_lo_load(a, sum, index), half), bits);
  v = tc_lo_op2(a, TC_K_MAX, v, tc_lo_const_int(a, TC_I32, 0));
  return tc_lo_end(a, tc_lo_op2(a, TC_K_MIN, v, tc_lo_const_int(a, TC_I32, 255)), TC_U8);
}

tc_lt tc_resize_bytes_lower(tc_op_args *a, const tc_resize *r) {
  tc_lt x = tc_lo_arg(a, 0);
  for (int32_t i = r->n - 1; i >= 0; i--) x = along(a, r, i, x);
  return x;
}

// ---- reference ----
typedef struct table {
  int64_t taps, *first, *count; // first, count: by output
  int32_t bits, *weight;        // by output and tap
} table;

// The weights of output o in floating point; the largest that they or their partial sums have been.
static double real_weights(const tc_resize *r, int32_t i, int64_t o, double *w, int64_t *first, int64_t *count) {
  bool cubic = r->kind == TC_RESIZE_CUBIC;
  int64_t in = r->in[i]->value, reach = cubic ? 2 : 1;
  double factor = tc_resize_factor(r, i), most = 0, total = 0;
  if (r->aa) {
    double stretch = fmax(factor, 1), support = (double)reach * stretch, center = factor * ((double)o + 0.5);
    *first = (int64_t)fmax(center - support + 0.5, 0);
    *count = (int64_t)fmin(center + support + 0.5, (double)in) - *first;
    for (int64_t k = 0; k < *count; k++) {
      double x = ((double)(k + *first) - center + 0.5) / stretch;
      total += w[k] = cubic ? tc_resize_cubic(x, -0.5) : fmax(1 - fabs(x), 0);
    }
    for (int64_t k = 0; k < *count && total != 0; k++) most = fmax(most, w[k] /= total);
    return most;
  }
  double src = r->align ? factor * (double)o : factor * ((double)o + 0.5) - 0.5;
  if (!cubic && src < 0) src = 0;
  int64_t low = (int64_t)fmin(floor((float)src), (double)(in - 1)), start = low - reach + 1;
  double part = fmin(fmax(src - (double)low, 0), 1);
  *first = start > 0 ? start : 0;
  *count = (start + 2 * reach < in ? start + 2 * reach : in) - *first;
  for (int64_t k = 0; k < *count; k++) w[k] = 0;
  for (int64_t k = 0; k < 2 * reach; k++) {
    int64_t place = start + k < 0 ? 0 : start + k < in ? start + k : in - 1;
    double x = (double)(k + 1 - reach) - part, *at = &w[place - *first];
    most = fmax(most, *at += cubic ? tc_resize_cubic(x, -0.75) : fmax(1 - fabs(x), 0));
  }
  return most;
}

static bool make_table(tc_op_args *a, const tc_resize *r, int32_t i, table *t) {
  int64_t out = r->out[i]->value;
  double most = 0, support = (r->kind == TC_RESIZE_CUBIC ? 2 : 1) * (r->aa ? fmax(tc_resize_factor(r, i), 1) : 1);
  t->taps = 2 * (int64_t)ceil(support) + 2;
  uint64_t n = (uint64_t)(out * t->taps);
  double *w = tc_op_scratch(a, n * sizeof *w);
  t->first = tc_op_scratch(a, (uint64_t)out * sizeof *t->first);
  t->count = tc_op_scratch(a, (uint64_t)out * sizeof *t->count);
  t->weight = tc_op_scratch(a, n * sizeof *t->weight);
  if (!w || !t->first || !t->count || !t->weight) return false;
  for (int64_t o = 0; o < out; o++)
    most = fmax(most, real_weights(r, i, o, &w[o * t->taps], &t->first[o], &t->count[o]));
  for (t->bits = 0; t->bits < MOST_BITS; t->bits++)
    if ((int64_t)(0.5 + most * ldexp(1, t->bits + 1)) >= LIMIT) break;
  for (int64_t o = 0; o < out; o++)
    for (int64_t k = o * t->taps; k < o * t->taps + t->count[o]; k++)
      t->weight[k] = (int32_t)round(w[k] * ldexp(1, t->bits)); // halves away from zero
  return true;
}

// The byte for output o; its sources lie `step` apart.
static int64_t byte_at(const table *t, int64_t o, const int64_t *from, int64_t step) {
  int64_t sum = (int64_t)1 << (t->bits - 1);
  for (int64_t k = 0; k < t->count[o]; k++) sum += t->weight[o * t->taps + k] * from[(t->first[o] + k) * step];
  sum = sum >> t->bits;
  return sum < 0 ? 0 : sum > 255 ? 255 : sum;
}

int32_t tc_resize_bytes_ref(tc_op_args *a, const tc_resize *r) {
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_result_data(a, 0);
  int64_t rows = x->sizes[2], columns = x->sizes[3], width = y->sizes[3], image[4] = {0};
  table down, across;
  if (tc_ref_numel(y) == 0) return TC_STATUS_OK;
  if (!make_table(a, r, 0, &down) || !make_table(a, r, 1, &across)) return TC_STATUS_OUT_OF_MEMORY;
  int64_t *row = tc_op_scratch(a, (uint64_t)columns * sizeof *row),
          *narrow = tc_op_scratch(a, (uint64_t)(rows * width) * sizeof *narrow);
  if (!row || !narrow) return TC_STATUS_OUT_OF_MEMORY;
  do { // of each image
    for (int64_t h = 0; h < rows; h++) {
      for (int64_t c = 0; c < columns; c++)
        row[c] = tc_ref_i(x, tc_ref_offset(x, (int64_t[]){image[0], image[1], h, c}));
      for (int64_t c = 0; c < width; c++) narrow[h * width + c] = byte_at(&across, c, row, 1);
    }
    for (int64_t h = 0; h < y->sizes[2]; h++)
      for (int64_t c = 0; c < width; c++)
        tc_ref_put_i(y, tc_ref_offset(y, (int64_t[]){image[0], image[1], h, c}), byte_at(&down, h, &narrow[c], width));
  } while (tc_ref_next(2, y->sizes, image));
  return TC_STATUS_OK;
}
