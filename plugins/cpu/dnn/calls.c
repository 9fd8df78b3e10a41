// The table of oneDNN calls, and running plans.
//
// Estimates are by measured rates; that of the matrix unit (AMX) with the packing of the right factor.
//
// oneDNN brings its own OpenMP team; it gets as many threads as the host's executor has, set for the calling thread
// only.
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "dnn.h"

enum { CALL_NS = 3000, BYTES_PER_NS = 12 };
enum { F32_GFLOPS = 100, LOW_GFLOPS = 200, TILE_GFLOPS = 500, WIDENED_GFLOPS = 25 }; // of a core

// The manifest's `calls` has these names, too: the program asks about no other op.
static const struct {
  const char *op;
  int32_t (*plan)(dnn_call *c);
} ops[] = {{"aten::mm", dnn_plan_matmul},          {"aten::bmm", dnn_plan_matmul},
           {"aten::addmm", dnn_plan_matmul},       {"aten::baddbmm", dnn_plan_matmul},
           {"aten::matmul", dnn_plan_matmul},      {"aten::linear", dnn_plan_matmul},
           {"aten::conv1d", dnn_plan_convolution}, {"aten::conv2d", dnn_plan_convolution},
           {"aten::conv3d", dnn_plan_convolution}, {"aten::convolution", dnn_plan_convolution}};

static dnnl_engine_t engine; // immutable once made
static void make_engine(void) {
  if (dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success) engine = NULL;
}

static dnnl_engine_t the_engine(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make_engine);
  return engine;
}

static void free_plan(dnn_plan *p) {
  const tc_host *h = p->host;
  for (int32_t i = 0; i < p->n_steps; i++)
    if (p->steps[i].primitive) dnnl_primitive_destroy(p->steps[i].primitive);
  for (int32_t i = 0; i < p->n_slots; i++)
    if (p->slots[i].made) dnn_md_free(&p->slots[i].md);
  h->free(h->self, p);
}

// For the calling thread; gives what was set before. Setting allocates, even what is set already.
static int32_t set_threads(int32_t n) {
  int32_t before = omp_get_max_threads();
  if (before != n) omp_set_num_threads(n);
  return before;
}

static int32_t make_plan(const tc_host *h, const tc_call_node *n, bool asking, dnn_call *c) {
  *c = (dnn_call){.host = h, .node = n, .asking = asking};
  int32_t (*plan)(dnn_call *) = NULL;
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
    if (n->op.size == strlen(ops[i].op) && memcmp(n->op.data, ops[i].op, n->op.size) == 0) plan = ops[i].plan;
  if (!plan || n->n_results != 1)
    return dnn_refuse(c, "oneDNN offers no %.*s", (int)(n->op.size < 100 ? n->op.size : 100), n->op.data);
  c->plan = h->alloc(h->self, sizeof *c->plan);
  if (!c->plan) return c->status = TC_STATUS_OUT_OF_MEMORY;
  c->plan->host = h;
  c->plan->n_operands = n->n_operands, c->plan->constant = n->constant;
  c->plan->engine = the_engine();
  c->plan->threads = h->threads(h->self);
  if (c->plan->threads < 1) c->plan->threads = 1;
  if (!c->plan->engine) return dnn_refuse(c, "oneDNN does not start");
  int32_t before = set_threads(c->plan->threads); // code is generated for a number of threads
  plan(c);
  set_threads(before);
  return c->status;
}

static void report(const dnn_call *c) { c->host->diag(c->host->self, c->status, (tc_sv){c->why, strlen(c->why)}); }

// What the processor does not multiply oneDNN widens beside each product: a transformer's block of bf16 takes three
// times as long so on an Ice Lake as with its matrices widened once.
static int32_t rate_of(const dnn_call *c) {
  tc_dtype d = c->node->results->dtype;
  if (c->tiles) return TILE_GFLOPS;
  if (d == TC_F32) return F32_GFLOPS;
  if (d == TC_BF16 && !__builtin_cpu_supports("avx512bf16")) return WIDENED_GFLOPS;
  return LOW_GFLOPS;
}

static int32_t supports(const tc_host *h, tc_device_ *d, const tc_call_node *n, int64_t *out_cost) {
  (void)d;
  dnn_call c;
  *out_cost = -1;
  int32_t s = make_plan(h, n, true, &c);
  if (s == TC_STATUS_OK) {
    double rate = (double)rate_of(&c) * c.plan->threads; // flops per ns
    double compute = c.flops / rate, traffic = c.bytes / BYTES_PER_NS;
    *out_cost = CALL_NS + (int64_t)(compute > traffic ? compute : traffic);
  } else report(&c);
  if (c.plan) free_plan(c.plan);
  return s == TC_STATUS_UNIMPLEMENTED ? TC_STATUS_OK : s; // a refusal is an answer
}

static int32_t prepare(const tc_host *h, tc_device_ *d, const tc_call_node *n, void **out, uint64_t *out_workspace) {
  (void)d;
  dnn_call c;
  int32_t s = make_plan(h, n, false, &c);
  if (s == TC_STATUS_OK && c.unknown)
    s = c.status = TC_STATUS_INVALID_ARGUMENT,
    snprintf(c.why, sizeof c.why, "a call is prepared for sizes that are not known");
  if (s != TC_STATUS_OK) {
    report(&c);
    if (c.plan) free_plan(c.plan);
    return s;
  }
  *out = c.plan;
  *out_workspace = c.plan->workspace;
  return TC_STATUS_OK;
}

