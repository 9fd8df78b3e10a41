// Emission along rows: reductions and pointwise work over a row by the lanes of a block, phase after phase.
//
// Where parts of columns are made (core/schedule/columns.c) a block takes several rows, one after the other, and every
// lane adds what it comes by to the parts. They lie in memory, but stay in the cache; a lane meets the same columns in
// every row and nobody else touches them, so that no barrier is needed.
#include "core/kernel/emit_internal.h"
#include "core/kernel/ir.h"

bool em_step_is_row(tc_em *e, int32_t step) {
  const tc_lnode *n = e->g->steps.data[step].node;
  if (n->kind == TC_LN_REDUCE) return false;
  for (int32_t k = 0; k < n->n_par + n->n_red; k++) {
    for (int32_t d = e->n_par; d < e->n_par + e->n_red; d++) {
      if (tc_sym_uses(e->at[step][k], e->vars[d])) return false;
    }
  }
  return true;
}

void em_make_tiles(tc_em *e, int64_t rows) {
  int64_t lo, row;
  const tc_sym *len = tc_sym_int(e->syms, 1);
  for (int32_t d = e->g->n_par; d < e->g->n_par + e->g->n_red; d++) len = tc_sym_mul(e->syms, len, e->g->extents[d]);
  tc_sym_range(e->syms, len, &lo, &row);
  for (int32_t i = 0; i < e->g->steps.count; i++) {
    const tc_step *s = &e->g->steps.data[i];
    if (s->hold != TC_HOLD_TILE) continue;
    tc_em_tile *t = TC_NEW(e->arena, tc_em_tile);
    t->row = row;
    t->extent = len;
    t->mem = tc_kb_shared(e->kb, tc_sv_printf(e->arena, "tile%d", i), s->node->outs[0]->dtype, row * rows);
    tc_map_put_ptr(e->tiles, s->node->outs[0], NULL)->value.ptr = t;
    e->tiles_used = true;
  }
}

// ---- one phase over the elements of a row ----
enum { MOST = 16 };
typedef struct phase {
  int32_t reduces[MOST], n_reduces;
  int32_t stores[64], n_stores;
  int32_t columns[MOST], n_columns;
  bool starts; // the columns' parts; nothing else is done
  // Sums of squares about the mean of a sum of this phase, and that sum.
  int32_t spreads[MOST], sums[MOST], n_spreads;
  tc_kval pivots[MOST];
  int32_t n_accs; // what lanes carry: a number of each reduction, and behind them those of each of these
} phase;

// Of a few reductions any phase has room for all, each of which carries two numbers at most.
static bool makes_spreads(tc_em *e, int32_t lane_var) {
  int32_t n = 0;
  for (int32_t i = 0; i < e->g->steps.count; i++) n += e->g->steps.data[i].node->kind == TC_LN_REDUCE;
  return EM_SPREAD_NUMBERS * n <= MOST && em_spread_fits(e, lane_var);
}

static phase phase_of(tc_em *e, int32_t number, int32_t lane_var) {
  phase p = {0};
  bool spreads = makes_spreads(e, lane_var);
  for (int32_t i = 0; i < e->g->steps.count; i++) {
    const tc_step *s = &e->g->steps.data[i];
    int32_t sum = spreads ? em_spread_sum(e, i) : -1;
    if (sum >= 0 && e->g->steps.data[sum].phase == number) {
      p.sums[p.n_spreads] = sum;
      p.spreads[p.n_spreads++] = i;
    }
    if (s->phase != number || s->node->kind == TC_LN_TEMPLATE || sum >= 0) continue;
    if (s->hold == TC_HOLD_COLUMN) {
      if (p.n_columns == MOST) em_fail(e, "more than %d parts of columns in one phase", MOST);
      else p.columns[p.n_columns++] = i;
    } else if (s->node->kind == TC_LN_REDUCE) {
      if (p.n_reduces == MOST) em_fail(e, "more than %d reductions in one phase", MOST);
      else p.reduces[p.n_reduces++] = i;
    } else if ((s->stores || s->hold == TC_HOLD_TILE) && !em_step_is_row(e, i) && p.n_stores < 64) {
      p.stores[p.n_stores++] = i;
    }
  }
  p.n_accs = p.n_reduces + EM_SPREAD_NUMBERS * p.n_spreads;
  return p;
}

