// Forwarding: shared memory in which every lane touches only elements of its own becomes a lane array, which devices
// whose lanes are threads keep in registers. Such memory stands between two stages that were fused: what the last step
// of one transform leaves is what the first step of the next one takes.
//
// A lane's own are the elements lane + c·lanes; they are told apart by c alone. What a lane reads is then what it wrote
// last, so the order of barriers does not matter, and neither do branches, loops and masks around an access.
#include "core/kernel/ir.h"

enum { MOST_BYTES = 256 }; // of a lane, in all

typedef struct forwarder {
  const tc_kernel *k;
  int64_t *slot;  // by instruction: of an access, c; -1: none
  int64_t *slots; // by memory object: 1 + the greatest c; 0: not forwarded
} forwarder;

static const tc_kinst *made_by(const tc_kernel *k, tc_kval v) {
  return k->values[v].inst < 0 ? NULL : &k->insts[k->values[v].inst];
}

// v = lane + *c?
static bool is_lane_and(const tc_kernel *k, tc_kval v, int64_t *c) {
  *c = 0;
  for (;;) {
    const tc_kinst *in = made_by(k, v), *by;
    if (!in) return false;
    if (in->op == TC_K_LANE) return true;
    if (in->op != TC_K_ADD) return false;
    int32_t other = (by = made_by(k, in->args[1])) && by->op == TC_K_CONST ? 1 : 0;
    if (!other && !((by = made_by(k, in->args[0])) && by->op == TC_K_CONST)) return false;
    if (by->imm < 0 || by->imm > INT32_MAX) return false;
    *c += by->imm;
    v = in->args[!other];
  }
}

static bool touches_memory(int32_t op) {
  return op == TC_K_LOAD || op == TC_K_STORE || op == TC_K_ATOMIC_ADD || op == TC_K_PREFETCH;
}

static void find(forwarder *f) {
  const tc_kernel *k = f->k;
  int64_t c, left = MOST_BYTES;
  for (int32_t m = 0; m < k->n_mems; m++) f->slots[m] = k->mems[m].space == TC_SPACE_SHARED;
  for (int32_t i = 0; i < k->n_insts; i++) {
    const tc_kinst *in = &k->insts[i];
    f->slot[i] = -1;
    if (!touches_memory(in->op) || !f->slots[in->mem]) continue;
    bool own = (in->op == TC_K_LOAD || in->op == TC_K_STORE) && in->width == 1 && is_lane_and(k, in->args[0], &c) &&
               c % k->lanes == 0;
    f->slot[i] = own ? c / k->lanes : -1;
    if (!own) f->slots[in->mem] = 0;
    else if (f->slot[i] >= f->slots[in->mem]) f->slots[in->mem] = f->slot[i] + 1;
  }
  for (int32_t m = 0; m < k->n_mems; m++) {
    int64_t bytes = f->slots[m] * tc_dtype_size(k->mems[m].dtype);
    if (bytes > left) f->slots[m] = 0;
    else left -= bytes;
  }
}

static tc_status visit(tc_kir_copy *c, int32_t inst) {
  const forwarder *f = c->self;
  const tc_kinst *in = &c->from->insts[inst];
  if (!touches_memory(in->op) || !f->slots[in->mem]) return tc_kir_copy_inst(c, inst);
  tc_kval at = in->args[0], keep = c->map[at];
  c->map[at] = tc_kb_int(c->to, c->from->values[at].dtype, f->slot[inst]);
  tc_status s = tc_kir_copy_inst(c, inst);
  c->map[at] = keep;
  return s;
}

typedef struct job {
  tc_arena *arena;
  tc_kernel *k, **out;
} job;

static tc_status run(void *arg) {
  job *j = arg;
  const tc_kernel *k = j->k;
  forwarder f = {k, TC_NEW_ARRAY(j->arena, int64_t, k->n_insts + 1), TC_NEW_ARRAY(j->arena, int64_t, k->n_mems + 1)};
  bool any = false;
  find(&f);
  tc_kernel changed = *k;
  tc_kmem_info *mems = TC_NEW_ARRAY(j->arena, tc_kmem_info, k->n_mems + 1);
  for (int32_t m = 0; m < k->n_mems; m++) {
    mems[m] = k->mems[m];
    if (!f.slots[m]) continue;
    mems[m].space = TC_SPACE_LANE, mems[m].count = f.slots[m];
    any = true;
  }
  changed.mems = mems;
  *j->out = j->k;
  return any ? tc_kir_copy_kernel(j->arena, &changed, visit, &f, false, j->out) : TC_OK;
}

tc_status tc_kernel_forward(tc_arena *arena, tc_kernel *k, tc_kernel **out) {
  *out = NULL;
  job j = {arena, k, out};
  return tc_arena_guard(arena, run, &j);
}
