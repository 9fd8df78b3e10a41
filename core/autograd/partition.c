// Partition of joint graphs: a minimum cut over saved bytes, or a knapsack under a budget.
//
// Each value of the forward part is an edge "in → out" as wide as its bytes; what may not be computed again hangs on
// the source, and what the backward reads on the sink; between an operand's out and a result's in the edge is
// infinitely wide, for computing the result needs the operand. A minimum cut (Dinic 1970) then is the cheapest set of
// values from which the backward can compute the rest. Source of the idea: "Transcending runtime-memory tradeoffs in
// checkpointing by being fusion aware" (He and Yu, MLSys 2023).
#include "core/autograd/partition.h"

#include "core/passes/passes.h"

enum { BUCKETS = 1000, DEAR = 32 /* operations per element of what is no pointwise op */ };
#define INFINITE (INT64_C(1) << 60)

typedef struct cut {
  const tc_joint *j;
  tc_module *m;
  int32_t n;
  tc_value **values; // by id
  bool *late;        // depends on a cotangent
  bool *needed;      // read by the backward
  bool *saved;
  int64_t *bytes;
} cut;

// ---- values and what may be done with them ----
static tc_value **values_of(tc_graph *g) {
  tc_value **v = TC_NEW_ARRAY(g->module->arena, tc_value *, g->n_values + 1);
  for (int32_t i = 0; i < g->inputs.count; i++)
    if (g->inputs.data[i].value) v[g->inputs.data[i].value->id] = g->inputs.data[i].value;
  for (tc_node *n = g->first; n; n = n->next)
    for (int32_t i = 0; i < n->n_results; i++) v[n->results[i]->id] = n->results[i];
  return v;
}

static bool is_fixed(const tc_node *n) { // never a second time
  return tc_node_draws(n) || (n->op->def->traits & (TC_OP_NONDETERMINISTIC | TC_OP_EFFECT)) != 0;
}

static bool is_cheap(const tc_node *n) {
  uint64_t traits = n->op->def->traits;
  if (is_fixed(n)) return false;
  if (traits & (TC_OP_POINTWISE | TC_OP_VIEW | TC_OP_MAYBE_VIEW)) return true;
  tc_sv name = n->op->schema.name;
  static const char *const copies[] = {"clone", "_to_copy", "contiguous", "expand", "_row_major", "where", "copy"};
  for (size_t i = 0; i < sizeof copies / sizeof *copies; i++)
    if (tc_sv_is(name, copies[i])) return true;
  if (tc_sv_ends(name, "s_like") || tc_sv_starts(name, "new_") || tc_sv_is(name, "full_like")) return true; // of sizes
  for (int32_t i = 0; i < n->n_args; i++)
    if (n->args[i].kind == TC_AK_TENSOR || n->args[i].kind == TC_AK_TENSORS || n->args[i].kind == TC_AK_GRAPH)
      return false;
  return true; // a constant
}

static bool is_view(const tc_value *v) { return v->def && v->view_arg >= 0; }
static bool is_tensor(const tc_value *v) { return v && v->kind == TC_VALUE_TENSOR; }

static int64_t bytes_of(tc_module *m, const tc_value *v) {
  return tc_sym_hint_or(m->syms, tc_type_numel(m, &v->type), 1) * tc_dtype_size(v->type.dtype);
}

typedef struct seen {
  const cut *c;
  bool late;
} seen;
static void look(void *arg, tc_value **v) {
  seen *s = arg;
  s->late |= s->c->late[(*v)->id];
}

static bool is_late(const cut *c, tc_node *n) {
  seen s = {c, false};
  tc_node_each_value(n, look, &s);
  return s.late;
}

static void note_need(void *arg, tc_value **v) {
  cut *c = arg;
  if (is_tensor(*v) && !c->late[(*v)->id]) c->needed[(*v)->id] = true;
}

