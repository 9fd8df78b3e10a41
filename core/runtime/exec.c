// Running a plan.
//
// At creation every expression of the plan is compiled to postfix code; expressions without symbols are evaluated once.
// A run: read the symbols' values off the inputs' sizes, check the inputs against what the graph promises, take an
// arena, launch in order, read the error block, hand out the outputs.
#include "core/runtime/exec.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "core/base/fs.h"

typedef struct number { // an expression, or its value
  bool fixed;
  int64_t value;
  tc_sym_code code;
} number;

typedef struct exec_arg {
  int32_t buf;
  int32_t bytes; // scalars
  number scalar;
} exec_arg;

typedef struct exec_op {
  const tc_plan_op *op;
  tc_handle module, function;
  number blocks, grain, bytes, flops;
  exec_arg *args;
  // CALL
  const tc_call_table *call;
} exec_op;

typedef struct exec_buf {
  number place, bytes, offset;
} exec_buf;

typedef struct exec_shape {
  number sizes[TC_MAX_RANK], strides[TC_MAX_RANK], offset;
} exec_shape;

typedef struct symbol_source { // value = (size(input, dim) - rest) / coeff
  int32_t symbol, input, dim;
  int64_t coeff, rest;
} symbol_source;

typedef struct arena_block {
  struct arena_block *next;
  tc_handle memory;
  int64_t size;
} arena_block;

struct tc_exec {
  tc_device *d;
  const tc_plan *plan;
  tc_arena *arena;
  int32_t n_symbols;
  exec_op *ops;
  exec_buf *bufs;
  exec_shape *inputs, *outputs;
  TC_VEC(symbol_source) sources;
  TC_VEC(number) requires_;
  number arena_bytes, largest_bytes;
  pthread_mutex_t lock;
  arena_block *idle; // arenas not in use
};

// ---- creation ----
static number make_number(tc_exec *e, const tc_sym *x) {
  number n = {0};
  if (tc_sym_is_const(x)) {
    n.fixed = true;
    n.value = x->value;
  } else {
    n.code = tc_sym_compile(e->arena, x);
  }
  return n;
}

static tc_status value(const number *n, const int64_t *symbols, int64_t *out) {
  if (n->fixed) {
    *out = n->value;
    return TC_OK;
  }
  return tc_sym_run(n->code, symbols, out);
}

static exec_shape make_shape(tc_exec *e, const tc_tensor_type *t) {
  exec_shape s = {0};
  for (int32_t d = 0; d < t->rank; d++) {
    s.sizes[d] = make_number(e, t->sizes[d]);
    s.strides[d] = make_number(e, t->strides[d]);
  }
  s.offset = t->offset ? make_number(e, t->offset) : (number){.fixed = true};
  return s;
}

// Where each symbol's value comes from: the first input size that is the symbol, or a multiple of it plus a constant.
static void find_sources(tc_exec *e) {
  const tc_plan *p = e->plan;
  for (int32_t s = 0; s < e->n_symbols; s++) {
    const tc_sym *symbol = tc_sym_symbol_at(p->syms, s);
    bool found = false;
    for (int32_t i = 0; p->graph && i < p->graph->inputs.count && !found; i++) {
      const tc_value *v = p->graph->inputs.data[i].value;
      for (int32_t d = 0; v && v->kind == TC_VALUE_TENSOR && d < v->type.rank && !found; d++) {
        const tc_sym *coeff, *rest;
        if (!tc_sym_uses(v->type.sizes[d], symbol) || !tc_sym_linear(p->syms, v->type.sizes[d], symbol, &coeff, &rest)) continue;
        if (!tc_sym_is_const(coeff) || !tc_sym_is_const(rest) || coeff->value == 0) continue;
        symbol_source q = {s, i, d, coeff->value, rest->value};
        tc_vec_push(e->arena, &e->sources, q);
        found = true;
      }
    }
  }
}

