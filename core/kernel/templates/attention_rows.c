// What the templates of attention share: see attention.h.
#include <string.h>

#include "core/kernel/templates/attention.h"

#include "tc/lower.h"

enum { UNROLL = TC_ATTENTION_UNROLL, LONGEST = TC_ATTENTION_LONGEST, WIDTH = 16 };

static tc_kval i64(tc_attention *t, int64_t v) { return tc_attention_i64(t, v); }
static tc_kval real(tc_attention *t, double v) { return tc_attention_real(t, v); }
static tc_kval add(tc_attention *t, tc_kval x, tc_kval y) { return tc_attention_add(t, x, y); }

tc_dtype tc_attention_type(const tc_stage *s) { return tc_stage_operand_dtype(s, 0) == TC_F64 ? TC_F64 : TC_F32; }

int32_t tc_attention_candidates(const tc_stage *s, int64_t d, int64_t e, int64_t per_lane, int64_t products,
                                int32_t other, int32_t max, tc_stage_config *out, int32_t *out_n) {
  int32_t r = tc_stage_rank(s);
  const tc_device_props *dev = tc_stage_device(s);
  *out_n = 0;
  if (d <= 0 || e <= 0 || d > LONGEST || e > LONGEST) {
    tc_stage_refuse(s, "head sizes must be constants up to 512");
    return TC_STATUS_OK;
  }
  int32_t bytes = tc_attention_type(s) == TC_F64 ? 8 : 4,
          vector = tc_template_lanes(dev, dev->simd_bytes ? dev->simd_bytes / bytes : 64);
  for (int32_t wide = dev->simd_bytes && tc_template_lanes(dev, 2 * vector) > vector ? 2 : 1; wide >= 1 && *out_n < max;
       wide--) {
    tc_stage_config *c = &out[(*out_n)++];
    *c = (tc_stage_config){.lanes = vector * wide};
    for (int32_t i = 0; i < r - 2; i++) c->tile[i] = 1;
    c->tile[r - 2] = c->lanes;
    c->shared_bytes = per_lane * c->lanes * bytes;
    // Two multiply-adds per query, key and column, at half a core's rate.
    double rows = (double)((tc_stage_out_hint(s, r - 2) + c->lanes - 1) / c->lanes * c->lanes);
    c->cost = 2.0 * rows * (double)tc_stage_operand_hint(s, other, r - 2) * (double)products / 2 / (1.5 * vector) *
              (1 + 0.1 / wide);
    for (int32_t i = 0; i < r - 2; i++) c->cost *= (double)tc_stage_out_hint(s, i);
  }
  return TC_STATUS_OK;
}

void tc_attention_begin(tc_attention *t, tc_stage *s, const tc_stage_config *c, int32_t mask_operand) {
  int64_t bits = tc_stage_attr(s, 0, 0);
  *t = (tc_attention){.s = s, .b = tc_stage_builder(s), .rank = tc_stage_rank(s), .lanes = c->lanes};
  t->type = tc_attention_type(s);
  memcpy(&t->scale, &bits, sizeof t->scale);
  t->causal = tc_stage_attr(s, 1, 0) != 0;
  t->mask = tc_stage_attr(s, 2, 0) ? mask_operand : -1;
  for (int32_t i = 0; i < t->rank - 2; i++) t->batch[i] = tc_stage_origin(s, i);
  t->row0 = tc_stage_origin(s, t->rank - 2);
}

static tc_kval lane64(tc_attention *t) { return tc_kb_cast(t->b, TC_I64, tc_kb_lane(t->b)); }

void tc_attention_open(tc_attention *t) {
  tc_kb_lanes(t->b);
  t->row = add(t, t->row0, lane64(t));
  t->ok = tc_stage_exact(t->s, t->rank - 2) ? -1 : tc_kb_op2(t->b, TC_K_LT, t->row, tc_stage_extent(t->s, t->rank - 2));
}

tc_kval tc_attention_cell(tc_attention *t, tc_kval i) {
  return add(t, tc_kb_op2(t->b, TC_K_MUL, i, i64(t, t->lanes)), lane64(t));
}

void tc_attention_index(const tc_attention *t, tc_kval row, tc_kval *index) {
  for (int32_t i = 0; i < t->rank - 2; i++) index[i] = t->batch[i];
  index[t->rank - 2] = row;
}

tc_kval tc_attention_load(tc_attention *t, int32_t operand, tc_kval row, tc_kval column, tc_kval mask) {
  tc_kval index[TC_MAX_RANK];
  tc_attention_index(t, row, index);
  index[t->rank - 1] = column;
  return tc_kb_cast(t->b, t->type, tc_stage_load(t->s, operand, index, mask));
}

void tc_attention_read_row(tc_attention *t, int32_t operand, int64_t n, double factor, tc_kmem mem) {
  tc_kb *b = t->b;
  tc_kval index[TC_MAX_RANK], v[WIDTH];
  tc_attention_index(t, t->row, index);
  for (int64_t d = 0; d < n; d += WIDTH) {
    int32_t width = n - d < WIDTH ? (int32_t)(n - d) : WIDTH;
    bool whole = width == WIDTH;
    index[t->rank - 1] = i64(t, d);
    if (whole) tc_stage_load_n(t->s, operand, index, WIDTH, t->ok, v);
    for (int32_t i = 0; i < width; i++) {
      index[t->rank - 1] = i64(t, d + i);
      tc_kval x = tc_kb_cast(b, t->type, whole ? v[i] : tc_stage_load(t->s, operand, index, t->ok));
      if (factor != 1) x = tc_kb_op2(b, TC_K_MUL, x, real(t, factor));
      tc_kb_store(b, mem, tc_attention_cell(t, i64(t, d + i)), 1, &x, -1);
    }
  }
}

