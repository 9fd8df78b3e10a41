// Gradients within a function that is captured: tc_grad becomes a node of the graph, which asks for them, and what is
// compiled has the derivative in its place (core/autograd). So loss, gradients and the step of an optimizer are one
// graph, and what is asked for can be differentiated again.
//
// The node needs the ops between inputs and outputs in its own graph: a function that has broken, or breaks later, is
// refused.
#include "core/api/trace.h"

typedef struct request {
  api_trace *t;
  int32_t n_outputs, n_cotangents, n_inputs;
  tc_value **values; // of outputs, cotangents and inputs
  tc_node *node;
} request;

static tc_status values_of(api_trace *t, const char *what, int32_t n, tc_tensor *const *tensors, tc_value **out) {
  for (int32_t i = 0; i < n; i++) {
    if (!tensors[i]) return tc_error(TC_STATUS_INVALID_ARGUMENT, "tc_grad: %s %d is missing", what, i);
    TC_TRY(trace_value(t, tensors[i], &out[i]));
  }
  return TC_OK;
}

static tc_status add_request(void *arg) {
  request *q = arg;
  tc_graph *g = q->t->line->graph;
  const tc_op *op = tc_op_find(q->t->context->ops, TC_SV("higher_order::grad"));
  int32_t inputs = q->n_outputs + q->n_cotangents;
  if (!op) return tc_error(TC_STATUS_INTERNAL, "there is no op for gradients");
  tc_value **values =
      tc_arena_copy(g->module->arena, (void *)q->values, (size_t)(inputs + q->n_inputs) * sizeof(*values));
  tc_arg args[] = {tc_arg_tensors(values, q->n_outputs), tc_arg_tensors(values + q->n_outputs, q->n_cotangents),
                   tc_arg_tensors(values + inputs, q->n_inputs)};
  return tc_graph_add_node(g, NULL, op, 3, args, TC_SV("gradient"), TC_SV(""), &q->node);
}

static tc_status record(request *q, tc_tensor *const *outputs, tc_tensor *const *cotangents, tc_tensor *const *inputs,
                        tc_tensor **results) {
  api_trace *t = q->t;
  int32_t behind = q->n_outputs + q->n_cotangents;
  TC_TRY(values_of(t, "output", q->n_outputs, outputs, q->values));
  TC_TRY(values_of(t, "cotangent", q->n_cotangents, cotangents, q->values + q->n_outputs));
  TC_TRY(values_of(t, "input", q->n_inputs, inputs, q->values + behind));
  TC_TRY(tc_arena_guard(t->line->module->arena, add_request, q));
  t->line->gradients = true;
  return trace_add_node(t, "tc_grad", q->node, results);
}

int32_t trace_gradients(api_trace *t, int32_t n_outputs, tc_tensor *const *outputs, tc_tensor *const *cotangents,
                        int32_t n_inputs, tc_tensor *const *inputs, tc_tensor **results) {
  if (!trace_is_one_graph(t))
    return api_fail_text(TC_STATUS_UNIMPLEMENTED,
                         "tc_grad in a function that reads values, or in a region of control flow: it needs one graph");
  request q = {.t = t, .n_outputs = n_outputs, .n_cotangents = cotangents ? n_outputs : 0, .n_inputs = n_inputs};
  size_t room = (size_t)(n_outputs + q.n_cotangents + n_inputs + 1) * sizeof(*q.values);
  q.values = tc_alloc(t->context->allocator, room);
  tc_status s = q.values ? record(&q, outputs, cotangents, inputs, results) : tc_error_out_of_memory();
  tc_free(t->context->allocator, (void *)q.values);
  for (int32_t i = 0; s != TC_OK && i < n_inputs; i++) results[i] = NULL;
  return api_fail(s);
}
