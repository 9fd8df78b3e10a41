// Emission where lanes are neighbouring rows: no lane knows of another, nothing is wasted on lengths that are no
// multiple of the vector, factors are numbers. For short rows, and for transforms along dimensions whose neighbours lie
// apart in memory: the loads of one point of all rows are then contiguous.
//
// Where points of one row are neighbours in memory they are moved in batches through the on-chip array, which the code
// generator turns into transposes of registers. On chip, point i of row l lies at i · lanes + l.
#include <stddef.h>

#include "stage.h"

enum { BATCH = 8 };

static tc_kval place(fft_emit *e, tc_kval i) { return fft_add(e, fft_muli(e, i, e->plan.lanes), e->lane); }

static fft_value load_row(fft_emit *e, tc_kval i, tc_kval mask) {
  tc_kval at = place(e, i);
  return (fft_value){tc_kb_load1(e->c.b, e->array[e->from][0], at, mask, -1),
                     tc_kb_load1(e->c.b, e->array[e->from][1], at, mask, -1), 1};
}
static void store_row(fft_emit *e, tc_kval i, fft_value v, tc_kval mask) {
  (void)mask;
  tc_kval at = place(e, i);
  tc_kb_store(e->c.b, e->array[e->to][0], at, 1, &v.re, -1);
  tc_kb_store(e->c.b, e->array[e->to][1], at, 1, &v.im, -1);
}

static fft_value load(fft_spot *at, tc_kval k) {
  return load_row(at->e, fft_add(at->e, at->read, fft_muli(at->e, k, at->e->plan.n / at->p->radix)), -1);
}
static void store(fft_spot *at, tc_kval k, fft_value v) {
  store_row(at->e, fft_add(at->e, at->write, fft_muli(at->e, k, at->p->s)), v, -1);
}

static int64_t room(const fft_emit *e) { return (int64_t)e->plan.n * e->plan.lanes; }

// Opens a region; sets which row a lane has and whether it exists.
static void begin(fft_emit *e) {
  tc_kb *b = e->c.b;
  int32_t d = e->rank - 2;
  tc_kb_barrier(b);
  tc_kb_lanes(b);
  e->lane = tc_kb_lane(b);
  tc_kval origin = tc_stage_origin(e->c.stage, d);
  e->index[d] = fft_add(e, origin, tc_kb_cast(b, TC_I64, e->lane));
  e->row_mask = tc_stage_exact(e->c.stage, d) ? -1 : tc_kb_op2(b, TC_K_LT, e->index[d], tc_stage_extent(e->c.stage, d));
}

static void end(fft_emit *e) { tc_kb_end_lanes(e->c.b, 0, NULL, NULL); }

static void pass(fft_emit *e, const fft_pass *p, const fft_io *in, const fft_io *out) {
  tc_kb *b = e->c.b;
  fft_spot at = {
      .e = e, .p = p, .in = in, .out = out, .turn = -1, .load = load, .store = store, .factor = fft_factor_pairs};
  bool reads = !in || in->chip, writes = !out || out->chip;
  e->to = reads ? 1 - e->from : e->from;
  at.table = fft_make_table(e, p, FFT_TABLE_PAIRS);
  begin(e);
  at.mask = e->row_mask;
  tc_kval zero = fft_int(e, 0), i = zero, q = zero;
  if (p->m > 1) i = tc_kb_for(b, zero, fft_int(e, p->m), 1, 0, 0, NULL, NULL);
  if (p->s > 1) q = tc_kb_for(b, zero, fft_int(e, p->s), 1, 0, 0, NULL, NULL);
  if (at.table.kind != FFT_TABLE_NONE) at.turn = fft_muli(e, i, 2 * (p->radix - 1));
  at.read = fft_add(e, fft_muli(e, i, p->s), q);
  at.write = fft_add(e, fft_muli(e, i, (int64_t)p->s * p->radix), q);
  fft_spot_emit(&at);
  if (p->s > 1) tc_kb_end_for(b, 0, NULL, NULL);
  if (p->m > 1) tc_kb_end_for(b, 0, NULL, NULL);
  end(e);
  if (writes) e->from = e->to;
  else e->to = e->from;
}

static void passes(fft_emit *e, const fft_io *in, const fft_io *out) {
  const fft_plan *plan = &e->plan;
  for (int32_t i = 0; i < plan->n_passes; i++)
    pass(e, &plan->passes[i], i ? NULL : in, i + 1 < plan->n_passes ? NULL : out);
}

static void each(fft_emit *e, int32_t from, int32_t to, void (*f)(fft_emit *e, tc_kval i, tc_kval mask)) {
  tc_kb *b = e->c.b;
  begin(e);
  if (to - from > 1) {
    f(e, tc_kb_for(b, fft_int(e, from), fft_int(e, to), 1, 0, 0, NULL, NULL), e->row_mask);
    tc_kb_end_for(b, 0, NULL, NULL);
  } else {
    f(e, fft_int(e, from), e->row_mask);
  }
  end(e);
}

const fft_way fft_rows = {fft_make_arrays, passes, each, load_row, store_row, place, room};
