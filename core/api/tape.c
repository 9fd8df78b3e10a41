// The tape of single ops (tape.h, tc/tc.h): recording, going back, checkpoint regions, derivatives that users bring.
#include "core/api/tape.h"

#include <string.h>

#include "core/api/trace.h"
#include "core/runtime/gradient.h"

typedef struct node_result {
  tc_tensor value; // without storage unless the backward reads it
  uint32_t seen;
  tc_dtype dtype;
  int32_t rank;
  int64_t sizes[TC_MAX_RANK];
} node_result;

struct api_node {
  int32_t refs; // atomic
  uint64_t id;
  tc_context *context;
  api_node *next; // of those that are to be released
  tc_grad_step *step;
  tc_grad_draw draw;
  tc_function_body body, derivative; // without a step: a region that runs again, or what has a derivative of its own
  void *self;
  uint64_t drawn; // region: random ops before it
  int32_t n_inputs, n_results, n_saved;
  tc_tensor **inputs; // handles of the node's own, leaves aside; NULL: absent
  uint32_t *seen;     // the writes that their memory had seen
  node_result *results;
  tc_tensor *saved;
};

static uint32_t version_of(const tc_tensor *t) { return api_tape_version(t); }

// What is no view of something that was written since has its own place on the tape.
static bool is_on_tape(const tc_tensor *t) {
  const api_tensor *x = api_of(t);
  return x->leaf || x->node || (x->base && x->seen != version_of(t) && is_on_tape(x->base));
}

bool api_is_tracked(const tc_tensor *t) { return t && *api_grad_enabled() && is_on_tape(t); }

static int32_t out_of_memory(void) { return api_fail(tc_error_out_of_memory()); }

// ---- nodes ----
// Zeroed room for n elements and one more.
static void *room(const tc_context *c, int64_t n, size_t size) {
  void *p = tc_alloc(c->allocator, (size_t)(n + 1) * size);
  if (p) memset(p, 0, (size_t)(n + 1) * size);
  return p;
}

static void release_parts(api_node *n) {
  const tc_allocator *a = n->context->allocator;
  for (int32_t i = 0; n->inputs && i < n->n_inputs; i++) tc_release(n->inputs[i]);
  for (int32_t i = 0; n->results && i < n->n_results; i++) tc_tensor_unref(&n->results[i].value);
  for (int32_t i = 0; n->saved && i < n->n_saved; i++) tc_tensor_unref(&n->saved[i]);
  tc_grad_step_unref(n->step);
  tc_free(a, (void *)n->inputs);
  tc_free(a, n->seen);
  tc_free(a, n->results);
  tc_free(a, n->saved);
  tc_free(a, n);
}

