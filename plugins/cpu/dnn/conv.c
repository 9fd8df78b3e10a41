// convolution and conv1d/2d/3d as oneDNN's (de)convolution.
//
// Data keep their layout where they are channels-last, or where oneDNN has good code for them; else they go through
// layouts that oneDNN chooses. Weights always do: they are small beside the work.
#include <string.h>

#include "dnn.h"

typedef struct problem {
  dnn_tensor in, weights, out;
  int32_t bias; // operand, or -1
  int32_t spatial;
  bool transposed;
  int64_t groups;
  dnn_conv_dims dims;
} problem;

static int64_t list_at(const dnn_call *c, int32_t arg, int32_t i, int64_t otherwise) {
  int32_t n = tc_op_count(c->node->args, arg);
  if (n <= 0) return otherwise;
  return tc_op_int_at(c->node->args, arg, n == 1 ? 0 : i, INT64_MIN);
}

// 1 with channels last, 0 in planes, -1 if it is both, since channels or places are one.
static int32_t channels_last(const dnn_tensor *t) {
  for (int32_t i = t->rank - 1; i >= 2; i--)
    if (t->sizes[i] > 1 && t->sizes[1] > 1) return t->strides[1] < t->strides[i];
  return -1;
}

// Strides with channels last or in planes, of all dimensions or of those of one element. Those are free, and oneDNN
// knows the layout by them.
static void set_strides(dnn_tensor *t, bool last, bool all) {
  int64_t dense = 1;
  for (int32_t k = 0; k < t->rank; k++) { // from the innermost dimension
    int32_t i = !last ? t->rank - 1 - k : k == 0 ? 1 : k == t->rank - 1 ? 0 : t->rank - k;
    if (all || t->sizes[i] == 1) t->strides[i] = dense;
    if (t->strides[i] > 0) dense = t->sizes[i] * t->strides[i];
  }
}

static int32_t describe(dnn_call *c, problem *p) {
  const tc_op_args *args = c->node->args;
  *p = (problem){.bias = tc_op_kind(args, 2) == TC_AK_TENSOR ? 2 : -1};
  bool general = tc_op_arg_index(args, "transposed") >= 0;
  p->transposed = general && tc_op_bool(args, tc_op_arg_index(args, "transposed"), 0);
  p->groups = tc_op_int(args, tc_op_arg_index(args, "groups"), 1);
  if (dnn_view(c, 0, &p->in) != TC_STATUS_OK || dnn_view(c, 1, &p->weights) != TC_STATUS_OK ||
      dnn_view(c, -1, &p->out) != TC_STATUS_OK)
    return c->status;
  p->spatial = p->weights.rank - 2;
  if (p->in.rank != p->weights.rank || p->spatial < 1 || p->spatial > 3)
    return dnn_refuse(c, "a convolution without batch, or of other than 1 to 3 dimensions");
  int32_t in_last = channels_last(&p->in), out_last = channels_last(&p->out);
  set_strides(&p->in, (in_last >= 0 ? in_last : out_last) == 1, false);
  set_strides(&p->out, (out_last >= 0 ? out_last : in_last) == 1, false);
  if (p->groups < 1) return dnn_refuse(c, "groups that are not known");
  int32_t padding = tc_op_arg_index(args, "padding"), stride = tc_op_arg_index(args, "stride"),
          dilation = tc_op_arg_index(args, "dilation");
  if (tc_op_kind(args, padding) == TC_AK_STRING) return dnn_refuse(c, "padding by name");
  for (int32_t i = 0; i < p->spatial; i++) {
    int64_t s = list_at(c, stride, i, 1), pad = list_at(c, padding, i, 0), d = list_at(c, dilation, i, 1);
    if (s < 1 || pad < 0 || d < 1) return dnn_refuse(c, "strides, padding or dilation that are not known");
    int64_t in = p->in.sizes[2 + i], out = p->out.sizes[2 + i], k = (p->weights.sizes[2 + i] - 1) * d + 1;
    p->dims.strides[i] = s, p->dims.dilates[i] = d - 1, p->dims.pad_left[i] = pad;
    p->dims.pad_right[i] = p->transposed ? (in - 1) * s + k - out - pad : (out - 1) * s + k - in - pad;
  }
  return TC_STATUS_OK;
}

