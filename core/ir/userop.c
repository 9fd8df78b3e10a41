// Ops with kernels by hand: what names mean in one use of them, their meta function, their operations.
#include "core/ir/opargs.h"
#include "core/ir/userop_internal.h"

// ---- names ----
static const tc_sym *find_bound(const tc_user_env *e, tc_sv name) {
  for (int32_t i = e->bound.count; i-- > 0;)
    if (tc_sv_eq(e->bound.data[i].name, name)) return e->bound.data[i].value;
  return NULL;
}

void tc_user_env_set(tc_user_env *e, tc_sv name, const tc_sym *value) {
  tc_user_bound b = {name, value};
  tc_vec_push(e->arena, &e->bound, b);
}

static const tc_tensor_type *type_of_arg(const tc_user_env *e, int32_t arg) {
  const tc_arg *a = arg >= 0 && arg < e->n_args ? &e->args[arg] : NULL;
  return a && a->kind == TC_AK_TENSOR && a->value && a->value->kind == TC_VALUE_TENSOR ? &a->value->type : NULL;
}

static int32_t arg_named(const tc_user_env *e, const tc_ex *x) {
  const tc_schema *s = &e->op->schema;
  for (int32_t i = 0; x->kind == TC_EX_NAME && i < s->n_args; i++)
    if (tc_sv_eq(s->args[i].name, x->text)) return i;
  return -1;
}

static const tc_tensor_type *type_named(const tc_user_env *e, const tc_ex *x) {
  return type_of_arg(e, arg_named(e, x));
}

bool tc_user_is_strided(const struct tc_user_op *u, int32_t arg) {
  for (int32_t i = 0; i < u->shapes.count; i++)
    if (u->shapes.data[i].arg == arg && arg >= 0) return u->shapes.data[i].strided;
  return false;
}

// How the tensor lies; NULL for one that is always dense.
static const tc_tensor_type *layout_named(const tc_user_env *e, const tc_ex *x) {
  int32_t i = arg_named(e, x);
  if (!tc_user_is_strided(e->u, i)) return NULL;
  return e->layouts && e->layouts[i] ? e->layouts[i] : type_of_arg(e, i);
}

static const tc_sym *numel(tc_sym_ctx *c, const tc_tensor_type *t) {
  const tc_sym *n = tc_sym_int(c, 1);
  for (int32_t d = 0; d < t->rank; d++) n = tc_sym_mul(c, n, t->sizes[d]);
  return n;
}

static tc_status unknown(const tc_user_env *e, const tc_ex *x, const char *why) {
  tc_sb sb = tc_sb_make(e->arena);
  tc_ex_print(&sb, x);
  return tc_error(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT ", line %d: '" TC_SV_FMT "' %s", TC_SV_ARG(e->op->full_name),
                  (int)x->line, TC_SV_ARG(tc_sb_view(&sb)), why);
}

static tc_status element(const tc_user_env *e, const tc_ex *x, const tc_tensor_type *t, const tc_sym *const *from,
                         const tc_sym **out) {
  const tc_ex *d = x->kids[1];
  bool minus = d->kind == TC_EX_UNARY && tc_sv_is(d->text, "-");
  if (minus) d = d->kids[0];
  int64_t at = d->kind == TC_EX_INT ? (minus ? t->rank - d->integer : d->integer) : -1;
  if (at < 0 || at >= t->rank) return unknown(e, x, "is no dimension of the tensor");
  *out = from[at];
  return TC_OK;
}

static tc_status resolve(void *self, tc_sym_ctx *c, const tc_ex *x, const tc_sym **out) {
  const tc_user_env *e = self;
  const tc_tensor_type *t;
  *out = NULL;
  if (x->kind == TC_EX_NAME) {
    *out = find_bound(e, x->text);
    return *out ? TC_OK : unknown(e, x, "is not known here");
  }
  if (x->kind == TC_EX_MEMBER && (t = type_named(e, x->kids[0])) && tc_sv_is(x->text, "numel")) *out = numel(c, t);
  if (x->kind == TC_EX_MEMBER && tc_sv_is(x->text, "offset") && type_named(e, x->kids[0])) {
    t = layout_named(e, x->kids[0]);
    if (!t) return unknown(e, x, "is asked of a tensor that is not declared 'strided'");
    *out = t->offset;
  }
  if (x->kind != TC_EX_CALL || x->n != 2) return TC_OK;
  const tc_ex *callee = x->kids[0];
  if (callee->kind == TC_EX_NAME && tc_sv_is(callee->text, "numel")) {
    t = type_named(e, x->kids[1]);
    if (!t) return unknown(e, x->kids[1], "is no tensor argument");
    *out = numel(c, t);
  } else if (callee->kind == TC_EX_MEMBER && tc_sv_is(callee->text, "size") && (t = type_named(e, callee->kids[0]))) {
    return element(e, x, t, t->sizes, out);
  } else if (callee->kind == TC_EX_MEMBER && tc_sv_is(callee->text, "stride") && type_named(e, callee->kids[0])) {
    t = layout_named(e, callee->kids[0]);
    if (!t) return unknown(e, x, "is asked of a tensor that is not declared 'strided'");
    return element(e, x, t, t->strides, out);
  }
  return TC_OK;
}

