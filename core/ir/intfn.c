// Symbolic integers for op rows: tc_int_* of tc/op.h over the context of the module (core/symbolic).
#include "core/ir/opargs.h"

tc_int tc_int_const(tc_op_args *a, int64_t v) { return tc_sym_int(a->syms, v); }
tc_int tc_int_add(tc_op_args *a, tc_int x, tc_int y) { return tc_sym_add(a->syms, x, y); }
tc_int tc_int_sub(tc_op_args *a, tc_int x, tc_int y) { return tc_sym_sub(a->syms, x, y); }
tc_int tc_int_mul(tc_op_args *a, tc_int x, tc_int y) { return tc_sym_mul(a->syms, x, y); }
tc_int tc_int_min(tc_op_args *a, tc_int x, tc_int y) { return tc_sym_min(a->syms, x, y); }
tc_int tc_int_max(tc_op_args *a, tc_int x, tc_int y) { return tc_sym_max(a->syms, x, y); }

// A division by a constant zero fails the call; by something else it is checked when evaluated.
static bool zero_divisor(tc_op_args *a, tc_int y) {
  if (!tc_sym_is_int(y, 0)) return false;
  tc_op_fail(a, "integer division by zero");
  return true;
}

tc_int tc_int_floordiv(tc_op_args *a, tc_int x, tc_int y) {
  return zero_divisor(a, y) ? tc_sym_int(a->syms, 0) : tc_sym_floordiv(a->syms, x, y);
}

tc_int tc_int_mod(tc_op_args *a, tc_int x, tc_int y) {
  return zero_divisor(a, y) ? tc_sym_int(a->syms, 0) : tc_sym_mod(a->syms, x, y);
}

int32_t tc_int_is_const(tc_int x, int64_t *out) {
  if (!x || !tc_sym_is_const(x)) return 0;
  if (out) *out = x->value;
  return 1;
}

int32_t tc_int_eq(tc_op_args *a, tc_int x, tc_int y) {
  return x == y ? 1 : tc_sym_prove(a->syms, tc_sym_cmp(a->syms, TC_SYM_EQ, x, y));
}

int32_t tc_int_lt(tc_op_args *a, tc_int x, tc_int y) {
  return tc_sym_prove(a->syms, tc_sym_cmp(a->syms, TC_SYM_LT, x, y));
}

int32_t tc_int_require_eq(tc_op_args *a, tc_int x, tc_int y) {
  int32_t known = tc_int_eq(a, x, y);
  if (known == 1) return TC_STATUS_OK;
  if (known == 0) return TC_STATUS_INVALID_ARGUMENT;
  if (a->module) tc_module_require(a->module, tc_sym_cmp(a->syms, TC_SYM_EQ, x, y));
  return TC_STATUS_OK;
}

int64_t tc_int_hint(tc_op_args *a, tc_int x, int64_t otherwise) { return tc_sym_hint_or(a->syms, x, otherwise); }
