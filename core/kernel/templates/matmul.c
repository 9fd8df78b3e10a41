// Matrix product: out[…, M, N] = Σₖ a[…, M, K] · b[…, N / P, K, P], b packed in panels of P columns (a stage of its
// own: an ordinary copy that the op's lowering makes and that the scheduler fuses like any other). Where lanes run in
// lock-step b is read where it lies, as […, K, N], or as […, N, K] if attribute 0 is 1. Where they are SIMD elements
// blocks pack such panels themselves, of as many columns as attribute 1 says (matmul_pack.c), in pairs if attribute 2
// is 1.
//
// A block makes a tile of rows × one or more panels. Inside, R rows by `lanes` columns are accumulated in registers
// over the whole of K: per step one vector load of b and R broadcast loads of a feed R multiply-adds (the outer-product
// micro-kernel of Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008, without packing a).
// Where K is long all rows of the tile take a part of it before the next one, and sums lie on chip in between.
// Rows that are left over are made one at a time. Columns beyond N are computed on the panel's zero padding and masked
// at the store.
//
// Pairs: where the device multiplies pairs of 16-bit numbers, b's panels hold pairs of rows as one i32 (…, K/2, P), and
// a step of the loop takes two neighbouring elements of a.
//
// Where lanes are threads, matmul_tiles.c is another way, which is better but for few rows, and matmul_shares.c one for
// products of few tiles.
#include "core/kernel/templates/matmul.h"

#include <stdbool.h>

// Rows of a micro-tile; bytes of a line of the caches; steps of K that are written out one behind the other, so that
// counting and addresses are no work of the multiply-adds' ports (1024 cubed of c64 takes 0.93 of its time).
enum { MOST_MICRO = 14, LINE = 64, STEPS = 4 };

// Rows of a micro-tile, at most `most`: those that leave few rows over (a row made alone takes twice its time).
static int64_t best_rows(int64_t m, int64_t most) {
  int64_t best = 1, best_cost = INT64_MAX;
  if (most > MOST_MICRO) most = MOST_MICRO;
  for (int64_t r = most < 6 ? 1 : 6; r <= most && r <= m; r++) {
    int64_t cost = m / r * r + m % r * 2;
    if (cost <= best_cost) best = r, best_cost = cost;
  }
  return best_cost == INT64_MAX ? (m < most ? m : most) : best;
}

static int64_t ceil_div(int64_t x, int64_t y) { return (x + y - 1) / y; }

// Rows of a block's tile, at most about `most`: those with which the core that has the most to do is done first, where
// `cores` share the rows. Rows that fill no micro-tile take their time twice.
static int64_t tile_rows(int64_t m, int64_t most, int64_t rows, int64_t cores) {
  enum { TRIES = 4 };
  int64_t share = ceil_div(m, cores), best = m, least = INT64_MAX, first = ceil_div(share, most > 1 ? most : 1);
  for (int64_t i = 0; i < 2 * TRIES; i++) {
    int64_t tile = ceil_div(share, first + i / 2);
    if (i % 2) tile = ceil_div(tile, rows) * rows; // whole micro-tiles
    if (tile > m) tile = m;
    int64_t tiles = ceil_div(m, tile), turns = ceil_div(tiles, cores), last = cores > 1 ? tile : m - (tiles - 1) * tile;
    int64_t cost = (turns - 1) * (tile + tile % rows) + last + last % rows;
    if (cost < least) best = tile, least = cost;
  }
  return best;
}

static int64_t element_bytes(tc_dtype d) {
  return d == TC_C128 ? 16 : d == TC_F64 || d == TC_C64 ? 8 : d == TC_F16 || d == TC_BF16 ? 2 : 4;
}

static bool is_packed(const tc_stage *s) { return tc_stage_operand_rank(s, 1) == tc_stage_rank(s) + 1; }
int64_t tc_matmul_panel(const tc_stage *s) {
  return is_packed(s) ? tc_stage_operand_size(s, 1, tc_stage_rank(s)) : tc_stage_attr(s, 1, 64);
}
bool tc_matmul_packs(const tc_stage *s) {
  return !is_packed(s) && tc_stage_device(s)->simd_bytes && tc_stage_attr(s, 1, 0) > 0;
}
bool tc_matmul_in_pairs(const tc_stage *s) {
  if (tc_matmul_packs(s)) return tc_stage_attr(s, 2, 0) == 1;
  return tc_stage_operand_dtype(s, 1) == TC_I32 && tc_stage_dtype(s) >= TC_F16;
}
bool tc_matmul_turned(const tc_stage *s) { return tc_stage_attr(s, 0, 0) == 1; }

