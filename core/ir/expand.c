// Decompositions: tc_ex_* of tc/lower.h (moment EXPAND), and one entry for both forms, text and C.
#include "core/ir/expand.h"

#include "core/ir/internal.h"

enum { MAX_DEPTH = 32 }; // decompositions in decompositions, when only types are wanted

typedef struct tc_expansion {
  tc_build build;
  TC_VEC(tc_arg) values; // by tc_gv
  tc_build around;       // while a region is being built: what is built around it
  tc_sv op;              // being called
  TC_VEC(tc_arg) args;
  tc_gv *results;
} tc_expansion;

static tc_expansion *expansion(tc_op_args *a) {
  if (a->expansion) return a->expansion;
  tc_op_fail(a, "a function that builds graph ops was called when none are built");
  return NULL;
}

static tc_gv add_value(tc_op_args *a, tc_arg g) {
  tc_vec_push(a->arena, &a->expansion->values, g);
  return a->expansion->values.count - 1;
}

static tc_arg value_of(tc_op_args *a, tc_gv v) {
  tc_expansion *x = a->expansion;
  return v >= 0 && v < x->values.count ? x->values.data[v] : tc_arg_none();
}

tc_gv tc_ex_arg(tc_op_args *a, int32_t arg) {
  if (!expansion(a) || arg < 0 || arg >= a->n_args || a->args[arg].kind == TC_AK_NONE) return -1;
  return add_value(a, a->args[arg]);
}

tc_gv tc_ex_arg_at(tc_op_args *a, int32_t arg, int32_t k) {
  if (!expansion(a) || arg < 0 || arg >= a->n_args || k < 0) return -1;
  const tc_arg *g = &a->args[arg];
  if (g->kind == TC_AK_TENSORS) return k < g->n && g->values[k] ? add_value(a, tc_arg_tensor(g->values[k])) : -1;
  return k == 0 ? tc_ex_arg(a, arg) : -1;
}

const tc_tensor_type *tc_ex_type(tc_op_args *a, tc_gv v) {
  if (!expansion(a)) return NULL;
  tc_arg g = value_of(a, v);
  if (g.kind == TC_AK_TENSOR) return &g.value->type;
  if (tc_arg_number_dtype(&g) == TC_DTYPE_NONE) return NULL;
  tc_tensor_type *t = TC_NEW(a->arena, tc_tensor_type);
  *t = (tc_tensor_type){.dtype = tc_arg_number_dtype(&g), .wrapped = 1, .offset = tc_sym_int(a->syms, 0)};
  t->sizes = t->strides = TC_NEW_ARRAY(a->arena, tc_int, 0);
  return t;
}

void tc_ex_begin(tc_op_args *a, const char *op) {
  tc_expansion *x = expansion(a);
  if (x) x->op = tc_sv_of(op), x->args.count = 0;
}

static void push(tc_op_args *a, tc_arg g) {
  tc_expansion *x = expansion(a);
  if (x) tc_vec_push(a->arena, &x->args, g);
}

void tc_ex_push(tc_op_args *a, tc_gv v) {
  if (expansion(a)) push(a, value_of(a, v));
}

void tc_ex_push_list(tc_op_args *a, int32_t n, const tc_gv *v) {
  if (!expansion(a)) return;
  tc_value **list = TC_NEW_ARRAY(a->arena, tc_value *, n);
  for (int32_t i = 0; i < n; i++) {
    tc_arg g = value_of(a, v[i]);
    if (g.kind != TC_AK_TENSOR && g.kind != TC_AK_NONE)
      tc_op_fail(a, "decomposition: element %d of a list of tensors is %s", i, tc_arg_kind_name(g.kind));
    else list[i] = g.value;
  }
  push(a, tc_arg_tensors(list, n));
}

