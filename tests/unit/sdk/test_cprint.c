// The C-like printer: kernels as CUDA C (compiled by NVRTC, where it is installed: no spills), as OpenCL C (checked by
// clang), and as C99 (compiled by the host's compiler, run, and compared with the interpreter).
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/kernel/kernel.h"
#include "tests/unit/nvrtc.h"
#include "tests/unit/sdk/kernels.h"

#include "tc/cprint.h"

#define EXAMPLES TC_SOURCE_DIR "/examples/"

static void write_sb(void *self, const char *text, size_t size) { tc_sb_put(self, (tc_sv){text, size}); }

static const char *print_as(tc_arena *arena, const tc_kernel *k, const tc_cdialect *d) {
  tc_sb sb = tc_sb_make(arena);
  tc_sv reason = TC_SV("");
  if (tc_cprint(k, d, write_sb, &sb, &reason))
    fail_msg("cannot print @" TC_SV_FMT ": " TC_SV_FMT, TC_SV_ARG(tc_k_name(k)), TC_SV_ARG(reason));
  return sb.text;
}

// ---- CUDA ----

static void compile_cuda(tc_arena *arena, const nvrtc *n, const tc_kernel *k, bool no_stack) {
  tc_sv name = tc_k_name(k);
  compile_for_sm_90(arena, n, tc_sv_printf(arena, "@" TC_SV_FMT, TC_SV_ARG(name)).data,
                    print_as(arena, k, &tc_dialect_cuda), no_stack);
}

KERNEL_TEST(cuda) {
  nvrtc n;
  if (!open_nvrtc(&n)) {
    print_message("NVRTC is not installed\n");
    skip();
  }
  compile_cuda(arena, &n, legal(arena, example(arena, EXAMPLES "rows_filter.tc")), false);
  compile_cuda(arena, &n, legal(arena, example(arena, EXAMPLES "linear_relu_center.tc")), true);
  compile_cuda(arena, &n, build_rows_filter(arena, GROUPS), true);
  compile_cuda(arena, &n, misc(arena), true);
  for (int32_t i = 0; i < TYPES; i++) compile_cuda(arena, &n, everything(arena, all_types[i], 64), true);
}

KERNEL_TEST(large_shared_memory) {
  tc_kernel *k = kernel_of(arena, "kernel @large (%y : global f32)\n    blocks 1 lanes 32 {\n  shared %a : "
                                  "f32[10000]\n  shared %b : f64[1000]\n  lanes {\n    %l = lane\n    store %a[%l], "
                                  "1.0\n    store %b[%l], 2.0\n    %e = load %a[%l]\n    store %y[%l], %e\n  }\n}\n");
  const char *text = print_as(arena, k, &tc_dialect_cuda);
  assert_non_null(strstr(text, "  extern __shared__ __align__(128) unsigned char tc_shared[];\n  float *const m1_a = "
                               "(float *)(tc_shared + 0);\n  double *const m2_b = (double *)(tc_shared + 40064);\n"));
  assert_int_equal(tc_cprint_dynamic_shared(k, &tc_dialect_cuda), 40064 + 8064);
  assert_int_equal(tc_cprint_dynamic_shared(k, &tc_dialect_opencl), 0);
  nvrtc n;
  if (open_nvrtc(&n)) compile_cuda(arena, &n, k, true);
  // %a and %c are needed in the same phase (of the barriers), %b and %d too; %e in all three.
  k = kernel_of(
      arena,
      "kernel @phases (%y : global f32)\n    blocks 1 lanes 32 {\n  shared %a : f32[10000]\n  shared %b : "
      "f32[5000]\n  shared %c : f32[64]\n  shared %d : f32[64]\n  shared %e : f32[64]\n  lanes {\n    %l = lane\n"
      "    store %a[%l], 1.0\n    store %e[%l], 1.0\n    %v = load %a[%l]\n    store %c[%l], %v\n  }\n  barrier\n"
      "  lanes {\n    %m = lane\n    for %i = 0 to 4 {\n      store %b[%m], 1.0\n    }\n    store %d[%m], 3.0\n"
      "    %w = load %b[%m]\n    store %y[%m], %w\n  }\n  barrier\n  lanes {\n    %n = lane\n    %u = load %e[%n]\n"
      "    store %y[%n], %u\n  }\n}\n");
  text = print_as(arena, k, &tc_dialect_cuda);
  static const char *const places[] = {"m1_a = (float *)(tc_shared + 0)", "m2_b = (float *)(tc_shared + 0)",
                                       "m3_c = (float *)(tc_shared + 40064)", "m4_d = (float *)(tc_shared + 20096)",
                                       "m5_e = (float *)(tc_shared + 40320)"};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++)
    if (!strstr(text, places[i])) fail_msg("no '%s' in\n%s", places[i], text);
  assert_int_equal(tc_cprint_dynamic_shared(k, &tc_dialect_cuda), 40320 + 256);
}

