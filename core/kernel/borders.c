// Borders: an index into padded memory is max(a, min(x, b)), and x alone in all blocks but those at its ends.
//
// Where lanes are threads, loads of one region with such indices are made in front of it, in two branches between which
// a block chooses as a whole: by x, of which neighbours can be read as one, where it lies inside for every lane, and by
// what the kernel has else. Sums (linear.h) are compared with what memory's own indices are made of alone, none of
// which wraps: positions, in types that the emission chose for their ranges, never numbers that a program computes.
#include "core/kernel/linear.h"

enum {
  FEW = 4,   // loads that are not worth a branch
  MOST = 64, // loads of one branch: all of them have a register
  DEPTH = 2, // clamps inside of clamps
};

typedef struct border {
  int32_t inst;
  tc_linear inside[2]; // x is the index where none is negative, by lane at its least
  tc_linear index;     // with x in the clamp's place
} border;

typedef struct group {
  tc_linear inside[2]; // of the load for which it is the least
  int32_t n;
  const border *loads[MOST];
} group;

typedef struct borders {
  group **of; // by instruction
  int8_t *known;
} borders;

// ---- what may be computed anew ----
// Is v made of constants, sizes, loops and the numbers of lanes and blocks alone? `known`: by value, 1 yes, 2 no.
static bool is_position(const tc_kernel *k, tc_kval v, int8_t *known) {
  if (known[v]) return known[v] == 1;
  const tc_kinst *in = tc_kir_made_by(k, v);
  bool is = k->values[v].dtype == TC_I32 || k->values[v].dtype == TC_I64;
  if (!in) { // of a loop the counter
    const tc_kir_region *g = &k->regions[k->value_regions[v]];
    is &= g->kind == TC_KIR_FOR && g->params[0] == v;
  } else if (in->op != TC_K_CONST && in->op != TC_K_LANE && in->op != TC_K_BLOCK && in->op != TC_K_SCALAR) {
    is &= tc_kir_is_pure(in->op);
    for (int32_t i = 0; i < in->n_args && is; i++) is = is_position(k, in->args[i], known);
  }
  known[v] = is ? 1 : 2;
  return is;
}

// ---- indices ----
// The greatest that a value which varies by lane takes, its least being 0; -1: not known.
static int64_t greatest(const tc_kernel *k, tc_kval v) {
  const tc_kinst *in = tc_kir_made_by(k, v);
  int64_t c, x;
  if (in && in->op == TC_K_LANE) return k->lanes - 1;
  if (!in || in->n_args != 2 || !tc_kir_is_constant(k, in->args[1], &c) || c < 0) return -1;
  if ((x = greatest(k, in->args[0])) < 0) return -1;
  switch (in->op) {
  case TC_K_AND: return c < x ? c : x;
  case TC_K_SHR: return c < 32 ? x >> c : 0;
  case TC_K_DIV: return c ? x / c : -1;
  case TC_K_REM: return c && c - 1 < x ? c - 1 : x;
  default: return -1;
  }
}

// min(u, K) with a constant K, as the rows of a block have it, the last of which may be made twice.
static bool is_held(const tc_kernel *k, tc_kval v, tc_linear *u, int64_t *most) {
  const tc_kinst *in = tc_kir_made_by(k, v);
  if (!in || in->op != TC_K_MIN) return false;
  int32_t at = tc_kir_is_constant(k, in->args[1], most) ? 1 : 0;
  return (at || tc_kir_is_constant(k, in->args[0], most)) && tc_linear_of(k, in->args[1 - at], u);
}

static bool take_least(const tc_kernel *k, tc_linear *x, int32_t depth);

// x with u in the place of min(u, K), where that is no more; at K it must be known not to be negative.
static bool let_go(const tc_kernel *k, tc_linear *x, int32_t at, int32_t depth) {
  tc_linear u, term = {.n = 1, .terms = {{x->terms[at].v, 1}}}, end;
  int64_t by = x->terms[at].by, most;
  if (!depth || !is_held(k, x->terms[at].v, &u, &most) || !tc_linear_add(x, &term, -by)) return false;
  end = *x, end.c += by * most;
  if (by > 0 && (!take_least(k, &end, depth - 1) || end.n || end.c < 0)) return false;
  return tc_linear_add(x, &u, by);
}

// Puts the least of what varies by lane into the constant; false where it is not known.
static bool take_least(const tc_kernel *k, tc_linear *x, int32_t depth) {
  for (int32_t i = 0; i < x->n;) {
    tc_kval v = x->terms[i].v;
    int64_t by = x->terms[i].by, most = k->values[v].varying ? greatest(k, v) : 0;
    tc_linear term = {.n = 1, .terms = {{v, 1}}};
    if (!k->values[v].varying) i++;
    else if (most < 0 && let_go(k, x, i, depth)) i = 0;
    else if (most < 0 || !tc_linear_add(x, &term, -by)) return false;
    else if (by < 0) x->c += by * most;
  }
  return true;
}

