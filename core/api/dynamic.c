// Numbers that a captured function takes as symbols (tc_dynamic_int).
//
// What the body gets stands for the number: an integer far from any size, by which ops know it again. The number lies
// in a tensor without dimensions, too, which becomes an input of the segment with the first op that uses it; recorded
// is which input that is, so that a segment is found again wherever in a call it comes. In the graph the input is a
// symbol. A graph without breaks has a guard on its range that reads the address in every check; in a function that is
// followed the body has read it, and segments check their inputs. Where an op takes no symbol, and where the body asks
// for the value, the number is one: a guard in a graph without breaks, and one more segment elsewhere.
#include <string.h>

#include "core/api/trace.h"

// What stands for number i of the trace is FIRST + i·APART, for input i of a segment RECORDED + i·APART: a sum of it
// and a small number stands for none.
static const int64_t first = -((int64_t)1 << 62), recorded = -((int64_t)1 << 61);
enum { APART = 1 << 20 };

static api_trace *root_of(api_trace *t) {
  while (t->outer) t = t->outer;
  return t;
}

// -1: v is not one of n such integers.
static int32_t index_from(int64_t base, int64_t v, int32_t n) {
  if (v < base || v >= base + (int64_t)n * APART || (v - base) % APART != 0) return -1;
  return (int32_t)((v - base) / APART);
}

const trace_number *trace_number_of(const api_trace *t, int64_t v) {
  int32_t i = index_from(first, v, t->numbers.count);
  return i < 0 ? NULL : &t->numbers.data[i];
}

const trace_number *trace_number_at(const api_trace *t, const trace_segment *s, int32_t input) {
  const tc_tensor *handle = t->handles.data[s->input + input];
  for (int32_t i = 0; i < t->numbers.count; i++)
    if (t->numbers.data[i].handle == handle) return &t->numbers.data[i];
  return NULL;
}

// The number is not to change, because of what happens at `here`.
static tc_status hold(api_trace *t, const trace_number *q, const char *here) {
  tc_guard_fact f = {.kind = TC_FACT_INT, .expected = q->value, .at = q->at, .name = q->name, .origin = tc_sv_of(here)};
  return api_trace_fact(t, &f) == TC_STATUS_OK ? TC_OK : tc_error_out_of_memory();
}

// Does the op take a symbol there?
static bool takes(const tc_op *op, int32_t arg) {
  const tc_schema_arg *a = &op->schema.args[arg];
  return a->symbolic || (a->type == TC_ST_SCALAR && tc_op_takes_numbers(op));
}

tc_status trace_take_int(api_trace *t, const char *here, const tc_op *op, int32_t arg, int64_t *v) {
  api_trace *root = root_of(t);
  const trace_number *q = trace_number_of(root, *v);
  int64_t ref;
  if (!q) return TC_OK;
  *v = q->value;
  bool special = op->schema.args[arg].is_list && q->value < 0; // -1 among sizes is none
  if (root->direct || root->plain || special || !takes(op, arg) || trace_function_refuses(root, op))
    return hold(root, q, here);
  root->symbolic = true;
  TC_TRY(trace_operand(root, q->handle, &ref));
  if (t != root) TC_TRY(line_add_inputs(root, root->line, trace_now(root), trace_now(root)->n_inputs));
  *v = recorded + TRACE_INPUT(ref) * APART;
  return TC_OK;
}

tc_status trace_plainly(api_trace *t, const tc_op *op, tc_status s, tc_status (*again)(void *arg), void *arg) {
  if (s == TC_OK || !t->symbolic || tc_status_code(s) == TC_STATUS_OUT_OF_MEMORY) return s;
  tc_status_free(s);
  t->plain = true;
  s = again(arg);
  t->plain = false;
  if (s == TC_OK) trace_function_note_refusal(t, op);
  return s;
}

