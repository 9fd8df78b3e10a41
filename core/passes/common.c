// What passes share (passes.h).
#include "core/ir/opargs.h"
#include "core/passes/passes.h"

#include "tc/lower.h"

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

bool tc_attention_takes_heads(const tc_tensor_type *t) {
  const tc_sym *size = t->rank ? t->sizes[t->rank - 1] : NULL;
  return size && (!tc_sym_is_const(size) || (size->value > 0 && size->value <= TC_ATTENTION_LONGEST));
}

bool tc_counts_in_storage(const tc_node *n) {
  static const char *const names[] = {"as_strided", "as_strided_", "resize", "resize_"};
  bool found = false;
  for (size_t i = 0; i < sizeof names / sizeof *names && !found; i++) found = tc_node_is(n, names[i]);
  return found;
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

static bool has_none(const tc_tensor_type *t) {
  bool none = false;
  for (int32_t i = 0; i < t->rank; i++) none |= tc_sym_is_int(t->sizes[i], 0);
  return none;
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
  if (has_none(like)) { // where there is no element any strides are dense: copies keep them
    tc_arg seen[] = {tc_arg_tensor(*out), tc_arg_syms(like->sizes, like->rank), tc_arg_syms(like->strides, like->rank),
                     tc_arg_sym(tc_sym_int(c, 0))};
    return call(b, "aten::as_strided", 4, seen, out);
  }
  if (tc_strides_contiguous(c, like->rank, like->sizes, like->strides)) {
    tc_arg contiguous = {.kind = TC_AK_MEMORY_FORMAT, .integer = TC_FORMAT_CONTIGUOUS};
    return call(b, "aten::clone", 2, (tc_arg[]){tc_arg_tensor(*out), contiguous}, out);
  }
  return tc_strides_dense(c, like->rank, like->sizes, like->strides) ? copy_permuted(b, *out, like, out) : TC_OK;
}

// How long each dimension of a layout with gaps is where these are filled, by place in `order`; behind the fastest one
// stands a dimension of its own, of which one element is taken. False if steps do not divide one another.
static bool filled_sizes(tc_sym_ctx *c, const tc_tensor_type *t, const int32_t *order, const tc_sym **out) {
  const tc_sym *below = tc_sym_int(c, 1);
  int32_t inner = t->rank;
  for (int32_t i = t->rank; i-- > 0;) {
    const tc_sym *size = t->sizes[order[i]], *step = t->strides[order[i]];
    out[i] = size;
    if (tc_sym_is_int(size, 1)) continue;
    if (!tc_sym_decide(c, TC_SYM_LT, tc_sym_int(c, 0), step, false)) return false;
    out[inner] = tc_sym_floordiv(c, step, below);
    if (!tc_sym_eq(c, tc_sym_mul(c, out[inner], below), step)) return false;
    if (inner < t->rank && !tc_sym_decide(c, TC_SYM_LE, t->sizes[order[inner]], out[inner], false)) return false;
    inner = i, below = step;
  }
  if (inner == t->rank) out[t->rank] = below;
  return true;
}

// Rows that are one in memory are written once and seen often. *out_any is false where there are none.
static tc_status match_repeats(const tc_build *b, tc_value *v, const tc_tensor_type *like, bool *out_any,
                               tc_value **out) {
  tc_sym_ctx *c = b->graph->module->syms;
  tc_tensor_type once = *like;
  const tc_sym *zero = tc_sym_int(c, 0), *one = tc_sym_int(c, 1),
               **sizes = TC_NEW_ARRAY(b->graph->module->arena, const tc_sym *, like->rank);
  *out_any = false, *out = v;
  for (int32_t i = 0; i < like->rank; i++) {
    sizes[i] = like->sizes[i];
    bool repeats = tc_sym_is_int(like->strides[i], 0) && tc_sym_decide(c, TC_SYM_LT, one, sizes[i], false);
    if (!repeats) continue;
    tc_arg slice[] = {tc_arg_tensor(*out), tc_arg_sym(tc_sym_int(c, i)), tc_arg_sym(zero), tc_arg_sym(one),
                      tc_arg_sym(one)};
    TC_TRY(call(b, "aten::slice.Tensor", 5, slice, out));
    sizes[i] = one, *out_any = true;
  }
  if (!*out_any) return TC_OK;
  once.sizes = sizes;
  TC_TRY(tc_match_gaps(b, *out, &once, out));
  return call(b, "aten::expand", 2, (tc_arg[]){tc_arg_tensor(*out), tc_arg_syms(like->sizes, like->rank)}, out);
}

// Steps that do not divide one another, as a diagonal of a layout with gaps has them: elements go to their places among
// zeros. Left as it is where how far they lie apart is not known.
static tc_status match_steps(const tc_build *b, tc_value *v, const tc_tensor_type *like, tc_value **out) {
  tc_sym_ctx *c = b->graph->module->syms;
  const tc_sym *zero = tc_sym_int(c, 0);
  int64_t last = 0;
  *out = v;
  for (int32_t i = 0; i < like->rank; i++) {
    const tc_sym *size = like->sizes[i], *step = like->strides[i];
    if (!tc_sym_is_const(size) || !tc_sym_is_const(step) || size->value < 1 || step->value < 0) return TC_OK;
    last += (size->value - 1) * step->value;
  }
  if (like->conj || v->type.conj || !tc_op_find(b->graph->module->ops, TC_SV("tc::strided_put"))) return TC_OK;
  const tc_sym **span = TC_NEW_ARRAY(b->graph->module->arena, const tc_sym *, 1);
  span[0] = tc_sym_int(c, last + 1);
  tc_value *gaps;
  TC_TRY(call(b, "aten::new_zeros", 2, (tc_arg[]){tc_arg_tensor(v), tc_arg_syms(span, 1)}, &gaps));
  tc_arg at[] = {tc_arg_tensor(gaps), tc_arg_tensor(v), tc_arg_syms(like->sizes, like->rank),
                 tc_arg_syms(like->strides, like->rank), tc_arg_sym(zero)};
  TC_TRY(call(b, "tc::strided_put", 5, at, &gaps));
  tc_arg seen[] = {tc_arg_tensor(gaps), at[2], at[3], at[4]};
  return call(b, "aten::as_strided", 4, seen, out);
}

tc_status tc_match_gaps(const tc_build *b, tc_value *v, const tc_tensor_type *like, tc_value **out) {
  tc_sym_ctx *c = b->graph->module->syms;
  int32_t n = like->rank, order[TC_MAX_RANK];
  const tc_sym *filled[TC_MAX_RANK + 1], *zero = tc_sym_int(c, 0), *one = tc_sym_int(c, 1);
  bool repeats;
  TC_TRY(tc_match_layout(b, v, like, out));
  if (same_layout(c, &(*out)->type, like)) return TC_OK;
  TC_TRY(match_repeats(b, *out, like, &repeats, out));
  if (repeats) return TC_OK;
  slowest_first(c, like, order);
  if (n >= TC_MAX_RANK || !filled_sizes(c, like, order, filled)) return match_steps(b, *out, like, out);
  const tc_sym **to = TC_NEW_ARRAY(b->graph->module->arena, const tc_sym *, 4 * n + 2), **back = to + n,
               **pad = back + n;
  for (int32_t i = 0; i < n; i++) to[i] = tc_sym_int(c, order[i]), back[order[i]] = tc_sym_int(c, i);
  for (int32_t i = 0; i <= n; i++) { // from the last dimension on: so many in front, so many behind
    const tc_sym *size = i < n ? like->sizes[order[i]] : one;
    pad[2 * (n - i)] = zero, pad[2 * (n - i) + 1] = tc_sym_sub(c, filled[i], size);
  }
  tc_arg contiguous = {.kind = TC_AK_MEMORY_FORMAT, .integer = TC_FORMAT_CONTIGUOUS},
         last = tc_arg_sym(tc_sym_int(c, n));
  TC_TRY(call(b, "aten::permute", 2, (tc_arg[]){tc_arg_tensor(*out), tc_arg_syms(to, n)}, out));
  TC_TRY(call(b, "aten::clone", 2, (tc_arg[]){tc_arg_tensor(*out), contiguous}, out));
  TC_TRY(call(b, "aten::unsqueeze", 2, (tc_arg[]){tc_arg_tensor(*out), last}, out));
  TC_TRY(call(b, "aten::constant_pad_nd", 3,
              (tc_arg[]){tc_arg_tensor(*out), tc_arg_syms(pad, 2 * n + 2), tc_arg_sym(zero)}, out));
  TC_TRY(call(b, "aten::select.int", 3, (tc_arg[]){tc_arg_tensor(*out), last, tc_arg_sym(zero)}, out));
  for (int32_t i = 0; i < n; i++) {
    const tc_sym *size = like->sizes[order[i]];
    if (filled[i] == size) continue;
    tc_arg slice[] = {tc_arg_tensor(*out), tc_arg_sym(tc_sym_int(c, i)), tc_arg_sym(zero), tc_arg_sym(size),
                      tc_arg_sym(one)};
    TC_TRY(call(b, "aten::slice.Tensor", 5, slice, out));
  }
  return call(b, "aten::permute", 2, (tc_arg[]){tc_arg_tensor(*out), tc_arg_syms(back, n)}, out);
}

const tc_pass *const *tc_standard_passes(int32_t *out_n) {
  static const tc_pass *const all[] = {&tc_pass_functionalize, &tc_pass_storage, &tc_pass_decompose, &tc_pass_views,
                                       &tc_pass_conj,          &tc_pass_fold,    &tc_pass_patterns,  &tc_pass_weights,
                                       &tc_pass_cse,           &tc_pass_dce};
  *out_n = sizeof all / sizeof *all;
  return all;
}
