// Moving along lines, running segments, and what the body sees of recorded tensors.
#include "core/api/trace.h"

#include <string.h>

#include "core/runtime/eager.h"

tc_status trace_begin(api_trace *t, int32_t n, tc_tensor *const *inputs, const tc_guard_input *how) {
  t->n_given = n, t->how = how;
  if (!api_push(t->context, &t->segments, ((trace_segment){0}))) return tc_error_out_of_memory();
  if (!api_reserve(t->context, &t->handles, n) || !api_reserve(t->context, &t->inputs, n))
    return tc_error_out_of_memory();
  for (int32_t i = 0; i < n; i++) {
    t->handles.data[t->handles.count++] = tc_retain(inputs[i]);
    t->inputs.data[t->inputs.count++] = inputs[i] ? *inputs[i] : (tc_tensor){0};
  }
  trace_now(t)->n_inputs = n;
  return TC_OK;
}

tc_status trace_build(api_trace *t) {
  TC_TRY(line_create(t, &t->line));
  t->building = true;
  return line_add_inputs(t, t->line, trace_now(t), t->n_given);
}

// ---- lines ----
static bool switch_to(api_trace *t, api_line *first, bool at_end) {
  for (api_line *x = first; x; x = x->next) {
    if (!line_begins(t, x) || (at_end && !line_ends(t, x))) continue;
    t->line = x;
    return true;
  }
  return false;
}

// A new line with what the segment has recorded.
static tc_status build_line(api_trace *t, const trace_segment *s, api_line **out) {
  api_line *x;
  TC_TRY(line_create(t, &x));
  for (int32_t i = 0; i < s->n_records; i++) {
    tc_status status = line_add(t, x, s, &t->records.data[s->record + i]);
    if (status == TC_OK) continue;
    line_destroy(t->context, x);
    return status;
  }
  *out = x;
  return TC_OK;
}

// Moves to a line with the record that was added last. *room false: there is none, and none may be added.
static tc_status advance(api_trace *t, bool *room) {
  trace_segment *s = trace_now(t);
  if (t->building) return line_add(t, t->line, s, &tc_vec_last(&t->records));
  if (t->line && line_goes_on(t, t->line)) return TC_OK;
  t->line = NULL;
  if (switch_to(t, trace_function_lines(t), false) || switch_to(t, t->fresh, false)) return TC_OK;
  *room = trace_function_has_room(t);
  if (!*room) return TC_OK;
  TC_TRY(build_line(t, s, &t->line));
  t->building = true;
  return TC_OK;
}

// The line that ends with the segment, made if there is none; NULL: it runs op by op.
static tc_status line_at_end(api_trace *t) {
  if (t->direct) return TC_OK;
  if (t->building) {
    tc_guards_numbers_from_inputs(t->line->guards);
    t->line->next = t->fresh, t->fresh = t->line;
    t->building = false;
    return TC_OK;
  }
  if (t->line && line_ends(t, t->line)) return TC_OK;
  t->line = NULL;
  if (switch_to(t, trace_function_lines(t), true) || switch_to(t, t->fresh, true)) return TC_OK;
  if (!trace_function_has_room(t)) return TC_OK;
  TC_TRY(build_line(t, trace_now(t), &t->line));
  t->line->next = t->fresh, t->fresh = t->line;
  return TC_OK;
}

// ---- running op by op ----
static tc_status run_record(api_trace *t, const trace_segment *s, const trace_record *r) {
  tc_tensor *made;
  int32_t n;
  TC_TRY(trace_decode(t, s, r));
  TC_TRY(tc_eager_run(t->context->eager, r->op, r->n_args, t->args.data, &made, &n), "at %s", r->here);
  for (int32_t i = 0; i < n; i++) {
    tc_tensor *x = i < r->n_slots ? t->slots.data[r->slot + i].handle : NULL;
    if (x && !x->storage && made[i].storage) *x = made[i];
    else tc_tensor_unref(&made[i]);
  }
  tc_free(t->context->allocator, made);
  return TC_OK;
}

static tc_status run_records(api_trace *t, const trace_segment *s) {
  for (int32_t i = 0; i < s->n_records; i++) TC_TRY(run_record(t, s, &t->records.data[s->record + i]));
  return TC_OK;
}

