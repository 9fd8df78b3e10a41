// Linear algebra: the factorisations, whose references are in dense.c, and what is a text over them.
//
// Matrices are the last two dimensions, the others a batch. PyTorch leaves most factors column-major; meta functions
// say so. A factorisation that a library of the device offers is a call; elsewhere the reference is the fallback.
#include <math.h>
#include <stdio.h>

#include "core/ops/dense.h"
#include "core/ops/ops.h"

typedef struct matrix_shape {
  int32_t batch; // dimensions before the matrix
  tc_int m, n, least;
} matrix_shape;

static int32_t read_matrix(tc_op_args *a, int32_t arg, bool square, matrix_shape *s) {
  const tc_tensor_type *t = tc_op_tensor(a, arg);
  if (!tc_dtype_is_float(t->dtype) && !tc_dtype_is_complex(t->dtype))
    return tc_op_fail(a, "Expected a floating point or complex tensor as input. Got %s", tc_dtype_torch_name(t->dtype));
  if (t->dtype != TC_F32 && t->dtype != TC_F64 && t->dtype != TC_C64 && t->dtype != TC_C128)
    return tc_op_fail(a, "Low precision dtypes not supported. Got %s", tc_dtype_torch_name(t->dtype));
  if (t->rank < 2)
    return tc_op_fail(a, "The input tensor A must have at least 2 dimensions: %s", tc_op_shape_text(a, arg));
  *s = (matrix_shape){t->rank - 2, t->sizes[t->rank - 2], t->sizes[t->rank - 1], NULL};
  s->least = tc_int_min(a, s->m, s->n);
  if (square && tc_int_require_eq(a, s->m, s->n))
    return tc_op_fail(a, "A must be batches of square matrices, but they are %s", tc_op_shape_text(a, arg));
  return TC_STATUS_OK;
}

// Result i: the batch of argument 0, then rows and columns (NULL: none), column-major if `columns_first`.
static int32_t set_matrix(tc_op_args *a, int32_t result, tc_dtype d, tc_int m, tc_int n, bool columns_first) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  int32_t rank = t->rank - 2;
  tc_int sizes[TC_MAX_RANK], strides[TC_MAX_RANK], one = tc_int_const(a, 1);
  for (int32_t k = 0; k < rank; k++) sizes[k] = t->sizes[k];
  if (m) sizes[rank++] = m;
  if (n) sizes[rank++] = n;
  tc_strides_make_contiguous(a->syms, rank, sizes, strides);
  if (columns_first && m && n) strides[rank - 2] = one, strides[rank - 1] = tc_int_max(a, m, one);
  return tc_op_set_result(a, result, d, rank, sizes, strides);
}

// Argument `arg` goes with argument 0's matrices: the same batch, and behind it `inner` sizes, of which the last is
// `last` (NULL: any).
static int32_t goes_with(tc_op_args *a, int32_t arg, int32_t inner, tc_int last) {
  const tc_tensor_type *t = tc_op_tensor(a, 0), *u = tc_op_tensor(a, arg);
  bool fits = u->rank - inner == t->rank - 2;
  for (int32_t d = 0; fits && d < t->rank - 2; d++) fits = !tc_int_require_eq(a, u->sizes[d], t->sizes[d]);
  if (fits && last) fits = !tc_int_require_eq(a, u->sizes[u->rank - 1], last);
  if (fits) return TC_STATUS_OK;
  return tc_op_fail(a, "the argument '" TC_SV_FMT "', %s, does not fit the matrices of %s",
                    TC_SV_ARG(a->op->schema.args[arg].name), tc_op_shape_text(a, arg), tc_op_shape_text(a, 0));
}

// ---- references: a matrix of the batch at a time ----
typedef struct batch {
  int32_t rank;
  int64_t sizes[TC_MAX_RANK], index[TC_MAX_RANK];
  bool more;
} batch;
static batch batch_of(const tc_ref_view *v, int32_t inner) {
  batch b = {.rank = v->rank - inner, .more = true};
  for (int32_t d = 0; d < b.rank; d++) b.sizes[d] = v->sizes[d], b.more = b.more && v->sizes[d] > 0;
  return b;
}
static void advance(batch *b) { b->more = tc_ref_next(b->rank, b->sizes, b->index); }
// Offset of the batch's matrix in a view that may be broadcast to it.
static int64_t start_of(const batch *b, const tc_ref_view *v, int32_t inner) {
  int64_t at = 0;
  for (int32_t d = 0, own = v->rank - inner; d < own; d++)
    at += v->sizes[d] == 1 ? 0 : b->index[d + b->rank - own] * v->strides[d];
  return at;
}
static void take(const batch *b, const tc_ref_view *v, tc_z *out) {
  int64_t at = start_of(b, v, 2), m = v->sizes[v->rank - 2], n = v->sizes[v->rank - 1];
  for (int64_t j = 0; j < n; j++) {
    for (int64_t i = 0; i < m; i++) {
      tc_c128 z = tc_ref_c(v, at + i * v->strides[v->rank - 2] + j * v->strides[v->rank - 1]);
      out[i + j * m] = CMPLX(z.re, z.im);
    }
  }
}
static void give(const batch *b, const tc_ref_view *v, const tc_z *in, int64_t ld) {
  int64_t at = start_of(b, v, 2), m = v->sizes[v->rank - 2], n = v->sizes[v->rank - 1];
  for (int64_t j = 0; j < n; j++)
    for (int64_t i = 0; i < m; i++)
      tc_ref_put(v, at + i * v->strides[v->rank - 2] + j * v->strides[v->rank - 1],
                 (tc_c128){creal(in[i + j * ld]), cimag(in[i + j * ld])});
}
static void give_vector(const batch *b, const tc_ref_view *v, const tc_z *in) {
  int64_t at = start_of(b, v, 1);
  for (int64_t i = 0; i < v->sizes[v->rank - 1]; i++)
    tc_ref_put(v, at + i * v->strides[v->rank - 1], (tc_c128){creal(in[i]), cimag(in[i])});
}
static tc_z *space(tc_op_args *a, int64_t n) { return tc_op_scratch(a, (uint64_t)(n + 1) * sizeof(tc_z)); }
static int64_t larger(int64_t x, int64_t y) { return x > y ? x : y; }
static int64_t smaller(int64_t x, int64_t y) { return x < y ? x : y; }

