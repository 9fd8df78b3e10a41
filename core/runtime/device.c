// Devices: opening, and the kernels that are loaded. Code comes as objects, from a file or from codegen.c.
#include "core/runtime/device.h"

#include <pthread.h>
#include <string.h>

#include "core/base/fs.h"

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
  // Under the lock:
  int32_t graphs; // 0: not asked, 1: there are, -1: there are none
  tc_scratch *scratch;
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
    TC_TRY(tc_pool_create(d->allocator, (tc_pool_source){d, alloc_memory, free_memory, d->props.largest_alloc}, idle,
                          &d->memory));
  }
  d->modules = tc_alloc(d->allocator, sizeof *d->modules);
  if (!d->modules) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for a device");
  pthread_mutex_init(&d->modules->lock, NULL);
  return TC_OK;
}

// A device whose plugin brings routines may do without: programs are then cut around what the routines do.
static tc_status find_codegen(tc_device *d, tc_plugins *plugins, tc_sv kind) {
  tc_status s = tc_plugins_find_codegen(plugins, kind, &d->codegen);
  if (tc_status_code(s) != TC_STATUS_NOT_FOUND || !(d->plugin->capabilities & TC_CAP_CALLS)) return s;
  tc_status_free(s);
  d->codegen = NULL;
  return TC_OK;
}

// Records are good for a device, its driver's plugin, this program and a number of threads.
static tc_status open_tuning(tc_device *d, tc_arena *arena, const tc_device_options *o) {
  const char *folder = o->cache_dir ? tc_path_join(arena, tc_sv_of(o->cache_dir), TC_SV("tuning")).data : NULL;
  tc_sv who = tc_sv_printf(arena, "%s-%s-" TC_SV_FMT "-" TC_SV_FMT "-%s-%d", d->props.name, d->props.target,
                           TC_SV_ARG(d->plugin->name), TC_SV_ARG(d->plugin->version), TC_CORE_VERSION,
                           d->props.host_memory ? d->executor->threads(d->executor->self) : 0);
  d->tuned = o->tuned;
  return tc_tuning_open(d->allocator, folder, who, d->logger, &d->tuning);
}

tc_status tc_device_open(tc_arena *arena, tc_plugins *plugins, tc_sv kind, int32_t index, const tc_device_options *o,
                         tc_device **out) {
  tc_device *d = TC_NEW(arena, tc_device);
  *d = (tc_device){.allocator = o->allocator, .logger = o->logger, .profile = o->profile, .optimize = o->optimize};
  d->executor = o->executor ? o->executor : &tc_executor_serial;
  TC_TRY(tc_plugins_find_device(plugins, kind, &d->plugin));
  TC_TRY(find_codegen(d, plugins, kind));
  if (o->calls) TC_TRY(find_calls(d, arena, plugins, kind));
  const char *folder = o->cache_dir ? tc_path_join(arena, tc_sv_of(o->cache_dir), TC_SV("code")).data : NULL;
  tc_status s = open_device(d, index, kind, o);
  if (s != TC_OK) {
    tc_device_close(d);
    return s;
  }
  if (folder) d->cache = tc_cache_open(d->allocator, folder, o->cache_bytes, d->logger);
  if (o->tuned) s = open_tuning(d, arena, o);
  if (s != TC_OK) {
    tc_device_close(d);
    return s;
  }
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
  tc_tuning_close(d->tuning);
  if (d->modules) close_modules(d);
  if (d->memory != d->host) tc_pool_close(d->memory);
  tc_pool_close(d->host);
  if (d->handle && d->stream) t->stream_destroy(d->handle, d->stream);
  if (d->handle) t->close(d->handle);
  d->handle = 0, d->cache = NULL, d->tuning = NULL, d->modules = NULL, d->memory = d->host = NULL;
}

