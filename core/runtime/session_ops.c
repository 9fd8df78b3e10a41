// Nodes of a session that run on the context's cache of single ops (core/runtime/eager.h): in modes that do one op at a
// time a node is compiled when it runs for the first time, for its dtypes and layouts, with symbols for its sizes, so
// that neither another size of the program nor another program with such a node compiles it again.
//
// What is no call of a single op stays a segment of the session, of one node: what draws random numbers (the session
// says which), kernels by hand, nodes with numbers from data, and those whose integers depend on sizes (these would be
// part of the key). Views have no code, and may have such integers. Programs with control flow, effects or delegates,
// and those that count elements of storages, stay plans.
#include <string.h>

#include "core/passes/passes.h"
#include "core/runtime/eager.h"
#include "core/runtime/session_internal.h"

static const tc_sym *integer_of(const tc_arg *a) { return a->value ? a->value->symbol : a->sym; }

static bool are_known(const tc_arg *a) {
  for (int32_t i = 0; i < a->n; i++)
    if (!tc_sym_is_const(a->syms[i])) return false;
  return true;
}

static bool takes_argument(const tc_node *n, int32_t i) {
  const tc_arg *a = &n->args[i];
  switch (a->kind) {
  case TC_AK_TENSOR: return a->value && a->value->kind == TC_VALUE_TENSOR;
  case TC_AK_TENSORS:
    for (int32_t k = 0; k < a->n; k++)
      if (a->values[k] && a->values[k]->kind != TC_VALUE_TENSOR) return false;
    return true;
  case TC_AK_INT:
    if (!a->value && tc_sym_is_const(a->sym)) return true;
    return tc_node_is_view(n) || (n->op->schema.args[i].type == TC_ST_SCALAR && tc_op_takes_numbers(n->op));
  case TC_AK_INTS: return tc_node_is_view(n) || are_known(a);
  case TC_AK_FLOAT:
  case TC_AK_BOOL: return !a->value;
  case TC_AK_NONE:
  case TC_AK_LAYOUT:
  case TC_AK_COMPLEX:
  case TC_AK_FLOATS:
  case TC_AK_BOOLS:
  case TC_AK_STRING:
  case TC_AK_DEVICE:
  case TC_AK_DTYPE:
  case TC_AK_MEMORY_FORMAT: return true;
  default: return false;
  }
}

// A size that this node, or one in front of it, takes from data.
static bool has_unbacked(const tc_node *n) {
  const tc_sym_ctx *syms = n->graph->module->syms;
  for (int32_t i = 0; i < n->n_results; i++) {
    const tc_value *v = n->results[i];
    for (int32_t d = 0; v->kind == TC_VALUE_TENSOR && d < v->type.rank; d++) {
      const tc_sym *e = v->type.sizes[d];
      if (e->kind == TC_SYM_SYMBOL && tc_sym_info_read(syms, e)->origin == TC_SYM_UNBACKED) return true;
    }
  }
  return false;
}

bool session_is_op(const tc_node *n) {
  if (n->stream || n->op->user || n->n_args > n->op->schema.n_args || tc_node_writes(n) || has_unbacked(n))
    return false;
  for (int32_t i = 0; i < n->n_results; i++)
    if (n->results[i]->kind != TC_VALUE_TENSOR && n->results[i]->kind != TC_VALUE_NONE) return false;
  for (int32_t i = 0; i < n->n_args; i++)
    if (!takes_argument(n, i)) return false;
  return n->n_results > 0;
}

// The storages that a program's steps see begin elsewhere than those of the tensors that it is called with.
bool session_runs_by_op(const tc_graph *g) {
  for (const tc_node *n = g->first; n; n = n->next) {
    if (tc_op_control(n->op) != TC_CONTROL_NONE || n->n_results == 0 || tc_node_counts_storage(n)) return false;
    for (int32_t i = 0; i < n->n_results; i++)
      if (n->results[i]->kind == TC_VALUE_TOKEN) return false;
  }
  for (int32_t i = 0; i < g->inputs.count; i++)
    if (g->inputs.data[i].value && g->inputs.data[i].value->kind == TC_VALUE_TOKEN) return false;
  return true;
}

// ---- Making steps ----
// What does not change from run to run. Tensors and integers that depend on sizes are the run's.
static tc_argument argument_of(tc_arena *arena, const tc_arg *a) {
  tc_argument x = tc_arg_nothing();
  switch (a->kind) {
  case TC_AK_TENSOR: x.kind = TC_ARGUMENT_TENSOR; break;
  case TC_AK_TENSORS: x.kind = TC_ARGUMENT_TENSORS, x.n = a->n; break;
  case TC_AK_INT: x.kind = TC_ARGUMENT_INT; break;
  case TC_AK_INTS: x.kind = TC_ARGUMENT_INTS, x.n = a->n; break;
  case TC_AK_FLOAT: x = tc_scalar_real(a->real); break;
  case TC_AK_COMPLEX: x = tc_scalar_complex(a->real, a->imag); break;
  case TC_AK_FLOATS: x.kind = TC_ARGUMENT_REALS, x.n = a->n, x.v.reals = a->reals; break;
  case TC_AK_BOOL: x = tc_scalar_bool(a->integer != 0); break;
  case TC_AK_BOOLS: x.kind = TC_ARGUMENT_BOOLS, x.n = a->n, x.v.bools = a->bools; break;
  case TC_AK_STRING:
  case TC_AK_DEVICE: x.kind = TC_ARGUMENT_TEXT, x.v.text = tc_sv_z(arena, a->text); break;
  case TC_AK_DTYPE: x.kind = TC_ARGUMENT_DTYPE, x.v.integer = a->integer; break;
  case TC_AK_MEMORY_FORMAT: x.kind = TC_ARGUMENT_MEMORY_FORMAT, x.v.integer = a->integer; break;
  default: break;
  }
  return x;
}

