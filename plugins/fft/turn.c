// Turning between the steps of a long transform (long.c): element k of row j is multiplied by w^(jk), w = exp(±2πi/N).
//
// The N factors would be as long as the row itself, so they are products of factors from tables that were made in
// double, rounded once: where a table were large, w^e = w^(2^b h) w^l with e = 2^b h + l takes two of about √N numbers.
// Where lanes are neighbouring rows, j = j0 + lane: w^(j0 k) is the same number in all lanes, made as above with j0 in
// units of the lanes, and w^(lane k) comes as whole vectors from another table, or two with k = 2^f p + q.
#include "stage.h"

// exp(2πi step i/N) for i < count, as pairs.
static tc_kmem pairs(fft_emit *e, const char *name, int64_t step, int64_t count) {
  void *data = fft_room(e, 2 * count);
  for (int64_t i = 0; i < count && data; i++) fft_put_unit(e, data, 2 * i, 1, i * step % e->turn, e->turn);
  return fft_add_table(e, name, 2 * count, data);
}

// exp(2πi lane step i/N) for i < count: [i][re, im][lane].
static tc_kmem vectors(fft_emit *e, const char *name, int64_t step, int64_t count) {
  int64_t lanes = e->plan.lanes;
  void *data = fft_room(e, 2 * count * lanes);
  for (int64_t i = 0; i < count * lanes && data; i++)
    fft_put_unit(e, data, i / lanes * 2 * lanes + i % lanes, lanes, i % lanes * (i / lanes) * step, e->turn);
  return fft_add_table(e, name, 2 * count * lanes, data);
}

void fft_make_turn(fft_emit *e) {
  int64_t unit = e->plan.rows ? e->plan.lanes : 1, count = e->turn / unit + 1, bits = 0, fine = 0, n = e->length,
          size = e->c.real == TC_F64 ? 8 : 4;
  while (1 << 2 * bits < count) bits++;
  if (count * 2 * size <= FFT_TABLE_BYTES) bits = 0;
  e->turn_bits = (int32_t)bits;
  e->turn_low = pairs(e, "turn_low", unit, bits ? 1 << bits : count);
  if (bits) e->turn_high = pairs(e, "turn_high", unit << bits, (count >> bits) + 1);
  if (!e->plan.rows) return;
  if (n * 2 * unit * size > FFT_TABLE_BYTES)
    while (1 << 2 * fine < n) fine++;
  e->turn_fine = (int32_t)fine;
  e->turn_lane = vectors(e, "turn_lane", 1, fine ? 1 << fine : n);
  if (fine) e->turn_far = vectors(e, "turn_far", 1 << fine, (n >> fine) + 1);
}

static fft_value product(fft_emit *e, fft_value x, fft_value y) {
  fft_code c = e->c;
  c.sign = 1;
  return fft_turn(&c, x, y.re, y.im);
}

static fft_value pair_at(fft_emit *e, tc_kmem table, tc_kval i, tc_kval mask) {
  tc_kval w[2];
  tc_kb_load(e->c.b, table, fft_muli(e, i, 2), 2, mask, NULL, w);
  return (fft_value){w[0], w[1], 1};
}

static fft_value vector_at(fft_emit *e, tc_kmem table, tc_kval i) {
  tc_kval at = fft_add(e, fft_muli(e, i, 2 * (int64_t)e->plan.lanes), e->lane);
  return (fft_value){tc_kb_load1(e->c.b, table, at, -1, -1),
                     tc_kb_load1(e->c.b, table, fft_addi(e, at, e->plan.lanes), -1, -1), 1};
}

static tc_kval high(fft_emit *e, tc_kval x, int32_t bits) { return tc_kb_op2(e->c.b, TC_K_SHR, x, fft_int(e, bits)); }
static tc_kval low(fft_emit *e, tc_kval x, int32_t bits) {
  return tc_kb_op2(e->c.b, TC_K_AND, x, fft_int(e, ((int64_t)1 << bits) - 1));
}

// w^part
static fft_value factor_of(fft_emit *e, tc_kval part, tc_kval mask) {
  fft_value w = pair_at(e, e->turn_low, e->turn_bits ? low(e, part, e->turn_bits) : part, mask);
  if (!e->turn_bits) return w;
  return product(e, w, pair_at(e, e->turn_high, high(e, part, e->turn_bits), mask));
}

static fft_value turned(const fft_emit *e, fft_value v, fft_value w) {
  fft_code c = e->c;
  c.sign = e->forward ? -1 : 1;
  return fft_turn(&c, v, w.re, w.im);
}

fft_value fft_turn_row(fft_emit *e, fft_value v, tc_kval k, tc_kval mask) {
  tc_kb *b = e->c.b;
  tc_kval j = e->index[e->rank - 2];
  if (e->plan.rows) { // the same in all lanes, and k is a number of the row also in lanes whose row does not exist
    j = tc_kb_op2(b, TC_K_DIV, tc_stage_origin(e->c.stage, e->rank - 2), tc_kb_int(b, TC_I64, e->plan.lanes));
    mask = -1;
  }
  tc_kval part = fft_mul(e, tc_kb_cast(b, TC_I32, j), k);
  fft_value w = factor_of(e, part, mask);
  if (e->plan.rows) {
    fft_value fine = vector_at(e, e->turn_lane, e->turn_fine ? low(e, k, e->turn_fine) : k);
    if (e->turn_fine) fine = product(e, fine, vector_at(e, e->turn_far, high(e, k, e->turn_fine)));
    w = product(e, fine, w);
  }
  return turned(e, v, w);
}

// Point write + k s of row j: w^(j write), which is made once, times w^(j k s), which is the same in all lanes of a
// row, so that its loads cost little.
fft_value fft_turn_output(fft_spot *at, fft_value v) {
  fft_emit *e = at->e;
  tc_kval j = tc_kb_cast(e->c.b, TC_I32, e->index[e->rank - 2]);
  if (at->turn_first.re < 0) at->turn_first = factor_of(e, fft_mul(e, j, at->write), at->mask);
  fft_value w = at->turn_first;
  if (at->k > 0) w = product(e, w, factor_of(e, fft_muli(e, j, (int64_t)at->k * at->p->s), at->mask));
  return turned(e, v, w);
}
