// Times hand-written kernels on the cpu plugin: compile time, a pointwise kernel, register tiles of a matrix product.
// Not a test: prints numbers. time_kernels [asm FILE] also writes the listing of each kernel.
#include "rig.h"

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static double best_of(rig *r, const tc_launch *l, int32_t runs) {
  double best = 1e30;
  for (int32_t i = 0; i < runs; i++) {
    double t = now_us();
    if (r->plugin.device->launch(r->device, 0, l) != TC_STATUS_OK) fail_msg("%s", r->diag);
    t = now_us() - t;
    if (t < best) best = t;
  }
  return best;
}

static const char *listing_folder;

static rig_function timed_load(rig *r, const tc_kernel *k, const char *what) {
  rig_blob code, text = {0};
  double t = now_us();
  if (rig_compile(r, &k, 1, &code, NULL) != TC_STATUS_OK) fail_msg("%s", r->diag);
  double first = now_us() - t, best = 1e30;
  free(code.data);
  for (int32_t i = 0; i < 5; i++) {
    t = now_us();
    if (rig_compile(r, &k, 1, &code, NULL) != TC_STATUS_OK) fail_msg("%s", r->diag);
    t = now_us() - t;
    if (t < best) best = t;
    if (i < 4) free(code.data);
  }
  rig_function f;
  double load = now_us();
  if (r->plugin.device->module_load(r->device, code.data, code.size, &f.module) != TC_STATUS_OK)
    fail_msg("%s", r->diag);
  load = now_us() - load;
  if (r->plugin.device->function(r->device, f.module, tc_k_name(k), &f.function) != TC_STATUS_OK)
    fail_msg("%s", r->diag);
  printf("%-28s %-7s compile %7.2f ms (first %7.2f), object %6zu bytes, load %5.1f us\n", what, r->isa, best / 1e3,
         first / 1e3, code.size, load);
  free(code.data);
  if (listing_folder) {
    char path[400];
    if (rig_compile(r, &k, 1, &code, &text) != TC_STATUS_OK) fail_msg("%s", r->diag);
    snprintf(path, sizeof path, "%s/%s.%s.s", listing_folder, what, r->isa);
    FILE *out = fopen(path, "w");
    if (out) fwrite(text.data, 1, text.size, out), fclose(out);
    free(code.data);
    free(text.data);
  }
  return f;
}

static tc_launch_arg mem(const void *p) { return (tc_launch_arg){.kind = TC_ARG_MEMORY, .value = (uintptr_t)p}; }
static tc_launch_arg num(int32_t v) {
  return (tc_launch_arg){.kind = TC_ARG_SCALAR, .bytes = 4, .value = (uint64_t)(int64_t)v};
}

