// torch.fft: the functions as graph nodes over _fft_c2c, _fft_r2c and _fft_c2r, slices, pads and rolls.
#include <string.h>

#include "fft.h"

static bool text_is(tc_sv s, const char *t) { return s.size == strlen(t) && memcmp(s.data, t, s.size) == 0; }

// What a function is: the rest follows from the schema.
enum { COMPLEX, TO_HALF, FROM_HALF }; // c2c; real to one-sided; one-sided to real
typedef struct function {
  int32_t kind;
  bool forward;   // of the sign, and of what "backward" and "forward" mean for the norm
  bool conjugate; // hfft, ihfft: the transform of the other direction, of the conjugate or conjugated
} function;

static int32_t norm_of(tc_op_args *a, int32_t arg, bool forward, int64_t *out) {
  tc_sv s = tc_op_string(a, arg);
  if (s.size == 0 || text_is(s, "backward")) *out = forward ? 0 : 2;
  else if (text_is(s, "forward")) *out = forward ? 2 : 0;
  else if (text_is(s, "ortho")) *out = 1;
  else return tc_op_fail(a, "norm is \"%.*s\"; it can be \"backward\", \"forward\" or \"ortho\"", (int)s.size, s.data);
  return TC_STATUS_OK;
}

// ---- nodes ----
static tc_gv unary(tc_op_args *a, const char *op, tc_gv x) {
  tc_ex_begin(a, op);
  tc_ex_push(a, x);
  return tc_ex_make(a, 1, NULL);
}

static tc_gv cast(tc_op_args *a, tc_gv x, tc_dtype d) {
  tc_ex_begin(a, "aten::_to_copy");
  tc_ex_push(a, x);
  tc_ex_push_dtype(a, d);
  return tc_ex_make(a, 1, NULL);
}

// x cut, or padded with zeros at the end, to n elements along dim.
static tc_gv resized(tc_op_args *a, tc_gv x, int32_t dim, tc_int n) {
  const tc_tensor_type *t = tc_ex_type(a, x);
  if (!t) return -1;
  tc_int size = t->sizes[dim], zero = tc_int_const(a, 0);
  if (tc_int_eq(a, n, size) == 1) return x;
  int32_t cut = tc_int_lt(a, n, size), grow = tc_int_lt(a, size, n);
  if (tc_int_lt(a, n, tc_int_const(a, 1)) == 1) {
    tc_op_fail(a, "the length of a transform must be at least 1");
    return -1;
  }
  if (cut == 1) {
    tc_ex_begin(a, "aten::slice.Tensor");
    tc_ex_push(a, x);
    tc_ex_push_int(a, tc_int_const(a, dim));
    tc_ex_push_int(a, zero);
    tc_ex_push_int(a, n);
    return tc_ex_make(a, 1, NULL);
  }
  if (grow == 1 || cut == 0) {
    tc_int pad[2 * TC_MAX_RANK];
    int32_t count = 0;
    for (int32_t d = t->rank - 1; d >= dim; d--) {
      pad[count++] = zero;
      pad[count++] = d == dim ? tc_int_sub(a, n, size) : zero;
    }
    tc_ex_begin(a, "aten::constant_pad_nd");
    tc_ex_push(a, x);
    tc_ex_push_ints(a, count, pad);
    return tc_ex_make(a, 1, NULL);
  }
  tc_op_fail(a, "it is not known whether the length of the transform is more or less than the dimension's size");
  return -1;
}

static tc_gv transform(tc_op_args *a, const char *op, tc_gv x, int32_t n, const tc_int *dims, int64_t norm, tc_int size,
                       bool flag) {
  tc_ex_begin(a, op);
  tc_ex_push(a, x);
  tc_ex_push_ints(a, n, dims);
  tc_ex_push_int(a, tc_int_const(a, norm));
  if (size) tc_ex_push_int(a, size);
  else tc_ex_push_bool(a, flag);
  return tc_ex_make(a, 1, NULL);
}

// Floating point: integers become f32, and complex where that is asked for.
static tc_gv promoted(tc_op_args *a, tc_gv x, bool to_complex) {
  const tc_tensor_type *t = tc_ex_type(a, x);
  if (!t) return -1;
  tc_dtype d = t->dtype, to = fft_complex_of(d) == TC_DTYPE_NONE ? TC_F32 : d;
  if (to_complex) to = fft_complex_of(to);
  return to == d ? x : cast(a, x, to);
}

// ---- one and several dimensions ----
typedef struct request {
  int32_t n;
  tc_int dims[TC_MAX_RANK], sizes[TC_MAX_RANK]; // sizes: 0 where the argument says nothing
  int64_t norm;
  bool several; // the n-dimensional function
} request;

static int32_t read_one(tc_op_args *a, request *r) {
  int32_t rank = tc_op_tensor(a, 0)->rank;
  if (rank == 0) return tc_op_fail(a, "a tensor without dimensions has no transform");
  int64_t dim = tc_op_wrap_dim(a, tc_op_int(a, 2, -1), rank);
  if (dim < 0) return TC_STATUS_INVALID_ARGUMENT;
  r->n = 1;
  r->dims[0] = tc_int_const(a, dim);
  if (tc_op_kind(a, 1) != TC_AK_NONE) r->sizes[0] = tc_op_sym(a, 1);
  return TC_STATUS_OK;
}

