// The ops that are lowered: `_fft_c2c`, `_fft_r2c` and `_fft_c2r`. Each transformed dimension is a stage, seen through
// permuted views, so that each stage has its dimension last. Results have the strides that PyTorch gives them with MKL.
#include <string.h>

#include "fft.h"

enum { SELF, DIMS, NORM, LAST }; // arguments; the last is `forward`, `onesided` or `last_dim_size`

typedef struct dims {
  int32_t rank, n;
  int32_t list[TC_MAX_RANK]; // transformed; all but the last of a real transform in order of falling strides
} dims;

static bool larger_stride(tc_op_args *a, const tc_int *strides, int32_t x, int32_t y) {
  int32_t known = tc_int_lt(a, strides[y], strides[x]);
  return known >= 0 ? known == 1 : tc_int_hint(a, strides[x], 1) > tc_int_hint(a, strides[y], 1);
}

static void by_strides(tc_op_args *a, const tc_int *strides, int32_t n, int32_t *d) { // stable, falling
  for (int32_t i = 1; i < n; i++)
    for (int32_t k = i; k > 0 && larger_stride(a, strides, d[k], d[k - 1]); k--) {
      int32_t x = d[k];
      d[k] = d[k - 1], d[k - 1] = x;
    }
}

// `fixed` of the dimensions at the end keep their place.
static int32_t read_dims(tc_op_args *a, int32_t fixed, dims *out) {
  const tc_tensor_type *t = tc_op_tensor(a, SELF);
  bool on[TC_MAX_RANK] = {false};
  *out = (dims){.rank = t->rank, .n = tc_op_count(a, DIMS)};
  if (out->n > t->rank)
    return tc_op_fail(a, "%d dimensions are to be transformed, the input is %s", out->n, tc_op_shape_text(a, SELF));
  if (out->n < fixed) return tc_op_fail(a, "a real transform needs a dimension");
  for (int32_t i = 0; i < out->n; i++) {
    int64_t d = tc_op_wrap_dim(a, tc_op_int_at(a, DIMS, i, 0), t->rank);
    if (d < 0) return TC_STATUS_INVALID_ARGUMENT;
    if (on[d]) return tc_op_fail(a, "dimension %lld appears twice in dim", (long long)d);
    on[d] = true;
    out->list[i] = (int32_t)d;
  }
  by_strides(a, t->strides, out->n - fixed, out->list);
  return TC_STATUS_OK;
}

static int32_t check(tc_op_args *a, bool complex_input, const dims *d) {
  const tc_tensor_type *t = tc_op_tensor(a, SELF);
  if (complex_input != fft_is_complex(t->dtype) || (!complex_input && fft_complex_of(t->dtype) == TC_DTYPE_NONE))
    return tc_op_fail(a, "expects a %s tensor, got %s", complex_input ? "complex" : "real floating-point",
                      tc_op_shape_text(a, SELF));
  int64_t norm = tc_op_int(a, NORM, 0);
  if (norm < 0 || norm > 2) return tc_op_fail(a, "unknown normalization %lld", (long long)norm);
  for (int32_t i = 0; i < d->n; i++)
    if (tc_int_eq(a, t->sizes[d->list[i]], tc_int_const(a, 0)) == 1)
      return tc_op_fail(a, "the transformed dimension %d is empty", d->list[i]);
  return TC_STATUS_OK;
}

// Strides after a transform of `n` dimensions: the others by falling strides, then these. Empty results are row-major.
static void strides_after(tc_op_args *a, int32_t rank, const tc_int *sizes, const tc_int *in, int32_t n,
                          const int32_t *list, tc_int *out) {
  int32_t order[TC_MAX_RANK], others = 0;
  bool on[TC_MAX_RANK] = {false}, empty = false;
  for (int32_t i = 0; i < n; i++) on[list[i]] = true;
  for (int32_t d = 0; d < rank; d++) {
    if (!on[d]) order[others++] = d;
    empty |= tc_int_eq(a, sizes[d], tc_int_const(a, 0)) == 1;
  }
  by_strides(a, in, others, order);
  for (int32_t i = 0; i < n; i++) order[others + i] = list[i];
  tc_int step = tc_int_const(a, 1);
  for (int32_t i = rank - 1; i >= 0; i--) {
    int32_t d = empty ? i : order[i];
    out[d] = step;
    step = tc_int_mul(a, step, empty ? tc_int_max(a, sizes[d], tc_int_const(a, 1)) : sizes[d]);
  }
}

