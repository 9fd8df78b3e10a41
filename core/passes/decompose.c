// decompose: ops that only say how they are made of others are replaced by those, until none is left.
//
// What a node is replaced by is made before it and looked at in turn, so nested decompositions need no second round.
// An op that can be lowered as it is (a body or a lowering) stays whole: that is better input for the scheduler.
// A replacement has the type of what it replaces: where a decomposition ends in another layout, a copy restores it, and
// a size that its nodes read from data is the symbol that the op's own result had.
#include "core/passes/passes.h"

// Is it attention, an op with a query, whose heads are longer than its templates take them?
static bool has_long_heads(const tc_node *n) {
  bool attention = false, is_long = false;
  for (int32_t i = 0; i < n->n_args && i < n->op->schema.n_args; i++) {
    tc_sv name = n->op->schema.args[i].name;
    bool query = tc_sv_is(name, "query");
    attention |= query;
    if (n->args[i].kind == TC_AK_TENSOR && (query || tc_sv_is(name, "value")))
      is_long |= !tc_attention_takes_heads(&n->args[i].value->type);
  }
  return attention && is_long;
}

static bool lowered_as_it_is(void *self, const tc_node *n) {
  (void)self;
  if ((n->op->def->traits & TC_OP_MAY_EXPAND) || tc_node_draws_by_parts(n)) return false;
  if (tc_op_can_expand(n->op) && has_long_heads(n)) return false;
  return n->op->def->lower || n->op->body.n_results || n->op->functional;
}

// ---- sizes from data ----
enum { MOST_SIZES = 8 };
typedef struct renaming {
  int32_t n;
  const tc_sym *from[MOST_SIZES], *to[MOST_SIZES];
} renaming;

static bool is_unbacked(const tc_graph *g, const tc_sym *x) {
  return x->kind == TC_SYM_SYMBOL && tc_sym_info_read(g->module->syms, x)->origin == TC_SYM_UNBACKED;
}

// The sizes of a result that node n gives, and what they are in the replacement.
static void find_renamed(const tc_node *n, const tc_value *old, const tc_value *v, renaming *r) {
  for (int32_t d = 0; d < old->type.rank && d < v->type.rank; d++) {
    const tc_sym *from = v->type.sizes[d], *to = old->type.sizes[d];
    bool seen = from == to;
    for (int32_t i = 0; i < r->n; i++) seen = seen || r->from[i] == from || r->to[i] == to;
    if (seen || r->n == MOST_SIZES || !is_unbacked(n->graph, from) || !is_unbacked(n->graph, to)) continue;
    if (tc_graph_definer(n->graph, to) != n) continue;
    r->from[r->n] = from, r->to[r->n++] = to;
  }
}

static const tc_sym *renamed(const tc_graph *g, const renaming *r, const tc_sym *x) {
  return x ? tc_sym_replace(g->module->syms, x, r->n, r->from, r->to) : NULL;
}

static const tc_sym *const *renamed_list(const tc_graph *g, const renaming *r, int32_t n, const tc_sym *const *x) {
  const tc_sym **out = TC_NEW_ARRAY(g->module->arena, const tc_sym *, n);
  for (int32_t i = 0; i < n; i++) out[i] = renamed(g, r, x[i]);
  return out;
}

static void rename_sizes(tc_node *n, const renaming *r) {
  const tc_graph *g = n->graph;
  for (int32_t i = 0; i < n->n_args; i++) {
    tc_arg *a = &n->args[i];
    if (a->kind == TC_AK_INT) a->sym = renamed(g, r, a->sym);
    if (a->kind == TC_AK_INTS) a->syms = renamed_list(g, r, a->n, a->syms);
  }
  for (int32_t i = 0; i < n->n_results; i++) {
    tc_value *v = n->results[i];
    if (v->kind == TC_VALUE_SYM) v->symbol = renamed(g, r, v->symbol);
    if (v->kind != TC_VALUE_TENSOR) continue;
    v->type.sizes = renamed_list(g, r, v->type.rank, v->type.sizes);
    v->type.strides = renamed_list(g, r, v->type.rank, v->type.strides);
    v->type.offset = renamed(g, r, v->type.offset);
  }
}

// ---- replacing ----

// Strides count for what leaves the graph, and for views.
static bool shows_strides(const tc_graph *g, const tc_value *v) {
  for (int32_t i = 0; i < g->outputs.count; i++) {
    tc_value *out = g->outputs.data[i].arg.value;
    if (out && tc_value_resolve(out) == v) return true;
  }
  for (const tc_node *n = v->def; n; n = n->next) {
    for (int32_t i = 0; i < n->n_results; i++) {
      tc_value *base = n->results[i]->kind == TC_VALUE_TENSOR ? tc_value_base(n->results[i]) : NULL;
      if (base && tc_value_resolve(base) == v) return true;
    }
  }
  return false;
}

