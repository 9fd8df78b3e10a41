// Functions with graph breaks: segments between them, what they leave out, writes in between, random programs against
// the same body op by op, threads, and every allocation failing.
#include <math.h>

#include "core/runtime/eager.h"
#include "tests/unit/api/backends.h"

static tc_function *compiled(tc_context *c, tc_function_body body, void *self, int32_t n_in, int32_t n_out) {
  tc_compile_options o = {
      .struct_size = sizeof o, .name = "followed", .n_inputs = n_in, .n_outputs = n_out, .dynamic = TC_DYNAMIC_AUTO};
  tc_function *f = NULL;
  if (tc_compile(c, body, self, &o, &f) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
  return f;
}

static tc_tensor *row(tc_context *c, int64_t n, const float *v) { return tc_tensor_from(c, TC_F32, 1, &n, v); }
static void call(tc_function *f, tc_tensor *const *in, tc_tensor **out) {
  if (tc_call(f, in, out) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
}
static float at(tc_tensor *t, int64_t i) { return ((float *)tc_data_of(t))[i]; }
static int64_t eager_calls(tc_context *c) { return tc_eager_stats_of(c->eager).calls; }

// Halves until the sum is small: as often as data says.
static int32_t halves(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  tc_tensor *x = tc_aten_relu(in[0]);
  (void)n_in, (void)n_out;
  ++*(int *)self;
  for (double sum = 0;;) {
    if (tc_item_f64(tc_aten_sum(x, TC_DTYPE_NONE), &sum, NULL) != TC_STATUS_OK || sum <= 1) break;
    x = tc_aten_mul_Scalar(tc_aten_add_Tensor(x, x, tc_scalar_int(1)), tc_scalar_real(0.25));
  }
  out[0] = tc_aten_neg(x);
  return tc_last_code();
}

static void loops_run_as_segments(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    int bodies = 0;
    log_lines lines = {0};
    assert_int_equal(tc_set_logs(c, "graph_breaks", keep_line, &lines), TC_STATUS_OK);
    tc_function *f = compiled(c, halves, &bodies, 1, 1);
    int64_t compiles = 0;
    for (int k = 0; k < 6; k++) {
      tc_scope *s = tc_scope_open();
      tc_tensor *in[] = {row(c, 3, (float[]){-5, (float)(1 << k), 0})}, *out[1];
      int64_t before = eager_calls(c);
      call(f, in, out);
      assert_true(at(out[0], 0) == 0 && at(out[0], 1) == -1);
      // From the third call on all paths are known: loops of any length run compiled.
      if (k == 2) compiles = tc_function_stats_of(f).compiles;
      if (k > 2) assert_int_equal(eager_calls(c), before);
      tc_scope_close(s);
    }
    assert_int_equal(bodies, 6); // once in each call, the first one too
    assert_int_equal(tc_function_stats_of(f).compiles, compiles);
    assert_true(compiles <= 5);
    assert_non_null(strstr(lines.text, "a value is read (tc_item) at "));
    assert_non_null(strstr(lines.text, "compiled: aten::relu, aten::sum"));
    // A new size makes the dimension symbolic; then any size does.
    for (int64_t n = 5; n < 9; n++) {
      tc_scope *s = tc_scope_open();
      float v[9] = {4};
      tc_tensor *in[] = {row(c, n, v)}, *out[1];
      call(f, in, out);
      assert_true(at(out[0], 0) == -1);
      if (n == 6) compiles = tc_function_stats_of(f).compiles;
      tc_scope_close(s);
    }
    assert_int_equal(tc_function_stats_of(f).compiles, compiles);
    tc_function_destroy(f);
  }
}

// What the first call does not use behind the break, a later one does.
static int32_t uses_later(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  double first = 0;
  (void)self, (void)n_in, (void)n_out;
  tc_tensor *twice = tc_aten_add_Tensor(in[0], in[0], tc_scalar_int(1));
  tc_tensor *square = tc_aten_mul_Tensor(twice, twice);
  if (tc_item_f64(tc_aten_select_int(in[0], 0, 0), &first, NULL) != TC_STATUS_OK) return tc_last_code();
  out[0] = first > 0 ? tc_aten_neg(square) : tc_aten_relu(in[0]);
  return tc_last_code();
}

static void left_out_values_are_computed_again(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    tc_function *f = compiled(c, uses_later, NULL, 1, 1);
    int64_t compiles = 0;
    for (int k = 0; k < 8; k++) {
      tc_scope *s = tc_scope_open();
      bool up = k == 2 || k > 3;
      tc_tensor *in[] = {row(c, 2, (float[]){up ? 1 : -1, 3})}, *out[1];
      int64_t before = eager_calls(c);
      call(f, in, out);
      assert_true(at(out[0], 1) == (up ? -36 : 3));
      if (k == 4) compiles = tc_function_stats_of(f).compiles;
      if (k > 4) assert_true(eager_calls(c) <= before + 1); // the view whose element is read, which has no kernel
      tc_scope_close(s);
    }
    assert_int_equal(tc_function_stats_of(f).compiles, compiles);
    tc_function_destroy(f);
  }
}

