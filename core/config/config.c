// Levels of values, the environment, the command line, and what is shown. Files and modes: modes.c.
#include "core/config/config.h"

#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "core/base/fs.h"
#include "core/config/internal.h"

// ---- A guard around each public function that allocates ----
typedef struct call {
  tc_config *c;
  tc_sv a, b;
  const char *z;
  const void *p;
  int32_t n;
} call;
static tc_status guarded(tc_status (*fn)(void *arg), call *k) { return tc_arena_guard(k->c->arena, fn, k); }

// ---- Options ----
int32_t tc_option_find(tc_sv key) {
  for (int32_t i = 0; i < TC_OPT_COUNT; i++)
    if (tc_sv_eq(tc_options[i].key, key)) return i;
  return -1;
}

bool tc_option_group(tc_sv name) {
  for (int32_t i = 0; i < TC_OPT_COUNT; i++) {
    tc_sv group, rest = tc_sv_cut(tc_options[i].key, '.', &group);
    if (rest.size && tc_sv_eq(group, name)) return true;
  }
  return false;
}

tc_status tc_option_unknown(tc_sv place, tc_sv key) {
  tc_sv names[TC_OPT_COUNT];
  for (int32_t i = 0; i < TC_OPT_COUNT; i++) names[i] = tc_options[i].key;
  tc_sv near = tc_sv_nearest(key, names, TC_OPT_COUNT);
  if (near.size)
    return tc_error(TC_STATUS_INVALID_ARGUMENT,
                    TC_SV_FMT ": unknown key '" TC_SV_FMT "'; did you mean '" TC_SV_FMT "'?", TC_SV_ARG(place),
                    TC_SV_ARG(key), TC_SV_ARG(near));
  return tc_error(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT ": unknown key '" TC_SV_FMT "'; `tcrun config` lists the keys",
                  TC_SV_ARG(place), TC_SV_ARG(key));
}

tc_sv tc_place(tc_arena *arena, tc_sv file, int32_t line) {
  return tc_sv_printf(arena, TC_SV_FMT ":%d", TC_SV_ARG(file), line);
}

static tc_status create(void *arg) {
  call *k = arg;
  for (int32_t i = 0; i < TC_OPT_COUNT; i++) {
    tc_option_value *v = &k->c->values[TC_FROM_BUILTIN][i];
    TC_TRY(tc_option_parse(k->c->arena, &tc_options[i], tc_options[i].preset, v),
           "while setting the built-in value of %s", tc_options[i].key.data);
    v->origin = TC_SV("built-in");
  }
  return TC_OK;
}

tc_status tc_config_create(const tc_allocator *allocator, tc_config **out) {
  *out = NULL;
  tc_config *c = tc_alloc(allocator, sizeof *c);
  if (!c) return tc_error(TC_STATUS_OUT_OF_MEMORY, "out of memory");
  tc_status s = tc_arena_create(allocator, &c->arena);
  if (s != TC_OK) {
    tc_free(allocator, c);
    return s;
  }
  call k = {.c = c};
  s = guarded(create, &k);
  if (s != TC_OK) {
    tc_config_destroy(c);
    return s;
  }
  *out = c;
  return TC_OK;
}

void tc_config_destroy(tc_config *c) {
  if (!c) return;
  const tc_allocator *a = tc_arena_allocator(c->arena);
  tc_arena_destroy(c->arena);
  tc_free(a, c);
}

// ---- Sections of plugins ----
void tc_config_put_section(tc_config *c, int32_t level, tc_sv section, tc_sv key, tc_sv text, bool quoted,
                           tc_sv origin) {
  tc_section_value v = {
      tc_sv_copy(c->arena, section), tc_sv_copy(c->arena, key), tc_sv_copy(c->arena, text), origin, level, quoted};
  for (int32_t i = 0; i < c->sections.count; i++) {
    tc_section_value *old = &c->sections.data[i];
    if (!tc_sv_eq(old->section, section) || !tc_sv_eq(old->key, key)) continue;
    if (old->level <= level) *old = v;
    return;
  }
  tc_vec_push(c->arena, &c->sections, v);
}

tc_sv tc_config_section(void *config, tc_sv section, tc_sv key) {
  const tc_config *c = config;
  for (int32_t i = 0; i < c->sections.count; i++) {
    const tc_section_value *v = &c->sections.data[i];
    if (tc_sv_eq(v->section, section) && tc_sv_eq(v->key, key)) return v->text;
  }
  return (tc_sv){"", 0};
}

