// A graph's inputs and outputs, what the signature says they are, and its nodes in order.
#include "core/frontends/pt2/import.h"

static tc_map *places_of(pt2_import *im, tc_json object) {
  tc_map *map = tc_map_create(im->scratch);
  for (tc_json_iter it = tc_json_begin(object); tc_json_next(&it);)
    tc_map_put(map, it.key, NULL)->value.num = (int64_t)it.value.index;
  return map;
}

void pt2_scope_open(pt2_import *im, pt2_scope *s, const pt2_scope *outer, tc_graph *graph, tc_json json) {
  *s = (pt2_scope){.graph = graph, .json = json, .names = tc_map_create(im->scratch)};
  if (outer) s->autocast = outer->autocast;
  s->tensors = places_of(im, tc_json_get(json, "tensor_values"));
  s->ints = places_of(im, tc_json_get(json, "sym_int_values"));
  s->bools = places_of(im, tc_json_get(json, "sym_bool_values"));
  s->floats = places_of(im, tc_json_get(json, "sym_float_values"));
}

tc_status pt2_value_type(pt2_import *im, pt2_scope *s, const at *where, tc_sv name, tc_tensor_type *out,
                         int64_t *hints) {
  const tc_map_entry *e = tc_map_find(s->tensors, name);
  if (e == NULL) return pt2_bad(where, "'" TC_SV_FMT "' is missing in tensor_values", TC_SV_ARG(name));
  at values = at_key(where, "tensor_values"), here = at_name(&values, name);
  return pt2_type(im, &here, (tc_json){s->json.doc, (uint64_t)e->value.num}, out, hints);
}

// ---- inputs ----
typedef struct input_row {
  const char *spec, *target; // the spec's tag; the member that names what is bound
  int32_t kind;
} input_row;
static const input_row input_rows[] = {
    {"user_input", NULL, TC_IN_USER},
    {"parameter", "parameter_name", TC_IN_PARAMETER},
    {"buffer", "buffer_name", TC_IN_BUFFER},
    {"tensor_constant", "tensor_constant_name", TC_IN_CONSTANT},
    {"token", NULL, TC_IN_TOKEN},
    {"constant_input", "name", TC_IN_USER},
};

// A literal among the inputs: kept so that positions stay true.
static tc_status add_literal(pt2_import *im, pt2_scope *s, const at *where, tc_json input, tc_sv target) {
  tc_arg constant;
  TC_TRY(pt2_arg(im, s, where, input, &constant));
  tc_graph_add_constant_input(s->graph, TC_IN_USER, target, constant);
  return TC_OK;
}

static tc_status add_tensor(pt2_import *im, pt2_scope *s, const at *where, int32_t kind, tc_sv name, tc_sv target) {
  tc_tensor_type type;
  int64_t hints[TC_MAX_RANK];
  TC_TRY(pt2_value_type(im, s, where, name, &type, hints));
  for (int32_t i = 0; i < type.rank; i++) pt2_set_hint(im, type.sizes[i], hints[i]);
  return pt2_define(im, s, where, name, tc_arg_tensor(tc_graph_add_input(s->graph, kind, name, target, &type)));
}

static tc_status add_number(pt2_import *im, pt2_scope *s, const at *where, tc_sv tag, tc_json value, tc_json input,
                            tc_sv target) {
  tc_sv kind, name;
  tc_json inner;
  TC_TRY(pt2_union(where, value, &kind, &inner));
  if (!tc_sv_is(kind, "as_name")) return add_literal(im, s, where, input, target);
  TC_TRY(pt2_as_str(where, inner, &name));
  if (!tc_sv_is(tag, "as_sym_int")) {
    int32_t value_kind = tc_sv_is(tag, "as_sym_bool") ? TC_VALUE_BOOL : TC_VALUE_FLOAT;
    tc_value *v = tc_graph_add_number_input(s->graph, TC_IN_USER, name, target.size ? target : name, value_kind, NULL);
    return pt2_define(im, s, where, name,
                      (tc_arg){.kind = value_kind == TC_VALUE_BOOL ? TC_AK_BOOL : TC_AK_FLOAT, .value = v});
  }
  const tc_map_entry *e = tc_map_find(s->ints, name);
  if (e == NULL) return pt2_bad(where, "'" TC_SV_FMT "' is missing in sym_int_values", TC_SV_ARG(name));
  const tc_sym *expr;
  int64_t hint;
  TC_TRY(pt2_symint(im, where, (tc_json){s->json.doc, (uint64_t)e->value.num}, &expr, &hint));
  pt2_set_hint(im, expr, hint);
  tc_graph_add_number_input(s->graph, TC_IN_USER, name, target.size ? target : name, TC_VALUE_SYM, expr);
  return pt2_define(im, s, where, name, tc_arg_sym(expr));
}

