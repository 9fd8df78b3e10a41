// Known zeros: rows of a template that are surely zero are not computed. A spectrum that is padded on its way back, or
// assembled from the modes that were kept, is zero behind some index of its rows; a linear template
// (TC_TEMPLATE_ZERO_ROWS) makes zeros of such rows. The node is cut to the rows in front, as demanded ranges are
// (demand.c), and a pointwise node gives the zeros, which whoever reads it takes in.
//
// An element is known to be zero if the body that makes it gives a zero under the ranges of the indices: constants,
// loads whose condition is surely false, and what keeps zeros (casts, signs, sums, products with finite constants).
#include <math.h>

#include "core/loop/lo.h"

enum { MOST_LOADS = 64 }; // that one answer may look at

static bool zero_value(tc_loops *l, const tc_lnode *n, int32_t v, const tc_sym *const *at, int32_t *loads);

static bool zero_element(tc_loops *l, const tc_buf *b, const tc_sym *const *at, int32_t *loads) {
  const tc_lnode *n = b->def;
  if (--*loads < 0 || !n || n->kind != TC_LN_POINTWISE || n->n_outs != 1 || n->store || b->inplace || b->overwritten)
    return false;
  return zero_value(l, n, n->body.results[0], at, loads);
}

static bool zero_load(tc_loops *l, const tc_lnode *n, const tc_binst *b, const tc_sym *const *at, int32_t *loads) {
  const tc_sym *index[TC_MAX_RANK];
  if (b->gather) return false;
  int known = 1;
  if (b->cond) known = tc_sym_prove(l->syms, tc_sym_replace(l->syms, b->cond, n->n_par, n->vars, at));
  if (known != 1 && !zero_value(l, n, b->args[0], at, loads)) return false;
  if (known == 0) return true;
  for (int32_t d = 0; d < b->buf->rank; d++) index[d] = tc_sym_replace(l->syms, b->index[d], n->n_par, n->vars, at);
  return zero_element(l, b->buf, index, loads);
}

// Is the value one of a few constants, none of them infinite or NaN, whatever the indices are?
static bool finite_value(const tc_lnode *n, int32_t v, int32_t *loads) {
  const tc_binst *b = &n->body.insts.data[v];
  const tc_lnode *def = b->op == TC_B_LOAD ? b->buf->def : NULL;
  switch (b->op) {
  case TC_K_CONST: return isfinite(b->re) && isfinite(b->im);
  case TC_B_LOAD:
    if (--*loads < 0 || !def || def->kind != TC_LN_POINTWISE || def->n_outs != 1 || def->store || b->buf->inplace ||
        b->buf->overwritten)
      return false;
    return (!b->cond || finite_value(n, b->args[0], loads)) && finite_value(def, def->body.results[0], loads);
  case TC_K_CAST: return finite_value(n, b->args[0], loads);
  case TC_K_SELECT: return finite_value(n, b->args[1], loads) && finite_value(n, b->args[2], loads);
  default: return false;
  }
}

static bool zero_product(tc_loops *l, const tc_lnode *n, const tc_binst *b, const tc_sym *const *at, int32_t *loads) {
  return (zero_value(l, n, b->args[0], at, loads) && finite_value(n, b->args[1], loads)) ||
         (zero_value(l, n, b->args[1], at, loads) && finite_value(n, b->args[0], loads));
}

static bool zero_value(tc_loops *l, const tc_lnode *n, int32_t v, const tc_sym *const *at, int32_t *loads) {
  const tc_binst *b = &n->body.insts.data[v];
  switch (b->op) {
  case TC_K_MUL: return zero_product(l, n, b, at, loads);
  case TC_K_FMA: return zero_product(l, n, b, at, loads) && zero_value(l, n, b->args[2], at, loads);
  case TC_K_CONST: return b->re == 0 && b->im == 0 && b->imm == 0;
  case TC_B_LOAD: return zero_load(l, n, b, at, loads);
  case TC_B_CHECK: return zero_value(l, n, b->args[1], at, loads);
  case TC_K_CAST:
  case TC_K_NEG:
  case TC_K_CONJ:
  case TC_K_REAL:
  case TC_K_IMAG: return zero_value(l, n, b->args[0], at, loads);
  case TC_K_ADD:
  case TC_K_SUB:
  case TC_K_COMPLEX: return zero_value(l, n, b->args[0], at, loads) && zero_value(l, n, b->args[1], at, loads);
  default: return false;
  }
}

