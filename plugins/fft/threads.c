// Emission where lanes are threads: every pass has each thread make the same number of butterflies, from registers.
//
// A block makes one row, or several (fft_emit.rows): short ones fill its lanes, and neighbouring ones let accesses
// along a strided dimension take what lies together. Lane l of row r is lane r L + l of the block, or, where the rows'
// points lie side by side in memory, lane l R + r: each pass has the order that suits its holes.
//
// Passes decimate in time: input k of butterfly j = p s + q is turned by exp(∓2πi qk/(s R)), so that the first pass,
// which waits for memory, needs no factors, and later ones take them into their additions (butterfly.c).
//
// Three passes of powers of two, from hole to hole, write where they have read: the row lies there once, so that more
// blocks fit, and no pass waits for another's reading. Point (d1, d2, d3) lies at d1 W + d2 (R3 + 1) + d3, W = R2 R3 +
// R2 + 1; pass i makes digit ki of the result from di, so that the last one stores (k1, k2, k3) in order.
//
// Otherwise on-chip memory holds the row twice where it is read and written more than once and two blocks still have
// room beside each other: a pass reads one and writes the other. Else what a pass has read waits in lane arrays while a
// barrier separates reading from writing.
//
// A real transform takes its spectrum apart in pairs of points, of which one is this lane's own result where the last
// pass has one butterfly a lane: that half stays in its lane array, and only the other half goes through memory.
// Elements are complex numbers, both parts together, so that one instruction moves them. Memory has 128 bytes that can
// be reached at once, B elements. Element a lies at a, or at a + a / B where the strides of the passes would meet in
// one place of these too often; rows side by side have element a of row r at a (R + 1) + r. The first pass reads
// through the hole and need not wait; the last one stores through the hole.
//
// Lanes of rows that do not exist make the last one again, and only their stores through the hole are masked.
#include <stddef.h>

#include "stage.h"

enum {
  AT_ONCE = 128,  // bytes
  WRITTEN_OUT = 8 // steps of a thread; more of them are a loop: compilers take minutes for a row in one thread
};

typedef struct thread_spot {
  tc_kmem points;
  tc_kval first_point; // of this butterfly in `points`
  bool wait;           // outputs go to `points`
  bool keeps;          // the first half of the outputs goes to e->own, or is found in `points` for it
  tc_kval read_place, write_place;
  int64_t step; // in place: between points of this pass
} thread_spot;

static tc_kval shift_right(const fft_emit *e, tc_kval x, int64_t by) {
  return tc_kb_op2(e->c.b, TC_K_SHR, x, fft_int(e, by));
}
static int32_t banks(const fft_emit *e) { return AT_ONCE / (e->c.real == TC_F64 ? 16 : 8); }
static tc_kval with_gaps(const fft_emit *e, tc_kval a) {
  return e->gaps ? fft_add(e, a, shift_right(e, a, e->c.real == TC_F64 ? 3 : 4)) : a;
}
static bool power_of_two(int64_t x) { return (x & (x - 1)) == 0; }

// *quotient and *rest of a number that is not negative.
static void split(const fft_emit *e, tc_kval x, int32_t by, tc_kval *quotient, tc_kval *rest) {
  int32_t bits = 0;
  while (1 << bits < by) bits++;
  if (power_of_two(by)) {
    *quotient = shift_right(e, x, bits);
    *rest = tc_kb_op2(e->c.b, TC_K_AND, x, fft_int(e, by - 1));
  } else {
    *quotient = tc_kb_op2(e->c.b, TC_K_DIV, x, fft_int(e, by));
    *rest = tc_kb_op2(e->c.b, TC_K_REM, x, fft_int(e, by));
  }
}

// ---- rows of a block ----
// Which row this lane has, as an index and a mask, and which lane of it this is.
static void find_row(fft_emit *e, bool side_by_side) {
  tc_kb *b = e->c.b;
  tc_kval lane = tc_kb_lane(b), row;
  e->lane = lane;
  if (e->rows == 1) return;
  if (side_by_side) split(e, lane, e->rows, &e->lane, &row);
  else split(e, lane, e->plan.lanes, &row, &e->lane);
  e->row = row;
  e->row_mask = -1;
  for (int32_t d = e->rank - 2; d >= 0; d--) {
    tc_kval at = row, origin = tc_stage_origin(e->c.stage, d);
    int32_t tile = (int32_t)e->config->tile[d];
    if (tile == 1) continue;
    split(e, row, tile, &row, &at);
    e->index[d] = fft_add(e, origin, tc_kb_cast(b, TC_I64, at));
    if (tc_stage_exact(e->c.stage, d)) continue;
    tc_kval last = fft_sub(e, tc_stage_extent(e->c.stage, d), tc_kb_int(b, TC_I64, 1));
    e->row_mask = fft_both(e, e->row_mask, tc_kb_op2(b, TC_K_LE, e->index[d], last));
    e->index[d] = tc_kb_op2(b, TC_K_MIN, e->index[d], last);
  }
}

