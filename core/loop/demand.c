// Demanded ranges: what nobody reads is not computed. A slice `irfft(…)[..., :n]` or `rfft2(x)[..., :m, :m]` reads the
// first elements of a dimension only; the node that makes them is cut to that size, and what it reads shrinks with it,
// up to the inputs. What follows then has the same domain as the node and can join its kernel.
//
// Nodes are visited from the last to the first, so all readers of a buffer have their final extents when its definer
// is looked at. Cut are pointwise nodes and templates that say they can be (TC_TEMPLATE_LEADING), in dimensions of
// constant size; the beginning of a range is always 0.
#include <string.h>

#include "core/loop/lo.h"
#include "core/loop/template.h"

typedef struct demand {
  tc_loops *l;
  int64_t **need; // by buffer id: elements wanted per dimension; NULL: not read so far
} demand;

// The first `count` elements of a dimension are wanted; TC_SYM_INF: all.
static void want(demand *d, const tc_buf *b, int32_t dim, int64_t count) {
  if (!d->need[b->id]) d->need[b->id] = TC_NEW_ARRAY(d->l->arena, int64_t, b->rank + 1);
  if (count > d->need[b->id][dim]) d->need[b->id][dim] = count;
}

static void want_all(demand *d, const tc_buf *b) {
  for (int32_t k = 0; k < b->rank; k++) want(d, b, k, TC_SYM_INF);
}

static void want_index(demand *d, const tc_buf *b, int32_t dim, const tc_sym *index) {
  int64_t lo, hi;
  tc_sym_range(d->l->syms, index, &lo, &hi);
  want(d, b, dim, hi < 0 ? 0 : hi >= TC_SYM_INF - 1 ? TC_SYM_INF : hi + 1);
}

static void want_loads(demand *d, const tc_lnode *n) {
  for (int32_t i = 0; i < n->body.insts.count; i++) {
    const tc_binst *b = &n->body.insts.data[i];
    for (int32_t k = 0; b->op == TC_B_LOAD && k < b->buf->rank; k++) {
      if (b->gather && b->gather[k] >= 0) want(d, b->buf, k, TC_SYM_INF);
      else want_index(d, b->buf, k, b->index[k]);
    }
  }
}

static void want_operands(demand *d, const tc_lnode *n) {
  for (int32_t i = 0; i < n->n_operands; i++) {
    const tc_lview *v = &n->operands[i];
    for (int32_t k = 0; k < v->buf->rank; k++) {
      if (n->kind == TC_LN_TEMPLATE) want_index(d, v->buf, k, v->map[k]);
      else want(d, v->buf, k, TC_SYM_INF);
    }
  }
}

// ---- cutting ----
bool lo_may_be_cut(const tc_lnode *n) {
  if (n->n_outs != 1 || n->n_red || n->store || n->keep) return false;
  bool leading = n->kind == TC_LN_TEMPLATE && n->tmpl->flags & TC_TEMPLATE_LEADING;
  if (!leading && n->kind != TC_LN_POINTWISE) return false;
  const tc_buf *b = n->outs[0];
  return b->kind == TC_BUF_INTERNAL && b->output < 0 && !b->strides && !b->inplace && !b->overwritten && !b->placed &&
         b->rank == n->n_par;
}

// Rows that are not wanted are not read either: operand k has the node's indices in all dimensions but the last.
static void cut_operand(tc_loops *l, const tc_lnode *n, tc_lview *v) {
  if (v->rank != n->n_par) return;
  const tc_sym **sizes = tc_arena_copy(l->arena, v->sizes, sizeof *sizes * (size_t)v->rank);
  const tc_sym **index = tc_arena_copy(l->arena, v->index, sizeof *index * (size_t)v->rank);
  const tc_sym **map = tc_arena_copy(l->arena, v->map, sizeof *map * (size_t)v->buf->rank);
  for (int32_t k = 0; k < v->rank; k++) {
    if (k + 1 < v->rank) sizes[k] = n->extents[k];
    index[k] = tc_loop_var(l, "i", sizes[k]);
  }
  for (int32_t k = 0; k < v->buf->rank; k++) map[k] = tc_sym_replace(l->syms, map[k], v->rank, v->index, index);
  *v = (tc_lview){.buf = v->buf, .rank = v->rank, .sizes = sizes, .index = index, .map = map};
}