// Results that are what the op wrote to: the operand has the memory already.
static tc_status take_written(api_trace *t, const trace_segment *s, const trace_record *r) {
  TC_TRY(trace_decode(t, s, r));
  for (int32_t i = 0; i < r->n_slots; i++) {
    tc_tensor *x = t->slots.data[r->slot + i].handle;
    int32_t k = tc_op_written_argument(r->op, i);
    if (!x || x->storage || k < 0 || k >= r->n_args || t->args.data[k].kind != TC_ARGUMENT_TENSOR) continue;
    const tc_tensor *of = t->args.data[k].v.tensor;
    if (of && of->storage) *x = tc_tensor_ref(of);
  }
  return TC_OK;
}

static trace_segment *segment_of(const api_trace *t, int32_t slot) {
  int32_t i = t->segments.count - 1;
  while (t->segments.data[i].slot > slot) i--;
  return &t->segments.data[i];
}

static void need_operands(api_trace *t, const trace_segment *s, const trace_record *r, bool *need) {
  const uint64_t *word = &t->words.data[r->word + 1];
  for (int32_t i = 0; i < r->n_args; i++) {
    tc_argument a;
    const int64_t *refs;
    word = trace_read_argument(word, &a, &refs);
    int32_t n = a.kind == TC_ARGUMENT_TENSOR ? 1 : a.kind == TC_ARGUMENT_TENSORS ? a.n : 0;
    for (int32_t k = 0; k < n; k++) {
      if (refs[k] < 0) continue;
      const trace_slot *q = &t->slots.data[s->slot + refs[k]];
      if (q->handle && !q->handle->storage) need[q->record - s->record] = true;
    }
  }
}

// Computes a slot of a segment that has run, and what it needs of it, op by op. What an op wrote to is there already.
static tc_status recompute(api_trace *t, trace_segment *s, int32_t slot) {
  bool *need = tc_alloc(t->context->allocator, (size_t)s->n_records + 1);
  if (!need) return tc_error_out_of_memory();
  tc_status status = TC_OK;
  need[t->slots.data[slot].record - s->record] = true;
  for (int32_t i = s->n_records - 1; i >= 0; i--)
    if (need[i]) need_operands(t, s, &t->records.data[s->record + i], need);
  for (int32_t i = 0; i < s->n_records && status == TC_OK; i++) {
    const trace_record *r = &t->records.data[s->record + i];
    if (!need[i]) continue;
    status = r->writes ? take_written(t, s, r) : run_record(t, s, r);
  }
  tc_free(t->context->allocator, need);
  return status;
}

// ---- writes ----
static bool lies_in(const api_trace *t, const trace_segment *s, const tc_storage *const *written, int32_t n) {
  for (int32_t k = 0; k < n; k++) {
    for (int32_t i = 0; i < s->n_inputs; i++)
      if (t->inputs.data[s->input + i].storage == written[k]) return true;
    for (int32_t i = 0; i < s->n_slots; i++) {
      const tc_tensor *x = t->slots.data[s->slot + i].handle;
      if (x && x->storage == written[k]) return true;
    }
  }
  return false;
}

// Before memory is written: what earlier segments left out and could be computed from it is computed.
static tc_status pin(api_trace *t, const tc_storage *const *written, int32_t n) {
  for (int32_t i = 0; i + 1 < t->segments.count; i++) {
    trace_segment *s = &t->segments.data[i];
    if (!lies_in(t, s, written, n)) continue;
    for (int32_t k = 0; k < s->n_slots; k++) {
      tc_tensor *x = t->slots.data[s->slot + k].handle;
      if (!x || x->storage) continue;
      trace_want(t, x);
      TC_TRY(recompute(t, &t->segments.data[i], s->slot + k));
    }
  }
  return TC_OK;
}

static tc_status pin_for(api_trace *t, const trace_segment *s) {
  if (!s->writes || t->segments.count < 2) return TC_OK;
  const tc_storage **written = tc_alloc(t->context->allocator, (size_t)(s->n_inputs + 1) * sizeof(*written));
  if (!written) return tc_error_out_of_memory();
  for (int32_t i = 0; i < s->n_inputs; i++) written[i] = t->inputs.data[s->input + i].storage;
  tc_status status = pin(t, written, s->n_inputs);
  tc_free(t->context->allocator, (void *)written);
  return status;
}

