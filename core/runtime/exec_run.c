// Runs: bind symbols and check the inputs, place the buffers, launch in order, read the error blocks, hand out the
// outputs.
//
// Where memory handles are host addresses nothing is copied. Elsewhere inputs on the host are copied to the device
// first (parameters and constants once: they stay), and outputs are copied back unless they are to stay.
#include <string.h>

#include "core/base/fs.h"
#include "core/base/profile.h"
#include "core/runtime/exec_internal.h"

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

int64_t exec_span_of(const tc_tensor *t) {
  int64_t span = 1;
  for (int32_t d = 0; d < t->rank; d++) {
    if (t->sizes[d] == 0) return 0;
    span += (t->sizes[d] - 1) * t->strides[d];
  }
  return span;
}

// Bytes in front of what lies `at` bytes behind a multiple of EXEC_ALIGN, in a block that begins at one.
static int64_t lead_of(int64_t at) { return (at % EXEC_ALIGN + EXEC_ALIGN) % EXEC_ALIGN; }

// A copy on the device, `lead` bytes into a block, which is taken if there is none.
static tc_status copy_in(tc_device *d, const tc_tensor *t, int64_t lead, tc_pool_block **out) {
  const tc_device_table *f = d->plugin->device;
  int64_t size = tc_dtype_size(t->dtype), bytes = exec_span_of(t) * size;
  if (!*out) TC_TRY(tc_pool_take(d->memory, bytes + lead, out));
  if (bytes == 0) return TC_OK;
  int32_t rc = t->storage->device == 0
                   ? f->copy_in(d->handle, d->stream, (*out)->memory, lead, tc_tensor_data(t), (uint64_t)bytes)
                   : f->copy(d->handle, d->stream, (*out)->memory, lead, (tc_handle)(uintptr_t)t->storage->data,
                             t->offset * size, (uint64_t)bytes);
  return tc_plugin_status(d->plugin, rc, "while copying %lld bytes to the device", (long long)bytes);
}

// ---- Placing buffers ----
static bool stays(const tc_exec *e, int32_t input) {
  int32_t kind = e->plan->graph->inputs.data[input].kind;
  return kind == TC_IN_PARAMETER || kind == TC_IN_CONSTANT;
}

static tc_status place_resident(run_state *r, int32_t input, const tc_tensor *t, int64_t lead, tc_handle *out) {
  tc_exec *e = r->e;
  exec_resident *m = &e->resident[input];
  pthread_mutex_lock(&e->lock);
  tc_status s = TC_OK;
  if (m->host != t->storage || m->offset != t->offset) {
    tc_pool_block *fresh = NULL;
    s = copy_in(e->d, t, lead, &fresh);
    if (s == TC_OK) {
      // A run that still reads the old copy is ahead of whatever takes its memory: there is one stream.
      tc_storage_unref(m->host);
      tc_pool_give(m->block);
      *m = (exec_resident){t->storage, t->offset, fresh};
      tc_storage_ref(t->storage);
    } else {
      tc_pool_give(fresh);
    }
  }
  if (s == TC_OK) *out = m->block->memory;
  pthread_mutex_unlock(&e->lock);
  return s;
}

// Does another input lie in the same storage where this one does?
static bool is_shared(const run_state *r, int32_t input) {
  const tc_graph *g = r->e->plan->graph;
  const tc_tensor *t = &r->inputs[input];
  int64_t size = tc_dtype_size(t->dtype), lo = t->offset * size, hi = lo + exec_span_of(t) * size;
  for (int32_t i = 0; i < g->inputs.count; i++) {
    const tc_tensor *o = &r->inputs[i];
    if (i == input || !g->inputs.data[i].value || !o->storage || o->storage->data != t->storage->data) continue;
    int64_t its = tc_dtype_size(o->dtype), from = o->offset * its;
    if (from < hi && lo < from + exec_span_of(o) * its) return true;
  }
  return false;
}

