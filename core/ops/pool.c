// Pooling in 1 to 3 dimensions: windows of fixed size (avg_pool, max_pool) and windows that divide the input evenly
// (adaptive). Every result element is a reduction over its window; positions outside of the input are left out.
//
// Maxima with indices: a second reduction takes the smallest index of the input's plane at which the maximum (or NaN)
// stands. The reference finds both in one walk.
#include <math.h>

#include "core/ops/ops.h"

enum { MAX_SPACE = 3 };

typedef struct pool {
  int32_t n, lead; // spatial dimensions; those before them
  bool adaptive, max, include_pad;
  int64_t kernel[MAX_SPACE], stride[MAX_SPACE], padding[MAX_SPACE], dilation[MAX_SPACE];
  int32_t input;                                           // argument that is pooled
  int64_t divisor;                                         // 0: by the window
  tc_int in[MAX_SPACE], out[MAX_SPACE], window[MAX_SPACE]; // window: largest extent
} pool;

static int64_t list_arg(tc_op_args *a, const char *name, int32_t i, int64_t otherwise) {
  int32_t arg = tc_op_arg_index(a, name);
  if (arg < 0 || tc_op_count(a, arg) == 0) return otherwise;
  return tc_op_int_at(a, arg, tc_op_count(a, arg) == 1 ? 0 : i, otherwise);
}

// ⌊(in + 2·padding - dilation·(kernel - 1) - 1 [+ stride - 1]) / stride⌋ + 1; with ceil_mode the last window must start
// inside of the input or its left padding.
static tc_int pooled_size(tc_op_args *a, const pool *p, int32_t i, bool ceil) {
  tc_int s = tc_int_const(a, p->stride[i]), one = tc_int_const(a, 1);
  int64_t fixed = 2 * p->padding[i] - p->dilation[i] * (p->kernel[i] - 1) - 1 + (ceil ? p->stride[i] - 1 : 0);
  tc_int out = tc_int_add(a, tc_int_floordiv(a, tc_int_add(a, p->in[i], tc_int_const(a, fixed)), s), one);
  if (!ceil) return out;
  tc_int start = tc_int_mul(a, tc_int_sub(a, out, one), s),
         limit = tc_int_add(a, p->in[i], tc_int_const(a, p->padding[i]));
  return tc_sym_decide(a->syms, TC_SYM_LT, start, limit, true) ? out : tc_int_sub(a, out, one);
}

// Only a stride may be an empty list.
static int32_t check_lists(tc_op_args *a, int32_t n) {
  static const char *const names[] = {"kernel_size", "padding", "dilation"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    int32_t arg = tc_op_arg_index(a, names[i]);
    if (arg >= 0 && tc_op_kind(a, arg) == TC_AK_INTS && tc_op_count(a, arg) == 0)
      return tc_op_fail(a, "%s must be a single int, or a list of %d", names[i], n);
  }
  return TC_STATUS_OK;
}

