// Running sums, products, extremes and log-sums along the last dimension, each element read and written once.
//
// Along: a block makes one row (or a chunk of one) in tiles of lanes × WIDTH elements. A lane scans WIDTH consecutive
// elements in registers, the lanes' totals are scanned in log2(lanes) steps through shared memory (Hillis and Steele,
// "Data parallel algorithms", 1986), and what came before the tile is carried in every lane.
// Across: lanes are neighbouring rows, each with a running value; used where memory is contiguous across rows, and
// where lanes are SIMD elements and rows are many: a lane then reads and writes WIDTH neighbours of its row at once,
// which the code generator turns in registers. Long rows are scanned in chunks that do not wait for each other: operand
// 1 then has what comes before each chunk (Blelloch, "Prefix sums and their applications", 1990: reduce, scan the sums,
// scan again).
//
// Running extremes give positions: a state is a value and where it stands; of equal ones the later, and the latest NaN
// once there was one.
//
// Operands: 0 x […, n]; 1 (optional) […, chunks]: the scan of everything up to the end of each chunk.
// attrs: 0 kind (TC_SCAN_*), 1 across, 2 length of a chunk (0: whole rows). params: 0 across, 1 neighbours at once.
#include <stdbool.h>

#include "core/kernel/templates/templates.h"

#include "tc/lower.h"
#include "tc/plugin.h"

enum { WIDTH = 8, MOST_LANES = 256, STATES = 2 };
enum { KIND, ACROSS, CHUNK };

static bool is_position(int64_t kind) { return kind == TC_SCAN_MAX || kind == TC_SCAN_MIN; }

// The type that is computed in: 16-bit floats in f32.
static tc_dtype math_type(tc_dtype d) {
  switch (d) {
  case TC_F16:
  case TC_BF16: return TC_F32;
  case TC_C32:
  case TC_BC32: return TC_C64;
  case TC_BOOL: return TC_I32;
  default: return d;
  }
}

// Sums and products of f32 run in f64 where the device has it: errors would add up along the row.
static tc_dtype value_type(const tc_stage *s) {
  int64_t kind = tc_stage_attr(s, KIND, 0);
  tc_dtype d = math_type(is_position(kind) ? tc_stage_operand_dtype(s, 0) : tc_stage_dtype(s));
  bool exact = (kind == TC_SCAN_SUM || kind == TC_SCAN_PROD) && tc_stage_dtype(s) == TC_F32;
  return exact && tc_stage_device(s)->arithmetic >> TC_F64 & 1 ? TC_F64 : d;
}

static int32_t bytes_of(tc_dtype d) {
  switch (d) {
  case TC_C128: return 16;
  case TC_F64:
  case TC_C64:
  case TC_I64:
  case TC_U64: return 8;
  default: return 4;
  }
}

// Do all cores have several blocks of as many rows as lanes, which are SIMD elements?
static bool many_rows(const tc_stage *s, int64_t lanes) {
  enum { BLOCKS = 2 };
  int32_t r = tc_stage_rank(s);
  if (!lanes || r < 2 || tc_stage_attr(s, CHUNK, 0)) return false;
  int64_t blocks = tc_stage_out_hint(s, r - 2) / lanes;
  for (int32_t i = 0; i < r - 2; i++) blocks *= tc_stage_out_hint(s, i);
  return blocks >= BLOCKS * (int64_t)tc_stage_device(s)->cores;
}

static int32_t candidates(const tc_stage *s, int32_t max, tc_stage_config *out, int32_t *out_n) {
  const tc_device_props *dev = tc_stage_device(s);
  int32_t r = tc_stage_rank(s), bytes = bytes_of(value_type(s));
  *out_n = 0;
  if (r < 1 || max < 1) return TC_STATUS_OK;
  bool lie = tc_stage_attr(s, ACROSS, 0) && r > 1; // across rows, in memory
  bool across = lie || many_rows(s, 2 * (dev->simd_bytes / bytes));
  int64_t n = tc_stage_out_hint(s, r - 1), rows = across ? tc_stage_out_hint(s, r - 2) : n / WIDTH;
  int32_t vector = dev->simd_bytes ? dev->simd_bytes / bytes : MOST_LANES, lanes = across ? 2 * vector : vector;
  if (dev->max_lanes && lanes > dev->max_lanes) lanes = dev->max_lanes;
  while (lanes > 4 && lanes / 2 >= rows) lanes /= 2;
  tc_stage_config *c = &out[(*out_n)++];
  *c = (tc_stage_config){.lanes = lanes, .params = {across, lie ? 1 : WIDTH}};
  c->cost = 0.5; // a nanosecond for two elements
  for (int32_t i = 0; i < r; i++) {
    c->tile[i] = i < r - 1 ? 1 : tc_stage_attr(s, CHUNK, 0);
    c->cost *= (double)tc_stage_out_hint(s, i);
  }
  if (across) c->tile[r - 2] = lanes;
  else c->shared_bytes = 2 * STATES * (int64_t)bytes * lanes;
  return TC_STATUS_OK;
}

