// A group as it would be if some size symbols were something else: a number, or a symbol of which more is known.
//
// Kernels are chosen at run time by facts about sizes (plan: variants). What a fact makes simpler shows by itself once
// the sizes are replaced, in every range, divisor and index expression, so the group is copied with all that emission
// looks at: its nodes, what is inlined into them, and their buffers. Loop variables are made anew, since their ranges
// are known from the extents. Which rows lie on chip is decided again, since they may have a bound now.
#include "core/loop/lo.h"
#include "core/schedule/internal.h"

typedef struct copier {
  tc_loops *l;
  const tc_group *g;
  int32_t n;
  const tc_sym *const *from, *const *to;
  tc_map *bufs, *nodes; // original → copy
  tc_map *originals;    // copied buffer → original
} copier;

static const tc_sym *size(copier *c, const tc_sym *x) {
  return x ? tc_sym_replace(c->l->syms, x, c->n, c->from, c->to) : NULL;
}

static const tc_sym *const *sizes(copier *c, int32_t n, const tc_sym *const *v) {
  if (!v) return NULL;
  const tc_sym **out = TC_NEW_ARRAY(c->l->arena, const tc_sym *, n);
  for (int32_t i = 0; i < n; i++) out[i] = size(c, v[i]);
  return out;
}

// Expressions over `n` variables that become others besides.
static const tc_sym *indexed(copier *c, const tc_sym *x, int32_t n, const tc_sym *const *vars,
                             const tc_sym *const *fresh) {
  return x ? tc_sym_replace(c->l->syms, size(c, x), n, vars, fresh) : NULL;
}

static const tc_sym *const *fresh_vars(copier *c, int32_t n, const tc_sym *const *extents) {
  const tc_sym **out = TC_NEW_ARRAY(c->l->arena, const tc_sym *, n);
  for (int32_t i = 0; i < n; i++) out[i] = tc_loop_var(c->l, "i", extents[i]);
  return out;
}

static tc_lnode *copy_node(copier *c, const tc_lnode *n);

static bool is_step(const copier *c, const tc_lnode *n) {
  for (int32_t i = 0; i < c->g->steps.count; i++) {
    if (c->g->steps.data[i].node == n) return true;
  }
  return false;
}

static const tc_buf *copy_buf(copier *c, const tc_buf *b) {
  bool fresh;
  tc_map_entry *e = tc_map_put_ptr(c->bufs, b, &fresh);
  if (!fresh) return e->value.ptr;
  tc_buf *o = TC_NEW(c->l->arena, tc_buf);
  *o = *b;
  e->value.ptr = o;
  tc_map_put_ptr(c->originals, o, NULL)->value.ptr = (void *)(uintptr_t)b;
  o->sizes = sizes(c, b->rank, b->sizes);
  o->strides = sizes(c, b->rank, b->strides);
  o->prefer = sizes(c, b->rank, b->prefer);
  o->offset = size(c, b->offset);
  o->def = NULL; // of what comes through memory nobody asks who made it
  if (b->def && (is_step(c, b->def) || (b->def->kind == TC_LN_POINTWISE && !b->strides))) o->def = copy_node(c, b->def);
  if (b->inplace) o->inplace = copy_buf(c, b->inplace);
  if (b->over) o->over = copy_buf(c, b->over);
  return o;
}

static void copy_body(copier *c, const tc_lnode *n, tc_lnode *o) {
  int32_t vars = n->n_par + n->n_red;
  tc_binsts insts = {0};
  for (int32_t i = 0; i < n->body.insts.count; i++) {
    tc_binst b = n->body.insts.data[i];
    b.expr = indexed(c, b.expr, vars, n->vars, o->vars);
    b.cond = indexed(c, b.cond, vars, n->vars, o->vars);
    if (b.buf) {
      const tc_sym **index = TC_NEW_ARRAY(c->l->arena, const tc_sym *, b.buf->rank);
      for (int32_t d = 0; d < b.buf->rank; d++) index[d] = indexed(c, b.index[d], vars, n->vars, o->vars);
      b.index = index;
      b.buf = copy_buf(c, b.buf);
    }
    tc_vec_push(c->l->arena, &insts, b);
  }
  o->body.insts = insts;
}

