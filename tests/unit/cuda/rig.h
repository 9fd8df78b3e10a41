// A host for the cuda plugin over the fake driver and the fake library.
#ifndef TESTS_UNIT_CUDA_RIG_H_
#define TESTS_UNIT_CUDA_RIG_H_

#include <dlfcn.h>

#include "core/kernel/ir.h"
#include "plugins/cuda/cuda.h"
#include "tests/unit/cuda/fake.h"
#include "tests/unit/unit.h"

#include "tc/plugin.h"

// What the plugin keeps from process to process.
enum { RIG_KEPT = 8 };
typedef struct rig_kept {
  char *key, *data;
  uint64_t key_size, size;
} rig_kept;

typedef struct rig {
  tc_host host;
  const tc_device_table *t;
  const tc_codegen_table *codegen;
  const tc_call_table *calls, *attention, *split, *half, *convolutions, *attention_backward, *dnn_attention, *fft;
  tc_device_ *d;
  const char *driver, *arch, *sync, *blas, *dnn, *winograd, *conv_wish, *spills, *split_wish, *half_wish, *dependent,
      *attention_wish, *nvrtc, *cufft, *fft_wish;
  char diag[600];
  fake_state_fn state;
  fake_params_fn params;
  fake_fail_fn make_fail;
  fake_be_of_fn be_of;
  rig_kept kept[RIG_KEPT]; // by the test, where it gives the host a cache
  int32_t n_kept, n_asked;
} rig;

static inline void rig_diag(void *self, int32_t code, tc_sv text) {
  rig *r = self;
  snprintf(r->diag, sizeof r->diag, "%d: %.*s", code, (int)text.size, text.data);
}
static inline void rig_nothing(void *self, int32_t artifact, tc_sv text) { (void)self, (void)artifact, (void)text; }
static inline void *rig_take(void *self, uint64_t size) { return (void)self, calloc(1, size + 64); }
static inline void rig_give(void *self, void *p) { (void)self, free(p); }
static inline void rig_for(void *self, int64_t n, int64_t grain, tc_range_fn_abi fn, void *arg) {
  (void)self, (void)grain;
  fn(arg, 0, n);
}
static inline int32_t rig_cache_get(void *self, tc_sv key, const tc_sink *sink) {
  rig *r = self;
  r->n_asked++;
  for (int32_t i = 0; i < r->n_kept; i++) {
    const rig_kept *k = &r->kept[i];
    if (k->key_size == key.size && memcmp(k->key, key.data, key.size) == 0)
      return sink->write(sink->self, k->data, k->size);
  }
  return TC_STATUS_NOT_FOUND;
}
static inline void *rig_copy(const void *data, uint64_t size) {
  void *p = malloc(size + 1);
  assert_non_null(p);
  return memcpy(p, data, size);
}
static inline void rig_cache_put(void *self, tc_sv key, const void *data, uint64_t size) {
  rig *r = self;
  assert_true(r->n_kept < RIG_KEPT);
  r->kept[r->n_kept++] = (rig_kept){rig_copy(key.data, key.size), rig_copy(data, size), key.size, size};
}
static inline void rig_give_cache(rig *r) { r->host.cache_get = rig_cache_get, r->host.cache_put = rig_cache_put; }
static inline void rig_drop_cache(rig *r) {
  for (int32_t i = 0; i < r->n_kept; i++) free(r->kept[i].key), free(r->kept[i].data);
  r->n_kept = 0;
}
static int32_t rig_blas_sought; // how often cuBLASLt was looked for, by any thread; atomic
static inline tc_sv rig_config(void *self, tc_sv key) {
  rig *r = self;
  __atomic_fetch_add(&rig_blas_sought, tc_sv_is(key, "cublaslt"), __ATOMIC_RELAXED);
  const char *value = tc_sv_is(key, "driver")         ? r->driver
                      : tc_sv_is(key, "arch")         ? r->arch
                      : tc_sv_is(key, "sync")         ? r->sync
                      : tc_sv_is(key, "cublaslt")     ? r->blas
                      : tc_sv_is(key, "cudnn")        ? r->dnn
                      : tc_sv_is(key, "convolutions") ? r->conv_wish
                      : tc_sv_is(key, "winograd")     ? r->winograd
                      : tc_sv_is(key, "spills")       ? r->spills
                      : tc_sv_is(key, "split")        ? r->split_wish
                      : tc_sv_is(key, "half")         ? r->half_wish
                      : tc_sv_is(key, "dependent")    ? r->dependent
                      : tc_sv_is(key, "attention")    ? r->attention_wish
                      : tc_sv_is(key, "nvrtc")        ? r->nvrtc
                      : tc_sv_is(key, "cufft")        ? r->cufft
                      : tc_sv_is(key, "fft")          ? r->fft_wish
                                                      : NULL;
  return value ? tc_sv_of(value) : TC_SV("");
}

