// The SDK's template with one rule broken: the key `faults.fault` says which. The kit must name the rule
// (tests/cli/conform_faults.test). The template's sources are linked as they are; number.c with the names of two
// functions changed, so that what is here comes between.
#include <pthread.h>
#include <string.h>

#include "sdk/template/template.h"

// Is this the fault that was asked for? Short names fit into the value that the host lends.
static int32_t has(const tc_host *h, const char *fault) {
  char text[40] = "";
  return tc_host_config(h, "fault", text, sizeof text) && strcmp(text, fault) == 0;
}
// Of the device that is open: numbers know no device.
static const tc_host *opened;
static int32_t is(const char *fault) { return opened && has(opened, fault); }

// ---- Numbers ----
number true_compute(int32_t op, tc_dtype t, number x, number y, number z);
number true_cast(tc_dtype from, tc_dtype to, number v);
void true_write(tc_dtype t, void *at, number v);

number number_compute(int32_t op, tc_dtype t, number x, number y, number z) {
  number v = true_compute(op, t, x, y, z);
  const int32_t real = number_is_float(t), fused = op == TC_K_FMA && real;
  if (is("division") && op == TC_K_DIV && !real && v.i < 0) v.i--; // rounds down
  if (is("nan") && op == TC_K_MIN && real && x.f != x.f) return y;
  if (is("fused") && fused) return true_compute(TC_K_ADD, t, true_compute(TC_K_MUL, t, x, y, y), z, z);
  if (is("branch") && op == TC_K_EQ) v.i = !v.i;
  if (is("maximum") && op == TC_K_MAX) return true_compute(TC_K_MIN, t, x, y, y);
  if (is("lost") && op == TC_K_ADD && z.i == y.i && y.i) return y;
  if (is("shared") && op == TC_K_SUB && t == TC_I32) v.i += v.i > 0 ? -1 : 0;
  if (is("wrong") && (op == TC_K_MUL || fused) && real) v.f *= 1.01;
  return v;
}
number number_cast(tc_dtype from, tc_dtype to, number v) {
  if (is("truth") && to == TC_BOOL && number_is_float(from)) v.f = (double)(v.f > 0.75);
  return true_cast(from, to, v);
}
void number_write(tc_dtype t, void *at, number v) {
  if (is("wide") && number_bytes(t) == 1) memcpy(at, &v.i, 2);
  else true_write(t, at, v);
}

// ---- The device ----
static int32_t open_device(const tc_host *h, int32_t index, tc_device_ **out) {
  opened = h;
  if (has(h, "silent") && index != 0) return TC_STATUS_OUT_OF_RANGE;
  if (has(h, "leak")) (void)!h->alloc(h->self, 16);
  return template_device.open(h, index, out);
}

static int32_t properties(tc_device_ *d, tc_device_props *out) {
  if (is("behind")) {
    tc_device_props p = {.struct_size = sizeof p};
    template_device.properties(d, &p);
    p.struct_size = out->struct_size;
    *out = p;
    return TC_STATUS_OK;
  }
  int32_t code = template_device.properties(d, out);
  if (is("boast") && out->struct_size == sizeof *out) out->flops_per_ns = out->bytes_per_ns = 1000000000000;
  return code;
}

static int32_t memory_stats(tc_device_ *d, tc_memory_stats *out) {
  tc_memory_stats room = {.struct_size = sizeof room};
  int32_t code = template_device.memory_stats(d, &room);
  if (is("uncounted")) room.used_bytes = 0;
  room.struct_size = out->struct_size;
  if (is("roomy")) *out = room;
  else tc_answer_struct(&room, sizeof room, out);
  return code;
}

static int32_t event_elapsed(tc_device_ *d, tc_handle from, tc_handle to, double *out_ns) {
  int32_t code = template_device.event_elapsed(d, is("backwards") ? to : from, is("backwards") ? from : to, out_ns);
  if (is("picoseconds")) *out_ns *= 1000;
  return code;
}

