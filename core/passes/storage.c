// storage: a view that counts in the storage (as_strided) of another view is one of the storage's own value. It may see
// more of the storage than the view that it is of, and whoever computes it, compiled or not, has only what it is given.
#include "core/ir/opargs.h"
#include "core/passes/passes.h"

static bool is_dense(const tc_graph *g, const tc_tensor_type *t) {
  return tc_strides_dense(g->module->syms, t->rank, t->sizes, t->strides);
}

static tc_status visit(tc_graph *g, tc_node *n, bool *out_progress) {
  tc_value *of = tc_value_resolve(n->args[0].value), *root = tc_view_root(of), *seen = n->results[0];
  const tc_tensor_type *t = &seen->type;
  if (of == root || !is_dense(g, &root->type) || root->type.dtype != t->dtype || root->type.conj != t->conj)
    return TC_OK;
  tc_build b = {.graph = g, .before = n, .source = n->source};
  tc_arg args[] = {tc_arg_tensor(root), tc_arg_syms(t->sizes, t->rank), tc_arg_syms(t->strides, t->rank),
                   tc_arg_sym(t->offset)},
         out;
  TC_TRY(tc_build_call(&b, TC_SV("aten::as_strided"), 4, args, NULL, &out));
  tc_value_set_name(g, out.value, seen->name);
  tc_graph_forward(seen, out.value);
  tc_node_kill(n);
  *out_progress = true;
  return TC_OK;
}

static tc_status run(tc_graph *g, bool *out_progress) {
  *out_progress = false;
  for (tc_node *n = g->first, *next; n; n = next) {
    next = n->next;
    if (!n->dead && n->inplace < 0 && n->args && tc_counts_in_storage(n)) TC_TRY(visit(g, n, out_progress));
  }
  if (*out_progress) tc_graph_sweep(g);
  return TC_OK;
}

const tc_pass tc_pass_storage = {"storage", run};