// ---- LU ----
static int32_t lu_meta(tc_op_args *a) {
  matrix_shape s;
  tc_dtype d = tc_op_tensor(a, 0)->dtype;
  if (read_matrix(a, 0, false, &s)) return TC_STATUS_INVALID_ARGUMENT;
  return set_matrix(a, 0, d, s.m, s.n, true) || set_matrix(a, 1, TC_I32, s.least, NULL, false) ||
         set_matrix(a, 2, TC_I32, NULL, NULL, false);
}
static int32_t lu_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *lu = tc_op_result_data(a, 0), *piv = tc_op_result_data(a, 1),
                    *info = tc_op_result_data(a, 2);
  int64_t m = x->sizes[x->rank - 2], n = x->sizes[x->rank - 1], least = smaller(m, n);
  tc_z *w = space(a, m * n);
  int64_t *p = tc_op_scratch(a, (uint64_t)(least + 1) * sizeof *p);
  if (!w || !p) return TC_STATUS_OUT_OF_MEMORY;
  for (batch b = batch_of(x, 2); b.more; advance(&b)) {
    take(&b, x, w);
    tc_ref_put_i(info, start_of(&b, info, 0), tc_dense_lu(m, n, w, p, tc_op_bool(a, 1, 1)));
    give(&b, lu, w, m);
    for (int64_t k = 0; k < least; k++) tc_ref_put_i(piv, start_of(&b, piv, 1) + k, p[k] + 1);
  }
  return TC_STATUS_OK;
}
// X of A·X = B (X·A = B where argument 3, `left`, is false): batches broadcast, the columns of X lie dense.
static int32_t solve_meta(tc_op_args *a, int32_t system, int32_t rhs, const char *name) {
  const tc_tensor_type *t = tc_op_tensor(a, system), *b = tc_op_tensor(a, rhs);
  matrix_shape s;
  bool left = tc_op_bool(a, 3, 1);
  if (read_matrix(a, system, true, &s)) return TC_STATUS_INVALID_ARGUMENT;
  if (b->rank < 2 || t->dtype != b->dtype || tc_int_require_eq(a, b->sizes[b->rank - (left ? 2 : 1)], s.n))
    return tc_op_fail(a, "Incompatible shapes or dtypes of %s and B: %s and %s", name, tc_op_shape_text(a, system),
                      tc_op_shape_text(a, rhs));
  int32_t rank = t->rank > b->rank ? t->rank : b->rank;
  tc_int sizes[TC_MAX_RANK], strides[TC_MAX_RANK], one = tc_int_const(a, 1);
  for (int32_t d = 0; d < rank - 2; d++) {
    int32_t p = d - (rank - t->rank), q = d - (rank - b->rank);
    tc_int u = p >= 0 ? t->sizes[p] : one, v = q >= 0 ? b->sizes[q] : one;
    if (!tc_sym_is_int(u, 1) && !tc_sym_is_int(v, 1) && tc_int_require_eq(a, u, v))
      return tc_op_fail(a, "the batches of %s and B do not broadcast: %s and %s", name, tc_op_shape_text(a, system),
                        tc_op_shape_text(a, rhs));
    sizes[d] = tc_sym_is_int(u, 1) ? v : u;
  }
  sizes[rank - 2] = b->sizes[b->rank - 2], sizes[rank - 1] = b->sizes[b->rank - 1];
  tc_strides_make_contiguous(a->syms, rank, sizes, strides);
  strides[rank - 2] = one, strides[rank - 1] = tc_int_max(a, sizes[rank - 2], one);
  return tc_op_set_result(a, 0, b->dtype, rank, sizes, strides);
}
// Row exchanges of an LU factorisation, one for each of `n` rows.
static int32_t check_exchanges(tc_op_args *a, tc_int n) {
  if (tc_op_tensor(a, 1)->dtype != TC_I32)
    return tc_op_fail(a, "pivots should be a Tensor of scalar type torch.int32: %s", tc_op_shape_text(a, 1));
  return goes_with(a, 1, 1, n);
}
// X of A·X = B from the factors: the row exchanges, then two triangles; the transposed system backwards.
static int32_t lu_solve_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  if (solve_meta(a, 0, 2, "LU")) return TC_STATUS_INVALID_ARGUMENT;
  return check_exchanges(a, t->sizes[t->rank - 1]);
}
static void lu_apply(int64_t n, const tc_z *lu, const tc_ref_view *piv, int64_t at, int op, int64_t columns, tc_z *b) {
  int64_t step = piv->strides[piv->rank - 1];
  for (int64_t k = 0; k < n && op == 0; k++) {
    int64_t p = tc_ref_i(piv, at + k * step) - 1;
    for (int64_t c = 0; c < columns && p != k && p >= 0 && p < n; c++) {
      tc_z t = b[k + c * n];
      b[k + c * n] = b[p + c * n], b[p + c * n] = t;
    }
  }
  tc_dense_triangular(n, lu, op != 0, op == 0, op, columns, b); // L, or the transpose of U
  tc_dense_triangular(n, lu, op == 0, op != 0, op, columns, b);
  for (int64_t k = n - 1; k >= 0 && op != 0; k--) {
    int64_t p = tc_ref_i(piv, at + k * step) - 1;
    for (int64_t c = 0; c < columns && p != k && p >= 0 && p < n; c++) {
      tc_z t = b[k + c * n];
      b[k + c * n] = b[p + c * n], b[p + c * n] = t;
    }
  }
}
static int32_t lu_solve_ref(tc_op_args *a) {
  const tc_ref_view *lu = tc_op_data(a, 0), *piv = tc_op_data(a, 1), *rhs = tc_op_data(a, 2),
                    *x = tc_op_result_data(a, 0);
  bool left = tc_op_bool(a, 3, 1), adjoint = tc_op_bool(a, 4, 0);
  int64_t n = lu->sizes[lu->rank - 1], p = rhs->sizes[rhs->rank - 2], q = rhs->sizes[rhs->rank - 1],
          columns = left ? q : p;
  tc_z *w = space(a, n * n), *b = space(a, n * columns), *raw = space(a, p * q);
  if (!w || !b || !raw) return TC_STATUS_OUT_OF_MEMORY;
  for (batch k = batch_of(x, 2); k.more; advance(&k)) {
    take(&k, lu, w);
    take(&k, rhs, raw);
    for (int64_t i = 0; i < n; i++) {
      int64_t row = tc_ref_i(piv, start_of(&k, piv, 1) + i * piv->strides[piv->rank - 1]);
      if (row < 1 || row > n) return tc_op_fail(a, "pivots given to lu_solve must be between 1 and %lld", (long long)n);
    }
    // X·A = B is Aᵀ·Xᵀ = Bᵀ; with the adjoint everything is conjugated
    for (int64_t j = 0; j < columns; j++)
      for (int64_t i = 0; i < n; i++) {
        tc_z v = left ? raw[i + j * p] : raw[j + i * p];
        b[i + j * n] = !left && adjoint ? conj(v) : v;
      }
    lu_apply(n, w, piv, start_of(&k, piv, 1), left ? (adjoint ? 2 : 0) : adjoint ? 0 : 1, columns, b);
    for (int64_t j = 0; j < columns; j++)
      for (int64_t i = 0; i < n; i++) {
        tc_z v = b[i + j * n];
        raw[left ? i + j * p : j + i * p] = !left && adjoint ? conj(v) : v;
      }
    give(&k, x, raw, p);
  }
  return TC_STATUS_OK;
}
static int32_t lu_unpack_meta(tc_op_args *a) {
  matrix_shape s;
  tc_dtype d = tc_op_tensor(a, 0)->dtype;
  tc_int none = tc_int_const(a, 0);
  bool data = tc_op_bool(a, 2, 1), pivots = tc_op_bool(a, 3, 1);
  if (read_matrix(a, 0, false, &s)) return TC_STATUS_INVALID_ARGUMENT;
  if (pivots && check_exchanges(a, s.least)) return TC_STATUS_INVALID_ARGUMENT;
  int32_t bad = pivots ? set_matrix(a, 0, d, s.m, s.m, false) : tc_op_set_result(a, 0, d, 1, &none, NULL);
  if (!data) return bad || tc_op_set_result(a, 1, d, 1, &none, NULL) || tc_op_set_result(a, 2, d, 1, &none, NULL);
  return bad || set_matrix(a, 1, d, s.m, s.least, false) || set_matrix(a, 2, d, s.least, s.n, false);
}
static int32_t lu_unpack_ref(tc_op_args *a) {
  const tc_ref_view *lu = tc_op_data(a, 0), *piv = tc_op_data(a, 1), *out[3];
  for (int32_t k = 0; k < 3; k++) out[k] = tc_op_result_data(a, k);
  int64_t m = lu->sizes[lu->rank - 2], n = lu->sizes[lu->rank - 1], least = smaller(m, n);
  tc_z *w = space(a, m * n), *t = space(a, larger(m, n) * larger(m, n));
  int64_t *row = tc_op_scratch(a, (uint64_t)(m + 1) * sizeof *row);
  if (!w || !t || !row) return TC_STATUS_OUT_OF_MEMORY;
  for (batch b = batch_of(lu, 2); b.more; advance(&b)) {
    take(&b, lu, w);
    if (tc_op_bool(a, 3, 1)) {
      for (int64_t k = 0; k < m; k++) row[k] = k;
      for (int64_t k = 0; k < least; k++) {
        int64_t p = tc_ref_i(piv, start_of(&b, piv, 1) + k * piv->strides[piv->rank - 1]) - 1, r = row[k];
        if (p < 0 || p >= m)
          return tc_op_fail(a, "pivots passed to lu_unpack must be between 1 and %lld", (long long)m);
        row[k] = row[p], row[p] = r;
      }
      for (int64_t k = 0; k < m * m; k++) t[k] = 0;
      for (int64_t k = 0; k < m; k++) t[row[k] + k * m] = 1;
      give(&b, out[0], t, m);
    }
    if (!tc_op_bool(a, 2, 1)) continue;
    for (int64_t j = 0; j < least; j++)
      for (int64_t i = 0; i < m; i++) t[i + j * m] = i == j ? 1 : i > j ? w[i + j * m] : 0;
    give(&b, out[1], t, m);
    for (int64_t j = 0; j < n; j++)
      for (int64_t i = 0; i < least; i++) t[i + j * least] = i <= j ? w[i + j * m] : 0;
    give(&b, out[2], t, least);
  }
  return TC_STATUS_OK;
}

