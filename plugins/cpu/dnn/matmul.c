// mm, bmm, addmm, baddbmm, matmul and linear as oneDNN's matmul, or, by constant matrices where that is faster, as its
// convolution with windows of 1×1.
//
// Everything becomes [batch…, m, k] × [batch…, k, n]. Leading dimensions of an operand that meets a plain matrix are
// made one with m where its strides nest. A matrix whose inner strides suit no kernel is copied into the workspace
// first.
#include <string.h>

#include "dnn.h"

enum { PACK_ROWS = 32, TILE_DEPTH = 32 };
enum { MOST_ELEMENTS = 1 << 28 }; // of an image: oneDNN may count its bytes in 32 bits

typedef struct problem {
  dnn_tensor a, b, out;
  int32_t bias, add; // operands, or -1
  double alpha;
  bool b_transposed; // linear's weight
  bool gathers;      // `a` is a dense copy of `scattered`, whose rows are those of no matrix
  dnn_tensor scattered;
} problem;

static bool is_tensor(const dnn_call *c, int32_t arg) { return tc_op_kind(c->node->args, arg) == TC_AK_TENSOR; }

static bool named(const dnn_call *c, const char *name) {
  tc_sv op = c->node->op;
  return op.size == strlen(name) && memcmp(op.data, name, op.size) == 0;
}

static int32_t describe(dnn_call *c, problem *p) {
  *p = (problem){.bias = -1, .add = -1, .alpha = 1};
  int32_t first = 0;
  if (named(c, "aten::addmm") || named(c, "aten::baddbmm")) {
    double beta = tc_op_float(c->node->args, 3, 1);
    p->alpha = tc_op_float(c->node->args, 4, 1);
    if (beta != 1 && beta != 0) return dnn_refuse(c, "beta is neither 0 nor 1");
    first = 1;
    const tc_view *self = &c->node->operands[0];
    bool row = p->alpha == 1 && beta == 1 && self->rank == 1 &&
               self->sizes[0] == c->node->results->sizes[c->node->results->rank - 1];
    if (row && self->sizes[0] != INT64_MIN) p->bias = 0;
    else if (beta == 1) p->add = 0;
  } else if (named(c, "aten::linear")) {
    p->b_transposed = true;
    if (is_tensor(c, 2)) p->bias = 2;
  }
  if (dnn_view(c, first, &p->a) != TC_STATUS_OK || dnn_view(c, first + 1, &p->b) != TC_STATUS_OK ||
      dnn_view(c, -1, &p->out) != TC_STATUS_OK)
    return c->status;
  if (p->a.rank < 2 || p->b.rank < 2 || p->out.rank < 2) return dnn_refuse(c, "vectors");
  return TC_STATUS_OK;
}

static bool nests(const dnn_tensor *t) {
  for (int32_t i = 0; i + 2 < t->rank; i++)
    if (t->sizes[i] != 1 && t->strides[i] != t->strides[i + 1] * t->sizes[i + 1]) return false;
  return true;
}

static void collapse(dnn_tensor *t) {
  int32_t r = t->rank;
  int64_t m = 1;
  for (int32_t i = 0; i + 1 < r; i++) m *= t->sizes[i];
  t->sizes[0] = m, t->strides[0] = t->strides[r - 2];
  t->sizes[1] = t->sizes[r - 1], t->strides[1] = t->strides[r - 1];
  t->rank = 2;
}

// Leading ones, up to `rank` dimensions; expanded batch dimensions become ones.
static void widen(dnn_tensor *t, int32_t rank) {
  int32_t more = rank - t->rank;
  memmove(t->sizes + more, t->sizes, (size_t)t->rank * sizeof *t->sizes);
  memmove(t->strides + more, t->strides, (size_t)t->rank * sizeof *t->strides);
  for (int32_t i = 0; i < more; i++) t->sizes[i] = 1, t->strides[i] = 1;
  t->rank = rank;
  for (int32_t i = 0; i < rank - 2; i++)
    if (t->strides[i] == 0) t->sizes[i] = 1, t->strides[i] = 1;
}

