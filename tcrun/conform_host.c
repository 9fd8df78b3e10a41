// What cases share: host services that watch, loading, opening.
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tcrun/conform.h"

void kit_unsupported(kit *k, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  vsnprintf(k->unsupported, sizeof k->unsupported, fmt, args);
  va_end(args);
}

void kit_note(kit *k, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  vsnprintf(k->note, sizeof k->note, fmt, args);
  va_end(args);
}

// splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014)
uint64_t kit_random(kit *k) {
  uint64_t z = k->seed += 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

tc_status kit_failed(kit *k, const char *what, int32_t code) {
  return tc_error(TC_STATUS_MISMATCH, "%s returned %d: %s", what, code,
                  k->services.diag[0] ? k->services.diag : "without a word through host->diag");
}

tc_status kit_must_fail(kit *k, const char *what, int32_t code) {
  KIT_CHECK(code != TC_STATUS_OK, "%s must fail", what);
  KIT_CHECK(k->services.n_diags > 0, "%s fails with code %d, without a word through host->diag", what, code);
  return TC_OK;
}

// ---- Services ----
static void diag(void *self, int32_t code, tc_sv text) {
  kit_host *h = self;
  (void)code;
  pthread_mutex_lock(&h->lock);
  snprintf(h->diag, sizeof h->diag, "%.*s", (int)(text.size < 900 ? text.size : 900), text.data ? text.data : "");
  h->n_diags++;
  pthread_mutex_unlock(&h->lock);
}
static void ignore_log(void *self, int32_t artifact, tc_sv text) { (void)self, (void)artifact, (void)text; }

enum { WALL = 64 };
typedef struct block {
  uint64_t size;
  uint8_t pad[WALL - sizeof(uint64_t)];
} block;

static void *take(void *self, uint64_t size) {
  kit_host *h = self;
  if (atomic_fetch_add(&h->count, 1) + 1 == atomic_load(&h->fail_at) || size > (uint64_t)1 << 40) return NULL;
  uint64_t room = (size + WALL - 1) / WALL * WALL;
  block *b = aligned_alloc(WALL, sizeof *b + room + WALL);
  if (!b) return NULL;
  b->size = size;
  memset(b + 1, 0, size);
  memset((char *)(b + 1) + size, 0x5a, room + WALL - size);
  atomic_fetch_add(&h->live, 1);
  return b + 1;
}

static void give(void *self, void *p) {
  kit_host *h = self;
  if (!p) return;
  block *b = (block *)p - 1;
  const uint8_t *wall = (uint8_t *)p + b->size;
  for (int i = 0; i < WALL; i++) {
    if (wall[i] == 0x5a) continue;
    atomic_fetch_add(&h->damaged, 1);
    break;
  }
  atomic_fetch_sub(&h->live, 1);
  free(b);
}

static int32_t threads(void *self) { return (void)self, 1; }
static void serial(void *self, int64_t n, int64_t grain, tc_range_fn_abi fn, void *arg) {
  (void)self, (void)grain;
  if (n > 0) fn(arg, 0, n);
}

// What --set NAME.KEY=VALUE says.
static tc_sv config_value(void *self, tc_sv key) {
  const kit *k = ((kit_host *)self)->kit;
  return tc_config_section(k->config, k->about.name, key);
}

void kit_host_init(kit_host *h, const kit *k) {
  memset(h, 0, sizeof *h);
  pthread_mutex_init(&h->lock, NULL);
  h->kit = k;
  tc_host_tables t = tc_host_tables_core();
  h->host = (tc_host){.magic = TC_ABI_MAGIC,
                      .abi_major = TC_ABI_MAJOR,
                      .abi_minor = TC_ABI_MINOR,
                      .struct_size = sizeof(tc_host),
                      .self = h,
                      .diag = diag,
                      .log = ignore_log,
                      .alloc = take,
                      .free = give,
                      .threads = threads,
                      .parallel_for = serial,
                      .config = config_value,
                      .kernel_read = t.kernel_read,
                      .kernel_build = t.kernel_build,
                      .op = t.op,
                      .expand = t.expand,
                      .lower = t.lower,
                      .stage = t.stage};
}

tc_status kit_host_balanced(kit_host *h, const char *when) {
  KIT_CHECK(!atomic_load(&h->damaged), "%s: %d blocks of host->alloc were written behind their end", when,
            (int)atomic_load(&h->damaged));
  KIT_CHECK(atomic_load(&h->live) == 0, "%s: %lld blocks of host->alloc were not given back", when,
            (long long)atomic_load(&h->live));
  return TC_OK;
}

// ---- Loading ----
static tc_sv section_value(void *self, tc_sv section, tc_sv key) {
  return tc_config_section(((const kit *)self)->config, section, key);
}

tc_status kit_load(kit *k) {
  if (k->plugin) return TC_OK;
  tc_plugins_options options = {
      .allocator = tc_system_allocator(), .tables = tc_host_tables_core(), .config = section_value, .config_self = k};
  tc_sv none = tc_path_dir(tc_sv_of(k->file));
  options.folders = &none;
  options.n_folders = 1;
  TC_TRY(tc_plugins_create(&options, &k->loader));
  tc_plugin *p;
  TC_TRY(tc_plugins_add_file(k->loader, k->file, &p));
  TC_TRY(tc_plugins_load(k->loader, p));
  k->plugin = p;
  return TC_OK;
}

tc_status kit_find_query(kit *k) {
  TC_TRY(kit_load(k)); // with its checks of the file
  if (k->query) return TC_OK;
  void *object = dlopen(k->file, RTLD_NOW | RTLD_LOCAL), *symbol = object ? dlsym(object, "tc_plugin_query") : NULL;
  KIT_CHECK(symbol, "the file exports no tc_plugin_query");
  memcpy(&k->query, &symbol, sizeof k->query);
  return TC_OK;
}

tc_status kit_open(kit *k, bool *out_there) {
  int32_t n = 0;
  *out_there = false;
  TC_TRY(kit_load(k));
  kit_host_init(&k->services, k);
  if (!(k->about.capabilities & TC_CAP_DEVICE)) {
    kit_unsupported(k, "the plugin drives no device");
    return TC_OK;
  }
  const tc_device_table *t = k->plugin->device;
  int32_t code = t->enumerate(&k->services.host, &n);
  if (code != TC_STATUS_OK || n <= 0) {
    kit_unsupported(k, "no device here: %.200s", k->services.diag[0] ? k->services.diag : "none was found");
    return TC_OK;
  }
  KIT_OK(k, t->open(&k->services.host, 0, &k->device));
  k->props = (tc_device_props){.struct_size = sizeof k->props};
  KIT_OK(k, t->properties(k->device, &k->props));
  KIT_OK(k, t->stream_create(k->device, &k->stream));
  *out_there = true;
  return TC_OK;
}

void kit_close(kit *k) {
  if (k->device && k->stream) k->plugin->device->stream_destroy(k->device, k->stream);
  if (k->device) k->plugin->device->close(k->device);
  k->device = NULL, k->stream = 0;
}

tc_status kit_with_device(kit *k, tc_status (*run)(kit *k)) {
  bool there;
  tc_status s = kit_open(k, &there);
  if (s == TC_OK && there) s = run(k);
  kit_close(k);
  if (s == TC_OK) s = kit_host_balanced(&k->services, "after close");
  return s;
}
