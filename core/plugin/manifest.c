// Manifests: what a plugin offers, known before any of its code runs. Format: plugin.h.
#include <string.h>

#include "core/base/toml.h"
#include "core/plugin/internal.h"

static const struct {
  tc_sv name;
  uint64_t bit;
} capabilities[] = {{{"device", 6}, TC_CAP_DEVICE},       {{"codegen", 7}, TC_CAP_CODEGEN},
                    {{"calls", 5}, TC_CAP_CALLS},         {{"ops", 3}, TC_CAP_OPS},
                    {{"templates", 9}, TC_CAP_TEMPLATES}, {{"delegate", 8}, TC_CAP_DELEGATE}};
#define N_CAPABILITIES ((int32_t)(sizeof capabilities / sizeof capabilities[0]))

void tc_capabilities_print(tc_sb *sb, uint64_t bits) {
  const char *between = "";
  for (int32_t i = 0; i < N_CAPABILITIES; i++)
    if (bits & capabilities[i].bit) {
      tc_sb_printf(sb, "%s" TC_SV_FMT, between, TC_SV_ARG(capabilities[i].name));
      between = "|";
    }
}

typedef struct reader {
  tc_arena *arena;
  tc_sv path;
  tc_plugin *p;
} reader;

static tc_status wrong(const reader *r, const tc_toml *v, const char *what) {
  return tc_error(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT ":%d: %s", TC_SV_ARG(r->path), v->line, what);
}

static tc_status read_text(const reader *r, const tc_toml *v, tc_sv *out) {
  if (v->kind != TC_TOML_STRING || v->text.size == 0 || v->text.size > 200 || memchr(v->text.data, 0, v->text.size))
    return wrong(r, v, "a text in quotes, of at most 200 characters, is expected");
  *out = v->text;
  return TC_OK;
}

// A name that is safe in paths, messages and configuration keys.
static tc_status read_name(const reader *r, const tc_toml *v, tc_sv *out) {
  TC_TRY(read_text(r, v, out));
  for (size_t i = 0; i < out->size; i++) {
    char c = out->data[i];
    bool ok = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    if (!ok || out->size > 64) return wrong(r, v, "a name of at most 64 of a-z, 0-9, - and _ is expected");
  }
  return TC_OK;
}

typedef tc_status (*element_fn)(const reader *r, const tc_toml *v, tc_sv *out);
static tc_status read_list(const reader *r, const tc_toml *v, element_fn element, const tc_sv **out, int32_t *out_n) {
  if (v->kind != TC_TOML_ARRAY || v->n > 4096) return wrong(r, v, "a list of at most 4096 texts is expected");
  tc_sv *list = TC_NEW_ARRAY(r->arena, tc_sv, v->n);
  for (int32_t i = 0; i < v->n; i++) TC_TRY(element(r, &v->kids[i], &list[i]));
  *out = list;
  *out_n = v->n;
  return TC_OK;
}

static tc_status read_name_key(const reader *r, const tc_toml *v) { return read_name(r, v, &r->p->name); }
static tc_status read_vendor(const reader *r, const tc_toml *v) { return read_text(r, v, &r->p->vendor); }
static tc_status read_version(const reader *r, const tc_toml *v) { return read_text(r, v, &r->p->version); }
static tc_status read_description(const reader *r, const tc_toml *v) { return read_text(r, v, &r->p->description); }

static tc_status read_devices(const reader *r, const tc_toml *v) {
  return read_list(r, v, read_name, &r->p->devices, &r->p->n_devices);
}

static tc_status read_ops(const reader *r, const tc_toml *v) {
  return read_list(r, v, read_text, &r->p->op_globs, &r->p->n_op_globs);
}

static tc_status read_calls(const reader *r, const tc_toml *v) {
  return read_list(r, v, read_text, &r->p->call_globs, &r->p->n_call_globs);
}

static tc_status read_file(const reader *r, const tc_toml *v, tc_sv *out) {
  TC_TRY(read_text(r, v, out));
  if (memchr(out->data, '/', out->size) || out->data[0] == '.')
    return wrong(r, v, "the plain name of a file in the manifest's own folder is expected");
  return TC_OK;
}
static tc_status read_file_key(const reader *r, const tc_toml *v) { return read_file(r, v, &r->p->file); }

static tc_status read_libraries(const reader *r, const tc_toml *v) {
  return read_list(r, v, read_file, &r->p->libraries, &r->p->n_libraries);
}

// "1.0" or "1.0-3".
static tc_status read_abi(const reader *r, const tc_toml *v) {
  tc_sv text, major, low;
  TC_TRY(read_text(r, v, &text));
  tc_sv rest = tc_sv_cut(text, '.', &major), high = tc_sv_cut(rest, '-', &low);
  int64_t n[3] = {-1, -1, -1};
  bool ok = tc_sv_to_int(tc_sv_trim(major), &n[0]) && tc_sv_to_int(tc_sv_trim(low), &n[1]);
  n[2] = n[1];
  if (high.size) ok = ok && tc_sv_to_int(tc_sv_trim(high), &n[2]);
  for (int i = 0; i < 3; i++) ok = ok && n[i] >= 0 && n[i] <= 9999;
  if (!ok || n[1] > n[2]) return wrong(r, v, "'abi' is MAJOR.MINOR or MAJOR.LOW-HIGH, such as \"1.0\" or \"1.0-2\"");
  r->p->abi_major = (uint32_t)n[0];
  r->p->abi_minor_low = (uint32_t)n[1];
  r->p->abi_minor_high = (uint32_t)n[2];
  return TC_OK;
}