static int32_t alloc(tc_device_ *d, uint64_t size, tc_handle *out) {
  static tc_handle kept;
  int32_t code = TC_STATUS_OK;
  if (is("one") && size == 64 && kept) *out = kept; // two instances, one memory
  else if (is("twice") && size == 3) *out = kept;   // two allocations, one handle
  else code = template_device.alloc(d, size, out);
  if (code == TC_STATUS_OK && (size == 64 || size == 1)) kept = *out;
  return is("code") && code ? TC_STATUS_INTERNAL : code;
}
static void free_memory(tc_device_ *d, tc_handle m) {
  if (!is("one") && !is("twice")) template_device.free(d, m);
}
// Writes to what it only reads.
static int32_t copy_in(tc_device_ *d, tc_handle s, tc_handle dst, int64_t to, const void *src, uint64_t size) {
  union {
    const void *borrowed;
    uint8_t *bytes;
  } source = {.borrowed = src};
  int32_t code = template_device.copy_in(d, s, dst, to, src, size);
  if (is("scribble") && size == 6 * 5 * sizeof(float)) source.bytes[0] ^= 1;
  return code;
}
// Delivers a matrix of 6 × 8 numbers row by row, whatever its strides.
static int32_t copy_out(tc_device_ *d, tc_handle s, void *dst, tc_handle src, int64_t from, uint64_t size) {
  enum { ROWS = 6, COLUMNS = 8 };
  float columns[COLUMNS][ROWS], *rows = dst;
  int32_t code = template_device.copy_out(d, s, dst, src, from, size);
  if (!is("row_major") || size != sizeof columns) return code;
  memcpy(columns, dst, sizeof columns);
  for (int32_t i = 0; i < ROWS * COLUMNS; i++) rows[i] = columns[i % COLUMNS][i / COLUMNS];
  return code;
}
static int32_t copy(tc_device_ *d, tc_handle s, tc_handle dst, int64_t to, tc_handle src, int64_t from, uint64_t size) {
  if (is("order") && size == 1 << 20) return TC_STATUS_OK;
  return template_device.copy(d, s, dst, to, src, is("copy") ? 0 : from, size);
}
static int32_t fill(tc_device_ *d, tc_handle s, tc_handle dst, int64_t at, uint8_t value, uint64_t size) {
  if (is("stream") && size == 1000) return TC_STATUS_OK;
  return template_device.fill(d, s, dst, at, (uint8_t)(value + (is("thread") && size == 300)), size);
}
static int32_t function_(tc_device_ *d, tc_handle module, tc_sv name, tc_handle *out) {
  int32_t code = template_device.function(d, module, name, out);
  return is("found") ? TC_STATUS_OK : code;
}
static int32_t launch(tc_device_ *d, tc_handle s, const tc_launch *l) {
  static uint64_t first; // the first scalar that was ever given
  tc_launch mine = *l;
  tc_launch_arg args[64];
  if (is("check")) mine.errors = 0;
  if (is("stale") && l->n_args <= 64) {
    memcpy(args, l->args, (size_t)l->n_args * sizeof *args);
    mine.args = args;
    for (int32_t i = 0; i < l->n_args; i++) {
      if (args[i].kind != TC_ARG_SCALAR) continue;
      if (!first) first = args[i].value;
      args[i].value = first;
    }
  }
  return template_device.launch(d, s, &mine);
}

// ---- Graphs ----
static int32_t graph_begin(tc_device_ *d, tc_handle *out) {
  return is("eager") ? template_device.stream_create(d, out) : template_device.graph_begin(d, out);
}
static int32_t graph_launch(tc_device_ *d, tc_handle s, tc_handle graph) {
  return is("idle") ? TC_STATUS_OK : template_device.graph_launch(d, s, graph);
}

// ---- Code ----
static int32_t compile(const tc_host *h, tc_device_ *d, const tc_kernel *const *kernels, int32_t n, int32_t optimize,
                       const tc_sink *sink, const tc_sink *text) {
  for (int32_t i = 0; i < n && is("guess"); i++)
    if (tc_k_later_op(kernels[i]) >= 0) return sink->write(sink->self, "what may it mean", 16);
  for (int32_t i = 0; i < n && is("claim"); i++)
    for (tc_kmem m = 0; m < tc_k_mem_count(kernels[i]); m++) {
      tc_kmem_info info;
      tc_k_mem(kernels[i], m, &info);
      if (info.dtype == TC_F32) return tc_host_report(h, TC_STATUS_UNIMPLEMENTED, "this compiler has no f32");
    }
  return template_codegen.compile(h, d, kernels, n, optimize, sink, text);
}
static int32_t key(const tc_host *h, tc_device_ *d, const tc_sink *sink) {
  static int32_t asked;
  char again = (char)('a' + asked++ % 26);
  return is("key") ? sink->write(sink->self, &again, 1) : template_codegen.key(h, d, sink);
}
static const tc_codegen_table codegen = {.struct_size = sizeof codegen, .compile = compile, .key = key};

