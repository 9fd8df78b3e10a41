// Attention of few query rows, as models have it that write one token after the other: what it costs is reading the
// keys and the values once. A block has all rows of a head, and its lanes are keys first, then columns of the values.
//
// Per KEYS keys, with the rows' maxima m and sums l as uniform values: lanes have each the whole key of their own and
// the rows' scores of it; m' = max(m, scores), p = exp(s − m') into shared memory; lanes have the columns
// and add up p v over the keys, behind what they have by then, scaled by exp(m − m').
#include "core/kernel/templates/attention.h"

#include "tc/lower.h"

enum {
  KEYS = 512, // that share a maximum
  PART = 16,  // elements of a key that are loaded together
  SUMS = 8,   // of columns and rows that are made together
  AT_ONCE = 8 // keys whose values are loaded together
};
enum { MOST = TC_ATTENTION_FEW };

typedef struct few {
  tc_attention a;
  int64_t d, e;
  int32_t rows, pieces;  // of columns, one for each lane
  int32_t groups, width; // of lanes, where these are more than columns: each has a share of the keys
  tc_kmem q, scores;     // shared: [rows][D], [rows][KEYS]
  tc_kmem acc, parts;    // lane array: [rows][pieces]; shared: [lanes], of the groups' sums
  tc_kval last;          // behind the last key
} few;

static tc_kval i64(few *t, int64_t v) { return tc_attention_i64(&t->a, v); }
static tc_kval add(few *t, tc_kval x, tc_kval y) { return tc_attention_add(&t->a, x, y); }
static tc_kval op2(few *t, int32_t op, tc_kval x, tc_kval y) { return tc_kb_op2(t->a.b, op, x, y); }
static tc_kval lane(few *t) { return tc_kb_cast(t->a.b, TC_I64, tc_kb_lane(t->a.b)); }
static tc_kval low(few *t) { return tc_attention_real(&t->a, -__builtin_inf()); }
static tc_kval row_of(few *t, int32_t r) { return add(t, t->a.row0, i64(t, r)); }
static tc_kval score_at(few *t, int32_t r, tc_kval j) { return add(t, i64(t, (int64_t)r * KEYS), j); }

bool tc_attention_few_candidate(const tc_stage *s, int64_t d, int64_t e, tc_stage_config *out) {
  int32_t r = tc_stage_rank(s);
  const tc_device_props *dev = tc_stage_device(s);
  int64_t rows = tc_stage_out_size(s, r - 2);
  if (rows < 1 || rows > MOST || d <= 0 || e <= 0 || d > TC_ATTENTION_LONGEST || e > TC_ATTENTION_LONGEST) return false;
  int32_t bytes = tc_attention_type(s) == TC_F64 ? 8 : 4;
  int32_t lanes = tc_template_lanes(dev, dev->simd_bytes ? 2 * dev->simd_bytes / bytes : 256);
  while (dev->simd_bytes && lanes > 4 && lanes / 2 >= e) lanes /= 2;
  *out = (tc_stage_config){.lanes = lanes, .params = {1}};
  for (int32_t i = 0; i < r - 2; i++) out->tile[i] = 1;
  out->tile[r - 2] = rows;
  out->shared_bytes = (rows * (d + KEYS) + lanes) * bytes;
  // A multiply-add per row, and what brings the elements to the lanes, by registers.
  double vector = dev->simd_bytes ? (double)dev->simd_bytes / bytes : lanes;
  out->cost = (double)tc_stage_operand_hint(s, 1, r - 2) * (double)(d + e) * (2 + (double)rows) / (1.5 * vector);
  for (int32_t i = 0; i < r - 2; i++) out->cost *= (double)tc_stage_out_hint(s, i);
  return true;
}

