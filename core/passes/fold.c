// fold: computes what is known, and removes arithmetic that changes nothing.
//   - a tensor of one value is aten::full, seen through views; pointwise ops on such tensors and numbers are full
//   again;
//   - x*1, x/1, x+0, x-0, x**1 are copies of x (x+0 turns -0 into +0, which is given up); integers: x*0 is 0;
//   - where with a condition of one value is that branch;
//   - a cast to a type that holds all values, and on to another type, is one cast or none;
//   - copy(self, src) is src in self's type.
// What is replaced by an existing value becomes a clone of it: whether that may go is for the views pass to say.
#include "core/ir/opargs.h"
#include "core/ir/refexec.h"
#include "core/passes/passes.h"

typedef struct folder {
  tc_graph *g;
  bool progress;
} folder;

static tc_value *arg_value(const tc_node *n, int32_t i) {
  return i < n->n_args && n->args[i].kind == TC_AK_TENSOR ? tc_value_resolve(n->args[i].value) : NULL;
}

static bool number_of(const tc_arg *g, tc_ref_number *out) {
  tc_dtype d = tc_arg_number_dtype(g);
  if (d == TC_DTYPE_NONE || g->value || (g->kind == TC_AK_INT && !tc_sym_is_const(g->sym))) return false;
  *out = (tc_ref_number){.dtype = d,
                         .value = {g->real, g->kind == TC_AK_COMPLEX ? g->imag : 0},
                         .integer = g->kind == TC_AK_INT ? g->sym->value : g->integer};
  if (d == TC_I64 || d == TC_BOOL) out->value.re = (double)out->integer;
  return true;
}

// The one value of a tensor or number.
static bool uniform(const tc_arg *g, tc_ref_number *out) {
  if (g->kind != TC_AK_TENSOR) return number_of(g, out);
  tc_value *root = tc_view_root(tc_value_resolve(g->value));
  if (!tc_node_is(root->def, "full") || g->value->type.conj ||
      tc_value_resolve(g->value)->type.dtype != root->type.dtype)
    return false;
  if (!number_of(&root->def->args[1], out)) return false;
  *out = tc_ref_convert(*out, root->type.dtype);
  return true;
}

static bool is_number(const tc_arg *g, double v) {
  tc_ref_number n;
  if (!uniform(g, &n)) return false;
  char cls = tc_dtype_class(n.dtype);
  return cls == 'f' || cls == 'c' ? n.value.re == v && n.value.im == 0 : (double)n.integer == v;
}

static void replace(folder *f, tc_node *n, tc_value *v) {
  tc_value_set_name(f->g, v, n->results[0]->name);
  tc_graph_forward(n->results[0], v);
  tc_node_kill(n);
  f->progress = true;
}

// Removes what was made between `from` (NULL: the first node) and n in vain.
static void take_back(folder *f, tc_node *from, tc_node *n) {
  for (tc_node *k = from ? from->next : f->g->first; k != n; k = k->next) tc_node_kill(k);
}

// Replaces by a copy of x in the result's type, if there is a way.
static tc_status replace_by_copy(folder *f, tc_node *n, tc_value *x) {
  tc_build b = {.graph = f->g, .before = n, .source = n->source};
  const tc_tensor_type *want = &n->results[0]->type;
  tc_arg args[] = {tc_arg_tensor(x)}, out;
  tc_node *before = n->prev;
  tc_value *v;
  TC_TRY(tc_match_layout(&b, x, want, &v));
  if (v == x || v->view_arg >= 0) {
    args[0] = tc_arg_tensor(v);
    TC_TRY(tc_build_call(&b, TC_SV("aten::clone"), 1, args, NULL, &out));
    v = out.value;
  }
  if (tc_type_same(f->g->module, &v->type, want)) replace(f, n, v);
  else take_back(f, before, n);
  return TC_OK;
}