int32_t fft_meta_c2c(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, SELF);
  dims d;
  tc_int strides[TC_MAX_RANK];
  if (read_dims(a, 0, &d) || check(a, true, &d)) return TC_STATUS_INVALID_ARGUMENT;
  if (d.n == 0) return tc_op_set_result(a, 0, t->dtype, t->rank, t->sizes, t->strides);
  strides_after(a, t->rank, t->sizes, t->strides, d.n, d.list, strides);
  return tc_op_set_result(a, 0, t->dtype, t->rank, t->sizes, strides);
}

static tc_int one_sided(tc_op_args *a, tc_int n) {
  return tc_int_add(a, tc_int_floordiv(a, n, tc_int_const(a, 2)), tc_int_const(a, 1));
}

int32_t fft_meta_r2c(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, SELF);
  dims d;
  tc_int sizes[TC_MAX_RANK], strides[TC_MAX_RANK];
  if (read_dims(a, 1, &d) || check(a, false, &d)) return TC_STATUS_INVALID_ARGUMENT;
  memcpy(sizes, t->sizes, sizeof *sizes * (size_t)t->rank);
  int32_t last = d.list[d.n - 1];
  if (tc_op_bool(a, LAST, 1)) sizes[last] = one_sided(a, sizes[last]);
  strides_after(a, t->rank, sizes, t->strides, d.n, d.list, strides);
  return tc_op_set_result(a, 0, fft_complex_of(t->dtype), t->rank, sizes, strides);
}

int32_t fft_meta_c2r(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, SELF);
  dims d;
  tc_int sizes[TC_MAX_RANK], between[TC_MAX_RANK], strides[TC_MAX_RANK], n = tc_op_sym(a, LAST);
  if (read_dims(a, 1, &d) || check(a, true, &d)) return TC_STATUS_INVALID_ARGUMENT;
  int32_t last = d.list[d.n - 1];
  if (tc_int_lt(a, n, tc_int_const(a, 1)) == 1) return tc_op_fail(a, "the length of a transform must be at least 1");
  if (tc_int_lt(a, t->sizes[last], one_sided(a, n)) == 1)
    return tc_op_fail(a, "dimension %d of %s is too short for the asked length", last, tc_op_shape_text(a, SELF));
  memcpy(between, t->strides, sizeof *between * (size_t)t->rank);
  if (d.n > 1) strides_after(a, t->rank, t->sizes, t->strides, d.n - 1, d.list, between);
  memcpy(sizes, t->sizes, sizeof *sizes * (size_t)t->rank);
  sizes[last] = n;
  strides_after(a, t->rank, sizes, between, 1, &last, strides);
  return tc_op_set_result(a, 0, fft_real_of(t->dtype), t->rank, sizes, strides);
}

// ---- lowering ----
enum { SMALL = 1 << 18 }; // points

// x with the dimensions `order[0], order[1], …`, or back.
static tc_lt permuted(tc_op_args *a, tc_lt x, int32_t rank, const int32_t *order, bool back) {
  tc_int sizes[TC_MAX_RANK] = {0}, index[TC_MAX_RANK], map[TC_MAX_RANK];
  for (int32_t i = 0; i < rank; i++) sizes[back ? order[i] : i] = tc_lo_size(a, x, back ? i : order[i]);
  tc_lo_indices(a, rank, sizes, index);
  for (int32_t i = 0; i < rank; i++) map[back ? i : order[i]] = index[back ? order[i] : i];
  return tc_lo_view(a, x, rank, sizes, index, map);
}

// A value between stages, and the dimension whose elements are neighbours in memory (-1: none is).
typedef struct lowering {
  tc_lt x;
  int32_t rank, inner;
} lowering;

static int32_t inner_dim(const tc_tensor_type *t) {
  for (int32_t d = t->rank - 1; d >= 0; d--) {
    int64_t stride, size;
    if (tc_int_is_const(t->strides[d], &stride) && stride == 1 && !(tc_int_is_const(t->sizes[d], &size) && size == 1))
      return d;
  }
  return -1;
}

// A power of two that n surely is not more than; 0: none that a block could hold.
static int64_t bound_of(tc_op_args *a, tc_int n) {
  for (int64_t most = 1; most <= FFT_MAX_LENGTH / 4; most *= 2)
    if (tc_int_lt(a, n, tc_int_const(a, most + 1)) == 1) return most;
  return 0;
}