tc_status tc_user_eval(tc_user_env *e, const tc_ex *x, const tc_sym **out) {
  return tc_status_note(tc_sym_from_ex_with(e->syms, NULL, x, false, resolve, e, out),
                        "in the definition of " TC_SV_FMT, TC_SV_ARG(e->op->full_name));
}

tc_dtype tc_user_dtype(const tc_user_env *e, tc_dtype dtype, tc_sv variable) {
  for (int32_t i = 0; dtype == TC_DTYPE_NONE && i < e->types.count; i++)
    if (tc_sv_eq(e->types.data[i].name, variable)) return (tc_dtype)e->types.data[i].value->value;
  return dtype;
}

// ---- binding ----
static tc_status mismatch(const tc_user_env *e, const tc_user_shape *s, const tc_tensor_type *t, const char *why) {
  tc_sb sb = tc_sb_make(e->arena);
  tc_type_print(&sb, t);
  return tc_error(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT ": '" TC_SV_FMT "' is " TC_SV_FMT ", %s",
                  TC_SV_ARG(e->op->full_name), TC_SV_ARG(s->name), TC_SV_ARG(tc_sb_view(&sb)), why);
}

static tc_status bind_dtype(tc_user_env *e, const tc_user_shape *s, const tc_tensor_type *t) {
  tc_dtype want = tc_user_dtype(e, s->dtype, s->variable);
  if (want != TC_DTYPE_NONE)
    return want == t->dtype ? TC_OK
                            : mismatch(e, s, t, tc_sv_printf(e->arena, "where %s is wanted", tc_dtype_name(want)).data);
  for (int32_t i = 0; i < e->u->dtypes.count; i++) {
    const tc_user_dtypes *d = &e->u->dtypes.data[i];
    if (tc_sv_eq(d->name, s->variable) && !(d->set >> t->dtype & 1))
      return mismatch(e, s, t, "a dtype it does not take");
  }
  tc_user_bound b = {s->variable, tc_sym_int(e->syms, t->dtype)};
  tc_vec_push(e->arena, &e->types, b);
  return TC_OK;
}

static tc_status require(tc_user_env *e, const tc_user_shape *s, const tc_tensor_type *t, const tc_sym *x,
                         const tc_sym *y) {
  if (tc_sym_prove(e->syms, tc_sym_cmp(e->syms, TC_SYM_EQ, x, y)) == 0) {
    tc_sb sb = tc_sb_make(e->arena);
    tc_sb_putz(&sb, "where a size of ");
    tc_sym_print(&sb, y);
    tc_sb_putz(&sb, " is wanted");
    return mismatch(e, s, t, tc_sb_view(&sb).data);
  }
  tc_vec_push(e->arena, &e->equal, x);
  tc_vec_push(e->arena, &e->equal, y);
  return TC_OK;
}

static tc_status bind_any(tc_user_env *e, const tc_user_shape *s, const tc_tensor_type *t) {
  if (!e->like) {
    e->like = t;
    return TC_OK;
  }
  if (e->like->rank != t->rank) return mismatch(e, s, t, "of another rank than the other tensors");
  for (int32_t d = 0; d < t->rank; d++) TC_TRY(require(e, s, t, t->sizes[d], e->like->sizes[d]));
  return TC_OK;
}

static tc_status bind_shape(tc_user_env *e, const tc_user_shape *s) {
  const tc_tensor_type *t = type_of_arg(e, s->arg);
  if (!t)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT ": '" TC_SV_FMT "' is no tensor", TC_SV_ARG(e->op->full_name),
                    TC_SV_ARG(s->name));
  TC_TRY(bind_dtype(e, s, t));
  if (s->any) return bind_any(e, s, t);
  if (s->rank != t->rank)
    return mismatch(e, s, t, tc_sv_printf(e->arena, "where %d dimensions are wanted", (int)s->rank).data);
  for (int32_t d = 0; d < t->rank; d++) {
    const tc_sym *want;
    if (s->sizes[d]->kind == TC_EX_NAME && !find_bound(e, s->sizes[d]->text)) {
      tc_user_env_set(e, s->sizes[d]->text, t->sizes[d]);
      continue;
    }
    TC_TRY(tc_user_eval(e, s->sizes[d], &want));
    TC_TRY(require(e, s, t, t->sizes[d], want));
  }
  return TC_OK;
}

