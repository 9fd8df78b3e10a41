// What libraries are told of nodes. See call_epilogue.h.
#include "core/ir/op.h"
#include "core/runtime/call_epilogue.h"

const tc_call_step tc_call_steps[TC_CALL_STEPS] = {{"aten::gelu", "tanh", "gelu_tanh", TC_EPI_GELU_TANH},
                                                   {"aten::gelu", "none", "gelu_erf", TC_EPI_GELU_ERF},
                                                   {"aten::sigmoid", NULL, "sigmoid", TC_EPI_SIGMOID},
                                                   {"aten::tanh", NULL, "tanh", TC_EPI_TANH},
                                                   {"aten::silu", NULL, "silu", TC_EPI_SILU}};

void tc_call_describe(const tc_node *n, tc_call_node *out, tc_epilogue room[2]) {
  out->op = n->op->full_name;
  out->epilogue = NULL, out->n_epilogue = 0;
  if (!tc_sv_is(n->op->full_name, TC_THEN_OP)) return;
  out->op = TC_SV("aten::linear");
  out->epilogue = room;
  for (int32_t i = 0; i < TC_CALL_STEPS; i++)
    if (tc_sv_is(n->args[TC_THEN_FUNCTION].text, tc_call_steps[i].name))
      room[out->n_epilogue++] = (tc_epilogue){.kind = tc_call_steps[i].kind, .operand = -1};
  int32_t operand = n->args[TC_THEN_BIAS].kind == TC_AK_TENSOR && n->args[TC_THEN_BIAS].value ? 3 : 2;
  if (n->args[TC_THEN_OTHER].kind == TC_AK_TENSOR && n->args[TC_THEN_OTHER].value)
    room[out->n_epilogue++] = (tc_epilogue){.kind = TC_EPI_ADD, .operand = operand};
}
