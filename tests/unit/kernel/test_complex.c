// The complex expansion against the C library's long double complex functions, and against Annex G at special values.
// Errors are measured on the whole number (|got - exact| / |exact|, in epsilons of the part's type).
#include <math.h>
#include <stdlib.h>

#include "core/base/complex_parts.h"
#include "tests/unit/kernel/kernel_test.h"

#undef I

typedef long double complex lc;

static lc add(lc x, lc y) { return x + y; }
static lc sub(lc x, lc y) { return x - y; }
static lc mul(lc x, lc y) { return x * y; }
static lc divide(lc x, lc y) { return x / y; }
static lc negate(lc x) { return -x; }
static lc absolute(lc x) { return cabsl(x); }
static lc abs2(lc x) { return creall(x) * creall(x) + cimagl(x) * cimagl(x); }
static lc angle(lc x) { return cargl(x); }
static lc rsqrt(lc x) { return 1 / csqrtl(x); }
static lc exp2_(lc x) { return cexpl(x * 0.6931471805599453094172321214581766L); }
static lc expm1_(lc z) {
  long double x = creall(z), y = cimagl(z), h = sinl(y / 2);
  return CMPLXL(expm1l(x) - 2 * expl(x) * h * h, expl(x) * sinl(y));
}
static lc log2_(lc x) { return clogl(x) / 0.6931471805599453094172321214581766L; }
static lc log10_(lc x) { return clogl(x) / 2.302585092994045684017991454684364L; }
static lc log1p_(lc z) {
  long double x = creall(z), y = cimagl(z);
  if (fabsl(x) + fabsl(y) > 0.3L) return clogl(1 + z);
  return CMPLXL(0.5L * log1pl(x * (2 + x) + y * y), atan2l(y, 1 + x));
}
static lc sigmoid(lc x) { return 1 / (1 + cexpl(-x)); }

typedef struct function {
  int32_t op, arity;
  lc (*one)(lc);
  lc (*two)(lc, lc);
  double size, bound; // arguments up to this size; bound in epsilons
} function;

static const function functions[] = {
    {TC_K_ADD, 2, NULL, add, 10, 1},          {TC_K_SUB, 2, NULL, sub, 10, 1},
    {TC_K_MUL, 2, NULL, mul, 10, 2},          {TC_K_DIV, 2, NULL, divide, 10, 3},
    {TC_K_NEG, 1, negate, NULL, 10, 0},       {TC_K_CONJ, 1, conjl, NULL, 10, 0},
    {TC_K_ABS, 1, absolute, NULL, 10, 1},     {TC_K_ABS2, 1, abs2, NULL, 10, 1},
    {TC_K_ANGLE, 1, angle, NULL, 10, 2},      {TC_K_SQRT, 1, csqrtl, NULL, 10, 2},
    {TC_K_RSQRT, 1, rsqrt, NULL, 10, 4},      {TC_K_EXP, 1, cexpl, NULL, 20, 2},
    {TC_K_EXP2, 1, exp2_, NULL, 100, 4},      {TC_K_EXPM1, 1, expm1_, NULL, 5, 3},
    {TC_K_LOG, 1, clogl, NULL, 4, 2.5},       {TC_K_LOG2, 1, log2_, NULL, 4, 4},
    {TC_K_LOG10, 1, log10_, NULL, 4, 4},      {TC_K_LOG1P, 1, log1p_, NULL, 2, 4},
    {TC_K_SIN, 1, csinl, NULL, 20, 3},        {TC_K_COS, 1, ccosl, NULL, 20, 3},
    {TC_K_TAN, 1, ctanl, NULL, 20, 6},        {TC_K_SINH, 1, csinhl, NULL, 20, 3},
    {TC_K_COSH, 1, ccoshl, NULL, 20, 3},      {TC_K_TANH, 1, ctanhl, NULL, 20, 6},
    {TC_K_ASIN, 1, casinl, NULL, 4, 5},       {TC_K_ACOS, 1, cacosl, NULL, 4, 5},
    {TC_K_ATAN, 1, catanl, NULL, 4, 5},       {TC_K_ASINH, 1, casinhl, NULL, 4, 5},
    {TC_K_ACOSH, 1, cacoshl, NULL, 4, 5},     {TC_K_ATANH, 1, catanhl, NULL, 4, 5},
    {TC_K_POW, 2, NULL, cpowl, 9, 4},         {TC_K_SIGMOID, 1, sigmoid, NULL, 10, 3},
    {TC_K_SIGMOID, 1, sigmoid, NULL, 100, 3},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions, LANES = 128, SAMPLES = 1 << 13 };

