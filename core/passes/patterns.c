// patterns: graph rewrites from a table. A row is a shape to look for, a condition, and a program (core/ir/expand.h)
// for what takes its place; both are texts, parsed when the pass begins.
//
// A shape is an expression over ops of aten, by name whatever the overload:
//   name            any argument, the same one everywhere it stands
//   op(a, b, …)     a node; arguments that are not written have their defaults; of add and mul either order
//   as(name, x)     x, and gives its value a name
//   flat(x)         x, seen through copies and reshapes that keep the last two dimensions
//   used(n, x)      x, which has n uses: all of them in the shape
//   number, true, false, none
//   any_softmax, any_matmul, any_conv stand for the ops that mean the same
// Values inside of a shape must have no other use, so that nothing is computed twice. The program sees the names and
// `result`, the value it replaces. A rewrite that cannot be built is taken back.
#include <math.h>

#include "core/passes/passes.h"

enum { MOST_NAMES = 24 };
typedef struct match {
  tc_graph *g;
  int32_t n;
  tc_build_name names[MOST_NAMES];
} match;

typedef struct row {
  const char *name, *shape, *program;
  bool (*when)(const match *m);
  bool frozen; // only where weights are constants
} row;

static const tc_arg *named(const match *m, const char *name) {
  for (int32_t i = 0; i < m->n; i++)
    if (tc_sv_is(m->names[i].name, name)) return &m->names[i].arg;
  return NULL;
}

static const tc_tensor_type *type_of(const match *m, const char *name) {
  const tc_arg *a = named(m, name);
  return a && a->kind == TC_AK_TENSOR ? &a->value->type : NULL;
}

// ---- conditions ----
static bool is_number(const match *m, const char *name) {
  const tc_arg *a = named(m, name);
  return a && !a->value && (a->kind == TC_AK_FLOAT || (a->kind == TC_AK_INT && tc_sym_is_const(a->sym)));
}

// Operands of the two products have the scores' leading dimensions, one by one or flattened, and heads that attention's
// templates take; the mask, if there is one, is added to scores that it does not widen.
static bool is_attention(const match *m) {
  tc_sym_ctx *c = m->g->module->syms;
  const tc_tensor_type *q = type_of(m, "q"), *k = type_of(m, "k"), *v = type_of(m, "v"), *s = type_of(m, "s"),
                       *t = type_of(m, "t"), *mask = type_of(m, "mask");
  if (!q || !k || !v || q->rank < 3 || k->rank != q->rank || v->rank != q->rank || s->rank < 3) return false;
  if (q->dtype != k->dtype || q->dtype != v->dtype || s->dtype != q->dtype || !tc_dtype_is_float(q->dtype))
    return false;
  if (!tc_attention_takes_heads(q) || !tc_attention_takes_heads(v)) return false;
  for (int32_t d = 0; d < q->rank - 2; d++)
    if (!tc_sym_eq(c, q->sizes[d], k->sizes[d]) || !tc_sym_eq(c, q->sizes[d], v->sizes[d])) return false;
  if (!tc_sym_eq(c, tc_type_numel(m->g->module, s), tc_type_numel(m->g->module, t)) || s->rank != t->rank) return false;
  if (mask && (mask->rank > s->rank || (mask->dtype != q->dtype && mask->dtype != TC_BOOL))) return false;
  const tc_arg *scale = named(m, "c");
  return !scale || is_number(m, "c");
}

static bool is_low(const match *m) {
  const tc_arg *low = named(m, "low");
  return low->kind == TC_AK_FLOAT && !low->value && low->real == -INFINITY;
}

// A softmax whose rows without any score but -inf are 0.
static bool is_safe_attention(const match *m) {
  const tc_arg *zero = named(m, "zero");
  bool none = zero->kind == TC_AK_INT ? !zero->value && tc_sym_is_int(zero->sym, 0)
                                      : zero->kind == TC_AK_FLOAT && !zero->value && zero->real == 0;
  return is_attention(m) && is_low(m) && none;
}

// What is not a number is kept with its gradient, which its parts have not.
static bool is_shrinking(const match *m) {
  const tc_tensor_type *x = type_of(m, "x");
  return x && tc_dtype_is_float(x->dtype) && is_number(m, "c");
}

static bool is_masked_by_infinity(const match *m) {
  return is_attention(m) && is_low(m) && type_of(m, "mask")->dtype == TC_BOOL;
}

