// Forwarding: shared memory in which every lane touches only elements of its own becomes a lane array, which devices
// whose lanes are threads keep in registers. Such memory stands between two stages that were fused: what the last step
// of one transform leaves is what the first step of the next one takes.
//
// A lane's own are elements c + lane, c - lane, and, where only the first lane goes there, c. Two such sets that are
// the same are one slot of each lane; sets that share no element are different ones; others keep the memory shared.
// What a lane reads is then what it wrote last, so the order of barriers does not matter, and neither do branches,
// loops and masks around an access.
#include "core/kernel/ir.h"
#include "core/kernel/linear.h"

enum { MOST_BYTES = 256, MOST_SLOTS = 64 }; // of a lane: in all, of an object

typedef struct set {
  int32_t sign; // of the lane: 1, -1; 0: one element, of the first lane
  int64_t c;
} set;

typedef struct own {
  set *sets;
  int32_t count; // 0: not forwarded
} own;

typedef struct forwarder {
  const tc_kernel *k;
  int32_t *slot; // by instruction, of an access
  own *own;      // by memory object
} forwarder;

static bool is_constant(const tc_kernel *k, tc_kval v, int64_t *c) {
  const tc_kinst *in = tc_kir_made_by(k, v);
  if (!in || in->op != TC_K_CONST || in->imm > INT32_MAX || in->imm < INT32_MIN) return false;
  *c = in->imm;
  return true;
}

// v = c, c + lane or c - lane?
static bool is_lane_and(const tc_kernel *k, tc_kval v, set *out) {
  int64_t c;
  const tc_kinst *in = tc_kir_made_by(k, v);
  set x;
  if (is_constant(k, v, &c)) {
    *out = (set){0, c};
    return true;
  }
  if (in && in->op == TC_K_LANE) {
    *out = (set){1, 0};
    return true;
  }
  if (!in || (in->op != TC_K_ADD && in->op != TC_K_SUB)) return false;
  int32_t of = is_constant(k, in->args[1], &c) ? 0 : 1;
  if (of && !is_constant(k, in->args[0], &c)) return false;
  if (!is_lane_and(k, in->args[of], &x)) return false;
  if (in->op == TC_K_ADD) *out = (set){x.sign, x.c + c};
  else if (of) *out = (set){-x.sign, c - x.c};
  else *out = (set){x.sign, x.c - c};
  return true;
}

static bool first_lane_only(const tc_kernel *k, const tc_kinst *in) {
  if (!in->has_mask) return k->lanes == 1;
  const tc_kinst *mask = tc_kir_made_by(k, in->args[in->op == TC_K_LOAD ? 1 : 2]), *lane;
  int64_t c;
  return mask && mask->op == TC_K_EQ && (lane = tc_kir_made_by(k, mask->args[0])) && lane->op == TC_K_LANE &&
         is_constant(k, mask->args[1], &c) && c == 0;
}

static bool meet(const tc_kernel *k, set a, set b) {
  int64_t n = k->lanes - 1, a0 = a.sign < 0 ? a.c - n : a.c, a1 = a.sign > 0 ? a.c + n : a.c,
          b0 = b.sign < 0 ? b.c - n : b.c, b1 = b.sign > 0 ? b.c + n : b.c;
  return a0 <= b1 && b0 <= a1;
}

// The slot of a set, a new one if there is need; -1: it has some elements of another one.
static int32_t slot_of(const tc_kernel *k, own *o, set s) {
  for (int32_t i = 0; i < o->count; i++) {
    if (o->sets[i].sign == s.sign && o->sets[i].c == s.c) return i;
    if (meet(k, o->sets[i], s)) return -1;
  }
  if (o->count == MOST_SLOTS) return -1;
  o->sets[o->count] = s;
  return o->count++;
}

static bool touches_memory(int32_t op) {
  return op == TC_K_LOAD || op == TC_K_STORE || op == TC_K_ATOMIC_ADD || op == TC_K_PREFETCH;
}

static void find(forwarder *f, tc_arena *arena) {
  const tc_kernel *k = f->k;
  int64_t left = MOST_BYTES;
  bool *shared = TC_NEW_ARRAY(arena, bool, k->n_mems + 1);
  for (int32_t m = 0; m < k->n_mems; m++) {
    shared[m] = k->mems[m].space == TC_SPACE_SHARED;
    if (shared[m]) f->own[m].sets = TC_NEW_ARRAY(arena, set, MOST_SLOTS);
  }
  for (int32_t i = 0; i < k->n_insts; i++) {
    const tc_kinst *in = &k->insts[i];
    set s;
    if (!touches_memory(in->op) || !shared[in->mem]) continue;
    bool mine = (in->op == TC_K_LOAD || in->op == TC_K_STORE) && in->width == 1 && is_lane_and(k, in->args[0], &s) &&
                (s.sign || first_lane_only(k, in));
    f->slot[i] = mine ? slot_of(k, &f->own[in->mem], s) : -1;
    if (f->slot[i] < 0) shared[in->mem] = false;
  }
  for (int32_t m = 0; m < k->n_mems; m++) {
    int64_t bytes = f->own[m].count * tc_dtype_size(k->mems[m].dtype);
    if (!shared[m] || bytes > left) f->own[m].count = 0;
    else left -= bytes;
  }
}

static tc_status visit(tc_kir_copy *c, int32_t inst) {
  const forwarder *f = c->self;
  const tc_kinst *in = &c->from->insts[inst];
  if (!touches_memory(in->op) || !f->own[in->mem].count) return tc_kir_copy_inst(c, inst);
  tc_kval at = in->args[0], keep = c->map[at];
  c->map[at] = tc_kb_int(c->to, c->from->values[at].dtype, f->slot[inst]);
  tc_status s = tc_kir_copy_inst(c, inst);
  c->map[at] = keep;
  return s;
}

static tc_status forward(tc_arena *arena, tc_kernel *k, tc_kernel **out) {
  forwarder f = {k, TC_NEW_ARRAY(arena, int32_t, k->n_insts + 1), TC_NEW_ARRAY(arena, own, k->n_mems + 1)};
  bool any = false;
  find(&f, arena);
  tc_kernel changed = *k;
  tc_kmem_info *mems = TC_NEW_ARRAY(arena, tc_kmem_info, k->n_mems + 1);
  for (int32_t m = 0; m < k->n_mems; m++) {
    mems[m] = k->mems[m];
    if (!f.own[m].count) continue;
    mems[m].space = TC_SPACE_LANE, mems[m].count = f.own[m].count;
    any = true;
  }
  changed.mems = mems;
  return any ? tc_kir_copy_kernel(arena, &changed, visit, &f, false, out) : TC_OK;
}

tc_status tc_kernel_forward(tc_arena *arena, tc_kernel *k, tc_kernel **out) {
  return tc_kir_pass(arena, k, forward, out);
}
