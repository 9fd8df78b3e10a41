// Joint graphs: the functional forward graph is walked backwards; each node's derivative text is evaluated for the
// arguments that a wanted input reaches, and what flows into one value from several users is summed.
#include "core/autograd/internal.h"
#include "core/ir/control.h"
#include "core/ir/opargs.h"
#include "core/passes/passes.h"

typedef struct joint {
  tc_graph *g;
  const tc_node *end; // of what is differentiated; NULL: of the graph
  tc_build b;
  tc_map *reached; // values that depend on a wanted input
  tc_map *grads;   // value → its gradient so far (tc_value *)
  TC_VEC(tc_node *) nodes;
  TC_VEC(const tc_op *) used;
} joint;

bool tc_differentiable(const tc_tensor_type *t) {
  char c = tc_dtype_class(t->dtype);
  return c == 'f' || c == 'c';
}

static bool is_reached(const joint *j, const tc_value *v) {
  return v && v->kind == TC_VALUE_TENSOR && tc_map_find_ptr(j->reached, v) != NULL;
}

typedef struct any_reached {
  const joint *j;
  bool found;
} any_reached;
static void look(void *arg, tc_value **v) {
  any_reached *a = arg;
  a->found |= is_reached(a->j, *v);
}

static bool reads_reached(const joint *j, tc_node *n) {
  any_reached a = {j, false};
  tc_node_each_value(n, look, &a);
  return a.found;
}

// ---- forward: what depends on a wanted value, through which ops ----
static bool gives_differentiable(const tc_node *n) {
  for (int32_t i = 0; i < n->n_results; i++)
    if (n->results[i]->kind == TC_VALUE_TENSOR && tc_differentiable(&n->results[i]->type)) return true;
  return false;
}

static void want(joint *j, const tc_value *v) {
  if (v && v->kind == TC_VALUE_TENSOR && tc_differentiable(&v->type)) tc_map_put_ptr(j->reached, v, NULL);
}

// Wanted are inputs of the graph, or what the request at the end names.
static void mark(joint *j, const bool *wanted, int32_t n_wanted) {
  j->reached = tc_map_create(j->g->module->arena);
  for (int32_t i = 0; i < n_wanted; i++)
    if (wanted[i]) want(j, j->g->inputs.data[i].value);
  for (int32_t i = 0; j->end && i < j->end->args[TC_GRAD_INPUTS].n; i++)
    want(j, j->end->args[TC_GRAD_INPUTS].values[i]);
  for (tc_node *n = j->g->first; n && n != j->end; n = n->next) {
    if (n->dead || !reads_reached(j, n) || tc_node_is(n, "detach")) continue;
    for (int32_t i = 0; i < n->n_results; i++) want(j, n->results[i]);
  }
}

static bool gives_reached(const joint *j, const tc_node *n) {
  bool any = false;
  for (int32_t i = 0; i < n->n_results; i++) any |= is_reached(j, n->results[i]);
  return any;
}

// Kept whole: what has a derivative, what no gradient flows through, and what lies behind the end.
static bool stays(void *self, const tc_node *n) {
  const joint *j = self;
  if (j->end && !gives_reached(j, n)) return true;
  if (!reads_reached(j, (tc_node *)(uintptr_t)n) || !gives_differentiable(n)) return true;
  return n->op->grad.n_results && !n->op->forward.n_results;
}

// Decomposing uncovers new nodes, which are marked in the next round.
static tc_status prepare(joint *j, const bool *wanted, int32_t n_wanted) {
  enum { MAX_ROUNDS = 32 };
  bool progress = true;
  for (int32_t round = 0; progress && round < MAX_ROUNDS; round++) {
    mark(j, wanted, n_wanted);
    TC_TRY(tc_decompose(j->g, stays, j, true, &progress));
    tc_graph_sweep(j->g);
  }
  mark(j, wanted, n_wanted);
  return TC_OK;
}

// ---- backward ----
static tc_status call(const joint *j, const char *op, int32_t n, const tc_arg *args, tc_value **out) {
  tc_arg r;
  TC_TRY(tc_build_call(&j->b, tc_sv_of(op), n, args, NULL, &r));
  *out = r.value;
  return TC_OK;
}

