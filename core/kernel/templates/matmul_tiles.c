// Matrix products where lanes are threads: a block makes a tile of the result, a lane R × C of its elements in
// registers (Volkov and Demmel, "Benchmarking GPUs to tune dense linear algebra", 2008; Nath, Tomov and Dongarra, "An
// improved MAGMA GEMM for Fermi GPUs", 2010).
//
// The block walks along K in steps of DEPTH. Of each step all lanes bring a slab of a (transposed) and a slab of b into
// shared memory, in runs of four elements; the slabs of the next step are on their way from memory into registers while
// the lanes multiply. A lane's rows and columns come in groups of four that lie four times the number of lanes apart,
// so that neighbouring lanes read neighbouring runs of shared memory; of 32 lanes that run together four lie beside
// each other along rows and eight along columns, which need the fewest of them.
//
// In the end each lane's rows go through shared memory one by one, so that what follows the product is written once, in
// a loop, for runs of four columns that neighbouring lanes store side by side.
//
// Operands as in matmul.c. Rows and steps beyond the end read as zeros; whatever is stored is masked.
#include <stdbool.h>

#include "core/kernel/templates/matmul.h"

enum { RUN = 4, MOST = 64, TOGETHER = 32, TOGETHER_COLUMNS = 8 };

// A tile of rows × columns, rows of a lane × columns of a lane, and how long a multiply-add takes beside one of the
// micro-tiles of matmul.c.
typedef struct shape {
  int32_t rows, columns, lane_rows, lane_columns, depth;
  double time;
} shape;
static const shape shapes[] = {
    {128, 128, 8, 8, 16, 0.15}, {64, 64, 8, 8, 16, 0.2}, {64, 64, 4, 4, 16, 0.25}, {32, 32, 4, 4, 16, 0.35}};
enum { PAD = 4 }; // behind each row of a's slab: its columns begin in different banks

static int32_t bytes_of(tc_dtype d) { return d == TC_F64 || d == TC_I64 || d == TC_U64 ? 8 : 4; }

int32_t tc_matmul_tiles(const tc_stage *s, int32_t max, tc_stage_config *out) {
  const tc_device_props *dev = tc_stage_device(s);
  int32_t rank = tc_stage_rank(s), n = 0, bytes = bytes_of(tc_stage_dtype(s));
  tc_dtype d = tc_stage_dtype(s);
  bool small = d == TC_BOOL || d == TC_U8 || d == TC_I8 || d == TC_I16 || d == TC_U16;
  // A core that runs lanes one after the other gains nothing, and its compilers take seconds for such a kernel.
  if (dev->simd_bytes || dev->subgroup < 2 || d >= TC_C32 || small ||
      tc_stage_operand_dtype(s, 1) != tc_stage_operand_dtype(s, 0))
    return 0;
  double m = (double)tc_stage_out_hint(s, rank - 2), columns = (double)tc_stage_out_hint(s, rank - 1), batch = 1;
  for (int32_t i = 0; i < rank - 2; i++) batch *= (double)tc_stage_out_hint(s, i);
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes && n < max; i++) {
    const shape *t = &shapes[i];
    int32_t lanes = t->rows / t->lane_rows * (t->columns / t->lane_columns);
    int64_t shared = (int64_t)(t->rows + PAD + t->columns) * t->depth * bytes;
    if (tc_template_lanes(dev, lanes) < lanes || (dev->shared_bytes && shared > dev->shared_bytes)) continue;
    if (bytes == 8 && t->lane_rows * t->lane_columns > 16) continue; // registers
    double down = __builtin_ceil(m / t->rows), across = __builtin_ceil(columns / t->columns),
           blocks = batch * down * across, cores = dev->cores > 1 ? dev->cores : 1;
    double idle = blocks > 0 ? __builtin_ceil(blocks / cores) * cores / blocks : 1; // cores that wait for the last ones
    tc_stage_config *c = &out[n++];
    *c = (tc_stage_config){.lanes = lanes, .shared_bytes = shared};
    for (int32_t k = 0; k < rank - 2; k++) c->tile[k] = 1;
    c->tile[rank - 2] = t->rows;
    c->tile[rank - 1] = t->columns;
    c->params[TC_MATMUL_PANEL] = tc_stage_operand_size(s, 1, rank);
    c->params[TC_MATMUL_LANE_ROWS] = t->lane_rows;
    c->params[TC_MATMUL_LANE_COLUMNS] = t->lane_columns;
    c->params[TC_MATMUL_DEPTH] = t->depth;
    c->cost = tc_matmul_element_ns(s) * blocks * t->rows * t->columns * t->time * idle;
  }
  return n;
}

