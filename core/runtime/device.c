// Devices: opening, code from the cache or the generator, loaded kernels.
//
// The key of a kernel is the hash of its text and of the generator's own key, which holds its version and the device's
// features. Kernels that are neither loaded nor on disk are generated in parallel, each with an arena of its own.
#include "core/runtime/device.h"

#include <pthread.h>
#include <string.h>

#include "core/base/fs.h"
#include "core/kernel/kernel.h"

// ---- Memory of the device ----
static tc_status alloc_memory(void *self, size_t size, uint64_t *out) {
  tc_device *d = self;
  tc_handle h = 0;
  TC_TRY(
      tc_plugin_status(d->plugin, d->plugin->device->alloc(d->handle, size, &h), "while allocating %zu bytes", size));
  *out = h;
  return TC_OK;
}

static void free_memory(void *self, uint64_t memory) {
  tc_device *d = self;
  d->plugin->device->free(d->handle, memory);
}

// ---- Opening ----
static tc_status find_calls(tc_device *d, tc_arena *arena, tc_plugins *plugins, tc_sv kind) {
  tc_plugin **list;
  int32_t n, count = 0;
  TC_TRY(tc_plugins_find_all(plugins, arena, TC_CAP_CALLS, kind, &list, &n));
  for (int32_t i = 0; i < n; i++) count += list[i]->n_calls;
  tc_device_calls *calls = TC_NEW_ARRAY(arena, tc_device_calls, count);
  for (int32_t i = 0; i < n; i++) {
    for (int32_t k = 0; k < list[i]->n_calls; k++) calls[d->n_calls++] = (tc_device_calls){list[i], list[i]->calls[k]};
  }
  d->calls = calls;
  return TC_OK;
}

enum { BUCKETS = 256, MOST_UNUSED = 1024 };
typedef struct tc_modules {
  pthread_mutex_t lock;
  int32_t unused; // loaded, held by none
  tc_loaded *buckets[BUCKETS];
} tc_modules;

static tc_status open_device(tc_device *d, int32_t index, tc_sv kind, const tc_device_options *o) {
  const tc_device_table *t = d->plugin->device;
  int32_t count = 0;
  TC_TRY(tc_plugin_status(d->plugin, t->enumerate(d->plugin->host, &count),
                          "while looking for devices of kind " TC_SV_FMT, TC_SV_ARG(kind)));
  if (index < 0 || index >= count)
    return tc_error(TC_STATUS_DEVICE, "there is no device %d of kind " TC_SV_FMT ": %d found", index, TC_SV_ARG(kind),
                    count);
  TC_TRY(tc_plugin_status(d->plugin, t->open(d->plugin->host, index, &d->handle),
                          "while opening device %d of kind " TC_SV_FMT, index, TC_SV_ARG(kind)));
  d->props.struct_size = sizeof d->props;
  TC_TRY(tc_plugin_status(d->plugin, t->properties(d->handle, &d->props), "while reading the device's properties"));
  TC_TRY(tc_plugin_status(d->plugin, t->stream_create(d->handle, &d->stream), "while creating a stream"));
  int64_t idle = o->idle_bytes > 0 ? o->idle_bytes : (int64_t)1 << 30;
  TC_TRY(tc_pool_create_host(d->allocator, idle, &d->host));
  d->memory = d->host;
  if (!d->props.host_memory) {
    d->memory = NULL;
    TC_TRY(tc_pool_create(d->allocator, (tc_pool_source){d, alloc_memory, free_memory}, idle, &d->memory));
  }
  d->modules = tc_alloc(d->allocator, sizeof *d->modules);
  if (!d->modules) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for a device");
  pthread_mutex_init(&d->modules->lock, NULL);
  return TC_OK;
}

tc_status tc_device_open(tc_arena *arena, tc_plugins *plugins, tc_sv kind, int32_t index, const tc_device_options *o,
                         tc_device **out) {
  tc_device *d = TC_NEW(arena, tc_device);
  *d = (tc_device){.allocator = o->allocator, .logger = o->logger, .optimize = o->optimize};
  d->executor = o->executor ? o->executor : &tc_executor_serial;
  TC_TRY(tc_plugins_find_device(plugins, kind, &d->plugin));
  TC_TRY(tc_plugins_find_codegen(plugins, kind, &d->codegen));
  if (o->calls) TC_TRY(find_calls(d, arena, plugins, kind));
  const char *folder = o->cache_dir ? tc_path_join(arena, tc_sv_of(o->cache_dir), TC_SV("code")).data : NULL;
  tc_status s = open_device(d, index, kind, o);
  if (s != TC_OK) {
    tc_device_close(d);
    return s;
  }
  if (folder) d->cache = tc_cache_open(d->allocator, folder, o->cache_bytes, d->logger);
  *out = d;
  return TC_OK;
}

