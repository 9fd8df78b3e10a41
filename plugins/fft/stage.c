// The template "fft": candidates, and what all ways of emission share.
//
// A block makes one row, or as many neighbouring rows as there are lanes. Points come from a source and go to a sink
// (fft_io): the holes, on-chip memory, or one of them behind a multiplication with a chirp. Between passes the row lies
// on chip, real and imaginary parts apart.
//
// Real transforms of even length N are complex ones of M = N/2 points z[j] = x[2j] + i x[2j+1], and a step that takes
// their spectrum apart into pairs k, M - k, after it (forward) or before it (inverse):
//   S = A + conj B, D = A - conj B, T = -+i exp(-+2πi k/N) D;  result[k] = S + T, result[M - k] = conj(S - T).
// That step takes the norm along: it is in the table of roots, and an addition takes S times it.
// (Sorensen et al., "Real-valued fast Fourier transform algorithms", 1987.) Odd lengths are complex transforms of which
// half is stored or of which half is the other half's mirror.
#include "stage.h"

#include <math.h>
#include <stdlib.h>

// ---- small helpers ----
tc_kval fft_int(const fft_emit *e, int64_t v) { return tc_kb_int(e->c.b, TC_I32, v); }
tc_kval fft_add(const fft_emit *e, tc_kval x, tc_kval y) { return tc_kb_op2(e->c.b, TC_K_ADD, x, y); }
tc_kval fft_sub(const fft_emit *e, tc_kval x, tc_kval y) { return tc_kb_op2(e->c.b, TC_K_SUB, x, y); }
tc_kval fft_mul(const fft_emit *e, tc_kval x, tc_kval y) { return tc_kb_op2(e->c.b, TC_K_MUL, x, y); }
tc_kval fft_muli(const fft_emit *e, tc_kval x, int64_t y) { return fft_mul(e, x, fft_int(e, y)); }
tc_kval fft_addi(const fft_emit *e, tc_kval x, int64_t y) { return fft_add(e, x, fft_int(e, y)); }
tc_kval fft_both(const fft_emit *e, tc_kval mask, tc_kval other) {
  return mask < 0 ? other : other < 0 ? mask : tc_kb_op2(e->c.b, TC_K_AND, mask, other);
}
static tc_kval negated(const fft_emit *e, tc_kval x) { return tc_kb_op1(e->c.b, TC_K_NEG, x); }
static fft_value conjugate(const fft_emit *e, fft_value v) { return (fft_value){v.re, negated(e, v.im), v.scale}; }
static fft_value plus(const fft_emit *e, fft_value x, fft_value y) { // of one scale
  return (fft_value){fft_add(e, x.re, y.re), fft_add(e, x.im, y.im), x.scale};
}
static fft_value minus(const fft_emit *e, fft_value x, fft_value y) {
  return (fft_value){fft_sub(e, x.re, y.re), fft_sub(e, x.im, y.im), x.scale};
}

// ---- tables ----
void fft_put_number(const fft_emit *e, void *data, int64_t at, double v) {
  if (e->c.real == TC_F64) ((double *)data)[at] = v;
  else ((float *)data)[at] = (float)v;
}

tc_kmem fft_add_table(fft_emit *e, const char *name, int64_t count, void *data) {
  size_t size = 0;
  while (name[size]) size++;
  tc_kmem m = data ? tc_kb_table(e->c.b, (tc_sv){name, size}, e->c.real, count, data) : -1;
  if (!data) e->failed = true;
  free(data);
  return m;
}

void fft_put_unit(const fft_emit *e, void *data, int64_t at, int64_t step, int64_t k, int64_t n) {
  double re, im;
  fft_unit(k, n, &re, &im);
  fft_put_number(e, data, at, re);
  fft_put_number(e, data, at + step, im);
}

void *fft_room(const fft_emit *e, int64_t count) { return calloc((size_t)count, e->c.real == TC_F64 ? 8 : 4); }

fft_table fft_make_table(fft_emit *e, const fft_pass *p, int32_t kind) {
  fft_table t = {.kind = kind, .mem = -1, .fine = -1};
  int64_t r = p->radix - 1, lanes = e->plan.lanes, m = p->m, turn = m * p->radix, blocks = (m + lanes - 1) / lanes;
  if (m == 1 || r == 0) return (fft_table){.kind = FFT_TABLE_NONE, .mem = -1, .fine = -1};
  if (kind == FFT_TABLE_LANES && blocks * r * 2 * lanes * (e->c.real == TC_F64 ? 8 : 4) > FFT_TABLE_BYTES)
    t.kind = kind = FFT_TABLE_SPLIT;
  int64_t count = kind == FFT_TABLE_LANES   ? blocks * r * 2 * lanes
                  : kind == FFT_TABLE_SPLIT ? blocks * r * 2
                                            : m * r * 2;
  void *data = fft_room(e, count);
  for (int64_t q = 0; q < (kind == FFT_TABLE_SPLIT   ? blocks
                           : kind == FFT_TABLE_LANES ? blocks * lanes
                                                     : m) &&
                      data;
       q++) {
    for (int64_t k = 1; k <= r; k++) {
      int64_t at = (q * r + k - 1) * 2, step = 1;
      if (kind == FFT_TABLE_LANES) at = (q / lanes * r + k - 1) * 2 * lanes + q % lanes, step = lanes;
      fft_put_unit(e, data, at, step, (kind == FFT_TABLE_SPLIT ? q * lanes : q) * k, turn);
    }
  }
  t.mem = fft_add_table(e, "turns", count, data);
  if (kind != FFT_TABLE_SPLIT) return t;
  data = fft_room(e, r * 2 * lanes);
  for (int64_t k = 1; k <= r && data; k++) {
    for (int64_t l = 0; l < lanes; l++) fft_put_unit(e, data, (k - 1) * 2 * lanes + l, lanes, l * k, turn);
  }
  t.fine = fft_add_table(e, "fine_turns", r * 2 * lanes, data);
  return t;
}

// Loads take 16 bytes at most: two factors of single precision. A step has no more than these; radix 16 with all of its
// factors is more exact by 3 %, but takes so many registers that fewer blocks fit.
fft_table fft_make_input_table(fft_emit *e, const fft_pass *p) {
  int32_t most = e->c.real == TC_F32 ? 2 : FFT_FEW;
  int64_t count = fft_factor_count(p->radix, most);
  fft_table t = {.kind = p->s > 1 && count ? FFT_TABLE_INPUTS : FFT_TABLE_NONE, .mem = -1, .fine = -1};
  if (t.kind == FFT_TABLE_NONE) return t;
  t.most = most;
  t.together = count % 2 || !fft_is_written_out(p->radix) || e->c.real == TC_F64 ? 1 : 2;
  void *data = fft_room(e, count * p->s * 2);
  for (int32_t i = 0; i < count && data; i++) {
    for (int64_t q = 0; q < p->s; q++) {
      double factor[2];
      fft_factor(p->radix, most, p->s, q, i, factor);
      int64_t at = ((i / t.together * p->s + q) * t.together + i % t.together) * 2;
      for (int32_t part = 0; part < 2; part++) fft_put_number(e, data, at + part, factor[part]);
    }
  }
  t.mem = fft_add_table(e, "turns", count * p->s * 2, data);
  return t;
}

