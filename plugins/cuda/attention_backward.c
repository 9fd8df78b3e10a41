// Attention's derivatives on tensor cores as calls (attention_backward.cu): by queries, and by keys. They take the
// types and head sizes that attention takes, heads of queries and keys one to one, and no mask but the causal one.
#include <attention_backward_f32_cu.h>
#include <attention_backward_half_cu.h>
#include <string.h>

#include "attention.h"

enum { GRAD, QUERY, KEY, VALUE, LOGARITHM, DELTA, OPERANDS, CAUSAL = 7, SCALE };
enum { ROWS = ATTENTION_ROWS, LANES = 256 };

typedef struct prepared {
  tc_device_ *d;
  cuda_attention *code;
  attention_side sides[OPERANDS + 1]; // operands and the result; addresses come with the run
  bool by_keys;
  int32_t batches, heads, queries, keys, causal, head_size;
  float scale;
} prepared;

static int32_t describe(const tc_call_node *n, prepared *x, const char **why) {
  static const char queries[] = "aten::_attention_backward_query", pairs[] = "aten::_attention_backward_pair";
  int64_t z[OPERANDS + 1][4];
  x->by_keys = n->op.size == sizeof pairs - 1 && memcmp(n->op.data, pairs, n->op.size) == 0;
  if (!x->by_keys && (n->op.size != sizeof queries - 1 || memcmp(n->op.data, queries, n->op.size) != 0))
    return attention_refuse(why, "no derivative of attention");
  if (n->n_operands != OPERANDS || n->n_results != 1) return attention_refuse(why, "attention with a mask");
  for (int32_t i = 0; i <= OPERANDS; i++) {
    const tc_view *v = i < OPERANDS ? &n->operands[i] : n->results;
    bool numbers = i == LOGARITHM || i == DELTA;
    if (!numbers && v->dtype != n->results->dtype) return attention_refuse(why, "operands of different dtypes");
    int32_t s =
        numbers ? attention_read_numbers(v, &x->sides[i], z[i], why) : attention_read_side(v, &x->sides[i], z[i], why);
    if (s != TC_STATUS_OK) return s;
  }
  const int64_t *q = z[QUERY], *k = z[KEY], *o = z[OPERANDS];
  if (!attention_fits(n->results->dtype, q[3]) || o[3] != (x->by_keys ? 2 : 1) * q[3])
    return attention_refuse(why, "another dtype or size of heads");
  bool same = memcmp(z[GRAD], q, sizeof z[0]) == 0 && memcmp(z[VALUE], k, sizeof z[0]) == 0 && q[0] == k[0] &&
              q[1] == k[1] && q[3] == k[3] && o[0] == q[0] && o[1] == q[1] && o[2] == (x->by_keys ? k[2] : q[2]);
  for (int32_t i = LOGARITHM; i <= DELTA; i++) same = same && memcmp(z[i], q, 3 * sizeof *q) == 0;
  if (!same) return attention_refuse(why, "sizes that are broadcast");
  if (q[0] * q[1] * ((o[2] + ROWS - 1) / ROWS) > INT32_MAX) return attention_refuse(why, "too many blocks");
  x->batches = (int32_t)q[0], x->heads = (int32_t)q[1], x->queries = (int32_t)q[2], x->keys = (int32_t)k[2];
  x->head_size = (int32_t)q[3], x->causal = tc_op_bool(n->args, CAUSAL, 0);
  x->scale = (float)tc_op_float(n->args, SCALE, 1);
  return TC_STATUS_OK;
}

// Rows of the other side in a tile: as many as registers suffice for, beside the sums.
static int32_t others_of(const prepared *x, tc_dtype type) {
  if (type == TC_F32 && x->by_keys) return x->head_size == 96 ? 16 : x->head_size > 32 ? 32 : 64;
  return x->head_size <= 64 ? 64 : 32;
}

static int32_t parts_of(const prepared *x, tc_dtype type) {
  return type == TC_F32 && x->by_keys && x->head_size == 128 ? 2 : 1;
}