KERNEL_TEST(cuda_text) {
  tc_kernel *k = kernel_of(arena, "kernel @scale (%x : global f32 readonly noalias align 16, %y : global f32 writeonly "
                                  "noalias align 16, %n : i32 in [0, inf] div 4)\n    blocks 1 lanes 128 {\n"
                                  "  %b = block\n  %s = mul %b, 512 nowrap\n  lanes {\n    %l = lane\n    %m = mul %l, "
                                  "4 nowrap\n    %i = add %s, %m nowrap\n    %ok = lt %i, %n\n"
                                  "    %a, %c, %d, %e = load.v4 %x[%i] if %ok else 0.0\n    %f = mul %a, 0.5\n    "
                                  "store.v4 %y[%i], %f, %c, %d, %e if %ok\n  }\n}\n");
  const char *text = strstr(print_as(arena, k, &tc_dialect_cuda), "extern");
  assert_string_equal(
      text, "extern \"C\" __global__ void __launch_bounds__(128) tc_kernel_scale(const float *__restrict__ m0_x, "
            "float *__restrict__ m1_y, const int s0_n, long long *errors) {\n"
            "  if (!tc_start()) return;\n"
            "  const int v0 = (int)blockIdx.x;\n"
            "  const int v2 = v0 * 512;\n"
            "  {\n"
            "    const int v3 = (int)threadIdx.x;\n"
            "    const int v5 = v3 * 4;\n"
            "    const int v6 = v2 + v5;\n"
            "    const bool v8 = v6 < s0_n;\n"
            "    float v13 = 0.0f;\n"
            "    float v14 = 0.0f;\n"
            "    float v15 = 0.0f;\n"
            "    float v16 = 0.0f;\n"
            "    if (v8) { const tc_vector<float, 4> t0 = *(const tc_vector<float, 4> *)(m0_x + v6); "
            "v13 = t0.v[0]; v14 = t0.v[1]; v15 = t0.v[2]; v16 = t0.v[3]; }\n"
            "    const float v18 = v13 * 0.5f;\n"
            "    if (v8) tc_store<float, 4>(m1_y + v6, v18, v14, v15, v16);\n"
            "  }\n"
            "}\n");
}

// ---- Products of tiles ----
static tc_kernel *products_of_tiles(tc_arena *arena) {
  return kernel_of(arena, "kernel @tiles (%x : global i32 readonly align 16, %y : global f32 align 16)\n    blocks 1 "
                          "lanes 64 {\n  lanes {\n    %l = lane\n    %m = mul %l, 4\n    %a, %b, %c, %d = load.v4 "
                          "%x[%m]\n    %p, %q, %r, %s = mma.bf16 %a, %b, %c, %d, %a, %b, 0.0, 0.0, 0.0, 0.0\n    %t, "
                          "%u, %v, %w = mma.f16 %d, %c, %b, %a, %c, 7, %p, %q, %r, %s\n    store.v4 %y[%m], %t, %u, "
                          "%v, %w\n  }\n}\n");
}

