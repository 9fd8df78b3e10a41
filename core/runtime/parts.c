// Which nodes of the graph an operation of the plan does: from the values that it writes backwards to what is in
// memory.
#include "core/runtime/parts.h"

#include <stdlib.h>

typedef struct parting {
  tc_loops *l;
  const tc_plan *p;
  tc_map *op_of;          // tc_value * → 1 + the operation that leaves it in memory
  int32_t at;             // the operation that is looked at
  bool *seen;             // by node id
  TC_VEC(tc_node *) open; // to be looked at
} parting;

// Where a value is in the plan's memory: its own bytes, whole, in the dtype that the graph says.
static bool find_place(const parting *w, const tc_lview *v, const tc_tensor_type *t, int32_t buf, tc_part_value *out) {
  tc_sym_ctx *c = w->l->syms;
  const tc_plan_buf *b = &w->p->bufs.data[buf];
  const tc_sym *all = tc_sym_int(c, 1), *kept = all, *offset;
  const tc_sym **strides = TC_NEW_ARRAY(w->l->arena, const tc_sym *, v->rank + 1);
  if (b->dtype != t->dtype || t->conj || v->rank != t->rank || v->buf->planar) return false;
  for (int32_t d = 0; d < t->rank; d++) all = tc_sym_mul(c, all, t->sizes[d]);
  for (int32_t d = 0; d < b->rank; d++) kept = tc_sym_mul(c, kept, b->sizes[d]);
  if (!tc_sym_eq(c, all, kept)) return false; // broadcast, padded, or cut to what is read
  if (!tc_lview_strides(w->l, v, b->strides, strides, &offset)) return false;
  *out = (tc_part_value){.buf = buf, .strides = strides, .offset = tc_sym_sub(c, offset, v->buf->offset)};
  return true;
}

static void find_values(parting *w, tc_part *parts) {
  tc_arena *arena = w->l->arena;
  tc_map *bufs = tc_map_create(arena); // tc_buf * → 1 + its number
  int32_t *writer = TC_NEW_ARRAY(arena, int32_t, w->p->bufs.count + 1);
  for (int32_t i = 0; i < w->p->bufs.count; i++) {
    const tc_buf *origin = w->p->bufs.data[i].origin;
    if (origin) tc_map_put_ptr(bufs, origin, NULL)->value.num = i + 1;
    writer[i] = -1;
  }
  for (int32_t i = w->p->ops.count - 1; i >= 0; i--) {
    const tc_plan_op *op = &w->p->ops.data[i];
    for (int32_t k = 0; k < op->n_args; k++)
      if (op->args[k].writes) writer[op->args[k].buf] = i;
  }
  for (tc_node *n = w->l->graph->first; n; n = n->next) {
    for (int32_t i = 0; i < n->n_results; i++) {
      const tc_map_entry *e = tc_map_find_ptr(w->l->values, n->results[i]);
      const tc_lview *v = e ? e->value.ptr : NULL;
      const tc_map_entry *b = v && n->results[i]->kind == TC_VALUE_TENSOR ? tc_map_find_ptr(bufs, v->buf) : NULL;
      int32_t buf = b ? (int32_t)b->value.num - 1 : -1;
      tc_part_value x;
      if (buf < 0 || writer[buf] < 0 || !v->buf->def || v->buf->def->node != n) continue;
      if (!find_place(w, v, &n->results[i]->type, buf, &x)) continue;
      x.value = n->results[i];
      tc_vec_push(arena, &parts[writer[buf]].values, x);
      // What is done once is not there in later runs: whoever reads it does it, too.
      if (!w->p->ops.data[writer[buf]].once) tc_map_put_ptr(w->op_of, x.value, NULL)->value.num = writer[buf] + 1;
    }
  }
}

static void visit_node(parting *w, tc_node *n) {
  if (!n || w->seen[n->id]) return;
  w->seen[n->id] = true;
  tc_vec_push(w->l->arena, &w->open, n);
}

static void visit_value(void *self, tc_value **place) {
  parting *w = self;
  const tc_map_entry *e = tc_map_find_ptr(w->op_of, *place);
  if (!e || e->value.num > w->at) visit_node(w, (*place)->def);
}

static int by_id(const void *a, const void *b) {
  const tc_node *x = *(tc_node *const *)a, *y = *(tc_node *const *)b;
  return (x->id > y->id) - (x->id < y->id);
}

tc_part *tc_plan_parts(tc_loops *l, const tc_plan *p) {
  tc_part *parts = TC_NEW_ARRAY(p->arena, tc_part, p->ops.count + 1);
  if (!l || !l->values || !l->graph) return parts;
  parting w = {.l = l, .p = p, .op_of = tc_map_create(l->arena)};
  find_values(&w, parts);
  int32_t id = 0;
  for (tc_node *n = l->graph->first; n; n = n->next) id = n->id >= id ? n->id + 1 : id;
  for (int32_t i = 0; i < p->ops.count; i++) {
    tc_part *x = &parts[i];
    w.at = i, w.seen = TC_NEW_ARRAY(l->arena, bool, id + 1);
    for (int32_t k = 0; k < x->values.count; k++) visit_node(&w, x->values.data[k].value->def);
    while (w.open.count) {
      tc_node *n = w.open.data[--w.open.count];
      tc_vec_push(l->arena, &x->nodes, n);
      tc_node_each_value(n, visit_value, &w);
    }
    if (x->nodes.count > 1) qsort(x->nodes.data, (size_t)x->nodes.count, sizeof(*x->nodes.data), by_id);
  }
  return parts;
}
