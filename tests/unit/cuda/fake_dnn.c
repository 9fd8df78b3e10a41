// A cuDNN for tests: the functions that the plugin uses, over host memory, done at once by the definition.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
enum { OK = 0, BAD = 2000, NOT_SUPPORTED = 3000, RANK = 5, F32 = 0, BF16 = 9, TENSOR_CORES = 1, PLAIN = 3 };

typedef struct desc {
  int type, rank, sizes[RANK], strides[RANK];              // of a tensor or a filter
  int padding[3], steps[3], dilations[3], math, groups, n; // of a convolution
  int mode;                                                // of a function
} desc;
typedef struct choice {
  int algorithm, status;
  float ms;
  size_t workspace;
  int deterministic, math, reserved[3];
} choice;

static int live, last_algorithm, joined, refuses;
static void *stream;
EXPORT int fake_dnn_live(void) { return live; }
EXPORT int fake_dnn_algorithm(void) { return last_algorithm; }
// Convolutions with their bias in one step; whether such steps are refused.
EXPORT int fake_dnn_joined(void) { return joined; }
EXPORT void fake_dnn_refuse(int value) { refuses = value; }
EXPORT void *fake_dnn_stream(void) { return stream; }

static int make(void **out) {
  *out = calloc(1, sizeof(desc));
  live++;
  return *out ? OK : BAD;
}
static int drop(void *p) {
  live--;
  free(p);
  return OK;
}
EXPORT size_t cudnnGetVersion(void) { return 91900; }
EXPORT int cudnnCreate(void **out) { return make(out); }
EXPORT int cudnnDestroy(void *p) { return drop(p); }
EXPORT int cudnnSetStream(void *handle, void *s) { return stream = s, handle ? OK : BAD; }
EXPORT int cudnnCreateTensorDescriptor(void **out) { return make(out); }
EXPORT int cudnnDestroyTensorDescriptor(void *p) { return drop(p); }
EXPORT int cudnnCreateFilterDescriptor(void **out) { return make(out); }
EXPORT int cudnnDestroyFilterDescriptor(void *p) { return drop(p); }
EXPORT int cudnnCreateConvolutionDescriptor(void **out) { return make(out); }
EXPORT int cudnnDestroyConvolutionDescriptor(void *p) { return drop(p); }
EXPORT int cudnnCreateActivationDescriptor(void **out) { return make(out); }
EXPORT int cudnnDestroyActivationDescriptor(void *p) { return drop(p); }

EXPORT int cudnnSetTensorNdDescriptor(void *p, int type, int rank, const int *sizes, const int *strides) {
  desc *d = p;
  if (rank < 4 || rank > RANK) return BAD;
  d->type = type, d->rank = rank;
  for (int i = 0; i < rank; i++) {
    if (sizes[i] < 1 || strides[i] < 1) return BAD;
    d->sizes[i] = sizes[i], d->strides[i] = strides[i];
  }
  return OK;
}
EXPORT int cudnnSetFilterNdDescriptor(void *p, int type, int format, int rank, const int *sizes) {
  int strides[RANK], stride = 1;
  if (rank < 4 || rank > RANK || format < 0 || format > 1) return BAD;
  if (format == 0) {
    for (int i = rank; i-- > 0; stride *= sizes[i]) strides[i] = stride;
  } else {
    strides[1] = 1, stride = sizes[1];
    for (int i = rank; i-- > 2; stride *= sizes[i]) strides[i] = stride;
    strides[0] = stride;
  }
  return cudnnSetTensorNdDescriptor(p, type, rank, sizes, strides);
}
EXPORT int cudnnSetConvolutionNdDescriptor(void *p, int n, const int *padding, const int *steps, const int *dilations,
                                           int mode, int type) {
  desc *d = p;
  if (n < 2 || n > 3 || mode != 1 || type != F32) return BAD;
  for (int i = 0; i < n; i++) {
    if (padding[i] < 0 || steps[i] < 1 || dilations[i] < 1) return BAD;
    d->padding[i] = padding[i], d->steps[i] = steps[i], d->dilations[i] = dilations[i];
  }
  return d->n = n, d->groups = 1, OK;
}
EXPORT int cudnnSetConvolutionMathType(void *p, int math) { return ((desc *)p)->math = math, OK; }
EXPORT int cudnnSetConvolutionGroupCount(void *p, int groups) {
  return ((desc *)p)->groups = groups, groups > 0 ? OK : BAD;
}
EXPORT int cudnnSetActivationDescriptor(void *p, int mode, int nan, double limit) {
  return ((desc *)p)->mode = mode, nan == 1 && limit == 0 ? OK : BAD;
}

