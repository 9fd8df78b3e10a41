// Launches of kernels that users wrote by hand (core/ir/userop.h).
//
// A definition stands for a set of kernels: one for each configuration of its constants and each value that its
// heuristics can have for the sizes of this program. Each is made here: a text of kernel IR with its constants put in
// goes the way of every kernel; source in a device's language becomes a kernel without a body (tc_ksource), in front of
// whose text the constants are declared. Which one is launched is decided like for variants: by facts about the sizes,
// and, where there are configurations, by timing those whose facts hold, once for each value of the key
// (core/runtime/exec_tune.c).
#include <math.h>
#include <string.h>

#include "core/ir/userop.h"
#include "core/plan/plan_internal.h"

enum { MOST_HEURISTICS = 8 };

typedef struct maker {
  plan_builder *w;
  const tc_emit_options *o;
  const tc_lnode *n;
  const struct tc_user_op *u;
  tc_user_env env;
  tc_plan_op *op;
  tc_sv why_not; // the last configuration that was left out
  TC_VEC(tc_plan_variant) made;
} maker;

static tc_status bad(const maker *m, const char *fmt, ...) TC_PRINTF(2, 3);
static tc_status bad(const maker *m, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  tc_status s = tc_errorv(TC_STATUS_INVALID_ARGUMENT, fmt, args);
  va_end(args);
  return tc_status_note(s, "in the kernel of " TC_SV_FMT, TC_SV_ARG(m->n->node->op->full_name));
}

// ---- constants ----
static tc_status constant(maker *m, tc_sv name, int64_t *out) {
  const tc_ex x = {.kind = TC_EX_NAME, .text = name};
  const tc_sym *v;
  TC_TRY(tc_user_eval(&m->env, &x, &v));
  if (!tc_sym_is_const(v))
    return bad(m,
               "the constant '" TC_SV_FMT "' depends on sizes that are not known when it is compiled; make it a "
               "heuristic",
               TC_SV_ARG(name));
  *out = v->value;
  return TC_OK;
}

static int32_t constant_count(const struct tc_user_op *u) { return u->constants.count + u->heuristics.count; }
static tc_sv constant_name(const struct tc_user_op *u, int32_t i) {
  return i < u->constants.count ? u->constants.data[i].name : u->heuristics.data[i - u->constants.count].name;
}

// The value of a float argument; *out_known false: it comes from data.
static double real_of(const tc_arg *g, bool *out_known) {
  bool whole = g->kind == TC_AK_INT && g->sym && tc_sym_is_const(g->sym);
  *out_known = !g->value && (g->kind == TC_AK_FLOAT || whole);
  if (!*out_known) return 0;
  return g->kind == TC_AK_FLOAT ? g->real : (double)g->sym->value;
}

static tc_status real_constant(const maker *m, const tc_user_real *x, double *out, tc_dtype *dtype) {
  bool known;
  *out = real_of(&m->n->node->args[x->number], &known);
  *dtype = tc_user_dtype(&m->env, x->dtype, x->variable);
  if (!known)
    return bad(m, "the constant '" TC_SV_FMT "' is a number that is not known when it is compiled", TC_SV_ARG(x->name));
  if (*dtype != TC_F32 && *dtype != TC_F64)
    return bad(m, "the constant '" TC_SV_FMT "' is a float: it is f32 or f64", TC_SV_ARG(x->name));
  if (*dtype == TC_F32) *out = (double)(float)*out;
  return TC_OK;
}

// As an expression of C; what is no number by a division.
static void put_real_in_c(tc_sb *sb, double v, const char *suffix) {
  if (isnan(v)) {
    tc_sb_printf(sb, "(0.0%s / 0.0%s)", suffix, suffix);
  } else if (isinf(v)) {
    tc_sb_printf(sb, "(%s1.0%s / 0.0%s)", v < 0 ? "-" : "", suffix, suffix);
  } else {
    tc_sb_putc(sb, '(');
    tc_sb_double(sb, v);
    tc_sb_printf(sb, "%s)", suffix);
  }
}

static bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Kernel IR has numbers and dtypes where the definition has names.
static tc_status put_in(maker *m, tc_sv text, tc_sb *sb) {
  for (size_t i = 0; i < text.size;) {
    size_t end = i;
    while (end < text.size && is_word(text.data[end])) end++;
    tc_sv word = tc_sv_sub(text, i, end);
    char before = i ? text.data[i - 1] : ' ';
    bool plain = word.size && before != '%' && before != '@' && before != '.';
    if (!word.size) {
      tc_sb_putc(sb, text.data[i++]);
      continue;
    }
    i = end;
    const tc_user_real *real = NULL;
    for (int32_t k = 0; plain && k < m->u->reals.count; k++)
      if (tc_sv_eq(m->u->reals.data[k].name, word)) real = &m->u->reals.data[k];
    if (real) {
      double v;
      tc_dtype t;
      TC_TRY(real_constant(m, real, &v, &t));
      tc_sb_double(sb, v);
      continue;
    }
    tc_dtype type = plain ? tc_user_dtype(&m->env, TC_DTYPE_NONE, word) : TC_DTYPE_NONE;
    bool known = false;
    for (int32_t k = 0; plain && k < constant_count(m->u); k++) known |= tc_sv_eq(constant_name(m->u, k), word);
    if (known) {
      int64_t v;
      TC_TRY(constant(m, word, &v));
      tc_sb_int(sb, v);
    } else if (type != TC_DTYPE_NONE) {
      tc_sb_putz(sb, tc_dtype_name(type));
    } else {
      tc_sb_put(sb, word);
    }
  }
  return TC_OK;
}

// C has them as declarations: numbers as enumerators where they fit, dtypes as types.
static tc_status put_declared(maker *m, tc_sb *sb) {
  for (int32_t k = 0; k < constant_count(m->u); k++) {
    tc_sv name = constant_name(m->u, k);
    int64_t v;
    TC_TRY(constant(m, name, &v));
    bool fits = v > INT32_MIN && v <= INT32_MAX;
    tc_sb_printf(sb, fits ? "enum { " TC_SV_FMT " = %lld };\n" : "#define " TC_SV_FMT " %lldL\n", TC_SV_ARG(name),
                 (long long)v);
  }
  for (int32_t k = 0; k < m->u->reals.count; k++) {
    double v;
    tc_dtype t;
    TC_TRY(real_constant(m, &m->u->reals.data[k], &v, &t));
    tc_sb_printf(sb, "#define " TC_SV_FMT " ", TC_SV_ARG(m->u->reals.data[k].name));
    put_real_in_c(sb, v, t == TC_F32 ? "f" : "");
    tc_sb_putc(sb, '\n');
  }
  for (int32_t k = 0; k < m->env.types.count; k++) {
    tc_sv variable = m->env.types.data[k].name;
    for (int32_t i = 0; i < m->u->args.count; i++) {
      const tc_user_arg *a = &m->u->args.data[i];
      if (!a->shape || !tc_sv_eq(a->shape->variable, variable)) continue;
      tc_sb_printf(sb, "typedef " TC_SV_FMT "_t " TC_SV_FMT ";\n", TC_SV_ARG(a->name), TC_SV_ARG(variable));
      break;
    }
  }
  return TC_OK;
}

// ---- one kernel ----
// Which of the arguments that the kernel changes this is, and so which result: -1 for others.
static int32_t changed(const maker *m, const tc_user_arg *a) {
  for (int32_t i = 0; a->shape && i < m->u->mutates.count; i++)
    if (a->shape->arg == m->u->mutates.data[i].arg) return i;
  return -1;
}

static tc_dtype dtype_of(const maker *m, const tc_user_arg *a) {
  return a->shape ? tc_user_dtype(&m->env, a->shape->dtype, a->shape->variable)
                  : tc_user_dtype(&m->env, a->dtype, a->variable);
}

// Which operand of the call a tensor argument of the op is.
static const tc_lview *operand_of(const maker *m, int32_t arg) {
  int32_t at = 0;
  for (int32_t i = 0; i < arg; i++) at += m->n->node->args[i].kind == TC_AK_TENSOR;
  return &m->n->operands[at];
}

static const tc_buf *result_buf(const maker *m, int32_t result) {
  int32_t at = 0;
  for (int32_t i = 0; i < result; i++) at += m->n->node->results[i]->kind == TC_VALUE_TENSOR;
  return m->n->outs[at];
}