// ---- Ops ----
static int32_t meta(tc_op_args *a) {
  return tc_op_pointwise_result(a, 0, tc_op_tensor(a, 0)->dtype, 1, (const int32_t[]){0});
}
static double cube(double x) { return x * x * x; }
static const tc_scalar_ref reference = {.f1 = cube};
#define ROW(body_, grad_, ref_)                         \
  {                                                     \
      {.struct_size = sizeof(tc_op_def),                \
       .schema = "faults::cube(Tensor self) -> Tensor", \
       .traits = TC_OP_POINTWISE,                       \
       .meta = meta,                                    \
       .body = body_,                                   \
       .grad = grad_,                                   \
       .scalar_ref = ref_,                              \
       .samples = "f64[5]; f64[2, 3]"},                 \
  }
#define GRAD(n) "self: mul(grad, mul(mul(self, self), " #n "))"
static const tc_op_def right[] = ROW("self * self * self", GRAD(3), &reference),
                       other_body[] = ROW("self * self", GRAD(3), &reference),
                       other_grad[] = ROW("self * self * self", GRAD(2), &reference),
                       unknown_function[] = ROW("cube(self)", GRAD(3), &reference),
                       other_label[] = ROW("self * self * self", "other: grad", &reference),
                       no_arrow[] = {{.struct_size = sizeof(tc_op_def),
                                      .schema = "faults::cube(Tensor self)",
                                      .meta = meta,
                                      .scalar_ref = &reference}},
                       no_reference[] = ROW("self * self * self", GRAD(3), NULL);

// ---- The handshake ----
static void describe(const tc_host *h, const tc_device_table *device, tc_plugin_desc *d) {
  static const char builds[] = "ab";
  static int32_t asked;
  const char *build = builds + (has(h, "impure") ? asked++ % 2 : 0);
  *d = (tc_plugin_desc){.name = {"faults", 6},
                        .vendor = {"tests", 5},
                        .version = {"1", 1},
                        .build_id = {build, has(h, "anonymous") ? 0 : 1},
                        .capabilities = TC_CAP_DEVICE | TC_CAP_CODEGEN | TC_CAP_OPS,
                        .kernel_abi_hash = TC_KERNEL_ABI_HASH,
                        .device = device,
                        .codegen = &codegen,
                        .ops = has(h, "body")           ? other_body
                               : has(h, "derivative")   ? other_grad
                               : has(h, "no_reference") ? no_reference
                               : has(h, "function")     ? unknown_function
                               : has(h, "label")        ? other_label
                               : has(h, "schema")       ? no_arrow
                                                        : right,
                        .n_ops = 1};
  if (has(h, "hidden")) d->capabilities |= TC_CAP_CALLS;
}

// Says no to hosts that a plugin must answer, or yes to what is none.
static int32_t refuses(const tc_host *h, const tc_plugin_desc *out) {
  static const tc_host *first;
  static pthread_t thread;
  static int32_t offended;
  if (!first) first = h, thread = pthread_self();
  if (has(h, "one_host") && h != first) return 1;
  if (has(h, "one_thread") && !pthread_equal(thread, pthread_self())) return 1;
  if (has(h, "same_minor") && h->abi_minor > TC_ABI_MINOR) return 1;
  if (has(h, "no_older") && h->abi_minor < TC_ABI_MINOR) return 1;
  offended |= out->struct_size < sizeof *out;
  return has(h, "grudge") && offended;
}

TC_PLUGIN_EXPORT int32_t tc_plugin_query(const tc_host *h, tc_plugin_desc *out) {
  static tc_device_table device;
  tc_plugin_desc d;
  if (refuses(h, out)) return TC_STATUS_MISMATCH;
  device = template_device;
  device.open = open_device, device.properties = properties, device.alloc = alloc, device.free = free_memory;
  device.copy_in = copy_in, device.copy_out = copy_out;
  device.copy = copy, device.fill = fill, device.function = function_, device.launch = launch;
  device.memory_stats = memory_stats, device.event_elapsed = event_elapsed;
  device.graph_begin = graph_begin, device.graph_launch = graph_launch;
  describe(h, &device, &d);
  if (has(h, "credulous")) {
    tc_host believed = *h;
    believed.magic = out->magic = TC_ABI_MAGIC;
    believed.abi_major = TC_ABI_MAJOR;
    return tc_sdk_answer(&believed, &d, out);
  }
  int32_t code = tc_sdk_answer(h, &d, out);
  if (has(h, "overrun") && code == TC_STATUS_OK && out->struct_size) {
    d.magic = TC_ABI_MAGIC, d.abi_major = TC_ABI_MAJOR, d.abi_minor_high = TC_ABI_MINOR, d.struct_size = sizeof d;
    memcpy(out, &d, sizeof d);
  }
  return code;
}
