// Reductions. Sums of 16-bit floats and f32 accumulate in f32 or wider; integers sum in i64 (PyTorch's rule).
#include <math.h>

#include "core/ops/ops.h"

// The kinds of reduction that share everything but the combination.
typedef struct reduction {
  int32_t kind;     // TC_RED_*
  const char *body; // scalar text of an element `v`, or NULL
  bool mean, to_bool, ints_to_i64;
} reduction;

static reduction reduction_of(tc_op_args *a) {
  static const struct {
    const char *name;
    reduction r;
  } all[] = {
      {"sum", {TC_RED_SUM, NULL, false, false, true}},      {"mean", {TC_RED_SUM, NULL, true, false, false}},
      {"prod", {TC_RED_PROD, NULL, false, false, true}},    {"amax", {TC_RED_MAX, NULL, false, false, false}},
      {"amin", {TC_RED_MIN, NULL, false, false, false}},    {"max", {TC_RED_MAX, NULL, false, false, false}},
      {"min", {TC_RED_MIN, NULL, false, false, false}},     {"any", {TC_RED_ANY, "bool(v)", false, true, false}},
      {"all", {TC_RED_ALL, "bool(v)", false, true, false}},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    if (tc_sv_is(a->op->schema.name, all[i].name)) return all[i].r;
  }
  return (reduction){0};
}

static tc_dtype result_dtype(tc_op_args *a, const reduction *r) {
  tc_dtype d = tc_op_tensor(a, 0)->dtype;
  int32_t arg = tc_op_arg_index(a, "dtype");
  bool integer = !tc_dtype_is_float(d) && !tc_dtype_is_complex(d);
  if (r->to_bool) return d == TC_U8 ? TC_U8 : TC_BOOL;
  if (arg >= 0 && tc_op_kind(a, arg) == TC_AK_DTYPE) return tc_op_dtype(a, arg, d);
  return r->ints_to_i64 && integer ? TC_I64 : d;
}

// any and all take an empty list at its word; for the others it means all dimensions.
static bool reduces_nothing(tc_op_args *a) {
  return tc_sv_is(a->op->schema.overload, "dims") && tc_op_kind(a, 1) != TC_AK_NONE && tc_op_count(a, 1) == 0;
}
static int32_t dims_and_keep(tc_op_args *a, int32_t rank, bool *reduced, bool *keep) {
  int32_t keepdim = tc_op_arg_index(a, "keepdim");
  *keep = keepdim >= 0 && tc_op_bool(a, keepdim, 0);
  if (reduces_nothing(a)) {
    for (int32_t d = 0; d < rank; d++) reduced[d] = false;
    return TC_STATUS_OK;
  }
  return tc_reduced_dims(a, tc_op_arg_index(a, "dim"), rank, reduced);
}

static int32_t reduce_meta(tc_op_args *a) {
  bool reduced[TC_MAX_RANK], keep;
  reduction r = reduction_of(a);
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  if (dims_and_keep(a, t->rank, reduced, &keep)) return TC_STATUS_INVALID_ARGUMENT;
  tc_dtype d = result_dtype(a, &r);
  if (r.mean && !tc_dtype_is_float(d) && !tc_dtype_is_complex(d))
    return tc_op_fail(
        a,
        "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: %s",
        tc_dtype_torch_name(d));
  if ((r.kind == TC_RED_MAX || r.kind == TC_RED_MIN) && tc_dtype_is_complex(d))
    return tc_op_fail(a, "max and min are not defined on complex numbers");
  return tc_meta_reduced(a, 0, d, reduced, keep);
}

static tc_int reduced_count(tc_op_args *a, tc_lt x, const bool *reduced) {
  tc_int n = tc_int_const(a, 1);
  for (int32_t d = 0; d < tc_lo_rank(a, x); d++) {
    if (reduced[d]) n = tc_int_mul(a, n, tc_lo_size(a, x, d));
  }
  return n;
}

