// Products of small matrices: out[B, M, N] = Σₖ a[B, M, K] · b[B, K, N] with M, K, N known and at most 32, and many
// rows times one small matrix: out[M, N] = Σₖ a[M, K] · b[K, N]. Nothing is packed: matrices are so small that a copy
// of them would cost as much as the product. Sums go up in k, as in the large product (matmul.c).
//
// Three ways:
//   along    lanes are columns. A row of b is one vector load, elements of a are broadcast, and the sums of `rows` rows
//            stay in registers over all of k.
//   across   lanes are neighbouring matrices (or rows, where there is one matrix b). What lies together in memory is
//            loaded in runs along a row, which the code generator transposes in registers, and no lane is idle whatever
//            the sizes are.
//   shared   where lanes are threads: a block brings some matrices into shared memory, element by element, and each
//            lane then makes the elements of one column.
//
// Every way loads each element of a and b once, or a few times where the sums of a matrix do not fit in registers; of
// one matrix b, once per block.
//
// params: 0 the way, 1 rows, 2 columns whose sums stay in registers.
// attrs: 0  bit k: neighbouring matrices of operand k lie together in memory, bit 2 + k: neighbouring columns do not.
#include <stdbool.h>

#include "core/kernel/templates/templates.h"

#include "tc/plugin.h"

enum { WAY, ROWS, COLUMNS };
enum { ALONG, ACROSS, SHARED };
enum { MOST_ROWS = 14, MOST_TILE = 16, THREADS = 128 };

typedef struct product {
  tc_stage *s;
  tc_kb *b;
  const tc_stage_config *c;
  int32_t rank; // 2: one matrix b
  int64_t m, k, n;
  tc_dtype acc, part; // what sums are; their parts
  int32_t parts;
  tc_kval batch; // rank 3: the matrix; rank 2, across: the row
} product;

static tc_dtype part_type(tc_dtype d) { return d == TC_C64 ? TC_F32 : d == TC_C128 ? TC_F64 : d; }

// ---- choosing ----
static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

typedef struct shape {
  bool batched;
  int64_t m, k, n, count; // count: of matrices, or of rows
  int32_t parts, vector, vector_bytes, registers;
  int64_t apart; // attribute 0
} shape;

// Rows whose sums stay in registers: as even a split as there is.
static int64_t row_count(const shape *x) {
  int64_t most = (x->registers - 2 * x->parts) / x->parts;
  if (most > MOST_ROWS) most = MOST_ROWS;
  if (most < 1) most = 1;
  return ceil_div(x->m, ceil_div(x->m, most));
}

// Columns whose sums stay in registers where lanes are matrices.
static int64_t tile_columns(const shape *x) {
  int64_t most = (x->registers - 4 * x->parts) / (x->parts + 1);
  if (most > MOST_TILE / x->parts) most = MOST_TILE / x->parts;
  if (most < 1) most = 1;
  return ceil_div(x->n, ceil_div(x->n, most));
}

// Vector operations for a matrix (rank 2: for a row of a), a few cycles per nanosecond, as measured on AVX-512. A
// broadcast comes half with its multiply-add. Strided columns are gathers, and so are pairs where lanes are idle.
static double along_cost(const shape *x, int32_t lanes) {
  double groups = (double)ceil_div(x->n, lanes), m = (double)x->m, k = (double)x->k, gather = lanes;
  int64_t rows = row_count(x);
  bool idle = x->parts == 2 && x->n % lanes;
  double fma = x->parts * x->parts * m * k, a = 0.5 * x->parts * m * k,
         b = 2 * x->parts * k * (double)ceil_div(x->m, rows) * (idle || x->apart & 8 ? gather : 1),
         store = 2 * x->parts * m * (idle ? gather : 1);
  return (groups * (fma + a + b + store) + 10) / (x->batched ? 1 : (double)x->m);
}

// The lanes that cost least; the fewest of these.
static int32_t column_lanes(const tc_device_props *dev, const shape *x) {
  int32_t best = x->vector;
  for (int32_t l = best / 2; l >= 2; l /= 2) {
    if (along_cost(x, l) <= along_cost(x, best)) best = l;
  }
  return tc_template_lanes(dev, best);
}

