// Creating executables.
//
// Every expression of the plan is compiled to postfix code; expressions without symbols are evaluated once. Kernels are
// compiled or found and loaded, libraries chosen for calls. Runs: exec_run.c.
#include "core/runtime/exec.h"

#include <string.h>

#include "core/runtime/exec_internal.h"

// ---- Expressions ----
static void note_symbols(tc_exec *e, const tc_sym *x) {
  if (x->kind == TC_SYM_SYMBOL && x->symbol >= e->n_symbols) e->n_symbols = x->symbol + 1;
  for (int32_t i = 0; i < x->n; i++) note_symbols(e, x->kids[i]);
}

// What reports and checks ask for.
static exec_number make_seldom(tc_exec *e, const tc_sym *x) {
  if (!x || tc_sym_is_const(x)) return (exec_number){.fixed = true, .value = x ? x->value : 0};
  note_symbols(e, x);
  return (exec_number){.code = tc_sym_compile(e->arena, x), .slot = -1};
}

exec_number exec_number_make(tc_exec *e, const tc_sym *x) {
  if (!x || tc_sym_is_const(x)) return make_seldom(e, x);
  bool fresh;
  tc_map_entry *known = tc_map_put_ptr(e->numbers, x, &fresh);
  if (fresh) {
    exec_number n = make_seldom(e, x);
    n.slot = e->n_numbers++;
    known->value.ptr = tc_arena_copy(e->arena, &n, sizeof n);
  }
  return *(const exec_number *)known->value.ptr;
}

tc_status exec_value(const exec_number *n, const int64_t *symbols, int64_t *out) {
  if (n->fixed) {
    *out = n->value;
    return TC_OK;
  }
  return tc_sym_run(n->code, symbols, out);
}

tc_status exec_number_of(const run_state *r, const exec_number *n, int64_t *out) {
  if (n->fixed || n->slot < 0 || !r->numbers) return exec_value(n, r->symbols, out);
  int64_t *known = &r->numbers[n->slot];
  if (*known == INT64_MIN) TC_TRY(tc_sym_run(n->code, r->symbols, known));
  *out = *known;
  return TC_OK;
}

static exec_shape make_shape(tc_exec *e, const tc_tensor_type *t, exec_number (*make)(tc_exec *e, const tc_sym *x)) {
  exec_shape s = {.sizes = TC_NEW_ARRAY(e->arena, exec_number, t->rank),
                  .strides = TC_NEW_ARRAY(e->arena, exec_number, t->rank)};
  for (int32_t d = 0; d < t->rank; d++) {
    s.sizes[d] = make(e, t->sizes[d]);
    s.strides[d] = make(e, t->strides[d]);
  }
  s.offset = make(e, t->offset);
  return s;
}

// ---- Preparation ----
static exec_arg *make_args(tc_exec *e, int32_t n, const tc_plan_arg *args) {
  exec_arg *out = TC_NEW_ARRAY(e->arena, exec_arg, n);
  for (int32_t k = 0; k < n; k++) {
    const tc_plan_arg *a = &args[k];
    out[k].buf = a->buf;
    if (a->buf < 0) {
      out[k].bytes = tc_dtype_size(a->dtype);
      out[k].scalar = exec_number_make(e, a->scalar);
    } else if (a->writes) {
      e->bufs[a->buf].written = true;
    }
  }
  return out;
}

static int32_t fact_number(tc_exec *e, const tc_sym *when) {
  int32_t k = 0;
  while (k < e->n_facts && e->fact_exprs[k] != when) k++;
  if (k < e->n_facts) return k;
  e->fact_exprs[k] = when;
  e->facts[k] = exec_number_make(e, when);
  e->n_facts++;
  return k;
}

static exec_launch make_launch(tc_exec *e, exec_op *x, const tc_plan_variant *v) {
  exec_launch l = {.fact = v->when ? fact_number(e, v->when) : -1, .number = v->kernel, .n_args = v->n_args};
  l.blocks = exec_number_make(e, v->blocks), l.grain = exec_number_make(e, v->grain);
  l.args = make_args(e, v->n_args, v->args);
  if (e->plan->kernels.data[v->kernel]->sites.count && x->errors == 0) x->errors = e->n_errors++;
  return l;
}

