// Where a mask is true, in order: out[k] is the place of the k-th true element, -1 behind the last.
//
// Operand 1 has how many are true up to the end of each chunk of the mask (a reduction, scanned by the template
// "scan"), so blocks need not wait for each other (Blelloch, "Prefix sums and their applications", 1990). A block owns
// a range of the result: it finds the chunks that its range comes from by bisection, and goes through them in tiles of
// lanes × WIDTH elements. A lane counts its own elements, the lanes' counts are scanned in log2(lanes) steps through
// shared memory (Hillis and Steele, "Data parallel algorithms", 1986), and what is true goes to its place.
//
// Operands: 0 mask [n], 1 ends [chunks], i64. Result: i64 [m]. attrs: 0 length of a chunk.
#include <stdbool.h>

#include "core/kernel/templates/templates.h"

#include "tc/plugin.h"

enum { WIDTH = 8, TILE = 1024, THREADS = 128, BISECTIONS = 63 };

static int32_t candidates(const tc_stage *s, int32_t max, tc_stage_config *out, int32_t *out_n) {
  const tc_device_props *dev = tc_stage_device(s);
  *out_n = 0;
  if (max < 1) return TC_STATUS_OK;
  if (tc_stage_rank(s) != 1 || tc_stage_operand_rank(s, 0) != 1 || tc_stage_operand_rank(s, 1) != 1) {
    tc_stage_refuse(s, "places are those of a flat mask");
    return TC_STATUS_OK;
  }
  int32_t lanes = dev->simd_bytes ? 1 : THREADS; // a core is fastest with one element after the other
  if (dev->max_lanes && lanes > dev->max_lanes) lanes = dev->max_lanes;
  tc_stage_config *c = &out[(*out_n)++];
  *c = (tc_stage_config){.lanes = lanes, .tile = {TILE}};
  c->shared_bytes = 2 * 8 * (int64_t)lanes;
  c->cost = (double)tc_stage_operand_hint(s, 0, 0);
  return TC_STATUS_OK;
}

typedef struct compaction {
  tc_stage *s;
  tc_kb *b;
  int32_t lanes;
  tc_kval n, chunks;  // elements of the mask; of operand 1
  tc_kval lo, hi;     // of the block's part of the result
  tc_kmem flags, own; // lane arrays: the lane's elements, and how many of them were true before each
  tc_kmem totals[2];  // shared: of the lanes, in turns
} compaction;

static tc_kval i64(compaction *t, int64_t v) { return tc_kb_int(t->b, TC_I64, v); }
static tc_kval op2(compaction *t, int32_t op, tc_kval x, tc_kval y) { return tc_kb_op2(t->b, op, x, y); }
static tc_kval choose(compaction *t, tc_kval c, tc_kval x, tc_kval y) { return tc_kb_op3(t->b, TC_K_SELECT, c, x, y); }
static tc_kval lane64(compaction *t) { return tc_kb_cast(t->b, TC_I64, tc_kb_lane(t->b)); }
static tc_kval ends_at(compaction *t, tc_kval chunk, tc_kval mask) { return tc_stage_load(t->s, 1, &chunk, mask); }

// The number of chunks that end with at most `count` true elements.
static tc_kval bisect(compaction *t, tc_kval count) {
  tc_kval range[2] = {i64(t, 0), t->chunks}, c[2], next[2], done[2];
  tc_kb_for(t->b, i64(t, 0), i64(t, BISECTIONS), 1, 0, 2, range, c);
  tc_kval open = op2(t, TC_K_LT, c[0], c[1]), m = op2(t, TC_K_SHR, op2(t, TC_K_ADD, c[0], c[1]), i64(t, 1));
  tc_kval below = op2(t, TC_K_LE, ends_at(t, m, open), count);
  next[0] = choose(t, op2(t, TC_K_AND, open, below), op2(t, TC_K_ADD, m, i64(t, 1)), c[0]);
  next[1] = choose(t, op2(t, TC_K_AND, open, tc_kb_op1(t->b, TC_K_NOT, below)), m, c[1]);
  tc_kb_end_for(t->b, 2, next, done);
  return done[0];
}

