// The op registry: declaration rows with their schemas and texts parsed, found by name.
//
// For each functional op "f.o(Tensor self, …) -> Tensor" an in-place op "f_.o(Tensor(a!) self, …) -> Tensor(a!)" is
// made, unless a row declares it: its meta function is the functional op's and functionalization replaces it by that
// op. Likewise for each op that gives new tensors one that writes them into further arguments: "f.out", or "f.o_out".
#include <stdio.h>
#include <string.h>

#include "core/ir/userop.h"

struct tc_op_registry {
  tc_arena *arena;
  tc_map *by_name; // full name → tc_op *
  tc_map *by_base; // name without overload → op_list *
  TC_VEC(const tc_op *) declared;
};

typedef TC_VEC(const tc_op *) op_list;

static tc_sv full_name(tc_arena *arena, tc_sv ns, tc_sv name, tc_sv overload) {
  return tc_sv_printf(arena, TC_SV_FMT "::" TC_SV_FMT "%s" TC_SV_FMT, TC_SV_ARG(ns), TC_SV_ARG(name),
                      overload.size ? "." : "", TC_SV_ARG(overload));
}

typedef struct registration {
  tc_op_registry *r;
  const tc_op_def *def;
  tc_sv plugin;
  const struct tc_user_op *user;
} registration;

// The row as this version's struct: an older plugin's may be shorter.
static const tc_op_def *own_def(tc_arena *arena, const tc_op_def *def) {
  if (def->struct_size == 0) return def;
  tc_op_def *copy = TC_NEW(arena, tc_op_def);
  memcpy(copy, def, def->struct_size < sizeof *copy ? (size_t)def->struct_size : sizeof *copy);
  return copy;
}

static bool is_tensor(const tc_schema_arg *a) {
  return a->type == TC_ST_TENSOR && !a->is_list && !a->is_optional && !a->writes;
}

// How many arguments the in-place form writes, one for each result: the first; of a kernel by hand what it changes. 0:
// there is none.
static int32_t count_written(const tc_op *op) {
  const tc_schema *s = &op->schema;
  int32_t n = op->user && op->user->mutates.count > 1 ? op->user->mutates.count : 1;
  if (s->n_args < 1 || s->n_returns != n || s->varargs || tc_sv_ends(s->name, "_") || !is_tensor(&s->args[0])) return 0;
  if (op->def->traits & TC_OP_DATA_DEPENDENT) return 0; // what is written keeps its sizes
  for (int32_t i = 0; i < n; i++)
    if (!is_tensor(&s->returns[i])) return 0;
  return n;
}

static void derive_inplace(tc_op_registry *r, const tc_op *base) {
  const tc_schema *s = &base->schema;
  int32_t n = count_written(base);
  if (n == 0) return;
  tc_sv name = tc_sv_printf(r->arena, TC_SV_FMT "_", TC_SV_ARG(s->name));
  tc_op *op = TC_NEW(r->arena, tc_op);
  *op = *base;
  op->schema.name = name;
  op->full_name = full_name(r->arena, s->ns, name, s->overload);
  op->functional = base;
  op->body = op->decompose = (tc_ex_program){0};
  tc_schema_arg *args = tc_arena_copy(r->arena, s->args, sizeof *args * (size_t)s->n_args);
  tc_schema_arg *ret = tc_arena_copy(r->arena, s->returns, sizeof *ret * (size_t)n);
  for (int32_t i = 0; i < n; i++) {
    tc_schema_arg *written = &args[n > 1 ? base->user->mutates.data[i].arg : 0];
    written->alias = ret[i].alias = (char)('a' + i);
    written->writes = ret[i].writes = true;
  }
  op->schema.args = args, op->schema.returns = ret;
  bool fresh;
  tc_map_entry *e = tc_map_put(r->by_name, op->full_name, &fresh);
  if (fresh) e->value.ptr = op;
}