// ---- What is emitted ----
typedef struct tiles {
  tc_stage *s;
  tc_kb *b;
  int32_t rank, lanes;
  tc_dtype acc;
  int32_t rows, columns, lane_rows, lane_columns, depth; // of the tile, of a lane, of a step
  int32_t row_lanes, column_lanes;                       // lanes along the tile's rows and columns
  bool runs_of_a, runs_of_out;                           // four elements are in the matrix together, or not
  tc_kmem slab_a, slab_b;                                // shared: [depth][rows + PAD], [depth][columns]
  tc_kmem sums, next_a, next_b;                          // registers: results; the next step's elements
  tc_kval row0, column0;
  tc_kval row_end, column_end, k_end, panels; // sizes of the matrices
  tc_kval batch[TC_MAX_RANK];
} tiles;

static tc_kval i32(tiles *t, int64_t v) { return tc_kb_int(t->b, TC_I32, v); }
static tc_kval i64(tiles *t, int64_t v) { return tc_kb_int(t->b, TC_I64, v); }
static tc_kval wide(tiles *t, tc_kval v) { return tc_kb_cast(t->b, TC_I64, v); }
static tc_kval op(tiles *t, int32_t o, tc_kval x, tc_kval y) { return tc_kb_op2(t->b, o, x, y); }
static tc_kval add(tiles *t, tc_kval x, tc_kval y) { return op(t, TC_K_ADD, x, y); }
static tc_kval times(tiles *t, tc_kval x, int64_t y) { return op(t, TC_K_MUL, x, i32(t, y)); }
static tc_kval over(tiles *t, tc_kval x, int64_t y) { return op(t, TC_K_DIV, x, i32(t, y)); }
static tc_kval rest(tiles *t, tc_kval x, int64_t y) { return op(t, TC_K_REM, x, i32(t, y)); }
static tc_kval both(tiles *t, tc_kval x, tc_kval y) { return x < 0 ? y : y < 0 ? x : op(t, TC_K_AND, x, y); }
static tc_kval zero(tiles *t) { return t->acc >= TC_F16 ? tc_kb_real(t->b, t->acc, 0) : tc_kb_int(t->b, t->acc, 0); }

// The lane's place among rows and columns.
static void place(tiles *t, tc_kval *out_row, tc_kval *out_column) {
  tc_kval lane = tc_kb_lane(t->b), group = over(t, lane, TOGETHER), own = rest(t, lane, TOGETHER);
  int32_t across = t->column_lanes / TOGETHER_COLUMNS;
  *out_row = add(t, times(t, over(t, group, across), TOGETHER / TOGETHER_COLUMNS), over(t, own, TOGETHER_COLUMNS));
  *out_column = add(t, times(t, rest(t, group, across), TOGETHER_COLUMNS), rest(t, own, TOGETHER_COLUMNS));
}

// Four elements of an operand along its last dimension, of which those with `mask` and below `end` count.
static void load_run(tiles *t, int32_t operand, tc_kval *index, int32_t last, bool together, tc_kval mask,
                     tc_kval *out) {
  tc_kval first = index[last];
  if (together) tc_stage_load_n(t->s, operand, index, RUN, mask, out);
  for (int32_t i = 0; i < RUN && !together; i++) {
    index[last] = add(t, first, i64(t, i));
    out[i] = tc_stage_load(t->s, operand, index, both(t, mask, op(t, TC_K_LT, index[last], t->k_end)));
  }
  index[last] = first;
  for (int32_t i = 0; i < RUN; i++) out[i] = tc_kb_cast(t->b, t->acc, out[i]);
}