// The factors of a node's arguments 3 and 4: all that the plugin asks of them.
typedef struct rig_factors {
  double beta, alpha, imaginary; // the last of alpha
} rig_factors;
static inline int32_t rig_number(const tc_op_args *a, int32_t arg, tc_number *out) {
  const rig_factors *f = (const void *)a;
  if (f)
    *out = (tc_number){.kind = TC_AK_COMPLEX, .re = arg == 3 ? f->beta : f->alpha, .im = arg == 3 ? 0 : f->imaginary};
  return f != NULL;
}
static inline double rig_float(const tc_op_args *a, int32_t arg, double otherwise) {
  return (void)a, (void)arg, otherwise;
}
// The arguments of a convolution, in the order of these numbers; the word takes the place of the padding.
enum { RIG_BIAS = 2, RIG_STRIDE, RIG_PADDING, RIG_DILATION, RIG_TRANSPOSED, RIG_OUTPUT_PADDING, RIG_GROUPS };
typedef struct rig_convolution {
  int64_t lists[RIG_GROUPS + 1][3];
  int32_t n, bias, transposed, special; // numbers in a list; special: of an op that is never, or always, transposed
  const char *word;
} rig_convolution;
static inline int32_t rig_arg_index(const tc_op_args *a, const char *name) {
  static const char *const names[] = {
      [RIG_STRIDE] = "stride",         [RIG_PADDING] = "padding",       [RIG_DILATION] = "dilation",
      [RIG_TRANSPOSED] = "transposed", [RIG_OUTPUT_PADDING] = "output", [RIG_GROUPS] = "groups"};
  const rig_convolution *c = (const void *)a;
  for (int32_t i = RIG_STRIDE; i <= RIG_GROUPS && a; i++)
    if ((!c->special || i != RIG_TRANSPOSED) && strcmp(names[i], name) == 0) return i;
  return -1;
}
static inline int32_t rig_kind(const tc_op_args *a, int32_t arg) {
  const rig_convolution *c = (const void *)a;
  if (arg == RIG_BIAS) return c->bias ? TC_AK_TENSOR : TC_AK_NONE;
  return arg == RIG_PADDING && c->word ? TC_AK_STRING : TC_AK_INTS;
}
static inline int32_t rig_count(const tc_op_args *a, int32_t arg) {
  return (void)arg, ((const rig_convolution *)(const void *)a)->n;
}
static inline int64_t rig_int_at(const tc_op_args *a, int32_t arg, int32_t i, int64_t otherwise) {
  return (void)otherwise, ((const rig_convolution *)(const void *)a)->lists[arg][i];
}
static inline int64_t rig_int(const tc_op_args *a, int32_t arg, int64_t otherwise) {
  return rig_int_at(a, arg, 0, otherwise);
}
static inline tc_sv rig_string(const tc_op_args *a, int32_t arg) {
  return (void)arg, tc_sv_of(((const rig_convolution *)(const void *)a)->word);
}
// Those of a transform are lists of it, too: dimensions, the factor, and the last one.
enum { RIG_DIMS = 1, RIG_NORM, RIG_LAST };
// The arguments of attention: whether it is causal.
enum { RIG_CAUSAL = 5 };
typedef struct rig_attention {
  int32_t causal;
} rig_attention;
static inline int32_t rig_bool(const tc_op_args *a, int32_t arg, int32_t otherwise) {
  if (arg == RIG_CAUSAL && a) return ((const rig_attention *)(const void *)a)->causal;
  if (arg == RIG_LAST && a) return ((const rig_convolution *)(const void *)a)->lists[RIG_LAST][0] != 0;
  return arg == RIG_TRANSPOSED && a ? ((const rig_convolution *)(const void *)a)->transposed : otherwise;
}
static const tc_op_table rig_op = {.struct_size = sizeof rig_op,
                                   .tc_op_float = rig_float,
                                   .tc_op_number = rig_number,
                                   .tc_op_bool = rig_bool,
                                   .tc_op_arg_index = rig_arg_index,
                                   .tc_op_kind = rig_kind,
                                   .tc_op_count = rig_count,
                                   .tc_op_int = rig_int,
                                   .tc_op_int_at = rig_int_at,
                                   .tc_op_string = rig_string};

#define TC_ABI_FN(since, ret, name, params, args, doc) .name = name,
#define TC_ABI_PROC(since, name, params, args, doc) .name = name,
#define TC_ABI_WANT_KERNEL_READ
static const tc_kernel_read_table rig_kernel_read = {
    .struct_size = sizeof(tc_kernel_read_table),
#include "sdk/abi/abi.def"
};

