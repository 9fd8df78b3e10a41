// tc_grad within compiled functions: a whole training step as one graph against the same in two functions, gradients of
// gradients, of values that were computed on the way, with cotangents, and what is refused.
#include <math.h>

#include "tests/unit/api/backends.h"

enum { ROWS = 6, IN = 3, HIDDEN = 5, OUT = 2, INPUTS = 2, PARAMETERS = 4, ALL = INPUTS + PARAMETERS, STEPS = 5 };

static tc_tensor *random_tensor(tc_context *c, int32_t rank, const int64_t *sizes) {
  tc_tensor *t = tc_new_tensor(c, TC_F64, rank, sizes);
  assert_non_null(t);
  for (int64_t i = 0; i < tc_numel_of(t); i++) ((double *)tc_data_of(t))[i] = 2.0 * rand() / RAND_MAX - 1;
  return t;
}
static tc_tensor *copy_of(tc_context *c, tc_tensor *t) {
  int64_t sizes[2] = {tc_size_of(t, 0), tc_rank_of(t) > 1 ? tc_size_of(t, 1) : 0};
  return tc_tensor_from(c, TC_F64, tc_rank_of(t), sizes, tc_data_of(t));
}
static double at(tc_tensor *t, int64_t i) {
  const double *data = tc_data_of(t);
  assert_non_null(data);
  return data[i];
}
static tc_tensor *total(tc_tensor *x) { return tc_aten_sum(x, TC_DTYPE_NONE); }
static tc_tensor *product(tc_tensor *x, tc_tensor *y) { return tc_aten_mul_Tensor(x, y); }

