// Attention over tiles with online softmax: out[…, L, E] = softmax(scale · q kᵀ + mask) v, without an L×S buffer
// (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et al., "FlashAttention", 2022).
//
// Lanes are query rows: a lane's running maximum m, sum l and output row need no other lane. Per block of KEYS keys:
// scores into shared memory, then m' = max(m, scores), p = exp(s − m'), and l and the output are scaled by exp(m − m')
// before p is added. A row whose scores are all −inf gives zeros.
//
// Few rows have another way: attention_few.c.
//
// Operands: 0 q […, L, D], 1 k […, S, D], 2 v […, S, E], 3 (optional) mask […, L, S]: bool (may attend) or added.
// attrs: 0 bits of the scale as f64, 1 causal (key ≤ query), 2 has mask. D and E are constants.
//
// "attention_logsumexp" is the same without v: out[…, L, 1] = m + log l, from which derivatives make the shares again;
// −inf for a row whose scores are. Its mask is operand 2.
#include "core/kernel/templates/attention.h"

#include <string.h>

enum { KEYS = TC_ATTENTION_ROWS, UNROLL = TC_ATTENTION_UNROLL };

typedef struct at {
  tc_attention a;
  int64_t d, e;            // e 0: no values
  tc_kmem qt, scores, acc; // shared: [D][lanes], [KEYS][lanes], [E][lanes]
  tc_kmem stats;           // lane array: m, l
} at;

static int32_t candidates(const tc_stage *s, int32_t max, tc_stage_config *out, int32_t *out_n) {
  int32_t r = tc_stage_rank(s);
  int64_t d = tc_stage_operand_size(s, 0, r - 1), e = tc_stage_out_size(s, r - 1);
  int32_t rc = tc_attention_candidates(s, d, e, d + e + KEYS, d + e, 1, max, out, out_n);
  tc_stage_config few;
  if (*out_n < 1 || *out_n >= max || !tc_attention_few_candidate(s, d, e, &few)) return rc;
  bool better = few.cost < out->cost;
  if (better) memmove(out + 1, out, (size_t)*out_n * sizeof *out);
  out[better ? 0 : *out_n] = few;
  ++*out_n;
  return rc;
}

static int32_t logsumexp_candidates(const tc_stage *s, int32_t max, tc_stage_config *out, int32_t *out_n) {
  int64_t d = tc_stage_operand_size(s, 0, tc_stage_rank(s) - 1);
  return tc_attention_candidates(s, d, 1, d + KEYS, d, 1, max, out, out_n);
}

// Scores of keys key0 … key0+n-1 into rows slot0 … ; returns the maximum with `max`.
static tc_kval score_keys(at *t, tc_kval key0, tc_kval slot0, int32_t n, tc_kval max) {
  tc_attention *a = &t->a;
  tc_kval scores[UNROLL];
  tc_attention_dots(a, 1, t->d, t->qt, key0, n, scores);
  for (int32_t j = 0; j < n; j++) {
    tc_kval s = tc_attention_masked(a, scores[j], a->row, tc_attention_add(a, key0, tc_attention_i64(a, j)));
    max = tc_kb_op2(a->b, TC_K_FMAX, max, s);
    tc_kb_store(a->b, t->scores, tc_attention_cell(a, tc_attention_add(a, slot0, tc_attention_i64(a, j))), 1, &s, -1);
  }
  return max;
}

static tc_kval stat(at *t, int32_t i) { return tc_kb_load1(t->a.b, t->stats, tc_attention_i64(&t->a, i), -1, -1); }
static void set_stat(at *t, int32_t i, tc_kval v) {
  tc_kb_store(t->a.b, t->stats, tc_attention_i64(&t->a, i), 1, &v, -1);
}

// One block of `count` ≤ KEYS keys from key0.
static void key_block(at *t, tc_kval key0, tc_kval count) {
  tc_attention *a = &t->a;
  tc_kb *b = a->b;
  tc_kval m = stat(t, 0), l = stat(t, 1), zero = tc_attention_i64(a, 0), out[2], carried[2], next[2];
  tc_kval rest = tc_kb_op2(b, TC_K_REM, count, tc_attention_i64(a, UNROLL)),
          whole = tc_kb_op2(b, TC_K_SUB, count, rest);
  tc_kval j = tc_kb_for(b, zero, whole, UNROLL, 0, 1, &m, carried);
  next[0] = score_keys(t, tc_attention_add(a, key0, j), j, UNROLL, carried[0]);
  tc_kb_end_for(b, 1, next, out);
  j = tc_kb_for(b, whole, count, 1, 0, 1, out, carried);
  next[0] = score_keys(t, tc_attention_add(a, key0, j), j, 1, carried[0]);
  tc_kb_end_for(b, 1, next, out);
  tc_kval max = out[0];
  // −inf − −inf is NaN: rows without a key yet stay at zero.
  tc_kval none = tc_kb_op2(b, TC_K_EQ, max, tc_attention_real(a, -__builtin_inf())),
          safe = tc_kb_op3(b, TC_K_SELECT, none, tc_attention_real(a, 0), max);
  tc_kval alpha = tc_kb_op1(b, TC_K_EXP, tc_kb_op2(b, TC_K_SUB, m, safe));
  next[0] = tc_kb_op2(b, TC_K_MUL, l, alpha);
  j = tc_kb_for(b, zero, count, 1, 0, 1, next, carried);
  tc_kval at = tc_attention_cell(a, j);
  tc_kval below = tc_kb_op2(b, TC_K_SUB, tc_kb_load1(b, t->scores, at, -1, -1), safe);
  tc_kval p = tc_kb_op1(b, TC_K_EXP, tc_kb_op2(b, TC_K_MIN, below, tc_attention_real(a, 0)));
  if (t->e) tc_kb_store(b, t->scores, at, 1, &p, -1);
  next[0] = tc_kb_op2(b, TC_K_ADD, carried[0], p);
  tc_kb_end_for(b, 1, next, out);
  set_stat(t, 0, max);
  set_stat(t, 1, out[0]);
  tc_attention_add_rows(a, 2, t->e, t->acc, t->scores, key0, count, alpha);
}