void tc_ex_push_int(tc_op_args *a, tc_int v) { push(a, tc_arg_sym(v)); }
void tc_ex_push_float(tc_op_args *a, double v) { push(a, tc_arg_float(v)); }
void tc_ex_push_bool(tc_op_args *a, int32_t v) { push(a, tc_arg_bool(v != 0)); }
void tc_ex_push_dtype(tc_op_args *a, tc_dtype d) { push(a, tc_arg_dtype(d)); }
void tc_ex_push_string(tc_op_args *a, tc_sv s) { push(a, tc_arg_string(tc_sv_copy(a->arena, s))); }
void tc_ex_push_none(tc_op_args *a) { push(a, tc_arg_none()); }

void tc_ex_push_ints(tc_op_args *a, int32_t n, const tc_int *v) {
  tc_int *own = TC_NEW_ARRAY(a->arena, tc_int, n);
  for (int32_t i = 0; i < n; i++) own[i] = v[i];
  push(a, tc_arg_syms(own, n));
}

void tc_ex_push_arg(tc_op_args *a, int32_t arg) {
  if (arg < 0 || arg >= a->n_args) tc_op_fail(a, "decomposition: there is no argument %d", arg);
  else push(a, a->args[arg]);
}

void tc_ex_push_graph(tc_op_args *a, tc_graph *g) { push(a, tc_arg_graph(g)); }

tc_graph *tc_ex_begin_region(tc_op_args *a, const char *name) {
  tc_expansion *x = expansion(a);
  if (!x || x->around.graph) return NULL;
  x->around = x->build;
  x->build.graph = tc_graph_create(a->module, tc_sv_of(name)), x->build.before = NULL;
  return x->build.graph;
}

tc_gv tc_ex_region_input(tc_op_args *a, const char *name, const tc_tensor_type *like, int32_t skip) {
  tc_expansion *x = expansion(a);
  if (!x || !x->around.graph || !like || like->rank < skip) return -1;
  tc_tensor_type t = {.dtype = like->dtype,
                      .rank = like->rank - skip,
                      .sizes = like->sizes + skip,
                      .strides = tc_row_major(a->module, like->rank - skip, like->sizes + skip),
                      .offset = tc_sym_int(a->syms, 0)};
  return add_value(
      a, tc_arg_tensor(tc_graph_add_input(x->build.graph, TC_IN_OPERAND, tc_sv_of(name), tc_sv_of(name), &t)));
}

void tc_ex_end_region(tc_op_args *a, int32_t n_outputs, const tc_gv *outputs) {
  tc_expansion *x = expansion(a);
  if (!x || !x->around.graph) return;
  for (int32_t i = 0; i < n_outputs; i++)
    tc_graph_add_output(x->build.graph, TC_OUT_USER, value_of(a, outputs[i]), (tc_sv){"", 0});
  x->build = x->around, x->around = (tc_build){0};
}

// A random node was made: the next one draws other numbers.
static void next_stream(tc_build *b, const tc_arg *made) {
  const tc_value *v = made->kind == TC_AK_TENSORS ? (made->n ? made->values[0] : NULL) : made->value;
  if (b->streams > 1 && v && v->def && v->def->stream == b->stream) b->stream++, b->streams--;
}

tc_gv tc_ex_make(tc_op_args *a, int32_t n_results, tc_gv *results) {
  tc_expansion *x = expansion(a);
  for (int32_t i = 0; i < n_results && results; i++) results[i] = -1;
  if (!x || tc_failed(&a->failure)) return -1;
  tc_arg out;
  tc_status s = tc_build_call(&x->build, x->op, x->args.count, x->args.data, NULL, &out);
  x->args.count = 0;
  if (s) {
    tc_op_keep(a, s);
    return -1;
  }
  next_stream(&x->build, &out);
  if (out.kind != TC_AK_TENSORS) {
    tc_gv v = out.kind == TC_AK_NONE ? -1 : add_value(a, out);
    if (n_results > 0 && results) results[0] = v;
    return v;
  }
  tc_gv first = -1;
  for (int32_t i = 0; i < out.n; i++) {
    tc_gv v = out.values[i] ? add_value(a, tc_arg_tensor(out.values[i])) : -1;
    if (i == 0) first = v;
    if (i < n_results && results) results[i] = v;
  }
  return first;
}

