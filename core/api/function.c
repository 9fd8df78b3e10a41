// Compiled functions: entries behind guards, captured when none holds.
//
// A dimension is first a constant. When a later call differs in it, the next entry has it as a symbol (dynamic=auto).
// A function that reads values is followed in every call (trace.h).
#include "core/api/function.h"

#include <stdlib.h>
#include <string.h>

enum { SEGMENTS = 16 /* as many as entries */ };

typedef struct creation {
  tc_function *f;
  const tc_compile_options *o;
  const int32_t *wrt;
} creation;

static tc_status fill(void *arg) {
  creation *c = arg;
  tc_function *f = c->f;
  const tc_compile_options *o = c->o;
  f->name = tc_sv_copy(f->arena, tc_sv_of(o->name ? o->name : "function"));
  f->wrt = tc_arena_copy(f->arena, c->wrt, sizeof *c->wrt * (size_t)f->n_wrt);
  f->how = TC_NEW_ARRAY(f->arena, tc_guard_input, o->n_inputs + 1);
  f->seen = TC_NEW_ARRAY(f->arena, function_dims, o->n_inputs + 1);
  for (int32_t i = 0; i < o->n_inputs; i++) {
    if (o->input_names && o->input_names[i]) f->how[i].name = tc_sv_copy(f->arena, tc_sv_of(o->input_names[i]));
    for (int32_t d = 0; d < TC_MAX_RANK; d++) f->how[i].marks[d].dynamic = o->dynamic == TC_DYNAMIC_ALWAYS;
  }
  for (int32_t i = 0; i < o->n_marks; i++) {
    const tc_dim_mark *m = &o->marks[i];
    if (m->input < 0 || m->input >= o->n_inputs || m->dim < 0 || m->dim >= TC_MAX_RANK || m->lo < 0 || m->hi < 0 ||
        m->divisor < 0)
      return tc_error(TC_STATUS_INVALID_ARGUMENT, "mark %d: there is no dimension %d of input %d, or its range is none",
                      i, m->dim, m->input);
    f->how[m->input].marks[m->dim] = (tc_guard_mark){true, m->lo, m->hi, m->divisor};
  }
  return TC_OK;
}

static int32_t create(tc_context *c, tc_function_body body, void *self, const tc_compile_options *o, int32_t n_wrt,
                      const int32_t *wrt, tc_function **out) {
  if (!body || !o || o->struct_size != sizeof *o || o->n_inputs < 0 || o->n_outputs < 0 ||
      o->dynamic < TC_DYNAMIC_AUTO || o->dynamic > TC_DYNAMIC_NEVER)
    return api_fail_text(TC_STATUS_INVALID_ARGUMENT, "tc_compile: the options are not those of this version");
  tc_function *f = tc_alloc(c->allocator, sizeof *f);
  if (!f) return api_fail(tc_error_out_of_memory());
  *f = (tc_function){.context = c,
                     .body = body,
                     .self = self,
                     .n_inputs = o->n_inputs,
                     .n_values = o->n_outputs,
                     .n_wrt = n_wrt,
                     .gradients = n_wrt > 0,
                     .n_outputs = o->n_outputs + n_wrt,
                     .dynamic = o->dynamic,
                     .limit = o->limit > 0 ? o->limit : (int32_t)tc_config_int(c->config, TC_OPT_ID_GUARDS_MAX)};
  pthread_mutex_init(&f->lock, NULL);
  creation x = {f, o, wrt};
  tc_status s = tc_arena_create(c->allocator, &f->arena);
  if (s == TC_OK) s = tc_arena_guard(f->arena, fill, &x);
  if (s != TC_OK) {
    tc_function_destroy(f);
    return api_fail(s);
  }
  f->id = __atomic_fetch_add(&c->n_functions, 1, __ATOMIC_RELAXED);
  *out = f;
  return TC_STATUS_OK;
}

int32_t tc_compile(tc_context *c, tc_function_body body, void *self, const tc_compile_options *o, tc_function **out) {
  return create(c, body, self, o, 0, NULL, out);
}

int32_t tc_value_and_grad(tc_context *c, tc_function_body body, void *self, const tc_compile_options *o, int32_t n_wrt,
                          const int32_t *wrt, tc_function **out) {
  if (!o || n_wrt < 1 || o->n_outputs < 1)
    return api_fail_text(TC_STATUS_INVALID_ARGUMENT, "tc_value_and_grad: a loss and an input are needed");
  for (int32_t i = 0; i < n_wrt; i++)
    if (wrt[i] < 0 || wrt[i] >= o->n_inputs)
      return api_fail_text(TC_STATUS_INVALID_ARGUMENT, "tc_value_and_grad: there is no input %d", wrt[i]);
  return create(c, body, self, o, n_wrt, wrt, out);
}