static int64_t steps_by_lane(const tc_kernel *k, const tc_linear *x) {
  int64_t n = 0;
  for (int32_t i = 0; i < x->n; i++)
    if (k->values[x->terms[i].v].varying) n += x->terms[i].by;
  return n;
}

// max(a, min(x, b)) or min(a, max(x, b)) of which x is what grows most with the lane.
static bool split_clamp(const tc_kernel *k, tc_kval v, border *out, tc_linear *out_x) {
  const tc_kinst *outer = tc_kir_made_by(k, v), *inner;
  if (!outer || (outer->op != TC_K_MAX && outer->op != TC_K_MIN)) return false;
  int32_t other = outer->op == TC_K_MAX ? TC_K_MIN : TC_K_MAX, sign = outer->op == TC_K_MAX ? 1 : -1;
  for (int32_t i = 0; i < 2; i++) {
    inner = tc_kir_made_by(k, outer->args[i]);
    if (!inner || inner->op != other) continue;
    tc_linear a, x, b;
    if (!tc_linear_of(k, outer->args[1 - i], &a) || !tc_linear_of(k, inner->args[0], &x) ||
        !tc_linear_of(k, inner->args[1], &b))
      return false;
    if (steps_by_lane(k, &x) < steps_by_lane(k, &b)) {
      tc_linear turned = x;
      x = b, b = turned;
    }
    out->inside[0] = out->inside[1] = (tc_linear){0};
    *out_x = x;
    return tc_linear_add(&out->inside[0], &x, sign) && tc_linear_add(&out->inside[0], &a, -sign) &&
           tc_linear_add(&out->inside[1], &b, sign) && tc_linear_add(&out->inside[1], &x, -sign) &&
           take_least(k, &out->inside[0], DEPTH) && take_least(k, &out->inside[1], DEPTH);
  }
  return false;
}

static bool is_border(const tc_kernel *k, int32_t inst, int8_t *known, border *out) {
  const tc_kinst *in = &k->insts[inst];
  int32_t flags = TC_MEM_READONLY | TC_MEM_NOALIAS; // the load may come earlier
  if (in->op != TC_K_LOAD || in->width != 1 || in->has_mask || !k->values[in->args[0]].varying) return false;
  if (k->mems[in->mem].space != TC_SPACE_GLOBAL || (k->mems[in->mem].flags & flags) != flags) return false;
  if (!is_position(k, in->args[0], known) || !tc_linear_of(k, in->args[0], &out->index)) return false;
  for (int32_t i = 0; i < out->index.n; i++) {
    int64_t by = out->index.terms[i].by;
    tc_kval v = out->index.terms[i].v;
    tc_linear x, clamp = {.n = 1, .terms = {{v, 1}}};
    if (!split_clamp(k, v, out, &x)) continue;
    out->inst = inst;
    return tc_linear_add(&out->index, &clamp, -by) && tc_linear_add(&out->index, &x, by);
  }
  return false;
}

static bool belongs(const group *g, const border *x) {
  return g->n < MOST && tc_linear_same_terms(&g->inside[0], &x->inside[0]) &&
         tc_linear_same_terms(&g->inside[1], &x->inside[1]);
}

// The loads of each region that a branch is worth.
static bool find(borders *f, const tc_kernel *k, tc_arena *arena) {
  bool any = false;
  for (int32_t r = 0; r < k->n_regions; r++) {
    const tc_kir_region *region = &k->regions[r];
    group *g = NULL;
    for (int32_t i = 0; region->in_lanes && i < region->insts.count; i++) {
      border found;
      if (!is_border(k, region->insts.data[i], f->known, &found)) continue;
      if (!found.inside[0].n && !found.inside[1].n) continue; // the same in all blocks
      border *x = TC_NEW_ARRAY(arena, border, 1);
      *x = found;
      if (!g || !belongs(g, x)) {
        g = TC_NEW_ARRAY(arena, group, 1);
        g->inside[0] = x->inside[0], g->inside[1] = x->inside[1];
      }
      for (int32_t j = 0; j < 2; j++)
        if (x->inside[j].c < g->inside[j].c) g->inside[j].c = x->inside[j].c;
      g->loads[g->n++] = x;
      if (g->n < FEW) continue;
      for (int32_t j = 0; j < g->n; j++) f->of[g->loads[j]->inst] = g;
      any = true;
    }
  }
  return any;
}

// ---- the two branches ----
typedef struct made { // values that exist in the open branch only
  int32_t n;
  tc_kval *values;
} made;