static tc_sv kernel_name(const maker *m) {
  const tc_schema *s = &m->n->node->op->schema;
  return tc_sv_printf(m->w->p->arena, TC_SV_FMT "_" TC_SV_FMT, TC_SV_ARG(s->ns), TC_SV_ARG(s->name));
}

static const char *const grid_names[] = {"grid_x", "grid_y", "grid_z"};

static tc_status header(maker *m, int32_t lanes, tc_sb *sb) {
  tc_sb_printf(sb, "kernel @" TC_SV_FMT " (", TC_SV_ARG(kernel_name(m)));
  for (int32_t i = 0; i < m->u->args.count; i++) {
    const tc_user_arg *a = &m->u->args.data[i];
    tc_dtype t = dtype_of(m, a);
    if (t == TC_DTYPE_NONE) return bad(m, "the argument '" TC_SV_FMT "' has no dtype", TC_SV_ARG(a->name));
    bool reads = a->shape && a->shape->arg >= 0 && changed(m, a) < 0;
    tc_sb_printf(sb, "%s%%" TC_SV_FMT " : %s%s%s", i ? ", " : "", TC_SV_ARG(a->name), a->shape ? "global " : "",
                 tc_dtype_name(t), reads ? " readonly" : "");
  }
  for (int32_t d = 0; m->u->grid.count > 1 && d < m->u->grid.count; d++)
    tc_sb_printf(sb, ", %%%s : i32", grid_names[d]);
  tc_sb_printf(sb, ") blocks 1 lanes %d ", (int)lanes);
  return TC_OK;
}

static tc_status make_kernel(maker *m, int32_t lanes, tc_kernel **out) {
  tc_arena *arena = m->w->p->arena;
  const tc_user_source *source = m->u->chosen;
  tc_sb sb = tc_sb_make(arena);
  tc_kernel *raw;
  TC_TRY(header(m, lanes, &sb));
  if (tc_sv_is(source->language, TC_USER_KERNEL_IR)) {
    tc_sb_putz(&sb, "{");
    TC_TRY(put_in(m, source->body, &sb));
    tc_sb_putz(&sb, "}");
  } else {
    tc_sb declared = tc_sb_make(arena), body = tc_sb_make(arena);
    TC_TRY(put_declared(m, &declared));
    tc_sb_put(&declared, source->declarations);
    if (m->u->grid.count > 1)
      tc_sb_putz(&body, "const int block_x = block % grid_x, block_y = block / grid_x % grid_y;\n"
                        "(void)block_x, (void)block_y;\n");
    if (m->u->grid.count > 2) tc_sb_putz(&body, "const int block_z = block / (grid_x * grid_y);\n(void)block_z;\n");
    tc_sb_put(&body, source->body);
    const tc_sv texts[] = {source->language, tc_sb_view(&declared), tc_sb_view(&body)};
    tc_sb_putz(&sb, "source");
    for (int32_t i = 0; i < 3; i++) {
      tc_sb_putc(&sb, ' ');
      tc_sb_quoted(&sb, texts[i]);
    }
  }
  tc_lexer lx;
  tc_lex_init(&lx, arena, tc_sv_printf(arena, "kernel of " TC_SV_FMT, TC_SV_ARG(m->n->node->op->full_name)),
              tc_sb_view(&sb));
  TC_TRY(tc_kernel_parse(arena, &lx, &raw));
  if (lx.tok.kind != TC_TOK_END) return tc_lex_error(&lx, "the kernel ends before this");
  tc_kernel *plain;
  TC_TRY(tc_kernel_legalise(arena, raw, m->o->device->simd_bytes, &plain));
  TC_TRY(tc_kernel_fit(arena, m->o->device->pairs, m->o->device->tiles, plain, &plain));
  return tc_kernel_simplify(arena, plain, out);
}

// ---- arguments ----
// A float is passed as its bits.
static tc_status float_bits(const maker *m, const tc_user_arg *a, const tc_arg *g, tc_dtype t, int64_t *out) {
  bool known;
  double v = real_of(g, &known);
  float f = (float)v;
  uint32_t bits;
  if (!known) return bad(m, "'" TC_SV_FMT "' is a number that is not known when it is compiled", TC_SV_ARG(a->name));
  if (t == TC_F64) {
    memcpy(out, &v, sizeof v);
    return TC_OK;
  }
  if (t != TC_F32) return bad(m, "'" TC_SV_FMT "' is a float: it is passed as f32 or f64", TC_SV_ARG(a->name));
  memcpy(&bits, &f, sizeof bits);
  *out = (int64_t)bits;
  return TC_OK;
}

