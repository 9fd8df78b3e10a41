// Scattering where lanes are threads. Whole columns would be few lanes that do everything one after the other; so a
// block owns a share of the rows, too, looks through all positions, and keeps those that are its own.
//
// Positions are looked at by chunks, in which each lane has PER_LANE neighbours: it counts its own share's, sums of
// counts (Hillis and Steele, "Data parallel algorithms", 1986) say where in the chunk's list they go, and the list is
// in order. Then its entries are written in this order, some at once where their rows differ, so that the result is
// what writing them one by one would make, whatever the timing. Across: all lanes write an entry, each in columns of
// its own. Along: a lane has one row, which it keeps in a register, and takes the entries that are its own.
#include "core/ir/opargs.h"
#include "core/kernel/templates/scatter.h"

// Lanes, fewer where a chunk's values are on chip, too, and a chunk's positions of a lane, at most.
enum { LANES = 256, LANES_ALONG = 128, PER_LANE = 16 };
enum {
  NUMBER_BITS = 12, // of an entry of the list: the number in the chunk; the others are the row
  FEWEST = 32,      // positions
  STRIPS = 4,       // columns of a lane
  BLOCKS = 8,       // for each multiprocessor
  AT_ONCE = 4       // entries whose elements are loaded together
};
_Static_assert(LANES *PER_LANE <= 1 << NUMBER_BITS, "an entry's number fits");

typedef struct shares {
  tc_scatter *t;
  tc_kb *b;
  bool across;
  int32_t lanes, per_lane, chunk, strips;
  tc_kval lo, hi, m;    // the share's rows, positions
  tc_kmem counts, list; // shared: i32 [2][lanes]; [chunk], numbers in the chunk and rows less lo
  tc_kmem rows; // shared i32 [lanes][per_lane + 1]: a chunk's rows less lo, -1: others'; lanes lie in other banks
  tc_kmem values, mine; // along: shared [chunk]; lane array of the row's element
} shares;

static tc_kval i64(shares *x, int64_t v) { return tc_scatter_i64(x->t, v); }
static tc_kval op2(shares *x, int32_t op, tc_kval a, tc_kval b) { return tc_kb_op2(x->b, op, a, b); }
static tc_kval add(shares *x, tc_kval a, tc_kval b) { return op2(x, TC_K_ADD, a, b); }
static tc_kval lane(shares *x) { return tc_kb_cast(x->b, TC_I64, tc_kb_lane(x->b)); }
static tc_kval load(shares *x, tc_kmem m, tc_kval at) { return tc_kb_load1(x->b, m, at, -1, -1); }
static void store(shares *x, tc_kmem m, tc_kval at, tc_kval v, tc_kval mask) { tc_kb_store(x->b, m, at, 1, &v, mask); }

// So many columns that lanes of their own, which go through the positions of each alone, keep the device busy.
static bool are_many_columns(const tc_stage *s) {
  int64_t columns = 1, cores = tc_stage_device(s)->cores;
  for (int32_t i = 1; i < tc_stage_rank(s); i++) columns *= tc_stage_out_hint(s, i);
  return columns >= (int64_t)BLOCKS * LANES_ALONG * (cores > 0 ? cores : 1);
}

bool tc_scatter_in_shares(const tc_stage *s, tc_stage_config *out) {
  const tc_device_props *dev = tc_stage_device(s);
  int32_t r = tc_stage_rank(s);
  tc_dtype d = tc_stage_dtype(s);
  bool plain = d != TC_BOOL && d < TC_C32,
       across = tc_scatter_is_across(s) && tc_stage_attr(s, TC_SCATTER_ACROSS, 0) == 2;
  if (dev->simd_bytes || r < 1 || !plain || tc_stage_operand_hint(s, 1, 0) < FEWEST) return false;
  if (tc_scatter_is_across(s) && !across && are_many_columns(s)) return false;
  int32_t lanes = across ? LANES : LANES_ALONG, per_lane = PER_LANE;
  while (per_lane > 1 && lanes * per_lane / 2 >= tc_stage_operand_hint(s, 1, 0)) per_lane /= 2;
  if (dev->max_lanes && dev->max_lanes < lanes) return false;
  int64_t columns = across ? tc_stage_out_hint(s, r - 1) : 1, strips = across ? (columns + lanes - 1) / lanes : 1;
  if (strips > STRIPS) strips = STRIPS;
  if (strips < 1) strips = 1;
  int64_t others = across ? (columns + strips * lanes - 1) / (strips * lanes) : 1, n = tc_stage_out_hint(s, 0);
  for (int32_t i = 1; i < r - across; i++) others *= tc_stage_out_hint(s, i);
  int64_t wanted = (int64_t)BLOCKS * (dev->cores > 0 ? dev->cores : 1) / (others > 0 ? others : 1);
  int64_t share = across ? (n + (wanted > 0 ? wanted : 1) - 1) / (wanted > 0 ? wanted : 1) : lanes;
  if (share < 1) share = 1;
  if (share >> (31 - NUMBER_BITS)) share = (1 << (31 - NUMBER_BITS)) - 1;
  *out = (tc_stage_config){.lanes = lanes, .params = {across, strips, share, per_lane}};
  out->tile[0] = share;
  for (int32_t i = 1; i < r; i++) out->tile[i] = across && i == r - 1 ? strips * lanes : 1;
  out->shared_bytes = lanes * (2 + per_lane + 1) * 4 + (int64_t)lanes * per_lane * (across ? 4 : 12);
  double blocks = (double)others * (double)((n + share - 1) / share);
  out->cost = blocks * (double)tc_stage_operand_hint(s, 1, 0) + (double)n * (double)columns;
  return true;
}

