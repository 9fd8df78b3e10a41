// Library calls of a plan.
//
// A library is chosen when the executable is made: the cheapest of those that support the node for its example sizes.
// What it prepares is kept per set of actual sizes and strides, a bounded number of them, the least recently used going
// first. What it makes of constants once serves all sizes for which it would make the same bytes; the others are
// prepared as if nothing were constant.
#include <string.h>

#include "core/runtime/call_epilogue.h"
#include "core/runtime/exec_internal.h"

enum { MOST_PREPARED = 16 };

// ---- Asking ----
void exec_fill_view(exec_question *q, int32_t k, tc_sym_ctx *c, const tc_tensor_type *t) {
  for (int32_t d = 0; d < t->rank; d++) {
    q->numbers[k][0][d] = tc_sym_hint_or(c, t->sizes[d], INT64_MIN);
    q->numbers[k][1][d] = t->strides ? tc_sym_hint_or(c, t->strides[d], INT64_MIN) : INT64_MIN;
  }
  q->views[k] = (tc_view){.dtype = t->dtype, .rank = t->rank, .sizes = q->numbers[k][0], .strides = q->numbers[k][1]};
}

void exec_fill_node(exec_question *q, const tc_node *n, const tc_op_args *args, int32_t n_operands, int32_t n_results) {
  q->node = (tc_call_node){.struct_size = sizeof q->node, .args = args};
  tc_call_describe(n, &q->node, q->epilogue);
  q->node.operands = q->views;
  q->node.n_operands = n_operands;
  q->node.results = q->views + n_operands;
  q->node.n_results = n_results;
}

bool exec_ask(tc_device *d, const tc_device_calls *c, const tc_call_node *n, int64_t *out_cost) {
  *out_cost = -1;
  if (!tc_plugin_calls(c->plugin, n->op)) return false;
  tc_status s = tc_plugin_status(c->plugin, c->table->supports(c->plugin->host, d->handle, n, out_cost),
                                 "while asking a library");
  if (s != TC_OK) tc_log(d->logger, TC_LOG_PERF_HINTS, "%s", tc_status_text(s));
  bool can = s == TC_OK && *out_cost >= 0;
  tc_status_free(s);
  return can;
}

const tc_device_calls *exec_cheapest(tc_device *d, const tc_call_node *n, bool preferred, int64_t *out_cost) {
  const tc_device_calls *best = NULL;
  int64_t least = INT64_MAX;
  for (int32_t i = 0; i < d->n_calls; i++) {
    const tc_device_calls *c = &d->calls[i];
    int64_t cost;
    if (preferred && !c->table->preferred) continue;
    if (exec_ask(d, c, n, &cost) && cost < least) best = c, least = cost;
  }
  if (out_cost) *out_cost = least;
  return best;
}

tc_sv exec_refusal(const tc_device *d, tc_arena *arena) {
  tc_sv text = {0};
  for (int32_t i = 0; i < d->n_calls && !text.size; i++) text = tc_plugin_take_diag(d->calls[i].plugin, arena);
  return text;
}

// ---- Creation ----
// The library that the plan was compiled for.
static tc_status find_named(tc_device *d, const tc_plan_op *op, const tc_call_node *n, const tc_device_calls **out) {
  int64_t cost;
  for (int32_t i = 0; i < d->n_calls; i++) {
    const tc_device_calls *x = &d->calls[i];
    if (!tc_sv_eq(x->table->name, op->by)) continue;
    if (!tc_sv_eq(x->plugin->version, op->by_version))
      return tc_error(TC_STATUS_INVALID_ARGUMENT,
                      "the call @" TC_SV_FMT " was compiled for the library " TC_SV_FMT " of version " TC_SV_FMT
                      " of its plugin, this is version " TC_SV_FMT ": compile the model again",
                      TC_SV_ARG(op->name), TC_SV_ARG(op->by), TC_SV_ARG(op->by_version), TC_SV_ARG(x->plugin->version));
    *out = x;
    if (exec_ask(d, x, n, &cost)) return TC_OK;
    return tc_error(TC_STATUS_UNIMPLEMENTED,
                    "the library " TC_SV_FMT " does the call @" TC_SV_FMT " no more: compile the model again",
                    TC_SV_ARG(op->by), TC_SV_ARG(op->name));
  }
  return tc_error(TC_STATUS_NOT_FOUND,
                  "the call @" TC_SV_FMT " was compiled for the library " TC_SV_FMT ", which %s has not: compile the "
                  "model again",
                  TC_SV_ARG(op->name), TC_SV_ARG(op->by), d->props.name);
}

