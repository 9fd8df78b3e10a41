// Control flow of the embedder's API. In a graph that is being captured it becomes one node, whose regions are recorded
// by running their bodies once; elsewhere, and in functions with graph breaks, the host decides, and bodies run as
// often as data says.
//
// A region is recorded by a trace of its own (`outer`), into a graph beside that of the line: its ops become nodes at
// once. It sees its own inputs only, writes to nothing and reads no value; one that does is left to the host.
#include <string.h>

#include "core/api/trace.h"
#include "core/runtime/eager.h"

typedef struct control_call {
  const char *here, *op;
  int32_t n_bodies;
  tc_function_body bodies[2];
  void *self;
  tc_tensor *predicate; // of cond
  tc_tensor *const *tensors;
  int32_t n_carried, n_xs, n; // tensors: carried ones, scanned ones, others
  tc_tensor **results;
  int32_t n_results;
} control_call;

// ---- recording regions ----
typedef struct region_step {
  api_trace *r;
  const tc_op *op;
  const char *here;
  int32_t n_args;
  const tc_argument *args;
  tc_node *node;
  int32_t n; // inputs or outputs of a region
  tc_value *const *inputs;
  tc_tensor *const *outputs;
  const control_call *call;
  tc_graph *regions[2];
} region_step;

static tc_status region_value(const api_trace *r, const tc_tensor *x, tc_value **out) {
  if (api_of(x)->trace != r)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "a region of control flow uses a tensor that is none of its inputs");
  *out = r->values.data[api_of(x)->slot];
  return TC_OK;
}

static tc_status add_region_node(void *arg) {
  region_step *q = arg;
  tc_module *m = q->r->line->module;
  if (q->n_args > q->op->schema.n_args)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT " takes %d arguments, %d are given",
                    TC_SV_ARG(q->op->full_name), q->op->schema.n_args, q->n_args);
  tc_arg *args = TC_NEW_ARRAY(m->arena, tc_arg, q->n_args + 1);
  for (int32_t i = 0; i < q->n_args; i++) {
    const tc_argument *a = &q->args[i];
    if (q->op->schema.args[i].writes)
      return tc_error(TC_STATUS_UNIMPLEMENTED, "a region of control flow writes with " TC_SV_FMT,
                      TC_SV_ARG(q->op->full_name));
    TC_TRY(tc_argument_to_arg(m, a, &q->op->schema.args[i], &args[i]));
    trace_symbols_in(q->r->line, &args[i]);
    if (a->kind == TC_ARGUMENT_TENSOR && a->v.tensor) {
      tc_value *v;
      TC_TRY(region_value(q->r, a->v.tensor, &v));
      args[i] = tc_arg_tensor(v);
    } else if (a->kind == TC_ARGUMENT_TENSORS) {
      tc_value **list = TC_NEW_ARRAY(m->arena, tc_value *, a->n + 1);
      for (int32_t k = 0; k < a->n; k++)
        if (a->v.tensors[k]) TC_TRY(region_value(q->r, a->v.tensors[k], &list[k]));
      args[i] = tc_arg_tensors(list, a->n);
    }
  }
  return tc_graph_add_node(q->r->graph, NULL, q->op, q->n_args, args, TC_SV(""),
                           tc_sv_copy(m->arena, tc_sv_of(q->here)), &q->node);
}

static tc_status add_handle(api_trace *r, tc_value *v, tc_tensor **out) {
  *out = NULL;
  if (!api_reserve(r->context, &r->slots, 1) || !api_push(r->context, &r->values, v)) return tc_error_out_of_memory();
  if (v->kind == TC_VALUE_TENSOR) {
    *out = api_wrap_recorded(r, r->context, r->slots.count, v->type.dtype, v->type.rank, v->type.conj != 0);
    if (!*out) return tc_error_out_of_memory();
  }
  r->slots.data[r->slots.count++] = (trace_slot){.handle = tc_retain(*out)};
  return TC_OK;
}

// With symbols of the graph around for numbers.
static tc_status record_region_op(void *arg) {
  region_step *q = arg;
  tc_argument own[TRACE_TAKEN];
  const tc_argument *args = q->args;
  if (q->n_args <= TRACE_TAKEN) TC_TRY(trace_take_ints(q->r, q->here, q->op, q->n_args, args, own));
  if (q->n_args <= TRACE_TAKEN) q->args = own;
  tc_status s = tc_arena_guard(q->r->line->module->arena, add_region_node, q);
  q->args = args;
  return s;
}

