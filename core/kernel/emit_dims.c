// Which dimensions can be walked as one, and which one lanes should run along.
//
// Two variables u, v (v inner) of one class join into one of extent E_u·E_v when every address is linear in both with
// coeff_u = coeff_v·E_v and no condition or index value uses them: then u → 0, v → w gives the same addresses. Lanes
// run along the variable for which the bytes accessed lie closest together: what does not depend on it is the same for
// all lanes and costs nothing. Among equals it is the one that has stride 1 in most of them.
#include "core/kernel/emit_internal.h"

typedef struct access {
  const tc_sym *address; // elements
  int32_t bytes;
} access;

typedef struct scan {
  TC_VEC(access) accesses;
  TC_VEC(const tc_sym *) others; // conditions, index values
} scan;

static void scan_load(tc_em *e, scan *s, const tc_lnode *n, const tc_sym *const *at, const tc_buf *b,
                      const tc_sym *const *index, int32_t n_vars, const tc_sym *const *vars);

static void scan_body(tc_em *e, scan *s, const tc_lnode *n, const tc_sym *const *at) {
  int32_t n_vars = n->n_par + n->n_red;
  for (int32_t i = 0; i < n->body.insts.count; i++) {
    const tc_binst *b = &n->body.insts.data[i];
    if (b->op == TC_B_INDEX) tc_vec_push(e->arena, &s->others, tc_sym_replace(e->syms, b->expr, n_vars, n->vars, at));
    if (b->op != TC_B_LOAD) continue;
    if (b->cond) tc_vec_push(e->arena, &s->others, tc_sym_replace(e->syms, b->cond, n_vars, n->vars, at));
    scan_load(e, s, n, at, b->buf, b->index, n_vars, n->vars);
  }
}

static void scan_load(tc_em *e, scan *s, const tc_lnode *n, const tc_sym *const *at, const tc_buf *b,
                      const tc_sym *const *index, int32_t n_vars, const tc_sym *const *vars) {
  (void)n;
  const tc_sym *mapped[TC_MAX_RANK];
  for (int32_t d = 0; d < b->rank; d++) mapped[d] = tc_sym_replace(e->syms, index[d], n_vars, vars, at);
  if (b->def && em_step_of(e, b->def) >= 0) return; // scanned as a step
  if (tc_buf_is_inlined(b)) {
    scan_body(e, s, b->def, mapped);
    return;
  }
  access a = {em_address(e, b, mapped), tc_dtype_size(b->dtype)};
  tc_vec_push(e->arena, &s->accesses, a);
}

static scan scan_group(tc_em *e) {
  scan s = {0};
  for (int32_t i = 0; i < e->g->steps.count; i++) {
    const tc_step *st = &e->g->steps.data[i];
    if (st->node->kind == TC_LN_TEMPLATE) continue;
    scan_body(e, &s, st->node, e->at[i]);
    for (int32_t k = 0; k < st->node->n_outs && st->stores && st->hold != TC_HOLD_COLUMN; k++) {
      const tc_buf *b = st->node->outs[k];
      if (!b->strides) continue;
      access a = {em_address(e, b, em_store_index(e, st->node, e->at[i])),
                  2 * tc_dtype_size(b->dtype)}; // a strided store costs more than a strided load
      tc_vec_push(e->arena, &s.accesses, a);
    }
  }
  return s;
}

static bool can_join(tc_em *e, const scan *s, const tc_sym *u, const tc_sym *v, const tc_sym *extent_v) {
  for (int32_t i = 0; i < s->others.count; i++) {
    if (tc_sym_uses(s->others.data[i], u) || tc_sym_uses(s->others.data[i], v)) return false;
  }
  for (int32_t i = 0; i < s->accesses.count; i++) {
    const tc_sym *cu, *cv, *rest;
    if (!tc_sym_linear(e->syms, s->accesses.data[i].address, u, &cu, &rest)) return false;
    if (!tc_sym_linear(e->syms, rest, v, &cv, &rest)) return false;
    if (tc_sym_mul(e->syms, cv, extent_v) != cu) return false;
  }
  return true;
}

void em_replace_vars(tc_em *e, int32_t n_vars, const tc_sym *const *from, const tc_sym *const *to) {
  for (int32_t i = 0; i < e->g->steps.count; i++) {
    const tc_lnode *n = e->g->steps.data[i].node;
    const tc_sym **at = TC_NEW_ARRAY(e->arena, const tc_sym *, n->n_par + n->n_red);
    for (int32_t k = 0; k < n->n_par + n->n_red; k++) at[k] = tc_sym_replace(e->syms, e->at[i][k], n_vars, from, to);
    e->at[i] = at;
  }
}

