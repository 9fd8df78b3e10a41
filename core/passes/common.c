// What passes share (passes.h).
#include "core/ir/opargs.h"
#include "core/passes/passes.h"

tc_value *tc_view_root(tc_value *v) {
  for (tc_value *base; (base = tc_value_base(v));) v = tc_value_resolve(base);
  return v;
}

bool tc_node_writes(const tc_node *n) {
  const tc_schema *s = &n->op->schema;
  for (int32_t i = 0; i < s->n_args; i++)
    if (s->args[i].writes) return true;
  return false;
}

bool tc_node_is(const tc_node *n, const char *name) {
  return n && tc_sv_is(n->op->schema.name, name) && tc_sv_is(n->op->schema.ns, "aten");
}

bool tc_node_pure(const tc_node *n) {
  if (n->op->def->traits & (TC_OP_EFFECT | TC_OP_NONDETERMINISTIC)) return false;
  if (tc_node_writes(n) || tc_node_draws(n)) return false;
  for (int32_t i = 0; i < n->n_args; i++)
    if (n->args[i].kind == TC_AK_GRAPH)
      for (const tc_node *k = n->args[i].graph->first; k; k = k->next)
        if (!k->dead && !tc_node_pure(k)) return false;
  return true;
}

static bool same_layout(tc_sym_ctx *c, const tc_tensor_type *a, const tc_tensor_type *b) {
  if (a->rank != b->rank || a->conj != b->conj) return false;
  for (int32_t i = 0; i < a->rank; i++)
    if (!tc_sym_is_int(a->sizes[i], 1) && !tc_sym_eq(c, a->strides[i], b->strides[i])) return false;
  return true;
}

static tc_status call(const tc_build *b, const char *op, int32_t n, const tc_arg *args, tc_value **v) {
  tc_arg out;
  TC_TRY(tc_build_call(b, tc_sv_of(op), n, args, NULL, &out));
  *v = out.value;
  return TC_OK;
}

// Dimensions from the slowest to the fastest; those of one stride keep their order.
static void slowest_first(tc_sym_ctx *c, const tc_tensor_type *t, int32_t *order) {
  for (int32_t d = 0; d < t->rank; d++) {
    int32_t k = d;
    for (; k > 0 && tc_sym_decide(c, TC_SYM_LT, t->strides[order[k - 1]], t->strides[d], false); k--)
      order[k] = order[k - 1];
    order[k] = d;
  }
}

// v copied into a dense layout whose dimensions are not in order: permuted to order, copied, permuted back.
static tc_status copy_permuted(const tc_build *b, tc_value *v, const tc_tensor_type *like, tc_value **out) {
  tc_sym_ctx *c = b->graph->module->syms;
  const tc_sym **to = TC_NEW_ARRAY(b->graph->module->arena, const tc_sym *, 2 * like->rank), **back = to + like->rank;
  int32_t order[TC_MAX_RANK];
  slowest_first(c, like, order);
  for (int32_t i = 0; i < like->rank; i++) to[i] = tc_sym_int(c, order[i]), back[order[i]] = tc_sym_int(c, i);
  tc_arg contiguous = {.kind = TC_AK_MEMORY_FORMAT, .integer = TC_FORMAT_CONTIGUOUS};
  TC_TRY(call(b, "aten::permute", 2, (tc_arg[]){tc_arg_tensor(v), tc_arg_syms(to, like->rank)}, &v));
  TC_TRY(call(b, "aten::clone", 2, (tc_arg[]){tc_arg_tensor(v), contiguous}, &v));
  return call(b, "aten::permute", 2, (tc_arg[]){tc_arg_tensor(v), tc_arg_syms(back, like->rank)}, out);
}

tc_status tc_match_layout(const tc_build *b, tc_value *v, const tc_tensor_type *like, tc_value **out) {
  tc_sym_ctx *c = b->graph->module->syms;
  *out = v;
  if (v->type.conj && !like->conj) TC_TRY(call(b, "aten::resolve_conj", 1, (tc_arg[]){tc_arg_tensor(*out)}, out));
  if ((*out)->type.dtype != like->dtype)
    TC_TRY(call(b, "aten::_to_copy", 2, (tc_arg[]){tc_arg_tensor(*out), tc_arg_dtype(like->dtype)}, out));
  bool same = (*out)->type.rank == like->rank;
  for (int32_t i = 0; same && i < like->rank; i++)
    same = (*out)->type.sizes[i] == like->sizes[i] || tc_sym_eq(c, (*out)->type.sizes[i], like->sizes[i]);
  if (!same)
    TC_TRY(call(b, "aten::expand", 2, (tc_arg[]){tc_arg_tensor(*out), tc_arg_syms(like->sizes, like->rank)}, out));
  if (same_layout(c, &(*out)->type, like)) return TC_OK;
  if (tc_strides_contiguous(c, like->rank, like->sizes, like->strides)) {
    tc_arg contiguous = {.kind = TC_AK_MEMORY_FORMAT, .integer = TC_FORMAT_CONTIGUOUS};
    return call(b, "aten::clone", 2, (tc_arg[]){tc_arg_tensor(*out), contiguous}, out);
  }
  return tc_strides_dense(c, like->rank, like->sizes, like->strides) ? copy_permuted(b, *out, like, out) : TC_OK;
}

const tc_pass *const *tc_standard_passes(int32_t *out_n) {
  static const tc_pass *const all[] = {&tc_pass_functionalize, &tc_pass_decompose, &tc_pass_views,
                                       &tc_pass_conj,          &tc_pass_fold,      &tc_pass_patterns,
                                       &tc_pass_weights,       &tc_pass_cse,       &tc_pass_dce};
  *out_n = sizeof all / sizeof *all;
  return all;
}
