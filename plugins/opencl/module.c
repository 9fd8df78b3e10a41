// Loaded code and launches.
//
// A bundle is read with distrust: it may come from a damaged file. A kernel object keeps its arguments from call to
// call, so that a launch sets them and enqueues under the function's own lock.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opencl.h"

typedef struct function {
  cl_program program;
  cl_kernel kernel;
  char *name; // NUL-terminated
  size_t name_size;
  int32_t lanes, n_params;
  pthread_mutex_t lock;
} function;

typedef struct module {
  int32_t n; // functions whose lock is there
  function functions[];
} module;

// ---- Loading ----
static int32_t fail(tc_device_ *d, int32_t code, const char *name, const char *what) {
  char text[400];
  snprintf(text, sizeof text, "the kernel @%.120s %.200s", name, what);
  return tc_host_report(d->host, code, text);
}

// Will it run? Some drivers abort at a launch that asks for too much.
static int32_t check_kernel(tc_device_ *d, const function *f) {
  char text[200];
  size_t most = 0, stated[3] = {0};
  uint64_t local = 0;
  int32_t s =
      opencl_check(d, "clGetKernelWorkGroupInfo",
                   d->driver.kernel_info(f->kernel, d->device, CL_KERNEL_WORK_GROUP_SIZE, sizeof most, &most, NULL));
  if (s != TC_STATUS_OK) return s;
  s = opencl_check(d, "clGetKernelWorkGroupInfo",
                   d->driver.kernel_info(f->kernel, d->device, CL_KERNEL_LOCAL_BYTES, sizeof local, &local, NULL));
  if (s != TC_STATUS_OK) return s;
  s = opencl_check(
      d, "clGetKernelWorkGroupInfo",
      d->driver.kernel_info(f->kernel, d->device, CL_KERNEL_STATED_WORK_GROUP_SIZE, sizeof stated, stated, NULL));
  if (s != TC_STATUS_OK) return s;
  // What a driver takes of a kernel may be rounded down to a power of two; a size that the kernel states, and that the
  // driver compiled it for, it takes.
  if ((size_t)f->lanes > most && (stated[0] != (size_t)f->lanes || stated[0] > d->work_group))
    snprintf(text, sizeof text, "has %d lanes, the driver takes %zu of it", (int)f->lanes, most);
  else if (local > d->local_bytes)
    snprintf(text, sizeof text, "needs %llu bytes of local memory, the device has %zu", (unsigned long long)local,
             d->local_bytes);
  else return TC_STATUS_OK;
  return fail(d, TC_STATUS_PLUGIN, f->name, text);
}

static int32_t load_entry(tc_device_ *d, const tc_bundle_kernel *k, function *f) {
  char symbol[512];
  cl_int code = CL_SUCCESS, state = CL_SUCCESS;
  f->name = malloc(k->name.size + 1);
  if (!f->name) return TC_STATUS_OUT_OF_MEMORY;
  memcpy(f->name, k->name.data, k->name.size);
  f->name[k->name.size] = 0;
  f->name_size = k->name.size;
  f->lanes = k->lanes, f->n_params = k->n_params;
  if (k->symbol.size >= sizeof symbol) return fail(d, TC_STATUS_DATA_LOSS, f->name, "has too long a name");
  memcpy(symbol, k->symbol.data, k->symbol.size);
  symbol[k->symbol.size] = 0;
  const unsigned char *binary = (const unsigned char *)k->code.data;
  f->program = d->driver.program_binary(d->context, 1, &d->device, &k->code.size, &binary, &state, &code);
  if (code == CL_INVALID_BINARY || (code == CL_SUCCESS && state != CL_SUCCESS))
    return fail(d, TC_STATUS_DATA_LOSS, f->name, "is not in the driver's binary form");
  int32_t s = opencl_check(d, "clCreateProgramWithBinary", code);
  if (s == TC_STATUS_OK) s = opencl_build(d, f->program, f->name);
  if (s != TC_STATUS_OK) return s;
  f->kernel = d->driver.kernel_create(f->program, symbol, &code);
  s = opencl_check(d, "clCreateKernel", code);
  return s == TC_STATUS_OK ? check_kernel(d, f) : s;
}

