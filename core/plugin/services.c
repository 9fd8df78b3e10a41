// What a plugin is lent through tc_host: messages, log, memory, threads, its section of the configuration.
//
// Messages. A plugin's function returns a code; what it says through `diag` is kept here until the caller, on the same
// thread, turns the code into a status. Each plugin has a ring of messages marked with their threads. One that a worker
// inside parallel_for reported belongs to no caller: it goes to the next failing call that has none of its own.
#include <stdio.h>
#include <string.h>

#include "core/plugin/internal.h"

_Static_assert((int)TC_ARTIFACT_OUTPUT_CODE == (int)TC_LOG_OUTPUT_CODE &&
                   (int)TC_ARTIFACT_PERF_HINTS == (int)TC_LOG_PERF_HINTS &&
                   (int)TC_ARTIFACT_DEVICE_GRAPHS == (int)TC_LOG_DEVICE_GRAPHS,
               "plugins name log artifacts by number");

static tc_plugin_entry *entry_of(const tc_plugin *p) { return (tc_plugin_entry *)(uintptr_t)p; }

static void service_diag(void *self, int32_t code, tc_sv text) {
  tc_plugin_entry *e = self;
  size_t size = !text.data ? 0 : text.size < TC_DIAG_TEXT ? text.size : TC_DIAG_TEXT;
  pthread_mutex_lock(&e->diag_lock);
  tc_diag *d = &e->diags[0]; // a free slot has order 0, which is the least
  for (int i = 1; i < TC_DIAG_SLOTS; i++)
    if (e->diags[i].order < d->order) d = &e->diags[i];
  d->thread = pthread_self();
  d->order = ++e->diag_order;
  d->code = code;
  d->size = (uint32_t)size;
  if (size) memcpy(d->text, text.data, size);
  pthread_mutex_unlock(&e->diag_lock);
}

// The last message of this thread, or of a worker. All of this thread's are forgotten.
static bool take(tc_plugin_entry *e, tc_diag *out) {
  tc_diag *own = NULL, *other = NULL;
  pthread_mutex_lock(&e->diag_lock);
  for (int i = 0; i < TC_DIAG_SLOTS; i++) {
    tc_diag *d = &e->diags[i];
    if (!d->order) continue;
    tc_diag **best = pthread_equal(d->thread, pthread_self()) ? &own : &other;
    if (!*best || d->order > (*best)->order) *best = d;
  }
  tc_diag *d = own ? own : other;
  if (d) {
    *out = *d;
    d->order = 0;
  }
  for (int i = 0; i < TC_DIAG_SLOTS; i++)
    if (e->diags[i].order && pthread_equal(e->diags[i].thread, pthread_self())) e->diags[i].order = 0;
  pthread_mutex_unlock(&e->diag_lock);
  return d != NULL;
}

tc_status tc_plugin_status(const tc_plugin *p, int32_t code, const char *fmt, ...) {
  if (code == TC_STATUS_OK) return TC_OK;
  tc_diag d;
  bool said = take(entry_of(p), &d);
  if (code < 0 || code > TC_STATUS_INTERNAL) code = TC_STATUS_PLUGIN;
  tc_status s = said && d.size ? tc_error(code, "plugin '" TC_SV_FMT "': %.*s", TC_SV_ARG(p->name), (int)d.size, d.text)
                               : tc_error(code, "plugin '" TC_SV_FMT "': %s; it gives no detail", TC_SV_ARG(p->name),
                                          tc_status_name(code));
  if (!fmt) return s;
  char note[512];
  va_list args;
  va_start(args, fmt);
  vsnprintf(note, sizeof note, fmt, args);
  va_end(args);
  return tc_status_note(s, "%s", note);
}

tc_sv tc_plugin_take_diag(const tc_plugin *p, tc_arena *arena) {
  tc_diag d;
  if (!take(entry_of(p), &d)) return (tc_sv){"", 0};
  return tc_sv_copy(arena, (tc_sv){d.text, d.size});
}

static void service_log(void *self, int32_t artifact, tc_sv text) {
  tc_plugin_entry *e = self;
  if (artifact < 0 || artifact >= TC_LOG_COUNT || !text.data || text.size > INT32_MAX) return;
  tc_log(&e->owner->logger, artifact, TC_SV_FMT, TC_SV_ARG(text));
}

static void *service_alloc(void *self, uint64_t size) {
  tc_plugin_entry *e = self;
  return size > SIZE_MAX / 2 ? NULL : tc_alloc(e->owner->options.allocator, (size_t)size);
}

static void service_free(void *self, void *ptr) {
  tc_plugin_entry *e = self;
  tc_free(e->owner->options.allocator, ptr);
}

static int32_t service_threads(void *self) {
  const tc_executor *x = &((tc_plugin_entry *)self)->owner->executor;
  return x->threads(x->self);
}

static void service_parallel_for(void *self, int64_t n, int64_t grain, tc_range_fn_abi fn, void *arg) {
  const tc_executor *x = &((tc_plugin_entry *)self)->owner->executor;
  if (n > 0 && fn) x->parallel_for(x->self, n, grain, fn, arg);
}

static tc_sv service_config(void *self, tc_sv key) {
  tc_plugin_entry *e = self;
  const tc_plugins_options *o = &e->owner->options;
  return o->config && key.data ? o->config(o->config_self, e->pub.name, key) : (tc_sv){"", 0};
}

// The key of a plugin's entry: its name goes before its own key.
static tc_hash128 entry_key(const tc_plugin_entry *e, tc_sv key) {
  tc_hash128 own = tc_hash_long(key.data, key.size), name = tc_hash_long(e->pub.name.data, e->pub.name.size);
  uint64_t words[5] = {0x4e4947554c50, name.hi, name.lo, own.hi, own.lo};
  return tc_hash_long(words, sizeof words);
}

static int32_t service_cache_get(void *self, tc_sv key, const tc_sink *sink) {
  tc_plugin_entry *e = self;
  const tc_plugins_options *o = &e->owner->options;
  if (!o->cache_get || !key.data || !sink || !sink->write) return TC_STATUS_NOT_FOUND;
  return o->cache_get(o->cache_self, entry_key(e, key), sink);
}

static void service_cache_put(void *self, tc_sv key, const void *data, uint64_t size) {
  tc_plugin_entry *e = self;
  const tc_plugins_options *o = &e->owner->options;
  if (!o->cache_put || !key.data || (!data && size) || size > SIZE_MAX / 2) return;
  o->cache_put(o->cache_self, entry_key(e, key), (tc_sv){data ? data : "", (size_t)size});
}

void tc_services_init(tc_plugin_entry *e) {
  const tc_host_tables *t = &e->owner->options.tables;
  e->host = (tc_host){
      .magic = TC_ABI_MAGIC,
      .abi_major = TC_ABI_MAJOR,
      .abi_minor = TC_ABI_MINOR,
      .struct_size = sizeof(tc_host),
      .self = e,
      .diag = service_diag,
      .log = service_log,
      .alloc = service_alloc,
      .free = service_free,
      .threads = service_threads,
      .parallel_for = service_parallel_for,
      .config = service_config,
      .kernel_read = t->kernel_read,
      .kernel_build = t->kernel_build,
      .op = t->op,
      .expand = t->expand,
      .lower = t->lower,
      .stage = t->stage,
      .cache_get = service_cache_get,
      .cache_put = service_cache_put,
  };
  e->pub.host = &e->host;
}
