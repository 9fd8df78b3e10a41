// Filters of rows as CUDA C: NVRTC, where it is installed, must compile them for sm_90 without spilling.
#include "tests/unit/fft/fft_test.h"
#include "tests/unit/nvrtc.h"

#include "tc/cprint.h"

static void write_sb(void *self, const char *text, size_t size) { tc_sb_put(self, (tc_sv){text, size}); }

static void compile_for_gpu(tc_arena *arena, const nvrtc *n, int64_t length) {
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
  tc_sv what = tc_sv_printf(arena, "rows of %lld, %d lanes", m, (int)tc_k_lanes(p.kernels[0].kernel));
  compile_for_sm_90(arena, n, what.data, sb.text, true);
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