// [O, I/g, …] → [g, O/g, I/g, …]; transposed [I, O/g, …] → [g, O/g, I/g, …]
static int32_t group_weights(dnn_call *c, problem *p) {
  dnn_tensor *w = &p->weights, old = *w;
  int64_t g = p->groups;
  if (p->transposed)
    w->sizes[0] = old.sizes[1], w->sizes[1] = old.sizes[0], w->strides[0] = old.strides[1],
    w->strides[1] = old.strides[0];
  if (g == 1) return TC_STATUS_OK;
  if (w->rank + 1 > DNN_MAX_DIMS) return dnn_refuse(c, "too many dimensions");
  int32_t own = p->transposed ? 1 : 0; // the dimension that holds the groups
  if (w->sizes[own] % g) return dnn_refuse(c, "groups that do not divide the channels");
  int64_t per = w->sizes[own] / g, stride = per * w->strides[own];
  w->sizes[own] = per;
  memmove(w->sizes + 1, w->sizes, (size_t)w->rank * sizeof *w->sizes);
  memmove(w->strides + 1, w->strides, (size_t)w->rank * sizeof *w->strides);
  w->sizes[0] = g, w->strides[0] = stride;
  w->rank++;
  return TC_STATUS_OK;
}

static bool expanded(const dnn_tensor *t) {
  for (int32_t i = 0; i < t->rank; i++)
    if (t->sizes[i] > 1 && t->strides[i] == 0) return true;
  return false;
}

static int32_t bias_slot(dnn_call *c, const problem *p) {
  dnn_tensor t;
  if (p->bias < 0 || dnn_view(c, p->bias, &t) != TC_STATUS_OK) return -1;
  if (t.rank != 1 || (t.strides[0] != 1 && t.sizes[0] > 1)) {
    dnn_refuse(c, "a bias that is not one dense row");
    return -1;
  }
  return dnn_slot_of(c, &t);
}

// Whether the primitive is one that works on the given layouts well: not the reference, not through a big matrix of
// patches.
static bool good(const_dnnl_primitive_desc_t pd) {
  const char *name = NULL;
  if (dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name) != dnnl_success || !name) return false;
  return !strstr(name, "ref") && !strstr(name, "gemm");
}

// The input with channels last, as the result has them. An input in planes, of few channels most often, is moved for
// less than the result.
static bool turn(const problem *p, dnnl_memory_desc_t *out) {
  dnn_tensor t = p->in;
  dnnl_data_type_t type;
  if (channels_last(&p->in) != 0 || channels_last(&p->out) != 1 || !dnn_dtype(t.dtype, &type)) return false;
  set_strides(&t, true, true);
  return dnn_md_strides(out, t.rank, t.sizes, type, t.strides) == dnnl_success;
}

