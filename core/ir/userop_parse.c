// Reads definitions of ops with kernels by hand (userop.h has the grammar) and registers them.
#include "core/ir/opargs.h"
#include "core/ir/userop_internal.h"

typedef struct reader {
  tc_lexer *lx;
  tc_arena *arena;
  struct tc_user_op *u;
  tc_schema schema;
  bool hosted; // a function computes what has no graph
} reader;

static tc_status name_of(reader *r, tc_sv *out) {
  TC_TRY(tc_lex_ident(r->lx, out));
  *out = tc_sv_copy(r->arena, *out);
  return TC_OK;
}

static tc_status text_of(reader *r, tc_sv *out) {
  TC_TRY(tc_lex_string(r->lx, out));
  *out = tc_sv_copy(r->arena, *out);
  return TC_OK;
}

static tc_status dtype_of(reader *r, tc_dtype *out, tc_sv *variable) {
  TC_TRY(name_of(r, variable));
  *out = tc_dtype_parse(*variable);
  return TC_OK;
}

static const tc_user_shape *shape_named(const struct tc_user_op *u, tc_sv name) {
  for (int32_t i = 0; i < u->shapes.count; i++)
    if (tc_sv_eq(u->shapes.data[i].name, name)) return &u->shapes.data[i];
  return NULL;
}

// ---- items ----
static tc_status read_exprs(reader *r, const char *close, tc_ex_list *out) {
  while (!tc_lex_at(r->lx, close)) {
    const tc_ex *x;
    TC_TRY(tc_ex_parse(r->lx, &x));
    tc_vec_push(r->arena, out, x);
    if (!tc_lex_eat(r->lx, ",")) break;
  }
  return tc_lex_expect(r->lx, close);
}

static tc_status read_tuple(reader *r, const char *what, tc_ex_list *out) {
  tc_lexer at = *r->lx;
  TC_TRY(tc_lex_expect(r->lx, "("));
  TC_TRY(read_exprs(r, ")", out));
  return out->count ? TC_OK : tc_lex_error(&at, "%s needs at least one expression", what);
}

// Which argument or result of the schema the name is; a single result without a name is called "result".
static tc_status find_place(reader *r, const tc_lexer *at, tc_user_shape *s) {
  s->arg = s->result = -1;
  for (int32_t i = 0; i < r->schema.n_args; i++)
    if (tc_sv_eq(r->schema.args[i].name, s->name)) s->arg = i;
  for (int32_t i = 0; i < r->schema.n_returns && s->arg < 0; i++) {
    tc_sv name = r->schema.returns[i].name;
    if (!name.size) name = r->schema.n_returns == 1 ? TC_SV("result") : tc_sv_printf(r->arena, "result%d", i);
    if (tc_sv_eq(name, s->name)) s->result = i;
  }
  if (s->arg < 0 && s->result < 0)
    return tc_lex_error(at, "'" TC_SV_FMT "' is neither an argument nor a result of the op", TC_SV_ARG(s->name));
  const tc_schema_arg *a = s->arg >= 0 ? &r->schema.args[s->arg] : &r->schema.returns[s->result];
  if (a->type != TC_ST_TENSOR || a->is_list || a->is_optional)
    return tc_lex_error(at, "'" TC_SV_FMT "' is no tensor", TC_SV_ARG(s->name));
  return TC_OK;
}

