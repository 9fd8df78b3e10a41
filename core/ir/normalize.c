// Arguments made to fit a schema: defaults, conversions that PyTorch's dispatcher makes (an int where a float is
// wanted, one int for an int[2], bool for int, any number or none for bool), lists of the right element type;
// everything else is an error that names the op, the argument and the model's source line.
#include <math.h>

#include "core/ir/internal.h"

const char *tc_arg_kind_name(int32_t kind) {
  static const char *const names[] = {"none",
                                      "a tensor",
                                      "a list of tensors",
                                      "an int",
                                      "a list of ints",
                                      "a float",
                                      "a list of floats",
                                      "a bool",
                                      "a list of bools",
                                      "a complex number",
                                      "a string",
                                      "a list of strings",
                                      "a dtype",
                                      "a layout",
                                      "a memory format",
                                      "a device",
                                      "a graph"};
  return kind >= 0 && kind < (int32_t)(sizeof names / sizeof *names) ? names[kind] : "something unknown";
}

static const char *schema_type_name(int32_t type) {
  static const char *const names[] = {"tensor", "int",    "float",  "bool",          "number",    "string",
                                      "dtype",  "layout", "device", "memory format", "generator", "value"};
  return names[type];
}

tc_dtype tc_arg_number_dtype(const tc_arg *g) {
  switch (g->kind) {
  case TC_AK_BOOL: return TC_BOOL;
  case TC_AK_INT: return TC_I64;
  case TC_AK_FLOAT: return TC_F64;
  case TC_AK_COMPLEX: return TC_C128;
  default: return TC_DTYPE_NONE;
  }
}

tc_arg tc_arg_of_preset(tc_module *m, const tc_arg *preset) {
  tc_arg g = *preset;
  if (g.kind == TC_AK_INT) {
    g.sym = tc_sym_int(m->syms, g.integer);
  } else if (g.kind == TC_AK_INTS) {
    const tc_sym **e = TC_NEW_ARRAY(m->arena, const tc_sym *, g.n);
    for (int32_t i = 0; i < g.n; i++) e[i] = tc_sym_int(m->syms, g.integers[i]);
    g.syms = e;
  }
  g.integers = NULL;
  return g;
}

// A value that is no tensor stands for its number.
static tc_arg number_of_value(tc_value *v) {
  switch (v->kind) {
  case TC_VALUE_SYM: return tc_arg_sym(v->symbol);
  case TC_VALUE_FLOAT: return (tc_arg){.kind = TC_AK_FLOAT, .value = v, .real = NAN};
  case TC_VALUE_BOOL: return (tc_arg){.kind = TC_AK_BOOL, .value = v};
  case TC_VALUE_NONE: return tc_arg_none();
  default: return tc_arg_tensor(v);
  }
}

static bool to_int(tc_module *m, const tc_arg *g, const tc_sym **out) {
  if (g->kind == TC_AK_INT) *out = g->sym ? g->sym : tc_sym_int(m->syms, g->integer);
  else if (g->kind == TC_AK_BOOL && !g->value) *out = tc_sym_int(m->syms, g->integer);
  else return false;
  return true;
}

static bool to_float(const tc_arg *g, tc_arg *out) {
  if (g->kind == TC_AK_FLOAT) *out = *g;
  else if (g->kind == TC_AK_BOOL && !g->value) *out = tc_arg_float((double)g->integer);
  else if (g->kind == TC_AK_INT && tc_sym_is_const(g->sym)) *out = tc_arg_float((double)g->sym->value);
  else if (g->kind == TC_AK_INT) *out = *g; // a symbolic size used as a float
  else return false;
  return true;
}

