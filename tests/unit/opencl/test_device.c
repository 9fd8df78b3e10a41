// The opencl plugin: memory, code objects, launches, and kernels against the interpreter, bit for bit.
#include <dlfcn.h>
#include <stdlib.h>

#include "tests/unit/sdk/kernels.h"
#include "tests/unit/unit.h"

#include "tc/bundle.h"

// ---- A host ----
typedef struct rig {
  tc_host host;
  const tc_device_table *t;
  const tc_codegen_table *codegen;
  tc_device_ *d;
  tc_handle stream;
  const char *key, *value; // of the configuration, or NULL
  char diag[2600];
} rig;

static void rig_diag(void *self, int32_t code, tc_sv text) {
  rig *r = self;
  snprintf(r->diag, sizeof r->diag, "%d: %.*s", code, (int)text.size, text.data);
}
static void rig_log(void *self, int32_t artifact, tc_sv text) { (void)self, (void)artifact, (void)text; }
static void *rig_take(void *self, uint64_t size) { return (void)self, calloc(1, size + 64); }
static void rig_give(void *self, void *p) { (void)self, free(p); }
static tc_sv rig_config(void *self, tc_sv key) {
  rig *r = self;
  return r->key && tc_sv_is(key, r->key) ? tc_sv_of(r->value) : TC_SV("");
}

#define TC_ABI_FN(since, ret, name, params, args, doc) .name = name,
#define TC_ABI_PROC(since, name, params, args, doc) .name = name,
#define TC_ABI_WANT_KERNEL_READ
static const tc_kernel_read_table kernel_read = {
    .struct_size = sizeof(tc_kernel_read_table),
#include "sdk/abi/abi.def"
};

static void load(rig *r) {
  *r = (rig){.host = {.magic = TC_ABI_MAGIC,
                      .abi_major = TC_ABI_MAJOR,
                      .abi_minor = TC_ABI_MINOR,
                      .struct_size = sizeof(tc_host),
                      .diag = rig_diag,
                      .log = rig_log,
                      .alloc = rig_take,
                      .free = rig_give,
                      .config = rig_config,
                      .kernel_read = &kernel_read}};
  r->host.self = r;
  void *plugin = dlopen(OPENCL_PLUGIN, RTLD_NOW | RTLD_LOCAL), *symbol;
  if (!plugin) fail_msg("%s", dlerror());
  tc_plugin_query_fn query;
  symbol = dlsym(plugin, "tc_plugin_query");
  memcpy(&query, &symbol, sizeof query);
  tc_plugin_desc p = {.magic = TC_ABI_MAGIC, .abi_major = TC_ABI_MAJOR, .struct_size = sizeof p};
  assert_int_equal(query(&r->host, &p), TC_STATUS_OK);
  r->t = p.device, r->codegen = p.codegen;
}

