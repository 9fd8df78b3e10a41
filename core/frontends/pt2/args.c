// Argument unions to tc_arg, and the names of a graph.
//
// The tag follows the Python value, not the schema: conversions by the schema are tc_op_normalize's. A name is looked
// up among everything defined so far, whatever the tag: operands of higher-order ops are written as tensors even where
// they are integers.
#include <math.h>
#include <string.h>

#include "core/frontends/pt2/import.h"

// ---- names ----
tc_status pt2_lookup(pt2_scope *s, const at *where, tc_sv name, tc_arg *out) {
  const tc_map_entry *e = tc_map_find(s->names, name);
  if (e == NULL)
    return pt2_bad(where, "'" TC_SV_FMT "' is used, but no input or earlier node defines it", TC_SV_ARG(name));
  const pt2_name *n = e->value.ptr;
  if (n->why) return pt2_refuse(where, "'" TC_SV_FMT "' cannot be used: %s", TC_SV_ARG(name), n->why);
  *out = n->arg;
  return TC_OK;
}

static tc_status define(pt2_import *im, pt2_scope *s, const at *where, tc_sv name, tc_arg arg, const char *why) {
  bool fresh;
  tc_map_entry *e = tc_map_put(s->names, name, &fresh);
  if (!fresh && e->value.ptr) return pt2_bad(where, "'" TC_SV_FMT "' is defined twice", TC_SV_ARG(name));
  pt2_name *n = TC_NEW(im->scratch, pt2_name);
  n->arg = arg, n->why = why;
  e->value.ptr = n;
  return TC_OK;
}

tc_status pt2_define(pt2_import *im, pt2_scope *s, const at *where, tc_sv name, tc_arg arg) {
  return define(im, s, where, name, arg, NULL);
}

tc_status pt2_define_useless(pt2_import *im, pt2_scope *s, const at *where, tc_sv name, const char *why) {
  return define(im, s, where, name, tc_arg_none(), why);
}

tc_status pt2_define_number(pt2_import *im, pt2_scope *s, const at *where, tc_sv tag, tc_sv name) {
  bool is_int = tc_sv_is(tag, "as_sym_int"), is_bool = tc_sv_is(tag, "as_sym_bool");
  tc_map *table = is_int ? s->ints : is_bool ? s->bools : s->floats;
  const char *label = is_int ? "sym_int_values" : is_bool ? "sym_bool_values" : "sym_float_values";
  const tc_map_entry *e = tc_map_find(table, name);
  if (e == NULL) return pt2_bad(where, "'" TC_SV_FMT "' is missing in %s", TC_SV_ARG(name), label);
  at values = at_key(where, label), here = at_name(&values, name);
  tc_json v = {s->json.doc, (uint64_t)e->value.num};
  tc_sv kind, text;
  tc_json value;
  TC_TRY(pt2_union(&here, v, &kind, &value));
  double real;
  bool flag;
  int64_t n;
  if (is_int && tc_sv_is(kind, "as_int")) {
    TC_TRY(pt2_as_int(&here, value, &n));
    return define(im, s, where, name, tc_arg_sym(tc_sym_int(im->syms, n)), NULL);
  }
  if (is_bool && tc_sv_is(kind, "as_bool") && tc_json_bool(value, &flag))
    return define(im, s, where, name, tc_arg_bool(flag), NULL);
  if (!is_int && !is_bool && tc_sv_is(kind, "as_float") && tc_json_double(value, &real))
    return define(im, s, where, name, tc_arg_float(real), NULL);
  if (!tc_sv_is(kind, "as_expr"))
    return pt2_bad(&here, "unknown tag '" TC_SV_FMT "' of a symbolic number", TC_SV_ARG(kind));
  if (!is_int && !is_bool)
    return define(im, s, where, name, tc_arg_none(),
                  "it is a floating-point number computed from sizes or data by a function that is not supported");
  TC_TRY(pt2_str(&here, value, "expr_str", &text));
  const tc_sym *expr;
  TC_TRY(pt2_expr(im, &here, text, &expr));
  TC_TRY(pt2_check_bound(im, &here, expr));
  if (is_bool && expr->kind == TC_SYM_CONST) return define(im, s, where, name, tc_arg_bool(expr->value != 0), NULL);
  return define(im, s, where, name, tc_arg_sym(expr), NULL); // a bool is an expression of value 0 or 1
}

// ---- scalars ----
static tc_status read_double(const at *where, tc_json v, double *out) {
  return tc_json_double(v, out) ? TC_OK : pt2_bad(where, "expected a number");
}

static tc_status read_bool(const at *where, tc_json v, bool *out) {
  return tc_json_bool(v, out) ? TC_OK : pt2_bad(where, "expected true or false");
}

