// Numbers that a captured function takes as symbols: one compilation serves all of their values as sizes, indices and
// operands; ranges and what ops allow are held to in each call; what needs the value is guarded, and says so.
#include "tests/unit/api/backends.h"

enum { ROWS = 7, COLUMNS = 3 };

typedef struct numbers {
  int64_t i, n;
  int bodies;
} numbers;

static tc_function *compiled(tc_context *c, tc_function_body body, void *self) {
  tc_compile_options o = {.struct_size = sizeof o, .name = "it", .n_inputs = 1, .n_outputs = 1};
  tc_function *f;
  assert_int_equal(tc_compile(c, body, self, &o, &f), TC_STATUS_OK);
  return f;
}

static tc_tensor *matrix(tc_context *c) {
  float v[ROWS * COLUMNS];
  for (int i = 0; i < ROWS * COLUMNS; i++) v[i] = (float)i;
  return tc_tensor_from(c, TC_F32, 2, (int64_t[]){ROWS, COLUMNS}, v);
}

static float at(tc_tensor *t, int64_t i) { return ((float *)tc_data_of(t))[i]; }

static tc_tensor *result(tc_function *f, tc_tensor *x) {
  tc_tensor *out[1];
  if (tc_call(f, &x, out) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
  return out[0];
}

static void expect_error(tc_function *f, tc_tensor *x, const char *part) {
  tc_tensor *out[1];
  assert_int_not_equal(tc_call(f, &x, out), TC_STATUS_OK);
  if (!strstr(tc_last_error(), part)) fail_msg("'%s' lacks '%s'", tc_last_error(), part);
  tc_clear_error();
}

// (x[i] · i) in n copies.
static int32_t use(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  numbers *q = self;
  (void)n_in, (void)n_out;
  q->bodies++;
  tc_dynamic i = tc_dynamic_int("i", &q->i, INT64_MIN, INT64_MAX), n = tc_dynamic_int("n", &q->n, 0, 9);
  tc_tensor *row = tc_aten_select_int(in[0], 0, i.as_argument);
  row = tc_aten_mul_Scalar(row, tc_scalar_int(i.as_argument));
  out[0] = tc_aten_clone(tc_aten_expand(tc_aten_unsqueeze(row, 0), (int64_t[]){n.as_argument, COLUMNS}, 2, 0), 0);
  return tc_last_code();
}

static void expect_rows(tc_tensor *y, const numbers *q) {
  int64_t row = q->i < 0 ? q->i + ROWS : q->i;
  assert_int_equal(tc_size_of(y, 0), q->n);
  assert_int_equal(tc_size_of(y, 1), COLUMNS);
  for (int64_t k = 0; k < q->n * COLUMNS; k++) assert_true(at(y, k) == (float)((row * COLUMNS + k % COLUMNS) * q->i));
}

static void one_compilation_serves_all_values(void **state) {
  (void)state;
  seed_rand();
  FOR_BACKENDS(c, NULL) {
    numbers q = {.i = 2, .n = 4};
    tc_scope *s = tc_scope_open();
    tc_tensor *x = matrix(c);
    tc_function *f = compiled(c, use, &q);
    for (int turn = 0; turn < 60; turn++) {
      if (turn) q.i = rand() % (2 * ROWS) - ROWS, q.n = rand() % 10;
      expect_rows(result(f, x), &q);
    }
    assert_int_equal(tc_function_stats_of(f).compiles, 1);
    assert_int_equal(q.bodies, 1);
    char *guards = tc_function_guards(f);
    assert_non_null(strstr(guards, "int 'i': s0, any  # from "));
    assert_non_null(strstr(guards, "int 'n': s1, 0 to 9  # from "));
    assert_non_null(strstr(guards, "test_dynamic.c:"));
    tc_text_free(guards);
    tc_function_destroy(f);
    tc_scope_close(s);
  }
}

static void ranges_and_indices_are_held(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    log_lines lines = {0};
    numbers q = {.i = 0, .n = 1};
    tc_scope *s = tc_scope_open();
    tc_tensor *x = matrix(c);
    tc_function *f = compiled(c, use, &q);
    expect_rows(result(f, x), &q);
    for (int64_t i = ROWS; i < ROWS + 3; i++) {
      q.i = i;
      expect_error(f, x, "is out of range for dimension 0 of size 7");
      q.i = -i - 1;
      expect_error(f, x, "is out of range for dimension 0 of size 7");
    }
    assert_int_equal(tc_function_stats_of(f).compiles, 1);
    assert_int_equal(tc_set_logs(c, "recompiles", keep_line, &lines), TC_STATUS_OK);
    q = (numbers){.i = 1, .n = 10};
    expect_error(f, x, "int 'n' is 10, outside of [0, 9]");
    assert_non_null(strstr(lines.text, "int 'n' lies outside of what was compiled for: 0 to 9; actual 10"));
    q.n = 9;
    expect_rows(result(f, x), &q);
    assert_int_equal(tc_function_stats_of(f).compiles, 1);
    tc_function_destroy(f);
    tc_scope_close(s);
  }
}