static bool convert_one(tc_module *m, int32_t type, const tc_arg *g, tc_arg *out) {
  *out = *g;
  switch (type) {
  case TC_ST_TENSOR: return g->kind == TC_AK_TENSOR || tc_arg_number_dtype(g) != TC_DTYPE_NONE;
  case TC_ST_INT: out->kind = TC_AK_INT; return to_int(m, g, &out->sym);
  case TC_ST_FLOAT: return to_float(g, out);
  case TC_ST_BOOL:
    if (g->kind == TC_AK_INT && g->sym && tc_sym_is_const(g->sym)) *out = tc_arg_bool(g->sym->value != 0);
    if (g->kind == TC_AK_FLOAT && !g->value) *out = tc_arg_bool(g->real != 0);
    if (g->kind == TC_AK_COMPLEX && !g->value) *out = tc_arg_bool(g->real != 0 || g->imag != 0);
    return out->kind == TC_AK_BOOL || out->kind == TC_AK_INT;
  case TC_ST_SCALAR: return tc_arg_number_dtype(g) != TC_DTYPE_NONE;
  case TC_ST_STRING: return g->kind == TC_AK_STRING;
  case TC_ST_DTYPE: return g->kind == TC_AK_DTYPE;
  case TC_ST_LAYOUT: return g->kind == TC_AK_LAYOUT;
  case TC_ST_MEMORY_FORMAT: return g->kind == TC_AK_MEMORY_FORMAT;
  case TC_ST_DEVICE: out->kind = TC_AK_DEVICE; return g->kind == TC_AK_DEVICE || g->kind == TC_AK_STRING;
  case TC_ST_GENERATOR: return false; // graphs hold none
  default: return true;
  }
}

static bool convert_list(tc_module *m, const tc_schema_arg *s, const tc_arg *g, tc_arg *out) {
  *out = *g;
  int32_t repeat = s->list_size ? s->list_size : 1;
  bool empty = g->n == 0 && (g->kind == TC_AK_INTS || g->kind == TC_AK_FLOATS || g->kind == TC_AK_TENSORS ||
                             g->kind == TC_AK_BOOLS || g->kind == TC_AK_STRINGS);
  switch (s->type) {
  case TC_ST_TENSOR: out->kind = TC_AK_TENSORS; return g->kind == TC_AK_TENSORS || empty;
  case TC_ST_INT: {
    out->kind = TC_AK_INTS;
    if (g->kind == TC_AK_INTS || empty) return true;
    const tc_sym *one;
    if (!to_int(m, g, &one)) return false;
    const tc_sym **list = TC_NEW_ARRAY(m->arena, const tc_sym *, repeat);
    for (int32_t i = 0; i < repeat; i++) list[i] = one;
    *out = tc_arg_syms(list, repeat);
    return true;
  }
  case TC_ST_FLOAT:
  case TC_ST_SCALAR: {
    if (g->kind == TC_AK_FLOATS) return true;
    if (g->kind == TC_AK_INTS || empty) {
      if (s->type == TC_ST_SCALAR && !empty) return true;
      double *list = TC_NEW_ARRAY(m->arena, double, g->n);
      for (int32_t i = 0; i < g->n; i++) {
        if (!tc_sym_is_const(g->syms[i])) return false;
        list[i] = (double)g->syms[i]->value;
      }
      *out = tc_arg_floats(list, g->n);
      return true;
    }
    tc_arg one;
    if (!to_float(g, &one) || one.kind != TC_AK_FLOAT) return false;
    double *list = TC_NEW_ARRAY(m->arena, double, repeat);
    for (int32_t i = 0; i < repeat; i++) list[i] = one.real;
    *out = tc_arg_floats(list, repeat);
    return true;
  }
  case TC_ST_BOOL: out->kind = TC_AK_BOOLS; return g->kind == TC_AK_BOOLS || empty;
  case TC_ST_STRING: out->kind = TC_AK_STRINGS; return g->kind == TC_AK_STRINGS || empty;
  default: return true;
  }
}

static tc_status check_tensors(const tc_schema_arg *s, const tc_arg *g) {
  for (int32_t i = 0; i < g->n; i++) {
    if (g->values[i] && g->values[i]->kind != TC_VALUE_TENSOR)
      return tc_error(TC_STATUS_INVALID_ARGUMENT, "element %d is no tensor", i);
    if (!g->values[i] && !s->elements_optional)
      return tc_error(TC_STATUS_INVALID_ARGUMENT, "element %d is none, a tensor is wanted", i);
  }
  return TC_OK;
}