// The overload that writes the results of `s` into arguments, where it is neither "out" nor "…_out".
static const char *irregular_out(tc_sv name, tc_sv overload) {
  static const struct {
    const char *name, *overload, *out;
  } table[] = {
      {"all", "", "all_out"},
      {"any", "", "all_out"},
      {"arange", "start_step", "start_out"},
      {"bernoulli", "p", "float_out"},
      {"div", "Tensor_mode", "out_mode"},
      {"fractional_max_pool2d", "", "output"},
      {"fractional_max_pool3d", "", "output"},
      {"geqrf", "", "a"},
      {"kthvalue", "", "values"},
      {"linalg_cholesky_ex", "", "L"},
      {"linalg_eigh", "", "eigvals"},
      {"linalg_inv_ex", "", "inverse"},
      {"linalg_svd", "", "U"},
      {"max", "", "unary_out"},
      {"max", "dim", "dim_max"},
      {"max", "other", "out"},
      {"mean", "", "dtype_out"},
      {"median", "dim", "dim_values"},
      {"min", "", "unary_out"},
      {"min", "dim", "dim_min"},
      {"min", "other", "out"},
      {"mode", "", "values"},
      {"nanmedian", "dim", "dim_values"},
      {"nll_loss_forward", "", "output"},
      {"norm", "ScalarOpt_dim", "out"},
      {"norm", "ScalarOpt_dim_dtype", "dtype_out"},
      {"prod", "dim_int", "int_out"},
      {"sort", "", "values"},
      {"sort", "stable", "values_stable"},
      {"sum", "dim_IntList", "IntList_out"},
      {"svd", "", "U"},
      {"topk", "", "values"},
      {"triangular_solve", "", "X"},
      {"xlogy", "Scalar_Other", "OutScalar_Other"},
      {"xlogy", "Scalar_Self", "OutScalar_Self"},
      {"xlogy", "Tensor", "OutTensor"},
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (tc_sv_is(name, table[i].name) && tc_sv_is(overload, table[i].overload)) return table[i].out;
  return NULL;
}

static bool has_out_form(const tc_op *base) {
  const tc_schema *s = &base->schema;
  if (s->varargs || s->n_returns < 1 || (base->def->traits & (TC_OP_VIEW | TC_OP_EFFECT)) || tc_sv_ends(s->name, "_"))
    return false;
  for (int32_t i = 0; i < s->n_args; i++)
    if (s->args[i].writes) return false;
  for (int32_t i = 0; i < s->n_returns; i++)
    if (s->returns[i].type != TC_ST_TENSOR || s->returns[i].is_list || s->returns[i].alias) return false;
  return true;
}

static void add_out(tc_op_registry *r, const tc_op *base, tc_sv overload) {
  const tc_schema *s = &base->schema;
  tc_sv name = full_name(r->arena, s->ns, s->name, overload);
  bool fresh, backward = s->n_returns == 1 && tc_sv_ends(s->name, "_backward");
  tc_map_entry *e = tc_map_put(r->by_name, name, &fresh);
  if (!fresh) return;
  tc_op *op = TC_NEW(r->arena, tc_op);
  *op = *base;
  op->full_name = name, op->out_of = base, op->functional = NULL;
  op->body = op->decompose = op->grad = (tc_ex_program){0};
  op->schema.overload = overload;
  op->schema.n_args = s->n_args + s->n_returns;
  tc_schema_arg *args = TC_NEW_ARRAY(r->arena, tc_schema_arg, op->schema.n_args),
                *returns = TC_NEW_ARRAY(r->arena, tc_schema_arg, s->n_returns);
  for (int32_t i = 0; i < s->n_args; i++) args[i] = s->args[i];
  for (int32_t i = 0; i < s->n_returns; i++) {
    tc_sv given = s->returns[i].name;
    if (s->n_returns == 1) given = backward && tc_sv_is(overload, "grad_input") ? overload : TC_SV("out");
    else if (tc_sv_is(overload, "dim_max")) given = i ? TC_SV("max_values") : TC_SV("max");
    else if (tc_sv_is(overload, "dim_min")) given = i ? TC_SV("min_indices") : TC_SV("min");
    else if (!given.size) given = tc_sv_printf(r->arena, "out%d", i);
    returns[i] = s->returns[i];
    returns[i].alias = 'a' + i, returns[i].writes = true;
    args[s->n_args + i] = returns[i];
    args[s->n_args + i].name = given, args[s->n_args + i].kwarg_only = true;
  }
  op->schema.args = args, op->schema.returns = returns;
  e->value.ptr = op;
}

static void derive_out(tc_op_registry *r, const tc_op *base) {
  const tc_schema *s = &base->schema;
  if (!has_out_form(base)) return;
  const char *irregular = irregular_out(s->name, s->overload);
  if (irregular) add_out(r, base, tc_sv_of(irregular));
  else if (!s->overload.size || tc_sv_is(s->overload, "Tensor")) add_out(r, base, TC_SV("out"));
  if (s->overload.size) add_out(r, base, tc_sv_printf(r->arena, TC_SV_FMT "_out", TC_SV_ARG(s->overload)));
  if (tc_sv_ends(s->name, "_backward") && s->n_returns == 1) add_out(r, base, TC_SV("grad_input"));
}

static tc_status parse_text(tc_op_registry *r, const tc_op *op, const char *what, const char *text,
                            tc_ex_program *out) {
  if (!text) return TC_OK;
  tc_sv name = tc_sv_printf(r->arena, "%s of " TC_SV_FMT, what, TC_SV_ARG(op->full_name));
  return tc_ex_parse_program(r->arena, name, tc_sv_of(text), out);
}

static tc_status parse_grad(tc_op_registry *r, tc_op *op, const char *text) {
  if (!text) return TC_OK;
  tc_sv name = tc_sv_printf(r->arena, "derivative of " TC_SV_FMT, TC_SV_ARG(op->full_name));
  return tc_ex_parse_labelled(r->arena, name, tc_sv_of(text), &op->grad, &op->grad_labels);
}

static tc_status do_register(void *p) {
  registration *g = p;
  tc_op_registry *r = g->r;
  if (!g->def->schema) return tc_error(TC_STATUS_INVALID_ARGUMENT, "an op row has no schema");
  tc_op *op = TC_NEW(r->arena, tc_op);
  op->def = own_def(r->arena, g->def);
  op->plugin = tc_sv_copy(r->arena, g->plugin);
  op->user = g->user;
  TC_TRY(tc_schema_parse(r->arena, tc_sv_of(g->def->schema), &op->schema), "while registering the op '%s'",
         g->def->schema);
  op->full_name = full_name(r->arena, op->schema.ns, op->schema.name, op->schema.overload);
  TC_TRY(parse_text(r, op, "body", op->def->body, &op->body));
  TC_TRY(parse_text(r, op, "decomposition", op->def->decompose, &op->decompose));
  TC_TRY(parse_grad(r, op, op->def->grad));
  TC_TRY(parse_text(r, op, "forward text", op->def->grad_forward, &op->forward));
  bool fresh;
  tc_map_entry *e = tc_map_put(r->by_name, op->full_name, &fresh);
  const tc_op *was = fresh ? NULL : e->value.ptr;
  if (was && !was->functional && !was->out_of)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "the op '" TC_SV_FMT "' is declared twice", TC_SV_ARG(op->full_name));
  e->value.ptr = op;
  tc_vec_push(r->arena, &r->declared, op);
  tc_map_entry *base = tc_map_put(r->by_base, full_name(r->arena, op->schema.ns, op->schema.name, TC_SV("")), &fresh);
  if (fresh) base->value.ptr = TC_NEW(r->arena, op_list);
  tc_vec_push(r->arena, (op_list *)base->value.ptr, op);
  derive_inplace(r, op);
  derive_out(r, op);
  return TC_OK;
}

