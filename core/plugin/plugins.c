// The registry: folders are scanned for manifests once; a plugin's file is opened when something that only it offers is
// asked for. What a plugin turns out to be (loaded, or refused and why) is decided once and kept.
//
// Locking: `lock` guards the entries and the arena, and is held while a plugin is opened and asked. Plugins reach the
// host through services.c, which does not take it. Whatever may unwind runs in a guard inside the lock.
#include <dlfcn.h>
#include <string.h>

#include "core/plugin/internal.h"

const char *tc_plugin_state_name(int32_t state) {
  static const char *const names[] = {"available", "loaded", "refused"};
  return state >= 0 && state < 3 ? names[state] : "unknown";
}

// ---- Running under the lock and a guard ----
typedef struct guarded {
  tc_plugins *ps;
  tc_status (*fn)(tc_plugins *ps, void *arg);
  void *arg;
} guarded;
static tc_status enter(void *arg) {
  guarded *g = arg;
  return g->fn(g->ps, g->arg);
}
static tc_status locked(tc_plugins *ps, tc_arena *arena, tc_status (*fn)(tc_plugins *ps, void *arg), void *arg) {
  guarded g = {ps, fn, arg};
  pthread_mutex_lock(&ps->lock);
  tc_status s = tc_arena_guard(arena, enter, &g);
  pthread_mutex_unlock(&ps->lock);
  return s;
}
// Two arenas: the registry's own and the caller's.
typedef struct guarded_twice {
  tc_arena *arena;
  guarded inner;
} guarded_twice;
static tc_status enter_twice(tc_plugins *ps, void *arg) {
  (void)ps;
  guarded_twice *g = arg;
  return tc_arena_guard(g->arena, enter, &g->inner);
}
static tc_status locked_with(tc_plugins *ps, tc_arena *arena, tc_status (*fn)(tc_plugins *ps, void *arg), void *arg) {
  guarded_twice g = {arena, {ps, fn, arg}};
  return locked(ps, ps->arena, enter_twice, &g);
}

static bool in_names(tc_sv list, tc_sv name, int32_t *out_at) {
  tc_sv word;
  for (int32_t i = 0; list.size > 0; i++) {
    list = tc_sv_cut(list, ',', &word);
    if (!tc_sv_eq(tc_sv_trim(word), name)) continue;
    if (out_at) *out_at = i;
    return true;
  }
  return false;
}

// ---- Scanning ----
// Takes `why`. Lack of memory is no refusal: it is passed on.
static tc_status refuse(tc_plugins *ps, tc_plugin *p, tc_status why) {
  if (tc_status_code(why) == TC_STATUS_OUT_OF_MEMORY) return why;
  // Until the text is in the arena a copy on the stack stands in, so that the status is freed whatever happens.
  char text[2000];
  size_t size = strlen(tc_status_text(why));
  if (size >= sizeof text) size = sizeof text - 1;
  memcpy(text, tc_status_text(why), size);
  tc_status_free(why);
  p->state = TC_PLUGIN_REFUSED;
  p->reason = (tc_sv){"out of memory", 13};
  p->reason = tc_sv_copy(ps->arena, (tc_sv){text, size});
  tc_log(&ps->logger, TC_LOG_PLUGINS, "refused " TC_SV_FMT ": " TC_SV_FMT, TC_SV_ARG(p->name), TC_SV_ARG(p->reason));
  return TC_OK;
}

static tc_plugin_entry *new_entry(tc_plugins *ps, tc_sv name) {
  tc_plugin_entry *e = TC_NEW(ps->arena, tc_plugin_entry);
  static const tc_sv none = {"", 0};
  e->pub = (tc_plugin){.name = name,
                       .manifest = none,
                       .file = none,
                       .vendor = none,
                       .version = none,
                       .description = none,
                       .reason = none,
                       .build_id = none};
  e->owner = ps;
  tc_services_init(e);
  tc_vec_push(ps->arena, &ps->entries, e);
  pthread_mutex_init(&e->diag_lock, NULL); // last: destroy goes over what is in the list
  return e;
}

