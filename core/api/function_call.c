// Calls of compiled functions: the entry whose guards hold is found and run; where none does, one is made. Beyond the
// limit of entries calls run op by op, which is said once. Then the body works on the tensors themselves, unless it
// asks for gradients: these are made of a graph, so that each call makes one, which the cache of single ops runs. A
// body that does so for the first time is left there and called again; what it had computed is dropped.
#include <stdio.h>

#include "core/api/function.h"
#include "core/api/tape.h"

enum { FEW = 32 };

// A copy without a reference, which is as good as long as `t` is: of the dimensions only those that there are, since
// most of the struct is room for more.
static void lend(const tc_tensor *t, tc_tensor *out) {
  out->storage = t->storage, out->dtype = t->dtype, out->rank = t->rank;
  out->offset = t->offset, out->conj = t->conj, out->neg = t->neg;
  for (int32_t d = 0; d < t->rank; d++) out->sizes[d] = t->sizes[d], out->strides[d] = t->strides[d];
}

static function_entry *find(const tc_function *f, const tc_tensor *inputs) {
  int64_t symbols[FUNCTION_SYMBOLS];
  for (function_entry *x = __atomic_load_n(&f->entries, __ATOMIC_ACQUIRE); x; x = x->next) {
    if (tc_guards_check(x->guards, inputs, symbols).kind == TC_GUARD_HOLDS) return x;
  }
  return NULL;
}

static void give_up(tc_function *f, const char *why) {
  function_say_once(f, why);
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

// Calls that no entry takes need none made.
static bool needs_no_entry(const tc_function *f) {
  if (__atomic_load_n(&f->follows, __ATOMIC_ACQUIRE)) return true;
  return __atomic_load_n(&f->given_up, __ATOMIC_ACQUIRE) && !__atomic_load_n(&f->gradients, __ATOMIC_RELAXED);
}

// For a function that has given up.
static tc_status entry_for_once(function_call *call, function_entry **out) {
  return needs_no_entry(call->f) ? TC_OK : function_capture_once(call, out);
}

static tc_status add_entry(function_call *call, function_entry **out) {
  tc_function *f = call->f;
  function_entry *x = NULL;
  function_log_misses(f, call->values);
  if (f->n_entries >= f->limit) {
    give_up(f, "the limit of recompiles is reached, and calls run");
    return entry_for_once(call, out);
  }
  tc_status s = function_capture(call, &x);
  if (s != TC_OK && may_suppress(call, s)) {
    suppress(f, s);
    return entry_for_once(call, out);
  }
  if (s != TC_OK || call->done) return s;
  if (tc_guards_symbol_count(x->guards) > FUNCTION_SYMBOLS) {
    function_entry_destroy(f, x);
    give_up(f, "it has too many symbolic sizes, and calls run");
    return entry_for_once(call, out);
  }
  x->id = f->n_entries;
  function_log_guards(f, x);
  x->next = f->entries;
  f->n_entries++;
  __atomic_fetch_add(&f->compiles, 1, __ATOMIC_RELAXED);
  __atomic_store_n(&f->entries, x, __ATOMIC_RELEASE);
  *out = x;
  return TC_OK;
}

// The entry for a call; NULL: none. The call may then be done.
static tc_status entry_for(function_call *call, function_entry **out) {
  tc_function *f = call->f;
  *out = find(f, call->values);
  if (*out || needs_no_entry(f)) return TC_OK;
  pthread_mutex_lock(&f->lock);
  *out = find(f, call->values); // another thread may have been first
  tc_status s = TC_OK;
  if (!*out && !needs_no_entry(f)) s = f->given_up ? entry_for_once(call, out) : add_entry(call, out);
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

// Of numbers that may be any, each run has its own.
static tc_status read_numbers(const tc_function *f, const function_entry *x, tc_tensor *captured) {
  for (int32_t i = 0; i < x->n_numbers; i++) {
    tc_tensor *t = &captured[x->numbers[i].input - f->n_inputs];
    int64_t v = tc_guard_fact_read(TC_FACT_INT, x->numbers[i].at);
    tc_status s = tc_tensor_create(f->context->allocator, TC_I64, 0, NULL, t);
    if (s != TC_OK) {
      while (i-- > 0) tc_tensor_unref(&captured[x->numbers[i].input - f->n_inputs]);
      return s;
    }
    *(int64_t *)tc_tensor_data(t) = v;
  }
  return TC_OK;
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
  tc_tensor *captured = room + k - x->n_captured;
  tc_status s = read_numbers(f, x, captured);
  if (x->writes) api_note_effect();
  bool read = s == TC_OK;
  if (read) s = x->through ? give_through(f, x, all, outputs) : run_session(f, x, all, room + n_own, outputs);
  for (int32_t i = 0; i < x->n_numbers && read; i++) tc_tensor_unref(&captured[x->numbers[i].input - f->n_inputs]);
  if (room != few) tc_free(f->context->allocator, room);
  return s;
}

// The body on the tensors themselves.
static int32_t run_eagerly(const tc_function *f, tc_tensor *const *inputs, tc_tensor **outputs, api_attempt *a) {
  if (f->n_wrt) return api_fail(function_no_gradients("a function that is recorded"));
  tc_scope *scope = tc_scope_open();
  if (!scope) return tc_last_code();
  a->outer = api_set_current_attempt(a);
  int32_t code = f->body(f->self, inputs, f->n_inputs, outputs, f->n_outputs);
  api_set_current_attempt(a->outer);
  if (a->outer) a->outer->lasts |= a->lasts;
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

// The same, where nothing but a graph would give the gradients that it may ask for.
static int32_t run_op_by_op(function_call *call) {
  tc_function *f = call->f;
  api_attempt a = {.keeps = __atomic_load_n(&f->gradients, __ATOMIC_RELAXED)};
  int32_t code = run_eagerly(f, call->inputs, call->outputs, &a);
  if (!a.asked) return code;
  __atomic_store_n(&f->gradients, true, __ATOMIC_RELAXED);
  if (a.lasts) return code;
  tc_clear_error();
  call->again = true;
  return TC_STATUS_OK;
}

static int32_t call_with(function_call *call) {
  tc_function *f = call->f;
  function_entry *x = NULL;
  int32_t code = TC_STATUS_OK;
  bool tracked = false;
  for (int32_t i = 0; i < f->n_inputs && !f->n_wrt; i++) tracked |= api_is_tracked(call->inputs[i]);
  // Recorded there; or put on the tape op by op.
  if (api_current_trace() || tracked) return run_eagerly(f, call->inputs, call->outputs, &(api_attempt){.keeps = true});
  tc_status s = entry_for(call, &x);
  if (s == TC_OK && !call->done) {
    if (x && x->session) s = run_entry(f, x, call->values, call->outputs);
    else if (x || !__atomic_load_n(&f->follows, __ATOMIC_ACQUIRE)) code = run_op_by_op(call);
    else {
      api_note_effect(); // it may do anything
      s = function_record(call, f->how, false, NULL);
    }
  }
  if (call->once) function_entry_destroy(f, x);
  if (call->again) {
    call->again = false;
    return call_with(call);
  }
  for (int32_t i = 0; i < f->n_outputs && call->done; i++)
    if (call->outputs[i] && !api_adopt(call->outputs[i])) call->outputs[i] = NULL;
  if (s != TC_OK) return api_fail(s);
  return code != TC_STATUS_OK ? code : tc_last_code();
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