int32_t control_region_op(api_trace *r, const char *here, const tc_op *op, int32_t n_args, const tc_argument *args,
                          int32_t capacity, tc_tensor **results, int32_t *n_results) {
  region_step q = {.r = r, .op = op, .here = here, .n_args = n_args, .args = args};
  api_trace *root = r;
  while (root->outer) root = root->outer;
  root->symbolic = false;
  tc_status s = trace_plainly(root, op, record_region_op(&q), record_region_op, &q);
  int32_t n = s == TC_OK ? q.node->n_results : 0;
  if (s == TC_OK && (n > capacity || (!n_results && n != capacity)))
    s = tc_error(TC_STATUS_OUT_OF_RANGE, TC_SV_FMT " gives %d results; there is room for %d", TC_SV_ARG(op->full_name),
                 n, capacity);
  for (int32_t i = 0; i < n && s == TC_OK; i++) s = add_handle(r, q.node->results[i], &results[i]);
  if (s != TC_OK) return api_fail(tc_status_note(s, "at %s", here));
  if (n_results) *n_results = n;
  return TC_STATUS_OK;
}

static tc_status begin_region(void *arg) {
  region_step *q = arg;
  tc_module *m = q->r->line->module;
  q->r->graph = tc_graph_create(m, tc_sv_printf(m->arena, "region%d", m->graphs.count));
  return TC_OK;
}

static tc_status add_region_input(void *arg) {
  region_step *q = arg;
  tc_module *m = q->r->line->module;
  tc_sv name = tc_sv_printf(m->arena, "operand%d", q->n);
  tc_tensor_type type = q->inputs[q->n]->type;
  int32_t scanned = q->n - q->call->n_carried;
  if (scanned >= 0 && scanned < q->call->n_xs) { // a slice of it
    if (type.rank == 0) return tc_error(TC_STATUS_INVALID_ARGUMENT, "a scan over a tensor of no dimensions");
    type.rank--, type.sizes++, type.strides++;
  }
  tc_value *v = tc_graph_add_input(q->r->graph, TC_IN_OPERAND, name, name, &type);
  return add_handle(q->r, v, (tc_tensor **)(uintptr_t)&q->outputs[q->n]);
}

static tc_status end_region(void *arg) {
  region_step *q = arg;
  for (int32_t i = 0; i < q->n; i++) {
    tc_value *v;
    if (!q->outputs[i]) return tc_error(TC_STATUS_INVALID_ARGUMENT, "a region of control flow sets no output %d", i);
    TC_TRY(region_value(q->r, q->outputs[i], &v));
    tc_graph_add_output(q->r->graph, TC_OUT_USER, tc_arg_tensor(v), TC_SV(""));
  }
  tc_graph_sweep(q->r->graph);
  return TC_OK;
}

static tc_status run_region_body(api_trace *r, tc_function_body body, const control_call *call,
                                 tc_tensor *const *inputs, tc_tensor **outputs, int32_t n_outputs) {
  api_trace *before = api_set_current_trace(r);
  int32_t code = body(call->self, inputs, call->n, outputs, n_outputs);
  api_set_current_trace(before);
  if (tc_last_code() == TC_STATUS_OK)
    return code == TC_STATUS_OK ? TC_OK : tc_error(code, "a region of control flow reports a failure");
  tc_status s = tc_error(tc_last_code(), "%s", tc_last_error());
  tc_clear_error();
  return s;
}