static tc_status check_manifest(tc_plugins *ps, tc_plugin *p, tc_sv path) {
  tc_sv real;
  TC_TRY(tc_trusted_path(ps->arena, path.data, false, &real));
  TC_TRY(tc_manifest_read(ps->arena, path, p));
  for (int32_t i = 0; i < ps->entries.count; i++) {
    const tc_plugin *other = &ps->entries.data[i]->pub;
    if (other != p && other->manifest.size && tc_sv_eq(other->name, p->name))
      return tc_error(TC_STATUS_PLUGIN, "another plugin has this name: '" TC_SV_FMT "'", TC_SV_ARG(other->manifest));
  }
  if (in_names(ps->options.disabled, p->name, NULL)) return tc_error(TC_STATUS_PLUGIN, "disabled by plugins.disabled");
  if (p->abi_major != TC_ABI_MAJOR || p->abi_minor_low > TC_ABI_MINOR)
    return tc_error(TC_STATUS_PLUGIN,
                    "needs version %u.%u of the plugin interface, this program has %d.%d: %s is too old", p->abi_major,
                    p->abi_minor_low, TC_ABI_MAJOR, TC_ABI_MINOR,
                    p->abi_major < TC_ABI_MAJOR ? "the plugin" : "the program");
  return tc_trusted_path(ps->arena, tc_path_join(ps->arena, tc_path_dir(path), p->file).data, false, &p->file);
}

static tc_status add_manifest(tc_plugins *ps, tc_sv path, tc_plugin_entry **out) {
  tc_sv base = tc_path_base(path);
  tc_plugin_entry *e = new_entry(ps, tc_sv_sub(base, 0, base.size - (sizeof TC_MANIFEST_SUFFIX - 1)));
  e->pub.manifest = path;
  if (out) *out = e;
  tc_status s = check_manifest(ps, &e->pub, path);
  if (s != TC_OK) return refuse(ps, &e->pub, s);
  tc_log(&ps->logger, TC_LOG_PLUGINS, "found " TC_SV_FMT " in " TC_SV_FMT, TC_SV_ARG(e->pub.name),
         TC_SV_ARG(e->pub.file));
  return TC_OK;
}

// A plugin that no manifest of its folder names is not loaded, and said so; unless a manifest could not be read, which
// then is what there is to say. Other shared objects are libraries that plugins bring along.
static tc_status add_orphan(tc_plugins *ps, tc_sv folder, tc_sv name, int32_t first) {
  tc_sv path = tc_path_join(ps->arena, folder, name), real;
  tc_status s = tc_path_real(ps->arena, path.data, &real);
  if (s != TC_OK) {
    tc_status_free(s);
    real = path;
  }
  for (int32_t i = first; i < ps->entries.count; i++) {
    const tc_plugin *p = &ps->entries.data[i]->pub;
    bool unread = p->manifest.size && p->file.size == 0;
    if (unread || tc_sv_eq(p->file, real) || tc_sv_eq(p->file, path) || tc_sv_eq(p->file, name)) return TC_OK;
  }
  if (!tc_elf_is_plugin(real.data)) return TC_OK;
  tc_plugin_entry *e = new_entry(ps, name);
  e->pub.file = real;
  return refuse(ps, &e->pub,
                tc_error(TC_STATUS_PLUGIN, "no manifest (NAME" TC_MANIFEST_SUFFIX ") beside it names this file"));
}

static tc_status scan_folder(tc_plugins *ps, tc_sv folder, bool required) {
  tc_sv real, *names;
  int32_t n, first = ps->entries.count;
  if (folder.size == 0 || folder.data[0] != '/')
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "the plugin folder '" TC_SV_FMT "' is not an absolute path",
                    TC_SV_ARG(folder));
  tc_status s = tc_trusted_path(ps->arena, folder.data, true, &real);
  if (tc_status_code(s) == TC_STATUS_NOT_FOUND && !required) {
    tc_status_free(s);
    return TC_OK;
  }
  if (tc_status_code(s) == TC_STATUS_PLUGIN) return refuse(ps, &new_entry(ps, folder)->pub, s);
  TC_TRY(s, "while looking for plugins");
  for (int32_t i = 0; i < ps->folders.count; i++)
    if (tc_sv_eq(ps->folders.data[i], real)) return TC_OK;
  tc_vec_push(ps->arena, &ps->folders, real);
  TC_TRY(tc_dir_list(ps->arena, real.data, &names, &n));
  for (int32_t i = 0; i < n; i++)
    if (tc_sv_ends(names[i], TC_MANIFEST_SUFFIX) && names[i].size > sizeof TC_MANIFEST_SUFFIX - 1)
      TC_TRY(add_manifest(ps, tc_path_join(ps->arena, real, names[i]), NULL));
  for (int32_t i = 0; i < n; i++)
    if (tc_sv_ends(names[i], ".so")) TC_TRY(add_orphan(ps, real, names[i], first));
  return TC_OK;
}

