// The ops. `_fft_c2c` is what is lowered: one stage per transformed dimension, seen through permuted views, so that
// each stage has its dimension last. The `fft_*` functions of torch.fft are made of it, of slices and of pads.
#include <string.h>

#include "fft.h"

enum { SELF, DIMS, NORM, FORWARD }; // arguments of _fft_c2c

// ---- _fft_c2c ----
typedef struct dims {
  int32_t rank, n;
  int32_t list[TC_MAX_RANK];  // transformed, in order of falling strides, as PyTorch does them
  int32_t order[TC_MAX_RANK]; // all: the others by falling strides, then these
  bool on[TC_MAX_RANK];
} dims;

static bool larger_stride(tc_op_args *a, const tc_tensor_type *t, int32_t x, int32_t y) {
  int32_t known = tc_int_lt(a, t->strides[y], t->strides[x]);
  return known >= 0 ? known == 1 : tc_int_hint(a, t->strides[x], 1) > tc_int_hint(a, t->strides[y], 1);
}

static void by_strides(tc_op_args *a, const tc_tensor_type *t, int32_t n, int32_t *d) { // stable, falling
  for (int32_t i = 1; i < n; i++)
    for (int32_t k = i; k > 0 && larger_stride(a, t, d[k], d[k - 1]); k--) {
      int32_t x = d[k];
      d[k] = d[k - 1], d[k - 1] = x;
    }
}

static int32_t read_dims(tc_op_args *a, dims *out) {
  const tc_tensor_type *t = tc_op_tensor(a, SELF);
  *out = (dims){.rank = t->rank, .n = tc_op_count(a, DIMS)};
  if (out->n > t->rank)
    return tc_op_fail(a, "%d dimensions are to be transformed, the input is %s", out->n, tc_op_shape_text(a, SELF));
  for (int32_t i = 0; i < out->n; i++) {
    int64_t d = tc_op_wrap_dim(a, tc_op_int_at(a, DIMS, i, 0), t->rank);
    if (d < 0) return TC_STATUS_INVALID_ARGUMENT;
    if (out->on[d]) return tc_op_fail(a, "dimension %lld appears twice in dim", (long long)d);
    out->on[d] = true;
    out->list[i] = (int32_t)d;
  }
  by_strides(a, t, out->n, out->list);
  int32_t others = 0;
  for (int32_t d = 0; d < t->rank; d++)
    if (!out->on[d]) out->order[others++] = d;
  by_strides(a, t, others, out->order);
  for (int32_t i = 0; i < out->n; i++) out->order[others + i] = out->list[i];
  return TC_STATUS_OK;
}

static bool is_complex(tc_dtype d) { return d == TC_C32 || d == TC_BC32 || d == TC_C64 || d == TC_C128; }

static int32_t meta_c2c(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, SELF);
  dims d;
  if (!is_complex(t->dtype)) return tc_op_fail(a, "expects a complex tensor, got %s", tc_op_shape_text(a, SELF));
  int64_t norm = tc_op_int(a, NORM, 0);
  if (norm < 0 || norm > 2) return tc_op_fail(a, "unknown normalization %lld", (long long)norm);
  if (read_dims(a, &d)) return TC_STATUS_INVALID_ARGUMENT;
  if (d.n == 0) return tc_op_set_result(a, 0, t->dtype, t->rank, t->sizes, t->strides);
  for (int32_t i = 0; i < d.n; i++)
    if (tc_int_eq(a, t->sizes[d.list[i]], tc_int_const(a, 0)) == 1)
      return tc_op_fail(a, "the transformed dimension %d is empty", d.list[i]);
  tc_int strides[TC_MAX_RANK], step = tc_int_const(a, 1);
  for (int32_t i = t->rank - 1; i >= 0; i--) {
    strides[d.order[i]] = step;
    step = tc_int_mul(a, step, t->sizes[d.order[i]]);
  }
  return tc_op_set_result(a, 0, t->dtype, t->rank, t->sizes, strides);
}