static tc_status read_shape(reader *r) {
  tc_user_shape s = {0};
  tc_lexer at = *r->lx;
  TC_TRY(name_of(r, &s.name));
  TC_TRY(find_place(r, &at, &s));
  if (shape_named(r->u, s.name))
    return tc_lex_error(&at, "the shape of '" TC_SV_FMT "' is there twice", TC_SV_ARG(s.name));
  TC_TRY(tc_lex_expect(r->lx, ":"));
  TC_TRY(dtype_of(r, &s.dtype, &s.variable));
  TC_TRY(tc_lex_expect(r->lx, "["));
  s.any = tc_lex_at(r->lx, ".");
  if (s.any) {
    for (int32_t i = 0; i < 3; i++) TC_TRY(tc_lex_expect(r->lx, "."));
    TC_TRY(tc_lex_expect(r->lx, "]"));
  } else {
    tc_ex_list sizes = {0};
    TC_TRY(read_exprs(r, "]", &sizes));
    if (sizes.count > TC_MAX_RANK) return tc_lex_error(&at, "a tensor has at most %d dimensions", TC_MAX_RANK);
    s.rank = sizes.count, s.sizes = sizes.data;
  }
  tc_vec_push(r->arena, &r->u->shapes, s);
  return TC_OK;
}

static tc_status read_dtypes(reader *r) {
  tc_user_dtypes d = {0};
  TC_TRY(name_of(r, &d.name));
  TC_TRY(tc_lex_expect(r->lx, "in"));
  TC_TRY(tc_lex_expect(r->lx, "("));
  do {
    tc_dtype t;
    tc_sv name;
    tc_lexer at = *r->lx;
    TC_TRY(dtype_of(r, &t, &name));
    if (t == TC_DTYPE_NONE) return tc_lex_error(&at, "'" TC_SV_FMT "' is no dtype", TC_SV_ARG(name));
    d.set |= UINT64_C(1) << t;
  } while (tc_lex_eat(r->lx, ","));
  tc_vec_push(r->arena, &r->u->dtypes, d);
  return tc_lex_expect(r->lx, ")");
}

static tc_status read_setting(reader *r, tc_user_name *out) {
  TC_TRY(name_of(r, &out->name));
  TC_TRY(tc_lex_expect(r->lx, "="));
  return tc_ex_parse(r->lx, &out->value);
}

static bool has_name(int32_t n, const tc_user_name *all, tc_sv name) {
  for (int32_t i = 0; i < n; i++)
    if (tc_sv_eq(all[i].name, name)) return true;
  return false;
}

static bool is_real_argument(const reader *r, const tc_ex *x, int32_t *out) {
  *out = -1;
  for (int32_t i = 0; x->kind == TC_EX_NAME && i < r->schema.n_args; i++)
    if (tc_sv_eq(r->schema.args[i].name, x->text) && r->schema.args[i].type == TC_ST_FLOAT) *out = i;
  return *out >= 0;
}

static bool has_real(const struct tc_user_op *u, tc_sv name) {
  for (int32_t i = 0; i < u->reals.count; i++)
    if (tc_sv_eq(u->reals.data[i].name, name)) return true;
  return false;
}

static tc_status read_real(reader *r, const tc_lexer *at, const tc_user_name *n, int32_t number) {
  tc_user_real x = {.name = n->name, .number = number};
  if (!tc_lex_eat(r->lx, ":"))
    return tc_lex_error(at,
                        "the constant '" TC_SV_FMT "' is a float: its dtype is missing (constant NAME = argument : "
                        "f32)",
                        TC_SV_ARG(n->name));
  TC_TRY(dtype_of(r, &x.dtype, &x.variable));
  tc_vec_push(r->arena, &r->u->reals, x);
  return TC_OK;
}

static tc_status read_named(reader *r, int32_t kind) {
  struct tc_user_op *u = r->u;
  tc_lexer at = *r->lx;
  tc_user_name n;
  int32_t number;
  TC_TRY(read_setting(r, &n));
  if (has_name(u->lets.count, u->lets.data, n.name) || has_name(u->constants.count, u->constants.data, n.name) ||
      has_name(u->heuristics.count, u->heuristics.data, n.name) || has_real(u, n.name))
    return tc_lex_error(&at, "'" TC_SV_FMT "' is defined twice", TC_SV_ARG(n.name));
  if (kind == 2 && u->configs.count)
    return tc_lex_error(&at,
                        "the heuristic '" TC_SV_FMT "' stands behind 'autotune': heuristics come first, since what is "
                        "tried are kernels with the constants that they set",
                        TC_SV_ARG(n.name));
  if (kind == 1 && is_real_argument(r, n.value, &number)) return read_real(r, &at, &n, number);
  if (kind == 0) tc_vec_push(r->arena, &u->lets, n);
  else if (kind == 1) tc_vec_push(r->arena, &u->constants, n);
  else tc_vec_push(r->arena, &u->heuristics, n);
  return TC_OK;
}

