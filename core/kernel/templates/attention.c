// Attention over tiles with online softmax: out[…, L, E] = softmax(scale · q kᵀ + mask) v, without an L×S buffer
// (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et al., "FlashAttention", 2022).
//
// Lanes are query rows: a lane's running maximum m, sum l and output row need no other lane, and every element of k and
// v is the same for all lanes, so it is a scalar load. Per block of KEYS keys: scores into shared memory, then
// m' = max(m, scores), p = exp(s − m'), and l and the output are scaled by exp(m − m') before p is added.
// A row whose scores are all −inf gives zeros.
//
// Operands: 0 q […, L, D], 1 k […, S, D], 2 v […, S, E], 3 (optional) mask […, L, S]: bool (may attend) or added.
// attrs: 0 bits of the scale as f64, 1 causal (key ≤ query), 2 has mask. D and E are constants.
#include <stdbool.h>
#include <string.h>

#include "core/kernel/templates/templates.h"

#include "tc/plugin.h"

enum { KEYS = 32, UNROLL = 8 };

static tc_dtype type_of(const tc_stage *s) { return tc_stage_operand_dtype(s, 0) == TC_F64 ? TC_F64 : TC_F32; }

static int32_t candidates(const tc_stage *s, int32_t max, tc_stage_config *out, int32_t *out_n) {
  int32_t r = tc_stage_rank(s);
  int64_t d = tc_stage_operand_size(s, 0, r - 1), e = tc_stage_out_size(s, r - 1);
  const tc_device_props *dev = tc_stage_device(s);
  *out_n = 0;
  if (d <= 0 || e <= 0 || d > 512 || e > 512) {
    tc_stage_refuse(s, "head sizes must be constants up to 512");
    return TC_STATUS_OK;
  }
  int32_t bytes = type_of(s) == TC_F64 ? 8 : 4,
          vector = tc_template_lanes(dev, dev->simd_bytes ? dev->simd_bytes / bytes : 64);
  for (int32_t wide = dev->simd_bytes && tc_template_lanes(dev, 2 * vector) > vector ? 2 : 1; wide >= 1 && *out_n < max;
       wide--) {
    tc_stage_config *c = &out[(*out_n)++];
    *c = (tc_stage_config){.lanes = vector * wide};
    for (int32_t i = 0; i < r - 2; i++) c->tile[i] = 1;
    c->tile[r - 2] = c->lanes;
    c->shared_bytes = (d + e + KEYS) * c->lanes * bytes;
    // Two multiply-adds per query, key and column, at half a core's rate.
    c->cost = 2.0 * (double)tc_stage_out_hint(s, r - 2) * (double)tc_stage_operand_hint(s, 1, r - 2) * (double)(d + e) /
              2 / (1.5 * vector) * (1 + 0.1 / wide);
    for (int32_t i = 0; i < r - 2; i++) c->cost *= (double)tc_stage_out_hint(s, i);
  }
  return TC_STATUS_OK;
}

typedef struct at {
  tc_stage *s;
  tc_kb *b;
  int32_t rank, lanes;
  tc_dtype type; // computed in
  int64_t d, e;
  int32_t causal, mask;
  tc_kmem qt, scores, acc; // shared: [D][lanes], [KEYS][lanes], [E][lanes]
  tc_kmem stats;           // lane array: m, l
  tc_kval batch[TC_MAX_RANK], row, row_ok, keys;
} at;

static tc_kval i64(at *t, int64_t v) { return tc_kb_int(t->b, TC_I64, v); }
static tc_kval real(at *t, double v) { return tc_kb_real(t->b, t->type, v); }
static tc_kval add(at *t, tc_kval x, tc_kval y) { return tc_kb_op2(t->b, TC_K_ADD, x, y); }
static tc_kval lane64(at *t) { return tc_kb_cast(t->b, TC_I64, tc_kb_lane(t->b)); }
// Address of (i, this lane) in an array of rows of `lanes` elements.
static tc_kval cell(at *t, tc_kval i) { return add(t, tc_kb_op2(t->b, TC_K_MUL, i, i64(t, t->lanes)), lane64(t)); }

