// Elements written to positions that come from data, in order, each once: out = self, then for k = 0, 1, …:
// out[p[k, …], …] = values[k, …], or its sum, product or extreme with what is there.
//
// A block owns whole columns (the first dimension is the one that positions count in), so there are no atomics, the
// result does not depend on timing, and the cost is what is copied plus what is written. Across: lanes are neighbouring
// columns, and a block has several strips of them, so that what is copied lies together. Along: a block has one column;
// lanes copy it, then the first writes.
//
// Where lanes are threads and positions are many, scatter_shares.c is the way.
//
// Operands: 0 self [n, …], 1 positions [m, …], 2 values [m, …]. attrs: 0 kind (TC_SCATTER_*), 1 across (2: positions
// are the same for all columns), 2 what negative positions mean (TC_NEGATIVE_*). What is out of range is an error.
// params: 0 across, 1 strips, 2 and 3 see scatter.h.
#include "core/kernel/templates/scatter.h"

#include "core/ir/opargs.h"

enum { STRIPS = 8 };

static int32_t candidates(const tc_stage *s, int32_t max, tc_stage_config *out, int32_t *out_n) {
  const tc_device_props *dev = tc_stage_device(s);
  int32_t r = tc_stage_rank(s);
  *out_n = 0;
  if (r < 1 || max < 1) return TC_STATUS_OK;
  if (tc_scatter_in_shares(s, out)) {
    *out_n = 1;
    return TC_STATUS_OK;
  }
  bool across = tc_scatter_is_across(s);
  int32_t lanes = dev->simd_bytes ? dev->simd_bytes / 4 : 128;
  if (dev->max_lanes && lanes > dev->max_lanes) lanes = dev->max_lanes;
  while (across && lanes > 4 && lanes / 2 >= tc_stage_out_hint(s, r - 1)) lanes /= 2;
  tc_stage_config *c = &out[(*out_n)++];
  int64_t strips = across && dev->simd_bytes ? (tc_stage_out_hint(s, r - 1) + lanes - 1) / lanes : 1;
  if (strips > STRIPS) strips = STRIPS;
  *c = (tc_stage_config){.lanes = lanes, .params = {across, strips < 1 ? 1 : strips}};
  c->cost = 0.5 * (double)tc_stage_out_hint(s, 0) + 2.0 * (double)tc_stage_operand_hint(s, 1, 0);
  for (int32_t i = 1; i < r; i++) {
    c->tile[i] = across && i == r - 1 ? lanes * c->params[1] : 1;
    c->cost *= (double)tc_stage_out_hint(s, i) / (across && i == r - 1 ? lanes : 1);
  }
  return TC_STATUS_OK;
}

static tc_kval i64(tc_scatter *t, int64_t v) { return tc_scatter_i64(t, v); }
static tc_kval op2(tc_scatter *t, int32_t op, tc_kval x, tc_kval y) { return tc_kb_op2(t->b, op, x, y); }
static tc_kval and_mask(tc_scatter *t, tc_kval x, tc_kval y) { return x < 0 ? y : y < 0 ? x : op2(t, TC_K_AND, x, y); }

bool tc_scatter_is_across(const tc_stage *s) { return tc_stage_attr(s, TC_SCATTER_ACROSS, 0) && tc_stage_rank(s) > 1; }

tc_kval tc_scatter_load(tc_scatter *t, int32_t operand, tc_kval at, tc_kval mask) {
  t->column[0] = at;
  return tc_stage_load(t->s, operand, t->column, mask);
}

tc_kval tc_scatter_self(tc_scatter *t, tc_kval at, tc_kval mask) {
  return tc_kb_cast(t->b, t->type, tc_scatter_load(t, 0, at, mask));
}

void tc_scatter_copy(tc_scatter *t, tc_kval at, tc_kval mask) {
  tc_kval v = tc_scatter_self(t, at, mask);
  tc_stage_result_store(t->s, t->column, v, mask);
}

tc_kval tc_scatter_combine(tc_scatter *t, tc_kval old, tc_kval v) {
  static const int32_t numbers[] = {[TC_SCATTER_ADD] = TC_K_ADD,
                                    [TC_SCATTER_MUL] = TC_K_MUL,
                                    [TC_SCATTER_MAX] = TC_K_MAX,
                                    [TC_SCATTER_MIN] = TC_K_MIN};
  static const int32_t bools[] = {
      [TC_SCATTER_ADD] = TC_K_OR, [TC_SCATTER_MUL] = TC_K_AND, [TC_SCATTER_MAX] = TC_K_OR, [TC_SCATTER_MIN] = TC_K_AND};
  int64_t kind = tc_stage_attr(t->s, TC_SCATTER_KIND, TC_SCATTER_SET);
  return kind == TC_SCATTER_SET ? v : op2(t, t->type == TC_BOOL ? bools[kind] : numbers[kind], old, v);
}

