// A tiny plugin for the loader's tests: a "device" whose memory is the host's, one call table, two ops, a code
// generator that writes kernels' names. FAULT picks what is wrong with it.
#include <stdio.h>
#include <string.h>

#include "tc/plugin.h"

#define FAULT_NONE 0
#define FAULT_OLD 1       // speaks major version 0
#define FAULT_NEW 2       // needs a minor that does not exist yet
#define FAULT_SHORT 3     // its description ends before 1.0 does
#define FAULT_SLOT 4      // the device has no copy_in
#define FAULT_HASH 5      // was built with other kernel headers, before they were locked
#define FAULT_EXTRA 6     // exports a second symbol
#define FAULT_REFUSES 7   // does not want to
#define FAULT_OVERRUN 8   // writes a longer description than there is room for
#define FAULT_NAME 9      // calls itself otherwise than its manifest
#define FAULT_PROMISE 10  // offers less than its manifest says
#define FAULT_CODE 11     // the query fails with a reason through diag
#define FAULT_LONG 12     // not a fault: longer structs of a later minor
#define FAULT_TABLE 13    // not a fault: a shorter device table, optional slots missing
#define FAULT_EXTENDS 14  // not a fault: extensions that nobody knows, experimental ones of these and of other headers
#define FAULT_RING 15     // its list of extensions has no end
#define FAULT_TEMPLATE 16 // a template without emit
#define FAULT_DELEGATE 18 // a delegate without a table
#define FAULT_CLAIM 19    // a delegate without `run`
#define FAULT_DESTROY 17  // a call table without destroy
#define FAULT_LATER 20    // not a fault: other kernel headers of a version that has them locked
#define FAULT_UNSIZED 21  // a device table without a size
#define FAULT_CUT 22      // a device table that ends before what kernels need
#define FAULT_UNNAMED 23  // leaves the description as it came
#define FAULT_IDLE 24     // not a fault for the loader: no table behind a capability

static tc_sv sv(const char *z) { return (tc_sv){z, strlen(z)}; }

// ---- device ----
struct tc_device_ {
  const tc_host *host;
  int32_t index;
};

static int32_t enumerate(const tc_host *h, int32_t *out_count) {
  tc_sv n = h->config(h->self, sv("devices"));
  *out_count = n.size == 1 ? n.data[0] - '0' : 1;
  return TC_STATUS_OK;
}

static int32_t open_device(const tc_host *h, int32_t index, tc_device_ **out) {
  int32_t n;
  enumerate(h, &n);
  if (index < 0 || index >= n) {
    char text[64];
    snprintf(text, sizeof text, "there is no device %d, only %d", index, n);
    h->diag(h->self, TC_STATUS_OUT_OF_RANGE, sv(text));
    return TC_STATUS_OUT_OF_RANGE;
  }
  tc_device_ *d = h->alloc(h->self, sizeof *d);
  if (!d) return TC_STATUS_OUT_OF_MEMORY;
  d->host = h;
  d->index = index;
  h->log(h->self, 12, sv("sample opened"));
  *out = d;
  return TC_STATUS_OK;
}