// ---- Cholesky ----
static int32_t cholesky_meta(tc_op_args *a) {
  matrix_shape s;
  if (read_matrix(a, 0, true, &s)) return TC_STATUS_INVALID_ARGUMENT;
  return set_matrix(a, 0, tc_op_tensor(a, 0)->dtype, s.m, s.n, true) || set_matrix(a, 1, TC_I32, NULL, NULL, false);
}
static int32_t cholesky_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *l = tc_op_result_data(a, 0), *info = tc_op_result_data(a, 1);
  int64_t n = x->sizes[x->rank - 1];
  tc_z *w = space(a, n * n);
  if (!w) return TC_STATUS_OUT_OF_MEMORY;
  for (batch b = batch_of(x, 2); b.more; advance(&b)) {
    take(&b, x, w);
    tc_ref_put_i(info, start_of(&b, info, 0), tc_dense_cholesky(n, w, tc_op_bool(a, 1, 0)));
    give(&b, l, w, n);
  }
  return TC_STATUS_OK;
}

// ---- triangular systems ----
static int32_t triangular_meta(tc_op_args *a) { return solve_meta(a, 0, 1, "A"); }
static int32_t triangular_ref(tc_op_args *a) {
  const tc_ref_view *t = tc_op_data(a, 0), *rhs = tc_op_data(a, 1), *x = tc_op_result_data(a, 0);
  bool upper = tc_op_bool(a, 2, 0), left = tc_op_bool(a, 3, 1), unit = tc_op_bool(a, 4, 0);
  int64_t n = t->sizes[t->rank - 1], p = rhs->sizes[rhs->rank - 2], q = rhs->sizes[rhs->rank - 1],
          columns = left ? q : p;
  tc_z *w = space(a, n * n), *raw = space(a, p * q), *b = space(a, p * q);
  if (!w || !raw || !b) return TC_STATUS_OUT_OF_MEMORY;
  for (batch k = batch_of(x, 2); k.more; advance(&k)) {
    take(&k, t, w);
    take(&k, rhs, raw);
    for (int64_t j = 0; j < columns; j++)
      for (int64_t i = 0; i < n; i++) b[i + j * n] = left ? raw[i + j * p] : raw[j + i * p];
    tc_dense_triangular(n, w, upper, unit, left ? 0 : 1, columns, b);
    for (int64_t j = 0; j < columns; j++)
      for (int64_t i = 0; i < n; i++) raw[left ? i + j * p : j + i * p] = b[i + j * n];
    give(&k, x, raw, p);
  }
  return TC_STATUS_OK;
}

// ---- QR ----
static int32_t geqrf_meta(tc_op_args *a) {
  matrix_shape s;
  tc_dtype d = tc_op_tensor(a, 0)->dtype;
  if (read_matrix(a, 0, false, &s)) return TC_STATUS_INVALID_ARGUMENT;
  return set_matrix(a, 0, d, s.m, s.n, true) || set_matrix(a, 1, d, s.least, NULL, false);
}
static int32_t geqrf_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_result_data(a, 0), *tau = tc_op_result_data(a, 1);
  int64_t m = x->sizes[x->rank - 2], n = x->sizes[x->rank - 1];
  tc_z *w = space(a, m * n), *t = space(a, smaller(m, n));
  if (!w || !t) return TC_STATUS_OUT_OF_MEMORY;
  for (batch b = batch_of(x, 2); b.more; advance(&b)) {
    take(&b, x, w);
    tc_dense_qr(m, n, w, t);
    give(&b, y, w, m);
    give_vector(&b, tau, t);
  }
  return TC_STATUS_OK;
}
static int32_t qr_meta(tc_op_args *a) {
  matrix_shape s;
  tc_dtype d = tc_op_tensor(a, 0)->dtype;
  tc_sv mode = tc_op_string(a, 1);
  tc_int none = tc_int_const(a, 0);
  if (read_matrix(a, 0, false, &s)) return TC_STATUS_INVALID_ARGUMENT;
  if (!tc_sv_is(mode, "reduced") && !tc_sv_is(mode, "complete") && !tc_sv_is(mode, "r"))
    return tc_op_fail(a,
                      "qr received unrecognized mode '" TC_SV_FMT "' but expected one of 'reduced', 'r' or 'complete'",
                      TC_SV_ARG(mode));
  bool complete = tc_sv_is(mode, "complete");
  int32_t bad = tc_sv_is(mode, "r") ? tc_op_set_result(a, 0, d, 1, &none, NULL)
                                    : set_matrix(a, 0, d, s.m, complete ? s.m : s.least, true);
  return bad || set_matrix(a, 1, d, complete ? s.m : s.least, s.n, true);
}
static int32_t qr_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *q = tc_op_result_data(a, 0), *r = tc_op_result_data(a, 1);
  int64_t m = x->sizes[x->rank - 2], n = x->sizes[x->rank - 1], least = smaller(m, n), rows = r->sizes[r->rank - 2];
  bool with_q = !tc_sv_is(tc_op_string(a, 1), "r");
  tc_z *w = space(a, m * n), *t = space(a, least), *f = space(a, m * larger(m, n));
  if (!w || !t || !f) return TC_STATUS_OUT_OF_MEMORY;
  for (batch b = batch_of(x, 2); b.more; advance(&b)) {
    take(&b, x, w);
    tc_dense_qr(m, n, w, t);
    for (int64_t j = 0; j < n; j++)
      for (int64_t i = 0; i < rows; i++) f[i + j * rows] = i <= j ? w[i + j * m] : 0;
    give(&b, r, f, rows);
    if (!with_q) continue;
    tc_dense_householder(m, least, w, t, q->sizes[q->rank - 1], f);
    give(&b, q, f, m);
  }
  return TC_STATUS_OK;
}
static int32_t householder_meta(tc_op_args *a) {
  matrix_shape s;
  if (read_matrix(a, 0, false, &s) || goes_with(a, 1, 1, NULL)) return TC_STATUS_INVALID_ARGUMENT;
  const tc_tensor_type *tau = tc_op_tensor(a, 1);
  if (tau->dtype != tc_op_tensor(a, 0)->dtype || tc_int_lt(a, s.m, s.n) == 1 ||
      tc_int_lt(a, s.n, tau->sizes[tau->rank - 1]) == 1)
    return tc_op_fail(a, "input.shape[-2] ≥ input.shape[-1] ≥ tau.shape[-1] and one dtype are expected: %s and %s",
                      tc_op_shape_text(a, 0), tc_op_shape_text(a, 1));
  return set_matrix(a, 0, tc_op_tensor(a, 0)->dtype, s.m, s.n, true);
}
static int32_t householder_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *tau = tc_op_data(a, 1), *q = tc_op_result_data(a, 0);
  int64_t m = x->sizes[x->rank - 2], n = x->sizes[x->rank - 1], k = tau->sizes[tau->rank - 1];
  if (k > n || n > m) return tc_op_fail(a, "input.shape[-2] must be at least input.shape[-1], and that at least tau's");
  tc_z *w = space(a, m * n), *t = space(a, k), *f = space(a, m * n);
  if (!w || !t || !f) return TC_STATUS_OUT_OF_MEMORY;
  for (batch b = batch_of(x, 2); b.more; advance(&b)) {
    take(&b, x, w);
    for (int64_t i = 0; i < k; i++) {
      tc_c128 z = tc_ref_c(tau, start_of(&b, tau, 1) + i * tau->strides[tau->rank - 1]);
      t[i] = CMPLX(z.re, z.im);
    }
    tc_dense_householder(m, k, w, t, n, f);
    give(&b, q, f, m);
  }
  return TC_STATUS_OK;
}