// ---- Recorded runs ----
bool tc_device_has_graphs(tc_device *d) {
  const tc_device_table *t = d->plugin->device;
  pthread_mutex_lock(&d->modules->lock);
  if (d->modules->graphs == 0) {
    tc_handle recorder = 0;
    bool can = t->graph_begin(d->handle, &recorder) == TC_STATUS_OK;
    if (can) t->graph_end(d->handle, recorder, NULL);
    else
      tc_log(d->logger, TC_LOG_DEVICE_GRAPHS, "%s records no device graphs: plans are run launch by launch",
             d->props.name);
    d->modules->graphs = can ? 1 : -1;
  }
  bool has = d->modules->graphs == 1;
  pthread_mutex_unlock(&d->modules->lock);
  return has;
}

tc_status tc_device_scratch(tc_device *d, int64_t bytes, tc_scratch **out) {
  tc_status s = TC_OK;
  pthread_mutex_lock(&d->modules->lock);
  tc_scratch *x = d->modules->scratch;
  if (!x || x->block->size < bytes) {
    x = tc_alloc(d->allocator, sizeof *x);
    s = x ? tc_pool_take(d->memory, bytes, &x->block) : tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for a recording");
    if (s == TC_OK) d->modules->scratch = x;
    else tc_free(d->allocator, x);
  }
  if (s == TC_OK) {
    x->users++;
    *out = x;
  }
  pthread_mutex_unlock(&d->modules->lock);
  return s;
}

void tc_device_scratch_drop(tc_device *d, tc_scratch *x) {
  if (!x) return;
  pthread_mutex_lock(&d->modules->lock);
  bool last = --x->users == 0;
  if (last && d->modules->scratch == x) d->modules->scratch = NULL;
  pthread_mutex_unlock(&d->modules->lock);
  if (!last) return;
  tc_pool_give(x->block);
  tc_free(d->allocator, x);
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

static tc_status load_object(tc_device *d, const tc_object *o, tc_loaded **out) {
  const tc_device_table *t = d->plugin->device;
  tc_loaded *k = tc_alloc(d->allocator, sizeof *k);
  if (!k) return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for a kernel");
  *k = (tc_loaded){.key = o->key, .users = 1};
  int32_t rc = t->module_load(d->handle, o->code.data, o->code.size, &k->module);
  tc_status s = tc_plugin_status(d->plugin, rc, "while loading the kernel " TC_SV_FMT, TC_SV_ARG(o->name));
  if (s == TC_OK)
    s = tc_plugin_status(d->plugin, t->function(d->handle, k->module, o->name, &k->function),
                         "while loading the kernel " TC_SV_FMT, TC_SV_ARG(o->name));
  if (s != TC_OK) {
    if (k->module) t->module_unload(d->handle, k->module);
    tc_free(d->allocator, k);
    return s;
  }
  pthread_mutex_lock(&d->modules->lock);
  tc_loaded *other = find_loaded(d->modules, o->key); // another thread, or an equal kernel of this very load
  if (!other) {
    k->next = *bucket_of(d->modules, o->key);
    *bucket_of(d->modules, o->key) = k;
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

tc_loaded *tc_device_find_loaded(tc_device *d, tc_hash128 key) {
  pthread_mutex_lock(&d->modules->lock);
  tc_loaded *k = find_loaded(d->modules, key);
  pthread_mutex_unlock(&d->modules->lock);
  return k;
}

tc_status tc_device_load_objects(tc_device *d, int32_t n, const tc_object *objects, tc_loaded **out) {
  for (int32_t i = 0; i < n; i++) {
    if (!out[i]) out[i] = tc_device_find_loaded(d, objects[i].key);
    if (!out[i]) TC_TRY(load_object(d, &objects[i], &out[i]));
  }
  return TC_OK;
}

tc_status tc_device_load_code(tc_device *d, tc_arena *arena, int32_t n, const tc_plan_code *code, tc_loaded **out) {
  for (int32_t i = 0; i < n; i++) {
    tc_object object = {code[i].name, code[i].key, code[i].object};
    out[i] = tc_device_find_loaded(d, object.key);
    if (out[i]) continue;
    if (!object.code.size && !tc_cache_get(d->cache, arena, object.key, &object.code))
      return tc_error(TC_STATUS_NOT_FOUND, "the code of the kernel " TC_SV_FMT " is not in the cache",
                      TC_SV_ARG(object.name));
    TC_TRY(load_object(d, &object, &out[i]));
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
