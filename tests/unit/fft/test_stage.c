// The template: every length, both ways of emission, against the definition.
#include "tests/unit/fft/fft_test.h"

// Blocks of it take several rows also where there are few.
static const tc_device_props few_cores = {
    .max_lanes = 256, .subgroup = 32, .cores = 1, .shared_bytes = 232448, .launch_ns = 3000, .bytes_per_ns = 2000};

enum { C2C, R2C, R2C_FULL, C2R };
static const char *const kinds[] = {"c2c", "r2c", "full r2c", "c2r"};

typedef struct request {
  int kind, norm;
  int64_t rows, n;
  bool forward, wide;
  const tc_device_props *dev;
  const char *symbol; // the bounds of a length that is not a constant: "[1, 200]"
  int64_t kept;       // only so many first results of a row are read, and doubled; 0: all
} request;

static const char *type_name(bool complex_, bool wide) {
  return complex_ ? wide ? "c128" : "c64" : wide ? "f64" : "f32";
}

static tc_sv graph_of(tc_arena *arena, const request *q) {
  static const char *const calls[] = {"_fft_c2c", "_fft_r2c", "_fft_r2c", "_fft_c2r"};
  long long n = q->n, rows = q->rows;
  tc_sv whole = q->symbol ? TC_SV("s0") : tc_sv_printf(arena, "%lld", n);
  tc_sv half = q->symbol ? TC_SV("s0 // 2 + 1") : tc_sv_printf(arena, "%lld", n / 2 + 1);
  tc_sv in = q->kind == C2R ? half : whole, out = q->kind == R2C ? half : whole;
  tc_sv last = q->kind == C2C   ? tc_sv_of(q->forward ? "true" : "false")
               : q->kind == C2R ? whole
                                : tc_sv_of(q->kind == R2C ? "true" : "false");
  tc_sv symbol = q->symbol ? tc_sv_printf(arena, "[s0 in %s hint %lld] ", q->symbol, n) : TC_SV("");
  tc_sv keep =
      q->kept ? tc_sv_printf(arena, "  %%a = aten::slice.Tensor(%%y, 1, 0, %lld)\n  %%z = aten::add.Tensor(%%a, %%a)\n",
                             (long long)q->kept)
              : TC_SV("");
  return tc_sv_printf(arena,
                      "graph @f " TC_SV_FMT "(%%x : %s[%lld, " TC_SV_FMT
                      "] = user \"x\") {\n  %%y : %s[%lld, " TC_SV_FMT "] = aten::%s(%%x, [1], %d, " TC_SV_FMT
                      ")\n" TC_SV_FMT "  return user %%%s\n}\n",
                      TC_SV_ARG(symbol), type_name(q->kind == C2C || q->kind == C2R, q->wide), rows, TC_SV_ARG(in),
                      type_name(q->kind != C2R, q->wide), rows, TC_SV_ARG(out), calls[q->kind], q->norm,
                      TC_SV_ARG(last), TC_SV_ARG(keep), q->kept ? "z" : "y");
}

static void put(void *to, int64_t i, cplx v, bool complex_, bool wide) {
  if (complex_ && wide) ((cplx *)to)[i] = v;
  else if (complex_) ((float complex *)to)[i] = (float complex)v;
  else if (wide) ((double *)to)[i] = creal(v);
  else ((float *)to)[i] = (float)creal(v);
}
static cplx get(const void *from, int64_t i, bool complex_, bool wide) {
  if (complex_) return wide ? ((const cplx *)from)[i] : (cplx)((const float complex *)from)[i];
  return wide ? ((const double *)from)[i] : (double)((const float *)from)[i];
}

