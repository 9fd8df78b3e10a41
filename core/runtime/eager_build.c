// Entries of the cache of single ops: a graph of one node behind guards, compiled, or for views the expressions of the
// results' sizes and strides.
#include <math.h>
#include <string.h>

#include "core/runtime/eager_internal.h"

// ---- arguments of graphs ----
static tc_status list_too_long(const tc_argument *a) {
  return tc_error(TC_STATUS_INVALID_ARGUMENT, "a list of %d elements", a->n);
}

tc_status tc_argument_to_arg(tc_module *m, const tc_argument *a, const tc_schema_arg *schema, tc_arg *out) {
  *out = tc_arg_none();
  if (a->n < 0 || a->n > 1 << 20) return list_too_long(a);
  switch (a->kind) {
  case TC_ARGUMENT_NONE:
  case TC_ARGUMENT_TENSOR:
  case TC_ARGUMENT_TENSORS: return TC_OK;
  case TC_ARGUMENT_INT: *out = tc_arg_sym(tc_sym_int(m->syms, a->v.integer)); return TC_OK;
  case TC_ARGUMENT_INTS: {
    const tc_sym **e = TC_NEW_ARRAY(m->arena, const tc_sym *, a->n + 1);
    for (int32_t i = 0; i < a->n; i++) e[i] = tc_sym_int(m->syms, a->v.integers[i]);
    *out = tc_arg_syms(e, a->n);
    return TC_OK;
  }
  case TC_ARGUMENT_REAL: *out = tc_arg_float(a->v.parts[0]); return TC_OK;
  case TC_ARGUMENT_COMPLEX: *out = tc_arg_complex(a->v.parts[0], a->v.parts[1]); return TC_OK;
  case TC_ARGUMENT_REALS:
    *out = tc_arg_floats(tc_arena_copy(m->arena, a->v.reals, (size_t)a->n * sizeof(double)), a->n);
    return TC_OK;
  case TC_ARGUMENT_BOOL: *out = tc_arg_bool(a->v.integer != 0); return TC_OK;
  case TC_ARGUMENT_BOOLS:
    *out = (tc_arg){.kind = TC_AK_BOOLS, .n = a->n, .bools = tc_arena_copy(m->arena, a->v.bools, (size_t)a->n)};
    return TC_OK;
  case TC_ARGUMENT_TEXT: *out = tc_arg_string(tc_sv_copy(m->arena, tc_sv_of(a->v.text))); return TC_OK;
  case TC_ARGUMENT_DTYPE:
    if (a->v.integer != TC_DTYPE_NONE) *out = tc_arg_dtype((tc_dtype)a->v.integer);
    return TC_OK;
  case TC_ARGUMENT_MEMORY_FORMAT: *out = (tc_arg){.kind = TC_AK_MEMORY_FORMAT, .integer = a->v.integer}; return TC_OK;
  default:
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "argument '" TC_SV_FMT "' is of no known kind (%d)",
                    TC_SV_ARG(schema->name), a->kind);
  }
}

// ---- building entries ----
typedef struct building {
  const eager_call *call;
  bool dynamic;
  eager_entry *x;
} building;

// The flat number of the tensor argument `arg` starts at.
static int32_t flat_of(const eager_call *call, int32_t arg) {
  int32_t flat = 0;
  for (int32_t i = 0; i < arg; i++) {
    if (call->args[i].kind == TC_ARGUMENT_TENSOR) flat++;
    else if (call->args[i].kind == TC_ARGUMENT_TENSORS) flat += call->args[i].n;
  }
  return flat;
}

static void mark_known(tc_guard_input *how, int64_t dims) { // a bit per dimension
  for (int32_t d = 0; d < TC_MAX_RANK; d++) how->marks[d].dynamic &= !(dims >> d & 1);
}

// Which sizes may not be any (TC_OP_KNOWN_LENGTHS): those of `weight`, else those of argument 0 along `dim`, else all
// of argument 0.
static void mark_lengths(const eager_call *call, tc_guard_input *how) {
  const tc_tensor *t = call->tensors;
  int64_t known = -1;
  for (int32_t i = 0; i < call->n_args; i++) {
    const tc_argument *a = &call->args[i];
    int32_t n = a->kind == TC_ARGUMENT_INTS ? a->n : a->kind == TC_ARGUMENT_INT;
    if (a->kind == TC_ARGUMENT_TENSOR && tc_sv_is(call->op->schema.args[i].name, "weight")) {
      mark_known(&how[flat_of(call, i)], -1);
      return;
    }
    if (!tc_sv_is(call->op->schema.args[i].name, "dim") || n == 0) continue;
    known = 0;
    for (int32_t k = 0; k < n; k++) {
      int64_t d = a->kind == TC_ARGUMENT_INT ? a->v.integer : a->v.integers[k];
      known |= (int64_t)1 << ((d < 0 ? d + t->rank : d) & 63); // one that does not fit is refused later on
    }
  }
  mark_known(how, known);
}

