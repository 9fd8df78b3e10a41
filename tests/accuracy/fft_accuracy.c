// Holds transforms of any length to FFTW in quadruple precision (up to 2048 points) and in long double (beyond), and to
// what must be true of every transform: linearity, Parseval's theorem, the shift theorem, the way there and back, and
// that what is not finite stays in its row.
//
//   fft_accuracy [--all] [--backend=cpu] [--kinds=fft,ifft,…] [--lengths=N,N,…] [--random=COUNT] [--properties=0|1]
//                [--csv=FILE]
//
// Without --all a selection of lengths, a transform of each; with it every length from 1 to 2048 and 100 random ones up
// to 2^20, all four kinds in f32 and f64. The CSV file has a line for each: length, kind, dtype, relative L2 error.
// Bounds are those of docs/fft.md.
#include <complex.h>
#include <fftw3.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/run_seed.h"

#include "tc/tc.h"

#if defined(FFTW_ACCURACY_QUAD) && !defined(__clang__)
#define QUAD 1 // clang does not have what fftw3.h wants for it
#else
#define QUAD 0
#endif

enum { C2C, INVERSE, R2C, C2R, KINDS };
static const char *const ops[KINDS] = {"aten::fft_fft", "aten::fft_ifft", "aten::fft_rfft", "aten::fft_irfft"};
enum { QUAD_MOST = 2048, LONGEST = 1 << 20 };

typedef struct report {
  tc_context *context;
  FILE *csv;
  uint64_t random;
  int32_t checked, failed, kinds;
  double worst[2][2]; // of f32 and f64, of other lengths and of those with large primes
} report;

static uint64_t next(uint64_t *state) { // splitmix64
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}
static double uniform(uint64_t *state) { return (double)(int64_t)next(state) * 0x1p-63; }

static void *memory(size_t count, size_t size) {
  void *p = calloc(count ? count : 1, size);
  if (!p) fprintf(stderr, "out of memory\n"), exit(2);
  return p;
}

// ---- the exact transform ----
// x[n] → y[n], both long double; the inverse is divided by n.
static void exact(int64_t n, bool inverse, const long double complex *x, long double complex *y) {
  long double scale = inverse ? 1.0L / (long double)n : 1.0L;
#if QUAD
  if (n <= QUAD_MOST) {
    fftwq_complex *a = fftwq_malloc(sizeof *a * (size_t)n), *b = fftwq_malloc(sizeof *b * (size_t)n);
    fftwq_plan p = fftwq_plan_dft_1d((int)n, a, b, inverse ? FFTW_BACKWARD : FFTW_FORWARD, FFTW_ESTIMATE);
    for (int64_t i = 0; i < n; i++) a[i] = x[i];
    fftwq_execute(p);
    for (int64_t i = 0; i < n; i++) y[i] = (long double complex)b[i] * scale;
    fftwq_destroy_plan(p);
    fftwq_free(a), fftwq_free(b);
    return;
  }
#endif
  fftwl_complex *a = fftwl_malloc(sizeof *a * (size_t)n), *b = fftwl_malloc(sizeof *b * (size_t)n);
  fftwl_plan p = fftwl_plan_dft_1d((int)n, a, b, inverse ? FFTW_BACKWARD : FFTW_FORWARD, FFTW_ESTIMATE);
  for (int64_t i = 0; i < n; i++) a[i] = x[i];
  fftwl_execute(p);
  for (int64_t i = 0; i < n; i++) y[i] = b[i] * scale;
  fftwl_destroy_plan(p);
  fftwl_free(a), fftwl_free(b);
}

// ---- tensors ----
typedef struct job {
  int32_t kind;
  bool wide;
  int64_t n, rows, in, out; // numbers in a row of input and output
} job;

static job job_of(int32_t kind, bool wide, int64_t n, int64_t rows) {
  int64_t half = n / 2 + 1;
  return (job){kind, wide, n, rows, kind == C2R ? half : n, kind == R2C ? half : n};
}
static bool complex_in(const job *j) { return j->kind != R2C; }
static bool complex_out(const job *j) { return j->kind != C2R; }
static int64_t parts_in(const job *j) { return j->rows * j->in * (complex_in(j) ? 2 : 1); }
static int64_t parts_out(const job *j) { return j->rows * j->out * (complex_out(j) ? 2 : 1); }