static uint64_t random_state;
static double uniform(void) { // [-1, 1)
  uint64_t z = random_state += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return (double)(int64_t)(z ^ (z >> 31)) * 0x1p-63;
}

static tc_kernel *kernel_for(tc_arena *arena, const function *f, tc_dtype t, bool plain) {
  tc_kb *b = tc_kb_create(arena, TC_SV("f"), LANES);
  tc_kmem x = tc_kb_global(b, TC_SV("x"), t, TC_MEM_READONLY, 16),
          y = tc_kb_global(b, TC_SV("y"), t, TC_MEM_READONLY, 16);
  tc_kmem out = tc_kb_global(b, TC_SV("out"), t, TC_MEM_WRITEONLY, 16);
  tc_kb_lanes(b);
  tc_kval i = tc_kb_op3(b, TC_K_FMA, tc_kb_block(b), tc_kb_int(b, TC_I32, LANES), tc_kb_lane(b));
  tc_kval a[2] = {tc_kb_load1(b, x, i, -1, -1), tc_kb_load1(b, y, i, -1, -1)};
  tc_kval r = tc_kb_cast(b, t, tc_kb_op(b, f->op, f->arity, a));
  tc_kb_store(b, out, i, 1, &r, -1);
  tc_kb_end_lanes(b, 0, NULL, NULL);
  tc_kernel *k, *legal;
  CHECK_OK(tc_kb_finish(b, &k));
  CHECK_OK(tc_kernel_legalise(arena, k, 32, &legal));
  return plain ? legal : k;
}

// Runs the legalised function on pairs; args and results as parts.
static void evaluate(tc_arena *arena, const function *f, tc_dtype t, int32_t n, const double *x, const double *y,
                     double *out) {
  size_t size = (size_t)tc_dtype_size(t);
  int32_t blocks = (n + LANES - 1) / LANES, room = blocks * LANES;
  char *mem = calloc((size_t)room * 3, size);
  for (int32_t i = 0; i < n; i++) {
    tc_kir_write(t, mem + size * (size_t)i, (tc_knum){.re = x[2 * i], .im = x[2 * i + 1]});
    tc_kir_write(t, mem + size * (size_t)(room + i), (tc_knum){.re = y[2 * i], .im = y[2 * i + 1]});
  }
  tc_karg args[3];
  for (int32_t i = 0; i < 3; i++) args[i] = (tc_karg){.data = mem + size * (size_t)(i * room), .count = 2 * room};
  CHECK_OK(tc_kernel_interpret(tc_system_allocator(), kernel_for(arena, f, t, true), blocks, args, 3, NULL));
  for (int32_t i = 0; i < n; i++) {
    tc_knum v = tc_kir_read(t, mem + size * (size_t)(2 * room + i));
    out[2 * i] = v.re, out[2 * i + 1] = v.im;
  }
  free(mem);
}

