// Control flow in the reference engine (control.h says what it means): regions are run as graphs, turn by turn, on
// tensors that each turn copies into the layout its region declares. associative_scan is decomposed.
//
// Invariant: symbols that a region binds (sizes from data) are forgotten behind each turn.
#include <string.h>

#include "core/ir/control.h"
#include "core/ir/refexec_internal.h"

typedef struct ref_loop {
  ref_scope *outer;
  tc_node *node;
  tc_control c;
  ref_scope inner[2];       // of the regions
  uint64_t seed;            // around the loop
  uint8_t *bound;           // as outside
  ref_tensor *state, *next; // held: the operands, what is carried in front; results of a turn
  ref_tensor *ys;           // stacked
  int32_t n_next, n_ys;
} ref_loop;

static void drop_values(ref_scope *s) {
  for (tc_node *n = s->graph->first; n; n = n->next)
    for (int32_t i = 0; i < n->n_results; i++) ref_drop(s->run, &ref_slot_of(s, n->results[i])->t);
  for (int32_t i = 0; i < s->graph->inputs.count; i++)
    ref_drop(s->run, &ref_slot_of(s, s->graph->inputs.data[i].value)->t);
}

// Runs region k; outputs[i] is held by the caller afterwards.
static tc_status run_region(ref_loop *l, int32_t k, const ref_tensor *inputs, ref_tensor *outputs) {
  ref_scope *s = &l->inner[k];
  ref_run *r = s->run;
  tc_graph *g = s->graph;
  tc_status status = TC_OK;
  for (int32_t i = 0; i < g->inputs.count && !status; i++)
    status = ref_store_result(s, g->inputs.data[i].value, &inputs[i]);
  if (!status) status = ref_run_graph(s);
  for (int32_t i = 0; i < g->outputs.count && !status; i++) {
    tc_value *v = g->outputs.data[i].arg.kind == TC_AK_TENSOR ? g->outputs.data[i].arg.value : NULL;
    if (!v || v->kind != TC_VALUE_TENSOR) continue;
    outputs[i] = ref_slot_of(s, v)->t;
    ref_hold(&outputs[i]);
  }
  drop_values(s);
  memcpy(r->bound, l->bound, (size_t)r->n_symbols);
  return status;
}

static tc_status read_element(const ref_tensor *t, bool *out) {
  tc_c128 v;
  if (!t->buffer || ref_numel(t->rank, t->sizes) != 1)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "a condition must be one element");
  if (t->wide == TC_I64) return *out = ((const int64_t *)t->buffer->data)[t->offset] != 0, TC_OK;
  ref_load(t, t->offset, &v);
  *out = v.re != 0 || v.im != 0;
  return TC_OK;
}

static tc_status read_predicate(ref_loop *l, bool *out) {
  const tc_arg *p = l->c.predicate;
  int64_t v;
  if (p->kind == TC_AK_TENSOR && p->value->kind == TC_VALUE_TENSOR)
    return read_element(&ref_slot_of(l->outer, p->value)->t, out);
  if (p->value) return *out = ref_slot_of(l->outer, p->value)->integer != 0, TC_OK;
  if (p->kind != TC_AK_INT) return *out = p->integer != 0, TC_OK;
  TC_TRY(ref_eval(l->outer->run, p->sym, &v));
  *out = v != 0;
  return TC_OK;
}

// What a turn gave is carried on.
static void carry(ref_loop *l, int32_t n) {
  for (int32_t i = 0; i < n; i++) {
    ref_drop(l->outer->run, &l->state[i]);
    l->state[i] = l->next[i];
    l->next[i] = (ref_tensor){0};
  }
}

static void begin_turn(ref_loop *l, int64_t turn) { l->outer->run->seed = tc_turn_seed(l->seed, turn); }

static tc_status run_while(ref_loop *l) {
  bool go = true;
  for (int64_t turn = 0;; turn++) {
    ref_tensor truth = {0};
    begin_turn(l, turn);
    TC_TRY(run_region(l, 0, l->state, &truth));
    tc_status s = read_element(&truth, &go);
    ref_drop(l->outer->run, &truth);
    if (s || !go) return s;
    TC_TRY(run_region(l, 1, l->state, l->next));
    carry(l, l->c.n_carry);
  }
}

// Element i of a stack, its first dimension gone.
static ref_tensor element(const ref_tensor *t, int64_t i) {
  ref_tensor out = *t;
  out.rank--;
  out.offset += i * t->strides[0];
  memmove(out.sizes, t->sizes + 1, sizeof *out.sizes * (size_t)out.rank);
  memmove(out.strides, t->strides + 1, sizeof *out.strides * (size_t)out.rank);
  return out;
}