// Runs of a slab that a lane brings: run number v of the lane lies in line `out_line`, from element `out_at` on.
static int32_t runs_of(const tiles *t, int32_t line) { return line * t->depth / (RUN * t->lanes); }
static void run_at(tiles *t, int32_t v, int32_t per_line, tc_kval *out_line, tc_kval *out_at) {
  tc_kval number = add(t, tc_kb_lane(t->b), i32(t, (int64_t)v * t->lanes));
  *out_line = over(t, number, per_line);
  *out_at = times(t, op(t, TC_K_SUB, number, times(t, *out_line, per_line)), RUN);
}

// The slabs from step k0 on, into registers.
static void fetch(tiles *t, tc_kval k0) {
  tc_kval index[TC_MAX_RANK + 1], v[RUN], line, at;
  int32_t r = t->rank;
  int64_t panel = tc_stage_operand_size(t->s, 1, r);
  for (int32_t i = 0; i < r - 2; i++) index[i] = t->batch[i];
  for (int32_t i = 0; i < runs_of(t, t->rows); i++) {
    run_at(t, i, t->depth / RUN, &line, &at);
    index[r - 2] = add(t, t->row0, wide(t, line));
    index[r - 1] = add(t, k0, wide(t, at));
    tc_kval mask = op(t, TC_K_LT, index[r - 1], t->k_end);
    if (!tc_stage_exact(t->s, r - 2)) mask = both(t, mask, op(t, TC_K_LT, index[r - 2], t->row_end));
    load_run(t, 0, index, r - 1, t->runs_of_a, mask, v);
    tc_kb_store(t->b, t->next_a, i32(t, i * RUN), RUN, v, -1);
  }
  for (int32_t i = 0; i < runs_of(t, t->columns); i++) {
    run_at(t, i, t->columns / RUN, &line, &at);
    tc_kval column = add(t, t->column0, wide(t, at));
    index[r - 2] = op(t, TC_K_DIV, column, i64(t, panel));
    index[r - 1] = add(t, k0, wide(t, line));
    index[r] = op(t, TC_K_SUB, column, op(t, TC_K_MUL, index[r - 2], i64(t, panel)));
    tc_kval mask = op(t, TC_K_LT, index[r - 1], t->k_end);
    if (t->columns > panel) mask = both(t, mask, op(t, TC_K_LT, index[r - 2], t->panels));
    load_run(t, 1, index, r, true, mask, v);
    tc_kb_store(t->b, t->next_b, i32(t, i * RUN), RUN, v, -1);
  }
}

// What was fetched, into shared memory: a's runs are columns there.
static void put_down(tiles *t) {
  tc_kval v[RUN], line, at;
  for (int32_t i = 0; i < runs_of(t, t->rows); i++) {
    run_at(t, i, t->depth / RUN, &line, &at);
    tc_kb_load(t->b, t->next_a, i32(t, i * RUN), RUN, -1, NULL, v);
    for (int32_t e = 0; e < RUN; e++) {
      tc_kval to = add(t, times(t, add(t, at, i32(t, e)), t->rows + PAD), line);
      tc_kb_store(t->b, t->slab_a, to, 1, &v[e], -1);
    }
  }
  for (int32_t i = 0; i < runs_of(t, t->columns); i++) {
    run_at(t, i, t->columns / RUN, &line, &at);
    tc_kb_load(t->b, t->next_b, i32(t, i * RUN), RUN, -1, NULL, v);
    tc_kb_store(t->b, t->slab_b, add(t, times(t, line, t->columns), at), RUN, v, -1);
  }
}

