// The graph environment of the expression language: see expand.h. Trees are walked directly; values are tc_arg.
#include <math.h>

#include "core/ir/expand.h"
#include "core/ir/internal.h"

enum { MAX_ARGS = 64, MAX_EVAL_DEPTH = 200 };

// A name of the text. That of a let which was not needed yet has `pending`; `first`: the let's first name. Only what
// stands before a let is seen by it.
typedef struct slot {
  tc_sv name;
  tc_arg arg;
  const tc_ex_let *pending;
  int32_t first;
} slot;

typedef struct scope {
  const tc_build *b;
  tc_module *m;
  tc_sv ns;
  TC_VEC(slot) names;
  int32_t visible; // names that are seen
  int32_t depth;
} scope;

static tc_status eval(scope *s, const tc_ex *e, tc_arg *out);
static tc_status need(scope *s, int32_t name);

static tc_status bad(const tc_ex *e, const char *fmt, ...) TC_PRINTF(2, 3);
static tc_status bad(const tc_ex *e, const char *fmt, ...) {
  va_list list;
  va_start(list, fmt);
  tc_status s = tc_errorv(TC_STATUS_INVALID_ARGUMENT, fmt, list);
  va_end(list);
  return tc_status_note(s, "at line %d, column %d of the text", e->line, e->column);
}

// ---- choosing an overload ----
enum { NO_FIT = 1000000 };

// How far an argument is from a schema slot: 0 exact, more for conversions, NO_FIT.
static int32_t distance(const tc_schema_arg *want, const tc_arg *g) {
  bool number = tc_arg_number_dtype(g) != TC_DTYPE_NONE;
  if (g->kind == TC_AK_NONE) return want->is_optional || want->type == TC_ST_OTHER ? 0 : NO_FIT;
  if (want->is_list) {
    switch (g->kind) {
    case TC_AK_TENSORS: return want->type == TC_ST_TENSOR || g->n == 0 ? 0 : NO_FIT;
    case TC_AK_INTS:
      return want->type == TC_ST_INT                                   ? 0
             : want->type == TC_ST_FLOAT || want->type == TC_ST_SCALAR ? 1
             : g->n == 0                                               ? 0
                                                                       : NO_FIT;
    case TC_AK_FLOATS: return want->type == TC_ST_FLOAT || want->type == TC_ST_SCALAR ? 0 : NO_FIT;
    case TC_AK_BOOLS: return want->type == TC_ST_BOOL ? 0 : NO_FIT;
    case TC_AK_STRINGS: return want->type == TC_ST_STRING ? 0 : NO_FIT;
    case TC_AK_INT: return want->type == TC_ST_INT ? 2 : NO_FIT;
    case TC_AK_FLOAT: return want->type == TC_ST_FLOAT ? 2 : NO_FIT;
    default: return NO_FIT;
    }
  }
  switch (want->type) {
  case TC_ST_TENSOR: return g->kind == TC_AK_TENSOR ? 0 : number ? 3 : NO_FIT;
  case TC_ST_SCALAR: return number ? 0 : NO_FIT;
  case TC_ST_INT: return g->kind == TC_AK_INT ? 0 : g->kind == TC_AK_BOOL ? 2 : NO_FIT;
  case TC_ST_FLOAT: return g->kind == TC_AK_FLOAT ? 0 : g->kind == TC_AK_INT || g->kind == TC_AK_BOOL ? 1 : NO_FIT;
  case TC_ST_BOOL: return g->kind == TC_AK_BOOL ? 0 : g->kind == TC_AK_INT ? 2 : NO_FIT;
  case TC_ST_STRING: return g->kind == TC_AK_STRING ? 0 : NO_FIT;
  case TC_ST_DEVICE: return g->kind == TC_AK_STRING || g->kind == TC_AK_DEVICE ? 0 : NO_FIT;
  case TC_ST_DTYPE: return g->kind == TC_AK_DTYPE ? 0 : NO_FIT;
  case TC_ST_LAYOUT: return g->kind == TC_AK_LAYOUT ? 0 : NO_FIT;
  case TC_ST_MEMORY_FORMAT: return g->kind == TC_AK_MEMORY_FORMAT ? 0 : NO_FIT;
  case TC_ST_GENERATOR: return NO_FIT;
  default: return 0;
  }
}

// The slot of each given argument: position, or by name; -1 if there is none.
static int32_t slot_of(const tc_schema *s, int32_t i, tc_sv name) {
  if (!name.size) return i < s->n_args || s->varargs ? i : -1;
  for (int32_t k = 0; k < s->n_args; k++)
    if (tc_sv_eq(s->args[k].name, name)) return k;
  return -1;
}

static int32_t fit(const tc_schema *s, int32_t n, const tc_arg *args, const tc_sv *names) {
  uint8_t given[MAX_ARGS] = {0};
  int32_t cost = 0;
  for (int32_t i = 0; i < n; i++) {
    int32_t k = slot_of(s, i, names ? names[i] : (tc_sv){0});
    if (k < 0 || k >= MAX_ARGS || given[k]) return NO_FIT;
    given[k] = 1;
    int32_t d = k < s->n_args ? distance(&s->args[k], &args[i]) : 0;
    if (d >= NO_FIT) return NO_FIT;
    cost += d;
  }
  for (int32_t k = 0; k < s->n_args && k < MAX_ARGS; k++)
    if (!given[k] && !s->args[k].has_default && !s->args[k].is_optional && s->args[k].type != TC_ST_GENERATOR)
      return NO_FIT;
  return cost;
}