// Of no elements.
static void spreads_open(tc_em *e, const phase *p, tc_kval *part) {
  for (int32_t i = p->n_reduces; i < p->n_accs; i++)
    part[i] = em_acc_init(e, e->g->steps.data[p->sums[(i - p->n_reduces) / EM_SPREAD_NUMBERS]].node);
}

static void part_open(tc_em *e, const phase *p, const tc_kval *acc, tc_kval *part) {
  em_part_open(e, p->n_reduces, p->reduces, acc, part);
  spreads_open(e, p, part);
}

// Of `count` elements of each lane, behind `before` ones.
static void part_close(tc_em *e, const phase *p, tc_kval before, tc_kval count, const tc_kval *acc, tc_kval *part) {
  em_part_close(e, p->n_reduces, p->reduces, acc, part);
  for (int32_t i = p->n_reduces; i < p->n_accs; i += EM_SPREAD_NUMBERS)
    em_spread_join(e, before, count, acc + i, part + i);
}

// The innermost work: all steps of the phase at the current element, the lane's `number`-th (used by spreads only).
static void element(tc_em *e, const phase *p, tc_kval number, const tc_kval *acc, tc_kval *next) {
  for (int32_t i = 0; i < p->n_reduces; i++) {
    int32_t step = p->reduces[i];
    const tc_lnode *n = e->g->steps.data[step].node;
    next[i] = em_acc_combine(e, n, acc[i], em_body(e, n, e->at[step]));
  }
  for (int32_t i = 0, k = p->n_reduces; i < p->n_spreads; i++, k += EM_SPREAD_NUMBERS)
    em_spread_add(e, p->sums[i], p->pivots[i], number, acc + k, next + k);
  if (e->neighbours.n) em_store_neighbours(e, p->n_stores, p->stores);
  for (int32_t i = 0; i < p->n_stores && !e->neighbours.n; i++) em_store_step(e, p->stores[i]);
  for (int32_t i = 0; i < p->n_columns; i++) {
    if (p->starts) em_column_start(e, p->columns[i]);
    else em_column_add(e, p->columns[i]);
  }
}

// `width` consecutive elements from `first`, with loads and stores of them at once.
static void elements(tc_em *e, const phase *p, int32_t lane_var, int32_t width, tc_kval first, const tc_kval *acc,
                     tc_kval *next) {
  em_wide_open(e, e->vars[lane_var], width, first);
  tc_kval in[MOST], out[MOST];
  for (int32_t i = 0; i < p->n_accs; i++) in[i] = acc[i];
  for (int32_t i = 0; i < width; i++) {
    int32_t mark = em_mark(e);
    e->wide.at = i;
    em_bind(e, e->vars[lane_var], em_add(e, first, em_const(e, i)));
    element(e, p, -1, in, out);
    em_leave(e, mark);
    for (int32_t k = 0; k < p->n_accs; k++) in[k] = out[k];
  }
  for (int32_t i = 0; i < p->n_accs; i++) next[i] = in[i];
  e->wide = (tc_em_wide){0};
}

// Elements that each lane has in [from, to).
static tc_kval of_lane(tc_em *e, tc_kval from, tc_kval to) {
  return tc_kb_op2(e->kb, TC_K_DIV, tc_kb_op2(e->kb, TC_K_SUB, to, from), em_const(e, tc_kb_lanes_count(e->kb)));
}

// One element of each lane, from `from` on; of those from `start` on there is something in acc.
static void lane_element(tc_em *e, const phase *p, int32_t lane_var, bool masked, tc_kval start, tc_kval from,
                         tc_kval to, const tc_kval *acc, tc_kval *next) {
  tc_kval v = em_add(e, from, tc_kb_cast(e->kb, e->ity, tc_kb_lane(e->kb))), outer = e->mask;
  em_bind(e, e->vars[lane_var], v);
  if (masked) e->mask = tc_kb_op2(e->kb, TC_K_LT, v, to);
  tc_kval number = p->n_spreads ? em_add(e, of_lane(e, start, from), em_const(e, 1)) : -1;
  element(e, p, number, acc, next);
  e->mask = outer;
}

