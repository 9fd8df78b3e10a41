// Derivatives of control flow.
//
// cond: a cond over the gradient graphs of its branches, which take the operands and the cotangents of the results and
// give the gradients of the wanted operands, zeros where there is none, so that both branches give the same.
//
// scan: the scan also stacks what it carries into each turn; a second scan goes over that and over xs in the opposite
// direction. It carries the cotangents of what was carried and the sums of the gradients of further operands,
// and stacks the gradients of the slices (Williams and Zipser 1995: backpropagation through time). map has nothing to
// carry: its gradient is a map, summed over the turns for further operands.
//
// while_loop: the loop also counts its turns. The host reads the count, and what flows back is that of a scan of as
// many turns, which goes through them once more and stacks what is carried: each turn is gone through three times.
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
  tc_arg args[] = {tc_arg_graph(back), list_of(&carried), list_of(&xs), list_of(&others), tc_arg_bool(!c->reverse)};
  TC_TRY(tc_graph_add_node(g, NULL, n->op, 5, args, (tc_sv){0}, n->source, &made));
  for (int32_t i = 0; i < c->n_carry; i++)
    if (w[i]) gradients[i] = made->results[k++];
  for (int32_t i = further; i < c->n_operands; i++)
    if (w[i]) gradients[i] = made->results[k++];
  for (int32_t i = c->n_carry; i < further; i++)
    if (w[i]) gradients[i] = made->results[k++];
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

// Puts a loop in the place of n that also gives the number of its turns, as its last result.
static tc_status count_turns(tc_graph *g, tc_node *n, const tc_control *c, tc_value **out) {
  tc_graph *regions[2];
  tc_module *m = g->module;
  tc_tensor_type t = counter_type(m);
  tc_value *turn = NULL;
  for (int32_t i = 0; i < 2; i++) {
    regions[i] = tc_graph_clone(c->regions[i], c->regions[i]->name);
    turn = insert_input(regions[i], c->n_carry, "turn", &t);
  }
  tc_arg one[] = {tc_arg_tensor(turn), tc_arg_sym(tc_sym_int(m->syms, 1))};
  TC_TRY(call(regions[1], n->source, "aten::add.Scalar", 2, one, &turn));
  tc_graph_add_output(regions[1], TC_OUT_USER, tc_arg_tensor(turn), TC_SV("turn"));
  for (int32_t i = 0; i < 2; i++) tc_graph_sweep(regions[i]);
  values carried = room_for(g, c->n_carry + 1), further = room_for(g, c->n_operands);
  tc_arg none[] = {tc_arg_syms(NULL, 0), tc_arg_dtype(TC_I64)}, zero;
  TC_TRY(tc_build_call(&(tc_build){.graph = g, .before = n, .source = n->source}, TC_SV("aten::zeros"), 2, none,
                       (tc_sv[]){{0}, TC_SV("dtype")}, &zero));
  for (int32_t i = 0; i < c->n_carry; i++) add(&carried, c->operands[i]);
  for (int32_t i = c->n_carry; i < c->n_operands; i++) add(&further, c->operands[i]);
  add(&carried, zero.value);
  tc_arg args[] = {tc_arg_graph(regions[0]), tc_arg_graph(regions[1]), list_of(&carried), list_of(&further)};
  tc_node *made;
  TC_TRY(tc_graph_add_node(g, n, n->op, 4, args, (tc_sv){0}, n->source, &made));
  for (int32_t i = 0; i < n->n_results; i++) tc_graph_forward(n->results[i], made->results[i]);
  tc_node_kill(n);
  *out = made->results[c->n_carry];
  return TC_OK;
}

// As many elements as there were turns, for a scan to go over.
static tc_status one_for_each(tc_graph *g, tc_sv source, tc_value *turns, tc_value **out) {
  tc_build b = {.graph = g, .source = source};
  tc_arg count = tc_arg_tensor(turns), size, made;
  TC_TRY(tc_build_call(&b, TC_SV("aten::item"), 1, &count, NULL, &size));
  tc_sym_info_of(g->module->syms, size.sym)->lo = 0;
  const tc_sym **sizes = TC_NEW_ARRAY(g->module->arena, const tc_sym *, 1);
  sizes[0] = size.sym;
  tc_arg args[] = {tc_arg_syms(sizes, 1), tc_arg_dtype(TC_I64)};
  TC_TRY(tc_build_call(&b, TC_SV("aten::zeros"), 2, args, (tc_sv[]){{0}, TC_SV("dtype")}, &made));
  *out = made.value;
  return TC_OK;
}

static tc_status of_while(tc_graph *g, tc_node *n, const tc_control *c, tc_value *const *cotangents, const bool *wanted,
                          tc_value **gradients) {
  tc_module *m = g->module;
  tc_graph *body = tc_graph_clone(c->regions[1], c->regions[1]->name);
  tc_tensor_type t = counter_type(m);
  tc_value *turns, **of_operands = TC_NEW_ARRAY(m->arena, tc_value *, c->n_operands + 1);
  bool *wants = TC_NEW_ARRAY(m->arena, bool, c->n_operands + 1);
  values carried = room_for(g, c->n_carry), xs = room_for(g, 1), further = room_for(g, c->n_operands);
  tc_control same;
  tc_node *scan;
  insert_input(body, c->n_carry, "turn", &t);
  tc_graph_sweep(body);
  TC_TRY(count_turns(g, n, c, &turns));
  TC_TRY(one_for_each(g, n->source, turns, &xs.data[xs.count]));
  xs.count++;
  for (int32_t i = 0; i < c->n_operands; i++) {
    add(i < c->n_carry ? &carried : &further, c->operands[i]);
    wants[i + (i >= c->n_carry)] = wanted[i];
  }
  tc_arg args[] = {tc_arg_graph(body), list_of(&carried), list_of(&xs), list_of(&further)};
  const tc_op *op = tc_op_find(m->ops, TC_SV("higher_order::scan"));
  TC_TRY(tc_graph_add_node(g, NULL, op, 4, args, (tc_sv){0}, n->source, &scan));
  TC_TRY(tc_control_read(m->arena, op, scan->n_args, scan->args, &same));
  TC_TRY(of_scan(g, scan, &same, cotangents, wants, of_operands));
  for (int32_t i = 0; i < c->n_operands; i++) gradients[i] = of_operands[i + (i >= c->n_carry)];
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