static tc_kval load(at *t, int32_t operand, tc_kval row, tc_kval column, tc_kval mask) {
  tc_kval index[TC_MAX_RANK];
  for (int32_t i = 0; i < t->rank - 2; i++) index[i] = t->batch[i];
  index[t->rank - 2] = row;
  index[t->rank - 1] = column;
  return tc_kb_cast(t->b, t->type, tc_stage_load(t->s, operand, index, mask));
}

// q, scaled, transposed into shared memory; the output's accumulators are zeroed.
static void read_queries(at *t, double scale) {
  tc_kb *b = t->b;
  tc_kval index[TC_MAX_RANK], v[16];
  for (int32_t i = 0; i < t->rank - 2; i++) index[i] = t->batch[i];
  index[t->rank - 2] = t->row;
  for (int64_t d = 0; d < t->d; d += 16) {
    int32_t width = t->d - d < 16 ? (int32_t)(t->d - d) : 16;
    bool whole = width == 16;
    index[t->rank - 1] = i64(t, d);
    if (whole) tc_stage_load_n(t->s, 0, index, 16, t->row_ok, v);
    for (int32_t i = 0; i < width; i++) {
      index[t->rank - 1] = i64(t, d + i);
      tc_kval x = whole ? v[i] : tc_stage_load(t->s, 0, index, t->row_ok);
      x = tc_kb_op2(b, TC_K_MUL, tc_kb_cast(b, t->type, x), real(t, scale));
      tc_kb_store(b, t->qt, cell(t, i64(t, d + i)), 1, &x, -1);
    }
  }
  tc_kval e = tc_kb_for(b, i64(t, 0), i64(t, t->e), 1, 0, 0, NULL, NULL), zero = real(t, 0);
  tc_kb_store(b, t->acc, cell(t, e), 1, &zero, -1);
  tc_kb_end_for(b, 0, NULL, NULL);
}

static tc_kval masked(at *t, tc_kval score, tc_kval key) {
  tc_kb *b = t->b;
  tc_kval low = real(t, -__builtin_inf());
  if (t->mask) {
    tc_kval index[TC_MAX_RANK];
    for (int32_t i = 0; i < t->rank - 2; i++) index[i] = t->batch[i];
    index[t->rank - 2] = t->row;
    index[t->rank - 1] = key;
    tc_kval m = tc_stage_load(t->s, 3, index, t->row_ok);
    if (tc_stage_operand_dtype(t->s, 3) == TC_BOOL) score = tc_kb_op3(b, TC_K_SELECT, m, score, low);
    else score = tc_kb_op2(b, TC_K_ADD, score, tc_kb_cast(b, t->type, m));
  }
  if (t->causal) score = tc_kb_op3(b, TC_K_SELECT, tc_kb_op2(b, TC_K_LE, key, t->row), score, low);
  return score;
}

// Scores of keys key0 … key0+n-1 into rows slot0 … ; returns the maximum with `max`.
static tc_kval score_keys(at *t, tc_kval key0, tc_kval slot0, int32_t n, tc_kval max) {
  tc_kb *b = t->b;
  tc_kval acc[UNROLL], carried[UNROLL], next[UNROLL];
  for (int32_t j = 0; j < n; j++) acc[j] = real(t, 0);
  tc_kval d = tc_kb_for(b, i64(t, 0), i64(t, t->d), 1, 0, n, acc, carried);
  tc_kval q = tc_kb_load1(b, t->qt, cell(t, d), -1, -1);
  for (int32_t j = 0; j < n; j++)
    next[j] = tc_kb_op3(b, TC_K_FMA, load(t, 1, add(t, key0, i64(t, j)), d, -1), q, carried[j]);
  tc_kb_end_for(b, n, next, acc);
  for (int32_t j = 0; j < n; j++) {
    tc_kval s = masked(t, acc[j], add(t, key0, i64(t, j)));
    max = tc_kb_op2(b, TC_K_FMAX, max, s);
    tc_kb_store(b, t->scores, cell(t, add(t, slot0, i64(t, j))), 1, &s, -1);
  }
  return max;
}

