// Higher-order ops: nodes with regions, regions that are inlined, and effects.
//
//   cond(pred, true, false, operands)                         node; regions take the operands
//   while_loop(cond, body, carried, additional)               node; regions take carried and additional
//   scan(body, init, xs, additional), map_impl(body, xs, …)   node
//   wrap_with_set_grad_enabled(flag, graph, operands…)        inlined; if the flag is off, results are detached
//   wrap_with_autocast(device, dtype, on, cache, graph, …)    inlined; if it is on, what is in it is cast
//   invoke_subgraph(graph, identifier, operands…)             inlined
//   with_effects(token, op, arguments…) → token, results…     the op's own node; the token is passed through
//   any other                                                 node, if an op of that name is known
//
// The operands of a region are all arguments behind the last graph, lists flattened, in order. A symbolic integer among
// them is substituted into the regions (symbols mean the same there), so that regions take tensors only; where a loop
// changes the integer that is impossible and an error.
#include "core/frontends/pt2/import.h"
#include "core/ir/control.h"

bool pt2_is_inlined(tc_sv target) {
  return tc_sv_is(target, "torch.ops.higher_order.wrap_with_set_grad_enabled") ||
         tc_sv_is(target, "torch.ops.higher_order.wrap_with_autocast") ||
         tc_sv_is(target, "torch.ops.higher_order.invoke_subgraph");
}

typedef struct operands {
  TC_VEC(tc_arg) args;
} operands;

// `list`: which list of operands, 0-based; the first one of these ops is changed by the loop.
static bool is_carried(tc_sv target, int32_t list) {
  return list == 0 &&
         (tc_sv_is(target, "torch.ops.higher_order.while_loop") || tc_sv_is(target, "torch.ops.higher_order.scan"));
}

static tc_status enter(pt2_import *im, const at *where) {
  if (++im->depth > 64) return pt2_refuse(where, "graphs are nested deeper than 64");
  return TC_OK;
}

enum { BIND_INLINE, BIND_REGION, BIND_LOOP };

// Binds the inputs of a sub-graph: directly to what is passed where it is inlined, else to inputs of a region. A region
// sees the types of what is passed (its own record may know less); a loop changes strides and sizes between turns, so
// there the record is what the body may rely on.
static tc_status bind_inputs(pt2_import *im, pt2_scope *inner, const at *where, const tc_arg *args, int32_t n,
                             int32_t how) {
  tc_json inputs;
  TC_TRY(pt2_array(where, inner->json, "inputs", &inputs));
  at inputs_at = at_key(where, "inputs");
  if (tc_json_count(inputs) != n)
    return pt2_bad(&inputs_at, "a sub-graph of %lld inputs gets %d operands", (long long)tc_json_count(inputs), n);
  int32_t i = 0;
  for (tc_json_iter it = tc_json_begin(inputs); tc_json_next(&it); i++) {
    at here = at_item(&inputs_at, i);
    tc_sv tag, name = {"", 0};
    tc_json value;
    TC_TRY(pt2_union(&here, it.value, &tag, &value));
    if (tc_sv_is(tag, "as_tensor")) TC_TRY(pt2_named(&here, value, &name));
    else (void)tc_json_str(tc_json_get(value, "as_name"), &name);
    if (name.size == 0) continue; // a literal, which nothing refers to
    tc_arg bound = args[i];
    if (how != BIND_INLINE && bound.kind == TC_AK_TENSOR) {
      tc_tensor_type type = bound.value->type;
      if (how == BIND_LOOP) TC_TRY(pt2_value_type(im, inner, &here, name, &type, NULL));
      type.offset = tc_sym_int(im->syms, 0); // it begins where the operand begins, and holds what that says
      type.conj = 0;
      bound = tc_arg_tensor(tc_graph_add_input(inner->graph, TC_IN_OPERAND, name, name, &type));
    }
    TC_TRY(pt2_define(im, inner, &here, name, bound));
  }
  return TC_OK;
}

