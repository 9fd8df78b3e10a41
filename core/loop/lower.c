// Lowering: a functional graph → loop IR, node by node in order.
//
// Each tensor value is a view of a buffer. A node is lowered by the first of: a library call that is preferred to its
// row's `lower`, that `lower`, its `body` (pointwise), a library call. Outputs that are views of internal buffers whose
// strides differ from what the graph promises are copied by a pointwise node, which the scheduler fuses into the
// producer.
#include "core/ir/control.h"
#include "core/ir/opargs.h"
#include "core/loop/lo.h"

tc_lo *tc_lo_of(tc_op_args *a) { return a->state; }

const tc_lview *lo_value(tc_lo *lo, const tc_value *v) {
  tc_map_entry *e = tc_map_find_ptr(lo->values, v);
  if (!e) tc_lo_fail(lo, "%%" TC_SV_FMT " is used before it is lowered", TC_SV_ARG(v->name));
  return e ? e->value.ptr : NULL;
}

// Among integers a real number is truncated, among bools it says whether it is something.
static tc_bval number_const(tc_lo *lo, const tc_number *n, tc_dtype d) {
  return tc_body_const(lo, d, n->re, n->im, d == TC_BOOL ? n->re != 0 || n->im != 0 : n->i);
}

static tc_lt number_tensor(tc_op_args *a, const tc_number *n, tc_dtype d) {
  lo_begin(a, 0, NULL, NULL);
  tc_bval v = n->kind == TC_AK_INT && n->sym ? lo_index(a, n->sym, d) : number_const(tc_lo_of(a), n, d);
  return lo_end(a, v, d);
}

static tc_lt arg_view(tc_op_args *a, const tc_value *v) {
  tc_lo *lo = tc_lo_of(a);
  const tc_lview *view = v ? lo_value(lo, v) : NULL;
  return view ? tc_lo_add_view(lo, view) : -1;
}

// A float or a truth value from data is a tensor of no dimensions.
static bool is_number_view(const tc_arg *g) { return g->value && (g->kind == TC_AK_FLOAT || g->kind == TC_AK_BOOL); }

static tc_dtype number_value_type(const tc_value *v) {
  return v->kind == TC_VALUE_FLOAT ? TC_F64 : v->kind == TC_VALUE_BOOL ? TC_BOOL : TC_DTYPE_NONE;
}

// A tensor of no dimensions, which is what a number from data is to a program.
static tc_tensor_type number_type(tc_loops *l, const tc_value *v) {
  tc_tensor_type t = {.dtype = number_value_type(v), .offset = tc_sym_int(l->syms, 0)};
  t.sizes = t.strides = TC_NEW_ARRAY(l->arena, const tc_sym *, 1);
  return t;
}

tc_lt lo_arg(tc_op_args *a, int32_t arg) {
  tc_lo *lo = tc_lo_of(a);
  if (arg < 0 || arg >= lo->node->n_args) return -1;
  const tc_arg *g = &lo->node->args[arg];
  if (g->kind == TC_AK_TENSOR || is_number_view(g)) return arg_view(a, g->value);
  tc_number n;
  if (tc_op_number(a, arg, &n)) return number_tensor(a, &n, tc_op_tensor(a, arg)->dtype);
  return -1;
}

tc_lt lo_arg_at(tc_op_args *a, int32_t arg, int32_t k) {
  const tc_arg *g = &tc_lo_of(a)->node->args[arg];
  if (g->kind == TC_AK_TENSOR && k == 0) return lo_arg(a, arg);
  return g->kind == TC_AK_TENSORS && k >= 0 && k < g->n ? arg_view(a, g->values[k]) : -1;
}

static tc_dtype promoted_type(tc_op_args *a, const tc_op *op) {
  int32_t args[8], n = 0;
  for (int32_t i = 0; i < op->schema.n_args && n < 8; i++) {
    int32_t kind = tc_op_kind(a, i);
    bool number = op->schema.args[i].type == TC_ST_SCALAR || op->schema.args[i].type == TC_ST_TENSOR;
    if (number && kind != TC_AK_NONE && kind != TC_AK_TENSORS) args[n++] = i;
  }
  return tc_op_promote(a, n, args);
}

