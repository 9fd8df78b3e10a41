// Emission of pointwise work whose elements belong together along a row.
//
// Lanes that are threads: a block takes several short rows. Rows stay apart where some operand does not go on from one
// to the next (it is broadcast, or lies in another order) or where what is computed alternates within a row, as the
// parts of complex numbers do that are seen as pairs of reals. A lane then makes a run of W neighbouring elements W t +
// i of one row, with i = 0 … W-1 written out one after the other: what alternates is a constant there, elements that
// share a value share it, and accesses are made for as many elements at once as lie together.
//
// Lanes of vectors: where elements alternate or share an index, a lane makes as many neighbours as do; accesses of
// these are pairs, which vectors are taken apart into.
#include "core/kernel/emit_internal.h"

enum { LANES = 256, MOST_RUN = 8 };

// Only elements that are stored by all lanes alike, each once.
static bool is_plain(tc_em *e) {
  for (int32_t i = 0; i < e->g->steps.count; i++) {
    const tc_step *s = &e->g->steps.data[i];
    bool held = s->hold == TC_HOLD_TILE || s->hold == TC_HOLD_COLUMN;
    if (s->node->kind != TC_LN_POINTWISE || held || (s->stores && em_step_is_row(e, i))) return false;
  }
  return e->g->n_phases == 1 && !e->g->rows;
}

bool em_short_rows_of(tc_em *e, int32_t lane_var, tc_em_short *out) {
  const tc_sym *extent = lane_var >= 0 ? e->extents[lane_var] : NULL;
  int32_t most = e->dev->max_lanes && e->dev->max_lanes < LANES ? e->dev->max_lanes : LANES, size = EM_AT_ONCE;
  if (e->dev->simd_bytes || !extent || !tc_sym_is_const(extent) || e->n_par < 1 || !is_plain(e)) return false;
  for (int32_t i = 0; i < e->g->writes.count; i++)
    if (tc_dtype_size(e->g->writes.data[i]->dtype) < size) size = tc_dtype_size(e->g->writes.data[i]->dtype);
  int32_t run = em_lane_width(e) == 1 ? 1 : EM_AT_ONCE / size;
  if (run > MOST_RUN) run = MOST_RUN;
  while (extent->value % run) run /= 2;
  int64_t runs = extent->value / run;
  if (runs < 1 || 2 * runs > most) return false;
  int32_t rows = (int32_t)(most / runs);
  *out = (tc_em_short){.run = run, .runs = (int32_t)runs, .rows = rows, .lanes = (int32_t)runs * rows};
  return true;
}

// ---- accesses ----
// The memory behind the last element ends at a multiple of n.
static bool ends_at(tc_em *e, const tc_buf *b, int64_t n) {
  const tc_sym *end = tc_sym_addi(e->syms, b->offset ? b->offset : tc_sym_int(e->syms, 0), 1);
  for (int32_t d = 0; d < b->rank; d++)
    end = tc_sym_add(e->syms, end, tc_sym_mul(e->syms, tc_sym_addi(e->syms, b->sizes[d], -1), b->strides[d]));
  return tc_sym_is_int(tc_sym_mod(e->syms, end, tc_sym_int(e->syms, n)), 0);
}

// Is the element one of several that lie together for every lane? Those are *width from *first on, it is number *at.
static bool lies_in_run(tc_em *e, const tc_buf *b, const tc_sym *address, const tc_sym **first, int32_t *width,
                        int32_t *at) {
  const tc_sym *coeff, *rest;
  if (!e->wide.var || !e->wide.runs || b->planar) return false;
  if (!tc_sym_linear(e->syms, address, e->wide.var, &coeff, &rest) || !tc_sym_is_const(coeff) || !coeff->value)
    return false;
  int32_t n = EM_AT_ONCE / tc_dtype_size(b->dtype);
  while (n > 1 && (coeff->value % n || !ends_at(e, b, n))) n /= 2;
  if (n < 2) return false;
  const tc_sym *left = tc_sym_mod(e->syms, rest, tc_sym_int(e->syms, n));
  if (!tc_sym_is_const(left)) return false;
  *first = tc_sym_addi(e->syms, address, -left->value);
  *width = n, *at = (int32_t)left->value;
  return true;
}

