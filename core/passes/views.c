// views: in a functional graph a view is only a way to see a storage, so
//   - a view with the type (sizes, strides, offset, dtype, conj) of another view of the same storage, or of the
//   storage's
//     own value, is that value: this removes permutes there and back, full slices, no-op expands, aliases, detaches;
//   - a reshape of a reshape of a contiguous value is one reshape;
//   - a copy with its source's type is the source, unless the graph's outputs could tell (an output must not share
//     storage with an input or another output where PyTorch gave it its own).
#include "core/ir/opargs.h"
#include "core/passes/passes.h"

typedef TC_VEC(tc_value *) value_list;

typedef struct viewer {
  tc_graph *g;
  tc_map *of_root; // storage's value → value_list * of its views, in order
  tc_map *escapes; // values whose storage leaves the graph → 1
  bool progress;
} viewer;

static bool named(const tc_node *n, const char *const *names, int32_t count) {
  for (int32_t i = 0; i < count; i++)
    if (tc_node_is(n, names[i])) return true;
  return false;
}

static bool is_reshape(const tc_node *n) {
  static const char *const names[] = {"view",    "reshape",   "_unsafe_view", "unsqueeze", "squeeze",
                                      "flatten", "unflatten", "view_as",      "reshape_as"};
  return n && !n->op->functional && named(n, names, sizeof names / sizeof *names) && n->n_results == 1;
}

static bool is_copy(const tc_node *n) {
  static const char *const names[] = {"clone",           "_to_copy",   "to",         "contiguous",
                                      "lift_fresh_copy", "alias_copy", "detach_copy"};
  return !n->op->functional && named(n, names, sizeof names / sizeof *names) && n->n_results == 1 &&
         n->results[0]->view_arg < 0;
}

static void forward(viewer *w, tc_node *n, tc_value *to) {
  tc_graph_forward(n->results[0], to);
  tc_node_kill(n);
  w->progress = true;
}

// The earliest value of the same storage and type, or NULL.
static tc_value *twin(viewer *w, tc_value *root, tc_value *v) {
  tc_module *m = w->g->module;
  bool fresh;
  if (tc_type_same(m, &root->type, &v->type)) return root;
  tc_map_entry *e = tc_map_put_ptr(w->of_root, root, &fresh);
  if (fresh) e->value.ptr = TC_NEW(m->arena, value_list);
  value_list *list = e->value.ptr;
  for (int32_t i = 0; i < list->count; i++)
    if (list->data[i]->forward == NULL && tc_type_same(m, &list->data[i]->type, &v->type)) return list->data[i];
  tc_vec_push(m->arena, list, v);
  return NULL;
}

static bool is_view_node(const tc_node *n) {
  return n->n_results > 0 && !n->op->functional && n->results[0]->kind == TC_VALUE_TENSOR &&
         n->results[0]->view_arg >= 0 && n->inplace < 0 && tc_node_pure(n);
}

static tc_status visit_view(viewer *w, tc_node *n) {
  int32_t forwarded = 0;
  for (int32_t i = 0; i < n->n_results; i++) {
    tc_value *v = n->results[i];
    if (v->kind != TC_VALUE_TENSOR || v->view_arg < 0) return TC_OK;
    tc_value *same = twin(w, tc_view_root(v), v);
    if (!same || v->n_uses == 0) continue; // unused ones are for dce
    tc_graph_forward(v, same);
    forwarded++, w->progress = true;
  }
  if (forwarded == n->n_results) {
    tc_node_kill(n);
    return TC_OK;
  }
  if (forwarded || !is_reshape(n)) return TC_OK;
  // reshape(reshape(x)) with x contiguous
  tc_value *x = tc_value_resolve(n->args[0].value);
  if (!is_reshape(x->def) || x->view_arg < 0) return TC_OK;
  tc_value *source = tc_value_resolve(x->def->args[0].value);
  const tc_tensor_type *t = &n->results[0]->type;
  if (!tc_type_is_row_major(w->g->module, &source->type) || !tc_type_is_row_major(w->g->module, t) ||
      source->type.conj != t->conj)
    return TC_OK;
  tc_build b = {.graph = w->g, .before = n, .source = n->source};
  tc_arg args[] = {tc_arg_tensor(source), tc_arg_syms(t->sizes, t->rank)}, out;
  TC_TRY(tc_build_call(&b, TC_SV("aten::view"), 2, args, NULL, &out));
  if (!tc_type_same(w->g->module, &out.value->type, t)) {
    tc_node_kill(out.value->def);
    return TC_OK;
  }
  tc_value_set_name(w->g, out.value, n->results[0]->name);
  forward(w, n, out.value);
  return TC_OK;
}

// ---- copies ----
// Storages that leave the graph, and those that come into it.
static void mark_escapes(viewer *w) {
  for (int32_t i = 0; i < w->g->outputs.count; i++) {
    tc_value *v = w->g->outputs.data[i].arg.value;
    if (v && v->kind == TC_VALUE_TENSOR)
      tc_map_put_ptr(w->escapes, tc_view_root(tc_value_resolve(v)), NULL)->value.num++;
  }
}

static void visit_copy(viewer *w, tc_node *n) {
  if (n->args[0].kind != TC_AK_TENSOR) return;
  tc_value *from = tc_value_resolve(n->args[0].value), *to = n->results[0];
  tc_tensor_type seen = from->type;
  seen.offset = to->type.offset; // a copy starts at its own storage's begin
  if (!tc_type_same(w->g->module, &seen, &to->type)) return;
  tc_value *root = tc_view_root(from);
  if (tc_map_find_ptr(w->escapes, to)) {
    // The copy is an output: its source may stand for it only if it is neither an input nor an output already.
    if (!root->def || tc_map_find_ptr(w->escapes, root) || root != from) return;
    tc_map_put_ptr(w->escapes, root, NULL)->value.num++;
  }
  // Readers by offset (as_strided) of the copy would see another storage.
  if (!tc_sym_eq(w->g->module->syms, from->type.offset, to->type.offset)) return;
  forward(w, n, from);
}

static tc_status run(tc_graph *g, bool *out_progress) {
  tc_arena *arena = g->module->arena;
  viewer w = {.g = g, .of_root = tc_map_create(arena), .escapes = tc_map_create(arena)};
  *out_progress = false;
  for (tc_node *n = g->first; n; n = n->next)
    if (!n->dead && (n->inplace >= 0 || tc_node_writes(n))) return TC_OK; // not functional
  mark_escapes(&w);
  for (tc_node *n = g->first, *next; n; n = next) {
    next = n->next;
    if (n->dead) continue;
    if (is_view_node(n)) TC_TRY(visit_view(&w, n));
    else if (is_copy(n) && tc_node_pure(n)) visit_copy(&w, n);
  }
  if (w.progress) tc_graph_sweep(g);
  *out_progress = w.progress;
  return TC_OK;
}

const tc_pass tc_pass_views = {"views", run};
