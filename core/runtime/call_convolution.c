// Convolutions with what follows them as one op over packed weights. See call_convolution.h.
#include "core/runtime/call_convolution.h"

#include "core/ir/expand.h"
#include "core/passes/passes.h"

enum { INPUT, WEIGHT, BIAS, STEP = 32, MOST_SPACE = 2 };

// What becomes one node: a convolution and what follows it; NULL: it does not.
typedef struct chain {
  tc_node *conv, *norm, *sum, *then, *last;
  tc_value *other;
  const char *name; // of the function
} chain;

static const tc_arg *arg_of(const tc_node *n, const char *name) {
  for (int32_t i = 0; i < n->n_args; i++)
    if (tc_sv_is(n->op->schema.args[i].name, name)) return &n->args[i];
  return NULL;
}

static bool is_int(const tc_arg *a, int64_t want) {
  return a && a->kind == TC_AK_INT && !a->value && tc_sym_is_int(a->sym, want);
}

static bool is_false(const tc_arg *a) { return !a || (a->kind == TC_AK_BOOL && !a->value && !a->integer); }

// ---- what follows ----
// The node that alone reads n's first result; NULL if there is none, or if something is written in between.
static tc_node *only_reader(const tc_node *n) {
  const tc_value *v = n->results[0];
  if (v->n_uses != 1) return NULL;
  for (int32_t i = 1; i < n->n_results; i++)
    if (n->results[i]->n_uses) return NULL;
  for (tc_node *k = n->next; k; k = k->next) {
    for (int32_t i = 0; i < k->n_args; i++)
      if (k->args[i].kind == TC_AK_TENSOR && k->args[i].value == v) return k->inplace >= 0 ? NULL : k;
    if (k->inplace >= 0 || tc_node_writes(k)) return NULL;
  }
  return NULL; // an output, or an element of a list
}

// By statistics that are given.
static bool is_norm_of(const tc_node *n, const tc_value *v) {
  bool known = tc_node_is(n, "batch_norm") || tc_node_is(n, "_native_batch_norm_legit_no_training");
  if (!known || n->args[INPUT].value != v || !is_false(arg_of(n, "training"))) return false;
  return arg_of(n, "running_mean")->kind == TC_AK_TENSOR && arg_of(n, "running_var")->kind == TC_AK_TENSOR;
}

// The other operand of a sum with v, or NULL.
static tc_value *addend(const tc_node *n, const tc_value *v) {
  if (!tc_node_is(n, "add") || n->n_args < 3 || n->args[0].kind != TC_AK_TENSOR || n->args[1].kind != TC_AK_TENSOR ||
      !(is_int(&n->args[2], 1) || (n->args[2].kind == TC_AK_FLOAT && n->args[2].real == 1)))
    return NULL;
  tc_value *other = n->args[n->args[0].value == v].value;
  return other != v && tc_type_same(n->graph->module, &other->type, &v->type) ? other : NULL;
}

static bool is_six(const tc_node *n) {
  const tc_arg *low = arg_of(n, "min_val"), *high = arg_of(n, "max_val");
  return low && high && (is_int(low, 0) || (low->kind == TC_AK_FLOAT && low->real == 0)) &&
         (is_int(high, 6) || (high->kind == TC_AK_FLOAT && high->real == 6));
}

