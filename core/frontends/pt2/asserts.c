// Nodes that are no nodes here: questions about a tensor's type (sym_size …), which become expressions, and asserts,
// which become conditions.
//
// A condition that is provable is dropped. One over symbols of inputs is required of them, before anything runs. One
// over a number that comes from data stays a node (aten::_assert_scalar), and so does every one inside a region, which
// may not run at all.
#include "core/frontends/pt2/import.h"

static tc_status add_assert(pt2_import *im, pt2_scope *s, const at *where, tc_arg condition, tc_sv message,
                            tc_sv source) {
  const tc_op *op = tc_op_find(im->file->ops, TC_SV("aten::_assert_scalar"));
  if (op == NULL) return pt2_refuse(where, "an assertion about data needs the op aten::_assert_scalar");
  tc_arg args[2] = {condition, tc_arg_string(tc_sv_copy(im->arena, message))};
  tc_node *made;
  return tc_graph_add_node(s->graph, NULL, op, 2, args, TC_SV("assert"), source, &made);
}

tc_status pt2_condition(pt2_import *im, pt2_scope *s, const at *where, const tc_sym *condition, tc_sv message,
                        tc_sv source) {
  int32_t known = condition->kind == TC_SYM_CONST ? condition->value != 0 : tc_sym_prove(im->syms, condition);
  if (known == 1) return TC_OK;
  if (known == 0) {
    tc_sb sb = tc_sb_make(im->scratch);
    tc_sym_print(&sb, condition);
    return pt2_bad(where, "an assertion of the program never holds: " TC_SV_FMT " (" TC_SV_FMT ")",
                   TC_SV_ARG(tc_sb_view(&sb)), TC_SV_ARG(message));
  }
  bool in_region = s->graph != im->program->graph;
  if (!in_region && !pt2_uses_unbacked(im, condition)) {
    tc_module_require(im->module, condition);
    return TC_OK;
  }
  TC_TRY(add_assert(im, s, where, tc_arg_sym(condition), message, source));
  if (!in_region) tc_sym_assume(im->syms, condition);
  return TC_OK;
}

// The argument `name` of a node; TC_AK_NONE if it is not given.
static tc_status argument(pt2_import *im, pt2_scope *s, const at *where, const pt2_node *n, const char *name,
                          tc_arg *out) {
  at inputs_at = at_key(where, "inputs");
  int64_t i = 0;
  *out = tc_arg_none();
  for (tc_json_iter it = tc_json_begin(n->inputs); tc_json_next(&it); i++) {
    tc_sv given;
    if (!tc_json_str(tc_json_get(it.value, "name"), &given) || !tc_sv_is(given, name)) continue;
    at input_at = at_item(&inputs_at, i), arg_at = at_key(&input_at, "arg");
    return pt2_arg(im, s, &arg_at, tc_json_get(it.value, "arg"), out);
  }
  return TC_OK;
}

static tc_status tensor_argument(pt2_import *im, pt2_scope *s, const at *where, const pt2_node *n, const char *name,
                                 const tc_tensor_type **out) {
  tc_arg a;
  TC_TRY(argument(im, s, where, n, name, &a));
  if (a.kind != TC_AK_TENSOR || a.value->kind != TC_VALUE_TENSOR)
    return pt2_bad(where, "the argument '%s' is no tensor", name);
  *out = &a.value->type;
  return TC_OK;
}

// ---- questions about a type ----
static tc_status dim_argument(pt2_import *im, pt2_scope *s, const at *where, const pt2_node *n, int32_t rank,
                              int32_t *out) {
  tc_arg a;
  TC_TRY(argument(im, s, where, n, "dim", &a));
  if (a.kind != TC_AK_INT || a.sym->kind != TC_SYM_CONST || a.sym->value < -rank || a.sym->value >= rank)
    return pt2_bad(where, "dim is no dimension of a tensor of rank %d", rank);
  *out = (int32_t)(a.sym->value < 0 ? a.sym->value + rank : a.sym->value);
  return TC_OK;
}

