// Panels of b that the blocks of a product pack for themselves (matmul.c): b lies in memory as […, K, N] or […, N, K],
// and a panel of it is made in memory of the block's own, which holds one panel at a time. No run has memory for all of
// b packed then; blocks of other rows pack the panel again, so they have many rows.
//
// Where rows of b are runs of memory they are copied. Where columns are, lanes are columns and each loads several
// neighbours of its own, which the code generator turns in registers. Complex numbers lie as two planes, and two rows
// of 16-bit numbers as one of pairs.
#include "core/kernel/templates/matmul.h"
#include "core/tensor/tensor.h"

static tc_dtype sums_of(const tc_stage *s) { return tc_template_sums(tc_stage_dtype(s)); }

// Of what sums, or their two planes, are, and an element of a panel.
static tc_dtype plane_of(const tc_stage *s) {
  tc_dtype d = sums_of(s);
  return d == TC_C64 ? TC_F32 : d == TC_C128 ? TC_F64 : d;
}
static tc_dtype part_of(const tc_stage *s) { return tc_matmul_in_pairs(s) ? TC_I32 : plane_of(s); }
static int32_t parts_of(const tc_stage *s) { return sums_of(s) >= TC_C32 ? 2 : 1; }
// Rows of b that one of a panel holds.
static int64_t rows_of(const tc_stage *s) { return tc_matmul_in_pairs(s) ? 2 : 1; }

int64_t tc_matmul_own_bytes(const tc_stage *s, int64_t depth) {
  int64_t n = tc_stage_out_size(s, tc_stage_rank(s) - 1);
  return depth < 0 || depth > INT32_MAX || n < tc_matmul_panel(s)
             ? -1
             : depth / rows_of(s) * tc_matmul_panel(s) * parts_of(s) * tc_dtype_size(part_of(s));
}

static tc_matmul_own make(tc_stage *s, const tc_sv *names, tc_dtype part, int64_t rows) {
  tc_matmul_own o = {.parts = parts_of(s)};
  int64_t count = rows * tc_matmul_panel(s);
  for (int32_t i = 0; i < o.parts; i++)
    o.part[i] = tc_kb_shared(tc_stage_builder(s), names[i], part, count > 0 ? count : 1);
  return o;
}

tc_matmul_own tc_matmul_own_make(tc_stage *s, int64_t depth) {
  static const tc_sv names[] = {{"panel", 5}, {"panel_i", 7}};
  return make(s, names, part_of(s), depth / rows_of(s));
}

tc_matmul_own tc_matmul_own_sums(tc_stage *s, int64_t rows) {
  static const tc_sv names[] = {{"sums", 4}, {"sums_i", 6}};
  return make(s, names, plane_of(s), rows);
}

int64_t tc_matmul_own_sum_bytes(const tc_stage *s, int64_t rows) {
  return rows * tc_matmul_panel(s) * parts_of(s) * tc_dtype_size(plane_of(s));
}

tc_kval tc_matmul_own_load(tc_stage *s, const tc_matmul_own *o, tc_kval k, tc_kval column) {
  tc_kb *b = tc_stage_builder(s);
  tc_kval at = tc_kb_op2(b, TC_K_ADD, tc_kb_op2(b, TC_K_MUL, k, tc_kb_int(b, TC_I64, tc_matmul_panel(s))), column);
  tc_kval v = tc_kb_load1(b, o->part[0], at, -1, -1);
  return o->parts == 1 ? v : tc_kb_op2(b, TC_K_COMPLEX, v, tc_kb_load1(b, o->part[1], at, -1, -1));
}

void tc_matmul_own_store(tc_stage *s, const tc_matmul_own *o, tc_kval k, tc_kval column, tc_kval v, tc_kval mask) {
  tc_kb *b = tc_stage_builder(s);
  tc_kval at = tc_kb_op2(b, TC_K_ADD, tc_kb_op2(b, TC_K_MUL, k, tc_kb_int(b, TC_I64, tc_matmul_panel(s))), column);
  for (int32_t i = 0; i < o->parts; i++) {
    tc_kval part = o->parts == 1 ? v : tc_kb_op1(b, i ? TC_K_IMAG : TC_K_REAL, v);
    tc_kb_store(b, o->part[i], at, 1, &part, mask);
  }
}

tc_kval tc_matmul_pair(tc_kb *b, const tc_kval half[2]) {
  tc_kval bits[2];
  for (int32_t i = 0; i < 2; i++)
    bits[i] = tc_kb_cast(b, TC_I32, tc_kb_bitcast(b, TC_U16, tc_kb_cast(b, TC_BF16, half[i])));
  return tc_kb_op2(b, TC_K_OR, bits[0], tc_kb_op2(b, TC_K_SHL, bits[1], tc_kb_int(b, TC_I32, 16)));
}

