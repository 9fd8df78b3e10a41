// From an op's operands to a convolution of cuDNN.
//
// All three tensors lie without gaps, with their channels first or with their channels last. One dimension of space is
// the second of two. A convolution whose operands lie so once their first two dimensions change places is the gradient
// of another one by its filter: batch and channels change places there, and so do strides and dilations
// (core/ops/conv_backward.c).
#include "convolution.h"

#include <stdbool.h>
#include <string.h>

// The manifest's `calls` has these names, too: the program asks about no other op.
static const char *const names[] = {"aten::convolution",
                                    "aten::conv1d",
                                    "aten::conv2d",
                                    "aten::conv3d",
                                    "aten::conv1d.padding",
                                    "aten::conv2d.padding",
                                    "aten::conv3d.padding",
                                    "aten::conv_transpose1d",
                                    "aten::conv_transpose2d.input",
                                    "aten::conv_transpose3d.input"};
enum { FIRST_TRANSPOSED = 7 };

typedef struct request {
  const tc_call_node *n;
  int32_t space, batched; // dimensions of space; 1: the input has a batch
  bool transposed;
} request;

static int32_t refuse(const char **why, const char *text) {
  *why = text;
  return TC_STATUS_UNIMPLEMENTED;
}

// Its number, or the count of all if it is none of them.
static size_t number_of(tc_sv op) {
  size_t i = 0;
  while (i < sizeof names / sizeof *names && (strlen(names[i]) != op.size || memcmp(names[i], op.data, op.size) != 0))
    i++;
  return i;
}

static int64_t number_at(const tc_op_args *a, const char *name, int32_t i, int64_t otherwise) {
  int32_t arg = tc_op_arg_index(a, name), n = arg < 0 ? 0 : tc_op_count(a, arg);
  return n <= 0 ? otherwise : tc_op_int_at(a, arg, n == 1 ? 0 : i, INT64_MIN);
}

// ---- Tensors ----
// A tensor with a batch, its dimensions of space behind those that are added.
typedef struct tensor {
  int64_t sizes[CONVOLUTION_RANK], strides[CONVOLUTION_RANK];
} tensor;

static int32_t read_tensor(const request *q, const tc_view *v, bool batched, tensor *t, const char **why) {
  int32_t rank = q->space < 3 ? 4 : 5, lead = rank - q->space; // the first of the op's own dimensions of space
  if (v->rank != q->space + 1 + batched) return refuse(why, "an operand of another rank");
  for (int32_t d = 0; d < CONVOLUTION_RANK; d++) t->sizes[d] = 1, t->strides[d] = 0;
  for (int32_t d = 0; d < v->rank; d++) {
    int32_t own = d + !batched, to = own < 2 ? own : lead + own - 2;
    if (v->sizes[d] == INT64_MIN || !v->strides || v->strides[d] == INT64_MIN)
      return refuse(why, "sizes or strides that are not known");
    if (v->sizes[d] > INT32_MAX || v->sizes[d] < 0) return refuse(why, "a huge dimension");
    t->sizes[to] = v->sizes[d], t->strides[to] = v->strides[d];
  }
  return TC_STATUS_OK;
}

static int64_t count_of(const tensor *t, int32_t rank) {
  int64_t n = 1;
  for (int32_t d = 0; d < rank; d++) n *= t->sizes[d];
  return n;
}

// Dimension number i in memory, from the innermost one on.
static int32_t dim_of(int32_t i, int32_t rank, bool channels_last) {
  if (!channels_last) return rank - 1 - i;
  return i == 0 ? 1 : i == rank - 1 ? 0 : rank - i;
}

static bool is_packed(const tensor *t, int32_t rank, bool channels_last) {
  int64_t stride = 1;
  for (int32_t i = 0; i < rank; i++) {
    int32_t d = dim_of(i, rank, channels_last);
    if (t->sizes[d] == 1) continue;
    if (t->strides[d] != stride) return false;
    stride *= t->sizes[d];
  }
  return true;
}

static void exchange(tensor *t) {
  int64_t size = t->sizes[0], stride = t->strides[0];
  t->sizes[0] = t->sizes[1], t->strides[0] = t->strides[1];
  t->sizes[1] = size, t->strides[1] = stride;
}

