// Compiled functions: entries behind guards, captured when none holds.
//
// A dimension is first a constant. When a later call differs in it, the next entry has it as a symbol (dynamic=auto).
// Beyond the limit of entries, and where a function cannot be captured whole, calls run op by op and this is said once.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/api/internal.h"
#include "core/guards/guards.h"

enum { DEFAULT_LIMIT = 8, MAX_SYMBOLS = 256, FEW = 16 };

typedef struct function_entry {
  struct function_entry *next;
  int32_t id;
  tc_module *module;
  tc_guards *guards;
  tc_session *session;
  int32_t n_inputs; // of the graph: the function's that are there, then captured ones
  int32_t n_graph_outputs;
  const int32_t *outputs; // of the function: their numbers among the graph's
  int32_t n_captured;
  tc_tensor **captured; // referenced
} function_entry;

typedef struct seen_dims { // of the first call, to see what changes
  bool seen;
  int32_t rank;
  int64_t sizes[TC_MAX_RANK];
  bool dynamic[TC_MAX_RANK];
} seen_dims;

struct tc_function {
  tc_context *context;
  tc_arena *arena;
  tc_function_body body;
  void *self;
  tc_sv name;
  int32_t id, n_inputs, n_outputs, dynamic, limit;
  tc_guard_input *how; // names and marks
  seen_dims *seen;
  pthread_mutex_t lock;    // of compiling
  function_entry *entries; // published with release order, newest first
  int32_t n_entries;
  bool given_up, said; // atomic: calls run op by op
  int64_t calls, compiles;
};

// ---- creation ----
typedef struct creation {
  tc_function *f;
  const tc_compile_options *o;
} creation;

