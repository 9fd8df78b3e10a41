// tcrun bench: times of repeated runs, after the outputs were found right; kernels with time, bytes and operations.
//
// Inputs and outputs stay on the device; outputs are new ones in every run. A round is one run; at least five rounds,
// then as many as fit into a second (--runs=N: exactly N). Reported are median, minimum and quartiles.
//
// With --unchecked outputs are not looked at: for whoever compares them elsewhere. Behind the check state that the
// program changes (caches of keys and values, counters) is changed from run to run, in place where the program allows
// it, as it is where models are used.
//
// A device with events times itself, with cold caches (core/runtime/stopwatch.h). With --wall, and on other devices, it
// is the time until the host has the result, with caches as the run before left them.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/runtime/stopwatch.h"
#include "tcrun/check_grad.h"
#include "tcrun/tcrun.h"

enum { MOST_RUNS = 2000, FEWEST_RUNS = 5, LIMIT_MS = 1000, WARM_UP = 5 };
static const double REF_FLOPS = 1e9; // above, the references are too slow to compare with

typedef struct bench {
  run_options *o;
  tc_context *c;
  model *m;
  tc_session *session;
  tc_tensor *inputs, *outputs; // inputs: where the device wants them
  int32_t n_outputs;
  double compile_ms, median, min, q1, q3;
  int32_t runs;
  bool checks; // runs must leave inputs and state as they are
  tc_run_report report;
  int64_t bytes, flops;
  int64_t input_bytes, output_bytes; // of what the user gives; of the memory that results have of their own
  int64_t run_bytes;                 // the most that a run had allocated at once, results included
  const char *checked, *clock;
} bench;

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static tc_status run(bench *b, bool on_device, tc_run_report *report) {
  tc_session_run_options o = {
      .write_back = !b->checks, .device_outputs = on_device, .seed = b->o->seed, .report = report};
  return tc_session_run(b->session, b->inputs, b->outputs, &o);
}

static int32_t most_runs(const bench *b) {
  return b->o->runs > 0 && b->o->runs < MOST_RUNS ? (int32_t)b->o->runs : MOST_RUNS;
}
static bool go_on(const bench *b, int32_t n, double total) {
  return n < most_runs(b) && (n < FEWEST_RUNS || b->o->runs > 0 || total < LIMIT_MS);
}

static tc_status time_by_wall(bench *b, double *ms, int32_t *out_n) {
  double total = 0;
  int32_t n = 0;
  while (go_on(b, n, total)) {
    double start = tc_now_ms();
    TC_TRY(run(b, true, NULL));
    if (b->c->device) TC_TRY(tc_device_wait(b->c->device));
    ms[n] = tc_now_ms() - start;
    total += ms[n++];
    tcrun_free_tensors(b->outputs, b->n_outputs);
  }
  *out_n = n;
  return TC_OK;
}

// ---- By the device's clock ----
static tc_status start_run(bench *b, tc_stopwatch *w, int32_t slot) {
  TC_TRY(tc_stopwatch_start(w, slot));
  TC_TRY(run(b, true, NULL));
  tcrun_free_tensors(b->outputs, b->n_outputs); // what takes the memory next is behind the run in the stream
  return tc_stopwatch_stop(w, slot);
}

static tc_status time_by_device(bench *b, tc_stopwatch *w, double *ms, int32_t *out_n) {
  double total = 0;
  int32_t n = 0;
  for (int32_t i = 0; i < WARM_UP; i++) TC_TRY(start_run(b, w, 0));
  while (go_on(b, n, total)) {
    int32_t batch = most_runs(b) - n < TC_STOPWATCH_SLOTS ? most_runs(b) - n : TC_STOPWATCH_SLOTS;
    for (int32_t i = 0; i < batch; i++) TC_TRY(start_run(b, w, i));
    for (int32_t i = 0; i < batch; i++) {
      TC_TRY(tc_stopwatch_read(w, i, &ms[n]));
      total += ms[n++];
    }
  }
  *out_n = n;
  return tc_device_wait(b->c->device);
}

static tc_status time_runs(bench *b) {
  double *ms = TC_NEW_ARRAY(b->o->arena, double, MOST_RUNS);
  int32_t n = 0;
  tc_stopwatch w = {0};
  tc_status s = b->o->wall || !b->c->device ? TC_OK : tc_stopwatch_open(b->c->device, &w);
  bool has = w.device;
  b->clock = has ? "device, cold caches" : "wall";
  if (s == TC_OK) s = has ? time_by_device(b, &w, ms, &n) : time_by_wall(b, ms, &n);
  tc_stopwatch_close(&w);
  TC_TRY(s);
  qsort(ms, (size_t)n, sizeof *ms, by_value);
  b->median = n % 2 ? ms[n / 2] : (ms[n / 2 - 1] + ms[n / 2]) / 2;
  b->min = ms[0], b->q1 = ms[n / 4], b->q3 = ms[3 * n / 4], b->runs = n;
  return TC_OK;
}