tc_status exec_find_place(run_state *r, int32_t i, exec_place *out) {
  tc_exec *e = r->e;
  int32_t input = e->plan->bufs.data[i].input;
  const tc_tensor *t = &r->inputs[input];
  int64_t size = tc_dtype_size(t->dtype);
  *out = (exec_place){0};
  TC_TRY(exec_number_of(r, &e->bufs[i].offset, &out->first));
  // Kernels count from the storage's start, as the graph's offset does; the tensor's own offset replaces it.
  int64_t offset = (t->offset - out->first) * size;
  bool there = e->d->props.host_memory || (t->storage->device != 0 && offset % EXEC_ALIGN == 0);
  bool may_write = r->options->in_place || r->options->write_back;
  if (e->bufs[i].written && (!may_write || !there || is_shared(r, input))) {
    out->kind = EXEC_PLACE_CHANGED;
  } else if (there) {
    out->kind = EXEC_PLACE_THERE;
    out->address = (exec_address){(tc_handle)(uintptr_t)t->storage->data, offset};
    if (e->d->props.host_memory) out->address.memory += (uint64_t)offset, out->address.offset = 0;
  } else if (t->storage->device == 0 && !e->bufs[i].written && stays(e, input)) {
    out->kind = EXEC_PLACE_RESIDENT;
    out->address.offset = lead_of(out->first * size) - out->first * size;
    pthread_mutex_lock(&e->lock);
    const exec_resident *m = &e->resident[input];
    if (m->host == t->storage && m->offset == t->offset) out->address.memory = m->block->memory;
    pthread_mutex_unlock(&e->lock);
  } else {
    out->kind = EXEC_PLACE_COPIED;
  }
  return TC_OK;
}

// The run's storage for a buffer: the instance's, if it has one.
static tc_status take_storage(run_state *r, int32_t i, int64_t bytes) {
  const tc_device *d = r->e->d;
  tc_storage **kept = r->instance ? exec_replay_storage(r, i) : NULL;
  if (!kept || !*kept) {
    TC_TRY(tc_pool_storage(d->memory, most(bytes, 1), d->props.host_memory ? 0 : 1, &r->storage[i]));
    if (!kept) return TC_OK;
    *kept = r->storage[i];
  } else {
    r->storage[i] = *kept;
  }
  tc_storage_ref(r->storage[i]);
  return TC_OK;
}

// The storage of another buffer of the same input, which is filled already.
static bool share_storage(run_state *r, int32_t i) {
  const tc_plan *p = r->e->plan;
  for (int32_t k = 0; k < i; k++) {
    const tc_plan_buf *o = &p->bufs.data[k];
    if (o->kind != TC_PLAN_INPUT || o->input != p->bufs.data[i].input || !r->storage[k]) continue;
    r->storage[i] = r->storage[k];
    tc_storage_ref(r->storage[i]);
    tc_storage **kept = r->instance ? exec_replay_storage(r, i) : NULL;
    if (kept && !*kept) {
      *kept = r->storage[i];
      tc_storage_ref(*kept);
    }
    return true;
  }
  return false;
}

// A copy that kernels may change: one for all buffers of the input. Offsets count from its start as from the tensor's.
static tc_status place_changed(run_state *r, int32_t i, const tc_tensor *t, int64_t promised) {
  tc_device *d = r->e->d;
  int64_t size = tc_dtype_size(t->dtype), bytes = exec_span_of(t) * size;
  exec_address *a = &r->address[i];
  bool shares = share_storage(r, i);
  if (!shares) TC_TRY(take_storage(r, i, bytes));
  *a = (exec_address){(tc_handle)(uintptr_t)r->storage[i]->data, -promised * size};
  if (d->props.host_memory) a->memory += (uint64_t)a->offset, a->offset = 0;
  if (shares || bytes == 0) return TC_OK;
  tc_handle to = (tc_handle)(uintptr_t)r->storage[i]->data;
  int32_t rc = t->storage->device != 0 && !d->props.host_memory
                   ? d->plugin->device->copy(d->handle, d->stream, to, 0, (tc_handle)(uintptr_t)t->storage->data,
                                             t->offset * size, (uint64_t)bytes)
                   : d->plugin->device->copy_in(d->handle, d->stream, to, 0, tc_tensor_data(t), (uint64_t)bytes);
  return tc_plugin_status(d->plugin, rc, "while copying an input that is changed");
}

static tc_status place_input(run_state *r, int32_t i, const tc_plan_buf *b) {
  tc_exec *e = r->e;
  const tc_tensor *t = &r->inputs[b->input];
  exec_place p;
  TC_TRY(exec_find_place(r, i, &p));
  if (r->instance) {
    int32_t *kind = exec_replay_kind(r, i);
    if (*kind == EXEC_PLACE_COPIED && p.kind == EXEC_PLACE_THERE && !e->bufs[i].written) p.kind = EXEC_PLACE_COPIED;
    *kind = p.kind;
  }
  exec_address *a = &r->address[i];
  *a = p.address;
  if (p.kind == EXEC_PLACE_THERE) return TC_OK;
  if (p.kind == EXEC_PLACE_CHANGED) return place_changed(r, i, t, p.first);
  int64_t size = tc_dtype_size(t->dtype), lead = lead_of(p.first * size);
  a->offset = lead - p.first * size;
  if (p.kind == EXEC_PLACE_RESIDENT) return place_resident(r, b->input, t, lead, &a->memory);
  tc_pool_block **copy = r->instance ? exec_replay_copy(r, i) : &r->copies[i];
  TC_TRY(copy_in(e->d, t, lead, copy));
  a->memory = (*copy)->memory;
  return TC_OK;
}

