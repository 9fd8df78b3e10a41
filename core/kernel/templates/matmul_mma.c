// Matrix products by products of tiles (`mma`, tc/kernel.h): a block makes a tile of the result, 32 lanes 64 × 32 or so
// of its elements in registers.
//
// Sixteen-bit floats are multiplied as they are. An f32, scaled, is the sum of two f16, the second of which is kept
// times 2^11, so that it is no smaller than the first; a product is then the sum of four, of which the three greatest
// give it to 22 bits and more (Ootomo and Yokota, "Recovering single precision accuracy from Tensor Cores while
// surpassing the FP32 theoretical peak performance", 2022). Devices cut bits off where they sum, so a step's products
// are summed from zero, the small ones first, and added up by ordinary additions.
//
// Each line (row of a, column of b) has a power of two that brings its greatest number so far near 2^TARGET: an element
// is then known to 2^-42 of that, or to 23 bits of its own. A step is put as if the scales were right. Lanes that find
// a number beyond LIMIT say so; behind the barrier that follows anyway the block then lowers the scales, the sums with
// them, and puts the step again. That is so in the first step, in which every scale is FIRST, and seldom later.
//
// The block walks along K in steps of DEPTH elements, which lie in shared memory in planes, part after part, two
// elements in a word. Which elements of K a lane multiplies is free as long as both factors agree: number u of the
// step's runs of four belongs to product u mod (DEPTH / 16), where lane u / (DEPTH / 16) of four has it. So what a lane
// needs lies together, and in the order of its registers: of a the runs of two rows, eight apart, with their words in
// turns; of b all runs of a column. Both are turned by their number, so that neighbouring lanes meet other banks
// whether they take rows or runs. A step's elements are on their way from memory into registers while the one before is
// multiplied. Where there is room, and nothing is scaled, shared memory has two steps, and no lane waits for others to
// have read one.
//
// Infinities do not split: their parts make NaN. A block with a sum that is not finite, without a NaN in its lines
// (whose scale is then NaN, too), multiplies its tile once more by ordinary arithmetic, on the way out.
#include <math.h>

#include "core/kernel/templates/matmul_tiles.h"

enum { RUN = TC_TILES_RUN, ROWS = 16, COLUMNS = 8, STEP = 16, QUAD = 4 }; // of a product of tiles
enum { PARTS = 2, PRODUCTS = 3, WORDS = 4, PAD = 8 };                     // PAD: behind rows on the way out
enum { MOST_ACROSS = 4, MOST_DOWN = 4, MOST_STEPS = 2, MOST_RUNS = 8 };
enum {
  TARGET = 6,
  EXPONENT = 23,
  INVERSE = 254
}; // exponent of a line's greatest number when it is scaled; of f32: its
   // place, and the sum of two inverse powers' exponents
#define FIRST 0x1p126 // scale of a line in which nothing was seen
#define LIMIT 0x1p15  // of scaled numbers
#define BEHIND 0x1p11 // scale of last parts

typedef tc_tiles tiles;
typedef tc_tiles_slab slab;

static tc_kval i32(tiles *t, int64_t v) { return tc_tiles_i32(t, v); }
static tc_kval op(tiles *t, int32_t o, tc_kval x, tc_kval y) { return tc_tiles_op(t, o, x, y); }
static tc_kval add(tiles *t, tc_kval x, tc_kval y) { return tc_tiles_add(t, x, y); }
static tc_kval times(tiles *t, tc_kval x, int64_t y) { return tc_tiles_times(t, x, y); }
static tc_kval over(tiles *t, tc_kval x, int64_t y) { return tc_tiles_over(t, x, y); }
static tc_kval rest(tiles *t, tc_kval x, int64_t y) { return tc_tiles_rest(t, x, y); }

// ---- Configurations ----
typedef struct shape {
  int32_t rows, columns, lane_rows, lane_columns, depth, stages;
  double time,
      split; // beside the whole rate of the device's tiles, of 16-bit floats and of split ones (0: not for them)
} shape;
static const shape shapes[] = {{128, 64, 64, 32, 32, 1, 1.38, 2.07}, // measured on an H200
                               {64, 64, 32, 32, 32, 1, 1.4, 2.43},
                               {128, 64, 32, 32, 16, 2, 1.42, 0},
                               {128, 128, 64, 32, 32, 2, 1.45, 0}};
enum { FULL = 256 }; // lanes that keep a core busy, of one block or of several
// A multiply-add of matmul.c's micro-tiles is 1 / 0.12 of the device's f32 rate.
#define ORDINARY 0.12

// What is multiplied: 16-bit factors as they are, whatever the type of their product is.
static tc_dtype factor_dtype(const tc_stage *s) {
  tc_dtype x = tc_stage_operand_dtype(s, 0), d = tc_stage_dtype(s);
  bool halves = (x == TC_F16 || x == TC_BF16) && tc_stage_operand_dtype(s, 1) == x;
  return halves && (d == x || d == TC_F32) ? x : d;
}

static int32_t planes_of(const tc_stage *s) {
  uint64_t tiles = tc_stage_device(s)->tiles;
  switch (factor_dtype(s)) {
  case TC_F32: return tiles >> TC_F16 & 1 ? PARTS : 0;
  case TC_F16: return tc_stage_operand_dtype(s, 1) == TC_F16 && tiles >> TC_F16 & 1;
  case TC_BF16: return tc_stage_operand_dtype(s, 1) == TC_BF16 && tiles >> TC_BF16 & 1;
  default: return 0;
  }
}

