// A Fourier neural operator (Li et al. 2021) that learns what Burgers' equation, u_t + u u_x = ν u_xx with period 1,
// makes of a state in half a unit of time: fno [options of trainer.c].
//
// The data is made here: random sums of sines are integrated on a grid four times as fine, fluxes by central
// differences, in time by Heun's method with steps below the limit of diffusion.
#include <math.h>

#include "trainer.h"

enum { GRID = 64, FINE = 4 * GRID, SAMPLES = 128, TERMS = 4, WIDTH = 20, MODES = 12, LAYERS = 3, BATCH = 16 };

static const char *const data_names[] = {"states", "later"};

static void slope(const double *u, double *out) {
  const double nu = 0.01, dx = 1.0 / FINE;
  for (int i = 0; i < FINE; i++) {
    double l = u[(i + FINE - 1) % FINE], r = u[(i + 1) % FINE];
    out[i] = (l * l - r * r) / (4 * dx) + nu * (l - 2 * u[i] + r) / (dx * dx);
  }
}

static void integrate(double *u) {
  enum { TURNS = 1000 };
  const double dt = 0.5 / TURNS;
  double k1[FINE], k2[FINE], v[FINE];
  for (int t = 0; t < TURNS; t++) {
    slope(u, k1);
    for (int i = 0; i < FINE; i++) v[i] = u[i] + dt * k1[i];
    slope(v, k2);
    for (int i = 0; i < FINE; i++) u[i] += dt / 2 * (k1[i] + k2[i]);
  }
}

// States have their places as a second channel.
static int64_t make_data(tc_context *c, const char *path, tc_tensor **data) {
  (void)path;
  data[0] = tc_new_tensor(c, TC_F32, 3, (int64_t[]){SAMPLES, GRID, 2});
  data[1] = tc_new_tensor(c, TC_F32, 2, (int64_t[]){SAMPLES, GRID});
  float *states = tc_data_of(data[0]), *later = tc_data_of(data[1]);
  if (!states || !later) return 0;
  uint64_t state = 11;
  for (int s = 0; s < SAMPLES; s++) {
    double u[FINE] = {0};
    for (int k = 1; k <= TERMS; k++) {
      double a = train_random(&state) / k, b = train_random(&state) / k;
      for (int i = 0; i < FINE; i++) {
        double x = 2 * 3.14159265358979 * k * i / FINE;
        u[i] += a * sin(x) + b * cos(x);
      }
    }
    for (int i = 0; i < GRID; i++) {
      float *at = states + 2 * (s * GRID + i);
      at[0] = (float)u[i * FINE / GRID], at[1] = (float)i / GRID;
    }
    integrate(u);
    for (int i = 0; i < GRID; i++) later[s * GRID + i] = (float)u[i * FINE / GRID];
  }
  return SAMPLES;
}

// Weights of frequencies are complex; their parts are the last dimension.
#define LAYER(i)                                                                                  \
  {i ".spectral", 4, {MODES, WIDTH, WIDTH, 2}, 0, 0.1}, {i ".weight", 2, {WIDTH, WIDTH}, 0, 0.2}, \
      {i ".bias", 1, {WIDTH}, 0, 0}
static const train_parameter parameters[] = {
    {"lift.weight", 2, {WIDTH, 2}, 0, 0.7},
    {"lift.bias", 1, {WIDTH}, 0, 0.7},
    LAYER("layer0"),
    LAYER("layer1"),
    LAYER("layer2"),
    {"project1.weight", 2, {4 * WIDTH, WIDTH}, 0, 0.2},
    {"project1.bias", 1, {4 * WIDTH}, 0, 0.2},
    {"project2.weight", 2, {1, 4 * WIDTH}, 0, 0.1},
    {"project2.bias", 1, {1}, 0, 0.1},
};
enum { PARAMETERS = sizeof parameters / sizeof *parameters };

static tc_tensor *transform(const char *op, tc_tensor *x, int64_t n, int64_t dim) {
  tc_argument args[3] = {{.kind = TC_ARGUMENT_TENSOR, .v.tensor = x}, tc_scalar_int(n), tc_scalar_int(dim)};
  tc_tensor *out = NULL;
  tc_call_op(NULL, op, 3, args, 1, &out, NULL);
  return out;
}

// Along the grid: the low frequencies' channels are mixed, each frequency by its own matrix. x: [batch, grid, width].
static tc_tensor *spectral(tc_tensor *x, tc_tensor *weight) {
  tc_tensor *f = tc_aten_narrow(transform("aten::fft_rfft", x, GRID, 1), 1, 0, MODES);
  f = tc_aten_bmm(tc_aten_transpose_int(f, 0, 1), tc_aten_view_as_complex(weight));
  return transform("aten::fft_irfft", tc_aten_transpose_int(f, 0, 1), GRID, 1);
}

static int32_t loss(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)self, (void)n_in, (void)n_out;
  tc_tensor *const *p = in + 3;
  tc_tensor *x = tc_aten_linear(tc_aten_index_select(in[0], 0, in[2]), p[0], p[1]);
  p += 2;
  for (int i = 0; i < LAYERS; i++, p += 3) {
    x = train_add(spectral(x, p[0]), tc_aten_linear(x, p[1], p[2]));
    if (i + 1 < LAYERS) x = tc_aten_gelu(x, "none");
  }
  x = tc_aten_linear(tc_aten_gelu(tc_aten_linear(x, p[0], p[1]), "none"), p[2], p[3]);
  x = tc_aten_reshape(x, (int64_t[]){BATCH, GRID}, 2);
  out[0] = tc_aten_mse_loss(x, tc_aten_index_select(in[1], 0, in[2]), 1);
  return tc_last_code();
}

int main(int argc, char **argv) {
  const train_program p = {.name = "fno",
                           .n_data = 2,
                           .data_names = data_names,
                           .make_data = make_data,
                           .batch = BATCH,
                           .n_parameters = PARAMETERS,
                           .parameters = parameters,
                           .loss = loss,
                           .optimizer = {.kind = TC_ADAM, .rate = 2e-3},
                           .steps = 500};
  return train_main(&p, argc, argv);
}