static void remove_var(tc_em *e, int32_t d) {
  for (int32_t k = d; k + 1 < e->n_par + e->n_red; k++) {
    e->vars[k] = e->vars[k + 1];
    e->extents[k] = e->extents[k + 1];
  }
  if (d < e->n_par) e->n_par--;
  else e->n_red--;
}

// False, and nothing has changed, if an address does not come out linear in the joined variable, as is wanted: indices
// that were simplified one by one need not meet again.
static bool join(tc_em *e, int32_t iu, int32_t iv, bool linear) {
  tc_loops *l = e->l;
  const tc_sym *extent = tc_sym_mul(l->syms, e->extents[iu], e->extents[iv]);
  const tc_sym *w = tc_sym_fresh(l->syms, "w", TC_SYM_LOOP), *from[2] = {e->vars[iu], e->vars[iv]};
  tc_sym_info *info = tc_sym_info_of(l->syms, w);
  int64_t lo, hi;
  tc_sym_range(l->syms, extent, &lo, &hi);
  info->lo = 0;
  info->hi = hi == TC_SYM_INF ? hi : hi > 0 ? hi - 1 : 0;
  info->hi_expr = tc_sym_addi(l->syms, extent, -1);
  const tc_sym *to[2] = {tc_sym_floordiv(l->syms, w, e->extents[iv]), tc_sym_mod(l->syms, w, e->extents[iv])};
  size_t bytes = (size_t)e->g->steps.count * sizeof *e->at;
  const tc_sym *const **before = tc_arena_copy(e->arena, e->at, bytes);
  em_replace_vars(e, 2, from, to);
  scan after = scan_group(e);
  for (int32_t i = 0; i < after.accesses.count && linear; i++) {
    const tc_sym *coeff, *rest;
    if (tc_sym_linear(l->syms, after.accesses.data[i].address, w, &coeff, &rest)) continue;
    e->at = before;
    return false;
  }
  e->vars[iv] = w;
  e->extents[iv] = extent;
  remove_var(e, iu);
  return true;
}

static bool join_any(tc_em *e, const scan *s) {
  int32_t n = e->n_par + e->n_red;
  for (int32_t u = 0; u < n; u++) {
    for (int32_t v = 0; v < n; v++) {
      bool same = (u < e->n_par) == (v < e->n_par);
      if (e->g->rows && u < e->n_par && v != u + 1) continue; // a block's rows follow each other in the group's order
      if (u == v || !same || !can_join(e, s, e->vars[u], e->vars[v], e->extents[v])) continue;
      if (join(e, u, v, true)) return true;
    }
  }
  return false;
}

// Variables of extent 1 are 0.
static void drop_ones(tc_em *e) {
  for (int32_t d = 0; d < e->n_par + e->n_red;) {
    if (!tc_sym_is_int(e->extents[d], 1)) {
      d++;
      continue;
    }
    const tc_sym *zero = tc_sym_int(e->syms, 0);
    em_replace_vars(e, 1, &e->vars[d], &zero);
    remove_var(e, d);
  }
}

int32_t em_transposed_dim(tc_em *e, int32_t lane_var) {
  scan s = scan_group(e);
  for (int32_t d = 0; d < e->n_par + e->n_red; d++) {
    bool found = false, clean = d != lane_var;
    for (int32_t i = 0; i < s.others.count; i++) clean &= !tc_sym_uses(s.others.data[i], e->vars[d]);
    for (int32_t i = 0; i < s.accesses.count && clean; i++) {
      const tc_sym *c, *rest;
      const tc_sym *address = s.accesses.data[i].address;
      if (!tc_sym_linear(e->syms, address, e->vars[d], &c, &rest)) clean = false;
      else
        found |= tc_sym_is_int(c, 1) && tc_sym_uses(address, e->vars[lane_var]); // else it is read once for all lanes
    }
    if (clean && found) return d;
  }
  return -1;
}

// The greater of `n` and the powers of two up to MOST_TOGETHER that the expression divides the variable by.
enum { MOST_TOGETHER = 4 };
static int64_t divisors(const tc_sym *x, const tc_sym *var, int64_t n) {
  if (!tc_sym_uses(x, var)) return n;
  bool divides = (x->kind == TC_SYM_FLOORDIV || x->kind == TC_SYM_MOD) && tc_sym_is_const(x->kids[1]);
  int64_t by = divides ? x->kids[1]->value : 0;
  if (by > n && by <= MOST_TOGETHER && (by & (by - 1)) == 0) n = by;
  for (int32_t i = 0; i < x->n; i++) n = divisors(x->kids[i], var, n);
  return n;
}