static void read_queries(few *t) {
  tc_attention *a = &t->a;
  tc_kb_lanes(a->b);
  for (int32_t r = 0; r < t->rows; r++) {
    for (int64_t d = 0; d < t->d; d += a->lanes) {
      tc_kval at = add(t, i64(t, d), lane(t)), ok = t->d - d < a->lanes ? op2(t, TC_K_LT, at, i64(t, t->d)) : -1;
      tc_kval x = op2(t, TC_K_MUL, tc_attention_load(a, 0, row_of(t, r), at, ok), tc_attention_real(a, a->scale));
      tc_kb_store(a->b, t->q, add(t, i64(t, r * t->d), at), 1, &x, ok);
    }
  }
  tc_kval zero = tc_attention_real(a, 0);
  for (int32_t i = 0; i < t->rows * t->pieces; i++) tc_kb_store(a->b, t->acc, i64(t, i), 1, &zero, -1);
  tc_kb_end_lanes(a->b, 0, NULL, NULL);
  tc_kb_barrier(a->b);
}

// sums[r] += query r · n elements of this lane's key from d on.
static void add_products(few *t, tc_kval key, tc_kval d, int32_t n, tc_kval *sums) {
  tc_kval index[TC_MAX_RANK], v[PART];
  tc_attention_index(&t->a, key, index);
  index[t->a.rank - 1] = d;
  tc_stage_load_n(t->a.s, 1, index, n, -1, v);
  for (int32_t i = 0; i < n; i++) {
    tc_kval x = tc_kb_cast(t->a.b, t->a.type, v[i]), at = add(t, d, i64(t, i));
    for (int32_t r = 0; r < t->rows; r++) {
      tc_kval q = tc_kb_load1(t->a.b, t->q, add(t, i64(t, r * t->d), at), -1, -1);
      sums[r] = tc_kb_op3(t->a.b, TC_K_FMA, x, q, sums[r]);
    }
  }
}

// The scores of `lanes` keys from j on behind key0; `partly`: there may be fewer.
static void score_keys(few *t, tc_kval key0, tc_kval j, bool partly, tc_kval *max) {
  tc_attention *a = &t->a;
  tc_kb *b = a->b;
  tc_kval at = add(t, j, lane(t)), key = add(t, key0, at), sums[MOST], carried[MOST];
  tc_kval there = partly ? op2(t, TC_K_LT, key, t->last) : -1;
  if (partly) key = op2(t, TC_K_MIN, key, op2(t, TC_K_SUB, t->last, i64(t, 1)));
  for (int32_t r = 0; r < t->rows; r++) sums[r] = tc_attention_real(a, 0);
  int64_t whole = t->d / PART * PART;
  tc_kval d = tc_kb_for(b, i64(t, 0), i64(t, whole), PART, 0, t->rows, sums, carried);
  add_products(t, key, d, PART, carried);
  tc_kb_end_for(b, t->rows, carried, sums);
  for (int64_t rest = whole; rest < t->d; rest++) add_products(t, key, i64(t, rest), 1, sums);
  a->ok = there;
  for (int32_t r = 0; r < t->rows; r++) {
    tc_kval s = tc_attention_masked(a, sums[r], row_of(t, r), key);
    if (partly) s = tc_kb_op3(b, TC_K_SELECT, there, s, low(t));
    tc_kb_store(b, t->scores, score_at(t, r, at), 1, &s, -1);
    max[r] = op2(t, TC_K_FMAX, max[r], s);
  }
}

static void collect(few *t, int32_t op, const tc_kval *by_lane, tc_kval *out) {
  for (int32_t r = 0; r < t->rows; r++) out[r] = tc_kb_collective(t->a.b, op, by_lane[r], 0);
}

// The largest scores of n keys from key0 on.
static void score_block(few *t, tc_kval key0, tc_kval n, tc_kval *out) {
  tc_kb *b = t->a.b;
  int32_t rows = t->rows;
  tc_kval max[MOST], carried[MOST], whole = op2(t, TC_K_SUB, n, op2(t, TC_K_REM, n, i64(t, t->a.lanes)));
  tc_kb_lanes(b);
  for (int32_t r = 0; r < rows; r++) max[r] = low(t);
  for (int32_t partly = 0; partly < 2; partly++) {
    tc_kval j = tc_kb_for(b, partly ? whole : i64(t, 0), partly ? n : whole, t->a.lanes, 0, rows, max, carried);
    score_keys(t, key0, j, partly, carried);
    tc_kb_end_for(b, rows, carried, max);
  }
  tc_kb_end_lanes(b, rows, max, carried);
  collect(t, TC_K_REDUCE_MAX, carried, out);
  tc_kb_barrier(b);
}