void fft_make_arrays(fft_emit *e, int32_t more) {
  static const char *const names[2][2] = {{"row_re", "row_im"}, {"next_re", "next_im"}};
  int32_t hops = (e->plan.length == e->plan.n ? e->plan.n_passes - 1 : 2 * e->plan.n_passes - 1) + more;
  for (int32_t i = 0; i < 2 && i < hops; i++)
    for (int32_t part = 0; part < 2; part++)
      e->array[i][part] = tc_kb_shared(e->c.b, (tc_sv){names[i][part], i ? 7 : 6}, e->c.real, e->way->room(e));
}

void fft_factor_pairs(fft_spot *at, tc_kval k, tc_kval *re, tc_kval *im) {
  tc_kval i = fft_add(at->e, at->turn, fft_muli(at->e, fft_addi(at->e, k, -1), 2)), w[2];
  tc_kb_load(at->e->c.b, at->table.mem, i, 2, -1, NULL, w);
  *re = w[0], *im = w[1];
}

// ---- one spot ----
// Of point base + k·step: is it surely beyond the limit, or in need of a mask?
static bool beyond(const fft_spot *at, const fft_io *io, int64_t step) {
  return io->limit && at->k >= 0 && at->k * step >= io->limit;
}
static tc_kval within(const fft_spot *at, const fft_io *io, int64_t step, tc_kval i) {
  tc_kval mask = at->mask;
  if (io->until) mask = fft_both(at->e, mask, tc_kb_op2(at->e->c.b, TC_K_LT, i, io->until));
  if (!io->limit || (at->k >= 0 && (at->k + 1) * step <= io->limit)) return mask;
  return fft_both(at->e, mask, tc_kb_op2(at->e->c.b, TC_K_LT, i, fft_int(at->e, io->limit)));
}

static fft_value turned(fft_spot *at, tc_kval k, fft_value v) {
  tc_kval re, im;
  at->factor(at, k, &re, &im);
  return fft_turn(&at->e->c, v, re, im);
}

static fft_value load_plain(fft_spot *at, tc_kval k) {
  fft_emit *e = at->e;
  if (!at->in) return at->load(at, k);
  int64_t step = e->plan.n / at->p->radix;
  tc_kval zero = tc_kb_real(e->c.b, e->c.real, 0);
  if (beyond(at, at->in, step)) return (fft_value){zero, zero, 1};
  tc_kval i = fft_add(e, at->read, fft_muli(e, k, step));
  fft_value v;
  at->in->load(e, i, 1, within(at, at->in, step, i), &v);
  return v;
}

static fft_value load_at(fft_spot *at, tc_kval k, bool turn) {
  fft_value v = load_plain(at, k);
  return at->turn >= 0 && at->early && turn ? turned(at, k, v) : v;
}

void fft_put_out(fft_spot *at, tc_kval k, fft_value v) {
  fft_emit *e = at->e;
  if (beyond(at, at->out, at->p->s)) return;
  tc_kval i = fft_add(e, at->write, fft_muli(e, k, at->p->s));
  if (at->turns_out) v = fft_turn_output(at, v);
  e->turned = at->turns_out;
  at->out->store(e, i, 1, &v, within(at, at->out, at->p->s, i));
  e->turned = false;
}

static void store_at(fft_spot *at, tc_kval k, fft_value v, bool turn) {
  if (at->turn >= 0 && !at->early && turn) v = turned(at, k, v);
  if (!at->out || at->put_off) at->store(at, k, fft_plain(&at->e->c, v));
  else fft_put_out(at, k, v);
}

static fft_value port_in(void *self, int32_t k) {
  fft_spot *at = self;
  at->k = k;
  return load_at(at, fft_int(at->e, k), k > 0 && !at->merged);
}
static void port_out(void *self, int32_t k, fft_value v) {
  fft_spot *at = self;
  at->k = k;
  store_at(at, fft_int(at->e, k), v, k > 0);
}

// A prime radix too large to be written out: sums and differences of inputs k and p-k wait in lane arrays, then every
// pair of outputs is a sum over them, in loops.
static void prime_sums(fft_spot *at) {
  fft_emit *e = at->e;
  tc_kb *b = e->c.b;
  int32_t p = at->p->radix, h = p / 2;
  at->k = -1;
  void *data = fft_room(e, (int64_t)h * h * 2);
  for (int32_t j = 1; j <= h && data; j++) {
    for (int32_t k = 1; k <= h; k++) {
      double re, im;
      fft_unit((int64_t)j * k, p, &re, &im);
      fft_put_number(e, data, ((int64_t)(j - 1) * h + k - 1) * 2, re);
      fft_put_number(e, data, ((int64_t)(j - 1) * h + k - 1) * 2 + 1, e->c.sign * im);
    }
  }
  tc_kmem unit = fft_add_table(e, "units", (int64_t)h * h * 2, data), array[4];
  static const char *const names[] = {"sum_re", "sum_im", "diff_re", "diff_im"};
  for (int32_t i = 0; i < 4; i++) array[i] = tc_kb_lane_array(b, (tc_sv){names[i], 6 + (i > 1)}, e->c.real, h);
  if (e->failed) return;

  fft_value x0 = load_at(at, fft_int(e, 0), false);
  tc_kval sum[2] = {x0.re, x0.im}, carried[4], next[4];
  tc_kval k = tc_kb_for(b, fft_int(e, 0), fft_int(e, h), 1, 0, 2, sum, carried);
  fft_value u = load_at(at, fft_addi(e, k, 1), true), v = load_at(at, fft_sub(e, fft_int(e, p - 1), k), true);
  tc_kval pair[4] = {fft_add(e, u.re, v.re), fft_add(e, u.im, v.im), fft_sub(e, u.re, v.re), fft_sub(e, u.im, v.im)};
  for (int32_t i = 0; i < 4; i++) tc_kb_store(b, array[i], k, 1, &pair[i], -1);
  next[0] = fft_add(e, carried[0], pair[0]);
  next[1] = fft_add(e, carried[1], pair[1]);
  tc_kb_end_for(b, 2, next, sum);
  store_at(at, fft_int(e, 0), (fft_value){sum[0], sum[1], 1}, false);

  tc_kval zero = tc_kb_real(b, e->c.real, 0), acc[4] = {x0.re, x0.im, zero, zero};
  tc_kval j = tc_kb_for(b, fft_int(e, 0), fft_int(e, h), 1, 0, 0, NULL, NULL);
  k = tc_kb_for(b, fft_int(e, 0), fft_int(e, h), 1, 0, 4, acc, carried);
  tc_kval at_unit = fft_muli(e, fft_add(e, fft_muli(e, j, h), k), 2), w[2];
  tc_kb_load(b, unit, at_unit, 2, -1, NULL, w);
  for (int32_t i = 0; i < 4; i++)
    next[i] = tc_kb_op3(b, TC_K_FMA, tc_kb_load1(b, array[i], k, -1, -1), w[i / 2], carried[i]);
  tc_kb_end_for(b, 4, next, acc);
  // ± i (odd re + i odd im), the sign being in the table
  fft_value even = {acc[0], acc[1], 1}, odd = {negated(e, acc[3]), acc[2], 1};
  fft_value up = {fft_add(e, even.re, odd.re), fft_add(e, even.im, odd.im), 1};
  fft_value down = {fft_sub(e, even.re, odd.re), fft_sub(e, even.im, odd.im), 1};
  store_at(at, fft_addi(e, j, 1), up, true);
  store_at(at, fft_sub(e, fft_int(e, p - 1), j), down, true);
  tc_kb_end_for(b, 0, NULL, NULL);
}