// The sizes that broadcasting expanded are summed over, so that the gradient has its value's sizes.
static tc_status reduce_to(const joint *j, tc_value *grad, const tc_tensor_type *t, tc_value **out) {
  tc_module *m = j->g->module;
  const tc_sym *dims[TC_MAX_RANK];
  int32_t n = 0, lead = grad->type.rank - t->rank;
  *out = grad;
  // An operand without elements may be left out of the result, and have another rank (cat).
  if (tc_sym_is_int(tc_type_numel(m, t), 0)) {
    tc_arg args[] = {tc_arg_syms(t->sizes, t->rank), tc_arg_dtype(grad->type.dtype)};
    tc_arg made;
    TC_TRY(tc_build_call(&j->b, TC_SV("aten::zeros"), 2, args, (tc_sv[]){{0}, TC_SV("dtype")}, &made));
    *out = made.value;
    return TC_OK;
  }
  if (lead < 0)
    return tc_error(TC_STATUS_INTERNAL, "a gradient of rank %d for a value of rank %d", grad->type.rank, t->rank);
  for (int32_t d = 0; d < lead; d++) dims[n++] = tc_sym_int(m->syms, d);
  for (int32_t d = 0; d < t->rank; d++) {
    if (tc_sym_is_int(t->sizes[d], 1) && !tc_sym_is_int(grad->type.sizes[d + lead], 1))
      dims[n++] = tc_sym_int(m->syms, d + lead);
  }
  if (n) {
    const tc_sym **list = tc_arena_copy(m->arena, dims, sizeof *dims * (size_t)n);
    tc_arg args[] = {tc_arg_tensor(grad), tc_arg_syms(list, n), tc_arg_bool(true)};
    TC_TRY(call(j, "aten::sum.dim_IntList", 3, args, out));
  }
  if (lead) {
    tc_arg args[] = {tc_arg_tensor(*out), tc_arg_syms(t->sizes, t->rank)};
    TC_TRY(call(j, "aten::reshape", 2, args, out));
  }
  return TC_OK;
}

// The gradient as its value has it: sizes, realness, dtype.
static tc_status fit(const joint *j, tc_value *grad, const tc_tensor_type *t, tc_value **out) {
  TC_TRY(reduce_to(j, grad, t, &grad));
  if (tc_dtype_is_complex(grad->type.dtype) && !tc_dtype_is_complex(t->dtype)) {
    tc_arg args[] = {tc_arg_tensor(grad)};
    TC_TRY(call(j, "aten::real", 1, args, &grad));
  }
  if (grad->type.dtype != t->dtype) {
    tc_arg args[] = {tc_arg_tensor(grad), tc_arg_dtype(t->dtype)};
    TC_TRY(call(j, "aten::to.dtype", 2, args, &grad));
  }
  *out = grad;
  return TC_OK;
}

static tc_status accumulate(joint *j, tc_value *v, tc_value *grad) {
  TC_TRY(fit(j, grad, &v->type, &grad));
  bool fresh;
  tc_map_entry *e = tc_map_put_ptr(j->grads, v, &fresh);
  if (!fresh) {
    tc_arg args[] = {tc_arg_tensor(e->value.ptr), tc_arg_tensor(grad)};
    TC_TRY(call(j, "aten::add.Tensor", 2, args, &grad));
  }
  e->value.ptr = grad;
  return TC_OK;
}

static tc_value *grad_of(const joint *j, const tc_value *v) {
  const tc_map_entry *e = tc_map_find_ptr(j->grads, v);
  return e ? e->value.ptr : NULL;
}