tc_status pt2_number_arg(pt2_import *im, pt2_scope *s, const at *where, tc_json v, tc_arg *out) {
  tc_sv tag, name;
  tc_json value;
  TC_TRY(pt2_union(where, v, &tag, &value));
  at here = at_name(where, tag);
  if (tc_sv_is(tag, "as_name")) {
    TC_TRY(pt2_as_str(&here, value, &name));
    return pt2_lookup(s, &here, name, out);
  }
  if (tc_sv_is(tag, "as_int")) {
    int64_t n;
    TC_TRY(pt2_as_int(&here, value, &n));
    *out = tc_arg_sym(tc_sym_int(im->syms, n));
    return TC_OK;
  }
  if (tc_sv_is(tag, "as_float")) {
    double d;
    TC_TRY(read_double(&here, value, &d));
    *out = tc_arg_float(d);
    return TC_OK;
  }
  if (tc_sv_is(tag, "as_bool")) {
    bool b;
    TC_TRY(read_bool(&here, value, &b));
    *out = tc_arg_bool(b);
    return TC_OK;
  }
  return pt2_bad(&here, "unknown tag of a symbolic number");
}

static tc_status name_arg(pt2_import *im, pt2_scope *s, const at *where, tc_json v, tc_arg *out) {
  (void)im;
  tc_sv name;
  TC_TRY(pt2_named(where, v, &name));
  return pt2_lookup(s, where, name, out);
}

static tc_status none_arg(pt2_import *im, pt2_scope *s, const at *where, tc_json v, tc_arg *out) {
  (void)im, (void)s, (void)where, (void)v;
  *out = tc_arg_none();
  return TC_OK;
}

static tc_status int_arg(pt2_import *im, pt2_scope *s, const at *where, tc_json v, tc_arg *out) {
  (void)s;
  int64_t n;
  TC_TRY(pt2_as_int(where, v, &n));
  *out = tc_arg_sym(tc_sym_int(im->syms, n));
  return TC_OK;
}

static tc_status float_arg(pt2_import *im, pt2_scope *s, const at *where, tc_json v, tc_arg *out) {
  (void)im, (void)s;
  double d;
  TC_TRY(read_double(where, v, &d));
  *out = tc_arg_float(d);
  return TC_OK;
}

static tc_status bool_arg(pt2_import *im, pt2_scope *s, const at *where, tc_json v, tc_arg *out) {
  (void)im, (void)s;
  bool b;
  TC_TRY(read_bool(where, v, &b));
  *out = tc_arg_bool(b);
  return TC_OK;
}

static tc_status string_arg(pt2_import *im, pt2_scope *s, const at *where, tc_json v, tc_arg *out) {
  (void)s;
  tc_sv text;
  TC_TRY(pt2_as_str(where, v, &text));
  *out = tc_arg_string(tc_sv_copy(im->arena, text));
  return TC_OK;
}

static tc_status dtype_arg(pt2_import *im, pt2_scope *s, const at *where, tc_json v, tc_arg *out) {
  (void)im, (void)s;
  int64_t n;
  tc_dtype dtype;
  TC_TRY(pt2_as_int(where, v, &n));
  TC_TRY(pt2_dtype(where, n, &dtype));
  *out = tc_arg_dtype(dtype);
  return TC_OK;
}

static tc_status enum_arg(const at *where, tc_json v, int32_t kind, int64_t most, tc_arg *out) {
  int64_t n;
  TC_TRY(pt2_as_int(where, v, &n));
  if (n < 1 || n > most) return pt2_bad(where, "unknown number %lld", (long long)n);
  *out = (tc_arg){.kind = kind, .integer = n};
  return TC_OK;
}

static tc_status layout_arg(pt2_import *im, pt2_scope *s, const at *where, tc_json v, tc_arg *out) {
  (void)im, (void)s;
  TC_TRY(enum_arg(where, v, TC_AK_LAYOUT, 7, out));
  return out->integer == 7 ? TC_OK : pt2_refuse(where, "only the strided layout is supported");
}

static tc_status format_arg(pt2_import *im, pt2_scope *s, const at *where, tc_json v, tc_arg *out) {
  (void)im, (void)s;
  return enum_arg(where, v, TC_AK_MEMORY_FORMAT, TC_FORMAT_PRESERVE, out);
}

static tc_status device_arg(pt2_import *im, pt2_scope *s, const at *where, tc_json v, tc_arg *out) {
  (void)s;
  tc_sv type;
  int64_t index;
  TC_TRY(pt2_str(where, v, "type", &type));
  *out = (tc_arg){.kind = TC_AK_DEVICE};
  if (tc_json_int(tc_json_get(v, "index"), &index))
    out->text = tc_sv_printf(im->arena, TC_SV_FMT ":%lld", TC_SV_ARG(type), (long long)index);
  else out->text = tc_sv_copy(im->arena, type);
  return TC_OK;
}