static tc_status make_inputs(const eager_call *call, bool dynamic, tc_graph *g, tc_value **values, tc_guards **guards) {
  tc_module *m = g->module;
  tc_guard_input *how = TC_NEW_ARRAY(m->arena, tc_guard_input, call->n_tensors + 1);
  tc_tensor_type *types = TC_NEW_ARRAY(m->arena, tc_tensor_type, call->n_tensors + 1);
  for (int32_t i = 0; i < call->n_tensors; i++) {
    for (int32_t d = 0; d < TC_MAX_RANK; d++) how[i].marks[d].dynamic = dynamic;
    if (call->tensors[i].storage && call->tensors[i].neg)
      return tc_error(TC_STATUS_UNIMPLEMENTED, "an operand with the negative bit");
  }
  if (call->n_tensors && call->op->def->traits & TC_OP_KNOWN_LENGTHS) mark_lengths(call, how);
  *guards = tc_guards_create(m->syms, call->n_tensors, call->tensors, how, types);
  if (eager_counts_storage(call)) types[0].offset = tc_sym_int(m->syms, call->tensors[0].offset);
  for (int32_t i = 0; i < call->n_tensors; i++) {
    if (!call->tensors[i].storage) continue;
    tc_sv name = tc_sv_printf(m->arena, "x%d", i);
    values[i] = tc_graph_add_input(g, TC_IN_USER, name, name, &types[i]);
  }
  return TC_OK;
}

// An operand that is a number: a tensor of no dimensions to the run, a symbol where it is an integer.
static tc_arg add_number(tc_graph *g, int32_t i, int32_t kind) {
  tc_sv name = tc_sv_printf(g->module->arena, "n%d", i);
  if (kind == TC_ARGUMENT_REAL)
    return (tc_arg){.kind = TC_AK_FLOAT,
                    .value = tc_graph_add_number_input(g, TC_IN_USER, name, name, TC_VALUE_FLOAT, NULL),
                    .real = NAN};
  const tc_sym *symbol = tc_sym_symbol(g->module->syms, name);
  tc_graph_add_number_input(g, TC_IN_USER, name, name, TC_VALUE_SYM, symbol);
  return tc_arg_sym(symbol);
}

tc_status eager_make_node(const eager_call *call, bool dynamic, tc_graph *g, tc_guards **guards, tc_node **out) {
  tc_module *m = g->module;
  const tc_schema *schema = &call->op->schema;
  tc_value **values = TC_NEW_ARRAY(m->arena, tc_value *, call->n_tensors + 1);
  tc_arg *args = TC_NEW_ARRAY(m->arena, tc_arg, call->n_args + 1);
  int32_t flat = 0;
  TC_TRY(make_inputs(call, dynamic, g, values, guards));
  for (int32_t i = 0; i < call->n_args; i++) {
    const tc_argument *a = &call->args[i];
    if (eager_is_number(call, i)) {
      args[i] = add_number(g, i, a->kind);
      continue;
    }
    TC_TRY(tc_argument_to_arg(m, a, &schema->args[i], &args[i]));
    if (a->kind == TC_ARGUMENT_TENSOR) {
      if (values[flat]) args[i] = tc_arg_tensor(values[flat]);
      flat++;
    } else if (a->kind == TC_ARGUMENT_TENSORS) {
      args[i] = tc_arg_tensors(values + flat, a->n);
      flat += a->n;
    }
  }
  return tc_graph_add_node(g, NULL, call->op, call->n_args, args, TC_SV(""), TC_SV(""), out);
}

// The code of a result's size or stride, over the symbols of the guards.
static tc_status size_code(building *b, const tc_sym *e, tc_sym_code *out) {
  if (tc_guards_compile(b->x->guards, e, out)) return TC_OK;
  return tc_error(TC_STATUS_UNIMPLEMENTED, "the sizes of a view depend on data");
}

static tc_status make_views(building *b, const tc_node *n) {
  tc_arena *arena = b->x->module->arena;
  eager_view *views = TC_NEW_ARRAY(arena, eager_view, n->n_results);
  for (int32_t i = 0; i < n->n_results; i++) {
    const tc_tensor_type *t = &n->results[i]->type;
    eager_view *v = &views[i];
    v->operand = flat_of(b->call, n->results[i]->view_arg) + n->results[i]->view_item;
    v->dtype = t->dtype, v->rank = t->rank, v->conj = t->conj != 0;
    v->absolute = tc_node_counts_storage(n);
    for (int32_t d = 0; d < t->rank; d++) {
      TC_TRY(size_code(b, t->sizes[d], &v->sizes[d]));
      TC_TRY(size_code(b, t->strides[d], &v->strides[d]));
    }
    TC_TRY(size_code(b, t->offset, &v->offset));
  }
  b->x->views = views;
  return TC_OK;
}

