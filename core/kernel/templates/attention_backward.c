// The derivative of attention without an L×S buffer (Dao et al., "FlashAttention", 2022): the shares are made again
// from the scores and the logarithm of each query's sum, p = exp(s − logsumexp), and with dp = g vᵀ the scores'
// derivative is ds = p (dp − delta), where delta = Σ g out for a query. Then
//     dq = scale · ds k      lanes are queries, which go over the keys ("attention_backward_query")
//     dk = scale · dsᵀ q     lanes are keys, which go over the queries ("attention_backward_pair"):
//     dv = pᵀ g              out[…, S, D + E] has dk in front of dv
// Each sum is made by one lane in the order of the rows, so results do not depend on how many run at once.
//
// Operands: 0 q […, L, D], 1 k […, S, D], 2 v […, S, E], 3 g […, L, E], 4 logsumexp […, L, 1], 5 delta […, L, 1],
// 6 (optional) mask […, L, S]. attrs as attention's.
#include "core/kernel/templates/attention.h"

enum { Q, K, V, G, LOGSUMEXP, DELTA, MASK, ROWS = TC_ATTENTION_ROWS, UNROLL = TC_ATTENTION_UNROLL };

typedef struct back {
  tc_attention a;
  bool keys; // are lanes keys?
  int64_t d, e;
  tc_kmem first, second;     // shared, this lane's rows: of q (k), times the scale, and of g (v)
  tc_kmem p, ds;             // shared, [ROWS][lanes]; p for keys only
  tc_kmem d_first, d_second; // shared: the sums, the latter for keys only
  tc_kval logsumexp, delta;  // of this lane's query
} back;

static int32_t candidates_of(const tc_stage *s, bool keys, int32_t max, tc_stage_config *out, int32_t *out_n) {
  int32_t r = tc_stage_rank(s);
  int64_t d = tc_stage_operand_size(s, Q, r - 1), e = tc_stage_operand_size(s, V, r - 1);
  int64_t per_lane = keys ? 2 * (d + e + ROWS) : 2 * d + e + ROWS, products = keys ? 2 * (d + e) : 2 * d + e;
  return tc_attention_candidates(s, d, e, per_lane, products, keys ? Q : K, max, out, out_n);
}

// A query's number: the same for all lanes, or their own.
static tc_kval of_query(back *t, int32_t operand, tc_kval query, tc_kval mask) {
  return tc_attention_load(&t->a, operand, query, tc_attention_i64(&t->a, 0), mask);
}

// Rows without a key have shares of 0, not of NaN.
static tc_kval kept(back *t, tc_kval logsumexp) {
  tc_attention *a = &t->a;
  tc_kval none = tc_kb_op2(a->b, TC_K_EQ, logsumexp, tc_attention_real(a, -__builtin_inf()));
  return tc_kb_op3(a->b, TC_K_SELECT, none, tc_attention_real(a, 0), logsumexp);
}

// Shares and the derivative of the scores between this lane's row and n others from `row`, into rows slot … .
static void share_rows(back *t, tc_kval row, tc_kval slot, int32_t n) {
  tc_attention *a = &t->a;
  tc_kb *b = a->b;
  tc_kval scores[UNROLL], dp[UNROLL];
  tc_attention_dots(a, t->keys ? Q : K, t->d, t->first, row, n, scores);
  tc_attention_dots(a, t->keys ? G : V, t->e, t->second, row, n, dp);
  for (int32_t j = 0; j < n; j++) {
    tc_kval other = tc_attention_add(a, row, tc_attention_i64(a, j)),
            at = tc_attention_cell(a, tc_attention_add(a, slot, tc_attention_i64(a, j)));
    tc_kval query = t->keys ? other : a->row, key = t->keys ? a->row : other;
    tc_kval lse = t->keys ? kept(t, of_query(t, LOGSUMEXP, query, -1)) : t->logsumexp,
            delta = t->keys ? of_query(t, DELTA, query, -1) : t->delta;
    tc_kval s = tc_attention_masked(a, scores[j], query, key);
    tc_kval p = tc_kb_op1(b, TC_K_EXP, tc_kb_op2(b, TC_K_SUB, s, lse));
    tc_kval ds = tc_kb_op2(b, TC_K_MUL, p, tc_kb_op2(b, TC_K_SUB, dp[j], delta));
    tc_kb_store(b, t->ds, at, 1, &ds, -1);
    if (t->keys) tc_kb_store(b, t->p, at, 1, &p, -1);
  }
}