typedef struct places {
  const tc_view *operands, *results, *kept;
  char *workspace;
} places;

static void *bytes_of(const dnn_slot *s, const places *x) {
  if (s->where == DNN_WORKSPACE) return x->workspace + s->at;
  if (s->where == DNN_OPERAND && !x->operands[s->at].memory) return NULL; // spent
  const tc_view *v = s->where == DNN_RESULT ? x->results : s->where == DNN_KEPT ? x->kept : &x->operands[s->at];
  return v ? (char *)(uintptr_t)v->memory + v->offset + (s->where == DNN_KEPT ? s->at : 0) : NULL;
}

// The steps whose results are kept, or the others.
static dnnl_status_t execute(const dnn_plan *p, bool once, const places *x) {
  dnnl_stream_t stream = NULL;
  dnnl_memory_t memory[DNN_MAX_SLOTS] = {0};
  dnnl_status_t s = dnnl_stream_create(&stream, p->engine, dnnl_stream_default_flags);
  for (int32_t i = 0; i < p->n_slots && s == dnnl_success; i++)
    s = dnnl_memory_create(&memory[i], DNN_DESC(p->slots[i].md), p->engine, bytes_of(&p->slots[i], x));
  for (int32_t i = 0; i < p->n_steps && s == dnnl_success; i++) {
    const dnn_step *step = &p->steps[i];
    dnnl_exec_arg_t args[DNN_MAX_ARGS];
    if (step->once != once) continue;
    if (!step->primitive) {
      dnn_pack_run(p, &step->pack, bytes_of(&p->slots[step->slots[0]], x), bytes_of(&p->slots[step->slots[1]], x));
      continue;
    }
    for (int32_t j = 0; j < step->n_args; j++) args[j] = (dnnl_exec_arg_t){step->args[j], memory[step->slots[j]]};
    s = dnnl_primitive_execute(step->primitive, stream, step->n_args, args);
  }
  if (s == dnnl_success) s = dnnl_stream_wait(stream);
  for (int32_t i = 0; i < p->n_slots; i++)
    if (memory[i]) dnnl_memory_destroy(memory[i]);
  if (stream) dnnl_stream_destroy(stream);
  return s;
}

static int32_t execute_with_threads(const dnn_plan *p, bool once, const places *x) {
  int32_t before = set_threads(p->threads);
  dnnl_status_t s = execute(p, once, x);
  set_threads(before);
  if (s == dnnl_success) return TC_STATUS_OK;
  char text[80];
  int n = snprintf(text, sizeof text, "oneDNN failed to run (status %d)", (int)s);
  p->host->diag(p->host->self, TC_STATUS_DEVICE, (tc_sv){text, (size_t)n});
  return s == dnnl_out_of_memory ? TC_STATUS_OUT_OF_MEMORY : TC_STATUS_DEVICE;
}

static int32_t run(void *prepared, tc_handle stream, const tc_view *operands, const tc_view *results,
                   tc_handle workspace, int64_t offset) {
  (void)stream;
  const dnn_plan *p = prepared;
  if (p->empty) return TC_STATUS_OK;
  places x = {operands, results, p->kept ? &operands[p->n_operands] : NULL, (char *)(uintptr_t)workspace + offset};
  return execute_with_threads(p, false, &x);
}

static int32_t kept(void *prepared, uint64_t *out_bytes) {
  const dnn_plan *p = prepared;
  *out_bytes = p->kept;
  return TC_STATUS_OK;
}

static int32_t keep(void *prepared, tc_handle stream, const tc_view *operands, const tc_view *to, tc_handle workspace,
                    int64_t offset) {
  (void)stream;
  return execute_with_threads(prepared, true, &(places){operands, NULL, to, (char *)(uintptr_t)workspace + offset});
}

static int32_t spent(void *prepared, uint64_t *out_operands) {
  const dnn_plan *p = prepared;
  *out_operands = p->constant;
  for (int32_t i = 0; i < p->n_steps; i++) {
    const dnn_step *step = &p->steps[i];
    int32_t n = step->primitive ? step->n_args : 1; // a packing step reads its first slot
    for (int32_t j = 0; j < n && !step->once; j++) {
      const dnn_slot *s = &p->slots[step->slots[j]];
      if (s->where == DNN_OPERAND) *out_operands &= ~(UINT64_C(1) << s->at);
    }
  }
  return TC_STATUS_OK;
}

static void destroy(void *prepared) {
  if (prepared) free_plan(prepared);
}

static const tc_call_table table = {
    .struct_size = sizeof table,
    .name = {"onednn", 6},
    .supports = supports,
    .prepare = prepare,
    .run = run,
    .destroy = destroy,
    .thread_safe = 1,
    .capture_safe = 1,
    .kept = kept,
    .keep = keep,
    .spent = spent,
};

const tc_call_table *tc_cpu_dnn_table(const tc_host *h);

TC_PLUGIN_EXPORT const tc_call_table *tc_cpu_dnn_table(const tc_host *h) {
  return tc_sdk_init(h) == TC_STATUS_OK ? &table : NULL;
}
