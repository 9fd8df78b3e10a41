// Attention on tensor cores as a call: attention.cu, attention_wgmma.cu (sm_90, unless the config key wgmma is "false")
// and attention_f32.cu, compiled for the head size and the type when one is first asked for.
//
// They take 16-bit floats with heads of 64 or 128 elements and f32 with heads of 32, 64, 96 or 128, no mask but the
// causal one, no dropout; everything else stays with the template. _attention has the logarithms of the rows' sums,
// too.
#include "attention.h"

#include <attention_cu.h>
#include <attention_f32_cu.h>
#include <attention_wgmma_cu.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "library.h"

enum { ROWS = ATTENTION_ROWS, KEYS = 64, WGMMA_KEYS = 128, FEW_QUERIES = 8 };

typedef struct prepared {
  tc_device_ *d;
  cuda_attention *code;
  attention_problem x;
} prepared;

// ---- what derivatives share ----
static int32_t size_of(tc_dtype t) { return t == TC_F32 ? 4 : 2; }

// Sizes and strides of up to `rank` dimensions, the last ones; the stride of what has one row is free.
static int32_t read_dimensions(const tc_view *v, int32_t rank, int64_t *sizes, int64_t *strides, const char **why) {
  int32_t lead = rank - v->rank;
  if (lead != 0 && lead != 1) return attention_refuse(why, "attention over other than three or four dimensions");
  if (lead) sizes[0] = 1, strides[0] = 0;
  for (int32_t i = 0; i < v->rank; i++) {
    if (v->sizes[i] == INT64_MIN || !v->strides || v->strides[i] == INT64_MIN)
      return attention_refuse(why, "sizes or strides that are not known");
    sizes[lead + i] = v->sizes[i], strides[lead + i] = v->sizes[i] == 1 && i + 1 < v->rank ? 0 : v->strides[i];
    if (v->sizes[i] < 1 || v->sizes[i] > INT32_MAX) return attention_refuse(why, "an empty or huge dimension");
  }
  return TC_STATUS_OK;
}

int32_t attention_read_side(const tc_view *v, attention_side *out, int64_t sizes[4], const char **why) {
  int64_t strides[4], piece = 16 / size_of(v->dtype);
  int32_t s = read_dimensions(v, 4, sizes, strides, why);
  if (s != TC_STATUS_OK) return s;
  if (strides[3] != 1 || strides[0] % piece || strides[1] % piece || strides[2] % piece)
    return attention_refuse(why, "rows that do not lie at multiples of 16 bytes");
  *out = (attention_side){.batch = strides[0], .head = strides[1], .row = strides[2]};
  return TC_STATUS_OK;
}

int32_t attention_read_numbers(const tc_view *v, attention_side *out, int64_t sizes[3], const char **why) {
  int64_t strides[3];
  if (v->dtype != TC_F32) return attention_refuse(why, "numbers of queries in other than f32");
  int32_t s = read_dimensions(v, 3, sizes, strides, why);
  if (s == TC_STATUS_OK) *out = (attention_side){.batch = strides[0], .head = strides[1], .row = strides[2]};
  return s;
}

bool attention_fits(tc_dtype type, int64_t head_size) {
  if (type == TC_F32) return head_size > 0 && head_size % 32 == 0 && head_size <= 128;
  return (type == TC_F16 || type == TC_BF16) && (head_size == 64 || head_size == 128);
}

bool attention_possible(tc_device_ *d, int64_t shared, double flops) {
  return shared <= d->props.shared_bytes && d->runs && strtol(d->arch + 3, NULL, 10) >= 80 &&
         flops >= ATTENTION_LEAST_FLOPS && cuda_compiler(d) == TC_STATUS_OK;
}

// The text of the code; of the host's allocator, NULL when memory is short.
static char *make_source(tc_device_ *d, const attention_version *v, int32_t head, tc_dtype type) {
  static const char format[] = "#define NAME %s\n#define HEAD %d\n#define KEYS %d\n#define KEYS_OWN %d\n"
                               "#define PARTS %d\n#define LOGS %d\n#define BF16 %d\ntypedef %s element;\n%s";
  size_t room = sizeof format + strlen(v->text) + strlen(v->name) + 64;
  char *text = d->host->alloc(d->host->self, room);
  if (text)
    snprintf(text, room, format, v->name, (int)head, (int)v->keys, (int)v->keys_own, (int)v->parts, (int)v->logs,
             type == TC_BF16, type == TC_F32 ? "float" : "unsigned short", v->text);
  return text;
}