// Gives the single output the value `ours`, which binds the archive's symbol for it.
static tc_status define_query(pt2_import *im, pt2_scope *s, const at *where, const pt2_node *n, const tc_sym *ours) {
  at outputs_at = at_key(where, "outputs"), here = at_item(&outputs_at, 0);
  tc_json_iter it = tc_json_begin(n->outputs);
  tc_sv tag, kind, name;
  tc_json value, inner;
  if (tc_json_count(n->outputs) != 1 || !tc_json_next(&it)) return pt2_bad(&outputs_at, "expected one output");
  TC_TRY(pt2_union(&here, it.value, &tag, &value));
  if (tc_sv_is(tag, "as_none")) return TC_OK; // not used
  if (!tc_sv_is(tag, "as_sym_int")) return pt2_bad(&here, "expected a symbolic integer");
  TC_TRY(pt2_union(&here, value, &kind, &inner));
  if (!tc_sv_is(kind, "as_name")) return TC_OK;
  TC_TRY(pt2_as_str(&here, inner, &name));
  const tc_map_entry *e = tc_map_find(s->ints, name);
  if (e == NULL) return pt2_bad(&here, "'" TC_SV_FMT "' is missing in sym_int_values", TC_SV_ARG(name));
  tc_json meta = {s->json.doc, (uint64_t)e->value.num};
  const tc_sym *theirs;
  TC_TRY(pt2_symint(im, &here, meta, &theirs, NULL));
  theirs = pt2_unify(im, theirs, ours);
  TC_TRY(pt2_check_bound(im, &here, theirs));
  if (theirs != ours)
    TC_TRY(pt2_condition(im, s, where, tc_sym_cmp(im->syms, TC_SYM_EQ, theirs, ours),
                         TC_SV("a size is the one that the program was exported for"), n->source));
  return pt2_define(im, s, &here, name, tc_arg_sym(theirs));
}

static tc_status import_size(pt2_import *im, pt2_scope *s, const at *where, const pt2_node *n) {
  const tc_tensor_type *t;
  int32_t dim;
  TC_TRY(tensor_argument(im, s, where, n, "self", &t));
  TC_TRY(dim_argument(im, s, where, n, t->rank, &dim));
  return define_query(im, s, where, n, t->sizes[dim]);
}

static tc_status import_stride(pt2_import *im, pt2_scope *s, const at *where, const pt2_node *n) {
  const tc_tensor_type *t;
  int32_t dim;
  TC_TRY(tensor_argument(im, s, where, n, "self", &t));
  TC_TRY(dim_argument(im, s, where, n, t->rank, &dim));
  return define_query(im, s, where, n, t->strides[dim]);
}

static tc_status import_numel(pt2_import *im, pt2_scope *s, const at *where, const pt2_node *n) {
  const tc_tensor_type *t;
  TC_TRY(tensor_argument(im, s, where, n, "self", &t));
  return define_query(im, s, where, n, tc_type_numel(im->module, t));
}

static tc_status import_offset(pt2_import *im, pt2_scope *s, const at *where, const pt2_node *n) {
  const tc_tensor_type *t;
  TC_TRY(tensor_argument(im, s, where, n, "self", &t));
  return define_query(im, s, where, n, t->offset);
}

// Its answer is in sym_bool_values where anything uses it.
static tc_status import_is_contiguous(pt2_import *im, pt2_scope *s, const at *where, const pt2_node *n) {
  at outputs_at = at_key(where, "outputs"), here = at_item(&outputs_at, 0);
  tc_json_iter it = tc_json_begin(n->outputs);
  tc_sv tag, name;
  tc_json value;
  if (!tc_json_next(&it)) return TC_OK;
  TC_TRY(pt2_union(&here, it.value, &tag, &value));
  if (!tc_json_str(tc_json_get(value, "as_name"), &name)) return TC_OK;
  return pt2_define_number(im, s, &here, tag, name);
}

// ---- asserts ----
static tc_status import_assert(pt2_import *im, pt2_scope *s, const at *where, const pt2_node *n) {
  tc_arg condition, message;
  TC_TRY(argument(im, s, where, n, "self", &condition));
  TC_TRY(argument(im, s, where, n, "assert_msg", &message));
  tc_sv text = message.kind == TC_AK_STRING ? message.text : TC_SV("assertion");
  if (condition.kind == TC_AK_INT)
    return pt2_condition(im, s, where, tc_sym_cmp(im->syms, TC_SYM_NE, condition.sym, tc_sym_int(im->syms, 0)), text,
                         n->source);
  if (condition.kind == TC_AK_BOOL && condition.value == NULL)
    return pt2_condition(im, s, where, tc_sym_int(im->syms, condition.integer != 0), text, n->source);
  if (condition.value == NULL) return pt2_refuse(where, "an assertion about a number of this kind");
  return add_assert(im, s, where, condition, text, n->source); // a comparison of floating-point numbers
}

