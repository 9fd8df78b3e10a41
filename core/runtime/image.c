// Sessions as artifacts have them: one plan with its code, or, of a program that is cut, a plan for each segment and
// the steps as a graph, in which a node stands for each:
//
//   %a : f32[4, 8], … = tc::segment("2", %x, %w)   runs plan number 2
//   %u : int u0 = tc::number(%n)                    the host reads a number, which is a size of what follows
//
// What is left to the references, to a plugin that takes graphs, or to control flow that the host drives is in no
// artifact: these need the graph's own nodes.
#include <string.h>

#include "core/runtime/session_internal.h"

static const char segment_schema[] = "tc::segment(str plan, ...) -> ...", number_schema[] = "tc::number(...) -> int";
static const tc_op_def segment_def = {.schema = segment_schema}, number_def = {.schema = number_schema};
static const tc_op segment_op = {.full_name = {"tc::segment", 11}, .def = &segment_def},
                   number_op = {.full_name = {"tc::number", 10}, .def = &number_def};

// ---- Writing ----
static tc_status left_out(const tc_session *s, const session_step *step) {
  const char *first = s->fallbacks.count ? s->fallbacks.data[0] : "all of it";
  if (step->kind == STEP_DELEGATE)
    return tc_error(TC_STATUS_UNIMPLEMENTED,
                    "it is not all code: a part of it is left to the plugin '" TC_SV_FMT "', which takes graphs",
                    TC_SV_ARG(step->delegate->name));
  if (step->kind == STEP_CONTROL)
    return tc_error(TC_STATUS_UNIMPLEMENTED, "it is not all code: the host drives the regions of " TC_SV_FMT,
                    TC_SV_ARG(step->node->op->full_name));
  return tc_error(TC_STATUS_UNIMPLEMENTED, "it is not all code: the references, or a function of the host, do %s",
                  first);
}

static tc_status write_step(const tc_session *s, const session_step *step, tc_arena *arena, tc_session_code *out,
                            tc_node *n) {
  if (step->kind == STEP_READ) {
    *n = *step->node;
    n->op = &number_op, n->next = n->prev = NULL;
    return TC_OK;
  }
  if (step->kind != STEP_EXEC) return left_out(s, step);
  *n = (tc_node){.op = &segment_op, .graph = s->graph, .inplace = -1, .n_args = step->n_inputs + 1};
  n->results = step->outputs, n->n_results = step->n_outputs;
  n->args = TC_NEW_ARRAY(arena, tc_arg, n->n_args);
  n->args[0] = tc_arg_string(tc_sv_printf(arena, "%d", out->plans.count));
  for (int32_t i = 0; i < step->n_inputs; i++)
    n->args[i + 1] = (tc_arg){.kind = TC_AK_TENSOR, .value = step->inputs[i]};
  tc_vec_push(arena, &out->plans, step->compiled.plan);
  return TC_OK;
}

tc_status tc_session_code_of(const tc_session *s, tc_arena *arena, tc_session_code *out) {
  *out = (tc_session_code){0};
  if (s->whole && s->steps->kind == STEP_EXEC) {
    tc_vec_push(arena, &out->plans, s->steps->compiled.plan);
    return TC_OK;
  }
  if (s->whole) return left_out(s, s->steps);
  tc_graph *g = tc_arena_copy(arena, s->graph, sizeof *g);
  g->first = g->last = NULL;
  for (int32_t i = 0; i < s->n_steps; i++) {
    tc_node *n = TC_NEW(arena, tc_node);
    TC_TRY(write_step(s, &s->steps[i], arena, out, n));
    if (g->last) g->last->next = n;
    else g->first = n;
    g->last = n;
  }
  out->steps = g;
  return TC_OK;
}

tc_status tc_image_declare(tc_op_registry *ops) {
  TC_TRY(tc_op_declare(ops, tc_sv_of(segment_schema)));
  return tc_op_declare(ops, tc_sv_of(number_schema));
}

// ---- Reading ----
static tc_status damaged(const tc_node *n, const char *why) {
  return tc_error(TC_STATUS_DATA_LOSS, "the steps are damaged: " TC_SV_FMT " %s", TC_SV_ARG(n->op->full_name), why);
}