// Sums of one row at a time: each multiply-add has its own load of b, from the first cache or from the next one.
static double across_cost(const shape *x, int64_t l1) {
  double m = x->batched ? (double)x->m : 1, k = (double)x->k, n = (double)x->n;
  bool near = !x->batched || x->k * x->n * x->vector_bytes * x->parts <= l1 / 2;
  double fma = x->parts * x->parts * m * k * n, turn = 15.0 * x->parts, straight = 2.0 * x->parts;
  double a = m * k * (x->apart & 1 ? straight : turn), b = !x->batched ? 0 : k * n * (x->apart & 2 ? straight : turn);
  return ((near ? 1.5 : 2) * fma + a + b + m * n * turn) / x->vector;
}

static tc_stage_config config(const shape *x, int32_t way, int32_t lanes, double ns) {
  tc_stage_config c = {.lanes = lanes, .cost = ns * (double)x->count};
  c.params[WAY] = way;
  c.params[ROWS] = way == ACROSS ? 1 : row_count(x);
  c.params[COLUMNS] = tile_columns(x);
  if (way == ACROSS) {
    c.tile[0] = lanes;
    c.row_lanes = !x->batched || x->m == 1;
  } else {
    c.tile[0] = x->batched ? 1 : 8 * c.params[ROWS];
  }
  return c;
}

// Lanes are threads: matrices enough to give each lane a few elements, as far as the shared memory goes.
static tc_stage_config shared_config(const shape *x, const tc_device_props *dev, int32_t part_bytes) {
  tc_stage_config c = {.lanes = tc_template_lanes(dev, THREADS),
                       .cost = 1e-3 * (double)(x->count * x->m * x->n * x->k)};
  int64_t rows = x->batched ? x->m : 1, each = rows * x->k + (x->batched ? x->k * x->n : 0),
          fixed = x->batched ? 0 : x->k * x->n, item = (int64_t)x->parts * part_bytes;
  int64_t room = (dev->shared_bytes ? dev->shared_bytes : 32 << 10) / 2 / item - fixed,
          wanted = ceil_div(4 * (int64_t)c.lanes, rows * x->n), count = room / each < wanted ? room / each : wanted;
  c.params[WAY] = SHARED;
  c.params[ROWS] = 1;
  c.tile[0] = count > 1 ? count : 1;
  c.shared_bytes = (fixed + c.tile[0] * each) * item;
  return c;
}

static int32_t candidates(const tc_stage *s, int32_t max, tc_stage_config *out, int32_t *out_n) {
  const tc_device_props *dev = tc_stage_device(s);
  int32_t rank = tc_stage_rank(s);
  tc_dtype acc = tc_template_sums(tc_stage_dtype(s)), part = part_type(acc);
  shape x = {.batched = rank == 3, .parts = part == acc ? 1 : 2, .apart = tc_stage_attr(s, 0, 0)};
  x.k = tc_stage_operand_size(s, 1, rank - 2), x.n = tc_stage_out_size(s, rank - 1);
  x.m = x.batched ? tc_stage_out_size(s, 1) : 64;
  x.count = tc_stage_out_hint(s, 0);
  *out_n = 0;
  if (rank < 2 || rank > 3 || x.k < 1 || x.n < 1 || x.m < 1) {
    tc_stage_refuse(s, "the matrices are not of a known size");
    return TC_STATUS_OK;
  }
  if (x.count < 1) x.count = 1;
  int32_t bytes = part == TC_F64 || part == TC_I64 ? 8 : 4;
  if (!dev->simd_bytes) {
    if (max > 0) out[(*out_n)++] = shared_config(&x, dev, bytes);
    return TC_STATUS_OK;
  }
  x.vector = dev->simd_bytes / bytes > 1 ? dev->simd_bytes / bytes : 2;
  x.vector_bytes = dev->simd_bytes;
  x.registers = dev->simd_registers ? dev->simd_registers : 16;
  int32_t columns = column_lanes(dev, &x);
  double along = along_cost(&x, columns), across = across_cost(&x, dev->l1_bytes);
  tc_stage_config both[2] = {config(&x, ALONG, columns, along / 3),
                             config(&x, ACROSS, tc_template_lanes(dev, x.vector), across / 3)};
  for (int32_t i = 0; i < 2 && *out_n < max; i++) out[(*out_n)++] = both[(along <= across) == (i == 0) ? 0 : 1];
  return TC_STATUS_OK;
}

