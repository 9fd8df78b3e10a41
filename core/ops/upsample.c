// Resampling of 1 to 3 spatial dimensions: nearest, linear, cubic, and linear and cubic with antialiasing.
//
// Output position o stands at source position (PyTorch's rules)
//   nearest  ⌊o·r⌋, exact ⌊(o + ½)·r⌋;  others  (o + ½)·r - ½, or o·(in - 1)/(out - 1) with aligned corners
// with r = in / out or the inverse of a given scale. Linear interpolation takes the two neighbours (positions below 0
// count as 0), cubic four by Keys' kernel ("Cubic convolution interpolation", 1981) with a = -0.75, taps outside taken
// from the border. With antialiasing the kernel (a = -0.5) is stretched by max(r, 1), and the weights inside are
// normalised; one dimension at a time.
//
// Lowering keeps positions rational, so that they are integer expressions over the index, which fold where the factor
// is a whole number. Only where PyTorch's single precision rounds ⌊o·r⌋ to another neighbour is the index computed as
// it does.
#include "core/ops/upsample.h"

#include <math.h>

enum { MAX_SPACE = TC_RESIZE_MAX_SPACE, MAX_TAPS = 4 };
enum { NEAREST = TC_RESIZE_NEAREST, LINEAR = TC_RESIZE_LINEAR, CUBIC = TC_RESIZE_CUBIC };

// p / q as the fraction of smallest denominator that a given factor is (Stern–Brocot by continued fractions).
static void fraction(double x, int64_t *p, int64_t *q) {
  int64_t p0 = 0, q0 = 1, p1 = 1, q1 = 0;
  double rest = x;
  for (int32_t i = 0; i < 24; i++) {
    int64_t whole = (int64_t)floor(rest), p2 = whole * p1 + p0, q2 = whole * q1 + q0;
    if (q2 > (1 << 20) || p2 > (1 << 24)) break;
    p0 = p1, q0 = q1, p1 = p2, q1 = q2;
    if (fabs((double)p1 / (double)q1 - x) <= 1e-15 * x || rest == (double)whole) break;
    rest = 1 / (rest - (double)whole);
  }
  *p = p1 > 0 && q1 > 0 ? p1 : 1, *q = p1 > 0 && q1 > 0 ? q1 : 1;
}

static tc_int scaled_size(tc_op_args *a, tc_int in, double scale) {
  int64_t n, p, q;
  if (tc_int_is_const(in, &n)) return tc_int_const(a, (int64_t)((double)n * scale));
  fraction(scale, &p, &q);
  return tc_int_floordiv(a, tc_int_mul(a, in, tc_int_const(a, p)), tc_int_const(a, q));
}

static bool by_bytes(const tc_resize *r, tc_dtype d) { return d == TC_U8 && r->n == 2 && r->kind != NEAREST; }