// Runs the body on handles of the operands' types; *broke: it cannot be part of a graph.
static tc_status record_region(api_trace *t, const control_call *call, tc_function_body body, tc_value *const *operands,
                               int32_t n_outputs, tc_graph **out, bool *broke) {
  api_trace r = {.context = t->context, .function = t->function, .outer = t, .line = t->line};
  tc_arena *arena = t->line->module->arena;
  tc_scope *scope = tc_scope_open();
  tc_tensor **handles = tc_alloc(t->context->allocator, (size_t)(call->n + n_outputs + 1) * sizeof(*handles));
  tc_status s = scope && handles ? TC_OK : tc_error_out_of_memory();
  region_step q = {.r = &r, .inputs = operands, .outputs = handles, .call = call};
  if (s == TC_OK) s = tc_arena_guard(arena, begin_region, &q);
  for (q.n = 0; q.n < call->n && s == TC_OK; q.n++) s = tc_arena_guard(arena, add_region_input, &q);
  if (s == TC_OK) s = run_region_body(&r, body, call, handles, handles + call->n, n_outputs);
  region_step end = {.r = &r, .n = n_outputs, .outputs = handles ? handles + call->n : NULL};
  if (s == TC_OK) s = tc_arena_guard(arena, end_region, &end);
  *out = r.graph;
  *broke = r.broke;
  tc_scope_close(scope);
  tc_free(t->context->allocator, (void *)handles);
  tc_status released = trace_end(&r, false);
  if (s == TC_OK) return released;
  tc_status_free(released);
  return s;
}

// ---- the node ----
static tc_status operand_value(api_trace *t, tc_tensor *x, tc_value **out) {
  return t->outer ? region_value(t, x, out) : trace_value(t, x, out);
}

// Arguments in the order of the op's form (core/ir/control.h).
static tc_status add_control(void *arg) {
  region_step *q = arg;
  const control_call *call = q->call;
  tc_module *m = q->r->line->module;
  tc_arg args[5];
  int32_t n = 0;
  tc_value **values = tc_arena_copy(m->arena, q->inputs, (size_t)(call->n + 1) * sizeof(*values));
  if (call->predicate) args[n++] = tc_arg_tensor(q->inputs[call->n]);
  for (int32_t i = 0; i < call->n_bodies; i++) args[n++] = tc_arg_graph(q->regions[i]);
  int32_t scanned = call->n_carried + call->n_xs;
  if (!call->predicate) args[n++] = tc_arg_tensors(values, call->n_carried);
  if (call->n_xs) args[n++] = tc_arg_tensors(values + call->n_carried, call->n_xs);
  args[n++] = tc_arg_tensors(values + scanned, call->n - scanned);
  return tc_graph_add_node(q->r->outer ? q->r->graph : q->r->line->graph, NULL, q->op, n, args, TC_SV(""),
                           tc_sv_copy(m->arena, tc_sv_of(q->here)), &q->node);
}

static tc_status record_control(api_trace *t, const control_call *call, tc_value **operands, bool *broke) {
  const tc_op *op = tc_op_find(t->context->ops, tc_sv_of(call->op));
  if (!op) return tc_error(TC_STATUS_NOT_FOUND, "there is no op '%s'", call->op);
  region_step q = {.r = t, .op = op, .here = call->here, .inputs = operands, .call = call};
  for (int32_t i = 0; i < call->n; i++) TC_TRY(operand_value(t, call->tensors[i], &operands[i]));
  if (call->predicate) TC_TRY(operand_value(t, call->predicate, &operands[call->n]));
  for (int32_t i = 0; i < call->n_bodies; i++) {
    bool condition = call->n_bodies == 2 && !call->predicate && i == 0;
    TC_TRY(record_region(t, call, call->bodies[i], operands, condition ? 1 : call->n_results, &q.regions[i], broke));
  }
  TC_TRY(tc_arena_guard(t->line->module->arena, add_control, &q));
  if (q.node->n_results != call->n_results)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "the bodies give %d results, %d are wanted", q.node->n_results,
                    call->n_results);
  if (!t->outer) return trace_add_node(t, call->here, q.node, call->results);
  for (int32_t i = 0; i < call->n_results; i++) TC_TRY(add_handle(t, q.node->results[i], &call->results[i]));
  return TC_OK;
}

// ---- by the host ----
static tc_status run_body(const control_call *call, int32_t body, tc_tensor *const *inputs, tc_tensor **outputs,
                          int32_t n) {
  int32_t code = call->bodies[body](call->self, inputs, call->n, outputs, n);
  if (code == TC_STATUS_OK) code = tc_last_code();
  if (code != TC_STATUS_OK) return tc_error(code, "a body of control flow fails");
  for (int32_t i = 0; i < n; i++)
    if (!outputs[i]) return tc_error(TC_STATUS_INVALID_ARGUMENT, "a body of control flow sets no output %d", i);
  return TC_OK;
}