typedef struct state {
  tc_kval v[STATES]; // the running value; where it stands
} state;

typedef struct scan {
  tc_stage *s;
  tc_kb *b;
  int32_t rank, lanes, parts; // parts: of a state
  int64_t kind;
  tc_dtype type, part_type[STATES];
  tc_kval leading[TC_MAX_RANK], lo, hi;
  tc_kmem own[STATES], before[STATES]; // lane arrays: a lane's elements; the state before the tile
  tc_kmem totals[2][STATES];           // shared: of the lanes, in turns
} scan;

static tc_kval i64(scan *t, int64_t v) { return tc_kb_int(t->b, TC_I64, v); }
static tc_kval op2(scan *t, int32_t op, tc_kval x, tc_kval y) { return tc_kb_op2(t->b, op, x, y); }
static tc_kval lane64(scan *t) { return tc_kb_cast(t->b, TC_I64, tc_kb_lane(t->b)); }
static bool is_real(tc_dtype d) { return d == TC_F32 || d == TC_F64; }

static tc_kval number(scan *t, double v) {
  if (is_real(t->type)) return tc_kb_real(t->b, t->type, v);
  if (t->type != TC_C64 && t->type != TC_C128) return tc_kb_int(t->b, t->type, (int64_t)v);
  tc_dtype part = t->type == TC_C64 ? TC_F32 : TC_F64;
  return op2(t, TC_K_COMPLEX, tc_kb_real(t->b, part, v), tc_kb_real(t->b, part, 0));
}

// The value that every other one wins against.
static tc_kval least(scan *t, bool highest) {
  if (is_real(t->type)) return number(t, highest ? __builtin_inf() : -__builtin_inf());
  int32_t bits = t->type == TC_I8 || t->type == TC_U8     ? 8
                 : t->type == TC_I16 || t->type == TC_U16 ? 16
                 : t->type == TC_I32 || t->type == TC_U32 ? 32
                                                          : 64;
  if (t->type == TC_U8 || t->type == TC_U16 || t->type == TC_U32 || t->type == TC_U64)
    return tc_kb_int(t->b, t->type, highest ? (int64_t)(UINT64_MAX >> (64 - bits)) : 0);
  int64_t top = (int64_t)(UINT64_MAX >> (65 - bits));
  return tc_kb_int(t->b, t->type, highest ? top : -top - 1);
}

static state neutral(scan *t) {
  state x = {{-1, -1}};
  if (t->kind == TC_SCAN_SUM) x.v[0] = number(t, 0);
  else if (t->kind == TC_SCAN_PROD) x.v[0] = number(t, 1);
  else x.v[0] = least(t, t->kind == TC_SCAN_MIN);
  if (t->parts > 1) x.v[1] = i64(t, 0);
  return x;
}

// log(exp x + exp y); equal infinities stay.
static tc_kval log_add(scan *t, tc_kval x, tc_kval y) {
  tc_kval low = op2(t, TC_K_MIN, x, y), high = op2(t, TC_K_MAX, x, y);
  tc_kval sum =
      op2(t, TC_K_ADD, tc_kb_op1(t->b, TC_K_LOG1P, tc_kb_op1(t->b, TC_K_EXP, op2(t, TC_K_SUB, low, high))), high);
  tc_kval endless = op2(t, TC_K_EQ, tc_kb_op1(t->b, TC_K_ABS, low), number(t, __builtin_inf()));
  tc_kval same = op2(t, TC_K_AND, op2(t, TC_K_EQ, low, high), endless);
  return tc_kb_op3(t->b, TC_K_SELECT, same, x, sum);
}