// Known numbers of elements, one after the other: what lanes keep of them stays in registers then.
static bool written_out(tc_em *e, const phase *p, int32_t lane_var, bool masked, tc_kval from, tc_kval to,
                        tc_kval *acc) {
  tc_knum lo, hi;
  if (!e->narrow || !tc_kb_const_of(e->kb, from, &lo) || !tc_kb_const_of(e->kb, to, &hi)) return false;
  for (int64_t j = lo.i; j < hi.i; j += tc_kb_lanes_count(e->kb)) {
    int32_t mark = em_mark(e);
    tc_kval next[MOST];
    lane_element(e, p, lane_var, masked, from, em_const(e, j), to, acc, next);
    for (int32_t i = 0; i < p->n_accs; i++) acc[i] = next[i];
    em_leave(e, mark);
  }
  return true;
}

// for var in [from, to) by lanes: in parts of parts for `levels` > 0; `masked` where not all lanes need be inside. A
// lane takes `width` elements at a time, and has those of [start, from) in acc.
static void lane_part(tc_em *e, const phase *p, int32_t lane_var, int32_t levels, int32_t width, bool masked,
                      tc_kval start, tc_kval from, tc_kval to, tc_kval *acc) {
  if (!levels && width == 1 && written_out(e, p, lane_var, masked, from, to, acc)) return;
  int32_t mark = em_mark(e);
  int64_t step = tc_kb_lanes_count(e->kb) * (levels ? em_part_length(levels) : width);
  tc_kval carried[MOST], part[MOST];
  bool keeps = e->kept.arrays && !levels && width > 1;
  tc_kval j = tc_kb_for(e->kb, from, to, step, keeps ? TC_KI_UNROLL : 0, p->n_accs, acc, carried);
  if (keeps) {
    tc_kval trip = tc_kb_op2(e->kb, TC_K_DIV, tc_kb_op2(e->kb, TC_K_SUB, j, from), em_const(e, step));
    e->kept.slot = em_mul(e, trip, em_const(e, width));
  }
  if (levels) {
    tc_kval end = tc_kb_op2(e->kb, TC_K_MIN, em_add(e, j, em_const(e, step)), to);
    part_open(e, p, carried, part);
    lane_part(e, p, lane_var, levels - 1, width, masked, j, j, end, part);
    part_close(e, p, of_lane(e, start, j), of_lane(e, j, end), carried, part);
  } else if (width > 1) {
    tc_kval lane = em_mul(e, tc_kb_cast(e->kb, e->ity, tc_kb_lane(e->kb)), em_const(e, width));
    elements(e, p, lane_var, width, em_add(e, j, lane), carried, part);
  } else {
    lane_element(e, p, lane_var, masked, start, j, to, carried, part);
  }
  tc_kb_end_for(e->kb, p->n_accs, part, acc);
  e->kept.slot = -1;
  em_leave(e, mark);
}

// for var in [lo, hi) by lanes: whole vectors first, then what is left under a mask.
static void lane_loop(tc_em *e, const phase *p, int32_t lane_var, const tc_sym *lo, const tc_sym *hi, tc_kval *acc) {
  int64_t lanes = tc_kb_lanes_count(e->kb);
  int32_t width = e->tile_row < 0 && !e->g->stage && !e->narrow ? em_lane_width(e) : 1;
  const tc_sym *step = tc_sym_int(e->syms, lanes * width), *count = tc_sym_sub(e->syms, hi, lo);
  const tc_sym *main_hi = tc_sym_add(e->syms, lo, tc_sym_mul(e->syms, tc_sym_floordiv(e->syms, count, step), step));
  tc_kval k_lo = em_sym(e, lo), k_main = em_sym(e, main_hi), k_hi = em_sym(e, hi);
  int32_t levels = p->n_accs ? em_part_levels(tc_sym_hint_or(e->syms, count, 0) / lanes) : 0;
  if (main_hi != lo) lane_part(e, p, lane_var, levels, width, false, k_lo, k_lo, k_main, acc);
  if (main_hi != hi) lane_part(e, p, lane_var, 0, 1, true, k_lo, k_main, k_hi, acc);
}

