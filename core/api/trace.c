// Capturing: ops on recorded tensors become nodes of a graph. Memory that is short unwinds to guards that are opened
// here, never over the caller's frames.
#include <string.h>

#include "core/api/internal.h"

// ---- values ----
tc_status api_trace_value(api_trace *t, tc_tensor *x, tc_value **out) {
  api_tensor *a = api_of(x);
  if (a->trace == t) {
    *out = a->node;
    return TC_OK;
  }
  if (a->trace) return tc_error(TC_STATUS_INVALID_ARGUMENT, "a tensor of another capture is used");
  for (int32_t i = 0; i < t->captured.count; i++) {
    if (t->captured.data[i] != x) continue;
    *out = t->captured_values.data[i];
    return TC_OK;
  }
  tc_sym_ctx *c = t->module->syms;
  tc_int sizes[TC_MAX_RANK], strides[TC_MAX_RANK];
  for (int32_t d = 0; d < x->rank; d++) {
    sizes[d] = tc_sym_int(c, x->sizes[d]);
    strides[d] = tc_sym_int(c, x->strides[d]);
  }
  tc_tensor_type type = {.dtype = x->dtype,
                         .rank = x->rank,
                         .sizes = sizes,
                         .strides = strides,
                         .offset = tc_sym_int(c, 0),
                         .conj = x->conj};
  tc_sv name = tc_sv_printf(t->module->arena, "captured%d", t->captured.count);
  *out = tc_graph_add_input(t->graph, TC_IN_USER, name, name, &type);
  tc_vec_push(t->module->arena, &t->captured, tc_retain(x));
  tc_vec_push(t->module->arena, &t->captured_values, *out);
  return TC_OK;
}

// ---- ops ----
typedef struct recording {
  api_trace *t;
  const char *here;
  const tc_op *op;
  int32_t n_args;
  const tc_argument *args;
  tc_node *node;
} recording;

static tc_status record(void *arg) {
  recording *r = arg;
  tc_module *m = r->t->module;
  tc_arg *args = TC_NEW_ARRAY(m->arena, tc_arg, r->n_args + 1);
  if (r->n_args > r->op->schema.n_args)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT " takes %d arguments, %d are given",
                    TC_SV_ARG(r->op->full_name), r->op->schema.n_args, r->n_args);
  for (int32_t i = 0; i < r->n_args; i++) {
    const tc_argument *a = &r->args[i];
    TC_TRY(tc_argument_to_arg(m, a, &r->op->schema.args[i], &args[i]));
    if (a->kind == TC_ARGUMENT_TENSOR && a->v.tensor) {
      tc_value *v;
      TC_TRY(api_trace_value(r->t, a->v.tensor, &v));
      args[i] = tc_arg_tensor(v);
    } else if (a->kind == TC_ARGUMENT_TENSORS) {
      tc_value **list = TC_NEW_ARRAY(m->arena, tc_value *, a->n + 1);
      for (int32_t k = 0; k < a->n; k++) {
        if (a->v.tensors[k]) TC_TRY(api_trace_value(r->t, a->v.tensors[k], &list[k]));
      }
      args[i] = tc_arg_tensors(list, a->n);
    }
  }
  return tc_graph_add_node(r->t->graph, NULL, r->op, r->n_args, args, TC_SV(""),
                           tc_sv_copy(m->arena, tc_sv_of(r->here)), &r->node);
}

int32_t api_trace_op(api_trace *t, const char *here, const tc_op *op, int32_t n_args, const tc_argument *args,
                     int32_t capacity, tc_tensor **results, int32_t *n_results) {
  recording r = {.t = t, .here = here, .op = op, .n_args = n_args, .args = args};
  tc_status s = tc_arena_guard(t->module->arena, record, &r);
  if (s != TC_OK) return api_fail(tc_status_note(s, "at %s", here));
  int32_t n = r.node->n_results;
  if (n > capacity || (!n_results && n != capacity))
    return api_fail_text(TC_STATUS_OUT_OF_RANGE, TC_SV_FMT " gives %d results; there is room for %d\n  at %s",
                         TC_SV_ARG(op->full_name), n, capacity, here);
  for (int32_t i = 0; i < n; i++) {
    if (r.node->results[i]->kind == TC_VALUE_NONE) continue;
    if (r.node->results[i]->kind != TC_VALUE_TENSOR) return api_trace_break(t, here, "an op gives a number");
    if (!(results[i] = api_wrap_traced(t, r.node->results[i]))) return tc_last_code();
  }
  if (n_results) *n_results = n;
  return TC_STATUS_OK;
}

// ---- what cannot be recorded ----
typedef struct breaking {
  api_trace *t;
  const char *here, *reason;
} breaking;

static tc_status say_break(void *arg) {
  breaking *b = arg;
  b->t->broken = *b->here ? tc_sv_printf(b->t->module->arena, "%s at %s", b->reason, b->here)
                          : tc_sv_printf(b->t->module->arena, "%s", b->reason);
  return TC_OK;
}

int32_t api_trace_break(api_trace *t, const char *here, const char *reason) {
  breaking b = {t, here, reason};
  if (!t->broken.size) tc_status_free(tc_arena_guard(t->module->arena, say_break, &b));
  return api_fail_text(TC_STATUS_CANCELLED, "graph break: %s%s%s", reason, *here ? " at " : "", here);
}

// ---- sizes as numbers ----
typedef struct fixing {
  api_trace *t;
  const tc_sym *size;
  int64_t value;
} fixing;

static tc_status fix(void *arg) {
  fixing *f = arg;
  tc_sym_ctx *c = f->t->module->syms;
  f->value = tc_sym_hint_or(c, f->size, -1);
  if (!tc_sym_is_const(f->size))
    tc_module_require(f->t->module, tc_sym_cmp(c, TC_SYM_EQ, f->size, tc_sym_int(c, f->value)));
  return TC_OK;
}

int64_t api_trace_size(api_trace *t, const tc_sym *size) {
  fixing f = {.t = t, .size = size, .value = -1};
  if (api_fail(tc_arena_guard(t->module->arena, fix, &f)) != TC_STATUS_OK) return -1;
  return f.value;
}