static tc_status pointwise(tc_arena *arena, rig *r, int32_t lanes, int32_t n, bool masked, bool stream) {
  tc_sb sb = tc_sb_make(arena);
  tc_sb_printf(&sb,
               "kernel @pointwise (%%x : global f32 readonly noalias align 64, %%y : global f32 readonly noalias align "
               "64, %%o : global f32 noalias %s align 64, %%n : i32) blocks 1 lanes %d {\n"
               "  %%b = block\n  %%from = mul %%b, 4096\n  %%end = add %%from, 4096\n  %%to = min %%end, %%n\n  lanes "
               "{\n    %%l = lane\n    for %%j = %%from to %%to step %d {\n    %%i = add %%j, %%l\n"
               "    %s\n    %%a = load %%x[%%i]%s\n    %%c = load %%y[%%i]%s\n    %%p = mul %%a, %%c\n    %%q = fma "
               "%%p, %%a, 0.5\n    %%z = max %%q, 0.0\n    store %%o[%%i], %%z%s\n  }\n  }\n}\n",
               stream ? "stream" : "", lanes, lanes, masked ? "%m = lt %i, %to" : "", masked ? " if %m else 0.0" : "",
               masked ? " if %m else 0.0" : "", masked ? " if %m" : "");
  const tc_kernel *k;
  TC_TRY(rig_parse(arena, (tc_sv){sb.text, strlen(sb.text)}, &k));
  char what[64];
  snprintf(what, sizeof what, "pointwise_l%d%s%s", lanes, masked ? "_masked" : "", stream ? "_stream" : "");
  rig_function f = timed_load(r, k, what);
  float *x = rig_alloc(NULL, (uint64_t)n * 4), *y = rig_alloc(NULL, (uint64_t)n * 4),
        *o = rig_alloc(NULL, (uint64_t)n * 4);
  for (int32_t i = 0; i < n; i++) x[i] = (float)i, y[i] = 1, o[i] = 0;
  tc_launch_arg args[] = {mem(x), mem(y), mem(o), num(n)};
  tc_launch l = {.struct_size = sizeof l,
                 .function = f.function,
                 .blocks = (n + 4095) / 4096,
                 .grain = 1 << 30,
                 .args = args,
                 .n_args = 4};
  double t = best_of(r, &l, n > 1 << 20 ? 20 : 3000);
  printf("    n = %9d: %9.2f us, %6.1f GB/s\n", n, t, 12.0 * n / t / 1e3);
  rig_free(NULL, x), rig_free(NULL, y), rig_free(NULL, o);
  return TC_OK;
}

