// Results that are one of several right ones.
//
// Factorisations (index: not_unique) are fixed only up to sign, phase or order, so what they stand for is compared: the
// product of the factors with that of the stored ones, their orthogonality, eigenvalues as a multiset, and A·V =
// V·diag(w). Places of extremes and of sorted elements may differ among equal values: the values at the places must be
// the same.
#include <float.h>
#include <math.h>
#include <string.h>

#include "tcrun/check.h"

typedef struct c128 {
  double re, im;
} c128;

// A contiguous tensor of complex doubles: `count` matrices of rows × columns, row-major.
typedef struct stack {
  tc_tensor t;
  const c128 *v;
  int64_t count, rows, columns;
} stack;

static tc_status open_stack(const tc_allocator *a, const tc_tensor *t, int32_t inner, stack *out) {
  *out = (stack){.count = 1, .rows = 1, .columns = 1};
  if (!t->storage || t->rank < inner) return tc_error(TC_STATUS_MISMATCH, "a factor is missing");
  TC_TRY(tc_tensor_create(a, TC_C128, t->rank, t->sizes, &out->t));
  tc_status s = tc_tensor_copy(t, &out->t);
  if (s) return tc_tensor_unref(&out->t), s;
  out->v = tc_tensor_data(&out->t);
  for (int32_t d = 0; d < t->rank - inner; d++) out->count *= t->sizes[d];
  if (inner > 0) out->columns = t->sizes[t->rank - 1];
  if (inner > 1) out->rows = t->sizes[t->rank - 2];
  return TC_OK;
}

static c128 at(const stack *s, int64_t b, int64_t i, int64_t j) { return s->v[(b * s->rows + i) * s->columns + j]; }
static c128 times(c128 x, c128 y) { return (c128){x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re}; }
static c128 conjugate(c128 x) { return (c128){x.re, -x.im}; }
static c128 plus(c128 x, c128 y) { return (c128){x.re + y.re, x.im + y.im}; }
static double distance(c128 x, c128 y) { return hypot(x.re - y.re, x.im - y.im); }

static double eps_of(tc_dtype d) { return tc_dtype_real(d) == TC_F64 ? DBL_EPSILON : (double)FLT_EPSILON; }

// Columns (else rows) are orthonormal.
static tc_status check_orthonormal(const stack *q, bool columns, double bound, const char *name) {
  int64_t n = columns ? q->columns : q->rows, length = columns ? q->rows : q->columns;
  for (int64_t b = 0; b < q->count; b++) {
    for (int64_t p = 0; p < n; p++) {
      for (int64_t r = 0; r <= p; r++) {
        c128 s = {0};
        for (int64_t k = 0; k < length; k++)
          s = plus(s, times(conjugate(columns ? at(q, b, k, p) : at(q, b, p, k)),
                            columns ? at(q, b, k, r) : at(q, b, r, k)));
        if (!(distance(s, (c128){p == r, 0}) <= bound))
          return tc_error(TC_STATUS_MISMATCH, "%s is not orthonormal: vectors %lld and %lld give %.3g%+.3gi", name,
                          (long long)p, (long long)r, s.re, s.im);
      }
    }
  }
  return TC_OK;
}

// Element (i, j) of U·diag(S)·Vᴴ; `adjoint`: the third factor is Vᴴ itself.
static c128 svd_element(const stack *u, const stack *s, const stack *v, bool adjoint, int64_t b, int64_t i, int64_t j) {
  c128 sum = {0};
  for (int64_t k = 0; k < s->columns; k++) {
    c128 w = adjoint ? at(v, b, k, j) : conjugate(at(v, b, j, k));
    sum = plus(sum, times(times(at(u, b, i, k), s->v[b * s->columns + k]), w));
  }
  return sum;
}

static tc_status same_svd(const stack *g, const stack *w, bool adjoint, double eps) {
  double top = 0;
  for (int64_t k = 0; k < w[1].count * w[1].columns; k++) top = fmax(top, w[1].v[k].re);
  double bound = 60 * eps * (double)(g[0].rows + g[2].columns + g[2].rows);
  for (int64_t k = 0; k < w[1].count * w[1].columns; k++)
    if (!(fabs(g[1].v[k].re - w[1].v[k].re) <= bound * top))
      return tc_error(TC_STATUS_MISMATCH, "singular value %lld is %.9g instead of %.9g", (long long)k, g[1].v[k].re,
                      w[1].v[k].re);
  TC_TRY(check_orthonormal(&g[0], true, bound, "U"));
  TC_TRY(check_orthonormal(&g[2], !adjoint, bound, "V"));
  int64_t columns = adjoint ? g[2].columns : g[2].rows;
  for (int64_t b = 0; b < g[0].count; b++)
    for (int64_t i = 0; i < g[0].rows; i++)
      for (int64_t j = 0; j < columns; j++)
        if (!(distance(svd_element(&g[0], &g[1], &g[2], adjoint, b, i, j),
                       svd_element(&w[0], &w[1], &w[2], adjoint, b, i, j)) <= bound * top))
          return tc_error(TC_STATUS_MISMATCH, "the product of the factors differs at [%lld, %lld, %lld]", (long long)b,
                          (long long)i, (long long)j);
  return TC_OK;
}