// acc[e0 … e0+n-1] = acc · alpha + Σ p · v over the keys of the block.
static void add_values(at *t, tc_kval e0, int32_t n, tc_kval key0, tc_kval count, tc_kval alpha) {
  tc_kb *b = t->b;
  tc_kval acc[UNROLL], carried[UNROLL], next[UNROLL];
  for (int32_t i = 0; i < n; i++)
    acc[i] = tc_kb_op2(b, TC_K_MUL, tc_kb_load1(b, t->acc, cell(t, add(t, e0, i64(t, i))), -1, -1), alpha);
  tc_kval j = tc_kb_for(b, i64(t, 0), count, 1, 0, n, acc, carried);
  tc_kval p = tc_kb_load1(b, t->scores, cell(t, j), -1, -1);
  for (int32_t i = 0; i < n; i++)
    next[i] = tc_kb_op3(b, TC_K_FMA, load(t, 2, add(t, key0, j), add(t, e0, i64(t, i)), -1), p, carried[i]);
  tc_kb_end_for(b, n, next, acc);
  for (int32_t i = 0; i < n; i++) tc_kb_store(b, t->acc, cell(t, add(t, e0, i64(t, i))), 1, &acc[i], -1);
}

// One block of `count` ≤ KEYS keys from key0.
static void key_block(at *t, tc_kval key0, tc_kval count) {
  tc_kb *b = t->b;
  tc_kval m = tc_kb_load1(b, t->stats, i64(t, 0), -1, -1), l = tc_kb_load1(b, t->stats, i64(t, 1), -1, -1), out[2],
          carried[2], next[2];
  tc_kval rest = tc_kb_op2(b, TC_K_REM, count, i64(t, UNROLL)), whole = tc_kb_op2(b, TC_K_SUB, count, rest);
  tc_kval j = tc_kb_for(b, i64(t, 0), whole, UNROLL, 0, 1, &m, carried);
  next[0] = score_keys(t, add(t, key0, j), j, UNROLL, carried[0]);
  tc_kb_end_for(b, 1, next, out);
  j = tc_kb_for(b, whole, count, 1, 0, 1, out, carried);
  next[0] = score_keys(t, add(t, key0, j), j, 1, carried[0]);
  tc_kb_end_for(b, 1, next, out);
  tc_kval max = out[0];
  // −inf − −inf is NaN: rows without a key yet stay at zero.
  tc_kval none = tc_kb_op2(b, TC_K_EQ, max, real(t, -__builtin_inf())),
          safe = tc_kb_op3(b, TC_K_SELECT, none, real(t, 0), max);
  tc_kval alpha = tc_kb_op1(b, TC_K_EXP, tc_kb_op2(b, TC_K_SUB, m, safe));
  next[0] = tc_kb_op2(b, TC_K_MUL, l, alpha);
  j = tc_kb_for(b, i64(t, 0), count, 1, 0, 1, next, carried);
  tc_kval at = cell(t, j);
  tc_kval p = tc_kb_op1(b, TC_K_EXP, tc_kb_op2(b, TC_K_SUB, tc_kb_load1(b, t->scores, at, -1, -1), safe));
  tc_kb_store(b, t->scores, at, 1, &p, -1);
  next[0] = tc_kb_op2(b, TC_K_ADD, carried[0], p);
  tc_kb_end_for(b, 1, next, out);
  tc_kb_store(b, t->stats, i64(t, 0), 1, &max, -1);
  tc_kb_store(b, t->stats, i64(t, 1), 1, &out[0], -1);
  int64_t whole_e = t->e / UNROLL * UNROLL;
  if (whole_e) {
    tc_kval e = tc_kb_for(b, i64(t, 0), i64(t, whole_e), UNROLL, 0, 0, NULL, NULL);
    add_values(t, e, UNROLL, key0, count, alpha);
    tc_kb_end_for(b, 0, NULL, NULL);
  }
  for (int64_t e = whole_e; e < t->e; e++) add_values(t, i64(t, e), 1, key0, count, alpha);
}

