// Steps of gradients: see gradient.h.
//
// The graph of one call is differentiated and cut by the fewest bytes to keep (core/autograd). Values that the cut
// saves and that are results anyway are not saved twice. Where the cut cannot be made (sizes from data), the backward
// computes the forward again.
#include "core/runtime/gradient.h"

#include <string.h>

#include "core/autograd/partition.h"
#include "core/passes/passes.h"
#include "core/runtime/eager_internal.h"

enum { OF_INPUT, OF_RESULT, OF_SAVED, OF_COTANGENT };
typedef struct source { // of an input of the backward
  int32_t kind, number;
} source;

struct tc_grad_step {
  struct tc_grad_step *next, *root; // root: owns the module; itself for the step of a call
  int32_t refs;                     // atomic; of the root only
  tc_eager *eager;
  const tc_op *op; // what it was found by
  uint64_t hash;
  size_t key_size;
  void *key;
  tc_module *module;
  tc_guards *guards;
  pthread_mutex_t lock; // of the root: the module grows, and what runs in its arena
  int32_t n_flat, n_results, n_inputs, n_own_saved, n_gradients, n_cotangents;
  int32_t *flat_of; // by graph input: the flat number
  int32_t *leaf_of; // by result: its number among user outputs, or -1
  int32_t *ct_of;   // by result: among cotangents, or -1
  int32_t *grad_of; // by flat number: among the gradients, or -1
  bool *reads, *reads_result;
  uint64_t n_random;
  tc_session *forward, *backward;
  int32_t n_forward_outputs, n_backward_outputs;
  int32_t *result_out; // by result: output of the forward session, or -1
  int32_t *saved_out;  // by saved value of its own
  int32_t *grad_out;   // by gradient: output of the backward session
  int32_t n_sources;
  source *sources;
  bool serial;                  // its sessions use the module's arena when they run
  tc_graph *full;               // the gradients alone, over inputs that are read and cotangents
  int32_t *full_flat;           // by its input: the flat number, cotangents behind
  struct tc_grad_step *again;   // atomic
  struct tc_grad_step *pending; // of the root: being built, so that its sessions are found if memory runs out
};

const tc_op *tc_grad_step_op(const tc_grad_step *s) { return s->op; }
int32_t tc_grad_step_inputs(const tc_grad_step *s) { return s->n_flat; }
int32_t tc_grad_step_results(const tc_grad_step *s) { return s->n_results; }
int32_t tc_grad_step_saved(const tc_grad_step *s) { return s->n_own_saved; }
bool tc_grad_step_flows(const tc_grad_step *s, int32_t result) { return s->ct_of[result] >= 0; }
bool tc_grad_step_reads(const tc_grad_step *s, int32_t input) { return s->reads[input]; }
bool tc_grad_step_reads_result(const tc_grad_step *s, int32_t result) { return s->reads_result[result]; }
int32_t tc_grad_step_gradient(const tc_grad_step *s, int32_t input) { return s->grad_of[input]; }
int32_t tc_grad_step_cotangent(const tc_grad_step *s, int32_t result) { return s->ct_of[result]; }

tc_grad_step *tc_grad_step_ref(tc_grad_step *s) {
  __atomic_fetch_add(&s->root->refs, 1, __ATOMIC_RELAXED);
  return s;
}

static void destroy_sessions(tc_grad_step *s) {
  for (; s; s = s->again) {
    tc_session_destroy(s->forward);
    tc_session_destroy(s->backward);
  }
}