static int64_t depth_known(const tc_stage *s) { return tc_stage_operand_size(s, 0, tc_stage_rank(s) - 1); } // else -1
static int64_t depth_of(const tc_stage *s) { return tc_stage_operand_hint(s, 0, tc_stage_rank(s) - 1); }

// The most rows of a block's tile. The first strip of them waits for the panel, which comes from memory or from a cache
// that cores share: the more rows follow it the better, as long as the block's part of a, and the tile itself where it
// has `whole` rows, stay in the core's own cache from one panel to the next, and all cores have several blocks. Where
// the block packs the panel itself, that is dearer than reading a again. `part`: elements of a row that are read
// between two passes over the others, 0 for all.
enum { MOST_ROWS = 256 };
static int64_t most_rows(const tc_stage *s, int64_t rows, int64_t m, int64_t n, bool whole, int64_t part) {
  enum { BLOCKS = 8, OWN_MOST = 1024, OWN_BLOCKS = 4, OWN_LEAST = 64 };
  const tc_device_props *dev = tc_stage_device(s);
  int64_t panel = tc_matmul_panel(s), blocks = whole ? 1 : ceil_div(n, panel), most = MOST_ROWS;
  int64_t row = (part ? part : depth_of(s)) * element_bytes(tc_stage_operand_dtype(s, 0));
  if (whole) row += n * element_bytes(tc_stage_dtype(s));
  if (!dev->simd_bytes) return rows * (whole ? 4 : 8);
  bool own = tc_matmul_packs(s);
  if (own && !whole) most = OWN_MOST;
  else if (row > 0 && dev->l2_bytes / 2 / row < most) most = dev->l2_bytes / 2 / row;
  for (int32_t i = 0; i < tc_stage_rank(s) - 2; i++) blocks *= tc_stage_out_hint(s, i);
  int64_t wanted = (own ? whole ? 1 : OWN_BLOCKS : whole ? 4 : BLOCKS) * (int64_t)dev->cores;
  int64_t tiles = blocks > 0 ? ceil_div(wanted, blocks) : 1;
  if (m / tiles < most) most = m / tiles;
  if (own && most < OWN_LEAST) most = OWN_LEAST;
  return most > rows * 4 ? most : rows * 4;
}

static int64_t part_bytes(const tc_stage *s, int64_t part, int64_t rows) { // on chip
  return tc_matmul_own_sum_bytes(s, rows) + (tc_matmul_packs(s) ? tc_matmul_own_bytes(s, part) : 0);
}

// Elements of K in a part, 0: all at once. A panel of long columns, and as many rows as read it once, do not stay in
// the core's own cache. By parts they do, and sums lie on chip meanwhile, which also makes them as exact as those of
// parts are: 1576 rows of 3072 by 768 columns take 0.7 of their time on an Ice Lake (1.25 MB), 2048 of 2048 by 2048 of
// f64 0.5.
static int64_t part_of(const tc_stage *s, int64_t m, int64_t n) {
  enum { STEP = 32, OWN_LEAST = 2048 };
  const tc_device_props *dev = tc_stage_device(s);
  int64_t depth = depth_known(s), bytes = element_bytes(tc_stage_operand_dtype(s, 0));
  if (!dev->l2_bytes) return 0; // not known
  int64_t most = dev->l2_bytes / 2 / bytes / MOST_ROWS, rows = most_rows(s, 1, m, n, false, STEP);
  if (!dev->simd_bytes || !(is_packed(s) || tc_matmul_packs(s)) || depth <= 2 * most) return 0;
  if (tc_matmul_packs(s) && depth <= OWN_LEAST) return 0;
  if (is_packed(s) && most_rows(s, 1, m, n, false, 0) >= rows) return 0;
  int64_t count = ceil_div(depth, most > STEP ? most : STEP), part = ceil_div(ceil_div(depth, count), STEP) * STEP;
  return part_bytes(s, part, rows + MOST_MICRO) > dev->shared_bytes ? 0 : part;
}