tc_status exec_take_output(run_state *r, int32_t i) {
  int64_t bytes;
  TC_TRY(exec_number_of(r, &r->e->bufs[i].bytes, &bytes));
  TC_TRY(take_storage(r, i, bytes), "while allocating the output %%" TC_SV_FMT,
         TC_SV_ARG(r->e->plan->bufs.data[i].name));
  r->address[i] = (exec_address){(tc_handle)(uintptr_t)r->storage[i]->data, 0};
  return TC_OK;
}

static tc_status place_buffers(run_state *r) {
  tc_exec *e = r->e;
  for (int32_t i = 0; i < e->plan->bufs.count; i++) {
    const tc_plan_buf *b = &e->plan->bufs.data[i];
    if (b->kind == TC_PLAN_INPUT) {
      if (r->once ? e->bufs[i].once : e->bufs[i].often) TC_TRY(place_input(r, i, b));
    } else if (b->kind == TC_PLAN_FROZEN) {
      r->address[i] = exec_frozen_address(r, i);
    } else if (b->kind == TC_PLAN_ARENA) {
      if (!b->host && (!r->late || e->rooms.whole)) TC_TRY(exec_arena_address(r, i, &r->address[i]));
    } else if (!r->once && !(r->late && e->bufs[i].late)) {
      TC_TRY(exec_take_output(r, i));
    }
  }
  for (int32_t i = 0; i < e->plan->bufs.count && !r->once; i++) {
    const tc_plan_buf *b = &e->plan->bufs.data[i];
    int64_t at;
    if (!b->host || (r->late && e->bufs[b->host - 1].late)) continue;
    TC_TRY(exec_number_of(r, &e->bufs[i].place, &at));
    r->address[i] = r->address[b->host - 1];
    r->address[i].offset += at;
  }
  return TC_OK;
}

// ---- Errors inside kernels ----
// On a device with memory of its own every kernel with checks has a block; the others get none, and a run without any
// is not waited for.
tc_status exec_place_errors(run_state *r) {
  tc_device *d = r->e->d;
  r->host_errors = (tc_error_block){.site = -1};
  for (int32_t i = 1; !d->props.host_memory && i < r->e->n_errors; i++)
    TC_TRY(tc_pool_take(d->memory, sizeof(tc_error_block), &r->error_blocks[i]));
  return d->props.host_memory ? TC_OK : exec_clear_errors(r);
}

static tc_handle stream_of(const run_state *r) { return r->recorder ? r->recorder : r->e->d->stream; }

tc_status exec_clear_errors(run_state *r) {
  tc_device *d = r->e->d;
  for (int32_t i = 1; i < r->e->n_errors; i++)
    TC_TRY(tc_plugin_status(d->plugin,
                            d->plugin->device->fill(d->handle, stream_of(r), r->error_blocks[i]->memory, 0, 0xFF,
                                                    sizeof(tc_error_block)), // site -1
                            "while preparing a run"));
  return TC_OK;
}

enum { MOST_FACTS = 64 }; // of an executable; variants by further ones are not used

// A fact that cannot be computed does not hold.
void exec_find_facts(run_state *r) {
  r->facts = 0;
  for (int32_t i = 0; i < r->e->n_facts && i < MOST_FACTS; i++) {
    int64_t holds = 0;
    tc_status s = exec_number_of(r, &r->e->facts[i], &holds);
    if (s != TC_OK) tc_status_free(s);
    else if (holds) r->facts |= UINT64_C(1) << i;
  }
}

bool exec_fact_holds(const run_state *r, int32_t fact) { return fact < MOST_FACTS && (r->facts >> fact & 1); }

// The first variant whose fact holds, else the general kernel. Of those that are timed it is one of several; they
// report the same errors.
static const exec_launch *pick(const run_state *r, const exec_op *x) {
  int32_t i = 0, last = x->n_launches - 1;
  while (i < last && !exec_fact_holds(r, x->launches[i].fact)) i++;
  return &x->launches[i];
}

