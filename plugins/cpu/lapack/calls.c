// Linear algebra by LAPACK: the table of calls of libtc_cpu_lapack.so.
//
// LAPACK is opened when the first factorisation is asked about: OpenBLAS where it is installed, else any
// liblapack.so.3. Its Fortran interface is used, which every build has. Matrices of a batch are copied into
// column-major buffers, done one after the other, and copied to the result's strides. What a routine reports (info)
// becomes a result where the op has one, as in PyTorch; where it has none, the run fails.
//
// The addresses kept here are constants of the process, found once.
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tc/plugin.h"

typedef int32_t lint; // LP64
enum {
  LU,
  LU_SOLVE,
  CHOLESKY,
  TRIANGULAR,
  QR,
  GEQRF,
  HOUSEHOLDER,
  EIGH,
  EIG,
  SVD,
  LDL,
  LDL_SOLVE,
  UNPACK,
  EXP,
  CHECKED
};
enum { MAX_RANK = 16, CALL_NS = 2000, BUFFERS = 12 };

// The manifest's `calls` has these names, too: the program asks about no other op.
static const struct {
  const char *op;
  int32_t kind;
} ops[] = {{"aten::linalg_lu_factor_ex", LU},
           {"aten::_lu_with_info", LU},
           {"aten::linalg_lu_solve", LU_SOLVE},
           {"aten::linalg_cholesky_ex", CHOLESKY},
           {"aten::linalg_solve_triangular", TRIANGULAR},
           {"aten::linalg_qr", QR},
           {"aten::geqrf", GEQRF},
           {"aten::linalg_householder_product", HOUSEHOLDER},
           {"aten::_linalg_eigh", EIGH},
           {"aten::linalg_eig", EIG},
           {"aten::linalg_eigvals", EIG},
           {"aten::_linalg_svd", SVD},
           {"aten::linalg_ldl_factor_ex", LDL},
           {"aten::linalg_ldl_solve", LDL_SOLVE},
           {"aten::lu_unpack", UNPACK},
           {"aten::_matrix_exp", EXP},
           {"aten::_linalg_checked", CHECKED}};

// ---- The library ----
static void *library;
static void open_library(void) {
  static const char *const names[] = {"libopenblas.so.0", "liblapack.so.3", "liblapack.so"};
  for (size_t i = 0; i < sizeof names / sizeof *names && !library; i++)
    library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
  void (*threads)(int) = NULL; // threads belong to the embedder, so OpenBLAS's own stay asleep
  void *p = library ? dlsym(library, "openblas_set_num_threads") : NULL;
  memcpy(&threads, &p, sizeof threads);
  if (threads) threads(1);
}
static void *the_library(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, open_library);
  return library;
}

typedef void (*routine)(void); // cast to what it is where it is called
// "getrf" for the dtype: dgetrf_ …; `complex_name` where the complex ones are called otherwise.
static routine find(tc_dtype d, const char *name, const char *complex_name) {
  bool complex = d == TC_C64 || d == TC_C128;
  char symbol[32];
  routine f = NULL;
  snprintf(symbol, sizeof symbol, "%c%s_",
           d == TC_F32   ? 's'
           : d == TC_F64 ? 'd'
           : d == TC_C64 ? 'c'
                         : 'z',
           complex && complex_name ? complex_name : name);
  void *p = the_library() ? dlsym(the_library(), symbol) : NULL;
  memcpy(&f, &p, sizeof f);
  return f;
}

// ---- A prepared call ----
typedef struct job {
  const tc_host *host;
  int32_t kind;
  tc_dtype dtype; // of the matrices
  bool complex, flag[3];
  char name[24]; // CHECKED: the op that users know
  char mode;     // 'r' reduced, 'c' complete, 'n' no Q; of eigh 'L' or 'U'
  routine f[2];
} job;

static size_t size_of(tc_dtype d) { return d == TC_F64 || d == TC_C64 ? 8 : d == TC_C128 ? 16 : 4; }
static tc_dtype real_of(tc_dtype d) { return d == TC_C64 ? TC_F32 : d == TC_C128 ? TC_F64 : d; }