static void prepare_ops(tc_exec *e) {
  const tc_plan *p = e->plan;
  e->ops = TC_NEW_ARRAY(e->arena, exec_op, p->ops.count);
  int32_t n_variants = 0;
  for (int32_t i = 0; i < p->ops.count; i++) n_variants += p->ops.data[i].n_variants;
  e->facts = TC_NEW_ARRAY(e->arena, exec_number, n_variants);
  e->fact_exprs = TC_NEW_ARRAY(e->arena, const tc_sym *, n_variants);
  e->n_errors = 1;
  for (int32_t i = 0; i < p->ops.count; i++) {
    const tc_plan_op *op = &p->ops.data[i];
    exec_op *x = &e->ops[i];
    *x = (exec_op){.op = op};
    x->bytes = make_seldom(e, op->bytes), x->flops = make_seldom(e, op->flops);
    if (op->kind != TC_PLAN_LAUNCH) {
      x->args = make_args(e, op->n_args, op->args);
      continue;
    }
    tc_plan_variant general = {
        .kernel = op->kernel, .blocks = op->blocks, .grain = op->grain, .n_args = op->n_args, .args = op->args};
    x->n_launches = op->n_variants + 1;
    x->launches = TC_NEW_ARRAY(e->arena, exec_launch, x->n_launches);
    for (int32_t k = 0; k < x->n_launches; k++)
      x->launches[k] = make_launch(e, x, k < op->n_variants ? &op->variants[k] : &general);
    x->key = TC_NEW_ARRAY(e->arena, exec_number, op->n_key);
    for (int32_t k = 0; k < op->n_key; k++) x->key[k] = exec_number_make(e, op->key[k]);
  }
}

static tc_status prepare(tc_exec *e, tc_compile_stats *stats) {
  const tc_plan *p = e->plan;
  e->bufs = TC_NEW_ARRAY(e->arena, exec_buf, p->bufs.count);
  for (int32_t i = 0; i < p->bufs.count; i++) {
    const tc_plan_buf *b = &p->bufs.data[i];
    e->bufs[i].place = exec_number_make(e, b->place);
    e->bufs[i].bytes = exec_number_make(e, b->bytes);
    e->bufs[i].offset = exec_number_make(e, b->offset);
  }
  prepare_ops(e);
  for (int32_t i = 0; i < p->ops.count; i++)
    if (tc_plan_region_count(p->ops.data[i].kind)) TC_TRY(exec_control_create(e, &e->ops[i], stats));
  // Buffers of one input are one: what is written through one is seen through the others.
  for (int32_t i = 0; i < p->bufs.count; i++)
    if (p->bufs.data[i].kind == TC_PLAN_INPUT) e->bufs[i].written = tc_exec_writes_input(e, p->bufs.data[i].input);
  exec_frozen_prepare(e);
  e->outputs = TC_NEW_ARRAY(e->arena, exec_shape, p->outputs.count);
  for (int32_t i = 0; i < p->outputs.count; i++) {
    const tc_plan_output *o = &p->outputs.data[i];
    if (o->buf >= 0) e->outputs[i] = make_shape(e, &o->type, exec_number_make);
    else if (o->number.kind == TC_AK_INT && o->number.sym) note_symbols(e, o->number.sym);
  }
  int32_t n_inputs = p->graph ? p->graph->inputs.count : 0;
  e->inputs = TC_NEW_ARRAY(e->arena, exec_shape, n_inputs);
  if (!e->d->props.host_memory) e->resident = TC_NEW_ARRAY(e->arena, exec_resident, n_inputs);
  for (int32_t i = 0; i < n_inputs; i++) {
    const tc_value *v = p->graph->inputs.data[i].value;
    if (v && v->kind == TC_VALUE_TENSOR) e->inputs[i] = make_shape(e, &v->type, make_seldom);
    if (v && v->kind == TC_VALUE_SYM) note_symbols(e, v->symbol);
  }
  for (int32_t i = 0; p->graph && i < p->graph->checks.count; i++) {
    const tc_check *c = &p->graph->checks.data[i];
    note_symbols(e, c->condition);
    for (int32_t k = 0; k < c->n; k++) note_symbols(e, c->values[k]);
  }
  int32_t n_requires = p->module->requires_.count;
  e->require_text = TC_NEW_ARRAY(e->arena, const tc_sym *, n_requires);
  for (int32_t i = 0; i < n_requires; i++) {
    exec_number n = make_seldom(e, p->module->requires_.data[i]);
    e->require_text[e->requires_.count] = p->module->requires_.data[i];
    tc_vec_push(e->arena, &e->requires_, n);
  }
  e->arena_bytes = exec_number_make(e, p->arena_bytes);
  e->largest_bytes = make_seldom(e, p->largest_bytes);
  exec_rooms_prepare(e);
  exec_find_sources(e);
  return TC_OK;
}