// A view from before the break is written behind it; what was left out must come from the memory as it was.
static int32_t writes(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  double first = 0;
  (void)self, (void)n_in, (void)n_out;
  tc_tensor *view = tc_aten_select_int(tc_aten_t(in[0]), 0, 1); // column 1
  tc_tensor *before = tc_aten_mul_Scalar(in[0], tc_scalar_int(10));
  if (tc_item_f64(tc_aten_select_int(view, 0, 0), &first, NULL) != TC_STATUS_OK) return tc_last_code();
  tc_tensor *same = tc_aten_add__Tensor(view, view, tc_scalar_int(1));
  tc_graph_break("to see what was written");
  if (first > 5) ((float *)tc_data_of(in[0]))[0] = 100;
  out[0] = first > 3 ? before : tc_aten_mul_Scalar(in[0], tc_scalar_int(1));
  out[1] = tc_aten_add_Tensor(same, view, tc_scalar_int(1));
  return tc_last_code();
}

static void writes_are_seen_through_views(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    tc_function *f = compiled(c, writes, NULL, 1, 2);
    for (int k = 0; k < 12; k++) {
      tc_scope *s = tc_scope_open();
      float first = (float[]){2, 2, 4, 7}[k % 4];
      tc_tensor *in[] = {tc_tensor_from(c, TC_F32, 2, (int64_t[]){2, 2}, (float[]){1, first, 3, 4})}, *out[2];
      call(f, in, out);
      assert_true(at(in[0], 1) == 2 * first && at(in[0], 3) == 8);
      assert_true(at(in[0], 0) == (first > 5 ? 100 : 1));
      if (first > 3) assert_true(at(out[0], 1) == 10 * first && at(out[0], 0) == 10);
      else assert_true(at(out[0], 1) == 2 * first && at(out[0], 0) == 1);
      assert_true(at(out[1], 0) == 4 * first && at(out[1], 1) == 16);
      tc_scope_close(s);
    }
    tc_function_destroy(f);
  }
}

// The address of an old view, asked for when a write is recorded and has not run.
static int32_t reads_late(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  double first = 0;
  (void)self, (void)n_in, (void)n_out;
  tc_tensor *view = tc_aten_view(in[0], (int64_t[]){-1}, 1);
  if (tc_item_f64(tc_aten_sum(in[0], TC_DTYPE_NONE), &first, NULL) != TC_STATUS_OK) return tc_last_code();
  (void)tc_aten_mul__Scalar(in[0], tc_scalar_int(2));
  float *data = tc_data_of(view);
  if (data) data[0] += 1;
  out[0] = tc_aten_neg(in[0]);
  return tc_last_code();
}

static void pending_writes_run_before_memory_is_seen(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    tc_function *f = compiled(c, reads_late, NULL, 1, 1);
    for (int k = 0; k < 4; k++) {
      tc_scope *s = tc_scope_open();
      tc_tensor *in[] = {row(c, 2, (float[]){5, 7})}, *out[1];
      call(f, in, out);
      assert_true(at(in[0], 0) == 11 && at(in[0], 1) == 14 && at(out[0], 0) == -11);
      tc_scope_close(s);
    }
    tc_function_destroy(f);
  }
}

// Sizes from data: a break, and a tensor of that size in the next segment.
static int32_t picks(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)self, (void)n_in, (void)n_out;
  tc_tensor *where = tc_aten_nonzero(tc_aten_relu(in[0]));
  int64_t n = tc_size_of(where, 0);
  out[0] = tc_aten_mul_Scalar(tc_aten_index_select(in[0], 0, tc_aten_reshape(where, &n, 1)), tc_scalar_int((int64_t)n));
  return tc_last_code();
}

