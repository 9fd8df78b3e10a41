// The plan's verifier.
#include "core/plan/plan.h"

static tc_status bad_op(const tc_plan_op *op, const char *what) {
  return tc_error(TC_STATUS_INTERNAL, "plan: @" TC_SV_FMT " %s", TC_SV_ARG(op->name), what);
}

static tc_status check_kernel(const tc_plan *p, const tc_plan_op *op, int32_t kernel, int32_t n_args,
                              const tc_plan_arg *args) {
  if (kernel < 0 || kernel >= p->kernels.count) return bad_op(op, "launches a kernel that does not exist");
  const tc_kernel *k = p->kernels.data[kernel]->kernel;
  const tc_plan_code *code = !k && p->n_code ? &p->code[p->kernels.data[kernel]->code] : NULL;
  if (!k && !code) return TC_OK; // a plan that was read without its kernels
  if (n_args != (k ? tc_k_param_count(k) : code->n_params))
    return bad_op(op, "has another number of arguments than its kernel");
  for (int32_t i = 0; i < n_args; i++) {
    tc_kparam q = {0};
    if (k) tc_k_param(k, i, &q);
    bool scalar = k ? q.is_scalar : code->scalar[i];
    if (scalar == (args[i].buf >= 0)) return bad_op(op, "passes a number for memory, or memory for a number");
  }
  return TC_OK;
}

static bool has_arg(int32_t n, const tc_plan_arg *args, const tc_plan_arg *want) {
  for (int32_t i = 0; i < n; i++) {
    if (args[i].buf == want->buf && args[i].writes == want->writes) return true;
  }
  return false;
}

// A variant has a fact, writes what the general kernel writes, and reads nothing else than that.
static tc_status check_variants(const tc_plan *p, const tc_plan_op *op) {
  if (op->n_variants < 0 || op->n_variants > TC_PLAN_CANDIDATES) return bad_op(op, "has too many variants");
  if (op->tuned && (op->n_variants < 1 || op->once)) return bad_op(op, "has nothing to choose from");
  for (int32_t i = 0; i < op->n_variants; i++) {
    const tc_plan_variant *v = &op->variants[i];
    if (!v->when || !v->blocks || !v->grain) return bad_op(op, "has a variant without a fact or a number of blocks");
    TC_TRY(check_kernel(p, op, v->kernel, v->n_args, v->args));
    for (int32_t k = 0; k < v->n_args; k++) {
      const tc_plan_arg *a = &v->args[k];
      if (a->buf < 0 ? !a->scalar : !has_arg(op->n_args, op->args, a))
        return bad_op(op, "has a variant with an argument of its own");
    }
    for (int32_t k = 0; k < op->n_args; k++) {
      if (op->args[k].buf >= 0 && op->args[k].writes && !has_arg(v->n_args, v->args, &op->args[k]))
        return bad_op(op, "has a variant that does not write a result");
    }
  }
  return TC_OK;
}

// A region is a plan of its own: as many inputs as operands that it sees, a whole buffer of its own for every result,
// and no more memory than it is given.
static tc_status check_region(const tc_plan *p, const tc_plan_op *op, int32_t k) {
  const tc_plan *r = op->regions[k];
  int32_t seen = op->n_operands - (op->kind == TC_PLAN_IF && !op->predicate), results = 0;
  bool test = op->kind == TC_PLAN_WHILE && k == 0;
  if (!r) return bad_op(op, "lacks a region");
  if (r->graph && r->graph->inputs.count != seen) return bad_op(op, "has a region with another number of inputs");
  for (int32_t i = 0; i < r->outputs.count; i++) {
    int32_t buf = r->outputs.data[i].buf;
    if (buf < 0) continue;
    results++;
    if (buf >= r->bufs.count || r->bufs.data[buf].kind != TC_PLAN_OUTPUT)
      return bad_op(op, "has a region whose result has no place");
    for (int32_t j = 0; j < i; j++)
      if (r->outputs.data[j].buf == buf) return bad_op(op, "has a region with two results in one place");
  }
  if (results != (test ? 1 : op->n_args - op->n_operands)) return bad_op(op, "has a region with other results");
  bool none = tc_sym_is_int(r->arena_bytes, 0);
  if (!none && (op->scratch < 0 || op->scratch >= p->bufs.count)) return bad_op(op, "has no memory for its regions");
  for (int32_t i = 0; i < r->bufs.count; i++) {
    const tc_plan_buf *b = &r->bufs.data[i];
    if (b->kind == TC_PLAN_FROZEN) return bad_op(op, "has a region that keeps something from run to run");
    if (b->host) // they may be read, as what a loop carries into its next turn
      return bad_op(op, "has a region that uses the places of its results");
  }
  if (!r->fixed_from && r->ops.count && r->ops.data[0].once)
    return bad_op(op, "has a region of which nothing can be done once");
  TC_TRY(tc_plan_verify(r), "in a region of @" TC_SV_FMT, TC_SV_ARG(op->name));
  return TC_OK;
}

