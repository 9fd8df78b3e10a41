// Sampling images at positions from data: grid_sampler in 2 and 3 dimensions, and the grids of affine maps.
//
// A grid holds positions in [-1, 1], the last image dimension first. With aligned corners -1 and 1 are the centres of
// the outer pixels, else their outer edges. Positions outside count as zero, or are moved to the border, or reflected
// there. Cubic interpolation (a = -0.75) moves each of its 16 taps, the others the position itself.
#include <math.h>

#include "core/ops/ops.h"

enum { MAX_SPACE = 3, MAX_TAPS = 4 };
enum { LINEAR, NEAREST, CUBIC };
enum { ZEROS, BORDER, REFLECTION };

typedef struct sampler {
  int32_t n, kind, padding;
  bool align;
} sampler;

static int32_t read_sampler(tc_op_args *a, sampler *s) {
  const tc_tensor_type *x = tc_op_tensor(a, 0), *g = tc_op_tensor(a, 1);
  *s = (sampler){.n = x->rank - 2,
                 .kind = (int32_t)tc_op_int(a, 2, -1),
                 .padding = (int32_t)tc_op_int(a, 3, -1),
                 .align = tc_op_bool(a, 4, 0)};
  if (s->n < 2 || s->n > MAX_SPACE || g->rank != x->rank)
    return tc_op_fail(a, "expected input and grid of rank 4 or 5, but got %s and %s", tc_op_shape_text(a, 0),
                      tc_op_shape_text(a, 1));
  if (s->kind < LINEAR || s->kind > CUBIC || (s->kind == CUBIC && s->n != 2) || s->padding < ZEROS ||
      s->padding > REFLECTION)
    return tc_op_fail(a, "interpolation mode %d with padding mode %d is not available in %d dimensions", s->kind,
                      s->padding, s->n);
  if (x->dtype != g->dtype || !tc_dtype_is_float(x->dtype))
    return tc_op_fail(a, "input and grid must have the same floating point dtype: %s and %s", tc_op_shape_text(a, 0),
                      tc_op_shape_text(a, 1));
  if (tc_int_require_eq(a, x->sizes[0], g->sizes[0]) ||
      tc_int_require_eq(a, g->sizes[g->rank - 1], tc_int_const(a, s->n)))
    return tc_op_fail(a, "the batch sizes of input and grid must agree, and the grid hold %d numbers each: %s and %s",
                      s->n, tc_op_shape_text(a, 0), tc_op_shape_text(a, 1));
  for (int32_t i = 0; i < s->n; i++)
    if (tc_int_lt(a, x->sizes[2 + i], tc_int_const(a, 1)) == 1)
      return tc_op_fail(a, "the input has empty spatial dimensions: %s", tc_op_shape_text(a, 0));
  return TC_STATUS_OK;
}

static int32_t sampler_meta(tc_op_args *a) {
  const tc_tensor_type *x = tc_op_tensor(a, 0), *g = tc_op_tensor(a, 1);
  sampler s;
  tc_int sizes[TC_MAX_RANK];
  if (read_sampler(a, &s)) return TC_STATUS_INVALID_ARGUMENT;
  sizes[0] = x->sizes[0], sizes[1] = x->sizes[1];
  for (int32_t i = 0; i < s.n; i++) sizes[2 + i] = g->sizes[1 + i];
  return tc_op_set_result(a, 0, x->dtype, x->rank, sizes, NULL);
}

// ---- lowering ----
// A scalar text in v, and the size s of a dimension.
static tc_bval of(tc_op_args *a, const char *text, tc_bval v, tc_bval size) {
  static const char *const names[] = {"v", "s"};
  const tc_bval values[] = {v, size};
  return tc_lo_text(a, text, 2, names, values);
}

static tc_bval moved(tc_op_args *a, const sampler *s, tc_bval v, tc_bval size) {
  if (s->padding == REFLECTION) {
    const char *text = s->align ? "let w = s - 1; let u = abs(v); let f = floor(u / w); let e = u - f * w; "
                                  "where(w < 0.5, 0, where(f - 2 * floor(f / 2) < 0.5, e, w - e))"
                                : "let u = abs(v + 0.5); let f = floor(u / s); let e = u - f * s; "
                                  "where(f - 2 * floor(f / 2) < 0.5, e, s - e) - 0.5";
    v = of(a, text, v, size);
  }
  if (s->padding == ZEROS) return v;
  tc_bval last = of(a, "s - 1", v, size), first = of(a, "0 * s", v, size);
  if (s->kind == CUBIC) return of(a, "min(max(v, 0), s - 1)", v, size);
  // What is no number is the first place in two dimensions and the last in three, as in PyTorch.
  bool two = s->n == 2;
  v = tc_lo_op2(a, two ? TC_K_FMAX : TC_K_FMIN, v, two ? first : last);
  return tc_lo_op2(a, two ? TC_K_FMIN : TC_K_FMAX, v, two ? last : first);
}