static void sizes_from_data_are_read(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    tc_function *f = compiled(c, picks, NULL, 1, 1);
    for (int k = 0; k < 4; k++) {
      tc_scope *s = tc_scope_open();
      tc_tensor *in[] = {row(c, 4, (float[]){-1, 2, k & 1 ? 5 : -5, 7})}, *out[1];
      call(f, in, out);
      assert_int_equal(tc_size_of(out[0], 0), k & 1 ? 3 : 2);
      assert_true(at(out[0], 1) == (k & 1 ? 15 : 14));
      tc_scope_close(s);
    }
    tc_function_destroy(f);
  }
}

// ---- random programs ----
enum { MAX_STEPS = 24, MAX_VALUES = MAX_STEPS + 2, N_INPUTS = 2 };
typedef struct step {
  int kind, a, b;
} step;
typedef struct program {
  int n;
  step steps[MAX_STEPS];
} program;

// Values are f32[n, 3]; what does not fit a step is left as it is. Values stay bounded, so that nothing overflows.
static int32_t interpret(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  const program *p = self;
  tc_tensor *v[MAX_VALUES];
  int n = N_INPUTS;
  (void)n_in, (void)n_out;
  for (int i = 0; i < N_INPUTS; i++) v[i] = in[i];
  for (int i = 0; i < p->n; i++) {
    const step *s = &p->steps[i];
    tc_tensor *a = v[s->a % n], *b = v[s->b % n], *made = a;
    double d = 0;
    switch (s->kind) {
    case 0: made = tc_aten_mul_Scalar(tc_aten_add_Tensor(a, b, tc_scalar_int(1)), tc_scalar_real(0.5)); break;
    case 1: made = tc_aten_relu(a); break;
    case 2: made = tc_aten_sin(tc_aten_mul_Tensor(a, b)); break;
    case 3: made = tc_aten_neg(a); break;
    case 4: made = tc_aten_view(a, (int64_t[]){-1, 3}, 2); break;
    case 5: (void)tc_aten_mul__Scalar(a, tc_scalar_real(0.5)); break;
    case 6:
      made = tc_aten_clamp_(tc_aten_sub_Tensor(a, b, tc_scalar_int(1)),
                            &(tc_scalar){.kind = TC_ARGUMENT_REAL, .v.parts = {-1, 0}}, NULL);
      break;
    case 7: (void)tc_aten_fill__Scalar(tc_aten_select_int(a, 1, 1), tc_scalar_real(0.25)); break;
    case 8: // a branch on data
      if (tc_item_f64(tc_aten_sum(a, TC_DTYPE_NONE), &d, NULL) != TC_STATUS_OK) return tc_last_code();
      made = d > 0 ? tc_aten_abs(b) : tc_aten_cos(b);
      break;
    case 9: tc_graph_break("a step"); break;
    case 10: {
      float *data = tc_data_of(a);
      if (!data) return tc_last_code();
      data[0] = data[0] * 0.5f + 0.125f;
      break;
    }
    case 11: made = tc_aten_rand_like(a, TC_DTYPE_NONE, NULL, -1); break;
    default: made = tc_aten_mul_Scalar(a, tc_scalar_real(1.0 / (double)(1 + tc_size_of(b, 0)))); break;
    }
    if (!made) return tc_last_code();
    v[n++] = made;
  }
  out[0] = v[n - 1];
  out[1] = v[n / 2];
  return tc_last_code();
}

static void fill(tc_tensor *t, uint64_t *seed) {
  float *x = tc_data_of(t);
  for (int64_t i = 0; i < tc_numel_of(t); i++) x[i] = (float)((double)(tc_test_random(seed) % 2000) / 1000 - 1);
}

static bool close_to(tc_tensor *a, tc_tensor *b) {
  if (tc_numel_of(a) != tc_numel_of(b)) return false;
  for (int64_t i = 0; i < tc_numel_of(a); i++)
    if (!(fabsf(at(a, i) - at(b, i)) <= 1e-5f)) return false;
  return true;
}