static tc_status complex_arg(pt2_import *im, pt2_scope *s, const at *where, tc_json v, tc_arg *out) {
  (void)im, (void)s;
  double re, im_part;
  at re_at = at_key(where, "real"), im_at = at_key(where, "imag");
  TC_TRY(read_double(&re_at, tc_json_get(v, "real"), &re));
  TC_TRY(read_double(&im_at, tc_json_get(v, "imag"), &im_part));
  *out = tc_arg_complex(re, im_part);
  return TC_OK;
}

// {"as_tensor": …} | {"as_none": true}
static tc_status optional_arg(pt2_import *im, pt2_scope *s, const at *where, tc_json v, tc_arg *out) {
  tc_sv tag;
  tc_json value;
  TC_TRY(pt2_union(where, v, &tag, &value));
  at here = at_name(where, tag);
  if (tc_sv_is(tag, "as_none")) return none_arg(im, s, &here, value, out);
  if (tc_sv_is(tag, "as_tensor")) return name_arg(im, s, &here, value, out);
  return pt2_bad(&here, "unknown tag of an optional tensor");
}

// ---- lists ----
typedef tc_status element_fn(pt2_import *im, pt2_scope *s, const at *where, tc_json v, tc_arg *out);

static tc_status read_list(pt2_import *im, pt2_scope *s, const at *where, tc_json v, element_fn *element,
                           int32_t *out_n, tc_arg **out) {
  if (tc_json_kind(v) != TC_JSON_ARRAY) return pt2_bad(where, "expected an array");
  int64_t n = tc_json_count(v);
  if (n > INT32_MAX / 2) return pt2_bad(where, "a list of %lld elements", (long long)n);
  tc_arg *args = TC_NEW_ARRAY(im->scratch, tc_arg, n);
  int32_t i = 0;
  for (tc_json_iter it = tc_json_begin(v); tc_json_next(&it); i++) {
    at here = at_item(where, i);
    TC_TRY(element(im, s, &here, it.value, &args[i]));
  }
  *out_n = i, *out = args;
  return TC_OK;
}

// The list of the kind that its elements have: all tensors (or none), all integers, all floats, all bools.
static tc_status list_of(pt2_import *im, const at *where, int32_t n, const tc_arg *args, int32_t empty_kind,
                         tc_arg *out) {
  int32_t tensors = 0, ints = 0, floats = 0, bools = 0;
  for (int32_t i = 0; i < n; i++) {
    int32_t k = args[i].kind;
    if (k == TC_AK_TENSOR || k == TC_AK_NONE) tensors++;
    else if (k == TC_AK_INT) ints++;
    else if (k == TC_AK_FLOAT && args[i].value == NULL) floats++;
    else if (k == TC_AK_BOOL && args[i].value == NULL) bools++;
    else return pt2_refuse(where, "element %d cannot stand in a list", i);
  }
  *out = (tc_arg){.kind = empty_kind};
  if (n == 0) return TC_OK;
  out->n = n;
  if (tensors == n) {
    tc_value **values = TC_NEW_ARRAY(im->arena, tc_value *, n);
    for (int32_t i = 0; i < n; i++) values[i] = args[i].kind == TC_AK_TENSOR ? args[i].value : NULL;
    out->kind = TC_AK_TENSORS, out->values = values;
  } else if (ints == n) {
    const tc_sym **syms = TC_NEW_ARRAY(im->arena, const tc_sym *, n);
    for (int32_t i = 0; i < n; i++) syms[i] = args[i].sym;
    out->kind = TC_AK_INTS, out->syms = syms;
  } else if (bools == n) {
    uint8_t *flags = TC_NEW_ARRAY(im->arena, uint8_t, n);
    for (int32_t i = 0; i < n; i++) flags[i] = args[i].integer != 0;
    out->kind = TC_AK_BOOLS, out->bools = flags;
  } else if (floats + ints == n) {
    double *reals = TC_NEW_ARRAY(im->arena, double, n);
    for (int32_t i = 0; i < n; i++) {
      if (args[i].kind == TC_AK_INT && args[i].sym->kind != TC_SYM_CONST)
        return pt2_refuse(where, "a symbolic integer in a list of floats");
      reals[i] = args[i].kind == TC_AK_INT ? (double)args[i].sym->value : args[i].real;
    }
    out->kind = TC_AK_FLOATS, out->reals = reals;
  } else return pt2_refuse(where, "a list that mixes tensors and numbers");
  return TC_OK;
}

