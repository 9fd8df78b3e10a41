// Writing elements at positions: slices, single indices, and positions that come from data.
//
// Every op here is functional: the result is self with some elements replaced. Slices and indices known beforehand are
// a choice per element. Where positions come from data, loop IR has no scatter, so each element of the result looks for
// the last source element that is written to it (or the sum of all of them): a reduction over the sources. That is
// correct on every backend and deterministic; it costs result × sources.
#include "core/ops/ops.h"

static int32_t like_self(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  return tc_op_format_result(a, 0, t->dtype, t->rank, t->sizes, TC_FORMAT_PRESERVE, 0);
}
static int32_t same_dtype(tc_op_args *a, int32_t arg) {
  if (tc_op_tensor(a, arg)->dtype == tc_op_tensor(a, 0)->dtype) return TC_STATUS_OK;
  return tc_op_fail(a, "self and source must have the same dtype: %s and %s", tc_op_shape_text(a, 0),
                    tc_op_shape_text(a, arg));
}
static void ref_self(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_result_data(a, 0);
  int64_t i[TC_MAX_RANK] = {0};
  for (bool more = tc_ref_numel(y) > 0; more; more = tc_ref_next(y->rank, y->sizes, i))
    tc_ref_copy(y, tc_ref_offset(y, i), x, tc_ref_offset(x, i));
}

// ---- slice_scatter, select_scatter ----
typedef struct place {
  int64_t dim;
  tc_int start, length, step;
  bool drop; // the source lacks the dimension
} place;
static int32_t read_place(tc_op_args *a, place *p) {
  const tc_tensor_type *t = tc_op_tensor(a, 0), *s = tc_op_tensor(a, 1);
  *p = (place){.drop = tc_sv_is(a->op->schema.name, "select_scatter")};
  if (p->drop) {
    if (t->rank == 0) return tc_op_fail(a, "select_scatter cannot be applied to a 0-dim tensor");
    p->dim = tc_op_dim(a, 2, t->rank);
    if (p->dim < 0) return TC_STATUS_INVALID_ARGUMENT;
    int64_t i;
    p->start = tc_op_sym(a, 3), p->length = p->step = tc_int_const(a, 1);
    if (tc_int_is_const(p->start, &i) && i < 0) p->start = tc_int_add(a, p->start, t->sizes[p->dim]);
    if (tc_int_lt(a, p->start, t->sizes[p->dim]) == 0 || tc_int_lt(a, p->start, tc_int_const(a, 0)) == 1)
      return tc_op_fail(a, "the index is out of range for dimension %lld of %s", (long long)p->dim,
                        tc_op_shape_text(a, 0));
  } else if (tc_op_read_slice(a, 2, &p->dim, &p->start, &p->length, &p->step)) {
    return TC_STATUS_INVALID_ARGUMENT;
  }
  bool fits = s->rank == t->rank - p->drop;
  for (int32_t d = 0, k = 0; fits && d < t->rank; d++) {
    if (d == p->dim && p->drop) continue;
    fits = tc_int_require_eq(a, s->sizes[k++], d == p->dim ? p->length : t->sizes[d]) == TC_STATUS_OK;
  }
  return fits ? TC_STATUS_OK
              : tc_op_fail(a, "the source %s does not have the shape of the part of %s that it replaces",
                           tc_op_shape_text(a, 1), tc_op_shape_text(a, 0));
}
static int32_t place_meta(tc_op_args *a) {
  place p;
  return read_place(a, &p) ? TC_STATUS_INVALID_ARGUMENT : tc_meta_same_strides(a);
}
static int32_t place_lower(tc_op_args *a) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  place p;
  tc_int index[TC_MAX_RANK], at[TC_MAX_RANK];
  if (read_place(a, &p)) return TC_STATUS_INVALID_ARGUMENT;
  tc_lt self = tc_lo_arg(a, 0), src = tc_lo_arg(a, 1);
  tc_lo_begin(a, r->rank, r->sizes, index);
  tc_int from = tc_int_sub(a, index[p.dim], p.start), zero = tc_int_const(a, 0);
  tc_int inside = tc_int_within(a, from, zero, tc_int_mul(a, p.length, p.step)),
         on = tc_sym_cmp(a->syms, TC_SYM_EQ, tc_int_mod(a, from, p.step), zero);
  if (!tc_sym_is_int(on, 1)) inside = tc_sym_and(a->syms, inside, on);
  for (int32_t d = 0, k = 0; d < r->rank; d++) {
    if (d != p.dim) at[k++] = index[d];
    else if (!p.drop) at[k++] = tc_int_floordiv(a, from, p.step);
  }
  tc_bval old = tc_lo_load(a, self, index);
  if (tc_lo_dtype(a, src) == r->dtype) {
    tc_lo_result(a, 0, tc_lo_end(a, tc_lo_load_if(a, src, at, inside, old), r->dtype));
  } else {
    tc_bval v = tc_lo_cast(a, tc_lo_load_if(a, src, at, inside, tc_lo_const_int(a, tc_lo_dtype(a, src), 0)), r->dtype);
    tc_lo_result(a, 0, tc_lo_end(a, tc_lo_op3(a, TC_K_SELECT, tc_lower_condition(a, inside), v, old), r->dtype));
  }
  return TC_STATUS_OK;
}
static int32_t place_ref(tc_op_args *a) {
  const tc_ref_view *s = tc_op_data(a, 1), *y = tc_op_result_data(a, 0);
  int64_t i[TC_MAX_RANK] = {0}, start = 0, step = 1;
  place p;
  if (read_place(a, &p)) return TC_STATUS_INVALID_ARGUMENT;
  tc_int_is_const(p.start, &start), tc_int_is_const(p.step, &step);
  ref_self(a);
  for (bool more = tc_ref_numel(s) > 0; more; more = tc_ref_next(s->rank, s->sizes, i)) {
    int64_t to = 0;
    for (int32_t d = 0, k = 0; d < y->rank; d++) {
      if (d == p.dim) to += (start + (p.drop ? 0 : step * i[k++])) * y->strides[d];
      else to += i[k++] * y->strides[d];
    }
    tc_ref_copy(y, to, s, tc_ref_offset(s, i));
  }
  return TC_STATUS_OK;
}