// The folders that are given stand in the place of the program's own, which may surprise.
static void note_passed_over(tc_plugins *ps, tc_sv folder) {
  tc_sv real;
  tc_status s = tc_path_real(ps->arena, folder.data, &real);
  bool scanned = s != TC_OK;
  tc_status_free(s);
  for (int32_t i = 0; !scanned && i < ps->folders.count; i++) scanned = tc_sv_eq(ps->folders.data[i], real);
  if (!scanned) ps->passed_over = real;
}

static tc_status scan(tc_plugins *ps, void *arg) {
  const tc_plugins_options *o = arg;
  ps->options.prefer = tc_sv_copy(ps->arena, o->prefer);
  ps->options.disabled = tc_sv_copy(ps->arena, o->disabled);
  for (int32_t i = 0; i < o->n_folders; i++) TC_TRY(scan_folder(ps, tc_sv_copy(ps->arena, o->folders[i]), true));
  static const char *const defaults[] = {"../plugins", "../lib/tc/plugins"};
  tc_sv self;
  TC_TRY(tc_self_dir(ps->arena, &self));
  for (size_t i = 0; i < sizeof defaults / sizeof defaults[0]; i++) {
    tc_sv folder = tc_path_join(ps->arena, self, tc_sv_of(defaults[i]));
    if (o->n_folders > 0) note_passed_over(ps, folder);
    else TC_TRY(scan_folder(ps, folder, false));
  }
  return TC_OK;
}

tc_status tc_plugins_create(const tc_plugins_options *options, tc_plugins **out) {
  *out = NULL;
  tc_plugins *ps = tc_alloc(options->allocator, sizeof *ps);
  if (!ps) return tc_error(TC_STATUS_OUT_OF_MEMORY, "out of memory");
  tc_status s = tc_arena_create(options->allocator, &ps->arena);
  if (s != TC_OK) {
    tc_free(options->allocator, ps);
    return s;
  }
  pthread_mutex_init(&ps->lock, NULL);
  ps->options = *options;
  ps->options.folders = NULL;
  ps->options.n_folders = 0;
  ps->executor = options->executor ? *options->executor : tc_executor_serial;
  ps->logger = options->logger ? *options->logger : tc_logger_silent;
  s = locked(ps, ps->arena, scan, (void *)(uintptr_t)options);
  if (s != TC_OK) {
    tc_plugins_destroy(ps);
    return s;
  }
  *out = ps;
  return TC_OK;
}

void tc_plugins_destroy(tc_plugins *ps) {
  if (!ps) return;
  const tc_allocator *a = ps->options.allocator;
  for (int32_t i = 0; i < ps->entries.count; i++) pthread_mutex_destroy(&ps->entries.data[i]->diag_lock);
  pthread_mutex_destroy(&ps->lock);
  tc_arena_destroy(ps->arena);
  tc_free(a, ps);
}

// ---- Loading ----
// Opens and asks; the error is the reason why not.
static tc_status open_plugin(tc_plugins *ps, tc_plugin_entry *e) {
  tc_sv real;
  // Once more, since the scan may be long ago.
  TC_TRY(tc_trusted_path(ps->arena, tc_sv_copy(ps->arena, tc_path_dir(e->pub.file)).data, true, &real));
  TC_TRY(tc_trusted_path(ps->arena, e->pub.file.data, false, &real));
  TC_TRY(tc_elf_check(e->pub.file.data));
  void *object = dlopen(e->pub.file.data, RTLD_NOW | RTLD_LOCAL);
  if (!object) {
    const char *text = dlerror();
    return tc_error(TC_STATUS_PLUGIN, "%s", text ? text : "the file cannot be opened");
  }
  tc_plugin_query_fn query;
  void *symbol = dlsym(object, TC_QUERY_SYMBOL);
  if (!symbol) return tc_error(TC_STATUS_PLUGIN, "the file has no " TC_QUERY_SYMBOL);
  memcpy(&query, &symbol, sizeof query);
  return tc_plugin_accept(e, ps->arena, query);
}

