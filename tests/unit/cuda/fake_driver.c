// A driver for tests: the functions that the cuda plugin uses, over host memory, with every handle checked.
//
// Streams run late: copies, fills and launches are queued and done when the stream or an event behind them is waited
// for, so that memory that is reused or freed too early is seen. Memory freed in stream order is freed in that order.
// There are two devices with a context each; what was made in one may not be used while the other is current.
//
// Whoever runs a whole program over it finds what was launched, and what went wrong, in the file that the environment's
// FAKE_DRIVER_TRACE names.
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

#define EXPORT __attribute__((visibility("default")))
enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_CONTEXT = 201, NOT_FOUND = 500 };

typedef enum kind { NONE, STREAM, EVENT, MODULE, FUNCTION, MEMORY, PINNED, GRAPH, EXECUTABLE } kind;
struct operation;
typedef struct object {
  struct object *next;
  const void *context; // that it was made in
  kind kind;
  bool live;
  uint64_t size; // memory
  unsigned char *data;
  int64_t pending;                 // pinned: queued copies that use it
  uint64_t ticket;                 // events: the operation that they stand behind
  char name[128];                  // functions
  bool timed, recorded;            // events
  bool capturing;                  // streams
  struct operation *first, **last; // streams that capture, graphs
} object;

typedef enum what { COPY_IN, COPY_OUT, COPY, FILL, FREE, LAUNCH, WORK } what;
typedef struct operation {
  struct operation *next;
  uint64_t ticket;
  what what;
  unsigned char *to;
  const unsigned char *from;
  size_t size;
  unsigned char value;
  object *pinned, *freed;
  object *function; // LAUNCH
  // WORK: what a library does; it reads so many bytes.
  void (*work)(void *self);
  void *self;
  size_t reads;
} operation;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static fake_state state;
static object *objects;
static operation *first, **last = &first;
static uint64_t tickets;
enum { DEVICES = 2 };
static struct { // a context, and a device's memory pool
  int32_t held;
  uint64_t most;
} devices[DEVICES];
static _Thread_local void *current;
static int32_t n_params, param_bytes[64];
static char failing[64];
static int32_t fail_after, fail_code;

static FILE *trace;
__attribute__((constructor)) static void open_trace(void) {
  const char *path = getenv("FAKE_DRIVER_TRACE");
  if (path) trace = fopen(path, "w");
}
__attribute__((destructor)) static void close_trace(void) {
  if (!trace) return;
  fprintf(trace, "%d launches, %d of graphs, %d faults %s\n", state.launches, state.graph_launches, state.faults,
          state.fault);
  fclose(trace);
}

static void fault(const char *text) {
  if (state.faults++ == 0) snprintf(state.fault, sizeof state.fault, "%s", text);
}

static object *make(kind k) {
  object *o = calloc(1, sizeof *o);
  o->kind = k, o->live = true, o->context = current, o->next = objects, objects = o;
  return o;
}

static object *at_home(object *o) {
  if (o->context != current) fault("what belongs to one device is used on the other");
  return o;
}

static object *check(void *handle, kind k, const char *text) {
  for (object *o = objects; o; o = o->next) {
    if (o == handle && o->kind == k && o->live) return at_home(o);
  }
  fault(text);
  return NULL;
}

// The allocation that holds [at, at + size).
static object *holder(const void *at, size_t size, kind k, const char *text) {
  for (object *o = objects; o; o = o->next) {
    if (o->kind != k || !o->live || (const unsigned char *)at < o->data) continue;
    if ((const unsigned char *)at + size <= o->data + o->size) return at_home(o);
  }
  fault(text);
  return NULL;
}

static int begin(const char *function) {
  pthread_mutex_lock(&lock);
  if (failing[0] && strcmp(failing, function) == 0 && fail_after-- == 0) {
    failing[0] = 0;
    pthread_mutex_unlock(&lock);
    return fail_code;
  }
  if (!current) {
    fault("no current context");
    pthread_mutex_unlock(&lock);
    return INVALID_CONTEXT;
  }
  return OK;
}
#define BEGIN(function)            \
  do {                             \
    int code_ = begin(function);   \
    if (code_ != OK) return code_; \
  } while (0)
static int end(int code) {
  pthread_mutex_unlock(&lock);
  return code;
}

