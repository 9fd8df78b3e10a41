// Scaled dot product attention: softmax(q kᵀ · scale + mask) v. Definition: PyTorch's documentation of
// torch.nn.functional.scaled_dot_product_attention.
#include <math.h>
#include <string.h>

#include "core/ops/ops.h"

enum { Q, K, V, MASK, DROPOUT, CAUSAL, SCALE, GQA };

// Fewer dimensions than others have are aligned at the right.
static int32_t common_rank(tc_op_args *a) {
  int32_t r = 0;
  for (int32_t i = Q; i <= V; i++)
    if (tc_op_tensor(a, i)->rank > r) r = tc_op_tensor(a, i)->rank;
  return r;
}
static void padded_sizes(tc_op_args *a, const tc_tensor_type *t, int32_t rank, tc_int *sizes) {
  for (int32_t d = 0; d < rank; d++)
    sizes[d] = d < rank - t->rank ? tc_int_const(a, 1) : t->sizes[d - (rank - t->rank)];
}

// Do the batch and head dimensions of keys or values go with `sizes`, those of the queries so far? They are equal, or
// one of them is 1, or, grouped, heads of which several queries take one. Where the queries have 1, `sizes` takes
// theirs.
static bool heads_fit(tc_op_args *a, int32_t rank, tc_int *sizes, const tc_tensor_type *k) {
  bool grouped = tc_op_bool(a, tc_op_arg_index(a, "enable_gqa"), 0) != 0;
  tc_int one = tc_int_const(a, 1);
  sizes += rank - k->rank;
  for (int32_t d = 0; d < k->rank - 2; d++) {
    bool groups = grouped && d == k->rank - 3;
    if (tc_int_eq(a, k->sizes[d], one) == 1) continue;
    if (!groups && tc_int_eq(a, sizes[d], one) == 1) {
      sizes[d] = k->sizes[d];
      continue;
    }
    groups = groups && tc_int_lt(a, k->sizes[d], one) != 1;
    if (groups ? tc_int_require_eq(a, tc_int_mod(a, sizes[d], k->sizes[d]), tc_int_const(a, 0))
               : tc_int_require_eq(a, k->sizes[d], sizes[d]))
      return false;
  }
  return true;
}

static int32_t sdpa_meta(tc_op_args *a) {
  const tc_tensor_type *q = tc_op_tensor(a, Q), *k = tc_op_tensor(a, K), *v = tc_op_tensor(a, V);
  if (q->rank < 2 || k->rank < 2 || v->rank < 2)
    return tc_op_fail(a, "query, key and value must have at least 2 dimensions: %s, %s, %s", tc_op_shape_text(a, Q),
                      tc_op_shape_text(a, K), tc_op_shape_text(a, V));
  if (q->dtype != k->dtype || q->dtype != v->dtype)
    return tc_op_fail(a, "query, key and value must have the same dtype: %s, %s, %s", tc_op_shape_text(a, Q),
                      tc_op_shape_text(a, K), tc_op_shape_text(a, V));
  if (!tc_dtype_is_float(q->dtype))
    return tc_op_fail(a, "expected scalar type torch.float32 but found %s", tc_dtype_torch_name(q->dtype));
  int32_t r = common_rank(a);
  tc_int sizes[TC_MAX_RANK];
  padded_sizes(a, q, r, sizes);
  if (tc_int_require_eq(a, q->sizes[q->rank - 1], k->sizes[k->rank - 1]) ||
      tc_int_require_eq(a, k->sizes[k->rank - 2], v->sizes[v->rank - 2]) || !heads_fit(a, r, sizes, k) ||
      !heads_fit(a, r, sizes, v))
    return tc_op_fail(a, "the shapes do not fit: %s, %s, %s", tc_op_shape_text(a, Q), tc_op_shape_text(a, K),
                      tc_op_shape_text(a, V));
  sizes[r - 1] = k->sizes[k->rank - 2];
  if (tc_op_tensor(a, MASK) && tc_op_fits(a, MASK, r, sizes)) return TC_STATUS_INVALID_ARGUMENT;
  sizes[r - 1] = v->sizes[v->rank - 1];
  bool own = q->rank == r; // sizes
  for (int32_t d = 0; d < r - 2 && own; d++) own = own && tc_int_eq(a, sizes[d], q->sizes[d]) == 1;
  // PyTorch's flash kernel for CPUs keeps the order of the query's dimensions; what it does not take gives row-major
  // results.
  bool flash = own && r == 4 && k->rank == 4 && v->rank == 4 && tc_int_eq(a, q->sizes[3], v->sizes[3]) == 1 &&
               tc_sym_is_int(q->strides[3], 1) && tc_sym_is_int(k->strides[3], 1) && tc_sym_is_int(v->strides[3], 1);
  return tc_op_format_result(a, 0, q->dtype, r, sizes, flash ? TC_FORMAT_PRESERVE : TC_FORMAT_CONTIGUOUS, Q);
}

