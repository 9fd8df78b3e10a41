// Descriptors of cuDNN's graphs. They live as long as the graph; a run makes one more for its addresses.
#include "dnn_graph.h"

#include <stdio.h>
#include <string.h>

#include "library.h"

// cudnnBackendDescriptorType_t
enum {
  KIND_POINTWISE = 0,
  KIND_CONFIG = 3,
  KIND_HEURISTIC = 4,
  KIND_PLAN = 5,
  KIND_POINTWISE_OP = 13,
  KIND_GRAPH = 15,
  KIND_PACK = 16,
  KIND_TENSOR = 17,
  KIND_PRODUCT = 18,
  KIND_PRODUCT_OP = 19,
  KIND_REDUCTION = 21,
  KIND_REDUCTION_OP = 22
};
// cudnnBackendAttributeType_t
enum {
  TYPE_HANDLE = 0,
  TYPE_DATA_TYPE = 1,
  TYPE_BOOL = 2,
  TYPE_INT64 = 3,
  TYPE_POINTER = 6,
  TYPE_HEURISTIC = 8,
  TYPE_POINTWISE = 14,
  TYPE_ITEM = 15,
  TYPE_REDUCTION = 18
};
// cudnnBackendAttributeName_t
enum {
  POINTWISE_MODE = 0,
  POINTWISE_TYPE = 1,
  POINTWISE_AXIS = 9,
  HEURISTIC_MODE = 200,
  HEURISTIC_GRAPH = 201,
  HEURISTIC_RESULTS = 202,
  PLAN_HANDLE = 400,
  PLAN_CONFIG = 401,
  PLAN_WORKSPACE = 402,
  OP_POINTWISE = 750,
  OP_POINTWISE_X = 751,
  OP_POINTWISE_B = 752,
  OP_POINTWISE_Y = 753,
  OP_POINTWISE_T = 758,
  GRAPH_HANDLE = 800,
  GRAPH_OPS = 801,
  TENSOR_ALIGNMENT = 900,
  TENSOR_TYPE = 901,
  TENSOR_SIZES = 902,
  TENSOR_STRIDES = 903,
  TENSOR_ID = 906,
  TENSOR_BETWEEN = 907,
  TENSOR_BY_VALUE = 908,
  PACK_IDS = 1000,
  PACK_ADDRESSES = 1001,
  PACK_WORKSPACE = 1003,
  PRODUCT_TYPE = 1500,
  OP_PRODUCT_A = 1520,
  OP_PRODUCT_B = 1521,
  OP_PRODUCT_C = 1522,
  OP_PRODUCT = 1523,
  REDUCTION_MODE = 1600,
  REDUCTION_TYPE = 1601,
  OP_REDUCTION_X = 1610,
  OP_REDUCTION_Y = 1611,
  OP_REDUCTION = 1612
};
enum { FIRST_BETWEEN = 100, ALIGNMENT = 16, MOST_CONFIGS = 8, HEURISTICS = 3 };

int32_t dnn_graph_open(tc_device_ *d, dnn_graph *g) {
  static const cuda_symbol symbols[] = {
#define X(field, symbol, params) {symbol, offsetof(dnn_graph, field)},
      DNN_GRAPH_FUNCTIONS(X)
#undef X
  };
  char text[80];
  *g = (dnn_graph){.d = d, .next_id = FIRST_BETWEEN};
  const char *missing = cuda_library_find(d->dnn.library, CUDA_SYMBOLS(symbols), g);
  if (!missing) return TC_STATUS_OK;
  snprintf(text, sizeof text, "this cuDNN lacks %s", missing);
  return cuda_report(d->host, TC_STATUS_UNIMPLEMENTED, text);
}

void dnn_graph_close(dnn_graph *g) {
  while (g->n_made > 0) g->destroy(g->made[--g->n_made]);
}

// ---- Descriptors ----
static dnn_item make(dnn_graph *g, int kind) {
  dnn_item item = NULL;
  if (g->status == 0 && g->n_made == DNN_GRAPH_MOST) g->status = DNN_NOT_SUPPORTED;
  if (g->status == 0) g->status = g->create(kind, &item);
  if (g->status == 0) g->made[g->n_made++] = item;
  return item;
}
static void set(dnn_graph *g, dnn_item item, int name, int type, int64_t count, const void *values) {
  if (g->status == 0) g->status = g->set(item, name, type, count, values);
}
static void set_item(dnn_graph *g, dnn_item item, int name, dnn_item value) {
  if (value) set(g, item, name, TYPE_ITEM, 1, &value);
}
static void finish(dnn_graph *g, dnn_item item) {
  if (g->status == 0) g->status = g->finalize(item);
}

