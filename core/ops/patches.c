// Windows of images as columns (im2col) and their sum back (col2im), values put back where a maximum was found
// (max_unpool), and maxima over windows at random places (fractional_max_pool).
#include <math.h>

#include "core/ops/ops.h"

// ---- im2col, col2im: columns [n, c · kh · kw, oh · ow] ----
typedef struct window {
  int64_t k[2], dilation[2], padding[2], stride[2];
  tc_int image[2], places[2]; // image, window positions
  bool batched;
} window;

static int64_t pair_at(tc_op_args *a, const char *name, int32_t i) {
  int32_t arg = tc_op_arg_index(a, name);
  return tc_op_int_at(a, arg, tc_op_count(a, arg) == 1 ? 0 : i, INT64_MIN);
}

static int32_t read_window(tc_op_args *a, window *w) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  bool back = tc_sv_is(a->op->schema.name, "col2im");
  int32_t rank = back ? 3 : 4;
  *w = (window){.batched = t->rank == rank};
  if (t->rank != rank && t->rank != rank - 1)
    return tc_op_fail(a, "expected a tensor of rank %d or %d: %s", rank - 1, rank, tc_op_shape_text(a, 0));
  for (int32_t i = 0; i < 2; i++) {
    w->k[i] = pair_at(a, "kernel_size", i), w->dilation[i] = pair_at(a, "dilation", i);
    w->padding[i] = pair_at(a, "padding", i), w->stride[i] = pair_at(a, "stride", i);
    if (w->k[i] < 1 || w->dilation[i] < 1 || w->stride[i] < 1 || w->padding[i] < 0)
      return tc_op_fail(a, "kernel size, dilation and stride must be positive, and padding not negative");
    w->image[i] = back ? tc_op_sym_at(a, 1, i) : t->sizes[t->rank - 2 + i];
    int64_t fixed = 2 * w->padding[i] - w->dilation[i] * (w->k[i] - 1) - 1;
    w->places[i] = tc_int_add(
        a, tc_int_floordiv(a, tc_int_add(a, w->image[i], tc_int_const(a, fixed)), tc_int_const(a, w->stride[i])),
        tc_int_const(a, 1));
    if (tc_int_lt(a, w->places[i], tc_int_const(a, 1)) == 1)
      return tc_op_fail(a, "the windows do not fit into the image: %s", tc_op_shape_text(a, 0));
  }
  return TC_STATUS_OK;
}

static int32_t im2col_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  window w;
  tc_int sizes[3];
  if (read_window(a, &w)) return TC_STATUS_INVALID_ARGUMENT;
  sizes[0] = t->sizes[0];
  sizes[w.batched] = tc_int_mul(a, t->sizes[w.batched], tc_int_const(a, w.k[0] * w.k[1]));
  sizes[w.batched + 1] = tc_int_mul(a, w.places[0], w.places[1]);
  return tc_op_set_result(a, 0, t->dtype, w.batched + 2, sizes, NULL);
}
static int32_t col2im_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  window w;
  tc_int sizes[4];
  if (read_window(a, &w)) return TC_STATUS_INVALID_ARGUMENT;
  tc_int taps = tc_int_const(a, w.k[0] * w.k[1]), columns = tc_int_mul(a, w.places[0], w.places[1]);
  if (tc_int_require_eq(a, tc_int_mod(a, t->sizes[w.batched], taps), tc_int_const(a, 0)) ||
      tc_int_require_eq(a, t->sizes[w.batched + 1], columns))
    return tc_op_fail(a, "%s does not hold the windows of such an image", tc_op_shape_text(a, 0));
  sizes[0] = t->sizes[0];
  sizes[w.batched] = tc_int_floordiv(a, t->sizes[w.batched], taps);
  sizes[w.batched + 1] = w.image[0], sizes[w.batched + 2] = w.image[1];
  return tc_op_set_result(a, 0, t->dtype, w.batched + 3, sizes, NULL);
}

static tc_int both(tc_op_args *a, tc_int x, tc_int y) {
  return tc_sym_is_int(x, 1) ? y : tc_sym_is_int(y, 1) ? x : tc_sym_and(a->syms, x, y);
}
static tc_bval nothing(tc_op_args *a, tc_dtype d) {
  char c = tc_dtype_class(d);
  return c == 'f' || c == 'c' ? tc_lo_const(a, d, 0, 0) : tc_lo_const_int(a, d, 0);
}

