// A driver for tests: the functions that the cuda plugin uses, over host memory, with every handle checked.
//
// Streams run late: copies, fills and launches are queued and done when the stream or an event behind them is waited
// for, so that memory that is reused or freed too early is seen. Memory freed in stream order is freed in that order.
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

#define EXPORT __attribute__((visibility("default")))
enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_CONTEXT = 201, NOT_FOUND = 500 };

typedef enum kind { NONE, STREAM, EVENT, MODULE, FUNCTION, MEMORY, PINNED } kind;
typedef struct object {
  struct object *next;
  kind kind;
  bool live;
  uint64_t size; // memory
  unsigned char *data;
  int64_t pending; // pinned: queued copies that use it
  uint64_t ticket; // events: the operation that they stand behind
  char name[128];  // functions
} object;

typedef enum what { COPY_IN, COPY_OUT, COPY, FILL, FREE } what;
typedef struct operation {
  struct operation *next;
  uint64_t ticket;
  what what;
  unsigned char *to;
  const unsigned char *from;
  size_t size;
  unsigned char value;
  object *pinned, *freed;
} operation;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static fake_state state;
static object *objects;
static operation *first, **last = &first;
static uint64_t tickets;
static int context_token;
static _Thread_local void *current;
static int32_t n_params, param_bytes[64];
static char failing[64];
static int32_t fail_after, fail_code;

static void fault(const char *text) {
  if (state.faults++ == 0) snprintf(state.fault, sizeof state.fault, "%s", text);
}

static object *make(kind k) {
  object *o = calloc(1, sizeof *o);
  o->kind = k, o->live = true, o->next = objects, objects = o;
  return o;
}

static object *check(void *handle, kind k, const char *text) {
  for (object *o = objects; o; o = o->next) {
    if (o == handle && o->kind == k && o->live) return o;
  }
  fault(text);
  return NULL;
}

