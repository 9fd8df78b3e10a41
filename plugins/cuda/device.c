// The device: finding, opening, what it can do, streams.
//
// The primary context is shared with other users of the driver in the process. Failures of launched kernels surface at
// the next synchronisation; the driver does not say whose they are, so the message names the last launches, and the
// config key `sync` makes it exact.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"
#include "library.h"

int32_t cuda_report(const tc_host *h, int32_t code, const char *text) {
  h->diag(h->self, code, (tc_sv){text, strlen(text)});
  return code;
}

int32_t cuda_check(const tc_device_ *d, const char *what, cu_result code) {
  char text[300];
  if (code == CU_OK) return TC_STATUS_OK;
  int32_t s = cuda_driver_error(&d->driver, what, code, text, sizeof text);
  return cuda_report(d->host, s, text);
}

int32_t cuda_enter(tc_device_ *d) {
  if (d->runs) return cuda_check(d, "cuCtxSetCurrent", d->driver.context_set(d->context));
  return cuda_report(d->host, TC_STATUS_DEVICE,
                     "this device only compiles: the config key cuda.arch names an architecture, not a device");
}

int32_t cuda_open_once(tc_device_ *d, cuda_library *library, cuda_opener open, int32_t code) {
  pthread_mutex_lock(&d->library_lock);
  if (library->state == 0) library->state = open(d, library->text, sizeof library->text) == TC_STATUS_OK ? 1 : -1;
  int32_t state = library->state; // it and the text stay
  pthread_mutex_unlock(&d->library_lock);
  return state == 1 ? TC_STATUS_OK : cuda_report(d->host, code, library->text);
}

int32_t cuda_open_running(tc_device_ *d, cuda_library *library, cuda_opener open) {
  if (!d->runs) return TC_STATUS_UNIMPLEMENTED;
  int32_t s = cuda_enter(d);
  return s == TC_STATUS_OK ? cuda_open_once(d, library, open, TC_STATUS_UNIMPLEMENTED) : s;
}

#define TRY(expr)                                \
  do {                                           \
    int32_t status_ = (expr);                    \
    if (status_ != TC_STATUS_OK) return status_; \
  } while (0)

// ---- Finding ----
static int32_t enumerate(const tc_host *h, int32_t *out_count) {
  char text[600];
  cuda_driver driver;
  *out_count = 0;
  if (cuda_config(h, "arch", text, sizeof text)) {
    *out_count = 1;
    return TC_STATUS_OK;
  }
  int32_t s = cuda_driver_open(h, &driver, text, sizeof text);
  if (s != TC_STATUS_OK) return cuda_report(h, s, text);
  cu_result code = driver.device_count(out_count);
  if (code == CU_OK) return TC_STATUS_OK;
  *out_count = 0;
  s = cuda_driver_error(&driver, "cuDeviceGetCount", code, text, sizeof text);
  return cuda_report(h, s, text);
}

// ---- What it can do ----
static const uint64_t types = 1ull << TC_BOOL | 1ull << TC_U8 | 1ull << TC_I8 | 1ull << TC_I16 | 1ull << TC_I32 |
                              1ull << TC_I64 | 1ull << TC_U16 | 1ull << TC_U32 | 1ull << TC_U64 | 1ull << TC_F16 |
                              1ull << TC_BF16 | 1ull << TC_F32 | 1ull << TC_F64;
static const uint64_t no_arithmetic = 1ull << TC_F16 | 1ull << TC_BF16;
static const uint64_t atomics =
    1ull << TC_I32 | 1ull << TC_U32 | 1ull << TC_I64 | 1ull << TC_U64 | 1ull << TC_F32 | 1ull << TC_F64;

// Static shared memory is used for the scratch of collectives, beside what kernels ask for.
enum { SCRATCH_BYTES = 4096, LAUNCH_NS = 2500, LANES_PER_SM = 128 };