static void close_modules(tc_device *d) {
  for (int32_t i = 0; i < BUCKETS; i++) {
    for (tc_loaded *k = d->modules->buckets[i], *next; k; k = next) {
      next = k->next;
      d->plugin->device->module_unload(d->handle, k->module);
      tc_free(d->allocator, k);
    }
  }
  pthread_mutex_destroy(&d->modules->lock);
  tc_free(d->allocator, d->modules);
}

void tc_device_close(tc_device *d) {
  if (!d) return;
  const tc_device_table *t = d->plugin->device;
  tc_cache_close(d->cache);
  if (d->modules) close_modules(d);
  if (d->memory != d->host) tc_pool_close(d->memory);
  tc_pool_close(d->host);
  if (d->handle && d->stream) t->stream_destroy(d->handle, d->stream);
  if (d->handle) t->close(d->handle);
  d->handle = 0, d->cache = NULL, d->modules = NULL, d->memory = d->host = NULL;
}

// ---- Generating ----
typedef struct blob_sink {
  const tc_allocator *allocator;
  char *data;
  size_t size, capacity;
} blob_sink;

static int32_t write_blob(void *self, const void *data, uint64_t size) {
  // Called by a plugin, so nothing may unwind through it: the vector grows with the allocator, not the arena.
  blob_sink *b = self;
  if (b->size + size > b->capacity) {
    size_t capacity = b->capacity ? b->capacity : 16384;
    while (capacity < b->size + size) capacity *= 2;
    char *more = b->allocator->alloc(b->allocator->self, capacity);
    if (!more) return TC_STATUS_OUT_OF_MEMORY;
    if (b->size) memcpy(more, b->data, b->size);
    tc_free(b->allocator, b->data);
    b->data = more;
    b->capacity = capacity;
  }
  if (size) memcpy(b->data + b->size, data, size);
  b->size += size;
  return TC_STATUS_OK;
}

static tc_status generator_key(tc_device *d, tc_arena *arena, tc_sv *out) {
  blob_sink b = {.allocator = d->allocator};
  tc_sink sink = {&b, write_blob};
  tc_status s = tc_plugin_status(d->codegen, d->codegen->codegen->key(d->codegen->host, d->handle, &sink),
                                 "while asking the code generator for its key");
  if (s == TC_OK) *out = tc_sv_printf(arena, TC_SV_FMT " O%d", (int)b.size, b.data ? b.data : "", d->optimize);
  tc_free(d->allocator, b.data);
  return s;
}

// `code` and `text` (may be NULL) are to be freed by the caller, whatever the result.
static tc_status generate(tc_device *d, const tc_kernel *k, blob_sink *code, blob_sink *text) {
  code->allocator = d->allocator;
  tc_sink sink = {code, write_blob}, text_sink = {text, write_blob};
  if (text) text->allocator = d->allocator;
  int32_t rc =
      d->codegen->codegen->compile(d->codegen->host, d->handle, &k, 1, d->optimize, &sink, text ? &text_sink : NULL);
  tc_sv name = tc_k_name(k);
  return tc_plugin_status(d->codegen, rc, "while generating code for the kernel " TC_SV_FMT, TC_SV_ARG(name));
}

typedef struct miss {
  const tc_kernel *kernel;
  int32_t number;
  tc_status status;
  blob_sink code;
  double ms;
} miss;
typedef struct generation {
  tc_device *d;
  miss *misses;
} generation;

static void generate_range(void *arg, int64_t begin, int64_t end) {
  generation *g = arg;
  for (int64_t i = begin; i < end; i++) {
    miss *m = &g->misses[i];
    double start = tc_now_ms();
    m->status = generate(g->d, m->kernel, &m->code, NULL);
    m->ms = tc_now_ms() - start;
  }
}

typedef struct owned {
  const tc_allocator *allocator;
  void *data;
} owned;
static void free_owned(void *arg) { tc_free(((owned *)arg)->allocator, ((owned *)arg)->data); }

// Memory of the allocator that goes with the arena: what is put into ->data is freed.
static owned *own(tc_device *d, tc_arena *arena) {
  owned *o = TC_NEW(arena, owned);
  o->allocator = d->allocator;
  tc_arena_on_destroy(arena, free_owned, o);
  return o;
}