static tc_status argument(maker *m, const tc_user_arg *a, tc_plan_arg *out) {
  tc_plan *p = m->w->p;
  tc_dtype t = dtype_of(m, a);
  if (a->shape) {
    int32_t result = changed(m, a) >= 0 ? changed(m, a) : a->shape->result;
    const tc_buf *b = result >= 0 ? result_buf(m, result) : operand_of(m, a->shape->arg)->buf;
    *out = plan_touch(m->w, b, result >= 0);
    return TC_OK;
  }
  *out = (tc_plan_arg){.buf = -1, .dtype = t};
  const tc_arg *g = a->number >= 0 ? &m->n->node->args[a->number] : NULL;
  if (g && tc_dtype_is_float(t)) {
    int64_t bits;
    TC_TRY(float_bits(m, a, g, t, &bits));
    out->scalar = tc_sym_int(p->syms, bits);
    return TC_OK;
  }
  if (tc_dtype_is_float(t) || tc_dtype_is_complex(t))
    return bad(m, "'" TC_SV_FMT "' is made of integers: it cannot be a float", TC_SV_ARG(a->name));
  const tc_ex name = {.kind = TC_EX_NAME, .text = a->name};
  TC_TRY(tc_user_eval(&m->env, a->value ? a->value : &name, &out->scalar));
  // The sizes were required to have room; how operands lie is known only now.
  const tc_sym *fits = tc_sym_cmp(p->syms, TC_SYM_LE, out->scalar, tc_sym_int(p->syms, INT32_MAX));
  int32_t has_room = t == TC_I32 && m->env.layouts ? tc_sym_prove(p->syms, fits) : 1;
  if (has_room == 1) return TC_OK;
  return bad(m, "'" TC_SV_FMT "' may need more than 32 bits: pass it as i64", TC_SV_ARG(a->name));
}

static tc_status arguments(maker *m, tc_plan_variant *v, const tc_sym *const *grid) {
  const struct tc_user_op *u = m->u;
  int32_t dims = u->grid.count > 1 ? u->grid.count : 0;
  tc_plan_arg *args = TC_NEW_ARRAY(m->w->p->arena, tc_plan_arg, u->args.count + dims);
  for (int32_t i = 0; i < u->args.count; i++) TC_TRY(argument(m, &u->args.data[i], &args[i]));
  for (int32_t d = 0; d < dims; d++)
    args[u->args.count + d] = (tc_plan_arg){.buf = -1, .scalar = grid[d], .dtype = TC_I32};
  v->args = args, v->n_args = u->args.count + dims;
  return TC_OK;
}

// ---- candidates ----
// The kernel for the constants as the names are bound now.
static tc_status add_candidate(maker *m, const tc_sym *when) {
  tc_plan *p = m->w->p;
  const tc_sym *lanes, *grid[3];
  TC_TRY(tc_user_eval(&m->env, m->u->lanes, &lanes));
  if (!tc_sym_is_const(lanes)) return bad(m, "the number of lanes is not known when it is compiled");
  int64_t most = m->o->device->max_lanes ? m->o->device->max_lanes : 4096;
  if (lanes->value < 1 || lanes->value > most) {
    m->why_not =
        tc_sv_printf(p->arena, "%lld lanes, where the device has 1 to %lld", (long long)lanes->value, (long long)most);
    return TC_OK;
  }
  tc_plan_variant v = {.when = when, .kernel = p->kernels.count};
  v.blocks = tc_sym_int(p->syms, 1);
  for (int32_t d = 0; d < m->u->grid.count; d++) {
    TC_TRY(tc_user_eval(&m->env, m->u->grid.data[d], &grid[d]));
    v.blocks = tc_sym_mul(p->syms, v.blocks, grid[d]);
  }
  enum { WORTH = 8192 }; // elements that are worth a thread
  v.grain = tc_sym_int(p->syms, lanes->value < WORTH ? WORTH / lanes->value : 1);
  tc_emitted *k = TC_NEW(p->arena, tc_emitted);
  TC_TRY(make_kernel(m, (int32_t)lanes->value, &k->kernel));
  k->blocks = v.blocks, k->grain = v.grain;
  TC_TRY(arguments(m, &v, grid));
  tc_vec_push(p->arena, &p->kernels, k);
  tc_vec_push(p->arena, &p->kernel_names, m->op->name);
  tc_vec_push(p->arena, &m->made, v);
  return TC_OK;
}