// ---- OpenCL ----

static bool have(const char *program) {
  char command[128];
  snprintf(command, sizeof command, "command -v %s >/dev/null 2>&1", program);
  return system(command) == 0;
}

static const char *scratch_file(tc_arena *arena, const char *suffix) {
  const char *folder = getenv("TMPDIR");
  return tc_sv_printf(arena, "%s/tc_cprint_%ld%s", folder ? folder : "/tmp", (long)getpid(), suffix).data;
}

// Every type and what examples need, as clang's front end reads it: as the standard that the plugin asks drivers for,
// as the latest one for the target that they make portable code for, and with what only some devices have.
KERNEL_TEST(opencl_syntax) {
  static const struct {
    uint32_t what;
    const char *options;
  } ways[] = {
      {0, "-fsyntax-only -cl-std=CL1.2 -Xclang -finclude-default-header"},
      {0, "-fsyntax-only -cl-std=CL3.0 -target spir64"},
      {TC_OPENCL_SUBGROUPS | TC_OPENCL_FP16, "-fsyntax-only -cl-std=CL3.0 -target spir64"},
      {TC_OPENCL_NVIDIA | TC_OPENCL_TILES,
       "-S -O1 -o /dev/null -cl-std=CL1.2 -Xclang -cl-ext=+cl_khr_int64_base_atomics -target nvptx64-nvidia-cuda "
       "-Xclang -target-feature -Xclang +ptx70 -Xclang -target-cpu -Xclang sm_80"},
      {TC_OPENCL_NVIDIA, "-S -O1 -o /dev/null -cl-std=CL1.2 -Xclang -cl-ext=+cl_khr_int64_base_atomics -target "
                         "nvptx64-nvidia-cuda -Xclang "
                         "-target-feature -Xclang +ptx60 -Xclang -target-cpu -Xclang sm_70"}};
  const char *clang = have("clang-19") ? "clang-19" : have("clang") ? "clang" : NULL;
  if (!clang) skip();
  enum { OTHERS = 3 };
  tc_kernel *by_tiles = products_of_tiles(arena);
  tc_kernel *kernels[TYPES + OTHERS] = {legal(arena, example(arena, EXAMPLES "rows_filter.tc")),
                                        legal(arena, example(arena, EXAMPLES "linear_relu_center.tc")), misc(arena)};
  for (int32_t i = 0; i < TYPES; i++) kernels[OTHERS + i] = everything(arena, all_types[i], 64);
  const char *file = scratch_file(arena, ".cl");
  for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
    for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
      tc_cdialect dialect;
      tc_dialect_opencl_with(ways[k].what, &dialect);
      const char *text = print_as(arena, i == 2 && dialect.mma_bf16 ? by_tiles : kernels[i], &dialect);
      CHECK_OK(tc_file_write(file, text, strlen(text)));
      const char *command =
          tc_sv_printf(arena, "%s -x cl %s -Wall -Wno-unused-variable -Wno-unused-but-set-variable -Werror %s", clang,
                       ways[k].options, file)
              .data;
      if (system(command)) fail_msg("clang refuses with %s:\n%s", ways[k].options, text);
    }
  }
  unlink(file);
}

// Where the dialect has none they are refused by name.
KERNEL_TEST(tiles) {
  tc_kernel *k = products_of_tiles(arena);
  tc_cdialect dialect;
  tc_sb sb = tc_sb_make(arena);
  tc_sv reason = TC_SV("");
  tc_dialect_opencl_with(TC_OPENCL_NVIDIA, &dialect);
  assert_int_equal(tc_cprint(k, &dialect, write_sb, &sb, &reason), TC_STATUS_UNIMPLEMENTED);
  assert_true(tc_sv_is(reason, "mma.bf16"));
  const char *text = print_as(arena, k, &tc_dialect_cuda);
  if (!strstr(text, "    float v14;\n    tc_mma_bf16(v11, v12, v13, v14, v3, v4, v5, v6, v3, v4, 0.0f, 0.0f, 0.0f, "
                    "0.0f);\n"))
    fail_msg("%s", text);
  nvrtc n;
  if (open_nvrtc(&n)) compile_cuda(arena, &n, k, true);
}