static void transpose(dnn_tensor *t) {
  int64_t *z = t->sizes + t->rank - 2, *s = t->strides + t->rank - 2, keep = z[0];
  z[0] = z[1], z[1] = keep;
  keep = s[0], s[0] = s[1], s[1] = keep;
}

// One inner stride is 1 and the other at least the row: what matrix kernels take as it is.
static bool suits(const dnn_tensor *t) {
  const int64_t *z = t->sizes + t->rank - 2, *s = t->strides + t->rank - 2;
  return (s[1] == 1 && s[0] >= z[1]) || (s[0] == 1 && s[1] >= z[0]);
}

static void make_dense(dnn_tensor *t) {
  int64_t stride = 1;
  for (int32_t i = t->rank - 1; i >= 0; i--) t->strides[i] = stride, stride *= t->sizes[i];
}

// A copy in the workspace, row-major.
static int32_t dense_copy(dnn_call *c, int32_t from, const dnn_tensor *t) {
  dnn_tensor dense = *t;
  dnnl_memory_desc_t md;
  dnnl_data_type_t type;
  make_dense(&dense);
  if (!dnn_dtype(t->dtype, &type) ||
      dnn_check(c, dnn_md_strides(&md, t->rank, dense.sizes, type, dense.strides), "a layout") != TC_STATUS_OK)
    return -1;
  int32_t slot = dnn_slot_in_layout(c, from, DNN_DESC(md));
  dnn_md_free(&md);
  return slot;
}

static bool expanded(const dnn_tensor *t) {
  for (int32_t i = 0; i < t->rank; i++)
    if (t->strides[i] == 0 && t->sizes[i] > 1) return true;
  return false;
}

// The slot of a factor, copied to row-major workspace if its strides do not suit.
static int32_t factor(dnn_call *c, const dnn_tensor *t) {
  if (expanded(t)) {
    dnn_refuse(c, "a factor is expanded along its matrix");
    return -1;
  }
  int32_t own = dnn_slot_of(c, t);
  // What is constant is brought into another layout anyway.
  return own < 0 || suits(t) || dnn_is_constant(c, t) ? own : dense_copy(c, own, t);
}

static int32_t left(dnn_call *c, const problem *p) {
  if (!p->gathers) return factor(c, &p->a);
  return dnn_slot_seen_as(c, dense_copy(c, dnn_slot_of(c, &p->scattered), &p->scattered), &p->a);
}

static int32_t bias_slot(dnn_call *c, const problem *p) {
  dnn_tensor t;
  if (p->bias < 0) return -1;
  if (dnn_view(c, p->bias, &t) != TC_STATUS_OK) return -1;
  int64_t n = p->out.sizes[p->out.rank - 1];
  if (t.rank != 1 || t.sizes[0] != n || (t.strides[0] != 1 && n > 1)) {
    dnn_refuse(c, "a bias that is not one dense row");
    return -1;
  }
  for (int32_t i = 0; i < p->out.rank; i++)
    t.sizes[i] = i + 1 == p->out.rank ? n : 1, t.strides[i] = i + 1 == p->out.rank ? 1 : n;
  t.rank = p->out.rank;
  return dnn_slot_of(c, &t);
}

// oneDNN's code for the matrix unit may multiply tiles of sizes that do not fit, an illegal instruction, where the sum
// is one short of a tile's depth (oneDNN's bug report 1661, for 63 terms).
static bool tiles_fit(const problem *p) { return p->a.sizes[p->a.rank - 1] % TILE_DEPTH != TILE_DEPTH - 1; }