// Columns of strip i, and whether they are there.
static tc_kval column_of(shares *x, int32_t i, tc_kval *out_mask) {
  int32_t last = x->t->rank - 1;
  tc_kval at = add(x, add(x, tc_stage_origin(x->t->s, last), i64(x, (int64_t)i * x->lanes)), lane(x));
  *out_mask = tc_stage_exact(x->t->s, last) ? -1 : op2(x, TC_K_LT, at, tc_stage_extent(x->t->s, last));
  return at;
}

static void copy_share(shares *x) {
  tc_kb_lanes(x->b);
  if (x->across) {
    tc_kval at = tc_kb_for(x->b, x->lo, x->hi, 1, 0, 0, NULL, NULL), mask;
    for (int32_t i = 0; i < x->strips; i++) {
      x->t->column[x->t->rank - 1] = column_of(x, i, &mask);
      tc_scatter_copy(x->t, at, mask);
    }
    tc_kb_end_for(x->b, 0, NULL, NULL);
  } else {
    tc_kval at = add(x, x->lo, lane(x));
    store(x, x->mine, i64(x, 0), tc_scatter_self(x->t, at, op2(x, TC_K_LT, at, x->t->n)), -1);
  }
  tc_kb_end_lanes(x->b, 0, NULL, NULL);
}

static tc_kval row_at(shares *x, tc_kval of, tc_kval i) {
  return add(x, op2(x, TC_K_MUL, of, i64(x, x->per_lane + 1)), i);
}

static tc_kval each_of_lane(shares *x, const tc_kval *first, tc_kval *carried) {
  return tc_kb_for(x->b, i64(x, 0), i64(x, x->per_lane), 1, TC_KI_UNROLL, first != NULL, first, carried);
}

// The rows of a chunk's positions, which neighbouring lanes load.
static void look(shares *x, tc_kval k0) {
  tc_kb_lanes(x->b);
  tc_kval i = each_of_lane(x, NULL, NULL), at = add(x, op2(x, TC_K_MUL, i, i64(x, x->lanes)), lane(x)), inside;
  tc_kval k = add(x, k0, at), row = tc_scatter_position(x->t, k, op2(x, TC_K_LT, k, x->m), &inside);
  tc_kval own = op2(x, TC_K_AND, op2(x, TC_K_GE, row, x->lo), op2(x, TC_K_LT, row, x->hi));
  own = op2(x, TC_K_AND, own, inside);
  row = tc_kb_op3(x->b, TC_K_SELECT, own, op2(x, TC_K_SUB, row, x->lo), i64(x, -1));
  tc_kval per_lane = i64(x, x->per_lane),
          to = row_at(x, op2(x, TC_K_DIV, at, per_lane), op2(x, TC_K_REM, at, per_lane));
  store(x, x->rows, to, tc_kb_cast(x->b, TC_I32, row), -1);
  tc_kb_end_for(x->b, 0, NULL, NULL);
  tc_kb_end_lanes(x->b, 0, NULL, NULL);
  tc_kb_barrier(x->b);
}

static void count(shares *x) {
  tc_kval none = tc_kb_int(x->b, TC_I32, 0), n, out;
  tc_kb_lanes(x->b);
  tc_kval i = each_of_lane(x, &none, &n);
  n = add(x, n, tc_kb_cast(x->b, TC_I32, op2(x, TC_K_GE, load(x, x->rows, row_at(x, lane(x), i)), none)));
  tc_kb_end_for(x->b, 1, &n, &out);
  store(x, x->counts, lane(x), out, -1);
  tc_kb_end_lanes(x->b, 0, NULL, NULL);
  tc_kb_barrier(x->b);
}