static int32_t read_pool(tc_op_args *a, pool *p) {
  tc_sv name = a->op->schema.name;
  int32_t input = tc_sv_ends(name, "_backward");
  const tc_tensor_type *t = tc_op_tensor(a, input);
  *p = (pool){.n = 2, .input = input};
  for (size_t i = 0; i + 1 < name.size; i++) {
    if (name.data[i + 1] == 'd' && name.data[i] >= '1' && name.data[i] <= '3') p->n = name.data[i] - '0';
    if (name.data[i] == 'm' && name.data[i + 1] == 'a') p->max = true;
  }
  p->adaptive = tc_sv_starts(name, "adaptive") || tc_sv_starts(name, "_adaptive");
  p->lead = t->rank - p->n;
  if (p->lead < 1 || p->lead > 2)
    return tc_op_fail(a, "expected an input of rank %d or %d: %s", p->n + 1, p->n + 2, tc_op_shape_text(a, 0));
  if (check_lists(a, p->n)) return TC_STATUS_INVALID_ARGUMENT;
  int32_t ceil = tc_op_arg_index(a, "ceil_mode"), pad = tc_op_arg_index(a, "count_include_pad"),
          divisor = tc_op_arg_index(a, "divisor_override");
  p->include_pad = pad < 0 || tc_op_bool(a, pad, 1);
  if (divisor >= 0 && tc_op_kind(a, divisor) != TC_AK_NONE) {
    p->divisor = tc_op_int(a, divisor, 0);
    if (p->divisor == 0) return tc_op_fail(a, "divisor must be not zero");
  }
  for (int32_t i = 0; i < p->n; i++) {
    p->in[i] = t->sizes[p->lead + i];
    if (p->adaptive) {
      int32_t n = p->input ? 0 : tc_op_count(a, 1);
      p->out[i] =
          n && !tc_sym_is_int(tc_op_sym_at(a, 1, n == 1 ? 0 : i), -1) ? tc_op_sym_at(a, 1, n == 1 ? 0 : i) : p->in[i];
      if (tc_op_require_size(a, p->out[i])) return TC_STATUS_INVALID_ARGUMENT;
      if (p->input && tc_op_tensor(a, 0)->rank == t->rank) p->out[i] = tc_op_tensor(a, 0)->sizes[p->lead + i];
      if (tc_sym_is_int(p->out[i], 0)) p->window[i] = tc_int_const(a, 1);
      else if (tc_int_eq(a, tc_int_mod(a, p->in[i], p->out[i]), tc_int_const(a, 0)) == 1)
        p->window[i] = tc_int_floordiv(a, p->in[i], p->out[i]);
      else p->window[i] = tc_int_add(a, tc_sym_ceildiv(a->syms, p->in[i], p->out[i]), tc_int_const(a, 1));
      continue;
    }
    p->kernel[i] = list_arg(a, "kernel_size", i, 0);
    p->stride[i] = list_arg(a, "stride", i, p->kernel[i]);
    p->padding[i] = list_arg(a, "padding", i, 0);
    p->dilation[i] = list_arg(a, "dilation", i, 1);
    if (p->kernel[i] < 1 || p->stride[i] < 1 || p->dilation[i] < 1)
      return tc_op_fail(a, "kernel_size, stride and dilation must be positive");
    if (p->padding[i] < 0 || 2 * p->padding[i] > p->kernel[i])
      return tc_op_fail(a, "padding must be at least 0 and at most half of the kernel size: %lld and %lld",
                        (long long)p->padding[i], (long long)p->kernel[i]);
    p->out[i] = pooled_size(a, p, i, ceil >= 0 && tc_op_bool(a, ceil, 0));
    p->window[i] = tc_int_const(a, p->kernel[i]);
    if (tc_int_lt(a, p->out[i], tc_int_const(a, 1)) == 1)
      return tc_op_fail(a, "the output of %s would be too small", tc_op_shape_text(a, 0));
  }
  return TC_STATUS_OK;
}

static int32_t pool_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  pool p;
  tc_int sizes[TC_MAX_RANK], strides[TC_MAX_RANK];
  if (read_pool(a, &p)) return TC_STATUS_INVALID_ARGUMENT;
  if (tc_dtype_is_complex(t->dtype) || t->dtype == TC_BOOL)
    return tc_op_fail(a, "pooling is not implemented for %s", tc_dtype_torch_name(t->dtype));
  int32_t first = !p.adaptive ? p.lead - 1 : p.max || p.n == 3 ? 1 : p.lead; // that may not be empty
  for (int32_t d = first; d < t->rank; d++)
    if (tc_sym_is_int(t->sizes[d], 0))
      return tc_op_fail(a, "expected an input whose dimension %d is not empty: %s", d, tc_op_shape_text(a, 0));
  for (int32_t d = 0; d < p.lead; d++) sizes[d] = t->sizes[d];
  for (int32_t i = 0; i < p.n; i++) sizes[p.lead + i] = p.out[i];
  bool plain = p.n == 3 && (p.adaptive || t->rank == 4); // of volumes only batches keep their layout
  int32_t format = plain ? TC_FORMAT_CONTIGUOUS : tc_suggested_format(a, t);
  if (p.n == 1 && !tc_sv_is(a->op->schema.name, "max_pool1d")) format = tc_suggested_row_format(a, t);
  // A single average of an image is a mean: row-major unless the image is channels-last.
  for (int32_t i = 0; i < a->n_results; i++) {
    if (p.n == 1 && format != TC_FORMAT_CONTIGUOUS) tc_row_strides(a, t->rank, sizes, strides);
    else if (format != TC_FORMAT_CONTIGUOUS) tc_strides_make_channels_last(a->syms, t->rank, sizes, strides);
    if (tc_op_set_result(a, i, i == 0 ? t->dtype : TC_I64, t->rank, sizes,
                         format == TC_FORMAT_CONTIGUOUS ? NULL : strides))
      return TC_STATUS_INVALID_ARGUMENT;
  }
  return TC_STATUS_OK;
}

