// Meta functions and lowerings that several families share.
#include <math.h>

#include "core/ops/ops.h"

tc_dtype tc_op_math_type(tc_dtype d) {
  if (d == TC_F16 || d == TC_BF16) return TC_F32;
  return d == TC_C32 || d == TC_BC32 ? TC_C64 : d;
}

static tc_dtype default_float(tc_dtype d) { return tc_dtype_is_float(d) || tc_dtype_is_complex(d) ? d : TC_F32; }

static int32_t unary(tc_op_args *a, tc_dtype d) {
  const int32_t self = 0;
  return tc_op_pointwise_result(a, 0, d, 1, &self);
}
int32_t tc_meta_same(tc_op_args *a) { return unary(a, tc_op_tensor(a, 0)->dtype); }
int32_t tc_meta_float(tc_op_args *a) { return unary(a, default_float(tc_op_tensor(a, 0)->dtype)); }
int32_t tc_meta_real_part(tc_op_args *a) { return unary(a, tc_dtype_real(tc_op_tensor(a, 0)->dtype)); }

// PyTorch's clone_preserve_strides: holes are kept, but no element may lie on another.
int32_t tc_meta_same_strides(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  bool overlaps = false;
  for (int32_t d = 0; d < t->rank; d++) overlaps |= tc_sym_is_int(t->strides[d], 0) && !tc_sym_is_int(t->sizes[d], 1);
  if (overlaps) return tc_op_format_result(a, 0, t->dtype, t->rank, t->sizes, TC_FORMAT_PRESERVE, 0);
  return tc_op_set_result(a, 0, t->dtype, t->rank, t->sizes, t->strides);
}

int32_t tc_promoting_args(tc_op_args *a, int32_t out[8]) {
  int32_t n = 0;
  for (int32_t i = 0; i < a->op->schema.n_args && n < 8; i++) {
    int32_t type = a->op->schema.args[i].type;
    bool takes_part = (type == TC_ST_TENSOR || type == TC_ST_SCALAR) && tc_op_kind(a, i) != TC_AK_NONE;
    bool factor = type == TC_ST_SCALAR && tc_sv_is(a->op->schema.args[i].name, "alpha"); // alpha follows the tensors
    if (takes_part && !factor) out[n++] = i;
  }
  return n;
}

static int32_t promoted_of(tc_op_args *a, int32_t n, const int32_t *args, bool to_float, tc_dtype fixed) {
  tc_dtype d = tc_op_promote(a, n, args);
  if (d == TC_DTYPE_NONE) return TC_STATUS_INVALID_ARGUMENT;
  if (to_float) d = default_float(d);
  return tc_op_converted_result(a, 0, fixed ? fixed : d, d, n, args);
}
static int32_t promoted(tc_op_args *a, bool to_float, tc_dtype fixed) {
  int32_t args[8], n = tc_promoting_args(a, args);
  return promoted_of(a, n, args, to_float, fixed);
}
int32_t tc_meta_promote_tensors(tc_op_args *a) {
  int32_t args[8], n = 0;
  for (int32_t i = 0; i < a->op->schema.n_args && n < 8; i++)
    if (a->op->schema.args[i].type == TC_ST_TENSOR && tc_op_kind(a, i) != TC_AK_NONE) args[n++] = i;
  return promoted_of(a, n, args, false, TC_DTYPE_NONE);
}
int32_t tc_meta_promote_swapped(tc_op_args *a) {
  const int32_t args[] = {1, 0};
  return promoted_of(a, 2, args, false, TC_DTYPE_NONE);
}
int32_t tc_meta_row_major(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  return tc_op_set_result(a, 0, t->dtype, t->rank, t->sizes, NULL);
}
int32_t tc_meta_bool(tc_op_args *a) { return promoted(a, false, TC_BOOL); }
int32_t tc_meta_promote(tc_op_args *a) { return promoted(a, false, TC_DTYPE_NONE); }
int32_t tc_meta_promote_float(tc_op_args *a) { return promoted(a, true, TC_DTYPE_NONE); }

// ---- numbers ----
// The values of an integer dtype.
static void int_range(tc_dtype d, double *lo, double *hi) {
  int32_t bits = tc_dtype_size(d) * 8;
  bool is_signed = tc_dtype_class(d) == 'i';
  *lo = is_signed ? -ldexp(1, bits - 1) : 0;
  *hi = ldexp(1, is_signed ? bits - 1 : bits) - 1; // 2^63 and 2^64 for the widest, which nothing real lies behind
}
static bool real_fits(double v, tc_dtype d) { return isinf(v) || isnan(v) || fabs(v) <= tc_dtype_largest(d); }

