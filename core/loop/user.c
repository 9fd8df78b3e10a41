// Lowering ops with kernels by hand: a node becomes a call, which the plan makes a launch of (core/plan/user.c).
//
// Such a kernel sees memory from its first element on, row-major. Operands that lie otherwise are copied, unless they
// are buffers whose strides are still free; those that are declared strided stay as they lie where strides describe it.
// What the kernel changes are its first results: the first in the argument's own storage where that is allowed, else
// the plan copies the argument there first.
#include "core/ir/userop.h"
#include "core/loop/lo.h"

static bool begins_at_zero(tc_lo *lo, const tc_lview *v) {
  const tc_sym *strides[TC_MAX_RANK], *offset;
  return v->buf->strides && tc_lview_strides(lo->l, v, v->buf->strides, strides, &offset) && tc_sym_is_int(offset, 0);
}

static tc_status operand(tc_lo *lo, tc_value *value, tc_lview *out) {
  tc_tensor_type want = value->type;
  want.strides = tc_row_major(lo->l->module, want.rank, want.sizes);
  want.offset = tc_sym_int(lo->l->syms, 0);
  TC_TRY(lo_laid_out(lo, value, &want, false, out));
  if (begins_at_zero(lo, out)) return TC_OK;
  const tc_lview *copy = lo_copy_out(lo, out, &want, value->name);
  if (!copy) return tc_failure_take(&lo->failure);
  *out = *copy;
  return TC_OK;
}

static bool may_take(tc_lo *lo, const tc_buf *old, const tc_value *result) {
  if (!old || !tc_sym_is_int(old->offset, 0)) return false;
  const tc_sym *const *want = tc_row_major(lo->l->module, old->rank, old->sizes);
  for (int32_t d = 0; d < old->rank; d++)
    if (!old->strides || (!tc_sym_eq(lo->l->syms, old->strides[d], want[d]) && !tc_sym_is_int(old->sizes[d], 1)))
      return false;
  return old->dtype == result->type.dtype;
}

tc_status lo_user(tc_lo *lo, tc_node *n) {
  tc_lview *operands = TC_NEW_ARRAY(lo->l->arena, tc_lview, n->n_args);
  int32_t count = 0;
  for (int32_t i = 0; i < n->n_args; i++)
    if (n->args[i].kind == TC_AK_TENSOR)
      TC_TRY(tc_user_is_strided(n->op->user, i) ? lo_affine(lo, n->args[i].value, &operands[count++])
                                                : operand(lo, n->args[i].value, &operands[count++]));
  lo->node = n; // copies have nodes of their own
  lo_call_with(lo, count, operands);
  if (tc_failed(&lo->failure) || !n->op->user->mutates.count || !lo->results[0]) return TC_OK;
  const tc_buf *old = lo_in_place_of(lo);
  if (may_take(lo, old, n->results[0])) lo_take_storage((tc_buf *)lo->results[0]->buf, old);
  return TC_OK;
}
