// The data side of tc_op_args (moment REF): forwards to the hooks of the reference engine.
#include "core/ir/opargs.h"

static bool ready(const tc_op_args *a) { return a->moment == TC_MOMENT_REF && a->ref; }

const tc_ref_view *tc_op_data(const tc_op_args *a, int32_t arg) { return ready(a) ? a->ref->data(a, arg, -1) : NULL; }
const tc_ref_view *tc_op_data_at(const tc_op_args *a, int32_t arg, int32_t k) {
  return ready(a) && k >= 0 ? a->ref->data(a, arg, k) : NULL;
}
void *tc_op_scratch(tc_op_args *a, uint64_t size) { return ready(a) ? a->ref->scratch(a, size) : NULL; }

const tc_ref_view *tc_op_result_data(tc_op_args *a, int32_t result) {
  if (ready(a)) return a->ref->result(a, result);
  tc_op_fail(a, "data of result %d was asked for when there is none", result);
  return NULL;
}

const tc_ref_view *tc_op_alloc_result(tc_op_args *a, int32_t result, int32_t rank, const int64_t *sizes) {
  if (ready(a)) return a->ref->alloc(a, result, rank, sizes);
  tc_op_fail(a, "memory for result %d was asked for when there is none", result);
  return NULL;
}
