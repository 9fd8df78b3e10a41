// Matrix products by cuBLASLt as calls.
//
// f32 products are computed in f32 (no TF32), 16-bit ones accumulate in f32. The library's own heuristic orders the
// algorithms, for operands that lie at multiples of 16 bytes and for any; the first is taken unless an autotuner asks
// for another of the former (ways). What is prepared is not changed by
// runs; the description of a product with a bias holds the bias's address, so each run makes its own.
#include "blas.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cuda.h"
#include "library.h"
#include "product.h"

enum { WORKSPACE_BYTES = 32 << 20, CALL_NS = 4000, LEAST_FLOPS = 1 << 16, MOST_WAYS = 12 };
enum {
  MANY = 64,
  SMALL = 16,
  SMALL_REAL = 24,
  FEW_STEPS = 1024,
  FEW_ELEMENTS = 1 << 15,
  TILE = 32,
  TILES_PER_CORE = 4
};

static const cuda_symbol symbols[] = {
#define X(field, symbol, params) {symbol, offsetof(cuda_blas, field)},
    LT_FUNCTIONS(X)
#undef X
};
const cuda_library_source cuda_blas_source = {
    "cuBLASLt",        "cublaslt", {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"},
    "libcublasLt.so*", "",         CUDA_SYMBOLS(symbols)};

static int32_t open_library(tc_device_ *d, char *why, size_t why_size) {
  cuda_blas *out = &d->blas;
  *out = (cuda_blas){0};
  if (!cuda_library_open(d->host, &cuda_blas_source, out, why, why_size)) return TC_STATUS_PLUGIN;
  lt_status code = out->create(&out->handle);
  if (code == 0) {
    cuda_note_blas(d);
    cuda_library_version(out->library, "cublasLtGetVersion", why, why_size);
    return TC_STATUS_OK;
  }
  snprintf(why, why_size, "cublasLtCreate failed (status %d)", code);
  return TC_STATUS_PLUGIN;
}
int32_t cuda_blas_ready(tc_device_ *d) { return cuda_open_running(d, &d->blas_library, open_library); }

typedef struct prepared {
  tc_device_ *d;
  product p;
  lt_desc desc;
  lt_layout a, b, c, out;
  lt_algo algos[2]; // for operands at multiples of 16 bytes; for any
  size_t workspace;
  int32_t bytes, has_fast, empty;
} prepared;

static int32_t failed(const tc_device_ *d, const char *what, lt_status code) {
  char text[120];
  if (code == 0) return TC_STATUS_OK;
  snprintf(text, sizeof text, "%s failed (status %d)", what, code);
  return cuda_report(d->host, code == 3 ? TC_STATUS_OUT_OF_MEMORY : TC_STATUS_DEVICE, text);
}

static int type_of(tc_dtype t) {
  switch (t) {
  case TC_F16: return LT_R_16F;
  case TC_BF16: return LT_R_16BF;
  case TC_F64: return LT_R_64F;
  case TC_C64: return LT_C_32F;
  case TC_C128: return LT_C_64F;
  default: return LT_R_32F;
  }
}

static int scale_type(tc_dtype t) { return t == TC_F16 || t == TC_BF16 ? LT_R_32F : type_of(t); }

// The library loads most of itself when it first chooses an algorithm for a type.
static void *ask_first(void *arg) {
  enum { SIDE = 64 };
  const cuda_question *q = arg;
  const tc_device_ *d = q->d;
  const cuda_blas *l = &d->blas;
  lt_desc desc = NULL;
  lt_layout square = NULL;
  lt_preference preference = NULL;
  lt_heuristic first;
  int got, wide = q->type == LT_R_64F || q->type == LT_C_64F;
  if (d->driver.context_set(d->context) != CU_OK) return NULL;
  if (l->desc_create(&desc, wide ? LT_COMPUTE_64F : LT_COMPUTE_32F, q->scale) == 0 &&
      l->layout_create(&square, q->type, SIDE, SIDE, SIDE) == 0 && l->preference_create(&preference) == 0)
    l->heuristic(l->handle, desc, square, square, square, square, preference, 1, &first, &got);
  if (preference) l->preference_destroy(preference);
  if (square) l->layout_destroy(square);
  if (desc) l->desc_destroy(desc);
  return NULL;
}

// Begins with that for a product that will be prepared.
static void ask_ahead(tc_device_ *d, tc_dtype t) {
  int type = type_of(t);
  if (__atomic_fetch_or(&d->blas.asked, 1u << type, __ATOMIC_ACQ_REL) & 1u << type) return;
  cuda_question *q = &d->blas.questions[type];
  *q = (cuda_question){d, type, scale_type(t)};
  cuda_begin(&d->asking, ask_first, q);
}

static int32_t size_of(tc_dtype t) { return t == TC_F16 || t == TC_BF16 ? 2 : t == TC_F32 ? 4 : t == TC_C128 ? 16 : 8; }

static int32_t make_desc(const prepared *x, cu_ptr bias, lt_desc *out) {
  const cuda_blas *l = &x->d->blas;
  int32_t wide = x->p.dtype == TC_F64 || x->p.dtype == TC_C128;
  lt_status s = l->desc_create(out, wide ? LT_COMPUTE_64F : LT_COMPUTE_32F, scale_type(x->p.dtype));
  if (s != 0) return failed(x->d, "cublasLtMatmulDescCreate", s);
  int32_t a = x->p.a.transposed, b = x->p.b.transposed, has_bias = x->p.bias >= 0;
  int32_t epilogue = x->p.function >= 0 ? has_bias ? LT_EPILOGUE_GELU_BIAS : LT_EPILOGUE_GELU
                     : has_bias         ? LT_EPILOGUE_BIAS
                                        : LT_EPILOGUE_DEFAULT;
  s = l->desc_set(*out, LT_DESC_TRANSPOSE_A, &a, sizeof a);
  if (s == 0) s = l->desc_set(*out, LT_DESC_TRANSPOSE_B, &b, sizeof b);
  if (s == 0 && epilogue != LT_EPILOGUE_DEFAULT) s = l->desc_set(*out, LT_DESC_EPILOGUE, &epilogue, sizeof epilogue);
  if (s == 0 && bias) s = l->desc_set(*out, LT_DESC_BIAS_POINTER, &bias, sizeof bias);
  return failed(x->d, "cublasLtMatmulDescSetAttribute", s);
}

static int32_t make_layout(const prepared *x, const product_matrix *m, lt_layout *out) {
  const cuda_blas *l = &x->d->blas;
  lt_status s = l->layout_create(out, type_of(x->p.dtype), (uint64_t)m->rows, (uint64_t)m->cols, m->ld);
  int32_t count = (int32_t)x->p.batch;
  if (s == 0 && count > 1) s = l->layout_set(*out, LT_LAYOUT_BATCH_COUNT, &count, sizeof count);
  if (s == 0 && count > 1) s = l->layout_set(*out, LT_LAYOUT_BATCH_STRIDE, &m->batch_stride, sizeof m->batch_stride);
  return failed(x->d, "cublasLtMatrixLayoutCreate", s);
}

// The heuristic's choices for operands that lie at multiples of `align` bytes, best first, at most `most`.
static int32_t ask(const prepared *x, uint32_t align, int most, lt_heuristic *out, int *out_count) {
  const cuda_blas *l = &x->d->blas;
  lt_preference preference = NULL;
  uint64_t workspace = WORKSPACE_BYTES;
  int got = 0, kept = 0;
  cuda_wait(&x->d->asking);
  lt_status s = l->preference_create(&preference);
  if (s == 0) s = l->preference_set(preference, LT_PREFERENCE_WORKSPACE, &workspace, sizeof workspace);
  for (int i = 0; i < 4 && s == 0; i++)
    s = l->preference_set(preference, LT_PREFERENCE_ALIGN_A + i, &align, sizeof align);
  if (s == 0) s = l->heuristic(l->handle, x->desc, x->a, x->b, x->c, x->out, preference, most, out, &got);
  for (int i = 0; i < got && s == 0; i++)
    if (out[i].state == 0) out[kept++] = out[i];
  if (s == 0 && kept < 1) s = 15; // CUBLAS_STATUS_NOT_SUPPORTED
  *out_count = kept;
  if (preference) l->preference_destroy(preference);
  return failed(x->d, "cublasLtMatmulAlgoGetHeuristic", s);
}

// Choice number `way`, or the first where there are not so many.
static int32_t choose(prepared *x, uint32_t align, int32_t way, lt_algo *out) {
  lt_heuristic list[MOST_WAYS];
  int n = 0;
  int32_t s = ask(x, align, way ? MOST_WAYS : 1, list, &n);
  if (s != TC_STATUS_OK) return s;
  const lt_heuristic *taken = &list[way < n ? way : 0];
  *out = taken->algo;
  if (taken->workspace > x->workspace) x->workspace = taken->workspace;
  return TC_STATUS_OK;
}

static void destroy(void *p) {
  prepared *x = p;
  if (!x) return;
  const cuda_blas *l = &x->d->blas;
  if (x->desc) l->desc_destroy(x->desc);
  lt_layout layouts[4] = {x->a, x->b, x->c, x->out};
  for (int32_t i = 0; i < 4; i++) {
    if (layouts[i]) l->layout_destroy(layouts[i]);
  }
  x->d->host->free(x->d->host->self, x);
}

static int32_t describe(prepared *x) {
  int32_t s = make_desc(x, 0, &x->desc);
  if (s == TC_STATUS_OK) s = make_layout(x, &x->p.a, &x->a);
  if (s == TC_STATUS_OK) s = make_layout(x, &x->p.b, &x->b);
  if (s == TC_STATUS_OK) s = make_layout(x, &x->p.c, &x->c);
  if (s == TC_STATUS_OK) s = make_layout(x, &x->p.d, &x->out);
  x->has_fast = x->p.aligned;
  return s;
}

static int32_t build(prepared *x, int32_t way) {
  int32_t s = describe(x);
  if (s == TC_STATUS_OK && x->has_fast) s = choose(x, 16, way, &x->algos[0]);
  if (s == TC_STATUS_OK) s = choose(x, (uint32_t)x->bytes, 0, &x->algos[1]);
  return s;
}

// ---- The table ----
static bool has_few_tiles(const tc_device_ *d, const product *p) {
  int64_t tiles = (p->m + TILE - 1) / TILE * ((p->n + TILE - 1) / TILE);
  return p->dtype == TC_F32 && p->batch == 1 && p->k > 0 && p->k <= FEW_STEPS && p->m * p->n <= FEW_ELEMENTS &&
         tiles <= TILES_PER_CORE * (int64_t)d->props.cores;
}

static int32_t supports(const tc_host *h, tc_device_ *d, const tc_call_node *n, int64_t *out_cost) {
  product p;
  const char *why = "";
  *out_cost = -1;
  int32_t s = product_of(n, PRODUCT_BY_LIBRARY, &p, &why);
  if (s != TC_STATUS_OK) {
    cuda_report(h, s, why);
    return TC_STATUS_OK;
  }
  double flops = 2.0 * (double)p.m * (double)p.n * (double)p.k * (double)p.batch;
  // The library takes a hundred times what many complex matrices of 2 x 2 need, twice at 16 x 16, and two to three
  // times what real ones of up to 8 x 8 need, 1.4 times at 24 x 24 (on an H200); the template reads them once.
  int32_t is_complex = p.dtype == TC_C64 || p.dtype == TC_C128, small = is_complex ? SMALL : SMALL_REAL;
  if (p.dtype != TC_F64 && p.batch >= MANY && p.m <= small && p.n <= small && p.k <= small) {
    cuda_report(h, TC_STATUS_UNIMPLEMENTED, "many small matrices");
    return TC_STATUS_OK;
  }
  // A product of few tiles takes the library three times what a kernel takes whose lanes share k (64 x 256 x 256 on an
  // H200: 17 and 6 microseconds, cold), and what follows needs no trip.
  if (has_few_tiles(d, &p)) {
    cuda_report(h, TC_STATUS_UNIMPLEMENTED, "a product of few tiles");
    return TC_STATUS_OK;
  }
  // What is nothing, or so little that a launch of its own does not pay, stays with its neighbours.
  if (p.k == 0 || flops < LEAST_FLOPS || p.batch > INT32_MAX || cuda_blas_ready(d) != TC_STATUS_OK) return TC_STATUS_OK;
  ask_ahead(d, p.dtype);
  double rate = (double)d->props.flops_per_ns * (p.dtype == TC_F16 || p.dtype == TC_BF16 ? 10 : 0.7);
  if (is_complex) flops *= 4;
  *out_cost = CALL_NS + (int64_t)(flops / (rate > 1 ? rate : 1));
  return TC_STATUS_OK;
}

// The product, not yet described to the library; to be destroyed also after a failure.
static int32_t begin(const tc_host *h, tc_device_ *d, const tc_call_node *n, prepared **out) {
  const char *why = "";
  int32_t s = cuda_blas_ready(d);
  if (s != TC_STATUS_OK) return s;
  prepared *x = *out = h->alloc(h->self, sizeof *x);
  if (!x) return TC_STATUS_OUT_OF_MEMORY;
  x->d = d;
  s = product_of(n, PRODUCT_BY_LIBRARY, &x->p, &why);
  if (s != TC_STATUS_OK) return cuda_report(h, s, why);
  x->bytes = size_of(x->p.dtype);
  x->empty = x->p.m == 0 || x->p.n == 0 || x->p.batch == 0;
  if (x->empty || x->p.k) return TC_STATUS_OK;
  return cuda_report(h, TC_STATUS_UNIMPLEMENTED, "a product over nothing");
}

// Ways other than the first choice matter only where operands lie well.
static int32_t variants(const tc_host *h, tc_device_ *d, const tc_call_node *n, int32_t *out_count) {
  lt_heuristic list[MOST_WAYS];
  prepared *x = NULL;
  int count = 1;
  int32_t s = begin(h, d, n, &x);
  if (s == TC_STATUS_OK && !x->empty) s = describe(x);
  if (s == TC_STATUS_OK && !x->empty && x->has_fast) s = ask(x, 16, MOST_WAYS, list, &count);
  *out_count = s == TC_STATUS_OK ? count - 1 : 0;
  destroy(x);
  return s;
}

static int32_t prepare(const tc_host *h, tc_device_ *d, const tc_call_node *n, void **out, uint64_t *out_workspace) {
  prepared *x = NULL;
  int32_t s = begin(h, d, n, &x);
  if (s == TC_STATUS_OK && !x->empty) s = build(x, n->variant);
  if (s != TC_STATUS_OK) {
    destroy(x);
    return s;
  }
  *out = x;
  *out_workspace = x->workspace;
  return TC_STATUS_OK;
}

// A real factor in the type that the library scales with.
static void put_scale(tc_dtype t, double v, double out[2]) {
  float f[2] = {(float)v, 0};
  double d[2] = {v, 0};
  if (t == TC_F64 || t == TC_C128) memcpy(out, d, sizeof d);
  else memcpy(out, f, sizeof f);
}

static int32_t run(void *p, tc_handle stream, const tc_view *operands, const tc_view *results, tc_handle workspace,
                   int64_t offset) {
  const prepared *x = p;
  const product *q = &x->p;
  double alpha[2], beta[2];
  if (x->empty) return TC_STATUS_OK;
  int32_t s = cuda_enter(x->d);
  if (s != TC_STATUS_OK) return s;
  cu_ptr a = cuda_address(&operands[q->a.operand]), b = cuda_address(&operands[q->b.operand]),
         d = cuda_address(results), c = q->has_c ? cuda_address(&operands[q->c.operand]) : d;
  lt_desc desc = x->desc;
  if (q->bias >= 0) {
    desc = NULL;
    s = make_desc(x, cuda_address(&operands[q->bias]), &desc);
  }
  put_scale(q->dtype, q->alpha, alpha);
  put_scale(q->dtype, q->has_c ? q->beta : 0, beta);
  int32_t fast = x->has_fast && ((a | b | c | d) & 15) == 0;
  if (s == TC_STATUS_OK) {
    lt_status code = x->d->blas.matmul(x->d->blas.handle, desc, alpha, (void *)(uintptr_t)a, x->a, (void *)(uintptr_t)b,
                                       x->b, beta, (void *)(uintptr_t)c, x->c, (void *)(uintptr_t)d, x->out,
                                       &x->algos[!fast], (void *)(uintptr_t)(workspace + (uint64_t)offset),
                                       x->workspace, (cu_stream)(uintptr_t)stream);
    s = failed(x->d, "cublasLtMatmul", code);
  }
  if (q->bias >= 0 && desc) x->d->blas.desc_destroy(desc);
  return s;
}

const tc_call_table cuda_blas_calls = {CUDA_CALLS("cublaslt"), .destroy = destroy, .variants = variants};
