// Functions of complex numbers at the points of tests/data/complex_functions.txt, on the references and on the cpu
// backend in both precisions: errors in units of the last place of the value's size (its modulus), branches by the
// signs of zeros, and where C's annex G says what infinities and NaN give. Bounds are 4 except for exp2, whose angle is
// a rounded product.
#include <math.h>

#include "core/base/fs.h"
#include "core/base/lex.h"
#include "tests/unit/api/backends.h"

enum { MOST = 256 };

typedef struct function {
  const char *name;
  tc_tensor *(*call)(const char *here, tc_tensor *self);
  double bound; // ulp of |value|, in either precision
} function;

#define F(name, bound) {#name, tc_aten_##name##_at, bound}
static const function functions[] = {
    F(exp, 4),   F(exp2, 16), F(expm1, 4),      F(log, 4),    F(log2, 4), F(log10, 4), F(log1p, 4),
    F(sqrt, 4),  F(rsqrt, 4), F(reciprocal, 4), F(square, 4), F(sin, 4),  F(cos, 4),   F(tan, 4),
    F(asin, 4),  F(acos, 4),  F(atan, 4),       F(sinh, 4),   F(cosh, 4), F(tanh, 4),  F(asinh, 4),
    F(acosh, 4), F(atanh, 4), F(sigmoid, 4),    F(silu, 4),   F(sgn, 4),  F(abs, 4),   F(angle, 4),
};

typedef struct row {
  double at[2], want[2];
  bool open[2]; // nothing is said about the part
} row;

static tc_sv next_word(tc_sv *line) {
  tc_sv word;
  *line = tc_sv_cut(*line, ' ', &word);
  return word;
}

// The rows of one function.
static int32_t read_rows(tc_sv text, const char *name, row *out) {
  int32_t n = 0;
  while (text.size) {
    tc_sv line;
    text = tc_sv_cut(text, '\n', &line);
    if (!tc_sv_is(next_word(&line), name)) continue;
    for (; line.size; n++) {
      assert_true(n < MOST);
      for (int32_t k = 0; k < 4; k++) {
        tc_sv word = next_word(&line);
        double v = 0;
        bool open = k >= 2 && tc_sv_is(word, "?");
        if (!open) assert_true(tc_sv_to_double(word, &v));
        if (k < 2) out[n].at[k] = v;
        else out[n].want[k - 2] = v, out[n].open[k - 2] = open;
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

static int32_t check(const char *backend, const function *f, const row *rows, int32_t n, tc_context *c, bool wide) {
  const double eps = wide ? 0x1p-52 : 0x1p-23, least = wide ? 0x1p-1074 : 0x1p-149, most = wide ? INFINITY : 3.4e38;
  int32_t failed = 0;
  tc_scope *s = tc_scope_open();
  tc_tensor *x = tc_new_tensor(c, wide ? TC_C128 : TC_C64, 1, (int64_t[]){n});
  assert_non_null(x);
  for (int32_t i = 0; i < 2 * n; i++) {
    if (wide) ((double *)tc_data_of(x))[i] = rows[i / 2].at[i % 2];
    else ((float *)tc_data_of(x))[i] = (float)rows[i / 2].at[i % 2];
  }
  tc_tensor *y = f->call(TC_HERE, x);
  if (!y) fail_msg("%s on %s: %s", f->name, backend, tc_last_error());
  for (int32_t i = 0; i < n; i++) {
    const row *r = &rows[i];
    double size = hypot(isfinite(r->want[0]) ? r->want[0] : 0, isfinite(r->want[1]) ? r->want[1] : 0);
    if (isfinite(size) && size > most) continue;
    bool real = tc_dtype_of(y) == TC_F64 || tc_dtype_of(y) == TC_F32, ok = true;
    for (int32_t p = 0; p < (real ? 1 : 2); p++)
      ok = ok && (r->open[p] || is_right(element(y, i, p), r->want[p], size, eps, f->bound, least));
    if (ok) continue;
    failed++;
    print_error("%s of %s on %s: at %.9g%+.9gi is %.17g%+.17gi, not %.17g%+.17gi\n", f->name, wide ? "c128" : "c64",
                backend, r->at[0], r->at[1], element(y, i, 0), element(y, i, 1), r->want[0], r->want[1]);
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
      int32_t n = read_rows(text, functions[i].name, rows);
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
