// Devices and the cache of compiled code.
//
// A cache entry is CACHE/code/HH/HASH: a 32-byte header (magic, format, size, hash of the contents) and the code object.
// The key is the hash of the kernel's text and of the generator's own key, which holds its version and the device's
// features. Entries are written by rename; a damaged or short one is compiled again and replaced.
#include "core/runtime/device.h"

#include <string.h>

#include "core/base/fs.h"
#include "core/kernel/kernel.h"

tc_status tc_device_open(tc_arena *arena, const tc_allocator *a, tc_plugins *plugins, tc_sv kind, int32_t index, const char *cache_dir, const tc_logger *logger, tc_device **out) {
  tc_device *d = TC_NEW(arena, tc_device);
  *d = (tc_device){.allocator = a, .logger = logger, .cache_dir = cache_dir};
  TC_TRY(tc_plugins_find_device(plugins, kind, &d->plugin));
  TC_TRY(tc_plugins_find_codegen(plugins, kind, &d->codegen));
  const tc_device_table *t = d->plugin->device;
  int32_t count = 0;
  TC_TRY(tc_plugin_status(d->plugin, t->enumerate(d->plugin->host, &count), "while looking for devices of kind " TC_SV_FMT, TC_SV_ARG(kind)));
  if (index < 0 || index >= count) return tc_error(TC_STATUS_INVALID_ARGUMENT, "there is no device %d of kind " TC_SV_FMT ": %d found", index, TC_SV_ARG(kind), count);
  TC_TRY(tc_plugin_status(d->plugin, t->open(d->plugin->host, index, &d->handle), "while opening device %d of kind " TC_SV_FMT, index, TC_SV_ARG(kind)));
  d->props.struct_size = sizeof d->props;
  tc_status s = tc_plugin_status(d->plugin, t->properties(d->handle, &d->props), "while reading the device's properties");
  if (s != TC_OK) {
    tc_device_close(d);
    return s;
  }
  *out = d;
  return TC_OK;
}

void tc_device_close(tc_device *d) {
  if (d && d->handle) d->plugin->device->close(d->handle);
  if (d) d->handle = NULL;
}

// ---- sinks ----
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
    char *more = tc_alloc(b->allocator, capacity);
    if (!more) return TC_STATUS_OUT_OF_MEMORY;
    if (b->size) memcpy(more, b->data, b->size);
    tc_free(b->allocator, b->data);
    b->data = more;
    b->capacity = capacity;
  }
  memcpy(b->data + b->size, data, size);
  b->size += size;
  return TC_STATUS_OK;
}

// ---- the cache ----
enum { MAGIC = 0x4f436354, FORMAT = 1 };
typedef struct entry_header {
  uint32_t magic, format;
  uint64_t size, hash, reserved;
} entry_header;

static tc_sv entry_path(tc_device *d, tc_arena *arena, tc_hash128 key) {
  return tc_sv_printf(arena, "%s/code/%02x/%016llx%016llx", d->cache_dir, (unsigned)(key.hi >> 56), (unsigned long long)key.hi, (unsigned long long)key.lo);
}

static bool cache_get(tc_device *d, tc_arena *arena, tc_hash128 key, tc_sv *out) {
  tc_sv path = entry_path(d, arena, key), text;
  tc_status s = tc_file_read(arena, path.data, &text);
  if (s != TC_OK) {
    tc_status_free(s);
    return false;
  }
  entry_header h;
  if (text.size < sizeof h) return false;
  memcpy(&h, text.data, sizeof h);
  tc_sv body = {text.data + sizeof h, text.size - sizeof h};
  if (h.magic != MAGIC || h.format != FORMAT || h.size != body.size || h.hash != tc_hash(body.data, body.size)) {
    tc_log(d->logger, TC_LOG_CACHE, "damaged entry " TC_SV_FMT ": compiled again", TC_SV_ARG(path));
    return false;
  }
  *out = body;
  return true;
}