// x before y.
static state combine(scan *t, state x, state y) {
  switch (t->kind) {
  case TC_SCAN_SUM: return (state){{op2(t, TC_K_ADD, x.v[0], y.v[0]), -1}};
  case TC_SCAN_PROD: return (state){{op2(t, TC_K_MUL, x.v[0], y.v[0]), -1}};
  case TC_SCAN_LOGSUM: return (state){{log_add(t, x.v[0], y.v[0]), -1}};
  default: break;
  }
  tc_kval later = op2(t, t->kind == TC_SCAN_MAX ? TC_K_GE : TC_K_LE, y.v[0], x.v[0]);
  if (is_real(t->type)) later = op2(t, TC_K_OR, later, op2(t, TC_K_NE, y.v[0], y.v[0])); // x a NaN: not `later`
  state out;
  for (int32_t i = 0; i < STATES; i++) out.v[i] = tc_kb_op3(t->b, TC_K_SELECT, later, y.v[i], x.v[i]);
  return out;
}

static void index_of(scan *t, tc_kval row, tc_kval k, tc_kval *out) {
  for (int32_t i = 0; i < t->rank - 1; i++) out[i] = t->leading[i];
  if (row >= 0) out[t->rank - 2] = row;
  out[t->rank - 1] = k;
}

static state element(scan *t, tc_kval value, tc_kval k) {
  return (state){{tc_kb_cast(t->b, t->type, value), t->parts > 1 ? k : -1}};
}

static tc_kval result(scan *t, state x) { return tc_kb_cast(t->b, tc_stage_dtype(t->s), x.v[t->parts - 1]); }

// What the row has before `lo`: nothing, or what operand 1 has at the end of the chunk before. `row`: -1 or a lane's.
static state start(scan *t, tc_kval row, tc_kval mask) {
  state none = neutral(t);
  int64_t length = tc_stage_attr(t->s, CHUNK, 0);
  if (tc_stage_operand_count(t->s) < 2 || length <= 0) return none;
  tc_kval index[TC_MAX_RANK], before = op2(t, TC_K_SUB, op2(t, TC_K_DIV, t->lo, i64(t, length)), i64(t, 1));
  tc_kval some = op2(t, TC_K_GE, before, i64(t, 0));
  if (mask >= 0) mask = op2(t, TC_K_AND, mask, some);
  index_of(t, row, op2(t, TC_K_MAX, before, i64(t, 0)), index);
  tc_kval v = tc_kb_cast(t->b, t->type, tc_stage_load(t->s, 1, index, mask));
  none.v[0] = tc_kb_op3(t->b, TC_K_SELECT, some, v, none.v[0]);
  return none;
}

// ---- along ----
static state get(scan *t, const tc_kmem *m, tc_kval at) {
  state x = {{-1, -1}};
  for (int32_t i = 0; i < t->parts; i++) x.v[i] = tc_kb_load1(t->b, m[i], at, -1, -1);
  return x;
}
static void put(scan *t, const tc_kmem *m, tc_kval at, state x) {
  for (int32_t i = 0; i < t->parts; i++) tc_kb_store(t->b, m[i], at, 1, &x.v[i], -1);
}
static state choose(scan *t, tc_kval cond, state x, state y) {
  for (int32_t i = 0; i < t->parts; i++) x.v[i] = tc_kb_op3(t->b, TC_K_SELECT, cond, x.v[i], y.v[i]);
  return x;
}

// Every lane's own elements, scanned, into its registers, and its total.
static void scan_lanes(scan *t, tc_kval first, bool masked) {
  tc_kval index[TC_MAX_RANK], v[WIDTH];
  index_of(t, -1, first, index);
  if (!masked) tc_stage_load_n(t->s, 0, index, WIDTH, -1, v);
  state sum = neutral(t);
  for (int32_t i = 0; i < WIDTH; i++) {
    tc_kval k = op2(t, TC_K_ADD, first, i64(t, i));
    tc_kval inside = masked ? op2(t, TC_K_LT, k, t->hi) : -1;
    index_of(t, -1, k, index);
    state x = element(t, masked ? tc_stage_load(t->s, 0, index, inside) : v[i], k);
    if (masked) x = choose(t, inside, x, neutral(t));
    sum = i ? combine(t, sum, x) : x;
    put(t, t->own, i64(t, i), sum);
  }
  put(t, t->totals[0], lane64(t), sum);
}