tc_kval tc_scatter_position(tc_scatter *t, tc_kval k, tc_kval mask, tc_kval *out_inside) {
  tc_kb *b = t->b;
  tc_kval zero = i64(t, 0), p = tc_kb_cast(b, TC_I64, tc_scatter_load(t, 1, k, mask));
  int64_t negative = tc_stage_attr(t->s, TC_SCATTER_NEGATIVE, TC_NEGATIVE_ERROR);
  if (negative == TC_NEGATIVE_WRAPS)
    p = tc_kb_op3(b, TC_K_SELECT, op2(t, TC_K_LT, p, zero), op2(t, TC_K_ADD, p, t->n), p);
  tc_kval inside = op2(t, TC_K_AND, op2(t, TC_K_GE, p, zero), op2(t, TC_K_LT, p, t->n)), fine = inside;
  if (negative == TC_NEGATIVE_LEFT_OUT) fine = op2(t, TC_K_OR, fine, op2(t, TC_K_EQ, p, i64(t, INT64_MIN)));
  tc_stage_check(t->s, mask < 0 ? fine : op2(t, TC_K_OR, fine, tc_kb_op1(b, TC_K_NOT, mask)), "index out of range");
  *out_inside = and_mask(t, mask, inside);
  return p;
}

// out[p[k]] = … . `column` masks what is read, `writer` what is written besides.
static void write_one(tc_scatter *t, tc_kval k, tc_kval column, tc_kval writer) {
  tc_kval inside, p = tc_scatter_position(t, k, column, &inside);
  tc_kval at = op2(t, TC_K_MAX, op2(t, TC_K_MIN, p, op2(t, TC_K_SUB, t->n, i64(t, 1))), i64(t, 0));
  tc_kval v = tc_kb_cast(t->b, t->type, tc_scatter_load(t, 2, k, column));
  t->column[0] = at;
  if (tc_stage_attr(t->s, TC_SCATTER_KIND, TC_SCATTER_SET) != TC_SCATTER_SET)
    v = tc_scatter_combine(t, tc_stage_result_load(t->s, t->column, inside), v);
  tc_stage_result_store(t->s, t->column, v, and_mask(t, inside, writer));
}

static void strips(tc_scatter *t, const tc_stage_config *c, tc_kval lane) {
  tc_kb *b = t->b;
  int32_t last = t->rank - 1;
  tc_kval first = t->column[last], inside[STRIPS], column[STRIPS];
  for (int64_t i = 0; i < c->params[1]; i++) {
    column[i] = op2(t, TC_K_ADD, op2(t, TC_K_ADD, first, i64(t, i * c->lanes)), lane);
    inside[i] = tc_stage_exact(t->s, last) ? -1 : op2(t, TC_K_LT, column[i], tc_stage_extent(t->s, last));
  }
  tc_kval at = tc_kb_for(b, i64(t, 0), t->n, 1, 0, 0, NULL, NULL);
  for (int64_t i = 0; i < c->params[1]; i++) {
    t->column[last] = column[i];
    tc_scatter_copy(t, at, inside[i]);
  }
  tc_kb_end_for(b, 0, NULL, NULL);
  at = tc_kb_for(b, i64(t, 0), tc_stage_operand_extent(t->s, 1, 0), 1, 0, 0, NULL, NULL);
  for (int64_t i = 0; i < c->params[1]; i++) {
    t->column[last] = column[i];
    write_one(t, at, inside[i], -1);
  }
  tc_kb_end_for(b, 0, NULL, NULL);
}

static int32_t emit(tc_stage *s, const tc_stage_config *c) {
  tc_scatter t = {.s = s, .b = tc_stage_builder(s), .rank = tc_stage_rank(s), .type = tc_stage_dtype(s)};
  tc_kb *b = t.b;
  t.n = tc_stage_extent(s, 0);
  for (int32_t i = 1; i < t.rank; i++) t.column[i] = tc_stage_origin(s, i);
  if (c->params[TC_SCATTER_SHARE]) {
    tc_scatter_emit_shares(&t, c);
    return TC_STATUS_OK;
  }
  tc_kb_lanes(b);
  tc_kval lane = tc_kb_cast(b, TC_I64, tc_kb_lane(b));
  if (c->params[0]) {
    strips(&t, c, lane);
  } else {
    tc_kval at = op2(&t, TC_K_ADD, tc_kb_for(b, i64(&t, 0), t.n, c->lanes, 0, 0, NULL, NULL), lane);
    tc_scatter_copy(&t, at, op2(&t, TC_K_LT, at, t.n));
    tc_kb_end_for(b, 0, NULL, NULL);
    tc_kb_end_lanes(b, 0, NULL, NULL);
    tc_kb_barrier(b);
    tc_kb_lanes(b);
    tc_kval first = op2(&t, TC_K_EQ, tc_kb_lane(b), tc_kb_int(b, TC_I32, 0));
    write_one(&t, tc_kb_for(b, i64(&t, 0), tc_stage_operand_extent(s, 1, 0), 1, 0, 0, NULL, NULL), -1, first);
    tc_kb_end_for(b, 0, NULL, NULL);
  }
  tc_kb_end_lanes(b, 0, NULL, NULL);
  return TC_STATUS_OK;
}

const tc_template_table tc_template_scatter = {
    .struct_size = sizeof(tc_template_table),
    .name = {"scatter", 7},
    .candidates = candidates,
    .emit = emit,
    .flops = "in2.numel",
    .flags = TC_TEMPLATE_OWN_RESULT,
};
