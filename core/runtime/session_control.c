// Control flow, driven by the host: regions are sessions and run on tensors wherever these are.
//
//   cond(pred, true, false, operands)          one of two regions
//   while_loop(cond, body, carried, additional) until cond is false
//   scan(body, init, xs, additional)            along dimension 0 of xs: (carry, slice) → (carry, y); ys are stacked
//   map_impl(body, xs, additional)              along dimension 0: slice → y; ys are stacked
//
// Operands are all tensors behind the last region, in order; integers were substituted into the regions on import.
#include <string.h>

#include "core/runtime/session_internal.h"

typedef struct loop {
  session_env *e;
  session_step *step;
  int32_t n_operands, n_first; // all; those of the first list
  int32_t n_second;            // those of the second list
  tc_tensor *operands;         // referenced
} loop;

// Tensors behind the last region.
static tc_status collect(loop *l, tc_arg *args, int32_t first, int32_t n_args) {
  int32_t list = 0, n = 0;
  for (int32_t pass = 0; pass < 2; pass++) {
    n = list = 0;
    for (int32_t i = first; i < n_args; i++, list++) {
      int32_t count = args[i].kind == TC_AK_TENSORS ? args[i].n : args[i].kind == TC_AK_TENSOR ? 1 : 0;
      for (int32_t k = 0; k < count; k++, n++) {
        tc_value *v = args[i].kind == TC_AK_TENSORS ? args[i].values[k] : args[i].value;
        if (pass == 0) continue;
        if (!v || !l->e->slots[v->id].storage) return tc_error(TC_STATUS_INTERNAL, "an operand is not there");
        l->operands[n] = tc_tensor_ref(&l->e->slots[v->id]);
      }
      if (list == 0) l->n_first = n;
      if (list == 1) l->n_second = n - l->n_first;
    }
    if (pass == 0) {
      l->operands = tc_alloc(l->e->s->context->allocator, (size_t)(n + 1) * sizeof *l->operands);
      if (!l->operands) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for operands");
      l->n_operands = n;
    }
  }
  return TC_OK;
}