// The allocation that holds [at, at + size).
static object *holder(const void *at, size_t size, kind k, const char *text) {
  for (object *o = objects; o; o = o->next) {
    if (o->kind != k || !o->live || (const unsigned char *)at < o->data) continue;
    if ((const unsigned char *)at + size <= o->data + o->size) return o;
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
static operation *push(what w, void *to, const void *from, size_t size) {
  operation *op = calloc(1, sizeof *op);
  *op = (operation){.ticket = ++tickets, .what = w, .to = to, .from = from, .size = size};
  *last = op, last = &op->next;
  return op;
}

static void run_until(uint64_t ticket) {
  while (first && first->ticket <= ticket) {
    operation *op = first;
    first = op->next;
    if (!first) last = &first;
    if (op->what == FILL) memset(op->to, op->value, op->size);
    else if (op->what == FREE) free(op->freed->data), op->freed->data = NULL, op->freed->size = 0;
    else memmove(op->to, op->from, op->size);
    if (op->pinned) op->pinned->pending--;
    free(op);
  }
}

// ---- For the tests ----
EXPORT const fake_state *fake_state_of(void) { return &state; }
EXPORT void fake_set_params(int32_t n, const int32_t *bytes) {
  n_params = n;
  memcpy(param_bytes, bytes, (size_t)n * sizeof *bytes);
}
EXPORT void fake_fail(const char *function, int32_t after, int32_t code) {
  snprintf(failing, sizeof failing, "%s", function ? function : "");
  fail_after = after, fail_code = code;
}

// ---- The driver ----
EXPORT int cuInit(unsigned flags) { return (int)flags; }
EXPORT int cuDriverGetVersion(int *v) { return *v = 13000, OK; }
EXPORT int cuGetErrorName(int code, const char **text) {
  *text = code == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_OTHER";
  return OK;
}
EXPORT int cuGetErrorString(int code, const char **text) { return *text = "as the test said", (void)code, OK; }
EXPORT int cuDeviceGetCount(int *n) { return *n = 2, OK; }
EXPORT int cuDeviceGet(int *device, int index) { return *device = index, index >= 0 && index < 2 ? OK : INVALID_VALUE; }
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
  (void)device;
  pthread_mutex_lock(&lock);
  state.contexts++;
  *context = &context_token;
  return end(OK);
}
EXPORT int cuDevicePrimaryCtxRelease_v2(int device) {
  (void)device;
  pthread_mutex_lock(&lock);
  if (--state.contexts < 0) fault("a context released twice");
  return end(OK);
}
EXPORT int cuCtxSetCurrent(void *context) { return current = context, OK; }
EXPORT int cuDeviceGetDefaultMemPool(void **pool, int device) { return *pool = &state, (void)device, OK; }
EXPORT int cuMemPoolSetAttribute(void *pool, int attribute, void *value) {
  return pool == &state && attribute == 4 && value ? OK : INVALID_VALUE;
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
  check(stream, STREAM, "allocation on a stream that does not live");
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
  check(stream, STREAM, "memory freed on a stream that does not live");
  object *o = take_out(memory);
  if (o) push(FREE, NULL, NULL, 0)->freed = o;
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
  run_until(tickets);
  return destroy_object(s, STREAM, &state.streams, "a stream destroyed that does not live");
}
EXPORT int cuStreamSynchronize(void *s) {
  BEGIN("cuStreamSynchronize");
  check(s, STREAM, "waiting for a stream that does not live");
  run_until(tickets);
  return end(OK);
}
EXPORT int cuEventCreate(void **out, unsigned flags) {
  (void)flags;
  BEGIN("cuEventCreate");
  return make_object(out, EVENT, &state.events);
}
EXPORT int cuEventDestroy_v2(void *e) {
  BEGIN("cuEventDestroy_v2");
  return destroy_object(e, EVENT, &state.events, "an event destroyed that does not live");
}
EXPORT int cuEventRecord(void *e, void *s) {
  BEGIN("cuEventRecord");
  object *o = check(e, EVENT, "an event recorded that does not live");
  check(s, STREAM, "an event recorded on a stream that does not live");
  if (o) o->ticket = tickets;
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
  check(s, STREAM, "a copy on a stream that does not live");
  holder((void *)(uintptr_t)to, size, MEMORY, "a copy to the device beyond an allocation");
  object *pinned = holder(from, size, PINNED, "a copy from memory that is not pinned");
  operation *op = push(COPY_IN, (void *)(uintptr_t)to, from, size);
  if (pinned) op->pinned = pinned, pinned->pending++;
  return end(OK);
}
EXPORT int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t size, void *s) {
  BEGIN("cuMemcpyDtoHAsync_v2");
  check(s, STREAM, "a copy on a stream that does not live");
  holder((void *)(uintptr_t)from, size, MEMORY, "a copy from the device beyond an allocation");
  object *pinned = holder(to, size, PINNED, "a copy to memory that is not pinned");
  if (pinned && pinned->pending) fault("a pinned buffer is used by two copies at once");
  operation *op = push(COPY_OUT, to, (void *)(uintptr_t)from, size);
  if (pinned) op->pinned = pinned, pinned->pending++;
  return end(OK);
}
EXPORT int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t size, void *s) {
  BEGIN("cuMemcpyDtoDAsync_v2");
  check(s, STREAM, "a copy on a stream that does not live");
  holder((void *)(uintptr_t)to, size, MEMORY, "a copy beyond an allocation");
  holder((void *)(uintptr_t)from, size, MEMORY, "a copy from beyond an allocation");
  push(COPY, (void *)(uintptr_t)to, (void *)(uintptr_t)from, size);
  return end(OK);
}
EXPORT int cuMemsetD8Async(uint64_t to, unsigned char value, size_t size, void *s) {
  BEGIN("cuMemsetD8Async");
  check(s, STREAM, "a fill on a stream that does not live");
  holder((void *)(uintptr_t)to, size, MEMORY, "a fill beyond an allocation");
  push(FILL, (void *)(uintptr_t)to, NULL, size)->value = value;
  return end(OK);
}

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
EXPORT int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, void *s, void **params, void **extra) {
  BEGIN("cuLaunchKernel");
  object *o = check(f, FUNCTION, "a launch of a function that does not live");
  check(s, STREAM, "a launch on a stream that does not live");
  if (gy != 1 || gz != 1 || by != 1 || bz != 1 || extra) fault("a launch of more than one dimension");
  if (!gx || !bx || bx > 1024) fault("a launch of no or too many lanes");
  if (shared > 48 << 10 && (int32_t)shared > state.dynamic_shared) fault("shared memory that was not asked for");
  state.launches++;
  state.grid = gx, state.lanes = bx, state.shared_bytes = shared;
  if (o) memcpy(state.kernel, o->name, sizeof state.kernel);
  for (int32_t i = 0; i < n_params; i++) {
    state.words[i] = 0;
    memcpy(&state.words[i], params[i], (size_t)param_bytes[i]);
  }
  return end(OK);
}