// Scores into exponentials; their sums.
static void share_block(few *t, tc_kval n, const tc_kval *max, tc_kval *out) {
  tc_kb *b = t->a.b;
  tc_kval sums[MOST], carried[MOST];
  tc_kb_lanes(b);
  for (int32_t r = 0; r < t->rows; r++) sums[r] = tc_attention_real(&t->a, 0);
  tc_kval j = tc_kb_for(b, i64(t, 0), n, t->a.lanes, 0, t->rows, sums, carried);
  for (int32_t r = 0; r < t->rows; r++) {
    tc_kval at = score_at(t, r, add(t, j, lane(t)));
    tc_kval below = op2(t, TC_K_SUB, tc_kb_load1(b, t->scores, at, -1, -1), max[r]);
    tc_kval p = tc_kb_op1(b, TC_K_EXP, op2(t, TC_K_MIN, below, tc_attention_real(&t->a, 0)));
    tc_kb_store(b, t->scores, at, 1, &p, -1);
    carried[r] = op2(t, TC_K_ADD, carried[r], p);
  }
  tc_kb_end_for(b, t->rows, carried, sums);
  tc_kb_end_lanes(b, t->rows, sums, carried);
  collect(t, TC_K_REDUCE_ADD, carried, out);
  tc_kb_barrier(b);
}

static tc_kval column_of(few *t, int32_t piece, tc_kval *out_ok) {
  if (t->groups > 1) {
    tc_kval column = op2(t, TC_K_REM, lane(t), i64(t, t->width));
    *out_ok = t->e < t->width ? op2(t, TC_K_LT, column, i64(t, t->e)) : -1;
    return column;
  }
  tc_kval at = add(t, i64(t, (int64_t)piece * t->a.lanes), lane(t));
  *out_ok = t->e - (int64_t)piece * t->a.lanes < t->a.lanes ? op2(t, TC_K_LT, at, i64(t, t->e)) : -1;
  return at;
}

// `at_once` keys of each group from j on, whose values are loaded before any is used. n: there may be fewer in all; -1:
// there are not.
static void add_keys(few *t, int32_t count, tc_kval key0, tc_kval j, int32_t at_once, tc_kval n, const tc_kval *column,
                     const tc_kval *ok, tc_kval *sums) {
  tc_kb *b = t->a.b;
  tc_kval key[AT_ONCE], v[AT_ONCE][SUMS];
  for (int32_t u = 0; u < at_once; u++) {
    key[u] = add(t, j, i64(t, (int64_t)u * t->groups));
    if (t->groups > 1) key[u] = add(t, key[u], op2(t, TC_K_DIV, lane(t), i64(t, t->width)));
    for (int32_t p = 0; p < count; p++) {
      tc_kval mask = ok[p];
      if (t->groups > 1 && n >= 0) { // what is beyond the last key has no share
        tc_kval there = op2(t, TC_K_LT, key[u], n);
        mask = mask < 0 ? there : op2(t, TC_K_AND, mask, there);
      }
      v[u][p] = tc_attention_load(&t->a, 2, add(t, key0, key[u]), column[p], mask);
    }
  }
  for (int32_t u = 0; u < at_once; u++) {
    for (int32_t i = 0; i < t->rows * count; i++) {
      tc_kval share = tc_kb_load1(b, t->scores, score_at(t, i / count, key[u]), -1, -1);
      sums[i] = tc_kb_op3(b, TC_K_FMA, v[u][i % count], share, sums[i]);
    }
  }
}