// The relative error of a transform of rows of n.
static double error_of(tc_arena *arena, const request *q) {
  compiled p = {0};
  bool complex_in = q->kind == C2C || q->kind == C2R, complex_out = q->kind != C2R;
  bool forward = q->kind == C2C ? q->forward : q->kind != C2R;
  tc_status s = compile_graph(arena, graph_of(arena, q).data, q->dev, &p);
  if (s) fail_msg("rows of %lld: %s", (long long)q->n, tc_status_text(s));
  int64_t n = q->n;
  if (!q->symbol && q->kept != 1 && // one number is not a row
      !fft_is_long(n, q->kind == C2C ? FFT_C2C : FFT_R2C, q->wide ? TC_F64 : TC_F32))
    assert_int_equal(p.s->groups.count, 1);
  int64_t half = n / 2 + 1, in = q->kind == C2R ? half : n, out = q->kind == R2C ? half : n;
  void *x = tc_arena_alloc_aligned(arena, (size_t)(q->rows * in) * 16, 64), *y;
  cplx *row = TC_NEW_ARRAY(arena, cplx, n), *spectrum = TC_NEW_ARRAY(arena, cplx, n),
       *want = TC_NEW_ARRAY(arena, cplx, q->rows * out), *got = TC_NEW_ARRAY(arena, cplx, q->rows * out);
  double scale = q->norm == 2 ? 1.0 / (double)n : q->norm == 1 ? 1 / sqrt((double)n) : 1;
  cplx *room = TC_NEW_ARRAY(arena, cplx, 3 * n);
  for (int64_t r = 0; r < q->rows; r++) {
    for (int64_t i = 0; i < in; i++) {
      cplx v = (float)(rand() % 2001 - 1000) / 500.0f + I * ((float)(rand() % 2001 - 1000) / 500.0f);
      put(x, r * in + i, v, complex_in, q->wide);
    }
    for (int64_t i = 0; i < n; i++) {
      int64_t from = i < in ? i : n - i;
      cplx v = get(x, r * in + from, complex_in, q->wide);
      if (q->kind == C2R && i >= in) v = conj(v);
      row[i] = q->kind == C2R && (i == 0 || 2 * i == n) ? creal(v) : v;
    }
    // The definition takes too long for long rows; the reference is held to it by a test of its own.
    if (n <= 8192) plain_dft(n, forward, row, spectrum);
    else fft_reference(n, forward, 1, (tc_c128 *)memcpy(spectrum, row, (size_t)n * sizeof *row), (tc_c128 *)room);
    for (int64_t i = 0; i < out; i++) want[r * out + i] = spectrum[i] * scale;
  }
  s = interpret(arena, &p, 1, &x, &y);
  if (s) fail_msg("rows of %lld: %s", (long long)n, tc_status_text(s));
  for (int64_t r = 0; r < q->rows; r++) {
    for (int64_t i = 0; i < out; i++) {
      int64_t at = r * out + i;
      if (!q->kept) got[at] = get(y, at, complex_out, q->wide);
      else got[at] = i < q->kept ? get(y, r * q->kept + i, complex_out, q->wide) / 2 : want[at];
    }
  }
  return distance(q->rows * out, got, want);
}

// Lengths with large prime factors are convolutions, which lose a little.
static void check_one(tc_arena *arena, request q) {
  bool chirp = q.symbol || fft_largest_prime((int32_t)q.n) > FFT_FEW;
  double e = error_of(arena, &q), most = q.wide ? chirp ? 5e-15 : 1e-15 : chirp ? 2e-6 : 5e-7;
  if (!(e >= 0 && e <= most))
    fail_msg("%lld rows of %lld (%s, %s, %s): relative error %g", (long long)q.rows, (long long)q.n, kinds[q.kind],
             q.wide ? "f64" : "f32", q.dev->simd_bytes ? "vectors" : "threads", e);
}

static void check(tc_arena *arena, int64_t n, bool wide, const tc_device_props *dev) {
  check_one(arena, (request){.kind = rand() % 4,
                             .norm = rand() % 3,
                             .rows = 1 + rand() % 2,
                             .n = n,
                             .forward = rand() % 2,
                             .wide = wide,
                             .dev = dev});
}

TC_TEST(every_small_length) {
  for (int64_t n = 1; n <= 300; n++) check(arena, n, rand() % 2, n % 4 ? &vector_device : &thread_device);
  return TC_OK;
}

TC_TEST(every_kind) {
  for (int64_t n = 1; n <= 40; n++)
    for (int k = 0; k < 8; k++) {
      request q = {.kind = k / 2, .norm = rand() % 3, .rows = 2, .n = n, .forward = rand() % 2, .wide = rand() % 2};
      q.dev = k % 2 ? &vector_device : n % 2 ? &thread_device : &few_cores;
      check_one(arena, q);
    }
  return TC_OK;
}

// Many short rows go side by side, with some lanes to spare at the end.
TC_TEST(neighbouring_rows) {
  for (int64_t n = 1; n <= 70; n++) {
    request q = {.kind = rand() % 4,
                 .norm = rand() % 3,
                 .rows = 16 + rand() % 20,
                 .n = n,
                 .forward = rand() % 2,
                 .wide = rand() % 2,
                 .dev = n % 2 ? &vector_device : &few_cores};
    check_one(arena, q);
  }
  return TC_OK;
}