tc_reduction_cut tc_cut_reduction(tc_op_args *a, tc_lt x, const bool *reduced) {
  enum { LONG_ROW = 1 << 18, ROW = 1 << 13, LONG_COLUMN = 1 << 8, COLUMN = 1 << 5, LARGE = 1 << 19 };
  int32_t rank = tc_lo_rank(a, x);
  int64_t sizes[TC_MAX_RANK], count = 1, all = 1, inner = 1;
  tc_reduction_cut c = {.dim = -1};
  for (int32_t d = 0; d < rank; d++) {
    if (!tc_int_is_const(tc_lo_size(a, x, d), &sizes[d])) return c;
    all *= sizes[d], count *= reduced[d] ? sizes[d] : 1;
  }
  bool row = rank > 0 && reduced[rank - 1]; // else columns, whose elements lie far apart
  int64_t most = row ? ROW : COLUMN;
  if (rank == TC_MAX_RANK || all < LARGE || count < (row ? LONG_ROW : LONG_COLUMN)) return c;
  int32_t d = rank - 1;
  for (; d > 0 && (!reduced[d] || inner * sizes[d] <= most); d--) inner *= reduced[d] ? sizes[d] : 1;
  if (!reduced[d] || inner > most) return c;
  int64_t part = most / inner;
  while (part > 1 && sizes[d] % part) part--;
  if (part * inner * 8 < most || part == sizes[d]) return c;
  return (tc_reduction_cut){d, sizes[d] / part, part, part * inner};
}

tc_lt tc_cut_view(tc_op_args *a, tc_lt x, const bool *reduced, const tc_reduction_cut *c, bool *inside, bool *all) {
  tc_int sizes[TC_MAX_RANK];
  int32_t rank = tc_lo_rank(a, x) + 1;
  for (int32_t k = 0; k < rank; k++) {
    int32_t from = k > c->dim ? k - 1 : k;
    sizes[k] = tc_lo_size(a, x, from);
    inside[k] = k > c->dim && reduced[from];
    all[k] = reduced[from];
  }
  sizes[c->dim] = tc_int_const(a, c->parts), sizes[c->dim + 1] = tc_int_const(a, c->part);
  return tc_lo_reshape(a, x, rank, sizes);
}

static int32_t reduce_lower(tc_op_args *a) {
  bool reduced[TC_MAX_RANK], keep;
  reduction r = reduction_of(a);
  tc_lt x = tc_lo_arg(a, 0);
  if (dims_and_keep(a, tc_lo_rank(a, x), reduced, &keep)) return TC_STATUS_INVALID_ARGUMENT;
  tc_dtype out = tc_op_result_type(a, 0)->dtype, compute = r.to_bool ? tc_lo_dtype(a, x) : tc_op_math_type(out);
  tc_dtype acc = r.to_bool ? TC_BOOL : r.mean ? compute : out;
  tc_lt s = tc_lower_reduced(a, x, r.kind, reduced, keep, r.body, compute, acc);
  if (r.mean || acc != out) { // mean: divide once, in the accumulator's type
    const tc_tensor_type *t = tc_op_result_type(a, 0);
    tc_int index[TC_MAX_RANK];
    tc_lo_begin(a, t->rank, t->sizes, index);
    tc_bval v = tc_lo_load(a, s, index);
    if (r.mean) v = tc_lo_op2(a, TC_K_DIV, v, tc_lo_index(a, reduced_count(a, x, reduced), compute));
    s = tc_lo_end(a, v, out);
  }
  tc_lo_result(a, 0, s);
  return TC_STATUS_OK;
}

// ---- references: one pass over the input, each element into its result's place ----
typedef struct place {
  int64_t strides[TC_MAX_RANK]; // of the result, by input dimension; 0 where reduced
  int64_t count;                // elements per result
} place;
static place place_of(const tc_ref_view *x, const tc_ref_view *y, const bool *reduced, bool keep) {
  place p = {.count = 1};
  for (int32_t d = 0, k = 0; d < x->rank; d++) {
    if (reduced[d]) {
      p.count *= x->sizes[d];
      k += keep;
    } else {
      p.strides[d] = y->strides[k++];
    }
  }
  return p;
}

