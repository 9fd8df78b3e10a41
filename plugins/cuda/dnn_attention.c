// Attention over 16-bit floats by cuDNN as calls: products around a softmax as a graph of operations, which the library
// knows as one kernel.
//
// It takes what attention.c takes in 16 bits, without logarithms; the library knows the graph only with these, so that
// they go into the workspace. It is a candidate where candidates are timed; the config key `attention` takes it always
// ("cudnn") or never ("own").
#include <float.h>
#include <string.h>

#include "attention.h"
#include "dnn_graph.h"
#include "library.h"

enum { Q = 1, K, V, OUT, SCALE, LOGS, LOWEST, NAMES = LOWEST, ALIGN = 256 };

typedef struct prepared {
  tc_device_ *d;
  dnn_graph graph;
  float scale, lowest;
  int32_t causal;
  uint64_t logs_at; // in the workspace, behind the library's
} prepared;

static bool wished(const tc_device_ *d, const char *what) {
  char wish[8];
  return cuda_config(d->host, "attention", wish, sizeof wish) && strcmp(wish, what) == 0;
}

static int32_t problem_of(const tc_device_ *d, const tc_call_node *n, attention_problem *x, const char **why) {
  int32_t s = attention_describe(n, x, why);
  if (s != TC_STATUS_OK) return s;
  if (n->results->dtype == TC_F32) return attention_refuse(why, "attention over f32 (cuDNN)");
  if (x->results != 1) return attention_refuse(why, "attention with logarithms (cuDNN)");
  return wished(d, "own") ? attention_refuse(why, "our own is asked for (cuda.attention)") : TC_STATUS_OK;
}

// ---- The graph ----
static dnn_item operand(dnn_graph *g, const attention_problem *x, int32_t name, int type, bool turned) {
  const attention_side *side = &x->sides[name - Q];
  int32_t of_q = name == Q || name == OUT;
  int64_t rows = of_q ? x->queries : x->keys, heads = of_q ? x->heads : x->heads / x->group;
  int64_t sizes[] = {x->batches, heads, turned ? x->head_size : rows, turned ? rows : x->head_size};
  int64_t strides[] = {side->batch, side->head, turned ? 1 : side->row, turned ? side->row : 1};
  return dnn_graph_tensor(g, name, type, sizes, strides);
}

// Scores of keys behind a query's own place are the lowest number.
static dnn_item hide(dnn_graph *g, dnn_item scores, const int64_t *sizes) {
  dnn_item row = dnn_graph_between(g, DNN_INT32, sizes), column = dnn_graph_between(g, DNN_INT32, sizes);
  dnn_item seen = dnn_graph_between(g, DNN_BOOLEAN, sizes), shown = dnn_graph_between(g, DNN_FLOAT, sizes);
  dnn_graph_pointwise(g, DNN_INDEX, DNN_INT32, scores, NULL, NULL, 2, row);
  dnn_graph_pointwise(g, DNN_INDEX, DNN_INT32, scores, NULL, NULL, 3, column);
  dnn_graph_pointwise(g, DNN_AT_LEAST, DNN_BOOLEAN, row, column, NULL, 0, seen);
  dnn_graph_pointwise(g, DNN_SELECT, DNN_FLOAT, scores, dnn_graph_number(g, LOWEST), seen, 0, shown);
  return shown;
}

static void describe(dnn_graph *g, const attention_problem *x, int type) {
  const int64_t all[] = {x->batches, x->heads, x->queries, x->keys}, rows[] = {x->batches, x->heads, x->queries, 1};
  dnn_item q = operand(g, x, Q, type, false), k = operand(g, x, K, type, true), v = operand(g, x, V, type, false);
  dnn_item out = operand(g, x, OUT, type, false);
  dnn_item product = dnn_graph_between(g, DNN_FLOAT, all), scores = dnn_graph_between(g, DNN_FLOAT, all);
  dnn_graph_product(g, q, k, product);
  dnn_graph_pointwise(g, DNN_MUL, DNN_FLOAT, product, dnn_graph_number(g, SCALE), NULL, 0, scores);
  if (x->causal) scores = hide(g, scores, all);
  dnn_item most = dnn_graph_between(g, DNN_FLOAT, rows), sum = dnn_graph_between(g, DNN_FLOAT, rows);
  dnn_item less = dnn_graph_between(g, DNN_FLOAT, all), power = dnn_graph_between(g, DNN_FLOAT, all);
  dnn_item share = dnn_graph_between(g, type, all);
  dnn_graph_reduce(g, DNN_REDUCE_MAX, scores, most);
  dnn_graph_pointwise(g, DNN_SUB, DNN_FLOAT, scores, most, NULL, 0, less);
  dnn_graph_pointwise(g, DNN_EXP, DNN_FLOAT, less, NULL, NULL, 0, power);
  dnn_graph_reduce(g, DNN_REDUCE_SUM, power, sum);
  dnn_item log = dnn_graph_between(g, DNN_FLOAT, rows);
  dnn_graph_pointwise(g, DNN_LOG, DNN_FLOAT, sum, NULL, NULL, 0, log);
  dnn_graph_pointwise(g, DNN_ADD, DNN_FLOAT, most, log, NULL, 0,
                      dnn_graph_tensor(g, LOGS, DNN_FLOAT, rows, (const int64_t[]){rows[1] * rows[2], rows[2], 1, 1}));
  dnn_graph_pointwise(g, DNN_DIV, DNN_FLOAT, power, sum, NULL, 0, share);
  dnn_graph_product(g, share, v, out);
}

