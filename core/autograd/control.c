// Derivatives of control flow.
//
// cond: a cond over the gradient graphs of its branches, which take the operands and the cotangents of the results and
// give the gradients of the wanted operands, zeros where there is none, so that both branches give the same.
//
// scan: the scan also stacks what it carries into each turn; a second scan goes over that and over xs from the last
// turn to the first. It carries the cotangents of what was carried and the sums of the gradients of further operands,
// and stacks the gradients of the slices (Williams and Zipser 1995: backpropagation through time). map has nothing to
// carry: its gradient is a map, summed over the turns for further operands.
//
// while_loop: nobody knows how many turns there will be, so nothing is stacked. The loop also counts its turns; a
// second loop goes from the last one to the first, and in each makes what was carried into that turn again, by a loop
// from the start. That is the square of the turns in time, and in memory what one turn takes.
#include "core/ir/control.h"

#include "core/autograd/internal.h"
#include "core/passes/passes.h"

// The joint graph of a region that gets other inputs and outputs.
typedef struct rewiring {
  tc_graph *g;
  tc_joint joint;
  tc_build b;
  TC_VEC(tc_graph_input) inputs;
  TC_VEC(tc_graph_output) outputs;
} rewiring;

static tc_status begin(tc_graph *region, const bool *wanted, rewiring *r) {
  *r = (rewiring){0};
  TC_TRY(tc_autograd_joint(region, wanted, &r->joint));
  r->b.graph = r->g = r->joint.graph;
  return TC_OK;
}

static tc_arena *arena_of(const rewiring *r) { return r->g->module->arena; }

// Input `at` of the joint graph is the next one.
static void take_input(rewiring *r, int32_t at) { tc_vec_push(arena_of(r), &r->inputs, r->g->inputs.data[at]); }

// … a new one is, row-major.
static tc_value *take_new(rewiring *r, const char *what, int32_t i, const tc_tensor_type *like) {
  tc_module *m = r->g->module;
  tc_sv name = tc_sv_printf(m->arena, "%s_%d", what, i);
  tc_tensor_type t = {.dtype = like->dtype,
                      .rank = like->rank,
                      .sizes = like->sizes,
                      .strides = tc_row_major(m, like->rank, like->sizes),
                      .offset = tc_sym_int(m->syms, 0)};
  tc_value *v = tc_graph_add_input(r->g, TC_IN_OPERAND, name, name, &t);
  take_input(r, r->g->inputs.count - 1);
  return v;
}

// The cotangent of the region's output i is the next input, also where the output depends on nothing that is wanted.
static void take_cotangent(rewiring *r, int32_t i, const tc_tensor_type *t) {
  if (r->joint.cotangents[i] >= 0) take_input(r, r->joint.cotangents[i]);
  else take_new(r, "unused", i, t);
}

static void give(rewiring *r, tc_arg a) {
  tc_graph_output o = {.kind = TC_OUT_USER, .arg = a};
  tc_vec_push(arena_of(r), &r->outputs, o);
}

// The gradient of input i, or zeros.
static tc_status gradient_of(rewiring *r, int32_t i, tc_arg *out) {
  if (r->joint.gradients[i] >= 0) {
    *out = r->g->outputs.data[r->joint.gradients[i]].arg;
    return TC_OK;
  }
  tc_arg x = tc_arg_tensor(r->g->inputs.data[i].value);
  return tc_build_call(&r->b, TC_SV("aten::zeros_like"), 1, &x, NULL, out);
}

static tc_status give_gradient(rewiring *r, int32_t i) {
  tc_arg a;
  TC_TRY(gradient_of(r, i, &a));
  give(r, a);
  return TC_OK;
}

static tc_status end(rewiring *r) {
  tc_graph *g = r->g;
  g->inputs.count = g->outputs.count = 0;
  for (int32_t i = 0; i < r->inputs.count; i++) {
    r->inputs.data[i].kind = TC_IN_OPERAND;
    if (r->inputs.data[i].value) r->inputs.data[i].value->def_index = i;
    tc_vec_push(arena_of(r), &g->inputs, r->inputs.data[i]);
  }
  for (int32_t i = 0; i < r->outputs.count; i++) tc_vec_push(arena_of(r), &g->outputs, r->outputs.data[i]);
  bool progress;
  tc_graph_sweep(g);
  TC_TRY(tc_pass_dce.run(g, &progress));
  tc_graph_sweep(g);
  return TC_OK;
}