// A cache that cannot be written costs time, not the run.
static void cache_put(tc_device *d, tc_arena *arena, tc_hash128 key, tc_sv body) {
  tc_sv path = entry_path(d, arena, key);
  entry_header h = {.magic = MAGIC, .format = FORMAT, .size = body.size, .hash = tc_hash(body.data, body.size)};
  char *all = tc_arena_alloc(arena, sizeof h + body.size);
  memcpy(all, &h, sizeof h);
  memcpy(all + sizeof h, body.data, body.size);
  tc_status s = tc_dir_make(tc_sv_z(arena, tc_path_dir(path)));
  if (s == TC_OK) s = tc_file_write(path.data, all, sizeof h + body.size);
  if (s != TC_OK) tc_log(d->logger, TC_LOG_CACHE, "not written: %s", tc_status_text(s));
  tc_status_free(s);
}

static tc_status generator_key(tc_device *d, tc_arena *arena, tc_sv *out) {
  blob_sink b = {.allocator = d->allocator};
  tc_sink sink = {&b, write_blob};
  tc_status s = tc_plugin_status(d->codegen, d->codegen->codegen->key(d->codegen->host, d->handle, &sink), "while asking the code generator for its key");
  if (s == TC_OK) *out = tc_sv_copy(arena, (tc_sv){b.data, b.size});
  tc_free(d->allocator, b.data);
  return s;
}

static tc_status generate(tc_device *d, tc_arena *arena, const tc_kernel *k, tc_sv *blob, tc_sv *text) {
  blob_sink code = {.allocator = d->allocator}, listing = {.allocator = d->allocator};
  tc_sink sink = {&code, write_blob}, text_sink = {&listing, write_blob};
  int32_t rc = d->codegen->codegen->compile(d->codegen->host, d->handle, &k, 1, 1, &sink, text ? &text_sink : NULL);
  tc_sv name = tc_k_name(k);
  tc_status s = tc_plugin_status(d->codegen, rc, "while generating code for the kernel " TC_SV_FMT, TC_SV_ARG(name));
  if (s == TC_OK) *blob = tc_sv_copy(arena, (tc_sv){code.data, code.size});
  if (s == TC_OK && text) *text = tc_sv_copy(arena, (tc_sv){listing.data, listing.size});
  tc_free(d->allocator, code.data);
  tc_free(d->allocator, listing.data);
  return s;
}

tc_status tc_device_compile(tc_device *d, tc_arena *arena, int32_t n, const tc_kernel *const *kernels, tc_sv *blobs, tc_compile_stats *stats) {
  tc_sv generator;
  *stats = (tc_compile_stats){.kernels = n};
  if (n == 0) return TC_OK;
  TC_TRY(generator_key(d, arena, &generator));
  for (int32_t i = 0; i < n; i++) {
    tc_sb text = tc_sb_make(arena);
    tc_kernel_print(&text, kernels[i]);
    tc_sb_put(&text, generator);
    tc_hash128 key = tc_hash_long(text.text, text.size);
    bool hit = d->cache_dir && cache_get(d, arena, key, &blobs[i]);
    tc_log(d->logger, TC_LOG_CACHE, "%s %016llx%016llx @" TC_SV_FMT, hit ? "hit" : "miss", (unsigned long long)key.hi, (unsigned long long)key.lo, TC_SV_ARG(tc_k_name(kernels[i])));
    if (hit) {
      stats->hits++;
      continue;
    }
    double start = tc_now_ms();
    TC_TRY(generate(d, arena, kernels[i], &blobs[i], NULL));
    stats->ms += tc_now_ms() - start;
    if (d->cache_dir) cache_put(d, arena, key, blobs[i]);
  }
  return TC_OK;
}

tc_status tc_device_code_text(tc_device *d, tc_arena *arena, const tc_kernel *k, tc_sv *out) {
  tc_sv blob;
  return generate(d, arena, k, &blob, out);
}