static int32_t im2col_lower(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0), *r = tc_op_result_type(a, 0);
  window w;
  if (read_window(a, &w)) return TC_STATUS_INVALID_ARGUMENT;
  tc_int sizes[6], index[6], at[4], inside = tc_int_const(a, 1), zero = tc_int_const(a, 0);
  int32_t n = 0;
  if (w.batched) sizes[n++] = t->sizes[0];
  sizes[n++] = t->sizes[w.batched];
  for (int32_t i = 0; i < 2; i++) sizes[n + i] = tc_int_const(a, w.k[i]), sizes[n + 2 + i] = w.places[i];
  tc_lt x = tc_lo_arg(a, 0);
  tc_lo_begin(a, n + 4, sizes, index);
  for (int32_t d = 0; d < n; d++) at[d] = index[d];
  for (int32_t i = 0; i < 2; i++) {
    tc_int p = tc_int_add(a, tc_int_mul(a, index[n + 2 + i], tc_int_const(a, w.stride[i])),
                          tc_int_mul(a, index[n + i], tc_int_const(a, w.dilation[i])));
    at[n + i] = tc_int_sub(a, p, tc_int_const(a, w.padding[i]));
    inside = both(a, inside, tc_int_within(a, at[n + i], zero, w.image[i]));
  }
  tc_bval v = tc_sym_is_int(inside, 1) ? tc_lo_load(a, x, at) : tc_lo_load_if(a, x, at, inside, nothing(a, r->dtype));
  tc_lo_result(a, 0, tc_lo_reshape(a, tc_lo_end(a, v, r->dtype), r->rank, r->sizes));
  return TC_STATUS_OK;
}
static int32_t col2im_lower(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0), *r = tc_op_result_type(a, 0);
  window w;
  if (read_window(a, &w)) return TC_STATUS_INVALID_ARGUMENT;
  tc_dtype compute = tc_op_math_type(r->dtype);
  tc_int sizes[6], index[6], at[6], inside = tc_int_const(a, 1), zero = tc_int_const(a, 0), kernel[2];
  int32_t n = w.batched + 1;
  for (int32_t d = 0; d < n; d++) sizes[d] = r->sizes[d];
  for (int32_t i = 0; i < 2; i++) sizes[n + i] = kernel[i] = tc_int_const(a, w.k[i]), sizes[n + 2 + i] = w.places[i];
  tc_lt x = tc_lo_reshape(a, tc_lo_arg(a, 0), n + 4, sizes);
  tc_lo_begin_reduce(a, TC_RED_SUM, r->rank, r->sizes, 2, kernel, index);
  for (int32_t d = 0; d < n; d++) at[d] = index[d];
  for (int32_t i = 0; i < 2; i++) {
    tc_int s = tc_int_const(a, w.stride[i]), k = index[r->rank + i];
    tc_int p = tc_int_sub(a, tc_int_add(a, index[n + i], tc_int_const(a, w.padding[i])),
                          tc_int_mul(a, k, tc_int_const(a, w.dilation[i])));
    at[n + i] = k, at[n + 2 + i] = tc_int_floordiv(a, p, s);
    if (w.stride[i] > 1) inside = both(a, inside, tc_sym_cmp(a->syms, TC_SYM_EQ, tc_int_mod(a, p, s), zero));
    inside = both(a, inside, tc_int_within(a, at[n + 2 + i], zero, w.places[i]));
  }
  tc_bval v = tc_sym_is_int(inside, 1) ? tc_lo_load(a, x, at) : tc_lo_load_if(a, x, at, inside, nothing(a, t->dtype));
  tc_lo_result(a, 0, tc_lo_end(a, tc_lo_cast(a, v, compute), r->dtype));
  return TC_STATUS_OK;
}

// Walks all (image element, column element) pairs that belong together.
static int32_t window_ref(tc_op_args *a, bool back) {
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_result_data(a, 0), *col = back ? x : y, *image = back ? y : x;
  window w;
  if (read_window(a, &w)) return TC_STATUS_INVALID_ARGUMENT;
  int64_t n = w.batched ? x->sizes[0] : 1, channels = image->sizes[w.batched], h = image->sizes[w.batched + 1],
          width = image->sizes[w.batched + 2], size[6], i[6] = {0};
  size[0] = n, size[1] = channels, size[2] = w.k[0], size[3] = w.k[1];
  size[4] = w.places[0]->value, size[5] = w.places[1]->value;
  for (bool more = tc_ref_numel(col) > 0; more; more = tc_ref_next(6, size, i)) {
    int64_t py = i[4] * w.stride[0] + i[2] * w.dilation[0] - w.padding[0],
            px = i[5] * w.stride[1] + i[3] * w.dilation[1] - w.padding[1];
    if (py < 0 || py >= h || px < 0 || px >= width) continue;
    int64_t ic[3] = {i[0]}, ii[4] = {i[0]};
    ic[w.batched] = (i[1] * w.k[0] + i[2]) * w.k[1] + i[3], ic[w.batched + 1] = i[4] * size[5] + i[5];
    ii[w.batched] = i[1], ii[w.batched + 1] = py, ii[w.batched + 2] = px;
    int64_t at = tc_ref_offset(col, ic), to = tc_ref_offset(image, ii);
    if (!back) {
      tc_ref_copy(y, at, x, to);
    } else {
      tc_c128 p = tc_ref_c(y, to), q = tc_ref_c(x, at);
      tc_ref_put(y, to, (tc_c128){p.re + q.re, p.im + q.im});
    }
  }
  return TC_STATUS_OK;
}
static int32_t im2col_ref(tc_op_args *a) { return window_ref(a, false); }
static int32_t col2im_ref(tc_op_args *a) { return window_ref(a, true); }