static int32_t read_resize(tc_op_args *a, tc_resize *r) {
  static const char *const names[][MAX_SPACE] = {
      {"scales", NULL, NULL}, {"scales_h", "scales_w", NULL}, {"scales_d", "scales_h", "scales_w"}};
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  tc_sv name = a->op->schema.name;
  *r = (tc_resize){.kind = LINEAR, .aa = tc_sv_ends(name, "_aa")};
  for (size_t i = 0; i + 1 < name.size; i++) {
    if (name.data[i + 1] == 'd' && name.data[i] >= '1' && name.data[i] <= '3') r->n = name.data[i] - '0';
    if (tc_sv_starts((tc_sv){name.data + i, name.size - i}, "nearest")) r->kind = NEAREST;
    if (tc_sv_starts((tc_sv){name.data + i, name.size - i}, "exact")) r->exact = true;
    if (tc_sv_starts((tc_sv){name.data + i, name.size - i}, "cubic")) r->kind = CUBIC;
  }
  int32_t align = tc_op_arg_index(a, "align_corners"), size = tc_op_arg_index(a, "output_size"),
          factors = tc_op_arg_index(a, "scale_factors");
  r->align = align >= 0 && tc_op_bool(a, align, 0);
  if (t->rank != r->n + 2) return tc_op_fail(a, "expected an input of rank %d: %s", r->n + 2, tc_op_shape_text(a, 0));
  if (!tc_dtype_is_float(t->dtype) && t->dtype != TC_U8)
    return tc_op_fail(a, "not implemented for %s", tc_dtype_torch_name(t->dtype));
  bool sized = tc_op_kind(a, size) != TC_AK_NONE, by_factor = factors >= 0 && tc_op_kind(a, factors) != TC_AK_NONE;
  if (sized == by_factor && factors >= 0)
    return tc_op_fail(a, "exactly one of output_size and scale_factors must be given");
  if ((sized && tc_op_count(a, size) != r->n) || (by_factor && tc_op_count(a, factors) != r->n))
    return tc_op_fail(a, "sizes or factors of %d dimensions are expected", r->n);
  for (int32_t i = 0; i < r->n; i++) {
    int32_t arg = factors >= 0 ? factors : tc_op_arg_index(a, names[r->n - 1][i]);
    r->in[i] = t->sizes[2 + i];
    if (by_factor) r->scale[i] = tc_op_float_at(a, arg, i, 0);
    else if (factors < 0) r->scale[i] = tc_op_float(a, arg, 0);
    if (by_factor && !(r->scale[i] > 0)) return tc_op_fail(a, "scale factors must be positive");
    if (!(r->scale[i] > 0)) r->scale[i] = 0;
    r->out[i] = by_factor ? scaled_size(a, r->in[i], r->scale[i]) : tc_op_sym_at(a, size, i);
    if (tc_int_lt(a, r->in[i], tc_int_const(a, 1)) == 1 || tc_int_lt(a, r->out[i], tc_int_const(a, 1)) == 1)
      return tc_op_fail(a, "input and output sizes must be positive: %s", tc_op_shape_text(a, 0));
    // What keeps its size is copied, whatever its factor.
    bool copies = r->kind == LINEAR || r->aa || by_bytes(r, t->dtype) || (r->kind == NEAREST && !r->exact);
    if (copies && tc_int_eq(a, r->in[i], r->out[i]) == 1) r->scale[i] = 0;
  }
  return TC_STATUS_OK;
}

static int32_t resize_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  tc_resize r;
  tc_int sizes[TC_MAX_RANK];
  if (read_resize(a, &r)) return TC_STATUS_INVALID_ARGUMENT;
  sizes[0] = t->sizes[0], sizes[1] = t->sizes[1];
  for (int32_t i = 0; i < r.n; i++) sizes[2 + i] = r.out[i];
  return tc_op_format_result(a, 0, t->dtype, t->rank, sizes,
                             r.n == 1 ? TC_FORMAT_CONTIGUOUS : tc_suggested_format(a, t), 0);
}

// ---- lowering ----
// r = num / den
void tc_resize_ratio(tc_op_args *a, const tc_resize *r, int32_t i, tc_int *num, tc_int *den) {
  if (r->align) {
    tc_int one = tc_int_const(a, 1);
    *num = tc_int_sub(a, r->in[i], one), *den = tc_int_max(a, tc_int_sub(a, r->out[i], one), one);
    if (tc_int_eq(a, r->out[i], one) == 1) *num = tc_int_const(a, 0);
    return;
  }
  *num = r->in[i], *den = r->out[i];
  if (r->scale[i] <= 0) return;
  int64_t p, q;
  fraction(r->scale[i], &p, &q);
  *num = tc_int_const(a, q), *den = tc_int_const(a, p);
}

// The factor as PyTorch computes it for nearest neighbours.
static float nearest_factor(const tc_resize *r, int32_t i) {
  return r->scale[i] > 0 ? (float)(1.0 / r->scale[i]) : (float)r->in[i]->value / (float)r->out[i]->value;
}
static int64_t nearest_index(const tc_resize *r, int32_t i, int64_t o) {
  float at = r->exact ? ((float)o + 0.5f) * nearest_factor(r, i) : (float)o * nearest_factor(r, i);
  int64_t in = r->in[i]->value;
  return at < (float)in && (int64_t)floorf(at) < in ? (int64_t)floorf(at) : in - 1;
}

