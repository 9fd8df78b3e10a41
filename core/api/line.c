// Lines: building them from records, finding out whether a segment is one, compiling them.
#include <string.h>

#include "core/api/trace.h"
#include "core/runtime/eager.h"

tc_status line_create(api_trace *t, api_line **out) {
  api_line *x = tc_alloc(t->context->allocator, sizeof *x);
  if (!x) return tc_error_out_of_memory();
  x->fresh = true;
  tc_status s = tc_module_create(t->context->allocator, t->context->ops, &x->module);
  if (s != TC_OK) {
    line_destroy(t->context, x);
    return s;
  }
  *out = x;
  return TC_OK;
}

void line_destroy(tc_context *c, api_line *x) {
  if (!x) return;
  tc_session_destroy(x->session);
  if (x->module) tc_module_destroy(x->module);
  tc_free(c->allocator, x);
}

int32_t line_root(const api_line *x, int32_t i) {
  while (i >= 0 && (x->slots.data[i].is_view || x->slots.data[i].is_written))
    i = x->slots.data[i].of >= 0 ? (int32_t)x->slots.data[i].of : -1;
  return i;
}

// ---- building ----
typedef struct adding {
  api_trace *t;
  api_line *x;
  const trace_segment *s;
  const trace_record *r; // NULL: inputs only
  int32_t n_inputs;
} adding;

// Does the line begin with what is recorded, whatever its inputs look like?
static bool same_words(const api_trace *t, const trace_segment *s, const api_line *x) {
  int32_t n = s->n_records;
  if (x->control || x->records.count < n) return false;
  if (n == 0) return true;
  const line_record *last = &x->records.data[n - 1];
  const trace_record *r = &t->records.data[s->record + n - 1];
  size_t bytes = (size_t)last->words * sizeof(uint64_t);
  return last->words == r->word + r->n_words - s->word && last->inputs == r->inputs &&
         memcmp(x->words.data, t->words.data + s->word, bytes) == 0;
}

// Which dimensions of input i are symbols: those that are marked, and those that differ in lines with the same calls.
static void mark_dims(const adding *a, int32_t i, tc_guard_input *how) {
  api_trace *t = a->t;
  bool first = a->s->record == 0 && a->s->input == 0;
  const tc_tensor *value = &t->inputs.data[a->s->input + i];
  *how = (tc_guard_input){0};
  if (first && i < t->n_given) *how = t->how[i];
  for (int32_t d = 0; d < value->rank && !first; d++) how->marks[d].dynamic = trace_function_is_always(t);
  if (!trace_function_is_auto(t) || !value->storage) return;
  for (const api_line *x = trace_function_lines(t); x; x = x->next)
    if (same_words(t, a->s, x)) (void)tc_guards_mark_changes(x->guards, i, value, how->marks);
}

static tc_status add_inputs(adding *a) {
  api_line *x = a->x;
  api_trace *t = a->t;
  tc_arena *arena = x->module->arena;
  if (!x->graph) {
    x->graph = tc_graph_create(x->module, TC_SV("forward"));
    x->guards = tc_guards_begin(x->module->syms);
    if (t->broke) tc_guards_numbers_from_inputs(x->guards);
  }
  for (int32_t i = x->inputs.count; i < a->n_inputs; i++) {
    const tc_tensor *value = &t->inputs.data[a->s->input + i];
    tc_guard_input how;
    tc_tensor_type type;
    tc_value *v = NULL;
    const tc_sym *symbol = NULL;
    mark_dims(a, i, &how);
    (void)tc_guards_add(x->guards, value, &how, &type);
    if (value->storage) {
      if (value->neg) return tc_error(TC_STATUS_UNIMPLEMENTED, "an input with the negative bit");
      tc_sv name = how.name.size ? how.name : tc_sv_printf(arena, "in_%d", i);
      const trace_number *q = trace_number_at(t, a->s, i);
      if (q) {
        tc_guard_fact f = {.at = q->at, .expected = q->value, .name = q->name, .origin = tc_sv_of(q->here)};
        symbol = tc_guards_add_number(x->guards, &f, q->lo, q->hi, i);
        v = tc_graph_add_number_input(x->graph, TC_IN_USER, name, name, TC_VALUE_SYM, symbol);
      } else v = tc_graph_add_input(x->graph, TC_IN_USER, name, name, &type);
    }
    tc_vec_push(arena, &x->inputs, v);
    tc_vec_push(arena, &x->numbers, symbol);
  }
  return TC_OK;
}