static int32_t measure(tc_arena *arena, const function *f, tc_dtype t) {
  double *x = calloc(6 * SAMPLES, sizeof *x), *y = x + 2 * SAMPLES, *r = y + 2 * SAMPLES;
  for (int32_t i = 0; i < 2 * SAMPLES; i++) {
    double small = (i / 2) % 3 == 0 ? 1e-3 : 1; // some arguments are small
    x[i] = tc_kir_round(t, small * f->size * uniform()), y[i] = tc_kir_round(t, f->size * uniform());
  }
  for (int32_t i = 0; i < SAMPLES / 4; i++) { // some near the unit circle and near one axis
    double phi = 3.2 * uniform(), s = 1 + 1e-4 * uniform();
    x[8 * i] = tc_kir_round(t, s * cos(phi)), x[8 * i + 1] = tc_kir_round(t, s * sin(phi));
    x[8 * i + 3] = tc_kir_round(t, 1e-6 * uniform());
  }
  evaluate(arena, f, t, SAMPLES, x, y, r);
  double eps = t == TC_C64 ? 0x1p-23 : 0x1p-52, worst = 0, at = 0;
  for (int32_t i = 0; i < SAMPLES; i++) {
    lc a = CMPLXL(x[2 * i], x[2 * i + 1]), b = CMPLXL(y[2 * i], y[2 * i + 1]), want = f->one ? f->one(a) : f->two(a, b);
    if (!((double)cabsl(want) < (t == TC_C64 ? 0x1p127 : 0x1p1023))) continue; // a part may be infinite
    long double unit = fmaxl(cabsl(want) * eps, t == TC_C64 ? 0x1p-149L : 0x1p-1074L);
    double e = (double)(cabsl(CMPLXL(r[2 * i], r[2 * i + 1]) - want) / unit);
    if (!(e <= worst)) worst = e, at = i;
  }
  bool bad = !(worst <= f->bound);
  printf("  %-8s %s  %.3f eps%s\n", tc_k_op_text(f->op), tc_dtype_name(t), worst, bad ? "   <-- too much" : "");
  int32_t i = (int32_t)at;
  if (bad) {
    lc a = CMPLXL(x[2 * i], x[2 * i + 1]), b = CMPLXL(y[2 * i], y[2 * i + 1]), want = f->one ? f->one(a) : f->two(a, b);
    print_error("%s((%a, %a), (%a, %a)) in %s: got (%.9g, %.9g), exact (%.9g, %.9g)\n", tc_k_op_text(f->op), x[2 * i],
                x[2 * i + 1], y[2 * i], y[2 * i + 1], tc_dtype_name(t), r[2 * i], r[2 * i + 1], (double)creall(want),
                (double)cimagl(want));
  }
  free(x);
  return bad;
}

KERNEL_TEST(accuracy) {
  random_state = tc_run_seed();
  printf("  seed %llu\n", (unsigned long long)random_state);
  int32_t bad = 0;
  for (int32_t i = 0; i < FUNCTIONS; i++)
    bad += measure(arena, &functions[i], TC_C64) + measure(arena, &functions[i], TC_C128);
  assert_int_equal(bad, 0);
}

// ---- Annex G ----

static const double parts[] = {0.0, -0.0, 1, -2, INFINITY, -INFINITY, NAN};
enum { PARTS = sizeof parts / sizeof *parts, PAIRS = PARTS * PARTS };

static bool same(double got, double want) {
  if (isnan(want)) return isnan(got);
  if (want == 0 || isinf(want)) return got == want && signbit(got) == signbit(want);
  return fabs(got - want) <= 1e-14 * fabs(want);
}