static const tc_tensor_type *output_type(const tc_graph *region, int32_t i) {
  return &region->outputs.data[i].arg.value->type;
}

static bool flows(const tc_value *v) { return v->kind == TC_VALUE_TENSOR && tc_differentiable(&v->type); }

// ---- cond ----
static tc_status gradient_branch(tc_graph *region, const tc_node *like, const bool *wanted, tc_graph **out) {
  rewiring r;
  int32_t n = region->inputs.count;
  TC_TRY(begin(region, wanted, &r));
  for (int32_t i = 0; i < n; i++) take_input(&r, i);
  for (int32_t i = 0; i < like->n_results; i++)
    if (flows(like->results[i])) take_cotangent(&r, i, &like->results[i]->type);
  for (int32_t i = 0; i < n; i++)
    if (wanted[i]) TC_TRY(give_gradient(&r, i));
  TC_TRY(end(&r));
  *out = r.g;
  return TC_OK;
}

static tc_status of_cond(tc_graph *g, const tc_node *n, const tc_control *c, tc_value *const *cotangents,
                         const bool *wanted, tc_value **gradients) {
  tc_module *m = g->module;
  tc_graph *regions[2];
  for (int32_t i = 0; i < 2; i++) TC_TRY(gradient_branch(c->regions[i], n, wanted, &regions[i]));
  tc_value **operands = TC_NEW_ARRAY(m->arena, tc_value *, c->n_operands + n->n_results + 1);
  int32_t count = 0;
  for (int32_t i = 0; i < c->n_operands; i++) operands[count++] = c->operands[i];
  for (int32_t i = 0; i < n->n_results; i++)
    if (cotangents[i]) operands[count++] = cotangents[i];
  tc_arg args[] = {*c->predicate, tc_arg_graph(regions[0]), tc_arg_graph(regions[1]), tc_arg_tensors(operands, count)};
  tc_node *made;
  TC_TRY(tc_graph_add_node(g, NULL, n->op, 4, args, (tc_sv){0}, n->source, &made));
  for (int32_t i = 0, k = 0; i < c->n_operands; i++) gradients[i] = wanted[i] ? made->results[k++] : NULL;
  return TC_OK;
}

// ---- scan and map ----
typedef struct values {
  tc_value **data;
  int32_t count;
} values;

static values room_for(tc_graph *g, int32_t n) {
  return (values){TC_NEW_ARRAY(g->module->arena, tc_value *, n + 1), 0};
}
static void add(values *l, tc_value *v) { l->data[l->count++] = v; }
static tc_arg list_of(const values *l) { return tc_arg_tensors(l->data, l->count); }

static tc_status call(tc_graph *g, tc_sv source, const char *op, int32_t n, const tc_arg *args, tc_value **out) {
  tc_arg made;
  TC_TRY(tc_build_call(&(tc_build){.graph = g, .source = source}, tc_sv_of(op), n, args, NULL, &made));
  *out = made.value;
  return TC_OK;
}

static tc_status flipped(tc_graph *g, tc_sv source, tc_value *x, tc_value **out) {
  const tc_sym **zero = TC_NEW_ARRAY(g->module->arena, const tc_sym *, 1);
  zero[0] = tc_sym_int(g->module->syms, 0);
  tc_arg args[] = {tc_arg_tensor(x), tc_arg_syms(zero, 1)};
  return call(g, source, "aten::flip", 2, args, out);
}

// Puts a scan in the place of n that also stacks what is carried into each turn: its last results.
static tc_status stack_carried(tc_graph *g, tc_node *n, const tc_control *c, tc_node **out) {
  tc_graph *body = tc_graph_clone(c->regions[0], c->regions[0]->name);
  tc_build b = {.graph = body, .source = n->source};
  for (int32_t i = 0; i < c->n_carry; i++) {
    tc_arg x = tc_arg_tensor(body->inputs.data[i].value), copy;
    TC_TRY(tc_build_call(&b, TC_SV("aten::clone"), 1, &x, NULL, &copy));
    tc_graph_add_output(body, TC_OUT_USER, copy, TC_SV("carried"));
  }
  tc_graph_sweep(body);
  tc_arg *args = tc_arena_copy(g->module->arena, n->args, sizeof *args * (size_t)n->n_args);
  args[0] = tc_arg_graph(body);
  TC_TRY(tc_graph_add_node(g, n, n->op, n->n_args, args, (tc_sv){0}, n->source, out));
  for (int32_t i = 0; i < n->n_results; i++) tc_graph_forward(n->results[i], (*out)->results[i]);
  tc_node_kill(n);
  return TC_OK;
}