// The type in which a body computes: 16-bit floats compute in f32 and round once, at the end.
static tc_dtype compute_type(tc_op_args *a, const tc_op *op, tc_dtype result) {
  tc_dtype d = result;
  if (op->def->traits & TC_OP_COMPUTE_PROMOTED) {
    d = promoted_type(a, op);
    if ((op->def->traits & TC_OP_INT_TO_FLOAT) && !tc_dtype_is_float(d) && !tc_dtype_is_complex(d)) d = TC_F32;
  }
  if (op->def->traits & TC_OP_COMPUTE_WIDE) return tc_dtype_is_complex(d) ? TC_C128 : TC_F64;
  if (d == TC_F16 || d == TC_BF16) return TC_F32;
  if (d == TC_C32 || d == TC_BC32) return TC_C64;
  return d;
}

// A number in a body. Integers stay what they are until an operator wants them in the compute type. Where operands are
// promoted, a number is rounded to that type, as PyTorch rounds what is compared with 16-bit floats.
static tc_bval body_number(tc_op_args *a, const tc_number *n, tc_dtype compute, tc_dtype promoted) {
  char cls = tc_dtype_class(compute);
  tc_dtype d = cls == 'i' || cls == 'u' ? TC_I64 : compute;
  if (n->kind == TC_AK_INT && n->sym) return lo_index(a, n->sym, d);
  tc_number v = *n;
  tc_dtype part = tc_dtype_real(promoted);
  if (part == TC_F16) v.re = tc_f16_to_f32(tc_f64_to_f16(n->re)), v.im = tc_f16_to_f32(tc_f64_to_f16(n->im));
  if (part == TC_BF16) v.re = tc_bf16_to_f32(tc_f64_to_bf16(n->re)), v.im = tc_bf16_to_f32(tc_f64_to_bf16(n->im));
  return number_const(tc_lo_of(a), &v, d);
}

static void lower_pointwise(tc_op_args *a, const tc_node *n) {
  tc_lo *lo = tc_lo_of(a);
  const tc_op *op = n->op;
  const tc_tensor_type *t = tc_op_result_type(a, 0);
  tc_dtype compute = compute_type(a, op, t->dtype),
           promoted = op->def->traits & TC_OP_COMPUTE_PROMOTED ? promoted_type(a, op) : compute;
  int32_t n_args = op->schema.n_args;
  tc_lt views[TC_MAX_RANK];
  if (n_args > TC_MAX_RANK) {
    tc_lo_fail(lo, "a pointwise op has at most %d arguments", TC_MAX_RANK);
    return;
  }
  for (int32_t i = 0; i < n_args; i++) {
    bool tensor = n->args[i].kind == TC_AK_TENSOR || is_number_view(&n->args[i]);
    views[i] = tensor ? lo_expand(a, lo_arg(a, i), t->rank, t->sizes) : -1;
  }
  tc_int index[TC_MAX_RANK];
  lo_begin(a, t->rank, t->sizes, index);
  tc_scalar_name names[TC_MAX_RANK];
  for (int32_t i = 0; i < n_args; i++) {
    tc_number num;
    int32_t v = -1;
    if (views[i] >= 0) v = lo_load(a, views[i], index);
    if (views[i] >= 0 && n->args[i].kind == TC_AK_FLOAT) v = tc_body_cast(lo, tc_body_cast(lo, v, promoted), compute);
    if (views[i] >= 0) names[i] = (tc_scalar_name){op->schema.args[i].name, v};
    if (views[i] >= 0) continue;
    if (n->args[i].kind == TC_AK_BOOL) v = tc_body_const(lo, TC_BOOL, 0, 0, n->args[i].integer);
    else if (tc_op_number(a, i, &num)) v = body_number(a, &num, compute, promoted);
    names[i] = (tc_scalar_name){op->schema.args[i].name, v};
  }
  int32_t v = tc_body_text(lo, op->body.results[0], compute, &op->body, names, n_args);
  lo_result(a, 0, lo_end(a, v, t->dtype));
}