typedef struct range {
  tc_kval first, end, before; // of the mask; true elements before it
} range;

static range find_range(compaction *t) {
  int64_t length = tc_stage_attr(t->s, 0, 1);
  tc_kval v[3], out[3], one = i64(t, 1);
  tc_kb_lanes(t->b);
  tc_kval chunk = bisect(t, t->lo), last = bisect(t, op2(t, TC_K_SUB, t->hi, one));
  tc_kval left = op2(t, TC_K_SUB, chunk, one), some = op2(t, TC_K_GT, chunk, i64(t, 0));
  v[0] = op2(t, TC_K_MUL, chunk, i64(t, length));
  v[1] = op2(t, TC_K_MIN, op2(t, TC_K_MUL, op2(t, TC_K_ADD, last, one), i64(t, length)), t->n);
  v[2] = choose(t, some, ends_at(t, op2(t, TC_K_MAX, left, i64(t, 0)), some), i64(t, 0));
  tc_kb_end_lanes(t->b, 3, v, out);
  for (int32_t i = 0; i < 3; i++) out[i] = tc_kb_collective(t->b, TC_K_REDUCE_MAX, out[i], 0);
  return (range){out[0], out[1], out[2]};
}

// What is behind the last true element.
static void fill(compaction *t) {
  tc_kb_lanes(t->b);
  tc_kval total = ends_at(t, op2(t, TC_K_SUB, t->chunks, i64(t, 1)), -1);
  tc_kval from = op2(t, TC_K_MIN, op2(t, TC_K_MAX, total, t->lo), t->hi);
  tc_kval step = tc_kb_for(t->b, i64(t, 0), op2(t, TC_K_SUB, t->hi, from), t->lanes, 0, 0, NULL, NULL);
  tc_kval at = op2(t, TC_K_ADD, op2(t, TC_K_ADD, from, step), lane64(t));
  tc_stage_result_store(t->s, &at, i64(t, -1), op2(t, TC_K_LT, at, t->hi));
  tc_kb_end_for(t->b, 0, NULL, NULL);
  tc_kb_end_lanes(t->b, 0, NULL, NULL);
}

static tc_kval first_of_lane(compaction *t, tc_kval base) {
  return op2(t, TC_K_ADD, base, op2(t, TC_K_MUL, lane64(t), i64(t, WIDTH)));
}

static void count_lanes(compaction *t, tc_kval base, tc_kval end) {
  tc_kb_lanes(t->b);
  tc_kval first = first_of_lane(t, base), sum = i64(t, 0);
  for (int32_t i = 0; i < WIDTH; i++) {
    tc_kval k = op2(t, TC_K_ADD, first, i64(t, i)), inside = op2(t, TC_K_LT, k, end);
    tc_kval flag = tc_kb_cast(t->b, TC_I64, tc_stage_load(t->s, 0, &k, inside));
    flag = choose(t, inside, flag, i64(t, 0));
    tc_kb_store(t->b, t->flags, i64(t, i), 1, &flag, -1);
    tc_kb_store(t->b, t->own, i64(t, i), 1, &sum, -1);
    sum = op2(t, TC_K_ADD, sum, flag);
  }
  tc_kb_store(t->b, t->totals[0], lane64(t), 1, &sum, -1);
  tc_kb_end_lanes(t->b, 0, NULL, NULL);
  tc_kb_barrier(t->b);
}

// Counts of all lanes up to each; returns in which of the two arrays they are.
static int32_t scan_totals(compaction *t) {
  int32_t from = 0;
  for (int32_t step = 1; step < t->lanes; step *= 2, from = !from) {
    tc_kb_lanes(t->b);
    tc_kval lane = lane64(t), has = op2(t, TC_K_GE, lane, i64(t, step));
    tc_kval left = op2(t, TC_K_MAX, op2(t, TC_K_SUB, lane, i64(t, step)), i64(t, 0));
    tc_kval own = tc_kb_load1(t->b, t->totals[from], lane, -1, -1);
    tc_kval other = tc_kb_load1(t->b, t->totals[from], left, -1, -1);
    tc_kval sum = choose(t, has, op2(t, TC_K_ADD, own, other), own);
    tc_kb_store(t->b, t->totals[!from], lane, 1, &sum, -1);
    tc_kb_end_lanes(t->b, 0, NULL, NULL);
    tc_kb_barrier(t->b);
  }
  return from;
}

