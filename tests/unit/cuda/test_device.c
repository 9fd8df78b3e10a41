// The host side of the cuda plugin over the fake driver: opening, memory, copies through pinned buffers, code objects,
// launches, failures. Nothing may be used wrongly, and nothing may be left.
#include "plugins/cuda/cuda.h"
#include "tests/unit/cuda/rig.h"

#include "tc/cprint.h"

TC_TEST(finding) {
  rig r;
  int32_t n = -1;
  load(&r);
  OK(r.t->enumerate(&r.host, &n));
  assert_int_equal(n, 2);
  r.driver = "/nonexistent/libcuda.so.1";
  assert_int_equal(r.t->enumerate(&r.host, &n), TC_STATUS_DEVICE);
  assert_non_null(strstr(r.diag, "/nonexistent/libcuda.so.1"));
  assert_int_equal(n, 0);
  r.driver = CUDA_PLUGIN; // a library, but no driver
  assert_int_equal(r.t->enumerate(&r.host, &n), TC_STATUS_DEVICE);
  assert_non_null(strstr(r.diag, "lacks cuInit"));
  r.driver = FAKE_DRIVER;
  assert_int_not_equal(r.t->open(&r.host, 7, &r.d), TC_STATUS_OK);
  return TC_OK;
}

TC_TEST(properties) {
  rig r;
  open_rig(&r);
  tc_device_props p = {.struct_size = sizeof p};
  OK(r.t->properties(r.d, &p));
  assert_string_equal(p.name, "Fake GPU 0");
  assert_string_equal(p.target, "sm_90");
  assert_int_equal(p.simd_bytes, 0);
  assert_int_equal(p.host_memory, 0);
  assert_int_equal(p.subgroup, 32);
  assert_int_equal(p.cores, 100);
  assert_true(p.shared_bytes > 200000 && p.shared_bytes <= 232448);
  assert_true(p.dtypes >> TC_BF16 & 1);
  assert_false(p.arithmetic >> TC_BF16 & 1);
  // An asker with less room gets as much.
  struct {
    tc_device_props p;
  } small;
  memset(&small, 0x5A, sizeof small);
  small.p.struct_size = offsetof(tc_device_props, memory_bytes);
  OK(r.t->properties(r.d, &small.p));
  assert_string_equal(small.p.target, "sm_90");
  assert_int_equal(((unsigned char *)&small)[offsetof(tc_device_props, memory_bytes)], 0x5A);
  close_rig(&r);
  return TC_OK;
}

TC_TEST(copies) {
  rig r;
  open_rig(&r);
  uint64_t seed = tc_test_seed();
  tc_handle stream, memory, other;
  OK(r.t->stream_create(r.d, &stream));
  static const uint64_t sizes[] = {
      0, 1, 13, 4096, CUDA_STAGE_BYTES - 1, CUDA_STAGE_BYTES, CUDA_STAGE_BYTES + 1, 3 * CUDA_STAGE_BYTES + 77};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    uint64_t size = sizes[i], at = tc_test_random(&seed) % 100;
    unsigned char *in = malloc(size + 8), *out = malloc(size + 8);
    for (uint64_t k = 0; k < size; k++) in[k] = (unsigned char)tc_test_random(&seed);
    OK(r.t->alloc(r.d, size + 200, &memory));
    OK(r.t->alloc(r.d, size + 200, &other));
    assert_int_equal(memory % 64, 0);
    OK(r.t->fill(r.d, stream, other, 0, 0x77, size + 200));
    OK(r.t->copy_in(r.d, stream, memory, (int64_t)at, in, size));
    // The source is the caller's again.
    unsigned char *kept = malloc(size + 8);
    memcpy(kept, in, size);
    memset(in, 0, size);
    OK(r.t->copy(r.d, stream, other, 5, memory, (int64_t)at, size));
    OK(r.t->copy_out(r.d, stream, out, other, 5, size));
    assert_memory_equal(out, kept, size);
    // What lies behind the copy is untouched.
    OK(r.t->copy_out(r.d, stream, out, other, (int64_t)size + 5, 1));
    assert_int_equal(out[0], 0x77);
    r.t->free(r.d, memory);
    r.t->free(r.d, other);
    free(in), free(out), free(kept);
  }
  assert_int_equal(r.state()->async_allocations, 2 * (int)(sizeof sizes / sizeof *sizes));
  // With two streams memory is not tied to one of them.
  tc_handle second;
  OK(r.t->stream_create(r.d, &second));
  OK(r.t->alloc(r.d, 100, &memory));
  assert_int_equal(r.state()->async_allocations, 2 * (int)(sizeof sizes / sizeof *sizes));
  r.t->free(r.d, memory);
  r.t->stream_destroy(r.d, second);
  OK(r.t->synchronize(r.d, stream));
  r.t->stream_destroy(r.d, stream);
  close_rig(&r);
  return TC_OK;
}