bool tc_op_known_number(const tc_op_args *a, int32_t arg, tc_number *out) {
  return arg >= 0 && arg < a->n_args && !a->args[arg].value && tc_op_number(a, arg, out) &&
         (!out->sym || tc_sym_is_const(out->sym));
}

int32_t tc_op_number_fits(tc_op_args *a, int32_t arg, tc_dtype d) {
  tc_number v;
  if (d == TC_BOOL || !tc_op_known_number(a, arg, &v)) return TC_STATUS_OK;
  bool fits = v.im == 0 || tc_dtype_is_complex(d);
  char c = tc_dtype_class(d);
  if (c == 'f' || c == 'c') {
    fits = fits && real_fits(v.re, d) && real_fits(v.im, d);
  } else {
    double lo, hi;
    int_range(d, &lo, &hi);
    if (v.kind == TC_AK_INT && c == 'u') lo = -hi; // negative integers wrap
    fits = fits && v.re >= lo && v.re < hi + 1;
  }
  if (fits) return TC_STATUS_OK;
  return tc_op_fail(a, "the argument '" TC_SV_FMT "': value cannot be converted to type %s without overflow",
                    TC_SV_ARG(a->op->schema.args[arg].name), tc_dtype_torch_name(d));
}

int32_t tc_op_bounds_fit(tc_op_args *a, int32_t min, int32_t max, tc_dtype d) {
  double lo, hi;
  tc_number v;
  char c = tc_dtype_class(d);
  if (c != 'i' && c != 'u') return TC_STATUS_OK;
  int_range(d, &lo, &hi);
  if (tc_op_known_number(a, min, &v) && v.re > hi)
    return tc_op_fail(a, "Clamp min value %.17g is outside the representable range of %s", v.re,
                      tc_dtype_torch_name(d));
  if (tc_op_known_number(a, max, &v) && trunc(v.re) < lo)
    return tc_op_fail(a, "Clamp max value %.17g is outside the representable range of %s", v.re,
                      tc_dtype_torch_name(d));
  return TC_STATUS_OK;
}

int32_t tc_op_alpha_fits(tc_op_args *a, int32_t arg, tc_dtype d) {
  tc_number v;
  if (!tc_op_number(a, arg, &v)) return TC_STATUS_OK;
  bool real = tc_dtype_is_float(d) || tc_dtype_is_complex(d);
  if (v.kind == TC_AK_BOOL && d != TC_BOOL) return tc_op_fail(a, "Boolean alpha only supported for Boolean results.");
  if (!real && v.kind != TC_AK_INT && v.kind != TC_AK_BOOL)
    return tc_op_fail(a, "For integral input tensors, argument alpha must not be a floating point number.");
  if (v.kind == TC_AK_COMPLEX && !tc_dtype_is_complex(d))
    return tc_op_fail(a, "For non-complex input tensors, argument alpha must not be a complex number.");
  return tc_op_number_fits(a, arg, d);
}

int32_t tc_op_needs_floats(tc_op_args *a, tc_dtype d) {
  if (tc_dtype_is_float(d) || tc_dtype_is_complex(d)) return TC_STATUS_OK;
  return tc_op_fail(a, "not implemented for '%s'", tc_dtype_torch_name(d));
}
int32_t tc_meta_same_float(tc_op_args *a) {
  return tc_op_needs_floats(a, tc_op_tensor(a, 0)->dtype) ? TC_STATUS_INVALID_ARGUMENT : tc_meta_same(a);
}

// ---- reductions ----
int32_t tc_reduced_dims(tc_op_args *a, int32_t dims, int32_t rank, bool reduced[TC_MAX_RANK]) {
  int32_t n = dims < 0 ? 0 : tc_op_count(a, dims);
  for (int32_t d = 0; d < rank; d++) reduced[d] = n == 0;
  for (int32_t i = 0; i < n; i++) {
    int64_t d = tc_op_wrap_dim(a, tc_op_int_at(a, dims, i, 0), rank);
    if (d < 0) return TC_STATUS_INVALID_ARGUMENT;
    if (rank == 0) continue;
    if (reduced[d]) return tc_op_fail(a, "dim %lld appears multiple times in the list of dims", (long long)d);
    reduced[d] = true;
  }
  return TC_STATUS_OK;
}

int32_t tc_meta_reduced(tc_op_args *a, int32_t result, tc_dtype dtype, const bool *reduced, bool keepdim) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  tc_int sizes[TC_MAX_RANK];
  int32_t n = 0;
  for (int32_t d = 0; d < t->rank; d++) {
    if (!reduced[d]) sizes[n++] = t->sizes[d];
    else if (keepdim) sizes[n++] = tc_int_const(a, 1);
  }
  return tc_op_set_result(a, result, dtype, n, sizes, NULL);
}

