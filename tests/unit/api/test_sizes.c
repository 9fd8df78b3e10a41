// Dynamic sizes: random programs over matrices, compiled once with symbols for
// both sizes, are right for every size that the guards admit: 0 and 1 (with
// entries of their own), primes, one beside a vector's width, promised ranges
// and multiples. The body on the references, op by op, says what is right.
#include <math.h>

#include "tests/unit/api/backends.h"

enum { MAX_STEPS = 5, N_INPUTS = 2, MAX_VALUES = N_INPUTS + MAX_STEPS, N_OUTPUTS = 3, N_STEP_KINDS = 19 };
typedef struct step {
  int kind, a, b;
  int64_t dim;
} step;
typedef struct program {
  int n;
  step steps[MAX_STEPS];
} program;

// The rows or columns shifted by one, with zeros coming in.
static tc_tensor *shifted(tc_tensor *a, int64_t dim, bool forth) {
  int64_t pad[4] = {0}, one = 1, last = -1;
  pad[dim == 0 ? 2 : 0] = forth, pad[dim == 0 ? 3 : 1] = !forth;
  tc_tensor *wide = tc_aten_constant_pad_nd(a, pad, 4, tc_scalar_int(0));
  return forth ? tc_aten_slice_Tensor(wide, dim, NULL, &last, 1) : tc_aten_slice_Tensor(wide, dim, &one, NULL, 1);
}

// All values have the sizes of the inputs, which no step reads, and stay within
// [-1, 1] or a little more, so that roundings do not grow.
static tc_tensor *run_step(const step *s, tc_tensor *a, tc_tensor *b) {
  const int64_t d = s->dim;
  tc_tensor *sorted, *places, *parts[] = {a, b}, *mean = NULL;
  switch (s->kind) {
  case 0: return tc_aten_mul_Scalar(tc_aten_add_Tensor(a, b, tc_scalar_int(1)), tc_scalar_real(0.5));
  case 1: return tc_aten_mul_Tensor(tc_aten_sin(a), b);
  case 2: return tc_aten_softmax_int(a, d, TC_DTYPE_NONE);
  case 3: return tc_aten_sub_Tensor(a, tc_aten_mean_dim(b, &d, 1, 1, TC_DTYPE_NONE), tc_scalar_int(1));
  case 4: {
    tc_tensor *sum = tc_aten_sum_dim_IntList(tc_aten_abs(b), &d, 1, 1, TC_DTYPE_NONE);
    return tc_aten_div_Tensor(a, tc_aten_add_Scalar(sum, tc_scalar_int(1), tc_scalar_int(1)));
  }
  case 5: { // the mean and the variance along one dimension
    mean = tc_aten_mean_dim(a, &d, 1, 1, TC_DTYPE_NONE);
    tc_scalar none = tc_scalar_int(0);
    tc_tensor *var = tc_aten_var_correction(a, &d, 1, &none, 1);
    return tc_aten_mul_Tensor(tc_aten_sub_Tensor(a, mean, tc_scalar_int(1)),
                              tc_aten_rsqrt(tc_aten_add_Scalar(var, tc_scalar_int(1), tc_scalar_int(1))));
  }
  case 6: return tc_aten_sin(tc_aten_cumsum(a, d, TC_DTYPE_NONE));
  case 7: return tc_aten_flip(a, &d, 1);
  case 8: return tc_aten_transpose_int(tc_aten_relu(tc_aten_transpose_int(a, 0, 1)), 0, 1);
  case 9: { // two products, one of which reduces along each size
    tc_tensor *square = tc_aten_mm(a, tc_aten_transpose_int(b, 0, 1));
    return tc_aten_tanh(tc_aten_mul_Scalar(tc_aten_mm(square, a), tc_scalar_real(0.01)));
  }
  case 10: return tc_aten_slice_Tensor(tc_aten_cat(NULL, parts, 2, d), d, NULL, NULL, 2);
  case 11: return tc_aten_roll(a, (int64_t[]){1}, 1, &d, 1);
  case 12: return shifted(a, d, true);
  case 13: return tc_aten_add_Tensor(shifted(a, d, false), b, tc_scalar_real(-0.5));
  case 14: return tc_aten_where_self(tc_aten_gt_Tensor(a, b), a, b);
  case 15: return tc_aten_tril(a, 1);
  case 16: return tc_aten_sort(a, d, 0, &sorted, &places) == TC_STATUS_OK ? sorted : NULL;
  case 17: return tc_aten_view_as(tc_aten_neg(tc_aten_reshape(a, (int64_t[]){-1}, 1)), b);
  default: return tc_aten_tanh(tc_aten_log_softmax_int(a, d, TC_DTYPE_NONE));
  }
}

