// Graphs: creation, inputs and outputs, names, rewriting, cloning. See graph.h.
//
// Invariants between sweeps: `prev`/`next` link the live and killed nodes in order; a value's `def` is its node or
// NULL; names of values are unique in their graph. After a sweep no argument refers to a forwarded value.
#include "core/ir/graph.h"

#include <stdio.h>
#include <string.h>

#include "core/ir/internal.h"

// ---- modules ----
static void release_bindings(void *p) {
  tc_module *m = p;
  for (int32_t i = 0; i < tc_map_count(m->bindings); i++)
    tc_tensor_unref(&((tc_binding *)tc_map_at(m->bindings, i)->value.ptr)->tensor);
}

typedef struct module_creation {
  tc_arena *arena;
  const tc_op_registry *ops;
  tc_module *module;
} module_creation;

static tc_status make_module(void *p) {
  module_creation *c = p;
  tc_module *m = TC_NEW(c->arena, tc_module);
  m->arena = c->arena;
  m->ops = c->ops;
  m->syms = tc_sym_create(c->arena);
  m->bindings = tc_map_create(c->arena);
  tc_arena_on_destroy(c->arena, release_bindings, m);
  c->module = m;
  return TC_OK;
}

tc_status tc_module_create(const tc_allocator *a, const tc_op_registry *ops, tc_module **out) {
  *out = NULL;
  module_creation c = {.ops = ops};
  TC_TRY(tc_arena_create(a, &c.arena));
  tc_status s = tc_arena_guard(c.arena, make_module, &c);
  if (s) {
    tc_arena_destroy(c.arena);
    return s;
  }
  *out = c.module;
  return TC_OK;
}

void tc_module_destroy(tc_module *m) {
  if (m) tc_arena_destroy(m->arena);
}

void tc_module_require(tc_module *m, const tc_sym *condition) {
  if (tc_sym_is_int(condition, 1)) return;
  for (int32_t i = 0; i < m->requires_.count; i++)
    if (m->requires_.data[i] == condition) return;
  tc_vec_push(m->arena, &m->requires_, condition);
  tc_sym_assume(m->syms, condition);
}

// ---- checks ----
void tc_graph_add_check(tc_graph *g, const tc_check *check) {
  for (int32_t i = 0; i < g->checks.count; i++)
    if (g->checks.data[i].condition == check->condition) return;
  tc_check own = *check;
  own.text = tc_sv_copy(g->module->arena, check->text);
  own.values = tc_arena_copy(g->module->arena, (const void *)check->values, (size_t)check->n * sizeof *check->values);
  tc_vec_push(g->module->arena, &g->checks, own);
}

void tc_graph_copy_checks(tc_graph *to, const tc_graph *from) {
  for (int32_t i = 0; i < from->checks.count; i++) tc_graph_add_check(to, &from->checks.data[i]);
}

static bool all_known(const tc_sym *x, int32_t n, const int64_t *values, const uint8_t *known) {
  if (x->kind == TC_SYM_SYMBOL)
    return x->symbol < n && (known ? known[x->symbol] != 0 : values[x->symbol] != INT64_MIN);
  for (int32_t i = 0; i < x->n; i++)
    if (!all_known(x->kids[i], n, values, known)) return false;
  return true;
}

// The text with its values, as far as there is room.
static tc_status broken(const tc_check *c, int32_t n, const int64_t *values, const uint8_t *known) {
  char text[512];
  size_t size = 0;
  for (size_t i = 0, k = 0; i < c->text.size && size + 32 < sizeof text; i++) {
    bool place = i + 1 < c->text.size && c->text.data[i] == '{' && c->text.data[i + 1] == '}' && k < (size_t)c->n;
    int64_t v = 0;
    if (!place) {
      text[size++] = c->text.data[i];
      continue;
    }
    const tc_sym *e = c->values[k++];
    tc_status s = all_known(e, n, values, known) ? tc_sym_eval(e, values, &v) : TC_OK;
    size += (size_t)snprintf(text + size, sizeof text - size, "%lld", (long long)v);
    tc_status_free(s);
    i++;
  }
  return tc_error(TC_STATUS_INVALID_ARGUMENT, "%.*s", (int)size, text);
}

tc_status tc_graph_check(const tc_graph *g, int32_t n, const int64_t *values, const uint8_t *known) {
  for (int32_t i = 0; i < g->checks.count; i++) {
    const tc_check *c = &g->checks.data[i];
    int64_t ok;
    if (!all_known(c->condition, n, values, known)) continue;
    TC_TRY(tc_sym_eval(c->condition, values, &ok));
    if (!ok) return broken(c, n, values, known);
  }
  return TC_OK;
}

