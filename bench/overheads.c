// What calls cost besides their work, on one thread, the least of many rounds in microseconds of the thread's own time
// (so that a busy machine counts little): an op by itself, a compiled function of one op, one with a graph break (two
// segments), and calls of an empty graph: the check of its guards by itself, and what is left of the call, dispatch.
//   ninja -C build overheads && build/bin/overheads [backend=cpu]
// bench/overheads puts PyTorch's figures beside these.
#include <stdio.h>
#include <time.h>

#include "core/api/function.h"

#include "tc/ops.h"

enum { ROUNDS = 200, CALLS = 500, MANY = 32 };

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int32_t add(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)self, (void)n_in, (void)n_out;
  out[0] = tc_aten_add_Tensor(in[0], in[1], tc_scalar_int(1));
  return tc_last_code();
}

static int32_t breaks(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  double v = 0;
  (void)self, (void)n_in, (void)n_out;
  tc_tensor *x = tc_aten_add_Tensor(in[0], in[1], tc_scalar_int(1));
  if (tc_item_f64(tc_aten_sum(x, TC_DTYPE_NONE), &v, NULL) != TC_STATUS_OK) return tc_last_code();
  out[0] = v < 0 ? tc_aten_neg(x) : tc_aten_relu(x);
  return tc_last_code();
}

// Gives an input back: there is nothing to run but the guards.
static int32_t nothing(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)self, (void)n_in, (void)n_out;
  out[0] = in[0];
  return TC_STATUS_OK;
}

static int failed(const char *what) {
  fprintf(stderr, "%s: %s\n", what, tc_last_error());
  return 1;
}

// The function, or a single op where it is NULL.
static int measure(const char *name, tc_function *f, tc_tensor *const *in) {
  double best = 1e30;
  for (int round = 0; round < ROUNDS; round++) {
    double start = now_us();
    for (int i = 0; i < CALLS; i++) {
      tc_tensor *out[1];
      if (!f) out[0] = tc_aten_add_Tensor(in[0], in[1], tc_scalar_int(1));
      else if (tc_call(f, in, out) != TC_STATUS_OK) return failed(name);
      if (!out[0]) return failed(name);
      tc_release(out[0]);
    }
    double us = (now_us() - start) / CALLS;
    if (us < best) best = us;
  }
  printf("%-40s %7.2f us\n", name, best);
  return 0;
}

// An empty graph: the whole call, and the check of its guards alone on what a call makes of its inputs.
static int measure_guards(tc_function *f, tc_tensor *const *in) {
  int64_t symbols[FUNCTION_SYMBOLS];
  tc_tensor values[MANY];
  double call = 1e30, check = 1e30;
  for (int32_t i = 0; i < f->n_inputs; i++) values[i] = *in[i];
  for (int round = 0; round < ROUNDS; round++) {
    double start = now_us();
    for (int i = 0; i < CALLS; i++) {
      tc_tensor *out[1];
      if (tc_call(f, in, out) != TC_STATUS_OK) return failed("tc_call");
      tc_release(out[0]);
    }
    double between = now_us();
    for (int i = 0; i < CALLS; i++)
      if (tc_guards_check(f->entries->guards, values, symbols).kind != TC_GUARD_HOLDS) return failed("guards");
    double end = now_us();
    if (between - start < call * CALLS) call = (between - start) / CALLS;
    if (end - between < check * CALLS) check = (end - between) / CALLS;
  }
  printf("guard check, %2d inputs %17s %7.2f us\n", f->n_inputs, "", check);
  printf("dispatch of an empty graph, %2d inputs %2s %7.2f us\n", f->n_inputs, "", call - check);
  printf("guard check and dispatch, %2d inputs %4s %7.2f us\n", f->n_inputs, "", call);
  return 0;
}

int main(int argc, char **argv) {
  tc_context *c;
  const char *settings[] = {argc > 1 ? argv[1] : "backend=cpu", "threads=1"};
  if (tc_open(settings, 2, &c) != TC_STATUS_OK) return failed("tc_open");
  const float data[4] = {1, 2, 3, 4};
  tc_tensor *in[MANY];
  for (int i = 0; i < MANY; i++)
    if (!(in[i] = tc_tensor_from(c, TC_F32, 1, (int64_t[]){4}, data))) return failed("tc_tensor_from");
  static const struct {
    const char *name;
    tc_function_body body;
    int32_t n_inputs;
  } functions[] = {{"compiled function of one op", add, 2},
                   {"function with a graph break, 3 ops", breaks, 2},
                   {NULL, nothing, 2},
                   {NULL, nothing, MANY}};
  int bad = measure("one op, eager", NULL, in);
  for (size_t i = 0; i < sizeof functions / sizeof *functions && !bad; i++) {
    tc_compile_options o = {.struct_size = sizeof o, .n_inputs = functions[i].n_inputs, .n_outputs = 1};
    tc_function *f;
    if (tc_compile(c, functions[i].body, NULL, &o, &f) != TC_STATUS_OK) return failed("tc_compile");
    bad = functions[i].name ? measure(functions[i].name, f, in) : measure_guards(f, in);
    tc_function_destroy(f);
  }
  for (int i = 0; i < MANY; i++) tc_release(in[i]);
  tc_close(c);
  return bad;
}