// Tables whose numbers come later: a first one is printed, and every load says what the declaration cannot.
KERNEL_TEST(blank_tables) {
  tc_kernel *k = kernel_of(arena, "kernel @k (%y : global f32 noalias) blocks 1 lanes 2 {\n"
                                  "  table %w : f32 = [0.5, -2.0, 3.25, 1.0, 7.0, 8.0]\n  lanes {\n    %l = lane\n"
                                  "    %i = mul %l, 2 nowrap\n    %a, %b = load.v2 %w[%i]\n    %c = load %w[3]\n"
                                  "    %j = add %i, 1 nowrap\n    %d, %e = load.v2 %w[%j]\n    %f = add %a, %b\n"
                                  "    %g = add %c, %d\n    %h = add %e, %f\n    %m = add %g, %h\n"
                                  "    store %y[%l], %m\n  }\n}\n");
  tc_cdialect d = tc_dialect_cuda;
  d.table = "__device__", d.table_load = "one($p)", d.table_vector_load = "const two<$w> $n = all($p)";
  const char *text = print_as(arena, k, &d);
  static const char *const wanted[] = {"__device__ float m1_w[6] __attribute__((aligned(64))) = {1};",
                                       " = all(m1_w + v", "one(m1_w + 3)", " + 1)"};
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
    if (!strstr(text, wanted[i])) fail_msg("no '%s' in\n%s", wanted[i], text);
  if (strstr(text, "3.25") || strstr(text, "m1_w[v") || strstr(text, "*)(m1_w")) fail_msg("%s", text);
  tc_sb name = tc_sb_make(arena);
  assert_int_equal(tc_cprint_memory(k, 1, write_sb, &name), 24);
  assert_string_equal(name.text, "m1_w");
}

static void expect_texts(tc_arena *arena, uint32_t what, tc_dtype t, const char *const *wanted) {
  tc_cdialect dialect;
  tc_dialect_opencl_with(what, &dialect);
  const char *text = print_as(arena, everything(arena, t, 64), &dialect);
  for (; *wanted; wanted++)
    if (!strstr(text, *wanted)) fail_msg("no '%s' in\n%s", *wanted, text);
}

// Reductions: without subgroups by halves, with them by shuffles and one value of each, whose number the dialect knows
// or only the running kernel; 16-bit floats by the device's own conversions.
KERNEL_TEST(opencl_variants) {
  expect_texts(arena, 0, TC_F32,
               (const char *const[]){"for (int i = 32; i > 0; i /= 2) {", "float scratch12[64];", NULL});
  expect_texts(arena, TC_OPENCL_NVIDIA, TC_F32,
               (const char *const[]){", 16);", "= tc_shuffle_xor(v", "if ((int)get_local_id(0) % 32 == 0) scratch12[",
                                     "for (int i = 1; i < 2; i++) {", "float scratch12[2];", NULL});
  expect_texts(arena, TC_OPENCL_SUBGROUPS, TC_F32,
               (const char *const[]){"for (int d = (int)get_sub_group_size() / 2; d > 0; d /= 2) {",
                                     "= sub_group_shuffle_xor(v", "(uint)(d));",
                                     "if (get_sub_group_local_id() == 0) scratch12[get_sub_group_id()] = v",
                                     "for (int i = 1; i < (int)get_num_sub_groups(); i++) {", NULL});
  expect_texts(arena, 0, TC_F16, (const char *const[]){"tc_from_f16(v", NULL});
  expect_texts(arena, TC_OPENCL_FP16, TC_F16, (const char *const[]){"tc_half_load(v", NULL});
}

// ---- C99: run what is printed ----