// What a derivative's text can name: the arguments; grad, grad1, … and flows, flows1, …: does anything flow back from
// that result (if not, its grad is zero); result, result1, …; grads for lists of results.
static tc_build_name *names_of(const joint *j, const tc_node *n, const bool *flows, int32_t *out_n) {
  tc_arena *arena = j->g->module->arena;
  const tc_schema *s = &n->op->schema;
  tc_build_name *names = TC_NEW_ARRAY(arena, tc_build_name, s->n_args + 3 * n->n_results + 2);
  int32_t k = 0;
  for (int32_t i = 0; i < n->n_args && i < s->n_args; i++) names[k++] = (tc_build_name){s->args[i].name, n->args[i]};
  tc_value **grads = TC_NEW_ARRAY(arena, tc_value *, n->n_results + 1);
  for (int32_t i = 0; i < n->n_results; i++) {
    tc_value *v = n->results[i];
    grads[i] = grad_of(j, v);
    tc_arg grad = grads[i] ? tc_arg_tensor(grads[i]) : tc_arg_none();
    tc_arg result = v->kind == TC_VALUE_TENSOR ? tc_arg_tensor(v) : tc_arg_none();
    names[k++] = (tc_build_name){i ? tc_sv_printf(arena, "grad%d", i) : TC_SV("grad"), grad};
    names[k++] = (tc_build_name){i ? tc_sv_printf(arena, "result%d", i) : TC_SV("result"), result};
    names[k++] = (tc_build_name){i ? tc_sv_printf(arena, "flows%d", i) : TC_SV("flows"), tc_arg_bool(flows[i])};
  }
  names[k++] = (tc_build_name){TC_SV("grads"), tc_arg_tensors(grads, n->n_results)};
  *out_n = k;
  return names;
}

// Where an op has several results, those that nothing flows back from have zeros.
static tc_status fill_grads(const joint *j, const tc_node *n) {
  for (int32_t i = 0; i < n->n_results; i++) {
    tc_value *v = n->results[i], *zero;
    if (v->kind != TC_VALUE_TENSOR || !tc_differentiable(&v->type) || grad_of(j, v)) continue;
    tc_arg args[] = {tc_arg_tensor(v)};
    TC_TRY(call(j, "aten::zeros_like", 1, args, &zero));
    tc_map_put_ptr(j->grads, v, NULL)->value.ptr = zero;
  }
  return TC_OK;
}

static int32_t argument_of(const tc_schema *s, tc_sv name) {
  for (int32_t i = 0; i < s->n_args; i++)
    if (tc_sv_eq(s->args[i].name, name)) return i;
  return -1;
}

static bool wants(const joint *j, const tc_arg *a) {
  if (a->kind == TC_AK_TENSOR) return is_reached(j, a->value);
  bool any = false;
  for (int32_t i = 0; a->kind == TC_AK_TENSORS && i < a->n; i++) any |= is_reached(j, a->values[i]);
  return any;
}

static tc_status take_gradients(joint *j, tc_node *n, int32_t arg, const tc_arg *made) {
  const tc_arg *a = &n->args[arg];
  if (made->kind == TC_AK_NONE) return TC_OK;
  if (a->kind == TC_AK_TENSOR && made->kind == TC_AK_TENSOR) return accumulate(j, a->value, made->value);
  if (a->kind != TC_AK_TENSORS || made->kind != TC_AK_TENSORS || made->n < a->n)
    return tc_error(TC_STATUS_INTERNAL, "the derivative of argument %d is not what the argument is", arg);
  for (int32_t i = 0; i < a->n; i++)
    if (is_reached(j, a->values[i]) && made->values[i]) TC_TRY(accumulate(j, a->values[i], made->values[i]));
  return TC_OK;
}

static tc_status differentiate_control(joint *j, tc_node *n) {
  tc_arena *arena = j->g->module->arena;
  tc_control c;
  TC_TRY(tc_control_read(arena, n->op, n->n_args, n->args, &c));
  tc_value **cotangents = TC_NEW_ARRAY(arena, tc_value *, n->n_results + 1),
           **gradients = TC_NEW_ARRAY(arena, tc_value *, c.n_operands + 1);
  bool *wanted = TC_NEW_ARRAY(arena, bool, c.n_operands + 1);
  for (int32_t i = 0; i < n->n_results; i++) cotangents[i] = grad_of(j, n->results[i]);
  for (int32_t i = 0; i < c.n_operands; i++) wanted[i] = is_reached(j, c.operands[i]);
  TC_TRY(tc_autograd_control(j->g, n, &c, cotangents, wanted, gradients));
  for (int32_t i = 0; i < c.n_operands; i++)
    if (gradients[i] && wanted[i]) TC_TRY(accumulate(j, c.operands[i], gradients[i]));
  return TC_OK;
}

