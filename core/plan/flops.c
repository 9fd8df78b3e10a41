// Operations of templates and calls, from the texts that their declarations give: expressions of sizes such as
// "2 * out.numel * in0.last" (templates, which may name attributes too: "attr0") or "2 * numel * mat1.size(1)" (op
// rows, which may name integer and bool arguments, too). A row's text may begin with a label, "addmm: …": the name by
// which PyTorch's FlopCounterMode counts the op;
// "-: …" is for ops that it leaves out although it counts what they are made of (0: not this use of the op). A
// pointwise row without a text does as many operations per element as its body has. A text that cannot be read counts
// as 0: the numbers serve benchmarks and people, not correctness.
#include <math.h>
#include <string.h>

#include "core/ir/op.h"
#include "core/ir/userop.h"
#include "core/plan/plan_internal.h"

enum { MOST_NAMES = 32 };

typedef struct shape {
  tc_sv name;
  int32_t rank;
  const tc_sym *const *sizes;
} shape;

typedef struct names {
  shape shapes[MOST_NAMES]; // the first is the result
  int32_t n;
  const tc_lnode *node; // a template, for its attributes
  const tc_node *call;  // an op, for its numbers
  bool torch;           // complex arithmetic is not taken apart
} names;

static const shape *shape_of(const names *q, const tc_ex *ex) {
  for (int32_t i = 0; ex->kind == TC_EX_NAME && i < q->n; i++) {
    if (tc_sv_eq(q->shapes[i].name, ex->text)) return &q->shapes[i];
  }
  return NULL;
}

static const tc_sym *numel(tc_sym_ctx *c, const shape *s) {
  const tc_sym *n = tc_sym_int(c, 1);
  for (int32_t d = 0; d < s->rank; d++) n = tc_sym_mul(c, n, s->sizes[d]);
  return n;
}

static const tc_sym *size_at(const shape *s, int64_t d) {
  if (d < 0) d += s->rank;
  return d >= 0 && d < s->rank ? s->sizes[d] : NULL;
}

static bool dim_of(const tc_ex *ex, int64_t *out) {
  bool minus = ex->kind == TC_EX_UNARY && tc_sv_is(ex->text, "-") && ex->n == 1;
  const tc_ex *number = minus ? ex->kids[0] : ex;
  if (number->kind != TC_EX_INT) return false;
  *out = minus ? -number->integer : number->integer;
  return true;
}

// "attr0": an attribute of a template.
static const tc_sym *attribute(const names *q, tc_sv name) {
  if (!q->node || name.size != 5 || !tc_sv_starts(name, "attr")) return NULL;
  int32_t i = name.data[4] - '0';
  return i >= 0 && i < q->node->n_attrs ? q->node->attrs[i] : NULL;
}

// An integer or bool argument.
static const tc_sym *number(const names *q, tc_sym_ctx *c, tc_sv name) {
  for (int32_t i = 0; q->call && i < q->call->n_args && i < q->call->op->schema.n_args; i++) {
    const tc_arg *g = &q->call->args[i];
    if (!tc_sv_eq(q->call->op->schema.args[i].name, name)) continue;
    if (g->kind == TC_AK_INT) return g->sym;
    if (g->kind == TC_AK_BOOL) return tc_sym_int(c, g->integer);
  }
  return NULL;
}

// along(x, dims): the product of x's sizes along the dimensions that a list argument names.
static const tc_sym *along(const names *q, tc_sym_ctx *c, const tc_ex *ex) {
  const shape *s = shape_of(q, ex->kids[1]);
  const tc_sym *n = tc_sym_int(c, 1);
  for (int32_t i = 0; s && q->call && i < q->call->n_args && i < q->call->op->schema.n_args; i++) {
    const tc_arg *g = &q->call->args[i];
    if (g->kind != TC_AK_INTS || !tc_sv_eq(q->call->op->schema.args[i].name, ex->kids[2]->text)) continue;
    for (int32_t k = 0; k < g->n; k++) {
      const tc_sym *size = tc_sym_is_const(g->syms[k]) ? size_at(s, g->syms[k]->value) : NULL;
      if (size) n = tc_sym_mul(c, n, size);
    }
    return n;
  }
  return NULL;
}