void tc_exec_name_calls(const tc_exec *e, tc_plan *p) {
  for (int32_t i = 0; i < p->ops.count; i++) {
    tc_plan_op *op = &p->ops.data[i];
    const exec_call *c = e->ops[i].call;
    if (c) op->by = c->table->name, op->by_version = c->plugin->version, op->way = c->variant;
    for (int32_t k = 0; k < tc_plan_region_count(op->kind); k++)
      tc_exec_name_calls(exec_control_region(&e->ops[i], k), op->regions[k]);
  }
}

tc_status exec_call_create(tc_exec *e, exec_op *x) {
  const tc_plan_op *op = x->op;
  if (!op->call) return tc_error(TC_STATUS_INVALID_ARGUMENT, "the call @" TC_SV_FMT " has no op", TC_SV_ARG(op->name));
  const tc_node *n = op->call->node;
  if (op->n_args > EXEC_MOST_VIEWS || !op->views)
    return tc_error(TC_STATUS_UNIMPLEMENTED, "a call with %d tensors", op->n_args);
  exec_call *c = TC_NEW(e->arena, exec_call);
  pthread_mutex_init(&c->lock, NULL);
  x->call = c;
  exec_question *q = TC_NEW(e->arena, exec_question);
  c->shapes = TC_NEW_ARRAY(e->arena, exec_shape, op->n_args);
  for (int32_t k = 0; k < op->n_args; k++) {
    const tc_tensor_type *t = &op->views[k];
    exec_fill_view(q, k, e->plan->syms, t);
    exec_shape *s = &c->shapes[k];
    s->sizes = TC_NEW_ARRAY(e->arena, exec_number, t->rank);
    s->strides = TC_NEW_ARRAY(e->arena, exec_number, t->rank);
    for (int32_t d = 0; d < t->rank; d++) {
      s->sizes[d] = exec_number_make(e, t->sizes[d]);
      s->strides[d] = exec_number_make(e, t->strides[d]);
    }
    s->offset = exec_number_make(e, t->offset);
    c->n_numbers += 2 * t->rank;
  }
  c->args = TC_NEW(e->arena, tc_op_args);
  tc_op_args_init(c->args, TC_MOMENT_LOWER, e->plan->module, n->graph, n->op, n->n_args, n->args, n->source);
  exec_fill_node(q, n, c->args, op->n_operands, op->n_args - op->n_operands);
  const tc_device_calls *best = e->trial ? e->trial->calls : NULL;
  if (best) {
    c->variant = e->trial->variant;
  } else if (op->by.size && !e->trial) {
    TC_TRY(find_named(e->d, op, &q->node, &best));
    c->variant = op->way;
  } else if (!e->d->tuned || e->d->tuned(e->d, e->arena, n, &best, &c->variant) != TC_TUNED_CALL) {
    best = NULL;
  }
  if (!best) best = exec_cheapest(e->d, &q->node, false, NULL);
  if (!best)
    return tc_error(TC_STATUS_UNIMPLEMENTED, "no library does " TC_SV_FMT " for these layouts\n  at " TC_SV_FMT,
                    TC_SV_ARG(n->op->full_name), TC_SV_ARG(n->source));
  c->plugin = best->plugin;
  c->table = best->table;
  return TC_OK;
}

