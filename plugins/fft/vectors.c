// Emission where lanes are the elements of a vector: every pass is one region with loops over vectors of butterflies.
//
// The first pass (s = 1) has neighbouring p in neighbouring lanes: its loads and factors are contiguous, its outputs
// are written R at a time, which the code generator turns into transposes of registers. Later passes have neighbouring
// q in neighbouring lanes: loads and stores are contiguous, factors are the same in all lanes. What is left of a row of
// p or q that is no multiple of the lanes is done once more under a mask.
#include <stddef.h>

#include "stage.h"

typedef struct arrays {
  tc_kmem re, im;
} arrays;

typedef struct vector_spot {
  arrays from, to;
  tc_kval lane;
  fft_value outputs[FFT_MAX_RADIX]; // first pass: waiting to be written together
} vector_spot;

static fft_value load(fft_spot *at, tc_kval k) {
  const vector_spot *v = at->self;
  tc_kval i = fft_add(at->e, at->read, fft_muli(at->e, k, at->e->plan.n / at->p->radix));
  return (fft_value){tc_kb_load1(at->e->c.b, v->from.re, i, at->mask, -1),
                     tc_kb_load1(at->e->c.b, v->from.im, i, at->mask, -1), 1};
}

static void store(fft_spot *at, tc_kval k, fft_value x) {
  const vector_spot *v = at->self;
  tc_kval i = fft_add(at->e, at->write, fft_muli(at->e, k, at->p->s));
  tc_kb_store(at->e->c.b, v->to.re, i, 1, &x.re, at->mask);
  tc_kb_store(at->e->c.b, v->to.im, i, 1, &x.im, at->mask);
}

// The first pass with a written-out radix.
static void store_later(fft_spot *at, tc_kval k, fft_value x) {
  (void)k;
  ((vector_spot *)at->self)->outputs[at->k] = x;
}

static void store_rows(fft_spot *at) {
  const vector_spot *v = at->self;
  tc_kval part[2][FFT_MAX_RADIX];
  for (int32_t k = 0; k < at->p->radix; k++) part[0][k] = v->outputs[k].re, part[1][k] = v->outputs[k].im;
  tc_kb_store(at->e->c.b, v->to.re, at->write, at->p->radix, part[0], at->mask);
  tc_kb_store(at->e->c.b, v->to.im, at->write, at->p->radix, part[1], at->mask);
}

// ---- factors ----
static void factor_lanes(fft_spot *at, tc_kval k, tc_kval *re, tc_kval *im) {
  const vector_spot *v = at->self;
  int32_t lanes = at->e->plan.lanes;
  tc_kval i = fft_add(at->e, fft_add(at->e, at->turn, fft_muli(at->e, fft_addi(at->e, k, -1), 2 * lanes)), v->lane);
  *re = tc_kb_load1(at->e->c.b, at->table.mem, i, -1, -1);
  *im = tc_kb_load1(at->e->c.b, at->table.mem, fft_addi(at->e, i, lanes), -1, -1);
}

static void factor_pairs(fft_spot *at, tc_kval k, tc_kval *re, tc_kval *im) {
  tc_kval i = fft_add(at->e, at->turn, fft_muli(at->e, fft_addi(at->e, k, -1), 2)), w[2];
  tc_kb_load(at->e->c.b, at->table.mem, i, 2, -1, NULL, w);
  *re = w[0], *im = w[1];
}

static void factor_split(fft_spot *at, tc_kval k, tc_kval *re, tc_kval *im) {
  const vector_spot *v = at->self;
  tc_kb *b = at->e->c.b;
  int32_t lanes = at->e->plan.lanes;
  tc_kval ur, ui;
  factor_pairs(at, k, &ur, &ui);
  tc_kval i = fft_add(at->e, fft_muli(at->e, fft_addi(at->e, k, -1), 2 * lanes), v->lane);
  tc_kval vr = tc_kb_load1(b, at->table.fine, i, -1, -1),
          vi = tc_kb_load1(b, at->table.fine, fft_addi(at->e, i, lanes), -1, -1);
  *re = tc_kb_op3(b, TC_K_FMA, vr, ur, tc_kb_op1(b, TC_K_NEG, tc_kb_op2(b, TC_K_MUL, vi, ui)));
  *im = tc_kb_op3(b, TC_K_FMA, vr, ui, tc_kb_op2(b, TC_K_MUL, vi, ur));
}

