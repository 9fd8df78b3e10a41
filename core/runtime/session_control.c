// Control flow that no plan takes (core/ir/control.h says what it means), driven by the host: regions are sessions and
// run on tensors wherever these are.
#include <string.h>

#include "core/runtime/session_internal.h"

typedef struct loop {
  session_env *e;
  session_step *step;
  const tc_control *c;
  tc_tensor *operands; // referenced
  uint64_t seed;       // of the turn
} loop;

static tc_status collect(loop *l) {
  l->operands = tc_alloc(l->e->s->context->allocator, (size_t)(l->c->n_operands + 1) * sizeof *l->operands);
  if (!l->operands) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for operands");
  for (int32_t i = 0; i < l->c->n_operands; i++) {
    const tc_tensor *t = &l->e->slots[l->c->operands[i]->id];
    if (!t->storage) return tc_error(TC_STATUS_INTERNAL, "an operand is not there");
    l->operands[i] = tc_tensor_ref(t);
  }
  return TC_OK;
}

// Runs a region. Inputs and outputs by position; the region's other inputs are its state.
static tc_status run_region(loop *l, int32_t region, const tc_tensor *inputs, tc_tensor *outputs) {
  tc_session_run_options o = *l->e->options;
  o.seed = l->seed;
  o.watch = NULL;
  o.write_back = false;
  o.report = NULL;
  o.device_outputs = true;
  return session_run_symbols(l->step->regions[region], inputs, outputs, &o, l->e->symbols, l->e->s->n_symbols);
}

static tc_status read_truth(loop *l, const tc_tensor *t, bool *out) {
  tc_tensor host;
  double re = 0;
  if (!t->storage) return tc_error(TC_STATUS_INTERNAL, "a condition is not there");
  TC_TRY(session_to_host(l->e->s, t, &host));
  int64_t zero[TC_MAX_RANK] = {0};
  bool single = tc_tensor_numel(&host) == 1;
  if (single) tc_tensor_get(&host, zero, &re, NULL);
  *out = re != 0;
  tc_tensor_unref(&host);
  return single ? TC_OK : tc_error(TC_STATUS_INVALID_ARGUMENT, "a condition must be one element");
}

static int32_t n_outputs_of(const loop *l, int32_t region) { return l->step->regions[region]->graph->outputs.count; }

// Hands the results to the values of the node; takes the references.
static tc_status give_results(loop *l, int32_t n, tc_tensor *results) {
  tc_status status = TC_OK;
  const tc_node *node = l->step->node;
  for (int32_t i = 0; i < n; i++) {
    if (i >= node->n_results) {
      tc_tensor_unref(&results[i]);
      continue;
    }
    l->e->slots[node->results[i]->id] = results[i];
    results[i] = (tc_tensor){0};
    if (status == TC_OK) status = session_bind_result(l->e, node->results[i]);
  }
  if (n < node->n_results && status == TC_OK)
    status = tc_error(TC_STATUS_INVALID_ARGUMENT, "a region gives %d results, %d are wanted", n, node->n_results);
  return status;
}

static void begin_turn(loop *l, int64_t turn) { l->seed = tc_turn_seed(l->e->options->seed, turn); }

static tc_status run_cond(loop *l) {
  bool truth;
  const tc_arg *pred = l->c->predicate;
  int64_t v;
  if (pred->kind == TC_AK_INT && !pred->value) {
    TC_TRY(session_eval(l->e, pred->sym, &v));
    truth = v != 0;
  } else if (pred->value) TC_TRY(read_truth(l, &l->e->slots[pred->value->id], &truth));
  else truth = pred->integer != 0;
  int32_t region = truth ? 0 : 1, n = n_outputs_of(l, region);
  tc_tensor *results = tc_alloc(l->e->s->context->allocator, (size_t)(n + 1) * sizeof *results);
  if (!results) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for results");
  tc_status s = run_region(l, region, l->operands, results);
  if (s == TC_OK) s = give_results(l, n, results);
  tc_free(l->e->s->context->allocator, results);
  return s;
}

static tc_status run_while(loop *l) {
  int32_t n = n_outputs_of(l, 1);
  tc_tensor *next = tc_alloc(l->e->s->context->allocator, (size_t)(n + 1) * sizeof *next), truth = {0};
  if (!next) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for a loop");
  tc_status s = TC_OK;
  bool go = true;
  for (int64_t turn = 0; s == TC_OK; turn++) {
    begin_turn(l, turn);
    s = run_region(l, 0, l->operands, &truth);
    if (s == TC_OK) s = read_truth(l, &truth, &go);
    tc_tensor_unref(&truth);
    if (s != TC_OK || !go) break;
    s = run_region(l, 1, l->operands, next);
    for (int32_t i = 0; i < n && s == TC_OK; i++) {
      tc_tensor_unref(&l->operands[i]);
      l->operands[i] = next[i];
      next[i] = (tc_tensor){0};
    }
  }
  tc_free(l->e->s->context->allocator, next);
  return s == TC_OK ? give_results(l, n, l->operands) : s;
}

// ---- scan and map ----
// Element i along dimension 0.
static tc_tensor slice(const tc_tensor *t, int64_t i) {
  tc_tensor out = tc_tensor_ref(t);
  out.offset += i * t->strides[0];
  out.rank--;
  for (int32_t d = 0; d < out.rank; d++) out.sizes[d] = t->sizes[d + 1], out.strides[d] = t->strides[d + 1];
  return out;
}