static void prepare(tc_exec *e) {
  const tc_plan *p = e->plan;
  e->n_symbols = tc_sym_symbol_count(p->syms);
  e->bufs = TC_NEW_ARRAY(e->arena, exec_buf, p->bufs.count);
  for (int32_t i = 0; i < p->bufs.count; i++) {
    const tc_plan_buf *b = &p->bufs.data[i];
    e->bufs[i] = (exec_buf){make_number(e, b->place), make_number(e, b->bytes), make_number(e, b->offset)};
  }
  e->ops = TC_NEW_ARRAY(e->arena, exec_op, p->ops.count);
  for (int32_t i = 0; i < p->ops.count; i++) {
    const tc_plan_op *op = &p->ops.data[i];
    exec_op *x = &e->ops[i];
    *x = (exec_op){.op = op, .blocks = make_number(e, op->blocks), .grain = make_number(e, op->grain), .bytes = make_number(e, op->bytes), .flops = make_number(e, op->flops)};
    x->args = TC_NEW_ARRAY(e->arena, exec_arg, op->n_args);
    for (int32_t k = 0; k < op->n_args; k++) {
      x->args[k].buf = op->args[k].buf;
      if (op->args[k].buf >= 0) continue;
      x->args[k].bytes = tc_dtype_size(op->args[k].dtype);
      x->args[k].scalar = make_number(e, op->args[k].scalar);
    }
  }
  e->outputs = TC_NEW_ARRAY(e->arena, exec_shape, p->outputs.count);
  for (int32_t i = 0; i < p->outputs.count; i++) {
    if (p->outputs.data[i].buf >= 0) e->outputs[i] = make_shape(e, &p->outputs.data[i].type);
  }
  int32_t n_inputs = p->graph ? p->graph->inputs.count : 0;
  e->inputs = TC_NEW_ARRAY(e->arena, exec_shape, n_inputs);
  for (int32_t i = 0; i < n_inputs; i++) {
    const tc_value *v = p->graph->inputs.data[i].value;
    if (v && v->kind == TC_VALUE_TENSOR) e->inputs[i] = make_shape(e, &v->type);
  }
  for (int32_t i = 0; i < p->module->requires_.count; i++) {
    number n = make_number(e, p->module->requires_.data[i]);
    tc_vec_push(e->arena, &e->requires_, n);
  }
  e->arena_bytes = make_number(e, p->arena_bytes);
  e->largest_bytes = make_number(e, p->largest_bytes);
  find_sources(e);
}

static tc_status load(tc_exec *e, tc_compile_stats *stats) {
  const tc_plan *p = e->plan;
  const tc_device_table *t = e->d->plugin->device;
  const tc_kernel **kernels = TC_NEW_ARRAY(e->arena, const tc_kernel *, p->kernels.count);
  tc_sv *blobs = TC_NEW_ARRAY(e->arena, tc_sv, p->kernels.count);
  for (int32_t i = 0; i < p->kernels.count; i++) kernels[i] = p->kernels.data[i]->kernel;
  TC_TRY(tc_device_compile(e->d, e->arena, p->kernels.count, kernels, blobs, stats));
  for (int32_t i = 0; i < p->ops.count; i++) {
    exec_op *x = &e->ops[i];
    if (x->op->kind != TC_PLAN_LAUNCH) return tc_error(TC_STATUS_UNIMPLEMENTED, "library calls are not connected yet (" TC_SV_FMT ")", TC_SV_ARG(x->op->name));
    tc_sv blob = blobs[x->op->kernel];
    TC_TRY(tc_plugin_status(e->d->plugin, t->module_load(e->d->handle, blob.data, blob.size, &x->module), "while loading the kernel " TC_SV_FMT, TC_SV_ARG(x->op->name)));
    TC_TRY(tc_plugin_status(e->d->plugin, t->function(e->d->handle, x->module, tc_k_name(kernels[x->op->kernel]), &x->function), "while loading the kernel " TC_SV_FMT, TC_SV_ARG(x->op->name)));
  }
  return TC_OK;
}

typedef struct creation {
  tc_exec *e;
  tc_compile_stats *stats;
} creation;
static tc_status create_guarded(void *arg) {
  creation *c = arg;
  prepare(c->e);
  return load(c->e, c->stats);
}

tc_status tc_exec_create(tc_device *d, const tc_plan *plan, tc_exec **out, tc_compile_stats *stats) {
  tc_exec *e = tc_alloc(d->allocator, sizeof *e);
  if (!e) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for an executable");
  e->d = d;
  e->plan = plan;
  pthread_mutex_init(&e->lock, NULL);
  tc_status s = tc_arena_create(d->allocator, &e->arena);
  creation c = {e, stats};
  if (s == TC_OK) s = tc_arena_guard(e->arena, create_guarded, &c);
  if (s != TC_OK) {
    tc_exec_destroy(e);
    return s;
  }
  *out = e;
  return TC_OK;
}

void tc_exec_destroy(tc_exec *e) {
  if (!e) return;
  const tc_device_table *t = e->d->plugin->device;
  for (int32_t i = 0; e->ops && i < e->plan->ops.count; i++) {
    if (e->ops[i].module) t->module_unload(e->d->handle, e->ops[i].module);
  }
  while (e->idle) {
    arena_block *b = e->idle;
    e->idle = b->next;
    t->free(e->d->handle, b->memory);
    tc_free(e->d->allocator, b);
  }
  pthread_mutex_destroy(&e->lock);
  tc_arena_destroy(e->arena);
  tc_free(e->d->allocator, e);
}