static void merged_factor(void *self, int32_t i, tc_kval factor[2]) {
  fft_spot *at = self;
  at->k = i + 1;
  at->factor(at, fft_int(at->e, i + 1), &factor[0], &factor[1]);
}

void fft_spot_emit(fft_spot *at) {
  fft_ports ports = {at, port_in, port_out};
  at->merged = at->early && at->turn >= 0 && (at->p->radix & (at->p->radix - 1)) == 0;
  if (!fft_is_written_out(at->p->radix)) prime_sums(at);
  else if (at->merged) fft_turned_butterfly(&at->e->c, at->p->radix, &ports, at->table.most, merged_factor);
  else fft_butterfly(&at->e->c, at->p->radix, &ports);
}

// ---- the holes ----
static fft_value parts(fft_emit *e, tc_kval z) {
  tc_kb *b = e->c.b;
  return (fft_value){tc_kb_cast(b, e->c.real, tc_kb_op1(b, TC_K_REAL, z)),
                     tc_kb_cast(b, e->c.real, tc_kb_op1(b, TC_K_IMAG, z)), 1};
}

static void load_complex(fft_emit *e, tc_kval i, int32_t n, tc_kval mask, fft_value *out) {
  tc_kval z[FFT_WIDE];
  e->index[e->rank - 1] = i;
  tc_stage_load_n(e->c.stage, 0, e->index, n, mask, z);
  for (int32_t k = 0; k < n; k++) out[k] = parts(e, z[k]);
}

static void load_real(fft_emit *e, tc_kval i, int32_t n, tc_kval mask, fft_value *out) {
  tc_kval x[FFT_WIDE], zero = tc_kb_real(e->c.b, e->c.real, 0);
  e->index[e->rank - 1] = i;
  tc_stage_load_n(e->c.stage, 0, e->index, n, mask, x);
  for (int32_t k = 0; k < n; k++) out[k] = (fft_value){tc_kb_cast(e->c.b, e->c.real, x[k]), zero, 1};
}

static void load_pairs(fft_emit *e, tc_kval i, int32_t n, tc_kval mask, fft_value *out) {
  tc_kval x[2 * FFT_WIDE];
  e->index[e->rank - 1] = fft_muli(e, i, 2);
  tc_stage_load_n(e->c.stage, 0, e->index, 2 * n, mask, x);
  for (int32_t k = 0; k < n; k++)
    out[k] = (fft_value){tc_kb_cast(e->c.b, e->c.real, x[2 * k]), tc_kb_cast(e->c.b, e->c.real, x[2 * k + 1]), 1};
}

static tc_kval of_rows(const fft_emit *e, tc_kval mask) { return e->rows > 1 ? fft_both(e, mask, e->row_mask) : mask; }

static fft_value normed(fft_emit *e, fft_value v) {
  v.scale *= e->norm;
  v = fft_plain(&e->c, v);
  return e->any_norm < 0 ? v : (fft_value){fft_mul(e, v.re, e->any_norm), fft_mul(e, v.im, e->any_norm), 1};
}

static void store_complex(fft_emit *e, tc_kval i, int32_t n, const fft_value *v, tc_kval mask) {
  tc_kb *b = e->c.b;
  tc_kval z[FFT_WIDE];
  for (int32_t k = 0; k < n; k++) {
    fft_value x = normed(e, e->turn && !e->turned ? fft_turn_row(e, v[k], fft_addi(e, i, k), mask) : v[k]);
    z[k] = tc_kb_cast(b, tc_stage_dtype(e->c.stage), tc_kb_op2(b, TC_K_COMPLEX, x.re, x.im));
  }
  e->index[e->rank - 1] = i;
  tc_stage_store_n(e->c.stage, e->index, n, z, of_rows(e, mask));
}
static void store_one(fft_emit *e, tc_kval i, fft_value v, tc_kval mask) {
  if (e->kept) mask = fft_both(e, mask, tc_kb_op2(e->c.b, TC_K_LT, i, fft_int(e, e->kept)));
  store_complex(e, i, 1, &v, mask);
}

static void store_pairs(fft_emit *e, tc_kval i, int32_t n, const fft_value *v, tc_kval mask) {
  tc_dtype d = tc_stage_dtype(e->c.stage);
  tc_kval x[2 * FFT_WIDE];
  for (int32_t k = 0; k < n; k++) {
    fft_value y = normed(e, v[k]);
    x[2 * k] = tc_kb_cast(e->c.b, d, y.re);
    x[2 * k + 1] = tc_kb_cast(e->c.b, d, y.im);
  }
  i = fft_muli(e, i, 2);
  mask = of_rows(e, mask);
  for (int32_t k = 0; k < 2 * n && e->kept % 2; k++) { // of the last pair the first is stored
    e->index[e->rank - 1] = fft_addi(e, i, k);
    tc_kval there = tc_kb_op2(e->c.b, TC_K_LT, e->index[e->rank - 1], fft_int(e, e->kept));
    tc_stage_store(e->c.stage, e->index, x[k], fft_both(e, mask, there));
  }
  e->index[e->rank - 1] = i;
  if (e->kept % 2 == 0) tc_stage_store_n(e->c.stage, e->index, 2 * n, x, mask);
}

static void store_real(fft_emit *e, tc_kval i, int32_t n, const fft_value *v, tc_kval mask) {
  tc_kval x[FFT_WIDE];
  for (int32_t k = 0; k < n; k++) {
    fft_value y = normed(e, (fft_value){v[k].re, v[k].re, v[k].scale});
    x[k] = tc_kb_cast(e->c.b, tc_stage_dtype(e->c.stage), y.re);
  }
  e->index[e->rank - 1] = i;
  tc_stage_store_n(e->c.stage, e->index, n, x, of_rows(e, mask));
}

