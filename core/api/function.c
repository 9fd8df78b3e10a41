// Compiled functions: entries behind guards, captured when none holds.
//
// A dimension is first a constant. When a later call differs in it, the next entry has it as a symbol (dynamic=auto).
// Beyond the limit of entries calls run op by op, which is said once. A function that reads values is followed in every
// call (trace.h).
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/api/tape.h"
#include "core/api/trace.h"
#include "core/autograd/autograd.h"
#include "core/base/fs.h"

enum { SEGMENTS = 16 /* as many as entries */, MAX_SYMBOLS = 256, FEW = 32 };

// A copy without a reference, which is as good as long as `t` is: of the dimensions only those that there are, since
// most of the struct is room for more.
static void lend(const tc_tensor *t, tc_tensor *out) {
  out->storage = t->storage, out->dtype = t->dtype, out->rank = t->rank;
  out->offset = t->offset, out->conj = t->conj, out->neg = t->neg;
  for (int32_t d = 0; d < t->rank; d++) out->sizes[d] = t->sizes[d], out->strides[d] = t->strides[d];
}

typedef struct function_entry {
  struct function_entry *next;
  int32_t id;
  tc_module *module;
  tc_guards *guards;
  tc_session *session;
  int32_t n_inputs; // of the graph: the function's that are there, then captured ones
  int32_t n_graph_outputs;
  const int32_t *outputs; // of the function: their numbers among the graph's
  const bool *apart;      // of the function's outputs: shares memory with no input and no other output
  const int32_t *through; // there is nothing to run: by output, the graph's input that it is; else NULL
  uint64_t n_random;      // random nodes
  int32_t n_captured;
  tc_tensor **captured; // referenced
  bool writes;          // without a session: what is written is seen through another input, calls run op by op
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
  int32_t n_values, n_wrt; // outputs: the body's, then the gradients of the first one with respect to inputs wrt
  const int32_t *wrt;      // n_wrt 0: none, an ordinary function
  tc_guard_input *how;     // names and marks
  seen_dims *seen;
  pthread_mutex_t lock;    // of compiling
  function_entry *entries; // published with release order, newest first
  int32_t n_entries;
  bool follows;            // atomic: it reads values, and is run in each call
  api_line *lines;         // segments of it; published with release order, newest first
  int32_t n_lines;         // atomic
  bool given_up, said;     // atomic: calls run op by op; `said` also of segments
  int64_t calls, compiles; // atomic
};

// ---- creation ----
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

static void entry_destroy(tc_function *f, function_entry *x) {
  if (!x) return;
  tc_session_destroy(x->session);
  for (int32_t i = 0; i < x->n_captured; i++) tc_release(x->captured[i]);
  tc_free(f->context->allocator, (void *)x->captured);
  if (x->module) tc_module_destroy(x->module);
  tc_free(f->context->allocator, x);
}

