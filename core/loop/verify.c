// What every later stage takes for granted about loop IR, checked node by node in order. Errors name the node.
//
// Bounds are checked as far as ranges tell: an index that lies outside for every point of a domain that has points is
// an error; what cannot be decided is left to the lowering's care and to the kernel interpreter.
#include "core/loop/lo.h"

typedef struct checker {
  const tc_loops *l;
  const tc_lnode *n;
  bool *made; // by buffer id
  bool *gone; // by buffer id: written over
} checker;

static tc_status bad(const checker *c, const char *fmt, ...) TC_PRINTF(2, 3);
static tc_status bad(const checker *c, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  tc_status s = tc_errorv(TC_STATUS_INVALID_ARGUMENT, fmt, args);
  va_end(args);
  if (!c->n) return s;
  tc_sv name = c->n->n_outs > 0 && c->n->outs[0] ? c->n->outs[0]->name : c->n->name;
  return tc_status_note(s, "in the loop node %%" TC_SV_FMT, TC_SV_ARG(name));
}

// Only size symbols and the given variables may occur.
static tc_status check_expr(const checker *c, const tc_sym *e, int32_t n, const tc_sym *const *vars, const char *what) {
  if (!e) return bad(c, "%s is missing", what);
  if (e->kind == TC_SYM_SYMBOL) {
    int32_t origin = tc_sym_info_of(c->l->syms, e)->origin;
    if (origin == TC_SYM_BACKED || origin == TC_SYM_UNBACKED) return TC_OK;
    for (int32_t i = 0; i < n; i++) {
      if (vars[i] == e) return TC_OK;
    }
    return bad(c, "%s uses the variable " TC_SV_FMT ", which is not the node's", what, TC_SV_ARG(e->name));
  }
  for (int32_t i = 0; i < e->n; i++) TC_TRY(check_expr(c, e->kids[i], n, vars, what));
  return TC_OK;
}

static tc_status check_sizes(const checker *c, int32_t rank, const tc_sym *const *sizes, const char *what) {
  for (int32_t d = 0; d < rank; d++) {
    TC_TRY(check_expr(c, sizes[d], 0, NULL, what));
    int64_t lo, hi;
    tc_sym_range(c->l->syms, sizes[d], &lo, &hi);
    if (hi < 0) return bad(c, "%s is negative", what);
  }
  return TC_OK;
}

static tc_status check_buf(const checker *c, const tc_buf *b, int32_t id) {
  if (b->id != id) return bad(c, "%%" TC_SV_FMT " has the number %d at place %d", TC_SV_ARG(b->name), b->id, id);
  if (b->dtype <= TC_DTYPE_NONE || b->dtype >= TC_DTYPE_COUNT)
    return bad(c, "%%" TC_SV_FMT " has no dtype", TC_SV_ARG(b->name));
  if (b->rank < 0 || b->rank > TC_MAX_RANK) return bad(c, "%%" TC_SV_FMT " has rank %d", TC_SV_ARG(b->name), b->rank);
  TC_TRY(check_sizes(c, b->rank, b->sizes, "a size"), "of %%" TC_SV_FMT, TC_SV_ARG(b->name));
  for (int32_t d = 0; d < b->rank; d++) {
    if (b->strides) TC_TRY(check_expr(c, b->strides[d], 0, NULL, "a stride"), "of %%" TC_SV_FMT, TC_SV_ARG(b->name));
    if (b->prefer) TC_TRY(check_expr(c, b->prefer[d], 0, NULL, "a stride"), "of %%" TC_SV_FMT, TC_SV_ARG(b->name));
  }
  if (b->planar && (!tc_dtype_is_complex(b->dtype) || b->kind != TC_BUF_INTERNAL || b->output >= 0 || b->inplace ||
                    b->placed || b->overwritten))
    return bad(c, "%%" TC_SV_FMT " cannot have its parts in planes", TC_SV_ARG(b->name));
  TC_TRY(check_expr(c, b->offset, 0, NULL, "the offset"), "of %%" TC_SV_FMT, TC_SV_ARG(b->name));
  if (b->kind == TC_BUF_INPUT) {
    if (b->def) return bad(c, "the input %%" TC_SV_FMT " is defined by a node", TC_SV_ARG(b->name));
    if (b->input < 0 || !b->strides)
      return bad(c, "the input %%" TC_SV_FMT " has no number or no strides", TC_SV_ARG(b->name));
  } else if (b->inplace) {
    const tc_buf *old = b->inplace;
    bool same = old->rank == b->rank && old->dtype == b->dtype && b->strides && old->strides &&
                tc_sym_eq(c->l->syms, b->offset, old->offset) && tc_buf_storage(b)->kind == TC_BUF_INPUT;
    for (int32_t d = 0; same && d < b->rank; d++)
      same = tc_sym_eq(c->l->syms, b->sizes[d], old->sizes[d]) && tc_sym_eq(c->l->syms, b->strides[d], old->strides[d]);
    if (!same || !old->overwritten)
      return bad(c, "%%" TC_SV_FMT " cannot be in place of %%" TC_SV_FMT, TC_SV_ARG(b->name), TC_SV_ARG(old->name));
  } else if (!tc_sym_is_int(b->offset, 0)) {
    return bad(c, "%%" TC_SV_FMT " has an offset, but is no input", TC_SV_ARG(b->name));
  }
  return TC_OK;
}

