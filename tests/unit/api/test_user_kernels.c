// Kernels by hand through the embedder's API: eager and compiled, sizes that change, derivatives, what is refused.
#include <math.h>

#include "tests/unit/api/backends.h"

static const char *const with_opencl[] = {"ref", "cpu", "opencl"};

static const char definitions[] =
    "op \"user::scale_add(Tensor x, Tensor y, float alpha) -> Tensor\" {\n"
    "  x : T[...]\n  y : T[...]\n  result : T[...]\n"
    "  dtype T in (f32, f64)\n"
    "  let n = numel(x)\n"
    "  constant BLOCK = 64\n"
    "  heuristic WHOLE = n % BLOCK == 0\n"
    "  autotune (n) { BLOCK = 32 } { BLOCK = 128 }\n"
    "  launch (x, y, result, n : i64, alpha : f32) blocks (cdiv(n, BLOCK)) lanes (BLOCK)\n"
    "  source \"kernel\" \"\"\"\n"
    "    %b = block\n    %w = cast %b : i64\n"
    "    lanes {\n"
    "      %l = lane\n      %v = cast %l : i64\n"
    "      %i = fma %w, BLOCK, %v\n"
    "      %in = lt %i, %n\n"
    "      %p = load %x[%i] if %in else 0.0\n"
    "      %q = load %y[%i] if %in else 0.0\n"
    "      %a = cast %alpha : T\n"
    "      %s = fma %p, %a, %q\n"
    "      store %result[%i], %s if %in\n"
    "    }\n"
    "  \"\"\"\n"
    "  source \"opencl\" \"\"\"\n"
    "    const long i = (long)block * BLOCK + lane;\n"
    "    if (WHOLE || i < n) result[i] = fma(x[i], (T)alpha, y[i]);\n"
    "  \"\"\"\n"
    "  graph \"x * alpha + y\"\n"
    "  grad \"x: grad * alpha; y: grad\"\n"
    "  flops (2 * n)\n"
    "}\n"
    "op \"user::increase(Tensor x, Tensor y) -> Tensor\" {\n"
    "  x : f32[n]\n  y : f32[n]\n  result : f32[n]\n  mutates x\n"
    "  launch (x, y, n : i32) blocks (cdiv(n, 64)) lanes (64)\n"
    "  source \"kernel\" \"\"\"\n"
    "    %b = block\n"
    "    lanes {\n"
    "      %l = lane\n      %i = fma %b, 64, %l\n      %in = lt %i, %n\n"
    "      %p = load %x[%i] if %in else 0.0\n      %q = load %y[%i] if %in else 0.0\n"
    "      %s = add %p, %q\n      store %x[%i], %s if %in\n"
    "    }\n"
    "  \"\"\"\n"
    "  source \"opencl\" \"\"\"const int i = block * 64 + lane; if (i < n) x[i] += y[i];\"\"\"\n"
    "  graph \"x + y\"\n"
    "}\n"
    "op \"user::both(Tensor x, Tensor y) -> Tensor\" {\n"
    "  graph \"let a = user::scale_add(x, y, 2.0); relu(user::scale_add(a * 3, y, 0.5)) - 1\"\n"
    "}\n";

static tc_context *open_defined(const char *backend) {
  tc_context *c = open_backend(backend, NULL);
  if (tc_kernel_define(c, definitions) != TC_STATUS_OK) fail_msg("%s: %s", backend, tc_last_error());
  return c;
}

#define FOR_ALL(c)               \
  for (int b_ = 0; b_ < 3; b_++) \
    for (tc_context *c = open_defined(with_opencl[b_]); c; tc_close(c), c = NULL)

static bool skip_opencl(void) {
  tc_context *c = open_backend("ref", NULL);
  bool there = tc_has_backend(c, "opencl");
  tc_close(c);
  return !there;
}

static tc_tensor *numbers(tc_context *c, int32_t rank, const int64_t *sizes, double first) {
  tc_tensor *t = tc_new_tensor(c, TC_F32, rank, sizes);
  assert_non_null(t);
  for (int64_t i = 0; i < tc_numel_of(t); i++) ((float *)tc_data_of(t))[i] = (float)(first + (double)(i % 11) - 5);
  return t;
}

static tc_argument tensor(tc_tensor *t) {
  tc_argument a = tc_arg_nothing();
  a.kind = TC_ARGUMENT_TENSOR, a.v.tensor = t;
  return a;
}

static tc_tensor *call2(const char *op, tc_tensor *x, tc_tensor *y) {
  tc_tensor *r = NULL;
  tc_call_op(NULL, op, 2, ((tc_argument[]){tensor(x), tensor(y)}), 1, &r, NULL);
  return r;
}

static tc_tensor *scale_add(tc_tensor *x, tc_tensor *y, double alpha) {
  tc_tensor *r = NULL;
  tc_call_op(NULL, "user::scale_add", 3, ((tc_argument[]){tensor(x), tensor(y), tc_scalar_real(alpha)}), 1, &r, NULL);
  return r;
}