// ---- what all ways use ----
static tc_kval i64(product *t, int64_t v) { return tc_kb_int(t->b, TC_I64, v); }
static tc_kval add(product *t, tc_kval x, tc_kval y) { return tc_kb_op2(t->b, TC_K_ADD, x, y); }
static tc_kval mul(product *t, tc_kval x, int64_t y) { return tc_kb_op2(t->b, TC_K_MUL, x, i64(t, y)); }

static tc_kval zero(product *t) {
  if (t->parts == 1) return t->acc >= TC_F16 ? tc_kb_real(t->b, t->acc, 0) : tc_kb_int(t->b, t->acc, 0);
  tc_kval z = tc_kb_real(t->b, t->part, 0);
  return tc_kb_op2(t->b, TC_K_COMPLEX, z, z);
}

static tc_kval sum(product *t, tc_kval a, tc_kval b, tc_kval c) { return tc_kb_op3(t->b, TC_K_FMA, a, b, c); }

static void store_n(product *t, const tc_kval *index, int32_t width, tc_kval *values, tc_kval mask) {
  for (int32_t i = 0; i < width; i++) values[i] = tc_kb_cast(t->b, tc_stage_dtype(t->s), values[i]);
  tc_stage_store_n(t->s, index, width, values, mask);
}

// Elements on chip, by parts: registers of each lane, or shared memory.
typedef struct chip {
  tc_kmem part[2];
} chip;

static chip make_chip(product *t, const char *re, const char *im, bool shared, int64_t count) {
  chip c;
  const char *name[2] = {re, im};
  for (int32_t p = 0; p < t->parts; p++) {
    tc_sv text = {name[p], 2};
    c.part[p] = shared ? tc_kb_shared(t->b, text, t->part, count) : tc_kb_lane_array(t->b, text, t->part, count);
  }
  return c;
}

static void put(product *t, const chip *c, tc_kval at, tc_kval v, tc_kval mask) {
  v = tc_kb_cast(t->b, t->acc, v);
  for (int32_t p = 0; p < t->parts; p++) {
    tc_kval x = t->parts == 1 ? v : tc_kb_op1(t->b, p ? TC_K_IMAG : TC_K_REAL, v);
    tc_kb_store(t->b, c->part[p], at, 1, &x, mask);
  }
}

static tc_kval get(product *t, const chip *c, tc_kval at) {
  tc_kval v[2];
  for (int32_t p = 0; p < t->parts; p++) v[p] = tc_kb_load1(t->b, c->part[p], at, -1, -1);
  return t->parts == 1 ? v[0] : tc_kb_op2(t->b, TC_K_COMPLEX, v[0], v[1]);
}

// ---- along: lanes are columns ----
// Rows row0 … row0 + rows - 1 of the columns from `col` on.
static void along_tile(product *t, tc_kval row0, int64_t rows, int64_t col) {
  tc_kb *b = t->b;
  int32_t r = t->rank;
  tc_kval acc[MOST_ROWS], carried[MOST_ROWS], next[MOST_ROWS], ia[3], ib[3], out[3];
  tc_kval column = add(t, tc_kb_cast(b, TC_I64, tc_kb_lane(b)), i64(t, col));
  tc_kval mask = col + t->c->lanes <= t->n ? -1 : tc_kb_op2(b, TC_K_LT, column, i64(t, t->n));
  if (r == 3) ia[0] = ib[0] = out[0] = t->batch;
  for (int64_t i = 0; i < rows; i++) acc[i] = zero(t);
  int32_t unroll = rows * t->k <= 64 ? TC_KI_UNROLL : 0;
  tc_kval k = tc_kb_for(b, i64(t, 0), i64(t, t->k), 1, unroll, (int32_t)rows, acc, carried);
  ib[r - 2] = ia[r - 1] = k;
  ib[r - 1] = column;
  tc_kval vb = tc_kb_cast(b, t->acc, tc_stage_load(t->s, 1, ib, mask));
  for (int64_t i = 0; i < rows; i++) {
    ia[r - 2] = add(t, row0, i64(t, i));
    next[i] = sum(t, tc_kb_cast(b, t->acc, tc_stage_load(t->s, 0, ia, -1)), vb, carried[i]);
  }
  tc_kb_end_for(b, (int32_t)rows, next, acc);
  for (int64_t i = 0; i < rows; i++) {
    out[r - 2] = add(t, row0, i64(t, i));
    out[r - 1] = column;
    store_n(t, out, 1, &acc[i], mask);
  }
}