typedef struct taps {
  int32_t n;
  tc_bval at[MAX_TAPS], weight[MAX_TAPS], inside[MAX_TAPS]; // weight -1: one; inside -1: always
} taps;

static void make_taps(tc_op_args *a, const sampler *s, tc_bval grid, tc_int extent, tc_dtype compute, taps *t) {
  static const char *const cubic[] = {"let u = v + 1; ((-0.75 * u + 3.75) * u - 6) * u + 3",
                                      "(1.25 * v - 2.25) * v * v + 1", "let u = 1 - v; (1.25 * u - 2.25) * u * u + 1",
                                      "let u = 2 - v; ((-0.75 * u + 3.75) * u - 6) * u + 3"};
  tc_bval size = tc_lo_index(a, extent, compute);
  tc_bval v = of(a, s->align ? "(v + 1) / 2 * (s - 1)" : "((v + 1) * s - 1) / 2", grid, size);
  if (s->kind != CUBIC) v = moved(a, s, v, size);
  *t = (taps){.n = s->kind == CUBIC ? 4 : s->kind == LINEAR ? 2 : 1};
  tc_bval low = tc_lo_op1(a, s->kind == NEAREST ? TC_K_RINT : TC_K_FLOOR, v), part = tc_lo_op2(a, TC_K_SUB, v, low);
  for (int32_t k = 0; k < t->n; k++) {
    int32_t off = s->kind == CUBIC ? k - 1 : k;
    tc_bval at = off ? tc_lo_op2(a, TC_K_ADD, low, tc_lo_const(a, compute, off, 0)) : low;
    if (s->kind == CUBIC) at = moved(a, s, at, size);
    t->weight[k] = s->kind == NEAREST ? -1 : of(a, s->kind == CUBIC ? cubic[k] : k ? "v" : "1 - v", part, size);
    t->inside[k] = of(a, "v >= 0 && v < s", at, size);
    tc_bval clamped = tc_lo_op2(a, TC_K_FMAX, at, tc_lo_const(a, compute, 0, 0)); // also where it is no number
    clamped = tc_lo_op2(a, TC_K_FMIN, clamped, of(a, "s - 1", at, size));
    t->at[k] = tc_lo_cast(a, clamped, TC_I64);
  }
}

static int32_t sampler_lower(tc_op_args *a) {
  const tc_tensor_type *x = tc_op_tensor(a, 0), *r = tc_op_result_type(a, 0);
  sampler s;
  if (read_sampler(a, &s)) return TC_STATUS_INVALID_ARGUMENT;
  tc_dtype compute = tc_op_math_type(r->dtype);
  tc_int index[TC_MAX_RANK], gi[TC_MAX_RANK];
  tc_lt input = tc_lo_arg(a, 0), grid = tc_lo_arg(a, 1);
  taps t[MAX_SPACE];
  tc_lo_begin(a, r->rank, r->sizes, index);
  gi[0] = index[0];
  for (int32_t i = 0; i < s.n; i++) gi[1 + i] = index[2 + i];
  for (int32_t i = 0; i < s.n; i++) {
    gi[1 + s.n] = tc_int_const(a, s.n - 1 - i);
    make_taps(a, &s, tc_lo_cast(a, tc_lo_load(a, grid, gi), compute), x->sizes[2 + i], compute, &t[i]);
  }
  tc_bval sum = -1, zero = tc_lo_const(a, compute, 0, 0);
  int32_t k[MAX_SPACE] = {0}, i;
  do {
    tc_bval by[TC_MAX_RANK] = {-1, -1}, inside = -1, weight = -1;
    for (i = 0; i < s.n; i++) {
      tc_bval in = t[i].inside[k[i]], w = t[i].weight[k[i]];
      by[2 + i] = t[i].at[k[i]];
      inside = inside < 0 ? in : tc_lo_op2(a, TC_K_AND, inside, in);
      weight = weight < 0 || w < 0 ? (w < 0 ? weight : w) : tc_lo_op2(a, TC_K_MUL, weight, w);
    }
    tc_bval v = tc_lo_cast(a, tc_lo_gather(a, input, index, by, 0), compute);
    // In two dimensions what lies outside is a zero, whose weight may be no number; in three it does not count.
    if (s.n == 2) v = tc_lo_op3(a, TC_K_SELECT, inside, v, zero);
    if (weight >= 0) v = tc_lo_op2(a, TC_K_MUL, v, weight);
    if (s.n > 2) v = tc_lo_op3(a, TC_K_SELECT, inside, v, zero);
    sum = sum < 0 ? v : tc_lo_op2(a, TC_K_ADD, sum, v);
    for (i = s.n - 1; i >= 0 && ++k[i] == t[i].n; i--) k[i] = 0;
  } while (i >= 0);
  tc_lo_result(a, 0, tc_lo_end(a, sum, r->dtype));
  return TC_STATUS_OK;
}