// Returns which half has the sums up to each lane.
static int32_t sum_counts(shares *x) {
  int32_t from = 0;
  for (int32_t step = 1; step < x->lanes; step *= 2, from ^= 1) {
    tc_kb_lanes(x->b);
    tc_kval at = add(x, lane(x), i64(x, (int64_t)from * x->lanes));
    tc_kval behind = op2(x, TC_K_GE, lane(x), i64(x, step)), zero = tc_kb_int(x->b, TC_I32, 0);
    tc_kval before = tc_kb_load1(x->b, x->counts, op2(x, TC_K_SUB, at, i64(x, step)), behind, zero);
    store(x, x->counts, add(x, lane(x), i64(x, (int64_t)(from ^ 1) * x->lanes)), add(x, load(x, x->counts, at), before),
          -1);
    tc_kb_end_lanes(x->b, 0, NULL, NULL);
    tc_kb_barrier(x->b);
  }
  return from;
}

static void make_list(shares *x, tc_kval k0, int32_t sums) {
  tc_kval zero = tc_kb_int(x->b, TC_I32, 0), at, out;
  tc_kb_lanes(x->b);
  tc_kval last = add(x, lane(x), i64(x, (int64_t)sums * x->lanes - 1)), behind = op2(x, TC_K_GT, lane(x), i64(x, 0));
  tc_kval first = tc_kb_load1(x->b, x->counts, last, behind, zero);
  tc_kval i = each_of_lane(x, &first, &at), k = add(x, op2(x, TC_K_MUL, lane(x), i64(x, x->per_lane)), i);
  tc_kval row = load(x, x->rows, row_at(x, lane(x), i)), own = op2(x, TC_K_GE, row, zero);
  tc_kval to = tc_kb_cast(x->b, TC_I64, at), bits = tc_kb_int(x->b, TC_I32, NUMBER_BITS);
  tc_kval both = op2(x, TC_K_OR, op2(x, TC_K_SHL, row, bits), tc_kb_cast(x->b, TC_I32, k));
  store(x, x->list, to, both, own);
  if (!x->across) {
    tc_kval v = tc_kb_cast(x->b, x->t->type, tc_scatter_load(x->t, 2, add(x, k0, k), own));
    store(x, x->values, to, v, own);
  }
  at = add(x, at, tc_kb_cast(x->b, TC_I32, own));
  tc_kb_end_for(x->b, 1, &at, &out);
  tc_kb_end_lanes(x->b, 0, NULL, NULL);
  tc_kb_barrier(x->b);
}

typedef struct entry {
  tc_kval k, row; // number in the chunk, row less lo
} entry;

static entry entry_at(shares *x, tc_kval j) {
  tc_kval both = tc_kb_cast(x->b, TC_I64, load(x, x->list, j));
  return (entry){op2(x, TC_K_AND, both, i64(x, (1 << NUMBER_BITS) - 1)), op2(x, TC_K_SHR, both, i64(x, NUMBER_BITS))};
}

// n entries from j on. Of rows that differ all elements are loaded before the first is written.
static void write_entries(shares *x, tc_kval k0, tc_kval j, int32_t n) {
  tc_scatter *t = x->t;
  tc_kval at[AT_ONCE], v[AT_ONCE], old[AT_ONCE], mask;
  bool sets = tc_stage_attr(t->s, TC_SCATTER_KIND, TC_SCATTER_SET) == TC_SCATTER_SET;
  for (int32_t i = 0; i < x->strips; i++) {
    t->column[t->rank - 1] = column_of(x, i, &mask);
    for (int32_t u = 0; u < n; u++) {
      entry e = entry_at(x, add(x, j, i64(x, u)));
      at[u] = add(x, x->lo, e.row);
      v[u] = tc_kb_cast(x->b, t->type, tc_scatter_load(t, 2, add(x, k0, e.k), mask));
    }
    for (int32_t u = 0; u < n && !sets; u++) t->column[0] = at[u], old[u] = tc_stage_result_load(t->s, t->column, mask);
    for (int32_t u = 0; u < n; u++) {
      t->column[0] = at[u];
      tc_stage_result_store(t->s, t->column, sets ? v[u] : tc_scatter_combine(t, old[u], v[u]), mask);
    }
  }
}

static tc_kval all_differ(shares *x, tc_kval j) {
  tc_kval row[AT_ONCE], differ = -1;
  for (int32_t u = 0; u < AT_ONCE; u++) {
    row[u] = entry_at(x, add(x, j, i64(x, u))).row;
    for (int32_t w = 0; w < u; w++) {
      tc_kval ne = op2(x, TC_K_NE, row[u], row[w]);
      differ = differ < 0 ? ne : op2(x, TC_K_AND, differ, ne);
    }
  }
  return differ;
}