// Loops over the reduced variables other than the lanes', outermost first.
static void nest(tc_em *e, const phase *p, int32_t d, int32_t lane_var, const tc_sym *lo, const tc_sym *hi,
                 tc_kval *acc) {
  if (d == lane_var) d++;
  if (d >= e->n_par + e->n_red) {
    lane_loop(e, p, lane_var, lo, hi, acc);
    return;
  }
  int32_t mark = em_mark(e);
  tc_kval extent = em_sym(e, e->extents[d]), carried[MOST], part[MOST];
  tc_kval at = tc_kb_for(e->kb, em_const(e, 0), extent, 1, 0, p->n_accs, acc, carried);
  em_bind(e, e->vars[d], at);
  part_open(e, p, carried, part);
  nest(e, p, d + 1, lane_var, lo, hi, part);
  int64_t inner = p->n_spreads ? e->extents[lane_var]->value / tc_kb_lanes_count(e->kb) : 0;
  for (int32_t i = d + 1; i < e->n_par + e->n_red && p->n_spreads; i++)
    if (i != lane_var) inner *= e->extents[i]->value;
  part_close(e, p, em_mul(e, at, em_const(e, inner)), em_const(e, inner), carried, part);
  tc_kb_end_for(e->kb, p->n_accs, part, acc);
  em_leave(e, mark);
}

static void row_stores(tc_em *e, int32_t number) {
  int32_t mark = em_mark(e);
  bool open = false;
  for (int32_t i = 0; i < e->g->steps.count; i++) {
    const tc_step *s = &e->g->steps.data[i];
    bool row = s->node->kind == TC_LN_REDUCE
                   ? s->phase + 1 == number && s->hold != TC_HOLD_COLUMN
                   : s->phase == number && s->node->kind == TC_LN_POINTWISE && em_step_is_row(e, i);
    if (!row || !s->stores) continue;
    if (!open) {
      tc_kb_lanes(e->kb);
      e->mask = tc_kb_op2(e->kb, TC_K_EQ, tc_kb_lane(e->kb), tc_kb_int(e->kb, TC_I32, 0));
      open = true;
    }
    if (s->node->store) {
      em_store_step(e, i);
      continue;
    }
    tc_kval v = em_load(e, s->node->outs[0], e->at[i], NULL);
    em_store(e, s->node->outs[0], e->at[i], v);
  }
  if (open) tc_kb_end_lanes(e->kb, 0, NULL, NULL);
  e->mask = -1;
  em_leave(e, mark);
}

// Lanes that are threads have many registers, and loads that a later phase repeats cost a trip to the cache each. Not
// so where lanes are elements of vectors.
static void keep_rows(tc_em *e, int32_t lane_var, const tc_sym *lo, const tc_sym *hi) {
  enum { MOST_WORDS = 64, MOST_TRIPS = 16, REGISTERS = 65536, OTHERS = 32 };
  int64_t lanes = tc_kb_lanes_count(e->kb), step = lanes * em_lane_width(e), others = REGISTERS / lanes - OTHERS;
  const tc_sym *count = tc_sym_sub(e->syms, hi, lo);
  e->kept = (tc_em_kept){.slot = -1};
  bool single = lane_var == e->n_par && e->n_red == 1;
  if (e->dev->simd_bytes || e->g->n_phases < 2 || !single || e->tile_row >= 0 || e->g->stage) return;
  if (!tc_sym_is_const(count) || count->value < step || count->value / step > MOST_TRIPS) return;
  e->kept.arrays = tc_map_create(e->arena);
  e->kept.trips = (int32_t)(count->value / step);
  e->kept.words = others > MOST_WORDS ? MOST_WORDS : others > 0 ? (int32_t)others : 0;
}

static bool has_reductions(const tc_em *e) {
  bool has = false;
  for (int32_t i = 0; i < e->g->steps.count; i++) has |= e->g->steps.data[i].node->kind == TC_LN_REDUCE;
  return has;
}

// Of rows that are read several times the next one, if it fits into the second-level cache, too; of those that are read
// once for pointwise work what comes later in them.
static void choose_ahead(tc_em *e, int32_t lane_var, bool reduces) {
  int64_t row = tc_sym_hint_or(e->syms, tc_product(e->l, e->n_red, e->extents + e->n_par), INT32_MAX), bytes = 0;
  e->ahead = (tc_em_ahead){.rows = reduces, .phases = tc_map_create(e->arena)};
  if (!e->dev->simd_bytes || e->tile_row >= 0 || e->g->stage) return;
  for (int32_t i = 0; i < e->g->reads.count; i++) bytes += row * tc_dtype_size(e->g->reads.data[i]->dtype);
  if (!reduces) e->ahead.var = e->vars[lane_var];
  else if (e->g->n_phases > 1 && e->n_par > 0 && bytes <= e->dev->l2_bytes / 4) e->ahead.var = e->vars[e->n_par - 1];
}