// ---- reference ----
static double ref_moved(const sampler *s, double v, double size) {
  if (s->padding == REFLECTION) {
    double low = s->align ? 0 : -0.5, span = s->align ? size - 1 : size;
    v = fabs(v - low);
    double rest = span > 0 ? fmod(v, span) : 0, flips = span > 0 ? floor(v / span) : 0;
    v = fmod(flips, 2) == 0 ? rest + low : span - rest + low;
    if (span <= 0) v = 0;
  }
  if (s->padding == ZEROS) return v;
  return s->n == 2 ? fmin(fmax(v, 0), size - 1) : fmax(fmin(v, size - 1), 0);
}
static double ref_cubic(double x) {
  x = fabs(x);
  return x < 1 ? (1.25 * x - 2.25) * x * x + 1 : ((-0.75 * x + 3.75) * x - 6) * x + 3;
}

static int32_t sampler_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *g = tc_op_data(a, 1), *y = tc_op_result_data(a, 0);
  sampler s;
  int64_t iy[TC_MAX_RANK] = {0};
  if (read_sampler(a, &s)) return TC_STATUS_INVALID_ARGUMENT;
  for (bool more = tc_ref_numel(y) > 0; more; more = tc_ref_next(y->rank, y->sizes, iy)) {
    double low[MAX_SPACE], part[MAX_SPACE], sum = 0;
    int64_t base = iy[0] * g->strides[0], k[MAX_SPACE] = {0}, n[MAX_SPACE];
    for (int32_t i = 0; i < s.n; i++) base += iy[2 + i] * g->strides[1 + i];
    for (int32_t i = 0; i < s.n; i++) {
      double size = (double)x->sizes[2 + i], v = tc_ref_f(g, base + (s.n - 1 - i) * g->strides[1 + s.n]);
      v = s.align ? (v + 1) / 2 * (size - 1) : ((v + 1) * size - 1) / 2;
      if (s.kind != CUBIC) v = ref_moved(&s, v, size);
      low[i] = s.kind == NEAREST ? rint(v) : floor(v);
      part[i] = v - low[i];
      n[i] = s.kind == CUBIC ? 4 : s.kind == LINEAR ? 2 : 1;
    }
    do {
      int64_t at = iy[0] * x->strides[0] + iy[1] * x->strides[1];
      double w = 1;
      bool inside = true;
      for (int32_t i = 0; i < s.n; i++) {
        double off = (double)k[i] - (s.kind == CUBIC), p = low[i] + off, size = (double)x->sizes[2 + i];
        if (s.kind == CUBIC) p = ref_moved(&s, p, size), w *= ref_cubic(part[i] - off);
        if (s.kind == LINEAR) w *= k[i] ? part[i] : 1 - part[i];
        inside = inside && p >= 0 && p < size;
        at += inside ? (int64_t)p * x->strides[2 + i] : 0;
      }
      if (inside) sum += w * tc_ref_f(x, at);
      else if (s.n == 2) sum += w * 0;
    } while (tc_ref_next(s.n, n, k));
    tc_ref_put(y, tc_ref_offset(y, iy), (tc_c128){sum, 0});
  }
  return TC_STATUS_OK;
}