static void write_rows(at *t) {
  tc_kb *b = t->b;
  tc_kval index[TC_MAX_RANK], l = tc_kb_load1(b, t->stats, i64(t, 1), -1, -1);
  tc_kval empty = tc_kb_op2(b, TC_K_EQ, l, real(t, 0));
  tc_kval scale = tc_kb_op3(b, TC_K_SELECT, empty, real(t, 0),
                            tc_kb_op2(b, TC_K_DIV, real(t, 1), tc_kb_op3(b, TC_K_SELECT, empty, real(t, 1), l)));
  for (int32_t i = 0; i < t->rank - 2; i++) index[i] = t->batch[i];
  index[t->rank - 2] = t->row;
  for (int64_t e = 0; e < t->e; e += 16) {
    int32_t width = t->e - e < 16 ? 1 : 16;
    for (int64_t k = e; k < e + 16 && k < t->e; k += width) {
      tc_kval v[16];
      for (int32_t i = 0; i < width; i++)
        v[i] = tc_kb_cast(b, tc_stage_dtype(t->s),
                          tc_kb_op2(b, TC_K_MUL, tc_kb_load1(b, t->acc, cell(t, i64(t, k + i)), -1, -1), scale));
      index[t->rank - 1] = i64(t, k);
      tc_stage_store_n(t->s, index, width, v, t->row_ok);
    }
  }
}

static int32_t emit(tc_stage *s, const tc_stage_config *c) {
  at t = {.s = s, .b = tc_stage_builder(s), .rank = tc_stage_rank(s), .lanes = c->lanes, .type = type_of(s)};
  tc_kb *b = t.b;
  int64_t bits = tc_stage_attr(s, 0, 0);
  double scale;
  memcpy(&scale, &bits, sizeof scale);
  t.causal = (int32_t)tc_stage_attr(s, 1, 0);
  t.mask = (int32_t)tc_stage_attr(s, 2, 0);
  t.d = tc_stage_operand_size(s, 0, t.rank - 1);
  t.e = tc_stage_out_size(s, t.rank - 1);
  t.qt = tc_kb_shared(b, (tc_sv){"qt", 2}, t.type, t.d * t.lanes);
  t.scores = tc_kb_shared(b, (tc_sv){"scores", 6}, t.type, (int64_t)KEYS * t.lanes);
  t.acc = tc_kb_shared(b, (tc_sv){"acc", 3}, t.type, t.e * t.lanes);
  t.stats = tc_kb_lane_array(b, (tc_sv){"stats", 5}, t.type, 2);
  for (int32_t i = 0; i < t.rank - 2; i++) t.batch[i] = tc_stage_origin(s, i);
  tc_kval row0 = tc_stage_origin(s, t.rank - 2);
  t.keys = tc_stage_operand_extent(s, 1, t.rank - 2);
  tc_kval last = t.keys;
  if (t.causal) last = tc_kb_op2(b, TC_K_MIN, t.keys, add(&t, row0, i64(&t, t.lanes)));
  tc_kb_lanes(b);
  t.row = add(&t, row0, lane64(&t));
  t.row_ok = tc_stage_exact(s, t.rank - 2) ? -1 : tc_kb_op2(b, TC_K_LT, t.row, tc_stage_extent(s, t.rank - 2));
  tc_kval low = real(&t, -__builtin_inf()), zero = real(&t, 0);
  tc_kb_store(b, t.stats, i64(&t, 0), 1, &low, -1);
  tc_kb_store(b, t.stats, i64(&t, 1), 1, &zero, -1);
  read_queries(&t, scale);
  tc_kval key0 = tc_kb_for(b, i64(&t, 0), last, KEYS, 0, 0, NULL, NULL);
  key_block(&t, key0, tc_kb_op2(b, TC_K_MIN, i64(&t, KEYS), tc_kb_op2(b, TC_K_SUB, last, key0)));
  tc_kb_end_for(b, 0, NULL, NULL);
  write_rows(&t);
  tc_kb_end_lanes(b, 0, NULL, NULL);
  return TC_STATUS_OK;
}

const tc_template_table tc_template_attention = {
    .struct_size = sizeof(tc_template_table),
    .name = {"attention", 9},
    .candidates = candidates,
    .emit = emit,
    .flops = "2 * out.numel * in1.size(-2) + 2 * in0.numel * in1.size(-2)",
};