// Generates the missing blobs; equal kernels are among them once. Nothing in here may unwind: blobs are owned.
static tc_status generate_all(tc_device *d, int32_t n, miss *misses, const tc_hash128 *keys, tc_sv *blobs, owned *code,
                              tc_compile_stats *stats) {
  generation g = {d, misses};
  d->executor->parallel_for(d->executor->self, n, 1, generate_range, &g);
  tc_status s = TC_OK;
  size_t total = 0;
  for (int32_t i = 0; i < n; i++) {
    stats->ms += misses[i].ms;
    total += misses[i].code.size;
    if (s == TC_OK) s = misses[i].status;
    else tc_status_free(misses[i].status);
  }
  char *all = s == TC_OK ? d->allocator->alloc(d->allocator->self, total + 1) : NULL;
  if (s == TC_OK && !all) s = tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for generated code");
  size_t at = 0;
  for (int32_t i = 0; i < n; i++) {
    if (s == TC_OK) {
      if (misses[i].code.size) memcpy(all + at, misses[i].code.data, misses[i].code.size);
      blobs[misses[i].number] = (tc_sv){all + at, misses[i].code.size};
      at += misses[i].code.size;
      tc_cache_put(d->cache, keys[misses[i].number], blobs[misses[i].number]);
    }
    tc_free(d->allocator, misses[i].code.data);
  }
  code->data = all;
  return s;
}

// blobs[i] for the kernels whose `want[i]` is set.
static tc_status compile_some(tc_device *d, tc_arena *arena, int32_t n, const tc_kernel *const *kernels,
                              const tc_hash128 *keys, const bool *want, tc_sv *blobs, tc_compile_stats *stats) {
  tc_map *seen = tc_map_create(arena); // key → number of the first kernel with it, + 1
  miss *misses = TC_NEW_ARRAY(arena, miss, n);
  int32_t *same = TC_NEW_ARRAY(arena, int32_t, n);
  owned *code = own(d, arena);
  int32_t n_misses = 0;
  for (int32_t i = 0; i < n; i++) {
    same[i] = i;
    if (!want[i]) continue;
    tc_map_entry *e = tc_map_put(seen, (tc_sv){(const char *)&keys[i], sizeof keys[i]}, NULL);
    if (e->value.num) {
      same[i] = (int32_t)e->value.num - 1;
      stats->hits++;
      continue;
    }
    e->value.num = i + 1;
    bool hit = tc_cache_get(d->cache, arena, keys[i], &blobs[i]);
    if (tc_log_on(d->logger, TC_LOG_CACHE))
      tc_log(d->logger, TC_LOG_CACHE, "%s %016llx%016llx @" TC_SV_FMT, hit ? "hit" : "miss",
             (unsigned long long)keys[i].hi, (unsigned long long)keys[i].lo, TC_SV_ARG(tc_k_name(kernels[i])));
    if (hit) stats->hits++;
    else misses[n_misses++] = (miss){.kernel = kernels[i], .number = i};
  }
  if (n_misses > 0) TC_TRY(generate_all(d, n_misses, misses, keys, blobs, code, stats));
  for (int32_t i = 0; i < n; i++) {
    if (want[i]) blobs[i] = blobs[same[i]];
  }
  return TC_OK;
}

static tc_status make_keys(tc_device *d, tc_arena *arena, int32_t n, const tc_kernel *const *kernels,
                           tc_hash128 *keys) {
  tc_sv generator;
  TC_TRY(generator_key(d, arena, &generator));
  tc_sb text = tc_sb_make(arena);
  for (int32_t i = 0; i < n; i++) {
    text.size = 0;
    tc_kernel_print(&text, kernels[i]);
    tc_sb_put(&text, generator);
    keys[i] = tc_hash_long(text.text, text.size);
  }
  return TC_OK;
}

tc_status tc_device_compile(tc_device *d, tc_arena *arena, int32_t n, const tc_kernel *const *kernels, tc_sv *blobs,
                            tc_compile_stats *stats) {
  *stats = (tc_compile_stats){.kernels = n};
  if (n == 0) return TC_OK;
  tc_hash128 *keys = TC_NEW_ARRAY(arena, tc_hash128, n);
  bool *want = TC_NEW_ARRAY(arena, bool, n);
  memset(want, 1, (size_t)n * sizeof *want);
  TC_TRY(make_keys(d, arena, n, kernels, keys));
  return compile_some(d, arena, n, kernels, keys, want, blobs, stats);
}