static int32_t read_node(const tc_host *h, const tc_call_node *n, job *j) {
  *j = (job){.host = h, .kind = -1};
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
    if (n->op.size == strlen(ops[i].op) && memcmp(n->op.data, ops[i].op, n->op.size) == 0) j->kind = ops[i].kind;
  if (j->kind < 0 || n->n_operands < 1) return TC_STATUS_UNIMPLEMENTED;
  const tc_view *a = &n->operands[0];
  const tc_op_args *g = n->args;
  j->dtype = a->dtype;
  j->complex = a->dtype == TC_C64 || a->dtype == TC_C128;
  if (!the_library()) return TC_STATUS_UNIMPLEMENTED;
  if ((!j->complex && a->dtype != TC_F32 && a->dtype != TC_F64) || a->rank < 2 || a->rank > MAX_RANK)
    return TC_STATUS_UNIMPLEMENTED;
  tc_sv text = tc_op_string(g, 1);
  char c = text.size ? text.data[0] : 'L';
  switch (j->kind) {
  case LU:
    if (!tc_op_bool(g, 1, 1)) return TC_STATUS_UNIMPLEMENTED; // LAPACK always pivots
    j->f[0] = find(a->dtype, "getrf", NULL);
    break;
  case LU_SOLVE:
    if (n->operands[1].dtype != TC_I32) return TC_STATUS_UNIMPLEMENTED;
    j->flag[0] = tc_op_bool(g, 3, 1), j->flag[1] = tc_op_bool(g, 4, 0);
    j->f[0] = find(a->dtype, "getrs", NULL);
    break;
  case CHOLESKY:
    j->flag[0] = tc_op_bool(g, 1, 0);
    j->f[0] = find(a->dtype, "potrf", NULL);
    break;
  case TRIANGULAR:
    for (int32_t k = 0; k < 3; k++) j->flag[k] = tc_op_bool(g, 2 + k, k == 1);
    j->f[0] = find(a->dtype, "trsm", NULL);
    break;
  case QR:
    j->mode = c == 'c' ? 'c' : text.size == 1 ? 'n' : 'r';
    j->f[0] = find(a->dtype, "geqrf", NULL), j->f[1] = find(a->dtype, "orgqr", "ungqr");
    if (!j->f[1]) return TC_STATUS_UNIMPLEMENTED;
    break;
  case GEQRF: j->f[0] = find(a->dtype, "geqrf", NULL); break;
  case HOUSEHOLDER: j->f[0] = find(a->dtype, "orgqr", "ungqr"); break;
  case EIGH:
    j->mode = c == 'U' || c == 'u' ? 'U' : 'L', j->flag[0] = tc_op_bool(g, 2, 1);
    j->f[0] = find(a->dtype, "syev", "heev");
    break;
  case EIG:
    j->flag[0] = n->n_results == 2;
    j->f[0] = find(a->dtype, "geev", NULL);
    break;
  case SVD:
    j->flag[0] = tc_op_bool(g, 1, 0), j->flag[1] = tc_op_bool(g, 2, 1);
    j->f[0] = find(a->dtype, "gesdd", NULL);
    break;
  case LDL_SOLVE:
    if (n->operands[1].dtype != TC_I32) return TC_STATUS_UNIMPLEMENTED;
    j->flag[0] = tc_op_bool(g, 3, 0) && j->complex;
    j->f[0] = j->flag[0] ? find(a->dtype, "hetrs", "hetrs") : find(a->dtype, "sytrs", NULL);
    break;
  case EXP: j->f[0] = find(j->complex ? TC_C128 : TC_F64, "gemm", NULL); break;
  case UNPACK:
    j->flag[0] = tc_op_bool(g, 2, 1), j->flag[1] = tc_op_bool(g, 3, 1);
    return n->operands[1].dtype == TC_I32 ? TC_STATUS_OK : TC_STATUS_UNIMPLEMENTED;
  case CHECKED:
    text = tc_op_string(g, 2);
    snprintf(j->name, sizeof j->name, "%.*s", (int)(text.size < 23 ? text.size : 23), text.size ? text.data : "");
    return TC_STATUS_OK;
  default:
    j->flag[0] = tc_op_bool(g, 1, 0) && j->complex;
    j->f[0] = j->flag[0] ? find(a->dtype, "hetrf", "hetrf") : find(a->dtype, "sytrf", NULL);
  }
  return j->f[0] ? TC_STATUS_OK : TC_STATUS_UNIMPLEMENTED;
}

static int32_t supports(const tc_host *h, tc_device_ *d, const tc_call_node *n, int64_t *out_cost) {
  (void)d;
  job j;
  *out_cost = -1;
  if (read_node(h, n, &j) == TC_STATUS_OK) *out_cost = CALL_NS;
  return TC_STATUS_OK;
}

static int32_t prepare(const tc_host *h, tc_device_ *d, const tc_call_node *n, void **out, uint64_t *out_workspace) {
  (void)d;
  job j, *own;
  int32_t s = read_node(h, n, &j);
  if (s != TC_STATUS_OK) return s;
  own = h->alloc(h->self, sizeof *own);
  if (!own) return TC_STATUS_OUT_OF_MEMORY;
  *own = j;
  *out = own, *out_workspace = 0;
  return TC_STATUS_OK;
}

// ---- Matrices in and out ----
typedef struct task {
  const job *j;
  const tc_view *in, *out; // operands, results
  int64_t index[MAX_RANK]; // of the batch
  int32_t rank;            // of the batch
  const int64_t *sizes;
  void *buffer[BUFFERS];
  int32_t n_buffers;
  bool short_of_memory;
  const char *refusal; // of what the operands hold, or NULL
} task;

static void *take_memory(task *t, int64_t count, size_t each) {
  const tc_host *h = t->j->host;
  void *p = h->alloc(h->self, (uint64_t)(count > 0 ? count : 1) * each);
  if (!p || t->n_buffers == BUFFERS) {
    t->short_of_memory = true;
    if (p) h->free(h->self, p);
    return NULL;
  }
  return t->buffer[t->n_buffers++] = p;
}

static int64_t rows_of(const tc_view *v) { return v->sizes[v->rank - 2]; }
static int64_t columns_of(const tc_view *v) { return v->sizes[v->rank - 1]; }

