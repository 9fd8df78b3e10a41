// dce: removes what nothing needs. Marks backwards from the outputs and from nodes with effects; a node also needs the
// nodes that its unbacked sizes come from.
#include "core/passes/passes.h"

typedef struct marker {
  tc_graph *g;
  tc_map *live;     // tc_node * → 1
  tc_map *definers; // number of an unbacked symbol → tc_node *
  TC_VEC(tc_node *) work;
} marker;

static void need_node(marker *m, tc_node *n) {
  bool fresh;
  if (!n || n->graph != m->g) return;
  tc_map_put_ptr(m->live, n, &fresh);
  if (fresh) tc_vec_push(m->g->module->arena, &m->work, n);
}

static void need_symbols(marker *m, const tc_sym *e) {
  if (e->kind == TC_SYM_SYMBOL) {
    const tc_map_entry *d = tc_map_find_int(m->definers, e->symbol);
    if (d) need_node(m, d->value.ptr);
  }
  for (int32_t i = 0; i < e->n; i++) need_symbols(m, e->kids[i]);
}

static void need_value(void *arg, tc_value **v) { need_node(arg, tc_value_resolve(*v)->def); }

static void need_arg_symbols(marker *m, const tc_arg *g) {
  if (g->kind == TC_AK_INT && g->sym) need_symbols(m, g->sym);
  for (int32_t i = 0; g->kind == TC_AK_INTS && i < g->n; i++) need_symbols(m, g->syms[i]);
}

static void add_definers(marker *m, tc_node *n) {
  tc_sym_ctx *c = m->g->module->syms;
  for (int32_t i = 0; i < n->n_results; i++) {
    const tc_value *v = n->results[i];
    int32_t count = v->kind == TC_VALUE_TENSOR ? v->type.rank : v->kind == TC_VALUE_SYM ? 1 : 0;
    for (int32_t d = 0; d < count; d++) {
      const tc_sym *e = v->kind == TC_VALUE_SYM ? v->symbol : v->type.sizes[d];
      bool fresh;
      if (e->kind != TC_SYM_SYMBOL || tc_sym_info_of(c, e)->origin != TC_SYM_UNBACKED) continue;
      tc_map_entry *entry = tc_map_put_int(m->definers, e->symbol, &fresh);
      if (fresh) entry->value.ptr = n;
    }
  }
}

// A region may read sizes of the graph around it.
static void need_region(marker *m, const tc_graph *g) {
  for (const tc_node *n = g->first; n; n = n->next)
    for (int32_t i = 0; i < n->n_args; i++) {
      need_arg_symbols(m, &n->args[i]);
      if (n->args[i].kind == TC_AK_GRAPH) need_region(m, n->args[i].graph);
    }
  for (int32_t i = 0; i < g->outputs.count; i++) need_arg_symbols(m, &g->outputs.data[i].arg);
}

static tc_status run(tc_graph *g, bool *out_progress) {
  tc_arena *arena = g->module->arena;
  marker m = {.g = g, .live = tc_map_create(arena), .definers = tc_map_create(arena)};
  *out_progress = false;
  for (tc_node *n = g->first; n; n = n->next) add_definers(&m, n);
  for (tc_node *n = g->first; n; n = n->next) {
    bool numbers = tc_node_draws(n) || n->op->def->traits & TC_OP_NONDETERMINISTIC,
         effect = n->op->def->traits & TC_OP_EFFECT;
    if (!n->dead && (effect || tc_node_writes(n) || (!numbers && !tc_node_pure(n)))) need_node(&m, n);
  }
  for (int32_t i = 0; i < g->outputs.count; i++) {
    if (g->outputs.data[i].arg.value) need_value(&m, &g->outputs.data[i].arg.value);
    need_arg_symbols(&m, &g->outputs.data[i].arg);
  }
  while (m.work.count) {
    tc_node *n = m.work.data[--m.work.count];
    tc_node_each_value(n, need_value, &m);
    for (int32_t i = 0; i < n->n_args; i++) {
      need_arg_symbols(&m, &n->args[i]);
      if (n->args[i].kind == TC_AK_GRAPH) need_region(&m, n->args[i].graph);
    }
  }
  for (tc_node *n = g->first; n; n = n->next) {
    if (n->dead || tc_map_find_ptr(m.live, n)) continue;
    tc_node_kill(n);
    *out_progress = true;
  }
  if (*out_progress) tc_graph_sweep(g);
  return TC_OK;
}

const tc_pass tc_pass_dce = {"dce", run};
