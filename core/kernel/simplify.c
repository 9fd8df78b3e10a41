// Simplification: dead code, common subexpressions, loop-invariant values, loops of one round, branches that are known.
//
// The kernel is copied through the folding builder, which shares equal expressions. Before that, one backward marking
// finds what is live (a loop's carried values singly), and one forward walk finds for each pure instruction the
// outermost enclosing loop that it does not depend on; it is emitted in front of that loop. Nothing leaves an `if` or a
// lanes region, and divisions that could fault stay where they are.
#include "core/kernel/ir.h"

typedef struct simplifier {
  const tc_kernel *k;
  uint8_t *live; // by instruction
  uint8_t *live_value;
  int32_t *owner;  // by region: its structured instruction
  int32_t *home;   // by instruction: its region
  int32_t *target; // by instruction: region to emit it in
  TC_VEC(tc_kval) work;
  tc_arena *arena;
} simplifier;

// ---- Liveness ----

static void need(simplifier *s, tc_kval v) {
  if (s->live_value[v]) return;
  s->live_value[v] = 1;
  tc_vec_push(s->arena, &s->work, v);
}

// An instruction that runs needs its operands (of a structured one: what it always needs), and all that encloses it.
static void need_inst(simplifier *s, int32_t inst) {
  for (; inst >= 0 && !s->live[inst]; inst = s->owner[s->home[inst]]) {
    s->live[inst] = 1;
    const tc_kinst *in = &s->k->insts[inst];
    int32_t n = in->op == TC_K_FOR ? 2 : in->op == TC_K_LANES ? 0 : in->n_args;
    for (int32_t i = 0; i < n; i++) need(s, in->args[i]);
  }
}

static const tc_kinst *yield_of(const tc_kernel *k, int32_t region) {
  const tc_kir_region *g = &k->regions[region];
  return &k->insts[g->insts.data[g->insts.count - 1]];
}

static void need_carried(simplifier *s, int32_t inst, int32_t i) {
  const tc_kinst *in = &s->k->insts[inst];
  need_inst(s, inst);
  need(s, in->results[i]);
  need(s, s->k->regions[in->regions[0]].params[1 + i]);
  need(s, in->args[2 + i]);
  need(s, yield_of(s->k, in->regions[0])->args[i]);
}

static void mark_value(simplifier *s, tc_kval v) {
  const tc_kvalue *value = &s->k->values[v];
  if (value->inst < 0) {
    int32_t loop = s->owner[s->k->value_regions[v]];
    need_inst(s, loop);
    if (value->result > 0) need_carried(s, loop, value->result - 1);
    return;
  }
  const tc_kinst *in = &s->k->insts[value->inst];
  if (in->op == TC_K_FOR) need_carried(s, value->inst, value->result);
  else need_inst(s, value->inst);
  if (in->op == TC_K_IF || in->op == TC_K_LANES)
    for (int32_t r = 0; r < in->n_regions; r++) need(s, yield_of(s->k, in->regions[r])->args[value->result]);
}

static bool has_effect(const tc_kinst *in) {
  return in->op == TC_K_STORE || in->op == TC_K_ATOMIC_ADD || in->op == TC_K_PREFETCH || in->op == TC_K_CHECK ||
         in->op == TC_K_BARRIER;
}

static void mark(simplifier *s) {
  for (int32_t g = 0; g < s->k->n_regions; g++) {
    s->owner[g] = s->k->body == g ? -1 : s->owner[g];
    for (int32_t i = 0; i < s->k->regions[g].insts.count; i++) {
      int32_t inst = s->k->regions[g].insts.data[i];
      s->home[inst] = g;
      for (int32_t r = 0; r < s->k->insts[inst].n_regions; r++) s->owner[s->k->insts[inst].regions[r]] = inst;
    }
  }
  for (int32_t inst = 0; inst < s->k->n_insts; inst++)
    if (has_effect(&s->k->insts[inst])) need_inst(s, inst);
  for (int32_t i = 0; i < s->work.count; i++) mark_value(s, s->work.data[i]);
}

// ---- Loop-invariant values ----