void tc_reset(tc_function *f) {
  for (function_entry *x = f->entries, *next; x; x = next) {
    next = x->next;
    entry_destroy(f, x);
  }
  for (api_line *x = f->lines, *next; x; x = next) {
    next = x->next;
    line_destroy(f->context, x);
  }
  f->entries = NULL, f->lines = NULL;
  f->n_entries = f->n_lines = 0;
  f->given_up = f->said = f->follows = false;
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

// ---- logs ----
typedef struct log_text {
  tc_function *f;
  const function_entry *x;
  const tc_guard_miss *miss;
  const tc_tensor *inputs;
} log_text;

typedef struct line_text {
  const tc_function *f;
  const api_line *x;
} line_text;

// Those of an entry or a segment, then what holds as long as there is the function.
static void print_guards_of(tc_sb *sb, const tc_function *f, const tc_guards *g) {
  tc_guards_print(sb, g);
  for (int32_t i = 0; i < f->n_wrt; i++)
    tc_sb_printf(sb, "%s%d", i ? ", " : "gradient with respect to inputs ", f->wrt[i]);
  tc_sb_putz(sb, f->n_wrt ? "  # from tc_value_and_grad\n" : "no gradient  # from tc_compile\n");
  api_print_environment(sb, f->context);
}

static tc_status log_guards(void *arg) {
  log_text *l = arg;
  tc_arena *arena = l->x->module->arena;
  tc_sb sb = tc_sb_make(arena);
  print_guards_of(&sb, l->f, l->x->guards);
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

static void say_once(tc_function *f, const char *why) {
  if (__atomic_exchange_n(&f->said, true, __ATOMIC_RELAXED)) return;
  static const int32_t artifacts[] = {TC_LOG_GRAPH_BREAKS, TC_LOG_PERF_HINTS};
  for (int32_t i = 0; i < 2; i++)
    tc_log(&f->context->logger, artifacts[i], TC_SV_FMT " [%d]: %s op by op", TC_SV_ARG(f->name), f->id, why);
}

// A new segment: what was captured, by op, and what its guards are.
static tc_status log_line_guarded(void *arg) {
  const line_text *l = arg;
  const tc_logger *lg = &l->f->context->logger;
  tc_sb sb = tc_sb_make(l->x->module->arena);
  for (int32_t i = 0, word = 0; i < l->x->records.count; i++) {
    const tc_op *op = (const tc_op *)(uintptr_t)l->x->words.data[word];
    tc_sb_printf(&sb, "%s" TC_SV_FMT, i ? ", " : "", TC_SV_ARG(op->full_name));
    word = l->x->records.data[i].words;
  }
  const char *how = l->x->session ? "compiled" : l->x->idle ? "not needed" : "op by op";
  tc_log(lg, TC_LOG_GRAPH_BREAKS, TC_SV_FMT " [%d] segment s%d, %s: %s", TC_SV_ARG(l->f->name), l->f->id, l->x->id, how,
         sb.text ? sb.text : "");
  if (!tc_log_on(lg, TC_LOG_GUARDS)) return TC_OK;
  tc_sb guards = tc_sb_make(l->x->module->arena);
  print_guards_of(&guards, l->f, l->x->guards);
  tc_log(lg, TC_LOG_GUARDS, TC_SV_FMT " [%d/s%d]\n%s", TC_SV_ARG(l->f->name), l->f->id, l->x->id,
         guards.text ? guards.text : "");
  return TC_OK;
}

static void log_line(const tc_function *f, const api_line *x) {
  const tc_logger *lg = &f->context->logger;
  line_text l = {f, x};
  if (tc_log_on(lg, TC_LOG_GRAPH_BREAKS) || tc_log_on(lg, TC_LOG_GUARDS))
    tc_status_free(tc_arena_guard(x->module->arena, log_line_guarded, &l));
}

// ---- what traces ask ----
tc_sv trace_function_name(const api_trace *t) { return t->function->name; }
int32_t trace_function_id(const api_trace *t) { return t->function->id; }
api_line *trace_function_lines(const api_trace *t) { return __atomic_load_n(&t->function->lines, __ATOMIC_ACQUIRE); }
bool trace_function_is_auto(const api_trace *t) { return t->function->dynamic == TC_DYNAMIC_AUTO; }
bool trace_function_is_always(const api_trace *t) { return t->function->dynamic == TC_DYNAMIC_ALWAYS; }

bool trace_function_has_room(api_trace *t) {
  tc_function *f = t->function;
  int32_t n = __atomic_load_n(&f->n_lines, __ATOMIC_RELAXED);
  for (const api_line *x = t->fresh; x; x = x->next) n++;
  if (n < f->limit * SEGMENTS) return true;
  say_once(f, "the limit of segments is reached, and others run");
  return false;
}

// ---- capturing ----
typedef struct function_call {
  tc_function *f;
  tc_tensor *const *inputs;
  const tc_tensor *values; // of the inputs
  tc_tensor **outputs;
  bool done; // the outputs are there
  bool ran;  // ops of it have run, or what it does between two segments
} function_call;

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

typedef struct finishing {
  api_trace *t;
  tc_tensor *const *results;
  const tc_tensor *inputs; // of the function
  function_entry *x;
} finishing;

static tc_value *value_of(const api_trace *t, const tc_tensor *x) {
  const api_tensor *a = api_of(x);
  if (a->trace == t) return t->line->slots.data[a->slot].value;
  for (int32_t i = 0; i < t->line->inputs.count; i++)
    if (t->handles.data[i] == x) return t->line->inputs.data[i];
  return NULL;
}

// The result whose memory an output is in; -1: an input's.
static int32_t root_of(const api_trace *t, const tc_tensor *x) {
  return api_of(x)->trace == t ? line_root(t->line, api_of(x)->slot) : -1;
}

// The number among all outputs of the nth user output; the passes may put others in front.
static int32_t nth_user_output(const tc_graph *g, int32_t n) {
  for (int32_t i = 0; i < g->outputs.count; i++)
    if (g->outputs.data[i].kind == TC_OUT_USER && n-- == 0) return i;
  return -1;
}

static int32_t user_outputs_before(const tc_graph *g, int32_t output) {
  int32_t n = 0;
  for (int32_t i = 0; i < output; i++) n += g->outputs.data[i].kind == TC_OUT_USER;
  return n;
}

// Puts the joint graph in the place of what was recorded. order[i]: which user output is the gradient with respect to
// wrt[i].
static tc_status add_gradients(const finishing *c, tc_graph **g, int32_t *order) {
  const tc_function *f = c->t->function;
  tc_arena *arena = c->x->module->arena;
  bool *wanted = TC_NEW_ARRAY(arena, bool, (*g)->inputs.count + 1);
  int32_t *at = TC_NEW_ARRAY(arena, int32_t, f->n_inputs + 1), k = 0;
  tc_joint joint;
  for (int32_t i = 0; i < f->n_inputs; i++) at[i] = c->inputs[i].storage ? k++ : -1;
  for (int32_t i = 0; i < f->n_wrt; i++) {
    if (at[f->wrt[i]] < 0)
      return tc_error(TC_STATUS_INVALID_ARGUMENT, "the gradient of input %d is wanted, which is absent", f->wrt[i]);
    wanted[at[f->wrt[i]]] = true;
  }
  TC_TRY(tc_autograd_loss(*g, wanted, &joint));
  *g = joint.graph;
  for (int32_t i = 0; i < f->n_wrt; i++) order[i] = user_outputs_before(*g, joint.gradients[at[f->wrt[i]]]);
  return TC_OK;
}

// Where all outputs are inputs, and nothing is to be done besides.
static const int32_t *find_through(const tc_function *f, const function_entry *x) {
  const tc_plan *plan = x->session ? tc_session_plan(x->session) : NULL;
  if (!plan || plan->ops.count || x->n_random) return NULL;
  const tc_graph *g = plan->graph;
  int32_t *through = TC_NEW_ARRAY(x->module->arena, int32_t, f->n_outputs + 1);
  for (int32_t i = 0; i < g->outputs.count; i++)
    if (g->outputs.data[i].kind != TC_OUT_USER) return NULL;
  for (int32_t i = 0; i < f->n_outputs; i++) {
    const tc_arg *a = &g->outputs.data[x->outputs[i]].arg;
    int32_t k = 0;
    while (k < g->inputs.count && (a->kind != TC_AK_TENSOR || g->inputs.data[k].value != a->value)) k++;
    if (k == g->inputs.count) return NULL;
    through[i] = k;
  }
  return through;
}

// Into the folder of the compilation, if there is one, in place of what the graph alone asks for.
static tc_status write_guards(const tc_function *f, const function_entry *x) {
  const char *folder = x->session ? tc_session_debug_folder(x->session) : NULL;
  if (!folder) return TC_OK;
  tc_arena *arena = x->module->arena;
  tc_sb sb = tc_sb_make(arena);
  print_guards_of(&sb, f, x->guards);
  return tc_file_write(tc_path_join(arena, tc_sv_of(folder), TC_SV("guards.txt")).data, sb.text ? sb.text : "",
                       sb.size);
}

// What was recorded without a break as an entry.
static tc_status finish(void *arg) {
  finishing *c = arg;
  tc_function *f = c->t->function;
  function_entry *x = c->x;
  tc_graph *g = c->t->line->graph;
  tc_arena *arena = x->module->arena;
  int32_t *outputs = TC_NEW_ARRAY(arena, int32_t, f->n_outputs + 1);
  tc_guards_seal(x->guards, x->module, TC_SV("an op"));
  for (int32_t i = 0; i < c->t->reads.count; i++) {
    tc_module_require(x->module, c->t->reads.data[i].condition);
    tc_guards_seal(x->guards, x->module, tc_sv_printf(arena, "a size read at %s", c->t->reads.data[i].here));
  }
  for (int32_t i = 0; i < c->t->facts.count; i++) tc_guards_add_fact(x->guards, &c->t->facts.data[i]);
  for (int32_t i = 0; i < f->n_values; i++) {
    tc_value *v = value_of(c->t, c->results[i]);
    if (!v) return tc_error(TC_STATUS_INTERNAL, "output %d was not recorded", i);
    tc_graph_add_output(g, TC_OUT_USER, tc_arg_tensor(v), tc_sv_printf(arena, "%d", i));
  }
  tc_guards_keep(x->guards, f->n_inputs); // the others are fixed
  x->n_inputs = g->inputs.count;
  for (int32_t i = 0; i < f->n_values; i++) outputs[i] = i;
  if (f->n_wrt) TC_TRY(add_gradients(c, &g, outputs + f->n_values));
  if (!(x->writes && tc_guards_share(x->guards))) {
    tc_graph_sweep(g);
    TC_TRY(tc_session_create(f->context, g, TC_STAGE_EXEC, &x->session));
  } else if (f->n_wrt) {
    return tc_error(TC_STATUS_UNIMPLEMENTED, "a function with gradients writes to memory that two of its inputs share");
  }
  x->n_graph_outputs = g->outputs.count;
  for (int32_t i = 0; i < f->n_outputs; i++) outputs[i] = nth_user_output(g, outputs[i]);
  x->outputs = outputs;
  bool *apart = TC_NEW_ARRAY(arena, bool, f->n_outputs + 1);
  for (int32_t i = f->n_values; i < f->n_outputs; i++) apart[i] = true; // gradients
  for (int32_t i = 0; i < f->n_values; i++) {
    int32_t root = root_of(c->t, c->results[i]);
    apart[i] = root >= 0;
    for (int32_t k = 0; k < f->n_values; k++) apart[i] &= k == i || root_of(c->t, c->results[k]) != root;
  }
  x->apart = apart;
  x->through = find_through(f, x);
  tc_guards_seal(x->guards, x->module, TC_SV("what was compiled"));
  return write_guards(f, x);
}

// Outputs that are tensors from outside are inputs of the graph, too.
static tc_status add_outside_outputs(api_trace *t, tc_tensor *const *results, int32_t n) {
  for (int32_t i = 0; i < n; i++) {
    bool known = api_of(results[i])->trace == t;
    for (int32_t k = 0; k < t->handles.count; k++) known |= t->handles.data[k] == results[i];
    if (known) continue;
    if (!api_reserve(t->context, &t->handles, 1) || !api_push(t->context, &t->inputs, *results[i]))
      return tc_error_out_of_memory();
    t->handles.data[t->handles.count++] = tc_retain(results[i]);
    trace_now(t)->n_inputs++;
  }
  return line_add_inputs(t, t->line, trace_now(t), trace_now(t)->n_inputs);
}

static tc_status make_entry(api_trace *t, tc_tensor *const *results, const tc_tensor *inputs, function_entry **out) {
  tc_function *f = t->function;
  TC_TRY(add_outside_outputs(t, results, f->n_values));
  function_entry *x = tc_alloc(f->context->allocator, sizeof *x);
  int32_t n = trace_now(t)->n_inputs - f->n_inputs;
  tc_tensor **captured = x ? tc_alloc(f->context->allocator, (size_t)(n + 1) * sizeof(*captured)) : NULL;
  if (!captured) {
    tc_free(f->context->allocator, x);
    return tc_error_out_of_memory();
  }
  x->captured = captured;
  for (; x->n_captured < n; x->n_captured++)
    captured[x->n_captured] = tc_retain(t->handles.data[f->n_inputs + x->n_captured]);
  x->module = t->line->module, x->guards = t->line->guards, x->writes = t->line->writes;
  x->n_random = t->line->n_random;
  t->line->module = NULL; // the entry's now
  finishing c = {t, results, inputs, x};
  tc_status s = tc_arena_guard(x->module->arena, finish, &c);
  if (s != TC_OK) {
    entry_destroy(f, x);
    return s;
  }
  *out = x;
  return TC_OK;
}

// Runs the body. What it reports comes as a status.
static tc_status run_body(api_trace *t, tc_tensor *const *inputs, tc_tensor **results) {
  tc_function *f = t->function;
  api_trace *before = api_set_current_trace(t);
  int32_t code = f->body(f->self, inputs, f->n_inputs, results, f->n_values);
  api_set_current_trace(before);
  if (tc_last_code() != TC_STATUS_OK) {
    tc_status s = tc_error(tc_last_code(), "%s", tc_last_error());
    tc_clear_error();
    return s;
  }
  if (code != TC_STATUS_OK) return tc_error(code, "the function reports a failure");
  for (int32_t i = 0; i < f->n_values; i++)
    if (!results[i]) return tc_error(TC_STATUS_INVALID_ARGUMENT, "the function sets no output %d", i);
  return TC_OK;
}

// The outputs of a call that is followed: references that are the caller's.
static tc_status give_outputs(api_trace *t, tc_tensor *const *results, tc_tensor **outputs) {
  int32_t n = t->function->n_outputs;
  for (int32_t i = 0; i < n; i++) trace_want(t, results[i]);
  TC_TRY(trace_flush(t));
  for (int32_t i = 0; i < n; i++) TC_TRY(trace_compute(t, results[i]));
  for (int32_t i = 0; i < n; i++) outputs[i] = tc_retain(results[i]);
  return TC_OK;
}

// Compiles what a call has met first, and lets others see it. Under the lock. Takes the lines.
static tc_status publish(tc_function *f, api_line *fresh) {
  tc_status s = TC_OK;
  for (api_line *x = fresh, *next; x; x = next) {
    next = x->next;
    tc_status failed = s == TC_OK && !x->control ? line_compile(f->context, x) : TC_OK;
    if (tc_status_code(failed) == TC_STATUS_OUT_OF_MEMORY) s = failed;
    if (s != TC_OK || x->control) {
      line_destroy(f->context, x);
      continue;
    }
    if (failed != TC_OK)
      tc_log(&f->context->logger, TC_LOG_PERF_HINTS, TC_SV_FMT " [%d]: a segment runs op by op: %s", TC_SV_ARG(f->name),
             f->id, tc_status_text(failed));
    tc_status_free(failed);
    x->fresh = false;
    x->id = __atomic_fetch_add(&f->n_lines, 1, __ATOMIC_RELAXED);
    x->next = f->lines;
    log_line(f, x);
    __atomic_fetch_add(&f->compiles, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&f->lines, x, __ATOMIC_RELEASE);
  }
  return s;
}

static tc_status no_gradients(const char *of) {
  return tc_error(TC_STATUS_UNIMPLEMENTED, "there are no gradients of %s", of);
}

// Runs the body and records. `first` (under the lock): what has no break becomes *out, and is not run; else the call is
// done when this returns.
static tc_status record_call(function_call *call, const tc_guard_input *how, bool first, function_entry **out) {
  tc_function *f = call->f;
  api_trace t = {.context = f->context, .function = f, .broke = !first};
  api_line *fresh = NULL;
  bool whole = false;
  tc_scope *scope = tc_scope_open();
  tc_tensor **results = tc_alloc(f->context->allocator, (size_t)(f->n_outputs + 1) * sizeof(*results));
  tc_status s = scope && results ? trace_begin(&t, f->n_inputs, call->inputs, how) : tc_error_out_of_memory();
  if (s == TC_OK && first) s = trace_build(&t); // sizes that are read have symbols from the start
  if (s == TC_OK) s = run_body(&t, call->inputs, results);
  if (s == TC_OK) {
    whole = first && !t.broke && !t.direct;
    if (!whole && f->n_wrt) s = no_gradients("a function that reads values");
    else s = whole ? make_entry(&t, results, call->values, out) : give_outputs(&t, results, call->outputs);
  }
  call->ran = t.broke || t.direct || t.segments.count > 1;
  tc_scope_close(scope);
  tc_status at_end = trace_end(&t, s == TC_OK && !whole);
  if (s == TC_OK) s = at_end;
  else tc_status_free(at_end);
  fresh = t.fresh;
  if (fresh && s == TC_OK) {
    if (!first) pthread_mutex_lock(&f->lock);
    s = publish(f, fresh);
    if (!first) pthread_mutex_unlock(&f->lock);
    fresh = NULL;
  }
  for (api_line *next; fresh; fresh = next) {
    next = fresh->next;
    line_destroy(f->context, fresh);
  }
  tc_free(f->context->allocator, results);
  call->done = !whole && s == TC_OK;
  for (int32_t i = 0; i < f->n_outputs && !whole; i++) {
    if (s != TC_OK) tc_release(call->outputs[i]), call->outputs[i] = NULL;
  }
  if (call->done) __atomic_store_n(&f->follows, true, __ATOMIC_RELEASE);
  return s == TC_OK ? s : tc_status_note(s, "while capturing '" TC_SV_FMT "'", TC_SV_ARG(f->name));
}

static tc_status capture(function_call *call, function_entry **out) {
  tc_function *f = call->f;
  tc_guard_input *how = tc_alloc(f->context->allocator, (size_t)(f->n_inputs + 1) * sizeof *how);
  if (!how) return tc_error_out_of_memory();
  choose_dims(f, call->values, how);
  tc_status s = record_call(call, how, true, out);
  tc_free(f->context->allocator, how);
  return s;
}

// ---- calling ----
static const function_entry *find(const tc_function *f, const tc_tensor *inputs) {
  int64_t symbols[MAX_SYMBOLS];
  for (const function_entry *x = __atomic_load_n(&f->entries, __ATOMIC_ACQUIRE); x; x = x->next) {
    if (tc_guards_check(x->guards, inputs, symbols).kind == TC_GUARD_HOLDS) return x;
  }
  return NULL;
}

static void give_up(tc_function *f, const char *why) {
  say_once(f, why);
  __atomic_store_n(&f->given_up, true, __ATOMIC_RELEASE);
}

// What has run may have written: it is not run again.
static bool may_suppress(const function_call *call, tc_status s) {
  const tc_config *config = call->f->context->config;
  return tc_config_bool(config, TC_OPT_ID_SUPPRESS_ERRORS) && !tc_config_bool(config, TC_OPT_ID_FULLGRAPH) &&
         !call->f->n_wrt && !call->ran && tc_status_code(s) != TC_STATUS_OUT_OF_MEMORY;
}

// Takes the status.
static void suppress(tc_function *f, tc_status s) {
  char why[512];
  snprintf(why, sizeof why, "it cannot be compiled (%s), and calls run", tc_status_text(s));
  tc_status_free(s);
  give_up(f, why);
}

static tc_status add_entry(function_call *call, const function_entry **out) {
  tc_function *f = call->f;
  function_entry *x = NULL;
  log_misses(f, call->values);
  if (f->n_entries >= f->limit) {
    give_up(f, "the limit of recompiles is reached, and calls run");
    return TC_OK;
  }
  tc_status s = capture(call, &x);
  if (s != TC_OK && may_suppress(call, s)) {
    suppress(f, s);
    return TC_OK;
  }
  if (s != TC_OK || call->done) return s;
  if (tc_guards_symbol_count(x->guards) > MAX_SYMBOLS) {
    entry_destroy(f, x);
    give_up(f, "it has too many symbolic sizes, and calls run");
    return TC_OK;
  }
  x->id = f->n_entries;
  log_text l = {.f = f, .x = x};
  if (tc_log_on(&f->context->logger, TC_LOG_GUARDS)) tc_status_free(tc_arena_guard(x->module->arena, log_guards, &l));
  x->next = f->entries;
  f->n_entries++;
  __atomic_fetch_add(&f->compiles, 1, __ATOMIC_RELAXED);
  __atomic_store_n(&f->entries, x, __ATOMIC_RELEASE);
  *out = x;
  return TC_OK;
}

static bool needs_no_entry(const tc_function *f) {
  return __atomic_load_n(&f->given_up, __ATOMIC_ACQUIRE) || __atomic_load_n(&f->follows, __ATOMIC_ACQUIRE);
}

// The entry for a call; NULL: none. The call may then be done.
static tc_status entry_for(function_call *call, const function_entry **out) {
  tc_function *f = call->f;
  *out = find(f, call->values);
  if (*out || needs_no_entry(f)) return TC_OK;
  pthread_mutex_lock(&f->lock);
  *out = find(f, call->values); // another thread may have been first
  tc_status s = *out || needs_no_entry(f) ? TC_OK : add_entry(call, out);
  pthread_mutex_unlock(&f->lock);
  return s;
}

// Outputs that the body made apart lie apart, also where passes made them one.
static tc_status separate(const tc_function *f, const function_entry *x, const tc_tensor *inputs, tc_tensor *made) {
  tc_tensor few[FEW], *own = few;
  if (f->n_outputs > FEW && !(own = tc_alloc(f->context->allocator, (size_t)f->n_outputs * sizeof *own)))
    return tc_error_out_of_memory();
  for (int32_t i = 0; i < f->n_outputs; i++) {
    if (x->apart[i]) own[i] = made[x->outputs[i]];
    else own[i].storage = NULL;
  }
  tc_status s = line_separate(f->context, x->n_inputs, inputs, f->n_outputs, own);
  for (int32_t i = 0; i < f->n_outputs; i++)
    if (x->apart[i]) made[x->outputs[i]] = own[i];
  if (own != few) tc_free(f->context->allocator, own);
  return s;
}

static tc_status give_through(const tc_function *f, const function_entry *x, const tc_tensor *all,
                              tc_tensor **outputs) {
  for (int32_t i = 0; i < f->n_outputs; i++) {
    outputs[i] = api_wrap(f->context, tc_tensor_ref(&all[x->through[i]]));
    if (!outputs[i]) return tc_error_out_of_memory();
  }
  return TC_OK;
}

// `all`: the graph's inputs; `made`: room for its outputs.
static tc_status run_session(const tc_function *f, const function_entry *x, const tc_tensor *all, tc_tensor *made,
                             tc_tensor **outputs) {
  tc_session_run_options o = {.write_back = true};
  if (x->n_random) tc_context_draw(f->context, x->n_random, &o.seed, &o.stream);
  tc_status s = tc_session_run(x->session, all, made, &o);
  bool ran = s == TC_OK;
  if (ran) s = separate(f, x, all, made);
  for (int32_t i = 0; i < f->n_outputs && s == TC_OK; i++) {
    outputs[i] = api_wrap(f->context, tc_tensor_ref(&made[x->outputs[i]]));
    if (!outputs[i]) s = tc_error_out_of_memory();
  }
  for (int32_t i = 0; i < x->n_graph_outputs && ran; i++) tc_tensor_unref(&made[i]);
  return s;
}

static tc_status run_entry(const tc_function *f, const function_entry *x, const tc_tensor *inputs,
                           tc_tensor **outputs) {
  tc_tensor few[FEW], *room = few;
  bool as_given = x->n_captured == 0 && x->n_inputs == f->n_inputs;
  int32_t n_own = as_given ? 0 : x->n_inputs, need = n_own + x->n_graph_outputs, k = 0;
  if (need > FEW && !(room = tc_alloc(f->context->allocator, (size_t)need * sizeof *room)))
    return tc_error_out_of_memory();
  for (int32_t i = 0; i < f->n_inputs && !as_given; i++)
    if (inputs[i].storage) lend(&inputs[i], &room[k++]);
  for (int32_t i = 0; i < x->n_captured; i++) lend(x->captured[i], &room[k++]);
  const tc_tensor *all = as_given ? inputs : room;
  tc_status s = x->through ? give_through(f, x, all, outputs) : run_session(f, x, all, room + n_own, outputs);
  if (room != few) tc_free(f->context->allocator, room);
  return s;
}

// The body on the tensors themselves.
static int32_t run_eagerly(const tc_function *f, tc_tensor *const *inputs, tc_tensor **outputs) {
  if (f->n_wrt) return api_fail(no_gradients("a function that is recorded or has reached its limit of recompiles"));
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

static int32_t call_with(function_call *call) {
  tc_function *f = call->f;
  const function_entry *x = NULL;
  bool tracked = false;
  for (int32_t i = 0; i < f->n_inputs && !f->n_wrt; i++) tracked |= api_is_tracked(call->inputs[i]);
  // Recorded there; or put on the tape op by op.
  if (api_current_trace() || tracked) return run_eagerly(f, call->inputs, call->outputs);
  tc_status s = entry_for(call, &x);
  if (s == TC_OK && !call->done) {
    if (x && x->session) s = run_entry(f, x, call->values, call->outputs);
    else if (x || !__atomic_load_n(&f->follows, __ATOMIC_ACQUIRE)) return run_eagerly(f, call->inputs, call->outputs);
    else s = record_call(call, f->how, false, NULL);
  }
  for (int32_t i = 0; i < f->n_outputs && call->done; i++)
    if (call->outputs[i] && !api_adopt(call->outputs[i])) call->outputs[i] = NULL;
  return s == TC_OK ? tc_last_code() : api_fail(s);
}

int32_t tc_call(tc_function *f, tc_tensor *const *inputs, tc_tensor **outputs) {
  tc_tensor few[FEW], *flat = few;
  if (tc_last_code() != TC_STATUS_OK) return tc_last_code();
  if (f->n_inputs > FEW && !(flat = tc_alloc(f->context->allocator, (size_t)f->n_inputs * sizeof *flat)))
    return api_fail(tc_error_out_of_memory());
  for (int32_t i = 0; i < f->n_inputs; i++) {
    if (inputs[i]) lend(inputs[i], &flat[i]);
    else flat[i].storage = NULL;
  }
  for (int32_t i = 0; i < f->n_outputs; i++) outputs[i] = NULL;
  __atomic_fetch_add(&f->calls, 1, __ATOMIC_RELAXED);
  int32_t code = call_with(&(function_call){.f = f, .inputs = inputs, .values = flat, .outputs = outputs});
  if (flat != few) tc_free(f->context->allocator, flat);
  return code;
}

int32_t tc_graph_break_at(const char *here, const char *reason) {
  api_trace *t = api_current_trace();
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
    print_guards_of(&sb, t->f, x->guards);
  }
  for (const api_line *x = t->f->lines; x; x = x->next) {
    tc_sb_printf(&sb, TC_SV_FMT " [%d/s%d]\n", TC_SV_ARG(t->f->name), t->f->id, x->id);
    print_guards_of(&sb, t->f, x->guards);
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
