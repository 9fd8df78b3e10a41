// Nodes: targets to ops, arguments by name to the schema's places, results to names.
#include <string.h>

#include "core/frontends/pt2/import.h"
#include "core/ir/expand.h"

// ---- reading ----
// "file.py:12 y = f(x)" from the last frame of a Python stack trace that is the model's own: neither generated
// ("<eval_with_key>.21") nor, if there is another, in torch itself.
//   File "file.py", line 12, in forward\n    y = f(x)\n
static tc_sv parse_trace(pt2_import *im, tc_sv trace) {
  static const char mark[] = "File \"", line_mark[] = "\", line ";
  tc_sv best_file = {0}, best_rest = {0};
  for (const char *p = trace.data, *end = trace.data + trace.size;
       p < end && (p = memmem(p, (size_t)(end - p), mark, sizeof mark - 1)) != NULL;) {
    p += sizeof mark - 1;
    tc_sv frame = {p, (size_t)(end - p)}, line;
    tc_sv_cut(frame, '\n', &line);
    const char *tail = memmem(line.data, line.size, line_mark, sizeof line_mark - 1);
    if (tail == NULL || tail == p || *p == '<') continue;
    tc_sv file = {p, (size_t)(tail - p)};
    bool in_torch = memmem(file.data, file.size, "site-packages/torch/", 20) != NULL;
    if (in_torch && best_file.size) continue;
    best_file = file;
    best_rest = tc_sv_sub(frame, file.size + sizeof line_mark - 1, frame.size);
  }
  if (best_file.size == 0) return (tc_sv){"", 0};
  tc_sv head, number, code;
  tc_sv_cut(tc_sv_cut(best_rest, '\n', &head), '\n', &code);
  tc_sv_cut(head, ',', &number);
  code = tc_sv_trim(code);
  return tc_sv_printf(im->arena, TC_SV_FMT ":" TC_SV_FMT "%s" TC_SV_FMT, TC_SV_ARG(best_file), TC_SV_ARG(number),
                      code.size ? " " : "", TC_SV_ARG(code));
}

// Nodes of one line have the same trace, and so do those of every layer that the line makes.
static tc_sv source_of(pt2_import *im, tc_sv trace) {
  bool fresh;
  tc_map_entry *e = tc_map_put(im->sources, trace, &fresh);
  if (fresh) {
    tc_sv *source = TC_NEW(im->scratch, tc_sv);
    *source = parse_trace(im, trace);
    e->value.ptr = source;
  }
  return *(const tc_sv *)e->value.ptr;
}

static tc_sv stack_trace(tc_json metadata) {
  tc_sv trace = {"", 0};
  for (tc_json_iter it = tc_json_begin(metadata); tc_json_next(&it);)
    if (tc_sv_is(it.key, "stack_trace") && tc_json_str(it.value, &trace)) break;
  return trace;
}

tc_status pt2_node_read(pt2_import *im, const at *where, tc_json v, pt2_node *out) {
  *out = (pt2_node){.name = {"", 0}, .source = {"", 0}};
  if (tc_json_kind(v) != TC_JSON_OBJECT) return pt2_bad(where, "expected an object");
  for (tc_json_iter it = tc_json_begin(v); tc_json_next(&it);) {
    if (tc_sv_is(it.key, "target")) (void)tc_json_str(it.value, &out->target);
    else if (tc_sv_is(it.key, "inputs")) out->inputs = it.value;
    else if (tc_sv_is(it.key, "outputs")) out->outputs = it.value;
    else if (tc_sv_is(it.key, "metadata")) out->source = source_of(im, stack_trace(it.value));
    else if (tc_sv_is(it.key, "name")) (void)tc_json_str(it.value, &out->name);
  }
  if (out->target.size == 0) return pt2_bad(where, "a node without a target");
  if (tc_json_kind(out->inputs) != TC_JSON_ARRAY) return pt2_bad(where, "inputs: expected an array");
  if (tc_json_kind(out->outputs) != TC_JSON_ARRAY) return pt2_bad(where, "outputs: expected an array");
  return TC_OK;
}

// ---- targets ----
bool pt2_is_number_target(tc_sv target) {
  return tc_sv_starts(target, "_operator.") || tc_sv_starts(target, "torch.sym_") || tc_sv_starts(target, "math.") ||
         tc_sv_starts(target, "builtins.");
}

typedef struct unknown {
  tc_sv target;
  char *first; // where it is used first
  int32_t uses;
  tc_status status; // of the look-up
} unknown;