// ---- Code ----
TC_TEST(launches) {
  rig r;
  object o;
  open_rig(&r);
  make_object(&o, 3);
  tc_handle stream, module, small, large, memory, none;
  OK(r.t->stream_create(r.d, &stream));
  OK(r.t->alloc(r.d, 4096, &memory));
  OK(r.t->module_load(r.d, o.data, o.size, &module));
  OK(r.t->function(r.d, module, TC_SV("mul_0"), &small));
  OK(r.t->function(r.d, module, TC_SV("large"), &large));
  assert_int_equal(r.t->function(r.d, module, TC_SV("tc_kernel_mul_0"), &none), TC_STATUS_NOT_FOUND);
  assert_int_equal(r.t->function(r.d, module, TC_SV("mul_"), &none), TC_STATUS_NOT_FOUND);
  r.params(4, (int32_t[]){8, 4, 1, 8});
  tc_launch_arg args[3] = {{.kind = TC_ARG_MEMORY, .value = memory, .offset = 64},
                           {.kind = TC_ARG_SCALAR, .bytes = 4, .value = (uint64_t)-5},
                           {.kind = TC_ARG_SCALAR, .bytes = 1, .value = 0x1FF}};
  tc_launch l = {
      .struct_size = sizeof l, .function = small, .blocks = 7, .grain = 1, .args = args, .n_args = 3, .errors = memory};
  OK(r.t->launch(r.d, stream, &l));
  const fake_state *s = r.state();
  int32_t before = s->launches;
  assert_string_equal(s->kernel, "tc_kernel_mul_0");
  assert_int_equal(s->grid, 7);
  assert_int_equal(s->lanes, 256);
  assert_int_equal(s->shared_bytes, 0);
  assert_int_equal(s->words[0], memory + 64);
  assert_int_equal(s->words[1], 0xFFFFFFFB);
  assert_int_equal(s->words[2], 0xFF);
  assert_int_equal(s->words[3], memory);
  l.function = large;
  OK(r.t->launch(r.d, stream, &l));
  assert_int_equal(s->shared_bytes, 100000);
  // Nothing to do; too much to do; arguments that do not fit.
  l.blocks = 0;
  OK(r.t->launch(r.d, stream, &l));
  assert_int_equal(s->launches, before + 1);
  l.blocks = (int64_t)1 << 32;
  assert_int_equal(r.t->launch(r.d, stream, &l), TC_STATUS_INVALID_ARGUMENT);
  assert_non_null(strstr(r.diag, "large"));
  l.blocks = 1, l.n_args = 2;
  assert_int_equal(r.t->launch(r.d, stream, &l), TC_STATUS_INVALID_ARGUMENT);
  l.n_args = 3;
  // Failures name the kernel: at the launch, and, as far as is known, when they surface later.
  r.make_fail("cuLaunchKernelEx", 0, 1);
  assert_int_equal(r.t->launch(r.d, stream, &l), TC_STATUS_DEVICE);
  assert_non_null(strstr(r.diag, "large"));
  r.make_fail("cuStreamSynchronize", 0, 700);
  assert_int_equal(r.t->synchronize(r.d, stream), TC_STATUS_DEVICE);
  assert_non_null(strstr(r.diag, "@large"));
  assert_non_null(strstr(r.diag, "@mul_0"));
  r.t->module_unload(r.d, module);
  r.t->free(r.d, memory);
  r.t->stream_destroy(r.d, stream);
  close_rig(&r);
  return TC_OK;
}