bool tc_matmul_mma_fits(int32_t rows, int32_t columns, int32_t depth, int32_t lanes) {
  int32_t round = RUN * lanes; // elements that all lanes bring at once
  return rows * depth % (2 * round) == 0 && columns * depth % round == 0;
}

int32_t tc_matmul_mma(const tc_stage *s, int32_t max, tc_stage_config *out) {
  const tc_device_props *dev = tc_stage_device(s);
  int32_t n = 0, planes = planes_of(s);
  if (!planes || dev->simd_bytes || tc_stage_operand_rank(s, 1) > tc_stage_rank(s)) return 0;
  double rate = (double)dev->tile_flops_per_ns / (planes == PARTS ? PRODUCTS : 1);
  double beside = rate > 0 && dev->flops_per_ns > 0 ? (double)dev->flops_per_ns / rate : 0.5;
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes && n < max; i++) {
    const shape *t = &shapes[i];
    double time = planes == PARTS ? t->split : t->time;
    int32_t lanes = t->rows / t->lane_rows * (t->columns / t->lane_columns) * TC_MMA_LANES;
    int64_t shared = (int64_t)t->stages * planes * (t->rows + t->columns) * t->depth * 2;
    if (time == 0 || tc_template_lanes(dev, lanes) < lanes || (dev->shared_bytes && shared > dev->shared_bytes))
      continue;
    if (!tc_matmul_mma_fits(t->rows, t->columns, t->depth, lanes)) continue;
    if (t->rows / t->lane_rows * 8 > t->stages * planes * t->depth / 2) continue; // no room for rows on the way out
    tc_stage_config *c = &out[n++];
    *c = (tc_stage_config){.lanes = lanes, .shared_bytes = shared};
    tc_tiles_config(s, t->rows, t->columns, lanes < FULL ? FULL / lanes : 1, ORDINARY * beside * time, c);
    c->params[TC_MATMUL_LANE_ROWS] = t->lane_rows;
    c->params[TC_MATMUL_LANE_COLUMNS] = t->lane_columns;
    c->params[TC_MATMUL_DEPTH] = t->depth;
    c->params[TC_MATMUL_PLANES] = planes;
    c->params[TC_MATMUL_STAGES] = t->stages;
  }
  return n;
}

// ---- Places ----
static int32_t words_of(const tiles *t) { return t->depth / 2; } // of a line in a plane
static int64_t plane_words(const tiles *t, const slab *x) { return (int64_t)x->lines * words_of(t); }

// Of the 32 lanes: the place in lines of a product of tiles, and in a line.
static tc_kval group_of(tiles *t) { return over(t, rest(t, tc_kb_lane(t->b), TC_MMA_LANES), QUAD); }
static tc_kval quad_of(tiles *t) { return rest(t, tc_kb_lane(t->b), QUAD); }
// First row and column of the block's tile that the lane's 32 make.
static tc_kval warp_row(tiles *t) {
  return times(t, over(t, over(t, tc_kb_lane(t->b), TC_MMA_LANES), t->column_lanes), t->lane_rows);
}
static tc_kval warp_column(tiles *t) {
  return times(t, rest(t, over(t, tc_kb_lane(t->b), TC_MMA_LANES), t->column_lanes), t->lane_columns);
}

// ---- Places of a step's runs ----
static int32_t products_of(const tiles *t) { return t->depth / STEP; } // along K in a step
static int32_t runs_of_line(const tiles *t) { return t->depth / RUN; }

// Number v of the lane's runs: `out_run` of line `out_line`. Neighbouring lanes take what lies together in memory; runs
// 2v and 2v + 1 of a are of rows that are eight apart.
static void place_of_run(tiles *t, const slab *x, int32_t v, tc_kval *out_line, tc_kval *out_run) {
  bool pairs = x->operand == 0;
  int32_t per_line = runs_of_line(t);
  tc_kval number = add(t, tc_kb_lane(t->b), i32(t, (int64_t)(pairs ? v / 2 : v) * t->lanes)), line;
  *out_run = x->along_k ? rest(t, number, per_line) : over(t, number, x->lines);
  line = x->along_k ? over(t, number, per_line) : rest(t, number, x->lines);
  if (pairs) line = add(t, add(t, times(t, over(t, line, 8), ROWS), rest(t, line, 8)), i32(t, v % 2 * 8));
  *out_line = line;
}

// Where a has the runs of rows `row` and row + 8, in words of a plane.
static tc_kval left_at(tiles *t, tc_kval row, tc_kval run) {
  int32_t n = products_of(t);
  tc_kval product = rest(t, run, n), group = op(t, TC_K_XOR, rest(t, row, 8), product);
  tc_kval at = add(t, times(t, add(t, times(t, over(t, row, ROWS), n), product), 8), group);
  return times(t, add(t, times(t, at, QUAD), over(t, run, n)), WORDS);
}