void tc_ex_result(tc_op_args *a, int32_t result, tc_gv v) {
  tc_expansion *x = expansion(a);
  if (!x) return;
  if (result < 0 || result > 65536) {
    tc_op_fail(a, "decomposition: there is no result %d", result);
    return;
  }
  if (result >= a->n_results) {
    tc_gv *more = TC_NEW_ARRAY(a->arena, tc_gv, result + 1);
    for (int32_t i = 0; i <= result; i++) more[i] = i < a->n_results ? x->results[i] : -1;
    x->results = more;
    tc_op_set_result_count(a, result + 1);
  }
  x->results[result] = v;
}

// ---- both forms ----
static const tc_op *base_of(const tc_op *op) { return op->functional ? op->functional : op; }
tc_build tc_build_for(const tc_node *n, tc_graph *g, tc_node *before) {
  return (tc_build){
      .graph = g, .before = before, .source = n->source, .stream = n->stream, .streams = tc_node_streams(n)};
}

bool tc_op_can_expand(const tc_op *op) { return base_of(op)->decompose.n_results > 0 || op->def->expand != NULL; }

static tc_status expand_text(const tc_build *b, const tc_op *op, const tc_ex_program *text, int32_t n_args,
                             const tc_arg *args, int32_t *out_n, tc_arg **out) {
  tc_arena *arena = b->graph->module->arena;
  tc_build_name *names = TC_NEW_ARRAY(arena, tc_build_name, n_args);
  int32_t n = 0, total = 0;
  for (; n < n_args && n < op->schema.n_args; n++) names[n] = (tc_build_name){op->schema.args[n].name, args[n]};
  tc_arg *results;
  int32_t n_results;
  TC_TRY(tc_build_text(b, op->schema.ns, text, n, names, &n_results, &results));
  for (int32_t i = 0; i < n_results; i++) total += results[i].kind == TC_AK_TENSORS ? results[i].n : 1;
  tc_arg *flat = TC_NEW_ARRAY(arena, tc_arg, total);
  total = 0;
  for (int32_t i = 0; i < n_results; i++) {
    if (results[i].kind != TC_AK_TENSORS) flat[total++] = results[i];
    else
      for (int32_t k = 0; k < results[i].n; k++) flat[total++] = tc_arg_tensor(results[i].values[k]);
  }
  *out_n = total, *out = flat;
  return TC_OK;
}

static tc_status expand_code(const tc_build *b, const tc_op *op, int32_t n_args, const tc_arg *args, int32_t *out_n,
                             tc_arg **out) {
  tc_arena *arena = b->graph->module->arena;
  tc_expansion x = {.build = *b};
  tc_op_args a;
  tc_op_args_init(&a, TC_MOMENT_EXPAND, b->graph->module, b->graph, op, n_args, args, b->source);
  a.expansion = &x;
  x.results = TC_NEW_ARRAY(arena, tc_gv, a.n_results);
  for (int32_t i = 0; i < a.n_results; i++) x.results[i] = -1;
  int32_t code = op->def->expand(&a);
  if (code != TC_STATUS_OK && !tc_failed(&a.failure))
    tc_op_keep(&a, tc_error(code, TC_SV_FMT ": its decomposition failed without a reason", TC_SV_ARG(op->full_name)));
  TC_TRY(tc_op_finish(&a));
  *out_n = a.n_results;
  *out = TC_NEW_ARRAY(arena, tc_arg, a.n_results);
  for (int32_t i = 0; i < a.n_results; i++) (*out)[i] = value_of(&a, x.results[i]);
  return TC_OK;
}

tc_status tc_expand_op(const tc_build *b, const tc_op *op, int32_t n_args, const tc_arg *args, int32_t *out_n,
                       tc_arg **out) {
  if (base_of(op)->decompose.n_results) return expand_text(b, op, &base_of(op)->decompose, n_args, args, out_n, out);
  if (op->def->expand) return expand_code(b, op, n_args, args, out_n, out);
  return tc_error(TC_STATUS_UNIMPLEMENTED, TC_SV_FMT " has no decomposition", TC_SV_ARG(op->full_name));
}

tc_status tc_expand_forward(const tc_build *b, const tc_op *op, int32_t n_args, const tc_arg *args, int32_t *out_n,
                            tc_arg **out) {
  return expand_text(b, op, &op->forward, n_args, args, out_n, out);
}

