// Fits y = x·w by gradient descent. The step is one compiled function: the products, the error and the update run as
// few kernels, and w is updated in place.
#include <math.h>
#include <stdio.h>

#include "tc/ops.h"

enum { ROWS = 64, COLUMNS = 3 };

// inputs: x [rows, columns], y [rows], w [columns], which is updated; output: the mean squared error before the step.
static int32_t step(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  tc_tensor *x = in[0], *y = in[1], *w = in[2];
  (void)self, (void)n_in, (void)n_out;
  tc_tensor *error = tc_aten_sub_Tensor(tc_aten_mv(x, w), y, tc_scalar_int(1));
  tc_tensor *gradient = tc_aten_mv(tc_aten_t(x), error);
  out[0] = tc_aten_mean(tc_aten_mul_Tensor(error, error), TC_DTYPE_NONE);
  tc_aten_sub__Tensor(w, gradient, tc_scalar_real(1.0 / ROWS));
  return tc_last_code();
}

static int failed(const char *what) {
  fprintf(stderr, "%s: %s\n", what, tc_last_error());
  return 1;
}

int main(void) {
  tc_context *c;
  const char *settings[] = {"backend=cpu"};
  if (tc_open(settings, 1, &c) != TC_STATUS_OK) return failed("tc_open");
  tc_scope *scope = tc_scope_open();
  float x[ROWS][COLUMNS], y[ROWS], w[COLUMNS] = {0};
  const float truth[COLUMNS] = {2, -1, 0.5f};
  for (int i = 0; i < ROWS; i++) {
    y[i] = 0;
    for (int k = 0; k < COLUMNS; k++) {
      x[i][k] = sinf((float)(i * (k + 1)));
      y[i] += x[i][k] * truth[k];
    }
  }
  tc_tensor *inputs[] = {tc_tensor_from(c, TC_F32, 2, (int64_t[]){ROWS, COLUMNS}, x),
                         tc_tensor_from(c, TC_F32, 1, (int64_t[]){ROWS}, y),
                         tc_tensor_from(c, TC_F32, 1, (int64_t[]){COLUMNS}, w)};
  static const char *const names[] = {"x", "y", "w"};
  tc_compile_options o = {.struct_size = sizeof o, .name = "step", .input_names = names, .n_inputs = 3, .n_outputs = 1};
  tc_function *f;
  if (tc_compile(c, step, NULL, &o, &f) != TC_STATUS_OK) return failed("tc_compile");
  for (int i = 0; i < 40; i++) {
    tc_tensor *loss;
    if (tc_call(f, inputs, &loss) != TC_STATUS_OK) return failed("tc_call");
    double v = 0;
    tc_item_f64(loss, &v, NULL);
    if (i == 0 || i == 39) printf("step %d: the error is %s\n", i, v > 0.1 ? "large" : v < 1e-4 ? "small" : "between");
  }
  const float *found = tc_data_of(inputs[2]);
  // CHECK: step 0: the error is large
  // CHECK: step 39: the error is small
  // CHECK: w = 2.0 -1.0 0.5
  printf("w = %.1f %.1f %.1f\n", (double)found[0], (double)found[1], (double)found[2]);
  // CHECK: compiled once
  printf("compiled %s\n", tc_function_stats_of(f).compiles == 1 ? "once" : "more than once");
  // CHECK: step [0/0]
  // CHECK: tensor 'x': f32[64, 3], {{.*}}from the input
  // CHECK: tensor 'y': f32[64],
  // CHECK: tensor 'w': f32[3],
  // CHECK: default device: cpu 0
  char *guards = tc_function_guards(f);
  printf("%s", guards);
  tc_text_free(guards);
  tc_function_destroy(f);
  tc_scope_close(scope);
  tc_close(c);
  return 0;
}
