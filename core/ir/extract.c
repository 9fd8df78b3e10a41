// Parts of graphs as graphs of their own (graph.h).
#include "core/ir/op.h"

// ---- What nodes read ----
static void visit_sym(const tc_visit *v, const tc_sym *x) {
  if (!x) return;
  if (x->kind == TC_SYM_SYMBOL) v->symbol(v->self, x);
  for (int32_t i = 0; i < x->n; i++) visit_sym(v, x->kids[i]);
}

static void visit_type(const tc_visit *v, const tc_tensor_type *t) {
  for (int32_t d = 0; d < t->rank; d++) {
    visit_sym(v, t->sizes[d]);
    visit_sym(v, t->strides[d]);
  }
  visit_sym(v, t->offset);
}

static void visit_graph(const tc_visit *v, const tc_graph *g);

static void visit_arg(const tc_visit *v, const tc_arg *a) {
  if (a->value) v->value(v->self, a->value);
  for (int32_t i = 0; a->kind == TC_AK_TENSORS && i < a->n; i++) {
    if (a->values[i]) v->value(v->self, a->values[i]);
  }
  if (a->kind == TC_AK_INT) visit_sym(v, a->sym);
  for (int32_t i = 0; a->kind == TC_AK_INTS && i < a->n; i++) visit_sym(v, a->syms[i]);
  if (a->kind == TC_AK_GRAPH && a->graph) visit_graph(v, a->graph);
}

void tc_visit_node(const tc_visit *v, const tc_node *n) {
  for (int32_t i = 0; i < n->n_args; i++) visit_arg(v, &n->args[i]);
  for (int32_t i = 0; i < n->n_results; i++) {
    if (n->results[i]->kind == TC_VALUE_TENSOR) visit_type(v, &n->results[i]->type);
    if (n->results[i]->kind == TC_VALUE_SYM) visit_sym(v, n->results[i]->symbol);
  }
}

// Regions close over symbols, not over values.
static void no_value(void *self, tc_value *v) { (void)self, (void)v; }
static void visit_graph(const tc_visit *v, const tc_graph *g) {
  tc_visit inner = {no_value, v->symbol, v->self};
  for (const tc_node *n = g->first; n; n = n->next) tc_visit_node(&inner, n);
}

// ---- Extraction ----
typedef struct extraction {
  tc_graph *from, *g;
  tc_arena *arena;
  tc_map *values;  // outer value → inner value
  tc_map *members; // nodes
  tc_map *symbols; // seen
  TC_VEC(tc_value *) inputs;
  TC_VEC(tc_value *) outputs;
  TC_VEC(const tc_sym *) free_symbols;
} extraction;

static tc_value *copy_value(extraction *x, const tc_value *v, tc_node *def) {
  tc_value *copy = tc_arena_copy(x->arena, v, sizeof *v);
  copy->graph = x->g, copy->def = def, copy->forward = NULL, copy->id = x->g->n_values++;
  tc_map_put_ptr(x->values, v, NULL)->value.ptr = copy;
  return copy;
}

static const tc_graph_input *input_of(const tc_graph *g, const tc_value *v) {
  for (int32_t i = 0; !v->def && i < g->inputs.count; i++) {
    if (g->inputs.data[i].value == v) return &g->inputs.data[i];
  }
  return NULL;
}

static tc_value *inner_value(extraction *x, tc_value *v) {
  tc_map_entry *e = tc_map_find_ptr(x->values, v);
  if (e) return e->value.ptr;
  tc_value *copy = copy_value(x, v, NULL);
  copy->view_arg = -1;
  const tc_graph_input *outer = input_of(x->from, v);
  tc_graph_input in = {.kind = TC_IN_USER, .value = copy, .target = v->name};
  if (outer) in.kind = outer->kind, in.persistent = outer->persistent, in.target = outer->target;
  copy->def_index = x->g->inputs.count;
  tc_vec_push(x->arena, &x->g->inputs, in);
  tc_vec_push(x->arena, &x->inputs, v);
  return copy;
}

// Numbers of data: compiled code gets them as symbols, references as values.
static tc_arg copy_arg(extraction *x, const tc_arg *a, bool references) {
  tc_arg out = *a;
  if (a->value && a->kind == TC_AK_INT && !references) out.value = NULL, out.sym = a->sym ? a->sym : a->value->symbol;
  else if (a->value) out.value = inner_value(x, a->value);
  if (a->kind == TC_AK_TENSORS) {
    out.values = TC_NEW_ARRAY(x->arena, tc_value *, a->n);
    for (int32_t i = 0; i < a->n; i++) out.values[i] = a->values[i] ? inner_value(x, a->values[i]) : NULL;
  }
  return out;
}

