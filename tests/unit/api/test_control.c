// Control flow: in graphs, by the host, in functions with breaks, nested, and what is refused; the same results
// everywhere.
#include <math.h>

#include "tests/unit/api/backends.h"

static tc_tensor *row(tc_context *c, int64_t n, const float *v) { return tc_tensor_from(c, TC_F32, 1, &n, v); }
static float at(tc_tensor *t, int64_t i) { return ((float *)tc_data_of(t))[i]; }

// ---- bodies ----
static int32_t halve(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)self, (void)n_in, (void)n_out;
  out[0] = tc_aten_mul_Scalar(in[0], tc_scalar_real(0.5));
  return tc_last_code();
}
static int32_t grow(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)self, (void)n_in, (void)n_out;
  out[0] = tc_aten_add_Scalar(in[0], tc_scalar_int((int64_t)tc_size_of(in[0], 0)), tc_scalar_int(1));
  return tc_last_code();
}
static int32_t large(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)self, (void)n_in, (void)n_out;
  out[0] = tc_aten_gt_Scalar(tc_aten_sum(in[0], TC_DTYPE_NONE), tc_scalar_int(1));
  return tc_last_code();
}
// Carries h; gives h + x·w and, stacked, its double.
static int32_t turn(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)self, (void)n_in, (void)n_out;
  out[0] = tc_aten_add_Tensor(in[0], tc_aten_mul_Tensor(in[1], in[2]), tc_scalar_int(1));
  out[1] = tc_aten_add_Tensor(out[0], out[0], tc_scalar_int(1));
  return tc_last_code();
}
// A choice inside of a loop's body.
static int32_t choose(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)n_in, (void)n_out;
  tc_tensor *big = tc_aten_gt_Scalar(tc_aten_sum(in[0], TC_DTYPE_NONE), tc_scalar_int(100));
  tc_tensor *operands[] = {tc_aten_mul_Scalar(in[0], tc_scalar_real(0.5))};
  return tc_cond(big, halve, halve, self, 1, operands, 1, out);
}

// ---- functions ----
static int bodies;
static int32_t controls(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  const int *breaks = self;
  double v;
  (void)n_in, (void)n_out;
  bodies++;
  tc_tensor *x = tc_aten_relu(in[0]);
  if (*breaks == 1 && tc_item_f64(tc_aten_sum(x, TC_DTYPE_NONE), &v, NULL) != TC_STATUS_OK) return tc_last_code();
  tc_tensor *big = tc_aten_gt_Scalar(tc_aten_sum(x, TC_DTYPE_NONE), tc_scalar_int(10));
  if (tc_cond(big, halve, grow, NULL, 1, &x, 1, &out[0]) != TC_STATUS_OK) return tc_last_code();
  if (tc_while_loop(large, choose, NULL, 1, 1, &out[0], &out[1]) != TC_STATUS_OK) return tc_last_code();
  if (*breaks == 2 && tc_item_f64(tc_aten_sum(out[1], TC_DTYPE_NONE), &v, NULL) != TC_STATUS_OK) return tc_last_code();
  tc_tensor *parts[] = {tc_aten_select_int(in[1], 0, 0), in[1], out[1]}, *got[2];
  if (tc_scan(turn, NULL, 1, 1, 3, parts, 2, got) != TC_STATUS_OK) return tc_last_code();
  out[2] = got[0], out[3] = got[1];
  return tc_last_code();
}

static void expect(const float *x, const float *m, tc_tensor **out) {
  float c[2], sum = 0, h[2] = {m[0], m[1]};
  for (int i = 0; i < 2; i++) c[i] = x[i] > 0 ? x[i] : 0, sum += c[i];
  for (int i = 0; i < 2; i++) {
    c[i] = sum > 10 ? c[i] * 0.5f : c[i] + 2;
    assert_true(at(out[0], i) == c[i]);
  }
  for (; c[0] + c[1] > 1; c[0] *= 0.25f, c[1] *= 0.25f) {}
  for (int i = 0; i < 2; i++) assert_true(at(out[1], i) == c[i]);
  for (int k = 0; k < 3; k++) {
    for (int i = 0; i < 2; i++) {
      h[i] += m[2 * k + i] * c[i];
      assert_true(fabsf(at(out[3], 2 * k + i) - 2 * h[i]) < 1e-5f);
    }
  }
  for (int i = 0; i < 2; i++) assert_true(fabsf(at(out[2], i) - h[i]) < 1e-5f);
}