// By definition, for lengths of which nothing is known: a sum over the row for each point.
static tc_lt by_definition(tc_op_args *a, tc_lt x, int32_t rank, const tc_int *sizes, int64_t kind, bool forward,
                           tc_int length, tc_dtype dtype) {
  tc_int index[TC_MAX_RANK + 1], at[TC_MAX_RANK];
  bool wide = fft_real_of(dtype) == TC_F64;
  tc_dtype real = wide ? TC_F64 : TC_F32, all = wide ? TC_C128 : TC_C64;
  tc_lo_begin_reduce(a, TC_RED_SUM, rank, sizes, 1, &length, index);
  tc_int j = index[rank], k = index[rank - 1];
  memcpy(at, index, sizeof *at * (size_t)rank);
  at[rank - 1] = kind == FFT_C2R ? tc_int_min(a, j, tc_int_sub(a, length, j)) : j;
  tc_bval v = tc_lo_load(a, x, at), n = tc_lo_index(a, length, real);
  tc_bval turn = tc_lo_op2(a, TC_K_DIV, tc_lo_index(a, tc_int_mod(a, tc_int_mul(a, j, k), length), real), n);
  turn = tc_lo_op2(a, TC_K_MUL, turn, tc_lo_const(a, real, forward ? -2 * FFT_PI : 2 * FFT_PI, 0));
  tc_bval c = tc_lo_op1(a, TC_K_COS, turn), s = tc_lo_op1(a, TC_K_SIN, turn), term;
  if (kind == FFT_R2C || kind == FFT_R2C_FULL) {
    v = tc_lo_cast(a, v, real);
    term = tc_lo_op2(a, TC_K_COMPLEX, tc_lo_op2(a, TC_K_MUL, v, c), tc_lo_op2(a, TC_K_MUL, v, s));
  } else {
    v = tc_lo_cast(a, v, all);
    if (kind == FFT_C2R) { // beyond the middle the mirror; where there is no mirror the real part
      tc_bval here = tc_lo_index(a, j, TC_I64), there = tc_lo_index(a, tc_int_sub(a, length, j), TC_I64);
      tc_bval re = tc_lo_op1(a, TC_K_REAL, v), im = tc_lo_op1(a, TC_K_IMAG, v), zero = tc_lo_const(a, real, 0, 0);
      tc_bval beyond = tc_lo_op2(a, TC_K_GT, here, there),
              first = tc_lo_op2(a, TC_K_EQ, here, tc_lo_const_int(a, TC_I64, 0));
      tc_bval alone = tc_lo_op2(a, TC_K_OR, first, tc_lo_op2(a, TC_K_EQ, here, there));
      im = tc_lo_op3(a, TC_K_SELECT, beyond, tc_lo_op1(a, TC_K_NEG, im), im);
      im = tc_lo_op3(a, TC_K_SELECT, alone, zero, im);
      term = tc_lo_op2(a, TC_K_SUB, tc_lo_op2(a, TC_K_MUL, re, c), tc_lo_op2(a, TC_K_MUL, im, s));
    } else {
      term = tc_lo_op2(a, TC_K_MUL, v, tc_lo_op2(a, TC_K_COMPLEX, c, s));
    }
  }
  tc_dtype of = kind == FFT_C2R ? real : all;
  tc_lt sum = tc_lo_end(a, term, of);
  int64_t norm = tc_op_int(a, NORM, 0);
  tc_lo_begin(a, rank, sizes, index);
  tc_bval y = tc_lo_load(a, sum, index), f = tc_lo_const(a, real, 1, 0);
  if (norm) f = tc_lo_op2(a, TC_K_DIV, f, tc_lo_index(a, length, real));
  if (norm == 1) f = tc_lo_op1(a, TC_K_SQRT, f);
  if (norm) y = tc_lo_op2(a, TC_K_MUL, y, tc_lo_cast(a, f, of));
  return tc_lo_end(a, tc_lo_cast(a, y, dtype), dtype);
}

