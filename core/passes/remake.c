// See remake.h.
#include "core/passes/remake.h"

#include "core/ir/control.h"
#include "core/ir/op.h"

static bool is_tensor(const tc_value *v) { return v && v->kind == TC_VALUE_TENSOR; }

void tc_remake_begin(tc_remake *r, tc_graph *g) { r->graph = g, r->was = tc_map_create(g->module->arena); }

// The operands of one node.
typedef struct rewrite {
  tc_remake *r;
  tc_node *n;
  bool back; // to the types that they had
  bool changed;
} rewrite;

static const tc_tensor_type *was(const tc_remake *r, const tc_value *v) {
  const tc_map_entry *e = tc_map_find_ptr(r->was, v);
  return e ? e->value.ptr : NULL;
}

static tc_status rewrite_value(rewrite *w, tc_value **v) {
  if (!is_tensor(*v)) return TC_OK;
  const tc_tensor_type *had = was(w->r, *v);
  if (w->back) return had ? w->r->restore(w->r, w->n, had, v) : TC_OK;
  const tc_value *old = *v;
  TC_TRY(w->r->read(w->r, w->n, v));
  w->changed = w->changed || had || *v != old;
  return TC_OK;
}

// Lists are copied.
static tc_status rewrite_args(rewrite *w, tc_arg *args) {
  tc_arena *arena = w->r->graph->module->arena;
  for (int32_t i = 0; i < w->n->n_args; i++) {
    tc_arg *a = &args[i];
    *a = w->n->args[i];
    if (a->kind == TC_AK_TENSOR) TC_TRY(rewrite_value(w, &a->value));
    if (a->kind != TC_AK_TENSORS) continue;
    a->values = tc_arena_copy(arena, a->values, sizeof(*a->values) * (size_t)a->n);
    for (int32_t k = 0; k < a->n; k++) TC_TRY(rewrite_value(w, &a->values[k]));
  }
  return TC_OK;
}

static void resolve_place(void *self, tc_value **v) {
  (void)self;
  *v = tc_value_resolve(*v);
}

static bool can_be_made_again(const tc_node *n) {
  if (tc_op_control(n->op) != TC_CONTROL_NONE || !tc_sv_is(n->op->schema.ns, "aten")) return false;
  for (int32_t i = 0; i < n->n_results; i++)
    if (n->results[i]->kind != TC_VALUE_TENSOR && n->results[i]->kind != TC_VALUE_NONE) return false;
  return !(n->op->def->traits & TC_OP_DATA_DEPENDENT);
}

static tc_status keep_types(rewrite *w) {
  w->back = true;
  tc_arg *args = TC_NEW_ARRAY(w->r->graph->module->arena, tc_arg, w->n->n_args);
  TC_TRY(rewrite_args(w, args));
  for (int32_t i = 0; i < w->n->n_args; i++) w->n->args[i] = args[i];
  return TC_OK;
}

static void take_place(const tc_remake *r, tc_node *n, tc_node *made) {
  made->stream = n->stream;
  for (int32_t i = 0; i < n->n_results; i++) {
    tc_value *old = n->results[i], *v = made->results[i];
    if (is_tensor(old) && is_tensor(v) && !tc_type_same(r->graph->module, &old->type, &v->type))
      tc_map_put_ptr(r->was, v, NULL)->value.ptr = &old->type;
    tc_graph_forward(old, v);
  }
  tc_node_kill(n);
}

tc_status tc_remake_node(tc_remake *r, tc_node *n) {
  rewrite w = {.r = r, .n = n};
  tc_node_each_value(n, resolve_place, NULL);
  if (!can_be_made_again(n)) return keep_types(&w);
  tc_arg *args = TC_NEW_ARRAY(r->graph->module->arena, tc_arg, n->n_args);
  tc_node *made;
  TC_TRY(rewrite_args(&w, args));
  if (!w.changed) return TC_OK;
  tc_status s = tc_graph_add_node(r->graph, n, n->op, n->n_args, args, n->name, n->source, &made);
  int32_t code = tc_status_code(s);
  if (code == TC_STATUS_INVALID_ARGUMENT || code == TC_STATUS_UNIMPLEMENTED) {
    tc_status_free(s);
    return keep_types(&w);
  }
  TC_TRY(s);
  take_place(r, n, made);
  return TC_OK;
}

tc_status tc_remake_end(tc_remake *r, bool (*fixed)(const tc_remake *r, const tc_graph_output *out)) {
  tc_graph *g = r->graph;
  for (int32_t i = 0; i < g->outputs.count; i++) {
    tc_graph_output *out = &g->outputs.data[i];
    if (out->arg.kind != TC_AK_TENSOR) continue;
    out->arg.value = tc_value_resolve(out->arg.value);
    const tc_tensor_type *had = was(r, out->arg.value);
    if (had && (!fixed || fixed(r, out))) TC_TRY(r->restore(r, NULL, had, &out->arg.value));
  }
  tc_graph_sweep(g);
  return TC_OK;
}