static bool is_constant(const match *m, const tc_value *v, int32_t depth) {
  if (!v->def) {
    const tc_graph *g = m->g;
    for (int32_t i = 0; i < g->inputs.count; i++) {
      const tc_graph_input *in = &g->inputs.data[i];
      if (in->value != v) continue;
      for (int32_t k = 0; k < g->outputs.count; k++)
        if (g->outputs.data[k].kind != TC_OUT_USER && tc_sv_eq(g->outputs.data[k].target, in->target)) return false;
      return in->kind == TC_IN_PARAMETER || in->kind == TC_IN_BUFFER || in->kind == TC_IN_CONSTANT;
    }
    return false;
  }
  if (depth > 16 || !tc_node_pure(v->def)) return false;
  for (int32_t i = 0; i < v->def->n_args; i++) {
    const tc_arg *a = &v->def->args[i];
    if (a->kind == TC_AK_TENSORS || a->kind == TC_AK_GRAPH) return false;
    if (a->value && !is_constant(m, tc_value_resolve(a->value), depth + 1)) return false;
  }
  return true;
}

// Weights of a convolution that do not change, and statistics that do not either: in a type that has digits to spare.
static bool is_constant_norm(const match *m) {
  static const char *const names[] = {"w", "b", "gamma", "beta", "mean", "var"};
  const tc_tensor_type *w = type_of(m, "w");
  if (!w || (w->dtype != TC_F32 && w->dtype != TC_F64) || !is_number(m, "eps")) return false;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const tc_arg *a = named(m, names[i]);
    if (a->kind == TC_AK_NONE && i != 0 && i < 4) continue;
    if (a->kind != TC_AK_TENSOR || !is_constant(m, a->value, 0)) return false;
    if (a->value->type.dtype != w->dtype) return false;
  }
  return true;
}

// ---- the table ----
#define ATTENTION(scale, mask)                                                \
  "let lead = part(s.sizes, 0, s.rank - 2);"                                  \
  "let query = reshape(q, lead + [q.size(-2), q.size(-1)]);"                  \
  "let key = transpose(reshape(k, lead + [k.size(-2), k.size(-1)]), -2, -1);" \
  "let value = reshape(v, lead + [v.size(-2), v.size(-1)]);"                  \
  "reshape(scaled_dot_product_attention(query, key, value, " mask ", 0.0, false, scale=" scale "), result.sizes)"
#define SCORES "as(t, flat(any_matmul(q, k)))"
#define SOFTMAX_OF(scores) "any_matmul(flat(any_softmax(as(s, " scores "), -1)), v)"
#define SAFE_SOFTMAX_OF(scores)                                                                                   \
  "any_matmul(flat(where(logical_not(any(logical_not(eq(s, low)), -1, true)), full_like(p, zero), used(2, as(p, " \
  "any_softmax(used(2, as(s, " scores ")), -1))))), v)"
#define FOLDED                                                                        \
  "let norm = rsqrt(var + eps); let factor = if(is_none(gamma), norm, gamma * norm);" \
  "let shift = if(is_none(b), neg(mean), b - mean) * factor;"
#define FOLDED_WEIGHT "w * reshape(factor, [w.size(0)] + repeated([1], w.rank - 1))"
#define FOLDED_BIAS "if(is_none(beta), shift, shift + beta)"

