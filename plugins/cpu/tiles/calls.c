// The table of calls on the processor's matrix unit: scaled_dot_product_attention over bf16, and _attention, which has
// the logarithms of the rows' sums, too.
//
// A run is cut into tasks, some queries of one head each, which threads take in turn, the longest first: rows at the
// end attend to more keys where it is causal. Each thread has its own scratch memory in the call's workspace.
#include <math.h>

#include "tasks.h"
#include "tiles.h"

enum { Q, K, V, MASK, DROPOUT, CAUSAL, SCALE };
enum { LONGEST_TASK = 1024, TASKS_PER_THREAD = 4, CALL_NS = 5000, GFLOPS = 400, LEAST_ROWS = 16 };

typedef struct prepared {
  tiles_call call; // tasks of all heads
  int32_t rank;
  bool causal, masked, logs;
  float scale;
  int64_t heads, rows; // heads: of all batches; rows of a task
  int64_t queries, keys, d, e;
} prepared;

static int64_t known(int64_t size) { return size == INT64_MIN ? 256 : size; }

static int32_t describe(const tc_host *h, const tc_call_node *n, tiles_call *c) {
  prepared *x = (prepared *)(void *)c;
  bool logs = tiles_is_named(n->op, "aten::_attention"); // without an argument for dropout
  if (!logs && !tiles_is_named(n->op, "aten::scaled_dot_product_attention"))
    return tiles_refuse(h, "the matrix unit is used for attention only");
  x->masked = tc_op_kind(n->args, MASK) == TC_AK_TENSOR;
  if (n->n_operands != (x->masked ? 4 : 3) || n->n_results != 1 + logs || n->n_epilogue)
    return tiles_refuse(h, "attention with something behind it");
  if (!logs && tc_op_float(n->args, DROPOUT, 0) != 0) return tiles_refuse(h, "attention with dropout");
  for (int32_t i = 0; i < 3; i++)
    if (n->operands[i].dtype != TC_BF16) return tiles_refuse(h, "attention in another type than bf16");
  if (x->masked && n->operands[MASK].dtype != TC_BOOL && n->operands[MASK].dtype != TC_BF16 &&
      n->operands[MASK].dtype != TC_F32)
    return tiles_refuse(h, "a mask of another type than bool, bf16 and f32");
  const tc_view *q = &n->operands[Q], *k = &n->operands[K], *v = &n->operands[V];
  int32_t r = x->rank = q->rank;
  if (r < 2 || r > TC_MAX_RANK) return tiles_refuse(h, "attention of such a rank");
  c->host = h;
  x->logs = logs;
  c->threads = h->threads(h->self) > 0 ? h->threads(h->self) : 1;
  x->causal = tc_op_bool(n->args, CAUSAL - logs, 0) != 0;
  x->queries = known(q->sizes[r - 2]), x->keys = known(k->sizes[r - 2]);
  x->d = known(q->sizes[r - 1]), x->e = known(v->sizes[r - 1]);
  if (logs && !x->e) return tiles_refuse(h, "attention to values without elements");
  x->heads = 1;
  for (int32_t i = 0; i < r - 2; i++) x->heads *= known(n->results->sizes[i]);
  double scale = tc_op_float(n->args, SCALE - logs, 1 / sqrt((double)(x->d > 0 ? x->d : 1)));
  if (!(scale > 0 && scale < 0x1p100)) return tiles_refuse(h, "attention with a scale that is not positive");
  x->scale = (float)(scale * 1.44269504088896340736);
  int64_t parts = (x->queries + LONGEST_TASK - 1) / LONGEST_TASK, all = c->threads * TASKS_PER_THREAD;
  if (x->heads && parts < (all + x->heads - 1) / x->heads) parts = (all + x->heads - 1) / x->heads;
  x->rows = parts ? (x->queries + parts - 1) / parts : 0;
  x->rows = (x->rows + TILES_ROWS - 1) / TILES_ROWS * TILES_ROWS;
  c->tasks = x->rows ? (x->queries + x->rows - 1) / x->rows * x->heads : 0;
  c->scratch = tiles_scratch_bytes(x->rows, x->d, x->e);
  return TC_STATUS_OK;
}

