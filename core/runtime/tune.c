// Timing candidates. See tune.h.
#include "core/runtime/tune.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/base/fs.h"
#include "core/runtime/stopwatch.h"

enum { MOST_CANDIDATES = 64, MOST_FOLLOWERS = 6, MOST_LEADERS = 8, MOST_RUNS = 100 };
// Less work than this is over before a choice could matter.
static const int64_t LEAST_FLOPS = 1 << 22;
// What is so much slower than the best is timed once.
static const double HOPELESS = 2.0;
// A candidate must beat the ones before it by this to be worth more than the noise.
static const double CLEARLY = 0.98;

typedef struct candidate {
  tc_trial trial;
  char name[80];
  double ms; // negative: it failed
} candidate;

typedef struct tuner {
  tc_context *c;
  tc_device *d;
  tc_module *m;
  double end; // of the budget, in tc_now_ms
  int32_t rounds;
  tc_stopwatch watch;
  // The node in work.
  tc_extract part;
  tc_node *node;          // in the part
  int32_t before, behind; // nodes of the part
  tc_tensor *inputs;
  candidate *list;
  int32_t n, best;
} tuner;

// ---- What is tuned ----
static bool is_float(const tc_value *v) {
  return v->kind == TC_VALUE_TENSOR && v->type.dtype >= TC_F16 && !v->type.conj;
}

static bool reads_floats(const tc_node *n) {
  for (int32_t i = 0; i < n->n_args; i++) {
    const tc_arg *a = &n->args[i];
    if (a->kind == TC_AK_GRAPH) return false;
    if (a->value && !is_float(a->value)) return false;
    for (int32_t k = 0; a->kind == TC_AK_TENSORS && k < a->n; k++)
      if (a->values[k] && !is_float(a->values[k])) return false;
  }
  return true;
}

static bool is_worth_it(tc_module *m, const tc_node *n) {
  if (!n->op->def->lower || n->n_results < 1 || n->results[0]->kind != TC_VALUE_TENSOR || !reads_floats(n))
    return false;
  return tc_sym_hint_or(m->syms, tc_plan_node_flops(m->arena, m->syms, n), 0) >= LEAST_FLOPS;
}

// The node and what is pointwise and alone reads its result, or a view of it; kernels do these in one.
static int32_t with_followers(tc_node *n, tc_node **out) {
  int32_t count = 1, last = 1; // of these behind whose last no view is left over
  out[0] = n;
  for (tc_node *k = n->next; k && count <= MOST_FOLLOWERS; k = k->next) {
    const tc_value *v = out[count - 1]->results[0];
    bool reads = false;
    if (v->n_uses != 1) break;
    for (int32_t i = 0; i < k->n_args; i++) reads |= k->args[i].value == v;
    if (!reads) continue;
    bool view = k->n_results == 1 && k->results[0]->view_arg >= 0;
    if ((!k->op->def->body && !view) || k->n_results != 1 || !reads_floats(k)) break;
    out[count++] = k;
    if (!view) last = count;
  }
  return last;
}

typedef struct leaders {
  tc_module *m;
  const tc_node *list[MOST_LEADERS];
  int32_t n;
  bool whole; // they read nothing but inputs
} leaders;

static void look_behind(leaders *l, const tc_node *n);

static void look_at(leaders *l, const tc_value *v) {
  tc_node *p = v && v->kind == TC_VALUE_TENSOR ? v->def : NULL;
  if (!p) return;
  const tc_op_def *def = p->op->def;
  bool one = p->n_results == 1 && v->n_uses == 1 && (def->body || def->lower || v->view_arg >= 0);
  if (!one || !reads_floats(p) || is_worth_it(l->m, p) || l->n == MOST_LEADERS) {
    l->whole = false;
    return;
  }
  l->list[l->n++] = p;
  look_behind(l, p);
}

static void look_behind(leaders *l, const tc_node *n) {
  for (int32_t i = 0; i < n->n_args && l->whole; i++) {
    const tc_arg *a = &n->args[i];
    look_at(l, a->value);
    for (int32_t k = 0; a->kind == TC_AK_TENSORS && k < a->n; k++) look_at(l, a->values[k]);
  }
}