// `count` pieces of columns from `first` on, of all rows.
static void add_pieces(few *t, int32_t first, int32_t count, tc_kval key0, tc_kval n, const tc_kval *alpha) {
  tc_kb *b = t->a.b;
  tc_kval acc[MOST * SUMS], carried[MOST * SUMS], column[SUMS], ok[SUMS];
  for (int32_t p = 0; p < count; p++) column[p] = column_of(t, first + p, &ok[p]);
  for (int32_t i = 0; i < t->rows * count; i++) {
    tc_kval at = i64(t, i / count * t->pieces + first + i % count);
    acc[i] = op2(t, TC_K_MUL, tc_kb_load1(b, t->acc, at, -1, -1), alpha[i / count]);
  }
  tc_kval zero = i64(t, 0), step = i64(t, (int64_t)t->groups * AT_ONCE);
  tc_kval whole = op2(t, TC_K_SUB, n, op2(t, TC_K_REM, n, step));
  for (int32_t rest = 0; rest < 2; rest++) {
    int32_t at_once = rest ? 1 : AT_ONCE;
    tc_kval j = tc_kb_for(b, rest ? whole : zero, rest ? n : whole, (int64_t)t->groups * at_once, 0, t->rows * count,
                          acc, carried);
    add_keys(t, count, key0, j, at_once, rest ? n : -1, column, ok, carried);
    tc_kb_end_for(b, t->rows * count, carried, acc);
  }
  for (int32_t i = 0; i < t->rows * count; i++)
    tc_kb_store(b, t->acc, i64(t, i / count * t->pieces + first + i % count), 1, &acc[i], -1);
}

static void add_block(few *t, tc_kval key0, tc_kval n, const tc_kval *alpha) {
  int32_t most = SUMS / t->rows > 1 ? SUMS / t->rows : 1;
  tc_kb_lanes(t->a.b);
  for (int32_t p = 0; p < t->pieces; p += most)
    add_pieces(t, p, t->pieces - p < most ? t->pieces - p : most, key0, n, alpha);
  tc_kb_end_lanes(t->a.b, 0, NULL, NULL);
  tc_kb_barrier(t->a.b);
}

// state: the rows' maxima, then their sums.
static void key_block(few *t, tc_kval key0, tc_kval n, tc_kval *state) {
  tc_kb *b = t->a.b;
  tc_kval max[MOST], sums[MOST], safe[MOST], alpha[MOST], zero = tc_attention_real(&t->a, 0);
  score_block(t, key0, n, max);
  for (int32_t r = 0; r < t->rows; r++) {
    max[r] = op2(t, TC_K_FMAX, state[r], max[r]);
    // −inf − −inf is NaN: rows without a key yet stay at zero.
    safe[r] = tc_kb_op3(b, TC_K_SELECT, op2(t, TC_K_EQ, max[r], low(t)), zero, max[r]);
    alpha[r] = tc_kb_op1(b, TC_K_EXP, op2(t, TC_K_SUB, state[r], safe[r]));
  }
  share_block(t, n, safe, sums);
  for (int32_t r = 0; r < t->rows; r++) {
    tc_kval *l = &state[t->rows + r];
    *l = tc_kb_op3(b, TC_K_FMA, *l, alpha[r], sums[r]);
    state[r] = max[r];
  }
  add_block(t, key0, n, alpha);
}

// Row r's element of the result in this lane's column.
static tc_kval row_sum(few *t, int32_t r, int32_t piece) {
  tc_kb *b = t->a.b;
  if (t->groups == 1) return tc_kb_load1(b, t->acc, i64(t, (int64_t)r * t->pieces + piece), -1, -1);
  tc_kval x = tc_attention_real(&t->a, 0), column = op2(t, TC_K_REM, lane(t), i64(t, t->width));
  for (int32_t g = 0; g < t->groups; g++)
    x = op2(t, TC_K_ADD, x, tc_kb_load1(b, t->parts, add(t, column, i64(t, (int64_t)g * t->width)), -1, -1));
  return x;
}

