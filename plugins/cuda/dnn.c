// Convolutions by cuDNN as calls.
//
// f32 ones are computed in f32, without TF32; 16-bit ones on tensor cores, with sums in f32. The library's heuristic
// orders the algorithms; those that give other bits from run to run, and those by Fourier transforms, are left out, and
// for 16-bit numbers Winograd's. The first that is left is taken unless an autotuner asks for another (ways). The
// config key `convolutions` = "false" leaves all to kernels, "always" none that the library can do. The handle serves
// one thread at a time.
#include "dnn.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <turn_cu.h>

#include "convolution.h"
#include "cuda.h"
#include "library.h"

enum { MOST_WAYS = 8, CALL_NS = 8000, LEAST_FLOPS = 1 << 22, LEAST_CHANNELS = 16, WORKSPACE_BYTES = 256 << 20 };
enum { ALIGN = 256, TURN_LANES = 256 };
// Of the device's rate of f32 arithmetic.
#define F32_SPEED 0.6
#define HALF_SPEED 5.0

// ---- The library ----
static const cuda_symbol symbols[] = {
#define X(field, symbol, params) {symbol, offsetof(cuda_dnn, field)},
    DNN_FUNCTIONS(X)
#undef X
};
static const cuda_library_source source = {"cuDNN",        "cudnn", {"libcudnn.so.9", "libcudnn.so.8", "libcudnn.so"},
                                           "libcudnn.so*", "",      CUDA_SYMBOLS(symbols)};

static int32_t open_library(tc_device_ *d, char *why, size_t why_size) {
  cuda_dnn *out = &d->dnn;
  *out = (cuda_dnn){0};
  if (!cuda_library_open(d->host, &source, out, why, why_size)) return TC_STATUS_PLUGIN;
  dnn_status code = out->create(&out->handle);
  if (code == 0) {
    cuda_library_version(out->library, "cudnnGetVersion", why, why_size);
    return TC_STATUS_OK;
  }
  snprintf(why, why_size, "cudnnCreate failed (status %d)", code);
  return TC_STATUS_PLUGIN;
}
int32_t cuda_dnn_ready(tc_device_ *d) { return cuda_open_running(d, &d->dnn_library, open_library); }

int32_t cuda_dnn_check(const tc_device_ *d, const char *what, dnn_status code) {
  char text[120];
  if (code == 0) return TC_STATUS_OK;
  snprintf(text, sizeof text, "%s failed (status %d)", what, code);
  return cuda_report(d->host, TC_STATUS_DEVICE, text);
}

static bool not_supported(dnn_status code) {
  return code == DNN_NOT_SUPPORTED_8 || (code >= DNN_NOT_SUPPORTED && code < DNN_NOT_SUPPORTED_END);
}

// ---- A convolution ----
typedef struct prepared {
  tc_device_ *d;
  convolution c;
  dnn_desc x, w, y, conv, bias, function;
  int algorithm;
  size_t workspace; // of the library
  atomic_int apart; // 1: the library does not add the bias in the same step
} prepared;

// What is read and made, in the order of the library's functions.
typedef struct parts {
  const convolution_tensor *tensors[3]; // the last one is made
  dnn_desc descs[3];
} parts;
static parts parts_of(const prepared *q) {
  const convolution *c = &q->c;
  switch (c->kind) {
  case CONVOLUTION_DATA: return (parts){{&c->w, &c->y, &c->x}, {q->w, q->y, q->x}};
  case CONVOLUTION_FILTER: return (parts){{&c->x, &c->y, &c->w}, {q->x, q->y, q->w}};
  default: return (parts){{&c->x, &c->w, &c->y}, {q->x, q->w, q->y}};
  }
}

static int type_of(tc_dtype t) { return t == TC_F16 ? DNN_HALF : t == TC_BF16 ? DNN_BFLOAT16 : DNN_FLOAT; }

static dnn_status make_tensor(const prepared *q, const convolution_tensor *t, dnn_desc *out) {
  int sizes[CONVOLUTION_RANK], strides[CONVOLUTION_RANK];
  int32_t dense[CONVOLUTION_RANK];
  const cuda_dnn *l = &q->d->dnn;
  convolution_strides(&q->c, t, dense);
  for (int32_t i = 0; i < q->c.rank; i++) sizes[i] = t->sizes[i], strides[i] = dense[i];
  dnn_status s = l->tensor_create(out);
  return s == 0 ? l->tensor_set(*out, type_of(q->c.dtype), q->c.rank, sizes, strides) : s;
}