static tc_function *compiled(tc_context *c, tc_function_body f, void *self, int32_t n_in, int32_t n_out) {
  tc_compile_options o = {.struct_size = sizeof o, .name = "step", .n_inputs = n_in, .n_outputs = n_out};
  tc_function *g = NULL;
  if (tc_compile(c, f, self, &o, &g) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
  return g;
}
static void call(tc_function *f, tc_tensor *const *in, tc_tensor **out) {
  if (tc_call(f, in, out) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
}

// A perceptron's mean square error.
static int32_t loss(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)self, (void)n_in, (void)n_out;
  tc_tensor *const *p = in + INPUTS;
  tc_tensor *y = tc_aten_linear(tc_aten_tanh(tc_aten_linear(in[0], p[0], p[1])), p[2], p[3]);
  tc_tensor *d = tc_aten_sub_Tensor(y, in[1], tc_scalar_int(1));
  out[0] = tc_aten_mean(product(d, d), TC_DTYPE_NONE);
  return tc_last_code();
}
// All of a step.
typedef struct stepping {
  tc_optimizer *optimizer;
  bool scaled;
} stepping;
static int32_t step(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  const stepping *s = self;
  tc_tensor *gradients[PARAMETERS], *of;
  loss(NULL, in, n_in, out, n_out);
  of = s->scaled ? product(out[0], tc_optimizer_scale(s->optimizer)) : out[0];
  if (tc_grad(1, &of, NULL, PARAMETERS, in + INPUTS, 0, gradients) != TC_STATUS_OK) return tc_last_code();
  return tc_optimizer_step(s->optimizer, gradients);
}

static void make_inputs(tc_context *c, tc_tensor **in) {
  in[0] = random_tensor(c, 2, (int64_t[]){ROWS, IN}), in[1] = random_tensor(c, 2, (int64_t[]){ROWS, OUT});
  in[2] = random_tensor(c, 2, (int64_t[]){HIDDEN, IN}), in[3] = random_tensor(c, 1, (int64_t[]){HIDDEN});
  in[4] = random_tensor(c, 2, (int64_t[]){OUT, HIDDEN}), in[5] = random_tensor(c, 1, (int64_t[]){OUT});
}

static void one_graph_is_two_functions(void **state) {
  (void)state;
  seed_rand();
  static const tc_optimizer_options kinds[] = {
      {.kind = TC_SGD, .rate = 0.1, .momentum = 0.9, .clip = 0.3},
      {.kind = TC_ADAM, .rate = 0.01},
      {.kind = TC_ADAMW, .rate = 0.01, .decay = 0.1},
      {.kind = TC_ADAMW, .rate = 0.01, .clip = 0.3, .scale = 1024, .interval = 2}, // powers of two change no bit
  };
  FOR_BACKENDS(c, NULL) {
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
      tc_scope *s = tc_scope_open();
      tc_tensor *in[ALL], *same[ALL], *out[1], *apart[1 + PARAMETERS];
      tc_optimizer_options q = kinds[k];
      tc_optimizer *o[2];
      tc_function *f;
      q.struct_size = sizeof q;
      make_inputs(c, in);
      for (int i = 0; i < ALL; i++) same[i] = copy_of(c, in[i]);
      assert_int_equal(tc_optimizer_create(c, &q, PARAMETERS, in + INPUTS, &o[0]), TC_STATUS_OK);
      q.scale = 0;
      assert_int_equal(tc_optimizer_create(c, &q, PARAMETERS, same + INPUTS, &o[1]), TC_STATUS_OK);
      tc_compile_options how = {.struct_size = sizeof how, .n_inputs = ALL, .n_outputs = 1};
      assert_int_equal(tc_value_and_grad(c, loss, NULL, &how, PARAMETERS, (int32_t[]){2, 3, 4, 5}, &f), TC_STATUS_OK);
      stepping self = {o[0], kinds[k].scale > 0};
      tc_function *whole = compiled(c, step, &self, ALL, 1);
      for (int n = 0; n < STEPS; n++) {
        call(whole, in, out);
        call(f, same, apart);
        assert_int_equal(tc_optimizer_step(o[1], apart + 1), TC_STATUS_OK);
        if (fabs(at(out[0], 0) - at(apart[0], 0)) > 1e-9)
          fail_msg("step %d: loss %.12g, not %.12g", n, at(out[0], 0), at(apart[0], 0));
      }
      for (int i = INPUTS; i < ALL; i++)
        for (int64_t e = 0; e < tc_numel_of(in[i]); e++)
          if (fabs(at(in[i], e) - at(same[i], e)) > 1e-7)
            fail_msg("optimizer %d, parameter %d [%d]: %.12g, not %.12g", (int)k, i, (int)e, at(in[i], e),
                     at(same[i], e));
      assert_int_equal(tc_function_stats_of(whole).compiles, 1);
      tc_tensor *kept[1 + 2 * PARAMETERS];
      int32_t n_state;
      assert_int_equal(tc_optimizer_state(o[0], 1 + 2 * PARAMETERS, kept, &n_state), TC_STATUS_OK);
      assert_true(*(float *)tc_data_of(kept[0]) == STEPS);
      tc_function_destroy(whole);
      tc_function_destroy(f);
      for (int i = 0; i < 2; i++) tc_optimizer_destroy(o[i]);
      tc_scope_close(s);
    }
  }
}

// Σ g², where g is the gradient of Σ x³, and its gradient: 3x², 36x³. Then that of y·w for y = tanh(x) with a
// cotangent: ct·w; and of what nothing depends on.
static int32_t twice(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)self, (void)n_in, (void)n_out;
  tc_tensor *cubes = total(product(product(in[0], in[0]), in[0])), *y = tc_aten_tanh(in[0]), *z = product(y, in[1]);
  if (tc_grad(1, &cubes, NULL, 1, in, 1, &out[0]) != TC_STATUS_OK) return tc_last_code();
  tc_tensor *squares = total(product(out[0], out[0]));
  tc_tensor *further[] = {y, in[2], y};
  if (tc_grad(1, &squares, NULL, 1, in, 0, &out[1]) != TC_STATUS_OK) return tc_last_code();
  return tc_grad(1, &z, &in[2], 3, further, 0, &out[2]);
}