static bool better(const tc_ref_view *x, int64_t at, int64_t best, bool highest) {
  if (x->dtype == TC_I64) return highest ? tc_ref_i(x, at) > tc_ref_i(x, best) : tc_ref_i(x, at) < tc_ref_i(x, best);
  double v = tc_ref_f(x, at), b = tc_ref_f(x, best);
  if (isnan(b)) return false;
  return isnan(v) || (highest ? v > b : v < b);
}

static void combine(const tc_ref_view *y, int64_t to, int32_t kind, tc_c128 v, int64_t i) {
  tc_c128 r = tc_ref_c(y, to);
  bool truth = v.re != 0 || v.im != 0 || i != 0;
  switch (kind) {
  case TC_RED_SUM:
    if (y->dtype == TC_I64) tc_ref_put_i(y, to, (int64_t)((uint64_t)tc_ref_i(y, to) + (uint64_t)i));
    else tc_ref_put(y, to, (tc_c128){r.re + v.re, r.im + v.im});
    break;
  case TC_RED_PROD:
    if (y->dtype == TC_I64) tc_ref_put_i(y, to, (int64_t)((uint64_t)tc_ref_i(y, to) * (uint64_t)i));
    else tc_ref_put(y, to, (tc_c128){r.re * v.re - r.im * v.im, r.re * v.im + r.im * v.re});
    break;
  case TC_RED_ANY:
    if (truth) tc_ref_put_i(y, to, 1);
    break;
  case TC_RED_ALL:
    if (!truth) tc_ref_put_i(y, to, 0);
    break;
  default: break;
  }
}

static int32_t reduce_ref(tc_op_args *a) {
  bool reduced[TC_MAX_RANK], keep;
  reduction r = reduction_of(a);
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_result_data(a, 0);
  if (dims_and_keep(a, x->rank, reduced, &keep)) return TC_STATUS_INVALID_ARGUMENT;
  place p = place_of(x, y, reduced, keep);
  int64_t n = tc_ref_numel(x), index[TC_MAX_RANK] = {0};
  if (y->nominal == TC_BOOL && r.kind == TC_RED_SUM) r.kind = TC_RED_ANY; // elements become truth values first
  if (y->nominal == TC_BOOL && r.kind == TC_RED_PROD) r.kind = TC_RED_ALL;
  bool extreme = r.kind == TC_RED_MAX || r.kind == TC_RED_MIN;
  if (extreme && n == 0 && tc_ref_numel(y) > 0) return tc_op_fail(a, "an extreme of no elements");
  for (int64_t i = 0; i < tc_ref_numel(y) && (r.kind == TC_RED_PROD || r.kind == TC_RED_ALL); i++)
    y->dtype == TC_I64 ? tc_ref_put_i(y, i, 1) : tc_ref_put(y, i, (tc_c128){1, 0});
  int64_t *best = extreme ? tc_op_scratch(a, (uint64_t)tc_ref_numel(y) * sizeof *best) : NULL;
  if (extreme && !best) return TC_STATUS_OUT_OF_MEMORY;
  for (int64_t i = 0; extreme && i < tc_ref_numel(y); i++) best[i] = -1;
  for (bool more = n > 0; more; more = tc_ref_next(x->rank, x->sizes, index)) {
    int64_t at = tc_ref_offset(x, index), to = 0;
    for (int32_t d = 0; d < x->rank; d++) to += index[d] * p.strides[d];
    if (extreme) {
      if (best[to] < 0 || better(x, at, best[to], r.kind == TC_RED_MAX)) best[to] = at;
    } else {
      combine(y, to, r.kind, tc_ref_c(x, at), x->dtype == TC_I64 ? tc_ref_i(x, at) : (int64_t)tc_ref_f(x, at));
    }
  }
  for (int64_t i = 0; i < tc_ref_numel(y); i++) {
    if (extreme) tc_ref_copy(y, i, x, best[i]);
    tc_c128 v = tc_ref_c(y, i);
    if (r.mean) tc_ref_put(y, i, (tc_c128){v.re / (double)p.count, v.im / (double)p.count});
  }
  return TC_STATUS_OK;
}

