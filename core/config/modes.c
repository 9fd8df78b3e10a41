// Config files and modes: TOML trees into levels; which folders modes lie in; `extends`.
#include <string.h>
#include <sys/stat.h>

#include "core/base/fs.h"
#include "core/config/internal.h"

enum { MAX_EXTENDS = 8, MAX_DEPTH = 8 };
#define MODE_SUFFIX ".toml"

// ---- Trees ----
typedef struct reading {
  tc_config *c;
  int32_t level;
  tc_sv name;   // of the file
  tc_sv origin; // what goes before the place: "mode inductor, "
} reading;

static tc_sv origin_of(const reading *r, const tc_toml *v) {
  return tc_sv_printf(r->c->arena, TC_SV_FMT TC_SV_FMT ":%d", TC_SV_ARG(r->origin), TC_SV_ARG(r->name), v->line);
}

// Texts as they are; anything else as it would be written.
static tc_status section_text(const reading *r, const tc_toml *v, tc_sb *sb, int32_t depth) {
  switch (v->kind) {
  case TC_TOML_STRING:
    if (depth) tc_config_quote(sb, v->text);
    else tc_sb_put(sb, v->text);
    return TC_OK;
  case TC_TOML_INT: tc_sb_int(sb, v->integer); return TC_OK;
  case TC_TOML_BOOL: tc_sb_putz(sb, v->integer ? "true" : "false"); return TC_OK;
  case TC_TOML_FLOAT: tc_sb_double(sb, v->real); return TC_OK;
  case TC_TOML_ARRAY:
    if (depth >= MAX_DEPTH) break;
    tc_sb_putc(sb, '[');
    for (int32_t i = 0; i < v->n; i++) {
      if (i) tc_sb_putz(sb, ", ");
      TC_TRY(section_text(r, &v->kids[i], sb, depth + 1));
    }
    tc_sb_putc(sb, ']');
    return TC_OK;
  default: break;
  }
  return tc_error(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT ":%d: tables inside lists are not used here",
                  TC_SV_ARG(r->name), v->line);
}

// A plugin's section, at any depth: deeper keys keep their dots.
static tc_status read_section(const reading *r, tc_sv section, tc_sv prefix, const tc_toml *table, int32_t depth) {
  for (int32_t i = 0; i < table->n; i++) {
    const tc_toml *v = &table->kids[i];
    tc_sv key =
        prefix.size ? tc_sv_printf(r->c->arena, TC_SV_FMT "." TC_SV_FMT, TC_SV_ARG(prefix), TC_SV_ARG(v->key)) : v->key;
    if (v->kind == TC_TOML_TABLE) {
      if (depth >= MAX_DEPTH)
        return tc_error(TC_STATUS_RESOURCE_EXHAUSTED, TC_SV_FMT ":%d: tables are nested too deep", TC_SV_ARG(r->name),
                        v->line);
      TC_TRY(read_section(r, section, key, v, depth + 1));
      continue;
    }
    tc_sb sb = tc_sb_make(r->c->arena);
    TC_TRY(section_text(r, v, &sb, 0));
    tc_config_put_section(r->c, r->level, section, key, tc_sb_view(&sb), v->kind == TC_TOML_STRING, origin_of(r, v));
  }
  return TC_OK;
}

static tc_status read_option(const reading *r, tc_sv key, const tc_toml *v) {
  tc_sv place = tc_place(r->c->arena, r->name, v->line);
  int32_t id = tc_option_find(key);
  if (id < 0) return tc_option_unknown(place, key);
  if (id == TC_OPT_ID_MODE && r->level == TC_FROM_MODE)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT ": a mode cannot choose a mode: use `extends`",
                    TC_SV_ARG(place));
  tc_option_value value;
  TC_TRY(tc_option_from_toml(r->c->arena, &tc_options[id], v, &value),
         "at " TC_SV_FMT ", in the value of '" TC_SV_FMT "'", TC_SV_ARG(place), TC_SV_ARG(key));
  value.origin = origin_of(r, v);
  r->c->values[r->level][id] = value;
  return TC_OK;
}

