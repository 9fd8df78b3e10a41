// abacus: a backend for a device that has routines, and no compiler. What a vendor writes first.
//
// The device is the host's memory and one thread. The plugin offers the device table without modules and launches, and
// one table of calls (level 1): products of matrices and a few pointwise ops in f32. Programs are cut around them; what
// is left runs on the references. Extend `rows`; share/tc/sdk/template has a device with memory and streams of its own.
#include <math.h>
#include <string.h>

#include "tc/hostmem.h"

// ---- What is said to the host ----
static int32_t fail(const tc_host *h, int32_t code, const char *text) {
  h->diag(h->self, code, (tc_sv){text, strlen(text)});
  return code;
}

// ---- The device ----
struct tc_device_ {
  const tc_host *host;
};

static int32_t enumerate(const tc_host *h, int32_t *out_count) {
  (void)h;
  *out_count = 1;
  return TC_STATUS_OK;
}

static int32_t open_device(const tc_host *h, int32_t index, tc_device_ **out) {
  if (index != 0) return fail(h, TC_STATUS_OUT_OF_RANGE, "there is one abacus, device 0");
  tc_device_ *d = h->alloc(h->self, sizeof *d);
  if (!d) return TC_STATUS_OUT_OF_MEMORY;
  d->host = h;
  *out = d;
  return TC_STATUS_OK;
}

static void close_device(tc_device_ *d) { d->host->free(d->host->self, d); }

// The asker may know less than these headers: no more is written than it has room for.
static int32_t properties(tc_device_ *d, tc_device_props *out) {
  const tc_device_props p = {.name = "abacus",
                             .target = "abacus 1",
                             .host_memory = 1, // handles are addresses that the host may read and write
                             .cores = 1,
                             .dtypes = 1ull << TC_F32};
  (void)d;
  tc_answer_struct(&p, sizeof p, out);
  return TC_STATUS_OK;
}

// Memory is the host's, and everything is done at once: the SDK has these slots. Those for code stay empty: only the
// capability `codegen` needs them.
static const tc_device_table device = {.struct_size = sizeof device,
                                       .enumerate = enumerate,
                                       .open = open_device,
                                       .close = close_device,
                                       .properties = properties,
                                       TC_HOSTMEM_SLOTS};

// ---- The routines ----
// What `prepare` keeps for `run`: sizes and strides, which belong to the host and are gone by then.
typedef struct prepared {
  const tc_host *host;
  const struct row *row;
  int32_t rank;
  int64_t sizes[TC_MAX_RANK];
  int64_t strides[3][TC_MAX_RANK]; // of two operands and the result
  int64_t inner;                   // products: the dimension that is summed over
} prepared;

typedef struct row {
  const char *op;
  int32_t n_operands;
  float (*one)(float x, float y); // pointwise; NULL: a product
} row;

static float add(float x, float y) { return x + y; }
static float sub(float x, float y) { return x - y; }
static float mul(float x, float y) { return x * y; }
static float relu(float x, float y) { return (void)y, x > 0 || x != x ? x : 0; }
static float negative(float x, float y) { return (void)y, -x; }
static const row rows[] = {{"aten::mm", 2, NULL},        {"aten::add.Tensor", 2, add}, {"aten::sub.Tensor", 2, sub},
                           {"aten::mul.Tensor", 2, mul}, {"aten::relu", 1, relu},      {"aten::neg", 1, negative}};

static const row *find(tc_sv op) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (op.size == strlen(rows[i].op) && memcmp(op.data, rows[i].op, op.size) == 0) return &rows[i];
  return NULL;
}

// Why not, or NULL. Sizes may be INT64_MIN, not known yet, when `supports` asks: ranks and types decide then.
static const char *refusal(const tc_call_node *n) {
  const row *r = find(n->op);
  if (!r) return "the abacus has no such routine";
  if (n->n_operands != r->n_operands || n->n_results != 1) return "operands that are no tensors";
  if (n->n_epilogue) return "nothing is fused behind it";
  for (int32_t i = 0; i < n->n_operands; i++)
    if (n->operands[i].dtype != TC_F32) return "only f32";
  if (n->results[0].dtype != TC_F32) return "only f32";
  // add and sub have a factor of the second operand.
  if (r->one == add || r->one == sub) {
    int32_t alpha = tc_op_arg_index(n->args, "alpha");
    if (alpha >= 0 && tc_op_float(n->args, alpha, 1) != 1) return "a factor other than 1";
  }
  return NULL;
}