static tc_status check_read(const checker *c, const tc_buf *b) {
  if (!b || b->id < 0 || b->id >= c->l->bufs.count || c->l->bufs.data[b->id] != b)
    return bad(c, "a buffer is read that is not the module's");
  if (!c->made[b->id]) return bad(c, "%%" TC_SV_FMT " is read before it is made", TC_SV_ARG(b->name));
  if (c->gone[b->id]) return bad(c, "%%" TC_SV_FMT " is read after it was written over", TC_SV_ARG(b->name));
  return TC_OK;
}

// Is there surely a point?
static bool has_points(const checker *c) {
  for (int32_t d = 0; d < c->n->n_par + c->n->n_red; d++) {
    int64_t lo, hi;
    tc_sym_range(c->l->syms, c->n->extents[d], &lo, &hi);
    if (lo < 1) return false;
  }
  return true;
}

static tc_status check_load(const checker *c, const tc_body *body, int32_t i) {
  const tc_binst *b = &body->insts.data[i];
  const tc_lnode *n = c->n;
  TC_TRY(check_read(c, b->buf));
  if (b->dtype != b->buf->dtype)
    return bad(c, "value %d is %s, loaded from %%" TC_SV_FMT ", which is %s", i, tc_dtype_name(b->dtype),
               TC_SV_ARG(b->buf->name), tc_dtype_name(b->buf->dtype));
  bool points = has_points(c) && !b->cond;
  for (int32_t d = 0; d < b->buf->rank; d++) {
    TC_TRY(check_expr(c, b->index[d], n->n_par + n->n_red, n->vars, "an index"));
    if (b->gather && b->gather[d] >= 0) {
      bool known = b->gather[d] < i && body->insts.data[b->gather[d]].dtype == TC_I64;
      if (!known || !tc_sym_is_int(b->index[d], 0))
        return bad(c, "dimension %d of the load of %%" TC_SV_FMT " is gathered by no i64 value that comes before", d,
                   TC_SV_ARG(b->buf->name));
      continue;
    }
    int64_t lo, hi, size_lo, size_hi;
    tc_sym_range(c->l->syms, b->index[d], &lo, &hi);
    tc_sym_range(c->l->syms, b->buf->sizes[d], &size_lo, &size_hi);
    if (points && (hi < 0 || (size_hi != TC_SYM_INF && lo >= size_hi)))
      return bad(c, "index %d of the load of %%" TC_SV_FMT " is out of bounds", d, TC_SV_ARG(b->buf->name));
  }
  if (!b->cond) return b->n_args == 0 ? TC_OK : bad(c, "a load without condition has another value");
  TC_TRY(check_expr(c, b->cond, n->n_par + n->n_red, n->vars, "a condition"));
  if (b->n_args != 1 || b->args[0] < 0 || b->args[0] >= i || body->insts.data[b->args[0]].dtype != b->dtype)
    return bad(c, "the other value of the load of %%" TC_SV_FMT " must be a %s that comes before",
               TC_SV_ARG(b->buf->name), tc_dtype_name(b->dtype));
  return TC_OK;
}

