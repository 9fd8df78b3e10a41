// A device with memory of its own and device graphs, for tests: the processor's plugin behind a table that keeps
// memory, streams and recordings apart and counts what is used wrongly. What is recorded is done by launches of the
// graph only. Products are calls of a library here, which records like the device.
#ifndef TESTS_UNIT_RUNTIME_RECORDER_H_
#define TESTS_UNIT_RUNTIME_RECORDER_H_

#include <pthread.h>

#include "core/runtime/session.h"
#include "tests/unit/unit.h"

typedef struct recorded {
  struct recorded *next;
  void (*act)(struct recorded *r); // NULL: a launch
  tc_launch launch;
  tc_launch_arg *args;
  tc_handle to, from;
  uint64_t size;
  uint8_t value;
  int64_t m, n, k; // products
  tc_handle scratch;
} recorded;

typedef struct recording {
  recorded *first, **last;
  bool open;
} recording;

typedef struct recorder {
  pthread_mutex_t lock;
  const tc_device_table *inner;
  tc_device_ *d;
  tc_handle stream; // the device's
  tc_device_calls calls;
  tc_pool *pool;
  int32_t faults, live_graphs, live_recordings, graph_launches, launches, library_runs, library_keeps;
  int32_t fail_begin, fail_end, fail_launch; // the how-manieth from now on fails; 0: none
  bool no_graphs;
  int64_t largest; // allocation; 0: no bound
} recorder;

static recorder rec;

static inline void rec_fault(void) { __atomic_add_fetch(&rec.faults, 1, __ATOMIC_RELAXED); }
static inline bool rec_fails(int32_t *counter) { return *counter > 0 && --*counter == 0; }
static inline recording *rec_of(tc_handle stream) {
  return stream == rec.stream || !stream ? NULL : (recording *)(uintptr_t)stream;
}
static inline void rec_add(recording *g, recorded r) {
  recorded *x = calloc(1, sizeof *x);
  *x = r;
  if (!g->open) rec_fault();
  *g->last = x, g->last = &x->next;
}

static inline void rec_free(recording *g) {
  for (recorded *r = g->first, *next; r; r = next) {
    next = r->next;
    free(r->args);
    free(r);
  }
  free(g);
}

