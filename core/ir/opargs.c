// The arguments object at any moment: construction, failure, and reading of arguments (tc_op_* of tc/op.h).
#include "core/ir/opargs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/ir/internal.h"

// A number in a Tensor slot, as a rank-0 tensor that promotes by its class only.
static const tc_tensor_type *number_type(tc_op_args *a, const tc_arg *g) {
  tc_tensor_type *t = TC_NEW(a->arena, tc_tensor_type);
  t->dtype = tc_arg_number_dtype(g);
  t->wrapped = 1;
  t->sizes = t->strides = TC_NEW_ARRAY(a->arena, tc_int, 0);
  t->offset = tc_sym_int(a->syms, 0);
  return t;
}

static void take_types(tc_op_args *a, int32_t i) {
  const tc_arg *g = &a->args[i];
  const tc_schema *s = &a->op->schema;
  if (g->kind == TC_AK_TENSOR) {
    a->arg_types[i] = &g->value->type;
  } else if (g->kind == TC_AK_TENSORS) {
    a->elem_types[i] = TC_NEW_ARRAY(a->arena, const tc_tensor_type *, g->n);
    for (int32_t k = 0; k < g->n; k++) a->elem_types[i][k] = g->values[k] ? &g->values[k]->type : NULL;
  } else if (tc_arg_number_dtype(g) != TC_DTYPE_NONE && i < s->n_args &&
             (s->args[i].type == TC_ST_TENSOR || s->args[i].type == TC_ST_SCALAR)) {
    a->arg_types[i] = number_type(a, g);
  }
}

void tc_op_args_init(tc_op_args *a, int32_t moment, tc_module *m, tc_graph *g, const tc_op *op, int32_t n_args,
                     const tc_arg *args, tc_sv source) {
  *a = (tc_op_args){.moment = moment,
                    .op = op,
                    .called = op,
                    .module = m,
                    .graph = g,
                    .syms = m->syms,
                    .arena = m->arena,
                    .n_args = n_args,
                    .args = args,
                    .source = source};
  a->arg_types = TC_NEW_ARRAY(a->arena, const tc_tensor_type *, n_args);
  a->elem_types = TC_NEW_ARRAY(a->arena, const tc_tensor_type **, n_args);
  for (int32_t i = 0; i < n_args; i++) take_types(a, i);
  a->n_results = a->cap_results = op->schema.n_returns;
  a->results = TC_NEW_ARRAY(a->arena, tc_op_result, a->n_results);
  for (int32_t i = 0; i < a->n_results; i++) a->results[i].view_arg = -1;
}

// ---- failure ----
int32_t tc_op_keep(tc_op_args *a, tc_status status) {
  int32_t code = tc_status_code(status);
  tc_failure_keep(&a->failure, a->arena, status);
  return code;
}

int32_t tc_op_fail(tc_op_args *a, const char *fmt, ...) {
  char text[1024];
  va_list list;
  va_start(list, fmt);
  vsnprintf(text, sizeof text, fmt, list);
  va_end(list);
  return tc_op_keep(a, tc_error(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT ": %s", TC_SV_ARG(a->called->full_name), text));
}

tc_status tc_op_finish(tc_op_args *a) {
  if (!tc_failed(&a->failure)) return TC_OK;
  tc_sb sb = tc_sb_make(a->arena);
  for (int32_t i = 0; i < a->n_args; i++) {
    if (a->args[i].kind == TC_AK_NONE || a->args[i].kind == TC_AK_GRAPH) continue;
    if (sb.size) tc_sb_putz(&sb, ", ");
    if (i < a->op->schema.n_args) tc_sb_put(&sb, a->op->schema.args[i].name), tc_sb_putz(&sb, " = ");
    if (a->args[i].kind == TC_AK_TENSOR)
      tc_sb_put(&sb, a->args[i].value->name), tc_sb_putz(&sb, " : "), tc_type_print(&sb, a->arg_types[i]);
    else if (a->args[i].kind == TC_AK_TENSORS) tc_sb_printf(&sb, "%d tensors", a->args[i].n);
    else tc_arg_print(&sb, &a->args[i], i < a->op->schema.n_args ? a->op->schema.args[i].type : TC_ST_OTHER);
  }
  tc_status status = tc_failure_take(&a->failure);
  if (sb.size) status = tc_status_note(status, "with " TC_SV_FMT, TC_SV_ARG(tc_sb_view(&sb)));
  if (a->source.size) status = tc_status_note(status, "at " TC_SV_FMT, TC_SV_ARG(a->source));
  return status;
}

// ---- reading ----
static const tc_arg *at(const tc_op_args *a, int32_t i) {
  static const tc_arg none = {.kind = TC_AK_NONE};
  return i >= 0 && i < a->n_args ? &a->args[i] : &none;
}

int32_t tc_op_kind(const tc_op_args *a, int32_t arg) { return at(a, arg)->kind; }

int32_t tc_op_count(const tc_op_args *a, int32_t arg) {
  const tc_arg *g = at(a, arg);
  switch (g->kind) {
  case TC_AK_NONE: return 0;
  case TC_AK_TENSORS:
  case TC_AK_INTS:
  case TC_AK_FLOATS:
  case TC_AK_BOOLS:
  case TC_AK_STRINGS: return g->n;
  default: return 1;
  }
}

const tc_tensor_type *tc_op_tensor(const tc_op_args *a, int32_t arg) {
  return arg >= 0 && arg < a->n_args ? a->arg_types[arg] : NULL;
}

