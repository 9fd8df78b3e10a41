// Kernel or library call: what compilations ask before a node is lowered.
#include "core/runtime/exec_internal.h"

// What libraries are asked about a node of the graph; NULL if it is nothing for them.
static exec_question *question_of(tc_device *d, const tc_node *n) {
  tc_module *m = n->graph->module;
  if (d->n_calls == 0 || n->n_results < 1) return NULL;
  exec_question *q = TC_NEW(m->arena, exec_question);
  int32_t count = 0;
  for (int32_t i = 0; i < n->n_args; i++) {
    const tc_arg *g = &n->args[i];
    int32_t elements = g->kind == TC_AK_TENSOR ? 1 : g->kind == TC_AK_TENSORS ? g->n : 0;
    if (g->kind == TC_AK_GRAPH) return NULL;
    for (int32_t k = 0; k < elements; k++) {
      const tc_value *v = g->kind == TC_AK_TENSOR ? g->value : g->values[k];
      if (!v) continue;
      if (v->kind != TC_VALUE_TENSOR || count == EXEC_MOST_VIEWS - 2) return NULL;
      exec_fill_view(q, count++, m->syms, &v->type);
    }
  }
  if (count + n->n_results > EXEC_MOST_VIEWS) return NULL;
  for (int32_t i = 0; i < n->n_results; i++) {
    if (n->results[i]->kind != TC_VALUE_TENSOR) return NULL;
    exec_fill_view(q, count + i, m->syms, &n->results[i]->type);
  }
  tc_op_args *args = TC_NEW(m->arena, tc_op_args);
  tc_op_args_init(args, TC_MOMENT_LOWER, m, n->graph, n->op, n->n_args, n->args, n->source);
  exec_fill_node(q, n, args, count, n->n_results);
  return q;
}

// The library for a node of the graph, or NULL.
static const tc_device_calls *library_for(tc_device *d, const tc_node *n, bool preferred, int64_t *out_cost) {
  const exec_question *q = question_of(d, n);
  return q ? exec_cheapest(d, &q->node, preferred, out_cost) : NULL;
}

bool tc_exec_call_ways(tc_device *d, const tc_device_calls *c, const tc_node *n, int32_t *out_n) {
  const exec_question *q = question_of(d, n);
  int64_t cost;
  *out_n = 0;
  if (!q || !exec_ask(d, c, &q->node, &cost)) return false;
  int32_t ways = 0;
  if (c->table->variants(c->plugin->host, d->handle, &q->node, &ways) == TC_STATUS_OK && ways > 0) *out_n = ways;
  return true;
}

bool tc_exec_call_supported(void *choice, const tc_node *n) {
  tc_call_choice *c = choice;
  tc_arena *arena = n->graph->module->arena;
  const exec_question *q = question_of(c->device, n);
  c->refused = (tc_sv){0};
  if (!q) return false;
  exec_refusal(c->device, arena); // of other nodes
  if (exec_cheapest(c->device, &q->node, false, NULL)) return true;
  c->refused = exec_refusal(c->device, arena);
  return false;
}

// ---- Choosing ----
// Libraries are not asked about what takes less than a start and a preparation of theirs could be worth.
enum { ASK_NS = 50000 };

static int64_t bytes_of(tc_sym_ctx *c, const tc_value *v) {
  int64_t n = tc_dtype_size(v->type.dtype);
  for (int32_t d = 0; d < v->type.rank; d++) n *= tc_sym_hint_or(c, v->type.sizes[d], 256);
  return n;
}