// Totals of all lanes up to each; returns in which of the two arrays they are.
static int32_t scan_totals(scan *t) {
  int32_t from = 0;
  for (int32_t step = 1; step < t->lanes; step *= 2, from = !from) {
    tc_kb_lanes(t->b);
    tc_kval lane = lane64(t), has = op2(t, TC_K_GE, lane, i64(t, step));
    tc_kval left = op2(t, TC_K_MAX, op2(t, TC_K_SUB, lane, i64(t, step)), i64(t, 0));
    state own = get(t, t->totals[from], lane), other = get(t, t->totals[from], left);
    put(t, t->totals[!from], lane, choose(t, has, combine(t, other, own), own));
    tc_kb_end_lanes(t->b, 0, NULL, NULL);
    tc_kb_barrier(t->b);
  }
  return from;
}

static void tile(scan *t, tc_kval base, bool masked) {
  tc_kb *b = t->b;
  tc_kb_lanes(b);
  scan_lanes(t, op2(t, TC_K_ADD, base, op2(t, TC_K_MUL, lane64(t), i64(t, WIDTH))), masked);
  tc_kb_end_lanes(b, 0, NULL, NULL);
  tc_kb_barrier(b);
  int32_t in = scan_totals(t);
  tc_kb_lanes(b);
  tc_kval index[TC_MAX_RANK], out[WIDTH], lane = lane64(t), zero = i64(t, 0);
  tc_kval first = op2(t, TC_K_ADD, base, op2(t, TC_K_MUL, lane, i64(t, WIDTH)));
  state carry = get(t, t->before, zero), none = neutral(t);
  state left = get(t, t->totals[in], op2(t, TC_K_MAX, op2(t, TC_K_SUB, lane, i64(t, 1)), zero));
  state before = combine(t, carry, choose(t, op2(t, TC_K_GT, lane, zero), left, none));
  for (int32_t i = 0; i < WIDTH; i++) {
    out[i] = result(t, combine(t, before, get(t, t->own, i64(t, i))));
    if (!masked) continue;
    tc_kval k = op2(t, TC_K_ADD, first, i64(t, i));
    index_of(t, -1, k, index);
    tc_stage_store(t->s, index, out[i], op2(t, TC_K_LT, k, t->hi));
  }
  index_of(t, -1, first, index);
  if (!masked) tc_stage_store_n(t->s, index, WIDTH, out, -1);
  put(t, t->before, zero, combine(t, carry, get(t, t->totals[in], i64(t, t->lanes - 1))));
  tc_kb_end_lanes(b, 0, NULL, NULL);
  tc_kb_barrier(b); // the totals are read before the next tile's are written
}

static void along(scan *t) {
  tc_kb *b = t->b;
  for (int32_t i = 0; i < t->parts; i++) {
    tc_dtype d = t->part_type[i];
    t->own[i] = tc_kb_lane_array(b, i ? (tc_sv){"own_at", 6} : (tc_sv){"own", 3}, d, WIDTH);
    t->before[i] = tc_kb_lane_array(b, i ? (tc_sv){"before_at", 9} : (tc_sv){"before", 6}, d, 1);
    t->totals[0][i] = tc_kb_shared(b, i ? (tc_sv){"even_at", 7} : (tc_sv){"even", 4}, d, t->lanes);
    t->totals[1][i] = tc_kb_shared(b, i ? (tc_sv){"odd_at", 6} : (tc_sv){"odd", 3}, d, t->lanes);
  }
  tc_kb_lanes(b);
  put(t, t->before, i64(t, 0), start(t, -1, -1));
  tc_kb_end_lanes(b, 0, NULL, NULL);
  int64_t step = (int64_t)t->lanes * WIDTH;
  tc_kval count = op2(t, TC_K_SUB, t->hi, t->lo);
  tc_kval whole = op2(t, TC_K_SUB, t->hi, op2(t, TC_K_REM, count, i64(t, step)));
  tile(t, tc_kb_for(b, t->lo, whole, step, 0, 0, NULL, NULL), false);
  tc_kb_end_for(b, 0, NULL, NULL);
  tile(t, tc_kb_for(b, whole, t->hi, step, 0, 0, NULL, NULL), true);
  tc_kb_end_for(b, 0, NULL, NULL);
}