void tc_grad_step_unref(tc_grad_step *s) {
  if (!s || __atomic_sub_fetch(&s->root->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
  s = s->root;
  const tc_allocator *a = s->eager->context->allocator;
  destroy_sessions(s);
  if (s->module) tc_module_destroy(s->module);
  pthread_mutex_destroy(&s->lock);
  tc_free(a, s->key);
  tc_free(a, s);
}

void eager_steps_destroy(tc_eager *e) {
  for (int32_t i = 0; i < N_STEPS; i++) {
    for (tc_grad_step *s = e->steps[i], *next; s; s = next) {
      next = s->next;
      tc_grad_step_unref(s);
    }
  }
}

// ---- building ----
static int32_t nth_user_output(const tc_graph *g, int32_t n) {
  for (int32_t i = 0; i < g->outputs.count; i++)
    if (g->outputs.data[i].kind == TC_OUT_USER && n-- == 0) return i;
  return -1;
}

static bool uses_arena(const tc_grad_step *s) {
  const tc_context *c = s->eager->context;
  const tc_session *both[] = {s->forward, s->backward};
  bool any = c->is_ref;
  for (int32_t i = 0; i < 2; i++)
    if (both[i]) any |= tc_session_stats_of(both[i])->fallbacks > 0 || tc_session_stats_of(both[i])->controls > 0;
  return any;
}

// The gradients alone: what a second differentiation starts from.
static tc_status make_full(tc_grad_step *s, const tc_joint *j, int32_t n_inputs) {
  bool progress;
  tc_graph *g = tc_graph_clone(j->graph, TC_SV("gradients"));
  int32_t n = 0, *kept;
  for (int32_t i = 0; i < n_inputs; i++)
    if (j->gradients[i] >= 0) g->outputs.data[n++] = g->outputs.data[j->gradients[i]];
  g->outputs.count = n;
  tc_graph_sweep(g);
  TC_TRY(tc_pass_dce.run(g, &progress));
  tc_graph_sweep(g);
  int32_t left = tc_autograd_drop_unread(g, n_inputs, &kept);
  s->full_flat = TC_NEW_ARRAY(s->module->arena, int32_t, left + 1);
  for (int32_t i = 0; i < left; i++) {
    s->full_flat[i] = kept[i] < n_inputs ? s->flat_of[kept[i]] : s->n_flat + kept[i] - n_inputs;
    if (kept[i] < n_inputs) s->reads[s->full_flat[i]] = true;
  }
  s->full = g;
  return TC_OK;
}

// Values that the cut saves: results that are there anyway, and others.
static tc_status take_partition(tc_grad_step *s, const tc_partition *p, int32_t n_inputs) {
  tc_arena *arena = s->module->arena;
  tc_graph *f = p->forward;
  int32_t n_user = p->n_user_outputs, *result_of = TC_NEW_ARRAY(arena, int32_t, p->n_saved + 1);
  int32_t *own = TC_NEW_ARRAY(arena, int32_t, p->n_saved + 1);
  int32_t first = f->outputs.count - p->n_saved; // they are the last outputs
  s->saved_out = TC_NEW_ARRAY(arena, int32_t, p->n_saved + 1);
  for (int32_t k = 0; k < p->n_saved; k++) {
    const tc_value *v = f->outputs.data[first + k].arg.value;
    result_of[k] = -1;
    for (int32_t r = 0; r < s->n_results; r++) {
      int32_t at = s->leaf_of[r] >= 0 && s->leaf_of[r] < n_user ? nth_user_output(f, s->leaf_of[r]) : -1;
      if (at >= 0 && f->outputs.data[at].arg.kind == TC_AK_TENSOR && f->outputs.data[at].arg.value == v)
        result_of[k] = r;
    }
    if (result_of[k] >= 0) s->reads_result[result_of[k]] = true;
    else own[k] = s->n_own_saved++;
  }
  for (int32_t k = p->n_saved - 1; k >= 0; k--) { // a result is no output twice
    if (result_of[k] < 0) continue;
    memmove(&f->outputs.data[first + k], &f->outputs.data[first + k + 1],
            sizeof *f->outputs.data * (size_t)(f->outputs.count - first - k - 1));
    f->outputs.count--;
  }
  s->n_sources = p->n_sources;
  s->sources = TC_NEW_ARRAY(arena, source, p->n_sources + 1);
  for (int32_t i = 0; i < p->n_sources; i++) {
    int32_t from = p->sources[i], k = -1 - from;
    if (from >= n_inputs) s->sources[i] = (source){OF_COTANGENT, from - n_inputs};
    else if (from >= 0) s->sources[i] = (source){OF_INPUT, s->flat_of[from]};
    else if (result_of[k] >= 0) s->sources[i] = (source){OF_RESULT, result_of[k]};
    else s->sources[i] = (source){OF_SAVED, own[k]};
    if (s->sources[i].kind == OF_INPUT) s->reads[s->sources[i].number] = true;
  }
  tc_graph_sweep(f);
  TC_TRY(tc_session_create(s->eager->context, f, TC_STAGE_EXEC, &s->forward));
  TC_TRY(tc_session_create(s->eager->context, p->backward, TC_STAGE_EXEC, &s->backward));
  for (int32_t k = 0; k < s->n_own_saved; k++) s->saved_out[k] = nth_user_output(f, n_user + k);
  s->n_forward_outputs = f->outputs.count, s->n_backward_outputs = p->backward->outputs.count;
  return TC_OK;
}

// Without a cut: the backward is all of it.
static tc_status take_whole(tc_grad_step *s, tc_graph *forward) {
  tc_arena *arena = s->module->arena;
  tc_graph *whole = tc_graph_clone(s->full, TC_SV("backward"));
  s->n_sources = whole->inputs.count;
  s->sources = TC_NEW_ARRAY(arena, source, s->n_sources + 1);
  s->saved_out = TC_NEW_ARRAY(arena, int32_t, 1);
  for (int32_t i = 0; i < s->n_sources; i++) {
    int32_t flat = s->full_flat[i];
    s->sources[i] = flat < s->n_flat ? (source){OF_INPUT, flat} : (source){OF_COTANGENT, flat - s->n_flat};
  }
  TC_TRY(tc_session_create(s->eager->context, forward, TC_STAGE_EXEC, &s->forward));
  TC_TRY(tc_session_create(s->eager->context, whole, TC_STAGE_EXEC, &s->backward));
  s->n_forward_outputs = forward->outputs.count, s->n_backward_outputs = whole->outputs.count;
  return TC_OK;
}

// `g`: the graph of the call; its user outputs are the results with leaf_of. Fills everything besides what the step is
// found by.
static tc_status differentiate(tc_grad_step *s, tc_graph *g, const bool *wanted) {
  tc_arena *arena = s->module->arena;
  tc_joint j;
  tc_partition p;
  int32_t n = g->inputs.count, leaf = 0;
  s->n_inputs = n;
  s->ct_of = TC_NEW_ARRAY(arena, int32_t, s->n_results + 1);
  s->grad_of = TC_NEW_ARRAY(arena, int32_t, s->n_flat + 1);
  s->reads = TC_NEW_ARRAY(arena, bool, s->n_flat + 1);
  s->reads_result = TC_NEW_ARRAY(arena, bool, s->n_results + 1);
  s->result_out = TC_NEW_ARRAY(arena, int32_t, s->n_results + 1);
  tc_graph_sweep(g);
  TC_TRY(tc_autograd_joint(g, wanted, &j));
  for (int32_t r = 0; r < s->n_results; r++) {
    s->ct_of[r] = -1;
    if (s->leaf_of[r] < 0) continue;
    leaf = s->leaf_of[r];
    if (j.cotangents[leaf] >= 0) s->ct_of[r] = j.cotangents[leaf] - n;
  }
  for (int32_t i = 0; i < s->n_flat; i++) s->grad_of[i] = -1;
  for (int32_t i = 0; i < n; i++)
    if (j.gradients[i] >= 0) s->grad_of[s->flat_of[i]] = s->n_gradients++;
  s->n_cotangents = j.n_cotangents;
  if (s->n_cotangents == 0 || s->n_gradients == 0) { // nothing flows, whatever depends on what
    for (int32_t r = 0; r < s->n_results; r++) s->ct_of[r] = -1;
    return TC_OK;
  }
  TC_TRY(make_full(s, &j, n));
  tc_partition_options o = {.budget = 1};
  tc_status cut = tc_autograd_partition(&j, &o, &p);
  if (tc_status_code(cut) == TC_STATUS_OUT_OF_MEMORY) return cut;
  if (cut == TC_OK) {
    TC_TRY(take_partition(s, &p, n));
  } else {
    tc_status_free(cut);
    TC_TRY(take_whole(s, g));
    p.forward = g, p.backward = NULL;
  }
  for (int32_t r = 0; r < s->n_results; r++)
    s->result_out[r] = s->leaf_of[r] >= 0 ? nth_user_output(p.forward, s->leaf_of[r]) : -1;
  s->grad_out = TC_NEW_ARRAY(arena, int32_t, s->n_gradients + 1);
  for (int32_t k = 0; k < s->n_gradients; k++) s->grad_out[k] = p.backward ? nth_user_output(p.backward, k) : k;
  s->serial = uses_arena(s);
  return TC_OK;
}

typedef struct building {
  tc_grad_step *s;
  const eager_call *call;
  const bool *wanted; // flat
} building;

static tc_status build_guarded(void *arg) {
  building *b = arg;
  tc_grad_step *s = b->s;
  tc_module *m = s->module;
  tc_graph *g = tc_graph_create(m, TC_SV("forward"));
  tc_node *n;
  TC_TRY(eager_make_node(b->call, false, g, &s->guards, &n));
  s->n_random = m->random_nodes;
  s->n_flat = b->call->n_tensors, s->n_results = n->n_results;
  s->flat_of = TC_NEW_ARRAY(m->arena, int32_t, s->n_flat + 1);
  s->leaf_of = TC_NEW_ARRAY(m->arena, int32_t, s->n_results + 1);
  bool *wanted = TC_NEW_ARRAY(m->arena, bool, s->n_flat + 1);
  for (int32_t i = 0, k = 0; i < s->n_flat; i++) {
    if (!b->call->tensors[i].storage) continue;
    wanted[k] = b->wanted[i];
    s->flat_of[k++] = i;
  }
  for (int32_t i = 0, k = 0; i < n->n_results; i++) {
    tc_value *v = n->results[i];
    s->leaf_of[i] = v->kind == TC_VALUE_TENSOR ? k++ : -1;
    if (v->kind == TC_VALUE_TENSOR)
      tc_graph_add_output(g, TC_OUT_USER, tc_arg_tensor(v), tc_sv_printf(m->arena, "%d", i));
  }
  TC_TRY(differentiate(s, g, wanted));
  tc_guards_seal(s->guards, m, TC_SV("the derivative"));
  return TC_OK;
}

static bool holds(const tc_grad_step *s, const tc_tensor *tensors) {
  int64_t symbols[FEW_SYMBOLS];
  return tc_guards_symbol_count(s->guards) <= FEW_SYMBOLS &&
         tc_guards_check(s->guards, tensors, symbols).kind == TC_GUARD_HOLDS;
}

// For the sizes of the call: derivatives decide by sizes what they are.
static tc_status build(const eager_call *call, const bool *wanted, tc_grad_step **out) {
  tc_context *c = call->e->context;
  tc_grad_step *s = tc_alloc(c->allocator, sizeof *s);
  if (!s) return tc_error_out_of_memory();
  *s = (tc_grad_step){.refs = 1, .root = s, .eager = call->e, .op = call->op};
  pthread_mutex_init(&s->lock, NULL);
  building b = {s, call, wanted};
  tc_status status = tc_module_create(c->allocator, c->ops, &s->module);
  if (status == TC_OK) status = tc_arena_guard(s->module->arena, build_guarded, &b);
  if (status == TC_OK && !holds(s, call->tensors))
    status = tc_error(TC_STATUS_INTERNAL, "what was compiled for the gradient of " TC_SV_FMT " does not hold for it",
                      TC_SV_ARG(call->op->full_name));
  if (status != TC_OK) {
    tc_grad_step_unref(s);
    return status;
  }
  *out = s;
  return TC_OK;
}

// ---- finding ----
// The tables take a reference; the oldest of a full bucket goes.
static void keep(tc_grad_step *s, uint64_t hash, const eager_key *k) {
  tc_eager *e = s->eager;
  tc_grad_step **at = &e->steps[hash % N_STEPS];
  s->key = tc_alloc(e->context->allocator, k->size + 1);
  if (!s->key) return; // it is run once only
  memcpy(s->key, k->bytes, k->size);
  s->key_size = k->size, s->hash = hash;
  tc_grad_step_ref(s);
  s->next = *at, *at = s;
  int32_t n = 0;
  for (at = &s->next; *at; n++) {
    tc_grad_step *x = *at;
    if (n + 1 < e->max_entries) {
      at = &x->next;
      continue;
    }
    *at = x->next;
    tc_grad_step_unref(x);
  }
}

tc_status tc_grad_step_of(tc_eager *e, const tc_op *op, int32_t n_args, const tc_argument *args, int32_t n_tensors,
                          const tc_tensor *tensors, const bool *wanted, tc_grad_step **out) {
  eager_key k;
  eager_call call = {.e = e, .op = op, .n_args = n_args, .args = args, .n_tensors = n_tensors, .tensors = tensors};
  if (n_args > op->schema.n_args)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT " takes %d arguments, %d are given", TC_SV_ARG(op->full_name),
                    op->schema.n_args, n_args);
  eager_key_of(&k, &call);
  eager_key_put(&k, wanted, (size_t)n_tensors * sizeof *wanted);
  uint64_t hash = tc_hash_mix(tc_hash(k.bytes, k.size), (uint64_t)(uintptr_t)op);
  tc_status status = TC_OK;
  pthread_mutex_lock(&e->compile);
  tc_grad_step *s = k.full ? NULL : e->steps[hash % N_STEPS];
  for (; s; s = s->next) {
    bool same = s->hash == hash && s->op == op && s->key_size == k.size;
    if (same && memcmp(s->key, k.bytes, k.size) == 0 && holds(s, tensors)) break;
  }
  if (s) {
    *out = tc_grad_step_ref(s);
  } else {
    status = build(&call, wanted, out);
    if (status == TC_OK && !k.full) keep(*out, hash, &k);
  }
  pthread_mutex_unlock(&e->compile);
  return status;
}

// ---- gradients of gradients ----
static tc_status build_again(void *arg) {
  tc_grad_step *s = arg, *x = TC_NEW(s->module->arena, tc_grad_step);
  tc_arena *arena = s->module->arena;
  *x = (tc_grad_step){.root = s->root, .eager = s->eager, .op = s->op, .module = s->module, .n_random = s->n_random};
  s->root->pending = x;
  x->n_flat = s->n_flat + s->n_cotangents, x->n_results = s->n_gradients;
  x->flat_of = TC_NEW_ARRAY(arena, int32_t, x->n_flat + 1);
  x->leaf_of = TC_NEW_ARRAY(arena, int32_t, x->n_results + 1);
  bool *wanted = TC_NEW_ARRAY(arena, bool, x->n_flat + 1);
  for (int32_t i = 0; i < s->full->inputs.count; i++) x->flat_of[i] = s->full_flat[i];
  for (int32_t i = 0; i < s->n_gradients; i++) x->leaf_of[i] = i;
  for (int32_t i = 0; i < s->full->inputs.count; i++) {
    const tc_value *v = s->full->inputs.data[i].value;
    wanted[i] = v && v->kind == TC_VALUE_TENSOR && tc_differentiable(&v->type);
  }
  TC_TRY(differentiate(x, tc_graph_clone(s->full, TC_SV("forward")), wanted));
  if (!x->forward) { // nothing flows back through it, and it is still to be run
    tc_graph *g = tc_graph_clone(s->full, TC_SV("forward"));
    TC_TRY(tc_session_create(x->eager->context, g, TC_STAGE_EXEC, &x->forward));
    x->n_forward_outputs = g->outputs.count;
    for (int32_t i = 0; i < x->n_results; i++) x->result_out[i] = nth_user_output(g, i);
    x->serial = uses_arena(x);
  }
  __atomic_store_n(&s->again, x, __ATOMIC_RELEASE);
  return TC_OK;
}

tc_status tc_grad_step_again(tc_grad_step *s, tc_grad_step **out) {
  tc_status status = TC_OK;
  if (!__atomic_load_n(&s->again, __ATOMIC_ACQUIRE)) {
    pthread_mutex_lock(&s->root->lock);
    if (!s->again) status = tc_arena_guard(s->module->arena, build_again, s);
    if (status != TC_OK) destroy_sessions(s->root->pending);
    s->root->pending = NULL;
    pthread_mutex_unlock(&s->root->lock);
  }
  if (status == TC_OK) *out = tc_grad_step_ref(s->again);
  return status;
}

// ---- running ----
bool tc_grad_step_is_random(const tc_grad_step *s) { return s->n_random > 0; }

tc_grad_draw tc_grad_step_draw(const tc_grad_step *s) {
  tc_grad_draw d = {0};
  if (s->n_random) tc_context_draw(s->eager->context, s->n_random, &d.seed, &d.stream);
  return d;
}

static tc_status run(tc_grad_step *s, tc_session *session, const tc_tensor *inputs, tc_tensor *outputs,
                     const tc_grad_draw *draw) {
  tc_session_run_options o = {.seed = draw->seed, .stream = draw->stream, .write_back = true};
  if (s->serial) pthread_mutex_lock(&s->root->lock);
  tc_status status = tc_session_run(session, inputs, outputs, &o);
  if (s->serial) pthread_mutex_unlock(&s->root->lock);
  return status;
}

static tc_status room(const tc_grad_step *s, int32_t n, tc_tensor **out) {
  *out = tc_alloc(s->eager->context->allocator, (size_t)(n + 1) * sizeof **out);
  if (!*out) return tc_error_out_of_memory();
  memset(*out, 0, (size_t)(n + 1) * sizeof **out);
  return TC_OK;
}

tc_status tc_grad_step_forward(tc_grad_step *s, const tc_tensor *inputs, const tc_grad_draw *draw, tc_tensor *results,
                               tc_tensor *saved) {
  tc_tensor *all;
  TC_TRY(room(s, s->n_inputs + s->n_forward_outputs, &all));
  tc_tensor *made = all + s->n_inputs;
  for (int32_t i = 0; i < s->n_inputs; i++) all[i] = inputs[s->flat_of[i]];
  tc_status status = run(s, s->forward, all, made, draw);
  if (status == TC_OK) {
    for (int32_t i = 0; i < s->n_results; i++)
      results[i] = s->result_out[i] >= 0 ? tc_tensor_ref(&made[s->result_out[i]]) : (tc_tensor){0};
    for (int32_t i = 0; i < s->n_own_saved; i++) saved[i] = tc_tensor_ref(&made[s->saved_out[i]]);
    for (int32_t i = 0; i < s->n_forward_outputs; i++) tc_tensor_unref(&made[i]);
  }
  tc_free(s->eager->context->allocator, all);
  return status;
}

tc_status tc_grad_step_backward(tc_grad_step *s, const tc_tensor *inputs, const tc_tensor *results,
                                const tc_tensor *saved, const tc_tensor *cotangents, const tc_grad_draw *draw,
                                tc_tensor *gradients) {
  tc_tensor *all;
  TC_TRY(room(s, s->n_sources + s->n_backward_outputs, &all));
  tc_tensor *made = all + s->n_sources;
  for (int32_t i = 0; i < s->n_sources; i++) {
    const source *q = &s->sources[i];
    const tc_tensor *const from[] = {inputs, results, saved, NULL};
    if (q->kind != OF_COTANGENT) all[i] = from[q->kind][q->number];
    for (int32_t r = 0; q->kind == OF_COTANGENT && r < s->n_results; r++)
      if (s->ct_of[r] == q->number) all[i] = cotangents[r];
  }
  tc_status status = run(s, s->backward, all, made, draw);
  if (status == TC_OK) {
    for (int32_t i = 0; i < s->n_flat; i++)
      gradients[i] = s->grad_of[i] >= 0 ? tc_tensor_ref(&made[s->grad_out[s->grad_of[i]]]) : (tc_tensor){0};
    for (int32_t i = 0; i < s->n_backward_outputs; i++) tc_tensor_unref(&made[i]);
  }
  tc_free(s->eager->context->allocator, all);
  return status;
}
