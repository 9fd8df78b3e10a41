// Source text to code objects.
//
// Options: no contraction of multiplications and additions, which the kernels state themselves; IEEE division and roots
// are the compiler's defaults; ptxas reports registers and spills, which code from the cache that NVRTC has since 12.9
// comes without ("Caching" in its manual): a kernel would get other bounds when it is compiled again.
#include "nvrtc.h"

#include <stdbool.h>
#include <stdio.h>

#include "library.h"

const char *const cuda_nvrtc_options[CUDA_NVRTC_OPTIONS] = {"--fmad=false", "-std=c++17", "--ptxas-options=-v"};

static const cuda_symbol symbols[] = {
#define X(field, symbol, params) {symbol, offsetof(cuda_nvrtc, field)},
    NVRTC_FUNCTIONS(X)
#undef X
};
const cuda_library_source cuda_nvrtc_source = {
    "NVRTC", "nvrtc", {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}, "libnvrtc.so*", "", CUDA_SYMBOLS(symbols)};

int32_t cuda_nvrtc_open(const tc_host *h, cuda_nvrtc *out, char *why, size_t why_size) {
  *out = (cuda_nvrtc){0};
  if (!cuda_library_open(h, &cuda_nvrtc_source, out, why, why_size)) return TC_STATUS_PLUGIN;
  if (out->version(&out->major, &out->minor) == 0) {
    snprintf(why, why_size, "%d.%d", out->major, out->minor);
    return TC_STATUS_OK;
  }
  snprintf(why, why_size, "NVRTC does not tell its version");
  return TC_STATUS_PLUGIN;
}

static bool has_cache(const cuda_nvrtc *n) { return n->major > 12 || (n->major == 12 && n->minor >= 9); }

static int32_t take_code(const tc_host *h, const cuda_nvrtc *n, nvrtc_program program, void **out, size_t *out_size) {
  if (n->cubin_size(program, out_size) != 0 || *out_size == 0) return TC_STATUS_PLUGIN;
  *out = h->alloc(h->self, *out_size);
  if (!*out) return TC_STATUS_OUT_OF_MEMORY;
  return n->cubin(program, *out) == 0 ? TC_STATUS_OK : TC_STATUS_PLUGIN;
}

int32_t cuda_nvrtc_compile(const tc_host *h, const cuda_nvrtc *n, const char *source, const char *arch,
                           const char *more, void **out_code, size_t *out_size, char **out_log) {
  char target[64];
  snprintf(target, sizeof target, "--gpu-architecture=%s", arch);
  const char *options[3 + CUDA_NVRTC_OPTIONS] = {target};
  int32_t count = 1;
  for (int32_t i = 0; i < CUDA_NVRTC_OPTIONS; i++) options[count++] = cuda_nvrtc_options[i];
  if (has_cache(n)) options[count++] = "--no-cache";
  if (more) options[count++] = more;
  nvrtc_program program = NULL;
  *out_code = NULL, *out_size = 0, *out_log = NULL;
  if (n->create(&program, source, "kernel.cu", 0, NULL, NULL) != 0) return TC_STATUS_PLUGIN;
  int failed = n->compile(program, count, options);
  size_t size = 0;
  if (n->log_size(program, &size) == 0 && size > 1) {
    *out_log = h->alloc(h->self, size + 1);
    if (*out_log && n->log(program, *out_log) != 0) (*out_log)[0] = 0;
  }
  int32_t s = failed ? TC_STATUS_PLUGIN : take_code(h, n, program, out_code, out_size);
  n->destroy(&program);
  if (s != TC_STATUS_OK && *out_code) {
    h->free(h->self, *out_code);
    *out_code = NULL;
  }
  return s;
}