// ---- one index tensor along a dimension: index_copy, index_add, scatter, scatter_add ----
// `whole`: the index has all dimensions (scatter); else it is a vector (index_*). `sum`: added, not replaced.
typedef struct along {
  int64_t dim;
  bool whole, sum, number;
  int32_t src;
} along;
static int32_t read_along(tc_op_args *a, along *w) {
  const tc_tensor_type *t = tc_op_tensor(a, 0), *i = tc_op_tensor(a, 2), *s = tc_op_tensor(a, 3);
  tc_sv name = a->op->schema.name;
  *w = (along){.whole = tc_sv_starts(name, "scatter"), .sum = tc_sv_ends(name, "_add"), .src = 3};
  w->number = tc_op_kind(a, 3) != TC_AK_TENSOR;
  w->dim = tc_op_dim(a, 1, t->rank);
  if (w->dim < 0) return TC_STATUS_INVALID_ARGUMENT;
  if (i->dtype != TC_I64 && i->dtype != TC_I32)
    return tc_op_fail(a, "the index must be i32 or i64, not %s", tc_dtype_torch_name(i->dtype));
  if (t->rank == 0) return tc_op_fail(a, "this op on a tensor of rank 0 is not available");
  if (w->whole && i->rank != t->rank)
    return tc_op_fail(a, "the index must have as many dimensions as self: %s and %s", tc_op_shape_text(a, 2),
                      tc_op_shape_text(a, 0));
  if (!w->whole && i->rank > 1)
    return tc_op_fail(a, "the index is supposed to be a vector: %s", tc_op_shape_text(a, 2));
  if (w->number) return TC_STATUS_OK;
  if (s->rank != t->rank)
    return tc_op_fail(a, "self and source must have the same number of dimensions: %s and %s", tc_op_shape_text(a, 0),
                      tc_op_shape_text(a, 3));
  for (int32_t d = 0; !w->whole && d < t->rank; d++) {
    if (tc_int_require_eq(a, s->sizes[d], d == w->dim ? tc_op_numel(a, i) : t->sizes[d]))
      return tc_op_fail(a, "the source %s does not fit self %s and the index %s", tc_op_shape_text(a, 3),
                        tc_op_shape_text(a, 0), tc_op_shape_text(a, 2));
  }
  return same_dtype(a, 3);
}
static int32_t along_meta(tc_op_args *a) {
  along w;
  return read_along(a, &w) ? TC_STATUS_INVALID_ARGUMENT : like_self(a);
}

