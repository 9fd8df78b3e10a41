// decompose: ops that only say how they are made of others are replaced by those, until none is left.
//
// What a node is replaced by is made before it and looked at in turn, so nested decompositions need no second round.
// An op that can be lowered as it is (a body or a lowering) stays whole: that is better input for the scheduler.
#include "core/ir/expand.h"
#include "core/passes/passes.h"

static bool stays(const tc_op *op) { return op->def->lower || op->body.n_results || !tc_op_can_expand(op); }

static tc_status replace(tc_graph *g, tc_node *n) {
  tc_build b = {.graph = g, .before = n, .source = n->source};
  int32_t count = 0;
  tc_arg *results;
  TC_TRY(tc_expand_op(&b, n->op, n->n_args, n->args, &count, &results), "while decomposing %%" TC_SV_FMT " = " TC_SV_FMT, TC_SV_ARG(n->name), TC_SV_ARG(n->op->full_name));
  for (int32_t i = 0; i < n->n_results && i < count; i++) {
    if (results[i].kind == TC_AK_TENSOR) tc_graph_forward(n->results[i], results[i].value);
  }
  tc_node_kill(n);
  return TC_OK;
}

static tc_status run(tc_graph *g, bool *out_progress) {
  *out_progress = false;
  for (tc_node *n = g->first; n;) {
    if (n->dead || stays(n->op)) {
      n = n->next;
      continue;
    }
    tc_node *before = n->prev;
    TC_TRY(replace(g, n));
    *out_progress = true;
    n = before ? before->next : g->first;
  }
  if (*out_progress) tc_graph_sweep(g);
  return TC_OK;
}

const tc_pass tc_pass_decompose = {"decompose", run};