static void of_any_value_and_order(void **state) {
  (void)state;
  seed_rand();
  enum { N = 7 };
  FOR_BACKENDS(c, NULL) {
    tc_scope *s = tc_scope_open();
    tc_tensor *in[3], *out[5];
    for (int i = 0; i < 3; i++) in[i] = random_tensor(c, 1, (int64_t[]){N});
    tc_function *f = compiled(c, twice, NULL, 3, 5);
    call(f, in, out);
    for (int i = 0; i < N; i++) {
      double x = at(in[0], i);
      assert_true(fabs(at(out[0], i) - 3 * x * x) < 1e-12);
      assert_true(fabs(at(out[1], i) - 36 * x * x * x) < 1e-11);
      assert_true(fabs(at(out[2], i) - at(in[2], i) * at(in[1], i)) < 1e-12);
      assert_true(at(out[3], i) == 0);
      assert_true(at(out[4], i) == at(out[2], i));
    }
    tc_function_destroy(f);
    tc_scope_close(s);
  }
}

// Beyond the limit of recompiles the ops of a function with tc_grad run one by one: the same gradients, said once.
static int32_t slope(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)self, (void)n_in, (void)n_out;
  tc_tensor *y = total(product(in[0], tc_aten_tanh(in[1])));
  return tc_grad(1, &y, NULL, 2, in, 0, out);
}
static void beyond_the_limit_gradients_stay(void **state) {
  (void)state;
  seed_rand();
  enum { LIMIT = 2, SIZES = 6 };
  FOR_BACKENDS(c, NULL) {
    log_lines lines = {0};
    tc_compile_options o = {.struct_size = sizeof o, .n_inputs = 2, .n_outputs = 2, .limit = LIMIT};
    tc_function *f;
    o.dynamic = TC_DYNAMIC_NEVER;
    assert_int_equal(tc_set_logs(c, "graph_breaks", keep_line, &lines), TC_STATUS_OK);
    assert_int_equal(tc_compile(c, slope, NULL, &o, &f), TC_STATUS_OK);
    for (int64_t n = 2; n < 2 + SIZES; n++) {
      tc_scope *s = tc_scope_open();
      tc_tensor *in[] = {random_tensor(c, 1, &n), random_tensor(c, 1, &n)}, *out[2];
      call(f, in, out);
      for (int64_t i = 0; i < n; i++) {
        double t = tanh(at(in[1], i));
        assert_true(fabs(at(out[0], i) - t) < 1e-12);
        assert_true(fabs(at(out[1], i) - at(in[0], i) * (1 - t * t)) < 1e-12);
      }
      assert_int_equal(tc_function_stats_of(f).entries, n < 2 + LIMIT ? n - 1 : LIMIT);
      tc_scope_close(s);
    }
    char *first = strstr(lines.text, "the limit of recompiles is reached");
    assert_non_null(first);
    assert_null(strstr(first + 1, "the limit of recompiles is reached"));
    tc_function_destroy(f);
  }
}

