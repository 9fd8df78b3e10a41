// Running sessions, step by step.
#include <stdatomic.h>
#include <string.h>

#include "core/base/fs.h"
#include "core/base/profile.h"
#include "core/ir/refexec.h"
#include "core/runtime/session_internal.h"

// ---- Tensors as a graph wants them ----
tc_status session_to_host(const tc_session *s, const tc_tensor *t, tc_tensor *out) {
  if (s->context->device) return tc_tensor_to_host(s->context->device, t, out);
  *out = tc_tensor_ref(t);
  return TC_OK;
}

tc_status session_eval(const session_env *e, const tc_sym *x, int64_t *out) {
  if (tc_sym_is_const(x)) return *out = x->value, TC_OK;
  return tc_sym_eval(x, e->symbols, out);
}

// All symbols of x known? Evaluation of others would compute with nonsense.
static bool is_known(const session_env *e, const tc_sym *x) {
  if (x->kind == TC_SYM_SYMBOL) return x->symbol < e->s->n_symbols && e->symbols[x->symbol] != INT64_MIN;
  for (int32_t i = 0; i < x->n; i++) {
    if (!is_known(e, x->kids[i])) return false;
  }
  return true;
}

// Does the tensor have the strides of the type? One of another rank or dtype is left to the run, which says so in
// words. *strides: those that it ought to have.
static tc_status has_strides(const session_env *e, const tc_tensor *t, const tc_tensor_type *type, int64_t *strides,
                             bool *out) {
  *out = true;
  if (t->rank != type->rank || t->dtype != type->dtype) return TC_OK;
  *out = !t->neg && t->conj == (type->conj != 0);
  for (int32_t d = 0; d < t->rank; d++) {
    strides[d] = t->strides[d];
    if (is_known(e, type->strides[d])) TC_TRY(session_eval(e, type->strides[d], &strides[d]));
    if (t->sizes[d] > 1 && strides[d] != t->strides[d] && tc_tensor_numel(t) > 0) *out = false;
  }
  return TC_OK;
}

// The tensor with the strides (and the dtype) of the type; itself if it has them.
static tc_status conform(const session_env *e, const tc_tensor *t, const tc_tensor_type *type, tc_tensor *out) {
  tc_session *s = e->s;
  int64_t strides[TC_MAX_RANK];
  bool fits;
  TC_TRY(has_strides(e, t, type, strides, &fits));
  if (fits) {
    *out = tc_tensor_ref(t);
    return TC_OK;
  }
  tc_tensor host, made = {0};
  TC_TRY(session_to_host(s, t, &host));
  tc_status status = tc_tensor_create_strided(s->context->allocator, t->dtype, t->rank, t->sizes, strides, &made);
  if (status == TC_OK && type->conj) made.conj = true;
  if (status == TC_OK) status = tc_tensor_copy(&host, &made);
  tc_tensor_unref(&host);
  if (status != TC_OK) {
    tc_tensor_unref(&made);
    return status;
  }
  *out = made;
  return TC_OK;
}

// ---- Symbols ----
static tc_status bind_size(session_env *e, const tc_sym *x, int64_t v) {
  if (x->kind == TC_SYM_SYMBOL && x->symbol < e->s->n_symbols && e->symbols[x->symbol] == INT64_MIN)
    e->symbols[x->symbol] = v;
  return TC_OK;
}

tc_status session_bind_result(session_env *e, const tc_value *v) {
  const tc_tensor *t = &e->slots[v->id];
  if (!t->storage) return TC_OK;
  if (v->kind == TC_VALUE_SYM) return bind_size(e, v->symbol, tc_tensor_get_int(t, NULL));
  for (int32_t d = 0; v->kind == TC_VALUE_TENSOR && d < t->rank && d < v->type.rank; d++)
    TC_TRY(bind_size(e, v->type.sizes[d], t->sizes[d]));
  return TC_OK;
}

