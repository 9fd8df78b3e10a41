// functionalize: a graph that writes becomes one that does not.
//
// Every tensor belongs to a storage, which is known by its root (a graph input, or the result of an op that is no
// view). A storage has a version, raised by each write, and a current value for the root; every value knows the chain
// of views between it and its root. A read of a value whose version is old makes its views again of the current root. A
// write to a value makes the functional op, then goes up the chain: each base is replaced by the base with the part
// written (functionalize_views.c), until the root has its new value. At the end storages of inputs that were written
// become mutation outputs. This is the scheme of functorch's functionalization, on whole graphs.
//
// What writes: in-place ops (op_ → op), and ops that write into arguments for results or beside their results
// (core/ir/writes.h).
#include "core/passes/functionalize.h"

#include "core/ir/expand.h"
#include "core/ir/opargs.h"
#include "core/ir/writes.h"

typedef struct storage {
  tc_value *root, *current;
  tc_tensor_type root_type;
  int32_t version;
  int32_t input; // number of the graph input, or -1
} storage;

typedef struct handle {
  storage *s;
  struct handle *base; // NULL: the root
  tc_node *view;       // makes it of base
  int32_t result;
  tc_tensor_type type; // as the model had it
  tc_value *value;     // what stands for it, as of `version`
  int32_t version;
} handle;

typedef struct writer {
  tc_graph *g;
  tc_build b;
  tc_map *handles; // tc_value * → handle *
  TC_VEC(storage *) inputs;
  bool progress;
  tc_status status;
} writer;

static tc_arena *arena_of(const writer *w) { return w->g->module->arena; }

static handle *new_root(writer *w, tc_value *v, int32_t input) {
  storage *s = TC_NEW(arena_of(w), storage);
  *s = (storage){.root = v, .current = v, .root_type = v->type, .input = input};
  handle *h = TC_NEW(arena_of(w), handle);
  *h = (handle){.s = s, .type = v->type, .value = v};
  tc_map_put_ptr(w->handles, v, NULL)->value.ptr = h;
  return h;
}

static handle *handle_of(writer *w, tc_value *v) {
  const tc_map_entry *e = tc_map_find_ptr(w->handles, v);
  return e ? e->value.ptr : new_root(w, v, -1);
}

// ---- reading and writing ----
static tc_status read(writer *w, handle *h, tc_value **out) {
  if (h->version != h->s->version) {
    if (h->base) {
      tc_value *base;
      TC_TRY(read(w, h->base, &base));
      TC_TRY(tc_view_again(&w->b, h->view, h->result, base, &h->value));
    } else {
      h->value = h->s->current;
    }
    h->version = h->s->version;
  }
  *out = h->value;
  return TC_OK;
}

// ---- storages whose elements share places ----
// Elements along a stride of 0 are one place: what is written through one view is seen through all.
static bool shares_places(const tc_tensor_type *t) {
  for (int32_t d = 0; d < t->rank; d++)
    if (tc_sym_is_int(t->strides[d], 0) && !tc_sym_is_int(t->sizes[d], 1)) return true;
  return false;
}

// One of each place.
static tc_status without_copies(writer *w, const tc_tensor_type *t, tc_value **v) {
  tc_sym_ctx *c = w->g->module->syms;
  for (int32_t d = 0; d < t->rank; d++) {
    if (!tc_sym_is_int(t->strides[d], 0) || tc_sym_is_int(t->sizes[d], 1)) continue;
    tc_arg one = tc_arg_sym(tc_sym_int(c, 1)), out,
           args[] = {tc_arg_tensor(*v), tc_arg_sym(tc_sym_int(c, d)), tc_arg_sym(tc_sym_int(c, 0)), one, one};
    TC_TRY(tc_build_call(&w->b, TC_SV("aten::slice.Tensor"), 5, args, NULL, &out));
    *v = out.value;
  }
  return TC_OK;
}