// The result lies as the queries do, the logarithms with the heads of a row side by side. Nothing is broadcast:
// PyTorch's kernel counts in the queries' batches and heads, and would read keys that are not there.
static int32_t flash_meta(tc_op_args *a) {
  const tc_tensor_type *q = tc_op_tensor(a, Q), *k = tc_op_tensor(a, K), *v = tc_op_tensor(a, V);
  tc_int one = tc_int_const(a, 1), strides[3];
  if (q->rank != 4 || k->rank != 4 || v->rank != 4)
    return tc_op_fail(a, "Accept only 4 dims inputs: %s, %s, %s", tc_op_shape_text(a, Q), tc_op_shape_text(a, K),
                      tc_op_shape_text(a, V));
  if (!tc_dtype_is_float(q->dtype) || q->dtype != k->dtype || q->dtype != v->dtype)
    return tc_op_fail(a, "query, key and value must have the same floating-point dtype: %s, %s, %s",
                      tc_op_shape_text(a, Q), tc_op_shape_text(a, K), tc_op_shape_text(a, V));
  if (tc_int_require_eq(a, q->sizes[3], v->sizes[3]) || tc_int_require_eq(a, k->sizes[3], v->sizes[3]))
    return tc_op_fail(a, "Q/K/V should have the same head size: %s, %s, %s", tc_op_shape_text(a, Q),
                      tc_op_shape_text(a, K), tc_op_shape_text(a, V));
  for (int32_t d = 0; d < 3; d++) // batches, heads, and the keys' rows
    if (tc_int_eq(a, (d < 2 ? q : k)->sizes[d], v->sizes[d]) == 0 ||
        (d < 2 && tc_int_eq(a, q->sizes[d], k->sizes[d]) == 0))
      return tc_op_fail(a, "the shapes do not fit: %s, %s, %s", tc_op_shape_text(a, Q), tc_op_shape_text(a, K),
                        tc_op_shape_text(a, V));
  strides[0] = tc_int_mul(a, q->sizes[1], q->sizes[2]), strides[1] = one, strides[2] = q->sizes[1];
  return tc_op_format_result(a, 0, q->dtype, 4, q->sizes, TC_FORMAT_PRESERVE, Q) ||
         tc_op_set_result(a, 1, tc_op_math_type(q->dtype), 3, q->sizes, strides);
}

static double scale_of(tc_op_args *a) {
  int64_t w;
  if (tc_op_kind(a, SCALE) != TC_AK_NONE) return tc_op_float(a, SCALE, 1);
  const tc_tensor_type *q = tc_op_tensor(a, Q);
  w = tc_int_hint(a, q->sizes[q->rank - 1], 1);
  return 1 / sqrt((double)w);
}

static tc_gv call1(tc_op_args *a, const char *op, tc_gv x, int64_t v) {
  tc_ex_begin(a, op);
  tc_ex_push(a, x);
  tc_ex_push_int(a, tc_int_const(a, v));
  return tc_ex_make(a, 1, NULL);
}