// Where b has what lane `quad` of four takes of a line, in words of a plane; of the line `ahead` (a multiple of 8)
// behind `line`.
static tc_kval right_at(tiles *t, tc_kval line, int32_t ahead, tc_kval quad) {
  int32_t together = 32 / words_of(t); // lines in 32 banks
  tc_kval turned = op(t, TC_K_XOR, quad, rest(t, over(t, line, together), QUAD));
  if (ahead / together % QUAD) turned = op(t, TC_K_XOR, turned, i32(t, ahead / together % QUAD));
  tc_kval at = times(t, add(t, times(t, line, QUAD), turned), 2 * (int64_t)products_of(t));
  return ahead ? add(t, at, i32(t, (int64_t)ahead * words_of(t))) : at;
}

// ---- A step's elements ----
// From step k0 on, into registers.
static void fetch(tiles *t, const slab *x, tc_kval k0) {
  tc_kval index[TC_MAX_RANK], v[RUN], line, run;
  int32_t r = t->rank;
  for (int32_t i = 0; i < r - 2; i++) index[i] = t->batch[i];
  for (int32_t i = 0; i < tc_tiles_runs(t, x); i++) {
    place_of_run(t, x, i, &line, &run);
    line = add(t, x->first, tc_tiles_wide(t, line));
    tc_kval k = add(t, k0, tc_tiles_wide(t, times(t, run, RUN))), mask = x->exact ? -1 : op(t, TC_K_LT, line, x->end);
    index[r - 2] = line, index[r - 1] = k;
    if (x->along_k) tc_tiles_load_run(t, x, index, r - 1, mask, t->k_end, v);
    for (int32_t e = 0; e < RUN && !x->along_k; e++) {
      index[r - 2] = add(t, k, tc_tiles_i64(t, e)), index[r - 1] = line;
      tc_kval inside = t->k_end < 0 ? mask : tc_tiles_both(t, mask, op(t, TC_K_LT, index[r - 2], t->k_end));
      v[e] = tc_kb_cast(t->b, t->acc, tc_stage_load(t->s, x->operand, index, inside));
    }
    tc_kb_store(t->b, x->next, i32(t, (int64_t)i * RUN), RUN, v, -1);
  }
}

// Two numbers of 16 bits in a word, the first one low; bf16 are the upper halves of f32.
static tc_kval pair_of(tiles *t, tc_kval low, tc_kval high) {
  tc_kb *b = t->b;
  if (factor_dtype(t->s) != TC_BF16) {
    low = tc_kb_cast(b, TC_I32, tc_kb_bitcast(b, TC_U16, low));
    high = tc_kb_cast(b, TC_I32, tc_kb_bitcast(b, TC_U16, high));
    return op(t, TC_K_OR, low, op(t, TC_K_SHL, high, i32(t, 16)));
  }
  low = op(t, TC_K_AND, op(t, TC_K_SHR, tc_kb_bitcast(b, TC_I32, low), i32(t, 16)), i32(t, 0xffff));
  return op(t, TC_K_OR, low, op(t, TC_K_AND, tc_kb_bitcast(b, TC_I32, high), i32(t, -0x10000)));
}

// Elements of one line as they are put: the next parts of them, whose rest stays in v.
static void next_part(tiles *t, int32_t p, tc_kval *v, tc_kval *part) {
  tc_kb *b = t->b;
  for (int32_t e = 0; e < RUN; e++) {
    part[e] = factor_dtype(t->s) == TC_BF16 ? v[e] : tc_kb_cast(b, TC_F16, v[e]);
    if (p + 1 == t->planes) continue;
    tc_kval rest = op(t, TC_K_SUB, v[e], tc_kb_cast(b, TC_F32, part[e]));
    v[e] = op(t, TC_K_MUL, rest, tc_kb_real(b, TC_F32, BEHIND));
  }
}

// The greatest magnitude of a run, or NaN.
static tc_kval greatest_of(tiles *t, const tc_kval *v) {
  tc_kval sizes[RUN];
  for (int32_t e = 0; e < RUN; e++) sizes[e] = tc_kb_op1(t->b, TC_K_ABS, v[e]);
  return op(t, TC_K_MAX, op(t, TC_K_MAX, sizes[0], sizes[1]), op(t, TC_K_MAX, sizes[2], sizes[3]));
}

// What was fetched of run number i, and is of `line`, scaled. `most`: the greatest of all, or NaN.
static void take_run(tiles *t, const slab *x, int32_t i, tc_kval line, tc_kval *most, tc_kval *v) {
  tc_kb_load(t->b, x->next, i32(t, (int64_t)i * RUN), RUN, -1, NULL, v);
  if (t->planes != PARTS) return;
  tc_kval scale = tc_kb_load1(t->b, x->scales, line, -1, -1), own;
  for (int32_t e = 0; e < RUN; e++) v[e] = op(t, TC_K_MUL, v[e], scale);
  own = greatest_of(t, v); // by itself, so that runs do not wait for each other
  *most = *most < 0 ? own : op(t, TC_K_MAX, *most, own);
}

// All parts of `n` runs, into shared memory from word `to` on: the first words of all, then the second ones.
static void put_parts(tiles *t, const slab *x, tc_kval to, int32_t n, tc_kval (*v)[RUN]) {
  for (int32_t p = 0; p < t->planes; p++) {
    tc_kval words[WORDS], part[RUN];
    for (int32_t i = 0; i < n; i++) {
      next_part(t, p, v[i], part);
      for (int32_t w = 0; w < RUN / 2; w++) words[w * n + i] = pair_of(t, part[2 * w], part[2 * w + 1]);
    }
    tc_kb_store(t->b, x->shared, add(t, to, i32(t, p * plane_words(t, x))), n * RUN / 2, words, -1);
  }
}