// Operations of mma per clock of a multiprocessor, by architecture: large chips have more of them.
static int32_t tile_flops(const char *arch) {
  long number = strtol(arch + 3, NULL, 10); // "sm_90"
  return number >= 90 && number < 120 ? 2560 : number == 80 ? 2048 : number >= 80 ? 1024 : 0;
}

static void common_properties(tc_device_props *p, const char *arch) {
  p->subgroup = 32;
  p->tile_flops_per_ns = p->flops_per_ns * tile_flops(arch) / (2 * LANES_PER_SM);
  if (p->tile_flops_per_ns) p->tiles = 1ull << TC_BF16 | 1ull << TC_F16;
  p->dtypes = types;
  p->arithmetic = types & ~no_arithmetic;
  p->atomics = atomics;
  p->launch_ns = LAUNCH_NS;
}

// Architectures as their whitepapers state them: multiprocessors, shared memory per block, second-level cache, f32
// operations and bytes per nanosecond.
typedef struct known_arch {
  const char *arch;
  int32_t cores, shared_kib, l2_mib;
  int64_t flops_per_ns, bytes_per_ns;
} known_arch;
static const known_arch known[] = {{"sm_80", 108, 163, 40, 19500, 1555},   {"sm_86", 84, 99, 6, 35600, 768},
                                   {"sm_89", 128, 99, 72, 82600, 1008},    {"sm_90", 132, 227, 50, 66900, 3350},
                                   {"sm_100", 148, 227, 126, 80000, 8000}, {"sm_120", 188, 99, 96, 104800, 1792}};

static int32_t open_arch(tc_device_ *d, const char *arch) {
  char text[300];
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    const known_arch *k = &known[i];
    if (strcmp(k->arch, arch) != 0) continue;
    snprintf(d->arch, sizeof d->arch, "%s", arch);
    d->props = (tc_device_props){.l2_bytes = (int64_t)k->l2_mib << 20,
                                 .memory_bytes = 16ll << 30,
                                 .largest_alloc = 16ll << 30,
                                 .cores = k->cores,
                                 .max_lanes = 1024,
                                 .shared_bytes = (int64_t)k->shared_kib * 1024 - SCRATCH_BYTES,
                                 .max_blocks = INT32_MAX,
                                 .flops_per_ns = k->flops_per_ns,
                                 .bytes_per_ns = k->bytes_per_ns};
    snprintf(d->props.name, sizeof d->props.name, "%s, compiled for only", arch);
    snprintf(d->props.target, sizeof d->props.target, "%s", arch);
    common_properties(&d->props, arch);
    return TC_STATUS_OK;
  }
  snprintf(text, sizeof text, "cuda.arch = '%.20s' is not known; sm_80, sm_86, sm_89, sm_90, sm_100, sm_120 are", arch);
  return cuda_report(d->host, TC_STATUS_INVALID_ARGUMENT, text);
}

static int64_t attribute(const tc_device_ *d, int number) {
  int value = 0;
  return d->driver.device_attribute(&value, number, d->device) == CU_OK ? value : 0;
}

static int32_t read_properties(tc_device_ *d) {
  tc_device_props *p = &d->props;
  size_t bytes = 0;
  TRY(cuda_check(d, "cuDeviceGetName", d->driver.device_name(p->name, sizeof p->name, d->device)));
  TRY(cuda_check(d, "cuDeviceTotalMem", d->driver.device_memory(&bytes, d->device)));
  snprintf(d->arch, sizeof d->arch, "sm_%d%d", (int)attribute(d, CU_ATTR_MAJOR), (int)attribute(d, CU_ATTR_MINOR));
  snprintf(p->target, sizeof p->target, "%s", d->arch);
  p->memory_bytes = p->largest_alloc = (int64_t)bytes;
  p->l2_bytes = attribute(d, CU_ATTR_L2_BYTES);
  p->cores = (int32_t)attribute(d, CU_ATTR_SMS);
  p->max_lanes = (int32_t)attribute(d, CU_ATTR_MAX_THREADS);
  p->shared_bytes = attribute(d, CU_ATTR_SHARED_OPTIN) - SCRATCH_BYTES;
  if (p->shared_bytes < 16384) p->shared_bytes = 16384;
  p->max_blocks = attribute(d, CU_ATTR_MAX_GRID_X);
  p->flops_per_ns = (int64_t)p->cores * LANES_PER_SM * 2 * attribute(d, CU_ATTR_CLOCK_KHZ) / 1000000;
  // Two transfers per clock.
  p->bytes_per_ns = attribute(d, CU_ATTR_MEMORY_KHZ) * attribute(d, CU_ATTR_BUS_BITS) / 8 * 2 / 1000000;
  common_properties(p, d->arch);
  d->pools = attribute(d, CU_ATTR_POOLS) != 0;
  d->dependent = cuda_can_depend(d, attribute(d, CU_ATTR_MAJOR));
  return TC_STATUS_OK;
}