static long double complex pair(long double re, long double im) { // CMPLXL, which clang does not have everywhere
  union {
    long double parts[2];
    long double complex z;
  } u = {{re, im}};
  return u.z;
}
static double part(const tc_tensor *t, bool wide, int64_t i) {
  const void *p = tc_data_of((tc_tensor *)(uintptr_t)t);
  return wide ? ((const double *)p)[i] : (double)((const float *)p)[i];
}
static long double complex number(const tc_tensor *t, bool wide, bool is_complex, int64_t i) {
  return is_complex ? pair((long double)part(t, wide, 2 * i), (long double)part(t, wide, 2 * i + 1))
                    : (long double)part(t, wide, i);
}
static void put(tc_tensor *t, bool wide, int64_t i, double v) {
  void *p = tc_data_of(t);
  if (wide) ((double *)p)[i] = v;
  else ((float *)p)[i] = (float)v;
}

static int32_t body(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  const job *j = self;
  (void)n_in, (void)n_out;
  tc_argument args[2] = {{.kind = TC_ARGUMENT_TENSOR, .v.tensor = in[0]}, tc_scalar_int(j->n)};
  return tc_call_op(NULL, ops[j->kind], 2, args, 1, out, NULL);
}

static bool give_up(const char *what) {
  fprintf(stderr, "%s: %s\n", what, tc_last_error());
  return false;
}

// A compiled function for one transform.
static tc_function *compile(report *r, job *j) {
  tc_compile_options o = {.struct_size = sizeof o, .n_inputs = 1, .n_outputs = 1, .dynamic = TC_DYNAMIC_NEVER};
  tc_function *f = NULL;
  if (tc_compile(r->context, body, j, &o, &f) != TC_STATUS_OK) give_up("compiling");
  return f;
}

static tc_tensor *draw(report *r, const job *j) {
  int64_t sizes[2] = {j->rows, j->in};
  static const tc_dtype types[2][2] = {{TC_F32, TC_C64}, {TC_F64, TC_C128}};
  tc_tensor *t = tc_new_tensor(r->context, types[j->wide][complex_in(j)], 2, sizes);
  for (int64_t i = 0; t && i < parts_in(j); i++) put(t, j->wide, i, uniform(&r->random));
  return t;
}

// ---- one transform against the exact one ----
static int64_t largest_prime(int64_t n) {
  int64_t largest = 1;
  for (int64_t p = 2; p * p <= n; p++)
    while (n % p == 0) largest = p, n /= p;
  return n > largest ? n : largest;
}
static bool is_chirp(int64_t n) { return largest_prime(n) > 16; }
static double bound(const job *j) { return j->wide ? is_chirp(j->n) ? 5e-15 : 1e-15 : is_chirp(j->n) ? 2e-6 : 5e-7; }

static double row_error(const job *j, const tc_tensor *x, const tc_tensor *y, int64_t row) {
  long double complex *a = memory((size_t)j->n, sizeof *a), *b = memory((size_t)j->n, sizeof *b);
  for (int64_t i = 0; i < j->in; i++) a[i] = number(x, j->wide, complex_in(j), row * j->in + i);
  if (j->kind == C2R) { // the imaginary parts that have no meaning are not looked at
    a[0] = creall(a[0]);
    if (j->n % 2 == 0) a[j->n / 2] = creall(a[j->n / 2]);
    for (int64_t i = j->in; i < j->n; i++) a[i] = conjl(a[j->n - i]);
  }
  exact(j->n, j->kind == INVERSE || j->kind == C2R, a, b);
  long double off = 0, all = 0;
  for (int64_t i = 0; i < j->out; i++) {
    long double complex d = number(y, j->wide, complex_out(j), row * j->out + i) - b[i];
    off += creall(d) * creall(d) + cimagl(d) * cimagl(d);
    all += creall(b[i]) * creall(b[i]) + cimagl(b[i]) * cimagl(b[i]);
  }
  free(a), free(b);
  return all > 0 ? (double)sqrtl(off / all) : off > 0 ? INFINITY : 0;
}

static void fail(report *r, const job *j, const char *what, double e, double most) {
  r->failed++;
  printf("%s of %lld rows of %lld, %s: %s %.3g, at most %.3g is right\n", ops[j->kind] + 6, (long long)j->rows,
         (long long)j->n, j->wide ? "f64" : "f32", what, e, most);
}

static void expect(report *r, const job *j, const char *what, double e, double most) {
  r->checked++;
  if (!(e <= most)) fail(r, j, what, e, most);
}

