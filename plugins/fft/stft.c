// Short-time transforms: stft and istft as graph nodes, and the one thing that is no other op, adding up frames that
// overlap. Definitions: PyTorch's documentation of torch.stft and torch.istft.
#include <stdarg.h>
#include <string.h>

#include "fft.h"

// ---- nodes: "v" a value, "i" a number, "s" a symbolic number, "S" a count and numbers, "t" a text, "b" a bool ----
static tc_gv call(tc_op_args *a, const char *op, const char *kinds, ...) {
  va_list args;
  tc_int list[TC_MAX_RANK];
  tc_ex_begin(a, op);
  va_start(args, kinds);
  for (const char *k = kinds; *k; k++) {
    if (*k == 'v') tc_ex_push(a, va_arg(args, tc_gv));
    if (*k == 'i') tc_ex_push_int(a, tc_int_const(a, va_arg(args, int)));
    if (*k == 's') tc_ex_push_int(a, va_arg(args, tc_int));
    if (*k == 'b') tc_ex_push_bool(a, va_arg(args, int));
    if (*k == 't') {
      const char *s = va_arg(args, const char *);
      tc_ex_push_string(a, (tc_sv){s, strlen(s)});
    }
    if (*k == 'S') {
      int32_t n = va_arg(args, int32_t);
      for (int32_t i = 0; i < n; i++) list[i] = va_arg(args, tc_int);
      tc_ex_push_ints(a, n, list);
    }
  }
  va_end(args);
  return tc_ex_make(a, 1, NULL);
}

static bool given(const tc_op_args *a, int32_t arg) { return tc_op_kind(a, arg) != TC_AK_NONE; }
static bool is_true(const tc_op_args *a, int32_t arg) { return tc_op_bool(a, arg, 0) != 0; }
static tc_int size_of(tc_op_args *a, tc_gv x, int32_t dim) {
  const tc_tensor_type *t = tc_ex_type(a, x);
  return t ? t->sizes[dim < 0 ? dim + t->rank : dim] : tc_int_const(a, 1);
}

// The frames' numbers, checked.
typedef struct frames {
  int32_t n, hop, window; // points of a transform, of a step, of the window
  tc_gv weights;          // n of them; -1: all are 1
} frames;

static int32_t read_frames(tc_op_args *a, int32_t window_arg, frames *f) {
  int64_t n = tc_op_int(a, 1, -1), hop = tc_op_int(a, 2, n / 4), window = tc_op_int(a, 3, n);
  if (n < 1 || n > 1 << 30) return tc_op_fail(a, "n_fft must be a known positive number");
  if (hop < 1 || hop > 1 << 30) return tc_op_fail(a, "hop_length must be a positive number");
  if (window < 1 || window > n) return tc_op_fail(a, "win_length must be from 1 to n_fft");
  *f = (frames){(int32_t)n, (int32_t)hop, (int32_t)window, -1};
  const tc_tensor_type *w = tc_op_tensor(a, window_arg);
  if (w && (w->rank != 1 || tc_int_eq(a, w->sizes[0], tc_int_const(a, window)) == 0))
    return tc_op_fail(a, "the window must have win_length (%lld) elements: %s", (long long)window,
                      tc_op_shape_text(a, window_arg));
  return TC_STATUS_OK;
}

// The window, in the middle of n points.
static tc_gv weights_of(tc_op_args *a, const frames *f, int32_t window_arg, tc_dtype dtype) {
  tc_gv w = -1;
  if (tc_op_tensor(a, window_arg)) {
    w = tc_ex_arg(a, window_arg);
  } else if (f->window < f->n) {
    tc_int size = tc_int_const(a, f->window);
    tc_ex_begin(a, "aten::ones");
    tc_ex_push_ints(a, 1, &size);
    tc_ex_push_dtype(a, dtype);
    w = tc_ex_make(a, 1, NULL);
  }
  int32_t left = (f->n - f->window) / 2;
  if (w < 0 || f->window == f->n) return w;
  return call(a, "aten::constant_pad_nd", "vS", w, 2, tc_int_const(a, left), tc_int_const(a, f->n - f->window - left));
}

