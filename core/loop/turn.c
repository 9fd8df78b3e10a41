// Pointwise nodes next to a template take its order, so that they can share its kernel. In memory the values keep the
// strides that they would have had.
//
// In front: a transform along columns sees its operand with the dimensions in another order; where a pointwise node
// that nobody else reads makes this operand, its own dimensions can have that order as well. What the node reads may
// have been made by a template in the same order, and then all three share a kernel: `ifft2(fft2(x) * h)` is a pass, a
// kernel with both passes along the other dimension, and a pass.
//
// Behind: a template's result is often seen with its dimensions exchanged, and what is computed from it keeps that
// order only by name: PyTorch gives such values the strides of what they are computed from. `log(abs(stft(x)))` is
// [batch, frequency, time], lies in memory as the transforms made it, [batch, time, frequency], and is computed in that
// order.
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

// The other direction of an order: order[j] is d where from[d] is j.
static void invert(int32_t n, const int32_t *order, int32_t *from) {
  for (int32_t j = 0; j < n; j++) from[order[j]] = j;
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

// Does what comes before i have it, too?
static bool repeated(tc_lnode *const *users, int32_t i) {
  for (int32_t k = 0; k < i; k++)
    if (users[k] == users[i]) return true;
  return false;
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

static const tc_sym *const *expected_strides(tc_loops *l, const tc_buf *b) {
  return b->strides ? b->strides : b->prefer ? b->prefer : tc_row_major(l->module, b->rank, b->sizes);
}

// from[j]: which of the node's dimensions becomes its dimension j.
static void turn(turning *t, tc_lnode *n, const int32_t *from) {
  tc_loops *l = t->l;
  tc_buf *b = n->outs[0];
  b->prefer = in_order(l, b->rank, from, expected_strides(l, b));
  if (b->strides) b->strides = b->prefer;
  b->sizes = in_order(l, b->rank, from, b->sizes);
  n->extents = in_order(l, n->n_par, from, n->extents);
  n->vars = in_order(l, n->n_par, from, n->vars);
  t->turned[b->id] = true;
  turn_values(l, b, from);
  for (int32_t i = 0; i < t->users[b->id].count; i++) {
    tc_lnode *u = t->users[b->id].data[i];
    if (repeated(t->users[b->id].data, i)) continue;
    tc_lview *operands = tc_arena_copy(l->arena, u->operands, sizeof *operands * (size_t)u->n_operands);
    for (int32_t k = 0; k < u->n_operands; k++)
      if (operands[k].buf == b) operands[k].map = in_order(l, b->rank, from, operands[k].map);
    u->operands = operands;
    for (int32_t k = 0; k < u->body.insts.count; k++) {
      tc_binst *load = &u->body.insts.data[k];
      if (load->op == TC_B_LOAD && load->buf == b) load->index = in_order(l, b->rank, from, load->index);
    }
  }
}

// Is the order of the node's dimensions its own, and may it share a kernel with what it reads?
static bool may_follow(const turning *t, const tc_lnode *n) {
  const tc_buf *b = n->outs[0];
  if (n->kind != TC_LN_POINTWISE || n->n_outs != 1 || n->store || n->keep || b->inplace || b->overwritten ||
      b->placed || b->rank != n->n_par || t->turned[b->id])
    return false;
  for (int32_t i = 0; i < t->users[b->id].count; i++) { // whoever reads it by the element, and not row by row
    const tc_lnode *u = t->users[b->id].data[i];
    if (u->kind != TC_LN_POINTWISE) return false;
    for (int32_t k = 0; k < u->body.insts.count; k++)
      if (u->body.insts.data[k].buf == b && u->body.insts.data[k].gather) return false;
  }
  return true;
}

// Does a template, or a node behind one that was turned, make what the node reads, in another order, and does all that
// the node reads and writes lie in that order?
static bool made_in_order(const turning *t, const tc_lnode *n, int32_t *from) {
  tc_loops *l = t->l;
  int32_t order[TC_MAX_RANK], read[TC_MAX_RANK], last = n->n_par - 1;
  bool made = false, moved = false;
  for (int32_t k = 0; k < n->body.insts.count; k++) {
    const tc_binst *load = &n->body.insts.data[k];
    if (load->op != TC_B_LOAD || load->gather || load->cond) continue;
    if (!same_numbers(load->buf, n->n_par, n->vars, n->extents, load->index, read)) continue;
    const tc_lnode *def = load->buf->def;
    bool leads = def && (def->kind == TC_LN_TEMPLATE || t->turned[load->buf->id]);
    if (!leads) continue;
    if (made && memcmp(order, read, sizeof *order * (size_t)n->n_par) != 0) return false;
    memcpy(order, read, sizeof *order * (size_t)n->n_par);
    made = true;
  }
  for (int32_t j = 0; made && j <= last; j++) moved |= order[j] != j;
  if (!moved) return false;
  invert(n->n_par, order, from);
  const tc_sym *one = tc_sym_int(l->syms, 1);
  if (expected_strides(l, n->outs[0])[from[last]] != one) return false;
  for (int32_t k = 0; k < n->body.insts.count; k++) {
    const tc_binst *load = &n->body.insts.data[k];
    if (load->op != TC_B_LOAD || load->buf->rank != n->n_par) continue;
    if (!same_numbers(load->buf, n->n_par, n->vars, n->extents, load->index, read)) continue;
    if (expected_strides(l, load->buf)[read[from[last]]] != one) return false;
  }
  return true;
}

// In front from the last node to the first, so that readers have their order before what they read; then behind, the
// other way.
void tc_loops_turn(tc_loops *l) {
  turning t = {.l = l};
  int32_t from[TC_MAX_RANK];
  collect(&t);
  for (int32_t i = l->nodes.count - 1; i >= 0; i--) {
    tc_lnode *n = l->nodes.data[i];
    bool free = n->kind == TC_LN_POINTWISE && lo_may_be_cut(n) && !t.pinned[n->outs[0]->id];
    if (free && wanted_order(&t, n->outs[0], from)) turn(&t, n, from);
  }
  for (int32_t i = 0; i < l->nodes.count; i++) {
    tc_lnode *n = l->nodes.data[i];
    if (may_follow(&t, n) && made_in_order(&t, n, from)) turn(&t, n, from);
  }
}