// ---- Choices ----
static int fits(const desc *x, const desc *w, const desc *conv, const desc *y) {
  if (x->rank != w->rank || x->rank != y->rank || conv->n != x->rank - 2 || x->type != w->type || x->type != y->type)
    return 0;
  if (x->sizes[0] != y->sizes[0] || w->sizes[0] != y->sizes[1] || w->sizes[1] * conv->groups != x->sizes[1]) return 0;
  for (int i = 0; i < conv->n; i++) {
    int room = x->sizes[2 + i] + 2 * conv->padding[i] - conv->dilations[i] * (w->sizes[2 + i] - 1) - 1;
    if (room < 0 || room / conv->steps[i] + 1 != y->sizes[2 + i]) return 0;
  }
  return conv->math == (x->type == F32 ? PLAIN : TENSOR_CORES);
}

// Number of an algorithm, whether its bits are always the same, and its workspace.
typedef struct kind {
  int number, deterministic;
  size_t workspace;
} kind;
static const kind forward[] = {{4, 1, 64}, {6, 1, 64}, {1, 1, 128}, {0, 1, 0}, {2, 1, (size_t)1 << 40}};
static const kind data[] = {{0, 0, 0}, {3, 1, 64}, {5, 1, 64}, {1, 1, 128}};
static const kind filter[] = {{3, 0, 0}, {6, 1, 64}, {5, 1, 64}, {1, 1, 128}};

static int choose(const desc *x, const desc *w, const desc *conv, const desc *y, const kind *list, int n, int wanted,
                  int *got, choice *out) {
  *got = 0;
  if (!fits(x, w, conv, y)) return BAD;
  for (int i = 0; i < n && *got < wanted; i++)
    out[(*got)++] = (choice){.algorithm = list[i].number,
                             .workspace = list[i].workspace,
                             .deterministic = list[i].deterministic,
                             .math = conv->math};
  return OK;
}
EXPORT int cudnnGetConvolutionForwardAlgorithm_v7(void *h, void *x, void *w, void *conv, void *y, int wanted, int *got,
                                                  choice *out) {
  return h ? choose(x, w, conv, y, forward, 5, wanted, got, out) : BAD;
}
EXPORT int cudnnGetConvolutionBackwardDataAlgorithm_v7(void *h, void *w, void *dy, void *conv, void *dx, int wanted,
                                                       int *got, choice *out) {
  return h ? choose(dx, w, conv, dy, data, 4, wanted, got, out) : BAD;
}
EXPORT int cudnnGetConvolutionBackwardFilterAlgorithm_v7(void *h, void *x, void *dy, void *conv, void *dw, int wanted,
                                                         int *got, choice *out) {
  return h ? choose(x, dw, conv, dy, filter, 4, wanted, got, out) : BAD;
}

static int workspace_of(const kind *list, int n, int algorithm, size_t *out) {
  for (int i = 0; i < n; i++)
    if (list[i].number == algorithm) return *out = list[i].workspace, OK;
  return BAD;
}
EXPORT int cudnnGetConvolutionForwardWorkspaceSize(void *h, void *x, void *w, void *conv, void *y, int algorithm,
                                                   size_t *out) {
  return h && fits(x, w, conv, y) ? workspace_of(forward, 5, algorithm, out) : BAD;
}
EXPORT int cudnnGetConvolutionBackwardDataWorkspaceSize(void *h, void *w, void *dy, void *conv, void *dx, int algorithm,
                                                        size_t *out) {
  return h && fits(dx, w, conv, dy) ? workspace_of(data, 4, algorithm, out) : BAD;
}
EXPORT int cudnnGetConvolutionBackwardFilterWorkspaceSize(void *h, void *x, void *dy, void *conv, void *dw,
                                                          int algorithm, size_t *out) {
  return h && fits(x, dw, conv, dy) ? workspace_of(filter, 4, algorithm, out) : BAD;
}