// ---- eigenvalues, singular values ----
static int32_t eigh_meta(tc_op_args *a) {
  matrix_shape s;
  tc_dtype d = tc_op_tensor(a, 0)->dtype;
  tc_int none = tc_int_const(a, 0);
  if (read_matrix(a, 0, true, &s)) return TC_STATUS_INVALID_ARGUMENT;
  if (set_matrix(a, 0, tc_dtype_real(d), s.n, NULL, false)) return TC_STATUS_INVALID_ARGUMENT;
  return tc_op_bool(a, 2, 1) ? set_matrix(a, 1, d, s.n, s.n, true) : tc_op_set_result(a, 1, d, 1, &none, NULL);
}
static bool is_finite(int64_t count, const tc_z *w) {
  bool finite = true;
  for (int64_t k = 0; k < count; k++) finite &= isfinite(creal(w[k])) && isfinite(cimag(w[k]));
  return finite;
}
// Of a matrix that is not finite all values and vectors are NaN: what LAPACK makes of it is an error, NaN, or numbers.
static int32_t eigh_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *e = tc_op_result_data(a, 0), *v = tc_op_result_data(a, 1);
  int64_t n = x->sizes[x->rank - 1];
  tc_sv part = tc_op_string(a, 1);
  bool upper = part.size && (part.data[0] == 'U' || part.data[0] == 'u');
  tc_z *w = space(a, n * n), *t = space(a, n * n);
  double *values = tc_op_scratch(a, (uint64_t)(n + 1) * sizeof *values);
  if (!w || !t || !values) return TC_STATUS_OUT_OF_MEMORY;
  for (batch b = batch_of(x, 2); b.more; advance(&b)) {
    take(&b, x, w);
    for (int64_t j = 0; j < n; j++) { // from one triangle
      w[j + j * n] = creal(w[j + j * n]);
      for (int64_t i = j + 1; i < n; i++) {
        if (upper) w[i + j * n] = conj(w[j + i * n]);
        else w[j + i * n] = conj(w[i + j * n]);
      }
    }
    if (is_finite(n * n, w)) tc_dense_eigh(n, w, values, t);
    else
      for (int64_t k = 0; k < n * n; k++) w[k] = values[k % n] = NAN;
    for (int64_t k = 0; k < n; k++) tc_ref_put(e, start_of(&b, e, 1) + k, (tc_c128){values[k], 0});
    if (tc_op_bool(a, 2, 1)) give(&b, v, w, n);
  }
  return TC_STATUS_OK;
}
static int32_t eig_meta(tc_op_args *a) {
  matrix_shape s;
  if (read_matrix(a, 0, true, &s)) return TC_STATUS_INVALID_ARGUMENT;
  tc_dtype d = tc_op_tensor(a, 0)->dtype, c = tc_dtype_is_complex(d) ? d : tc_dtype_complex(d);
  return set_matrix(a, 0, c, s.n, NULL, false) || (a->n_results > 1 && set_matrix(a, 1, c, s.n, s.n, true));
}
static int32_t eig_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *e = tc_op_result_data(a, 0),
                    *v = a->n_results > 1 ? tc_op_result_data(a, 1) : NULL;
  int64_t n = x->sizes[x->rank - 1];
  tc_z *w = space(a, n * n), *t = space(a, n * n), *values = space(a, n), *vectors = space(a, n * n);
  if (!w || !t || !values || !vectors) return TC_STATUS_OUT_OF_MEMORY;
  for (batch b = batch_of(x, 2); b.more; advance(&b)) {
    take(&b, x, w);
    bool finite = is_finite(n * n, w);
    if (!finite && v) return tc_op_fail(a, "torch.linalg.eig: input tensor should not contain infs or NaNs.");
    for (int64_t k = 0; k < n && !finite; k++) values[k] = NAN + NAN * _Complex_I;
    if (finite && !tc_dense_eig(n, w, values, v ? vectors : NULL, t))
      return tc_op_fail(a, "The algorithm failed to converge because the input matrix is ill-conditioned");
    give_vector(&b, e, values);
    if (v) give(&b, v, vectors, n);
  }
  return TC_STATUS_OK;
}
static int32_t svd_meta(tc_op_args *a) {
  matrix_shape s;
  tc_dtype d = tc_op_tensor(a, 0)->dtype;
  tc_int none = tc_int_const(a, 0);
  bool full = tc_op_bool(a, 1, 0);
  if (read_matrix(a, 0, false, &s) || set_matrix(a, 1, tc_dtype_real(d), s.least, NULL, false))
    return TC_STATUS_INVALID_ARGUMENT;
  if (!tc_op_bool(a, 2, 1))
    return tc_op_set_result(a, 0, d, 1, &none, NULL) || tc_op_set_result(a, 2, d, 1, &none, NULL);
  return set_matrix(a, 0, d, s.m, full ? s.m : s.least, true) || set_matrix(a, 2, d, full ? s.n : s.least, s.n, true);
}
static int32_t svd_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *u = tc_op_result_data(a, 0), *s = tc_op_result_data(a, 1),
                    *vh = tc_op_result_data(a, 2);
  int64_t m = x->sizes[x->rank - 2], n = x->sizes[x->rank - 1], big = larger(m, n), least = smaller(m, n);
  bool wide = m < n, vectors = tc_op_bool(a, 2, 1); // a wide matrix is done as its adjoint
  tc_z *w = space(a, m * n), *p = space(a, big * big), *q = space(a, least * least), *t = space(a, big * big);
  double *values = tc_op_scratch(a, (uint64_t)(least + 1) * sizeof *values);
  if (!w || !p || !q || !t || !values) return TC_STATUS_OUT_OF_MEMORY;
  for (batch b = batch_of(x, 2); b.more; advance(&b)) {
    take(&b, x, w);
    for (int64_t k = 0; k < m * n; k++)
      if (isnan(creal(w[k])) || isnan(cimag(w[k])))
        return tc_op_fail(a, "The algorithm failed to converge because the input matrix contained non-finite values");
    for (int64_t j = 0; j < least; j++)
      for (int64_t i = 0; i < big; i++) p[i + j * big] = wide ? conj(w[j + i * m]) : w[i + j * m];
    if (is_finite(m * n, w)) tc_dense_svd(big, least, p, values, q);
    else {
      for (int64_t k = 0; k < big * least; k++) p[k] = NAN;
      for (int64_t k = 0; k < least * least; k++) q[k] = values[k % least] = NAN;
    }
    for (int64_t k = 0; k < least; k++) tc_ref_put(s, start_of(&b, s, 1) + k, (tc_c128){values[k], 0});
    if (!vectors) continue;
    tc_dense_complete(big, least, p);
    give(&b, u, wide ? q : p, m);
    int64_t rows = vh->sizes[vh->rank - 2];
    const tc_z *v = wide ? p : q;
    for (int64_t j = 0; j < n; j++)
      for (int64_t i = 0; i < rows; i++) t[i + j * rows] = conj(v[j + i * n]);
    give(&b, vh, t, rows);
  }
  return TC_STATUS_OK;
}

