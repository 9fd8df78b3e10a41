// Scattering with a combination other than the last or the sum: products, extremes, means.
//
// scatter_reduce and scatter.reduce have an index of all dimensions, index_reduce a vector along one. Lowered to the
// template "scatter"; where self is not included, its elements that are reached become neutral ones first.
#include <math.h>

#include "core/ops/ops.h"

enum { SUM, PROD, MEAN, MAX, MIN };
typedef struct plan {
  int64_t dim;
  int32_t kind, src;
  bool whole, include_self;
} plan;

static int32_t read_plan(tc_op_args *a, plan *p) {
  static const char *const names[] = {"sum", "prod", "mean", "amax", "amin", "add", "multiply"};
  static const int32_t kinds[] = {SUM, PROD, MEAN, MAX, MIN, SUM, PROD};
  const tc_tensor_type *t = tc_op_tensor(a, 0), *i = tc_op_tensor(a, 2), *s = tc_op_tensor(a, 3);
  tc_sv name = tc_op_string(a, 4);
  int32_t include = tc_op_arg_index(a, "include_self");
  *p = (plan){.kind = -1, .src = 3, .whole = tc_sv_starts(a->op->schema.name, "scatter"), .include_self = true};
  for (size_t k = 0; k < sizeof names / sizeof *names; k++)
    if (tc_sv_is(name, names[k])) p->kind = kinds[k];
  if (p->kind < 0)
    return tc_op_fail(a, "reduce argument must be either sum, prod, mean, amax or amin, got " TC_SV_FMT,
                      TC_SV_ARG(name));
  if (include >= 0) p->include_self = tc_op_bool(a, include, 1);
  p->dim = tc_op_dim(a, 1, t->rank);
  if (p->dim < 0) return TC_STATUS_INVALID_ARGUMENT;
  if (i->dtype != TC_I64 && i->dtype != TC_I32)
    return tc_op_fail(a, "the index must be i32 or i64, not %s", tc_dtype_torch_name(i->dtype));
  if (tc_dtype_is_complex(t->dtype) && p->kind >= MEAN)
    return tc_op_fail(a, "this reduction is not defined on complex numbers: %s", tc_op_shape_text(a, 0));
  bool nothing = tc_scatters_nothing(a);
  if (p->whole && !nothing && i->rank != t->rank && !(i->rank <= 1 && t->rank <= 1))
    return tc_op_fail(a, "the index must have as many dimensions as self: %s and %s", tc_op_shape_text(a, 2),
                      tc_op_shape_text(a, 0));
  if (!p->whole && i->rank > 1) return tc_op_fail(a, "the index must be a vector: %s", tc_op_shape_text(a, 2));
  if (tc_op_kind(a, 3) == TC_AK_TENSOR &&
      (s->dtype != t->dtype || (s->rank != t->rank && !nothing && (!p->whole || s->rank + t->rank > 1))))
    return tc_op_fail(a, "self and source must have the same dtype and number of dimensions: %s and %s",
                      tc_op_shape_text(a, 0), tc_op_shape_text(a, 3));
  if (tc_op_kind(a, 3) != TC_AK_TENSOR && tc_op_number_fits(a, 3, t->dtype)) return TC_STATUS_INVALID_ARGUMENT;
  if (p->whole) return tc_scatter_check(a, p->dim);
  // A source of as many elements as the index has, and as self has beside them.
  bool fits = t->rank > 0 || !tc_int_require_eq(a, tc_op_numel(a, i), tc_int_const(a, 1));
  for (int32_t d = 0; s && fits && tc_op_kind(a, 3) == TC_AK_TENSOR && d < s->rank; d++)
    fits = !tc_int_require_eq(a, s->sizes[d], d == p->dim ? tc_op_numel(a, i) : t->sizes[d]);
  if (!fits)
    return tc_op_fail(a, "the index %s does not fit self %s and source %s", tc_op_shape_text(a, 2),
                      tc_op_shape_text(a, 0), tc_op_shape_text(a, 3));
  return TC_STATUS_OK;
}
static int32_t scatter_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  plan p;
  if (read_plan(a, &p)) return TC_STATUS_INVALID_ARGUMENT;
  if (tc_sv_starts(a->op->schema.name, "scatter")) return tc_meta_row_major(a);
  return tc_op_format_result(a, 0, t->dtype, t->rank, t->sizes, TC_FORMAT_PRESERVE, 0);
}