void em_row_phases(tc_em *e, int32_t first_phase, int32_t lane_var, const tc_sym *lo, const tc_sym *hi) {
  keep_rows(e, lane_var, lo, hi);
  choose_ahead(e, lane_var, has_reductions(e));
  for (int32_t number = first_phase; number <= e->g->n_phases && !tc_failed(&e->failure); number++) {
    e->phase = number;
    row_stores(e, number); // results of the phase before, and what follows from them per row
    if (number == e->g->n_phases) break;
    phase p = phase_of(e, number, lane_var);
    if (!p.n_reduces && !p.n_stores && !p.n_columns) continue;
    int32_t mark = em_mark(e);
    tc_kval acc[MOST], lanes_out[MOST];
    tc_kmem kept[MOST];
    for (int32_t i = 0; i < p.n_spreads; i++) p.pivots[i] = em_spread_pivot(e, p.sums[i]);
    tc_kb_lanes(e->kb);
    for (int32_t i = 0; i < p.n_reduces; i++) acc[i] = em_acc_init(e, e->g->steps.data[p.reduces[i]].node);
    spreads_open(e, &p, acc);
    nest(e, &p, e->n_par, lane_var, lo, hi, acc);
    for (int32_t i = 0; i < p.n_spreads; i++)
      kept[i] = em_spread_keep(e, p.spreads[i], acc + p.n_reduces + EM_SPREAD_NUMBERS * i);
    tc_kb_end_lanes(e->kb, p.n_reduces, acc, lanes_out);
    em_leave(e, mark);
    for (int32_t i = 0; i < p.n_reduces; i++) {
      const tc_lnode *n = e->g->steps.data[p.reduces[i]].node;
      tc_kval v = tc_kb_collective(e->kb, em_acc_collective(n), lanes_out[i], 0);
      tc_map_put_ptr(e->rows, n->outs[0], NULL)->value.num = (int64_t)tc_kb_cast(e->kb, n->outs[0]->dtype, v) + 1;
    }
    for (int32_t i = 0; i < p.n_spreads; i++) {
      const tc_buf *sum = e->g->steps.data[p.sums[i]].node->outs[0],
                   *out = e->g->steps.data[p.spreads[i]].node->outs[0];
      tc_kval total = (tc_kval)(tc_map_find_ptr(e->rows, sum)->value.num - 1);
      total = em_spread_total(e, total, p.pivots[i], kept[i], lane_var);
      tc_map_put_ptr(e->rows, out, NULL)->value.num = (int64_t)total + 1;
    }
    bool tiles = false;
    for (int32_t i = 0; i < p.n_stores; i++) tiles |= e->g->steps.data[p.stores[i]].hold == TC_HOLD_TILE;
    if (tiles) tc_kb_barrier(e->kb);
  }
}

// ---- several rows, and parts of columns ----
static void start_columns(tc_em *e, int32_t lane_var) {
  for (int32_t number = 0; number < e->g->n_phases; number++) {
    phase p = phase_of(e, number, lane_var);
    p.n_reduces = p.n_stores = p.n_spreads = p.n_accs = 0;
    p.starts = true;
    if (!p.n_columns) continue;
    int32_t mark = em_mark(e);
    tc_kb_lanes(e->kb);
    nest(e, &p, e->n_par, lane_var, tc_sym_int(e->syms, 0), e->extents[lane_var], NULL);
    tc_kb_end_lanes(e->kb, 0, NULL, NULL);
    em_leave(e, mark);
  }
}