// Leaves the entry loaded or refused; the error is lack of memory only.
static tc_status settle(tc_plugins *ps, tc_plugin *p) {
  if (p->state != TC_PLUGIN_AVAILABLE) return TC_OK;
  tc_status s = open_plugin(ps, (tc_plugin_entry *)p);
  if (s != TC_OK) return refuse(ps, p, s);
  p->state = TC_PLUGIN_LOADED;
  tc_log(&ps->logger, TC_LOG_PLUGINS, "loaded " TC_SV_FMT " " TC_SV_FMT " from " TC_SV_FMT, TC_SV_ARG(p->name),
         TC_SV_ARG(p->version), TC_SV_ARG(p->file));
  return TC_OK;
}

static tc_status load_one(tc_plugins *ps, void *arg) {
  tc_plugin *p = arg;
  TC_TRY(settle(ps, p));
  if (p->state == TC_PLUGIN_LOADED) return TC_OK;
  return tc_error(TC_STATUS_PLUGIN, "plugin '" TC_SV_FMT "' was refused: " TC_SV_FMT, TC_SV_ARG(p->name),
                  TC_SV_ARG(p->reason));
}
tc_status tc_plugins_load(tc_plugins *ps, tc_plugin *p) { return locked(ps, ps->arena, load_one, p); }

// ---- Finding ----
typedef struct wanted {
  uint64_t capability;
  tc_sv kind;       // of devices; "": any
  tc_sv op;         // a name, for TC_CAP_OPS
  const char *what; // for messages: "drives devices of kind"
  tc_plugin *found;
  tc_arena *arena;
  tc_plugin **all;
  int32_t n_all;
} wanted;

static bool in_globs(tc_sv name, int32_t n, const tc_sv *globs) {
  for (int32_t i = 0; i < n; i++)
    if (tc_sv_glob(name, globs[i])) return true;
  return false;
}

bool tc_plugin_serves(const tc_plugin *p, tc_sv kind) {
  for (int32_t i = 0; i < p->n_devices; i++)
    if (tc_sv_eq(p->devices[i], kind)) return true;
  return p->n_devices == 0;
}

bool tc_plugin_calls(const tc_plugin *p, tc_sv op) {
  if (!(p->capabilities & TC_CAP_CALLS)) return false;
  return p->n_call_globs == 0 || in_globs(op, p->n_call_globs, p->call_globs);
}

static bool offers(const tc_plugin *p, const wanted *w) {
  if (!(p->capabilities & w->capability)) return false;
  bool any = w->kind.size == 0, named = p->n_devices > 0 || w->capability != TC_CAP_DEVICE;
  if (!any && !(named && tc_plugin_serves(p, w->kind))) return false;
  return w->op.size == 0 || in_globs(w->op, p->n_op_globs, p->op_globs);
}

// < 0: `a` is taken before `b`; 0: neither.
static int compare_rank(const tc_plugins *ps, const tc_plugin *a, const tc_plugin *b) {
  int32_t ra = INT32_MAX, rb = INT32_MAX;
  in_names(ps->options.prefer, a->name, &ra);
  in_names(ps->options.prefer, b->name, &rb);
  if (ra != rb) return ra < rb ? -1 : 1;
  return a->priority > b->priority ? -1 : a->priority < b->priority;
}

// All that offer what is wanted, best first; equal ones in the order of the scan.
static int32_t candidates(tc_plugins *ps, const wanted *w, tc_arena *arena, tc_plugin ***out) {
  tc_plugin **list = TC_NEW_ARRAY(arena, tc_plugin *, ps->entries.count);
  int32_t n = 0;
  for (int32_t i = 0; i < ps->entries.count; i++) {
    tc_plugin *p = &ps->entries.data[i]->pub;
    if (!offers(p, w)) continue;
    int32_t at = n++;
    for (; at > 0 && compare_rank(ps, p, list[at - 1]) < 0; at--) list[at] = list[at - 1];
    list[at] = p;
  }
  *out = list;
  return n;
}

static int32_t device_kinds(tc_plugins *ps, tc_arena *arena, tc_sv **out) {
  TC_VEC(tc_sv) kinds = {0};
  for (int32_t i = 0; i < ps->entries.count; i++) {
    const tc_plugin *p = &ps->entries.data[i]->pub;
    if (!(p->capabilities & TC_CAP_DEVICE) || p->state == TC_PLUGIN_REFUSED) continue;
    for (int32_t k = 0; k < p->n_devices; k++) {
      bool seen = false;
      for (int32_t j = 0; j < kinds.count && !seen; j++) seen = tc_sv_eq(kinds.data[j], p->devices[k]);
      if (!seen) tc_vec_push(arena, &kinds, p->devices[k]);
    }
  }
  *out = kinds.data;
  return kinds.count;
}