static tc_status choose(const tc_build *b, tc_sv name, int32_t n, const tc_arg *args, const tc_sv *names,
                        const tc_op **out) {
  const tc_op_registry *r = b->graph->module->ops;
  tc_sv overload = tc_sv_cut(name, '.', &(tc_sv){0});
  const tc_op *exact = tc_op_find(r, name);
  if (exact && (overload.size || fit(&exact->schema, n, args, names) == 0)) {
    *out = exact;
    return TC_OK;
  }
  int32_t count, best = NO_FIT;
  const tc_op *const *all = tc_op_overloads(r, name, &count);
  *out = NULL;
  for (int32_t i = 0; i < count; i++) {
    int32_t cost = fit(&all[i]->schema, n, args, names);
    if (cost < best) best = cost, *out = all[i];
  }
  if (*out) return TC_OK;
  if (count == 0) return tc_op_find_target(r, name, out);
  tc_sb sb = tc_sb_make(b->graph->module->arena);
  for (int32_t i = 0; i < n; i++) tc_sb_printf(&sb, "%s%s", i ? ", " : "", tc_arg_kind_name(args[i].kind));
  return tc_error(TC_STATUS_INVALID_ARGUMENT, "no overload of '" TC_SV_FMT "' takes (%s)", TC_SV_ARG(name), sb.text);
}

static tc_arg result_arg(tc_value *v) {
  switch (v->kind) {
  case TC_VALUE_TENSOR: return tc_arg_tensor(v);
  case TC_VALUE_SYM: return tc_arg_sym(v->symbol);
  case TC_VALUE_FLOAT: return (tc_arg){.kind = TC_AK_FLOAT, .value = v, .real = NAN};
  case TC_VALUE_BOOL: return (tc_arg){.kind = TC_AK_BOOL, .value = v};
  default: return tc_arg_none();
  }
}

tc_status tc_build_call(const tc_build *b, tc_sv name, int32_t n, const tc_arg *args, const tc_sv *arg_names,
                        tc_arg *out) {
  tc_arena *arena = b->graph->module->arena;
  const tc_op *op;
  if (n > MAX_ARGS) return tc_error(TC_STATUS_INVALID_ARGUMENT, "a call with more than %d arguments", MAX_ARGS);
  TC_TRY(choose(b, name, n, args, arg_names, &op));
  const tc_schema *s = &op->schema;
  tc_arg *slots = TC_NEW_ARRAY(arena, tc_arg, s->n_args + n);
  bool *given = TC_NEW_ARRAY(arena, bool, s->n_args + n);
  int32_t used = 0;
  for (int32_t i = 0; i < n; i++) {
    int32_t k = slot_of(s, i, arg_names ? arg_names[i] : (tc_sv){0});
    if (k < 0) {
      if (arg_names && arg_names[i].size)
        return tc_error(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT " has no argument '" TC_SV_FMT "'",
                        TC_SV_ARG(op->full_name), TC_SV_ARG(arg_names[i]));
      return tc_error(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT " takes %d arguments, %d are given",
                      TC_SV_ARG(op->full_name), s->n_args, n);
    }
    slots[k] = args[i], given[k] = true;
    if (k >= used) used = k + 1;
  }
  for (int32_t k = 0; k < used; k++)
    if (!given[k] && k < s->n_args && s->args[k].has_default)
      slots[k] = tc_arg_of_preset(b->graph->module, &s->args[k].preset);
  tc_node *node;
  TC_TRY(tc_graph_add_node(b->graph, b->before, op, used, slots, (tc_sv){0}, b->source, &node));
  if (b->stream && (op->def->traits & TC_OP_RANDOM)) node->stream = b->stream;
  if (node->n_results == 1 && !(s->n_returns == 1 && s->returns[0].is_list)) *out = result_arg(node->results[0]);
  else if (node->n_results == 0) *out = tc_arg_none();
  else {
    tc_value **list = TC_NEW_ARRAY(arena, tc_value *, node->n_results);
    for (int32_t i = 0; i < node->n_results; i++)
      list[i] = node->results[i]->kind == TC_VALUE_TENSOR ? node->results[i] : NULL;
    *out = tc_arg_tensors(list, node->n_results);
  }
  return TC_OK;
}

// ---- numbers ----
static bool is_number(const tc_arg *g) {
  return (g->kind == TC_AK_INT || g->kind == TC_AK_FLOAT || g->kind == TC_AK_BOOL || g->kind == TC_AK_COMPLEX) &&
         !g->value;
}
static bool is_int(const tc_arg *g) { return g->kind == TC_AK_INT || (g->kind == TC_AK_BOOL && !g->value); }
static const tc_sym *int_of(scope *s, const tc_arg *g) {
  return g->kind == TC_AK_INT ? g->sym : tc_sym_int(s->m->syms, g->integer);
}

// A condition at build time. Symbolic ones that are not provable are required to be as their hint says.
static tc_status truth(scope *s, const tc_ex *at, const tc_arg *g, bool *out) {
  if (g->kind == TC_AK_BOOL && !g->value) {
    *out = g->integer != 0;
    return TC_OK;
  }
  if (g->kind != TC_AK_INT)
    return bad(at, "a condition that is %s is not known when the graph is built", tc_arg_kind_name(g->kind));
  int32_t known = tc_sym_prove(s->m->syms, g->sym);
  if (known < 0) {
    int64_t v;
    if (!tc_sym_hint(s->m->syms, g->sym, &v)) return bad(at, "the condition depends on a size that is not known");
    known = v != 0;
    tc_module_require(s->m, known ? g->sym : tc_sym_not(s->m->syms, g->sym));
  }
  *out = known;
  return TC_OK;
}