tc_status tc_op_register(tc_op_registry *r, const tc_op_def *def, tc_sv plugin) {
  registration g = {.r = r, .def = def, .plugin = plugin};
  return tc_arena_guard(r->arena, do_register, &g);
}

tc_status tc_op_register_user(tc_op_registry *r, const tc_op_def *def, const struct tc_user_op *user) {
  registration g = {.r = r, .def = def, .plugin = {0}, .user = user};
  return tc_arena_guard(r->arena, do_register, &g);
}

tc_arena *tc_op_registry_arena(const tc_op_registry *r) { return r->arena; }

typedef struct declaration {
  tc_op_registry *r;
  tc_sv schema;
} declaration;

static tc_status do_declare(void *p) {
  declaration *d = p;
  tc_op_registry *r = d->r;
  tc_op *op = TC_NEW(r->arena, tc_op);
  tc_op_def *def = TC_NEW(r->arena, tc_op_def);
  bool fresh;
  *def = (tc_op_def){.schema = tc_sv_z(r->arena, d->schema)};
  op->def = def, op->declared = true;
  TC_TRY(tc_schema_parse(r->arena, tc_sv_of(def->schema), &op->schema), "while declaring an op");
  op->full_name = full_name(r->arena, op->schema.ns, op->schema.name, op->schema.overload);
  tc_map_entry *e = tc_map_put(r->by_name, op->full_name, &fresh);
  if (fresh) e->value.ptr = op;
  return TC_OK;
}

