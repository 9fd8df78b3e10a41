// decompose: ops that only say how they are made of others are replaced by those, until none is left.
//
// What a node is replaced by is made before it and looked at in turn, so nested decompositions need no second round.
// An op that can be lowered as it is (a body or a lowering) stays whole: that is better input for the scheduler.
// A replacement has the type of what it replaces: where a decomposition ends in another layout, a copy restores it.
#include "core/passes/passes.h"

static bool lowered_as_it_is(void *self, const tc_node *n) {
  (void)self;
  return n->op->def->lower || n->op->body.n_results || n->op->functional;
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
  if (v->def && v->def->n_results == 1 && v->graph == n->graph && v->name.size &&
      tc_sv_eq(v->name, v->def->op->schema.name))
    tc_value_set_name(n->graph, v, old->name);
  tc_graph_forward(old, v);
  return TC_OK;
}

static tc_status replace(tc_graph *g, tc_node *n, bool for_gradients) {
  tc_build b = {.graph = g, .before = n, .source = n->source, .stream = n->stream};
  int32_t count = 0;
  tc_arg *results;
  if (for_gradients && n->op->forward.n_results)
    TC_TRY(tc_expand_forward(&b, n->op, n->n_args, n->args, &count, &results));
  else TC_TRY(tc_expand_op(&b, n->op, n->n_args, n->args, &count, &results));
  if (count != n->n_results)
    return tc_error(TC_STATUS_INTERNAL, "the decomposition has %d results, the op has %d", count, n->n_results);
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
    tc_status s = replace(g, n, for_gradients);
    if (s) {
      s = tc_status_note(s, "while decomposing %%" TC_SV_FMT " = " TC_SV_FMT,
                         TC_SV_ARG(n->n_results ? n->results[0]->name : n->name), TC_SV_ARG(n->op->full_name));
      return n->source.size ? tc_status_note(s, "at " TC_SV_FMT, TC_SV_ARG(n->source)) : s;
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