// Key or value with every head repeated for the query heads that share it (grouped queries), at build time.
static tc_gv heads_like(tc_op_args *a, int32_t arg) {
  const tc_tensor_type *q = tc_op_tensor(a, Q), *t = tc_op_tensor(a, arg);
  int32_t r = t->rank, h = r - 3;
  tc_gv v = tc_ex_arg(a, arg);
  tc_int one = tc_int_const(a, 1);
  if (r < 3 || tc_int_eq(a, q->sizes[h], t->sizes[h]) == 1 || tc_int_eq(a, q->sizes[h], one) == 1) return v;
  tc_int group = tc_int_floordiv(a, q->sizes[h], t->sizes[h]), wide[TC_MAX_RANK], flat[TC_MAX_RANK];
  for (int32_t d = 0; d < r; d++) wide[d < h + 1 ? d : d + 1] = flat[d] = t->sizes[d];
  wide[h + 1] = group;
  flat[h] = q->sizes[h];
  v = call1(a, "aten::unsqueeze", v, h + 1);
  tc_ex_begin(a, "aten::expand");
  tc_ex_push(a, v);
  tc_ex_push_ints(a, r + 1, wide);
  v = tc_ex_make(a, 1, NULL);
  tc_ex_begin(a, "aten::reshape");
  tc_ex_push(a, v);
  tc_ex_push_ints(a, r, flat);
  return tc_ex_make(a, 1, NULL);
}

// The same op of operands with as many dimensions each.
static int32_t expand_to_rank(tc_op_args *a, int32_t rank) {
  tc_gv v[3];
  for (int32_t i = Q; i <= V; i++) {
    v[i] = tc_ex_arg(a, i);
    for (int32_t d = tc_op_tensor(a, i)->rank; d < rank; d++) v[i] = call1(a, "aten::unsqueeze", v[i], 0);
  }
  tc_ex_begin(a, "aten::scaled_dot_product_attention");
  for (int32_t i = Q; i <= V; i++) tc_ex_push(a, v[i]);
  for (int32_t i = MASK; i <= GQA; i++) tc_ex_push_arg(a, i);
  tc_ex_result(a, 0, tc_ex_make(a, 1, NULL));
  return TC_STATUS_OK;
}

// Rows are what the templates of derivatives take.
static bool has_rows_known(const tc_tensor_type *t) {
  int64_t n;
  return tc_int_is_const(t->sizes[t->rank - 1], &n) && n > 0 && n <= TC_ATTENTION_LONGEST;
}

// What is differentiated without matrices of all pairs: see attention_backward.c.
static int32_t expand_to_rows(tc_op_args *a) {
  tc_gv key = heads_like(a, K), value = heads_like(a, V);
  tc_ex_begin(a, "aten::_attention");
  tc_ex_push(a, tc_ex_arg(a, Q));
  tc_ex_push(a, key);
  tc_ex_push(a, value);
  tc_ex_push_arg(a, MASK);
  tc_ex_push_bool(a, tc_op_bool(a, CAUSAL, 0));
  tc_ex_push_float(a, scale_of(a));
  tc_ex_result(a, 0, tc_ex_make(a, 2, (tc_gv[2]){-1, -1}));
  return TC_STATUS_OK;
}