// ---- passes ----
// Butterflies p0 … p0 + lanes - 1 of the first pass.
static void first_spot(fft_spot *at, tc_kval p0, tc_kval mask) {
  fft_emit *e = at->e;
  vector_spot *v = at->self;
  int32_t r = at->p->radix, lanes = e->plan.lanes;
  at->read = fft_add(e, p0, v->lane);
  at->write = fft_muli(e, at->read, r);
  at->mask = mask;
  at->turn = -1;
  if (at->table.kind == FFT_TABLE_LANES) at->turn = fft_muli(e, p0, 2 * (r - 1));
  if (at->table.kind == FFT_TABLE_SPLIT)
    at->turn = fft_muli(e, tc_kb_op2(e->c.b, TC_K_DIV, p0, fft_int(e, lanes)), 2 * (r - 1));
  at->factor = at->table.kind == FFT_TABLE_SPLIT ? factor_split : factor_lanes;
  at->store = r <= FFT_MAX_RADIX ? store_later : store;
  fft_spot_emit(at);
  if (!at->last && r <= FFT_MAX_RADIX) store_rows(at);
}

// Loops over whole vectors of [0, n), then what is left. `spot` gets the first element and the mask.
static void over_vectors(fft_spot *at, int32_t n, void (*spot)(fft_spot *at, tc_kval from, tc_kval mask)) {
  fft_emit *e = at->e;
  tc_kb *b = e->c.b;
  const vector_spot *v = at->self;
  int32_t lanes = e->plan.lanes, whole = n / lanes * lanes;
  if (whole > lanes) {
    spot(at, tc_kb_for(b, fft_int(e, 0), fft_int(e, whole), lanes, 0, 0, NULL, NULL), -1);
    tc_kb_end_for(b, 0, NULL, NULL);
  } else if (whole) {
    spot(at, fft_int(e, 0), -1);
  }
  if (whole < n) spot(at, fft_int(e, whole), tc_kb_op2(b, TC_K_LT, v->lane, fft_int(e, n - whole)));
}

typedef struct later_pass {
  vector_spot v; // first: the spot's `self`
  tc_kval p;
} later_pass;

static void later_spot(fft_spot *at, tc_kval q0, tc_kval mask) {
  fft_emit *e = at->e;
  const later_pass *x = at->self;
  tc_kval q = fft_add(e, q0, x->v.lane);
  at->read = fft_add(e, fft_muli(e, x->p, at->p->s), q);
  at->write = fft_add(e, fft_muli(e, x->p, (int64_t)at->p->s * at->p->radix), q);
  at->mask = mask;
  fft_spot_emit(at);
}

void fft_vectors(fft_emit *e) {
  tc_kb *b = e->c.b;
  const fft_plan *plan = &e->plan;
  arrays row[2] = {{-1, -1}, {-1, -1}};
  for (int32_t i = 0; i < 2 && i + 1 < plan->n_passes; i++) {
    row[i].re = tc_kb_shared(b, (tc_sv){"row_re", 6}, e->c.real, plan->n);
    row[i].im = tc_kb_shared(b, (tc_sv){"row_im", 6}, e->c.real, plan->n);
  }
  for (int32_t i = 0; i < plan->n_passes; i++) {
    const fft_pass *p = &plan->passes[i];
    later_pass x = {.v = {.from = row[(i + 1) % 2], .to = row[i % 2]}};
    fft_spot at = {.e = e,
                   .p = p,
                   .first = i == 0,
                   .last = i + 1 == plan->n_passes,
                   .mask = -1,
                   .turn = -1,
                   .load = load,
                   .store = store,
                   .self = &x};
    at.table = fft_make_table(e, p, i == 0 ? FFT_TABLE_LANES : FFT_TABLE_PAIRS);
    at.factor = factor_pairs;
    if (i) tc_kb_barrier(b);
    tc_kb_lanes(b);
    x.v.lane = tc_kb_lane(b);
    if (i == 0) {
      over_vectors(&at, p->m, first_spot);
    } else {
      x.p = p->m > 1 ? tc_kb_for(b, fft_int(e, 0), fft_int(e, p->m), 1, 0, 0, NULL, NULL) : fft_int(e, 0);
      if (at.table.kind != FFT_TABLE_NONE) at.turn = fft_muli(e, x.p, 2 * (p->radix - 1));
      over_vectors(&at, p->s, later_spot);
      if (p->m > 1) tc_kb_end_for(b, 0, NULL, NULL);
    }
    tc_kb_end_lanes(b, 0, NULL, NULL);
  }
}
