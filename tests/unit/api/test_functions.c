// Compiled functions: capture, guards in words, recompiles, dynamic sizes, breaks, threads.
#include "core/runtime/context.h"
#include "tests/unit/api/backends.h"

static tc_tensor *range(tc_context *c, int32_t rank, const int64_t *sizes) {
  tc_tensor *t = tc_new_tensor(c, TC_F32, rank, sizes);
  assert_non_null(t);
  for (int64_t i = 0; i < tc_numel_of(t); i++) ((float *)tc_data_of(t))[i] = (float)(i % 7) - 3;
  return t;
}

// y = relu(x) * w + x.
static int bodies; // how often it ran
static int32_t body(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)self, (void)n_in, (void)n_out;
  bodies++;
  out[0] = tc_aten_add_Tensor(tc_aten_mul_Tensor(tc_aten_relu(in[0]), in[1]), in[0], tc_scalar_int(1));
  return tc_last_code();
}

static void check(tc_function *f, tc_context *c, int64_t rows, int64_t columns) {
  tc_scope *s = tc_scope_open();
  tc_tensor *in[] = {range(c, 2, (int64_t[]){rows, columns}), range(c, 1, (int64_t[]){columns})}, *out[1];
  if (tc_call(f, in, out) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
  assert_int_equal(tc_size_of(out[0], 0), rows);
  const float *x = tc_data_of(in[0]), *w = tc_data_of(in[1]), *y = tc_data_of(out[0]);
  for (int64_t i = 0; i < rows * columns; i++) {
    float want = (x[i] > 0 ? x[i] : 0) * w[i % columns] + x[i];
    if (y[i] != want)
      fail_msg("element %d of %dx%d is %g, not %g", (int)i, (int)rows, (int)columns, (double)y[i], (double)want);
  }
  tc_scope_close(s);
}

static const char *const names[] = {"x", "w"};
static tc_compile_options two_inputs(void) {
  return (tc_compile_options){
      .struct_size = sizeof(tc_compile_options), .name = "scale", .input_names = names, .n_inputs = 2, .n_outputs = 1};
}

static void sizes_become_symbols(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    log_lines lines = {0};
    tc_function *f;
    tc_compile_options o = two_inputs();
    assert_int_equal(tc_set_logs(c, "recompiles,guards", keep_line, &lines), TC_STATUS_OK);
    assert_int_equal(tc_compile(c, body, NULL, &o, &f), TC_STATUS_OK);
    bodies = 0;
    check(f, c, 8, 5);
    check(f, c, 8, 5);
    assert_int_equal(bodies, 1);
    check(f, c, 16, 5); // one size changed: it becomes a symbol
    assert_int_equal(tc_function_stats_of(f).compiles, 2);
    for (int64_t n = 2; n < 70; n += 7) check(f, c, n, 5);
    assert_int_equal(tc_function_stats_of(f).compiles, 2);
    assert_int_equal(bodies, 2);
    assert_non_null(strstr(lines.text, "tensor 'x' size mismatch at index 0. expected 8, actual 16"));
    char *guards = tc_function_guards(f);
    assert_non_null(strstr(guards, "tensor 'x': f32[8, 5]"));
    assert_non_null(strstr(guards, "tensor 'x': f32[s0, 5]"));
    tc_text_free(guards);
    tc_reset(f);
    check(f, c, 3, 5);
    assert_int_equal(tc_function_stats_of(f).entries, 1);
    tc_function_destroy(f);
  }
}

static void marks_and_ranges(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    tc_function *f;
    tc_compile_options o = two_inputs();
    o.n_marks = 1;
    o.marks = &(tc_dim_mark){.input = 0, .dim = 0, .lo = 4, .hi = 64, .divisor = 4};
    assert_int_equal(tc_compile(c, body, NULL, &o, &f), TC_STATUS_OK);
    for (int64_t n = 4; n <= 64; n += 4) check(f, c, n, 3);
    assert_int_equal(tc_function_stats_of(f).compiles, 1);
    check(f, c, 6, 3); // outside of what was promised: right, with an entry of its own
    assert_int_equal(tc_function_stats_of(f).compiles, 2);
    o.marks = &(tc_dim_mark){.input = 7, .dim = 0};
    tc_function *g;
    assert_int_not_equal(tc_compile(c, body, NULL, &o, &g), TC_STATUS_OK);
    tc_clear_error();
    tc_function_destroy(f);
  }
}