// What the groups of lanes have of row r, for all to see.
static void share_groups(few *t, int32_t r) {
  tc_kb *b = t->a.b;
  if (t->groups == 1) return;
  if (r) tc_kb_end_lanes(b, 0, NULL, NULL), tc_kb_barrier(b), tc_kb_lanes(b);
  tc_kval x = tc_kb_load1(b, t->acc, i64(t, r), -1, -1);
  tc_kb_store(b, t->parts, lane(t), 1, &x, -1);
  tc_kb_end_lanes(b, 0, NULL, NULL);
  tc_kb_barrier(b);
  tc_kb_lanes(b);
}

static void write_rows(few *t, const tc_kval *sums) {
  tc_attention *a = &t->a;
  tc_kb *b = a->b;
  tc_kb_lanes(b);
  for (int32_t r = 0; r < t->rows; r++) {
    share_groups(t, r);
    tc_kval one = tc_attention_real(a, 1), zero = tc_attention_real(a, 0), index[TC_MAX_RANK];
    tc_kval empty = op2(t, TC_K_EQ, sums[r], zero);
    tc_kval share = op2(t, TC_K_DIV, one, tc_kb_op3(b, TC_K_SELECT, empty, one, sums[r]));
    share = tc_kb_op3(b, TC_K_SELECT, empty, zero, share);
    tc_attention_index(a, row_of(t, r), index);
    for (int32_t p = 0; p < t->pieces; p++) {
      tc_kval ok, x = row_sum(t, r, p);
      index[a->rank - 1] = column_of(t, p, &ok);
      if (t->groups > 1) {
        tc_kval first = op2(t, TC_K_LT, lane(t), i64(t, t->width));
        ok = ok < 0 ? first : op2(t, TC_K_AND, ok, first);
      }
      tc_stage_store(a->s, index, tc_kb_cast(b, tc_stage_dtype(a->s), op2(t, TC_K_MUL, x, share)), ok);
    }
  }
  tc_kb_end_lanes(b, 0, NULL, NULL);
}

int32_t tc_attention_few_emit(tc_stage *s, const tc_stage_config *c) {
  int32_t rank = tc_stage_rank(s);
  few t = {.d = tc_stage_operand_size(s, 0, rank - 1), .e = tc_stage_out_size(s, rank - 1)};
  tc_attention_begin(&t.a, s, c, 3);
  tc_kb *b = t.a.b;
  t.rows = (int32_t)c->tile[rank - 2];
  t.pieces = (int32_t)((t.e + c->lanes - 1) / c->lanes);
  t.groups = 1, t.width = 1;
  while (t.width < t.e) t.width *= 2;
  if (t.width < c->lanes) t.groups = c->lanes / t.width;
  if (t.groups > 1) t.parts = tc_kb_shared(b, (tc_sv){"parts", 5}, t.a.type, c->lanes);
  t.q = tc_kb_shared(b, (tc_sv){"q", 1}, t.a.type, t.rows * t.d);
  t.scores = tc_kb_shared(b, (tc_sv){"scores", 6}, t.a.type, (int64_t)t.rows * KEYS);
  t.acc = tc_kb_lane_array(b, (tc_sv){"acc", 3}, t.a.type, (int64_t)t.rows * t.pieces);
  t.last = tc_stage_operand_extent(s, 1, rank - 2);
  if (t.a.causal) t.last = op2(&t, TC_K_MIN, t.last, row_of(&t, t.rows));
  read_queries(&t);
  tc_kval state[2 * MOST], carried[2 * MOST];
  for (int32_t r = 0; r < 2 * t.rows; r++) state[r] = r < t.rows ? low(&t) : tc_attention_real(&t.a, 0);
  tc_kval key0 = tc_kb_for(b, i64(&t, 0), t.last, KEYS, 0, 2 * t.rows, state, carried);
  key_block(&t, key0, op2(&t, TC_K_MIN, i64(&t, KEYS), op2(&t, TC_K_SUB, t.last, key0)), carried);
  tc_kb_end_for(b, 2 * t.rows, carried, state);
  write_rows(&t, state + t.rows);
  return TC_STATUS_OK;
}
