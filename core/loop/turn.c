// Pointwise nodes in front of a template take its order. A transform along columns sees its operand with the dimensions
// in another order; where a pointwise node that nobody else reads makes this operand, its own dimensions can have that
// order as well. What the node reads may have been made by a template in the same order, and then all three share a
// kernel: `ifft2(fft2(x) * h)` is a pass, a kernel with both passes along the other dimension, and a pass. In memory
// the value keeps the strides that it would have had.
#include <string.h>

#include "core/loop/lo.h"

typedef struct turning {
  tc_loops *l;
  TC_VEC(tc_lnode *) * users; // by buffer id, a node once per load or operand
  bool *pinned, *turned;      // by buffer id: an output of the program; its definer has taken another order
} turning;

static void add_use(turning *t, const tc_buf *b, tc_lnode *n) { tc_vec_push(t->l->arena, &t->users[b->id], n); }

static void collect(turning *t) {
  tc_loops *l = t->l;
  t->users = tc_arena_alloc(l->arena, sizeof *t->users * (size_t)(l->bufs.count + 1));
  memset(t->users, 0, sizeof *t->users * (size_t)(l->bufs.count + 1));
  t->pinned = TC_NEW_ARRAY(l->arena, bool, l->bufs.count);
  t->turned = TC_NEW_ARRAY(l->arena, bool, l->bufs.count);
  for (int32_t i = 0; i < l->nodes.count; i++) {
    tc_lnode *n = l->nodes.data[i];
    for (int32_t k = 0; k < n->body.insts.count; k++)
      if (n->body.insts.data[k].op == TC_B_LOAD) add_use(t, n->body.insts.data[k].buf, n);
    for (int32_t k = 0; k < n->n_operands; k++) add_use(t, n->operands[k].buf, n);
  }
  for (int32_t i = 0; i < l->outputs.count; i++)
    if (l->outputs.data[i].buf) t->pinned[l->outputs.data[i].buf->id] = true;
}

// The buffer's element at[0], at[1], … is read at the point `vars`: the same numbers in another order, if any. from[j]:
// the dimension of the buffer that number j of the point stands for.
static bool same_numbers(const tc_buf *b, int32_t n, const tc_sym *const *vars, const tc_sym *const *extents,
                         const tc_sym *const *at, int32_t *from) {
  if (n != b->rank) return false;
  for (int32_t j = 0; j < n; j++) {
    from[j] = -1;
    for (int32_t d = 0; d < n; d++)
      if (at[d] == vars[j]) from[j] = d;
    if (from[j] < 0 || extents[j] != b->sizes[from[j]]) return false;
  }
  return true;
}

// Do all readers want the same other order, and is one of them a template, or a node that was turned for one?
static bool wanted_order(const turning *t, const tc_buf *b, int32_t *from) {
  int32_t n = 0, other[TC_MAX_RANK];
  bool wanted = false, moved = false;
  for (int32_t i = 0; i < t->users[b->id].count; i++) {
    const tc_lnode *u = t->users[b->id].data[i];
    if (u->kind != TC_LN_TEMPLATE && u->kind != TC_LN_POINTWISE) return false;
    wanted |= u->kind == TC_LN_TEMPLATE || t->turned[u->outs[0]->id];
    for (int32_t k = 0; k < u->n_operands; k++) {
      const tc_lview *v = &u->operands[k];
      if (v->buf != b) continue;
      if (!(u->tmpl->local_operands >> k & 1)) return false;
      if (!same_numbers(b, v->rank, v->index, v->sizes, v->map, n++ ? other : from)) return false;
      if (n > 1 && memcmp(other, from, sizeof *from * (size_t)b->rank) != 0) return false;
    }
    for (int32_t k = 0; k < u->body.insts.count; k++) {
      const tc_binst *load = &u->body.insts.data[k];
      if (load->op != TC_B_LOAD || load->buf != b) continue;
      if (load->gather) return false;
      if (!same_numbers(b, u->n_par, u->vars, u->extents, load->index, n++ ? other : from)) return false;
      if (n > 1 && memcmp(other, from, sizeof *from * (size_t)b->rank) != 0) return false;
    }
  }
  for (int32_t d = 0; d < b->rank && n; d++) moved |= from[d] != d;
  return wanted && moved;
}

static const tc_sym *const *in_order(tc_loops *l, int32_t n, const int32_t *from, const tc_sym *const *x) {
  const tc_sym **y = TC_NEW_ARRAY(l->arena, const tc_sym *, n);
  for (int32_t j = 0; j < n; j++) y[j] = x[from[j]];
  return y;
}

// What is told of the graph's values (tc_loops.values) follows.
static void turn_values(tc_loops *l, const tc_buf *b, const int32_t *from) {
  for (int32_t i = 0; l->values && i < tc_map_count(l->values); i++) {
    tc_map_entry *e = tc_map_at(l->values, i);
    const tc_lview *v = e->value.ptr;
    if (!v || v->buf != b) continue;
    tc_lview *turned = tc_arena_copy(l->arena, v, sizeof *v);
    turned->map = in_order(l, b->rank, from, v->map);
    e->value.ptr = turned;
  }
}

static void turn(turning *t, tc_lnode *n, const int32_t *from) {
  tc_loops *l = t->l;
  tc_buf *b = n->outs[0];
  b->prefer = in_order(l, b->rank, from, b->prefer ? b->prefer : tc_row_major(l->module, b->rank, b->sizes));
  b->sizes = in_order(l, b->rank, from, b->sizes);
  n->extents = in_order(l, n->n_par, from, n->extents);
  n->vars = in_order(l, n->n_par, from, n->vars);
  t->turned[b->id] = true;
  turn_values(l, b, from);
  for (int32_t i = 0; i < t->users[b->id].count; i++) {
    tc_lnode *u = t->users[b->id].data[i];
    tc_lview *operands = tc_arena_copy(l->arena, u->operands, sizeof *operands * (size_t)u->n_operands);
    for (int32_t k = 0; k < u->n_operands; k++)
      if (operands[k].buf == b) operands[k].map = operands[k].index;
    u->operands = operands;
    for (int32_t k = 0; k < u->body.insts.count; k++)
      if (u->body.insts.data[k].op == TC_B_LOAD && u->body.insts.data[k].buf == b)
        u->body.insts.data[k].index = u->vars;
  }
}

// From the last node to the first, so that readers have their order before what they read.
void tc_loops_turn(tc_loops *l) {
  turning t = {.l = l};
  int32_t from[TC_MAX_RANK];
  collect(&t);
  for (int32_t i = l->nodes.count - 1; i >= 0; i--) {
    tc_lnode *n = l->nodes.data[i];
    bool free = n->kind == TC_LN_POINTWISE && lo_may_be_cut(n) && !t.pinned[n->outs[0]->id];
    if (free && wanted_order(&t, n->outs[0], from)) turn(&t, n, from);
  }
}