// ---- variance: two passes, mean then squared differences; long ones in parts that stay in the cache in between ----
static int32_t var_meta(tc_op_args *a) {
  bool reduced[TC_MAX_RANK], keep;
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  if (!tc_dtype_is_float(t->dtype) && !tc_dtype_is_complex(t->dtype))
    return tc_op_fail(a, "std and var only support floating point and complex dtypes");
  if (dims_and_keep(a, t->rank, reduced, &keep)) return TC_STATUS_INVALID_ARGUMENT;
  return tc_meta_reduced(a, 0, tc_dtype_real(t->dtype), reduced, keep);
}
static double correction_of(tc_op_args *a) {
  int32_t c = tc_op_arg_index(a, "correction"), u = tc_op_arg_index(a, "unbiased");
  if (c >= 0) return tc_op_float(a, c, 1);
  return u >= 0 ? tc_op_bool(a, u, 1) : 1;
}

static tc_bval squared(tc_op_args *a, tc_bval v, tc_dtype d) {
  return tc_dtype_is_complex(d) ? tc_lo_op1(a, TC_K_ABS2, v) : tc_lo_op2(a, TC_K_MUL, v, v);
}

// x - sum / n in type `d`. The sum's reduced dimensions are ones.
static tc_lt centred(tc_op_args *a, tc_lt x, tc_lt sum, tc_int n, tc_dtype d) {
  tc_int sizes[TC_MAX_RANK], index[TC_MAX_RANK];
  int32_t rank = tc_lo_rank(a, x);
  for (int32_t k = 0; k < rank; k++) sizes[k] = tc_lo_size(a, x, k);
  tc_lt all = tc_lo_expand(a, sum, rank, sizes);
  tc_lo_begin(a, rank, sizes, index);
  tc_bval mean = tc_lo_op2(a, TC_K_DIV, tc_lo_load(a, all, index), tc_lo_index(a, n, d));
  return tc_lo_end(a, tc_lo_op2(a, TC_K_SUB, tc_lo_cast(a, tc_lo_load(a, x, index), d), mean), d);
}

static tc_lt sum_of_squares(tc_op_args *a, tc_lt x, const bool *reduced, bool keep, tc_dtype d) {
  tc_int sizes[TC_MAX_RANK], index[TC_MAX_RANK];
  int32_t rank = tc_lo_rank(a, x);
  tc_dtype real = tc_dtype_real(d);
  for (int32_t k = 0; k < rank; k++) sizes[k] = tc_lo_size(a, x, k);
  tc_lo_begin(a, rank, sizes, index);
  tc_lt squares = tc_lo_end(a, squared(a, tc_lo_load(a, x, index), d), real);
  return tc_lower_reduced(a, squares, TC_RED_SUM, reduced, keep, NULL, real, real);
}

// The sum of |x - mean|² in parts: a part's squares lie around its own mean m, the parts' means around that of all, M
// (Chan, Golub and LeVeque, 1983). As m is rounded, a rest r of the part's sum is left, and n |m - M|² becomes
// n (|m - M + r / n|² - |r / n|²): else the error would be that of the means and not of their difference.
static tc_lt squares_by_parts(tc_op_args *a, tc_lt x, const bool *reduced, const tc_reduction_cut *c, tc_int n,
                              tc_dtype d) {
  tc_int sizes[TC_MAX_RANK], index[TC_MAX_RANK], count = tc_int_const(a, c->count);
  bool inside[TC_MAX_RANK], outside[TC_MAX_RANK];
  tc_dtype real = tc_dtype_real(d);
  x = tc_cut_view(a, x, reduced, c, inside, outside);
  int32_t rank = tc_lo_rank(a, x);
  tc_lt sums = tc_lower_reduced(a, x, TC_RED_SUM, inside, true, NULL, d, d), apart = centred(a, x, sums, count, d);
  tc_lt squares = sum_of_squares(a, apart, inside, true, d);
  tc_lt rests = tc_lower_reduced(a, apart, TC_RED_SUM, inside, true, NULL, d, d);
  for (int32_t k = 0; k < rank; k++) sizes[k] = tc_lo_size(a, sums, k);
  tc_lt total = tc_lo_expand(a, tc_lower_reduced(a, sums, TC_RED_SUM, outside, true, NULL, d, d), rank, sizes);
  tc_lo_begin(a, rank, sizes, index);
  tc_bval many = tc_lo_index(a, count, d), own = tc_lo_op2(a, TC_K_DIV, tc_lo_load(a, sums, index), many);
  tc_bval mean = tc_lo_op2(a, TC_K_DIV, tc_lo_load(a, total, index), tc_lo_index(a, n, d));
  tc_bval rest = tc_lo_op2(a, TC_K_DIV, tc_lo_load(a, rests, index), many);
  tc_bval far = tc_lo_op2(a, TC_K_ADD, tc_lo_op2(a, TC_K_SUB, own, mean), rest);
  tc_bval more = tc_lo_op2(a, TC_K_SUB, squared(a, far, d), squared(a, rest, d));
  more = tc_lo_op2(a, TC_K_MUL, more, tc_lo_index(a, count, real));
  tc_lt both = tc_lo_end(a, tc_lo_op2(a, TC_K_ADD, tc_lo_load(a, squares, index), more), real);
  return tc_lower_reduced(a, both, TC_RED_SUM, outside, false, NULL, real, real);
}