static tc_status read_graph(const at *where, tc_json arg, tc_sv *out_name, tc_json *out) {
  tc_json graph = tc_json_get(arg, "as_graph");
  TC_TRY(pt2_str(where, graph, "name", out_name));
  return pt2_object(where, graph, "graph", out);
}

static tc_status import_region(pt2_import *im, const pt2_scope *outer, const at *where, tc_json arg, const operands *o,
                               bool loop, tc_graph **out) {
  tc_sv name;
  tc_json json;
  pt2_scope inner;
  at graph_at = at_key(where, "graph");
  TC_TRY(read_graph(where, arg, &name, &json));
  TC_TRY(enter(im, where));
  *out = tc_graph_create(im->module, name);
  pt2_scope_open(im, &inner, outer, *out, json);
  TC_TRY(bind_inputs(im, &inner, &graph_at, o->args.data, o->args.count, loop ? BIND_LOOP : BIND_REGION));
  TC_TRY(pt2_import_nodes(im, &inner, &graph_at));
  TC_TRY(pt2_import_outputs(im, &inner, &graph_at, (tc_json){0}));
  im->depth--;
  return TC_OK;
}

// ---- nodes with regions ----
static bool is_graph(tc_json input) { return tc_json_present(tc_json_get(tc_json_get(input, "arg"), "as_graph")); }

static bool is_loop(tc_sv target) {
  tc_sv name = tc_sv_sub(target, sizeof "torch.ops.higher_order." - 1, target.size);
  return tc_sv_is(name, "while_loop") || tc_sv_is(name, "scan") || tc_sv_is(name, "map_impl") ||
         tc_sv_is(name, "associative_scan");
}

// The argument without its integers, which go to the regions only.
static tc_status operand_arg(pt2_import *im, pt2_scope *s, const at *where, tc_json v, bool carried, operands *o,
                             tc_arg *out) {
  bool list;
  int32_t n, kept = 0;
  tc_arg *args;
  TC_TRY(pt2_arg_elements(im, s, where, v, &list, &n, &args));
  tc_value **values = TC_NEW_ARRAY(im->arena, tc_value *, n);
  for (int32_t i = 0; i < n; i++) {
    tc_vec_push(im->scratch, &o->args, args[i]);
    if (args[i].kind == TC_AK_TENSOR) values[kept++] = args[i].value;
    else if (carried) return pt2_refuse(where, "a loop that carries a number (operand %d)", i);
  }
  *out = list ? tc_arg_tensors(values, kept) : args[0];
  return TC_OK;
}

// The form of the arguments where it is fixed: g a graph, l a list, v anything else.
static tc_status check_form(const at *where, const pt2_node *n) {
  static const char *const forms[][2] = {{"cond", "vggl"}, {"while_loop", "ggll"}};
  tc_sv name = tc_sv_sub(n->target, sizeof "torch.ops.higher_order." - 1, n->target.size);
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    if (!tc_sv_is(name, forms[i][0])) continue;
    const char *form = forms[i][1];
    for (tc_json_iter it = tc_json_begin(n->inputs); tc_json_next(&it); form++) {
      tc_json_iter tag = tc_json_begin(tc_json_get(it.value, "arg"));
      bool list = tc_json_next(&tag) && tc_json_kind(tag.value) == TC_JSON_ARRAY;
      if (*form == 0 || is_graph(it.value) != (*form == 'g') || list != (*form == 'l'))
        return pt2_bad(where, "the arguments of %s are not as they should be", forms[i][0]);
    }
    if (*form) return pt2_bad(where, "%s lacks arguments", forms[i][0]);
  }
  return TC_OK;
}