// One stage along `dim`, whose result has n elements there. What is next to `dim` in the order comes from the memory:
// neighbouring rows should be neighbours there. is_result: its strides are those of the op's result.
static void stage(tc_op_args *a, lowering *l, int32_t dim, int64_t kind, bool forward, tc_int n, tc_dtype dtype,
                  bool is_result) {
  int32_t order[TC_MAX_RANK], count = 0, rank = l->rank;
  bool moved = dim != rank - 1, near = l->inner >= 0 && l->inner != dim;
  for (int32_t d = 0; d < rank; d++)
    if (d != dim && !(near && d == l->inner)) order[count++] = d;
  if (near) order[count++] = l->inner;
  order[count] = dim;
  for (int32_t d = 0; d < rank; d++) moved |= order[d] != d;
  int32_t result_inner = is_result ? inner_dim(tc_op_result_type(a, 0)) : dim;
  int64_t columns = (l->inner != dim) | (result_inner != dim) << 1;
  tc_lt x = moved ? permuted(a, l->x, rank, order, false) : l->x;
  tc_int sizes[TC_MAX_RANK], attrs[FFT_ATTRS];
  for (int32_t d = 0; d < rank; d++) sizes[d] = d == rank - 1 ? n : tc_lo_size(a, x, d);
  attrs[FFT_ATTR_KIND] = tc_int_const(a, kind);
  attrs[FFT_ATTR_FORWARD] = tc_int_const(a, forward);
  attrs[FFT_ATTR_NORM] = tc_int_const(a, tc_op_int(a, NORM, 0));
  attrs[FFT_ATTR_COLUMNS] = tc_int_const(a, columns);
  attrs[FFT_ATTR_TURN] = tc_int_const(a, 0);
  tc_int length = kind == FFT_R2C ? tc_lo_size(a, x, rank - 1) : n;
  int64_t known = 0, norm = tc_op_int(a, NORM, 0);
  bool constant = tc_int_is_const(length, &known);
  int64_t most = constant ? 0 : bound_of(a, length);
  attrs[FFT_ATTR_MOST] = tc_int_const(a, most);
  attrs[FFT_ATTR_LENGTH] = tc_int_const(a, constant ? known : 0);
  if (!constant && !most) x = by_definition(a, x, rank, sizes, kind, forward, length, dtype);
  else if (constant && fft_is_long(known, kind, dtype))
    x = fft_lower_long(a, x, rank, sizes, kind, forward, known, norm, dtype);
  else x = tc_lo_template(a, "fft", 1, &x, dtype, rank, sizes, FFT_ATTRS, attrs);
  *l = (lowering){moved ? permuted(a, x, rank, order, true) : x, rank, result_inner};
}

// Are the transformed dimensions together small enough for the caches? What is between two passes is then read in any
// order at the same price.
static bool is_small(tc_op_args *a, const lowering *l, const dims *d, int32_t n) {
  int64_t points = 1, size;
  for (int32_t i = 0; i < n; i++) {
    if (!tc_int_is_const(tc_lo_size(a, l->x, d->list[i]), &size) || size < 1 || size > SMALL / points) return false;
    points *= size;
  }
  return true;
}

// There the last dimension comes first, back the first one, if the whole is small: what lies between a transform and
// its inverse then stands between two stages along the same dimension, which share a kernel.
static void complex_stages(tc_op_args *a, lowering *l, const dims *d, int32_t n, bool forward, bool result) {
  tc_dtype dtype = tc_lo_dtype(a, l->x);
  bool up = !forward && is_small(a, l, d, n);
  for (int32_t i = 0; i < n; i++) {
    int32_t dim = d->list[up ? i : n - 1 - i];
    stage(a, l, dim, FFT_C2C, forward, tc_lo_size(a, l->x, dim), dtype, result && i == n - 1);
  }
}

static lowering begin(tc_op_args *a, const dims *d) {
  return (lowering){tc_lo_arg(a, SELF), d->rank, inner_dim(tc_op_tensor(a, SELF))};
}

int32_t fft_lower_c2c(tc_op_args *a) {
  dims d;
  if (read_dims(a, 0, &d)) return TC_STATUS_INVALID_ARGUMENT;
  lowering l = begin(a, &d);
  complex_stages(a, &l, &d, d.n, tc_op_bool(a, LAST, 1), true);
  tc_lo_result(a, 0, l.x);
  return TC_STATUS_OK;
}

int32_t fft_lower_r2c(tc_op_args *a) {
  dims d;
  if (read_dims(a, 1, &d)) return TC_STATUS_INVALID_ARGUMENT;
  lowering l = begin(a, &d);
  int32_t last = d.list[d.n - 1];
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  stage(a, &l, last, tc_op_bool(a, LAST, 1) ? FFT_R2C : FFT_R2C_FULL, true, r->sizes[last], r->dtype, d.n == 1);
  complex_stages(a, &l, &d, d.n - 1, true, true);
  tc_lo_result(a, 0, l.x);
  return TC_STATUS_OK;
}

int32_t fft_lower_c2r(tc_op_args *a) {
  dims d;
  if (read_dims(a, 1, &d)) return TC_STATUS_INVALID_ARGUMENT;
  lowering l = begin(a, &d);
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  int32_t last = d.list[d.n - 1];
  complex_stages(a, &l, &d, d.n - 1, false, false);
  stage(a, &l, last, FFT_C2R, false, r->sizes[last], r->dtype, true);
  tc_lo_result(a, 0, l.x);
  return TC_STATUS_OK;
}

// ---- dtypes ----
bool fft_is_complex(tc_dtype d) { return d == TC_C32 || d == TC_BC32 || d == TC_C64 || d == TC_C128; }

tc_dtype fft_complex_of(tc_dtype d) {
  switch (d) {
  case TC_F16: return TC_C32;
  case TC_BF16: return TC_BC32;
  case TC_F32: return TC_C64;
  case TC_F64: return TC_C128;
  default: return fft_is_complex(d) ? d : TC_DTYPE_NONE;
  }
}
