// Results that are written over what is read for the last time: pointwise work whose only result has the shape of an
// operand, and reads that operand at the element that it writes. Then the result may have the operand's place, and a
// run needs less memory at once. Kernels of such groups may not assume that the two lie apart (emit_body.c).
//
// Only where lanes are elements of a vector: where they are threads, loads that cannot pass stores cost more than the
// memory is worth.
#include "core/plan/plan_internal.h"

// A walk through the loads of a group.
typedef struct walk {
  tc_sym_ctx *syms;
  const tc_buf *r;
  const tc_sym *const *at; // the element that the group writes, over its variables
  int32_t seen;            // loads of r
} walk;

// Does the node, whose variables are `at`, read r at the group's element only?
static bool reads_in_place(walk *w, const tc_lnode *n, const tc_sym *const *at, int32_t depth) {
  enum { DEEPEST = 32 };
  if (depth > DEEPEST || n->kind != TC_LN_POINTWISE) return false;
  for (int32_t i = 0; i < n->body.insts.count; i++) {
    const tc_binst *b = &n->body.insts.data[i];
    if (b->op != TC_B_LOAD || (b->buf != w->r && !tc_buf_is_inlined(b->buf))) continue;
    const tc_sym *index[TC_MAX_RANK];
    if (b->gather) return false;
    for (int32_t d = 0; d < b->buf->rank; d++)
      index[d] = tc_sym_replace(w->syms, b->index[d], n->n_par + n->n_red, n->vars, at);
    if (b->buf != w->r) {
      if (!reads_in_place(w, b->buf->def, index, depth + 1)) return false;
      continue;
    }
    for (int32_t d = 0; d < b->buf->rank; d++)
      if (!tc_sym_eq(w->syms, index[d], w->at[d])) return false;
    w->seen++;
  }
  return true;
}

static bool same_layout(tc_sym_ctx *c, const tc_buf *a, const tc_buf *b) {
  if (tc_dtype_size(a->dtype) != tc_dtype_size(b->dtype) || a->rank != b->rank || a->planar != b->planar) return false;
  for (int32_t d = 0; d < a->rank; d++)
    if (!tc_sym_eq(c, a->sizes[d], b->sizes[d]) || !tc_sym_eq(c, a->strides[d], b->strides[d])) return false;
  return true;
}

static bool is_own(const tc_buf *b) {
  return b->kind == TC_BUF_INTERNAL && b->output < 0 && !b->inplace && !b->overwritten && !b->placed && b->strides;
}

// The step that writes the group's only result, if the group is one loop in which each element is written once.
static const tc_step *writer_of(tc_loops *l, const tc_group *g) {
  const tc_step *found = NULL;
  if (g->call || g->stage || g->once || g->n_red || g->n_phases > 1 || g->rows || g->writes.count != 1) return NULL;
  const tc_buf *o = g->writes.data[0];
  for (int32_t i = 0; i < g->steps.count; i++) {
    const tc_step *s = &g->steps.data[i];
    if (s->node->kind != TC_LN_POINTWISE) return NULL;
    if (s->node->n_outs == 1 && s->node->outs[0] == o && !s->node->store) found = s;
  }
  bool each = tc_sym_eq(l->syms, tc_product(l, g->n_par, g->extents), tc_product(l, o->rank, o->sizes));
  return found && each && found->node->n_par == o->rank ? found : NULL;
}

static bool may_lie_over(tc_loops *l, const tc_group *g, const tc_step *writer, const tc_buf *r) {
  walk w = {.syms = l->syms, .r = r, .at = writer->at};
  if (!is_own(r) || !same_layout(l->syms, writer->node->outs[0], r)) return false;
  for (int32_t i = 0; i < g->steps.count; i++)
    if (!reads_in_place(&w, g->steps.data[i].node, g->steps.data[i].at, 0)) return false;
  return w.seen > 0;
}

static void read_in(int32_t *last, const tc_lnode *n, int32_t group) {
  for (int32_t i = 0; n && i < n->n_operands; i++) last[n->operands[i].buf->id] = group;
}

void plan_find_over(tc_schedule *s) {
  enum { KEPT = INT32_MAX };
  tc_loops *l = s->loops;
  int32_t *last = TC_NEW_ARRAY(l->arena, int32_t, l->bufs.count); // by buffer: the group that reads it last
  for (int32_t i = 0; i < s->groups.count; i++) {
    const tc_group *g = s->groups.data[i];
    for (int32_t k = 0; k < g->reads.count; k++) last[g->reads.data[k]->id] = i;
    read_in(last, g->call, i);
    read_in(last, g->stage, i);
  }
  for (int32_t i = 0; i < s->groups.count; i++)
    for (int32_t k = 0; s->groups.data[i]->once && k < s->groups.data[i]->writes.count; k++)
      last[s->groups.data[i]->writes.data[k]->id] = KEPT;
  for (int32_t i = 0; i < l->outputs.count; i++)
    if (l->outputs.data[i].buf) last[l->outputs.data[i].buf->id] = KEPT;
  for (int32_t i = 0; i < s->groups.count; i++) {
    const tc_group *g = s->groups.data[i];
    const tc_step *writer = writer_of(l, g);
    tc_buf *o = writer ? writer->node->outs[0] : NULL;
    if (!o || !is_own(o)) continue;
    for (int32_t k = 0; k < g->reads.count && !o->over; k++)
      if (last[g->reads.data[k]->id] == i && may_lie_over(l, g, writer, g->reads.data[k])) o->over = g->reads.data[k];
  }
}
