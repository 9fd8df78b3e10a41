// Sums along columns of rows that lie far apart. A strip as wide as registers hold touches a piece of each row, and
// with each piece another page: what fetches ahead by itself never gets going. So a block takes several strips side by
// side, some rows at a time; their sums lie in lane arrays, which stay in the core's own cache (1024 rows of 4096 on
// two cores without AVX-512 take a quarter of the time).
#include "core/kernel/emit_internal.h"

enum {
  MOST = 4,       // sums
  ROWS = 4,       // at a time, in which a sum is loaded and stored once
  RUN = 4096,     // bytes of a row's sums: a page
  BLOCKS = 2,     // for each core, at least
  LEVELS = 3,     // of sums: up to two of parts (em_part_levels), and the whole
  FEWEST = 4 * 64 // rows
};

typedef struct strips {
  tc_em *e;
  const tc_sym *var;            // of the reduction
  tc_kval first, whole, all;    // the block's first column; its strips without, and with, that of the last columns
  int32_t lane_var, count;      // strips of a block
  int32_t steps[MOST], n;       // the reductions
  tc_kmem arrays[LEVELS][MOST]; // by level: those of the smallest parts first
  bool exact;                   // no strip goes beyond the end
} strips;

// What is done for a strip, by level; or for rows from `row` on.
typedef struct work {
  void (*f)(strips *x, const struct work *w, tc_kval strip);
  int32_t level, rows;
  tc_kval row;
} work;

// Fills in the reductions of a group that is nothing else: sums (or the like) of floats over one variable.
static bool only_sums(strips *x) {
  tc_em *e = x->e;
  for (int32_t i = 0; i < e->g->steps.count; i++) {
    const tc_step *s = &e->g->steps.data[i];
    if (s->node->kind == TC_LN_POINTWISE && (!s->stores || em_step_is_row(e, i))) continue;
    if (s->node->kind != TC_LN_REDUCE || s->phase > 0 || x->n == MOST) return false;
    if (tc_dtype_class(em_acc_type(s->node)) != 'f') return false;
    x->steps[x->n++] = i;
  }
  return x->n > 0 && e->n_red == 1;
}

static void for_strips(strips *x, const work *w, tc_kval lo, tc_kval hi, const tc_sym *end) {
  tc_em *e = x->e;
  int32_t mark = em_mark(e);
  tc_kval strip = tc_kb_for(e->kb, lo, hi, 1, 0, 0, NULL, NULL);
  tc_kval lane = tc_kb_cast(e->kb, e->ity, tc_kb_lane(e->kb));
  tc_kval v = em_add(e, em_add(e, x->first, em_mul(e, strip, em_const(e, tc_kb_lanes_count(e->kb)))), lane);
  em_bind(e, e->vars[x->lane_var], v);
  if (end) e->mask = tc_kb_op2(e->kb, TC_K_LT, v, em_sym(e, end));
  w->f(x, w, strip);
  tc_kb_end_for(e->kb, 0, NULL, NULL);
  e->mask = -1;
  em_leave(e, mark);
}

// Masks where strips are whole would have 16-bit elements loaded one by one.
static void each_strip(strips *x, work w) {
  for_strips(x, &w, em_const(x->e, 0), x->whole, NULL);
  if (!x->exact) for_strips(x, &w, x->whole, x->all, x->e->extents[x->lane_var]);
}

static void load(strips *x, int32_t level, tc_kval strip, tc_kval *out) {
  for (int32_t i = 0; i < x->n; i++) out[i] = tc_kb_load1(x->e->kb, x->arrays[level][i], strip, -1, -1);
}

static void store(strips *x, int32_t level, tc_kval strip, const tc_kval *v) {
  for (int32_t i = 0; i < x->n; i++) tc_kb_store(x->e->kb, x->arrays[level][i], strip, 1, &v[i], -1);
}

static void start(strips *x, const work *w, tc_kval strip) {
  tc_kval acc[MOST];
  for (int32_t i = 0; i < x->n; i++) acc[i] = em_acc_init(x->e, x->e->g->steps.data[x->steps[i]].node);
  store(x, w->level, strip, acc);
}

// The same strip of the next rows is fetched meanwhile, since these lie on other pages (1024 rows of 4096 on two cores
// of a Zen 5 take 0.09 ms so, 0.11 without).
static void take_rows(strips *x, const work *w, tc_kval strip) {
  tc_em *e = x->e;
  tc_kval acc[MOST], next[MOST];
  e->ahead = (tc_em_ahead){.var = w->rows == ROWS ? x->var : NULL, .step = ROWS};
  load(x, 0, strip, acc);
  for (int32_t u = 0; u < w->rows; u++) {
    int32_t mark = em_mark(e);
    em_bind(e, x->var, em_add(e, w->row, em_const(e, u)));
    for (int32_t i = 0; i < x->n; i++) {
      const tc_lnode *n = e->g->steps.data[x->steps[i]].node;
      next[i] = em_acc_combine(e, n, acc[i], em_body(e, n, e->at[x->steps[i]]));
    }
    for (int32_t i = 0; i < x->n; i++) acc[i] = next[i];
    em_leave(e, mark);
  }
  e->ahead.var = NULL;
  store(x, 0, strip, acc);
}

static void open_part(strips *x, const work *w, tc_kval strip) {
  tc_kval sum[MOST], part[MOST];
  load(x, w->level, strip, sum);
  em_part_open(x->e, x->n, x->steps, sum, part);
  store(x, w->level - 1, strip, part);
}

static void close_part(strips *x, const work *w, tc_kval strip) {
  tc_kval sum[MOST], part[MOST];
  load(x, w->level, strip, sum);
  load(x, w->level - 1, strip, part);
  em_part_close(x->e, x->n, x->steps, sum, part);
  store(x, w->level, strip, part);
}