// Compiles and loads one of them.
static int32_t load_version(tc_device_ *d, const attention_version *v, int32_t head, tc_dtype type, cuda_attention *c) {
  char *source = make_source(d, v, head, type);
  if (!source) return TC_STATUS_OUT_OF_MEMORY;
  int32_t s = cuda_own_code(d, source, v->arch, &v->name, 1, (int32_t)v->shared, &c->module, &c->function);
  if (s != TC_STATUS_OK) c->function = NULL;
  c->shared_bytes = (int32_t)v->shared, c->lanes = v->lanes;
  d->host->free(d->host->self, source);
  return s;
}

int32_t attention_code(tc_device_ *d, int32_t what, const attention_version *v, int32_t n, int32_t head_size,
                       tc_dtype type, cuda_attention **out) {
  int32_t kind = type == TC_F32 ? 2 : type == TC_BF16;
  cuda_attention *c = &d->attention[(what * 3 + kind) * 4 + head_size / 32 - 1];
  int32_t s = cuda_compiler(d);
  if (s != TC_STATUS_OK) return s;
  pthread_mutex_lock(&d->own_lock);
  if (!c->function) s = TC_STATUS_PLUGIN;
  for (int32_t i = 0; i < n && s != TC_STATUS_OK && s != TC_STATUS_OUT_OF_MEMORY; i++)
    s = load_version(d, &v[i], head_size, type, c);
  pthread_mutex_unlock(&d->own_lock);
  *out = c;
  return s;
}

// ---- attention itself ----
static bool is_named(const tc_call_node *n, const char *name) {
  return n->op.size == strlen(name) && memcmp(n->op.data, name, n->op.size) == 0;
}

int32_t attention_describe(const tc_call_node *n, attention_problem *x, const char **why) {
  int64_t z[5][4];
  bool logs = is_named(n, "aten::_attention"); // without an argument for dropout
  if (!logs && !is_named(n, "aten::scaled_dot_product_attention")) return attention_refuse(why, "no attention");
  if (n->n_operands != 3 || n->n_results != 1 + logs) return attention_refuse(why, "attention with a mask");
  if (!logs && tc_op_float(n->args, 4, 0) != 0) return attention_refuse(why, "attention with dropout");
  for (int32_t i = 0; i < 4; i++) {
    const tc_view *v = i < 3 ? &n->operands[i] : n->results;
    if (v->dtype != TC_F16 && v->dtype != TC_BF16 && v->dtype != TC_F32)
      return attention_refuse(why, "attention in other than 16-bit floats and f32");
    if (v->dtype != n->results->dtype) return attention_refuse(why, "operands of different dtypes");
    int32_t s = attention_read_side(v, &x->sides[i], z[i], why);
    if (s != TC_STATUS_OK) return s;
  }
  const int64_t *q = z[0], *k = z[1], *v = z[2], *o = z[3];
  if (q[3] != v[3] || q[3] != k[3] || !attention_fits(n->results->dtype, q[3]))
    return attention_refuse(why, "another size of heads");
  if (q[0] != k[0] || q[0] != v[0] || k[1] != v[1] || k[2] != v[2] || q[1] % k[1] || memcmp(o, q, sizeof z[0]) != 0)
    return attention_refuse(why, "sizes that are broadcast");
  if (q[0] * q[1] * ((q[2] + ROWS - 1) / ROWS) > INT32_MAX) return attention_refuse(why, "too many blocks");
  int32_t s = logs ? attention_read_numbers(&n->results[1], &x->sides[4], z[4], why) : TC_STATUS_OK;
  if (s != TC_STATUS_OK) return s;
  x->batches = (int32_t)q[0], x->heads = (int32_t)q[1], x->group = (int32_t)(q[1] / k[1]);
  x->queries = (int32_t)q[2], x->keys = (int32_t)k[2], x->head_size = (int32_t)q[3], x->results = n->n_results;
  x->causal = tc_op_bool(n->args, 5 - logs, 0);
  x->scale = tc_op_float(n->args, 6 - logs, 1 / sqrt((double)q[3]));
  if (x->scale < 0) return attention_refuse(why, "a negative scale");
  return TC_STATUS_OK;
}

double attention_flops(const attention_problem *x) {
  return 4.0 * x->batches * x->heads * (double)x->queries * x->keys * x->head_size;
}

// Keys of a tile: as many as registers suffice for.
static int32_t keys_of(int32_t head, tc_dtype type, bool logs) {
  if (type == TC_F32) return logs && head == 128 ? KEYS / 4 : logs || head == 96 ? KEYS / 2 : KEYS;
  return logs && head == 128 ? KEYS / 2 : KEYS;
}

// The queries, and two stages of a tile of keys and one of values; rows of f32 are padded.
static int64_t shared_of(int64_t head, tc_dtype type, int64_t keys) {
  if (type != TC_F32) return (ROWS + 4 * keys) * head * 2;
  return (ROWS * (head + 8) + 2 * keys * (2 * head + 12)) * 4;
}