static tc_status kernel_error(const run_state *r, const exec_op *x, const tc_error_block *b) {
  const tc_emitted *k = r->e->plan->kernels.data[pick(r, x)->number];
  if (b->site >= k->sites.count)
    return tc_error(TC_STATUS_INTERNAL, "the kernel " TC_SV_FMT " reported an unknown error %lld",
                    TC_SV_ARG(x->op->name), (long long)b->site);
  const tc_emit_site *site = &k->sites.data[b->site];
  return tc_error(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT "%s" TC_SV_FMT, TC_SV_ARG(site->text),
                  site->source.size ? "\n  at " : "", TC_SV_ARG(site->source));
}

tc_status exec_synchronize(tc_device *d) {
  return tc_plugin_status(d->plugin, d->plugin->device->synchronize(d->handle, d->stream),
                          "while waiting for the device");
}

// Behind the last launch of a device with memory of its own.
tc_status exec_read_errors(run_state *r) {
  tc_exec *e = r->e;
  tc_device *d = e->d;
  if (d->props.host_memory || e->n_errors == 1) return TC_OK;
  TC_TRY(exec_synchronize(d));
  for (int32_t i = 0; i < e->plan->ops.count; i++) {
    const exec_op *x = &e->ops[i];
    tc_error_block b = {.site = -1};
    if (x->errors == 0) continue;
    TC_TRY(tc_plugin_status(
        d->plugin,
        d->plugin->device->copy_out(d->handle, d->stream, &b, r->error_blocks[x->errors]->memory, 0, sizeof b),
        "while reading the errors of a run"));
    TC_TRY(exec_synchronize(d));
    if (b.site >= 0) return kernel_error(r, x, &b);
  }
  return TC_OK;
}

// ---- Launching ----
enum { FEW_ARGS = 64 };

tc_status exec_launch_one(run_state *r, exec_op *x, const exec_launch *v, int64_t *out_blocks) {
  tc_exec *e = r->e;
  tc_device *d = e->d;
  tc_launch_arg few[FEW_ARGS], *args = few;
  int32_t n = v->n_args;
  tc_loaded *kernel;
  TC_TRY(exec_kernel(e, v, &kernel));
  tc_launch l = {.struct_size = sizeof l, .function = kernel->function, .n_args = n};
  TC_TRY(exec_number_of(r, &v->blocks, &l.blocks));
  TC_TRY(exec_number_of(r, &v->grain, &l.grain));
  *out_blocks = l.blocks;
  if (l.blocks <= 0) return TC_OK;
  if (n > FEW_ARGS) {
    args = tc_alloc(d->allocator, (size_t)n * sizeof *args);
    if (!args) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for a launch");
  }
  tc_status s = TC_OK;
  for (int32_t k = 0; k < n && s == TC_OK; k++) {
    const exec_arg *a = &v->args[k];
    if (a->buf >= 0) {
      args[k] = (tc_launch_arg){
          .kind = TC_ARG_MEMORY, .value = r->address[a->buf].memory, .offset = r->address[a->buf].offset};
      continue;
    }
    int64_t v = 0;
    s = exec_number_of(r, &a->scalar, &v);
    args[k] = (tc_launch_arg){.kind = TC_ARG_SCALAR, .bytes = a->bytes, .value = (uint64_t)v};
  }
  l.args = args;
  if (d->props.host_memory) l.errors = (tc_handle)(uintptr_t)&r->host_errors;
  else if (x->errors) l.errors = r->error_blocks[x->errors]->memory;
  if (s == TC_OK) {
    int32_t rc = d->plugin->device->launch(d->handle, stream_of(r), &l);
    if (rc != TC_STATUS_OK) s = tc_plugin_status(d->plugin, rc, "while launching " TC_SV_FMT, TC_SV_ARG(x->op->name));
  }
  if (args != few) tc_free(d->allocator, args);
  if (s == TC_OK && r->host_errors.site >= 0) s = kernel_error(r, x, &r->host_errors);
  return s;
}

static tc_status launch(run_state *r, exec_op *x, int64_t *out_blocks) {
  const exec_launch *v = pick(r, x);
  if (x->op->tuned) TC_TRY(exec_tune(r, x, &v));
  return exec_launch_one(r, x, v, out_blocks);
}

static tc_status record(run_state *r, const exec_op *x, double ms, int64_t blocks) {
  tc_run_report *report = r->options->report;
  tc_launch_record *rec = &report->launches[report->n_launches++];
  *rec = (tc_launch_record){.name = x->op->name, .ms = ms, .blocks = blocks, .call = x->op->kind == TC_PLAN_CALL};
  TC_TRY(exec_number_of(r, &x->bytes, &rec->bytes));
  return exec_number_of(r, &x->flops, &rec->flops);
}

tc_status exec_run_op(run_state *r, exec_op *x, int64_t *out_blocks) {
  if (x->control) return exec_control_run(r, x);
  return x->op->kind == TC_PLAN_CALL ? exec_call_run(r, x) : launch(r, x, out_blocks);
}