// ---- The table ----
static int32_t supports(const tc_host *h, tc_device_ *d, const tc_call_node *n, int64_t *out_cost) {
  attention_problem x = {0};
  const char *why = "";
  *out_cost = -1;
  int32_t s = problem_of(d, n, &x, &why);
  if (s != TC_STATUS_OK) {
    cuda_report(h, s, why);
    return TC_STATUS_OK;
  }
  double flops = attention_flops(&x);
  if (!attention_possible(d, 0, flops)) return TC_STATUS_OK;
  if (wished(d, "cudnn")) *out_cost = ATTENTION_CALL_NS;
  else *out_cost = 2 * ATTENTION_CALL_NS + (int64_t)(flops / (double)(d->props.flops_per_ns + 1));
  return TC_STATUS_OK;
}

static void destroy(void *p) {
  prepared *q = p;
  if (!q) return;
  dnn_graph_close(&q->graph);
  cuda_destroy_call(q);
}

static int32_t prepare(const tc_host *h, tc_device_ *d, const tc_call_node *n, void **out, uint64_t *out_workspace) {
  attention_problem x = {0};
  const char *why = "";
  void *memory;
  int32_t s = problem_of(d, n, &x, &why);
  if (s != TC_STATUS_OK) return cuda_report(h, s, why);
  s = cuda_dnn_ready(d);
  if (s == TC_STATUS_OK) s = cuda_prepare(h, d, sizeof(prepared), &memory);
  if (s != TC_STATUS_OK) return s;
  prepared *q = memory;
  q->scale = (float)x.scale, q->lowest = -FLT_MAX, q->causal = x.causal;
  s = dnn_graph_open(d, &q->graph);
  pthread_mutex_lock(&d->dnn_lock);
  if (s == TC_STATUS_OK) {
    describe(&q->graph, &x, n->results->dtype == TC_BF16 ? DNN_BFLOAT16 : DNN_HALF);
    s = dnn_graph_plan(&q->graph);
  }
  pthread_mutex_unlock(&d->dnn_lock);
  if (s != TC_STATUS_OK) dnn_graph_close(&q->graph);
  q->logs_at = ((uint64_t)q->graph.workspace + ALIGN - 1) / ALIGN * ALIGN;
  uint64_t logs = sizeof(float) * (uint64_t)x.batches * (uint64_t)x.heads * (uint64_t)x.queries;
  return cuda_prepared(h, s, q, q->logs_at + logs, out, out_workspace);
}

static int32_t run(void *p, tc_handle stream, const tc_view *operands, const tc_view *results, tc_handle workspace,
                   int64_t offset) {
  static const int64_t names[NAMES] = {Q, K, V, OUT, SCALE, LOGS, LOWEST};
  prepared *q = p;
  int32_t s = cuda_enter(q->d);
  if (s != TC_STATUS_OK) return s;
  cu_ptr own = workspace + (uint64_t)offset;
  void *addresses[NAMES] = {
      [SCALE - Q] = &q->scale, [LOGS - Q] = (void *)(uintptr_t)(own + q->logs_at), [LOWEST - Q] = &q->lowest};
  for (int32_t i = 0; i < 4; i++) addresses[i] = (void *)(uintptr_t)cuda_address(i < 3 ? &operands[i] : results);
  pthread_mutex_lock(&q->d->dnn_lock);
  dnn_status code = q->d->dnn.set_stream(q->d->dnn.handle, (cu_stream)(uintptr_t)stream);
  if (code == 0)
    code = dnn_graph_run(&q->graph, q->causal ? NAMES : NAMES - 1, names, addresses, (void *)(uintptr_t)own);
  pthread_mutex_unlock(&q->d->dnn_lock);
  return cuda_dnn_check(q->d, "attention of cuDNN", code);
}

const tc_call_table cuda_dnn_attention_calls = {CUDA_CALLS("cudnn_attention"), .destroy = destroy};