static tc_status int_binary(scope *s, const tc_ex *e, const tc_sym *x, const tc_sym *y, tc_arg *out) {
  tc_sym_ctx *c = s->m->syms;
  tc_sv o = e->text;
  const tc_sym *r = NULL;
  bool zero = tc_sym_is_int(y, 0);
  if (tc_sv_is(o, "+")) r = tc_sym_add(c, x, y);
  else if (tc_sv_is(o, "-")) r = tc_sym_sub(c, x, y);
  else if (tc_sv_is(o, "*")) r = tc_sym_mul(c, x, y);
  else if (tc_sv_is(o, "//") && !zero) r = tc_sym_floordiv(c, x, y);
  else if (tc_sv_is(o, "%") && !zero) r = tc_sym_mod(c, x, y);
  else if (tc_sv_is(o, "**") && tc_sym_is_const(y) && y->value >= 0) r = tc_sym_pow(c, x, y);
  else if (tc_sv_is(o, "==")) r = tc_sym_cmp(c, TC_SYM_EQ, x, y);
  else if (tc_sv_is(o, "!=")) r = tc_sym_cmp(c, TC_SYM_NE, x, y);
  else if (tc_sv_is(o, "<")) r = tc_sym_cmp(c, TC_SYM_LT, x, y);
  else if (tc_sv_is(o, "<=")) r = tc_sym_cmp(c, TC_SYM_LE, x, y);
  else if (tc_sv_is(o, ">")) r = tc_sym_cmp(c, TC_SYM_LT, y, x);
  else if (tc_sv_is(o, ">=")) r = tc_sym_cmp(c, TC_SYM_LE, y, x);
  else if (tc_sv_is(o, "&&")) r = tc_sym_and(c, x, y);
  else if (tc_sv_is(o, "||")) r = tc_sym_or(c, x, y);
  if (!r) return bad(e, "the operator '" TC_SV_FMT "' is not defined on these ints", TC_SV_ARG(o));
  *out = tc_arg_sym(r);
  return TC_OK;
}

static tc_status number_value(const tc_ex *at, const tc_arg *g, double *out) {
  if (g->kind == TC_AK_FLOAT) *out = g->real;
  else if (g->kind == TC_AK_BOOL) *out = (double)g->integer;
  else if (g->kind == TC_AK_INT && tc_sym_is_const(g->sym)) *out = (double)g->sym->value;
  else return bad(at, "a number is wanted whose value is known when the graph is built");
  return TC_OK;
}

// Sums, differences and products, and whether two are the same.
static tc_status complex_binary(const tc_ex *e, const tc_arg *x, const tc_arg *y, tc_arg *out) {
  double a = x->real, b = y->real, ai = x->kind == TC_AK_COMPLEX ? x->imag : 0,
         bi = y->kind == TC_AK_COMPLEX ? y->imag : 0;
  tc_sv o = e->text;
  if (x->kind != TC_AK_COMPLEX) TC_TRY(number_value(e, x, &a));
  if (y->kind != TC_AK_COMPLEX) TC_TRY(number_value(e, y, &b));
  if (tc_sv_is(o, "+")) *out = tc_arg_complex(a + b, ai + bi);
  else if (tc_sv_is(o, "-")) *out = tc_arg_complex(a - b, ai - bi);
  else if (tc_sv_is(o, "*")) *out = tc_arg_complex(a * b - ai * bi, a * bi + ai * b);
  else if (tc_sv_is(o, "==")) *out = tc_arg_bool(a == b && ai == bi);
  else if (tc_sv_is(o, "!=")) *out = tc_arg_bool(a != b || ai != bi);
  else return bad(e, "the operator '" TC_SV_FMT "' is not defined on complex numbers", TC_SV_ARG(o));
  return TC_OK;
}

static tc_status number_binary(const tc_ex *e, const tc_arg *x, const tc_arg *y, tc_arg *out) {
  double a, b;
  tc_sv o = e->text;
  if (x->kind == TC_AK_COMPLEX || y->kind == TC_AK_COMPLEX) return complex_binary(e, x, y, out);
  TC_TRY(number_value(e, x, &a));
  TC_TRY(number_value(e, y, &b));
  if (tc_sv_is(o, "+")) *out = tc_arg_float(a + b);
  else if (tc_sv_is(o, "-")) *out = tc_arg_float(a - b);
  else if (tc_sv_is(o, "*")) *out = tc_arg_float(a * b);
  else if (tc_sv_is(o, "/")) *out = tc_arg_float(a / b);
  else if (tc_sv_is(o, "//")) *out = tc_arg_float(floor(a / b));
  else if (tc_sv_is(o, "**")) *out = tc_arg_float(pow(a, b));
  else if (tc_sv_is(o, "==")) *out = tc_arg_bool(a == b);
  else if (tc_sv_is(o, "!=")) *out = tc_arg_bool(a != b);
  else if (tc_sv_is(o, "<")) *out = tc_arg_bool(a < b);
  else if (tc_sv_is(o, "<=")) *out = tc_arg_bool(a <= b);
  else if (tc_sv_is(o, ">")) *out = tc_arg_bool(a > b);
  else if (tc_sv_is(o, ">=")) *out = tc_arg_bool(a >= b);
  else return bad(e, "the operator '" TC_SV_FMT "' is not defined on numbers", TC_SV_ARG(o));
  return TC_OK;
}

