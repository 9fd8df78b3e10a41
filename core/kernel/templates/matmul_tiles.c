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
// Operands as in matmul.c. A slab's runs lie along K, or along rows or columns, as the operand does in memory; those
// along K are turned on their way into shared memory. Rows, columns and steps beyond the end read as zeros; whatever is
// stored is masked.
#include "core/kernel/templates/matmul_tiles.h"

enum { RUN = TC_TILES_RUN, MOST = 64, TOGETHER = 32, TOGETHER_COLUMNS = 8 };

// A tile of rows × columns, rows of a lane × columns of a lane, and how long a multiply-add takes beside one of the
// micro-tiles of matmul.c.
typedef struct shape {
  int32_t rows, columns, lane_rows, lane_columns, depth;
  double time;
} shape;
static const shape shapes[] = {{128, 128, 8, 8, 16, 0.15},
                               {128, 64, 8, 4, 16, 0.19},
                               {64, 64, 8, 8, 16, 0.2},
                               {64, 64, 4, 4, 16, 0.25},
                               {32, 32, 4, 4, 16, 0.35}};
enum { PAD = 4 }; // behind each row of a slab that is turned: its columns begin in different banks

int32_t tc_matmul_bytes(const tc_stage *s) {
  tc_dtype d = tc_stage_dtype(s);
  return d == TC_F64 || d == TC_I64 || d == TC_U64 || d == TC_C64 ? 8 : 4;
}

void tc_tiles_config(const tc_stage *s, int32_t rows, int32_t columns, int32_t together, double time,
                     tc_stage_config *c) {
  int32_t rank = tc_stage_rank(s), cores = tc_stage_device(s)->cores * together;
  double blocks = __builtin_ceil((double)tc_stage_out_hint(s, rank - 2) / rows) *
                  __builtin_ceil((double)tc_stage_out_hint(s, rank - 1) / columns);
  for (int32_t i = 0; i < rank - 2; i++) blocks *= (double)tc_stage_out_hint(s, i), c->tile[i] = 1;
  c->tile[rank - 2] = rows, c->tile[rank - 1] = columns;
  double even = cores > 1 ? cores : 1, idle = blocks > 0 ? __builtin_ceil(blocks / even) * even / blocks : 1;
  c->cost = tc_matmul_element_ns(s) * blocks * rows * columns * time * idle; // idle: cores that wait for the last ones
}

tc_dtype tc_matmul_sums(const tc_stage *s) {
  tc_dtype d = tc_stage_dtype(s);
  return d == TC_F16 || d == TC_BF16 ? TC_F32 : d;
}

bool tc_matmul_threads(const tc_stage *s) {
  const tc_device_props *dev = tc_stage_device(s);
  tc_dtype d = tc_stage_dtype(s);
  bool small = d == TC_BOOL || d == TC_U8 || d == TC_I8 || d == TC_I16 || d == TC_U16;
  // A core that runs lanes one after the other gains nothing, and its compilers take seconds for such a kernel.
  return !dev->simd_bytes && dev->subgroup >= 2 && (d < TC_C32 || d == TC_C64) && !small &&
         tc_stage_operand_rank(s, 1) <= tc_stage_rank(s);
}

int32_t tc_matmul_tiles(const tc_stage *s, int32_t max, tc_stage_config *out) {
  const tc_device_props *dev = tc_stage_device(s);
  int32_t n = 0, bytes = tc_matmul_bytes(s);
  if (!tc_matmul_threads(s)) return 0;
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes && n < max; i++) {
    const shape *t = &shapes[i];
    int32_t lanes = t->rows / t->lane_rows * (t->columns / t->lane_columns);
    int64_t shared = (int64_t)(t->rows + t->columns + 2 * PAD) * t->depth * bytes;
    if (tc_template_lanes(dev, lanes) < lanes || (dev->shared_bytes && shared > dev->shared_bytes)) continue;
    if (bytes == 8 && t->lane_rows * t->lane_columns > 16) continue; // registers
    tc_stage_config *c = &out[n++];
    *c = (tc_stage_config){.lanes = lanes, .shared_bytes = shared};
    tc_tiles_config(s, t->rows, t->columns, 1, t->time, c);
    c->params[TC_MATMUL_LANE_ROWS] = t->lane_rows;
    c->params[TC_MATMUL_LANE_COLUMNS] = t->lane_columns;
    c->params[TC_MATMUL_DEPTH] = t->depth;
  }
  return n;
}