// ---- transforms of any length ----
// A convolution: with c[j] = exp(πi j²/N) a forward transform is X[k] = conj c[k] Σ x[j] conj c[j] c[k - j]; for an
// inverse one all c are conjugated. The transform of c, wrapped around and divided by the number of points, is a table.
static void chirp_tables(fft_emit *e) {
  int64_t n = e->plan.length, m = e->plan.n;
  tc_c128 *c = calloc((size_t)m * 4, sizeof *c);
  void *data[4] = {fft_room(e, n), fft_room(e, n), fft_room(e, m), fft_room(e, m)};
  bool ok = c && data[0] && data[1] && data[2] && data[3];
  for (int64_t j = 0; j < n && ok; j++) {
    fft_unit(j * j % (2 * n), 2 * n, &c[j].re, &c[j].im);
    fft_put_number(e, data[0], j, c[j].re);
    fft_put_number(e, data[1], j, c[j].im);
    if (j) c[m - j] = c[j];
  }
  if (ok) fft_reference(m, true, 1 / (double)m, c, c + m);
  for (int64_t k = 0; k < m && ok; k++) {
    fft_put_number(e, data[2], k, c[k].re);
    fft_put_number(e, data[3], k, c[k].im);
  }
  static const char *const names[] = {"chirp_re", "chirp_im", "filter_re", "filter_im"};
  for (int32_t i = 0; i < 4; i++) {
    if (!ok) free(data[i]), data[i] = NULL;
    tc_kmem mem = fft_add_table(e, names[i], i < 2 ? n : m, data[i]);
    if (i < 2) e->chirp[i] = mem;
    else e->filter[i - 2] = mem;
  }
  free(c);
}

// The same for a length that is known when the kernel runs, on chip.
static void put_chirp(fft_emit *e, tc_kval i, tc_kval mask) {
  tc_kb *b = e->c.b;
  // Angles between -π and π, in units of π/N.
  tc_kval n = e->any_length, twice = fft_muli(e, n, 2), t = tc_kb_op2(b, TC_K_REM, fft_mul(e, i, i), twice);
  t = tc_kb_op3(b, TC_K_SELECT, tc_kb_op2(b, TC_K_GT, t, n), fft_sub(e, t, twice), t);
  tc_kval angle = tc_kb_op2(b, TC_K_DIV, tc_kb_cast(b, e->c.real, t), tc_kb_cast(b, e->c.real, n));
  angle = fft_mul(e, angle, tc_kb_real(b, e->c.real, FFT_PI));
  tc_kval part[2] = {tc_kb_op1(b, TC_K_COS, angle), tc_kb_op1(b, TC_K_SIN, angle)}, at = e->way->place(e, i);
  for (int32_t k = 0; k < 2; k++) tc_kb_store(b, e->chirp[k], at, 1, &part[k], mask);
}
static void wrap_chirp(fft_emit *e, tc_kval i, tc_kval mask) {
  tc_kb *b = e->c.b;
  tc_kval j = tc_kb_op2(b, TC_K_MIN, i, fft_sub(e, fft_int(e, e->plan.n), i));
  tc_kval in = fft_both(e, mask, tc_kb_op2(b, TC_K_LT, j, e->any_length)), at = e->way->place(e, j);
  fft_value v = {tc_kb_load1(b, e->chirp[0], at, in, -1), tc_kb_load1(b, e->chirp[1], at, in, -1), 1};
  e->way->store(e, i, v, mask);
}
static void store_filter(fft_emit *e, tc_kval i, int32_t n, const fft_value *v, tc_kval mask) {
  for (int32_t k = 0; k < n; k++) {
    fft_value x = fft_plain(&e->c, (fft_value){v[k].re, v[k].im, v[k].scale / e->plan.n});
    tc_kval at = e->way->place(e, fft_addi(e, i, k));
    tc_kb_store(e->c.b, e->filter[0], at, 1, &x.re, mask);
    tc_kb_store(e->c.b, e->filter[1], at, 1, &x.im, mask);
  }
}
static void chirp_on_chip(fft_emit *e) {
  static const char *const names[] = {"chirp_re", "chirp_im", "filter_re", "filter_im"};
  for (int32_t i = 0; i < 4; i++) {
    tc_kmem mem = tc_kb_shared(e->c.b, (tc_sv){names[i], i < 2 ? 8 : 9}, e->c.real, e->way->room(e));
    if (i < 2) e->chirp[i] = mem;
    else e->filter[i - 2] = mem;
  }
  fft_io filter = {.store = store_filter};
  e->way->each(e, 0, e->plan.length, put_chirp);
  e->way->each(e, 0, e->plan.n, wrap_chirp);
  e->c.sign = -1;
  e->way->passes(e, NULL, &filter);
}

// v · (re, im)[i], conjugated or not.
static fft_value times(fft_emit *e, fft_value v, const tc_kmem factor[2], tc_kval i, tc_kval mask, bool conj) {
  tc_kval at = e->any_length < 0 ? i : e->way->place(e, i);
  tc_kval wr = tc_kb_load1(e->c.b, factor[0], at, mask, -1), wi = tc_kb_load1(e->c.b, factor[1], at, mask, -1);
  fft_code c = e->c;
  c.sign = conj ? -1 : 1;
  return fft_turn(&c, v, wr, wi);
}

static fft_value chip_load(fft_emit *e, tc_kval i, tc_kval mask) { return e->way->load(e, i, mask); }

static void load_chirped(fft_emit *e, tc_kval i, int32_t n, tc_kval mask, fft_value *out) {
  if (e->inner_in) e->inner_in->load(e, i, n, mask, out);
  for (int32_t k = 0; k < n; k++) {
    tc_kval at = fft_addi(e, i, k);
    if (!e->inner_in) out[k] = chip_load(e, at, mask);
    out[k] = times(e, out[k], e->chirp, at, mask, !e->swap);
  }
}
static void store_filtered(fft_emit *e, tc_kval i, int32_t n, const fft_value *v, tc_kval mask) {
  for (int32_t k = 0; k < n; k++) {
    tc_kval at = fft_addi(e, i, k);
    e->way->store(e, at, fft_plain(&e->c, times(e, v[k], e->filter, at, mask, e->swap)), mask);
  }
}
static void store_chirped(fft_emit *e, tc_kval i, int32_t n, const fft_value *v, tc_kval mask) {
  fft_value x[FFT_WIDE];
  for (int32_t k = 0; k < n; k++) {
    tc_kval at = fft_addi(e, i, k);
    x[k] = times(e, v[k], e->chirp, at, mask, !e->swap);
    if (!e->inner_out) e->way->store(e, at, fft_plain(&e->c, x[k]), mask);
  }
  if (e->inner_out) e->inner_out->store(e, i, n, x, mask);
}

static void transform(fft_emit *e, const fft_io *in, const fft_io *out) {
  if (e->plan.length == e->plan.n) {
    e->way->passes(e, in, out);
    return;
  }
  bool any = e->any_length >= 0;
  fft_io chirped = {
      .load = load_chirped, .limit = any ? 0 : e->plan.length, .until = any ? e->any_length : 0, .chip = !in};
  fft_io middle = {.store = store_filtered, .chip = true};
  fft_io last = {.store = store_chirped,
                 .limit = any                 ? 0
                          : out && out->limit ? out->limit
                                              : e->plan.length,
                 .until = any ? out && out->until ? out->until : e->any_length : 0,
                 .chip = !out};
  e->inner_in = in;
  e->inner_out = out;
  e->swap = e->c.sign > 0;
  if (any) chirp_on_chip(e);
  else chirp_tables(e);
  e->c.sign = -1;
  e->way->passes(e, &chirped, &middle);
  e->c.sign = 1;
  e->way->passes(e, NULL, &last);
}