static int32_t sdpa_expand(tc_op_args *a) {
  const tc_tensor_type *q = tc_op_tensor(a, Q), *k = tc_op_tensor(a, K);
  int32_t r = q->rank;
  double drop = tc_op_float(a, DROPOUT, 0);
  if (!(drop >= 0 && drop <= 1))
    return tc_op_fail(a, "dropout probability has to be between 0 and 1, but got %g", drop);
  if (q->rank != k->rank || q->rank != tc_op_tensor(a, V)->rank) return expand_to_rank(a, common_rank(a));
  if (drop == 0 && has_rows_known(q) && has_rows_known(tc_op_tensor(a, V))) return expand_to_rows(a);
  tc_ex_begin(a, "aten::mul.Scalar");
  tc_ex_push(a, tc_ex_arg(a, Q));
  tc_ex_push_float(a, scale_of(a));
  tc_gv query = tc_ex_make(a, 1, NULL), key = heads_like(a, K);
  tc_ex_begin(a, "aten::transpose.int");
  tc_ex_push(a, key);
  tc_ex_push_int(a, tc_int_const(a, -2));
  tc_ex_push_int(a, tc_int_const(a, -1));
  tc_gv kt = tc_ex_make(a, 1, NULL);
  tc_ex_begin(a, "aten::matmul");
  tc_ex_push(a, query);
  tc_ex_push(a, kt);
  tc_gv s = tc_ex_make(a, 1, NULL);
  tc_gv keep = -1; // bool: may attend
  if (tc_op_bool(a, CAUSAL, 0)) {
    tc_ex_begin(a, "aten::arange");
    tc_ex_push_int(a, q->sizes[r - 2]);
    tc_gv rows = call1(a, "aten::unsqueeze", tc_ex_make(a, 1, NULL), -1);
    tc_ex_begin(a, "aten::arange");
    tc_ex_push_int(a, k->sizes[r - 2]);
    tc_gv columns = tc_ex_make(a, 1, NULL);
    tc_ex_begin(a, "aten::ge.Tensor");
    tc_ex_push(a, rows);
    tc_ex_push(a, columns);
    keep = tc_ex_make(a, 1, NULL);
  } else if (tc_op_tensor(a, MASK) && tc_op_tensor(a, MASK)->dtype == TC_BOOL) {
    keep = tc_ex_arg(a, MASK);
  } else if (tc_op_tensor(a, MASK)) {
    tc_ex_begin(a, "aten::add.Tensor");
    tc_ex_push(a, s);
    tc_ex_push(a, tc_ex_arg(a, MASK));
    s = tc_ex_make(a, 1, NULL);
  }
  if (keep >= 0) {
    tc_ex_begin(a, "aten::where.ScalarOther");
    tc_ex_push(a, keep);
    tc_ex_push(a, s);
    tc_ex_push_float(a, -INFINITY);
    s = tc_ex_make(a, 1, NULL);
  }
  // A row without anything to attend to gives zeros, not NaN.
  bool masked = keep >= 0 || tc_op_tensor(a, MASK);
  tc_gv value = heads_like(a, V), p = call1(a, masked ? "aten::_safe_softmax" : "aten::softmax.int", s, -1);
  if (drop != 0) {
    tc_ex_begin(a, "aten::native_dropout");
    tc_ex_push(a, p);
    tc_ex_push_float(a, drop);
    tc_ex_push_bool(a, true);
    p = tc_ex_make(a, 2, (tc_gv[2]){-1, -1});
  }
  tc_ex_begin(a, "aten::matmul");
  tc_ex_push(a, p);
  tc_ex_push(a, value);
  tc_ex_result(a, 0, tc_ex_make(a, 1, NULL));
  return TC_STATUS_OK;
}

// Query, key or value as a tensor with the result's leading sizes: heads are shared by groups of query heads.
static tc_lt lower_heads_like(tc_op_args *a, int32_t arg) {
  const tc_tensor_type *q = tc_op_result_type(a, 0), *t = tc_op_tensor(a, arg);
  int32_t r = q->rank;
  tc_int sizes[TC_MAX_RANK], index[TC_MAX_RANK], map[TC_MAX_RANK];
  for (int32_t d = 0; d < r; d++) sizes[d] = d < r - 2 ? q->sizes[d] : t->sizes[d - (r - t->rank)];
  tc_lo_indices(a, r, sizes, index);
  for (int32_t d = 0, o = r - t->rank; d < t->rank; d++, o++) {
    bool same = tc_int_eq(a, sizes[o], t->sizes[d]) == 1;
    map[d] = same ? index[o] : tc_int_floordiv(a, index[o], tc_int_floordiv(a, sizes[o], t->sizes[d]));
  }
  return tc_lo_view(a, tc_lo_arg(a, arg), r, sizes, index, map);
}

// The template "attention": attributes are the scale's bits, whether it is causal, whether there is a mask.
static int32_t sdpa_lower(tc_op_args *a) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  tc_lt operands[4] = {lower_heads_like(a, Q), lower_heads_like(a, K), lower_heads_like(a, V), -1};
  bool mask = tc_op_tensor(a, MASK) != NULL;
  double scale = scale_of(a);
  int64_t bits;
  memcpy(&bits, &scale, sizeof bits);
  tc_int attrs[3] = {tc_int_const(a, bits), tc_int_const(a, tc_op_bool(a, CAUSAL, 0)), tc_int_const(a, mask)};
  if (mask) {
    const tc_tensor_type *k = tc_op_tensor(a, K);
    tc_int sizes[TC_MAX_RANK];
    for (int32_t d = 0; d < r->rank - 1; d++) sizes[d] = r->sizes[d];
    sizes[r->rank - 1] = k->sizes[k->rank - 2];
    operands[3] = tc_lo_expand(a, tc_lo_arg(a, MASK), r->rank, sizes);
  }
  tc_lo_result(a, 0, tc_lo_template(a, "attention", mask ? 4 : 3, operands, r->dtype, r->rank, r->sizes, 3, attrs));
  return TC_STATUS_OK;
}