static void close_device(tc_device_ *d) { d->host->free(d->host->self, d); }
static int32_t properties(tc_device_ *d, tc_device_props *out) {
  tc_device_props p = {
      .struct_size = sizeof p, .memory_bytes = 1 << 20, .host_memory = 1, .cores = d->host->threads(d->host->self)};
  snprintf(p.name, sizeof p.name, "sample %d", d->index);
  memcpy(out, &p, out->struct_size < sizeof p ? out->struct_size : sizeof p);
  return TC_STATUS_OK;
}
static int32_t alloc(tc_device_ *d, uint64_t size, tc_handle *out) {
  *out = (tc_handle)(uintptr_t)d->host->alloc(d->host->self, size);
  return *out ? TC_STATUS_OK : TC_STATUS_OUT_OF_MEMORY;
}
static void free_memory(tc_device_ *d, tc_handle m) { d->host->free(d->host->self, (void *)(uintptr_t)m); }
static int32_t stream_create(tc_device_ *d, tc_handle *out) {
  (void)d;
  *out = 1;
  return TC_STATUS_OK;
}
static void stream_destroy(tc_device_ *d, tc_handle s) { (void)d, (void)s; }
static int32_t synchronize(tc_device_ *d, tc_handle s) {
  (void)d, (void)s;
  return TC_STATUS_DEVICE; // without a word
}
#if FAULT != FAULT_SLOT
static int32_t copy_in(tc_device_ *d, tc_handle s, tc_handle dst, int64_t at, const void *src, uint64_t size) {
  (void)d, (void)s;
  memcpy((char *)(uintptr_t)dst + at, src, size);
  return TC_STATUS_OK;
}
#endif
static int32_t copy_out(tc_device_ *d, tc_handle s, void *dst, tc_handle src, int64_t at, uint64_t size) {
  (void)d, (void)s;
  memcpy(dst, (char *)(uintptr_t)src + at, size);
  return TC_STATUS_OK;
}
static int32_t copy(tc_device_ *d, tc_handle s, tc_handle dst, int64_t da, tc_handle src, int64_t sa, uint64_t size) {
  return copy_out(d, s, (char *)(uintptr_t)dst + da, src, sa, size);
}

// Fills in parallel, through the host's threads.
typedef struct filling {
  uint8_t *at, value;
} filling;
static void fill_range(void *arg, int64_t begin, int64_t end) {
  filling *f = arg;
  memset(f->at + begin, f->value, (size_t)(end - begin));
}
static int32_t fill(tc_device_ *d, tc_handle s, tc_handle dst, int64_t at, uint8_t value, uint64_t size) {
  (void)s;
  filling f = {(uint8_t *)(uintptr_t)dst + at, value};
  d->host->parallel_for(d->host->self, (int64_t)size, 16, fill_range, &f);
  return TC_STATUS_OK;
}
static int32_t module_load(tc_device_ *d, const void *blob, uint64_t size, tc_handle *out) {
  (void)d, (void)blob, (void)size;
  *out = 2;
  return TC_STATUS_OK;
}
static void module_unload(tc_device_ *d, tc_handle m) { (void)d, (void)m; }
static int32_t function(tc_device_ *d, tc_handle m, tc_sv name, tc_handle *out) {
  (void)d, (void)m, (void)name;
  *out = 3;
  return TC_STATUS_OK;
}
static int32_t launch(tc_device_ *d, tc_handle s, const tc_launch *l) {
  (void)d, (void)s, (void)l;
  return TC_STATUS_OK;
}

static const tc_device_table device = {
#if FAULT == FAULT_TABLE || FAULT == FAULT_CUT
    .struct_size = offsetof(tc_device_table, module_load),
#elif FAULT == FAULT_UNSIZED
    .struct_size = 0,
#else
    .struct_size = sizeof(tc_device_table),
#endif
    .enumerate = enumerate,
    .open = open_device,
    .close = close_device,
    .properties = properties,
    .alloc = alloc,
    .free = free_memory,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .synchronize = synchronize,
#if FAULT != FAULT_SLOT
    .copy_in = copy_in,
#endif
    .copy_out = copy_out,
    .copy = copy,
    .fill = fill,
    .module_load = module_load,
    .module_unload = module_unload,
    .function = function,
    .launch = launch,
};

// ---- codegen: the kernels' names and lanes ----
static int32_t compile(const tc_host *h, tc_device_ *d, const tc_kernel *const *kernels, int32_t n, int32_t optimize,
                       const tc_sink *sink, const tc_sink *text) {
  (void)h, (void)d, (void)optimize, (void)text;
  for (int32_t i = 0; i < n; i++) {
    char line[128];
    tc_sv name = tc_k_name(kernels[i]);
    int size = snprintf(line, sizeof line, "%.*s/%d;", (int)name.size, name.data, tc_k_lanes(kernels[i]));
    int32_t code = sink->write(sink->self, line, (uint64_t)size);
    if (code) return code;
  }
  return TC_STATUS_OK;
}
static int32_t key(const tc_host *h, tc_device_ *d, const tc_sink *sink) {
  (void)h, (void)d;
  return sink->write(sink->self, "sample-1", 8);
}
static const tc_codegen_table codegen = {sizeof(tc_codegen_table), compile, key, {0}};