// Of results that share memory, with each other, an input or the state, the memory counts once or not at all.
static int64_t output_bytes(const bench *b) {
  int64_t bytes = 0;
  for (int32_t i = 0; i < b->n_outputs; i++) {
    const tc_storage *s = b->outputs[i].storage;
    const tc_tensor *state = tc_session_state(b->session, b->m->graph->outputs.data[i].target);
    bool seen = !s || (state && state->storage == s);
    for (int32_t k = 0; k < b->m->graph->inputs.count && !seen; k++) seen = b->inputs[k].storage == s;
    for (int32_t k = 0; k < i && !seen; k++) seen = b->outputs[k].storage == s;
    if (!seen) bytes += (int64_t)s->size;
  }
  return bytes;
}

// The run with the report, and by the device's pool the most bytes that it had taken at once, as they were asked for.
static tc_status count_memory(bench *b) {
  tc_pool *pool = b->c->device ? b->c->device->memory : NULL;
  tc_pool_stats before = {0}, behind = {0};
  if (pool) {
    tc_pool_mark(pool);
    tc_pool_read_stats(pool, &before);
  }
  TC_TRY(run(b, true, &b->report));
  b->output_bytes = b->run_bytes = output_bytes(b);
  if (!pool) return TC_OK; // the references' memory is not counted
  tc_pool_read_stats(pool, &behind);
  b->run_bytes = behind.most_asked - before.asked_bytes;
  return TC_OK;
}

// What is done once is done before: these are the launches of every run.
static tc_status measure_kernels(bench *b) {
  TC_TRY(run(b, true, NULL));
  tcrun_free_tensors(b->outputs, b->n_outputs);
  b->report.capacity = tc_session_op_count(b->session);
  b->report.launches = TC_NEW_ARRAY(b->o->arena, tc_launch_record, b->report.capacity + 1);
  TC_TRY(count_memory(b));
  tcrun_free_tensors(b->outputs, b->n_outputs);
  b->bytes = b->flops = 0;
  for (int32_t i = 0; i < b->report.n_launches; i++) {
    b->bytes += b->report.launches[i].bytes;
    b->flops += b->report.launches[i].flops;
  }
  return TC_OK;
}

// ---- Right before fast ----
static tc_status check_finite(const bench *b, int32_t leaf, const tc_tensor *t) {
  char cls = tc_dtype_class(t->dtype);
  tc_tensor wide;
  if (cls != 'f' && cls != 'c') return TC_OK;
  TC_TRY(tc_tensor_create(b->c->allocator, tc_dtype_is_complex(t->dtype) ? TC_C128 : TC_F64, t->rank, t->sizes, &wide));
  tc_status s = tc_tensor_copy(t, &wide);
  int64_t n = tc_tensor_numel(&wide) * (cls == 'c' ? 2 : 1);
  const double *v = tc_tensor_data(&wide);
  for (int64_t i = 0; s == TC_OK && i < n; i++) {
    if (!isfinite(v[i]))
      s = tc_error(TC_STATUS_MISMATCH, "output %d is not finite: these inputs measure nothing", leaf);
  }
  tc_tensor_unref(&wide);
  return s;
}

static tc_status compare_outputs(bench *b, const tc_tensor *host_inputs) {
  int32_t n = tcrun_user_outputs(b->m);
  tc_tensor *user = TC_NEW_ARRAY(b->o->arena, tc_tensor, n);
  for (int32_t leaf = 0; leaf < n; leaf++) {
    user[leaf] = b->outputs[tcrun_output_of(b->m, leaf)];
    if (user[leaf].storage) TC_TRY(check_finite(b, leaf, &user[leaf]));
  }
  difference worst;
  if (b->c->is_ref) return TC_OK;
  if ((double)b->flops > REF_FLOPS || !tcrun_has_graph(b->m)) {
    b->checked = "finite only";
    return TC_OK;
  }
  b->checked = "ref";
  return tcrun_compare_with_ref(b->o, b->m, host_inputs, user, &worst);
}

static tc_status check_outputs(bench *b, const tc_tensor *host_inputs) {
  TC_TRY(run(b, false, NULL));
  tc_status s = compare_outputs(b, host_inputs);
  tcrun_free_tensors(b->outputs, b->n_outputs);
  return s;
}