static tc_status truth_of(const char *here, tc_tensor *x, bool *out) {
  double re = 0, im = 0;
  if (tc_item_f64_at(here, x, &re, &im) != TC_STATUS_OK) return tc_error(tc_last_code(), "a condition is not read");
  *out = re != 0 || im != 0;
  return TC_OK;
}

static tc_status host_loop(const control_call *call, tc_tensor **state) {
  for (bool go = true;;) {
    tc_tensor *truth = NULL;
    TC_TRY(run_body(call, 0, state, &truth, 1));
    TC_TRY(truth_of(call->here, truth, &go));
    if (!go) break;
    TC_TRY(run_body(call, 1, state, call->results, call->n_carried));
    memcpy(state, call->results, (size_t)call->n_carried * sizeof(*state));
  }
  memcpy(call->results, state, (size_t)call->n_carried * sizeof(*state));
  return TC_OK;
}

static tc_status host_op(const control_call *call, const char *name, int32_t n, const tc_argument *args,
                         tc_tensor **out) {
  int32_t code = tc_call_op_at(call->here, NULL, name, n, args, 1, out, NULL);
  return code == TC_STATUS_OK ? TC_OK : tc_error(code, "a scan fails");
}

// all[k·turns + i]: result k of turn i.
static tc_status host_turns(const control_call *call, int64_t turns, tc_tensor **state, tc_tensor **all) {
  int32_t n_ys = call->n_results - call->n_carried;
  for (int64_t i = 0; i < turns; i++) {
    for (int32_t k = call->n_carried; k < call->n_carried + call->n_xs; k++) {
      tc_argument a[3] = {
          {.kind = TC_ARGUMENT_TENSOR, .v.tensor = call->tensors[k]}, tc_scalar_int(0), tc_scalar_int(i)};
      TC_TRY(host_op(call, "aten::select.int", 3, a, &state[k]));
    }
    TC_TRY(run_body(call, 0, state, call->results, call->n_results));
    memcpy(state, call->results, (size_t)call->n_carried * sizeof(*state));
    for (int32_t k = 0; k < n_ys; k++) all[k * turns + i] = call->results[call->n_carried + k];
  }
  for (int32_t k = 0; k < n_ys; k++) {
    tc_argument a[2] = {{.kind = TC_ARGUMENT_TENSORS, .n = (int32_t)turns, .v.tensors = all + k * turns},
                        tc_scalar_int(0)};
    TC_TRY(host_op(call, "aten::stack", 2, a, &call->results[call->n_carried + k]));
  }
  memcpy(call->results, state, (size_t)call->n_carried * sizeof(*state));
  return TC_OK;
}

static tc_status host_scan(tc_context *c, const control_call *call, tc_tensor **state) {
  int64_t turns = tc_size_of(call->tensors[call->n_carried], 0);
  int32_t n_ys = call->n_results - call->n_carried;
  if (turns <= 0 || turns > 1 << 20) return tc_error(TC_STATUS_INVALID_ARGUMENT, "a scan over %lld", (long long)turns);
  for (int32_t k = call->n_carried; k < call->n_carried + call->n_xs; k++)
    if (tc_size_of(call->tensors[k], 0) != turns)
      return tc_error(TC_STATUS_INVALID_ARGUMENT, "a scan over tensors of different lengths");
  tc_tensor **all = tc_alloc(c->allocator, (size_t)((n_ys + 1) * turns) * sizeof(*all));
  if (!all) return tc_error_out_of_memory();
  tc_status s = host_turns(call, turns, state, all);
  tc_free(c->allocator, (void *)all);
  return s;
}

static tc_status run_by_host(tc_context *c, const control_call *call, tc_tensor **state) {
  bool truth;
  memcpy(state, call->tensors, (size_t)call->n * sizeof(*state));
  if (call->n_xs) return host_scan(c, call, state);
  if (!call->predicate) return host_loop(call, state);
  TC_TRY(truth_of(call->here, call->predicate, &truth));
  return run_body(call, truth ? 0 : 1, state, call->results, call->n_results);
}

// ---- calls ----
static bool records_control(const api_trace *t) { return t && (t->outer || trace_is_one_graph(t)); }