// ---- max_unpool: a scatter into planes of zeros ----
static tc_gv flat_planes(tc_op_args *a, int32_t arg, int32_t lead, tc_int plane) {
  const tc_tensor_type *t = tc_op_tensor(a, arg);
  tc_int sizes[TC_MAX_RANK];
  for (int32_t d = 0; d < lead; d++) sizes[d] = t->sizes[d];
  sizes[lead] = plane;
  tc_ex_begin(a, "aten::reshape");
  tc_ex_push(a, tc_ex_arg(a, arg));
  tc_ex_push_ints(a, lead + 1, sizes);
  return tc_ex_make(a, 1, NULL);
}
static int32_t unpool_expand(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0), *ids = tc_op_tensor(a, 1);
  int32_t n = tc_sv_is(a->op->schema.name, "max_unpool3d") ? 3 : 2, lead = t->rank - n;
  if (lead < 1 || lead > 2 || ids->rank != t->rank || tc_op_count(a, 2) != n)
    return tc_op_fail(a, "expected values and indices of rank %d or %d and %d sizes: %s and %s", n + 1, n + 2, n,
                      tc_op_shape_text(a, 0), tc_op_shape_text(a, 1));
  tc_int plane = tc_int_const(a, 1), whole = plane, sizes[TC_MAX_RANK], flat[TC_MAX_RANK];
  for (int32_t d = 0; d < t->rank; d++) {
    if (tc_int_require_eq(a, t->sizes[d], ids->sizes[d]))
      return tc_op_fail(a, "values and indices have different shapes: %s and %s", tc_op_shape_text(a, 0),
                        tc_op_shape_text(a, 1));
    if (d >= lead) plane = tc_int_mul(a, plane, t->sizes[d]);
    sizes[d] = flat[d] = d < lead ? t->sizes[d] : tc_op_sym_at(a, 2, d - lead);
    if (d >= lead) whole = tc_int_mul(a, whole, sizes[d]);
  }
  flat[lead] = whole;
  tc_gv values = flat_planes(a, 0, lead, plane), where = flat_planes(a, 1, lead, plane);
  tc_ex_begin(a, "aten::new_zeros");
  tc_ex_push(a, tc_ex_arg(a, 0));
  tc_ex_push_ints(a, lead + 1, flat);
  tc_gv zeros = tc_ex_make(a, 1, NULL);
  tc_ex_begin(a, "aten::scatter.src");
  tc_ex_push(a, zeros);
  tc_ex_push_int(a, tc_int_const(a, lead));
  tc_ex_push(a, where);
  tc_ex_push(a, values);
  tc_gv y = tc_ex_make(a, 1, NULL);
  tc_ex_begin(a, "aten::reshape");
  tc_ex_push(a, y);
  tc_ex_push_ints(a, t->rank, sizes);
  tc_ex_result(a, 0, tc_ex_make(a, 1, NULL));
  return TC_STATUS_OK;
}

// ---- fractional_max_pool: windows that start at ⌊(i + u)·α⌋ - ⌊u·α⌋, α = (in - k) / (out - 1), the last at in - k
// ----
typedef struct fractional {
  int32_t n, lead;
  int64_t k[3];
  tc_int in[3], out[3];
} fractional;

