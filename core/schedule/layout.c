// How values lie in memory between kernels.
//
// What goes through memory has the strides that PyTorch gives the value, since what reads it was written for them;
// helper buffers are row-major. The parts of complex numbers alternate, as in PyTorch, or lie in two planes: where
// lanes are SIMD elements and a template reads neighbouring elements by neighbouring lanes, planes save it taking pairs
// apart in its inner loop. Whoever writes or reads such a buffer does so by parts (kernel/emit_body.c); libraries and
// the host never see one.
#include "core/ir/opargs.h"
#include "core/schedule/internal.h"

#include "tc/plugin.h"

// Only kernels write and read it, it lies densely, and it belongs to nobody else.
static bool may_be_planar(const tc_sched *x, const tc_buf *b) {
  if (!tc_dtype_is_complex(b->dtype) || b->kind != TC_BUF_INTERNAL || b->output >= 0 || b->inplace || b->placed ||
      b->overwritten || !b->def || b->def->kind == TC_LN_CALL || b->def->store)
    return false;
  if (b->def->kind == TC_LN_TEMPLATE && (b->def->tmpl->flags & TC_TEMPLATE_OWN_RESULT)) return false;
  const tc_users *u = &x->users[b->id];
  for (int32_t i = 0; i < u->nodes.count; i++) {
    if (u->nodes.data[i]->kind == TC_LN_CALL) return false;
  }
  return tc_strides_dense(x->l->syms, b->rank, b->sizes, b->strides);
}

static void want_planes(tc_sched *x, const tc_lnode *n) {
  for (int32_t k = 0; k < n->n_operands && k < TC_TEMPLATE_PLANAR_OPERANDS; k++) {
    tc_buf *b = (tc_buf *)n->operands[k].buf;
    if (n->tmpl->flags & TC_TEMPLATE_PLANAR(k) && b->strides && may_be_planar(x, b)) b->planar = true;
  }
}

void tc_sched_layout(tc_sched *x) {
  tc_schedule *s = x->s;
  for (int32_t i = 0; i < s->groups.count; i++) {
    for (int32_t k = 0; k < s->groups.data[i]->writes.count; k++) {
      tc_buf *b = (tc_buf *)s->groups.data[i]->writes.data[k];
      if (!b->strides) b->strides = b->prefer ? b->prefer : tc_row_major(x->l->module, b->rank, b->sizes);
    }
  }
  if (!x->o->device || !x->o->device->simd_bytes) return;
  for (int32_t i = 0; i < x->l->nodes.count; i++) {
    if (x->l->nodes.data[i]->kind == TC_LN_TEMPLATE) want_planes(x, x->l->nodes.data[i]);
  }
}