static tc_status replace_by_full(folder *f, tc_node *n, tc_ref_number v) {
  tc_build b = {.graph = f->g, .before = n, .source = n->source};
  const tc_tensor_type *t = &n->results[0]->type;
  if (!tc_type_is_row_major(f->g->module, t)) return TC_OK;
  char cls = tc_dtype_class(t->dtype);
  v = tc_ref_convert(v, t->dtype);
  tc_arg value = cls == 'f'   ? tc_arg_float(v.value.re)
                 : cls == 'c' ? tc_arg_complex(v.value.re, v.value.im)
                 : cls == 'b' ? tc_arg_bool(v.integer != 0)
                              : tc_arg_sym(tc_sym_int(f->g->module->syms, v.integer));
  tc_arg args[] = {tc_arg_syms(t->sizes, t->rank), value, tc_arg_dtype(t->dtype)}, out;
  TC_TRY(tc_build_call(&b, TC_SV("aten::full"), 3, args, NULL, &out));
  replace(f, n, out.value);
  return TC_OK;
}

// ---- pointwise ops on known values ----
static tc_status fold_known(folder *f, tc_node *n, bool *done) {
  tc_ref_number args[8], out;
  int32_t count = 0;
  bool tensors = false;
  *done = false;
  if (!(n->op->def->traits & TC_OP_POINTWISE) || !n->op->def->scalar_ref || n->n_results != 1) return TC_OK;
  for (int32_t i = 0; i < n->n_args; i++) {
    const tc_schema_arg *s = &n->op->schema.args[i];
    if (n->args[i].kind == TC_AK_NONE && s->type != TC_ST_TENSOR) continue;
    tensors = tensors || n->args[i].kind == TC_AK_TENSOR;
    if (count == 8 || !uniform(&n->args[i], &args[count])) return TC_OK;
    // a number at its default behind the operands (alpha=1) is no operand
    double d = s->preset.kind == TC_AK_INT || s->preset.kind == TC_AK_BOOL ? (double)s->preset.integer : s->preset.real;
    bool preset =
        s->has_default && n->args[i].kind != TC_AK_TENSOR && args[count].value.re == d && args[count].value.im == 0;
    if (preset && i > 0 && s->type == TC_ST_SCALAR && s->kwarg_only) continue;
    count++;
  }
  if (!tensors || !tc_ref_fold(n->op, n->results[0]->type.dtype, count, args, &out)) return TC_OK;
  TC_TRY(replace_by_full(f, n, out));
  *done = n->dead;
  return TC_OK;
}

// ---- neutral elements ----
static bool is_float_like(tc_dtype d) { return tc_dtype_is_float(d) || tc_dtype_is_complex(d); }

static tc_status fold_neutral(folder *f, tc_node *n) {
  const tc_arg *a = n->args;
  tc_value *keep = NULL;
  if (n->n_args < 2 || n->n_results != 1) return TC_OK;
  tc_dtype d = n->results[0]->type.dtype;
  bool mul = tc_node_is(n, "mul"), add = tc_node_is(n, "add"), sub = tc_node_is(n, "sub"), div = tc_node_is(n, "div"),
       pow = tc_node_is(n, "pow");
  bool alpha_one = n->n_args < 3 || is_number(&a[2], 1);
  bool real =
      !tc_dtype_is_complex(d); // of a complex number, 1 meets an infinite part as 1 + 0i, which makes the other NaN
  if (real && mul && is_number(&a[1], 1)) keep = arg_value(n, 0);
  else if (real && mul && is_number(&a[0], 1)) keep = arg_value(n, 1);
  else if ((add || sub) && is_number(&a[1], 0) && n->n_args >= 2) keep = arg_value(n, 0);
  else if (real && add && alpha_one && is_number(&a[0], 0)) keep = arg_value(n, 1);
  else if (div && n->n_args == 2 && tc_dtype_is_float(d) && is_number(&a[1], 1)) keep = arg_value(n, 0);
  else if (pow && is_number(&a[1], 1)) keep = arg_value(n, 0);
  else if (mul && !is_float_like(d) && (is_number(&a[0], 0) || is_number(&a[1], 0)))
    return replace_by_full(f, n, (tc_ref_number){.dtype = TC_I64});
  if (!keep || keep->type.dtype != d) return TC_OK;
  tc_module *m = f->g->module;
  for (int32_t i = 0; i < n->results[0]->type.rank; i++)
    if (keep->type.rank != n->results[0]->type.rank ||
        !tc_sym_eq(m->syms, keep->type.sizes[i], n->results[0]->type.sizes[i]))
      return TC_OK;
  return replace_by_copy(f, n, keep);
}

