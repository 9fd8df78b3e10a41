// Stable order of a row: out[…, 0, i] holds which element comes i-th, in its low 32 bits.
//
// Elements become 64-bit words, unlike each other: in the high half a key that orders as the values do (NaN last, zeros
// equal), in the low half where the element stands. Each lane sorts runs of eight by a network (19 comparisons, the
// fewest possible), then runs are merged pairwise, between two planes of the result, in log2(n / 8) passes. On devices
// whose lanes are vector elements a merge is one branchless loop; where lanes are threads each makes a segment of the
// output, whose start it finds by bisection (Green, McColl and Bader, "GPU merge path", 2012).
//
// Values of 64 bits are sorted twice, by their low halves and then, in that order, by their high ones.
//
// Where only the first words are wanted, runs are cut to as many before they are merged. Where they are few, the result
// has fewer words than the row: then each lane goes through every so-many-th element and keeps a list of those that
// come first, which are the runs.
//
// Operand: x […, n], n < 2³¹. Result: i64 […, 2, m]; plane 1 is scratch. m = n, or, less than that, a list's length
// (the first power of two that is no less than the words wanted, and than a run) for each lane that may be taken.
// attrs: 0 part (TC_SORT_*), 1 descending, 2 how many words are wanted (0: all).
#include <stdbool.h>

#include "core/kernel/templates/templates.h"

#include "tc/lower.h"
#include "tc/plugin.h"

enum { PART, DESCENDING, WANTED };
enum { RUN = 8, SEGMENT = 16, LEVELS = 28, MOST_LANES = 256, LONGEST_LIST = 64 };

// The length of the lanes' lists; 0: whole rows are sorted, -1: neither fits the result.
static int32_t list_length(const tc_stage *s) {
  int32_t r = tc_stage_rank(s), length = RUN;
  int64_t n = tc_stage_operand_size(s, 0, r - 2), words = tc_stage_out_size(s, r - 1),
          wanted = tc_stage_attr(s, WANTED, 0);
  if (n < 0 || words < 0 || words >= n) return 0;
  while (length < wanted && length < LONGEST_LIST) length *= 2;
  return wanted > 0 && length >= wanted && length <= words ? length : -1;
}

static int32_t candidates(const tc_stage *s, int32_t max, tc_stage_config *out, int32_t *out_n) {
  const tc_device_props *dev = tc_stage_device(s);
  int32_t r = tc_stage_rank(s);
  *out_n = 0;
  if (max < 1) return TC_STATUS_OK;
  if (r < 2 || tc_stage_out_size(s, r - 2) != 2 || tc_stage_operand_rank(s, 0) != r - 1) {
    tc_stage_refuse(s, "the result of a sort has two planes");
    return TC_STATUS_OK;
  }
  int64_t n = tc_stage_operand_hint(s, 0, r - 2), length = list_length(s);
  int32_t lanes = dev->simd_bytes ? dev->simd_bytes / 8 : MOST_LANES;
  if (length < 0) {
    tc_stage_refuse(s, "the result of a sort has no room for its lists");
    return TC_STATUS_OK;
  }
  if (dev->max_lanes && lanes > dev->max_lanes) lanes = dev->max_lanes;
  while (lanes > 4 && lanes / 2 * RUN >= n) lanes /= 2;
  while (length && lanes * length > tc_stage_out_size(s, r - 1)) lanes /= 2;
  tc_stage_config *c = &out[(*out_n)++];
  *c = (tc_stage_config){.lanes = lanes, .params = {dev->simd_bytes > 0}};
  c->cost = (double)(length ? length : 4) * (double)n;
  for (int64_t w = RUN; w < n && !length; w *= 2) c->cost += 2.0 * (double)n;
  for (int32_t i = 0; i < r - 2; i++) {
    c->tile[i] = 1;
    c->cost *= (double)tc_stage_out_hint(s, i);
  }
  return TC_STATUS_OK;
}

