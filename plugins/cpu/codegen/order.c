// The order of instructions that have none but that of their operands.
//
// The core writes one function of an element after the other, each a chain of operations that wait for the one before.
// A processor looks some hundred operations ahead, and where a group of lanes takes several registers of each it hardly
// sees the end of one chain and the start of the next together. So what would wait lets what comes later go first, as
// long as there are registers: 16 elements of gelu(x) · sigmoid(y) take 24 cycles of an Ice Lake, 26 in the text's
// order.
//
// This is list scheduling of a straight run of instructions: two operations start in each cycle, the text's order
// counts, and the first instruction that would not wait is next. Loads never wait, since the processor starts them
// early enough by itself, but for tables, which are in registers.
#include <stdlib.h>

#include "codegen.h"

enum {
  LEAST = 8,     // instructions of a run that is worth a look
  WINDOW = 64,   // instructions of the text that are looked at
  PORTS = 2,     // operations that start in a cycle
  LATENCY = 4,   // cycles of an operation on reals,
  QUOTIENT = 14, // of a division or a root
  GAIN = 10      // 1/GAIN of the time must be gained, or the text's order stays
};

// Times are in steps of 1/PORTS cycle.
typedef struct step {
  tc_kinst in;
  int32_t registers; // of the result
  int32_t takes, latency;
  int32_t ready; // when the result is there
  bool issued;
} step;

typedef struct order {
  const cg *g;
  int32_t n, now, live, most; // live: registers; most of them
  step *steps;
  int32_t *uses;  // by value: in what is left of the run
  int32_t *maker; // by value: 1 + step of the run, 0: none of it
} order;

static tc_kvalue info_of(const cg *g, tc_kval v) {
  tc_kvalue info;
  tc_k_value(g->k, v, &info);
  return info;
}

static int32_t in_registers(const cg *g, tc_kval v) {
  tc_kvalue info = info_of(g, v);
  if (!info.varying || (info.dtype == TC_BOOL && g->avx512)) return 0;
  int32_t n = g->lanes * (info.dtype == TC_BOOL ? 4 : cg_bits(info.dtype) / 8) / g->vector_bytes;
  return n > 0 ? n : 1;
}

// What is known as base and stride, a place in memory, takes none.
static int32_t registers_of(const order *o, tc_kval v) {
  int32_t m = o->maker[v];
  return m > 0 ? o->steps[m - 1].registers : o->g->vals[v].base ? 0 : in_registers(o->g, v);
}

static step step_of(const cg *g, int32_t number) {
  step s = {0};
  tc_k_inst(g->k, number, &s.in);
  if (s.in.n_results == 0) return s;
  tc_kvalue info = info_of(g, *s.in.results);
  bool real = cg_is_float(info.dtype), place = !real && s.in.op <= TC_K_MUL;
  s.registers = place ? 0 : s.in.n_results * in_registers(g, *s.in.results);
  bool memory = s.in.op == TC_K_LOAD && g->mems[s.in.mem].info.space != TC_SPACE_TABLE;
  if (!info.varying || place || memory || s.in.op == TC_K_BITCAST || s.in.op == TC_K_CONST) return s;
  bool quotient = s.in.op == TC_K_DIV || s.in.op == TC_K_SQRT || s.in.op == TC_K_REM;
  s.takes = (s.registers > 0 ? s.registers : 1) * (quotient ? 4 : 1);
  s.latency = PORTS * (quotient ? QUOTIENT : real ? LATENCY : 1);
  return s;
}

// When its operands are there; -1: one is not made yet.
static int32_t start_of(const order *o, const step *s) {
  int32_t at = 0;
  for (int32_t i = 0; i < s->in.n_args; i++) {
    int32_t m = o->maker[s->in.args[i]];
    if (m == 0) continue;
    if (!o->steps[m - 1].issued) return -1;
    if (o->steps[m - 1].ready > at) at = o->steps[m - 1].ready;
  }
  return at;
}