void convolution_strides(const convolution *c, const convolution_tensor *t, int32_t *out) {
  int32_t stride = 1;
  for (int32_t i = 0; i < c->rank; i++) {
    int32_t d = dim_of(i, c->rank, c->channels_last);
    out[d] = stride;
    stride *= t->sizes[d];
  }
}

// ---- Arguments ----
static int32_t read_space(const request *q, const tensor *w, convolution *c, const char **why) {
  const tc_op_args *a = q->n->args;
  int32_t words = tc_op_arg_index(a, "padding"), added = c->rank - 2 - q->space;
  bool same = false;
  if (tc_op_kind(a, words) == TC_AK_STRING) {
    tc_sv word = tc_op_string(a, words);
    same = word.size == 4 && memcmp(word.data, "same", 4) == 0;
  }
  for (int32_t i = 0; i < c->rank - 2; i++) c->strides[i] = c->dilations[i] = 1;
  for (int32_t i = 0; i < q->space; i++) {
    int64_t stride = number_at(a, "stride", i, 1), dilation = number_at(a, "dilation", i, 1), padding = 0;
    int64_t reach = dilation * (w->sizes[2 + added + i] - 1);
    if (tc_op_kind(a, words) != TC_AK_STRING) padding = number_at(a, "padding", i, 0);
    else if (same && reach % 2) return refuse(why, "padding that is not the same on both sides");
    else if (same) padding = reach / 2;
    if (stride < 1 || dilation < 1 || padding < 0 || stride > INT16_MAX || dilation > INT16_MAX || padding > INT16_MAX)
      return refuse(why, "strides, padding or dilation that are not known");
    c->strides[added + i] = (int32_t)stride, c->dilations[added + i] = (int32_t)dilation;
    c->padding[added + i] = (int32_t)padding;
  }
  return TC_STATUS_OK;
}

static void take(const tensor *t, int32_t operand, convolution_tensor *out) {
  for (int32_t d = 0; d < CONVOLUTION_RANK; d++) out->sizes[d] = (int32_t)t->sizes[d];
  out->operand = operand;
}

// Does what x and w make have y's size?
static bool agrees(const convolution *c) {
  if (c->x.sizes[0] != c->y.sizes[0] || c->w.sizes[0] != c->y.sizes[1]) return false;
  if (c->w.sizes[1] * (int64_t)c->groups != c->x.sizes[1] || c->w.sizes[0] % c->groups) return false;
  for (int32_t i = 0; i < c->rank - 2; i++) {
    int64_t reach = (int64_t)c->dilations[i] * (c->w.sizes[2 + i] - 1) + 1;
    int64_t room = c->x.sizes[2 + i] + 2 * (int64_t)c->padding[i] - reach;
    if (room < 0 || room / c->strides[i] + 1 != c->y.sizes[2 + i]) return false;
  }
  return true;
}

static int32_t read_bias(const tc_call_node *n, int32_t channels, convolution *c, const char **why) {
  c->bias = tc_op_kind(n->args, 2) == TC_AK_TENSOR ? 2 : -1;
  if (c->bias < 0) return n->n_operands == 2 ? TC_STATUS_OK : refuse(why, "another number of operands");
  const tc_view *v = &n->operands[2];
  if (n->n_operands != 3 || v->rank != 1 || v->sizes[0] != channels || (v->strides[0] != 1 && channels > 1))
    return refuse(why, "a bias that is no dense row");
  return TC_STATUS_OK;
}

static bool are_packed(int32_t rank, bool channels_last, const tensor *a, const tensor *b) {
  return is_packed(a, rank, channels_last) && is_packed(b, rank, channels_last);
}

// A gradient by the filter?
static bool place_filter(const request *q, tensor in, tensor weight, tensor out, convolution *c) {
  if (q->transposed || c->groups != 1 || c->bias >= 0 || !is_packed(&out, c->rank, false)) return false;
  exchange(&in), exchange(&weight), exchange(&out);
  c->channels_last = !are_packed(c->rank, false, &in, &weight);
  if (c->channels_last && !are_packed(c->rank, true, &in, &weight)) return false;
  c->kind = CONVOLUTION_FILTER;
  take(&in, 0, &c->x), take(&weight, 1, &c->y), take(&out, -1, &c->w);
  for (int32_t i = 0; i < c->rank - 2; i++) {
    int32_t stride = c->strides[i];
    c->strides[i] = c->dilations[i], c->dilations[i] = stride;
  }
  return true;
}