// What there is for a head size and a type, best first.
static int32_t versions_of(tc_device_ *d, const attention_problem *x, tc_dtype type, attention_version out[2]) {
  char wish[8];
  int32_t n = 0, head = x->head_size;
  bool logs = x->results == 2, never = cuda_config(d->host, "wgmma", wish, sizeof wish) && strcmp(wish, "false") == 0;
  attention_version v = {.name = "tc_attention", .arch = d->arch, .lanes = 256, .logs = logs};
  if (type != TC_F32 && strcmp(d->arch, "sm_90") == 0 && !never) { // its tiles lie at multiples of 1024 bytes
    out[n] = v;
    out[n].text = attention_wgmma_cu, out[n].arch = "sm_90a", out[n].keys = WGMMA_KEYS;
    out[n++].shared = (ROWS + 4 * WGMMA_KEYS) * head * 2 + 1024;
  }
  v.text = type == TC_F32 ? attention_f32_cu : attention_cu, v.lanes = type == TC_F32 ? 256 : 128;
  v.keys = keys_of(head, type, logs), v.shared = shared_of(head, type, v.keys);
  out[n++] = v;
  return n;
}

static int32_t supports(const tc_host *h, tc_device_ *d, const tc_call_node *n, int64_t *out_cost) {
  attention_problem x = {0};
  const char *why = "";
  *out_cost = -1;
  int32_t s = attention_describe(n, &x, &why);
  if (s != TC_STATUS_OK) {
    cuda_report(h, s, why);
    return TC_STATUS_OK;
  }
  // Of few queries a tile would be mostly empty; the template that reads each key once is faster in single precision
  // (a query, 2048 keys, 256 heads on an H200: 0.17 ms for 0.41), not where its loads are of 16 bits.
  if (x.queries <= FEW_QUERIES && x.results == 1 && n->results->dtype == TC_F32) {
    cuda_report(h, TC_STATUS_UNIMPLEMENTED, "few queries in single precision are the template's");
    return TC_STATUS_OK;
  }
  double flops = attention_flops(&x);
  if (!attention_possible(
          d, shared_of(x.head_size, n->results->dtype, keys_of(x.head_size, n->results->dtype, x.results == 2)), flops))
    return TC_STATUS_OK;
  *out_cost = ATTENTION_CALL_NS + (int64_t)(flops / (4.0 * (double)(d->props.flops_per_ns + 1)));
  return TC_STATUS_OK;
}

static int32_t prepare(const tc_host *h, tc_device_ *d, const tc_call_node *n, void **out, uint64_t *out_workspace) {
  const char *why = "";
  void *memory;
  int32_t s = cuda_prepare(h, d, sizeof(prepared), &memory);
  if (s != TC_STATUS_OK) return s;
  prepared *q = memory;
  attention_problem *x = &q->x;
  s = attention_describe(n, x, &why);
  if (s != TC_STATUS_OK) {
    cuda_report(h, s, why);
  } else {
    attention_version v[2];
    int32_t ways = versions_of(d, x, n->results->dtype, v), what = v->logs ? ATTENTION_WITH_LOGS : ATTENTION_PLAIN;
    s = attention_code(d, what, v, ways, x->head_size, n->results->dtype, &q->code);
  }
  return cuda_prepared(h, s, q, 0, out, out_workspace);
}

static int32_t run(void *p, tc_handle stream, const tc_view *operands, const tc_view *results, tc_handle workspace,
                   int64_t offset) {
  prepared *q = p;
  attention_problem *x = &q->x;
  attention_side sides[5] = {{0}};
  float scale = (float)(x->scale * 1.4426950408889634); // for powers of 2
  (void)workspace, (void)offset;
  int32_t s = cuda_enter(q->d), tiles = (x->queries + ROWS - 1) / ROWS, aligned = 1;
  if (s != TC_STATUS_OK) return s;
  for (int32_t i = 0; i < 3 + x->results; i++) {
    sides[i] = x->sides[i];
    sides[i].data = cuda_address(i < 3 ? &operands[i] : &results[i - 3]);
    if (i < 4) aligned &= sides[i].data % 16 == 0;
  }
  void *params[] = {&sides[0], &sides[1], &sides[2], &sides[3],  &sides[4], &x->queries, &x->keys,
                    &x->heads, &x->group, &tiles,    &x->causal, &aligned,  &scale};
  cuda_grid grid = {(unsigned)(tiles * x->batches * x->heads), 1, q->code->lanes, (unsigned)q->code->shared_bytes, 1};
  return cuda_check(q->d, "launching @tc_attention",
                    cuda_start(q->d, q->code->function, grid, (cu_stream)(uintptr_t)stream, params));
}

const tc_call_table cuda_attention_calls = {CUDA_CALLS("attention"), .destroy = cuda_destroy_call};
