// Who uses what, and which pointwise nodes vanish into all their users because computing them again costs less than a
// trip through memory.
//
// A pointwise node is inlined everywhere if it has one load in all (nothing is computed twice, unless that load is a
// broadcast), or if it costs next to nothing and reads no more bytes than it writes. What feeds a template or a library
// call is inlined only into a template: what is free (an index, a cast, a constant), and anything into an operand of
// which the template loads each element once. What is made of several templates' results, for a user that reads those
// of others as well, stays apart: its last template's kernel can make it, and stores it where it would store its own.
#include "core/schedule/internal.h"

static void add_user(tc_sched *x, const tc_buf *b, tc_lnode *n) {
  tc_users *u = &x->users[b->id];
  u->loads++;
  if (u->nodes.count == 0 || tc_vec_last(&u->nodes) != n) tc_vec_push(x->arena, &u->nodes, n);
}

void tc_sched_users(tc_sched *x) {
  x->users = TC_NEW_ARRAY(x->arena, tc_users, x->l->bufs.count);
  for (int32_t i = 0; i < x->l->nodes.count; i++) {
    tc_lnode *n = x->l->nodes.data[i];
    for (int32_t k = 0; k < n->body.insts.count; k++) {
      if (n->body.insts.data[k].op == TC_B_LOAD) add_user(x, n->body.insts.data[k].buf, n);
    }
    for (int32_t k = 0; k < n->n_operands; k++) add_user(x, n->operands[k].buf, n);
  }
}

static int64_t points(tc_sched *x, const tc_lnode *n) {
  return tc_sym_hint_or(x->l->syms, tc_product(x->l, n->n_par + n->n_red, n->extents), 1 << 20);
}

// Is the value made from a template's result at the same indices, so that it can be made in the template's kernel?
// Gives up with yes after so many loads.
static bool from_template(tc_sched *x, const tc_lnode *n, int32_t *loads) {
  for (int32_t k = 0; k < n->body.insts.count; k++) {
    const tc_buf *b = n->body.insts.data[k].buf;
    tc_binst load = n->body.insts.data[k];
    load.cond = NULL;
    if (!b || !b->def || !tc_load_aligned(x->l, &load, n->n_par, n->vars, n->extents)) continue;
    if (b->def->kind == TC_LN_TEMPLATE || --*loads < 0) return true;
    if (b->def->kind == TC_LN_POINTWISE && from_template(x, b->def, loads)) return true;
  }
  return false;
}

// A template that loads each element of the operand once takes in what makes it, wherever that has no other user. What
// comes from a template may share a kernel with it as a step of its own (fuse.c), and is left alone.
static bool loaded_once(tc_sched *x, const tc_lnode *n, const tc_lnode *user) {
  const tc_buf *out = n->outs[0];
  int32_t loads = 64;
  if (x->users[out->id].loads != 1 || from_template(x, n, &loads)) return false;
  for (int32_t k = 0; k < user->n_operands; k++) {
    if (user->operands[k].buf == out && !(user->tmpl->local_operands >> k & 1)) return false;
  }
  return true;
}

// Results of templates that the node reads at its own indices, itself or in what is inlined into it, and nobody else.
static int32_t own_templates(tc_sched *x, const tc_lnode *n) {
  int32_t count = 0;
  for (int32_t k = 0; k < n->body.insts.count; k++) {
    const tc_binst *b = &n->body.insts.data[k];
    const tc_lnode *def = b->op == TC_B_LOAD ? b->buf->def : NULL;
    if (!def || b->cond || x->users[b->buf->id].loads != 1 || !tc_load_aligned(x->l, b, n->n_par, n->vars, n->extents))
      continue;
    if (def->kind == TC_LN_TEMPLATE) count++;
    else if (def->kind == TC_LN_POINTWISE && x->inlined[def->id]) count += own_templates(x, def);
  }
  return count;
}

static bool joins_templates(tc_sched *x, const tc_lnode *n, const tc_lnode *user) {
  int32_t loads = 64;
  if (user->kind != TC_LN_POINTWISE || user->n_par != n->n_par || own_templates(x, n) < 2) return false;
  for (int32_t k = 0; k < user->body.insts.count; k++) {
    const tc_buf *b = user->body.insts.data[k].buf;
    if (!b || !b->def || b == n->outs[0] || points(x, n) != points(x, user)) continue;
    if (b->def->kind == TC_LN_TEMPLATE || (b->def->kind == TC_LN_POINTWISE && from_template(x, b->def, &loads)))
      return true;
  }
  return false;
}

static bool should_inline(tc_sched *x, const tc_lnode *n) {
  const tc_buf *out = n->outs[0];
  const tc_users *u = &x->users[out->id];
  if (n->kind != TC_LN_POINTWISE || n->keep || out->output >= 0 || out->inplace || u->loads == 0) return false;
  int32_t cost = x->cost[n->id], loads = 0;
  int64_t read = 0, size = points(x, n), written = tc_buf_hint_bytes(x->l, out);
  for (int32_t k = 0; k < n->body.insts.count; k++) {
    const tc_binst *b = &n->body.insts.data[k];
    if (b->op != TC_B_LOAD) continue;
    if (b->buf->overwritten) return false; // what comes later reads something else there
    loads++;
    read += tc_buf_hint_bytes(x->l, b->buf);
    if (b->gather && u->loads > 1) return false;
  }
  for (int32_t i = 0; i < u->nodes.count; i++) {
    const tc_lnode *user = u->nodes.data[i];
    if (user->kind == TC_LN_CALL || (x->once[n->id] && !x->once[user->id])) return false;
    if (user->kind == TC_LN_TEMPLATE && (cost > 0 || loads > 1) && !loaded_once(x, n, user)) return false;
    if (user->kind == TC_LN_REDUCE || user->kind == TC_LN_POINTWISE) {
      int64_t repeat = points(x, user) / (size > 0 ? size : 1);
      if (repeat > 1 && cost > 0 && cost * (repeat - 1) > 16 && size > 1) return false;
      if (repeat > 4 && cost > 4) return false;
    }
  }
  if (u->loads == 1 && joins_templates(x, n, u->nodes.data[0])) return false;
  if (u->loads == 1 || cost == 0) return true;
  // Several loads: only if each reads no more through the body than it would read of the result. Users that end up in
  // one group share the value anyway (hold.c); one user gains where its loads together take each element once.
  bool apart = u->nodes.count > 1 || u->loads * points(x, u->nodes.data[0]) <= size;
  return cost <= 4 && read <= written && loads <= 1 && apart;
}

void tc_sched_inline(tc_sched *x) {
  int32_t n_nodes = x->l->nodes.count;
  x->inlined = TC_NEW_ARRAY(x->arena, bool, n_nodes);
  x->cost = TC_NEW_ARRAY(x->arena, int32_t, n_nodes);
  for (int32_t i = 0; i < n_nodes; i++) { // producers first, so that costs add up along chains
    tc_lnode *n = x->l->nodes.data[i];
    n->id = i;
    x->cost[i] = tc_body_cost(&n->body);
    for (int32_t k = 0; k < n->body.insts.count; k++) {
      const tc_binst *b = &n->body.insts.data[k];
      if (b->op == TC_B_LOAD && b->buf->def && x->inlined[b->buf->def->id]) x->cost[i] += x->cost[b->buf->def->id];
    }
    x->inlined[i] = x->o->fuse && ((x->again && tc_map_find_ptr(x->again, n)) || should_inline(x, n));
  }
}