static tc_status classify(cut *c) {
  tc_graph *g = c->j->graph;
  for (tc_node *n = g->first; n; n = n->next) {
    bool late = is_late(c, n), number = n->n_results == 1 && n->results[0]->kind == TC_VALUE_SYM;
    if (n->op->def->traits & TC_OP_DATA_DEPENDENT && (late || !number))
      return tc_error(TC_STATUS_UNIMPLEMENTED, "the sizes of " TC_SV_FMT " come from data: the graph is not cut in two",
                      TC_SV_ARG(n->op->full_name));
    for (int32_t i = 0; i < n->n_results; i++) c->late[n->results[i]->id] = late;
    if (late || number)
      tc_node_each_value(n, note_need, c); // a number is read by both: sizes of either may be made of it
  }
  return TC_OK;
}

static bool is_gradient(const tc_joint *j, int32_t output, int32_t n_inputs) {
  for (int32_t i = 0; i < n_inputs; i++)
    if (j->gradients[i] == output) return true;
  return false;
}

// ---- maximum flow ----
typedef struct edge {
  int32_t to, next;
  int64_t room;
} edge;

typedef struct network {
  tc_arena *arena;
  int32_t n, *first, *level, *at;
  TC_VEC(edge) edges; // i and i ^ 1 are each other's way back
} network;

static void connect(network *w, int32_t from, int32_t to, int64_t room) {
  edge there = {to, w->first[from], room}, back = {from, w->first[to], 0};
  w->first[from] = w->edges.count;
  tc_vec_push(w->arena, &w->edges, there);
  w->first[to] = w->edges.count;
  tc_vec_push(w->arena, &w->edges, back);
}

static bool find_levels(network *w, int32_t source, int32_t sink) {
  int32_t *queue = w->at, head = 0, tail = 0;
  for (int32_t i = 0; i < w->n; i++) w->level[i] = -1;
  w->level[source] = 0, queue[tail++] = source;
  while (head < tail) {
    int32_t v = queue[head++];
    for (int32_t e = w->first[v]; e >= 0; e = w->edges.data[e].next) {
      int32_t to = w->edges.data[e].to;
      if (w->edges.data[e].room > 0 && w->level[to] < 0) w->level[to] = w->level[v] + 1, queue[tail++] = to;
    }
  }
  return w->level[sink] >= 0;
}

// One path from source to sink along the levels; its edges in `path`. 0 if there is none.
static int64_t push_path(network *w, int32_t source, int32_t sink, int32_t *path) {
  int32_t depth = 0, v = source;
  while (v != sink) {
    int32_t e = w->at[v];
    while (e >= 0 && !(w->edges.data[e].room > 0 && w->level[w->edges.data[e].to] == w->level[v] + 1))
      e = w->edges.data[e].next;
    w->at[v] = e;
    if (e >= 0) {
      path[depth++] = e, v = w->edges.data[e].to;
      continue;
    }
    if (depth == 0) return 0;
    v = w->edges.data[path[--depth] ^ 1].to; // a dead end
    w->at[v] = w->edges.data[w->at[v]].next;
  }
  int64_t room = INFINITE;
  for (int32_t i = 0; i < depth; i++)
    if (w->edges.data[path[i]].room < room) room = w->edges.data[path[i]].room;
  for (int32_t i = 0; i < depth; i++) w->edges.data[path[i]].room -= room, w->edges.data[path[i] ^ 1].room += room;
  return room;
}

static void fill_up(network *w, int32_t source, int32_t sink) {
  int32_t *path = TC_NEW_ARRAY(w->arena, int32_t, w->n + 1);
  while (find_levels(w, source, sink)) {
    for (int32_t i = 0; i < w->n; i++) w->at[i] = w->first[i];
    while (push_path(w, source, sink, path) > 0) {}
  }
}

typedef struct operand {
  network *w;
  int32_t in;
} operand;
static void connect_operand(void *arg, tc_value **v) {
  operand *o = arg;
  connect(o->w, 2 * (*v)->id + 1, o->in, INFINITE);
}

