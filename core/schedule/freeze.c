// Work that depends on the program's constants only, and is done once: packed and converted weights, folded
// normalisations, tables made of parameters (option `freeze`). In a loop's body what is the same in every turn is
// constant, and work on that is done in the first.
//
// A node is constant if all that it reads is a parameter, buffer or constant of the program that nothing changes, or
// made by constant nodes, and if no size symbol occurs in it. It is worth keeping if its result is wanted in memory
// anyway (packing, reductions, templates) or costs operations and is no larger than what it is made of; results that
// outgrow their sources are made again in every run. Constant nodes that feed such nodes go with them, and so do small
// ones that turn out not to be inlined. Groups never mix the two kinds (fuse.c), and those that are done once come
// first (order.c).
#include "core/schedule/internal.h"

enum { SMALL = 65536, MOST_GROWTH = 4, GROWTH_FREE = 1 << 20 }; // bytes; a result may be so many times its sources
enum { FEW = 2 };                                               // operations

static bool is_changed(const tc_loops *l, const tc_graph_input *in) {
  for (int32_t i = 0; i < l->outputs.count; i++) {
    const tc_loop_output *o = &l->outputs.data[i];
    if (o->kind >= TC_OUT_BUFFER_MUTATION && o->kind <= TC_OUT_PARAMETER_MUTATION && tc_sv_eq(o->target, in->target))
      return true;
  }
  return false;
}

bool tc_sched_constant_input(const tc_loops *l, const tc_buf *b) {
  if (b->kind != TC_BUF_INPUT || b->overwritten || !l->graph || b->input >= l->graph->inputs.count) return false;
  if (l->fixed_from) return b->input >= l->fixed_from;
  const tc_graph_input *in = &l->graph->inputs.data[b->input];
  bool kept = in->kind == TC_IN_PARAMETER || in->kind == TC_IN_BUFFER || in->kind == TC_IN_CONSTANT;
  return kept && !is_changed(l, in);
}

static bool has_sizes(const tc_sched *x, const tc_sym *e) {
  if (!e) return false;
  if (e->kind == TC_SYM_SYMBOL) {
    int32_t origin = tc_sym_info_read(x->l->syms, e)->origin;
    return origin == TC_SYM_BACKED || origin == TC_SYM_UNBACKED;
  }
  for (int32_t i = 0; i < e->n; i++)
    if (has_sizes(x, e->kids[i])) return true;
  return false;
}

static bool any_has_sizes(const tc_sched *x, int32_t n, const tc_sym *const *v) {
  for (int32_t i = 0; i < n; i++)
    if (has_sizes(x, v[i])) return true;
  return false;
}

typedef struct freezer {
  tc_sched *x;
  int64_t *sources; // by buffer id: bytes of the constants that it is made of; -1: not constant
} freezer;

static bool read_constant(freezer *f, const tc_buf *b, int64_t *sum) {
  int64_t bytes = f->sources[b->id];
  if (bytes >= 0) *sum += bytes;
  return bytes >= 0;
}

static bool was_read(const tc_lnode *n, int32_t inst) {
  for (int32_t k = 0; k < inst; k++)
    if (n->body.insts.data[k].buf == n->body.insts.data[inst].buf) return true;
  return false;
}

// *out: bytes of what it is made of.
static bool is_constant(freezer *f, const tc_lnode *n, int64_t *out) {
  *out = 0;
  if (n->kind == TC_LN_CALL || any_has_sizes(f->x, n->n_par + n->n_red, n->extents)) return false;
  if (any_has_sizes(f->x, n->n_attrs, n->attrs)) return false;
  for (int32_t k = 0; k < n->n_outs; k++)
    if (n->outs[k]->output >= 0 || n->outs[k]->inplace || n->outs[k]->overwritten) return false;
  for (int32_t k = 0; k < n->body.insts.count; k++) {
    const tc_binst *b = &n->body.insts.data[k];
    if (has_sizes(f->x, b->expr) || has_sizes(f->x, b->cond)) return false;
    if (b->op != TC_B_LOAD) continue;
    if (any_has_sizes(f->x, b->buf->rank, b->index)) return false;
    int64_t ignored = 0;
    if (!read_constant(f, b->buf, was_read(n, k) ? &ignored : out)) return false;
  }
  for (int32_t k = 0; k < n->n_operands; k++) {
    const tc_lview *v = &n->operands[k];
    if (any_has_sizes(f->x, v->rank, v->sizes) || any_has_sizes(f->x, v->buf->rank, v->map)) return false;
    if (!read_constant(f, v->buf, out)) return false;
  }
  return true;
}