static const row rows[] = {
    {"attention", SOFTMAX_OF(SCORES), ATTENTION("1.0", "none"), is_attention, false},
    {"attention, scaled", SOFTMAX_OF("mul(" SCORES ", c)"), ATTENTION("c", "none"), is_attention, false},
    {"attention, divided", SOFTMAX_OF("div(" SCORES ", c)"), ATTENTION("1.0 / c", "none"), is_attention, false},
    {"attention with a mask", SOFTMAX_OF("add(" SCORES ", mask)"), ATTENTION("1.0", "mask"), is_attention, false},
    {"attention with a mask, scaled", SOFTMAX_OF("add(mul(" SCORES ", c), mask)"), ATTENTION("c", "mask"), is_attention,
     false},
    {"attention with a mask, divided", SOFTMAX_OF("add(div(" SCORES ", c), mask)"), ATTENTION("1.0 / c", "mask"),
     is_attention, false},
    {"attention filled", SOFTMAX_OF("masked_fill(" SCORES ", mask, low)"), ATTENTION("1.0", "logical_not(mask)"),
     is_masked_by_infinity, false},
    {"attention filled, scaled", SOFTMAX_OF("masked_fill(mul(" SCORES ", c), mask, low)"),
     ATTENTION("c", "logical_not(mask)"), is_masked_by_infinity, false},
    {"attention filled, divided", SOFTMAX_OF("masked_fill(div(" SCORES ", c), mask, low)"),
     ATTENTION("1.0 / c", "logical_not(mask)"), is_masked_by_infinity, false},
    {"attention, safe", SAFE_SOFTMAX_OF(SCORES), ATTENTION("1.0", "none"), is_safe_attention, false},
    {"attention with a mask, safe", SAFE_SOFTMAX_OF("add(" SCORES ", mask)"), ATTENTION("1.0", "mask"),
     is_safe_attention, false},
    {"softshrink", "where(gt(abs(x), c), sub(x, mul(sign(x), c)), mul(x, 0))", "softshrink(x, c)", is_shrinking, false},
    {"convolution and batch norm",
     "batch_norm(any_conv(x, w, b, stride, pad, dilation, groups), gamma, beta, mean, var, false, momentum, eps, "
     "flag)",
     FOLDED "convolution(x, " FOLDED_WEIGHT ", " FOLDED_BIAS
            ", stride, pad, dilation, false, repeated([0], w.rank - 2), groups)",
     is_constant_norm, true},
    {"convolution and batch norm, core",
     "_native_batch_norm_legit_no_training(convolution(x, w, b, stride, pad, dilation, false, out, groups), gamma, "
     "beta, mean, var, momentum, eps)",
     FOLDED "convolution(x, " FOLDED_WEIGHT ", " FOLDED_BIAS ", stride, pad, dilation, false, out, groups)",
     is_constant_norm, true},
    {"convolution and batch norm, functional",
     "_native_batch_norm_legit_no_training(any_conv(x, w, b, stride, pad, dilation, groups), gamma, beta, mean, var, "
     "momentum, eps)",
     FOLDED "convolution(x, " FOLDED_WEIGHT ", " FOLDED_BIAS
            ", stride, pad, dilation, false, repeated([0], w.rank - 2), groups)",
     is_constant_norm, true},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

// ---- matching ----
// `uses`: how many the value has; 0: any number.
static bool meets(match *m, const tc_ex *e, const tc_arg *a, int32_t uses);

static bool same_arg(const match *m, const tc_arg *a, const tc_arg *b) {
  if (a->kind != b->kind) return false;
  if (a->kind == TC_AK_TENSOR) return tc_value_resolve(a->value) == tc_value_resolve(b->value);
  if (a->kind == TC_AK_INT) return a->sym == b->sym;
  if (a->kind == TC_AK_FLOAT) return !a->value && !b->value && a->real == b->real;
  (void)m;
  return a->kind == TC_AK_NONE;
}

static bool bind(match *m, tc_sv name, const tc_arg *a) {
  for (int32_t i = 0; i < m->n; i++)
    if (tc_sv_eq(m->names[i].name, name)) return same_arg(m, &m->names[i].arg, a);
  if (m->n == MOST_NAMES) return false;
  tc_arg own = *a;
  if (own.kind == TC_AK_TENSOR) own.value = tc_value_resolve(own.value);
  m->names[m->n++] = (tc_build_name){name, own};
  return true;
}

static bool stands_for(tc_sv word, const tc_node *n) {
  static const struct {
    const char *word, *ops[3];
  } sets[] = {{"any_softmax", {"softmax", "_softmax", NULL}},
              {"any_matmul", {"bmm", "matmul", NULL}},
              {"any_conv", {"conv1d", "conv2d", "conv3d"}}};
  for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
    if (!tc_sv_is(word, sets[i].word)) continue;
    for (int32_t k = 0; k < 3 && sets[i].ops[k]; k++)
      if (tc_node_is(n, sets[i].ops[k])) return true;
    return false;
  }
  return tc_sv_eq(n->op->schema.name, word) && tc_sv_is(n->op->schema.ns, "aten");
}