// Sizes such as 2*s0 + 1 are solved when no input is the plain symbol.
static bool solve(session_env *e, const tc_sym *size, int64_t v) {
  const tc_sym *open = NULL, *stack[64];
  int32_t n = 0;
  stack[n++] = size;
  while (n) {
    const tc_sym *x = stack[--n];
    if (x->kind == TC_SYM_SYMBOL && x->symbol < e->s->n_symbols && e->symbols[x->symbol] == INT64_MIN) {
      if (open && open != x) return false;
      open = x;
    }
    if (n + x->n > 64) return false;
    for (int32_t i = 0; i < x->n; i++) stack[n++] = x->kids[i];
  }
  if (!open) return false;
  // Linear in the one open symbol: two evaluations tell coefficient and rest.
  int64_t zero, one;
  tc_status s = TC_OK;
  e->symbols[open->symbol] = 0;
  s = tc_sym_eval(size, e->symbols, &zero);
  e->symbols[open->symbol] = 1;
  if (s == TC_OK) s = tc_sym_eval(size, e->symbols, &one);
  e->symbols[open->symbol] = INT64_MIN;
  bool ok = s == TC_OK && one != zero && (v - zero) % (one - zero) == 0;
  tc_status_free(s);
  if (!ok) return false;
  int64_t found = (v - zero) / (one - zero), check;
  e->symbols[open->symbol] = found;
  s = tc_sym_eval(size, e->symbols, &check);
  if (s != TC_OK || check != v) e->symbols[open->symbol] = INT64_MIN;
  tc_status_free(s);
  return true;
}

static void bind_inputs(session_env *e, const tc_tensor *inputs) {
  const tc_graph *g = e->s->graph;
  for (int32_t pass = 0; pass < 2; pass++) {
    for (int32_t i = 0; i < g->inputs.count; i++) {
      const tc_value *v = g->inputs.data[i].value;
      const tc_tensor *t = &inputs[i];
      if (!v || !t->storage) continue;
      if (v->kind == TC_VALUE_SYM && t->rank == 0 && !tc_dtype_is_float(t->dtype) && t->storage->device == 0)
        solve(e, v->symbol, tc_tensor_get_int(t, NULL));
      for (int32_t d = 0; v->kind == TC_VALUE_TENSOR && d < v->type.rank && d < t->rank; d++)
        if (!tc_sym_is_const(v->type.sizes[d])) solve(e, v->type.sizes[d], t->sizes[d]);
      if (pass == 1 && v->kind == TC_VALUE_TENSOR) solve(e, v->type.offset, t->offset);
    }
  }
}

// ---- Steps ----
static tc_run_options options_of(const session_env *e) {
  return (tc_run_options){.symbols = e->symbols,
                          .n_symbols = e->s->n_symbols,
                          .seed = e->options->seed,
                          .stream = e->options->stream,
                          .device_outputs = !e->s->whole || e->options->device_outputs,
                          .in_place = e->s->whole && e->options->write_back,
                          .report = e->options->report};
}

static tc_status run_exec(session_env *e, session_step *step, const tc_tensor *inputs, tc_tensor *outputs) {
  tc_run_options o = options_of(e);
  if (e->options->watch) {
    int32_t segment = 0;
    for (const session_step *x = e->s->steps; x < step; x++) segment += x->kind == STEP_EXEC;
    TC_TRY(e->options->watch->begin(e->options->watch->exec.self, segment, inputs));
    o.watch = &e->options->watch->exec;
  }
  return tc_exec_run_with(step->compiled.exec, inputs, outputs, &o);
}

static tc_status run_ref(session_env *e, session_step *step, const tc_tensor *inputs, tc_tensor *outputs,
                         int32_t n_inputs) {
  tc_session *s = e->s;
  tc_ref_options o = {.wide = s->context->is_ref && tc_config_bool(s->context->config, TC_OPT_ID_REF_WIDE),
                      .seed = e->options->seed,
                      .stream = e->options->stream};
  pthread_mutex_lock(&s->lock);
  tc_status status = tc_ref_run(step->graph, s->context->allocator, n_inputs, inputs, outputs, &o);
  pthread_mutex_unlock(&s->lock);
  return status;
}