// ---- affine_grid_generator: theta · (x, y[, z], 1) for every pixel ----
static int32_t affine_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  int32_t n = tc_op_count(a, 1) - 2;
  tc_int sizes[TC_MAX_RANK];
  if (n < 2 || n > MAX_SPACE) return tc_op_fail(a, "only images of 2 and 3 dimensions are supported");
  if (!tc_dtype_is_float(t->dtype) && !tc_dtype_is_complex(t->dtype))
    return tc_op_fail(a, "Expected theta to have floating point type, but got %s", tc_dtype_torch_name(t->dtype));
  if (t->rank != 3 || tc_int_require_eq(a, t->sizes[0], tc_op_sym_at(a, 1, 0)) ||
      tc_int_require_eq(a, t->sizes[1], tc_int_const(a, n)) ||
      tc_int_require_eq(a, t->sizes[2], tc_int_const(a, n + 1)))
    return tc_op_fail(a, "expected a batch of %d × %d matrices for that size, but got %s", n, n + 1,
                      tc_op_shape_text(a, 0));
  sizes[0] = t->sizes[0], sizes[n + 1] = tc_int_const(a, n);
  for (int32_t i = 0; i < n; i++) sizes[1 + i] = tc_op_sym_at(a, 1, 2 + i);
  return tc_op_set_result(a, 0, t->dtype, n + 2, sizes, NULL);
}
static int32_t affine_lower(tc_op_args *a) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  int32_t n = r->rank - 2;
  tc_dtype compute = tc_op_math_type(r->dtype);
  tc_lt theta = tc_lo_arg(a, 0);
  tc_int index[TC_MAX_RANK], at[3];
  tc_lo_begin(a, r->rank, r->sizes, index);
  at[0] = index[0], at[1] = index[n + 1];
  tc_bval sum = -1;
  for (int32_t k = 0; k <= n; k++) {
    at[2] = tc_int_const(a, k);
    tc_bval v = tc_lo_cast(a, tc_lo_load(a, theta, at), compute);
    if (k < n) {
      tc_int size = r->sizes[n - k], two = tc_int_const(a, 2), one = tc_int_const(a, 1), i = index[n - k];
      bool align = tc_op_bool(a, 2, 0);
      // (2i + 1 - size) / size, or (2i + 1 - size) / (size - 1)
      tc_int num = tc_int_sub(a, tc_int_add(a, tc_int_mul(a, i, two), one), size),
             den = align ? tc_int_max(a, tc_int_sub(a, size, one), one) : size;
      tc_bval place = tc_lo_op2(a, TC_K_DIV, tc_lo_index(a, num, compute), tc_lo_index(a, den, compute));
      v = tc_lo_op2(a, TC_K_MUL, v, place);
    }
    sum = sum < 0 ? v : tc_lo_op2(a, TC_K_ADD, sum, v);
  }
  tc_lo_result(a, 0, tc_lo_end(a, sum, r->dtype));
  return TC_STATUS_OK;
}
static int32_t affine_ref(tc_op_args *a) {
  const tc_ref_view *t = tc_op_data(a, 0), *y = tc_op_result_data(a, 0);
  int32_t n = y->rank - 2;
  int64_t i[TC_MAX_RANK] = {0};
  for (bool more = tc_ref_numel(y) > 0; more; more = tc_ref_next(y->rank, y->sizes, i)) {
    int64_t row = i[0] * t->strides[0] + i[n + 1] * t->strides[1];
    double sum = tc_ref_f(t, row + n * t->strides[2]);
    for (int32_t k = 0; k < n; k++) {
      double size = (double)y->sizes[n - k], p = size > 1 ? -1 + 2 * (double)i[n - k] / (size - 1) : 0;
      if (!tc_op_bool(a, 2, 0)) p *= (size - 1) / size;
      sum += p * tc_ref_f(t, row + k * t->strides[2]);
    }
    tc_ref_put(y, tc_ref_offset(y, i), (tc_c128){sum, 0});
  }
  return TC_STATUS_OK;
}

#define GRID(name)                                                                                                 \
  {.schema =                                                                                                       \
       name "(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor", \
   .meta = sampler_meta,                                                                                           \
   .lower = sampler_lower,                                                                                         \
   .ref = sampler_ref,                                                                                             \
   .flops = "16 * numel"}
static const tc_op_def rows[] = {
    GRID("grid_sampler"),
    GRID("grid_sampler_2d"),
    GRID("grid_sampler_3d"),
    {.schema = "affine_grid_generator(Tensor theta, SymInt[] size, bool align_corners) -> Tensor",
     .meta = affine_meta,
     .lower = affine_lower,
     .ref = affine_ref,
     .flops = "6 * numel"},
};
TC_OP_FAMILY(sample);