static int32_t along_lower(tc_op_args *a) {
  const tc_tensor_type *r = tc_op_result_type(a, 0), *it = tc_op_tensor(a, 2);
  along w;
  if (read_along(a, &w)) return TC_STATUS_INVALID_ARGUMENT;
  tc_dtype compute = tc_op_math_type(r->dtype);
  tc_int one = tc_int_const(a, 1), n = w.whole ? it->sizes[w.dim] : tc_op_numel(a, it), index[TC_MAX_RANK + 1],
         at[TC_MAX_RANK];
  tc_lt self = tc_lo_arg(a, 0), idx = w.whole ? tc_lo_arg(a, 2) : tc_lo_reshape(a, tc_lo_arg(a, 2), 1, &n),
        src = tc_lo_arg(a, w.src);
  tc_lo_begin_reduce(a, w.sum ? TC_RED_SUM : TC_RED_MAX, r->rank, r->sizes, 1, &n, index);
  tc_int inside = one, k = index[r->rank];
  for (int32_t d = 0; d < r->rank; d++) {
    at[d] = d == w.dim ? k : index[d];
    if (!w.whole || d == w.dim) continue;
    tc_int in = tc_int_within(a, index[d], tc_int_const(a, 0), it->sizes[d]); // the index may be smaller than self
    if (!tc_sym_is_int(in, 1)) inside = tc_sym_is_int(inside, 1) ? in : tc_sym_and(a->syms, inside, in);
  }
  bool all = tc_sym_is_int(inside, 1);
  tc_bval none = tc_lo_const_int(a, tc_lo_dtype(a, idx), -1);
  tc_bval p = all ? tc_lo_load(a, idx, w.whole ? at : &k) : tc_lo_load_if(a, idx, at, inside, none);
  tc_bval hit = tc_lo_op2(a, TC_K_EQ, tc_lo_cast(a, p, TC_I64), tc_lo_index(a, index[w.dim], TC_I64));
  if (w.sum) {
    tc_bval zero = tc_lo_cast(a, tc_lo_const_int(a, TC_I64, 0), tc_lo_dtype(a, src));
    tc_bval v = all ? tc_lo_load(a, src, at) : tc_lo_load_if(a, src, at, inside, zero);
    tc_bval nothing = tc_lo_cast(a, tc_lo_const_int(a, TC_I64, 0), compute);
    tc_lt total = tc_lo_end(a, tc_lo_op3(a, TC_K_SELECT, hit, tc_lo_cast(a, v, compute), nothing), compute);
    tc_number alpha = {.re = 1};
    if (tc_op_arg_index(a, "alpha") >= 0) tc_op_number(a, tc_op_arg_index(a, "alpha"), &alpha);
    tc_lo_begin(a, r->rank, r->sizes, index);
    tc_bval more = tc_lo_load(a, total, index);
    if (alpha.re != 1 || alpha.im != 0)
      more = tc_lo_op2(
          a, TC_K_MUL, more,
          tc_lo_cast(a, tc_lo_const(a, tc_dtype_is_complex(compute) ? compute : TC_F64, alpha.re, alpha.im), compute));
    tc_lo_result(
        a, 0, tc_lo_end(a, tc_lo_op2(a, TC_K_ADD, tc_lo_cast(a, tc_lo_load(a, self, index), compute), more), r->dtype));
    return TC_STATUS_OK;
  }
  tc_lt last =
      tc_lo_end(a, tc_lo_op3(a, TC_K_SELECT, hit, tc_lo_index(a, k, TC_I64), tc_lo_const_int(a, TC_I64, -1)), TC_I64);
  tc_lo_begin(a, r->rank, r->sizes, index);
  tc_bval l = tc_lo_load(a, last, index), zero = tc_lo_const_int(a, TC_I64, 0), by[TC_MAX_RANK], v;
  for (int32_t d = 0; d < r->rank; d++) {
    by[d] = d == w.dim ? tc_lo_op2(a, TC_K_MAX, l, zero) : -1;
    at[d] = d == w.dim || w.number ? tc_int_const(a, 0)
                                   : tc_int_min(a, index[d], tc_int_sub(a, tc_lo_size(a, src, d), one));
  }
  v = tc_lo_cast(a, w.number ? tc_lo_load(a, src, at) : tc_lo_gather(a, src, at, by, 0), r->dtype);
  tc_lo_result(
      a, 0,
      tc_lo_end(a, tc_lo_op3(a, TC_K_SELECT, tc_lo_op2(a, TC_K_GE, l, zero), v, tc_lo_load(a, self, index)), r->dtype));
  return TC_STATUS_OK;
}