// ---- operators ----
static const struct {
  const char *text, *op;
} binary_ops[] = {{"+", "add"},
                  {"-", "sub"},
                  {"*", "mul"},
                  {"/", "div"},
                  {"//", "floor_divide"},
                  {"%", "remainder"},
                  {"**", "pow"},
                  {"==", "eq"},
                  {"!=", "ne"},
                  {"<", "lt"},
                  {"<=", "le"},
                  {">", "gt"},
                  {">=", "ge"},
                  {"&", "bitwise_and"},
                  {"|", "bitwise_or"},
                  {"^", "bitwise_xor"},
                  {"&&", "logical_and"},
                  {"||", "logical_or"},
                  {"<<", "bitwise_left_shift"},
                  {">>", "bitwise_right_shift"}},
  unary_ops[] = {{"-", "neg"}, {"~", "bitwise_not"}, {"!", "logical_not"}};

static tc_status call_operator(scope *s, const tc_ex *e, const char *op, int32_t n, const tc_arg *args, tc_arg *out) {
  char name[64] = "aten::";
  for (size_t i = 0; op[i] && i + 7 < sizeof name; i++) name[6 + i] = op[i];
  TC_TRY(tc_build_call(s->b, tc_sv_of(name), n, args, NULL, out), "at line %d, column %d of the text", e->line,
         e->column);
  return TC_OK;
}

static bool is_tensor(const tc_arg *g) {
  return g->kind == TC_AK_TENSOR || (g->value && tc_arg_number_dtype(g) != TC_DTYPE_NONE);
}

static const tc_sym *same_ints(tc_module *m, const tc_arg *x, const tc_arg *y) {
  const tc_sym *same = tc_sym_int(m->syms, x->n == y->n);
  for (int32_t i = 0; i < x->n && x->n == y->n; i++)
    same = tc_sym_and(m->syms, same, tc_sym_cmp(m->syms, TC_SYM_EQ, x->syms[i], y->syms[i]));
  return same;
}

static tc_status eval_binary(scope *s, const tc_ex *e, tc_arg *out) {
  tc_arg v[2];
  TC_TRY(eval(s, e->kids[0], &v[0]));
  bool and = tc_sv_is(e->text, "&&"), or = tc_sv_is(e->text, "||");
  if ((and|| or) && v[0].kind == TC_AK_BOOL && !v[0].value && (v[0].integer != 0) == or) { // short circuit
    *out = v[0];
    return TC_OK;
  }
  TC_TRY(eval(s, e->kids[1], &v[1]));
  if (is_tensor(&v[0]) || is_tensor(&v[1])) {
    for (size_t i = 0; i < sizeof binary_ops / sizeof *binary_ops; i++)
      if (tc_sv_is(e->text, binary_ops[i].text)) return call_operator(s, e, binary_ops[i].op, 2, v, out);
    return bad(e, "the operator '" TC_SV_FMT "' is not defined on tensors", TC_SV_ARG(e->text));
  }
  if ((tc_sv_is(e->text, "==") || tc_sv_is(e->text, "!=")) && v[0].kind == v[1].kind &&
      (v[0].kind == TC_AK_DTYPE || v[0].kind == TC_AK_STRING)) {
    bool same = v[0].kind == TC_AK_DTYPE ? v[0].integer == v[1].integer : tc_sv_eq(v[0].text, v[1].text);
    *out = tc_arg_bool(same == tc_sv_is(e->text, "=="));
    return TC_OK;
  }
  if ((tc_sv_is(e->text, "==") || tc_sv_is(e->text, "!=")) && v[0].kind == TC_AK_INTS && v[1].kind == TC_AK_INTS) {
    const tc_sym *same = same_ints(s->m, &v[0], &v[1]);
    *out = tc_arg_sym(tc_sv_is(e->text, "==") ? same : tc_sym_not(s->m->syms, same));
    return TC_OK;
  }
  if (tc_sv_is(e->text, "+") && (v[0].kind == TC_AK_INTS || v[1].kind == TC_AK_INTS))
    return tc_build_list_find(TC_SV("joined"), 2)->run(s->m, v, out);
  if (and|| or) {
    bool x, y;
    TC_TRY(truth(s, e, &v[0], &x));
    TC_TRY(truth(s, e, &v[1], &y));
    *out = tc_arg_bool(and? x && y : x || y);
    return TC_OK;
  }
  if (!is_number(&v[0]) || !is_number(&v[1]))
    return bad(e, "'" TC_SV_FMT "' between %s and %s", TC_SV_ARG(e->text), tc_arg_kind_name(v[0].kind),
               tc_arg_kind_name(v[1].kind));
  if (is_int(&v[0]) && is_int(&v[1]) && !tc_sv_is(e->text, "/"))
    return int_binary(s, e, int_of(s, &v[0]), int_of(s, &v[1]), out);
  return number_binary(e, &v[0], &v[1], out);
}

