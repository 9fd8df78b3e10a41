// The gradients of a program whose ops run one by one on the tape of the embedder's API: see check_grad.h.
//
// Nodes are called in order with what their arguments are worth: numbers that depend on sizes are evaluated, numbers
// that depend on data are read. Nothing is compiled as a whole. The host decides what control flow does, as in an
// embedder's program: a region is run as often as data says.
#include <string.h>

#include "core/api/internal.h"
#include "core/ir/control.h"
#include "core/passes/passes.h"
#include "tcrun/check_grad.h"

#include "tc/tc.h"

typedef struct tape_run {
  const gradient_check *g;
  tc_graph *graph;
  tc_map *handles; // value → tc_tensor *
  int64_t *symbols;
  tc_tensor **leaves; // by graph input
  uint64_t seed;      // in a loop the turn's
} tape_run;

static tc_status last_error(void) {
  tc_status s = tc_error(tc_last_code(), "%s", tc_last_error());
  tc_clear_error();
  return s;
}

static tc_status number_of(const tape_run *r, const tc_sym *e, int64_t *out) { return tc_sym_eval(e, r->symbols, out); }

static tc_tensor *handle_of(const tape_run *r, const tc_value *v) {
  const tc_map_entry *e = v ? tc_map_find_ptr(r->handles, v) : NULL;
  return e ? e->value.ptr : NULL;
}

// A number that a node gave: its tensor's one element.
static tc_status read_number(const tape_run *r, const tc_value *v, double *out) {
  tc_tensor *t = handle_of(r, v);
  if (!t)
    return tc_error(TC_STATUS_UNIMPLEMENTED, "%%" TC_SV_FMT " is a number that is not known here", TC_SV_ARG(v->name));
  return tc_item_f64(t, out, NULL) == TC_STATUS_OK ? TC_OK : last_error();
}

static tc_status convert(const tape_run *r, const tc_arg *a, tc_argument *out) {
  tc_arena *arena = r->g->arena;
  *out = tc_arg_nothing();
  switch (a->kind) {
  case TC_AK_NONE:
  case TC_AK_LAYOUT: return TC_OK;
  case TC_AK_TENSOR:
    out->kind = TC_ARGUMENT_TENSOR, out->v.tensor = handle_of(r, a->value);
    if (out->v.tensor) return TC_OK;
    return tc_error(TC_STATUS_UNIMPLEMENTED, "%%" TC_SV_FMT " is not known here", TC_SV_ARG(a->value->name));
  case TC_AK_TENSORS: {
    tc_tensor **list = TC_NEW_ARRAY(arena, tc_tensor *, a->n + 1);
    for (int32_t i = 0; i < a->n; i++) list[i] = handle_of(r, a->values[i]);
    out->kind = TC_ARGUMENT_TENSORS, out->n = a->n, out->v.tensors = list;
    return TC_OK;
  }
  case TC_AK_INT:
    out->kind = TC_ARGUMENT_INT;
    return number_of(r, a->value ? a->value->symbol : a->sym, &out->v.integer);
  case TC_AK_INTS: {
    int64_t *list = TC_NEW_ARRAY(arena, int64_t, a->n + 1);
    for (int32_t i = 0; i < a->n; i++) TC_TRY(number_of(r, a->syms[i], &list[i]));
    out->kind = TC_ARGUMENT_INTS, out->n = a->n, out->v.integers = list;
    return TC_OK;
  }
  case TC_AK_FLOAT:
    *out = tc_scalar_real(a->real);
    return a->value ? read_number(r, a->value, &out->v.parts[0]) : TC_OK;
  case TC_AK_COMPLEX: *out = tc_scalar_complex(a->real, a->imag); return TC_OK;
  case TC_AK_FLOATS: out->kind = TC_ARGUMENT_REALS, out->n = a->n, out->v.reals = a->reals; return TC_OK;
  case TC_AK_BOOL: {
    double v = 0;
    if (a->value) TC_TRY(read_number(r, a->value, &v));
    *out = tc_scalar_bool(a->value ? v != 0 : a->integer != 0);
    return TC_OK;
  }
  case TC_AK_BOOLS: out->kind = TC_ARGUMENT_BOOLS, out->n = a->n, out->v.bools = a->bools; return TC_OK;
  case TC_AK_STRING:
  case TC_AK_DEVICE: out->kind = TC_ARGUMENT_TEXT, out->v.text = tc_sv_z(arena, a->text); return TC_OK;
  case TC_AK_DTYPE: out->kind = TC_ARGUMENT_DTYPE, out->v.integer = a->integer; return TC_OK;
  case TC_AK_MEMORY_FORMAT: out->kind = TC_ARGUMENT_MEMORY_FORMAT, out->v.integer = a->integer; return TC_OK;
  default: return tc_error(TC_STATUS_UNIMPLEMENTED, "an argument that is no value of a single op");
  }
}