// ---- Elements ----
static int64_t offset_of(const desc *d, const int *index) {
  int64_t at = 0;
  for (int i = 0; i < d->rank; i++) at += (int64_t)index[i] * d->strides[i];
  return at;
}
static int64_t count_of(const desc *d) {
  int64_t n = 1;
  for (int i = 0; i < d->rank; i++) n *= d->sizes[i];
  return n;
}
static int next(const desc *d, int *index) {
  for (int i = d->rank; i-- > 0;) {
    if (++index[i] < d->sizes[i]) return 1;
    index[i] = 0;
  }
  return 0;
}
static float get(const desc *d, const void *p, int64_t at) {
  float f;
  if (d->type == F32) return ((const float *)p)[at];
  uint32_t bits = (uint32_t)((const uint16_t *)p)[at] << 16;
  memcpy(&f, &bits, 4);
  return f;
}
static void put(const desc *d, void *p, int64_t at, double v) {
  float f = (float)v;
  uint32_t bits;
  if (d->type == F32) {
    ((float *)p)[at] = f;
    return;
  }
  memcpy(&bits, &f, 4);
  ((uint16_t *)p)[at] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Every product of an element of x and one of w that an element of y is a sum of, added to that of the three which is
// made (0 to 2).
static void convolve(const desc *x, const void *xp, const desc *w, const void *wp, const desc *conv, const desc *y,
                     const void *yp, int made, double *sums) {
  int yi[RANK] = {0}, xi[RANK], wi[RANK];
  do {
    int of_group = w->sizes[0] / conv->groups, k[RANK] = {0};
    desc taps = *w;
    taps.sizes[0] = 1;
    do {
      int inside = 1;
      memcpy(wi, k, sizeof wi);
      wi[0] = yi[1], xi[0] = yi[0], xi[1] = yi[1] / of_group * w->sizes[1] + k[1];
      for (int i = 0; i < conv->n; i++) {
        xi[2 + i] = yi[2 + i] * conv->steps[i] + k[2 + i] * conv->dilations[i] - conv->padding[i];
        inside &= xi[2 + i] >= 0 && xi[2 + i] < x->sizes[2 + i];
      }
      if (!inside) continue;
      int64_t at[3] = {offset_of(x, xi), offset_of(w, wi), offset_of(y, yi)};
      sums[at[made]] += made == 0   ? (double)get(w, wp, at[1]) * get(y, yp, at[2])
                        : made == 1 ? (double)get(x, xp, at[0]) * get(y, yp, at[2])
                                    : (double)get(x, xp, at[0]) * get(w, wp, at[1]);
    } while (next(&taps, k));
  } while (next(y, yi));
}

static int make_one(const desc *x, const void *xp, const desc *w, const void *wp, const desc *conv, const desc *y,
                    const void *yp, int made, const kind *list, int n, int algorithm, const void *workspace,
                    size_t bytes, const void *alpha, const void *beta, const desc *bias, const void *row) {
  const desc *out = made == 0 ? x : made == 1 ? w : y;
  void *to = (void *)(uintptr_t)(made == 0 ? xp : made == 1 ? wp : yp);
  size_t least = 0;
  if (!fits(x, w, conv, y) || *(const float *)alpha != 1 || *(const float *)beta != 0) return BAD;
  if (workspace_of(list, n, algorithm, &least) != OK || bytes < least || (least && !workspace)) return BAD;
  last_algorithm = algorithm;
  double *sums = calloc((size_t)count_of(out), sizeof *sums);
  int index[RANK] = {0};
  if (!sums) return BAD;
  convolve(x, xp, w, wp, conv, y, yp, made, sums);
  do {
    int64_t at = offset_of(out, index);
    put(out, to, at, sums[at] + (row ? get(bias, row, index[1]) : 0));
  } while (next(out, index));
  free(sums);
  return OK;
}
EXPORT int cudnnConvolutionForward(void *h, const void *alpha, void *x, const void *xp, void *w, const void *wp,
                                   void *conv, int algorithm, void *workspace, size_t bytes, const void *beta, void *y,
                                   void *yp) {
  (void)h;
  return make_one(x, xp, w, wp, conv, y, yp, 2, forward, 5, algorithm, workspace, bytes, alpha, beta, NULL, NULL);
}
EXPORT int cudnnConvolutionBackwardData(void *h, const void *alpha, void *w, const void *wp, void *dy, const void *dyp,
                                        void *conv, int algorithm, void *workspace, size_t bytes, const void *beta,
                                        void *dx, void *dxp) {
  (void)h;
  return make_one(dx, dxp, w, wp, conv, dy, dyp, 0, data, 4, algorithm, workspace, bytes, alpha, beta, NULL, NULL);
}
EXPORT int cudnnConvolutionBackwardFilter(void *h, const void *alpha, void *x, const void *xp, void *dy,
                                          const void *dyp, void *conv, int algorithm, void *workspace, size_t bytes,
                                          const void *beta, void *dw, void *dwp) {
  (void)h;
  return make_one(x, xp, dw, dwp, conv, dy, dyp, 1, filter, 4, algorithm, workspace, bytes, alpha, beta, NULL, NULL);
}
// Without a function behind it, by one algorithm only.
EXPORT int cudnnConvolutionBiasActivationForward(void *h, const void *alpha, void *x, const void *xp, void *w,
                                                 const void *wp, void *conv, int algorithm, void *workspace,
                                                 size_t bytes, const void *beta, void *z, const void *zp, void *bias,
                                                 const void *row, void *function, void *y, void *yp) {
  (void)h, (void)zp;
  if (refuses) return NOT_SUPPORTED;
  if (((desc *)function)->mode != 5 || algorithm != 1 || z != y) return BAD;
  joined++;
  return make_one(x, xp, w, wp, conv, y, yp, 2, forward, 5, algorithm, workspace, bytes, alpha, beta, bias, row);
}
// A row of channels, to each position.
EXPORT int cudnnAddTensor(void *h, const void *alpha, void *a, const void *row, const void *beta, void *c, void *cp) {
  const desc *d = c, *b = a;
  int index[RANK] = {0};
  if (!h || *(const float *)alpha != 1 || *(const float *)beta != 1 || b->sizes[1] != d->sizes[1] ||
      count_of(b) != b->sizes[1])
    return BAD;
  do {
    int64_t at = offset_of(d, index);
    put(d, cp, at, get(d, cp, at) + get(b, row, (int64_t)index[1] * b->strides[1]));
  } while (next(d, index));
  return OK;
}