// ---- Opening ----
static int32_t open_driver(tc_device_ *d, int32_t index) {
  char text[600];
  int32_t s = cuda_driver_open(d->host, &d->driver, text, sizeof text);
  if (s != TC_STATUS_OK) return cuda_report(d->host, s, text);
  TRY(cuda_check(d, "cuDeviceGet", d->driver.device_get(&d->device, index)));
  TRY(read_properties(d));
  cuda_open_ahead(d);
  TRY(cuda_check(d, "cuDevicePrimaryCtxRetain", d->driver.context_retain(&d->context, d->device)));
  d->runs = 1;
  if (!d->pools) return TC_STATUS_OK;
  // Memory that was freed stays with the pool: the host's own pools decide what is kept.
  cu_pool pool;
  uint64_t all = UINT64_MAX;
  if (d->driver.pool_get(&pool, d->device) == CU_OK) d->driver.pool_set(pool, CU_POOL_RELEASE_THRESHOLD, &all);
  return TC_STATUS_OK;
}

static void close_device(tc_device_ *d) {
  cuda_wait(&d->opening);
  cuda_wait(&d->asking);
  if (d->runs && d->driver.context_set(d->context) == CU_OK) {
    cuda_memory_close(d);
    for (int32_t i = 0; i < CUDA_ATTENTIONS; i++) {
      if (d->attention[i].module) d->driver.module_unload(d->attention[i].module);
    }
    for (int32_t i = 0; i < CUDA_HALVES; i++) {
      if (d->half[i].module) d->driver.module_unload(d->half[i].module);
    }
    if (d->split.module) d->driver.module_unload(d->split.module);
    if (d->turn.module) d->driver.module_unload(d->turn.module);
    if (d->blas_library.state == 1) d->blas.destroy(d->blas.handle);
    if (d->dnn_library.state == 1) d->dnn.destroy(d->dnn.handle);
  }
  if (d->runs) d->driver.context_release(d->device);
  pthread_mutex_destroy(&d->opening.lock);
  pthread_mutex_destroy(&d->asking.lock);
  pthread_mutex_destroy(&d->library_lock);
  pthread_mutex_destroy(&d->dnn_lock);
  pthread_mutex_destroy(&d->fft_lock);
  pthread_mutex_destroy(&d->own_lock);
  pthread_mutex_destroy(&d->memory_lock);
  pthread_mutex_destroy(&d->recent_lock);
  d->host->free(d->host->self, d);
}

