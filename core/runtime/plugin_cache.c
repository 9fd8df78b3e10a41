// What plugins keep on disk. See plugin_cache.h.
#include "core/runtime/plugin_cache.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>

struct tc_plugin_cache {
  const tc_allocator *allocator;
  const tc_logger *logger;
  const char *dir;
  int64_t max_bytes;
  pthread_mutex_t lock;
  bool tried;      // under the lock
  tc_cache *cache; // too; then as it is
};

tc_plugin_cache *tc_plugin_cache_create(const tc_allocator *a, const char *dir, int64_t max_bytes,
                                        const tc_logger *logger) {
  tc_plugin_cache *c = tc_alloc(a, sizeof *c);
  if (!c) return NULL;
  *c = (tc_plugin_cache){.allocator = a, .logger = logger, .dir = dir, .max_bytes = max_bytes};
  pthread_mutex_init(&c->lock, NULL);
  return c;
}

void tc_plugin_cache_destroy(tc_plugin_cache *c) {
  if (!c) return;
  tc_cache_close(c->cache);
  pthread_mutex_destroy(&c->lock);
  tc_free(c->allocator, c);
}

static tc_cache *opened(tc_plugin_cache *c) {
  char folder[PATH_MAX];
  pthread_mutex_lock(&c->lock);
  if (!c->tried) {
    int n = snprintf(folder, sizeof folder, "%s/code", c->dir);
    if (n > 0 && (size_t)n < sizeof folder) c->cache = tc_cache_open(c->allocator, folder, c->max_bytes, c->logger);
    c->tried = true;
  }
  tc_cache *cache = c->cache;
  pthread_mutex_unlock(&c->lock);
  return cache;
}

typedef struct reading {
  tc_cache *cache;
  tc_arena *arena;
  tc_hash128 key;
  tc_sv contents;
  bool found;
} reading;
static tc_status read_entry(void *arg) {
  reading *r = arg;
  r->found = tc_cache_get(r->cache, r->arena, r->key, &r->contents);
  return TC_OK;
}

int32_t tc_plugin_cache_get(void *self, tc_hash128 key, const tc_sink *sink) {
  tc_plugin_cache *c = self;
  reading r = {.cache = opened(c), .key = key};
  if (!r.cache) return TC_STATUS_NOT_FOUND;
  tc_status s = tc_arena_create(c->allocator, &r.arena);
  if (s == TC_OK) s = tc_arena_guard(r.arena, read_entry, &r);
  int32_t code = s != TC_OK ? (int32_t)tc_status_code(s) : r.found ? TC_STATUS_OK : TC_STATUS_NOT_FOUND;
  tc_status_free(s);
  // Behind the guard: nothing may unwind through the plugin.
  if (code == TC_STATUS_OK) code = sink->write(sink->self, r.contents.data, r.contents.size);
  tc_arena_destroy(r.arena);
  return code;
}

void tc_plugin_cache_put(void *self, tc_hash128 key, tc_sv contents) { tc_cache_put(opened(self), key, contents); }