// What lies between inputs and the node and is read by it alone, as frames of a signal and their window are: kernels
// take it in, before a library it is stored. Behind other work it might as well go with that, so then it is left out.
static int32_t with_leaders(tc_module *m, tc_node *n, tc_node **out) {
  leaders l = {.m = m, .whole = true};
  int32_t count = 0;
  look_behind(&l, n);
  for (tc_node *k = n->graph->first; l.whole && l.n && k != n; k = k->next)
    for (int32_t i = 0; i < l.n; i++)
      if (l.list[i] == k) out[count++] = k;
  return count;
}

// ---- Inputs ----
static tc_status make_input(tuner *t, const tc_value *v, uint64_t seed, tc_tensor *out) {
  int64_t sizes[TC_MAX_RANK], strides[TC_MAX_RANK];
  const tc_tensor_type *type = &v->type;
  tc_tensor host;
  for (int32_t d = 0; d < type->rank; d++) {
    sizes[d] = tc_sym_hint_or(t->m->syms, type->sizes[d], -1);
    strides[d] = type->strides ? tc_sym_hint_or(t->m->syms, type->strides[d], -1) : -1;
    if (sizes[d] < 0) return tc_error(TC_STATUS_UNIMPLEMENTED, "a size without a hint");
  }
  for (int32_t d = 0; d < type->rank; d++)
    if (strides[d] < 0) tc_contiguous_strides(type->rank, sizes, strides);
  TC_TRY(tc_tensor_create_strided(t->c->allocator, type->dtype, type->rank, sizes, strides, &host));
  tc_tensor_fill_normal(&t->c->executor, &host, seed, 0, 1);
  tc_status s = tc_tensor_to_device(t->d, &host, out);
  tc_tensor_unref(&host);
  return s;
}

static void free_inputs(tuner *t) {
  for (int32_t i = 0; t->inputs && i < t->part.n_inputs; i++) tc_tensor_unref(&t->inputs[i]);
  t->inputs = NULL;
}

static tc_status make_inputs(tuner *t) {
  t->inputs = TC_NEW_ARRAY(t->m->arena, tc_tensor, t->part.n_inputs);
  for (int32_t i = 0; i < t->part.n_inputs; i++)
    TC_TRY(make_input(t, t->part.graph->inputs.data[i].value, (uint64_t)i + 1, &t->inputs[i]));
  return TC_OK;
}

// ---- Timing ----
static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

typedef struct timing {
  tuner *t;
  tc_exec *exec;
  tc_tensor *outputs;
  int32_t n_outputs;
} timing;

static tc_status run_once(timing *x, double *out_ms) {
  tuner *t = x->t;
  tc_run_options o = {.device_outputs = true};
  bool clock = t->watch.device;
  double start = tc_now_ms();
  if (clock) TC_TRY(tc_stopwatch_start(&t->watch, 0));
  TC_TRY(tc_exec_run_with(x->exec, t->inputs, x->outputs, &o));
  for (int32_t i = 0; i < x->n_outputs; i++) tc_tensor_unref(&x->outputs[i]);
  if (clock) {
    TC_TRY(tc_stopwatch_stop(&t->watch, 0));
    return tc_stopwatch_read(&t->watch, 0, out_ms);
  }
  TC_TRY(tc_device_wait(t->d));
  *out_ms = tc_now_ms() - start;
  return TC_OK;
}

// The first run does what is done once, the second warms up.
static tc_status time_runs(timing *x, double best, double *out_ms) {
  double ms[MOST_RUNS], once;
  int32_t n = 0, rounds = x->t->rounds < MOST_RUNS ? x->t->rounds : MOST_RUNS;
  TC_TRY(run_once(x, &once));
  TC_TRY(run_once(x, &once));
  *out_ms = once;
  if (best > 0 && once > HOPELESS * best) return TC_OK;
  while (n < rounds && (n < 2 || tc_now_ms() < x->t->end)) TC_TRY(run_once(x, &ms[n++]));
  qsort(ms, (size_t)n, sizeof *ms, by_value);
  *out_ms = ms[n / 2];
  return TC_OK;
}

typedef struct attempt {
  tuner *t;
  candidate *k;
  tc_compiled x;
} attempt;
static tc_status compile_candidate(void *arg) {
  attempt *a = arg;
  a->x = (tc_compiled){.graph = a->t->part.graph, .trial = &a->k->trial};
  return tc_compile_lowered(a->t->c, TC_STAGE_EXEC, true, &a->x);
}