static tc_status add_input(pt2_import *im, pt2_scope *s, const at *where, const at *spec_at, tc_json input,
                           tc_json spec) {
  tc_sv what, tag, name, target = {"", 0};
  tc_json body, value;
  TC_TRY(pt2_union(spec_at, spec, &what, &body));
  TC_TRY(pt2_union(where, input, &tag, &value));
  at body_at = at_name(spec_at, what);
  const input_row *row = NULL;
  for (size_t i = 0; i < sizeof input_rows / sizeof *input_rows; i++)
    if (tc_sv_is(what, input_rows[i].spec)) row = &input_rows[i];
  if (row == NULL) return pt2_refuse(spec_at, "inputs of the kind '" TC_SV_FMT "' are not supported", TC_SV_ARG(what));
  if (row->target) TC_TRY(pt2_str(&body_at, body, row->target, &target));
  if (row->kind == TC_IN_TOKEN) {
    // The graph's own entry is written as a tensor, whose record is of no use.
    at arg_at = at_key(&body_at, "arg");
    TC_TRY(pt2_named(&arg_at, tc_json_get(body, "arg"), &name));
    tc_value *v = tc_graph_add_number_input(s->graph, TC_IN_TOKEN, name, name, TC_VALUE_TOKEN, NULL);
    return pt2_define(im, s, where, name, tc_arg_tensor(v));
  }
  at value_at = at_name(where, tag);
  if (tc_sv_is(tag, "as_tensor")) {
    TC_TRY(pt2_named(&value_at, value, &name));
    TC_TRY(add_tensor(im, s, &value_at, row->kind, name, target.size ? target : name));
    if (row->kind == TC_IN_BUFFER)
      (void)tc_json_bool(tc_json_get(body, "persistent"), &tc_vec_last(&s->graph->inputs).persistent);
    return TC_OK;
  }
  if (row->kind != TC_IN_USER)
    return pt2_bad(&value_at, "the signature says '" TC_SV_FMT "', which is a tensor", TC_SV_ARG(what));
  if (tc_sv_starts(tag, "as_sym_")) return add_number(im, s, &value_at, tag, value, input, target);
  if (tc_sv_is(tag, "as_custom_obj")) return pt2_refuse(&value_at, "objects as inputs are not supported");
  return add_literal(im, s, where, input, target);
}

tc_status pt2_import_inputs(pt2_import *im, pt2_scope *s, const at *where, tc_json signature) {
  tc_json inputs, specs;
  at signature_at = at_key(where->up, "signature");
  TC_TRY(pt2_array(where, s->json, "inputs", &inputs));
  TC_TRY(pt2_array(&signature_at, signature, "input_specs", &specs));
  at inputs_at = at_key(where, "inputs"), specs_at = at_key(&signature_at, "input_specs");
  if (tc_json_count(inputs) != tc_json_count(specs))
    return pt2_bad(&specs_at, "%lld entries for a graph of %lld inputs", (long long)tc_json_count(specs),
                   (long long)tc_json_count(inputs));
  tc_json_iter spec = tc_json_begin(specs);
  int64_t i = 0;
  for (tc_json_iter it = tc_json_begin(inputs); tc_json_next(&it) && tc_json_next(&spec); i++) {
    at input_at = at_item(&inputs_at, i), spec_at = at_item(&specs_at, i);
    TC_TRY(add_input(im, s, &input_at, &spec_at, it.value, spec.value));
  }
  return TC_OK;
}