static dnn_status make_filter(prepared *q) {
  int sizes[CONVOLUTION_RANK];
  const cuda_dnn *l = &q->d->dnn;
  for (int32_t i = 0; i < q->c.rank; i++) sizes[i] = q->c.w.sizes[i];
  dnn_status s = l->filter_create(&q->w);
  return s == 0 ? l->filter_set(q->w, type_of(q->c.dtype), q->c.channels_last ? DNN_CHANNELS_LAST : DNN_CHANNELS_FIRST,
                                q->c.rank, sizes)
                : s;
}

static dnn_status make_conv(prepared *q) {
  int padding[CONVOLUTION_SPACE], strides[CONVOLUTION_SPACE], dilations[CONVOLUTION_SPACE];
  const cuda_dnn *l = &q->d->dnn;
  for (int32_t i = 0; i < q->c.rank - 2; i++)
    padding[i] = q->c.padding[i], strides[i] = q->c.strides[i], dilations[i] = q->c.dilations[i];
  dnn_status s = l->conv_create(&q->conv);
  if (s == 0) s = l->conv_set(q->conv, q->c.rank - 2, padding, strides, dilations, DNN_CROSS_CORRELATION, DNN_FLOAT);
  if (s == 0) s = l->conv_groups(q->conv, q->c.groups);
  if (s == 0) s = l->conv_math(q->conv, q->c.dtype == TC_F32 ? DNN_MATH_F32 : DNN_MATH_TENSOR_CORES);
  return s;
}

static dnn_status make_bias(prepared *q) {
  const cuda_dnn *l = &q->d->dnn;
  convolution_tensor row = {.sizes = {1, 1, 1, 1, 1}};
  row.sizes[1] = q->c.kind == CONVOLUTION_DATA ? q->c.x.sizes[1] : q->c.y.sizes[1];
  dnn_status s = make_tensor(q, &row, &q->bias);
  if (s == 0) s = l->function_create(&q->function);
  return s == 0 ? l->function_set(q->function, DNN_IDENTITY, DNN_PROPAGATE_NAN, 0) : s;
}

static int32_t describe(prepared *q) {
  dnn_status s = make_tensor(q, &q->c.x, &q->x);
  if (s == 0) s = make_tensor(q, &q->c.y, &q->y);
  if (s == 0) s = make_filter(q);
  if (s == 0) s = make_conv(q);
  if (s == 0 && q->c.bias >= 0) s = make_bias(q);
  return cuda_dnn_check(q->d, "describing a convolution to cuDNN", s);
}

// ---- Algorithms ----
// Bits of their numbers, by kind: by Fourier transforms, and Winograd's.
static const uint32_t by_fourier[] = {1u << 4 | 1u << 5, 1u << 2 | 1u << 3, 1u << 2 | 1u << 6};
static const uint32_t by_winograd[] = {1u << 6 | 1u << 7, 1u << 4 | 1u << 5, 1u << 4 | 1u << 5};

static uint32_t unwanted(const prepared *q) {
  char wish[8];
  bool winograd =
      q->c.dtype == TC_F32 && !(cuda_config(q->d->host, "winograd", wish, sizeof wish) && strcmp(wish, "false") == 0);
  return by_fourier[q->c.kind] | (winograd ? 0 : by_winograd[q->c.kind]);
}