// Registers that are free once it is issued.
static int32_t freed_by(const order *o, const step *s) {
  int32_t n = 0;
  for (int32_t i = 0; i < s->in.n_args; i++) {
    int32_t before = 0, here = 0;
    for (int32_t j = 0; j < s->in.n_args; j++) {
      bool same = s->in.args[j] == s->in.args[i];
      here += same, before += same && j < i;
    }
    if (!before && o->uses[s->in.args[i]] == here) n += registers_of(o, s->in.args[i]);
  }
  return n;
}

static int32_t next_of(const order *o, int32_t first) {
  if (start_of(o, &o->steps[first]) <= o->now) return first;
  for (int32_t i = first + 1; i < o->n && i < first + WINDOW; i++) {
    const step *s = &o->steps[i];
    if (s->issued) continue;
    int32_t at = start_of(o, s);
    if (at < 0 || at > o->now) continue;
    int32_t more = s->registers - freed_by(o, s);
    if (more <= 0 || o->live + more <= o->most) return i;
  }
  return first;
}

static void issue(order *o, int32_t i) {
  step *s = &o->steps[i];
  int32_t at = start_of(o, s);
  if (at > o->now) o->now = at;
  o->live += s->registers - freed_by(o, s);
  for (int32_t j = 0; j < s->in.n_args; j++) o->uses[s->in.args[j]]--;
  s->ready = o->now + (s->takes > s->latency ? s->takes : s->latency);
  o->now += s->takes;
  s->issued = true;
}

// Issues all of them, one after the other or by list; out[]: in this order. Returns the time that it takes.
static int32_t schedule(order *o, bool by_list, int32_t *out) {
  o->now = o->live = 0;
  for (int32_t i = 0; i < o->n; i++) {
    const step *s = &o->steps[i];
    o->steps[i].issued = false;
    for (int32_t j = 0; j < s->in.n_args; j++) {
      tc_kval v = s->in.args[j];
      if (o->uses[v]++ == 0 && o->maker[v] == 0) o->live += registers_of(o, v); // it comes from outside
    }
  }
  for (int32_t first = 0, n = 0; first < o->n;) {
    if (o->steps[first].issued) {
      first++;
      continue;
    }
    out[n] = by_list ? next_of(o, first) : first;
    issue(o, out[n++]);
  }
  return o->now;
}

static bool may_move(const tc_kinst *in) {
  if (in->op == TC_K_LOAD) return !in->has_mask; // it may become a branch
  return in->op < TC_K_LOAD || in->op == TC_K_PREFETCH;
}

int32_t cg_straight(const cg *g, const tc_kregion *region, int32_t from, int32_t to) {
  if (!g->in_lanes || g->lanes * 4 <= g->vector_bytes) return from;
  int32_t end = from;
  for (tc_kinst in; end < to; end++) {
    tc_k_inst(g->k, region->insts[end], &in);
    if (!may_move(&in)) break;
  }
  return end - from < LEAST ? from : end;
}

void cg_put_in_order(cg *g, int32_t n, const int32_t *insts) {
  order o = {.g = g, .n = n, .most = g->avx512 ? 32 : 16};
  o.steps = calloc((size_t)n, sizeof *o.steps);
  o.uses = calloc((size_t)g->n_vals + 1, sizeof *o.uses);
  o.maker = calloc((size_t)g->n_vals + 1, sizeof *o.maker);
  int32_t *turns = calloc((size_t)n, sizeof *turns);
  if (o.steps && o.uses && o.maker && turns) {
    for (int32_t i = 0; i < n; i++) {
      o.steps[i] = step_of(g, insts[i]);
      for (int32_t j = 0; j < o.steps[i].in.n_results; j++) o.maker[o.steps[i].in.results[j]] = i + 1;
    }
    int32_t listed = schedule(&o, true, turns), plain = schedule(&o, false, turns);
    if (listed <= plain - plain / GAIN) schedule(&o, true, turns);
    for (int32_t i = 0; i < n && g->status == TC_STATUS_OK; i++) cg_inst(g, insts[turns[i]]);
  } else cg_fail(g, TC_STATUS_OUT_OF_MEMORY, "no memory for a run of instructions");
  free(o.steps);
  free(o.uses);
  free(o.maker);
  free(turns);
}