// ---- Watching ----
tc_status tc_exec_eval(const tc_exec_moment *m, const tc_sym *x, int64_t *out) {
  if (tc_sym_is_const(x)) return *out = x->value, TC_OK;
  return tc_sym_eval(x, m->r->symbols, out);
}

tc_status tc_exec_read(const tc_exec_moment *m, int32_t buf, tc_storage **out) {
  run_state *r = m->r;
  const tc_plan_buf *b = &r->e->plan->bufs.data[buf];
  const tc_device *d = r->e->d;
  int64_t size = tc_dtype_size(b->dtype), span = 1, extent, stride, first = 0;
  for (int32_t k = 0; k < b->rank; k++) {
    TC_TRY(tc_exec_eval(m, b->sizes[k], &extent));
    TC_TRY(tc_exec_eval(m, b->strides[k], &stride));
    span = extent > 0 && span > 0 ? span + (extent - 1) * stride : 0;
  }
  if (b->kind == TC_PLAN_INPUT) TC_TRY(tc_exec_eval(m, b->offset, &first));
  TC_TRY(tc_storage_create(d->allocator, (size_t)most(span * size, 1), out));
  tc_status s = span > 0 ? tc_plugin_status(d->plugin,
                                            d->plugin->device->copy_out(
                                                d->handle, d->stream, (*out)->data, r->address[buf].memory,
                                                r->address[buf].offset + first * size, (uint64_t)(span * size)),
                                            "while reading a buffer")
                         : TC_OK;
  if (s == TC_OK) s = exec_synchronize(r->e->d);
  if (s != TC_OK) {
    tc_storage_unref(*out);
    *out = NULL;
  }
  return s;
}

// The operation, and the bytes of the arena that were in use while it ran.
static tc_status note_in_profile(run_state *r, int32_t op, double start, double end) {
  const tc_exec *e = r->e;
  int64_t live = 0, bytes;
  for (int32_t i = 0; i < e->plan->bufs.count; i++) {
    const tc_plan_buf *b = &e->plan->bufs.data[i];
    if (b->kind != TC_PLAN_ARENA || b->host || b->first > op || b->last < op) continue;
    TC_TRY(exec_number_of(r, &e->bufs[i].bytes, &bytes));
    live += bytes;
  }
  tc_profile_counter(e->d->profile, "arena", start, "bytes", live);
  tc_profile_span(e->d->profile, e->ops[op].op->kind == TC_PLAN_LAUNCH ? "launch" : "call", e->ops[op].op->name, start,
                  end);
  return TC_OK;
}

static tc_status run_ops(run_state *r, int32_t i, int32_t end) {
  tc_exec *e = r->e;
  exec_find_facts(r);
  const tc_run_report *report = r->options->report;
  const tc_exec_watch *watch = r->options->watch;
  bool reported = report && report->launches, timed = reported || e->d->profile;
  for (; i < end; i++) {
    exec_op *x = &e->ops[i];
    int64_t blocks = 1;
    if (timed && !e->d->props.host_memory) TC_TRY(exec_synchronize(e->d));
    double start = timed ? tc_now_ms() : 0;
    if (r->late) TC_TRY(exec_rooms_take(r, i));
    TC_TRY(exec_run_op(r, x, &blocks));
    if (r->once) exec_frozen_forget(r, x, false);
    if (watch) TC_TRY(watch->after(watch->self, &(tc_exec_moment){r}, i));
    if (timed && !e->d->props.host_memory) TC_TRY(exec_synchronize(e->d));
    double stop = timed ? tc_now_ms() : 0;
    if (e->d->profile) TC_TRY(note_in_profile(r, i, start, stop));
    if (reported && (report->capacity == 0 || report->n_launches < report->capacity))
      TC_TRY(record(r, x, stop - start, blocks));
    if (r->late) exec_rooms_give(r, i);
  }
  return TC_OK;
}

tc_status exec_run_ops(run_state *r) {
  return r->once ? run_ops(r, 0, r->e->n_once) : run_ops(r, r->e->n_once, r->e->plan->ops.count);
}

tc_status exec_run_turn(run_state *r, bool first) {
  return run_ops(r, first ? 0 : r->e->n_once, r->e->plan->ops.count);
}

// ---- Outputs ----
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