static void minimum_cut(cut *c) {
  int32_t source = 2 * c->n, sink = source + 1;
  network w = {.arena = c->m->arena, .n = 2 * c->n + 2};
  w.first = TC_NEW_ARRAY(w.arena, int32_t, w.n);
  w.level = TC_NEW_ARRAY(w.arena, int32_t, w.n);
  w.at = TC_NEW_ARRAY(w.arena, int32_t, w.n);
  for (int32_t i = 0; i < w.n; i++) w.first[i] = -1;
  for (int32_t i = 0; i < c->n; i++) {
    tc_value *v = c->values[i];
    if (!v || c->late[i]) continue;
    bool free = !v->def || !is_tensor(v); // inputs are there; numbers are made again
    connect(&w, 2 * i, 2 * i + 1, free ? 0 : is_view(v) ? INFINITE : c->bytes[i]);
    if (c->needed[i]) connect(&w, 2 * i + 1, sink, INFINITE);
    if (!v->def || free) continue;
    if (!is_cheap(v->def)) connect(&w, source, 2 * i, INFINITE);
    else tc_node_each_value(v->def, connect_operand, &(operand){&w, 2 * i});
  }
  fill_up(&w, source, sink);
  find_levels(&w, source, sink);
  for (int32_t i = 0; i < c->n; i++)
    c->saved[i] = c->values[i] && c->values[i]->def && is_tensor(c->values[i]) && !c->late[i] && w.level[2 * i] >= 0 &&
                  w.level[2 * i + 1] < 0;
}

// ---- closing: what the backward needs can be computed ----
static void save_needed(cut *c, tc_value *v, bool *visited);
typedef struct closing {
  cut *c;
  bool *visited;
} closing;
static void close_operand(void *arg, tc_value **v) {
  closing *x = arg;
  save_needed(x->c, *v, x->visited);
}

// Saves what is computed on the way to v and must not be computed again.
static void save_needed(cut *c, tc_value *v, bool *visited) {
  if (visited[v->id] || c->saved[v->id] || !v->def) return;
  visited[v->id] = true;
  if (is_fixed(v->def) && is_tensor(v)) {
    c->saved[v->id] = true;
    return;
  }
  closing x = {c, visited};
  tc_node_each_value(v->def, close_operand, &x);
}

static void close_all(cut *c) {
  bool *visited = TC_NEW_ARRAY(c->m->arena, bool, c->n + 1);
  for (int32_t i = 0; i < c->n; i++)
    if (c->needed[i]) save_needed(c, c->values[i], visited);
}

// ---- budget ----
// What computing v again takes, down to what is saved: elements, times DEAR for what is no pointwise op.
typedef struct costing {
  const cut *c;
  bool *visited;
  int64_t cost;
} costing;
static void add_cost(void *arg, tc_value **v) {
  costing *x = arg;
  tc_node *n = (*v)->def;
  if (!n || x->visited[(*v)->id] || x->c->saved[(*v)->id]) return;
  x->visited[(*v)->id] = true;
  if (is_tensor(*v))
    x->cost += tc_sym_hint_or(x->c->m->syms, tc_type_numel(x->c->m, &(*v)->type), 1) * (is_cheap(n) ? 1 : DEAR);
  tc_node_each_value(n, add_cost, x);
}

static int64_t cost_of(const cut *c, tc_value *v) {
  costing x = {c, TC_NEW_ARRAY(c->m->arena, bool, c->n + 1), 0};
  c->saved[v->id] = false;
  tc_value *start = v;
  add_cost(&x, &start);
  c->saved[v->id] = true;
  return x.cost;
}

// Of the saved values that may be computed again those are kept whose costs are the most for a part of all bytes: a
// knapsack by dynamic programming over BUCKETS steps of bytes.
static void keep_budget(cut *c, double budget) {
  tc_arena *arena = c->m->arena;
  int64_t all = 0;
  int32_t n = 0, *item = TC_NEW_ARRAY(arena, int32_t, c->n + 1);
  for (int32_t i = 0; i < c->n; i++) {
    if (!c->saved[i]) continue;
    all += c->bytes[i];
    if (!is_fixed(c->values[i]->def)) item[n++] = i;
  }
  int64_t room = (int64_t)(budget * (double)all), step = room / BUCKETS + 1;
  for (int32_t i = 0; i < c->n; i++)
    if (c->saved[i] && is_fixed(c->values[i]->def)) room -= c->bytes[i];
  int32_t top = room > 0 ? (int32_t)(room / step) : 0;
  int64_t *best = TC_NEW_ARRAY(arena, int64_t, top + 1), *cost = TC_NEW_ARRAY(arena, int64_t, n + 1);
  uint8_t *takes = TC_NEW_ARRAY(arena, uint8_t, (size_t)(n + 1) * (size_t)(top + 1));
  for (int32_t k = 0; k < n; k++) cost[k] = cost_of(c, c->values[item[k]]);
  for (int32_t k = 0; k < n; k++) {
    int64_t weight = (c->bytes[item[k]] + step - 1) / step; // rounded up: the budget holds
    for (int32_t r = top; r >= weight; r--) {
      if (best[r - weight] + cost[k] <= best[r]) continue;
      best[r] = best[r - weight] + cost[k];
      takes[(size_t)k * (size_t)(top + 1) + (size_t)r] = 1;
    }
  }
  int32_t r = top;
  for (int32_t k = n - 1; k >= 0; k--) {
    c->saved[item[k]] = takes[(size_t)k * (size_t)(top + 1) + (size_t)r];
    if (c->saved[item[k]]) r -= (int32_t)((c->bytes[item[k]] + step - 1) / step);
  }
}

