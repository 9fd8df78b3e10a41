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

// ---- What nodes read ----
typedef struct visit {
  void (*value)(void *self, tc_value *v);
  void (*symbol)(void *self, const tc_sym *s);
  void *self;
} visit;

static void visit_sym(const visit *v, const tc_sym *x) {
  if (!x) return;
  if (x->kind == TC_SYM_SYMBOL) v->symbol(v->self, x);
  for (int32_t i = 0; i < x->n; i++) visit_sym(v, x->kids[i]);
}

static void visit_type(const visit *v, const tc_tensor_type *t) {
  for (int32_t d = 0; d < t->rank; d++) {
    visit_sym(v, t->sizes[d]);
    visit_sym(v, t->strides[d]);
  }
  visit_sym(v, t->offset);
}

static void visit_graph(const visit *v, const tc_graph *g);

static void visit_arg(const visit *v, const tc_arg *a) {
  if (a->value) v->value(v->self, a->value);
  for (int32_t i = 0; a->kind == TC_AK_TENSORS && i < a->n; i++) {
    if (a->values[i]) v->value(v->self, a->values[i]);
  }
  if (a->kind == TC_AK_INT) visit_sym(v, a->sym);
  for (int32_t i = 0; a->kind == TC_AK_INTS && i < a->n; i++) visit_sym(v, a->syms[i]);
  if (a->kind == TC_AK_GRAPH && a->graph) visit_graph(v, a->graph);
}

static void visit_node(const visit *v, const tc_node *n) {
  for (int32_t i = 0; i < n->n_args; i++) visit_arg(v, &n->args[i]);
  for (int32_t i = 0; i < n->n_results; i++) {
    if (n->results[i]->kind == TC_VALUE_TENSOR) visit_type(v, &n->results[i]->type);
    if (n->results[i]->kind == TC_VALUE_SYM) visit_sym(v, n->results[i]->symbol);
  }
}

// Regions close over symbols, not over values.
static void no_value(void *self, tc_value *v) { (void)self, (void)v; }
static void visit_graph(const visit *v, const tc_graph *g) {
  visit inner = {no_value, v->symbol, v->self};
  for (const tc_node *n = g->first; n; n = n->next) visit_node(&inner, n);
}

// ---- Extraction ----
typedef struct extraction {
  tc_session *s;
  tc_graph *g;
  tc_map *values;  // outer value → inner value
  tc_map *members; // nodes
  tc_map *symbols; // seen
  TC_VEC(tc_value *) inputs;
  TC_VEC(tc_value *) outputs;
  TC_VEC(const tc_sym *) free_symbols;
} extraction;

static tc_value *copy_value(extraction *x, const tc_value *v, tc_node *def) {
  tc_value *copy = tc_arena_copy(x->s->arena, v, sizeof *v);
  copy->graph = x->g, copy->def = def, copy->forward = NULL, copy->id = x->g->n_values++;
  tc_map_put_ptr(x->values, v, NULL)->value.ptr = copy;
  return copy;
}

static const tc_graph_input *input_of(const tc_session *s, const tc_value *v) {
  for (int32_t i = 0; !v->def && i < s->graph->inputs.count; i++) {
    if (s->graph->inputs.data[i].value == v) return &s->graph->inputs.data[i];
  }
  return NULL;
}

static tc_value *inner_value(extraction *x, tc_value *v) {
  tc_map_entry *e = tc_map_find_ptr(x->values, v);
  if (e) return e->value.ptr;
  tc_value *copy = copy_value(x, v, NULL);
  copy->view_arg = -1;
  const tc_graph_input *outer = input_of(x->s, v);
  tc_graph_input in = {.kind = TC_IN_USER, .value = copy, .target = v->name};
  if (outer) in.kind = outer->kind, in.persistent = outer->persistent, in.target = outer->target;
  copy->def_index = x->g->inputs.count;
  tc_vec_push(x->s->arena, &x->g->inputs, in);
  tc_vec_push(x->s->arena, &x->inputs, v);
  return copy;
}

// Numbers of data: compiled code gets them as symbols, references as values.
static tc_arg copy_arg(extraction *x, const tc_arg *a, bool references) {
  tc_arg out = *a;
  if (a->value && a->kind == TC_AK_INT && !references) out.value = NULL, out.sym = a->sym ? a->sym : a->value->symbol;
  else if (a->value) out.value = inner_value(x, a->value);
  if (a->kind == TC_AK_TENSORS) {
    out.values = TC_NEW_ARRAY(x->s->arena, tc_value *, a->n);
    for (int32_t i = 0; i < a->n; i++) out.values[i] = a->values[i] ? inner_value(x, a->values[i]) : NULL;
  }
  return out;
}

static void copy_node(extraction *x, const tc_node *n, bool references) {
  tc_node *copy = tc_arena_copy(x->s->arena, n, sizeof *n);
  copy->graph = x->g, copy->next = NULL, copy->prev = x->g->last, copy->id = x->g->n_nodes++;
  copy->args = TC_NEW_ARRAY(x->s->arena, tc_arg, n->n_args);
  copy->results = TC_NEW_ARRAY(x->s->arena, tc_value *, n->n_results);
  for (int32_t i = 0; i < n->n_args; i++) copy->args[i] = copy_arg(x, &n->args[i], references);
  for (int32_t i = 0; i < n->n_results; i++) copy->results[i] = copy_value(x, n->results[i], copy);
  if (x->g->last) x->g->last->next = copy;
  else x->g->first = copy;
  x->g->last = copy;
}