// What the region's inputs want: what is carried flows back whether or not what it began with is wanted.
static bool *region_wants(tc_graph *g, const tc_control *c, const bool *wanted) {
  bool *w = TC_NEW_ARRAY(g->module->arena, bool, c->n_operands + 1);
  for (int32_t i = 0; i < c->n_operands; i++) w[i] = flows(c->operands[i]) && (i < c->n_carry || wanted[i]);
  return w;
}

// Region: (cotangents of what is carried, sums of further gradients; stacked carried, slices, cotangents of ys;
// further) → (the same before the turn, sums; gradients of slices).
static tc_status scan_region(tc_graph *region, const tc_control *c, const bool *w, tc_graph **out) {
  rewiring r;
  int32_t further = c->n_carry + c->n_xs;
  tc_value **sums = TC_NEW_ARRAY(region->module->arena, tc_value *, c->n_operands + 1);
  TC_TRY(begin(region, w, &r));
  for (int32_t i = 0; i < c->n_carry; i++)
    if (w[i]) take_cotangent(&r, i, output_type(region, i));
  for (int32_t i = further; i < c->n_operands; i++)
    if (w[i]) sums[i] = take_new(&r, "sum", i, &region->inputs.data[i].value->type);
  for (int32_t i = 0; i < further; i++) take_input(&r, i);
  for (int32_t i = c->n_carry; i < region->outputs.count; i++)
    if (flows(region->outputs.data[i].arg.value)) take_cotangent(&r, i, output_type(region, i));
  for (int32_t i = further; i < c->n_operands; i++) take_input(&r, i);
  for (int32_t i = 0; i < c->n_carry; i++)
    if (w[i]) TC_TRY(give_gradient(&r, i));
  for (int32_t i = further; i < c->n_operands; i++) {
    tc_arg args[2] = {sums[i] ? tc_arg_tensor(sums[i]) : tc_arg_none()}, both;
    if (!w[i]) continue;
    TC_TRY(gradient_of(&r, i, &args[1]));
    TC_TRY(tc_build_call(&r.b, TC_SV("aten::add.Tensor"), 2, args, NULL, &both));
    give(&r, both);
  }
  for (int32_t i = c->n_carry; i < further; i++)
    if (w[i]) TC_TRY(give_gradient(&r, i));
  TC_TRY(end(&r));
  *out = r.g;
  return TC_OK;
}

static tc_status of_scan(tc_graph *g, tc_node *n, const tc_control *c, tc_value *const *cotangents, const bool *wanted,
                         tc_value **gradients) {
  tc_graph *region = c->regions[0], *back;
  int32_t further = c->n_carry + c->n_xs, n_out = region->outputs.count, k = 0;
  const bool *w = region_wants(g, c, wanted);
  tc_node *forward, *made;
  TC_TRY(scan_region(region, c, w, &back));
  TC_TRY(stack_carried(g, n, c, &forward));
  values carried = room_for(g, c->n_operands), xs = room_for(g, c->n_operands + n_out),
         others = room_for(g, c->n_operands);
  for (int32_t i = 0; i < c->n_carry; i++)
    if (w[i]) add(&carried, cotangents[i]);
  for (int32_t i = further; i < c->n_operands; i++) {
    tc_arg x = tc_arg_tensor(c->operands[i]);
    add(&others, c->operands[i]);
    if (!w[i]) continue;
    TC_TRY(call(g, n->source, "aten::zeros_like", 1, &x, &carried.data[carried.count]));
    carried.count++;
  }
  for (int32_t i = 0; i < further; i++) add(&xs, i < c->n_carry ? forward->results[n_out + i] : c->operands[i]);
  for (int32_t i = c->n_carry; i < n_out; i++)
    if (flows(n->results[i])) add(&xs, cotangents[i]);
  for (int32_t i = 0; i < xs.count; i++) TC_TRY(flipped(g, n->source, xs.data[i], &xs.data[i]));
  tc_arg args[] = {tc_arg_graph(back), list_of(&carried), list_of(&xs), list_of(&others)};
  TC_TRY(tc_graph_add_node(g, NULL, n->op, 4, args, (tc_sv){0}, n->source, &made));
  for (int32_t i = 0; i < c->n_carry; i++)
    if (w[i]) gradients[i] = made->results[k++];
  for (int32_t i = further; i < c->n_operands; i++)
    if (w[i]) gradients[i] = made->results[k++];
  for (int32_t i = c->n_carry; i < further; i++)
    if (w[i]) TC_TRY(flipped(g, n->source, made->results[k++], &gradients[i]));
  return TC_OK;
}

