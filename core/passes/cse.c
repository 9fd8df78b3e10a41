// cse: nodes of the same op on the same arguments become one (the first). Values are SSA, so equal arguments are equal
// pointers; symbolic ints are hash-consed. Ops that are random, have effects, make sizes from data, or run regions
// stay; a graph with in-place marks is left alone.
#include "core/passes/passes.h"

static void put(tc_sb *key, const void *data, size_t size) { tc_sb_put(key, (tc_sv){data, size}); }
#define PUT(key, x) put((key), &(x), sizeof(x))

static void put_text(tc_sb *key, tc_sv s) {
  PUT(key, s.size);
  tc_sb_put(key, s);
}

static void put_arg(tc_sb *key, const tc_arg *g) {
  PUT(key, g->kind);
  PUT(key, g->n);
  tc_value *v = tc_value_resolve(g->value);
  PUT(key, v);
  switch (g->kind) {
  case TC_AK_TENSORS:
    for (int32_t i = 0; i < g->n; i++) v = tc_value_resolve(g->values[i]), PUT(key, v);
    break;
  case TC_AK_INT: PUT(key, g->sym); break;
  case TC_AK_INTS: put(key, g->syms, sizeof *g->syms * (size_t)g->n); break;
  case TC_AK_FLOAT:
  case TC_AK_COMPLEX: PUT(key, g->real), PUT(key, g->imag); break;
  case TC_AK_FLOATS: put(key, g->reals, sizeof *g->reals * (size_t)g->n); break;
  case TC_AK_BOOLS: put(key, g->bools, (size_t)g->n); break;
  case TC_AK_STRING:
  case TC_AK_DEVICE: put_text(key, g->text); break;
  case TC_AK_STRINGS:
    for (int32_t i = 0; i < g->n; i++) put_text(key, g->texts[i]);
    break;
  default: PUT(key, g->integer);
  }
}

static bool may_merge(const tc_node *n) {
  if (!tc_node_pure(n) || (n->op->def->traits & TC_OP_DATA_DEPENDENT)) return false;
  for (int32_t i = 0; i < n->n_args; i++)
    if (n->args[i].kind == TC_AK_GRAPH) return false;
  return n->n_results > 0;
}

static tc_status run(tc_graph *g, bool *out_progress) {
  tc_map *seen = tc_map_create(g->module->arena);
  tc_sb key = tc_sb_make(g->module->arena);
  *out_progress = false;
  for (tc_node *n = g->first; n; n = n->next)
    if (n->inplace >= 0) return TC_OK;
  for (tc_node *n = g->first; n; n = n->next) {
    if (n->dead || !may_merge(n)) continue;
    key.size = 0;
    PUT(&key, n->op);
    for (int32_t i = 0; i < n->n_args; i++) put_arg(&key, &n->args[i]);
    bool fresh;
    tc_map_entry *e = tc_map_put(seen, tc_sb_view(&key), &fresh);
    if (fresh) {
      e->value.ptr = n;
      continue;
    }
    const tc_node *first = e->value.ptr;
    for (int32_t i = 0; i < n->n_results; i++) tc_graph_forward(n->results[i], first->results[i]);
    tc_node_kill(n);
    *out_progress = true;
  }
  if (*out_progress) tc_graph_sweep(g);
  return TC_OK;
}

const tc_pass tc_pass_cse = {"cse", run};