// The library's choices that fit, best first; 0 of them: it does not do this.
static int32_t choices_of(const prepared *q, dnn_choice *out, int32_t *out_count) {
  const cuda_dnn *l = &q->d->dnn;
  parts p = parts_of(q);
  uint32_t bad = unwanted(q);
  int got = 0;
  pthread_mutex_lock(&q->d->dnn_lock);
  dnn_status s = q->c.kind == CONVOLUTION_FORWARD
                     ? l->choose_forward(l->handle, p.descs[0], p.descs[1], q->conv, p.descs[2], MOST_WAYS, &got, out)
                 : q->c.kind == CONVOLUTION_DATA
                     ? l->choose_data(l->handle, p.descs[0], p.descs[1], q->conv, p.descs[2], MOST_WAYS, &got, out)
                     : l->choose_filter(l->handle, p.descs[0], p.descs[1], q->conv, p.descs[2], MOST_WAYS, &got, out);
  pthread_mutex_unlock(&q->d->dnn_lock);
  *out_count = 0;
  if (s != 0 && !not_supported(s)) return cuda_dnn_check(q->d, "choosing an algorithm of cuDNN", s);
  for (int i = 0; i < got && s == 0; i++) {
    const dnn_choice *k = &out[i];
    if (k->status == 0 && k->deterministic && !(bad >> k->algorithm & 1) && k->workspace <= WORKSPACE_BYTES)
      out[(*out_count)++] = *k;
  }
  return TC_STATUS_OK;
}

// Choice number `way`, or the first where there are not so many.
static int32_t choose(prepared *q, int32_t way) {
  const cuda_dnn *l = &q->d->dnn;
  dnn_choice list[MOST_WAYS];
  int32_t n = 0, s = choices_of(q, list, &n);
  if (s != TC_STATUS_OK) return s;
  if (n == 0) return cuda_report(q->d->host, TC_STATUS_UNIMPLEMENTED, "cuDNN has no algorithm for this convolution");
  const dnn_choice *taken = &list[way < n ? way : 0];
  parts p = parts_of(q);
  q->algorithm = taken->algorithm;
  pthread_mutex_lock(&q->d->dnn_lock);
  dnn_status code = q->c.dtype == TC_F32 ? 0 : l->conv_math(q->conv, taken->math);
  dnn_status(*workspace) DNN_WORKSPACE = q->c.kind == CONVOLUTION_FORWARD ? l->workspace_forward
                                         : q->c.kind == CONVOLUTION_DATA  ? l->workspace_data
                                                                          : l->workspace_filter;
  if (code == 0) code = workspace(l->handle, p.descs[0], p.descs[1], q->conv, p.descs[2], q->algorithm, &q->workspace);
  pthread_mutex_unlock(&q->d->dnn_lock);
  return cuda_dnn_check(q->d, "measuring the workspace of a convolution of cuDNN", code);
}

// ---- Gradients by the filter ----
// What the library makes of them lies in the workspace, and is turned from there.
static uint64_t turned_bytes(const convolution *c) {
  uint64_t bytes = c->dtype == TC_F32 ? 4 : 2;
  if (c->kind != CONVOLUTION_FILTER || c->empty) return 0;
  for (int32_t i = 0; i < c->rank; i++) bytes *= (uint64_t)c->w.sizes[i];
  return bytes + ALIGN;
}

static int32_t compile(tc_device_ *d) {
  static const char *const names[] = {"tc_turn_16", "tc_turn_32"};
  cu_function f[2];
  int32_t s = cuda_own_code(d, turn_cu, d->arch, names, 2, 0, &d->turn.module, f);
  if (s == TC_STATUS_OK) d->turn.of_16 = f[0], d->turn.of_32 = f[1];
  return s;
}

// Compiled on first use.
static int32_t find_code(tc_device_ *d) {
  int32_t s = cuda_compiler(d);
  if (s != TC_STATUS_OK) return s;
  pthread_mutex_lock(&d->own_lock);
  if (!d->turn.of_32) s = compile(d);
  pthread_mutex_unlock(&d->own_lock);
  return s;
}

static int32_t turn(const prepared *q, cu_ptr from, cu_ptr to, cu_stream stream) {
  const convolution_tensor *w = &q->c.w;
  int32_t strides[CONVOLUTION_RANK], k = w->sizes[0], positions = 1;
  convolution_strides(&q->c, w, strides);
  for (int32_t i = 2; i < q->c.rank; i++) positions *= w->sizes[i];
  int64_t count = (int64_t)k * w->sizes[1] * positions, k_stride = strides[0], c_stride = strides[1],
          stride = strides[q->c.rank - 1];
  void *params[] = {&from, &to, &count, &k, &positions, &k_stride, &c_stride, &stride};
  cuda_grid grid = {(unsigned)((count + TURN_LANES - 1) / TURN_LANES), 1, TURN_LANES, 0, 1};
  cu_function f = q->c.dtype == TC_F32 ? q->d->turn.of_32 : q->d->turn.of_16;
  return cuda_check(q->d, "launching @tc_turn", cuda_start(q->d, f, grid, stream, params));
}

