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
  assert_int_equal(tc_kernel_define(c, OP(LAUNCH)), TC_STATUS_OK);
  assert_int_equal(tc_kernel_define(c, OP(LAUNCH)), TC_STATUS_OK); // the same again
  refused(c, OP("graph \"x\""), "is there already");
  tc_close(c);
}

static void fails(const char *op, tc_tensor *x, const char *reason) {
  tc_tensor *r = NULL;
  if (tc_call_op(NULL, op, 1, ((tc_argument[]){tensor(x)}), 1, &r, NULL) == TC_STATUS_OK)
    fail_msg("%s does not fail, where it should say '%s'", op, reason);
  if (!strstr(tc_last_error(), reason)) fail_msg("'%s' is not in: %s", reason, tc_last_error());
  tc_clear_error();
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
      "launch (x, result, n : i32) blocks (n) lanes (1)\nsource \"elsewhere\" \"\" }\n";
  if (skip_opencl()) skip();
  for (int b = 1; b < 3; b++) {
    tc_context *c = open_backend(with_opencl[b], NULL);
    tc_scope *s = tc_scope_open();
    if (tc_kernel_define(c, text) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
    tc_tensor *x = numbers(c, 1, (int64_t[]){9}, 0);
    fails("user::bad", x, b == 1 ? "nonsense" : "refused by the driver");
    fails("user::wide", x, "100000 lanes");
    fails("user::other", x, "none of its kernels is for this device");
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