// Also a flag that is not set, and a layout, which the result gets anyway.
static bool is_default(const tc_schema_arg *s, const tc_arg *a) {
  if (a->kind == TC_AK_NONE || a->kind == TC_AK_MEMORY_FORMAT) return true;
  bool flag = !s->has_default || s->preset.kind == TC_AK_NONE;
  if (flag && a->kind == TC_AK_BOOL) return !a->value && a->integer == 0;
  if (!s->has_default || a->kind != s->preset.kind) return false;
  if (a->kind == TC_AK_BOOL) return a->integer == s->preset.integer;
  if (a->kind == TC_AK_INT) return !a->value && tc_sym_is_int(a->sym, s->preset.integer);
  return a->kind == TC_AK_FLOAT && !a->value && a->real == s->preset.real;
}

// -1 where a dimension is wanted is the last one, however it is counted.
static bool is_integer(const tc_node *n, int32_t i, const tc_arg *a, int64_t want) {
  if (a->kind != TC_AK_INT || a->value || !tc_sym_is_const(a->sym)) return false;
  bool dim = n && want < 0 && tc_sv_is(n->op->schema.args[i].name, "dim") && n->args[0].kind == TC_AK_TENSOR;
  return a->sym->value == want || (dim && a->sym->value == want + n->args[0].value->type.rank);
}

static bool meets_argument(match *m, const tc_ex *e, const tc_node *n, int32_t i, const tc_arg *a) {
  if (e->kind == TC_EX_INT) return is_integer(n, i, a, e->integer);
  if (e->kind == TC_EX_UNARY && e->kids[0]->kind == TC_EX_INT) return is_integer(n, i, a, -e->kids[0]->integer);
  return meets(m, e, a, 1);
}

static bool meets_arguments(match *m, const tc_ex *e, const tc_node *n, bool swapped) {
  if (e->n - 1 > n->n_args) return false;
  for (int32_t i = 0; i < n->n_args; i++) {
    if (i >= e->n - 1 && !is_default(&n->op->schema.args[i], &n->args[i])) return false;
    if (i >= e->n - 1) continue;
    int32_t k = swapped && i < 2 ? 1 - i : i;
    if (!meets_argument(m, e->kids[i + 1], n, k, &n->args[k])) return false;
  }
  return true;
}

static bool only_first_used(const tc_node *n) {
  for (int32_t i = 1; i < n->n_results; i++)
    if (n->results[i]->n_uses > 0) return false;
  return true;
}

static bool meets_node(match *m, const tc_ex *e, const tc_value *v, int32_t uses) {
  const tc_node *n = v->def;
  if (!n || n->dead || v->def_index != 0 || !tc_node_pure(n) || !only_first_used(n)) return false;
  if (uses && v->n_uses != uses) return false;
  if (!stands_for(e->kids[0]->text, n)) return false;
  int32_t before = m->n;
  if (meets_arguments(m, e, n, false)) return true;
  m->n = before;
  bool either = tc_node_is(n, "add") || tc_node_is(n, "mul");
  if (either && e->n == 3 && meets_arguments(m, e, n, true)) return true;
  m->n = before;
  return false;
}

// What shows or copies the same values with the same last two dimensions.
static const tc_value *behind(const tc_graph *g, const tc_value *v, int32_t uses) {
  static const char *const names[] = {"view", "_unsafe_view", "reshape", "clone", "contiguous", "expand", "alias"};
  const tc_node *n = v->def;
  if (!n || n->n_results != 1 || (uses && v->n_uses != uses) || n->n_args < 1 || n->args[0].kind != TC_AK_TENSOR)
    return NULL;
  bool known = false;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) known |= tc_node_is(n, names[i]);
  const tc_value *from = tc_value_resolve(n->args[0].value);
  const tc_tensor_type *a = &v->type, *b = &from->type;
  tc_sym_ctx *c = g->module->syms;
  if (!known || a->rank < 2 || b->rank < 2 || a->dtype != b->dtype || a->conj || b->conj) return NULL;
  for (int32_t d = 1; d <= 2; d++)
    if (!tc_sym_eq(c, a->sizes[a->rank - d], b->sizes[b->rank - d])) return NULL;
  return tc_sym_eq(c, tc_type_numel(g->module, a), tc_type_numel(g->module, b)) ? from : NULL;
}