static void rows_and_columns(tc_em *e, int32_t lane_var) {
  tc_sym_ctx *c = e->syms;
  const tc_sym *rows = tc_product(e->l, e->n_par, e->extents), *height = tc_sym_int(c, e->g->rows);
  int64_t per_row = tc_sym_hint_or(c, tc_product(e->l, e->n_red, e->extents + e->n_par), 1024);
  em_grain(e, per_row < 8192 ? per_row * e->g->rows : per_row);
  e->part = em_bind_block(e, tc_sym_ceildiv(c, rows, height));
  e->kept.slot = -1;
  start_columns(e, lane_var);
  const tc_sym *first = tc_sym_muli(c, e->part, e->g->rows), *row = tc_sym_fresh(c, "row", TC_SYM_LOCAL);
  tc_sym_info *info = tc_sym_info_of(c, row);
  info->lo = 0;
  info->hi_expr = tc_sym_addi(c, rows, -1);
  bool exact = tc_sym_is_int(tc_sym_mod(c, rows, height), 0);
  tc_kval from = em_sym(e, first), to = em_add(e, from, em_const(e, e->g->rows));
  if (!exact) to = tc_kb_op2(e->kb, TC_K_MIN, to, em_sym(e, rows));
  int32_t mark = em_mark(e);
  em_bind(e, row, tc_kb_for(e->kb, from, to, 1, 0, 0, NULL, NULL));
  em_bind_rows(e, row, e->n_par, -1, -1);
  em_row_phases(e, 0, lane_var, tc_sym_int(c, 0), e->extents[lane_var]);
  if (e->tiles_used) tc_kb_barrier(e->kb); // the next row's values come into the same tiles
  tc_kb_end_for(e->kb, 0, NULL, NULL);
  em_leave(e, mark);
}

// ---- the kernel: a block is a row, or a chunk of one when nothing is reduced ----
enum { CHUNK = 8192 };

void em_rows(tc_em *e, int32_t lane_var) {
  tc_sym_ctx *c = e->syms;
  bool reduces = has_reductions(e);
  em_make_tiles(e, 1);
  if (e->g->rows) {
    rows_and_columns(e, lane_var);
    return;
  }
  const tc_sym *rows = tc_product(e->l, e->n_par, e->extents), *zero = tc_sym_int(c, 0);
  const tc_sym *extent = lane_var >= 0 ? e->extents[lane_var] : tc_sym_int(c, 1);
  int64_t elo, ehi;
  tc_sym_range(c, extent, &elo, &ehi);
  bool chunked = !reduces && lane_var >= 0 && ehi > 2 * CHUNK;
  const tc_sym *chunks = chunked ? tc_sym_ceildiv(c, extent, tc_sym_int(c, CHUNK)) : tc_sym_int(c, 1);
  const tc_sym *work = tc_product(e->l, e->n_red, e->extents + e->n_par);
  int64_t per_block = tc_sym_hint_or(c, work, CHUNK);
  if (chunked && per_block > CHUNK) per_block = CHUNK;
  em_grain(e, per_block);

  const tc_sym *block = em_bind_block(e, tc_sym_mul(c, rows, chunks)), *chunk = tc_sym_mod(c, block, chunks);
  em_bind_rows(e, tc_sym_floordiv(c, block, chunks), e->n_par, -1, -1);
  const tc_sym *lo = zero, *hi = extent;
  if (chunked) {
    // The ends of the chunk as symbols of their own, so that loops see plain values.
    const tc_sym *ends[2] = {tc_sym_muli(c, chunk, CHUNK), NULL};
    ends[1] = tc_sym_min(c, tc_sym_addi(c, ends[0], CHUNK), extent);
    bool exact = tc_sym_is_int(tc_sym_mod(c, extent, tc_sym_int(c, CHUNK)), 0);
    const tc_sym *from = tc_sym_fresh(c, "lo", TC_SYM_LOCAL), *to = tc_sym_fresh(c, "hi", TC_SYM_LOCAL);
    tc_sym_info_of(c, from)->lo = 0;
    tc_sym_info_of(c, to)->lo = 0;
    em_bind(e, from, em_sym(e, ends[0]));
    em_bind(e, to, em_sym(e, ends[1]));
    lo = from;
    hi = exact ? tc_sym_addi(c, from, CHUNK) : to;
  }
  if (lane_var < 0) { // a single point
    row_stores(e, 0);
    for (int32_t i = 1; i < e->g->n_phases; i++) row_stores(e, i);
    return;
  }
  em_row_phases(e, 0, lane_var, lo, hi);
}