static bool may_fault(const simplifier *s, const tc_kinst *in) {
  if ((in->op != TC_K_DIV && in->op != TC_K_REM) || !tc_kir_is_int(s->k->values[in->args[0]].dtype)) return false;
  int32_t def = s->k->values[in->args[1]].inst;
  return def < 0 || s->k->insts[def].op != TC_K_CONST || s->k->insts[def].imm == 0;
}

static bool is_inside(const simplifier *s, int32_t region, int32_t outer) {
  while (region >= 0 && region != outer) region = s->k->regions[region].parent;
  return region == outer;
}

static int32_t target_of(const simplifier *s, int32_t inst) {
  const tc_kinst *in = &s->k->insts[inst];
  int32_t region = s->home[inst];
  if (!tc_kir_is_pure(in->op) || may_fault(s, in)) return region;
  while (s->k->regions[region].kind == TC_KIR_FOR) {
    for (int32_t i = 0; i < in->n_args; i++) {
      int32_t def = s->k->values[in->args[i]].inst;
      if (is_inside(s, def >= 0 ? s->target[def] : s->k->value_regions[in->args[i]], region)) return region;
    }
    region = s->k->regions[region].parent;
  }
  return region;
}

// Emits what lies in `region` or deeper and belongs in front of the loop, in `target`.
static tc_status hoist(tc_kir_copy *c, int32_t region, int32_t target) {
  simplifier *s = c->self;
  const tc_kir_region *g = &c->from->regions[region];
  for (int32_t i = 0; i < g->insts.count; i++) {
    int32_t inst = g->insts.data[i];
    const tc_kinst *in = &c->from->insts[inst];
    if (in->op == TC_K_FOR && s->live[inst]) TC_TRY(hoist(c, in->regions[0], target));
    if (s->live[inst] && s->target[inst] == target) TC_TRY(tc_kir_copy_inst(c, inst));
  }
  return TC_OK;
}

// ---- Copying ----

static bool known(tc_kir_copy *c, tc_kval v, int64_t *out) {
  tc_knum n;
  if (!tc_kb_const_of(c->to, c->map[v], &n)) return false;
  *out = n.i;
  return true;
}

static tc_status copy_for(tc_kir_copy *c, const tc_kinst *in) {
  simplifier *s = c->self;
  const tc_kir_region *g = &c->from->regions[in->regions[0]];
  const tc_kinst *y = yield_of(c->from, in->regions[0]);
  int64_t lo, hi;
  bool once = false;
  if (known(c, in->args[0], &lo) && known(c, in->args[1], &hi) && c->from->values[in->args[0]].dtype != TC_U64) {
    if (lo >= hi) {
      for (int32_t i = 0; i < in->n_results; i++) c->map[in->results[i]] = c->map[in->args[2 + i]];
      return TC_OK;
    }
    once = (uint64_t)hi - (uint64_t)lo <= (uint64_t)in->imm;
  }
  TC_TRY(hoist(c, in->regions[0], s->k->regions[in->regions[0]].parent));
  if (once) {
    c->map[g->params[0]] = c->map[in->args[0]];
    for (int32_t i = 0; i < in->n_results; i++) c->map[g->params[1 + i]] = c->map[in->args[2 + i]];
    TC_TRY(tc_kir_copy_region(c, in->regions[0]));
    for (int32_t i = 0; i < in->n_results; i++) c->map[in->results[i]] = c->map[y->args[i]];
    return TC_OK;
  }
  tc_kval *list = TC_NEW_ARRAY(s->arena, tc_kval, 4 * (int64_t)in->n_results + 1);
  tc_kval *carried = list + in->n_results, *next = carried + in->n_results, *results = next + in->n_results;
  int32_t n = 0;
  for (int32_t i = 0; i < in->n_results; i++)
    if (s->live_value[in->results[i]]) list[n++] = c->map[in->args[2 + i]];
  c->map[g->params[0]] =
      tc_kb_for(c->to, c->map[in->args[0]], c->map[in->args[1]], in->imm, in->flags, n, list, carried);
  tc_kir_keep_name(c, g->params[0], c->map[g->params[0]]);
  n = 0;
  for (int32_t i = 0; i < in->n_results; i++) {
    if (!s->live_value[in->results[i]]) continue;
    c->map[g->params[1 + i]] = carried[n++];
    tc_kir_keep_name(c, g->params[1 + i], c->map[g->params[1 + i]]);
  }
  TC_TRY(tc_kir_copy_region(c, in->regions[0]));
  n = 0;
  for (int32_t i = 0; i < in->n_results; i++)
    if (s->live_value[in->results[i]]) next[n++] = c->map[y->args[i]];
  tc_kb_end_for(c->to, n, next, results);
  n = 0;
  for (int32_t i = 0; i < in->n_results; i++) {
    if (!s->live_value[in->results[i]]) continue;
    c->map[in->results[i]] = results[n++];
    tc_kir_keep_name(c, in->results[i], c->map[in->results[i]]);
  }
  return TC_OK;
}