// ---- What is emitted ----
typedef tc_tiles tiles;
typedef tc_tiles_slab slab;

static tc_kval i32(tiles *t, int64_t v) { return tc_tiles_i32(t, v); }
static tc_kval i64(tiles *t, int64_t v) { return tc_tiles_i64(t, v); }
static tc_kval wide(tiles *t, tc_kval v) { return tc_tiles_wide(t, v); }
static tc_kval op(tiles *t, int32_t o, tc_kval x, tc_kval y) { return tc_tiles_op(t, o, x, y); }
static tc_kval add(tiles *t, tc_kval x, tc_kval y) { return tc_tiles_add(t, x, y); }
static tc_kval times(tiles *t, tc_kval x, int64_t y) { return tc_tiles_times(t, x, y); }
static tc_kval over(tiles *t, tc_kval x, int64_t y) { return tc_tiles_over(t, x, y); }
static tc_kval rest(tiles *t, tc_kval x, int64_t y) { return tc_tiles_rest(t, x, y); }
static tc_kval zero(tiles *t) { return tc_template_zero(t->b, t->acc); }

// The lane's place among rows and columns.
static void place(tiles *t, tc_kval *out_row, tc_kval *out_column) {
  tc_kval lane = tc_kb_lane(t->b), group = over(t, lane, TOGETHER), own = rest(t, lane, TOGETHER);
  int32_t across = t->column_lanes / TOGETHER_COLUMNS;
  *out_row = add(t, times(t, over(t, group, across), TOGETHER / TOGETHER_COLUMNS), over(t, own, TOGETHER_COLUMNS));
  *out_column = add(t, times(t, rest(t, group, across), TOGETHER_COLUMNS), rest(t, own, TOGETHER_COLUMNS));
}

int32_t tc_tiles_runs(const tiles *t, const slab *x) { return x->lines * t->depth / (RUN * t->lanes); }
void tc_tiles_run_at(tiles *t, int32_t v, int32_t per_line, tc_kval *out_line, tc_kval *out_at) {
  tc_kval number = add(t, tc_kb_lane(t->b), i32(t, (int64_t)v * t->lanes));
  *out_line = over(t, number, per_line);
  *out_at = times(t, op(t, TC_K_SUB, number, times(t, *out_line, per_line)), RUN);
}
static void place_of_run(tiles *t, const slab *x, int32_t v, tc_kval *out_line, tc_kval *out_k) {
  if (x->along_k) tc_tiles_run_at(t, v, t->depth / RUN, out_line, out_k);
  else tc_tiles_run_at(t, v, x->lines / RUN, out_k, out_line);
}

void tc_tiles_load_run(tiles *t, const slab *x, tc_kval *index, int32_t last, tc_kval mask, tc_kval end, tc_kval *out) {
  tc_kval first = index[last];
  if (x->together) {
    tc_stage_load_n(t->s, x->operand, index, RUN, end < 0 ? mask : tc_tiles_both(t, mask, op(t, TC_K_LT, first, end)),
                    out);
  } else {
    for (int32_t i = 0; i < RUN; i++) {
      index[last] = add(t, first, i64(t, i));
      tc_kval inside = end < 0 ? mask : tc_tiles_both(t, mask, op(t, TC_K_LT, index[last], end));
      out[i] = tc_stage_load(t->s, x->operand, index, inside);
    }
  }
  index[last] = first;
  for (int32_t i = 0; i < RUN; i++) out[i] = tc_kb_cast(t->b, t->acc, out[i]);
}