// Bodies of a loop whose %i is the index of a lane's first element; per: elements of x per lane and round.
static const struct pattern {
  const char *name;
  int32_t lanes, per;
  const char *body;
} patterns[] = {
    {"complex_mul", 16, 2,
     "%p = mul %i, 2\n%a, %b1 = load.v2 %x[%p]\n%c, %d = load.v2 %y[%p]\n%e = mul %b1, %d\n%nf = neg %e\n%g = fma %a, "
     "%c, %nf\n%h = mul %a, %d\n%k = fma %b1, %c, %h\nstore.v2 %o[%p], %g, %k\n"},
    {"complex_mul", 32, 2,
     "%p = mul %i, 2\n%a, %b1 = load.v2 %x[%p]\n%c, %d = load.v2 %y[%p]\n%e = mul %b1, %d\n%nf = neg %e\n%g = fma %a, "
     "%c, %nf\n%h = mul %a, %d\n%k = fma %b1, %c, %h\nstore.v2 %o[%p], %g, %k\n"},
    {"strided2", 16, 2, "%p = mul %i, 2\n%a = load %x[%p]\nstore %o[%p], %a\n"},
    {"strided3", 16, 3, "%p = mul %i, 3\n%a = load %x[%p]\nstore %o[%i], %a\n"},
    {"pixels3", 16, 3,
     "%p = mul %i, 3\n%a, %b1, %c = load.v3 %x[%p]\n%s = add %a, %b1\nstore.v3 %o[%p], %s, %b1, %c\n"},
    {"reversed", 16, 1, "%p = sub 8191, %i\n%a = load %x[%p]\nstore %o[%i], %a\n"},
    {"gather", 16, 1,
     "%v = bitcast %i : i32\n%q = mul %v, 77\n%p = and %q, 8191\n%a = load %x[%p]\nstore %o[%i], %a\n"},
    {"scatter", 16, 1, "%q = mul %i, 77\n%p = and %q, 8191\n%a = load %x[%i]\nstore %o[%p], %a\n"},
    {"column_read", 16, 1,
     "%q = and %i, 63\n%r = shr %i, 6\n%p = fma %q, 128, %r\n%a = load %x[%p]\nstore %o[%i], %a\n"},
    {"transpose4", 16, 4,
     "%p = mul %l, 64\n%f = shr %j, 4\n%g = mul %f, 4\n%t = add %p, %g\n%a, %b1, %c, %d = load.v4 %x[%t]\n%q = fma %f, "
     "64, %l\n%q1 = add %q, 16\n%q2 = add %q, 32\n%q3 = add %q, 48\nstore %o[%q], %a\nstore %o[%q1], %b1\nstore "
     "%o[%q2], %c\nstore %o[%q3], %d\n"},
    {"transpose16", 16, 16,
     "%p = mul %l, 512\n%f = shr %j, 4\n%g = mul %f, 16\n%t = add %p, %g\n%a0, %a1, %a2, %a3, %a4, %a5, %a6, %a7, %a8, "
     "%a9, %a10, %a11, %a12, %a13, %a14, %a15 = load.v16 %x[%t]\n%q = mul %f, 16\n%u = fma %q, 16, %l\nstore %o[%u], "
     "%a0\n"
     "%u1 = add %u, 16\nstore %o[%u1], %a1\n%u2 = add %u, 32\nstore %o[%u2], %a2\n%u3 = add %u, 48\nstore %o[%u3], "
     "%a3\n%u4 = add %u, 64\nstore %o[%u4], %a4\n%u5 = add %u, 80\nstore %o[%u5], %a5\n%u6 = add %u, 96\nstore "
     "%o[%u6], %a6\n%u7 = add %u, 112\nstore %o[%u7], %a7\n"
     "%u8 = add %u, 128\nstore %o[%u8], %a8\n%u9 = add %u, 144\nstore %o[%u9], %a9\n%u10 = add %u, 160\nstore "
     "%o[%u10], %a10\n%u11 = add %u, 176\nstore %o[%u11], %a11\n%u12 = add %u, 192\nstore %o[%u12], %a12\n%u13 = add "
     "%u, 208\nstore %o[%u13], %a13\n%u14 = add %u, 224\nstore %o[%u14], %a14\n%u15 = add %u, 240\nstore %o[%u15], "
     "%a15\n"},
    {"division", 16, 1, "%q = div %i, %n\n%r = rem %i, %n\n%s = add %q, %r\n%v = cast %s : f32\nstore %o[%i], %v\n"},
    {"exp", 16, 1, "%a = load %x[%i]\n%b1 = exp %a\nstore %o[%i], %b1\n"},
    {"exp", 64, 1, "%a = load %x[%i]\n%b1 = exp %a\nstore %o[%i], %b1\n"},
    {"tanh", 32, 1, "%a = load %x[%i]\n%b1 = tanh %a\nstore %o[%i], %b1\n"},
    {"erf", 32, 1, "%a = load %x[%i]\n%b1 = erf %a\nstore %o[%i], %b1\n"},
    {"sin", 32, 1, "%a = load %x[%i]\n%b1 = sin %a\nstore %o[%i], %b1\n"},
    {"pow", 32, 1, "%a = load %x[%i]\n%c = load %y[%i]\n%b1 = pow %a, %c\nstore %o[%i], %b1\n"},
};

static tc_status one_pattern(tc_arena *arena, rig *r, const struct pattern *p) {
  tc_sb sb = tc_sb_make(arena);
  enum { ELEMENTS = 8192 };
  int32_t n = ELEMENTS / p->per;
  tc_sb_printf(&sb,
               "kernel @%s (%%x : global f32 readonly noalias align 64, %%y : global f32 readonly noalias align 64, "
               "%%o : global f32 noalias align 64, %%n : i32) blocks 1 lanes %d {\n  lanes {\n    %%l = lane\n    for "
               "%%j = 0 to %%n step %d {\n    %%i = add %%j, %%l\n%s  }\n  }\n}\n",
               p->name, p->lanes, p->lanes, p->body);
  tc_lexer lx;
  tc_kernel *k, *plain;
  tc_lex_init(&lx, arena, TC_SV("pattern"), (tc_sv){sb.text, strlen(sb.text)});
  TC_TRY(tc_kernel_parse(arena, &lx, &k), "in %s", p->name);
  TC_TRY(tc_kernel_legalise(arena, k, 32, &plain));
  TC_TRY(tc_kernel_simplify(arena, plain, &plain));
  char what[64];
  snprintf(what, sizeof what, "%s_l%d", p->name, p->lanes);
  rig_function f = timed_load(r, plain, what);
  float *x = rig_alloc(NULL, ELEMENTS * 4 + 4096), *y = rig_alloc(NULL, ELEMENTS * 4 + 4096),
        *o = rig_alloc(NULL, ELEMENTS * 4 + 4096);
  for (int32_t i = 0; i < ELEMENTS; i++) x[i] = (float)(i % 100) / 20, y[i] = (float)(i % 7) / 3;
  tc_launch_arg args[] = {mem(x), mem(y), mem(o), num(n)};
  tc_launch l = {.struct_size = sizeof l, .function = f.function, .blocks = 1, .args = args, .n_args = 4};
  double t = best_of(r, &l, 2000);
  printf("    %7.2f us for %d lanes: %6.2f ns per 16 elements\n", t, n, t * 1e3 / (ELEMENTS / 16));
  rig_free(NULL, x), rig_free(NULL, y), rig_free(NULL, o);
  return TC_OK;
}