static tc_status make_output(run_state *r, int32_t i, tc_tensor *out) {
  tc_exec *e = r->e;
  const tc_plan_output *o = &e->plan->outputs.data[i];
  if (o->buf < 0) {
    bool number = o->number.kind == TC_AK_INT || o->number.kind == TC_AK_BOOL || o->number.kind == TC_AK_FLOAT;
    if (o->number.value && o->number.kind != TC_AK_INT)
      return tc_error(TC_STATUS_INTERNAL, "output %d is a number that no kernel made", i);
    return number ? number_tensor(e, &o->number, r->symbols, out) : TC_OK;
  }
  const tc_plan_buf *b = &e->plan->bufs.data[o->buf];
  int64_t sizes[TC_MAX_RANK], strides[TC_MAX_RANK], offset, promised = 0;
  for (int32_t d = 0; d < o->type.rank; d++) {
    TC_TRY(exec_number_of(r, &e->outputs[i].sizes[d], &sizes[d]));
    TC_TRY(exec_number_of(r, &e->outputs[i].strides[d], &strides[d]));
  }
  TC_TRY(exec_number_of(r, &e->outputs[i].offset, &offset));
  tc_storage *s = r->storage[o->buf];
  if (b->kind == TC_PLAN_INPUT) { // the promised offset is replaced by the tensor's own
    const tc_tensor *t = &r->inputs[b->input];
    TC_TRY(exec_number_of(r, &e->bufs[o->buf].offset, &promised));
    int64_t from = tc_dtype_size(t->dtype), to = tc_dtype_size(o->type.dtype), begin = s ? 0 : t->offset;
    if (!s) s = t->storage; // else a copy, which begins where the tensor begins
    offset += (begin - promised) * from / to;
  }
  TC_TRY(tc_tensor_view(s, o->type.dtype, o->type.rank, sizes, strides, offset, out));
  out->conj = o->type.conj != 0;
  return TC_OK;
}

// Outputs of one storage keep sharing one.
static tc_status bring_outputs(run_state *r, tc_tensor *outputs) {
  tc_exec *e = r->e;
  if (e->d->props.host_memory || r->options->device_outputs) return TC_OK;
  int32_t n = e->plan->outputs.count;
  for (int32_t i = 0; i < n; i++) {
    tc_storage *from = outputs[i].storage, *to;
    if (!from || from->device == 0) continue;
    tc_device *d = e->d;
    TC_TRY(tc_pool_storage(d->host, (int64_t)most((int64_t)from->size, 1), 0, &to));
    tc_status s = tc_plugin_status(
        d->plugin,
        d->plugin->device->copy_out(d->handle, d->stream, to->data, (tc_handle)(uintptr_t)from->data, 0, from->size),
        "while copying outputs");
    tc_storage_ref(from);
    for (int32_t k = i; k < n && s == TC_OK; k++) {
      if (outputs[k].storage != from) continue;
      tc_storage_ref(to);
      tc_storage_unref(from);
      outputs[k].storage = to;
    }
    tc_storage_unref(from);
    tc_storage_unref(to);
    TC_TRY(s);
  }
  return exec_synchronize(e->d);
}

static bool is_target(const tc_graph_output *o, const tc_graph_input *in) {
  return in->value && tc_sv_eq(in->target, o->target) && (o->kind == TC_OUT_INPUT_MUTATION) == (in->kind == TC_IN_USER);
}

static tc_status write_back(run_state *r, const tc_tensor *outputs) {
  const tc_graph *g = r->e->plan->graph;
  for (int32_t i = 0; g && i < g->outputs.count; i++) {
    const tc_graph_output *o = &g->outputs.data[i];
    if (o->kind < TC_OUT_BUFFER_MUTATION || o->kind > TC_OUT_PARAMETER_MUTATION || !outputs[i].storage) continue;
    for (int32_t k = 0; k < g->inputs.count; k++) {
      const tc_tensor *to = &r->inputs[k];
      if (!is_target(o, &g->inputs.data[k])) continue;
      bool there = to->storage == outputs[i].storage && to->offset == outputs[i].offset;
      if (there) continue;
      if (to->storage->device != outputs[i].storage->device)
        return tc_error(TC_STATUS_UNIMPLEMENTED, "'" TC_SV_FMT "' is changed; it must be on the host",
                        TC_SV_ARG(o->target));
      TC_TRY(tc_tensor_copy(&outputs[i], to), "while storing '" TC_SV_FMT "'", TC_SV_ARG(o->target));
    }
  }
  return TC_OK;
}

// ---- A run ----
static void give_memory_back(run_state *r) {
  tc_exec *e = r->e;
  for (int32_t i = 0; i < e->plan->bufs.count; i++) {
    tc_storage_unref(r->storage[i]);
    tc_pool_give(r->copies[i]);
    r->storage[i] = NULL, r->copies[i] = NULL;
  }
  for (int32_t i = 0; !r->instance && i < e->n_errors; i++) tc_pool_give(r->error_blocks[i]);
  exec_arena_give(r);
  if (r->instance) exec_replay_release(r);
}