// Branches on a sum near zero could go either way.
static program random_program(uint64_t *seed) {
  program p = {.n = 3 + (int)(tc_test_random(seed) % (MAX_STEPS - 3))};
  for (int i = 0; i < p.n; i++) {
    int kind = (int)(tc_test_random(seed) % 13);
    p.steps[i] = (step){kind, (int)(tc_test_random(seed) % 64), (int)(tc_test_random(seed) % 64)};
  }
  return p;
}

// Four calls, the third of which has another size. False if one differs from the body op by op.
static bool try_program(tc_context *c, const program *p, uint64_t seed) {
  tc_function *f = compiled(c, interpret, (void *)(uintptr_t)p, N_INPUTS, 2);
  bool good = true;
  for (int k = 0; k < 4; k++) {
    tc_scope *s = tc_scope_open();
    int64_t sizes[] = {k == 2 ? 5 : 4, 3};
    tc_tensor *x[N_INPUTS], *y[N_INPUTS], *got[2], *want[2];
    for (int i = 0; i < N_INPUTS; i++) {
      x[i] = tc_new_tensor(c, TC_F32, 2, sizes);
      fill(x[i], &seed);
      y[i] = tc_tensor_from(c, TC_F32, 2, sizes, tc_data_of(x[i]));
    }
    if (tc_test_random(&seed) % 4 == 0) x[1] = x[0], y[1] = y[0];
    tc_manual_seed(c, (uint64_t)k);
    call(f, x, got);
    tc_manual_seed(c, (uint64_t)k);
    if (interpret((void *)(uintptr_t)p, y, N_INPUTS, want, 2) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
    bool fits[] = {close_to(got[0], want[0]), close_to(got[1], want[1]), close_to(x[0], y[0]), close_to(x[1], y[1])};
    if (!fits[0] || !fits[1] || !fits[2] || !fits[3]) {
      print_message("call %d: results %d %d, inputs %d %d%s\n", k, fits[0], fits[1], fits[2], fits[3],
                    x[0] == x[1] ? ", which are one" : "");
      good = false;
    }
    tc_scope_close(s);
  }
  tc_function_destroy(f);
  return good;
}

// Leaves out steps as long as it fails, and shows what is left.
static void show_smallest(tc_context *c, program p, uint64_t seed) {
  for (int i = 0; i < p.n; i++) {
    program less = p;
    memmove(&less.steps[i], &less.steps[i + 1], (size_t)(--less.n - i) * sizeof *less.steps);
    if (less.n && !try_program(c, &less, seed)) p = less, i = -1;
  }
  for (int i = 0; i < p.n; i++)
    print_message("%%%d = step %d of %%%d, %%%d\n", i + N_INPUTS, p.steps[i].kind, p.steps[i].a % (i + N_INPUTS),
                  p.steps[i].b % (i + N_INPUTS));
}

static void random_programs(void **state) {
  (void)state;
  uint64_t seed = tc_test_seed();
  const char *given = getenv("FOLLOW_PROGRAMS");
  int programs = given ? atoi(given) : 40;
  FOR_BACKENDS(c, NULL) {
    for (int i = 0; i < programs / (b_ ? 8 : 1); i++) {
      program p = random_program(&seed);
      uint64_t data = tc_test_random(&seed);
      if (try_program(c, &p, data)) continue;
      show_smallest(c, p, data);
      fail_msg("program %d differs from its body op by op", i);
    }
  }
}

// ---- what goes wrong ----
static void breaks_are_errors_where_asked(void **state) {
  (void)state;
  FOR_BACKENDS(c, "fullgraph=true") {
    int bodies = 0;
    tc_function *f = compiled(c, halves, &bodies, 1, 1);
    tc_scope *s = tc_scope_open();
    tc_tensor *in[] = {row(c, 2, (float[]){1, 2})}, *out[1];
    assert_int_equal(tc_call(f, in, out), TC_STATUS_CANCELLED);
    assert_non_null(strstr(tc_last_error(), "graph break: a value is read (tc_item) at "));
    assert_non_null(strstr(tc_last_error(), "test_follow.c:"));
    tc_clear_error();
    tc_scope_close(s);
    tc_function_destroy(f);
  }
}

// Adds constants that differ in each call: no two segments are the same.
static int32_t never_the_same(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  double v = 0;
  (void)n_in, (void)n_out;
  tc_tensor *x = tc_aten_add_Scalar(in[0], tc_scalar_real(++*(int *)self), tc_scalar_int(1));
  tc_tensor *y = tc_aten_mul_Scalar(x, tc_scalar_int(2));
  if (tc_item_f64(tc_aten_sum(y, TC_DTYPE_NONE), &v, NULL) != TC_STATUS_OK) return tc_last_code();
  out[0] = tc_aten_add_Scalar(y, tc_scalar_real(v), tc_scalar_int(1));
  return tc_last_code();
}

static void beyond_the_limit_segments_run_op_by_op(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    log_lines lines = {0};
    int n = 0;
    tc_compile_options o = {.struct_size = sizeof o, .n_inputs = 1, .n_outputs = 1, .limit = 1};
    tc_function *f;
    assert_int_equal(tc_set_logs(c, "perf_hints", keep_line, &lines), TC_STATUS_OK);
    assert_int_equal(tc_compile(c, never_the_same, &n, &o, &f), TC_STATUS_OK);
    for (int k = 1; k < 14; k++) {
      tc_scope *s = tc_scope_open();
      tc_tensor *in[] = {row(c, 2, (float[]){1, 2})}, *out[1];
      call(f, in, out);
      float a = 2 * (1 + (float)k), b = 2 * (2 + (float)k);
      assert_true(at(out[0], 0) == a + a + b && at(out[0], 1) == b + a + b);
      tc_scope_close(s);
    }
    assert_int_equal(tc_function_stats_of(f).segments, 16);
    char *first = strstr(lines.text, "the limit of segments is reached");
    assert_non_null(first);
    assert_null(strstr(first + 1, "the limit of segments is reached"));
    tc_function_destroy(f);
  }
}