// ---- L·D·Lᵀ, the exponential ----
static int32_t ldl_meta(tc_op_args *a) {
  matrix_shape s;
  if (read_matrix(a, 0, true, &s)) return TC_STATUS_INVALID_ARGUMENT;
  return set_matrix(a, 0, tc_op_tensor(a, 0)->dtype, s.m, s.n, true) || set_matrix(a, 1, TC_I32, s.n, NULL, false) ||
         set_matrix(a, 2, TC_I32, NULL, NULL, false);
}
static int32_t ldl_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *ld = tc_op_result_data(a, 0), *piv = tc_op_result_data(a, 1),
                    *info = tc_op_result_data(a, 2);
  int64_t n = x->sizes[x->rank - 1], *p = tc_op_scratch(a, (uint64_t)(n + 1) * sizeof *p);
  bool hermitian = tc_op_bool(a, 1, 0) && x->dtype == TC_C128;
  tc_z *w = space(a, n * n);
  if (!w || !p) return TC_STATUS_OUT_OF_MEMORY;
  for (batch b = batch_of(x, 2); b.more; advance(&b)) {
    take(&b, x, w);
    for (int64_t j = 0; j < n; j++)
      for (int64_t i = 0; i < j; i++) w[i + j * n] = 0;
    tc_ref_put_i(info, start_of(&b, info, 0), tc_dense_ldl(n, w, p, hermitian));
    give(&b, ld, w, n);
    for (int64_t k = 0; k < n; k++) tc_ref_put_i(piv, start_of(&b, piv, 1) + k, p[k]);
  }
  return TC_STATUS_OK;
}
static int32_t ldl_solve_meta(tc_op_args *a) {
  const tc_tensor_type *b = tc_op_tensor(a, 2);
  matrix_shape s;
  if (read_matrix(a, 0, true, &s)) return TC_STATUS_INVALID_ARGUMENT;
  if (b->rank < 2 || tc_int_require_eq(a, b->sizes[b->rank - 2], s.n))
    return tc_op_fail(a, "Incompatible shapes of LD and B: %s and %s", tc_op_shape_text(a, 0), tc_op_shape_text(a, 2));
  if (goes_with(a, 1, 1, s.n) || goes_with(a, 2, 2, NULL)) return TC_STATUS_INVALID_ARGUMENT;
  if (b->dtype != tc_op_tensor(a, 0)->dtype)
    return tc_op_fail(a, "Expected LD and B to have the same dtype: %s and %s", tc_op_shape_text(a, 0),
                      tc_op_shape_text(a, 2));
  tc_dtype d = tc_op_tensor(a, 1)->dtype;
  if (d == TC_BOOL || tc_dtype_is_float(d) || tc_dtype_is_complex(d))
    return tc_op_fail(a, "Expected pivots to be integers: %s", tc_op_shape_text(a, 1));
  return set_matrix(a, 0, b->dtype, s.n, b->sizes[b->rank - 1], true);
}
// Rows within the matrix; negative ones, of blocks of two rows, come in pairs.
static bool pivots_fit(int64_t n, const int64_t *p) {
  for (int64_t i = 0; i < n; i++) {
    if (p[i] == 0 || p[i] > n || p[i] < -n) return false;
    if (p[i] > 0) continue;
    i++;
    if (i == n || p[i] >= 0 || p[i] < -n) return false;
  }
  return true;
}
static int32_t ldl_solve_ref(tc_op_args *a) {
  const tc_ref_view *ld = tc_op_data(a, 0), *piv = tc_op_data(a, 1), *rhs = tc_op_data(a, 2),
                    *x = tc_op_result_data(a, 0);
  int64_t n = ld->sizes[ld->rank - 1], c = rhs->sizes[rhs->rank - 1],
          *p = tc_op_scratch(a, (uint64_t)(n + 1) * sizeof *p);
  tc_z *w = space(a, n * n), *b = space(a, n * c);
  if (!w || !b || !p) return TC_STATUS_OUT_OF_MEMORY;
  for (batch k = batch_of(x, 2); k.more; advance(&k)) {
    take(&k, ld, w);
    take(&k, rhs, b);
    for (int64_t i = 0; i < n; i++) p[i] = tc_ref_i(piv, start_of(&k, piv, 1) + i * piv->strides[piv->rank - 1]);
    if (!pivots_fit(n, p)) return tc_op_fail(a, "the pivots are none of %d rows", (int)n);
    tc_dense_ldl_solve(n, w, p, tc_op_bool(a, 3, 0) && ld->dtype == TC_C128, c, b);
    give(&k, x, b, n);
  }
  return TC_STATUS_OK;
}
static int32_t exp_meta(tc_op_args *a) {
  matrix_shape s;
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  tc_dtype d = t->dtype;
  bool halves = d == TC_F16 || d == TC_BF16;
  if (!halves && read_matrix(a, 0, true, &s)) return TC_STATUS_INVALID_ARGUMENT;
  if (halves && (t->rank < 2 || tc_int_require_eq(a, t->sizes[t->rank - 1], t->sizes[t->rank - 2])))
    return tc_op_fail(a, "A must be batches of square matrices, but they are %s", tc_op_shape_text(a, 0));
  return tc_op_set_result(a, 0, d, t->rank, t->sizes, NULL);
}
static int32_t exp_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_result_data(a, 0);
  int64_t n = x->sizes[x->rank - 1];
  tc_z *w = space(a, n * n), *t = space(a, 3 * n * n);
  if (!w || !t) return TC_STATUS_OUT_OF_MEMORY;
  for (batch b = batch_of(x, 2); b.more; advance(&b)) {
    take(&b, x, w);
    tc_dense_exp(n, w, t);
    give(&b, y, w, n);
  }
  return TC_STATUS_OK;
}

// _linalg_checked(x, info, name): x, if every info is 0; else PyTorch's words for what the info means.
static int32_t checked_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *info = tc_op_data(a, 1), *y = tc_op_result_data(a, 0);
  tc_sv name = tc_op_string(a, 2);
  bool minor = tc_sv_starts(name, "linalg.cholesky");
  int64_t i[TC_MAX_RANK] = {0}, k = 0;
  for (bool more = tc_ref_numel(info) > 0; more; more = tc_ref_next(info->rank, info->sizes, i), k++) {
    long long v = (long long)tc_ref_i(info, tc_ref_offset(info, i));
    if (v == 0) continue;
    char which[48] = "";
    if (info->rank) snprintf(which, sizeof which, "(Batch element %lld): ", (long long)k);
    if (minor)
      return tc_op_fail(a,
                        TC_SV_FMT ": %sThe factorization could not be completed because the input is not "
                                  "positive-definite (the leading minor of order %lld is not positive-definite).",
                        TC_SV_ARG(name), which, v);
    return tc_op_fail(a,
                      TC_SV_FMT ": %sThe diagonal element %lld is zero, the %s could not be completed because the "
                                "input matrix is singular.",
                      TC_SV_ARG(name), which, v, tc_sv_is(name, "linalg.inv") ? "inversion" : "solve");
  }
  for (int32_t d = 0; d < x->rank; d++) i[d] = 0;
  for (bool more = tc_ref_numel(y) > 0; more; more = tc_ref_next(y->rank, y->sizes, i))
    tc_ref_copy(y, tc_ref_offset(y, i), x, tc_ref_offset(x, i));
  return TC_STATUS_OK;
}

// ---- by squaring, and shapes that texts cannot say ----
static int32_t power_expand(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  int64_t n = tc_op_int(a, 1, 1);
  if (t->rank < 2)
    return tc_op_fail(a, "The input tensor A must have at least 2 dimensions: %s", tc_op_shape_text(a, 0));
  tc_gv x = tc_ex_arg(a, 0), r = -1;
  if (n == 0) {
    tc_ex_begin(a, "aten::eye");
    tc_ex_push_int(a, t->sizes[t->rank - 1]);
    tc_ex_push_dtype(a, t->dtype);
    tc_gv one = tc_ex_make(a, 1, NULL);
    tc_ex_begin(a, "aten::expand_copy");
    tc_ex_push(a, one);
    tc_ex_push_ints(a, t->rank, t->sizes);
    tc_ex_result(a, 0, tc_ex_make(a, 1, NULL));
    return TC_STATUS_OK;
  }
  if (n < 0) {
    tc_ex_begin(a, "aten::linalg_inv");
    tc_ex_push(a, x);
    x = tc_ex_make(a, 1, NULL);
  }
  for (uint64_t e = n < 0 ? 0 - (uint64_t)n : (uint64_t)n; e; e >>= 1) {
    if (e & 1) {
      tc_gv before = r;
      if (before >= 0) {
        tc_ex_begin(a, "aten::matmul");
        tc_ex_push(a, before);
        tc_ex_push(a, x);
        r = tc_ex_make(a, 1, NULL);
      } else {
        r = x;
      }
    }
    if (e <= 1) break;
    tc_ex_begin(a, "aten::matmul");
    tc_ex_push(a, x);
    tc_ex_push(a, x);
    x = tc_ex_make(a, 1, NULL);
  }
  if (n == 1) {
    tc_ex_begin(a, "aten::_row_major");
    tc_ex_push(a, x);
    r = tc_ex_make(a, 1, NULL);
  }
  tc_ex_result(a, 0, r);
  return TC_STATUS_OK;
}