// Every stored eigenvalue has a partner of its own.
static tc_status same_spectrum(const tc_allocator *a, const stack *g, const stack *w, double eps) {
  int64_t n = w->columns;
  bool *taken = a->alloc(a->self, (size_t)(n ? n : 1));
  if (!taken) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for a comparison");
  tc_status s = TC_OK;
  for (int64_t b = 0; b < w->count && !s; b++) {
    double top = 0;
    memset(taken, 0, (size_t)n);
    for (int64_t k = 0; k < n; k++) top = fmax(top, distance(w->v[b * n + k], (c128){0}));
    for (int64_t k = 0; k < n && !s; k++) {
      int64_t best = -1;
      for (int64_t j = 0; j < n; j++)
        if (!taken[j] &&
            (best < 0 || distance(g->v[b * n + j], w->v[b * n + k]) < distance(g->v[b * n + best], w->v[b * n + k])))
          best = j;
      taken[best] = true;
      if (!(distance(g->v[b * n + best], w->v[b * n + k]) <= 200 * eps * (double)n * top))
        s = tc_error(TC_STATUS_MISMATCH, "no eigenvalue is near %.9g%+.9gi; the nearest left is %.9g%+.9gi",
                     w->v[b * n + k].re, w->v[b * n + k].im, g->v[b * n + best].re, g->v[b * n + best].im);
    }
  }
  a->free(a->self, taken);
  return s;
}

static tc_status are_eigenvectors(const stack *x, const stack *w, const stack *v, double eps) {
  int64_t n = x->rows;
  for (int64_t b = 0; b < x->count; b++) {
    double norm = 0;
    for (int64_t i = 0; i < n * n; i++) norm = hypot(norm, distance(x->v[b * n * n + i], (c128){0}));
    for (int64_t k = 0; k < n; k++) {
      double length = 0, off = 0;
      for (int64_t i = 0; i < n; i++) {
        c128 s = {0};
        for (int64_t j = 0; j < n; j++) s = plus(s, times(at(x, b, i, j), at(v, b, j, k)));
        off = hypot(off, distance(s, times(w->v[b * n + k], at(v, b, i, k))));
        length = hypot(length, distance(at(v, b, i, k), (c128){0}));
      }
      if (!(off <= 100 * eps * (double)n * norm) || !(fabs(length - 1) <= 100 * eps * (double)n))
        return tc_error(TC_STATUS_MISMATCH, "column %lld is no eigenvector of norm 1: |A·v - w·v| = %.3g, |v| = %.9g",
                        (long long)k, off, length);
    }
  }
  return TC_OK;
}

static tc_status same_qr(const stack *g, const stack *w, double eps) {
  double top = 0, bound = 60 * eps * (double)(g[0].rows + g[1].columns);
  for (int64_t k = 0; k < w[1].count * w[1].rows * w[1].columns; k++) top = hypot(top, distance(w[1].v[k], (c128){0}));
  TC_TRY(check_orthonormal(&g[0], true, bound, "Q"));
  for (int64_t b = 0; b < g[0].count; b++) {
    for (int64_t j = 0; j < g[1].columns; j++) {
      for (int64_t i = j + 1; i < g[1].rows; i++)
        if (distance(at(&g[1], b, i, j), (c128){0}) > 0)
          return tc_error(TC_STATUS_MISMATCH, "R is not upper triangular");
      for (int64_t i = 0; i < g[0].rows; i++) {
        c128 p = {0}, q = {0};
        for (int64_t k = 0; k < g[1].rows; k++) {
          p = plus(p, times(at(&g[0], b, i, k), at(&g[1], b, k, j)));
          q = plus(q, times(at(&w[0], b, i, k), at(&w[1], b, k, j)));
        }
        if (!(distance(p, q) <= bound * top))
          return tc_error(TC_STATUS_MISMATCH, "Q·R differs at [%lld, %lld]", (long long)i, (long long)j);
      }
    }
  }
  return TC_OK;
}

static bool named(tc_sv op, const char *const *list, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (tc_sv_is(op, list[i])) return true;
  return false;
}