// ---- The queue ----
static operation *append(operation o) {
  operation *op = calloc(1, sizeof *op);
  *op = o;
  op->ticket = ++tickets, op->next = NULL;
  *last = op, last = &op->next;
  return op;
}

// On a stream that captures: into its recording.
static operation *push(object *stream, what w, void *to, const void *from, size_t size) {
  operation o = {.what = w, .to = to, .from = from, .size = size};
  if (!stream || !stream->capturing) return append(o);
  if (w == COPY_IN || w == COPY_OUT || w == FREE) fault("recorded what is not for graphs");
  operation *op = calloc(1, sizeof *op);
  *op = o;
  *stream->last = op, stream->last = &op->next;
  return op;
}

static void drop_operations(object *o) {
  for (operation *op = o->first, *next; op; op = next) {
    next = op->next;
    free(op);
  }
  o->first = NULL;
}

static void run_until(uint64_t ticket) {
  while (first && first->ticket <= ticket) {
    operation *op = first;
    first = op->next;
    if (!first) last = &first;
    if (op->what == FILL) memset(op->to, op->value, op->size);
    else if (op->what == FREE) free(op->freed->data), op->freed->data = NULL, op->freed->size = 0;
    else if (op->what == WORK) op->work(op->self);
    else if (op->what != LAUNCH) memmove(op->to, op->from, op->size);
    if (op->pinned) op->pinned->pending--;
    free(op);
  }
}

// ---- For the tests ----
EXPORT const fake_state *fake_state_of(void) { return &state; }
EXPORT void fake_set_params(int32_t n, const int32_t *bytes) {
  n_params = n;
  if (n) memcpy(param_bytes, bytes, (size_t)n * sizeof *bytes);
}
EXPORT void fake_be_of(int32_t version) { state.version = version; }
EXPORT void fake_fail(const char *function, int32_t after, int32_t code) {
  snprintf(failing, sizeof failing, "%s", function ? function : "");
  fail_after = after, fail_code = code;
}

// ---- The driver ----
EXPORT int cuInit(unsigned flags) { return (int)flags; }
EXPORT int cuDriverGetVersion(int *v) { return *v = state.version ? state.version : 13000, OK; }
EXPORT int cuGetErrorName(int code, const char **text) {
  *text = code == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_OTHER";
  return OK;
}
EXPORT int cuGetErrorString(int code, const char **text) { return *text = "as the test said", (void)code, OK; }
EXPORT int cuDeviceGetCount(int *n) { return *n = DEVICES, OK; }
EXPORT int cuDeviceGet(int *device, int index) {
  return *device = index, index >= 0 && index < DEVICES ? OK : INVALID_VALUE;
}
EXPORT int cuDeviceGetName(char *name, int size, int device) {
  return snprintf(name, (size_t)size, "Fake GPU %d", device), OK;
}
EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device) { return *bytes = (size_t)8 << 30, (void)device, OK; }
EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device) {
  static const int values[128] = {
      [1] = 1024,      [5] = 2147483647, [13] = 1500000, [16] = 100,    [36] = 1000000, [37] = 4096,
      [38] = 50 << 20, [75] = 9,         [76] = 0,       [97] = 232448, [115] = 1};
  (void)device;
  *value = attribute >= 0 && attribute < 128 ? values[attribute] : 0;
  return OK;
}
EXPORT int cuDevicePrimaryCtxRetain(void **context, int device) {
  pthread_mutex_lock(&lock);
  state.contexts++, devices[device].held++;
  *context = &devices[device];
  return end(OK);
}
EXPORT int cuDevicePrimaryCtxRelease_v2(int device) {
  pthread_mutex_lock(&lock);
  state.contexts--;
  if (--devices[device].held < 0) fault("a context released twice");
  return end(OK);
}
EXPORT int cuCtxSetCurrent(void *context) { return current = context, OK; }
// Pools have the addresses of contexts.
EXPORT int cuDeviceGetDefaultMemPool(void **pool, int device) { return *pool = &devices[device], OK; }
static int32_t is_pool(const void *pool) { return pool == &devices[0] || pool == &devices[1]; }
EXPORT int cuMemPoolSetAttribute(void *pool, int attribute, void *value) {
  return is_pool(pool) && attribute == 4 && value ? OK : INVALID_VALUE;
}