// What was fetched, into shared memory from word `stage` on.
static void put_left(tiles *t, tc_kval stage, tc_kval *most) {
  tc_kval v[2][RUN], row, run;
  for (int32_t i = 0; i < tc_tiles_runs(t, &t->left); i += 2) {
    place_of_run(t, &t->left, i, &row, &run);
    for (int32_t h = 0; h < 2; h++) take_run(t, &t->left, i + h, h ? add(t, row, i32(t, 8)) : row, most, v[h]);
    put_parts(t, &t->left, add(t, left_at(t, row, run), stage), 2, v);
  }
}
static void put_right(tiles *t, tc_kval stage, tc_kval *most) {
  tc_kval v[1][RUN], line, run;
  int32_t n = products_of(t);
  for (int32_t i = 0; i < tc_tiles_runs(t, &t->right); i++) {
    place_of_run(t, &t->right, i, &line, &run);
    take_run(t, &t->right, i, line, most, v[0]);
    tc_kval to = add(t, right_at(t, line, 0, over(t, run, n)), times(t, rest(t, run, n), RUN / 2));
    put_parts(t, &t->right, add(t, to, stage), 1, v);
  }
}

// `stage`: number of the step's place in shared memory. Gives the greatest scaled number.
static tc_kval put_parts_of_both(tiles *t, tc_kval stage) {
  tc_kval most = -1;
  put_left(t, times(t, stage, t->planes * plane_words(t, &t->left)), &most);
  put_right(t, times(t, stage, t->planes * plane_words(t, &t->right)), &most);
  return most;
}
static void put_both(tiles *t, tc_kval stage) {
  tc_kval most = put_parts_of_both(t, stage);
  if (t->planes != PARTS) return;
  tc_kval fit = op(t, TC_K_LE, most, tc_kb_real(t->b, TC_F32, LIMIT));
  tc_kb_atomic_add(t->b, t->grows, i32(t, 0), i32(t, 1), tc_kb_op1(t->b, TC_K_NOT, fit));
}

// ---- Products ----
// The sums take in a step: its products are summed from zero, in the order of their size. `left`, `right`: the words
// from which the step's parts lie.
static void multiply(tiles *t, tc_kval left, tc_kval right) {
  static const int32_t order[PRODUCTS][2] = {{0, 1}, {1, 0}, {0, 0}};
  tc_kb *b = t->b;
  int32_t across = t->lane_columns / COLUMNS, down = t->lane_rows / ROWS, steps = products_of(t);
  tc_kval y[MOST_ACROSS][PARTS][2 * MOST_STEPS], x[PARTS][MOST_STEPS][WORDS], c[MOST_ACROSS][4], sums[4];
  tc_kval row = add(t, warp_row(t), group_of(t)), column = add(t, warp_column(t), group_of(t)), quad = quad_of(t);
  int32_t opcode = factor_dtype(t->s) == TC_BF16 ? TC_K_MMA_BF16 : TC_K_MMA_F16;
  for (int32_t n = 0; n < across; n++) {
    tc_kval at = add(t, right_at(t, column, n * COLUMNS, quad), right);
    for (int32_t p = 0; p < t->planes; p++)
      tc_kb_load(b, t->right.shared, add(t, at, i32(t, p * plane_words(t, &t->right))), 2 * steps, -1, NULL, y[n][p]);
  }
  for (int32_t m = 0; m < down; m++) {
    for (int32_t k = 0; k < steps; k++) {
      tc_kval run = add(t, times(t, quad, steps), i32(t, k)), at = add(t, left_at(t, row, run), left);
      at = add(t, at, i32(t, (int64_t)m * steps * 8 * QUAD * WORDS));
      for (int32_t p = 0; p < t->planes; p++)
        tc_kb_load(b, t->left.shared, add(t, at, i32(t, p * plane_words(t, &t->left))), WORDS, -1, NULL, x[p][k]);
    }
    for (int32_t n = 0; n < across; n++)
      for (int32_t e = 0; e < 4; e++) c[n][e] = tc_kb_real(b, TC_F32, 0);
    for (int32_t i = t->planes == PARTS ? 0 : PRODUCTS - 1; i < PRODUCTS; i++) {
      for (int32_t n = 0; n < across && i == PRODUCTS - 1 && t->planes == PARTS; n++)
        for (int32_t e = 0; e < 4; e++) c[n][e] = op(t, TC_K_MUL, c[n][e], tc_kb_real(b, TC_F32, 1 / BEHIND));
      for (int32_t k = 0; k < steps; k++)
        for (int32_t n = 0; n < across; n++)
          tc_kb_mma(b, opcode, x[order[i][0]][k], y[n][order[i][1]] + 2 * k, c[n], c[n]);
    }
    for (int32_t n = 0; n < across; n++) {
      tc_kval at = i32(t, (int64_t)(m * across + n) * 4);
      tc_kb_load(b, t->sums, at, 4, -1, NULL, sums);
      for (int32_t e = 0; e < 4; e++) sums[e] = op(t, TC_K_ADD, sums[e], c[n][e]);
      tc_kb_store(b, t->sums, at, 4, sums, -1);
    }
  }
}