// ---- calls ----
static int32_t supports(const tc_host *h, tc_device_ *d, const tc_call_node *n, int64_t *out_cost) {
  (void)d, (void)n;
  h->diag(h->self, TC_STATUS_OK, sv("sizes are odd"));
  *out_cost = -1;
  return TC_STATUS_OK;
}
static int32_t prepare(const tc_host *h, tc_device_ *d, const tc_call_node *n, void **out, uint64_t *out_workspace) {
  (void)h, (void)d, (void)n;
  *out = NULL;
  *out_workspace = 0;
  return TC_STATUS_OK;
}
static int32_t run(void *p, tc_handle s, const tc_view *operands, const tc_view *results, tc_handle w, int64_t at) {
  (void)p, (void)s, (void)operands, (void)results, (void)w, (void)at;
  return TC_STATUS_OK;
}
#if FAULT != FAULT_DESTROY
static void destroy(void *p) { (void)p; }
#endif

#if FAULT == FAULT_LONG
// As a later minor would declare it.
typedef struct longer_op {
  tc_op_def now;
  uint64_t later[3];
} longer_op;
static const longer_op ops[] = {
    {{.struct_size = sizeof(longer_op), .schema = "sample::one(Tensor x) -> Tensor"}, {7, 7, 7}},
    {{.struct_size = sizeof(longer_op), .schema = "sample::two(Tensor x) -> Tensor"}, {7, 7, 7}},
};
#else
// one(x, n): x repeated n times along its first dimension. two(x): six times, as one of one.
static int32_t repeated(tc_op_args *a, tc_int times) {
  const tc_tensor_type *x = tc_op_tensor(a, 0);
  tc_int sizes[TC_MAX_RANK];
  if (x->rank == 0) return tc_op_fail(a, "'x' (%s) has no dimension to repeat along %s", tc_op_shape_text(a, 0), "it");
  for (int32_t i = 0; i < x->rank; i++) sizes[i] = x->sizes[i];
  sizes[0] = tc_int_mul(a, sizes[0], times);
  return tc_op_set_result(a, 0, x->dtype, x->rank, sizes, NULL);
}
static int32_t meta_one(tc_op_args *a) { return repeated(a, tc_op_sym(a, 1)); }
static int32_t meta_two(tc_op_args *a) { return repeated(a, tc_int_const(a, 6)); }
static int32_t expand_two(tc_op_args *a) {
  tc_gv v = tc_ex_arg(a, 0);
  for (int64_t n = 2; n <= 3; n++) {
    tc_ex_begin(a, "sample::one");
    tc_ex_push(a, v);
    tc_ex_push_int(a, tc_int_const(a, n));
    v = tc_ex_make(a, 1, NULL);
  }
  tc_ex_result(a, 0, v);
  return TC_STATUS_OK;
}
static const tc_op_def ops[] = {
    {.struct_size = sizeof(tc_op_def), .schema = "sample::one(Tensor x, int n) -> Tensor", .meta = meta_one},
    {.struct_size = sizeof(tc_op_def),
     .schema = "sample::two(Tensor x) -> Tensor",
     .meta = meta_two,
     .expand = expand_two},
};
#endif

#if FAULT == FAULT_CLAIM
static int32_t claim(const tc_host *h, const tc_delegate_graph *g, int32_t *parts) {
  (void)h, (void)g, (void)parts;
  return TC_STATUS_OK;
}
#endif
#if FAULT == FAULT_TEMPLATE
static int32_t candidates(const tc_stage *s, int32_t max, tc_stage_config *out, int32_t *out_n) {
  (void)s, (void)max, (void)out;
  *out_n = 0;
  return TC_STATUS_OK;
}
#endif

#if FAULT == FAULT_EXTRA
TC_PLUGIN_EXPORT int sample_extra(void);
int sample_extra(void) { return 1; }
#endif