// The sums take in a step. Compilers unroll this loop twice; all of it would take so many registers that a core has
// room for half as many blocks.
static void multiply(tiles *t) {
  tc_kb *b = t->b;
  tc_kval sums[MOST], carried[MOST], next[MOST], x[16], y[16], row, column;
  int32_t n = t->lane_rows * t->lane_columns;
  place(t, &row, &column);
  row = times(t, row, RUN), column = times(t, column, RUN);
  for (int32_t i = 0; i < n; i++) sums[i] = tc_kb_load1(b, t->sums, i32(t, i), -1, -1);
  tc_kval k = tc_kb_for(b, i32(t, 0), i32(t, t->depth), 1, 0, n, sums, carried);
  for (int32_t g = 0; g < t->lane_rows; g += RUN) {
    tc_kval at = add(t, add(t, times(t, k, t->rows + PAD), row), i32(t, (int64_t)g * t->row_lanes));
    tc_kb_load(b, t->slab_a, at, RUN, -1, NULL, x + g);
  }
  for (int32_t g = 0; g < t->lane_columns; g += RUN) {
    tc_kval at = add(t, add(t, times(t, k, t->columns), column), i32(t, (int64_t)g * t->column_lanes));
    tc_kb_load(b, t->slab_b, at, RUN, -1, NULL, y + g);
  }
  for (int32_t i = 0; i < n; i++)
    next[i] = tc_kb_op3(b, TC_K_FMA, x[i / t->lane_columns], y[i % t->lane_columns], carried[i]);
  tc_kb_end_for(b, n, next, sums);
  for (int32_t i = 0; i < n; i++) tc_kb_store(b, t->sums, i32(t, i), 1, &sums[i], -1);
}

// Row number i of every lane into shared memory: lane after lane, the whole width of the tile.
static void lay_out(tiles *t, int32_t i) {
  tc_kval v[RUN], row, column;
  place(t, &row, &column);
  for (int32_t g = 0; g < t->lane_columns; g += RUN) {
    tc_kb_load(t->b, t->sums, i32(t, (int64_t)i * t->lane_columns + g), RUN, -1, NULL, v);
    tc_kval to = add(t, add(t, times(t, row, t->columns), times(t, column, RUN)), i32(t, (int64_t)g * t->column_lanes));
    tc_kb_store(t->b, t->slab_b, to, RUN, v, -1);
  }
}

// What follows the product, for the rows that were laid out: rows number i of all lanes.
static void finish(tiles *t, tc_kval i) {
  tc_kb *b = t->b;
  tc_kval index[TC_MAX_RANK], v[RUN], line, at;
  int32_t r = t->rank;
  for (int32_t k = 0; k < r - 2; k++) index[k] = t->batch[k];
  // Row i of lane l is row (i / RUN) · RUN · lanes + l · RUN + i mod RUN of the tile.
  tc_kval group = times(t, over(t, i, RUN), (int64_t)RUN * t->row_lanes), inside = rest(t, i, RUN);
  for (int32_t n = 0; n < t->row_lanes * t->columns / (RUN * t->lanes); n++) {
    run_at(t, n, t->columns / RUN, &line, &at);
    tc_kb_load(b, t->slab_b, add(t, times(t, line, t->columns), at), RUN, -1, NULL, v);
    for (int32_t e = 0; e < RUN; e++) v[e] = tc_kb_cast(b, tc_stage_dtype(t->s), v[e]);
    index[r - 2] = add(t, t->row0, wide(t, add(t, add(t, group, times(t, line, RUN)), inside)));
    tc_kval first = add(t, t->column0, wide(t, at)), mask = -1;
    if (!tc_stage_exact(t->s, r - 2)) mask = op(t, TC_K_LT, index[r - 2], t->row_end);
    bool exact = tc_stage_exact(t->s, r - 1);
    for (int32_t e = 0; e < RUN; e += t->runs_of_out ? RUN : 1) {
      index[r - 1] = add(t, first, i64(t, e));
      tc_kval ok = exact ? mask : both(t, mask, op(t, TC_K_LT, index[r - 1], t->column_end));
      tc_stage_store_n(t->s, index, t->runs_of_out ? RUN : 1, v + e, ok);
    }
  }
}

static bool divides_by_run(int64_t size) { return size > 0 && size % RUN == 0; }

