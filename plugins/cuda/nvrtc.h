// What this plugin uses of NVRTC, the run-time compiler of CUDA C++ (NVIDIA, "NVRTC" manual), opened at run time.
#ifndef TC_PLUGINS_CUDA_NVRTC_H_
#define TC_PLUGINS_CUDA_NVRTC_H_

#include "library.h"

typedef struct nvrtc_program_ *nvrtc_program;
#define NVRTC_FUNCTIONS(X)                                                                                     \
  X(version, "nvrtcVersion", (int *major, int *minor))                                                         \
  X(create, "nvrtcCreateProgram",                                                                              \
    (nvrtc_program * program, const char *source, const char *name, int n_headers, const char *const *headers, \
     const char *const *names))                                                                                \
  X(compile, "nvrtcCompileProgram", (nvrtc_program program, int n_options, const char *const *options))        \
  X(log_size, "nvrtcGetProgramLogSize", (nvrtc_program program, size_t *size))                                 \
  X(log, "nvrtcGetProgramLog", (nvrtc_program program, char *log))                                             \
  X(cubin_size, "nvrtcGetCUBINSize", (nvrtc_program program, size_t *size))                                    \
  X(cubin, "nvrtcGetCUBIN", (nvrtc_program program, char *code))                                               \
  X(destroy, "nvrtcDestroyProgram", (nvrtc_program * program))

typedef struct cuda_nvrtc {
  void *library;
  int major, minor;
#define X(field, symbol, params) int(*field) params;
  NVRTC_FUNCTIONS(X)
#undef X
} cuda_nvrtc;

extern const cuda_library_source cuda_nvrtc_source;
// `why`: the version, or, with PLUGIN, that it is not there or lacks a function.
int32_t cuda_nvrtc_open(const tc_host *h, cuda_nvrtc *out, char *why, size_t why_size);

// What every compilation is told besides the architecture.
enum { CUDA_NVRTC_OPTIONS = 3 };
extern const char *const cuda_nvrtc_options[CUDA_NVRTC_OPTIONS];

// Compiles source for an architecture ("sm_90"). On success *out_code (from h->alloc) holds the code object; *out_log
// (too, may be NULL) what the compiler said, which includes registers and spills. `more`: an option besides, or NULL.
// Thread-safe.
int32_t cuda_nvrtc_compile(const tc_host *h, const cuda_nvrtc *n, const char *source, const char *arch,
                           const char *more, void **out_code, size_t *out_size, char **out_log);

#endif
