// Loaded code and launches.
//
// A blob is read with distrust: it may come from a damaged file. Kernels that need more shared memory than a launch has
// by default are given it when they are looked up.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"

enum { FEW_ARGS = 64, MOST_TOGETHER = 8, MOST_SYMBOL = 512, DEFAULT_SHARED = 48 << 10 };

typedef struct function {
  cu_module module;
  cu_function handle;
  tc_sv name;                    // with its memory, which is NUL-terminated
  int32_t lanes, n_params, most; // most: pack.c
  int64_t shared_bytes;
} function;

typedef struct module {
  int32_t n;
  function functions[];
} module;

// ---- Loading ----
static int32_t damaged(tc_device_ *d, const char *what) {
  char text[200];
  snprintf(text, sizeof text, "the code object is damaged or not for this device: %s", what);
  return cuda_report(d->host, TC_STATUS_DATA_LOSS, text);
}

static int32_t inside(uint64_t at, uint64_t size, uint64_t all) { return at <= all && size <= all - at; }

// Is it an ELF file whose section table lies inside?
static int32_t is_object(const unsigned char *p, uint64_t size) {
  uint64_t at;
  uint16_t each, count;
  if (size < 64 || memcmp(p, "\177ELF\2\1", 6) != 0) return 0;
  memcpy(&at, p + 40, 8), memcpy(&each, p + 58, 2), memcpy(&count, p + 60, 2);
  return inside(at, (uint64_t)each * count, size);
}

static int32_t check_blob(tc_device_ *d, const char *blob, uint64_t size, cuda_blob_header *h) {
  if (size < sizeof *h) return damaged(d, "it is too short");
  memcpy(h, blob, sizeof *h);
  if (h->magic != CUDA_BLOB_MAGIC || h->size != size) return damaged(d, "its header");
  if (h->n < 0 || !inside(sizeof *h, (uint64_t)h->n * sizeof(cuda_blob_entry), size)) return damaged(d, "its entries");
  h->arch[sizeof h->arch - 1] = 0;
  if (strcmp(h->arch, d->arch) != 0) return damaged(d, "its architecture");
  for (int32_t i = 0; i < h->n; i++) {
    cuda_blob_entry e;
    memcpy(&e, blob + sizeof *h + (size_t)i * sizeof e, sizeof e);
    if (!inside(e.name_at, e.name_size, size) || !inside(e.symbol_at, e.symbol_size, size) ||
        e.symbol_size >= MOST_SYMBOL || !inside(e.code_at, e.code_size, size) || e.lanes < 1 || e.n_params < 0 ||
        e.shared_bytes < 0 || e.shared_bytes > INT32_MAX || e.most < 1 || e.most > MOST_TOGETHER)
      return damaged(d, "an entry");
    if (!is_object((const unsigned char *)blob + e.code_at, e.code_size)) return damaged(d, "a kernel's code");
  }
  return TC_STATUS_OK;
}

static int32_t load_entry(tc_device_ *d, const char *blob, const cuda_blob_entry *e, function *f) {
  *f = (function){.lanes = e->lanes, .n_params = e->n_params, .most = e->most, .shared_bytes = e->shared_bytes};
  char symbol[MOST_SYMBOL], *name = malloc(e->name_size + 1);
  if (!name) return TC_STATUS_OUT_OF_MEMORY;
  memcpy(name, blob + e->name_at, e->name_size);
  name[e->name_size] = 0;
  f->name = (tc_sv){name, e->name_size};
  memcpy(symbol, blob + e->symbol_at, e->symbol_size);
  symbol[e->symbol_size] = 0;
  if (!d->runs) return TC_STATUS_OK;
  void *aligned = d->host->alloc(d->host->self, e->code_size); // the driver reads words
  if (!aligned) return TC_STATUS_OUT_OF_MEMORY;
  memcpy(aligned, blob + e->code_at, e->code_size);
  int32_t s = cuda_check(d, "cuModuleLoadData", d->driver.module_load(&f->module, aligned));
  d->host->free(d->host->self, aligned);
  if (s == TC_STATUS_OK)
    s = cuda_check(d, "cuModuleGetFunction", d->driver.module_function(&f->handle, f->module, symbol));
  if (s == TC_STATUS_OK && f->shared_bytes > DEFAULT_SHARED)
    s = cuda_check(d, "cuFuncSetAttribute",
                   d->driver.function_set(f->handle, CU_FUNC_DYNAMIC_SHARED, (int)f->shared_bytes));
  return s;
}