// ---- The table ----
static void destroy(void *p) {
  prepared *q = p;
  if (!q) return;
  const cuda_dnn *l = &q->d->dnn;
  if (q->x) l->tensor_destroy(q->x);
  if (q->y) l->tensor_destroy(q->y);
  if (q->w) l->filter_destroy(q->w);
  if (q->conv) l->conv_destroy(q->conv);
  if (q->bias) l->tensor_destroy(q->bias);
  if (q->function) l->function_destroy(q->function);
  q->d->host->free(q->d->host->self, q);
}

static bool wished(const tc_device_ *d, const char *what) {
  char wish[8];
  return cuda_config(d->host, "convolutions", wish, sizeof wish) && strcmp(wish, what) == 0;
}

// The convolution, described to the library unless it is empty. UNIMPLEMENTED, reported, for what is not for it.
static int32_t begin(tc_device_ *d, const tc_call_node *n, prepared **out) {
  const tc_host *h = d->host;
  const char *why = "";
  convolution c;
  *out = NULL;
  int32_t s = convolution_of(n, &c, &why);
  if (s == TC_STATUS_OK && wished(d, "false")) s = TC_STATUS_UNIMPLEMENTED, why = "turned off (cuda.convolutions)";
  if (s != TC_STATUS_OK) return cuda_report(h, s, why);
  s = cuda_dnn_ready(d);
  if (s != TC_STATUS_OK) return s;
  prepared *q = h->alloc(h->self, sizeof *q);
  if (!q) return TC_STATUS_OUT_OF_MEMORY;
  q->d = d, q->c = c;
  if (!c.empty) s = describe(q);
  if (s == TC_STATUS_OK) *out = q;
  else destroy(q);
  return s;
}

// A few channels for each group are no work for tensor cores or for products of matrices, and a kernel takes what
// follows with it.
static bool is_worth_it(const tc_device_ *d, const convolution *c) {
  if (c->empty || wished(d, "always")) return !c->empty;
  return c->flops >= LEAST_FLOPS &&
         (c->groups == 1 || (int64_t)c->w.sizes[1] * (c->w.sizes[0] / c->groups) >= LEAST_CHANNELS);
}

static int64_t cost_of(const tc_device_ *d, const convolution *c) {
  double rate = (double)d->props.flops_per_ns * (c->dtype == TC_F32 ? F32_SPEED : HALF_SPEED) + 1;
  double compute = c->flops / rate, traffic = c->bytes / ((double)d->props.bytes_per_ns + 1);
  return CALL_NS + (int64_t)(compute > traffic ? compute : traffic);
}

static int32_t supports(const tc_host *h, tc_device_ *d, const tc_call_node *n, int64_t *out_cost) {
  prepared *q = NULL;
  *out_cost = -1;
  int32_t s = begin(d, n, &q);
  if (s == TC_STATUS_OK && !is_worth_it(d, &q->c))
    s = cuda_report(h, TC_STATUS_UNIMPLEMENTED, "a convolution of little work, or of few channels in each group");
  if (s == TC_STATUS_OK) s = choose(q, 0);
  if (s == TC_STATUS_OK && turned_bytes(&q->c)) s = cuda_compiler(d);
  if (s == TC_STATUS_OK) *out_cost = cost_of(d, &q->c);
  destroy(q);
  return s == TC_STATUS_OUT_OF_MEMORY ? s : TC_STATUS_OK;
}

static int32_t variants(const tc_host *h, tc_device_ *d, const tc_call_node *n, int32_t *out_count) {
  dnn_choice list[MOST_WAYS];
  prepared *q = NULL;
  int32_t count = 0, s = begin(d, n, &q);
  (void)h;
  if (s == TC_STATUS_OK && !q->c.empty) s = choices_of(q, list, &count);
  *out_count = count > 1 ? count - 1 : 0;
  destroy(q);
  return s;
}