// ---- lowering ----
// First and last (exclusive) input position of output position o, not clamped to the input.
static void window_of(tc_op_args *a, const pool *p, int32_t i, tc_int o, tc_int *start, tc_int *end) {
  if (p->adaptive) {
    *start = tc_int_floordiv(a, tc_int_mul(a, o, p->in[i]), p->out[i]);
    *end = tc_sym_ceildiv(a->syms, tc_int_mul(a, tc_int_add(a, o, tc_int_const(a, 1)), p->in[i]), p->out[i]);
    return;
  }
  *start = tc_int_sub(a, tc_int_mul(a, o, tc_int_const(a, p->stride[i])), tc_int_const(a, p->padding[i]));
  *end = tc_int_add(a, *start, tc_int_const(a, p->dilation[i] * (p->kernel[i] - 1) + 1));
}

// Opens the reduction over the windows; `at` is the input's index, the result the condition that it is inside.
static tc_int begin_window(tc_op_args *a, const pool *p, int32_t kind, tc_int *index, tc_int *at) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  tc_lo_begin_reduce(a, kind, r->rank, r->sizes, p->n, p->window, index);
  tc_int inside = tc_int_const(a, 1);
  for (int32_t d = 0; d < p->lead; d++) at[d] = index[d];
  for (int32_t i = 0; i < p->n; i++) {
    tc_int start, end, zero = tc_int_const(a, 0);
    window_of(a, p, i, index[p->lead + i], &start, &end);
    at[p->lead + i] =
        tc_int_add(a, start, tc_int_mul(a, index[r->rank + i], tc_int_const(a, p->adaptive ? 1 : p->dilation[i])));
    tc_int in =
        p->adaptive ? tc_int_within(a, at[p->lead + i], zero, end) : tc_int_within(a, at[p->lead + i], zero, p->in[i]);
    if (!tc_sym_is_int(in, 1)) inside = tc_sym_is_int(inside, 1) ? in : tc_sym_and(a->syms, inside, in);
  }
  return inside;
}

static tc_bval load_inside(tc_op_args *a, tc_lt x, const tc_int *at, tc_int inside, tc_bval other) {
  return tc_sym_is_int(inside, 1) ? tc_lo_load(a, x, at) : tc_lo_load_if(a, x, at, inside, other);
}

// Elements that a window's sum is divided by.
static tc_int window_count(tc_op_args *a, const pool *p, const tc_int *at) {
  tc_int count = tc_int_const(a, 1), zero = tc_int_const(a, 0);
  for (int32_t i = 0; i < p->n; i++) {
    tc_int start, end;
    window_of(a, p, i, at[i], &start, &end);
    tc_int limit = p->adaptive ? end : tc_int_add(a, p->in[i], tc_int_const(a, p->include_pad ? p->padding[i] : 0));
    tc_int extent = tc_int_sub(a, tc_int_min(a, end, limit), p->include_pad ? start : tc_int_max(a, start, zero));
    count = tc_int_mul(a, count, extent);
  }
  return p->divisor ? tc_int_const(a, p->divisor) : count;
}

// Neither sums nor what they are divided by need fit the integers that are averaged.
static tc_dtype averaged_in(tc_dtype d) {
  return tc_dtype_is_float(d) || tc_dtype_is_complex(d) ? tc_op_math_type(d) : TC_I64;
}