// ---- stft ----
// Arguments of the two overloads: where window and what follows it are; -1 where there is none.
static int32_t expand_frames(tc_op_args *a, int32_t center_arg, int32_t mode_arg, int32_t normalized_arg) {
  const tc_tensor_type *t = tc_op_tensor(a, 0), *w = tc_op_tensor(a, 4);
  int32_t onesided_arg = normalized_arg + 1, complex_arg = normalized_arg + 2;
  bool centered = center_arg >= 0 && is_true(a, center_arg), single = t->rank == 1;
  frames f;
  if (t->rank < 1 || t->rank > 2)
    return tc_op_fail(a, "expects a tensor of one or two dimensions, got %s", tc_op_shape_text(a, 0));
  if (fft_complex_of(t->dtype) == TC_DTYPE_NONE)
    return tc_op_fail(a, "expects a tensor of floating point, got %s", tc_op_shape_text(a, 0));
  if (is_true(a, normalized_arg + 3)) return tc_op_fail(a, "align_to_window is not known");
  if (read_frames(a, 4, &f)) return TC_STATUS_INVALID_ARGUMENT;
  bool complex_fft = fft_is_complex(t->dtype) || (w && fft_is_complex(w->dtype));
  bool onesided = given(a, onesided_arg) ? is_true(a, onesided_arg) : !complex_fft;
  bool as_complex = given(a, complex_arg) ? is_true(a, complex_arg) : complex_fft;
  if (!given(a, complex_arg) && !complex_fft) return tc_op_fail(a, "return_complex must be given for real inputs");
  if (complex_fft && onesided) return tc_op_fail(a, "a one-sided transform needs real input and window");
  tc_gv x = tc_ex_arg(a, 0);
  if (single) x = call(a, "aten::unsqueeze", "vi", x, 0);
  if (centered) {
    tc_sv mode = mode_arg >= 0 ? tc_op_string(a, mode_arg) : (tc_sv){"reflect", 7};
    tc_int side = tc_int_const(a, f.n / 2), sides[2] = {side, side};
    x = call(a, "aten::unsqueeze", "vi", x, 0); // modes other than "constant" want it
    tc_ex_begin(a, "aten::pad");
    tc_ex_push(a, x);
    tc_ex_push_ints(a, 2, sides);
    tc_ex_push_string(a, mode);
    x = call(a, "aten::squeeze.dim", "vi", tc_ex_make(a, 1, NULL), 0);
  }
  if (tc_int_lt(a, size_of(a, x, -1), tc_int_const(a, f.n)) == 1)
    return tc_op_fail(a, "the signal is shorter than n_fft (%d): %s", f.n, tc_op_shape_text(a, 0));
  x = call(a, "aten::unfold", "viii", x, 1, f.n, f.hop);
  f.weights = weights_of(a, &f, 4, fft_real_of(t->dtype));
  if (f.weights >= 0) x = call(a, "aten::mul.Tensor", "vv", x, f.weights);
  tc_int last = tc_int_const(a, 2);
  int32_t norm = is_true(a, normalized_arg);
  x = complex_fft ? call(a, "aten::_fft_c2c", "vSib", x, 1, last, norm, 1)
                  : call(a, "aten::_fft_r2c", "vSib", x, 1, last, norm, onesided);
  x = call(a, "aten::transpose.int", "vii", x, 1, 2);
  if (single) x = call(a, "aten::squeeze.dim", "vi", x, 0);
  if (!as_complex) x = call(a, "aten::view_as_real", "v", x);
  tc_ex_result(a, 0, x);
  return TC_STATUS_OK;
}
int32_t fft_expand_stft(tc_op_args *a) { return expand_frames(a, -1, -1, 5); }
int32_t fft_expand_stft_center(tc_op_args *a) { return expand_frames(a, 5, 6, 7); }

// ---- istft ----
enum { CENTER = 5, NORMALIZED, ONESIDED, LENGTH, RETURN_COMPLEX };