// Blocks of few lanes share the device's where there are many; such kernels are told how many there are.
TC_TEST(blocks_together) {
  rig r;
  object o;
  open_rig(&r);
  make_object(&o, 1);
  tc_handle stream, module, large, memory;
  OK(r.t->stream_create(r.d, &stream));
  OK(r.t->alloc(r.d, 4096, &memory));
  OK(r.t->module_load(r.d, o.data, o.size, &module));
  OK(r.t->function(r.d, module, TC_SV("large"), &large));
  r.params(3, (int32_t[]){8, 8, 4});
  tc_launch_arg arg = {.kind = TC_ARG_MEMORY, .value = memory};
  tc_launch l = {.struct_size = sizeof l, .function = large, .grain = 1, .args = &arg, .n_args = 1, .errors = memory};
  const fake_state *s = r.state();
  static const struct {
    int64_t blocks;
    uint32_t grid, together;
  } rows[] = {{1, 1, 1}, {700, 700, 1}, {1000001, 250001, 4}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    l.blocks = rows[i].blocks;
    OK(r.t->launch(r.d, stream, &l));
    assert_int_equal(s->grid, rows[i].grid);
    assert_int_equal(s->lanes, 64);
    assert_int_equal(s->lanes_y, rows[i].together);
    assert_int_equal(s->words[2], rows[i].blocks);
  }
  r.t->module_unload(r.d, module);
  r.t->free(r.d, memory);
  r.t->stream_destroy(r.d, stream);
  close_rig(&r);
  return TC_OK;
}

// Kernels of few blocks are launched before those in front of them have ended, also where that is recorded, unless the
// driver is too old for it or the config key says no.
TC_TEST(dependent_launches) {
  static const struct {
    const char *wish;
    int32_t version, dependent;
  } rows[] = {{NULL, 0, 1}, {"true", 0, 1}, {"false", 0, 0}, {NULL, 12030, 1}, {NULL, 12020, 0}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    rig r;
    object o;
    load(&r);
    r.dependent = rows[i].wish;
    r.be_of(rows[i].version);
    OK(r.t->open(&r.host, 0, &r.d));
    make_object(&o, 1);
    tc_handle stream, recorder, graph, module, function, memory;
    OK(r.t->stream_create(r.d, &stream));
    OK(r.t->alloc(r.d, 4096, &memory));
    OK(r.t->module_load(r.d, o.data, o.size, &module));
    OK(r.t->function(r.d, module, TC_SV("mul_0"), &function));
    r.params(2, (int32_t[]){8, 8});
    tc_launch_arg arg = {.kind = TC_ARG_MEMORY, .value = memory};
    tc_launch l = {.struct_size = sizeof l, .function = function, .blocks = 3, .grain = 1, .args = &arg, .n_args = 1};
    int32_t launches = r.state()->launches, dependent = r.state()->dependent;
    OK(r.t->launch(r.d, stream, &l));
    OK(r.t->graph_begin(r.d, &recorder));
    OK(r.t->launch(r.d, recorder, &l));
    OK(r.t->launch(r.d, recorder, &l));
    OK(r.t->graph_end(r.d, recorder, &graph));
    OK(r.t->graph_launch(r.d, stream, graph));
    OK(r.t->synchronize(r.d, stream));
    assert_int_equal(r.state()->launches - launches, 3);
    assert_int_equal(r.state()->dependent - dependent, rows[i].dependent * 3);
    assert_int_equal(r.state()->grid, 3);
    for (int32_t more = 0; more < 2; more++) {
      l.blocks = TC_CUDA_DEPENDENT_BLOCKS + more;
      dependent = r.state()->dependent;
      OK(r.t->launch(r.d, stream, &l));
      OK(r.t->synchronize(r.d, stream));
      assert_int_equal(r.state()->dependent - dependent, more ? 0 : rows[i].dependent);
    }
    assert_int_equal(r.state()->words[0], memory);
    r.t->graph_destroy(r.d, graph);
    r.t->module_unload(r.d, module);
    r.t->free(r.d, memory);
    r.t->stream_destroy(r.d, stream);
    close_rig(&r);
    r.be_of(0);
  }
  return TC_OK;
}