// An access of `width` elements from `first` on, made or (stores) waiting for its last value.
typedef struct run {
  const tc_buf *buf;
  const tc_sym *first;
  int32_t width, count;
  bool stores;
  tc_kval mask, *values; // -1: not there
} run;
struct tc_em_runs {
  TC_VEC(run) all;
};

static run *run_of(tc_em *e, const tc_buf *b, const tc_sym *first, int32_t width, bool stores) {
  for (int32_t i = 0; i < e->wide.runs->all.count; i++) {
    run *r = &e->wide.runs->all.data[i];
    if (r->buf == b && r->first == first && r->stores == stores && r->mask == e->mask) return r;
  }
  run r = {b, first, width, 0, stores, e->mask, TC_NEW_ARRAY(e->arena, tc_kval, width)};
  for (int32_t i = 0; i < width; i++) r.values[i] = -1;
  tc_vec_push(e->arena, &e->wide.runs->all, r);
  return &tc_vec_last(&e->wide.runs->all);
}

bool em_run_load(tc_em *e, const tc_buf *b, const tc_sym *address, tc_kval *out) {
  const tc_sym *first;
  int32_t width, at;
  if (!lies_in_run(e, b, address, &first, &width, &at)) return false;
  run *r = run_of(e, b, first, width, false);
  if (!r->count) em_mem_load(e, b, first, width, r->values);
  r->count = width;
  *out = r->values[at];
  return true;
}

bool em_run_store(tc_em *e, const tc_buf *b, const tc_sym *address, tc_kval value) {
  const tc_sym *first;
  int32_t width, at;
  if (!lies_in_run(e, b, address, &first, &width, &at)) return false;
  run *r = run_of(e, b, first, width, true);
  r->count += r->values[at] < 0;
  r->values[at] = value;
  if (r->count == width) em_mem_store(e, b, first, width, r->values);
  return true;
}

// Stores of which some elements are nobody's.
static void store_rests(tc_em *e) {
  for (int32_t i = 0; i < e->wide.runs->all.count; i++) {
    const run *r = &e->wide.runs->all.data[i];
    if (!r->stores || r->count == r->width) continue;
    e->mask = r->mask;
    for (int32_t k = 0; k < r->width; k++)
      if (r->values[k] >= 0) em_mem_store(e, r->buf, tc_sym_addi(e->syms, r->first, k), 1, &r->values[k]);
  }
}

// ---- the kernel ----
static const tc_sym *local(tc_em *e, const char *name, const tc_sym *count, tc_kval v) {
  const tc_sym *x = tc_sym_fresh(e->syms, name, TC_SYM_LOCAL);
  tc_sym_info *info = tc_sym_info_of(e->syms, x);
  int64_t lo, hi;
  tc_sym_range(e->syms, count, &lo, &hi);
  info->lo = 0;
  info->hi = hi == TC_SYM_INF ? hi : hi - 1;
  info->hi_expr = tc_sym_addi(e->syms, count, -1);
  em_bind(e, x, v);
  return x;
}