tc_graph *tc_graph_create(tc_module *m, tc_sv name) {
  tc_graph *g = TC_NEW(m->arena, tc_graph);
  g->module = m;
  g->name = tc_sv_copy(m->arena, name);
  g->names = tc_map_create(m->arena);
  return g;
}

// ---- signatures ----
tc_graph *tc_signature_plain(tc_module *m, tc_sv name, int32_t n, const tc_sv *names, const tc_tensor_type *types) {
  tc_graph *g = tc_graph_create(m, name);
  for (int32_t i = 0; i < n; i++) {
    if (names[i].size) tc_graph_add_input(g, TC_IN_USER, names[i], names[i], &types[i]);
    else tc_graph_add_constant_input(g, TC_IN_USER, (tc_sv){0}, tc_arg_none());
  }
  return g;
}

bool tc_signature_has(const tc_graph *g, int32_t i, tc_dtype dtype) {
  const tc_value *v = i < g->inputs.count ? g->inputs.data[i].value : NULL;
  return v && v->kind == TC_VALUE_TENSOR && v->type.dtype == dtype;
}

void tc_signature_add_output(tc_graph *g, int32_t kind, tc_sv target, tc_sv name, const tc_tensor_type *type,
                             tc_arg number) {
  if (type) number = tc_arg_tensor(tc_graph_new_value(g, TC_VALUE_TENSOR, name, type, NULL));
  tc_graph_add_output(g, kind, number, target);
}

tc_graph *tc_module_find(const tc_module *m, tc_sv name) {
  for (int32_t i = 0; i < m->graphs.count; i++)
    if (tc_sv_eq(m->graphs.data[i]->name, name)) return m->graphs.data[i];
  return NULL;
}

// ---- names ----
static bool name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '$';
}

// A name of the characters that %names have, not yet used in the graph: "x", else "x_1", "x_2", …
enum { FREE_NAME = -1 };

static tc_sv unique_name(tc_graph *g, tc_sv want) {
  tc_arena *arena = g->module->arena;
  if (!want.size) want = TC_SV("v");
  char *text = tc_arena_copy(arena, want.data, want.size);
  for (size_t i = 0; i < want.size; i++)
    if (!name_char(text[i])) text[i] = '_';
  tc_sv name = tc_sv_copy(arena, (tc_sv){text, want.size});
  bool fresh;
  tc_map_entry *e = tc_map_put(g->names, name, &fresh);
  if (!fresh && e->value.num == FREE_NAME) {
    e->value.num = 0;
    return name;
  }
  while (!fresh) {
    int64_t number = ++e->value.num;
    tc_sv numbered = tc_sv_printf(arena, TC_SV_FMT "_%lld", TC_SV_ARG(name), (long long)number);
    tc_map_put(g->names, numbered, &fresh);
    if (fresh) return numbered;
    e = tc_map_find(g->names, name); // the map may have grown
  }
  return name;
}

void tc_value_give_up_name(tc_value *v) {
  tc_map_entry *e = tc_map_find(v->graph->names, v->name);
  if (e) e->value.num = FREE_NAME;
}

void tc_value_set_name(tc_graph *g, tc_value *v, tc_sv name) {
  if (!tc_sv_eq(v->name, name)) v->name = unique_name(g, name);
}

// ---- values, inputs, outputs ----
static tc_tensor_type own_type(tc_module *m, const tc_tensor_type *t) {
  tc_tensor_type own = *t;
  size_t bytes = sizeof(tc_int) * (size_t)t->rank;
  own.sizes = tc_arena_copy(m->arena, t->sizes, bytes);
  own.strides = t->strides ? tc_arena_copy(m->arena, t->strides, bytes) : tc_row_major(m, t->rank, own.sizes);
  if (!own.offset) own.offset = tc_sym_int(m->syms, 0);
  return own;
}

void tc_value_set_type(tc_value *v, const tc_tensor_type *type) { v->type = own_type(v->graph->module, type); }

tc_value *tc_graph_new_value(tc_graph *g, int32_t kind, tc_sv name, const tc_tensor_type *type, const tc_sym *symbol) {
  tc_value *v = TC_NEW(g->module->arena, tc_value);
  v->kind = kind, v->graph = g, v->view_arg = -1, v->symbol = symbol;
  v->id = g->n_values++;
  v->name = unique_name(g, name);
  if (type) v->type = own_type(g->module, type);
  return v;
}