void session_make_op(tc_session *s, const tc_node *n, session_step *out) {
  int32_t most = 0;
  for (int32_t i = 0; i < n->n_args; i++) most += n->args[i].kind == TC_AK_TENSORS ? n->args[i].n : 1;
  out->kind = STEP_OP, out->node = n;
  out->args = TC_NEW_ARRAY(s->arena, tc_argument, n->n_args + 1);
  out->inputs = TC_NEW_ARRAY(s->arena, tc_value *, most + 1);
  for (int32_t i = 0; i < n->n_args; i++) {
    const tc_arg *a = &n->args[i];
    out->args[i] = argument_of(s->arena, a);
    if (a->kind == TC_AK_TENSOR) out->inputs[out->n_inputs++] = a->value;
    for (int32_t k = 0; a->kind == TC_AK_TENSORS && k < a->n; k++)
      if (a->values[k]) out->inputs[out->n_inputs++] = a->values[k];
    if (a->kind == TC_AK_TENSORS) out->n_listed += a->n;
    if (a->kind == TC_AK_INTS) out->n_integers += a->n;
  }
  out->outputs = n->results, out->n_outputs = n->n_results;
}

// ---- Running them ----
typedef struct op_run {
  session_env *e;
  const tc_node *node;
  tc_argument *args;
  tc_tensor **listed; // what is left of the memory for lists
  int64_t *integers;
} op_run;

static tc_status tensor_of(const op_run *r, const tc_value *v, tc_tensor **out) {
  *out = NULL;
  if (!v) return TC_OK;
  *out = &r->e->slots[v->id];
  if ((*out)->storage) return TC_OK;
  return tc_error(TC_STATUS_INTERNAL, "%%" TC_SV_FMT " is read before it is there", TC_SV_ARG(v->name));
}

static tc_status size_of(const op_run *r, const tc_sym *e, int64_t *out) {
  if (tc_session_eval(r->e->s, e, r->e->symbols, out)) return TC_OK;
  return tc_error(TC_STATUS_INVALID_ARGUMENT, "a size that is an argument is told by no input");
}

static tc_status fill_in(op_run *r, int32_t i) {
  const tc_arg *a = &r->node->args[i];
  tc_argument *x = &r->args[i];
  if (a->kind == TC_AK_TENSOR) return tensor_of(r, a->value, &x->v.tensor);
  if (a->kind == TC_AK_INT) return size_of(r, integer_of(a), &x->v.integer);
  if (a->kind == TC_AK_TENSORS) {
    for (int32_t k = 0; k < a->n; k++) TC_TRY(tensor_of(r, a->values[k], &r->listed[k]));
    x->v.tensors = r->listed;
    r->listed += a->n;
  } else if (a->kind == TC_AK_INTS) {
    for (int32_t k = 0; k < a->n; k++) TC_TRY(size_of(r, a->syms[k], &r->integers[k]));
    x->v.integers = r->integers;
    r->integers += a->n;
  }
  return TC_OK;
}

// The results are the values' from here on.
static tc_status take_results(session_env *e, const session_step *step, tc_tensor *made, int32_t n_made) {
  const tc_node *n = step->node;
  for (int32_t i = 0; i < n_made && i < n->n_results; i++) {
    e->slots[n->results[i]->id] = made[i];
    made[i] = (tc_tensor){0};
  }
  for (int32_t i = 0; i < n->n_results; i++) {
    const tc_value *v = n->results[i];
    const tc_tensor *t = &e->slots[v->id];
    if (v->kind != TC_VALUE_TENSOR) continue;
    if (!t->storage || t->rank != v->type.rank || t->dtype != v->type.dtype)
      return tc_error(TC_STATUS_INTERNAL, "result %d is another one than the program's", i);
    TC_TRY(session_bind_result(e, v));
  }
  return TC_OK;
}

static tc_status run(op_run *r, const session_step *step) {
  tc_context *c = r->e->s->context;
  tc_tensor *made;
  int32_t n_made;
  memcpy(r->args, step->args, (size_t)r->node->n_args * sizeof *r->args);
  for (int32_t i = 0; i < r->node->n_args; i++) TC_TRY(fill_in(r, i));
  TC_TRY(tc_eager_run(c->eager, r->node->op, r->node->n_args, r->args, &made, &n_made));
  tc_status s = take_results(r->e, step, made, n_made);
  for (int32_t i = 0; i < n_made; i++) tc_tensor_unref(&made[i]);
  tc_free(c->allocator, made);
  return s;
}

tc_status session_run_op(session_env *e, session_step *step) {
  const tc_node *n = step->node;
  size_t args = (size_t)(n->n_args + 1) * sizeof(tc_argument), listed = (size_t)step->n_listed * sizeof(tc_tensor *);
  char *memory = tc_alloc(e->s->context->allocator, args + listed + (size_t)step->n_integers * sizeof(int64_t));
  if (!memory) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for a run");
  op_run r = {.e = e, .node = n, .args = (tc_argument *)(void *)memory};
  r.listed = (tc_tensor **)(void *)(memory + args);
  r.integers = (int64_t *)(void *)(memory + args + listed);
  tc_status s = run(&r, step);
  tc_free(e->s->context->allocator, memory);
  return tc_status_note(s, "while running %%" TC_SV_FMT " = " TC_SV_FMT "%s" TC_SV_FMT, TC_SV_ARG(n->results[0]->name),
                        TC_SV_ARG(n->op->full_name), n->source.size ? "\n  at " : "", TC_SV_ARG(n->source));
}