// Address of the batch's matrix, vector or number; the view may be broadcast to the batch.
static char *base_of(const task *t, const tc_view *v, int32_t inner) {
  int64_t at = 0;
  for (int32_t d = 0, own = v->rank - inner; d < own; d++)
    at += v->sizes[d] == 1 ? 0 : t->index[d + t->rank - own] * v->strides[d];
  return (char *)(uintptr_t)v->memory + v->offset + at * (int64_t)size_of(v->dtype);
}
static void copy(char *to, int64_t to_row, int64_t to_column, const char *from, int64_t from_row, int64_t from_column,
                 int64_t rows, int64_t columns, size_t size) {
  for (int64_t c = 0; c < columns; c++)
    for (int64_t r = 0; r < rows; r++)
      memcpy(to + (r * to_row + c * to_column) * (int64_t)size, from + (r * from_row + c * from_column) * (int64_t)size,
             size);
}
static void get(const task *t, const tc_view *v, void *to, int64_t ld) {
  copy(to, 1, ld, base_of(t, v, 2), v->strides[v->rank - 2], v->strides[v->rank - 1], rows_of(v), columns_of(v),
       size_of(v->dtype));
}
static void put(const task *t, const tc_view *v, const void *from, int64_t ld) {
  copy(base_of(t, v, 2), v->strides[v->rank - 2], v->strides[v->rank - 1], from, 1, ld, rows_of(v), columns_of(v),
       size_of(v->dtype));
}
static void put_vector(const task *t, const tc_view *v, const void *from) {
  copy(base_of(t, v, 1), v->strides[v->rank - 1], 0, from, 1, 0, v->sizes[v->rank - 1], 1, size_of(v->dtype));
}
static void put_info(const task *t, const tc_view *v, lint info) { memcpy(base_of(t, v, 0), &info, sizeof info); }
// Elements (i, j) of a column-major matrix for which i - j > 0 (lower), else < 0, become 0.
static void clear_triangle(char *a, int64_t rows, int64_t columns, int64_t ld, bool lower, size_t size) {
  for (int64_t c = 0; c < columns; c++)
    for (int64_t r = lower ? c + 1 : 0; r < (lower ? rows : (c < rows ? c : rows)); r++)
      memset(a + (r + c * ld) * (int64_t)size, 0, size);
}
static lint at_least_1(int64_t n) { return n > 1 ? (lint)n : 1; }
// The size of work space that a routine put into work[0].
static lint wanted(const job *j, const void *work) {
  float f;
  double d;
  memcpy(&f, work, sizeof f);
  memcpy(&d, work, sizeof d);
  double w = real_of(j->dtype) == TC_F32 ? (double)f : d;
  return w < 1 ? 1 : w > 2e9 ? 2000000000 : (lint)(w + 1);
}

static bool step(task *t) {
  for (int32_t d = t->rank - 1; d >= 0; d--) {
    if (++t->index[d] < t->sizes[d]) return true;
    t->index[d] = 0;
  }
  return false;
}
static bool start(task *t, const tc_view *v, int32_t inner) {
  t->rank = v->rank - inner, t->sizes = v->sizes;
  for (int32_t d = 0; d < t->rank; d++)
    if (v->sizes[d] == 0) return false;
  return true;
}

// ---- The kinds ----
static void run_lu(task *t) {
  typedef void getrf(const lint *, const lint *, void *, const lint *, lint *, lint *);
  const tc_view *a = &t->in[0];
  lint m = (lint)rows_of(a), n = (lint)columns_of(a), ld = at_least_1(m), info;
  void *w = take_memory(t, (int64_t)m * n, size_of(a->dtype));
  lint *p = take_memory(t, m < n ? m : n, sizeof *p);
  if (t->short_of_memory || !start(t, a, 2)) return;
  do {
    get(t, a, w, ld);
    info = 0;
    ((getrf *)t->j->f[0])(&m, &n, w, &ld, p, &info);
    put(t, &t->out[0], w, ld);
    put_vector(t, &t->out[1], p);
    put_info(t, &t->out[2], info);
  } while (step(t));
}

static void negate_imaginary(void *v, int64_t count, tc_dtype d) {
  for (int64_t i = 0; i < count; i++) {
    if (d == TC_C64) ((float *)v)[2 * i + 1] *= -1;
    else ((double *)v)[2 * i + 1] *= -1;
  }
}

// The pivots of a matrix of `n` columns, if they name rows among the first `m`: the library would exchange whatever
// they name. Negative ones, of blocks of two rows, come in pairs.
static bool take_pivots(task *t, const tc_view *v, int64_t n, int64_t m, bool pairs, lint *p) {
  copy((char *)p, 1, 0, base_of(t, v, 1), v->strides[v->rank - 1], 0, n, 1, sizeof *p);
  for (int64_t i = 0; i < n; i++) {
    bool second = pairs && p[i] < 0 && i + 1 < n && p[i + 1] < 0;
    for (int64_t k = i; k <= i + second; k++)
      if (second ? p[k] < -m : p[k] < 1 || p[k] > m)
        t->refusal = "the pivots must be those that the factorization gave: rows from 1 to the number of rows";
    i += second;
  }
  return !t->refusal;
}

static void run_lu_solve(task *t) {
  typedef void getrs(const char *, const lint *, const lint *, const void *, const lint *, const lint *, void *,
                     const lint *, lint *, size_t);
  const tc_view *a = &t->in[0], *p = &t->in[1], *b = &t->in[2], *x = &t->out[0];
  size_t size = size_of(a->dtype);
  bool left = t->j->flag[0];
  lint n = (lint)columns_of(a), rows = (lint)rows_of(b), columns = (lint)columns_of(b), nrhs = left ? columns : rows,
       ld = at_least_1(n), info;
  // X·A = B is Aᵀ·Xᵀ = Bᵀ; X·Aᴴ = B is A·X* = B*, with X* and B* the conjugated transposes.
  bool adjoint = t->j->flag[1], conjugate = !left && adjoint && t->j->complex;
  char op = left ? (adjoint ? 'C' : 'N') : adjoint ? 'N' : 'T';
  void *w = take_memory(t, (int64_t)n * n, size), *r = take_memory(t, (int64_t)n * nrhs, size);
  lint *q = take_memory(t, n, sizeof *q);
  if (t->short_of_memory || !start(t, x, 2)) return;
  do {
    get(t, a, w, ld);
    if (!take_pivots(t, p, n, n, false, q)) return;
    int64_t sr = b->strides[b->rank - 2], sc = b->strides[b->rank - 1];
    copy(r, 1, ld, base_of(t, b, 2), left ? sr : sc, left ? sc : sr, n, nrhs, size);
    if (conjugate) negate_imaginary(r, (int64_t)n * nrhs, a->dtype);
    ((getrs *)t->j->f[0])(&op, &n, &nrhs, w, &ld, q, r, &ld, &info, 1);
    if (conjugate) negate_imaginary(r, (int64_t)n * nrhs, a->dtype);
    sr = x->strides[x->rank - 2], sc = x->strides[x->rank - 1];
    copy(base_of(t, x, 2), left ? sr : sc, left ? sc : sr, r, 1, ld, n, nrhs, size);
  } while (step(t));
}