// Columns that a lane's vector has.
static int32_t vector_of(const tc_stage *s) {
  const tc_device_props *dev = tc_stage_device(s);
  int32_t bytes = (int32_t)element_bytes(tc_stage_dtype(s));
  if (bytes < 4) bytes = 4; // accumulated in f32
  return tc_template_lanes(dev, dev->simd_bytes ? dev->simd_bytes / bytes : 32);
}

// A multiply-add per lane and cycle, a few cycles per nanosecond.
double tc_matmul_element_ns(const tc_stage *s) {
  return (double)tc_stage_operand_hint(s, 0, tc_stage_rank(s) - 1) /
         (3.0 * vector_of(s) * (tc_matmul_in_pairs(s) ? 2 : 1));
}

static int32_t candidates(const tc_stage *s, int32_t max, tc_stage_config *out, int32_t *out_n) {
  const tc_device_props *dev = tc_stage_device(s);
  int32_t rank = tc_stage_rank(s);
  int64_t panel = tc_matmul_panel(s), m = tc_stage_out_hint(s, rank - 2), n = tc_stage_out_hint(s, rank - 1);
  if (m < 1) m = 1; // an empty product is of no size to choose for
  if (n < 1) n = 1;
  *out_n = 0;
  if (panel <= 0) {
    tc_stage_refuse(s, "the second operand's panels have no known size");
    return TC_STATUS_OK;
  }
  int64_t on_chip = tc_matmul_packs(s) ? tc_matmul_own_bytes(s, depth_known(s)) : 0;
  if (on_chip < 0 || on_chip > dev->shared_bytes) {
    tc_stage_refuse(s, "the second operand's panels are not known to fit into what a block has on chip");
    return TC_STATUS_OK;
  }
  int32_t vector = vector_of(s), registers = dev->simd_registers ? dev->simd_registers : 32;
  bool complex = dev->simd_bytes && tc_stage_dtype(s) >= TC_C32;
  double column_ns = (double)n * tc_matmul_element_ns(s); // time of a row on one core
  for (int32_t i = 0; i < rank - 2; i++) column_ns *= (double)tc_stage_out_hint(s, i);
  // Vectors of columns per micro-tile; four feed the multiply-add units with the fewest loads of a.
  static const int32_t wides[] = {4, 2, 1};
  for (int32_t w = 0; w < 3 && *out_n < max; w++) {
    int64_t lanes = tc_template_lanes(dev, vector * wides[w]);
    if (lanes > panel) lanes = panel;
    int64_t per_row = lanes / vector > 0 ? lanes / vector : 1, rows = best_rows(m, (registers - per_row - 1) / per_row);
    for (int32_t whole = 0; whole < 2 && *out_n < max; whole++) {
      tc_stage_config *c = &out[(*out_n)++];
      *c = (tc_stage_config){.lanes = (int32_t)lanes, .shared_bytes = on_chip};
      for (int32_t i = 0; i < rank - 2; i++) c->tile[i] = 1;
      int64_t part = whole ? 0 : part_of(s, m, n), most = most_rows(s, rows, m, n, whole != 0, part);
      c->tile[rank - 2] = tile_rows(m, most, rows, whole && rank == 2 ? dev->cores : 1);
      c->tile[rank - 1] = whole ? 0 : panel;
      c->params[TC_MATMUL_PART] = part;
      if (part) c->shared_bytes = part_bytes(s, part, c->tile[rank - 2]);
      c->params[TC_MATMUL_ROWS] = rows;
      c->params[TC_MATMUL_PANEL] = panel;
      // Rows that are left over take twice their time. Narrower tiles load more per multiply-add, and come back to
      // the lines of a panel whose first pass waits for memory (measured with weights that no cache holds). A load of
      // a complex number serves four multiply-adds: there more rows, which read a panel less often, are the better
      // ones.
      c->cost = (double)(m / rows * rows + m % rows * 2) * column_ns *
                (1 + (complex ? 0.6 / (double)rows + (per_row < 2 ? 0.3 : 0) : 0.3 / (double)per_row));
    }
  }
  *out_n += tc_matmul_tiles(s, max - *out_n, out + *out_n);
  *out_n += tc_matmul_mma(s, max - *out_n, out + *out_n);
  *out_n += tc_matmul_shares(s, max - *out_n, out + *out_n);
  for (int32_t i = 1; i < *out_n; i++) { // best first
    tc_stage_config c = out[i];
    int32_t k = i;
    for (; k > 0 && out[k - 1].cost > c.cost; k--) out[k] = out[k - 1];
    out[k] = c;
  }
  return TC_STATUS_OK;
}

