// Control flow in plans: a node with regions becomes an op that runs plans of its own.
//
// Memory: while the op runs, its regions have a range of the plan's arena as theirs (`scratch`, as large as the largest
// of them wants), and what a loop carries has a second place for every second turn (`spares`), so that no turn writes
// what it reads. All of them live at this op only, so the plan of the memory shares their ranges with the other ops.
#include "core/ir/control.h"

#include "core/plan/plan_internal.h"

static const struct {
  const char *word, *regions[2];
} kinds[] = {[TC_PLAN_LAUNCH] = {"launch", {0}},
             [TC_PLAN_CALL] = {"call", {0}},
             [TC_PLAN_IF] = {"if", {"then", "else"}},
             [TC_PLAN_WHILE] = {"while", {"test", "do"}},
             [TC_PLAN_SCAN] = {"scan", {"do"}}};

const char *tc_plan_op_word(int32_t kind) {
  return kind >= 0 && kind < (int32_t)(sizeof kinds / sizeof *kinds) ? kinds[kind].word : NULL;
}
int32_t tc_plan_region_count(int32_t kind) {
  return (kinds[kind].regions[0] != NULL) + (kinds[kind].regions[1] != NULL);
}
const char *tc_plan_region_word(int32_t kind, int32_t region) { return kinds[kind].regions[region]; }

int32_t plan_fixed_from(const tc_plan_op *op, int32_t region) {
  bool body = op->kind == TC_PLAN_SCAN || (op->kind == TC_PLAN_WHILE && region == 1);
  return body ? op->n_carry + op->n_xs : 0;
}

const tc_sym *tc_plan_region_offset(const tc_plan_op *op, int32_t region) {
  tc_sym_ctx *c = op->regions[0]->syms;
  const tc_plan *r = op->regions[region];
  if (op->kind != TC_PLAN_WHILE || !r->fixed_from || !r->ops.count || !r->ops.data[0].once) return tc_sym_int(c, 0);
  const tc_sym *places = tc_sym_ceildiv(c, op->regions[0]->arena_bytes, tc_sym_int(c, PLAN_ALIGN));
  return tc_sym_muli(c, places, PLAN_ALIGN);
}

// What a region's results must look like: the node's, elements of them where they are stacked.
static const tc_tensor_type *const *wanted_results(plan_builder *w, const tc_node *n, const tc_control *c,
                                                   int32_t region) {
  const tc_graph *g = c->regions[region];
  const tc_tensor_type **want = TC_NEW_ARRAY(w->p->arena, const tc_tensor_type *, g->outputs.count);
  for (int32_t i = 0; i < g->outputs.count; i++) {
    const tc_arg *out = &g->outputs.data[i].arg;
    bool test = c->kind == TC_CONTROL_WHILE && region == 0, stacked = c->kind >= TC_CONTROL_SCAN && i >= c->n_carry;
    const tc_value *v = test ? out->value : n->results[i];
    if (out->kind != TC_AK_TENSOR || v->kind != TC_VALUE_TENSOR) continue;
    tc_tensor_type *t = TC_NEW(w->p->arena, tc_tensor_type);
    *t = v->type;
    if (stacked) t->rank--, t->sizes++, t->strides++;
    t->offset = tc_sym_int(w->p->syms, 0), t->conj = 0;
    want[i] = t;
  }
  return want;
}

// Of a region, in all turns; turns: NULL where there are none.
static const tc_sym *sum_of(const tc_plan *p, bool flops, const tc_sym *turns) {
  const tc_sym *once = tc_sym_int(p->syms, 0), *sum = once;
  for (int32_t i = 0; i < p->ops.count; i++) {
    const tc_plan_op *op = &p->ops.data[i];
    const tc_sym **to = op->once ? &once : &sum;
    *to = tc_sym_add(p->syms, *to, flops ? op->flops : op->bytes);
  }
  return tc_sym_add(p->syms, once, turns ? tc_sym_mul(p->syms, sum, turns) : sum);
}

static tc_status make_regions(plan_builder *w, const tc_node *n, const tc_control *c, tc_plan_op *op) {
  tc_sym_ctx *syms = w->p->syms;
  const tc_sym *bytes = tc_sym_int(syms, 0);
  op->bytes = op->flops = bytes;
  if (!w->regions) return tc_error(TC_STATUS_UNIMPLEMENTED, "regions are not planned here");
  for (int32_t i = 0; i < c->n_regions; i++) {
    TC_TRY(w->regions->make(w->regions->self, c->regions[i], wanted_results(w, n, c, i), plan_fixed_from(op, i),
                            &op->regions[i]),
           "in the region @" TC_SV_FMT, TC_SV_ARG(c->regions[i]->name));
    const tc_plan *r = op->regions[i];
    bytes = tc_sym_max(syms, bytes, tc_sym_add(syms, tc_plan_region_offset(op, i), r->arena_bytes));
    op->bytes = tc_sym_max(syms, op->bytes, sum_of(r, false, op->turns));
    op->flops = tc_sym_max(syms, op->flops, sum_of(r, true, op->turns));
  }
  op->scratch = -1;
  if (tc_sym_is_int(bytes, 0)) return TC_OK;
  const tc_sym **dims = TC_NEW_ARRAY(w->p->arena, const tc_sym *, 2);
  dims[0] = bytes, dims[1] = tc_sym_int(syms, 1);
  tc_plan_buf b = {.dtype = TC_U8, .rank = 1, .sizes = dims, .strides = dims + 1, .bytes = bytes};
  op->scratch = plan_scratch(w, TC_SV("scratch"), &b);
  return TC_OK;
}

tc_status plan_add_control(plan_builder *w, tc_group *g) {
  static const int32_t op_kinds[] = {[TC_CONTROL_COND] = TC_PLAN_IF,
                                     [TC_CONTROL_WHILE] = TC_PLAN_WHILE,
                                     [TC_CONTROL_SCAN] = TC_PLAN_SCAN,
                                     [TC_CONTROL_MAP] = TC_PLAN_SCAN};
  tc_plan *p = w->p;
  const tc_node *n = g->call->node;
  tc_control c;
  TC_TRY(tc_control_read(p->arena, n->op, n->n_args, n->args, &c));
  tc_plan_op op = {
      .kind = op_kinds[c.kind], .name = g->name, .source = n->source, .n_carry = c.n_carry, .n_xs = c.n_xs};
  op.blocks = op.grain = tc_sym_int(p->syms, 1);
  if (c.kind == TC_CONTROL_COND && g->call->n_operands == c.n_operands)
    op.predicate = c.predicate->kind == TC_AK_INT ? c.predicate->sym : tc_sym_int(p->syms, c.predicate->integer != 0);
  if (op.kind == TC_PLAN_SCAN) op.turns = c.operands[c.n_carry]->type.sizes[0], op.reverse = c.reverse;
  TC_TRY(plan_call_args(w, g->call, &op));
  TC_TRY(make_regions(w, n, &c, &op), "while planning " TC_SV_FMT, TC_SV_ARG(n->op->full_name));
  int32_t *spares = TC_NEW_ARRAY(p->arena, int32_t, c.n_carry);
  for (int32_t i = 0; i < c.n_carry; i++) {
    tc_plan_buf like = p->bufs.data[op.args[op.n_operands + i].buf];
    if (like.kind == TC_PLAN_INPUT) return tc_error(TC_STATUS_INTERNAL, "a loop's result is an input");
    spares[i] = plan_scratch(w, like.name, &like);
  }
  op.spares = spares;
  tc_vec_push(p->arena, &p->ops, op);
  return TC_OK;
}
