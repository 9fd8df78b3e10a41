// Accuracy of the lowered mathematical functions. Each function is lowered into a kernel, which the interpreter runs on
// random, dense and special arguments; f32 is compared with the C library's double functions, f64 with its long
// double ones (64 bits of significand). Errors are in units in the last place of the exact result.
#include <math.h>
#include <stdlib.h>

#include "tests/unit/kernel/kernel_test.h"

typedef struct function {
  int32_t op, arity;
  long double (*one)(long double);
  long double (*two)(long double, long double);
  double lo, hi;         // dense range of arguments
  double bound, bound64; // largest error in ulp; of sigmoid of a cubic see error_of
  double floor;          // results below this size are measured against it (0: none)
} function;

static long double sigmoid_q(long double x) { return x > 0 ? 1 / (1 + expl(-x)) : expl(x) / (1 + expl(x)); }
static long double rsqrt_q(long double x) { return 1 / sqrtl(x); }
static long double erf_and_one(long double x) { return 1 + erfl(x); }
static long double exp_to_one(long double x) { return x > 0 ? 1 : expl(x); }
static const double cubic[] = {0x1.98845p+0, 0x1.2444f2p-4}; // gelu's by tanh, as f32
static long double cubic_of(long double x) { return x * (cubic[0] + cubic[1] * x * x); }
static long double sigmoid_of_cubic(long double x) { return sigmoid_q(cubic_of(x)); }
// By one quotient.
static long double sigmoids(long double x, long double y) { return sigmoid_q(x) * sigmoid_q(y); }
static long double silu_gate(long double x, long double y) { return x * sigmoid_q(x) * sigmoid_q(y); }
static long double gelu_gate(long double x, long double y) { return x * sigmoid_of_cubic(x) * sigmoid_q(y); }
static bool is_gate(const function *f) { return f->two == silu_gate || f->two == gelu_gate; }
static long double log_gamma(long double x) { return lgammal(x); }

static const function functions[] = {
    {TC_K_EXP, 1, expl, NULL, -110, 95, 1.1, 1.1, 0},
    {TC_K_EXP2, 1, exp2l, NULL, -155, 130, 1.1, 1.1, 0},
    {TC_K_EXPM1, 1, expm1l, NULL, -20, 95, 1.8, 1.8, 0},
    {TC_K_LOG, 1, logl, NULL, 0, 10, 1.1, 1.1, 0},
    {TC_K_LOG2, 1, log2l, NULL, 0, 10, 1.1, 1.1, 0},
    {TC_K_LOG10, 1, log10l, NULL, 0, 10, 1.3, 1.3, 0},
    {TC_K_LOG1P, 1, log1pl, NULL, -1, 10, 1.5, 1.5, 0},
    {TC_K_SIN, 1, sinl, NULL, -100, 100, 1.1, 1.1, 0},
    {TC_K_COS, 1, cosl, NULL, -100, 100, 1.1, 1.1, 0},
    {TC_K_TAN, 1, tanl, NULL, -100, 100, 1.2, 1.2, 0},
    {TC_K_ASIN, 1, asinl, NULL, -1, 1, 1.5, 1.5, 0},
    {TC_K_ACOS, 1, acosl, NULL, -1, 1, 1.5, 1.5, 0},
    {TC_K_ATAN, 1, atanl, NULL, -10, 10, 2, 1, 0},
    {TC_K_ATAN2, 2, NULL, atan2l, -10, 10, 2, 2, 0},
    {TC_K_SINH, 1, sinhl, NULL, -91, 91, 1.8, 1.8, 0},
    {TC_K_COSH, 1, coshl, NULL, -91, 91, 1.8, 1.8, 0},
    {TC_K_TANH, 1, tanhl, NULL, -12, 12, 1.6, 1.6, 0},
    {TC_K_ASINH, 1, asinhl, NULL, -20, 20, 2, 2, 0},
    {TC_K_ACOSH, 1, acoshl, NULL, 1, 20, 2, 2, 0},
    {TC_K_ATANH, 1, atanhl, NULL, -1, 1, 2, 2, 0},
    {TC_K_ERF, 1, erfl, NULL, -5, 5, 2, 1.5, 0},
    {TC_K_ERF, 1, erf_and_one, NULL, -6, 6, 1.5, 1, 1},
    {TC_K_ERFC, 1, erfcl, NULL, -5, 11, 1.5, 1.5, 0},
    {TC_K_POW, 2, NULL, powl, -30, 30, 1.5, 1.5, 0},
    {TC_K_RSQRT, 1, rsqrt_q, NULL, 0, 10, 1.5, 1.5, 0},
    {TC_K_HYPOT, 2, NULL, hypotl, -10, 10, 1.1, 1.1, 0},
    {TC_K_FMOD, 2, NULL, fmodl, -10, 10, 0, 0, 0},
    {TC_K_SIGMOID, 1, sigmoid_q, NULL, -110, 110, 2, 2, 0},
    {TC_K_ROUND, 1, roundl, NULL, -10, 10, 0, 0, 0},
    {TC_K_CBRT, 1, cbrtl, NULL, -10, 10, 1, 1, 0},
    {TC_K_LGAMMA, 1, log_gamma, NULL, -20, 40, 4, 4, 1},
    {TC_K_EXP, 1, exp_to_one, NULL, -110, 10, 1.1, 1.1, 0},
    {TC_K_SIGMOID, 1, sigmoid_of_cubic, NULL, -12, 9, 2.5, 2.5, 0},
    {TC_K_SIGMOID, 2, NULL, sigmoids, -110, 110, 5, 5, 0},
    {TC_K_SIGMOID, 2, NULL, silu_gate, -110, 110, 5.5, 5.5, 0},
    {TC_K_SIGMOID, 2, NULL, gelu_gate, -12, 12, 5.5, 5.5, 0},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions, SAMPLES = 1 << 15 };