tc_status tcrun_compare_factors(const tc_allocator *a, tc_sv op, const tc_tensor *input, int32_t n,
                                const tc_tensor *const *got, const tc_tensor *const *want, bool *out_known) {
  static const char *const svds[] = {"linalg.svd", "svd", "svd_lowrank", "pca_lowrank"};
  static const char *const eigs[] = {"linalg.eig", "linalg.eigvals", "eig"};
  bool svd = named(op, svds, sizeof svds / sizeof *svds) && n == 3,
       eig = named(op, eigs, sizeof eigs / sizeof *eigs) && n <= 2,
       qr = (tc_sv_is(op, "linalg.qr") || tc_sv_is(op, "qr")) && n == 2;
  *out_known = svd || eig || qr;
  if (!*out_known) return TC_OK;
  stack g[3] = {{.count = 0}}, w[3] = {{.count = 0}}, x = {0};
  double eps = eps_of(got[0]->dtype);
  tc_status s = TC_OK;
  for (int32_t i = 0; i < n && !s; i++) {
    bool same = got[i]->dtype == want[i]->dtype && got[i]->rank == want[i]->rank;
    for (int32_t d = 0; same && d < got[i]->rank; d++) same = got[i]->sizes[d] == want[i]->sizes[d];
    if (!same) s = tc_error(TC_STATUS_MISMATCH, "factor %d has another dtype or shape", i);
    int32_t inner = (svd && i == 1) || (eig && i == 0) ? 1 : 2;
    if (!s) s = open_stack(a, got[i], inner, &g[i]);
    if (!s) s = open_stack(a, want[i], inner, &w[i]);
  }
  if (!s && svd) s = same_svd(g, w, tc_sv_is(op, "linalg.svd"), eps);
  if (!s && qr) s = same_qr(g, w, eps);
  if (!s && eig) s = same_spectrum(a, &g[0], &w[0], eps);
  if (!s && eig && n == 2) s = open_stack(a, input, 2, &x);
  if (!s && eig && n == 2) s = are_eigenvectors(&x, &g[0], &g[1], eps);
  for (int32_t i = 0; i < 3; i++) tc_tensor_unref(&g[i].t), tc_tensor_unref(&w[i].t);
  tc_tensor_unref(&x.t);
  return s;
}

// The values of `from` at the places along `dim` are `values`; a dimension that was dropped has one place. `distinct`:
// no place comes twice in a line.
static bool stand_at(const tc_tensor *from, const tc_tensor *places, const tc_tensor *values, int32_t dim,
                     bool distinct) {
  int64_t i[TC_MAX_RANK] = {0}, k[TC_MAX_RANK] = {0};
  bool dropped = places->rank == from->rank - 1;
  for (int32_t d = 0, p = 0; d < from->rank; d++) {
    if (d == dim && dropped) continue;
    if (d != dim && from->sizes[d] != places->sizes[p]) return false;
    p++;
  }
  if (tc_tensor_numel(places) == 0) return true;
  for (;;) {
    int64_t place = tc_tensor_get_int(places, k);
    double x[2], y[2];
    for (int32_t d = 0, p = 0; d < from->rank; d++) i[d] = d == dim ? place : k[p], p += d != dim || !dropped;
    if (place < 0 || place >= from->sizes[dim]) return false;
    for (int64_t own = dropped ? 0 : k[dim], q = 0; distinct && q < own; q++) {
      k[dim] = q;
      bool again = tc_tensor_get_int(places, k) == place;
      k[dim] = own;
      if (again) return false;
    }
    tc_tensor_get(from, i, &x[0], &x[1]);
    tc_tensor_get(values, k, &y[0], &y[1]);
    if (!(x[0] == y[0] || (isnan(x[0]) && isnan(y[0])))) return false;
    int32_t d = places->rank - 1;
    for (; d >= 0 && ++k[d] == places->sizes[d]; d--) k[d] = 0;
    if (d < 0) return true;
  }
}

bool tcrun_places_hold(tc_sv op, const tc_tensor *input, const tc_tensor *values, const tc_tensor *places) {
  static const char *const ops[] = {"topk", "sort", "msort", "kthvalue", "median", "nanmedian",
                                    "mode", "max",  "min",   "cummax",   "cummin", "aminmax"};
  bool fits = named(op, ops, sizeof ops / sizeof *ops) && places->dtype == TC_I64 && input->rank > 0 &&
              (places->rank == input->rank || places->rank == input->rank - 1) && values->rank == places->rank;
  for (int32_t d = 0; fits && d < places->rank; d++) fits = values->sizes[d] == places->sizes[d];
  bool distinct = tc_sv_is(op, "sort") || tc_sv_is(op, "msort") || tc_sv_is(op, "topk");
  for (int32_t dim = 0; fits && dim < input->rank; dim++)
    if (stand_at(input, places, values, dim, distinct)) return true;
  return false;
}
