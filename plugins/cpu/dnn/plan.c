// Building plans: slots, reorders, epilogues as post-operations.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "dnn.h"

int32_t dnn_refuse(dnn_call *c, const char *fmt, ...) {
  if (c->status != TC_STATUS_OK) return c->status;
  va_list args;
  va_start(args, fmt);
  vsnprintf(c->why, sizeof c->why, fmt, args);
  va_end(args);
  return c->status = TC_STATUS_UNIMPLEMENTED;
}

int32_t dnn_check(dnn_call *c, dnnl_status_t s, const char *doing) {
  if (s == dnnl_success) return TC_STATUS_OK;
  dnn_refuse(c, "oneDNN refuses %s (status %d)", doing, (int)s);
  if (s == dnnl_out_of_memory) c->status = TC_STATUS_OUT_OF_MEMORY;
  return c->status;
}

bool dnn_dtype(tc_dtype d, dnnl_data_type_t *out) {
  switch (d) {
  case TC_F32: *out = dnnl_f32; return true;
  case TC_BF16: *out = dnnl_bf16; return true;
  case TC_F16: *out = dnnl_f16; return true;
  default: return false;
  }
}

int32_t dnn_view(dnn_call *c, int32_t operand, dnn_tensor *out) {
  if (operand >= c->node->n_operands) return dnn_refuse(c, "an operand is missing");
  const tc_view *v = operand < 0 ? c->node->results : &c->node->operands[operand];
  dnnl_data_type_t t;
  if (v->rank > DNN_MAX_DIMS) return dnn_refuse(c, "more than %d dimensions", DNN_MAX_DIMS);
  if (!dnn_dtype(v->dtype, &t)) return dnn_refuse(c, "oneDNN has no such dtype (%d)", v->dtype);
  if (v->dtype != c->node->results->dtype) return dnn_refuse(c, "operands of different dtypes");
  *out = (dnn_tensor){.dtype = v->dtype, .rank = v->rank, .operand = operand};
  int64_t dense = 1;
  for (int32_t i = v->rank - 1; i >= 0; i--) {
    int64_t size = v->sizes[i], stride = v->strides ? v->strides[i] : INT64_MIN;
    if (size == INT64_MIN) c->unknown = true, size = 64;
    if (stride == INT64_MIN) stride = dense;
    if (size < 0 || stride < 0) return dnn_refuse(c, "a size or stride is negative");
    out->sizes[i] = size;
    out->strides[i] = size == 1 ? dense : stride; // the stride of one element is free: take the usual one
    dense = out->sizes[i] * (out->strides[i] > 0 ? out->strides[i] : dense);
  }
  return TC_STATUS_OK;
}

int64_t dnn_count(const dnn_tensor *t) {
  int64_t n = 1;
  for (int32_t i = 0; i < t->rank; i++) n *= t->sizes[i];
  return n;
}

// ---- Slots and steps ----

static int32_t new_slot(dnn_call *c) {
  if (c->plan->n_slots == DNN_MAX_SLOTS) {
    dnn_refuse(c, "the call has too many operands");
    return -1;
  }
  return c->plan->n_slots;
}

int32_t dnn_slot_of(dnn_call *c, const dnn_tensor *t) {
  dnnl_data_type_t type;
  int32_t i = new_slot(c);
  if (i < 0 || !dnn_dtype(t->dtype, &type)) return -1;
  dnn_slot *s = &c->plan->slots[i];
  if (dnn_check(c, dnn_md_strides(&s->md, t->rank, t->sizes, type, t->strides), "the strides of an operand") !=
      TC_STATUS_OK)
    return -1;
  *s = (dnn_slot){.md = s->md, .made = true, .where = t->operand < 0 ? DNN_RESULT : DNN_OPERAND, .at = t->operand};
  c->plan->n_slots++;
  return i;
}

static int32_t slot_in(dnn_call *c, int32_t where, dnn_desc md) {
  int32_t i = new_slot(c);
  if (i < 0) return -1;
  dnn_slot *s = &c->plan->slots[i];
  uint64_t *end = where == DNN_KEPT ? &c->plan->kept : &c->plan->workspace;
  if (dnn_check(c, dnn_md_copy(&s->md, md), "a layout") != TC_STATUS_OK) return -1;
  s->made = true, s->where = where, s->at = (int64_t)*end;
  *end += (dnnl_memory_desc_get_size(md) + 63) / 64 * 64;
  c->plan->n_slots++;
  return i;
}

int32_t dnn_slot_like(dnn_call *c, dnn_desc md) { return slot_in(c, c->keeping ? DNN_KEPT : DNN_WORKSPACE, md); }