static void copy_node(extraction *x, const tc_node *n, bool references) {
  tc_node *copy = tc_arena_copy(x->arena, n, sizeof *n);
  copy->graph = x->g, copy->next = NULL, copy->prev = x->g->last, copy->id = x->g->n_nodes++;
  copy->args = TC_NEW_ARRAY(x->arena, tc_arg, n->n_args);
  copy->results = TC_NEW_ARRAY(x->arena, tc_value *, n->n_results);
  for (int32_t i = 0; i < n->n_args; i++) copy->args[i] = copy_arg(x, &n->args[i], references);
  for (int32_t i = 0; i < n->n_results; i++) copy->results[i] = copy_value(x, n->results[i], copy);
  if (x->g->last) x->g->last->next = copy;
  else x->g->first = copy;
  x->g->last = copy;
}

// Does running the node tell the symbol? Others have it in their sizes, too, and must know it before.
static bool tells(const tc_node *n, const tc_sym *s) {
  for (int32_t i = 0; i < n->n_results; i++)
    if (n->results[i]->kind == TC_VALUE_SYM && n->results[i]->symbol == s) return true;
  return n->op->def->traits & TC_OP_DATA_DEPENDENT;
}

static void note_symbol(void *self, const tc_sym *s) {
  extraction *x = self;
  bool fresh;
  tc_map_put_ptr(x->symbols, s, &fresh);
  if (!fresh) return;
  int32_t origin = tc_sym_info_read(x->from->module->syms, s)->origin;
  if (origin != TC_SYM_BACKED && origin != TC_SYM_UNBACKED) return;
  const tc_node *definer = origin == TC_SYM_UNBACKED ? tc_graph_definer(x->from, s) : NULL;
  if (!definer || !tells(definer, s) || !tc_map_find_ptr(x->members, definer))
    tc_vec_push(x->arena, &x->free_symbols, s);
}

// Is a member's result read outside? Marks are uses by nodes that are no members, and by outputs.
typedef struct outside {
  extraction *x;
  tc_map *read;
} outside;
static void note_read(void *self, tc_value *v) { tc_map_put_ptr(((outside *)self)->read, v, NULL); }
static void ignore_symbol(void *self, const tc_sym *s) { (void)self, (void)s; }

static void find_outputs(extraction *x, int32_t n, tc_node *const *nodes) {
  outside o = {x, tc_map_create(x->arena)};
  tc_visit v = {note_read, ignore_symbol, &o};
  for (const tc_node *k = x->from->first; k; k = k->next) {
    if (!tc_map_find_ptr(x->members, k)) tc_visit_node(&v, k);
  }
  for (int32_t i = 0; i < x->from->outputs.count; i++) visit_arg(&v, &x->from->outputs.data[i].arg);
  for (int32_t i = 0; i < n; i++) {
    for (int32_t k = 0; k < nodes[i]->n_results; k++) {
      tc_value *r = nodes[i]->results[k];
      bool defines = r->kind == TC_VALUE_SYM; // its symbol may be read anywhere
      if (!defines && !tc_map_find_ptr(o.read, r)) continue;
      if (r->kind == TC_VALUE_NONE) continue;
      tc_graph_output out = {.kind = TC_OUT_USER, .arg = tc_arg_tensor(inner_value(x, r)), .target = r->name};
      tc_vec_push(x->arena, &x->g->outputs, out);
      tc_vec_push(x->arena, &x->outputs, r);
    }
  }
}

void tc_graph_extract(tc_graph *from, int32_t n, tc_node *const *nodes, bool symbols, tc_extract *out) {
  tc_arena *arena = from->module->arena;
  extraction x = {
      .from = from, .g = tc_graph_create(from->module, from->name), .arena = arena, .values = tc_map_create(arena)};
  x.members = tc_map_create(arena), x.symbols = tc_map_create(arena);
  for (int32_t i = 0; i < n; i++) tc_map_put_ptr(x.members, nodes[i], NULL);
  for (int32_t i = 0; i < n; i++) copy_node(&x, nodes[i], symbols);
  find_outputs(&x, n, nodes);
  if (symbols) {
    tc_visit v = {no_value, note_symbol, &x};
    for (int32_t i = 0; i < n; i++) tc_visit_node(&v, nodes[i]);
    for (int32_t i = 0; i < x.inputs.count; i++) {
      if (x.inputs.data[i]->kind == TC_VALUE_TENSOR) visit_type(&v, &x.inputs.data[i]->type);
    }
    for (int32_t i = 0; i < x.free_symbols.count; i++) {
      const tc_sym *q = x.free_symbols.data[i];
      tc_graph_add_number_input(x.g, TC_IN_USER, q->name, q->name, TC_VALUE_SYM, q);
    }
  }
  tc_graph_copy_checks(x.g, from);
  tc_graph_sweep(x.g);
  out->graph = x.g;
  out->inputs = x.inputs.data, out->n_inputs = x.inputs.count;
  out->outputs = x.outputs.data, out->n_outputs = x.outputs.count;
  out->symbols = x.free_symbols.data, out->n_symbols = x.free_symbols.count;
}
