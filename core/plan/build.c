// From a schedule to a plan: kernels emitted, buffers collected, launches in order.
#include "core/ir/control.h"
#include "core/plan/plan_internal.h"

// Bytes from the first to the last element, strides counted.
static const tc_sym *span_bytes(tc_sym_ctx *c, const tc_buf *b) {
  const tc_sym *last = tc_sym_int(c, 1);
  for (int32_t d = 0; d < b->rank; d++)
    last = tc_sym_add(c, last, tc_sym_mul(c, tc_sym_addi(c, b->sizes[d], -1), b->strides[d]));
  for (int32_t d = 0; d < b->rank; d++) { // an empty tensor takes nothing
    if (tc_sym_is_int(b->sizes[d], 0)) last = tc_sym_int(c, 0);
  }
  return tc_sym_max(c, tc_sym_muli(c, last, tc_dtype_size(b->dtype)), tc_sym_int(c, 0));
}

// "x", else "x.1", "x.2", …
static tc_sv unique_name(plan_builder *w, tc_sv want) {
  bool fresh;
  tc_sv name = want;
  tc_map_put(w->names, name, &fresh);
  while (!fresh) {
    int64_t n = ++tc_map_find(w->names, want)->value.num;
    name = tc_sv_printf(w->p->arena, TC_SV_FMT ".%lld", TC_SV_ARG(want), (long long)n);
    tc_map_put(w->names, name, &fresh);
  }
  return name;
}

static int32_t buf_number(plan_builder *w, const tc_buf *b) {
  tc_map_entry *e = tc_map_put_ptr(w->bufs, b, NULL);
  if (e->value.num) return (int32_t)e->value.num - 1;
  tc_plan *p = w->p;
  tc_plan_buf q = {.id = p->bufs.count,
                   .name = unique_name(w, b->name),
                   .dtype = b->dtype,
                   .rank = b->rank,
                   .sizes = b->sizes,
                   .strides = b->strides,
                   .offset = b->offset,
                   .input = b->input,
                   .origin = b,
                   .first = INT32_MAX,
                   .last = -1};
  if (b->inplace) q.input = tc_buf_storage(b)->input, q.offset = tc_buf_storage(b)->offset;
  if (b->over) q.over = buf_number(w, b->over) + 1;
  q.kind = b->kind == TC_BUF_INPUT || b->inplace ? TC_PLAN_INPUT : b->output >= 0 ? TC_PLAN_OUTPUT : TC_PLAN_ARENA;
  q.place = tc_sym_int(p->syms, 0);
  q.bytes = q.kind == TC_PLAN_INPUT ? q.place : span_bytes(p->syms, b);
  q.id = p->bufs.count;
  tc_vec_push(p->arena, &p->bufs, q);
  e->value.num = p->bufs.count;
  return p->bufs.count - 1;
}

tc_plan_arg plan_touch(plan_builder *w, const tc_buf *b, bool writes) {
  int32_t n = buf_number(w, b);
  tc_plan_buf *q = &w->p->bufs.data[n];
  if (w->p->ops.count < q->first) q->first = w->p->ops.count;
  if (w->p->ops.count > q->last) q->last = w->p->ops.count;
  return (tc_plan_arg){.buf = n, .writes = writes};
}

tc_status plan_affine(plan_builder *w, const tc_lview *v, tc_tensor_type *out) {
  tc_sym_ctx *c = w->p->syms;
  const tc_buf *b = v->buf;
  const tc_sym *linear = b->offset ? b->offset : tc_sym_int(c, 0),
               **strides = TC_NEW_ARRAY(w->p->arena, const tc_sym *, v->rank);
  for (int32_t d = 0; d < b->rank; d++) linear = tc_sym_add(c, linear, tc_sym_mul(c, v->map[d], b->strides[d]));
  for (int32_t d = 0; d < v->rank; d++) {
    const tc_sym *rest;
    if (!tc_sym_linear(c, linear, v->index[d], &strides[d], &rest))
      return tc_error(TC_STATUS_UNIMPLEMENTED, "%%" TC_SV_FMT " has no strides, which a library wants",
                      TC_SV_ARG(b->name));
    linear = rest;
  }
  *out = (tc_tensor_type){.dtype = b->dtype, .rank = v->rank, .sizes = v->sizes, .strides = strides, .offset = linear};
  return TC_OK;
}

