// Joining: two loads of neighbouring elements, the first one's index even, become one of both, where lanes are threads:
// one instruction and one address instead of two.
#include "core/kernel/ir.h"

enum {
  REACH = 96, // instructions between the two: what is loaded early is in the way until it is used
  TERMS = 8,
  STEPS = 256
};

// ---- indices as sums ----
// c + the sum of by · v; terms have different v, none is 0, ordered by v. Made as if no integer of the kernel wrapped:
// where one does, indices that differ by one here do so, too, since the lower one is even.
typedef struct linear {
  int64_t c;
  int32_t n;
  struct {
    tc_kval v;
    int64_t by;
  } terms[TERMS];
} linear;

static const tc_kinst *made_by(const tc_kernel *k, tc_kval v) {
  return k->values[v].inst < 0 ? NULL : &k->insts[k->values[v].inst];
}

typedef struct walk {
  const tc_kernel *k;
  int32_t left; // steps: values are shared, sums of sums of them could go on for long
} walk;

static bool linear_add(linear *sum, const linear *x, int64_t by) {
  linear r = {.c = sum->c + by * x->c};
  for (int32_t i = 0, j = 0; i < sum->n || j < x->n;) {
    bool first = j == x->n || (i < sum->n && sum->terms[i].v <= x->terms[j].v);
    bool second = i == sum->n || (j < x->n && x->terms[j].v <= sum->terms[i].v);
    tc_kval v = first ? sum->terms[i].v : x->terms[j].v;
    int64_t n = (first ? sum->terms[i++].by : 0) + (second ? by * x->terms[j++].by : 0);
    if (!n) continue;
    if (r.n == TERMS) return false;
    r.terms[r.n].v = v, r.terms[r.n++].by = n;
  }
  *sum = r;
  return true;
}

static bool same_terms(const linear *x, const linear *y) {
  if (x->n != y->n) return false;
  for (int32_t i = 0; i < x->n; i++)
    if (x->terms[i].v != y->terms[i].v || x->terms[i].by != y->terms[i].by) return false;
  return true;
}

static bool constant(const tc_kernel *k, tc_kval v, int64_t *c) {
  const tc_kinst *in = made_by(k, v);
  if (!in || in->op != TC_K_CONST || in->imm > INT32_MAX || in->imm < INT32_MIN) return false;
  *c = in->imm;
  return true;
}

static bool add_value(walk *w, tc_kval v, int64_t by, linear *sum);

static bool add_product(walk *w, tc_kval x, tc_kval y, int64_t by, linear *sum, bool *done) {
  int64_t c;
  *done = true;
  if (constant(w->k, y, &c)) return add_value(w, x, by * c, sum);
  if (constant(w->k, x, &c)) return add_value(w, y, by * c, sum);
  *done = false;
  return true;
}

static bool add_value(walk *w, tc_kval v, int64_t by, linear *sum) {
  if (w->left-- <= 0 || by > INT32_MAX || by < INT32_MIN) return false;
  const tc_kinst *in = made_by(w->k, v);
  int64_t c;
  bool done = false;
  switch (in ? in->op : TC_K_LANE) {
  case TC_K_CONST: sum->c += by * in->imm; return true;
  case TC_K_ADD: return add_value(w, in->args[0], by, sum) && add_value(w, in->args[1], by, sum);
  case TC_K_SUB: return add_value(w, in->args[0], by, sum) && add_value(w, in->args[1], -by, sum);
  case TC_K_NEG: return add_value(w, in->args[0], -by, sum);
  case TC_K_CAST:
    if (tc_kir_is_int(w->k->values[in->args[0]].dtype)) return add_value(w, in->args[0], by, sum);
    break;
  case TC_K_SHL:
    if (constant(w->k, in->args[1], &c) && c >= 0 && c < 31) return add_value(w, in->args[0], by * (1LL << c), sum);
    break;
  case TC_K_MUL:
    if (!add_product(w, in->args[0], in->args[1], by, sum, &done)) return false;
    if (done) return true;
    break;
  case TC_K_FMA:
    if (!add_product(w, in->args[0], in->args[1], by, sum, &done)) return false;
    if (done) return add_value(w, in->args[2], by, sum);
    break;
  default: break;
  }
  linear leaf = {.n = 1, .terms = {{v, 1}}};
  return linear_add(sum, &leaf, by);
}

static bool linear_of(const tc_kernel *k, tc_kval v, linear *out) {
  walk w = {k, STEPS};
  *out = (linear){0};
  return tc_kir_is_int(k->values[v].dtype) && add_value(&w, v, 1, out);
}

// ---- loads ----
typedef struct joiner {
  int32_t *other; // by instruction: the load of the neighbour; -1: none
} joiner;

static bool is_even(const linear *x) {
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
  linear index;
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
      if (!may_join(k, in) || !linear_of(k, in->args[0], &x->index)) continue;
      x->inst = g->insts.data[i], x->at = i;
      while (loads[from].at + REACH < i) from++;
      for (int32_t j = n - 1; j >= from; j--) {
        load *y = &loads[j];
        if (k->insts[y->inst].mem != in->mem || f->other[y->inst] >= 0) continue;
        int64_t step = x->index.c - y->index.c;
        if ((step != 1 && step != -1) || !same_terms(&x->index, &y->index)) continue;
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
  linear x, y;
  tc_kval index = c->map[in->args[0]], v[2];
  bool known = linear_of(c->from, in->args[0], &x) && linear_of(c->from, with->args[0], &y);
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