static void try_all(tc_context *c, int breaks, int runs, int want_bodies) {
  tc_compile_options o = {.struct_size = sizeof o, .n_inputs = 2, .n_outputs = 4};
  tc_function *f;
  bodies = 0;
  assert_int_equal(tc_compile(c, controls, &breaks, &o, &f), TC_STATUS_OK);
  for (int k = 0; k < runs; k++) {
    tc_scope *s = tc_scope_open();
    float x[] = {(float)(3 * k), -1.5f}, m[] = {1, 2, 3, 4, 5, (float)k};
    tc_tensor *in[] = {row(c, 2, x), tc_tensor_from(c, TC_F32, 2, (int64_t[]){3, 2}, m)}, *out[4];
    if (tc_call(f, in, out) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
    expect(x, m, out);
    assert_int_equal(tc_size_of(out[3], 0), 3);
    tc_scope_close(s);
  }
  assert_int_equal(bodies, want_bodies);
  tc_function_destroy(f);
}

static void control_stays_in_the_graph(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) try_all(c, 0, 6, 1);
}
static void the_host_decides_behind_a_break(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) try_all(c, 1, 6, 6);
}
static void a_break_behind_control_flow(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) try_all(c, 2, 6, 6);
}

static void without_capture_the_host_decides(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    tc_scope *s = tc_scope_open();
    int none = 0;
    float x[] = {30, 1}, m[] = {1, 2, 3, 4, 5, 6};
    tc_tensor *in[] = {row(c, 2, x), tc_tensor_from(c, TC_F32, 2, (int64_t[]){3, 2}, m)}, *out[4];
    if (controls(&none, in, 2, out, 4) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
    expect(x, m, out);
    tc_scope_close(s);
  }
}

// A body that reads a value cannot be part of a graph: the host decides, in every call.
static int32_t reading(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  double v = 0;
  (void)self, (void)n_in, (void)n_out;
  if (tc_item_f64(tc_aten_sum(in[0], TC_DTYPE_NONE), &v, NULL) != TC_STATUS_OK) return tc_last_code();
  out[0] = tc_aten_add_Scalar(in[0], tc_scalar_real(v), tc_scalar_int(1));
  return tc_last_code();
}
static int32_t with_reading(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)n_in, (void)n_out;
  return tc_cond(tc_aten_gt_Scalar(tc_aten_sum(in[0], TC_DTYPE_NONE), tc_scalar_int(0)), reading, halve, self, 1, in, 1,
                 out);
}
static void regions_that_cannot_be_recorded(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    tc_compile_options o = {.struct_size = sizeof o, .n_inputs = 1, .n_outputs = 1};
    tc_function *f;
    tc_scope *s = tc_scope_open();
    tc_tensor *out[1], *in[] = {row(c, 2, (float[]){1, 2})}, *down[] = {row(c, 2, (float[]){-1, -2})};
    assert_int_equal(tc_compile(c, with_reading, NULL, &o, &f), TC_STATUS_OK);
    for (int k = 0; k < 4; k++) {
      if (tc_call(f, k & 1 ? down : in, out) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
      assert_true(at(out[0], 1) == (k & 1 ? -1 : 5));
    }
    tc_function_destroy(f);
    assert_int_equal(tc_compile(c, with_stranger, in[0], &o, &f), TC_STATUS_OK);
    assert_int_equal(tc_call(f, down, out), TC_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(tc_last_error(), "uses a tensor that is none of its inputs"));
    tc_clear_error();
    tc_function_destroy(f);
    tc_scope_close(s);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(control_stays_in_the_graph),      cmocka_unit_test(the_host_decides_behind_a_break),
      cmocka_unit_test(a_break_behind_control_flow),     cmocka_unit_test(without_capture_the_host_decides),
      cmocka_unit_test(regions_that_cannot_be_recorded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
