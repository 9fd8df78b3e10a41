// Is a graph well formed? Names what is wrong and where: values defined before use, arguments as the schema wants them,
// result types as meta says, in-place marks that overwrite nothing that is read later, regions likewise.
#include "core/ir/internal.h"

typedef struct verifier {
  const tc_graph *g;
  tc_map *defined; // tc_value * → 1; 2: overwritten in place
  tc_map *names;
  // Symbol number → 1: known by now; made by some node. A part of a program may read sizes that another part makes.
  tc_map *unbacked, *made;
  bool region; // sizes of the graph around may be read
  tc_status status;
} verifier;

static tc_status at_node(const tc_node *n, tc_status s) {
  if (!s || !n) return s;
  s = tc_status_note(s, "in node %%" TC_SV_FMT " (" TC_SV_FMT ")",
                     TC_SV_ARG(n->n_results ? n->results[0]->name : n->name), TC_SV_ARG(n->op->full_name));
  return n->source.size ? tc_status_note(s, "at " TC_SV_FMT, TC_SV_ARG(n->source)) : s;
}

static bool uses_unbacked(tc_sym_ctx *c, const tc_sym *e) {
  if (e->kind == TC_SYM_SYMBOL) return tc_sym_info_of(c, e)->origin == TC_SYM_UNBACKED;
  for (int32_t i = 0; i < e->n; i++)
    if (uses_unbacked(c, e->kids[i])) return true;
  return false;
}

// Equal, or from data: then meta makes a new symbol each time it runs.
static bool agree(tc_sym_ctx *c, const tc_sym *x, const tc_sym *y) {
  return x == y || tc_sym_eq(c, x, y) || (uses_unbacked(c, x) && uses_unbacked(c, y));
}

tc_status tc_types_agree(tc_module *m, const tc_tensor_type *declared, const tc_tensor_type *computed) {
  bool same =
      declared->dtype == computed->dtype && declared->rank == computed->rank && declared->conj == computed->conj;
  bool strides = true;
  for (int32_t i = 0; same && i < declared->rank; i++) {
    same = agree(m->syms, declared->sizes[i], computed->sizes[i]);
    // the stride of a dimension of size 1 means nothing
    strides =
        strides && (tc_sym_is_int(declared->sizes[i], 1) || agree(m->syms, declared->strides[i], computed->strides[i]));
  }
  same = same && strides && agree(m->syms, declared->offset, computed->offset);
  if (same) return TC_OK;
  tc_sb sb = tc_sb_make(m->arena);
  tc_type_print_full(&sb, m, declared);
  tc_sb_putz(&sb, " is declared, the op gives ");
  tc_type_print_full(&sb, m, computed);
  return tc_error(TC_STATUS_MISMATCH, "%s", sb.text);
}

// Does the node read the size, or a tensor that has it?
static bool reads_symbol(const tc_node *n, const tc_sym *symbol) {
  for (int32_t i = 0; i < n->n_args; i++) {
    const tc_arg *g = &n->args[i];
    int32_t count = g->kind == TC_AK_INTS || g->kind == TC_AK_TENSORS ? g->n : 1;
    for (int32_t k = 0; k < count; k++) {
      const tc_sym *e = g->kind == TC_AK_INT ? g->sym : g->kind == TC_AK_INTS ? g->syms[k] : NULL;
      const tc_value *v = g->kind == TC_AK_TENSOR ? g->value : g->kind == TC_AK_TENSORS ? g->values[k] : NULL;
      if (e && tc_sym_uses(e, symbol)) return true;
      if (!v) continue;
      if (v->kind == TC_VALUE_SYM && tc_sym_uses(v->symbol, symbol)) return true;
      for (int32_t d = 0; v->kind == TC_VALUE_TENSOR && d < v->type.rank; d++)
        if (tc_sym_uses(v->type.sizes[d], symbol)) return true;
    }
  }
  return false;
}

// The symbols that a value brings: those that are its sizes, unless its node (`by`, or NULL) has them from elsewhere.
static void note_symbols(tc_map *symbols, const tc_value *value, const tc_node *by) {
  const tc_sym *const *e = value->kind == TC_VALUE_TENSOR ? value->type.sizes : &value->symbol;
  int32_t n = value->kind == TC_VALUE_TENSOR ? value->type.rank : value->kind == TC_VALUE_SYM;
  for (int32_t i = 0; i < n; i++)
    if (e[i]->kind == TC_SYM_SYMBOL && !(by && reads_symbol(by, e[i]))) tc_map_put_int(symbols, e[i]->symbol, NULL);
}

static void define(verifier *v, tc_value *value) {
  bool fresh;
  tc_map_put_ptr(v->defined, value, NULL)->value.num = 1;
  tc_map_put(v->names, value->name, &fresh);
  if (!fresh && !v->status)
    v->status = tc_error(TC_STATUS_INTERNAL, "the name %%" TC_SV_FMT " is used twice", TC_SV_ARG(value->name));
  if (value->graph != v->g && !v->status)
    v->status = tc_error(TC_STATUS_INTERNAL, "%%" TC_SV_FMT " belongs to another graph", TC_SV_ARG(value->name));
  note_symbols(v->unbacked, value, NULL);
}

static void use(void *arg, tc_value **place) {
  verifier *v = arg;
  tc_value *value = *place;
  if (v->status) return;
  const tc_map_entry *e = tc_map_find_ptr(v->defined, value);
  if (value->forward)
    v->status = tc_error(TC_STATUS_INTERNAL, "%%" TC_SV_FMT " was replaced but is still read: a sweep is missing",
                         TC_SV_ARG(value->name));
  else if (!e)
    v->status = tc_error(TC_STATUS_INTERNAL, "%%" TC_SV_FMT " is read before it is defined", TC_SV_ARG(value->name));
  else if (e->value.num == 2)
    v->status = tc_error(TC_STATUS_INTERNAL, "%%" TC_SV_FMT " is read after it was overwritten in place",
                         TC_SV_ARG(value->name));
}

