// storage: a view that counts in the storage (as_strided) of another view is one of the storage's own value. It may see
// more of the storage than the view that it is of, and whoever computes it, compiled or not, has only what it is given.
#include "core/ir/opargs.h"
#include "core/passes/passes.h"

// Has the value a storage of its own that is as the program says? An input comes with it, gaps and all; of what is
// computed only that without gaps has.
static bool has_storage(const tc_graph *g, const tc_value *v) {
  return !v->def || tc_strides_dense(g->module->syms, v->type.rank, v->type.sizes, v->type.strides);
}

// Is this what visit makes of a storage of complex numbers?
static bool is_settled(const tc_value *of, const tc_value *root) {
  return of == root || (of->def && tc_node_is(of->def, "view_as_real") && tc_value_base(of) == root);
}

// Complex numbers whose parts are seen are pairs of these.
static bool is_pairs(const tc_tensor_type *root, const tc_tensor_type *t) {
  return tc_dtype_is_complex(root->dtype) && tc_dtype_real(root->dtype) == t->dtype && !root->conj && !t->conj;
}

static tc_status visit(tc_graph *g, tc_node *n, bool *out_progress) {
  tc_value *of = tc_value_resolve(n->args[0].value), *root = tc_view_root(of), *seen = n->results[0];
  const tc_tensor_type *t = &seen->type;
  bool same = root->type.dtype == t->dtype && root->type.conj == t->conj;
  if (is_settled(of, root) || !has_storage(g, root) || !(same || is_pairs(&root->type, t))) return TC_OK;
  tc_build b = {.graph = g, .before = n, .source = n->source};
  tc_arg args[] = {tc_arg_tensor(root), tc_arg_syms(t->sizes, t->rank), tc_arg_syms(t->strides, t->rank),
                   tc_arg_sym(t->offset)},
         out;
  if (!same) TC_TRY(tc_build_call(&b, TC_SV("aten::view_as_real"), 1, args, NULL, &args[0]));
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