// ---- Scales ----
// A power of two and its inverse.
static tc_kval inverse(tiles *t, tc_kval power) {
  tc_kval bits = op(t, TC_K_SUB, i32(t, (int64_t)INVERSE << EXPONENT), tc_kb_bitcast(t->b, TC_I32, power));
  return tc_kb_bitcast(t->b, TC_F32, bits);
}

static tc_kval fits(tiles *t, tc_kval most, tc_kval scale) {
  return op(t, TC_K_LE, op(t, TC_K_MUL, most, scale), tc_kb_real(t->b, TC_F32, LIMIT));
}

// Lines of x that the lane has in round i of all lanes: their number, and whether it is one.
static int32_t rounds_of(const tiles *t, const slab *x) { return (x->lines + t->lanes - 1) / t->lanes; }
static tc_kval own_line(tiles *t, const slab *x, int32_t i, tc_kval *out_mask) {
  tc_kval line = add(t, tc_kb_lane(t->b), i32(t, (int64_t)i * t->lanes));
  *out_mask = (i + 1) * t->lanes > x->lines ? op(t, TC_K_LT, line, i32(t, x->lines)) : -1;
  return line;
}

static void first_scales(tiles *t, const slab *x) {
  tc_kval mask, first = tc_kb_real(t->b, TC_F32, FIRST);
  for (int32_t i = 0; i < rounds_of(t, x); i++) {
    tc_kval line = own_line(t, x, i, &mask);
    tc_kb_store(t->b, x->scales, line, 1, &first, mask);
  }
}

// The greatest number of each run, to where the others see it: a word for each, and behind them one for each line.
static void show_greatest(tiles *t, const slab *x) {
  tc_kval line, run;
  for (int32_t i = 0; i < tc_tiles_runs(t, x); i++) {
    place_of_run(t, x, i, &line, &run);
    tc_kval v[RUN], most;
    tc_kb_load(t->b, x->next, i32(t, (int64_t)i * RUN), RUN, -1, NULL, v);
    most = tc_kb_bitcast(t->b, TC_I32, greatest_of(t, v));
    tc_kb_store(t->b, x->shared, add(t, times(t, line, runs_of_line(t)), run), 1, &most, -1);
  }
}
static tc_kval ratio_at(tiles *t, const slab *x, tc_kval line) {
  return add(t, line, i32(t, (int64_t)x->lines * runs_of_line(t)));
}

// Lines with greater numbers get smaller scales, those with NaN NaN for good; how they change goes to ratio_at.
static void lower_scales(tiles *t, const slab *x) {
  tc_kb *b = t->b;
  int32_t n = runs_of_line(t);
  tc_kval first = tc_kb_real(b, TC_F32, FIRST), none[MOST_RUNS], bits[MOST_RUNS], mask;
  for (int32_t e = 0; e < n; e++) none[e] = i32(t, 0);
  for (int32_t i = 0; i < rounds_of(t, x); i++) {
    tc_kval line = own_line(t, x, i, &mask), most = -1;
    tc_kval old = tc_kb_load1(b, x->scales, line, mask, mask < 0 ? -1 : first);
    tc_kb_load(b, x->shared, times(t, line, n), n, mask, mask < 0 ? NULL : none, bits);
    for (int32_t e = 0; e < n; e++) {
      tc_kval v = tc_kb_bitcast(b, TC_F32, bits[e]);
      most = e ? op(t, TC_K_MAX, most, v) : v;
    }
    tc_kval exponent = op(t, TC_K_SHR, tc_kb_bitcast(b, TC_I32, most), i32(t, EXPONENT));
    tc_kval scale = op(t, TC_K_SHL, op(t, TC_K_SUB, i32(t, INVERSE + TARGET), exponent), i32(t, EXPONENT));
    tc_kval finite = op(t, TC_K_LT, most, tc_kb_real(b, TC_F32, (double)INFINITY));
    scale = tc_kb_op3(b, TC_K_SELECT, finite, tc_kb_bitcast(b, TC_F32, scale), old);
    scale = tc_kb_op3(b, TC_K_SELECT, fits(t, most, old), old, scale);
    tc_kval nan = op(t, TC_K_MUL, most, old); // if there is one here, or was before
    scale = tc_kb_op3(b, TC_K_SELECT, op(t, TC_K_NE, nan, nan), nan, scale);
    tc_kval ratio = tc_kb_bitcast(b, TC_I32, op(t, TC_K_MUL, scale, inverse(t, old)));
    tc_kb_store(b, x->scales, line, 1, &scale, mask);
    tc_kb_store(b, x->shared, ratio_at(t, x, line), 1, &ratio, mask);
  }
}