// The whole with `part` where the view `h` sees it, by positions in the storage.
static tc_status write_places(writer *w, handle *h, handle *root, tc_value *part, tc_value **out) {
  const tc_tensor_type *t = &h->type, *all = &h->s->root_type;
  tc_value *whole;
  tc_arg made;
  TC_TRY(read(w, root, &whole));
  TC_TRY(without_copies(w, all, &whole));
  TC_TRY(without_copies(w, t, &part));
  tc_arg row[] = {tc_arg_tensor(whole)};
  TC_TRY(tc_build_call(&w->b, TC_SV("aten::clone"), 1, row, NULL, &made));
  // In a storage of its own that is laid out as the model's.
  tc_tensor_type like = made.value->type;
  like.strides = all->strides;
  TC_TRY(tc_match_gaps(&w->b, made.value, &like, &whole));
  const tc_sym *zero = tc_sym_int(w->g->module->syms, 0);
  tc_arg scatter[] = {tc_arg_tensor(tc_view_root(whole)), tc_arg_tensor(part),
                      tc_arg_syms(part->type.sizes, part->type.rank), tc_arg_syms(t->strides, t->rank),
                      tc_arg_sym(tc_sym_sub(w->g->module->syms, t->offset, all->offset))};
  TC_TRY(tc_build_call(&w->b, TC_SV("aten::as_strided_scatter"), 5, scatter, NULL, &made));
  tc_arg see[] = {made, tc_arg_syms(like.sizes, like.rank), tc_arg_syms(like.strides, like.rank), tc_arg_sym(zero)};
  TC_TRY(tc_build_call(&w->b, TC_SV("aten::as_strided"), 4, see, NULL, &made));
  tc_arg wide[] = {made, tc_arg_syms(all->sizes, all->rank)};
  TC_TRY(tc_build_call(&w->b, TC_SV("aten::expand"), 2, wide, NULL, &made));
  *out = made.value;
  return TC_OK;
}

// The storage gets its new root; `h` and the bases on the way were set by the caller.
static tc_status write(writer *w, handle *h, tc_value *part) {
  storage *s = h->s;
  handle *root = h;
  while (root->base) root = root->base;
  TC_VEC(handle *) path = {0};
  TC_VEC(tc_value *) values = {0};
  if (h->base && shares_places(&s->root_type) && h->type.dtype == s->root_type.dtype) {
    TC_TRY(write_places(w, h, root, part, &part));
    h = root;
  }
  while (h->base) {
    tc_value *base, *whole;
    bool of_root;
    TC_TRY(read(w, h->base, &base));
    TC_TRY(read(w, root, &whole));
    tc_vec_push(arena_of(w), &path, h);
    tc_vec_push(arena_of(w), &values, part);
    TC_TRY(tc_view_write(&w->b, h->view, h->result, base, whole, &s->root_type, &h->type, part, &of_root, &part));
    h = of_root ? root : h->base;
  }
  TC_TRY(tc_match_layout(&w->b, part, &s->root_type, &part)); // so that views of it are what they were
  if (!tc_sym_eq(w->g->module->syms, part->type.offset, s->root_type.offset)) {
    tc_arg own, args[] = {tc_arg_tensor(part)};
    TC_TRY(tc_build_call(&w->b, TC_SV("aten::clone"), 1, args, NULL, &own));
    part = own.value;
  }
  s->current = part;
  s->version++;
  h->value = part, h->version = s->version;
  // What was written stands for the view only where it has the view's strides; else the view is made again when read.
  for (int32_t i = 0; i < path.count; i++)
    if (tc_type_same(w->g->module, &values.data[i]->type, &path.data[i]->type))
      path.data[i]->value = values.data[i], path.data[i]->version = s->version;
  w->progress = true;
  return TC_OK;
}

static void update_place(void *arg, tc_value **v) {
  writer *w = arg;
  tc_value *now;
  if (w->status || (*v)->kind != TC_VALUE_TENSOR) return;
  w->status = read(w, handle_of(w, *v), &now);
  if (!w->status) *v = now;
}

// ---- ops that write ----
// A new value for what argument `i` held, in that argument's type.
static tc_status write_arg(writer *w, handle *h, const tc_value *was, tc_value *v) {
  tc_value *fit;
  TC_TRY(tc_match_layout(&w->b, v, &was->type, &fit));
  return write(w, h, fit);
}

// copy_(self, src): the new self is src in self's type; the old one is not read.
static tc_status new_value_of_copy(writer *w, tc_node *n, tc_value **out) {
  const tc_tensor_type *want = &n->args[0].value->type;
  if (n->args[1].kind == TC_AK_TENSOR) {
    TC_TRY(tc_match_layout(&w->b, n->args[1].value, want, out));
    if ((*out)->type.dtype == want->dtype && !(*out)->type.conj) return TC_OK;
  }
  tc_arg v, args[] = {n->args[0], n->args[1]};
  TC_TRY(tc_build_call(&w->b, TC_SV("aten::copy"), 2, args, NULL, &v));
  *out = v.value;
  return TC_OK;
}