typedef struct sorter {
  tc_stage *s;
  tc_kb *b;
  int32_t rank, lanes;
  tc_kval leading[TC_MAX_RANK];
  tc_kval row, n; // elements of the operand's row; words that are merged
} sorter;

static tc_kval i64(sorter *t, int64_t v) { return tc_kb_int(t->b, TC_I64, v); }
static tc_kval op2(sorter *t, int32_t op, tc_kval x, tc_kval y) { return tc_kb_op2(t->b, op, x, y); }
static tc_kval choose(sorter *t, tc_kval c, tc_kval x, tc_kval y) { return tc_kb_op3(t->b, TC_K_SELECT, c, x, y); }
static tc_kval lane64(sorter *t) { return tc_kb_cast(t->b, TC_I64, tc_kb_lane(t->b)); }

static void index_of(sorter *t, tc_kval plane, tc_kval at, tc_kval *out) {
  for (int32_t i = 0; i < t->rank - 2; i++) out[i] = t->leading[i];
  if (plane >= 0) out[t->rank - 2] = plane;
  out[t->rank - 1 - (plane < 0)] = at;
}
static tc_kval get(sorter *t, tc_kval plane, tc_kval at, tc_kval mask) {
  tc_kval index[TC_MAX_RANK];
  index_of(t, plane, at, index);
  return tc_stage_result_load(t->s, index, mask);
}
static void put(sorter *t, tc_kval plane, tc_kval at, tc_kval v, tc_kval mask) {
  tc_kval index[TC_MAX_RANK];
  index_of(t, plane, at, index);
  tc_stage_result_store(t->s, index, v, mask);
}

// ---- words ----
// Integers that order as the values: the bits of a negative number are turned, NaN is the largest, zeros are equal.
static tc_kval ordered(sorter *t, tc_kval x) {
  tc_kb *b = t->b;
  tc_dtype d = tc_kb_type(b, x);
  if (d == TC_F16 || d == TC_BF16) x = tc_kb_cast(b, TC_F32, x), d = TC_F32;
  if (d == TC_U64) return op2(t, TC_K_XOR, tc_kb_cast(b, TC_I64, x), i64(t, INT64_MIN));
  if (d != TC_F32 && d != TC_F64) return tc_kb_cast(b, TC_I64, x);
  tc_dtype whole = d == TC_F32 ? TC_I32 : TC_I64;
  int64_t top = d == TC_F32 ? INT32_MAX : INT64_MAX;
  tc_kval bits = tc_kb_bitcast(b, whole, x), low = tc_kb_int(b, whole, top);
  tc_kval sign = op2(t, TC_K_SHR, bits, tc_kb_int(b, whole, d == TC_F32 ? 31 : 63));
  tc_kval key = op2(t, TC_K_XOR, bits, op2(t, TC_K_AND, sign, low));
  key = choose(t, op2(t, TC_K_EQ, x, tc_kb_real(b, d, 0)), tc_kb_int(b, whole, 0), key);
  return tc_kb_cast(b, TC_I64, choose(t, op2(t, TC_K_NE, x, x), low, key));
}

static tc_kval word(sorter *t, tc_kval x, tc_kval at) {
  tc_kval key = ordered(t, x);
  int64_t part = tc_stage_attr(t->s, PART, TC_SORT_WHOLE);
  if (tc_stage_attr(t->s, DESCENDING, 0)) key = tc_kb_op1(t->b, TC_K_NOT, key);
  if (part == TC_SORT_LOW) key = op2(t, TC_K_XOR, key, i64(t, 1ll << 31)); // its top bit counts up, as a sign does not
  if (part != TC_SORT_HIGH) key = op2(t, TC_K_SHL, key, i64(t, 32));
  else key = op2(t, TC_K_AND, key, i64(t, -(1ll << 32)));
  return op2(t, TC_K_OR, key, at);
}

// The word of an element; what is beyond the end comes last.
static tc_kval word_at(sorter *t, tc_kval at) {
  tc_kval index[TC_MAX_RANK], inside = op2(t, TC_K_LT, at, t->row);
  index_of(t, -1, at, index);
  return choose(t, inside, word(t, tc_stage_load(t->s, 0, index, inside), at), i64(t, INT64_MAX));
}