static tc_value *add_input(tc_graph *g, int32_t kind, tc_sv target, tc_value *v) {
  v->def_index = g->inputs.count;
  tc_graph_input in = {.kind = kind, .value = v, .target = tc_sv_copy(g->module->arena, target)};
  tc_vec_push(g->module->arena, &g->inputs, in);
  return v;
}

tc_value *tc_graph_add_input(tc_graph *g, int32_t kind, tc_sv name, tc_sv target, const tc_tensor_type *type) {
  return add_input(g, kind, target, tc_graph_new_value(g, TC_VALUE_TENSOR, name, type, NULL));
}

tc_value *tc_graph_add_number_input(tc_graph *g, int32_t kind, tc_sv name, tc_sv target, int32_t value_kind,
                                    const tc_sym *symbol) {
  return add_input(g, kind, target, tc_graph_new_value(g, value_kind, name, NULL, symbol));
}

void tc_graph_add_constant_input(tc_graph *g, int32_t kind, tc_sv target, tc_arg constant) {
  tc_graph_input in = {.kind = kind, .target = tc_sv_copy(g->module->arena, target), .constant = constant};
  tc_vec_push(g->module->arena, &g->inputs, in);
}

void tc_graph_add_output(tc_graph *g, int32_t kind, tc_arg arg, tc_sv target) {
  tc_graph_output out = {.kind = kind, .arg = arg, .target = tc_sv_copy(g->module->arena, target)};
  tc_vec_push(g->module->arena, &g->outputs, out);
}

// ---- arguments ----
tc_arg tc_arg_none(void) { return (tc_arg){.kind = TC_AK_NONE}; }
tc_arg tc_arg_tensor(tc_value *v) { return v ? (tc_arg){.kind = TC_AK_TENSOR, .value = v} : tc_arg_none(); }
tc_arg tc_arg_tensors(tc_value **v, int32_t n) { return (tc_arg){.kind = TC_AK_TENSORS, .values = v, .n = n}; }
tc_arg tc_arg_sym(const tc_sym *e) { return (tc_arg){.kind = TC_AK_INT, .sym = e}; }
tc_arg tc_arg_syms(const tc_sym *const *e, int32_t n) { return (tc_arg){.kind = TC_AK_INTS, .syms = e, .n = n}; }
tc_arg tc_arg_float(double v) { return (tc_arg){.kind = TC_AK_FLOAT, .real = v}; }
tc_arg tc_arg_bool(bool v) { return (tc_arg){.kind = TC_AK_BOOL, .integer = v}; }
tc_arg tc_arg_dtype(tc_dtype d) { return (tc_arg){.kind = TC_AK_DTYPE, .integer = d}; }
tc_arg tc_arg_string(tc_sv s) { return (tc_arg){.kind = TC_AK_STRING, .text = s}; }
tc_arg tc_arg_floats(const double *v, int32_t n) { return (tc_arg){.kind = TC_AK_FLOATS, .reals = v, .n = n}; }
tc_arg tc_arg_complex(double re, double im) { return (tc_arg){.kind = TC_AK_COMPLEX, .real = re, .imag = im}; }
tc_arg tc_arg_graph(tc_graph *g) { return (tc_arg){.kind = TC_AK_GRAPH, .graph = g}; }

// ---- rewriting ----
void tc_graph_forward(tc_value *from, tc_value *to) {
  if (from != to) from->forward = to;
}

tc_value *tc_value_resolve(tc_value *v) {
  while (v && v->forward) v = v->forward;
  return v;
}

tc_value *tc_value_base(const tc_value *v) {
  if (!v->def || v->view_arg < 0) return NULL;
  const tc_arg *g = &v->def->args[v->view_arg];
  return g->kind == TC_AK_TENSOR ? g->value : g->kind == TC_AK_TENSORS ? g->values[v->view_item] : NULL;
}

bool tc_node_is_view(const tc_node *n) {
  for (int32_t i = 0; i < n->n_results; i++)
    if (!tc_value_base(n->results[i])) return false;
  return n->n_results > 0;
}

void tc_node_kill(tc_node *n) { n->dead = true; }

static void arg_each_value(tc_arg *g, void (*fn)(void *, tc_value **), void *arg) {
  if (g->value) fn(arg, &g->value);
  if (g->kind == TC_AK_TENSORS)
    for (int32_t i = 0; i < g->n; i++)
      if (g->values[i]) fn(arg, &g->values[i]);
}