static void check_sum(tc_tensor *x, tc_tensor *y, tc_tensor *r, double alpha) {
  if (!r) fail_msg("%s", tc_last_error());
  assert_int_equal(tc_numel_of(r), tc_numel_of(x));
  const float *p = tc_data_of(x), *q = tc_data_of(y), *s = tc_data_of(r);
  for (int64_t i = 0; i < tc_numel_of(x); i++) assert_true((double)s[i] == (double)p[i] * alpha + (double)q[i]);
}

static void runs_at_once(void **state) {
  (void)state;
  if (skip_opencl()) skip();
  FOR_ALL(c) {
    static const int64_t shapes[][2] = {{1, 1}, {3, 7}, {0, 5}, {16, 64}, {128, 9}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
      tc_scope *s = tc_scope_open();
      tc_tensor *x = numbers(c, 2, shapes[i], 1), *y = numbers(c, 2, shapes[i], 0.5);
      check_sum(x, y, scale_add(x, y, 1.5), 1.5);
      check_sum(x, y, scale_add(x, y, -2), -2);
      tc_scope_close(s);
    }
  }
}

// Operands that do not lie row-major from their first element on are copied.
static void takes_views(void **state) {
  (void)state;
  if (skip_opencl()) skip();
  FOR_ALL(c) {
    tc_scope *s = tc_scope_open();
    tc_tensor *x = tc_aten_t(numbers(c, 2, (int64_t[]){6, 10}, 0)), *y = numbers(c, 2, (int64_t[]){12, 6}, 2);
    const int64_t from = 2, to = 12;
    y = tc_aten_slice_Tensor(y, 0, &from, &to, 1);
    tc_tensor *r = scale_add(x, y, 4), *want = tc_aten_add_Tensor(y, x, tc_scalar_int(4));
    if (!r || !want) fail_msg("%s", tc_last_error());
    for (int64_t i = 0; i < 60; i++) {
      const float *p = tc_data_of(r), *q = tc_data_of(want);
      int64_t row = i / 6, column = i % 6;
      assert_true(p[row * tc_stride_of(r, 0) + column * tc_stride_of(r, 1)] ==
                  q[row * tc_stride_of(want, 0) + column * tc_stride_of(want, 1)]);
    }
    tc_scope_close(s);
  }
}

static int32_t body(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)self, (void)n_in, (void)n_out;
  out[0] = call2("user::both", tc_aten_mul_Scalar(in[0], tc_scalar_int(2)), in[1]);
  return tc_last_code();
}

static void is_compiled_with_what_is_around_it(void **state) {
  (void)state;
  if (skip_opencl()) skip();
  FOR_ALL(c) {
    tc_function *f;
    tc_compile_options o = {.struct_size = sizeof o, .n_inputs = 2, .n_outputs = 1, .dynamic = TC_DYNAMIC_ALWAYS};
    assert_int_equal(tc_compile(c, body, NULL, &o, &f), TC_STATUS_OK);
    for (int64_t n = 3; n < 300; n += 61) {
      tc_scope *s = tc_scope_open();
      tc_tensor *in[] = {numbers(c, 1, &n, 0), numbers(c, 1, &n, 1)}, *out[1];
      if (tc_call(f, in, out) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
      const float *x = tc_data_of(in[0]), *y = tc_data_of(in[1]), *r = tc_data_of(out[0]);
      for (int64_t i = 0; i < n; i++) {
        float a = 4 * x[i] + y[i], b = 1.5f * a + y[i];
        assert_true(r[i] == (b > 0 ? b : 0) - 1);
      }
      tc_scope_close(s);
    }
    assert_int_equal(tc_function_stats_of(f).compiles, 1);
    tc_function_destroy(f);
  }
}

static void changes_its_argument(void **state) {
  (void)state;
  if (skip_opencl()) skip();
  FOR_ALL(c) {
    tc_scope *s = tc_scope_open();
    const int64_t n = 200;
    tc_tensor *x = numbers(c, 1, &n, 0), *y = numbers(c, 1, &n, 1), *was = numbers(c, 1, &n, 0);
    tc_tensor *sum = call2("user::increase", x, y);
    assert_memory_equal(tc_data_of(x), tc_data_of(was), (size_t)n * sizeof(float));
    check_sum(x, y, sum, 1);
    if (!call2("user::increase_", x, y)) fail_msg("%s", tc_last_error());
    check_sum(was, y, x, 1);
    tc_scope_close(s);
  }
}

static int32_t loss(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)self, (void)n_in, (void)n_out;
  out[0] = tc_aten_sum(tc_aten_mul_Tensor(scale_add(in[0], in[1], 3), in[1]), TC_DTYPE_NONE);
  return tc_last_code();
}

