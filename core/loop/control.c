// Lowering control flow: a node with regions becomes a call whose operands lie as its regions want them. The regions
// themselves stay graphs; plans lower them (core/plan/control.c).
//
// What the regions want: tensors with the strides of their inputs, without an offset; what is scanned has these strides
// behind its first dimension. An operand that lies otherwise is copied, unless it is a buffer whose strides are still
// free.
#include "core/ir/control.h"

#include "core/ir/opargs.h"
#include "core/loop/lo.h"

static bool same_strides(tc_loops *l, int32_t n, const tc_sym *const *sizes, const tc_sym *const *x,
                         const tc_sym *const *y) {
  for (int32_t d = 0; d < n; d++)
    if (!tc_sym_is_int(sizes[d], 1) && !tc_sym_eq(l->syms, x[d], y[d])) return false;
  return true;
}

tc_status lo_laid_out(tc_lo *lo, tc_value *value, const tc_tensor_type *want, bool scanned, tc_lview *out) {
  tc_loops *l = lo->l;
  const tc_lview *v = lo_value(lo, value);
  if (!v) return tc_failure_take(&lo->failure);
  tc_tensor_type whole = value->type;
  if (want->dtype != whole.dtype || want->rank + scanned != whole.rank)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "a region takes %%" TC_SV_FMT " as something else",
                    TC_SV_ARG(value->name));
  const tc_sym **strides = TC_NEW_ARRAY(l->arena, const tc_sym *, whole.rank), *have[TC_MAX_RANK], *offset;
  for (int32_t d = 0; d < want->rank; d++) strides[d + scanned] = want->strides[d];
  if (scanned) strides[0] = tc_type_numel(l->module, want);
  whole.strides = strides;
  tc_buf *b = (tc_buf *)v->buf;
  bool free =
      b->kind == TC_BUF_INTERNAL && !b->strides && tc_strides_dense(l->syms, whole.rank, whole.sizes, whole.strides);
  if (free) b->strides = lo_strides_behind(l, v, strides);
  bool fits = b->strides && tc_lview_strides(l, v, b->strides, have, &offset) &&
              same_strides(l, want->rank, whole.sizes + scanned, have + scanned, want->strides);
  if (!fits) v = lo_copy_out(lo, v, &whole, value->name);
  if (!v) return tc_failure_take(&lo->failure);
  *out = *v;
  return TC_OK;
}

// Regions of one node must want their common operands alike; they were imported for the same tensors.
static tc_status check_regions(tc_lo *lo, const tc_control *c) {
  for (int32_t i = 0; i < c->n_operands && c->n_regions == 2; i++) {
    const tc_tensor_type *x = &c->regions[0]->inputs.data[i].value->type,
                         *y = &c->regions[1]->inputs.data[i].value->type;
    if (x->rank != y->rank || x->dtype != y->dtype || !same_strides(lo->l, x->rank, x->sizes, x->strides, y->strides))
      return tc_error(TC_STATUS_UNIMPLEMENTED, "the regions want operand %d in different layouts", i);
  }
  return TC_OK;
}

tc_status lo_control(tc_lo *lo, tc_node *n) {
  tc_control c;
  tc_arena *arena = lo->l->arena;
  TC_TRY(tc_control_read(arena, n->op, n->n_args, n->args, &c));
  TC_TRY(check_regions(lo, &c));
  bool tensor = c.predicate && c.predicate->kind == TC_AK_TENSOR && c.predicate->value->kind == TC_VALUE_TENSOR;
  if (c.predicate && !tensor && c.predicate->value)
    return tc_error(TC_STATUS_UNIMPLEMENTED, "a choice by a number that comes from data");
  tc_lview *operands = TC_NEW_ARRAY(arena, tc_lview, c.n_operands + 1);
  int32_t count = 0;
  if (tensor) {
    tc_tensor_type truth = c.predicate->value->type;
    TC_TRY(lo_laid_out(lo, c.predicate->value, &truth, false, &operands[count++]));
  }
  for (int32_t i = 0; i < c.n_operands; i++) {
    bool scanned = i >= c.n_carry && i < c.n_carry + c.n_xs;
    TC_TRY(
        lo_laid_out(lo, c.operands[i], &tc_control_body(&c)->inputs.data[i].value->type, scanned, &operands[count++]));
  }
  for (int32_t i = 0; i < n->n_results; i++) {
    const tc_value *r = n->results[i];
    if (r->kind == TC_VALUE_TENSOR && !tc_strides_dense(lo->l->syms, r->type.rank, r->type.sizes, r->type.strides))
      return tc_error(TC_STATUS_UNIMPLEMENTED, "a result of a region whose elements share places");
  }
  lo->node = n;
  lo_call_with(lo, count, operands);
  return TC_OK;
}