static tc_status make_stacks(ref_loop *l, int64_t length) {
  for (int32_t i = 0; i < l->n_ys; i++) {
    const tc_tensor_type *t = &l->node->results[l->c.n_carry + i]->type;
    int64_t sizes[TC_MAX_RANK] = {length};
    for (int32_t d = 1; d < t->rank; d++) TC_TRY(ref_eval(l->outer->run, t->sizes[d], &sizes[d]));
    TC_TRY(ref_new(l->outer->run, t->dtype, t->rank, sizes, NULL, &l->ys[i]));
  }
  return TC_OK;
}

static tc_status scan_turn(ref_loop *l, int64_t at) {
  ref_run *r = l->outer->run;
  ref_tensor *inputs = TC_NEW_ARRAY(r->arena, ref_tensor, l->c.n_operands);
  for (int32_t i = 0; i < l->c.n_operands; i++) {
    bool sliced = i >= l->c.n_carry && i < l->c.n_carry + l->c.n_xs;
    inputs[i] = sliced ? element(&l->state[i], at) : l->state[i];
  }
  begin_turn(l, at);
  TC_TRY(run_region(l, 0, inputs, l->next));
  carry(l, l->c.n_carry);
  for (int32_t i = 0; i < l->n_ys; i++) {
    ref_tensor to = element(&l->ys[i], at), *y = &l->next[l->c.n_carry + i];
    bool fits = y->rank == to.rank && !memcmp(y->sizes, to.sizes, sizeof *y->sizes * (size_t)y->rank);
    if (fits) ref_copy(r, y, &to, true);
    ref_drop(r, y);
    if (!fits) return tc_error(TC_STATUS_INVALID_ARGUMENT, "result %d has other sizes than in the turns before", i);
  }
  return TC_OK;
}

static tc_status run_scan(ref_loop *l) {
  const ref_tensor *x = &l->state[l->c.n_carry];
  int64_t length = x->sizes[0];
  for (int32_t i = 1; i < l->c.n_xs; i++)
    if (x[i].sizes[0] != length)
      return tc_error(TC_STATUS_INVALID_ARGUMENT, "a scan over tensors of different lengths");
  TC_TRY(make_stacks(l, length));
  for (int64_t i = 0; i < length; i++)
    TC_TRY(scan_turn(l, l->c.reverse ? length - 1 - i : i), "in turn %lld", (long long)i);
  return TC_OK;
}

static tc_status run_control(ref_loop *l) {
  bool truth;
  int32_t n_carry = l->c.n_carry;
  switch (l->c.kind) {
  case TC_CONTROL_COND:
    TC_TRY(read_predicate(l, &truth));
    TC_TRY(run_region(l, truth ? 0 : 1, l->state, l->next));
    break;
  case TC_CONTROL_WHILE: TC_TRY(run_while(l)); break;
  default: TC_TRY(run_scan(l));
  }
  for (int32_t i = 0; i < l->node->n_results; i++) {
    const ref_tensor *t = l->c.kind == TC_CONTROL_COND ? &l->next[i] : i < n_carry ? &l->state[i] : &l->ys[i - n_carry];
    if (l->node->results[i]->kind == TC_VALUE_TENSOR) TC_TRY(ref_store_result(l->outer, l->node->results[i], t));
    else ref_slot_of(l->outer, l->node->results[i])->set = true;
  }
  return TC_OK;
}

tc_status ref_control(ref_scope *s, tc_node *n) {
  ref_run *r = s->run;
  ref_loop l = {.outer = s, .node = n, .seed = r->seed};
  TC_TRY(tc_control_read(r->arena, n->op, n->n_args, n->args, &l.c));
  bool unwatched = !r->options->watch_regions || s->graph->scratch || s->unwatched;
  for (int32_t i = 0; i < l.c.n_regions; i++)
    l.inner[i] =
        (ref_scope){.run = r, .graph = l.c.regions[i], .slots = tc_map_create(r->arena), .unwatched = unwatched};
  l.bound = tc_arena_copy(r->arena, r->bound, (size_t)r->n_symbols);
  l.n_next = tc_control_body(&l.c)->outputs.count, l.n_ys = l.n_next - l.c.n_carry;
  l.state = TC_NEW_ARRAY(r->arena, ref_tensor, l.c.n_operands);
  l.next = TC_NEW_ARRAY(r->arena, ref_tensor, l.n_next), l.ys = TC_NEW_ARRAY(r->arena, ref_tensor, l.n_ys);
  for (int32_t i = 0; i < l.c.n_operands; i++) {
    l.state[i] = ref_slot_of(s, l.c.operands[i])->t;
    ref_hold(&l.state[i]);
  }
  tc_status status = run_control(&l);
  r->seed = l.seed;
  for (int32_t i = 0; i < l.c.n_operands; i++) ref_drop(r, &l.state[i]);
  for (int32_t i = 0; i < l.n_next; i++) ref_drop(r, &l.next[i]);
  for (int32_t i = 0; i < l.n_ys; i++) ref_drop(r, &l.ys[i]);
  return status;
}