// A number that data decides: sizes behind it may depend on it.
static tc_status take_number(tape_run *r, const tc_node *n, const tc_value *v) {
  tc_tensor *t = n->n_args && n->args[0].kind == TC_AK_TENSOR ? handle_of(r, n->args[0].value) : NULL;
  if (!t || tc_numel_of(t) != 1)
    return tc_error(TC_STATUS_UNIMPLEMENTED, TC_SV_FMT " gives a number", TC_SV_ARG(n->op->full_name));
  tc_map_put_ptr(r->handles, v, NULL)->value.ptr = t;
  if (v->kind != TC_VALUE_SYM || v->symbol->kind != TC_SYM_SYMBOL) return TC_OK;
  return tc_item_i64(t, &r->symbols[v->symbol->symbol]) == TC_STATUS_OK ? TC_OK : last_error();
}

static tc_status run_nodes(tape_run *r, const tc_graph *g);

// ---- control flow ----
typedef struct control_run {
  tape_run *r;
  tc_control c;
  uint64_t seed; // around it
  int64_t turn;
} control_run;

// A loop's turn ends with its body.
static void end_turn(control_run *q) { q->r->seed = tc_turn_seed(q->seed, ++q->turn); }

static int32_t run_region(control_run *q, int32_t which, tc_tensor *const *in, tc_tensor **out, int32_t n_out) {
  const tc_graph *g = q->c.regions[which];
  for (int32_t i = 0; i < g->inputs.count; i++)
    if (g->inputs.data[i].value) tc_map_put_ptr(q->r->handles, g->inputs.data[i].value, NULL)->value.ptr = in[i];
  tc_status s = run_nodes(q->r, g);
  for (int32_t i = 0; s == TC_OK && i < n_out; i++) out[i] = handle_of(q->r, g->outputs.data[i].arg.value);
  if (q->c.kind != TC_CONTROL_COND && g == tc_control_body(&q->c)) end_turn(q);
  return api_fail(s);
}

static int32_t first_region(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)n_in;
  return run_region(self, 0, in, out, n_out);
}

static int32_t second_region(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)n_in;
  return run_region(self, 1, in, out, n_out);
}

static tc_status predicate_of(const tape_run *r, const tc_control *c, tc_tensor **out) {
  tc_argument v;
  *out = NULL;
  TC_TRY(convert(r, c->predicate, &v));
  if (v.kind == TC_ARGUMENT_TENSOR) return *out = v.v.tensor, TC_OK;
  uint8_t truth = v.v.integer != 0;
  *out = tc_tensor_from(r->g->c, TC_BOOL, 0, NULL, &truth);
  return *out ? TC_OK : last_error();
}

static tc_status run_control(tape_run *r, const tc_node *n, tc_tensor **results) {
  tc_arena *arena = r->g->arena;
  control_run q = {.r = r, .seed = r->seed};
  const tc_control *c = &q.c;
  int32_t code;
  tc_tensor *predicate;
  TC_TRY(tc_control_read(arena, n->op, n->n_args, n->args, &q.c));
  tc_tensor **operands = TC_NEW_ARRAY(arena, tc_tensor *, c->n_operands + 1);
  for (int32_t i = 0; i < c->n_operands; i++) operands[i] = handle_of(r, c->operands[i]);
  if (c->reverse) return tc_error(TC_STATUS_UNIMPLEMENTED, "a scan from the last element on is not run op by op");
  if (c->kind != TC_CONTROL_COND) r->seed = tc_turn_seed(q.seed, 0);
  switch (c->kind) {
  case TC_CONTROL_COND:
    TC_TRY(predicate_of(r, c, &predicate));
    code = tc_cond_at("the model", predicate, first_region, second_region, &q, c->n_operands, operands, n->n_results,
                      results);
    break;
  case TC_CONTROL_WHILE:
    code = tc_while_loop_at("the model", first_region, second_region, &q, c->n_carry, c->n_operands, operands, results);
    break;
  case TC_CONTROL_SCAN:
  case TC_CONTROL_MAP:
    code =
        tc_scan_at("the model", first_region, &q, c->n_carry, c->n_xs, c->n_operands, operands, n->n_results, results);
    break;
  default: return tc_error(TC_STATUS_UNIMPLEMENTED, TC_SV_FMT " is not run op by op", TC_SV_ARG(n->op->full_name));
  }
  r->seed = q.seed;
  return code == TC_STATUS_OK ? TC_OK : last_error();
}