static const tc_sym *product(tc_loops *l, int32_t n, const tc_sym *const *v) {
  const tc_sym *p = tc_sym_int(l->syms, 1);
  for (int32_t i = 0; i < n; i++) p = tc_sym_mul(l->syms, p, v[i]);
  return p;
}

// Strides that cover the elements without holes, so that a buffer may have them.
static bool dense(tc_lo *lo, const tc_tensor_type *t) {
  return tc_strides_dense(lo->l->syms, t->rank, t->sizes, t->strides);
}

// ---- in place ----
bool tc_lview_is_whole(const tc_lview *v) {
  if (v->rank != v->buf->rank) return false;
  for (int32_t d = 0; d < v->rank; d++) {
    if (v->map[d] != v->index[d]) return false;
  }
  return true;
}

static bool is_written_back(const tc_graph *g, int32_t input) {
  const tc_graph_input *in = &g->inputs.data[input];
  for (int32_t i = 0; i < g->outputs.count; i++) {
    const tc_graph_output *o = &g->outputs.data[i];
    int32_t kind = o->kind == TC_OUT_BUFFER_MUTATION      ? TC_IN_BUFFER
                   : o->kind == TC_OUT_PARAMETER_MUTATION ? TC_IN_PARAMETER
                   : o->kind == TC_OUT_INPUT_MUTATION     ? TC_IN_USER
                                                          : -1;
    if (kind == in->kind && tc_sv_eq(o->target, in->target)) return true;
  }
  return false;
}

const tc_buf *lo_in_place_of(tc_lo *lo) {
  const tc_node *n = lo->node;
  if (!lo->l->graph || n->inplace < 0 || n->inplace >= n->n_args || n->args[n->inplace].kind != TC_AK_TENSOR)
    return NULL;
  const tc_value *v = n->args[n->inplace].value;
  tc_map_entry *e = tc_map_find_ptr(lo->values, v);
  const tc_lview *view = e ? e->value.ptr : NULL;
  if (!view || !tc_lview_is_whole(view) || v->type.conj) return NULL;
  const tc_buf *b = view->buf, *root = tc_buf_storage(b);
  bool last = root->kind == TC_BUF_INPUT && !b->overwritten && is_written_back(lo->l->graph, root->input);
  return last ? b : NULL;
}

void lo_take_storage(tc_buf *b, const tc_buf *old) {
  b->inplace = old, b->strides = old->strides, b->offset = old->offset;
  ((tc_buf *)old)->overwritten = true;
}

// A marked node that was lowered as usual: its result can still be made in the old place if one pointwise loop makes it
// that reads the old elements where it writes the new ones.
static void take_over(tc_lo *lo, const tc_lview *result) {
  const tc_buf *old = lo_in_place_of(lo);
  tc_buf *b = (tc_buf *)result->buf;
  tc_lnode *n = b->def;
  if (!old || !tc_lview_is_whole(result) || b->kind != TC_BUF_INTERNAL || b->inplace || b->strides || !n ||
      n->kind != TC_LN_POINTWISE || n->node != lo->node || b->rank != old->rank || b->dtype != old->dtype)
    return;
  for (int32_t d = 0; d < b->rank; d++)
    if (!tc_sym_eq(lo->l->syms, b->sizes[d], old->sizes[d])) return;
  for (int32_t i = 0; i < n->body.insts.count; i++) {
    const tc_binst *x = &n->body.insts.data[i];
    if (x->op != TC_B_LOAD || x->buf != old) continue;
    for (int32_t d = 0; d < b->rank; d++)
      if (x->index[d] != n->vars[d] || (x->gather && x->gather[d] >= 0)) return;
  }
  lo_take_storage(b, old);
}

// The strides and offset of a view in terms of its buffer's: false if it is not affine.
bool tc_lview_strides(tc_loops *l, const tc_lview *v, const tc_sym *const *buf_strides, const tc_sym **strides,
                      const tc_sym **offset) {
  const tc_sym *linear = v->buf->offset;
  for (int32_t d = 0; d < v->buf->rank; d++)
    linear = tc_sym_add(l->syms, linear, tc_sym_mul(l->syms, v->map[d], buf_strides[d]));
  for (int32_t d = 0; d < v->rank; d++) {
    const tc_sym *rest;
    if (!tc_sym_linear(l->syms, linear, v->index[d], &strides[d], &rest)) return false;
    linear = rest;
  }
  *offset = linear;
  return true;
}