bool tc_node_counts_storage(const tc_node *n) {
  for (int32_t i = 0; i < n->n_args && i < n->op->schema.n_args; i++)
    if (n->args[i].kind != TC_AK_NONE && tc_sv_is(n->op->schema.args[i].name, "storage_offset")) return true;
  return false;
}

void tc_node_each_value(tc_node *n, void (*fn)(void *arg, tc_value **place), void *arg) {
  for (int32_t i = 0; i < n->n_args; i++) arg_each_value(&n->args[i], fn, arg);
}

static void apply_forward(void *arg, tc_value **place) {
  (void)arg;
  *place = tc_value_resolve(*place);
  (*place)->n_uses++;
}

void tc_graph_sweep(tc_graph *g) {
  int32_t nodes = 0, values = 0;
  for (int32_t i = 0; i < g->inputs.count; i++)
    if (g->inputs.data[i].value) g->inputs.data[i].value->id = values++, g->inputs.data[i].value->n_uses = 0;
  tc_node *last = NULL;
  for (tc_node *n = g->first, *next; n; n = next) {
    next = n->next;
    if (n->dead) {
      if (last) last->next = next;
      else g->first = next;
      if (next) next->prev = last;
      continue;
    }
    n->prev = last, last = n;
    n->id = nodes++;
    for (int32_t i = 0; i < n->n_results; i++) n->results[i]->id = values++, n->results[i]->n_uses = 0;
  }
  g->last = last;
  for (tc_node *n = g->first; n; n = n->next) tc_node_each_value(n, apply_forward, NULL);
  for (int32_t i = 0; i < g->outputs.count; i++) arg_each_value(&g->outputs.data[i].arg, apply_forward, NULL);
  g->n_nodes = nodes, g->n_values = values;
}

// ---- definers of unbacked symbols ----
static bool defines(const tc_value *v, const tc_sym *symbol) {
  if (v->kind == TC_VALUE_SYM) return v->symbol == symbol;
  if (v->kind != TC_VALUE_TENSOR) return false;
  for (int32_t i = 0; i < v->type.rank; i++)
    if (v->type.sizes[i] == symbol) return true;
  return false;
}

tc_node *tc_graph_definer(const tc_graph *g, const tc_sym *symbol) {
  for (tc_node *n = g->first; n; n = n->next)
    for (int32_t i = 0; i < n->n_results; i++)
      if (defines(n->results[i], symbol)) return n;
  return NULL;
}

// ---- cloning ----
static tc_value *mapped(tc_map *values, tc_value *v) {
  const tc_map_entry *e = v ? tc_map_find_ptr(values, tc_value_resolve(v)) : NULL;
  return e ? e->value.ptr : NULL;
}

static tc_arg clone_arg(tc_graph *to, tc_map *values, const tc_arg *g) {
  tc_arg out = *g;
  if (g->value) out.value = mapped(values, g->value);
  if (g->kind == TC_AK_TENSORS) {
    out.values = TC_NEW_ARRAY(to->module->arena, tc_value *, g->n);
    for (int32_t i = 0; i < g->n; i++) out.values[i] = mapped(values, g->values[i]);
  }
  if (g->kind == TC_AK_GRAPH && g->graph) out.graph = tc_graph_clone(g->graph, g->graph->name);
  return out;
}

static tc_value *clone_value(tc_graph *to, tc_map *values, tc_value *v, tc_node *def) {
  tc_value *copy = tc_graph_new_value(to, v->kind, v->name, v->kind == TC_VALUE_TENSOR ? &v->type : NULL, v->symbol);
  copy->def = def, copy->def_index = v->def_index, copy->view_arg = v->view_arg, copy->view_item = v->view_item;
  copy->n_uses = v->n_uses;
  tc_map_put_ptr(values, v, NULL)->value.ptr = copy;
  return copy;
}