static tc_status read_config(reader *r) {
  TC_VEC(tc_user_name) set = {0};
  TC_TRY(tc_lex_expect(r->lx, "{"));
  do {
    tc_user_name n;
    tc_lexer at = *r->lx;
    TC_TRY(read_setting(r, &n));
    if (!has_name(r->u->constants.count, r->u->constants.data, n.name))
      return tc_lex_error(&at, "'" TC_SV_FMT "' is not among the constants above", TC_SV_ARG(n.name));
    tc_vec_push(r->arena, &set, n);
  } while (tc_lex_eat(r->lx, ","));
  tc_user_config c = {set.count, set.data};
  tc_vec_push(r->arena, &r->u->configs, c);
  return tc_lex_expect(r->lx, "}");
}

static tc_status read_autotune(reader *r) {
  tc_lexer at = *r->lx;
  if (r->u->configs.count) return tc_lex_error(&at, "'autotune' is there twice");
  tc_ex_list key = {0};
  TC_TRY(read_tuple(r, "the key of 'autotune'", &key));
  for (int32_t i = 0; i < key.count; i++) tc_vec_push(r->arena, &r->u->key, key.data[i]);
  while (tc_lex_at(r->lx, "{")) TC_TRY(read_config(r));
  if (!r->u->configs.count || r->u->configs.count > TC_USER_CONFIGS)
    return tc_lex_error(&at, "'autotune' has 1 to %d configurations { NAME = value }", TC_USER_CONFIGS);
  return TC_OK;
}

static tc_user_shape *argument_named(const reader *r, tc_sv name) {
  tc_user_shape *s = (tc_user_shape *)(uintptr_t)shape_named(r->u, name);
  return s && s->arg >= 0 ? s : NULL;
}

static bool is_mutated(const struct tc_user_op *u, tc_sv name) {
  for (int32_t i = 0; i < u->mutates.count; i++)
    if (tc_sv_eq(u->mutates.data[i].name, name)) return true;
  return false;
}

static tc_status take_mutated(reader *r, const tc_lexer *at, tc_sv name) {
  const tc_user_shape *s = argument_named(r, name);
  if (!s || (s->arg != 0 && r->u->mutates.count == 0))
    return tc_lex_error(at, "what a kernel mutates is the op's first argument, with its shape above, then others");
  if (is_mutated(r->u, name)) return tc_lex_error(at, "'" TC_SV_FMT "' is there twice", TC_SV_ARG(name));
  if (s->strided) return tc_lex_error(at, "'" TC_SV_FMT "' is strided: it cannot be mutated", TC_SV_ARG(name));
  if (r->schema.n_returns <= r->u->mutates.count)
    return tc_lex_error(at, "the new values of what is mutated are the op's first results, in that order");
  tc_vec_push(r->arena, &r->u->mutates, *s);
  return TC_OK;
}

static tc_status take_strided(reader *r, const tc_lexer *at, tc_sv name) {
  tc_user_shape *s = argument_named(r, name);
  if (!s) return tc_lex_error(at, "what is strided is an argument with its shape above");
  if (is_mutated(r->u, name))
    return tc_lex_error(at, "'" TC_SV_FMT "' is mutated: it cannot be strided", TC_SV_ARG(name));
  s->strided = true;
  return TC_OK;
}

static tc_status read_names(reader *r, tc_status (*take)(reader *r, const tc_lexer *at, tc_sv name)) {
  do {
    tc_sv name;
    tc_lexer at = *r->lx;
    TC_TRY(name_of(r, &name));
    TC_TRY(take(r, &at, name));
  } while (tc_lex_eat(r->lx, ","));
  return TC_OK;
}

