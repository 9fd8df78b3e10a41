// The template: every length, both ways of emission, against the definition.
#include "tests/unit/fft/fft_test.h"

// The relative error of a transform of rows of n; -1: refused.
static double error_of(tc_arena *arena, int64_t rows, int64_t n, bool forward, int norm, bool wide,
                       const tc_device_props *dev) {
  compiled p = {0};
  const char *t = wide ? "c128" : "c64";
  tc_sv text = tc_sv_printf(arena,
                            "graph @f (%%x : %s[%lld, %lld] = user \"x\") {\n  %%y : %s[%lld, %lld] = "
                            "aten::_fft_c2c(%%x, [1], %d, %s)\n  return user %%y\n}\n",
                            t, (long long)rows, (long long)n, t, (long long)rows, (long long)n, norm,
                            forward ? "true" : "false");
  tc_status s = compile_graph(arena, text.data, dev, &p);
  if (tc_status_code(s) == TC_STATUS_UNIMPLEMENTED) {
    tc_status_free(s);
    return -1;
  }
  if (s) fail_msg("rows of %lld: %s", (long long)n, tc_status_text(s));
  assert_int_equal(p.s->groups.count, 1);
  float complex *x = random_c64(arena, rows * n);
  cplx *in = TC_NEW_ARRAY(arena, cplx, rows * n), *want = TC_NEW_ARRAY(arena, cplx, rows * n),
       *got = TC_NEW_ARRAY(arena, cplx, rows * n);
  for (int64_t i = 0; i < rows * n; i++) in[i] = x[i];
  void *out, *given = wide ? (void *)in : (void *)x;
  s = interpret(arena, &p, 1, &given, &out);
  if (s) fail_msg("rows of %lld: %s", (long long)n, tc_status_text(s));
  double scale = norm == 2 ? 1.0 / (double)n : norm == 1 ? 1 / sqrt((double)n) : 1;
  for (int64_t r = 0; r < rows; r++) plain_dft(n, forward, in + r * n, want + r * n);
  for (int64_t i = 0; i < rows * n; i++) {
    want[i] *= scale;
    got[i] = wide ? ((cplx *)out)[i] : (cplx)((float complex *)out)[i];
  }
  return distance(rows * n, got, want);
}

static void check(tc_arena *arena, int64_t n, bool wide, const tc_device_props *dev) {
  bool forward = rand() % 2;
  double e = error_of(arena, 1 + rand() % 2, n, forward, rand() % 3, wide, dev), most = wide ? 1e-15 : 5e-7;
  if (!(e >= 0 && e <= most))
    fail_msg("rows of %lld (%s, %s): relative error %g", (long long)n, wide ? "c128" : "c64",
             dev->simd_bytes ? "vectors" : "threads", e);
}

TC_TEST(every_small_length) {
  for (int64_t n = 1; n <= 70; n++) {
    if (fft_largest_prime((int32_t)n) > FFT_MAX_PRIME) continue;
    for (int d = 0; d < 2; d++) {
      check(arena, n, false, d ? &thread_device : &vector_device);
      check(arena, n, true, d ? &thread_device : &vector_device);
    }
  }
  return TC_OK;
}

TC_TEST(longer_lengths) {
  static const int64_t n[] = {81,  96,  100, 121, 128, 143,  169,  243,  256,  289,  343,  360,
                              500, 512, 625, 729, 961, 1000, 1001, 1024, 1331, 1536, 2048, 2401};
  for (size_t i = 0; i < sizeof n / sizeof *n; i++)
    for (int d = 0; d < 2; d++) check(arena, n[i], rand() % 4 == 0, d ? &thread_device : &vector_device);
  return TC_OK;
}

TC_TEST(lengths_of_several_passes) {
  for (int d = 0; d < 2; d++) {
    check(arena, 4096, false, d ? &thread_device : &vector_device);
    check(arena, 6561, false, d ? &thread_device : &vector_device);
  }
  check(arena, 8192, true, &vector_device);
  return TC_OK;
}

TC_TEST(refuses_large_primes_with_a_reason) {
  compiled p = {0};
  tc_status s = compile_graph(arena,
                              "graph @f (%x : c64[2, 67] = user \"x\") {\n  %y : c64[2, 67] = aten::_fft_c2c(%x, [1], "
                              "0, true)\n  return user %y\n}\n",
                              &vector_device, &p);
  assert_int_equal(tc_status_code(s), TC_STATUS_UNIMPLEMENTED);
  assert_non_null(strstr(tc_status_text(s), "prime factor above 64"));
  tc_status_free(s);
  return TC_OK;
}

TC_TEST(unit_roots_are_exact) {
  for (int64_t n = 1; n <= 400; n++) {
    int64_t k = rand() % (3 * n) - n;
    double re, im;
    fft_unit(k, n, &re, &im);
    long double phi = 2 * 3.14159265358979323846264338327950288L * (long double)k / (long double)n;
    assert_true(fabsl(re - cosl(phi)) < 2e-16L && fabsl(im - sinl(phi)) < 2e-16L);
  }
  double re, im;
  fft_unit(1, 4, &re, &im);
  assert_true(re == 0 && im == 1);
  fft_unit(-3, 6, &re, &im);
  assert_true(re == -1 && im == 0);
  return TC_OK;
}

TC_TEST(reference_is_the_definition) {
  for (int round = 0; round < 20; round++) {
    int64_t n = 1 + rand() % 150;
    bool forward = rand() % 2;
    cplx *x = TC_NEW_ARRAY(arena, cplx, n), *want = TC_NEW_ARRAY(arena, cplx, n),
         *room = TC_NEW_ARRAY(arena, cplx, 3 * n);
    for (int64_t i = 0; i < n; i++) x[i] = rand() % 1000 / 500.0 - 1 + I * (rand() % 1000 / 500.0 - 1);
    plain_dft(n, forward, x, want);
    fft_reference(n, forward, 1, (tc_c128 *)x, (tc_c128 *)room);
    assert_true(distance(n, x, want) < 1e-14);
  }
  return TC_OK;
}

int main(void) {
  srand((unsigned)time(NULL));
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(unit_roots_are_exact),      cmocka_unit_test(reference_is_the_definition),
      cmocka_unit_test(every_small_length),        cmocka_unit_test(longer_lengths),
      cmocka_unit_test(lengths_of_several_passes), cmocka_unit_test(refuses_large_primes_with_a_reason),
  };
  return TC_RUN(tests);
}
