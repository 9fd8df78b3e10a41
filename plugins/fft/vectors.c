// Emission where lanes are the elements of a vector along a row: every pass is one region with loops over vectors of
// butterflies.
//
// The first pass (s = 1) has neighbouring p in neighbouring lanes: its loads and factors are contiguous, its outputs
// are written R at a time, which the code generator turns into transposes of registers. Later passes have neighbouring
// q in neighbouring lanes: loads and stores are contiguous, factors are the same in all lanes. What is left of a row of
// p or q that is no multiple of the lanes is done once more under a mask.
#include <stddef.h>

#include "stage.h"

typedef struct vector_spot {
  tc_kval lane;
  tc_kval read, write;        // places on chip of input and output 0
  fft_value outputs[FFT_FEW]; // first pass: waiting to be written together
} vector_spot;

// ---- the row on chip ----
static tc_kval place(fft_emit *e, tc_kval i) { return (void)e, i; }
// Inputs of one butterfly whose distance is a large power of two would share few lines of the first cache. So behind as
// many points as lie in a page there is a gap of one line, if only passes look at the row. Of powers of two gaps before
// x + k step are those before x and those before k step.
enum { PAGE = 4096, LINE = 64 };
static int64_t point_bytes(const fft_emit *e) { return e->c.real == TC_F64 ? 8 : 4; }
static int64_t gaps_before(const fft_emit *e, int64_t i) {
  int64_t size = point_bytes(e);
  return e->gaps ? i / (PAGE / size) * (LINE / size) : 0;
}
static tc_kval placed(fft_emit *e, tc_kval first) { // of the first lane's point
  int64_t size = point_bytes(e);
  if (!e->gaps) return first;
  tc_kval pages = tc_kb_op2(e->c.b, TC_K_DIV, first, fft_int(e, PAGE / size));
  return fft_add(e, first, fft_muli(e, pages, LINE / size));
}
static int64_t room(const fft_emit *e) { return e->plan.n + gaps_before(e, e->plan.n); }
static void open(fft_emit *e, bool chip) {
  int32_t n = e->plan.n;
  e->gaps = !chip && e->plan.length == n && (n & (n - 1)) == 0 && n * point_bytes(e) >= 8 * PAGE;
  fft_make_arrays(e, chip);
}

static fft_value load_row(fft_emit *e, tc_kval i, tc_kval mask) {
  return (fft_value){tc_kb_load1(e->c.b, e->array[e->from][0], i, mask, -1),
                     tc_kb_load1(e->c.b, e->array[e->from][1], i, mask, -1), 1};
}
static void store_row(fft_emit *e, tc_kval i, fft_value v, tc_kval mask) {
  tc_kb_store(e->c.b, e->array[e->to][0], i, 1, &v.re, mask);
  tc_kb_store(e->c.b, e->array[e->to][1], i, 1, &v.im, mask);
}

// Output or input k of a row where they are so many points apart.
static tc_kval place_of(fft_spot *at, tc_kval first, tc_kval k, int64_t apart) {
  tc_kval i = fft_add(at->e, first, fft_muli(at->e, k, apart));
  return at->k > 0 ? fft_addi(at->e, i, gaps_before(at->e, at->k * apart)) : i;
}
static fft_value load(fft_spot *at, tc_kval k) {
  const vector_spot *v = at->self;
  return load_row(at->e, place_of(at, v->read, k, at->e->plan.n / at->p->radix), at->mask);
}
static void store(fft_spot *at, tc_kval k, fft_value x) {
  const vector_spot *v = at->self;
  store_row(at->e, place_of(at, v->write, k, at->p->s), x, at->mask);
}

// The first pass with a written-out radix.
static void store_later(fft_spot *at, tc_kval k, fft_value x) {
  (void)k;
  ((vector_spot *)at->self)->outputs[at->k] = x;
}

static void store_together(fft_spot *at) {
  const vector_spot *v = at->self;
  fft_emit *e = at->e;
  tc_kval part[2][FFT_FEW];
  for (int32_t k = 0; k < at->p->radix; k++) part[0][k] = v->outputs[k].re, part[1][k] = v->outputs[k].im;
  for (int32_t i = 0; i < 2; i++) tc_kb_store(e->c.b, e->array[e->to][i], v->write, at->p->radix, part[i], at->mask);
}

// ---- factors ----
static void factor_lanes(fft_spot *at, tc_kval k, tc_kval *re, tc_kval *im) {
  const vector_spot *v = at->self;
  int32_t lanes = at->e->plan.lanes;
  tc_kval i = fft_add(at->e, fft_add(at->e, at->turn, fft_muli(at->e, fft_addi(at->e, k, -1), 2 * lanes)), v->lane);
  *re = tc_kb_load1(at->e->c.b, at->table.mem, i, -1, -1);
  *im = tc_kb_load1(at->e->c.b, at->table.mem, fft_addi(at->e, i, lanes), -1, -1);
}