int32_t tc_exec_op_count(const tc_exec *e) { return e->plan->ops.count; }

// ---- a run ----
static tc_status take_arena(tc_exec *e, int64_t size, arena_block **out) {
  pthread_mutex_lock(&e->lock);
  arena_block **at = &e->idle;
  while (*at && (*at)->size < size) at = &(*at)->next;
  arena_block *b = *at;
  if (b) *at = b->next;
  pthread_mutex_unlock(&e->lock);
  if (!b) {
    b = tc_alloc(e->d->allocator, sizeof *b);
    if (!b) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for an arena of %lld bytes", (long long)size);
    b->size = size;
    tc_status s = tc_plugin_status(e->d->plugin, e->d->plugin->device->alloc(e->d->handle, (uint64_t)(size > 0 ? size : 1), &b->memory), "while allocating an arena of %lld bytes", (long long)size);
    if (s != TC_OK) {
      tc_free(e->d->allocator, b);
      return s;
    }
  }
  *out = b;
  return TC_OK;
}

static void give_arena(tc_exec *e, arena_block *b) {
  pthread_mutex_lock(&e->lock);
  b->next = e->idle;
  e->idle = b;
  pthread_mutex_unlock(&e->lock);
}

static tc_status check_input(const tc_exec *e, int32_t i, const tc_tensor *t, const int64_t *symbols) {
  const tc_graph_input *in = &e->plan->graph->inputs.data[i];
  const tc_tensor_type *type = &in->value->type;
  tc_sv name = in->target;
  if (!t->storage) return tc_error(TC_STATUS_INVALID_ARGUMENT, "input '" TC_SV_FMT "' is missing", TC_SV_ARG(name));
  if (t->dtype != type->dtype) return tc_error(TC_STATUS_INVALID_ARGUMENT, "input '" TC_SV_FMT "' is %s; the program takes %s", TC_SV_ARG(name), tc_dtype_name(t->dtype), tc_dtype_name(type->dtype));
  if (t->rank != type->rank) return tc_error(TC_STATUS_INVALID_ARGUMENT, "input '" TC_SV_FMT "' has rank %d; the program takes rank %d", TC_SV_ARG(name), t->rank, type->rank);
  for (int32_t d = 0; d < t->rank; d++) {
    int64_t want, stride;
    TC_TRY(value(&e->inputs[i].sizes[d], symbols, &want));
    if (t->sizes[d] != want) return tc_error(TC_STATUS_INVALID_ARGUMENT, "input '" TC_SV_FMT "' size mismatch at index %d. expected %lld, actual %lld", TC_SV_ARG(name), d, (long long)want, (long long)t->sizes[d]);
    TC_TRY(value(&e->inputs[i].strides[d], symbols, &stride));
    if (t->sizes[d] > 1 && t->strides[d] != stride) return tc_error(TC_STATUS_INVALID_ARGUMENT, "input '" TC_SV_FMT "' stride mismatch at index %d. expected %lld, actual %lld", TC_SV_ARG(name), d, (long long)stride, (long long)t->strides[d]);
  }
  return TC_OK;
}

static tc_status bind_symbols(const tc_exec *e, const tc_tensor *inputs, int64_t *symbols) {
  for (int32_t k = 0; k < e->sources.count; k++) {
    const symbol_source *s = &e->sources.data[k];
    const tc_tensor *t = &inputs[s->input];
    if (s->dim >= t->rank) continue; // the rank is reported by check_input
    int64_t v = t->sizes[s->dim] - s->rest;
    if (v % s->coeff) return tc_error(TC_STATUS_INVALID_ARGUMENT, "size %lld at index %d of input '" TC_SV_FMT "' does not fit the program's %lld*s + %lld", (long long)t->sizes[s->dim], s->dim, TC_SV_ARG(e->plan->graph->inputs.data[s->input].target), (long long)s->coeff, (long long)s->rest);
    symbols[s->symbol] = v / s->coeff;
    const tc_sym_info *info = tc_sym_info_of(e->plan->syms, tc_sym_symbol_at(e->plan->syms, s->symbol));
    if (symbols[s->symbol] < info->lo || symbols[s->symbol] > info->hi) return tc_error(TC_STATUS_INVALID_ARGUMENT, "size %lld at index %d of input '" TC_SV_FMT "' lies outside the program's range [%lld, %lld]", (long long)t->sizes[s->dim], s->dim, TC_SV_ARG(e->plan->graph->inputs.data[s->input].target), (long long)info->lo, (long long)info->hi);
  }
  for (int32_t i = 0; i < e->plan->graph->inputs.count; i++) {
    const tc_value *v = e->plan->graph->inputs.data[i].value;
    if (v && v->kind == TC_VALUE_TENSOR) TC_TRY(check_input(e, i, &inputs[i], symbols));
  }
  for (int32_t k = 0; k < e->requires_.count; k++) {
    int64_t ok;
    TC_TRY(value(&e->requires_.data[k], symbols, &ok));
    if (!ok) return tc_error(TC_STATUS_INVALID_ARGUMENT, "the inputs' sizes break the program's condition number %d", k);
  }
  return TC_OK;
}

