// Operations of a whole graph by op: what PyTorch's FlopCounterMode counts (products, convolutions, attention: rows
// whose formula is labelled with PyTorch's name), and all else that does arithmetic.
//
// An op without a label that decomposes is taken apart, as FlopCounterMode does, and its parts are counted, unless it
// is a kernel by hand that says itself what it does. Of the branches of a conditional the dearer one counts, op by op;
// the body of any other region counts once.
#include "core/ir/control.h"
#include "core/ir/expand.h"
#include "core/ir/userop.h"
#include "core/plan/plan_internal.h"

enum { MOST_DEPTH = 32 };

typedef struct counting {
  tc_arena *arena;
  tc_sym_ctx *syms;
  tc_map *by_name; // → tc_counted_op *
} counting;

static tc_counted_op *entry_of(counting *x, tc_sv name, bool product) {
  tc_map_entry *e = tc_map_put(x->by_name, name, NULL);
  if (!e->value.ptr) {
    tc_counted_op *new = TC_NEW(x->arena, tc_counted_op);
    *new = (tc_counted_op){.name = name, .product = product, .flops = tc_sym_int(x->syms, 0)};
    new->bytes = new->flops;
    e->value.ptr = new;
  }
  return e->value.ptr;
}

static const tc_sym *bytes_of(tc_sym_ctx *c, const tc_value *v) {
  if (!v || v->kind != TC_VALUE_TENSOR) return tc_sym_int(c, 0);
  const tc_sym *n = tc_sym_int(c, tc_dtype_size(v->type.dtype));
  for (int32_t d = 0; d < v->type.rank; d++) n = tc_sym_mul(c, n, v->type.sizes[d]);
  return n;
}

static const tc_sym *node_bytes(tc_sym_ctx *c, const tc_node *n) {
  const tc_sym *sum = tc_sym_int(c, 0);
  for (int32_t i = 0; i < n->n_results; i++) sum = tc_sym_add(c, sum, bytes_of(c, n->results[i]));
  for (int32_t i = 0; i < n->n_args; i++) {
    if (n->args[i].kind == TC_AK_TENSOR) sum = tc_sym_add(c, sum, bytes_of(c, n->args[i].value));
    for (int32_t k = 0; n->args[i].kind == TC_AK_TENSORS && k < n->args[i].n; k++)
      sum = tc_sym_add(c, sum, bytes_of(c, n->args[i].values[k]));
  }
  return sum;
}

static tc_status count_graph(counting *x, const tc_graph *g, int32_t depth);

// The larger of two counts, op by op, is added.
static tc_status count_branches(counting *x, const tc_node *n, int32_t depth) {
  tc_map *most = tc_map_create(x->arena), *outer = x->by_name;
  for (int32_t i = 0; i < n->n_args; i++) {
    if (n->args[i].kind != TC_AK_GRAPH || !n->args[i].graph) continue;
    x->by_name = tc_map_create(x->arena);
    tc_status s = count_graph(x, n->args[i].graph, depth + 1);
    tc_map *branch = x->by_name;
    x->by_name = most;
    for (int32_t k = 0; k < tc_map_count(branch); k++) {
      const tc_counted_op *of = tc_map_at(branch, k)->value.ptr;
      tc_counted_op *e = entry_of(x, of->name, of->product);
      e->calls = e->calls > of->calls ? e->calls : of->calls;
      e->flops = tc_sym_max(x->syms, e->flops, of->flops);
      e->bytes = tc_sym_max(x->syms, e->bytes, of->bytes);
    }
    x->by_name = outer;
    TC_TRY(s);
  }
  for (int32_t k = 0; k < tc_map_count(most); k++) {
    const tc_counted_op *of = tc_map_at(most, k)->value.ptr;
    tc_counted_op *e = entry_of(x, of->name, of->product);
    e->calls += of->calls;
    e->flops = tc_sym_add(x->syms, e->flops, of->flops), e->bytes = tc_sym_add(x->syms, e->bytes, of->bytes);
  }
  return TC_OK;
}

static tc_status count_parts(counting *x, const tc_node *n, int32_t depth) {
  tc_graph *scratch = tc_graph_create(n->graph->module, TC_SV("counted"));
  scratch->scratch = depth + 1;
  int32_t n_out;
  tc_arg *out;
  const tc_build b = tc_build_for(n, scratch, NULL);
  TC_TRY(tc_expand_op(&b, n->op, n->n_args, n->args, &n_out, &out));
  return count_graph(x, scratch, depth + 1);
}

static tc_status count_node(counting *x, const tc_node *n, int32_t depth) {
  tc_sv label = tc_plan_flops_label(n->op);
  if (depth > MOST_DEPTH)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT ": its decomposition does not end",
                    TC_SV_ARG(n->op->full_name));
  int32_t control = tc_op_control(n->op);
  if (control == TC_CONTROL_COND) return count_branches(x, n, depth);
  if (control != TC_CONTROL_NONE) {
    for (int32_t i = 0; i < n->n_args; i++)
      if (n->args[i].kind == TC_AK_GRAPH && n->args[i].graph) TC_TRY(count_graph(x, n->args[i].graph, depth + 1));
    return TC_OK;
  }
  bool left_out = tc_sv_is(label, "-"), counted = label.size && !left_out;
  // An op that writes in place is not taken apart: its decomposition is that of the op that does not.
  const tc_op *base = tc_op_functional(n->graph->module->ops, n->op);
  bool parts = tc_op_can_expand(n->op) && !base && !(n->op->user && n->op->user->flops);
  if (!label.size && parts) return count_parts(x, n, depth);
  const tc_sym *flops = tc_plan_node_flops_as(x->arena, x->syms, n, counted);
  if (left_out && parts && tc_sym_is_int(flops, 0)) return count_parts(x, n, depth);
  if (tc_sym_is_int(flops, 0)) return TC_OK;
  tc_sv ns = counted ? TC_SV("aten") : n->op->schema.ns, name = counted ? label : n->op->schema.name;
  tc_counted_op *e =
      entry_of(x, tc_sv_printf(x->arena, TC_SV_FMT "." TC_SV_FMT, TC_SV_ARG(ns), TC_SV_ARG(name)), counted);
  e->calls++;
  e->flops = tc_sym_add(x->syms, e->flops, flops);
  e->bytes = tc_sym_add(x->syms, e->bytes, node_bytes(x->syms, n));
  return TC_OK;
}

static tc_status count_graph(counting *x, const tc_graph *g, int32_t depth) {
  for (const tc_node *n = g->first; n; n = n->next)
    if (!n->dead) TC_TRY(count_node(x, n, depth));
  return TC_OK;
}

tc_status tc_graph_count(const tc_graph *g, int32_t *out_n, tc_counted_op **out) {
  tc_module *m = g->module;
  counting x = {.arena = m->arena, .syms = m->syms, .by_name = tc_map_create(m->arena)};
  TC_TRY(count_graph(&x, g, 0));
  *out_n = tc_map_count(x.by_name);
  *out = TC_NEW_ARRAY(m->arena, tc_counted_op, *out_n);
  for (int32_t i = 0; i < *out_n; i++) (*out)[i] = *(const tc_counted_op *)tc_map_at(x.by_name, i)->value.ptr;
  return TC_OK;
}