// ---- running lines ----
static tc_status run_line(api_trace *t, const trace_segment *s, const api_line *x) {
  int32_t n = 0, room = s->n_inputs + x->n_graph_outputs + 1;
  tc_tensor few[32], *all = few;
  if (room > 32 && !(all = tc_alloc(t->context->allocator, (size_t)room * sizeof *all)))
    return tc_error_out_of_memory();
  for (int32_t i = 0; i < s->n_inputs; i++)
    if (t->inputs.data[s->input + i].storage) all[n++] = t->inputs.data[s->input + i];
  tc_tensor *made = all + n;
  tc_session_run_options o = {.write_back = true};
  if (x->n_random) tc_context_draw(t->context, x->n_random, &o.seed, &o.stream);
  tc_status status = tc_session_run(x->session, all, made, &o);
  bool ran = status == TC_OK;
  for (int32_t i = 0; i < x->n_graph_outputs && ran; i++) // what was written into inputs
    if (x->graph->outputs.data[i].kind != TC_OUT_USER) tc_tensor_unref(&made[i]);
  if (ran) status = line_separate(t->context, n, all, x->n_graph_outputs, made);
  for (int32_t i = 0; i < s->n_slots && status == TC_OK; i++) {
    tc_tensor *h = t->slots.data[s->slot + i].handle;
    int32_t k = x->slots.data[i].output;
    if (h && k >= 0 && !h->storage) *h = tc_tensor_ref(&made[k]);
  }
  for (int32_t i = 0; i < x->n_graph_outputs && ran; i++) tc_tensor_unref(&made[i]);
  if (all != few) tc_free(t->context->allocator, all);
  return status;
}

// A segment without ops needs no line.
static tc_status drop_empty(api_trace *t) {
  if (t->building) line_destroy(t->context, t->line);
  t->building = false, t->line = NULL;
  return TC_OK;
}

tc_status trace_flush(api_trace *t) {
  trace_segment *s = trace_now(t);
  if (s->n_records == 0) return drop_empty(t);
  TC_TRY(line_at_end(t));
  s->n_slots = t->slots.count - s->slot;
  s->line = t->line;
  TC_TRY(pin_for(t, s));
  // Regions are not recorded as words, so that what has some runs compiled, or not at all.
  tc_status status = s->line && s->line->control ? line_compile(t->context, s->line) : TC_OK;
  if (status == TC_OK && s->line && s->line->control && !s->line->session)
    status = tc_error(TC_STATUS_UNIMPLEMENTED, "a graph with control flow writes into memory that two inputs share");
  if (status != TC_OK) return status;
  if (s->line && s->line->session) status = run_line(t, s, s->line);
  else if (!s->line || !s->line->idle) status = run_records(t, s);
  trace_segment next = {
      .word = t->words.count, .record = t->records.count, .slot = t->slots.count, .input = t->inputs.count};
  t->line = NULL;
  if (!api_push(t->context, &t->segments, next) && status == TC_OK) status = tc_error_out_of_memory();
  return status;
}

// ---- values ----
void trace_want(api_trace *t, const tc_tensor *x) {
  const api_tensor *a = api_of(x);
  if (a->trace == t) t->slots.data[a->slot].wanted = true;
}

tc_status trace_compute(api_trace *t, tc_tensor *x) {
  const api_tensor *a = api_of(x);
  if (a->trace != t) return TC_OK;
  trace_want(t, x);
  if (a->slot >= trace_now(t)->slot) TC_TRY(trace_flush(t));
  if (x->storage) return TC_OK;
  trace_segment *s = segment_of(t, a->slot);
  if (s->line && !s->line->fresh && (s->line->session || s->line->idle)) {
    int32_t root = line_root(s->line, a->slot - s->slot);
    s->missed |= root >= 0 && s->line->slots.data[root].output < 0;
  }
  TC_TRY(recompute(t, s, a->slot));
  return x->storage ? TC_OK : tc_error(TC_STATUS_INTERNAL, "a recorded tensor was not computed");
}

// ---- the end ----
// A line that lacks results which this call wanted is made once more, with those.
static tc_status make_up(api_trace *t) {
  for (int32_t i = 0; i < t->segments.count; i++) {
    trace_segment *s = &t->segments.data[i];
    if (!s->missed) continue;
    const api_line *old = s->line;
    api_line *x;
    TC_TRY(build_line(t, s, &x));
    x->next = t->fresh, t->fresh = x;
    for (int32_t k = 0; k < s->n_slots; k++) x->slots.data[k].needed = old->slots.data[k].needed;
    s->line = x;
  }
  return TC_OK;
}