static tc_status import_region_node(pt2_import *im, pt2_scope *s, const at *where, const pt2_node *n, const tc_op *op) {
  TC_TRY(check_form(where, n));
  int32_t count = (int32_t)tc_json_count(n->inputs), last_graph = -1, i = 0, lists = 0, n_args = 0;
  for (tc_json_iter it = tc_json_begin(n->inputs); tc_json_next(&it); i++)
    if (is_graph(it.value)) last_graph = i;
  tc_arg *args = TC_NEW_ARRAY(im->arena, tc_arg, count);
  operands o = {0};
  bool twice = tc_op_control(op) == TC_CONTROL_ASSOCIATIVE;
  at inputs_at = at_key(where, "inputs");
  // Operands first: the regions are imported with their types.
  for (int32_t pass = 0; pass < 2; pass++) {
    i = 0, n_args = 0;
    for (tc_json_iter it = tc_json_begin(n->inputs); tc_json_next(&it); i++) {
      at input_at = at_item(&inputs_at, i), arg_at = at_key(&input_at, "arg"), graph_at = at_key(&arg_at, "as_graph");
      tc_json arg = tc_json_get(it.value, "arg");
      int32_t place = n_args++;
      if (is_graph(it.value) != (pass == 1)) continue;
      if (pass == 1) {
        args[place].kind = TC_AK_GRAPH;
        TC_TRY(import_region(im, s, &graph_at, arg, &o, is_loop(n->target), &args[place].graph));
      } else if (i > last_graph && last_graph >= 0) {
        TC_TRY(operand_arg(im, s, &arg_at, arg, is_carried(n->target, lists), &o, &args[place]));
        // the body joins what is left and right of it: two elements of each tensor
        for (int32_t k = 0, given = o.args.count; twice && lists == 0 && k < given; k++)
          tc_vec_push(im->scratch, &o.args, o.args.data[k]);
        lists++;
      } else TC_TRY(pt2_arg(im, s, &arg_at, arg, &args[place]));
    }
  }
  tc_node *made;
  TC_TRY(tc_graph_add_node(s->graph, NULL, op, n_args, args, tc_sv_copy(im->arena, n->name), n->source, &made));
  return pt2_name_results(im, s, where, n, 0, made);
}

// ---- inlining ----
// What kind of device autocast is for: one of those of which a machine may have several, and whose tensors say which,
// is an accelerator. False if no tensor of the region is on such a device: it casts nothing then (so in PyTorch).
static bool is_for_region(tc_json graph, tc_sv type, bool *out_accelerator) {
  bool any = false;
  *out_accelerator = false;
  for (tc_json_iter it = tc_json_begin(tc_json_get(graph, "tensor_values")); tc_json_next(&it);) {
    tc_json device = tc_json_get(it.value, "device");
    tc_sv name;
    int64_t number;
    if (!tc_json_str(tc_json_get(device, "type"), &name) || !tc_sv_eq(name, type)) continue;
    any = true;
    *out_accelerator |= tc_json_int(tc_json_get(device, "index"), &number);
  }
  return any;
}

// The four arguments of wrap_with_autocast in front of its graph.
static tc_status read_autocast(const at *where, const tc_json *args, tc_json graph, tc_autocast_options *out) {
  at device_at = at_item(where, 0), type_at = at_item(where, 1), on_at = at_item(where, 2);
  tc_sv device;
  bool on;
  int64_t number;
  *out = (tc_autocast_options){TC_DTYPE_NONE, false};
  TC_TRY(pt2_str(&device_at, args[0], "as_string", &device));
  if (!tc_json_bool(tc_json_get(args[2], "as_bool"), &on)) return pt2_bad(&on_at, "expected a truth value");
  if (!on) return TC_OK;
  TC_TRY(pt2_int(&type_at, args[1], "as_scalar_type", &number));
  TC_TRY(pt2_dtype(&type_at, number, &out->to));
  if (out->to != TC_BF16 && out->to != TC_F16) return pt2_bad(&type_at, "autocast to %s", tc_dtype_name(out->to));
  if (!is_for_region(graph, device, &out->accelerator)) out->to = TC_DTYPE_NONE;
  return TC_OK;
}