static tc_status do_inplace(writer *w, tc_node *n, const tc_op *f, handle **old) {
  tc_value *v;
  if (old[0] == NULL) return tc_error(TC_STATUS_INVALID_ARGUMENT, "the in-place op writes to a number");
  if (f->def->traits & TC_OP_VIEW) { // changes how the tensor is seen, not what it holds
    handle *h = TC_NEW(arena_of(w), handle);
    *h =
        (handle){.s = old[0]->s, .base = old[0], .view = n, .type = n->results[0]->type, .version = old[0]->s->version};
    n->results[0]->view_arg = 0;
    TC_TRY(tc_view_again(&w->b, n, 0, n->args[0].value, &h->value));
    tc_map_put_ptr(w->handles, n->results[0], NULL)->value.ptr = h;
    w->progress = true;
  } else {
    if (tc_node_is(n, "copy_")) {
      TC_TRY(new_value_of_copy(w, n, &v));
    } else {
      tc_node *made;
      TC_TRY(tc_graph_add_node(w->g, w->b.before, f, n->n_args, n->args, n->results[0]->name, n->source, &made));
      made->stream = n->stream;
      v = made->results[0];
      for (int32_t i = 1; i < n->n_results; i++) { // of a kernel by hand that changes several
        int32_t k = tc_op_written_argument(n->op, i);
        if (k < 0 || !old[k]) return tc_error(TC_STATUS_INVALID_ARGUMENT, "the in-place op writes to a number");
        TC_TRY(write_arg(w, old[k], n->args[k].value, made->results[i]));
        tc_map_put_ptr(w->handles, n->results[i], NULL)->value.ptr = old[k];
      }
    }
    TC_TRY(write_arg(w, old[0], n->args[0].value, v));
    tc_map_put_ptr(w->handles, n->results[0], NULL)->value.ptr = old[0];
  }
  tc_node_kill(n);
  return TC_OK;
}

// What writes to arguments for results, or beside its results.
static tc_status do_writes(writer *w, tc_node *n, const tc_writes *writes, handle **old) {
  if (!writes->functional)
    return tc_error(TC_STATUS_UNIMPLEMENTED, TC_SV_FMT " writes to its arguments and no functional form of it is known",
                    TC_SV_ARG(n->op->full_name));
  tc_node *made;
  TC_TRY(tc_writes_call(writes, w->g, w->b.before, n, &made));
  for (int32_t k = 0; k < writes->n; k++) {
    int32_t i = writes->written[k].arg, r = writes->written[k].result;
    if (!old[i] || r >= made->n_results)
      return tc_error(TC_STATUS_UNIMPLEMENTED, TC_SV_FMT ": the argument '" TC_SV_FMT "' cannot be written",
                      TC_SV_ARG(n->op->full_name), TC_SV_ARG(n->op->schema.args[i].name));
    TC_TRY(write_arg(w, old[i], n->args[i].value, made->results[r]));
  }
  for (int32_t i = 0; i < n->n_results; i++) {
    if (i < writes->keep) tc_graph_forward(n->results[i], made->results[i]);
    else if (i < writes->n) tc_map_put_ptr(w->handles, n->results[i], NULL)->value.ptr = old[writes->written[i].arg];
  }
  tc_node_kill(n);
  return TC_OK;
}

// ---- the walk ----
static void add_results(writer *w, tc_node *n, handle **old, const tc_tensor_type *types) {
  for (int32_t i = 0; i < n->n_results; i++) {
    tc_value *v = n->results[i];
    if (v->kind != TC_VALUE_TENSOR) continue;
    if (v->view_arg < 0 || !old[v->view_arg]) {
      handle *root = new_root(w, v, -1);
      root->type = root->s->root_type = types[i];
      continue;
    }
    handle *base = old[v->view_arg], *h = TC_NEW(arena_of(w), handle);
    *h = (handle){
        .s = base->s, .base = base, .view = n, .result = i, .type = types[i], .value = v, .version = base->s->version};
    tc_map_put_ptr(w->handles, v, NULL)->value.ptr = h;
  }
}

