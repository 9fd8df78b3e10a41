// Functions on numbers (_operator.*, torch.sym_*, math.*).
//
// Integers and conditions over them are expressions that the archive spells out in its value tables: no node is made.
// Floating-point numbers have no expressions. A function of them is computed as a 0-dimensional f64 tensor and read
// back:
//   mul(item, 2.0)  →  item(mul.Tensor(scalar_tensor(item), scalar_tensor(2.0)))
#include "core/frontends/pt2/import.h"

typedef struct function_row {
  const char *target;
  const char *op; // on f64 tensors; "": the operand itself
  int32_t operands;
} function_row;
static const function_row functions[] = {
    {"_operator.add", "aten::add.Tensor", 2},
    {"_operator.sub", "aten::sub.Tensor", 2},
    {"_operator.mul", "aten::mul.Tensor", 2},
    {"_operator.truediv", "aten::div.Tensor", 2},
    {"_operator.neg", "aten::neg", 1},
    {"_operator.pos", "", 1},
    {"_operator.pow", "aten::pow.Tensor_Tensor", 2},
    {"_operator.mod", "aten::remainder.Tensor", 2},
    {"_operator.abs", "aten::abs", 1},
    {"_operator.eq", "aten::eq.Tensor", 2},
    {"_operator.ne", "aten::ne.Tensor", 2},
    {"_operator.lt", "aten::lt.Tensor", 2},
    {"_operator.le", "aten::le.Tensor", 2},
    {"_operator.gt", "aten::gt.Tensor", 2},
    {"_operator.ge", "aten::ge.Tensor", 2},
    {"torch.sym_float", "", 1},
    {"torch.sym_max", "aten::maximum", 2},
    {"torch.sym_min", "aten::minimum", 2},
    {"torch.sym_sqrt", "aten::sqrt", 1},
    {"torch._sym_sqrt", "aten::sqrt", 1},
    {"math.trunc", "aten::trunc", 1},
    {"math.floor", "aten::floor", 1},
    {"math.ceil", "aten::ceil", 1},
    {"builtins.round", "aten::round", 1},
    {"torch.sym_int", "aten::trunc", 1},
    {"_operator.floordiv", "floor", 2}, // floor(a / b)
};

static const function_row *find_function(tc_sv target) {
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
    if (tc_sv_is(target, functions[i].target)) return &functions[i];
  return NULL;
}

// A node of a named op; NOT_FOUND if it is not registered.
static tc_status add(pt2_import *im, pt2_scope *s, const pt2_node *n, const char *name, int32_t n_args,
                     const tc_arg *args, tc_value **out) {
  const tc_op *op = tc_op_find(im->file->ops, tc_sv_of(name));
  tc_node *made;
  if (op == NULL) return tc_error(TC_STATUS_NOT_FOUND, "the op '%s' is not known", name);
  TC_TRY(tc_graph_add_node(s->graph, NULL, op, n_args, args, n->name, n->source, &made));
  *out = made->results[0];
  return TC_OK;
}

