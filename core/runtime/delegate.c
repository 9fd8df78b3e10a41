// Delegates: showing graphs to plugins, and running what they made.
#include "core/runtime/delegate.h"

#include <string.h>

#include "core/ir/opargs.h"
#include "core/passes/passes.h"

// ---- Showing a graph ----
typedef struct shown {
  tc_delegate_graph graph;
  tc_delegate_node *nodes;
  tc_node **node_of; // by number
} shown;

static void show_value(tc_arena *arena, tc_sym_ctx *c, const tc_value *v, tc_view *out) {
  const tc_tensor_type *t = &v->type;
  *out = (tc_view){0};
  if (v->kind != TC_VALUE_TENSOR) return;
  int64_t *sizes = TC_NEW_ARRAY(arena, int64_t, t->rank), *strides = TC_NEW_ARRAY(arena, int64_t, t->rank);
  for (int32_t d = 0; d < t->rank; d++) {
    sizes[d] = tc_sym_is_const(t->sizes[d]) ? t->sizes[d]->value : INT64_MIN;
    strides[d] = t->strides && tc_sym_is_const(t->strides[d]) ? t->strides[d]->value : INT64_MIN;
  }
  (void)c;
  *out = (tc_view){.dtype = t->dtype, .rank = t->rank, .sizes = sizes, .strides = strides};
}

static void show_node(tc_arena *arena, tc_node *n, tc_view *values, tc_delegate_node *out) {
  TC_VEC(int32_t) read = {0};
  for (int32_t i = 0; i < n->n_args; i++) {
    const tc_arg *a = &n->args[i];
    if (a->kind == TC_AK_TENSOR && a->value && a->value->kind == TC_VALUE_TENSOR)
      tc_vec_push(arena, &read, a->value->id);
    for (int32_t k = 0; a->kind == TC_AK_TENSORS && k < a->n; k++) {
      if (a->values[k]) tc_vec_push(arena, &read, a->values[k]->id);
    }
  }
  int32_t *results = TC_NEW_ARRAY(arena, int32_t, n->n_results);
  for (int32_t i = 0; i < n->n_results; i++) {
    bool tensor = n->results[i]->kind == TC_VALUE_TENSOR;
    results[i] = tensor ? n->results[i]->id : -1;
    if (tensor) show_value(arena, n->graph->module->syms, n->results[i], &values[results[i]]);
  }
  tc_op_args *args = TC_NEW(arena, tc_op_args);
  tc_op_args_init(args, TC_MOMENT_LOWER, n->graph->module, n->graph, n->op, n->n_args, n->args, n->source);
  *out = (tc_delegate_node){.struct_size = sizeof *out,
                            .op = n->op->full_name,
                            .args = args,
                            .operands = read.data,
                            .results = results,
                            .n_operands = read.count,
                            .n_results = n->n_results};
}

static void show(tc_graph *g, shown *s) {
  tc_arena *arena = g->module->arena;
  tc_view *values = TC_NEW_ARRAY(arena, tc_view, g->n_values);
  int32_t n = 0;
  for (tc_node *k = g->first; k; k = k->next) n++;
  s->nodes = TC_NEW_ARRAY(arena, tc_delegate_node, n);
  s->node_of = TC_NEW_ARRAY(arena, tc_node *, n);
  for (int32_t i = 0; i < g->inputs.count; i++) {
    tc_value *v = g->inputs.data[i].value;
    if (v) show_value(arena, g->module->syms, v, &values[v->id]);
  }
  n = 0;
  for (tc_node *k = g->first; k; k = k->next, n++) {
    show_node(arena, k, values, &s->nodes[n]);
    s->node_of[n] = k;
  }
  s->graph = (tc_delegate_graph){
      .struct_size = sizeof s->graph, .nodes = s->nodes, .values = values, .n_nodes = n, .n_values = g->n_values};
}

// ---- Claims ----
// What a part may be made of: tensors in and out, no regions, nothing that is written in place or drawn at random.
static bool may_be_claimed(const tc_node *n) {
  if (!tc_node_pure(n)) return false;
  for (int32_t i = 0; i < n->n_args; i++) {
    const tc_arg *a = &n->args[i];
    if (a->kind == TC_AK_GRAPH || (a->value && a->value->kind != TC_VALUE_TENSOR)) return false;
    if (a->value && (a->value->type.conj || a->value->kind != TC_VALUE_TENSOR)) return false;
  }
  for (int32_t i = 0; i < n->n_results; i++)
    if (n->results[i]->kind != TC_VALUE_TENSOR || n->results[i]->type.conj) return false;
  return n->n_results > 0;
}

typedef TC_VEC(tc_delegate_part) part_list;

static tc_status ask(const tc_plugin *p, const shown *s, tc_delegation *out, part_list *parts) {
  tc_arena *arena = s->node_of[0]->graph->module->arena;
  int32_t *answer = TC_NEW_ARRAY(arena, int32_t, s->graph.n_nodes), first = parts->count;
  for (int32_t i = 0; i < s->graph.n_nodes; i++) answer[i] = -1;
  TC_TRY(tc_plugin_status(p, p->delegate->claim(p->host, &s->graph, answer), "while asking the delegate " TC_SV_FMT,
                          TC_SV_ARG(p->name)));
  for (int32_t i = 0; i < s->graph.n_nodes; i++) {
    const tc_node *n = s->node_of[i];
    if (answer[i] < 0 || out->of[n->id] >= 0 || !may_be_claimed(n)) continue;
    int32_t k = first;
    while (k < parts->count && parts->data[k].number != answer[i]) k++;
    if (k == parts->count) tc_vec_push(arena, parts, ((tc_delegate_part){p, answer[i]}));
    out->of[n->id] = k;
  }
  return TC_OK;
}