static tc_status check_control(const tc_plan *p, const tc_plan_op *op) {
  int32_t first = op->kind == TC_PLAN_IF && !op->predicate, results = op->n_args - op->n_operands;
  if (op->n_operands < first) return bad_op(op, "has no predicate");
  if (op->n_carry < 0 || op->n_xs < 0 || op->n_carry + op->n_xs > op->n_operands || op->n_carry > results)
    return bad_op(op, "carries what it does not have");
  if (op->kind == TC_PLAN_SCAN && (!op->turns || op->n_xs < 1)) return bad_op(op, "has no number of turns");
  for (int32_t i = 0; i < op->n_carry; i++) {
    int32_t buf = op->spares[i];
    if (buf < 0 || buf >= p->bufs.count || p->bufs.data[buf].kind != TC_PLAN_ARENA)
      return bad_op(op, "has no second place for what it carries");
  }
  for (int32_t k = 0; k < tc_plan_region_count(op->kind); k++) TC_TRY(check_region(p, op, k));
  return TC_OK;
}

// An input that is changed in place has a buffer for what it was and one for each later state; writing one of them ends
// the others.
static void lose_others(const tc_plan *p, int32_t buf, bool *written) {
  for (int32_t i = 0; i < p->bufs.count; i++)
    if (p->bufs.data[i].kind == TC_PLAN_INPUT && p->bufs.data[i].input == p->bufs.data[buf].input) written[i] = false;
}

static bool has_older(const tc_plan *p, int32_t buf) {
  bool made = false, others = false;
  for (int32_t i = 0; i < p->ops.count; i++)
    for (int32_t k = 0; k < p->ops.data[i].n_args; k++)
      made |= p->ops.data[i].args[k].buf == buf && p->ops.data[i].args[k].writes;
  for (int32_t i = 0; i < p->bufs.count; i++)
    others |= i != buf && p->bufs.data[i].kind == TC_PLAN_INPUT && p->bufs.data[i].input == p->bufs.data[buf].input;
  return made && others;
}

// What is done once comes first, reads inputs that nothing writes and what it made itself; what it leaves for later is
// frozen, in a loop's body there to the end, and nothing else writes there.
typedef struct once_marks {
  bool *made;    // by buffer: by an op that is done once
  bool *changed; // by input: some op writes into it
} once_marks;

static bool is_kept(const tc_plan *p, const tc_plan_buf *b) {
  return b->kind == TC_PLAN_FROZEN || (p->fixed_from && b->kind == TC_PLAN_ARENA && b->last == p->ops.count - 1);
}

static bool is_fixed(const tc_plan *p, int32_t input) { return !p->fixed_from || input >= p->fixed_from; }

static tc_status check_once_arg(const tc_plan *p, const tc_plan_op *op, const tc_plan_arg *a, const once_marks *m) {
  const tc_plan_buf *b = a->buf >= 0 ? &p->bufs.data[a->buf] : NULL;
  if (!op->once) {
    if (b && a->writes && (b->kind == TC_PLAN_FROZEN || m->made[a->buf])) return bad_op(op, "writes what is made once");
    if (b && !a->writes && m->made[a->buf] && !is_kept(p, b)) return bad_op(op, "reads what is made once and not kept");
    return TC_OK;
  }
  bool same = b ? b->kind != TC_PLAN_OUTPUT &&
                      (b->kind != TC_PLAN_INPUT || (!a->writes && !m->changed[b->input] && is_fixed(p, b->input)))
                : tc_sym_is_const(a->scalar);
  return same ? TC_OK : bad_op(op, "is done once, but is not the same in every run");
}

