// Gradients and optimizers of the embedder's API: against differences, against the steps' own definitions, and errors.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/api/backends.h"

static tc_tensor *random_tensor(tc_context *c, tc_dtype dtype, int32_t rank, const int64_t *sizes) {
  tc_tensor *t = tc_new_tensor(c, dtype, rank, sizes);
  assert_non_null(t);
  for (int64_t i = 0; i < tc_numel_of(t); i++) {
    double v = 2.0 * rand() / RAND_MAX - 1;
    if (dtype == TC_F64) ((double *)tc_data_of(t))[i] = v;
    else ((float *)tc_data_of(t))[i] = (float)v;
  }
  return t;
}

// mean((tanh(x·w + b) - y)²); a second output that is no loss.
static int32_t loss(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)self, (void)n_in, (void)n_out;
  tc_tensor *y = tc_aten_tanh(tc_aten_addmm(in[2], in[0], in[1], tc_scalar_int(1), tc_scalar_int(1)));
  tc_tensor *d = tc_aten_sub_Tensor(y, in[3], tc_scalar_int(1));
  out[0] = tc_aten_mean(tc_aten_mul_Tensor(d, d), TC_DTYPE_NONE);
  out[1] = y;
  return tc_last_code();
}

enum { ROWS = 5, IN = 3, OUT = 2 };
static void make_inputs(tc_context *c, tc_dtype dtype, tc_tensor **in) {
  in[0] = random_tensor(c, dtype, 2, (int64_t[]){ROWS, IN});
  in[1] = random_tensor(c, dtype, 2, (int64_t[]){IN, OUT});
  in[2] = random_tensor(c, dtype, 1, (int64_t[]){OUT});
  in[3] = random_tensor(c, dtype, 2, (int64_t[]){ROWS, OUT});
}
static tc_function *value_and_grad(tc_context *c, tc_function_body f, int32_t n_in, int32_t n_out, int32_t n_wrt,
                                   const int32_t *wrt) {
  tc_compile_options o = {.struct_size = sizeof o, .name = "loss", .n_inputs = n_in, .n_outputs = n_out};
  tc_function *g = NULL;
  if (tc_value_and_grad(c, f, NULL, &o, n_wrt, wrt, &g) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
  return g;
}

static void gradients_are_the_differences(void **state) {
  (void)state;
  seed_rand();
  FOR_BACKENDS(c, NULL) {
    tc_scope *s = tc_scope_open();
    tc_tensor *in[4], *out[4];
    make_inputs(c, TC_F64, in);
    tc_function *g = value_and_grad(c, loss, 4, 2, 2, (int32_t[]){2, 1}); // in any order
    if (tc_call(g, in, out) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
    assert_int_equal(tc_size_of(out[1], 0), ROWS);
    for (int k = 0; k < 2; k++) {
      tc_tensor *x = in[k ? 1 : 2];
      assert_int_equal(tc_numel_of(out[2 + k]), tc_numel_of(x));
      for (int64_t i = 0; i < tc_numel_of(x); i++) {
        double *at = (double *)tc_data_of(x) + i, old = *at, up, down, h = 1e-6;
        double have = ((double *)tc_data_of(out[2 + k]))[i];
        tc_tensor *r[4];
        *at = old + h;
        assert_int_equal(tc_call(g, in, r), TC_STATUS_OK);
        tc_item_f64(r[0], &up, NULL);
        *at = old - h;
        assert_int_equal(tc_call(g, in, r), TC_STATUS_OK);
        tc_item_f64(r[0], &down, NULL);
        *at = old;
        if (fabs(have - (up - down) / (2 * h)) > 1e-7) fail_msg("%g instead of %g", have, (up - down) / (2 * h));
      }
    }
    assert_int_equal(tc_function_stats_of(g).compiles, 1);
    tc_function_destroy(g);
    tc_scope_close(s);
  }
}

// Times w until it is no longer small, in as many turns as that takes.
static int32_t small(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)self, (void)n_in, (void)n_out;
  out[0] = tc_aten_lt_Scalar(tc_aten_sum(in[0], TC_DTYPE_NONE), tc_scalar_int(4));
  return tc_last_code();
}
static int32_t times(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)self, (void)n_in, (void)n_out;
  out[0] = tc_aten_mul_Tensor(in[0], in[1]);
  return tc_last_code();
}
static int32_t loop_loss(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  tc_tensor *h;
  (void)n_in, (void)n_out;
  if (tc_while_loop(small, times, self, 1, 2, in, &h) != TC_STATUS_OK) return tc_last_code();
  out[0] = tc_aten_sum(h, TC_DTYPE_NONE);
  return tc_last_code();
}