void tc_reset(tc_function *f) {
  for (function_entry *x = f->entries, *next; x; x = next) {
    next = x->next;
    function_entry_destroy(f, x);
  }
  for (api_line *x = f->lines, *next; x; x = next) {
    next = x->next;
    line_destroy(f->context, x);
  }
  f->entries = NULL, f->lines = NULL;
  f->n_entries = f->n_lines = 0;
  f->given_up = f->said = f->follows = false;
  f->gradients = f->n_wrt > 0;
  memset((void *)f->refuse, 0, sizeof f->refuse);
  f->calls = f->compiles = 0;
  for (int32_t i = 0; f->seen && i < f->n_inputs; i++) f->seen[i] = (function_dims){0};
}

void tc_function_destroy(tc_function *f) {
  if (!f) return;
  tc_reset(f);
  pthread_mutex_destroy(&f->lock);
  tc_arena_destroy(f->arena);
  tc_free(f->context->allocator, f);
}

// ---- what traces ask ----
tc_sv trace_function_name(const api_trace *t) { return t->function->name; }
int32_t trace_function_id(const api_trace *t) { return t->function->id; }
api_line *trace_function_lines(const api_trace *t) { return __atomic_load_n(&t->function->lines, __ATOMIC_ACQUIRE); }
bool trace_function_is_auto(const api_trace *t) { return t->function->dynamic == TC_DYNAMIC_AUTO; }
bool trace_function_is_always(const api_trace *t) { return t->function->dynamic == TC_DYNAMIC_ALWAYS; }
bool trace_function_is_never(const api_trace *t) { return t->function->dynamic == TC_DYNAMIC_NEVER; }

bool trace_function_refuses(const api_trace *t, const tc_op *op) {
  const tc_op *const *refuse = t->function->refuse;
  for (int32_t i = 0; i < FUNCTION_REFUSALS; i++) {
    const tc_op *x = __atomic_load_n(&refuse[i], __ATOMIC_RELAXED);
    if (x == op || !x) return x == op;
  }
  return false;
}

void trace_function_note_refusal(const api_trace *t, const tc_op *op) {
  for (int32_t i = 0; i < FUNCTION_REFUSALS; i++) {
    const tc_op *none = NULL;
    if (__atomic_compare_exchange_n(&t->function->refuse[i], &none, op, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED) ||
        none == op)
      return;
  }
}

bool trace_function_has_room(api_trace *t) {
  tc_function *f = t->function;
  int32_t n = __atomic_load_n(&f->n_lines, __ATOMIC_RELAXED);
  for (const api_line *x = t->fresh; x; x = x->next) n++;
  if (n < f->limit * SEGMENTS) return true;
  function_say_once(f, "the limit of segments is reached, and others run");
  return false;
}

int32_t tc_graph_break_at(const char *here, const char *reason) {
  api_trace *t = api_current_trace();
  api_note_effect();
  if (!t) return TC_STATUS_OK;
  int32_t code = api_trace_break(t, here, reason);
  return code == TC_STATUS_OK ? api_fail(trace_flush(t)) : code;
}

// ---- telling ----
tc_function_stats tc_function_stats_of(const tc_function *f) {
  tc_function_stats s = {.calls = f->calls, .compiles = f->compiles, .entries = f->n_entries, .segments = f->n_lines};
  s.misses = f->n_entries > 1 ? f->n_entries - 1 : 0;
  return s;
}

typedef struct guard_text {
  const tc_function *f;
  tc_arena *arena;
  char *text;
} guard_text;

static tc_status print_guards(void *arg) {
  guard_text *t = arg;
  tc_sb sb = tc_sb_make(t->arena);
  for (const function_entry *x = t->f->entries; x; x = x->next) {
    tc_sb_printf(&sb, TC_SV_FMT " [%d/%d]\n", TC_SV_ARG(t->f->name), t->f->id, x->id);
    function_print_guards(&sb, t->f, x->guards);
  }
  for (const api_line *x = t->f->lines; x; x = x->next) {
    tc_sb_printf(&sb, TC_SV_FMT " [%d/s%d]\n", TC_SV_ARG(t->f->name), t->f->id, x->id);
    function_print_guards(&sb, t->f, x->guards);
  }
  t->text = strdup(sb.text ? sb.text : "");
  return TC_OK;
}

char *tc_function_guards(const tc_function *f) {
  guard_text t = {.f = f};
  tc_status s = tc_arena_create(f->context->allocator, &t.arena);
  if (s == TC_OK) s = tc_arena_guard(t.arena, print_guards, &t);
  tc_arena_destroy(t.arena);
  api_fail(s);
  return t.text;
}

void tc_text_free(char *text) { free(text); }