// A size that is promised nothing: below 0 it is an error in words each time, also where a constant -1 would stand for
// another size, and compiles nothing more.
typedef struct sized {
  numbers q;
  int32_t (*make)(struct sized *z, tc_tensor *x, int64_t n, tc_tensor **out);
} sized;
static int32_t sized_body(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  sized *z = self;
  (void)n_in, (void)n_out;
  z->q.bodies++;
  return z->make(z, in[0], tc_dynamic_int("n", &z->q.n, INT64_MIN, INT64_MAX).as_argument, out);
}
static int32_t new_rows(sized *z, tc_tensor *x, int64_t n, tc_tensor **out) {
  (void)z;
  out[0] = tc_aten_new_zeros(x, (int64_t[]){n, COLUMNS}, 2, TC_DTYPE_NONE, NULL);
  return tc_last_code();
}
static int32_t repeated_rows(sized *z, tc_tensor *x, int64_t n, tc_tensor **out) {
  (void)z;
  out[0] = tc_aten_repeat(tc_aten_select_int(x, 0, 0), (int64_t[]){n, 1}, 2);
  return tc_last_code();
}
static int32_t expanded_rows(sized *z, tc_tensor *x, int64_t n, tc_tensor **out) {
  (void)z;
  x = tc_aten_unsqueeze(tc_aten_select_int(x, 0, 0), 0);
  out[0] = tc_aten_clone(tc_aten_expand(x, (int64_t[]){n, COLUMNS}, 2, 0), 0);
  return tc_last_code();
}
static int32_t taken_rows(sized *z, tc_tensor *x, int64_t n, tc_tensor **out) {
  (void)z;
  out[0] = tc_aten_clone(tc_aten_narrow(x, 0, 0, n), 0);
  return tc_last_code();
}

static void a_size_below_zero(void **state) {
  (void)state;
  static int32_t (*const cases[])(sized *z, tc_tensor *x, int64_t n, tc_tensor **out) = {new_rows, repeated_rows,
                                                                                         taken_rows, expanded_rows};
  FOR_BACKENDS(c, NULL) {
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
      sized z = {.make = cases[k]};
      tc_scope *s = tc_scope_open();
      tc_tensor *x = matrix(c);
      tc_function *f = compiled(c, sized_body, &z);
      for (z.q.n = 4; z.q.n < 7; z.q.n += 2) assert_int_equal(tc_size_of(result(f, x), 0), z.q.n);
      assert_int_equal(tc_function_stats_of(f).compiles, 1);
      int64_t compiles = 0;
      for (int turn = 0; turn < 3; turn++) {
        z.q.n = -1;
        expect_error(f, x, "-1");
        if (turn) assert_int_equal(tc_function_stats_of(f).compiles, compiles);
        compiles = tc_function_stats_of(f).compiles;
        assert_in_range(compiles, 1, 2);
      }
      z.q.n = 5;
      assert_int_equal(tc_size_of(result(f, x), 0), 5);
      assert_int_equal(tc_function_stats_of(f).compiles, compiles);
      tc_function_destroy(f);
      tc_scope_close(s);
    }
  }
}

// A branch on the value, and a dimension, which is no symbol.
static int32_t read_it(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  numbers *q = self;
  (void)n_in, (void)n_out;
  q->bodies++;
  tc_dynamic i = tc_dynamic_int("i", &q->i, 0, 9), n = tc_dynamic_int("n", &q->n, 0, 1);
  tc_tensor *y = tc_aten_mul_Scalar(in[0], tc_scalar_int(i.as_argument));
  y = tc_aten_sum_dim_IntList(y, &n.as_argument, 1, 0, TC_DTYPE_NONE);
  out[0] = tc_dynamic_value(i) > 3 ? tc_aten_neg(y) : y;
  return tc_last_code();
}