static void has_a_derivative(void **state) {
  (void)state;
  if (skip_opencl()) skip();
  FOR_ALL(c) {
    tc_scope *s = tc_scope_open();
    tc_function *f;
    const int64_t n = 50;
    tc_compile_options o = {.struct_size = sizeof o, .n_inputs = 2, .n_outputs = 1};
    tc_tensor *in[] = {numbers(c, 1, &n, 0), numbers(c, 1, &n, 1)}, *out[2];
    assert_int_equal(tc_value_and_grad(c, loss, NULL, &o, 1, (int32_t[]){0}, &f), TC_STATUS_OK);
    if (tc_call(f, in, out) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
    const float *y = tc_data_of(in[1]), *g = tc_data_of(out[1]);
    for (int64_t i = 0; i < n; i++) assert_true(g[i] == 3 * y[i]);
    tc_function_destroy(f);
    tc_scope_close(s);
  }
}

static void fails(const char *op, tc_tensor *x, const char *reason) {
  tc_tensor *r = NULL;
  if (tc_call_op(NULL, op, 1, ((tc_argument[]){tensor(x)}), 1, &r, NULL) == TC_STATUS_OK)
    fail_msg("%s does not fail, where it should say '%s'", op, reason);
  if (!strstr(tc_last_error(), reason)) fail_msg("'%s' is not in: %s", reason, tc_last_error());
  tc_clear_error();
}

// ---- constants that are floats ----
static const char affine[] =
    "op \"user::affine(Tensor x, float a, float b) -> Tensor\" {\n"
    "  x : T[n]\n  result : T[n]\n  dtype T in (f32, f64)\n"
    "  constant A = a : T\n  constant B = b : f32\n"
    "  launch (x, result, n : i32) blocks (cdiv(n, 64)) lanes (64)\n"
    "  source \"kernel\" \"\"\"\n"
    "    %b = block\n"
    "    lanes {\n"
    "      %l = lane\n      %i = fma %b, 64, %l\n      %in = lt %i, %n\n"
    "      %p = load %x[%i] if %in else 0.0\n      %q = mul %p, A\n      %s = add %q, B\n"
    "      store %result[%i], %s if %in\n"
    "    }\n"
    "  \"\"\"\n"
    "  source \"opencl\" \"const int i = block * 64 + lane; if (i < n) result[i] = x[i] * A + B;\"\n"
    "}\n";

static void floats_are_constants(void **state) {
  (void)state;
  static const double values[][2] = {{1.5, -2},      {0.1, 1.0 / 3},           {-0.0, -0.0},  {INFINITY, 1}, {NAN, 0},
                                     {1, -INFINITY}, {1.00000000000000022, 0}, {1e30, 1e-30}, {3, 1e38}};
  if (skip_opencl()) skip();
  for (int b = 1; b < 3; b++) {
    tc_context *c = open_backend(with_opencl[b], NULL);
    if (tc_kernel_define(c, affine) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
      tc_scope *s = tc_scope_open();
      double in[70];
      float in32[70];
      const int64_t n = 70;
      for (int64_t k = 0; k < n; k++) in[k] = 0.3 * (double)(k - 30), in32[k] = (float)in[k];
      tc_tensor *r[2] = {0}, *x[] = {tc_tensor_from(c, TC_F32, 1, &n, in32), tc_tensor_from(c, TC_F64, 1, &n, in)};
      for (int t = 0; t < 2; t++) {
        tc_argument args[] = {tensor(x[t]), tc_scalar_real(values[i][0]), tc_scalar_real(values[i][1])};
        if (tc_call_op(NULL, "user::affine", 3, args, 1, &r[t], NULL) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
      }
      const float *got32 = tc_data_of(r[0]);
      const double *got = tc_data_of(r[1]);
      for (int64_t k = 0; k < n; k++) {
        volatile float product32 = in32[k] * (float)values[i][0]; // rounded on its own
        volatile double product = in[k] * values[i][0];
        float want32 = product32 + (float)values[i][1];
        double want = product + (double)(float)values[i][1];
        if (isnan(want32)) assert_true(isnan(got32[k]));
        else assert_true(got32[k] == want32 && signbit(got32[k]) == signbit(want32));
        if (isnan(want)) assert_true(isnan(got[k]));
        else assert_true(got[k] == want && signbit(got[k]) == signbit(want));
      }
      tc_scope_close(s);
    }
    tc_close(c);
  }
}

// ---- functions on the host ----
typedef struct counter {
  int calls; // atomic
  int32_t fails;
} counter;

static double *row(tc_tensor *t, double *wide) {
  for (int64_t i = 0; i < tc_numel_of(t); i++) {
    const void *data = tc_data_of(t);
    wide[i] = tc_dtype_of(t) == TC_F32 ? (double)((const float *)data)[i] : ((const double *)data)[i];
  }
  return wide;
}

// user::mix, user::twice and user::mixed.
static int32_t on_host(void *self, const char *op, int32_t n_args, const tc_argument *args, int32_t n_results,
                       tc_tensor *const *results) {
  counter *k = self;
  double wide[1000], a = 2, b = 0;
  __atomic_fetch_add(&k->calls, 1, __ATOMIC_RELAXED);
  if (k->fails) return k->fails;
  assert_true(tc_numel_of(args[0].v.tensor) <= 1000);
  row(args[0].v.tensor, wide);
  if (!strcmp(op, "user::mix")) {
    assert_int_equal(n_args, 5);
    assert_int_equal(n_results, 2);
    assert_int_equal(args[2].kind, TC_ARGUMENT_REAL);
    assert_int_equal(args[3].kind, TC_ARGUMENT_INT);
    assert_int_equal(args[4].kind, TC_ARGUMENT_BOOL);
    a = args[2].v.parts[0], b = (double)(args[4].v.integer ? -args[3].v.integer : args[3].v.integer);
    const int64_t *from = tc_data_of(args[1].v.tensor);
    int64_t *to = tc_data_of(results[1]);
    for (int64_t i = 0; i < tc_numel_of(results[1]); i++) to[i] = from[i] + args[3].v.integer;
  }
  void *to = tc_data_of(results[0]);
  for (int64_t i = 0; i < tc_numel_of(results[0]); i++) {
    if (tc_dtype_of(results[0]) == TC_F32) ((float *)to)[i] = (float)(wide[i] * a + b);
    else ((double *)to)[i] = wide[i] * a + b;
  }
  return TC_STATUS_OK;
}

static const char hosted[] =
    "op \"user::mix(Tensor x, Tensor y, float a, int k=3, bool flip=False) -> (Tensor, Tensor)\" {\n"
    "  x : T[n, m]\n  y : i64[n]\n  result0 : T[n, m]\n  result1 : i64[n]\n  dtype T in (f32, f64)\n}\n"
    "op \"user::twice(Tensor x) -> Tensor\" { x : T[...]\nresult : T[...]\ndtype T in (f32, f64)\n"
    "  grad \"x: user::twice(grad)\" }\n"
    "op \"user::mixed(Tensor x) -> Tensor\" { x : f32[n]\nresult : f32[n]\n"
    "  launch (x, result, n : i32) blocks (cdiv(n, 64)) lanes (64)\n"
    "  source \"opencl\" \"const int i = block * 64 + lane; if (i < n) result[i] = 2 * x[i];\" }\n";

static tc_context *open_hosted(const char *backend, counter *k) {
  tc_context *c = open_backend(backend, "strict=true");
  if (tc_kernel_define_on_host(c, hosted, on_host, k) != TC_STATUS_OK) fail_msg("%s: %s", backend, tc_last_error());
  return c;
}

static int32_t mix_body(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)self, (void)n_in, (void)n_out;
  tc_tensor *x = tc_aten_t(tc_aten_mul_Scalar(in[0], tc_scalar_int(2)));
  tc_argument args[] = {tensor(x), tensor(in[1]), tc_scalar_real(0.5), tc_scalar_int(7), tc_scalar_bool(1)};
  if (tc_call_op(NULL, "user::mix", 5, args, 2, out, NULL) != TC_STATUS_OK) return tc_last_code();
  out[0] = tc_aten_relu(out[0]);
  return tc_last_code();
}

static void is_computed_on_the_host(void **state) {
  (void)state;
  if (skip_opencl()) skip();
  for (int b = 0; b < 3; b++) {
    counter k = {0};
    tc_context *c = open_hosted(with_opencl[b], &k);
    tc_function *f;
    tc_compile_options o = {.struct_size = sizeof o, .n_inputs = 2, .n_outputs = 2, .dynamic = TC_DYNAMIC_ALWAYS};
    assert_int_equal(tc_compile(c, mix_body, NULL, &o, &f), TC_STATUS_OK);
    for (int64_t n = 2; n < 40; n += 9) {
      tc_scope *s = tc_scope_open();
      const int64_t sizes[] = {5, n};
      int64_t numbers64[40];
      for (int64_t i = 0; i < n; i++) numbers64[i] = (INT64_C(1) << 60) + i;
      tc_tensor *in[] = {numbers(c, 2, sizes, 1), tc_tensor_from(c, TC_I64, 1, &n, numbers64)}, *at_once[2], *out[2];
      assert_int_equal(mix_body(NULL, in, 2, at_once, 2), TC_STATUS_OK);
      if (tc_call(f, in, out) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
      const float *x = tc_data_of(in[0]);
      for (int64_t i = 0; i < n; i++) {
        assert_true(((int64_t *)tc_data_of(out[1]))[i] == numbers64[i] + 7);
        assert_true(((int64_t *)tc_data_of(at_once[1]))[i] == numbers64[i] + 7);
        for (int64_t j = 0; j < 5; j++) {
          float want = x[j * n + i] - 7 > 0 ? x[j * n + i] - 7 : 0;
          assert_true(((float *)tc_data_of(out[0]))[i * 5 + j] == want);
          assert_true(((float *)tc_data_of(at_once[0]))[i * 5 + j] == want);
        }
      }
      tc_scope_close(s);
    }
    assert_int_equal(tc_function_stats_of(f).compiles, 1);
    tc_function_destroy(f);
    assert_true(k.calls >= 10);
    tc_close(c);
  }
}

static int32_t twice_loss(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)self, (void)n_in, (void)n_out;
  tc_tensor *r = NULL;
  tc_call_op(NULL, "user::twice", 1, (tc_argument[]){tensor(in[0])}, 1, &r, NULL);
  out[0] = tc_aten_sum(tc_aten_mul_Tensor(r, in[0]), TC_DTYPE_NONE);
  return tc_last_code();
}

static void host_functions_write_fail_and_have_derivatives(void **state) {
  (void)state;
  if (skip_opencl()) skip();
  for (int b = 0; b < 3; b++) {
    counter k = {0};
    tc_context *c = open_hosted(with_opencl[b], &k);
    tc_scope *s = tc_scope_open();
    const int64_t n = 90, none = 0;
    tc_tensor *x = numbers(c, 1, &n, 0), *was = numbers(c, 1, &n, 0), *r = NULL, *out[2];
    tc_argument args[] = {tensor(x)};
    assert_int_equal(tc_call_op(NULL, "user::twice_", 1, args, 1, &r, NULL), TC_STATUS_OK);
    for (int64_t i = 0; i < n; i++) assert_true(((float *)tc_data_of(x))[i] == 2 * ((float *)tc_data_of(was))[i]);
    tc_function *f;
    tc_compile_options o = {.struct_size = sizeof o, .n_inputs = 1, .n_outputs = 1};
    assert_int_equal(tc_value_and_grad(c, twice_loss, NULL, &o, 1, (int32_t[]){0}, &f), TC_STATUS_OK);
    if (tc_call(f, &was, out) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
    for (int64_t i = 0; i < n; i++) assert_true(((float *)tc_data_of(out[1]))[i] == 4 * ((float *)tc_data_of(was))[i]);
    tc_function_destroy(f);
    int before = k.calls;
    args[0] = tensor(was);
    assert_int_equal(tc_call_op(NULL, "user::mixed", 1, args, 1, &r, NULL), TC_STATUS_OK);
    for (int64_t i = 0; i < n; i++) assert_true(((float *)tc_data_of(r))[i] == 2 * ((float *)tc_data_of(was))[i]);
    assert_int_equal(k.calls - before, b < 2); // its kernel for one device goes first
    args[0] = tensor(tc_new_tensor(c, TC_F64, 1, &none));
    assert_int_equal(tc_call_op(NULL, "user::twice", 1, args, 1, &r, NULL), TC_STATUS_OK);
    assert_int_equal(tc_numel_of(r), 0);
    k.fails = TC_STATUS_OUT_OF_RANGE;
    fails("user::twice", x, "the function on the host for user::twice failed");
    tc_scope_close(s);
    tc_close(c);
  }
}

// ---- several arguments that change ----
static const char several[] =
    "op \"user::swap_scale(Tensor x, float a, Tensor y, Tensor z) -> (Tensor, Tensor)\" {\n"
    "  x : T[n]\n  y : T[n]\n  z : T[n]\n  result0 : T[n]\n  result1 : T[n]\n  dtype T in (f32, f64)\n"
    "  mutates x, z\n  constant A = a : T\n"
    "  launch (x, y, z, n : i32) blocks (cdiv(n, 64)) lanes (64)\n"
    "  source \"kernel\" \"\"\"\n"
    "    %b = block\n"
    "    lanes {\n"
    "      %l = lane\n      %i = fma %b, 64, %l\n      %in = lt %i, %n\n"
    "      %p = load %x[%i] if %in else 0.0\n      %q = load %y[%i] if %in else 0.0\n"
    "      %r = load %z[%i] if %in else 0.0\n"
    "      %s = mul %r, A\n      %t = add %p, %q\n"
    "      store %x[%i], %s if %in\n      store %z[%i], %t if %in\n"
    "    }\n"
    "  \"\"\"\n"
    "  source \"opencl\" \"const int i = block * 64 + lane; if (i < n) { T p = x[i]; x[i] = z[i] * A; z[i] = p + y[i]; "
    "}\"\n"
    "  graph \"z * a, x + y\"\n"
    "}\n";

static int32_t swap_body(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)self, (void)n_in, (void)n_out;
  tc_argument args[] = {tensor(in[0]), tc_scalar_real(3), tensor(in[1]), tensor(in[2])};
  tc_tensor *r[2];
  if (tc_call_op(NULL, "user::swap_scale_", 4, args, 2, r, NULL) != TC_STATUS_OK) return tc_last_code();
  out[0] = tc_aten_add_Tensor(in[0], in[2], tc_scalar_int(1));
  return tc_last_code();
}

static void check_swapped(const float *was, const tc_tensor *const *x, tc_tensor *sum, int64_t n) {
  const float *p = tc_data_of((tc_tensor *)(uintptr_t)x[0]), *z = tc_data_of((tc_tensor *)(uintptr_t)x[2]);
  for (int64_t i = 0; i < n; i++) {
    float new_x = was[2 * n + i] * 3, new_z = was[i] + was[n + i];
    assert_true(p[i] == new_x && z[i] == new_z);
    if (sum) assert_true(((float *)tc_data_of(sum))[i] == new_x + new_z);
  }
}

static void changes_several_arguments(void **state) {
  (void)state;
  if (skip_opencl()) skip();
  for (int b = 0; b < 3; b++) {
    tc_context *c = open_backend(with_opencl[b], NULL);
    if (tc_kernel_define(c, several) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
    tc_function *f;
    tc_compile_options o = {.struct_size = sizeof o, .n_inputs = 3, .n_outputs = 1, .dynamic = TC_DYNAMIC_ALWAYS};
    assert_int_equal(tc_compile(c, swap_body, NULL, &o, &f), TC_STATUS_OK);
    for (int64_t n = 3; n < 300; n += 99) {
      tc_scope *s = tc_scope_open();
      float was[900];
      tc_tensor *x[3], *copy[3], *r[2], *out;
      for (int64_t i = 0; i < 3 * n; i++) was[i] = (float)(i % 17) - 8;
      for (int64_t i = 0; i < 3; i++) {
        x[i] = tc_tensor_from(c, TC_F32, 1, &n, was + i * n);
        copy[i] = tc_tensor_from(c, TC_F32, 1, &n, was + i * n);
      }
      tc_argument args[] = {tensor(x[0]), tc_scalar_real(3), tensor(x[1]), tensor(x[2])};
      assert_int_equal(tc_call_op(NULL, "user::swap_scale", 4, args, 2, r, NULL), TC_STATUS_OK);
      for (int i = 0; i < 3; i++) assert_memory_equal(tc_data_of(x[i]), was + i * n, (size_t)n * sizeof *was);
      check_swapped(was, (const tc_tensor *[]){r[0], NULL, r[1]}, NULL, n);
      if (tc_call_op(NULL, "user::swap_scale_", 4, args, 2, r, NULL) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
      check_swapped(was, (const tc_tensor *const *)x, NULL, n);
      check_swapped(was, (const tc_tensor *[]){r[0], NULL, r[1]}, NULL, n);
      if (tc_call(f, copy, &out) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
      check_swapped(was, (const tc_tensor *const *)copy, out, n);
      tc_scope_close(s);
    }
    assert_int_equal(tc_function_stats_of(f).compiles, 1);
    tc_function_destroy(f);
    tc_close(c);
  }
}

// ---- operands as they lie ----
static const char strided[] =
    "op \"user::weave(Tensor x, Tensor y) -> Tensor\" {\n"
    "  x : T[n, m]\n  y : T[n, m]\n  result : T[n, m]\n  dtype T in (f32, f64)\n"
    "  strided x, y\n"
    "  launch (x, y, result, m : i64, all = n * m : i64, x0 = x.stride(0) : i64, x1 = x.stride(-1) : i64, xo = "
    "x.offset "
    ": i64, y0 = y.stride(0) : i64, y1 = y.stride(1) : i64, yo = y.offset : i64) blocks (cdiv(n * m, 64)) lanes (64)\n"
    "  source \"kernel\" \"\"\"\n"
    "    %b = block\n    %w = cast %b : i64\n"
    "    lanes {\n"
    "      %l = lane\n      %v = cast %l : i64\n      %i = fma %w, 64, %v\n      %in = lt %i, %all\n"
    "      %r = div %i, %m\n      %c = rem %i, %m\n"
    "      %p0 = fma %r, %x0, %xo\n      %p1 = fma %c, %x1, %p0\n"
    "      %q0 = fma %r, %y0, %yo\n      %q1 = fma %c, %y1, %q0\n"
    "      %p = load %x[%p1] if %in else 0.0\n      %q = load %y[%q1] if %in else 0.0\n"
    "      %s = fma %p, 4.0, %q\n      store %result[%i], %s if %in\n"
    "    }\n"
    "  \"\"\"\n"
    "  source \"opencl\" \"\"\"\n"
    "    const long i = (long)block * 64 + lane, r = i / m, c = i % m;\n"
    "    if (i < all) result[i] = x[xo + r * x0 + c * x1] * 4 + y[yo + r * y0 + c * y1];\n"
    "  \"\"\"\n"
    "  graph \"x * 4 + y\"\n"
    "}\n";

static tc_tensor *weave(tc_tensor *x, tc_tensor *y) { return call2("user::weave", x, y); }

// Views of many kinds: transposed, cut, every other column, one row for all, turned around.
static tc_tensor *view_of_kind(tc_tensor *x, int kind, int64_t n, int64_t m) {
  const int64_t one = 1, two = 2, end_n = 1 + n, end_m = 2 * m, zero = 0, dims[] = {0, 1}, sizes[] = {n, m};
  switch (kind) {
  case 0: return tc_aten_slice_Tensor(tc_aten_slice_Tensor(x, 0, &one, &end_n, 1), 1, &zero, &end_m, 2);
  case 1:
    return tc_aten_t(tc_aten_slice_Tensor(tc_aten_slice_Tensor(x, 1, &two, &(int64_t){2 + n}, 1), 0, &zero, &m, 1));
  case 2: {
    tc_tensor *row = tc_aten_slice_Tensor(x, 0, &one, &two, 1);
    return tc_aten_expand(tc_aten_slice_Tensor(row, 1, &one, &(int64_t){1 + m}, 1), sizes, 2, 0);
  }
  default:
    return tc_aten_flip(tc_aten_slice_Tensor(tc_aten_slice_Tensor(x, 0, &zero, &n, 1), 1, &one, &(int64_t){1 + m}, 1),
                        dims, 2);
  }
}

typedef struct weaving {
  int kinds[2];
  int64_t n, m;
} weaving;

static int32_t weave_body(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  const weaving *w = self;
  (void)n_in, (void)n_out;
  tc_tensor *made = tc_aten_mul_Scalar(in[0], tc_scalar_int(2)); // by a kernel of its own, or by nobody
  tc_tensor *x = view_of_kind(made, w->kinds[0], w->n, w->m), *y = view_of_kind(in[1], w->kinds[1], w->n, w->m);
  out[0] = tc_aten_neg(weave(x, y));
  return tc_last_code();
}

static void takes_operands_as_they_lie(void **state) {
  (void)state;
  if (skip_opencl()) skip();
  for (int b = 0; b < 3; b++) {
    tc_context *c = open_backend(with_opencl[b], NULL);
    if (tc_kernel_define(c, strided) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
    for (int k = 0; k < 16; k++) {
      weaving w = {{k / 4, k % 4}, 6, 9};
      tc_scope *s = tc_scope_open();
      const int64_t sizes[] = {20, 20};
      tc_tensor *in[] = {numbers(c, 2, sizes, 1), numbers(c, 2, sizes, 0.25)}, *out;
      tc_tensor *x = view_of_kind(tc_aten_mul_Scalar(in[0], tc_scalar_int(2)), w.kinds[0], w.n, w.m),
                *y = view_of_kind(in[1], w.kinds[1], w.n, w.m), *at_once = weave(x, y);
      if (!at_once) fail_msg("%s: %s", with_opencl[b], tc_last_error());
      tc_function *f;
      tc_compile_options o = {.struct_size = sizeof o, .n_inputs = 2, .n_outputs = 1};
      o.dynamic = (k / 4 + k) % 2 ? TC_DYNAMIC_ALWAYS : TC_DYNAMIC_NEVER;
      assert_int_equal(tc_compile(c, weave_body, &w, &o, &f), TC_STATUS_OK);
      if (tc_call(f, in, &out) != TC_STATUS_OK) fail_msg("%s: %s", with_opencl[b], tc_last_error());
      const float *p = tc_data_of(x), *q = tc_data_of(y), *r = tc_data_of(at_once), *t = tc_data_of(out);
      for (int64_t i = 0; i < w.n * w.m; i++) {
        int64_t row_i = i / w.m, column = i % w.m;
        float want = 4 * p[row_i * tc_stride_of(x, 0) + column * tc_stride_of(x, 1)] +
                     q[row_i * tc_stride_of(y, 0) + column * tc_stride_of(y, 1)];
        assert_true(r[row_i * tc_stride_of(at_once, 0) + column * tc_stride_of(at_once, 1)] == want);
        assert_true(t[row_i * tc_stride_of(out, 0) + column * tc_stride_of(out, 1)] == -want);
      }
      tc_function_destroy(f);
      tc_scope_close(s);
    }
    tc_close(c);
  }
}

// ---- what is refused ----
static void refused(tc_context *c, const char *text, const char *reason) {
  assert_int_not_equal(tc_kernel_define(c, text), TC_STATUS_OK);
  if (!strstr(tc_last_error(), reason)) fail_msg("'%s' is not in: %s", reason, tc_last_error());
  tc_clear_error();
}

#define OP(items) "op \"user::f(Tensor x) -> Tensor\" { x : f32[n]\nresult : f32[n]\n" items "}"
#define LAUNCH "launch (x, result, n : i32) blocks (n) lanes (1)\nsource \"kernel\" \"\"\n"

static void says_what_is_wrong(void **state) {
  (void)state;
  tc_context *c = open_backend("cpu", NULL);
  refused(c, "graph", "expected a definition");
  refused(c, "op \"f(Tensor x) -> Tensor\" { graph \"x\" }", "needs a namespace of its own");
  refused(c, "op \"user::f(Tensor x) -> Tensor\" { }", "neither a kernel");
  refused(c, OP("launch (x, n : i32) blocks (n) lanes (1)"), "no source");
  refused(c, OP("source \"kernel\" \"\""), "nothing says how to launch");
  refused(c, OP("constant B = 1\nautotune (n) { B = 1 }\nheuristic H = n % B\n" LAUNCH), "heuristics come first");
  refused(c, OP("autotune (n) { B = 1 }\n" LAUNCH), "not among the constants");
  refused(c, OP("constant B = 1\nautotune (n)\n" LAUNCH), "configurations");
  refused(c, OP("y : f32[n]\n" LAUNCH), "neither an argument nor a result");
  refused(c, OP("launch (x, q) blocks (n) lanes (1)"), "'q' is no tensor");
  refused(c, OP(LAUNCH "source \"kernel\" \"\""), "two sources");
  refused(c, OP(LAUNCH "speed"), "expected a shape");
  refused(c, OP("source \"kernel\" \"\"\"open"), "not closed");
  refused(c, "op \"user::f(Tensor? x) -> Tensor\" { result : f32[1]\n" LAUNCH "}", "'x' is no tensor");
  refused(c, OP("mutates result\n" LAUNCH), "first argument");
  refused(c, OP("mutates x, x\n" LAUNCH), "is there twice");
  refused(c, OP("strided result\n" LAUNCH), "an argument with its shape above");
  refused(c, OP("strided x\nmutates x\n" LAUNCH), "cannot be mutated");
  refused(c, OP("mutates x\nstrided x\n" LAUNCH), "cannot be strided");
  refused(c, "op \"user::f(Tensor x, Tensor y) -> Tensor\" { x : f32[n]\ny : f32[n]\nmutates y\n" LAUNCH "}",
          "first argument");
  refused(c, "op \"user::f(Tensor x, Tensor y) -> Tensor\" { x : f32[n]\ny : f32[n]\nmutates x, y\n" LAUNCH "}",
          "first results");
  refused(c, "op \"user::f(Tensor x, float a) -> Tensor\" { x : f32[n]\nresult : f32[n]\nconstant A = a\n" LAUNCH "}",
          "its dtype is missing");
  refused(c, "op \"user::f(Tensor x, float a) -> Tensor\" { constant A = a : f32\nconstant A = 1 }", "defined twice");
  refused(c, "op \"user::f(Tensor x) -> Tensor\" { x : f32[n]\nresult : f32[n] }", "neither a kernel");
  counter k = {0};
  assert_int_not_equal(
      tc_kernel_define_on_host(c, "op \"user::f(Tensor x) -> Tensor\" { result : f32[4] }", on_host, &k), TC_STATUS_OK);
  assert_non_null(strstr(tc_last_error(), "the shape of 'x' is missing"));
  tc_clear_error();
  assert_int_not_equal(tc_kernel_define_on_host(c, hosted, NULL, NULL), TC_STATUS_OK);
  tc_clear_error();
  assert_int_equal(tc_kernel_define(c, OP(LAUNCH)), TC_STATUS_OK);
  assert_int_equal(tc_kernel_define(c, OP(LAUNCH)), TC_STATUS_OK); // the same again
  refused(c, OP("graph \"x\""), "is there already");
  tc_close(c);
}

// A kernel that is wrong is an error: the graph does not silently stand for it.
static void mistakes_in_kernels_are_errors(void **state) {
  (void)state;
  static const char text[] =
      "op \"user::bad(Tensor x) -> Tensor\" { x : f32[n]\nresult : f32[n]\n"
      "launch (x, result, n : i32) blocks (n) lanes (1)\n"
      "source \"kernel\" \"%b = nonsense\"\nsource \"opencl\" \"nonsense;\"\n"
      "graph \"x\" }\n"
      "op \"user::wide(Tensor x) -> Tensor\" { x : f32[n]\nresult : f32[n]\nconstant B = 100000\n"
      "launch (x, result, n : i32) blocks (n) lanes (B)\n"
      "source \"kernel\" \"\"\nsource \"opencl\" \"\" }\n"
      "op \"user::other(Tensor x) -> Tensor\" { x : f32[n]\nresult : f32[n]\n"
      "launch (x, result, n : i32) blocks (n) lanes (1)\nsource \"elsewhere\" \"\" }\n"
      "op \"user::grows(Tensor x) -> Tensor\" { x : f32[n]\nresult : f32[2 * n]\nmutates x\n"
      "launch (x, n : i32) blocks (n) lanes (1)\nsource \"kernel\" \"\"\nsource \"opencl\" \"\" }\n"
      "op \"user::dense(Tensor x) -> Tensor\" { x : f32[n]\nresult : f32[n]\n"
      "launch (x, result, s = x.stride(0) : i64) blocks (n) lanes (1)\nsource \"kernel\" \"\"\nsource \"opencl\" \"\" "
      "}\n";
  if (skip_opencl()) skip();
  for (int b = 1; b < 3; b++) {
    tc_context *c = open_backend(with_opencl[b], NULL);
    tc_scope *s = tc_scope_open();
    if (tc_kernel_define(c, text) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
    tc_tensor *x = numbers(c, 1, (int64_t[]){9}, 0);
    fails("user::bad", x, b == 1 ? "nonsense" : "refused by the driver");
    fails("user::wide", x, "100000 lanes");
    fails("user::other", x, "none of its kernels is for this device");
    fails("user::grows", x, "has another dtype or size");
    fails("user::dense", x, "is not declared 'strided'");
    fails("user::bad", numbers(c, 2, (int64_t[]){3, 3}, 0), "where 1 dimensions are wanted");
    fails("user::bad", tc_new_tensor(c, TC_F64, 1, (int64_t[]){9}), "where f32 is wanted");
    tc_scope_close(s);
    tc_close(c);
  }
}

static void backends_can_be_asked_for(void **state) {
  (void)state;
  tc_context *c = open_backend("ref", NULL);
  assert_int_equal(tc_has_backend(c, "ref"), 1);
  assert_int_equal(tc_has_backend(c, "cpu"), 1);
  assert_int_equal(tc_has_backend(c, "nobodys"), 0);
  assert_int_equal(tc_has_backend(c, ""), 0);
  assert_int_equal(tc_last_code(), TC_STATUS_OK);
  tc_close(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(floats_are_constants),
      cmocka_unit_test(changes_several_arguments),
      cmocka_unit_test(takes_operands_as_they_lie),
      cmocka_unit_test(is_computed_on_the_host),
      cmocka_unit_test(host_functions_write_fail_and_have_derivatives),
      cmocka_unit_test(runs_at_once),
      cmocka_unit_test(takes_views),
      cmocka_unit_test(is_compiled_with_what_is_around_it),
      cmocka_unit_test(changes_its_argument),
      cmocka_unit_test(has_a_derivative),
      cmocka_unit_test(says_what_is_wrong),
      cmocka_unit_test(mistakes_in_kernels_are_errors),
      cmocka_unit_test(backends_can_be_asked_for),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