// ---- Showing ----
// What a run has at once beside its inputs, what is kept from run to run included.
static int64_t peak_bytes(const bench *b) { return b->run_bytes + b->report.frozen_bytes; }

static void print_json(const bench *b) {
  const tc_context *c = b->c;
  const tc_session_stats *q = tc_session_stats_of(b->session);
  tc_sb sb = tc_sb_make(b->o->arena);
  tc_sb_putz(&sb, "{\"name\": ");
  tc_json_quote(&sb, b->m->file);
  tc_sb_printf(&sb,
               ", \"backend\": \"" TC_SV_FMT "\", \"mode\": \"" TC_SV_FMT "\", \"device\": ", TC_SV_ARG(c->backend),
               TC_SV_ARG(tc_config_text(c->config, TC_OPT_ID_MODE)));
  tc_json_quote(&sb, c->device ? tc_sv_of(c->device->props.name) : TC_SV(""));
  tc_sb_printf(&sb,
               ", \"compile_ms\": %.3f, \"median_ms\": %.6f, \"min_ms\": %.6f, \"q1_ms\": %.6f, \"q3_ms\": %.6f, "
               "\"runs\": %d, \"clock\": \"%s\", \"checked\": \"%s\", \"fallbacks\": %d, "
               "\"kernels_made\": %d, \"kernels\": [",
               b->compile_ms, b->median, b->min, b->q1, b->q3, b->runs, b->clock, b->checked, q->fallbacks,
               q->compile.kernels - q->compile.hits);
  for (int32_t i = 0; i < b->report.n_launches; i++) {
    const tc_launch_record *k = &b->report.launches[i];
    tc_sb_putz(&sb, i ? ", {\"name\": " : "{\"name\": ");
    tc_json_quote(&sb, k->name);
    tc_sb_printf(&sb, ", \"ms\": %.6f, \"bytes\": %lld, \"flops\": %lld}", k->ms, (long long)k->bytes,
                 (long long)k->flops);
  }
  tc_sb_printf(&sb,
               "], \"bytes\": %lld, \"flops\": %lld, \"input_bytes\": %lld, \"output_bytes\": %lld, "
               "\"kept_bytes\": %lld, \"peak_bytes\": %lld}\n",
               (long long)b->bytes, (long long)b->flops, (long long)b->input_bytes, (long long)b->output_bytes,
               (long long)b->report.frozen_bytes, (long long)peak_bytes(b));
  fputs(sb.text, stdout);
}

static void print_text(const bench *b) {
  const tc_session_stats *q = tc_session_stats_of(b->session);
  printf(TC_SV_FMT ": median %.4f ms, min %.4f, quartiles %.4f … %.4f, %d runs; compiled in %.1f ms (%d kernels, %d "
                   "from the cache, %.1f ms generating)\n",
         TC_SV_ARG(b->m->file), b->median, b->min, b->q1, b->q3, b->runs, b->compile_ms, q->compile.kernels,
         q->compile.hits, q->compile.ms);
  printf("  %.2f GB/s, %.2f GFLOP/s, %d launches and calls, arena %lld bytes, %lld kept, peak with results "
         "%lld, clock: %s, outputs checked: %s\n",
         (double)b->bytes / b->median * 1e-6, (double)b->flops / b->median * 1e-6, b->report.n_launches,
         (long long)b->report.arena_bytes, (long long)b->report.frozen_bytes, (long long)peak_bytes(b), b->clock,
         b->checked);
  if (q->fallbacks) printf("  %d nodes are left to the references: the time is mostly theirs\n", q->fallbacks);
  for (int32_t i = 0; i < b->report.n_launches && !b->o->quiet; i++) {
    const tc_launch_record *k = &b->report.launches[i];
    printf("  %-48.*s %9.4f ms %8.2f GB/s %8.2f GF/s  blocks %lld\n", (int)k->name.size, k->name.data, k->ms,
           (double)k->bytes / k->ms * 1e-6, (double)k->flops / k->ms * 1e-6, (long long)k->blocks);
  }
}

// ---- A model ----
static bool is_changed(const tc_graph *g, int32_t input) {
  bool changed = false;
  for (int32_t i = 0; i < g->outputs.count; i++) {
    const tc_graph_output *o = &g->outputs.data[i];
    changed |= o->kind == TC_OUT_INPUT_MUTATION && tc_sv_eq(o->target, g->inputs.data[input].target);
  }
  return changed;
}