// ⌊(2o + 1)·num / 2den⌋ or ⌊o·num / den⌋
static tc_int nearest_source(tc_op_args *a, const tc_resize *r, int32_t i, tc_int o) {
  tc_int num, den, two = tc_int_const(a, 2);
  tc_resize_ratio(a, r, i, &num, &den);
  if (r->exact) {
    o = tc_int_add(a, tc_int_mul(a, o, two), tc_int_const(a, 1));
    den = tc_int_mul(a, den, two);
  }
  return tc_int_min(a, tc_int_floordiv(a, tc_int_mul(a, o, num), den), tc_int_sub(a, r->in[i], tc_int_const(a, 1)));
}

// Does the rational position give PyTorch's neighbour for every output?
static bool rational_fits(tc_op_args *a, const tc_resize *r, int32_t i) {
  int64_t in, out, num, den;
  tc_int n, d;
  tc_resize_ratio(a, r, i, &n, &d);
  if (!tc_int_is_const(r->in[i], &in) || !tc_int_is_const(r->out[i], &out)) return true;
  if (!tc_int_is_const(n, &num) || !tc_int_is_const(d, &den)) return true;
  for (int64_t o = 0; o < out; o++) {
    int64_t k = r->exact ? (2 * o + 1) * num / (2 * den) : o * num / den;
    if ((k < in ? k : in - 1) != nearest_index(r, i, o)) return false;
  }
  return true;
}

static int32_t nearest_lower(tc_op_args *a, const tc_resize *r) {
  const tc_tensor_type *t = tc_op_result_type(a, 0);
  tc_int index[TC_MAX_RANK], at[TC_MAX_RANK];
  tc_bval by[TC_MAX_RANK];
  bool all = true, fits[MAX_SPACE];
  tc_lt x = tc_lo_arg(a, 0);
  for (int32_t i = 0; i < r->n; i++) all &= fits[i] = rational_fits(a, r, i);
  if (all) tc_lo_indices(a, t->rank, t->sizes, index);
  else tc_lo_begin(a, t->rank, t->sizes, index);
  for (int32_t d = 0; d < t->rank; d++) at[d] = index[d], by[d] = -1;
  for (int32_t i = 0; i < r->n; i++) {
    if (fits[i]) {
      at[2 + i] = nearest_source(a, r, i, index[2 + i]);
      continue;
    }
    tc_bval o = tc_lo_index(a, index[2 + i], TC_F32), last = tc_lo_const_int(a, TC_I64, r->in[i]->value - 1);
    if (r->exact) o = tc_lo_op2(a, TC_K_ADD, o, tc_lo_const(a, TC_F32, 0.5, 0));
    o = tc_lo_op2(a, TC_K_MUL, o, tc_lo_const(a, TC_F32, (double)nearest_factor(r, i), 0));
    by[2 + i] = tc_lo_op2(a, TC_K_MIN, tc_lo_cast(a, tc_lo_op1(a, TC_K_FLOOR, o), TC_I64), last);
  }
  tc_lo_result(a, 0,
               all ? tc_lo_view(a, x, t->rank, t->sizes, index, at)
                   : tc_lo_end(a, tc_lo_gather(a, x, at, by, 0), t->dtype));
  return TC_STATUS_OK;
}

// Taps of one dimension inside of an open node: where, and their weights (-1: one).
typedef struct taps {
  int32_t n;
  tc_int at[MAX_TAPS];
  tc_bval weight[MAX_TAPS];
} taps;

// Does linear interpolation leave the dimension as it is? Both of its taps stand on the element itself then, the second
// without weight, which infinities show, as PyTorch's do.
static bool is_kept(tc_op_args *a, const tc_resize *r, int32_t i) {
  return r->kind == LINEAR && tc_int_eq(a, r->in[i], r->out[i]) == 1;
}