static tc_status detach(pt2_import *im, pt2_scope *s, const pt2_node *n, tc_value **value) {
  const tc_op *op = tc_op_find(im->file->ops, TC_SV("aten::detach"));
  if (op == NULL) return TC_OK;
  tc_arg *arg = TC_NEW(im->arena, tc_arg);
  *arg = tc_arg_tensor(*value);
  tc_node *made;
  TC_TRY(tc_graph_add_node(s->graph, NULL, op, 1, arg, (*value)->name, n->source, &made));
  *value = made->results[0];
  return TC_OK;
}

static tc_status inline_outputs(pt2_import *im, pt2_scope *s, pt2_scope *inner, const at *where, const at *graph_at,
                                const pt2_node *n, bool no_grad) {
  tc_json outputs;
  TC_TRY(pt2_array(graph_at, inner->json, "outputs", &outputs));
  at theirs_at = at_key(graph_at, "outputs"), ours_at = at_key(where, "outputs");
  // The node's outputs, lists flattened, stand for the sub-graph's outputs in order.
  TC_VEC(tc_sv) names = {0};
  int64_t i = 0;
  for (tc_json_iter it = tc_json_begin(n->outputs); tc_json_next(&it); i++) {
    at here = at_item(&ours_at, i);
    tc_sv tag, name = {"", 0};
    tc_json value;
    TC_TRY(pt2_union(&here, it.value, &tag, &value));
    if (tc_sv_is(tag, "as_tensors")) {
      int64_t k = 0;
      for (tc_json_iter e = tc_json_begin(value); tc_json_next(&e); k++) {
        at element_at = at_item(&here, k);
        TC_TRY(pt2_named(&element_at, e.value, &name));
        tc_vec_push(im->scratch, &names, name);
      }
      continue;
    }
    if (tc_sv_is(tag, "as_tensor")) TC_TRY(pt2_named(&here, value, &name));
    else (void)tc_json_str(tc_json_get(value, "as_name"), &name);
    tc_vec_push(im->scratch, &names, name);
  }
  if (names.count != tc_json_count(outputs))
    return pt2_bad(&ours_at, "%d outputs of a sub-graph that has %lld", names.count, (long long)tc_json_count(outputs));
  int32_t k = 0;
  for (tc_json_iter it = tc_json_begin(outputs); tc_json_next(&it); k++) {
    if (names.data[k].size == 0) continue; // none, or a literal
    at here = at_item(&theirs_at, k);
    tc_arg arg;
    TC_TRY(pt2_arg(im, inner, &here, it.value, &arg));
    if (no_grad && arg.kind == TC_AK_TENSOR && arg.value->kind == TC_VALUE_TENSOR) TC_TRY(detach(im, s, n, &arg.value));
    TC_TRY(pt2_define(im, s, &here, names.data[k], arg));
  }
  return TC_OK;
}