static void begin(fft_emit *e, bool side_by_side) {
  tc_kb_barrier(e->c.b);
  tc_kb_lanes(e->c.b);
  find_row(e, side_by_side);
}

// ---- rows on chip ----
static bool lie_side_by_side(const fft_emit *e) { return e->rows > 1 && e->columns; }
static bool works_in_place(const fft_emit *e, bool chip) {
  const fft_pass *p = e->plan.passes;
  bool whole = !chip && e->rows == 1 && e->plan.n_passes == 3 && e->plan.length == e->plan.n;
  // Neighbouring lanes have places of their own then.
  return whole && power_of_two(e->plan.n) && p[0].radix >= banks(e) && p[2].radix >= banks(e);
}
static int64_t first_step(const fft_emit *e) {
  const fft_pass *p = e->plan.passes;
  return (int64_t)p[1].radix * p[2].radix + p[1].radix + 1;
}
static int64_t row_room(const fft_emit *e) { return e->plan.n + (e->gaps ? e->plan.n / banks(e) : 0) + 1; }
static int64_t room(const fft_emit *e) {
  if (e->in_place) return first_step(e) * e->plan.passes[0].radix;
  return lie_side_by_side(e) ? (int64_t)e->plan.n * (e->rows + 1) : row_room(e) * e->rows;
}

// Where point a of this lane's row lies.
static tc_kval on_chip(const fft_emit *e, tc_kval a) {
  if (lie_side_by_side(e)) return fft_add(e, fft_muli(e, a, e->rows + 1), e->row);
  return e->rows == 1 ? with_gaps(e, a) : fft_add(e, with_gaps(e, a), fft_muli(e, e->row, row_room(e)));
}

// Steps that memory takes for what neighbouring lanes read and write first in each pass.
static int32_t steps_of_passes(const fft_emit *e) {
  int32_t b = banks(e), lanes = e->plan.lanes, all = lanes * e->rows, steps = 0;
  for (int32_t i = 1; i < 2 * e->plan.n_passes - 1;
       i++) { // writes of all passes but the last, reads of all but the first
    const fft_pass *p = &e->plan.passes[i / 2];
    for (int32_t first = 0; first < all; first += b) {
      int32_t in[AT_ONCE / 8] = {0}, most = 0;
      for (int32_t l = first; l < first + b && l < all; l++) {
        int64_t j = l % lanes, at = i % 2 ? j / p->s * p->s * p->radix + j % p->s : j;
        if (j >= e->plan.n / p->radix) continue;
        at += l / lanes * row_room(e) + (e->gaps ? at / b : 0);
        if (++in[at % b] > most) most = in[at % b];
      }
      steps += most;
    }
  }
  return steps;
}

static void choose_gaps(fft_emit *e) {
  e->gaps = false;
  int32_t without = steps_of_passes(e);
  e->gaps = true;
  e->gaps = steps_of_passes(e) < without;
}

static void open(fft_emit *e, bool chip) {
  int32_t hops = (e->plan.length == e->plan.n ? e->plan.n_passes - 1 : 2 * e->plan.n_passes - 1) + chip;
  int64_t bytes;
  if (hops < 1) return;
  choose_gaps(e);
  e->in_place = works_in_place(e, chip);
  bytes = 2 * room(e) * (e->c.real == TC_F64 ? 8 : 4);
  e->arrays = hops > 2 && !e->in_place && 4 * bytes <= tc_stage_device(e->c.stage)->shared_bytes ? 2 : 1;
  e->array[0][0] = tc_kb_shared(e->c.b, (tc_sv){"row", 3}, e->c.real, 2 * room(e));
  if (e->arrays == 2) e->array[1][0] = tc_kb_shared(e->c.b, (tc_sv){"next", 4}, e->c.real, 2 * room(e));
}

static tc_kval place_of(fft_emit *e, tc_kval i) { return on_chip(e, i); }

