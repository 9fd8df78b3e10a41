// What plugins may see: a verified kernel without complex types, without mathematical functions, and without arithmetic
// on 16-bit floats (loads, stores, casts, bitcasts, selects and constants of them are fine).
#include "core/kernel/ir.h"

static tc_status refuse(const tc_kernel *k, const char *what, const char *detail) {
  return tc_error(TC_STATUS_INVALID_ARGUMENT, "kernel @" TC_SV_FMT " is not plain: %s (%s)", TC_SV_ARG(k->name), what,
                  detail);
}

static bool moves_only(int32_t op) {
  return op == TC_K_CONST || op == TC_K_SCALAR || op == TC_K_CAST || op == TC_K_BITCAST || op == TC_K_SELECT;
}

tc_status tc_kernel_verify_plain(const tc_kernel *k) {
  TC_TRY(tc_kernel_verify(k));
  for (int32_t i = 0; i < k->n_mems; i++)
    if (tc_dtype_is_complex(k->mems[i].dtype)) return refuse(k, "complex memory", tc_dtype_name(k->mems[i].dtype));
  for (int32_t i = 0; i < k->n_values; i++)
    if (tc_dtype_is_complex(k->values[i].dtype)) return refuse(k, "a complex value", tc_dtype_name(k->values[i].dtype));
  for (int32_t i = 0; i < k->n_insts; i++) {
    const tc_kinst *in = &k->insts[i];
    if (tc_k_op_class(in->op) == 'm') return refuse(k, "a mathematical function", tc_k_op_text(in->op));
    if (in->op >= TC_K_COMPLEX && in->op <= TC_K_ANGLE)
      return refuse(k, "an operation on complex numbers", tc_k_op_text(in->op));
    bool collective = in->op >= TC_K_REDUCE_ADD && in->op <= TC_K_REDUCE_OR;
    if ((!tc_kir_is_pure(in->op) && !collective) || moves_only(in->op)) continue;
    for (int32_t a = 0; a < in->n_args; a++) {
      tc_dtype d = k->values[in->args[a]].dtype;
      if (d == TC_F16 || d == TC_BF16) return refuse(k, "arithmetic on 16-bit floats", tc_k_op_text(in->op));
    }
  }
  return TC_OK;
}