// The context counts what is drawn, by other programs before this one, too, and in regions by their turns. A compiled
// run numbers the program's nodes; the context is set to the node's number, so that both draw the same.
static void draw_as_compiled(const tape_run *r, const tc_node *n) {
  uint64_t seed, stream;
  if (!tc_node_draws(n)) return;
  tc_context_set_seed(r->g->c, r->seed);
  tc_context_draw(r->g->c, n->stream - 1, &seed, &stream);
}

static tc_status call_op(const tape_run *r, const tc_node *n, tc_tensor **results, int32_t *count) {
  tc_arena *arena = r->g->arena;
  tc_argument *args = TC_NEW_ARRAY(arena, tc_argument, n->n_args + 1);
  for (int32_t i = 0; i < n->n_args; i++) TC_TRY(convert(r, &n->args[i], &args[i]));
  draw_as_compiled(r, n);
  if (tc_call_op_at("the model", r->g->c, tc_sv_z(arena, n->op->full_name), n->n_args, args, n->n_results, results,
                    count) != TC_STATUS_OK)
    return last_error();
  return TC_OK;
}

static tc_status run_node(tape_run *r, const tc_node *n) {
  if (n->n_results == 0) return TC_OK; // assertions
  if (n->results[0]->kind != TC_VALUE_TENSOR && n->results[0]->kind != TC_VALUE_NONE)
    return take_number(r, n, n->results[0]);
  tc_tensor **results = TC_NEW_ARRAY(r->g->arena, tc_tensor *, n->n_results + 1);
  int32_t count = n->n_results;
  TC_TRY(tc_op_control(n->op) == TC_CONTROL_NONE ? call_op(r, n, results, &count) : run_control(r, n, results));
  for (int32_t i = 0; i < n->n_results; i++) {
    const tc_value *v = n->results[i];
    if (i >= count || !results[i]) continue;
    tc_map_put_ptr(r->handles, v, NULL)->value.ptr = results[i];
    for (int32_t d = 0; v->kind == TC_VALUE_TENSOR && d < v->type.rank; d++) {
      const tc_sym *e = v->type.sizes[d]; // one that data decides
      if (e->kind == TC_SYM_SYMBOL) r->symbols[e->symbol] = results[i]->sizes[d];
    }
  }
  return TC_OK;
}

static tc_status run_nodes(tape_run *r, const tc_graph *g) {
  for (const tc_node *n = g->first; n; n = n->next)
    if (!n->dead)
      TC_TRY(run_node(r, n), "while running %%" TC_SV_FMT, TC_SV_ARG(n->n_results ? n->results[0]->name : n->name));
  return TC_OK;
}

// Inputs are copies: the program may write to them. A user's keeps its place in its storage, which programs may ask for
// and views may go back to.
static tc_status copy_input(const tape_run *r, const tc_tensor *t, bool user, tc_tensor *out) {
  const tc_allocator *a = r->g->c->allocator;
  if (!user) {
    TC_TRY(tc_tensor_create_strided(a, t->dtype, t->rank, t->sizes, t->strides, out));
    tc_status s = tc_tensor_copy(t, out);
    if (s != TC_OK) tc_tensor_unref(out);
    return s;
  }
  tc_storage *storage;
  TC_TRY(tc_storage_create(a, t->storage->size, &storage));
  memcpy(storage->data, t->storage->data, t->storage->size);
  *out = *t;
  out->storage = storage;
  return TC_OK;
}