int32_t plan_scratch(plan_builder *w, tc_sv name, const tc_plan_buf *like) {
  tc_plan *p = w->p;
  tc_plan_buf b = *like;
  b.kind = TC_PLAN_ARENA, b.id = p->bufs.count, b.name = unique_name(w, name), b.input = -1, b.origin = NULL;
  b.place = b.offset = tc_sym_int(p->syms, 0);
  b.first = b.last = p->ops.count;
  tc_vec_push(p->arena, &p->bufs, b);
  return b.id;
}

tc_status plan_call_args(plan_builder *w, const tc_lnode *n, tc_plan_op *op) {
  op->n_operands = n->n_operands;
  op->n_args = n->n_operands + n->n_outs;
  tc_plan_arg *args = TC_NEW_ARRAY(w->p->arena, tc_plan_arg, op->n_args);
  tc_tensor_type *views = TC_NEW_ARRAY(w->p->arena, tc_tensor_type, op->n_args);
  for (int32_t i = 0; i < n->n_operands; i++) {
    args[i] = plan_touch(w, n->operands[i].buf, false);
    TC_TRY(plan_affine(w, &n->operands[i], &views[i]), "while planning the call of " TC_SV_FMT,
           TC_SV_ARG(n->node->op->full_name));
  }
  for (int32_t i = 0; i < n->n_outs; i++) {
    const tc_buf *b = n->outs[i];
    args[n->n_operands + i] = plan_touch(w, b, true);
    views[n->n_operands + i] = (tc_tensor_type){.dtype = b->dtype,
                                                .rank = b->rank,
                                                .sizes = b->sizes,
                                                .strides = b->strides,
                                                .offset = tc_sym_int(w->p->syms, 0)};
  }
  op->args = args;
  op->views = views;
  return TC_OK;
}

static tc_status add_call(plan_builder *w, tc_group *g) {
  const tc_lnode *n = g->call;
  tc_plan_op op = {.kind = TC_PLAN_CALL, .name = g->name, .call = n, .source = n->source};
  TC_TRY(plan_call_args(w, n, &op));
  op.blocks = op.grain = tc_sym_int(w->p->syms, 1);
  op.bytes = tc_group_bytes(w->s, g);
  op.flops = tc_plan_node_flops(w->p->arena, w->p->syms, n->node);
  tc_vec_push(w->p->arena, &w->p->ops, op);
  return TC_OK;
}

static tc_status add_launch(plan_builder *w, tc_group *g, const tc_emit_options *o) {
  tc_plan *p = w->p;
  tc_emitted *k = TC_NEW(p->arena, tc_emitted);
  TC_TRY(tc_emit_group(w->s, g, o, k));
  tc_plan_op op = {.kind = TC_PLAN_LAUNCH,
                   .once = g->once,
                   .name = g->name,
                   .blocks = k->blocks,
                   .grain = k->grain,
                   .n_args = k->params.count,
                   .kernel = p->kernels.count};
  for (int32_t i = 0; i < g->steps.count && !op.source.size; i++) op.source = g->steps.data[i].node->source;
  tc_plan_arg *args = TC_NEW_ARRAY(p->arena, tc_plan_arg, op.n_args);
  for (int32_t i = 0; i < op.n_args; i++) {
    const tc_emit_param *q = &k->params.data[i];
    args[i] =
        q->buf ? plan_touch(w, q->buf, q->writes) : (tc_plan_arg){.buf = -1, .scalar = q->scalar, .dtype = q->dtype};
  }
  op.args = args;
  op.bytes = tc_group_bytes(w->s, g);
  op.flops = tc_group_flops(w->s, g);
  for (int32_t i = 0; i < g->steps.count; i++)
    op.flops = tc_sym_add(p->syms, op.flops, plan_template_flops(p, g->steps.data[i].node));
  tc_vec_push(p->arena, &p->kernels, k);
  tc_vec_push(p->arena, &p->kernel_names, g->name);
  if (o->variants) TC_TRY(plan_add_variants(w, g, o, &op), "while making variants of " TC_SV_FMT, TC_SV_ARG(g->name));
  tc_vec_push(p->arena, &p->ops, op);
  return TC_OK;
}