static tc_status eval_unary(scope *s, const tc_ex *e, tc_arg *out) {
  tc_arg v;
  TC_TRY(eval(s, e->kids[0], &v));
  if (is_tensor(&v)) {
    for (size_t i = 0; i < sizeof unary_ops / sizeof *unary_ops; i++)
      if (tc_sv_is(e->text, unary_ops[i].text)) return call_operator(s, e, unary_ops[i].op, 1, &v, out);
  } else if (tc_sv_is(e->text, "-") && is_int(&v)) {
    *out = tc_arg_sym(tc_sym_neg(s->m->syms, int_of(s, &v)));
    return TC_OK;
  } else if (tc_sv_is(e->text, "-") && v.kind == TC_AK_FLOAT) {
    *out = tc_arg_float(-v.real);
    return TC_OK;
  } else if (tc_sv_is(e->text, "!")) {
    bool x;
    TC_TRY(truth(s, e, &v, &x));
    *out = tc_arg_bool(!x);
    return TC_OK;
  }
  return bad(e, "'" TC_SV_FMT "' of %s", TC_SV_ARG(e->text), tc_arg_kind_name(v.kind));
}

// ---- names, members, lists ----
static tc_status eval_name(scope *s, const tc_ex *e, tc_arg *out) {
  static const struct {
    const char *name;
    int32_t format;
  } formats[] = {{"contiguous_format", TC_FORMAT_CONTIGUOUS},
                 {"preserve_format", TC_FORMAT_PRESERVE},
                 {"channels_last", TC_FORMAT_CHANNELS_LAST},
                 {"channels_last_3d", TC_FORMAT_CHANNELS_LAST_3D}};
  for (int32_t i = s->visible - 1; i >= 0; i--)
    if (tc_sv_eq(s->names.data[i].name, e->text)) {
      TC_TRY(need(s, i));
      *out = s->names.data[i].arg;
      return TC_OK;
    }
  tc_dtype d = tc_dtype_parse(e->text);
  if (d != TC_DTYPE_NONE) {
    *out = tc_arg_dtype(d);
    return TC_OK;
  }
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
    if (tc_sv_is(e->text, formats[i].name)) {
      *out = (tc_arg){.kind = TC_AK_MEMORY_FORMAT, .integer = formats[i].format};
      return TC_OK;
    }
  tc_sv known[MAX_ARGS];
  int32_t n = s->visible < MAX_ARGS ? s->visible : MAX_ARGS;
  for (int32_t i = 0; i < n; i++) known[i] = s->names.data[i].name;
  tc_sv near = tc_sv_nearest(e->text, known, n);
  return bad(e, "the name '" TC_SV_FMT "' is not known%s" TC_SV_FMT, TC_SV_ARG(e->text),
             near.size ? "; the nearest is " : "", TC_SV_ARG(near));
}

static tc_status eval_dim(scope *s, const tc_ex *e, int32_t rank, int32_t *out) {
  tc_arg v;
  TC_TRY(eval(s, e, &v));
  if (v.kind != TC_AK_INT || !tc_sym_is_const(v.sym)) return bad(e, "a dimension must be a constant");
  int64_t d = v.sym->value < 0 ? v.sym->value + rank : v.sym->value;
  if (d < 0 || d >= rank) return bad(e, "dimension %lld of a tensor of rank %d", (long long)v.sym->value, rank);
  *out = (int32_t)d;
  return TC_OK;
}

// `arg`: the argument of x.size(i), or NULL.
static tc_status eval_member(scope *s, const tc_ex *e, const tc_ex *arg, tc_arg *out) {
  tc_arg v;
  TC_TRY(eval(s, e->kids[0], &v));
  if (v.kind != TC_AK_TENSOR) return bad(e, "." TC_SV_FMT " of %s", TC_SV_ARG(e->text), tc_arg_kind_name(v.kind));
  const tc_tensor_type *t = &v.value->type;
  int32_t d;
  if (arg && (tc_sv_is(e->text, "size") || tc_sv_is(e->text, "stride"))) {
    TC_TRY(eval_dim(s, arg, t->rank, &d));
    *out = tc_arg_sym(tc_sv_is(e->text, "size") ? t->sizes[d] : t->strides[d]);
  } else if (tc_sv_is(e->text, "sizes")) *out = tc_arg_syms(t->sizes, t->rank);
  else if (tc_sv_is(e->text, "strides")) *out = tc_arg_syms(t->strides, t->rank);
  else if (tc_sv_is(e->text, "numel")) *out = tc_arg_sym(tc_type_numel(s->m, t));
  else if (tc_sv_is(e->text, "rank") || tc_sv_is(e->text, "dim")) *out = tc_arg_sym(tc_sym_int(s->m->syms, t->rank));
  else if (tc_sv_is(e->text, "offset")) *out = tc_arg_sym(t->offset);
  else if (tc_sv_is(e->text, "dtype")) *out = tc_arg_dtype(t->dtype);
  else if (tc_sv_is(e->text, "real_dtype")) *out = tc_arg_dtype(tc_dtype_real(t->dtype));
  else return bad(e, "tensors have no member '" TC_SV_FMT "'", TC_SV_ARG(e->text));
  return TC_OK;
}