static int allocate(uint64_t *out, size_t size, int32_t *counter) {
  if (size == 0) return end(INVALID_VALUE);
  object *o = make(MEMORY);
  o->data = aligned_alloc(256, (size + 255) / 256 * 256);
  if (!o->data) return end(OUT_OF_MEMORY);
  memset(o->data, 0xAB, size);
  o->size = size;
  *out = (uint64_t)(uintptr_t)o->data;
  state.allocations++;
  if (counter) ++*counter;
  return end(OK);
}
EXPORT int cuMemAlloc_v2(uint64_t *out, size_t size) {
  BEGIN("cuMemAlloc_v2");
  return allocate(out, size, NULL);
}
EXPORT int cuMemAllocAsync(uint64_t *out, size_t size, void *stream) {
  BEGIN("cuMemAllocAsync");
  object *o = check(stream, STREAM, "allocation on a stream that does not live");
  if (o && o->capturing) fault("an allocation on a stream that captures");
  return allocate(out, size, &state.async_allocations);
}

static object *take_out(uint64_t memory) {
  object *o = holder((void *)(uintptr_t)memory, 1, MEMORY, "memory freed that does not live");
  if (!o) return NULL;
  if (o->data != (void *)(uintptr_t)memory) fault("memory freed by another address than it was given out with");
  o->live = false;
  state.allocations--;
  return o;
}
EXPORT int cuMemFree_v2(uint64_t memory) {
  BEGIN("cuMemFree_v2");
  object *o = take_out(memory);
  run_until(tickets);
  if (o) free(o->data), o->data = NULL, o->size = 0;
  return end(o ? OK : INVALID_VALUE);
}
EXPORT int cuMemFreeAsync(uint64_t memory, void *stream) {
  BEGIN("cuMemFreeAsync");
  object *on = check(stream, STREAM, "memory freed on a stream that does not live"), *o = take_out(memory);
  if (o) push(on, FREE, NULL, NULL, 0)->freed = o;
  return end(o ? OK : INVALID_VALUE);
}

EXPORT int cuMemHostAlloc(void **out, size_t size, unsigned flags) {
  (void)flags;
  BEGIN("cuMemHostAlloc");
  object *o = make(PINNED);
  *out = o->data = malloc(size);
  o->size = size;
  state.pinned++;
  return end(OK);
}
EXPORT int cuMemFreeHost(void *p) {
  BEGIN("cuMemFreeHost");
  object *o = holder(p, 1, PINNED, "pinned memory freed that does not live");
  if (o) {
    if (o->pending) fault("pinned memory freed while a copy uses it");
    free(o->data), o->data = NULL, o->size = 0, o->live = false;
    state.pinned--;
  }
  return end(OK);
}

EXPORT int cuMemGetInfo_v2(size_t *unused, size_t *total) {
  BEGIN("cuMemGetInfo_v2");
  *total = (size_t)8 << 30, *unused = (size_t)7 << 30;
  return end(OK);
}
EXPORT int cuMemPoolGetAttribute(void *pool, int attribute, void *value) {
  BEGIN("cuMemPoolGetAttribute");
  uint64_t used = 0;
  if (!is_pool(pool) || (attribute != 7 && attribute != 8)) return end(INVALID_VALUE);
  for (object *o = objects; o; o = o->next) used += o->kind == MEMORY && o->live && o->context == pool ? o->size : 0;
  uint64_t *most = &devices[pool == &devices[1]].most;
  if (used > *most) *most = used;
  memcpy(value, attribute == 7 ? &used : most, sizeof used);
  return end(OK);
}