// Every byte of a code object that is damaged is refused or harmless; every shortened one is refused.
TC_TEST(damage) {
  rig r;
  object o;
  open_rig(&r);
  tc_handle module;
  make_object(&o, 3);
  for (uint64_t size = 0; size < o.size; size++) {
    char *copy = malloc(size + 1); // its end is seen by the sanitizer
    memcpy(copy, o.data, size);
    assert_int_equal(r.t->module_load(r.d, copy, size, &module), TC_STATUS_DATA_LOSS);
    free(copy);
  }
  for (uint64_t at = 0; at < o.size; at++) {
    for (int32_t bit = 0; bit < 8; bit++) {
      char *copy = malloc(o.size);
      memcpy(copy, o.data, o.size);
      copy[at] ^= (char)(1 << bit);
      if (r.t->module_load(r.d, copy, o.size, &module) == TC_STATUS_OK) r.t->module_unload(r.d, module);
      free(copy);
    }
  }
  close_rig(&r);
  return TC_OK;
}

// Each function of the driver that may fail does; the failure is reported with its name, and nothing stays.
TC_TEST(failures) {
  static const struct {
    const char *function, *reported;
    int32_t code, status;
  } rows[] = {{"cuMemAllocAsync", "cuMemAllocAsync", 2, TC_STATUS_OUT_OF_MEMORY},
              {"cuMemHostAlloc", "cuMemHostAlloc", 2, TC_STATUS_OUT_OF_MEMORY},
              {"cuEventCreate", "cuEventCreate", 999, TC_STATUS_DEVICE},
              {"cuMemcpyHtoDAsync_v2", "cuMemcpyHtoDAsync", 700, TC_STATUS_DEVICE},
              {"cuEventRecord", "cuEventRecord", 700, TC_STATUS_DEVICE},
              {"cuEventSynchronize", "cuEventSynchronize", 700, TC_STATUS_DEVICE},
              {"cuMemcpyDtoHAsync_v2", "cuMemcpyDtoHAsync", 700, TC_STATUS_DEVICE},
              {"cuStreamCreate", "cuStreamCreate", 700, TC_STATUS_DEVICE}};
  static const char data[100];
  char back[100];
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    rig r;
    tc_handle stream = 0, memory = 0;
    open_rig(&r);
    r.make_fail(rows[i].function, 0, rows[i].code);
    int32_t s = r.t->stream_create(r.d, &stream);
    if (s == TC_STATUS_OK) s = r.t->alloc(r.d, 100, &memory);
    if (s == TC_STATUS_OK) s = r.t->copy_in(r.d, stream, memory, 0, data, sizeof data);
    if (s == TC_STATUS_OK) s = r.t->copy_out(r.d, stream, back, memory, 0, sizeof back);
    r.make_fail(NULL, 0, 0);
    if (s != rows[i].status || !strstr(r.diag, rows[i].reported))
      fail_msg("%s gave %d, %s", rows[i].function, s, r.diag);
    if (memory) r.t->free(r.d, memory);
    if (stream && rows[i].status != TC_STATUS_OK && strcmp(rows[i].function, "cuStreamCreate") != 0)
      r.t->stream_destroy(r.d, stream);
    close_rig(&r);
  }
  return TC_OK;
}

// ---- Compiling without a device ----
static int32_t write_blob(void *self, const void *data, uint64_t size) {
  object *o = self;
  (void)data;
  o->size += size;
  return TC_STATUS_OK;
}

