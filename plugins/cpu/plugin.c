// The plugin's door, and the doors of its two heavy libraries, which lie beside it and are opened on first use only:
// a process that runs cached kernels never maps LLVM, one without matrix products never maps oneDNN.
//
// The pointers kept here are constants of the process: racing threads store equal values.
#include <dlfcn.h>
#include <limits.h>
#include <llvm/Config/llvm-config.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

#define PLUGIN_VERSION "0.1.0"
// Changes whenever generated code may change.
#define CODEGEN_VERSION "1"

static void report(const tc_host *h, int32_t code, const char *text) {
  h->diag(h->self, code, (tc_sv){text, strlen(text)});
}

// The function `symbol` of a library in this plugin's own folder.
static int32_t open_door(const tc_host *h, const char *file, const char *symbol, void **out) {
  static const char here = 0;
  Dl_info info;
  char path[PATH_MAX + 64], text[PATH_MAX + 400];
  if (!dladdr(&here, &info) || !realpath(info.dli_fname, path)) {
    report(h, TC_STATUS_PLUGIN, "the plugin cannot find its own folder");
    return TC_STATUS_PLUGIN;
  }
  char *slash = strrchr(path, '/');
  snprintf(slash ? slash + 1 : path, 64, "%s", file);
  void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  *out = lib ? dlsym(lib, symbol) : NULL;
  if (*out) return TC_STATUS_OK;
  const char *why = dlerror();
  snprintf(text, sizeof text, "cannot open '%s': %s", path, why ? why : "unknown reason");
  report(h, TC_STATUS_PLUGIN, text);
  return TC_STATUS_PLUGIN;
}

// ---- Code generation ----

static int32_t compile(const tc_host *h, tc_device_ *d, const tc_kernel *const *kernels, int32_t n, int32_t optimize,
                       const tc_sink *sink, const tc_sink *text) {
  static _Atomic(tc_cpu_codegen_fn) door;
  tc_cpu_codegen_fn fn = atomic_load(&door);
  if (!fn) {
    void *p;
    int32_t s = open_door(h, "libtc_cpu_codegen.so", TC_CPU_CODEGEN_SYMBOL, &p);
    if (s != TC_STATUS_OK) return s;
    memcpy(&fn, &p, sizeof fn);
    atomic_store(&door, fn);
  }
  return fn(h, tc_cpu_device_target(d), kernels, n, optimize, sink, text);
}

static int32_t codegen_key(const tc_host *h, tc_device_ *d, const tc_sink *sink) {
  char text[400];
  tc_device_props p = {.struct_size = sizeof p};
  (void)h;
  tc_cpu_properties(tc_cpu_device_target(d), 1, &p);
  int n = snprintf(text, sizeof text, "cpu codegen %s, LLVM %s, %s", CODEGEN_VERSION, LLVM_VERSION_STRING, p.target);
  return sink->write(sink->self, text, (uint64_t)n);
}

static const tc_codegen_table codegen = {.struct_size = sizeof codegen, .compile = compile, .key = codegen_key};

// ---- Calls ----

#ifdef TC_CPU_DNN
static _Atomic(const tc_call_table *) dnn_table;

static int32_t dnn(const tc_host *h, const tc_call_table **out) {
  *out = atomic_load(&dnn_table);
  if (*out) return TC_STATUS_OK;
  void *p;
  tc_cpu_dnn_fn fn;
  int32_t s = open_door(h, "libtc_cpu_dnn.so", TC_CPU_DNN_SYMBOL, &p);
  if (s != TC_STATUS_OK) return s;
  memcpy(&fn, &p, sizeof fn);
  *out = fn(h);
  if (!*out) return TC_STATUS_PLUGIN;
  atomic_store(&dnn_table, *out);
  return TC_STATUS_OK;
}

static int32_t dnn_supports(const tc_host *h, tc_device_ *d, const tc_call_node *n, int64_t *out_cost) {
  const tc_call_table *t;
  *out_cost = -1;
  int32_t s = dnn(h, &t);
  return s == TC_STATUS_OK ? t->supports(h, d, n, out_cost) : s;
}

static int32_t dnn_prepare(const tc_host *h, tc_device_ *d, const tc_call_node *n, void **out,
                           uint64_t *out_workspace) {
  const tc_call_table *t;
  int32_t s = dnn(h, &t);
  return s == TC_STATUS_OK ? t->prepare(h, d, n, out, out_workspace) : s;
}

