// The sum over all paths through a sequence of states, as logarithms: of connectionist temporal classification (Graves
// et al., 2006, equations 6 and 7). At each step a path stays, goes to the next state, or, where that is allowed, to
// the one behind it; a path begins in state 0 or 1:
//
//   a[t, s] = log(exp a[t-1, s] + exp a[t-1, s-1] + (jumps[s] ? exp a[t-1, s-2] : 0)) + x[t, s]
//
// A block makes one sequence, step by step: lanes are states, and take the step before from the result. Relative to the
// largest of the three, so that nothing overflows; a state that no path reaches has -inf.
//
// Operands: 0 x [n, steps, states], f32 or f64; 1 jumps [n, states], bool. Result: like x.
#include <stdbool.h>

#include "core/kernel/templates/templates.h"

#include "tc/plugin.h"

enum { SEQUENCE, STEP, STATE, RANK, MOST_LANES = 256, WAYS = 3 };

static int32_t candidates(const tc_stage *s, int32_t max, tc_stage_config *out, int32_t *out_n) {
  const tc_device_props *dev = tc_stage_device(s);
  *out_n = 0;
  if (max < 1 || tc_stage_rank(s) != RANK) return TC_STATUS_OK;
  int64_t states = tc_stage_out_hint(s, STATE);
  int32_t lanes = dev->simd_bytes ? dev->simd_bytes / 4 : MOST_LANES;
  if (dev->max_lanes && lanes > dev->max_lanes) lanes = dev->max_lanes;
  while (lanes > 4 && lanes / 2 >= states) lanes /= 2;
  *out_n = 1;
  out[0] = (tc_stage_config){.lanes = lanes, .tile = {1, 0, 0}};
  out[0].cost = 20.0 * (double)tc_stage_out_hint(s, SEQUENCE) * (double)tc_stage_out_hint(s, STEP) * (double)states;
  return TC_STATUS_OK;
}

typedef struct paths {
  tc_stage *s;
  tc_kb *b;
  tc_dtype type;
  tc_kval sequence, least, zero;
} paths;

static tc_kval i64(paths *p, int64_t v) { return tc_kb_int(p->b, TC_I64, v); }
static tc_kval op2(paths *p, int32_t op, tc_kval x, tc_kval y) { return tc_kb_op2(p->b, op, x, y); }
static tc_kval pick(paths *p, tc_kval c, tc_kval x, tc_kval y) { return tc_kb_op3(p->b, TC_K_SELECT, c, x, y); }

// What the step before has `back` states before; in front of the first step all paths are at state 0.
static tc_kval before(paths *p, tc_kval step, tc_kval state, int64_t back, tc_kval allowed) {
  tc_kval from = op2(p, TC_K_SUB, state, i64(p, back)), none = i64(p, 0);
  tc_kval there = op2(p, TC_K_AND, allowed, op2(p, TC_K_GE, from, none));
  tc_kval later = op2(p, TC_K_AND, there, op2(p, TC_K_GT, step, none));
  tc_kval index[RANK] = {p->sequence, op2(p, TC_K_MAX, op2(p, TC_K_SUB, step, i64(p, 1)), none),
                         op2(p, TC_K_MAX, from, none)};
  tc_kval start = op2(p, TC_K_AND, there, op2(p, TC_K_EQ, from, none));
  tc_kval first = pick(p, start, p->zero, p->least);
  tc_kval old = pick(p, later, tc_stage_result_load(p->s, index, later), p->least);
  return pick(p, op2(p, TC_K_GT, step, none), old, first);
}

static tc_kval log_sum(paths *p, const tc_kval v[WAYS]) {
  tc_kval top = op2(p, TC_K_MAX, op2(p, TC_K_MAX, v[0], v[1]), v[2]), sum = -1;
  top = pick(p, op2(p, TC_K_EQ, top, p->least), p->zero, top);
  for (int32_t i = 0; i < WAYS; i++) {
    tc_kval e = tc_kb_op1(p->b, TC_K_EXP, op2(p, TC_K_SUB, v[i], top));
    sum = i ? op2(p, TC_K_ADD, sum, e) : e;
  }
  return op2(p, TC_K_ADD, tc_kb_op1(p->b, TC_K_LOG, sum), top);
}

static int32_t emit(tc_stage *s, const tc_stage_config *c) {
  paths p = {.s = s, .b = tc_stage_builder(s), .type = tc_stage_dtype(s), .sequence = tc_stage_origin(s, SEQUENCE)};
  tc_kb *b = p.b;
  tc_kval states = tc_stage_extent(s, STATE), steps = tc_stage_extent(s, STEP);
  p.least = tc_kb_real(b, p.type, -__builtin_inf());
  p.zero = tc_kb_real(b, p.type, 0);
  tc_kval step = tc_kb_for(b, i64(&p, 0), steps, 1, 0, 0, NULL, NULL);
  tc_kb_lanes(b);
  tc_kval base = tc_kb_for(b, i64(&p, 0), states, c->lanes, 0, 0, NULL, NULL);
  tc_kval state = op2(&p, TC_K_ADD, base, tc_kb_cast(b, TC_I64, tc_kb_lane(b)));
  tc_kval inside = op2(&p, TC_K_LT, state, states), way[WAYS];
  tc_kval at[RANK] = {p.sequence, step, state}, jump[2] = {p.sequence, state};
  tc_kval may = op2(&p, TC_K_AND, inside, tc_stage_load(s, 1, jump, inside));
  for (int32_t i = 0; i < WAYS; i++) way[i] = before(&p, step, state, i, i == WAYS - 1 ? may : inside);
  tc_kval x = tc_kb_cast(b, p.type, tc_stage_load(s, 0, at, inside));
  tc_stage_result_store(s, at, op2(&p, TC_K_ADD, log_sum(&p, way), x), inside);
  tc_kb_end_for(b, 0, NULL, NULL);
  tc_kb_end_lanes(b, 0, NULL, NULL);
  tc_kb_barrier(b);
  tc_kb_end_for(b, 0, NULL, NULL);
  return TC_STATUS_OK;
}

const tc_template_table tc_template_ctc = {
    .struct_size = sizeof(tc_template_table),
    .name = {"ctc", 3},
    .candidates = candidates,
    .emit = emit,
    .flops = "10 * out.numel",
    .flags = TC_TEMPLATE_OWN_RESULT,
};