// What a part of a buffer's index is of an index of the view: itself (factor 1), its remainder (1) or its quotient (the
// divisor). -1: something else.
static int32_t part_of(tc_sym_ctx *c, const tc_sym *map, int32_t n, const tc_sym *const *index,
                       const tc_sym **out_factor) {
  for (int32_t k = 0; k < n; k++) {
    bool split = (map->kind == TC_SYM_MOD || map->kind == TC_SYM_FLOORDIV) && map->kids[0] == index[k];
    if (map != index[k] && !split) continue;
    *out_factor = map->kind == TC_SYM_FLOORDIV ? map->kids[1] : tc_sym_int(c, 1);
    return k;
  }
  return -1;
}

// The strides with which a buffer has the wanted ones when seen through this view. NULL: the view is no permutation of
// its dimensions and of parts of them.
const tc_sym *const *lo_strides_behind(tc_loops *l, const tc_lview *v, const tc_sym *const *want) {
  const tc_sym **out = TC_NEW_ARRAY(l->arena, const tc_sym *, v->buf->rank), *factor, *strides[TC_MAX_RANK], *offset;
  if (!tc_sym_eq(l->syms, product(l, v->buf->rank, v->buf->sizes), product(l, v->rank, v->sizes))) return NULL;
  for (int32_t d = 0; d < v->buf->rank; d++) {
    int32_t k = part_of(l->syms, v->map[d], v->rank, v->index, &factor);
    if (k < 0) return NULL;
    out[d] = tc_sym_mul(l->syms, want[k], factor);
  }
  if (!tc_lview_strides(l, v, out, strides, &offset)) return NULL;
  for (int32_t d = 0; d < v->rank; d++)
    if (!tc_sym_eq(l->syms, strides[d], want[d]) && !tc_sym_is_int(v->sizes[d], 1)) return NULL;
  return out;
}

// What a template gives to the pointwise end of an op (a bias) lies as that does, should it go through memory.
static void prefer_alike(tc_lo *lo, const tc_buf *out) {
  const tc_lnode *n = out->def;
  if (n->kind != TC_LN_POINTWISE || !out->prefer || n->n_par != out->rank) return;
  for (int32_t i = 0; i < n->body.insts.count; i++) {
    const tc_binst *x = &n->body.insts.data[i];
    tc_buf *from = (tc_buf *)x->buf;
    if (x->op != TC_B_LOAD || x->gather || from->kind != TC_BUF_INTERNAL || from->prefer || !from->def ||
        from->def->kind != TC_LN_TEMPLATE || from->def->node != n->node)
      continue;
    tc_lview seen = {.buf = from, .rank = out->rank, .sizes = out->sizes, .index = n->vars, .map = x->index};
    from->prefer = lo_strides_behind(lo->l, &seen, out->prefer);
  }
}