static tc_status of_map(tc_graph *g, const tc_node *n, const tc_control *c, tc_value *const *cotangents,
                        const bool *wanted, tc_value **gradients) {
  rewiring r;
  tc_graph *region = c->regions[0];
  const bool *w = region_wants(g, c, wanted);
  values xs = room_for(g, c->n_operands + n->n_results), others = room_for(g, c->n_operands);
  TC_TRY(begin(region, w, &r));
  for (int32_t i = 0; i < c->n_xs; i++) take_input(&r, i), add(&xs, c->operands[i]);
  for (int32_t i = 0; i < n->n_results; i++) {
    if (!flows(n->results[i])) continue;
    take_cotangent(&r, i, output_type(region, i));
    add(&xs, cotangents[i]);
  }
  for (int32_t i = c->n_xs; i < c->n_operands; i++) take_input(&r, i), add(&others, c->operands[i]);
  for (int32_t i = 0; i < c->n_operands; i++)
    if (w[i]) TC_TRY(give_gradient(&r, i));
  TC_TRY(end(&r));
  tc_arg args[] = {tc_arg_graph(r.g), list_of(&xs), list_of(&others)};
  tc_node *made;
  TC_TRY(tc_graph_add_node(g, NULL, n->op, 3, args, (tc_sv){0}, n->source, &made));
  for (int32_t i = 0, k = 0; i < c->n_operands; i++) {
    if (!w[i]) continue;
    gradients[i] = made->results[k++];
    const tc_sym **zero = TC_NEW_ARRAY(g->module->arena, const tc_sym *, 1);
    zero[0] = tc_sym_int(g->module->syms, 0);
    tc_arg sum[] = {tc_arg_tensor(gradients[i]), tc_arg_syms(zero, 1)};
    if (i >= c->n_xs) TC_TRY(call(g, n->source, "aten::sum.dim_IntList", 2, sum, &gradients[i]));
  }
  return TC_OK;
}

// ---- while_loop ----
static tc_tensor_type counter_type(tc_module *m) {
  return (tc_tensor_type){.dtype = TC_I64,
                          .sizes = tc_row_major(m, 0, NULL),
                          .strides = tc_row_major(m, 0, NULL),
                          .offset = tc_sym_int(m->syms, 0)};
}

// A new input of a region, at this place.
static tc_value *insert_input(tc_graph *g, int32_t at, const char *name, const tc_tensor_type *t) {
  tc_value *v = tc_graph_add_input(g, TC_IN_OPERAND, tc_sv_of(name), tc_sv_of(name), t);
  tc_graph_input in = tc_vec_last(&g->inputs);
  for (int32_t i = g->inputs.count - 1; i > at; i--) g->inputs.data[i] = g->inputs.data[i - 1];
  g->inputs.data[at] = in;
  for (int32_t i = 0; i < g->inputs.count; i++)
    if (g->inputs.data[i].value) g->inputs.data[i].value->def_index = i;
  return v;
}

static tc_status with_number(tc_graph *g, tc_node *before, const char *op, tc_value *x, int64_t number,
                             tc_value **out) {
  tc_arg args[] = {tc_arg_tensor(x), tc_arg_sym(tc_sym_int(g->module->syms, number))}, made;
  TC_TRY(tc_build_call(&(tc_build){.graph = g, .before = before}, tc_sv_of(op), 2, args, NULL, &made));
  *out = made.value;
  return TC_OK;
}

// The body with a counter behind what is carried.
static tc_status counting_body(const tc_control *c, tc_graph **out) {
  tc_graph *g = tc_graph_clone(c->regions[1], c->regions[1]->name);
  tc_tensor_type t = counter_type(g->module);
  tc_value *next;
  TC_TRY(with_number(g, NULL, "aten::add.Scalar", insert_input(g, c->n_carry, "turn", &t), 1, &next));
  tc_graph_add_output(g, TC_OUT_USER, tc_arg_tensor(next), TC_SV("turn"));
  tc_graph_sweep(g);
  *out = g;
  return TC_OK;
}