// Keeps a tensor for the next call, and fails every third time.
typedef struct keeper {
  tc_tensor *kept;
  int calls;
} keeper;
static int32_t keeps(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  keeper *k = self;
  double v = 0;
  (void)n_in, (void)n_out;
  tc_tensor *x = tc_aten_add_Tensor(in[0], k->kept ? k->kept : in[0], tc_scalar_int(1));
  if (tc_item_f64(tc_aten_sum(x, TC_DTYPE_NONE), &v, NULL) != TC_STATUS_OK) return tc_last_code();
  tc_tensor *next = tc_aten_mul_Scalar(x, tc_scalar_real(0.5));
  if (++k->calls % 3 == 0) return TC_STATUS_CANCELLED;
  tc_release(k->kept);
  k->kept = tc_retain(next);
  out[0] = tc_aten_relu(x);
  return tc_last_code();
}

static void tensors_outlive_the_call(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    keeper k = {0};
    tc_function *f = compiled(c, keeps, &k, 1, 1);
    float kept = 0;
    for (int i = 1; i < 9; i++) {
      tc_scope *s = tc_scope_open();
      tc_tensor *in[] = {row(c, 1, (float[]){(float)i})}, *out[1];
      float x = (float)i + (i == 1 ? 1 : kept);
      int32_t code = tc_call(f, in, out);
      if (i % 3 == 0) {
        assert_int_equal(code, TC_STATUS_CANCELLED);
        assert_null(out[0]);
        tc_clear_error();
      } else {
        assert_int_equal(code, TC_STATUS_OK);
        assert_true(at(out[0], 0) == x);
        kept = x / 2;
        assert_true(at(k.kept, 0) == kept);
      }
      tc_scope_close(s);
    }
    tc_release(k.kept);
    tc_function_destroy(f);
  }
}

// ---- threads ----
typedef struct caller {
  tc_context *c;
  tc_function *f;
  int first, bad;
} caller;
static void *call_often(void *arg) {
  caller *w = arg;
  for (int k = 0; k < 12; k++) {
    tc_scope *s = tc_scope_open();
    bool up = (k + w->first) % 3 != 0;
    tc_tensor *in[] = {row(w->c, 2 + k % 3, (float[]){up ? 1 : -1, 3, 3, 3})}, *out[1];
    if (tc_call(w->f, in, out) != TC_STATUS_OK || at(out[0], 1) != (up ? -36 : 3)) w->bad++;
    tc_scope_close(s);
  }
  return NULL;
}

static void threads_follow_together(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    enum { N = 8 };
    tc_function *f = compiled(c, uses_later, NULL, 1, 1);
    caller callers[N];
    for (int i = 0; i < N; i++) { callers[i] = (caller){c, f, i, 0}; }
    run_threads(N, call_often, callers, sizeof *callers);
    for (int i = 0; i < N; i++) assert_int_equal(callers[i].bad, 0);
    tc_function_destroy(f);
  }
}

