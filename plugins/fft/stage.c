// The template "fft": candidates, and what both ways of emission share.
//
// A block makes one row: it reads the row through the load hole in the first pass, keeps it on chip in between (real
// and imaginary parts apart), and hands it to the store hole in the last pass, with the normalisation.
#include "stage.h"

#include <stdlib.h>

// ---- small helpers ----
tc_kval fft_int(const fft_emit *e, int64_t v) { return tc_kb_int(e->c.b, TC_I32, v); }
tc_kval fft_add(const fft_emit *e, tc_kval x, tc_kval y) { return tc_kb_op2(e->c.b, TC_K_ADD, x, y); }
tc_kval fft_mul(const fft_emit *e, tc_kval x, tc_kval y) { return tc_kb_op2(e->c.b, TC_K_MUL, x, y); }
tc_kval fft_muli(const fft_emit *e, tc_kval x, int64_t y) { return fft_mul(e, x, fft_int(e, y)); }
tc_kval fft_addi(const fft_emit *e, tc_kval x, int64_t y) { return fft_add(e, x, fft_int(e, y)); }

// ---- tables ----
static void put_number(const fft_emit *e, void *data, int64_t at, double v) {
  if (e->c.real == TC_F64) ((double *)data)[at] = v;
  else ((float *)data)[at] = (float)v;
}

static tc_kmem add_table(fft_emit *e, const char *name, int64_t count, void *data) {
  size_t size = 0;
  while (name[size]) size++;
  tc_kmem m = data ? tc_kb_table(e->c.b, (tc_sv){name, size}, e->c.real, count, data) : -1;
  if (!data) e->failed = true;
  free(data);
  return m;
}

static void *room(const fft_emit *e, int64_t count) { return calloc((size_t)count, e->c.real == TC_F64 ? 8 : 4); }

fft_table fft_make_table(fft_emit *e, const fft_pass *p, int32_t kind) {
  fft_table t = {.kind = kind, .mem = -1, .fine = -1};
  int64_t r = p->radix - 1, lanes = e->plan.lanes, m = p->m, turn = m * p->radix, blocks = (m + lanes - 1) / lanes;
  if (m == 1 || r == 0) return (fft_table){.kind = FFT_TABLE_NONE, .mem = -1, .fine = -1};
  if (kind == FFT_TABLE_LANES && blocks * r * 2 * lanes * (e->c.real == TC_F64 ? 8 : 4) > FFT_TABLE_BYTES)
    t.kind = kind = FFT_TABLE_SPLIT;
  int64_t count = kind == FFT_TABLE_LANES   ? blocks * r * 2 * lanes
                  : kind == FFT_TABLE_SPLIT ? blocks * r * 2
                                            : m * r * 2;
  void *data = room(e, count);
  for (int64_t q = 0; q < (kind == FFT_TABLE_SPLIT   ? blocks
                           : kind == FFT_TABLE_LANES ? blocks * lanes
                                                     : m) &&
                      data;
       q++) {
    for (int64_t k = 1; k <= r; k++) {
      double re, im;
      fft_unit((kind == FFT_TABLE_SPLIT ? q * lanes : q) * k, turn, &re, &im);
      int64_t at = (q * r + k - 1) * 2, step = 1;
      if (kind == FFT_TABLE_LANES) at = (q / lanes * r + k - 1) * 2 * lanes + q % lanes, step = lanes;
      if (kind == FFT_TABLE_THREADS) at = ((k - 1) * m + q) * 2;
      put_number(e, data, at, re);
      put_number(e, data, at + step, im);
    }
  }
  t.mem = add_table(e, "turns", count, data);
  if (kind != FFT_TABLE_SPLIT) return t;
  data = room(e, r * 2 * lanes);
  for (int64_t k = 1; k <= r && data; k++) {
    for (int64_t l = 0; l < lanes; l++) {
      double re, im;
      fft_unit(l * k, turn, &re, &im);
      put_number(e, data, (k - 1) * 2 * lanes + l, re);
      put_number(e, data, ((k - 1) * 2 + 1) * lanes + l, im);
    }
  }
  t.fine = add_table(e, "fine_turns", r * 2 * lanes, data);
  return t;
}

