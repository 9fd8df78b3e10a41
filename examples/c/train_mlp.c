// Trains a small network to tell two spirals apart. Loss and gradients are one compiled function, AdamW's step another;
// the parameters are updated in place.
#include <math.h>
#include <stdio.h>

#include "tc/ops.h"

enum { POINTS = 256, HIDDEN = 32, STEPS = 400, PARAMETERS = 6 };

static tc_tensor *layer(tc_tensor *x, tc_tensor *w, tc_tensor *b) { return tc_aten_linear(x, w, b); }

// inputs: points [n, 2], classes [n] of int64, then the parameters; outputs: the loss, and the scores.
static int32_t loss(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  tc_tensor *const *p = in + 2;
  (void)self, (void)n_in, (void)n_out;
  tc_tensor *h = tc_aten_tanh(layer(in[0], p[0], p[1]));
  h = tc_aten_tanh(layer(h, p[2], p[3]));
  tc_tensor *scores = layer(h, p[4], p[5]);
  tc_tensor *chosen =
      tc_aten_gather(tc_aten_log_softmax_int(scores, 1, TC_DTYPE_NONE), 1, tc_aten_unsqueeze(in[1], 1), 0);
  out[0] = tc_aten_neg(tc_aten_mean(chosen, TC_DTYPE_NONE));
  out[1] = scores;
  return tc_last_code();
}

static int failed(const char *what) {
  fprintf(stderr, "%s: %s\n", what, tc_last_error());
  return 1;
}

// Numbers in [-r, r], the same in every run.
static double noise(void) {
  static unsigned state = 12345;
  state = state * 1664525u + 1013904223u;
  return (double)(state >> 8) / (1 << 23) - 1;
}
static tc_tensor *random_weights(tc_context *c, int32_t rank, const int64_t *sizes, double r) {
  tc_tensor *t = tc_new_tensor(c, TC_F32, rank, sizes);
  float *at = tc_data_of(t);
  for (int64_t i = 0; at && i < tc_numel_of(t); i++) at[i] = (float)(noise() * r);
  return t;
}

int main(void) {
  tc_context *c;
  const char *settings[] = {"backend=cpu"};
  if (tc_open(settings, 1, &c) != TC_STATUS_OK) return failed("tc_open");
  tc_scope *scope = tc_scope_open();
  float points[POINTS][2];
  int64_t classes[POINTS];
  for (int i = 0; i < POINTS; i++) {
    double t = 0.5 + 4.0 * (i / 2) / (POINTS / 2), turn = i % 2 ? 3.14159265358979 : 0;
    points[i][0] = (float)(t / 4 * cos(t + turn) + 0.02 * noise());
    points[i][1] = (float)(t / 4 * sin(t + turn) + 0.02 * noise());
    classes[i] = i % 2;
  }
  tc_tensor *p[PARAMETERS] = {
      random_weights(c, 2, (int64_t[]){HIDDEN, 2}, 1),        random_weights(c, 1, (int64_t[]){HIDDEN}, 0.5),
      random_weights(c, 2, (int64_t[]){HIDDEN, HIDDEN}, 0.3), random_weights(c, 1, (int64_t[]){HIDDEN}, 0.1),
      random_weights(c, 2, (int64_t[]){2, HIDDEN}, 0.3),      random_weights(c, 1, (int64_t[]){2}, 0.1)};
  tc_tensor *inputs[2 + PARAMETERS] = {tc_tensor_from(c, TC_F32, 2, (int64_t[]){POINTS, 2}, points),
                                       tc_tensor_from(c, TC_I64, 1, (int64_t[]){POINTS}, classes)};
  int32_t wrt[PARAMETERS];
  for (int i = 0; i < PARAMETERS; i++) inputs[2 + i] = p[i], wrt[i] = 2 + i;
  tc_compile_options o = {.struct_size = sizeof o, .name = "loss", .n_inputs = 2 + PARAMETERS, .n_outputs = 2};
  tc_optimizer_options q = {.struct_size = sizeof q, .kind = TC_ADAMW, .rate = 0.02, .decay = 0.001};
  tc_function *f;
  tc_optimizer *adam;
  if (tc_value_and_grad(c, loss, NULL, &o, PARAMETERS, wrt, &f) != TC_STATUS_OK) return failed("tc_value_and_grad");
  if (tc_optimizer_create(c, &q, PARAMETERS, p, &adam) != TC_STATUS_OK) return failed("tc_optimizer_create");
  double first = 0, v = 0;
  int right = 0;
  for (int i = 0; i < STEPS; i++) {
    tc_scope *step = tc_scope_open();
    tc_tensor *out[2 + PARAMETERS];
    if (tc_call(f, inputs, out) != TC_STATUS_OK) return failed("tc_call");
    if (tc_optimizer_step(adam, out + 2) != TC_STATUS_OK) return failed("tc_optimizer_step");
    tc_item_f64(out[0], &v, NULL);
    if (i == 0) first = v;
    if (i % 50 == 0 || i == STEPS - 1) printf("step %d: loss %.4f\n", i, v);
    const float *scores = tc_data_of(out[1]);
    right = 0;
    for (int k = 0; k < POINTS; k++) right += (scores[2 * k + 1] > scores[2 * k]) == (classes[k] == 1);
    tc_scope_close(step);
  }
  // CHECK: step 0: loss
  // CHECK: the loss fell to less than a tenth
  printf("the loss fell to %s\n", v < first / 10 ? "less than a tenth" : "no less than a tenth");
  // CHECK: 256 of 256 points are told apart
  printf("%d of %d points are told apart\n", right, (int)POINTS);
  // CHECK: compiled once
  printf("compiled %s\n", tc_function_stats_of(f).compiles == 1 ? "once" : "more than once");
  tc_optimizer_destroy(adam);
  tc_function_destroy(f);
  tc_scope_close(scope);
  tc_close(c);
  return v < first / 10 ? 0 : 1;
}