// ---- real transforms ----
// One load takes both parts of a root where lanes are threads; lanes of vectors take neighbouring numbers.
static bool roots_together(const fft_emit *e) { return e->way == &fft_threads; }

// x times the norm, plus y.
static fft_value scaled_and(const fft_emit *e, fft_value x, fft_value y) {
  if (e->pair_norm == 1) return plus(e, x, y);
  tc_kval norm = tc_kb_real(e->c.b, e->c.real, e->pair_norm);
  return (fft_value){tc_kb_op3(e->c.b, TC_K_FMA, x.re, norm, y.re), tc_kb_op3(e->c.b, TC_K_FMA, x.im, norm, y.im), 1};
}

// S + T and S - T for k and M - k; `turned` is D times the unit root.
static void split(fft_emit *e, fft_value a, fft_value b, tc_kval k, tc_kval mask, fft_value *sum, fft_value *diff) {
  fft_value s = plus(e, a, conjugate(e, b)), d = minus(e, a, conjugate(e, b));
  // Forward: -i conj(w) d; inverse: i w d.
  tc_kval w[2];
  if (roots_together(e)) {
    tc_kb_load(e->c.b, e->turns, fft_muli(e, k, 2), 2, mask, NULL, w);
  } else {
    w[0] = tc_kb_load1(e->c.b, e->turns, k, mask, -1);
    w[1] = tc_kb_load1(e->c.b, e->turns, fft_addi(e, k, e->length / 4 + 1), mask, -1);
  }
  fft_code c = e->c;
  c.sign = e->kind == FFT_C2R ? 1 : -1;
  d = fft_turn(&c, d, w[0], w[1]);
  fft_value t =
      e->kind == FFT_C2R ? (fft_value){negated(e, d.im), d.re, d.scale} : (fft_value){d.im, negated(e, d.re), d.scale};
  *sum = scaled_and(e, s, t);
  *diff = scaled_and(e, s, (fft_value){negated(e, t.re), negated(e, t.im), t.scale});
}

// The norm goes into the table and is done with.
static void make_turns(fft_emit *e) {
  int64_t count = e->length / 4 + 1;
  void *data = fft_room(e, 2 * count);
  for (int64_t k = 0; k < count && data; k++) {
    double re, im;
    fft_unit(k, e->length, &re, &im);
    fft_put_number(e, data, roots_together(e) ? 2 * k : k, re * e->norm);
    fft_put_number(e, data, roots_together(e) ? 2 * k + 1 : k + count, im * e->norm);
  }
  e->turns = fft_add_table(e, "unit_roots", 2 * count, data);
  e->pair_norm = e->norm;
  e->norm = 1;
}

static tc_kval mirrored(const fft_emit *e, int32_t of, tc_kval k) { return fft_sub(e, fft_int(e, of), k); }

static tc_kval first_lane(const fft_emit *e) {
  if (e->plan.rows) return e->row_mask;
  tc_kval lane = e->way == &fft_threads ? e->lane : tc_kb_lane(e->c.b);
  return tc_kb_op2(e->c.b, TC_K_EQ, lane, fft_int(e, 0));
}

static void put_zero(fft_emit *e, tc_kval i, tc_kval mask) { // k = 0 and M
  (void)i, (void)mask;
  tc_kval zero = tc_kb_real(e->c.b, e->c.real, 0), only = first_lane(e);
  fft_value z = chip_load(e, fft_int(e, 0), e->row_mask);
  tc_kval sum = fft_add(e, z.re, z.im), diff = fft_sub(e, z.re, z.im);
  double norm = 2 * e->pair_norm; // that of pairs has their half in it
  store_one(e, fft_int(e, 0), (fft_value){sum, zero, norm}, only);
  store_one(e, fft_int(e, e->length / 2), (fft_value){diff, zero, norm}, only);
}

// k and M - k, of which z[other] is the point on chip; `twice`: k is not its own partner.
static void put_pair_of(fft_emit *e, tc_kval k, tc_kval other, tc_kval mask, tc_kval twice) {
  int32_t m = e->length / 2;
  fft_value sum, diff;
  split(e, fft_own_point(e, k, mask), chip_load(e, other, mask), k, mask, &sum, &diff);
  store_one(e, k, sum, mask);
  store_one(e, mirrored(e, m, k), conjugate(e, diff), twice);
  if (e->kind != FFT_R2C_FULL) return;
  if (e->from_zero) { // the first is not mirrored, and the one in the middle is there already
    mask = fft_both(e, mask, tc_kb_op2(e->c.b, TC_K_GT, k, fft_int(e, 0)));
    twice = fft_both(e, twice, tc_kb_op2(e->c.b, TC_K_GT, k, fft_int(e, 0)));
  }
  store_one(e, mirrored(e, e->length, k), conjugate(e, sum), mask);
  store_one(e, fft_addi(e, k, m), diff, twice);
}

// M/2 is its own partner.
static tc_kval not_middle(fft_emit *e, tc_kval k, tc_kval mask) {
  int32_t m = e->length / 2;
  return m % 2 ? mask : fft_both(e, mask, tc_kb_op2(e->c.b, TC_K_LT, k, fft_int(e, m / 2)));
}

static void put_pair(fft_emit *e, tc_kval k, tc_kval mask) {
  put_pair_of(e, k, mirrored(e, e->length / 2, k), mask, not_middle(e, k, mask));
}

// From k = 0 on, whose partner is z[0] again, to M/2 by itself: then pairs of lanes share no elements, so that what
// takes the spectrum in the same kernel finds it in registers (core/kernel/forward.c).
static tc_kval partner(fft_emit *e, tc_kval k) {
  tc_kval first = tc_kb_op2(e->c.b, TC_K_EQ, k, fft_int(e, 0));
  return tc_kb_op3(e->c.b, TC_K_SELECT, first, k, mirrored(e, e->length / 2, k));
}
static void put_pair_from_zero(fft_emit *e, tc_kval k, tc_kval mask) { put_pair_of(e, k, partner(e, k), mask, mask); }
static void put_middle(fft_emit *e, tc_kval i, tc_kval mask) {
  (void)i, (void)mask;
  tc_kval k = fft_int(e, e->length / 4), only = first_lane(e);
  fft_value sum, diff;
  split(e, chip_load(e, k, only), chip_load(e, k, only), k, only, &sum, &diff);
  store_one(e, k, sum, only);
  if (e->kind == FFT_R2C_FULL) store_one(e, mirrored(e, e->length, k), conjugate(e, sum), only);
}

static fft_value load_one(fft_emit *e, tc_kval i, tc_kval mask) {
  fft_value v;
  load_complex(e, i, 1, mask, &v);
  return v;
}