tc_lt tc_lower_reduced(tc_op_args *a, tc_lt x, int32_t kind, const bool *reduced, bool keepdim, const char *body,
                       tc_dtype compute, tc_dtype out) {
  int32_t rank = tc_lo_rank(a, x), n_par = 0, n_red = 0, n_kept = 0;
  tc_int par[TC_MAX_RANK], red[TC_MAX_RANK], kept[TC_MAX_RANK], index[TC_MAX_RANK], at[TC_MAX_RANK];
  for (int32_t d = 0; d < rank; d++) {
    if (reduced[d]) red[n_red++] = tc_lo_size(a, x, d);
    else par[n_par++] = tc_lo_size(a, x, d);
    if (!reduced[d]) kept[n_kept++] = tc_lo_size(a, x, d);
    else if (keepdim) kept[n_kept++] = tc_int_const(a, 1);
  }
  tc_lo_begin_reduce(a, kind, n_par, par, n_red, red, index);
  for (int32_t d = 0, p = 0, r = n_par; d < rank; d++) at[d] = reduced[d] ? index[r++] : index[p++];
  tc_bval v = tc_lo_cast(a, tc_lo_load(a, x, at), compute);
  const char *name = "v";
  if (body) v = tc_lo_text(a, body, 1, &name, &v);
  tc_lt s = tc_lo_end(a, v, out);
  return keepdim ? tc_lo_reshape(a, s, n_kept, kept) : s;
}

tc_lt tc_lower_text(tc_op_args *a, const char *text, int32_t n, const char *const *names, const tc_lt *x,
                    tc_dtype compute, tc_dtype out) {
  int32_t rank = tc_lo_rank(a, x[0]);
  tc_int sizes[TC_MAX_RANK], index[TC_MAX_RANK];
  tc_lt wide[8];
  tc_bval v[8];
  for (int32_t d = 0; d < rank; d++) sizes[d] = tc_lo_size(a, x[0], d);
  for (int32_t i = 0; i < n; i++) wide[i] = tc_lo_expand(a, x[i], rank, sizes);
  tc_lo_begin(a, rank, sizes, index);
  for (int32_t i = 0; i < n; i++) v[i] = tc_lo_cast(a, tc_lo_load(a, wide[i], index), compute);
  return tc_lo_end(a, tc_lo_text(a, text, n, names, v), out);
}

tc_lt tc_lower_cast(tc_op_args *a, tc_lt x, tc_dtype to) {
  static const char *const names[] = {"x"};
  return tc_lo_dtype(a, x) == to ? x : tc_lower_text(a, "x", 1, names, &x, to, to);
}

int32_t tc_lower_args(tc_op_args *a, const char *text, int32_t n, const char *const *names, const int32_t *args,
                      tc_dtype compute) {
  const tc_tensor_type *t = tc_op_result_type(a, 0);
  tc_lt x[8];
  for (int32_t i = 0; i < n; i++) x[i] = tc_lo_expand(a, tc_lo_arg(a, args[i]), t->rank, t->sizes);
  tc_lo_result(a, 0, tc_lower_text(a, text, n, names, x, compute, t->dtype));
  return TC_STATUS_OK;
}

// ---- layouts and indices ----
// Channels fastest, then the image from its last dimension, the batch last; strides that do not tell give contiguous.
static bool like_channels_last(tc_op_args *a, const tc_tensor_type *t) {
  tc_int min = tc_int_const(a, 0), one = tc_int_const(a, 1);
  if (tc_sym_decide(a->syms, TC_SYM_EQ, t->strides[1], min, false)) return false;
  for (int32_t k = 0; k < t->rank; k++) {
    int32_t d = k == 0 ? 1 : k == t->rank - 1 ? 0 : t->rank - k;
    if (tc_sym_decide(a->syms, TC_SYM_EQ, t->sizes[d], tc_int_const(a, 0), false)) return false;
    if (tc_sym_decide(a->syms, TC_SYM_LT, t->strides[d], min, false)) return false;
    if (d == 0 && tc_sym_decide(a->syms, TC_SYM_EQ, min, t->strides[1], false)) return false;
    min = t->strides[d];
    if (tc_sym_decide(a->syms, TC_SYM_LT, one, t->sizes[d], true)) min = tc_int_mul(a, min, t->sizes[d]);
  }
  return true;
}

int32_t tc_suggested_format(tc_op_args *a, const tc_tensor_type *t) {
  if ((t->rank != 4 && t->rank != 5) || !like_channels_last(a, t)) return TC_FORMAT_CONTIGUOUS;
  return t->rank == 4 ? TC_FORMAT_CHANNELS_LAST : TC_FORMAT_CHANNELS_LAST_3D;
}