typedef struct resolution {
  pt2_import *im;
  TC_VEC(unknown) unknowns;
  tc_map *seen; // unknown target → number
} resolution;

static const at *top_of(const at *where) {
  while (where->up) where = where->up;
  return where;
}

static tc_status resolve_one(resolution *r, const at *where, tc_sv target, tc_json node) {
  pt2_import *im = r->im;
  bool fresh;
  tc_map_entry *e = tc_map_put(im->targets, target, &fresh);
  if (!fresh && e->value.ptr) return TC_OK;
  if (fresh) {
    const tc_op *op;
    tc_status status = tc_op_find_target(im->file->ops, target, &op);
    if (status == TC_OK) {
      e->value.ptr = (void *)(uintptr_t)op;
      return TC_OK;
    }
    pt2_node n;
    tc_status read = pt2_node_read(im, where, node, &n);
    if (read) {
      tc_status_free(status);
      return read;
    }
    tc_sb sb = tc_sb_make(im->scratch);
    tc_sb_printf(&sb, "first at node '" TC_SV_FMT "'", TC_SV_ARG(n.name));
    if (n.source.size) tc_sb_printf(&sb, ", " TC_SV_FMT, TC_SV_ARG(n.source));
    tc_sb_printf(&sb, " (%s)", tc_status_text(status));
    tc_status_free(status);
    unknown u = {.target = target, .first = sb.text};
    tc_map_put(r->seen, target, NULL)->value.num = r->unknowns.count;
    tc_vec_push(im->scratch, &r->unknowns, u);
  }
  r->unknowns.data[tc_map_find(r->seen, target)->value.num].uses++;
  return TC_OK;
}

enum { DEPTH_MOST = 64 };

// The op that with_effects wraps, its second input; "" otherwise.
static tc_sv wrapped_target(tc_json inputs) {
  tc_sv text = {"", 0};
  for (tc_json_iter it = tc_json_begin(inputs); tc_json_next(&it);)
    if (tc_json_str(tc_json_get(tc_json_get(it.value, "arg"), "as_operator"), &text)) break;
  return text;
}

static tc_status resolve_graph(resolution *r, const at *where, tc_json graph, int32_t depth) {
  tc_json nodes;
  if (depth > DEPTH_MOST) return pt2_refuse(where, "graphs are nested deeper than %d", DEPTH_MOST);
  TC_TRY(pt2_array(where, graph, "nodes", &nodes));
  at nodes_at = at_key(where, "nodes");
  int64_t i = 0;
  for (tc_json_iter it = tc_json_begin(nodes); tc_json_next(&it); i++) {
    at here = at_item(&nodes_at, i);
    tc_sv target;
    TC_TRY(pt2_str(&here, it.value, "target", &target));
    if (pt2_is_number_target(target) || pt2_is_special(target)) continue;
    if (tc_sv_starts(target, "torch.ops.higher_order.")) {
      tc_json inputs = tc_json_get(it.value, "inputs");
      at inputs_at = at_key(&here, "inputs");
      int64_t k = 0;
      for (tc_json_iter in = tc_json_begin(inputs); tc_json_next(&in); k++) {
        tc_json region = tc_json_get(tc_json_get(tc_json_get(in.value, "arg"), "as_graph"), "graph");
        at input_at = at_item(&inputs_at, k);
        if (tc_json_present(region)) TC_TRY(resolve_graph(r, &input_at, region, depth + 1));
      }
      if (pt2_is_inlined(target)) continue;
      if (tc_sv_ends(target, ".with_effects") && wrapped_target(inputs).size) target = wrapped_target(inputs);
    }
    TC_TRY(resolve_one(r, &here, target, it.value));
  }
  return TC_OK;
}

tc_status pt2_resolve_targets(pt2_import *im, const at *where, tc_json graph) {
  resolution r = {.im = im, .seen = tc_map_create(im->scratch)};
  im->targets = tc_map_create(im->scratch);
  im->sources = tc_map_create(im->scratch);
  TC_TRY(resolve_graph(&r, where, graph, 0));
  if (r.unknowns.count == 0) return TC_OK;
  tc_sb sb = tc_sb_make(im->scratch);
  for (int32_t i = 0; i < r.unknowns.count; i++) {
    const unknown *u = &r.unknowns.data[i];
    tc_sb_printf(&sb, "\n  " TC_SV_FMT ", used %d time%s, %s", TC_SV_ARG(u->target), u->uses, u->uses == 1 ? "" : "s",
                 u->first);
  }
  return tc_error(TC_STATUS_UNIMPLEMENTED, TC_SV_FMT ": %d op%s not known:%s", TC_SV_ARG(top_of(where)->key),
                  r.unknowns.count, r.unknowns.count == 1 ? " is" : "s are", sb.text);
}

