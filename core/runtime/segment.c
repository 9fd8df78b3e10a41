// Cutting a graph into steps.
//
// Levels: a node that can be compiled has the highest level of what it depends on, one more behind a node that cannot;
// all compiled nodes of a level are one segment. So independent work is not torn apart, and the number of segments is
// the longest chain of obstacles.
#include <string.h>

#include "core/ir/control.h"
#include "core/runtime/session_internal.h"

bool segment_reads(const tc_node *n) {
  bool item = tc_sv_is(n->op->full_name, "aten::item") || tc_sv_is(n->op->full_name, "aten::_local_scalar_dense");
  return item && n->n_results == 1 && n->results[0]->kind == TC_VALUE_SYM;
}

void segment_extract(tc_session *s, int32_t n, tc_node *const *nodes, bool symbols, session_step *out) {
  tc_extract x;
  tc_graph_extract(s->graph, n, nodes, symbols, &x);
  out->graph = x.graph;
  out->inputs = x.inputs, out->n_inputs = x.n_inputs;
  out->outputs = x.outputs, out->n_outputs = x.n_outputs;
  out->symbols = x.symbols, out->n_symbols = x.n_symbols;
}

// ---- Levels ----
typedef struct leveling {
  tc_session *s;
  const bool *bad;
  int32_t *level;   // by node id
  tc_map *definers; // symbol → node, looked up once
  int32_t at;       // of the node being looked at
  const tc_node *node;
} leveling;

// The part that a delegate takes, or -1.
static int32_t part_of(const tc_session *s, const tc_node *n) {
  return s->delegation.n_parts ? s->delegation.of[n->id] : -1;
}

// What differs in who does it cannot be one step, nor be on one level.
static void raise_to(leveling *l, const tc_node *def) {
  if (!def || def == l->node) return;
  bool other = part_of(l->s, def) != part_of(l->s, l->node);
  int32_t after = l->level[def->id] + (l->bad[def->id] || other);
  if (after > l->at) l->at = after;
}

static void raise_value(void *self, tc_value *v) { raise_to(self, v->def); }

static void raise_symbol(void *self, const tc_sym *symbol) {
  leveling *l = self;
  bool fresh;
  tc_map_entry *e = tc_map_put_ptr(l->definers, symbol, &fresh);
  int32_t origin = tc_sym_info_read(l->s->graph->module->syms, symbol)->origin;
  if (fresh && origin == TC_SYM_UNBACKED) e->value.ptr = tc_graph_definer(l->s->graph, symbol);
  raise_to(l, e->value.ptr);
}

// A step that is one node.
static void add_single(tc_session *s, tc_node *n, bool bad) {
  session_step *step = &s->steps[s->n_steps++];
  if (s->run_op && !bad && session_is_op(n)) {
    session_make_op(s, n, step);
    return;
  }
  step->kind = bad || s->context->is_ref ? STEP_REF : STEP_EXEC, step->node = n;
  if (tc_op_control(n->op) != TC_CONTROL_NONE && bad && !s->context->is_ref) step->kind = STEP_CONTROL;
  else if (bad && !s->context->is_ref && segment_reads(n)) step->kind = STEP_READ;
  else segment_extract(s, 1, &n, step->kind == STEP_REF, step);
}

static void add_delegated(tc_session *s, int32_t n, tc_node *const *nodes) {
  session_step *step = &s->steps[s->n_steps++];
  step->kind = STEP_DELEGATE;
  step->delegate = s->delegation.parts[part_of(s, nodes[0])].plugin;
  segment_extract(s, n, nodes, false, step);
}

// The nodes of a level that are done alike: by one delegate's part, or (-1) compiled.
static int32_t members_of(const leveling *l, int32_t level, int32_t part, tc_node **out) {
  int32_t n = 0;
  for (tc_node *k = l->s->graph->first; k; k = k->next) {
    if (l->level[k->id] == level && !l->bad[k->id] && part_of(l->s, k) == part) out[n++] = k;
  }
  return n;
}

void segment_cut(tc_session *s, const bool *bad) {
  if (s->apart) {
    s->steps = TC_NEW_ARRAY(s->arena, session_step, s->graph->n_nodes);
    s->n_steps = 0;
    for (tc_node *n = s->graph->first; n; n = n->next) {
      if (part_of(s, n) >= 0) add_delegated(s, 1, &n);
      else add_single(s, n, bad[n->id]);
    }
    return;
  }
  tc_graph *g = s->graph;
  leveling l = {
      .s = s, .bad = bad, .level = TC_NEW_ARRAY(s->arena, int32_t, g->n_nodes), .definers = tc_map_create(s->arena)};
  tc_visit v = {raise_value, raise_symbol, &l};
  int32_t top = 0, n_bad = 0, n;
  for (tc_node *k = g->first; k; k = k->next) {
    l.at = 0, l.node = k;
    tc_visit_node(&v, k);
    l.level[k->id] = l.at;
    if (l.at > top) top = l.at;
    n_bad += bad[k->id];
  }
  s->steps = TC_NEW_ARRAY(s->arena, session_step, (top + 1) * (1 + s->delegation.n_parts) + n_bad);
  s->n_steps = 0;
  tc_node **members = TC_NEW_ARRAY(s->arena, tc_node *, g->n_nodes);
  for (int32_t level = 0; level <= top; level++) {
    for (int32_t part = 0; part < s->delegation.n_parts; part++) {
      n = members_of(&l, level, part, members);
      if (n) add_delegated(s, n, members);
    }
    n = members_of(&l, level, -1, members);
    if (n) {
      session_step *step = &s->steps[s->n_steps++];
      step->kind = s->context->is_ref ? STEP_REF : STEP_EXEC;
      segment_extract(s, n, members, s->context->is_ref, step);
    }
    for (tc_node *k = g->first; k; k = k->next) {
      if (l.level[k->id] != level || !bad[k->id]) continue;
      add_single(s, k, true);
    }
  }
}