// What is not finite stays in its row: the others keep their bits.
static bool check_rows(report *r, job *j, tc_function *f, tc_tensor *x, const tc_tensor *y) {
  int64_t bad = (int64_t)(next(&r->random) % (uint64_t)j->rows), wild = (bad + 1) % j->rows;
  int64_t per_in = parts_in(j) / j->rows, per_out = parts_out(j) / j->rows, moved = 0, clean = 0;
  put(x, j->wide, bad * per_in, NAN);
  put(x, j->wide, wild * per_in, INFINITY);
  tc_tensor *z;
  if (tc_call(f, &x, &z) != TC_STATUS_OK) return give_up("calling");
  for (int64_t row = 0; row < j->rows; row++) {
    for (int64_t i = row * per_out; i < (row + 1) * per_out; i++) {
      double before = part(y, j->wide, i), after = part(z, j->wide, i);
      if (row != bad && row != wild) moved += memcmp(&before, &after, sizeof before) != 0;
    }
    for (int64_t i = 0; i < j->out && (row == bad || row == wild); i++) {
      long double complex v = number(z, j->wide, complex_out(j), row * j->out + i);
      clean += isfinite(creall(v)) && isfinite(cimagl(v));
    }
  }
  expect(r, j, "numbers that other rows' NaN and Inf changed:", (double)moved, 0);
  expect(r, j, "finite numbers in a row with NaN or Inf:", (double)clean, 0);
  return true;
}

// Complex transforms: F(a x + b x') = a F(x) + b F(x'), ‖F x‖² = n ‖x‖², F(x shifted by s)[k] = e^(-2πi sk/n) F(x)[k]
// over the rows 0 and 1 (a x + b x' is row 2, shifted row 0 is row 3), and the inverse of it all.
static bool check_properties(report *r, int64_t n, bool wide) {
  job there = job_of(C2C, wide, n, 4), back = job_of(INVERSE, wide, n, 4);
  tc_function *f = compile(r, &there), *g = compile(r, &back);
  tc_tensor *x = draw(r, &there), *y = NULL, *z = NULL;
  if (!f || !g || !x) return false;
  double a = uniform(&r->random), b = uniform(&r->random);
  int64_t s = (int64_t)(next(&r->random) % (uint64_t)n);
  for (int64_t i = 0; i < 2 * n; i++) {
    put(x, wide, 4 * n + i, a * part(x, wide, i) + b * part(x, wide, 2 * n + i));
    put(x, wide, 6 * n + i, part(x, wide, (i + 2 * s) % (2 * n)));
  }
  if (tc_call(f, &x, &y) != TC_STATUS_OK || tc_call(g, &y, &z) != TC_STATUS_OK) return give_up("calling");
  long double off[4] = {0}, all = 0, in = 0, pi = 3.14159265358979323846264338327950288L;
  for (int64_t k = 0; k < n; k++) {
    long double complex y0 = number(y, wide, true, k), y1 = number(y, wide, true, n + k);
    long double phi = 2 * pi * (long double)(s * k % n) / (long double)n;
    long double complex d = number(y, wide, true, 2 * n + k) - (a * y0 + b * y1);
    long double complex e = number(y, wide, true, 3 * n + k) - pair(cosl(phi), sinl(phi)) * y0;
    long double complex h = number(z, wide, true, k) - number(x, wide, true, k);
    off[0] += cabsl(d) * cabsl(d), off[1] += cabsl(e) * cabsl(e), off[2] += cabsl(h) * cabsl(h);
    all += cabsl(y0) * cabsl(y0);
    in += (long double)(pow(part(x, wide, 2 * k), 2) + pow(part(x, wide, 2 * k + 1), 2));
  }
  double most = 3 * bound(&there); // three transforms are compared
  expect(r, &there, "linearity is off by", (double)sqrtl(off[0] / all), most);
  expect(r, &there, "the shift theorem is off by", (double)sqrtl(off[1] / all), most);
  expect(r, &there, "there and back is off by", (double)sqrtl(off[2] / in), most);
  expect(r, &there, "Parseval's theorem is off by", (double)fabsl(sqrtl(all / (in * (long double)n)) - 1), most);
  tc_function_destroy(f), tc_function_destroy(g);
  return true;
}

static bool check_one(report *r, int32_t kind, bool wide, int64_t n) {
  // Short rows lie side by side in vectors: enough of them to fill some, and some more.
  int64_t rows = 3 + (n <= 64 ? (int64_t)(next(&r->random) % 40) : 0);
  job j = job_of(kind, wide, n, rows);
  tc_scope *scope = tc_scope_open();
  tc_function *f = compile(r, &j);
  tc_tensor *x = draw(r, &j), *y = NULL;
  bool ok = f && x && (tc_call(f, &x, &y) == TC_STATUS_OK || give_up("calling"));
  if (ok) {
    int64_t row = (int64_t)(next(&r->random) % (uint64_t)rows);
    double e = row_error(&j, x, y, row), *worst = &r->worst[wide][is_chirp(n)];
    expect(r, &j, "relative error", e, bound(&j));
    if (!(e <= *worst)) *worst = e;
    if (r->csv) fprintf(r->csv, "%lld,%s,%s,%.4g\n", (long long)n, ops[kind] + 6, wide ? "f64" : "f32", e);
    ok = check_rows(r, &j, f, x, y);
  }
  tc_function_destroy(f);
  tc_scope_close(scope);
  return ok;
}