static int32_t open_device(const tc_host *h, int32_t index, tc_device_ **out) {
  char arch[16], sync[8];
  tc_device_ *d = h->alloc(h->self, sizeof *d);
  if (!d) return TC_STATUS_OUT_OF_MEMORY;
  d->host = h;
  d->sync = cuda_config(h, "sync", sync, sizeof sync) && strcmp(sync, "false") != 0;
  pthread_mutex_init(&d->opening.lock, NULL);
  pthread_mutex_init(&d->asking.lock, NULL);
  pthread_mutex_init(&d->library_lock, NULL);
  pthread_mutex_init(&d->dnn_lock, NULL);
  pthread_mutex_init(&d->fft_lock, NULL);
  pthread_mutex_init(&d->own_lock, NULL);
  pthread_mutex_init(&d->memory_lock, NULL);
  pthread_mutex_init(&d->recent_lock, NULL);
  int32_t s = cuda_config(h, "arch", arch, sizeof arch) ? open_arch(d, arch) : open_driver(d, index);
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
  cu_stream stream = NULL;
  *out = 1;
  if (!d->runs) return TC_STATUS_OK;
  TRY(cuda_enter(d));
  TRY(cuda_check(d, "cuStreamCreate", d->driver.stream_create(&stream, CU_STREAM_NON_BLOCKING)));
  pthread_mutex_lock(&d->memory_lock);
  d->n_streams++;
  d->stream = d->n_streams == 1 ? stream : NULL;
  pthread_mutex_unlock(&d->memory_lock);
  *out = (tc_handle)(uintptr_t)stream;
  return TC_STATUS_OK;
}

static void stream_destroy(tc_device_ *d, tc_handle handle) {
  cu_stream stream = (cu_stream)(uintptr_t)handle;
  if (!d->runs || cuda_enter(d) != TC_STATUS_OK) return;
  pthread_mutex_lock(&d->memory_lock);
  d->n_streams--;
  if (d->stream == stream) d->stream = NULL;
  pthread_mutex_unlock(&d->memory_lock);
  d->driver.stream_destroy(stream);
}

static int32_t synchronize(tc_device_ *d, tc_handle stream) {
  char what[400] = "cuStreamSynchronize";
  TRY(cuda_enter(d));
  cu_result code = d->driver.stream_synchronize((cu_stream)(uintptr_t)stream);
  if (code == CU_OK) return TC_STATUS_OK;
  size_t at = (size_t)snprintf(what, sizeof what, "after launching");
  pthread_mutex_lock(&d->recent_lock);
  for (uint64_t i = 0; i < CUDA_RECENT && i < d->n_launches; i++)
    at += (size_t)snprintf(what + at, sizeof what - at, "%s @%s", i ? "," : "",
                           d->recent[(d->n_launches - 1 - i) % CUDA_RECENT]);
  pthread_mutex_unlock(&d->recent_lock);
  return cuda_check(d, what, code);
}

// ---- Libraries ----
static int32_t put_library(const tc_sink *text, const char *name, const cuda_library *l) {
  char line[700];
  int n = snprintf(line, sizeof line, "%s %s%s\n", name, l->state == 1 ? "" : "not usable: ", l->text);
  return text->write(text->self, line, (uint64_t)n);
}

static int32_t libraries(tc_device_ *d, const tc_sink *text) {
  cuda_compiler(d);
  TRY(put_library(text, "NVRTC", &d->compiler_library));
  if (!d->runs) return TC_STATUS_OK; // nor does it look for others
  cuda_blas_ready(d);
  TRY(put_library(text, "cuBLASLt", &d->blas_library));
  cuda_dnn_ready(d);
  TRY(put_library(text, "cuDNN", &d->dnn_library));
  cuda_fft_ready(d);
  return put_library(text, "cuFFT", &d->fft_library);
}

const tc_device_table cuda_device = {
    .struct_size = sizeof(tc_device_table),
    .enumerate = enumerate,
    .open = open_device,
    .close = close_device,
    .properties = properties,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .synchronize = synchronize,
    .copy_in = cuda_copy_in,
    .copy_out = cuda_copy_out,
    .copy = cuda_copy,
    .fill = cuda_fill,
    .module_load = cuda_module_load,
    .module_unload = cuda_module_unload,
    .function = cuda_module_function,
    .launch = cuda_launch,
    .graph_begin = cuda_graph_begin,
    .graph_end = cuda_graph_end,
    .graph_launch = cuda_graph_launch,
    .graph_destroy = cuda_graph_destroy,
    .event_create = cuda_event_create,
    .event_destroy = cuda_event_destroy,
    .event_record = cuda_event_record,
    .event_elapsed = cuda_event_elapsed,
    .memory_stats = cuda_memory_stats,
    .libraries = libraries,
};