// ---- arguments ----
static int32_t schema_place(const tc_op *op, tc_sv name, int32_t guess) {
  const tc_schema *schema = &op->schema;
  if (guess < schema->n_args && tc_sv_eq(schema->args[guess].name, name)) return guess; // the usual case
  for (int32_t i = 0; i < schema->n_args; i++)
    if (tc_sv_eq(schema->args[i].name, name)) return i;
  // In-place ops made from functional ones: PyTorch calls what they write "self" (dropout_ of dropout(input, …)).
  return op->functional && tc_sv_is(name, "self") ? 0 : -1;
}

tc_status pt2_match_args(pt2_import *im, pt2_scope *s, const at *where, const tc_op *op, tc_json inputs, int32_t first,
                         int32_t *out_n, tc_arg **out) {
  const tc_schema *schema = &op->schema;
  int64_t count = tc_json_count(inputs);
  if (count > INT32_MAX / 2) return pt2_bad(where, "a node of %lld inputs", (long long)count);
  int32_t room = schema->n_args + (int32_t)count, n_extra = 0, i = 0, n = 0;
  tc_arg *args = TC_NEW_ARRAY(im->arena, tc_arg, room);
  bool *given = TC_NEW_ARRAY(im->scratch, bool, room);
  at inputs_at = at_key(where, "inputs");
  for (tc_json_iter it = tc_json_begin(inputs); tc_json_next(&it); i++) {
    if (i < first) continue;
    at input_at = at_item(&inputs_at, i), arg_at = at_key(&input_at, "arg");
    tc_sv name = {"", 0};
    tc_json arg = {0};
    for (tc_json_iter m = tc_json_begin(it.value); tc_json_next(&m);) {
      if (tc_sv_is(m.key, "arg")) arg = m.value;
      else if (tc_sv_is(m.key, "name")) TC_TRY(pt2_as_str(&input_at, m.value, &name));
    }
    int32_t place = name.size ? schema_place(op, name, i - first) : i - first;
    if (place < 0)
      return pt2_bad(&input_at, "the op '" TC_SV_FMT "' has no argument '" TC_SV_FMT "'", TC_SV_ARG(op->full_name),
                     TC_SV_ARG(name));
    if (place >= schema->n_args) {
      if (!schema->varargs)
        return pt2_bad(&input_at, "the op '" TC_SV_FMT "' has only %d arguments", TC_SV_ARG(op->full_name),
                       schema->n_args);
      place = schema->n_args + n_extra++;
    }
    if (given[place]) return pt2_bad(&input_at, "the argument '" TC_SV_FMT "' is given twice", TC_SV_ARG(name));
    given[place] = true;
    TC_TRY(pt2_arg(im, s, &arg_at, arg, &args[place]));
    if (place >= n) n = place + 1;
  }
  for (i = 0; i < schema->n_args; i++) {
    if (given[i]) continue;
    const tc_schema_arg *a = &schema->args[i];
    if (a->has_default) args[i] = tc_arg_of_preset(im->module, &a->preset);
    else if (!a->is_optional)
      return pt2_bad(where, "the argument '" TC_SV_FMT "' of '" TC_SV_FMT "' is missing", TC_SV_ARG(a->name),
                     TC_SV_ARG(op->full_name));
  }
  *out_n = n > schema->n_args ? n : schema->n_args;
  *out = args;
  return TC_OK;
}

// ---- results ----
static tc_status name_tensor(pt2_import *im, pt2_scope *s, const at *where, const pt2_node *n, tc_sv name,
                             tc_value *v) {
  if (v->kind != TC_VALUE_TENSOR)
    return pt2_bad(where, "'" TC_SV_FMT "' is a tensor here, but the op's result is a number", TC_SV_ARG(name));
  if (im->n_unbound > 0 || im->file->options.check_meta) {
    tc_tensor_type theirs;
    TC_TRY(pt2_value_type(im, s, where, name, &theirs, NULL));
    if (theirs.rank == v->type.rank) {
      const tc_sym **sizes = (const tc_sym **)(uintptr_t)theirs.sizes,
                   **strides = (const tc_sym **)(uintptr_t)theirs.strides;
      for (int32_t i = 0; i < theirs.rank; i++) sizes[i] = pt2_unify(im, sizes[i], v->type.sizes[i]);
      for (int32_t i = 0; i < theirs.rank; i++) strides[i] = pt2_unify(im, strides[i], v->type.strides[i]);
    }
    theirs.offset = pt2_unify(im, theirs.offset, v->type.offset);
    if (im->file->options.check_meta) {
      // Aliases that a later dimension made apply to the earlier ones too.
      TC_TRY(pt2_value_type(im, s, where, name, &theirs, NULL));
      pt2_compare(im, v->def ? v->def->op : NULL, name, n->source, &theirs, &v->type);
    }
  }
  if (!tc_sv_eq(v->name, name)) tc_value_set_name(s->graph, v, name);
  return pt2_define(im, s, where, name, tc_arg_tensor(v));
}

