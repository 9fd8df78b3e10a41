// Control flow that stays in the graph: a loop that runs until a condition on data fails, compiled once, whatever the
// number of turns.
#include <stdio.h>

#include "tc/ops.h"

// Newton's iteration for the square root of a: x ← (x + a / x) / 2, as long as any |x² − a| is large.
static int32_t far_off(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)self, (void)n_in, (void)n_out;
  tc_tensor *error = tc_aten_abs(tc_aten_sub_Tensor(tc_aten_mul_Tensor(in[0], in[0]), in[1], tc_scalar_int(1)));
  out[0] = tc_aten_gt_Scalar(tc_aten_max(error), tc_scalar_real(1e-4));
  return tc_last_code();
}

static int32_t step(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)self, (void)n_in, (void)n_out;
  tc_tensor *next = tc_aten_add_Tensor(in[0], tc_aten_div_Tensor(in[1], in[0]), tc_scalar_int(1));
  out[0] = tc_aten_mul_Scalar(next, tc_scalar_real(0.5));
  return tc_last_code();
}

static int32_t square_root(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)n_in, (void)n_out;
  tc_tensor *tensors[] = {tc_aten_add_Scalar(in[0], tc_scalar_int(1), tc_scalar_int(1)), in[0]};
  return tc_while_loop(far_off, step, self, 1, 2, tensors, out);
}

static int failed(const char *what) {
  fprintf(stderr, "%s: %s\n", what, tc_last_error());
  return 1;
}

int main(void) {
  tc_context *c;
  const char *settings[] = {"backend=cpu"};
  if (tc_open(settings, 1, &c) != TC_STATUS_OK) return failed("tc_open");
  tc_compile_options o = {.struct_size = sizeof o, .name = "square_root", .n_inputs = 1, .n_outputs = 1};
  tc_function *f;
  if (tc_compile(c, square_root, NULL, &o, &f) != TC_STATUS_OK) return failed("tc_compile");
  // CHECK: 1.000 2.000
  // CHECK: 10.000 1.414
  const float values[2][2] = {{1, 4}, {100, 2}};
  for (int i = 0; i < 2; i++) {
    tc_scope *scope = tc_scope_open();
    tc_tensor *in = tc_tensor_from(c, TC_F32, 1, (int64_t[]){2}, values[i]), *out;
    if (tc_call(f, &in, &out) != TC_STATUS_OK) return failed("tc_call");
    const float *y = tc_data_of(out);
    printf("%.3f %.3f\n", (double)y[0], (double)y[1]);
    tc_scope_close(scope);
  }
  // CHECK: compiled 1 time
  printf("compiled %d time\n", (int)tc_function_stats_of(f).compiles);
  // CHECK: square_root [0/0]
  // CHECK: tensor 'in.0': f32[2], {{.*}}from the input
  // CHECK: no gradient
  char *guards = tc_function_guards(f);
  printf("%s", guards);
  tc_text_free(guards);
  tc_function_destroy(f);
  tc_close(c);
  return 0;
}