// On the host, with the strides of the program and no flags.
static tc_status take_plain(session_env *e, const tc_tensor *t, const tc_tensor_type *type, tc_tensor *out) {
  tc_tensor shaped;
  TC_TRY(conform(e, t, type, &shaped));
  tc_status status = session_to_host(e->s, &shaped, out);
  tc_tensor_unref(&shaped);
  return status;
}

static tc_status run_delegate(session_env *e, session_step *step, const tc_tensor *inputs, tc_tensor *outputs) {
  const tc_allocator *a = e->s->context->allocator;
  tc_status status = TC_OK;
  int32_t n = 0;
  for (; n < step->n_outputs && status == TC_OK; n++) {
    const tc_tensor_type *t = &step->outputs[n]->type;
    int64_t sizes[TC_MAX_RANK], strides[TC_MAX_RANK];
    for (int32_t d = 0; d < t->rank && status == TC_OK; d++) {
      status = session_eval(e, t->sizes[d], &sizes[d]);
      if (status == TC_OK) status = session_eval(e, t->strides[d], &strides[d]);
    }
    if (status == TC_OK) status = tc_tensor_create_strided(a, t->dtype, t->rank, sizes, strides, &outputs[n]);
  }
  if (status == TC_OK) status = tc_delegate_run(step->delegated, step->n_inputs, inputs, step->n_outputs, outputs);
  for (int32_t i = 0; i < n && status != TC_OK; i++) tc_tensor_unref(&outputs[i]);
  return status;
}

static tc_status take(session_env *e, session_step *step, tc_tensor *inputs) {
  for (int32_t k = 0; k < step->n_inputs; k++) {
    const tc_value *v = step->inputs[k];
    const tc_tensor *t = &e->slots[v->id];
    if (!t->storage)
      return tc_error(TC_STATUS_INTERNAL, "%%" TC_SV_FMT " is read before it is there", TC_SV_ARG(v->name));
    if (step->kind == STEP_REF) TC_TRY(session_to_host(e->s, t, &inputs[k]));
    else if (step->kind == STEP_DELEGATE) TC_TRY(take_plain(e, t, &v->type, &inputs[k]));
    else if (v->kind == TC_VALUE_TENSOR) TC_TRY(conform(e, t, &v->type, &inputs[k]));
    else inputs[k] = tc_tensor_ref(t);
  }
  for (int32_t k = 0; k < step->n_symbols; k++) {
    int64_t v = e->symbols[step->symbols[k]->symbol];
    if (v == INT64_MIN)
      return tc_error(TC_STATUS_INVALID_ARGUMENT, "the size " TC_SV_FMT " is told by no input",
                      TC_SV_ARG(step->symbols[k]->name));
    TC_TRY(tc_tensor_create(e->s->context->allocator, TC_I64, 0, NULL, &inputs[step->n_inputs + k]));
    memcpy(tc_tensor_data(&inputs[step->n_inputs + k]), &v, sizeof v);
  }
  return TC_OK;
}

