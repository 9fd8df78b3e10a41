// autocast: products in 16 bits and what loses too much there in f32, as torch.autocast decides op by op.
//
// The nodes are walked in order. A node whose operands have changed is made again, so that its meta function says what
// its results are. What cannot be made again - control flow, requests for gradients, sizes that come from data, ops
// that refuse the type - gets its operands as they were. Writes to the caller's memory and what regions give keep their
// types; the program's own results do not, as in PyTorch.
#include "core/passes/autocast.h"

#include "core/passes/passes.h"
#include "core/passes/remake.h"

typedef struct autocast {
  tc_remake remake; // first
  tc_autocast_options o;
  bool is_region;
  bool writes;               // casts are not shared where memory changes in between
  tc_map *lowered, *widened; // value → its cast
  tc_dtype to;               // for the node that is made again; TC_DTYPE_NONE: its operands stay
} autocast;

// ---- casts ----
static tc_status cast(autocast *x, tc_node *before, tc_dtype to, tc_value **v) {
  tc_map *shared = to == x->o.to ? x->lowered : to == TC_F32 ? x->widened : NULL;
  if ((*v)->type.dtype == to) return TC_OK;
  const tc_map_entry *e = shared && !x->writes ? tc_map_find_ptr(shared, *v) : NULL;
  tc_arg args[] = {tc_arg_tensor(*v), tc_arg_dtype(to)}, made;
  tc_build b = {.graph = x->remake.graph, .before = before, .source = before ? before->source : TC_SV("")};
  if (!e) TC_TRY(tc_build_call(&b, TC_SV("aten::to.dtype"), 2, args, NULL, &made));
  tc_value *result = e ? e->value.ptr : made.value;
  if (shared && !e) tc_map_put_ptr(shared, *v, NULL)->value.ptr = result;
  *v = result;
  return TC_OK;
}

static tc_status read_cast(tc_remake *r, tc_node *n, tc_value **v) {
  autocast *x = (autocast *)(void *)r;
  (void)n;
  return x->to && tc_autocast_concerns(*v) ? cast(x, n, x->to, v) : TC_OK;
}

static tc_status cast_back(tc_remake *r, tc_node *before, const tc_tensor_type *was, tc_value **v) {
  return cast((autocast *)(void *)r, before, was->dtype, v);
}

// ---- nodes ----
static tc_status autocast_region(const autocast *x, tc_graph *region);

static tc_status autocast_node(autocast *x, tc_node *n) {
  for (int32_t i = 0; i < n->n_args; i++)
    if (n->args[i].kind == TC_AK_GRAPH && n->args[i].graph) TC_TRY(autocast_region(x, n->args[i].graph));
  x->to = tc_autocast_dtype(&x->o, n->op, n->n_args, n->args);
  return tc_remake_node(&x->remake, n);
}

static bool keeps_type(const tc_remake *r, const tc_graph_output *out) {
  const autocast *x = (const autocast *)(const void *)r;
  return x->is_region || (out->kind != TC_OUT_USER && out->kind != TC_OUT_LOSS);
}

static tc_status autocast_graph(tc_graph *g, const tc_autocast_options *o, bool is_region) {
  tc_arena *arena = g->module->arena;
  autocast x = {.remake = {.read = read_cast, .restore = cast_back}, .o = *o, .is_region = is_region};
  tc_remake_begin(&x.remake, g);
  x.writes = tc_graph_writes(g), x.lowered = tc_map_create(arena), x.widened = tc_map_create(arena);
  for (tc_node *n = g->first; n; n = n->next)
    if (!n->dead) TC_TRY(autocast_node(&x, n), "while casting for " TC_SV_FMT, TC_SV_ARG(n->op->full_name));
  return tc_remake_end(&x.remake, keeps_type);
}

static tc_status autocast_region(const autocast *x, tc_graph *region) { return autocast_graph(region, &x->o, true); }

tc_status tc_autocast(tc_graph *g, const tc_autocast_options *o) { return autocast_graph(g, o, false); }