// Two tiles of the block's rows, and two stages of two tiles of the other side's, with two numbers per row.
static attention_version version_of(const tc_device_ *d, const prepared *x, tc_dtype type) {
  int64_t row = type == TC_F32 ? (x->head_size + 8) * 4 : x->head_size * 2, others = others_of(x, type);
  return (attention_version){.text = type == TC_F32 ? attention_backward_f32_cu : attention_backward_half_cu,
                             .name = x->by_keys ? "tc_attention_by_keys" : "tc_attention_by_queries",
                             .arch = d->arch,
                             .shared = 2 * ROWS * row + 4 * others * (row + 4),
                             .lanes = LANES,
                             .keys = (int32_t)others,
                             .parts = parts_of(x, type),
                             .keys_own = x->by_keys};
}

static int32_t supports(const tc_host *h, tc_device_ *d, const tc_call_node *n, int64_t *out_cost) {
  prepared x = {0};
  const char *why = "";
  *out_cost = -1;
  int32_t s = describe(n, &x, &why);
  if (s != TC_STATUS_OK) {
    cuda_report(h, s, why);
    return TC_STATUS_OK;
  }
  double products = x.by_keys ? 4 : 3;
  double flops = 2 * products * x.batches * x.heads * (double)x.queries * x.keys * x.head_size;
  if (!attention_possible(d, version_of(d, &x, n->results->dtype).shared, flops)) return TC_STATUS_OK;
  *out_cost = ATTENTION_CALL_NS + (int64_t)(flops / (2.0 * (double)(d->props.flops_per_ns + 1)));
  return TC_STATUS_OK;
}

static int32_t prepare(const tc_host *h, tc_device_ *d, const tc_call_node *n, void **out, uint64_t *out_workspace) {
  const char *why = "";
  void *memory;
  int32_t s = cuda_prepare(h, d, sizeof(prepared), &memory);
  if (s != TC_STATUS_OK) return s;
  prepared *x = memory;
  s = describe(n, x, &why);
  if (s != TC_STATUS_OK) {
    cuda_report(h, s, why);
  } else {
    attention_version v = version_of(d, x, n->results->dtype);
    s = attention_code(d, x->by_keys ? ATTENTION_BY_KEYS : ATTENTION_BY_QUERIES, &v, 1, x->head_size, n->results->dtype,
                       &x->code);
  }
  return cuda_prepared(h, s, x, 0, out, out_workspace);
}

static int32_t run(void *p, tc_handle stream, const tc_view *operands, const tc_view *results, tc_handle workspace,
                   int64_t offset) {
  prepared *x = p;
  attention_side sides[OPERANDS + 1];
  (void)workspace, (void)offset;
  int32_t rows = x->by_keys ? x->keys : x->queries, others = x->by_keys ? x->queries : x->keys;
  int32_t s = cuda_enter(x->d), tiles = (rows + ROWS - 1) / ROWS, aligned = 1;
  if (s != TC_STATUS_OK) return s;
  for (int32_t i = 0; i <= OPERANDS; i++) {
    sides[i] = x->sides[i];
    sides[i].data = cuda_address(i < OPERANDS ? &operands[i] : results);
    if (i != LOGARITHM && i != DELTA) aligned &= sides[i].data % 16 == 0;
  }
  int32_t own = x->by_keys ? KEY : QUERY, own2 = x->by_keys ? VALUE : GRAD, other = x->by_keys ? QUERY : KEY,
          other2 = x->by_keys ? GRAD : VALUE;
  void *params[] = {&sides[own],   &sides[own2],     &sides[other], &sides[other2], &sides[LOGARITHM],
                    &sides[DELTA], &sides[OPERANDS], &rows,         &others,        &x->heads,
                    &tiles,        &x->causal,       &aligned,      &x->scale};
  unsigned parts = (unsigned)parts_of(x, results->dtype);
  cuda_grid grid = {(unsigned)(tiles * x->batches * x->heads), parts, x->code->lanes, (unsigned)x->code->shared_bytes,
                    1};
  return cuda_check(x->d, x->by_keys ? "launching @tc_attention_by_keys" : "launching @tc_attention_by_queries",
                    cuda_start(x->d, x->code->function, grid, (cu_stream)(uintptr_t)stream, params));
}

const tc_call_table cuda_attention_backward_calls = {CUDA_CALLS("attention_backward"), .destroy = cuda_destroy_call};