int32_t fft_expand_istft(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  bool single = t->rank == 2, as_complex = is_true(a, RETURN_COMPLEX);
  frames f;
  if (!fft_is_complex(t->dtype) || t->rank < 2 || t->rank > 3)
    return tc_op_fail(a, "expects a complex tensor of two or three dimensions, got %s", tc_op_shape_text(a, 0));
  if (read_frames(a, 4, &f)) return TC_STATUS_INVALID_ARGUMENT;
  tc_int points = t->sizes[t->rank - 2], zero = tc_int_const(a, 0);
  bool full = tc_int_eq(a, points, tc_int_const(a, f.n)) == 1;
  bool onesided = given(a, ONESIDED) ? is_true(a, ONESIDED) : !full;
  tc_int expected = tc_int_const(a, onesided ? f.n / 2 + 1 : f.n);
  if (tc_int_eq(a, points, expected) == 0)
    return tc_op_fail(a, "the frequency dimension of %s does not belong to n_fft = %d", tc_op_shape_text(a, 0), f.n);
  if (as_complex && onesided) return tc_op_fail(a, "a complex result cannot be made of one side of a spectrum");
  tc_gv x = tc_ex_arg(a, 0);
  if (single) x = call(a, "aten::unsqueeze", "vi", x, 0);
  x = call(a, "aten::transpose.int", "vii", x, 1, 2);
  tc_int last = tc_int_const(a, 2);
  int32_t norm = is_true(a, NORMALIZED) ? 1 : 2;
  if (as_complex) {
    x = call(a, "aten::_fft_c2c", "vSib", x, 1, last, norm, 0);
  } else {
    if (!onesided) x = call(a, "aten::slice.Tensor", "viis", x, 2, 0, tc_int_const(a, f.n / 2 + 1));
    x = call(a, "aten::_fft_c2r", "vSii", x, 1, last, norm, f.n);
  }
  // Each point is divided by the sum of the squared weights that it was multiplied with.
  tc_dtype real = fft_real_of(t->dtype);
  f.weights = weights_of(a, &f, 4, real);
  tc_int n = tc_int_const(a, f.n);
  if (f.weights >= 0) x = call(a, "aten::mul.Tensor", "vv", x, f.weights);
  if (f.weights < 0) {
    tc_ex_begin(a, "aten::ones");
    tc_ex_push_ints(a, 1, &n);
    tc_ex_push_dtype(a, real);
    f.weights = tc_ex_make(a, 1, NULL);
  }
  tc_gv squares = call(a, "aten::mul.Tensor", "vv", f.weights, f.weights);
  squares = call(a, "aten::expand", "vS", squares, 3, tc_int_const(a, 1), size_of(a, x, 1), n);
  tc_gv y = call(a, "fft::overlap_add", "vi", x, f.hop), sums = call(a, "fft::overlap_add", "vi", squares, f.hop);
  tc_int all = size_of(a, y, 1), start = tc_int_const(a, is_true(a, CENTER) ? f.n / 2 : 0);
  tc_int end = given(a, LENGTH)     ? tc_int_add(a, start, tc_op_sym(a, LENGTH))
               : is_true(a, CENTER) ? tc_int_sub(a, all, start)
                                    : all;
  tc_int stop = tc_int_min(a, end, all);
  y = call(a, "aten::slice.Tensor", "viss", y, 1, start, stop);
  sums = call(a, "aten::slice.Tensor", "viss", sums, 1, start, stop);
  y = call(a, "aten::div.Tensor", "vv", y, sums);
  tc_int more = tc_int_sub(a, end, stop);
  if (tc_int_eq(a, more, zero) != 1) y = call(a, "aten::constant_pad_nd", "vS", y, 2, zero, more);
  if (single) y = call(a, "aten::squeeze.dim", "vi", y, 0);
  tc_ex_result(a, 0, y);
  return TC_STATUS_OK;
}

// ---- overlap_add: y[…, t] = sum over frames f of x[…, f, t - f hop] ----
int32_t fft_meta_overlap(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  int64_t hop = tc_op_int(a, 1, 0), n;
  tc_int sizes[TC_MAX_RANK];
  if (t->rank < 2) return tc_op_fail(a, "expects frames, got %s", tc_op_shape_text(a, 0));
  if (hop < 1) return tc_op_fail(a, "the step between frames must be positive");
  if (!tc_int_is_const(t->sizes[t->rank - 1], &n)) return tc_op_fail(a, "the length of the frames must be known");
  memcpy(sizes, t->sizes, sizeof *sizes * (size_t)(t->rank - 1));
  int32_t f = t->rank - 2;
  sizes[f] =
      tc_int_add(a, tc_int_mul(a, tc_int_sub(a, sizes[f], tc_int_const(a, 1)), tc_int_const(a, hop)), t->sizes[f + 1]);
  return tc_op_set_result(a, 0, t->dtype, t->rank - 1, sizes, NULL);
}

