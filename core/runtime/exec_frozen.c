// What depends on a program's constants only is done in the first run, and again when a run is given other constants:
// another storage or another place in it. Who changes a parameter's memory behind the executable's back must turn the
// option `freeze` off; what the program itself changes is never frozen.
//
// Runs hold what they use, so that several may go on while another one makes it anew.
#include "core/runtime/exec_internal.h"
#include "core/tensor/files.h"

// ---- creation ----
static void note_input(tc_exec *e, int32_t input) {
  for (int32_t i = 0; i < e->once_inputs.count; i++)
    if (e->once_inputs.data[i] == input) return;
  tc_vec_push(e->arena, &e->once_inputs, input);
}

static bool is_fixed(const tc_tensor_type *t) {
  for (int32_t d = 0; d < t->rank; d++)
    if (!tc_sym_is_const(t->sizes[d]) || !tc_sym_is_const(t->strides[d])) return false;
  return true;
}

// Calls of which constant operands are told, and the inputs among these.
static void find_keeping(tc_exec *e) {
  const tc_plan *p = e->plan;
  for (int32_t i = 0; i < p->ops.count; i++) {
    const tc_plan_op *op = &p->ops.data[i];
    e->ops[i].kept = -1;
    bool fixed = op->constant != 0, varies = false;
    for (int32_t k = 0; k < op->n_args && fixed; k++) {
      if (is_fixed(&op->views[k])) continue;
      varies = true;
      fixed = e->d->props.host_memory && (k >= op->n_operands || !(op->constant >> k & 1)); // else nothing is compared
    }
    if (!fixed) continue;
    e->ops[i].kept = e->n_kept++;
    e->ops[i].kept_varies = varies;
    for (int32_t k = 0; k < op->n_operands; k++) {
      int32_t buf = op->args[k].buf;
      if (!(op->constant >> k & 1) || p->bufs.data[buf].kind != TC_PLAN_INPUT) continue;
      e->bufs[buf].once = true;
      note_input(e, p->bufs.data[buf].input);
    }
  }
}

// Is operand k of the operation a constant that a library may have used up once it keeps what it makes of it? Where
// sizes vary it is read again, and on a device what reads it may only be queued.
static bool may_be_spent(const tc_exec *e, int32_t op, int32_t k) {
  const exec_op *x = &e->ops[op];
  const tc_plan_op *o = &e->plan->ops.data[op];
  return e->d->props.host_memory && x->kept >= 0 && !x->kept_varies && k < o->n_operands && o->constant >> k & 1;
}

static void note_read(tc_exec *e, int32_t buf, bool may_be_spent) {
  if (buf < 0 || e->plan->bufs.data[buf].kind != TC_PLAN_FROZEN || e->bufs[buf].reads < 0) return;
  if (may_be_spent) e->bufs[buf].reads++;
  else e->bufs[buf].reads = -1;
}

static void count_reads(tc_exec *e) {
  const tc_plan *p = e->plan;
  for (int32_t i = e->n_once; i < p->ops.count; i++) {
    const tc_plan_op *op = &p->ops.data[i];
    for (int32_t k = 0; k < op->n_args; k++) note_read(e, op->args[k].buf, may_be_spent(e, i, k));
    for (int32_t v = 0; v < op->n_variants; v++)
      for (int32_t k = 0; k < op->variants[v].n_args; k++) note_read(e, op->variants[v].args[k].buf, false);
  }
  for (int32_t i = 0; i < p->outputs.count; i++) note_read(e, p->outputs.data[i].buf, false);
  for (int32_t i = 0; i < p->bufs.count; i++) note_read(e, p->bufs.data[i].host - 1, false);
}

