// Borders: a block whose elements all lie inside, where no index needs to be reflected or clamped, takes a copy of its
// code without that.
//
// min(a, b) is a for all lanes if a - b, a sum of numbers that the block knows and of multiples of the lane's number,
// is at most 0 for the first lane and for the last. Which of the two it is inside is what a block in the middle of the
// grid takes; what must hold for that are conditions of the block, which choose between the copies. Without minimum and
// maximum indices are sums again, so that neighbours are seen to be such (join.c).
#include "core/kernel/linear.h"

enum { LEAST = 8, CONDITIONS = 4 }; // minima that are worth a copy; more conditions are no border

typedef struct border {
  tc_kir_linear at_most_0[CONDITIONS];
  int32_t n;
} border;

typedef struct finder {
  const tc_kernel *k;
  int64_t block;     // in the middle
  int64_t blocks;    // no more than so many
  tc_kval *instead;  // by value: what a minimum or maximum is inside; -1: nothing
  border **borders;  // by instruction, of lanes regions
  const border *now; // of the copy that is being made
} finder;

static bool is_limit(const tc_kernel *k, const tc_kinst *in) {
  return (in->op == TC_K_MIN || in->op == TC_K_MAX) && tc_kir_is_int(k->values[in->results[0]].dtype);
}

// What a uniform value is in the block in the middle.
static bool evaluate(const finder *f, tc_kval v, int32_t depth, tc_knum *out) {
  const tc_kinst *in = tc_kir_made_by(f->k, v);
  tc_dtype type = f->k->values[v].dtype;
  tc_knum args[3];
  if (!in || !depth || !tc_kir_is_int(type)) return false;
  if (in->op == TC_K_BLOCK || in->op == TC_K_CONST) {
    *out = tc_kir_int(type, in->op == TC_K_BLOCK ? f->block : in->imm);
    return true;
  }
  if (!tc_kir_is_pure(in->op) || in->op == TC_K_LANE || in->op == TC_K_SCALAR || in->n_args < 1 || in->n_args > 3)
    return false;
  for (int32_t i = 0; i < in->n_args; i++)
    if (!evaluate(f, in->args[i], depth - 1, &args[i])) return false;
  if (in->op == TC_K_CAST) {
    *out = tc_kir_cast(f->k->values[in->args[0]].dtype, type, args[0]);
    return true;
  }
  return in->op != TC_K_BITCAST && !tc_kir_eval(in->op, f->k->values[in->args[in->n_args - 1]].dtype, args, out);
}

// Takes the lane's part out of a sum: its least and largest values. False if more than that varies by lane, or if what
// the block knows is not known in front of the region.
static bool split(const finder *f, int32_t region, tc_kir_linear *sum, int64_t *least, int64_t *most) {
  tc_kir_linear uniform = {.c = sum->c};
  *least = *most = 0;
  for (int32_t i = 0; i < sum->n; i++) {
    tc_kval v = sum->terms[i].v;
    const tc_kinst *in = tc_kir_made_by(f->k, v);
    int64_t by = sum->terms[i].by, far = by * (f->k->lanes - 1);
    if (!f->k->values[v].varying && f->k->value_regions[v] != region) {
      uniform.terms[uniform.n].v = v, uniform.terms[uniform.n++].by = by;
      continue;
    }
    if (!in || in->op != TC_K_LANE) return false;
    *least += far < 0 ? far : 0, *most += far > 0 ? far : 0;
  }
  *sum = uniform;
  return true;
}

static bool in_the_middle(const finder *f, const tc_kir_linear *sum, int64_t *out) {
  *out = sum->c;
  for (int32_t i = 0; i < sum->n; i++) {
    tc_knum v;
    if (!evaluate(f, sum->terms[i].v, 16, &v)) return false;
    *out += sum->terms[i].by * v.i;
  }
  return true;
}

// One more condition, sum ≤ 0; of those that differ by a constant the strongest stays.
static bool demand(border *b, const tc_kir_linear *sum) {
  for (int32_t i = 0; i < b->n; i++) {
    if (!tc_kir_linear_same_terms(&b->at_most_0[i], sum)) continue;
    if (sum->c > b->at_most_0[i].c) b->at_most_0[i].c = sum->c;
    return true;
  }
  if (b->n == CONDITIONS) return false;
  b->at_most_0[b->n++] = *sum;
  return true;
}

