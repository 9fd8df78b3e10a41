// What only the rare side of selects needs, left out by threads that take the other side.
//
// Where lanes are threads, a select whose last operand is seldom taken (TC_KI_RARE) may be a branch. Selects of one
// condition that stand together, and the pure instructions that nothing but their rare sides needs, are a group; one of
// at least LEAST instructions is printed as
//   T v = a; …
//   if (!c) { instructions; v = b; … }
// in place of its first select. Neighbouring threads decide alike then, and what is in front and behind is one stretch
// of code for the compiler but for these. Groups may lie in groups. Without memory nothing is left out.
#include <stdlib.h>

#include "cprint.h"

enum { LEAST = 16, LEADS = -2, RARE = 2 }; // RARE: the operand

struct lazies {
  int32_t *group; // by instruction: the first select of its group, or -1; that select itself is outside
  int32_t *mark;  // by instruction: the group that it was last found in; LEADS: the first select of a group
  int32_t *uses;  // by value: operands that name it
  int32_t *seen;  // by value: those of them that are in the group `stamp`
  int32_t *stamp;
};

static bool may_wait(const printer *p, const tc_kinst *in) {
  int32_t cls = tc_k_op_class(in->op);
  if (in->n_results != 1 || in->n_regions) return false;
  if (in->op == TC_K_LOAD) {
    tc_kmem_info m;
    tc_k_mem(p->k, in->mem, &m);
    return m.space == TC_SPACE_TABLE;
  }
  return cls == 'a' || cls == 'c' || in->op == TC_K_SELECT || in->op == TC_K_CAST || in->op == TC_K_BITCAST;
}

static void note_use(struct lazies *z, tc_kval v, int32_t stamp) {
  if (z->stamp[v] != stamp) z->stamp[v] = stamp, z->seen[v] = 0;
  z->seen[v]++;
}

static void note_operands(struct lazies *z, const tc_kinst *in, int32_t stamp) {
  for (int32_t i = 0; i < in->n_args; i++) note_use(z, in->args[i], stamp);
}

static bool is_select_by(const printer *p, int32_t inst, tc_kval cond) {
  tc_kinst in;
  tc_k_inst(p->k, inst, &in);
  return in.op == TC_K_SELECT && in.flags & TC_KI_RARE && in.args[0] == cond;
}

// The first of the selects by one condition that stand in a row up to place `at`.
static int32_t first_of_row(const printer *p, const tc_kregion *g, int32_t at, tc_kval cond) {
  int32_t first = at;
  for (int32_t i = at - 1; i >= 0; i--) {
    tc_kinst in;
    tc_k_inst(p->k, g->insts[i], &in);
    if (in.op == TC_K_CONST || in.op == TC_K_SCALAR) continue;
    if (!is_select_by(p, g->insts[i], cond)) break;
    first = i;
  }
  return first;
}

// Do all selects from place `first` to `last` have their sides in front of the first?
static bool sides_are_there(const printer *p, const tc_kregion *g, int32_t first, int32_t last, tc_kval cond) {
  for (int32_t i = first; i < last; i++) {
    tc_kinst in, later;
    tc_k_inst(p->k, g->insts[i], &in);
    if (!is_select_by(p, g->insts[i], cond)) continue;
    for (int32_t j = i + 1; j <= last; j++) {
      tc_k_inst(p->k, g->insts[j], &later);
      for (int32_t k = 1; k < later.n_args; k++)
        if (later.args[k] == in.results[0]) return false;
    }
  }
  return true;
}