static void special_values(tc_arena *arena, int32_t op, lc (*exact)(lc)) {
  double x[2 * PAIRS], y[2 * PAIRS] = {0}, r[2 * PAIRS];
  for (int32_t i = 0; i < PAIRS; i++) x[2 * i] = parts[i % PARTS], x[2 * i + 1] = parts[i / PARTS];
  evaluate(arena, &(function){.op = op, .arity = 1}, TC_C128, PAIRS, x, y, r);
  int32_t bad = 0;
  for (int32_t i = 0; i < PAIRS; i++) {
    lc w = exact(CMPLXL(x[2 * i], x[2 * i + 1]));
    double re = (double)creall(w), im = (double)cimagl(w);
    // Annex G leaves signs open where a part is NaN, and some where both are infinite.
    bool open = isnan(re) || isnan(im) || (isinf(x[2 * i]) && isinf(x[2 * i + 1])),
         ok = same(r[2 * i], re) && same(r[2 * i + 1], im);
    if (open)
      ok = (isnan(re) ? isnan(r[2 * i]) : same(fabs(r[2 * i]), fabs(re))) &&
           (isnan(im) ? isnan(r[2 * i + 1]) : same(fabs(r[2 * i + 1]), fabs(im)));
    if (!ok)
      print_error("%s(%g, %g): got (%g, %g), Annex G (%g, %g)\n", tc_k_op_text(op), x[2 * i], x[2 * i + 1], r[2 * i],
                  r[2 * i + 1], re, im);
    bad += !ok;
  }
  assert_int_equal(bad, 0);
}

KERNEL_TEST(annex_g) {
  special_values(arena, TC_K_SQRT, csqrtl);
  special_values(arena, TC_K_EXP, cexpl);
  special_values(arena, TC_K_LOG, clogl);
  special_values(arena, TC_K_SIN, csinl);
  special_values(arena, TC_K_COS, ccosl);
  special_values(arena, TC_K_TAN, ctanl);
  special_values(arena, TC_K_SINH, csinhl);
  special_values(arena, TC_K_COSH, ccoshl);
  special_values(arena, TC_K_TANH, ctanhl);
  special_values(arena, TC_K_ASIN, casinl);
  special_values(arena, TC_K_ACOS, cacosl);
  special_values(arena, TC_K_ATAN, catanl);
  special_values(arena, TC_K_ASINH, casinhl);
  special_values(arena, TC_K_ACOSH, cacoshl);
  special_values(arena, TC_K_ATANH, catanhl);
}

static void one_value(tc_arena *arena, int32_t op, tc_dtype t, const double *x, const double *y, double re, double im) {
  double r[2];
  evaluate(arena, &(function){.op = op, .arity = y ? 2 : 1}, t, 1, x, y ? y : x, r);
  re = tc_kir_round(t, re), im = tc_kir_round(t, im);
  if (!same(r[0], re) || !same(r[1], im))
    fail_msg("%s: got (%a, %a), expected (%a, %a)", tc_k_op_text(op), r[0], r[1], re, im);
}

KERNEL_TEST(known_values) {
  const double big[2] = {1e20, 1e20}, tiny[2] = {1e-8, 0}, minus4[2] = {-4, 0}, zero[2] = {0, 0}, two[2] = {2, 0},
               inf[2] = {INFINITY, NAN}, aside[2] = {2, INFINITY};
  const double z[2] = {3.1, -2.7}, conj[2] = {3.1, 2.7}, tiny2[2] = {1e-42, 1e-42}, least[2] = {0, 0x1p-149};
  one_value(arena, TC_K_DIV, TC_C64, big, big, 1, 0);
  one_value(arena, TC_K_DIV, TC_C64, tiny2, tiny2, 1, 0);
  one_value(arena, TC_K_LOG1P, TC_C64, tiny, NULL, 1e-8, 0);
  one_value(arena, TC_K_SQRT, TC_C64, minus4, NULL, 0, 2);
  one_value(arena, TC_K_DIV, TC_C64, two, zero, INFINITY, NAN);
  one_value(arena, TC_K_DIV, TC_C64, two, inf, NAN, NAN);                                       // as PyTorch
  one_value(arena, TC_K_LOG, TC_C64, least, NULL, -0x1.9d1d9fccf4778p+6, 0x1.921fb54442d18p+0); // 2^-149 i
  one_value(arena, TC_K_POW, TC_C64, zero, two, 0, 0);
  one_value(arena, TC_K_POW, TC_C64, zero, inf, 0, 0);
  one_value(arena, TC_K_POW, TC_C64, zero, aside, NAN, NAN);
  one_value(arena, TC_K_POW, TC_C64, zero, zero, NAN, NAN);
  double r[2];
  evaluate(arena, &(function){.op = TC_K_MUL, .arity = 2}, TC_C64, 1, z, conj, r);
  assert_true(r[1] == 0);
}