static void finish(strips *x, const work *w, tc_kval strip) {
  tc_em *e = x->e;
  tc_kval acc[MOST];
  load(x, w->level, strip, acc);
  for (int32_t i = 0; i < x->n; i++) {
    const tc_buf *out = e->g->steps.data[x->steps[i]].node->outs[0];
    tc_map_put_ptr(e->rows, out, NULL)->value.num = (int64_t)tc_kb_cast(e->kb, out->dtype, acc[i]) + 1;
  }
  for (e->phase = 0; e->phase <= e->g->n_phases; e->phase++) em_column_results(e, e->phase);
}

// Rows [lo, hi), so many at a time, into the sums of the lowest level.
static void add_rows(strips *x, tc_kval lo, tc_kval hi, int32_t rows) {
  int32_t mark = em_mark(x->e);
  tc_kval row = tc_kb_for(x->e->kb, lo, hi, rows, 0, 0, NULL, NULL);
  each_strip(x, (work){take_rows, .rows = rows, .row = row});
  tc_kb_end_for(x->e->kb, 0, NULL, NULL);
  em_leave(x->e, mark);
}

// Rows [lo, hi) into the sums of a level, by parts where it is not the lowest.
static void add(strips *x, int32_t level, tc_kval lo, tc_kval hi) {
  tc_kb *b = x->e->kb;
  if (level == 0) {
    tc_kval rest = tc_kb_op2(b, TC_K_REM, tc_kb_op2(b, TC_K_SUB, hi, lo), em_const(x->e, ROWS));
    tc_kval whole = tc_kb_op2(b, TC_K_SUB, hi, rest);
    add_rows(x, lo, whole, ROWS);
    add_rows(x, whole, hi, 1);
    return;
  }
  int32_t mark = em_mark(x->e);
  int64_t step = em_part_length(level);
  tc_kval i = tc_kb_for(b, lo, hi, step, 0, 0, NULL, NULL);
  each_strip(x, (work){open_part, .level = level});
  add(x, level - 1, i, tc_kb_op2(b, TC_K_MIN, em_add(x->e, i, em_const(x->e, step)), hi));
  each_strip(x, (work){close_part, .level = level});
  tc_kb_end_for(b, 0, NULL, NULL);
  em_leave(x->e, mark);
}

// As many as a page of sums has, where that leaves every core its blocks; 1 where rows are few, or all of them stay in
// a core's cache.
static int32_t strips_of_block(const strips *x, int32_t lane_var, int64_t lanes) {
  const tc_em *e = x->e;
  tc_sym_ctx *c = e->syms;
  int64_t size = tc_dtype_size(em_acc_type(e->g->steps.data[x->steps[0]].node));
  int64_t columns = tc_sym_hint_or(c, e->extents[lane_var], 0), rows = tc_sym_hint_or(c, e->extents[e->n_par], 0);
  int64_t others = columns ? tc_sym_hint_or(c, tc_product(e->l, e->n_par, e->extents), 0) / columns : 0;
  int64_t run = RUN / (lanes * size), cores = e->dev->cores > 0 ? e->dev->cores : 1;
  int64_t by_cores = columns * others / (lanes * BLOCKS * cores), by_columns = columns / lanes;
  int64_t most = run < by_cores ? run : by_cores;
  if (most > by_columns) most = by_columns;
  bool far = rows >= FEWEST && columns * rows * size > e->dev->l2_bytes;
  return far && most > 1 ? (int32_t)most : 1;
}

bool em_strips(tc_em *e, int32_t lane_var) {
  tc_sym_ctx *c = e->syms;
  strips x = {.e = e, .var = e->vars[e->n_par], .lane_var = lane_var};
  int64_t lanes = tc_kb_lanes_count(e->kb);
  if (!e->dev->simd_bytes || !only_sums(&x)) return false;
  x.count = strips_of_block(&x, lane_var, lanes);
  if (x.count < 2) return false;
  const tc_sym *columns = e->extents[lane_var], *rows = e->extents[e->n_par], *width = tc_sym_int(c, lanes * x.count);
  const tc_sym *first = em_bind_columns(e, lane_var, lanes * x.count), *left = tc_sym_sub(c, columns, first);
  const tc_sym *whole = tc_sym_floordiv(c, left, tc_sym_int(c, lanes)),
               *all = tc_sym_ceildiv(c, left, tc_sym_int(c, lanes));
  const tc_sym *count = tc_sym_int(c, x.count);
  x.exact = tc_sym_is_int(tc_sym_mod(c, columns, width), 0);
  x.first = em_sym(e, first);
  x.whole = em_sym(e, x.exact ? count : tc_sym_min(c, whole, count));
  x.all = x.exact ? x.whole : em_sym(e, tc_sym_min(c, all, count));
  int32_t top = em_part_levels(tc_sym_hint_or(c, rows, 1));
  for (int32_t level = 0; level <= top; level++) {
    for (int32_t i = 0; i < x.n; i++) {
      tc_sv name = tc_sv_printf(e->arena, "sums%d_%d", level, i);
      x.arrays[level][i] = tc_kb_lane_array(e->kb, name, em_acc_type(e->g->steps.data[x.steps[i]].node), x.count);
    }
  }
  tc_kb_lanes(e->kb);
  each_strip(&x, (work){start, .level = top});
  add(&x, top, em_const(e, 0), em_sym(e, rows));
  each_strip(&x, (work){finish, .level = top});
  tc_kb_end_lanes(e->kb, 0, NULL, NULL);
  return true;
}