static tc_status lower_node(tc_lo *lo, tc_node *n) {
  tc_arena *arena = lo->l->arena;
  lo->node = n;
  lo->open = false;
  lo->results = TC_NEW_ARRAY(arena, const tc_lview *, n->n_results);
  tc_op_args args;
  tc_op_args_init(&args, TC_MOMENT_LOWER, lo->l->module, n->graph, n->op, n->n_args, n->args, n->source);
  args.lower = &tc_lo_hooks;
  args.state = lo;
  args.n_results = n->n_results;
  args.results = TC_NEW_ARRAY(arena, tc_op_result, n->n_results);
  for (int32_t i = 0; i < n->n_results; i++) {
    args.results[i] =
        (tc_op_result){.set = true, .view_arg = -1, .type = n->results[i]->type, .symbol = n->results[i]->symbol};
  }
  const tc_op_def *def = n->op->def;
  bool asked = def->lower || lo->options->calls_only;
  bool call = asked && lo->options->call_preferred && lo->options->call_preferred(lo->options->self, n);
  if (tc_op_control(n->op) != TC_CONTROL_NONE) {
    TC_TRY(lo_control(lo, n));
  } else if (n->op->user && def->lower) {
    TC_TRY(lo_user(lo, n));
  } else if (call) {
    lo_call(&args);
  } else if (def->lower) {
    if (def->lower(&args) != TC_STATUS_OK && !tc_failed(&lo->failure))
      tc_failure_keep(&lo->failure, arena, tc_op_finish(&args));
  } else if (n->op->body.n_results) {
    lower_pointwise(&args, n);
  } else if (n->n_results > 0 && lo->options->call_supported && lo->options->call_supported(lo->options->self, n)) {
    lo_call(&args);
  } else if (n->n_results > 0) {
    return tc_error(TC_STATUS_UNIMPLEMENTED,
                    TC_SV_FMT " has no lowering (%%" TC_SV_FMT ")"
                              "\n  at " TC_SV_FMT,
                    TC_SV_ARG(n->op->full_name), TC_SV_ARG(n->name), TC_SV_ARG(n->source));
  }
  if (tc_failed(&lo->failure)) {
    return tc_status_note(tc_failure_take(&lo->failure), "while lowering %%" TC_SV_FMT " = " TC_SV_FMT,
                          TC_SV_ARG(n->name), TC_SV_ARG(n->op->full_name));
  }
  for (int32_t i = 0; i < n->n_results; i++) {
    if (!lo->results[i]) {
      if (n->results[i]->n_uses == 0) continue;
      return tc_error(TC_STATUS_INTERNAL, "the lowering of " TC_SV_FMT " gave no result %d",
                      TC_SV_ARG(n->op->full_name), i);
    }
    const tc_lview *v = lo->results[i];
    const tc_tensor_type *t = &n->results[i]->type;
    if (i == 0) take_over(lo, v);
    bool own = v->buf->kind == TC_BUF_INTERNAL && !v->buf->prefer && v->buf->dtype == t->dtype && v->buf->def &&
               v->buf->def->node == n;
    if (own && dense(lo, t)) {
      ((tc_buf *)v->buf)->prefer = lo_strides_behind(lo->l, v, t->strides);
      prefer_alike(lo, v->buf);
    }
    tc_map_put_ptr(lo->values, n->results[i], NULL)->value.ptr = (void *)v;
  }
  return TC_OK;
}

// What an input with the conj bit means: loads of it see the conjugates.
static const tc_lview *conjugated(tc_lo *lo, const tc_lview *v) {
  static const tc_node nameless = {.name = {"conj", 4}};
  lo->node = &nameless;
  tc_op_args args = {.state = lo};
  tc_lt src = tc_lo_add_view(lo, v);
  tc_int index[TC_MAX_RANK];
  lo_begin(&args, v->rank, v->sizes, index);
  tc_lt out = lo_end(&args, tc_body_op(lo, TC_K_CONJ, 1, (int32_t[]){lo_load(&args, src, index)}), v->buf->dtype);
  return out < 0 ? v : lo->views.data[out];
}

static void add_inputs(tc_lo *lo, const tc_graph *g) {
  for (int32_t i = 0; i < g->inputs.count; i++) {
    tc_value *v = g->inputs.data[i].value;
    if (!v || (v->kind != TC_VALUE_TENSOR && number_value_type(v) == TC_DTYPE_NONE)) continue;
    tc_tensor_type t = v->kind == TC_VALUE_TENSOR ? v->type : number_type(lo->l, v);
    tc_buf *b = tc_loops_buf(lo->l, v->name, t.dtype, t.rank, t.sizes);
    b->kind = TC_BUF_INPUT;
    b->input = i;
    b->strides = t.strides;
    if (t.offset) b->offset = t.offset;
    const tc_lview *whole = tc_lview_whole(lo->l, b);
    if (v->kind == TC_VALUE_TENSOR && v->type.conj) whole = conjugated(lo, whole);
    tc_map_put_ptr(lo->values, v, NULL)->value.ptr = (void *)whole;
  }
}

