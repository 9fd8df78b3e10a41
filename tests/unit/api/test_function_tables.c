// Functions of one and two complex numbers at the points of tests/data/complex_functions.txt, on the references and on
// the cpu backend in both precisions: errors in units of the last place of the value's size (its modulus), branches by
// the signs of zeros, and where C's annex G says what infinities and NaN give. All bounds are 4.
#include <math.h>

#include "core/base/fs.h"
#include "core/base/lex.h"
#include "tests/unit/api/backends.h"

enum { MOST = 512 };

typedef struct function {
  const char *name;
  tc_tensor *(*one)(const char *here, tc_tensor *self);
  tc_tensor *(*two)(const char *here, tc_tensor *self, tc_tensor *other);
  double bound; // ulp of |value|, in either precision
} function;

#define POWER(name, exponent)                                      \
  static tc_tensor *power_##name(const char *here, tc_tensor *z) { \
    return tc_aten_pow_Tensor_Scalar_at(here, z, exponent);        \
  }
POWER(half, tc_scalar_real(0.5))
POWER(inverse, tc_scalar_int(-1))
POWER(cube, tc_scalar_int(3))
POWER(real, tc_scalar_real(2.5))
POWER(seventh, tc_scalar_int(-7))
POWER(complex, tc_scalar_complex(1, -2))
static tc_tensor *base_3(const char *here, tc_tensor *z) {
  return tc_aten_pow_Scalar_at(here, NULL, tc_scalar_int(3), z);
}
static tc_tensor *base_complex(const char *here, tc_tensor *z) {
  return tc_aten_pow_Scalar_at(here, NULL, tc_scalar_complex(-1, 0.5), z);
}
static tc_tensor *polar(const char *here, tc_tensor *size, tc_tensor *angle) {
  return tc_aten_polar_at(here, tc_aten_real_at(here, size), tc_aten_real_at(here, angle));
}

#define F(name) {#name, tc_aten_##name##_at, NULL, 4}
#define F2(name, call) {#name, NULL, tc_aten_##call##_at, 4}
static const function functions[] = {
    F(exp),
    F(exp2),
    F(expm1),
    F(log),
    F(log2),
    F(log10),
    F(log1p),
    F(sqrt),
    F(rsqrt),
    F(reciprocal),
    F(square),
    F(sin),
    F(cos),
    F(tan),
    F(asin),
    F(acos),
    F(atan),
    F(sinh),
    F(cosh),
    F(tanh),
    F(asinh),
    F(acosh),
    F(atanh),
    F(sigmoid),
    F(silu),
    F(sgn),
    F(abs),
    F(angle),
    F(sinc),

    {"square_root", power_half, NULL, 4},
    {"inverse", power_inverse, NULL, 4},
    {"cube", power_cube, NULL, 4},
    {"power_2.5", power_real, NULL, 4},
    {"power_-7", power_seventh, NULL, 4},
    {"power_1-2i", power_complex, NULL, 4},
    {"base_3", base_3, NULL, 4},
    {"base_-1+0.5i", base_complex, NULL, 4},
    F2(mul, mul_Tensor),
    F2(div, div_Tensor),
    F2(pow, pow_Tensor_Tensor),
    F2(float_power, float_power_Tensor_Tensor),
    F2(logaddexp, logaddexp),
    {"polar", NULL, polar, 4},
};

typedef struct row {
  double at[4], want[2]; // one point or two
  bool open[2];          // nothing is said about the part
} row;

static tc_sv next_word(tc_sv *line) {
  tc_sv word;
  *line = tc_sv_cut(*line, ' ', &word);
  return word;
}

// The rows of one function.
static int32_t read_rows(tc_sv text, const char *name, int32_t parts, row *out) {
  int32_t n = 0;
  while (text.size) {
    tc_sv line;
    text = tc_sv_cut(text, '\n', &line);
    if (!tc_sv_is(next_word(&line), name)) continue;
    for (; line.size; n++) {
      assert_true(n < MOST);
      for (int32_t k = 0; k < parts + 2; k++) {
        tc_sv word = next_word(&line);
        double v = 0;
        bool open = k >= parts && tc_sv_is(word, "?");
        if (!open) assert_true(tc_sv_to_double(word, &v));
        if (k < parts) out[n].at[k] = v;
        else out[n].want[k - parts] = v, out[n].open[k - parts] = open;
      }
    }
  }
  return n;
}

