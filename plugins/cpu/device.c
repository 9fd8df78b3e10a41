// The device: host memory is device memory, handles are addresses, and everything is done when its function returns.
//
// A launch packs its arguments into words, and the host's executor runs ranges of blocks; each range gets its own copy
// of the words when the kernel wants scratch memory, which comes from a pool of the device.
#include "device.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ARGS = 4096, FEW_ARGS = 30 };

typedef struct scratch {
  struct scratch *next;
  uint64_t size;
  char pad[48]; // what follows is 64-byte aligned
} scratch;

struct tc_device_ {
  const tc_host *host;
  tc_cpu_target target;
  pthread_mutex_t lock;
  scratch *pool; // free ones, under `lock`
};

typedef struct function {
  tc_cpu_kernel_fn fn;
  int32_t n_params;
  int64_t scratch_bytes;
  struct function *next;
} function;

typedef struct module {
  tc_cpu_module *code;
  pthread_mutex_t lock;
  function *functions; // under `lock`
} module;

static void report(const tc_device_ *d, int32_t code, const char *text) {
  d->host->diag(d->host->self, code, (tc_sv){text, strlen(text)});
}

static int32_t enumerate(const tc_host *h, int32_t *out_count) {
  tc_cpu_target t;
  *out_count = tc_cpu_detect(h, &t) == TC_STATUS_OK;
  return TC_STATUS_OK;
}

static int32_t open_device(const tc_host *h, int32_t index, tc_device_ **out) {
  tc_cpu_target t;
  if (index != 0) {
    static const char text[] = "there is one processor, device 0";
    h->diag(h->self, TC_STATUS_NOT_FOUND, (tc_sv){text, sizeof text - 1});
    return TC_STATUS_NOT_FOUND;
  }
  int32_t s = tc_cpu_detect(h, &t);
  if (s != TC_STATUS_OK) return s;
  tc_device_ *d = h->alloc(h->self, sizeof *d);
  if (!d) return TC_STATUS_OUT_OF_MEMORY;
  *d = (tc_device_){.host = h, .target = t};
  pthread_mutex_init(&d->lock, NULL);
  *out = d;
  return TC_STATUS_OK;
}

static void close_device(tc_device_ *d) {
  for (scratch *s = d->pool, *next; s; s = next) {
    next = s->next;
    d->host->free(d->host->self, s);
  }
  pthread_mutex_destroy(&d->lock);
  d->host->free(d->host->self, d);
}

const tc_cpu_target *tc_cpu_device_target(const tc_device_ *d) { return &d->target; }

static int32_t properties(tc_device_ *d, tc_device_props *out) {
  int32_t threads = d->host->threads(d->host->self);
  tc_cpu_properties(&d->target, threads > 0 ? threads : 1, out);
  return TC_STATUS_OK;
}

// ---- Modules ----

static int32_t module_load(tc_device_ *d, const void *blob, uint64_t size, tc_handle *out) {
  char why[256];
  module *m = d->host->alloc(d->host->self, sizeof *m);
  if (!m) return TC_STATUS_OUT_OF_MEMORY;
  int32_t s = tc_cpu_module_load(blob, size, &d->target, &m->code, why, sizeof why);
  if (s != TC_STATUS_OK) {
    report(d, s, why);
    d->host->free(d->host->self, m);
    return s;
  }
  pthread_mutex_init(&m->lock, NULL);
  *out = (tc_handle)(uintptr_t)m;
  return TC_STATUS_OK;
}

static void module_unload(tc_device_ *d, tc_handle handle) {
  module *m = tc_hostmem_at(handle, 0);
  if (!m) return;
  for (function *f = m->functions, *next; f; f = next) {
    next = f->next;
    d->host->free(d->host->self, f);
  }
  tc_cpu_module_unload(m->code);
  pthread_mutex_destroy(&m->lock);
  d->host->free(d->host->self, m);
}

static int32_t find_function(tc_device_ *d, tc_handle handle, tc_sv name, tc_handle *out) {
  module *m = tc_hostmem_at(handle, 0);
  char text[300];
  uint64_t size = 0;
  const void *code = tc_cpu_module_symbol(m->code, name, NULL), *meta = NULL;
  int n = snprintf(text, sizeof text, "%.*s.meta", (int)(name.size < 280 ? name.size : 280), name.data);
  if (code) meta = tc_cpu_module_symbol(m->code, (tc_sv){text, (size_t)n}, &size);
  tc_cpu_kernel_meta info;
  if (!meta || size != sizeof info) {
    snprintf(text, sizeof text, "the module has no kernel '%.*s'", (int)(name.size < 200 ? name.size : 200), name.data);
    report(d, TC_STATUS_NOT_FOUND, text);
    return TC_STATUS_NOT_FOUND;
  }
  memcpy(&info, meta, sizeof info);
  if (info.version != TC_CPU_KERNEL_VERSION || info.n_params < 0 || info.n_params > MAX_ARGS ||
      info.scratch_bytes < 0) {
    report(d, TC_STATUS_MISMATCH, "the kernel object was made by another version of this plugin; compile it again");
    return TC_STATUS_MISMATCH;
  }
  function *f = d->host->alloc(d->host->self, sizeof *f);
  if (!f) return TC_STATUS_OUT_OF_MEMORY;
  memcpy(&f->fn, &code, sizeof code);
  f->n_params = info.n_params, f->scratch_bytes = info.scratch_bytes;
  pthread_mutex_lock(&m->lock);
  f->next = m->functions, m->functions = f;
  pthread_mutex_unlock(&m->lock);
  *out = (tc_handle)(uintptr_t)f;
  return TC_STATUS_OK;
}