const tc_lview *lo_copy_out(tc_lo *lo, const tc_lview *v, const tc_tensor_type *t, tc_sv name) {
  static const tc_node nameless = {.name = {"out", 3}};
  lo->node = &nameless;
  tc_op_args args = {.state = lo};
  tc_lt src = tc_lo_add_view(lo, v);
  tc_int index[TC_MAX_RANK];
  lo_begin(&args, v->rank, v->sizes, index);
  tc_lt out = lo_end(&args, lo_load(&args, src, index), t->dtype);
  if (out < 0) return NULL;
  tc_buf *b = (tc_buf *)lo->views.data[out]->buf;
  b->name = name, b->strides = t->strides;
  return lo->views.data[out];
}

static tc_status add_outputs(tc_lo *lo, const tc_graph *g) {
  tc_loops *l = lo->l;
  for (int32_t i = 0; i < g->outputs.count; i++) {
    const tc_graph_output *o = &g->outputs.data[i];
    tc_loop_output out = {.kind = o->kind, .target = o->target, .number = o->arg};
    if (o->arg.value && number_value_type(o->arg.value) != TC_DTYPE_NONE) {
      tc_tensor_type t = number_type(l, o->arg.value);
      const tc_lview *v = lo_value(lo, o->arg.value);
      if (v) v = lo_copy_out(lo, v, &t, o->arg.value->name);
      if (!v) return tc_failure_take(&lo->failure);
      out.buf = v->buf, out.type = t;
      ((tc_buf *)v->buf)->output = i;
    }
    if (o->arg.kind == TC_AK_TENSOR && o->arg.value->kind == TC_VALUE_TENSOR) {
      const tc_tensor_type *const *region = lo->options->results, *t = region ? region[i] : &o->arg.value->type;
      if (!t) continue;
      const tc_lview *v = lo_value(lo, o->arg.value);
      if (!v) return tc_failure_take(&lo->failure);
      const tc_sym *strides[TC_MAX_RANK] = {0}, *offset = NULL;
      bool input = v->buf->kind == TC_BUF_INPUT;
      // Internal buffers get the output's strides if nobody decided yet; a second output of the same buffer is a view
      // of it.
      if (!input && !v->buf->strides) ((tc_buf *)v->buf)->strides = lo_strides_behind(l, v, t->strides);
      const tc_sym *const *have = v->buf->strides;
      bool fits = have && tc_lview_strides(l, v, have, strides, &offset);
      for (int32_t d = 0; fits && d < t->rank; d++)
        fits = tc_sym_eq(l->syms, strides[d], t->strides[d]) || tc_sym_is_int(t->sizes[d], 1);
      bool mutation = o->kind != TC_OUT_USER;
      bool whole = v->buf->output < 0 && lo_strides_behind(l, v, t->strides);
      if (!fits || (input && mutation) || (region && (input || !whole))) {
        v = lo_copy_out(lo, v, t, o->arg.value->name);
        if (!v) return tc_failure_take(&lo->failure);
        offset = tc_sym_int(l->syms, 0);
      }
      out.buf = v->buf;
      if (region) ((tc_buf *)v->buf)->placed = true;
      out.type = *t;
      if (v->buf->kind == TC_BUF_INTERNAL)
        out.type.conj = 0; // loops store logical values: nothing is left to conjugate
      out.type.offset = offset ? offset : tc_sym_int(l->syms, 0);
      if (v->buf->kind == TC_BUF_INTERNAL && v->buf->output < 0) ((tc_buf *)v->buf)->output = i;
    }
    tc_vec_push(l->arena, &l->outputs, out);
  }
  return TC_OK;
}

tc_status tc_lower_graph(const tc_graph *g, const tc_lower_options *o, tc_loops **out) {
  tc_module *m = g->module;
  tc_loops *l = TC_NEW(m->arena, tc_loops);
  l->module = m;
  l->graph = g;
  l->fixed_from = o->fixed_from;
  l->arena = m->arena;
  l->syms = m->syms;
  l->name = g->name;
  tc_lo lo = {.l = l, .options = o, .values = tc_map_create(m->arena)};
  add_inputs(&lo, g);
  for (tc_node *n = g->first; n; n = n->next) TC_TRY(lower_node(&lo, n));
  TC_TRY(add_outputs(&lo, g));
  l->values = lo.values;
  tc_loops_sweep(l);
  tc_loops_demand(l);
  tc_loops_zeros(l);
  tc_loops_turn(l);
  *out = l;
  return TC_OK;
}
