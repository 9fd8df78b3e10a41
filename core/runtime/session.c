// Sessions: their steps' ends, state, and what there is to show of them. What makes steps: session_compile.c from a
// graph, image.c from a file.
#include "core/runtime/session.h"

#include <stdatomic.h>
#include <string.h>

#include "core/runtime/session_internal.h"

void session_add_stats(tc_session *s, const tc_compiled *x) {
  s->stats.segments++;
  s->stats.compile.kernels += x->stats.kernels;
  s->stats.compile.hits += x->stats.hits;
  s->stats.compile.ms += x->stats.ms;
  for (int32_t i = 0; i < TC_STAGE_COUNT; i++) s->stats.ms[i] += x->ms[i];
}

void session_free_steps(tc_session *s) {
  for (int32_t i = 0; i < s->n_steps; i++) {
    tc_exec_destroy(s->steps[i].compiled.exec);
    tc_delegate_destroy(s->steps[i].delegated);
    for (int32_t k = 0; k < 2; k++) tc_session_destroy(s->steps[i].regions[k]);
  }
  s->n_steps = 0;
  memset(&s->stats.compile, 0, sizeof s->stats.compile);
  s->stats.segments = s->stats.delegated = 0;
}

// ---- State ----
static bool is_state(const tc_graph_input *in) {
  return in->kind == TC_IN_PARAMETER || in->kind == TC_IN_BUFFER || in->kind == TC_IN_CONSTANT;
}

void tc_session_reset(tc_session *s) {
  for (int32_t i = 0; i < s->graph->inputs.count; i++) {
    const tc_graph_input *in = &s->graph->inputs.data[i];
    tc_tensor_unref(&s->state[i]);
    s->private_[i] = false;
    if (!is_state(in)) continue;
    tc_map_entry *e = tc_map_find(s->graph->module->bindings, in->target);
    const tc_binding *b = e ? e->value.ptr : NULL;
    if (b && b->tensor.storage) s->state[i] = tc_tensor_ref(&b->tensor);
  }
}

const tc_tensor *tc_session_state(const tc_session *s, tc_sv name) {
  for (int32_t i = 0; i < s->graph->inputs.count; i++) {
    const tc_graph_input *in = &s->graph->inputs.data[i];
    if (is_state(in) && tc_sv_eq(in->target, name)) return s->state[i].storage ? &s->state[i] : NULL;
  }
  return NULL;
}

// ---- Lifetimes of values ----

static void mark(tc_session *s, const tc_value *v, int32_t step) {
  if (v && s->last_step[v->id] < step) s->last_step[v->id] = step;
}

static void find_lifetimes(tc_session *s) {
  if (s->whole) return;
  s->last_step = TC_NEW_ARRAY(s->arena, int32_t, s->graph->n_values);
  for (int32_t i = 0; i < s->n_steps; i++) {
    const session_step *step = &s->steps[i];
    for (int32_t k = 0; k < step->n_inputs; k++) mark(s, step->inputs[k], i);
    for (int32_t k = 0; k < step->n_outputs; k++) mark(s, step->outputs[k], i);
    if (step->kind != STEP_CONTROL && step->kind != STEP_READ) continue;
    for (int32_t a = 0; a < step->node->n_args; a++) {
      const tc_arg *g = &step->node->args[a];
      mark(s, g->value, i);
      for (int32_t k = 0; g->kind == TC_AK_TENSORS && k < g->n; k++) mark(s, g->values[k], i);
    }
    for (int32_t k = 0; k < step->node->n_results; k++) mark(s, step->node->results[k], i);
  }
  for (int32_t i = 0; i < s->graph->outputs.count; i++) mark(s, s->graph->outputs.data[i].arg.value, s->n_steps);
}

// ---- Creation ----
typedef struct creation {
  tc_session *s;
  tc_status (*build)(tc_session *s, void *arg);
  void *arg;
  bool text_only;
} creation;

static tc_status create(void *arg) {
  creation *c = arg;
  tc_session *s = c->s;
  tc_graph *g = s->graph;
  s->state = TC_NEW_ARRAY(s->arena, tc_tensor, g->inputs.count);
  s->private_ = TC_NEW_ARRAY(s->arena, bool, g->inputs.count);
  TC_TRY(c->build(s, c->arg));
  if (c->text_only) return TC_OK;
  for (int32_t i = 0; i < g->outputs.count; i++) {
    int32_t kind = g->outputs.data[i].kind;
    s->mutates |= kind >= TC_OUT_BUFFER_MUTATION && kind <= TC_OUT_PARAMETER_MUTATION;
  }
  find_lifetimes(s);
  const tc_sym_ctx *syms = g->module->syms;
  for (int32_t i = 0; i < tc_sym_symbol_count(syms); i++) {
    int32_t origin = tc_sym_info_read(syms, tc_sym_symbol_at(g->module->syms, i))->origin;
    if (origin == TC_SYM_BACKED || origin == TC_SYM_UNBACKED) s->n_symbols = i + 1;
  }
  tc_session_reset(s);
  return TC_OK;
}

tc_status session_create(tc_context *c, tc_graph *g, tc_status (*build)(tc_session *s, void *arg), void *arg,
                         bool text_only, tc_session **out) {
  *out = NULL;
  tc_session *s = tc_alloc(c->allocator, sizeof *s);
  if (!s) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for a session");
  s->context = c;
  s->graph = g;
  s->name = g->name;
  s->arena = g->module->arena;
  pthread_mutex_init(&s->lock, NULL);
  creation args = {s, build, arg, text_only};
  tc_status status = tc_arena_guard(s->arena, create, &args);
  if (status != TC_OK) {
    tc_session_destroy(s);
    return status;
  }
  *out = s;
  return TC_OK;
}

const tc_plan *tc_session_plan(const tc_session *s) {
  return s->whole && s->steps->kind == STEP_EXEC ? s->steps->compiled.plan : NULL;
}

static void destroy_one(tc_session *s) {
  session_free_steps(s);
  for (int32_t i = 0; s->state && i < s->graph->inputs.count; i++) tc_tensor_unref(&s->state[i]);
  pthread_mutex_destroy(&s->lock);
  tc_free(s->context->allocator, s);
}

void tc_session_destroy(tc_session *s) {
  while (s) {
    tc_session *next = atomic_load_explicit(&s->next, memory_order_acquire);
    destroy_one(s);
    s = next;
  }
}

const tc_graph *tc_session_graph(const tc_session *s) { return s->graph; }

// ---- Showing ----
const tc_session_stats *tc_session_stats_of(const tc_session *s) { return &s->stats; }

const char *tc_session_debug_folder(const tc_session *s) { return s->debug_folder; }

int32_t tc_session_op_count(const tc_session *s) {
  int32_t n = 0, most = 0;
  for (; s; s = atomic_load_explicit(&((tc_session *)(uintptr_t)s)->next, memory_order_acquire), n = 0) {
    for (int32_t i = 0; i < s->n_steps; i++)
      if (s->steps[i].compiled.exec) n += tc_exec_op_count(s->steps[i].compiled.exec);
    most = n > most ? n : most;
  }
  return most;
}

const tc_compiled *tc_session_segment(const tc_session *s, int32_t i) {
  for (int32_t k = 0; k < s->n_steps; k++) {
    if (s->steps[k].kind == STEP_EXEC && i-- == 0) return &s->steps[k].compiled;
  }
  return NULL;
}

int32_t tc_session_segment_count(const tc_session *s) { return s->stats.segments; }

const char *tc_session_fallback(const tc_session *s, int32_t i) {
  return i < s->fallbacks.count ? s->fallbacks.data[i] : NULL;
}