static void run_cholesky(task *t) {
  typedef void potrf(const char *, const lint *, void *, const lint *, lint *, size_t);
  const tc_view *a = &t->in[0];
  bool upper = t->j->flag[0];
  char part = upper ? 'U' : 'L';
  lint n = (lint)columns_of(a), ld = at_least_1(n), info;
  void *w = take_memory(t, (int64_t)n * n, size_of(a->dtype));
  if (t->short_of_memory || !start(t, a, 2)) return;
  do {
    get(t, a, w, ld);
    info = 0;
    ((potrf *)t->j->f[0])(&part, &n, w, &ld, &info, 1);
    clear_triangle(w, n, n, ld, upper, size_of(a->dtype));
    put(t, &t->out[0], w, ld);
    put_info(t, &t->out[1], info);
  } while (step(t));
}

static void run_triangular(task *t) {
  typedef void trsm(const char *, const char *, const char *, const char *, const lint *, const lint *, const void *,
                    const void *, const lint *, void *, const lint *, size_t, size_t, size_t, size_t);
  const tc_view *a = &t->in[0], *b = &t->in[1], *x = &t->out[0];
  size_t size = size_of(a->dtype);
  char part = t->j->flag[0] ? 'U' : 'L', side = t->j->flag[1] ? 'L' : 'R', unit = t->j->flag[2] ? 'U' : 'N';
  lint n = (lint)columns_of(a), rows = (lint)rows_of(x), columns = (lint)columns_of(x), ld = at_least_1(n),
       lb = at_least_1(rows);
  static const float one_f[2] = {1, 0};
  static const double one_d[2] = {1, 0};
  const void *one = real_of(a->dtype) == TC_F32 ? (const void *)one_f : one_d;
  void *w = take_memory(t, (int64_t)n * n, size), *r = take_memory(t, (int64_t)rows * columns, size);
  if (t->short_of_memory || !start(t, x, 2)) return;
  do {
    get(t, a, w, ld);
    get(t, b, r, lb);
    ((trsm *)t->j->f[0])(&side, &part, "N", &unit, &rows, &columns, one, w, &ld, r, &lb, 1, 1, 1, 1);
    put(t, x, r, lb);
  } while (step(t));
}

typedef void geqrf(const lint *, const lint *, void *, const lint *, void *, void *, const lint *, lint *);
typedef void orgqr(const lint *, const lint *, const lint *, void *, const lint *, const void *, void *, const lint *,
                   lint *);
static void run_qr(task *t) {
  const job *j = t->j;
  const tc_view *a = &t->in[0];
  size_t size = size_of(a->dtype);
  lint m = (lint)rows_of(a), n = (lint)columns_of(a), k = m < n ? m : n, columns = j->mode == 'c' ? m : k,
       ld = at_least_1(m), query = -1, info, most = n > columns ? n : columns;
  char probe[2][16] = {{0}};
  void *w = take_memory(t, (int64_t)m * most, size), *r = take_memory(t, (int64_t)m * n, size),
       *tau = take_memory(t, k, size);
  ((geqrf *)j->f[0])(&m, &n, w, &ld, tau, probe[0], &query, &info);
  if (j->kind == QR) ((orgqr *)j->f[1])(&m, &columns, &k, w, &ld, tau, probe[1], &query, &info);
  lint need = wanted(j, probe[0]), more = wanted(j, probe[1]), lwork = need > more ? need : more;
  void *work = take_memory(t, lwork, size);
  if (t->short_of_memory || !start(t, a, 2)) return;
  do {
    get(t, a, w, ld);
    ((geqrf *)j->f[0])(&m, &n, w, &ld, tau, work, &lwork, &info);
    if (j->kind == GEQRF) {
      put(t, &t->out[0], w, ld);
      put_vector(t, &t->out[1], tau);
      continue;
    }
    memcpy(r, w, (size_t)m * (size_t)n * size);
    clear_triangle(r, m, n, ld, true, size);
    put(t, &t->out[1], r, ld);
    if (j->mode == 'n') continue;
    ((orgqr *)j->f[1])(&m, &columns, &k, w, &ld, tau, work, &lwork, &info);
    put(t, &t->out[0], w, ld);
  } while (step(t));
}
static void run_householder(task *t) {
  const job *j = t->j;
  const tc_view *a = &t->in[0], *v = &t->in[1];
  size_t size = size_of(a->dtype);
  lint m = (lint)rows_of(a), n = (lint)columns_of(a), k = (lint)v->sizes[v->rank - 1], ld = at_least_1(m), query = -1,
       info;
  char probe[16] = {0};
  void *w = take_memory(t, (int64_t)m * n, size), *tau = take_memory(t, k, size);
  ((orgqr *)j->f[0])(&m, &n, &k, w, &ld, tau, probe, &query, &info);
  lint lwork = wanted(j, probe);
  void *work = take_memory(t, lwork, size);
  if (t->short_of_memory || !start(t, a, 2)) return;
  do {
    get(t, a, w, ld);
    copy(tau, 1, 0, base_of(t, v, 1), v->strides[v->rank - 1], 0, k, 1, size);
    ((orgqr *)j->f[0])(&m, &n, &k, w, &ld, tau, work, &lwork, &info);
    put(t, &t->out[0], w, ld);
  } while (step(t));
}