// The lane's rows and columns of the block's tile, as its sums have them.
static void own_lines(tiles *t, tc_kval *rows, tc_kval *columns) {
  int32_t across = t->lane_columns / COLUMNS, down = t->lane_rows / ROWS;
  tc_kval row = add(t, warp_row(t), group_of(t)), column = add(t, warp_column(t), times(t, quad_of(t), 2));
  for (int32_t i = 0; i < 2 * down; i++) rows[i] = add(t, row, i32(t, i * 8));
  for (int32_t i = 0; i < 2 * across; i++) columns[i] = add(t, column, i32(t, i / 2 * COLUMNS + i % 2));
}
// Those of sum number i.
static int32_t row_of_sum(const tiles *t, int32_t i) { return i / 4 / (t->lane_columns / COLUMNS) * 2 + i % 4 / 2; }
static int32_t column_of_sum(const tiles *t, int32_t i) { return i / 4 % (t->lane_columns / COLUMNS) * 2 + i % 2; }

// Sums times what belongs to their row and to their column; `out`: what they become, too.
static void scale_sums(tiles *t, const tc_kval *rows, const tc_kval *columns, tc_kval *out) {
  for (int32_t i = 0; i < t->lane_rows * t->lane_columns / TC_MMA_LANES; i++) {
    tc_kval v = tc_kb_load1(t->b, t->sums, i32(t, i), -1, -1);
    v = op(t, TC_K_MUL, v, op(t, TC_K_MUL, rows[row_of_sum(t, i)], columns[column_of_sum(t, i)]));
    tc_kb_store(t->b, t->sums, i32(t, i), 1, &v, -1);
    if (out) out[i] = v;
  }
}

// Behind a barrier: where something does not fit, scales are lowered, and sums with them.
static void follow_growth(tiles *t, tc_kval stage) {
  tc_kb *b = t->b;
  if (t->planes != PARTS) return;
  tc_kval rows[2 * MOST_DOWN], columns[2 * MOST_ACROSS], none = i32(t, 0);
  tc_kb_if(b, op(t, TC_K_NE, tc_kb_load1(b, t->grows, i32(t, 0), -1, -1), none));
  tc_kb_lanes(b);
  show_greatest(t, &t->left);
  show_greatest(t, &t->right);
  tc_kb_end_lanes(b, 0, NULL, NULL);
  tc_kb_barrier(b);
  tc_kb_lanes(b);
  lower_scales(t, &t->left);
  lower_scales(t, &t->right);
  tc_kb_store(b, t->grows, i32(t, 0), 1, &none, op(t, TC_K_EQ, tc_kb_lane(b), i32(t, 0)));
  tc_kb_end_lanes(b, 0, NULL, NULL);
  tc_kb_barrier(b);
  tc_kb_lanes(b);
  own_lines(t, rows, columns);
  for (int32_t i = 0; i < 2 * t->lane_rows / ROWS; i++)
    rows[i] = tc_kb_bitcast(b, TC_F32, tc_kb_load1(b, t->left.shared, ratio_at(t, &t->left, rows[i]), -1, -1));
  for (int32_t i = 0; i < 2 * t->lane_columns / COLUMNS; i++)
    columns[i] = tc_kb_bitcast(b, TC_F32, tc_kb_load1(b, t->right.shared, ratio_at(t, &t->right, columns[i]), -1, -1));
  scale_sums(t, rows, columns, NULL);
  tc_kb_end_lanes(b, 0, NULL, NULL);
  tc_kb_barrier(b);
  tc_kb_lanes(b);
  put_parts_of_both(t, stage);
  tc_kb_end_lanes(b, 0, NULL, NULL);
  tc_kb_barrier(b);
  tc_kb_end_if(b, 0, NULL, NULL);
}

// ---- What does not split ----
// Sums without their scales, and whether the block's tile must be multiplied by ordinary arithmetic: where one is not
// finite, without a NaN in its lines.
static tc_kval does_not_split(tiles *t) {
  tc_kb *b = t->b;
  tc_kval rows[2 * MOST_DOWN], columns[2 * MOST_ACROSS], nan_rows[2 * MOST_DOWN], nan_columns[2 * MOST_ACROSS];
  tc_kval sums[4 * MOST_DOWN * MOST_ACROSS], yields;
  tc_kb_lanes(b);
  tc_kval zero = tc_kb_real(b, TC_F32, 0), all = zero;
  own_lines(t, rows, columns);
  for (int32_t i = 0; i < 2 * t->lane_rows / ROWS; i++) {
    tc_kval v = tc_kb_load1(b, t->left.scales, rows[i], -1, -1);
    nan_rows[i] = op(t, TC_K_NE, v, v), rows[i] = inverse(t, v);
  }
  for (int32_t i = 0; i < 2 * t->lane_columns / COLUMNS; i++) {
    tc_kval v = tc_kb_load1(b, t->right.scales, columns[i], -1, -1);
    nan_columns[i] = op(t, TC_K_NE, v, v), columns[i] = inverse(t, v);
  }
  scale_sums(t, rows, columns, sums);
  for (int32_t i = 0; i < t->lane_rows * t->lane_columns / TC_MMA_LANES; i++) { // 0, or NaN
    tc_kval nan = op(t, TC_K_OR, nan_rows[row_of_sum(t, i)], nan_columns[column_of_sum(t, i)]);
    all = op(t, TC_K_ADD, all, tc_kb_op3(b, TC_K_SELECT, nan, zero, op(t, TC_K_SUB, sums[i], sums[i])));
  }
  tc_kval bad = op(t, TC_K_NE, all, all);
  tc_kb_end_lanes(b, 1, &bad, &yields);
  return tc_kb_collective(b, TC_K_REDUCE_OR, yields, 0);
}