static tc_status import_inlined(pt2_import *im, pt2_scope *s, const at *where, const pt2_node *n) {
  enum { AUTOCAST_ARGS = 4 };
  operands o = {0};
  tc_json graph = {0}, options[AUTOCAST_ARGS];
  bool no_grad = false, flag;
  int32_t i = 0, graph_place = -1;
  at inputs_at = at_key(where, "inputs");
  bool shared = tc_sv_ends(n->target, ".invoke_subgraph"), casts = tc_sv_ends(n->target, ".wrap_with_autocast");
  for (tc_json_iter it = tc_json_begin(n->inputs); tc_json_next(&it); i++) {
    tc_json arg = tc_json_get(it.value, "arg");
    at input_at = at_item(&inputs_at, i), arg_at = at_key(&input_at, "arg");
    if (graph_place < 0) {
      if (is_graph(it.value)) graph = arg, graph_place = i;
      else if (casts && i < AUTOCAST_ARGS) options[i] = arg;
      else if (!casts && tc_json_bool(tc_json_get(arg, "as_bool"), &flag)) no_grad = !flag;
      continue;
    }
    if (shared && i == graph_place + 1) continue; // the identifier
    bool list;
    int32_t count;
    tc_arg *args;
    TC_TRY(pt2_arg_elements(im, s, &arg_at, arg, &list, &count, &args));
    for (int32_t k = 0; k < count; k++) tc_vec_push(im->scratch, &o.args, args[k]);
  }
  if (graph_place < 0) return pt2_bad(&inputs_at, "no sub-graph");
  if (casts && graph_place != AUTOCAST_ARGS) return pt2_bad(&inputs_at, "%d arguments in front of it", graph_place);
  at place_at = at_item(&inputs_at, graph_place), arg_at = at_key(&place_at, "arg"),
     as_at = at_key(&arg_at, "as_graph"), graph_at = at_key(&as_at, "graph");
  tc_sv name;
  tc_json json;
  pt2_scope inner;
  TC_TRY(read_graph(&as_at, graph, &name, &json));
  TC_TRY(enter(im, where));
  pt2_scope_open(im, &inner, s, s->graph, json);
  if (casts) TC_TRY(read_autocast(&inputs_at, options, json, &inner.autocast));
  TC_TRY(bind_inputs(im, &inner, &graph_at, o.args.data, o.args.count, BIND_INLINE));
  TC_TRY(pt2_import_nodes(im, &inner, &graph_at));
  im->depth--;
  return inline_outputs(im, s, &inner, where, &graph_at, n, no_grad);
}

// ---- effects ----
static tc_status import_effects(pt2_import *im, pt2_scope *s, const at *where, const pt2_node *n) {
  at inputs_at = at_key(where, "inputs"), outputs_at = at_key(where, "outputs"), output_at = at_item(&outputs_at, 0);
  tc_json_iter in = tc_json_begin(n->inputs), out = tc_json_begin(n->outputs);
  tc_sv target, name;
  tc_arg token;
  if (!tc_json_next(&in)) return pt2_bad(&inputs_at, "no token");
  at token_at = at_item(&inputs_at, 0), op_at = at_item(&inputs_at, 1);
  TC_TRY(pt2_arg(im, s, &token_at, tc_json_get(in.value, "arg"), &token));
  if (!tc_json_next(&in)) return pt2_bad(&inputs_at, "no op");
  TC_TRY(pt2_str(&op_at, tc_json_get(in.value, "arg"), "as_operator", &target));
  const tc_map_entry *e = tc_map_find(im->targets, target);
  if (e == NULL || e->value.ptr == NULL)
    return pt2_refuse(&op_at, "the op '" TC_SV_FMT "' is not known", TC_SV_ARG(target));
  const tc_op *op = e->value.ptr;
  int32_t n_args;
  tc_arg *args;
  tc_node *made;
  TC_TRY(pt2_match_args(im, s, where, op, n->inputs, 2, &n_args, &args));
  TC_TRY(tc_graph_add_node(s->graph, NULL, op, n_args, args, tc_sv_copy(im->arena, n->name), n->source, &made));
  TC_TRY(pt2_name_results(im, s, where, n, 1, made));
  if (!tc_json_next(&out)) return pt2_bad(&outputs_at, "no token");
  tc_sv tag;
  tc_json value;
  TC_TRY(pt2_union(&output_at, out.value, &tag, &value));
  TC_TRY(pt2_named(&output_at, value, &name));
  return pt2_define(im, s, &output_at, name, token);
}

tc_status pt2_import_higher_order(pt2_import *im, pt2_scope *s, const at *where, const pt2_node *n) {
  if (pt2_is_inlined(n->target)) return import_inlined(im, s, where, n);
  if (tc_sv_is(n->target, "torch.ops.higher_order.with_effects")) return import_effects(im, s, where, n);
  const tc_map_entry *e = tc_map_find(im->targets, n->target);
  if (e == NULL || e->value.ptr == NULL)
    return pt2_refuse(where, "the op '" TC_SV_FMT "' is not known", TC_SV_ARG(n->target));
  return import_region_node(im, s, where, n, e->value.ptr);
}