// c[rows, lanes·1] += a[k][rows] · b[k][lanes·vecs]: `rows` broadcasts and `vecs` loads per step.
static tc_status gemm(tc_arena *arena, rig *r, int32_t rows, int32_t lanes, int32_t unroll, int32_t kk) {
  tc_sb sb = tc_sb_make(arena);
  tc_sb_printf(&sb,
               "kernel @gemm (%%a : global f32 readonly noalias align 64, %%b : global f32 readonly noalias align 64, "
               "%%c : global f32 noalias align 64, %%kk : i32, %%mt : i32) blocks 1 lanes %d {\n"
               "  %%t = block\n  %%ti = rem %%t, %%mt\n  %%tj = div %%t, %%mt\n  %%a0 = mul %%ti, %%kk\n  %%a1 = mul "
               "%%a0, %d\n  %%b0 = mul %%tj, %%kk\n  %%b1 = mul %%b0, %d\n"
               "  lanes {\n    %%l = lane\n    ",
               lanes, rows, lanes);
  for (int32_t i = 0; i < rows; i++) tc_sb_printf(&sb, "%s%%r%d", i ? ", " : "", i);
  tc_sb_printf(&sb, " = for %%k = 0 to %%kk step %d (", unroll);
  for (int32_t i = 0; i < rows; i++) tc_sb_printf(&sb, "%s%%s0_%d = 0.0 : f32", i ? ", " : "", i);
  tc_sb_printf(&sb, ") {\n");
  for (int32_t u = 0; u < unroll; u++) {
    tc_sb_printf(&sb,
                 "      %%k%d = add %%k, %d\n      %%bk%d = fma %%k%d, %d, %%b1\n      %%bi%d = add %%bk%d, %%l\n      "
                 "%%bv%d = load %%b[%%bi%d]\n      %%ai%d = fma %%k%d, %d, %%a1\n      ",
                 u, u, u, u, lanes, u, u, u, u, u, u, rows);
    for (int32_t i = 0; i < rows; i++) tc_sb_printf(&sb, "%s%%x%d_%d", i ? ", " : "", u, i);
    tc_sb_printf(&sb, " = load.v%d %%a[%%ai%d]\n", rows, u);
    for (int32_t i = 0; i < rows; i++)
      tc_sb_printf(&sb, "      %%s%d_%d = fma %%x%d_%d, %%bv%d, %%s%d_%d\n", u + 1, i, u, i, u, u, i);
  }
  tc_sb_printf(&sb, "      yield ");
  for (int32_t i = 0; i < rows; i++) tc_sb_printf(&sb, "%s%%s%d_%d", i ? ", " : "", unroll, i);
  tc_sb_printf(&sb, "\n    }\n    %%c0 = mul %%t, %d\n    %%c1 = add %%c0, %%l\n", rows * lanes);
  for (int32_t i = 0; i < rows; i++)
    tc_sb_printf(&sb, "    %%ci%d = add %%c1, %d\n    store %%c[%%ci%d], %%r%d\n", i, i * lanes, i, i);
  tc_sb_printf(&sb, "  }\n}\n");
  const tc_kernel *k;
  TC_TRY(rig_parse(arena, (tc_sv){sb.text, strlen(sb.text)}, &k));
  char what[64];
  snprintf(what, sizeof what, "gemm_%dx%d_u%d", rows, lanes, unroll);
  rig_function f = timed_load(r, k, what);
  int32_t mt = 24 / 1, nt = 4; // 24 row tiles (A in L2), 4 column tiles
  float *a = rig_alloc(NULL, (uint64_t)(mt * rows * kk) * 4), *b = rig_alloc(NULL, (uint64_t)(nt * lanes * kk) * 4),
        *c = rig_alloc(NULL, (uint64_t)(mt * nt * rows * lanes) * 4);
  for (int32_t i = 0; i < mt * rows * kk; i++) a[i] = 1;
  for (int32_t i = 0; i < nt * lanes * kk; i++) b[i] = (float)(i % 3);
  tc_launch_arg args[] = {mem(a), mem(b), mem(c), num(kk), num(mt)};
  tc_launch l = {
      .struct_size = sizeof l, .function = f.function, .blocks = mt * nt, .grain = 1 << 30, .args = args, .n_args = 5};
  double t = best_of(r, &l, 2000);
  printf("    k = %d: %9.2f us, %6.1f GF/s\n", kk, t, 2.0 * rows * lanes * kk * mt * nt / t / 1e3);
  rig_free(NULL, a), rig_free(NULL, b), rig_free(NULL, c);
  return TC_OK;
}