static tc_status check_once(const tc_plan *p) {
  int32_t n_inputs = 1;
  for (int32_t i = 0; i < p->bufs.count; i++)
    if (p->bufs.data[i].input >= n_inputs) n_inputs = p->bufs.data[i].input + 1;
  once_marks m = {TC_NEW_ARRAY(p->arena, bool, p->bufs.count), TC_NEW_ARRAY(p->arena, bool, n_inputs)};
  for (int32_t i = 0; i < p->ops.count; i++) {
    const tc_plan_op *op = &p->ops.data[i];
    for (int32_t k = 0; k < op->n_args; k++) {
      const tc_plan_arg *a = &op->args[k];
      if (a->buf < 0 || !a->writes) continue;
      m.made[a->buf] |= op->once;
      if (p->bufs.data[a->buf].kind == TC_PLAN_INPUT) m.changed[p->bufs.data[a->buf].input] = true;
    }
  }
  for (int32_t i = 0; i < p->ops.count; i++) {
    const tc_plan_op *op = &p->ops.data[i];
    bool first = i == 0 || p->ops.data[i - 1].once;
    if (op->once && (op->kind != TC_PLAN_LAUNCH || op->n_variants > 0 || !first))
      return bad_op(op, "is done once, but is not among the first launches");
    if (op->once && (!tc_sym_is_const(op->blocks) || !tc_sym_is_const(op->grain)))
      return bad_op(op, "is done once, but is not the same in every run");
    for (int32_t k = 0; k < op->n_args; k++) TC_TRY(check_once_arg(p, op, &op->args[k], &m));
  }
  return TC_OK;
}

static tc_status check_op(const tc_plan *p, const tc_plan_op *op, bool *written) {
  if (op->kind == TC_PLAN_LAUNCH) {
    TC_TRY(check_kernel(p, op, op->kernel, op->n_args, op->args));
    TC_TRY(check_variants(p, op));
    if (!op->blocks || !op->grain) return bad_op(op, "has no number of blocks");
  } else if (op->n_operands < 0 || op->n_operands > op->n_args ||
             (op->constant && (op->n_operands >= 63 || op->constant >> op->n_operands))) {
    return bad_op(op, "has more operands than arguments");
  }
  if (tc_plan_region_count(op->kind)) TC_TRY(check_control(p, op));
  for (int32_t i = 0; i < op->n_args; i++) {
    const tc_plan_arg *a = &op->args[i];
    if (a->buf < 0 ? !a->scalar : a->buf >= p->bufs.count) return bad_op(op, "has an argument that is nothing");
    if (a->buf < 0 || a->writes) continue;
    if (!written[a->buf])
      return tc_error(TC_STATUS_INTERNAL, "plan: @" TC_SV_FMT " reads %%" TC_SV_FMT " before it is written",
                      TC_SV_ARG(op->name), TC_SV_ARG(p->bufs.data[a->buf].name));
  }
  for (int32_t i = 0; i < op->n_args; i++) {
    const tc_plan_arg *a = &op->args[i];
    if (a->buf < 0 || !a->writes) continue;
    if (p->bufs.data[a->buf].kind == TC_PLAN_INPUT) lose_others(p, a->buf, written);
    written[a->buf] = true;
  }
  return TC_OK;
}

static tc_status check_memory(const tc_plan *p) {
  int32_t n = tc_sym_symbol_count(p->syms);
  int64_t *values = TC_NEW_ARRAY(p->arena, int64_t, n);
  for (int32_t i = 0; i < n; i++) {
    const tc_sym_info *info = tc_sym_info_read(p->syms, tc_sym_symbol_at(p->syms, i));
    values[i] = info->hint != INT64_MIN ? info->hint : info->lo > 2 ? info->lo : info->hi < 2 ? info->hi : 2;
  }
  return tc_plan_check_memory(p, values);
}