// ---- nodes ----
tc_status pt2_import_nodes(pt2_import *im, pt2_scope *s, const at *where) {
  tc_json nodes;
  TC_TRY(pt2_array(where, s->json, "nodes", &nodes));
  at nodes_at = at_key(where, "nodes");
  int64_t i = 0;
  for (tc_json_iter it = tc_json_begin(nodes); tc_json_next(&it); i++) {
    at here = at_item(&nodes_at, i);
    pt2_node n;
    TC_TRY(pt2_node_read(im, &here, it.value, &n));
    tc_status status = pt2_import_node(im, s, &here, &n);
    if (status) {
      if (n.source.size) status = tc_status_note(status, "in " TC_SV_FMT, TC_SV_ARG(n.source));
      return tc_status_note(pt2_note(status, &here), "while importing the node '" TC_SV_FMT "' (" TC_SV_FMT ")",
                            TC_SV_ARG(n.name), TC_SV_ARG(n.target));
    }
  }
  return TC_OK;
}

// ---- outputs ----
typedef struct output_row {
  const char *spec, *target;
  int32_t kind;
  const char *prefix; // of the target
} output_row;
static const output_row output_rows[] = {
    {"user_output", NULL, TC_OUT_USER, ""},
    {"buffer_mutation", "buffer_name", TC_OUT_BUFFER_MUTATION, ""},
    {"user_input_mutation", "user_input_name", TC_OUT_INPUT_MUTATION, ""},
    {"parameter_mutation", "parameter_name", TC_OUT_PARAMETER_MUTATION, ""},
    {"token", NULL, TC_OUT_TOKEN, ""},
    {"loss_output", NULL, TC_OUT_LOSS, ""},
    {"gradient_to_parameter", "parameter_name", TC_OUT_USER, "grad.param."},
    {"gradient_to_user_input", "user_input_name", TC_OUT_USER, "grad.in."},
};

// Without a signature (regions) every output is the user's.
tc_status pt2_import_outputs(pt2_import *im, pt2_scope *s, const at *where, tc_json signature) {
  tc_json outputs, specs = {0};
  bool region = !tc_json_present(signature);
  at signature_at = at_key(where->up ? where->up : where, "signature");
  TC_TRY(pt2_array(where, s->json, "outputs", &outputs));
  if (!region) TC_TRY(pt2_array(&signature_at, signature, "output_specs", &specs));
  at outputs_at = at_key(where, "outputs"), specs_at = at_key(&signature_at, "output_specs");
  if (!region && tc_json_count(outputs) != tc_json_count(specs))
    return pt2_bad(&specs_at, "%lld entries for a graph of %lld outputs", (long long)tc_json_count(specs),
                   (long long)tc_json_count(outputs));
  tc_json_iter spec = tc_json_begin(specs);
  int64_t i = 0;
  for (tc_json_iter it = tc_json_begin(outputs); tc_json_next(&it); i++) {
    at output_at = at_item(&outputs_at, i), spec_at = at_item(&specs_at, i);
    const output_row *row = &output_rows[0];
    tc_sv what, target = {"", 0};
    tc_json body;
    tc_arg arg;
    if (!region && tc_json_next(&spec)) {
      TC_TRY(pt2_union(&spec_at, spec.value, &what, &body));
      row = NULL;
      for (size_t k = 0; k < sizeof output_rows / sizeof *output_rows; k++)
        if (tc_sv_is(what, output_rows[k].spec)) row = &output_rows[k];
      if (row == NULL)
        return pt2_refuse(&spec_at, "outputs of the kind '" TC_SV_FMT "' are not supported", TC_SV_ARG(what));
      at body_at = at_name(&spec_at, what);
      if (row->target) TC_TRY(pt2_str(&body_at, body, row->target, &target));
    }
    TC_TRY(pt2_arg(im, s, &output_at, it.value, &arg));
    if (arg.kind == TC_AK_TENSORS || arg.kind == TC_AK_INTS) return pt2_refuse(&output_at, "a list as an output");
    if (row->prefix[0]) target = tc_sv_printf(im->arena, "%s" TC_SV_FMT, row->prefix, TC_SV_ARG(target));
    bool mutation = row->kind == TC_OUT_BUFFER_MUTATION || row->kind == TC_OUT_INPUT_MUTATION ||
                    row->kind == TC_OUT_PARAMETER_MUTATION;
    if (mutation && arg.kind != TC_AK_TENSOR)
      return pt2_bad(&output_at, "the new value of '" TC_SV_FMT "' is no tensor", TC_SV_ARG(target));
    tc_graph_add_output(s->graph, row->kind, arg, target);
  }
  return TC_OK;
}