tc_status tc_device_code_text(tc_device *d, tc_arena *arena, const tc_kernel *k, tc_sv *out) {
  blob_sink code = {0}, text = {0};
  owned *keep = own(d, arena);
  tc_status s = generate(d, k, &code, &text);
  tc_free(d->allocator, code.data);
  keep->data = text.data;
  *out = (tc_sv){text.data, text.size};
  return s;
}

// ---- Loaded kernels ----
static tc_loaded **bucket_of(tc_modules *m, tc_hash128 key) { return &m->buckets[key.lo % BUCKETS]; }

// Under the lock.
static tc_loaded *find_loaded(tc_modules *m, tc_hash128 key) {
  for (tc_loaded *k = *bucket_of(m, key); k; k = k->next) {
    if (k->key.lo == key.lo && k->key.hi == key.hi) {
      if (k->users++ == 0) m->unused--;
      return k;
    }
  }
  return NULL;
}

static tc_status load_kernel(tc_device *d, const tc_kernel *kernel, tc_hash128 key, tc_sv blob, tc_loaded **out) {
  const tc_device_table *t = d->plugin->device;
  tc_sv name = tc_k_name(kernel);
  tc_loaded *k = tc_alloc(d->allocator, sizeof *k);
  if (!k) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for a kernel");
  *k = (tc_loaded){.key = key, .users = 1};
  int32_t rc = t->module_load(d->handle, blob.data, blob.size, &k->module);
  tc_status s = tc_plugin_status(d->plugin, rc, "while loading the kernel " TC_SV_FMT, TC_SV_ARG(name));
  if (s == TC_OK)
    s = tc_plugin_status(d->plugin, t->function(d->handle, k->module, name, &k->function),
                         "while loading the kernel " TC_SV_FMT, TC_SV_ARG(name));
  if (s != TC_OK) {
    if (k->module) t->module_unload(d->handle, k->module);
    tc_free(d->allocator, k);
    return s;
  }
  pthread_mutex_lock(&d->modules->lock);
  tc_loaded *other = find_loaded(d->modules, key); // another thread, or an equal kernel of this very load
  if (!other) {
    k->next = *bucket_of(d->modules, key);
    *bucket_of(d->modules, key) = k;
  }
  pthread_mutex_unlock(&d->modules->lock);
  if (other) {
    t->module_unload(d->handle, k->module);
    tc_free(d->allocator, k);
    k = other;
  }
  *out = k;
  return TC_OK;
}

tc_status tc_device_load(tc_device *d, tc_arena *arena, int32_t n, const tc_kernel *const *kernels, tc_loaded **out,
                         tc_compile_stats *stats) {
  *stats = (tc_compile_stats){.kernels = n};
  if (n == 0) return TC_OK;
  tc_hash128 *keys = TC_NEW_ARRAY(arena, tc_hash128, n);
  bool *want = TC_NEW_ARRAY(arena, bool, n);
  tc_sv *blobs = TC_NEW_ARRAY(arena, tc_sv, n);
  TC_TRY(make_keys(d, arena, n, kernels, keys));
  for (int32_t i = 0; i < n; i++) {
    pthread_mutex_lock(&d->modules->lock);
    out[i] = find_loaded(d->modules, keys[i]);
    pthread_mutex_unlock(&d->modules->lock);
    want[i] = !out[i];
    stats->hits += !want[i];
  }
  TC_TRY(compile_some(d, arena, n, kernels, keys, want, blobs, stats));
  for (int32_t i = 0; i < n; i++) {
    if (want[i]) TC_TRY(load_kernel(d, kernels[i], keys[i], blobs[i], &out[i]));
  }
  return TC_OK;
}

void tc_device_release(tc_device *d, tc_loaded *k) {
  if (!k) return;
  tc_modules *m = d->modules;
  pthread_mutex_lock(&m->lock);
  bool drop = false;
  if (--k->users == 0) {
    drop = m->unused >= MOST_UNUSED;
    if (!drop) m->unused++;
  }
  if (drop) {
    tc_loaded **at = bucket_of(m, k->key);
    while (*at != k) at = &(*at)->next;
    *at = k->next;
  }
  pthread_mutex_unlock(&m->lock);
  if (!drop) return;
  d->plugin->device->module_unload(d->handle, k->module);
  tc_free(d->allocator, k);
}