// A chain may be as long as a program ran: nodes are released one behind the other, not one inside the other.
void api_node_unref(api_node *n) {
  if (!n || __atomic_sub_fetch(&n->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
  api_releases *r = api_thread_releases();
  n->next = r->first, r->first = n;
  if (r->running) return;
  r->running = true;
  while (r->first) {
    api_node *x = r->first;
    r->first = x->next;
    release_parts(x);
  }
  r->running = false;
}

static api_node *new_node(tc_context *c, int32_t n_inputs, int32_t n_results, int32_t n_saved) {
  api_node *n = tc_alloc(c->allocator, sizeof *n);
  if (!n) return NULL;
  *n = (api_node){.refs = 1, .context = c, .n_inputs = n_inputs, .n_results = n_results, .n_saved = n_saved};
  n->id = __atomic_add_fetch(&c->n_nodes, 1, __ATOMIC_RELAXED);
  n->inputs = room(c, n_inputs, sizeof(*n->inputs));
  n->seen = room(c, n_inputs, sizeof *n->seen);
  n->results = room(c, n_results, sizeof *n->results);
  n->saved = room(c, n_saved, sizeof *n->saved);
  if (n->inputs && n->seen && n->results && n->saved) return n;
  api_node_unref(n);
  return NULL;
}

// A handle of the node's own with the operand's place on the tape; `value`: with its memory, too.
static tc_tensor *snapshot(tc_tensor *t, const tc_tensor *value) {
  if (api_of(t)->leaf) return tc_retain(t);
  api_tensor *x = api_new(api_of(t)->context);
  if (!x) return NULL;
  x->value = *t;
  x->value.storage = NULL;
  if (value) x->value = tc_tensor_ref(value);
  x->seen = version_of(&x->value);
  x->node = api_of(t)->node, x->output = api_of(t)->output;
  if (x->node) __atomic_fetch_add(&x->node->refs, 1, __ATOMIC_RELAXED);
  return &x->value;
}

// Steps take values as they are: lazy bits are resolved. A new reference.
static tc_status resolved(const tc_context *c, const tc_tensor *t, tc_tensor *out) {
  *out = t->conj || t->neg ? (tc_tensor){0} : tc_tensor_ref(t);
  return out->storage ? TC_OK : tc_tensor_contiguous(c->allocator, t, out);
}

static tc_status note_result(api_node *n, int32_t i, const tc_tensor *t, bool with_value) {
  node_result *r = &n->results[i];
  r->dtype = t->dtype, r->rank = t->rank;
  memcpy(r->sizes, t->sizes, sizeof r->sizes);
  if (with_value) TC_TRY(resolved(n->context, t, &r->value));
  r->seen = version_of(&r->value);
  return TC_OK;
}

void api_tape_place(tc_tensor *t, api_node *n, int32_t i) {
  api_tensor *x = api_of(t);
  if (n) __atomic_fetch_add(&n->refs, 1, __ATOMIC_RELAXED);
  api_node_unref(x->node);
  x->node = n, x->output = i, x->seen = version_of(t);
}

// ---- recording ----
static int32_t flat_count(int32_t n_args, const tc_argument *args) {
  int32_t n = 0;
  for (int32_t i = 0; i < n_args; i++)
    n += args[i].kind == TC_ARGUMENT_TENSOR ? 1 : args[i].kind == TC_ARGUMENT_TENSORS ? args[i].n : 0;
  return n;
}

static tc_tensor *flat_at(int32_t n_args, const tc_argument *args, int32_t at) {
  for (int32_t i = 0; i < n_args; i++) {
    if (args[i].kind == TC_ARGUMENT_TENSOR && at-- == 0) return args[i].v.tensor;
    if (args[i].kind != TC_ARGUMENT_TENSORS) continue;
    if (at < args[i].n) return args[i].v.tensors[at];
    at -= args[i].n;
  }
  return NULL;
}

bool api_on_tape(const tc_op *op, int32_t n_args, const tc_argument *args) {
  bool any = false;
  if (!*api_grad_enabled() || tc_sv_is(op->schema.name, "detach")) return false;
  for (int32_t i = 0; i < n_args && !any; i++) {
    tc_tensor *t = args[i].kind == TC_ARGUMENT_TENSOR ? args[i].v.tensor : NULL;
    any = api_is_tracked(t) || (t && op->schema.args[i].writes && api_of(t)->base && is_on_tape(api_of(t)->base));
    for (int32_t k = 0; args[i].kind == TC_ARGUMENT_TENSORS && k < args[i].n && !any; k++)
      any = api_is_tracked(args[i].v.tensors[k]);
  }
  return any;
}

typedef struct taped_call { // an op, or a step of which there is no op
  tc_context *c;
  const char *here;
  const tc_op *op;
  int32_t n_args, n;
  const tc_argument *args;
  tc_tensor **handles; // flat
  tc_tensor *values;   // references
  bool *wanted;
  bool *writes; // flat
  tc_grad_step *step;
  tc_grad_draw draw;
  bool any_write;
  const tc_tensor *value; // the result, which is there already; NULL: the op runs
  tc_tensor *results;
  int32_t n_results;
  api_node *node;
} taped_call;

static tc_status check_written(const tc_tensor *t) {
  const api_tensor *x = api_of(t);
  if (!x->leaf && !(x->base && api_of(x->base)->leaf)) return TC_OK;
  return tc_error(
      TC_STATUS_INVALID_ARGUMENT,
      "%s that requires a gradient is written in place: do it where gradients are off (tc_set_grad_enabled)",
      x->leaf ? "a tensor" : "a part of a tensor");
}

// The flat number of the argument, which is a tensor; -1: none is given.
static int32_t flat_of(const taped_call *q, int32_t arg) {
  if (arg < 0 || arg >= q->n_args || q->args[arg].kind != TC_ARGUMENT_TENSOR) return -1;
  return flat_count(arg, q->args);
}

static tc_status look_at_operands(taped_call *q) {
  for (int32_t i = 0; i < q->n; i++) {
    tc_tensor *t = q->op ? flat_at(q->n_args, q->args, i) : q->handles[i];
    q->handles[i] = t;
    if (!t) continue;
    if (t->storage) TC_TRY(resolved(q->c, t, &q->values[i]));
    q->wanted[i] = api_is_tracked(t) && (tc_dtype_is_float(t->dtype) || tc_dtype_is_complex(t->dtype));
    if (q->wanted[i]) TC_TRY(api_tape_freshen(t));
    q->wanted[i] = q->wanted[i] && api_is_tracked(t); // what it is a view of was filled with constants
  }
  for (int32_t a = 0; q->op && a < q->n_args; a++) {
    int32_t i = q->op->schema.args[a].writes ? flat_of(q, a) : -1;
    if (i < 0 || !q->handles[i]) continue;
    TC_TRY(check_written(q->handles[i]));
    if (api_of(q->handles[i])->base) TC_TRY(api_tape_freshen(api_of(q->handles[i])->base));
    q->writes[i] = q->any_write = true;
  }
  return TC_OK;
}

// What the backward reads of what is written is copied before.
static tc_status make_node(taped_call *q) {
  api_node *n = new_node(q->c, q->n, tc_grad_step_results(q->step), tc_grad_step_saved(q->step));
  if (!n) return tc_error_out_of_memory();
  q->node = n;
  n->step = tc_grad_step_ref(q->step), n->draw = q->draw;
  for (int32_t i = 0; i < q->n; i++) {
    bool reads = q->handles[i] && tc_grad_step_reads(q->step, i);
    tc_tensor copy = {0};
    if (!q->handles[i] || (!reads && !q->wanted[i])) continue;
    if (reads && q->writes[i]) {
      const tc_tensor *t = q->handles[i];
      TC_TRY(tc_tensor_create(q->c->allocator, t->dtype, t->rank, t->sizes, &copy));
      tc_status s = tc_tensor_copy(t, &copy);
      if (s != TC_OK) {
        tc_tensor_unref(&copy);
        return s;
      }
    }
    n->inputs[i] = snapshot(q->handles[i], copy.storage ? &copy : reads ? &q->values[i] : NULL);
    tc_tensor_unref(&copy);
    if (!n->inputs[i]) return tc_error_out_of_memory();
    n->seen[i] = version_of(n->inputs[i]);
  }
  return TC_OK;
}

// What is written keeps its memory, which takes the op's result.
static tc_status store_writes(taped_call *q) {
  for (int32_t i = 0; i < q->n_results; i++) {
    int32_t flat = flat_of(q, tc_op_written_argument(q->op, i));
    if (flat < 0 || !q->results[i].storage) continue;
    TC_TRY(tc_tensor_copy(&q->results[i], q->handles[flat]));
    tc_tensor_unref(&q->results[i]);
    q->results[i] = tc_tensor_ref(q->handles[flat]);
  }
  for (int32_t i = 0; i < q->n; i++)
    if (q->writes[i]) api_note_write(q->handles[i]);
  return TC_OK;
}

static bool is_view(const taped_call *q) {
  return q->op && !q->any_write && q->op->schema.n_returns && q->op->schema.returns[0].alias;
}

static tc_status run_forward(taped_call *q) {
  bool plain = q->op && !q->any_write && tc_grad_step_saved(q->step) == 0 && !tc_grad_step_is_random(q->step);
  if (plain && !q->value) return tc_eager_run(q->c->eager, q->op, q->n_args, q->args, &q->results, &q->n_results);
  q->results = room(q->c, tc_grad_step_results(q->step), sizeof *q->results);
  if (!q->results) return tc_error_out_of_memory();
  q->n_results = tc_grad_step_results(q->step);
  if (q->value) {
    q->results[0] = tc_tensor_ref(q->value);
    return TC_OK;
  }
  TC_TRY(tc_grad_step_forward(q->step, q->values, &q->draw, q->results, q->node->saved));
  if (q->any_write) return store_writes(q);
  if (!is_view(q)) return TC_OK;
  tc_tensor *copies = q->results; // views stay views
  int32_t n = q->n_results;
  q->results = NULL;
  tc_status s = tc_eager_run(q->c->eager, q->op, q->n_args, q->args, &q->results, &q->n_results);
  for (int32_t i = 0; i < n; i++) tc_tensor_unref(&copies[i]);
  tc_free(q->c->allocator, copies);
  return s;
}

static tc_status record(taped_call *q, int32_t capacity, tc_tensor **results, int32_t *n_results) {
  if (q->n_results > capacity || (!n_results && q->n_results != capacity))
    return tc_error(TC_STATUS_OUT_OF_RANGE, "%d results; there is room for %d", q->n_results, capacity);
  for (int32_t i = 0; i < q->n_results; i++) {
    if (!q->results[i].storage) continue;
    TC_TRY(note_result(q->node, i, &q->results[i], tc_grad_step_reads_result(q->step, i)));
    results[i] = api_wrap(q->c, tc_tensor_ref(&q->results[i]));
    if (!results[i]) return tc_error_out_of_memory();
    api_note_sharing(results[i], q->n, q->handles);
    int32_t flat = q->any_write ? flat_of(q, tc_op_written_argument(q->op, i)) : -1;
    api_node *n = tc_grad_step_flows(q->step, i) ? q->node : NULL;
    api_tape_place(results[i], n, i);
    if (flat >= 0) api_tape_place(q->handles[flat], n, i);
  }
  if (n_results) *n_results = q->n_results;
  return TC_OK;
}

static tc_status run_taped(taped_call *q, int32_t capacity, tc_tensor **results, int32_t *n_results) {
  TC_TRY(make_node(q));
  TC_TRY(run_forward(q));
  return record(q, capacity, results, n_results);
}

static bool open_call(taped_call *q) {
  q->handles = room(q->c, q->n, sizeof(*q->handles));
  q->values = room(q->c, q->n, sizeof *q->values);
  q->wanted = room(q->c, q->n, sizeof *q->wanted);
  q->writes = room(q->c, q->n, sizeof *q->writes);
  return q->handles && q->values && q->wanted && q->writes;
}

static void close_call(taped_call *q) {
  const tc_allocator *a = q->c->allocator;
  for (int32_t i = 0; q->results && i < q->n_results; i++) tc_tensor_unref(&q->results[i]);
  tc_free(a, q->results);
  for (int32_t i = 0; q->values && i < q->n; i++) tc_tensor_unref(&q->values[i]);
  tc_free(a, (void *)q->handles);
  tc_free(a, q->values);
  tc_free(a, q->wanted);
  tc_free(a, q->writes);
  tc_grad_step_unref(q->step);
  api_node_unref(q->node);
}

// Finds or makes the step, and records the call if a gradient flows back through it.
static tc_status call_taped(taped_call *q, int32_t capacity, tc_tensor **results, int32_t *n_results, bool *flows) {
  *flows = false;
  if (!open_call(q)) return tc_error_out_of_memory();
  TC_TRY(look_at_operands(q));
  TC_TRY(tc_grad_step_of(q->c->eager, q->op, q->n_args, q->args, q->n, q->values, q->wanted, &q->step));
  for (int32_t i = 0; i < tc_grad_step_results(q->step); i++) *flows |= tc_grad_step_flows(q->step, i);
  if (!*flows) return TC_OK;
  q->draw = tc_grad_step_draw(q->step);
  return run_taped(q, capacity, results, n_results);
}

// What the op wrote without a gradient that flows back has none; a view's is that of what it looks at, too.
static tc_status settle_writes(const taped_call *q, bool flows) {
  for (int32_t i = 0; i < q->n; i++) {
    if (!q->writes[i]) continue;
    if (!flows) api_tape_place(q->handles[i], NULL, 0);
    TC_TRY(api_tape_written(q->handles[i]));
  }
  return TC_OK;
}

int32_t api_tape_op(tc_context *c, const char *here, const tc_op *op, int32_t n_args, const tc_argument *args,
                    int32_t capacity, tc_tensor **results, int32_t *n_results) {
  taped_call q = {.c = c, .here = here, .op = op, .n_args = n_args, .args = args, .n = flat_count(n_args, args)};
  bool flows;
  int32_t code = TC_STATUS_OK;
  tc_status s = call_taped(&q, capacity, results, n_results, &flows);
  if (s == TC_OK && !flows) code = api_run_op(c, here, op, n_args, args, capacity, results, n_results);
  if (s == TC_OK && code == TC_STATUS_OK && q.any_write) s = settle_writes(&q, flows);
  if (s != TC_OK)
    for (int32_t i = 0; i < capacity; i++) results[i] = NULL; // they are the scope's
  close_call(&q);
  return s != TC_OK ? api_fail(tc_status_note(s, "at %s", here)) : code;
}

tc_status api_tape_note(tc_context *c, const char *name, int32_t n_args, const tc_argument *args,
                        const tc_tensor *value, tc_tensor **out) {
  taped_call q = {.c = c, .op = tc_op_find(c->ops, tc_sv_of(name)), .n_args = n_args, .args = args, .value = value};
  bool flows;
  *out = NULL;
  q.n = flat_count(n_args, args);
  tc_status s =
      q.op ? call_taped(&q, 1, out, NULL, &flows) : tc_error(TC_STATUS_NOT_FOUND, "there is no op '%s'", name);
  close_call(&q);
  return s;
}

// ---- going back ----
typedef struct contribution { // to the gradient of a node's result
  api_node *node;             // a reference
  int32_t output;
  tc_tensor *grad; // a reference
} contribution;

typedef struct going {
  tc_context *c;
  bool again;         // gradients are on the tape themselves
  contribution *heap; // by node, the newest first
  int32_t count, capacity;
  int32_t n_inputs; // tc_grad: what is asked for; else leaves keep their own
  tc_tensor *const *inputs;
  tc_tensor **gradients; // references
} going;

static bool newer(const contribution *a, const contribution *b) { return a->node->id > b->node->id; }

static void swap(contribution *a, contribution *b) {
  contribution t = *a;
  *a = *b, *b = t;
}

// Takes the gradient over.
static tc_status push(going *g, api_node *node, int32_t output, tc_tensor *grad) {
  if (g->count == g->capacity) {
    int32_t more = g->capacity ? 2 * g->capacity : 32;
    contribution *fresh = room(g->c, more, sizeof *fresh);
    if (!fresh) {
      tc_release(grad);
      return tc_error_out_of_memory();
    }
    if (g->count) memcpy(fresh, g->heap, (size_t)g->count * sizeof *fresh);
    tc_free(g->c->allocator, g->heap);
    g->heap = fresh, g->capacity = more;
  }
  __atomic_fetch_add(&node->refs, 1, __ATOMIC_RELAXED);
  g->heap[g->count++] = (contribution){node, output, grad};
  for (int32_t i = g->count - 1; i > 0 && newer(&g->heap[i], &g->heap[(i - 1) / 2]); i = (i - 1) / 2)
    swap(&g->heap[i], &g->heap[(i - 1) / 2]);
  return TC_OK;
}

static contribution pop(going *g) {
  contribution top = g->heap[0];
  g->heap[0] = g->heap[--g->count];
  for (int32_t i = 0;;) {
    int32_t best = i;
    for (int32_t k = 2 * i + 1; k <= 2 * i + 2 && k < g->count; k++)
      if (newer(&g->heap[k], &g->heap[best])) best = k;
    if (best == i) return top;
    swap(&g->heap[i], &g->heap[best]);
    i = best;
  }
}

// a + b as a reference of its own; takes b over, a stays. Tracked if gradients are on the tape.
static tc_tensor *sum(const going *g, tc_tensor *a, tc_tensor *b) {
  tc_tensor *out = NULL;
  tc_scope *scope = tc_scope_open();
  tc_argument args[] = {{.kind = TC_ARGUMENT_TENSOR, .v.tensor = a}, {.kind = TC_ARGUMENT_TENSOR, .v.tensor = b}};
  if (scope && tc_call_op(g->c, "aten::add.Tensor", 2, args, 1, &out, NULL) == TC_STATUS_OK) tc_retain(out);
  tc_scope_close(scope);
  tc_release(b);
  return out;
}

// The tensor row-major and without lazy bits: a reference. Tracked if gradients are on the tape.
static tc_status row_major(const going *g, tc_tensor *t, tc_tensor **out) {
  *out = tc_tensor_is_contiguous(t) && !t->conj && !t->neg ? tc_retain(t) : NULL;
  if (*out) return TC_OK;
  tc_scope *scope = tc_scope_open();
  tc_argument arg = {.kind = TC_ARGUMENT_TENSOR, .v.tensor = t};
  if (scope && t->conj) tc_call_op(g->c, "aten::resolve_conj", 1, &arg, 1, &arg.v.tensor, NULL);
  if (scope && tc_call_op(g->c, "aten::contiguous", 1, &arg, 1, out, NULL) == TC_STATUS_OK) tc_retain(*out);
  tc_scope_close(scope);
  return *out ? TC_OK : tc_error(tc_last_code(), "%s", tc_last_error());
}

// Adds to what is in *place; takes `grad` over.
static tc_status add_to(const going *g, tc_tensor **place, tc_tensor *grad) {
  if (*place) {
    tc_tensor *both = sum(g, *place, grad);
    if (!both) return tc_error(tc_last_code(), "%s", tc_last_error());
    tc_release(*place);
    grad = both;
  }
  *place = grad;
  return TC_OK;
}

// The gradient of an operand goes where it belongs; takes `grad` over.
static tc_status deliver(going *g, tc_tensor *to, tc_tensor *grad) {
  const api_tensor *x = api_of(to);
  tc_status s = TC_OK;
  tc_tensor *plain = NULL;
  if (x->leaf && !g->inputs) {
    s = row_major(g, grad, &plain);
    tc_release(grad);
    return s == TC_OK ? add_to(g, &api_of(to)->grad, plain) : s;
  }
  for (int32_t i = 0; i < g->n_inputs && s == TC_OK; i++) {
    const api_tensor *want = api_of(g->inputs[i]);
    bool same = x->leaf ? want == x : want->node && want->node == x->node && want->output == x->output;
    if (same) s = row_major(g, grad, &plain);
    if (same && s == TC_OK) s = add_to(g, &g->gradients[i], plain);
  }
  if (s == TC_OK && x->node) return push(g, x->node, x->output, grad);
  tc_release(grad);
  return s;
}

static tc_status zeros_of(tc_context *c, const node_result *r, tc_tensor *out) {
  TC_TRY(tc_tensor_create(c->allocator, r->dtype, r->rank, r->sizes, out));
  size_t bytes = (size_t)tc_tensor_numel(out) * (size_t)tc_dtype_size(r->dtype);
  if (bytes) memset(tc_tensor_data(out), 0, bytes);
  return TC_OK;
}

static tc_status overwritten(const api_node *n, const char *what, int32_t i) {
  tc_sv op = n->step ? tc_grad_step_op(n->step)->full_name : TC_SV("a function");
  return tc_error(TC_STATUS_INVALID_ARGUMENT,
                  "%s %d of " TC_SV_FMT " was written in place after it was used, and its gradient needs it", what, i,
                  TC_SV_ARG(op));
}

static tc_status check_unchanged(const api_node *n) {
  for (int32_t i = 0; i < n->n_inputs; i++) {
    const tc_tensor *t = n->inputs[i];
    bool stale = t && t->storage && version_of(t) != n->seen[i] && (!n->step || tc_grad_step_reads(n->step, i));
    if (stale) return overwritten(n, "operand", i);
  }
  for (int32_t i = 0; i < n->n_results; i++) {
    const node_result *r = &n->results[i];
    if (r->value.storage && version_of(&r->value) != r->seen) return overwritten(n, "result", i);
  }
  return TC_OK;
}

// The backward of a step as plain tensors.
static tc_status step_back(going *g, api_node *n, tc_tensor *const *cts) {
  tc_context *c = g->c;
  tc_tensor *inputs = room(c, n->n_inputs, sizeof *inputs), *results = room(c, n->n_results, sizeof *results),
            *ct = room(c, n->n_results, sizeof *ct), *made = room(c, n->n_inputs, sizeof *made);
  tc_status s = inputs && results && ct && made ? TC_OK : tc_error_out_of_memory();
  for (int32_t i = 0; s == TC_OK && i < n->n_inputs; i++)
    if (n->inputs[i]) inputs[i] = *n->inputs[i]; // borrowed
  for (int32_t i = 0; s == TC_OK && i < n->n_results; i++) {
    results[i] = n->results[i].value; // borrowed
    if (!tc_grad_step_flows(n->step, i)) continue;
    s = cts[i] ? tc_tensor_contiguous(c->allocator, cts[i], &ct[i]) : zeros_of(c, &n->results[i], &ct[i]);
  }
  if (s == TC_OK) s = tc_grad_step_backward(n->step, inputs, results, n->saved, ct, &n->draw, made);
  for (int32_t i = 0; i < n->n_inputs && made; i++) {
    bool goes =
        s == TC_OK && made[i].storage && n->inputs[i] && (api_of(n->inputs[i])->leaf || api_of(n->inputs[i])->node);
    api_tensor *x = goes ? api_new(c) : NULL;
    if (goes && !x) s = tc_error_out_of_memory();
    if (x) {
      x->value = made[i];
      s = deliver(g, n->inputs[i], &x->value);
    } else {
      tc_tensor_unref(&made[i]);
    }
  }
  for (int32_t i = 0; ct && i < n->n_results; i++) tc_tensor_unref(&ct[i]);
  tc_free(c->allocator, inputs);
  tc_free(c->allocator, results);
  tc_free(c->allocator, ct);
  tc_free(c->allocator, made);
  return s;
}

// … on the tape itself: the gradients are a step of operands and cotangents.
static tc_status step_back_taped(going *g, api_node *n, tc_tensor *const *cts) {
  tc_context *c = g->c;
  int32_t n_gradients = 0, n_ct = 0;
  for (int32_t i = 0; i < n->n_inputs; i++) n_gradients += tc_grad_step_gradient(n->step, i) >= 0;
  for (int32_t i = 0; i < n->n_results; i++) n_ct += tc_grad_step_cotangent(n->step, i) >= 0;
  taped_call q = {.c = c, .n = n->n_inputs + n_ct, .draw = n->draw};
  tc_tensor **made = room(c, n_gradients, sizeof(*made));
  tc_scope *scope = tc_scope_open();
  tc_status s = open_call(&q) && made && scope ? tc_grad_step_again(n->step, &q.step) : tc_error_out_of_memory();
  for (int32_t i = 0; s == TC_OK && i < n->n_inputs; i++) q.handles[i] = n->inputs[i];
  for (int32_t i = 0; s == TC_OK && i < n->n_results; i++) {
    int32_t k = tc_grad_step_cotangent(n->step, i);
    tc_tensor flat = {0};
    if (k < 0) continue;
    if (cts[i]) {
      s = row_major(g, cts[i], &q.handles[n->n_inputs + k]);
      if (s == TC_OK && !api_adopt(q.handles[n->n_inputs + k])) s = tc_error_out_of_memory();
    } else {
      s = zeros_of(c, &n->results[i], &flat);
      if (s == TC_OK && !(q.handles[n->n_inputs + k] = api_wrap(c, flat))) s = tc_error_out_of_memory();
    }
  }
  if (s == TC_OK) s = look_at_operands(&q);
  if (s == TC_OK) s = run_taped(&q, n_gradients, made, NULL);
  for (int32_t i = 0; s == TC_OK && i < n->n_inputs; i++) {
    int32_t k = tc_grad_step_gradient(n->step, i);
    bool goes = k >= 0 && made[k] && n->inputs[i] && (api_of(n->inputs[i])->leaf || api_of(n->inputs[i])->node);
    if (goes) s = deliver(g, n->inputs[i], tc_retain(made[k]));
  }
  close_call(&q);
  tc_scope_close(scope);
  tc_free(c->allocator, (void *)made);
  return s;
}

// A region runs again, on the tape this time; what it gives takes the cotangents, and is newer than all that is left.
static tc_status region_back(going *g, api_node *n, tc_tensor *const *cts) {
  tc_context *c = g->c;
  tc_tensor **outputs = room(c, n->n_results, sizeof(*outputs));
  tc_scope *scope = tc_scope_open();
  bool before = *api_grad_enabled();
  tc_status s = outputs && scope ? TC_OK : tc_error_out_of_memory();
  if (s == TC_OK) {
    uint64_t drawn = __atomic_exchange_n(&c->drawn, n->drawn, __ATOMIC_RELAXED);
    *api_grad_enabled() = true;
    int32_t code = n->body(n->self, n->inputs, n->n_inputs, outputs, n->n_results);
    *api_grad_enabled() = before;
    __atomic_store_n(&c->drawn, drawn, __ATOMIC_RELAXED);
    if (code == TC_STATUS_OK) code = tc_last_code();
    if (code != TC_STATUS_OK) s = tc_error(code, "a region failed when it ran again: %s", tc_last_error());
  }
  for (int32_t i = 0; s == TC_OK && i < n->n_results; i++) {
    const api_tensor *x = outputs[i] ? api_of(outputs[i]) : NULL;
    if (x) s = api_tape_freshen(outputs[i]);
    if (s == TC_OK && cts[i] && x && (x->leaf || x->node)) s = deliver(g, outputs[i], tc_retain(cts[i]));
  }
  tc_scope_close(scope);
  tc_free(c->allocator, (void *)outputs);
  return s;
}

static tc_status custom_back(going *g, api_node *n, tc_tensor *const *cts) {
  tc_context *c = g->c;
  int32_t n_in = n->n_inputs + 2 * n->n_results;
  tc_tensor **in = room(c, n_in, sizeof(*in)), **out = room(c, n->n_inputs, sizeof(*out));
  tc_scope *scope = tc_scope_open();
  tc_status s = in && out && scope ? TC_OK : tc_error_out_of_memory();
  for (int32_t i = 0; s == TC_OK && i < n->n_inputs; i++) in[i] = n->inputs[i];
  for (int32_t i = 0; s == TC_OK && i < n->n_results; i++) {
    tc_tensor ct = {0};
    in[n->n_inputs + i] = api_wrap(c, tc_tensor_ref(&n->results[i].value));
    if (!cts[i]) s = zeros_of(c, &n->results[i], &ct);
    if (s == TC_OK) in[n->n_inputs + n->n_results + i] = cts[i] ? cts[i] : api_wrap(c, ct);
    if (s == TC_OK && (!in[n->n_inputs + i] || !in[n->n_inputs + n->n_results + i])) s = tc_error_out_of_memory();
  }
  if (s == TC_OK) {
    int32_t code = n->derivative(n->self, in, n_in, out, n->n_inputs);
    if (code == TC_STATUS_OK) code = tc_last_code();
    if (code != TC_STATUS_OK) s = tc_error(code, "a derivative of the user's failed: %s", tc_last_error());
  }
  for (int32_t i = 0; s == TC_OK && i < n->n_inputs; i++) {
    const api_tensor *x = n->inputs[i] ? api_of(n->inputs[i]) : NULL;
    if (out[i] && x && (x->leaf || x->node)) s = deliver(g, n->inputs[i], tc_retain(out[i]));
  }
  tc_scope_close(scope);
  tc_free(c->allocator, (void *)in);
  tc_free(c->allocator, (void *)out);
  return s;
}

static tc_status node_back(going *g, api_node *n, tc_tensor *const *cts) {
  TC_TRY(check_unchanged(n));
  if (n->derivative) return custom_back(g, n, cts);
  if (n->body) return region_back(g, n, cts);
  return g->again ? step_back_taped(g, n, cts) : step_back(g, n, cts);
}

static tc_status next_node(going *g) {
  contribution x = pop(g);
  api_node *n = x.node; // its reference is ours
  tc_tensor **cts = room(g->c, n->n_results, sizeof(*cts));
  tc_status s = cts ? add_to(g, &cts[x.output], x.grad) : tc_error_out_of_memory();
  while (s == TC_OK && g->count && g->heap[0].node == n) {
    x = pop(g);
    s = add_to(g, &cts[x.output], x.grad);
    api_node_unref(x.node);
  }
  if (s == TC_OK) s = node_back(g, n, cts);
  for (int32_t i = 0; cts && i < n->n_results; i++) tc_release(cts[i]);
  tc_free(g->c->allocator, (void *)cts);
  api_node_unref(n);
  return s;
}

// The cotangent of an output: a reference.
static tc_status first_cotangent(tc_context *c, tc_tensor *output, tc_tensor *given, tc_tensor **out) {
  if (given) {
    bool same = given->rank == output->rank && given->dtype == output->dtype && given->storage;
    for (int32_t d = 0; same && d < output->rank; d++) same = given->sizes[d] == output->sizes[d];
    if (!same) return tc_error(TC_STATUS_INVALID_ARGUMENT, "a cotangent has the dtype and the sizes of its output");
    *out = tc_retain(given);
    return TC_OK;
  }
  if (tc_tensor_numel(output) != 1 || !tc_dtype_is_float(output->dtype))
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "an output that is not one real number needs a cotangent");
  tc_scope *scope = tc_scope_open();
  tc_argument arg = {.kind = TC_ARGUMENT_TENSOR, .v.tensor = output};
  bool *enabled = api_grad_enabled(), before = *enabled;
  *enabled = false;
  if (scope && tc_call_op(c, "aten::ones_like", 1, &arg, 1, out, NULL) == TC_STATUS_OK) tc_retain(*out);
  *enabled = before;
  tc_scope_close(scope);
  return *out ? TC_OK : tc_error(tc_last_code(), "%s", tc_last_error());
}

static tc_status go_back(going *g, int32_t n, tc_tensor *const *outputs, tc_tensor *const *cotangents) {
  for (int32_t i = 0; i < n; i++) {
    const api_tensor *x = outputs[i] ? api_of(outputs[i]) : NULL;
    tc_tensor *ct = NULL;
    if (x) TC_TRY(api_tape_freshen(outputs[i]));
    if (!x || (!x->leaf && !x->node))
      return tc_error(TC_STATUS_INVALID_ARGUMENT,
                      "no gradient flows from output %d: it depends on no tensor that requires one", i);
    TC_TRY(first_cotangent(g->c, outputs[i], cotangents ? cotangents[i] : NULL, &ct));
    TC_TRY(deliver(g, outputs[i], ct));
  }
  while (g->count) TC_TRY(next_node(g));
  return TC_OK;
}

static int32_t differentiate(going *g, int32_t n, tc_tensor *const *outputs, tc_tensor *const *cotangents) {
  bool *enabled = api_grad_enabled(), before = *enabled;
  *enabled = g->again;
  tc_status s = go_back(g, n, outputs, cotangents);
  *enabled = before;
  for (int32_t i = 0; i < g->count; i++) {
    api_node_unref(g->heap[i].node);
    tc_release(g->heap[i].grad);
  }
  tc_free(g->c->allocator, g->heap);
  return api_fail(s);
}

// Leaves a body that is to be recorded.
static bool needs_graph(void) {
  api_attempt *a = api_current_attempt();
  if (!a || a->keeps) return false;
  a->asked = true;
  if (a->lasts)
    api_fail_text(TC_STATUS_UNIMPLEMENTED,
                  "tc_grad is called for the first time beyond the limit of recompiles, and "
                  "something was written before: the next calls are recorded from their start");
  else api_fail_text(TC_STATUS_CANCELLED, "tc_grad: the function is called again, to be recorded");
  return true;
}

int32_t tc_grad(int32_t n_outputs, tc_tensor *const *outputs, tc_tensor *const *cotangents, int32_t n_inputs,
                tc_tensor *const *inputs, int32_t create_graph, tc_tensor **gradients) {
  for (int32_t i = 0; i < n_inputs; i++) gradients[i] = NULL;
  if (tc_last_code() != TC_STATUS_OK) return tc_last_code();
  for (int32_t i = 0; i < n_inputs; i++)
    if (!inputs[i]) return api_fail_text(TC_STATUS_INVALID_ARGUMENT, "tc_grad: input %d is missing", i);
  if (n_outputs < 1 || !outputs[0]) return api_fail_text(TC_STATUS_INVALID_ARGUMENT, "tc_grad: there is no output");
  api_trace *t = api_current_trace();
  if (t) return trace_gradients(t, n_outputs, outputs, cotangents, n_inputs, inputs, gradients);
  if (needs_graph()) return tc_last_code();
  going g = {.c = api_of(outputs[0])->context,
             .again = create_graph != 0,
             .n_inputs = n_inputs,
             .inputs = inputs,
             .gradients = gradients};
  int32_t code = differentiate(&g, n_outputs, outputs, cotangents);
  for (int32_t i = 0; i < n_inputs; i++) {
    if (code != TC_STATUS_OK) tc_release(gradients[i]), gradients[i] = NULL;
    else if (gradients[i] && !api_adopt(gradients[i])) gradients[i] = NULL, code = tc_last_code();
  }
  return code;
}

int32_t tc_backward(tc_tensor *output, tc_tensor *cotangent) {
  if (tc_last_code() != TC_STATUS_OK) return tc_last_code();
  if (!output) return api_fail_text(TC_STATUS_INVALID_ARGUMENT, "tc_backward: there is no output");
  if (api_current_trace())
    return api_fail_text(TC_STATUS_UNIMPLEMENTED, "tc_backward in a function that is captured: use tc_grad");
  going g = {.c = api_of(output)->context};
  return differentiate(&g, 1, &output, &cotangent);
}

// ---- what the user says ----
int32_t tc_set_requires_grad(tc_tensor *t, int32_t on) {
  if (!t)
    return tc_last_code() != TC_STATUS_OK ? tc_last_code() : api_fail_text(TC_STATUS_INVALID_ARGUMENT, "no tensor");
  if (on && !tc_dtype_is_float(t->dtype) && !tc_dtype_is_complex(t->dtype))
    return api_fail_text(TC_STATUS_INVALID_ARGUMENT, "a tensor of %s has no gradient", tc_dtype_torch_name(t->dtype));
  if (!t->storage)
    return api_fail_text(TC_STATUS_INVALID_ARGUMENT, "a tensor that is being captured cannot require a gradient");
  if (on && (t->conj || t->neg))
    return api_fail_text(TC_STATUS_INVALID_ARGUMENT, "a lazily conjugated tensor is no leaf: resolve it first");
  if (api_of(t)->node)
    return on ? TC_STATUS_OK : api_fail_text(TC_STATUS_INVALID_ARGUMENT, "the tensor was computed: detach it");
  api_of(t)->leaf = on != 0;
  return TC_STATUS_OK;
}

int32_t tc_requires_grad(const tc_tensor *t) { return t && is_on_tape(t); }

int32_t tc_set_grad_enabled(int32_t on) {
  bool before = *api_grad_enabled();
  *api_grad_enabled() = on != 0;
  return before;
}

tc_tensor *tc_gradient_of(const tc_tensor *t) {
  tc_tensor *g = t ? tc_retain(api_of(t)->grad) : NULL;
  return g && api_adopt(g) ? g : NULL;
}

void tc_clear_gradient(tc_tensor *t) {
  if (!t) return;
  tc_release(api_of(t)->grad);
  api_of(t)->grad = NULL;
}

// A function whose inside is not on the tape: a region that runs again when its gradients are wanted, or one with a
// derivative of the user's.
static int32_t opaque(tc_context *c, tc_function_body body, tc_function_body derivative, void *self, int32_t n_inputs,
                      tc_tensor *const *inputs, int32_t n_outputs, tc_tensor **outputs) {
  bool tracked = derivative == NULL, *enabled = api_grad_enabled(), before = *enabled;
  for (int32_t i = 0; i < n_outputs; i++) outputs[i] = NULL;
  if (tc_last_code() != TC_STATUS_OK) return tc_last_code();
  for (int32_t i = 0; i < n_inputs; i++) tracked |= api_is_tracked(inputs[i]);
  if (api_current_trace() || !before || !tracked) return body(self, inputs, n_inputs, outputs, n_outputs);
  api_node *n = new_node(c, n_inputs, n_outputs, 0);
  if (!n) return out_of_memory();
  n->body = body, n->derivative = derivative, n->self = self;
  n->drawn = __atomic_load_n(&c->drawn, __ATOMIC_RELAXED);
  tc_status s = TC_OK;
  for (int32_t i = 0; i < n_inputs && s == TC_OK; i++) {
    if (inputs[i]) s = api_tape_freshen(inputs[i]);
    n->inputs[i] = s == TC_OK && inputs[i] ? snapshot(inputs[i], inputs[i]) : NULL;
    if (s == TC_OK && inputs[i] && !n->inputs[i]) s = tc_error_out_of_memory();
    else if (n->inputs[i]) n->seen[i] = version_of(inputs[i]);
  }
  *enabled = false;
  int32_t code = s == TC_OK ? body(self, inputs, n_inputs, outputs, n_outputs) : api_fail(s);
  *enabled = before;
  if (code == TC_STATUS_OK) code = tc_last_code();
  for (int32_t i = 0; i < n_outputs; i++) {
    if (code == TC_STATUS_OK && !outputs[i])
      code = api_fail_text(TC_STATUS_INVALID_ARGUMENT, "the function sets no output %d", i);
    if (code != TC_STATUS_OK) continue;
    // An input that is handed through, or a tensor from elsewhere, is not to be moved on the tape: a handle of its own.
    if (!(outputs[i] = api_wrap(c, tc_tensor_ref(outputs[i])))) code = tc_last_code();
    if (code != TC_STATUS_OK) continue;
    code = api_fail(note_result(n, i, outputs[i], derivative != NULL));
    if (code != TC_STATUS_OK) continue;
    if (tc_dtype_is_float(outputs[i]->dtype) || tc_dtype_is_complex(outputs[i]->dtype))
      api_tape_place(outputs[i], n, i);
  }
  for (int32_t i = 0; code != TC_STATUS_OK && i < n_outputs; i++) outputs[i] = NULL;
  api_node_unref(n);
  return code;
}

int32_t tc_checkpoint(tc_context *c, tc_function_body body, void *self, int32_t n_inputs, tc_tensor *const *inputs,
                      int32_t n_outputs, tc_tensor **outputs) {
  return opaque(c, body, NULL, self, n_inputs, inputs, n_outputs, outputs);
}

int32_t tc_with_derivative(tc_context *c, tc_function_body body, tc_function_body derivative, void *self,
                           int32_t n_inputs, tc_tensor *const *inputs, int32_t n_outputs, tc_tensor **outputs) {
  if (!derivative) return api_fail_text(TC_STATUS_INVALID_ARGUMENT, "tc_with_derivative: there is no derivative");
  return opaque(c, body, derivative, self, n_inputs, inputs, n_outputs, outputs);
}