static void make_taps(tc_op_args *a, const tc_resize *r, int32_t i, tc_int o, tc_dtype compute, taps *t) {
  static const char *const names[] = {"t"};
  static const char *const cubic[] = {"let u = t + 1; ((-0.75 * u + 3.75) * u - 6) * u + 3",
                                      "(1.25 * t - 2.25) * t * t + 1", "let u = 1 - t; (1.25 * u - 2.25) * u * u + 1",
                                      "let u = 2 - t; ((-0.75 * u + 3.75) * u - 6) * u + 3"};
  tc_int num, den, zero = tc_int_const(a, 0), one = tc_int_const(a, 1), last = tc_int_sub(a, r->in[i], one), src;
  tc_resize_ratio(a, r, i, &num, &den);
  src = tc_int_mul(a, o, num);
  if (!r->align) { // ((2o + 1)·num - den) / 2den
    src = tc_int_sub(a, tc_int_mul(a, tc_int_add(a, tc_int_mul(a, o, tc_int_const(a, 2)), one), num), den);
    den = tc_int_mul(a, den, tc_int_const(a, 2));
  }
  *t = (taps){.n = r->kind == CUBIC ? 4 : 2};
  if (is_kept(a, r, i)) {
    t->at[0] = t->at[1] = o, t->weight[0] = -1, t->weight[1] = tc_lo_const(a, compute, 0, 0);
    return;
  }
  tc_int low = tc_int_floordiv(a, src, den);
  if (r->kind == LINEAR) low = tc_int_min(a, tc_int_max(a, low, zero), last), src = tc_int_max(a, src, zero);
  tc_int rest = tc_int_sub(a, src, tc_int_mul(a, low, den));
  tc_bval part = tc_lo_op2(a, TC_K_DIV, tc_lo_index(a, rest, compute), tc_lo_index(a, den, compute));
  // A factor that does not fit the sizes may lead behind the last element, which has all the weight there.
  if (r->kind == LINEAR && r->scale[i] > 0) part = tc_lo_op2(a, TC_K_MIN, part, tc_lo_const(a, compute, 1, 0));
  for (int32_t k = 0; k < t->n; k++) {
    tc_int at = tc_int_add(a, low, tc_int_const(a, r->kind == CUBIC ? k - 1 : k));
    t->at[k] = tc_int_min(a, tc_int_max(a, at, zero), last);
    t->weight[k] = tc_lo_text(a, r->kind == CUBIC ? cubic[k] : k ? "t" : "1 - t", 1, names, &part);
  }
}

// Bytes are rounded to nearest (halves up), and kept in range.
static tc_bval as_result(tc_op_args *a, tc_bval v, tc_dtype compute, tc_dtype out) {
  if (tc_dtype_is_float(out)) return v;
  v = tc_lo_op1(a, TC_K_FLOOR, tc_lo_op2(a, TC_K_ADD, v, tc_lo_const(a, compute, 0.5, 0)));
  v = tc_lo_op2(a, TC_K_MAX, v, tc_lo_const(a, compute, 0, 0));
  return tc_lo_op2(a, TC_K_MIN, v, tc_lo_const(a, compute, 255, 0));
}
static tc_dtype compute_of(tc_dtype d) { return tc_dtype_is_float(d) ? tc_op_math_type(d) : TC_F32; }
// PyTorch resamples images of bytes in integers (upsample_bytes.c).

static tc_lt interpolated(tc_op_args *a, const tc_resize *r, tc_lt x, tc_dtype out) {
  tc_dtype compute = compute_of(out);
  int32_t rank = r->n + 2, last = r->n - 1, i;
  tc_int sizes[TC_MAX_RANK], index[TC_MAX_RANK], at[TC_MAX_RANK];
  taps d[MAX_SPACE];
  for (i = 0; i < rank; i++) sizes[i] = i < 2 ? tc_lo_size(a, x, i) : r->out[i - 2];
  tc_lo_begin(a, rank, sizes, index);
  for (i = 0; i < rank; i++) at[i] = index[i];
  int32_t k[MAX_SPACE] = {0};
  tc_bval sums[MAX_SPACE] = {-1, -1, -1}; // of the taps of dimension i and those behind it
  for (i = 0; i <= last; i++) make_taps(a, r, i, index[2 + i], compute, &d[i]);
  do {
    for (i = 0; i <= last; i++) at[2 + i] = d[i].at[k[i]];
    tc_bval v = tc_lo_cast(a, tc_lo_load(a, x, at), compute);
    for (i = last; i >= 0; i--) {
      if (d[i].weight[k[i]] >= 0) v = tc_lo_op2(a, TC_K_MUL, v, d[i].weight[k[i]]);
      v = sums[i] < 0 ? v : tc_lo_op2(a, TC_K_ADD, sums[i], v);
      sums[i] = v;
      if (++k[i] < d[i].n) break;
      k[i] = 0;
      if (i > 0) sums[i] = -1;
    }
  } while (i >= 0);
  return tc_lo_end(a, as_result(a, sums[0], compute, out), out);
}

