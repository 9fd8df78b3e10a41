// The body of a compiled function is run and recorded: what has no break becomes an entry behind guards, with its joint
// graph where gradients are wanted; else the call is followed (trace.h), and new segments are compiled when it has
// ended.
#include <string.h>

#include "core/api/function.h"
#include "core/autograd/autograd.h"
#include "core/base/fs.h"
#include "core/runtime/source.h"

void function_entry_destroy(tc_function *f, function_entry *x) {
  if (!x) return;
  tc_session_destroy(x->session);
  for (int32_t i = 0; i < x->n_captured; i++) tc_release(x->captured[i]);
  tc_free(f->context->allocator, (void *)x->captured);
  if (x->module) tc_module_destroy(x->module);
  tc_free(f->context->allocator, x);
}

// Which sizes are symbols: marked ones, and those that have changed since the first call.
static void choose_dims(tc_function *f, const tc_tensor *inputs, tc_guard_input *how) {
  for (int32_t i = 0; i < f->n_inputs; i++) {
    const tc_tensor *t = &inputs[i];
    function_dims *s = &f->seen[i];
    how[i] = f->how[i];
    if (!t->storage) continue;
    if (!s->seen || s->rank != t->rank) {
      *s = (function_dims){.seen = true, .rank = t->rank};
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
  bool once;
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
  function_print_guards(&sb, f, x->guards);
  return tc_file_write(tc_path_join(arena, tc_sv_of(folder), TC_SV("guards.txt")).data, sb.text ? sb.text : "",
                       sb.size);
}

static bool is_held(const api_trace *t, const trace_number *q) {
  for (int32_t i = 0; i < t->facts.count; i++)
    if (t->facts.data[i].kind == TC_FACT_INT && t->facts.data[i].at == q->at) return true;
  return false;
}

// The numbers that are inputs; others are held to their ranges, if not to a value.
static void add_numbers(const finishing *c) {
  const api_trace *t = c->t;
  function_entry *x = c->x;
  function_number *own = TC_NEW_ARRAY(x->module->arena, function_number, t->numbers.count + 1);
  for (int32_t k = 0; k < t->numbers.count; k++) {
    const trace_number *q = &t->numbers.data[k];
    int32_t i = t->handles.count - 1;
    while (i >= 0 && t->handles.data[i] != q->handle) i--;
    if (i >= 0) {
      own[x->n_numbers++] = (function_number){q->at, i};
      continue;
    }
    if (is_held(t, q)) continue;
    tc_guard_fact f = {.at = q->at, .expected = q->value, .name = q->name, .origin = tc_sv_of(q->here)};
    (void)tc_guards_add_number(x->guards, &f, q->lo, q->hi, -1);
  }
  x->numbers = own;
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
  add_numbers(c);
  for (int32_t i = 0; i < c->t->facts.count; i++) tc_guards_add_fact(x->guards, &c->t->facts.data[i]);
  for (int32_t i = 0; i < f->n_values; i++) {
    tc_value *v = value_of(c->t, c->results[i]);
    if (!v) return tc_error(TC_STATUS_INTERNAL, "output %d was not recorded", i);
    tc_graph_add_output(g, TC_OUT_USER, tc_arg_tensor(v), tc_sv_printf(arena, "%d", i));
  }
  tc_guards_keep(x->guards, f->n_inputs); // the others are fixed
  x->n_inputs = g->inputs.count;
  for (int32_t i = 0; i < f->n_values; i++) outputs[i] = i;
  TC_TRY(tc_compile_autocast(f->context, g));
  if (f->n_wrt) TC_TRY(add_gradients(c, &g, outputs + f->n_values));
  if (!(x->writes && tc_guards_share(x->guards))) {
    tc_graph_sweep(g);
    tc_source source = {.stage = TC_STAGE_GRAPH, .graph = g, .name = f->name, .by_op_always = c->once};
    source.one_graph = tc_config_bool(f->context->config, TC_OPT_ID_FULLGRAPH);
    TC_TRY(tc_session_create_from(f->context, &source, TC_STAGE_EXEC, &x->session));
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

static tc_status make_entry(api_trace *t, tc_tensor *const *results, const function_call *call, function_entry **out) {
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
  finishing c = {t, results, call->values, x, call->once};
  tc_status s = tc_arena_guard(x->module->arena, finish, &c);
  if (s != TC_OK) {
    function_entry_destroy(f, x);
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
    function_log_line(f, x);
    __atomic_fetch_add(&f->compiles, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&f->lines, x, __ATOMIC_RELEASE);
  }
  return s;
}

tc_status function_no_gradients(const char *of) {
  return tc_error(TC_STATUS_UNIMPLEMENTED, "there are no gradients of %s", of);
}

tc_status function_record(function_call *call, const tc_guard_input *how, bool first, function_entry **out) {
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
    if (whole && t.line->gradients) __atomic_store_n(&f->gradients, true, __ATOMIC_RELAXED);
    if (!whole && f->n_wrt) s = function_no_gradients("a function that reads values");
    else s = whole ? make_entry(&t, results, call, out) : give_outputs(&t, results, call->outputs);
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

tc_status function_capture(function_call *call, function_entry **out) {
  tc_function *f = call->f;
  tc_guard_input *how = tc_alloc(f->context->allocator, (size_t)(f->n_inputs + 1) * sizeof *how);
  if (!how) return tc_error_out_of_memory();
  choose_dims(f, call->values, how);
  tc_status s = function_record(call, how, true, out);
  tc_free(f->context->allocator, how);
  return s;
}

tc_status function_capture_once(function_call *call, function_entry **out) {
  tc_function *f = call->f;
  tc_guard_input *how = tc_alloc(f->context->allocator, (size_t)(f->n_inputs + 1) * sizeof *how);
  if (!how) return tc_error_out_of_memory();
  for (int32_t i = 0; i < f->n_inputs; i++) how[i] = (tc_guard_input){.name = f->how[i].name};
  call->once = true;
  tc_status s = function_record(call, how, true, out);
  tc_free(f->context->allocator, how);
  return s;
}