KERNEL_TEST(half_precision_complex) {
  // Each operation is done in f32 and rounded to the parts' type.
  function f = {.op = TC_K_MUL, .arity = 2};
  const double x[2] = {1.5, 0.1}, y[2] = {2.25, -3};
  double r[2], xr[2], yr[2];
  for (int32_t i = 0; i < 2; i++) xr[i] = tc_kir_round(TC_F16, x[i]), yr[i] = tc_kir_round(TC_F16, y[i]);
  evaluate(arena, &f, TC_C32, 1, x, y, r);
  float re = (float)xr[0] * (float)yr[0] - (float)xr[1] * (float)yr[1],
        im = (float)xr[0] * (float)yr[1] + (float)xr[1] * (float)yr[0];
  assert_true(r[0] == tc_kir_round(TC_F16, re) && r[1] == tc_kir_round(TC_F16, im));
}

KERNEL_TEST(complex_memory_and_control_flow) {
  // Shared memory, loops, branches, reductions and tables of complex type, before and after legalisation.
  tc_kernel *k = kernel_of(
      arena, "kernel @k (%x : global c64 readonly, %y : global c64, %n : i32) blocks 1 lanes 4 {\n  shared %s : "
             "c64[4]\n  lane_array %v : c64[2]\n  table %t : c64 = [1.0, 2.0, 3.0, -4.0]\n"
             "  %q = lanes {\n    %l = lane\n    %a, %b = load.v2 %x[0]\n    %z = complex 0.0, 1.0 : f32\n"
             "    %sum = for %i = 0 to %n (%c = %z) {\n      %e = load %x[%i]\n      %d = mul %c, %e\n      %f = add "
             "%d, %a\n      yield %f\n    }\n"
             "    store %v[0], %sum\n    %g = load %v[0]\n    %h = load %t[1]\n    %p = mul %g, %h\n    store %s[%l], "
             "%p\n    %lf = cast %l : f32\n    %lc = cast %lf : c64\n    %w = mul %p, %lc\n    yield %w\n  }\n"
             "  %r = reduce.add %q\n  barrier\n  %re = real %r\n  %cond = gt %re, 0.0\n  %u = if %cond {\n    yield "
             "%r\n  } else {\n    %m = conj %r\n    yield %m\n  }\n"
             "  lanes {\n    %l2 = lane\n    %o = load %s[%l2]\n    %is = eq %l2, 0\n    %o2 = select %is, %u, %o\n    "
             "store %y[%l2], %o2\n  }\n}\n");
  tc_kernel *plain;
  CHECK_OK(tc_kernel_legalise(arena, k, 32, &plain));
  float x[8] = {1, 0.5f, -0.25f, 2, 0.5f, 0.5f, -1, 0.125f}, y1[8], y2[8];
  tc_karg args[3] = {{.data = x, .count = 4}, {.data = y1, .count = 4}, {.bits = 3}};
  CHECK_OK(tc_kernel_interpret(tc_system_allocator(), k, 1, args, 3, NULL));
  args[0].count = 8, args[1] = (tc_karg){.data = y2, .count = 8};
  CHECK_OK(tc_kernel_interpret(tc_system_allocator(), plain, 1, args, 3, NULL));
  for (int32_t i = 0; i < 8; i++) assert_true(fabsf(y1[i] - y2[i]) <= 1e-6f * fabsf(y1[i]) + 1e-6f);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(accuracy), cmocka_unit_test(annex_g),
                                     cmocka_unit_test(known_values), cmocka_unit_test(half_precision_complex),
                                     cmocka_unit_test(complex_memory_and_control_flow)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