static int32_t supports(const tc_host *h, tc_device_ *d, const tc_call_node *n, int64_t *out_cost) {
  prepared x;
  *out_cost = -1;
  if (!tiles_usable(h, d) || describe(h, n, &x.call) != TC_STATUS_OK) return TC_STATUS_OK;
  if (x.queries < LEAST_ROWS) { // a tile would be mostly empty
    tiles_refuse(h, "attention of few queries");
    return TC_STATUS_OK;
  }
  double flops = 2.0 * (double)x.heads * (double)x.queries * (double)x.keys * (double)(x.d + x.e);
  *out_cost = CALL_NS + (int64_t)(flops / ((double)GFLOPS * x.call.threads));
  return TC_STATUS_OK;
}

static int32_t prepare(const tc_host *h, tc_device_ *d, const tc_call_node *n, void **out, uint64_t *out_workspace) {
  (void)d;
  return tiles_prepare(h, n, sizeof(prepared), describe, out, out_workspace);
}

// ---- a run ----
typedef struct attention_run {
  const prepared *x;
  const tc_view *operands, *results;
} attention_run;

// Where the matrix of an operand begins that the result's one at `head` takes: what has one is shared, groups of heads
// take one of fewer.
static const char *matrix_of(const tc_view *v, const tc_view *result, int64_t head, int64_t size) {
  int64_t at = 0;
  int32_t more = result->rank - v->rank;
  for (int32_t i = result->rank - 3; i >= 0; i--) {
    int64_t n = result->sizes[i], index = head % n;
    head /= n;
    if (i - more >= 0) at += index / (n / v->sizes[i - more]) * v->strides[i - more];
  }
  return (const char *)(uintptr_t)v->memory + v->offset + at * size;
}

static void do_task(const void *arg, int64_t number, char *scratch) {
  const attention_run *r = arg;
  const prepared *x = r->x;
  const tc_view *q = &r->operands[Q], *k = &r->operands[K], *v = &r->operands[V], *out = r->results;
  int32_t rank = x->rank;
  int64_t head = number % x->heads, part = x->call.tasks / x->heads - 1 - number / x->heads;
  tiles_task t = {.causal = x->causal, .scale = x->scale, .d = x->d, .e = x->e, .keys = x->keys};
  t.first = part * x->rows;
  t.rows = x->queries - t.first < x->rows ? x->queries - t.first : x->rows;
  t.q_row = q->strides[rank - 2], t.q_col = q->strides[rank - 1];
  t.k_row = k->strides[rank - 2], t.k_col = k->strides[rank - 1];
  t.v_row = v->strides[rank - 2], t.v_col = v->strides[rank - 1];
  t.out_row = out->strides[rank - 2], t.out_col = out->strides[rank - 1];
  t.q = (const uint16_t *)(const void *)matrix_of(q, out, head, 2) + t.first * t.q_row;
  t.k = (const uint16_t *)(const void *)matrix_of(k, out, head, 2);
  t.v = (const uint16_t *)(const void *)matrix_of(v, out, head, 2);
  t.out = (uint16_t *)(uintptr_t)matrix_of(out, out, head, 2) + t.first * t.out_row;
  if (x->logs) {
    tc_view logs = r->results[1]; // a number per row: dimensions before that are the matrices'
    logs.rank = rank;
    t.log_row = logs.strides[rank - 2];
    t.logs = (float *)(uintptr_t)matrix_of(&logs, out, head, 4) + t.first * t.log_row;
  }
  if (x->masked) {
    const tc_view *m = &r->operands[MASK];
    int64_t rows = m->rank >= 2 ? m->sizes[m->rank - 2] : 1, columns = m->rank >= 1 ? m->sizes[m->rank - 1] : 1;
    t.mask_type = m->dtype;
    t.mask = matrix_of(m, out, head, m->dtype == TC_BOOL ? 1 : m->dtype == TC_F32 ? 4 : 2);
    t.mask_row = rows == 1 ? 0 : m->strides[m->rank - 2];
    t.mask_col = columns == 1 ? 0 : m->strides[m->rank - 1];
  }
  tiles_attention(&t, scratch);
}

static int32_t run(void *p, tc_handle stream, const tc_view *operands, const tc_view *results, tc_handle workspace,
                   int64_t offset) {
  const prepared *x = p;
  (void)stream;
  if (x->call.tasks && x->e) tiles_run(&x->call, do_task, &(attention_run){x, operands, results}, workspace, offset);
  return TC_STATUS_OK;
}

const tc_call_table tc_cpu_tiles = {
    .struct_size = sizeof tc_cpu_tiles,
    .name = {"tiles", 5},
    .supports = supports,
    .prepare = prepare,
    .run = run,
    .destroy = tiles_destroy,
    .thread_safe = 1,
    .capture_safe = 1,
};