int32_t dnn_slot_seen_as(dnn_call *c, int32_t slot, const dnn_tensor *t) {
  int32_t i = slot < 0 ? -1 : dnn_slot_of(c, t);
  if (i >= 0) c->plan->slots[i].where = c->plan->slots[slot].where, c->plan->slots[i].at = c->plan->slots[slot].at;
  return i;
}

bool dnn_is_constant(const dnn_call *c, const dnn_tensor *t) {
  return t->operand >= 0 && c->node->constant >> t->operand & 1;
}

dnn_step *dnn_add_step(dnn_call *c, const_dnnl_primitive_desc_t pd, int32_t n, const int32_t *args,
                       const int32_t *slots) {
  dnn_plan *p = c->plan;
  if (c->status != TC_STATUS_OK || c->asking) return NULL;
  if (p->n_steps == DNN_MAX_STEPS || n + 1 > DNN_MAX_ARGS) {
    dnn_refuse(c, "the call has too many steps");
    return NULL;
  }
  dnn_step *s = &p->steps[p->n_steps];
  dnn_desc scratch = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
  *s = (dnn_step){.once = c->keeping};
  for (int32_t i = 0; i < n; i++) s->args[s->n_args] = args[i], s->slots[s->n_args++] = slots[i];
  if (scratch && dnnl_memory_desc_get_size(scratch) > 0) {
    int32_t slot = slot_in(c, DNN_WORKSPACE, scratch);
    if (slot < 0) return NULL;
    s->args[s->n_args] = DNNL_ARG_SCRATCHPAD, s->slots[s->n_args++] = slot;
  }
  if (dnn_check(c, dnnl_primitive_create(&s->primitive, pd), "to generate its code") != TC_STATUS_OK) return NULL;
  p->n_steps++;
  return s;
}

static int32_t user_scratch(dnn_call *c, dnnl_primitive_attr_t *out) {
  if (dnn_check(c, dnnl_primitive_attr_create(out), "attributes") != TC_STATUS_OK) return c->status;
  return dnn_check(c, dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user),
                   "scratch memory of the caller");
}

int32_t dnn_add_reorder(dnn_call *c, int32_t from, int32_t to) {
  if (from < 0 || to < 0) return c->status;
  dnnl_primitive_desc_t pd = NULL;
  dnnl_primitive_attr_t attr = NULL;
  dnn_plan *p = c->plan;
  if (user_scratch(c, &attr) == TC_STATUS_OK &&
      dnn_check(c,
                dnnl_reorder_primitive_desc_create(&pd, DNN_DESC(p->slots[from].md), p->engine,
                                                   DNN_DESC(p->slots[to].md), p->engine, attr),
                "a change of layout") == TC_STATUS_OK)
    dnn_add_step(c, pd, 2, (int32_t[]){DNNL_ARG_FROM, DNNL_ARG_TO}, (int32_t[]){from, to});
  if (pd) dnnl_primitive_desc_destroy(pd);
  if (attr) dnnl_primitive_attr_destroy(attr);
  return c->status;
}

int32_t dnn_slot_in_layout(dnn_call *c, int32_t from, dnn_desc md) {
  if (from < 0 || dnnl_memory_desc_equal(DNN_DESC(c->plan->slots[from].md), md)) return from;
  int32_t to = dnn_slot_like(c, md);
  return to >= 0 && dnn_add_reorder(c, from, to) == TC_STATUS_OK ? to : -1;
}

// Columns of a block where md is a layout that pack.c makes; 0: it is another one.
static int64_t packed_width(const dnn_tensor *t, dnn_desc md) {
  static const struct {
    dnnl_format_tag_t tag;
    int64_t width;
  } layouts[] = {{dnnl_BA16a64b2a, 64}, {dnnl_BA16a48b2a, 48}, {dnnl_BA16a32b2a, 32}, {dnnl_BA16a16b2a, 16}};
  int64_t width = 0;
  if (t->dtype != TC_BF16 || t->rank != 2 || (t->strides[0] != 1 && t->sizes[0] != 1)) return 0;
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts && !width; i++) {
    dnnl_memory_desc_t own;
    if (dnn_md_tag(&own, t->rank, t->sizes, dnnl_bf16, layouts[i].tag) != dnnl_success) continue;
    if (dnnl_memory_desc_equal(DNN_DESC(own), md)) width = layouts[i].width;
    dnn_md_free(&own);
  }
  return width;
}

int32_t dnn_slot_packed(dnn_call *c, int32_t from, const dnn_tensor *t, dnn_desc md) {
  int64_t width = c->tiles && from >= 0 ? packed_width(t, md) : 0;
  if (!width) return dnn_slot_in_layout(c, from, md);
  int32_t to = dnn_slot_like(c, md);
  if (to < 0 || c->asking) return to;
  if (c->plan->n_steps == DNN_MAX_STEPS) {
    dnn_refuse(c, "the call has too many steps");
    return -1;
  }
  c->plan->steps[c->plan->n_steps++] =
      (dnn_step){.pack = {.k = t->sizes[0], .n = t->sizes[1], .row = t->strides[1], .width = width},
                 .once = c->keeping,
                 .slots = {from, to}};
  return to;
}

