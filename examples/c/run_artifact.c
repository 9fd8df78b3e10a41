// Runs a model that was compiled ahead of time, with the small runtime alone: no compiler is linked or opened.
//
//   tcrun compile gpt_block.pt2 -o gpt_block.tcx --sizes=x=1x16x64 --sizes=any && ./run_artifact gpt_block.tcx
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <tc/rt.h>

enum { MOST = 8 };

static int failed(const char *doing) {
  printf("%s: %s\n", doing, tc_rt_last_error());
  return 1;
}

static void print_info(const char *what, const tc_rt_info *x) {
  printf("%s '%s': rank %d [", what, x->name, x->rank);
  for (int d = 0; d < x->rank; d++) printf("%s%lld", d ? ", " : "", (long long)x->sizes[d]);
  printf("]\n");
}

// Sizes that are open get `size`; 0: the example's.
static int make_input(const tc_rt_program *p, int i, int64_t size, tc_rt_tensor *t) {
  tc_rt_info info;
  size_t n = 1;
  if (tc_rt_input(p, i, &info)) return 0;
  print_info("input", &info);
  if (info.dtype != TC_F32) return 0;
  *t = (tc_rt_tensor){.dtype = info.dtype, .rank = info.rank};
  for (int d = 0; d < info.rank; d++) {
    t->sizes[d] = info.sizes[d] >= 0 ? info.sizes[d] : size ? size : info.example[d];
    n *= (size_t)t->sizes[d];
  }
  tc_rt_row_major(t);
  float *v = malloc(n * sizeof *v);
  for (size_t k = 0; v && k < n; k++) v[k] = sinf((float)k);
  t->data = v;
  return v != NULL;
}

static int run(tc_rt_program *p, int64_t size) {
  tc_rt_tensor inputs[MOST] = {0}, outputs[MOST] = {0};
  int n_in = tc_rt_input_count(p), n_out = tc_rt_output_count(p), good = n_in <= MOST && n_out <= MOST;
  for (int i = 0; good && i < n_in; i++) good = make_input(p, i, size, &inputs[i]);
  if (good && tc_rt_run(p, inputs, outputs, 0) != TC_STATUS_OK) good = !failed("running");
  for (int i = 0; good && i < n_out; i++) {
    tc_rt_info info;
    tc_rt_output(p, i, &info);
    print_info("output", &info);
    printf("%lld rows, first value %.4f\n", (long long)outputs[i].sizes[outputs[i].rank - 2],
           (double)((const float *)outputs[i].data)[0]);
  }
  if (good) { // the guards: a size that the program was not compiled for
    inputs[0].sizes[inputs[0].rank - 1]++;
    if (tc_rt_run(p, inputs, outputs, 0) != TC_STATUS_OK) failed("refused");
  }
  for (int i = 0; i < n_out && i < MOST; i++) tc_rt_release(&outputs[i]);
  for (int i = 0; i < n_in && i < MOST; i++) free(inputs[i].data);
  return good ? 0 : 1;
}

int main(int argc, char **argv) {
  tc_rt *rt;
  tc_rt_program *p;
  if (argc < 2) {
    printf("which artifact?\n");
    return 2;
  }
  if (tc_rt_open(NULL, 0, &rt) != TC_STATUS_OK) return failed("opening");
  if (tc_rt_load(rt, "no such file", NULL, &p) != TC_STATUS_OK) failed("loading");
  if (tc_rt_load(rt, argv[1], NULL, &p) != TC_STATUS_OK) return failed("loading");
  // The file has an executable for 16 rows and one for any number: each run takes what fits.
  int code = run(p, 0) || run(p, 16) || run(p, 17);
  tc_rt_unload(p);
  tc_rt_close(rt);
  return code;
}

// CHECK: loading: cannot open 'no such file'
// CHECK: input 'x': rank 3 [1, -1, 64]
// CHECK: output '': rank 3 [1, -1, 64]
// CHECK: {{[0-9]+}} rows, first value {{-?[0-9]}}
// CHECK: refused: none of the 2 executables of 'forward' takes these inputs:
// CHECK-NEXT: x f32[1, s27, 64]{{.*}}: input 'x' size mismatch at index 2. expected 64, actual 65
// CHECK-NEXT: x f32[1, 16, 64]: input 'x' size mismatch
// CHECK: 16 rows, first value {{-?[0-9]}}
// CHECK: 17 rows, first value {{-?[0-9]}}
