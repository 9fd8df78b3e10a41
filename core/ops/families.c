// The list of families.
#include "core/ops/ops.h"

tc_status tc_ops_register_core(tc_op_registry *r) {
  static const tc_op_family *const all[] = {
#define X(family) &tc_ops_##family,
      TC_OP_FAMILIES(X)
#undef X
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    for (int32_t k = 0; k < all[i]->n; k++) TC_TRY(tc_op_register(r, &all[i]->rows[k], TC_SV("")));
  }
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    for (int32_t k = 0; k < all[i]->n_derivatives; k++) TC_TRY(tc_op_derive(r, "aten", &all[i]->derivatives[k]));
    for (int32_t k = 0; k < all[i]->n_refusals; k++) TC_TRY(tc_op_refuse(r, "aten", &all[i]->refusals[k]));
    for (int32_t k = 0; k < all[i]->n_restrictions; k++) TC_TRY(tc_op_restrict(r, "aten", &all[i]->restrictions[k]));
  }
  return TC_OK;
}
