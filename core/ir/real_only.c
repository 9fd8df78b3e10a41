// Ops that have no meaning on complex numbers, which are rows without TC_OP_COMPLEX, are refused where their types are
// found, before anything is compiled, in PyTorch's words.
#include "core/ir/opargs.h"

static const char *scalar_type(tc_dtype d) {
  return d == TC_C32 ? "ComplexHalf" : d == TC_BC32 ? "BComplex32" : d == TC_C64 ? "ComplexFloat" : "ComplexDouble";
}

// The first complex dtype among the arguments.
static tc_dtype complex_argument(const tc_op_args *a) {
  for (int32_t i = 0; i < a->n_args; i++) {
    if (a->args[i].kind == TC_AK_COMPLEX) return TC_C64;
    for (int32_t k = 0; k < (a->args[i].kind == TC_AK_TENSORS ? a->args[i].n : 1); k++) {
      const tc_tensor_type *t = a->args[i].kind == TC_AK_TENSORS ? tc_op_tensor_at(a, i, k) : a->arg_types[i];
      if (t && tc_dtype_is_complex(t->dtype)) return t->dtype;
    }
  }
  return TC_DTYPE_NONE;
}

int32_t tc_op_check_real(tc_op_args *a, const tc_op *op) {
  tc_dtype d = op->declared || op->def->traits & TC_OP_COMPLEX ? TC_DTYPE_NONE : complex_argument(a);
  const char *text = op->refusal;
  if (d == TC_DTYPE_NONE) return TC_STATUS_OK;
  if (text) return tc_op_fail(a, "%s%s", text, text[strlen(text) - 1] == ' ' ? scalar_type(d) : "");
  return tc_op_fail(a, "\"" TC_SV_FMT "\" not implemented for '%s'", TC_SV_ARG(op->schema.name), scalar_type(d));
}