static tc_status fold_where(folder *f, tc_node *n) {
  tc_ref_number c;
  if (!tc_node_is(n, "where") || n->n_args != 3 || !uniform(&n->args[0], &c)) return TC_OK;
  const tc_arg *pick = &n->args[c.integer ? 1 : 2];
  tc_ref_number v;
  if (pick->kind == TC_AK_TENSOR) return replace_by_copy(f, n, arg_value(n, c.integer ? 1 : 2));
  return uniform(pick, &v) ? replace_by_full(f, n, v) : TC_OK;
}

// ---- casts ----
static bool is_cast(const tc_node *n) {
  if (!tc_node_is(n, "_to_copy") && !tc_node_is(n, "to")) return false;
  return n->n_results == 1 && n->args[0].kind == TC_AK_TENSOR &&
         n->results[0]->type.dtype != tc_value_resolve(n->args[0].value)->type.dtype;
}

// Does `to` hold every value of `from`?
static bool exact(tc_dtype from, tc_dtype to) {
  static const int8_t int_bits[TC_DTYPE_COUNT] = {
      [TC_BOOL] = 1, [TC_U8] = 8,   [TC_I8] = 7,   [TC_I16] = 15, [TC_U16] = 16,
      [TC_I32] = 31, [TC_U32] = 32, [TC_I64] = 63, [TC_U64] = 64};
  static const int8_t significand[TC_DTYPE_COUNT] = {[TC_F16] = 11, [TC_BF16] = 8, [TC_F32] = 24, [TC_F64] = 53};
  int32_t bits = int_bits[from], digits = significand[tc_dtype_real(to)];
  return bits && digits ? bits <= digits : tc_promote_types(from, to) == to;
}

static tc_status fold_cast(folder *f, tc_node *n) {
  if (!is_cast(n)) return TC_OK;
  tc_ref_number v;
  if (uniform(&n->args[0], &v)) return replace_by_full(f, n, v);
  tc_value *x = arg_value(n, 0);
  if (!is_cast(x->def)) return TC_OK;
  tc_value *source = arg_value(x->def, 0);
  if (!exact(source->type.dtype, x->type.dtype)) return TC_OK;
  return replace_by_copy(f, n, source);
}

static tc_status visit(folder *f, tc_node *n) {
  bool done;
  TC_TRY(fold_known(f, n, &done));
  if (!n->dead) TC_TRY(fold_neutral(f, n));
  if (!n->dead) TC_TRY(fold_where(f, n));
  if (!n->dead) TC_TRY(fold_cast(f, n));
  if (!n->dead && tc_node_is(n, "copy") && arg_value(n, 1)) TC_TRY(replace_by_copy(f, n, arg_value(n, 1)));
  return TC_OK;
}

static tc_status run(tc_graph *g, bool *out_progress) {
  folder f = {.g = g};
  *out_progress = false;
  for (tc_node *n = g->first; n; n = n->next)
    if (!n->dead && (n->inplace >= 0 || tc_node_writes(n))) return TC_OK;
  for (tc_node *n = g->first, *next; n; n = next) {
    next = n->next;
    if (!n->dead && tc_node_pure(n)) TC_TRY(visit(&f, n));
  }
  tc_graph_sweep(g);
  *out_progress = f.progress;
  return TC_OK;
}

const tc_pass tc_pass_fold = {"fold", run};
