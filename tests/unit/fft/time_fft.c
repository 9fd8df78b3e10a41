// Times transforms and filters of rows on the cpu plugin. Not a test: prints numbers.
//   fft_time [fft|filter] N ROWS [THREADS [LISTING]]
#include "tests/unit/cpu/rig.h"
#include "tests/unit/fft/fft_test.h"

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

typedef struct job {
  const char *what, *listing;
  int64_t n, rows;
  int32_t threads;
} job;
static job asked;

static tc_status time_one(tc_arena *arena) {
  rig r;
  if (!rig_open(&r, "")) return TC_OK;
  TC_TRY(tc_executor_openmp(asked.threads, &r.executor));
  tc_device_props props = {.struct_size = sizeof props};
  r.plugin.device->properties(r.device, &props);
  bool filter = strcmp(asked.what, "filter") == 0;
  long long n = asked.n, m = asked.rows;
  tc_sv text = tc_sv_printf(
      arena,
      "graph @f (%%x : c64[%lld, %lld] = user \"x\"%s) {\n  %%f : c64[%lld, %lld] = aten::fft_fft(%%x)\n%s  return "
      "user %s\n}\n",
      m, n, filter ? tc_sv_printf(arena, ", %%h : c64[%lld] = user \"h\"", n).data : "", m, n,
      filter
          ? tc_sv_printf(
                arena,
                "  %%g : c64[%lld, %lld] = aten::mul.Tensor(%%f, %%h)\n  %%y : c64[%lld, %lld] = aten::fft_ifft(%%g)\n",
                m, n, m, n)
                .data
          : "",
      filter ? "%y" : "%f");
  compiled p = {0};
  double t0 = now_us();
  TC_TRY(compile_graph(arena, text.data, &props, &p));
  double t1 = now_us();
  if (p.s->groups.count != 1) return tc_error(TC_STATUS_INTERNAL, "%d kernels", p.s->groups.count);
  tc_emitted *k = &p.kernels[0];
  const tc_kernel *kernel = k->kernel;
  rig_blob code = {0}, listing = {0};
  if (rig_compile(&r, &kernel, 1, &code, asked.listing ? &listing : NULL))
    return tc_error(TC_STATUS_INTERNAL, "%s", r.diag);
  double t2 = now_us();
  if (asked.listing) {
    FILE *f = fopen(asked.listing, "w");
    if (f) fwrite(listing.data, 1, listing.size, f), fclose(f);
  }
  rig_function f = rig_load(&r, kernel);
  tc_launch_arg args[8] = {0};
  float complex *mem[8] = {0};
  for (int32_t i = 0; i < k->params.count; i++) {
    int64_t count = number_of(&p, tc_buf_bytes(p.loops, k->params.data[i].buf)) / 8;
    mem[i] = random_c64(arena, count);
    args[i] = (tc_launch_arg){.kind = TC_ARG_MEMORY, .value = (uintptr_t)mem[i]};
  }
  tc_error_block errors = {-1, 0};
  tc_launch l = {.struct_size = sizeof l,
                 .function = f.function,
                 .blocks = number_of(&p, k->blocks),
                 .grain = 1,
                 .args = args,
                 .n_args = k->params.count,
                 .errors = (uintptr_t)&errors};
  if (r.plugin.device->launch(r.device, 0, &l)) return tc_error(TC_STATUS_INTERNAL, "%s", r.diag);
  // The last row against the reference.
  cplx *row = TC_NEW_ARRAY(arena, cplx, 4 * n), *got = TC_NEW_ARRAY(arena, cplx, n);
  float complex *x = mem[0] + (m - 1) * n, *y = mem[k->params.count - 1] + (m - 1) * n, *h = mem[1];
  for (int64_t i = 0; i < n; i++) row[i] = x[i], got[i] = y[i];
  fft_reference(n, true, 1, (tc_c128 *)row, (tc_c128 *)(row + n));
  for (int64_t i = 0; i < n && filter; i++) row[i] *= h[i];
  if (filter) fft_reference(n, false, 1.0 / (double)n, (tc_c128 *)row, (tc_c128 *)(row + n));
  double error = distance(n, got, row), best = 1e30, sum = 0;
  int32_t runs = 0;
  for (double start = now_us(); runs < 5 || (now_us() - start < 1e6 && runs < 2000); runs++) {
    double t = now_us();
    r.plugin.device->launch(r.device, 0, &l);
    t = now_us() - t;
    sum += t;
    if (t < best) best = t;
  }
  double flops = 5.0 * (double)n * log2((double)n) * (double)m * (filter ? 2 : 1);
  char passes[128] = "";
  fft_limits limits = {.vector = props.simd_bytes / 4, .lanes = tc_k_lanes(kernel)};
  fft_plan plan;
  fft_make_plan((int32_t)n, &limits, &plan);
  for (int32_t i = 0; i < plan.n_passes; i++)
    snprintf(passes + strlen(passes), sizeof passes - strlen(passes), "%s%d", i ? "x" : "", plan.passes[i].radix);
  printf("%-6s %6lld x %-6lld %9.1f us best, %9.1f mean, %6.1f GF/s, error %.1e, lanes %d, %s; schedule %.1f ms, code "
         "%.1f ms, %zu bytes\n",
         asked.what, m, n, best, sum / runs, flops / best * 1e-3, error, tc_k_lanes(kernel), passes, (t1 - t0) / 1e3,
         (t2 - t1) / 1e3, code.size);
  tc_executor_destroy(&r.executor);
  return TC_OK;
}

int main(int argc, char **argv) {
  asked = (job){.what = argc > 1 ? argv[1] : "filter",
                .n = argc > 2 ? atoll(argv[2]) : 4096,
                .rows = argc > 3 ? atoll(argv[3]) : 512,
                .threads = argc > 4 ? atoi(argv[4]) : 2,
                .listing = argc > 5 ? argv[5] : NULL};
  tc_test_run(time_one);
  return 0;
}