int32_t tc_plugin_query(const tc_host *h, tc_plugin_desc *out) {
  // The host copies the tables after the query, when its locals are gone.
  static const tc_call_table call = {.struct_size = sizeof call,
                                     .name = {"sample library", sizeof "sample library" - 1},
                                     .supports = supports,
                                     .prepare = prepare,
                                     .run = run,
#if FAULT != FAULT_DESTROY
                                     .destroy = destroy,
#endif
                                     .thread_safe = 1};
  static const tc_call_table *const calls[] = {&call};
  tc_plugin_desc d = {
      .name = sv("sample"),
      .vendor = sv("tests"),
      .version = sv("7.8"),
      .build_id = sv("b1"),
      .capabilities = TC_CAP_DEVICE | TC_CAP_CODEGEN | TC_CAP_CALLS | TC_CAP_OPS,
      .kernel_abi_hash = TC_KERNEL_ABI_HASH,
      .device = &device,
      .codegen = &codegen,
      .calls = calls,
      .n_calls = 1,
      .ops = (const tc_op_def *)ops,
      .n_ops = 2,
  };
#if FAULT == FAULT_EXTENDS
  static tc_extension foreign = {TC_EXT_EXPERIMENTAL | 9, sizeof foreign, NULL, 1};
  static tc_extension trial = {TC_EXT_EXPERIMENTAL | 8, sizeof trial, &foreign, 0};
  static struct {
    tc_extension head;
    uint64_t more[2];
  } unknown = {{7, sizeof unknown, &trial, 0}, {70, 71}};
  trial.header_hash = TC_KERNEL_ABI_HASH;
  d.extensions = &unknown.head;
#elif FAULT == FAULT_RING
  static tc_extension ring = {7, sizeof ring, &ring, 0};
  d.extensions = &ring;
#elif FAULT == FAULT_DELEGATE
  d.capabilities |= TC_CAP_DELEGATE;
#elif FAULT == FAULT_CLAIM
  static const tc_delegate_table idle = {.struct_size = sizeof idle, .claim = claim};
  static const tc_delegate_extension delegate = {{TC_EXT_DELEGATE, sizeof delegate, NULL, 0}, &idle};
  d.capabilities |= TC_CAP_DELEGATE;
  d.extensions = &delegate.head;
#elif FAULT == FAULT_TEMPLATE
  static const tc_template_table half = {.struct_size = sizeof half, .name = {"half", 4}, .candidates = candidates};
  static const tc_template_table *const templates[] = {&half};
  d.capabilities |= TC_CAP_TEMPLATES;
  d.templates = templates;
  d.n_templates = 1;
#elif FAULT == FAULT_HASH || FAULT == FAULT_LATER
  d.kernel_abi_hash ^= 1;
#elif FAULT == FAULT_REFUSES
  snprintf(d.refusal, sizeof d.refusal, "not on this machine");
#elif FAULT == FAULT_NAME
  d.name = sv("other");
#elif FAULT == FAULT_PROMISE
  d.capabilities &= ~(uint64_t)TC_CAP_CALLS;
#elif FAULT == FAULT_TABLE
  d.capabilities = TC_CAP_DEVICE;
#elif FAULT == FAULT_IDLE
  d.n_calls = 0;
#elif FAULT == FAULT_UNNAMED
  return (void)d, (void)out, tc_sdk_init(h);
#elif FAULT == FAULT_CODE
  h->diag(h->self, TC_STATUS_DEVICE, sv("the driver is missing"));
  return TC_STATUS_DEVICE;
#endif
  int32_t code = tc_sdk_answer(h, &d, out);
#if FAULT == FAULT_OLD
  out->abi_major = 0;
#elif FAULT == FAULT_NEW
  out->abi_minor_low = out->abi_minor_high = 999;
#elif FAULT == FAULT_SHORT
  out->struct_size = offsetof(tc_plugin_desc, device);
#elif FAULT == FAULT_OVERRUN
  memset((char *)out + out->struct_size, 0, 16);
#elif FAULT == FAULT_HASH
  out->abi_minor_high = TC_ABI_KERNELS_LOCKED - 1;
#elif FAULT == FAULT_LONG
  out->struct_size += 64;
#endif
  return code;
}
