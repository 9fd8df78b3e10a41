// A function that branches on a value: a graph break. What lies between breaks is compiled, one segment for each
// branch; the log says where it breaks and what became of which op.
#include <stdio.h>
#include <string.h>

#include "tc/ops.h"

static int32_t branch(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  double sum = 0;
  (void)self, (void)n_in, (void)n_out;
  if (tc_item_f64(tc_aten_sum(in[0], TC_DTYPE_NONE), &sum, NULL) != TC_STATUS_OK) return tc_last_code();
  out[0] = sum > 0 ? tc_aten_exp(in[0]) : tc_aten_neg(in[0]);
  return tc_last_code();
}

static int failed(const char *what) {
  fprintf(stderr, "%s: %s\n", what, tc_last_error());
  return 1;
}

// Paths differ from machine to machine: the file's name is enough.
static void print_line(void *self, const char *artifact, tc_sv text) {
  const char *end = text.data + text.size, *file = end;
  (void)self;
  while (file > text.data && file[-1] != '/') file--;
  printf("[%s] … %.*s\n", artifact, (int)(end - file), file);
}

int main(void) {
  tc_context *c;
  const char *settings[] = {"backend=cpu"};
  if (tc_open(settings, 1, &c) != TC_STATUS_OK) return failed("tc_open");
  if (tc_set_logs(c, "graph_breaks", print_line, NULL) != TC_STATUS_OK) return failed("tc_set_logs");
  tc_compile_options o = {.struct_size = sizeof o, .name = "branch", .n_inputs = 1, .n_outputs = 1};
  tc_function *f;
  if (tc_compile(c, branch, NULL, &o, &f) != TC_STATUS_OK) return failed("tc_compile");
  const float values[3][2] = {{0, 1}, {-1, -2}, {0, 1}};
  // CHECK: [graph_breaks] {{.*}}graph_break.c:11
  // CHECK: [graph_breaks] {{.*}}segment s0, compiled: aten::exp
  // CHECK: [graph_breaks] {{.*}}segment s1, compiled: aten::sum
  // CHECK: 1.00 2.72
  // CHECK: [graph_breaks] {{.*}}segment s2, compiled: aten::neg
  // CHECK: 1.00 2.00
  // CHECK-NOT: [graph_breaks]
  // CHECK: 1.00 2.72
  for (int i = 0; i < 3; i++) {
    tc_scope *scope = tc_scope_open();
    tc_tensor *in = tc_tensor_from(c, TC_F32, 1, (int64_t[]){2}, values[i]), *out;
    if (tc_call(f, &in, &out) != TC_STATUS_OK) return failed("tc_call");
    const float *y = tc_data_of(out);
    printf("%.2f %.2f\n", (double)y[0], (double)y[1]);
    tc_scope_close(scope);
  }
  // CHECK: branch [0/s2]
  // CHECK: tensor 'in.0': f32[2], {{.*}}from the input
  // CHECK: branch [0/s1]
  // CHECK: branch [0/s0]
  char *guards = tc_function_guards(f);
  printf("%s", guards);
  tc_text_free(guards);
  tc_function_destroy(f);
  tc_close(c);
  return 0;
}