int32_t dnn_any(dnn_call *c, const dnn_tensor *t, dnnl_memory_desc_t *out) {
  dnnl_data_type_t type;
  if (!dnn_dtype(t->dtype, &type)) return dnn_refuse(c, "no such dtype");
  return dnn_check(c, dnn_md_tag(out, t->rank, t->sizes, type, dnnl_format_tag_any), "a shape");
}

static bool implementation_has(const_dnnl_primitive_desc_t pd, const char *word) {
  const char *name = NULL;
  return dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name) == dnnl_success && name &&
         strstr(name, word) != NULL;
}

bool dnn_is_reference(const_dnnl_primitive_desc_t pd) { return implementation_has(pd, "ref"); }
bool dnn_has_tiles(const_dnnl_primitive_desc_t pd) { return implementation_has(pd, "amx"); }
bool dnn_is_image_product(const_dnnl_primitive_desc_t pd) { return implementation_has(pd, "jit_1x1:avx2"); }

// ---- Ways ----
void dnn_as_image(dnn_tensor *t) {
  int64_t m = t->sizes[0], n = t->sizes[1], row = t->strides[0], column = t->strides[1];
  t->rank = 4;
  t->sizes[0] = t->sizes[3] = 1, t->sizes[1] = n, t->sizes[2] = m;
  t->strides[0] = m * row, t->strides[1] = column, t->strides[2] = t->strides[3] = row;
}

dnn_mark dnn_mark_of(const dnn_call *c) {
  const dnn_plan *p = c->plan;
  return (dnn_mark){p->n_slots, p->n_steps, p->workspace, p->kept};
}

void dnn_go_back(dnn_call *c, dnn_mark m) {
  dnn_plan *p = c->plan;
  if (c->status == TC_STATUS_UNIMPLEMENTED) c->status = TC_STATUS_OK;
  for (; p->n_slots > m.n_slots; p->n_slots--)
    if (p->slots[p->n_slots - 1].made) dnn_md_free(&p->slots[p->n_slots - 1].md);
  for (; p->n_steps > m.n_steps; p->n_steps--)
    if (p->steps[p->n_steps - 1].primitive) dnnl_primitive_destroy(p->steps[p->n_steps - 1].primitive);
  p->workspace = m.workspace, p->kept = m.kept;
}

// ---- Epilogues ----

static const struct {
  int32_t kind;
  dnnl_alg_kind_t alg;
  double alpha;
} eltwise[] = {{TC_EPI_GELU_ERF, dnnl_eltwise_gelu_erf, 0}, {TC_EPI_GELU_TANH, dnnl_eltwise_gelu_tanh, 0},
               {TC_EPI_SIGMOID, dnnl_eltwise_logistic, 0},  {TC_EPI_TANH, dnnl_eltwise_tanh, 0},
               {TC_EPI_SILU, dnnl_eltwise_swish, 1},        {TC_EPI_RELU, dnnl_eltwise_relu, 0}};

// The operand as something that broadcasts against `result`, whose first dimension may be several of the node's made
// one; the operand must have all of those, with strides that nest, or none.
static int32_t broadcast_view(dnn_call *c, const dnn_tensor *result, int32_t operand, dnn_tensor *out) {
  dnn_tensor t, whole;
  if (dnn_view(c, operand, &t) != TC_STATUS_OK || dnn_view(c, -1, &whole) != TC_STATUS_OK) return c->status;
  int32_t merged = whole.rank - result->rank, missing = whole.rank - t.rank;
  if (missing < 0) return dnn_refuse(c, "an epilogue's operand has more dimensions than the result");
  *out = (dnn_tensor){.dtype = t.dtype, .rank = result->rank, .operand = operand};
  int64_t sizes[DNN_MAX_DIMS] = {0}, strides[DNN_MAX_DIMS] = {0}, dense = dnn_count(&t);
  for (int32_t i = 0; i < whole.rank; i++) {
    sizes[i] = i < missing ? 1 : t.sizes[i - missing], strides[i] = i < missing ? dense : t.strides[i - missing];
    if (sizes[i] != 1 && sizes[i] != whole.sizes[i])
      return dnn_refuse(c, "an epilogue's operand does not broadcast to the result");
    if (sizes[i] > 1 && strides[i] == 0) return dnn_refuse(c, "an epilogue's operand is expanded");
  }
  bool all = true, none = true, nested = true;
  int64_t m = 1;
  for (int32_t i = 0; i <= merged; i++) {
    all = all && sizes[i] == whole.sizes[i], none = none && sizes[i] == 1;
    nested = nested && (i == merged || sizes[i] == 1 || strides[i] == strides[i + 1] * sizes[i + 1]);
    m *= sizes[i];
  }
  if (merged > 0 && !none && !(all && nested))
    return dnn_refuse(c, "an epilogue's operand broadcasts in a way that oneDNN has not");
  for (int32_t i = 0; i < result->rank; i++) out->sizes[i] = sizes[merged + i], out->strides[i] = strides[merged + i];
  out->sizes[0] = m;
  return TC_STATUS_OK;
}