static void ref_add(const tc_ref_view *y, int64_t to, const tc_ref_view *s, int64_t from, tc_number alpha) {
  if (y->dtype == TC_I64) {
    tc_ref_put_i(y, to,
                 (int64_t)((uint64_t)tc_ref_i(y, to) + (uint64_t)(int64_t)alpha.re * (uint64_t)tc_ref_i(s, from)));
    return;
  }
  tc_c128 p = tc_ref_c(y, to), q = tc_ref_c(s, from);
  tc_ref_put(y, to, (tc_c128){p.re + alpha.re * q.re - alpha.im * q.im, p.im + alpha.re * q.im + alpha.im * q.re});
}
static int32_t along_ref(tc_op_args *a) {
  const tc_ref_view *idx = tc_op_data(a, 2), *s = tc_op_data(a, 3), *y = tc_op_result_data(a, 0);
  along w;
  if (read_along(a, &w)) return TC_STATUS_INVALID_ARGUMENT;
  tc_number alpha = {.re = 1};
  if (tc_op_arg_index(a, "alpha") >= 0) tc_op_number(a, tc_op_arg_index(a, "alpha"), &alpha);
  int64_t walk[TC_MAX_RANK], i[TC_MAX_RANK] = {0}, numel = 1;
  for (int32_t d = 0; d < y->rank; d++) {
    walk[d] = w.whole ? idx->sizes[d] : d == w.dim ? tc_ref_numel(idx) : y->sizes[d];
    numel *= walk[d];
  }
  ref_self(a);
  for (bool more = numel > 0; more; more = tc_ref_next(y->rank, walk, i)) {
    int64_t p = tc_ref_i(idx, w.whole ? tc_ref_offset(idx, i) : idx->rank ? i[w.dim] * idx->strides[0] : 0), to = 0;
    if (p < 0 || p >= y->sizes[w.dim])
      return tc_op_fail(a, "index %lld is out of bounds for dimension %lld with size %lld", (long long)p,
                        (long long)w.dim, (long long)y->sizes[w.dim]);
    for (int32_t d = 0; d < y->rank; d++) to += (d == w.dim ? p : i[d]) * y->strides[d];
    int64_t from = w.number ? 0 : tc_ref_offset(s, i);
    if (w.sum) ref_add(y, to, s, from, alpha);
    else tc_ref_copy(y, to, s, from);
  }
  return TC_STATUS_OK;
}

