// Matrix products of which there are few tiles, where lanes are threads: a block makes a small tile of the result, and
// groups of its lanes each multiply a share of K ("Sliced K" in NVIDIA, "CUTLASS: Efficient GEMM in CUDA"). So many
// blocks work at a product that would be a few tiles, and what each waits for is one trip to memory, not one for each
// step along K.
//
// A lane has one column and all rows of the tile in registers. The groups take runs of K in turns: a run of a row of a
// is one load that all lanes of a group share, a run of b is read where it lies. Sums of the groups meet in shared
// memory and are added in the groups' order; then lanes are elements of the tile, and what follows the product is
// stored.
//
// Operands as in matmul.c. Rows, columns and steps beyond the end read as zeros; whatever is stored is masked.
#include <stdbool.h>

#include "core/kernel/templates/matmul.h"
#include "core/kernel/templates/matmul_tiles.h"

enum { RUN = 4, COLUMNS = 32, MOST_ROWS = 8, MOST_RUNS = 8 };

// How long a multiply-add takes beside one of the micro-tiles of matmul.c: each needs more loads than in a large tile.
typedef struct shape {
  int32_t rows, groups;
  double time;
} shape;
static const shape shapes[] = {{8, 8, 0.45}, {4, 8, 0.55}, {4, 16, 0.5}};

// Would larger tiles occupy the device, too?
enum { TILE = 32, TILES_PER_CORE = 4 };
static bool has_many_tiles(const tc_stage *s) {
  int32_t rank = tc_stage_rank(s);
  double tiles = __builtin_ceil((double)tc_stage_out_hint(s, rank - 2) / TILE) *
                 __builtin_ceil((double)tc_stage_out_hint(s, rank - 1) / TILE);
  for (int32_t i = 0; i < rank - 2; i++) tiles *= (double)tc_stage_out_hint(s, i);
  return tiles > (double)TILES_PER_CORE * tc_stage_device(s)->cores;
}

int32_t tc_matmul_shares(const tc_stage *s, int32_t max, tc_stage_config *out) {
  const tc_device_props *dev = tc_stage_device(s);
  int32_t rank = tc_stage_rank(s), n = 0;
  if (!tc_matmul_threads(s) || has_many_tiles(s)) return 0;
  int64_t depth = tc_stage_operand_hint(s, 0, rank - 1);
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes && n < max; i++) {
    const shape *t = &shapes[i];
    int32_t lanes = COLUMNS * t->groups, runs = 1;
    while (runs < MOST_RUNS && 2 * runs * RUN * t->groups <= depth) runs *= 2;
    int64_t shared = (int64_t)(lanes + RUN * runs * t->groups) * t->rows * tc_matmul_bytes(s);
    if (tc_template_lanes(dev, lanes) < lanes || (dev->shared_bytes && shared > dev->shared_bytes)) continue;
    tc_stage_config *c = &out[n++];
    *c = (tc_stage_config){.lanes = lanes, .shared_bytes = shared};
    c->params[TC_MATMUL_DEPTH] = (int64_t)RUN * runs * t->groups;
    c->params[TC_MATMUL_GROUPS] = t->groups;
    tc_tiles_config(s, t->rows, COLUMNS, 1, t->time, c);
  }
  return n;
}

// ---- What is emitted ----
typedef struct shares {
  tc_stage *s;
  tc_kb *b;
  int32_t rank, lanes, rows, columns, groups, depth, runs; // depth: of a step; runs: of a group in one
  tc_dtype acc;
  bool turned, together; // b is […, N, K]; four elements of K are in memory together, or not
  tc_kval batch[TC_MAX_RANK];
  tc_kval row0, column0, row_end, column_end; // ends: -1 where nothing lies beyond them
  tc_kval k_end;                              // the same
  tc_kmem slab, sums;                         // [row][element of a step], [group][row][column]
  tc_kmem column, own;                        // a lane's elements of b in a step, and its sums
} shares;

static tc_kval i32(shares *t, int64_t v) { return tc_kb_int(t->b, TC_I32, v); }
static tc_kval op(shares *t, int32_t o, tc_kval x, tc_kval y) { return tc_kb_op2(t->b, o, x, y); }
static tc_kval add(shares *t, tc_kval x, tc_kval y) { return op(t, TC_K_ADD, x, y); }
static tc_kval plus(shares *t, tc_kval x, int64_t y) { return y ? add(t, x, tc_kb_int(t->b, TC_I64, y)) : x; }
static tc_kval times(shares *t, tc_kval x, int64_t y) { return op(t, TC_K_MUL, x, i32(t, y)); }
static tc_kval wide(shares *t, tc_kval v) { return tc_kb_cast(t->b, TC_I64, v); }
static tc_kval both(shares *t, tc_kval x, tc_kval y) { return x < 0 ? y : y < 0 ? x : op(t, TC_K_AND, x, y); }
static tc_kval below(shares *t, tc_kval x, tc_kval end) { return end < 0 ? -1 : op(t, TC_K_LT, x, end); }
static tc_kval column_of_lane(shares *t) { return op(t, TC_K_REM, tc_kb_lane(t->b), i32(t, t->columns)); }
static tc_kval group_of_lane(shares *t) { return op(t, TC_K_DIV, tc_kb_lane(t->b), i32(t, t->columns)); }