static void take_zero(fft_emit *e, tc_kval i, tc_kval mask) {
  (void)i, (void)mask;
  tc_kval only = first_lane(e);
  fft_value x = load_one(e, fft_int(e, 0), only), y = load_one(e, fft_int(e, e->length / 2), only);
  fft_value v = {fft_add(e, x.re, y.re), fft_sub(e, x.re, y.re), e->pair_norm};
  e->way->store(e, fft_int(e, 0), fft_plain(&e->c, v), only);
}

static void take_pair_of(fft_emit *e, fft_value x, fft_value y, tc_kval k, tc_kval mask, tc_kval twice) {
  fft_value sum, diff;
  split(e, x, y, k, mask, &sum, &diff);
  e->way->store(e, k, sum, mask);
  e->way->store(e, mirrored(e, e->length / 2, k), conjugate(e, diff), twice);
}

static void take_pair(fft_emit *e, tc_kval k, tc_kval mask) {
  // M/2 is its own partner; it is loaded once more.
  fft_value x = load_one(e, k, mask), y = load_one(e, mirrored(e, e->length / 2, k), mask);
  take_pair_of(e, x, y, k, mask, not_middle(e, k, mask));
}
static void take_pair_from_zero(fft_emit *e, tc_kval k, tc_kval mask) {
  tc_kb *b = e->c.b;
  fft_value x = load_one(e, k, mask), y = load_one(e, mirrored(e, e->length / 2, k), mask);
  tc_kval first = tc_kb_op2(b, TC_K_EQ, k, fft_int(e, 0)), zero = tc_kb_real(b, e->c.real, 0);
  x.im = tc_kb_op3(b, TC_K_SELECT, first, zero, x.im); // of k = 0 and M they have no meaning
  y.im = tc_kb_op3(b, TC_K_SELECT, first, zero, y.im);
  take_pair_of(e, x, y, k, mask, fft_both(e, mask, tc_kb_op2(b, TC_K_GT, k, fft_int(e, 0))));
}
static void take_middle(fft_emit *e, tc_kval i, tc_kval mask) {
  (void)i, (void)mask;
  tc_kval k = fft_int(e, e->length / 4), only = first_lane(e);
  fft_value x = load_one(e, k, only), sum, diff;
  split(e, x, x, k, only, &sum, &diff);
  e->way->store(e, k, sum, only);
}

// The step that takes a spectrum apart, forward or inverse.
typedef void pair_step(fft_emit *e, tc_kval k, tc_kval mask);
static void each_pair(fft_emit *e) {
  static pair_step *const steps[2][4] = {{put_zero, put_pair, put_pair_from_zero, put_middle},
                                         {take_zero, take_pair, take_pair_from_zero, take_middle}};
  pair_step *const *f = steps[e->kind == FFT_C2R];
  int32_t m = e->length / 2, quarter = m / 2;
  if (e->from_zero) {
    e->way->each(e, 0, (m + 1) / 2, f[2]);
    if (m % 2 == 0) e->way->each(e, 0, 1, f[3]);
    return;
  }
  e->way->each(e, 0, 1, f[0]);
  if (quarter >= 1) e->way->each(e, 1, quarter + 1, f[1]);
}

static void unfold_zero(fft_emit *e, tc_kval i, tc_kval mask) {
  (void)i, (void)mask;
  tc_kval only = first_lane(e);
  fft_value x = load_one(e, fft_int(e, 0), only);
  x.im = tc_kb_real(e->c.b, e->c.real, 0);
  e->way->store(e, fft_int(e, 0), x, only);
}
static void unfold(fft_emit *e, tc_kval k, tc_kval mask) {
  fft_value x = load_one(e, k, mask);
  e->way->store(e, k, x, mask);
  e->way->store(e, mirrored(e, e->length, k), conjugate(e, x), mask);
}

static void store_folded(fft_emit *e, tc_kval i, int32_t n, const fft_value *v, tc_kval mask) { // odd N
  store_complex(e, i, n, v, mask);
  for (int32_t k = 0; k < n; k++) { // all but the first have a mirror
    tc_kval at = fft_addi(e, i, k), has = tc_kb_op2(e->c.b, TC_K_GT, at, fft_int(e, 0));
    store_one(e, mirrored(e, e->length, at), conjugate(e, v[k]), fft_both(e, mask, has));
  }
}

// Point i of a spectrum of which half is there; the length is not a constant.
static void load_mirrored(fft_emit *e, tc_kval i, int32_t n, tc_kval mask, fft_value *out) {
  tc_kb *b = e->c.b;
  for (int32_t k = 0; k < n; k++) {
    tc_kval at = fft_addi(e, i, k), other = fft_sub(e, e->any_length, at);
    tc_kval there = tc_kb_op2(b, TC_K_LE, at, other), alone = tc_kb_op2(b, TC_K_EQ, at, fft_int(e, 0));
    alone = tc_kb_op2(b, TC_K_OR, alone, tc_kb_op2(b, TC_K_EQ, at, other));
    fft_value v = load_one(e, tc_kb_op3(b, TC_K_SELECT, there, at, other), mask);
    v.im = tc_kb_op3(b, TC_K_SELECT, there, v.im, negated(e, v.im));
    v.im = tc_kb_op3(b, TC_K_SELECT, alone, tc_kb_real(b, e->c.real, 0), v.im);
    out[k] = v;
  }
}

static void write_any_length(fft_emit *e, int64_t norm) {
  tc_kb *b = e->c.b;
  int32_t last = e->rank - 1;
  tc_kval n = e->kind == FFT_R2C ? tc_stage_operand_extent(e->c.stage, 0, last) : tc_stage_extent(e->c.stage, last);
  e->any_length = tc_kb_cast(b, TC_I32, n);
  e->any_half = fft_addi(e, tc_kb_op2(b, TC_K_DIV, e->any_length, fft_int(e, 2)), 1);
  if (norm) {
    tc_kval f = tc_kb_op2(b, TC_K_DIV, tc_kb_real(b, e->c.real, 1), tc_kb_cast(b, e->c.real, e->any_length));
    e->any_norm = norm == 1 ? tc_kb_op1(b, TC_K_SQRT, f) : f;
  }
  fft_io in = {.load = e->kind == FFT_C2C ? load_complex : e->kind == FFT_C2R ? load_mirrored : load_real};
  fft_io out = {.store = e->kind == FFT_C2R ? store_real : store_complex,
                .until = e->kind == FFT_R2C ? e->any_half : 0};
  e->way->open(e, true);
  transform(e, &in, &out);
}

static void write_stage(fft_emit *e) {
  static const fft_io complex_in = {.load = load_complex}, real_in = {.load = load_real},
                      pairs_in = {.load = load_pairs};
  fft_io complex_out = {.store = store_complex, .limit = e->kept}, real_out = {.store = store_real, .limit = e->kept},
         pairs_out = {.store = store_pairs, .limit = (e->kept + 1) / 2};
  int32_t half = e->length / 2;
  bool even = e->length % 2 == 0, forward = e->kind == FFT_R2C || e->kind == FFT_R2C_FULL;
  e->way->open(e, e->kind != FFT_C2C);
  if (e->kind == FFT_C2C) {
    transform(e, &complex_in, &complex_out);
  } else if (!even && forward) {
    fft_io folded = {.store = e->kind == FFT_R2C ? store_complex : store_folded,
                     .limit = e->kept && e->kept <= half ? e->kept : half + 1};
    transform(e, &real_in, &folded);
  } else if (forward) {
    e->norm *= 0.5;
    make_turns(e);
    transform(e, &pairs_in, NULL);
    each_pair(e);
  } else if (even) {
    make_turns(e);
    each_pair(e);
    transform(e, NULL, &pairs_out);
  } else {
    e->way->each(e, 0, 1, unfold_zero);
    if (half >= 1) e->way->each(e, 1, half + 1, unfold);
    transform(e, NULL, &real_out);
  }
}