static const tc_plan_code *code_of(const tc_exec *e, int32_t kernel) {
  return &e->plan->code[e->plan->kernels.data[kernel]->code];
}

tc_status exec_kernel(tc_exec *e, const exec_launch *v, tc_loaded **out) {
  tc_loaded **place = &e->kernels[v->number], *none = NULL;
  *out = __atomic_load_n(place, __ATOMIC_ACQUIRE);
  if (*out) return TC_OK;
  tc_compile_stats stats;
  tc_loaded *made = NULL;
  TC_TRY(e->load(e->d, 1, code_of(e, v->number), &made, &stats));
  if (__atomic_compare_exchange_n(place, &none, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    *out = made;
  } else { // another thread was first
    tc_device_release(e->d, made);
    *out = none;
  }
  return TC_OK;
}

// Those that the sizes of the example want; the first launch of an operation is theirs.
static tc_status load_first(tc_exec *e, tc_compile_stats *stats) {
  const tc_plan *p = e->plan;
  tc_plan_code *code = TC_NEW_ARRAY(e->arena, tc_plan_code, p->ops.count);
  tc_loaded **loaded = TC_NEW_ARRAY(e->arena, tc_loaded *, p->ops.count);
  int32_t n = 0, *number = TC_NEW_ARRAY(e->arena, int32_t, p->ops.count);
  for (int32_t i = 0; i < p->ops.count; i++) {
    if (e->ops[i].n_launches == 0) continue;
    int32_t first = e->ops[i].launches[0].number;
    bool again = false;
    for (int32_t k = 0; k < n; k++) again |= number[k] == first;
    if (again) continue;
    code[n] = *code_of(e, first);
    number[n++] = first;
  }
  tc_status s = e->load(e->d, n, code, loaded, stats);
  for (int32_t k = 0; k < n; k++) e->kernels[number[k]] = loaded[k]; // of a failure, too: what there is is released
  return s;
}

static bool has_texts(const tc_plan *p) {
  for (int32_t i = 0; i < p->n_code; i++)
    if (!p->code[i].text.size) return false;
  return p->n_code > 0;
}

static tc_status load(tc_exec *e, tc_compile_stats *stats) {
  const tc_plan *p = e->plan;
  const tc_kernel **kernels = TC_NEW_ARRAY(e->arena, const tc_kernel *, p->kernels.count);
  e->kernels = TC_NEW_ARRAY(e->arena, tc_loaded *, p->kernels.count);
  tc_plan_code *code = TC_NEW_ARRAY(e->arena, tc_plan_code, p->n_code ? p->kernels.count : 0);
  for (int32_t i = 0; i < p->kernels.count; i++) {
    kernels[i] = p->kernels.data[i]->kernel;
    if (p->n_code) code[i] = p->code[p->kernels.data[i]->code];
    else if (!kernels[i])
      return tc_error(TC_STATUS_INVALID_ARGUMENT, "the plan has no kernel @" TC_SV_FMT,
                      TC_SV_ARG(p->kernel_names.data[i]));
  }
  *stats = (tc_compile_stats){.kernels = p->kernels.count, .hits = p->kernels.count};
  if (!has_texts(p)) e->load = NULL;
  if (e->load) TC_TRY(load_first(e, stats));
  else if (p->n_code) TC_TRY(tc_device_load_code(e->d, e->arena, p->kernels.count, code, e->kernels));
  else TC_TRY(tc_device_load(e->d, e->arena, p->kernels.count, kernels, e->kernels, stats));
  for (int32_t i = 0; i < p->ops.count; i++) {
    exec_op *x = &e->ops[i];
    if (x->op->kind == TC_PLAN_CALL) TC_TRY(exec_call_create(e, x));
  }
  return TC_OK;
}

typedef struct creation {
  tc_exec *e;
  tc_compile_stats *stats;
} creation;
static tc_status create_guarded(void *arg) {
  creation *c = arg;
  c->e->numbers = tc_map_create(c->e->arena);
  TC_TRY(prepare(c->e, c->stats));
  TC_TRY(load(c->e, c->stats));
  exec_last_prepare(c->e);
  return TC_OK;
}

static tc_status create_exec(tc_device *d, const tc_plan *plan, const tc_trial *trial, tc_exec_load load_late,
                             tc_exec **out, tc_compile_stats *stats) {
  tc_exec *e = tc_alloc(d->allocator, sizeof *e);
  if (!e) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for an executable");
  e->d = d;
  e->plan = plan;
  e->trial = trial, e->load = load_late;
  pthread_mutex_init(&e->lock, NULL);
  tc_status s = tc_arena_create(d->allocator, &e->arena);
  creation c = {e, stats};
  if (s == TC_OK) s = tc_arena_guard(e->arena, create_guarded, &c);
  e->trial = NULL;
  if (s != TC_OK) {
    tc_exec_destroy(e);
    return s;
  }
  *out = e;
  return TC_OK;
}

tc_status tc_exec_create(tc_device *d, const tc_plan *plan, tc_exec **out, tc_compile_stats *stats) {
  return tc_exec_create_for(d, plan, NULL, out, stats);
}

tc_status tc_exec_create_for(tc_device *d, const tc_plan *plan, const tc_trial *trial, tc_exec **out,
                             tc_compile_stats *stats) {
  return create_exec(d, plan, trial, NULL, out, stats);
}

tc_status tc_exec_create_late(tc_device *d, const tc_plan *plan, tc_exec_load load_late, tc_exec **out,
                              tc_compile_stats *stats) {
  return create_exec(d, plan, NULL, load_late, out, stats);
}

void tc_exec_destroy(tc_exec *e) {
  if (!e) return;
  exec_replay_destroy(e);
  for (int32_t i = 0; e->kernels && i < e->plan->kernels.count; i++) tc_device_release(e->d, e->kernels[i]);
  for (int32_t i = 0; e->ops && i < e->plan->ops.count; i++) {
    exec_call_destroy(e, &e->ops[i]);
    exec_tune_destroy(e, &e->ops[i]);
    exec_control_destroy(&e->ops[i]);
  }
  for (int32_t i = 0; e->resident && i < e->plan->graph->inputs.count; i++) {
    tc_storage_unref(e->resident[i].host);
    tc_pool_give(e->resident[i].block);
  }
  exec_frozen_destroy(e);
  pthread_mutex_destroy(&e->lock);
  tc_arena_destroy(e->arena);
  tc_free(e->d->allocator, e);
}

bool tc_exec_writes_input(const tc_exec *e, int32_t input) {
  for (int32_t i = 0; i < e->plan->bufs.count; i++)
    if (e->plan->bufs.data[i].kind == TC_PLAN_INPUT && e->plan->bufs.data[i].input == input && e->bufs[i].written)
      return true;
  return false;
}

int32_t tc_exec_op_count(const tc_exec *e) { return e->plan->ops.count; }