static void along_rows(product *t, tc_kval row0, int64_t rows) {
  for (int64_t col = 0; col < t->n; col += t->c->lanes) along_tile(t, row0, rows, col);
}

static void along(product *t) {
  tc_kb *b = t->b;
  int64_t rows = t->c->params[ROWS];
  t->batch = tc_stage_origin(t->s, 0);
  tc_kb_lanes(b);
  if (t->rank == 3) {
    for (int64_t i = 0; i < t->m; i += rows) along_rows(t, i64(t, i), t->m - i < rows ? t->m - i : rows);
  } else { // a tile of rows of one tall matrix: whole groups, then single rows
    tc_kval lo = t->batch, hi = add(t, lo, i64(t, t->c->tile[0]));
    bool exact = tc_stage_exact(t->s, 0);
    if (!exact) hi = tc_kb_op2(b, TC_K_MIN, hi, tc_stage_extent(t->s, 0));
    tc_kval left = tc_kb_op2(b, TC_K_REM, tc_kb_op2(b, TC_K_SUB, hi, lo), i64(t, rows)),
            whole = exact ? hi : tc_kb_op2(b, TC_K_SUB, hi, left);
    along_rows(t, tc_kb_for(b, lo, whole, rows, 0, 0, NULL, NULL), rows);
    tc_kb_end_for(b, 0, NULL, NULL);
    if (!exact && rows > 1) {
      along_rows(t, tc_kb_for(b, whole, hi, 1, 0, 0, NULL, NULL), 1);
      tc_kb_end_for(b, 0, NULL, NULL);
    }
  }
  tc_kb_end_lanes(b, 0, NULL, NULL);
}

// ---- across: lanes are matrices, or rows ----
// The next run of a row of `left` elements: a power of two that a register holds.
static int32_t run(const product *t, int64_t left) {
  int32_t most = (t->part == TC_F64 || t->part == TC_I64 ? 8 : 16) / t->parts, w = 1;
  while (2 * w <= most && 2 * w <= left) w *= 2;
  return w;
}

// A row of operand `operand` to places from `at` on.
static void bring_row(product *t, int32_t operand, tc_kval row, int64_t count, const chip *c, tc_kval at,
                      tc_kval mask) {
  tc_kval index[3], v[MOST_TILE];
  int32_t r = t->rank;
  index[0] = t->batch;
  if (r == 3) index[1] = row;
  for (int64_t i = 0; i < count;) {
    int32_t w = run(t, count - i);
    index[r - 1] = i64(t, i);
    tc_stage_load_n(t->s, operand, index, w, mask, v);
    for (int32_t j = 0; j < w; j++) put(t, c, add(t, at, i64(t, i + j)), v[j], -1);
    i += w;
  }
}

// Columns first … first + count - 1 of the row that lies in `ca`.
static void across_tile(product *t, const chip *ca, const chip *cb, int64_t first, int64_t count, tc_kval *out) {
  tc_kb *b = t->b;
  tc_kval acc[MOST_TILE], carried[MOST_TILE], next[MOST_TILE];
  for (int64_t j = 0; j < count; j++) acc[j] = zero(t);
  int32_t unroll = t->k * count <= 64 ? TC_KI_UNROLL : 0;
  tc_kval k = tc_kb_for(b, i64(t, 0), i64(t, t->k), 1, unroll, (int32_t)count, acc, carried);
  tc_kval va = get(t, ca, k);
  for (int64_t j = 0; j < count; j++) {
    tc_kval vb;
    if (cb) {
      vb = get(t, cb, add(t, mul(t, k, t->n), i64(t, first + j)));
    } else {
      tc_kval ib[2] = {k, i64(t, first + j)};
      vb = tc_kb_cast(b, t->acc, tc_stage_load(t->s, 1, ib, -1));
    }
    next[j] = sum(t, va, vb, carried[j]);
  }
  tc_kb_end_for(b, (int32_t)count, next, acc);
  for (int64_t j = 0; j < count; j++) out[j] = acc[j];
}