// The last value, and sums of it along each size.
static int32_t interpret(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  const program *p = self;
  tc_tensor *v[MAX_VALUES] = {in[0], in[1]};
  int n = N_INPUTS;
  (void)n_in, (void)n_out;
  for (int i = 0; i < p->n; i++, n++) {
    v[n] = run_step(&p->steps[i], v[p->steps[i].a % n], v[p->steps[i].b % n]);
    if (!v[n]) return tc_last_code();
  }
  out[0] = v[n - 1];
  for (int64_t d = 0; d < 2; d++) out[1 + d] = tc_aten_sum_dim_IntList(v[n - 1], &d, 1, 0, TC_DTYPE_NONE);
  return tc_last_code();
}

static program random_program(uint64_t *seed) {
  program p = {.n = 1 + (int)(tc_test_random(seed) % MAX_STEPS)};
  for (int i = 0; i < p.n; i++) {
    step s = {(int)(tc_test_random(seed) % N_STEP_KINDS), (int)(tc_test_random(seed) % 64),
              (int)(tc_test_random(seed) % 64), (int64_t)(tc_test_random(seed) % 2)};
    p.steps[i] = s;
  }
  return p;
}

// ---- comparing ----
typedef struct setting {
  tc_context *c, *ref;
  tc_function *f;
  const program *p;
} setting;

static bool close_to(tc_tensor *got, tc_tensor *want) {
  if (tc_rank_of(got) != tc_rank_of(want)) return false;
  for (int32_t d = 0; d < tc_rank_of(got); d++)
    if (tc_size_of(got, d) != tc_size_of(want, d)) return false;
  tc_tensor *rows = tc_aten_contiguous(got, -1);
  tc_tensor *right = tc_aten_contiguous(want, -1);
  const float *x = tc_data_of(rows), *y = tc_data_of(right);
  for (int64_t i = 0; i < tc_numel_of(got); i++)
    if (!(fabsf(x[i] - y[i]) <= 2e-4f * (1 + fabsf(y[i])))) return false;
  return true;
}