// ---- one spot ----
static fft_value load_at(fft_spot *at, tc_kval k) {
  fft_emit *e = at->e;
  if (!at->first) return at->load(at, k);
  tc_kb *b = e->c.b;
  e->index[e->rank - 1] = fft_add(e, at->read, fft_muli(e, k, e->plan.n / at->p->radix));
  tc_kval v = tc_stage_load(e->c.stage, 0, e->index, at->mask);
  return (fft_value){tc_kb_cast(b, e->c.real, tc_kb_op1(b, TC_K_REAL, v)),
                     tc_kb_cast(b, e->c.real, tc_kb_op1(b, TC_K_IMAG, v)), 1};
}

static void store_at(fft_spot *at, tc_kval k, fft_value v, bool turned) {
  fft_emit *e = at->e;
  tc_kb *b = e->c.b;
  if (at->turn >= 0 && turned) {
    tc_kval re, im;
    at->factor(at, k, &re, &im);
    v = fft_turn(&e->c, v, re, im);
  }
  if (at->last) v.scale *= e->norm;
  v = fft_plain(&e->c, v);
  if (!at->last) {
    at->store(at, k, v);
    return;
  }
  e->index[e->rank - 1] = fft_add(e, at->write, fft_muli(e, k, at->p->s));
  tc_kval z = tc_kb_cast(b, tc_stage_dtype(e->c.stage), tc_kb_op2(b, TC_K_COMPLEX, v.re, v.im));
  tc_stage_store(e->c.stage, e->index, z, at->mask);
}

static fft_value port_in(void *self, int32_t k) {
  fft_spot *at = self;
  at->k = k;
  return load_at(at, fft_int(at->e, k));
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
  void *data = room(e, (int64_t)h * h * 2);
  for (int32_t j = 1; j <= h && data; j++) {
    for (int32_t k = 1; k <= h; k++) {
      double re, im;
      fft_unit((int64_t)j * k, p, &re, &im);
      put_number(e, data, ((int64_t)(j - 1) * h + k - 1) * 2, re);
      put_number(e, data, ((int64_t)(j - 1) * h + k - 1) * 2 + 1, e->c.sign * im);
    }
  }
  tc_kmem unit = add_table(e, "units", (int64_t)h * h * 2, data), array[4];
  static const char *const names[] = {"sum_re", "sum_im", "diff_re", "diff_im"};
  for (int32_t i = 0; i < 4; i++) array[i] = tc_kb_lane_array(b, (tc_sv){names[i], 6 + (i > 1)}, e->c.real, h);
  if (e->failed) return;

  fft_value x0 = load_at(at, fft_int(e, 0));
  tc_kval sum[2] = {x0.re, x0.im}, carried[4], next[4];
  tc_kval k = tc_kb_for(b, fft_int(e, 0), fft_int(e, h), 1, 0, 2, sum, carried);
  fft_value u = load_at(at, fft_addi(e, k, 1)), v = load_at(at, tc_kb_op2(b, TC_K_SUB, fft_int(e, p - 1), k));
  tc_kval pair[4] = {fft_add(e, u.re, v.re), fft_add(e, u.im, v.im), tc_kb_op2(b, TC_K_SUB, u.re, v.re),
                     tc_kb_op2(b, TC_K_SUB, u.im, v.im)};
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
  fft_value even = {acc[0], acc[1], 1}, odd = {tc_kb_op1(b, TC_K_NEG, acc[3]), acc[2], 1};
  fft_value up = {fft_add(e, even.re, odd.re), fft_add(e, even.im, odd.im), 1};
  fft_value down = {tc_kb_op2(b, TC_K_SUB, even.re, odd.re), tc_kb_op2(b, TC_K_SUB, even.im, odd.im), 1};
  store_at(at, fft_addi(e, j, 1), up, true);
  store_at(at, tc_kb_op2(b, TC_K_SUB, fft_int(e, p - 1), j), down, true);
  tc_kb_end_for(b, 0, NULL, NULL);
}

void fft_spot_emit(fft_spot *at) {
  fft_ports ports = {at, port_in, port_out};
  if (at->p->radix > FFT_MAX_RADIX) prime_sums(at);
  else fft_butterfly(&at->e->c, at->p->radix, &ports);
}