int32_t tc_suggested_row_format(tc_op_args *a, const tc_tensor_type *t) {
  tc_tensor_type image = *t;
  if (t->rank != 3) return TC_FORMAT_CONTIGUOUS;
  tc_int one = tc_int_const(a, 1), sizes[4] = {t->sizes[0], t->sizes[1], one, t->sizes[2]},
         strides[4] = {t->strides[0], t->strides[1], tc_int_mul(a, t->sizes[2], t->strides[2]), t->strides[2]};
  image.rank = 4, image.sizes = sizes, image.strides = strides;
  return tc_suggested_format(a, &image);
}

void tc_row_strides(tc_op_args *a, int32_t rank, const tc_int *sizes, tc_int *strides) {
  strides[rank - 2] = tc_int_const(a, 1), strides[rank - 1] = sizes[rank - 2];
  if (rank == 3) strides[0] = tc_int_mul(a, sizes[1], sizes[2]);
}

int64_t tc_op_dim(tc_op_args *a, int32_t arg, int32_t rank) { return tc_op_wrap_dim(a, tc_op_int(a, arg, 0), rank); }

int64_t tc_op_known(tc_op_args *a, int32_t arg, int32_t k, int64_t otherwise) {
  int64_t v;
  if (arg < 0 || k >= tc_op_count(a, arg)) return otherwise;
  if (tc_int_is_const(tc_op_sym_at(a, arg, k), &v)) return v;
  tc_op_fail(a, "argument %d has to be a known number here, not a symbol", arg);
  return otherwise;
}

int32_t tc_op_require_size(tc_op_args *a, tc_int size) {
  int64_t v;
  if (tc_int_is_const(size, &v)) return TC_STATUS_OK;
  return tc_op_require(a, tc_sym_cmp(a->syms, TC_SYM_LE, tc_int_const(a, 0), size), "size {} is negative", 1, &size);
}

tc_int tc_op_numel(tc_op_args *a, const tc_tensor_type *t) {
  tc_int n = tc_int_const(a, 1);
  for (int32_t d = 0; d < t->rank; d++) n = tc_int_mul(a, n, t->sizes[d]);
  return n;
}

int32_t tc_op_fits(tc_op_args *a, int32_t arg, int32_t rank, const tc_int *sizes) {
  const tc_tensor_type *t = tc_op_tensor(a, arg);
  bool fits = t->rank <= rank;
  for (int32_t d = 0; d < t->rank && fits; d++) {
    tc_int size = t->sizes[d];
    fits = tc_int_eq(a, size, tc_int_const(a, 1)) == 1 || !tc_int_require_eq(a, size, sizes[d + rank - t->rank]);
  }
  if (fits) return TC_STATUS_OK;
  tc_tensor_type to = {.dtype = t->dtype, .rank = rank, .sizes = sizes};
  tc_sb sb = tc_sb_make(a->arena);
  tc_type_print(&sb, &to);
  return tc_op_fail(a, "the argument '" TC_SV_FMT "', %s, does not broadcast to %s",
                    TC_SV_ARG(a->op->schema.args[arg].name), tc_op_shape_text(a, arg), sb.text);
}

tc_int tc_int_within(tc_op_args *a, tc_int e, tc_int lo, tc_int hi) {
  tc_int above = tc_sym_cmp(a->syms, TC_SYM_LE, lo, e), below = tc_sym_cmp(a->syms, TC_SYM_LT, e, hi),
         yes = tc_int_const(a, 1);
  if (tc_sym_prove(a->syms, above) == 1) above = NULL;
  if (tc_sym_prove(a->syms, below) == 1) below = NULL;
  return above && below ? tc_sym_and(a->syms, above, below) : above ? above : below ? below : yes;
}

tc_bval tc_lower_condition(tc_op_args *a, tc_int condition) {
  return tc_lo_cast(a, tc_lo_index(a, tc_sym_where(a->syms, condition, tc_int_const(a, 1), tc_int_const(a, 0)), TC_I64),
                    TC_BOOL);
}

tc_lt tc_lower_moved(tc_op_args *a, tc_lt x, int64_t from, int64_t to) {
  int32_t rank = tc_lo_rank(a, x);
  tc_int sizes[TC_MAX_RANK], index[TC_MAX_RANK], map[TC_MAX_RANK];
  int64_t old[TC_MAX_RANK]; // by new dimension
  for (int32_t d = 0, k = 0; d < rank; d++) {
    if (d == to) {
      old[d] = from;
      continue;
    }
    if (k == from) k++;
    old[d] = k++;
  }
  for (int32_t d = 0; d < rank; d++) sizes[d] = tc_lo_size(a, x, (int32_t)old[d]);
  tc_lo_indices(a, rank, sizes, index);
  for (int32_t d = 0; d < rank; d++) map[old[d]] = index[d];
  return tc_lo_view(a, x, rank, sizes, index, map);
}