static void add_step(dnn_call *c, const_dnnl_primitive_desc_t pd, int32_t a, int32_t b, int32_t bias, int32_t out,
                     const dnn_epilogue *epilogue) {
  int32_t args[DNN_MAX_ARGS] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}, slots[DNN_MAX_ARGS] = {a, b, out}, n = 3;
  if (bias >= 0) args[n] = DNNL_ARG_BIAS, slots[n++] = bias;
  for (int32_t i = 0; i < epilogue->n; i++)
    if (epilogue->slots[i] >= 0)
      args[n] = DNNL_ARG_ATTR_MULTIPLE_POST_OP(i) | DNNL_ARG_SRC_1, slots[n++] = epilogue->slots[i];
  dnn_add_step(c, pd, n, args, slots);
}

static bool is_dense(const dnn_tensor *t) {
  return t->strides[1] == 1 && (t->strides[0] == t->sizes[1] || t->sizes[0] == 1);
}

// A product by a constant matrix as a convolution with windows of 1×1 over an image of one column. oneDNN's code for
// these on AVX2 has weights in blocks, which are kept, where that for products packs both factors in every run and
// takes 1.1 to 2.5 times as long, most for few rows. Refused where there is no such code.
static int32_t build_image(dnn_call *c, const problem *p) {
  dnn_plan *plan = c->plan;
  dnn_epilogue epilogue = {0};
  dnnl_primitive_desc_t pd = NULL;
  dnnl_memory_desc_t any;
  dnn_tensor image = p->a, w = p->b, result = p->out, row;
  if (p->a.rank != 2 || !(p->gathers || is_dense(&p->a)) || !is_dense(&p->out) || expanded(&p->b))
    return dnn_refuse(c, "no image");
  if (dnn_count(&p->a) > MOST_ELEMENTS || dnn_count(&p->out) > MOST_ELEMENTS)
    return dnn_refuse(c, "an image that is too large");
  int64_t n = w.sizes[1], k = w.sizes[0], from_n = w.strides[1], from_k = w.strides[0];
  w.rank = 4, w.sizes[0] = n, w.sizes[1] = k, w.sizes[2] = w.sizes[3] = 1;
  w.strides[0] = from_n, w.strides[1] = from_k, w.strides[2] = w.strides[3] = 1;
  image.strides[0] = k, result.strides[0] = n;
  dnn_as_image(&image), dnn_as_image(&result);
  int32_t a = dnn_slot_seen_as(c, left(c, p), &image), b = dnn_slot_of(c, &w), bias = -1, out = dnn_slot_of(c, &result);
  if (p->bias >= 0 && dnn_view(c, p->bias, &row) == TC_STATUS_OK) {
    if (row.rank != 1 || row.sizes[0] != n || (row.strides[0] != 1 && n > 1)) return dnn_refuse(c, "no such bias");
    bias = dnn_slot_of(c, &row);
  }
  if (c->status != TC_STATUS_OK || dnn_any(c, &w, &any) != TC_STATUS_OK) return c->status;
  c->images = true;
  if (dnn_epilogue_make(c, &p->out, p->alpha, p->add, &epilogue) == TC_STATUS_OK) {
    dnn_conv_dims dims = {.strides = {1, 1}};
    dnnl_status_t s = dnn_conv_desc(&pd, plan->engine, false, DNN_DESC(plan->slots[a].md), DNN_DESC(any),
                                    bias < 0 ? NULL : DNN_DESC(plan->slots[bias].md), DNN_DESC(plan->slots[out].md),
                                    &dims, epilogue.attr);
    if (s != dnnl_success || !dnn_is_image_product(pd)) dnn_refuse(c, "no such convolution");
  }
  c->images = false;
  dnn_md_free(&any);
  if (c->status == TC_STATUS_OK) {
    c->keeping = true;
    b = dnn_slot_in_layout(c, b, dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0));
    c->keeping = false;
    add_step(c, pd, a, b, bias, out, &epilogue);
  }
  if (pd) dnnl_primitive_desc_destroy(pd);
  dnn_epilogue_free(&epilogue);
  return c->status;
}

