// What plugins keep on disk (tc_host: cache_get, cache_put): entries of the cache of compiled code, whose folder is
// opened when one of them first asks. Thread-safe but for create and destroy.
#ifndef TC_CORE_RUNTIME_PLUGIN_CACHE_H_
#define TC_CORE_RUNTIME_PLUGIN_CACHE_H_

#include "core/plugin/plugin.h"
#include "core/runtime/cache.h"

typedef struct tc_plugin_cache tc_plugin_cache;

// `dir`: the folder of caches; it, the logger and the allocator outlive what is made. NULL when memory is short:
// plugins then keep nothing.
tc_plugin_cache *tc_plugin_cache_create(const tc_allocator *a, const char *dir, int64_t max_bytes,
                                        const tc_logger *logger);
void tc_plugin_cache_destroy(tc_plugin_cache *c); // NULL is ignored
// As tc_plugins_options wants them; self is a tc_plugin_cache.
int32_t tc_plugin_cache_get(void *self, tc_hash128 key, const tc_sink *sink);
void tc_plugin_cache_put(void *self, tc_hash128 key, tc_sv contents);

#endif