static tc_status run_read(session_env *e, const tc_node *n) {
  tc_tensor host, *out = &e->slots[n->results[0]->id];
  const tc_tensor *t = &e->slots[n->args[0].value->id];
  if (!t->storage || tc_tensor_numel(t) != 1)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "%%" TC_SV_FMT " is not one number", TC_SV_ARG(n->args[0].value->name));
  TC_TRY(session_to_host(e->s, t, &host));
  int64_t zero[TC_MAX_RANK] = {0}, v = tc_tensor_get_int(&host, zero);
  tc_tensor_unref(&host);
  const tc_sym *symbol = n->results[0]->symbol;
  if (symbol && symbol->kind == TC_SYM_SYMBOL) { // a size that cannot be one
    const tc_sym_info *info = tc_sym_info_read(e->s->graph->module->syms, symbol);
    if (v < info->lo || v > info->hi)
      return tc_error(TC_STATUS_INVALID_ARGUMENT,
                      "%lld, read from %%" TC_SV_FMT ", lies outside of [%lld, %lld]%s" TC_SV_FMT, (long long)v,
                      TC_SV_ARG(n->args[0].value->name), (long long)info->lo, (long long)info->hi,
                      n->source.size ? "\n  at " : "", TC_SV_ARG(n->source));
  }
  TC_TRY(tc_tensor_create(e->s->context->allocator, TC_I64, 0, NULL, out));
  memcpy(tc_tensor_data(out), &v, sizeof v);
  return session_bind_result(e, n->results[0]);
}

// What must hold of the symbols that are known by now.
static tc_status check_symbols(const session_env *e) {
  return tc_graph_check(e->s->graph, e->s->n_symbols, e->symbols, NULL);
}

static tc_status run_step(session_env *e, session_step *step) {
  tc_session *s = e->s;
  if (step->kind == STEP_READ) return run_read(e, step->node);
  if (step->kind == STEP_CONTROL) return session_run_control(e, step);
  if (step->kind == STEP_OP) return s->run_op(e, step);
  size_t n_in = (size_t)(step->n_inputs + step->n_symbols), n_out = (size_t)step->n_outputs;
  tc_tensor *all = tc_alloc(s->context->allocator, (n_in + n_out + 1) * sizeof *all);
  if (!all) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for a run");
  tc_tensor *outputs = all + n_in;
  tc_status status = take(e, step, all);
  if (status == TC_OK)
    status = step->kind == STEP_EXEC       ? run_exec(e, step, all, outputs)
             : step->kind == STEP_DELEGATE ? run_delegate(e, step, all, outputs)
                                           : run_ref(e, step, all, outputs, (int32_t)n_in);
  for (size_t k = 0; k < n_in; k++) tc_tensor_unref(&all[k]);
  for (size_t k = 0; k < n_out && status == TC_OK; k++) {
    e->slots[step->outputs[k]->id] = outputs[k];
    status = session_bind_result(e, step->outputs[k]);
  }
  tc_free(s->context->allocator, all);
  return status;
}

static void release_last(session_env *e, int32_t n, tc_value *const *values) {
  for (int32_t i = 0; i < n; i++)
    if (e->s->last_step[values[i]->id] == e->step) tc_tensor_unref(&e->slots[values[i]->id]);
}

// Values that no later step reads. A single op's are its own; what nothing reads counts as read by the first step.
static void release_dead(session_env *e, const session_step *step) {
  tc_session *s = e->s;
  if (step->kind == STEP_OP && e->step > 0) {
    release_last(e, step->n_inputs, step->inputs);
    release_last(e, step->n_outputs, step->outputs);
    return;
  }
  for (int32_t i = 0; i < s->graph->n_values; i++) {
    if (s->last_step[i] == e->step) tc_tensor_unref(&e->slots[i]);
  }
}

// ---- Outputs ----
static tc_status number_output(session_env *e, const tc_arg *a, tc_tensor *out) {
  tc_dtype d = a->kind == TC_AK_FLOAT ? TC_F64 : a->kind == TC_AK_BOOL ? TC_BOOL : TC_I64;
  int64_t i = a->integer;
  if (a->kind != TC_AK_INT && a->kind != TC_AK_BOOL && a->kind != TC_AK_FLOAT) return TC_OK;
  if (a->kind == TC_AK_INT && a->sym) TC_TRY(session_eval(e, a->sym, &i));
  TC_TRY(tc_tensor_create(e->s->context->allocator, d, 0, NULL, out));
  if (d == TC_F64) memcpy(tc_tensor_data(out), &a->real, sizeof a->real);
  else if (d == TC_BOOL) *(uint8_t *)tc_tensor_data(out) = i != 0;
  else memcpy(tc_tensor_data(out), &i, sizeof i);
  return TC_OK;
}

