// Device code that is written by hand: compiled and loaded when it is first asked for. What the compiler made is kept
// on disk where the host has a cache, under the text, the architecture, the options and the compiler's version.
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cuda.h"
#include "library.h"

// Bytes of the host's allocator.
typedef struct bytes {
  const tc_host *host;
  char *data;
  uint64_t size;
} bytes;

static void drop(bytes *b) {
  if (b->data) b->host->free(b->host->self, b->data);
  b->data = NULL, b->size = 0;
}

static int32_t take(void *self, const void *data, uint64_t size) {
  bytes *b = self;
  char *all = b->host->alloc(b->host->self, b->size + size + 1);
  if (!all) return TC_STATUS_OUT_OF_MEMORY;
  if (b->size) memcpy(all, b->data, b->size);
  if (size) memcpy(all + b->size, data, size);
  uint64_t before = b->size;
  drop(b);
  b->data = all, b->size = before + size;
  return TC_STATUS_OK;
}

int32_t cuda_has_cache(const tc_host *h) {
  return h->struct_size >= offsetof(tc_host, cache_put) + sizeof h->cache_put && h->cache_get && h->cache_put;
}

// All that the code depends on.
static int32_t make_key(const tc_device_ *d, const char *source, const char *arch, bytes *key) {
  char text[200];
  size_t n =
      (size_t)snprintf(text, sizeof text, "own code, NVRTC %d.%d, %s", d->compiler.major, d->compiler.minor, arch);
  for (int32_t i = 0; i < CUDA_NVRTC_OPTIONS && n < sizeof text; i++)
    n += (size_t)snprintf(text + n, sizeof text - n, " %s", cuda_nvrtc_options[i]);
  int32_t s = take(key, text, strlen(text) + 1);
  return s == TC_STATUS_OK ? take(key, source, strlen(source)) : s;
}

static int32_t load(tc_device_ *d, const void *code, const char *const *names, int32_t n, int32_t shared_bytes,
                    cu_module *out_module, cu_function *out) {
  cu_module module = NULL;
  int32_t s = cuda_check(d, "cuModuleLoadData", d->driver.module_load(&module, code));
  for (int32_t i = 0; i < n && s == TC_STATUS_OK; i++)
    s = cuda_check(d, "cuModuleGetFunction", d->driver.module_function(&out[i], module, names[i]));
  if (s == TC_STATUS_OK)
    s = cuda_check(d, "cuFuncSetAttribute", d->driver.function_set(out[n - 1], CU_FUNC_DYNAMIC_SHARED, shared_bytes));
  if (s == TC_STATUS_OK) *out_module = module;
  else if (module) d->driver.module_unload(module);
  return s;
}

static int32_t compile(tc_device_ *d, const char *source, const char *arch, const char *name, bytes *code) {
  char *log = NULL, what[80];
  void *data = NULL;
  size_t size = 0;
  int32_t s = cuda_nvrtc_compile(d->host, &d->compiler, source, arch, NULL, &data, &size, &log);
  snprintf(what, sizeof what, "%s does not compile", name);
  if (s != TC_STATUS_OK) cuda_report(d->host, s, log ? log : what);
  else s = cuda_judge_spills(d, (tc_sv){name, strlen(name)}, log);
  code->data = data, code->size = size;
  if (log) d->host->free(d->host->self, log);
  return s;
}

size_t cuda_function_numbers(char *text, size_t size) {
  int n = snprintf(text, size,
                   "#define NONE -1\n#define RELU %d\n#define GELU_ERF %d\n#define GELU_TANH %d\n#define SIGMOID %d\n"
                   "#define TANH %d\n#define SILU %d\n",
                   TC_EPI_RELU, TC_EPI_GELU_ERF, TC_EPI_GELU_TANH, TC_EPI_SIGMOID, TC_EPI_TANH, TC_EPI_SILU);
  return n > 0 && (size_t)n < size ? (size_t)n : 0;
}

int32_t cuda_own_code(tc_device_ *d, const char *source, const char *arch, const char *const *names, int32_t n,
                      int32_t shared_bytes, cu_module *out_module, cu_function *out) {
  const tc_host *h = d->host;
  bytes key = {.host = h}, code = {.host = h};
  char wish[16];
  // What was compiled before says nothing of spilled registers.
  int32_t strict = cuda_config(h, "spills", wish, sizeof wish) && strcmp(wish, "error") == 0;
  int32_t keeps = cuda_has_cache(h) && !strict, s = keeps ? make_key(d, source, arch, &key) : TC_STATUS_OK;
  if (s != TC_STATUS_OK) {
    drop(&key);
    return s;
  }
  tc_sv name = {key.data, key.size};
  int32_t found = keeps && h->cache_get(h->self, name, &(tc_sink){&code, take}) == TC_STATUS_OK && code.size &&
                  load(d, code.data, names, n, shared_bytes, out_module, out) == TC_STATUS_OK;
  if (!found) {
    drop(&code);
    s = compile(d, source, arch, names[n - 1], &code);
    if (s == TC_STATUS_OK) s = load(d, code.data, names, n, shared_bytes, out_module, out);
    if (s == TC_STATUS_OK && keeps) h->cache_put(h->self, name, code.data, code.size);
  }
  drop(&key), drop(&code);
  return s;
}

int32_t cuda_prepare(const tc_host *h, tc_device_ *d, size_t size, void **out) {
  int32_t s = cuda_enter(d);
  if (s != TC_STATUS_OK) return s;
  *out = h->alloc(h->self, size);
  if (!*out) return TC_STATUS_OUT_OF_MEMORY;
  *(tc_device_ **)*out = d;
  return TC_STATUS_OK;
}

void cuda_destroy_call(void *prepared) {
  tc_device_ **d = prepared;
  if (d) (*d)->host->free((*d)->host->self, prepared);
}

int32_t cuda_prepared(const tc_host *h, int32_t status, void *prepared, uint64_t workspace, void **out,
                      uint64_t *out_workspace) {
  if (status != TC_STATUS_OK) h->free(h->self, prepared);
  else *out = prepared, *out_workspace = workspace;
  return status;
}