typedef struct mm {
  tc_stage *s;
  tc_kb *b;
  const tc_stage_config *c;
  int32_t rank;
  tc_dtype acc;
  bool pairs, packs;
  tc_matmul_own own;
  tc_kval batch[TC_MAX_RANK];
  tc_kval first_row; // of the tile
  // Of K in parts: the sums so far of the tile's rows, and the part's ends and length.
  tc_matmul_own sums;
  tc_kval from, to;
  int64_t part;
  bool in_parts, last;
} mm;

static tc_kval i64(mm *t, int64_t v) { return tc_kb_int(t->b, TC_I64, v); }
static tc_kval add(mm *t, tc_kval x, tc_kval y) { return tc_kb_op2(t->b, TC_K_ADD, x, y); }

static tc_kval zero(mm *t) { return tc_template_zero(t->b, t->acc); }

// Elements 2k and 2k+1 of a row of a: the bits of both, the first one low.
static tc_kval load_pair(mm *t, tc_kval *index, tc_kval k) {
  tc_kb *b = t->b;
  tc_kval half[2];
  index[t->rank - 1] = tc_kb_op2(b, TC_K_MUL, k, i64(t, 2));
  tc_stage_load_n(t->s, 0, index, 2, -1, half);
  return tc_matmul_pair(b, half);
}

// While a panel, or a part of it, is multiplied, the next one is fetched into the second-level cache, where the first
// rows would wait for it: at each step of K as many elements as let the tile's micro-tiles share it; 0 where that is
// more than a line, where all panels are near, and where blocks make whole rows, behind which a row's phases follow.
static int64_t fetched_per_step(const mm *t) {
  const tc_stage *s = t->s;
  int64_t bytes = element_bytes(tc_stage_operand_dtype(s, 1)), panel = t->c->params[TC_MATMUL_PANEL], all = bytes;
  for (int32_t i = 0; i <= t->rank; i++) all *= is_packed(s) ? tc_stage_operand_hint(s, 1, i) : 0;
  int64_t tiles = t->c->tile[t->rank - 2] / t->c->params[TC_MATMUL_ROWS], each = tiles ? ceil_div(panel, tiles) : panel;
  bool near = all <= tc_stage_device(s)->l2_bytes, whole = t->c->tile[t->rank - 1] == 0;
  return near || whole || each * bytes > LINE ? 0 : each;
}

// `steps`: of K from k on.
static void fetch_next(mm *t, tc_kval row0, tc_kval panel, tc_kval k, int64_t steps, tc_kval from, tc_kval to) {
  tc_kb *b = t->b;
  int32_t r = t->rank;
  int64_t each = fetched_per_step(t), rows = t->c->params[TC_MATMUL_ROWS];
  int64_t line = LINE / element_bytes(tc_stage_operand_dtype(t->s, 1));
  if (!each) return;
  bool more = t->in_parts && !t->last;
  tc_kval index[TC_MAX_RANK + 1];
  tc_kval done =
      tc_kb_op2(b, TC_K_MUL, tc_kb_op2(b, TC_K_DIV, tc_kb_op2(b, TC_K_SUB, row0, t->first_row), i64(t, rows)),
                tc_kb_op2(b, TC_K_SUB, to, from));
  tc_kval first = tc_kb_op2(b, TC_K_MUL, add(t, done, tc_kb_op2(b, TC_K_SUB, k, from)), i64(t, each));
  for (int32_t i = 0; i < r - 2; i++) index[i] = t->batch[i];
  index[r - 2] = more ? panel : add(t, panel, i64(t, 1));
  index[r - 1] = more ? to : i64(t, 0);
  for (int64_t i = 0; i < each * steps; i += line) {
    index[r] = add(t, first, i64(t, i));
    tc_stage_fetch(t->s, 1, index);
  }
}