static int32_t build(dnn_call *c, problem *p) {
  dnn_plan *plan = c->plan;
  dnn_epilogue epilogue = {0};
  dnnl_primitive_desc_t pd = NULL, other = NULL;
  dnnl_memory_desc_t any_in, any_weights, any_out, turned_in;
  bool any = false, turned = false;
  int32_t in = dnn_slot_of(c, &p->in), weights = dnn_slot_of(c, &p->weights), bias = bias_slot(c, p),
          out = dnn_slot_of(c, &p->out);
  if (c->status != TC_STATUS_OK || dnn_epilogue_make(c, &p->out, 1, -1, &epilogue) != TC_STATUS_OK) goto done;
  if (dnn_any(c, &p->in, &any_in) != TC_STATUS_OK || dnn_any(c, &p->weights, &any_weights) != TC_STATUS_OK ||
      dnn_any(c, &p->out, &any_out) != TC_STATUS_OK)
    goto done;
  any = true;
  turned = turn(p, &turned_in);
  bool moves = true; // an epilogue's operand keeps the result's layout, so that may not move
  for (int32_t i = 0; i < epilogue.n; i++) moves = moves && epilogue.slots[i] < 0;
  dnn_desc b = bias < 0 ? NULL : DNN_DESC(plan->slots[bias].md), own_out = DNN_DESC(plan->slots[out].md);
  const struct {
    dnn_desc in, out;
  } layouts[] = {{DNN_DESC(plan->slots[in].md), own_out},
                 {turned ? DNN_DESC(turned_in) : NULL, own_out},
                 {DNN_DESC(any_in), moves ? DNN_DESC(any_out) : own_out}};
  dnnl_status_t s = dnnl_unimplemented;
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts && !(pd && good(pd)); i++) {
    if (!layouts[i].in) continue;
    s = dnn_conv_desc(&other, plan->engine, p->transposed, layouts[i].in, DNN_DESC(any_weights), b, layouts[i].out,
                      &p->dims, epilogue.attr);
    if (s != dnnl_success) continue;
    dnnl_primitive_desc_t worse = !pd || good(other) ? pd : other;
    if (worse != other) pd = other;
    if (worse) dnnl_primitive_desc_destroy(worse);
    other = NULL;
  }
  if (!pd) {
    dnn_check(c, s, "this convolution");
    goto done;
  }
  if (dnn_is_reference(pd)) {
    dnn_refuse(c, "oneDNN has only its reference code for this convolution");
    goto done;
  }
  c->tiles = dnn_has_tiles(pd);
  int32_t final = out;
  in = dnn_slot_in_layout(c, in, dnnl_primitive_desc_query_md(pd, dnnl_query_src_md, 0));
  c->keeping = dnn_is_constant(c, &p->weights);
  weights = dnn_slot_in_layout(c, weights, dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0));
  c->keeping = false;
  dnn_desc dst = dnnl_primitive_desc_query_md(pd, dnnl_query_dst_md, 0);
  if (!dnnl_memory_desc_equal(DNN_DESC(plan->slots[out].md), dst)) out = dnn_slot_like(c, dst);
  if (c->status != TC_STATUS_OK) goto done;
  int32_t args[DNN_MAX_ARGS] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}, slots[DNN_MAX_ARGS] = {in, weights, out},
          n = 3;
  if (bias >= 0) args[n] = DNNL_ARG_BIAS, slots[n++] = bias;
  for (int32_t i = 0; i < epilogue.n; i++)
    if (epilogue.slots[i] >= 0)
      args[n] = DNNL_ARG_ATTR_MULTIPLE_POST_OP(i) | DNNL_ARG_SRC_1, slots[n++] = epilogue.slots[i];
  dnn_add_step(c, pd, n, args, slots);
  if (out != final && c->status == TC_STATUS_OK) dnn_add_reorder(c, out, final);
done:
  if (pd) dnnl_primitive_desc_destroy(pd);
  if (other) dnnl_primitive_desc_destroy(other);
  if (turned) dnn_md_free(&turned_in);
  if (any) dnn_md_free(&any_in), dnn_md_free(&any_weights), dnn_md_free(&any_out);
  dnn_epilogue_free(&epilogue);
  return c->status;
}

int32_t dnn_plan_convolution(dnn_call *c) {
  problem p;
  if (describe(c, &p) != TC_STATUS_OK || group_weights(c, &p) != TC_STATUS_OK) return c->status;
  if (expanded(&p.in) || expanded(&p.weights)) return dnn_refuse(c, "expanded operands");
  if (!c->unknown && dnn_count(&p.out) == 0) {
    c->plan->empty = true;
    return TC_STATUS_OK;
  }
  if (!c->unknown && (dnn_count(&p.in) == 0 || dnn_count(&p.weights) == 0))
    return dnn_refuse(c, "a convolution over nothing");
  int64_t taps = 1;
  for (int32_t i = 2; i < p.in.rank; i++) taps *= p.weights.sizes[p.weights.rank - p.spatial + i - 2];
  double per_output = (double)taps * (double)p.in.sizes[1] / (double)p.groups;
  c->flops = 2 * per_output *
             (double)(p.transposed ? dnn_count(&p.in) / (p.in.sizes[1] ? p.in.sizes[1] : 1) * p.out.sizes[1]
                                   : dnn_count(&p.out));
  c->bytes = (double)(dnn_count(&p.in) + dnn_count(&p.weights) + dnn_count(&p.out)) * (p.in.dtype == TC_F32 ? 4 : 2);
  return build(c, &p);
}