static tc_status read_group(const reading *r, const tc_toml *group) {
  for (int32_t i = 0; i < group->n; i++) {
    const tc_toml *v = &group->kids[i];
    tc_sv key = tc_sv_printf(r->c->arena, TC_SV_FMT "." TC_SV_FMT, TC_SV_ARG(group->key), TC_SV_ARG(v->key));
    if (v->kind == TC_TOML_TABLE) return tc_option_unknown(tc_place(r->c->arena, r->name, v->line), key);
    TC_TRY(read_option(r, key, v));
  }
  return TC_OK;
}

static tc_status read_tree(tc_config *c, int32_t level, tc_sv name, tc_sv origin, const tc_toml *root, int32_t depth) {
  reading r = {c, level, name, origin};
  const tc_toml *extends = tc_toml_get(root, "extends");
  if (extends) {
    if (extends->kind != TC_TOML_STRING)
      return tc_error(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT ":%d: 'extends' is the name of a mode", TC_SV_ARG(name),
                      extends->line);
    TC_TRY(tc_config_read_mode(c, level, extends->text, depth + 1), "which " TC_SV_FMT ":%d extends", TC_SV_ARG(name),
           extends->line);
  }
  for (int32_t i = 0; i < root->n; i++) {
    const tc_toml *v = &root->kids[i];
    if (v == extends) continue;
    if (tc_sv_is(v->key, "description")) {
      if (v->kind == TC_TOML_STRING) continue;
      return tc_error(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT ":%d: 'description' is a text", TC_SV_ARG(name), v->line);
    }
    if (v->kind != TC_TOML_TABLE) TC_TRY(read_option(&r, v->key, v));
    else if (tc_option_group(v->key)) TC_TRY(read_group(&r, v));
    else if (tc_option_find(v->key) >= 0)
      return tc_error(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT ":%d: '" TC_SV_FMT "' is an option, not a table",
                      TC_SV_ARG(name), v->line, TC_SV_ARG(v->key));
    else TC_TRY(read_section(&r, v->key, (tc_sv){"", 0}, v, 0));
  }
  return TC_OK;
}

tc_status tc_config_read_tree(tc_config *c, int32_t level, tc_sv name, const tc_toml *root, int32_t depth) {
  return read_tree(c, level, name, (tc_sv){"", 0}, root, depth);
}

// ---- Modes ----
// The folders that may hold modes, in order.
static tc_status mode_folders(tc_config *c, tc_sv **out, int32_t *out_n) {
  static const char *const beside[] = {"../configs", "../share/tc/configs"};
  TC_VEC(tc_sv) folders = {0};
  const tc_sv *given;
  int32_t n = tc_config_list(c, TC_OPT_ID_CONFIGS_PATH, &given);
  for (int32_t i = 0; i < n; i++) tc_vec_push(c->arena, &folders, given[i]);
  tc_sv self;
  TC_TRY(tc_self_dir(c->arena, &self));
  for (size_t i = 0; i < sizeof beside / sizeof beside[0]; i++) {
    tc_sv folder = tc_path_join(c->arena, self, tc_sv_of(beside[i]));
    if (tc_dir_exists(folder.data)) tc_vec_push(c->arena, &folders, folder);
  }
  *out = folders.data;
  *out_n = folders.count;
  return TC_OK;
}

static int by_name(const tc_mode_info *a, const tc_mode_info *b) { return tc_sv_cmp(a->name, b->name); }