static int make_object(void **out, kind k, int32_t *counter) {
  *out = make(k);
  ++*counter;
  return end(OK);
}
static int destroy_object(void *handle, kind k, int32_t *counter, const char *text) {
  object *o = check(handle, k, text);
  if (!o) return end(INVALID_VALUE);
  o->live = false;
  --*counter;
  return end(OK);
}
EXPORT int cuStreamCreate(void **out, unsigned flags) {
  BEGIN("cuStreamCreate");
  if (flags != 1) fault("a stream that waits for the default one");
  return make_object(out, STREAM, &state.streams);
}
EXPORT int cuStreamDestroy_v2(void *s) {
  BEGIN("cuStreamDestroy_v2");
  object *o = check(s, STREAM, "a stream destroyed that does not live");
  if (o && o->last) drop_operations(o); // it was only for a recording
  else run_until(tickets);
  return destroy_object(s, STREAM, &state.streams, "a stream destroyed that does not live");
}
EXPORT int cuStreamSynchronize(void *s) {
  BEGIN("cuStreamSynchronize");
  object *o = check(s, STREAM, "waiting for a stream that does not live");
  if (o && o->capturing) fault("waiting for a stream that captures");
  run_until(tickets);
  return end(OK);
}
EXPORT int cuEventCreate(void **out, unsigned flags) {
  BEGIN("cuEventCreate");
  object *o = make(EVENT);
  o->timed = (flags & 2) == 0;
  *out = o;
  state.events++;
  return end(OK);
}
// A millisecond for each operation between them.
EXPORT int cuEventElapsedTime(float *out, void *from, void *to) {
  BEGIN("cuEventElapsedTime");
  object *a = check(from, EVENT, "time from an event that does not live"),
         *b = check(to, EVENT, "time to an event that does not live");
  if (!a || !b) return end(INVALID_VALUE);
  if (!a->timed || !b->timed || !a->recorded || !b->recorded) fault("time of an event without one");
  if (first && first->ticket <= b->ticket) fault("time of an event that is still to come");
  *out = (float)(b->ticket - a->ticket);
  return end(OK);
}
EXPORT int cuEventDestroy_v2(void *e) {
  BEGIN("cuEventDestroy_v2");
  return destroy_object(e, EVENT, &state.events, "an event destroyed that does not live");
}
EXPORT int cuEventRecord(void *e, void *s) {
  BEGIN("cuEventRecord");
  object *o = check(e, EVENT, "an event recorded that does not live");
  check(s, STREAM, "an event recorded on a stream that does not live");
  if (o) o->ticket = tickets, o->recorded = true;
  return end(OK);
}
EXPORT int cuEventSynchronize(void *e) {
  BEGIN("cuEventSynchronize");
  object *o = check(e, EVENT, "waiting for an event that does not live");
  if (o) run_until(o->ticket);
  return end(OK);
}

EXPORT int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t size, void *s) {
  BEGIN("cuMemcpyHtoDAsync_v2");
  object *on = check(s, STREAM, "a copy on a stream that does not live");
  holder((void *)(uintptr_t)to, size, MEMORY, "a copy to the device beyond an allocation");
  object *pinned = holder(from, size, PINNED, "a copy from memory that is not pinned");
  operation *op = push(on, COPY_IN, (void *)(uintptr_t)to, from, size);
  if (pinned) op->pinned = pinned, pinned->pending++;
  return end(OK);
}
EXPORT int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t size, void *s) {
  BEGIN("cuMemcpyDtoHAsync_v2");
  object *on = check(s, STREAM, "a copy on a stream that does not live");
  holder((void *)(uintptr_t)from, size, MEMORY, "a copy from the device beyond an allocation");
  object *pinned = holder(to, size, PINNED, "a copy to memory that is not pinned");
  if (pinned && pinned->pending) fault("a pinned buffer is used by two copies at once");
  operation *op = push(on, COPY_OUT, to, (void *)(uintptr_t)from, size);
  if (pinned) op->pinned = pinned, pinned->pending++;
  return end(OK);
}
EXPORT int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t size, void *s) {
  BEGIN("cuMemcpyDtoDAsync_v2");
  object *on = check(s, STREAM, "a copy on a stream that does not live");
  holder((void *)(uintptr_t)to, size, MEMORY, "a copy beyond an allocation");
  holder((void *)(uintptr_t)from, size, MEMORY, "a copy from beyond an allocation");
  push(on, COPY, (void *)(uintptr_t)to, (void *)(uintptr_t)from, size);
  return end(OK);
}
EXPORT int cuMemsetD8Async(uint64_t to, unsigned char value, size_t size, void *s) {
  BEGIN("cuMemsetD8Async");
  object *on = check(s, STREAM, "a fill on a stream that does not live");
  holder((void *)(uintptr_t)to, size, MEMORY, "a fill beyond an allocation");
  push(on, FILL, (void *)(uintptr_t)to, NULL, size)->value = value;
  return end(OK);
}

// Of a library's, in the order of a stream; `self` stays with the library.
EXPORT int fake_work(void *s, fake_work_part part) {
  BEGIN("fake_work");
  object *on = check(s, STREAM, "a library works on a stream that does not live");
  holder(part.to, part.writes, MEMORY, "a library writes beyond an allocation");
  holder(part.from, part.reads, MEMORY, "a library reads beyond an allocation");
  operation *op = push(on, WORK, part.to, part.from, part.writes);
  op->reads = part.reads, op->work = part.work, op->self = part.self;
  return end(OK);
}