// ---- the two graphs ----
static void drop_inputs(tc_graph *g, const bool *keep) {
  int32_t n = 0;
  for (int32_t i = 0; i < g->inputs.count; i++) {
    if (!keep[i]) continue;
    if (g->inputs.data[i].value) g->inputs.data[i].value->def_index = n;
    g->inputs.data[n++] = g->inputs.data[i];
  }
  g->inputs.count = n;
}

// Is some symbol that is used a size of v, as it stands, and of nothing that is kept? Notes v's as known.
static bool binds(const tc_value *v, const uint8_t *used, uint8_t *known) {
  bool any = false;
  for (int32_t d = 0; v && v->kind == TC_VALUE_TENSOR && d < v->type.rank; d++) {
    const tc_sym *e = v->type.sizes[d];
    if (e->kind != TC_SYM_SYMBOL || known[e->symbol]) continue;
    any |= used[e->symbol];
    known[e->symbol] = 1;
  }
  return any;
}

int32_t tc_autograd_drop_unread(tc_graph *g, int32_t n_droppable, int32_t **out_kept) {
  tc_arena *arena = g->module->arena;
  int32_t n = g->inputs.count, n_symbols = tc_sym_symbol_count(g->module->syms), k = 0;
  bool *keep = TC_NEW_ARRAY(arena, bool, n + 1);
  uint8_t *used = TC_NEW_ARRAY(arena, uint8_t, n_symbols + 1), *known = TC_NEW_ARRAY(arena, uint8_t, n_symbols + 1);
  *out_kept = TC_NEW_ARRAY(arena, int32_t, n + 1);
  tc_graph_mark(used, g);
  for (int32_t i = 0; i < n; i++) {
    const tc_value *v = g->inputs.data[i].value;
    keep[i] = i >= n_droppable || (v && (v->n_uses > 0 || v->kind != TC_VALUE_TENSOR));
    if (keep[i]) binds(v, used, known);
  }
  for (int32_t i = 0; i < n; i++) keep[i] = keep[i] || binds(g->inputs.data[i].value, used, known);
  for (int32_t i = 0; i < n; i++)
    if (keep[i]) (*out_kept)[k++] = i;
  drop_inputs(g, keep);
  tc_graph_sweep(g);
  return k;
}

static tc_status make_forward(const cut *c, int32_t n_inputs, tc_partition *out) {
  tc_graph *g =
      tc_graph_clone(c->j->graph, tc_sv_printf(c->m->arena, TC_SV_FMT ".forward", TC_SV_ARG(c->j->graph->name)));
  tc_value **values = values_of(g);
  bool progress, *keep = TC_NEW_ARRAY(c->m->arena, bool, g->inputs.count + 1);
  int32_t n = 0, k = 0;
  for (int32_t i = 0; i < g->outputs.count; i++)
    if (!is_gradient(c->j, i, n_inputs)) g->outputs.data[n++] = g->outputs.data[i];
  g->outputs.count = n;
  for (int32_t i = 0; i < n; i++) out->n_user_outputs += g->outputs.data[i].kind == TC_OUT_USER;
  for (int32_t i = 0; i < c->n; i++)
    if (c->saved[i])
      tc_graph_add_output(g, TC_OUT_USER, tc_arg_tensor(values[i]), tc_sv_printf(c->m->arena, "saved.%d", k++));
  for (int32_t i = 0; i < n_inputs; i++) keep[i] = true;
  TC_TRY(tc_pass_dce.run(g, &progress));
  tc_graph_sweep(g);
  drop_inputs(g, keep);
  tc_graph_sweep(g);
  out->forward = g, out->n_saved = k;
  return TC_OK;
}

