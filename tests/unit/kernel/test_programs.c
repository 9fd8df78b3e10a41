// Whole kernels through the interpreter, against naive computations in double: ifft(fft(x) * h) along rows, and a
// matrix product with a row mean in its epilogue.

#include "tests/unit/kernel/programs.h"

#define EXAMPLES TC_SOURCE_DIR "/examples/"

static uint64_t random_state;
static double uniform(void) { // [-1, 1)
  uint64_t z = random_state += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return (double)(int64_t)(z ^ (z >> 31)) * 0x1p-63;
}

static void fill(float *v, int64_t n) {
  for (int64_t i = 0; i < n; i++) v[i] = (float)uniform();
}

// Circular convolution in the frequency domain by the definition: O(n²), in double, through tables of roots.
static void transform(const double *x, double *y, int32_t n, int32_t sign) {
  double *root = calloc((size_t)n * 2, sizeof *root);
  for (int32_t k = 0; k < n; k++) root[2 * k] = cos(2 * M_PI * k / n), root[2 * k + 1] = sign * sin(2 * M_PI * k / n);
  for (int32_t k = 0; k < n; k++) {
    double re = 0, im = 0;
    for (int32_t i = 0; i < n; i++) {
      const double *w = root + 2 * (int64_t)((int64_t)i * k % n);
      re += x[2 * i] * w[0] - x[2 * i + 1] * w[1];
      im += x[2 * i] * w[1] + x[2 * i + 1] * w[0];
    }
    y[2 * k] = re, y[2 * k + 1] = im;
  }
  free(root);
}

static void filter_naive(const float *x, const float *h, double *y, int32_t n) {
  double *a = calloc((size_t)n * 4, sizeof *a), *f = a + 2 * n;
  for (int32_t i = 0; i < 2 * n; i++) a[i] = x[i];
  transform(a, f, n, -1);
  for (int32_t k = 0; k < n; k++) {
    double re = f[2 * k], im = f[2 * k + 1];
    a[2 * k] = (re * h[2 * k] - im * h[2 * k + 1]) / n;
    a[2 * k + 1] = (re * h[2 * k + 1] + im * h[2 * k]) / n;
  }
  transform(a, y, n, 1);
  free(a);
}

static void check_filter(const tc_kernel *k, int32_t n, int32_t rows, int32_t elements_per_number) {
  int64_t size = (int64_t)rows * n * 2;
  float *x = calloc((size_t)(2 * size + 2 * n), sizeof *x), *y = x + size, *h = y + size;
  double *want = calloc((size_t)n * 2, sizeof *want);
  fill(x, size);
  fill(h, 2 * n);
  tc_karg args[3] = {{.data = x, .count = size * elements_per_number / 2},
                     {.data = h, .count = (int64_t)n * elements_per_number},
                     {.data = y, .count = size * elements_per_number / 2}};
  CHECK_OK(tc_kernel_interpret(tc_system_allocator(), k, rows, args, 3, NULL));
  double error = 0, norm = 0;
  for (int32_t r = 0; r < rows; r++) {
    filter_naive(x + (int64_t)r * 2 * n, h, want, n);
    for (int32_t i = 0; i < 2 * n; i++) {
      double d = y[(int64_t)r * 2 * n + i] - want[i];
      error += d * d, norm += want[i] * want[i];
    }
  }
  printf("  n = %d, lanes = %d: relative L2 error %.2g\n", (int)n, (int)tc_k_lanes(k), sqrt(error / norm));
  assert_true(sqrt(error / norm) < 5e-7);
  free(x);
  free(want);
}

KERNEL_TEST(rows_filter_by_hand) {
  random_state = tc_run_seed();
  tc_kernel *k = example(arena, EXAMPLES "rows_filter.tc");
  tc_kernel_stats s;
  tc_kernel_count(k, &s);
  assert_int_equal(s.loads, 2);
  assert_int_equal(s.stores, 1);
  check_filter(k, 256, 2, 1);
  check_filter(legal(arena, k), 256, 2, 2);
  const char *text = text_of(arena, k);
  assert_string_equal(text_of(arena, kernel_of(arena, text)), text);
}

KERNEL_TEST(rows_filter_on_threads) { check_filter(build_rows_filter(arena, GROUPS), ROW, 1, 2); }
KERNEL_TEST(rows_filter_on_vectors) { check_filter(build_rows_filter(arena, 16), ROW, 1, 2); }

KERNEL_TEST(linear_relu_center) {
  enum { ROWS = 7, K = 37, N = 64 };
  tc_kernel *k = example(arena, EXAMPLES "linear_relu_center.tc"), *variants[2] = {k, legal(arena, k)};
  float x[ROWS * K], w[K * N], b[N], y[ROWS * N];
  random_state = tc_run_seed();
  fill(x, ROWS * K);
  fill(w, K * N);
  fill(b, N);
  for (int32_t v = 0; v < 2; v++) {
    memset(y, 0, sizeof y);
    tc_karg args[6] = {{.data = x, .count = ROWS * K},
                       {.data = w, .count = K * N},
                       {.data = b, .count = N},
                       {.data = y, .count = ROWS * N},
                       {.bits = ROWS},
                       {.bits = K}};
    CHECK_OK(tc_kernel_interpret(tc_system_allocator(), variants[v], (ROWS + 3) / 4, args, 6, NULL));
    for (int32_t i = 0; i < ROWS; i++) {
      double row[N], mean = 0;
      for (int32_t j = 0; j < N; j++) {
        row[j] = b[j];
        for (int32_t l = 0; l < K; l++) row[j] += (double)x[i * K + l] * w[l * N + j];
        row[j] = row[j] > 0 ? row[j] : 0;
        mean += row[j] / N;
      }
      for (int32_t j = 0; j < N; j++) assert_true(fabs(y[i * N + j] - (row[j] - mean)) < 1e-5);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(rows_filter_by_hand), cmocka_unit_test(rows_filter_on_threads),
                                     cmocka_unit_test(rows_filter_on_vectors), cmocka_unit_test(linear_relu_center)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