void tc_resize_window_at(tc_op_args *a, const tc_resize *r, int32_t i, tc_int o, tc_resize_window *w) {
  tc_int num, den, two = tc_int_const(a, 2), one = tc_int_const(a, 1);
  tc_resize_ratio(a, r, i, &num, &den);
  tc_int longer = tc_int_max(a, num, den), whole = tc_int_mul(a, den, two),
         reach = tc_int_mul(a, tc_int_const(a, r->kind == CUBIC ? 4 : 2), longer);
  w->size = tc_int_add(a, tc_sym_ceildiv(a->syms, tc_int_mul(a, reach, two), whole), one);
  w->half = den, w->stretch = tc_int_mul(a, longer, two);
  w->center = tc_int_mul(a, tc_int_add(a, tc_int_mul(a, o, two), one), num);
  tc_int low = tc_int_add(a, tc_int_sub(a, w->center, reach), den),
         high = tc_int_add(a, tc_int_add(a, w->center, reach), den);
  w->first = tc_int_max(a, tc_int_floordiv(a, low, whole), tc_int_const(a, 0));
  w->end = tc_int_min(a, tc_int_floordiv(a, high, whole), r->in[i]);
}

tc_bval tc_resize_share(tc_op_args *a, tc_bval x, tc_bval total, tc_dtype d) {
  tc_bval none = tc_lo_op2(a, TC_K_EQ, total, tc_lo_const(a, d, 0, 0));
  return tc_lo_op3(a, TC_K_SELECT, none, x, tc_lo_op2(a, TC_K_DIV, x, total));
}

// Antialiasing of one dimension: Σ filter·x / Σ filter over the window.
static tc_lt filtered(tc_op_args *a, const tc_resize *r, int32_t i, tc_lt x, tc_dtype out) {
  static const char *const names[] = {"d", "s"};
  const char *text = r->kind == LINEAR ? "let u = abs(d) * s; max(1 - u, 0)"
                                       : "let u = abs(d) * s; where(u < 1, (1.5 * u - 2.5) * u * u + 1, where(u < 2, "
                                         "((-0.5 * u + 2.5) * u - 4) * u + 2, 0))";
  int32_t rank = r->n + 2, axis = 2 + i;
  tc_dtype compute = compute_of(out);
  tc_int two = tc_int_const(a, 2), zero = tc_int_const(a, 0), sizes[TC_MAX_RANK], index[TC_MAX_RANK + 1],
         at[TC_MAX_RANK];
  tc_resize_window at_first;
  tc_resize_window_at(a, r, i, zero, &at_first);
  tc_lt sums[2];
  for (int32_t pass = 0; pass < 2; pass++) { // weights, then what they weigh
    for (int32_t d = 0; d < rank; d++) sizes[d] = d == axis ? r->out[i] : tc_lo_size(a, x, d);
    tc_lo_begin_reduce(a, TC_RED_SUM, pass ? rank : 1, pass ? sizes : &sizes[axis], 1, &at_first.size, index);
    tc_int o = index[pass ? axis : 0], k = index[pass ? rank : 1];
    tc_resize_window win;
    tc_resize_window_at(a, r, i, o, &win);
    tc_int pos = tc_int_add(a, win.first, k), inside = tc_int_within(a, pos, zero, win.end);
    tc_int off = tc_int_sub(a, tc_int_add(a, tc_int_mul(a, pos, tc_int_mul(a, win.half, two)), win.half), win.center);
    tc_bval v[2] = {tc_lo_index(a, off, compute), tc_lo_const(a, compute, 1, 0)};
    v[1] = tc_lo_op2(a, TC_K_DIV, v[1], tc_lo_index(a, win.stretch, compute));
    tc_bval w = tc_lo_text(a, text, 2, names, v), none = tc_lo_const(a, compute, 0, 0);
    w = tc_lo_op3(a, TC_K_SELECT, tc_lower_condition(a, inside), w, none);
    if (pass) {
      for (int32_t d = 0; d < rank; d++) at[d] = d == axis ? pos : index[d];
      tc_bval other = tc_lo_const(a, tc_lo_dtype(a, x), 0, 0);
      w = tc_lo_op2(a, TC_K_MUL, w, tc_lo_cast(a, tc_lo_load_if(a, x, at, inside, other), compute));
    }
    sums[pass] = tc_lo_end(a, w, compute);
  }
  tc_lo_begin(a, rank, sizes, index);
  tc_bval total = tc_lo_load(a, sums[0], &index[axis]);
  return tc_lo_end(a, tc_resize_share(a, tc_lo_load(a, sums[1], index), total, compute), out);
}