static tc_status need(tc_kir_copy *c, tc_kval v, made *here) {
  if (c->map[v] >= 0) return TC_OK;
  const tc_kinst *in = tc_kir_made_by(c->from, v);
  for (int32_t i = 0; i < in->n_args; i++) TC_TRY(need(c, in->args[i], here));
  TC_TRY(tc_kir_copy_inst(c, c->from->values[v].inst));
  here->values[here->n++] = v;
  return TC_OK;
}

static void forget(tc_kir_copy *c, made *here) {
  for (int32_t i = 0; i < here->n; i++) c->map[here->values[i]] = -1;
  here->n = 0;
}

// What is the same for all lanes first, which loads share, the constant last, which addresses take in.
static tc_status emit_linear(tc_kir_copy *c, const tc_linear *x, tc_dtype type, made *here, tc_kval *out) {
  tc_kb *b = c->to;
  tc_kval sum = -1;
  for (int32_t varying = 0; varying < 2; varying++) {
    for (int32_t i = 0; i < x->n; i++) {
      tc_kval v = x->terms[i].v;
      if (c->from->values[v].varying != varying) continue;
      TC_TRY(need(c, v, here));
      tc_kval term = tc_kb_op2(b, TC_K_MUL, tc_kb_cast(b, type, c->map[v]), tc_kb_int(b, type, x->terms[i].by));
      sum = sum < 0 ? term : tc_kb_op2(b, TC_K_ADD, sum, term);
    }
  }
  tc_kval rest = tc_kb_int(b, type, x->c);
  *out = sum < 0 ? rest : tc_kb_op2(b, TC_K_ADD, sum, rest);
  return TC_OK;
}

// In 64 bits: differences of indices need one more than these have.
static tc_status emit_inside(tc_kir_copy *c, const group *g, made *here, tc_kval *out) {
  tc_kval both[2];
  for (int32_t j = 0; j < 2; j++) {
    TC_TRY(emit_linear(c, &g->inside[j], TC_I64, here, &both[j]));
    both[j] = tc_kb_op2(c->to, TC_K_GE, both[j], tc_kb_int(c->to, TC_I64, 0));
  }
  *out = tc_kb_op2(c->to, TC_K_AND, both[0], both[1]);
  return TC_OK;
}

static tc_status emit_branches(tc_kir_copy *c, const group *g) {
  tc_kb *b = c->to;
  const tc_kernel *k = c->from;
  made here = {.values = TC_NEW_ARRAY(tc_kb_arena(b), tc_kval, k->n_values)};
  tc_kval v[MOST], inside, index;
  TC_TRY(emit_inside(c, g, &here, &inside));
  forget(c, &here);
  tc_kb_if(b, inside);
  for (int32_t i = 0; i < g->n; i++) {
    const tc_kinst *in = &k->insts[g->loads[i]->inst];
    TC_TRY(emit_linear(c, &g->loads[i]->index, k->values[in->args[0]].dtype, &here, &index));
    v[i] = tc_kb_load1(b, c->mems[in->mem], index, -1, -1);
  }
  forget(c, &here);
  tc_kb_else(b, g->n, v);
  for (int32_t i = 0; i < g->n; i++) {
    const tc_kinst *in = &k->insts[g->loads[i]->inst];
    TC_TRY(need(c, in->args[0], &here));
    v[i] = tc_kb_load1(b, c->mems[in->mem], c->map[in->args[0]], -1, -1);
  }
  forget(c, &here);
  tc_kb_end_if(b, g->n, v, v);
  for (int32_t i = 0; i < g->n; i++) {
    tc_kval old = k->insts[g->loads[i]->inst].results[0];
    c->map[old] = v[i];
    tc_kir_keep_name(c, old, v[i]);
  }
  return TC_OK;
}

static tc_status visit(tc_kir_copy *c, int32_t inst) {
  const borders *f = c->self;
  if (!f->of[inst]) return tc_kir_copy_inst(c, inst);
  if (c->map[c->from->insts[inst].results[0]] >= 0) return TC_OK; // loaded with the first of them
  return emit_branches(c, f->of[inst]);
}

static tc_status split(tc_arena *arena, tc_kernel *k, tc_kernel **out) {
  borders f = {TC_NEW_ARRAY(arena, group *, k->n_insts + 1), TC_NEW_ARRAY(arena, int8_t, k->n_values + 1)};
  return find(&f, k, arena) ? tc_kir_copy_kernel(arena, k, visit, &f, false, out) : TC_OK;
}

tc_status tc_kernel_split_borders(tc_arena *arena, tc_kernel *k, tc_kernel **out) {
  return tc_kir_pass(arena, k, split, out);
}