static tc_status make_while(tc_graph *g, tc_node *before, const tc_node *like, tc_graph *test, tc_graph *body,
                            const values *carried, const values *further, tc_node **out) {
  tc_arg args[] = {tc_arg_graph(test), tc_arg_graph(body), list_of(carried), list_of(further)};
  return tc_graph_add_node(g, before, like->op, 4, args, (tc_sv){0}, like->source, out);
}

// Puts a loop in the place of n that also gives the number of its turns, as its last result.
static tc_status count_turns(tc_graph *g, tc_node *n, const tc_control *c, tc_value **out) {
  tc_graph *test = tc_graph_clone(c->regions[0], c->regions[0]->name), *body;
  tc_tensor_type t = counter_type(g->module);
  values carried = room_for(g, c->n_carry + 1), further = room_for(g, c->n_operands);
  tc_arg none[] = {tc_arg_syms(NULL, 0), tc_arg_dtype(TC_I64)}, zero;
  tc_node *made;
  insert_input(test, c->n_carry, "turn", &t);
  tc_graph_sweep(test);
  TC_TRY(counting_body(c, &body));
  TC_TRY(tc_build_call(&(tc_build){.graph = g, .before = n, .source = n->source}, TC_SV("aten::zeros"), 2, none,
                       (tc_sv[]){{0}, TC_SV("dtype")}, &zero));
  for (int32_t i = 0; i < c->n_carry; i++) add(&carried, c->operands[i]);
  for (int32_t i = c->n_carry; i < c->n_operands; i++) add(&further, c->operands[i]);
  add(&carried, zero.value);
  TC_TRY(make_while(g, n, n, test, body, &carried, &further, &made));
  for (int32_t i = 0; i < n->n_results; i++) tc_graph_forward(n->results[i], made->results[i]);
  tc_node_kill(n);
  *out = made->results[c->n_carry];
  return TC_OK;
}

// In front of the region's node `first`: what is carried into turn number `turn`, made from the start.
static tc_status carried_into(rewiring *r, const tc_node *like, const tc_control *c, tc_value *const *start,
                              tc_value *turn, tc_node *first) {
  tc_graph *g = r->g, *test = tc_graph_create(g->module, TC_SV("again")), *body;
  tc_tensor_type t = counter_type(g->module);
  tc_node *made;
  values carried = room_for(g, c->n_carry + 1), further = room_for(g, c->n_operands + 1);
  tc_value *counter, *limit, *zero, *go;
  for (int32_t i = 0; i < c->n_operands; i++) {
    tc_sv name = tc_sv_printf(g->module->arena, "operand_%d", i);
    tc_graph_add_input(test, TC_IN_OPERAND, name, name, &c->operands[i]->type);
  }
  counter = insert_input(test, c->n_carry, "turn", &t);
  limit = tc_graph_add_input(test, TC_IN_OPERAND, TC_SV("limit"), TC_SV("limit"), &t);
  tc_arg both[] = {tc_arg_tensor(counter), tc_arg_tensor(limit)};
  TC_TRY(call(test, like->source, "aten::lt.Tensor", 2, both, &go));
  tc_graph_add_output(test, TC_OUT_USER, tc_arg_tensor(go), TC_SV("go"));
  tc_graph_sweep(test);
  TC_TRY(counting_body(c, &body));
  insert_input(body, body->inputs.count, "limit", &t);
  tc_graph_sweep(body);
  TC_TRY(with_number(g, first, "aten::mul.Scalar", turn, 0, &zero));
  for (int32_t i = 0; i < c->n_carry; i++) add(&carried, start[i]);
  for (int32_t i = c->n_carry; i < c->n_operands; i++) add(&further, g->inputs.data[i].value);
  add(&carried, zero), add(&further, turn);
  TC_TRY(make_while(g, first, like, test, body, &carried, &further, &made));
  for (int32_t i = 0; i < c->n_carry; i++) tc_graph_forward(g->inputs.data[i].value, made->results[i]);
  return TC_OK;
}