static int32_t read_many(tc_op_args *a, request *r) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  bool has_s = tc_op_kind(a, 1) != TC_AK_NONE, has_dim = tc_op_kind(a, 2) != TC_AK_NONE;
  r->n = has_dim ? tc_op_count(a, 2) : has_s ? tc_op_count(a, 1) : t->rank;
  r->several = true;
  if (r->n > t->rank)
    return tc_op_fail(a, "%d dimensions are to be transformed, the input is %s", r->n, tc_op_shape_text(a, 0));
  if (has_s && tc_op_count(a, 1) != r->n)
    return tc_op_fail(a, "s has %d sizes, dim has %d dimensions", tc_op_count(a, 1), r->n);
  for (int32_t i = 0; i < r->n; i++) {
    int64_t d = tc_op_wrap_dim(a, has_dim ? tc_op_int_at(a, 2, i, 0) : t->rank - r->n + i, t->rank);
    if (d < 0) return TC_STATUS_INVALID_ARGUMENT;
    r->dims[i] = tc_int_const(a, d);
    if (has_s && tc_int_eq(a, tc_op_sym_at(a, 1, i), tc_int_const(a, -1)) != 1) r->sizes[i] = tc_op_sym_at(a, 1, i);
  }
  return TC_STATUS_OK;
}

static tc_int one_sided(tc_op_args *a, tc_int n) {
  return tc_int_add(a, tc_int_floordiv(a, n, tc_int_const(a, 2)), tc_int_const(a, 1));
}

static int32_t dim_at(const request *r, int32_t i) {
  int64_t d = 0;
  tc_int_is_const(r->dims[i], &d);
  return (int32_t)d;
}

static int32_t from_half(tc_op_args *a, function f, request *r, tc_gv x) {
  int32_t last = r->n - 1;
  x = promoted(a, x, true);
  const tc_tensor_type *t = tc_ex_type(a, x);
  if (!t) return TC_STATUS_INVALID_ARGUMENT;
  tc_int two = tc_int_const(a, 2), have = tc_int_sub(a, t->sizes[dim_at(r, last)], tc_int_const(a, 1));
  tc_int n = r->sizes[last] ? r->sizes[last] : tc_int_mul(a, two, have);
  if (tc_int_lt(a, n, tc_int_const(a, 1)) == 1)
    return tc_op_fail(a, "the length of the result must be at least 1: %s", tc_op_shape_text(a, 0));
  for (int32_t i = 0; i <= last; i++) {
    tc_int size = i == last ? one_sided(a, n) : r->sizes[i];
    if (size) x = resized(a, x, dim_at(r, i), size);
  }
  if (f.conjugate && last > 0) { // the leading dimensions are transformed forward before the conjugation
    x = transform(a, "aten::_fft_c2c", x, last, r->dims, r->norm, NULL, true);
    r->dims[0] = r->dims[last];
    r->n = 1;
  }
  if (f.conjugate) x = unary(a, "aten::_conj", x);
  tc_ex_result(a, 0, transform(a, "aten::_fft_c2r", x, r->n, r->dims, r->norm, n, false));
  return TC_STATUS_OK;
}

static int32_t to_half(tc_op_args *a, function f, request *r, tc_gv x) {
  if (fft_is_complex(tc_op_tensor(a, 0)->dtype))
    return tc_op_fail(a, "expects a real input tensor, got %s", tc_op_shape_text(a, 0));
  x = promoted(a, x, false);
  for (int32_t i = 0; i < r->n; i++)
    if (r->sizes[i]) x = resized(a, x, dim_at(r, i), r->sizes[i]);
  int32_t last = r->n - 1;
  if (!f.conjugate) {
    tc_ex_result(a, 0, transform(a, "aten::_fft_r2c", x, r->n, r->dims, r->norm, NULL, true));
    return TC_STATUS_OK;
  }
  x = unary(a, "aten::conj_physical", transform(a, "aten::_fft_r2c", x, 1, &r->dims[last], r->norm, NULL, true));
  if (last > 0) x = transform(a, "aten::_fft_c2c", x, last, r->dims, r->norm, NULL, false);
  tc_ex_result(a, 0, x);
  return TC_STATUS_OK;
}

static int32_t both_complex(tc_op_args *a, function f, request *r, tc_gv x) {
  // One dimension of a real tensor: half of the work, mirrored.
  bool real = !r->several && !fft_is_complex(tc_op_tensor(a, 0)->dtype);
  x = promoted(a, x, !real);
  for (int32_t i = 0; i < r->n; i++)
    if (r->sizes[i]) x = resized(a, x, dim_at(r, i), r->sizes[i]);
  if (!real) x = transform(a, "aten::_fft_c2c", x, r->n, r->dims, r->norm, NULL, f.forward);
  else x = transform(a, "aten::_fft_r2c", x, r->n, r->dims, r->norm, NULL, false);
  if (real && !f.forward) x = unary(a, "aten::conj_physical", x);
  tc_ex_result(a, 0, x);
  return TC_STATUS_OK;
}