static tc_status differentiate(joint *j, tc_node *n) {
  const tc_op *op = n->op;
  bool any = false, *flows = TC_NEW_ARRAY(j->g->module->arena, bool, n->n_results + 1);
  for (int32_t i = 0; i < n->n_results; i++) any |= flows[i] = grad_of(j, n->results[i]) != NULL;
  if (!any || !reads_reached(j, n)) return TC_OK;
  bool control = tc_autograd_has_control(op);
  if (op->grad.n_results == 0 && !control)
    return tc_error(TC_STATUS_UNIMPLEMENTED, TC_SV_FMT " has no derivative", TC_SV_ARG(op->full_name));
  j->b.source = n->source;
  if (n->n_results > 1) TC_TRY(fill_grads(j, n));
  if (control) return differentiate_control(j, n);
  int32_t n_names, count;
  tc_build_name *names = names_of(j, n, flows, &n_names);
  tc_ex_program part = op->grad; // only what is wanted is built
  const tc_ex **kept = TC_NEW_ARRAY(j->g->module->arena, const tc_ex *, op->grad.n_results);
  int32_t *to = TC_NEW_ARRAY(j->g->module->arena, int32_t, op->grad.n_results);
  part.results = kept, part.n_results = 0;
  for (int32_t i = 0; i < op->grad.n_results; i++) {
    int32_t arg = argument_of(&op->schema, op->grad_labels[i]);
    if (arg < 0 || arg >= n->n_args || !wants(j, &n->args[arg])) continue;
    to[part.n_results] = arg;
    kept[part.n_results++] = op->grad.results[i];
  }
  if (part.n_results == 0) return TC_OK;
  tc_vec_push(j->g->module->arena, &j->used, op);
  tc_arg *made;
  TC_TRY(tc_build_text(&j->b, op->schema.ns, &part, n_names, names, &count, &made));
  for (int32_t i = 0; i < count; i++) TC_TRY(take_gradients(j, n, to[i], &made[i]));
  return TC_OK;
}

static tc_status add_cotangents(joint *j, tc_joint *out) {
  tc_module *m = j->g->module;
  int32_t leaf = 0, n = j->g->outputs.count;
  out->cotangents = TC_NEW_ARRAY(m->arena, int32_t, n + 1);
  for (int32_t i = 0; i < n; i++) {
    const tc_graph_output *o = &j->g->outputs.data[i];
    if (o->kind != TC_OUT_USER) continue;
    int32_t k = leaf++;
    tc_value *v = o->arg.kind == TC_AK_TENSOR ? o->arg.value : NULL;
    out->cotangents[k] = -1;
    if (!is_reached(j, v)) continue;
    tc_tensor_type t = {.dtype = v->type.dtype,
                        .rank = v->type.rank,
                        .sizes = v->type.sizes,
                        .strides = tc_row_major(m, v->type.rank, v->type.sizes),
                        .offset = tc_sym_int(m->syms, 0)};
    tc_sv name = tc_sv_printf(m->arena, "ct_%d", k);
    out->cotangents[k] = j->g->inputs.count;
    out->n_cotangents++;
    TC_TRY(accumulate(j, v, tc_graph_add_input(j->g, TC_IN_USER, name, name, &t)));
  }
  return TC_OK;
}