// ---- The table ----
static int32_t rec_alloc(tc_device_ *d, uint64_t size, tc_handle *out) {
  (void)d;
  if (rec.largest && size > (uint64_t)rec.largest) return TC_STATUS_OUT_OF_MEMORY;
  char *p = aligned_alloc(64, (size + 63) / 64 * 64 + 64);
  memset(p, 0x5B, size);
  *out = (tc_handle)(uintptr_t)p;
  return TC_STATUS_OK;
}
static void rec_release(tc_device_ *d, tc_handle memory) { (void)d, free((void *)(uintptr_t)memory); }
static int32_t rec_synchronize(tc_device_ *d, tc_handle stream) {
  (void)d;
  if (rec_of(stream)) rec_fault();
  return TC_STATUS_OK;
}
static int32_t rec_copy_in(tc_device_ *d, tc_handle stream, tc_handle dst, int64_t at, const void *src, uint64_t size) {
  (void)d;
  if (rec_of(stream)) rec_fault();
  memcpy((char *)(uintptr_t)dst + at, src, size);
  return TC_STATUS_OK;
}
static int32_t rec_copy_out(tc_device_ *d, tc_handle stream, void *dst, tc_handle src, int64_t at, uint64_t size) {
  (void)d;
  if (rec_of(stream)) rec_fault();
  memcpy(dst, (const char *)(uintptr_t)src + at, size);
  return TC_STATUS_OK;
}
static void act_copy(recorded *r) { memmove((void *)(uintptr_t)r->to, (void *)(uintptr_t)r->from, r->size); }
static void act_fill(recorded *r) { memset((void *)(uintptr_t)r->to, r->value, r->size); }
static int32_t rec_do(tc_handle stream, recorded r) {
  if (rec_of(stream)) rec_add(rec_of(stream), r);
  else r.act(&r);
  return TC_STATUS_OK;
}
static int32_t rec_copy(tc_device_ *d, tc_handle stream, tc_handle dst, int64_t to, tc_handle src, int64_t from,
                        uint64_t size) {
  (void)d;
  return rec_do(stream,
                (recorded){.act = act_copy, .to = dst + (uint64_t)to, .from = src + (uint64_t)from, .size = size});
}
static int32_t rec_fill(tc_device_ *d, tc_handle stream, tc_handle dst, int64_t at, uint8_t value, uint64_t size) {
  (void)d;
  return rec_do(stream, (recorded){.act = act_fill, .to = dst + (uint64_t)at, .size = size, .value = value});
}
static int32_t rec_launch(tc_device_ *d, tc_handle stream, const tc_launch *l) {
  size_t n = (size_t)l->n_args;
  tc_launch own = *l;
  tc_launch_arg *args = calloc(n + 1, sizeof *args);
  memcpy(args, l->args, n * sizeof *args);
  for (size_t i = 0; i < n; i++)
    if (args[i].kind == TC_ARG_MEMORY) args[i].value += (uint64_t)args[i].offset, args[i].offset = 0;
  own.args = args;
  if (rec_of(stream)) {
    if (rec_fails(&rec.fail_launch)) {
      free(args);
      return TC_STATUS_DEVICE;
    }
    rec_add(rec_of(stream), (recorded){.launch = own, .args = args});
    return TC_STATUS_OK;
  }
  __atomic_add_fetch(&rec.launches, 1, __ATOMIC_RELAXED);
  int32_t s = rec.inner->launch(d, rec.stream, &own);
  free(args);
  return s;
}
static int32_t rec_graph_begin(tc_device_ *d, tc_handle *out) {
  (void)d;
  if (rec.no_graphs) return TC_STATUS_UNIMPLEMENTED;
  if (rec_fails(&rec.fail_begin)) return TC_STATUS_DEVICE;
  recording *g = calloc(1, sizeof *g);
  g->last = &g->first, g->open = true;
  *out = (tc_handle)(uintptr_t)g;
  __atomic_add_fetch(&rec.live_recordings, 1, __ATOMIC_RELAXED);
  return TC_STATUS_OK;
}
static int32_t rec_graph_end(tc_device_ *d, tc_handle stream, tc_handle *out) {
  (void)d;
  recording *g = rec_of(stream);
  if (!g || !g->open) rec_fault();
  g->open = false;
  __atomic_sub_fetch(&rec.live_recordings, 1, __ATOMIC_RELAXED);
  if (!out || rec_fails(&rec.fail_end)) {
    rec_free(g);
    return out ? TC_STATUS_DEVICE : TC_STATUS_OK;
  }
  __atomic_add_fetch(&rec.live_graphs, 1, __ATOMIC_RELAXED);
  *out = (tc_handle)(uintptr_t)g;
  return TC_STATUS_OK;
}
static int32_t rec_graph_launch(tc_device_ *d, tc_handle stream, tc_handle graph) {
  recording *g = (recording *)(uintptr_t)graph;
  if (rec_of(stream) || g->open) rec_fault();
  __atomic_add_fetch(&rec.graph_launches, 1, __ATOMIC_RELAXED);
  int32_t s = TC_STATUS_OK;
  pthread_mutex_lock(&rec.lock); // one after the other, as on a stream
  for (recorded *r = g->first; r && s == TC_STATUS_OK; r = r->next) {
    if (r->act) r->act(r);
    else s = rec.inner->launch(d, rec.stream, &r->launch);
  }
  pthread_mutex_unlock(&rec.lock);
  return s;
}
static void rec_graph_destroy(tc_device_ *d, tc_handle graph) {
  (void)d;
  __atomic_sub_fetch(&rec.live_graphs, 1, __ATOMIC_RELAXED);
  rec_free((recording *)(uintptr_t)graph);
}