static tc_status make_backward(const cut *c, int32_t n_inputs, tc_partition *out) {
  tc_arena *arena = c->m->arena;
  tc_graph *g = tc_graph_clone(c->j->graph, tc_sv_printf(arena, TC_SV_FMT ".backward", TC_SV_ARG(c->j->graph->name)));
  tc_value **values = values_of(g);
  int32_t n = 0, k = 0, n_joint = g->inputs.count;
  for (int32_t i = 0; i < g->outputs.count; i++)
    if (is_gradient(c->j, i, n_inputs)) g->outputs.data[n++] = g->outputs.data[i];
  g->outputs.count = n;
  for (int32_t i = 0; i < c->n; i++) {
    if (!c->saved[i]) continue;
    tc_tensor_type t = values[i]->type;
    tc_sv name = tc_sv_printf(arena, "saved_%d", k++);
    t.offset = tc_sym_int(c->m->syms, 0);
    tc_graph_forward(values[i], tc_graph_add_input(g, TC_IN_USER, name, name, &t));
  }
  tc_graph_sweep(g);
  bool progress;
  TC_TRY(tc_pass_dce.run(g, &progress));
  tc_graph_sweep(g);
  out->n_sources = tc_autograd_drop_unread(g, n_inputs, &out->sources);
  for (int32_t i = 0; i < out->n_sources; i++)
    if (out->sources[i] >= n_joint) out->sources[i] = n_joint - 1 - out->sources[i];
  out->backward = g;
  return TC_OK;
}

static int32_t count_nodes(const tc_graph *g) {
  int32_t n = 0;
  for (const tc_node *k = g->first; k; k = k->next) n += !k->dead;
  return n;
}

tc_status tc_autograd_partition(const tc_joint *j, const tc_partition_options *o, tc_partition *out) {
  tc_graph *g = j->graph;
  *out = (tc_partition){0};
  if (j->n_cotangents == 0) return tc_error(TC_STATUS_INVALID_ARGUMENT, "a joint graph without cotangents is not cut");
  tc_graph_sweep(g);
  cut c = {.j = j, .m = g->module, .n = g->n_values};
  tc_arena *arena = g->module->arena;
  c.values = values_of(g);
  c.late = TC_NEW_ARRAY(arena, bool, c.n + 1);
  c.needed = TC_NEW_ARRAY(arena, bool, c.n + 1);
  c.saved = TC_NEW_ARRAY(arena, bool, c.n + 1);
  c.bytes = TC_NEW_ARRAY(arena, int64_t, c.n + 1);
  int32_t n_inputs = g->inputs.count - j->n_cotangents; // cotangents come last
  for (int32_t i = n_inputs; i < g->inputs.count; i++) c.late[g->inputs.data[i].value->id] = true;
  for (int32_t i = 0; i < c.n; i++)
    if (is_tensor(c.values[i])) c.bytes[i] = bytes_of(c.m, c.values[i]);
  TC_TRY(classify(&c));
  for (int32_t i = 0; i < g->outputs.count; i++)
    if (is_gradient(j, i, n_inputs)) note_need(&c, &g->outputs.data[i].arg.value);
  if (o->save_all) {
    for (int32_t i = 0; i < c.n; i++) {
      tc_value *v = c.needed[i] ? tc_view_root(c.values[i]) : NULL;
      if (v && v->def) c.saved[v->id] = true;
    }
  } else {
    minimum_cut(&c);
    if (o->budget < 1) keep_budget(&c, o->budget > 0 ? o->budget : 0);
  }
  close_all(&c);
  for (int32_t i = 0; i < c.n; i++) out->saved_bytes += c.saved[i] ? c.bytes[i] : 0;
  TC_TRY(make_forward(&c, n_inputs, out));
  TC_TRY(make_backward(&c, n_inputs, out));
  out->n_recomputed = count_nodes(out->forward) + count_nodes(out->backward) - count_nodes(g);
  return TC_OK;
}