static tc_status make_outputs(session_env *e, tc_tensor *outputs) {
  tc_session *s = e->s;
  for (int32_t i = 0; i < s->graph->outputs.count; i++) {
    const tc_arg *a = &s->graph->outputs.data[i].arg;
    if (!a->value) {
      TC_TRY(number_output(e, a, &outputs[i]));
      continue;
    }
    const tc_tensor *t = &e->slots[a->value->id];
    if (a->value->kind == TC_VALUE_TOKEN || a->value->kind == TC_VALUE_NONE) continue;
    if (!t->storage) return tc_error(TC_STATUS_INTERNAL, "output %d was not made", i);
    tc_tensor shaped;
    if (a->value->kind == TC_VALUE_TENSOR) TC_TRY(conform(e, t, &a->value->type, &shaped));
    else shaped = tc_tensor_ref(t);
    if (e->options->device_outputs) {
      outputs[i] = shaped;
      continue;
    }
    tc_status status = session_to_host(s, &shaped, &outputs[i]);
    tc_tensor_unref(&shaped);
    TC_TRY(status);
  }
  return TC_OK;
}

// Views that ops gave share the memory of inputs. What is written back goes there, so outputs must not lie there then.
static tc_status own_outputs(const session_env *e, const tc_tensor *inputs, tc_tensor *outputs) {
  const tc_graph *g = e->s->graph;
  for (int32_t i = 0; i < g->outputs.count; i++) {
    bool shared = false;
    for (int32_t k = 0; k < g->inputs.count && !shared && outputs[i].storage; k++)
      shared = inputs[k].storage == outputs[i].storage;
    if (!shared) continue;
    tc_tensor *t = &outputs[i], own;
    TC_TRY(tc_tensor_create_strided(e->s->context->allocator, t->dtype, t->rank, t->sizes, t->strides, &own));
    own.conj = t->conj, own.neg = t->neg;
    tc_status status = tc_tensor_copy(t, &own);
    tc_tensor_unref(status == TC_OK ? t : &own);
    TC_TRY(status);
    *t = own;
  }
  return TC_OK;
}

static tc_status run_steps(session_env *e, const tc_tensor *inputs, tc_tensor *outputs) {
  tc_session *s = e->s;
  for (int32_t i = 0; i < s->graph->inputs.count; i++) {
    const tc_value *v = s->graph->inputs.data[i].value;
    if (v && inputs[i].storage) e->slots[v->id] = tc_tensor_ref(&inputs[i]);
  }
  TC_TRY(check_symbols(e));
  for (int32_t i = 0; i < s->n_steps; i++) {
    e->step = i;
    TC_TRY(run_step(e, &s->steps[i]));
    TC_TRY(check_symbols(e)); // it may have told one
    release_dead(e, &s->steps[i]);
  }
  TC_TRY(make_outputs(e, outputs));
  return s->run_op && s->mutates && e->options->write_back ? own_outputs(e, inputs, outputs) : TC_OK;
}

// The references take the inputs that have values, without gaps.
static tc_status run_whole_ref(session_env *e, const tc_tensor *inputs, tc_tensor *outputs) {
  tc_session *s = e->s;
  int32_t n = 0;
  tc_tensor *dense = tc_alloc(s->context->allocator, (size_t)(s->graph->inputs.count + 1) * sizeof *dense);
  if (!dense) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for a run");
  for (int32_t i = 0; i < s->graph->inputs.count; i++) {
    if (s->graph->inputs.data[i].value) dense[n++] = inputs[i];
  }
  tc_status status = run_ref(e, &s->steps[0], dense, outputs, n);
  tc_free(s->context->allocator, dense);
  return status;
}