// Writes the tile's places; returns how many elements were true up to its end.
static tc_kval place_lanes(compaction *t, tc_kval base, tc_kval before, tc_kmem totals) {
  tc_kval out;
  tc_kb_lanes(t->b);
  tc_kval lane = lane64(t), first = first_of_lane(t, base), zero = i64(t, 0);
  tc_kval left = tc_kb_load1(t->b, totals, op2(t, TC_K_MAX, op2(t, TC_K_SUB, lane, i64(t, 1)), zero), -1, -1);
  tc_kval from = op2(t, TC_K_ADD, before, choose(t, op2(t, TC_K_GT, lane, zero), left, zero));
  for (int32_t i = 0; i < WIDTH; i++) {
    tc_kval flag = tc_kb_load1(t->b, t->flags, i64(t, i), -1, -1);
    tc_kval at = op2(t, TC_K_ADD, from, tc_kb_load1(t->b, t->own, i64(t, i), -1, -1));
    tc_kval here = op2(t, TC_K_AND, op2(t, TC_K_GE, at, t->lo), op2(t, TC_K_LT, at, t->hi));
    here = op2(t, TC_K_AND, here, op2(t, TC_K_NE, flag, zero));
    tc_stage_result_store(t->s, &at, op2(t, TC_K_ADD, first, i64(t, i)), here);
  }
  tc_kval all = op2(t, TC_K_ADD, before, tc_kb_load1(t->b, totals, i64(t, t->lanes - 1), -1, -1));
  tc_kb_end_lanes(t->b, 1, &all, &out);
  tc_kb_barrier(t->b); // the totals are read before the next tile's are written
  return tc_kb_collective(t->b, TC_K_REDUCE_MAX, out, 0);
}

static int32_t emit(tc_stage *s, const tc_stage_config *c) {
  compaction t = {.s = s, .b = tc_stage_builder(s), .lanes = c->lanes};
  t.n = tc_stage_operand_extent(s, 0, 0);
  t.chunks = tc_stage_operand_extent(s, 1, 0);
  t.lo = tc_stage_origin(s, 0);
  t.hi = op2(&t, TC_K_MIN, tc_stage_extent(s, 0), op2(&t, TC_K_ADD, t.lo, i64(&t, TILE)));
  t.flags = tc_kb_lane_array(t.b, (tc_sv){"flags", 5}, TC_I64, WIDTH);
  t.own = tc_kb_lane_array(t.b, (tc_sv){"own", 3}, TC_I64, WIDTH);
  t.totals[0] = tc_kb_shared(t.b, (tc_sv){"even", 4}, TC_I64, t.lanes);
  t.totals[1] = tc_kb_shared(t.b, (tc_sv){"odd", 3}, TC_I64, t.lanes);
  range r = find_range(&t);
  fill(&t);
  tc_kval before, done;
  tc_kval base = tc_kb_for(t.b, r.first, r.end, (int64_t)t.lanes * WIDTH, 0, 1, &r.before, &before);
  count_lanes(&t, base, r.end);
  int32_t in = scan_totals(&t);
  tc_kval next = place_lanes(&t, base, before, t.totals[in]);
  tc_kb_end_for(t.b, 1, &next, &done);
  return TC_STATUS_OK;
}

const tc_template_table tc_template_compact = {
    .struct_size = sizeof(tc_template_table),
    .name = {"compact", 7},
    .candidates = candidates,
    .emit = emit,
    .flops = "in0.numel",
    .flags = TC_TEMPLATE_OWN_RESULT,
};