// x with the dimensions `order[0], order[1], …`, or back.
static tc_lt permuted(tc_op_args *a, tc_lt x, int32_t rank, const int32_t *order, bool back) {
  tc_int sizes[TC_MAX_RANK] = {0}, index[TC_MAX_RANK], map[TC_MAX_RANK];
  for (int32_t i = 0; i < rank; i++) sizes[back ? order[i] : i] = tc_lo_size(a, x, back ? i : order[i]);
  tc_lo_indices(a, rank, sizes, index);
  for (int32_t i = 0; i < rank; i++) map[back ? i : order[i]] = index[back ? order[i] : i];
  return tc_lo_view(a, x, rank, sizes, index, map);
}

static int32_t lower_c2c(tc_op_args *a) {
  dims d;
  if (read_dims(a, &d)) return TC_STATUS_INVALID_ARGUMENT;
  tc_lt x = tc_lo_arg(a, SELF);
  tc_dtype dtype = tc_op_result_type(a, 0)->dtype;
  tc_int attrs[FFT_ATTRS] = {tc_int_const(a, tc_op_bool(a, FORWARD, 1)), tc_int_const(a, tc_op_int(a, NORM, 0))};
  for (int32_t i = d.n - 1; i >= 0; i--) {
    int32_t order[TC_MAX_RANK], n = 0;
    for (int32_t k = 0; k < d.rank; k++)
      if (k != d.list[i]) order[n++] = k;
    order[n++] = d.list[i];
    bool moved = d.list[i] != d.rank - 1;
    if (moved) x = permuted(a, x, d.rank, order, false);
    tc_int sizes[TC_MAX_RANK];
    for (int32_t k = 0; k < d.rank; k++) sizes[k] = tc_lo_size(a, x, k);
    x = tc_lo_template(a, "fft", 1, &x, dtype, d.rank, sizes, FFT_ATTRS, attrs);
    if (moved) x = permuted(a, x, d.rank, order, true);
  }
  tc_lo_result(a, 0, x);
  return TC_STATUS_OK;
}

// ---- torch.fft ----
static bool text_is(tc_sv s, const char *t) { return s.size == strlen(t) && memcmp(s.data, t, s.size) == 0; }

static int32_t norm_of(tc_op_args *a, int32_t arg, bool forward, int64_t *out) {
  tc_sv s = tc_op_string(a, arg);
  if (s.size == 0 || text_is(s, "backward")) *out = forward ? 0 : 2;
  else if (text_is(s, "forward")) *out = forward ? 2 : 0;
  else if (text_is(s, "ortho")) *out = 1;
  else return tc_op_fail(a, "norm is \"%.*s\"; it can be \"backward\", \"forward\" or \"ortho\"", (int)s.size, s.data);
  return TC_STATUS_OK;
}

static tc_dtype complex_of(tc_dtype d) {
  return is_complex(d) ? d : d == TC_F64 ? TC_C128 : d == TC_F16 ? TC_C32 : TC_C64;
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
    return tc_ex_make(a, 0, NULL);
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
    return tc_ex_make(a, 0, NULL);
  }
  tc_op_fail(a, "it is not known whether the length of the transform is more or less than the dimension's size");
  return -1;
}

static tc_gv to_complex(tc_op_args *a, tc_gv x) {
  const tc_tensor_type *t = tc_ex_type(a, x);
  if (!t || is_complex(t->dtype)) return x;
  tc_ex_begin(a, "aten::_to_copy");
  tc_ex_push(a, x);
  tc_ex_push_dtype(a, complex_of(t->dtype));
  return tc_ex_make(a, 0, NULL);
}

static int32_t finish(tc_op_args *a, tc_gv x, int32_t n, const tc_int *list, int64_t norm, bool forward) {
  x = to_complex(a, x);
  tc_ex_begin(a, "aten::_fft_c2c");
  tc_ex_push(a, x);
  tc_ex_push_ints(a, n, list);
  tc_ex_push_int(a, tc_int_const(a, norm));
  tc_ex_push_bool(a, forward);
  tc_ex_result(a, 0, tc_ex_make(a, 0, NULL));
  return TC_STATUS_OK;
}