static int32_t control(tc_context *c, control_call *call) {
  api_trace *t = api_current_trace();
  size_t n = (size_t)call->n + 2;
  bool broke = false;
  void **room = tc_alloc(c->allocator, 2 * n * sizeof(*room));
  if (!room) return api_fail(tc_error_out_of_memory());
  // Results may be written where the operands are.
  if (call->n) call->tensors = memcpy(room + n, (const void *)call->tensors, (size_t)call->n * sizeof(*room));
  for (int32_t i = 0; i < call->n_results; i++) call->results[i] = NULL;
  tc_status s = TC_OK;
  bool recorded = records_control(t);
  if (recorded) s = record_control(t, call, (tc_value **)room, &broke);
  if (s != TC_OK && broke && !t->outer) { // the host decides: a graph break
    tc_status_free(s);
    recorded = false;
    s = api_trace_break(t, call->here, "a region of control flow reads a value") == TC_STATUS_OK
            ? TC_OK
            : tc_error(tc_last_code(), "%s", tc_last_error());
  }
  if (!recorded && s == TC_OK) s = run_by_host(c, call, (tc_tensor **)room);
  tc_free(c->allocator, (void *)room);
  if (s != TC_OK)
    for (int32_t i = 0; i < call->n_results; i++) call->results[i] = NULL;
  return s == TC_OK ? TC_STATUS_OK : api_fail(tc_status_note(s, "at %s", call->here));
}

// The context of the first tensor; NULL and an error: none is given, or one is missing.
static tc_context *context_of(const char *here, int32_t n, tc_tensor *const *tensors, int32_t least) {
  for (int32_t i = 0; i < n; i++) {
    if (tensors[i]) continue;
    if (tc_last_code() == TC_STATUS_OK)
      api_fail_text(TC_STATUS_INVALID_ARGUMENT, "control flow: a tensor is missing\n  at %s", here);
    return NULL;
  }
  if (n >= least && n > 0) return api_of(tensors[0])->context;
  api_fail_text(TC_STATUS_INVALID_ARGUMENT, "control flow over too few tensors\n  at %s", here);
  return NULL;
}

int32_t tc_cond_at(const char *here, tc_tensor *predicate, tc_function_body yes, tc_function_body no, void *self,
                   int32_t n, tc_tensor *const *operands, int32_t n_results, tc_tensor **results) {
  control_call call = {.here = here, .op = "higher_order::cond", .n_bodies = 2, .bodies = {yes, no}, .self = self};
  call.predicate = predicate, call.tensors = operands, call.n = n, call.results = results, call.n_results = n_results;
  tc_context *c = context_of(here, 1, &predicate, 1);
  if (n > 0) c = c ? context_of(here, n, operands, 1) : NULL;
  return c ? control(c, &call) : tc_last_code();
}

int32_t tc_while_loop_at(const char *here, tc_function_body condition, tc_function_body body, void *self,
                         int32_t n_carried, int32_t n, tc_tensor *const *tensors, tc_tensor **results) {
  control_call call = {.here = here, .op = "higher_order::while_loop", .n_bodies = 2, .bodies = {condition, body}};
  call.self = self, call.tensors = tensors, call.n = n, call.n_carried = n_carried;
  call.results = results, call.n_results = n_carried;
  tc_context *c = context_of(here, n, tensors, n_carried);
  return c ? control(c, &call) : tc_last_code();
}

int32_t tc_scan_at(const char *here, tc_function_body body, void *self, int32_t n_carried, int32_t n_scanned, int32_t n,
                   tc_tensor *const *tensors, int32_t n_results, tc_tensor **results) {
  control_call call = {.here = here, .op = "higher_order::scan", .n_bodies = 1, .bodies = {body}, .self = self};
  call.tensors = tensors, call.n = n, call.n_carried = n_carried, call.n_xs = n_scanned;
  call.results = results, call.n_results = n_results;
  tc_context *c = context_of(here, n, tensors, n_carried + n_scanned);
  if (c && (n_scanned < 1 || n_results < n_carried))
    return api_fail_text(TC_STATUS_INVALID_ARGUMENT,
                         "a scan over nothing, or with fewer results than it carries\n  at %s", here);
  return c ? control(c, &call) : tc_last_code();
}