static fft_value load_place(fft_emit *e, tc_kval at, tc_kval mask) {
  tc_kval v[2];
  tc_kb_load(e->c.b, e->array[e->from][0], fft_muli(e, at, 2), 2, mask, NULL, v);
  return (fft_value){v[0], v[1], 1};
}
static void store_place(fft_emit *e, tc_kval at, fft_value v, tc_kval mask) {
  tc_kb_store(e->c.b, e->array[e->to][0], fft_muli(e, at, 2), 2, (tc_kval[]){v.re, v.im}, mask);
}
static fft_value load_row(fft_emit *e, tc_kval i, tc_kval mask) { return load_place(e, on_chip(e, i), mask); }
static void store_row(fft_emit *e, tc_kval i, fft_value v, tc_kval mask) { store_place(e, on_chip(e, i), v, mask); }

// Where base + k·step lies: a constant distance from base where no carry can come between.
static tc_kval place(fft_spot *at, tc_kval base, tc_kval base_place, tc_kval k, int64_t step, bool carries) {
  const fft_emit *e = at->e;
  const thread_spot *t = at->self;
  if (e->in_place) return fft_addi(e, base_place, at->k * t->step);
  bool even = lie_side_by_side(e), gaps = e->gaps && !even;
  if (at->k < 0 || (carries && gaps && step % banks(e))) return on_chip(e, fft_add(e, base, fft_muli(e, k, step)));
  int64_t by = at->k * step;
  return fft_addi(e, base_place, even ? by * (e->rows + 1) : gaps ? by + by / banks(e) : by);
}

static fft_value load(fft_spot *at, tc_kval k) {
  const thread_spot *t = at->self;
  return load_place(at->e, place(at, at->read, t->read_place, k, at->e->plan.n / at->p->radix, true), at->mask);
}

static void store_now(fft_spot *at, tc_kval k, fft_value v) {
  const thread_spot *t = at->self;
  int64_t s = at->p->s, r = at->p->radix, n = banks(at->e);
  // Outputs start at q + s R p with q < s.
  bool aligned = power_of_two(s) && s <= n && (s * r % n == 0 || (s == 1 && power_of_two(r)));
  store_place(at->e, place(at, at->write, t->write_place, k, s, !aligned), v, at->mask);
}

static tc_kval point(const fft_spot *at, tc_kval k) {
  const thread_spot *t = at->self;
  return fft_muli(at->e, fft_add(at->e, k, t->first_point), 2);
}

static void put_point(const fft_emit *e, tc_kmem points, tc_kval i, fft_value v) {
  tc_kb_store(e->c.b, points, i, 1, &v.re, -1);
  tc_kb_store(e->c.b, points, fft_addi(e, i, 1), 1, &v.im, -1);
}
static fft_value get_point(const fft_emit *e, tc_kmem points, tc_kval i) {
  return (fft_value){tc_kb_load1(e->c.b, points, i, -1, -1), tc_kb_load1(e->c.b, points, fft_addi(e, i, 1), -1, -1), 1};
}

// Does output k stay with its lane, and with it alone? Point 0 is its own partner, and looked for in memory.
static bool stays(const fft_spot *at) {
  const thread_spot *t = at->self;
  return t->keeps && at->k > 0 && at->k < at->p->radix / 2;
}

static void store(fft_spot *at, tc_kval k, fft_value v) {
  const thread_spot *t = at->self;
  if (t->wait) put_point(at->e, t->points, point(at, k), v);
  else if (t->keeps && at->k < at->p->radix / 2) put_point(at->e, at->e->own, point(at, k), v);
  if (!t->wait && !stays(at)) store_now(at, k, v);
}

static void load_factor(fft_spot *at, tc_kval group, int32_t in, tc_kval *re, tc_kval *im) {
  fft_emit *e = at->e;
  int32_t together = at->table.together;
  tc_kval i = fft_add(e, at->turn, fft_muli(e, group, 2 * (int64_t)together * at->p->s)), w[4];
  tc_kb_load(e->c.b, at->table.mem, i, 2 * together, at->mask, NULL, w);
  *re = w[2 * in], *im = w[2 * in + 1];
}

// Of input k, or number k - 1 of fft_turned_butterfly; where factors lie together k is known.
static void factor(fft_spot *at, tc_kval k, tc_kval *re, tc_kval *im) {
  int32_t together = at->table.together, number = at->k - 1;
  if (together > 1) load_factor(at, fft_int(at->e, number / together), number % together, re, im);
  else load_factor(at, fft_addi(at->e, k, -1), 0, re, im);
}