// ---- Launches ----

static scratch *take_scratch(tc_device_ *d, uint64_t size) {
  pthread_mutex_lock(&d->lock);
  scratch **at = &d->pool, *s;
  while (*at && (*at)->size < size) at = &(*at)->next;
  s = *at;
  if (s) *at = s->next;
  pthread_mutex_unlock(&d->lock);
  if (s) return s;
  s = d->host->alloc(d->host->self, sizeof *s + size);
  if (s) s->size = size;
  return s;
}

static void give_scratch(tc_device_ *d, scratch *s) {
  pthread_mutex_lock(&d->lock);
  s->next = d->pool, d->pool = s;
  pthread_mutex_unlock(&d->lock);
}

typedef struct run {
  tc_device_ *device;
  const function *f;
  const uint64_t *words;
  tc_error_block *errors;
  atomic_int failed; // a thread had no memory for its scratch
} run;

static void run_range(void *arg, int64_t begin, int64_t end) {
  run *r = arg;
  r->f->fn(begin, end, r->words, r->errors);
}

static void run_range_with_scratch(void *arg, int64_t begin, int64_t end) {
  run *r = arg;
  int32_t n = r->f->n_params;
  uint64_t few[FEW_ARGS + 1], *words = n > FEW_ARGS ? malloc((size_t)(n + 1) * sizeof *words) : few;
  scratch *s = take_scratch(r->device, (uint64_t)r->f->scratch_bytes);
  if (words && s) {
    memcpy(words, r->words, (size_t)n * sizeof *words);
    words[n] = (uint64_t)(uintptr_t)(s + 1);
    r->f->fn(begin, end, words, r->errors);
  } else atomic_store(&r->failed, 1);
  if (s) give_scratch(r->device, s);
  if (words != few) free(words);
}

static int32_t launch(tc_device_ *d, tc_handle stream, const tc_launch *l) {
  (void)stream;
  const function *f = tc_hostmem_at(l->function, 0);
  if (l->blocks <= 0) return TC_STATUS_OK;
  if (l->n_args != f->n_params || l->blocks > INT32_MAX) {
    report(d, TC_STATUS_INVALID_ARGUMENT, "a launch has the wrong number of arguments, or too many blocks");
    return TC_STATUS_INVALID_ARGUMENT;
  }
  uint64_t few[FEW_ARGS + 1], *words = l->n_args > FEW_ARGS ? malloc((size_t)(l->n_args + 1) * sizeof *words) : few;
  if (!words) return TC_STATUS_OUT_OF_MEMORY;
  for (int32_t i = 0; i < l->n_args; i++)
    words[i] = l->args[i].kind == TC_ARG_MEMORY ? l->args[i].value + (uint64_t)l->args[i].offset : l->args[i].value;
  words[l->n_args] = 0;
  tc_error_block none = {-1, 0};
  run r = {.device = d, .f = f, .words = words, .errors = l->errors ? tc_hostmem_at(l->errors, 0) : &none};
  tc_range_fn_abi fn = f->scratch_bytes ? run_range_with_scratch : run_range;
  if (l->blocks <= l->grain || l->blocks == 1) fn(&r, 0, l->blocks);
  else d->host->parallel_for(d->host->self, l->blocks, l->grain > 0 ? l->grain : 1, fn, &r);
  if (words != few) free(words);
  if (!atomic_load(&r.failed)) return TC_STATUS_OK;
  report(d, TC_STATUS_OUT_OF_MEMORY, "no memory for a kernel's scratch space");
  return TC_STATUS_OUT_OF_MEMORY;
}

const tc_device_table tc_cpu_device = {
    .struct_size = sizeof(tc_device_table),
    .enumerate = enumerate,
    .open = open_device,
    .close = close_device,
    .properties = properties,
    TC_HOSTMEM_SLOTS,
    .module_load = module_load,
    .module_unload = module_unload,
    .function = find_function,
    .launch = launch,
};
