// ifft(fft(x) * h) along rows, and the same of real rows: one kernel that reads x once and writes y once. And the ops
// around transforms: norms, lengths, dimensions.
#include "tests/unit/fft/fft_test.h"

static void rows_filter(tc_arena *arena, int64_t rows, int64_t n, const tc_device_props *dev) {
  compiled p = {0};
  long long r = rows, m = n;
  tc_sv text = tc_sv_printf(
      arena,
      "graph @filter (%%x : c64[%lld, %lld] = user \"x\", %%h : c64[%lld] = user \"h\") {\n"
      "  %%f : c64[%lld, %lld] = aten::fft_fft(%%x)\n  %%g : c64[%lld, %lld] = aten::mul.Tensor(%%f, %%h)\n"
      "  %%y : c64[%lld, %lld] = aten::fft_ifft(%%g)\n  return user %%y\n}\n",
      r, m, m, r, m, r, m, r, m);
  tc_status s = compile_graph(arena, text.data, dev, &p);
  if (s) fail_msg("rows of %lld: %s", m, tc_status_text(s));
  assert_int_equal(p.s->groups.count, 1);
  assert_int_equal(p.kernels[0].params.count, 3); // x, h and y; nothing else goes through memory
  float complex *x = random_c64(arena, rows * n), *h = random_c64(arena, n);
  cplx *row = TC_NEW_ARRAY(arena, cplx, n), *spectrum = TC_NEW_ARRAY(arena, cplx, n),
       *want = TC_NEW_ARRAY(arena, cplx, rows * n), *got = TC_NEW_ARRAY(arena, cplx, rows * n);
  void *in[2] = {x, h}, *out;
  s = interpret(arena, &p, 2, in, &out);
  if (s) fail_msg("rows of %lld: %s", m, tc_status_text(s));
  for (int64_t i = 0; i < rows; i++) {
    for (int64_t k = 0; k < n; k++) row[k] = x[i * n + k];
    plain_dft(n, true, row, spectrum);
    for (int64_t k = 0; k < n; k++) spectrum[k] *= h[k] / (double)n;
    plain_dft(n, false, spectrum, want + i * n);
  }
  for (int64_t i = 0; i < rows * n; i++) got[i] = ((float complex *)out)[i];
  double e = distance(rows * n, got, want);
  if (!(e <= 7e-7)) fail_msg("rows of %lld: relative error %g", m, e);
}

TC_TEST(filters_rows_in_one_kernel) {
  static const int64_t n[] = {8, 60, 256, 1000, 4096};
  for (size_t i = 0; i < sizeof n / sizeof *n; i++) {
    rows_filter(arena, 3, n[i], &vector_device);
    rows_filter(arena, 2, n[i], &thread_device);
  }
  return TC_OK;
}