// ---- runs of eight ----
static void make_runs(sorter *t) {
  static const uint8_t network[19][2] = {{0, 2}, {1, 3}, {4, 6}, {5, 7}, {0, 4}, {1, 5}, {2, 6}, {3, 7}, {0, 1}, {2, 3},
                                         {4, 5}, {6, 7}, {2, 4}, {3, 5}, {1, 4}, {3, 6}, {1, 2}, {3, 4}, {5, 6}};
  tc_kval v[RUN];
  tc_kval base = tc_kb_for(t->b, i64(t, 0), t->n, (int64_t)t->lanes * RUN, 0, 0, NULL, NULL);
  tc_kval first = op2(t, TC_K_ADD, base, op2(t, TC_K_MUL, lane64(t), i64(t, RUN)));
  for (int32_t i = 0; i < RUN; i++) v[i] = word_at(t, op2(t, TC_K_ADD, first, i64(t, i)));
  for (int32_t i = 0; i < 19; i++) {
    tc_kval *p = &v[network[i][0]], *q = &v[network[i][1]], low = op2(t, TC_K_MIN, *p, *q);
    *q = op2(t, TC_K_MAX, *p, *q);
    *p = low;
  }
  for (int32_t i = 0; i < RUN; i++) {
    tc_kval at = op2(t, TC_K_ADD, first, i64(t, i));
    put(t, i64(t, 0), at, v[i], op2(t, TC_K_LT, at, t->n));
  }
  tc_kb_end_for(t->b, 0, NULL, NULL);
}

// ---- lists of the words that come first ----
// Each element goes through its lane's list, which is in order: it changes places with what comes after it, and the
// last one falls out.
static void make_lists(sorter *t, int32_t length) {
  tc_kval list[LONGEST_LIST], c[LONGEST_LIST], done[LONGEST_LIST];
  for (int32_t i = 0; i < length; i++) list[i] = i64(t, INT64_MAX);
  tc_kval base = tc_kb_for(t->b, i64(t, 0), t->row, t->lanes, 0, length, list, c);
  tc_kval w = word_at(t, op2(t, TC_K_ADD, base, lane64(t)));
  for (int32_t i = 0; i < length; i++) {
    list[i] = op2(t, TC_K_MIN, c[i], w);
    w = op2(t, TC_K_MAX, c[i], w);
  }
  tc_kb_end_for(t->b, length, list, done);
  tc_kval first = op2(t, TC_K_MUL, lane64(t), i64(t, length));
  for (int32_t i = 0; i < length; i++) put(t, i64(t, 0), op2(t, TC_K_ADD, first, i64(t, i)), done[i], -1);
}

// ---- merging: [lo, mid) and [mid, hi) of one plane into [lo, hi) of the other ----
typedef struct pair {
  tc_kval from, to;            // planes
  tc_kval lo, mid, hi;         // ends of the runs
  tc_kval end1, end2, out_end; // of what is wanted of each, and of the result
} pair;

static void set_pair(sorter *t, pair *p, tc_kval lo, tc_kval width) {
  int64_t wanted = tc_stage_attr(t->s, WANTED, 0);
  p->lo = lo;
  p->mid = op2(t, TC_K_MIN, op2(t, TC_K_ADD, lo, width), t->n);
  p->hi = op2(t, TC_K_MIN, op2(t, TC_K_ADD, p->mid, width), t->n);
  p->end1 = p->mid, p->end2 = p->out_end = p->hi;
  if (wanted <= 0) return;
  p->end1 = op2(t, TC_K_MIN, p->mid, op2(t, TC_K_ADD, lo, i64(t, wanted)));
  p->end2 = op2(t, TC_K_MIN, p->hi, op2(t, TC_K_ADD, p->mid, i64(t, wanted)));
  p->out_end = op2(t, TC_K_MIN, p->hi, op2(t, TC_K_ADD, lo, i64(t, wanted)));
}