static int32_t avg_lower(tc_op_args *a) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  pool p;
  if (read_pool(a, &p)) return TC_STATUS_INVALID_ARGUMENT;
  tc_int index[TC_MAX_RANK], at[TC_MAX_RANK];
  tc_dtype compute = averaged_in(r->dtype);
  tc_lt x = tc_lo_arg(a, 0);
  tc_int inside = begin_window(a, &p, TC_RED_SUM, index, at);
  tc_bval v = load_inside(a, x, at, inside, tc_lo_const_int(a, tc_lo_dtype(a, x), 0));
  tc_lt sum = tc_lo_end(a, tc_lo_cast(a, v, compute), compute);
  tc_lo_begin(a, r->rank, r->sizes, index);
  tc_int count = window_count(a, &p, index + p.lead);
  tc_lo_result(
      a, 0, tc_lo_end(a, tc_lo_op2(a, TC_K_DIV, tc_lo_load(a, sum, index), tc_lo_index(a, count, compute)), r->dtype));
  return TC_STATUS_OK;
}

// ---- the derivative of an average: each window spreads its gradient evenly ----
static int32_t avg_backward_meta(tc_op_args *a) {
  const tc_tensor_type *g = tc_op_tensor(a, 0), *x = tc_op_tensor(a, 1);
  pool p;
  if (read_pool(a, &p)) return TC_STATUS_INVALID_ARGUMENT;
  bool differ = g->rank != x->rank || g->dtype != x->dtype;
  for (int32_t d = 0; d < x->rank && !differ; d++)
    differ = tc_int_require_eq(a, g->sizes[d], d < p.lead ? x->sizes[d] : p.out[d - p.lead]) != 0;
  if (differ)
    return tc_op_fail(a, "the gradient %s does not belong to the input %s", tc_op_shape_text(a, 0),
                      tc_op_shape_text(a, 1));
  for (int32_t d = 1; p.adaptive && d < g->rank; d++)
    if (tc_sym_is_int(g->sizes[d], 0))
      return tc_op_fail(a, "expected a gradient whose dimension %d is not empty: %s", d, tc_op_shape_text(a, 0));
  bool plain = p.adaptive && p.n == 3;
  return tc_op_format_result(a, 0, x->dtype, x->rank, x->sizes,
                             plain ? TC_FORMAT_CONTIGUOUS : tc_suggested_format(a, x), 1);
}

static int32_t avg_backward_lower(tc_op_args *a) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  pool p;
  if (read_pool(a, &p)) return TC_STATUS_INVALID_ARGUMENT;
  tc_dtype compute = averaged_in(r->dtype);
  tc_int index[TC_MAX_RANK], at[TC_MAX_RANK], windows[MAX_SPACE], inside = tc_int_const(a, 1), one = tc_int_const(a, 1),
                                                                  zero = tc_int_const(a, 0);
  for (int32_t i = 0; i < p.n; i++) // that may hold one element
    windows[i] = p.adaptive ? tc_int_add(a, tc_sym_ceildiv(a->syms, p.out[i], tc_int_max(a, p.in[i], one)), one)
                            : tc_int_const(a, (p.kernel[i] + p.stride[i] - 1) / p.stride[i]);
  tc_lt g = tc_lo_arg(a, 0);
  tc_lo_begin_reduce(a, TC_RED_SUM, r->rank, r->sizes, p.n, windows, index);
  for (int32_t d = 0; d < p.lead; d++) at[d] = index[d];
  for (int32_t i = 0; i < p.n; i++) {
    tc_int x = index[p.lead + i], t = index[r->rank + i], start, end, o;
    if (p.adaptive) o = tc_int_add(a, tc_int_floordiv(a, tc_int_mul(a, x, p.out[i]), p.in[i]), t);
    else
      o = tc_int_sub(
          a, tc_int_floordiv(a, tc_int_add(a, x, tc_int_const(a, p.padding[i])), tc_int_const(a, p.stride[i])), t);
    at[p.lead + i] = o;
    window_of(a, &p, i, o, &start, &end);
    tc_int parts[] = {tc_int_within(a, o, zero, p.out[i]), tc_int_within(a, x, start, end)};
    for (int32_t k = 0; k < 2; k++)
      if (!tc_sym_is_int(parts[k], 1))
        inside = tc_sym_is_int(inside, 1) ? parts[k] : tc_sym_and(a->syms, inside, parts[k]);
  }
  tc_bval v = tc_lo_cast(a, load_inside(a, g, at, inside, tc_lo_const(a, tc_lo_dtype(a, g), 0, 0)), compute);
  // Where there is no window its size means nothing, but must not be zero.
  tc_bval count = tc_lo_index(
      a, tc_int_max(a, window_count(a, &p, at + p.lead), p.divisor < 0 ? tc_int_const(a, p.divisor) : one), compute);
  tc_lo_result(a, 0, tc_lo_end(a, tc_lo_op2(a, TC_K_DIV, v, count), r->dtype));
  return TC_STATUS_OK;
}