// Numbers of the real type of d: components of complex ones.
static double component(const void *v, int64_t i, tc_dtype d) {
  return real_of(d) == TC_F32 ? (double)((const float *)v)[i] : ((const double *)v)[i];
}
static bool all_finite(const void *v, int64_t count, tc_dtype d) {
  bool finite = true;
  for (int64_t i = 0; i < count * (d == real_of(d) ? 1 : 2); i++) finite &= isfinite(component(v, i, d)) != 0;
  return finite;
}
static void fill_with_nan(void *v, int64_t count, tc_dtype d) {
  for (int64_t i = 0; i < count * (d == real_of(d) ? 1 : 2); i++) {
    if (real_of(d) == TC_F32) ((float *)v)[i] = NAN;
    else ((double *)v)[i] = NAN;
  }
}

// Of a matrix that is not finite all values and vectors are NaN: LAPACK fails, gives numbers that mean nothing, or does
// not end.
static lint run_eigh(task *t) {
  typedef void syev(const char *, const char *, const lint *, void *, const lint *, void *, void *, const lint *,
                    lint *, size_t, size_t);
  typedef void heev(const char *, const char *, const lint *, void *, const lint *, void *, void *, const lint *,
                    void *, lint *, size_t, size_t);
  const job *j = t->j;
  const tc_view *a = &t->in[0];
  size_t size = size_of(a->dtype), real = size_of(real_of(a->dtype));
  char vectors = j->flag[0] ? 'V' : 'N', probe[16] = {0};
  lint n = (lint)columns_of(a), ld = at_least_1(n), lwork = -1, info = 0;
  void *w = take_memory(t, (int64_t)n * n, size), *e = take_memory(t, n, real),
       *rwork = take_memory(t, 3 * (int64_t)n + 1, real), *work = probe;
  for (int32_t pass = 0; pass < 2 && !t->short_of_memory; pass++) {
    if (pass == 1) {
      lwork = wanted(j, probe), work = take_memory(t, lwork, size);
      if (t->short_of_memory || !start(t, a, 2)) return 0;
    }
    do {
      if (pass == 1) {
        get(t, a, w, ld);
        clear_triangle(w, n, n, ld, j->mode == 'U', size);
      }
      if (pass == 1 && !all_finite(w, (int64_t)n * n, a->dtype)) {
        fill_with_nan(w, (int64_t)n * n, a->dtype);
        fill_with_nan(e, n, real_of(a->dtype));
      } else if (j->complex) ((heev *)j->f[0])(&vectors, &j->mode, &n, w, &ld, e, work, &lwork, rwork, &info, 1, 1);
      else ((syev *)j->f[0])(&vectors, &j->mode, &n, w, &ld, e, work, &lwork, &info, 1, 1);
      if (pass == 0) break;
      if (info) return info;
      put_vector(t, &t->out[0], e);
      if (j->flag[0]) put(t, &t->out[1], w, ld);
    } while (step(t));
  }
  return 0;
}

// Of a real matrix, LAPACK gives pairs of conjugate eigenvalues as real and imaginary parts, and so their vectors.
static void assemble(const job *j, lint n, const void *wr, const void *wi, const void *vr, void *w, void *v) {
  bool single = j->dtype == TC_F32;
#define AT(p, i) (single ? (double)((const float *)(p))[i] : ((const double *)(p))[i])
#define SET(p, i, x)                            \
  do {                                          \
    if (single) ((float *)(p))[i] = (float)(x); \
    else ((double *)(p))[i] = (x);              \
  } while (0)
  for (lint k = 0; k < n; k++) {
    SET(w, 2 * k, AT(wr, k));
    SET(w, 2 * k + 1, AT(wi, k));
  }
  for (lint k = 0; k < n && v; k++) {
    bool pair = AT(wi, k) > 0 && k + 1 < n;
    for (lint i = 0; i < n; i++) {
      int64_t at = i + (int64_t)k * n;
      SET(v, 2 * at, AT(vr, at));
      SET(v, 2 * at + 1, pair ? AT(vr, at + n) : 0);
      if (!pair) continue;
      SET(v, 2 * (at + n), AT(vr, at));
      SET(v, 2 * (at + n) + 1, -AT(vr, at + n));
    }
    if (pair) k++;
  }
#undef AT
#undef SET
}
static lint run_eig(task *t) {
  typedef void geev_r(const char *, const char *, const lint *, void *, const lint *, void *, void *, void *,
                      const lint *, void *, const lint *, void *, const lint *, lint *, size_t, size_t);
  typedef void geev_c(const char *, const char *, const lint *, void *, const lint *, void *, void *, const lint *,
                      void *, const lint *, void *, const lint *, void *, lint *, size_t, size_t);
  const job *j = t->j;
  const tc_view *a = &t->in[0];
  size_t size = size_of(a->dtype), real = size_of(real_of(a->dtype));
  char vectors = j->flag[0] ? 'V' : 'N', probe[16] = {0};
  lint n = (lint)columns_of(a), ld = at_least_1(n), lwork = -1, info = 0;
  void *w = take_memory(t, (int64_t)n * n, size), *v = take_memory(t, (int64_t)n * n, size),
       *e = take_memory(t, n, 2 * real), *wr = take_memory(t, 2 * (int64_t)n + 1, real), *wi = take_memory(t, n, real),
       *full = take_memory(t, (int64_t)n * n, 2 * real), *work = probe;
  for (int32_t pass = 0; pass < 2 && !t->short_of_memory; pass++) {
    if (pass == 1) {
      lwork = wanted(j, probe), work = take_memory(t, lwork, size);
      if (t->short_of_memory || !start(t, a, 2)) return 0;
    }
    do {
      if (pass == 1) get(t, a, w, ld);
      if (pass == 1 && !all_finite(w, (int64_t)n * n, a->dtype)) {
        if (j->flag[0]) {
          t->refusal = "torch.linalg.eig: input tensor should not contain infs or NaNs.";
          return 0;
        }
        fill_with_nan(e, 2 * (int64_t)n, real_of(a->dtype));
        put_vector(t, &t->out[0], e);
        continue;
      }
      if (j->complex)
        ((geev_c *)j->f[0])("N", &vectors, &n, w, &ld, e, NULL, &ld, v, &ld, work, &lwork, wr, &info, 1, 1);
      else ((geev_r *)j->f[0])("N", &vectors, &n, w, &ld, wr, wi, NULL, &ld, v, &ld, work, &lwork, &info, 1, 1);
      if (pass == 0) break;
      if (info) return info;
      if (!j->complex) assemble(j, n, wr, wi, v, e, j->flag[0] ? full : NULL);
      put_vector(t, &t->out[0], e);
      if (j->flag[0]) put(t, &t->out[1], j->complex ? v : full, ld);
    } while (step(t));
  }
  return 0;
}