typedef struct micro_tile {
  tc_kval row0, panel, inside, column, mask; // inside: number of the lane's column in the panel
  int64_t rows;
} micro_tile;

// One step of K.
static void step(mm *t, const micro_tile *m, tc_kval k, tc_kval *sums) {
  tc_kb *b = t->b;
  int32_t r = t->rank;
  bool packed = is_packed(t->s), turned = tc_matmul_turned(t->s);
  tc_kval vb, ia[TC_MAX_RANK + 1], ib[TC_MAX_RANK + 1];
  for (int32_t i = 0; i < r - 2; i++) ia[i] = ib[i] = t->batch[i];
  ib[r - 2] = packed ? m->panel : turned ? m->column : k;
  ib[r - 1] = packed || turned ? k : m->column;
  if (packed) ib[r] = m->inside;
  if (t->packs) vb = tc_matmul_own_load(t->s, &t->own, t->in_parts ? tc_kb_op2(b, TC_K_SUB, k, t->from) : k, m->inside);
  else vb = tc_stage_load(t->s, 1, ib, packed ? -1 : m->mask);
  if (!t->pairs) vb = tc_kb_cast(b, t->acc, vb);
  for (int64_t i = 0; i < m->rows; i++) {
    ia[r - 2] = add(t, m->row0, i64(t, i));
    if (t->pairs) {
      sums[i] = tc_kb_op3(b, TC_K_DOT2, load_pair(t, ia, k), vb, sums[i]);
      continue;
    }
    ia[r - 1] = k;
    sums[i] = tc_kb_op3(b, TC_K_FMA, tc_kb_cast(b, t->acc, tc_stage_load(t->s, 0, ia, -1)), vb, sums[i]);
  }
}

// Steps of K that are written out. A small product is done sooner than more code for it is made.
static int64_t steps_of(const tc_stage *s, int64_t rows) {
  enum { LEAST = 1 << 22 }; // multiply-adds
  int64_t work = depth_of(s);
  for (int32_t i = 0; i < tc_stage_rank(s) && work > 0 && work < LEAST; i++) work *= tc_stage_out_hint(s, i);
  return tc_stage_device(s)->simd_bytes && rows > 1 && work >= LEAST ? STEPS : 1;
}

// The tile's sums over K, and what is fetched meanwhile.
static void over_depth(mm *t, const micro_tile *m, bool fetches, tc_kval *sums) {
  tc_kb *b = t->b;
  int32_t r = t->rank, n = (int32_t)m->rows;
  bool packed_pairs = t->pairs && is_packed(t->s);
  int64_t known = t->in_parts ? t->part : depth_known(t->s) / (t->pairs ? 2 : 1);
  tc_kval depth = tc_stage_operand_extent(t->s, packed_pairs ? 1 : 0, r - 1), carried[MOST_MICRO];
  if (t->pairs && !packed_pairs) depth = tc_kb_op2(b, TC_K_DIV, depth, i64(t, 2));
  tc_kval from = t->in_parts ? t->from : i64(t, 0), to = t->in_parts ? t->to : depth, mid = to;
  int64_t steps = steps_of(t->s, m->rows);
  bool whole = known > 0 && known % steps == 0;
  if (!whole) mid = tc_kb_op2(b, TC_K_SUB, to, tc_kb_op2(b, TC_K_REM, tc_kb_op2(b, TC_K_SUB, to, from), i64(t, steps)));
  for (int32_t rest = 0; rest <= (steps > 1 && !whole); rest++) {
    int64_t count = rest ? 1 : steps;
    tc_kval k = tc_kb_for(b, rest ? mid : from, rest ? to : mid, count, 0, n, sums, carried);
    if (fetches) fetch_next(t, m->row0, m->panel, k, count, from, to);
    for (int64_t i = 0; i < count; i++) step(t, m, add(t, k, i64(t, i)), carried);
    tc_kb_end_for(b, n, carried, sums);
  }
}