static void note_wanted(api_trace *t) {
  for (int32_t i = 0; i < t->segments.count; i++) {
    const trace_segment *s = &t->segments.data[i];
    if (!s->line || !s->line->fresh) continue;
    for (int32_t k = 0; k < s->n_slots; k++) {
      if (!t->slots.data[s->slot + k].wanted) continue;
      int32_t root = line_root(s->line, k);
      if (root >= 0) s->line->slots.data[root].needed = true;
    }
  }
}

tc_status trace_end(api_trace *t, bool keep) {
  tc_status s = TC_OK;
  if (t->building) {
    line_destroy(t->context, t->line);
    t->building = false, t->line = NULL;
  }
  for (int32_t i = 0; i < t->slots.count && keep && s == TC_OK; i++) {
    tc_tensor *x = t->slots.data[i].handle;
    bool held = x && __atomic_load_n(&api_of(x)->refs, __ATOMIC_ACQUIRE) > 1;
    if (held) trace_want(t, x);
    if (held && !x->storage) s = trace_compute(t, x);
  }
  if (s == TC_OK && keep) s = make_up(t);
  if (s == TC_OK) note_wanted(t);
  for (int32_t i = 0; i < t->slots.count; i++) {
    if (!t->slots.data[i].handle) continue;
    api_of(t->slots.data[i].handle)->trace = NULL;
    tc_release(t->slots.data[i].handle);
  }
  for (int32_t i = 0; i < t->handles.count; i++) tc_release(t->handles.data[i]);
  for (int32_t i = 0; i < t->numbers.count; i++) tc_release(t->numbers.data[i].handle);
  void *const lists[] = {t->words.data,          t->records.data,  t->slots.data,   t->handles.data, t->inputs.data,
                         (void *)t->values.data, t->segments.data, t->symbols.data, t->args.data,    t->tensors.data,
                         t->reads.data,          t->facts.data,    t->numbers.data, t->ints.data};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) tc_free(t->context->allocator, lists[i]);
  return s;
}

// ---- what the body calls ----
static void drop_record(api_trace *t) {
  const trace_record *r = &tc_vec_last(&t->records);
  t->words.count = r->word;
  t->records.count--;
  trace_now(t)->n_records--;
}

// Handles for the results of the record that was added last, by the line's slots.
static int32_t give_results(api_trace *t, int32_t capacity, tc_tensor **results, int32_t *n_results) {
  trace_record *r = &tc_vec_last(&t->records);
  trace_segment *s = trace_now(t);
  const line_record *end = &t->line->records.data[s->n_records - 1];
  int32_t first = r->slot - s->slot, n = end->slots - first;
  if (n > capacity || (!n_results && n != capacity))
    return api_fail_text(TC_STATUS_OUT_OF_RANGE, TC_SV_FMT " gives %d results; there is room for %d\n  at %s",
                         TC_SV_ARG(r->op->full_name), n, capacity, r->here);
  if (!api_reserve(t->context, &t->slots, n)) return api_fail(tc_error_out_of_memory());
  int32_t code = TC_STATUS_OK;
  for (int32_t i = 0; i < n; i++) {
    const line_slot *q = &t->line->slots.data[first + i];
    trace_slot slot = {.record = t->records.count - 1};
    if (q->dtype != TC_DTYPE_NONE) {
      results[i] = api_wrap_recorded(t, t->context, t->slots.count, q->dtype, q->rank, q->conj);
      if (!results[i]) code = tc_last_code();
      slot.handle = tc_retain(results[i]);
    }
    t->slots.data[t->slots.count++] = slot;
  }
  r->n_slots = n;
  s->writes |= r->writes;
  if (n_results) *n_results = n;
  return code;
}

static int32_t run_direct(api_trace *t, const char *here, const tc_op *op, int32_t n_args, const tc_argument *args,
                          int32_t capacity, tc_tensor **results, int32_t *n_results) {
  for (int32_t i = 0; i < n_args; i++) {
    int32_t n = args[i].kind == TC_ARGUMENT_TENSOR ? 1 : args[i].kind == TC_ARGUMENT_TENSORS ? args[i].n : 0;
    for (int32_t k = 0; k < n; k++) {
      tc_tensor *x = args[i].kind == TC_ARGUMENT_TENSOR ? args[i].v.tensor : args[i].v.tensors[k];
      if (x && !x->storage && api_fail(trace_compute(t, x)) != TC_STATUS_OK) return tc_last_code();
    }
  }
  tc_argument own[TRACE_TAKEN];
  if (t->numbers.count && n_args <= TRACE_TAKEN) {
    if (api_fail(trace_take_ints(t, here, op, n_args, args, own)) != TC_STATUS_OK) return tc_last_code();
    args = own;
  }
  return api_run_op(t->context, here, op, n_args, args, capacity, results, n_results);
}