static void start_index(const shares *t, tc_kval *index) {
  for (int32_t i = 0; i < t->rank - 2; i++) index[i] = t->batch[i];
}

// Elements k … k + 3 of a line of an operand, whose last dimension is K, or, `across`, of a column.
static void load_run(shares *t, int32_t operand, tc_kval line, tc_kval k, tc_kval mask, bool across, tc_kval *out) {
  tc_kval index[TC_MAX_RANK];
  int32_t r = t->rank, at = across ? r - 2 : r - 1;
  start_index(t, index);
  index[across ? r - 1 : r - 2] = line, index[at] = k;
  if (!across && t->together) {
    tc_stage_load_n(t->s, operand, index, RUN, both(t, mask, below(t, k, t->k_end)), out);
  } else {
    for (int32_t i = 0; i < RUN; i++) {
      index[at] = plus(t, k, i);
      out[i] = tc_stage_load(t->s, operand, index, both(t, mask, below(t, index[at], t->k_end)));
    }
  }
  for (int32_t i = 0; i < RUN; i++) out[i] = tc_kb_cast(t->b, t->acc, out[i]);
}

// A step's rows of a, run by run, into shared memory.
static void fetch_rows(shares *t, tc_kval k0) {
  int32_t per_row = t->depth / RUN, count = t->rows * per_row;
  tc_kval v[RUN];
  for (int32_t first = 0; first < count; first += t->lanes) {
    tc_kval number = add(t, tc_kb_lane(t->b), i32(t, first));
    tc_kval mask = count - first < t->lanes ? op(t, TC_K_LT, number, i32(t, count)) : -1;
    tc_kval row = add(t, t->row0, wide(t, op(t, TC_K_DIV, number, i32(t, per_row))));
    tc_kval k = add(t, k0, wide(t, times(t, op(t, TC_K_REM, number, i32(t, per_row)), RUN)));
    load_run(t, 0, row, k, both(t, mask, below(t, row, t->row_end)), false, v);
    tc_kb_store(t->b, t->slab, times(t, number, RUN), RUN, v, mask);
  }
}

// A step's elements of b: the runs of the lane's group.
static void fetch_column(shares *t, tc_kval k0) {
  tc_kval column = add(t, t->column0, wide(t, column_of_lane(t))), inside = below(t, column, t->column_end), v[RUN];
  tc_kval first = add(t, k0, wide(t, times(t, group_of_lane(t), RUN)));
  for (int32_t u = 0; u < t->runs; u++) {
    load_run(t, 1, column, plus(t, first, (int64_t)u * t->groups * RUN), inside, !t->turned, v);
    tc_kb_store(t->b, t->column, i32(t, u * RUN), RUN, v, -1);
  }
}

static void multiply(shares *t) {
  tc_kval sums[MOST_ROWS], x[RUN], y[RUN], own = times(t, group_of_lane(t), RUN);
  for (int32_t i = 0; i < t->rows; i++) sums[i] = tc_kb_load1(t->b, t->own, i32(t, i), -1, -1);
  for (int32_t u = 0; u < t->runs; u++) {
    tc_kb_load(t->b, t->column, i32(t, u * RUN), RUN, -1, NULL, y);
    for (int32_t i = 0; i < t->rows; i++) {
      tc_kval at = add(t, own, i32(t, i * t->depth + u * t->groups * RUN));
      tc_kb_load(t->b, t->slab, at, RUN, -1, NULL, x);
      for (int32_t e = 0; e < RUN; e++) sums[i] = tc_kb_op3(t->b, TC_K_FMA, x[e], y[e], sums[i]);
    }
  }
  for (int32_t i = 0; i < t->rows; i++) tc_kb_store(t->b, t->own, i32(t, i), 1, &sums[i], -1);
}

// What a lane has summed, for the others.
static void put_down(shares *t) {
  tc_kval to = add(t, times(t, group_of_lane(t), (int64_t)t->rows * t->columns), column_of_lane(t));
  for (int32_t i = 0; i < t->rows; i++) {
    tc_kval v = tc_kb_load1(t->b, t->own, i32(t, i), -1, -1);
    tc_kb_store(t->b, t->sums, add(t, to, i32(t, (int64_t)i * t->columns)), 1, &v, -1);
  }
}