// One micro-tile: rows row0 … row0+rows-1, columns from lane column `col` of panel `panel`.
static void micro(mm *t, tc_kval row0, int64_t rows, tc_kval panel, int64_t col) {
  tc_kb *b = t->b;
  int32_t r = t->rank;
  tc_kval acc[MOST_MICRO], out[TC_MAX_RANK], lane = tc_kb_cast(b, TC_I64, tc_kb_lane(b));
  micro_tile m = {.row0 = row0, .panel = panel, .inside = add(t, lane, i64(t, col)), .mask = -1, .rows = rows};
  for (int32_t i = 0; i < r - 2; i++) out[i] = t->batch[i];
  int64_t panel_width = t->c->params[TC_MATMUL_PANEL], known = tc_stage_out_size(t->s, r - 1);
  m.column = add(t, add(t, tc_kb_op2(b, TC_K_MUL, panel, i64(t, panel_width)), i64(t, col)), lane);
  if (known <= 0 || known % panel_width != 0) m.mask = tc_kb_op2(b, TC_K_LT, m.column, tc_stage_extent(t->s, r - 1));
  for (int64_t i = 0; i < rows; i++) acc[i] = zero(t);
  over_depth(t, &m, rows > 1 && col == 0, acc);
  for (int64_t i = 0; i < rows && t->in_parts; i++) {
    tc_kval row = add(t, tc_kb_op2(b, TC_K_SUB, row0, t->first_row), i64(t, i));
    acc[i] = add(t, acc[i], tc_matmul_own_load(t->s, &t->sums, row, m.inside));
    if (!t->last) tc_matmul_own_store(t->s, &t->sums, row, m.inside, acc[i], -1);
  }
  for (int64_t i = 0; i < rows && (!t->in_parts || t->last); i++) {
    out[r - 2] = add(t, row0, i64(t, i));
    out[r - 1] = m.column;
    tc_stage_store(t->s, out, tc_kb_cast(b, tc_stage_dtype(t->s), acc[i]), m.mask);
  }
}

// The rows of a tile in one panel, which stays in a cache meanwhile: whole micro-tiles, then single rows.
static void strips(mm *t, tc_kval row_lo, tc_kval row_hi, tc_kval panel) {
  tc_kb *b = t->b;
  int64_t rows = t->c->params[TC_MATMUL_ROWS];
  tc_kval left = tc_kb_op2(b, TC_K_REM, tc_kb_op2(b, TC_K_SUB, row_hi, row_lo), i64(t, rows));
  tc_kval whole_hi = tc_kb_op2(b, TC_K_SUB, row_hi, left);
  bool exact = tc_stage_exact(t->s, t->rank - 2) && t->c->tile[t->rank - 2] % rows == 0;
  t->first_row = row_lo;
  for (int32_t single = 0; single <= (rows > 1 && !exact); single++) {
    tc_kval row =
        tc_kb_for(b, single ? whole_hi : row_lo, single ? row_hi : whole_hi, single ? 1 : rows, 0, 0, NULL, NULL);
    for (int64_t col = 0; col < t->c->params[TC_MATMUL_PANEL]; col += t->c->lanes)
      micro(t, row, single ? 1 : rows, panel, col);
    tc_kb_end_for(b, 0, NULL, NULL);
  }
}

// The rows of a panel from element `from` of K on, packed here where it is not.
static void pack_and_multiply(mm *t, tc_kval row_lo, tc_kval row_hi, tc_kval panel, tc_kval from, int64_t depth) {
  tc_kb *b = t->b;
  if (t->packs || t->in_parts) tc_kb_barrier(b);
  if (t->packs) {
    tc_kb_lanes(b);
    tc_matmul_own_pack(t->s, t->c, &t->own, t->batch, panel, from, depth);
    tc_kb_end_lanes(b, 0, NULL, NULL);
    tc_kb_barrier(b);
  }
  int64_t each = t->pairs ? 2 : 1;
  t->part = depth / each, t->from = tc_kb_op2(b, TC_K_DIV, from, i64(t, each)),
  t->to = add(t, t->from, i64(t, t->part));
  tc_kb_lanes(b);
  strips(t, row_lo, row_hi, panel);
  tc_kb_end_lanes(b, 0, NULL, NULL);
}