// ---- One value as text ----
static tc_status put_text(tc_config *c, int32_t level, tc_sv key, tc_sv value, tc_sv origin) {
  int32_t id = tc_option_find(key);
  if (id < 0) {
    tc_sv section, rest = tc_sv_cut(key, '.', &section);
    if (!rest.size || !section.size || tc_option_group(section)) return tc_option_unknown(origin, key);
    tc_config_put_section(c, level, section, rest, value, true, origin);
    return TC_OK;
  }
  tc_option_value v;
  TC_TRY(tc_option_parse(c->arena, &tc_options[id], value, &v), "in the value of '" TC_SV_FMT "' (" TC_SV_FMT ")",
         TC_SV_ARG(key), TC_SV_ARG(origin));
  v.origin = origin;
  c->values[level][id] = v;
  return TC_OK;
}

static tc_status set(void *arg) {
  call *k = arg;
  tc_sv origin = tc_sv_printf(k->c->arena, "command line%s%s", k->z ? " " : "", k->z ? k->z : "");
  return put_text(k->c, TC_FROM_COMMAND, tc_sv_trim(k->a), k->b, origin);
}

tc_status tc_config_set(tc_config *c, tc_sv key, tc_sv value, const char *origin) {
  call k = {.c = c, .a = key, .b = value, .z = origin};
  return guarded(set, &k);
}

tc_status tc_config_set_pair(tc_config *c, tc_sv pair, const char *origin) {
  tc_sv key, value = tc_sv_cut(pair, '=', &key);
  if (key.size == pair.size)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "%s: '" TC_SV_FMT "' is not key=value",
                    origin ? origin : "command line", TC_SV_ARG(pair));
  return tc_config_set(c, key, value, origin);
}

// ---- Environment ----
// "cache.dir" → "TC_CACHE_DIR".
static tc_sv env_name(tc_arena *arena, tc_sv key) {
  tc_sb sb = tc_sb_make(arena);
  tc_sb_putz(&sb, "TC_");
  for (size_t i = 0; i < key.size; i++) {
    char ch = key.data[i];
    tc_sb_putc(&sb, ch >= 'a' && ch <= 'z' ? (char)(ch - 'a' + 'A') : ch == '.' || ch == '-' ? '_' : ch);
  }
  return tc_sb_view(&sb);
}

static tc_status read_environment(void *arg) {
  call *k = arg;
  tc_config *c = k->c;
  const char *const *env = k->p;
  tc_sv names[TC_OPT_COUNT];
  for (int32_t i = 0; i < TC_OPT_COUNT; i++) names[i] = env_name(c->arena, tc_options[i].key);
  for (; *env; env++) {
    tc_sv name, value = tc_sv_cut(tc_sv_of(*env), '=', &name);
    if (!tc_sv_starts(name, "TC_") || value.size == 0) continue; // empty is unset
    int32_t i = 0;
    while (i < TC_OPT_COUNT && !tc_sv_eq(name, names[i])) i++;
    if (i < TC_OPT_COUNT) {
      tc_sv origin = tc_sv_printf(c->arena, "environment " TC_SV_FMT, TC_SV_ARG(name));
      TC_TRY(put_text(c, TC_FROM_ENVIRONMENT, tc_options[i].key, value, origin));
      continue;
    }
    tc_env_value v = {tc_sv_copy(c->arena, name), tc_sv_copy(c->arena, value)};
    tc_vec_push(c->arena, &c->unknown_env, v);
  }
  return TC_OK;
}

tc_status tc_config_read_environment(tc_config *c, const char *const *environment) {
  if (!environment && getauxval(AT_SECURE)) return TC_OK;
  call k = {.c = c, .p = environment ? environment : (const char *const *)environ};
  return k.p ? guarded(read_environment, &k) : TC_OK;
}

// A variable of a plugin's section (TC_DEV_ISA), a slip of the pen, or another program's.
static tc_status place_env(tc_config *c, const tc_env_value *v, const tc_sv *plugins, int32_t n) {
  for (int32_t i = 0; i < n; i++) {
    tc_sv prefix = env_name(c->arena, plugins[i]);
    if (v->name.size < prefix.size + 2 || !tc_sv_starts(v->name, prefix.data) || v->name.data[prefix.size] != '_')
      continue;
    char *key = tc_arena_copy(c->arena, v->name.data + prefix.size + 1, v->name.size - prefix.size - 1);
    tc_sv lower = {key, v->name.size - prefix.size - 1};
    for (size_t j = 0; j < lower.size; j++)
      if (key[j] >= 'A' && key[j] <= 'Z') key[j] = (char)(key[j] - 'A' + 'a');
    tc_config_put_section(c, TC_FROM_ENVIRONMENT, plugins[i], lower, v->value, true,
                          tc_sv_printf(c->arena, "environment " TC_SV_FMT, TC_SV_ARG(v->name)));
    return TC_OK;
  }
  tc_sv names[TC_OPT_COUNT];
  for (int32_t i = 0; i < TC_OPT_COUNT; i++) names[i] = env_name(c->arena, tc_options[i].key);
  tc_sv near = tc_sv_nearest(v->name, names, TC_OPT_COUNT);
  if (!near.size) return TC_OK;
  return tc_error(TC_STATUS_INVALID_ARGUMENT,
                  "environment: unknown variable '" TC_SV_FMT "'; did you mean '" TC_SV_FMT "'?", TC_SV_ARG(v->name),
                  TC_SV_ARG(near));
}

