// Products with what follows them as one call. See call_epilogue.h.
#include "core/runtime/call_epilogue.h"

#include "core/ir/op.h"

// Arguments of the op.
enum { INPUT = TC_THEN_INPUT, WEIGHT, BIAS, THEN, OTHER, N_ARGS };

// ---- What follows ----
static const tc_call_step *step_of(const tc_node *n) {
  for (int32_t i = 0; i < TC_CALL_STEPS; i++) {
    const tc_call_step *s = &tc_call_steps[i];
    if (!tc_sv_is(n->op->full_name, s->op)) continue;
    if (!s->approximate || (n->args[1].kind == TC_AK_STRING && tc_sv_is(n->args[1].text, s->approximate))) return s;
  }
  return NULL;
}

static bool same_sizes(tc_sym_ctx *c, const tc_tensor_type *a, const tc_tensor_type *b) {
  if (a->rank != b->rank || a->dtype != b->dtype || a->conj || b->conj) return false;
  for (int32_t d = 0; d < a->rank; d++)
    if (!tc_sym_eq(c, a->sizes[d], b->sizes[d])) return false;
  return true;
}

static bool is_one(const tc_arg *a) {
  if (a->kind == TC_AK_FLOAT) return !a->value && a->real == 1;
  return a->kind == TC_AK_INT && a->sym && tc_sym_is_int(a->sym, 1);
}

// The other operand of a sum with v, or NULL.
static tc_value *addend(const tc_node *n, const tc_value *v) {
  if (!tc_sv_is(n->op->full_name, "aten::add.Tensor") || !is_one(&n->args[2])) return NULL;
  for (int32_t i = 0; i < 2; i++) {
    tc_value *other = n->args[1 - i].value;
    if (n->args[i].value != v || n->args[1 - i].kind != TC_AK_TENSOR || !other || other == v) continue;
    bool fits = same_sizes(n->graph->module->syms, &other->type, &v->type) &&
                same_sizes(n->graph->module->syms, &n->results[0]->type, &v->type);
    return fits ? other : NULL;
  }
  return NULL;
}

static tc_node *only_reader(const tc_node *n) {
  const tc_value *v = n->results[0];
  if (v->n_uses != 1) return NULL;
  for (tc_node *k = n->next; k; k = k->next)
    for (int32_t i = 0; i < k->n_args; i++)
      if (k->args[i].kind == TC_AK_TENSOR && k->args[i].value == v) return k;
  return NULL; // an output, or an element of a list
}

// ---- Joining ----
// The node with the one behind it, in its place; NULL if they do not join.
static tc_status join(const tc_call_choice *choice, tc_node *n, tc_node **out) {
  tc_graph *g = n->graph;
  tc_node *k = only_reader(n), *made;
  tc_arg args[N_ARGS] = {n->args[INPUT], n->args[WEIGHT], n->args[BIAS], tc_arg_string(TC_SV("")), tc_arg_none()};
  bool joined = tc_sv_is(n->op->full_name, TC_THEN_OP);
  *out = NULL;
  if (!k || k->inplace >= 0) return TC_OK;
  if (joined) args[THEN] = n->args[THEN], args[OTHER] = n->args[OTHER];
  const tc_call_step *s = step_of(k);
  tc_value *other = addend(k, n->results[0]);
  if (args[OTHER].kind != TC_AK_NONE || (s && args[THEN].text.size) || (!s && !other)) return TC_OK;
  if (s) args[THEN] = tc_arg_string(tc_sv_of(s->name));
  else args[OTHER] = tc_arg_tensor(other);
  const tc_op *op = tc_op_find(g->module->ops, TC_SV(TC_THEN_OP));
  if (!op) return TC_OK;
  TC_TRY(tc_graph_add_node(g, k, op, N_ARGS, args, k->results[0]->name, k->source, &made));
  made->results[0]->n_uses = k->results[0]->n_uses;
  if (!tc_exec_call_preferred((void *)(uintptr_t)choice, made)) {
    tc_node_kill(made);
    return TC_OK;
  }
  tc_graph_forward(k->results[0], made->results[0]);
  tc_node_kill(k);
  tc_node_kill(n);
  tc_graph_sweep(g);
  *out = made;
  return TC_OK;
}

tc_status tc_join_call_epilogues(const tc_call_choice *choice, tc_graph *g) {
  bool refused = false;
  tc_graph_sweep(g);
  for (tc_node *n = g->first, *next; n; n = next) {
    next = n->next;
    if (n->dead || !tc_sv_is(n->op->full_name, "aten::linear") || n->args[WEIGHT].value->type.rank != 2 ||
        !tc_dtype_is_float(n->results[0]->type.dtype) || !only_reader(n) ||
        !tc_exec_call_preferred((void *)(uintptr_t)choice, n))
      continue;
    for (tc_node *at = n, *made; at; at = made) {
      TC_TRY(join(choice, at, &made));
      refused |= !made;
      if (made) next = made->next;
    }
  }
  if (refused) tc_graph_sweep(g); // of what was tried
  return TC_OK;
}