// By an instance, up to the point where its graphs can be launched.
static tc_status get_ready(run_state *r, int64_t arena) {
  exec_find_facts(r);
  TC_TRY(exec_replay_begin(r, arena));
  TC_TRY(place_buffers(r));
  return exec_replay_ready(r);
}

// A run that cannot be recorded begins anew, as an ordinary one.
static tc_status run_recorded(run_state *r, int64_t arena, bool *out_done) {
  tc_pool_block **error_blocks = r->error_blocks;
  *out_done = false;
  if (!exec_replay_take(r)) return TC_OK;
  tc_status s = get_ready(r, arena);
  if (s == TC_OK) {
    *out_done = true;
    return exec_replay_run(r);
  }
  for (int32_t i = 0; i < r->e->plan->bufs.count; i++) {
    tc_storage_unref(r->storage[i]);
    r->storage[i] = NULL;
  }
  exec_replay_drop(r, s);
  r->error_blocks = error_blocks;
  return TC_OK;
}

static tc_status run_plainly(run_state *r, int64_t arena) {
  r->late = exec_rooms_are_late(r, arena);
  if (!r->late || r->e->rooms.whole) TC_TRY(exec_arena_take(r, arena));
  TC_TRY(place_buffers(r));
  TC_TRY(exec_place_errors(r));
  return exec_run_ops(r);
}

// In front of the run that needs it, and like it; afterwards nothing is placed yet.
tc_status exec_run_once(run_state *r, int64_t arena) {
  r->once = true;
  tc_status s = run_plainly(r, arena);
  for (int32_t i = 0; i < r->e->plan->ops.count && s == TC_OK; i++) {
    if (r->e->ops[i].kept < 0) continue;
    s = exec_call_keep(r, &r->e->ops[i]);
    exec_frozen_forget(r, &r->e->ops[i], true);
  }
  if (s == TC_OK) s = exec_read_errors(r);
  else if (!r->e->d->props.host_memory) tc_status_free(exec_synchronize(r->e->d));
  give_memory_back(r);
  for (int32_t i = 0; i < r->e->n_errors; i++) r->error_blocks[i] = NULL;
  for (int32_t i = 0; i < r->e->plan->bufs.count; i++) r->address[i] = (exec_address){0};
  r->once = false;
  return s;
}

// `only_like_last`: nothing is done for other inputs (*out_done).
static tc_status run(run_state *r, tc_tensor *outputs, bool only_like_last, bool *out_done) {
  tc_exec *e = r->e;
  tc_run_report *report = r->options->report;
  int64_t arena = 0;
  bool done = false;
  bool known = exec_last_take(r);
  *out_done = known || !only_like_last;
  if (!*out_done) return TC_OK;
  if (!known) exec_last_begin(r);
  if (!known) TC_TRY(exec_bind_symbols(e, r->inputs, r->options, r->symbols));
  TC_TRY(exec_number_of(r, &e->arena_bytes, &arena));
#ifndef NDEBUG
  TC_TRY(tc_plan_check_memory(e->plan, r->symbols));
#endif
  if (report) {
    if (report->capacity == 0) report->n_launches = 0;
    int64_t largest;
    TC_TRY(exec_number_of(r, &e->largest_bytes, &largest));
    report->arena_bytes = most(report->arena_bytes, arena);
    report->largest_bytes = most(report->largest_bytes, largest);
  }
  TC_TRY(exec_frozen_take(r, arena));
  if (e->replays && !r->options->watch && !(report && report->launches)) TC_TRY(run_recorded(r, arena, &done));
  if (!done) TC_TRY(run_plainly(r, arena));
  TC_TRY(exec_read_errors(r));
  for (int32_t i = 0; i < e->plan->outputs.count; i++)
    TC_TRY(make_output(r, i, &outputs[i]), "while making output %d", i);
  TC_TRY(bring_outputs(r, outputs));
  if (!known) exec_last_leave(r);
  return r->options->write_back ? write_back(r, outputs) : TC_OK;
}

