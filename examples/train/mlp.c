// A perceptron that tells three spirals apart: mlp [options of trainer.c].
#include <math.h>

#include "trainer.h"

enum { POINTS = 1536, ARMS = 3, HIDDEN = 64 };

static const char *const data_names[] = {"points", "classes"};

static int64_t make_data(tc_context *c, const char *path, tc_tensor **data) {
  (void)path;
  data[0] = tc_new_tensor(c, TC_F32, 2, (int64_t[]){POINTS, 2});
  data[1] = tc_new_tensor(c, TC_I64, 1, (int64_t[]){POINTS});
  float *points = tc_data_of(data[0]);
  int64_t *classes = tc_data_of(data[1]);
  if (!points || !classes) return 0;
  uint64_t state = 7;
  for (int i = 0; i < POINTS; i++) {
    double r = 0.15 + 0.85 * i / POINTS, turn = 7 * r + 2 * 3.14159265358979 * (i % ARMS) / ARMS;
    points[2 * i] = (float)(r * cos(turn) + 0.04 * train_random(&state));
    points[2 * i + 1] = (float)(r * sin(turn) + 0.04 * train_random(&state));
    classes[i] = i % ARMS;
  }
  return POINTS;
}

static const train_parameter parameters[] = {
    {"l1.weight", 2, {HIDDEN, 2}, 0, 1},          {"l1.bias", 1, {HIDDEN}, 0, 1},
    {"l2.weight", 2, {HIDDEN, HIDDEN}, 0, 0.125}, {"l2.bias", 1, {HIDDEN}, 0, 0.125},
    {"l3.weight", 2, {HIDDEN, HIDDEN}, 0, 0.125}, {"l3.bias", 1, {HIDDEN}, 0, 0.125},
    {"l4.weight", 2, {ARMS, HIDDEN}, 0, 0.125},   {"l4.bias", 1, {ARMS}, 0, 0.125},
};
enum { PARAMETERS = sizeof parameters / sizeof *parameters };

static int32_t loss(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)self, (void)n_in, (void)n_out;
  tc_tensor *const *p = in + 3;
  tc_tensor *x = tc_aten_index_select(in[0], 0, in[2]), *y = tc_aten_index_select(in[1], 0, in[2]);
  for (int i = 0; i < PARAMETERS; i += 2) {
    x = tc_aten_linear(x, p[i], p[i + 1]);
    if (i + 2 < PARAMETERS) x = tc_aten_gelu(x, "none");
  }
  out[0] = tc_aten_cross_entropy_loss(x, y, NULL, 1, -100, 0);
  return tc_last_code();
}

int main(int argc, char **argv) {
  const train_program p = {.name = "mlp",
                           .n_data = 2,
                           .data_names = data_names,
                           .make_data = make_data,
                           .batch = 128,
                           .n_parameters = PARAMETERS,
                           .parameters = parameters,
                           .loss = loss,
                           .optimizer = {.kind = TC_SGD, .rate = 0.05, .momentum = 0.9, .decay = 1e-4},
                           .steps = 1000};
  return train_main(&p, argc, argv);
}