// Region: (turn, cotangents of what is carried, sums of further gradients; start, further) → the same before the turn.
static tc_status while_region(const tc_node *like, const tc_control *c, const bool *w, tc_graph **out) {
  rewiring r;
  TC_TRY(begin(c->regions[1], w, &r));
  tc_tensor_type t = counter_type(r.g->module);
  tc_value **sums = TC_NEW_ARRAY(arena_of(&r), tc_value *, c->n_operands + 1), **start = sums, *before;
  tc_value *turn = take_new(&r, "turn", 0, &t);
  for (int32_t i = 0; i < c->n_carry; i++)
    if (w[i]) take_cotangent(&r, i, output_type(c->regions[1], i));
  for (int32_t i = c->n_carry; i < c->n_operands; i++)
    if (w[i]) sums[i] = take_new(&r, "sum", i, &c->operands[i]->type);
  for (int32_t i = 0; i < c->n_carry; i++) start[i] = take_new(&r, "start", i, &c->operands[i]->type);
  for (int32_t i = c->n_carry; i < c->n_operands; i++) take_input(&r, i);
  tc_node *first = r.g->first;
  TC_TRY(with_number(r.g, first, "aten::sub.Scalar", turn, 1, &before));
  TC_TRY(carried_into(&r, like, c, start, before, first));
  give(&r, tc_arg_tensor(before));
  for (int32_t i = 0; i < c->n_carry; i++)
    if (w[i]) TC_TRY(give_gradient(&r, i));
  for (int32_t i = c->n_carry; i < c->n_operands; i++) {
    if (!w[i]) continue;
    tc_arg args[2] = {tc_arg_tensor(sums[i])}, both;
    TC_TRY(gradient_of(&r, i, &args[1]));
    TC_TRY(tc_build_call(&r.b, TC_SV("aten::add.Tensor"), 2, args, NULL, &both));
    give(&r, both);
  }
  TC_TRY(end(&r));
  *out = r.g;
  return TC_OK;
}

static tc_status of_while(tc_graph *g, tc_node *n, const tc_control *c, tc_value *const *cotangents, const bool *wanted,
                          tc_value **gradients) {
  const bool *w = region_wants(g, c, wanted);
  tc_graph *back, *test;
  tc_value *turns, *go;
  tc_node *made;
  values carried = room_for(g, c->n_operands + 1), further = room_for(g, c->n_operands);
  TC_TRY(while_region(n, c, w, &back));
  TC_TRY(count_turns(g, n, c, &turns));
  add(&carried, turns);
  for (int32_t i = 0; i < c->n_carry; i++)
    if (w[i]) add(&carried, cotangents[i]);
  for (int32_t i = c->n_carry; i < c->n_operands; i++) {
    tc_arg x = tc_arg_tensor(c->operands[i]);
    if (!w[i]) continue;
    TC_TRY(call(g, n->source, "aten::zeros_like", 1, &x, &carried.data[carried.count]));
    carried.count++;
  }
  for (int32_t i = 0; i < c->n_operands; i++) add(&further, c->operands[i]);
  test = tc_graph_create(g->module, TC_SV("turns_left"));
  for (int32_t i = 0; i < back->inputs.count; i++) {
    const tc_graph_input *in = &back->inputs.data[i];
    tc_graph_add_input(test, TC_IN_OPERAND, in->target, in->target, &in->value->type);
  }
  TC_TRY(with_number(test, NULL, "aten::gt.Scalar", test->inputs.data[0].value, 0, &go));
  tc_graph_add_output(test, TC_OUT_USER, tc_arg_tensor(go), TC_SV("go"));
  tc_graph_sweep(test);
  TC_TRY(make_while(g, NULL, n, test, back, &carried, &further, &made));
  for (int32_t i = 0, k = 1; i < c->n_operands; i++) gradients[i] = w[i] ? made->results[k++] : NULL;
  return TC_OK;
}

bool tc_autograd_has_control(const tc_op *op) {
  int32_t kind = tc_op_control(op);
  return kind == TC_CONTROL_COND || kind == TC_CONTROL_WHILE || kind == TC_CONTROL_SCAN || kind == TC_CONTROL_MAP;
}

tc_status tc_autograd_control(tc_graph *g, tc_node *n, const tc_control *c, tc_value *const *cotangents,
                              const bool *wanted, tc_value **gradients) {
  for (int32_t i = 0; i < c->n_operands; i++) gradients[i] = NULL;
  if (c->kind == TC_CONTROL_COND) return of_cond(g, n, c, cotangents, wanted, gradients);
  if (c->kind == TC_CONTROL_WHILE) return of_while(g, n, c, cotangents, wanted, gradients);
  if (c->kind == TC_CONTROL_SCAN) return of_scan(g, n, c, cotangents, wanted, gradients);
  return of_map(g, n, c, cotangents, wanted, gradients);
}