// Makes a group of the selects from place `first` to `last` if enough can wait.
static void make_group(const printer *p, const tc_kregion *g, int32_t first, int32_t last, tc_kval cond) {
  struct lazies *z = p->lazies;
  int32_t lead = g->insts[first], around = z->group[lead], stamp = lead, count = 0;
  tc_kinst in;
  for (int32_t i = first; i <= last; i++) {
    tc_k_inst(p->k, g->insts[i], &in);
    if (is_select_by(p, g->insts[i], cond)) note_use(z, in.args[RARE], stamp);
  }
  for (int32_t i = first - 1; i >= 0; i--) { // users stand behind what they use
    tc_k_inst(p->k, g->insts[i], &in);
    if (z->group[g->insts[i]] != around || !may_wait(p, &in)) continue;
    tc_kval v = in.results[0];
    if (z->stamp[v] != stamp || z->seen[v] != z->uses[v]) continue;
    note_operands(z, &in, stamp);
    if (z->mark[g->insts[i]] != LEADS) z->mark[g->insts[i]] = stamp;
    count++;
  }
  if (count < LEAST) return;
  for (int32_t i = 0; i <= last; i++) {
    int32_t inst = g->insts[i];
    bool select = i > first && is_select_by(p, inst, cond);
    if (select || (i < first && z->mark[inst] == stamp)) z->group[inst] = lead;
  }
  z->mark[lead] = LEADS;
}

static void find_groups(const printer *p, int32_t region) {
  tc_kregion g;
  tc_k_region(p->k, region, &g);
  for (int32_t at = g.n_insts - 1; at >= 0; at--) { // outer groups before those inside
    tc_kinst in;
    tc_k_inst(p->k, g.insts[at], &in);
    if (in.op != TC_K_SELECT || !(in.flags & TC_KI_RARE)) continue;
    int32_t first = first_of_row(p, &g, at, in.args[0]);
    bool together = sides_are_there(p, &g, first, at, in.args[0]);
    for (int32_t i = first; i <= at; i++) together &= p->lazies->group[g.insts[i]] == p->lazies->group[g.insts[at]];
    if (together) make_group(p, &g, first, at, in.args[0]);
    at = first;
  }
}

void lazies_find(printer *p) {
  int32_t insts = tc_k_inst_count(p->k), values = tc_k_value_count(p->k);
  int32_t *room = malloc(sizeof *room * (2 * (size_t)insts + 3 * (size_t)values + 1) + sizeof(struct lazies));
  if (!room) return;
  struct lazies *z = (struct lazies *)room;
  room = (int32_t *)(z + 1);
  *z = (struct lazies){room, room + insts, room + 2 * insts, room + 2 * insts + values, room + 2 * insts + 2 * values};
  for (int32_t i = 0; i < insts; i++) z->group[i] = z->mark[i] = -1;
  for (int32_t v = 0; v < values; v++) z->uses[v] = z->seen[v] = 0, z->stamp[v] = -1;
  for (int32_t i = 0; i < insts; i++) {
    tc_kinst in;
    tc_k_inst(p->k, i, &in);
    for (int32_t k = 0; k < in.n_args; k++) z->uses[in.args[k]]++;
  }
  p->lazies = z;
  for (int32_t r = 0; r < tc_k_region_count(p->k); r++) find_groups(p, r);
}

void lazies_free(printer *p) {
  free(p->lazies);
  p->lazies = NULL;
}

int32_t lazy_group(const printer *p, int32_t inst) { return p->lazies ? p->lazies->group[inst] : -1; }

// Selects of the group from place `at` on take an operand each, before or in the braces.
static void put_sides(printer *p, const tc_kregion *g, int32_t at, int32_t side, bool first) {
  for (int32_t i = at; i < g->n_insts; i++) {
    tc_kinst in;
    if (i > at && lazy_group(p, g->insts[i]) != g->insts[at]) continue;
    tc_k_inst(p->k, g->insts[i], &in);
    if (first) declare(p, in.results[0], false);
    else put_indent(p), put_name(p, in.results[0]);
    put(p, " = ");
    put_value(p, in.args[side]);
    put(p, ";\n");
  }
}

bool put_lazy(printer *p, const tc_kregion *g, int32_t at) {
  int32_t lead = g->insts[at];
  tc_kinst in;
  if (!p->lazies || p->lazies->mark[lead] != LEADS) return false;
  tc_k_inst(p->k, lead, &in);
  put_sides(p, g, at, RARE - 1, true);
  put_indent(p);
  put(p, "if (!");
  put_value(p, in.args[0]);
  put(p, ") {\n");
  p->depth++;
  put_members(p, g, lead, at);
  put_sides(p, g, at, RARE, false);
  p->depth--;
  put_indent(p);
  put(p, "}\n");
  return true;
}
