// Filters of rows as CUDA C: NVRTC, where it is installed, must compile them for sm_90 without spilling.
#include <dlfcn.h>

#include "tests/unit/fft/fft_test.h"

#include "tc/cprint.h"

typedef struct nvrtc {
  int (*create)(void **, const char *, const char *, int, const char *const *, const char *const *);
  int (*compile)(void *, int, const char *const *);
  int (*log_size)(void *, size_t *);
  int (*log)(void *, char *);
  int (*destroy)(void **);
} nvrtc;

static bool open_nvrtc(nvrtc *n) {
  static const char *const names[] = {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12",
                                      "/usr/local/cuda/lib64/libnvrtc.so"};
  void *library = NULL;
  for (size_t i = 0; i < sizeof names / sizeof *names && !library; i++)
    library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
  if (!library) return false;
  *(void **)&n->create = dlsym(library, "nvrtcCreateProgram");
  *(void **)&n->compile = dlsym(library, "nvrtcCompileProgram");
  *(void **)&n->log_size = dlsym(library, "nvrtcGetProgramLogSize");
  *(void **)&n->log = dlsym(library, "nvrtcGetProgramLog");
  *(void **)&n->destroy = dlsym(library, "nvrtcDestroyProgram");
  return n->create && n->compile && n->log_size && n->log && n->destroy;
}

static void write_sb(void *self, const char *text, size_t size) { tc_sb_put(self, (tc_sv){text, size}); }

static void compile_for_gpu(tc_arena *arena, const nvrtc *n, int64_t length) {
  static const char *const options[] = {"--gpu-architecture=sm_90", "--fmad=false", "-std=c++17", "--ptxas-options=-v"};
  compiled p = {0};
  long long m = length;
  tc_sv text = tc_sv_printf(
      arena,
      "graph @filter (%%x : c64[2, %lld] = user \"x\", %%h : c64[%lld] = user \"h\") {\n  %%f : c64[2, %lld] = "
      "aten::fft_fft(%%x)\n  %%g : c64[2, %lld] = aten::mul.Tensor(%%f, %%h)\n  %%y : c64[2, %lld] = "
      "aten::fft_ifft(%%g)\n  return user %%y\n}\n",
      m, m, m, m, m);
  tc_status s = compile_graph(arena, text.data, &thread_device, &p);
  if (s) fail_msg("rows of %lld: %s", m, tc_status_text(s));
  assert_int_equal(p.s->groups.count, 1);
  tc_sb sb = tc_sb_make(arena);
  tc_sv reason = TC_SV("");
  if (tc_cprint(p.kernels[0].kernel, &tc_dialect_cuda, write_sb, &sb, &reason))
    fail_msg("rows of %lld cannot be printed: " TC_SV_FMT, m, TC_SV_ARG(reason));
  void *program;
  size_t size = 0;
  assert_int_equal(n->create(&program, sb.text, "kernel.cu", 0, NULL, NULL), 0);
  int failed = n->compile(program, 4, options);
  n->log_size(program, &size);
  char *log = tc_arena_alloc(arena, size + 1);
  n->log(program, log);
  n->destroy(&program);
  if (failed) fail_msg("NVRTC refuses rows of %lld:\n%s", m, log);
  const char *used = strstr(log, "Used ");
  printf("  rows of %lld: %d lanes, %.70s\n", m, (int)tc_k_lanes(p.kernels[0].kernel), used ? used : "(no report)");
  if (!strstr(log, "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"))
    fail_msg("rows of %lld spill:\n%s", m, log);
}

TC_TEST(filters_compile_without_spills) {
  nvrtc n;
  if (!open_nvrtc(&n)) skip();
  static const int64_t lengths[] = {256, 1000, 1024, 4096};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) compile_for_gpu(arena, &n, lengths[i]);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(filters_compile_without_spills)};
  return TC_RUN(tests);
}