static tc_status eval_list(scope *s, const tc_ex *e, tc_arg *out) {
  tc_arena *arena = s->m->arena;
  tc_arg *v = TC_NEW_ARRAY(arena, tc_arg, e->n);
  bool ints = true, numbers = true, tensors = true, bools = true;
  for (int32_t i = 0; i < e->n; i++) {
    TC_TRY(eval(s, e->kids[i], &v[i]));
    ints = ints && is_int(&v[i]);
    bools = bools && v[i].kind == TC_AK_BOOL && !v[i].value;
    numbers = numbers && is_number(&v[i]);
    tensors = tensors && (v[i].kind == TC_AK_TENSOR || v[i].kind == TC_AK_NONE);
  }
  if (e->n && bools) {
    uint8_t *list = TC_NEW_ARRAY(arena, uint8_t, e->n);
    for (int32_t i = 0; i < e->n; i++) list[i] = v[i].integer != 0;
    *out = (tc_arg){.kind = TC_AK_BOOLS, .bools = list, .n = e->n};
  } else if (ints) {
    const tc_sym **list = TC_NEW_ARRAY(arena, const tc_sym *, e->n);
    for (int32_t i = 0; i < e->n; i++) list[i] = int_of(s, &v[i]);
    *out = tc_arg_syms(list, e->n);
  } else if (numbers) {
    double *list = TC_NEW_ARRAY(arena, double, e->n);
    for (int32_t i = 0; i < e->n; i++) TC_TRY(number_value(e, &v[i], &list[i]));
    *out = tc_arg_floats(list, e->n);
  } else if (tensors) {
    tc_value **list = TC_NEW_ARRAY(arena, tc_value *, e->n);
    for (int32_t i = 0; i < e->n; i++) list[i] = v[i].value;
    *out = tc_arg_tensors(list, e->n);
  } else {
    return bad(e, "a list holds either tensors or numbers");
  }
  return TC_OK;
}

static tc_status eval_index(scope *s, const tc_ex *e, tc_arg *out) {
  tc_arg list;
  int32_t i;
  TC_TRY(eval(s, e->kids[0], &list));
  bool known =
      list.kind == TC_AK_TENSORS || list.kind == TC_AK_INTS || list.kind == TC_AK_FLOATS || list.kind == TC_AK_BOOLS;
  if (!known || e->n != 2) return bad(e, "only lists are indexed, this is %s", tc_arg_kind_name(list.kind));
  TC_TRY(eval_dim(s, e->kids[1], list.n, &i));
  switch (list.kind) {
  case TC_AK_TENSORS: *out = tc_arg_tensor(list.values[i]); break;
  case TC_AK_INTS: *out = tc_arg_sym(list.syms[i]); break;
  case TC_AK_FLOATS: *out = tc_arg_float(list.reals[i]); break;
  default: *out = tc_arg_bool(list.bools[i]);
  }
  return TC_OK;
}

// ---- calls ----
// What arithmetic is done in: 16-bit floats in f32.
static tc_dtype wide_dtype(tc_dtype d) {
  if (d == TC_F16 || d == TC_BF16) return TC_F32;
  return d == TC_C32 || d == TC_BC32 ? TC_C64 : d;
}
static tc_status promoted_dtype(scope *s, const tc_ex *e, tc_arg *out) {
  tc_promotion p = {0};
  for (int32_t i = 1; i < e->n; i++) {
    tc_arg v;
    TC_TRY(eval(s, e->kids[i], &v));
    tc_tensor_type number = {.dtype = tc_arg_number_dtype(&v), .wrapped = 1};
    if (v.kind == TC_AK_TENSOR) tc_promotion_add(&p, &v.value->type);
    else if (number.dtype != TC_DTYPE_NONE) tc_promotion_add(&p, &number);
    else return bad(e, "promote() takes tensors and numbers, not %s", tc_arg_kind_name(v.kind));
  }
  *out = tc_arg_dtype(tc_promotion_result(&p));
  return TC_OK;
}

// Functions of lists (buildlists.c); *done false if this is none of them.
static tc_status eval_lists(scope *s, const tc_ex *e, tc_arg *out, bool *done) {
  const tc_build_list_row *f = tc_build_list_find(e->kids[0]->text, e->n - 1);
  tc_arg v[4];
  *done = f != NULL;
  for (int32_t i = 0; f && i < f->n_args; i++) TC_TRY(eval(s, e->kids[i + 1], &v[i]));
  if (f) TC_TRY(f->run(s->m, v, out), "at line %d, column %d of the text", e->line, e->column);
  return TC_OK;
}

// derivative("op", "argument", name=value, …): the derivative that the op's row has for the argument, over these names
// (the op's arguments, grad, result, …); arguments that are not named have their defaults.
static tc_status eval_derivative(scope *s, const tc_ex *e, tc_arg *out) {
  tc_arg of[2];
  tc_arena *arena = s->m->arena;
  for (int32_t i = 0; i < 2; i++) TC_TRY(eval(s, e->kids[i + 1], &of[i]));
  const tc_op *op = tc_op_find(s->m->ops, tc_sv_printf(arena, "aten::" TC_SV_FMT, TC_SV_ARG(of[0].text)));
  int32_t at = -1, k = 0, count;
  for (int32_t i = 0; op && i < op->grad.n_results; i++)
    if (tc_sv_eq(op->grad_labels[i], of[1].text)) at = i;
  if (at < 0) return bad(e, "the op has no derivative for this argument");
  const tc_schema *c = &op->schema;
  tc_build_name *names = TC_NEW_ARRAY(arena, tc_build_name, c->n_args + e->n);
  for (int32_t i = 0; i < c->n_args; i++)
    if (c->args[i].has_default)
      names[k++] = (tc_build_name){c->args[i].name, tc_arg_of_preset(s->m, &c->args[i].preset)};
  for (int32_t i = 3; i < e->n; i++, k++) { // the last of a name counts
    names[k].name = e->names[i];
    TC_TRY(eval(s, e->kids[i], &names[k].arg));
  }
  tc_ex_program one = op->grad;
  tc_arg *made;
  one.results = &op->grad.results[at], one.n_results = 1;
  TC_TRY(tc_build_text(s->b, c->ns, &one, k, names, &count, &made), "in the derivative of " TC_SV_FMT,
         TC_SV_ARG(op->full_name));
  *out = made[0];
  return TC_OK;
}