// What is drawn is ours; other inputs lie in a mapped file, which cannot be written, and at whatever offset and on
// whatever pages it has them: a program that runs again and again has its inputs in memory.
static bool is_mapped(const bench *b) { return b->o->inputs.size || !b->o->random; }

// An input where the device wants it.
static tc_status place_input(const bench *b, int32_t i, const tc_tensor *given, tc_tensor *out) {
  const tc_value *v = b->m->graph->inputs.data[i].value;
  tc_tensor own = tc_tensor_ref(given);
  tc_status s = TC_OK;
  if (is_mapped(b) || is_changed(tc_session_graph(b->session), i)) {
    tc_tensor_unref(&own);
    s = tc_tensor_create_strided(b->c->allocator, given->dtype, given->rank, given->sizes, given->strides, &own);
    if (s == TC_OK) s = tc_tensor_copy(given, &own);
  }
  if (s == TC_OK && b->c->device && v && v->kind == TC_VALUE_TENSOR) s = tc_tensor_to_device(b->c->device, &own, out);
  else if (s == TC_OK) *out = tc_tensor_ref(&own);
  tc_tensor_unref(&own);
  return s;
}

static tc_status bench_session(bench *b, const tc_tensor *host_inputs) {
  int32_t n = b->m->graph->inputs.count;
  b->n_outputs = b->m->graph->outputs.count;
  b->outputs = TC_NEW_ARRAY(b->o->arena, tc_tensor, b->n_outputs);
  b->inputs = TC_NEW_ARRAY(b->o->arena, tc_tensor, n);
  tc_status s = TC_OK;
  for (int32_t i = 0; i < n && s == TC_OK; i++) {
    if (!host_inputs[i].storage) continue;
    s = place_input(b, i, &host_inputs[i], &b->inputs[i]);
    if (s == TC_OK) b->input_bytes += (int64_t)b->inputs[i].storage->size;
  }
  if (!b->o->unchecked) {
    b->checks = true;
    if (s == TC_OK && !b->c->is_ref) s = measure_kernels(b); // what it does tells whether references are too slow
    if (s == TC_OK) s = check_outputs(b, host_inputs);
    b->checks = false;
  }
  if (s == TC_OK && !b->c->is_ref) s = measure_kernels(b);
  if (s == TC_OK) s = time_runs(b);
  tcrun_free_tensors(b->inputs, n);
  return s;
}

static tc_status bench_model(run_options *o, tc_context *c, model *m) {
  bench b = {.o = o, .c = c, .m = m, .checked = o->unchecked ? "not" : "is ref"};
  tc_tensor *inputs;
  tcrun_progress_say(o->progress, "compiling " TC_SV_FMT, TC_SV_ARG(m->file));
  double start = tc_now_ms();
  TC_TRY(tc_session_create_from(c, &m->source, TC_STAGE_EXEC, &b.session));
  b.compile_ms = tc_now_ms() - start;
  tc_status s = tcrun_inputs(c, o, m, &inputs, NULL);
  tcrun_progress_say(o->progress, "timing " TC_SV_FMT, TC_SV_ARG(m->file));
  if (s == TC_OK) {
    s = bench_session(&b, inputs);
    tcrun_free_tensors(inputs, m->graph->inputs.count);
  }
  tcrun_progress_hide(o->progress);
  if (s == TC_OK && o->json) print_json(&b);
  else if (s == TC_OK) print_text(&b);
  tcrun_progress_show(o->progress);
  tc_session_destroy(b.session);
  return s;
}

// Goes on behind a model that fails, and fails at the end.
tc_status cmd_bench(run_options *o) {
  tc_context *c;
  if (!o->args.count) return tc_error(TC_STATUS_INVALID_ARGUMENT, "which model?");
  TC_TRY(tcrun_open(o, &c));
  tc_status first = TC_OK;
  for (int32_t i = 0; i < o->args.count; i++) {
    model m;
    const char *path = tc_sv_z(o->arena, o->args.data[i]);
    tc_status s = tcrun_load_asked(c, o, path, &m);
    if (s == TC_OK) {
      if (o->flops) s = tcrun_print_flops(o, &m);
      if (s == TC_OK) s = tc_status_note(bench_model(o, c, &m), "while timing %s", path);
      tcrun_unload(&m);
    }
    fflush(stdout);
    if (s != TC_OK && o->args.count > 1) fprintf(stderr, "tcrun: %s\n", tc_status_text(s));
    if (first == TC_OK) first = s;
    else tc_status_free(s);
  }
  tc_context_destroy(c);
  return first;
}