// One call with sizes [n, m]. False, said, where it differs.
static bool try_sizes(const setting *q, int64_t n, int64_t m, uint64_t *seed) {
  tc_scope *s = tc_scope_open();
  int64_t sizes[] = {n, m};
  tc_tensor *x[N_INPUTS], *y[N_INPUTS], *got[N_OUTPUTS], *want[N_OUTPUTS];
  for (int i = 0; i < N_INPUTS; i++) {
    x[i] = tc_new_tensor(q->c, TC_F32, 2, sizes);
    float *data = tc_data_of(x[i]);
    for (int64_t k = 0; k < n * m; k++) data[k] = (float)((double)(tc_test_random(seed) % 2000) / 1000 - 1);
    y[i] = tc_tensor_from(q->ref, TC_F32, 2, sizes, tc_data_of(x[i]));
  }
  bool good = tc_call(q->f, x, got) == TC_STATUS_OK;
  if (!good) print_message("%s\n", tc_last_error());
  tc_clear_error();
  if (interpret((void *)(uintptr_t)q->p, y, N_INPUTS, want, N_OUTPUTS) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
  for (int i = 0; i < N_OUTPUTS && good; i++) {
    good = close_to(got[i], want[i]);
    if (!good) print_message("output %d differs\n", i);
  }
  if (!good) print_message("with sizes %dx%d\n", (int)n, (int)m);
  tc_scope_close(s);
  return good;
}

static bool is_right(tc_context *c, tc_context *ref, const program *p, uint64_t seed) {
  static const int64_t general[] = {2, 3, 5, 7, 8, 9, 13, 15, 16, 17, 31, 33, 37};
  enum { N = sizeof general / sizeof *general };
  setting q = {c, ref, NULL, p};
  tc_compile_options o = {.struct_size = sizeof o, .n_inputs = N_INPUTS, .n_outputs = N_OUTPUTS, .limit = 64};
  o.dynamic = TC_DYNAMIC_ALWAYS;
  assert_int_equal(tc_compile(c, interpret, (void *)(uintptr_t)p, &o, &q.f), TC_STATUS_OK);
  uint64_t pick = tc_test_random(&seed) % N;
  int64_t n = general[pick], m = general[(pick + 1 + tc_test_random(&seed) % (N - 1)) % N];
  bool good = try_sizes(&q, n, m, &seed);
  for (int k = 0; k < 7 && good; k++) {
    n = general[tc_test_random(&seed) % N], m = general[tc_test_random(&seed) % N];
    good = try_sizes(&q, n, m, &seed);
  }
  if (good && tc_function_stats_of(q.f).compiles != 1) {
    char *guards = tc_function_guards(q.f);
    print_message("it was compiled %d times\n%s", (int)tc_function_stats_of(q.f).compiles, guards);
    tc_text_free(guards);
    good = false;
  }
  int64_t few = (int64_t)(tc_test_random(&seed) % 2);
  if (good) good = tc_test_random(&seed) % 2 ? try_sizes(&q, few, m, &seed) : try_sizes(&q, n, few, &seed);
  tc_function_destroy(q.f);
  return good;
}

// Within a promised range of multiples one entry does; beyond it another is
// made.
static bool is_right_in_range(tc_context *c, tc_context *ref, const program *p, uint64_t seed) {
  static const int64_t divisors[] = {1, 2, 3, 4, 8, 16};
  setting q = {c, ref, NULL, p};
  int64_t d = divisors[tc_test_random(&seed) % 6], lo = d * (1 + (int64_t)(tc_test_random(&seed) % 3));
  if (lo < 2) lo = 2;
  tc_dim_mark marks[2 * N_INPUTS];
  for (int32_t i = 0; i < 2 * N_INPUTS; i++) marks[i] = (tc_dim_mark){i / 2, i % 2, 0, 0, 0};
  for (int32_t i = 0; i < N_INPUTS; i++) marks[2 * i] = (tc_dim_mark){i, 0, lo, lo + 4 * d, d};
  tc_compile_options o = {.struct_size = sizeof o, .n_inputs = N_INPUTS, .n_outputs = N_OUTPUTS, .limit = 64};
  o.n_marks = 2 * N_INPUTS, o.marks = marks;
  assert_int_equal(tc_compile(c, interpret, (void *)(uintptr_t)p, &o, &q.f), TC_STATUS_OK);
  bool good = true;
  for (int64_t n = lo; n <= lo + 4 * d && good; n += d)
    good = try_sizes(&q, n, 2 + (int64_t)(tc_test_random(&seed) % 18), &seed);
  if (good) good = try_sizes(&q, lo + 4 * d + 1, 3, &seed);
  tc_function_destroy(q.f);
  return good;
}

typedef bool (*property)(tc_context *c, tc_context *ref, const program *p, uint64_t seed);

// Leaves out steps as long as it fails, and shows what is left.
static void show_smallest(tc_context *c, tc_context *ref, property holds, program p, uint64_t seed) {
  for (int i = 0; i < p.n; i++) {
    program less = p;
    memmove(&less.steps[i], &less.steps[i + 1], (size_t)(--less.n - i) * sizeof *less.steps);
    if (less.n && !holds(c, ref, &less, seed)) p = less, i = -1;
  }
  for (int i = 0; i < p.n; i++)
    print_message("%%%d = step %d of %%%d, %%%d along %d\n", i + N_INPUTS, p.steps[i].kind,
                  p.steps[i].a % (i + N_INPUTS), p.steps[i].b % (i + N_INPUTS), (int)p.steps[i].dim);
}

// SIZES_PROGRAMS=N tries more of them.
static void try_programs(property holds, int programs) {
  uint64_t seed = tc_test_seed();
  const char *given = getenv("SIZES_PROGRAMS");
  tc_context *ref = open_backend("ref", NULL);
  FOR_BACKENDS(c, NULL) {
    for (int i = 0; i < (given ? atoi(given) : programs); i++) {
      program p = random_program(&seed);
      uint64_t data = tc_test_random(&seed);
      if (holds(c, ref, &p, data)) continue;
      show_smallest(c, ref, holds, p, data);
      fail_msg("program %d is wrong for some size", i);
    }
  }
  tc_close(ref);
}

static void any_size_is_right(void **state) {
  (void)state;
  try_programs(is_right, 6);
}
static void any_size_of_a_range_is_right(void **state) {
  (void)state;
  try_programs(is_right_in_range, 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(any_size_is_right),
      cmocka_unit_test(any_size_of_a_range_is_right),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