static tc_status read_arg(reader *r) {
  tc_user_arg a = {.number = -1};
  tc_lexer at = *r->lx;
  TC_TRY(name_of(r, &a.name));
  for (int32_t i = 0; i < r->u->args.count; i++)
    if (tc_sv_eq(r->u->args.data[i].name, a.name))
      return tc_lex_error(&at, "the kernel has two arguments '" TC_SV_FMT "'", TC_SV_ARG(a.name));
  const tc_user_shape *s = shape_named(r->u, a.name);
  if (s && !tc_lex_at(r->lx, ":") && !tc_lex_at(r->lx, "=")) {
    a.shape = tc_arena_copy(r->arena, s, sizeof *s);
    tc_vec_push(r->arena, &r->u->args, a);
    return TC_OK;
  }
  if (tc_lex_eat(r->lx, "=")) {
    TC_TRY(tc_ex_parse(r->lx, &a.value));
  } else {
    for (int32_t i = 0; i < r->schema.n_args; i++)
      if (tc_sv_eq(r->schema.args[i].name, a.name)) a.number = i;
    tc_ex *x = TC_NEW(r->arena, tc_ex);
    *x = (tc_ex){.kind = TC_EX_NAME, .text = a.name, .line = at.tok.line, .column = at.tok.column};
    if (a.number < 0) a.value = x;
  }
  if (!tc_lex_at(r->lx, ":"))
    return tc_lex_error(&at,
                        "'" TC_SV_FMT "' is no tensor with a shape above; a number is passed as NAME : dtype or NAME = "
                        "expression : dtype",
                        TC_SV_ARG(a.name));
  tc_lex_next(r->lx);
  TC_TRY(dtype_of(r, &a.dtype, &a.variable));
  tc_vec_push(r->arena, &r->u->args, a);
  return TC_OK;
}

static tc_status read_launch(reader *r) {
  struct tc_user_op *u = r->u;
  tc_lexer at = *r->lx;
  if (u->grid.count) return tc_lex_error(&at, "'launch' is there twice");
  TC_TRY(tc_lex_expect(r->lx, "("));
  do TC_TRY(read_arg(r));
  while (tc_lex_eat(r->lx, ","));
  TC_TRY(tc_lex_expect(r->lx, ")"));
  TC_TRY(tc_lex_expect(r->lx, "blocks"));
  tc_ex_list grid = {0}, lanes = {0};
  TC_TRY(read_tuple(r, "'blocks'", &grid));
  if (grid.count > 3) return tc_lex_error(&at, "a grid has at most 3 dimensions");
  for (int32_t i = 0; i < grid.count; i++) tc_vec_push(r->arena, &u->grid, grid.data[i]);
  TC_TRY(tc_lex_expect(r->lx, "lanes"));
  TC_TRY(read_tuple(r, "'lanes'", &lanes));
  if (lanes.count != 1) return tc_lex_error(&at, "lanes are one number");
  u->lanes = lanes.data[0];
  return TC_OK;
}

static tc_status read_source(reader *r) {
  tc_user_source s = {0};
  tc_lexer at = *r->lx;
  TC_TRY(text_of(r, &s.language));
  if (!s.language.size) return tc_lex_error(&at, "the language of a source has a name");
  for (int32_t i = 0; i < r->u->sources.count; i++)
    if (tc_sv_eq(r->u->sources.data[i].language, s.language))
      return tc_lex_error(&at, "there are two sources in '" TC_SV_FMT "'", TC_SV_ARG(s.language));
  if (tc_lex_eat(r->lx, "declarations")) {
    TC_TRY(text_of(r, &s.declarations));
    TC_TRY(tc_lex_expect(r->lx, "body"));
  }
  TC_TRY(text_of(r, &s.body));
  tc_vec_push(r->arena, &r->u->sources, s);
  return TC_OK;
}