// ---- Products ----
static void act_product(recorded *r) {
  const float *a = (const void *)(uintptr_t)r->from, *b = a;
  memcpy(&b, &r->launch.function, sizeof b);
  float *out = (void *)(uintptr_t)r->to, *sum = (void *)(uintptr_t)r->scratch;
  for (int64_t i = 0; i < r->m; i++) {
    memset(sum, 0, (size_t)r->n * sizeof *sum);
    for (int64_t k = 0; k < r->k; k++)
      for (int64_t j = 0; j < r->n; j++) sum[j] += a[i * r->k + k] * b[k * r->n + j];
    for (int64_t j = 0; j < r->n; j++) out[i * r->n + j] = r->value ? -sum[j] : sum[j];
  }
}
static bool rec_dense(const tc_view *v) {
  return v->dtype == TC_F32 && v->rank == 2 && v->strides && v->strides[1] == 1 &&
         (v->strides[0] == v->sizes[1] || v->strides[0] == INT64_MIN);
}
static int32_t rec_supports(const tc_host *h, tc_device_ *d, const tc_call_node *n, int64_t *out_cost) {
  (void)h, (void)d;
  *out_cost = -1;
  if (!tc_sv_is(n->op, "aten::mm") || n->n_operands != 2) return TC_STATUS_OK;
  if (rec_dense(&n->operands[0]) && rec_dense(&n->operands[1]) && rec_dense(n->results)) *out_cost = 1;
  return TC_STATUS_OK;
}
typedef struct product {
  int64_t m, n, k;
  bool constant; // the right factor, which is then kept with its sign turned
} product;
static int32_t rec_prepare(const tc_host *h, tc_device_ *d, const tc_call_node *n, void **out,
                           uint64_t *out_workspace) {
  (void)h, (void)d;
  product *p = calloc(1, sizeof *p);
  *p = (product){n->operands[0].sizes[0], n->operands[1].sizes[1], n->operands[0].sizes[1], n->constant >> 1 & 1};
  *out = p;
  *out_workspace = (uint64_t)p->n * sizeof(float);
  return TC_STATUS_OK;
}
static int32_t rec_run(void *prepared, tc_handle stream, const tc_view *a, const tc_view *out, tc_handle workspace,
                       int64_t at) {
  const product *p = prepared;
  recorded r = {.act = act_product, .m = p->m, .n = p->n, .k = p->k, .scratch = workspace + (uint64_t)at};
  r.from = a[0].memory + (uint64_t)a[0].offset, r.to = out->memory + (uint64_t)out->offset;
  const tc_view *b = &a[p->constant ? 2 : 1];
  if (p->constant && b->sizes[0] != p->k * p->n * (int64_t)sizeof(float)) rec_fault();
  r.launch.function = b->memory + (uint64_t)b->offset;
  r.value = p->constant;
  __atomic_add_fetch(&rec.library_runs, 1, __ATOMIC_RELAXED);
  return rec_do(stream, r);
}
static int32_t rec_kept(void *prepared, uint64_t *out_bytes) {
  const product *p = prepared;
  *out_bytes = p->constant ? (uint64_t)(p->k * p->n) * sizeof(float) : 0;
  return TC_STATUS_OK;
}
static int32_t rec_keep(void *prepared, tc_handle stream, const tc_view *a, const tc_view *kept, tc_handle workspace,
                        int64_t at) {
  const product *p = prepared;
  const float *from = (const void *)(uintptr_t)(a[1].memory + (uint64_t)a[1].offset);
  float *to = (void *)(uintptr_t)(kept->memory + (uint64_t)kept->offset), *scratch = (void *)(uintptr_t)workspace;
  if (rec_of(stream) || at || kept->sizes[0] != p->k * p->n * (int64_t)sizeof *to) rec_fault();
  memset(scratch, 0, (size_t)p->n * sizeof *scratch); // as large as for a run
  for (int64_t i = 0; i < p->k * p->n; i++) to[i] = -from[i];
  __atomic_add_fetch(&rec.library_keeps, 1, __ATOMIC_RELAXED);
  return TC_STATUS_OK;
}
static void rec_destroy(void *prepared) { free(prepared); }
static tc_call_table rec_products = {.struct_size = sizeof rec_products,
                                     .name = {"products", 8},
                                     .supports = rec_supports,
                                     .prepare = rec_prepare,
                                     .run = rec_run,
                                     .destroy = rec_destroy,
                                     .thread_safe = 1,
                                     .capture_safe = 1,
                                     .preferred = 1,
                                     .kept = rec_kept,
                                     .keep = rec_keep};

// ---- In place of the processor's device ----
static tc_status rec_pool_alloc(void *self, size_t size, uint64_t *out) {
  (void)self;
  if (rec_alloc(NULL, size, out) == TC_STATUS_OK) return TC_OK;
  return tc_error(TC_STATUS_OUT_OF_MEMORY, "%zu bytes are too many at once", size);
}
static void rec_pool_free(void *self, uint64_t memory) { (void)self, rec_release(NULL, memory); }

// The context's device becomes this one, which gives at most `largest` bytes at once (0: any number); nothing may have
// run on it yet.
static inline tc_status rec_install_small(tc_device *d, const tc_allocator *a, int64_t largest) {
  static tc_device_table table;
  rec = (recorder){.lock = PTHREAD_MUTEX_INITIALIZER, .inner = d->plugin->device, .d = d->handle, .stream = d->stream};
  rec.largest = d->props.largest_alloc = largest;
  table = *d->plugin->device;
  table.alloc = rec_alloc, table.free = rec_release, table.synchronize = rec_synchronize;
  table.copy_in = rec_copy_in, table.copy_out = rec_copy_out, table.copy = rec_copy, table.fill = rec_fill;
  table.launch = rec_launch;
  table.graph_begin = rec_graph_begin, table.graph_end = rec_graph_end, table.graph_launch = rec_graph_launch,
  table.graph_destroy = rec_graph_destroy;
  d->plugin->device = &table; // the plugin is the context's own
  rec.calls = (tc_device_calls){d->plugin, &rec_products};
  d->calls = &rec.calls, d->n_calls = 1;
  d->props.host_memory = 0;
  rec_products.capture_safe = 1;
  return tc_pool_create(a, (tc_pool_source){NULL, rec_pool_alloc, rec_pool_free, largest}, 1 << 28, &d->memory);
}
static inline tc_status rec_install(tc_device *d, const tc_allocator *a) { return rec_install_small(d, a, 0); }

#endif