// Every NAME.toml of the folders; a name found twice is the first folder's.
static tc_status list_modes(tc_config *c, const tc_sv *folders, int32_t n_folders, tc_mode_info **out, int32_t *out_n) {
  TC_VEC(tc_mode_info) modes = {0};
  for (int32_t f = 0; f < n_folders; f++) {
    tc_sv *names;
    int32_t n;
    if (!tc_dir_exists(tc_sv_copy(c->arena, folders[f]).data)) continue;
    TC_TRY(tc_dir_list(c->arena, tc_sv_copy(c->arena, folders[f]).data, &names, &n));
    for (int32_t i = 0; i < n; i++) {
      if (!tc_sv_ends(names[i], MODE_SUFFIX) || names[i].size == sizeof MODE_SUFFIX - 1) continue;
      tc_mode_info m = {tc_sv_sub(names[i], 0, names[i].size - (sizeof MODE_SUFFIX - 1)),
                        {"", 0},
                        tc_path_join(c->arena, folders[f], names[i])};
      int32_t at = 0;
      while (at < modes.count && by_name(&modes.data[at], &m) < 0) at++;
      if (at < modes.count && by_name(&modes.data[at], &m) == 0) continue;
      tc_vec_push(c->arena, &modes, m);
      memmove(&modes.data[at + 1], &modes.data[at], (size_t)(modes.count - 1 - at) * sizeof m);
      modes.data[at] = m;
    }
  }
  *out = modes.data;
  *out_n = modes.count;
  return TC_OK;
}

static bool is_path(tc_sv mode) { return tc_sv_ends(mode, MODE_SUFFIX) || memchr(mode.data, '/', mode.size); }

static tc_status find_mode(tc_config *c, tc_sv mode, tc_sv *out_path) {
  tc_sv *folders;
  tc_mode_info *modes;
  int32_t n_folders, n;
  TC_TRY(mode_folders(c, &folders, &n_folders));
  TC_TRY(list_modes(c, folders, n_folders, &modes, &n));
  tc_sv *names = TC_NEW_ARRAY(c->arena, tc_sv, n);
  for (int32_t i = 0; i < n; i++) {
    names[i] = modes[i].name;
    if (!tc_sv_eq(mode, modes[i].name)) continue;
    *out_path = modes[i].path;
    return TC_OK;
  }
  tc_sb sb = tc_sb_make(c->arena);
  tc_sv near = tc_sv_nearest(mode, names, n);
  if (near.size) tc_sb_printf(&sb, "; did you mean '" TC_SV_FMT "'?", TC_SV_ARG(near));
  else if (n > 0)
    for (int32_t i = 0; i < n; i++) tc_sb_printf(&sb, "%s" TC_SV_FMT, i ? ", " : "; there are: ", TC_SV_ARG(names[i]));
  else {
    tc_sb_putz(&sb, "; no file of a mode was found");
    for (int32_t i = 0; i < n_folders; i++)
      tc_sb_printf(&sb, "%s'" TC_SV_FMT "'", i ? ", " : " in ", TC_SV_ARG(folders[i]));
    if (!n_folders) tc_sb_putz(&sb, ": there is no folder configs beside the program (configs.path names another)");
  }
  return tc_error(TC_STATUS_NOT_FOUND, "unknown mode '" TC_SV_FMT "'%s", TC_SV_ARG(mode), sb.text);
}

// A file may name another by `extends`; a pipe or a device among them could be endless.
static tc_status check_regular(const char *path) {
  struct stat st;
  if (stat(path, &st) != 0 || S_ISREG(st.st_mode)) return TC_OK; // a missing one is told by who reads it
  return tc_error(TC_STATUS_INVALID_ARGUMENT, "'%s' is not a regular file", path);
}