// ---- reference ----
static int64_t broadcast_offset(const tc_ref_view *m, int32_t rank, const int64_t *index) {
  int64_t at = 0;
  for (int32_t d = 0; d < m->rank; d++) at += m->sizes[d] == 1 ? 0 : index[d + rank - m->rank] * m->strides[d];
  return at;
}

// Where the matrix of an operand begins that the result's one at `index` takes: groups of heads share one.
static int64_t matrix_offset(const tc_ref_view *t, const tc_ref_view *y, const int64_t *index) {
  int64_t at = 0;
  for (int32_t d = 0, o = y->rank - t->rank; d < t->rank - 2; d++, o++)
    at += (t->sizes[d] == y->sizes[o] ? index[o] : index[o] / (y->sizes[o] / t->sizes[d])) * t->strides[d];
  return at;
}

static double score(tc_op_args *a, const int64_t *index, int64_t j, double scale) {
  const tc_ref_view *q = tc_op_data(a, Q), *k = tc_op_data(a, K), *m = tc_op_data(a, MASK),
                    *y = tc_op_result_data(a, 0);
  int32_t r = y->rank;
  double s = 0;
  int64_t qo = matrix_offset(q, y, index) + index[r - 2] * q->strides[q->rank - 2],
          ko = matrix_offset(k, y, index) + j * k->strides[k->rank - 2], at[TC_MAX_RANK];
  for (int32_t d = 0; d < r - 1; d++) at[d] = index[d];
  if (tc_op_bool(a, CAUSAL, 0) && j > index[r - 2]) return -INFINITY;
  for (int64_t i = 0; i < q->sizes[q->rank - 1]; i++)
    s += tc_ref_f(q, qo + i * q->strides[q->rank - 1]) * tc_ref_f(k, ko + i * k->strides[k->rank - 1]);
  if (q->sizes[q->rank - 1] > 0) s *= scale; // of heads without elements the scale is no number
  if (!m) return s;
  at[r - 1] = j;
  int64_t mo = broadcast_offset(m, r, at);
  if (m->nominal == TC_BOOL) return tc_ref_i(m, mo) ? s : -INFINITY;
  return s + tc_ref_f(m, mo);
}

static int32_t sdpa_ref(tc_op_args *a) {
  const tc_ref_view *q = tc_op_data(a, Q), *k = tc_op_data(a, K), *v = tc_op_data(a, V), *y = tc_op_result_data(a, 0);
  int32_t r = y->rank;
  int64_t n = k->sizes[k->rank - 2], row = v->strides[v->rank - 2], index[TC_MAX_RANK] = {0};
  double scale =
      tc_op_kind(a, SCALE) != TC_AK_NONE ? tc_op_float(a, SCALE, 1) : 1 / sqrt((double)q->sizes[q->rank - 1]);
  double *p = tc_op_scratch(a, (uint64_t)(n > 0 ? n : 1) * sizeof *p);
  if (!p) return TC_STATUS_OUT_OF_MEMORY;
  if (tc_ref_numel(y) == 0) return TC_STATUS_OK;
  do {
    double max = -INFINITY, sum = 0;
    for (int64_t j = 0; j < n; j++) p[j] = score(a, index, j, scale), max = p[j] > max ? p[j] : max;
    for (int64_t j = 0; j < n; j++) p[j] = max == -INFINITY && !isnan(p[j]) ? 0 : exp(p[j] - max), sum += p[j];
    for (int64_t c = 0; c < v->sizes[v->rank - 1]; c++) {
      double s = 0;
      int64_t vo = c * v->strides[v->rank - 1] + matrix_offset(v, y, index);
      for (int64_t j = 0; j < n; j++) s += p[j] * tc_ref_f(v, vo + j * row);
      int64_t yo = c * y->strides[r - 1];
      for (int32_t d = 0; d < r - 1; d++) yo += index[d] * y->strides[d];
      tc_ref_put(y, yo, (tc_c128){sum == 0 ? 0 : s / sum, 0});
    }
  } while (tc_ref_next(r - 1, y->sizes, index));
  return TC_STATUS_OK;
}