static tc_status replace_result(const tc_build *b, tc_node *n, int32_t i, const tc_arg *by) {
  tc_value *old = n->results[i], *v = by->value;
  tc_module *m = n->graph->module;
  if (by->kind == TC_AK_NONE || old->kind == TC_VALUE_NONE) return TC_OK;
  if (old->kind != TC_VALUE_TENSOR) {
    if (v) tc_graph_forward(old, v);
    return TC_OK;
  }
  if (by->kind != TC_AK_TENSOR) return tc_error(TC_STATUS_INTERNAL, "result %d of the decomposition is no tensor", i);
  if (v->type.dtype != old->type.dtype || v->type.rank != old->type.rank)
    return tc_error(TC_STATUS_INTERNAL,
                    "result %d of the decomposition is %s of rank %d, the op's own meta function gives %s of rank %d",
                    i, tc_dtype_name(v->type.dtype), v->type.rank, tc_dtype_name(old->type.dtype), old->type.rank);
  for (int32_t d = 0; d < v->type.rank; d++)
    if (tc_sym_prove(m->syms, tc_sym_cmp(m->syms, TC_SYM_EQ, v->type.sizes[d], old->type.sizes[d])) == 0)
      return tc_error(TC_STATUS_INTERNAL,
                      "size %d of result %d differs between the decomposition and the op's own meta function", d, i);
  TC_TRY(tc_match_layout(b, v, &old->type, &v));
  if (!tc_type_same(m, &v->type, &old->type) && shows_strides(n->graph, old))
    TC_TRY(tc_match_gaps(b, v, &old->type, &v));
  if (v->def && v->def->n_results == 1 && v->graph == n->graph && v->name.size &&
      tc_sv_eq(v->name, v->def->op->schema.name))
    tc_value_set_name(n->graph, v, old->name);
  tc_graph_forward(old, v);
  return TC_OK;
}

// *out_done is false where the op declined to be expanded.
static tc_status replace(tc_graph *g, tc_node *n, bool for_gradients, bool *out_done) {
  tc_node *before = n->prev;
  renaming r = {0};
  tc_build b = tc_build_for(n, g, n);
  int32_t count = 0;
  tc_arg *results;
  if (for_gradients && n->op->forward.n_results)
    TC_TRY(tc_expand_forward(&b, n->op, n->n_args, n->args, &count, &results));
  else TC_TRY(tc_expand_op(&b, n->op, n->n_args, n->args, &count, &results));
  if (count != n->n_results)
    return tc_error(TC_STATUS_INTERNAL, "the decomposition has %d results, the op has %d", count, n->n_results);
  *out_done = !(n->op->def->traits & TC_OP_MAY_EXPAND);
  for (int32_t i = 0; i < count; i++) *out_done |= results[i].kind != TC_AK_NONE;
  if (!*out_done) return TC_OK;
  for (int32_t i = 0; i < count; i++)
    if (results[i].kind == TC_AK_TENSOR && results[i].value && n->results[i]->kind == TC_VALUE_TENSOR)
      find_renamed(n, n->results[i], results[i].value, &r);
  for (tc_node *k = before ? before->next : g->first; r.n && k != n; k = k->next) rename_sizes(k, &r);
  for (int32_t i = 0; i < count; i++) TC_TRY(replace_result(&b, n, i, &results[i]));
  tc_node_kill(n);
  return TC_OK;
}

static void resolve_place(void *self, tc_value **v) {
  (void)self;
  *v = tc_value_resolve(*v);
}

tc_status tc_decompose(tc_graph *g, bool (*stays)(void *self, const tc_node *n), void *self, bool for_gradients,
                       bool *out_progress) {
  enum { MAX_REPLACEMENTS = 1 << 20 };
  int32_t replaced = 0;
  *out_progress = false;
  for (tc_node *n = g->first; n;) {
    bool done = false;
    for (int32_t i = 0; i < n->n_args; i++)
      if (!n->dead && n->args[i].kind == TC_AK_GRAPH) {
        TC_TRY(tc_decompose(n->args[i].graph, stays, self, for_gradients, &done));
        *out_progress = *out_progress || done;
      }
    bool can = tc_op_can_expand(n->op) || (for_gradients && n->op->forward.n_results);
    if (n->dead || !can || stays(self, n)) {
      n = n->next;
      continue;
    }
    if (++replaced > MAX_REPLACEMENTS) return tc_error(TC_STATUS_INVALID_ARGUMENT, "the decompositions do not end");
    tc_node *before = n->prev;
    tc_node_each_value(n, resolve_place, NULL);
    bool replaced_it = false;
    tc_status s = replace(g, n, for_gradients, &replaced_it);
    if (s) {
      s = tc_status_note(s, "while decomposing %%" TC_SV_FMT " = " TC_SV_FMT,
                         TC_SV_ARG(n->n_results ? n->results[0]->name : n->name), TC_SV_ARG(n->op->full_name));
      return n->source.size ? tc_status_note(s, "at " TC_SV_FMT, TC_SV_ARG(n->source)) : s;
    }
    if (!replaced_it) {
      n = n->next;
      continue;
    }
    *out_progress = true;
    n = before ? before->next : g->first;
  }
  if (*out_progress) tc_graph_sweep(g);
  return TC_OK;
}

static tc_status run(tc_graph *g, bool *out_progress) {
  return tc_decompose(g, lowered_as_it_is, NULL, false, out_progress);
}

const tc_pass tc_pass_decompose = {"decompose", run};