// ---- every allocation failing ----
static tc_status open_over(const tc_allocator *a, tc_context **out) {
  tc_config *config;
  TC_TRY(tc_config_create(a, &config));
  tc_status s = tc_config_set(config, TC_SV("backend"), TC_SV("ref"), "test");
  if (s == TC_OK) s = tc_config_set(config, TC_SV("cache.enabled"), TC_SV("false"), "test");
  if (s == TC_OK) s = tc_config_apply_mode(config);
  if (s != TC_OK) {
    tc_config_destroy(config);
    return s;
  }
  TC_TRY(tc_context_create(a, config, tc_logger_silent, out));
  TC_TRY(tc_context_open_backend(*out));
  return tc_eager_create(*out, &(*out)->eager);
}

// Three calls of a random program; what opens the context is not among the allocations.
static int32_t passage(tc_fault_allocator *f, const program *p, int64_t where, bool later_too, int64_t *allocations) {
  tc_context *c = NULL;
  tc_fault_allocator_init(f, tc_system_allocator());
  tc_status s = open_over(&f->iface, &c);
  if (s != TC_OK) fail_msg("%s", tc_status_text(s));
  int64_t from = f->count;
  f->fail_at = where ? from + where : 0, f->fail_after = later_too;
  tc_scope *scope = tc_scope_open();
  tc_compile_options o = {.struct_size = sizeof o, .n_inputs = N_INPUTS, .n_outputs = 2};
  tc_function *g = NULL;
  int32_t code = tc_compile(c, interpret, (void *)(uintptr_t)p, &o, &g);
  for (int k = 0; k < 3 && code == TC_STATUS_OK; k++) {
    float data[12];
    for (int i = 0; i < 12; i++) data[i] = (float)(i * (k + 1) % 7) / 7 - 0.4f;
    tc_tensor *out[2], *in[] = {tc_tensor_from(c, TC_F32, 2, (int64_t[]){4, 3}, data),
                                tc_tensor_from(c, TC_F32, 2, (int64_t[]){4, 3}, data)};
    code = tc_last_code();
    if (code == TC_STATUS_OK) code = tc_call(g, in, out);
  }
  if (code != TC_STATUS_OK && code != TC_STATUS_OUT_OF_MEMORY) print_message("%s\n", tc_last_error());
  *allocations = f->count - from;
  tc_scope_close(scope);
  tc_function_destroy(g);
  tc_clear_error();
  tc_context_destroy(c);
  return code;
}

static void allocations_may_fail(void **state) {
  (void)state;
  uint64_t seed = tc_test_seed();
  const char *given = getenv("FOLLOW_FAULTS");
  int rounds = given ? atoi(given) : 60;
  tc_fault_allocator f;
  for (int i = 0; i < rounds; i++) {
    program p = random_program(&seed);
    int64_t n, unused;
    assert_int_equal(passage(&f, &p, 0, false, &n), TC_STATUS_OK);
    assert_int_equal(f.live, 0);
    for (int k = 0; k < 4; k++) {
      int64_t where = 1 + (int64_t)(tc_test_random(&seed) % (uint64_t)n);
      int32_t code = passage(&f, &p, where, tc_test_random(&seed) & 1, &unused);
      if (code != TC_STATUS_OK && code != TC_STATUS_OUT_OF_MEMORY)
        fail_msg("allocation %d fails with %d", (int)where, code);
      if (f.live) fail_msg("allocation %d of %d fails, and %d blocks stay", (int)where, (int)n, (int)f.live);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(loops_run_as_segments),         cmocka_unit_test(left_out_values_are_computed_again),
      cmocka_unit_test(writes_are_seen_through_views), cmocka_unit_test(pending_writes_run_before_memory_is_seen),
      cmocka_unit_test(sizes_from_data_are_read),      cmocka_unit_test(random_programs),
      cmocka_unit_test(breaks_are_errors_where_asked), cmocka_unit_test(beyond_the_limit_segments_run_op_by_op),
      cmocka_unit_test(tensors_outlive_the_call),      cmocka_unit_test(threads_follow_together),
      cmocka_unit_test(allocations_may_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