// The loss's cotangent is 1.
static tc_status add_loss(joint *j, const bool *wanted, int32_t n_inputs, tc_joint *out) {
  tc_value *loss = NULL;
  for (int32_t i = 0; i < n_inputs; i++) {
    const tc_value *v = j->g->inputs.data[i].value;
    if (wanted[i] && !(v && v->kind == TC_VALUE_TENSOR && tc_differentiable(&v->type)))
      return tc_error(TC_STATUS_INVALID_ARGUMENT, "the gradient of input %d is wanted, which is no tensor of floats",
                      i);
  }
  out->cotangents = TC_NEW_ARRAY(j->g->module->arena, int32_t, j->g->outputs.count + 1);
  for (int32_t i = 0, k = 0; i < j->g->outputs.count; i++) {
    const tc_graph_output *o = &j->g->outputs.data[i];
    if (o->kind != TC_OUT_USER) continue;
    if (k == 0 && o->arg.kind == TC_AK_TENSOR) loss = o->arg.value;
    out->cotangents[k++] = -1;
  }
  if (!loss || !tc_dtype_is_float(loss->type.dtype) || !tc_sym_is_int(tc_type_numel(j->g->module, &loss->type), 1))
    return tc_error(TC_STATUS_INVALID_ARGUMENT,
                    "gradients are those of a loss: the first output has to be a real tensor of one element");
  if (!is_reached(j, loss)) return TC_OK;
  tc_value *one;
  tc_arg args[] = {tc_arg_tensor(loss)};
  TC_TRY(call(j, "aten::ones_like", 1, args, &one));
  return accumulate(j, loss, one);
}

static tc_status add_gradients(joint *j, const bool *wanted, int32_t n, bool zeros, tc_joint *out) {
  tc_module *m = j->g->module;
  out->gradients = TC_NEW_ARRAY(m->arena, int32_t, n + 1);
  for (int32_t i = 0; i < n; i++) {
    tc_value *v = j->g->inputs.data[i].value, *grad = v ? grad_of(j, v) : NULL;
    out->gradients[i] = -1;
    if (!grad && wanted[i] && zeros) {
      tc_arg args[] = {tc_arg_tensor(v)};
      TC_TRY(call(j, "aten::zeros_like", 1, args, &grad));
    }
    if (!grad || !wanted[i]) continue;
    out->gradients[i] = j->g->outputs.count;
    tc_graph_add_output(j->g, TC_OUT_USER, tc_arg_tensor(grad),
                        tc_sv_printf(m->arena, "grad." TC_SV_FMT, TC_SV_ARG(j->g->inputs.data[i].target)));
  }
  return TC_OK;
}

// Functional, with what gradients know of put in the place of its parts.
static tc_status tidy(tc_graph *g) {
  bool progress;
  TC_TRY(tc_pass_functionalize.run(g, &progress));
  // A softmax that spares rows of -inf differs from its parts at them. (No pass here may take a detach away.)
  static const tc_pass *const early[] = {&tc_pass_cse, &tc_pass_dce, &tc_pass_patterns};
  return tc_run_passes(g, early, sizeof early / sizeof *early, 2, NULL);
}

// Back over the nodes, behind which the gradients' are added.
static tc_status go_back(joint *j) {
  for (int32_t i = j->nodes.count - 1; i >= 0; i--) {
    tc_node *n = j->nodes.data[i];
    tc_status s = n->dead ? TC_OK : differentiate(j, n);
    if (s == TC_OK) continue;
    s = tc_status_note(s, "while differentiating %%" TC_SV_FMT " = " TC_SV_FMT,
                       TC_SV_ARG(n->n_results ? n->results[0]->name : n->name), TC_SV_ARG(n->op->full_name));
    return n->source.size ? tc_status_note(s, "at " TC_SV_FMT, TC_SV_ARG(n->source)) : s;
  }
  return TC_OK;
}

// The dimensions from the slowest on; false where they do not make up the tensor row by row.
static bool slowest_first(tc_module *m, const tc_tensor_type *t, int32_t *order) {
  const tc_sym *sizes[TC_MAX_RANK], *strides[TC_MAX_RANK];
  for (int32_t d = 0; d < t->rank; d++) {
    int32_t k = d;
    if (!tc_sym_is_const(t->strides[d]) && t->rank > 1) return false;
    for (; k > 0 && t->strides[order[k - 1]]->value < t->strides[d]->value; k--) order[k] = order[k - 1];
    order[k] = d;
  }
  for (int32_t d = 0; d < t->rank; d++) sizes[d] = t->sizes[order[d]], strides[d] = t->strides[order[d]];
  return tc_strides_contiguous(m->syms, t->rank, sizes, strides);
}