int32_t em_together(tc_em *e, int32_t lane_var) {
  enum { LEAST = 4 };
  const tc_sym *var = e->vars[lane_var], *extent = e->extents[lane_var];
  scan s = scan_group(e);
  int64_t n = 1;
  for (int32_t i = 0; i < s.accesses.count; i++) n = divisors(s.accesses.data[i].address, var, n);
  for (int32_t i = 0; i < s.others.count; i++) n = divisors(s.others.data[i], var, n);
  bool even = tc_sym_is_int(tc_sym_mod(e->syms, extent, tc_sym_int(e->syms, n)), 0);
  for (int32_t i = 0; i < e->g->writes.count; i++)
    even &= n * tc_dtype_size(e->g->writes.data[i]->dtype) <= EM_AT_ONCE; // else they would be stored one by one
  return even && tc_sym_hint_or(e->syms, extent, 0) >= LEAST * n ? (int32_t)n : 1;
}

// How often an access is made, against one per row: as often as a row has elements if it depends on which.
static int64_t times(tc_em *e, const access *a) {
  enum { MOST = 4096 };
  int64_t n = tc_sym_hint_or(e->syms, tc_product(e->l, e->n_red, e->extents + e->n_par), MOST);
  for (int32_t d = e->n_par; d < e->n_par + e->n_red; d++) {
    if (tc_sym_uses(a->address, e->vars[d])) return n < 1 ? 1 : n < MOST ? n : MOST;
  }
  return 1;
}

// Short windows (pooling, sums over a few elements) leave most lanes of a vector idle along the window: lanes then run
// along a parallel variable whose neighbours lie so close that vectors and shuffles reach them. -1: there is none.
static int32_t beside_windows(tc_em *e, const scan *s) {
  enum { LONGEST = 64, LEAST = 8, MAX_STRIDE = 8 };
  const tc_sym *window = tc_product(e->l, e->n_red, e->extents + e->n_par);
  int64_t best_extent = LEAST - 1, size = tc_sym_is_const(window) ? window->value : LONGEST + 1;
  int32_t best = -1;
  if (e->n_red == 0 || size > LONGEST || e->g->n_phases != 1 || e->g->rows) return -1;
  for (int32_t d = 0; d < e->n_par; d++) {
    int64_t extent = tc_sym_hint_or(e->syms, e->extents[d], LEAST);
    bool close = extent > best_extent;
    for (int32_t i = 0; i < s->accesses.count && close; i++) {
      const tc_sym *c, *rest;
      close = tc_sym_linear(e->syms, s->accesses.data[i].address, e->vars[d], &c, &rest) && tc_sym_is_const(c) &&
              c->value >= 0 && c->value <= MAX_STRIDE;
    }
    if (close) best = d, best_extent = extent;
  }
  return best;
}

// How far neighbours in a variable lie apart, beyond neighbours in memory; -1: the access does not depend on it.
static int64_t gap(tc_em *e, const access *a, const tc_sym *var) {
  enum { FAR = 16, QUOTIENTS = 1 }; // each in a cache line of its own; such as two by two, which alternate or repeat
  const tc_sym *c, *rest;
  if (!tc_sym_uses(a->address, var)) return -1;
  if (!tc_sym_linear(e->syms, a->address, var, &c, &rest)) return QUOTIENTS;
  if (!tc_sym_is_const(c)) return FAR;
  int64_t stride = c->value < 0 ? -c->value : c->value;
  return stride < 1 ? 0 : stride < FAR ? stride - 1 : FAR;
}

typedef struct spread {
  int64_t bytes, together;
} spread;

// How far what neighbours in a variable access lies apart, and how much of it lies together.
static spread spread_of(tc_em *e, const scan *s, int32_t d) {
  enum { LANES = 8 };
  spread r = {0};
  int64_t extent = tc_sym_hint_or(e->syms, e->extents[d], LANES);
  for (int32_t i = 0; i < s->accesses.count; i++) {
    const access *a = &s->accesses.data[i];
    int64_t between = gap(e, a, e->vars[d]), bytes = a->bytes * times(e, a);
    if (between == 0) r.together += bytes;
    if (between >= 0) r.bytes += bytes * (1 + between);
  }
  if (extent < LANES) r.bytes *= LANES / (extent < 1 ? 1 : extent); // the others are idle
  return r;
}

// The best of the first n variables; `otherwise` where all lanes would be alike.
static int32_t best_of(tc_em *e, const scan *s, int32_t n, int32_t otherwise) {
  int32_t best = otherwise;
  spread least = {INT64_MAX, 0};
  for (int32_t d = 0; d < n; d++) {
    spread x = spread_of(e, s, d);
    bool worse = x.bytes > least.bytes || (x.bytes == least.bytes && x.together < least.together);
    if (!x.bytes || worse) continue; // later variables win ties
    best = d, least = x;
  }
  return best;
}

int64_t em_cost(const tc_em *e) {
  int64_t cost = 1;
  for (int32_t i = 0; i < e->g->steps.count; i++) cost += tc_body_cost(&e->g->steps.data[i].node->body);
  return cost;
}