static int32_t var_lower(tc_op_args *a) {
  bool reduced[TC_MAX_RANK], keep;
  tc_lt x = tc_lo_arg(a, 0);
  int32_t rank = tc_lo_rank(a, x);
  if (dims_and_keep(a, rank, reduced, &keep)) return TC_STATUS_INVALID_ARGUMENT;
  tc_dtype out = tc_op_result_type(a, 0)->dtype, in = tc_op_math_type(tc_lo_dtype(a, x)), compute = tc_dtype_real(in);
  tc_int index[TC_MAX_RANK], n = reduced_count(a, x, reduced);
  tc_reduction_cut c = tc_cut_reduction(a, x, reduced);
  tc_lt m2;
  if (c.dim < 0) {
    tc_lt sum = tc_lower_reduced(a, x, TC_RED_SUM, reduced, true, NULL, in, in);
    m2 = sum_of_squares(a, centred(a, x, sum, n, in), reduced, keep, in);
  } else {
    m2 = squares_by_parts(a, x, reduced, &c, n, in);
  }
  const tc_tensor_type *t = tc_op_result_type(a, 0);
  bool root = tc_sv_is(a->op->schema.name, "std");
  m2 = tc_lo_reshape(a, m2, t->rank, t->sizes);
  tc_lo_begin(a, t->rank, t->sizes, index);
  tc_bval count = tc_lo_op2(a, TC_K_SUB, tc_lo_index(a, n, compute), tc_lo_const(a, compute, correction_of(a), 0));
  tc_bval v =
      tc_lo_op2(a, TC_K_DIV, tc_lo_load(a, m2, index), tc_lo_op2(a, TC_K_MAX, count, tc_lo_const(a, compute, 0, 0)));
  tc_lo_result(a, 0, tc_lo_end(a, root ? tc_lo_op1(a, TC_K_SQRT, v) : v, out));
  return TC_STATUS_OK;
}
// Sums of equal numbers are rounded the same way again and again, which a wider type keeps out of the result.
typedef struct wide_sums {
  long double re, im, squares;
} wide_sums;

static int32_t var_ref(tc_op_args *a) {
  bool reduced[TC_MAX_RANK], keep;
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_result_data(a, 0);
  if (dims_and_keep(a, x->rank, reduced, &keep)) return TC_STATUS_INVALID_ARGUMENT;
  place p = place_of(x, y, reduced, keep);
  int64_t n = tc_ref_numel(y), index[TC_MAX_RANK] = {0};
  wide_sums *sums = tc_op_scratch(a, (uint64_t)(n > 0 ? n : 1) * sizeof *sums);
  if (!sums) return TC_STATUS_OUT_OF_MEMORY;
  for (int64_t i = 0; i < n; i++) sums[i] = (wide_sums){0, 0, 0};
  for (int32_t pass = 0; pass < 2; pass++) {
    for (int32_t d = 0; d < x->rank; d++) index[d] = 0;
    for (bool more = tc_ref_numel(x) > 0; more; more = tc_ref_next(x->rank, x->sizes, index)) {
      int64_t to = 0;
      for (int32_t d = 0; d < x->rank; d++) to += index[d] * p.strides[d];
      tc_c128 v = tc_ref_c(x, tc_ref_offset(x, index));
      wide_sums *s = &sums[to];
      if (pass == 0) {
        s->re += v.re, s->im += v.im;
      } else {
        long double re = v.re - s->re / (long double)p.count, im = v.im - s->im / (long double)p.count;
        s->squares += re * re + im * im;
      }
    }
  }
  double count = (double)p.count - correction_of(a);
  bool root = tc_sv_is(a->op->schema.name, "std");
  for (int64_t i = 0; i < n; i++) {
    double v = (double)(sums[i].squares / (count > 0 ? count : 0));
    tc_ref_put(y, i, (tc_c128){root ? sqrt(v) : v, 0});
  }
  return TC_STATUS_OK;
}