// sym_constrain_range: min ≤ size ≤ max; _for_size also size ≥ 0.
static tc_status constrain(pt2_import *im, pt2_scope *s, const at *where, const pt2_node *n, bool for_size) {
  tc_arg size, min, max;
  TC_TRY(argument(im, s, where, n, "size", &size));
  TC_TRY(argument(im, s, where, n, "min", &min));
  TC_TRY(argument(im, s, where, n, "max", &max));
  if (size.kind != TC_AK_INT) return pt2_bad(where, "the argument 'size' is no integer");
  tc_sym_ctx *c = im->syms;
  if (for_size)
    TC_TRY(pt2_condition(im, s, where, tc_sym_cmp(c, TC_SYM_LE, tc_sym_int(c, 0), size.sym),
                         TC_SV("a size is not negative"), n->source));
  if (min.kind == TC_AK_INT)
    TC_TRY(pt2_condition(im, s, where, tc_sym_cmp(c, TC_SYM_LE, min.sym, size.sym),
                         TC_SV("a number is not below its range"), n->source));
  if (max.kind == TC_AK_INT)
    TC_TRY(pt2_condition(im, s, where, tc_sym_cmp(c, TC_SYM_LE, size.sym, max.sym),
                         TC_SV("a number is not above its range"), n->source));
  return TC_OK;
}

static tc_status import_constrain(pt2_import *im, pt2_scope *s, const at *where, const pt2_node *n) {
  return constrain(im, s, where, n, false);
}
static tc_status import_constrain_size(pt2_import *im, pt2_scope *s, const at *where, const pt2_node *n) {
  return constrain(im, s, where, n, true);
}

static tc_status assert_list(pt2_import *im, pt2_scope *s, const at *where, const pt2_node *n, const char *name,
                             int32_t rank, const tc_int *actual) {
  tc_arg a;
  TC_TRY(argument(im, s, where, n, name, &a));
  if (a.kind != TC_AK_INTS) return TC_OK;
  if (a.n != rank) return pt2_bad(where, "the program asserts %d dimensions of a tensor that has %d", a.n, rank);
  for (int32_t i = 0; i < rank; i++)
    TC_TRY(pt2_condition(im, s, where, tc_sym_cmp(im->syms, TC_SYM_EQ, a.syms[i], actual[i]),
                         TC_SV("a tensor has the size that the program asserts"), n->source));
  return TC_OK;
}

static tc_status import_assert_metadata(pt2_import *im, pt2_scope *s, const at *where, const pt2_node *n) {
  const tc_tensor_type *t;
  tc_arg dtype;
  TC_TRY(tensor_argument(im, s, where, n, "a", &t));
  TC_TRY(argument(im, s, where, n, "dtype", &dtype));
  if (dtype.kind == TC_AK_DTYPE && dtype.integer != t->dtype)
    return pt2_bad(where, "the program asserts the dtype %s of a tensor of dtype %s",
                   tc_dtype_torch_name((tc_dtype)dtype.integer), tc_dtype_torch_name(t->dtype));
  TC_TRY(assert_list(im, s, where, n, "size", t->rank, t->sizes));
  return assert_list(im, s, where, n, "stride", t->rank, t->strides);
}

// ---- the table ----
typedef tc_status special_fn(pt2_import *im, pt2_scope *s, const at *where, const pt2_node *n);
static const struct {
  const char *name; // behind "torch.ops.aten."
  special_fn *import;
} specials[] = {
    {"sym_size.int", import_size},
    {"sym_stride.int", import_stride},
    {"sym_numel.default", import_numel},
    {"sym_storage_offset.default", import_offset},
    {"sym_is_contiguous.default", import_is_contiguous},
    {"_assert_scalar.default", import_assert},
    {"_assert_tensor_metadata.default", import_assert_metadata},
    {"sym_constrain_range.default", import_constrain},
    {"sym_constrain_range_for_size.default", import_constrain_size},
};

static special_fn *find_special(tc_sv target) {
  if (!tc_sv_starts(target, "torch.ops.aten.")) return NULL;
  tc_sv name = tc_sv_sub(target, sizeof "torch.ops.aten." - 1, target.size);
  if (name.data[0] != 's' && name.data[0] != '_') return NULL;
  for (size_t i = 0; i < sizeof specials / sizeof *specials; i++)
    if (tc_sv_is(name, specials[i].name)) return specials[i].import;
  return NULL;
}

bool pt2_is_special(tc_sv target) { return find_special(target) != NULL; }

tc_status pt2_import_special(pt2_import *im, pt2_scope *s, const at *where, const pt2_node *n, bool *out_done) {
  special_fn *import = find_special(n->target);
  *out_done = import != NULL;
  return import ? import(im, s, where, n) : TC_OK;
}