int32_t opencl_module_load(tc_device_ *d, const void *blob, uint64_t size, tc_handle *out) {
  const char *reason;
  char text[200];
  int32_t n, s = tc_bundle_check(blob, size, d->props.target, &n, &reason);
  if (s != TC_STATUS_OK) {
    snprintf(text, sizeof text, "the code object is damaged or not for this device: %s", reason);
    return tc_host_report(d->host, s, text);
  }
  module *m = calloc(1, sizeof *m + (size_t)n * sizeof(function));
  if (!m) return TC_STATUS_OUT_OF_MEMORY;
  for (; m->n < n && s == TC_STATUS_OK;) {
    tc_bundle_kernel k;
    function *f = &m->functions[m->n];
    tc_bundle_get(blob, m->n++, &k);
    pthread_mutex_init(&f->lock, NULL);
    s = load_entry(d, &k, f);
  }
  if (s != TC_STATUS_OK) {
    opencl_module_unload(d, (tc_handle)(uintptr_t)m);
    return s;
  }
  *out = (tc_handle)(uintptr_t)m;
  return TC_STATUS_OK;
}

void opencl_module_unload(tc_device_ *d, tc_handle handle) {
  module *m = (module *)(uintptr_t)handle;
  if (!m) return;
  for (int32_t i = 0; i < m->n; i++) {
    function *f = &m->functions[i];
    if (f->kernel) d->driver.kernel_release(f->kernel);
    if (f->program) d->driver.program_release(f->program);
    pthread_mutex_destroy(&f->lock);
    free(f->name);
  }
  free(m);
}

int32_t opencl_module_function(tc_device_ *d, tc_handle handle, tc_sv name, tc_handle *out) {
  module *m = (module *)(uintptr_t)handle;
  char text[300];
  for (int32_t i = 0; i < m->n; i++) {
    function *f = &m->functions[i];
    if (f->name_size != name.size || memcmp(f->name, name.data, name.size) != 0) continue;
    *out = (tc_handle)(uintptr_t)f;
    return TC_STATUS_OK;
  }
  snprintf(text, sizeof text, "the module has no kernel '%.*s'", (int)(name.size < 200 ? name.size : 200), name.data);
  return tc_host_report(d->host, TC_STATUS_NOT_FOUND, text);
}

// ---- Launching ----
static void note_launch(tc_device_ *d, const function *f) {
  pthread_mutex_lock(&d->lock);
  snprintf(d->recent[d->n_launches++ % OPENCL_RECENT], sizeof d->recent[0], "%s", f->name);
  pthread_mutex_unlock(&d->lock);
}

// Under the function's lock.
static cl_int set_args(tc_device_ *d, function *f, const tc_launch *l) {
  cl_uint at = 0;
  cl_int code = CL_SUCCESS;
  for (int32_t i = 0; i < l->n_args && code == CL_SUCCESS; i++) {
    const tc_launch_arg *a = &l->args[i];
    if (a->kind == TC_ARG_SCALAR) {
      code = d->driver.kernel_arg(f->kernel, at++, (size_t)a->bytes, &a->value); // the low bytes of a word
      continue;
    }
    cl_mem m = (cl_mem)(uintptr_t)a->value;
    code = d->driver.kernel_arg(f->kernel, at++, sizeof m, &m);
    if (code == CL_SUCCESS) code = d->driver.kernel_arg(f->kernel, at++, sizeof a->offset, &a->offset);
  }
  cl_mem errors = (cl_mem)(uintptr_t)l->errors;
  return code == CL_SUCCESS ? d->driver.kernel_arg(f->kernel, at, sizeof errors, &errors) : code;
}

int32_t opencl_launch(tc_device_ *d, tc_handle stream, const tc_launch *l) {
  function *f = (function *)(uintptr_t)l->function;
  cl_queue q = (cl_queue)(uintptr_t)stream;
  char what[200];
  if (l->blocks <= 0) return TC_STATUS_OK;
  if (l->n_args != f->n_params)
    return fail(d, TC_STATUS_INVALID_ARGUMENT, f->name, "is launched with the wrong number of arguments");
  if (l->blocks > d->props.max_blocks)
    return fail(d, TC_STATUS_INVALID_ARGUMENT, f->name, "is launched with too many blocks");
  const size_t local = (size_t)f->lanes, global = local * (size_t)l->blocks;
  note_launch(d, f);
  pthread_mutex_lock(&f->lock);
  cl_int code = set_args(d, f, l);
  if (code == CL_SUCCESS) code = d->driver.launch(q, f->kernel, 1, NULL, &global, &local, 0, NULL, NULL);
  pthread_mutex_unlock(&f->lock);
  snprintf(what, sizeof what, "launching @%.120s", f->name);
  int32_t s = opencl_check(d, what, code);
  if (s != TC_STATUS_OK || !d->sync) return s;
  snprintf(what, sizeof what, "running @%.120s", f->name);
  return opencl_check(d, what, d->driver.finish(q));
}