static int32_t prepare(const tc_host *h, tc_device_ *d, const tc_call_node *n, void **out, uint64_t *out_workspace) {
  prepared *q = NULL;
  (void)h;
  int32_t s = begin(d, n, &q);
  if (s == TC_STATUS_OK && !q->c.empty) s = choose(q, n->variant);
  if (s == TC_STATUS_OK && turned_bytes(&q->c)) s = find_code(d);
  if (s != TC_STATUS_OK) {
    destroy(q);
    return s;
  }
  *out = q;
  *out_workspace = q->workspace + turned_bytes(&q->c);
  return TC_STATUS_OK;
}

// ---- Runs ----
typedef struct addresses {
  void *tensors[3], *workspace; // in the order of the library's functions
  const void *bias;
} addresses;
static const float one = 1, nothing = 0;

static dnn_status run_alone(const prepared *q, const parts *p, const addresses *a) {
  const cuda_dnn *l = &q->d->dnn;
  dnn_status(*convolve) DNN_RUN = q->c.kind == CONVOLUTION_FORWARD ? l->run_forward
                                  : q->c.kind == CONVOLUTION_DATA  ? l->run_data
                                                                   : l->run_filter;
  dnn_status s = convolve(l->handle, &one, p->descs[0], a->tensors[0], p->descs[1], a->tensors[1], q->conv,
                          q->algorithm, a->workspace, q->workspace, &nothing, p->descs[2], a->tensors[2]);
  if (s != 0 || !a->bias) return s;
  return l->add(l->handle, &one, q->bias, a->bias, &one, p->descs[2], a->tensors[2]);
}

// With the bias in the same step where the library does that.
static dnn_status run_on(prepared *q, const parts *p, const addresses *a) {
  const cuda_dnn *l = &q->d->dnn;
  bool joins = a->bias && q->c.kind == CONVOLUTION_FORWARD && q->algorithm == DNN_IMPLICIT_PRECOMPUTED_GEMM;
  if (!joins || atomic_load(&q->apart)) return run_alone(q, p, a);
  dnn_status s =
      l->run_then(l->handle, &one, q->x, a->tensors[0], q->w, a->tensors[1], q->conv, q->algorithm, a->workspace,
                  q->workspace, &nothing, q->y, a->tensors[2], q->bias, a->bias, q->function, q->y, a->tensors[2]);
  if (!not_supported(s)) return s;
  atomic_store(&q->apart, 1);
  return run_alone(q, p, a);
}

static int32_t run(void *prepared_call, tc_handle stream, const tc_view *operands, const tc_view *results,
                   tc_handle workspace, int64_t offset) {
  prepared *q = prepared_call;
  tc_device_ *d = q->d;
  if (q->c.empty) return TC_STATUS_OK;
  int32_t s = cuda_enter(d);
  if (s != TC_STATUS_OK) return s;
  parts p = parts_of(q);
  addresses a = {.workspace = (void *)(uintptr_t)(workspace + (uint64_t)offset)};
  for (int32_t i = 0; i < 3; i++) {
    int32_t operand = p.tensors[i]->operand;
    a.tensors[i] = (void *)(uintptr_t)cuda_address(operand < 0 ? results : &operands[operand]);
  }
  cu_ptr result = cuda_address(results), made = workspace + (uint64_t)offset + q->workspace;
  made = (made + ALIGN - 1) / ALIGN * ALIGN;
  if (q->c.kind == CONVOLUTION_FILTER) a.tensors[2] = (void *)(uintptr_t)made;
  if (q->c.bias >= 0) a.bias = (const void *)(uintptr_t)cuda_address(&operands[q->c.bias]);
  pthread_mutex_lock(&d->dnn_lock);
  dnn_status code = d->dnn.set_stream(d->dnn.handle, (cu_stream)(uintptr_t)stream);
  if (code == 0) code = run_on(q, &p, &a);
  pthread_mutex_unlock(&d->dnn_lock);
  s = cuda_dnn_check(d, "a convolution of cuDNN", code);
  if (s != TC_STATUS_OK || q->c.kind != CONVOLUTION_FILTER) return s;
  return turn(q, made, result, (cu_stream)(uintptr_t)stream);
}

const tc_call_table cuda_dnn_calls = {CUDA_CALLS("cudnn"), .destroy = destroy, .variants = variants};