tc_status tc_op_declare(tc_op_registry *r, tc_sv schema) {
  declaration d = {r, schema};
  return tc_arena_guard(r->arena, do_declare, &d);
}

typedef struct derivation {
  tc_op_registry *r;
  const char *ns;
  const tc_op_derivative *d;
} derivation;

// A text labelled "forward" says what stands for the op instead.
static tc_status derive_one(tc_op_registry *r, tc_op *op, const tc_op_derivative *d) {
  TC_TRY(parse_grad(r, op, d->grad));
  if (op->grad.n_results == 0 || !tc_sv_is(op->grad_labels[0], "forward")) return TC_OK;
  op->forward = op->grad;
  op->grad = (tc_ex_program){0};
  return TC_OK;
}

static tc_status do_derive(void *p) {
  derivation *x = p;
  tc_op_registry *r = x->r;
  bool qualified = strstr(x->d->op, "::") != NULL;
  tc_sv name = tc_sv_printf(r->arena, "%s%s%s", qualified ? "" : x->ns, qualified ? "" : "::", x->d->op);
  int32_t n, done = 0;
  const tc_op *const *all = tc_op_overloads(r, name, &n);
  const tc_map_entry *one = tc_map_find(r->by_name, name);
  if (one && strchr(x->d->op, '.')) return derive_one(r, one->value.ptr, x->d);
  for (int32_t i = 0; i < n; i++) { // those that have none of their own
    tc_op *op = tc_map_find(r->by_name, all[i]->full_name)->value.ptr;
    if (op->grad.n_results == 0 && op->forward.n_results == 0) TC_TRY(derive_one(r, op, x->d));
    done++;
  }
  if (done) return TC_OK;
  return tc_error(TC_STATUS_INVALID_ARGUMENT, "a derivative of '%s', which is no op", x->d->op);
}

tc_status tc_op_derive(tc_op_registry *r, const char *ns, const tc_op_derivative *d) {
  derivation x = {r, ns, d};
  return tc_arena_guard(r->arena, do_derive, &x);
}

typedef struct refusing {
  tc_op_registry *r;
  const char *ns;
  const tc_op_refusal *d;
} refusing;

static tc_status do_refuse(void *p) {
  refusing *x = p;
  int32_t n;
  const tc_op *const *all = tc_op_overloads(x->r, tc_sv_printf(x->r->arena, "%s::%s", x->ns, x->d->op), &n);
  for (int32_t i = 0; i < n; i++) {
    tc_op *op = tc_map_find(x->r->by_name, all[i]->full_name)->value.ptr;
    if (op->def->traits & TC_OP_COMPLEX)
      return tc_error(TC_STATUS_INVALID_ARGUMENT, "a refusal by '%s', which takes complex numbers", x->d->op);
    op->refusal = x->d->text;
  }
  if (n) return TC_OK;
  return tc_error(TC_STATUS_INVALID_ARGUMENT, "a refusal by '%s', which is no op", x->d->op);
}