tc_status tc_user_env_configure(tc_user_env *e, int32_t c) {
  const struct tc_user_op *u = e->u;
  const tc_sym *v;
  for (int32_t i = 0; i < u->constants.count; i++) {
    TC_TRY(tc_user_eval(e, u->constants.data[i].value, &v));
    tc_user_env_set(e, u->constants.data[i].name, v);
  }
  for (int32_t i = 0; c >= 0 && i < u->configs.data[c].n; i++) {
    TC_TRY(tc_user_eval(e, u->configs.data[c].set[i].value, &v));
    tc_user_env_set(e, u->configs.data[c].set[i].name, v);
  }
  for (int32_t i = 0; i < u->lets.count; i++) {
    TC_TRY(tc_user_eval(e, u->lets.data[i].value, &v));
    tc_user_env_set(e, u->lets.data[i].name, v);
  }
  return TC_OK;
}

tc_status tc_user_heuristic(tc_user_env *e, int32_t i, const tc_sym **out, int64_t *lo, int64_t *hi, bool *out_few) {
  int64_t hint;
  TC_TRY(tc_user_eval(e, e->u->heuristics.data[i].value, out));
  *out = tc_sym_simplify(e->syms, *out);
  tc_sym_range(e->syms, *out, lo, hi);
  if (tc_sym_is_const(*out)) *lo = *hi = (*out)->value;
  *out_few = *lo > INT32_MIN && *hi < INT32_MAX && *hi - *lo < TC_USER_HEURISTIC_VALUES;
  if (*out_few || !tc_sym_hint(e->syms, *out, &hint)) return TC_OK;
  *out_few = tc_sym_prove(e->syms, tc_sym_cmp(e->syms, TC_SYM_EQ, *out, tc_sym_int(e->syms, hint))) == 1;
  if (*out_few) *lo = *hi = hint, *out = tc_sym_int(e->syms, hint);
  return TC_OK;
}

tc_status tc_user_env_make(tc_arena *arena, tc_sym_ctx *syms, const tc_op *op, int32_t n_args, const tc_arg *args,
                           const tc_tensor_type *const *layouts, tc_user_env *out) {
  const struct tc_user_op *u = op->user;
  *out = (tc_user_env){.u = u, .op = op, .arena = arena, .syms = syms, .n_args = n_args, .args = args};
  out->layouts = layouts;
  for (int32_t i = 0; i < n_args && i < op->schema.n_args; i++) {
    const tc_arg *a = &args[i];
    if (a->kind == TC_AK_INT && a->sym) tc_user_env_set(out, op->schema.args[i].name, a->sym);
    if (a->kind == TC_AK_BOOL && !a->value)
      tc_user_env_set(out, op->schema.args[i].name, tc_sym_int(syms, a->integer != 0));
  }
  for (int32_t i = 0; i < u->shapes.count; i++)
    if (u->shapes.data[i].arg >= 0) TC_TRY(bind_shape(out, &u->shapes.data[i]));
  return tc_user_env_configure(out, -1);
}

// ---- meta ----
static tc_status set_result(tc_op_args *a, tc_user_env *e, const tc_user_shape *s) {
  const tc_sym *own[TC_MAX_RANK], *const *sizes = own;
  int32_t rank = s->rank;
  tc_dtype dtype = tc_user_dtype(e, s->dtype, s->variable);
  if (dtype == TC_DTYPE_NONE)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "'" TC_SV_FMT "' is no dtype of an argument", TC_SV_ARG(s->variable));
  if (s->any && !e->like)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "'" TC_SV_FMT "' has the shape [...], which no argument has",
                    TC_SV_ARG(s->name));
  if (s->any) rank = e->like->rank, sizes = e->like->sizes;
  for (int32_t d = 0; d < s->rank; d++) TC_TRY(tc_user_eval(e, s->sizes[d], &own[d]));
  tc_op_set_result(a, s->result, dtype, rank, sizes, NULL);
  return TC_OK;
}

// Numbers of 32 bits must have room.
static tc_status require_room(tc_op_args *a, tc_user_env *e) {
  for (int32_t i = 0; i < e->u->args.count; i++) {
    const tc_user_arg *g = &e->u->args.data[i];
    if (g->shape || !g->value || g->dtype != TC_I32) continue;
    const tc_sym *v, *most = tc_sym_int(e->syms, INT32_MAX);
    TC_TRY(tc_user_eval(e, g->value, &v));
    const tc_sym *fits = tc_sym_cmp(e->syms, TC_SYM_LE, v, most);
    int32_t known = tc_sym_prove(e->syms, fits);
    if (known == 0)
      return tc_error(TC_STATUS_INVALID_ARGUMENT, "the kernel's argument '" TC_SV_FMT "' has 32 bits, which is too few",
                      TC_SV_ARG(g->name));
    if (known < 0 && a->module) tc_module_require(a->module, fits);
  }
  return TC_OK;
}