static tc_value *value_of(const api_line *x, int64_t ref) {
  if (ref >= 0) return x->slots.data[ref].value;
  return ref == TRACE_ABSENT ? NULL : x->inputs.data[TRACE_INPUT(ref)];
}

// Code for each of n expressions; NULL if one is known by data only.
static const tc_sym_code *codes_of(const api_line *x, int32_t n, const tc_sym *const *e) {
  tc_sym_code *out = TC_NEW_ARRAY(x->module->arena, tc_sym_code, n + 1);
  for (int32_t i = 0; i < n; i++)
    if (!tc_guards_compile(x->guards, e[i], &out[i])) return NULL;
  return out;
}

static void add_slot(adding *a, const tc_node *n, int32_t result, const int64_t *const *operands) {
  api_line *x = a->x;
  tc_value *v = n->results[result];
  line_slot s = {.record = x->records.count, .result = result, .output = -1};
  if (v->kind == TC_VALUE_TENSOR) {
    s.value = v, s.dtype = v->type.dtype, s.rank = v->type.rank, s.conj = v->type.conj != 0;
    s.sizes = codes_of(x, s.rank, v->type.sizes), s.strides = codes_of(x, s.rank, v->type.strides);
    int32_t written = tc_op_written_argument(n->op, result);
    if (written >= 0 && written < a->r->n_args && n->args[written].kind == TC_AK_TENSOR) {
      s.is_written = true, s.of = operands[written][0];
    } else if (v->view_arg < a->r->n_args && tc_value_base(v)) {
      s.is_view = true, s.of = operands[v->view_arg][v->view_item];
    }
  }
  tc_vec_push(x->module->arena, &x->slots, s);
}

// Where a condition comes from that the op asked for: the op, and the place in the body.
static tc_sv origin_of(const adding *a) {
  return tc_sv_printf(a->x->module->arena, TC_SV_FMT " at %s", TC_SV_ARG(a->r->op->full_name), a->r->here);
}

static tc_status add_node(adding *a) {
  api_line *x = a->x;
  const trace_record *r = a->r;
  tc_module *m = x->module;
  tc_arena *arena = m->arena;
  TC_TRY(add_inputs(a));
  const uint64_t *word = a->t->words.data + r->word + 1;
  tc_arg *args = TC_NEW_ARRAY(arena, tc_arg, r->n_args + 1);
  const int64_t **operands = TC_NEW_ARRAY(arena, const int64_t *, r->n_args + 1);
  for (int32_t i = 0; i < r->n_args; i++) {
    tc_argument given;
    word = trace_read_argument(word, &given, &operands[i]);
    const int64_t *refs = operands[i];
    TC_TRY(tc_argument_to_arg(m, &given, &r->op->schema.args[i], &args[i]));
    if (given.kind == TC_ARGUMENT_TENSOR) {
      if (refs[0] != TRACE_ABSENT) args[i] = tc_arg_tensor(value_of(x, refs[0]));
    } else if (given.kind == TC_ARGUMENT_INT || given.kind == TC_ARGUMENT_INTS) {
      trace_symbols_in(x, &args[i]);
    } else if (given.kind == TC_ARGUMENT_TENSORS) {
      tc_value **list = TC_NEW_ARRAY(arena, tc_value *, given.n + 1);
      for (int32_t k = 0; k < given.n; k++) list[k] = value_of(x, refs[k]);
      args[i] = tc_arg_tensors(list, given.n);
    }
  }
  tc_node *n;
  TC_TRY(
      tc_graph_add_node(x->graph, NULL, r->op, r->n_args, args, TC_SV(""), tc_sv_copy(arena, tc_sv_of(r->here)), &n));
  word = a->t->words.data + r->word;
  for (const uint64_t *end = word + r->n_words; word < end; word++) tc_vec_push(arena, &x->words, *word);
  for (int32_t i = 0; i < n->n_results; i++) {
    int32_t kind = n->results[i]->kind;
    if (kind != TC_VALUE_TENSOR && kind != TC_VALUE_NONE)
      return tc_error(TC_STATUS_UNIMPLEMENTED, TC_SV_FMT " gives a number, not a tensor: read it with tc_item_*",
                      TC_SV_ARG(r->op->full_name));
    add_slot(a, n, i, operands);
  }
  tc_guards_seal(x->guards, m, origin_of(a));
  line_record k = {x->words.count, r->inputs, tc_guards_condition_count(x->guards), x->slots.count};
  tc_vec_push(arena, &x->records, k);
  x->writes |= r->writes;
  x->n_random = m->random_nodes;
  x->keeps_all |= r->writes || x->n_random > 0;
  return TC_OK;
}