// fft_fft(self, n=None, dim=-1, norm=None)
static int32_t expand_one(tc_op_args *a, bool forward) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  int64_t norm;
  if (t->rank == 0) return tc_op_fail(a, "a tensor without dimensions has no transform");
  int64_t dim = tc_op_wrap_dim(a, tc_op_int(a, 2, -1), t->rank);
  if (dim < 0 || norm_of(a, 3, forward, &norm)) return TC_STATUS_INVALID_ARGUMENT;
  tc_gv x = tc_ex_arg(a, 0);
  if (tc_op_kind(a, 1) != TC_AK_NONE) x = resized(a, x, (int32_t)dim, tc_op_sym(a, 1));
  tc_int list = tc_int_const(a, dim);
  return finish(a, x, 1, &list, norm, forward);
}
static int32_t expand_fft(tc_op_args *a) { return expand_one(a, true); }
static int32_t expand_ifft(tc_op_args *a) { return expand_one(a, false); }

// fft_fftn(self, s=None, dim=None, norm=None); fft_fft2 is the same with dim = [-2, -1].
static int32_t expand_many(tc_op_args *a, bool forward) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  bool has_s = tc_op_kind(a, 1) != TC_AK_NONE, has_dim = tc_op_kind(a, 2) != TC_AK_NONE;
  int32_t n = has_dim ? tc_op_count(a, 2) : has_s ? tc_op_count(a, 1) : t->rank;
  int64_t norm;
  tc_int list[TC_MAX_RANK];
  if (norm_of(a, 3, forward, &norm)) return TC_STATUS_INVALID_ARGUMENT;
  if (n > t->rank)
    return tc_op_fail(a, "%d dimensions are to be transformed, the input is %s", n, tc_op_shape_text(a, 0));
  if (has_s && tc_op_count(a, 1) != n)
    return tc_op_fail(a, "s has %d sizes, dim has %d dimensions", tc_op_count(a, 1), n);
  tc_gv x = tc_ex_arg(a, 0);
  for (int32_t i = 0; i < n; i++) {
    int64_t d = tc_op_wrap_dim(a, has_dim ? tc_op_int_at(a, 2, i, 0) : t->rank - n + i, t->rank);
    if (d < 0) return TC_STATUS_INVALID_ARGUMENT;
    list[i] = tc_int_const(a, d);
    if (has_s && tc_int_eq(a, tc_op_sym_at(a, 1, i), tc_int_const(a, -1)) != 1)
      x = resized(a, x, (int32_t)d, tc_op_sym_at(a, 1, i));
  }
  return finish(a, x, n, list, norm, forward);
}
static int32_t expand_fftn(tc_op_args *a) { return expand_many(a, true); }
static int32_t expand_ifftn(tc_op_args *a) { return expand_many(a, false); }

#define ROW(text) .struct_size = sizeof(tc_op_def), .schema = "aten::" text, .traits = TC_OP_COMPLEX
const tc_op_def fft_ops[] = {
    {ROW("_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor"), .meta = meta_c2c,
     .lower = lower_c2c, .ref = fft_ref_c2c, .grad = "self: _fft_c2c(grad, dim, normalization, !forward)",
     .flops = "5 * numel * log2(numel)"},
    {ROW("fft_fft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor"), .expand = expand_fft},
    {ROW("fft_ifft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor"), .expand = expand_ifft},
    {ROW("fft_fft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2,-1], str? norm=None) -> Tensor"),
     .expand = expand_fftn},
    {ROW("fft_ifft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2,-1], str? norm=None) -> Tensor"),
     .expand = expand_ifftn},
    {ROW("fft_fftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor"),
     .expand = expand_fftn},
    {ROW("fft_ifftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor"),
     .expand = expand_ifftn},
};
const int32_t fft_op_count = sizeof fft_ops / sizeof *fft_ops;