tc_graph *tc_graph_clone(tc_graph *g, tc_sv name) {
  tc_arena *arena = g->module->arena;
  tc_graph *to = tc_graph_create(g->module, name);
  tc_map *values = tc_map_create(arena);
  for (int32_t i = 0; i < g->inputs.count; i++) {
    tc_graph_input in = g->inputs.data[i];
    if (in.value) in.value = clone_value(to, values, in.value, NULL);
    tc_vec_push(arena, &to->inputs, in);
  }
  for (tc_node *n = g->first; n; n = n->next) {
    if (n->dead) continue;
    tc_node *copy = tc_arena_copy(arena, n, sizeof *n);
    copy->graph = to, copy->next = NULL, copy->prev = to->last;
    copy->args = TC_NEW_ARRAY(arena, tc_arg, n->n_args);
    copy->results = TC_NEW_ARRAY(arena, tc_value *, n->n_results);
    for (int32_t i = 0; i < n->n_args; i++) copy->args[i] = clone_arg(to, values, &n->args[i]);
    for (int32_t i = 0; i < n->n_results; i++) copy->results[i] = clone_value(to, values, n->results[i], copy);
    if (to->last) to->last->next = copy;
    else to->first = copy;
    to->last = copy;
  }
  for (int32_t i = 0; i < g->outputs.count; i++) {
    tc_graph_output out = g->outputs.data[i];
    out.arg = clone_arg(to, values, &out.arg);
    tc_vec_push(arena, &to->outputs, out);
  }
  tc_graph_copy_checks(to, g);
  tc_graph_sweep(to);
  return to;
}

// ---- random numbers ----
static bool is_zero(const tc_arg *g) {
  if (g->value) return false;
  return g->kind == TC_AK_BOOL ? g->integer == 0 : g->kind == TC_AK_FLOAT ? g->real == 0 : tc_sym_is_int(g->sym, 0);
}

bool tc_node_draws(const tc_node *n) {
  if (!(n->op->def->traits & TC_OP_RANDOM)) return false;
  for (int32_t i = 0; i < n->n_args && i < n->op->schema.n_args; i++) {
    tc_sv name = n->op->schema.args[i].name;
    int32_t kind = n->args[i].kind;
    if (kind != TC_AK_BOOL && kind != TC_AK_FLOAT && kind != TC_AK_INT) continue;
    if ((tc_sv_is(name, "dropout_p") || tc_sv_is(name, "train")) && is_zero(&n->args[i])) return false;
  }
  return true;
}

uint64_t tc_node_streams(const tc_node *n) {
  if (!tc_node_draws(n)) return 0;
  for (int32_t i = 0; i < n->n_args && i < n->op->schema.n_args; i++) {
    const tc_arg *g = &n->args[i];
    if (!tc_sv_is(n->op->schema.args[i].name, "num_layers") || g->kind != TC_AK_INT || g->value) continue;
    // The last one's output is not dropped.
    if (tc_sym_is_const(g->sym) && g->sym->value > 2) return (uint64_t)g->sym->value - 1;
  }
  return 1;
}

bool tc_node_draws_by_parts(const tc_node *n) { return n->op->def->expand && tc_node_draws(n); }

// ---- types ----
const tc_sym *const *tc_row_major(tc_module *m, int32_t rank, const tc_sym *const *sizes) {
  const tc_sym **strides = TC_NEW_ARRAY(m->arena, const tc_sym *, rank);
  const tc_sym *s = tc_sym_int(m->syms, 1);
  for (int32_t i = rank - 1; i >= 0; i--) {
    strides[i] = s;
    // PyTorch: a size of 0 counts as 1
    s = tc_sym_mul(m->syms, s, tc_sym_is_int(sizes[i], 0) ? tc_sym_int(m->syms, 1) : sizes[i]);
  }
  return strides;
}

bool tc_type_is_row_major(tc_module *m, const tc_tensor_type *t) {
  const tc_sym *expected = tc_sym_int(m->syms, 1);
  for (int32_t i = t->rank - 1; i >= 0; i--) {
    if (t->strides[i] != expected && !tc_sym_eq(m->syms, t->strides[i], expected)) return false;
    expected = tc_sym_mul(m->syms, expected, tc_sym_is_int(t->sizes[i], 0) ? tc_sym_int(m->syms, 1) : t->sizes[i]);
  }
  return true;
}

const tc_sym *tc_type_numel(tc_module *m, const tc_tensor_type *t) {
  const tc_sym *n = tc_sym_int(m->syms, 1);
  for (int32_t i = 0; i < t->rank; i++) n = tc_sym_mul(m->syms, n, t->sizes[i]);
  return n;
}

bool tc_type_same(tc_module *m, const tc_tensor_type *a, const tc_tensor_type *b) {
  if (a->dtype != b->dtype || a->rank != b->rank || a->conj != b->conj) return false;
  for (int32_t i = 0; i < a->rank; i++)
    if (!tc_sym_eq(m->syms, a->sizes[i], b->sizes[i]) || !tc_sym_eq(m->syms, a->strides[i], b->strides[i]))
      return false;
  return tc_sym_eq(m->syms, a->offset, b->offset);
}
