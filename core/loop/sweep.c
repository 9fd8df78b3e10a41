// Drops loop nodes that nothing needs: no output is, or is made from, their results. Buffers keep their numbers.
#include "core/loop/loop.h"

static void need_all(bool *needed, const tc_lnode *n) {
  for (int32_t i = 0; i < n->body.insts.count; i++) {
    if (n->body.insts.data[i].buf) needed[n->body.insts.data[i].buf->id] = true;
  }
  for (int32_t i = 0; i < n->n_operands; i++) needed[n->operands[i].buf->id] = true;
}

void tc_loops_sweep(tc_loops *l) {
  bool *needed = TC_NEW_ARRAY(l->arena, bool, l->bufs.count), *live = TC_NEW_ARRAY(l->arena, bool, l->nodes.count);
  for (int32_t i = 0; i < l->outputs.count; i++) {
    if (l->outputs.data[i].buf) needed[l->outputs.data[i].buf->id] = true;
  }
  for (int32_t i = l->nodes.count - 1; i >= 0; i--) { // readers come behind
    const tc_lnode *n = l->nodes.data[i];
    for (int32_t k = 0; k < n->n_outs; k++) live[i] |= needed[n->outs[k]->id] || n->outs[k]->inplace;
    if (live[i]) need_all(needed, n);
  }
  int32_t kept = 0;
  for (int32_t i = 0; i < l->nodes.count; i++) {
    tc_lnode *n = l->nodes.data[i];
    for (int32_t k = 0; k < n->n_outs && !live[i]; k++) n->outs[k]->def = NULL;
    if (!live[i]) continue;
    n->id = kept;
    l->nodes.data[kept++] = n;
  }
  l->nodes.count = kept;
}
