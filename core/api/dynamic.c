// Numbers that a captured function takes as symbols (tc_dynamic_int).
//
// In a graph without breaks such a number is an input of the graph: a symbol in it, and a guard on its range that reads
// the address in every check. What the body gets stands for it: an integer far from any size, by which ops know the
// number again. Where an op takes no symbol, and where the body asks for the value, the number is guarded to stay what
// it is. Once the function breaks its body runs in every call, so that what stands for the number becomes its value.
#include <string.h>

#include "core/api/trace.h"

// What stands for number i is FIRST + i·APART: a sum of it and a small number stands for none.
static const int64_t first = -((int64_t)1 << 62);
enum { APART = 1 << 20 };

static api_trace *root_of(api_trace *t) {
  while (t->outer) t = t->outer;
  return t;
}

const trace_number *trace_number_of(const api_trace *t, int64_t v) {
  if (v < first || (v - first) % APART != 0 || (v - first) / APART >= t->numbers.count) return NULL;
  return &t->numbers.data[(v - first) / APART];
}

trace_number *trace_number_at(const api_trace *t, const trace_segment *s, int32_t input) {
  if (s->input != 0 || t->settled) return NULL;
  for (int32_t i = 0; i < t->numbers.count; i++)
    if (t->numbers.data[i].symbolic && t->numbers.data[i].input == input) return &t->numbers.data[i];
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
  if (!q) return TC_OK;
  if (t == root && q->symbolic && !root->settled && takes(op, arg)) return TC_OK;
  *v = q->value;
  return root->settled ? TC_OK : hold(root, q, here);
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

void trace_symbols_in(const api_trace *t, tc_module *m, tc_arg *a) {
  if (t->numbers.count == 0 || t->settled) return;
  const trace_number *q = a->kind == TC_AK_INT && tc_sym_is_const(a->sym) ? trace_number_of(t, a->sym->value) : NULL;
  if (q) *a = tc_arg_sym(q->symbol);
  if (a->kind != TC_AK_INTS) return;
  const tc_sym **own = TC_NEW_ARRAY(m->arena, const tc_sym *, a->n + 1);
  for (int32_t i = 0; i < a->n; i++) {
    q = tc_sym_is_const(a->syms[i]) ? trace_number_of(t, a->syms[i]->value) : NULL;
    own[i] = q ? q->symbol : a->syms[i];
  }
  *a = tc_arg_syms(own, a->n);
}

void trace_settle(api_trace *t) {
  for (int32_t i = 0; i < t->records.count; i++) {
    uint64_t *word = &t->words.data[t->records.data[i].word + 1];
    for (int32_t k = 0; k < t->records.data[i].n_args; k++) {
      tc_argument a;
      const int64_t *refs;
      uint64_t *next = word + (trace_read_argument(word, &a, &refs) - word);
      bool ints = a.kind == TC_ARGUMENT_INT || a.kind == TC_ARGUMENT_INTS;
      for (uint64_t *w = word + 1; w < next && ints; w++) {
        const trace_number *q = trace_number_of(t, (int64_t)*w);
        if (q) *w = (uint64_t)q->value;
      }
      word = next;
    }
  }
  t->settled = true;
}

// The number as one more input of the segment.
static tc_status add_number(api_trace *t, trace_number q, int64_t *out) {
  tc_tensor value;
  TC_TRY(tc_tensor_create(t->context->allocator, TC_I64, 0, NULL, &value));
  memcpy(tc_tensor_data(&value), &q.value, sizeof q.value);
  if (!api_reserve(t->context, &t->handles, 1) || !api_reserve(t->context, &t->inputs, 1) ||
      !api_reserve(t->context, &t->numbers, 1)) {
    tc_tensor_unref(&value);
    return tc_error_out_of_memory();
  }
  tc_tensor *handle = api_wrap(t->context, value);
  if (!handle) return tc_error_out_of_memory();
  t->handles.data[t->handles.count++] = tc_retain(handle);
  t->inputs.data[t->inputs.count++] = *handle;
  q.input = trace_now(t)->n_inputs++;
  if (q.symbolic) *out = first + (int64_t)t->numbers.count * APART;
  t->numbers.data[t->numbers.count++] = q;
  return q.symbolic ? line_add_inputs(t, t->line, trace_now(t), trace_now(t)->n_inputs) : TC_OK;
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
  bool whole = t->building && t->segments.count == 1 && !t->broke && !t->direct;
  for (int32_t i = 0; i < t->numbers.count; i++)
    if (t->numbers.data[i].at == at && (!t->settled || !whole))
      return t->numbers.data[i].symbolic && !t->settled ? (tc_dynamic){first + (int64_t)i * APART} : d;
  if (whole && trace_function_is_never(t)) {
    api_fail(hold(t, &q, here));
    return d;
  }
  q.symbolic = whole;
  if (t->segments.count == 1 && !t->direct) api_fail(add_number(t, q, &d.as_argument));
  return d;
}

int64_t tc_dynamic_value_at(const char *here, tc_dynamic d) {
  if (!api_current_trace()) return d.as_argument;
  api_trace *t = root_of(api_current_trace());
  const trace_number *q = trace_number_of(t, d.as_argument);
  if (!q) return d.as_argument;
  if (!t->settled) api_fail(hold(t, q, here));
  return q->value;
}