const tc_tensor_type *tc_op_tensor_at(const tc_op_args *a, int32_t arg, int32_t k) {
  if (arg < 0 || arg >= a->n_args || k < 0) return NULL;
  if (a->args[arg].kind != TC_AK_TENSORS) return k == 0 ? a->arg_types[arg] : NULL;
  return k < a->args[arg].n ? a->elem_types[arg][k] : NULL;
}

// NULL if element k of the argument is no integer.
static tc_int int_at(const tc_op_args *a, int32_t arg, int32_t k) {
  const tc_arg *g = at(a, arg);
  if (k < 0) return NULL;
  if (g->kind == TC_AK_INTS) return k < g->n ? g->syms[k] : NULL;
  if (g->kind == TC_AK_INT && k == 0) return g->sym;
  if (g->kind == TC_AK_BOOL && k == 0 && !g->value) return tc_sym_int(a->syms, g->integer);
  return NULL;
}

tc_int tc_op_sym(tc_op_args *a, int32_t arg) { return tc_op_sym_at(a, arg, 0); }

tc_int tc_op_sym_at(tc_op_args *a, int32_t arg, int32_t k) {
  tc_int e = int_at(a, arg, k);
  if (e) return e;
  tc_op_fail(a, "argument %d has no integer %d", arg, k);
  return tc_sym_int(a->syms, 0);
}

int64_t tc_op_int(const tc_op_args *a, int32_t arg, int64_t otherwise) { return tc_op_int_at(a, arg, 0, otherwise); }

int64_t tc_op_int_at(const tc_op_args *a, int32_t arg, int32_t k, int64_t otherwise) {
  tc_int e = int_at(a, arg, k);
  return e && tc_sym_is_const(e) ? e->value : otherwise;
}

double tc_op_float(const tc_op_args *a, int32_t arg, double otherwise) { return tc_op_float_at(a, arg, 0, otherwise); }

double tc_op_float_at(const tc_op_args *a, int32_t arg, int32_t k, double otherwise) {
  const tc_arg *g = at(a, arg);
  if (g->kind == TC_AK_FLOATS) return k >= 0 && k < g->n ? g->reals[k] : otherwise;
  if ((g->kind == TC_AK_FLOAT || g->kind == TC_AK_COMPLEX) && k == 0) return g->value ? otherwise : g->real;
  tc_int e = int_at(a, arg, k);
  return e && tc_sym_is_const(e) ? (double)e->value : otherwise;
}

int32_t tc_op_bool(const tc_op_args *a, int32_t arg, int32_t otherwise) { return tc_op_bool_at(a, arg, 0, otherwise); }

int32_t tc_op_bool_at(const tc_op_args *a, int32_t arg, int32_t k, int32_t otherwise) {
  const tc_arg *g = at(a, arg);
  if (g->kind == TC_AK_BOOLS) return k >= 0 && k < g->n ? g->bools[k] : otherwise;
  if (g->kind == TC_AK_BOOL && k == 0 && !g->value) return g->integer != 0;
  tc_int e = int_at(a, arg, k);
  return e && tc_sym_is_const(e) ? e->value != 0 : otherwise;
}

tc_sv tc_op_string(const tc_op_args *a, int32_t arg) {
  return at(a, arg)->kind == TC_AK_STRING || at(a, arg)->kind == TC_AK_DEVICE ? at(a, arg)->text : (tc_sv){"", 0};
}
tc_dtype tc_op_dtype(const tc_op_args *a, int32_t arg, tc_dtype otherwise) {
  return at(a, arg)->kind == TC_AK_DTYPE ? (tc_dtype)at(a, arg)->integer : otherwise;
}
int32_t tc_op_memory_format(const tc_op_args *a, int32_t arg, int32_t otherwise) {
  return at(a, arg)->kind == TC_AK_MEMORY_FORMAT ? (int32_t)at(a, arg)->integer : otherwise;
}

int32_t tc_op_number(const tc_op_args *a, int32_t arg, tc_number *out) {
  const tc_arg *g = at(a, arg);
  if (tc_arg_number_dtype(g) == TC_DTYPE_NONE) return 0;
  *out = (tc_number){.kind = g->kind};
  switch (g->kind) {
  case TC_AK_INT:
    out->sym = g->sym;
    if (tc_sym_is_const(g->sym)) out->i = g->sym->value, out->re = (double)g->sym->value;
    else out->i = tc_sym_hint_or(a->syms, g->sym, 0), out->re = (double)out->i;
    break;
  case TC_AK_BOOL: out->i = g->integer, out->re = (double)g->integer; break;
  default:
    out->re = g->real, out->im = g->kind == TC_AK_COMPLEX ? g->imag : 0;
    out->i = tc_float_to_int(TC_I64, g->real);
  }
  return 1;
}

int32_t tc_op_result_count(const tc_op_args *a) { return a->n_results; }
const tc_tensor_type *tc_op_result_type(const tc_op_args *a, int32_t result) {
  return result >= 0 && result < a->n_results && a->results[result].set ? &a->results[result].type : NULL;
}
tc_sv tc_op_name(const tc_op_args *a) { return a->op->full_name; }

int32_t tc_op_arg_index(const tc_op_args *a, const char *name) {
  for (int32_t i = 0; i < a->op->schema.n_args; i++)
    if (tc_sv_is(a->op->schema.args[i].name, name)) return i;
  return -1;
}

const char *tc_op_shape_text(tc_op_args *a, int32_t arg) {
  tc_sb sb = tc_sb_make(a->arena);
  if (tc_op_tensor(a, arg)) tc_type_print(&sb, tc_op_tensor(a, arg));
  else tc_sb_putz(&sb, tc_arg_kind_name(tc_op_kind(a, arg)));
  return sb.text;
}