// ---- Graphs ----
EXPORT int cuStreamBeginCapture_v2(void *s, int mode) {
  BEGIN("cuStreamBeginCapture_v2");
  object *o = check(s, STREAM, "a capture of a stream that does not live");
  if (!o) return end(INVALID_VALUE);
  if (o->capturing) fault("a capture within a capture");
  if (mode != 2) fault("a capture that disturbs others");
  o->capturing = true, o->last = &o->first;
  return end(OK);
}
EXPORT int cuStreamEndCapture(void *s, void **graph) {
  BEGIN("cuStreamEndCapture");
  object *o = check(s, STREAM, "the end of a capture of a stream that does not live");
  if (!o || !o->capturing) return end(INVALID_VALUE);
  object *g = make(GRAPH);
  g->first = o->first, o->first = NULL, o->capturing = false;
  *graph = g;
  state.graphs++;
  return end(OK);
}
EXPORT int cuGraphInstantiateWithFlags(void **out, void *graph, unsigned long long flags) {
  BEGIN("cuGraphInstantiateWithFlags");
  object *g = check(graph, GRAPH, "a graph that does not live"), *x;
  if (!g || flags) return end(INVALID_VALUE);
  make_object(out, EXECUTABLE, &state.executables);
  pthread_mutex_lock(&lock);
  x = *out, x->last = &x->first;
  for (operation *op = g->first; op; op = op->next) {
    operation *copy = calloc(1, sizeof *copy);
    *copy = *op, copy->next = NULL;
    *x->last = copy, x->last = &copy->next;
  }
  return end(OK);
}
EXPORT int cuGraphLaunch(void *executable, void *s) {
  BEGIN("cuGraphLaunch");
  object *x = check(executable, EXECUTABLE, "a launch of a graph that does not live"),
         *on = check(s, STREAM, "a graph on a stream that does not live");
  if (!x || !on) return end(INVALID_VALUE);
  if (on->capturing) fault("a graph within a graph");
  state.graph_launches++;
  for (operation *op = x->first; op; op = op->next) {
    if (op->what == LAUNCH) {
      check(op->function, FUNCTION, "a graph launches a function that does not live");
      state.launches++;
    } else {
      holder(op->to, op->size, MEMORY, "a graph writes memory that does not live");
      if (op->what == WORK) holder(op->from, op->reads, MEMORY, "a graph's work reads memory that does not live");
      if (op->what == COPY) holder(op->from, op->size, MEMORY, "a graph reads memory that does not live");
    }
    append(*op);
  }
  return end(OK);
}
static int destroy_graph(void *handle, kind k, int32_t *counter, const char *text) {
  object *o = check(handle, k, text);
  if (o) drop_operations(o);
  return destroy_object(handle, k, counter, text);
}
EXPORT int cuGraphExecDestroy(void *x) {
  BEGIN("cuGraphExecDestroy");
  return destroy_graph(x, EXECUTABLE, &state.executables, "a graph destroyed that does not live");
}
EXPORT int cuGraphDestroy(void *g) {
  BEGIN("cuGraphDestroy");
  return destroy_graph(g, GRAPH, &state.graphs, "a graph destroyed that does not live");
}