// Functions that are no ops; *done false if this is none of them.
static tc_status eval_builtin(scope *s, const tc_ex *e, tc_arg *out, bool *done) {
  const tc_ex *callee = e->kids[0];
  int32_t n = e->n - 1;
  tc_arg v;
  *done = callee->kind == TC_EX_NAME;
  if (!*done) return TC_OK;
  tc_sv f = callee->text;
  TC_TRY(eval_lists(s, e, out, done));
  if (*done) return TC_OK;
  *done = true;
  if (tc_sv_is(f, "if") && n == 3) {
    bool yes;
    TC_TRY(eval(s, e->kids[1], &v));
    TC_TRY(truth(s, e->kids[1], &v, &yes));
    return eval(s, e->kids[yes ? 2 : 3], out);
  }
  if (tc_sv_is(f, "promote") && n > 0) return promoted_dtype(s, e, out);
  if (tc_sv_is(f, "derivative") && n > 1) return eval_derivative(s, e, out);
  if (tc_sv_is(f, "conj") && n == 1) { // of a number it is one, of a tensor the op
    TC_TRY(eval(s, e->kids[1], &v));
    if (tc_arg_number_dtype(&v) == TC_DTYPE_NONE) return tc_build_call(s->b, TC_SV("aten::conj"), 1, &v, NULL, out);
    *out = v;
    if (v.kind == TC_AK_COMPLEX) out->imag = -v.imag;
    return TC_OK;
  }
  if (tc_sv_is(f, "fail") && n == 1) {
    TC_TRY(eval(s, e->kids[1], &v));
    if (s->b->derivative) return tc_error(TC_STATUS_UNIMPLEMENTED, TC_SV_FMT, TC_SV_ARG(v.text));
    return bad(e, TC_SV_FMT, TC_SV_ARG(v.text));
  }
  if (n == 1 && (tc_sv_is(f, "wide") || tc_sv_is(f, "limit") || tc_sv_is(f, "eps"))) {
    TC_TRY(eval(s, e->kids[1], &v));
    if (v.kind != TC_AK_DTYPE) return bad(e, TC_SV_FMT " is a function of a dtype", TC_SV_ARG(f));
    tc_dtype d = (tc_dtype)v.integer;
    if (tc_sv_is(f, "wide")) *out = tc_arg_dtype(wide_dtype(d));
    else *out = tc_arg_float(tc_sv_is(f, "limit") ? tc_dtype_largest(d) : tc_dtype_epsilon(d));
    return TC_OK;
  }
  bool is_none = tc_sv_is(f, "is_none"), is_int_ = tc_sv_is(f, "is_int"), is_complex = tc_sv_is(f, "is_complex"),
       is_float = tc_sv_is(f, "is_float"), row_major = tc_sv_is(f, "is_row_major"), len = tc_sv_is(f, "len"),
       to_float = tc_sv_is(f, "float");
  if (n == 1 && (is_none || is_int_ || is_complex || is_float || row_major || len || to_float)) {
    TC_TRY(eval(s, e->kids[1], &v));
    const tc_tensor_type *t = v.kind == TC_AK_TENSOR ? &v.value->type : NULL;
    tc_dtype d = v.kind == TC_AK_TENSOR  ? v.value->type.dtype
                 : v.kind == TC_AK_DTYPE ? (tc_dtype)v.integer
                                         : tc_arg_number_dtype(&v);
    if (is_none) *out = tc_arg_bool(v.kind == TC_AK_NONE);
    else if (is_complex) *out = tc_arg_bool(tc_dtype_is_complex(d));
    else if (is_int_) *out = tc_arg_bool(tc_dtype_class(d) == 'i' || tc_dtype_class(d) == 'u' || d == TC_BOOL);
    else if (is_float) *out = tc_arg_bool(tc_dtype_is_float(d));
    else if (row_major) *out = tc_arg_bool(t && tc_strides_contiguous(s->m->syms, t->rank, t->sizes, t->strides));
    else if (len) *out = tc_arg_sym(tc_sym_int(s->m->syms, v.n));
    else {
      double x;
      TC_TRY(number_value(e, &v, &x));
      *out = tc_arg_float(x);
    }
    return TC_OK;
  }
  *done = false;
  return TC_OK;
}