// Is operand 0 zero wherever index `dim` is at least `from`?
static bool zero_from(tc_loops *l, const tc_lview *v, int32_t dim, int64_t from) {
  const tc_sym *index[TC_MAX_RANK], *at[TC_MAX_RANK];
  for (int32_t d = 0; d < v->rank; d++) {
    if (d == dim) {
      const tc_sym *behind = tc_loop_var(l, "i", tc_sym_addi(l->syms, v->sizes[d], -from));
      index[d] = tc_sym_addi(l->syms, behind, from);
    } else index[d] = v->index[d];
  }
  for (int32_t d = 0; d < v->buf->rank; d++) at[d] = tc_sym_replace(l->syms, v->map[d], v->rank, v->index, index);
  int32_t loads = MOST_LOADS;
  return zero_element(l, v->buf, at, &loads);
}

// The first index from which on all is zero; the size if there is none.
static int64_t first_zero(tc_loops *l, const tc_lview *v, int32_t dim) {
  int64_t size = v->sizes[dim]->value, lo = 0, hi = size;
  if (!zero_from(l, v, dim, size - 1)) return size;
  for (hi = size - 1; lo < hi;) {
    int64_t middle = lo + (hi - lo) / 2;
    if (zero_from(l, v, dim, middle)) hi = middle;
    else lo = middle + 1;
  }
  return hi;
}

static bool may_have_zeros(const tc_loops *l, const tc_lnode *n) {
  if (n->kind != TC_LN_TEMPLATE || !(n->tmpl->flags & TC_TEMPLATE_ZERO_ROWS) || !lo_may_be_cut(n)) return false;
  const tc_lview *v = &n->operands[0];
  for (int32_t i = 0; i < l->outputs.count; i++)
    if (l->outputs.data[i].buf == n->outs[0]) return false;
  return v->rank == n->n_par && v->buf->def && v->buf->def->kind == TC_LN_POINTWISE;
}

// `n` makes the first `need` elements of each dimension only; the node that is returned makes all of them of these.
static tc_lnode *pad(tc_loops *l, tc_lnode *n, const int64_t *need) {
  tc_buf *whole = n->outs[0], *part = tc_loops_buf(l, whole->name, whole->dtype, whole->rank, whole->sizes);
  tc_lnode *p = TC_NEW(l->arena, tc_lnode);
  *p = (tc_lnode){.kind = TC_LN_POINTWISE, .name = n->name, .source = n->source, .op = n->op, .n_par = n->n_par};
  p->extents = n->extents, p->n_outs = 1, p->outs = TC_NEW_ARRAY(l->arena, tc_buf *, 1);
  p->outs[0] = whole;
  n->outs = TC_NEW_ARRAY(l->arena, tc_buf *, 1);
  n->outs[0] = part;
  part->def = n, whole->def = p;
  const tc_sym **vars = TC_NEW_ARRAY(l->arena, const tc_sym *, n->n_par), *inside = NULL;
  for (int32_t d = 0; d < n->n_par; d++) {
    vars[d] = tc_loop_var(l, "i", n->extents[d]);
    if (need[d] == TC_SYM_INF) continue;
    const tc_sym *here = tc_sym_cmp(l->syms, TC_SYM_LT, vars[d], tc_sym_int(l->syms, need[d]));
    inside = inside ? tc_sym_and(l->syms, inside, here) : here;
  }
  p->vars = vars;
  tc_binst zero = {.op = TC_K_CONST, .dtype = whole->dtype};
  tc_binst load = {.op = TC_B_LOAD, .dtype = whole->dtype, .n_args = 1, .buf = part, .index = vars, .cond = inside};
  tc_vec_push(l->arena, &p->body.insts, zero);
  tc_vec_push(l->arena, &p->body.insts, load);
  p->body.results[0] = 1, p->body.n_results = 1;
  lo_cut(l, n, need);
  return p;
}

void tc_loops_zeros(tc_loops *l) {
  for (int32_t i = 0; i < l->nodes.count; i++) {
    tc_lnode *n = l->nodes.data[i];
    if (!may_have_zeros(l, n)) continue;
    int64_t need[TC_MAX_RANK], rows = 0;
    bool any = false;
    for (int32_t d = 0; d < n->n_par; d++) {
      need[d] = TC_SYM_INF;
      if (d == n->n_par - 1 || !tc_sym_is_const(n->extents[d]) || n->operands[0].sizes[d] != n->extents[d]) continue;
      rows = first_zero(l, &n->operands[0], d);
      if (rows < 1 || rows >= n->extents[d]->value) continue;
      need[d] = rows;
      any = true;
    }
    if (!any) continue;
    tc_vec_push(l->arena, &l->nodes, NULL);
    for (int32_t k = l->nodes.count - 1; k > i + 1; k--) l->nodes.data[k] = l->nodes.data[k - 1];
    l->nodes.data[++i] = pad(l, n, need);
  }
}