static tc_status check_check(const checker *c, const tc_body *body, int32_t i) {
  const tc_binst *b = &body->insts.data[i];
  bool known = b->n_args == 2 && b->args[0] >= 0 && b->args[0] < i && b->args[1] >= 0 && b->args[1] < i;
  if (!known || body->insts.data[b->args[0]].dtype != TC_BOOL || body->insts.data[b->args[1]].dtype != b->dtype)
    return bad(c, "'check' takes a bool and a %s that come before", tc_dtype_name(b->dtype));
  return TC_OK;
}

static tc_status check_inst(const checker *c, const tc_body *body, int32_t i) {
  const tc_binst *b = &body->insts.data[i];
  if (b->dtype <= TC_DTYPE_NONE || b->dtype >= TC_DTYPE_COUNT) return bad(c, "value %d has no dtype", i);
  if (b->op == TC_B_LOAD) return check_load(c, body, i);
  if (b->op == TC_B_INDEX) {
    if (tc_dtype_class(b->dtype) != 'i') return bad(c, "value %d is an index of type %s", i, tc_dtype_name(b->dtype));
    return check_expr(c, b->expr, c->n->n_par + c->n->n_red, c->n->vars, "an index value");
  }
  if (b->op == TC_B_CHECK) return check_check(c, body, i);
  if (b->op < 0 || b->op > TC_B_CHECK || tc_k_op_class(b->op) == 's' || b->op == TC_K_BLOCK || b->op == TC_K_LANE ||
      b->op == TC_K_SCALAR)
    return bad(c, "value %d has no opcode of loop bodies", i);
  if (b->op == TC_K_CONST) return b->n_args == 0 ? TC_OK : bad(c, "a constant has operands");
  static const int8_t arity[] = {
#define X(name, text, n, cls) [TC_K_##name] = n,
      TC_KOP_LIST(X)
#undef X
  };
  if (b->n_args != arity[b->op])
    return bad(c, "'%s' takes %d operands, not %d", tc_k_op_text(b->op), arity[b->op], b->n_args);
  tc_dtype types[3];
  for (int32_t k = 0; k < b->n_args; k++) {
    if (b->args[k] < 0 || b->args[k] >= i)
      return bad(c, "value %d uses value %d, which does not come before", i, b->args[k]);
    types[k] = body->insts.data[b->args[k]].dtype;
  }
  if (b->op == TC_K_CAST) return TC_OK;
  if (b->op == TC_K_BITCAST)
    return tc_dtype_size(types[0]) == tc_dtype_size(b->dtype) ? TC_OK
                                                              : bad(c, "'bitcast' between types of different sizes");
  tc_dtype want = tc_body_op_type(b->op, b->n_args, types);
  if (want == TC_DTYPE_NONE || (b->op == TC_K_SELECT && types[0] != TC_BOOL))
    return bad(c, "the operands of '%s' do not go together", tc_k_op_text(b->op));
  if (want != b->dtype)
    return bad(c, "'%s' gives %s, not %s", tc_k_op_text(b->op), tc_dtype_name(want), tc_dtype_name(b->dtype));
  return TC_OK;
}

static bool is_value(const tc_body *b, int32_t v, tc_dtype d) {
  return v >= 0 && v < b->insts.count && b->insts.data[v].dtype == d;
}