// Real rows: the spectrum has another length than the rows, and never leaves the chip either. `padded`: rows are half
// as long as the transform.
static void real_filter(tc_arena *arena, int64_t rows, int64_t n, bool padded, const tc_device_props *dev) {
  compiled p = {0};
  int64_t half = n / 2 + 1, have = padded ? n / 2 : n;
  tc_sv text = tc_sv_printf(
      arena,
      "graph @filter (%%x : f32[%lld, %lld] = user \"x\", %%h : c64[%lld] = user \"h\", %%b : f32[%lld] = user \"b\") "
      "{\n"
      "  %%f = aten::fft_rfft(%%x, %lld)\n  %%g = aten::mul.Tensor(%%f, %%h)\n  %%y = aten::fft_irfft(%%g, %lld)\n"
      "  %%z = aten::add.Tensor(%%y, %%b)\n  %%r = aten::relu(%%z)\n  return user %%r\n}\n",
      (long long)rows, (long long)have, (long long)half, (long long)n, (long long)n, (long long)n);
  tc_status s = compile_graph(arena, text.data, dev, &p);
  if (s) fail_msg("rows of %lld: %s", (long long)n, tc_status_text(s));
  if (p.s->groups.count != 1) fail_msg("rows of %lld: %d kernels", (long long)n, p.s->groups.count);
  assert_int_equal(p.kernels[0].params.count, 4);
  tc_sb printed = tc_sb_make(arena);
  tc_kernel_print(&printed, p.kernels[0].kernel);
  // Where no lane is left over, each takes what it has made itself: the spectrum stays in registers.
  if (!dev->simd_bytes && n == 1024 && strstr(printed.text, "shared %tile"))
    fail_msg("rows of %lld: the spectrum is in shared memory in\n%s", (long long)n, printed.text);
  float *x = tc_arena_alloc_aligned(arena, (size_t)(rows * have) * sizeof *x, 64), *b = TC_NEW_ARRAY(arena, float, n);
  float complex *h = random_c64(arena, half);
  for (int64_t i = 0; i < rows * have; i++) x[i] = (float)(rand() % 2001 - 1000) / 500.0f;
  for (int64_t i = 0; i < n; i++) b[i] = (float)(rand() % 2001 - 1000) / 50000.0f;
  cplx *row = TC_NEW_ARRAY(arena, cplx, n), *spectrum = TC_NEW_ARRAY(arena, cplx, n);
  void *in[3] = {x, h, b}, *out;
  double error = 0, size = 0,
         left = 0; // squares of what relu leaves, which may be next to nothing, and of all it takes
  s = interpret(arena, &p, 3, in, &out);
  if (s) fail_msg("rows of %lld: %s", (long long)n, tc_status_text(s));
  for (int64_t i = 0; i < rows; i++) {
    for (int64_t k = 0; k < n; k++) row[k] = k < have ? x[i * have + k] : 0;
    plain_dft(n, true, row, spectrum);
    for (int64_t k = 0; k < n; k++) {
      spectrum[k] = k < half ? spectrum[k] * h[k] / (double)n : conj(spectrum[n - k]);
      if (k == 0 || 2 * k == n) spectrum[k] = creal(spectrum[k]);
    }
    plain_dft(n, false, spectrum, row);
    for (int64_t k = 0; k < n; k++) {
      double v = creal(row[k]) + b[k], off = ((float *)out)[i * n + k] - (v > 0 ? v : 0);
      error += off * off, size += v * v, left += v > 0;
    }
  }
  double e = sqrt(error / fmax(left, 1) / (size / (double)(rows * n))); // in the mean
  if (!(e <= 2e-6)) fail_msg("rows of %lld: relative error %g", (long long)n, e);
}

TC_TEST(filters_real_rows_in_one_kernel) {
  static const int64_t n[] = {4, 6, 15, 38, 64, 250, 1024};
  for (size_t i = 0; i < sizeof n / sizeof *n; i++) {
    real_filter(arena, 3, n[i], rand() % 2, &vector_device);
    real_filter(arena, 2, n[i], rand() % 2, &thread_device);
    if (n[i] < 200) real_filter(arena, 16 + rand() % 20, n[i], rand() % 2, &vector_device);
  }
  return TC_OK;
}