// What frame t / hop - r gives to t, or zero.
static tc_bval contribution(tc_op_args *a, tc_lt x, const tc_int *index, int32_t last, tc_int r, int64_t hop,
                            int64_t n) {
  tc_dtype dtype = tc_lo_dtype(a, x);
  tc_int at[TC_MAX_RANK], h = tc_int_const(a, hop), zero = tc_int_const(a, 0), one = tc_int_const(a, 1);
  tc_int frame = tc_int_sub(a, tc_int_floordiv(a, index[last], h), r),
         point = tc_int_add(a, tc_int_mod(a, index[last], h), tc_int_mul(a, r, h));
  tc_int most = tc_int_sub(a, tc_lo_size(a, x, last), one), end = tc_int_const(a, n - 1);
  memcpy(at, index, sizeof *at * (size_t)last);
  at[last] = tc_int_max(a, tc_int_min(a, frame, most), zero);
  at[last + 1] = tc_int_min(a, point, end);
  tc_bval f = tc_lo_index(a, frame, TC_I64), p = tc_lo_index(a, point, TC_I64), none = tc_lo_const_int(a, TC_I64, 0);
  tc_bval in = tc_lo_op2(a, TC_K_GE, f, none);
  in = tc_lo_op2(a, TC_K_AND, in, tc_lo_op2(a, TC_K_LE, f, tc_lo_index(a, most, TC_I64)));
  in = tc_lo_op2(a, TC_K_AND, in, tc_lo_op2(a, TC_K_LE, p, tc_lo_const_int(a, TC_I64, n - 1)));
  return tc_lo_op3(a, TC_K_SELECT, in, tc_lo_load(a, x, at), tc_lo_const(a, dtype, 0, 0));
}

int32_t fft_lower_overlap(tc_op_args *a) {
  enum { WRITTEN_OUT = 8 };
  const tc_tensor_type *r = tc_op_result_type(a, 0), *t = tc_op_tensor(a, 0);
  int64_t hop = tc_op_int(a, 1, 1), n = 1;
  tc_int_is_const(t->sizes[t->rank - 1], &n);
  int64_t over = (n + hop - 1) / hop;
  int32_t last = r->rank - 1;
  tc_int index[TC_MAX_RANK + 1], steps = tc_int_const(a, over);
  tc_lt x = tc_lo_arg(a, 0);
  if (over > WRITTEN_OUT) {
    tc_lo_begin_reduce(a, TC_RED_SUM, r->rank, r->sizes, 1, &steps, index);
    tc_lo_result(a, 0, tc_lo_end(a, contribution(a, x, index, last, index[r->rank], hop, n), r->dtype));
    return TC_STATUS_OK;
  }
  tc_lo_begin(a, r->rank, r->sizes, index);
  tc_dtype math = r->dtype == TC_F16 || r->dtype == TC_BF16   ? TC_F32
                  : r->dtype == TC_C32 || r->dtype == TC_BC32 ? TC_C64
                                                              : r->dtype;
  tc_bval sum = -1;
  for (int64_t k = 0; k < over; k++) {
    tc_bval v = tc_lo_cast(a, contribution(a, x, index, last, tc_int_const(a, k), hop, n), math);
    sum = k ? tc_lo_op2(a, TC_K_ADD, sum, v) : v;
  }
  tc_lo_result(a, 0, tc_lo_end(a, tc_lo_cast(a, sum, r->dtype), r->dtype));
  return TC_STATUS_OK;
}

int32_t fft_ref_overlap(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_result_data(a, 0);
  int64_t hop = tc_op_int(a, 1, 1), index[TC_MAX_RANK] = {0};
  int32_t last = x->rank - 1, parts = x->dtype == TC_C128 ? 2 : 1;
  const double *from = x->data;
  double *to = y->data;
  for (int32_t d = 0; d < x->rank; d++)
    if (x->sizes[d] == 0) return TC_STATUS_OK;
  for (bool more = true; more;) {
    int64_t p = 0, q = (index[last - 1] * hop + index[last]) * y->strides[last - 1];
    for (int32_t d = 0; d <= last; d++) p += index[d] * x->strides[d];
    for (int32_t d = 0; d < last - 1; d++) q += index[d] * y->strides[d];
    for (int32_t k = 0; k < parts; k++) to[q * parts + k] += from[p * parts + k];
    int32_t d = last;
    while (d >= 0 && ++index[d] == x->sizes[d]) index[d--] = 0;
    more = d >= 0;
  }
  return TC_STATUS_OK;
}