static tc_status read_flops(reader *r) {
  tc_ex_list x = {0};
  tc_lexer at = *r->lx;
  TC_TRY(read_tuple(r, "'flops'", &x));
  if (x.count != 1) return tc_lex_error(&at, "'flops' is one expression");
  r->u->flops = x.data[0];
  return TC_OK;
}

static tc_status read_item(reader *r) {
  static const char *const named[] = {"let", "constant", "heuristic"};
  tc_lexer ahead = *r->lx;
  tc_lex_next(&ahead);
  if (r->lx->tok.kind == TC_TOK_IDENT && tc_lex_at(&ahead, ":")) return read_shape(r);
  for (int32_t i = 0; i < 3; i++)
    if (tc_lex_eat(r->lx, named[i])) return read_named(r, i);
  if (tc_lex_eat(r->lx, "dtype")) return read_dtypes(r);
  if (tc_lex_eat(r->lx, "autotune")) return read_autotune(r);
  if (tc_lex_eat(r->lx, "mutates")) return read_names(r, take_mutated);
  if (tc_lex_eat(r->lx, "strided")) return read_names(r, take_strided);
  if (tc_lex_eat(r->lx, "launch")) return read_launch(r);
  if (tc_lex_eat(r->lx, "source")) return read_source(r);
  if (tc_lex_eat(r->lx, "graph")) return text_of(r, &r->u->graph);
  if (tc_lex_eat(r->lx, "grad")) return text_of(r, &r->u->grad);
  if (tc_lex_eat(r->lx, "flops")) return read_flops(r);
  return tc_lex_error(r->lx, "expected a shape (NAME : dtype[…]), dtype, let, constant, heuristic, autotune, mutates, "
                             "strided, launch, source, graph, grad or flops");
}

// ---- the whole ----
static tc_status check(reader *r, const tc_lexer *at) {
  struct tc_user_op *u = r->u;
  if (!u->grid.count && u->sources.count)
    return tc_lex_error(at, "there is a source, but nothing says how to launch it");
  if (!u->grid.count && !u->graph.size && !r->hosted)
    return tc_lex_error(at, "the definition has neither a kernel (launch, source) nor a graph");
  if (!u->grid.count && u->graph.size) return TC_OK;
  if (u->grid.count && !u->sources.count) return tc_lex_error(at, "there is a launch, but no source");
  if (r->schema.n_returns < 1) return tc_lex_error(at, "an op with a kernel has a result");
  for (int32_t i = 0; i < r->schema.n_args; i++) {
    const tc_schema_arg *a = &r->schema.args[i];
    bool tensor = a->type == TC_ST_TENSOR,
         number = a->type == TC_ST_INT || a->type == TC_ST_FLOAT || a->type == TC_ST_BOOL;
    if (a->is_list || a->is_optional || a->writes || (!tensor && !number))
      return tc_lex_error(at, "arguments of an op with a kernel are Tensor, int, float or bool: '" TC_SV_FMT "' is not",
                          TC_SV_ARG(a->name));
    if (tensor && !shape_named(u, a->name))
      return tc_lex_error(at, "the shape of '" TC_SV_FMT "' is missing", TC_SV_ARG(a->name));
  }
  for (int32_t i = 0, found; i < r->schema.n_returns; i++) {
    found = 0;
    for (int32_t k = 0; k < u->shapes.count; k++) found |= u->shapes.data[k].result == i;
    if (!found) return tc_lex_error(at, "the shape of result %d is missing", i);
  }
  return TC_OK;
}

static void choose(struct tc_user_op *u, const tc_user_device *d) {
  for (int32_t i = 0; i < u->sources.count; i++) {
    const tc_user_source *s = &u->sources.data[i];
    bool own = d->language.size && tc_sv_eq(s->language, d->language);
    if (own || (!u->chosen && d->generates && tc_sv_is(s->language, TC_USER_KERNEL_IR))) u->chosen = s;
  }
}