// Combined with what is there; the first time without it, if self is not to be included.
static void combine(const tc_ref_view *y, int64_t to, const tc_ref_view *s, int64_t from, int32_t kind, bool first) {
  if (first) {
    tc_ref_copy(y, to, s, from);
  } else if (y->dtype == TC_I64) {
    tc_c128 number = y->nominal == TC_BOOL ? tc_ref_c(s, from) : (tc_c128){0, 0}; // half of something is true
    int64_t p = tc_ref_i(y, to), q = y->nominal == TC_BOOL ? number.re != 0 || number.im != 0 : tc_ref_i(s, from);
    int64_t v = kind == PROD  ? (int64_t)((uint64_t)p * (uint64_t)q)
                : kind == MAX ? (p > q ? p : q)
                : kind == MIN ? (p < q ? p : q)
                              : (int64_t)((uint64_t)p + (uint64_t)q);
    tc_ref_put_i(y, to, v);
  } else if (kind == MAX || kind == MIN) {
    double p = tc_ref_f(y, to), q = tc_ref_f(s, from);
    bool takes = isnan(q) || (!isnan(p) && (kind == MAX ? q > p : q < p));
    tc_ref_put(y, to, (tc_c128){takes ? q : p, 0});
  } else {
    tc_c128 p = tc_ref_c(y, to), q = tc_ref_c(s, from);
    tc_ref_put(y, to,
               kind != PROD         ? (tc_c128){p.re + q.re, p.im + q.im}
               : y->dtype == TC_F64 ? (tc_c128){p.re * q.re, 0}
                                    : (tc_c128){p.re * q.re - p.im * q.im, p.re * q.im + p.im * q.re});
  }
}

static int32_t scatter_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *idx = tc_op_data(a, 2), *s = tc_op_data(a, 3), *y = tc_op_result_data(a, 0);
  plan p;
  int64_t walk[TC_MAX_RANK] = {0}, i[TC_MAX_RANK] = {0}, numel = 1, n = tc_ref_numel(y);
  if (read_plan(a, &p)) return TC_STATUS_INVALID_ARGUMENT;
  int64_t *count = tc_op_scratch(a, (uint64_t)(n + 1) * sizeof *count);
  if (!count) return TC_STATUS_OUT_OF_MEMORY;
  for (int64_t k = 0; k <= n; k++) count[k] = p.include_self;
  for (bool more = n > 0; more; more = tc_ref_next(y->rank, y->sizes, i))
    tc_ref_copy(y, tc_ref_offset(y, i), x, tc_ref_offset(x, i));
  if (p.whole && tc_ref_numel(idx) == 0) return TC_STATUS_OK;
  int32_t rank = y->rank ? y->rank : 1;
  for (int32_t d = 0; d < rank; d++) {
    i[d] = 0;
    walk[d] = p.whole ? (idx->rank ? idx->sizes[d] : 1) : d == p.dim ? tc_ref_numel(idx) : y->sizes[d];
    numel *= walk[d];
  }
  int64_t size = y->rank ? y->sizes[p.dim] : 1;
  for (bool more = numel > 0; more; more = tc_ref_next(rank, walk, i)) {
    int64_t from = p.whole ? (idx->rank ? tc_ref_offset(idx, i) : 0) : idx->rank ? i[p.dim] * idx->strides[0] : 0;
    int64_t at = tc_ref_i(idx, from), to = 0;
    if (at < 0 || at >= size)
      return tc_op_fail(a, "index %lld is out of bounds for dimension %lld with size %lld", (long long)at,
                        (long long)p.dim, (long long)size);
    for (int32_t d = 0; d < y->rank; d++) to += (d == p.dim ? at : i[d]) * y->strides[d];
    combine(y, to, s, s->rank ? tc_ref_offset(s, i) : 0, p.kind, count[to]++ == 0);
  }
  for (int64_t k = 0; p.kind == MEAN && k < n; k++) {
    if (count[k] < 2) continue;
    if (y->dtype == TC_I64) {
      int64_t v = tc_ref_i(y, k), c = count[k];
      tc_ref_put_i(y, k, v / c - (v % c < 0));
    } else {
      tc_ref_put(y, k, (tc_c128){tc_ref_f(y, k) / (double)count[k], 0});
    }
  }
  return TC_STATUS_OK;
}

