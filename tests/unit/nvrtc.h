// Generated CUDA C through NVRTC, where it is installed: it must compile for sm_90, and nothing may be spilled as far
// as the compiler reports it.
#ifndef TC_TESTS_UNIT_NVRTC_H_
#define TC_TESTS_UNIT_NVRTC_H_

#include <dlfcn.h>

#include "tests/unit/unit.h"

typedef struct nvrtc {
  void *library;
  int (*create)(void **, const char *, const char *, int, const char *const *, const char *const *);
  int (*compile)(void *, int, const char *const *);
  int (*log_size)(void *, size_t *);
  int (*log)(void *, char *);
  int (*cubin_size)(void *, size_t *);
  int (*destroy)(void **);
} nvrtc;

// The library stays open: it keeps memory of its own until the end.
static inline bool open_nvrtc(nvrtc *n) {
  static const char *const names[] = {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12",
                                      "/usr/local/cuda/lib64/libnvrtc.so", "/usr/local/cuda/lib/libnvrtc.so"};
  *n = (nvrtc){0};
  for (size_t i = 0; i < sizeof names / sizeof *names && !n->library; i++)
    n->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
  if (!n->library) return false;
#define SYMBOL(field, name) *(void **)&n->field = dlsym(n->library, name)
  SYMBOL(create, "nvrtcCreateProgram");
  SYMBOL(compile, "nvrtcCompileProgram");
  SYMBOL(log_size, "nvrtcGetProgramLogSize");
  SYMBOL(log, "nvrtcGetProgramLog");
  SYMBOL(cubin_size, "nvrtcGetCUBINSize");
  SYMBOL(destroy, "nvrtcDestroyProgram");
#undef SYMBOL
  return n->create && n->compile && n->log_size && n->log && n->cubin_size && n->destroy;
}

// Nothing may be spilled, and, if so demanded, nothing may lie in local memory. Some versions of the compiler give no
// report of that when they are loaded as a library; then this is said, and all but this holds.
static inline void compile_for_sm_90(tc_arena *arena, const nvrtc *n, const char *what, const char *source,
                                     bool no_stack) {
  static const char *const options[] = {"--gpu-architecture=sm_90", "--fmad=false", "-std=c++17", "--ptxas-options=-v"};
  void *program;
  size_t size = 0;
  assert_int_equal(n->create(&program, source, "kernel.cu", 0, NULL, NULL), 0);
  int failed = n->compile(program, 4, options);
  n->log_size(program, &size);
  char *log = tc_arena_alloc(arena, size + 1);
  n->log(program, log);
  log[size] = 0;
  if (failed) fail_msg("NVRTC refuses %s:\n%s\n%s", what, log, source);
  n->cubin_size(program, &size);
  assert_true(size > 0);
  n->destroy(&program);
  const char *used = strstr(log, "Used ");
  if (!strstr(log, "bytes spill stores")) {
    print_message("  %s: compiled; this NVRTC reports no registers, so spills are not looked at\n", what);
    return;
  }
  print_message("  %s: %.60s\n", what, used ? used : "");
  if (!strstr(log, "0 bytes spill stores, 0 bytes spill loads")) fail_msg("%s spills:\n%s", what, log);
  if (no_stack && !strstr(log, "0 bytes stack frame")) fail_msg("%s uses local memory:\n%s", what, log);
}

#endif