// linalg_solve and _ex: B is a batch of vectors if it has one dimension, or A's batch and rows.
static int32_t solve_expand(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0), *b = tc_op_tensor(a, 1);
  bool vector = b->rank == 1 || b->rank == t->rank - 1, checked = tc_sv_is(a->op->schema.name, "linalg_solve");
  for (int32_t d = 0; vector && b->rank > 1 && d < b->rank; d++) vector = tc_int_eq(a, b->sizes[d], t->sizes[d]) == 1;
  tc_gv f[3], rhs = tc_ex_arg(a, 1), x;
  tc_ex_begin(a, "aten::linalg_lu_factor_ex");
  tc_ex_push_arg(a, 0);
  tc_ex_make(a, 3, f);
  if (vector) {
    tc_ex_begin(a, "aten::unsqueeze");
    tc_ex_push(a, rhs);
    tc_ex_push_int(a, tc_int_const(a, -1));
    rhs = tc_ex_make(a, 1, NULL);
  }
  if (checked) {
    tc_ex_begin(a, "aten::_linalg_checked");
    tc_ex_push(a, f[0]);
    tc_ex_push(a, f[2]);
    tc_ex_push_string(a, TC_SV("linalg.solve"));
    f[0] = tc_ex_make(a, 1, NULL);
  }
  tc_ex_begin(a, "aten::linalg_lu_solve");
  tc_ex_push(a, f[0]);
  tc_ex_push(a, f[1]);
  tc_ex_push(a, rhs);
  tc_ex_push_bool(a, vector || tc_op_bool(a, 2, 1));
  x = tc_ex_make(a, 1, NULL);
  if (vector) {
    tc_ex_begin(a, "aten::squeeze.dim");
    tc_ex_push(a, x);
    tc_ex_push_int(a, tc_int_const(a, -1));
    x = tc_ex_make(a, 1, NULL);
  }
  // Columns are dense, rows where it is X·A = B; vectors lie as if their last two dimensions were a matrix.
  static const char *const columns[] = {"aten::mT", "aten::_row_major", "aten::mT"};
  bool left = tc_op_bool(a, 2, 1);
  int32_t rank = tc_ex_type(a, x) ? tc_ex_type(a, x)->rank : 0;
  for (int32_t k = left ? 0 : 1; rank > 1 && (vector || !left) && k < (left ? 3 : 2); k++) {
    tc_ex_begin(a, columns[k]);
    tc_ex_push(a, x);
    x = tc_ex_make(a, 1, NULL);
  }
  tc_ex_result(a, 0, x);
  if (tc_sv_is(a->op->schema.name, "_linalg_solve_ex")) {
    for (int32_t k = 0; k < 3; k++) tc_ex_result(a, 1 + k, f[k]);
  } else if (!checked) {
    tc_ex_result(a, 1, f[2]);
  }
  return TC_STATUS_OK;
}

// tensorinv and tensorsolve: the leading dimensions are rows, the others columns.
static tc_int product(tc_op_args *a, int32_t n, const tc_int *sizes) {
  tc_int p = tc_int_const(a, 1);
  for (int32_t i = 0; i < n; i++) p = tc_int_mul(a, p, sizes[i]);
  return p;
}
static tc_gv with_ints(tc_op_args *a, const char *op, tc_gv x, int32_t n, const tc_int *list) {
  tc_ex_begin(a, op);
  tc_ex_push(a, x);
  tc_ex_push_ints(a, n, list);
  return tc_ex_make(a, 1, NULL);
}
static int32_t tensorinv_expand(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  int32_t k = (int32_t)tc_op_int(a, 1, 2);
  if (k < 1 || k > t->rank) return tc_op_fail(a, "Expected a strictly positive integer for 'ind'");
  tc_int flat[2] = {product(a, k, t->sizes), product(a, t->rank - k, t->sizes + k)}, out[TC_MAX_RANK];
  for (int32_t d = 0; d < t->rank; d++) out[d] = t->sizes[(d + k) % t->rank];
  tc_gv m = with_ints(a, "aten::reshape", tc_ex_arg(a, 0), 2, flat);
  tc_ex_begin(a, "aten::linalg_inv");
  tc_ex_push(a, m);
  m = tc_ex_make(a, 1, NULL);
  tc_ex_result(a, 0, with_ints(a, "aten::reshape", m, t->rank, out));
  return TC_STATUS_OK;
}
static int32_t tensorsolve_expand(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0), *b = tc_op_tensor(a, 1);
  tc_gv x = tc_ex_arg(a, 0);
  if (tc_op_kind(a, 2) != TC_AK_NONE) { // these dimensions go to the end
    tc_int order[TC_MAX_RANK];
    bool moved[TC_MAX_RANK] = {0};
    int32_t n = 0, count = tc_op_count(a, 2);
    for (int32_t i = 0; i < count; i++) {
      int64_t d = tc_op_wrap_dim(a, tc_op_int_at(a, 2, i, 0), t->rank);
      if (d < 0) return TC_STATUS_INVALID_ARGUMENT;
      moved[d] = true;
    }
    for (int32_t d = 0; d < t->rank; d++)
      if (!moved[d]) order[n++] = tc_int_const(a, d);
    for (int32_t i = 0; i < count; i++)
      order[n++] = tc_int_const(a, tc_op_wrap_dim(a, tc_op_int_at(a, 2, i, 0), t->rank));
    x = with_ints(a, "aten::permute", x, t->rank, order);
    t = tc_ex_type(a, x);
    if (!t) return TC_STATUS_INVALID_ARGUMENT;
  }
  tc_int rows = product(a, b->rank, b->sizes), flat[2] = {rows, rows}, vector[1] = {rows};
  if (b->rank > t->rank) return tc_op_fail(a, "other has more dimensions than self");
  tc_gv m = with_ints(a, "aten::reshape", x, 2, flat), v = with_ints(a, "aten::reshape", tc_ex_arg(a, 1), 1, vector);
  tc_ex_begin(a, "aten::linalg_solve");
  tc_ex_push(a, m);
  tc_ex_push(a, v);
  m = tc_ex_make(a, 1, NULL);
  tc_ex_result(a, 0, with_ints(a, "aten::reshape", m, t->rank - b->rank, t->sizes + b->rank));
  return TC_STATUS_OK;
}

enum { C = TC_OP_COMPLEX };
#define ROW(s, m, r, f) {.schema = s, .traits = C, .meta = m, .ref = r, .flops = f}
#define TEXT(s, d) {.schema = s, .traits = C, .decompose = d}
#define CODE(s, f) {.schema = s, .traits = C, .expand = f}
// The inverse of singular values or eigenvalues s above what counts as zero; larger ones stay.
#define CUTOFF                                                                                               \
  "let top = if(s.size(-1) == 0, zeros([], dtype=s.dtype), amax(s, [-1], true)); let default_r = "           \
  "float(max(x.size(-1), x.size(-2))) * eps(x.dtype); let a0 = if(is_none(atol), zeros([], dtype=s.dtype), " \
  "to(atol, s.dtype)); let r0 = if(is_none(rtol), if(is_none(atol), full([], default_r, dtype=s.dtype), "    \
  "where(gt(a0, 0), 0.0, full([], default_r, dtype=s.dtype))), to(rtol, s.dtype));"                          \
  "let a1 = if(a0.rank == 0, a0, unsqueeze(a0, -1)); let r1 = if(r0.rank == 0, r0, unsqueeze(r0, -1));"      \
  "let limit_ = maximum(a1, mul(r1, top));"
#define PINV                                                                    \
  "let x = A; let u, s0, vh = _linalg_svd(A, false, true); let s = s0; " CUTOFF \
  "let i = where(gt(s, limit_), reciprocal(s), 0); matmul(mul(adjoint(vh), unsqueeze(i, -2)), adjoint(u))"
#define PINV_HERMITIAN                                                          \
  "let x = A; let e, v = _linalg_eigh(A, \"L\", true); let s = abs(e); " CUTOFF \
  "let i = where(gt(s, limit_), reciprocal(e), 0); matmul(mul(v, unsqueeze(i, -2)), adjoint(v))"
#define RANK                                                                               \
  "let x = input; let s = if(hermitian && input.numel != 0, abs(linalg_eigvalsh(input)), " \
  "linalg_svdvals(input)); " CUTOFF "sum(gt(s, limit_), [-1])"