// A function that asks for gradients in one of its ways only, which it takes for the first time beyond the limit: it
// is called again, as a graph, and what it has counted in memory before is not counted twice.
typedef struct choosing {
  int32_t slope, counts;
  tc_tensor *count; // of calls
} choosing;
static int32_t choose(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  choosing *q = self;
  (void)n_in, (void)n_out;
  tc_tensor *y = total(product(in[0], tc_aten_tanh(in[0]))), *g = NULL;
  if (q->counts) tc_aten_add__Scalar(q->count, tc_scalar_int(1), tc_scalar_int(1));
  out[0] = in[0];
  if (tc_guard_bool("slope", &q->slope)) {
    (void)tc_grad(1, &y, NULL, 1, in, 0, &g); // what fails shows in what is made of it
    out[0] = tc_aten_mul_Scalar(g, tc_scalar_int(2));
    tc_aten_add__Scalar(q->count, tc_scalar_int(100), tc_scalar_int(1));
  }
  return tc_last_code();
}
static void who_asks_first_beyond_the_limit(void **state) {
  (void)state;
  seed_rand();
  FOR_BACKENDS(c, NULL) {
    for (int counts = 0; counts < 2; counts++) {
      log_lines lines = {0};
      tc_compile_options o = {.struct_size = sizeof o, .n_inputs = 1, .n_outputs = 1, .limit = 1};
      tc_scope *s = tc_scope_open();
      choosing q = {.counts = counts, .count = tc_tensor_from(c, TC_F64, 0, NULL, &(double){0})};
      tc_function *f;
      double turns = 0, written = 0;
      o.dynamic = TC_DYNAMIC_NEVER;
      assert_int_equal(tc_set_logs(c, "graph_breaks", keep_line, &lines), TC_STATUS_OK);
      assert_int_equal(tc_compile(c, choose, &q, &o, &f), TC_STATUS_OK);
      for (int64_t n = 2; n < 9; n++) {
        tc_tensor *x = random_tensor(c, 1, &n), *out;
        q.slope = n > 4;
        int32_t code = tc_call(f, &x, &out);
        turns++, written += counts;
        if (n == 5 && counts) { // what was counted cannot be taken back
          assert_int_equal(code, TC_STATUS_UNIMPLEMENTED);
          if (!strstr(tc_last_error(), "something was written before")) fail_msg("%s", tc_last_error());
          tc_clear_error();
          assert_true(at(q.count, 0) == written);
          continue;
        }
        if (code != TC_STATUS_OK) fail_msg("size %d: %s", (int)n, tc_last_error());
        for (int64_t i = 0; i < n; i++) {
          double v = at(x, i), t = tanh(v);
          assert_true(fabs(at(out, i) - (q.slope ? 2 * (t + v * (1 - t * t)) : v)) < 1e-12);
        }
        if (q.slope) written += 100;
        if (at(q.count, 0) != written) fail_msg("size %d: %g, not %g", (int)n, at(q.count, 0), written);
      }
      assert_int_equal(tc_function_stats_of(f).entries, 1);
      assert_int_equal(tc_function_stats_of(f).calls, (int64_t)turns);
      char *first = strstr(lines.text, "the limit of recompiles is reached");
      assert_non_null(first);
      assert_null(strstr(first + 1, "the limit of recompiles is reached"));
      tc_function_destroy(f);
      tc_scope_close(s);
    }
    assert_int_equal(tc_set_logs(c, "", NULL, NULL), TC_STATUS_OK);
  }
}