// The word at `at`, or one behind all others where it is not before `end`.
static tc_kval head(sorter *t, const pair *p, tc_kval at, tc_kval end) {
  tc_kval last = op2(t, TC_K_SUB, t->n, i64(t, 1));
  return choose(t, op2(t, TC_K_LT, at, end), get(t, p->from, op2(t, TC_K_MIN, at, last), -1), i64(t, INT64_MAX));
}

// for k in [from, to): the lesser of the two heads; `inside` masks the store, -1: all.
static void merge(sorter *t, const pair *p, tc_kval from, tc_kval to, tc_kval base, tc_kval i0, tc_kval j0) {
  tc_kval heads[2] = {i0, j0}, c[2], next[2], done[2];
  tc_kval step = tc_kb_for(t->b, from, to, 1, 0, 2, heads, c), k = base < 0 ? step : op2(t, TC_K_ADD, base, step);
  tc_kval a = head(t, p, c[0], p->end1), b = head(t, p, c[1], p->end2), first = op2(t, TC_K_LT, a, b);
  put(t, p->to, k, choose(t, first, a, b), base < 0 ? -1 : op2(t, TC_K_LT, k, p->out_end));
  tc_kval one = tc_kb_cast(t->b, TC_I64, first);
  next[0] = op2(t, TC_K_ADD, c[0], one);
  next[1] = op2(t, TC_K_ADD, c[1], op2(t, TC_K_SUB, i64(t, 1), one));
  tc_kb_end_for(t->b, 2, next, done);
}

// All pairs one after another, each by all lanes alike.
static void merge_in_turn(sorter *t, pair *p, tc_kval width) {
  tc_kval two = op2(t, TC_K_MUL, width, i64(t, 2));
  tc_kval pairs = op2(t, TC_K_DIV, op2(t, TC_K_SUB, op2(t, TC_K_ADD, t->n, two), i64(t, 1)), two);
  pairs = choose(t, op2(t, TC_K_LT, width, t->n), pairs, i64(t, 0));
  set_pair(t, p, op2(t, TC_K_MUL, tc_kb_for(t->b, i64(t, 0), pairs, 1, 0, 0, NULL, NULL), two), width);
  merge(t, p, p->lo, p->out_end, -1, p->lo, p->mid);
  tc_kb_end_for(t->b, 0, NULL, NULL);
}

// How many of the first `d` words of the merged pair come from its first run.
static tc_kval bisect(sorter *t, const pair *p, tc_kval d) {
  tc_kval one = i64(t, 1), ends[2], c[2], next[2], done[2];
  tc_kval n1 = op2(t, TC_K_SUB, p->end1, p->lo), n2 = op2(t, TC_K_SUB, p->end2, p->mid);
  ends[0] = op2(t, TC_K_MAX, i64(t, 0), op2(t, TC_K_SUB, d, n2));
  ends[1] = op2(t, TC_K_MIN, d, n1);
  tc_kb_for(t->b, i64(t, 0), i64(t, 32), 1, 0, 2, ends, c);
  tc_kval open = op2(t, TC_K_LT, c[0], c[1]), m = op2(t, TC_K_SHR, op2(t, TC_K_ADD, c[0], c[1]), one);
  tc_kval other = op2(t, TC_K_SUB, op2(t, TC_K_SUB, d, one), m);
  tc_kval x = get(t, p->from, op2(t, TC_K_ADD, p->lo, m), open);
  tc_kval y = get(t, p->from, op2(t, TC_K_ADD, p->mid, other), open), less = op2(t, TC_K_LT, x, y);
  next[0] = choose(t, op2(t, TC_K_AND, open, less), op2(t, TC_K_ADD, m, one), c[0]);
  next[1] = choose(t, op2(t, TC_K_AND, open, tc_kb_op1(t->b, TC_K_NOT, less)), m, c[1]);
  tc_kb_end_for(t->b, 2, next, done);
  return done[0];
}