static tc_status time_candidate(tuner *t, candidate *k) {
  attempt a = {.t = t, .k = k};
  tc_status s = tc_arena_guard(t->m->arena, compile_candidate, &a);
  timing x = {.t = t, .exec = a.x.exec, .n_outputs = t->part.graph->outputs.count};
  bool alone = t->n == 1 && !k->trial.calls && k->trial.n_configs <= 1; // nothing to choose from
  if (alone) k->ms = 0;
  x.outputs = tc_alloc(t->c->allocator, (size_t)(x.n_outputs + 1) * sizeof *x.outputs);
  if (s == TC_OK && !x.outputs) s = tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for outputs");
  if (s == TC_OK && !alone) s = time_runs(&x, t->best >= 0 ? t->list[t->best].ms : 0, &k->ms);
  for (int32_t i = 0; x.outputs && i < x.n_outputs; i++) tc_tensor_unref(&x.outputs[i]);
  tc_free(t->c->allocator, x.outputs);
  tc_compiled_free(&a.x);
  return s;
}

// Out of memory is the run's failure; anything else is the candidate's.
static tc_status try_one(tuner *t, const tc_device_calls *calls, int32_t variant, int32_t config) {
  if (t->n == MOST_CANDIDATES || (t->n && tc_now_ms() >= t->end)) return TC_OK;
  candidate *k = &t->list[t->n++];
  *k = (candidate){.trial = {.calls = calls, .variant = variant, .config = config}, .ms = -1};
  if (!calls) snprintf(k->name, sizeof k->name, "kernel, configuration %d", config);
  else if (!variant) snprintf(k->name, sizeof k->name, "%.*s", (int)calls->table->name.size, calls->table->name.data);
  else
    snprintf(k->name, sizeof k->name, "%.*s, way %d", (int)calls->table->name.size, calls->table->name.data, variant);
  tc_status s = time_candidate(t, k);
  if (tc_status_code(s) == TC_STATUS_OUT_OF_MEMORY) return s;
  if (s != TC_OK) {
    tc_log(&t->c->logger, TC_LOG_AUTOTUNING, "  %s is left out: %s", k->name, tc_status_text(s));
    tc_status_free(s);
    k->ms = -1;
    return TC_OK;
  }
  if (t->best < 0 || k->ms < t->list[t->best].ms * CLEARLY) t->best = t->n - 1;
  return TC_OK;
}

static tc_status try_all(tuner *t) {
  for (int32_t i = 0; i < t->d->n_calls; i++) {
    int32_t ways;
    if (!tc_exec_call_ways(t->d, &t->d->calls[i], t->node, &ways)) continue;
    for (int32_t k = 0; k <= ways; k++) TC_TRY(try_one(t, &t->d->calls[i], k, 0));
  }
  if (!t->d->codegen) return TC_OK;
  int32_t first = t->n;
  TC_TRY(try_one(t, NULL, 0, 0));
  int32_t configs = t->n > first ? t->list[first].trial.n_configs : 0;
  for (int32_t i = 1; i < configs; i++) TC_TRY(try_one(t, NULL, 0, i));
  return TC_OK;
}

// ---- A node ----
static void print_table(const tuner *t, const tc_node *n) {
  const tc_logger *lg = &t->c->logger;
  if (!tc_log_on(lg, TC_LOG_AUTOTUNING) || t->n < 2) return;
  tc_sb sb = tc_sb_make(t->m->arena);
  tc_sb_printf(&sb, "%%" TC_SV_FMT " = " TC_SV_FMT ", ", TC_SV_ARG(n->results[0]->name), TC_SV_ARG(n->op->full_name));
  tc_type_print(&sb, &n->results[0]->type);
  if (t->before) tc_sb_printf(&sb, ", with %d in front", t->before);
  if (t->behind) tc_sb_printf(&sb, ", with %d behind", t->behind);
  tc_log(lg, TC_LOG_AUTOTUNING, "%s", sb.text);
  for (int32_t i = 0; i < t->n; i++) {
    const candidate *k = &t->list[i];
    if (k->ms >= 0) tc_log(lg, TC_LOG_AUTOTUNING, "  %-40s %10.4f ms%s", k->name, k->ms, i == t->best ? "  <-" : "");
  }
}

