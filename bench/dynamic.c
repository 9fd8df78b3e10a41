// What symbolic sizes cost: the same function compiled for its inputs' sizes and with all sizes symbolic, run in turns
// on the same inputs, one thread, microseconds of the thread's own time. The least of many rounds counts, so that a
// busy machine changes little; the goal is a ratio of at most 1.1.
//   ninja -C build dynamic && build/bin/dynamic [backend=cpu]
#include <stdio.h>
#include <time.h>

#include "tc/ops.h"

enum { ROUNDS = 60 };

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int32_t pointwise(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)self, (void)n_in, (void)n_out;
  tc_tensor *x = tc_aten_mul_Tensor(tc_aten_sigmoid(in[0]), in[0]);
  x = tc_aten_add_Tensor(x, tc_aten_mul_Scalar(in[1], tc_scalar_real(0.5)), tc_scalar_int(1));
  out[0] = tc_aten_relu(tc_aten_sub_Tensor(x, in[2], tc_scalar_int(1))); // in[2]: a row
  return tc_last_code();
}

static int32_t softmax(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)self, (void)n_in, (void)n_out;
  out[0] = tc_aten_softmax_int(in[0], -1, TC_DTYPE_NONE);
  return tc_last_code();
}

// From its parts, so that the length of a row is symbolic, too.
static int32_t layer_norm(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)self, (void)n_in, (void)n_out;
  const int64_t last = -1;
  tc_tensor *x = tc_aten_add_Tensor(in[0], in[1], tc_scalar_int(1));
  tc_tensor *d = tc_aten_sub_Tensor(x, tc_aten_mean_dim(x, &last, 1, 1, TC_DTYPE_NONE), tc_scalar_int(1));
  tc_tensor *v = tc_aten_mean_dim(tc_aten_mul_Tensor(d, d), &last, 1, 1, TC_DTYPE_NONE);
  x = tc_aten_mul_Tensor(d, tc_aten_rsqrt(tc_aten_add_Scalar(v, tc_scalar_real(1e-5), tc_scalar_int(1))));
  out[0] = tc_aten_add_Tensor(tc_aten_mul_Tensor(x, in[2]), in[2], tc_scalar_int(1));
  return tc_last_code();
}

// The op, of which the length of a row is an argument: only the number of rows is symbolic.
static int32_t layer_norm_rows(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)self, (void)n_in, (void)n_out;
  int64_t row = tc_size_of(in[0], 1);
  tc_tensor *x = tc_aten_add_Tensor(in[0], in[1], tc_scalar_int(1));
  out[0] = tc_aten_layer_norm(x, &row, 1, in[2], in[2], 1e-5, 0);
  return tc_last_code();
}

static int failed(const char *what) {
  fprintf(stderr, "%s: %s\n", what, tc_last_error());
  return 1;
}

// Microseconds of one call; negative: it failed.
static double run(tc_function *f, tc_tensor *const *in, int calls) {
  double start = now_us();
  for (int i = 0; i < calls; i++) {
    tc_tensor *out = NULL;
    if (tc_call(f, in, &out) != TC_STATUS_OK) return -1;
    tc_release(out);
  }
  return (now_us() - start) / calls;
}

static int compare(tc_context *c, const char *name, tc_function_body body, int64_t rows, int64_t cols) {
  tc_tensor *in[3] = {tc_new_tensor(c, TC_F32, 2, (int64_t[]){rows, cols}),
                      tc_new_tensor(c, TC_F32, 2, (int64_t[]){rows, cols}),
                      tc_new_tensor(c, TC_F32, 1, (int64_t[]){cols})};
  for (int i = 0; i < 3; i++) {
    if (!in[i]) return failed("tc_new_tensor");
    float *x = tc_data_of(in[i]);
    for (int64_t k = 0; k < tc_numel_of(in[i]); k++) x[k] = (float)((k * 37 + i) % 101) / 25 - 2;
  }
  static const int32_t how[] = {TC_DYNAMIC_NEVER, TC_DYNAMIC_ALWAYS};
  tc_function *f[2];
  double least[2] = {1e30, 1e30};
  for (int k = 0; k < 2; k++) {
    tc_compile_options o = {.struct_size = sizeof o, .n_inputs = 3, .n_outputs = 1, .dynamic = how[k], .name = name};
    if (tc_compile(c, body, NULL, &o, &f[k]) != TC_STATUS_OK || run(f[k], in, 1) < 0) return failed(name);
  }
  double once = run(f[0], in, 3);
  int calls = once > 2000 ? 1 : (int)(2000 / once) + 1;
  for (int round = 0; round < ROUNDS; round++) {
    for (int k = 0; k < 2; k++) {
      double us = run(f[k ^ (round & 1)], in, calls);
      if (us < 0) return failed(name);
      if (us < least[k ^ (round & 1)]) least[k ^ (round & 1)] = us;
    }
  }
  printf("%-14s %6lld x %-6lld %10.2f %10.2f %7.3f\n", name, (long long)rows, (long long)cols, least[0], least[1],
         least[1] / least[0]);
  for (int k = 0; k < 2; k++) tc_function_destroy(f[k]);
  for (int i = 0; i < 3; i++) tc_release(in[i]);
  return 0;
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    tc_function_body body;
  } workloads[] = {
      {"pointwise", pointwise}, {"softmax", softmax}, {"layer_norm", layer_norm}, {"layer_norm op", layer_norm_rows}};
  static const int64_t sizes[][2] = {{4, 16}, {32, 128}, {64, 1000}, {256, 257}, {2048, 1024}, {16, 65536}};
  tc_context *c;
  const char *settings[] = {argc > 1 ? argv[1] : "backend=cpu", "threads=1"};
  if (tc_open(settings, 2, &c) != TC_STATUS_OK) return failed("tc_open");
  printf("%-14s %15s %10s %10s %7s\n", "workload", "sizes", "static", "symbolic", "ratio");
  int bad = 0;
  for (size_t i = 0; i < sizeof workloads / sizeof *workloads; i++)
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes && !bad; k++)
      bad = compare(c, workloads[i].name, workloads[i].body, sizes[k][0], sizes[k][1]);
  tc_close(c);
  return bad;
}