static uint64_t random_state;
static uint64_t random_bits(void) { // splitmix64
  uint64_t z = random_state += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

static const double specials[] = {0.0,
                                  -0.0,
                                  1,
                                  -1,
                                  0.5,
                                  -0.5,
                                  2,
                                  -2,
                                  3,
                                  -3,
                                  INFINITY,
                                  -INFINITY,
                                  NAN,
                                  1.5,
                                  2.5,
                                  -2.5,
                                  1e-45,
                                  -1e-45,
                                  1e-40,
                                  -1e-40,
                                  0x1p-126,
                                  3.4e38,
                                  -3.4e38,
                                  1e10,
                                  -1e10,
                                  8388607.5,
                                  4194303.5,
                                  0.49999997,
                                  88.7,
                                  88.73,
                                  -87.4,
                                  -103.9,
                                  -104,
                                  710,
                                  -745,
                                  5e-324,
                                  1e-310,
                                  1.7e308,
                                  -1.7e308,
                                  1e22,
                                  0x1p63,
                                  4,
                                  8,
                                  -4.5,
                                  0.875,
                                  1e300,
                                  6381956970095103.0 * 0x1p797};
enum { SPECIALS = sizeof specials / sizeof *specials };

static double to_type(tc_dtype t, double v) { return t == TC_F32 ? (double)(float)v : v; }

// Half of the arguments are dense in the range, half any bits of the type.
static double argument(const function *f, tc_dtype t, int32_t i) {
  uint64_t r = random_bits();
  double scale = t == TC_F64 && f->hi > 50 && f->op != TC_K_SIN && f->op != TC_K_COS && f->op != TC_K_TAN ? 7.9 : 1;
  if (i % 2) return to_type(t, scale * (f->lo + (f->hi - f->lo) * (double)(r >> 11) * 0x1p-53));
  return tc_kir_from_bits(t, r).re;
}

static double ulp_of(tc_dtype t, long double exact) {
  int e;
  frexpl(exact, &e);
  int least = t == TC_F32 ? -149 : -1074, bits = t == TC_F32 ? 24 : 53;
  return ldexp(1, e - bits < least ? least : e - bits);
}

// Error in ulp; inf where kinds differ (NaN, infinities, sign of zero).
static double error_of(const function *f, tc_dtype t, double x, double y, double got, long double exact) {
  long double least = is_gate(f) ? fabsl(x) * ulp_of(t, 0) : 0; // x times the least number that a sigmoid can be
  if (isinf(least) && sigmoid_q(y) < 2 * ulp_of(t, 0)) return 0;
  if (isnan(exact)) return isnan(got) ? 0 : INFINITY;
  if (isnan(got)) return INFINITY;
  double nearest = t == TC_F32 ? (double)(float)exact : (double)exact;
  if (got == nearest) return got == 0 && signbit(got) != signbit(nearest) ? INFINITY : 0;
  double top = t == TC_F32 ? 0x1p128 : 0;
  long double g = got;
  if (isinf(got)) { // as if the exponent had no end
    long double end = top != 0 ? (long double)top : scalbnl(1, 1024);
    g = got < 0 ? -end : end;
  }
  if (isinf(exact)) return INFINITY;
  long double size = fabsl(exact) < f->floor ? (long double)f->floor : fabsl(exact);
  if (f->op == TC_K_LGAMMA && x < 0 && lgammal(-x) > size) size = lgammal(-x); // a difference of two such numbers
  double error = (double)(fabsl(g - exact) / fmaxl(ulp_of(t, size), least));
  if (f->two == gelu_gate) exact = sigmoid_of_cubic(x);
  else if (f->one != sigmoid_of_cubic) return error;
  // The cubic is rounded first, and what that changes grows with it, but not where the result nears 1.
  return error / (1 + (double)(fminl(fabsl(cubic_of(x)), 750) * (1 - exact)));
}

static tc_kval cubic_body(tc_kb *b, tc_kval x) {
  tc_dtype t = tc_kb_type(b, x);
  tc_kval square = tc_kb_op2(b, TC_K_MUL, x, x);
  return tc_kb_op2(b, TC_K_MUL, x,
                   tc_kb_op3(b, TC_K_FMA, square, tc_kb_real(b, t, cubic[1]), tc_kb_real(b, t, cubic[0])));
}

// x, or gelu's cubic of x, and y.
static tc_kval sigmoids_body(tc_kb *b, const function *f, const tc_kval *a) {
  tc_kval x = f->two == gelu_gate ? cubic_body(b, a[0]) : a[0];
  tc_kval first = tc_kb_op1(b, TC_K_SIGMOID, x), second = tc_kb_op1(b, TC_K_SIGMOID, a[1]);
  return tc_kb_op2(b, TC_K_MUL, f->two == sigmoids ? first : tc_kb_op2(b, TC_K_MUL, a[0], first), second);
}

// The function alone; of erf a sum with 1, too, where only its absolute error is held, of exp of what is at most 0, and
// of sigmoid of a cubic, and products.
static tc_kval body_of(tc_kb *b, const function *f, const tc_kval *a) {
  if (f->op == TC_K_SIGMOID && f->two) return sigmoids_body(b, f, a);
  if (f->one == sigmoid_of_cubic) return tc_kb_op1(b, f->op, cubic_body(b, a[0]));
  if (f->one == exp_to_one)
    return tc_kb_op1(b, f->op, tc_kb_op2(b, TC_K_MIN, a[0], tc_kb_real(b, tc_kb_type(b, a[0]), 0)));
  tc_kval r = tc_kb_op(b, f->op, f->arity, a);
  return f->one == erf_and_one ? tc_kb_op2(b, TC_K_ADD, r, tc_kb_real(b, tc_kb_type(b, r), 1)) : r;
}

// Bytes of a vector of the devices that functions are lowered for: threads, vectors, vectors that hold a table.
static const struct {
  int32_t simd_bytes;
  const char *name;
} devices[] = {{32, ""}, {0, " in threads"}, {64, " by tables"}};
enum { DEVICES = sizeof devices / sizeof *devices };

static tc_kernel *kernel_for(tc_arena *arena, const function *f, tc_dtype t, int32_t lanes, int32_t simd_bytes) {
  tc_kb *b = tc_kb_create(arena, TC_SV("f"), lanes);
  tc_kmem x = tc_kb_global(b, TC_SV("x"), t, TC_MEM_READONLY, 16),
          y = tc_kb_global(b, TC_SV("y"), t, TC_MEM_READONLY, 16);
  tc_kmem out = tc_kb_global(b, TC_SV("out"), t, TC_MEM_WRITEONLY, 16);
  tc_kb_lanes(b);
  tc_kval i = tc_kb_op3(b, TC_K_FMA, tc_kb_block(b), tc_kb_int(b, TC_I32, lanes), tc_kb_lane(b));
  tc_kval a[2] = {tc_kb_load1(b, x, i, -1, -1), tc_kb_load1(b, y, i, -1, -1)};
  tc_kval r = body_of(b, f, a);
  tc_kb_store(b, out, i, 1, &r, -1);
  tc_kb_end_lanes(b, 0, NULL, NULL);
  tc_kernel *k, *plain, *simple;
  CHECK_OK(tc_kb_finish(b, &k));
  CHECK_OK(tc_kernel_legalise(arena, k, simd_bytes, &plain));
  CHECK_OK(tc_kernel_simplify(arena, plain, &simple));
  CHECK_OK(tc_kernel_verify_plain(simple));
  return simple;
}

static int32_t measure(tc_arena *arena, const function *f, tc_dtype t, int32_t device) {
  enum { LANES = 256 };
  int32_t n = SAMPLES;
  double *a = calloc((size_t)n * 3, sizeof *a), *b = a + n, *r = b + n;
  for (int32_t i = 0; i < n; i++) {
    a[i] = argument(f, t, i), b[i] = argument(f, t, i / 2);
    if (f->arity == 1 && i < SPECIALS) a[i] = to_type(t, specials[i]);
    if (f->arity == 2 && i < SPECIALS * SPECIALS)
      a[i] = to_type(t, specials[i % SPECIALS]), b[i] = to_type(t, specials[i / SPECIALS]);
  }
  size_t size = (size_t)tc_dtype_size(t);
  char *mem = calloc((size_t)n * 3, size);
  for (int32_t i = 0; i < 2 * n; i++) tc_kir_write(t, mem + size * (size_t)i, (tc_knum){.re = a[i]});
  tc_karg args[3] = {{.data = mem, .count = n},
                     {.data = mem + size * (size_t)n, .count = n},
                     {.data = mem + 2 * size * (size_t)n, .count = n}};
  CHECK_OK(tc_kernel_interpret(tc_system_allocator(), kernel_for(arena, f, t, LANES, devices[device].simd_bytes),
                               n / LANES, args, 3, NULL));
  double worst = -1, at = 0, at2 = 0, got = 0;
  long double want = 0;
  for (int32_t i = 0; i < n; i++) {
    r[i] = tc_kir_read(t, mem + 2 * size * (size_t)n + size * (size_t)i).re;
    long double exact = f->one ? f->one(a[i]) : f->two(a[i], b[i]);
    double e = error_of(f, t, a[i], b[i], r[i], exact);
    if (e > worst) worst = e, at = a[i], at2 = b[i], got = r[i], want = exact;
  }
  double bound = t == TC_F32 ? f->bound : f->bound64;
  printf("  %-8s %s%s  %.3f ulp%s\n", tc_k_op_text(f->op), tc_dtype_name(t), devices[device].name, worst,
         worst > bound ? "   <-- too much" : "");
  if (worst > bound)
    print_error("%s(%a, %a) in %s: got %a, exact %a\n", tc_k_op_text(f->op), at, at2, tc_dtype_name(t), got,
                (double)want);
  free(a);
  free(mem);
  return worst > bound;
}

static void accuracy(tc_arena *arena, tc_dtype t) {
  const char *only = getenv("TC_ONLY");
  random_state = tc_run_seed();
  printf("  seed %llu\n", (unsigned long long)random_state);
  int32_t bad = 0;
  for (int32_t i = 0; i < FUNCTIONS; i++)
    for (int32_t d = 0; d < DEVICES; d++)
      if (!only || !strcmp(only, tc_k_op_text(functions[i].op))) bad += measure(arena, &functions[i], t, d);
  assert_int_equal(bad, 0);
}

KERNEL_TEST(f32_accuracy) { accuracy(arena, TC_F32); }
KERNEL_TEST(f64_accuracy) { accuracy(arena, TC_F64); }

// Of f32 the sum is less code than the function alone; of f64 it is not.
KERNEL_TEST(erf_in_a_sum) {
  static const function alone = {.op = TC_K_ERF, .arity = 1, .one = erfl}, sum = {TC_K_ERF, 1, .one = erf_and_one};
  for (int32_t d = 0; d < DEVICES; d++) {
    int32_t bytes = devices[d].simd_bytes, n = kernel_for(arena, &alone, TC_F32, 8, bytes)->n_insts;
    assert_true(kernel_for(arena, &sum, TC_F32, 8, bytes)->n_insts < n - 8);
    n = kernel_for(arena, &alone, TC_F64, 8, bytes)->n_insts;
    assert_true(kernel_for(arena, &sum, TC_F64, 8, bytes)->n_insts > n);
  }
}

// An argument that is at most 0 saves the limit above, though it costs a minimum, and most of the scaling.
KERNEL_TEST(exp_to_zero) {
  static const function alone = {.op = TC_K_EXP, .arity = 1, .one = expl}, below = {TC_K_EXP, 1, .one = exp_to_one};
  for (tc_dtype t = TC_F32; t <= TC_F64; t++)
    assert_true(kernel_for(arena, &below, t, 8, 32)->n_insts <= kernel_for(arena, &alone, t, 8, 32)->n_insts - 5);
}

static int32_t operations(const tc_kernel *k) {
  int32_t n = 0;
  for (int32_t i = 0; i < k->n_insts; i++) n += k->insts[i].op != TC_K_CONST;
  return n;
}

// The cubic is not made twice.
KERNEL_TEST(sigmoid_of_a_cubic) {
  static const function alone = {.op = TC_K_SIGMOID, .arity = 1, .one = sigmoid_q},
                        of_cubic = {TC_K_SIGMOID, 1, .one = sigmoid_of_cubic};
  for (tc_dtype t = TC_F32; t <= TC_F64; t++)
    assert_true(operations(kernel_for(arena, &of_cubic, t, 8, 0)) <=
                operations(kernel_for(arena, &alone, t, 8, 0)) + 2);
}

// A product of two has one quotient, whatever is added to it; not one that needs a sigmoid by itself, or another factor
// of any size.
static int32_t quotients(tc_arena *arena, void (*body)(tc_kb *b, tc_kval x, tc_kval y, tc_kval *out)) {
  tc_kb *b = tc_kb_create(arena, TC_SV("f"), 8);
  tc_kmem in = tc_kb_global(b, TC_SV("in"), TC_F32, TC_MEM_READONLY, 16),
          out = tc_kb_global(b, TC_SV("out"), TC_F32, TC_MEM_WRITEONLY, 16);
  tc_kb_lanes(b);
  tc_kval i = tc_kb_op2(b, TC_K_MUL, tc_kb_lane(b), tc_kb_int(b, TC_I32, 2)), r[2];
  tc_kval next = tc_kb_op2(b, TC_K_ADD, i, tc_kb_int(b, TC_I32, 1));
  body(b, tc_kb_load1(b, in, i, -1, -1), tc_kb_load1(b, in, next, -1, -1), r);
  tc_kb_store(b, out, i, 1, &r[0], -1);
  tc_kb_store(b, out, next, 1, &r[1], -1);
  tc_kb_end_lanes(b, 0, NULL, NULL);
  tc_kernel *k, *plain;
  CHECK_OK(tc_kb_finish(b, &k));
  CHECK_OK(tc_kernel_legalise(arena, k, 32, &plain));
  int32_t n = 0;
  for (int32_t j = 0; j < plain->n_insts; j++) n += plain->insts[j].op == TC_K_DIV;
  return n;
}

static tc_kval of(tc_kb *b, tc_kval x) { return tc_kb_op1(b, TC_K_SIGMOID, x); }
static tc_kval times(tc_kb *b, tc_kval x, tc_kval y) { return tc_kb_op2(b, TC_K_MUL, x, y); }
static void gate(tc_kb *b, tc_kval x, tc_kval y, tc_kval *r) { r[0] = r[1] = times(b, of(b, x), of(b, y)); }
static void silus_and_x(tc_kb *b, tc_kval x, tc_kval y, tc_kval *r) {
  r[0] = r[1] = tc_kb_op3(b, TC_K_FMA, times(b, x, of(b, x)), times(b, of(b, y), y), x);
}
static void also_alone(tc_kb *b, tc_kval x, tc_kval y, tc_kval *r) {
  r[0] = of(b, x);
  r[1] = times(b, r[0], of(b, y));
}
static void of_any_size(tc_kb *b, tc_kval x, tc_kval y, tc_kval *r) {
  r[0] = r[1] = times(b, times(b, y, of(b, x)), of(b, y));
}

KERNEL_TEST(products_of_sigmoids) {
  assert_int_equal(quotients(arena, gate), 1);
  assert_int_equal(quotients(arena, silus_and_x), 1);
  assert_int_equal(quotients(arena, also_alone), 2);
  assert_int_equal(quotients(arena, of_any_size), 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(f32_accuracy),       cmocka_unit_test(f64_accuracy),
                                     cmocka_unit_test(erf_in_a_sum),       cmocka_unit_test(exp_to_zero),
                                     cmocka_unit_test(sigmoid_of_a_cubic), cmocka_unit_test(products_of_sigmoids)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