// ---- the template ----
tc_dtype fft_real_of(tc_dtype d) {
  switch (d) {
  case TC_C32: return TC_F16;
  case TC_BC32: return TC_BF16;
  case TC_C64: return TC_F32;
  case TC_C128: return TC_F64;
  default: return d;
  }
}

static tc_dtype real_type(tc_dtype d) { // of the arithmetic
  switch (fft_real_of(d)) {
  case TC_F16:
  case TC_BF16:
  case TC_F32: return TC_F32;
  case TC_F64: return TC_F64;
  default: return TC_DTYPE_NONE;
  }
}

// Of a configuration: which number says that radices may be wide.
enum { WIDE = 0 };

static fft_limits limits_of(const tc_stage *s, tc_dtype real) {
  const tc_device_props *d = tc_stage_device(s);
  fft_limits l = {.max_lanes = d->max_lanes > 0 && d->max_lanes < 1024 ? d->max_lanes : 1024};
  if (d->simd_bytes) l.vector = d->simd_bytes / (real == TC_F64 ? 8 : 4);
  l.few = l.vector && d->simd_bytes < 64;
  return l;
}

// N of the stage; -1 if it is not known.
static int64_t length_of(const tc_stage *s) {
  int32_t last = tc_stage_rank(s) - 1;
  int64_t length = tc_stage_attr(s, FFT_ATTR_LENGTH, 0);
  if (length > 0) return length;
  return tc_stage_attr(s, FFT_ATTR_KIND, FFT_C2C) == FFT_R2C ? tc_stage_operand_size(s, 0, last)
                                                             : tc_stage_out_size(s, last);
}

// Points of the result that the stage is asked for; 0: all of them.
static int32_t kept_of(const tc_stage *s) {
  int64_t n = length_of(s), kept = tc_stage_out_size(s, tc_stage_rank(s) - 1);
  int64_t all = tc_stage_attr(s, FFT_ATTR_KIND, FFT_C2C) == FFT_R2C ? n / 2 + 1 : n;
  return n > 0 && kept > 0 && kept < all ? (int32_t)kept : 0;
}

// The length of the complex transform inside.
static int64_t inner_length(int64_t n, int64_t kind) { return kind != FFT_C2C && n > 0 && n % 2 == 0 ? n / 2 : n; }

// What loads and stores of a row cost when lanes are `rows` neighbouring rows or neighbouring points.
static double move_cost(const fft_plan *p, const fft_limits *limits, int64_t columns) {
  double points = p->length, cost = 0, transpose = limits->few ? 10 : 18;
  for (int32_t side = 0; side < 2; side++) {
    bool strided = columns >> side & 1;
    if (p->rows) cost += strided ? 2 * points / p->lanes : transpose * points / p->lanes;
    else cost += strided ? (limits->few ? 4 : 2) * points : 2 * points / p->lanes;
  }
  return cost;
}

// Does x go before y? Wide radices of real rows, whose spectrum is taken apart, take more time, not less.
static bool is_better(const tc_stage *s, const fft_plan *x, const fft_plan *y) {
  if (!x->wide) return x->cost < y->cost;
  return tc_stage_attr(s, FFT_ATTR_KIND, FFT_C2C) == FFT_C2C && fft_pays(x, y);
}

static const char *plan_for(const tc_stage *s, const fft_limits *limits, fft_plan *out) {
  int64_t n = length_of(s), most = tc_stage_attr(s, FFT_ATTR_MOST, 0);
  if (n < 0) return fft_make_plan_up_to(most > FFT_MAX_LENGTH ? 0 : (int32_t)most, limits, out);
  n = inner_length(n, tc_stage_attr(s, FFT_ATTR_KIND, FFT_C2C));
  return fft_make_plan(n > FFT_MAX_LENGTH ? FFT_MAX_LENGTH + 1 : (int32_t)n, limits, out);
}

// ---- several rows a block, where lanes are threads ----
// How many rows fill a block that are read and written point by point. Measured on an H200 for 8 to 1000 points: a
// block should have some 160 points; lanes that idle cost more where passes are many, and barriers the more the more
// groups of 32 lanes wait for each other, most where they are not hidden behind passes, one group nothing.
static int32_t rows_to_fill(const fft_plan *p) {
  enum { GROUP = 32, MOST = 256, POINTS = 160 };
  int32_t best = 1, least = (POINTS + p->n - 1) / p->n;
  double best_cost = HUGE_VAL;
  for (int32_t rows = least; rows == least || rows * p->lanes <= MOST; rows++) {
    double groups = ceil(rows * p->lanes / (double)GROUP), busy = rows * p->lanes / (groups * GROUP);
    double cost = p->n_passes > 2 ? pow(busy, -0.5) * pow(groups, 0.04) : pow(busy, -0.25) * pow(groups, 0.1);
    if (groups < 2) cost *= 0.8;
    else if ((rows & (rows - 1)) != 0) cost *= 1.07; // divisions, and places that meet
    if (cost < best_cost) best_cost = cost, best = rows;
  }
  return best;
}

// Turns a configuration of one row a block into one of several; false: that is no better.
static bool take_rows(const tc_stage *s, const fft_plan *p, int64_t point_bytes, tc_stage_config *c) {
  enum { SIDE_BY_SIDE = 16, FEW = 4, LANES = 512 };
  const tc_device_props *dev = tc_stage_device(s);
  int32_t rank = tc_stage_rank(s), rows = 1, last = rank - 2;
  int64_t columns = tc_stage_attr(s, FFT_ATTR_COLUMNS, 0), most = dev->max_lanes / p->lanes, all = 1, row = 1;
  if (rank < 2 || length_of(s) < 0) return false;
  for (int32_t d = 0; d < rank - 1; d++) all *= tc_stage_out_hint(s, d);
  int64_t near = tc_stage_out_hint(s, last), busy = dev->cores > 0 ? all / dev->cores : all;
  if (columns) {
    row = point_bytes * p->n;
    rows = SIDE_BY_SIDE;
    if (most > near) most = near;
    while (rows > FEW && (rows > busy || rows * p->lanes > LANES || (rows + 1) * row > dev->shared_bytes / 2))
      rows /= 2;
    while (rows > 1 && (rows > most || (rows + 1) * row > dev->shared_bytes)) rows /= 2;
    c->tile[last] = rows;
  } else {
    row = point_bytes * (p->n + p->n / 8 + 1);
    int64_t left = rows_to_fill(p);
    if (left > busy) left = busy;
    if (left * row > dev->shared_bytes / 4) left = dev->shared_bytes / 4 / row;
    if (left > most) left = most;
    for (int32_t d = last; d >= 0 && left > 1; d--) {
      int64_t size = tc_stage_out_hint(s, d), tile = size < left ? size : left;
      if (tile < 1) return false;
      c->tile[d] = tile;
      rows *= (int32_t)tile;
      left /= tile;
    }
  }
  c->lanes = rows * p->lanes;
  c->row_lanes = columns != 0;
  c->shared_bytes = p->n_passes > 1 ? (rows + (columns != 0)) * row : 0;
  return rows > 1;
}