static int32_t resize_lower(tc_op_args *a) {
  tc_dtype out = tc_op_result_type(a, 0)->dtype;
  tc_resize r;
  if (read_resize(a, &r)) return TC_STATUS_INVALID_ARGUMENT;
  if (r.kind == NEAREST) return nearest_lower(a, &r);
  tc_lt x = tc_lo_arg(a, 0);
  if (by_bytes(&r, out)) x = tc_resize_bytes_lower(a, &r);
  else if (r.aa)
    for (int32_t i = r.n - 1; i >= 0; i--) x = filtered(a, &r, i, x, i ? compute_of(out) : out);
  else x = interpolated(a, &r, x, out);
  tc_lo_result(a, 0, x);
  return TC_STATUS_OK;
}

// ---- reference: weights of every tap in floating point ----
double tc_resize_cubic(double x, double k) {
  x = fabs(x);
  if (x >= 2) return 0;
  return x < 1 ? ((k + 2) * x - (k + 3)) * x * x + 1 : ((k * x - 5 * k) * x + 8 * k) * x - 4 * k;
}

double tc_resize_factor(const tc_resize *r, int32_t i) {
  int64_t in = r->in[i]->value, out = r->out[i]->value;
  if (r->align) return out > 1 ? (double)(in - 1) / (double)(out - 1) : 0;
  return r->scale[i] > 0 ? 1 / r->scale[i] : (double)in / (double)out;
}

// Positions and weights for output o of dimension i; room for as many as the window may have. Gives their number, 0
// where the window lies behind the last element.
static int64_t ref_taps(const tc_resize *r, int32_t i, int64_t o, int64_t *at, double *weight) {
  int64_t in = r->in[i]->value, n = 0;
  double factor = tc_resize_factor(r, i);
  if (r->kind == NEAREST) {
    at[0] = nearest_index(r, i, o), weight[0] = 1;
    return 1;
  }
  if (r->aa) {
    double stretch = factor > 1 ? factor : 1, support = (r->kind == CUBIC ? 2 : 1) * stretch,
           center = factor * ((double)o + 0.5), total = 0;
    int64_t first = (int64_t)fmin(fmax(center - support + 0.5, 0), (double)in),
            end = (int64_t)fmin(center + support + 0.5, (double)in);
    for (int64_t p = first; p < end; p++) {
      double x = ((double)p - center + 0.5) / stretch;
      at[n] = p, weight[n] = r->kind == CUBIC ? tc_resize_cubic(x, -0.5) : fmax(1 - fabs(x), 0), total += weight[n++];
    }
    for (int64_t k = 0; k < n && total != 0; k++) weight[k] /= total;
    return n;
  }
  if (r->kind == LINEAR && in == r->out[i]->value) { // see is_kept
    at[0] = at[1] = o, weight[0] = 1, weight[1] = 0;
    return 2;
  }
  double src = r->align ? factor * (double)o : factor * ((double)o + 0.5) - 0.5;
  if (r->kind == LINEAR && src < 0) src = 0;
  src = fmin(src, (double)in + MAX_TAPS); // far outside all taps are the last element
  int64_t low = (int64_t)floor(src);
  if (r->kind == LINEAR && low > in - 1) low = in - 1;
  double t = r->kind == LINEAR ? fmin(src - (double)low, 1) : src - (double)low;
  for (int64_t k = r->kind == CUBIC ? -1 : 0; k <= (r->kind == CUBIC ? 2 : 1); k++) {
    int64_t p = low + k;
    at[n] = p < 0 ? 0 : p < in ? p : in - 1;
    weight[n++] = r->kind == CUBIC ? tc_resize_cubic(t - (double)k, -0.75) : k ? t : 1 - t;
  }
  return n;
}