void exec_frozen_prepare(tc_exec *e) {
  const tc_plan *p = e->plan;
  find_keeping(e);
  while (e->n_once < p->ops.count && p->ops.data[e->n_once].once) e->n_once++;
  for (int32_t i = 0; i < p->bufs.count; i++)
    if (p->bufs.data[i].kind == TC_PLAN_FROZEN) e->bufs[i].frozen = e->n_frozen++;
  for (int32_t i = 0; i < e->n_once; i++) {
    for (int32_t k = 0; k < p->ops.data[i].n_args; k++) {
      int32_t buf = p->ops.data[i].args[k].buf;
      if (buf < 0 || p->bufs.data[buf].kind != TC_PLAN_INPUT) continue;
      e->bufs[buf].once = true;
      note_input(e, p->bufs.data[buf].input);
    }
  }
  // An input that nothing else uses need not be on the device in every run.
  for (int32_t i = 0; i < p->bufs.count; i++) e->bufs[i].often = !e->bufs[i].once;
  for (int32_t i = e->n_once; i < p->ops.count; i++) {
    const tc_plan_op *op = &p->ops.data[i];
    for (int32_t k = 0; k < op->n_args; k++)
      if (op->args[k].buf >= 0) e->bufs[op->args[k].buf].often = true;
    for (int32_t v = 0; v < op->n_variants; v++)
      for (int32_t k = 0; k < op->variants[v].n_args; k++)
        if (op->variants[v].args[k].buf >= 0) e->bufs[op->variants[v].args[k].buf].often = true;
  }
  for (int32_t i = 0; i < p->outputs.count; i++)
    if (p->outputs.data[i].buf >= 0) e->bufs[p->outputs.data[i].buf].often = true;
  count_reads(e);
}

// ---- one set ----
static void destroy(tc_exec *e, exec_frozen *f) {
  for (int32_t i = 0; i < e->once_inputs.count; i++) tc_storage_unref(f->inputs[i]);
  for (int32_t i = 0; i < e->n_frozen + e->n_kept; i++) tc_storage_unref(f->storage[i]);
  tc_free(e->d->allocator, f);
}

static tc_status make(run_state *r, exec_frozen **out) {
  tc_exec *e = r->e;
  size_t n_in = (size_t)e->once_inputs.count, n = (size_t)(e->n_frozen + e->n_kept);
  exec_frozen *f = tc_alloc(e->d->allocator, sizeof *f + n_in * (sizeof *f->inputs + sizeof *f->offsets) +
                                                 n * sizeof *f->storage + (size_t)e->n_frozen * sizeof *f->reads);
  if (!f) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for constants");
  f->refs = 1;
  pthread_mutex_lock(&e->lock);
  f->number = ++e->n_sets;
  pthread_mutex_unlock(&e->lock);
  f->offsets = (int64_t *)(void *)(f + 1);
  f->inputs = (tc_storage **)(void *)(f->offsets + n_in);
  f->storage = f->inputs + n_in;
  f->reads = (int32_t *)(void *)(f->storage + n);
  for (size_t i = 0; i < n; i++) f->storage[i] = NULL;
  for (int32_t i = 0; i < e->once_inputs.count; i++) {
    const tc_tensor *t = &r->inputs[e->once_inputs.data[i]];
    f->inputs[i] = t->storage, f->offsets[i] = t->offset;
    tc_storage_ref(t->storage);
  }
  tc_status s = TC_OK;
  for (int32_t i = 0; i < e->plan->bufs.count && s == TC_OK; i++) {
    const tc_plan_buf *b = &e->plan->bufs.data[i];
    if (b->kind != TC_PLAN_FROZEN) continue;
    f->reads[e->bufs[i].frozen] = e->bufs[i].reads;
    int64_t bytes = b->bytes->value;
    s = tc_pool_storage(e->d->memory, bytes > 0 ? bytes : 1, e->d->props.host_memory ? 0 : 1,
                        &f->storage[e->bufs[i].frozen]);
  }
  if (s != TC_OK) {
    destroy(e, f);
    return tc_status_note(s, "while allocating what is made of constants");
  }
  *out = f;
  return TC_OK;
}

static bool fits(const run_state *r, const exec_frozen *f) {
  const tc_exec *e = r->e;
  for (int32_t i = 0; i < e->once_inputs.count; i++) {
    const tc_tensor *t = &r->inputs[e->once_inputs.data[i]];
    if (f->inputs[i] != t->storage || f->offsets[i] != t->offset) return false;
  }
  return true;
}

static void drop(tc_exec *e, exec_frozen *f) {
  if (!f) return;
  pthread_mutex_lock(&e->lock);
  bool last = --f->refs == 0;
  pthread_mutex_unlock(&e->lock);
  if (last) destroy(e, f);
}