static void dtypes_strides_and_aliases_are_guarded(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    log_lines lines = {0};
    tc_function *f;
    tc_compile_options o = two_inputs();
    assert_int_equal(tc_set_logs(c, "recompiles", keep_line, &lines), TC_STATUS_OK);
    assert_int_equal(tc_compile(c, body, NULL, &o, &f), TC_STATUS_OK);
    tc_scope *s = tc_scope_open();
    tc_tensor *x = range(c, 2, (int64_t[]){4, 4}), *d = tc_new_tensor(c, TC_F64, 2, (int64_t[]){4, 4}), *out[1];
    memset(tc_data_of(d), 0, 16 * sizeof(double));
    assert_int_equal(tc_call(f, (tc_tensor *[]){x, range(c, 2, (int64_t[]){4, 4})}, out), TC_STATUS_OK);
    assert_int_equal(tc_call(f, (tc_tensor *[]){x, x}, out), TC_STATUS_OK);
    assert_non_null(strstr(lines.text, "tensor 'w' shares memory with 'x'"));
    assert_int_equal(tc_call(f, (tc_tensor *[]){d, x}, out), TC_STATUS_OK);
    assert_int_equal(tc_dtype_of(out[0]), TC_F64);
    assert_non_null(strstr(lines.text, "tensor 'x' dtype mismatch. expected f32, actual f64"));
    assert_int_equal(tc_call(f, (tc_tensor *[]){tc_aten_t(x), range(c, 2, (int64_t[]){4, 4})}, out), TC_STATUS_OK);
    assert_non_null(strstr(lines.text, "stride mismatch at index"));
    assert_int_equal(tc_function_stats_of(f).compiles, 4);
    tc_scope_close(s);
    tc_function_destroy(f);
  }
}

static void beyond_the_limit_calls_run_eagerly(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    log_lines lines = {0};
    tc_function *f;
    tc_compile_options o = two_inputs();
    o.limit = 2, o.dynamic = TC_DYNAMIC_NEVER;
    assert_int_equal(tc_set_logs(c, "graph_breaks", keep_line, &lines), TC_STATUS_OK);
    assert_int_equal(tc_compile(c, body, NULL, &o, &f), TC_STATUS_OK);
    for (int64_t n = 2; n < 7; n++) check(f, c, n, 3);
    assert_int_equal(tc_function_stats_of(f).entries, 2);
    char *first = strstr(lines.text, "the limit of recompiles is reached");
    assert_non_null(first);
    assert_null(strstr(first + 1, "the limit of recompiles is reached")); // said once
    tc_function_destroy(f);
  }
}

// Reads a value: cannot be captured whole.
static int32_t reads(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  double v = 0;
  (void)self, (void)n_in, (void)n_out;
  if (tc_item_f64(tc_aten_sum(in[0], 0), &v, NULL) != TC_STATUS_OK) return tc_last_code();
  out[0] = v > 0 ? tc_aten_relu(in[0]) : tc_aten_neg(in[0]);
  return tc_last_code();
}

static void breaks_are_named(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    log_lines lines = {0};
    tc_function *f;
    tc_compile_options o = two_inputs();
    o.n_inputs = 1;
    assert_int_equal(tc_set_logs(c, "graph_breaks", keep_line, &lines), TC_STATUS_OK);
    assert_int_equal(tc_compile(c, reads, NULL, &o, &f), TC_STATUS_OK);
    tc_scope *s = tc_scope_open();
    float up[] = {1, -0.5f}, down[] = {-1, 0.5f};
    tc_tensor *out[1];
    assert_int_equal(tc_call(f, (tc_tensor *[]){tc_tensor_from(c, TC_F32, 1, (int64_t[]){2}, up)}, out), TC_STATUS_OK);
    assert_true(((float *)tc_data_of(out[0]))[1] == 0);
    assert_int_equal(tc_call(f, (tc_tensor *[]){tc_tensor_from(c, TC_F32, 1, (int64_t[]){2}, down)}, out),
                     TC_STATUS_OK);
    assert_true(((float *)tc_data_of(out[0]))[0] == 1);
    assert_non_null(strstr(lines.text, "test_functions.c:"));
    tc_scope_close(s);
    tc_function_destroy(f);
  }
  FOR_BACKENDS(c, "fullgraph=true") {
    tc_function *f;
    tc_compile_options o = two_inputs();
    o.n_inputs = 1;
    assert_int_equal(tc_compile(c, reads, NULL, &o, &f), TC_STATUS_OK);
    tc_scope *s = tc_scope_open();
    tc_tensor *out[1];
    assert_int_not_equal(tc_call(f, (tc_tensor *[]){range(c, 1, (int64_t[]){2})}, out), TC_STATUS_OK);
    assert_non_null(strstr(tc_last_error(), "a value is read"));
    tc_clear_error();
    tc_scope_close(s);
    tc_function_destroy(f);
  }
}

