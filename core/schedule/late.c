// Groups of two templates whose rows have different lengths: a transform of real rows, work on its spectrum, and the
// transform back. The group's extents are those of the first; members with the second one's sizes are "late": they run
// in its stores, are mapped to the group's variables as they are, and are never held on chip.
#include "core/schedule/internal.h"

const tc_lnode *tc_sched_late_stage(const tc_group *g) {
  for (int32_t i = 0; i < g->steps.count && g->stage && g->n_red == 1; i++) {
    const tc_lnode *n = g->steps.data[i].node;
    if (n->kind == TC_LN_TEMPLATE && n->n_par == g->n_par + 1 && n->extents[g->n_par] != g->extents[g->n_par]) return n;
  }
  return NULL;
}

bool tc_sched_is_late(const tc_lnode *late, const tc_lnode *n) {
  if (!late || n->n_par != late->n_par || n->n_red) return false;
  if (n != late && n->kind != TC_LN_POINTWISE) return false;
  for (int32_t d = 0; d < n->n_par; d++) {
    if (n->extents[d] != late->extents[d]) return false;
  }
  return true;
}
