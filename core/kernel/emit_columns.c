// Emission along columns: lanes run along a parallel dimension, each lane does its own reductions in loops. Used when
// the memory is contiguous across rows (sums over the first dimension, batch statistics).
//
// Turned rows: some of the memory is contiguous across rows and the rest along them (a norm over the channels of an
// image that lies channel by channel, whose result lies position by position). Where rows are contiguous each lane
// reads and writes `turned` neighbours of its row at once, which the code generator turns in registers.
#include "core/kernel/emit_internal.h"

enum { MOST = 16 };

typedef struct column_phase {
  int32_t number;
  int32_t reduces[MOST], n_reduces;
} column_phase;

static bool has_element_stores(tc_em *e, int32_t number) {
  for (int32_t i = 0; i < e->g->steps.count; i++) {
    const tc_step *s = &e->g->steps.data[i];
    if (s->phase == number && s->stores && s->node->kind == TC_LN_POINTWISE && !em_step_is_row(e, i)) return true;
  }
  return false;
}

static void nest(tc_em *e, const column_phase *p, int32_t d, tc_kval *acc);

// Rows of threads that have few elements are written out, so that neighbours are loaded together.
static bool unrolled(tc_em *e, const column_phase *p, int32_t d, tc_kval *acc) {
  enum { LONGEST = 32 };
  const tc_sym *row = tc_product(e->l, e->n_red, e->extents + e->n_par);
  if (e->dev->simd_bytes || !tc_sym_is_const(row) || row->value > LONGEST) return false;
  if (row->value * em_cost(e) > EM_MOST_WRITTEN_OUT) return false;
  for (int64_t i = 0; i < e->extents[d]->value; i++) {
    int32_t mark = em_mark(e);
    em_bind(e, e->vars[d], em_const(e, i));
    nest(e, p, d + 1, acc);
    em_leave(e, mark);
  }
  return true;
}

// `turned` neighbours of each lane's row, from `first` on.
static void neighbours(tc_em *e, const column_phase *p, int32_t d, tc_kval first, tc_kval *acc) {
  em_wide_open(e, e->vars[d], e->turned, first);
  for (int32_t i = 0; i < e->turned; i++) {
    int32_t mark = em_mark(e);
    e->wide.at = i;
    em_bind(e, e->vars[d], em_add(e, first, em_const(e, i)));
    nest(e, p, d + 1, acc);
    em_leave(e, mark);
  }
  e->wide = (tc_em_wide){0};
}

// for variable d in [lo, hi): in parts of parts for `levels` > 0.
static void loop(tc_em *e, const column_phase *p, int32_t d, int32_t levels, tc_kval lo, tc_kval hi, tc_kval *acc) {
  int32_t mark = em_mark(e), last = e->n_par + e->n_red - 1;
  tc_kval part[MOST], carried[MOST];
  bool turned = e->turned && !levels && d == last;
  int64_t step = turned ? e->turned : em_part_length(levels);
  tc_kval i = tc_kb_for(e->kb, lo, hi, step, 0, p->n_reduces, acc, carried);
  bool inner = levels || d < last; // what is inside is a loop of its own
  if (!levels && !turned) em_bind(e, e->vars[d], i);
  if (inner) em_part_open(e, p->n_reduces, p->reduces, carried, part);
  if (levels) loop(e, p, d, levels - 1, i, tc_kb_op2(e->kb, TC_K_MIN, em_add(e, i, em_const(e, step)), hi), part);
  else if (turned) neighbours(e, p, d, i, carried);
  else nest(e, p, d + 1, inner ? part : carried);
  if (inner) em_part_close(e, p->n_reduces, p->reduces, carried, part);
  tc_kb_end_for(e->kb, p->n_reduces, inner ? part : carried, acc);
  em_leave(e, mark);
}

// Loops over the reduced variables from d on, and the work of the phase inside.
static void nest(tc_em *e, const column_phase *p, int32_t d, tc_kval *acc) {
  if (d == e->n_par + e->n_red) {
    tc_kval next[MOST];
    for (int32_t i = 0; i < p->n_reduces; i++) {
      const tc_lnode *n = e->g->steps.data[p->reduces[i]].node;
      next[i] = em_acc_combine(e, n, acc[i], em_body(e, n, e->at[p->reduces[i]]));
    }
    for (int32_t i = 0; i < p->n_reduces; i++) acc[i] = next[i];
    for (int32_t i = 0; i < e->g->steps.count; i++) {
      const tc_step *s = &e->g->steps.data[i];
      if (s->phase == p->number && s->stores && s->node->kind == TC_LN_POINTWISE && !em_step_is_row(e, i))
        em_store_step(e, i);
    }
    return;
  }
  if (unrolled(e, p, d, acc)) return;
  int32_t levels = p->n_reduces ? em_part_levels(tc_sym_hint_or(e->syms, e->extents[d], 1)) : 0;
  loop(e, p, d, levels, em_const(e, 0), em_sym(e, e->extents[d]), acc);
}