static int32_t add_binary(dnn_call *c, dnnl_post_ops_t ops, dnnl_alg_kind_t alg, const dnn_tensor *result,
                          int32_t operand, dnn_epilogue *out) {
  dnn_tensor t;
  if (broadcast_view(c, result, operand, &t) != TC_STATUS_OK) return c->status;
  if (c->images) dnn_as_image(&t);
  int32_t slot = dnn_slot_of(c, &t);
  if (slot < 0) return c->status;
  out->slots[out->n++] = slot;
  return dnn_check(c, dnnl_post_ops_append_binary(ops, alg, DNN_DESC(c->plan->slots[slot].md)),
                   "an operand of the epilogue");
}

// One function with two parameters in one chain: oneDNN 2.6 takes the first parameter for both.
static int32_t add_eltwise(dnn_call *c, dnnl_post_ops_t ops, dnnl_alg_kind_t alg, double alpha, dnn_epilogue *out) {
  for (int32_t i = 0; i < out->n; i++)
    if (out->algs[i] == (int32_t)alg && out->alphas[i] != alpha) return dnn_refuse(c, "two scales in one epilogue");
  out->algs[out->n] = (int32_t)alg, out->alphas[out->n] = alpha;
  out->slots[out->n++] = -1;
  return dnn_check(c, dnn_post_eltwise(ops, alg, alpha, 0), "a function of the epilogue");
}

// oneDNN's ReLU gives 0 for NaN, which PyTorch's does not; who prefers its speed says so.
static bool relu_allowed(const dnn_call *c) {
  static const char key[] = "fused_relu", yes[] = "true";
  tc_sv v = c->host->config ? c->host->config(c->host->self, (tc_sv){key, sizeof key - 1}) : (tc_sv){NULL, 0};
  return v.size == sizeof yes - 1 && memcmp(v.data, yes, v.size) == 0;
}

static int32_t add_one(dnn_call *c, dnnl_post_ops_t ops, const dnn_tensor *result, const tc_epilogue *e,
                       dnn_epilogue *out) {
  if (out->n == DNN_MAX_POST) return dnn_refuse(c, "the epilogue is too long");
  if (e->kind == TC_EPI_ADD) return add_binary(c, ops, dnnl_binary_add, result, e->operand, out);
  if (e->kind == TC_EPI_MUL) return add_binary(c, ops, dnnl_binary_mul, result, e->operand, out);
  if (e->kind == TC_EPI_RELU && !relu_allowed(c))
    return dnn_refuse(c, "its ReLU turns NaN into 0; set cpu.fused_relu = true to allow that");
  if (e->kind == TC_EPI_SCALE) return add_eltwise(c, ops, dnnl_eltwise_linear, e->alpha, out);
  for (size_t i = 0; i < sizeof eltwise / sizeof *eltwise; i++)
    if (eltwise[i].kind == e->kind) return add_eltwise(c, ops, eltwise[i].alg, eltwise[i].alpha, out);
  return dnn_refuse(c, "an epilogue of kind %d", e->kind);
}

int32_t dnn_epilogue_make(dnn_call *c, const dnn_tensor *result, double scale, int32_t add_operand, dnn_epilogue *out) {
  *out = (dnn_epilogue){0};
  dnnl_post_ops_t ops;
  if (user_scratch(c, &out->attr) != TC_STATUS_OK) return c->status;
  if (dnn_check(c, dnnl_post_ops_create(&ops), "post-operations") != TC_STATUS_OK) return c->status;
  if (scale != 1) add_eltwise(c, ops, dnnl_eltwise_linear, scale, out);
  if (add_operand >= 0) add_binary(c, ops, dnnl_binary_add, result, add_operand, out);
  for (int32_t i = 0; i < c->node->n_epilogue && c->status == TC_STATUS_OK; i++)
    add_one(c, ops, result, &c->node->epilogue[i], out);
  if (c->status == TC_STATUS_OK) dnn_check(c, dnnl_primitive_attr_set_post_ops(out->attr, ops), "the epilogue");
  dnnl_post_ops_destroy(ops);
  return c->status;
}

void dnn_epilogue_free(dnn_epilogue *e) {
  if (e->attr) dnnl_primitive_attr_destroy(e->attr);
}
