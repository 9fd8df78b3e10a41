// How often a kernel is compiled, with which bounds, and which of its codes is taken, over an NVRTC that says of
// registers what the case wants.
#include "tests/unit/cuda/fake_nvrtc.h"
#include "tests/unit/cuda/rig.h"
#include "tests/unit/kernel/kernel_test.h"

typedef struct bounds_case {
  int32_t lanes, arrays, adds; // arrays: what a lane keeps beside shared memory
  fake_result free, bounded, low;
  fake_compilation want[4];
  int32_t n, taken;
} bounds_case;

enum { FEW = 2, MANY = 4000 };

static const bounds_case cases[] = {
    {256, 0, FEW, {40, 0}, {40, 0}, {40, 0}, {{0, 0}}, 1, 0},
    // A bound is asked for by the registers that are taken without, and left where it spills.
    {256, 0, FEW, {132, 0}, {128, 0}, {0, 0}, {{0, 0}, {2, 0}}, 2, 1},
    {256, 34, FEW, {132, 0}, {128, 8}, {0, 0}, {{0, 0}, {2, 0}}, 2, 0},
    {256, 32, FEW, {44, 0}, {80, 0}, {0, 0}, {{0, 0}, {1, 0}}, 2, 1},
    // Arrays that take many registers ask for it at first.
    {64, 64, FEW, {80, 0}, {115, 0}, {0, 0}, {{8, 0}}, 1, 0},
    {64, 64, FEW, {80, 0}, {60, 0}, {0, 0}, {{8, 0}, {0, 0}, {1, 0}}, 3, 2},
    // Arrays that do not fit its registers: it is not tried.
    {128, 112, FEW, {200, 0}, {128, 0}, {0, 0}, {{0, 0}}, 1, 0},
    {128, 112, FEW, {255, 8}, {128, 0}, {202, 0}, {{0, 0}, {0, 1}}, 2, 1},
    {1024, 64, FEW, {64, 8}, {64, 0}, {64, 8}, {{0, 0}, {0, 1}}, 2, 0},
    // Large kernels have it at first, and without where they spill or take few registers.
    {256, 34, MANY, {132, 0}, {128, 0}, {0, 0}, {{2, 0}}, 1, 0},
    {256, 34, MANY, {132, 0}, {128, 8}, {0, 0}, {{2, 0}, {0, 0}}, 2, 1},
    {256, 34, MANY, {132, 8}, {128, 8}, {120, 0}, {{2, 0}, {0, 0}, {0, 1}}, 3, 2},
    {256, 34, MANY, {72, 0}, {60, 0}, {0, 0}, {{2, 0}, {0, 0}}, 2, 1},
    {256, 34, MANY, {132, 0}, {60, 0}, {0, 0}, {{2, 0}, {0, 0}, {2, 0}}, 3, 2},
    {128, 112, MANY, {202, 0}, {128, 0}, {0, 0}, {{0, 0}}, 1, 0},
};

static tc_kernel *kernel_for(tc_arena *arena, const bounds_case *c) {
  tc_sb sb = tc_sb_make(arena);
  tc_sb_printf(&sb, "kernel @k (%%x : global f32 readonly noalias, %%y : global f32 noalias) blocks 1 lanes %d {\n",
               (int)c->lanes);
  if (c->arrays) tc_sb_printf(&sb, "  shared %%s : f32[32]\n  lane_array %%a : f32[%d]\n", (int)c->arrays);
  tc_sb_putz(&sb, "  lanes {\n    %l = lane\n    %v0 = load %x[%l]\n");
  for (int32_t i = 0; i < c->adds; i++) tc_sb_printf(&sb, "    %%v%d = add %%v%d, %%v0\n", (int)i + 1, (int)i);
  tc_sb_printf(&sb, "    store %%y[%%l], %%v%d\n  }\n  barrier\n}\n", (int)c->adds); // no block shares the device's
  return kernel_of(arena, sb.text);
}

static int32_t take_blob(void *self, const void *data, uint64_t size) {
  tc_sb_put(self, (tc_sv){data, size});
  return TC_STATUS_OK;
}

static void compile_case(rig *r, fake_nvrtc *nvrtc, tc_arena *arena, int32_t number) {
  const bounds_case *c = &cases[number];
  const tc_kernel *k = kernel_for(arena, c);
  tc_sb blob = tc_sb_make(arena);
  tc_sink sink = {&blob, take_blob};
  nvrtc->free = c->free, nvrtc->bounded = c->bounded, nvrtc->low = c->low, nvrtc->n_made = 0;
  if (r->codegen->compile(&r->host, r->d, &k, 1, 3, &sink, NULL) != TC_STATUS_OK)
    fail_msg("case %d: %s", number, r->diag);
  if (nvrtc->n_made != c->n)
    fail_msg("case %d: %d compilations for %d, the first for %d blocks", number, nvrtc->n_made, c->n,
             nvrtc->made[0].blocks);
  for (int32_t i = 0; i < c->n; i++) {
    if (nvrtc->made[i].blocks != c->want[i].blocks || nvrtc->made[i].low != c->want[i].low)
      fail_msg("case %d, compilation %d: %d blocks, level %d", number, i, nvrtc->made[i].blocks, nvrtc->made[i].low);
  }
  cuda_blob_entry e;
  memcpy(&e, blob.text + sizeof(cuda_blob_header), sizeof e);
  if (blob.text[e.code_at + 6] != c->taken) fail_msg("case %d: code %d is taken", number, blob.text[e.code_at + 6]);
  assert_int_equal(nvrtc->live, 0);
}

KERNEL_TEST(bounds) {
  rig r;
  fake_nvrtc_fn state;
  load(&r);
  r.arch = "sm_90", r.nvrtc = FAKE_NVRTC;
  OK(r.t->open(&r.host, 0, &r.d));
  void *fake = dlopen(FAKE_NVRTC, RTLD_NOW | RTLD_LOCAL);
  if (!fake) fail_msg("%s", dlerror());
  *(void **)&state = symbol(fake, "fake_nvrtc_state");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) compile_case(&r, state(), arena, (int32_t)i);
  close_rig(&r);
  dlclose(fake);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(bounds)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
