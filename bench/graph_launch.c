// What an NVIDIA driver costs by itself, which recorded runs are held to: how long it takes to start, and to launch a
// graph of N kernels that each add 1 to 32 floats and to wait for it (median of many). bench/gpu_checks runs it.
//   ninja -C build graph_launch && build/bin/graph_launch [KERNELS…]
#include <stdio.h>
#include <stdlib.h>

#include "core/base/fs.h"
#include "plugins/cuda/driver.h"

enum { RUNS = 2000, WARM_UP = 50, LANES = 32, MOST_KERNELS = 100000 };

static const char kernel[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry step(.param .u64 to) {\n"
    "  .reg .b32 %l; .reg .b64 %p, %o; .reg .f32 %x;\n  ld.param.u64 %p, [to];\n  mov.u32 %l, %tid.x;\n"
    "  mul.wide.u32 %o, %l, 4;\n  add.u64 %p, %p, %o;\n  cvta.to.global.u64 %p, %p;\n"
    "  ld.global.f32 %x, [%p];\n  add.f32 %x, %x, 0f3f800000;\n  st.global.f32 [%p], %x;\n  ret;\n}\n";

typedef struct bench {
  cuda_driver driver;
  cu_stream stream;
  cu_function function;
  cu_ptr memory;
} bench;

static tc_sv no_config(void *self, tc_sv key) {
  (void)self, (void)key;
  return (tc_sv){0};
}

static int check(const bench *b, const char *what, cu_result code) {
  char text[300];
  if (code == CU_OK) return 0;
  cuda_driver_error(&b->driver, what, code, text, sizeof text);
  fprintf(stderr, "graph_launch: %s\n", text);
  return 1;
}
#define DO(call)                                        \
  do {                                                  \
    if (check(b, #call, b->driver.call) != 0) return 1; \
  } while (0)

// Milliseconds until memory can be had.
static int start(bench *b, double *ms) {
  tc_host host = {.struct_size = sizeof host, .config = no_config};
  char why[600];
  cu_device device;
  cu_context context;
  double from = tc_now_ms();
  if (cuda_driver_open(&host, &b->driver, why, sizeof why) != TC_STATUS_OK) {
    fprintf(stderr, "graph_launch: %s\n", why);
    return 1;
  }
  DO(device_get(&device, 0));
  DO(context_retain(&context, device));
  DO(context_set(context));
  DO(memory_alloc(&b->memory, LANES * sizeof(float)));
  *ms = tc_now_ms() - from;
  return 0;
}

static int by_value(const void *x, const void *y) {
  double a = *(const double *)x, c = *(const double *)y;
  return a < c ? -1 : a > c;
}

static int time_graph(bench *b, int kernels, double *out_ms) {
  static double ms[RUNS];
  void *params[] = {&b->memory};
  cu_graph graph;
  cu_graph_exec exec;
  DO(capture_begin(b->stream, CU_CAPTURE_RELAXED));
  for (int i = 0; i < kernels; i++) DO(launch(b->function, 1, 1, 1, LANES, 1, 1, 0, b->stream, params, NULL));
  DO(capture_end(b->stream, &graph));
  DO(graph_instantiate(&exec, graph, 0));
  for (int i = -WARM_UP; i < RUNS; i++) {
    double from = tc_now_ms();
    DO(graph_launch(exec, b->stream));
    DO(stream_synchronize(b->stream));
    if (i >= 0) ms[i] = tc_now_ms() - from;
  }
  qsort(ms, RUNS, sizeof *ms, by_value);
  *out_ms = ms[RUNS / 2];
  DO(graph_exec_destroy(exec));
  DO(graph_destroy(graph));
  return 0;
}

static int all(bench *b, int n, char **counts) {
  double ms;
  cu_module module;
  if (start(b, &ms) != 0) return 1;
  printf("{\"start_ms\": %.3f, \"graph_ms\": {", ms);
  DO(module_load(&module, kernel));
  DO(module_function(&b->function, module, "step"));
  DO(stream_create(&b->stream, CU_STREAM_NON_BLOCKING));
  for (int i = 0; i < n; i++) {
    long kernels = strtol(counts[i], NULL, 10);
    if (kernels < 1 || kernels > MOST_KERNELS || time_graph(b, (int)kernels, &ms) != 0) return 1;
    printf("%s\"%ld\": %.6f", i ? ", " : "", kernels, ms);
  }
  printf("}}\n");
  return 0;
}

int main(int argc, char **argv) {
  bench b = {0};
  return all(&b, argc - 1, argv + 1);
}