// ---- State ----
tc_status session_make_private(tc_session *s, int32_t i) {
  tc_storage *old = s->state[i].storage, *fresh;
  if (s->private_[i]) return TC_OK;
  TC_TRY(tc_storage_create(s->context->allocator, old->size ? old->size : 1, &fresh));
  if (old->size) memcpy(fresh->data, old->data, old->size);
  tc_storage_ref(old);
  for (int32_t k = 0; k < s->graph->inputs.count; k++) {
    if (s->state[k].storage != old) continue;
    tc_storage_ref(fresh);
    tc_storage_unref(old);
    s->state[k].storage = fresh;
    s->private_[k] = true;
  }
  tc_storage_unref(old);
  tc_storage_unref(fresh);
  return TC_OK;
}

static tc_status store(tc_session *s, int32_t input, const tc_tensor *given, const tc_tensor *value) {
  bool state = s->graph->inputs.data[input].kind != TC_IN_USER && !given->storage;
  if (state) TC_TRY(session_make_private(s, input));
  const tc_tensor *to = state ? &s->state[input] : given;
  if (to->storage == value->storage && to->offset == value->offset) return TC_OK;
  tc_tensor host;
  TC_TRY(session_to_host(s, value, &host));
  tc_status status = to->storage->device
                         ? tc_error(TC_STATUS_UNIMPLEMENTED, "an input that is changed must be on the host")
                         : tc_tensor_copy(&host, to);
  tc_tensor_unref(&host);
  return status;
}

// State that kernels will change must be the session's own.
static tc_status own_changed_state(tc_session *s, const tc_tensor *given) {
  const tc_exec *e = s->whole && s->steps[0].kind == STEP_EXEC ? s->steps[0].compiled.exec : NULL;
  for (int32_t i = 0; e && i < s->graph->inputs.count; i++)
    if (!given[i].storage && s->state[i].storage && tc_exec_writes_input(e, i)) TC_TRY(session_make_private(s, i));
  return TC_OK;
}

static tc_status write_back(tc_session *s, const tc_tensor *given, const tc_tensor *outputs) {
  const tc_graph *g = s->graph;
  for (int32_t i = 0; i < g->outputs.count; i++) {
    const tc_graph_output *o = &g->outputs.data[i];
    if (o->kind < TC_OUT_BUFFER_MUTATION || o->kind > TC_OUT_PARAMETER_MUTATION || !outputs[i].storage) continue;
    for (int32_t k = 0; k < g->inputs.count; k++) {
      const tc_graph_input *in = &g->inputs.data[k];
      if (!in->value || !tc_sv_eq(in->target, o->target) ||
          (o->kind == TC_OUT_INPUT_MUTATION) != (in->kind == TC_IN_USER))
        continue;
      TC_TRY(store(s, k, &given[k], &outputs[i]), "while storing '" TC_SV_FMT "'", TC_SV_ARG(o->target));
    }
  }
  return TC_OK;
}

// ---- A run ----
static const tc_tensor *input_of(const tc_session *s, int32_t i, const tc_tensor *given) {
  return given[i].storage ? &given[i] : &s->state[i];
}

static bool is_read(const tc_graph_input *in) { return in->value && in->value->kind != TC_VALUE_TOKEN; }

static tc_status run_on(session_env *e, const tc_tensor *inputs, tc_tensor *outputs) {
  if (!e->s->whole) return run_steps(e, inputs, outputs);
  if (e->s->steps[0].kind == STEP_EXEC) return run_exec(e, &e->s->steps[0], inputs, outputs);
  return run_whole_ref(e, inputs, outputs);
}

// Can the run take what it is given, without state and copies? Most can, and then no tensor is touched.
static tc_status takes_given(session_env *e, const tc_tensor *given, bool *out) {
  const tc_graph *g = e->s->graph;
  int64_t strides[TC_MAX_RANK];
  *out = false;
  for (int32_t i = 0; i < g->inputs.count; i++)
    if (is_read(&g->inputs.data[i]) && !given[i].storage) return TC_OK;
  bind_inputs(e, given);
  for (int32_t i = 0; i < g->inputs.count; i++) {
    const tc_value *v = g->inputs.data[i].value;
    if (!v || v->kind != TC_VALUE_TENSOR) continue;
    TC_TRY(has_strides(e, &given[i], &v->type, strides, out));
    if (!*out) return TC_OK;
  }
  *out = true;
  return TC_OK;
}