// Are rows gone through more than once?
static bool goes_again(tc_em *e) {
  for (int32_t i = 0; i < e->g->steps.count; i++) {
    const tc_step *st = &e->g->steps.data[i];
    if (st->node->kind == TC_LN_REDUCE ? st->phase > 0 : st->phase > 0 && st->stores && !em_step_is_row(e, i))
      return true;
  }
  return false;
}

// A block of threads for a short row, or a short window, leaves most of them idle: there each thread has a row, whose
// lines stay in the cache between its elements. Rows of which all elements are written may be less long, since what
// neighbours write lies apart, and what a row keeps is computed again. -1: rows are not that short, or too few.
static int32_t beside_short_rows(tc_em *e, const scan *s) {
  enum { LONGEST = 32, LONGEST_WRITTEN = 12, LEAST = 32 };
  const tc_sym *row = tc_product(e->l, e->n_red, e->extents + e->n_par), *rows = tc_product(e->l, e->n_par, e->extents);
  int64_t longest = goes_again(e) ? LONGEST_WRITTEN : LONGEST;
  if (e->n_red == 0 || e->g->rows || !tc_sym_is_const(row) || row->value > longest) return -1;
  if (row->value * em_cost(e) > EM_MOST_WRITTEN_OUT) return -1;
  int32_t best = tc_sym_hint_or(e->syms, rows, LEAST) < LEAST ? -1 : best_of(e, s, e->n_par, -1);
  // Lanes go on in a neighbouring variable where one has few.
  while (best >= 0 && e->n_par > 1 && tc_sym_hint_or(e->syms, e->extents[best], LEAST) < LEAST) {
    int32_t outer = best > 0 ? best - 1 : 1;
    join(e, outer, best, false);
    if (outer < best) best--;
  }
  return best;
}

// May lanes run along variable d, each with a row of its own that it reads and writes several neighbours of at once?
// Elements are neighbours along their row or along d, some of them along the row, and some along d unless rows are
// short, where what belongs to a row must be.
static bool turns(tc_em *e, const scan *s, int32_t d, bool shorts) {
  bool along = false, across = shorts;
  for (int32_t i = 0; i < s->accesses.count; i++) {
    const tc_sym *address = s->accesses.data[i].address, *in_row = NULL, *between, *rest;
    bool element = tc_sym_uses(address, e->vars[e->n_par]);
    if (element && !tc_sym_linear(e->syms, address, e->vars[e->n_par], &in_row, &rest)) return false;
    if (!tc_sym_uses(address, e->vars[d]) || (!element && !shorts)) continue;
    if (!tc_sym_linear(e->syms, address, e->vars[d], &between, &rest)) return false;
    if (element && tc_sym_is_int(in_row, 1)) along = true;
    else if (tc_sym_is_int(between, 1)) across = true;
    else return false;
  }
  return along && across;
}

// The variable that lanes run along where rows are turned (emit_columns.c), `width` neighbours at once; -1: they are
// not. A block's rows stay in the core's own cache from phase to phase, and there are several blocks for each core.
static int32_t across_turned(tc_em *e, const scan *s, int32_t *width) {
  int32_t red = e->n_par;
  int64_t rows = tc_sym_hint_or(e->syms, tc_product(e->l, e->n_par, e->extents), 1), lanes = e->dev->simd_bytes / 4;
  *width = e->n_red == 1 && !e->g->rows ? tc_turned_width(e->dev, rows, e->extents[red]) : 0;
  if (!*width || rows / lanes < 2 * e->dev->cores) return -1;
  for (int32_t i = 0; i < s->others.count; i++)
    if (tc_sym_uses(s->others.data[i], e->vars[red])) return -1;
  bool shorts = e->extents[red]->value <= (goes_again(e) ? lanes : 2 * lanes);
  for (int32_t d = 0; d < e->n_par; d++) {
    if (tc_sym_hint_or(e->syms, e->extents[d], lanes) < lanes) continue;
    if (turns(e, s, d, false) || (shorts && turns(e, s, d, true))) return d;
  }
  return -1;
}

int32_t em_merge_dims(tc_em *e) {
  drop_ones(e);
  scan s = scan_group(e);
  while (join_any(e, &s)) s = scan_group(e);
  int32_t n = e->n_par + e->n_red, best = best_of(e, &s, n, n - 1);
  int32_t width, across = across_turned(e, &s, &width);
  if (across >= 0) {
    e->turned = width;
    return across;
  }
  int32_t beside = best < e->n_par ? -1 : e->dev->simd_bytes ? beside_windows(e, &s) : beside_short_rows(e, &s);
  return beside >= 0 ? beside : best;
}
