// Ops that only check: they have no results. Metadata asserts are decided by meta functions; the frontend turns
// symbolic asserts into requirements.
#include "core/ops/ops.h"

static int32_t no_result(tc_op_args *a) {
  (void)a;
  return TC_STATUS_OK;
}

// What is known of symbols is a check of the graph.
static int32_t assert_meta(tc_op_args *a) {
  tc_number v;
  if (!tc_op_number(a, 0, &v) || !v.sym) return TC_STATUS_OK;
  tc_int holds = tc_sym_cmp(a->syms, TC_SYM_NE, v.sym, tc_int_const(a, 0));
  return tc_op_require(
      a, holds, tc_sv_printf(a->arena, "assertion failed: " TC_SV_FMT, TC_SV_ARG(tc_op_string(a, 1))).data, 0, NULL);
}

// A number that comes from data must not be zero.
static int32_t assert_ref(tc_op_args *a) {
  tc_number v;
  if (tc_op_number(a, 0, &v) && v.re == 0 && v.im == 0)
    return tc_op_fail(a, "assertion failed: " TC_SV_FMT, TC_SV_ARG(tc_op_string(a, 1)));
  return TC_STATUS_OK;
}

static const tc_op_def rows[] = {
    {.schema = "_assert_tensor_metadata(Tensor a, SymInt[]? size=None, SymInt[]? stride=None, ScalarType? dtype=None, "
               "*, Device? device=None, Layout? layout=None) -> ()",
     .traits = TC_OP_COMPLEX,
     .meta = no_result,
     .lower = no_result,
     .ref = no_result},
    {.schema = "_assert_scalar(Scalar self, str assert_msg) -> ()",
     .traits = TC_OP_EFFECT | TC_OP_COMPLEX,
     .meta = assert_meta,
     .lower = no_result,
     .ref = assert_ref},
};
TC_OP_FAMILY(effect);