static int32_t resize_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_result_data(a, 0);
  tc_resize r;
  if (read_resize(a, &r)) return TC_STATUS_INVALID_ARGUMENT;
  if (by_bytes(&r, y->nominal)) return tc_resize_bytes_ref(a, &r);
  int64_t *at[MAX_SPACE], iy[TC_MAX_RANK] = {0};
  double *weight[MAX_SPACE];
  for (int32_t i = 0; i < r.n; i++) {
    at[i] = tc_op_scratch(a, (uint64_t)(r.in[i]->value + MAX_TAPS) * sizeof **at);
    weight[i] = tc_op_scratch(a, (uint64_t)(r.in[i]->value + MAX_TAPS) * sizeof **weight);
    if (!at[i] || !weight[i]) return TC_STATUS_OUT_OF_MEMORY;
  }
  for (bool more = tc_ref_numel(y) > 0; more; more = tc_ref_next(y->rank, y->sizes, iy)) {
    int64_t n[MAX_SPACE], k[MAX_SPACE] = {0};
    double sum = 0;
    bool any = true;
    for (int32_t i = 0; i < r.n; i++) n[i] = ref_taps(&r, i, iy[2 + i], at[i], weight[i]), any = any && n[i];
    for (bool next = any; next; next = tc_ref_next(r.n, n, k)) {
      int64_t o = iy[0] * x->strides[0] + iy[1] * x->strides[1];
      double w = 1;
      for (int32_t i = 0; i < r.n; i++) o += at[i][k[i]] * x->strides[2 + i], w *= weight[i][k[i]];
      sum += w == 1 ? tc_ref_f(x, o) : w * tc_ref_f(x, o);
    }
    if (y->dtype == TC_I64) tc_ref_put_i(y, tc_ref_offset(y, iy), (int64_t)fmin(fmax(floor(sum + 0.5), 0), 255));
    else tc_ref_put(y, tc_ref_offset(y, iy), (tc_c128){sum, 0});
  }
  return TC_STATUS_OK;
}

#define ROW(s) {.schema = s, .meta = resize_meta, .lower = resize_lower, .ref = resize_ref, .flops = "8 * numel"}
#define VEC(name) ROW(name ".vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor")
#define VEC_ALIGN(name) \
  ROW(name ".vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor")
#define PLAIN_2D "SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor"
static const tc_op_def rows[] = {
    VEC("upsample_nearest1d"),
    VEC("upsample_nearest2d"),
    VEC("upsample_nearest3d"),
    VEC("_upsample_nearest_exact1d"),
    VEC("_upsample_nearest_exact2d"),
    VEC("_upsample_nearest_exact3d"),
    VEC_ALIGN("upsample_linear1d"),
    VEC_ALIGN("upsample_bilinear2d"),
    VEC_ALIGN("upsample_trilinear3d"),
    VEC_ALIGN("upsample_bicubic2d"),
    VEC_ALIGN("_upsample_bilinear2d_aa"),
    VEC_ALIGN("_upsample_bicubic2d_aa"),
    ROW("upsample_nearest1d(Tensor self, SymInt[1] output_size, float? scales=None) -> Tensor"),
    ROW("upsample_nearest2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None) -> Tensor"),
    ROW("upsample_nearest3d(Tensor self, SymInt[3] output_size, float? scales_d=None, float? scales_h=None, float? "
        "scales_w=None) -> Tensor"),
    ROW("_upsample_nearest_exact1d(Tensor self, SymInt[1] output_size, float? scales=None) -> Tensor"),
    ROW("_upsample_nearest_exact2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None) -> "
        "Tensor"),
    ROW("_upsample_nearest_exact3d(Tensor self, SymInt[3] output_size, float? scales_d=None, float? scales_h=None, "
        "float? scales_w=None) -> Tensor"),
    ROW("upsample_linear1d(Tensor self, SymInt[1] output_size, bool align_corners, float? scales=None) -> Tensor"),
    ROW("upsample_bilinear2d(Tensor self, " PLAIN_2D),
    ROW("upsample_bicubic2d(Tensor self, " PLAIN_2D),
    ROW("_upsample_bilinear2d_aa(Tensor self, " PLAIN_2D),
    ROW("_upsample_bicubic2d_aa(Tensor self, " PLAIN_2D),
    ROW("upsample_trilinear3d(Tensor self, SymInt[3] output_size, bool align_corners, float? scales_d=None, float? "
        "scales_h=None, float? scales_w=None) -> Tensor"),
};
TC_OP_FAMILY(upsample);