static tc_status check_store(const checker *c) {
  const tc_lnode *n = c->n;
  for (int32_t d = 0; d < n->outs[0]->rank; d++) {
    TC_TRY(check_expr(c, n->store[d], n->n_par, n->vars, "the index of a store"));
    if (n->store_gather && n->store_gather[d] >= 0 && !is_value(&n->body, n->store_gather[d], TC_I64))
      return bad(c, "dimension %d of the store is no i64 value", d);
  }
  if (n->store_if >= 0 && !is_value(&n->body, n->store_if, TC_BOOL)) return bad(c, "the store's condition is no bool");
  return TC_OK;
}

static tc_status check_body(const checker *c) {
  const tc_body *body = &c->n->body;
  for (int32_t i = 0; i < body->insts.count; i++) TC_TRY(check_inst(c, body, i));
  if (c->n->store) TC_TRY(check_store(c));
  if (body->n_results != 1) return bad(c, "the body yields %d values", body->n_results);
  if (body->results[0] < 0 || body->results[0] >= body->insts.count)
    return bad(c, "the body yields no value of its own");
  tc_dtype d = body->insts.data[body->results[0]].dtype, out = c->n->outs[0]->dtype;
  if (c->n->kind == TC_LN_POINTWISE && d != out)
    return bad(c, "the body yields %s, the result is %s", tc_dtype_name(d), tc_dtype_name(out));
  return TC_OK;
}

static tc_status check_domain(const checker *c) {
  const tc_lnode *n = c->n;
  if (n->n_par < 0 || n->n_red < 0 || n->n_par > TC_MAX_RANK || n->n_red > TC_MAX_RANK)
    return bad(c, "%d parallel and %d reduced variables", n->n_par, n->n_red);
  if ((n->kind != TC_LN_REDUCE && n->n_red) || n->n_outs < 1 || (n->n_outs > 2 && n->kind != TC_LN_CALL))
    return bad(c, "the node has %d reduced variables and %d results", n->n_red, n->n_outs);
  bool second = n->kind == TC_LN_CALL || (n->kind == TC_LN_REDUCE && n->reduce >= TC_RED_ARGMAX);
  if (n->n_outs == 2 && !second) return bad(c, "the node has two results");
  if (n->store && (n->kind != TC_LN_POINTWISE || !n->outs[0] || !n->outs[0]->inplace))
    return bad(c, "the node writes at an index, but into no buffer in place");
  if (n->kind == TC_LN_REDUCE && !tc_reduce_text(n->reduce)) return bad(c, "no reduction has the number %d", n->reduce);
  TC_TRY(check_sizes(c, n->n_par + n->n_red, n->extents, "an extent"));
  for (int32_t i = 0; i < n->n_par + n->n_red; i++) {
    bool variable = n->vars[i]->kind == TC_SYM_SYMBOL && tc_sym_info_of(c->l->syms, n->vars[i])->origin == TC_SYM_LOOP;
    for (int32_t k = 0; k < i; k++) variable &= n->vars[k] != n->vars[i];
    if (!variable) return bad(c, "variable %d is no loop variable of its own", i);
  }
  for (int32_t i = 0; i < n->n_outs; i++) {
    const tc_buf *b = n->outs[i];
    if (!b || b->def != n || b->def_result != i || b->kind != TC_BUF_INTERNAL)
      return bad(c, "result %d is not a buffer of this node", i);
    if (b->id < 0 || b->id >= c->l->bufs.count || c->l->bufs.data[b->id] != b)
      return bad(c, "result %d is not a buffer of the module", i);
    if (n->kind == TC_LN_CALL || n->store) continue;
    if (b->rank != n->n_par) return bad(c, "the result has rank %d, the domain %d", b->rank, n->n_par);
    for (int32_t d = 0; d < b->rank; d++) {
      if (!tc_sym_eq(c->l->syms, b->sizes[d], n->extents[d]))
        return bad(c, "size %d of the result is not the extent of the domain", d);
    }
  }
  return TC_OK;
}