// Four elements of the result by ordinary arithmetic, where `bad`; those in v elsewhere.
static void multiply_plainly(tiles *t, tc_kval bad, const tc_kval *out, tc_kval mask, tc_kval *v) {
  tc_kb *b = t->b;
  int32_t r = t->rank;
  tc_kval zeros[RUN], sums[RUN], next[RUN], y[RUN], index[TC_MAX_RANK], column = out[r - 1];
  for (int32_t i = 0; i < r - 2; i++) index[i] = t->batch[i];
  for (int32_t e = 0; e < RUN; e++) zeros[e] = tc_kb_real(b, TC_F32, 0);
  tc_kb_if(b, bad);
  tc_kval k = tc_kb_for(b, tc_tiles_i64(t, 0), t->k_size, 1, 0, RUN, zeros, sums);
  index[r - 2] = out[r - 2], index[r - 1] = k;
  tc_kval x = tc_kb_cast(b, TC_F32, tc_stage_load(t->s, 0, index, mask));
  for (int32_t e = 0; e < RUN; e++) {
    tc_kval line = add(t, column, tc_tiles_i64(t, e));
    index[r - 2] = t->right.along_k ? line : k, index[r - 1] = t->right.along_k ? k : line;
    y[e] = tc_stage_load(t->s, 1, index, t->right.exact ? -1 : op(t, TC_K_LT, line, t->column_end));
    next[e] = tc_kb_op3(b, TC_K_FMA, x, tc_kb_cast(b, TC_F32, y[e]), sums[e]);
  }
  tc_kb_end_for(b, RUN, next, sums);
  tc_kb_else(b, RUN, sums);
  tc_kb_end_if(b, RUN, v, next);
  for (int32_t e = 0; e < RUN; e++) v[e] = next[e];
}

// ---- On the way out ----
static int32_t rows_out(const tiles *t) { return t->rows / t->lane_rows * 8; }
// Where there is room, rows begin in different banks.
static int32_t out_pitch(const tiles *t) {
  int64_t room = t->stages * t->planes * plane_words(t, &t->right);
  return t->columns + (rows_out(t) * (t->columns + PAD) <= room ? PAD : 0);
}

// Eight rows of every product of tiles, number `half` of row `m` of them, into shared memory.
static void lay_out(tiles *t, int32_t m, int32_t half) {
  tc_kb *b = t->b;
  int32_t across = t->lane_columns / COLUMNS;
  tc_kval row = add(t, times(t, over(t, warp_row(t), t->lane_rows), 8), group_of(t));
  tc_kval to = add(t, times(t, row, out_pitch(t)), add(t, warp_column(t), times(t, quad_of(t), 2)));
  for (int32_t n = 0; n < across; n++) {
    tc_kval v[2];
    tc_kb_load(b, t->sums, i32(t, (int64_t)(m * across + n) * 4 + half * 2), 2, -1, NULL, v);
    for (int32_t e = 0; e < 2; e++) v[e] = tc_kb_bitcast(b, TC_I32, v[e]);
    tc_kb_store(b, t->right.shared, add(t, to, i32(t, n * COLUMNS)), 2, v, -1);
  }
}

// What follows the product, for the rows that were laid out.
static void finish(tiles *t, tc_kval i, tc_kval bad) {
  tc_kb *b = t->b;
  int32_t r = t->rank, per_lane = rows_out(t) * t->columns / (RUN * t->lanes);
  tc_kval index[TC_MAX_RANK], v[RUN], line, at;
  for (int32_t k = 0; k < r - 2; k++) index[k] = t->batch[k];
  for (int32_t n = 0; n < per_lane; n++) {
    tc_tiles_run_at(t, n, t->columns / RUN, &line, &at);
    tc_kb_load(b, t->right.shared, add(t, times(t, line, out_pitch(t)), at), RUN, -1, NULL, v);
    for (int32_t e = 0; e < RUN; e++) v[e] = tc_kb_bitcast(b, TC_F32, v[e]);
    tc_kval row = add(t, add(t, times(t, over(t, line, 8), t->lane_rows), times(t, i, 8)), rest(t, line, 8));
    index[r - 2] = add(t, t->row0, tc_tiles_wide(t, row));
    index[r - 1] = add(t, t->column0, tc_tiles_wide(t, at));
    tc_kval mask = tc_tiles_row_mask(t, index[r - 2]);
    if (bad >= 0) multiply_plainly(t, bad, index, mask, v);
    tc_tiles_store_run(t, index, mask, v);
  }
}

static void make_slab(tiles *t, tc_sv name, tc_sv next, tc_sv scales, slab *x) {
  x->shared = tc_kb_shared(t->b, name, TC_I32, t->stages * t->planes * plane_words(t, x));
  x->next = tc_kb_lane_array(t->b, next, t->acc, (int64_t)tc_tiles_runs(t, x) * RUN);
  if (t->planes == PARTS) x->scales = tc_kb_shared(t->b, scales, TC_F32, x->lines);
}

// Before the first step.
static void begin_scales(tiles *t) {
  tc_kb *b = t->b;
  tc_kval none = i32(t, 0);
  if (t->planes != PARTS) return;
  tc_kb_lanes(b);
  first_scales(t, &t->left);
  first_scales(t, &t->right);
  tc_kb_store(b, t->grows, none, 1, &none, op(t, TC_K_EQ, tc_kb_lane(b), none));
  tc_kb_end_lanes(b, 0, NULL, NULL);
  tc_kb_barrier(b);
}