static tc_status compute(pt2_import *im, pt2_scope *s, const at *where, const pt2_node *n, const function_row *f,
                         bool to_int, tc_value **out) {
  tc_value *x[2];
  int32_t i = 0;
  at inputs_at = at_key(where, "inputs");
  if (tc_json_count(n->inputs) != f->operands)
    return pt2_bad(&inputs_at, "'%s' takes %d operands", f->target, f->operands);
  for (tc_json_iter it = tc_json_begin(n->inputs); tc_json_next(&it); i++) {
    at input_at = at_item(&inputs_at, i), arg_at = at_key(&input_at, "arg");
    tc_arg args[2] = {tc_arg_none(), tc_arg_dtype(TC_F64)};
    TC_TRY(pt2_arg(im, s, &arg_at, tc_json_get(it.value, "arg"), &args[0]));
    TC_TRY(add(im, s, n, "aten::scalar_tensor", 2, args, &x[i]));
  }
  tc_arg args[2] = {tc_arg_tensor(x[0]), f->operands > 1 ? tc_arg_tensor(x[1]) : tc_arg_none()};
  tc_value *y = x[0];
  if (tc_sv_is(tc_sv_of(f->op), "floor")) {
    TC_TRY(add(im, s, n, "aten::div.Tensor", 2, args, &y));
    args[0] = tc_arg_tensor(y);
    TC_TRY(add(im, s, n, "aten::floor", 1, args, &y));
  } else if (f->op[0]) TC_TRY(add(im, s, n, f->op, f->operands, args, &y));
  if (to_int) {
    tc_arg cast[2] = {tc_arg_tensor(y), tc_arg_dtype(TC_I64)};
    TC_TRY(add(im, s, n, "aten::_to_copy", 2, cast, &y));
  }
  args[0] = tc_arg_tensor(y);
  return add(im, s, n, "aten::item", 1, args, out);
}

static bool reads_float(pt2_scope *s, const pt2_node *n) {
  for (tc_json_iter it = tc_json_begin(n->inputs); tc_json_next(&it);) {
    tc_sv name;
    tc_json arg = tc_json_get(it.value, "arg");
    if (!tc_json_str(tc_json_get(tc_json_get(arg, "as_sym_float"), "as_name"), &name)) continue;
    const tc_map_entry *e = tc_map_find(s->names, name);
    if (e && (((const pt2_name *)e->value.ptr)->arg.value || ((const pt2_name *)e->value.ptr)->why)) return true;
  }
  return false;
}

// The value tables say that it is a known number.
static bool is_literal(pt2_scope *s, tc_map *table, tc_sv name) {
  const tc_map_entry *e = tc_map_find(table, name);
  if (e == NULL) return false;
  tc_json_iter it = tc_json_begin((tc_json){s->json.doc, (uint64_t)e->value.num});
  return tc_json_next(&it) && !tc_sv_is(it.key, "as_expr");
}

tc_status pt2_import_number_node(pt2_import *im, pt2_scope *s, const at *where, const pt2_node *n) {
  at outputs_at = at_key(where, "outputs");
  int64_t i = 0;
  for (tc_json_iter it = tc_json_begin(n->outputs); tc_json_next(&it); i++) {
    at here = at_item(&outputs_at, i);
    tc_sv tag, kind, name;
    tc_json value, inner;
    TC_TRY(pt2_union(&here, it.value, &tag, &value));
    if (!tc_sv_starts(tag, "as_sym_"))
      return pt2_refuse(&here, "a result of this kind of '" TC_SV_FMT "'", TC_SV_ARG(n->target));
    TC_TRY(pt2_union(&here, value, &kind, &inner));
    if (!tc_sv_is(kind, "as_name")) continue;
    TC_TRY(pt2_as_str(&here, inner, &name));
    bool is_int = tc_sv_is(tag, "as_sym_int"), is_float = tc_sv_is(tag, "as_sym_float");
    tc_map *table = is_int ? s->ints : is_float ? s->floats : s->bools;
    const function_row *f = find_function(n->target);
    if (is_literal(s, table, name) || !(is_float || reads_float(s, n)) || f == NULL) {
      TC_TRY(pt2_define_number(im, s, &here, tag, name));
      continue;
    }
    tc_value *v;
    tc_status status = compute(im, s, where, n, f, is_int, &v);
    if (tc_status_code(status) == TC_STATUS_NOT_FOUND) { // an error only where the number is used
      tc_status_free(status);
      TC_TRY(pt2_define_useless(im, s, &here, name,
                                "it is computed from floating-point numbers, by ops that are not known"));
      continue;
    }
    TC_TRY(status);
    TC_TRY(pt2_name_number(im, s, &here, tag, value, v));
  }
  return TC_OK;
}