static int32_t read_fractional(tc_op_args *a, fractional *f) {
  const tc_tensor_type *t = tc_op_tensor(a, 0), *u = tc_op_tensor(a, 3);
  *f = (fractional){.n = tc_sv_is(a->op->schema.name, "fractional_max_pool3d") ? 3 : 2};
  f->lead = t->rank - f->n;
  if (f->lead < 1 || f->lead > 2 || u->rank != 3)
    return tc_op_fail(a, "expected an input of rank %d or %d and samples of rank 3: %s and %s", f->n + 1, f->n + 2,
                      tc_op_shape_text(a, 0), tc_op_shape_text(a, 3));
  tc_int wanted[3] = {f->lead == 2 ? t->sizes[0] : tc_int_const(a, 1), t->sizes[f->lead - 1], tc_int_const(a, f->n)};
  for (int32_t d = 0; d < 3; d++)
    if (tc_int_require_eq(a, u->sizes[d], wanted[d]))
      return tc_op_fail(a, "expected %d samples for each channel of %s: %s", f->n, tc_op_shape_text(a, 0),
                        tc_op_shape_text(a, 3));
  for (int32_t i = 0; i < f->n; i++) {
    f->k[i] = tc_op_int_at(a, 1, tc_op_count(a, 1) == 1 ? 0 : i, 0);
    f->in[i] = t->sizes[f->lead + i], f->out[i] = tc_op_sym_at(a, 2, tc_op_count(a, 2) == 1 ? 0 : i);
    tc_int last = tc_int_add(a, f->out[i], tc_int_const(a, f->k[i] - 1));
    if (f->k[i] < 1 || tc_int_lt(a, f->in[i], last) == 1)
      return tc_op_fail(a, "a window of %lld is too large for %s and that output size", (long long)f->k[i],
                        tc_op_shape_text(a, 0));
  }
  return TC_STATUS_OK;
}
static int32_t fractional_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  fractional f;
  tc_int sizes[TC_MAX_RANK];
  if (read_fractional(a, &f)) return TC_STATUS_INVALID_ARGUMENT;
  for (int32_t d = 0; d < t->rank; d++) sizes[d] = d < f.lead ? t->sizes[d] : f.out[d - f.lead];
  return tc_op_set_result(a, 0, t->dtype, t->rank, sizes, NULL) || tc_op_set_result(a, 1, TC_I64, t->rank, sizes, NULL);
}
// Images take their samples in the order width, height; volumes depth, height, width.
static int32_t sample_of(const fractional *f, int32_t i) { return f->n == 2 ? 1 - i : i; }

static int32_t fractional_lower(tc_op_args *a) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  fractional f;
  if (read_fractional(a, &f)) return TC_STATUS_INVALID_ARGUMENT;
  static const char *const names[] = {"i", "u", "c"};
  tc_lt x = tc_lo_arg(a, 0), samples = tc_lo_arg(a, 3), max = -1;
  tc_dtype d = r->dtype, compute = tc_op_math_type(d);
  tc_int kernel[3], index[TC_MAX_RANK], iu[3];
  for (int32_t i = 0; i < f.n; i++) kernel[i] = tc_int_const(a, f.k[i]);
  for (int32_t pass = 0; pass < 2; pass++) { // values, then where they stand first
    tc_lo_begin_reduce(a, pass ? TC_RED_MIN : TC_RED_MAX, r->rank, r->sizes, f.n, kernel, index);
    tc_bval by[TC_MAX_RANK] = {-1, -1, -1, -1, -1}, flat = tc_lo_const_int(a, TC_I64, 0);
    iu[0] = f.lead == 2 ? index[0] : tc_int_const(a, 0), iu[1] = index[f.lead - 1];
    for (int32_t i = 0; i < f.n; i++) {
      iu[2] = tc_int_const(a, sample_of(&f, i));
      tc_int one = tc_int_const(a, 1), o = index[f.lead + i], span = tc_int_sub(a, f.in[i], kernel[i]),
             steps = tc_int_max(a, tc_int_sub(a, f.out[i], one), one);
      tc_bval alpha = tc_lo_op2(a, TC_K_DIV, tc_lo_index(a, span, compute), tc_lo_index(a, steps, compute));
      tc_bval v[3] = {tc_lo_index(a, o, compute), tc_lo_cast(a, tc_lo_load(a, samples, iu), compute), alpha};
      tc_bval start = tc_lo_cast(a, tc_lo_text(a, "trunc((i + u) * c) - trunc(u * c)", 3, names, v), TC_I64);
      tc_int end = tc_sym_cmp(a->syms, TC_SYM_EQ, o, tc_int_sub(a, f.out[i], one));
      start = tc_lo_op3(a, TC_K_SELECT, tc_lower_condition(a, end), tc_lo_index(a, span, TC_I64), start);
      by[f.lead + i] = tc_lo_op2(a, TC_K_ADD, start, tc_lo_index(a, index[r->rank + i], TC_I64));
      flat = tc_lo_op2(a, TC_K_ADD, tc_lo_op2(a, TC_K_MUL, flat, tc_lo_index(a, f.in[i], TC_I64)), by[f.lead + i]);
    }
    tc_bval v = tc_lo_gather(a, x, index, by, 0);
    if (!pass) {
      max = tc_lo_end(a, v, d);
      continue;
    }
    tc_bval m = tc_lo_load(a, max, index), hit = tc_lo_op2(a, TC_K_EQ, v, m);
    hit = tc_lo_op3(a, TC_K_SELECT, tc_lo_op2(a, TC_K_NE, m, m), tc_lo_op2(a, TC_K_NE, v, v), hit);
    v = tc_lo_op3(a, TC_K_SELECT, hit, flat, tc_lo_const_int(a, TC_I64, INT64_MAX));
    tc_lo_result(a, 1, tc_lo_end(a, v, TC_I64));
  }
  tc_lo_result(a, 0, max);
  return TC_STATUS_OK;
}