static int32_t expand(tc_op_args *a, function f, int32_t (*read)(tc_op_args *a, request *r)) {
  request r = {0};
  if (read(a, &r) || norm_of(a, 3, f.forward, &r.norm)) return TC_STATUS_INVALID_ARGUMENT;
  if (r.n == 0 && f.kind != COMPLEX) return tc_op_fail(a, "at least one dimension must be transformed");
  tc_gv x = tc_ex_arg(a, 0);
  if (f.kind == TO_HALF) return to_half(a, f, &r, x);
  return f.kind == FROM_HALF ? from_half(a, f, &r, x) : both_complex(a, f, &r, x);
}

#define FUNCTION(name, ...)                                                                             \
  int32_t fft_expand_##name##_1(tc_op_args *a) { return expand(a, (function){__VA_ARGS__}, read_one); } \
  int32_t fft_expand_##name##_n(tc_op_args *a) { return expand(a, (function){__VA_ARGS__}, read_many); }
FUNCTION(fft, COMPLEX, true, false)
FUNCTION(ifft, COMPLEX, false, false)
FUNCTION(rfft, TO_HALF, true, false)
FUNCTION(irfft, FROM_HALF, false, false)
FUNCTION(hfft, FROM_HALF, true, true)
FUNCTION(ihfft, TO_HALF, false, true)

// ---- shifts ----
static int32_t shift(tc_op_args *a, int64_t round_up) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  bool has_dim = tc_op_kind(a, 1) != TC_AK_NONE;
  int32_t n = has_dim ? tc_op_count(a, 1) : t->rank;
  if (n == 0 || t->rank == 0) {
    tc_ex_result(a, 0, unary(a, "aten::clone", tc_ex_arg(a, 0)));
    return TC_STATUS_OK;
  }
  if (n > TC_MAX_RANK) return tc_op_fail(a, "dim has %d dimensions", n);
  tc_int shifts[TC_MAX_RANK], dims[TC_MAX_RANK];
  for (int32_t i = 0; i < n; i++) {
    int64_t d = tc_op_wrap_dim(a, has_dim ? tc_op_int_at(a, 1, i, 0) : i, t->rank);
    if (d < 0) return TC_STATUS_INVALID_ARGUMENT;
    dims[i] = tc_int_const(a, d);
    shifts[i] = tc_int_floordiv(a, tc_int_add(a, t->sizes[d], tc_int_const(a, round_up)), tc_int_const(a, 2));
  }
  tc_ex_begin(a, "aten::roll");
  tc_ex_push(a, tc_ex_arg(a, 0));
  tc_ex_push_ints(a, n, shifts);
  tc_ex_push_ints(a, n, dims);
  tc_ex_result(a, 0, tc_ex_make(a, 1, NULL));
  return TC_STATUS_OK;
}
int32_t fft_expand_fftshift(tc_op_args *a) { return shift(a, 0); }
int32_t fft_expand_ifftshift(tc_op_args *a) { return shift(a, 1); }

// ---- frequencies: 0, 1, …, then (fftfreq) the negative ones, divided by n d ----
static tc_gv range(tc_op_args *a, tc_int from, tc_int to, tc_dtype d) {
  tc_ex_begin(a, "aten::arange.start");
  tc_ex_push_int(a, from);
  tc_ex_push_int(a, to);
  tc_ex_push_dtype(a, d);
  return tc_ex_make(a, 1, NULL);
}

static int32_t frequencies(tc_op_args *a, bool half) {
  int64_t n = tc_op_int(a, 0, -1);
  if (n < (half ? 0 : 1)) return tc_op_fail(a, "n must be a known number of points, at least 1");
  double d = tc_op_float(a, 1, 1);
  tc_dtype dtype = tc_op_dtype(a, tc_op_arg_index(a, "dtype"), TC_F32);
  if (fft_complex_of(dtype) == TC_DTYPE_NONE) return tc_op_fail(a, "the dtype must be of floating point");
  tc_gv parts[2] = {range(a, tc_int_const(a, 0), tc_int_const(a, half ? n / 2 + 1 : (n + 1) / 2), dtype),
                    half || n < 2 ? -1 : range(a, tc_int_const(a, -(n / 2)), tc_int_const(a, 0), dtype)};
  tc_gv all = parts[0];
  if (parts[1] >= 0) {
    tc_ex_begin(a, "aten::cat");
    tc_ex_push_list(a, 2, parts);
    all = tc_ex_make(a, 1, NULL);
  }
  tc_ex_begin(a, "aten::mul.Scalar");
  tc_ex_push(a, all);
  tc_ex_push_float(a, 1.0 / ((double)n * d));
  tc_ex_result(a, 0, tc_ex_make(a, 1, NULL));
  return TC_STATUS_OK;
}
int32_t fft_expand_fftfreq(tc_op_args *a) { return frequencies(a, false); }
int32_t fft_expand_rfftfreq(tc_op_args *a) { return frequencies(a, true); }