static tc_status none_found(tc_plugins *ps, const wanted *w) {
  tc_sb sb = tc_sb_make(ps->arena);
  if (w->op.size) tc_sb_printf(&sb, "no plugin brings the op '" TC_SV_FMT "'", TC_SV_ARG(w->op));
  else tc_sb_printf(&sb, "no plugin %s '" TC_SV_FMT "'", w->what, TC_SV_ARG(w->kind));
  if (!w->op.size) {
    tc_sv *kinds;
    int32_t n = device_kinds(ps, ps->arena, &kinds);
    for (int32_t i = 0; i < n; i++)
      tc_sb_printf(&sb, "%s" TC_SV_FMT, i ? ", " : "; plugins are there for: ", TC_SV_ARG(kinds[i]));
    if (!n) {
      tc_sb_putz(&sb, "; no device plugin was found in ");
      for (int32_t i = 0; i < ps->folders.count; i++)
        tc_sb_printf(&sb, "%s'" TC_SV_FMT "'", i ? ", " : "", TC_SV_ARG(ps->folders.data[i]));
      if (!ps->folders.count) tc_sb_putz(&sb, "any folder (plugins.path names them)");
    }
  }
  tc_status s = tc_error(TC_STATUS_NOT_FOUND, "%s", sb.text);
  // A manifest that could not be read to its end may have been meant: all refusals are told.
  for (int32_t i = 0; i < ps->entries.count; i++) {
    const tc_plugin *p = &ps->entries.data[i]->pub;
    if (p->state == TC_PLUGIN_REFUSED && (!p->capabilities || offers(p, w)))
      s = tc_status_note(s, "plugin '" TC_SV_FMT "' was refused: " TC_SV_FMT, TC_SV_ARG(p->name), TC_SV_ARG(p->reason));
  }
  if (ps->passed_over.size)
    s = tc_status_note(s,
                       "plugins.path stands in the place of '" TC_SV_FMT "': add this folder to it for what is there",
                       TC_SV_ARG(ps->passed_over));
  return s;
}

static tc_status find_best(tc_plugins *ps, void *arg) {
  wanted *w = arg;
  tc_plugin **list;
  int32_t n = candidates(ps, w, ps->arena, &list);
  for (int32_t i = 0; i < n; i++) {
    if (w->found && compare_rank(ps, w->found, list[i]) != 0) break;
    TC_TRY(settle(ps, list[i]));
    if (list[i]->state != TC_PLUGIN_LOADED) continue;
    if (w->found)
      return tc_error(TC_STATUS_PLUGIN,
                      "the plugins '" TC_SV_FMT "' and '" TC_SV_FMT "' offer the same (%s '" TC_SV_FMT
                      "') with equal priority: set plugins.prefer to one of them",
                      TC_SV_ARG(w->found->name), TC_SV_ARG(list[i]->name), w->op.size ? "op" : w->what,
                      TC_SV_ARG(w->op.size ? w->op : w->kind));
    w->found = list[i];
  }
  return w->found ? TC_OK : none_found(ps, w);
}

static tc_status find(tc_plugins *ps, wanted *w, tc_plugin **out) {
  tc_status s = locked(ps, ps->arena, find_best, w);
  *out = s == TC_OK ? w->found : NULL;
  return s;
}

tc_status tc_plugins_find_device(tc_plugins *ps, tc_sv kind, tc_plugin **out) {
  wanted w = {.capability = TC_CAP_DEVICE, .kind = kind, .what = "drives devices of kind"};
  return find(ps, &w, out);
}

tc_status tc_plugins_find_codegen(tc_plugins *ps, tc_sv kind, tc_plugin **out) {
  wanted w = {.capability = TC_CAP_CODEGEN, .kind = kind, .what = "generates code for devices of kind"};
  return find(ps, &w, out);
}

tc_status tc_plugins_find_op(tc_plugins *ps, tc_sv op, tc_plugin **out) {
  wanted w = {.capability = TC_CAP_OPS, .op = op, .what = "brings the op"};
  return find(ps, &w, out);
}

static tc_status find_each(tc_plugins *ps, void *arg) {
  wanted *w = arg;
  tc_plugin **list;
  int32_t n = candidates(ps, w, w->arena, &list), kept = 0;
  for (int32_t i = 0; i < n; i++) {
    TC_TRY(settle(ps, list[i]));
    if (list[i]->state == TC_PLUGIN_LOADED) list[kept++] = list[i];
  }
  w->all = list;
  w->n_all = kept;
  return TC_OK;
}