static tc_status check_sections(void *arg) {
  call *k = arg;
  tc_config *c = k->c;
  const tc_sv *found = k->p;
  TC_VEC(tc_sv) plugins = {0};
  for (int32_t i = 0; i < k->n; i++) tc_vec_push(c->arena, &plugins, found[i]);
  for (int32_t i = 0; i < c->expected.count; i++) tc_vec_push(c->arena, &plugins, c->expected.data[i]);
  for (int32_t i = 0; i < c->unknown_env.count; i++)
    TC_TRY(place_env(c, &c->unknown_env.data[i], plugins.data, plugins.count));
  for (int32_t i = 0; i < c->sections.count; i++) {
    const tc_section_value *v = &c->sections.data[i];
    int32_t p = 0;
    while (p < plugins.count && !tc_sv_eq(plugins.data[p], v->section)) p++;
    if (p < plugins.count) continue;
    // The nearest of plugins and groups of options.
    TC_VEC(tc_sv) names = {0};
    for (p = 0; p < plugins.count; p++) tc_vec_push(c->arena, &names, plugins.data[p]);
    for (int32_t o = 0; o < TC_OPT_COUNT; o++) {
      tc_sv group, rest = tc_sv_cut(tc_options[o].key, '.', &group);
      if (rest.size) tc_vec_push(c->arena, &names, group);
    }
    tc_sv near = tc_sv_nearest(v->section, names.data, names.count);
    return tc_error(TC_STATUS_INVALID_ARGUMENT,
                    TC_SV_FMT ": '" TC_SV_FMT "' (in '" TC_SV_FMT "." TC_SV_FMT
                              "') is neither a group of options nor a plugin%s" TC_SV_FMT "%s",
                    TC_SV_ARG(v->origin), TC_SV_ARG(v->section), TC_SV_ARG(v->section), TC_SV_ARG(v->key),
                    near.size ? "; did you mean '" : "", TC_SV_ARG(near), near.size ? "'?" : "");
  }
  return TC_OK;
}

tc_status tc_config_check_sections(tc_config *c, const tc_sv *plugins, int32_t n) {
  call k = {.c = c, .p = plugins, .n = n};
  return guarded(check_sections, &k);
}

static tc_status expect_plugin(void *arg) {
  call *k = arg;
  tc_vec_push(k->c->arena, &k->c->expected, tc_sv_copy(k->c->arena, k->a));
  return TC_OK;
}

tc_status tc_config_expect_plugin(tc_config *c, tc_sv name) {
  call k = {.c = c, .a = name};
  return guarded(expect_plugin, &k);
}

// ---- Values ----
const tc_option_value *tc_config_value(const tc_config *c, int32_t id) {
  return &c->values[tc_config_level(c, id)][id];
}

int32_t tc_config_level(const tc_config *c, int32_t id) {
  int32_t level = TC_FROM_COUNT - 1;
  while (level > TC_FROM_BUILTIN && !c->values[level][id].set) level--;
  return level;
}

bool tc_config_bool(const tc_config *c, int32_t id) { return tc_config_value(c, id)->integer != 0; }
int64_t tc_config_int(const tc_config *c, int32_t id) { return tc_config_value(c, id)->integer; }
double tc_config_real(const tc_config *c, int32_t id) { return tc_config_value(c, id)->real; }
tc_sv tc_config_text(const tc_config *c, int32_t id) { return tc_config_value(c, id)->text; }
int32_t tc_config_choice(const tc_config *c, int32_t id) { return (int32_t)tc_config_value(c, id)->integer; }
tc_sv tc_config_origin(const tc_config *c, int32_t id) { return tc_config_value(c, id)->origin; }
int32_t tc_config_list(const tc_config *c, int32_t id, const tc_sv **out) {
  const tc_option_value *v = tc_config_value(c, id);
  *out = v->list;
  return v->n_list;
}

// ---- Showing ----
typedef struct show {
  const tc_config *c;
  tc_sb *sb;
} show;