static tc_status fill(void *arg) {
  creation *c = arg;
  tc_function *f = c->f;
  const tc_compile_options *o = c->o;
  f->name = tc_sv_copy(f->arena, tc_sv_of(o->name ? o->name : "function"));
  f->how = TC_NEW_ARRAY(f->arena, tc_guard_input, o->n_inputs + 1);
  f->seen = TC_NEW_ARRAY(f->arena, seen_dims, o->n_inputs + 1);
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

int32_t tc_compile(tc_context *c, tc_function_body body, void *self, const tc_compile_options *o, tc_function **out) {
  if (!body || !o || o->struct_size != sizeof *o || o->n_inputs < 0 || o->n_outputs < 0 ||
      o->dynamic < TC_DYNAMIC_AUTO || o->dynamic > TC_DYNAMIC_NEVER)
    return api_fail_text(TC_STATUS_INVALID_ARGUMENT, "tc_compile: the options are not those of this version");
  tc_function *f = tc_alloc(c->allocator, sizeof *f);
  if (!f) return api_fail(tc_error_out_of_memory());
  *f = (tc_function){.context = c,
                     .body = body,
                     .self = self,
                     .n_inputs = o->n_inputs,
                     .n_outputs = o->n_outputs,
                     .dynamic = o->dynamic,
                     .limit = o->limit > 0 ? o->limit : DEFAULT_LIMIT};
  pthread_mutex_init(&f->lock, NULL);
  creation x = {f, o};
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

static void entry_destroy(tc_function *f, function_entry *x) {
  if (!x) return;
  tc_session_destroy(x->session);
  for (int32_t i = 0; i < x->n_captured; i++) tc_release(x->captured[i]);
  if (x->module) tc_module_destroy(x->module);
  tc_free(f->context->allocator, x);
}

void tc_reset(tc_function *f) {
  for (function_entry *x = f->entries, *next; x; x = next) {
    next = x->next;
    entry_destroy(f, x);
  }
  f->entries = NULL;
  f->n_entries = 0;
  f->given_up = f->said = false;
  f->calls = f->compiles = 0;
  for (int32_t i = 0; f->seen && i < f->n_inputs; i++) f->seen[i] = (seen_dims){0};
}

void tc_function_destroy(tc_function *f) {
  if (!f) return;
  tc_reset(f);
  pthread_mutex_destroy(&f->lock);
  tc_arena_destroy(f->arena);
  tc_free(f->context->allocator, f);
}

// ---- capturing ----
typedef struct capture {
  tc_function *f;
  const tc_tensor *inputs;
  function_entry *x;
  api_trace trace;
  tc_tensor **given, **results; // handles that the body gets and gives
} capture;

// Which sizes are symbols: marked ones, and those that have changed since the first call.
static void choose_dims(tc_function *f, const tc_tensor *inputs, tc_guard_input *how) {
  for (int32_t i = 0; i < f->n_inputs; i++) {
    const tc_tensor *t = &inputs[i];
    seen_dims *s = &f->seen[i];
    how[i] = f->how[i];
    if (!t->storage) continue;
    if (!s->seen || s->rank != t->rank) {
      *s = (seen_dims){.seen = true, .rank = t->rank};
      memcpy(s->sizes, t->sizes, sizeof s->sizes);
    }
    for (int32_t d = 0; d < t->rank; d++) {
      s->dynamic[d] |= s->sizes[d] != t->sizes[d];
      if (f->dynamic == TC_DYNAMIC_AUTO && s->dynamic[d]) how[i].marks[d].dynamic = true;
    }
  }
}

static tc_status begin(void *arg) {
  capture *c = arg;
  tc_function *f = c->f;
  tc_module *m = c->x->module;
  tc_guard_input *how = TC_NEW_ARRAY(m->arena, tc_guard_input, f->n_inputs + 1);
  tc_tensor_type *types = TC_NEW_ARRAY(m->arena, tc_tensor_type, f->n_inputs + 1);
  choose_dims(f, c->inputs, how);
  c->x->guards = tc_guards_create(m->syms, f->n_inputs, c->inputs, how, types);
  c->trace.graph = tc_graph_create(m, TC_SV("forward"));
  c->given = TC_NEW_ARRAY(m->arena, tc_tensor *, f->n_inputs + 1);
  c->results = TC_NEW_ARRAY(m->arena, tc_tensor *, f->n_outputs + 1);
  for (int32_t i = 0; i < f->n_inputs; i++) {
    if (!c->inputs[i].storage) continue;
    if (c->inputs[i].neg) return tc_error(TC_STATUS_UNIMPLEMENTED, "an input with the negative bit");
    tc_sv name = how[i].name.size ? how[i].name : tc_sv_printf(m->arena, "in_%d", i);
    tc_value *v = tc_graph_add_input(c->trace.graph, TC_IN_USER, name, name, &types[i]);
    if (!(c->given[i] = api_wrap_traced(&c->trace, v))) return tc_error_out_of_memory();
  }
  return TC_OK;
}

static tc_status finish(void *arg) {
  capture *c = arg;
  tc_function *f = c->f;
  function_entry *x = c->x;
  tc_graph *g = c->trace.graph;
  tc_arena *arena = x->module->arena;
  int32_t *outputs = TC_NEW_ARRAY(arena, int32_t, f->n_outputs + 1);
  for (int32_t i = 0; i < f->n_outputs; i++) {
    tc_value *v;
    if (!c->results[i]) return tc_error(TC_STATUS_INVALID_ARGUMENT, "the function sets no output %d", i);
    TC_TRY(api_trace_value(&c->trace, c->results[i], &v));
    tc_graph_add_output(g, TC_OUT_USER, tc_arg_tensor(v), tc_sv_printf(arena, "%d", i));
  }
  tc_graph_sweep(g);
  x->n_inputs = g->inputs.count;
  TC_TRY(tc_session_create(f->context, g, TC_STAGE_EXEC, &x->session));
  x->n_graph_outputs = g->outputs.count;
  for (int32_t i = 0, next = 0; i < f->n_outputs; i++) {
    while (next < g->outputs.count && g->outputs.data[next].kind != TC_OUT_USER) next++;
    outputs[i] = next++;
  }
  x->outputs = outputs;
  tc_guards_seal(x->guards, x->module);
  return TC_OK;
}

// Runs the body on recording tensors. CANCELLED: it cannot be captured whole; c->trace.broken says why.
static tc_status run_body(capture *c) {
  tc_function *f = c->f;
  api_trace *before = api_set_current_trace(&c->trace);
  int32_t code = f->body(f->self, c->given, f->n_inputs, c->results, f->n_outputs);
  api_set_current_trace(before);
  if (c->trace.broken.size) {
    tc_clear_error();
    return tc_error(TC_STATUS_CANCELLED, TC_SV_FMT, TC_SV_ARG(c->trace.broken));
  }
  if (tc_last_code() != TC_STATUS_OK) {
    tc_status s = tc_error(tc_last_code(), "%s", tc_last_error());
    tc_clear_error();
    return s;
  }
  if (code != TC_STATUS_OK) return tc_error(code, "the function reports a failure");
  return TC_OK;
}

static tc_status capture_entry(tc_function *f, const tc_tensor *inputs, function_entry **out) {
  tc_context *context = f->context;
  function_entry *x = tc_alloc(context->allocator, sizeof *x);
  if (!x) return tc_error_out_of_memory();
  capture c = {.f = f, .inputs = inputs, .x = x};
  tc_scope *scope = tc_scope_open();
  tc_status s = scope ? tc_module_create(context->allocator, context->ops, &x->module) : tc_error_out_of_memory();
  if (s == TC_OK) {
    c.trace.context = context, c.trace.module = x->module;
    s = tc_arena_guard(x->module->arena, begin, &c);
    if (s == TC_OK) s = run_body(&c);
    if (s == TC_OK) s = tc_arena_guard(x->module->arena, finish, &c);
    x->captured = c.trace.captured.data, x->n_captured = c.trace.captured.count;
  }
  tc_scope_close(scope);
  if (s != TC_OK) {
    entry_destroy(f, x);
    return tc_status_note(s, "while capturing '" TC_SV_FMT "'", TC_SV_ARG(f->name));
  }
  *out = x;
  return TC_OK;
}

// ---- logs ----
typedef struct log_text {
  tc_function *f;
  const function_entry *x;
  const tc_guard_miss *miss;
  const tc_tensor *inputs;
} log_text;

static tc_status log_guards(void *arg) {
  log_text *l = arg;
  tc_arena *arena = l->x->module->arena;
  tc_sb sb = tc_sb_make(arena);
  tc_guards_print(&sb, l->x->guards);
  tc_log(&l->f->context->logger, TC_LOG_GUARDS, TC_SV_FMT " [%d/%d]\n%s", TC_SV_ARG(l->f->name), l->f->id, l->x->id,
         sb.text);
  return TC_OK;
}

static tc_status log_miss(void *arg) {
  log_text *l = arg;
  tc_sb sb = tc_sb_make(l->x->module->arena);
  tc_guard_miss_print(&sb, l->x->guards, l->miss);
  tc_log(&l->f->context->logger, TC_LOG_RECOMPILES, "recompiling " TC_SV_FMT " [%d/%d]: %s", TC_SV_ARG(l->f->name),
         l->f->id, l->f->n_entries, sb.text);
  return TC_OK;
}

// What made each entry fail; the newest first. Under the lock, which keeps the arenas to one thread.
static void log_misses(tc_function *f, const tc_tensor *inputs) {
  int64_t symbols[MAX_SYMBOLS];
  if (!tc_log_on(&f->context->logger, TC_LOG_RECOMPILES)) return;
  for (const function_entry *x = f->entries; x; x = x->next) {
    tc_guard_miss m = tc_guards_check(x->guards, inputs, symbols);
    log_text l = {f, x, &m, inputs};
    tc_status_free(tc_arena_guard(x->module->arena, log_miss, &l));
  }
}

static void give_up(tc_function *f, const char *why) {
  if (!f->said) {
    tc_log(&f->context->logger, TC_LOG_GRAPH_BREAKS, TC_SV_FMT " [%d] runs op by op: %s", TC_SV_ARG(f->name), f->id,
           why);
    tc_log(&f->context->logger, TC_LOG_PERF_HINTS, TC_SV_FMT " [%d] runs op by op: %s", TC_SV_ARG(f->name), f->id, why);
  }
  f->said = true;
  __atomic_store_n(&f->given_up, true, __ATOMIC_RELEASE);
}

// ---- calling ----
static const function_entry *find(const tc_function *f, const tc_tensor *inputs) {
  int64_t symbols[MAX_SYMBOLS];
  for (const function_entry *x = __atomic_load_n(&f->entries, __ATOMIC_ACQUIRE); x; x = x->next) {
    if (tc_guards_check(x->guards, inputs, symbols).kind == TC_GUARD_HOLDS) return x;
  }
  return NULL;
}

static tc_status add_entry(tc_function *f, const tc_tensor *inputs, const function_entry **out) {
  function_entry *x = NULL;
  log_misses(f, inputs);
  if (f->n_entries >= f->limit) {
    give_up(f, "the limit of recompiles is reached");
    return TC_OK;
  }
  tc_status s = capture_entry(f, inputs, &x);
  if (tc_status_code(s) == TC_STATUS_CANCELLED && !tc_config_bool(f->context->config, TC_OPT_ID_FULLGRAPH)) {
    give_up(f, tc_status_text(s));
    tc_status_free(s);
    return TC_OK;
  }
  TC_TRY(s);
  if (tc_guards_symbol_count(x->guards) > MAX_SYMBOLS) {
    entry_destroy(f, x);
    give_up(f, "it has too many symbolic sizes");
    return TC_OK;
  }
  x->id = f->n_entries;
  log_text l = {.f = f, .x = x};
  if (tc_log_on(&f->context->logger, TC_LOG_GUARDS)) tc_status_free(tc_arena_guard(x->module->arena, log_guards, &l));
  x->next = f->entries;
  f->n_entries++;
  f->compiles++;
  __atomic_store_n(&f->entries, x, __ATOMIC_RELEASE);
  *out = x;
  return TC_OK;
}

// The entry for these inputs; NULL: the call runs op by op.
static tc_status entry_for(tc_function *f, const tc_tensor *inputs, const function_entry **out) {
  *out = find(f, inputs);
  if (*out || __atomic_load_n(&f->given_up, __ATOMIC_ACQUIRE)) return TC_OK;
  pthread_mutex_lock(&f->lock);
  *out = find(f, inputs); // another thread may have been first
  tc_status s = *out || f->given_up ? TC_OK : add_entry(f, inputs, out);
  pthread_mutex_unlock(&f->lock);
  return s;
}

static tc_status run_entry(const tc_function *f, const function_entry *x, const tc_tensor *inputs,
                           tc_tensor **outputs) {
  tc_tensor few[FEW], *all = few;
  int32_t need = x->n_inputs + x->n_graph_outputs, k = 0;
  if (need > FEW && !(all = tc_alloc(f->context->allocator, (size_t)need * sizeof *all)))
    return tc_error_out_of_memory();
  for (int32_t i = 0; i < f->n_inputs; i++) {
    if (inputs[i].storage) all[k++] = inputs[i];
  }
  for (int32_t i = 0; i < x->n_captured; i++) all[k++] = *x->captured[i];
  tc_tensor *made = all + x->n_inputs;
  tc_session_run_options o = {.write_back = true};
  if (x->module->random_nodes) o.seed = tc_context_next_seed(f->context);
  tc_status s = tc_session_run(x->session, all, made, &o);
  for (int32_t i = 0; i < f->n_outputs && s == TC_OK; i++) {
    outputs[i] = api_wrap(f->context, tc_tensor_ref(&made[x->outputs[i]]));
    if (!outputs[i]) s = tc_error_out_of_memory();
  }
  for (int32_t i = 0; i < x->n_graph_outputs && (s == TC_OK || made[i].storage); i++) tc_tensor_unref(&made[i]);
  if (all != few) tc_free(f->context->allocator, all);
  return s;
}

// The body on the tensors themselves.
static int32_t run_eagerly(const tc_function *f, tc_tensor *const *inputs, tc_tensor **outputs) {
  tc_scope *scope = tc_scope_open();
  if (!scope) return tc_last_code();
  int32_t code = f->body(f->self, inputs, f->n_inputs, outputs, f->n_outputs);
  if (code == TC_STATUS_OK) code = tc_last_code();
  for (int32_t i = 0; i < f->n_outputs; i++) {
    if (code == TC_STATUS_OK && !outputs[i])
      code = api_fail_text(TC_STATUS_INVALID_ARGUMENT, "the function sets no output %d", i);
    if (code != TC_STATUS_OK) outputs[i] = NULL;
    else tc_retain(outputs[i]);
  }
  tc_scope_close(scope);
  for (int32_t i = 0; i < f->n_outputs; i++)
    if (outputs[i] && !api_adopt(outputs[i])) outputs[i] = NULL, code = tc_last_code();
  return code;
}

int32_t tc_call(tc_function *f, tc_tensor *const *inputs, tc_tensor **outputs) {
  tc_tensor few[FEW], *flat = few;
  if (tc_last_code() != TC_STATUS_OK) return tc_last_code();
  if (f->n_inputs > FEW && !(flat = tc_alloc(f->context->allocator, (size_t)f->n_inputs * sizeof *flat)))
    return api_fail(tc_error_out_of_memory());
  bool traced = false;
  for (int32_t i = 0; i < f->n_inputs; i++) {
    if (inputs[i]) flat[i] = *inputs[i];
    else flat[i].storage = NULL;
    traced |= inputs[i] && api_of(inputs[i])->trace;
  }
  for (int32_t i = 0; i < f->n_outputs; i++) outputs[i] = NULL;
  __atomic_fetch_add(&f->calls, 1, __ATOMIC_RELAXED);
  const function_entry *x = NULL;
  int32_t code = traced ? TC_STATUS_OK : api_fail(entry_for(f, flat, &x));
  if (code == TC_STATUS_OK) code = x ? api_fail(run_entry(f, x, flat, outputs)) : run_eagerly(f, inputs, outputs);
  if (flat != few) tc_free(f->context->allocator, flat);
  return code;
}

// ---- telling ----
tc_function_stats tc_function_stats_of(const tc_function *f) {
  tc_function_stats s = {.calls = f->calls, .compiles = f->compiles, .entries = f->n_entries};
  s.misses = f->compiles > 1 ? f->compiles - 1 : 0;
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
    tc_guards_print(&sb, x->guards);
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
