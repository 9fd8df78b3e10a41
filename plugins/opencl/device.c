// The device: finding, opening, what it can do, streams.
//
// Devices are numbered over all platforms, in the order of the ICD loader; the config key `platform` keeps those whose
// platform's name contains a text. Failures of launched kernels surface when the queue is waited for; the message then
// names the last launches, and the config key `sync` makes it exact.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opencl.h"

enum {
  MOST_PLATFORMS = 16,
  MOST_DEVICES = 64,
  MOST_LANES = 1024,
  SCRATCH_BYTES = 4096, // of local memory, for collectives, beside what kernels ask for
  LAUNCH_NS = 10000,
  CPU_FLOPS = 16, // per clock of a unit, as a guess
  GPU_FLOPS = 256,
  GPU_SUBGROUP = 32,
  CPU_BYTES_PER_NS = 20,
  GPU_BYTES_PER_NS = 300
};

#define TRY(expr)                                \
  do {                                           \
    int32_t status_ = (expr);                    \
    if (status_ != TC_STATUS_OK) return status_; \
  } while (0)

// ---- Finding ----
static int32_t usable(const cl_driver *c, cl_device d) {
  cl_uint available = 0, compiler = 0, little = 0;
  char version[256] = "";
  c->device_info(d, CL_DEVICE_AVAILABLE, sizeof available, &available, NULL);
  c->device_info(d, CL_DEVICE_HAS_COMPILER, sizeof compiler, &compiler, NULL);
  c->device_info(d, CL_DEVICE_LITTLE_ENDIAN, sizeof little, &little, NULL);
  if (c->device_info(d, CL_DEVICE_VERSION, sizeof version - 1, version, NULL) != CL_SUCCESS) return 0;
  // "OpenCL MAJOR.MINOR and what the vendor likes"
  static const char head[] = "OpenCL ";
  const size_t at = sizeof head - 1;
  int32_t recent = strncmp(version, head, at) == 0 &&
                   (version[at] >= '2' || (version[at] == '1' && version[at + 1] == '.' && version[at + 2] >= '2'));
  return available && compiler && little && recent;
}

// Fills at most MOST_DEVICES.
static int32_t find_devices(const tc_host *h, const cl_driver *c, cl_device *list, int32_t *out_n) {
  cl_platform platforms[MOST_PLATFORMS];
  cl_uint n = 0;
  char wish[128] = "", name[256];
  *out_n = 0;
  tc_host_config(h, "platform", wish, sizeof wish);
  cl_int code = c->platforms(MOST_PLATFORMS, platforms, &n);
  if (code == CL_PLATFORM_NOT_FOUND) return TC_STATUS_OK;
  TRY(cl_driver_check(h, "clGetPlatformIDs", code));
  for (cl_uint i = 0; i < n && i < MOST_PLATFORMS; i++) {
    cl_device found[MOST_DEVICES];
    cl_uint m = 0;
    memset(name, 0, sizeof name);
    c->platform_info(platforms[i], CL_PLATFORM_NAME, sizeof name - 1, name, NULL);
    if (!strstr(name, wish)) continue;
    code = c->devices(platforms[i], CL_DEVICE_TYPE_ALL, MOST_DEVICES, found, &m);
    if (code == CL_DEVICE_NOT_FOUND) continue;
    TRY(cl_driver_check(h, "clGetDeviceIDs", code));
    for (cl_uint k = 0; k < m && k < MOST_DEVICES && *out_n < MOST_DEVICES; k++) {
      if (usable(c, found[k])) list[(*out_n)++] = found[k];
    }
  }
  return TC_STATUS_OK;
}

static int32_t enumerate(const tc_host *h, int32_t *out_count) {
  cl_driver driver;
  cl_device list[MOST_DEVICES];
  *out_count = 0;
  TRY(cl_driver_open(h, &driver));
  return find_devices(h, &driver, list, out_count);
}

// ---- What it can do ----
static uint64_t number(const tc_device_ *d, cl_uint what) {
  uint64_t value = 0; // little-endian: narrower answers lie in the low bytes
  return d->driver.device_info(d->device, what, sizeof value, &value, NULL) == CL_SUCCESS ? value : 0;
}

static void text_of(const tc_device_ *d, cl_uint what, char *text, size_t size) {
  size_t need = 0;
  text[0] = 0;
  if (d->driver.device_info(d->device, what, 0, NULL, &need) != CL_SUCCESS || need > size) return;
  if (d->driver.device_info(d->device, what, size, text, NULL) != CL_SUCCESS) text[0] = 0;
  text[size - 1] = 0;
}