static int32_t build(dnn_call *c, const problem *p) {
  dnn_plan *plan = c->plan;
  dnn_epilogue epilogue = {0};
  dnnl_primitive_desc_t pd = NULL;
  int32_t a = left(c, p), b = factor(c, &p->b), bias = bias_slot(c, p), out = dnn_slot_of(c, &p->out);
  if (c->status != TC_STATUS_OK || dnn_epilogue_make(c, &p->out, p->alpha, p->add, &epilogue) != TC_STATUS_OK)
    goto done;
  // 16-bit kernels want their right factor in pairs of rows; bringing it there first is cheaper than as they go.
  dnnl_memory_desc_t own;
  bool constant = dnn_is_constant(c, &p->b);
  bool packed = constant || (p->b.dtype != TC_F32 && p->out.sizes[p->out.rank - 2] >= PACK_ROWS);
  if (packed && dnn_any(c, &p->b, &own) != TC_STATUS_OK) goto done;
  dnn_desc right = packed ? DNN_DESC(own) : DNN_DESC(plan->slots[b].md);
  dnnl_status_t s = dnn_matmul_desc(&pd, plan->engine, DNN_DESC(plan->slots[a].md), right,
                                    bias < 0 ? NULL : DNN_DESC(plan->slots[bias].md), DNN_DESC(plan->slots[out].md),
                                    epilogue.attr, tiles_fit(p));
  if (packed) dnn_md_free(&own);
  if (dnn_check(c, s, "this matrix product") != TC_STATUS_OK) goto done;
  c->tiles = dnn_has_tiles(pd);
  c->keeping = constant;
  if (packed) b = dnn_slot_packed(c, b, &p->b, dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0));
  c->keeping = false;
  if (dnn_is_reference(pd)) {
    dnn_refuse(c, "oneDNN has only its reference code for this matrix product");
    goto done;
  }
  add_step(c, pd, a, b, bias, out, &epilogue);
done:
  if (pd) dnnl_primitive_desc_destroy(pd);
  dnn_epilogue_free(&epilogue);
  return c->status;
}

int32_t dnn_plan_matmul(dnn_call *c) {
  problem p;
  if (describe(c, &p) != TC_STATUS_OK) return c->status;
  if (p.b_transposed) transpose(&p.b);
  if (p.b.rank == 2 && p.a.rank > 2 && nests(&p.out) && (nests(&p.a) || !expanded(&p.a))) {
    // One product of a copied factor takes less time than many small ones.
    if (!nests(&p.a)) p.gathers = true, p.scattered = p.a, make_dense(&p.a);
    collapse(&p.a), collapse(&p.out);
  }
  int32_t rank = p.out.rank;
  if (p.a.rank > rank || p.b.rank > rank) return dnn_refuse(c, "factors of more dimensions than the result");
  widen(&p.a, rank), widen(&p.b, rank);
  int64_t m = p.out.sizes[rank - 2], n = p.out.sizes[rank - 1], k = p.a.sizes[rank - 1];
  if (!c->unknown && (p.a.sizes[rank - 2] != m || p.b.sizes[rank - 1] != n || p.b.sizes[rank - 2] != k))
    return dnn_refuse(c, "sizes that do not fit");
  if (!c->unknown && dnn_count(&p.out) == 0) {
    c->plan->empty = true;
    return TC_STATUS_OK;
  }
  if (k == 0) return dnn_refuse(c, "a product over nothing");
  c->flops = 2.0 * (double)dnn_count(&p.out) * (double)k;
  c->bytes = (double)(dnn_count(&p.a) + dnn_count(&p.b) + dnn_count(&p.out)) * (p.a.dtype == TC_F32 ? 4 : 2);
  if (p.b.dtype == TC_F32 && dnn_is_constant(c, &p.b)) {
    dnn_mark mark = dnn_mark_of(c);
    if (build_image(c, &p) != TC_STATUS_UNIMPLEMENTED) return c->status;
    dnn_go_back(c, mark);
  }
  return build(c, &p);
}