static tc_status read_capabilities(const reader *r, const tc_toml *v) {
  const tc_sv *list = NULL;
  int32_t n = 0;
  TC_TRY(read_list(r, v, read_name, &list, &n));
  for (int32_t i = 0; i < n; i++) {
    int32_t k = 0;
    while (k < N_CAPABILITIES && !tc_sv_eq(list[i], capabilities[k].name)) k++;
    if (k == N_CAPABILITIES)
      return wrong(r, &v->kids[i], "capabilities are device, codegen, calls, ops, templates and delegate");
    r->p->capabilities |= capabilities[k].bit;
  }
  return TC_OK;
}

static tc_status read_priority(const reader *r, const tc_toml *v) {
  if (v->kind != TC_TOML_INT || v->integer < -1000000 || v->integer > 1000000)
    return wrong(r, v, "'priority' is an integer from -1000000 to 1000000");
  r->p->priority = (int32_t)v->integer;
  return TC_OK;
}

static const struct {
  tc_sv key;
  bool required;
  tc_status (*read)(const reader *r, const tc_toml *v);
} keys[] = {
#define KEY(name, required, read) {{name, sizeof(name) - 1}, required, read}
    KEY("name", true, read_name_key),
    KEY("file", true, read_file_key),
    KEY("libraries", false, read_libraries),
    KEY("abi", true, read_abi),
    KEY("capabilities", true, read_capabilities),
    KEY("devices", false, read_devices),
    KEY("ops", false, read_ops),
    KEY("calls", false, read_calls),
    KEY("priority", false, read_priority),
    KEY("vendor", false, read_vendor),
    KEY("version", false, read_version),
    KEY("description", false, read_description),
#undef KEY
};
#define N_KEYS ((int32_t)(sizeof keys / sizeof keys[0]))

static tc_status unknown_key(const reader *r, const tc_toml *v) {
  tc_sv names[N_KEYS];
  for (int32_t i = 0; i < N_KEYS; i++) names[i] = keys[i].key;
  tc_sv near = tc_sv_nearest(v->key, names, N_KEYS);
  return tc_error(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT ":%d: unknown key '" TC_SV_FMT "'%s" TC_SV_FMT "%s",
                  TC_SV_ARG(r->path), v->line, TC_SV_ARG(v->key), near.size ? "; did you mean '" : "", TC_SV_ARG(near),
                  near.size ? "'?" : "");
}

tc_status tc_manifest_read(tc_arena *arena, tc_sv path, tc_plugin *p) {
  tc_sv text;
  TC_TRY(tc_file_read(arena, path.data, &text));
  return tc_manifest_parse(arena, path, text, p);
}

tc_status tc_manifest_parse(tc_arena *arena, tc_sv path, tc_sv text, tc_plugin *p) {
  reader r = {arena, path, p};
  const tc_toml *root;
  TC_TRY(tc_toml_parse(arena, path, text, &root));
  // What the manifest is called stands for the name until the name is known.
  tc_sv base = tc_path_base(path);
  p->name = tc_sv_sub(base, 0, base.size - (sizeof TC_MANIFEST_SUFFIX - 1));
  for (int32_t i = 0; i < root->n; i++) {
    const tc_toml *v = &root->kids[i];
    int32_t k = 0;
    while (k < N_KEYS && !tc_sv_eq(v->key, keys[k].key)) k++;
    if (k == N_KEYS) return unknown_key(&r, v);
    TC_TRY(keys[k].read(&r, v));
  }
  for (int32_t k = 0; k < N_KEYS; k++)
    if (keys[k].required && !tc_toml_get(root, keys[k].key.data))
      return tc_error(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT ": the key '" TC_SV_FMT "' is missing", TC_SV_ARG(path),
                      TC_SV_ARG(keys[k].key));
  if (!p->capabilities)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT ": the plugin offers nothing: 'capabilities' is empty",
                    TC_SV_ARG(path));
  if ((p->capabilities & TC_CAP_DEVICE) && !p->n_devices)
    return tc_error(TC_STATUS_INVALID_ARGUMENT,
                    TC_SV_FMT ": the capability 'device' needs the key 'devices', the kinds of device",
                    TC_SV_ARG(path));
  if ((p->capabilities & TC_CAP_OPS) && !p->n_op_globs)
    return tc_error(TC_STATUS_INVALID_ARGUMENT,
                    TC_SV_FMT ": the capability 'ops' needs the key 'ops', globs of its ops' names", TC_SV_ARG(path));
  if (p->n_call_globs && !(p->capabilities & TC_CAP_CALLS))
    return tc_error(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT ": 'calls' needs the capability 'calls'", TC_SV_ARG(path));
  return TC_OK;
}