TC_TEST(compile_only) {
  rig r;
  int32_t n;
  tc_handle handle;
  load(&r);
  r.driver = "/nonexistent/libcuda.so.1";
  r.arch = "sm_12345";
  assert_int_equal(r.t->open(&r.host, 0, &r.d), TC_STATUS_INVALID_ARGUMENT);
  assert_non_null(strstr(r.diag, "sm_90"));
  r.arch = "sm_80";
  OK(r.t->enumerate(&r.host, &n));
  assert_int_equal(n, 1);
  OK(r.t->open(&r.host, 0, &r.d));
  OK(r.t->stream_create(r.d, &handle));
  assert_int_equal(r.t->alloc(r.d, 10, &handle), TC_STATUS_DEVICE);
  assert_int_equal(r.t->synchronize(r.d, 1), TC_STATUS_DEVICE);
  tc_lexer lx;
  tc_kernel *k;
  tc_lex_init(&lx, arena, TC_SV("test.tc"),
              TC_SV("kernel @exp (%x : global f32, %n : i32)\n    blocks 1 lanes 64 {\n  lanes {\n    %l = lane\n    "
                    "%ok = lt %l, %n\n    store %x[%l], 1.0 if %ok\n  }\n}\n"));
  TC_TRY(tc_kernel_parse(arena, &lx, &k));
  object o = {.size = 0};
  tc_sink sink = {&o, write_blob};
  const tc_kernel *kernels[1] = {k};
  int32_t s = r.codegen->compile(&r.host, r.d, kernels, 1, 2, &sink, NULL);
  if (s == TC_STATUS_OK) assert_true(o.size > sizeof(cuda_blob_header));
  else assert_non_null(strstr(r.diag, "libnvrtc")); // where it is not installed, that is said
  r.t->close(r.d);
  return TC_OK;
}

typedef struct lines {
  char text[2000];
  size_t size;
} lines;
static int32_t add_line(void *self, const void *data, uint64_t size) {
  lines *l = self;
  assert_true(l->size + size < sizeof l->text);
  memcpy(l->text + l->size, data, size);
  l->size += size;
  return TC_STATUS_OK;
}

// What a device says of the libraries that it opens: versions, or what is missing, also when it is asked again.
TC_TEST(libraries) {
  rig r;
  load(&r);
  r.dnn = "/nonexistent/libcudnn.so", r.cufft = "/nonexistent/libcufft.so";
  OK(r.t->open(&r.host, 0, &r.d));
  for (int32_t i = 0; i < 2; i++) {
    lines l = {.size = 0};
    OK(r.t->libraries(r.d, &(tc_sink){&l, add_line}));
    assert_int_equal(strncmp(l.text, "NVRTC ", 6), 0);
    assert_non_null(strstr(l.text, "\ncuBLASLt 13.1.0\n"));
    assert_non_null(strstr(l.text, "\ncuFFT not usable: cannot open '/nonexistent/libcufft.so' (cuda.cufft)"));
    assert_non_null(strstr(l.text, "\ncuDNN not usable: cannot open '/nonexistent/libcudnn.so' (cuda.cudnn)"));
  }
  close_rig(&r);
  open_rig(&r);
  lines l = {.size = 0};
  OK(r.t->libraries(r.d, &(tc_sink){&l, add_line}));
  assert_non_null(strstr(l.text, "\ncuDNN 9.19.0\n"));
  assert_non_null(strstr(l.text, "\ncuFFT 11.4.1\n"));
  close_rig(&r);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(finding),     cmocka_unit_test(properties),         cmocka_unit_test(copies),
      cmocka_unit_test(launches),    cmocka_unit_test(dependent_launches), cmocka_unit_test(blocks_together),
      cmocka_unit_test(damage),      cmocka_unit_test(failures),           cmocka_unit_test(libraries),
      cmocka_unit_test(compile_only)};
  return TC_RUN(tests);
}
