// Calling ops: at once, or into the capture that an operand belongs to.
#include "core/api/tape.h"
#include "core/api/trace.h"

int32_t tc_has_op(const tc_context *c, const char *name) { return tc_op_find(c->ops, tc_sv_of(name)) != NULL; }

// Is a required operand missing, because it failed before?
static bool is_missing(const tc_op *op, int32_t n_args, const tc_argument *args) {
  for (int32_t i = 0; i < n_args && i < op->schema.n_args; i++) {
    const tc_argument *a = &args[i];
    const tc_schema_arg *s = &op->schema.args[i];
    int32_t n = a->kind == TC_ARGUMENT_TENSOR ? 1 : a->kind == TC_ARGUMENT_TENSORS ? a->n : 0;
    if (s->is_list ? s->elements_optional : s->is_optional) continue;
    for (int32_t k = 0; k < n; k++)
      if (!(a->kind == TC_ARGUMENT_TENSOR ? a->v.tensor : a->v.tensors[k])) return true;
  }
  return false;
}

// An operand that was recorded by a function that has ended, and never computed.
static bool is_stale(int32_t n_args, const tc_argument *args) {
  for (int32_t i = 0; i < n_args; i++) {
    const tc_argument *a = &args[i];
    int32_t n = a->kind == TC_ARGUMENT_TENSOR ? 1 : a->kind == TC_ARGUMENT_TENSORS ? a->n : 0;
    for (int32_t k = 0; k < n; k++) {
      const tc_tensor *t = a->kind == TC_ARGUMENT_TENSOR ? a->v.tensor : a->v.tensors[k];
      if (t && !t->storage) return true;
    }
  }
  return false;
}

static int32_t too_many(const tc_op *op, int32_t n, int32_t capacity) {
  return api_fail_text(TC_STATUS_OUT_OF_RANGE, TC_SV_FMT " gives %d results; there is room for %d",
                       TC_SV_ARG(op->full_name), n, capacity);
}

static void note_operands(tc_tensor *result, int32_t n_args, const tc_argument *args) {
  for (int32_t i = 0; i < n_args; i++) {
    if (args[i].kind == TC_ARGUMENT_TENSOR) api_note_sharing(result, 1, &args[i].v.tensor);
    if (args[i].kind == TC_ARGUMENT_TENSORS) api_note_sharing(result, args[i].n, args[i].v.tensors);
  }
}

static void note_writes(const tc_op *op, int32_t n_args, const tc_argument *args) {
  for (int32_t i = 0; i < n_args; i++) {
    if (!op->schema.args[i].writes) continue;
    int32_t n = args[i].kind == TC_ARGUMENT_TENSOR ? 1 : args[i].kind == TC_ARGUMENT_TENSORS ? args[i].n : 0;
    for (int32_t k = 0; k < n; k++) {
      tc_tensor *t = args[i].kind == TC_ARGUMENT_TENSOR ? args[i].v.tensor : args[i].v.tensors[k];
      if (t && t->storage) api_note_write(t);
    }
  }
}

int32_t api_run_op(tc_context *c, const char *here, const tc_op *op, int32_t n_args, const tc_argument *args,
                   int32_t capacity, tc_tensor **results, int32_t *n_results) {
  tc_tensor *made;
  int32_t n, code = TC_STATUS_OK;
  tc_status s = tc_eager_run(c->eager, op, n_args, args, &made, &n);
  if (s != TC_OK) return api_fail(tc_status_note(s, "at %s", here));
  if (n > capacity || (!n_results && n != capacity)) code = too_many(op, n, capacity);
  for (int32_t i = 0; i < n; i++) {
    if (code != TC_STATUS_OK) tc_tensor_unref(&made[i]);
    else if (!made[i].storage) results[i] = NULL;
    else if (!(results[i] = api_wrap(c, made[i]))) code = tc_last_code();
    else if (!tc_sv_is(op->schema.name, "detach")) note_operands(results[i], n_args, args); // nobody follows it
  }
  note_writes(op, n_args, args);
  tc_free(c->allocator, made);
  if (n_results) *n_results = code == TC_STATUS_OK ? n : 0;
  return code;
}

int32_t tc_call_op_at(const char *here, tc_context *c, const char *name, int32_t n_args, const tc_argument *args,
                      int32_t capacity, tc_tensor **results, int32_t *n_results) {
  for (int32_t i = 0; i < capacity; i++) results[i] = NULL;
  if (n_results) *n_results = 0;
  const tc_op *op = NULL;
  const api_attempt *attempt = api_current_attempt();
  if (attempt && attempt->asked) return tc_last_code(); // it is called again
  // Without a context the first operand tells it.
  for (int32_t i = 0; i < n_args && !c; i++) {
    const tc_argument *a = &args[i];
    if (a->kind == TC_ARGUMENT_TENSOR && a->v.tensor) c = api_of(a->v.tensor)->context;
    for (int32_t k = 0; a->kind == TC_ARGUMENT_TENSORS && k < a->n && !c; k++)
      if (a->v.tensors[k]) c = api_of(a->v.tensors[k])->context;
  }
  if (!c)
    return tc_last_code() != TC_STATUS_OK
               ? tc_last_code()
               : api_fail_text(TC_STATUS_INVALID_ARGUMENT, "an op without operands needs a context\n  at %s", here);
  op = tc_op_find(c->ops, tc_sv_of(name));
  if (!op) {
    tc_status s = tc_op_find_target(c->ops, tc_sv_of(name), &op); // the error names the nearest
    if (s == TC_OK) s = tc_error(TC_STATUS_NOT_FOUND, "there is no op '%s'", name);
    return api_fail(tc_status_note(s, "at %s", here));
  }
  if (is_missing(op, n_args, args)) {
    if (tc_last_code() != TC_STATUS_OK) return tc_last_code(); // an operand failed before
    return api_fail_text(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT ": a tensor is missing\n  at %s",
                         TC_SV_ARG(op->full_name), here);
  }
  api_trace *trace = api_current_trace();
  if (trace && trace->context == c) return api_trace_op(trace, here, op, n_args, args, capacity, results, n_results);
  if (is_stale(n_args, args))
    return api_fail_text(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT ": a tensor was recorded and never computed\n  at %s",
                         TC_SV_ARG(op->full_name), here);
  if (api_on_tape(op, n_args, args)) return api_tape_op(c, here, op, n_args, args, capacity, results, n_results);
  return api_run_op(c, here, op, n_args, args, capacity, results, n_results);
}
