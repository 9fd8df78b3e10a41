// Taking expressions apart and building them anew: linear parts, replacement of symbols, copies into another context.
// All rebuild through the public operations, bottom up, each shared node once.
#include "core/symbolic/internal.h"

enum { FACTORS = 48, KIDS = 64 };

bool tc_sym_uses(const tc_sym *e, const tc_sym *symbol) {
  if (e == symbol) return true;
  node *k = nd(e);
  if (!(k->mask & nd(symbol)->mask)) return false;
  if (e->n == 0 || k->asked == symbol) return e->n > 0 && k->uses;
  bool uses = false;
  for (int32_t i = 0; i < e->n && !uses; i++) uses = tc_sym_uses(e->kids[i], symbol);
  k->asked = symbol; // so that shared nodes are walked once per question
  k->uses = uses;
  return uses;
}

bool tc_sym_linear(tc_sym_ctx *c, const tc_sym *e, const tc_sym *symbol, const tc_sym **out_coeff,
                   const tc_sym **out_rest) {
  const tc_sym *coeff = tc_sym_int(c, 0), *rest = e;
  if (!tc_sym_uses(e, symbol)) {
    *out_coeff = coeff;
    *out_rest = rest;
    return true;
  }
  terms t;
  tc_sym_terms(e, &t);
  rest = tc_sym_int(c, t.constant);
  for (int32_t i = 0; i < t.n; i++) {
    if (!tc_sym_uses(t.kids[i], symbol)) {
      rest = tc_sym_add(c, rest, t.kids[i]);
      continue;
    }
    const tc_sym *k = tc_sym_exact(c, t.kids[i], symbol);
    if (!k || tc_sym_uses(k, symbol)) return false;
    coeff = tc_sym_add(c, coeff, k);
  }
  *out_coeff = coeff;
  *out_rest = rest;
  return true;
}

// The operation of e's kind on other operands.
static const tc_sym *rebuild(tc_sym_ctx *c, const tc_sym *e, const tc_sym *const *k) {
  const tc_sym *r = k[0];
  switch (e->kind) {
  case TC_SYM_ADD:
    for (int32_t i = 1; i < e->n; i++) r = tc_sym_add(c, r, k[i]);
    return r;
  case TC_SYM_MUL:
    for (int32_t i = 1; i < e->n; i++) r = tc_sym_mul(c, r, k[i]);
    return r;
  case TC_SYM_FLOORDIV: return tc_sym_floordiv(c, k[0], k[1]);
  case TC_SYM_MOD: return tc_sym_mod(c, k[0], k[1]);
  case TC_SYM_MIN: return tc_sym_min(c, k[0], k[1]);
  case TC_SYM_MAX: return tc_sym_max(c, k[0], k[1]);
  case TC_SYM_POW: return tc_sym_pow(c, k[0], k[1]);
  case TC_SYM_AND: return tc_sym_and(c, k[0], k[1]);
  case TC_SYM_OR: return tc_sym_or(c, k[0], k[1]);
  case TC_SYM_NOT: return tc_sym_not(c, k[0]);
  case TC_SYM_WHERE: return tc_sym_where(c, k[0], k[1], k[2]);
  default: return tc_sym_cmp(c, e->kind, k[0], k[1]);
  }
}

typedef struct rewriting {
  uint32_t stamp; // memos of another rewriting do not count
  uint64_t mask;  // nodes without these symbols stay
  int32_t n;
  const tc_sym *const *from, *const *to;
  bool all; // simplify: rebuild everything, settle conditions
} rewriting;

static const tc_sym *rewrite(tc_sym_ctx *c, const rewriting *w, const tc_sym *e) {
  node *k = nd(e);
  if (e->kind == TC_SYM_CONST || (!w->all && !(k->mask & w->mask))) return e;
  if (e->kind == TC_SYM_SYMBOL) {
    for (int32_t i = 0; i < w->n; i++)
      if (w->from[i] == e) return w->to[i];
    return e;
  }
  if (k->rewrite_epoch == w->stamp) return k->rewritten;
  const tc_sym *local[KIDS];
  const tc_sym **kids = e->n <= KIDS ? local : TC_NEW_ARRAY(c->arena, const tc_sym *, e->n);
  bool changed = w->all;
  for (int32_t i = 0; i < e->n; i++) {
    kids[i] = rewrite(c, w, e->kids[i]);
    changed |= kids[i] != e->kids[i];
  }
  const tc_sym *r = changed ? rebuild(c, e, kids) : e;
  if (w->all && tc_sym_is_bool(r)) {
    int32_t known = tc_sym_truth(c, r);
    if (known >= 0) r = tc_sym_int(c, known);
  }
  k->rewrite_epoch = w->stamp;
  k->rewritten = r;
  return r;
}

const tc_sym *tc_sym_replace(tc_sym_ctx *c, const tc_sym *e, int32_t n, const tc_sym *const *from,
                             const tc_sym *const *to) {
  rewriting w = {++c->rewrites, 0, n, from, to, false};
  for (int32_t i = 0; i < n; i++) w.mask |= nd(from[i])->mask;
  return rewrite(c, &w, e);
}

const tc_sym *tc_sym_simplify(tc_sym_ctx *c, const tc_sym *e) {
  tc_sym_look(c);
  rewriting w = {++c->rewrites, 0, 0, NULL, NULL, true};
  return rewrite(c, &w, e);
}

// ---- copies into another context

typedef struct import {
  tc_sym_ctx *to, *from;
  tc_map *done; // node of `from` → node of `to`
} import;

static const tc_sym *copy(import *m, const tc_sym *e) {
  if (e->kind == TC_SYM_CONST) return tc_sym_int(m->to, e->value);
  tc_map_entry *known = tc_map_find_ptr(m->done, e);
  if (known) return known->value.ptr;
  const tc_sym *r;
  if (e->kind == TC_SYM_SYMBOL) {
    bool fresh = !tc_map_find(m->to->by_name, e->name);
    r = tc_sym_symbol(m->to, e->name);
    tc_map_put_ptr(m->done, e, NULL)->value.ptr = (void *)r; // before the bounds, which may come back to it
    if (fresh) {
      const tc_sym_info *info = &m->from->symbols.data[e->symbol]->info;
      tc_sym_info *out = tc_sym_info_of(m->to, r);
      tc_sv name = out->name;
      *out = *info;
      out->name = name;
      if (info->lo_expr) out->lo_expr = copy(m, info->lo_expr);
      if (info->hi_expr) out->hi_expr = copy(m, info->hi_expr);
    }
    return r;
  }
  const tc_sym *local[KIDS];
  const tc_sym **kids = e->n <= KIDS ? local : TC_NEW_ARRAY(m->to->arena, const tc_sym *, e->n);
  for (int32_t i = 0; i < e->n; i++) kids[i] = copy(m, e->kids[i]);
  r = rebuild(m->to, e, kids);
  tc_map_put_ptr(m->done, e, NULL)->value.ptr = (void *)r;
  return r;
}

const tc_sym *tc_sym_import(tc_sym_ctx *c, tc_sym_ctx *from, const tc_sym *e) {
  if (c == from) return e;
import m = {c, from, tc_map_create(c->arena) };
  return copy(&m, e);
}