static void through_loops_of_any_length(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    tc_scope *s = tc_scope_open();
    tc_function *g = value_and_grad(c, loop_loss, 2, 1, 2, (int32_t[]){0, 1});
    static const double starts[] = {5, 3, 0.5, 1e-6, 4};
    for (size_t k = 0; k < sizeof starts / sizeof *starts; k++) {
      double w = 1.25, h = starts[k], turns = 0;
      tc_tensor *in[] = {tc_tensor_from(c, TC_F64, 0, NULL, &starts[k]), tc_tensor_from(c, TC_F64, 0, NULL, &w)},
                *out[3];
      if (tc_call(g, in, out) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
      for (; h < 4; h *= w) turns++;
      const double want[] = {h, pow(w, turns), turns * h / w};
      for (int i = 0; i < 3; i++) {
        double have = *(double *)tc_data_of(out[i]);
        if (fabs(have - want[i]) > 1e-9 * (1 + want[i])) fail_msg("%zu, %d: %g instead of %g", k, i, have, want[i]);
      }
    }
    assert_int_equal(tc_function_stats_of(g).compiles, 1);
    tc_function_destroy(g);
    tc_scope_close(s);
  }
}

// The same function in mixed precision: results have its types, gradients those of what they are of.
static void mixed_precision(void **state) {
  (void)state;
  seed_rand();
  FOR_BACKENDS(c, "autocast=bf16") {
    tc_scope *s = tc_scope_open();
    tc_tensor *in[4], *out[4];
    make_inputs(c, TC_F32, in);
    tc_function *g = value_and_grad(c, loss, 4, 2, 2, (int32_t[]){2, 1});
    if (tc_call(g, in, out) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
    assert_int_equal(tc_dtype_of(out[0]), TC_F32); // of a difference with f32
    assert_int_equal(tc_dtype_of(out[1]), TC_BF16);
    assert_int_equal(tc_dtype_of(out[2]), TC_F32);
    assert_int_equal(tc_dtype_of(out[3]), TC_F32);
    assert_int_equal(tc_size_of(out[3], 0), IN);
    tc_function_destroy(g);
    tc_scope_close(s);
  }
}

static int32_t of_one(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)self, (void)n_in, (void)n_out;
  out[0] = tc_aten_sum(in[0], TC_DTYPE_NONE);
  return tc_last_code();
}
static int32_t no_scalar(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)self, (void)n_in, (void)n_out;
  out[0] = tc_aten_relu(in[0]);
  return tc_last_code();
}
static int32_t reads(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  double v;
  of_one(self, in, n_in, out, n_out);
  return tc_item_f64(out[0], &v, NULL);
}

static void what_cannot_be(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    tc_scope *s = tc_scope_open();
    tc_tensor *in[] = {random_tensor(c, TC_F32, 1, (int64_t[]){3}), random_tensor(c, TC_F32, 1, (int64_t[]){2})},
              *out[2];
    tc_function *g = value_and_grad(c, of_one, 2, 1, 1, (int32_t[]){1}); // the loss does not depend on it
    assert_int_equal(tc_call(g, in, out), TC_STATUS_OK);
    assert_true(((float *)tc_data_of(out[1]))[0] == 0 && ((float *)tc_data_of(out[1]))[1] == 0);
    tc_function_destroy(g);
    g = value_and_grad(c, no_scalar, 2, 1, 1, (int32_t[]){0});
    assert_int_equal(tc_call(g, in, out), TC_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(tc_last_error(), "a real tensor of one element"));
    tc_clear_error();
    tc_function_destroy(g);
    g = value_and_grad(c, reads, 2, 1, 1, (int32_t[]){0});
    assert_int_equal(tc_call(g, in, out), TC_STATUS_UNIMPLEMENTED);
    assert_non_null(strstr(tc_last_error(), "reads values"));
    tc_clear_error();
    tc_function_destroy(g);
    tc_compile_options o = {.struct_size = sizeof o, .n_inputs = 2, .n_outputs = 1};
    assert_int_equal(tc_value_and_grad(c, of_one, NULL, &o, 1, (int32_t[]){2}, &g), TC_STATUS_INVALID_ARGUMENT);
    tc_clear_error();
    tc_scope_close(s);
  }
}

// One step after another by the definitions, in double.
typedef struct moments {
  double m, v;
} moments;
static double expected(const tc_optimizer_options *o, double p, double g, moments *s, int n) {
  if (o->kind != TC_ADAMW) g += o->decay * p;
  if (o->kind == TC_SGD) {
    s->m = o->momentum * s->m + g;
    return p - o->rate * (o->nesterov ? g + o->momentum * s->m : s->m);
  }
  s->m = 0.9 * s->m + 0.1 * g;
  s->v = 0.999 * s->v + 0.001 * g * g;
  double by = s->m / (1 - pow(0.9, n)) / (sqrt(s->v / (1 - pow(0.999, n))) + 1e-8);
  return p - o->rate * (by + (o->kind == TC_ADAMW ? o->decay * p : 0));
}