// Where butterfly j of a pass reads and writes, and q, the digits of the result that are made before it.
static tc_kval locate_in_place(fft_spot *at, tc_kval j) {
  fft_emit *e = at->e;
  thread_spot *t = at->self;
  const fft_pass *p = e->plan.passes;
  int64_t pass = at->p - p, steps[3] = {first_step(e), p[2].radix + 1, 1};
  tc_kval high, low, q = pass ? j : fft_int(e, 0);
  split(e, j, pass == 2 ? p[0].radix : p[2].radix, &high, &low);
  if (pass == 1) q = high;
  t->step = steps[pass];
  tc_kval first = pass == 2 ? low : high, rest = pass == 2 ? high : low;
  t->read_place = t->write_place = pass == 0
                                       ? fft_add(e, fft_muli(e, first, steps[1]), rest)
                                       : fft_add(e, fft_muli(e, first, steps[0]), fft_muli(e, rest, steps[3 - pass]));
  return q;
}

// Butterfly number `number` of every thread; `some`: not every one has it.
static void locate(fft_spot *at, tc_kval number, bool some) {
  fft_emit *e = at->e;
  thread_spot *t = at->self;
  tc_kb *b = e->c.b;
  int32_t lanes = e->plan.lanes, s = at->p->s, r = at->p->radix, all = e->plan.n / r;
  tc_kval j = fft_add(e, e->lane, fft_muli(e, number, lanes)), p, q;
  at->mask = some ? tc_kb_op2(b, TC_K_LT, j, fft_int(e, all)) : -1;
  if (at->p->m == 1) p = fft_int(e, 0), q = j;
  else if (s == 1) p = j, q = fft_int(e, 0);
  else split(e, j, s, &p, &q);
  at->read = j;
  t->first_point = fft_muli(e, number, r);
  if (e->in_place) {
    at->write = locate_in_place(at, j);
    at->turn = at->table.kind == FFT_TABLE_NONE ? -1 : fft_muli(e, at->write, 2 * at->table.together);
    return;
  }
  at->write = fft_add(e, fft_muli(e, p, (int64_t)s * r), q);
  at->turn = at->table.kind == FFT_TABLE_NONE ? -1 : fft_muli(e, q, 2 * at->table.together);
  t->read_place = on_chip(e, at->read);
  t->write_place = on_chip(e, at->write);
}

// What waited goes to where it belongs.
static void store_points(fft_spot *at) {
  fft_emit *e = at->e;
  const thread_spot *t = at->self;
  for (int32_t k = 0; k < at->p->radix; k++) {
    at->k = k;
    fft_value v = get_point(e, t->points, point(at, fft_int(e, k)));
    if (at->out) fft_put_out(at, fft_int(e, k), v);
    else if (!stays(at)) store_now(at, fft_int(e, k), v);
  }
}

static void make_butterfly(fft_spot *at) {
  at->turn_first.re = -1;
  fft_spot_emit(at);
}

static void each_butterfly(fft_spot *at, void (*f)(fft_spot *at)) {
  fft_emit *e = at->e;
  int32_t lanes = e->plan.lanes, all = e->plan.n / at->p->radix, number = 0;
  if (all / lanes > WRITTEN_OUT) {
    number = all / lanes;
    locate(at, tc_kb_for(e->c.b, fft_int(e, 0), fft_int(e, number), 1, 0, 0, NULL, NULL), false);
    f(at);
    tc_kb_end_for(e->c.b, 0, NULL, NULL);
  }
  for (; number * lanes < all; number++) {
    locate(at, fft_int(e, number), (number + 1) * lanes > all);
    f(at);
  }
}

// May the points that this lane makes last stay with it, as each_pair() asks for them? It has the same row then.
static bool keeps_points(const fft_emit *e, const fft_pass *p, const fft_io *out) {
  bool real = e->kind == FFT_R2C || e->kind == FFT_R2C_FULL, same_row = e->rows == 1 || !e->columns;
  int32_t lanes = e->plan.lanes, n = e->plan.n, steps = n / lanes / 2;
  bool even = p->radix % 2 == 0 && n % (p->radix * lanes) == 0;
  return real && !out && e->from_zero && same_row && even && (steps <= WRITTEN_OUT || steps == 2 * WRITTEN_OUT) &&
         e->plan.n_passes > 1 && e->plan.length == n && e->length == 2 * n;
}