static void keep_winner(tuner *t, const tc_node *n) {
  int32_t timed = 0;
  for (int32_t i = 0; i < t->n; i++) timed += t->list[i].ms >= 0;
  if (t->best < 0 || (timed < 2 && tc_now_ms() >= t->end)) return; // the budget ended before a comparison
  const candidate *w = &t->list[t->best];
  tc_tuned_keep(t->d, t->m->arena, n, w->trial.calls, w->trial.variant, w->ms * 1e6);
  if (!w->trial.calls) tc_tuned_keep_configs(t->d, &w->trial, w->ms * 1e6);
}

static tc_status tune_node(tuner *t, tc_graph *g, tc_node *n) {
  tc_node *nodes[MOST_LEADERS + MOST_FOLLOWERS + 1];
  t->before = with_leaders(t->m, n, nodes);
  t->behind = with_followers(n, nodes + t->before) - 1;
  tc_graph_extract(g, t->before + 1 + t->behind, nodes, false, &t->part);
  t->node = t->part.graph->first;
  for (int32_t i = 0; i < t->before && t->node->next; i++) t->node = t->node->next;
  t->list = TC_NEW_ARRAY(t->m->arena, candidate, MOST_CANDIDATES);
  t->n = 0, t->best = -1;
  tc_status s = make_inputs(t);
  if (s == TC_OK) s = try_all(t);
  free_inputs(t);
  if (s != TC_OK && tc_status_code(s) != TC_STATUS_OUT_OF_MEMORY) {
    tc_log(&t->c->logger, TC_LOG_AUTOTUNING, "%%" TC_SV_FMT " is not tuned: %s", TC_SV_ARG(n->results[0]->name),
           tc_status_text(s));
    tc_status_free(s);
    return TC_OK;
  }
  TC_TRY(s);
  print_table(t, n);
  keep_winner(t, n);
  return TC_OK;
}

static bool is_known(tuner *t, const tc_node *n) {
  const tc_device_calls *calls;
  int32_t variant;
  return tc_tuned_call(t->d, t->m->arena, n, &calls, &variant) != TC_TUNED_NOT;
}

// ---- A graph ----
typedef struct tuning_job {
  tuner *t;
  tc_graph *g;
} tuning_job;

static tc_status tune_all(void *arg) {
  const tuning_job *j = arg;
  tuner *t = j->t;
  int32_t count = 0, at = 0, left = 0;
  for (tc_node *n = j->g->first; n; n = n->next) count += is_worth_it(t->m, n) && !is_known(t, n);
  for (tc_node *n = j->g->first; n; n = n->next) {
    if (!is_worth_it(t->m, n) || is_known(t, n)) continue;
    if (tc_now_ms() >= t->end) {
      left++;
      continue;
    }
    tc_log(&t->c->logger, TC_LOG_AUTOTUNING, "%d of at most %d: %%" TC_SV_FMT, ++at, count,
           TC_SV_ARG(n->results[0]->name));
    TC_TRY(tune_node(t, j->g, n));
  }
  if (left)
    tc_log(&t->c->logger, TC_LOG_PERF_HINTS, "tune.budget_ms is spent: %d nodes were chosen by estimates", left);
  return TC_OK;
}

tc_status tc_tune_graph(tc_context *c, tc_graph *g) {
  tuner t = {.c = c, .d = c->device, .m = g->module};
  bool any = false;
  for (tc_node *n = g->first; n && !any; n = n->next) any = is_worth_it(t.m, n) && !is_known(&t, n);
  if (!any) return TC_OK;
  t.end = tc_now_ms() + (double)tc_config_int(c->config, TC_OPT_ID_TUNE_BUDGET);
  t.rounds = (int32_t)tc_config_int(c->config, TC_OPT_ID_TUNE_ROUNDS);
  tuning_job job = {&t, g};
  tc_status s = tc_stopwatch_open(t.d, &t.watch);
  if (s == TC_OK) s = tc_arena_guard(t.m->arena, tune_all, &job);
  free_inputs(&t); // of a node that ran out of memory
  tc_stopwatch_close(&t.watch);
  return s;
}