static int32_t supports(const tc_host *h, tc_device_ *d, const tc_call_node *n, int64_t *out_cost) {
  const char *why = refusal(n);
  (void)d;
  *out_cost = why ? -1 : 1000;
  if (why) h->diag(h->self, TC_STATUS_OK, (tc_sv){why, strlen(why)});
  return TC_STATUS_OK;
}

// Strides of an operand as those of the result: what is broadcast has stride 0.
static void align(const tc_view *v, int32_t rank, int64_t *strides) {
  for (int32_t d = 0; d < rank; d++) {
    int32_t own = d - (rank - v->rank);
    strides[d] = own < 0 || v->sizes[own] == 1 ? 0 : v->strides[own];
  }
}

static int32_t prepare(const tc_host *h, tc_device_ *d, const tc_call_node *n, void **out, uint64_t *out_workspace) {
  (void)d;
  prepared *p = h->alloc(h->self, sizeof *p);
  if (!p) return TC_STATUS_OUT_OF_MEMORY;
  const tc_view *result = &n->results[0];
  p->host = h, p->row = find(n->op), p->rank = result->rank;
  for (int32_t i = 0; i < result->rank; i++) p->sizes[i] = result->sizes[i], p->strides[2][i] = result->strides[i];
  for (int32_t i = 0; i < n->n_operands; i++) {
    if (p->row->one) align(&n->operands[i], result->rank, p->strides[i]);
    else memcpy(p->strides[i], n->operands[i].strides, 2 * sizeof(int64_t));
  }
  if (!p->row->one) p->inner = n->operands[0].sizes[1];
  *out = p, *out_workspace = 0;
  return TC_STATUS_OK;
}

static void run_product(const prepared *p, const float *x, const float *y, float *z) {
  const int64_t *sx = p->strides[0], *sy = p->strides[1], *sz = p->strides[2];
  for (int64_t i = 0; i < p->sizes[0]; i++) {
    for (int64_t j = 0; j < p->sizes[1]; j++) {
      double sum = 0;
      for (int64_t k = 0; k < p->inner; k++) sum += (double)x[i * sx[0] + k * sx[1]] * y[k * sy[0] + j * sy[1]];
      z[i * sz[0] + j * sz[1]] = (float)sum;
    }
  }
}

static void run_pointwise(const prepared *p, const float *x, const float *y, float *z) {
  int64_t n = 1;
  for (int32_t d = 0; d < p->rank; d++) n *= p->sizes[d];
  for (int64_t e = 0; e < n; e++) {
    int64_t ix = 0, iy = 0, iz = 0, rest = e;
    for (int32_t d = p->rank - 1; d >= 0; d--) {
      int64_t i = rest % p->sizes[d];
      rest /= p->sizes[d];
      ix += i * p->strides[0][d], iy += i * p->strides[1][d], iz += i * p->strides[2][d];
    }
    z[iz] = p->row->one(x[ix], y ? y[iy] : 0);
  }
}

static int32_t run(void *prepared_, tc_handle stream, const tc_view *operands, const tc_view *results,
                   tc_handle workspace, int64_t workspace_offset) {
  const prepared *p = prepared_;
  (void)stream, (void)workspace, (void)workspace_offset;
  const float *x = tc_hostmem_at(operands[0].memory, operands[0].offset);
  const float *y = p->row->n_operands > 1 ? tc_hostmem_at(operands[1].memory, operands[1].offset) : NULL;
  float *z = tc_hostmem_at(results[0].memory, results[0].offset);
  if (p->row->one) run_pointwise(p, x, y, z);
  else run_product(p, x, y, z);
  return TC_STATUS_OK;
}

static void destroy(void *prepared_) {
  prepared *p = prepared_;
  p->host->free(p->host->self, p);
}

static const tc_call_table calls = {.struct_size = sizeof calls,
                                    .name = {"abacus", 6},
                                    .supports = supports,
                                    .prepare = prepare,
                                    .run = run,
                                    .destroy = destroy,
                                    .thread_safe = 1};
static const tc_call_table *const all_calls[] = {&calls};

// ---- The handshake ----
TC_PLUGIN_EXPORT int32_t tc_plugin_query(const tc_host *h, tc_plugin_desc *out) {
  static const char build[] = "abacus 1.0, " __DATE__ " " __TIME__;
  const tc_plugin_desc d = {.name = {"abacus", 6},
                            .vendor = {"example", 7},
                            .version = {"1.0", 3},
                            .build_id = {build, sizeof build - 1},
                            .capabilities = TC_CAP_DEVICE | TC_CAP_CALLS,
                            .device = &device,
                            .calls = all_calls,
                            .n_calls = 1};
  return tc_sdk_answer(h, &d, out);
}
