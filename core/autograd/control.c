// Derivatives of control flow: of cond, a cond over the gradient graphs of its branches.
//
// The gradient graph of a branch takes the operands and the cotangents of the results, computes of the branch what it
// needs, and gives the gradients of the wanted operands, zeros where there is none, so that both branches give the
// same.
#include "core/ir/control.h"

#include "core/autograd/internal.h"
#include "core/passes/passes.h"

// Region → its gradient graph; `like`: the node whose results the cotangents belong to.
static tc_status gradient_region(tc_graph *region, const tc_node *like, const bool *wanted, tc_graph **out) {
  tc_module *m = region->module;
  int32_t n = region->inputs.count, leaf = 0;
  tc_joint j;
  TC_TRY(tc_autograd_joint(region, wanted, &j));
  tc_graph *g = j.graph;
  TC_VEC(tc_graph_input) inputs = {0};
  for (int32_t i = 0; i < n; i++) tc_vec_push(m->arena, &inputs, g->inputs.data[i]);
  for (int32_t i = 0; i < like->n_results; i++, leaf++) {
    const tc_value *v = like->results[i];
    if (v->kind != TC_VALUE_TENSOR || !tc_differentiable(&v->type)) continue;
    int32_t at = j.cotangents[leaf];
    if (at < 0) { // this branch's result depends on no wanted operand
      tc_sv name = tc_sv_printf(m->arena, "unused_%d", i);
      at = g->inputs.count;
      tc_graph_add_input(g, TC_IN_OPERAND, name, name, &v->type);
    }
    tc_vec_push(m->arena, &inputs, g->inputs.data[at]);
  }
  TC_VEC(tc_graph_output) outputs = {0};
  tc_build b = {.graph = g};
  for (int32_t i = 0; i < n; i++) {
    if (!wanted[i]) continue;
    tc_arg grad = tc_arg_tensor(g->inputs.data[i].value);
    if (j.gradients[i] >= 0) grad = g->outputs.data[j.gradients[i]].arg;
    else TC_TRY(tc_build_call(&b, TC_SV("aten::zeros_like"), 1, &grad, NULL, &grad));
    tc_graph_output o = {.kind = TC_OUT_USER, .arg = grad};
    tc_vec_push(m->arena, &outputs, o);
  }
  g->inputs.count = g->outputs.count = 0;
  for (int32_t i = 0; i < inputs.count; i++) {
    inputs.data[i].kind = TC_IN_OPERAND;
    if (inputs.data[i].value) inputs.data[i].value->def_index = i;
    tc_vec_push(m->arena, &g->inputs, inputs.data[i]);
  }
  for (int32_t i = 0; i < outputs.count; i++) tc_vec_push(m->arena, &g->outputs, outputs.data[i]);
  bool progress;
  tc_graph_sweep(g);
  TC_TRY(tc_pass_dce.run(g, &progress));
  tc_graph_sweep(g);
  *out = g;
  return TC_OK;
}

tc_status tc_autograd_cond(tc_graph *g, const tc_node *n, tc_value *const *cotangents, const bool *wanted,
                           tc_value **gradients) {
  tc_module *m = g->module;
  tc_control c;
  TC_TRY(tc_control_read(m->arena, n->op, n->n_args, n->args, &c));
  tc_graph *regions[2];
  for (int32_t i = 0; i < 2; i++) TC_TRY(gradient_region(c.regions[i], n, wanted, &regions[i]));
  tc_value **operands = TC_NEW_ARRAY(m->arena, tc_value *, c.n_operands + n->n_results + 1);
  int32_t count = 0;
  for (int32_t i = 0; i < c.n_operands; i++) operands[count++] = c.operands[i];
  for (int32_t i = 0; i < n->n_results; i++)
    if (cotangents[i]) operands[count++] = cotangents[i];
  tc_arg args[] = {*c.predicate, tc_arg_graph(regions[0]), tc_arg_graph(regions[1]), tc_arg_tensors(operands, count)};
  tc_node *made;
  TC_TRY(tc_graph_add_node(g, NULL, n->op, 4, args, (tc_sv){0}, n->source, &made));
  for (int32_t i = 0, k = 0; i < c.n_operands; i++) gradients[i] = wanted[i] ? made->results[k++] : NULL;
  return TC_OK;
}
