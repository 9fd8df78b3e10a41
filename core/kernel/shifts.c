// Shifts of sums: (x + c) >> s is (x >> s) + (c >> s) where c is a multiple of 2^s and nothing wraps. Places of
// elements at constant distances, which memory with gaps has such shifts in, are then at constant distances again.
#include "core/kernel/linear.h"

typedef struct shifter {
  int64_t blocks;
} shifter;

// The sum of a value's terms and `c`, made in the same order for all that have the same.
static tc_kval sum_of(tc_kir_copy *c, const tc_kir_linear *x, tc_dtype type, int64_t rest) {
  tc_kval sum = tc_kb_int(c->to, type, rest);
  for (int32_t i = 0; i < x->n; i++) {
    tc_kval v = tc_kb_cast(c->to, type, c->map[x->terms[i].v]);
    sum = tc_kb_op2(c->to, TC_K_ADD, tc_kb_op2(c->to, TC_K_MUL, v, tc_kb_int(c->to, type, x->terms[i].by)), sum);
  }
  return sum;
}

static bool is_shift(const tc_kernel *k, const tc_kinst *in, int64_t *by) {
  if (in->op != TC_K_SHR || k->values[in->results[0]].dtype != TC_I32) return false;
  const tc_kinst *s = tc_kir_made_by(k, in->args[1]), *of = tc_kir_made_by(k, in->args[0]);
  if (!s || s->op != TC_K_CONST || s->imm < 1 || s->imm > 15) return false;
  *by = s->imm;
  return of && (of->op == TC_K_ADD || of->op == TC_K_SUB);
}

static tc_status visit(tc_kir_copy *c, int32_t inst) {
  const shifter *f = c->self;
  const tc_kinst *in = &c->from->insts[inst];
  tc_kir_linear x;
  int64_t by;
  if (!is_shift(c->from, in, &by) || !tc_kir_linear_of(c->from, in->args[0], NULL, &x) || x.n > 2 ||
      !tc_kir_is_exact(c->from, f->blocks, in->args[0]))
    return tc_kir_copy_inst(c, inst);
  int64_t rest = x.c & ((1LL << by) - 1), whole = (x.c - rest) >> by;
  if (!whole) return tc_kir_copy_inst(c, inst);
  tc_kval r = tc_kb_op2(c->to, TC_K_SHR, sum_of(c, &x, TC_I32, rest), tc_kb_int(c->to, TC_I32, by));
  c->map[in->results[0]] = tc_kb_op2(c->to, TC_K_ADD, r, tc_kb_int(c->to, TC_I32, whole));
  tc_kir_keep_name(c, in->results[0], c->map[in->results[0]]);
  return TC_OK;
}

tc_status tc_kernel_split_shifts(tc_arena *arena, tc_kernel *k, int64_t blocks, tc_kernel **out) {
  *out = k;
  bool any = false;
  int64_t by;
  for (int32_t i = 0; i < k->n_insts && !any; i++) any = is_shift(k, &k->insts[i], &by);
  if (!any || blocks < 1 || blocks > INT32_MAX) return TC_OK;
  shifter f = {blocks};
  return tc_kir_copy_kernel(arena, k, visit, &f, false, out);
}