tc_status tc_op_refuse(tc_op_registry *r, const char *ns, const tc_op_refusal *d) {
  refusing x = {r, ns, d};
  return tc_arena_guard(r->arena, do_refuse, &x);
}

typedef struct restricting {
  tc_op_registry *r;
  const char *ns;
  const tc_op_restriction *d;
} restricting;

static tc_status add_limit(tc_op_registry *r, tc_op *op, const tc_op_restriction *d) {
  tc_op_limit *l = TC_NEW(r->arena, tc_op_limit);
  l->next = op->limits, l->text = d->text;
  op->limits = l;
  return parse_text(r, op, "restriction", tc_sv_printf(r->arena, "if(%s, 1, 0)", d->when).data, &l->when);
}

static tc_status do_restrict(void *p) {
  restricting *x = p;
  int32_t n;
  tc_sv name = tc_sv_printf(x->r->arena, "%s::%s", x->ns, x->d->op);
  const char *overload = strchr(x->d->op, '.');
  tc_sv exact = overload && strcmp(overload, ".default") == 0 ? tc_sv_sub(name, 0, name.size - 8) : name;
  const tc_map_entry *one = overload ? tc_map_find(x->r->by_name, exact) : NULL;
  if (one) return add_limit(x->r, one->value.ptr, x->d);
  const tc_op *const *all = tc_op_overloads(x->r, name, &n);
  for (int32_t i = 0; i < n; i++)
    TC_TRY(add_limit(x->r, tc_map_find(x->r->by_name, all[i]->full_name)->value.ptr, x->d));
  if (n) return TC_OK;
  return tc_error(TC_STATUS_INVALID_ARGUMENT, "a restriction of '%s', which is no op", x->d->op);
}

tc_status tc_op_restrict(tc_op_registry *r, const char *ns, const tc_op_restriction *d) {
  restricting x = {r, ns, d};
  return tc_arena_guard(r->arena, do_restrict, &x);
}

typedef struct creation {
  tc_arena *arena;
  tc_op_registry **out;
} creation;

static tc_status do_create(void *p) {
  creation *c = p;
  tc_op_registry *r = TC_NEW(c->arena, tc_op_registry);
  r->arena = c->arena;
  r->by_name = tc_map_create(c->arena);
  r->by_base = tc_map_create(c->arena);
  *c->out = r;
  return TC_OK;
}

tc_status tc_op_registry_create(tc_arena *arena, tc_op_registry **out) {
  *out = NULL;
  creation c = {.arena = arena, .out = out};
  return tc_arena_guard(arena, do_create, &c);
}

const tc_op *tc_op_find(const tc_op_registry *r, tc_sv name) {
  const tc_map_entry *e = tc_map_find(r->by_name, name);
  return e ? e->value.ptr : NULL;
}

int32_t tc_op_written_argument(const tc_op *op, int32_t result) {
  const tc_schema *s = &op->schema;
  int32_t found = -1;
  for (int32_t k = 0; result < s->n_returns && k < s->n_args; k++) {
    if (s->args[k].writes && s->args[k].alias != 0 && s->args[k].alias == s->returns[result].alias) found = k;
  }
  return found;
}

const tc_op *tc_op_functional(const tc_op_registry *r, const tc_op *op) {
  const tc_schema *s = &op->schema;
  char name[256];
  if (op->functional) return op->functional;
  if (s->n_args < 1 || !s->args[0].writes || !tc_sv_ends(s->name, "_") ||
      s->ns.size + s->name.size + s->overload.size + 4 > sizeof name)
    return NULL;
  tc_sv base = tc_sv_sub(s->name, 0, s->name.size - 1);
  int n = snprintf(name, sizeof name, TC_SV_FMT "::" TC_SV_FMT "%s" TC_SV_FMT, TC_SV_ARG(s->ns), TC_SV_ARG(base),
                   s->overload.size ? "." : "", TC_SV_ARG(s->overload));
  const tc_op *named = tc_op_find(r, (tc_sv){name, (size_t)n});
  // floor_divide_.Tensor is floor_divide in place, which has no overload's name.
  return named || !tc_sv_is(s->overload, "Tensor") ? named : tc_op_find(r, (tc_sv){name, s->ns.size + 2 + base.size});
}