static tc_status eval_call(scope *s, const tc_ex *e, tc_arg *out) {
  const tc_ex *callee = e->kids[0];
  bool done;
  TC_TRY(eval_builtin(s, e, out, &done));
  if (done) return TC_OK;
  tc_sv name, overload = {0};
  if (callee->kind == TC_EX_NAME) {
    name = callee->text;
  } else if (callee->kind == TC_EX_MEMBER) {
    const tc_ex *of = callee->kids[0];
    bool local = of->kind != TC_EX_NAME;
    for (int32_t i = 0; i < s->visible && !local; i++) local = tc_sv_eq(s->names.data[i].name, of->text);
    if (local)
      return e->n <= 2 ? eval_member(s, callee, e->n == 2 ? e->kids[1] : NULL, out)
                       : bad(e, "a member takes one argument");
    name = of->text, overload = callee->text;
  } else {
    return bad(e, "this cannot be called");
  }
  bool qualified = false;
  for (size_t i = 0; i + 1 < name.size; i++) qualified = qualified || (name.data[i] == ':' && name.data[i + 1] == ':');
  if (tc_sv_is(overload, "default")) overload = (tc_sv){0};
  tc_sv full = tc_sv_printf(s->m->arena, "%s" TC_SV_FMT "%s" TC_SV_FMT, qualified ? "" : "aten::", TC_SV_ARG(name),
                            overload.size ? "." : "", TC_SV_ARG(overload));
  int32_t n = e->n - 1;
  tc_arg *args = TC_NEW_ARRAY(s->m->arena, tc_arg, n);
  for (int32_t i = 0; i < n; i++) TC_TRY(eval(s, e->kids[i + 1], &args[i]));
  bool smaller = tc_sv_is(name, "min");
  if (n == 2 && (smaller || tc_sv_is(name, "max")) && is_int(&args[0]) && is_int(&args[1])) { // on tensors they are ops
    const tc_sym *x = int_of(s, &args[0]), *y = int_of(s, &args[1]);
    *out = tc_arg_sym(smaller ? tc_sym_min(s->m->syms, x, y) : tc_sym_max(s->m->syms, x, y));
    return TC_OK;
  }
  TC_TRY(tc_build_call(s->b, full, n, args, e->names + 1, out), "at line %d, column %d of the text", e->line,
         e->column);
  return TC_OK;
}

static tc_status eval(scope *s, const tc_ex *e, tc_arg *out) {
  if (s->depth >= MAX_EVAL_DEPTH) return bad(e, "the expression is too deep");
  s->depth++;
  tc_status status = TC_OK;
  switch (e->kind) {
  case TC_EX_INT: *out = tc_arg_sym(tc_sym_int(s->m->syms, e->integer)); break;
  case TC_EX_FLOAT: *out = tc_arg_float(e->real); break;
  case TC_EX_STRING: *out = tc_arg_string(e->text); break;
  case TC_EX_BOOL: *out = tc_arg_bool(e->integer != 0); break;
  case TC_EX_NONE: *out = tc_arg_none(); break;
  case TC_EX_NAME: status = eval_name(s, e, out); break;
  case TC_EX_MEMBER: status = eval_member(s, e, NULL, out); break;
  case TC_EX_CALL: status = eval_call(s, e, out); break;
  case TC_EX_INDEX: status = eval_index(s, e, out); break;
  case TC_EX_LIST: status = eval_list(s, e, out); break;
  case TC_EX_UNARY: status = eval_unary(s, e, out); break;
  case TC_EX_BINARY: status = eval_binary(s, e, out); break;
  default: status = bad(e, "this expression is not understood");
  }
  s->depth--;
  return status;
}

// Gives the names of a let, which start at `first`, their values.
static tc_status bind_let(scope *s, const tc_ex_let *let, int32_t first) {
  tc_arg v;
  int32_t visible = s->visible;
  s->visible = first;
  TC_TRY(eval(s, let->value, &v));
  s->visible = visible;
  if (let->n_names > 1 && (v.kind != TC_AK_TENSORS || v.n < let->n_names))
    return bad(let->value, "%d names for %d results", let->n_names, v.kind == TC_AK_TENSORS ? v.n : 1);
  for (int32_t i = 0; i < let->n_names; i++) {
    slot *to = &s->names.data[first + i];
    to->arg = let->n_names == 1 ? v : v.values[i] ? tc_arg_tensor(v.values[i]) : tc_arg_none();
    to->pending = NULL;
  }
  return TC_OK;
}

static tc_status need(scope *s, int32_t name) {
  const slot *at = &s->names.data[name];
  return at->pending ? bind_let(s, at->pending, at->first) : TC_OK;
}

tc_status tc_build_text(const tc_build *b, tc_sv ns, const tc_ex_program *p, int32_t n_names,
                        const tc_build_name *names, int32_t *out_n, tc_arg **out) {
  scope s = {.b = b, .m = b->graph->module, .ns = ns};
  for (int32_t i = 0; i < n_names; i++) {
    slot given = {.name = names[i].name, .arg = names[i].arg};
    tc_vec_push(s.m->arena, &s.names, given);
  }
  for (int32_t i = 0; i < p->n_lets; i++) {
    int32_t first = s.names.count;
    for (int32_t k = 0; k < p->lets[i].n_names; k++) {
      slot later = {.name = p->lets[i].names[k], .pending = &p->lets[i], .first = first};
      tc_vec_push(s.m->arena, &s.names, later);
    }
    s.visible = s.names.count;
    if (!p->lazy) TC_TRY(bind_let(&s, &p->lets[i], first));
  }
  s.visible = s.names.count;
  *out = TC_NEW_ARRAY(s.m->arena, tc_arg, p->n_results);
  for (int32_t i = 0; i < p->n_results; i++) TC_TRY(eval(&s, p->results[i], &(*out)[i]));
  *out_n = p->n_results;
  return TC_OK;
}