// product(list): of an argument such as kernel_size; one number stands for all.
static const tc_sym *product(const names *q, tc_sym_ctx *c, const tc_ex *ex) {
  for (int32_t i = 0; q->call && i < q->call->n_args && i < q->call->op->schema.n_args; i++) {
    const tc_arg *g = &q->call->args[i];
    const tc_schema_arg *s = &q->call->op->schema.args[i];
    if (g->kind != TC_AK_INTS || g->n < 1 || !tc_sv_eq(s->name, ex->kids[1]->text)) continue;
    const tc_sym *n = tc_sym_int(c, 1);
    for (int32_t k = 0; k < (s->list_size > g->n ? s->list_size : g->n); k++)
      n = tc_sym_mul(c, n, g->syms[k < g->n ? k : 0]);
    return n;
  }
  return NULL;
}

static tc_status resolve(void *self, tc_sym_ctx *c, const tc_ex *ex, const tc_sym **out);

// nlog2n(a, b): n log2 n of the larger size, rounded; the logarithm of a symbol is that of its hint.
static tc_status n_log_n(void *self, tc_sym_ctx *c, const tc_ex *ex, const tc_sym **out) {
  const tc_sym *n = tc_sym_int(c, 1);
  for (int32_t i = 1; i < ex->n; i++) {
    const tc_sym *size = NULL;
    TC_TRY(resolve(self, c, ex->kids[i], &size));
    if (!size) return TC_OK;
    n = tc_sym_max(c, n, size);
  }
  int64_t hint = tc_sym_hint_or(c, n, 256);
  double log = hint > 1 ? log2((double)hint) : 0;
  *out = tc_sym_is_const(n) ? tc_sym_int(c, llround((double)hint * log)) : tc_sym_muli(c, n, llround(log));
  return TC_OK;
}

static tc_status resolve(void *self, tc_sym_ctx *c, const tc_ex *ex, const tc_sym **out) {
  const names *q = self;
  const shape *s;
  int64_t d;
  *out = NULL;
  if (ex->kind == TC_EX_NAME && tc_sv_is(ex->text, "numel")) *out = numel(c, &q->shapes[0]);
  else if (ex->kind == TC_EX_NAME && tc_sv_is(ex->text, "complex"))
    *out = tc_sym_int(c, q->torch && tc_dtype_is_complex(q->call->results[0]->type.dtype));
  else if (ex->kind == TC_EX_NAME) *out = q->call ? number(q, c, ex->text) : attribute(q, ex->text);
  if (ex->kind == TC_EX_CALL && ex->kids[0]->kind == TC_EX_NAME && tc_sv_is(ex->kids[0]->text, "nlog2n"))
    return n_log_n(self, c, ex, out);
  if (ex->kind == TC_EX_CALL && ex->n == 2 && ex->kids[0]->kind == TC_EX_NAME && tc_sv_is(ex->kids[0]->text, "product"))
    *out = product(q, c, ex);
  if (ex->kind == TC_EX_CALL && ex->n == 3 && ex->kids[0]->kind == TC_EX_NAME && tc_sv_is(ex->kids[0]->text, "along"))
    *out = along(q, c, ex);
  if (ex->kind == TC_EX_MEMBER && (s = shape_of(q, ex->kids[0]))) {
    if (tc_sv_is(ex->text, "numel")) *out = numel(c, s);
    if (tc_sv_is(ex->text, "last")) *out = size_at(s, -1);
    if (tc_sv_is(ex->text, "rank")) *out = tc_sym_int(c, s->rank);
  }
  if (ex->kind == TC_EX_CALL && ex->n == 2 && ex->kids[0]->kind == TC_EX_MEMBER &&
      tc_sv_is(ex->kids[0]->text, "size")) {
    s = shape_of(q, ex->kids[0]->kids[0]);
    if (s && dim_of(ex->kids[1], &d)) *out = size_at(s, d);
  }
  return TC_OK;
}

// Quotients are of whole numbers: "/" becomes "//".
static tc_sv whole_quotients(tc_arena *arena, const char *text) {
  tc_sb sb = tc_sb_make(arena);
  for (const char *z = text; *z; z++) {
    if (*z == '/' && z[1] == '/') z++;
    if (*z == '/') tc_sb_putc(&sb, '/');
    tc_sb_putc(&sb, *z);
  }
  return tc_sb_view(&sb);
}