static void drop(tc_exec *e, exec_call *c, exec_prepared *p) {
  c->table->destroy(p->prepared);
  tc_free(e->d->allocator, p);
}

void exec_call_destroy(tc_exec *e, exec_op *x) {
  exec_call *c = x->call;
  if (!c) return;
  for (exec_prepared *p = c->prepared, *next; p; p = next) {
    next = p->next;
    drop(e, c, p);
  }
  pthread_mutex_destroy(&c->lock);
}

// ---- Runs ----
typedef struct call_run {
  tc_view views[EXEC_MOST_VIEWS + 1]; // operands, what is kept, results
  const tc_view *results;
  int64_t kept[2]; // its size and stride
  int64_t key[EXEC_MOST_VIEWS * 2 * TC_MAX_RANK];
} call_run;

static void fill_kept(const tc_storage *s, call_run *q, tc_view *out) {
  q->kept[0] = (int64_t)s->size, q->kept[1] = 1;
  *out = (tc_view){.dtype = TC_U8, .rank = 1, .sizes = &q->kept[0], .strides = &q->kept[1]};
  out->memory = (tc_handle)(uintptr_t)s->data;
}

static tc_status fill_run(run_state *r, const exec_op *x, call_run *q) {
  int64_t *at = q->key;
  const tc_storage *kept = exec_frozen_kept(r, x);
  tc_view *view = q->views;
  for (int32_t k = 0; k < x->op->n_args; k++) {
    if (k == x->op->n_operands && kept) fill_kept(kept, q, view++);
    if (k == x->op->n_operands) q->results = view;
    const tc_tensor_type *t = &x->op->views[k];
    const exec_shape *s = &x->call->shapes[k];
    const exec_address *a = &r->address[x->op->args[k].buf];
    int64_t offset, *sizes = at, *strides = at + t->rank;
    for (int32_t d = 0; d < t->rank; d++) {
      TC_TRY(exec_number_of(r, &s->sizes[d], &sizes[d]));
      TC_TRY(exec_number_of(r, &s->strides[d], &strides[d]));
    }
    TC_TRY(exec_number_of(r, &s->offset, &offset));
    at += 2 * t->rank;
    *view = (tc_view){.dtype = t->dtype, .rank = t->rank, .sizes = sizes, .strides = strides, .memory = a->memory};
    view++->offset = a->offset + offset * tc_dtype_size(t->dtype);
  }
  return TC_OK;
}

// Under the lock: the entry of the key, moved to the front.
static exec_prepared *find(exec_call *c, const int64_t *key, int64_t set) {
  for (exec_prepared **at = &c->prepared; *at; at = &(*at)->next) {
    exec_prepared *p = *at;
    if (p->set != set || memcmp(p->key, key, (size_t)c->n_numbers * sizeof *key) != 0) continue;
    *at = p->next;
    p->next = c->prepared;
    return c->prepared = p;
  }
  return NULL;
}

// Under the lock: drops the last one that nobody runs.
static void make_room(tc_exec *e, exec_call *c) {
  exec_prepared **last = NULL;
  for (exec_prepared **at = &c->prepared; *at; at = &(*at)->next) {
    if ((*at)->users == 0) last = at;
  }
  if (c->n_prepared < MOST_PREPARED || !last) return;
  exec_prepared *p = *last;
  *last = p->next;
  c->n_prepared--;
  drop(e, c, p);
}

