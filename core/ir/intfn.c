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

int32_t tc_op_require(tc_op_args *a, tc_int condition, const char *text, int32_t n, const tc_int *values) {
  int32_t known = tc_sym_prove(a->syms, condition);
  if (known == 1 || (a->moment != TC_MOMENT_META && a->moment != TC_MOMENT_LOWER)) return TC_STATUS_OK;
  if (known < 0 && a->graph) {
    tc_check c = {condition, tc_sv_printf(a->arena, TC_SV_FMT ": %s", TC_SV_ARG(a->called->full_name), text), n,
                  values};
    if (a->source.size)
      c.text = tc_sv_printf(a->arena, TC_SV_FMT "\n  at " TC_SV_FMT, TC_SV_ARG(c.text), TC_SV_ARG(a->source));
    tc_graph_add_check(a->graph, &c);
    return TC_STATUS_OK;
  }
  if (known < 0) return TC_STATUS_OK;
  tc_sb sb = tc_sb_make(a->arena);
  for (int32_t k = 0; *text; text++) {
    if (text[0] == '{' && text[1] == '}' && k < n) tc_sym_print(&sb, values[k++]), text++;
    else tc_sb_putc(&sb, *text);
  }
  return tc_op_fail(a, "%s", sb.text);
}

tc_int tc_int_wrap(tc_op_args *a, tc_int v, tc_int size) {
  tc_int negative = tc_sym_cmp(a->syms, TC_SYM_LT, v, tc_sym_int(a->syms, 0));
  return tc_sym_where(a->syms, negative, tc_sym_add(a->syms, v, size), v);
}

int32_t tc_op_wrap_index(tc_op_args *a, tc_int index, int64_t dim, tc_int size, tc_int *out) {
  tc_sym_ctx *c = a->syms;
  tc_int above = tc_sym_cmp(c, TC_SYM_LE, tc_sym_neg(c, size), index), below = tc_sym_cmp(c, TC_SYM_LT, index, size);
  tc_int values[] = {index, tc_sym_int(c, dim), size};
  *out = tc_int_wrap(a, index, size);
  if (tc_sym_prove(c, above) == 1) above = tc_sym_int(c, 1);
  return tc_op_require(a, tc_sym_and(c, above, below), "index {} is out of range for dimension {} of size {}", 3,
                       values);
}

int64_t tc_int_hint(tc_op_args *a, tc_int x, int64_t otherwise) { return tc_sym_hint_or(a->syms, x, otherwise); }