static int32_t candidates(const tc_stage *s, int32_t max, tc_stage_config *out, int32_t *out_n) {
  const tc_device_props *dev = tc_stage_device(s);
  int32_t rank = tc_stage_rank(s);
  tc_dtype real = real_type(tc_stage_dtype(s));
  *out_n = 0;
  const char *why = rank < 1                         ? "a transform needs a dimension"
                    : real == TC_DTYPE_NONE          ? "the result is not of floating point"
                    : tc_stage_operand_count(s) != 1 ? "there is one operand"
                                                     : NULL;
  if (why) {
    tc_stage_refuse(s, why);
    return TC_STATUS_OK;
  }
  fft_limits limits = limits_of(s, real);
  // A cache that is too small costs time; of what threads share there is no more.
  int64_t on_chip = limits.vector ? dev->l2_bytes > 1 << 19 ? dev->l2_bytes : 1 << 19 : dev->shared_bytes;
  double rows = 1;
  for (int32_t d = 0; d < rank - 1; d++) rows *= (double)tc_stage_out_hint(s, d);
  fft_plan plans[6];
  int32_t count = 0;
  for (int32_t i = 0; i < 4; i++) { // neighbouring rows; vectors, halves and quarters; or threads, with wide radices
    fft_plan p;
    limits.rows = i == 0;
    if (i == 0 && (!limits.vector || rank < 2)) continue;
    if (i > 0) limits.lanes = limits.vector >> (i - 1);
    limits.wide = i == 2 && !limits.vector;
    if (i > 1 && limits.lanes < 1 && (!limits.wide || real != TC_F32 || !count)) break;
    why = plan_for(s, &limits, &p);
    if (why || (limits.wide && !fft_saves_a_pass(&p, plans))) break;
    int64_t chip = (length_of(s) < 0 ? 8 : 4) * ((int64_t)p.n + 1) * (p.rows ? p.lanes : 1) * (real == TC_F64 ? 8 : 4);
    if (!limits.vector) chip = chip / 2 + chip / (real == TC_F64 ? 16 : 32); // threads.c: one row, padded
    if (on_chip && chip > on_chip) {
      why = "a row does not fit on chip";
      continue;
    }
    if (limits.vector) p.cost += move_cost(&p, &limits, tc_stage_attr(s, FFT_ATTR_COLUMNS, 0));
    double near = rank > 1 ? (double)tc_stage_out_hint(s, rank - 2) : 1;
    if (p.rows) p.cost *= ceil(near / p.lanes) * p.lanes / (near > 0 ? near : 1); // rows that do not exist
    int32_t at = count++;
    for (; at > 0 && is_better(s, &p, &plans[at - 1]); at--) plans[at] = plans[at - 1];
    plans[at] = p;
  }
  if (!count) tc_stage_refuse(s, why ? why : "there is no plan");
  for (int32_t i = 0; i < count && *out_n < max; i++) {
    const fft_plan *p = &plans[i];
    tc_stage_config *c = &out[(*out_n)++];
    *c = (tc_stage_config){.lanes = p->lanes, .row_lanes = p->rows, .cost = rows * p->cost * 0.3};
    c->params[WIDE] = p->wide;
    for (int32_t d = 0; d < rank - 1; d++) c->tile[d] = p->rows && d == rank - 2 ? p->lanes : 1;
    tc_stage_config several = *c;
    if (limits.vector || *out_n == max || !take_rows(s, p, real == TC_F64 ? 16 : 8, &several)) continue;
    out[(*out_n)++] = *c;
    *c = several;
  }
  return TC_STATUS_OK;
}

static int32_t emit(tc_stage *s, const tc_stage_config *config) {
  int32_t rank = tc_stage_rank(s);
  fft_emit e = {.rank = rank,
                .kind = (int32_t)tc_stage_attr(s, FFT_ATTR_KIND, FFT_C2C),
                .length = (int32_t)length_of(s),
                .kept = kept_of(s),
                .columns = (int32_t)tc_stage_attr(s, FFT_ATTR_COLUMNS, 0),
                .row_mask = -1,
                .rows = 1,
                .config = config,
                .any_length = -1,
                .any_norm = -1,
                .turns = -1,
                .own = -1};
  bool forward = e.kind == FFT_C2C ? tc_stage_attr(s, FFT_ATTR_FORWARD, 1) != 0 : e.kind != FFT_C2R;
  e.c =
      (fft_code){.stage = s, .b = tc_stage_builder(s), .real = real_type(tc_stage_dtype(s)), .sign = forward ? -1 : 1};
  e.forward = forward;
  e.turn = rank > 1 ? tc_stage_attr(s, FFT_ATTR_TURN, 0) : 0;
  fft_limits limits = limits_of(s, e.c.real);
  for (int32_t d = 0; d < rank - 1 && !limits.vector; d++) e.rows *= (int32_t)config->tile[d];
  limits.lanes = config->lanes / e.rows;
  limits.rows = limits.vector && config->row_lanes;
  limits.wide = config->params[WIDE] != 0;
  if (plan_for(s, &limits, &e.plan)) return TC_STATUS_UNIMPLEMENTED;
  e.way = e.plan.rows ? &fft_rows : limits.vector ? &fft_vectors : &fft_threads;
  e.from_zero = !limits.vector;
  int64_t norm = tc_stage_attr(s, FFT_ATTR_NORM, 0);
  e.norm = e.length < 0 ? 1 : fft_norm(norm, e.length);
  for (int32_t d = 0; d < rank - 1; d++) e.index[d] = tc_stage_origin(s, d);
  if (e.turn) fft_make_turn(&e);
  if (e.length < 0) write_any_length(&e, norm);
  else write_stage(&e);
  return e.failed ? TC_STATUS_OUT_OF_MEMORY : TC_STATUS_OK;
}

const tc_template_table fft_template = {
    .struct_size = sizeof(tc_template_table),
    .name = {"fft", 3},
    .candidates = candidates,
    .emit = emit,
    .local_operands = 1,
    .flags = TC_TEMPLATE_LEADING | TC_TEMPLATE_ZERO_ROWS,
    // 5 N log2 N a row, half of it where one side is real; where the result is complex 4 count as one.
    .flops =
        "where(attr0 == 0, 10, 5) * nlog2n(in0.last, out.last) * (out.numel // out.last) // where(attr0 == 3, 2, 8)",
};