bool trace_is_one_graph(const api_trace *t) {
  return !t->outer && t->building && t->segments.count == 1 && !t->broke && !t->direct;
}

tc_status trace_value(api_trace *t, tc_tensor *x, tc_value **out) {
  int64_t ref;
  TC_TRY(trace_operand(t, x, &ref));
  TC_TRY(line_add_inputs(t, t->line, trace_now(t), trace_now(t)->n_inputs));
  *out = ref >= 0 ? t->line->slots.data[ref].value : t->line->inputs.data[TRACE_INPUT(ref)];
  return TC_OK;
}

tc_status trace_add_node(api_trace *t, const char *here, const tc_node *n, tc_tensor **results) {
  trace_record r = {.op = n->op, .here = here, .word = t->words.count, .n_words = 1, .slot = t->slots.count};
  r.inputs = trace_now(t)->n_inputs;
  if (!api_reserve(t->context, &t->words, 1) || !api_push(t->context, &t->records, r)) return tc_error_out_of_memory();
  t->words.data[t->words.count++] = (uint64_t)(uintptr_t)n->op;
  trace_now(t)->n_records++;
  TC_TRY(line_add_control(t, t->line, &r, n));
  int32_t code = give_results(t, n->n_results, results, NULL);
  return code == TC_STATUS_OK ? TC_OK : tc_error(code, "%s", tc_last_error());
}

typedef struct recording {
  api_trace *t;
  const char *here;
  const tc_op *op;
  int32_t n_args;
  const tc_argument *args;
  bool room;
} recording;

static tc_status record(void *arg) {
  recording *q = arg;
  TC_TRY(trace_encode(q->t, q->here, q->op, q->n_args, q->args));
  tc_status s = advance(q->t, &q->room);
  if (s != TC_OK) drop_record(q->t);
  return s;
}

int32_t api_trace_op(api_trace *t, const char *here, const tc_op *op, int32_t n_args, const tc_argument *args,
                     int32_t capacity, tc_tensor **results, int32_t *n_results) {
  if (t->outer) return control_region_op(t, here, op, n_args, args, capacity, results, n_results);
  if (t->direct) return run_direct(t, here, op, n_args, args, capacity, results, n_results);
  recording q = {.t = t, .here = here, .op = op, .n_args = n_args, .args = args, .room = true};
  t->symbolic = false;
  tc_status s = trace_plainly(t, op, record(&q), record, &q);
  if (s != TC_OK) return api_fail(tc_status_note(s, "at %s", here));
  if (q.room) return give_results(t, capacity, results, n_results);
  drop_record(t);
  t->direct = true; // what is recorded runs now, all else when it is called
  if (api_fail(trace_flush(t)) != TC_STATUS_OK) return tc_last_code();
  return run_direct(t, here, op, n_args, args, capacity, results, n_results);
}

int32_t api_trace_break(api_trace *t, const char *here, const char *reason) {
  const char *at = *here ? " at " : "";
  if (t->outer) {
    t->broke = true;
    return api_fail_text(TC_STATUS_CANCELLED, "graph break in a region of control flow: %s%s%s", reason, at, here);
  }
  if (t->line && t->line->gradients)
    return api_fail_text(TC_STATUS_UNIMPLEMENTED, "graph break behind tc_grad, which needs one graph: %s%s%s", reason,
                         at, here);
  if (tc_config_bool(t->context->config, TC_OPT_ID_FULLGRAPH))
    return api_fail_text(TC_STATUS_CANCELLED, "graph break: %s%s%s", reason, at, here);
  if (t->building || !t->broke)
    tc_log(&t->context->logger, TC_LOG_GRAPH_BREAKS, TC_SV_FMT " [%d] graph break behind segment %d of %d ops: %s%s%s",
           TC_SV_ARG(trace_function_name(t)), trace_function_id(t), t->segments.count - 1, trace_now(t)->n_records,
           reason, at, here);
  t->broke = true;
  return TC_STATUS_OK;
}