static tc_status run_with(tc_exec *e, const tc_tensor *inputs, tc_tensor *outputs, const tc_run_options *options,
                          bool only_like_last, bool *out_done) {
  static const tc_run_options plain = {0};
  size_t n_bufs = (size_t)e->plan->bufs.count, n_symbols = (size_t)e->n_symbols, n_errors = (size_t)e->n_errors;
  size_t n_numbers = (size_t)exec_last_numbers(e);
  size_t need = (n_symbols + n_numbers) * sizeof(int64_t) +
                n_bufs * (sizeof(exec_address) + sizeof(tc_storage *) + sizeof(tc_pool_block *)) +
                n_errors * sizeof(tc_pool_block *) + 1;
  _Alignas(16) char stack[4096];
  char *memory = need <= sizeof stack ? memset(stack, 0, need) : tc_alloc(e->d->allocator, need);
  if (!memory) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for a run");
  run_state r = {.e = e, .options = options ? options : &plain, .inputs = inputs};
  r.symbols = (int64_t *)(void *)memory;
  r.address = (exec_address *)(void *)(r.symbols + n_symbols + n_numbers);
  if (n_numbers) r.numbers = r.symbols + n_symbols;
  r.storage = (tc_storage **)(void *)(r.address + n_bufs);
  r.copies = (tc_pool_block **)(void *)(r.storage + n_bufs);
  r.error_blocks = r.copies + n_bufs;
  for (int32_t i = 0; i < e->plan->outputs.count; i++) outputs[i] = (tc_tensor){0};
  tc_status s = run(&r, outputs, only_like_last, out_done);
  // Memory goes back to the pools while the device may still read it only if the run failed; then it is waited for.
  if (s != TC_OK && !e->d->props.host_memory) tc_status_free(exec_synchronize(e->d));
  for (int32_t i = 0; s != TC_OK && i < e->plan->outputs.count; i++) tc_tensor_unref(&outputs[i]);
  give_memory_back(&r);
  exec_frozen_give(&r);
  if (memory != stack) tc_free(e->d->allocator, memory);
  return s;
}

tc_status tc_exec_run_with(tc_exec *e, const tc_tensor *inputs, tc_tensor *outputs, const tc_run_options *options) {
  bool done;
  return run_with(e, inputs, outputs, options, false, &done);
}

tc_status tc_exec_run_like_last(tc_exec *e, const tc_tensor *inputs, tc_tensor *outputs, const tc_run_options *options,
                                bool *out_done) {
  *out_done = false;
  return e->last ? run_with(e, inputs, outputs, options, true, out_done) : TC_OK;
}

tc_status tc_exec_run(tc_exec *e, const tc_tensor *inputs, tc_tensor *outputs, tc_run_report *report) {
  return tc_exec_run_with(e, inputs, outputs, &(tc_run_options){.report = report});
}

// ---- Tensors on the device ----
tc_status tc_tensor_to_device(tc_device *d, const tc_tensor *t, tc_tensor *out) {
  if (d->props.host_memory || t->storage->device != 0) {
    *out = tc_tensor_ref(t);
    return TC_OK;
  }
  int64_t bytes = exec_span_of(t) * tc_dtype_size(t->dtype);
  tc_storage *s;
  TC_TRY(tc_pool_storage(d->memory, most(bytes, 1), 1, &s));
  tc_status status = TC_OK;
  if (bytes)
    status = tc_plugin_status(d->plugin,
                              d->plugin->device->copy_in(d->handle, d->stream, (tc_handle)(uintptr_t)s->data, 0,
                                                         tc_tensor_data(t), (uint64_t)bytes),
                              "while copying to the device");
  if (status == TC_OK) status = tc_tensor_view(s, t->dtype, t->rank, t->sizes, t->strides, 0, out);
  tc_storage_unref(s);
  if (status == TC_OK) out->conj = t->conj, out->neg = t->neg;
  return status;
}

tc_status tc_tensor_to_host(tc_device *d, const tc_tensor *t, tc_tensor *out) {
  if (!t->storage || t->storage->device == 0) {
    *out = tc_tensor_ref(t);
    return TC_OK;
  }
  int64_t bytes = exec_span_of(t) * tc_dtype_size(t->dtype);
  tc_storage *s;
  TC_TRY(tc_pool_storage(d->host, most(bytes, 1), 0, &s));
  tc_status status = TC_OK;
  if (bytes)
    status = tc_plugin_status(d->plugin,
                              d->plugin->device->copy_out(d->handle, d->stream, s->data,
                                                          (tc_handle)(uintptr_t)t->storage->data,
                                                          t->offset * tc_dtype_size(t->dtype), (uint64_t)bytes),
                              "while copying from the device");
  if (status == TC_OK) status = exec_synchronize(d);
  if (status == TC_OK) status = tc_tensor_view(s, t->dtype, t->rank, t->sizes, t->strides, 0, out);
  tc_storage_unref(s);
  if (status == TC_OK) out->conj = t->conj, out->neg = t->neg;
  return status;
}