// Transforms along any dimension: neighbouring rows lie beside each other, or apart.
TC_TEST(any_dimension) {
  static const tc_device_props *const on[] = {&few_cores, &thread_device, &vector_device};
  for (int round = 0; round < 48; round++) {
    int64_t sizes[3], all = 1, n, inner = 1;
    int dim = rand() % 3, between = rand() % 2;
    compiled p = {0};
    for (int d = 0; d < 3; d++) all *= sizes[d] = 1 + rand() % (d == dim ? 70 : 1 << rand() % 6);
    n = sizes[dim];
    for (int d = dim + 1; d < 3; d++) inner *= sizes[d];
    const char *call = between ? "aten::mul.Tensor(%f, %f)" : "aten::_fft_c2c(%f, [2], 0, false)";
    tc_sv text =
        tc_sv_printf(arena,
                     "graph @f (%%x : c64[%lld, %lld, %lld] = user \"x\") {\n  %%f = aten::_fft_c2c(%%x, [%d], "
                     "0, true)\n  %%g = %s\n  %%h = aten::contiguous(%%g)\n  "
                     "return user %%h\n}\n",
                     (long long)sizes[0], (long long)sizes[1], (long long)sizes[2], dim, call);
    float complex *x = random_c64(arena, all), *y;
    cplx *got = TC_NEW_ARRAY(arena, cplx, all), *want = TC_NEW_ARRAY(arena, cplx, all),
         *row = TC_NEW_ARRAY(arena, cplx, 200), *out = TC_NEW_ARRAY(arena, cplx, 200);
    TC_TRY(compile_graph(arena, text.data, on[round % 3], &p));
    TC_TRY(interpret(arena, &p, 1, (void *[]){x}, (void **)&y));
    for (int64_t r = 0; r < all / n; r++) {
      int64_t first = r / inner * inner * n + r % inner;
      for (int64_t i = 0; i < n; i++) row[i] = x[first + i * inner];
      plain_dft(n, true, row, out);
      for (int64_t i = 0; i < n; i++) want[first + i * inner] = between ? out[i] * out[i] : out[i];
    }
    for (int64_t r = 0; r < all / sizes[2] && !between; r++) {
      plain_dft(sizes[2], false, want + r * sizes[2], row);
      memcpy(want + r * sizes[2], row, (size_t)sizes[2] * sizeof *row);
    }
    for (int64_t i = 0; i < all; i++) got[i] = y[i];
    double e = distance(all, got, want);
    if (!(e <= 4e-6)) fail_msg("%s: relative error %g", text.data, e);
  }
  return TC_OK;
}

// One kernel for all lengths up to a bound; sums by definition where there is none.
TC_TEST(lengths_that_are_not_known) {
  static const char *const bounds[] = {"[1, 1]", "[1, 3]", "[1, 40]", "[1, 200]", "[1, inf]"};
  static const int64_t most[] = {1, 3, 40, 200, 90};
  for (int round = 0; round < 60; round++) {
    int b = rand() % 5;
    request q = {.kind = rand() % 4,
                 .norm = rand() % 3,
                 .rows = rand() % 3 ? 2 : 18,
                 .n = 1 + rand() % most[b],
                 .forward = rand() % 2,
                 .wide = rand() % 2,
                 .dev = rand() % 2 ? &vector_device : &thread_device,
                 .symbol = bounds[b]};
    check_one(arena, q);
  }
  return TC_OK;
}

// What nobody reads is not stored, and what reads the rest is in the same kernel.
TC_TEST(first_points_of_rows) {
  static const int64_t longer[] = {101, 128, 134, 257, 360, 500};
  for (int round = 0; round < 60; round++) {
    request q = {.kind = rand() % 4,
                 .norm = rand() % 3,
                 .rows = rand() % 3 ? 2 : 18,
                 .n = rand() % 3 ? 2 + rand() % 40 : longer[rand() % 6],
                 .forward = rand() % 2,
                 .wide = rand() % 2,
                 .dev = rand() % 2   ? &vector_device
                        : rand() % 2 ? &thread_device
                                     : &few_cores};
    q.kept = 1 + rand() % (q.kind == R2C ? q.n / 2 + 1 : q.n);
    check_one(arena, q);
  }
  return TC_OK;
}

TC_TEST(longer_lengths) {
  static const int64_t n[] = {343,  360,  500,  509,  512,  625,  729,  961,  1000, 1001,
                              1009, 1024, 1331, 1536, 2018, 2048, 2039, 2401, 3001};
  for (size_t i = 0; i < sizeof n / sizeof *n; i++)
    for (int d = 0; d < 2; d++) check(arena, n[i], rand() % 4 == 0, d ? &thread_device : &vector_device);
  return TC_OK;
}