int32_t api_trace_read(api_trace *t, const char *here, const char *reason, tc_tensor *x, bool writes) {
  int32_t code = api_trace_break(t, here, reason);
  if (code != TC_STATUS_OK) return code;
  const api_tensor *a = api_of(x);
  bool own = a->trace == t;
  if (a->trace && !own) return api_fail_text(TC_STATUS_INVALID_ARGUMENT, "a tensor of another capture is used");
  if (own) trace_want(t, x);
  tc_status s = TC_OK;
  if (writes || trace_now(t)->writes) s = trace_flush(t); // also where x is older than what is recorded
  if (s == TC_OK && own && !x->storage) s = trace_compute(t, x);
  const tc_storage *storage = x->storage;
  if (s == TC_OK && writes && storage) s = pin(t, &storage, 1);
  return api_fail(s);
}

// ---- sizes as numbers ----
typedef struct fixing {
  api_trace *t;
  const tc_sym *size;
  int64_t value;
  const tc_sym *condition;
} fixing;

static tc_status compare(void *arg) {
  fixing *f = arg;
  tc_sym_ctx *c = f->t->line->module->syms;
  f->condition = tc_sym_cmp(c, TC_SYM_EQ, f->size, tc_sym_int(c, f->value));
  return TC_OK;
}

// A graph without breaks holds for this size only. Where there is a break the body runs each time, and reads it anew.
static tc_status specialise(api_trace *t, const char *here, const tc_value *v, int32_t dim, bool stride,
                            int64_t value) {
  fixing f = {t, stride ? v->type.strides[dim] : v->type.sizes[dim], value, NULL};
  if (tc_sym_is_const(f.size)) return TC_OK;
  TC_TRY(tc_arena_guard(t->line->module->arena, compare, &f));
  return api_push(t->context, &t->reads, ((trace_read){f.condition, here})) ? TC_OK : tc_error_out_of_memory();
}

static const tc_value *value_of_input(const api_trace *t, const tc_tensor *x) {
  for (int32_t i = 0; i < t->n_given && i < t->line->inputs.count; i++)
    if (t->handles.data[i] == x) return t->line->inputs.data[i];
  return NULL;
}

// In a region: by the graph around, which is specialised to it.
static int64_t region_size(api_trace *r, const char *here, tc_tensor *x, int32_t dim, bool stride) {
  api_trace *t = r->outer;
  while (t->outer) t = t->outer;
  const tc_value *v = api_of(x)->trace == r ? r->values.data[api_of(x)->slot] : NULL;
  if (!v) return stride ? x->strides[dim] : x->sizes[dim];
  int64_t value = tc_sym_hint_or(r->line->module->syms, stride ? v->type.strides[dim] : v->type.sizes[dim], -1);
  if (value < 0) return api_trace_break(r, here, "a size that depends on data is read"), -1;
  return api_fail(specialise(t, here, v, dim, stride, value)) == TC_STATUS_OK ? value : -1;
}

int64_t api_trace_size(api_trace *t, const char *here, tc_tensor *x, int32_t dim, bool stride) {
  if (t->outer) return region_size(t, here, x, dim, stride);
  const api_tensor *a = api_of(x);
  bool first = t->building && t->segments.count == 1 && !t->broke, own = a->trace == t;
  int64_t value = stride ? x->strides[dim] : x->sizes[dim];
  tc_status s = TC_OK;
  if (own && !x->storage) {
    bool pending = a->slot >= trace_now(t)->slot;
    const line_slot *q = pending && t->line ? &t->line->slots.data[a->slot - trace_now(t)->slot] : NULL;
    const tc_sym_code *codes = !q ? NULL : stride ? q->strides : q->sizes;
    if (codes) {
      s = tc_sym_run(codes[dim], t->symbols.data, &value);
      if (s == TC_OK && first) s = specialise(t, here, q->value, dim, stride, value);
    } else if (pending && api_trace_break(t, here, "a size that depends on data is read") != TC_STATUS_OK) {
      return -1;
    } else {
      s = trace_compute(t, x);
      value = stride ? x->strides[dim] : x->sizes[dim];
    }
  } else if (!own && first) {
    const tc_value *v = value_of_input(t, x);
    if (v) s = specialise(t, here, v, dim, stride, value);
  }
  return api_fail(s) == TC_STATUS_OK ? value : -1;
}

// ---- other numbers ----
int32_t api_trace_fact(api_trace *t, const tc_guard_fact *f) {
  while (t->outer) t = t->outer;
  for (int32_t i = 0; i < t->facts.count; i++)
    if (t->facts.data[i].at == f->at && t->facts.data[i].kind == f->kind) return TC_STATUS_OK;
  return api_push(t->context, &t->facts, *f) ? TC_STATUS_OK : api_fail(tc_error_out_of_memory());
}