// The sums of all groups for the tile's elements, one after the other for each lane, and what follows.
static void finish(shares *t) {
  tc_kval index[TC_MAX_RANK];
  int32_t r = t->rank, size = t->rows * t->columns;
  start_index(t, index);
  for (int32_t first = 0; first < size; first += t->lanes) {
    tc_kval element = add(t, tc_kb_lane(t->b), i32(t, first));
    tc_kval mask = size - first < t->lanes ? op(t, TC_K_LT, element, i32(t, size)) : -1;
    tc_kval v = tc_kb_load1(t->b, t->sums, element, mask, -1);
    for (int32_t g = 1; g < t->groups; g++)
      v = add(t, v, tc_kb_load1(t->b, t->sums, add(t, element, i32(t, (int64_t)g * size)), mask, -1));
    index[r - 2] = add(t, t->row0, wide(t, op(t, TC_K_DIV, element, i32(t, t->columns))));
    index[r - 1] = add(t, t->column0, wide(t, op(t, TC_K_REM, element, i32(t, t->columns))));
    mask = both(t, mask, both(t, below(t, index[r - 2], t->row_end), below(t, index[r - 1], t->column_end)));
    tc_stage_store(t->s, index, tc_kb_cast(t->b, tc_stage_dtype(t->s), v), mask);
  }
}

int32_t tc_matmul_emit_shares(tc_stage *s, const tc_stage_config *c) {
  int32_t r = tc_stage_rank(s);
  shares t = {.s = s, .b = tc_stage_builder(s), .rank = r, .lanes = c->lanes, .acc = tc_matmul_sums(s)};
  tc_kb *b = t.b;
  int64_t depth = tc_stage_operand_size(s, 0, r - 1);
  tc_kval end = tc_stage_operand_extent(s, 0, r - 1);
  t.rows = (int32_t)c->tile[r - 2], t.columns = (int32_t)c->tile[r - 1];
  t.groups = (int32_t)c->params[TC_MATMUL_GROUPS], t.depth = (int32_t)c->params[TC_MATMUL_DEPTH];
  t.runs = t.depth / RUN / t.groups;
  t.turned = tc_matmul_turned(s);
  t.together = depth > 0 && depth % RUN == 0;
  for (int32_t i = 0; i < r - 2; i++) t.batch[i] = tc_stage_origin(s, i);
  t.row0 = tc_stage_origin(s, r - 2), t.column0 = tc_stage_origin(s, r - 1);
  t.row_end = tc_stage_exact(s, r - 2) ? -1 : tc_stage_extent(s, r - 2);
  t.column_end = tc_stage_exact(s, r - 1) ? -1 : tc_stage_extent(s, r - 1);
  t.k_end = depth > 0 && depth % t.depth == 0 ? -1 : end;
  t.slab = tc_kb_shared(b, (tc_sv){"a", 1}, t.acc, (int64_t)t.rows * t.depth);
  t.sums = tc_kb_shared(b, (tc_sv){"sums", 4}, t.acc, (int64_t)t.lanes * t.rows);
  t.column = tc_kb_lane_array(b, (tc_sv){"b", 1}, t.acc, (int64_t)t.runs * RUN);
  t.own = tc_kb_lane_array(b, (tc_sv){"own", 3}, t.acc, t.rows);
  tc_kval nothing = tc_template_zero(b, t.acc);
  tc_kb_lanes(b);
  for (int32_t i = 0; i < t.rows; i++) tc_kb_store(b, t.own, i32(&t, i), 1, &nothing, -1);
  tc_kb_end_lanes(b, 0, NULL, NULL);
  tc_kval k0 = tc_kb_for(b, tc_kb_int(b, TC_I64, 0), end, t.depth, 0, 0, NULL, NULL);
  tc_kb_barrier(b); // everybody has read the step before
  tc_kb_lanes(b);
  fetch_column(&t, k0);
  fetch_rows(&t, k0);
  tc_kb_end_lanes(b, 0, NULL, NULL);
  tc_kb_barrier(b);
  tc_kb_lanes(b);
  multiply(&t);
  tc_kb_end_lanes(b, 0, NULL, NULL);
  tc_kb_end_for(b, 0, NULL, NULL);
  tc_kb_lanes(b);
  put_down(&t);
  tc_kb_end_lanes(b, 0, NULL, NULL);
  tc_kb_barrier(b);
  tc_kb_lanes(b);
  finish(&t);
  tc_kb_end_lanes(b, 0, NULL, NULL);
  return TC_STATUS_OK;
}