// ---- index_put: references only walk it; lowering takes vectors of integers on the leading dimension ----
static int32_t index_put_meta(tc_op_args *a) {
  if (same_dtype(a, 2)) return TC_STATUS_INVALID_ARGUMENT;
  return like_self(a);
}
static int32_t index_put_ref(tc_op_args *a) {
  const tc_ref_view *s = tc_op_data(a, 2), *y = tc_op_result_data(a, 0);
  tc_index_positions p;
  int64_t sizes[TC_MAX_RANK], i[TC_MAX_RANK] = {0}, numel = 1;
  ref_self(a);
  if (tc_ref_positions(a, 1, &p)) return TC_STATUS_INVALID_ARGUMENT;
  int32_t rank = tc_ref_indexed_sizes(&p, y, sizes);
  for (int32_t d = 0; d < rank; d++) numel *= sizes[d];
  if (s->rank > rank)
    return tc_op_fail(a, "the values have more dimensions (%d) than what is indexed (%d)", s->rank, rank);
  for (int32_t d = 0; d < s->rank; d++) {
    int64_t have = s->sizes[d], want = sizes[d + rank - s->rank];
    if (have != 1 && have != want)
      return tc_op_fail(a, "the values do not broadcast to what is indexed: %lld and %lld", (long long)have,
                        (long long)want);
  }
  for (bool more = numel > 0; more; more = tc_ref_next(rank, sizes, i)) {
    int64_t to = tc_ref_position(a, &p, y, i), from = 0;
    if (to < 0) return TC_STATUS_INVALID_ARGUMENT;
    for (int32_t d = 0; d < s->rank; d++) from += s->sizes[d] == 1 ? 0 : i[d + rank - s->rank] * s->strides[d];
    if (tc_op_bool(a, 3, 0)) ref_add(y, to, s, from, (tc_number){.re = 1});
    else tc_ref_copy(y, to, s, from);
  }
  return TC_STATUS_OK;
}
static int32_t index_put_lower(tc_op_args *a) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  int32_t dim = -1;
  for (int32_t k = 0; k < tc_op_count(a, 1); k++) {
    const tc_tensor_type *t = tc_op_tensor_at(a, 1, k);
    if (!t) continue;
    bool vector = t->rank == 1 && (t->dtype == TC_I64 || t->dtype == TC_I32);
    if (dim >= 0 || !vector) return tc_op_fail(a, "index_put is lowered for one vector of integers only");
    dim = k;
  }
  if (dim < 0 || dim >= r->rank) return tc_op_fail(a, "index_put without an index is not lowered");
  tc_dtype compute = tc_op_math_type(r->dtype);
  bool sum = tc_op_bool(a, 3, 0);
  tc_int n = tc_op_tensor_at(a, 1, dim)->sizes[0], sizes[TC_MAX_RANK], index[TC_MAX_RANK + 1], at[TC_MAX_RANK], k;
  for (int32_t d = 0; d < r->rank; d++) sizes[d] = d == dim ? n : r->sizes[d];
  tc_lt self = tc_lo_arg(a, 0), idx = tc_lo_arg_at(a, 1, dim), src = tc_lo_expand(a, tc_lo_arg(a, 2), r->rank, sizes);
  tc_lo_begin_reduce(a, sum ? TC_RED_SUM : TC_RED_MAX, r->rank, r->sizes, 1, &n, index);
  k = index[r->rank];
  for (int32_t d = 0; d < r->rank; d++) at[d] = d == dim ? k : index[d];
  tc_bval p = tc_lo_cast(a, tc_lo_load(a, idx, &k), TC_I64), zero = tc_lo_const_int(a, TC_I64, 0);
  p = tc_lo_op3(a, TC_K_SELECT, tc_lo_op2(a, TC_K_LT, p, zero),
                tc_lo_op2(a, TC_K_ADD, p, tc_lo_index(a, r->sizes[dim], TC_I64)), p);
  tc_bval hit = tc_lo_op2(a, TC_K_EQ, p, tc_lo_index(a, index[dim], TC_I64));
  if (sum) {
    tc_bval v = tc_lo_cast(a, tc_lo_load(a, src, at), compute);
    tc_lt total = tc_lo_end(a, tc_lo_op3(a, TC_K_SELECT, hit, v, tc_lo_cast(a, zero, compute)), compute);
    tc_lo_begin(a, r->rank, r->sizes, index);
    tc_bval old = tc_lo_cast(a, tc_lo_load(a, self, index), compute);
    tc_lo_result(a, 0, tc_lo_end(a, tc_lo_op2(a, TC_K_ADD, old, tc_lo_load(a, total, index)), r->dtype));
    return TC_STATUS_OK;
  }
  tc_lt last =
      tc_lo_end(a, tc_lo_op3(a, TC_K_SELECT, hit, tc_lo_index(a, k, TC_I64), tc_lo_const_int(a, TC_I64, -1)), TC_I64);
  tc_lo_begin(a, r->rank, r->sizes, index);
  tc_bval l = tc_lo_load(a, last, index), by[TC_MAX_RANK];
  zero = tc_lo_const_int(a, TC_I64, 0);
  for (int32_t d = 0; d < r->rank; d++) {
    at[d] = d == dim ? tc_int_const(a, 0) : index[d];
    by[d] = d == dim ? tc_lo_op2(a, TC_K_MAX, l, zero) : -1;
  }
  tc_bval v = tc_lo_gather(a, src, at, by, 0);
  tc_lo_result(
      a, 0,
      tc_lo_end(a, tc_lo_op3(a, TC_K_SELECT, tc_lo_op2(a, TC_K_GE, l, zero), v, tc_lo_load(a, self, index)), r->dtype));
  return TC_STATUS_OK;
}

enum { C = TC_OP_COMPLEX };
#define PLACE(s) {.schema = s, .traits = C, .meta = place_meta, .lower = place_lower, .ref = place_ref}
#define ALONG(s) {.schema = s, .traits = C, .meta = along_meta, .lower = along_lower, .ref = along_ref}
#define PUT(s) {.schema = s, .traits = C, .meta = index_put_meta, .lower = index_put_lower, .ref = index_put_ref}
static const tc_op_def rows[] = {
    PLACE("slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> "
          "Tensor"),
    PLACE("select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor"),
    ALONG("index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor"),
    ALONG("index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor"),
    ALONG("index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor"),
    ALONG("scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor"),
    ALONG("scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor"),
    ALONG("scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor"),
    PUT("index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor"),
    PUT("_unsafe_index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor"),
};
TC_OP_FAMILY(scatter);