static tc_status run_copies(session_env *e, const tc_tensor *given, tc_tensor *inputs, tc_tensor *outputs) {
  const tc_graph *g = e->s->graph;
  for (int32_t i = 0; i < g->inputs.count; i++) {
    const tc_graph_input *in = &g->inputs.data[i];
    const tc_tensor *t = input_of(e->s, i, given);
    if (!is_read(in)) continue;
    if (!t->storage)
      return tc_error(TC_STATUS_INVALID_ARGUMENT, "input '" TC_SV_FMT "' is missing",
                      TC_SV_ARG(in->target.size ? in->target : in->value->name));
    inputs[i] = tc_tensor_ref(t);
  }
  bind_inputs(e, inputs);
  for (int32_t i = 0; i < g->inputs.count; i++) {
    const tc_value *v = g->inputs.data[i].value;
    if (!v || v->kind != TC_VALUE_TENSOR) continue;
    tc_tensor shaped;
    TC_TRY(conform(e, &inputs[i], &v->type, &shaped));
    tc_tensor_unref(&inputs[i]);
    inputs[i] = shaped;
  }
  return run_on(e, inputs, outputs);
}

// With inputs of its own, which are references.
static tc_status run_with_inputs(session_env *e, const tc_tensor *given, tc_tensor *outputs) {
  const tc_allocator *a = e->s->context->allocator;
  int32_t n = e->s->graph->inputs.count;
  tc_tensor *inputs = tc_alloc(a, (size_t)(n + 1) * sizeof *inputs);
  if (!inputs) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for a run");
  tc_status status = run_copies(e, given, inputs, outputs);
  for (int32_t i = 0; i < n; i++) tc_tensor_unref(&inputs[i]);
  tc_free(a, inputs);
  return status;
}

// Most runs come with what the last one came with.
static tc_status run_like_last(session_env *e, const tc_tensor *given, tc_tensor *outputs, bool *out_done) {
  *out_done = false;
  if (!e->s->whole || e->s->steps[0].kind != STEP_EXEC || e->options->watch) return TC_OK;
  tc_run_options o = options_of(e);
  o.n_symbols = 0; // they follow from the inputs
  return tc_exec_run_like_last(e->s->steps[0].compiled.exec, given, outputs, &o, out_done);
}

static tc_status run(session_env *e, const tc_tensor *given, tc_tensor *outputs, int32_t n_known) {
  tc_session *s = e->s;
  bool as_given, done;
  bool writes = e->options->write_back && s->mutates;
  if (writes) TC_TRY(own_changed_state(s, given));
  TC_TRY(run_like_last(e, given, outputs, &done));
  if (!done) {
    for (int32_t i = n_known; i < s->n_symbols; i++) e->symbols[i] = INT64_MIN;
    TC_TRY(takes_given(e, given, &as_given));
    TC_TRY(as_given ? run_on(e, given, outputs) : run_with_inputs(e, given, outputs));
  }
  return writes ? write_back(s, given, outputs) : TC_OK;
}