int32_t tc_matmul_emit_tiles(tc_stage *s, const tc_stage_config *c) {
  int32_t r = tc_stage_rank(s);
  tiles t = {.s = s, .b = tc_stage_builder(s), .rank = r, .lanes = c->lanes, .acc = tc_stage_dtype(s)};
  tc_kb *b = t.b;
  if (t.acc == TC_F16 || t.acc == TC_BF16) t.acc = TC_F32;
  t.rows = (int32_t)c->tile[r - 2], t.columns = (int32_t)c->tile[r - 1];
  t.lane_rows = (int32_t)c->params[TC_MATMUL_LANE_ROWS], t.lane_columns = (int32_t)c->params[TC_MATMUL_LANE_COLUMNS];
  t.depth = (int32_t)c->params[TC_MATMUL_DEPTH];
  t.row_lanes = t.rows / t.lane_rows, t.column_lanes = t.columns / t.lane_columns;
  t.runs_of_a = divides_by_run(tc_stage_operand_size(s, 0, r - 1));
  t.runs_of_out = divides_by_run(tc_stage_out_size(s, r - 1));
  t.slab_a = tc_kb_shared(b, (tc_sv){"a", 1}, t.acc, (int64_t)t.depth * (t.rows + PAD));
  t.slab_b = tc_kb_shared(b, (tc_sv){"b", 1}, t.acc, (int64_t)t.depth * t.columns);
  t.sums = tc_kb_lane_array(b, (tc_sv){"sums", 4}, t.acc, (int64_t)t.lane_rows * t.lane_columns);
  t.next_a = tc_kb_lane_array(b, (tc_sv){"next_a", 6}, t.acc, (int64_t)runs_of(&t, t.rows) * RUN);
  t.next_b = tc_kb_lane_array(b, (tc_sv){"next_b", 6}, t.acc, (int64_t)runs_of(&t, t.columns) * RUN);
  for (int32_t i = 0; i < r - 2; i++) t.batch[i] = tc_stage_origin(s, i);
  t.row0 = tc_stage_origin(s, r - 2), t.column0 = tc_stage_origin(s, r - 1);
  t.row_end = tc_stage_extent(s, r - 2), t.column_end = tc_stage_extent(s, r - 1);
  t.k_end = tc_stage_operand_extent(s, 0, r - 1), t.panels = tc_stage_operand_extent(s, 1, r - 2);
  tc_kval nothing = zero(&t);
  tc_kb_lanes(b);
  for (int32_t i = 0; i < t.lane_rows * t.lane_columns; i++) tc_kb_store(b, t.sums, i32(&t, i), 1, &nothing, -1);
  fetch(&t, i64(&t, 0));
  tc_kb_end_lanes(b, 0, NULL, NULL);
  tc_kval k0 = tc_kb_for(b, i64(&t, 0), t.k_end, t.depth, 0, 0, NULL, NULL);
  tc_kval more = add(&t, k0, i64(&t, t.depth));
  tc_kb_barrier(b); // everybody has read the step before
  tc_kb_lanes(b);
  put_down(&t);
  tc_kb_end_lanes(b, 0, NULL, NULL);
  tc_kb_barrier(b);
  tc_kb_lanes(b);
  tc_kb_if(b, op(&t, TC_K_LT, more, t.k_end));
  fetch(&t, more);
  tc_kb_end_if(b, 0, NULL, NULL);
  multiply(&t);
  tc_kb_end_lanes(b, 0, NULL, NULL);
  tc_kb_end_for(b, 0, NULL, NULL);
  // Registers have no addresses: which row it is must be a constant where they are read.
  tc_kval i = tc_kb_for(b, i32(&t, 0), i32(&t, t.lane_rows), 1, 0, 0, NULL, NULL);
  tc_kb_barrier(b);
  tc_kb_lanes(b);
  for (int32_t row = 0; row < t.lane_rows; row++) {
    tc_kb_if(b, op(&t, TC_K_EQ, i, i32(&t, row)));
    lay_out(&t, row);
    tc_kb_end_if(b, 0, NULL, NULL);
  }
  tc_kb_end_lanes(b, 0, NULL, NULL);
  tc_kb_barrier(b);
  tc_kb_lanes(b);
  finish(&t, i);
  tc_kb_end_lanes(b, 0, NULL, NULL);
  tc_kb_end_for(b, 0, NULL, NULL);
  return TC_STATUS_OK;
}
