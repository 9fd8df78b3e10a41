// reinplace: where a node's result may take over the storage of an argument, says so (node.inplace), so that updating a
// cache or a counter touches only what changes.
//
// Two cases:
//   - chains: the new value of a mutated input is made from its old one by scatters and pointwise nodes, each of which
//     works in place on what the one before it left (a cache that is written twice, a counter);
//   - scatters (slice_scatter, index_put, …) into a value of the graph's own.
// Kernels by hand that change their first argument count as scatters.
// A step is legal if argument and result have one type, the argument is no view, nothing of its storage is read after
// the step or leaves the graph, and no other argument lies in that storage (a pointwise node may read the very same
// value twice). A value that becomes an input's new value must not leave the graph in another way too. Later passes
// must keep the order of nodes that touch a marked storage.
#include "core/ir/userop.h"
#include "core/passes/passes.h"

typedef struct reuse {
  tc_graph *g;
  tc_map *last_read; // root → number of the last node that reads it or a view of it; INT64_MAX: an output
  tc_map *hopeless;  // nodes from which no chain goes back to the input looked for
  tc_value *input;
} reuse;

static bool is_scatter(const tc_node *n) {
  static const char *const names[] = {
      "slice_scatter", "select_scatter",    "diagonal_scatter", "as_strided_scatter", "strided_put",
      "index_put",     "_unsafe_index_put", "index_copy",       "index_add",          "index_fill",
      "scatter",       "scatter_add",       "scatter_reduce",   "masked_scatter",     "put"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (tc_node_is(n, names[i])) return true;
  return n->op->user && n->op->user->mutates.count > 0;
}

static bool is_mutation(int32_t kind) {
  return kind == TC_OUT_BUFFER_MUTATION || kind == TC_OUT_INPUT_MUTATION || kind == TC_OUT_PARAMETER_MUTATION;
}

// The input that output `o` is the new value of.
static tc_value *mutated_input(const tc_graph *g, const tc_graph_output *o) {
  for (int32_t i = 0; i < g->inputs.count; i++) {
    const tc_graph_input *in = &g->inputs.data[i];
    bool kind = o->kind == TC_OUT_BUFFER_MUTATION      ? in->kind == TC_IN_BUFFER
                : o->kind == TC_OUT_PARAMETER_MUTATION ? in->kind == TC_IN_PARAMETER
                                                       : in->kind == TC_IN_USER;
    if (kind && in->value && tc_sv_eq(in->target, o->target)) return in->value;
  }
  return NULL;
}

typedef struct last_reader {
  reuse *r;
  int64_t at;
} last_reader;

static void note_read(void *arg, tc_value **v) {
  last_reader *l = arg;
  if ((*v)->kind == TC_VALUE_TENSOR) tc_map_put_ptr(l->r->last_read, tc_view_root(*v), NULL)->value.num = l->at;
}

static int64_t last_read(reuse *r, tc_value *root) {
  const tc_map_entry *e = tc_map_find_ptr(r->last_read, root);
  return e ? e->value.num : -1;
}

typedef struct alias_check {
  tc_value *root, *same;
  bool pointwise, clash;
  int32_t seen;
} alias_check;

static void check_alias(void *arg, tc_value **v) {
  alias_check *c = arg;
  if ((*v)->kind != TC_VALUE_TENSOR || tc_view_root(*v) != c->root) return;
  c->seen++;
  if (*v != c->same || (!c->pointwise && c->seen > 1)) c->clash = true;
}

static bool legal(reuse *r, tc_node *n, int32_t arg) {
  if (n->args[arg].kind != TC_AK_TENSOR || n->n_results < 1) return false;
  tc_value *v = n->args[arg].value, *out = n->results[0];
  if (out->kind != TC_VALUE_TENSOR || v->view_arg >= 0 || out->view_arg >= 0 ||
      !tc_type_same(r->g->module, &v->type, &out->type))
    return false;
  if (last_read(r, v) > n->id) return false;
  alias_check c = {.root = v, .same = v, .pointwise = (n->op->def->traits & TC_OP_POINTWISE) != 0};
  tc_node_each_value(n, check_alias, &c);
  return !c.clash;
}

static bool may_step(const tc_node *n) {
  return n && n->inplace < 0 && tc_node_pure(n) && (is_scatter(n) || (n->op->def->traits & TC_OP_POINTWISE));
}

// Marks the nodes from n back to the input, if they all may work in place.
static bool mark_chain(reuse *r, tc_node *n) {
  if (!may_step(n) || tc_map_find_ptr(r->hopeless, n)) return false;
  for (int32_t i = 0; i < (is_scatter(n) ? 1 : n->n_args); i++) {
    if (!legal(r, n, i)) continue;
    if (n->args[i].value != r->input && !mark_chain(r, n->args[i].value->def)) continue;
    n->inplace = i;
    return true;
  }
  tc_map_put_ptr(r->hopeless, n, NULL);
  return false;
}

static int32_t times_output(const tc_graph *g, const tc_value *v) {
  int32_t n = 0;
  for (int32_t i = 0; i < g->outputs.count; i++) {
    tc_value *o = g->outputs.data[i].arg.value;
    n += o && o->kind == TC_VALUE_TENSOR && tc_view_root(o) == v;
  }
  return n;
}

static tc_status run(tc_graph *g, bool *out_progress) {
  tc_arena *arena = g->module->arena;
  reuse r = {.g = g, .last_read = tc_map_create(arena)};
  *out_progress = false;
  tc_graph_sweep(g); // numbers the nodes
  for (tc_node *n = g->first; n; n = n->next) {
    if (tc_node_writes(n)) return TC_OK; // not functional
    tc_node_each_value(n, note_read, &(last_reader){&r, n->id});
  }
  for (int32_t i = 0; i < g->outputs.count; i++)
    if (g->outputs.data[i].arg.value) note_read(&(last_reader){&r, INT64_MAX}, &g->outputs.data[i].arg.value);
  for (int32_t i = 0; i < g->outputs.count; i++) {
    const tc_graph_output *o = &g->outputs.data[i];
    if (!is_mutation(o->kind) || !o->arg.value || times_output(g, o->arg.value) != 1) continue;
    r.input = mutated_input(g, o);
    r.hopeless = tc_map_create(arena);
    if (r.input && o->arg.value->view_arg < 0 && mark_chain(&r, o->arg.value->def)) *out_progress = true;
  }
  for (tc_node *n = g->first; n; n = n->next) {
    if (n->inplace >= 0 || !is_scatter(n) || !tc_node_pure(n) || !legal(&r, n, 0) || !n->args[0].value->def) continue;
    n->inplace = 0;
    *out_progress = true;
  }
  return TC_OK;
}

const tc_pass tc_pass_reinplace = {"reinplace", run};