static int64_t lowest_int(tc_dtype d) {
  int32_t bits = tc_dtype_size(d) * 8;
  return tc_dtype_class(d) == 'u' ? 0 : bits == 64 ? INT64_MIN : -((int64_t)1 << (bits - 1));
}

static tc_bval lowest(tc_op_args *a, tc_dtype d) {
  return tc_dtype_is_float(d) ? tc_lo_const(a, d, -INFINITY, 0) : tc_lo_const_int(a, d, lowest_int(d));
}

// Windows with holes may meet nothing but padding. Like PyTorch's, they point to where they begin, behind what lies in
// front of the input, which may be behind the input.
static bool may_be_empty(const pool *p) {
  for (int32_t i = 0; i < p->n && !p->adaptive; i++)
    if (p->dilation[i] > 1 && p->padding[i] > 0) return true;
  return false;
}

static tc_lt begin_of_empty(tc_op_args *a, const pool *p, tc_lt ids) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  tc_int index[TC_MAX_RANK], flat = tc_int_const(a, 0);
  tc_lo_begin(a, r->rank, r->sizes, index);
  for (int32_t i = 0; i < p->n; i++) {
    tc_int start, end;
    window_of(a, p, i, index[p->lead + i], &start, &end);
    start = tc_int_max(a, start, tc_int_mod(a, start, tc_int_const(a, p->dilation[i])));
    flat = tc_int_add(a, tc_int_mul(a, flat, p->in[i]), start);
  }
  tc_bval v = tc_lo_load(a, ids, index), none = tc_lo_const_int(a, TC_I64, INT64_MAX);
  tc_bval empty = tc_lo_op2(a, TC_K_EQ, v, none);
  return tc_lo_end(a, tc_lo_op3(a, TC_K_SELECT, empty, tc_lo_index(a, flat, TC_I64), v), TC_I64);
}

static int32_t max_lower(tc_op_args *a) {
  pool p;
  if (read_pool(a, &p)) return TC_STATUS_INVALID_ARGUMENT;
  tc_int index[TC_MAX_RANK], at[TC_MAX_RANK];
  tc_lt x = tc_lo_arg(a, 0);
  tc_dtype d = tc_lo_dtype(a, x);
  tc_int inside = begin_window(a, &p, TC_RED_MAX, index, at);
  tc_lt max = tc_lo_end(a, load_inside(a, x, at, inside, lowest(a, d)), d);
  tc_lo_result(a, 0, max);
  if (tc_op_result_count(a) < 2) return TC_STATUS_OK;
  inside = begin_window(a, &p, TC_RED_MIN, index, at);
  tc_bval v = load_inside(a, x, at, inside, lowest(a, d)), m = tc_lo_load(a, max, index);
  tc_bval hit = tc_lo_op2(a, TC_K_EQ, v, m);
  if (tc_dtype_is_float(d))
    hit = tc_lo_op3(a, TC_K_SELECT, tc_lo_op2(a, TC_K_NE, m, m), tc_lo_op2(a, TC_K_NE, v, v), hit);
  if (!tc_sym_is_int(inside, 1)) hit = tc_lo_op2(a, TC_K_AND, hit, tc_lower_condition(a, inside));
  tc_int flat = tc_int_const(a, 0);
  for (int32_t i = 0; i < p.n; i++) flat = tc_int_add(a, tc_int_mul(a, flat, p.in[i]), at[p.lead + i]);
  tc_bval none = tc_lo_const_int(a, TC_I64, INT64_MAX);
  tc_lt ids = tc_lo_end(a, tc_lo_op3(a, TC_K_SELECT, hit, tc_lo_index(a, flat, TC_I64), none), TC_I64);
  tc_lo_result(a, 1, may_be_empty(&p) ? begin_of_empty(a, &p, ids) : ids);
  return TC_STATUS_OK;
}