// Memory on chip for one row, not for two: what a pass has read waits in registers.
TC_TEST(one_row_on_chip) {
  static const tc_device_props small = {
      .max_lanes = 64, .subgroup = 32, .cores = 100, .shared_bytes = 16384, .launch_ns = 3000, .bytes_per_ns = 2000};
  static const int64_t n[] = {289, 480, 512, 700, 768, 1000, 1024};
  for (size_t i = 0; i < sizeof n / sizeof *n; i++)
    for (int kind = C2C; kind <= C2R; kind++)
      check_one(arena, (request){.kind = kind, .rows = 2, .n = n[i], .forward = rand() % 2, .dev = &small});
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

// Three passes of powers of two where lanes are threads: points lie on chip once.
TC_TEST(passes_in_place) {
  static const int64_t n[] = {512, 1024, 2048, 4096};
  for (int i = 0; i < 8; i++)
    check_one(arena, (request){.kind = C2C,
                               .norm = rand() % 3,
                               .rows = 1 + rand() % 2,
                               .n = n[i / 2],
                               .forward = rand() % 2,
                               .wide = i % 2,
                               .dev = &thread_device});
  return TC_OK;
}

// Radices up to 32, which an autotuner may choose: rows of one block and of several, and halves that stay in registers.
TC_TEST(wide_radices) {
  static const int64_t n[] = {243, 486, 512, 1024, 2048, 3000, 5000, 8192, 10000, 16384};
  int32_t tried = 0;
  wish_wide = true, n_wide = 0;
  for (size_t i = 0; i < sizeof n / sizeof *n; i++) {
    for (int kind = rand() % 2; kind <= C2R; kind += 2, tried++)
      check_one(arena, (request){.kind = kind,
                                 .norm = rand() % 3,
                                 .rows = 1 + rand() % 3,
                                 .n = n[i],
                                 .forward = rand() % 2,
                                 .dev = rand() % 2 ? &thread_device : &few_cores});
  }
  wish_wide = false;
  if (n_wide < tried / 4) fail_msg("only %d of %d were made with wide radices", n_wide, tried);
  return TC_OK;
}

// Factors that are made of others must not cost digits: bounds are 4 % above what tables of all of them have.
TC_TEST(accuracy_of_passes) {
  static const int64_t n[] = {1024, 4096};
  for (int i = 0; i < 2; i++) {
    request q = {.kind = C2C, .rows = 8192 / n[i], .n = n[i], .forward = rand() % 2, .dev = &thread_device};
    double e = error_of(arena, &q), most = 3.9e-8 * sqrt(log2((double)n[i]));
    if (!(e <= most)) fail_msg("rows of %lld: relative error %g, at most %g", (long long)n[i], e, most);
  }
  return TC_OK;
}

// Rows that no block can hold: of a product of moderate factors, of a large prime factor. Some of them in each run,
// since the interpreter takes its time.
TC_TEST(lengths_of_several_kernels) {
  static const int64_t n[] = {1 << 15, 3 << 14, 16411, 2 * 16411, 32769};
  for (size_t i = (size_t)(rand() % 2); i < sizeof n / sizeof *n; i += 2)
    check_one(arena, (request){.kind = rand() % 4,
                               .norm = rand() % 3,
                               .rows = 1,
                               .n = n[i],
                               .forward = rand() % 2,
                               .wide = rand() % 2,
                               .dev = rand() % 2   ? &vector_device
                                      : rand() % 2 ? &few_cores
                                                   : &thread_device});
  // What a device with little memory on chip holds in single precision it may not hold in double.
  // A convolution takes more room than its row.
  static const int64_t full[] = {1 << 14, 1 << 15, 8191, 2 * 8191, 7442}, single[] = {1 << 15, 16381, 2 * 16381};
  int i = rand() % 5;
  check_one(arena, (request){.kind = i % 2 ? C2R : C2C, .rows = 1, .n = full[i], .wide = true, .dev = &thread_device});
  i = rand() % 3;
  check_one(arena, (request){.kind = i % 2 ? C2C : R2C, .rows = 1, .n = single[i], .dev = &thread_device});
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
  srand((unsigned)tc_run_seed());
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(unit_roots_are_exact),
      cmocka_unit_test(reference_is_the_definition),
      cmocka_unit_test(every_small_length),
      cmocka_unit_test(every_kind),
      cmocka_unit_test(neighbouring_rows),
      cmocka_unit_test(any_dimension),
      cmocka_unit_test(lengths_that_are_not_known),
      cmocka_unit_test(first_points_of_rows),
      cmocka_unit_test(longer_lengths),
      cmocka_unit_test(one_row_on_chip),
      cmocka_unit_test(lengths_of_several_passes),
      cmocka_unit_test(passes_in_place),
      cmocka_unit_test(wide_radices),
      cmocka_unit_test(accuracy_of_passes),
      cmocka_unit_test(lengths_of_several_kernels),
  };
  return TC_RUN(tests);
}