static void fetch_both(tiles *t, tc_kval k0) {
  fetch(t, &t->left, k0);
  fetch(t, &t->right, k0);
}
static void multiply_stage(tiles *t, tc_kval stage) {
  multiply(t, times(t, stage, t->planes * plane_words(t, &t->left)),
           times(t, stage, t->planes * plane_words(t, &t->right)));
}

// All steps, each of which has the one place in shared memory for itself.
static void walk(tiles *t) {
  tc_kb *b = t->b;
  tc_kval k0 = tc_kb_for(b, tc_tiles_i64(t, 0), t->k_size, t->depth, 0, 0, NULL, NULL);
  tc_kval more = add(t, k0, tc_tiles_i64(t, t->depth)), stage = i32(t, 0);
  tc_kb_barrier(b); // everybody has read the step before
  tc_kb_lanes(b);
  put_both(t, stage);
  tc_kb_end_lanes(b, 0, NULL, NULL);
  tc_kb_barrier(b);
  follow_growth(t, stage);
  tc_kb_lanes(b);
  tc_kb_if(b, op(t, TC_K_LT, more, t->k_size));
  fetch_both(t, more);
  tc_kb_end_if(b, 0, NULL, NULL);
  multiply_stage(t, stage);
  tc_kb_end_lanes(b, 0, NULL, NULL);
  tc_kb_end_for(b, 0, NULL, NULL);
}

// The same with two places: a step is multiplied while the next one is put into the other.
static void walk_by_turns(tiles *t) {
  tc_kb *b = t->b;
  tc_kb_lanes(b);
  put_both(t, i32(t, 0));
  tc_kb_end_lanes(b, 0, NULL, NULL);
  tc_kval k0 = tc_kb_for(b, tc_tiles_i64(t, 0), t->k_size, t->depth, 0, 0, NULL, NULL);
  tc_kval more = add(t, k0, tc_tiles_i64(t, t->depth));
  tc_kval number = tc_kb_cast(b, TC_I32, op(t, TC_K_DIV, k0, tc_tiles_i64(t, t->depth)));
  tc_kval stage = rest(t, number, 2), other = op(t, TC_K_SUB, i32(t, 1), stage), any = op(t, TC_K_LT, more, t->k_size);
  tc_kb_barrier(b);
  tc_kb_lanes(b);
  tc_kb_if(b, any);
  fetch_both(t, more);
  tc_kb_end_if(b, 0, NULL, NULL);
  multiply_stage(t, stage);
  tc_kb_if(b, any);
  put_both(t, other);
  tc_kb_end_if(b, 0, NULL, NULL);
  tc_kb_end_lanes(b, 0, NULL, NULL);
  tc_kb_end_for(b, 0, NULL, NULL);
}

int32_t tc_matmul_emit_mma(tc_stage *s, const tc_stage_config *c) {
  tiles t;
  tc_tiles_open(s, c, &t);
  if (!tc_matmul_mma_fits(t.rows, t.columns, t.depth, t.lanes)) return TC_STATUS_UNIMPLEMENTED;
  tc_kb *b = t.b;
  int32_t n_sums = t.lane_rows * t.lane_columns / TC_MMA_LANES, rounds = t.lane_rows / 8;
  make_slab(&t, (tc_sv){"a", 1}, (tc_sv){"next_a", 6}, (tc_sv){"scale_a", 7}, &t.left);
  make_slab(&t, (tc_sv){"b", 1}, (tc_sv){"next_b", 6}, (tc_sv){"scale_b", 7}, &t.right);
  if (t.planes == PARTS) t.grows = tc_kb_shared(b, (tc_sv){"grows", 5}, TC_I32, 1);
  t.sums = tc_kb_lane_array(b, (tc_sv){"sums", 4}, TC_F32, n_sums);
  begin_scales(&t);
  tc_kb_lanes(b);
  tc_tiles_clear_sums(&t, n_sums);
  fetch_both(&t, tc_tiles_i64(&t, 0));
  tc_kb_end_lanes(b, 0, NULL, NULL);
  if (t.stages > 1) walk_by_turns(&t);
  else walk(&t);
  tc_kval bad = t.planes == PARTS ? does_not_split(&t) : -1;
  // Registers have no addresses: which row it is must be a constant where they are read.
  tc_kval i = tc_kb_for(b, i32(&t, 0), i32(&t, rounds), 1, 0, 0, NULL, NULL);
  tc_kb_barrier(b);
  tc_kb_lanes(b);
  for (int32_t round = 0; round < rounds; round++) {
    tc_kb_if(b, op(&t, TC_K_EQ, i, i32(&t, round)));
    lay_out(&t, round / 2, round % 2);
    tc_kb_end_if(b, 0, NULL, NULL);
  }
  tc_kb_end_lanes(b, 0, NULL, NULL);
  tc_kb_barrier(b);
  tc_kb_lanes(b);
  finish(&t, i, bad);
  tc_kb_end_lanes(b, 0, NULL, NULL);
  tc_kb_end_for(b, 0, NULL, NULL);
  return TC_STATUS_OK;
}