// The slab from step k0 on, into registers.
static void fetch(tiles *t, const slab *x, tc_kval k0) {
  tc_kval index[TC_MAX_RANK], v[RUN], line, at;
  int32_t r = t->rank;
  for (int32_t i = 0; i < r - 2; i++) index[i] = t->batch[i];
  for (int32_t i = 0; i < tc_tiles_runs(t, x); i++) {
    place_of_run(t, x, i, &line, &at);
    line = add(t, x->first, wide(t, line));
    tc_kval k = add(t, k0, wide(t, at));
    if (x->along_k) {
      index[r - 2] = line, index[r - 1] = k;
      tc_tiles_load_run(t, x, index, r - 1, x->exact ? -1 : op(t, TC_K_LT, line, x->end), t->k_end, v);
    } else {
      index[r - 2] = k, index[r - 1] = line;
      tc_tiles_load_run(t, x, index, r - 1, t->k_end < 0 ? -1 : op(t, TC_K_LT, k, t->k_end), x->exact ? -1 : x->end, v);
    }
    tc_kb_store(t->b, x->next, i32(t, i * RUN), RUN, v, -1);
  }
}

// What was fetched, into shared memory.
static void put_down(tiles *t, const slab *x) {
  tc_kval v[RUN], line, at;
  for (int32_t i = 0; i < tc_tiles_runs(t, x); i++) {
    place_of_run(t, x, i, &line, &at);
    tc_kb_load(t->b, x->next, i32(t, i * RUN), RUN, -1, NULL, v);
    for (int32_t e = 0; e < RUN && x->along_k; e++)
      tc_kb_store(t->b, x->shared, add(t, times(t, add(t, at, i32(t, e)), x->pitch), line), 1, &v[e], -1);
    if (!x->along_k) tc_kb_store(t->b, x->shared, add(t, times(t, at, x->pitch), line), RUN, v, -1);
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
    tc_kval at = add(t, add(t, times(t, k, t->left.pitch), row), i32(t, (int64_t)g * t->row_lanes));
    tc_kb_load(b, t->left.shared, at, RUN, -1, NULL, x + g);
  }
  for (int32_t g = 0; g < t->lane_columns; g += RUN) {
    tc_kval at = add(t, add(t, times(t, k, t->right.pitch), column), i32(t, (int64_t)g * t->column_lanes));
    tc_kb_load(b, t->right.shared, at, RUN, -1, NULL, y + g);
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
    tc_kb_store(t->b, t->right.shared, to, RUN, v, -1);
  }
}

tc_kval tc_tiles_row_mask(tiles *t, tc_kval row) {
  return tc_stage_exact(t->s, t->rank - 2) ? -1 : op(t, TC_K_LT, row, t->row_end);
}

void tc_tiles_store_run(tiles *t, tc_kval *index, tc_kval mask, tc_kval *v) {
  int32_t last = t->rank - 1;
  tc_kval first = index[last];
  bool exact = tc_stage_exact(t->s, last);
  for (int32_t e = 0; e < RUN; e++) v[e] = tc_kb_cast(t->b, tc_stage_dtype(t->s), v[e]);
  for (int32_t e = 0; e < RUN; e += t->runs_of_out ? RUN : 1) {
    index[last] = add(t, first, i64(t, e));
    tc_kval ok = exact ? mask : tc_tiles_both(t, mask, op(t, TC_K_LT, index[last], t->column_end));
    tc_stage_store_n(t->s, index, t->runs_of_out ? RUN : 1, v + e, ok);
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
    tc_tiles_run_at(t, n, t->columns / RUN, &line, &at);
    tc_kb_load(b, t->right.shared, add(t, times(t, line, t->columns), at), RUN, -1, NULL, v);
    index[r - 2] = add(t, t->row0, wide(t, add(t, add(t, group, times(t, line, RUN)), inside)));
    index[r - 1] = add(t, t->column0, wide(t, at));
    tc_tiles_store_run(t, index, tc_tiles_row_mask(t, index[r - 2]), v);
  }
}

static bool divides_by_run(int64_t size) { return size > 0 && size % RUN == 0; }

static void open_slab(tiles *t, slab *x) {
  int32_t r = t->rank, dim = x->operand ? r - 1 : r - 2;
  x->together = divides_by_run(tc_stage_operand_size(t->s, x->operand, r - 1));
  x->exact = tc_stage_exact(t->s, dim);
  x->first = tc_stage_origin(t->s, dim), x->end = tc_stage_extent(t->s, dim);
}