// Loads and numbers of the body by other variables: what a smaller range makes plain is made plain.
static void rename_body(tc_loops *l, tc_lnode *n, const tc_sym *const *to) {
  tc_sym_ctx *c = l->syms;
  for (int32_t i = 0; i < n->body.insts.count; i++) {
    tc_binst *b = &n->body.insts.data[i];
    if (b->cond) b->cond = tc_sym_replace(c, b->cond, n->n_par, n->vars, to);
    if (b->expr) b->expr = tc_sym_replace(c, b->expr, n->n_par, n->vars, to);
    if (!b->index) continue;
    const tc_sym **index = TC_NEW_ARRAY(l->arena, const tc_sym *, b->buf->rank);
    for (int32_t k = 0; k < b->buf->rank; k++)
      index[k] = b->index[k] ? tc_sym_replace(c, b->index[k], n->n_par, n->vars, to) : NULL;
    b->index = index;
  }
}

void lo_cut(tc_loops *l, tc_lnode *n, const int64_t *need) {
  tc_buf *b = n->outs[0];
  const tc_sym **sizes = tc_arena_copy(l->arena, b->sizes, sizeof *sizes * (size_t)b->rank);
  const tc_sym **extents = tc_arena_copy(l->arena, n->extents, sizeof *extents * (size_t)n->n_par);
  const tc_sym **vars = tc_arena_copy(l->arena, n->vars, sizeof *vars * (size_t)n->n_par);
  bool any = false;
  for (int32_t k = 0; k < b->rank; k++) {
    if (!tc_sym_is_const(sizes[k]) || extents[k] != sizes[k] || need[k] < 1 || need[k] >= sizes[k]->value) continue;
    sizes[k] = extents[k] = tc_sym_int(l->syms, need[k]);
    any = true;
  }
  if (!any) return;
  // All of them anew: sums are ordered by the age of their variables, and a text that is read back has them in order.
  for (int32_t k = 0; k < n->n_par; k++) vars[k] = tc_loop_var(l, "i", extents[k]);
  b->sizes = sizes;
  b->prefer = NULL; // strides were promised for the whole
  n->extents = extents;
  rename_body(l, n, vars);
  n->vars = vars;
  if (n->kind != TC_LN_TEMPLATE) return;
  tc_lview *operands = tc_arena_copy(l->arena, n->operands, sizeof *operands * (size_t)n->n_operands);
  for (int32_t k = 0; k < n->n_operands; k++)
    if (n->tmpl->local_operands >> k & 1) cut_operand(l, n, &operands[k]);
  n->operands = operands;
}

void tc_loops_demand(tc_loops *l) {
  demand d = {.l = l, .need = TC_NEW_ARRAY(l->arena, int64_t *, l->bufs.count)};
  for (int32_t i = 0; i < l->outputs.count; i++)
    if (l->outputs.data[i].buf) want_all(&d, l->outputs.data[i].buf);
  for (int32_t i = l->nodes.count - 1; i >= 0; i--) {
    tc_lnode *n = l->nodes.data[i];
    for (int32_t k = 0; k < n->n_outs; k++)
      if (n->outs[k]->inplace) want_all(&d, n->outs[k]->inplace);
    const int64_t *need = n->n_outs == 1 ? d.need[n->outs[0]->id] : NULL;
    if (need && lo_may_be_cut(n)) lo_cut(l, n, need);
    want_loads(&d, n);
    want_operands(&d, n);
  }
}