void em_column_results(tc_em *e, int32_t phase) {
  for (int32_t i = 0; i < e->g->steps.count; i++) {
    const tc_step *s = &e->g->steps.data[i];
    bool row = s->node->kind == TC_LN_REDUCE ? s->phase + 1 == phase : s->phase == phase && em_step_is_row(e, i);
    if (row && s->stores) em_store(e, s->node->outs[0], e->at[i], em_load(e, s->node->outs[0], e->at[i], NULL));
  }
}

static void columns(tc_em *e) {
  for (int32_t number = 0; number <= e->g->n_phases && !tc_failed(&e->failure); number++) {
    e->phase = number;
    em_column_results(e, number);
    if (number == e->g->n_phases) break;
    column_phase p = {.number = number};
    tc_kval acc[MOST];
    for (int32_t i = 0; i < e->g->steps.count; i++) {
      const tc_step *s = &e->g->steps.data[i];
      if (s->phase != number || s->node->kind != TC_LN_REDUCE) continue;
      if (p.n_reduces == MOST) {
        em_fail(e, "more than %d reductions in one phase", MOST);
        return;
      }
      acc[p.n_reduces] = em_acc_init(e, s->node);
      p.reduces[p.n_reduces++] = i;
    }
    if (!p.n_reduces && !has_element_stores(e, number)) continue;
    nest(e, &p, e->n_par, acc);
    for (int32_t i = 0; i < p.n_reduces; i++) {
      const tc_lnode *n = e->g->steps.data[p.reduces[i]].node;
      tc_map_put_ptr(e->rows, n->outs[0], NULL)->value.num = (int64_t)tc_kb_cast(e->kb, n->outs[0]->dtype, acc[i]) + 1;
    }
  }
}

const tc_sym *em_bind_columns(tc_em *e, int32_t lane_var, int64_t width) {
  tc_sym_ctx *c = e->syms;
  const tc_sym *runs = tc_sym_ceildiv(c, e->extents[lane_var], tc_sym_int(c, width)), *blocks = runs;
  for (int32_t d = 0; d < e->n_par; d++) {
    if (d != lane_var) blocks = tc_sym_mul(c, blocks, e->extents[d]);
  }
  em_grain(e, width * tc_sym_hint_or(c, tc_product(e->l, e->n_red, e->extents + e->n_par), 64));
  const tc_sym *block = em_bind_block(e, blocks);
  em_bind_rows(e, tc_sym_floordiv(c, block, runs), e->n_par, lane_var, -1);
  return tc_sym_muli(c, tc_sym_mod(c, block, runs), width);
}

void em_columns(tc_em *e, int32_t lane_var) {
  tc_sym_ctx *c = e->syms;
  int64_t lanes = tc_kb_lanes_count(e->kb);
  // Tiles hold rows; here every lane has a row of its own and computes again what a row would have kept.
  for (int32_t i = 0; i < e->g->steps.count; i++) {
    if (e->g->steps.data[i].hold == TC_HOLD_TILE) e->g->steps.data[i].hold = TC_HOLD_INLINE;
  }
  if (!e->turned && em_strips(e, lane_var)) return;
  const tc_sym *extent = e->extents[lane_var];
  tc_kval first = em_sym(e, em_bind_columns(e, lane_var, lanes)), end = em_sym(e, extent);
  bool exact = tc_sym_is_int(tc_sym_mod(c, extent, tc_sym_int(c, lanes)), 0);
  // Masks would have what is turned gathered: they are for the last lanes only.
  bool apart = e->turned && !exact;
  if (apart) tc_kb_if(e->kb, tc_kb_op2(e->kb, TC_K_LE, em_add(e, first, em_const(e, lanes)), end));
  for (int32_t rest = 0; rest <= apart; rest++) {
    int32_t mark = em_mark(e);
    if (rest) tc_kb_if(e->kb, tc_kb_op2(e->kb, TC_K_LT, end, em_add(e, first, em_const(e, lanes))));
    tc_kb_lanes(e->kb);
    tc_kval v = em_add(e, first, tc_kb_cast(e->kb, e->ity, tc_kb_lane(e->kb)));
    em_bind(e, e->vars[lane_var], v);
    e->mask = exact || (apart && !rest) ? -1 : tc_kb_op2(e->kb, TC_K_LT, v, end);
    columns(e);
    tc_kb_end_lanes(e->kb, 0, NULL, NULL);
    if (apart) tc_kb_end_if(e->kb, 0, NULL, NULL);
    em_leave(e, mark);
  }
}