static void note_symbol(void *self, const tc_sym *s) {
  extraction *x = self;
  bool fresh;
  tc_map_put_ptr(x->symbols, s, &fresh);
  if (!fresh) return;
  int32_t origin = tc_sym_info_read(x->s->graph->module->syms, s)->origin;
  if (origin != TC_SYM_BACKED && origin != TC_SYM_UNBACKED) return;
  const tc_node *definer = tc_graph_definer(x->s->graph, s);
  if (!definer || !tc_map_find_ptr(x->members, definer)) tc_vec_push(x->s->arena, &x->free_symbols, s);
}

// Is a member's result read outside? Marks are uses by nodes that are no members, and by outputs.
typedef struct outside {
  extraction *x;
  tc_map *read;
} outside;
static void note_read(void *self, tc_value *v) { tc_map_put_ptr(((outside *)self)->read, v, NULL); }
static void ignore_symbol(void *self, const tc_sym *s) { (void)self, (void)s; }

static void find_outputs(extraction *x, int32_t n, tc_node *const *nodes) {
  outside o = {x, tc_map_create(x->s->arena)};
  visit v = {note_read, ignore_symbol, &o};
  for (const tc_node *k = x->s->graph->first; k; k = k->next) {
    if (!tc_map_find_ptr(x->members, k)) visit_node(&v, k);
  }
  for (int32_t i = 0; i < x->s->graph->outputs.count; i++) visit_arg(&v, &x->s->graph->outputs.data[i].arg);
  for (int32_t i = 0; i < n; i++) {
    for (int32_t k = 0; k < nodes[i]->n_results; k++) {
      tc_value *r = nodes[i]->results[k];
      bool defines = r->kind == TC_VALUE_SYM; // its symbol may be read anywhere
      if (!defines && !tc_map_find_ptr(o.read, r)) continue;
      if (r->kind == TC_VALUE_NONE) continue;
      tc_graph_output out = {.kind = TC_OUT_USER, .arg = tc_arg_tensor(inner_value(x, r)), .target = r->name};
      tc_vec_push(x->s->arena, &x->g->outputs, out);
      tc_vec_push(x->s->arena, &x->outputs, r);
    }
  }
}

void segment_extract(tc_session *s, int32_t n, tc_node *const *nodes, bool symbols, session_step *out) {
  tc_arena *arena = s->arena;
  extraction x = {.s = s, .g = tc_graph_create(s->graph->module, s->graph->name), .values = tc_map_create(arena)};
  x.members = tc_map_create(arena), x.symbols = tc_map_create(arena);
  for (int32_t i = 0; i < n; i++) tc_map_put_ptr(x.members, nodes[i], NULL);
  for (int32_t i = 0; i < n; i++) copy_node(&x, nodes[i], symbols);
  find_outputs(&x, n, nodes);
  if (symbols) {
    visit v = {no_value, note_symbol, &x};
    for (int32_t i = 0; i < n; i++) visit_node(&v, nodes[i]);
    for (int32_t i = 0; i < x.inputs.count; i++) {
      if (x.inputs.data[i]->kind == TC_VALUE_TENSOR) visit_type(&v, &x.inputs.data[i]->type);
    }
    for (int32_t i = 0; i < x.free_symbols.count; i++) {
      const tc_sym *q = x.free_symbols.data[i];
      tc_graph_add_number_input(x.g, TC_IN_USER, q->name, q->name, TC_VALUE_SYM, q);
    }
  }
  tc_graph_sweep(x.g);
  out->graph = x.g;
  out->inputs = x.inputs.data, out->n_inputs = x.inputs.count;
  out->outputs = x.outputs.data, out->n_outputs = x.outputs.count;
  out->symbols = x.free_symbols.data, out->n_symbols = x.free_symbols.count;
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

static void raise_to(leveling *l, const tc_node *def) {
  if (!def || def == l->node) return;
  int32_t after = l->level[def->id] + l->bad[def->id];
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
  step->kind = bad || s->context->is_ref ? STEP_REF : STEP_EXEC, step->node = n;
  if (tc_op_control(n->op) != TC_CONTROL_NONE && bad && !s->context->is_ref) step->kind = STEP_CONTROL;
  else if (bad && !s->context->is_ref && segment_reads(n)) step->kind = STEP_READ;
  else segment_extract(s, 1, &n, step->kind == STEP_REF, step);
}

void segment_cut(tc_session *s, const bool *bad) {
  if (s->apart) {
    s->steps = TC_NEW_ARRAY(s->arena, session_step, s->graph->n_nodes);
    s->n_steps = 0;
    for (tc_node *n = s->graph->first; n; n = n->next) add_single(s, n, bad[n->id]);
    return;
  }
  tc_graph *g = s->graph;
  leveling l = {
      .s = s, .bad = bad, .level = TC_NEW_ARRAY(s->arena, int32_t, g->n_nodes), .definers = tc_map_create(s->arena)};
  visit v = {raise_value, raise_symbol, &l};
  int32_t top = 0, n_bad = 0, n;
  for (tc_node *k = g->first; k; k = k->next) {
    l.at = 0, l.node = k;
    visit_node(&v, k);
    l.level[k->id] = l.at;
    if (l.at > top) top = l.at;
    n_bad += bad[k->id];
  }
  s->steps = TC_NEW_ARRAY(s->arena, session_step, top + 1 + n_bad);
  s->n_steps = 0;
  tc_node **members = TC_NEW_ARRAY(s->arena, tc_node *, g->n_nodes);
  for (int32_t level = 0; level <= top; level++) {
    n = 0;
    for (tc_node *k = g->first; k; k = k->next) {
      if (l.level[k->id] == level && !bad[k->id]) members[n++] = k;
    }
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