// Training goes on beyond the limit as if there were none: in one graph with the optimizer, which writes in place, and
// in two functions.
static void beyond_the_limit_training_goes_on(void **state) {
  (void)state;
  seed_rand();
  enum { WAYS = 3, FEW_STEPS = 3 };
  FOR_BACKENDS(c, NULL) {
    tc_scope *s = tc_scope_open();
    tc_optimizer_options q = {.struct_size = sizeof q, .kind = TC_SGD, .rate = 0.1, .momentum = 0.9};
    tc_compile_options how = {.struct_size = sizeof how, .n_inputs = ALL, .n_outputs = 1, .limit = 1};
    tc_tensor *in[WAYS][ALL];
    tc_optimizer *o[WAYS];
    tc_function *f[WAYS]; // step beyond the limit, loss and gradients beyond it, step without a limit
    stepping self[WAYS] = {0};
    how.dynamic = TC_DYNAMIC_NEVER;
    for (int w = 0; w < WAYS; w++) {
      if (w == 0) make_inputs(c, in[w]);
      for (int i = 0; w > 0 && i < ALL; i++) in[w][i] = copy_of(c, in[0][i]);
      assert_int_equal(tc_optimizer_create(c, &q, PARAMETERS, in[w] + INPUTS, &o[w]), TC_STATUS_OK);
      self[w].optimizer = o[w];
    }
    assert_int_equal(tc_compile(c, step, &self[0], &how, &f[0]), TC_STATUS_OK);
    assert_int_equal(tc_value_and_grad(c, loss, NULL, &how, PARAMETERS, (int32_t[]){2, 3, 4, 5}, &f[1]), TC_STATUS_OK);
    f[2] = compiled(c, step, &self[2], ALL, 1);
    for (int n = 0; n < FEW_STEPS; n++) {
      int64_t sizes[2] = {ROWS + n, IN};
      tc_tensor *x = random_tensor(c, 2, sizes), *out[WAYS][1 + PARAMETERS];
      sizes[1] = OUT;
      tc_tensor *y = random_tensor(c, 2, sizes);
      for (int w = 0; w < WAYS; w++) {
        in[w][0] = x, in[w][1] = y;
        call(f[w], in[w], out[w]);
        if (w == 1) assert_int_equal(tc_optimizer_step(o[w], out[w] + 1), TC_STATUS_OK);
        if (fabs(at(out[w][0], 0) - at(out[0][0], 0)) > 1e-9)
          fail_msg("step %d: loss %.12g, not %.12g", n, at(out[w][0], 0), at(out[0][0], 0));
      }
      for (int w = 1; w < WAYS; w++)
        for (int i = INPUTS; i < ALL; i++)
          for (int64_t e = 0; e < tc_numel_of(in[w][i]); e++)
            if (fabs(at(in[w][i], e) - at(in[0][i], e)) > 1e-7) fail_msg("step %d, way %d, parameter %d", n, w, i);
    }
    for (int w = 0; w < 2; w++) assert_int_equal(tc_function_stats_of(f[w]).entries, 1);
    for (int w = 0; w < WAYS; w++) {
      tc_function_destroy(f[w]);
      tc_optimizer_destroy(o[w]);
    }
    tc_scope_close(s);
  }
}

// ---- what is refused ----
static int32_t reads_behind(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  double v;
  (void)self, (void)n_in, (void)n_out;
  tc_tensor *y = total(in[0]);
  tc_grad(1, &y, NULL, 1, in, 0, out);
  return tc_item_f64(y, &v, NULL);
}
static int32_t reads_before(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  double v;
  (void)self, (void)n_in, (void)n_out;
  tc_tensor *y = total(in[0]);
  tc_item_f64(y, &v, NULL);
  return tc_grad(1, &y, NULL, 1, in, 0, out);
}
static int32_t of_many(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)self, (void)n_in, (void)n_out;
  tc_tensor *y = tc_aten_tanh(in[0]);
  return tc_grad(1, &y, NULL, 1, in, 0, out);
}
static int32_t of_integers(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)self, (void)n_in, (void)n_out;
  tc_tensor *whole = tc_aten_to_dtype(in[0], TC_I64, 0, 0, 0), *y = total(in[0]);
  return tc_grad(1, &y, NULL, 1, &whole, 0, out);
}
static void what_cannot_be(void **state) {
  (void)state;
  static const struct {
    tc_function_body body;
    const char *says;
  } refused[] = {{reads_behind, "graph break behind tc_grad"},
                 {reads_before, "it needs one graph"},
                 {of_many, "it needs a cotangent"},
                 {of_integers, "no tensor of floats"}};
  FOR_BACKENDS(c, NULL) {
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
      tc_scope *s = tc_scope_open();
      tc_tensor *x = random_tensor(c, 1, (int64_t[]){3}), *out;
      tc_function *f = compiled(c, refused[i].body, NULL, 1, 1);
      if (tc_call(f, &x, &out) == TC_STATUS_OK) fail_msg("case %d is not refused", (int)i);
      if (!strstr(tc_last_error(), refused[i].says)) fail_msg("'%s' lacks '%s'", tc_last_error(), refused[i].says);
      tc_clear_error();
      tc_function_destroy(f);
      tc_scope_close(s);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_graph_is_two_functions),        cmocka_unit_test(of_any_value_and_order),
      cmocka_unit_test(beyond_the_limit_gradients_stay),   cmocka_unit_test(who_asks_first_beyond_the_limit),
      cmocka_unit_test(beyond_the_limit_training_goes_on), cmocka_unit_test(what_cannot_be),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