static void across_body(product *t, const chip *ca, const chip *cb, tc_kval mask) {
  tc_kb *b = t->b;
  int32_t r = t->rank;
  int64_t tile = t->c->params[COLUMNS];
  tc_kval zero_at = i64(t, 0), row = -1, value[64], out[3];
  if (r == 3) {
    int32_t unroll = t->k * t->n <= 64 ? TC_KI_UNROLL : 0;
    tc_kval k = tc_kb_for(b, zero_at, i64(t, t->k), 1, unroll, 0, NULL, NULL);
    bring_row(t, 1, k, t->n, cb, mul(t, k, t->n), mask);
    tc_kb_end_for(b, 0, NULL, NULL);
    row = tc_kb_for(b, zero_at, i64(t, t->m), 1, t->m * t->k * t->n <= 64 ? TC_KI_UNROLL : 0, 0, NULL, NULL);
  }
  bring_row(t, 0, row, t->k, ca, zero_at, mask);
  for (int64_t j = 0; j < t->n; j += tile)
    across_tile(t, ca, r == 3 ? cb : NULL, j, t->n - j < tile ? t->n - j : tile, value + j);
  out[0] = t->batch;
  if (r == 3) out[1] = row;
  for (int64_t j = 0; j < t->n;) {
    int32_t w = run(t, t->n - j);
    out[r - 1] = i64(t, j);
    store_n(t, out, w, value + j, mask);
    j += w;
  }
  if (r == 3) tc_kb_end_for(b, 0, NULL, NULL);
}

static void across(product *t) {
  tc_kb *b = t->b;
  chip ca = make_chip(t, "ar", "ai", false, t->k), cb = {{0}};
  if (t->rank == 3) cb = make_chip(t, "br", "bi", false, t->k * t->n);
  tc_kb_lanes(b);
  tc_kval first = tc_stage_origin(t->s, 0);
  t->batch = add(t, first, tc_kb_cast(b, TC_I64, tc_kb_lane(b)));
  if (tc_stage_exact(t->s, 0)) {
    across_body(t, &ca, &cb, -1);
  } else { // whole blocks go without masks
    tc_kval extent = tc_stage_extent(t->s, 0), mask = tc_kb_op2(b, TC_K_LT, t->batch, extent);
    tc_kb_if(b, tc_kb_op2(b, TC_K_LE, add(t, first, i64(t, t->c->lanes)), extent));
    across_body(t, &ca, &cb, -1);
    tc_kb_else(b, 0, NULL);
    across_body(t, &ca, &cb, mask);
    tc_kb_end_if(b, 0, NULL, NULL);
  }
  tc_kb_end_lanes(b, 0, NULL, NULL);
}

// ---- shared: lanes are threads ----
// What the number of an element says: place p of its matrix of `size` elements, and the matrix.
static void spread(product *t, tc_kval e, int64_t size, tc_kval *matrix, tc_kval *place) {
  *matrix = tc_kb_op2(t->b, TC_K_DIV, e, i64(t, size));
  *place = tc_kb_op2(t->b, TC_K_REM, e, i64(t, size));
}

// The numbers of a block's elements, shared out among the lanes. Gives the number; `mask`: where there is one.
static tc_kval deal(product *t, int64_t count, tc_kval *mask) {
  tc_kb *b = t->b;
  tc_kval base = tc_kb_for(b, i64(t, 0), i64(t, count), t->c->lanes, 0, 0, NULL, NULL);
  tc_kval e = add(t, base, tc_kb_cast(b, TC_I64, tc_kb_lane(b)));
  *mask = count % t->c->lanes ? tc_kb_op2(b, TC_K_LT, e, i64(t, count)) : -1;
  return e;
}

static tc_kval both(product *t, tc_kval x, tc_kval y) {
  return x < 0 ? y : y < 0 ? x : tc_kb_op2(t->b, TC_K_AND, x, y);
}

// Is the matrix (or row) there at all?
static tc_kval present(product *t, tc_kval index) {
  return tc_stage_exact(t->s, 0) ? -1 : tc_kb_op2(t->b, TC_K_LT, index, tc_stage_extent(t->s, 0));
}