#define OK(expr)                                                    \
  do {                                                              \
    if ((expr) != TC_STATUS_OK) fail_msg("%s: %s", #expr, r->diag); \
  } while (0)

static void open_rig_with(rig *r, const char *key, const char *value) {
  int32_t n = 0;
  load(r);
  r->key = key, r->value = value;
  if (r->t->enumerate(&r->host, &n) != TC_STATUS_OK || n == 0) {
    print_message("no OpenCL device: %s\n", r->diag);
    skip();
  }
  OK(r->t->open(&r->host, 0, &r->d));
  OK(r->t->stream_create(r->d, &r->stream));
}

static void open_rig(rig *r) { open_rig_with(r, NULL, NULL); }

static void close_rig(rig *r) {
  r->t->stream_destroy(r->d, r->stream);
  r->t->close(r->d);
}

static int32_t keep(void *self, const void *data, uint64_t size) {
  tc_bytes_put(self, data, size);
  return TC_STATUS_OK;
}

static void compile(rig *r, const tc_kernel *k, tc_bytes *blob) {
  tc_sink sink = {blob, keep};
  OK(r->codegen->compile(&r->host, r->d, &k, 1, 1, &sink, NULL));
}

typedef struct loaded {
  tc_handle module, function;
} loaded;
static loaded compile_and_load(rig *r, const tc_kernel *k) {
  tc_bytes blob = {0};
  loaded l = {0};
  compile(r, k, &blob);
  OK(r->t->module_load(r->d, blob.data, blob.size, &l.module));
  OK(r->t->function(r->d, l.module, tc_k_name(k), &l.function));
  tc_bytes_free(&blob);
  return l;
}

static tc_handle memory_of(rig *r, const void *data, size_t size) {
  tc_handle m = 0;
  OK(r->t->alloc(r->d, size, &m));
  OK(r->t->copy_in(r->d, r->stream, m, 0, data, size));
  return m;
}

// ---- Memory ----
KERNEL_TEST(memory) {
  (void)arena;
  rig rig_, *r = &rig_;
  enum { SIZE = 1000 };
  uint8_t data[SIZE], got[SIZE];
  for (int i = 0; i < SIZE; i++) data[i] = (uint8_t)rand();
  open_rig(r);
  tc_handle a = memory_of(r, data, SIZE), b = 0;
  OK(r->t->alloc(r->d, SIZE, &b));
  OK(r->t->fill(r->d, r->stream, b, 0, 0x5a, SIZE));
  OK(r->t->copy(r->d, r->stream, b, 101, a, 7, 333));
  OK(r->t->fill(r->d, r->stream, b, 999, 1, 1));
  OK(r->t->fill(r->d, r->stream, b, 3, 9, 0));
  OK(r->t->copy_out(r->d, r->stream, got, b, 0, SIZE));
  for (int i = 0; i < SIZE; i++)
    assert_int_equal(got[i], i == 999 ? 1 : i >= 101 && i < 434 ? data[i - 101 + 7] : 0x5a);
  tc_handle huge = 0;
  assert_int_equal(r->t->alloc(r->d, (uint64_t)1 << 60, &huge), TC_STATUS_OUT_OF_MEMORY);
  assert_non_null(strstr(r->diag, "clCreateBuffer"));
  r->t->free(r->d, a);
  r->t->free(r->d, b);
  close_rig(r);
}

KERNEL_TEST(memory_is_counted_and_bounded) {
  (void)arena;
  rig rig_, *r = &rig_;
  tc_memory_stats m = {.struct_size = sizeof m};
  tc_device_props props = {.struct_size = sizeof props};
  tc_handle a = 0, b = 0;
  open_rig_with(r, "largest_alloc", "1000");
  OK(r->t->properties(r->d, &props));
  assert_int_equal(props.largest_alloc, 1000);
  assert_int_equal(r->t->alloc(r->d, 1001, &a), TC_STATUS_OUT_OF_MEMORY);
  OK(r->t->alloc(r->d, 1000, &a));
  OK(r->t->alloc(r->d, 24, &b));
  r->t->free(r->d, a);
  OK(r->t->memory_stats(r->d, &m));
  assert_int_equal(m.used_bytes, 24);
  assert_int_equal(m.peak_bytes, 1024);
  assert_int_equal(m.total_bytes, props.memory_bytes);
  r->t->free(r->d, b);
  close_rig(r);
}

// ---- Times ----
KERNEL_TEST(events) {
  (void)arena;
  rig rig_, *r = &rig_;
  enum { SIZE = 1 << 22 };
  tc_handle m = 0, from = 0, to = 0;
  double ns = -1, again = -1;
  open_rig(r);
  OK(r->t->alloc(r->d, SIZE, &m));
  OK(r->t->event_create(r->d, &from));
  OK(r->t->event_create(r->d, &to));
  OK(r->t->event_record(r->d, r->stream, from));
  assert_int_equal(r->t->event_elapsed(r->d, from, to, &ns), TC_STATUS_INVALID_ARGUMENT);
  assert_non_null(strstr(r->diag, "never recorded"));
  OK(r->t->fill(r->d, r->stream, m, 0, 1, SIZE));
  OK(r->t->event_record(r->d, r->stream, to));
  OK(r->t->event_elapsed(r->d, from, to, &ns));
  assert_true(ns > 0 && ns < 1e10);
  OK(r->t->fill(r->d, r->stream, m, 0, 2, SIZE));
  OK(r->t->event_record(r->d, r->stream, to)); // counts instead of the time before
  OK(r->t->event_elapsed(r->d, from, to, &again));
  assert_true(again > ns);
  r->t->event_destroy(r->d, from);
  r->t->event_destroy(r->d, to);
  r->t->free(r->d, m);
  close_rig(r);
  open_rig_with(r, "profiling", "false");
  assert_int_equal(r->t->event_create(r->d, &from), TC_STATUS_UNIMPLEMENTED);
  assert_non_null(strstr(r->diag, "opencl.profiling"));
  close_rig(r);
}

KERNEL_TEST(missing_loader) {
  (void)arena;
  rig rig_, *r = &rig_;
  int32_t n = 7;
  load(r);
  r->key = "library", r->value = "/nowhere/libOpenCL.so.1";
  assert_int_equal(r->t->enumerate(&r->host, &n), TC_STATUS_DEVICE);
  assert_int_equal(n, 0);
  assert_non_null(strstr(r->diag, "/nowhere/libOpenCL.so.1"));
  r->value = "libm.so.6";
  assert_int_equal(r->t->enumerate(&r->host, &n), TC_STATUS_DEVICE);
  assert_non_null(strstr(r->diag, "no OpenCL 1.2"));
}

// ---- Kernels ----
// One launch on the device and in the interpreter. All buffers have `count` elements of type t.
enum { LANES = 64, BLOCKS = 6, COUNT = LANES * BLOCKS };

static void fill_random(tc_dtype t, uint8_t *x, int32_t count) {
  int32_t size = tc_dtype_size(t);
  static const double special[] = {0.0, -0.0, 1.0, -1.0, INFINITY, -INFINITY, NAN, 1e-40, 3e38, 0.5};
  for (int32_t e = 0; e < count; e++) {
    double v = rand() % 16 ? (rand() % 20001 - 10000) * 0.001 : special[rand() % 10];
    tc_kir_write(t, x + e * size,
                 tc_dtype_is_float(t) ? (tc_knum){.re = v}
                                      : tc_kir_int(t, (int64_t)rand() * rand() - (int64_t)rand() * rand()));
  }
}

static bool same(tc_dtype t, const uint8_t *a, const uint8_t *b) {
  tc_knum x = tc_kir_read(t, a), y = tc_kir_read(t, b);
  return (tc_dtype_is_float(t) && x.re != x.re && y.re != y.re) || memcmp(a, b, (size_t)tc_dtype_size(t)) == 0;
}

KERNEL_TEST(every_type_equals_the_interpreter) {
  rig rig_, *r = &rig_;
  open_rig(r);
  tc_device_props props = {.struct_size = sizeof props};
  OK(r->t->properties(r->d, &props));
  // Each of these kernels has every function, and takes a driver seconds: f32 and two others in turn.
  for (int32_t i = 0, others = rand() % TYPES; i < 3; i++) {
    tc_dtype t = i == 0 ? TC_F32 : all_types[(others + i * 5) % TYPES];
    if (!(props.dtypes >> t & 1)) continue;
    print_message("%s\n", tc_dtype_name(t));
    tc_kernel *k = everything(arena, t, LANES);
    uint8_t x[8 * (COUNT + 8)] = {0}, y1[8 * COUNT] = {0}, y2[8 * COUNT] = {0};
    int32_t size = tc_dtype_size(t);
    fill_random(t, x, COUNT + 8);
    tc_karg args[3] = {{.data = x, .count = COUNT + 8}, {.data = y1, .count = COUNT}, {.bits = COUNT - 5}};
    CHECK_OK(tc_kernel_interpret(tc_system_allocator(), k, BLOCKS, args, 3, NULL));
    loaded l = compile_and_load(r, k);
    tc_handle mx = memory_of(r, x, sizeof x), my = 0;
    OK(r->t->alloc(r->d, sizeof y2 + 64, &my));
    OK(r->t->fill(r->d, r->stream, my, 0, 0, sizeof y2 + 64));
    tc_launch_arg launch_args[3] = {{.kind = TC_ARG_MEMORY, .value = mx},
                                    {.kind = TC_ARG_MEMORY, .value = my, .offset = 64},
                                    {.kind = TC_ARG_SCALAR, .bytes = 4, .value = COUNT - 5}};
    tc_launch launch = {
        .struct_size = sizeof launch, .function = l.function, .blocks = BLOCKS, .args = launch_args, .n_args = 3};
    OK(r->t->launch(r->d, r->stream, &launch));
    OK(r->t->copy_out(r->d, r->stream, y2, my, 64, sizeof y2));
    for (int32_t e = 0; e < COUNT; e++) {
      if (!same(t, y1 + e * size, y2 + e * size))
        fail_msg("%s, element %d: %.9g (%llx), interpreter %.9g (%llx)", tc_dtype_name(t), (int)e,
                 tc_kir_read(t, y2 + e * size).re, (unsigned long long)tc_kir_read(t, y2 + e * size).i,
                 tc_kir_read(t, y1 + e * size).re, (unsigned long long)tc_kir_read(t, y1 + e * size).i);
    }
    r->t->module_unload(r->d, l.module);
    r->t->free(r->d, mx);
    r->t->free(r->d, my);
  }
  close_rig(r);
}

// Runs a kernel of one input and one output buffer over `count` elements of the input, both ways.
static void run_both(rig *r, const tc_kernel *k, tc_dtype in, const void *x, tc_dtype out, int32_t blocks,
                     int32_t count) {
  size_t in_bytes = (size_t)count * (size_t)tc_dtype_size(in), out_bytes = (size_t)count * (size_t)tc_dtype_size(out);
  uint8_t *want = calloc(1, out_bytes), *got = calloc(1, out_bytes);
  tc_karg args[2] = {{.data = (void *)(uintptr_t)x, .count = count}, {.data = want, .count = count}};
  CHECK_OK(tc_kernel_interpret(tc_system_allocator(), k, blocks, args, 2, NULL));
  loaded l = compile_and_load(r, k);
  tc_handle mx = memory_of(r, x, in_bytes), my = memory_of(r, got, out_bytes);
  tc_launch_arg a[2] = {{.kind = TC_ARG_MEMORY, .value = mx}, {.kind = TC_ARG_MEMORY, .value = my}};
  tc_launch launch = {.struct_size = sizeof launch, .function = l.function, .blocks = blocks, .args = a, .n_args = 2};
  OK(r->t->launch(r->d, r->stream, &launch));
  OK(r->t->copy_out(r->d, r->stream, got, my, 0, out_bytes));
  for (int32_t e = 0; e < count; e++) {
    const uint8_t *p = want + e * tc_dtype_size(out), *q = got + e * tc_dtype_size(out);
    if (!same(out, p, q))
      fail_msg(TC_SV_FMT ", element %d: %.9g, interpreter %.9g", TC_SV_ARG(tc_k_name(k)), (int)e,
               tc_kir_read(out, q).re, tc_kir_read(out, p).re);
  }
  r->t->module_unload(r->d, l.module);
  r->t->free(r->d, mx);
  r->t->free(r->d, my);
  free(want), free(got);
}

// Every 16-bit float widened, and f32 numbers of all exponents narrowed.
KERNEL_TEST(conversions_of_small_floats) {
  static const char *const names[] = {"f16", "bf16"};
  static const tc_dtype types[] = {TC_F16, TC_BF16};
  rig rig_, *r = &rig_;
  enum { N = 65536 };
  uint16_t *small = malloc(N * 2);
  uint32_t *wide = malloc(N * 4);
  for (int32_t i = 0; i < N; i++) {
    small[i] = (uint16_t)i;
    wide[i] = ((uint32_t)i << 16) | ((uint32_t)rand() & 0xffff);
    if (i % 3 == 0) wide[i] &= 0xfffff000u; // ties
  }
  open_rig(r);
  for (int32_t i = 0; i < 2; i++) {
    tc_kernel *widen = kernel_of(
        arena, tc_sv_printf(arena,
                            "kernel @widen (%%x : global %s, %%y : global f32)\n    blocks 1 lanes 64 {\n"
                            "  %%b = block\n  %%s = mul %%b, 64\n  lanes {\n    %%l = lane\n    %%i = add %%s, "
                            "%%l\n    %%v = load %%x[%%i]\n    %%f = cast %%v : f32\n    store %%y[%%i], %%f\n  }\n}\n",
                            names[i])
                   .data);
    run_both(r, widen, types[i], small, TC_F32, N / 64, N);
    tc_kernel *narrow = kernel_of(
        arena, tc_sv_printf(arena,
                            "kernel @narrow (%%x : global f32, %%y : global %s)\n    blocks 1 lanes 64 {\n"
                            "  %%b = block\n  %%s = mul %%b, 64\n  lanes {\n    %%l = lane\n    %%i = add %%s, "
                            "%%l\n    %%v = load %%x[%%i]\n    %%f = cast %%v : %s\n    store %%y[%%i], %%f\n  }\n}\n",
                            names[i], names[i])
                   .data);
    run_both(r, narrow, TC_F32, wide, types[i], N / 64, N);
  }
  close_rig(r);
  free(small), free(wide);
}

// Rows of 4096 complex numbers through shared memory and seven barriers, and all that is left of the printer.
KERNEL_TEST(barriers_tables_and_atomics) {
  rig rig_, *r = &rig_;
  open_rig(r);
  enum { ROWS = 3, FLOATS = 2 * ROW * ROWS };
  tc_kernel *k = build_rows_filter(arena, GROUPS);
  float *x = malloc(FLOATS * 4), *h = malloc(2 * ROW * 4), *want = calloc(FLOATS, 4), *got = calloc(FLOATS, 4);
  for (int32_t i = 0; i < FLOATS; i++) x[i] = (float)(rand() % 2001 - 1000) * 0.001f;
  for (int32_t i = 0; i < 2 * ROW; i++) h[i] = (float)(rand() % 2001 - 1000) * 0.001f;
  tc_karg args[3] = {{.data = x, .count = FLOATS}, {.data = h, .count = 2 * ROW}, {.data = want, .count = FLOATS}};
  CHECK_OK(tc_kernel_interpret(tc_system_allocator(), k, ROWS, args, 3, NULL));
  loaded l = compile_and_load(r, k);
  tc_handle m[3] = {memory_of(r, x, FLOATS * 4), memory_of(r, h, 2 * ROW * 4), memory_of(r, got, FLOATS * 4)};
  tc_launch_arg a[3];
  for (int32_t i = 0; i < 3; i++) a[i] = (tc_launch_arg){.kind = TC_ARG_MEMORY, .value = m[i]};
  tc_launch launch = {.struct_size = sizeof launch, .function = l.function, .blocks = ROWS, .args = a, .n_args = 3};
  OK(r->t->launch(r->d, r->stream, &launch));
  OK(r->t->copy_out(r->d, r->stream, got, m[2], 0, FLOATS * 4));
  assert_memory_equal(want, got, FLOATS * 4);
  r->t->module_unload(r->d, l.module);
  for (int32_t i = 0; i < 3; i++) r->t->free(r->d, m[i]);
  free(x), free(h), free(want), free(got);
  // It races with itself, so that only compiling it says something.
  l = compile_and_load(r, misc(arena));
  r->t->module_unload(r->d, l.module);
  close_rig(r);
}

KERNEL_TEST(atomics_count) {
  static const char *const types[] = {"i32", "u32", "i64", "u64", "f32", "f64"};
  static const tc_dtype dtypes[] = {TC_I32, TC_U32, TC_I64, TC_U64, TC_F32, TC_F64};
  rig rig_, *r = &rig_;
  open_rig(r);
  tc_device_props props = {.struct_size = sizeof props};
  OK(r->t->properties(r->d, &props));
  for (int32_t i = 0; i < 6; i++) {
    if (!(props.atomics >> dtypes[i] & 1)) continue;
    const char *type = types[i], *three = i < 4 ? "3" : "3.0", *none = i < 4 ? "0" : "0.0";
    // In the block's own memory first, then in everybody's.
    tc_sv text =
        tc_sv_printf(arena,
                     "kernel @count (%%y : global %s)\n    blocks 1 lanes 64 {\n  shared %%t : %s[2]\n  lanes {\n"
                     "    %%l = lane\n    %%first = lt %%l, 2\n    %%none = const %s : %s\n"
                     "    store %%t[%%l], %%none if %%first\n  }\n  barrier\n  lanes {\n"
                     "    %%three = const %s : %s\n    atomic_add %%t[1], %%three\n  }\n  barrier\n  lanes {\n"
                     "    %%k = lane\n    %%one = lt %%k, 1\n    %%all = load %%t[1]\n"
                     "    atomic_add %%y[2], %%all if %%one\n  }\n}\n",
                     type, type, none, type, three, type);
    tc_kernel *k = kernel_of(arena, text.data);
    uint64_t zero[4] = {0}, got[4];
    loaded l = compile_and_load(r, k);
    tc_handle m = memory_of(r, zero, sizeof zero);
    tc_launch_arg a = {.kind = TC_ARG_MEMORY, .value = m};
    tc_launch launch = {.struct_size = sizeof launch, .function = l.function, .blocks = 50, .args = &a, .n_args = 1};
    OK(r->t->launch(r->d, r->stream, &launch));
    OK(r->t->copy_out(r->d, r->stream, got, m, 0, sizeof got));
    tc_knum v = tc_kir_read(dtypes[i], (const uint8_t *)got + 2 * tc_dtype_size(dtypes[i]));
    assert_int_equal(i < 4 ? v.i : (int64_t)v.re, 3 * 64 * 50);
    r->t->module_unload(r->d, l.module);
    r->t->free(r->d, m);
  }
  close_rig(r);
}

// The first failing check leaves its site.
KERNEL_TEST(checks) {
  rig rig_, *r = &rig_;
  open_rig(r);
  tc_kernel *k = kernel_of(arena, "kernel @checked (%n : i32)\n    blocks 1 lanes 64 {\n  lanes {\n    %l = lane\n    "
                                  "%ok = lt %l, %n\n    check %ok, 4294967303\n  }\n}\n");
  loaded l = compile_and_load(r, k);
  for (int32_t n = 63; n <= 64; n++) {
    tc_error_block block = {.site = -1};
    tc_handle m = memory_of(r, &block, sizeof block);
    tc_launch_arg a = {.kind = TC_ARG_SCALAR, .bytes = 4, .value = (uint64_t)n};
    tc_launch launch = {
        .struct_size = sizeof launch, .function = l.function, .blocks = 2, .args = &a, .n_args = 1, .errors = m};
    OK(r->t->launch(r->d, r->stream, &launch));
    OK(r->t->synchronize(r->d, r->stream));
    OK(r->t->copy_out(r->d, r->stream, &block, m, 0, sizeof block));
    assert_int_equal(block.site, n == 63 ? 4294967303 : -1);
    r->t->free(r->d, m);
  }
  r->t->module_unload(r->d, l.module);
  close_rig(r);
}

// ---- Misuse ----
KERNEL_TEST(misuse) {
  rig rig_, *r = &rig_;
  open_rig(r);
  tc_device_ *none = NULL;
  assert_int_equal(r->t->open(&r->host, 999, &none), TC_STATUS_OUT_OF_RANGE);
  tc_kernel *k = kernel_of(arena, "kernel @one (%y : global f32)\n    blocks 1 lanes 1 {\n  lanes {\n    store %y[0], "
                                  "1.0\n  }\n}\n");
  tc_bytes blob = {0};
  compile(r, k, &blob);
  tc_handle module = 0, function = 0;
  OK(r->t->module_load(r->d, blob.data, blob.size, &module));
  assert_int_equal(r->t->function(r->d, module, TC_SV("two"), &function), TC_STATUS_NOT_FOUND);
  OK(r->t->function(r->d, module, TC_SV("one"), &function));
  tc_launch launch = {.struct_size = sizeof launch, .function = function, .blocks = 1};
  assert_int_equal(r->t->launch(r->d, r->stream, &launch), TC_STATUS_INVALID_ARGUMENT);
  launch.blocks = 0;
  OK(r->t->launch(r->d, r->stream, &launch));
  r->t->module_unload(r->d, module);
  for (int32_t i = 0; i < 300; i++) { // any byte, any length
    size_t at = (size_t)rand() % blob.size, size = i % 2 ? blob.size : at;
    char old = blob.data[at];
    if (i % 2) blob.data[at] ^= (char)(1 + rand() % 255);
    assert_int_equal(r->t->module_load(r->d, blob.data, size, &module), TC_STATUS_DATA_LOSS);
    blob.data[at] = old;
  }
  tc_bytes_free(&blob);
  tc_sb text = tc_sb_make(arena); // more parameters than any device takes
  tc_sb_putz(&text, "kernel @many (%p0 : global f32");
  for (int32_t i = 1; i < 2000; i++) tc_sb_printf(&text, ", %%p%d : global f32", i);
  tc_sb_putz(&text, ")\n    blocks 1 lanes 1 {\n  lanes {\n    store %p0[0], 1.0\n  }\n}\n");
  const tc_kernel *many = kernel_of(arena, text.text);
  tc_sink sink = {&blob, keep};
  assert_int_equal(r->codegen->compile(&r->host, r->d, &many, 1, 1, &sink, NULL), TC_STATUS_PLUGIN);
  assert_non_null(strstr(r->diag, "bytes of parameters"));
  tc_bytes_free(&blob);
  close_rig(r);
}

int main(void) {
  srand((unsigned)tc_test_seed());
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(memory),
      cmocka_unit_test(memory_is_counted_and_bounded),
      cmocka_unit_test(events),
      cmocka_unit_test(missing_loader),
      cmocka_unit_test(every_type_equals_the_interpreter),
      cmocka_unit_test(conversions_of_small_floats),
      cmocka_unit_test(barriers_tables_and_atomics),
      cmocka_unit_test(atomics_count),
      cmocka_unit_test(checks),
      cmocka_unit_test(misuse),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