enum { RED = TC_OP_REDUCTION, REDC = TC_OP_REDUCTION | TC_OP_COMPLEX };
#define ROW(s, t) \
  {.schema = s, .traits = t, .meta = reduce_meta, .lower = reduce_lower, .ref = reduce_ref, .flops = "self.numel"}
#define DIMS(s)                                                                                                     \
  {.schema = s,                                                                                                     \
   .traits = REDC | TC_OP_MAY_EXPAND,                                                                               \
   .meta = reduce_meta,                                                                                             \
   .decompose = "if(is_none(dim), none, if(len(dim) == 0, to(ne(self, 0), if(self.dtype == u8, u8, bool)), none))", \
   .lower = reduce_lower,                                                                                           \
   .ref = reduce_ref,                                                                                               \
   .flops = "self.numel"}
#define VAR(s) \
  {.schema = s, .traits = REDC, .meta = var_meta, .lower = var_lower, .ref = var_ref, .flops = "4 * self.numel"}
static const tc_op_def rows[] = {
    ROW("sum(Tensor self, *, ScalarType? dtype=None) -> Tensor", REDC),
    ROW("sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", REDC),
    ROW("mean(Tensor self, *, ScalarType? dtype=None) -> Tensor", REDC),
    ROW("mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", REDC),
    ROW("prod(Tensor self, *, ScalarType? dtype=None) -> Tensor", REDC),
    ROW("prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", REDC),
    ROW("amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", RED),
    ROW("amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", RED),
    ROW("max(Tensor self) -> Tensor", RED),
    ROW("min(Tensor self) -> Tensor", RED),
    ROW("any(Tensor self) -> Tensor", REDC),
    ROW("any.dim(Tensor self, int dim, bool keepdim=False) -> Tensor", REDC),
    DIMS("any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor"),
    ROW("all(Tensor self) -> Tensor", REDC),
    DIMS("all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor"),
    ROW("all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor", REDC),
    VAR("var(Tensor self, bool unbiased=True) -> Tensor"),
    VAR("var.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor"),
    VAR("var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor"),
    VAR("std(Tensor self, bool unbiased=True) -> Tensor"),
    VAR("std.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor"),
    VAR("std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor"),
};
// Derivatives; see docs/ADDING_AN_OP.md for what the texts can name.
static const tc_op_derivative derivatives[] = {
    {"sum", "self: expand(grad, self.sizes)"},
    {"sum.dim_IntList", "self: expand(reshape(grad, aten::sum.dim_IntList(self, dim, true).sizes), self.sizes)"},
    {"mean", "self: div(expand(grad, self.sizes), self.numel)"},
    {"mean.dim", "self: div(expand(reshape(grad, aten::mean.dim(self, dim, true).sizes), self.sizes), self.numel // "
                 "max(1, result.numel))"},
    {"amax", "let r = amax(self, dim, true); let m = to(eq(self, r), self.dtype); self: mul(expand(reshape(grad, "
             "r.sizes), self.sizes), div(m, sum(m, dim, true)))"},
    {"amin", "let r = amin(self, dim, true); let m = to(eq(self, r), self.dtype); self: mul(expand(reshape(grad, "
             "r.sizes), self.sizes), div(m, sum(m, dim, true)))"},
};
TC_OP_FAMILY_WITH_DERIVATIVES(reduce);