static int32_t fractional_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *u = tc_op_data(a, 3), *y = tc_op_result_data(a, 0),
                    *ids = tc_op_result_data(a, 1);
  fractional f;
  int64_t iy[TC_MAX_RANK] = {0};
  if (read_fractional(a, &f)) return TC_STATUS_INVALID_ARGUMENT;
  for (bool more = tc_ref_numel(y) > 0; more; more = tc_ref_next(y->rank, y->sizes, iy)) {
    int64_t start[3], k[3] = {0}, base = 0, best_id = -1;
    double best = 0;
    for (int32_t d = 0; d < f.lead; d++) base += iy[d] * x->strides[d];
    for (int32_t i = 0; i < f.n; i++) {
      int64_t in = f.in[i]->value, out = f.out[i]->value, o = iy[f.lead + i], batch = f.lead == 2 ? iy[0] : 0;
      double s = tc_ref_f(u, batch * u->strides[0] + iy[f.lead - 1] * u->strides[1] + sample_of(&f, i) * u->strides[2]);
      double alpha = (double)(in - f.k[i]) / (double)(out > 1 ? out - 1 : 1);
      if (u->nominal != TC_F64) alpha = (float)alpha;
      double p = ((double)o + s) * alpha, q = s * alpha;
      if (u->nominal != TC_F64) p = (float)((float)((double)o + s) * (float)alpha), q = (float)q;
      start[i] = o == out - 1 ? in - f.k[i] : (int64_t)p - (int64_t)q;
    }
    do {
      int64_t at = base, flat = 0;
      for (int32_t i = 0; i < f.n; i++) {
        at += (start[i] + k[i]) * x->strides[f.lead + i];
        flat = flat * f.in[i]->value + start[i] + k[i];
      }
      double v = tc_ref_f(x, at);
      if (best_id < 0 || (!isnan(best) && (v > best || isnan(v)))) best = v, best_id = flat;
    } while (tc_ref_next(f.n, f.k, k));
    tc_ref_put(y, tc_ref_offset(y, iy), (tc_c128){best, 0});
    tc_ref_put_i(ids, tc_ref_offset(ids, iy), best_id);
  }
  return TC_STATUS_OK;
}

#define FRACTIONAL(s) \
  {.schema = s, .traits = TC_OP_REDUCTION, .meta = fractional_meta, .lower = fractional_lower, .ref = fractional_ref}
static const tc_op_def rows[] = {
    {.schema = "im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor",
     .traits = TC_OP_COMPLEX,
     .meta = im2col_meta,
     .lower = im2col_lower,
     .ref = im2col_ref},
    {.schema = "col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] "
               "stride) -> Tensor",
     .traits = TC_OP_COMPLEX | TC_OP_REDUCTION,
     .meta = col2im_meta,
     .lower = col2im_lower,
     .ref = col2im_ref,
     .flops = "self.numel"},
    {.schema = "max_unpool2d(Tensor self, Tensor indices, SymInt[2] output_size) -> Tensor", .expand = unpool_expand},
    {.schema = "max_unpool3d(Tensor self, Tensor indices, SymInt[3] output_size, int[3] stride, int[3] padding) -> "
               "Tensor",
     .expand = unpool_expand},
    FRACTIONAL("fractional_max_pool2d(Tensor self, int[2] kernel_size, int[2] output_size, Tensor random_samples) -> "
               "(Tensor, Tensor)"),
    FRACTIONAL("fractional_max_pool3d(Tensor self, int[3] kernel_size, int[3] output_size, Tensor random_samples) -> "
               "(Tensor, Tensor)"),
};
TC_OP_FAMILY(patches);