static void merge_segments(sorter *t, pair *p, tc_kval width) {
  tc_kval two = op2(t, TC_K_MUL, width, i64(t, 2)), end = choose(t, op2(t, TC_K_LT, width, t->n), t->n, i64(t, 0));
  tc_kval base = tc_kb_for(t->b, i64(t, 0), end, (int64_t)t->lanes * SEGMENT, 0, 0, NULL, NULL);
  tc_kval from = op2(t, TC_K_ADD, base, op2(t, TC_K_MUL, lane64(t), i64(t, SEGMENT)));
  from = op2(t, TC_K_MIN, from, t->n);
  tc_kval offset = op2(t, TC_K_AND, from, op2(t, TC_K_SUB, two, i64(t, 1)));
  set_pair(t, p, op2(t, TC_K_SUB, from, offset), width);
  tc_kval own = bisect(t, p, offset);
  tc_kval i0 = op2(t, TC_K_ADD, p->lo, own), j0 = op2(t, TC_K_ADD, p->mid, op2(t, TC_K_SUB, offset, own));
  merge(t, p, i64(t, 0), i64(t, SEGMENT), from, i0, j0);
  tc_kb_end_for(t->b, 0, NULL, NULL);
}

static int32_t emit(tc_stage *s, const tc_stage_config *config) {
  sorter t = {.s = s, .b = tc_stage_builder(s), .rank = tc_stage_rank(s), .lanes = config->lanes};
  tc_kb *b = t.b;
  int32_t length = list_length(s), levels = LEVELS;
  for (int32_t i = 0; i < t.rank - 2; i++) t.leading[i] = tc_stage_origin(s, i);
  t.row = tc_stage_operand_extent(s, 0, t.rank - 2);
  t.n = length ? i64(&t, (int64_t)length * t.lanes) : t.row;
  tc_kb_lanes(b);
  if (length) make_lists(&t, length);
  else make_runs(&t);
  tc_kb_end_lanes(b, 0, NULL, NULL);
  tc_kb_barrier(b);
  for (int32_t lanes = t.lanes; length && lanes > 0; lanes /= 2) levels = lanes == t.lanes ? 0 : levels + 1;
  // width of the runs; the plane where they are
  tc_kval state[2] = {i64(&t, length ? length : RUN), i64(&t, 0)}, c[2], next[2], last[2];
  tc_kb_for(b, i64(&t, 0), i64(&t, levels), 1, 0, 2, state, c);
  pair p = {.from = c[1], .to = op2(&t, TC_K_SUB, i64(&t, 1), c[1])};
  tc_kb_lanes(b);
  if (config->params[0]) merge_in_turn(&t, &p, c[0]);
  else merge_segments(&t, &p, c[0]);
  tc_kb_end_lanes(b, 0, NULL, NULL);
  tc_kb_barrier(b);
  next[0] = op2(&t, TC_K_MUL, c[0], i64(&t, 2));
  next[1] = choose(&t, op2(&t, TC_K_LT, c[0], t.n), p.to, p.from);
  tc_kb_end_for(b, 2, next, last);
  tc_kb_lanes(b);
  tc_kval base = tc_kb_for(b, i64(&t, 0), op2(&t, TC_K_MUL, t.n, last[1]), t.lanes, 0, 0, NULL, NULL);
  tc_kval at = op2(&t, TC_K_ADD, base, lane64(&t)), inside = op2(&t, TC_K_LT, at, t.n);
  put(&t, i64(&t, 0), at, get(&t, i64(&t, 1), at, inside), inside);
  tc_kb_end_for(b, 0, NULL, NULL);
  tc_kb_end_lanes(b, 0, NULL, NULL);
  return TC_STATUS_OK;
}

const tc_template_table tc_template_sort = {
    .struct_size = sizeof(tc_template_table),
    .name = {"sort", 4},
    .candidates = candidates,
    .emit = emit,
    .flops = "out.numel",
    .flags = TC_TEMPLATE_OWN_RESULT,
};