typedef struct run_state {
  tc_exec *e;
  const int64_t *symbols;
  const tc_tensor *inputs;
  uint64_t *address; // by buffer: handle plus offset
  tc_storage **storage; // by buffer: OUTPUT's
  arena_block *block;
} run_state;

static tc_status place_buffers(run_state *r) {
  tc_exec *e = r->e;
  for (int32_t i = 0; i < e->plan->bufs.count; i++) {
    const tc_plan_buf *b = &e->plan->bufs.data[i];
    int64_t at, bytes;
    if (b->kind == TC_PLAN_INPUT) {
      // Addresses count from the storage's start, as the graph's offset does; the tensor's own offset replaces it.
      const tc_tensor *t = &r->inputs[b->input];
      TC_TRY(value(&e->bufs[i].offset, r->symbols, &at));
      r->address[i] = (uint64_t)(uintptr_t)t->storage->data + (uint64_t)((t->offset - at) * tc_dtype_size(t->dtype));
    } else if (b->kind == TC_PLAN_ARENA) {
      TC_TRY(value(&e->bufs[i].place, r->symbols, &at));
      r->address[i] = r->block->memory + (uint64_t)at;
    } else {
      TC_TRY(value(&e->bufs[i].bytes, r->symbols, &bytes));
      TC_TRY(tc_storage_create(e->d->allocator, (size_t)(bytes > 0 ? bytes : 1), &r->storage[i]));
      r->address[i] = (uint64_t)(uintptr_t)r->storage[i]->data;
    }
  }
  return TC_OK;
}

enum { MOST_ARGS = 256 };

static tc_status launch_all(run_state *r, tc_run_report *report) {
  tc_exec *e = r->e;
  tc_error_block errors = {-1, 0};
  for (int32_t i = 0; i < e->plan->ops.count; i++) {
    const exec_op *x = &e->ops[i];
    tc_launch_arg args[MOST_ARGS];
    if (x->op->n_args > MOST_ARGS) return tc_error(TC_STATUS_INTERNAL, "a kernel with %d arguments", x->op->n_args);
    for (int32_t k = 0; k < x->op->n_args; k++) {
      const exec_arg *a = &x->args[k];
      if (a->buf >= 0) {
        args[k] = (tc_launch_arg){.kind = TC_ARG_MEMORY, .value = r->address[a->buf]};
        continue;
      }
      int64_t v;
      TC_TRY(value(&a->scalar, r->symbols, &v));
      args[k] = (tc_launch_arg){.kind = TC_ARG_SCALAR, .bytes = a->bytes, .value = (uint64_t)v};
    }
    tc_launch l = {.struct_size = sizeof l, .function = x->function, .args = args, .n_args = x->op->n_args, .errors = (tc_handle)(uintptr_t)&errors};
    TC_TRY(value(&x->blocks, r->symbols, &l.blocks));
    TC_TRY(value(&x->grain, r->symbols, &l.grain));
    double start = report ? tc_now_ms() : 0;
    if (l.blocks > 0) {
      int32_t rc = e->d->plugin->device->launch(e->d->handle, 0, &l);
      if (rc != TC_STATUS_OK) return tc_plugin_status(e->d->plugin, rc, "while launching " TC_SV_FMT, TC_SV_ARG(x->op->name));
    }
    if (report && report->launches) {
      tc_launch_record *rec = &report->launches[report->n_launches++];
      *rec = (tc_launch_record){.name = x->op->name, .ms = tc_now_ms() - start, .blocks = l.blocks, .call = x->op->kind == TC_PLAN_CALL};
      TC_TRY(value(&x->bytes, r->symbols, &rec->bytes));
      TC_TRY(value(&x->flops, r->symbols, &rec->flops));
    }
    if (errors.site >= 0) {
      const tc_emitted *k = e->plan->kernels.data[x->op->kernel];
      if (errors.site >= k->sites.count) return tc_error(TC_STATUS_INTERNAL, "the kernel " TC_SV_FMT " reported an unknown error %lld", TC_SV_ARG(x->op->name), (long long)errors.site);
      const tc_emit_site *site = &k->sites.data[errors.site];
      return tc_error(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT "%s" TC_SV_FMT, TC_SV_ARG(site->text), site->source.size ? "\n  at " : "", TC_SV_ARG(site->source));
    }
  }
  return TC_OK;
}