// ---- reference ----
typedef struct range {
  int64_t start, end, step; // inside of the input
  int64_t extent;           // that an average divides by
} range;
static range range_of(const pool *p, int32_t i, int64_t o) {
  int64_t in = p->in[i]->value, out = p->out[i]->value;
  range r = {.step = 1};
  if (p->adaptive) {
    r.start = o * in / out, r.end = ((o + 1) * in + out - 1) / out;
    r.extent = r.end - r.start;
    return r;
  }
  r.step = p->dilation[i];
  int64_t first = o * p->stride[i] - p->padding[i], last = first + r.step * (p->kernel[i] - 1) + 1,
          padded = in + p->padding[i];
  r.extent = (last < padded ? last : padded) - first;
  r.start = first;
  while (r.start < 0) r.start += r.step;
  r.end = last < in ? last : in;
  if (!p->include_pad) r.extent = r.end - (first > 0 ? first : 0);
  return r;
}

static int32_t pool_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_result_data(a, 0),
                    *ids = tc_op_result_count(a) > 1 ? tc_op_result_data(a, 1) : NULL;
  pool p;
  int64_t iy[TC_MAX_RANK] = {0};
  if (read_pool(a, &p)) return TC_STATUS_INVALID_ARGUMENT;
  for (bool more = tc_ref_numel(y) > 0; more; more = tc_ref_next(y->rank, y->sizes, iy)) {
    range r[MAX_SPACE];
    int64_t base = 0, k[MAX_SPACE], best = -1, best_id = 0, total = 0, divisor = 1;
    double sum = 0;
    bool any = true;
    for (int32_t d = 0; d < p.lead; d++) base += iy[d] * x->strides[d];
    for (int32_t i = 0; i < p.n; i++)
      r[i] = range_of(&p, i, iy[p.lead + i]), k[i] = r[i].start, divisor *= r[i].extent,
      best_id = best_id * p.in[i]->value + k[i], any = any && r[i].start < r[i].end;
    while (any) {
      int64_t at = base, flat = 0;
      for (int32_t i = 0; i < p.n; i++) at += k[i] * x->strides[p.lead + i], flat = flat * x->sizes[p.lead + i] + k[i];
      double v = tc_ref_f(x, at);
      sum += v;
      if (x->dtype == TC_I64) total += tc_ref_i(x, at);
      bool better = best < 0 || (x->dtype == TC_I64 ? tc_ref_i(x, at) > tc_ref_i(x, best)
                                                    : !isnan(tc_ref_f(x, best)) && (isnan(v) || v > tc_ref_f(x, best)));
      if (better) best = at, best_id = flat;
      int32_t i = p.n - 1;
      for (; i >= 0; i--) {
        if ((k[i] += r[i].step) < r[i].end) break;
        k[i] = r[i].start;
      }
      any = i >= 0;
    }
    int64_t to = tc_ref_offset(y, iy);
    if (p.divisor) divisor = p.divisor;
    if (p.max && best >= 0) tc_ref_copy(y, to, x, best);
    else if (p.max && tc_dtype_is_float(y->dtype)) tc_ref_put(y, to, (tc_c128){-INFINITY, 0});
    else if (p.max) tc_ref_put_i(y, to, lowest_int(y->nominal));
    else if (!p.max && y->dtype == TC_I64) tc_ref_put_i(y, to, divisor ? total / divisor : 0);
    else if (!p.max) tc_ref_put(y, to, (tc_c128){sum / (double)divisor, 0});
    if (ids) tc_ref_put_i(ids, tc_ref_offset(ids, iy), best_id);
  }
  return TC_STATUS_OK;
}