// Reads a size: the entry is specialised to it, and guarded.
static int32_t reads_size(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)self, (void)n_in, (void)n_out;
  out[0] = tc_aten_mul_Scalar(in[0], tc_scalar_real(1.0 / (double)tc_size_of(in[0], 0)));
  return tc_last_code();
}

static void sizes_that_are_read_are_guarded(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    tc_function *f;
    tc_compile_options o = two_inputs();
    o.n_inputs = 1, o.dynamic = TC_DYNAMIC_ALWAYS;
    assert_int_equal(tc_compile(c, reads_size, NULL, &o, &f), TC_STATUS_OK);
    for (int64_t n = 2; n <= 8; n *= 2) {
      tc_scope *s = tc_scope_open();
      tc_tensor *out[1], *x = range(c, 1, &n);
      if (tc_call(f, &x, out) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
      assert_true(((float *)tc_data_of(out[0]))[0] == -3.0f / (float)n);
      tc_scope_close(s);
    }
    assert_int_equal(tc_function_stats_of(f).entries, 3);
    tc_function_destroy(f);
  }
}

// Uses a tensor from outside and writes into its input.
static int32_t accumulates(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)n_in, (void)n_out;
  out[0] = tc_aten_sum(tc_aten_add__Tensor(in[0], self, tc_scalar_int(1)), 0);
  return tc_last_code();
}

static void captured_tensors_and_mutation(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    tc_scope *s = tc_scope_open();
    float one[] = {1, 1, 1};
    tc_tensor *step = tc_tensor_from(c, TC_F32, 1, (int64_t[]){3}, one), *x = range(c, 1, (int64_t[]){3}), *out[1];
    tc_function *f;
    tc_compile_options o = two_inputs();
    o.n_inputs = 1;
    assert_int_equal(tc_compile(c, accumulates, step, &o, &f), TC_STATUS_OK);
    for (int i = 0; i < 3; i++) {
      if (tc_call(f, &x, out) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
    }
    assert_true(((float *)tc_data_of(x))[0] == 0 && ((float *)tc_data_of(x))[2] == 2);
    assert_true(*(float *)tc_data_of(out[0]) == 3);
    tc_function_destroy(f);
    tc_scope_close(s);
  }
}

// Equal values are computed once; what the caller gets is not one tensor for that.
static int32_t equals(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)self, (void)n_in, (void)n_out;
  out[0] = tc_aten_relu(in[0]), out[1] = tc_aten_relu(in[0]), out[2] = tc_aten_neg(tc_aten_neg(in[0]));
  return tc_last_code();
}

static void equal_outputs_lie_apart(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    tc_function *f;
    tc_compile_options o = two_inputs();
    o.n_inputs = 1, o.n_outputs = 3;
    assert_int_equal(tc_compile(c, equals, NULL, &o, &f), TC_STATUS_OK);
    tc_scope *s = tc_scope_open();
    tc_tensor *out[3], *x = range(c, 2, (int64_t[]){2, 3});
    if (tc_call(f, &x, out) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
    assert_ptr_not_equal(tc_data_of(out[0]), tc_data_of(out[1]));
    assert_ptr_not_equal(tc_data_of(out[2]), tc_data_of(x));
    tc_scope_close(s);
    tc_function_destroy(f);
  }
}