static lint run_svd(task *t) {
  typedef void gesdd_r(const char *, const lint *, const lint *, void *, const lint *, void *, void *, const lint *,
                       void *, const lint *, void *, const lint *, lint *, lint *, size_t);
  typedef void gesdd_c(const char *, const lint *, const lint *, void *, const lint *, void *, void *, const lint *,
                       void *, const lint *, void *, const lint *, void *, lint *, lint *, size_t);
  const job *j = t->j;
  const tc_view *a = &t->in[0];
  size_t size = size_of(a->dtype), real = size_of(real_of(a->dtype));
  char what = !j->flag[1] ? 'N' : j->flag[0] ? 'A' : 'S', probe[16] = {0};
  lint m = (lint)rows_of(a), n = (lint)columns_of(a), k = m < n ? m : n, big = m < n ? n : m, ld = at_least_1(m),
       lu = at_least_1(m), lv = at_least_1(what == 'A' ? n : k), lwork = -1, info = 0;
  int64_t reals = (int64_t)k * (5 * (int64_t)k + 7 + 2 * (int64_t)big + 2 * (int64_t)k + 1) + 1;
  void *w = take_memory(t, (int64_t)m * n, size), *s = take_memory(t, k, real),
       *u = take_memory(t, (int64_t)m * (what == 'A' ? m : k), size), *v = take_memory(t, (int64_t)lv * n, size),
       *rwork = j->complex ? take_memory(t, reals, real) : NULL, *work = probe;
  lint *iwork = take_memory(t, 8 * (int64_t)k, sizeof *iwork);
  for (int32_t pass = 0; pass < 2 && !t->short_of_memory; pass++) {
    if (pass == 1) {
      lwork = wanted(j, probe), work = take_memory(t, lwork, size);
      if (t->short_of_memory || !start(t, a, 2)) return 0;
    }
    do {
      if (pass == 1) get(t, a, w, ld);
      if (j->complex)
        ((gesdd_c *)j->f[0])(&what, &m, &n, w, &ld, s, u, &lu, v, &lv, work, &lwork, rwork, iwork, &info, 1);
      else ((gesdd_r *)j->f[0])(&what, &m, &n, w, &ld, s, u, &lu, v, &lv, work, &lwork, iwork, &info, 1);
      if (pass == 0) break;
      if (info) return info;
      put_vector(t, &t->out[1], s);
      if (what == 'N') continue;
      put(t, &t->out[0], u, lu);
      put(t, &t->out[2], v, lv);
    } while (step(t));
  }
  return 0;
}

static void run_ldl(task *t) {
  typedef void sytrf(const char *, const lint *, void *, const lint *, lint *, void *, const lint *, lint *, size_t);
  const job *j = t->j;
  const tc_view *a = &t->in[0];
  size_t size = size_of(a->dtype);
  char probe[16] = {0};
  lint n = (lint)columns_of(a), ld = at_least_1(n), lwork = -1, info = 0;
  void *w = take_memory(t, (int64_t)n * n, size);
  lint *p = take_memory(t, n, sizeof *p);
  if (t->short_of_memory) return;
  ((sytrf *)j->f[0])("L", &n, w, &ld, p, probe, &lwork, &info, 1);
  lwork = wanted(j, probe);
  void *work = take_memory(t, lwork, size);
  if (t->short_of_memory || !start(t, a, 2)) return;
  do {
    get(t, a, w, ld);
    clear_triangle(w, n, n, ld, false, size);
    ((sytrf *)j->f[0])("L", &n, w, &ld, p, work, &lwork, &info, 1);
    put(t, &t->out[0], w, ld);
    put_vector(t, &t->out[1], p);
    put_info(t, &t->out[2], info);
  } while (step(t));
}