// One op on a tensor of three dimensions against the definition along one of them.
static void along(tc_arena *arena, const char *call, const char *out_type, int64_t rank_sizes[3], int dim, int64_t n,
                  bool forward, double scale, int groups) {
  compiled p = {0};
  int64_t *s = rank_sizes, numel = s[0] * s[1] * s[2];
  tc_sv text = tc_sv_printf(
      arena, "graph @f (%%x : c64[%lld, %lld, %lld] = user \"x\") {\n  %%y : %s = %s\n  return user %%y\n}\n",
      (long long)s[0], (long long)s[1], (long long)s[2], out_type, call);
  tc_status st = compile_graph(arena, text.data, &vector_device, &p);
  if (st) fail_msg("%s: %s", call, tc_status_text(st));
  if (p.s->groups.count != groups) fail_msg("%s: %d kernels", call, p.s->groups.count);
  float complex *x = random_c64(arena, numel);
  void *in = x, *out;
  st = interpret(arena, &p, 1, &in, &out);
  if (st) fail_msg("%s: %s", call, tc_status_text(st));
  const tc_tensor_type *t = &p.loops->outputs.data[0].type;
  int64_t stride[3];
  for (int d = 0; d < 3; d++) stride[d] = number_of(&p, t->strides[d]);
  int a = dim == 0 ? 1 : 0, b = dim == 2 ? 1 : 2;
  int64_t in_stride[3] = {s[1] * s[2], s[2], 1}, total = s[a] * s[b] * n, at = 0;
  cplx *row = TC_NEW_ARRAY(arena, cplx, n), *want = TC_NEW_ARRAY(arena, cplx, total),
       *got = TC_NEW_ARRAY(arena, cplx, total);
  for (int64_t i = 0; i < s[a]; i++)
    for (int64_t j = 0; j < s[b]; j++) {
      for (int64_t k = 0; k < n; k++)
        row[k] = k < s[dim] ? scale * x[i * in_stride[a] + j * in_stride[b] + k * in_stride[dim]] : 0;
      plain_dft(n, forward, row, want + at);
      for (int64_t k = 0; k < n; k++)
        got[at + k] = ((float complex *)out)[i * stride[a] + j * stride[b] + k * stride[dim]];
      at += n;
    }
  double e = distance(total, got, want);
  if (!(e <= 5e-7)) fail_msg("%s: relative error %g", call, e);
}

TC_TEST(lengths_norms_and_dimensions) {
  int64_t s[3] = {5, 12, 20};
  along(arena, "aten::fft_fft(%x, none, 1)", "c64[5, 12, 20]{240, 1, 12}", s, 1, 12, true, 1, 1);
  along(arena, "aten::fft_ifft(%x, none, 0)", "c64[5, 12, 20]{1, 100, 5}", s, 0, 5, false, 0.2, 1);
  along(arena, "aten::fft_ifft(%x, none, 2, \"forward\")", "c64[5, 12, 20]", s, 2, 20, false, 1, 1);
  along(arena, "aten::fft_fft(%x, none, -1, \"ortho\")", "c64[5, 12, 20]", s, 2, 20, true, 1 / sqrt(20), 1);
  along(arena, "aten::fft_fft(%x, 16)", "c64[5, 12, 16]", s, 2, 16, true, 1, 1);
  along(arena, "aten::fft_fft(%x, 35, -1, \"forward\")", "c64[5, 12, 35]", s, 2, 35, true, 1.0 / 35, 1);
  along(arena, "aten::fft_ifft(%x, 18, 1)", "c64[5, 18, 20]{360, 1, 18}", s, 1, 18, false, 1.0 / 18, 1);
  return TC_OK;
}

TC_TEST(real_input_becomes_complex) {
  enum { N = 24 };
  for (int d = 0; d < 2; d++) {
    compiled p = {0};
    TC_TRY(compile_graph(
        arena,
        "graph @f (%x : f32[1, 24] = user \"x\") {\n  %y : c64[1, 24] = aten::fft_fft(%x)\n  return user %y\n}\n",
        d ? &thread_device : &vector_device, &p));
    assert_int_equal(p.s->groups.count, 1);
    float *x = tc_arena_alloc_aligned(arena, N * sizeof *x, 64);
    cplx in[N], want[N], got[N];
    for (int i = 0; i < N; i++) in[i] = x[i] = (float)(rand() % 1000) / 500.0f - 1;
    void *given = x, *out;
    TC_TRY(interpret(arena, &p, 1, &given, &out));
    plain_dft(N, true, in, want);
    for (int i = 0; i < N; i++) got[i] = ((float complex *)out)[i];
    assert_true(distance(N, got, want) <= 5e-7);
  }
  return TC_OK;
}

int main(void) {
  srand((unsigned)tc_run_seed());
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(filters_rows_in_one_kernel), cmocka_unit_test(filters_real_rows_in_one_kernel),
      cmocka_unit_test(lengths_norms_and_dimensions), cmocka_unit_test(real_input_becomes_complex)};
  return TC_RUN(tests);
}