// ---- calls that are refused ----
void tc_op_check_limits(tc_op_args *a, const tc_op *op) {
  if (!op->limits) return;
  tc_build b = {.graph = a->graph ? a->graph : tc_graph_create(a->module, TC_SV("scratch"))};
  for (const tc_op_limit *l = op->limits; l && !tc_failed(&a->failure); l = l->next) {
    int32_t n;
    tc_arg *out;
    tc_status s = expand_text(&b, op, &l->when, a->n_args, a->args, &n, &out);
    if (s == TC_OK && out[0].kind == TC_AK_INT && tc_sym_is_int(out[0].sym, 1)) tc_op_fail(a, "%s", l->text);
    tc_status_free(s);
  }
}

// ---- types only ----
static tc_value *stand_in(tc_graph *g, tc_value *v) {
  return v ? tc_graph_add_input(g, TC_IN_OPERAND, v->name, (tc_sv){0}, &v->type) : NULL;
}

// Describes result i by a value of the scratch graph, whose inputs stand for the tensors in `args`: a view of one of
// them, or a tensor of its own.
static void describe(tc_op_args *a, int32_t i, tc_value *v, const tc_arg *args) {
  const tc_tensor_type *t = &v->type;
  if (tc_op_set_result(a, i, t->dtype, t->rank, t->sizes, t->strides)) return;
  tc_op_result *r = &a->results[i];
  r->type.conj = t->conj;
  for (tc_value *base; (base = tc_value_base(v));) v = base;
  for (int32_t k = 0; k < a->n_args; k++) {
    int32_t n = args[k].kind == TC_AK_TENSORS ? args[k].n : args[k].kind == TC_AK_TENSOR;
    for (int32_t item = 0; item < n; item++)
      if (v == (args[k].kind == TC_AK_TENSORS ? args[k].values[item] : args[k].value) && tc_op_tensor_at(a, k, item))
        r->view_arg = k, r->view_item = item, r->type.offset = t->offset;
  }
}

tc_status tc_expand_meta(tc_op_args *a, const tc_op *op) {
  int32_t depth = a->graph ? a->graph->scratch + 1 : 1;
  if (depth > MAX_DEPTH)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT ": its decomposition does not end",
                    TC_SV_ARG(a->called->full_name));
  tc_graph *g = tc_graph_create(a->module, TC_SV("scratch"));
  g->scratch = depth;
  tc_arg *args = TC_NEW_ARRAY(a->arena, tc_arg, a->n_args);
  for (int32_t i = 0; i < a->n_args; i++) {
    args[i] = a->args[i];
    if (args[i].kind == TC_AK_TENSOR) args[i].value = stand_in(g, args[i].value);
    if (args[i].kind != TC_AK_TENSORS) continue;
    args[i].values = TC_NEW_ARRAY(a->arena, tc_value *, args[i].n);
    for (int32_t k = 0; k < args[i].n; k++) args[i].values[k] = stand_in(g, a->args[i].values[k]);
  }
  int32_t n;
  tc_arg *out;
  TC_TRY(tc_expand_op(&(tc_build){.graph = g}, op, a->n_args, args, &n, &out),
         "in " TC_SV_FMT ", which is made of other ops", TC_SV_ARG(a->called->full_name));
  tc_op_set_result_count(a, n);
  for (int32_t i = 0; i < n; i++) {
    if (out[i].kind == TC_AK_NONE) {
      tc_op_absent_result(a, i);
    } else if (out[i].kind == TC_AK_TENSOR) {
      describe(a, i, out[i].value, args);
    } else {
      int32_t last = op->schema.n_returns - 1, k = i < last ? i : last;
      if (k >= 0 && op->schema.returns[k].type == TC_ST_TENSOR) { // an argument that is returned as it is
        tc_op_fail(a, "expected a tensor, not a number");
        return TC_OK;
      }
      tc_op_set_result(a, i, tc_arg_number_dtype(&out[i]), 0, NULL, NULL);
    }
  }
  return TC_OK;
}