tc_status tc_plugins_find_all(tc_plugins *ps, tc_arena *arena, uint64_t capability, tc_sv kind, tc_plugin ***out,
                              int32_t *out_count) {
  wanted w = {.capability = capability, .kind = kind, .arena = arena};
  tc_status s = locked_with(ps, arena, find_each, &w);
  *out = w.all;
  *out_count = w.n_all;
  return s;
}

// ---- Listing ----
typedef struct kind_list {
  tc_arena *arena;
  tc_sv *out;
  int32_t n;
} kind_list;
static tc_status copy_kinds(tc_plugins *ps, void *arg) {
  kind_list *a = arg;
  a->n = device_kinds(ps, a->arena, &a->out);
  return TC_OK;
}

tc_status tc_plugins_device_kinds(tc_plugins *ps, tc_arena *arena, tc_sv **out, int32_t *out_count) {
  kind_list a = {arena, NULL, 0};
  tc_status s = locked_with(ps, arena, copy_kinds, &a);
  *out = a.out;
  *out_count = a.n;
  return s;
}

typedef struct copies {
  tc_arena *arena;
  tc_plugin *out;
  int32_t n;
} copies;
static tc_status copy_entries(tc_plugins *ps, void *arg) {
  copies *c = arg;
  c->out = TC_NEW_ARRAY(c->arena, tc_plugin, ps->entries.count);
  for (int32_t i = 0; i < ps->entries.count; i++) c->out[i] = ps->entries.data[i]->pub;
  c->n = ps->entries.count;
  return TC_OK;
}

tc_status tc_plugins_list(tc_plugins *ps, tc_arena *arena, tc_plugin **out, int32_t *out_count) {
  copies c = {.arena = arena};
  tc_status s = locked_with(ps, arena, copy_entries, &c);
  *out = c.out;
  *out_count = c.n;
  return s;
}

typedef struct added {
  const char *path;
  tc_plugin_entry *entry;
} added;
// Is this the entry of the manifest that names the file? One that was refused early has no more than its plain name.
static bool is_entry_of(const tc_plugin *p, tc_sv real) {
  if (!p->manifest.size) return false;
  return tc_sv_eq(p->file, real) ||
         (tc_sv_eq(p->file, tc_path_base(real)) && tc_sv_eq(tc_path_dir(p->manifest), tc_path_dir(real)));
}

// What is wrong with a manifest that cannot be read is told: it may be the one that is looked for. It is not read again
// for that: memory that lacked once may be there the second time.
static tc_status add_file(tc_plugins *ps, void *arg) {
  added *a = arg;
  tc_sv real, folder, *names;
  int32_t n;
  TC_TRY(tc_trusted_path(ps->arena, a->path, false, &real));
  for (int32_t i = 0; i < ps->entries.count; i++)
    if (is_entry_of(&ps->entries.data[i]->pub, real)) {
      a->entry = ps->entries.data[i];
      return TC_OK;
    }
  TC_TRY(tc_trusted_path(ps->arena, tc_sv_copy(ps->arena, tc_path_dir(real)).data, true, &folder));
  TC_TRY(tc_dir_list(ps->arena, folder.data, &names, &n));
  tc_status unread = TC_OK;
  for (int32_t i = 0; i < n; i++) {
    if (!tc_sv_ends(names[i], TC_MANIFEST_SUFFIX)) continue;
    tc_plugin probe = {0};
    tc_sv path = tc_path_join(ps->arena, folder, names[i]);
    tc_status s = tc_manifest_read(ps->arena, path, &probe);
    if (s == TC_OK && tc_sv_eq(probe.file, tc_path_base(real))) {
      tc_status_free(unread);
      return add_manifest(ps, path, &a->entry);
    }
    if (unread == TC_OK) unread = s;
    else tc_status_free(s);
  }
  TC_TRY(unread, "while looking for the manifest of '" TC_SV_FMT "'", TC_SV_ARG(real));
  return tc_error(TC_STATUS_NOT_FOUND, "no manifest (NAME" TC_MANIFEST_SUFFIX ") beside '" TC_SV_FMT "' names it",
                  TC_SV_ARG(real));
}

tc_status tc_plugins_add_file(tc_plugins *ps, const char *path, tc_plugin **out) {
  added a = {.path = path};
  tc_status s = locked(ps, ps->arena, add_file, &a);
  *out = a.entry ? &a.entry->pub : NULL;
  return s;
}