// ---- across ----
// Elements [lo, hi) of every lane's row, `width` at once.
static state of_rows(scan *t, tc_kval row, tc_kval inside, tc_kval lo, tc_kval hi, int32_t width, state sum) {
  tc_kval index[TC_MAX_RANK], carried[STATES], v[WIDTH], out[WIDTH];
  tc_kval k = tc_kb_for(t->b, lo, hi, width, 0, t->parts, sum.v, carried);
  state x = {{carried[0], t->parts > 1 ? carried[1] : -1}}, last = x;
  index_of(t, row, k, index);
  tc_stage_load_n(t->s, 0, index, width, inside, v);
  for (int32_t i = 0; i < width; i++) {
    x = combine(t, x, element(t, v[i], op2(t, TC_K_ADD, k, i64(t, i))));
    out[i] = result(t, x);
  }
  tc_stage_store_n(t->s, index, width, out, inside);
  tc_kb_end_for(t->b, t->parts, x.v, last.v);
  return last;
}

static void lanes_of_rows(scan *t, int32_t width, bool masked) {
  tc_kb *b = t->b;
  int32_t r = t->rank;
  tc_kb_lanes(b);
  tc_kval row = op2(t, TC_K_ADD, t->leading[r - 2], lane64(t));
  tc_kval inside = masked ? op2(t, TC_K_LT, row, tc_stage_extent(t->s, r - 2)) : -1;
  tc_kval rest = op2(t, TC_K_REM, op2(t, TC_K_SUB, t->hi, t->lo), i64(t, width));
  tc_kval whole = op2(t, TC_K_SUB, t->hi, rest);
  state sum = of_rows(t, row, inside, t->lo, whole, width, start(t, row, inside));
  if (width > 1) of_rows(t, row, inside, whole, t->hi, 1, sum);
  tc_kb_end_lanes(b, 0, NULL, NULL);
}

// Masks would have what is turned gathered: they are for the last lanes only.
static void across(scan *t, int32_t width) {
  bool exact = tc_stage_exact(t->s, t->rank - 2), apart = width > 1 && !exact;
  tc_kval end = op2(t, TC_K_ADD, t->leading[t->rank - 2], i64(t, t->lanes)), rows = tc_stage_extent(t->s, t->rank - 2);
  if (apart) tc_kb_if(t->b, op2(t, TC_K_LE, end, rows));
  lanes_of_rows(t, width, !exact && !apart);
  if (!apart) return;
  tc_kb_end_if(t->b, 0, NULL, NULL);
  tc_kb_if(t->b, op2(t, TC_K_LT, rows, end));
  lanes_of_rows(t, width, true);
  tc_kb_end_if(t->b, 0, NULL, NULL);
}

static int32_t emit(tc_stage *s, const tc_stage_config *c) {
  scan t = {.s = s,
            .b = tc_stage_builder(s),
            .rank = tc_stage_rank(s),
            .lanes = c->lanes,
            .kind = tc_stage_attr(s, KIND, 0),
            .type = value_type(s)};
  int32_t r = t.rank;
  t.parts = is_position(t.kind) ? 2 : 1;
  t.part_type[0] = t.type;
  t.part_type[1] = TC_I64;
  for (int32_t i = 0; i < r - 1; i++) t.leading[i] = tc_stage_origin(s, i);
  t.lo = tc_stage_origin(s, r - 1);
  t.hi = tc_stage_extent(s, r - 1);
  if (c->tile[r - 1]) t.hi = op2(&t, TC_K_MIN, t.hi, op2(&t, TC_K_ADD, t.lo, i64(&t, c->tile[r - 1])));
  if (c->params[0]) across(&t, (int32_t)c->params[1]);
  else along(&t);
  return TC_STATUS_OK;
}

const tc_template_table tc_template_scan = {
    .struct_size = sizeof(tc_template_table),
    .name = {"scan", 4},
    .candidates = candidates,
    .emit = emit,
    .flops = "out.numel",
};
