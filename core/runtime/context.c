// Contexts, without what compiles (compiler.c).
#include "core/runtime/context.h"

#include <string.h>

#include "core/base/fs.h"
#include "core/base/profile.h"
#include "core/runtime/plugin_cache.h"

static tc_status find_cache(tc_context *c) {
  tc_sv dir = tc_config_text(c->config, TC_OPT_ID_CACHE_DIR);
  if (!tc_config_bool(c->config, TC_OPT_ID_CACHE_ENABLED)) return TC_OK;
  if (!dir.size) {
    const char *xdg = tc_env("XDG_CACHE_HOME"), *home = tc_env("HOME");
    if (xdg) dir = tc_path_join(c->arena, tc_sv_of(xdg), TC_SV("tc"));
    else if (home) dir = tc_path_join(c->arena, tc_sv_of(home), TC_SV(".cache/tc"));
    else return TC_OK; // nowhere to keep anything
  }
  c->cache_dir = tc_sv_z(c->arena, dir);
  return TC_OK;
}

typedef struct creation {
  tc_context *c;
  const tc_context_parts *parts;
} creation;
static tc_status set_up(void *arg) {
  const tc_context_parts *parts = ((creation *)arg)->parts;
  tc_context *c = ((creation *)arg)->c;
  const tc_sv *folders;
  int32_t n_folders = tc_config_list(c->config, TC_OPT_ID_PLUGINS_PATH, &folders);
  TC_TRY(tc_executor_openmp((int32_t)tc_config_int(c->config, TC_OPT_ID_THREADS), &c->executor));
  TC_TRY(find_cache(c));
  tc_sv timeline = tc_config_text(c->config, TC_OPT_ID_PROFILE);
  if (timeline.size) TC_TRY(tc_profile_open(c->allocator, tc_sv_z(c->arena, timeline), &c->profile));
  tc_plugins_options po = {.allocator = c->allocator,
                           .executor = &c->executor,
                           .logger = &c->logger,
                           .tables = parts->tables,
                           .folders = folders,
                           .n_folders = n_folders};
  po.prefer = tc_config_text(c->config, TC_OPT_ID_PLUGINS_PREFER);
  po.disabled = tc_config_text(c->config, TC_OPT_ID_PLUGINS_DISABLED);
  po.config = tc_config_section;
  po.config_self = c->config;
  if (c->cache_dir)
    c->kept =
        tc_plugin_cache_create(c->allocator, c->cache_dir, tc_config_int(c->config, TC_OPT_ID_CACHE_MAX), &c->logger);
  if (c->kept) po.cache_get = tc_plugin_cache_get, po.cache_put = tc_plugin_cache_put, po.cache_self = c->kept;
  TC_TRY(tc_plugins_create(&po, &c->plugins));
  tc_plugin *list;
  int32_t n;
  TC_TRY(tc_plugins_list(c->plugins, c->arena, &list, &n));
  tc_sv *names = TC_NEW_ARRAY(c->arena, tc_sv, n);
  for (int32_t i = 0; i < n; i++) names[i] = list[i].name;
  TC_TRY(tc_config_check_sections(c->config, names, n));
  if (!parts->set_up) return tc_op_registry_create(c->arena, &c->ops);
  return parts->set_up(c, n, list);
}

tc_status tc_context_create_with(const tc_allocator *a, tc_config *config, tc_logger logger,
                                 const tc_context_parts *parts, tc_context **out) {
  tc_context *c = tc_alloc(a, sizeof *c);
  if (!c) {
    tc_config_destroy(config);
    return tc_error(TC_STATUS_OUT_OF_MEMORY, "no memory for a context");
  }
  c->allocator = a;
  c->config = config;
  c->logger = logger;
  c->executor = tc_executor_serial;
  c->seed = (uint64_t)tc_config_int(config, TC_OPT_ID_SEED);
  c->close = parts->close;
  c->opened = parts->opened;
  c->tuned = parts->tuned;
  tc_status s = tc_log_parse(tc_config_text(config, TC_OPT_ID_LOGS), &c->logger);
  if (s == TC_OK) s = tc_arena_create(a, &c->arena);
  if (s == TC_OK) s = tc_arena_guard(c->arena, set_up, &(creation){c, parts});
  if (s != TC_OK) {
    tc_context_destroy(c);
    return s;
  }
  *out = c;
  return TC_OK;
}