static void passes(fft_emit *e, const fft_io *in, const fft_io *out) {
  tc_kb *b = e->c.b;
  const fft_plan *plan = &e->plan;
  thread_spot t = {.points = -1};
  for (int32_t i = 0; i < plan->n_passes; i++) {
    const fft_pass *p = &plan->passes[i];
    const fft_io *to = i + 1 < plan->n_passes ? NULL : out;
    fft_spot at = {.e = e,
                   .p = p,
                   .in = i ? NULL : in,
                   .out = to,
                   .turn = -1,
                   .early = true,
                   .load = load,
                   .store = store,
                   .factor = factor,
                   .self = &t};
    bool reads = !at.in || at.in->chip, writes = !to || to->chip;
    // Along a dimension whose neighbours lie apart neighbouring rows do not.
    bool side_by_side = !reads ? e->columns & 1 : !writes ? e->columns & 2 : lie_side_by_side(e);
    at.turns_out = to && e->turn && fft_is_written_out(p->radix) && plan->length == plan->n;
    e->to = reads && e->arrays == 2 ? 1 - e->from : e->from;
    t.wait = reads && writes && e->arrays == 1 && !e->in_place;
    t.keeps = i + 1 == plan->n_passes && keeps_points(e, p, to);
    at.put_off = t.wait;
    if (t.wait && t.points < 0)
      t.points = tc_kb_lane_array(b, (tc_sv){"points", 6}, e->c.real, 2 * (int64_t)plan->per_lane);
    if (t.keeps && t.wait) e->own = t.points;
    else if (t.keeps) e->own = tc_kb_lane_array(b, (tc_sv){"own", 3}, e->c.real, 2 * (int64_t)plan->per_lane);
    if (t.keeps) e->own_radix = p->radix;
    at.table = fft_make_input_table(e, p);
    begin(e, side_by_side);
    each_butterfly(&at, make_butterfly);
    tc_kb_end_lanes(b, 0, NULL, NULL);
    if (t.wait) {
      begin(e, side_by_side);
      each_butterfly(&at, store_points);
      tc_kb_end_lanes(b, 0, NULL, NULL);
    }
    if (writes) e->from = e->to;
    else e->to = e->from;
  }
}

static void each(fft_emit *e, int32_t from, int32_t to, void (*f)(fft_emit *e, tc_kval i, tc_kval mask)) {
  tc_kb *b = e->c.b;
  int32_t lanes = e->plan.lanes, steps = (to - from) / lanes, rounds = steps / WRITTEN_OUT;
  begin(e, e->columns & (e->kind == FFT_C2R ? 1 : 2));
  if (steps > WRITTEN_OUT) { // rounds of steps that do not wait for each other
    int32_t round = WRITTEN_OUT * lanes;
    tc_kval i = tc_kb_for(b, fft_int(e, from), fft_int(e, from + rounds * round), round, 0, 0, NULL, NULL);
    e->first_round = rounds == 2 ? tc_kb_op2(b, TC_K_EQ, i, fft_int(e, from)) : -2;
    i = fft_add(e, e->lane, i);
    for (e->step = 0; e->step < WRITTEN_OUT; e->step++) f(e, fft_addi(e, i, e->step * lanes), -1);
    tc_kb_end_for(b, 0, NULL, NULL);
    from += rounds * round;
  }
  e->first_round = steps > WRITTEN_OUT ? -2 : -1;
  for (int32_t i = from; i < to; i += lanes) {
    tc_kval left = i + lanes <= to ? -1 : tc_kb_op2(b, TC_K_LT, e->lane, fft_int(e, to - i));
    e->step = (i - from) / lanes;
    f(e, fft_addi(e, e->lane, i), left);
  }
  tc_kb_end_lanes(b, 0, NULL, NULL);
}

// Steps take a lane's points butterfly by butterfly, then output by output.
static fft_value own_of_step(const fft_emit *e, int32_t step) {
  int32_t butterflies = e->plan.n / e->own_radix / e->plan.lanes;
  return get_point(e, e->own, fft_int(e, 2 * (step % butterflies * e->own_radix + step / butterflies)));
}

fft_value fft_own_point(fft_emit *e, tc_kval i, tc_kval mask) {
  if (e->own < 0 || e->first_round == -2) return e->way->load(e, i, mask);
  fft_value v = own_of_step(e, e->step);
  if (e->first_round < 0) return v;
  fft_value w = own_of_step(e, WRITTEN_OUT + e->step);
  return (fft_value){tc_kb_op3(e->c.b, TC_K_SELECT, e->first_round, v.re, w.re),
                     tc_kb_op3(e->c.b, TC_K_SELECT, e->first_round, v.im, w.im), 1};
}

const fft_way fft_threads = {open, passes, each, load_row, store_row, place_of, room};