// Nanoseconds of a kernel for the node, and of a trip of its result through memory; 0 where nothing is known. 16-bit
// floats are computed in single precision, at its rate (measured for convolutions).
static void kernel_cost(const tc_device *d, const tc_node *n, int64_t *out_kernel, int64_t *out_trip) {
  tc_module *m = n->graph->module;
  const tc_device_props *p = &d->props;
  *out_kernel = *out_trip = 0;
  if (!p->flops_per_ns || !p->bytes_per_ns || n->results[0]->kind != TC_VALUE_TENSOR) return;
  int64_t flops = tc_sym_hint_or(m->syms, tc_plan_node_flops(m->arena, m->syms, n), 0), bytes = 0;
  for (int32_t i = 0; i < n->n_args; i++)
    if (n->args[i].kind == TC_AK_TENSOR && n->args[i].value->kind == TC_VALUE_TENSOR)
      bytes += bytes_of(m->syms, n->args[i].value);
  int64_t result = bytes_of(m->syms, n->results[0]), rate = p->flops_per_ns;
  tc_dtype t = n->results[0]->type.dtype;
  if (p->pairs >> t & 1) rate *= 2;
  int64_t compute = flops / rate * (t == TC_F64 ? 2 : 1);
  int64_t traffic = (bytes + result) / p->bytes_per_ns;
  *out_kernel = flops ? (compute > traffic ? compute : traffic) : 0;
  *out_trip = 2 * result / p->bytes_per_ns;
}

static void note_tuned(const tc_call_choice *c, const tc_node *n, const tc_device_calls *calls, int32_t way) {
  if (!c->notes) return;
  tc_sb_printf(c->notes, "%%" TC_SV_FMT " = " TC_SV_FMT ": ", TC_SV_ARG(n->results[0]->name),
               TC_SV_ARG(n->op->full_name));
  if (calls) tc_sb_printf(c->notes, "a call (it was fastest): " TC_SV_FMT " %d\n", TC_SV_ARG(calls->table->name), way);
  else tc_sb_putz(c->notes, "a kernel (it was fastest)\n");
}

bool tc_exec_call_preferred(void *choice, const tc_node *n) {
  const tc_call_choice *c = choice;
  tc_device *d = c->device;
  const tc_device_calls *tuned = c->trial ? c->trial->calls : NULL;
  int32_t way = 0;
  if (c->trial) return tuned && n->n_results && tc_exec_call_ways(d, tuned, n, &way);
  bool any = false, always = c->policy == TC_CALLS_ALWAYS;
  int32_t known =
      d->tuned && n->n_results && !always ? d->tuned(d, n->graph->module->arena, n, &tuned, &way) : TC_TUNED_NOT;
  if (known == TC_TUNED_KERNEL || (known == TC_TUNED_CALL && tc_exec_call_ways(d, tuned, n, &(int32_t){0}))) {
    note_tuned(c, n, known == TC_TUNED_CALL ? tuned : NULL, way);
    return known == TC_TUNED_CALL;
  }
  int64_t call = 0, kernel, trip;
  if (n->n_results < 1) return false; // a condition on data, say
  for (int32_t i = 0; i < d->n_calls; i++) any |= d->calls[i].table->preferred != 0;
  kernel_cost(d, n, &kernel, &trip);
  const tc_device_calls *best = any ? library_for(d, n, true, &call) : NULL;
  if (!best && d->n_calls && (always || kernel >= ASK_NS)) best = library_for(d, n, false, &call);
  if (!best) return false;
  bool fuses = n->results[0]->n_uses == 1; // estimates are good to about a fifth
  bool take = always || best->table->preferred || call + (fuses ? trip : 0) < kernel - kernel / 5;
  if (c->notes) {
    const char *why = always ? "calls = always" : best->table->preferred ? "it is preferred" : "by the estimates";
    tc_sb_printf(c->notes, "%%" TC_SV_FMT " = " TC_SV_FMT ": %s (%s): " TC_SV_FMT " %.1f us%s, a kernel %.1f us\n",
                 TC_SV_ARG(n->results[0]->name), TC_SV_ARG(n->op->full_name), take ? "a call" : "a kernel", why,
                 TC_SV_ARG(best->table->name), (double)call / 1e3,
                 fuses ? " and a trip through memory for what could be fused" : "", (double)kernel / 1e3);
  }
  return take;
}