// ---- Code ----
EXPORT int cuModuleLoadData(void **out, const void *image) {
  BEGIN("cuModuleLoadData");
  if (((uintptr_t)image & 7) != 0) fault("an unaligned image");
  if (memcmp(image, "\177ELF", 4) != 0) return end(INVALID_VALUE);
  return make_object(out, MODULE, &state.modules);
}
EXPORT int cuModuleUnload(void *m) {
  BEGIN("cuModuleUnload");
  return destroy_object(m, MODULE, &state.modules, "a module unloaded that does not live");
}
EXPORT int cuModuleGetFunction(void **out, void *m, const char *name) {
  BEGIN("cuModuleGetFunction");
  check(m, MODULE, "a function of a module that does not live");
  if (strncmp(name, "tc_", 3) != 0) return end(NOT_FOUND);
  object *o = make(FUNCTION);
  snprintf(o->name, sizeof o->name, "%s", name);
  *out = o;
  return end(OK);
}
EXPORT int cuFuncSetAttribute(void *f, int attribute, int value) {
  BEGIN("cuFuncSetAttribute");
  check(f, FUNCTION, "an attribute of a function that does not live");
  if (attribute == 8) state.dynamic_shared = value;
  return end(OK);
}
// What bulk copies want of three-dimensional tensors of 16 bits with 128-byte swizzling.
EXPORT int cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, uint64_t address, const uint64_t *sizes,
                                  const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave,
                                  int swizzle, int promotion, int fill) {
  BEGIN("cuTensorMapEncodeTiled");
  uint64_t bytes = 2 * sizes[0];
  if ((uintptr_t)map % 64 || address % 16) fault("a tensor or its description lies badly");
  if (type != 1 || rank != 3 || interleave || swizzle != 3 || promotion < 0 || promotion > 3 || fill)
    fault("a tensor that the fake driver does not know");
  for (int i = 0; i < 3; i++) {
    if (!sizes[i] || sizes[i] > 1ull << 32 || !box[i] || box[i] > 256 || steps[i] != 1) fault("sizes of a tensor");
    if (i > 0 && (strides[i - 1] % 16 || strides[i - 1] >= 1ull << 40)) fault("strides of a tensor");
    if (i > 0) bytes += (sizes[i] - 1) * strides[i - 1];
  }
  if (box[0] * 2 > 128) fault("a box that is wider than its swizzling");
  holder((const void *)(uintptr_t)address, bytes, MEMORY, "a tensor outside of an allocation");
  memset(map, 0x5a, 128);
  memcpy(state.map_sizes, sizes, sizeof state.map_sizes), memcpy(state.map_box, box, sizeof state.map_box);
  state.tensor_maps++;
  return end(OK);
}
static int launch(object *o, object *on, const unsigned grid[3], const unsigned block[3], unsigned shared,
                  void **params, void **extra) {
  if (grid[2] != 1 || block[2] != 1 || extra) fault("a launch of three dimensions");
  if (!grid[0] || !grid[1] || grid[1] > 65535 || !block[0] || !block[1] || block[0] > 1024 ||
      block[0] * block[1] > 1024)
    fault("a launch of no or too many blocks or lanes");
  if (shared > 48 << 10 && (int32_t)shared > state.dynamic_shared) fault("shared memory that was not asked for");
  if (on && on->capturing) push(on, LAUNCH, NULL, NULL, 0)->function = o;
  else state.launches++;
  state.grid = grid[0], state.grid_y = grid[1], state.lanes = block[0], state.lanes_y = block[1],
  state.shared_bytes = shared;
  if (o) memcpy(state.kernel, o->name, sizeof state.kernel);
  if (trace) fprintf(trace, "%s: %u x %u x %u blocks of %u lanes\n", state.kernel, grid[0], grid[1], grid[2], block[0]);
  for (int32_t i = 0; i < n_params; i++) {
    state.words[i] = 0;
    memcpy(&state.words[i], params[i], (size_t)param_bytes[i]);
  }
  return end(OK);
}
EXPORT int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, void *s, void **params, void **extra) {
  BEGIN("cuLaunchKernel");
  object *o = check(f, FUNCTION, "a launch of a function that does not live");
  object *on = check(s, STREAM, "a launch on a stream that does not live");
  return launch(o, on, (unsigned[]){gx, gy, gz}, (unsigned[]){bx, by, bz}, shared, params, extra);
}
typedef struct launch_attribute {
  int id;
  char pad[4];
  union {
    int number;
    char room[64];
  } value;
} launch_attribute;
typedef struct launch_config {
  unsigned grid[3], block[3], shared;
  void *stream;
  const launch_attribute *attributes;
  unsigned n_attributes;
} launch_config;
// With programmatic stream serialization only.
EXPORT int cuLaunchKernelEx(const launch_config *c, void *f, void **params, void **extra) {
  BEGIN("cuLaunchKernelEx");
  object *o = check(f, FUNCTION, "a launch of a function that does not live");
  object *on = check(c->stream, STREAM, "a launch on a stream that does not live");
  if (c->n_attributes != 1 || c->attributes[0].id != 6 || c->attributes[0].value.number != 1)
    fault("an attribute of a launch that the fake driver does not know");
  state.dependent++;
  return launch(o, on, c->grid, c->block, c->shared, params, extra);
}