// K in parts, of which that of the panel stays in a cache while all rows of the tile read it.
static void parts(mm *t, tc_kval row_lo, tc_kval row_hi, tc_kval panel) {
  tc_kb *b = t->b;
  int64_t depth = depth_known(t->s), part = t->c->params[TC_MATMUL_PART], whole = (depth - 1) / part * part;
  t->sums = tc_matmul_own_sums(t->s, t->c->tile[t->rank - 2]);
  if (t->packs) t->own = tc_matmul_own_make(t->s, part);
  t->in_parts = true;
  tc_kb_lanes(b);
  tc_kval lane = tc_kb_cast(b, TC_I64, tc_kb_lane(b)), count = tc_kb_op2(b, TC_K_SUB, row_hi, row_lo);
  tc_kval row = tc_kb_for(b, i64(t, 0), count, 1, 0, 0, NULL, NULL);
  for (int64_t col = 0; col < t->c->params[TC_MATMUL_PANEL]; col += t->c->lanes)
    tc_matmul_own_store(t->s, &t->sums, row, add(t, lane, i64(t, col)), zero(t), -1);
  tc_kb_end_for(b, 0, NULL, NULL);
  tc_kb_end_lanes(b, 0, NULL, NULL);
  tc_kval from = tc_kb_for(b, i64(t, 0), i64(t, whole), part, 0, 0, NULL, NULL);
  pack_and_multiply(t, row_lo, row_hi, panel, from, part);
  tc_kb_end_for(b, 0, NULL, NULL);
  t->last = true;
  pack_and_multiply(t, row_lo, row_hi, panel, i64(t, whole), depth - whole);
}

static int32_t emit(tc_stage *s, const tc_stage_config *c) {
  if (c->params[TC_MATMUL_PLANES]) return tc_matmul_emit_mma(s, c);
  if (c->params[TC_MATMUL_GROUPS]) return tc_matmul_emit_shares(s, c);
  if (c->params[TC_MATMUL_DEPTH]) return tc_matmul_emit_tiles(s, c);
  mm t = {
      .s = s, .b = tc_stage_builder(s), .c = c, .rank = tc_stage_rank(s), .acc = tc_template_sums(tc_stage_dtype(s))};
  t.pairs = tc_matmul_in_pairs(s);
  tc_kb *b = t.b;
  int32_t r = t.rank;
  for (int32_t i = 0; i < r - 2; i++) t.batch[i] = tc_stage_origin(s, i);
  tc_kval row_lo = tc_stage_origin(s, r - 2), m = tc_stage_extent(s, r - 2);
  tc_kval row_hi = add(&t, row_lo, i64(&t, c->tile[r - 2]));
  if (!tc_stage_exact(s, r - 2)) row_hi = tc_kb_op2(b, TC_K_MIN, row_hi, m);
  int64_t panel_width = c->params[TC_MATMUL_PANEL];
  tc_kval first = i64(&t, 0), last;
  if (c->tile[r - 1] == 0) {
    last = is_packed(s) ? tc_stage_operand_extent(s, 1, r - 2)
                        : tc_kb_op2(b, TC_K_DIV, add(&t, tc_stage_extent(s, r - 1), i64(&t, panel_width - 1)),
                                    i64(&t, panel_width));
  } else {
    first = tc_kb_op2(b, TC_K_DIV, tc_stage_origin(s, r - 1), i64(&t, panel_width));
    last = add(&t, first, i64(&t, 1));
  }
  t.packs = tc_matmul_packs(s);
  if (c->params[TC_MATMUL_PART]) {
    parts(&t, row_lo, row_hi, first);
  } else if (t.packs) {
    t.own = tc_matmul_own_make(s, depth_known(s));
    tc_kval panel = tc_kb_for(b, first, last, 1, 0, 0, NULL, NULL);
    pack_and_multiply(&t, row_lo, row_hi, panel, i64(&t, 0), depth_known(s));
    tc_kb_end_for(b, 0, NULL, NULL);
  } else {
    tc_kb_lanes(b);
    tc_kval panel = tc_kb_for(b, first, last, 1, 0, 0, NULL, NULL);
    strips(&t, row_lo, row_hi, panel);
    tc_kb_end_for(b, 0, NULL, NULL);
    tc_kb_end_lanes(b, 0, NULL, NULL);
  }
  return TC_STATUS_OK;
}

const tc_template_table tc_template_matmul = {
    .struct_size = sizeof(tc_template_table),
    .name = {"matmul", 6},
    .candidates = candidates,
    .emit = emit,
    .flops = "2 * out.numel * in0.last",
    .flags = TC_TEMPLATE_PLANAR(1),
};
