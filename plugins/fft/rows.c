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

static void open(fft_emit *e, bool chip) { fft_make_arrays(e, chip || e->columns != 3 ? 2 : 0); }
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
  // The last pass writes where it reads (q + k N/R): in place the row takes half the room in the first cache.
  bool in_place = p->m == 1 && p->s > 1;
  e->to = reads && !in_place ? 1 - e->from : e->from;
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

// Points of the source, in batches, to where the first pass reads them.
static void bring(fft_emit *e, const fft_io *in, int32_t count) {
  tc_kb *b = e->c.b;
  fft_value v[BATCH];
  int32_t whole = count / BATCH * BATCH;
  e->to = e->from;
  begin(e);
  if (whole) {
    tc_kval i = tc_kb_for(b, fft_int(e, 0), fft_int(e, whole), BATCH, 0, 0, NULL, NULL);
    in->load(e, i, BATCH, e->row_mask, v);
    for (int32_t k = 0; k < BATCH; k++) store_row(e, fft_addi(e, i, k), fft_plain(&e->c, v[k]), -1);
    tc_kb_end_for(b, 0, NULL, NULL);
  }
  if (whole < count) in->load(e, fft_int(e, whole), count - whole, e->row_mask, v);
  for (int32_t k = whole; k < count; k++) store_row(e, fft_int(e, k), fft_plain(&e->c, v[k - whole]), -1);
  end(e);
}

static void take(fft_emit *e, const fft_io *out, int32_t count) {
  tc_kb *b = e->c.b;
  fft_value v[BATCH];
  int32_t whole = count / BATCH * BATCH;
  begin(e);
  if (whole) {
    tc_kval i = tc_kb_for(b, fft_int(e, 0), fft_int(e, whole), BATCH, 0, 0, NULL, NULL);
    for (int32_t k = 0; k < BATCH; k++) v[k] = load_row(e, fft_addi(e, i, k), -1);
    out->store(e, i, BATCH, v, e->row_mask);
    tc_kb_end_for(b, 0, NULL, NULL);
  }
  for (int32_t k = whole; k < count; k++) v[k - whole] = load_row(e, fft_int(e, k), -1);
  if (whole < count) out->store(e, fft_int(e, whole), count - whole, v, e->row_mask);
  end(e);
}

static void load_brought(fft_emit *e, tc_kval i, int32_t n, tc_kval mask, fft_value *out) {
  for (int32_t k = 0; k < n; k++) out[k] = load_row(e, fft_addi(e, i, k), mask);
}

static void passes(fft_emit *e, const fft_io *in, const fft_io *out) {
  const fft_plan *plan = &e->plan;
  fft_io brought = {.load = load_brought, .chip = true};
  bool bring_in = in && !in->chip && !in->until && !(e->columns & 1),
       take_out = out && !out->chip && !out->until && !(e->columns & 2);
  int32_t wanted = out && out->limit ? out->limit : plan->n;
  if (bring_in) {
    bring(e, in, in->limit ? in->limit : plan->n);
    brought.limit = in->limit;
    in = in->limit ? &brought : NULL;
  }
  for (int32_t i = 0; i < plan->n_passes; i++)
    pass(e, &plan->passes[i], i ? NULL : in, i + 1 < plan->n_passes || take_out ? NULL : out);
  if (take_out) take(e, out, wanted);
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

const fft_way fft_rows = {open, passes, each, load_row, store_row, place, room};