static bool meets(match *m, const tc_ex *e, const tc_arg *a, int32_t uses) {
  if (e->kind == TC_EX_NAME) return bind(m, e->text, a);
  if (e->kind == TC_EX_BOOL) return a->kind == TC_AK_BOOL && !a->value && a->integer == e->integer;
  if (e->kind == TC_EX_NONE) return a->kind == TC_AK_NONE;
  if (e->kind != TC_EX_CALL || a->kind != TC_AK_TENSOR) return false;
  tc_value *v = tc_value_resolve(a->value);
  tc_sv word = e->kids[0]->text;
  if (tc_sv_is(word, "used")) return meets(m, e->kids[2], a, (int32_t)e->kids[1]->integer);
  if (tc_sv_is(word, "as")) {
    tc_arg self = tc_arg_tensor(v);
    return bind(m, e->kids[1]->text, &self) && meets(m, e->kids[2], a, uses);
  }
  if (!tc_sv_is(word, "flat")) return meets_node(m, e, v, uses);
  int32_t before = m->n;
  for (const tc_value *at = v; at; at = behind(m->g, at, uses), uses = 1) {
    tc_arg here = tc_arg_tensor((tc_value *)(uintptr_t)at);
    if (meets(m, e->kids[1], &here, uses)) return true;
    m->n = before;
  }
  return false;
}

// ---- rewriting ----
typedef struct compiled_row {
  const row *row;
  tc_ex_program shape, program;
} compiled_row;

static tc_status build(const match *m, const compiled_row *r, const tc_build *b, const tc_value *result,
                       tc_value **out) {
  tc_arg *made;
  int32_t n;
  TC_TRY(tc_build_text(b, TC_SV("aten"), &r->program, m->n, m->names, &n, &made));
  if (n != 1 || made[0].kind != TC_AK_TENSOR)
    return tc_error(TC_STATUS_INTERNAL, "the pattern '%s' makes no tensor", r->row->name);
  return tc_match_layout(b, made[0].value, &result->type, out);
}

static bool rewrite(tc_graph *g, tc_node *n, const compiled_row *r) {
  match m = {.g = g};
  tc_value *result = n->results[0], *made;
  tc_arg self = tc_arg_tensor(result);
  if (result->kind != TC_VALUE_TENSOR || !meets(&m, r->shape.results[0], &self, 0) || !r->row->when(&m)) return false;
  if (!bind(&m, TC_SV("result"), &self)) return false;
  tc_build b = {.graph = g, .before = n, .source = n->source};
  tc_node *before = n->prev;
  tc_status s = build(&m, r, &b, result, &made);
  bool ok = s == TC_OK && tc_type_same(g->module, &made->type, &result->type);
  tc_status_free(s);
  if (!ok) {
    for (tc_node *k = before ? before->next : g->first; k != n; k = k->next) tc_node_kill(k);
    return false;
  }
  tc_value_set_name(g, made, result->name);
  tc_graph_forward(result, made);
  tc_node_kill(n);
  return true;
}

static tc_status run_rows(tc_graph *g, bool frozen, bool *out_progress) {
  compiled_row all[N_ROWS];
  int32_t n_rows = 0;
  *out_progress = false;
  for (tc_node *n = g->first; n; n = n->next)
    if (!n->dead && (n->inplace >= 0 || tc_node_writes(n))) return TC_OK;
  for (int32_t i = 0; i < N_ROWS; i++) {
    if (rows[i].frozen != frozen) continue;
    compiled_row *r = &all[n_rows++];
    r->row = &rows[i];
    TC_TRY(tc_ex_parse_program(g->module->arena, tc_sv_of(rows[i].name), tc_sv_of(rows[i].shape), &r->shape));
    TC_TRY(tc_ex_parse_program(g->module->arena, tc_sv_of(rows[i].name), tc_sv_of(rows[i].program), &r->program));
  }
  for (tc_node *n = g->first, *next; n; n = next) {
    next = n->next;
    for (int32_t i = 0; i < n_rows && !n->dead && n->n_results > 0; i++) *out_progress |= rewrite(g, n, &all[i]);
  }
  tc_graph_sweep(g);
  return TC_OK;
}

static tc_status run(tc_graph *g, bool *out_progress) { return run_rows(g, false, out_progress); }
static tc_status run_frozen(tc_graph *g, bool *out_progress) { return run_rows(g, true, out_progress); }

const tc_pass tc_pass_patterns = {"patterns", run};
const tc_pass tc_pass_weights = {"weights", run_frozen};