tc_status trace_take_ints(api_trace *t, const char *here, const tc_op *op, int32_t n, const tc_argument *given,
                          tc_argument *own) {
  int32_t ints = 0;
  for (int32_t i = 0; i < n; i++) ints += given[i].kind == TC_ARGUMENT_INTS ? given[i].n : 0;
  t->ints.count = 0;
  if (!api_reserve(t->context, &t->ints, ints + 1)) return tc_error_out_of_memory();
  for (int32_t i = 0; i < n; i++) {
    own[i] = given[i];
    if (given[i].kind == TC_ARGUMENT_INT) TC_TRY(trace_take_int(t, here, op, i, &own[i].v.integer));
    if (given[i].kind != TC_ARGUMENT_INTS) continue;
    own[i].v.integers = t->ints.data + t->ints.count;
    for (int32_t k = 0; k < given[i].n; k++) {
      int64_t *at = &t->ints.data[t->ints.count++];
      *at = given[i].v.integers[k];
      TC_TRY(trace_take_int(t, here, op, i, at));
    }
  }
  return TC_OK;
}

static const tc_sym *symbol_of(const api_line *x, const tc_sym *e) {
  int32_t i = tc_sym_is_const(e) ? index_from(recorded, e->value, x->numbers.count) : -1;
  return i < 0 ? NULL : x->numbers.data[i];
}

void trace_symbols_in(const api_line *x, tc_arg *a) {
  const tc_sym *symbol = a->kind == TC_AK_INT ? symbol_of(x, a->sym) : NULL;
  if (symbol) *a = tc_arg_sym(symbol);
  if (a->kind != TC_AK_INTS) return;
  const tc_sym **own = TC_NEW_ARRAY(x->module->arena, const tc_sym *, a->n + 1);
  for (int32_t i = 0; i < a->n; i++) {
    symbol = symbol_of(x, a->syms[i]);
    own[i] = symbol ? symbol : a->syms[i];
  }
  *a = tc_arg_syms(own, a->n);
}

int64_t trace_value_in(const api_trace *t, const trace_segment *s, int64_t v) {
  int32_t i = t->numbers.count ? index_from(recorded, v, s->n_inputs) : -1;
  const trace_number *q = i < 0 ? NULL : trace_number_at(t, s, i);
  return q ? q->value : v;
}

static tc_status add_number(api_trace *t, trace_number q, int64_t *out) {
  tc_tensor value;
  TC_TRY(tc_tensor_create(t->context->allocator, TC_I64, 0, NULL, &value));
  memcpy(tc_tensor_data(&value), &q.value, sizeof q.value);
  q.handle = api_wrap(t->context, value);
  if (!q.handle) return tc_error_out_of_memory();
  *out = first + (int64_t)t->numbers.count * APART;
  if (!api_push(t->context, &t->numbers, q)) return tc_error_out_of_memory();
  (void)tc_retain(q.handle); // the trace's
  return TC_OK;
}

tc_dynamic tc_dynamic_int_at(const char *here, const char *name, const int64_t *at, int64_t lo, int64_t hi) {
  trace_number q = {.at = at, .name = tc_sv_of(name ? name : "int"), .here = here, .lo = lo, .hi = hi};
  q.value = tc_guard_fact_read(TC_FACT_INT, at);
  tc_dynamic d = {q.value};
  if (q.value < lo || q.value > hi) {
    api_fail_text(TC_STATUS_INVALID_ARGUMENT, "int '" TC_SV_FMT "' is %lld, outside of [%lld, %lld]\n  at %s",
                  TC_SV_ARG(q.name), (long long)q.value, (long long)lo, (long long)hi, here);
    return d;
  }
  if (!api_current_trace()) return d;
  api_trace *t = root_of(api_current_trace());
  if (t->direct) return d;
  if (trace_function_is_never(t)) {
    api_fail(hold(t, &q, here));
    return d;
  }
  for (int32_t i = 0; i < t->numbers.count; i++) {
    const trace_number *have = &t->numbers.data[i];
    if (have->at == at && have->value == q.value && have->lo == lo && have->hi == hi)
      return (tc_dynamic){first + (int64_t)i * APART};
  }
  api_fail(add_number(t, q, &d.as_argument));
  return d;
}

int64_t tc_dynamic_value_at(const char *here, tc_dynamic d) {
  if (!api_current_trace()) return d.as_argument;
  api_trace *t = root_of(api_current_trace());
  const trace_number *q = trace_number_of(t, d.as_argument);
  if (!q) return d.as_argument;
  api_fail(hold(t, q, here));
  return q->value;
}