// Ops that draw once, several times by their parts, in place, and for nothing.
enum { DRAWN = 8 };
typedef struct drawing {
  tc_context *c;
  bool breaks;
} drawing;
static int32_t draws(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)n_in, (void)n_out;
  const drawing *d = self;
  tc_tensor *x = tc_aten_abs(in[0]), *empty = tc_aten_empty_like(x, TC_DTYPE_NONE, NULL, -1);
  (void)tc_aten_rand_like(x, TC_DTYPE_NONE, NULL, -1); // nobody reads it
  out[0] = tc_aten_dropout(x, 0.5, 1);
  out[1] = tc_aten_multinomial(x, 3, 0);
  out[2] = tc_aten_uniform_(empty, 0, 1);
  (void)tc_aten_dropout(x, 0, 1); // drops nothing
  if (d->breaks) tc_graph_break("a break");
  out[3] = tc_aten_rrelu(tc_aten_neg(x), tc_scalar_real(0.1), tc_scalar_real(0.3), 1);
  out[4] = tc_aten_bernoulli_p(x, 0.5);
  out[5] = tc_aten_alpha_dropout(x, 0.25, 1);
  out[6] = tc_aten_randperm(d->c, 10, TC_DTYPE_NONE, NULL);
  out[7] = tc_aten_randn_like(x, TC_DTYPE_NONE, NULL, -1);
  return tc_last_code();
}

// From the start, and from where a number of streams no longer fits into 32 bits.
static void begin_draws(tc_context *c, uint64_t seed) {
  uint64_t skipped[2];
  tc_manual_seed(c, seed);
  if (seed == 1) tc_context_draw(c, (5ull << 31) + 3, &skipped[0], &skipped[1]);
}

static void random_numbers_are_those_of_single_ops(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    for (int breaks = 0; breaks < 2; breaks++) {
      tc_function *f;
      drawing d = {c, breaks};
      tc_compile_options o = {.struct_size = sizeof o, .n_inputs = 1, .n_outputs = DRAWN};
      assert_int_equal(tc_compile(c, draws, &d, &o, &f), TC_STATUS_OK);
      for (uint64_t k = 0; k < 3; k++) {
        tc_scope *s = tc_scope_open();
        tc_tensor *x = range(c, 2, (int64_t[]){4, 16}), *got[2][DRAWN], *want[2][DRAWN];
        begin_draws(c, k);
        for (int i = 0; i < 2; i++)
          if (tc_call(f, &x, got[i]) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
        begin_draws(c, k);
        assert_int_equal(tc_set_requires_grad(x, k == 2), TC_STATUS_OK); // on the tape, too
        for (int i = 0; i < 2; i++)
          if (draws(&d, &x, 1, want[i], DRAWN) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
        for (int i = 0; i < 2 * DRAWN; i++) {
          tc_tensor *a = got[i / DRAWN][i % DRAWN], *b = want[i / DRAWN][i % DRAWN];
          size_t bytes = (size_t)tc_numel_of(a) * (tc_dtype_of(a) == TC_I64 ? 8 : 4);
          assert_int_equal(tc_dtype_of(a), tc_dtype_of(b));
          if (memcmp(tc_data_of(a), tc_data_of(b), bytes) != 0) fail_msg("result %d of call %d", i % DRAWN, i / DRAWN);
        }
        tc_scope_close(s);
      }
      tc_function_destroy(f);
    }
  }
}

typedef struct caller {
  tc_context *c;
  tc_function *f;
  int64_t first;
} caller;
static void *call_often(void *arg) {
  caller *w = arg;
  for (int64_t n = 2; n < 20; n++) check(w->f, w->c, n + w->first, 4);
  return NULL;
}

static void threads_call_and_recompile(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    enum { N = 8 };
    tc_function *f;
    tc_compile_options o = two_inputs();
    assert_int_equal(tc_compile(c, body, NULL, &o, &f), TC_STATUS_OK);
    caller callers[N];
    for (int i = 0; i < N; i++) { callers[i] = (caller){c, f, i}; }
    run_threads(N, call_often, callers, sizeof *callers);
    assert_true(tc_function_stats_of(f).entries <= 3);
    tc_function_destroy(f);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sizes_become_symbols),
      cmocka_unit_test(marks_and_ranges),
      cmocka_unit_test(dtypes_strides_and_aliases_are_guarded),
      cmocka_unit_test(beyond_the_limit_calls_run_eagerly),
      cmocka_unit_test(breaks_are_named),
      cmocka_unit_test(sizes_that_are_read_are_guarded),
      cmocka_unit_test(captured_tensors_and_mutation),
      cmocka_unit_test(equal_outputs_lie_apart),
      cmocka_unit_test(random_numbers_are_those_of_single_ops),
      cmocka_unit_test(threads_call_and_recompile),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