// softmax whose rows of -inf give zeros (PyTorch's _safe_softmax).
static int32_t safe_softmax_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  tc_dtype d = tc_op_dtype(a, 2, t->dtype);
  if (tc_op_dim(a, 1, t->rank) < 0) return TC_STATUS_INVALID_ARGUMENT;
  if (!tc_dtype_is_float(d) || tc_dtype_is_complex(t->dtype))
    return tc_op_fail(a, "softmax is not implemented for %s as %s", tc_op_shape_text(a, 0), tc_dtype_torch_name(d));
  return tc_op_set_result(a, 0, d, t->rank, t->sizes, NULL);
}
static int32_t safe_softmax_lower(tc_op_args *a) {
  tc_dtype out = tc_op_result_type(a, 0)->dtype, compute = tc_op_math_type(out);
  tc_lt x = tc_lower_cast(a, tc_lo_arg(a, 0), out);
  int32_t rank = tc_lo_rank(a, x);
  bool reduced[TC_MAX_RANK] = {0};
  if (rank) reduced[tc_op_wrap_dim(a, tc_op_int(a, 1, 0), rank)] = true;
  static const char *const names[] = {"x", "m"};
  tc_lt pair[2] = {x, tc_lower_reduced(a, x, TC_RED_MAX, reduced, true, NULL, compute, compute)};
  tc_lt e = tc_lower_text(a, "where(m == -inf, 0, exp(min(x - m, 0)))", 2, names, pair, compute, compute);
  tc_lt last[2] = {e, tc_lower_reduced(a, e, TC_RED_SUM, reduced, true, NULL, compute, compute)};
  tc_lo_result(a, 0, tc_lower_text(a, "where(m == 0, 0, x / m)", 2, names, last, compute, out));
  return TC_STATUS_OK;
}
static int32_t safe_softmax_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_result_data(a, 0);
  int64_t dim = tc_op_wrap_dim(a, tc_op_int(a, 1, 0), x->rank), index[TC_MAX_RANK] = {0};
  int64_t n = x->rank ? x->sizes[dim] : 1, step = x->rank ? x->strides[dim] : 0, next = x->rank ? y->strides[dim] : 0;
  if (tc_ref_numel(y) == 0) return TC_STATUS_OK;
  do {
    if (index[dim]) continue;
    int64_t at = tc_ref_offset(x, index), to = tc_ref_offset(y, index);
    double max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n && !isnan(max); i++) {
      double v = tc_ref_f_as(a, x, at + i * step, y->nominal);
      max = isnan(v) ? v : fmax(max, v);
    }
    for (int64_t i = 0; i < n; i++)
      sum += max == -INFINITY ? 0 : exp(tc_ref_f_as(a, x, at + i * step, y->nominal) - max);
    for (int64_t i = 0; i < n; i++) {
      double v = tc_ref_f_as(a, x, at + i * step, y->nominal);
      tc_ref_put(y, to + i * next, (tc_c128){sum == 0 ? 0 : exp(v - max) / sum, 0});
    }
  } while (tc_ref_next(x->rank, x->sizes, index));
  return TC_STATUS_OK;
}

static const tc_op_def rows[] = {
    {.schema = "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float "
               "dropout_p=0.0, bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor",
     .traits = TC_OP_RANDOM, // by parts where something is dropped
     .meta = sdpa_meta,
     .expand = sdpa_expand,
     .lower = sdpa_lower,
     .ref = sdpa_ref,
     .flops = "_scaled_dot_product_flash_attention_for_cpu: 2 * query.numel * key.size(-2) + 2 * numel * key.size(-2)"},
    // With the logarithm of each row's sum.
    {.schema = "_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float "
               "dropout_p=0.0, bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor output, "
               "Tensor logsumexp)",
     .meta = flash_meta,
     .decompose = "let f = if(is_none(scale), 1.0 / float(query.size(-1)) ** 0.5, scale);"
                  "let r, l = _attention(query, key, value, attn_mask, is_causal, f); r, l"},
    {.schema = "_safe_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
     .traits = TC_OP_REDUCTION,
     .meta = safe_softmax_meta,
     .lower = safe_softmax_lower,
     .ref = safe_softmax_ref,
     .flops = "5 * numel"},
};
// Derivatives; see docs/ADDING_AN_OP.md for what the texts can name.
static const tc_op_derivative derivatives[] = {
    {"_safe_softmax", "self: to(mul(result, sub(grad, sum(mul(grad, result), [dim], true))), self.dtype)"},
};
TC_OP_FAMILY_WITH_DERIVATIVES(attention);