// The operands that results are because the op writes them.
static bool find_written(building *b, int32_t n_results, int32_t *written) {
  bool any = false;
  for (int32_t i = 0; i < n_results; i++) {
    int32_t k = tc_op_written_argument(b->call->op, i);
    written[i] = k >= 0 && k < b->call->n_args ? flat_of(b->call, k) : -1;
    any |= written[i] >= 0;
  }
  return any;
}

static tc_status build_guarded(void *arg) {
  building *b = arg;
  eager_entry *x = b->x;
  tc_module *m = x->module;
  tc_graph *g = tc_graph_create(m, TC_SV("forward"));
  tc_node *n;
  TC_TRY(eager_make_node(b->call, b->dynamic, g, &x->guards, &n));
  x->n_results = n->n_results;
  x->n_random = m->random_nodes;
  x->n_inputs = g->inputs.count;
  int32_t *written = TC_NEW_ARRAY(m->arena, int32_t, n->n_results + 1);
  int32_t *outputs = TC_NEW_ARRAY(m->arena, int32_t, n->n_results + 1);
  bool writes = find_written(b, n->n_results, written);
  x->written = written, x->outputs = outputs;
  if (!writes && tc_node_is_view(n)) {
    TC_TRY(make_views(b, n));
    tc_guards_seal(x->guards, m, TC_SV("the op"));
    return TC_OK;
  }
  for (int32_t i = 0; i < n->n_results; i++) {
    tc_value *v = n->results[i];
    if (v->kind == TC_VALUE_SYM || v->kind == TC_VALUE_FLOAT || v->kind == TC_VALUE_BOOL)
      return tc_error(TC_STATUS_UNIMPLEMENTED, TC_SV_FMT " gives a number, not a tensor: read it with tc_item_*",
                      TC_SV_ARG(b->call->op->full_name));
    if (v->kind == TC_VALUE_TENSOR && written[i] < 0)
      tc_graph_add_output(g, TC_OUT_USER, tc_arg_tensor(v), tc_sv_printf(m->arena, "%d", i));
  }
  tc_graph_sweep(g);
  tc_source source = {.stage = TC_STAGE_GRAPH, .graph = g, .plan_only = true};
  TC_TRY(tc_session_create_from(b->call->e->context, &source, TC_STAGE_EXEC, &x->session));
  // The passes may have put outputs for what is written before the user's.
  x->n_graph_outputs = g->outputs.count;
  int32_t next = 0;
  for (int32_t i = 0; i < n->n_results; i++) {
    outputs[i] = -1;
    if (written[i] >= 0 || n->results[i]->kind != TC_VALUE_TENSOR) continue;
    while (next < g->outputs.count && g->outputs.data[next].kind != TC_OUT_USER) next++;
    outputs[i] = next++;
  }
  tc_guards_seal(x->guards, m, TC_SV("the op"));
  return TC_OK;
}

tc_status eager_build(eager_call *call, bool dynamic, eager_entry **out) {
  tc_context *c = call->e->context;
  eager_entry *x = tc_alloc(c->allocator, sizeof *x);
  if (!x) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for an op");
  x->refs = 1;
  building b = {.call = call, .x = x, .dynamic = dynamic};
  tc_status s = tc_module_create(c->allocator, c->ops, &x->module);
  if (s == TC_OK) s = tc_arena_guard(x->module->arena, build_guarded, &b);
  if (s != TC_OK) {
    eager_entry_unref(call->e, x);
    return s;
  }
  __atomic_fetch_add(&call->e->compiles, 1, __ATOMIC_RELAXED);
  if (x->session) {
    const tc_compile_stats *q = &tc_session_stats_of(x->session)->compile;
    __atomic_fetch_add(&call->e->kernels, q->kernels, __ATOMIC_RELAXED);
    __atomic_fetch_add(&call->e->hits, q->hits, __ATOMIC_RELAXED);
  }
  *out = x;
  return TC_OK;
}

void eager_entry_unref(tc_eager *e, eager_entry *x) {
  if (!x || __atomic_sub_fetch(&x->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
  tc_session_destroy(x->session);
  if (x->module) tc_module_destroy(x->module);
  tc_free(e->context->allocator, x);
}