// A number that comes from data (item): the archive's symbol becomes an alias of the result's.
tc_status pt2_name_number(pt2_import *im, pt2_scope *s, const at *where, tc_sv tag, tc_json value, tc_value *v) {
  tc_sv kind, name;
  tc_json inner;
  TC_TRY(pt2_union(where, value, &kind, &inner));
  if (!tc_sv_is(kind, "as_name")) return TC_OK; // a literal: nothing refers to it by name
  TC_TRY(pt2_as_str(where, inner, &name));
  if (v->kind == TC_VALUE_TENSOR)
    return pt2_bad(where, "'" TC_SV_FMT "' is a number here, but the op's result is a tensor", TC_SV_ARG(name));
  tc_value_set_name(s->graph, v, name);
  if (tc_sv_is(tag, "as_sym_int")) {
    if (v->kind != TC_VALUE_SYM || v->symbol == NULL)
      return pt2_bad(where, "'" TC_SV_FMT "' is an integer here, but the op's result is not", TC_SV_ARG(name));
    tc_map_entry *e = tc_map_find(s->ints, name);
    if (e == NULL) return pt2_bad(where, "'" TC_SV_FMT "' is missing in sym_int_values", TC_SV_ARG(name));
    tc_json meta = {s->json.doc, (uint64_t)e->value.num};
    const tc_sym *theirs;
    TC_TRY(pt2_symint(im, where, meta, &theirs, NULL));
    theirs = pt2_unify(im, theirs, v->symbol);
    TC_TRY(pt2_check_bound(im, where, theirs));
    // The archive may know more: that the number equals an expression of others. Later nodes rely on it.
    if (theirs != v->symbol)
      TC_TRY(pt2_condition(im, s, where, tc_sym_cmp(im->syms, TC_SYM_EQ, v->symbol, theirs),
                           TC_SV("the number read from data is the one that the program was exported for"),
                           v->def->source));
    return pt2_define(im, s, where, name, tc_arg_sym(theirs));
  }
  bool is_bool = tc_sv_is(tag, "as_sym_bool");
  v->kind = is_bool ? TC_VALUE_BOOL : TC_VALUE_FLOAT;
  v->symbol = NULL;
  return pt2_define(im, s, where, name, (tc_arg){.kind = is_bool ? TC_AK_BOOL : TC_AK_FLOAT, .value = v});
}

// Takes the next result; NULL if there is none.
static tc_value *next_result(tc_node *made, int32_t *at_result) {
  return *at_result < made->n_results ? made->results[(*at_result)++] : NULL;
}

tc_status pt2_name_results(pt2_import *im, pt2_scope *s, const at *where, const pt2_node *n, int32_t first,
                           tc_node *made) {
  at outputs_at = at_key(where, "outputs");
  int32_t i = 0, r = 0;
  for (tc_json_iter it = tc_json_begin(n->outputs); tc_json_next(&it); i++) {
    if (i < first) continue;
    at output_at = at_item(&outputs_at, i);
    tc_sv tag, name;
    tc_json value;
    TC_TRY(pt2_union(&output_at, it.value, &tag, &value));
    at here = at_name(&output_at, tag);
    if (tc_sv_is(tag, "as_tensors")) {
      if (tc_json_kind(value) != TC_JSON_ARRAY) return pt2_bad(&here, "expected an array");
      int64_t k = 0;
      for (tc_json_iter e = tc_json_begin(value); tc_json_next(&e); k++) {
        at element_at = at_item(&here, k);
        TC_TRY(pt2_named(&element_at, e.value, &name));
        tc_value *v = next_result(made, &r);
        if (v == NULL)
          return pt2_bad(&element_at, "'" TC_SV_FMT "' gives only %d results", TC_SV_ARG(made->op->full_name),
                         made->n_results);
        TC_TRY(name_tensor(im, s, &element_at, n, name, v));
      }
      continue;
    }
    tc_value *v = next_result(made, &r);
    if (tc_sv_is(tag, "as_none")) continue; // an undefined tensor, or no result at all
    if (v == NULL)
      return pt2_bad(&here, "'" TC_SV_FMT "' gives only %d results", TC_SV_ARG(made->op->full_name), made->n_results);
    if (tc_sv_is(tag, "as_tensor")) {
      TC_TRY(pt2_named(&here, value, &name));
      TC_TRY(name_tensor(im, s, &here, n, name, v));
    } else if (tc_sv_starts(tag, "as_sym_")) TC_TRY(pt2_name_number(im, s, &here, tag, value, v));
    else return pt2_refuse(&here, "a result of this kind");
  }
  if (r < made->n_results)
    return pt2_bad(&outputs_at, "'" TC_SV_FMT "' gives %d results, but the node names %d",
                   TC_SV_ARG(made->op->full_name), made->n_results, r);
  return TC_OK;
}