// ---- the template ----
static tc_dtype real_of(tc_dtype d) {
  switch (d) {
  case TC_C32:
  case TC_BC32:
  case TC_C64: return TC_F32;
  case TC_C128: return TC_F64;
  default: return TC_DTYPE_NONE;
  }
}

static fft_limits limits_of(const tc_stage *s, tc_dtype real) {
  const tc_device_props *d = tc_stage_device(s);
  fft_limits l = {.max_lanes = d->max_lanes > 0 && d->max_lanes < 1024 ? d->max_lanes : 1024};
  if (d->simd_bytes) l.vector = d->simd_bytes / (real == TC_F64 ? 8 : 4);
  return l;
}

static int32_t candidates(const tc_stage *s, int32_t max, tc_stage_config *out, int32_t *out_n) {
  const tc_device_props *dev = tc_stage_device(s);
  int32_t rank = tc_stage_rank(s);
  tc_dtype real = real_of(tc_stage_dtype(s));
  *out_n = 0;
  const char *why = rank < 1                         ? "a transform needs a dimension"
                    : real == TC_DTYPE_NONE          ? "the result is not complex"
                    : tc_stage_operand_count(s) != 1 ? "there is one operand"
                                                     : NULL;
  if (why) {
    tc_stage_refuse(s, why);
    return TC_STATUS_OK;
  }
  fft_limits limits = limits_of(s, real);
  int64_t n = tc_stage_out_size(s, rank - 1),
          on_chip = limits.vector ? dev->l2_bytes ? dev->l2_bytes : 1 << 18 : dev->shared_bytes;
  double rows = 1;
  for (int32_t d = 0; d < rank - 1; d++) rows *= (double)tc_stage_out_hint(s, d);
  for (int32_t i = 0; i < max && i < 3; i++) {
    fft_plan p;
    if (i) limits.lanes = out[*out_n - 1].lanes / 2;
    if (i && (!limits.vector || limits.lanes < 1)) break;
    why = fft_make_plan(n > FFT_MAX_LENGTH ? FFT_MAX_LENGTH + 1 : n < 0 ? 0 : (int32_t)n, &limits, &p);
    int64_t bytes = p.shared * (real == TC_F64 ? 8 : 4);
    if (!why && on_chip && bytes > on_chip) why = "a row does not fit on chip";
    if (why) {
      if (!i) tc_stage_refuse(s, why);
      break;
    }
    tc_stage_config *c = &out[(*out_n)++];
    *c = (tc_stage_config){.lanes = p.lanes, .shared_bytes = bytes, .cost = rows * p.cost * 0.3};
    for (int32_t d = 0; d < rank - 1; d++) c->tile[d] = 1;
  }
  return TC_STATUS_OK;
}

static int32_t emit(tc_stage *s, const tc_stage_config *config) {
  int32_t rank = tc_stage_rank(s);
  fft_emit e = {.rank = rank};
  e.c = (fft_code){.stage = s,
                   .b = tc_stage_builder(s),
                   .real = real_of(tc_stage_dtype(s)),
                   .sign = tc_stage_attr(s, FFT_ATTR_FORWARD, 1) ? -1 : 1};
  fft_limits limits = limits_of(s, e.c.real);
  limits.lanes = config->lanes;
  if (fft_make_plan((int32_t)tc_stage_out_size(s, rank - 1), &limits, &e.plan)) return TC_STATUS_UNIMPLEMENTED;
  e.norm = fft_norm(tc_stage_attr(s, FFT_ATTR_NORM, 0), e.plan.n);
  for (int32_t d = 0; d < rank - 1; d++) e.index[d] = tc_stage_origin(s, d);
  if (limits.vector) fft_vectors(&e);
  else fft_threads(&e);
  return e.failed ? TC_STATUS_OUT_OF_MEMORY : TC_STATUS_OK;
}

const tc_template_table fft_template = {
    .struct_size = sizeof(tc_template_table),
    .name = {"fft", 3},
    .candidates = candidates,
    .emit = emit,
    .local_operands = 1,
    .flops = "5 * out.numel * log2(out.last)",
};