static tc_lview copy_view(copier *c, const tc_lview *v) {
  tc_lview o = *v;
  o.sizes = sizes(c, v->rank, v->sizes);
  o.index = fresh_vars(c, v->rank, o.sizes);
  const tc_sym **map = TC_NEW_ARRAY(c->l->arena, const tc_sym *, v->buf->rank);
  for (int32_t d = 0; d < v->buf->rank; d++) map[d] = indexed(c, v->map[d], v->rank, v->index, o.index);
  o.map = map;
  o.buf = copy_buf(c, v->buf);
  return o;
}

static tc_lnode *copy_node(copier *c, const tc_lnode *n) {
  bool fresh;
  tc_map_entry *e = tc_map_put_ptr(c->nodes, n, &fresh);
  if (!fresh) return e->value.ptr;
  tc_lnode *o = TC_NEW(c->l->arena, tc_lnode);
  *o = *n;
  e->value.ptr = o;
  o->extents = sizes(c, n->n_par + n->n_red, n->extents);
  o->vars = fresh_vars(c, n->n_par + n->n_red, o->extents);
  copy_body(c, n, o);
  tc_lview *operands = TC_NEW_ARRAY(c->l->arena, tc_lview, n->n_operands);
  for (int32_t i = 0; i < n->n_operands; i++) operands[i] = copy_view(c, &n->operands[i]);
  o->operands = operands;
  o->attrs = sizes(c, n->n_attrs, n->attrs);
  o->outs = TC_NEW_ARRAY(c->l->arena, tc_buf *, n->n_outs);
  for (int32_t i = 0; i < n->n_outs; i++) o->outs[i] = (tc_buf *)(uintptr_t)copy_buf(c, n->outs[i]);
  return o;
}

tc_group *tc_group_assume(tc_schedule *s, const tc_group *g, const tc_device_props *device, int32_t n,
                          const tc_sym *const *from, const tc_sym *const *to, tc_map *originals) {
  tc_arena *arena = s->loops->arena;
  copier c = {.l = s->loops, .g = g, .n = n, .from = from, .to = to, .originals = originals};
  c.bufs = tc_map_create(arena), c.nodes = tc_map_create(arena);
  tc_group *o = TC_NEW(arena, tc_group);
  *o = *g;
  int32_t n_vars = g->n_par + g->n_red;
  o->extents = sizes(&c, n_vars, g->extents);
  o->vars = fresh_vars(&c, n_vars, o->extents);
  o->steps.data = NULL, o->steps.count = o->steps.capacity = 0;
  o->reads.data = o->writes.data = NULL;
  o->reads.count = o->reads.capacity = o->writes.count = o->writes.capacity = 0;
  for (int32_t i = 0; i < g->steps.count; i++) {
    tc_step st = g->steps.data[i];
    int32_t own = st.node->n_par + st.node->n_red;
    const tc_sym **at = TC_NEW_ARRAY(arena, const tc_sym *, own);
    for (int32_t k = 0; k < own; k++) at[k] = indexed(&c, st.at[k], n_vars, g->vars, o->vars);
    // A group of one node may walk the node's own variables.
    st.node = copy_node(&c, st.node);
    st.at = at;
    tc_vec_push(arena, &o->steps, st);
  }
  for (int32_t i = 0; i < g->reads.count; i++) tc_vec_push(arena, &o->reads, copy_buf(&c, g->reads.data[i]));
  for (int32_t i = 0; i < g->writes.count; i++) tc_vec_push(arena, &o->writes, copy_buf(&c, g->writes.data[i]));
  if (g->stage) o->stage = copy_node(&c, g->stage);
  // A tile is as long as its row may become: where cores share their memory among many lanes, or a template's tile has
  // many rows, that much is taken from others, and only a length that is known is worth it.
  if (tc_sym_is_const(tc_product(s->loops, o->n_red, o->extents + o->n_par)) || (device->simd_bytes && !o->stage))
    tc_group_hold_rows(s->loops, device, o);
  return o;
}