static int64_t result_bytes(const freezer *f, const tc_lnode *n) {
  int64_t sum = 0;
  for (int32_t k = 0; k < n->n_outs; k++) sum += tc_buf_hint_bytes(f->x->l, n->outs[k]);
  return sum;
}

// In a loop's body an operation or two are made again in each turn rather than kept, where no less would be read.
static bool is_worth(const freezer *f, const tc_lnode *n, int64_t sources) {
  if (n->keep || n->kind != TC_LN_POINTWISE) return true;
  int64_t bytes = result_bytes(f, n);
  int32_t cost = tc_body_cost(&n->body);
  if (f->x->l->fixed_from && cost <= FEW && bytes >= sources) return false;
  return sources > 0 && cost > 0 && (bytes <= sources || bytes <= SMALL);
}

static bool feeds_once(const tc_sched *x, const tc_lnode *n) {
  for (int32_t k = 0; k < n->n_outs; k++) {
    const tc_users *u = &x->users[n->outs[k]->id];
    for (int32_t i = 0; i < u->nodes.count; i++)
      if (x->once[u->nodes.data[i]->id]) return true;
  }
  return false;
}

void tc_sched_freeze(tc_sched *x) {
  const tc_loops *l = x->l;
  x->once = TC_NEW_ARRAY(x->arena, bool, l->nodes.count);
  if (!x->o->freeze) return;
  freezer f = {x, TC_NEW_ARRAY(x->arena, int64_t, l->bufs.count)};
  int64_t *sources = TC_NEW_ARRAY(x->arena, int64_t, l->nodes.count); // by node; -1: not constant
  x->constant = TC_NEW_ARRAY(x->arena, bool, l->nodes.count);
  for (int32_t i = 0; i < l->bufs.count; i++) {
    const tc_buf *b = l->bufs.data[i];
    f.sources[b->id] = tc_sched_constant_input(l, b) ? tc_buf_hint_bytes(x->l, b) : -1;
  }
  for (int32_t i = 0; i < l->nodes.count; i++) {
    const tc_lnode *n = l->nodes.data[i];
    bool constant = is_constant(&f, n, &sources[i]);
    if (constant && result_bytes(&f, n) > MOST_GROWTH * sources[i] + GROWTH_FREE) constant = false;
    if (!constant) sources[i] = -1;
    x->constant[i] = constant;
    for (int32_t k = 0; k < n->n_outs; k++) f.sources[n->outs[k]->id] = sources[i];
  }
  for (int32_t i = l->nodes.count - 1; i >= 0; i--) {
    const tc_lnode *n = l->nodes.data[i];
    x->once[i] = sources[i] >= 0 && (is_worth(&f, n, sources[i]) || feeds_once(x, n));
  }
}

void tc_sched_freeze_rest(tc_sched *x) {
  for (int32_t i = x->l->nodes.count - 1; x->constant && i >= 0; i--) {
    const tc_lnode *n = x->l->nodes.data[i];
    if (!x->constant[i] || x->inlined[i] || x->once[i] || !x->o->fuse) continue;
    int64_t bytes = 0;
    for (int32_t k = 0; k < n->n_outs; k++) bytes += tc_buf_hint_bytes(x->l, n->outs[k]);
    x->once[i] = bytes <= SMALL || feeds_once(x, n);
  }
}