static tc_status find(tc_context *c, tc_arena *arena, tc_sv name, const tc_plugin **out) {
  tc_plugin **list;
  int32_t n;
  TC_TRY(tc_plugins_find_all(c->plugins, arena, TC_CAP_DELEGATE, TC_SV(""), &list, &n));
  for (int32_t i = 0; i < n; i++) {
    if (!tc_sv_eq(list[i]->name, name)) continue;
    *out = list[i];
    return TC_OK;
  }
  tc_plugin *all;
  TC_TRY(tc_plugins_list(c->plugins, arena, &all, &n));
  for (int32_t i = 0; i < n; i++) {
    if (tc_sv_eq(all[i].name, name) && all[i].state == TC_PLUGIN_REFUSED)
      return tc_error(TC_STATUS_PLUGIN, "the delegate '" TC_SV_FMT "' was refused: " TC_SV_FMT, TC_SV_ARG(name),
                      TC_SV_ARG(all[i].reason));
  }
  return tc_error(TC_STATUS_NOT_FOUND, "delegates: no plugin '" TC_SV_FMT "' with the capability 'delegate'",
                  TC_SV_ARG(name));
}

tc_status tc_delegates_claim(tc_context *c, tc_graph *g, tc_delegation *out) {
  tc_arena *arena = g->module->arena;
  tc_sv names = tc_config_text(c->config, TC_OPT_ID_DELEGATES), name;
  shown s = {0};
  part_list parts = {0};
  *out = (tc_delegation){0};
  if (!names.size || !g->first) return TC_OK;
  show(g, &s);
  out->of = TC_NEW_ARRAY(arena, int32_t, g->n_nodes);
  for (int32_t i = 0; i < g->n_nodes; i++) out->of[i] = -1;
  while (names.size) {
    const tc_plugin *p;
    names = tc_sv_cut(names, ',', &name);
    TC_TRY(find(c, arena, tc_sv_trim(name), &p));
    TC_TRY(ask(p, &s, out, &parts));
  }
  out->parts = parts.data, out->n_parts = parts.count;
  return TC_OK;
}

// ---- Parts ----
struct tc_delegated {
  const tc_allocator *allocator;
  const tc_plugin *plugin;
  void *compiled;
  pthread_mutex_t lock; // of delegates that are not thread-safe
};

tc_status tc_delegate_compile(const tc_plugin *p, tc_graph *g, const tc_allocator *a, tc_delegated **out) {
  tc_arena *arena = g->module->arena;
  shown s = {0};
  show(g, &s);
  int32_t *inputs = TC_NEW_ARRAY(arena, int32_t, g->inputs.count),
          *outputs = TC_NEW_ARRAY(arena, int32_t, g->outputs.count);
  for (int32_t i = 0; i < g->inputs.count; i++) inputs[i] = g->inputs.data[i].value->id;
  for (int32_t i = 0; i < g->outputs.count; i++) outputs[i] = g->outputs.data[i].arg.value->id;
  s.graph.inputs = inputs, s.graph.n_inputs = g->inputs.count;
  s.graph.outputs = outputs, s.graph.n_outputs = g->outputs.count;
  tc_delegated *d = tc_alloc(a, sizeof *d);
  if (!d) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for a delegate");
  *d = (tc_delegated){.allocator = a, .plugin = p};
  tc_status status = tc_plugin_status(p, p->delegate->compile(p->host, &s.graph, &d->compiled),
                                      "while the delegate " TC_SV_FMT " compiled what it claimed", TC_SV_ARG(p->name));
  if (status != TC_OK) {
    tc_free(a, d);
    return status;
  }
  pthread_mutex_init(&d->lock, NULL);
  *out = d;
  return TC_OK;
}

void tc_delegate_destroy(tc_delegated *d) {
  if (!d) return;
  d->plugin->delegate->destroy(d->compiled);
  pthread_mutex_destroy(&d->lock);
  tc_free(d->allocator, d);
}

static tc_view view_of(const tc_tensor *t) {
  return (tc_view){.dtype = t->dtype,
                   .rank = t->rank,
                   .sizes = t->sizes,
                   .strides = t->strides,
                   .memory = (tc_handle)(uintptr_t)tc_tensor_data(t)};
}

tc_status tc_delegate_run(tc_delegated *d, int32_t n_inputs, const tc_tensor *inputs, int32_t n_outputs,
                          const tc_tensor *outputs) {
  tc_view *views = tc_alloc(d->allocator, (size_t)(n_inputs + n_outputs + 1) * sizeof *views);
  if (!views) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for a run");
  for (int32_t i = 0; i < n_inputs; i++) views[i] = view_of(&inputs[i]);
  for (int32_t i = 0; i < n_outputs; i++) views[n_inputs + i] = view_of(&outputs[i]);
  bool alone = !d->plugin->delegate->thread_safe;
  if (alone) pthread_mutex_lock(&d->lock);
  int32_t code = d->plugin->delegate->run(d->compiled, views, views + n_inputs);
  if (alone) pthread_mutex_unlock(&d->lock);
  tc_free(d->allocator, views);
  return tc_plugin_status(d->plugin, code, "while the delegate " TC_SV_FMT " ran", TC_SV_ARG(d->plugin->name));
}