static void what_needs_the_value_is_guarded(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    log_lines lines = {0};
    numbers q = {.i = 2, .n = 0};
    tc_scope *s = tc_scope_open();
    tc_tensor *x = matrix(c);
    assert_int_equal(tc_set_logs(c, "recompiles,guards", keep_line, &lines), TC_STATUS_OK);
    tc_function *f = compiled(c, read_it, &q);
    assert_true(at(result(f, x), 0) == 2 * (0 + 3 + 6 + 9 + 12 + 15 + 18));
    assert_non_null(strstr(lines.text, "int 'i': 2  # from "));
    assert_non_null(strstr(lines.text, "int 'n': 0  # from "));
    q.i = 5;
    assert_true(at(result(f, x), 0) == -5 * (0 + 3 + 6 + 9 + 12 + 15 + 18));
    assert_non_null(strstr(lines.text, "int 'i' mismatch. expected 2, actual 5"));
    q.n = 1;
    assert_true(at(result(f, x), 1) == -5 * (3 + 4 + 5));
    assert_int_equal(q.bodies, 3);
    tc_function_destroy(f);
    tc_scope_close(s);
  }
}

// The same before and behind a break, in a region, and op by op.
static int32_t negated(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  tc_dynamic i = tc_dynamic_int("i", self, 0, 9);
  (void)n_in, (void)n_out;
  out[0] = tc_aten_mul_Scalar(tc_aten_neg(in[0]), tc_scalar_int(i.as_argument));
  return tc_last_code();
}
static int32_t unchanged(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)self, (void)n_in, (void)n_out;
  out[0] = tc_aten_mul_Scalar(in[0], tc_scalar_int(1));
  return tc_last_code();
}
static int32_t broken(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  numbers *q = self;
  (void)n_in, (void)n_out;
  tc_dynamic i = tc_dynamic_int("i", &q->i, 0, 9);
  tc_tensor *y = tc_aten_select_int(in[0], 0, i.as_argument);
  double sum;
  if (tc_item_f64(tc_aten_sum(y, TC_DTYPE_NONE), &sum, NULL) != TC_STATUS_OK) return tc_last_code();
  tc_dynamic again = tc_dynamic_int("i", &q->i, 0, 9);
  out[0] = tc_aten_add_Scalar(tc_aten_mul_Scalar(y, tc_scalar_int(i.as_argument)), tc_scalar_int(again.as_argument),
                              tc_scalar_int(1));
  return tc_last_code();
}
static int32_t branching(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  numbers *q = self;
  (void)n_in, (void)n_out;
  tc_tensor *truth = tc_aten_gt_Scalar(tc_aten_sum(in[0], TC_DTYPE_NONE), tc_scalar_int(0));
  return tc_cond(truth, negated, unchanged, &q->i, 1, in, 1, out);
}

static void breaks_and_regions(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    numbers q = {0};
    tc_scope *s = tc_scope_open();
    tc_tensor *x = matrix(c), *y[1];
    int64_t compiles = 0;
    tc_function *f = compiled(c, broken, &q), *g = compiled(c, branching, &q);
    for (int turn = 0; turn < 24; turn++) {
      q.i = turn * 5 % ROWS;
      tc_tensor *r = result(f, x);
      if (turn == 0) compiles = tc_function_stats_of(f).compiles;
      for (int64_t k = 0; k < COLUMNS; k++) assert_true(at(r, k) == (float)((q.i * COLUMNS + k) * q.i + q.i));
      assert_int_equal(broken(&q, &x, 1, y, 1), TC_STATUS_OK);
      assert_true(at(y[0], 1) == at(r, 1));
      assert_true(at(result(g, x), 4) == (float)(-4 * q.i));
    }
    assert_int_equal(tc_function_stats_of(f).compiles, compiles); // segments for all numbers
    assert_int_equal(tc_function_stats_of(g).compiles, 1);
    char *guards = tc_function_guards(f);
    if (!strstr(guards, "int 'i': s0, 0 to 9  # from ")) fail_msg("%s", guards);
    tc_text_free(guards);
    q.i = ROWS;
    expect_error(f, x, "out of range");
    q.i = 10;
    expect_error(f, x, "int 'i' is 10, outside of [0, 9]");
    tc_function_destroy(f);
    tc_function_destroy(g);
    tc_scope_close(s);
  }
}

