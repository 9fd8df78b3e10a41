// Joining: two loads of neighbouring elements, the first one's index even, become one of both, where lanes are threads:
// one instruction and one address instead of two.
// Where an integer wraps, indices that differ by one as sums (linear.h) do so all the same, since the lower one is
// even.
#include "core/kernel/linear.h"

enum { REACH = 96 }; // instructions between the two: what is loaded early is in the way until it is used

// ---- loads ----
typedef struct joiner {
  int32_t *other; // by instruction: the load of the neighbour; -1: none
} joiner;

static bool is_even(const tc_linear *x) {
  bool even = x->c % 2 == 0;
  for (int32_t i = 0; i < x->n; i++) even &= x->terms[i].by % 2 == 0;
  return even;
}

static bool may_join(const tc_kernel *k, const tc_kinst *in) {
  if (in->op != TC_K_LOAD || in->width != 1 || in->has_mask || !k->values[in->args[0]].varying) return false;
  const tc_kmem_info *m = &k->mems[in->mem];
  int32_t size = tc_dtype_size(m->dtype);
  int32_t flags = TC_MEM_READONLY | TC_MEM_NOALIAS; // a store between the two is to other memory
  return m->space == TC_SPACE_GLOBAL && (m->flags & flags) == flags && size <= 8 && m->align % (2 * size) == 0;
}

typedef struct load {
  int32_t inst, at; // at: place in the region
  tc_linear index;
} load;

static bool find(joiner *f, const tc_kernel *k, tc_arena *arena) {
  bool any = false;
  load *loads = TC_NEW_ARRAY(arena, load, k->n_insts + 1);
  for (int32_t r = 0; r < k->n_regions; r++) {
    const tc_kir_region *g = &k->regions[r];
    int32_t n = 0, from = 0;
    for (int32_t i = 0; i < g->insts.count; i++) {
      const tc_kinst *in = &k->insts[g->insts.data[i]];
      load *x = &loads[n];
      if (!may_join(k, in) || !tc_linear_of(k, in->args[0], &x->index)) continue;
      x->inst = g->insts.data[i], x->at = i;
      while (loads[from].at + REACH < i) from++;
      for (int32_t j = n - 1; j >= from; j--) {
        load *y = &loads[j];
        if (k->insts[y->inst].mem != in->mem || f->other[y->inst] >= 0) continue;
        int64_t step = x->index.c - y->index.c;
        if ((step != 1 && step != -1) || !tc_linear_same_terms(&x->index, &y->index)) continue;
        if (!is_even(step > 0 ? &y->index : &x->index)) continue;
        f->other[x->inst] = y->inst, f->other[y->inst] = x->inst;
        any = true;
        break;
      }
      n++;
    }
  }
  return any;
}

static tc_status visit(tc_kir_copy *c, int32_t inst) {
  const joiner *f = c->self;
  const tc_kinst *in = &c->from->insts[inst];
  int32_t other = f->other[inst];
  if (other < 0) return tc_kir_copy_inst(c, inst);
  const tc_kinst *with = &c->from->insts[other];
  if (other < inst) return TC_OK; // loaded with the one in front
  tc_linear x, y;
  tc_kval index = c->map[in->args[0]], v[2];
  bool known = tc_linear_of(c->from, in->args[0], &x) && tc_linear_of(c->from, with->args[0], &y);
  bool second = known && x.c > y.c;
  if (second) index = tc_kb_op2(c->to, TC_K_SUB, index, tc_kb_int(c->to, tc_kb_type(c->to, index), 1));
  tc_kb_load(c->to, c->mems[in->mem], index, 2, -1, NULL, v);
  c->map[in->results[0]] = v[second], c->map[with->results[0]] = v[!second];
  tc_kir_keep_name(c, in->results[0], v[second]);
  tc_kir_keep_name(c, with->results[0], v[!second]);
  return TC_OK;
}

static tc_status join(tc_arena *arena, tc_kernel *k, tc_kernel **out) {
  joiner f = {TC_NEW_ARRAY(arena, int32_t, k->n_insts + 1)};
  for (int32_t i = 0; i < k->n_insts; i++) f.other[i] = -1;
  return find(&f, k, arena) ? tc_kir_copy_kernel(arena, k, visit, &f, false, out) : TC_OK;
}

tc_status tc_kernel_join_loads(tc_arena *arena, tc_kernel *k, tc_kernel **out) {
  return tc_kir_pass(arena, k, join, out);
}