// A size that comes from data is told by the node: it keeps its symbol, and gets no new one.
static tc_tensor_type keep_symbols(const tc_node *n, const tc_tensor_type *old, const tc_tensor_type *made) {
  tc_module *m = n->graph->module;
  tc_tensor_type t = *made;
  const tc_sym *from[TC_MAX_RANK], *to[TC_MAX_RANK], **all = TC_NEW_ARRAY(m->arena, const tc_sym *, 2 * TC_MAX_RANK);
  int32_t k = 0;
  for (int32_t d = 0; d < t.rank && t.rank == old->rank; d++)
    if (t.sizes[d] != old->sizes[d] && t.sizes[d]->kind == TC_SYM_SYMBOL && old->sizes[d]->kind == TC_SYM_SYMBOL &&
        tc_graph_definer(n->graph, old->sizes[d]) == n)
      from[k] = t.sizes[d], to[k++] = old->sizes[d];
  for (int32_t d = 0; d < t.rank; d++) {
    all[d] = tc_sym_replace(m->syms, t.sizes[d], k, from, to);
    all[TC_MAX_RANK + d] = tc_sym_replace(m->syms, t.strides[d], k, from, to);
  }
  t.sizes = all, t.strides = all + TC_MAX_RANK;
  return t;
}

// Types of results again, where an argument came back in another layout than it had.
static tc_status refresh_types(writer *w, tc_node *n) {
  tc_op_args a;
  tc_op_args_init(&a, TC_MOMENT_META, w->g->module, w->g, n->op, n->n_args, n->args, n->source);
  TC_TRY(tc_op_meta(&a));
  for (int32_t i = 0; i < n->n_results && i < a.n_results; i++) {
    if (n->results[i]->kind != TC_VALUE_TENSOR || a.results[i].absent) continue;
    tc_tensor_type t = keep_symbols(n, &n->results[i]->type, &a.results[i].type);
    tc_value_set_type(n->results[i], &t);
    n->results[i]->view_arg = a.results[i].view_arg;
  }
  return TC_OK;
}

static bool layout_changed(writer *w, const tc_node *n, handle *const *old) {
  for (int32_t i = 0; i < n->n_args; i++)
    if (old[i] && !tc_type_same(w->g->module, &old[i]->type, &n->args[i].value->type)) return true;
  return false;
}

static tc_status visit(writer *w, tc_node *n);

static bool sees_lists(const tc_node *n) {
  for (int32_t i = 0; i < n->n_results; i++)
    if (n->results[i]->view_arg >= 0 && n->args[n->results[i]->view_arg].kind == TC_AK_TENSORS) return true;
  return false;
}

// Views of the tensors of a list become what their op is made of: views of one tensor each.
static tc_status visit_parts(writer *w, tc_node *n) {
  tc_node *last = n->prev;
  int32_t count;
  tc_arg *made;
  const tc_build b = tc_build_for(n, w->g, n);
  TC_TRY(tc_expand_op(&b, n->op, n->n_args, n->args, &count, &made));
  for (tc_node *k = last ? last->next : w->g->first; k != n; k = k->next) TC_TRY(visit(w, k));
  for (int32_t i = 0; i < count && i < n->n_results; i++) {
    if (made[i].kind != TC_AK_TENSOR) continue;
    handle *h = tc_arena_copy(arena_of(w), handle_of(w, made[i].value), sizeof(handle));
    h->type = n->results[i]->type; // as the model has it: what it was made of may lie otherwise by now
    tc_map_put_ptr(w->handles, n->results[i], NULL)->value.ptr = h;
  }
  tc_node_kill(n);
  w->progress = true;
  return TC_OK;
}

// From where the storage of its operand begins, be the result a view or not.
static bool counts_in_storage(const tc_node *n) {
  return tc_counts_in_storage(n) || tc_node_is(n, "as_strided_copy") || tc_node_is(n, "as_strided_scatter");
}

static tc_status visit(writer *w, tc_node *n) {
  if (sees_lists(n)) return visit_parts(w, n);
  handle **old = TC_NEW_ARRAY(arena_of(w), handle *, n->n_args);
  for (int32_t i = 0; i < n->n_args; i++)
    if (n->args[i].kind == TC_AK_TENSOR) old[i] = handle_of(w, n->args[i].value);
  w->b = (tc_build){.graph = w->g, .before = n, .source = n->source};
  tc_node_each_value(n, update_place, w);
  TC_TRY(w->status);
  if (counts_in_storage(n) && old[0]) { // in the one that the model had
    TC_TRY(tc_match_gaps(&w->b, n->args[0].value, &old[0]->type, &n->args[0].value));
    TC_TRY(tc_view_count_from(&w->b, n, &old[0]->type, &n->args[0].value->type, n->args));
  }
  tc_tensor_type *types = TC_NEW_ARRAY(arena_of(w), tc_tensor_type, n->n_results);
  for (int32_t i = 0; i < n->n_results; i++) types[i] = n->results[i]->type;
  if (layout_changed(w, n, old) && !tc_node_writes(n)) TC_TRY(refresh_types(w, n));
  const tc_op *f = tc_node_writes(n) ? tc_op_functional(w->g->module->ops, n->op) : NULL;
  if (f) return do_inplace(w, n, f, old);
  tc_writes writes = tc_writes_of(n);
  if (writes.n) return do_writes(w, n, &writes, old);
  add_results(w, n, old, types);
  return TC_OK;
}

