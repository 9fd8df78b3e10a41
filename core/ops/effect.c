// Ops that only check: they have no results. Metadata asserts are decided by meta functions; the frontend turns
// symbolic asserts into requirements.
#include "core/ops/ops.h"

static int32_t no_result(tc_op_args *a) {
  (void)a;
  return TC_STATUS_OK;
}

static const tc_op_def rows[] = {
    {.schema = "_assert_tensor_metadata(Tensor a, SymInt[]? size=None, SymInt[]? stride=None, ScalarType? dtype=None, "
               "*, Device? device=None, Layout? layout=None) -> ()",
     .meta = no_result,
     .lower = no_result,
     .ref = no_result},
};
TC_OP_FAMILY(effect);