static tc_status prepare(tc_exec *e, const exec_op *x, const call_run *q, uint64_t constant, exec_prepared **out) {
  exec_call *c = x->call;
  size_t key_bytes = (size_t)c->n_numbers * sizeof *q->key;
  exec_prepared *p = tc_alloc(e->d->allocator, sizeof *p + key_bytes);
  if (!p) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for a call");
  p->key = (int64_t *)(void *)(p + 1);
  memcpy(p->key, q->key, key_bytes);
  tc_call_node n = {.struct_size = sizeof n, .args = c->args, .operands = q->views, .n_operands = x->op->n_operands};
  tc_call_describe(x->op->call->node, &n, c->epilogue);
  n.results = q->results;
  n.n_results = x->op->n_args - n.n_operands;
  n.variant = c->variant;
  n.constant = constant;
  int32_t rc = c->table->prepare(c->plugin->host, e->d->handle, &n, &p->prepared, &p->workspace);
  tc_status s = tc_plugin_status(c->plugin, rc, "while preparing " TC_SV_FMT " of the library " TC_SV_FMT,
                                 TC_SV_ARG(n.op), TC_SV_ARG(c->table->name));
  if (s == TC_OK) *out = p;
  else tc_free(e->d->allocator, p);
  return s;
}

// What it makes of its constant operands, if that is anything.
static tc_status make_kept(tc_exec *e, const exec_call *c, const exec_prepared *p, const call_run *q,
                           tc_storage **out) {
  tc_device *d = e->d;
  uint64_t bytes = 0;
  tc_pool_block *block = NULL;
  *out = NULL;
  if (c->table->kept(p->prepared, &bytes) != TC_STATUS_OK || !bytes) return TC_OK;
  tc_status s = tc_pool_storage(d->memory, (int64_t)bytes, d->props.host_memory ? 0 : 1, out);
  if (s == TC_OK && p->workspace) s = tc_pool_take(d->memory, (int64_t)p->workspace, &block);
  if (s == TC_OK) {
    call_run numbers;
    tc_view kept;
    fill_kept(*out, &numbers, &kept);
    int32_t rc = c->table->keep(p->prepared, d->stream, q->views, &kept, block ? block->memory : 0, 0);
    s = tc_plugin_status(c->plugin, rc, "while preparing constants for the library " TC_SV_FMT,
                         TC_SV_ARG(c->table->name));
  }
  tc_pool_give(block);
  return s;
}

static int64_t set_of(const run_state *r, const exec_op *x) {
  return x->kept >= 0 && x->kept_varies ? r->frozen->number : 0;
}

// Under the lock: what is prepared for these sizes. `making`: what is kept is yet to be made, by this one.
static tc_status obtain(run_state *r, const exec_op *x, const call_run *q, bool making, exec_prepared **out) {
  exec_call *c = x->call;
  int64_t set = set_of(r, x);
  if ((*out = find(c, q->key, set))) return TC_OK;
  const tc_storage *kept = exec_frozen_kept(r, x);
  uint64_t constant = x->kept >= 0 && (!set || making || kept) ? x->op->constant : 0;
  exec_prepared *p;
  TC_TRY(prepare(r->e, x, q, constant, &p));
  if (set && constant && !making) {
    tc_storage *own;
    tc_status s = make_kept(r->e, c, p, q, &own);
    bool same = s == TC_OK && (!own || (own->size == kept->size && !memcmp(own->data, kept->data, own->size)));
    tc_storage_unref(own);
    if (!same) drop(r->e, c, p);
    TC_TRY(s);
    if (!same) TC_TRY(prepare(r->e, x, q, 0, &p));
  }
  p->set = set;
  make_room(r->e, c);
  p->next = c->prepared;
  c->prepared = p;
  c->n_prepared++;
  *out = p;
  return TC_OK;
}

static tc_status hold(run_state *r, exec_op *x, const call_run *q, bool making, exec_prepared **out) {
  pthread_mutex_lock(&x->call->lock);
  tc_status s = obtain(r, x, q, making, out);
  if (s == TC_OK) (*out)->users++;
  pthread_mutex_unlock(&x->call->lock);
  return s;
}