// Control characters the TOML way, which tc_sb_quoted's \xHH is not.
void tc_config_quote(tc_sb *sb, tc_sv s) {
  tc_sb_putc(sb, '"');
  for (size_t i = 0; i < s.size; i++) {
    unsigned char ch = (unsigned char)s.data[i];
    if (ch == '"' || ch == '\\') tc_sb_printf(sb, "\\%c", ch);
    else if (ch < 32 || ch == 127) tc_sb_printf(sb, "\\u%04x", ch);
    else tc_sb_putc(sb, (char)ch);
  }
  tc_sb_putc(sb, '"');
}

// A key of a plugin's section. One with dots is quoted as a whole: it reads back as the same key, and does not clash
// with a key that is its first part.
static void put_key(tc_sb *sb, tc_sv key) {
  bool bare = key.size > 0;
  for (size_t i = 0; i < key.size && bare; i++) {
    char ch = key.data[i];
    bare = (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') || ch == '_' || ch == '-';
  }
  if (bare) tc_sb_put(sb, key);
  else tc_config_quote(sb, key);
}

static void put_value(tc_sb *sb, const tc_option *o, const tc_option_value *v) {
  if (o->type == TC_OPT_BOOL || o->type == TC_OPT_INT || o->type == TC_OPT_REAL) tc_sb_put(sb, v->text);
  else if (o->type == TC_OPT_LIST || o->type == TC_OPT_PATHS) {
    tc_sb_putc(sb, '[');
    for (int32_t i = 0; i < v->n_list; i++) {
      if (i) tc_sb_putz(sb, ", ");
      tc_config_quote(sb, v->list[i]);
    }
    tc_sb_putc(sb, ']');
  } else tc_config_quote(sb, v->text);
}

static void put_line_end(tc_sb *sb, size_t start, tc_sv origin) {
  while (sb->size - start < 36) tc_sb_putc(sb, ' ');
  tc_sb_printf(sb, "  # " TC_SV_FMT "\n", TC_SV_ARG(origin));
}

static tc_status print(void *arg) {
  const show *w = arg;
  for (int32_t i = 0; i < TC_OPT_COUNT; i++) {
    const tc_option_value *v = tc_config_value(w->c, i);
    size_t start = w->sb->size;
    tc_sb_printf(w->sb, TC_SV_FMT " = ", TC_SV_ARG(tc_options[i].key));
    put_value(w->sb, &tc_options[i], v);
    put_line_end(w->sb, start, v->origin);
  }
  for (int32_t i = 0; i < w->c->sections.count; i++) {
    const tc_section_value *v = &w->c->sections.data[i];
    size_t start = w->sb->size;
    put_key(w->sb, v->section);
    tc_sb_putc(w->sb, '.');
    put_key(w->sb, v->key);
    tc_sb_putz(w->sb, " = ");
    if (v->quoted) tc_config_quote(w->sb, v->text);
    else tc_sb_put(w->sb, v->text);
    put_line_end(w->sb, start, v->origin);
  }
  return TC_OK;
}

tc_status tc_config_print(const tc_config *c, tc_sb *sb) {
  show w = {c, sb};
  return tc_arena_guard(sb->arena, print, &w);
}

static tc_status code_key(void *arg) {
  const show *w = arg;
  for (int32_t i = 0; i < TC_OPT_COUNT; i++) {
    if (!tc_options[i].code) continue;
    const tc_option_value *v = tc_config_value(w->c, i);
    tc_sb_printf(w->sb, TC_SV_FMT "=", TC_SV_ARG(tc_options[i].key));
    put_value(w->sb, &tc_options[i], v);
    tc_sb_putc(w->sb, ';');
  }
  // What a plugin does with its section is not known here; the order of reading must not matter.
  tc_sv last_section = {"", 0}, last_key = {"", 0};
  for (int32_t n = 0; n < w->c->sections.count; n++) {
    const tc_section_value *next = NULL;
    for (int32_t i = 0; i < w->c->sections.count; i++) {
      const tc_section_value *v = &w->c->sections.data[i];
      int after = tc_sv_cmp(v->section, last_section);
      if (after == 0) after = tc_sv_cmp(v->key, last_key);
      if (after <= 0) continue;
      int before = next ? tc_sv_cmp(v->section, next->section) : -1;
      if (before == 0) before = tc_sv_cmp(v->key, next->key);
      if (before < 0) next = v;
    }
    if (!next) break;
    tc_sb_printf(w->sb, TC_SV_FMT "." TC_SV_FMT "=", TC_SV_ARG(next->section), TC_SV_ARG(next->key));
    tc_config_quote(w->sb, next->text);
    tc_sb_putc(w->sb, ';');
    last_section = next->section;
    last_key = next->key;
  }
  return TC_OK;
}

tc_status tc_config_code_key(const tc_config *c, tc_sb *sb) {
  show w = {c, sb};
  return tc_arena_guard(sb->arena, code_key, &w);
}