static const char *function_of(const tc_node *n) {
  static const char *const names[] = {"relu", "relu6", "hardswish", "silu"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (tc_node_is(n, names[i])) return names[i];
  return tc_node_is(n, "hardtanh") && is_six(n) ? "relu6" : NULL;
}

static chain chain_of(tc_node *conv, bool sum) {
  chain c = {.conv = conv, .last = conv, .name = ""};
  tc_node *k = only_reader(conv);
  if (k && is_norm_of(k, c.last->results[0])) c.norm = c.last = k, k = only_reader(k);
  if (k && sum && (c.other = addend(k, c.last->results[0])) != NULL) c.sum = c.last = k, k = only_reader(k);
  const char *name = k ? function_of(k) : NULL;
  if (name) c.then = c.last = k, c.name = name;
  return c;
}

// ---- joining ----
// A convolution that the op can say: of floats, of known kernel and groups, not transposed, in one or two
// dimensions.
static bool is_plain(const tc_node *n) {
  if (!tc_node_is(n, "conv1d") && !tc_node_is(n, "conv2d") && !tc_node_is(n, "convolution")) return false;
  const tc_tensor_type *x = &n->args[INPUT].value->type, *w = &n->args[WEIGHT].value->type;
  const tc_arg *groups = arg_of(n, "groups"), *padding = arg_of(n, "padding");
  if (!tc_dtype_is_float(x->dtype) || x->dtype != w->dtype) return false; // the op has no other numbers
  if (!is_false(arg_of(n, "transposed")) || x->rank != w->rank || w->rank > 2 + MOST_SPACE) return false;
  if (!groups || groups->value || !tc_sym_is_const(groups->sym) || !padding || padding->kind != TC_AK_INTS)
    return false;
  for (int32_t d = 0; d < w->rank; d++)
    if (!tc_sym_is_const(w->sizes[d])) return false;
  return true;
}

// Do all channels of a row of the kernel fill the steps of a product better than its channels alone?
static bool by_rows(const tc_tensor_type *w) {
  int64_t in = w->sizes[1]->value, columns = w->sizes[w->rank - 1]->value;
  return columns * ((in + STEP - 1) / STEP) > (columns * in + STEP - 1) / STEP;
}

#define NORMED                                                                                                     \
  "let norm = rsqrt(_to_copy(var, dtype=f32) + eps);"                                                              \
  "let scale = if(is_none(gamma), norm, _to_copy(gamma, dtype=f32) * norm); let mean = _to_copy(mean, dtype=f32);" \
  "let centre = if(is_none(bias), neg(mean), _to_copy(bias, dtype=f32) - mean) * scale;"                           \
  "let shift = if(is_none(beta), centre, _to_copy(beta, dtype=f32) + centre);"
#define PLAIN "let scale = none; let shift = if(is_none(bias), none, _to_copy(bias, dtype=f32));"
#define JOINED                                                                                                      \
  "_convolution_packed(x, _pack_convolution(w, groups, rows), scale, shift, other, then, part(w.sizes, 2, w.rank)," \
  "stride, padding, dilation, groups, w.size(0))"

static tc_status build(const chain *c, tc_value **out) {
  tc_graph *g = c->conv->graph;
  const tc_node *n = c->conv, *b = c->norm;
  tc_build at = {.graph = g, .before = c->last, .source = c->last->source};
  tc_arg none = tc_arg_none(), rows = {.kind = TC_AK_BOOL, .integer = by_rows(&n->args[WEIGHT].value->type)};
  tc_build_name names[] = {{TC_SV("x"), n->args[INPUT]},
                           {TC_SV("w"), n->args[WEIGHT]},
                           {TC_SV("bias"), n->args[BIAS]},
                           {TC_SV("stride"), *arg_of(n, "stride")},
                           {TC_SV("padding"), *arg_of(n, "padding")},
                           {TC_SV("dilation"), *arg_of(n, "dilation")},
                           {TC_SV("groups"), *arg_of(n, "groups")},
                           {TC_SV("rows"), rows},
                           {TC_SV("other"), c->other ? tc_arg_tensor(c->other) : none},
                           {TC_SV("then"), tc_arg_string(tc_sv_of(c->name))},
                           {TC_SV("gamma"), b ? *arg_of(b, "weight") : none},
                           {TC_SV("beta"), b ? *arg_of(b, "bias") : none},
                           {TC_SV("mean"), b ? *arg_of(b, "running_mean") : none},
                           {TC_SV("var"), b ? *arg_of(b, "running_var") : none},
                           {TC_SV("eps"), b ? *arg_of(b, "eps") : none}};
  tc_ex_program program;
  tc_arg *made;
  int32_t count;
  TC_TRY(tc_ex_parse_program(g->module->arena, TC_SV("convolution"), tc_sv_of(b ? NORMED JOINED : PLAIN JOINED),
                             &program));
  TC_TRY(tc_build_text(&at, TC_SV("aten"), &program, (int32_t)(sizeof names / sizeof *names), names, &count, &made));
  *out = made[0].value;
  return TC_OK;
}

static void kill_between(tc_graph *g, tc_node *before, const tc_node *end) {
  for (tc_node *k = before ? before->next : g->first; k != end; k = k->next) tc_node_kill(k);
}

// Puts one node in the chain's place, if a library is taken for it.
static tc_status join(const tc_call_choice *choice, const chain *c, bool *out_joined) {
  tc_graph *g = c->conv->graph;
  tc_node *before = c->last->prev;
  tc_value *made, *result = c->last->results[0];
  *out_joined = false;
  TC_TRY(build(c, &made), "while joining %%" TC_SV_FMT, TC_SV_ARG(c->conv->results[0]->name));
  made->n_uses = result->n_uses;
  if (!tc_type_same(g->module, &made->type, &result->type) ||
      !tc_exec_call_preferred((void *)(uintptr_t)choice, made->def)) {
    kill_between(g, before, c->last);
    return TC_OK;
  }
  tc_value_set_name(g, made, result->name);
  tc_graph_forward(result, made);
  tc_node *const parts[] = {c->then, c->sum, c->norm, c->conv};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (parts[i]) tc_node_kill(parts[i]);
  *out_joined = true;
  return TC_OK;
}

// Is any library told of this op? Else nothing is built to ask about.
static bool has_library(const tc_device *d) {
  for (int32_t i = 0; i < d->n_calls; i++)
    if (tc_plugin_calls(d->calls[i].plugin, TC_SV("aten::_convolution_packed"))) return true;
  return false;
}

tc_status tc_join_convolutions(const tc_call_choice *choice, tc_graph *g) {
  if (choice->policy == TC_CALLS_NEVER || !has_library(choice->device)) return TC_OK;
  tc_graph_sweep(g);
  for (tc_node *n = g->first; n; n = n->next) {
    if (n->dead || n->inplace >= 0 || !is_plain(n)) continue;
    bool joined;
    chain all = chain_of(n, true), fewer = chain_of(n, false);
    TC_TRY(join(choice, &all, &joined));
    if (!joined && all.sum) TC_TRY(join(choice, &fewer, &joined));
    if (joined) tc_graph_sweep(g); // what follows reads the new node
  }
  tc_graph_sweep(g);
  return TC_OK;
}