void tc_context_destroy(tc_context *c) {
  if (!c) return;
  if (c->close) c->close(c);
  tc_device_close(c->device);
  tc_profile_close(c->profile);
  tc_plugins_destroy(c->plugins);
  tc_plugin_cache_destroy(c->kept);
  tc_executor_destroy(&c->executor);
  tc_config_destroy(c->config);
  tc_arena_destroy(c->arena);
  tc_free(c->allocator, c);
}

int32_t tc_context_replays(const tc_context *c) {
  bool wanted = tc_config_bool(c->config, TC_OPT_ID_DEVICE_GRAPH);
  return wanted ? (int32_t)tc_config_int(c->config, TC_OPT_ID_REPLAY_MAX) : 0;
}

void tc_context_draw(tc_context *c, uint64_t n, uint64_t *out_seed, uint64_t *out_stream) {
  *out_seed = __atomic_load_n(&c->seed, __ATOMIC_RELAXED);
  *out_stream = __atomic_fetch_add(&c->drawn, n, __ATOMIC_RELAXED);
}

void tc_context_set_seed(tc_context *c, uint64_t seed) {
  __atomic_store_n(&c->seed, seed, __ATOMIC_RELAXED);
  __atomic_store_n(&c->drawn, 0, __ATOMIC_RELAXED);
}

tc_device_options tc_context_device_options(const tc_context *c) {
  tc_device_options o = {
      .allocator = c->allocator, .logger = &c->logger, .executor = &c->executor, .cache_dir = c->cache_dir};
  o.profile = c->profile;
  o.cache_bytes = tc_config_int(c->config, TC_OPT_ID_CACHE_MAX);
  o.optimize = (int32_t)tc_config_int(c->config, TC_OPT_ID_OPTIMIZE);
  o.calls = !tc_sv_is(tc_config_text(c->config, TC_OPT_ID_CALLS), "never");
  if (tc_config_bool(c->config, TC_OPT_ID_AUTOTUNE)) o.tuned = c->tuned;
  return o;
}

bool tc_debug_wanted(const tc_context *c) {
  return tc_config_bool(c->config, TC_OPT_ID_COMPILE_DEBUG) || tc_config_text(c->config, TC_OPT_ID_DEBUG_DIR).size > 0;
}

static tc_status open_device(tc_context *c) {
  tc_sv name = tc_config_text(c->config, TC_OPT_ID_BACKEND);
  int32_t index = (int32_t)tc_config_int(c->config, TC_OPT_ID_DEVICE);
  if (tc_sv_is(name, "ref")) {
    c->is_ref = true;
    c->backend = TC_SV("ref");
    return TC_OK;
  }
  if (!tc_sv_is(name, "auto")) {
    c->backend = tc_sv_copy(c->arena, name);
    tc_device_options o = tc_context_device_options(c);
    return tc_device_open(c->arena, c->plugins, c->backend, index, &o, &c->device);
  }
  tc_sv *kinds;
  int32_t n;
  tc_status last = TC_OK;
  TC_TRY(tc_plugins_device_kinds(c->plugins, c->arena, &kinds, &n));
  for (int32_t i = 0; i < n; i++) {
    tc_status_free(last);
    tc_device_options o = tc_context_device_options(c);
    last = tc_device_open(c->arena, c->plugins, kinds[i], index, &o, &c->device);
    if (last == TC_OK) {
      c->backend = kinds[i];
      return TC_OK;
    }
  }
  return last != TC_OK ? last
                       : tc_error(TC_STATUS_NOT_FOUND, "no plugin drives a device; backend 'ref' runs everywhere");
}

static tc_status open_backend(void *arg) {
  tc_context *c = arg;
  TC_TRY(open_device(c));
  return c->opened ? c->opened(c) : TC_OK;
}

tc_status tc_context_open_backend(tc_context *c) { return tc_arena_guard(c->arena, open_backend, c); }