// A heuristic that could have many values has the one that it has now.
static tc_status settle_heuristics(tc_op_args *a, tc_user_env *e) {
  const struct tc_user_op *u = e->u;
  for (int32_t c = u->configs.count ? 0 : -1; c < u->configs.count; c++) {
    int32_t before = e->bound.count;
    TC_TRY(tc_user_env_configure(e, c));
    for (int32_t i = 0; i < u->heuristics.count; i++) {
      const tc_sym *v;
      int64_t lo, hi, hint;
      bool few;
      TC_TRY(tc_user_heuristic(e, i, &v, &lo, &hi, &few));
      if (!few && a->module && tc_sym_hint(e->syms, v, &hint))
        tc_module_require(a->module, tc_sym_cmp(e->syms, TC_SYM_EQ, v, tc_sym_int(e->syms, hint)));
      tc_user_env_set(e, u->heuristics.data[i].name, few && lo < hi ? tc_sym_int(e->syms, lo) : v);
    }
    e->bound.count = before;
  }
  return TC_OK;
}

// What the kernel changes keeps its dtype and sizes.
static tc_status check_mutated(tc_op_args *a, const tc_user_env *e) {
  for (int32_t i = 0; i < e->u->mutates.count; i++) {
    const tc_user_shape *s = &e->u->mutates.data[i];
    const tc_tensor_type *t = type_of_arg(e, s->arg), *r = tc_op_result_type(a, i);
    bool same = t && r && t->dtype == r->dtype && t->rank == r->rank;
    for (int32_t d = 0; same && d < t->rank; d++) same = tc_int_require_eq(a, t->sizes[d], r->sizes[d]) == TC_STATUS_OK;
    if (!same)
      return tc_error(TC_STATUS_INVALID_ARGUMENT,
                      "result %d is what the kernel makes of '" TC_SV_FMT "', and has another dtype or size", (int)i,
                      TC_SV_ARG(s->name));
  }
  return TC_OK;
}

static tc_status describe(tc_op_args *a) {
  tc_user_env e;
  TC_TRY(tc_user_env_make(a->arena, a->syms, a->op, a->n_args, a->args, NULL, &e));
  for (int32_t i = 0; i + 1 < e.equal.count; i += 2)
    if (tc_int_require_eq(a, e.equal.data[i], e.equal.data[i + 1]) != TC_STATUS_OK)
      return tc_error(TC_STATUS_INVALID_ARGUMENT, "sizes that must be equal differ");
  TC_TRY(require_room(a, &e));
  TC_TRY(settle_heuristics(a, &e));
  for (int32_t i = 0; i < e.u->shapes.count; i++)
    if (e.u->shapes.data[i].result >= 0) TC_TRY(set_result(a, &e, &e.u->shapes.data[i]));
  return check_mutated(a, &e);
}

int32_t user_meta(tc_op_args *a) {
  tc_status s = describe(a);
  return s == TC_OK ? TC_STATUS_OK : tc_op_keep(a, s);
}

const tc_sym *tc_user_flops(tc_arena *arena, tc_sym_ctx *syms, const tc_op *op, int32_t n_args, const tc_arg *args) {
  tc_user_env e;
  const tc_sym *flops = NULL;
  if (!op->user->flops) return NULL;
  tc_status s = tc_user_env_make(arena, syms, op, n_args, args, NULL, &e);
  if (s == TC_OK) s = tc_user_eval(&e, op->user->flops, &flops);
  if (s != TC_OK) flops = NULL;
  tc_status_free(s);
  return flops;
}

// ---- text ----
static void print_used(tc_sb *sb, const tc_graph *g, tc_map *seen) {
  for (const tc_node *n = g->first; n; n = n->next) {
    bool fresh = false;
    if (n->op->user) tc_map_put_ptr(seen, n->op->user, &fresh);
    if (fresh) {
      tc_sb_put(sb, n->op->user->text);
      tc_sb_putc(sb, '\n');
    }
    for (int32_t i = 0; i < n->n_args; i++)
      if (n->args[i].kind == TC_AK_GRAPH && n->args[i].graph) print_used(sb, n->args[i].graph, seen);
  }
}

void tc_user_ops_print(tc_sb *sb, const tc_graph *g) { print_used(sb, g, tc_map_create(sb->arena)); }