static tc_status copy_branch(tc_kir_copy *c, int32_t region, const tc_kinst *in, int32_t *n, tc_kval *out) {
  simplifier *s = c->self;
  TC_TRY(tc_kir_copy_region(c, region));
  *n = 0;
  for (int32_t i = 0; i < in->n_results; i++)
    if (s->live_value[in->results[i]]) out[(*n)++] = c->map[yield_of(c->from, region)->args[i]];
  return TC_OK;
}

static tc_status copy_if_or_lanes(tc_kir_copy *c, const tc_kinst *in) {
  simplifier *s = c->self;
  tc_kval *yields = TC_NEW_ARRAY(s->arena, tc_kval, 2 * (int64_t)in->n_results + 1), *results = yields;
  int32_t n;
  int64_t cond;
  if (in->op == TC_K_LANES) {
    tc_kb_lanes(c->to);
    TC_TRY(copy_branch(c, in->regions[0], in, &n, yields));
    results = yields + in->n_results;
    tc_kb_end_lanes(c->to, n, yields, results);
  } else if (known(c, in->args[0], &cond)) {
    TC_TRY(copy_branch(c, in->regions[cond ? 0 : 1], in, &n, yields));
  } else {
    tc_kb_if(c->to, c->map[in->args[0]]);
    TC_TRY(copy_branch(c, in->regions[0], in, &n, yields));
    tc_kb_else(c->to, n, yields);
    TC_TRY(copy_branch(c, in->regions[1], in, &n, yields));
    results = yields + in->n_results;
    tc_kb_end_if(c->to, n, yields, results);
  }
  n = 0;
  for (int32_t i = 0; i < in->n_results; i++) {
    if (!s->live_value[in->results[i]]) continue;
    c->map[in->results[i]] = results[n++];
    tc_kir_keep_name(c, in->results[i], c->map[in->results[i]]);
  }
  return TC_OK;
}

static tc_status visit(tc_kir_copy *c, int32_t inst) {
  simplifier *s = c->self;
  const tc_kinst *in = &c->from->insts[inst];
  if (!s->live[inst]) return TC_OK;
  if (in->op == TC_K_FOR) return copy_for(c, in);
  if (in->op == TC_K_IF || in->op == TC_K_LANES) return copy_if_or_lanes(c, in);
  if (s->target[inst] != s->home[inst]) return TC_OK; // stands in front of a loop already
  return tc_kir_copy_inst(c, inst);
}

typedef struct job {
  simplifier s;
  tc_kernel **out;
} job;

static tc_status run(void *arg) {
  job *j = arg;
  simplifier *s = &j->s;
  const tc_kernel *k = s->k;
  s->live = TC_NEW_ARRAY(s->arena, uint8_t, k->n_insts + 1);
  s->live_value = TC_NEW_ARRAY(s->arena, uint8_t, k->n_values + 1);
  s->owner = TC_NEW_ARRAY(s->arena, int32_t, k->n_regions + 1);
  s->home = TC_NEW_ARRAY(s->arena, int32_t, k->n_insts + 1);
  s->target = TC_NEW_ARRAY(s->arena, int32_t, k->n_insts + 1);
  mark(s);
  for (int32_t inst = 0; inst < k->n_insts; inst++) s->target[inst] = target_of(s, inst);
  return tc_kir_copy_kernel(s->arena, k, visit, s, false, j->out);
}

tc_status tc_kernel_simplify(tc_arena *arena, const tc_kernel *k, tc_kernel **out) {
  *out = NULL;
  job j = {.s = {.k = k, .arena = arena}, .out = out};
  return tc_arena_guard(arena, run, &j);
}