static int32_t mutation_kind(int32_t input_kind) {
  return input_kind == TC_IN_BUFFER      ? TC_OUT_BUFFER_MUTATION
         : input_kind == TC_IN_PARAMETER ? TC_OUT_PARAMETER_MUTATION
                                         : TC_OUT_INPUT_MUTATION;
}

static tc_status finish(writer *w) {
  tc_arena *arena = arena_of(w);
  w->b = (tc_build){.graph = w->g};
  for (int32_t i = 0; i < w->g->outputs.count; i++) {
    tc_value **v = &w->g->outputs.data[i].arg.value;
    if (!*v || (*v)->kind != TC_VALUE_TENSOR) continue;
    handle *h = handle_of(w, *v);
    TC_TRY(read(w, h, v));
    TC_TRY(tc_match_gaps(&w->b, *v, &h->type, v)); // what leaves the graph has the model's strides
  }
  tc_graph_output *old = w->g->outputs.data;
  int32_t n = w->g->outputs.count;
  w->g->outputs.data = NULL, w->g->outputs.count = w->g->outputs.capacity = 0;
  for (int32_t i = 0; i < w->inputs.count; i++) {
    storage *s = w->inputs.data[i];
    if (s->version == 0) continue;
    const tc_graph_input *in = &w->g->inputs.data[s->input];
    if (in->kind == TC_IN_CONSTANT)
      return tc_error(TC_STATUS_INVALID_ARGUMENT, "the constant '" TC_SV_FMT "' is written to", TC_SV_ARG(in->target));
    tc_graph_add_output(w->g, mutation_kind(in->kind), tc_arg_tensor(s->current), in->target);
  }
  for (int32_t i = 0; i < n; i++) tc_vec_push(arena, &w->g->outputs, old[i]);
  return TC_OK;
}

bool tc_graph_writes(const tc_graph *g) {
  for (const tc_node *n = g->first; n; n = n->next) {
    if (n->dead) continue;
    if (tc_node_writes(n) || tc_writes_of(n).n) return true;
    for (int32_t i = 0; i < n->n_args; i++)
      if (n->args[i].kind == TC_AK_GRAPH && tc_graph_writes(n->args[i].graph)) return true;
  }
  return false;
}

static tc_status functionalize(tc_graph *g, bool region, bool *out_progress) {
  writer w = {.g = g, .handles = tc_map_create(g->module->arena)};
  *out_progress = false;
  if (!tc_graph_writes(g)) return TC_OK;
  for (int32_t i = 0; i < g->inputs.count; i++)
    if (g->inputs.data[i].value && g->inputs.data[i].value->kind == TC_VALUE_TENSOR) {
      storage *s = new_root(&w, g->inputs.data[i].value, i)->s;
      tc_vec_push(g->module->arena, &w.inputs, s);
    }
  for (tc_node *n = g->first, *next; n; n = next) {
    next = n->next;
    if (n->dead) continue;
    for (int32_t i = 0; i < n->n_args; i++) {
      bool inner = false;
      if (n->args[i].kind == TC_AK_GRAPH) TC_TRY(functionalize(n->args[i].graph, true, &inner));
      w.progress = w.progress || inner;
    }
    tc_status s = visit(&w, n);
    if (!s) continue;
    s = tc_status_note(s, "while making %%" TC_SV_FMT " = " TC_SV_FMT " functional",
                       TC_SV_ARG(n->n_results ? n->results[0]->name : n->name), TC_SV_ARG(n->op->full_name));
    return n->source.size ? tc_status_note(s, "at " TC_SV_FMT, TC_SV_ARG(n->source)) : s;
  }
  for (int32_t i = 0; region && i < w.inputs.count; i++)
    if (w.inputs.data[i]->version)
      return tc_error(TC_STATUS_UNIMPLEMENTED, "the region @" TC_SV_FMT " writes to its operand %d", TC_SV_ARG(g->name),
                      w.inputs.data[i]->input);
  TC_TRY(finish(&w));
  tc_graph_sweep(g);
  *out_progress = w.progress;
  return TC_OK;
}

static tc_status run(tc_graph *g, bool *out_progress) { return functionalize(g, false, out_progress); }

const tc_pass tc_pass_functionalize = {"functionalize", run};