tc_status tc_config_read_mode(tc_config *c, int32_t level, tc_sv mode, int32_t depth) {
  tc_sv path = mode, text;
  const tc_toml *root;
  if (depth > MAX_EXTENDS)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "modes extend each other in a circle, or more than %d deep",
                    MAX_EXTENDS);
  if (mode.size == 0 || memchr(mode.data, 0, mode.size))
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "a mode has a name");
  if (is_path(mode)) path = tc_sv_copy(c->arena, mode);
  else TC_TRY(find_mode(c, mode, &path));
  TC_TRY(check_regular(path.data), "while reading mode '" TC_SV_FMT "'", TC_SV_ARG(mode));
  TC_TRY(tc_file_read(c->arena, path.data, &text), "while reading mode '" TC_SV_FMT "'", TC_SV_ARG(mode));
  TC_TRY(tc_toml_parse(c->arena, path, text, &root));
  // People know the mode by its name; the file by its last part.
  tc_sv origin = tc_sv_printf(c->arena, "mode " TC_SV_FMT ", ", TC_SV_ARG(mode));
  return read_tree(c, level, is_path(mode) ? path : tc_path_base(path), origin, root, depth);
}

typedef struct call {
  tc_config *c;
  tc_sv name, text;
  const char *path;
  const tc_mode_info *modes;
  int32_t n;
} call;

static tc_status apply_mode(void *arg) {
  call *k = arg;
  const tc_option_value *v = tc_config_value(k->c, TC_OPT_ID_MODE);
  TC_TRY(tc_config_read_mode(k->c, TC_FROM_MODE, v->text, 0), "while applying the mode (" TC_SV_FMT ")",
         TC_SV_ARG(v->origin));
  return TC_OK;
}

tc_status tc_config_apply_mode(tc_config *c) {
  call k = {.c = c};
  return tc_arena_guard(c->arena, apply_mode, &k);
}

// ---- Config files ----
static tc_status read_text(void *arg) {
  call *k = arg;
  const tc_toml *root;
  tc_sv name = tc_sv_copy(k->c->arena, k->name);
  TC_TRY(tc_toml_parse(k->c->arena, name, k->text, &root));
  return tc_config_read_tree(k->c, TC_FROM_FILE, name, root, 0);
}

tc_status tc_config_read_text(tc_config *c, tc_sv name, tc_sv text) {
  call k = {.c = c, .name = name, .text = text};
  return tc_arena_guard(c->arena, read_text, &k);
}

static tc_status read_file(void *arg) {
  call *k = arg;
  TC_TRY(tc_file_read(k->c->arena, k->path, &k->text), "while reading the configuration");
  k->name = tc_sv_of(k->path);
  return read_text(k);
}

tc_status tc_config_read_file(tc_config *c, const char *path) {
  call k = {.c = c, .path = path};
  return tc_arena_guard(c->arena, read_file, &k);
}

// ---- Listing ----
static tc_sv describe(tc_config *c, const tc_mode_info *m) {
  tc_sv text;
  const tc_toml *root, *v;
  tc_status s = tc_file_read(c->arena, m->path.data, &text);
  if (s == TC_OK) s = tc_toml_parse(c->arena, m->path, text, &root);
  if (s != TC_OK) {
    // Freed whatever happens: the text is copied through a place that cannot unwind.
    char line[500];
    size_t n = strlen(tc_status_text(s));
    if (n > sizeof line) n = sizeof line;
    memcpy(line, tc_status_text(s), n);
    tc_status_free(s);
    return tc_sv_copy(c->arena, (tc_sv){line, n});
  }
  v = tc_toml_get(root, "description");
  return v && v->kind == TC_TOML_STRING ? v->text : (tc_sv){"", 0};
}

static tc_status modes(void *arg) {
  call *k = arg;
  tc_sv *folders;
  tc_mode_info *list;
  int32_t n_folders;
  TC_TRY(mode_folders(k->c, &folders, &n_folders));
  TC_TRY(list_modes(k->c, folders, n_folders, &list, &k->n));
  for (int32_t i = 0; i < k->n; i++) list[i].description = describe(k->c, &list[i]);
  k->modes = list;
  return TC_OK;
}

tc_status tc_config_modes(tc_config *c, const tc_mode_info **out, int32_t *out_count) {
  call k = {.c = c};
  tc_status s = tc_arena_guard(c->arena, modes, &k);
  *out = k.modes;
  *out_count = k.n;
  return s;
}
