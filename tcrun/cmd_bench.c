// tcrun bench: median and minimum of repeated runs; kernels with time, bytes and operations.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tcrun/tcrun.h"

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

typedef struct timing {
  double median, min, q1, q3;
  int32_t runs;
} timing;

static tc_status time_runs(run_options *o, runner *r, const tc_tensor *inputs, timing *out) {
  int32_t n_out = r->m->graph->outputs.count;
  tc_tensor *outputs = TC_NEW_ARRAY(o->arena, tc_tensor, n_out);
  double total = 0, ms[2000];
  int32_t n = 0, most = o->runs > 0 && o->runs < 2000 ? (int32_t)o->runs : 2000;
  while (n < most && (n < 5 || o->runs > 0 || total < 1000)) {
    double start = tc_now_ms();
    TC_TRY(tcrun_execute(r, inputs, outputs, NULL));
    ms[n] = tc_now_ms() - start;
    total += ms[n++];
    tcrun_free_tensors(outputs, n_out);
  }
  qsort(ms, (size_t)n, sizeof *ms, by_value);
  *out = (timing){.median = ms[n / 2], .min = ms[0], .q1 = ms[n / 4], .q3 = ms[3 * n / 4], .runs = n};
  return TC_OK;
}

static tc_status report_kernels(run_options *o, runner *r, const tc_tensor *inputs, tc_run_report *report) {
  int32_t n_out = r->m->graph->outputs.count;
  tc_tensor *outputs = TC_NEW_ARRAY(o->arena, tc_tensor, n_out);
  report->launches = TC_NEW_ARRAY(o->arena, tc_launch_record, tc_exec_op_count(r->compiled.exec));
  TC_TRY(tcrun_execute(r, inputs, outputs, report));
  tcrun_free_tensors(outputs, n_out);
  return TC_OK;
}

static tc_status bench_model(run_options *o, tc_context *c, model *m) {
  runner r;
  tc_tensor *inputs;
  double start = tc_now_ms();
  TC_TRY(tcrun_prepare(c, m, &r));
  double compile_ms = tc_now_ms() - start;
  TC_TRY(tcrun_inputs(c, o, m, &inputs));
  timing t;
  tc_run_report report = {0};
  tc_tensor *outputs = TC_NEW_ARRAY(o->arena, tc_tensor, m->graph->outputs.count);
  tc_status s = tcrun_execute(&r, inputs, outputs, NULL); // warm-up
  tcrun_free_tensors(outputs, m->graph->outputs.count);
  if (s == TC_OK) s = time_runs(o, &r, inputs, &t);
  if (s == TC_OK && !c->is_ref) s = report_kernels(o, &r, inputs, &report);
  if (s == TC_OK) {
    int64_t bytes = 0, flops = 0;
    for (int32_t i = 0; i < report.n_launches; i++)
      bytes += report.launches[i].bytes, flops += report.launches[i].flops;
    if (o->json) {
      printf("{\"name\": \"" TC_SV_FMT "\", \"backend\": \"" TC_SV_FMT "\", \"mode\": \"" TC_SV_FMT
             "\", \"compile_ms\": %.3f, \"median_ms\": %.6f, \"min_ms\": %.6f, \"runs\": %d, \"kernels\": [",
             TC_SV_ARG(m->name), TC_SV_ARG(c->backend), TC_SV_ARG(tc_config_text(c->config, TC_OPT_ID_MODE)),
             compile_ms, t.median, t.min, t.runs);
      for (int32_t i = 0; i < report.n_launches; i++) {
        const tc_launch_record *k = &report.launches[i];
        printf("%s{\"name\": \"" TC_SV_FMT "\", \"ms\": %.6f, \"bytes\": %lld, \"flops\": %lld}", i ? ", " : "",
               TC_SV_ARG(k->name), k->ms, (long long)k->bytes, (long long)k->flops);
      }
      printf("], \"bytes\": %lld, \"flops\": %lld, \"peak_bytes\": %lld}\n", (long long)bytes, (long long)flops,
             (long long)report.arena_bytes);
    } else {
      printf(TC_SV_FMT ": median %.4f ms, min %.4f, quartiles %.4f … %.4f, %d runs; compiled in %.1f ms (%d kernels, "
                       "%d from the cache, %.1f ms generating)\n",
             TC_SV_ARG(m->name), t.median, t.min, t.q1, t.q3, t.runs, compile_ms, r.compiled.stats.kernels,
             r.compiled.stats.hits, r.compiled.stats.ms);
      for (int32_t i = 0; i < report.n_launches; i++) {
        const tc_launch_record *k = &report.launches[i];
        printf("  %-48.*s %9.4f ms %8.2f GB/s %8.2f GF/s  blocks %lld\n", (int)k->name.size, k->name.data, k->ms,
               (double)k->bytes / k->ms * 1e-6, (double)k->flops / k->ms * 1e-6, (long long)k->blocks);
      }
    }
  }
  tcrun_free_tensors(inputs, m->graph->inputs.count);
  tcrun_finish(&r);
  return s;
}

tc_status cmd_bench(run_options *o) {
  tc_context *c;
  if (!o->args.count) return tc_error(TC_STATUS_INVALID_ARGUMENT, "which model?");
  TC_TRY(tcrun_open(o, &c));
  tc_status s = TC_OK;
  for (int32_t i = 0; i < o->args.count && s == TC_OK; i++) {
    model m;
    s = tcrun_load(c, o, tc_sv_z(o->arena, o->args.data[i]), &m);
    if (s == TC_OK) s = bench_model(o, c, &m);
    tcrun_unload(&m);
  }
  tc_context_destroy(c);
  return s;
}