static int32_t avg_backward_ref(tc_op_args *a) {
  const tc_ref_view *g = tc_op_data(a, 0), *y = tc_op_result_data(a, 0);
  pool p;
  int64_t ig[TC_MAX_RANK] = {0};
  if (read_pool(a, &p)) return TC_STATUS_INVALID_ARGUMENT;
  for (bool more = tc_ref_numel(g) > 0; more; more = tc_ref_next(g->rank, g->sizes, ig)) {
    range r[MAX_SPACE];
    int64_t base = 0, k[MAX_SPACE], divisor = 1;
    bool any = true;
    for (int32_t d = 0; d < p.lead; d++) base += ig[d] * y->strides[d];
    for (int32_t i = 0; i < p.n; i++)
      r[i] = range_of(&p, i, ig[p.lead + i]), k[i] = r[i].start, divisor *= r[i].extent,
      any = any && r[i].start < r[i].end;
    if (p.divisor) divisor = p.divisor;
    int64_t from = tc_ref_offset(g, ig), whole = g->dtype == TC_I64 ? tc_ref_i(g, from) / divisor : 0;
    double part = tc_ref_f(g, from) / (double)divisor;
    while (any) {
      int64_t at = base;
      for (int32_t i = 0; i < p.n; i++) at += k[i] * y->strides[p.lead + i];
      if (y->dtype == TC_I64) tc_ref_put_i(y, at, tc_ref_i(y, at) + whole); // each window's part is cut off
      else tc_ref_put(y, at, (tc_c128){tc_ref_f(y, at) + part, 0});
      int32_t i = p.n - 1;
      for (; i >= 0; i--) {
        if (++k[i] < r[i].end) break;
        k[i] = r[i].start;
      }
      any = i >= 0;
    }
  }
  return TC_STATUS_OK;
}

#define POOL(s, l, f) \
  {.schema = s, .traits = TC_OP_REDUCTION, .meta = pool_meta, .lower = l, .ref = pool_ref, .flops = f}
#define AVG(s) POOL(s, avg_lower, "numel * product(kernel_size)")
#define MAX(s) POOL(s, max_lower, "numel * product(kernel_size)")
#define ADAPTIVE_AVG(s) POOL(s, avg_lower, "max(numel, self.numel)")
#define ADAPTIVE_MAX(s) POOL(s, max_lower, "max(numel, self.numel)")
#define BACKWARD(s, f)          \
  {.schema = s,                 \
   .traits = TC_OP_REDUCTION,   \
   .meta = avg_backward_meta,   \
   .lower = avg_backward_lower, \
   .ref = avg_backward_ref,     \
   .flops = f}
#define AVG_BACKWARD(s) BACKWARD(s, "grad_output.numel * product(kernel_size)")
#define ADAPTIVE_BACKWARD(s) BACKWARD(s, "max(numel, grad_output.numel)")
static const tc_op_def rows[] = {
    AVG_BACKWARD("avg_pool2d_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, int[2] "
                 "padding, bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor"),
    AVG_BACKWARD("avg_pool3d_backward(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] stride, int[3] "
                 "padding, bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor"),
    ADAPTIVE_BACKWARD("_adaptive_avg_pool2d_backward(Tensor grad_output, Tensor self) -> Tensor"),
    ADAPTIVE_BACKWARD("_adaptive_avg_pool3d_backward(Tensor grad_output, Tensor self) -> Tensor"),
    AVG("avg_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], bool ceil_mode=False, bool "
        "count_include_pad=True) -> Tensor"),
    AVG("avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, bool "
        "count_include_pad=True, int? divisor_override=None) -> Tensor"),
    AVG("avg_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool ceil_mode=False, bool "
        "count_include_pad=True, int? divisor_override=None) -> Tensor"),
    ADAPTIVE_AVG("adaptive_avg_pool1d(Tensor self, int[1] output_size) -> Tensor"),
    ADAPTIVE_AVG("adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor"),
    ADAPTIVE_AVG("adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor"),
    ADAPTIVE_AVG("_adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor"),
    ADAPTIVE_AVG("_adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor"),
    MAX("max_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], int[1] dilation=[1], bool "
        "ceil_mode=False) -> Tensor"),
    MAX("max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool "
        "ceil_mode=False) -> Tensor"),
    MAX("max_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool "
        "ceil_mode=False) -> Tensor"),
    MAX("max_pool1d_with_indices(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], int[1] "
        "dilation=[1], bool ceil_mode=False) -> (Tensor, Tensor)"),
    MAX("max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] "
        "dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)"),
    MAX("max_pool3d_with_indices(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] "
        "dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)"),
    ADAPTIVE_MAX("adaptive_max_pool1d(Tensor self, int[1] output_size) -> (Tensor, Tensor)"),
    ADAPTIVE_MAX("adaptive_max_pool2d(Tensor self, int[2] output_size) -> (Tensor, Tensor)"),
    ADAPTIVE_MAX("adaptive_max_pool3d(Tensor self, int[3] output_size) -> (Tensor, Tensor)"),
};
TC_OP_FAMILY(pool);