// `op` of these sizes and strides.
static tc_status filled(tc_graph *g, tc_node *before, const char *op, const tc_tensor_type *t, const int32_t *order,
                        tc_value **out) {
  tc_module *m = g->module;
  tc_build b = {.graph = g, .before = before, .source = before->source};
  const tc_sym **sizes = TC_NEW_ARRAY(m->arena, const tc_sym *, t->rank + 1),
               **back = TC_NEW_ARRAY(m->arena, const tc_sym *, t->rank + 1);
  bool sorted = true;
  for (int32_t d = 0; d < t->rank; d++) {
    sizes[d] = t->sizes[order[d]], back[order[d]] = tc_sym_int(m->syms, d);
    sorted &= order[d] == d;
  }
  tc_arg args[] = {tc_arg_syms(sizes, t->rank), tc_arg_dtype(t->dtype)}, made;
  TC_TRY(tc_build_call(&b, tc_sv_of(op), 2, args, (tc_sv[]){{0}, TC_SV("dtype")}, &made));
  tc_arg turn[] = {made, tc_arg_syms(back, t->rank)};
  if (!sorted) TC_TRY(tc_build_call(&b, TC_SV("aten::permute"), 2, turn, NULL, &made));
  *out = made.value;
  return TC_OK;
}

static bool same_strides(const tc_value *a, const tc_value *b) {
  bool same = true;
  for (int32_t d = 0; d < a->type.rank && same; d++) same = a->type.strides[d] == b->type.strides[d];
  return same;
}

// The strides given, which differ where a size is 1, for all of a value's elements: what reads the value was made for
// them. The same value where sizes are not known, or there are no elements.
static tc_status with_strides(tc_graph *g, tc_node *before, tc_value *v, const tc_tensor_type *t, tc_value **out) {
  tc_module *m = g->module;
  tc_build b = {.graph = g, .before = before, .source = before->source};
  int64_t last = 0, count = 1;
  *out = v;
  for (int32_t d = 0; d < t->rank; d++) {
    if (!tc_sym_is_const(t->sizes[d]) || !tc_sym_is_const(t->strides[d])) return TC_OK;
    last += (t->sizes[d]->value - 1) * t->strides[d]->value, count *= t->sizes[d]->value;
  }
  if (last >= count || count == 0) return TC_OK;
  tc_arg made, args[] = {tc_arg_tensor(v), tc_arg_syms(t->sizes, t->rank), tc_arg_syms(t->strides, t->rank),
                         tc_arg_sym(tc_sym_int(m->syms, 0))};
  TC_TRY(tc_build_call(&b, TC_SV("aten::as_strided"), 4, args, NULL, &made));
  *out = made.value;
  return TC_OK;
}

// Zeros and ones read nothing of what they are like: its memory need not be kept for them.
static tc_status forget_likes(tc_graph *g) {
  static const char *const ops[][2] = {{"zeros_like", "aten::zeros"}, {"ones_like", "aten::ones"}};
  for (tc_node *n = g->first; n; n = n->next) {
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++) {
      int32_t order[TC_MAX_RANK];
      tc_value *made;
      if (n->dead || !tc_node_is(n, ops[k][0]) || !slowest_first(g->module, &n->results[0]->type, order)) continue;
      TC_TRY(filled(g, n, ops[k][1], &n->results[0]->type, order, &made));
      if (!same_strides(n->results[0], made)) TC_TRY(with_strides(g, n, made, &n->results[0]->type, &made));
      if (!same_strides(n->results[0], made)) continue;
      tc_graph_forward(n->results[0], made);
      tc_node_kill(n);
    }
  }
  return TC_OK;
}