bool tc_op_takes_numbers(const tc_op *op) {
  return (op->def->traits & TC_OP_TAKES_NUMBERS) || (op->body.n_results && !op->def->lower);
}

const tc_op *const *tc_op_overloads(const tc_op_registry *r, tc_sv base, int32_t *out_count) {
  const tc_map_entry *e = tc_map_find(r->by_base, base);
  const op_list *list = e ? e->value.ptr : NULL;
  *out_count = list ? list->count : 0;
  return list ? list->data : NULL;
}

int32_t tc_op_registry_count(const tc_op_registry *r) { return r->declared.count; }
const tc_op *tc_op_registry_at(const tc_op_registry *r, int32_t i) { return r->declared.data[i]; }

// "aten.add.Tensor" → "aten::add.Tensor"; "aten.relu.default" and "aten.relu" → "aten::relu". In `buffer`, false if
// long.
static bool target_name(tc_sv target, char *buffer, size_t size, tc_sv *out) {
  if (tc_sv_starts(target, "torch.ops.")) target = tc_sv_sub(target, 10, target.size);
  tc_sv ns, name, overload = tc_sv_cut(target, '.', &ns);
  if (!overload.size) {
    *out = target;
    return true;
  }
  overload = tc_sv_cut(overload, '.', &name);
  if (tc_sv_is(overload, "default")) overload = TC_SV("");
  if (ns.size + name.size + overload.size + 4 > size) return false;
  int n = snprintf(buffer, size, TC_SV_FMT "::" TC_SV_FMT "%s" TC_SV_FMT, TC_SV_ARG(ns), TC_SV_ARG(name),
                   overload.size ? "." : "", TC_SV_ARG(overload));
  *out = (tc_sv){buffer, (size_t)n};
  return true;
}

// Ops of PyTorch that the core leaves to a plugin, for the message when that is not there; "" for others.
static const char *plugin_of(tc_sv name) {
  static const char *const fft[] = {"aten::fft_", "aten::_fft_", "aten::stft", "aten::istft"};
  for (size_t i = 0; i < sizeof fft / sizeof *fft; i++) {
    if (tc_sv_starts(name, fft[i])) return "; the fft plugin has it";
  }
  return "";
}

enum { NEAREST_MAX = 4096 };
tc_status tc_op_find_target(const tc_op_registry *r, tc_sv target, const tc_op **out) {
  char buffer[512];
  tc_sv name = target;
  *out = NULL;
  if (!target_name(target, buffer, sizeof buffer, &name))
    return tc_error(TC_STATUS_NOT_FOUND, "no op has a name of %zu characters", target.size);
  *out = tc_op_find(r, name);
  if (*out) return TC_OK;
  if (plugin_of(name)[0])
    return tc_error(TC_STATUS_NOT_FOUND, "the op '" TC_SV_FMT "' (" TC_SV_FMT ") is unknown%s", TC_SV_ARG(name),
                    TC_SV_ARG(target), plugin_of(name));
  tc_sv names[NEAREST_MAX];
  int32_t n = tc_map_count(r->by_name) < NEAREST_MAX ? tc_map_count(r->by_name) : NEAREST_MAX;
  for (int32_t i = 0; i < n; i++) names[i] = tc_map_at(r->by_name, i)->key;
  tc_sv near = tc_sv_nearest(name, names, n);
  if (near.size)
    return tc_error(TC_STATUS_NOT_FOUND,
                    "the op '" TC_SV_FMT "' (" TC_SV_FMT ") is not known; the nearest known one is '" TC_SV_FMT "'",
                    TC_SV_ARG(name), TC_SV_ARG(target), TC_SV_ARG(near));
  return tc_error(TC_STATUS_NOT_FOUND, "the op '" TC_SV_FMT "' (" TC_SV_FMT ") is not known", TC_SV_ARG(name),
                  TC_SV_ARG(target));
}