// Neighbours that a lane loads at once: what a vector has, as far as vectors of lanes can be turned.
enum { MOST = 16 }; // of which one makes an element of the panel; twice as many, where two do
static int32_t run_of(const tc_stage *s, int32_t lanes) {
  int64_t bytes = tc_dtype_size(tc_stage_operand_dtype(s, 1)), run = tc_stage_device(s)->simd_bytes / bytes;
  if (run > MOST * rows_of(s)) run = MOST * rows_of(s);
  while (run > 1 && lanes % run != 0) run /= 2;
  return tc_matmul_turned(s) && run > 1 ? (int32_t)run : 1;
}

// Rows of b behind the first one `begin`, `step` at a time, of which a lane loads `run` at once. `shift`: columns that
// are of the panel before, or -1; as many zeros lie behind the others.
static void rows(tc_stage *s, const tc_stage_config *c, const tc_matmul_own *o, tc_kval *index, tc_kval first,
                 tc_kval begin, tc_kval from, tc_kval to, int32_t step, int32_t run, tc_kval shift) {
  tc_kb *b = tc_stage_builder(s);
  int32_t r = tc_stage_rank(s), each = (int32_t)rows_of(s);
  bool turned = tc_matmul_turned(s);
  tc_kval v[2 * MOST], lane = tc_kb_cast(b, TC_I64, tc_kb_lane(b)),
                       nothing = tc_template_zero(b, each > 1 ? TC_I32 : sums_of(s));
  tc_kval k = tc_kb_for(b, from, to, step, 0, 0, NULL, NULL), row = k;
  if (each > 1) row = tc_kb_op2(b, TC_K_DIV, k, tc_kb_int(b, TC_I64, each));
  for (int64_t col = 0; col < tc_matmul_panel(s); col += c->lanes) {
    tc_kval column = tc_kb_op2(b, TC_K_ADD, lane, tc_kb_int(b, TC_I64, col)), here = column, mask = -1;
    tc_kval there = tc_kb_op2(b, TC_K_ADD, first, column);
    for (int32_t i = 0; i < step; i += run) {
      tc_kval at = tc_kb_op2(b, TC_K_ADD, begin, tc_kb_op2(b, TC_K_ADD, k, tc_kb_int(b, TC_I64, i)));
      index[r - 2] = turned ? there : at, index[r - 1] = turned ? at : there;
      tc_stage_load_n(s, 1, index, run, -1, v + i);
    }
    if (shift >= 0) here = tc_kb_op2(b, TC_K_SUB, column, shift), mask = tc_kb_op2(b, TC_K_LE, shift, column);
    tc_kval behind = shift < 0 ? -1 : tc_kb_op2(b, TC_K_ADD, here, tc_kb_int(b, TC_I64, tc_matmul_panel(s)));
    tc_kval before = shift < 0 ? -1 : tc_kb_op2(b, TC_K_LT, column, shift);
    for (int32_t i = 0; i < step; i += each) {
      tc_kval at = tc_kb_op2(b, TC_K_ADD, row, tc_kb_int(b, TC_I64, i / each));
      tc_matmul_own_store(s, o, at, here, each > 1 ? tc_matmul_pair(b, v + i) : tc_kb_cast(b, sums_of(s), v[i]), mask);
      if (shift >= 0) tc_matmul_own_store(s, o, at, behind, nothing, before);
    }
  }
  tc_kb_end_for(b, 0, NULL, NULL);
}

void tc_matmul_own_pack(tc_stage *s, const tc_stage_config *c, const tc_matmul_own *o, const tc_kval *batch,
                        tc_kval panel, tc_kval begin, int64_t depth) {
  tc_kb *b = tc_stage_builder(s);
  int32_t r = tc_stage_rank(s), run = run_of(s, c->lanes), each = (int32_t)rows_of(s), step = run > each ? run : each;
  int64_t whole = depth / step * step, width = tc_matmul_panel(s);
  int64_t n = tc_stage_out_size(s, r - 1);
  tc_kval index[TC_MAX_RANK + 1], zero = tc_kb_int(b, TC_I64, 0), main = tc_kb_int(b, TC_I64, whole);
  tc_kval first = tc_kb_op2(b, TC_K_MUL, panel, tc_kb_int(b, TC_I64, width));
  tc_kval end = tc_kb_int(b, TC_I64, n - width), shift = tc_kb_op2(b, TC_K_SUB, first, end);
  for (int32_t i = 0; i < r - 2; i++) index[i] = batch[i];
  // The last panel may have columns behind the last one, which are zero: then the last `width` columns are loaded.
  for (int32_t last = 0; last <= (n % width != 0); last++) {
    if (n % width != 0) tc_kb_if(b, last ? tc_kb_op2(b, TC_K_LT, end, first) : tc_kb_op2(b, TC_K_LE, first, end));
    tc_kval from = last ? end : first, over = last ? shift : -1;
    if (whole) rows(s, c, o, index, from, begin, zero, main, step, run, over);
    if (whole < depth) rows(s, c, o, index, from, begin, main, tc_kb_int(b, TC_I64, depth), each, 1, over);
    if (n % width != 0) tc_kb_end_if(b, 0, NULL, NULL);
  }
}