void em_short_rows(tc_em *e, int32_t lane_var, const tc_em_short *s) {
  tc_sym_ctx *c = e->syms;
  const tc_sym *rows = tc_product(e->l, e->n_par, e->extents), *height = tc_sym_int(c, s->rows);
  em_grain(e, (int64_t)s->lanes * s->run);
  const tc_sym *block = em_bind_block(e, tc_sym_ceildiv(c, rows, height));
  int32_t mark = em_mark(e);
  tc_kb_lanes(e->kb);
  tc_kval lane = tc_kb_cast(e->kb, e->ity, tc_kb_lane(e->kb)), runs = em_const(e, s->runs);
  tc_kval number = em_add(e, em_sym(e, tc_sym_muli(c, block, s->rows)), tc_kb_op2(e->kb, TC_K_DIV, lane, runs));
  const tc_sym *row = local(e, "row", rows, number);
  const tc_sym *t = local(e, "t", tc_sym_int(c, s->runs), tc_kb_op2(e->kb, TC_K_REM, lane, runs));
  if (!tc_sym_is_int(tc_sym_mod(c, rows, height), 0)) e->mask = tc_kb_op2(e->kb, TC_K_LT, number, em_sym(e, rows));
  em_bind_rows(e, row, e->n_par, -1, -1);
  tc_em_runs all = {0};
  e->wide = (tc_em_wide){.var = t, .width = s->run, .runs = &all};
  const tc_sym *const **at = tc_arena_copy(e->arena, e->at, (size_t)e->g->steps.count * sizeof *e->at);
  for (int32_t i = 0; i < s->run; i++) {
    const tc_sym *element = tc_sym_addi(c, tc_sym_muli(c, t, s->run), i);
    em_replace_vars(e, 1, &e->vars[lane_var], &element);
    for (int32_t k = 0; k < e->g->steps.count; k++)
      if (e->g->steps.data[k].stores) em_store_step(e, k);
    for (int32_t k = 0; k < e->g->steps.count; k++) e->at[k] = at[k];
  }
  store_rests(e);
  e->wide = (tc_em_wide){0};
  e->mask = -1;
  tc_kb_end_lanes(e->kb, 0, NULL, NULL);
  em_leave(e, mark);
}

// ---- neighbours ----
void em_join_neighbours(tc_em *e, int32_t lane_var) {
  tc_sym_ctx *c = e->syms;
  int32_t n = is_plain(e) ? em_together(e, lane_var) : 1;
  if (n < 2) return;
  const tc_sym *group = tc_sym_fresh(c, "t", TC_SYM_LOOP), *part = tc_sym_fresh(c, "part", TC_SYM_LOCAL);
  const tc_sym *groups = tc_sym_floordiv(c, e->extents[lane_var], tc_sym_int(c, n));
  tc_sym_info *info = tc_sym_info_of(c, group), *inner = tc_sym_info_of(c, part);
  int64_t lo, hi;
  tc_sym_range(c, groups, &lo, &hi);
  info->lo = 0;
  info->hi = hi == TC_SYM_INF ? hi : hi - 1;
  info->hi_expr = tc_sym_addi(c, groups, -1);
  inner->lo = 0, inner->hi = n - 1;
  const tc_sym *element = tc_sym_add(c, tc_sym_muli(c, group, n), part);
  em_replace_vars(e, 1, &e->vars[lane_var], &element);
  e->vars[lane_var] = group;
  e->extents[lane_var] = groups;
  e->neighbours = (tc_em_neighbours){group, part, n};
}

void em_store_neighbours(tc_em *e, int32_t n, const int32_t *steps) {
  tc_em_runs all = {0};
  tc_kval mask = e->mask;
  const tc_sym *const **at = tc_arena_copy(e->arena, e->at, (size_t)e->g->steps.count * sizeof *e->at);
  e->wide = (tc_em_wide){.var = e->neighbours.group, .width = e->neighbours.n, .runs = &all};
  for (int32_t i = 0; i < e->neighbours.n; i++) {
    const tc_sym *part = tc_sym_int(e->syms, i);
    em_replace_vars(e, 1, &e->neighbours.part, &part);
    for (int32_t k = 0; k < n; k++) em_store_step(e, steps[k]);
    for (int32_t k = 0; k < e->g->steps.count; k++) e->at[k] = at[k];
  }
  store_rests(e);
  e->mask = mask;
  e->wide = (tc_em_wide){0};
}