#define NO_INVERSE "new_zeros(self, part(self.sizes, 0, -2) + [self.size(-1), self.size(-2)])"
#define NO_CONDITION "zeros(part(self.sizes, 0, -2), dtype=self.real_dtype)"
#define NUMBER(x) "if(is_none(" x "), none, full([], float(" x "), dtype=f64))"
// Conjugated in memory: libraries take no lazily conjugated operands.
#define ADJOINT(x) "if(is_complex(" x "), conj_physical(mT(" x ")), mT(" x "))"
// The shortest of the closest solutions, by the pseudo-inverse, whichever driver is named; what else it gives is that
// driver's. The solution lies in memory as LAPACK leaves it: the first n of max(m, n) rows, columns first.
#define LSTSQ                                                                                                          \
  "let how = if(is_none(driver), \"gelsy\", driver); let svd = how == \"gelsd\" || how == \"gelss\"; let m = "         \
  "self.size(-2); let n = self.size(-1); let y = if(self.rank < 2 || self.rank > b.rank + 1 || b.rank > self.rank, "   \
  "fail(\"linalg.lstsq: other must have as many dimensions as input, or one less\"), if(b.rank == self.rank, b, "      \
  "unsqueeze(b, -1))); let by = if(svd || how == \"gels\" || how == \"gelsy\", if(is_none(rcond), "                    \
  "linalg_pinv.atol_rtol_float(self), linalg_pinv.atol_rtol_float(self, atol=0.0, rtol=rcond)), "                      \
  "fail(\"linalg.lstsq: the driver must be gels, gelsy, gelsd or gelss\")); let x = matmul(by, y);"                    \
  "let memory = constant_pad_nd(contiguous(mT(x)), [0, max(m - n, 0)]); let columns = slice(mT(memory), -2, 0, n);"    \
  "let rank = if(is_none(rcond), linalg_matrix_rank.atol_rtol_float(self), "                                           \
  "linalg_matrix_rank.atol_rtol_float(self, atol=0.0, rtol=rcond)); let e = abs(sub(y, matmul(self, x)));"             \
  "let left = sum(mul(e, e), [-2]); let none_ = zeros([0], dtype=self.real_dtype);"                                    \
  "if(b.rank == self.rank, columns, squeeze(columns, -1)), if(m <= n || how == \"gelsy\", none_, if(svd && self.rank " \
  "== 2, masked_select(left, eq(rank, n)), left)), if(how == \"gels\", zeros([0], "                                    \
  "dtype=i64), rank), if(svd, linalg_svdvals(self), none_)"