// Heuristic i and those behind it: one kernel for each value that they may have.
static tc_status with_heuristics(maker *m, int32_t i, const tc_sym *when) {
  tc_sym_ctx *c = m->w->p->syms;
  if (i == m->u->heuristics.count) return add_candidate(m, when);
  const tc_user_name *h = &m->u->heuristics.data[i];
  const tc_sym *v;
  int64_t lo, hi;
  bool few;
  TC_TRY(tc_user_heuristic(&m->env, i, &v, &lo, &hi, &few));
  if (!few)
    return bad(m,
               "the heuristic '" TC_SV_FMT "' may have more than %d values for sizes that are not known: bound it by "
               "a comparison, min and max",
               TC_SV_ARG(h->name), TC_USER_HEURISTIC_VALUES);
  for (int64_t x = lo; x <= hi; x++) {
    const tc_sym *is = tc_sym_is_const(v) ? tc_sym_int(c, 1) : tc_sym_cmp(c, TC_SYM_EQ, v, tc_sym_int(c, x));
    int32_t before = m->env.bound.count;
    tc_user_env_set(&m->env, h->name, tc_sym_int(c, x));
    TC_TRY(with_heuristics(m, i + 1, tc_sym_is_int(is, 1) ? when : tc_sym_and(c, when, is)));
    m->env.bound.count = before;
  }
  return TC_OK;
}

static tc_status make_candidates(maker *m) {
  const struct tc_user_op *u = m->u;
  if (u->heuristics.count > MOST_HEURISTICS) return bad(m, "there are more than %d heuristics", MOST_HEURISTICS);
  for (int32_t c = u->configs.count ? 0 : -1; c < u->configs.count; c++) {
    int32_t before = m->env.bound.count;
    TC_TRY(tc_user_env_configure(&m->env, c));
    TC_TRY(with_heuristics(m, 0, tc_sym_int(m->w->p->syms, 1)));
    m->env.bound.count = before;
  }
  if (m->made.count > TC_PLAN_CANDIDATES)
    return bad(m, "configurations and heuristics make %d kernels, at most %d are possible", m->made.count,
               TC_PLAN_CANDIDATES);
  if (m->made.count) return TC_OK;
  return bad(m, "no configuration can be launched: the last has " TC_SV_FMT, TC_SV_ARG(m->why_not));
}

// ---- the launch ----
static const char copy_text[] =
    "kernel @copy (%%x : global %s readonly, %%y : global %s, %%n : i64) blocks 1 lanes 256 {"
    "  %%b = block"
    "  lanes {"
    "    %%l = lane"
    "    %%w = cast %%b : i64"
    "    %%v = cast %%l : i64"
    "    %%i = fma %%w, 256, %%v"
    "    %%in = lt %%i, %%n"
    "    %%e = load %%x[%%i] if %%in else 0"
    "    store %%y[%%i], %%e if %%in"
    "  }"
    "}";