static void steps_are_the_definitions(void **state) {
  (void)state;
  seed_rand();
  static const tc_optimizer_options all[] = {
      {.kind = TC_SGD, .rate = 0.1},
      {.kind = TC_SGD, .rate = 0.1, .momentum = 0.8, .decay = 0.01},
      {.kind = TC_SGD, .rate = 0.1, .momentum = 0.8, .nesterov = 1},
      {.kind = TC_ADAM, .rate = 0.01, .decay = 0.02},
      {.kind = TC_ADAMW, .rate = 0.01, .decay = 0.1},
      {.kind = TC_SGD, .rate = 0.5, .clip = 0.1},
  };
  FOR_BACKENDS(c, NULL) {
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
      enum { SMALL = 4, LARGE = 37, ALL = SMALL + LARGE };
      tc_scope *s = tc_scope_open();
      tc_optimizer_options q = all[k];
      q.struct_size = sizeof q;
      tc_tensor *p[] = {random_tensor(c, TC_F32, 1, (int64_t[]){SMALL}),
                        random_tensor(c, TC_F32, 1, (int64_t[]){LARGE})};
      double want[ALL];
      moments had[ALL] = {0};
      for (int i = 0; i < ALL; i++) want[i] = (double)((float *)tc_data_of(p[i >= SMALL]))[i >= SMALL ? i - SMALL : i];
      tc_optimizer *o;
      if (tc_optimizer_create(c, &q, 2, p, &o) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
      for (int n = 1; n <= 3; n++) {
        if (n == 3) assert_int_equal(tc_optimizer_set_rate(o, q.rate /= 2), TC_STATUS_OK);
        tc_tensor *g[] = {random_tensor(c, TC_F32, 1, (int64_t[]){SMALL}),
                          random_tensor(c, TC_F32, 1, (int64_t[]){LARGE})};
        double norm = 0, x[ALL];
        for (int i = 0; i < ALL; i++) {
          x[i] = (double)((float *)tc_data_of(g[i >= SMALL]))[i >= SMALL ? i - SMALL : i];
          norm += x[i] * x[i];
        }
        double f = q.clip > 0 ? fmin(1, q.clip / (sqrt(norm) + 1e-6)) : 1;
        if (tc_optimizer_step(o, g) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
        for (int i = 0; i < ALL; i++) {
          want[i] = expected(&q, want[i], x[i] * f, &had[i], n);
          double have = (double)((float *)tc_data_of(p[i >= SMALL]))[i >= SMALL ? i - SMALL : i];
          if (fabs(have - want[i]) > 2e-6)
            fail_msg("optimizer %d, step %d, %d: %.9g, not %.9g", (int)k, n, i, have, want[i]);
        }
      }
      int32_t n_state;
      tc_tensor *kept[8];
      assert_int_equal(tc_optimizer_state(o, 8, kept, &n_state), TC_STATUS_OK);
      assert_int_equal(n_state, 1 + 2 * (q.kind != TC_SGD ? 2 : q.momentum != 0));
      assert_true(*(float *)tc_data_of(kept[0]) == 3);
      tc_optimizer_destroy(o);
      tc_scope_close(s);
    }
  }
}

// ---- against PyTorch: tools/optimizer_table.py ----
// Numbers up to the next bar or the end of the line.
static int32_t read_numbers(char **at, int32_t most, double *out) {
  int32_t n = 0;
  for (char *end; n < most; n++, *at = end) {
    out[n] = strtod(*at, &end);
    if (end == *at) break;
  }
  while (**at == ' ') (*at)++;
  if (**at == '|') (*at)++;
  return n;
}

enum { FIRST = 3, SECOND = 5, BOTH = FIRST + SECOND, TABLE_STEPS = 4 };
static void read_tensors(char **at, tc_tensor **t) {
  double x[BOTH];
  assert_int_equal(read_numbers(at, BOTH, x), BOTH);
  for (int i = 0; i < BOTH; i++) ((float *)tc_data_of(t[i >= FIRST]))[i >= FIRST ? i - FIRST : i] = (float)x[i];
}

static void follow_line(tc_context *c, char *line, int number) {
  double head[6], want[BOTH];
  tc_scope *s = tc_scope_open();
  tc_tensor *t[4];
  for (int i = 0; i < 4; i++) t[i] = random_tensor(c, TC_F32, 1, (int64_t[]){i % 2 ? SECOND : FIRST});
  assert_int_equal(read_numbers(&line, 6, head), 6);
  tc_optimizer_options o = {.struct_size = sizeof o, .kind = (int32_t)head[0], .rate = head[1], .momentum = head[2]};
  o.nesterov = (int32_t)head[3], o.decay = head[4], o.clip = head[5];
  read_tensors(&line, t);
  tc_optimizer *x;
  if (tc_optimizer_create(c, &o, 2, t, &x) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
  for (int step = 1; step <= TABLE_STEPS; step++) {
    read_tensors(&line, t + 2);
    assert_int_equal(read_numbers(&line, BOTH, want), BOTH);
    if (tc_optimizer_step(x, t + 2) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
    for (int i = 0; i < BOTH; i++) {
      double have = (double)((float *)tc_data_of(t[i >= FIRST]))[i >= FIRST ? i - FIRST : i];
      if (!(fabs(have - want[i]) <= 2e-6)) fail_msg("line %d, step %d: %.9g, not %.9g", number, step, have, want[i]);
    }
  }
  tc_optimizer_destroy(x);
  tc_scope_close(s);
}

static void steps_are_pytorchs(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    static char line[8192];
    FILE *f = fopen(TC_SOURCE_DIR "/tests/unit/api/optimizers.txt", "r");
    int number = 0, seen = 0;
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
      if (number++, line[0] != '#') follow_line(c, line, number), seen++;
    fclose(f);
    assert_true(seen >= 7);
  }
}

// One parameter, whose scaled gradients overflow in one step: it changes nothing but the scale.
static void the_scale_follows_overflows(void **state) {
  (void)state;
  seed_rand();
  enum { N = 5, STEPS = 6, BAD = 2 };
  static const int32_t kinds[] = {TC_SGD, TC_ADAM, TC_ADAMW};
  static const double scales[STEPS] = {8, 16, 8, 8, 16, 16}; // behind each step; doubled after two good ones
  FOR_BACKENDS(c, NULL) {
    for (int k = 0; k < 3; k++) {
      tc_scope *s = tc_scope_open();
      tc_optimizer_options q = {.kind = kinds[k], .rate = 0.01, .momentum = 0.5, .decay = 0.1, .clip = 0.4};
      q.struct_size = sizeof q, q.scale = 8, q.interval = 2;
      tc_tensor *p = random_tensor(c, TC_F32, 1, (int64_t[]){N}), *scale, *kept[8];
      double want[N], used = 8;
      moments had[N] = {0};
      int32_t n_state;
      tc_optimizer *o;
      for (int i = 0; i < N; i++) want[i] = (double)((float *)tc_data_of(p))[i];
      if (tc_optimizer_create(c, &q, 1, &p, &o) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
      scale = tc_optimizer_scale(o);
      for (int n = 0, good = 0; n < STEPS; n++) {
        tc_tensor *g = random_tensor(c, TC_F32, 1, (int64_t[]){N});
        float *at = tc_data_of(g);
        double norm = 0;
        for (int i = 0; i < N; i++) norm += (double)at[i] * (double)at[i];
        if (n != BAD) good++;
        for (int i = 0; i < N && n != BAD; i++)
          want[i] = expected(&q, want[i], (double)at[i] * fmin(1, q.clip / (sqrt(norm) + 1e-6)), &had[i], good);
        for (int i = 0; i < N; i++) at[i] *= (float)used;
        if (n == BAD) at[rand() % N] = rand() % 2 ? INFINITY : NAN;
        if (tc_optimizer_step(o, &g) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
        for (int i = 0; i < N; i++) {
          double have = (double)((float *)tc_data_of(p))[i];
          if (!(fabs(have - want[i]) < 2e-6)) fail_msg("kind %d, step %d: %.9g, not %.9g", k, n, have, want[i]);
        }
        assert_true(tc_item_f64(scale, &used, NULL) == TC_STATUS_OK && used == scales[n]);
      }
      assert_int_equal(tc_optimizer_state(o, 8, kept, &n_state), TC_STATUS_OK);
      assert_int_equal(n_state, 3 + (kinds[k] == TC_SGD ? 1 : 2));
      assert_true(*(float *)tc_data_of(kept[0]) == STEPS - 1);
      assert_true(*(float *)tc_data_of(kept[n_state - 2]) == 16 && *(float *)tc_data_of(kept[n_state - 1]) == 1);
      tc_optimizer_destroy(o);
      q.scale = 0;
      assert_int_equal(tc_optimizer_create(c, &q, 1, &p, &o), TC_STATUS_OK);
      assert_null(tc_optimizer_scale(o));
      tc_clear_error();
      tc_optimizer_destroy(o);
      tc_scope_close(s);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gradients_are_the_differences),
      cmocka_unit_test(through_loops_of_any_length),
      cmocka_unit_test(mixed_precision),
      cmocka_unit_test(what_cannot_be),
      cmocka_unit_test(steps_are_the_definitions),
      cmocka_unit_test(steps_are_pytorchs),
      cmocka_unit_test(the_scale_follows_overflows),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