static tc_status check_symbols(verifier *v, const tc_sym *e) {
  if (!e) return TC_OK;
  if (e->kind == TC_SYM_SYMBOL && tc_sym_info_of(v->g->module->syms, e)->origin == TC_SYM_UNBACKED && !v->region &&
      tc_map_find_int(v->made, e->symbol) && !tc_map_find_int(v->unbacked, e->symbol))
    return tc_error(TC_STATUS_INTERNAL, "the size '" TC_SV_FMT "' is read before the node that it comes from",
                    TC_SV_ARG(e->name));
  for (int32_t i = 0; i < e->n; i++) TC_TRY(check_symbols(v, e->kids[i]));
  return TC_OK;
}

static tc_status check_arg_symbols(verifier *v, const tc_arg *g) {
  if (g->kind == TC_AK_INT) return check_symbols(v, g->sym);
  for (int32_t i = 0; g->kind == TC_AK_INTS && i < g->n; i++) TC_TRY(check_symbols(v, g->syms[i]));
  return TC_OK;
}

static tc_status check_meta(const tc_node *n) {
  tc_module *m = n->graph->module;
  tc_op_args a;
  tc_arg *own;
  int32_t n_args;
  TC_TRY(tc_op_normalize(m, n->op, n->n_args, n->args, (tc_sv){0}, &n_args, &own));
  tc_op_args_init(&a, TC_MOMENT_META, m, n->graph, n->op, n_args, own, (tc_sv){0});
  TC_TRY(tc_op_meta(&a));
  if (a.n_results != n->n_results)
    return tc_error(TC_STATUS_MISMATCH, "the node has %d results, the op gives %d", n->n_results, a.n_results);
  for (int32_t i = 0; i < n->n_results; i++) {
    const tc_value *v = n->results[i];
    if (v->kind == TC_VALUE_TENSOR && !a.results[i].absent)
      TC_TRY(tc_types_agree(m, &v->type, &a.results[i].type), "result %%" TC_SV_FMT, TC_SV_ARG(v->name));
  }
  return TC_OK;
}

static tc_status check_inplace(verifier *v, const tc_node *n) {
  if (n->inplace < 0) return TC_OK;
  if (n->inplace >= n->n_args || n->args[n->inplace].kind != TC_AK_TENSOR || !n->n_results ||
      n->results[0]->kind != TC_VALUE_TENSOR)
    return tc_error(TC_STATUS_INTERNAL, "inplace %d is no tensor argument", n->inplace);
  tc_value *old = n->args[n->inplace].value;
  if (old->type.dtype != n->results[0]->type.dtype || old->type.rank != n->results[0]->type.rank)
    return tc_error(TC_STATUS_INTERNAL, "the result takes the storage of %%" TC_SV_FMT ", which has another type",
                    TC_SV_ARG(old->name));
  tc_map_put_ptr(v->defined, old, NULL)->value.num = 2;
  return TC_OK;
}

static tc_status verify(const tc_graph *g, bool region);

static tc_status check_node(verifier *v, tc_node *n) {
  tc_node_each_value(n, use, v);
  TC_TRY(v->status);
  for (int32_t i = 0; i < n->n_args; i++) {
    TC_TRY(check_arg_symbols(v, &n->args[i]));
    if (n->args[i].kind == TC_AK_GRAPH)
      TC_TRY(verify(n->args[i].graph, true), "in the region @" TC_SV_FMT, TC_SV_ARG(n->args[i].graph->name));
  }
  TC_TRY(check_meta(n));
  TC_TRY(check_inplace(v, n));
  for (int32_t i = 0; i < n->n_results; i++) {
    if (n->results[i]->def != n || n->results[i]->def_index != i)
      return tc_error(TC_STATUS_INTERNAL, "result %d does not know its node", i);
    define(v, n->results[i]);
  }
  return v->status;
}

static tc_status check_outputs(verifier *v) {
  for (int32_t i = 0; i < v->g->outputs.count; i++) {
    tc_graph_output *o = &v->g->outputs.data[i];
    if (o->arg.value) use(v, &o->arg.value);
    TC_TRY(v->status, "output %d", i);
    TC_TRY(check_arg_symbols(v, &o->arg), "output %d", i);
  }
  return TC_OK;
}

static tc_status verify(const tc_graph *g, bool region) {
  tc_arena *arena = g->module->arena;
  verifier v = {.g = g,
                .region = region,
                .defined = tc_map_create(arena),
                .names = tc_map_create(arena),
                .unbacked = tc_map_create(arena),
                .made = tc_map_create(arena)};
  for (tc_node *n = g->first; n; n = n->next)
    for (int32_t i = 0; i < n->n_results && !n->dead; i++) note_symbols(v.made, n->results[i], n);
  for (int32_t i = 0; i < g->inputs.count; i++)
    if (g->inputs.data[i].value) define(&v, g->inputs.data[i].value);
  tc_status s = v.status;
  for (tc_node *n = g->first; n && !s; n = n->next)
    if (!n->dead) s = at_node(n, check_node(&v, n));
  if (!s) s = check_outputs(&v);
  return s ? tc_status_note(s, "in graph @" TC_SV_FMT, TC_SV_ARG(g->name)) : TC_OK;
}

tc_status tc_graph_verify(const tc_graph *g) { return verify(g, false); }