// What leaves a reduction as it is.
static tc_bval neutral(tc_op_args *a, int32_t kind, tc_dtype d) {
  char c = tc_dtype_class(d);
  if (kind == SUM || kind == MEAN || kind == PROD) return tc_lo_cast(a, tc_lo_const_int(a, TC_I64, kind == PROD), d);
  if (c == 'f') return tc_lo_const(a, d, kind == MAX ? -INFINITY : INFINITY, 0);
  int32_t bits = tc_dtype_size(d) * 8;
  int64_t top = c == 'i' ? (int64_t)(UINT64_MAX >> (65 - bits)) : (int64_t)(UINT64_MAX >> (64 - bits));
  return tc_lo_const_int(a, d, kind == MIN ? top : c == 'i' ? -top - 1 : 0);
}

static tc_lt filled(tc_op_args *a, tc_lt like, int32_t kind, tc_dtype d) {
  tc_int sizes[TC_MAX_RANK];
  int32_t rank = tc_lo_rank(a, like);
  for (int32_t i = 0; i < rank; i++) sizes[i] = tc_lo_size(a, like, i);
  tc_lo_begin(a, 0, NULL, NULL);
  return tc_lo_expand(a, tc_lo_end(a, neutral(a, kind, d), d), rank, sizes);
}

// Every place divided by the number of elements there; ones start from PROD's neutral, zeros from SUM's.
static tc_lt divided(tc_op_args *a, const plan *p, int32_t across, int32_t negative, tc_lt total, tc_lt positions,
                     tc_lt values, tc_dtype type) {
  static const char *const names[] = {"v", "n"};
  static const char *const floored = "let m = where(n < 1, 1, n); where(v % m < 0, v / m - 1, v / m)";
  char c = tc_dtype_class(type);
  tc_lt ones = filled(a, values, PROD, type), start = filled(a, total, p->include_self ? PROD : SUM, type);
  tc_lt pair[2] = {total, tc_lower_scatter(a, TC_SCATTER_ADD, across, negative, start, positions, ones, type)};
  return tc_lower_text(a, c == 'f' || c == 'c' ? "v / where(n == 0, 1, n)" : floored, 2, names, pair, type, type);
}

static int32_t scatter_lower(tc_op_args *a) {
  static const int32_t kinds[] = {TC_SCATTER_ADD, TC_SCATTER_MUL, TC_SCATTER_ADD, TC_SCATTER_MAX, TC_SCATTER_MIN};
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  plan p;
  tc_lt positions, values;
  if (read_plan(a, &p)) return TC_STATUS_INVALID_ARGUMENT;
  tc_lt out = tc_lower_moved(a, tc_lo_arg(a, 0), p.dim, 0);
  int32_t negative = tc_scatter_operands(a, p.whole, p.dim, &positions, &values);
  bool exact = p.kind == MAX || p.kind == MIN;
  int32_t across = tc_scatter_across(a, r, p.dim == r->rank - 1, p.whole);
  tc_dtype type = exact ? r->dtype : tc_scatter_type(a, r->dtype, r->sizes[p.dim], tc_lo_size(a, positions, 0));
  if (!p.include_self)
    out = tc_lower_scatter(a, TC_SCATTER_SET, across, negative, out, positions, filled(a, values, p.kind, type), type);
  out = tc_lower_scatter(a, kinds[p.kind], across, negative, out, positions, values, type);
  if (p.kind == MEAN) out = divided(a, &p, across, negative, out, positions, values, type);
  tc_lo_result(a, 0, tc_lower_converted(a, tc_lower_moved(a, out, 0, p.dim), r->dtype));
  return TC_STATUS_OK;
}

#define ROW(s)                                 \
  {.schema = s,                                \
   .traits = TC_OP_COMPLEX | TC_OP_MAY_EXPAND, \
   .meta = scatter_meta,                       \
   .expand = tc_expand_rank0_scatter,          \
   .lower = scatter_lower,                     \
   .ref = scatter_ref}
static const tc_op_def rows[] = {
    ROW("scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> "
        "Tensor"),
    ROW("scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor"),
    ROW("scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor"),
    ROW("index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) -> "
        "Tensor"),
};
TC_OP_FAMILY(scatter_reduce);