// What the kernel changes begins as a copy of the argument.
static tc_status add_copy(maker *m, int32_t i) {
  tc_plan *p = m->w->p;
  const tc_buf *to = result_buf(m, i);
  const tc_lview *from = operand_of(m, m->u->mutates.data[i].arg);
  static const tc_dtype as[] = {[1] = TC_U8, [2] = TC_U16, [4] = TC_U32, [8] = TC_U64};
  int32_t size = tc_dtype_size(to->dtype), words = size > 8 ? size / 8 : 1;
  const char *t = tc_dtype_name(as[size > 8 ? 8 : size]);
  tc_lexer lx;
  tc_emitted *k = TC_NEW(p->arena, tc_emitted);
  tc_lex_init(&lx, p->arena, TC_SV("copy"), tc_sv_printf(p->arena, copy_text, t, t));
  tc_kernel *raw;
  TC_TRY(tc_kernel_parse(p->arena, &lx, &raw));
  TC_TRY(tc_kernel_simplify(p->arena, raw, &k->kernel));
  const tc_sym *n = tc_sym_int(p->syms, words);
  for (int32_t d = 0; d < to->rank; d++) n = tc_sym_mul(p->syms, n, to->sizes[d]);
  tc_plan_op op = {.kind = TC_PLAN_LAUNCH,
                   .name = tc_sv_printf(p->arena, TC_SV_FMT "_copy", TC_SV_ARG(m->op->name)),
                   .kernel = p->kernels.count,
                   .blocks = tc_sym_ceildiv(p->syms, n, tc_sym_int(p->syms, 256)),
                   .grain = tc_sym_int(p->syms, 32),
                   .n_args = 3,
                   .bytes = tc_sym_muli(p->syms, n, 2 * (size > 8 ? 8 : size)),
                   .flops = tc_sym_int(p->syms, 0),
                   .source = m->n->source};
  tc_plan_arg *args = TC_NEW_ARRAY(p->arena, tc_plan_arg, 3);
  args[0] = plan_touch(m->w, from->buf, false);
  args[1] = plan_touch(m->w, to, true);
  args[2] = (tc_plan_arg){.buf = -1, .scalar = n, .dtype = TC_I64};
  op.args = args;
  k->blocks = op.blocks, k->grain = op.grain;
  tc_vec_push(p->arena, &p->kernels, k);
  tc_vec_push(p->arena, &p->kernel_names, op.name);
  tc_vec_push(p->arena, &p->ops, op);
  return TC_OK;
}

// How the operands that are strided lie; NULL where none is.
static tc_status find_layouts(maker *m, const tc_tensor_type *const **out) {
  const tc_node *node = m->n->node;
  const tc_tensor_type **layouts = TC_NEW_ARRAY(m->w->p->arena, const tc_tensor_type *, node->n_args);
  *out = NULL;
  for (int32_t i = 0; i < node->n_args; i++) {
    if (!tc_user_is_strided(m->u, i)) continue;
    tc_tensor_type *t = TC_NEW(m->w->p->arena, tc_tensor_type);
    TC_TRY(plan_affine(m->w, operand_of(m, i), t));
    layouts[i] = t;
    *out = layouts;
  }
  return TC_OK;
}

bool plan_is_user(const tc_lnode *n) { return n->kind == TC_LN_CALL && n->node && n->node->op->user != NULL; }

tc_status plan_add_user(plan_builder *w, tc_group *g, const tc_emit_options *o) {
  tc_plan *p = w->p;
  const tc_node *node = g->call->node;
  tc_plan_op op = {.kind = TC_PLAN_LAUNCH, .name = g->name, .source = g->call->source};
  maker m = {.w = w, .o = o, .n = g->call, .u = node->op->user, .op = &op};
  if (!m.u->chosen) return bad(&m, "no source is for this device");
  const tc_tensor_type *const *layouts;
  TC_TRY(find_layouts(&m, &layouts));
  TC_TRY(tc_user_env_make(p->arena, p->syms, node->op, node->n_args, node->args, layouts, &m.env));
  for (int32_t i = 0; i < m.u->mutates.count; i++)
    if (!result_buf(&m, i)->inplace) TC_TRY(add_copy(&m, i));
  TC_TRY(make_candidates(&m));
  op.bytes = tc_group_bytes(w->s, g);
  op.flops = tc_plan_node_flops(p->arena, p->syms, node);
  op.tuned = m.u->configs.count > 0;
  // Without configurations the last one is what is left when no other's fact holds.
  const tc_plan_variant *general = &m.made.data[op.tuned ? 0 : m.made.count - 1];
  op.kernel = general->kernel, op.blocks = general->blocks, op.grain = general->grain;
  op.args = general->args, op.n_args = general->n_args;
  op.variants = m.made.data, op.n_variants = op.tuned ? m.made.count : m.made.count - 1;
  const tc_sym **key = TC_NEW_ARRAY(p->arena, const tc_sym *, m.u->key.count);
  for (int32_t i = 0; i < m.u->key.count; i++) TC_TRY(tc_user_eval(&m.env, m.u->key.data[i], &key[i]));
  op.key = key, op.n_key = op.tuned ? m.u->key.count : 0;
  tc_vec_push(p->arena, &p->ops, op);
  return TC_OK;
}
