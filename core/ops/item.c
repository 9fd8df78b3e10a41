// A number out of a tensor of one element. Floats and truth values stay where they are: a number is a tensor of no
// dimensions to whoever reads it. Integers may be sizes, which the host must know: there a run is cut (core/runtime).
#include "core/ops/ops.h"

static tc_dtype number_type(tc_op_args *a) {
  char c = tc_dtype_class(tc_op_tensor(a, 0)->dtype);
  return c == 'f' ? TC_F64 : c == 'b' ? TC_BOOL : TC_I64;
}

static int32_t item_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  if (tc_dtype_is_complex(t->dtype)) return tc_op_fail(a, "a complex number cannot be taken out of a tensor");
  if (tc_int_require_eq(a, tc_op_numel(a, t), tc_int_const(a, 1)))
    return tc_op_fail(a, "a tensor with %s cannot be converted to a number", tc_op_shape_text(a, 0));
  tc_dtype d = number_type(a);
  if (d == TC_I64) (void)tc_op_unbacked(a, -TC_SYM_INF, TC_SYM_INF);
  return tc_op_set_result(a, 0, d, 0, NULL, NULL);
}

static int32_t item_lower(tc_op_args *a) {
  tc_int zeros[TC_MAX_RANK];
  tc_lt x = tc_lo_arg(a, 0);
  for (int32_t d = 0; d < TC_MAX_RANK; d++) zeros[d] = tc_int_const(a, 0);
  tc_lo_begin(a, 0, NULL, NULL);
  tc_lo_result(a, 0, tc_lo_end(a, tc_lo_load(a, x, zeros), number_type(a)));
  return TC_STATUS_OK;
}

static int32_t item_ref(tc_op_args *a) {
  tc_ref_copy(tc_op_result_data(a, 0), 0, tc_op_data(a, 0), 0);
  return TC_STATUS_OK;
}

#define ITEM(s) \
  {.schema = s, .traits = TC_OP_DATA_DEPENDENT | TC_OP_COMPLEX, .meta = item_meta, .lower = item_lower, .ref = item_ref}
static const tc_op_def rows[] = {
    ITEM("item(Tensor self) -> Scalar"),
    ITEM("_local_scalar_dense(Tensor self) -> Scalar"),
};
TC_OP_FAMILY(item);