static const tc_op_def rows[] = {
    ROW("linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor LU, Tensor pivots, "
        "Tensor "
        "info)",
        lu_meta, lu_ref, "2 * self.numel * self.size(-1) // 3"),
    ROW("_lu_with_info(Tensor self, bool pivot=True, bool check_errors=True) -> (Tensor LU, Tensor pivots, Tensor "
        "info)",
        lu_meta, lu_ref, "2 * self.numel * self.size(-1) // 3"),
    ROW("linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor",
        lu_solve_meta, lu_solve_ref, "2 * numel * LU.size(-1)"),
    ROW("lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True) -> (Tensor P, "
        "Tensor "
        "L, Tensor U)",
        lu_unpack_meta, lu_unpack_ref, NULL),
    ROW("linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)",
        cholesky_meta, cholesky_ref, "self.numel * self.size(-1) // 3"),
    ROW("linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) -> "
        "Tensor",
        triangular_meta, triangular_ref, "numel * self.size(-1)"),
    ROW("geqrf(Tensor self) -> (Tensor a, Tensor tau)", geqrf_meta, geqrf_ref, "2 * self.numel * self.size(-1)"),
    ROW("linalg_qr(Tensor A, str mode=\"reduced\") -> (Tensor Q, Tensor R)", qr_meta, qr_ref,
        "4 * A.numel * A.size(-1)"),
    ROW("linalg_householder_product(Tensor input, Tensor tau) -> Tensor", householder_meta, householder_ref,
        "2 * numel * input.size(-1)"),
    ROW("_linalg_eigh(Tensor A, str UPLO=\"L\", bool compute_v=True) -> (Tensor eigenvalues, Tensor eigenvectors)",
        eigh_meta, eigh_ref, "9 * A.numel * A.size(-1)"),
    ROW("linalg_eig(Tensor self) -> (Tensor eigenvalues, Tensor eigenvectors)", eig_meta, eig_ref,
        "25 * self.numel * self.size(-1)"),
    ROW("linalg_eigvals(Tensor self) -> Tensor", eig_meta, eig_ref, "10 * self.numel * self.size(-1)"),
    ROW("_linalg_svd(Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? driver=None) -> (Tensor U, "
        "Tensor "
        "S, Tensor Vh)",
        svd_meta, svd_ref, "20 * A.numel * A.size(-1)"),
    ROW("linalg_ldl_factor_ex(Tensor self, *, bool hermitian=False, bool check_errors=False) -> (Tensor LD, Tensor "
        "pivots, Tensor info)",
        ldl_meta, ldl_ref, "self.numel * self.size(-1) // 3"),
    ROW("linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor", ldl_solve_meta,
        ldl_solve_ref, "2 * numel * LD.size(-1)"),
    ROW("_matrix_exp(Tensor self) -> Tensor", exp_meta, exp_ref, "30 * self.numel * self.size(-1)"),
    ROW("_linalg_checked(Tensor self, Tensor info, str name) -> Tensor", tc_meta_same_strides, checked_ref, NULL),
    CODE("linalg_matrix_power(Tensor self, int n) -> Tensor", power_expand),
    CODE("matrix_power(Tensor self, int n) -> Tensor", power_expand),
    CODE("linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor", solve_expand),
    CODE("linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor "
         "info)",
         solve_expand),
    CODE("_linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor "
         "LU, "
         "Tensor pivots, Tensor info)",
         solve_expand),
    CODE("linalg_tensorinv(Tensor self, int ind=2) -> Tensor", tensorinv_expand),
    CODE("linalg_tensorsolve(Tensor self, Tensor other, int[]? dims=None) -> Tensor", tensorsolve_expand),
    TEXT("linalg_lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)",
         "let lu, p, i = linalg_lu_factor_ex(A, pivot=pivot); lu, p"),
    TEXT(
        "linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)",
        "let lu, p, i = linalg_lu_factor_ex(A, pivot=pivot); let q, l, u = lu_unpack(lu, p); if(pivot, q, new_empty(A, "
        "[0])), l, u"),
    TEXT("linalg_ldl_factor(Tensor self, *, bool hermitian=False) -> (Tensor LD, Tensor pivots)",
         "let l, p, i = linalg_ldl_factor_ex(self, hermitian=hermitian); l, p"),
    TEXT("lu_solve(Tensor self, Tensor LU_data, Tensor LU_pivots) -> Tensor",
         "linalg_lu_solve(LU_data, LU_pivots, self)"),
    TEXT("linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)",
         "let lu, p, i = linalg_lu_factor_ex(A); linalg_lu_solve(lu, p, eye(A.size(-1), dtype=A.dtype)), i"),
    TEXT("linalg_inv(Tensor A) -> Tensor",
         "let lu, p, i = linalg_lu_factor_ex(A); linalg_lu_solve(_linalg_checked(lu, i, \"linalg.inv\"), p, "
         "eye(A.size(-1), dtype=A.dtype))"),
    TEXT("inverse(Tensor self) -> Tensor", "linalg_inv(self)"),
    TEXT("_linalg_pivot_sign(Tensor pivots) -> Tensor",
         "rsub(mul(remainder(sum(ne(pivots, arange(1, pivots.size(-1) + 1)), [-1]), 2), 2), 1)"),
    TEXT("_linalg_det(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots)",
         "let lu, p, i = linalg_lu_factor_ex(A); mul(prod(diagonal(lu, 0, -2, -1), -1), _linalg_pivot_sign(p)), lu, p"),
    // det(A)ᴴ A⁻ᴴ, of which det's gradient is a multiple; there, too, where A has no inverse: zeros of U are moved a
    // little.
    TEXT(
        "_linalg_cofactors(Tensor A, Tensor LU, Tensor pivots) -> Tensor",
        "let zero = eq(diagonal(LU, 0, -2, -1), 0); let lu = add(LU, diag_embed(mul(to(zero, A.dtype), eps(A.dtype))));"
        "let d = mul(prod(diagonal(lu, 0, -2, -1), -1), _linalg_pivot_sign(pivots)); linalg_lu_solve(lu, pivots, "
        "mul(unsqueeze(unsqueeze(conj(d), -1), -1), eye(A.size(-1), dtype=A.dtype)), adjoint=true)"),
    TEXT("linalg_det(Tensor A) -> Tensor", "let d, lu, p = _linalg_det(A); d"),
    TEXT("det(Tensor self) -> Tensor", "let d, lu, p = _linalg_det(self); d"),
    TEXT("_linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet, Tensor LU, Tensor pivots)",
         "let lu, p, i = linalg_lu_factor_ex(A); let d = diagonal(lu, 0, -2, -1); mul(prod(sgn(d), -1), "
         "_linalg_pivot_sign(p)), sum(log(abs(d)), [-1]), lu, p"),
    // A matrix with Householder's Q, all of whose columns are made, from the left or the right.
    TEXT("ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) -> Tensor",
         "let m = self.size(-2); let q = linalg_householder_product(constant_pad_nd(self, [0, m - self.size(-1)]), "
         "constant_pad_nd(input2, [0, m - input2.size(-1)])); let o = if(transpose, adjoint(q), q);"
         "let r = if(left, matmul(o, input3), matmul(input3, o)); mT(_row_major(mT(r)))"),
    // The root of a Hermitian matrix without negative eigenvalues; those that roundings made negative count as 0.
    TEXT("linalg_matrix_sqrth(Tensor self) -> Tensor",
         "let w, v = linalg_eigh(self); let s = mul(v, unsqueeze(to(sqrt(clamp_min(w, 0)), v.dtype), -2)); matmul(s, "
         "adjoint(v))"),
    TEXT("matrix_exp(Tensor self) -> Tensor", "to(_matrix_exp(to(self, wide(self.dtype))), self.dtype)"),
    TEXT("linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)", "let s, l, lu, p = _linalg_slogdet(A); s, l"),
    TEXT("slogdet(Tensor self) -> (Tensor sign, Tensor logabsdet)", "let s, l, lu, p = _linalg_slogdet(self); s, l"),
    TEXT("logdet(Tensor self) -> Tensor",
         "let s, l, lu, p = _linalg_slogdet(self); if(is_complex(self), add(log(s), l), where(lt(s, 0), nan, l))"),
    TEXT("linalg_cholesky(Tensor self, *, bool upper=False) -> Tensor",
         "let l, i = linalg_cholesky_ex(self, upper=upper); _linalg_checked(l, i, \"linalg.cholesky\")"),
    TEXT("cholesky(Tensor self, bool upper=False) -> Tensor", "linalg_cholesky(self, upper=upper)"),
    TEXT("cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor",
         "let l = if(upper, " ADJOINT("input2") ", input2); linalg_solve_triangular(" ADJOINT(
             "l") ", linalg_solve_triangular(l, "
                  "self, upper=false), upper=true)"),
    TEXT("cholesky_inverse(Tensor self, bool upper=False) -> Tensor",
         "cholesky_solve(eye(self.size(-1), dtype=self.dtype), self, upper)"),
    TEXT("triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False) -> "
         "(Tensor solution, Tensor cloned_coefficient)",
         "linalg_solve_triangular(if(transpose, mT(A), A), self, upper=if(transpose, !upper, upper), "
         "unitriangular=unitriangular), mT(clone(mT(expand(A, part(matmul(A, self).sizes, 0, -2) + [A.size(-2), "
         "A.size(-1)])), "
         "memory_format=contiguous_format))"),
    TEXT("qr(Tensor self, bool some=True) -> (Tensor Q, Tensor R)",
         "let q, r = linalg_qr(self, if(some, \"reduced\", \"complete\")); q, r"),
    TEXT("linalg_eigh(Tensor self, str UPLO=\"L\") -> (Tensor eigenvalues, Tensor eigenvectors)",
         "let e, v = _linalg_eigh(self, UPLO, true); e, v"),
    TEXT("linalg_eigvalsh(Tensor self, str UPLO=\"L\") -> Tensor", "let e, v = _linalg_eigh(self, UPLO, false); e"),
    TEXT("linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)",
         "let u, s, v = _linalg_svd(A, full_matrices, true); u, s, v"),
    TEXT("linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor", "let u, s, v = _linalg_svd(A, false, false); s"),
    TEXT("svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)",
         "let u, s, v = _linalg_svd(self, !some, compute_uv); if(compute_uv, u, new_zeros(self, matmul(self, "
         "mT(self)).sizes)), s, adjoint(if(compute_uv, v, new_zeros(self, matmul(mT(self), self).sizes)))"),
    TEXT("linalg_polar(Tensor A) -> (Tensor U, Tensor H)",
         "let u, s, v = _linalg_svd(A, false, true); matmul(u, v), matmul(mul(adjoint(v), unsqueeze(s, -2)), v)"),
    TEXT("linalg_pinv.atol_rtol_tensor(Tensor self, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False) -> "
         "Tensor",
         "if(self.numel == 0, " NO_INVERSE
         ", if(hermitian, _pinv_hermitian(self, atol, rtol), _pinv(self, atol, rtol)))"),
    TEXT("linalg_pinv.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, bool hermitian=False) -> "
         "Tensor",
         "let p = " NUMBER("atol") "; let q = " NUMBER(
             "rtol") "; if(self.numel == 0, " NO_INVERSE
                     ", if(hermitian, _pinv_hermitian(self, p, q), _pinv(self, p, q)))"),
    TEXT("linalg_pinv(Tensor self, float rcond, bool hermitian=False) -> Tensor",
         "linalg_pinv.atol_rtol_float(self, atol=0.0, rtol=rcond, hermitian=hermitian)"),
    TEXT("pinverse(Tensor self, float rcond=1e-15) -> Tensor",
         "linalg_pinv.atol_rtol_float(self, atol=0.0, rtol=rcond, hermitian=false)"),
    TEXT("_pinv(Tensor A, Tensor? atol, Tensor? rtol) -> Tensor", PINV),
    TEXT("_pinv_hermitian(Tensor A, Tensor? atol, Tensor? rtol) -> Tensor", PINV_HERMITIAN),
    TEXT("linalg_matrix_rank.atol_rtol_tensor(Tensor input, *, Tensor? atol=None, Tensor? rtol=None, bool "
         "hermitian=False) -> Tensor",
         RANK),
    TEXT("linalg_matrix_rank.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, bool hermitian=False) "
         "-> "
         "Tensor",
         "linalg_matrix_rank.atol_rtol_tensor(self, atol=" NUMBER("atol") ", rtol=" NUMBER(
             "rtol") ", hermitian=hermitian)"),
    TEXT("linalg_matrix_rank(Tensor self, float tol, bool hermitian=False) -> Tensor",
         "linalg_matrix_rank.atol_rtol_float(self, atol=tol, rtol=0.0, hermitian=hermitian)"),
    TEXT("linalg_cond(Tensor self, Scalar? p=None) -> Tensor",
         "if(self.numel == 0, " NO_CONDITION
         ", if(is_none(p) || float(p) == 2.0, _cond_2(self), if(float(p) == -2.0, reciprocal(_cond_2(self)), "
         "mul(linalg_matrix_norm(self, p), linalg_matrix_norm(linalg_inv(self), p)))))"),
    TEXT("linalg_cond.p_str(Tensor self, str p) -> Tensor",
         "if(self.numel == 0, " NO_CONDITION ", mul(linalg_matrix_norm(self, p), linalg_matrix_norm(linalg_inv(self), "
         "p)))"),
    TEXT("linalg_lstsq(Tensor self, Tensor b, float? rcond=None, *, str? driver=None) -> (Tensor solution, Tensor "
         "residuals, Tensor rank, Tensor singular_values)",
         LSTSQ),
    TEXT("_cond_2(Tensor self) -> Tensor", "let s = linalg_svdvals(self); div(select(s, -1, 0), select(s, -1, -1))"),
};
TC_OP_FAMILY(linalg);