static bool check_length(report *r, int64_t n, int32_t kinds, bool properties) {
  for (int32_t k = 0; k < KINDS; k++) {
    for (int32_t wide = 0; wide < 2; wide++)
      if (kinds & r->kinds & 1 << k && !check_one(r, k, wide, n)) return false;
  }
  if (!properties) return true;
  tc_scope *scope = tc_scope_open();
  bool ok = check_properties(r, n, false) && check_properties(r, n, true);
  tc_scope_close(scope);
  return ok;
}

static const char *option(int argc, char **argv, const char *name) {
  size_t size = strlen(name);
  for (int i = 1; i < argc; i++)
    if (strncmp(argv[i], name, size) == 0) return argv[i] + size;
  return NULL;
}

static int32_t kinds_of(const char *list) { // "fft,rfft" as bits; NULL: all
  int32_t bits = list ? 0 : (1 << KINDS) - 1;
  for (; list && *list; list += strcspn(list, ","), list += *list == ',')
    for (int32_t k = 0; k < KINDS; k++)
      if (strcspn(list, ",") == strlen(ops[k] + 10) && strncmp(list, ops[k] + 10, strlen(ops[k] + 10)) == 0)
        bits |= 1 << k;
  return bits;
}

// Each kind of plan, at its borders and inside.
static const int64_t selection[] = {1,   2,   3,   7,   8,   13,  16,   17,   45,   61,   64,   67,   100,   128,
                                    169, 210, 509, 512, 720, 997, 1009, 1024, 2047, 2048, 4096, 4099, 20011, 540000};

int main(int argc, char **argv) {
  const char *backend = option(argc, argv, "--backend="), *csv = option(argc, argv, "--csv="), *p;
  const char *lengths = option(argc, argv, "--lengths="), *random = option(argc, argv, "--random=");
  bool all = option(argc, argv, "--all") != NULL, properties = true;
  if ((p = option(argc, argv, "--properties="))) properties = *p != '0';
  char setting[64];
  snprintf(setting, sizeof setting, "backend=%s", backend ? backend : "cpu");
  const char *settings[] = {setting, "cache.enabled=false"};
  report r = {.kinds = kinds_of(option(argc, argv, "--kinds="))};
  if (tc_open(settings, 2, &r.context) != TC_STATUS_OK) return give_up("opening a context"), 2;
  r.csv = csv ? fopen(csv, "w") : NULL;
  const char *seed = getenv("TC_TEST_SEED");
  r.random = seed ? strtoull(seed, NULL, 10) : tc_run_seed();
  printf("TC_TEST_SEED=%llu, %s\n", (unsigned long long)r.random, QUAD ? "quadruple precision" : "long double only");
  bool ok = true;
  if (lengths) {
    for (char *end; ok && *lengths; lengths = *end ? end + 1 : end)
      ok = check_length(&r, strtoll(lengths, &end, 10), 15, properties);
  } else if (all) {
    for (int64_t n = 1; ok && n <= QUAD_MOST; n++) ok = check_length(&r, n, 15, properties && n % 16 == 1);
  } else {
    for (size_t i = 0; ok && i < sizeof selection / sizeof *selection; i++)
      ok = check_length(&r, selection[i], 1 << (next(&r.random) % KINDS), properties && i % 8 == 1);
  }
  int64_t count = random ? atoll(random) : all ? 100 : 0;
  for (int64_t i = 0; ok && i < count; i++)
    ok = check_length(&r, QUAD_MOST + 1 + (int64_t)(next(&r.random) % (LONGEST - QUAD_MOST)), 1 << i % KINDS,
                      properties && i % 16 == 0);
  if (r.csv) fclose(r.csv);
  tc_close(r.context);
  printf("worst relative errors: f32 %.2e (%.2e with prime factors above 16), f64 %.2e (%.2e)\n", r.worst[0][0],
         r.worst[0][1], r.worst[1][0], r.worst[1][1]);
  printf("%d passed, %d failed\n", r.checked - r.failed, r.failed + !ok);
  return r.failed || !ok;
}
