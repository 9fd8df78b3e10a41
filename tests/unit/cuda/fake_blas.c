// A cuBLASLt for tests: the functions that the plugin uses, over host memory, done at once by the definition.
#include <complex.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
enum { OK = 0, INVALID = 7, NOT_SUPPORTED = 15 };

typedef struct desc {
  int compute, scale, transpose[2], epilogue;
  uint64_t bias;
} desc;
typedef struct layout {
  int type;
  uint64_t rows, cols;
  int64_t ld, stride;
  int32_t count;
} layout;
typedef struct preference {
  uint64_t workspace;
  uint32_t align[4];
} preference;
typedef struct heuristic {
  uint64_t algo[8];
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
} heuristic;

static int live; // atomic
EXPORT int fake_blas_live(void) { return __atomic_load_n(&live, __ATOMIC_RELAXED); }

static int make(void **out, size_t size) {
  *out = calloc(1, size);
  __atomic_fetch_add(&live, 1, __ATOMIC_RELAXED);
  return *out ? OK : INVALID;
}
static int drop(void *p) {
  __atomic_fetch_sub(&live, 1, __ATOMIC_RELAXED);
  free(p);
  return OK;
}

EXPORT size_t cublasLtGetVersion(void) { return 130100; }
EXPORT int cublasLtCreate(void **out) { return make(out, 8); }
EXPORT int cublasLtDestroy(void *p) { return drop(p); }
EXPORT int cublasLtMatmulDescCreate(void **out, int compute, int scale) {
  int s = make(out, sizeof(desc));
  *(desc *)*out = (desc){.compute = compute, .scale = scale, .epilogue = 1};
  return s;
}
EXPORT int cublasLtMatmulDescSetAttribute(void *p, int attribute, const void *value, size_t size) {
  desc *d = p;
  if (attribute == 3 || attribute == 4) memcpy(&d->transpose[attribute - 3], value, size);
  else if (attribute == 7) memcpy(&d->epilogue, value, size);
  else if (attribute == 8) memcpy(&d->bias, value, size);
  else return INVALID;
  return OK;
}
EXPORT int cublasLtMatmulDescDestroy(void *p) { return drop(p); }
EXPORT int cublasLtMatrixLayoutCreate(void **out, int type, uint64_t rows, uint64_t cols, int64_t ld) {
  int s = make(out, sizeof(layout));
  *(layout *)*out = (layout){.type = type, .rows = rows, .cols = cols, .ld = ld, .count = 1};
  return ld >= (int64_t)rows ? s : INVALID;
}
EXPORT int cublasLtMatrixLayoutSetAttribute(void *p, int attribute, const void *value, size_t size) {
  layout *l = p;
  if (attribute == 5) memcpy(&l->count, value, size);
  else if (attribute == 6) memcpy(&l->stride, value, size);
  else return INVALID;
  return OK;
}
EXPORT int cublasLtMatrixLayoutDestroy(void *p) { return drop(p); }
EXPORT int cublasLtMatmulPreferenceCreate(void **out) { return make(out, sizeof(preference)); }
EXPORT int cublasLtMatmulPreferenceSetAttribute(void *p, int attribute, const void *value, size_t size) {
  preference *q = p;
  if (attribute == 1) memcpy(&q->workspace, value, size);
  else if (attribute >= 5 && attribute <= 8) memcpy(&q->align[attribute - 5], value, size);
  else return INVALID;
  return OK;
}
EXPORT int cublasLtMatmulPreferenceDestroy(void *p) { return drop(p); }

// The algorithm remembers the alignment that it may count on, and its number: there are three, the third is refused.
static int last_number;
EXPORT int fake_blas_algorithm(void) { return last_number; }
EXPORT int cublasLtMatmulAlgoGetHeuristic(void *handle, void *d, void *a, void *b, void *c, void *out, void *p,
                                          int wanted, heuristic *results, int *got) {
  const preference *q = p;
  const layout *x = a, *y = b, *z = out, *w = c;
  const desc *e = d;
  (void)handle;
  uint64_t m = e->transpose[0] ? x->cols : x->rows, k = e->transpose[0] ? x->rows : x->cols;
  uint64_t k2 = e->transpose[1] ? y->cols : y->rows, n = e->transpose[1] ? y->rows : y->cols;
  *got = 0;
  if (m != z->rows || n != z->cols || k != k2 || w->rows != m || w->cols != n || wanted < 1) return INVALID;
  for (*got = 0; *got < wanted && *got < 4; ++*got)
    results[*got] = (heuristic){.algo = {q->align[0], (uint64_t)*got},
                                .workspace = q->align[0] == 16 ? 256 : 0,
                                .state = *got == 2 ? NOT_SUPPORTED : OK};
  return OK;
}

static double complex get(int type, const void *p, int64_t i) {
  uint32_t bits;
  float f;
  switch (type) {
  case 0: return ((const float *)p)[i];
  case 1: return ((const double *)p)[i];
  case 4: return ((const float complex *)p)[i];
  case 5: return ((const double complex *)p)[i];
  default: // bfloat16
    bits = (uint32_t)((const uint16_t *)p)[i] << 16;
    memcpy(&f, &bits, 4);
    return f;
  }
}
static void put(int type, void *p, int64_t i, double complex v) {
  uint32_t bits;
  float f = (float)creal(v);
  switch (type) {
  case 0: ((float *)p)[i] = f; break;
  case 1: ((double *)p)[i] = creal(v); break;
  case 4: ((float complex *)p)[i] = (float complex)v; break;
  case 5: ((double complex *)p)[i] = v; break;
  default: memcpy(&bits, &f, 4); ((uint16_t *)p)[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
}

EXPORT int cublasLtMatmul(void *handle, void *d, const void *alpha, const void *a, void *la, const void *b, void *lb,
                          const void *beta, const void *c, void *lc, void *out, void *ld, const void *algo,
                          void *workspace, size_t workspace_size, void *stream) {
  const desc *e = d;
  const layout *x = la, *y = lb, *w = lc, *z = ld;
  uint64_t align = ((const uint64_t *)algo)[0], addresses = (uint64_t)a | (uint64_t)b | (uint64_t)c | (uint64_t)out;
  (void)handle, (void)stream;
  last_number = (int)((const uint64_t *)algo)[1];
  if (addresses % align || (workspace_size && !workspace)) return INVALID;
  int64_t inner = (int64_t)(e->transpose[0] ? x->rows : x->cols);
  double complex by = get(e->scale, alpha, 0), keep = get(e->scale, beta, 0);
  for (int32_t g = 0; g < z->count; g++) {
    for (int64_t i = 0; i < (int64_t)z->rows; i++) {
      for (int64_t j = 0; j < (int64_t)z->cols; j++) {
        double complex sum = 0;
        for (int64_t k = 0; k < inner; k++)
          sum += get(x->type, a, g * x->stride + (e->transpose[0] ? k + i * x->ld : i + k * x->ld)) *
                 get(y->type, b, g * y->stride + (e->transpose[1] ? j + k * y->ld : k + j * y->ld));
        sum *= by;
        if (keep != 0) sum += keep * get(w->type, c, g * w->stride + i + j * w->ld);
        if (e->epilogue & 4) sum += get(z->type, (const void *)(uintptr_t)e->bias, i);
        double v = creal(sum);
        if (e->epilogue & 32) sum = 0.5 * v * (1 + tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
        put(z->type, out, g * z->stride + i + j * z->ld, sum);
      }
    }
  }
  return OK;
}