static tc_status all(void *arg) {
  tc_arena *arena = arg;
  static rig r;
  static const int32_t wide[][2] = {{6, 64}, {5, 80}, {8, 48}, {9, 48}, {4, 96}, {12, 32}, {14, 32}, {28, 16}, {7, 64}};
  static const int32_t narrow[][2] = {{6, 16}, {4, 24}, {3, 32}, {12, 8}, {5, 16}, {4, 16}};
  for (int32_t i = 0; i < RIG_ISAS; i++) {
    if (!rig_open(&r, rig_isas[i])) continue;
    for (size_t p = 0; p < sizeof patterns / sizeof *patterns; p++) TC_TRY(one_pattern(arena, &r, &patterns[p]));
    for (int32_t lanes = 8; lanes <= 64; lanes *= 2) TC_TRY(pointwise(arena, &r, lanes, 4096 * 2, false, false));
    TC_TRY(pointwise(arena, &r, 16, 4096 * 2, true, false));
    TC_TRY(pointwise(arena, &r, 64, 4096 * 2, true, false));
    TC_TRY(pointwise(arena, &r, 32, 1 << 24, false, false));
    TC_TRY(pointwise(arena, &r, 32, 1 << 24, false, true));
    TC_TRY(pointwise(arena, &r, 32, 1 << 24, true, true));
    const int32_t(*tiles)[2] = i ? narrow : wide;
    int32_t n = i ? (int32_t)(sizeof narrow / sizeof *narrow) : (int32_t)(sizeof wide / sizeof *wide);
    for (int32_t t = 0; t < n; t++)
      for (int32_t u = 1; u <= 4; u *= 4) TC_TRY(gemm(arena, &r, tiles[t][0], tiles[t][1], u, 256));
  }
  return TC_OK;
}

int main(int argc, char **argv) {
  tc_arena *arena;
  if (argc > 2 && strcmp(argv[1], "asm") == 0) listing_folder = argv[2];
  tc_status s = tc_arena_create(tc_system_allocator(), &arena);
  if (!s) s = tc_arena_guard(arena, all, arena);
  if (s) printf("%s\n", tc_status_text(s));
  tc_arena_destroy(arena);
  return s != TC_OK;
}