int32_t cuda_module_load(tc_device_ *d, const void *blob, uint64_t size, tc_handle *out) {
  cuda_blob_header h;
  int32_t s = check_blob(d, blob, size, &h);
  if (s == TC_STATUS_OK && d->runs) s = cuda_enter(d);
  if (s != TC_STATUS_OK) return s;
  module *m = calloc(1, sizeof *m + (size_t)h.n * sizeof(function));
  if (!m) return TC_STATUS_OUT_OF_MEMORY;
  for (int32_t i = 0; i < h.n && s == TC_STATUS_OK; i++) {
    cuda_blob_entry e;
    memcpy(&e, (const char *)blob + sizeof h + (size_t)i * sizeof e, sizeof e);
    m->n = i + 1;
    s = load_entry(d, blob, &e, &m->functions[i]);
  }
  if (s != TC_STATUS_OK) {
    cuda_module_unload(d, (tc_handle)(uintptr_t)m);
    return s;
  }
  *out = (tc_handle)(uintptr_t)m;
  return TC_STATUS_OK;
}

void cuda_module_unload(tc_device_ *d, tc_handle handle) {
  module *m = (module *)(uintptr_t)handle;
  if (!m) return;
  int32_t can = d->runs && cuda_enter(d) == TC_STATUS_OK;
  for (int32_t i = 0; i < m->n; i++) {
    if (can && m->functions[i].module) d->driver.module_unload(m->functions[i].module);
    free((void *)(uintptr_t)m->functions[i].name.data);
  }
  free(m);
}

int32_t cuda_module_function(tc_device_ *d, tc_handle handle, tc_sv name, tc_handle *out) {
  module *m = (module *)(uintptr_t)handle;
  char text[300];
  for (int32_t i = 0; i < m->n; i++) {
    tc_sv own = m->functions[i].name;
    if (own.size != name.size || memcmp(own.data, name.data, name.size) != 0) continue;
    *out = (tc_handle)(uintptr_t)&m->functions[i];
    return TC_STATUS_OK;
  }
  snprintf(text, sizeof text, "the module has no kernel '%.*s'", (int)(name.size < 200 ? name.size : 200), name.data);
  return cuda_report(d->host, TC_STATUS_NOT_FOUND, text);
}

// ---- Launching ----
static int32_t failed_launch(tc_device_ *d, const function *f, const char *what, cu_result code) {
  char text[200];
  if (code == CU_OK) return TC_STATUS_OK;
  snprintf(text, sizeof text, "%s @%.120s", what, f->name.data);
  return cuda_check(d, text, code);
}

static int32_t refuse_launch(tc_device_ *d, const function *f, const char *why) {
  char text[300];
  snprintf(text, sizeof text, "launching @%.120s: %s", f->name.data, why);
  return cuda_report(d->host, TC_STATUS_INVALID_ARGUMENT, text);
}

static void note_launch(tc_device_ *d, const function *f) {
  pthread_mutex_lock(&d->recent_lock);
  char *to = d->recent[d->n_launches++ % CUDA_RECENT];
  size_t size = f->name.size < sizeof d->recent[0] - 1 ? f->name.size : sizeof d->recent[0] - 1;
  memcpy(to, f->name.data, size);
  to[size] = 0;
  pthread_mutex_unlock(&d->recent_lock);
}

int32_t cuda_launch(tc_device_ *d, tc_handle stream, const tc_launch *l) {
  const function *f = (const function *)(uintptr_t)l->function;
  if (l->blocks <= 0) return TC_STATUS_OK;
  if (l->n_args != f->n_params) return refuse_launch(d, f, "it has the wrong number of arguments");
  if (l->blocks > d->props.max_blocks) return refuse_launch(d, f, "it has too many blocks");
  int32_t s = cuda_enter(d);
  if (s != TC_STATUS_OK) return s;
  uint64_t few[FEW_ARGS + 2], *words = few;
  void *few_pointers[FEW_ARGS + 2], **pointers = few_pointers;
  if (l->n_args > FEW_ARGS) {
    words = malloc((size_t)(l->n_args + 2) * (sizeof *words + sizeof *pointers));
    if (!words) return TC_STATUS_OUT_OF_MEMORY;
    pointers = (void **)(words + l->n_args + 2);
  }
  // The driver knows how wide each parameter is; the low bytes of a word are a narrow scalar's.
  for (int32_t i = 0; i <= l->n_args; i++) {
    const tc_launch_arg *a = &l->args[i];
    if (i == l->n_args) words[i] = l->errors;
    else words[i] = a->kind == TC_ARG_MEMORY ? a->value + (uint64_t)a->offset : a->value;
    pointers[i] = &words[i];
  }
  words[l->n_args + 1] = (uint64_t)l->blocks;
  pointers[l->n_args + 1] = &words[l->n_args + 1];
  cu_stream st = (cu_stream)(uintptr_t)stream;
  note_launch(d, f);
  int64_t together = cuda_pack_at(d, f->most, l->blocks);
  cuda_grid grid = {.blocks = (unsigned)((l->blocks + together - 1) / together),
                    .blocks_y = 1,
                    .lanes = (unsigned)f->lanes,
                    .shared_bytes = (unsigned)f->shared_bytes,
                    .together = (unsigned)together};
  s = failed_launch(d, f, "launching", cuda_start(d, f->handle, grid, st, pointers));
  if (s == TC_STATUS_OK && d->sync) s = failed_launch(d, f, "running", d->driver.stream_synchronize(st));
  if (words != few) free(words);
  return s;
}