static tc_status check_operands(const checker *c) {
  const tc_lnode *n = c->n;
  for (int32_t i = 0; i < n->n_operands; i++) {
    const tc_lview *v = &n->operands[i];
    TC_TRY(check_read(c, v->buf));
    if (v->rank < 0 || v->rank > TC_MAX_RANK) return bad(c, "operand %d has rank %d", i, v->rank);
    TC_TRY(check_sizes(c, v->rank, v->sizes, "a size of an operand"));
    for (int32_t d = 0; d < v->buf->rank; d++) TC_TRY(check_expr(c, v->map[d], v->rank, v->index, "an operand's map"));
  }
  for (int32_t i = 0; i < n->n_attrs; i++) TC_TRY(check_expr(c, n->attrs[i], 0, NULL, "an attribute"));
  if (n->kind == TC_LN_TEMPLATE && !n->tmpl) return bad(c, "the node has no template");
  if (n->kind == TC_LN_CALL && !n->node) return bad(c, "the call has no op");
  return TC_OK;
}

static tc_status check_outputs(const checker *c) {
  for (int32_t i = 0; i < c->l->outputs.count; i++) {
    const tc_loop_output *o = &c->l->outputs.data[i];
    if (!tc_output_kind_text(o->kind)) return bad(c, "output %d is of no kind", i);
    if (!o->buf) continue;
    TC_TRY(check_read(c, o->buf), "as output %d", i);
    const tc_tensor_type *t = &o->type;
    if (t->rank < 0 || t->rank > TC_MAX_RANK || t->dtype != o->buf->dtype)
      return bad(c, "output %d is %s, its buffer %s", i, tc_dtype_name(t->dtype), tc_dtype_name(o->buf->dtype));
    TC_TRY(check_sizes(c, t->rank, t->sizes, "a size of an output"));
    for (int32_t d = 0; d < t->rank; d++) TC_TRY(check_expr(c, t->strides[d], 0, NULL, "a stride of an output"));
    TC_TRY(check_expr(c, t->offset, 0, NULL, "an output's offset"));
    if (o->buf->output >= c->l->outputs.count)
      return bad(c, "%%" TC_SV_FMT " is output %d of %d", TC_SV_ARG(o->buf->name), o->buf->output, c->l->outputs.count);
  }
  return TC_OK;
}

tc_status tc_loops_verify(const tc_loops *l) {
  checker c = {.l = l, .made = TC_NEW_ARRAY(l->arena, bool, l->bufs.count)};
  c.gone = TC_NEW_ARRAY(l->arena, bool, l->bufs.count);
  for (int32_t i = 0; i < l->bufs.count; i++) {
    TC_TRY(check_buf(&c, l->bufs.data[i], i));
    c.made[i] = l->bufs.data[i]->kind == TC_BUF_INPUT;
  }
  for (int32_t i = 0; i < l->nodes.count; i++) {
    c.n = l->nodes.data[i];
    if (c.n->kind < TC_LN_POINTWISE || c.n->kind > TC_LN_CALL)
      return bad(&c, "no kind of node has the number %d", c.n->kind);
    TC_TRY(check_domain(&c));
    if (c.n->kind == TC_LN_POINTWISE || c.n->kind == TC_LN_REDUCE) TC_TRY(check_body(&c));
    else TC_TRY(check_operands(&c));
    for (int32_t k = 0; k < c.n->n_outs; k++) {
      if (c.made[c.n->outs[k]->id]) return bad(&c, "result %d is made twice", k);
      c.made[c.n->outs[k]->id] = true;
      if (c.n->outs[k]->inplace) c.gone[c.n->outs[k]->inplace->id] = true;
    }
  }
  c.n = NULL;
  return check_outputs(&c);
}