static void factor_split(fft_spot *at, tc_kval k, tc_kval *re, tc_kval *im) {
  const vector_spot *v = at->self;
  tc_kb *b = at->e->c.b;
  int32_t lanes = at->e->plan.lanes;
  tc_kval ur, ui;
  fft_factor_pairs(at, k, &ur, &ui);
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
  bool together = !at->out && r <= FFT_FEW;
  at->read = fft_add(e, p0, v->lane);
  at->write = fft_muli(e, at->read, r);
  v->read = fft_add(e, placed(e, p0), v->lane);
  v->write = fft_add(e, placed(e, fft_muli(e, p0, r)), fft_muli(e, v->lane, r));
  at->mask = mask;
  at->turn = -1;
  if (at->table.kind == FFT_TABLE_LANES) at->turn = fft_muli(e, p0, 2 * (r - 1));
  if (at->table.kind == FFT_TABLE_SPLIT)
    at->turn = fft_muli(e, tc_kb_op2(e->c.b, TC_K_DIV, p0, fft_int(e, lanes)), 2 * (r - 1));
  at->factor = at->table.kind == FFT_TABLE_SPLIT ? factor_split : factor_lanes;
  at->store = together ? store_later : store;
  fft_spot_emit(at);
  if (together) store_together(at);
}

// Loops over whole vectors of [from, to), then what is left. `spot` gets the first element and the mask.
static void over_vectors(fft_emit *e, tc_kval lane, int32_t from, int32_t to,
                         void (*spot)(void *self, tc_kval from, tc_kval mask), void *self) {
  tc_kb *b = e->c.b;
  int32_t lanes = e->plan.lanes, whole = (to - from) / lanes * lanes, end = from + whole;
  if (whole > lanes) {
    spot(self, tc_kb_for(b, fft_int(e, from), fft_int(e, end), lanes, 0, 0, NULL, NULL), -1);
    tc_kb_end_for(b, 0, NULL, NULL);
  } else if (whole) {
    spot(self, fft_int(e, from), -1);
  }
  if (end < to) spot(self, fft_int(e, end), tc_kb_op2(b, TC_K_LT, lane, fft_int(e, to - end)));
}

typedef struct later_pass {
  vector_spot v; // first: the spot's `self`
  tc_kval p;
} later_pass;

static void first_vector(void *self, tc_kval p0, tc_kval mask) { first_spot(self, p0, mask); }

static void later_vector(void *self, tc_kval q0, tc_kval mask) {
  fft_spot *at = self;
  fft_emit *e = at->e;
  later_pass *x = at->self;
  tc_kval q = fft_add(e, q0, x->v.lane);
  at->read = fft_add(e, fft_muli(e, x->p, at->p->s), q);
  at->write = fft_add(e, fft_muli(e, x->p, (int64_t)at->p->s * at->p->radix), q);
  x->v.read = fft_add(e, placed(e, fft_add(e, fft_muli(e, x->p, at->p->s), q0)), x->v.lane);
  x->v.write = fft_add(e, placed(e, fft_add(e, fft_muli(e, x->p, (int64_t)at->p->s * at->p->radix), q0)), x->v.lane);
  at->mask = mask;
  fft_spot_emit(at);
}

static void passes(fft_emit *e, const fft_io *in, const fft_io *out) {
  tc_kb *b = e->c.b;
  const fft_plan *plan = &e->plan;
  for (int32_t i = 0; i < plan->n_passes; i++) {
    const fft_pass *p = &plan->passes[i];
    later_pass x = {.p = -1};
    fft_spot at = {.e = e,
                   .p = p,
                   .in = i ? NULL : in,
                   .out = i + 1 < plan->n_passes ? NULL : out,
                   .mask = -1,
                   .turn = -1,
                   .load = load,
                   .store = store,
                   .factor = fft_factor_pairs,
                   .self = &x};
    bool reads = !at.in || at.in->chip, writes = !at.out || at.out->chip;
    e->to = reads ? 1 - e->from : e->from;
    at.table = fft_make_table(e, p, i == 0 ? FFT_TABLE_LANES : FFT_TABLE_PAIRS);
    tc_kb_barrier(b);
    tc_kb_lanes(b);
    x.v.lane = tc_kb_lane(b);
    if (i == 0) {
      over_vectors(e, x.v.lane, 0, p->m, first_vector, &at);
    } else {
      x.p = p->m > 1 ? tc_kb_for(b, fft_int(e, 0), fft_int(e, p->m), 1, 0, 0, NULL, NULL) : fft_int(e, 0);
      if (at.table.kind != FFT_TABLE_NONE) at.turn = fft_muli(e, x.p, 2 * (p->radix - 1));
      over_vectors(e, x.v.lane, 0, p->s, later_vector, &at);
      if (p->m > 1) tc_kb_end_for(b, 0, NULL, NULL);
    }
    tc_kb_end_lanes(b, 0, NULL, NULL);
    if (writes) e->from = e->to;
    else e->to = e->from;
  }
}

typedef struct each_state {
  fft_emit *e;
  tc_kval lane;
  void (*f)(fft_emit *e, tc_kval i, tc_kval mask);
} each_state;

static void each_vector(void *self, tc_kval from, tc_kval mask) {
  const each_state *x = self;
  x->f(x->e, fft_add(x->e, from, x->lane), mask);
}

static void each(fft_emit *e, int32_t from, int32_t to, void (*f)(fft_emit *e, tc_kval i, tc_kval mask)) {
  tc_kb_barrier(e->c.b);
  tc_kb_lanes(e->c.b);
  each_state x = {e, tc_kb_lane(e->c.b), f};
  over_vectors(e, x.lane, from, to, each_vector, &x);
  tc_kb_end_lanes(e->c.b, 0, NULL, NULL);
}

const fft_way fft_vectors = {open, passes, each, load_row, store_row, place, room};