// All that the group would write is empty.
static bool writes_nothing(const tc_group *g) {
  for (int32_t i = 0; i < g->writes.count; i++) {
    const tc_buf *b = g->writes.data[i];
    bool empty = false;
    for (int32_t d = 0; d < b->rank; d++) empty |= tc_sym_is_int(b->sizes[d], 0);
    if (!empty) return false;
  }
  return g->writes.count > 0;
}

static tc_status add_group(plan_builder *w, tc_group *g, const tc_emit_options *o) {
  if (!g->call) return add_launch(w, g, o);
  if (plan_is_user(g->call)) return plan_add_user(w, g, o);
  return tc_op_control(g->call->node->op) == TC_CONTROL_NONE ? add_call(w, g) : plan_add_control(w, g);
}

// What is made once and read later is kept.
static void keep(const tc_plan *p, tc_plan_buf *b) {
  if (p->fixed_from) b->last = p->ops.count - 1;
  else b->kind = TC_PLAN_FROZEN;
}

void plan_keep_once(tc_plan *p) {
  bool *once = TC_NEW_ARRAY(p->arena, bool, p->bufs.count);
  for (int32_t i = 0; i < p->ops.count; i++) {
    const tc_plan_op *op = &p->ops.data[i];
    for (int32_t k = 0; k < op->n_args; k++) {
      int32_t buf = op->args[k].buf;
      if (buf < 0) continue;
      if (op->once) once[buf] |= op->args[k].writes;
      else if (once[buf]) keep(p, &p->bufs.data[buf]);
    }
  }
}

// Weights as they are, or what was made of them once.
static bool is_constant(const plan_builder *w, const tc_plan_buf *b) {
  return b->kind == TC_PLAN_FROZEN || (b->kind == TC_PLAN_INPUT && tc_sched_constant_input(w->s->loops, b->origin));
}

static void find_constant_operands(const plan_builder *w) {
  enum { BITS = 62 };
  for (int32_t i = 0; i < w->p->ops.count; i++) {
    tc_plan_op *op = &w->p->ops.data[i];
    for (int32_t k = 0; op->kind == TC_PLAN_CALL && k < op->n_operands && k < BITS; k++)
      if (is_constant(w, &w->p->bufs.data[op->args[k].buf])) op->constant |= UINT64_C(1) << k;
  }
}

tc_status tc_plan_build(tc_schedule *s, const tc_emit_options *o, tc_plan **out) {
  return tc_plan_build_with(s, o, NULL, out);
}

tc_status tc_plan_build_with(tc_schedule *s, const tc_emit_options *o, const tc_plan_regions *regions, tc_plan **out) {
  tc_loops *l = s->loops;
  tc_plan *p = TC_NEW(l->arena, tc_plan);
  *p = (tc_plan){.module = l->module, .syms = l->syms, .arena = l->arena, .name = l->name, .graph = l->graph};
  p->fixed_from = l->fixed_from;
  plan_builder w = {
      .p = p, .s = s, .regions = regions, .bufs = tc_map_create(l->arena), .names = tc_map_create(l->arena)};
  if (o->over) plan_find_over(s);
  for (int32_t i = 0; i < s->groups.count; i++) {
    tc_group *g = s->groups.data[i];
    if (writes_nothing(g)) continue;
    TC_TRY(add_group(&w, g, o));
  }
  for (int32_t i = 0; i < l->outputs.count; i++) {
    const tc_loop_output *q = &l->outputs.data[i];
    tc_plan_output r = {.kind = q->kind,
                        .buf = q->buf ? buf_number(&w, q->buf) : -1,
                        .type = q->type,
                        .number = q->number,
                        .target = q->target};
    tc_vec_push(p->arena, &p->outputs, r);
  }
  plan_keep_once(p);
  if (o->freeze && !p->fixed_from) find_constant_operands(&w);
  tc_plan_memory(p);
  *out = p;
  return TC_OK;
}