static void run_ldl_solve(task *t) {
  typedef void sytrs(const char *, const lint *, const lint *, const void *, const lint *, const lint *, void *,
                     const lint *, lint *, size_t);
  const tc_view *a = &t->in[0], *p = &t->in[1], *b = &t->in[2], *x = &t->out[0];
  lint n = (lint)columns_of(a), nrhs = (lint)columns_of(b), ld = at_least_1(n), info;
  void *w = take_memory(t, (int64_t)n * n, size_of(a->dtype)),
       *r = take_memory(t, (int64_t)n * nrhs, size_of(a->dtype));
  lint *q = take_memory(t, n, sizeof *q);
  if (t->short_of_memory || !start(t, x, 2)) return;
  do {
    get(t, a, w, ld);
    get(t, b, r, ld);
    if (!take_pivots(t, p, n, n, true, q)) return;
    ((sytrs *)t->j->f[0])("L", &n, &nrhs, w, &ld, q, r, &ld, &info, 1);
    put(t, x, r, ld);
  } while (step(t));
}

// The permutation that the row exchanges make, and the two triangles.
static void run_unpack(task *t) {
  const job *j = t->j;
  const tc_view *a = &t->in[0], *p = &t->in[1];
  size_t size = size_of(a->dtype);
  lint m = (lint)rows_of(a), n = (lint)columns_of(a), k = m < n ? m : n, ld = at_least_1(m);
  static const float one_f[2] = {1, 0};
  static const double one_d[2] = {1, 0};
  const void *one = real_of(a->dtype) == TC_F32 ? (const void *)one_f : one_d;
  char *w = take_memory(t, (int64_t)m * n, size), *f = take_memory(t, (int64_t)m * (m > n ? m : n), size);
  lint *rows = take_memory(t, m, sizeof *rows), *q = take_memory(t, k, sizeof *q);
  if (t->short_of_memory || !start(t, a, 2)) return;
  do {
    get(t, a, w, ld);
    for (lint i = 0; i < m; i++) rows[i] = i;
    if (j->flag[1] && !take_pivots(t, p, k, m, false, q)) return;
    for (lint i = 0; i < k && j->flag[1]; i++) {
      lint r = rows[i];
      rows[i] = rows[q[i] - 1], rows[q[i] - 1] = r;
    }
    if (j->flag[1]) {
      memset(f, 0, (size_t)m * (size_t)m * size);
      for (lint i = 0; i < m; i++) memcpy(f + ((size_t)rows[i] + (size_t)i * (size_t)m) * size, one, size);
      put(t, &t->out[0], f, ld);
    }
    if (!j->flag[0]) continue;
    memcpy(f, w, (size_t)m * (size_t)k * size);
    clear_triangle(f, m, k, ld, false, size);
    for (lint i = 0; i < k; i++) memcpy(f + ((size_t)i + (size_t)i * (size_t)m) * size, one, size);
    put(t, &t->out[1], f, ld);
    clear_triangle(w, m, n, ld, true, size);
    put(t, &t->out[2], w, ld);
  } while (step(t));
}

// e^A by scaling and squaring (Higham: Functions of Matrices, 2008, 10.3): a power of two brings the norm to ½, where
// 17 terms of the series leave 2^-58, and the sum is squared as often. Always in f64.
enum { TERMS = 17 };
typedef void gemm(const char *, const char *, const lint *, const lint *, const lint *, const void *, const void *,
                  const lint *, const void *, const lint *, const void *, void *, const lint *, size_t, size_t);
// c = f·a·b + g·c for square matrices.
static void multiply(const task *t, lint n, double f, const double *a, const double *b, double g, double *c) {
  const double by[2] = {f, 0}, keep[2] = {g, 0};
  ((gemm *)t->j->f[0])("N", "N", &n, &n, &n, by, a, &n, b, &n, keep, c, &n, 1, 1);
}
static double largest_column(const double *a, lint n, int32_t parts) {
  double most = 0;
  for (lint c = 0; c < n; c++) {
    double sum = 0;
    for (lint r = 0; r < n; r++) {
      const double *v = a + ((size_t)c * (size_t)n + (size_t)r) * (size_t)parts;
      sum += parts == 2 ? hypot(v[0], v[1]) : fabs(v[0]);
    }
    if (!(sum <= most)) most = sum; // NaN stays
  }
  return most;
}
static void exponential(const task *t, double *a, double *x, double *y, lint n) {
  int32_t parts = t->j->complex ? 2 : 1, squarings = 0;
  size_t count = (size_t)n * (size_t)n * (size_t)parts;
  double norm = largest_column(a, n, parts);
  if (!isfinite(norm)) {
    for (size_t i = 0; i < count; i++) x[i] = NAN;
    return;
  }
  for (; norm > 0.5; norm *= 0.5) squarings++;
  for (size_t i = 0; i < count; i++) a[i] = ldexp(a[i], -squarings), x[i] = 0;
  for (lint i = 0; i < n; i++) x[((size_t)i * (size_t)n + (size_t)i) * (size_t)parts] = 1;
  for (int32_t k = TERMS; k > 0; k--) { // x = 1 + a·x/k
    multiply(t, n, 1.0 / k, a, x, 0, y);
    for (lint i = 0; i < n; i++) y[((size_t)i * (size_t)n + (size_t)i) * (size_t)parts] += 1;
    memcpy(x, y, count * sizeof *x);
  }
  for (; squarings > 0; squarings--) {
    multiply(t, n, 1, x, x, 0, y);
    memcpy(x, y, count * sizeof *x);
  }
}
static void run_exponential(task *t) {
  const tc_view *a = &t->in[0];
  lint n = (lint)columns_of(a);
  bool narrow = real_of(a->dtype) == TC_F32;
  int64_t count = (int64_t)n * n * (t->j->complex ? 2 : 1);
  void *w = take_memory(t, (int64_t)n * n, size_of(a->dtype));
  double *x[3];
  for (int32_t i = 0; i < 3; i++) x[i] = take_memory(t, count, sizeof(double));
  if (t->short_of_memory || n == 0 || !start(t, a, 2)) return;
  do {
    get(t, a, w, n);
    for (int64_t i = 0; i < count; i++) x[0][i] = narrow ? (double)((float *)w)[i] : ((double *)w)[i];
    exponential(t, x[0], x[1], x[2], n);
    for (int64_t i = 0; i < count; i++) {
      if (narrow) ((float *)w)[i] = (float)x[1][i];
      else ((double *)w)[i] = x[1][i];
    }
    put(t, &t->out[0], w, n);
  } while (step(t));
}