static tc_status read_input(tape_run *r, int32_t i, bool wanted, bool writes) {
  const tc_graph_input *in = &r->graph->inputs.data[i];
  const tc_tensor *t = &r->g->inputs[i];
  const tc_map_entry *e = t->storage ? NULL : tc_map_find(r->graph->module->bindings, in->target);
  tc_tensor copy;
  if (!in->value || in->value->kind == TC_VALUE_TOKEN) return TC_OK;
  if (e) t = &((const tc_binding *)e->value.ptr)->tensor;
  if (!t->storage) return tc_error(TC_STATUS_INVALID_ARGUMENT, "input %d is missing", i);
  TC_TRY(copy_input(r, t, !e && in->value->kind == TC_VALUE_TENSOR, &copy));
  tc_tensor *handle = api_wrap(r->g->c, copy);
  if (!handle || (wanted && tc_set_requires_grad(handle, 1) != TC_STATUS_OK)) return last_error();
  r->leaves[i] = handle;
  if (in->value->kind == TC_VALUE_SYM && in->value->symbol->kind == TC_SYM_SYMBOL)
    r->symbols[in->value->symbol->symbol] = tc_tensor_get_int(t, (int64_t[TC_MAX_RANK]){0});
  for (int32_t d = 0; in->value->kind == TC_VALUE_TENSOR && d < t->rank; d++) {
    const tc_sym *size = in->value->type.sizes[d];
    if (size->kind == TC_SYM_SYMBOL) r->symbols[size->symbol] = t->sizes[d];
  }
  if (in->value->kind == TC_VALUE_TENSOR && in->value->type.offset->kind == TC_SYM_SYMBOL)
    r->symbols[in->value->type.offset->symbol] = t->offset;
  if (wanted && writes) { // a leaf is not written in place
    tc_argument arg = {.kind = TC_ARGUMENT_TENSOR, .v.tensor = handle};
    if (tc_call_op(r->g->c, "aten::clone", 1, &arg, 1, &handle, NULL) != TC_STATUS_OK) return last_error();
  }
  tc_map_put_ptr(r->handles, in->value, NULL)->value.ptr = handle;
  return TC_OK;
}

static tc_status go_back(tape_run *r, const bool *wanted, tc_tensor *gradients) {
  tc_arena *arena = r->g->arena;
  int32_t n_in = r->graph->inputs.count, n_out = r->graph->outputs.count, k = 0, n = 0, leaf = 0;
  tc_tensor **outputs = TC_NEW_ARRAY(arena, tc_tensor *, n_out + 1),
            **cts = TC_NEW_ARRAY(arena, tc_tensor *, n_out + 1), **in = TC_NEW_ARRAY(arena, tc_tensor *, n_in + 1),
            **made = TC_NEW_ARRAY(arena, tc_tensor *, n_in + 1);
  for (int32_t i = 0; i < n_out; i++) {
    const tc_graph_output *o = &r->graph->outputs.data[i];
    if (o->kind != TC_OUT_USER) continue;
    const tc_tensor *ct = r->g->find(r->g->self, tc_sv_printf(arena, "ct.%d", leaf++));
    tc_tensor *y = o->arg.kind == TC_AK_TENSOR ? handle_of(r, o->arg.value) : NULL;
    if (!ct || !y || !tc_requires_grad(y)) continue;
    outputs[k] = y;
    if (!(cts[k++] = api_wrap(r->g->c, tc_tensor_ref(ct)))) return last_error();
  }
  for (int32_t i = 0; i < n_in; i++)
    if (wanted[i]) in[n++] = r->leaves[i];
  if (k == 0 || n == 0) return TC_OK;
  if (tc_grad(k, outputs, cts, n, in, 0, made) != TC_STATUS_OK) return last_error();
  for (int32_t i = 0, at = 0; i < n_in; i++) {
    if (!wanted[i]) continue;
    if (made[at]) gradients[i] = tc_tensor_ref(made[at]);
    at++;
  }
  return TC_OK;
}

static tc_status run_all(tape_run *r, const bool *wanted, tc_tensor *gradients) {
  bool writes = false;
  for (const tc_node *n = r->graph->first; n; n = n->next) writes |= tc_node_writes(n);
  for (int32_t i = 0; i < r->graph->inputs.count; i++) TC_TRY(read_input(r, i, wanted[i], writes));
  TC_TRY(run_nodes(r, r->graph));
  return go_back(r, wanted, gradients);
}

tc_status tcrun_tape_gradients(const gradient_check *g, const bool *wanted, tc_tensor *gradients) {
  tape_run r = {.g = g, .graph = g->m->graph, .seed = g->seed, .handles = tc_map_create(g->arena)};
  r.symbols = TC_NEW_ARRAY(g->arena, int64_t, tc_sym_symbol_count(r.graph->module->syms) + 1);
  r.leaves = TC_NEW_ARRAY(g->arena, tc_tensor *, r.graph->inputs.count + 1);
  if (!g->c->eager) TC_TRY(tc_eager_create(g->c, &g->c->eager));
  tc_scope *scope = tc_scope_open();
  if (!scope) return last_error();
  tc_status s = run_all(&r, wanted, gradients);
  tc_scope_close(scope);
  tc_eager_destroy(g->c->eager); // what is compiled for one program is of little use to the next
  g->c->eager = NULL;
  return s;
}