static double element(tc_tensor *t, int64_t i, int32_t part) {
  switch (tc_dtype_of(t)) {
  case TC_C128: return ((const double *)tc_data_of(t))[2 * i + part];
  case TC_C64: return (double)((const float *)tc_data_of(t))[2 * i + part];
  case TC_F64: return part ? 0 : ((const double *)tc_data_of(t))[i];
  default: return part ? 0 : (double)((const float *)tc_data_of(t))[i];
  }
}

// Is the part as the row has it? `size`: the modulus of the value, in whose units errors are measured.
static bool is_right(double have, double want, double size, double eps, double bound, double least) {
  if (isnan(want)) return isnan(have);
  if (isinf(want)) return have == want;
  if (want == 0 && have == 0) return signbit(want) == signbit(have);
  return fabs(have - want) <= bound * fmax(eps * size, least);
}

static tc_tensor *points(tc_context *c, const row *rows, int32_t n, int32_t first, bool wide) {
  tc_tensor *x = tc_new_tensor(c, wide ? TC_C128 : TC_C64, 1, (int64_t[]){n});
  assert_non_null(x);
  for (int32_t i = 0; i < 2 * n; i++) {
    double v = rows[i / 2].at[first + i % 2];
    if (wide) ((double *)tc_data_of(x))[i] = v;
    else ((float *)tc_data_of(x))[i] = (float)v;
  }
  return x;
}

static bool is_narrow(const double *at, int32_t n) { // does f32 have the point, too?
  for (int32_t k = 0; k < n; k++)
    if ((double)(float)at[k] != at[k] && !isnan(at[k])) return false;
  return true;
}

static int32_t check(const char *backend, const function *f, const row *rows, int32_t n, tc_context *c, bool wide) {
  const double eps = wide ? 0x1p-52 : 0x1p-23, least = wide ? 0x1p-1074 : 0x1p-149, most = wide ? INFINITY : 3.4e38;
  int32_t failed = 0;
  tc_scope *s = tc_scope_open();
  tc_tensor *x = points(c, rows, n, 0, wide), *y = f->two ? points(c, rows, n, 2, wide) : NULL;
  y = f->two ? f->two(TC_HERE, x, y) : f->one(TC_HERE, x);
  if (!y) fail_msg("%s on %s: %s", f->name, backend, tc_last_error());
  for (int32_t i = 0; i < n; i++) {
    const row *r = &rows[i];
    double size = hypot(isfinite(r->want[0]) ? r->want[0] : 0, isfinite(r->want[1]) ? r->want[1] : 0);
    if ((isfinite(size) && size > most) || (!wide && !is_narrow(r->at, f->two ? 4 : 2))) continue;
    bool real = tc_dtype_of(y) == TC_F64 || tc_dtype_of(y) == TC_F32, ok = true;
    for (int32_t p = 0; p < (real ? 1 : 2); p++)
      ok = ok && (r->open[p] || is_right(element(y, i, p), r->want[p], size, eps, f->bound, least));
    if (ok) continue;
    failed++;
    print_error("%s of %s on %s: at %.9g%+.9gi, %.9g%+.9gi is %.17g%+.17gi, not %.17g%+.17gi\n", f->name,
                wide ? "c128" : "c64", backend, r->at[0], r->at[1], r->at[2], r->at[3], element(y, i, 0),
                element(y, i, 1), r->want[0], r->want[1]);
  }
  tc_scope_close(s);
  return failed;
}

static void functions_of_complex_numbers(void **state) {
  (void)state;
  tc_arena *arena;
  tc_sv text;
  static row rows[MOST];
  int32_t failed = 0;
  assert_ok(tc_arena_create(tc_system_allocator(), &arena));
  assert_ok(tc_file_read(arena, TC_SOURCE_DIR "/tests/data/complex_functions.txt", &text));
  for (size_t b = 0; b < sizeof backends / sizeof *backends; b++) {
    tc_context *c = open_backend(backends[b], "strict=true");
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
      int32_t n = read_rows(text, functions[i].name, functions[i].two ? 4 : 2, rows);
      assert_true(n > 20);
      for (int32_t wide = 0; wide < 2; wide++) failed += check(backends[b], &functions[i], rows, n, c, wide);
    }
    tc_close(c);
  }
  tc_arena_destroy(arena);
  assert_int_equal(failed, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(functions_of_complex_numbers)};
  return TC_RUN(tests);
}