// SplitMix64 (Steele, Lea, Flood 2014).
static uint64_t next_random(uint64_t *state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

// Do the values meet what inputs must meet? Conditions that cannot be computed count as broken.
static bool are_allowed(const tc_module *m, const int64_t *values) {
  for (int32_t i = 0; i < m->requires_.count; i++) {
    int64_t ok = 0;
    tc_status s = tc_sym_eval(m->requires_.data[i], values, &ok);
    if (s != TC_OK) ok = 0;
    tc_status_free(s);
    if (!ok) return false;
  }
  return true;
}

tc_status tc_plan_check_random(const tc_plan *p, uint64_t seed, int32_t rounds) {
  int32_t n = tc_sym_symbol_count(p->syms);
  int64_t *values = TC_NEW_ARRAY(p->arena, int64_t, n);
  for (int32_t round = 0; round < rounds; round++) {
    for (int32_t i = 0; i < n; i++) {
      const tc_sym_info *info = tc_sym_info_read(p->syms, tc_sym_symbol_at(p->syms, i));
      int64_t lo = info->lo > 1 ? info->lo : 1, hi = info->hi < lo + 300 ? info->hi : lo + 300;
      if (info->hi < lo) lo = hi = info->hi;
      values[i] = lo + (int64_t)(next_random(&seed) % (uint64_t)(hi - lo + 1));
      if (info->divisor > 1) values[i] -= values[i] % info->divisor;
    }
    if (are_allowed(p->module, values)) TC_TRY(tc_plan_check_memory(p, values), "with random sizes, round %d", round);
  }
  return TC_OK;
}

// What lies over another buffer is as large, and written by the launch that reads that one last.
static tc_status check_over(const tc_plan *p, const tc_plan_buf *b) {
  if (!b->over) return TC_OK;
  const tc_plan_buf *under = b->over > 0 && b->over <= b->id ? &p->bufs.data[b->over - 1] : NULL;
  bool fits = under && b->kind == TC_PLAN_ARENA && under->kind == TC_PLAN_ARENA &&
              tc_sym_eq(p->syms, b->bytes, under->bytes) && under->last == b->first && under->first < b->first &&
              b->first < p->ops.count && p->ops.data[b->first].kind == TC_PLAN_LAUNCH;
  return fits ? TC_OK
              : tc_error(TC_STATUS_INTERNAL, "plan: %%" TC_SV_FMT " lies over what is in use", TC_SV_ARG(b->name));
}

tc_status tc_plan_verify(const tc_plan *p) {
  bool *written = TC_NEW_ARRAY(p->arena, bool, p->bufs.count);
  for (int32_t i = 0; i < p->bufs.count; i++) {
    const tc_plan_buf *b = &p->bufs.data[i];
    if (b->kind == TC_PLAN_INPUT && (b->input < 0 || (p->graph && b->input >= p->graph->inputs.count)))
      return tc_error(TC_STATUS_INTERNAL, "plan: %%" TC_SV_FMT " is an input that does not exist", TC_SV_ARG(b->name));
    if (b->kind == TC_PLAN_FROZEN && !tc_sym_is_const(b->bytes))
      return tc_error(TC_STATUS_INTERNAL, "plan: %%" TC_SV_FMT " is frozen and has no fixed size", TC_SV_ARG(b->name));
    if (b->rank < 0 || b->rank > TC_MAX_RANK || !b->place || !b->bytes)
      return tc_error(TC_STATUS_INTERNAL, "plan: %%" TC_SV_FMT " has no place", TC_SV_ARG(b->name));
    TC_TRY(check_over(p, b));
    written[i] =
        (b->kind == TC_PLAN_INPUT && !has_older(p, i)) || tc_sym_is_int(b->bytes, 0); // an empty one needs no writer
  }
  for (int32_t i = 0; i < p->ops.count; i++) TC_TRY(check_op(p, &p->ops.data[i], written));
  TC_TRY(check_once(p));
  for (int32_t i = 0; i < p->outputs.count; i++) {
    const tc_plan_output *o = &p->outputs.data[i];
    if (o->buf >= p->bufs.count) return tc_error(TC_STATUS_INTERNAL, "plan: output %d is no buffer", i);
    if (o->buf >= 0 && !written[o->buf]) return tc_error(TC_STATUS_INTERNAL, "plan: output %d is never written", i);
  }
  return check_memory(p);
}