typedef struct adding_control {
  adding a;
  const tc_node *n;
} adding_control;

static tc_status add_control(void *arg) {
  adding_control *c = arg;
  api_line *x = c->a.x;
  tc_arena *arena = x->module->arena;
  tc_vec_push(arena, &x->words, (uint64_t)(uintptr_t)c->n->op);
  for (int32_t i = 0; i < c->n->n_results; i++) add_slot(&c->a, c->n, i, NULL);
  tc_guards_seal(x->guards, x->module, origin_of(&c->a));
  line_record k = {x->words.count, c->a.r->inputs, tc_guards_condition_count(x->guards), x->slots.count};
  tc_vec_push(arena, &x->records, k);
  x->control = x->keeps_all = true;
  x->n_random = x->module->random_nodes;
  return TC_OK;
}

tc_status line_add_control(api_trace *t, api_line *x, const trace_record *r, const tc_node *n) {
  adding_control c = {{.t = t, .x = x, .r = r}, n};
  return tc_arena_guard(x->module->arena, add_control, &c);
}

static tc_status add_guarded(void *arg) {
  adding *a = arg;
  return a->r ? add_node(a) : add_inputs(a);
}

// The values of the symbols of inputs that came with the last step.
static tc_status bind_symbols(api_trace *t, const api_line *x, const trace_segment *s, int32_t from) {
  int32_t have = t->symbols.count, n = tc_guards_symbol_count(x->guards);
  if (from == 0) have = 0;
  t->symbols.count = have;
  if (!api_reserve(t->context, &t->symbols, n - have + 1)) return tc_error_out_of_memory();
  for (int32_t i = have; i < n; i++) t->symbols.data[i] = INT64_MIN;
  t->symbols.count = n;
  for (int32_t i = from; i < x->inputs.count; i++)
    (void)tc_guards_check_input(x->guards, i, t->inputs.data + s->input, t->symbols.data);
  (void)tc_guards_check_numbers(x->guards, t->symbols.data);
  return TC_OK;
}

static tc_status add(adding *a) {
  int32_t from = a->x->inputs.count;
  TC_TRY(tc_arena_guard(a->x->module->arena, add_guarded, a));
  return bind_symbols(a->t, a->x, a->s, from);
}

tc_status line_add(api_trace *t, api_line *x, const trace_segment *s, const trace_record *r) {
  return add(&(adding){t, x, s, r, r->inputs});
}
tc_status line_add_inputs(api_trace *t, api_line *x, const trace_segment *s, int32_t n) {
  return add(&(adding){t, x, s, NULL, n});
}

// ---- following ----
static bool inputs_hold(api_trace *t, const api_line *x, int32_t from, int32_t to) {
  const tc_tensor *inputs = t->inputs.data + trace_now(t)->input;
  for (int32_t i = from; i < to; i++)
    if (tc_guards_check_input(x->guards, i, inputs, t->symbols.data).kind != TC_GUARD_HOLDS) return false;
  return true;
}

bool line_begins(api_trace *t, const api_line *x) {
  const trace_segment *s = trace_now(t);
  if (!same_words(t, s, x)) return false;
  int32_t n = tc_guards_symbol_count(x->guards);
  t->symbols.count = 0;
  if (!api_reserve(t->context, &t->symbols, n + 1)) return false;
  t->symbols.count = n;
  tc_guards_clear(x->guards, t->symbols.data);
  if (s->n_records == 0) return inputs_hold(t, x, 0, 0);
  const line_record *last = &x->records.data[s->n_records - 1];
  return inputs_hold(t, x, 0, last->inputs) &&
         tc_guards_check_conditions(x->guards, 0, last->conditions, t->symbols.data).kind == TC_GUARD_HOLDS;
}