// ---- mixed precision ----
static tc_status cast(pt2_scope *s, const pt2_node *n, tc_dtype to, tc_value **v) {
  if (!tc_autocast_concerns(*v) || (*v)->type.dtype == to) return TC_OK;
  tc_build b = {.graph = s->graph, .source = n->source};
  tc_arg args[] = {tc_arg_tensor(*v), tc_arg_dtype(to)}, made;
  TC_TRY(tc_build_call(&b, TC_SV("aten::to.dtype"), 2, args, NULL, &made));
  *v = made.value;
  return TC_OK;
}

// The casts that a region with autocast makes in front of a call, as the archive does not write them down.
static tc_status cast_args(pt2_import *im, pt2_scope *s, const pt2_node *n, const tc_op *op, int32_t n_args,
                           tc_arg *args) {
  tc_dtype to = s->autocast.to ? tc_autocast_dtype(&s->autocast, op, n_args, args) : TC_DTYPE_NONE;
  for (int32_t i = 0; to && i < n_args; i++) {
    tc_arg *a = &args[i];
    if (a->kind == TC_AK_TENSOR) TC_TRY(cast(s, n, to, &a->value));
    if (a->kind != TC_AK_TENSORS) continue;
    a->values = tc_arena_copy(im->arena, a->values, sizeof(*a->values) * (size_t)a->n);
    for (int32_t k = 0; k < a->n; k++) TC_TRY(cast(s, n, to, &a->values[k]));
  }
  return TC_OK;
}

// ---- nodes ----
static tc_status import_op_node(pt2_import *im, pt2_scope *s, const at *where, const pt2_node *n) {
  const tc_map_entry *e = tc_map_find(im->targets, n->target);
  if (e == NULL || e->value.ptr == NULL)
    return pt2_refuse(where, "the op '" TC_SV_FMT "' is not known", TC_SV_ARG(n->target));
  const tc_op *op = e->value.ptr;
  int32_t n_args;
  tc_arg *args;
  tc_node *made;
  TC_TRY(pt2_match_args(im, s, where, op, n->inputs, 0, &n_args, &args));
  TC_TRY(cast_args(im, s, n, op, n_args, args));
  // The result's name where there is one; the node's own (schema ≥ 8.16) else.
  tc_sv name = n->name, first;
  tc_json_iter it = tc_json_begin(n->outputs);
  if (tc_json_count(n->outputs) == 1 && tc_json_next(&it) &&
      tc_json_str(tc_json_get(tc_json_get(it.value, "as_tensor"), "name"), &first))
    name = first;
  TC_TRY(tc_graph_add_node(s->graph, NULL, op, n_args, args, name, n->source, &made));
  return pt2_name_results(im, s, where, n, 0, made);
}

tc_status pt2_import_node(pt2_import *im, pt2_scope *s, const at *where, const pt2_node *n) {
  bool done;
  if (!tc_sv_starts(n->target, "torch.ops.")) {
    if (pt2_is_number_target(n->target)) return pt2_import_number_node(im, s, where, n);
    return pt2_refuse(where, "the target '" TC_SV_FMT "' is not known", TC_SV_ARG(n->target));
  }
  if (tc_sv_starts(n->target, "torch.ops.higher_order.")) return pt2_import_higher_order(im, s, where, n);
  TC_TRY(pt2_import_special(im, s, where, n, &done));
  return done ? TC_OK : import_op_node(im, s, where, n);
}