typedef struct tag_row {
  const char *tag;
  element_fn *read; // of the value, or of an element of a list
  bool list;
  int32_t empty_kind; // of an empty list
} tag_row;

static tc_status strings_arg(pt2_import *im, pt2_scope *s, const at *where, tc_json v, tc_arg *out) {
  int32_t n;
  tc_arg *args;
  TC_TRY(read_list(im, s, where, v, string_arg, &n, &args));
  tc_sv *texts = TC_NEW_ARRAY(im->arena, tc_sv, n);
  for (int32_t i = 0; i < n; i++) texts[i] = args[i].text;
  *out = (tc_arg){.kind = TC_AK_STRINGS, .n = n, .texts = texts};
  return TC_OK;
}

static tc_status graph_arg(pt2_import *im, pt2_scope *s, const at *where, tc_json v, tc_arg *out) {
  (void)im, (void)s, (void)v, (void)out;
  return pt2_refuse(where, "a graph as an argument of this op");
}

static tc_status unsupported_arg(pt2_import *im, pt2_scope *s, const at *where, tc_json v, tc_arg *out) {
  (void)im, (void)s, (void)v, (void)out;
  return pt2_refuse(where, "arguments of this kind are not supported");
}

static const tag_row tag_rows[] = {
    // frequent ones first
    {"as_tensor", name_arg, false, 0},
    {"as_int", int_arg, false, 0},
    {"as_ints", int_arg, true, TC_AK_INTS},
    {"as_none", none_arg, false, 0},
    {"as_bool", bool_arg, false, 0},
    {"as_float", float_arg, false, 0},
    {"as_scalar_type", dtype_arg, false, 0},
    {"as_device", device_arg, false, 0},
    {"as_sym_int", pt2_number_arg, false, 0},
    {"as_sym_ints", pt2_number_arg, true, TC_AK_INTS},
    {"as_tensors", name_arg, true, TC_AK_TENSORS},
    {"as_optional_tensors", optional_arg, true, TC_AK_TENSORS},
    {"as_optional_tensor", optional_arg, false, 0},
    {"as_string", string_arg, false, 0},
    {"as_layout", layout_arg, false, 0},
    {"as_memory_format", format_arg, false, 0},
    {"as_complex", complex_arg, false, 0},
    {"as_sym_bool", pt2_number_arg, false, 0},
    {"as_sym_float", pt2_number_arg, false, 0},
    {"as_floats", float_arg, true, TC_AK_FLOATS},
    {"as_bools", bool_arg, true, TC_AK_BOOLS},
    {"as_sym_floats", pt2_number_arg, true, TC_AK_FLOATS},
    {"as_sym_bools", pt2_number_arg, true, TC_AK_BOOLS},
    {"as_strings", strings_arg, false, 0},
    {"as_operator", string_arg, false, 0},
    {"as_graph", graph_arg, false, 0},
    {"as_custom_obj", unsupported_arg, false, 0},
    {"as_nested_tensors", unsupported_arg, false, 0},
    {"as_int_lists", unsupported_arg, false, 0},
    {"as_float_lists", unsupported_arg, false, 0},
    {"as_string_to_argument", unsupported_arg, false, 0},
};

static tc_status find_tag(const at *where, tc_json v, const tag_row **out_row, at *out_at, tc_json *out_value) {
  tc_sv tag;
  TC_TRY(pt2_union(where, v, &tag, out_value));
  *out_at = at_name(where, tag);
  for (size_t i = 0; i < sizeof tag_rows / sizeof *tag_rows; i++) {
    *out_row = &tag_rows[i];
    if (tc_sv_is(tag, tag_rows[i].tag)) return TC_OK;
  }
  return pt2_refuse(out_at, "unknown tag of an argument");
}

tc_status pt2_arg(pt2_import *im, pt2_scope *s, const at *where, tc_json v, tc_arg *out) {
  const tag_row *row;
  at here;
  tc_json value;
  TC_TRY(find_tag(where, v, &row, &here, &value));
  if (!row->list) return row->read(im, s, &here, value, out);
  int32_t n;
  tc_arg *args;
  TC_TRY(read_list(im, s, &here, value, row->read, &n, &args));
  return list_of(im, &here, n, args, row->empty_kind, out);
}

tc_status pt2_arg_elements(pt2_import *im, pt2_scope *s, const at *where, tc_json v, bool *out_list, int32_t *out_n,
                           tc_arg **out) {
  const tag_row *row;
  at here;
  tc_json value;
  TC_TRY(find_tag(where, v, &row, &here, &value));
  *out_list = row->list;
  if (row->list) return read_list(im, s, &here, value, row->read, out_n, out);
  *out = TC_NEW(im->scratch, tc_arg);
  *out_n = 1;
  return row->read(im, s, &here, value, *out);
}