// What lowers the op where a source is for the device: the lowering makes a call of it, the plan a launch.
static int32_t lower_as_call(tc_op_args *a) {
  tc_lo_call(a);
  return TC_STATUS_OK;
}

static const char *zero_ended(tc_arena *arena, tc_sv text) { return text.size ? tc_sv_z(arena, text) : NULL; }

typedef struct definition {
  tc_op_registry *r;
  tc_lexer *lx;
  const tc_user_device *device;
  tc_arena *arena;
} definition;

static tc_status define(definition *d) {
  tc_arena *arena = d->arena;
  struct tc_user_op *u = TC_NEW(arena, struct tc_user_op);
  reader r = {.lx = d->lx, .arena = arena, .u = u, .hosted = d->device->reference != NULL};
  size_t start = d->lx->pos - d->lx->tok.text.size;
  TC_TRY(tc_lex_expect(d->lx, "op"));
  tc_lexer at = *d->lx;
  TC_TRY(text_of(&r, &u->schema));
  TC_TRY(tc_schema_parse(arena, u->schema, &r.schema), "in the definition at " TC_SV_FMT ":%d:%d",
         TC_SV_ARG(d->lx->name), (int)at.tok.line, (int)at.tok.column);
  if (!r.schema.ns.size || tc_sv_is(r.schema.ns, "aten"))
    return tc_lex_error(&at, "the op needs a namespace of its own: \"user::" TC_SV_FMT "(…\"",
                        TC_SV_ARG(r.schema.name));
  TC_TRY(tc_lex_expect(d->lx, "{"));
  while (!tc_lex_at(d->lx, "}")) TC_TRY(read_item(&r));
  TC_TRY(check(&r, &at));
  u->text = tc_sv_sub(d->lx->text, start, d->lx->pos);
  TC_TRY(tc_lex_expect(d->lx, "}"));
  choose(u, d->device);
  tc_sv name = tc_sv_printf(arena, TC_SV_FMT "::" TC_SV_FMT "%s" TC_SV_FMT, TC_SV_ARG(r.schema.ns),
                            TC_SV_ARG(r.schema.name), r.schema.overload.size ? "." : "", TC_SV_ARG(r.schema.overload));
  const tc_op *old = tc_op_find(d->r, name);
  if (old && old->user && tc_sv_eq(old->user->text, u->text)) return TC_OK;
  if (old) return tc_lex_error(&at, "the op '" TC_SV_FMT "' is there already", TC_SV_ARG(name));
  tc_op_def *def = TC_NEW(arena, tc_op_def);
  *def = (tc_op_def){.schema = tc_sv_z(arena, u->schema),
                     .traits = TC_OP_COMPLEX,
                     .decompose = zero_ended(arena, u->graph),
                     .grad = zero_ended(arena, u->grad)};
  if (u->grid.count || !u->graph.size) def->meta = user_meta;
  if (u->chosen) def->lower = lower_as_call;
  if (!u->graph.size) def->ref = d->device->reference, u->host = d->device->host;
  return tc_op_register_user(d->r, def, u);
}

static tc_status define_all(void *arg) {
  definition *d = arg;
  if (!tc_lex_at(d->lx, "op")) return TC_OK;
  // Trees name pieces of the text: both stay with the registry.
  d->lx->arena = d->arena;
  d->lx->text = tc_sv_copy(d->arena, d->lx->text);
  d->lx->name = tc_sv_copy(d->arena, d->lx->name);
  while (tc_lex_at(d->lx, "op")) TC_TRY(define(d));
  return TC_OK;
}

tc_status tc_user_ops_define(tc_op_registry *r, tc_lexer *lx, const tc_user_device *device) {
  tc_arena *before = lx->arena;
  definition d = {r, lx, device, tc_op_registry_arena(r)};
  tc_status s = tc_arena_guard(d.arena, define_all, &d);
  lx->arena = before;
  return s;
}