// Runs a region. Inputs and outputs by position; the region's other inputs are its state.
static tc_status run_region(loop *l, int32_t region, const tc_tensor *inputs, tc_tensor *outputs) {
  tc_session_run_options o = *l->e->options;
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

static tc_status check_count(const loop *l, int32_t region, int32_t n) {
  int32_t want = l->step->regions[region]->graph->inputs.count;
  if (want == n) return TC_OK;
  return tc_error(TC_STATUS_INVALID_ARGUMENT, "a region of %d inputs gets %d operands", want, n);
}

static tc_status run_cond(loop *l) {
  bool truth;
  const tc_arg *pred = &l->step->node->args[0];
  if (pred->value) TC_TRY(read_truth(l, &l->e->slots[pred->value->id], &truth));
  else truth = pred->integer != 0;
  int32_t region = truth ? 0 : 1, n = n_outputs_of(l, region);
  TC_TRY(check_count(l, region, l->n_operands));
  tc_tensor *results = tc_alloc(l->e->s->context->allocator, (size_t)(n + 1) * sizeof *results);
  if (!results) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for results");
  tc_status s = run_region(l, region, l->operands, results);
  if (s == TC_OK) s = give_results(l, n, results);
  tc_free(l->e->s->context->allocator, results);
  return s;
}

static tc_status run_while(loop *l) {
  int32_t n = n_outputs_of(l, 1);
  if (n != l->n_first)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "a loop carries %d tensors, its body gives %d", l->n_first, n);
  TC_TRY(check_count(l, 0, l->n_operands));
  TC_TRY(check_count(l, 1, l->n_operands));
  tc_tensor *next = tc_alloc(l->e->s->context->allocator, (size_t)(n + 1) * sizeof *next), truth = {0};
  if (!next) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for a loop");
  tc_status s = TC_OK;
  for (bool go = true; s == TC_OK;) {
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

// The i-th of n results y goes into the stack of them, which the first one makes.
static tc_status stack(loop *l, tc_tensor *all, const tc_tensor *y, int64_t i, int64_t n) {
  tc_tensor host;
  if (y->rank >= TC_MAX_RANK)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "a result of rank %d cannot be stacked", y->rank);
  TC_TRY(session_to_host(l->e->s, y, &host));
  tc_status s = TC_OK;
  if (!all->storage) {
    int64_t sizes[TC_MAX_RANK] = {n};
    for (int32_t d = 0; d < host.rank; d++) sizes[d + 1] = host.sizes[d];
    s = tc_tensor_create(l->e->s->context->allocator, host.dtype, host.rank + 1, sizes, all);
  }
  if (s == TC_OK) {
    tc_tensor place = slice(all, i);
    s = tc_tensor_copy(&host, &place);
    tc_tensor_unref(&place);
  }
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
  for (int32_t k = 0; k < l->n_operands; k++) {
    const tc_tensor *t = &l->operands[k];
    bool sliced = k >= q->n_carry && k < q->n_carry + q->n_xs;
    q->inputs[k] = sliced ? slice(t, i) : tc_tensor_ref(t);
  }
  tc_status s = run_region(l, 0, q->inputs, q->outputs);
  for (int32_t k = 0; k < l->n_operands; k++) tc_tensor_unref(&q->inputs[k]);
  for (int32_t k = 0; k < q->n_carry && s == TC_OK; k++) {
    tc_tensor_unref(&l->operands[k]);
    l->operands[k] = q->outputs[k];
    q->outputs[k] = (tc_tensor){0};
  }
  for (int32_t k = 0; k < q->n_ys; k++) {
    if (s == TC_OK) s = stack(l, &q->ys[k], &q->outputs[q->n_carry + k], i, q->length);
    tc_tensor_unref(&q->outputs[q->n_carry + k]);
  }
  return s;
}

static tc_status run_turns(scan *q) {
  loop *l = q->l;
  TC_TRY(check_count(l, 0, l->n_operands));
  if (q->n_ys < 0)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "a loop carries %d tensors, its body gives fewer", q->n_carry);
  if (q->n_xs < 1) return tc_error(TC_STATUS_INVALID_ARGUMENT, "a scan over nothing");
  for (int32_t k = 0; k < q->n_xs; k++) {
    const tc_tensor *x = &l->operands[q->n_carry + k];
    if (x->rank < 1 || (k && x->sizes[0] != q->length))
      return tc_error(TC_STATUS_INVALID_ARGUMENT, "a scan over tensors of different lengths");
    q->length = x->sizes[0];
  }
  if (q->length == 0) return tc_error(TC_STATUS_INVALID_ARGUMENT, "a scan over an empty dimension");
  for (int64_t i = 0; i < q->length; i++) TC_TRY(scan_turn(q, i), "while running turn %lld of a scan", (long long)i);
  for (int32_t k = 0; k < q->n_carry; k++) q->outputs[k] = l->operands[k], l->operands[k] = (tc_tensor){0};
  for (int32_t k = 0; k < q->n_ys; k++) q->outputs[q->n_carry + k] = q->ys[k], q->ys[k] = (tc_tensor){0};
  return give_results(l, q->n_carry + q->n_ys, q->outputs);
}

static tc_status run_scan(loop *l, int32_t n_carry, int32_t n_xs) {
  int32_t n = n_outputs_of(l, 0);
  scan q = {.l = l, .n_carry = n_carry, .n_xs = n_xs, .n_ys = n - n_carry};
  tc_tensor *all = tc_alloc(l->e->s->context->allocator, (size_t)(l->n_operands + 2 * n + 1) * sizeof *all);
  if (!all) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for a scan");
  q.inputs = all, q.outputs = all + l->n_operands, q.ys = q.outputs + n;
  tc_status s = run_turns(&q);
  for (int32_t k = 0; k < 2 * n; k++) tc_tensor_unref(&q.outputs[k]);
  tc_free(l->e->s->context->allocator, all);
  return s;
}

tc_status session_run_control(session_env *e, session_step *step) {
  const tc_node *n = step->node;
  int32_t last = 0;
  for (int32_t i = 0; i < n->n_args; i++) {
    if (n->args[i].kind == TC_AK_GRAPH) last = i;
  }
  loop l = {.e = e, .step = step};
  tc_status s = collect(&l, n->args, last + 1, n->n_args);
  if (s == TC_OK && step->control == CONTROL_COND) s = run_cond(&l);
  else if (s == TC_OK && step->control == CONTROL_WHILE) s = run_while(&l);
  else if (s == TC_OK && step->control == CONTROL_SCAN) s = run_scan(&l, l.n_first, l.n_second);
  else if (s == TC_OK) s = run_scan(&l, 0, l.n_first);
  for (int32_t i = 0; l.operands && i < l.n_operands; i++) tc_tensor_unref(&l.operands[i]);
  tc_free(e->s->context->allocator, l.operands);
  return tc_status_note(s, "while running %%" TC_SV_FMT " = " TC_SV_FMT,
                        TC_SV_ARG(n->n_results ? n->results[0]->name : n->name), TC_SV_ARG(n->op->full_name));
}
