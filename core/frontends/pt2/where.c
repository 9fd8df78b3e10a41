// Places in a JSON document, kept as a list through the C stack, so that they cost nothing until an error prints them:
// "model.json: graph.nodes[12].inputs[3].arg: unknown tag 'as_foo'". And the getters that need a place to fail.
#include <stdio.h>
#include <string.h>

#include "core/frontends/pt2/import.h"

// Writes the path into a buffer; too long a path is cut in front of its last part.
static size_t put_path(char *buffer, size_t capacity, const at *where) {
  size_t n = where->up ? put_path(buffer, capacity, where->up) : 0;
  if (n + 1 >= capacity) return n;
  char *to = buffer + n;
  size_t room = capacity - n;
  int wrote;
  if (where->key.data == NULL) wrote = snprintf(to, room, "[%lld]", (long long)where->index);
  else if (where->up == NULL) wrote = snprintf(to, room, TC_SV_FMT ": ", TC_SV_ARG(where->key));
  else {
    bool plain = where->key.size > 0, first = where->up->up == NULL;
    for (size_t i = 0; i < where->key.size; i++) {
      char c = where->key.data[i];
      plain &= (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    }
    if (plain) wrote = snprintf(to, room, "%s" TC_SV_FMT, first ? "" : ".", TC_SV_ARG(where->key));
    else
      wrote =
          snprintf(to, room, "['" TC_SV_FMT "']", where->key.size > 80 ? 80 : (int)where->key.size, where->key.data);
  }
  if (wrote < 0) return n;
  return (size_t)wrote >= room ? capacity - 1 : n + (size_t)wrote;
}

static tc_status fail_at(int32_t code, const at *where, const char *fmt, va_list args) {
  char path[512] = "", text[1024];
  put_path(path, sizeof path, where);
  vsnprintf(text, sizeof text, fmt, args);
  size_t n = strlen(path);
  bool bare = n >= 2 && path[n - 1] == ' '; // only the document's name
  return tc_error(code, "%s%s%s", path, bare ? "" : ": ", text);
}

tc_status pt2_bad(const at *where, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  tc_status status = fail_at(TC_STATUS_DATA_LOSS, where, fmt, args);
  va_end(args);
  return status;
}

tc_status pt2_refuse(const at *where, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  tc_status status = fail_at(TC_STATUS_UNIMPLEMENTED, where, fmt, args);
  va_end(args);
  return status;
}

tc_status pt2_note(tc_status status, const at *where) {
  if (status == TC_OK) return status;
  char path[512] = "";
  put_path(path, sizeof path, where);
  return tc_status_note(status, "at %s", path);
}

static const char *kind_name(tc_json v) {
  static const char *const names[] = {"nothing",  "null",     "a bool",   "an integer", "an integer beyond 64 bits",
                                      "a number", "a string", "an array", "an object"};
  return names[tc_json_kind(v)];
}

tc_status pt2_as_str(const at *where, tc_json v, tc_sv *out) {
  if (tc_json_str(v, out)) return TC_OK;
  return pt2_bad(where, "expected a string, found %s", kind_name(v));
}

tc_status pt2_as_int(const at *where, tc_json v, int64_t *out) {
  if (tc_json_int(v, out)) return TC_OK;
  return pt2_bad(where, "expected an integer, found %s", kind_name(v));
}

tc_status pt2_str(const at *where, tc_json object, const char *key, tc_sv *out) {
  at here = at_key(where, key);
  return pt2_as_str(&here, tc_json_get(object, key), out);
}

tc_status pt2_int(const at *where, tc_json object, const char *key, int64_t *out) {
  at here = at_key(where, key);
  return pt2_as_int(&here, tc_json_get(object, key), out);
}

static tc_status need_kind(const at *where, tc_json object, const char *key, int32_t kind, tc_json *out) {
  at here = at_key(where, key);
  *out = tc_json_get(object, key);
  if (tc_json_kind(*out) == kind) return TC_OK;
  return pt2_bad(&here, "expected %s, found %s", kind == TC_JSON_ARRAY ? "an array" : "an object", kind_name(*out));
}

tc_status pt2_array(const at *where, tc_json object, const char *key, tc_json *out) {
  return need_kind(where, object, key, TC_JSON_ARRAY, out);
}

tc_status pt2_object(const at *where, tc_json object, const char *key, tc_json *out) {
  return need_kind(where, object, key, TC_JSON_OBJECT, out);
}

tc_status pt2_union(const at *where, tc_json v, tc_sv *out_tag, tc_json *out_value) {
  if (tc_json_kind(v) != TC_JSON_OBJECT) return pt2_bad(where, "expected a union, found %s", kind_name(v));
  tc_json_iter it = tc_json_begin(v);
  if (!tc_json_next(&it)) return pt2_bad(where, "a union without a member");
  *out_tag = it.key;
  *out_value = it.value;
  if (tc_json_next(&it)) return pt2_bad(where, "a union with more than one member");
  return TC_OK;
}

tc_status pt2_named(const at *where, tc_json v, tc_sv *out_name) { return pt2_str(where, v, "name", out_name); }