// ---- Tensors ----
static dnn_item begin_tensor(dnn_graph *g, int64_t id, int type, const int64_t *sizes, const int64_t *strides) {
  int64_t alignment = ALIGNMENT;
  dnn_item t = make(g, KIND_TENSOR);
  set(g, t, TENSOR_TYPE, TYPE_DATA_TYPE, 1, &type);
  set(g, t, TENSOR_SIZES, TYPE_INT64, DNN_GRAPH_RANK, sizes);
  set(g, t, TENSOR_STRIDES, TYPE_INT64, DNN_GRAPH_RANK, strides);
  set(g, t, TENSOR_ID, TYPE_INT64, 1, &id);
  set(g, t, TENSOR_ALIGNMENT, TYPE_INT64, 1, &alignment);
  return t;
}

dnn_item dnn_graph_tensor(dnn_graph *g, int64_t id, int type, const int64_t *sizes, const int64_t *strides) {
  dnn_item t = begin_tensor(g, id, type, sizes, strides);
  finish(g, t);
  return t;
}

static dnn_item special(dnn_graph *g, int64_t id, int type, const int64_t *sizes, int what) {
  int64_t strides[DNN_GRAPH_RANK], dense = 1;
  bool yes = true;
  for (int32_t i = DNN_GRAPH_RANK - 1; i >= 0; i--) strides[i] = dense, dense *= sizes[i];
  dnn_item t = begin_tensor(g, id, type, sizes, strides);
  set(g, t, what, TYPE_BOOL, 1, &yes);
  finish(g, t);
  return t;
}
dnn_item dnn_graph_number(dnn_graph *g, int64_t id) {
  return special(g, id, DNN_FLOAT, (const int64_t[DNN_GRAPH_RANK]){1, 1, 1, 1}, TENSOR_BY_VALUE);
}
dnn_item dnn_graph_between(dnn_graph *g, int type, const int64_t *sizes) {
  return special(g, g->next_id++, type, sizes, TENSOR_BETWEEN);
}

// ---- Operations ----
// An operation of a kind, by what describes it and its operands, each under the attribute in `names`.
static void add_op(dnn_graph *g, int kind, int32_t n, const int *names, const dnn_item *items) {
  dnn_item op = make(g, kind);
  for (int32_t i = 0; i < n; i++) set_item(g, op, names[i], items[i]);
  finish(g, op);
  if (g->n_ops == DNN_GRAPH_OPS && g->status == 0) g->status = DNN_NOT_SUPPORTED;
  if (g->status == 0) g->ops[g->n_ops++] = op;
}

void dnn_graph_pointwise(dnn_graph *g, int mode, int type, dnn_item x, dnn_item b, dnn_item t, int64_t axis,
                         dnn_item y) {
  static const int names[] = {OP_POINTWISE, OP_POINTWISE_X, OP_POINTWISE_B, OP_POINTWISE_T, OP_POINTWISE_Y};
  dnn_item what = make(g, KIND_POINTWISE);
  set(g, what, POINTWISE_MODE, TYPE_POINTWISE, 1, &mode);
  set(g, what, POINTWISE_TYPE, TYPE_DATA_TYPE, 1, &type);
  if (mode == DNN_INDEX) set(g, what, POINTWISE_AXIS, TYPE_INT64, 1, &axis);
  finish(g, what);
  add_op(g, KIND_POINTWISE_OP, 5, names, (const dnn_item[]){what, x, b, t, y});
}

void dnn_graph_reduce(dnn_graph *g, int mode, dnn_item x, dnn_item y) {
  static const int names[] = {OP_REDUCTION, OP_REDUCTION_X, OP_REDUCTION_Y};
  int type = DNN_FLOAT;
  dnn_item what = make(g, KIND_REDUCTION);
  set(g, what, REDUCTION_MODE, TYPE_REDUCTION, 1, &mode);
  set(g, what, REDUCTION_TYPE, TYPE_DATA_TYPE, 1, &type);
  finish(g, what);
  add_op(g, KIND_REDUCTION_OP, 3, names, (const dnn_item[]){what, x, y});
}

