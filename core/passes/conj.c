// conj: conjugations that cancel or mean nothing. What stays is either a view with the conj bit, which loads fold, or a
// pointwise op. Conjugate of a conjugate as views is the views pass's.
#include "core/passes/passes.h"

static tc_value *tensor_arg(const tc_node *n) {
  return n->n_args > 0 && n->args[0].kind == TC_AK_TENSOR ? tc_value_resolve(n->args[0].value) : NULL;
}

static bool is_conj(const tc_node *n) {
  return tc_node_is(n, "_conj") || tc_node_is(n, "conj") || tc_node_is(n, "_conj_physical") ||
         tc_node_is(n, "conj_physical");
}

// The value that the node's result equals element for element, or NULL.
static tc_value *equal_to(const tc_node *n) {
  tc_value *x = tensor_arg(n);
  if (!x || n->n_results != 1) return NULL;
  bool complex = tc_dtype_is_complex(x->type.dtype);
  if ((tc_node_is(n, "resolve_conj") || tc_node_is(n, "resolve_neg")) && !x->type.conj) return x;
  if (is_conj(n)) {
    if (!complex) return x;
    if (is_conj(x->def)) return tensor_arg(x->def);
  }
  // complex(real(z), imag(z)), real(complex(a, b)), imag(complex(a, b))
  if (tc_node_is(n, "complex") && n->args[1].kind == TC_AK_TENSOR) {
    const tc_node *im = tc_value_resolve(n->args[1].value)->def;
    if (tc_node_is(x->def, "real") && tc_node_is(im, "imag") && tensor_arg(x->def) == tensor_arg(im))
      return tensor_arg(im);
  }
  if (tc_node_is(x->def, "complex") && tc_node_is(n, "real")) return tensor_arg(x->def);
  if (tc_node_is(x->def, "complex") && tc_node_is(n, "imag")) return tc_value_resolve(x->def->args[1].value);
  if (tc_node_is(n, "real") && !complex) return x;
  return NULL;
}

static tc_status run(tc_graph *g, bool *out_progress) {
  *out_progress = false;
  for (tc_node *n = g->first; n; n = n->next) {
    if (n->dead || !tc_node_pure(n) || n->inplace >= 0) continue;
    tc_value *v = equal_to(n);
    if (!v || v->type.dtype != n->results[0]->type.dtype || v->type.rank != n->results[0]->type.rank) continue;
    bool same = tc_type_same(g->module, &v->type, &n->results[0]->type);
    bool view = n->results[0]->view_arg >= 0;
    if (!(same && view)) { // a new storage: whether the copy can go is for the views pass to say
      tc_build b = {.graph = g, .before = n, .source = n->source};
      tc_arg args[] = {tc_arg_tensor(v)}, out;
      TC_TRY(tc_build_call(&b, TC_SV("aten::clone"), 1, args, NULL, &out));
      if (!tc_type_same(g->module, &out.value->type, &n->results[0]->type)) {
        tc_node_kill(out.value->def);
        continue;
      }
      tc_value_set_name(g, out.value, n->results[0]->name);
      v = out.value;
    }
    tc_graph_forward(n->results[0], v);
    tc_node_kill(n);
    *out_progress = true;
  }
  tc_graph_sweep(g); // also drops copies that did not fit
  return TC_OK;
}

const tc_pass tc_pass_conj = {"conj", run};