static void write_values(at *t) {
  tc_attention *a = &t->a;
  tc_kb *b = a->b;
  tc_kval l = stat(t, 1), zero = tc_attention_real(a, 0), one = tc_attention_real(a, 1);
  tc_kval empty = tc_kb_op2(b, TC_K_EQ, l, zero);
  tc_kval share = tc_kb_op2(b, TC_K_DIV, one, tc_kb_op3(b, TC_K_SELECT, empty, one, l));
  tc_attention_write_row(a, t->acc, t->e, 0, tc_kb_op3(b, TC_K_SELECT, empty, zero, share));
}

// log 0 is −inf, as is the maximum of such a row.
static void write_logarithm(at *t) {
  tc_attention *a = &t->a;
  tc_kval index[TC_MAX_RANK], log = tc_kb_op1(a->b, TC_K_LOG, stat(t, 1));
  for (int32_t i = 0; i < a->rank - 2; i++) index[i] = a->batch[i];
  index[a->rank - 2] = a->row;
  index[a->rank - 1] = tc_attention_i64(a, 0);
  tc_kval v = tc_kb_cast(a->b, tc_stage_dtype(a->s), tc_attention_add(a, stat(t, 0), log));
  tc_stage_store(a->s, index, v, a->ok);
}

static int32_t emit_rows(tc_stage *s, const tc_stage_config *c, bool values) {
  at t = {.d = tc_stage_operand_size(s, 0, tc_stage_rank(s) - 1)};
  tc_attention *a = &t.a;
  tc_attention_begin(a, s, c, values ? 3 : 2);
  tc_kb *b = a->b;
  t.qt = tc_kb_shared(b, (tc_sv){"qt", 2}, a->type, t.d * a->lanes);
  t.scores = tc_kb_shared(b, (tc_sv){"scores", 6}, a->type, (int64_t)KEYS * a->lanes);
  if (values)
    t.e = tc_stage_out_size(s, a->rank - 1), t.acc = tc_kb_shared(b, (tc_sv){"acc", 3}, a->type, t.e * a->lanes);
  t.stats = tc_kb_lane_array(b, (tc_sv){"stats", 5}, a->type, 2);
  tc_kval last = tc_stage_operand_extent(s, 1, a->rank - 2);
  if (a->causal) last = tc_kb_op2(b, TC_K_MIN, last, tc_attention_add(a, a->row0, tc_attention_i64(a, a->lanes)));
  tc_attention_open(a);
  set_stat(&t, 0, tc_attention_real(a, -__builtin_inf()));
  set_stat(&t, 1, tc_attention_real(a, 0));
  tc_attention_read_row(a, 0, t.d, a->scale, t.qt);
  if (values) tc_attention_zero(a, t.acc, t.e);
  tc_kval key0 = tc_kb_for(b, tc_attention_i64(a, 0), last, KEYS, 0, 0, NULL, NULL);
  key_block(&t, key0, tc_kb_op2(b, TC_K_MIN, tc_attention_i64(a, KEYS), tc_kb_op2(b, TC_K_SUB, last, key0)));
  tc_kb_end_for(b, 0, NULL, NULL);
  if (values) write_values(&t);
  else write_logarithm(&t);
  tc_kb_end_lanes(b, 0, NULL, NULL);
  return TC_STATUS_OK;
}

static int32_t emit(tc_stage *s, const tc_stage_config *c) {
  return c->params[0] ? tc_attention_few_emit(s, c) : emit_rows(s, c, true);
}
static int32_t emit_logsumexp(tc_stage *s, const tc_stage_config *c) { return emit_rows(s, c, false); }

const tc_template_table tc_template_attention = {
    .struct_size = sizeof(tc_template_table),
    .name = {"attention", 9},
    .candidates = candidates,
    .emit = emit,
    .flops = "2 * out.numel * in1.size(-2) + 2 * in0.numel * in1.size(-2)",
};

const tc_template_table tc_template_attention_logsumexp = {
    .struct_size = sizeof(tc_template_table),
    .name = {"attention_logsumexp", 19},
    .candidates = logsumexp_candidates,
    .emit = emit_logsumexp,
    .flops = "2 * in0.numel * in1.size(-2)",
};