// Lanes in lock-step; 0 where a core runs one after the other. The config key `subgroup` says otherwise: tests make of
// a processor's driver a device whose kernels are those of GPUs.
static int32_t lock_step(const tc_device_ *d) {
  char wish[16];
  if (tc_host_config(d->host, "subgroup", wish, sizeof wish)) return (int32_t)strtol(wish, NULL, 10);
  if (!(number(d, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_GPU)) return 0;
  uint64_t lanes = number(d, CL_DEVICE_WARP_SIZE_NV);
  if (!lanes) lanes = number(d, CL_DEVICE_WAVEFRONT_WIDTH_AMD);
  return lanes && lanes <= MOST_LANES ? (int32_t)lanes : GPU_SUBGROUP;
}

// Of one buffer. Some drivers give more than they promise, and others put off what they cannot give until it is used.
// The config key `largest_alloc` is a bound: tests make of a device one whose buffers are small.
static void read_memory(tc_device_ *d) {
  tc_device_props *p = &d->props;
  char wish[32];
  p->memory_bytes = (int64_t)number(d, CL_DEVICE_MEMORY_BYTES);
  p->largest_alloc = (int64_t)number(d, CL_DEVICE_LARGEST_ALLOC);
  d->most_bytes = (uint64_t)p->memory_bytes;
  int64_t bound = tc_host_config(d->host, "largest_alloc", wish, sizeof wish) ? strtoll(wish, NULL, 10) : 0;
  if (bound <= 0) return;
  d->most_bytes = (uint64_t)bound;
  if (!p->largest_alloc || p->largest_alloc > bound) p->largest_alloc = bound;
}

#define BIT(t) (1ull << TC_##t)
static const uint64_t plain =
    BIT(BOOL) | BIT(U8) | BIT(I8) | BIT(I16) | BIT(I32) | BIT(I64) | BIT(U16) | BIT(U32) | BIT(U64) | BIT(F32);

// Operations of mma per clock of a unit: NVIDIA's large chips have more of them.
static int32_t tile_flops(int32_t major, int32_t minor) {
  return major >= 9 && major < 12 ? 2560 : major == 8 && minor == 0 ? 2048 : major >= 8 ? 1024 : 0;
}

static void read_properties(tc_device_ *d) {
  tc_device_props *p = &d->props;
  char extensions[8192], driver[256], name[256], version[256];
  size_t items[8] = {0};
  text_of(d, CL_DEVICE_EXTENSIONS, extensions, sizeof extensions);
  text_of(d, CL_DEVICE_DRIVER_VERSION, driver, sizeof driver);
  text_of(d, CL_DEVICE_VERSION, version, sizeof version);
  text_of(d, CL_DEVICE_NAME, name, sizeof name);
  int32_t wide = strstr(extensions, "cl_khr_fp64") != NULL,
          wide_atomics = strstr(extensions, "cl_khr_int64_base_atomics") != NULL;
  d->driver.device_info(d->device, CL_DEVICE_WORK_ITEM_SIZES, sizeof items, items, NULL);
  d->work_group = number(d, CL_DEVICE_WORK_GROUP_SIZE);
  if (items[0] && items[0] < d->work_group) d->work_group = items[0];
  d->parameter_bytes = number(d, CL_DEVICE_PARAMETER_BYTES);
  d->local_bytes = number(d, CL_DEVICE_LOCAL_BYTES);
  d->rounded_divide = (number(d, CL_DEVICE_SINGLE_FP) & CL_FP_ROUNDED_DIVIDE) != 0;
  int32_t cpu = (number(d, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU) != 0;
  uint64_t most_items = number(d, CL_DEVICE_ADDRESS_BITS) >= 64 ? UINT64_MAX : UINT32_MAX;

  snprintf(p->name, sizeof p->name, "%.127s", name);
  snprintf(p->target, sizeof p->target, "%.80s; %.60s; %.60s%s%s", name, version, driver, wide ? "; fp64" : "",
           wide_atomics ? "; int64 atomics" : "");
  read_memory(d);
  p->l2_bytes = (int64_t)number(d, CL_DEVICE_CACHE_BYTES);
  p->cores = (int32_t)number(d, CL_DEVICE_COMPUTE_UNITS);
  p->max_lanes = d->work_group < MOST_LANES ? (int32_t)d->work_group : MOST_LANES;
  p->shared_bytes = d->local_bytes > 2 * SCRATCH_BYTES ? (int64_t)d->local_bytes - SCRATCH_BYTES : SCRATCH_BYTES;
  p->max_blocks = most_items / MOST_LANES < INT32_MAX ? (int64_t)(most_items / MOST_LANES) : INT32_MAX;
  p->arithmetic = plain | (wide ? BIT(F64) : 0);
  p->dtypes = p->arithmetic | BIT(F16) | BIT(BF16);
  p->atomics =
      BIT(I32) | BIT(U32) | BIT(F32) | (wide_atomics ? BIT(I64) | BIT(U64) : 0) | (wide_atomics && wide ? BIT(F64) : 0);
  p->subgroup = lock_step(d);
  p->launch_ns = LAUNCH_NS;
  p->flops_per_ns = (int64_t)p->cores * (int64_t)number(d, CL_DEVICE_CLOCK_MHZ) * (cpu ? CPU_FLOPS : GPU_FLOPS) / 1000;
  p->bytes_per_ns = cpu ? CPU_BYTES_PER_NS : GPU_BYTES_PER_NS;
  uint64_t major = number(d, CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV);
  p->tile_flops_per_ns = (int64_t)p->cores * (int64_t)number(d, CL_DEVICE_CLOCK_MHZ) *
                         tile_flops((int32_t)major, (int32_t)number(d, CL_DEVICE_COMPUTE_CAPABILITY_MINOR_NV)) / 1000;
}

// ---- Opening ----
static int32_t start(tc_device_ *d, int32_t index) {
  cl_device list[MOST_DEVICES];
  int32_t n = 0;
  cl_int code = CL_SUCCESS;
  char text[100];
  TRY(cl_driver_open(d->host, &d->driver));
  TRY(find_devices(d->host, &d->driver, list, &n));
  if (index < 0 || index >= n) {
    snprintf(text, sizeof text, "there is no OpenCL device %d, only %d", (int)index, (int)n);
    return tc_host_report(d->host, TC_STATUS_OUT_OF_RANGE, text);
  }
  d->device = list[index];
  read_properties(d);
  d->context = d->driver.context_create(NULL, 1, &d->device, NULL, NULL, &code);
  TRY(opencl_check(d, "clCreateContext", code));
  opencl_choose_dialect(d);
  return TC_STATUS_OK;
}

static void close_device(tc_device_ *d) {
  if (d->context) d->driver.context_release(d->context);
  pthread_mutex_destroy(&d->lock);
  d->host->free(d->host->self, d);
}

static int32_t is_set(const tc_host *h, const char *key, int32_t otherwise) {
  char text[8];
  return tc_host_config(h, key, text, sizeof text) ? strcmp(text, "false") != 0 : otherwise;
}

static int32_t open_device(const tc_host *h, int32_t index, tc_device_ **out) {
  tc_device_ *d = h->alloc(h->self, sizeof *d);
  if (!d) return TC_STATUS_OUT_OF_MEMORY;
  d->host = h;
  d->sync = is_set(h, "sync", 0);
  d->profiling = is_set(h, "profiling", 1);
  pthread_mutex_init(&d->lock, NULL);
  int32_t s = start(d, index);
  if (s != TC_STATUS_OK) {
    close_device(d);
    return s;
  }
  *out = d;
  return TC_STATUS_OK;
}

static int32_t properties(tc_device_ *d, tc_device_props *out) {
  tc_answer_struct(&d->props, sizeof d->props, out);
  return TC_STATUS_OK;
}

// ---- Streams ----
static int32_t stream_create(tc_device_ *d, tc_handle *out) {
  cl_int code = CL_SUCCESS;
  *out =
      (tc_handle)(uintptr_t)d->driver.queue_create(d->context, d->device, d->profiling ? CL_QUEUE_PROFILING : 0, &code);
  return opencl_check(d, "clCreateCommandQueue", code);
}

static void stream_destroy(tc_device_ *d, tc_handle stream) {
  cl_queue q = (cl_queue)(uintptr_t)stream;
  d->driver.finish(q);
  d->driver.queue_release(q);
}

static int32_t synchronize(tc_device_ *d, tc_handle stream) {
  char what[400];
  cl_int code = d->driver.finish((cl_queue)(uintptr_t)stream);
  if (code == CL_SUCCESS) return TC_STATUS_OK;
  size_t at = (size_t)snprintf(what, sizeof what, "clFinish");
  pthread_mutex_lock(&d->lock);
  for (uint64_t i = 0; i < OPENCL_RECENT && i < d->n_launches; i++)
    at += (size_t)snprintf(what + at, sizeof what - at, "%s @%s", i ? "," : " after launching",
                           d->recent[(d->n_launches - 1 - i) % OPENCL_RECENT]);
  pthread_mutex_unlock(&d->lock);
  return opencl_check(d, what, code);
}

const tc_device_table opencl_device = {
    .struct_size = sizeof(tc_device_table),
    .enumerate = enumerate,
    .open = open_device,
    .close = close_device,
    .properties = properties,
    .alloc = opencl_alloc,
    .free = opencl_free,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .synchronize = synchronize,
    .copy_in = opencl_copy_in,
    .copy_out = opencl_copy_out,
    .copy = opencl_copy,
    .fill = opencl_fill,
    .module_load = opencl_module_load,
    .module_unload = opencl_module_unload,
    .function = opencl_module_function,
    .launch = opencl_launch,
    .event_create = opencl_event_create,
    .event_destroy = opencl_event_destroy,
    .event_record = opencl_event_record,
    .event_elapsed = opencl_event_elapsed,
    .memory_stats = opencl_memory_stats,
};