#define BOTH(name) {"__builtin_" name "f($0)", "__builtin_" name "($0)"}
static const tc_cdialect c99 = {
    .prologue = "typedef __INT8_TYPE__ i8; typedef __INT16_TYPE__ i16; typedef __INT32_TYPE__ i32; typedef "
                "__INT64_TYPE__ i64;\n"
                "typedef __UINT8_TYPE__ u8; typedef __UINT16_TYPE__ u16; typedef __UINT32_TYPE__ u32; typedef "
                "__UINT64_TYPE__ u64;\n"
                "static i32 bits_f(float f) { i32 i; __builtin_memcpy(&i, &f, 4); return i; }\nstatic float f_bits(i32 "
                "i) { float f; __builtin_memcpy(&f, &i, 4); return f; }\n"
                "static i64 bits_d(double f) { i64 i; __builtin_memcpy(&i, &f, 8); return i; }\nstatic double "
                "d_bits(i64 i) { double f; __builtin_memcpy(&f, &i, 8); return f; }\n",
    .kernel_prefix = "void",
    .restrict_ = "restrict",
    .block = "block",
    .lane = "0",
    .barrier = ";",
    .errors = "const int block",
    .type_names = {[TC_BOOL] = "_Bool",
                   [TC_U8] = "u8",
                   [TC_I8] = "i8",
                   [TC_I16] = "i16",
                   [TC_I32] = "i32",
                   [TC_I64] = "i64",
                   [TC_U16] = "u16",
                   [TC_U32] = "u32",
                   [TC_U64] = "u64",
                   [TC_F32] = "float",
                   [TC_F64] = "double"},
    .op_formats = {[TC_K_FMA] = {"__builtin_fmaf($0, $1, $2)", "__builtin_fma($0, $1, $2)"},
                   [TC_K_SQRT] = BOTH("sqrt"),
                   [TC_K_ABS] = BOTH("fabs"),
                   [TC_K_FLOOR] = BOTH("floor"),
                   [TC_K_CEIL] = BOTH("ceil"),
                   [TC_K_TRUNC] = BOTH("trunc"),
                   [TC_K_RINT] = BOTH("rint"),
                   [TC_K_COPYSIGN] = {"__builtin_copysignf($0, $1)", "__builtin_copysign($0, $1)"},
                   [TC_K_MULHI] = {NULL, "(u64)((unsigned __int128)(u64)$0 * (u64)$1 >> 64)"}},
    .bitcast_f32_i32 = "bits_f($0)",
    .bitcast_i32_f32 = "f_bits($0)",
    .bitcast_f64_i64 = "bits_d($0)",
    .bitcast_i64_f64 = "d_bits($0)"};