bool line_goes_on(api_trace *t, const api_line *x) {
  const trace_segment *s = trace_now(t);
  const trace_record *r = &t->records.data[t->records.count - 1];
  int32_t at = s->n_records - 1;
  if (at >= x->records.count) return false;
  static const line_record none = {0};
  const line_record *next = &x->records.data[at], *before = at ? next - 1 : &none;
  if (next->words - before->words != r->n_words || next->inputs != r->inputs) return false;
  if (memcmp(x->words.data + before->words, t->words.data + r->word, (size_t)r->n_words * sizeof(uint64_t)) != 0)
    return false;
  return inputs_hold(t, x, before->inputs, next->inputs) &&
         tc_guards_check_conditions(x->guards, before->conditions, next->conditions, t->symbols.data).kind ==
             TC_GUARD_HOLDS;
}

// Compiling may have added conditions behind those of the records.
bool line_ends(api_trace *t, const api_line *x) {
  int32_t n = trace_now(t)->n_records;
  return x->records.count == n && tc_guards_check_conditions(x->guards, x->records.data[n - 1].conditions,
                                                             tc_guards_condition_count(x->guards), t->symbols.data)
                                          .kind == TC_GUARD_HOLDS;
}

// ---- compiling ----
typedef struct compiling {
  tc_context *c;
  api_line *x;
} compiling;

static tc_status compile(void *arg) {
  compiling *k = arg;
  api_line *x = k->x;
  tc_graph *g = x->graph;
  TC_VEC(int32_t) slots = {0};
  for (int32_t i = 0; i < x->slots.count; i++) {
    line_slot *s = &x->slots.data[i];
    if (!s->value || line_root(x, i) != i || !(s->needed || x->keeps_all)) continue;
    tc_graph_add_output(g, TC_OUT_USER, tc_arg_tensor(s->value), tc_sv_printf(x->module->arena, "%d", i));
    tc_vec_push(x->module->arena, &slots, i);
  }
  x->idle = slots.count == 0 && !x->writes;
  if (x->idle) return TC_OK;
  tc_graph_sweep(g);
  TC_TRY(tc_session_create(k->c, g, TC_STAGE_EXEC, &x->session));
  x->n_graph_outputs = g->outputs.count;
  for (int32_t i = 0, next = 0; i < slots.count; i++) {
    while (next < g->outputs.count && g->outputs.data[next].kind != TC_OUT_USER) next++;
    x->slots.data[slots.data[i]].output = next++;
  }
  tc_guards_seal(x->guards, x->module, TC_SV("what was compiled"));
  return TC_OK;
}

tc_status line_compile(tc_context *c, api_line *x) {
  // What is written must not be seen through another input as well: such a segment runs op by op.
  if (x->writes && tc_guards_share(x->guards)) return TC_OK;
  return tc_arena_guard(x->module->arena, compile, &(compiling){c, x});
}

tc_status line_separate(tc_context *c, int32_t n_inputs, const tc_tensor *inputs, int32_t n, tc_tensor *results) {
  for (int32_t i = 0; i < n; i++) {
    const tc_storage *mine = results[i].storage;
    bool shared = false;
    for (int32_t k = 0; k < n_inputs && mine; k++) shared |= inputs[k].storage == mine;
    for (int32_t k = 0; k < i && mine; k++) shared |= results[k].storage == mine;
    if (!shared) continue;
    tc_tensor copy = {0};
    const tc_tensor *t = &results[i];
    TC_TRY(tc_tensor_create_strided(c->allocator, t->dtype, t->rank, t->sizes, t->strides, &copy));
    copy.conj = t->conj, copy.neg = t->neg;
    tc_status s = tc_tensor_copy(t, &copy);
    if (s != TC_OK) {
      tc_tensor_unref(&copy);
      return s;
    }
    tc_tensor_unref(&results[i]);
    results[i] = copy;
  }
  return TC_OK;
}