tc_status session_run_symbols(tc_session *s, const tc_tensor *given, tc_tensor *outputs,
                              const tc_session_run_options *options, const int64_t *symbols, int32_t n_known) {
  enum { FEW_SYMBOLS = 64 };
  static const tc_session_run_options plain = {0};
  int64_t few[FEW_SYMBOLS];
  size_t n_values = s->whole ? 0 : (size_t)s->graph->n_values, n_symbols = (size_t)s->n_symbols;
  char *memory = NULL;
  session_env e = {.s = s, .options = options ? options : &plain, .symbols = few};
  if (n_values || n_symbols > FEW_SYMBOLS) {
    memory = tc_alloc(s->context->allocator, n_values * sizeof(tc_tensor) + n_symbols * sizeof(int64_t) + 1);
    if (!memory) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for a run");
    e.slots = (tc_tensor *)(void *)memory;
    e.symbols = (int64_t *)(void *)(e.slots + n_values);
  }
  memset(outputs, 0, sizeof *outputs * (size_t)s->graph->outputs.count);
  if (e.options->report) e.options->report->n_launches = 0;
  n_known = n_known < s->n_symbols ? n_known : s->n_symbols;
  for (int32_t i = 0; i < n_known; i++) e.symbols[i] = symbols[i];
  tc_status status = run(&e, given, outputs, n_known);
  for (size_t i = 0; i < n_values; i++) tc_tensor_unref(&e.slots[i]);
  for (int32_t i = 0; status != TC_OK && i < s->graph->outputs.count; i++) tc_tensor_unref(&outputs[i]);
  tc_free(s->context->allocator, memory);
  return status;
}

// The first run of a compilation that left a folder is timed launch by launch, and noted there. Under the lock: the
// arena is used.
static tc_status run_and_note(tc_session *s, const tc_tensor *given, tc_tensor *outputs,
                              const tc_session_run_options *options) {
  tc_session_run_options o = options ? *options : (tc_session_run_options){0};
  tc_run_report report = {.capacity = tc_session_op_count(s) + 1};
  report.launches = tc_alloc(s->context->allocator, (size_t)report.capacity * sizeof *report.launches);
  if (!report.launches) return tc_error_out_of_memory();
  o.report = &report;
  double start = tc_now_ms();
  tc_status status = session_run_symbols(s, given, outputs, &o, NULL, 0);
  double ms = tc_now_ms() - start;
  if (status == TC_OK) {
    pthread_mutex_lock(&s->lock);
    tc_status noted = s->note_run ? s->note_run(s, s->debug_folder, report.launches, report.n_launches, ms) : TC_OK;
    s->note_run = NULL;
    pthread_mutex_unlock(&s->lock);
    if (noted != TC_OK)
      tc_log(&s->context->logger, TC_LOG_PERF_HINTS, "the run is not noted: %s", tc_status_text(noted));
    tc_status_free(noted);
  }
  tc_free(s->context->allocator, report.launches);
  return status;
}

tc_status tc_session_run(tc_session *s, const tc_tensor *given, tc_tensor *outputs,
                         const tc_session_run_options *options) {
  if (s->more.make || atomic_load_explicit(&s->next, memory_order_acquire))
    return session_run_fitting(s, given, outputs, options);
  if (!s->context->profile && !s->debug_folder) return session_run_symbols(s, given, outputs, options, NULL, 0);
  double start = tc_now_ms();
  pthread_mutex_lock(&s->lock);
  bool note = s->note_run && !(options && options->report);
  pthread_mutex_unlock(&s->lock);
  tc_status status =
      note ? run_and_note(s, given, outputs, options) : session_run_symbols(s, given, outputs, options, NULL, 0);
  tc_profile_span(s->context->profile, "run", s->name, start, tc_now_ms());
  return status;
}

int32_t tc_session_symbol_count(const tc_session *s) { return s->n_symbols; }

void tc_session_symbols(tc_session *s, const tc_tensor *inputs, int64_t *out) {
  session_env e = {.s = s, .symbols = out};
  for (int32_t i = 0; i < s->n_symbols; i++) out[i] = INT64_MIN;
  bind_inputs(&e, inputs);
}

bool tc_session_eval(const tc_session *s, const tc_sym *x, const int64_t *symbols, int64_t *out) {
  session_env e = {.s = (tc_session *)(uintptr_t)s, .symbols = (int64_t *)(uintptr_t)symbols};
  if (!is_known(&e, x)) return false;
  tc_status status = session_eval(&e, x, out);
  bool ok = status == TC_OK;
  tc_status_free(status);
  return ok;
}