void tc_tiles_open(tc_stage *s, const tc_stage_config *c, tiles *t) {
  int32_t r = tc_stage_rank(s);
  *t = (tiles){.s = s, .b = tc_stage_builder(s), .rank = r, .lanes = c->lanes, .acc = tc_stage_dtype(s)};
  if (t->acc == TC_F16 || t->acc == TC_BF16) t->acc = TC_F32;
  t->rows = (int32_t)c->tile[r - 2], t->columns = (int32_t)c->tile[r - 1];
  t->lane_rows = (int32_t)c->params[TC_MATMUL_LANE_ROWS], t->lane_columns = (int32_t)c->params[TC_MATMUL_LANE_COLUMNS];
  t->depth = (int32_t)c->params[TC_MATMUL_DEPTH];
  t->planes = (int32_t)c->params[TC_MATMUL_PLANES], t->stages = (int32_t)c->params[TC_MATMUL_STAGES];
  t->row_lanes = t->rows / t->lane_rows, t->column_lanes = t->columns / t->lane_columns;
  t->runs_of_out = divides_by_run(tc_stage_out_size(s, r - 1));
  t->left = (slab){.operand = 0, .lines = t->rows, .along_k = true};
  t->right = (slab){.operand = 1, .lines = t->columns, .along_k = tc_matmul_turned(s)};
  open_slab(t, &t->left);
  open_slab(t, &t->right);
  for (int32_t i = 0; i < r - 2; i++) t->batch[i] = tc_stage_origin(s, i);
  t->row0 = tc_stage_origin(s, r - 2), t->column0 = tc_stage_origin(s, r - 1);
  t->row_end = tc_stage_extent(s, r - 2), t->column_end = tc_stage_extent(s, r - 1);
  int64_t depth = tc_stage_operand_size(s, 0, r - 1);
  t->k_size = tc_stage_operand_extent(s, 0, r - 1);
  t->k_end = depth > 0 && depth % t->depth == 0 ? -1 : t->k_size;
}

void tc_tiles_clear_sums(tiles *t, int32_t n) {
  tc_kval nothing = zero(t);
  for (int32_t i = 0; i < n; i++) tc_kb_store(t->b, t->sums, i32(t, i), 1, &nothing, -1);
}

static void make_slab(tiles *t, tc_sv name, tc_sv next, slab *x) {
  x->pitch = x->lines + (x->along_k ? PAD : 0);
  x->shared = tc_kb_shared(t->b, name, t->acc, (int64_t)t->depth * x->pitch);
  x->next = tc_kb_lane_array(t->b, next, t->acc, (int64_t)tc_tiles_runs(t, x) * RUN);
}

int32_t tc_matmul_emit_tiles(tc_stage *s, const tc_stage_config *c) {
  tiles t;
  tc_tiles_open(s, c, &t);
  tc_kb *b = t.b;
  make_slab(&t, (tc_sv){"a", 1}, (tc_sv){"next_a", 6}, &t.left);
  make_slab(&t, (tc_sv){"b", 1}, (tc_sv){"next_b", 6}, &t.right);
  t.sums = tc_kb_lane_array(b, (tc_sv){"sums", 4}, t.acc, (int64_t)t.lane_rows * t.lane_columns);
  tc_kb_lanes(b);
  tc_tiles_clear_sums(&t, t.lane_rows * t.lane_columns);
  fetch(&t, &t.left, i64(&t, 0));
  fetch(&t, &t.right, i64(&t, 0));
  tc_kb_end_lanes(b, 0, NULL, NULL);
  tc_kval k0 = tc_kb_for(b, i64(&t, 0), t.k_size, t.depth, 0, 0, NULL, NULL);
  tc_kval more = add(&t, k0, i64(&t, t.depth));
  tc_kb_barrier(b); // everybody has read the step before
  tc_kb_lanes(b);
  put_down(&t, &t.left);
  put_down(&t, &t.right);
  tc_kb_end_lanes(b, 0, NULL, NULL);
  tc_kb_barrier(b);
  tc_kb_lanes(b);
  tc_kb_if(b, op(&t, TC_K_LT, more, t.k_size));
  fetch(&t, &t.left, more);
  fetch(&t, &t.right, more);
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