// Runs (%x, %y, %n) of type t for each block as C99 and compares y with the interpreter's, bit for bit.
static void run_as_c99(tc_arena *arena, const tc_kernel *k, tc_dtype t) {
  enum { BLOCKS = 400 };
  const char *file = scratch_file(arena, ".c"), *library = scratch_file(arena, ".so"), *text = print_as(arena, k, &c99);
  CHECK_OK(tc_file_write(file, text, strlen(text)));
  if (system(tc_sv_printf(arena,
                          "cc -std=gnu11 -O1 -w -fno-strict-aliasing -ffp-contract=off -shared -fPIC -o %s %s -lm",
                          library, file)
                 .data))
    fail_msg("cc refuses:\n%s", text);
  void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!handle) fail_msg("%s", dlerror());
  void (*run)(const void *x, void *y, int32_t n, int32_t block);
  *(void **)&run = dlsym(handle, tc_sv_printf(arena, TC_SV_FMT, TC_SV_ARG(tc_k_name(k))).data);
  uint8_t x[8 * (BLOCKS + 8)] = {0}, y1[8 * BLOCKS] = {0}, y2[8 * BLOCKS] = {0};
  int32_t size = tc_dtype_size(t);
  for (int32_t e = 0; e < BLOCKS + 8; e++)
    tc_kir_write(t, x + e * size,
                 tc_dtype_is_float(t) ? (tc_knum){.re = (rand() % 2001 - 1000) * 0.01}
                                      : tc_kir_int(t, (int64_t)rand() * rand() - (int64_t)rand() * rand()));
  tc_karg args[3] = {{.data = x, .count = BLOCKS + 8}, {.data = y1, .count = BLOCKS}, {.bits = BLOCKS}};
  CHECK_OK(tc_kernel_interpret(tc_system_allocator(), k, BLOCKS, args, 3, NULL));
  for (int32_t b = 0; b < BLOCKS; b++) run(x, y2, BLOCKS, b);
  for (int32_t e = 0; e < BLOCKS; e++) {
    tc_knum want = tc_kir_read(t, y1 + e * size), got = tc_kir_read(t, y2 + e * size);
    bool nan = tc_dtype_is_float(t) && want.re != want.re && got.re != got.re;
    if (!nan && memcmp(y1 + e * size, y2 + e * size, (size_t)size))
      fail_msg("%s, block %d: %.17g, interpreter %.17g (%lld, %lld) in\n%s", tc_dtype_name(t), (int)e, got.re, want.re,
               (long long)got.i, (long long)want.i, text);
  }
  dlclose(handle);
  unlink(file);
  unlink(library);
}

KERNEL_TEST(c99_equals_interpreter) {
  if (!have("cc")) skip();
  for (int32_t i = 0; i < TYPES; i++) {
    tc_dtype t = all_types[i];
    if (t != TC_F16 && t != TC_BF16) run_as_c99(arena, everything(arena, t, 1), t); // the dialect has no conversions
  }
}

// ---- What only one side of a select needs ----
static tc_kval chain(tc_kb *b, tc_kval v, int32_t n) {
  for (int32_t i = 0; i < n; i++)
    v = tc_kb_op3(b, TC_K_FMA, v, tc_kb_real(b, TC_F32, 1.0 + i), tc_kb_real(b, TC_F32, 0.25));
  return v;
}
static tc_kval compare(tc_kb *b, int32_t op, tc_kval x, double c) {
  return tc_kb_op2(b, op, x, tc_kb_real(b, TC_F32, c));
}
static tc_kval choose(tc_kb *b, tc_kval c, tc_kval x, tc_kval y) { return tc_kb_op3(b, TC_K_SELECT, c, x, y); }

static tc_kval unless(tc_kb *b, tc_kval usual, tc_kval x, tc_kval other, int32_t flags) {
  tc_kb_set_flags(b, flags);
  tc_kval r = choose(b, usual, x, other);
  tc_kb_set_flags(b, 0);
  return r;
}

// Two selects by one condition, whose last operands share long work, in which there is another; `used`: the work is
// needed beside the selects, too. `often`: nobody says that the two are rare.
static tc_kernel *rare(tc_arena *arena, bool used, bool often) {
  tc_kb *b = tc_kb_create(arena, TC_SV("rare"), 1);
  tc_kmem x = tc_kb_global(b, TC_SV("x"), TC_F32, TC_MEM_READONLY, 16);
  tc_kmem y = tc_kb_global(b, TC_SV("y"), TC_F32, TC_MEM_WRITEONLY, 16);
  tc_kb_scalar(b, TC_SV("n"), TC_I32, 0, INT32_MAX, 1);
  tc_kval block = tc_kb_block(b);
  tc_kb_lanes(b);
  tc_kval i = tc_kb_op2(b, TC_K_ADD, block, tc_kb_lane(b)), v = tc_kb_load1(b, x, i, -1, -1);
  tc_kval deep = chain(b, v, 20), far = chain(b, unless(b, compare(b, TC_K_LE, v, 8), v, deep, TC_KI_RARE), 18);
  tc_kval one = chain(b, far, 1), two = tc_kb_op1(b, TC_K_NEG, far);
  tc_kval c = tc_kb_op2(b, TC_K_AND, compare(b, TC_K_LE, v, 2), compare(b, TC_K_GE, v, -7));
  int32_t flags = often ? 0 : TC_KI_RARE;
  tc_kval sum = tc_kb_op2(b, TC_K_ADD, unless(b, c, v, one, flags), unless(b, c, v, two, flags));
  if (used) sum = tc_kb_op2(b, TC_K_ADD, sum, far);
  tc_kb_store(b, y, i, 1, &sum, -1);
  tc_kb_end_lanes(b, 0, NULL, NULL);
  tc_kernel *k;
  CHECK_OK(tc_kb_finish(b, &k));
  return legal(arena, k);
}