static void bring_shared(product *t, int32_t operand, int64_t count, int64_t rows, int64_t columns, const chip *c) {
  tc_kb *b = t->b;
  tc_kval mask, matrix, place, index[3];
  bool one = t->rank == 2 && operand == 1; // the one matrix b
  tc_kval e = deal(t, count * rows * columns, &mask);
  if (one) {
    spread(t, e, columns, &index[0], &index[1]);
  } else {
    spread(t, e, rows * columns, &matrix, &place);
    index[0] = add(t, t->batch, matrix);
    if (t->rank == 3) spread(t, place, columns, &index[1], &index[2]);
    else index[1] = place;
  }
  tc_kval there = one ? mask : both(t, mask, present(t, index[0]));
  put(t, c, e, tc_stage_load(t->s, operand, index, there), mask);
  tc_kb_end_for(b, 0, NULL, NULL);
}

static void shared(product *t) {
  tc_kb *b = t->b;
  int64_t count = t->c->tile[0], m = t->rank == 3 ? t->m : 1, kn = t->k * t->n;
  chip ca = make_chip(t, "ar", "ai", true, count * m * t->k),
       cb = make_chip(t, "br", "bi", true, t->rank == 3 ? count * kn : kn);
  t->batch = tc_stage_origin(t->s, 0);
  tc_kb_lanes(b);
  bring_shared(t, 0, count, m, t->k, &ca);
  bring_shared(t, 1, t->rank == 3 ? count : 1, t->k, t->n, &cb);
  tc_kb_end_lanes(b, 0, NULL, NULL);
  tc_kb_barrier(b);
  tc_kb_lanes(b);
  tc_kval mask, matrix, place, row, column, acc = zero(t), carried, out[3];
  tc_kval e = deal(t, count * m * t->n, &mask);
  spread(t, e, m * t->n, &matrix, &place);
  spread(t, place, t->n, &row, &column);
  // Lanes behind the last element go along with the block's first one.
  tc_kval from_a = mul(t, add(t, mul(t, matrix, m), row), t->k),
          from_b = t->rank == 3 ? add(t, mul(t, matrix, kn), column) : column;
  if (mask >= 0) {
    from_a = tc_kb_op3(b, TC_K_SELECT, mask, from_a, i64(t, 0));
    from_b = tc_kb_op3(b, TC_K_SELECT, mask, from_b, i64(t, 0));
  }
  tc_kval k = tc_kb_for(b, i64(t, 0), i64(t, t->k), 1, t->k <= 8 ? TC_KI_UNROLL : 0, 1, &acc, &carried);
  tc_kval next = sum(t, get(t, &ca, add(t, from_a, k)), get(t, &cb, add(t, from_b, mul(t, k, t->n))), carried);
  tc_kb_end_for(b, 1, &next, &acc);
  out[0] = add(t, t->batch, matrix);
  if (t->rank == 3) out[1] = row;
  out[t->rank - 1] = column;
  store_n(t, out, 1, &acc, both(t, mask, present(t, out[0])));
  tc_kb_end_for(b, 0, NULL, NULL);
  tc_kb_end_lanes(b, 0, NULL, NULL);
}

static int32_t emit(tc_stage *s, const tc_stage_config *c) {
  product t = {.s = s, .b = tc_stage_builder(s), .c = c, .rank = tc_stage_rank(s)};
  t.acc = tc_template_sums(tc_stage_dtype(s));
  t.part = part_type(t.acc);
  t.parts = t.part == t.acc ? 1 : 2;
  t.k = tc_stage_operand_size(s, 1, t.rank - 2);
  t.n = tc_stage_out_size(s, t.rank - 1);
  t.m = t.rank == 3 ? tc_stage_out_size(s, 1) : 1;
  if (c->params[WAY] == ALONG) along(&t);
  else if (c->params[WAY] == ACROSS) across(&t);
  else shared(&t);
  return TC_STATUS_OK;
}

const tc_template_table tc_template_small_matmul = {
    .struct_size = sizeof(tc_template_table),
    .name = {"small_matmul", 12},
    .candidates = candidates,
    .emit = emit,
    .flops = "2 * out.numel * in0.last",
};