static inline void *symbol(void *library, const char *name) {
  void *p = dlsym(library, name);
  if (!p) fail_msg("%s", dlerror());
  return p;
}

static inline void load(rig *r) {
  *r = (rig){.driver = FAKE_DRIVER, .blas = FAKE_BLAS, .dnn = FAKE_DNN, .cufft = FAKE_FFT};
  r->host = (tc_host){.magic = TC_ABI_MAGIC,
                      .abi_major = TC_ABI_MAJOR,
                      .abi_minor = TC_ABI_MINOR,
                      .struct_size = sizeof(tc_host),
                      .self = r};
  r->host.diag = rig_diag, r->host.log = rig_nothing, r->host.alloc = rig_take, r->host.free = rig_give,
  r->host.config = rig_config, r->host.parallel_for = rig_for;
  r->host.kernel_read = &rig_kernel_read;
  r->host.op = &rig_op;
  void *fake = dlopen(FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL), *plugin = dlopen(CUDA_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  if (!fake || !plugin) fail_msg("%s", dlerror());
  *(void **)&r->state = symbol(fake, "fake_state_of");
  *(void **)&r->params = symbol(fake, "fake_set_params");
  *(void **)&r->make_fail = symbol(fake, "fake_fail");
  *(void **)&r->be_of = symbol(fake, "fake_be_of");
  tc_plugin_query_fn query;
  *(void **)&query = symbol(plugin, "tc_plugin_query");
  tc_plugin_desc p = {.magic = TC_ABI_MAGIC, .abi_major = TC_ABI_MAJOR, .struct_size = sizeof p};
  assert_int_equal(query(&r->host, &p), TC_STATUS_OK);
  assert_int_equal(p.capabilities & (TC_CAP_DEVICE | TC_CAP_CODEGEN), TC_CAP_DEVICE | TC_CAP_CODEGEN);
  r->t = p.device, r->codegen = p.codegen, r->calls = p.calls[0], r->attention = p.calls[1], r->split = p.calls[2];
  r->half = p.calls[3], r->convolutions = p.calls[4], r->attention_backward = p.calls[5];
  r->dnn_attention = p.calls[6], r->fft = p.calls[7];
}

static inline void open_rig(rig *r) {
  load(r);
  if (r->t->open(&r->host, 0, &r->d) != TC_STATUS_OK) fail_msg("%s", r->diag);
}

static inline void no_faults(const rig *r) {
  if (r->state()->faults) fail_msg("%d faults, the first: %s", r->state()->faults, r->state()->fault);
}

static inline void close_rig(rig *r) {
  r->t->close(r->d);
  const fake_state *s = r->state();
  no_faults(r);
  assert_int_equal(s->contexts, 0);
  assert_int_equal(s->streams + s->events + s->modules + s->allocations + s->pinned, 0);
  assert_int_equal(s->graphs + s->executables, 0);
}

// ---- Code ----
typedef struct object {
  char data[1024];
  uint64_t size;
} object;

// Two kernels whose code is an empty ELF file; the second wants much shared memory.
static inline void make_object(object *o, int32_t n_params) {
  memset(o, 0, sizeof *o);
  cuda_blob_header h = {.magic = CUDA_BLOB_MAGIC, .arch = "sm_90", .n = 2};
  uint64_t at = sizeof h + 2 * sizeof(cuda_blob_entry);
  for (int32_t i = 0; i < 2; i++) {
    const char *name = i ? "large" : "mul_0", *printed = i ? "tc_kernel_large" : "tc_kernel_mul_0";
    cuda_blob_entry e = {
        .lanes = i ? 64 : 256, .n_params = n_params, .most = i ? 4 : 1, .shared_bytes = i ? 100000 : 0};
    e.name_at = at, e.name_size = strlen(name);
    memcpy(o->data + at, name, e.name_size);
    at += e.name_size;
    e.symbol_at = at, e.symbol_size = strlen(printed);
    memcpy(o->data + at, printed, e.symbol_size);
    at += e.symbol_size;
    e.code_at = at, e.code_size = 64;
    memcpy(o->data + at, "\177ELF\2\1", 6);
    at += 64;
    memcpy(o->data + sizeof h + (size_t)i * sizeof e, &e, sizeof e);
  }
  o->size = h.size = at;
  memcpy(o->data, &h, sizeof h);
}

#define OK(expr)                                                   \
  do {                                                             \
    if ((expr) != TC_STATUS_OK) fail_msg("%s: %s", #expr, r.diag); \
  } while (0)

#endif