// ---- runs ----
// Does the program change memory that it made something of? An input that is written over, or a result that is stored
// in one, may lie in a constant's storage.
static bool is_shared(const run_state *r) {
  const tc_exec *e = r->e;
  const tc_graph *g = e->plan->graph;
  for (int32_t i = 0; i < g->outputs.count; i++) {
    const tc_graph_output *o = &g->outputs.data[i];
    if (o->kind < TC_OUT_BUFFER_MUTATION || o->kind > TC_OUT_PARAMETER_MUTATION) continue;
    for (int32_t k = 0; k < g->inputs.count; k++) {
      if (!g->inputs.data[k].value || !r->inputs[k].storage || !tc_sv_eq(g->inputs.data[k].target, o->target)) continue;
      for (int32_t q = 0; q < e->once_inputs.count; q++)
        if (r->inputs[k].storage->data == r->inputs[e->once_inputs.data[q]].storage->data) return true;
    }
  }
  return false;
}

static void keep(run_state *r) {
  tc_exec *e = r->e;
  pthread_mutex_lock(&e->lock);
  exec_frozen *old = e->frozen;
  e->frozen = r->frozen;
  r->frozen->refs++;
  pthread_mutex_unlock(&e->lock);
  drop(e, old);
}

tc_status exec_frozen_take(run_state *r, int64_t arena) {
  tc_exec *e = r->e;
  tc_run_report *report = r->options->report;
  if (e->n_once == 0 && e->n_kept == 0) return TC_OK;
  pthread_mutex_lock(&e->lock);
  if (e->frozen && fits(r, e->frozen)) {
    r->frozen = e->frozen;
    r->frozen->refs++;
  }
  pthread_mutex_unlock(&e->lock);
  if (!r->frozen) {
    TC_TRY(make(r, &r->frozen));
    TC_TRY(exec_run_once(r, arena), "while preparing constants");
    if (!is_shared(r)) keep(r);
  }
  int64_t bytes = 0;
  for (int32_t i = 0; i < e->n_frozen + e->n_kept; i++)
    if (r->frozen->storage[i]) bytes += (int64_t)r->frozen->storage[i]->size;
  if (report && bytes > report->frozen_bytes) report->frozen_bytes = bytes;
  return TC_OK;
}

void exec_frozen_forget(const run_state *r, const exec_op *x, bool kept) {
  const tc_exec *e = r->e;
  const tc_plan_op *op = x->op;
  if (!e->d->props.host_memory) return; // copies of it may be under way
  for (int32_t k = 0; k < op->n_args; k++) {
    int32_t buf = op->args[k].buf;
    if (buf < 0 || e->plan->bufs.data[buf].kind != TC_PLAN_INPUT || !e->bufs[buf].once) continue;
    if (kept ? k >= op->n_operands || !(op->constant >> k & 1) : e->bufs[buf].often) continue;
    const tc_storage *s = r->inputs[e->plan->bufs.data[buf].input].storage;
    if (s) tc_storage_forget(s);
  }
}

void exec_frozen_spend(run_state *r, const exec_op *x, uint64_t spent) {
  for (int32_t k = 0; k < x->op->n_operands; k++) {
    int32_t buf = x->op->args[k].buf;
    if (!(x->op->constant & spent & UINT64_C(1) << k) || r->e->plan->bufs.data[buf].kind != TC_PLAN_FROZEN) continue;
    int32_t frozen = r->e->bufs[buf].frozen;
    if (r->frozen->reads[frozen] <= 0 || --r->frozen->reads[frozen]) continue;
    tc_storage_unref(r->frozen->storage[frozen]);
    r->frozen->storage[frozen] = NULL;
    r->address[buf] = (exec_address){0};
  }
}

exec_address exec_frozen_address(const run_state *r, int32_t buf) {
  const tc_storage *s = r->frozen->storage[r->e->bufs[buf].frozen];
  return (exec_address){s ? (tc_handle)(uintptr_t)s->data : 0, 0};
}

void exec_frozen_give(run_state *r) {
  drop(r->e, r->frozen);
  r->frozen = NULL;
}

const tc_storage *exec_frozen_kept(const run_state *r, const exec_op *x) {
  return r->frozen && x->kept >= 0 ? r->frozen->storage[r->e->n_frozen + x->kept] : NULL;
}

void exec_frozen_destroy(tc_exec *e) {
  drop(e, e->frozen);
  e->frozen = NULL;
}
