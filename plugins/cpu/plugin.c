// The plugin's door, and the doors of its heavy libraries, which lie beside it and are opened on first use only: a
// process that runs cached kernels never maps LLVM, one without matrix products never maps oneDNN, and one without
// factorisations never maps LAPACK.
//
// The pointers kept here are constants of the process: racing threads store equal values.
#include <code_version.h>
#include <dlfcn.h>
#include <limits.h>
#include <llvm/Config/llvm-config.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

#define PLUGIN_VERSION "0.1.0"

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
  int n = snprintf(text, sizeof text, "cpu codegen %s, LLVM %s, %s", TC_CODE_VERSION, LLVM_VERSION_STRING, p.target);
  return sink->write(sink->self, text, (uint64_t)n);
}

static const tc_codegen_table codegen = {.struct_size = sizeof codegen, .compile = compile, .key = codegen_key};

// ---- Calls ----

// A table of calls whose library is opened by the first question. What is run or destroyed was prepared, so by then the
// library is open.
#define CALLS(lib, file, symbol, door_type)                                                                   \
  static _Atomic(const tc_call_table *) lib##_table;                                                          \
  static int32_t lib##_open(const tc_host *h, const tc_call_table **out) {                                    \
    void *p;                                                                                                  \
    door_type fn;                                                                                             \
    *out = atomic_load(&lib##_table);                                                                         \
    if (*out) return TC_STATUS_OK;                                                                            \
    int32_t s = open_door(h, file, symbol, &p);                                                               \
    if (s != TC_STATUS_OK) return s;                                                                          \
    memcpy(&fn, &p, sizeof fn);                                                                               \
    *out = fn(h);                                                                                             \
    if (!*out) return TC_STATUS_PLUGIN;                                                                       \
    atomic_store(&lib##_table, *out);                                                                         \
    return TC_STATUS_OK;                                                                                      \
  }                                                                                                           \
  static int32_t lib##_prepare(const tc_host *h, tc_device_ *d, const tc_call_node *n, void **out,            \
                               uint64_t *out_workspace) {                                                     \
    const tc_call_table *t;                                                                                   \
    int32_t s = lib##_open(h, &t);                                                                            \
    return s == TC_STATUS_OK ? t->prepare(h, d, n, out, out_workspace) : s;                                   \
  }                                                                                                           \
  static int32_t lib##_run(void *prepared, tc_handle stream, const tc_view *operands, const tc_view *results, \
                           tc_handle workspace, int64_t offset) {                                             \
    return atomic_load(&lib##_table)->run(prepared, stream, operands, results, workspace, offset);            \
  }                                                                                                           \
  static int32_t lib##_kept(void *prepared, uint64_t *out_bytes) {                                            \
    const tc_call_table *t = atomic_load(&lib##_table);                                                       \
    *out_bytes = 0;                                                                                           \
    return t->kept ? t->kept(prepared, out_bytes) : TC_STATUS_OK;                                             \
  }                                                                                                           \
  static int32_t lib##_keep(void *prepared, tc_handle stream, const tc_view *operands, const tc_view *kept,   \
                            tc_handle workspace, int64_t offset) {                                            \
    return atomic_load(&lib##_table)->keep(prepared, stream, operands, kept, workspace, offset);              \
  }                                                                                                           \
  static int32_t lib##_spent(void *prepared, uint64_t *out_operands) {                                        \
    const tc_call_table *t = atomic_load(&lib##_table);                                                       \
    *out_operands = 0;                                                                                        \
    return t->spent ? t->spent(prepared, out_operands) : TC_STATUS_OK;                                        \
  }                                                                                                           \
  static void lib##_destroy(void *prepared) { atomic_load(&lib##_table)->destroy(prepared); }                 \
  static const tc_call_table lib##_calls = {.struct_size = sizeof lib##_calls,                                \
                                            .name = {#lib, sizeof #lib - 1},                                  \
                                            .supports = lib##_supports,                                       \
                                            .prepare = lib##_prepare,                                         \
                                            .run = lib##_run,                                                 \
                                            .destroy = lib##_destroy,                                         \
                                            .thread_safe = 1,                                                 \
                                            .capture_safe = 1,                                                \
                                            .kept = lib##_kept,                                               \
                                            .keep = lib##_keep,                                               \
                                            .spent = lib##_spent};

// Factorisations; everything else is refused without opening LAPACK. Where LAPACK is missing, all is.
static int32_t lapack_open(const tc_host *h, const tc_call_table **out);
static int32_t lapack_supports(const tc_host *h, tc_device_ *d, const tc_call_node *n, int64_t *out_cost) {
  static const char *const names[] = {"linalg_", "_linalg_", "_lu_with_info", "lu_unpack", "geqrf", "_matrix_exp"};
  const tc_call_table *t;
  bool ours = false;
  *out_cost = -1;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    ours |= n->op.size >= 6 + strlen(names[i]) && memcmp(n->op.data + 6, names[i], strlen(names[i])) == 0;
  if (!ours || lapack_open(h, &t) != TC_STATUS_OK) return TC_STATUS_OK;
  return t->supports(h, d, n, out_cost);
}
CALLS(lapack, "libtc_cpu_lapack.so", TC_CPU_LAPACK_SYMBOL, tc_cpu_dnn_fn)

#ifdef TC_CPU_DNN
static int32_t onednn_open(const tc_host *h, const tc_call_table **out);
static int32_t onednn_supports(const tc_host *h, tc_device_ *d, const tc_call_node *n, int64_t *out_cost) {
  static const char *const others[] = {"aten::scaled_dot_product_attention", "aten::_convolution_packed"};
  const tc_call_table *t;
  *out_cost = -1;
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) // not ours: nothing is opened for them
    if (n->op.size == strlen(others[i]) && memcmp(n->op.data, others[i], n->op.size) == 0) return TC_STATUS_OK;
  int32_t s = onednn_open(h, &t);
  return s == TC_STATUS_OK ? t->supports(h, d, n, out_cost) : s;
}
CALLS(onednn, "libtc_cpu_dnn.so", TC_CPU_DNN_SYMBOL, tc_cpu_dnn_fn)
static const tc_call_table *const calls[] = {&onednn_calls, &tc_cpu_tiles, &tc_cpu_tile_convolutions, &lapack_calls};
#else
static const tc_call_table *const calls[] = {&tc_cpu_tiles, &tc_cpu_tile_convolutions, &lapack_calls};
#endif
enum { N_CALLS = sizeof calls / sizeof *calls };

TC_PLUGIN_EXPORT int32_t tc_plugin_query(const tc_host *h, tc_plugin_desc *out) {
  tc_plugin_desc d = {
      .name = {"cpu", 3},
      .vendor = {"tc", 2},
      .version = {PLUGIN_VERSION, sizeof PLUGIN_VERSION - 1},
      .build_id = {"llvm-" LLVM_VERSION_STRING, sizeof "llvm-" LLVM_VERSION_STRING - 1},
      .capabilities = TC_CAP_DEVICE | TC_CAP_CODEGEN | TC_CAP_CALLS,
      .kernel_abi_hash = TC_KERNEL_ABI_HASH,
      .device = &tc_cpu_device,
      .codegen = &codegen,
      .calls = calls,
      .n_calls = N_CALLS,
  };
  return tc_sdk_answer(h, &d, out);
}