// Sizes, strides, paddings and the like are multiplied and added by whoever reads them: no result may leave 64 bits.
static tc_status check_ints(const tc_schema_arg *s, const tc_arg *g) {
  if (s->list_size > 1 && g->n > 1 && g->n != s->list_size)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "has %d elements, %d are expected", g->n, s->list_size);
  const int64_t most = s->list_size ? INT64_C(1) << 30 : INT64_C(1) << 48;
  for (int32_t i = 0; i < g->n; i++) {
    if (!tc_sym_is_const(g->syms[i])) continue;
    int64_t v = g->syms[i]->value;
    if (v > most || v < -most)
      return tc_error(TC_STATUS_INVALID_ARGUMENT, "has %lld as element %d, which is out of range", (long long)v, i);
  }
  return TC_OK;
}

static tc_status convert(tc_module *m, const tc_schema_arg *s, const tc_arg *given, tc_arg *out) {
  tc_arg g = *given;
  if (g.value) {
    g.value = tc_value_resolve(g.value);
    if (g.value->kind != TC_VALUE_TENSOR) g = number_of_value(g.value);
  }
  if (g.kind == TC_AK_NONE) {
    *out = g;
    if (s->is_optional || s->type == TC_ST_OTHER || s->type == TC_ST_GENERATOR) return TC_OK;
    if (s->type == TC_ST_BOOL && !s->is_list) {
      *out = tc_arg_bool(false);
      return TC_OK;
    }
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "is none, %s %s is wanted", s->is_list ? "a list of" : "a",
                    schema_type_name(s->type));
  }
  bool ok = s->is_list ? convert_list(m, s, &g, out) : convert_one(m, s->type, &g, out);
  if (s->alias && out->kind != TC_AK_TENSOR) ok = ok && s->is_list; // a number has no storage to write to or to view
  if (!ok)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "is %s, %s%s is wanted", tc_arg_kind_name(g.kind),
                    s->is_list ? "a list of type " : "a ", schema_type_name(s->type));
  if (out->kind == TC_AK_INTS && s->type == TC_ST_INT) return check_ints(s, out);
  if (out->kind == TC_AK_TENSORS) {
    tc_value **own = TC_NEW_ARRAY(m->arena, tc_value *, out->n);
    for (int32_t i = 0; i < out->n; i++) own[i] = tc_value_resolve(out->values[i]);
    out->values = own;
    return check_tensors(s, out);
  }
  return TC_OK;
}

tc_status tc_op_normalize(tc_module *m, const tc_op *op, int32_t n_args, const tc_arg *args, tc_sv source,
                          int32_t *out_n, tc_arg **out_args) {
  const tc_schema *s = &op->schema;
  tc_status status = TC_OK;
  int32_t n = s->n_args;
  if (n_args > n) {
    if (!s->varargs) {
      status = tc_error(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT " takes %d arguments, %d are given",
                        TC_SV_ARG(op->full_name), n, n_args);
      goto fail;
    }
    n = n_args;
  }
  tc_arg *out = TC_NEW_ARRAY(m->arena, tc_arg, n);
  for (int32_t i = 0; i < n; i++) {
    if (i >= s->n_args) {
      out[i] = args[i];
    } else if (i >= n_args) {
      const tc_schema_arg *want = &s->args[i];
      out[i] = tc_arg_none();
      if (want->has_default) out[i] = tc_arg_of_preset(m, &want->preset);
      else if (!want->is_optional && want->type != TC_ST_GENERATOR)
        status = tc_error(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT ": the argument '" TC_SV_FMT "' is missing",
                          TC_SV_ARG(op->full_name), TC_SV_ARG(want->name));
    } else {
      tc_status bad = convert(m, &s->args[i], &args[i], &out[i]);
      if (bad) {
        status = tc_error(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT ": the argument '" TC_SV_FMT "' %s",
                          TC_SV_ARG(op->full_name), TC_SV_ARG(s->args[i].name), tc_status_text(bad));
        tc_status_free(bad);
      }
    }
    if (status) goto fail;
  }
  *out_n = n, *out_args = out;
  return TC_OK;
fail:
  return source.size ? tc_status_note(status, "at " TC_SV_FMT, TC_SV_ARG(source)) : status;
}