tc_status exec_call_hold(run_state *r, exec_op *x, exec_prepared **out, int64_t *out_workspace) {
  call_run q;
  TC_TRY(fill_run(r, x, &q));
  TC_TRY(hold(r, x, &q, false, out));
  *out_workspace = (int64_t)(*out)->workspace;
  return TC_OK;
}

void exec_call_drop(exec_op *x, exec_prepared *p) {
  pthread_mutex_lock(&x->call->lock);
  p->users--;
  pthread_mutex_unlock(&x->call->lock);
}

static tc_status run_prepared(const exec_op *x, exec_prepared *p, tc_handle stream, const call_run *q, tc_handle memory,
                              int64_t offset) {
  const exec_call *c = x->call;
  int32_t rc = c->table->run(p->prepared, stream, q->views, q->results, memory, offset);
  tc_status s = tc_plugin_status(c->plugin, rc, "while running " TC_SV_FMT " of the library " TC_SV_FMT,
                                 TC_SV_ARG(x->op->name), TC_SV_ARG(c->table->name));
  tc_sv line = x->op->source;
  return s != TC_OK && line.size ? tc_status_note(s, "at " TC_SV_FMT, TC_SV_ARG(line)) : s;
}

static tc_status record_call(run_state *r, exec_op *x, const call_run *q) {
  tc_handle memory;
  int64_t offset;
  exec_prepared *p = exec_replay_held(r, x, &memory, &offset);
  if (!x->call->table->thread_safe) pthread_mutex_lock(&x->call->lock);
  tc_status s = run_prepared(x, p, r->recorder, q, memory, offset);
  if (!x->call->table->thread_safe) pthread_mutex_unlock(&x->call->lock);
  return s;
}

tc_status exec_call_keep(run_state *r, exec_op *x) {
  call_run q;
  exec_prepared *p;
  TC_TRY(fill_run(r, x, &q));
  TC_TRY(hold(r, x, &q, true, &p));
  tc_status s = make_kept(r->e, x->call, p, &q, &r->frozen->storage[r->e->n_frozen + x->kept]);
  if (s == TC_OK && exec_frozen_kept(r, x) && x->call->table->spent) {
    uint64_t spent = 0;
    int32_t rc = x->call->table->spent(p->prepared, &spent);
    s = tc_plugin_status(x->call->plugin, rc, "while asking the library " TC_SV_FMT " what it has used up",
                         TC_SV_ARG(x->call->table->name));
    if (s == TC_OK) exec_frozen_spend(r, x, spent);
  }
  exec_call_drop(x, p);
  return s != TC_OK ? tc_status_note(s, "for @" TC_SV_FMT, TC_SV_ARG(x->op->name)) : s;
}

tc_status exec_call_run(run_state *r, exec_op *x) {
  tc_exec *e = r->e;
  exec_call *c = x->call;
  call_run q;
  exec_prepared *p;
  TC_TRY(fill_run(r, x, &q));
  if (r->recorder) return record_call(r, x, &q);
  pthread_mutex_lock(&c->lock);
  tc_status s = obtain(r, x, &q, false, &p);
  if (s == TC_OK) p->users++;
  // A library that serves one caller at a time is called under the lock.
  if (s != TC_OK || c->table->thread_safe) pthread_mutex_unlock(&c->lock);
  TC_TRY(s);
  tc_pool_block *workspace = NULL;
  exec_address at = {0};
  if (p->workspace && !exec_rooms_spare(r, x, (int64_t)p->workspace, &at)) {
    s = tc_pool_take(e->d->memory, (int64_t)p->workspace, &workspace);
    if (s == TC_OK) at.memory = workspace->memory;
  }
  if (s == TC_OK) s = run_prepared(x, p, e->d->stream, &q, at.memory, at.offset);
  tc_pool_give(workspace); // whoever takes it next is behind this call in the stream
  if (c->table->thread_safe) pthread_mutex_lock(&c->lock);
  p->users--;
  pthread_mutex_unlock(&c->lock);
  return s;
}