static int32_t count_of(const char *text, const char *what) {
  int32_t n = 0;
  for (const char *at = strstr(text, what); at; at = strstr(at + 1, what)) n++;
  return n;
}

KERNEL_TEST(rare_sides_are_left_out) {
  if (!have("cc")) skip();
  static const int32_t branches[] = {2, 1, 1, 1}; // by: the work is needed elsewhere, too; nobody says rare
  for (int32_t way = 0; way < 4; way++) {
    tc_kernel *k = rare(arena, way & 1, way & 2);
    const char *text = print_as(arena, k, &c99);
    if (count_of(text, "if (") != branches[way]) fail_msg("%d: not %d branches in\n%s", way, branches[way], text);
    run_as_c99(arena, k, TC_F32);
  }
  // Nothing of the work stands in front of the branch, and both selects take their sides in it.
  const char *text = print_as(arena, rare(arena, false, false), &c99), *branch = strstr(text, "if (");
  int32_t before = 0;
  for (const char *at = strstr(text, "__builtin_fmaf("); at && at < branch; at = strstr(at + 1, "__builtin_fmaf("))
    before++;
  assert_int_equal(before, 0);
}

KERNEL_TEST(refusals) {
  tc_cdialect poor = c99;
  tc_sv reason = TC_SV("");
  tc_sb sb = tc_sb_make(arena);
  tc_kernel *k = misc(arena);
  assert_int_equal(tc_cprint(k, &poor, write_sb, &sb, &reason), TC_STATUS_UNIMPLEMENTED);
  assert_true(reason.size > 0);
  poor.type_names[TC_F64] = NULL;
  assert_int_equal(tc_cprint(everything(arena, TC_F64, 1), &poor, write_sb, &sb, &reason), TC_STATUS_UNIMPLEMENTED);
  assert_true(tc_sv_is(reason, "a type that the device does not have"));
}

// ---- Names ----
// A kernel may be called as any op is ("max"), so no helper's name may begin as kernels' do.
static void expect_other_names(const tc_cdialect *d) {
  const char *texts[] = {d->prologue, d->more[0], d->more[1], d->more[2]};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    assert_null(texts[i] ? strstr(texts[i], d->name_prefix) : NULL);
}

KERNEL_TEST(helpers_have_other_names) {
  const uint32_t all = TC_OPENCL_SUBGROUPS | TC_OPENCL_FP16 | TC_OPENCL_NVIDIA | TC_OPENCL_TILES;
  (void)arena;
  expect_other_names(&tc_dialect_cuda);
  for (uint32_t what = 0; what <= all; what++) {
    tc_cdialect d;
    tc_dialect_opencl_with(what, &d);
    expect_other_names(&d);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(cuda),
                                     cmocka_unit_test(cuda_text),
                                     cmocka_unit_test(large_shared_memory),
                                     cmocka_unit_test(opencl_syntax),
                                     cmocka_unit_test(opencl_variants),
                                     cmocka_unit_test(c99_equals_interpreter),
                                     cmocka_unit_test(tiles),
                                     cmocka_unit_test(blank_tables),
                                     cmocka_unit_test(refusals),
                                     cmocka_unit_test(rare_sides_are_left_out),
                                     cmocka_unit_test(helpers_have_other_names)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