// What n turns give, one element each; `like`: the node's result.
static tc_status make_stack(loop *l, const tc_value *like, int64_t n, tc_tensor *out) {
  int64_t sizes[TC_MAX_RANK] = {n};
  for (int32_t d = 1; d < like->type.rank; d++) TC_TRY(session_eval(l->e, like->type.sizes[d], &sizes[d]));
  return tc_tensor_create(l->e->s->context->allocator, like->type.dtype, like->type.rank, sizes, out);
}

static tc_status stack(loop *l, const tc_tensor *all, const tc_tensor *y, int64_t i) {
  tc_tensor host;
  TC_TRY(session_to_host(l->e->s, y, &host));
  tc_tensor place = slice(all, i);
  tc_status s = tc_tensor_copy(&host, &place);
  tc_tensor_unref(&place);
  tc_tensor_unref(&host);
  return s;
}

typedef struct scan {
  loop *l;
  int32_t n_carry, n_xs, n_ys; // ys: results behind the carried ones
  int64_t length;
  tc_tensor *inputs, *outputs, *ys;
} scan;

static tc_status scan_turn(scan *q, int64_t i) {
  loop *l = q->l;
  for (int32_t k = 0; k < l->c->n_operands; k++) {
    const tc_tensor *t = &l->operands[k];
    bool sliced = k >= q->n_carry && k < q->n_carry + q->n_xs;
    q->inputs[k] = sliced ? slice(t, i) : tc_tensor_ref(t);
  }
  begin_turn(l, i);
  tc_status s = run_region(l, 0, q->inputs, q->outputs);
  for (int32_t k = 0; k < l->c->n_operands; k++) tc_tensor_unref(&q->inputs[k]);
  for (int32_t k = 0; k < q->n_carry && s == TC_OK; k++) {
    tc_tensor_unref(&l->operands[k]);
    l->operands[k] = q->outputs[k];
    q->outputs[k] = (tc_tensor){0};
  }
  for (int32_t k = 0; k < q->n_ys; k++) {
    if (s == TC_OK) s = stack(l, &q->ys[k], &q->outputs[q->n_carry + k], i);
    tc_tensor_unref(&q->outputs[q->n_carry + k]);
  }
  return s;
}

static tc_status run_turns(scan *q) {
  loop *l = q->l;
  for (int32_t k = 0; k < q->n_xs; k++) {
    const tc_tensor *x = &l->operands[q->n_carry + k];
    if (x->rank < 1 || (k && x->sizes[0] != q->length))
      return tc_error(TC_STATUS_INVALID_ARGUMENT, "a scan over tensors of different lengths");
    q->length = x->sizes[0];
  }
  for (int32_t k = 0; k < q->n_ys; k++)
    TC_TRY(make_stack(l, l->step->node->results[q->n_carry + k], q->length, &q->ys[k]));
  for (int64_t i = 0; i < q->length; i++)
    TC_TRY(scan_turn(q, l->c->reverse ? q->length - 1 - i : i), "while running turn %lld of a scan", (long long)i);
  for (int32_t k = 0; k < q->n_carry; k++) q->outputs[k] = l->operands[k], l->operands[k] = (tc_tensor){0};
  for (int32_t k = 0; k < q->n_ys; k++) q->outputs[q->n_carry + k] = q->ys[k], q->ys[k] = (tc_tensor){0};
  return give_results(l, q->n_carry + q->n_ys, q->outputs);
}

static tc_status run_scan(loop *l, int32_t n_carry, int32_t n_xs) {
  int32_t n = n_outputs_of(l, 0);
  scan q = {.l = l, .n_carry = n_carry, .n_xs = n_xs, .n_ys = n - n_carry};
  tc_tensor *all = tc_alloc(l->e->s->context->allocator, (size_t)(l->c->n_operands + 2 * n + 1) * sizeof *all);
  if (!all) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for a scan");
  q.inputs = all, q.outputs = all + l->c->n_operands, q.ys = q.outputs + n;
  tc_status s = run_turns(&q);
  for (int32_t k = 0; k < 2 * n; k++) tc_tensor_unref(&q.outputs[k]);
  tc_free(l->e->s->context->allocator, all);
  return s;
}

tc_status session_run_control(session_env *e, session_step *step) {
  const tc_node *n = step->node;
  loop l = {.e = e, .step = step, .c = &step->control, .seed = e->options->seed};
  tc_status s = collect(&l);
  if (s == TC_OK && l.c->kind == TC_CONTROL_COND) s = run_cond(&l);
  else if (s == TC_OK && l.c->kind == TC_CONTROL_WHILE) s = run_while(&l);
  else if (s == TC_OK) s = run_scan(&l, l.c->n_carry, l.c->n_xs);
  for (int32_t i = 0; l.operands && i < l.c->n_operands; i++) tc_tensor_unref(&l.operands[i]);
  tc_free(e->s->context->allocator, l.operands);
  return tc_status_note(s, "while running %%" TC_SV_FMT " = " TC_SV_FMT,
                        TC_SV_ARG(n->n_results ? n->results[0]->name : n->name), TC_SV_ARG(n->op->full_name));
}