// One block of `count` ≤ ROWS rows of the other side.
static void block(back *t, tc_kval row0, tc_kval count) {
  tc_attention *a = &t->a;
  tc_kb *b = a->b;
  tc_kval rest = tc_kb_op2(b, TC_K_REM, count, tc_attention_i64(a, UNROLL)),
          whole = tc_kb_op2(b, TC_K_SUB, count, rest);
  tc_kval j = tc_kb_for(b, tc_attention_i64(a, 0), whole, UNROLL, 0, 0, NULL, NULL);
  share_rows(t, tc_attention_add(a, row0, j), j, UNROLL);
  tc_kb_end_for(b, 0, NULL, NULL);
  j = tc_kb_for(b, whole, count, 1, 0, 0, NULL, NULL);
  share_rows(t, tc_attention_add(a, row0, j), j, 1);
  tc_kb_end_for(b, 0, NULL, NULL);
  tc_attention_add_rows(a, t->keys ? Q : K, t->d, t->d_first, t->ds, row0, count, -1);
  if (t->keys) tc_attention_add_rows(a, G, t->e, t->d_second, t->p, row0, count, -1);
}

static tc_kmem shared(back *t, tc_sv name, int64_t rows) {
  return tc_kb_shared(t->a.b, name, t->a.type, rows * t->a.lanes);
}

static int32_t emit_side(tc_stage *s, const tc_stage_config *c, bool keys) {
  int32_t r = tc_stage_rank(s);
  back t = {.keys = keys, .d = tc_stage_operand_size(s, Q, r - 1), .e = tc_stage_operand_size(s, V, r - 1)};
  tc_attention *a = &t.a;
  tc_attention_begin(a, s, c, MASK);
  tc_kb *b = a->b;
  t.first = shared(&t, (tc_sv){"first", 5}, t.d), t.second = shared(&t, (tc_sv){"second", 6}, t.e);
  t.ds = shared(&t, (tc_sv){"ds", 2}, ROWS), t.d_first = shared(&t, (tc_sv){"d_first", 7}, t.d);
  if (keys) t.p = shared(&t, (tc_sv){"p", 1}, ROWS), t.d_second = shared(&t, (tc_sv){"d_second", 8}, t.e);
  tc_kval first = tc_attention_i64(a, 0), last = tc_stage_operand_extent(s, keys ? Q : K, r - 2);
  if (a->causal && keys) first = a->row0;
  else if (a->causal) last = tc_kb_op2(b, TC_K_MIN, last, tc_attention_add(a, a->row0, tc_attention_i64(a, a->lanes)));
  tc_attention_open(a);
  tc_attention_read_row(a, keys ? K : Q, t.d, a->scale, t.first);
  tc_attention_read_row(a, keys ? V : G, t.e, 1, t.second);
  tc_attention_zero(a, t.d_first, t.d);
  if (keys) tc_attention_zero(a, t.d_second, t.e);
  if (!keys)
    t.logsumexp = kept(&t, of_query(&t, LOGSUMEXP, a->row, a->ok)), t.delta = of_query(&t, DELTA, a->row, a->ok);
  tc_kval row0 = tc_kb_for(b, first, last, ROWS, 0, 0, NULL, NULL);
  block(&t, row0, tc_kb_op2(b, TC_K_MIN, tc_attention_i64(a, ROWS), tc_kb_op2(b, TC_K_SUB, last, row0)));
  tc_kb_end_for(b, 0, NULL, NULL);
  tc_attention_write_row(a, t.d_first, t.d, 0, tc_attention_real(a, a->scale));
  if (keys) tc_attention_write_row(a, t.d_second, t.e, t.d, tc_attention_real(a, 1));
  tc_kb_end_lanes(b, 0, NULL, NULL);
  return TC_STATUS_OK;
}

static int32_t query_candidates(const tc_stage *s, int32_t max, tc_stage_config *out, int32_t *out_n) {
  return candidates_of(s, false, max, out, out_n);
}
static int32_t pair_candidates(const tc_stage *s, int32_t max, tc_stage_config *out, int32_t *out_n) {
  return candidates_of(s, true, max, out, out_n);
}
static int32_t emit_query(tc_stage *s, const tc_stage_config *c) { return emit_side(s, c, false); }
static int32_t emit_pair(tc_stage *s, const tc_stage_config *c) { return emit_side(s, c, true); }

const tc_template_table tc_template_attention_backward_query = {
    .struct_size = sizeof(tc_template_table),
    .name = {"attention_backward_query", 24},
    .candidates = query_candidates,
    .emit = emit_query,
    .flops = "(4 * in0.numel + 2 * in3.numel) * in1.size(-2)",
};

const tc_template_table tc_template_attention_backward_pair = {
    .struct_size = sizeof(tc_template_table),
    .name = {"attention_backward_pair", 23},
    .candidates = pair_candidates,
    .emit = emit_pair,
    .flops = "4 * out.numel * in0.size(-2)",
};