// Copies; the first info that is not 0 and its place in the batch are what has to be said.
static lint run_checked(task *t, int64_t *out_place) {
  const tc_view *x = &t->in[0], *info = &t->in[1], *y = &t->out[0];
  lint v = 0;
  *out_place = 0;
  if (start(t, info, 0)) do {
      memcpy(&v, base_of(t, info, 0), sizeof v);
      if (v) return v;
      ++*out_place;
    } while (step(t));
  memset(t->index, 0, sizeof t->index);
  if (start(t, x, 2)) do {
      copy(base_of(t, y, 2), y->strides[y->rank - 2], y->strides[y->rank - 1], base_of(t, x, 2),
           x->strides[x->rank - 2], x->strides[x->rank - 1], rows_of(x), columns_of(x), size_of(x->dtype));
    } while (step(t));
  return 0;
}
static int32_t complain(const job *j, lint info, int32_t batch_rank, int64_t place) {
  char text[320], which[48] = "";
  int n;
  if (batch_rank) snprintf(which, sizeof which, "(Batch element %lld): ", (long long)place);
  if (j->kind == SVD && info == -4) // its fourth argument, the matrix, has a NaN
    n = snprintf(text, sizeof text,
                 "The algorithm failed to converge because the input matrix contained non-finite values.");
  else if (j->kind != CHECKED)
    n = snprintf(
        text, sizeof text,
        "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated "
        "singular values or eigenvalues (error code: %d)",
        (int)info);
  else if (strncmp(j->name, "linalg.cholesky", 15) == 0)
    n = snprintf(
        text, sizeof text,
        "%s: %sThe factorization could not be completed because the input is not positive-definite (the leading "
        "minor of order %d is not positive-definite).",
        j->name, which, (int)info);
  else
    n = snprintf(text, sizeof text,
                 "%s: %sThe diagonal element %d is zero, the %s could not be completed because the input matrix is "
                 "singular.",
                 j->name, which, (int)info, strcmp(j->name, "linalg.inv") == 0 ? "inversion" : "solve");
  j->host->diag(j->host->self, TC_STATUS_INVALID_ARGUMENT, (tc_sv){text, (size_t)n});
  return TC_STATUS_INVALID_ARGUMENT;
}

static int32_t run(void *prepared, tc_handle stream, const tc_view *operands, const tc_view *results,
                   tc_handle workspace, int64_t offset) {
  (void)stream, (void)workspace, (void)offset;
  const job *j = prepared;
  task t = {.j = j, .in = operands, .out = results};
  lint info = 0;
  int64_t place = 0;
  switch (j->kind) {
  case LU: run_lu(&t); break;
  case LU_SOLVE: run_lu_solve(&t); break;
  case CHOLESKY: run_cholesky(&t); break;
  case TRIANGULAR: run_triangular(&t); break;
  case QR:
  case GEQRF: run_qr(&t); break;
  case HOUSEHOLDER: run_householder(&t); break;
  case EIGH: info = run_eigh(&t); break;
  case EIG: info = run_eig(&t); break;
  case SVD: info = run_svd(&t); break;
  case LDL_SOLVE: run_ldl_solve(&t); break;
  case UNPACK: run_unpack(&t); break;
  case EXP: run_exponential(&t); break;
  case CHECKED: info = run_checked(&t, &place); break;
  default: run_ldl(&t);
  }
  for (int32_t i = 0; i < t.n_buffers; i++) j->host->free(j->host->self, t.buffer[i]);
  if (t.short_of_memory) return TC_STATUS_OUT_OF_MEMORY;
  if (t.refusal) {
    j->host->diag(j->host->self, TC_STATUS_INVALID_ARGUMENT, (tc_sv){t.refusal, strlen(t.refusal)});
    return TC_STATUS_INVALID_ARGUMENT;
  }
  return info ? complain(j, info, t.rank, place) : TC_STATUS_OK;
}

static void destroy(void *prepared) {
  const job *j = prepared;
  if (j) j->host->free(j->host->self, prepared);
}

static const tc_call_table table = {.struct_size = sizeof table,
                                    .name = {"lapack", 6},
                                    .supports = supports,
                                    .prepare = prepare,
                                    .run = run,
                                    .destroy = destroy,
                                    .thread_safe = 1,
                                    .capture_safe = 1};

const tc_call_table *tc_cpu_lapack_table(const tc_host *h);

TC_PLUGIN_EXPORT const tc_call_table *tc_cpu_lapack_table(const tc_host *h) {
  return tc_sdk_init(h) == TC_STATUS_OK && the_library() ? &table : NULL;
}