static tc_status number_tensor(tc_exec *e, const tc_arg *a, const int64_t *symbols, tc_tensor *out) {
  tc_dtype d = a->kind == TC_AK_FLOAT ? TC_F64 : a->kind == TC_AK_BOOL ? TC_BOOL : TC_I64;
  int64_t i = a->integer;
  if (a->kind == TC_AK_INT && a->sym) TC_TRY(tc_sym_eval(a->sym, symbols, &i));
  TC_TRY(tc_tensor_create(e->d->allocator, d, 0, NULL, out));
  if (d == TC_F64) memcpy(tc_tensor_data(out), &a->real, sizeof a->real);
  else if (d == TC_BOOL) *(uint8_t *)tc_tensor_data(out) = i != 0;
  else memcpy(tc_tensor_data(out), &i, sizeof i);
  return TC_OK;
}

static tc_status make_outputs(run_state *r, tc_tensor *outputs) {
  tc_exec *e = r->e;
  for (int32_t i = 0; i < e->plan->outputs.count; i++) {
    const tc_plan_output *o = &e->plan->outputs.data[i];
    if (o->buf < 0) {
      if (o->number.kind != TC_AK_NONE && o->number.kind != TC_AK_STRING) TC_TRY(number_tensor(e, &o->number, r->symbols, &outputs[i]));
      continue;
    }
    const tc_plan_buf *b = &e->plan->bufs.data[o->buf];
    int64_t sizes[TC_MAX_RANK], strides[TC_MAX_RANK], offset;
    for (int32_t d = 0; d < o->type.rank; d++) {
      TC_TRY(value(&e->outputs[i].sizes[d], r->symbols, &sizes[d]));
      TC_TRY(value(&e->outputs[i].strides[d], r->symbols, &strides[d]));
    }
    TC_TRY(value(&e->outputs[i].offset, r->symbols, &offset));
    tc_storage *s = b->kind == TC_PLAN_INPUT ? r->inputs[b->input].storage : r->storage[o->buf];
    TC_TRY(tc_tensor_view(s, o->type.dtype, o->type.rank, sizes, strides, offset, &outputs[i]));
  }
  return TC_OK;
}

tc_status tc_exec_run(tc_exec *e, const tc_tensor *inputs, tc_tensor *outputs, tc_run_report *report) {
  int32_t n_bufs = e->plan->bufs.count;
  size_t need = (size_t)e->n_symbols * sizeof(int64_t) + (size_t)n_bufs * (sizeof(uint64_t) + sizeof(tc_storage *)) + 1;
  char stack[4096], *memory = need <= sizeof stack ? memset(stack, 0, sizeof stack) : tc_alloc(e->d->allocator, need);
  if (!memory) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for a run");
  int64_t *symbols = (int64_t *)(void *)memory;
  run_state r = {.e = e, .symbols = symbols, .inputs = inputs};
  r.address = (uint64_t *)(void *)(memory + (size_t)e->n_symbols * sizeof(int64_t));
  r.storage = (tc_storage **)(void *)(r.address + n_bufs);
  for (int32_t i = 0; i < e->plan->outputs.count; i++) outputs[i] = (tc_tensor){0};

  int64_t arena = 0;
  tc_status s = bind_symbols(e, inputs, symbols);
  if (s == TC_OK) s = value(&e->arena_bytes, symbols, &arena);
  if (s == TC_OK) s = take_arena(e, arena, &r.block);
  if (s == TC_OK) s = place_buffers(&r);
  if (s == TC_OK && report) {
    report->n_launches = 0;
    report->arena_bytes = arena;
    s = value(&e->largest_bytes, symbols, &report->largest_bytes);
  }
  if (s == TC_OK) s = launch_all(&r, report);
  if (s == TC_OK) s = make_outputs(&r, outputs);
  for (int32_t i = 0; i < n_bufs; i++) tc_storage_unref(r.storage[i]);
  if (r.block) give_arena(e, r.block);
  for (int32_t i = 0; s != TC_OK && i < e->plan->outputs.count; i++) tc_tensor_unref(&outputs[i]);
  if (memory != stack) tc_free(e->d->allocator, memory);
  return s;
}