void tc_attention_zero(tc_attention *t, tc_kmem mem, int64_t n) {
  tc_kval e = tc_kb_for(t->b, i64(t, 0), i64(t, n), 1, 0, 0, NULL, NULL), zero = real(t, 0);
  tc_kb_store(t->b, mem, tc_attention_cell(t, e), 1, &zero, -1);
  tc_kb_end_for(t->b, 0, NULL, NULL);
}

void tc_attention_dots(tc_attention *t, int32_t operand, int64_t d, tc_kmem mem, tc_kval first, int32_t n,
                       tc_kval *out) {
  tc_kb *b = t->b;
  tc_kval carried[UNROLL], next[UNROLL];
  for (int32_t j = 0; j < n; j++) out[j] = real(t, 0);
  tc_kval i = tc_kb_for(b, i64(t, 0), i64(t, d), 1, 0, n, out, carried);
  tc_kval x = tc_kb_load1(b, mem, tc_attention_cell(t, i), -1, -1);
  for (int32_t j = 0; j < n; j++)
    next[j] = tc_kb_op3(b, TC_K_FMA, tc_attention_load(t, operand, add(t, first, i64(t, j)), i, -1), x, carried[j]);
  tc_kb_end_for(b, n, next, out);
}

tc_kval tc_attention_masked(tc_attention *t, tc_kval score, tc_kval query, tc_kval key) {
  tc_kb *b = t->b;
  tc_kval low = real(t, -__builtin_inf());
  if (t->mask >= 0) {
    tc_kval index[TC_MAX_RANK];
    tc_attention_index(t, query, index);
    index[t->rank - 1] = key;
    tc_kval m = tc_stage_load(t->s, t->mask, index, t->ok);
    if (tc_stage_operand_dtype(t->s, t->mask) == TC_BOOL) score = tc_kb_op3(b, TC_K_SELECT, m, score, low);
    else score = tc_kb_op2(b, TC_K_ADD, score, tc_kb_cast(b, t->type, m));
  }
  if (t->causal) score = tc_kb_op3(b, TC_K_SELECT, tc_kb_op2(b, TC_K_LE, key, query), score, low);
  return score;
}

// n ≤ UNROLL columns from e0.
static void add_columns(tc_attention *t, int32_t operand, tc_kmem mem, tc_kmem factors, tc_kval e0, int32_t n,
                        tc_kval first, tc_kval count, tc_kval alpha) {
  tc_kb *b = t->b;
  tc_kval acc[UNROLL], carried[UNROLL], next[UNROLL];
  for (int32_t i = 0; i < n; i++) {
    acc[i] = tc_kb_load1(b, mem, tc_attention_cell(t, add(t, e0, i64(t, i))), -1, -1);
    if (alpha >= 0) acc[i] = tc_kb_op2(b, TC_K_MUL, acc[i], alpha);
  }
  tc_kval j = tc_kb_for(b, i64(t, 0), count, 1, 0, n, acc, carried);
  tc_kval p = tc_kb_load1(b, factors, tc_attention_cell(t, j), -1, -1);
  for (int32_t i = 0; i < n; i++)
    next[i] = tc_kb_op3(b, TC_K_FMA, tc_attention_load(t, operand, add(t, first, j), add(t, e0, i64(t, i)), -1), p,
                        carried[i]);
  tc_kb_end_for(b, n, next, acc);
  for (int32_t i = 0; i < n; i++) tc_kb_store(b, mem, tc_attention_cell(t, add(t, e0, i64(t, i))), 1, &acc[i], -1);
}

void tc_attention_add_rows(tc_attention *t, int32_t operand, int64_t n, tc_kmem mem, tc_kmem factors, tc_kval first,
                           tc_kval count, tc_kval alpha) {
  int64_t whole = n / UNROLL * UNROLL;
  if (whole) {
    tc_kval e = tc_kb_for(t->b, i64(t, 0), i64(t, whole), UNROLL, 0, 0, NULL, NULL);
    add_columns(t, operand, mem, factors, e, UNROLL, first, count, alpha);
    tc_kb_end_for(t->b, 0, NULL, NULL);
  }
  for (int64_t e = whole; e < n; e++) add_columns(t, operand, mem, factors, i64(t, e), 1, first, count, alpha);
}

void tc_attention_write_row(tc_attention *t, tc_kmem mem, int64_t n, int64_t at, tc_kval factor) {
  tc_kb *b = t->b;
  tc_kval index[TC_MAX_RANK];
  tc_attention_index(t, t->row, index);
  for (int64_t e = 0; e < n; e += WIDTH) {
    int32_t width = n - e < WIDTH ? 1 : WIDTH;
    for (int64_t k = e; k < e + WIDTH && k < n; k += width) {
      tc_kval v[WIDTH];
      for (int32_t i = 0; i < width; i++) {
        tc_kval x = tc_kb_load1(b, mem, tc_attention_cell(t, i64(t, k + i)), -1, -1);
        v[i] = tc_kb_cast(b, tc_stage_dtype(t->s), tc_kb_op2(b, TC_K_MUL, x, factor));
      }
      index[t->rank - 1] = i64(t, at + k);
      tc_stage_store_n(t->s, index, width, v, t->ok);
    }
  }
}
