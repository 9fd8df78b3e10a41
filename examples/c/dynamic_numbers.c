// A number that changes from call to call: the place that a decoder is at, and how many of the places behind it are
// looked at. As symbols they cost one compilation for all of their values; each call holds them to their ranges and to
// the tensor's sizes. What the function branches on is a guard instead, and compiled again.
#include <stdio.h>

#include "tc/ops.h"

typedef struct window {
  int64_t start, length;
  int64_t power; // 1 or 2
} window;

// The mean over rows start, …, start + length − 1, each to a power.
static int32_t mean_of_window(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  const window *w = self;
  (void)n_in, (void)n_out;
  tc_dynamic start = tc_dynamic_int("start", &w->start, 0, INT64_MAX);
  tc_dynamic length = tc_dynamic_int("length", &w->length, 1, 4);
  tc_dynamic power = tc_dynamic_int("power", &w->power, 1, 2);
  tc_tensor *rows = tc_aten_narrow(in[0], 0, start.as_argument, length.as_argument);
  if (tc_dynamic_value(power) == 2) rows = tc_aten_mul_Tensor(rows, rows);
  tc_tensor *sum = tc_aten_sum_dim_IntList(rows, (int64_t[]){0}, 1, 0, TC_DTYPE_NONE);
  out[0] = tc_aten_div_Scalar(sum, tc_scalar_int(length.as_argument));
  return tc_last_code();
}

static int failed(const char *what) {
  fprintf(stderr, "%s: %s\n", what, tc_last_error());
  return 1;
}

static void print_line(void *self, const char *artifact, tc_sv text) {
  (void)self;
  printf("[%s] %.*s\n", artifact, (int)text.size, text.data);
}

enum { ROWS = 6, COLUMNS = 2 };

int main(void) {
  tc_context *c;
  const char *settings[] = {"backend=cpu"};
  if (tc_open(settings, 1, &c) != TC_STATUS_OK) return failed("tc_open");
  if (tc_set_logs(c, "recompiles", print_line, NULL) != TC_STATUS_OK) return failed("tc_set_logs");
  window w = {0};
  tc_compile_options o = {.struct_size = sizeof o, .name = "window", .n_inputs = 1, .n_outputs = 1};
  tc_function *f;
  if (tc_compile(c, mean_of_window, &w, &o, &f) != TC_STATUS_OK) return failed("tc_compile");
  // CHECK: 0 2 ^1: 1.0 2.0, compiled 1
  // CHECK-NEXT: 3 3 ^1: 8.0 9.0, compiled 1
  // CHECK-NEXT: 5 1 ^1: 10.0 11.0, compiled 1
  // CHECK-NEXT: [recompiles] recompiling window [0/1]: int 'power' mismatch. expected 1, actual 2
  // CHECK-NEXT: 1 2 ^2: 10.0 17.0, compiled 2
  // CHECK-NEXT: 2 4 ^2: 54.0 69.0, compiled 2
  // CHECK-NEXT: 4 3 ^2: aten::narrow: start 4 and length 3 exceed dimension 0 of size 6
  const window calls[] = {{0, 2, 1}, {3, 3, 1}, {5, 1, 1}, {1, 2, 2}, {2, 4, 2}, {4, 3, 2}};
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    tc_scope *scope = tc_scope_open();
    float values[ROWS * COLUMNS];
    for (int k = 0; k < ROWS * COLUMNS; k++) values[k] = (float)k;
    tc_tensor *in = tc_tensor_from(c, TC_F32, 2, (int64_t[]){ROWS, COLUMNS}, values), *out;
    w = calls[i];
    if (tc_call(f, &in, &out) == TC_STATUS_OK) {
      const float *y = tc_data_of(out);
      printf("%d %d ^%d: %.1f %.1f, compiled %d\n", (int)w.start, (int)w.length, (int)w.power, (double)y[0],
             (double)y[1], (int)tc_function_stats_of(f).compiles);
    } else {
      printf("%d %d ^%d: %s\n", (int)w.start, (int)w.length, (int)w.power, tc_last_error());
      tc_clear_error();
    }
    tc_scope_close(scope);
  }
  // CHECK: window [0/1]
  // CHECK: int 'start': s0, {{.*}}  # from {{.*}}dynamic_numbers.c:17
  // CHECK: int 'length': s1, 1 to 4  # from {{.*}}dynamic_numbers.c:18
  // CHECK: int 'power': 2  # from {{.*}}dynamic_numbers.c:21
  // CHECK: window [0/0]
  char *guards = tc_function_guards(f);
  printf("%s", guards);
  tc_text_free(guards);
  tc_function_destroy(f);
  tc_close(c);
  return 0;
}