// Operators and functions in a tree.
static int64_t operations(const tc_ex *ex) {
  int64_t n = ex->kind == TC_EX_UNARY || ex->kind == TC_EX_BINARY || ex->kind == TC_EX_CALL;
  for (int32_t i = ex->kind == TC_EX_CALL; i < ex->n; i++) n += operations(ex->kids[i]);
  return n;
}
static int64_t body_operations(const tc_ex_program *p) {
  int64_t n = 0;
  for (int32_t i = 0; i < p->n_lets; i++) n += operations(p->lets[i].value);
  for (int32_t i = 0; i < p->n_results; i++) n += operations(p->results[i]);
  return n;
}

static const tc_sym *evaluate(tc_arena *arena, tc_sym_ctx *syms, const char *text, names *q) {
  tc_ex_program program;
  const tc_sym *flops = NULL;
  if (!text) return tc_sym_int(syms, 0);
  tc_status s = tc_ex_parse_program(arena, TC_SV("flops"), whole_quotients(arena, text), &program);
  if (s == TC_OK && program.n_results == 1)
    s = tc_sym_from_ex_with(syms, NULL, program.results[0], false, resolve, q, &flops);
  if (s != TC_OK) flops = NULL;
  tc_status_free(s);
  return flops ? flops : tc_sym_int(syms, 0);
}

// A complex product and sum are four of each.
static const tc_sym *of_dtype(tc_sym_ctx *syms, const tc_sym *flops, tc_dtype result) {
  return tc_dtype_is_complex(result) ? tc_sym_muli(syms, flops, 4) : flops;
}

const tc_sym *plan_template_flops(tc_plan *p, const tc_lnode *n) {
  names q = {.n = 1, .node = n};
  if (n->kind != TC_LN_TEMPLATE || !n->tmpl || n->n_outs < 1) return tc_sym_int(p->syms, 0);
  const tc_buf *out = n->outs[0];
  q.shapes[0] = (shape){TC_SV("out"), out->rank, out->sizes};
  for (int32_t i = 0; i < n->n_operands && q.n < MOST_NAMES; i++)
    q.shapes[q.n++] = (shape){tc_sv_printf(p->arena, "in%d", i), n->operands[i].rank, n->operands[i].sizes};
  return of_dtype(p->syms, evaluate(p->arena, p->syms, n->tmpl->flops, &q), out->dtype);
}

// What the text says behind its label.
static const char *formula_of(const tc_op *op, tc_sv *out_label) {
  const char *text = op->def->flops, *colon = text ? strchr(text, ':') : NULL;
  *out_label = colon ? (tc_sv){text, (size_t)(colon - text)} : (tc_sv){0};
  return colon ? colon + 1 : text;
}

tc_sv tc_plan_flops_label(const tc_op *op) {
  tc_sv label;
  formula_of(op, &label);
  return label;
}

const tc_sym *tc_plan_node_flops_as(tc_arena *arena, tc_sym_ctx *syms, const tc_node *n, bool torch) {
  names q = {.n = 1, .call = n, .torch = torch};
  tc_sv label;
  if (!n || n->n_results < 1 || n->results[0]->kind != TC_VALUE_TENSOR) return tc_sym_int(syms, 0);
  const tc_sym *own = n->op->user ? tc_user_flops(arena, syms, n->op, n->n_args, n->args) : NULL;
  if (own) return own;
  const tc_tensor_type *t = &n->results[0]->type;
  q.shapes[0] = (shape){TC_SV("out"), t->rank, t->sizes};
  for (int32_t i = 0; i < n->n_args && i < n->op->schema.n_args && q.n < MOST_NAMES; i++) {
    const tc_value *v = n->args[i].kind == TC_AK_TENSOR ? n->args[i].value : NULL;
    if (v && v->kind == TC_VALUE_TENSOR)
      q.shapes[q.n++] = (shape){n->op->schema.args[i].name, v->type.rank, v->type.sizes};
  }
  const char *formula = formula_of(n->op, &label);
  const tc_sym *flops = formula ? evaluate(arena, syms, formula, &q)
                                : tc_sym_muli(syms, numel(syms, &q.shapes[0]), body_operations(&n->op->body));
  return torch ? flops : of_dtype(syms, flops, t->dtype);
}

const tc_sym *tc_plan_node_flops(tc_arena *arena, tc_sym_ctx *syms, const tc_node *n) {
  return tc_plan_node_flops_as(arena, syms, n, false);
}