// A loop whose turns are segments: each turn's number is at the same place in its segment, so that one serves all.
typedef struct looping {
  int64_t turns, i;
} looping;
static int32_t loop(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  looping *q = self;
  (void)n_in, (void)n_out;
  out[0] = tc_aten_select_int(in[0], 0, 0);
  for (q->i = 0; q->i < q->turns; q->i++) {
    tc_dynamic i = tc_dynamic_int("i", &q->i, 0, ROWS);
    tc_tensor *row = tc_aten_select_int(in[0], 0, i.as_argument);
    out[0] = tc_aten_add_Tensor(out[0], tc_aten_mul_Scalar(row, tc_scalar_int(i.as_argument)), tc_scalar_int(1));
    if (tc_graph_break("a turn is counted") != TC_STATUS_OK) return tc_last_code();
  }
  return tc_last_code();
}
static void turns_share_a_segment(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    looping q = {.turns = 3};
    tc_scope *s = tc_scope_open();
    tc_tensor *x = matrix(c);
    tc_function *f = compiled(c, loop, &q);
    int32_t segments = 0;
    for (int again = 0; again < 6; again++) {
      q.turns = again < 2 ? 3 : ROWS - again % 2;
      tc_tensor *y = result(f, x);
      for (int k = 0; k < COLUMNS; k++) {
        float want = (float)k;
        for (int i = 0; i < q.turns; i++) want += (float)((i * COLUMNS + k) * i);
        assert_true(at(y, k) == want);
      }
      if (again == 1) segments = tc_function_stats_of(f).segments;
    }
    assert_int_equal(tc_function_stats_of(f).segments, segments);
    assert_true(segments <= 3); // the first turn, the others; what lies behind
    tc_function_destroy(f);
    tc_scope_close(s);
  }
}

// Where nothing is to be dynamic it is a number with a guard.
static void never_dynamic(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    numbers q = {.i = 1, .n = 2};
    tc_scope *s = tc_scope_open();
    tc_tensor *x = matrix(c);
    tc_compile_options o = {.struct_size = sizeof o, .name = "it", .n_inputs = 1, .n_outputs = 1};
    o.dynamic = TC_DYNAMIC_NEVER;
    tc_function *f;
    assert_int_equal(tc_compile(c, use, &q, &o, &f), TC_STATUS_OK);
    for (q.i = 1; q.i < 4; q.i++) expect_rows(result(f, x), &q);
    assert_int_equal(tc_function_stats_of(f).compiles, 3);
    tc_function_destroy(f);
    tc_scope_close(s);
  }
}

// Each thread calls with what lies at the one address; runs have their own.
typedef struct caller {
  tc_function *f;
  tc_tensor *x;
  const numbers *q;
} caller;
static void *call_often(void *arg) {
  caller *k = arg;
  tc_scope *s = tc_scope_open();
  for (int i = 0; i < 50; i++) expect_rows(result(k->f, k->x), k->q);
  tc_scope_close(s);
  return NULL;
}
static void threads_share_it(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    numbers q = {.i = 3, .n = 5};
    tc_scope *s = tc_scope_open();
    tc_tensor *x = matrix(c);
    tc_function *f = compiled(c, use, &q);
    caller callers[4];
    for (int i = 0; i < 4; i++) callers[i] = (caller){f, x, &q};
    run_threads(4, call_often, callers, sizeof *callers);
    tc_function_destroy(f);
    tc_scope_close(s);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_compilation_serves_all_values),
      cmocka_unit_test(ranges_and_indices_are_held),
      cmocka_unit_test(a_size_below_zero),
      cmocka_unit_test(what_needs_the_value_is_guarded),
      cmocka_unit_test(breaks_and_regions),
      cmocka_unit_test(turns_share_a_segment),
      cmocka_unit_test(never_dynamic),
      cmocka_unit_test(threads_share_it),
  };
  return TC_RUN(tests);
}