static void write_one_by_one(shares *x, tc_kval k0, tc_kval from, tc_kval to) {
  write_entries(x, k0, tc_kb_for(x->b, from, to, 1, 0, 0, NULL, NULL), 1);
  tc_kb_end_for(x->b, 0, NULL, NULL);
}

static void write_across(shares *x, tc_kval k0, tc_kval n) {
  tc_kval whole = op2(x, TC_K_SUB, n, op2(x, TC_K_REM, n, i64(x, AT_ONCE)));
  tc_kval j = tc_kb_for(x->b, i64(x, 0), whole, AT_ONCE, 0, 0, NULL, NULL);
  tc_kb_if(x->b, all_differ(x, j));
  write_entries(x, k0, j, AT_ONCE);
  tc_kb_else(x->b, 0, NULL);
  write_one_by_one(x, k0, j, add(x, j, i64(x, AT_ONCE)));
  tc_kb_end_if(x->b, 0, NULL, NULL);
  tc_kb_end_for(x->b, 0, NULL, NULL);
  write_one_by_one(x, k0, whole, n);
}

static void take_own(shares *x, tc_kval n) {
  tc_kval before = load(x, x->mine, i64(x, 0)), old, out;
  tc_kval j = tc_kb_for(x->b, i64(x, 0), n, 1, 0, 1, &before, &old);
  tc_kval own = op2(x, TC_K_EQ, entry_at(x, j).row, lane(x)), v = tc_scatter_combine(x->t, old, load(x, x->values, j));
  old = tc_kb_op3(x->b, TC_K_SELECT, own, v, old);
  tc_kb_end_for(x->b, 1, &old, &out);
  store(x, x->mine, i64(x, 0), out, -1);
}

static void write_list(shares *x, tc_kval k0, int32_t sums) {
  tc_kb_lanes(x->b);
  tc_kval last = i64(x, (int64_t)sums * x->lanes + x->lanes - 1),
          n = tc_kb_cast(x->b, TC_I64, load(x, x->counts, last));
  if (x->across) write_across(x, k0, n);
  else take_own(x, n);
  tc_kb_end_lanes(x->b, 0, NULL, NULL);
  tc_kb_barrier(x->b);
}

void tc_scatter_emit_shares(tc_scatter *t, const tc_stage_config *c) {
  shares x = {.t = t, .b = t->b, .across = c->params[0] != 0, .lanes = c->lanes, .strips = (int32_t)c->params[1]};
  tc_kb *b = t->b;
  x.per_lane = (int32_t)c->params[TC_SCATTER_PER_LANE];
  x.chunk = x.lanes * x.per_lane;
  x.counts = tc_kb_shared(b, (tc_sv){"counts", 6}, TC_I32, (int64_t)2 * x.lanes);
  x.list = tc_kb_shared(b, (tc_sv){"list", 4}, TC_I32, x.chunk);
  x.rows = tc_kb_shared(b, (tc_sv){"rows", 4}, TC_I32, (int64_t)x.lanes * (x.per_lane + 1));
  if (!x.across) {
    x.values = tc_kb_shared(b, (tc_sv){"values", 6}, t->type, x.chunk);
    x.mine = tc_kb_lane_array(b, (tc_sv){"mine", 4}, t->type, 1);
  }
  x.lo = tc_stage_origin(t->s, 0);
  x.hi = op2(&x, TC_K_MIN, add(&x, x.lo, i64(&x, c->params[TC_SCATTER_SHARE])), t->n);
  x.m = tc_stage_operand_extent(t->s, 1, 0);
  copy_share(&x);
  tc_kval k0 = tc_kb_for(b, i64(&x, 0), x.m, x.chunk, 0, 0, NULL, NULL);
  if (x.across) t->column[t->rank - 1] = tc_stage_origin(t->s, t->rank - 1);
  look(&x, k0);
  count(&x);
  int32_t sums = sum_counts(&x);
  make_list(&x, k0, sums);
  write_list(&x, k0, sums);
  tc_kb_end_for(b, 0, NULL, NULL);
  if (x.across) return;
  tc_kb_lanes(b);
  tc_kval at = add(&x, x.lo, lane(&x));
  t->column[0] = at;
  tc_stage_result_store(t->s, t->column, load(&x, x.mine, i64(&x, 0)), op2(&x, TC_K_LT, at, t->n));
  tc_kb_end_lanes(b, 0, NULL, NULL);
}