static int32_t place(const request *q, const tensor *in, const tensor *weight, const tensor *out, convolution *c,
                     const char **why) {
  bool first = are_packed(c->rank, false, in, weight) && is_packed(out, c->rank, false);
  bool last = are_packed(c->rank, true, in, weight) && is_packed(out, c->rank, true);
  if (!first && !last)
    return place_filter(q, *in, *weight, *out, c)
               ? TC_STATUS_OK
               : refuse(why, "tensors that do not all have their channels first, or last");
  c->kind = q->transposed ? CONVOLUTION_DATA : CONVOLUTION_FORWARD;
  c->channels_last = !first;
  take(in, 0, q->transposed ? &c->y : &c->x), take(weight, 1, &c->w), take(out, -1, q->transposed ? &c->x : &c->y);
  return TC_STATUS_OK;
}

int32_t convolution_of(const tc_call_node *n, convolution *c, const char **why) {
  request q = {.n = n};
  tensor in, weight, out;
  size_t number = number_of(n->op);
  if (number == sizeof names / sizeof *names || n->n_operands < 2 || n->n_results != 1)
    return refuse(why, "no convolution");
  *c = (convolution){.dtype = n->results->dtype, .bias = -1};
  if (c->dtype != TC_F32 && c->dtype != TC_F16 && c->dtype != TC_BF16)
    return refuse(why, "a convolution in other than f32 and 16-bit floats");
  for (int32_t i = 0; i < n->n_operands; i++) {
    if (n->operands[i].dtype != c->dtype) return refuse(why, "operands of different dtypes");
  }
  int32_t transposed = tc_op_arg_index(n->args, "transposed");
  q.transposed = transposed >= 0 ? tc_op_bool(n->args, transposed, 0) != 0 : number >= FIRST_TRANSPOSED;
  q.space = n->operands[1].rank - 2;
  if (q.space < 1 || q.space > CONVOLUTION_SPACE) return refuse(why, "other than one to three dimensions");
  q.batched = n->operands[0].rank == n->operands[1].rank;
  int64_t groups = tc_op_int(n->args, tc_op_arg_index(n->args, "groups"), 0);
  if (groups < 1 || groups > INT32_MAX) return refuse(why, "groups that are not known");
  c->groups = (int32_t)groups, c->rank = q.space < 3 ? 4 : 5;
  int32_t s = read_tensor(&q, &n->operands[0], q.batched, &in, why);
  if (s == TC_STATUS_OK) s = read_tensor(&q, &n->operands[1], true, &weight, why);
  if (s == TC_STATUS_OK) s = read_tensor(&q, n->results, q.batched, &out, why);
  if (s == TC_STATUS_OK) s = read_space(&q, &weight, c, why);
  if (s == TC_STATUS_OK) s = read_bias(n, (int32_t)out.sizes[1], c, why);
  if (s != TC_STATUS_OK) return s;
  int64_t counts[3] = {count_of(&in, c->rank), count_of(&weight, c->rank), count_of(&out, c->rank)};
  for (int32_t i = 0; i < 3; i++) {
    if (counts[i] > INT32_MAX) return refuse(why, "more elements than the library counts");
  }
  c->empty = counts[2] == 0;
  if (!c->empty && (counts[0] == 0 || counts[1] == 0)) return refuse(why, "a convolution over nothing");
  s = place(&q, &in, &weight, &out, c, why);
  if (s != TC_STATUS_OK) return s;
  if (!c->empty && !agrees(c)) return refuse(why, "sizes that do not fit");
  c->bytes = (double)(counts[0] + counts[1] + counts[2]) * (c->dtype == TC_F32 ? 4 : 2);
  int64_t outs = weight.sizes[0];
  c->flops = 2.0 * (double)counts[1] * (double)(q.transposed ? counts[0] : counts[2]) / (double)(outs > 0 ? outs : 1);
  return TC_STATUS_OK;
}