void dnn_graph_product(dnn_graph *g, dnn_item a, dnn_item b, dnn_item c) {
  static const int names[] = {OP_PRODUCT, OP_PRODUCT_A, OP_PRODUCT_B, OP_PRODUCT_C};
  int type = DNN_FLOAT;
  dnn_item what = make(g, KIND_PRODUCT);
  set(g, what, PRODUCT_TYPE, TYPE_DATA_TYPE, 1, &type);
  finish(g, what);
  add_op(g, KIND_PRODUCT_OP, 4, names, (const dnn_item[]){what, a, b, c});
}

// ---- Plans ----
static int32_t refuse(const dnn_graph *g, const char *what, dnn_status code) {
  char words[300] = "", text[420];
  void (*last)(char *, size_t); // since version 9
  cuda_library_find(g->d->dnn.library, 1, &(cuda_symbol){"cudnnGetLastErrorString", 0}, &last);
  if (last) last(words, sizeof words);
  snprintf(text, sizeof text, "%s failed (status %d)%s%.280s", what, code, words[0] ? ": " : "", words);
  return cuda_report(g->d->host, TC_STATUS_UNIMPLEMENTED, text);
}

// The library's configurations for a graph by one of its heuristics; `room` of them are made.
static int64_t configurations(dnn_graph *g, dnn_item graph, int mode, dnn_item *configs, int64_t room) {
  int64_t count = 0;
  dnn_item heuristic = make(g, KIND_HEURISTIC);
  set_item(g, heuristic, HEURISTIC_GRAPH, graph);
  set(g, heuristic, HEURISTIC_MODE, TYPE_HEURISTIC, 1, &mode);
  finish(g, heuristic);
  for (int64_t i = 0; i < room; i++) configs[i] = make(g, KIND_CONFIG);
  if (g->status == 0) g->status = g->get(heuristic, HEURISTIC_RESULTS, TYPE_ITEM, room, &count, configs);
  return g->status == 0 ? count : 0;
}

static dnn_status plan_by(dnn_graph *g, dnn_item config) {
  int64_t count = 0;
  g->status = 0;
  dnn_item plan = make(g, KIND_PLAN);
  set(g, plan, PLAN_HANDLE, TYPE_HANDLE, 1, &g->d->dnn.handle);
  set_item(g, plan, PLAN_CONFIG, config);
  finish(g, plan);
  if (g->status == 0) g->status = g->get(plan, PLAN_WORKSPACE, TYPE_INT64, 1, &count, &g->workspace);
  if (g->status == 0) g->plan = plan;
  return g->status;
}

int32_t dnn_graph_plan(dnn_graph *g) {
  static const int modes[HEURISTICS] = {3, 1, 2}; // A, B, fallback
  dnn_item configs[MOST_CONFIGS], graph = make(g, KIND_GRAPH);
  set(g, graph, GRAPH_HANDLE, TYPE_HANDLE, 1, &g->d->dnn.handle);
  set(g, graph, GRAPH_OPS, TYPE_ITEM, g->n_ops, g->ops);
  finish(g, graph);
  if (g->status != 0) return refuse(g, "describing a graph to cuDNN", g->status);
  for (int32_t m = 0; m < HEURISTICS && !g->plan; m++) {
    g->status = 0;
    int64_t n = configurations(g, graph, modes[m], configs, m == 0 ? 2 : 1);
    for (int64_t i = 0; i < n && !g->plan; i++) plan_by(g, configs[i]);
  }
  return g->plan ? TC_STATUS_OK : refuse(g, "planning a graph of cuDNN", g->status);
}

dnn_status dnn_graph_run(const dnn_graph *g, int32_t n, const int64_t *ids, void *const *addresses, void *workspace) {
  dnn_item pack = NULL;
  dnn_status s = g->create(KIND_PACK, &pack);
  if (s != 0) return s;
  s = g->set(pack, PACK_IDS, TYPE_INT64, n, ids);
  if (s == 0) s = g->set(pack, PACK_ADDRESSES, TYPE_POINTER, n, addresses);
  if (s == 0) s = g->set(pack, PACK_WORKSPACE, TYPE_POINTER, 1, &workspace);
  if (s == 0) s = g->finalize(pack);
  if (s == 0) s = g->execute(g->d->dnn.handle, g->plan, pack);
  g->destroy(pack);
  return s;
}