static tc_status build(tc_graph *forward, const bool *wanted, bool loss, tc_joint *out) {
  tc_module *m = forward->module;
  joint j = {.g = tc_graph_clone(forward, tc_sv_printf(m->arena, TC_SV_FMT ".joint", TC_SV_ARG(forward->name)))};
  j.grads = tc_map_create(m->arena);
  *out = (tc_joint){.graph = j.g};
  int32_t n_inputs = j.g->inputs.count;
  TC_TRY(tc_autograd_requests(j.g));
  TC_TRY(tidy(j.g));
  TC_TRY(prepare(&j, wanted, n_inputs));
  j.b.graph = j.g, j.b.derivative = true;
  for (tc_node *n = j.g->first; n; n = n->next) tc_vec_push(m->arena, &j.nodes, n);
  TC_TRY(loss ? add_loss(&j, wanted, n_inputs, out) : add_cotangents(&j, out));
  TC_TRY(go_back(&j));
  out->n_ops = j.used.count, out->ops = j.used.data;
  TC_TRY(add_gradients(&j, wanted, n_inputs, loss, out));
  TC_TRY(forget_likes(j.g));
  tc_graph_sweep(j.g);
  return TC_OK;
}

tc_status tc_autograd_joint(tc_graph *g, const bool *wanted, tc_joint *out) { return build(g, wanted, false, out); }
tc_status tc_autograd_loss(tc_graph *g, const bool *wanted, tc_joint *out) { return build(g, wanted, true, out); }

// ---- gradients that the graph itself asks for ----
static tc_node *first_request(const tc_graph *g) {
  tc_node *n = g->first;
  while (n && (n->dead || !tc_op_is_grad(n->op))) n = n->next;
  return n;
}

// The outputs' cotangents: those given, or 1.
static tc_status start_back(joint *j, const tc_arg *outputs, const tc_arg *cotangents) {
  for (int32_t i = 0; i < outputs->n; i++) {
    tc_value *y = outputs->values[i], *ct = i < cotangents->n ? cotangents->values[i] : NULL;
    tc_arg args[] = {tc_arg_tensor(y)};
    if (!is_reached(j, y)) continue;
    if (!ct) TC_TRY(call(j, "aten::ones_like", 1, args, &ct));
    TC_TRY(accumulate(j, y, ct));
  }
  return TC_OK;
}

// What is not reached has zeros. In the layout that was said of the request's results.
static tc_status give_back(const joint *j, tc_node *request) {
  const tc_arg *inputs = &request->args[TC_GRAD_INPUTS];
  for (int32_t i = 0; i < inputs->n; i++) {
    tc_value *v = inputs->values[i], *grad = grad_of(j, v);
    tc_arg args[] = {tc_arg_tensor(v)};
    if (!grad) TC_TRY(call(j, "aten::zeros_like", 1, args, &grad));
    TC_TRY(tc_match_layout(&j->b, grad, &request->results[i]->type, &grad));
    tc_graph_forward(request->results[i], grad);
  }
  return TC_OK;
}

static tc_status answer(tc_graph *g, tc_node *request) {
  joint j = {.g = g, .end = request, .b = {.graph = g, .derivative = true}, .grads = tc_map_create(g->module->arena)};
  TC_TRY(prepare(&j, NULL, 0));
  for (tc_node *n = g->first; n != request; n = n->next) tc_vec_push(g->module->arena, &j.nodes, n);
  // What is added goes behind the last node: the request and all that follows are set aside meanwhile.
  tc_node *last = g->last;
  g->last = request->prev;
  if (g->last) g->last->next = NULL;
  else g->first = NULL;
  tc_status s = start_back(&j, &request->args[TC_GRAD_OUTPUTS], &request->args[TC_GRAD_COTANGENTS]);
  if (s == TC_OK) s = go_back(&j);
  j.b.source = request->source;
  if (s == TC_OK) s = give_back(&j, request);
  request->prev = g->last;
  if (g->last) g->last->next = request;
  else g->first = request;
  g->last = last;
  if (s != TC_OK) return s;
  tc_node_kill(request);
  tc_graph_sweep(g);
  return TC_OK;
}

tc_status tc_autograd_requests(tc_graph *g) {
  tc_node *n = first_request(g);
  if (!n) return TC_OK;
  TC_TRY(tidy(g));
  while ((n = first_request(g))) TC_TRY(answer(g, n));
  return TC_OK;
}