// What follows is called only with what dnn_prepare made, so the library is open.
static int32_t dnn_run(void *prepared, tc_handle stream, const tc_view *operands, const tc_view *results,
                       tc_handle workspace, int64_t offset) {
  return atomic_load(&dnn_table)->run(prepared, stream, operands, results, workspace, offset);
}

static void dnn_destroy(void *prepared) { atomic_load(&dnn_table)->destroy(prepared); }

static const tc_call_table dnn_calls = {
    .struct_size = sizeof dnn_calls,
    .name = {"onednn", 6},
    .supports = dnn_supports,
    .prepare = dnn_prepare,
    .run = dnn_run,
    .destroy = dnn_destroy,
    .thread_safe = 1,
    .capture_safe = 1,
};

// Products of bf16 matrices on a processor that multiplies pairs of bf16: twice the rate of our own products, which
// work in f32, so the library is preferred to them. Small ones are left to kernels, whose neighbours fuse.
enum { LEAST_ROWS = 16 };
static const double LEAST_FLOPS = 1 << 24;

static int bf16_product(tc_device_ *d, const tc_call_node *n) {
  static const struct {
    const char *op;
    int32_t left; // the operand that is the left factor
  } ops[] = {{"aten::linear", 0}, {"aten::mm", 0}, {"aten::matmul", 0}, {"aten::addmm", 1}};
  const tc_view *out = n->results, *left = NULL;
  if (!tc_cpu_pairs_bf16(tc_cpu_device_target(d)) || n->n_results != 1 || out->dtype != TC_BF16 || out->rank < 2)
    return 0;
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
    if (n->op.size == strlen(ops[i].op) && memcmp(n->op.data, ops[i].op, n->op.size) == 0)
      left = &n->operands[ops[i].left];
  if (!left || left->rank < 2) return 0;
  double rows = 1, columns = (double)out->sizes[out->rank - 1], inner = (double)left->sizes[left->rank - 1];
  for (int32_t i = 0; i + 1 < out->rank; i++) {
    if (out->sizes[i] < 0) return 0; // not known yet
    rows *= (double)out->sizes[i];
  }
  return columns > 0 && inner > 0 && rows >= LEAST_ROWS && 2 * rows * columns * inner >= LEAST_FLOPS;
}

static int32_t bf16_supports(const tc_host *h, tc_device_ *d, const tc_call_node *n, int64_t *out_cost) {
  *out_cost = -1;
  if (!bf16_product(d, n)) return TC_STATUS_OK; // without opening the library
  int32_t s = dnn_supports(h, d, n, out_cost);
  if (s == TC_STATUS_OK && *out_cost > 0) --*out_cost; // this table rather than the other, for the same call
  return s;
}

static const tc_call_table bf16_calls = {
    .struct_size = sizeof bf16_calls,
    .name = {"onednn-bf16", 11},
    .supports = bf16_supports,
    .prepare = dnn_prepare,
    .run = dnn_run,
    .destroy = dnn_destroy,
    .thread_safe = 1,
    .capture_safe = 1,
    .preferred = 1,
};
static const tc_call_table *const calls[] = {&dnn_calls, &bf16_calls};
enum { N_CALLS = 2, CALLS_BIT = TC_CAP_CALLS };
#else
static const tc_call_table *const *const calls = NULL;
enum { N_CALLS = 0, CALLS_BIT = 0 };
#endif

int32_t tc_plugin_query(const tc_host *h, tc_plugin_desc *out);

TC_PLUGIN_EXPORT int32_t tc_plugin_query(const tc_host *h, tc_plugin_desc *out) {
  tc_plugin_desc d = {
      .name = {"cpu", 3},
      .vendor = {"tc", 2},
      .version = {PLUGIN_VERSION, sizeof PLUGIN_VERSION - 1},
      .build_id = {"llvm-" LLVM_VERSION_STRING, sizeof "llvm-" LLVM_VERSION_STRING - 1},
      .capabilities = TC_CAP_DEVICE | TC_CAP_CODEGEN | CALLS_BIT,
      .kernel_abi_hash = TC_KERNEL_ABI_HASH,
      .device = &tc_cpu_device,
      .codegen = &codegen,
      .calls = calls,
      .n_calls = N_CALLS,
  };
#if defined(__SANITIZE_ADDRESS__)
  d.sanitizers = (tc_sv){"address", 7};
#elif defined(__SANITIZE_THREAD__)
  d.sanitizers = (tc_sv){"thread", 6};
#endif
  return tc_sdk_answer(h, &d, out);
}
