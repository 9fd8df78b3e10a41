// An attention layer that is called with other lengths: the second length compiles again, with a reason in words, and
// makes the length a symbol; no further length compiles.
#include <stdio.h>

#include "tc/ops.h"

static int32_t attention(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)self, (void)n_in, (void)n_out;
  // No mask, no dropout, causal, the scale from the head's width.
  out[0] = tc_aten_scaled_dot_product_attention(in[0], in[1], in[2], NULL, 0.0, 1, NULL, 0);
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

int main(void) {
  tc_context *c;
  const char *settings[] = {"backend=cpu"};
  if (tc_open(settings, 1, &c) != TC_STATUS_OK) return failed("tc_open");
  if (tc_set_logs(c, "recompiles", print_line, NULL) != TC_STATUS_OK) return failed("tc_set_logs");
  static const char *const names[] = {"q", "k", "v"};
  tc_compile_options o = {
      .struct_size = sizeof o, .name = "attention", .input_names = names, .n_inputs = 3, .n_outputs = 1};
  tc_function *f;
  if (tc_compile(c, attention, NULL, &o, &f) != TC_STATUS_OK) return failed("tc_compile");
  const int64_t lengths[] = {8, 16, 21, 64, 33};
  // CHECK: length 8: compiled 1
  // CHECK: [recompiles] recompiling attention [0/1]: tensor 'q' size mismatch at index 2. expected 8, actual 16
  // CHECK: length 16: compiled 2
  // CHECK-NOT: recompiling attention [0/2]
  // CHECK: length 33: compiled 2
  for (int i = 0; i < 5; i++) {
    tc_scope *scope = tc_scope_open();
    int64_t sizes[] = {1, 2, lengths[i], 16};
    tc_tensor *in[3], *out;
    for (int k = 0; k < 3; k++) {
      in[k] = tc_new_tensor(c, TC_F32, 4, sizes);
      if (!in[k]) return failed("tc_new_tensor");
      for (int64_t j = 0; j < tc_numel_of(in[k]); j++)
        ((float *)tc_data_of(in[k]))[j] = (float)((j * (k + 3)) % 11) / 11;
    }
    if (tc_call(f, in, &out) != TC_STATUS_OK) return failed("tc_call");
    printf("length %d: compiled %d\n", (int)lengths[i], (int)tc_function_stats_of(f).compiles);
    tc_scope_close(scope);
  }
  // CHECK: attention [0/1]
  // CHECK: tensor 'q': f32[1, 2, s0, 16]
  char *guards = tc_function_guards(f);
  printf("%s", guards);
  tc_text_free(guards);
  tc_function_destroy(f);
  tc_close(c);
  return 0;
}