// What a minimum or maximum is inside, with the condition for that; -1: nothing certain.
static tc_kval inside(const finder *f, int32_t region, const tc_kinst *in, border *b) {
  tc_kir_linear difference, y, condition = {0};
  int64_t least, most, middle;
  for (int32_t i = 0; i < 2; i++)
    if (!tc_kir_is_exact(f->k, f->blocks, in->args[i])) return -1;
  if (!tc_kir_linear_of(f->k, in->args[0], f->instead, &difference) ||
      !tc_kir_linear_of(f->k, in->args[1], f->instead, &y) || !tc_kir_linear_add(&difference, &y, -1) ||
      !split(f, region, &difference, &least, &most) || !in_the_middle(f, &difference, &middle))
    return -1;
  bool less = middle + most <= 0;
  if (!less && middle + least < 0) return -1;
  difference.c += less ? most : least;
  if (!tc_kir_linear_add(&condition, &difference, less ? 1 : -1) || !demand(b, &condition)) return -1;
  return in->args[less == (in->op == TC_K_MIN) ? 0 : 1];
}

static bool find(finder *f, tc_arena *arena) {
  const tc_kernel *k = f->k;
  bool any = false;
  for (int32_t l = 0; l < k->n_insts; l++) {
    if (k->insts[l].op != TC_K_LANES || k->insts[l].n_results) continue;
    const tc_kir_region *g = &k->regions[k->insts[l].regions[0]];
    border b = {0};
    int32_t found = 0;
    for (int32_t i = 0; i < g->insts.count; i++) {
      const tc_kinst *in = &k->insts[g->insts.data[i]];
      if (!is_limit(k, in) || !k->values[in->results[0]].varying) continue;
      f->instead[in->results[0]] = inside(f, k->insts[l].regions[0], in, &b);
      found += f->instead[in->results[0]] >= 0;
    }
    if (found >= LEAST && b.n) {
      f->borders[l] = TC_NEW(arena, border);
      *f->borders[l] = b;
      any = true;
    }
  }
  return any;
}

static tc_kval condition_of(tc_kir_copy *c, const border *b) {
  tc_kval all = -1;
  for (int32_t i = 0; i < b->n; i++) {
    const tc_kir_linear *x = &b->at_most_0[i];
    tc_kval sum = tc_kb_int(c->to, TC_I64, x->c);
    for (int32_t t = 0; t < x->n; t++) {
      tc_kval v = tc_kb_cast(c->to, TC_I64, c->map[x->terms[t].v]);
      sum = tc_kb_op3(c->to, TC_K_FMA, v, tc_kb_int(c->to, TC_I64, x->terms[t].by), sum);
    }
    tc_kval holds = tc_kb_op2(c->to, TC_K_LE, sum, tc_kb_int(c->to, TC_I64, 0));
    all = all < 0 ? holds : tc_kb_op2(c->to, TC_K_AND, all, holds);
  }
  return all;
}

static tc_status visit(tc_kir_copy *c, int32_t inst) {
  finder *f = c->self;
  const tc_kinst *in = &c->from->insts[inst];
  if (f->now && is_limit(c->from, in) && f->instead[in->results[0]] >= 0) {
    c->map[in->results[0]] = c->map[f->instead[in->results[0]]];
    return TC_OK;
  }
  if (in->op != TC_K_LANES || !f->borders[inst]) return tc_kir_copy_inst(c, inst);
  tc_kb_lanes(c->to);
  tc_kb_if(c->to, condition_of(c, f->borders[inst]));
  f->now = f->borders[inst];
  TC_TRY(tc_kir_copy_region(c, in->regions[0]));
  f->now = NULL;
  tc_kb_else(c->to, 0, NULL);
  TC_TRY(tc_kir_copy_region(c, in->regions[0]));
  tc_kb_end_if(c->to, 0, NULL, NULL);
  tc_kb_end_lanes(c->to, 0, NULL, NULL);
  return TC_OK;
}

typedef struct job {
  tc_arena *arena;
  tc_kernel *k, **out;
  int64_t middle, blocks;
} job;

static tc_status run(void *arg) {
  job *j = arg;
  finder f = {.k = j->k, .block = j->middle, .blocks = j->blocks};
  f.instead = TC_NEW_ARRAY(j->arena, tc_kval, j->k->n_values + 1);
  f.borders = TC_NEW_ARRAY(j->arena, border *, j->k->n_insts + 1);
  for (int32_t v = 0; v < j->k->n_values; v++) f.instead[v] = -1;
  return find(&f, j->arena) ? tc_kir_copy_kernel(j->arena, j->k, visit, &f, false, j->out) : TC_OK;
}

tc_status tc_kernel_borders(tc_arena *arena, tc_kernel *k, int64_t middle, int64_t blocks, tc_kernel **out) {
  *out = k;
  if (blocks < 1 || blocks > INT32_MAX) return TC_OK;
  job j = {arena, k, out, middle, blocks};
  return tc_arena_guard(arena, run, &j);
}