static bool same_kind(const tc_value *a, const tc_value *b) {
  bool number = a->kind == TC_VALUE_FLOAT || a->kind == TC_VALUE_BOOL; // a tensor of no dimensions to plans
  if (b->kind != TC_VALUE_TENSOR || (a->kind != TC_VALUE_TENSOR && !number)) return false;
  return number ? b->type.rank == 0 : a->type.rank == b->type.rank && a->type.dtype == b->type.dtype;
}

static tc_status read_segment(const tc_image *x, const tc_node *n, session_step *step) {
  int64_t number = -1;
  if (n->n_args < 1 || n->args[0].kind != TC_AK_STRING || !tc_sv_to_int(n->args[0].text, &number) || number < 0 ||
      number >= x->n_plans)
    return damaged(n, "names no plan");
  tc_plan *p = x->plans[number];
  tc_graph *g = (tc_graph *)(uintptr_t)p->graph;
  step->kind = STEP_EXEC, step->graph = g;
  step->compiled.graph = g, step->compiled.plan = p;
  step->n_inputs = n->n_args - 1, step->n_outputs = n->n_results;
  step->inputs = TC_NEW_ARRAY(p->arena, tc_value *, n->n_args), step->outputs = n->results;
  if (g->inputs.count != step->n_inputs || g->outputs.count != step->n_outputs)
    return damaged(n, "has other inputs or outputs than its plan");
  for (int32_t i = 0; i < step->n_inputs; i++) {
    tc_value *v = step->inputs[i] = n->args[i + 1].value;
    if (!v || !g->inputs.data[i].value || !same_kind(v, g->inputs.data[i].value))
      return damaged(n, "has another input than its plan");
  }
  for (int32_t i = 0; i < step->n_outputs; i++) {
    const tc_value *v = g->outputs.data[i].arg.value;
    if (!v || !same_kind(n->results[i], v)) return damaged(n, "has another output than its plan");
  }
  return TC_OK;
}

static tc_status read_step(const tc_image *x, tc_node *n, session_step *step) {
  step->node = n;
  if (tc_sv_is(n->op->full_name, "tc::segment")) return read_segment(x, n, step);
  if (!tc_sv_is(n->op->full_name, "tc::number")) return damaged(n, "is no step");
  step->kind = STEP_READ;
  bool fits = n->n_args == 1 && n->args[0].kind == TC_AK_TENSOR && n->n_results == 1;
  return fits && n->results[0]->kind == TC_VALUE_SYM ? TC_OK : damaged(n, "reads no number");
}

tc_status tc_image_verify(const tc_image *x) {
  for (tc_node *n = x->steps ? x->steps->first : NULL; n; n = n->next) {
    session_step step = {0};
    TC_TRY(read_step(x, n, &step));
  }
  return TC_OK;
}

static tc_status load(tc_session *s, session_step *step) {
  tc_compiled *x = &step->compiled;
  TC_TRY(tc_exec_create(s->context->device, x->plan, &x->exec, &x->stats));
  TC_TRY(tc_exec_set_replays(x->exec, tc_context_replays(s->context)));
  session_add_stats(s, x);
  return TC_OK;
}

tc_status session_build_image(tc_session *s, void *arg) {
  const tc_image *x = arg;
  if (!s->context->device)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "the backend '" TC_SV_FMT "' runs no plans",
                    TC_SV_ARG(s->context->backend));
  s->steps = TC_NEW_ARRAY(s->arena, session_step, x->steps ? x->steps->n_nodes : 1);
  if (!x->steps) {
    session_step *step = s->steps;
    s->n_steps = 1, s->whole = true;
    step->kind = STEP_EXEC, step->graph = s->graph;
    step->compiled.graph = s->graph, step->compiled.plan = x->plans[0];
    return load(s, step);
  }
  for (tc_node *n = x->steps->first; n; n = n->next) {
    session_step *step = &s->steps[s->n_steps++];
    TC_TRY(read_step(x, n, step));
    if (step->kind == STEP_EXEC) TC_TRY(load(s, step));
  }
  return TC_OK;
}

tc_graph *tc_image_graph(const tc_image *x) {
  return x->steps ? x->steps : x->n_plans ? (tc_graph *)(uintptr_t)x->plans[0]->graph : NULL;
}

tc_status tc_session_create_image(tc_context *c, const tc_image *x, tc_session **out) {
  return session_create(c, tc_image_graph(x), session_build_image, (void *)(uintptr_t)x, false, out);
}
