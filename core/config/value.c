// Values of options by type: from text (environment, command line, built-in) and from TOML.
#include <string.h>

#include "core/config/internal.h"

const tc_option tc_options[TC_OPT_COUNT] = {
#define SV(z) {z, sizeof(z) - 1}
#define X(id, key, type, preset, lo, hi, choices, code, doc) \
  {SV(key), SV(preset), SV(choices), SV(doc), TC_OPT_##type, code, lo, hi},
    TC_OPTION_LIST(X)
#undef X
#undef SV
};

const char *tc_option_type_name(int32_t type) {
  static const char *const names[] = {"bool", "integer", "size", "number", "text", "choice", "list", "paths"};
  return type >= 0 && type <= TC_OPT_PATHS ? names[type] : "unknown";
}

static tc_status parse_bool(tc_sv text, tc_option_value *out) {
  static const char *const words[] = {"false", "true", "0", "1", "no", "yes", "off", "on"};
  for (int i = 0; i < 8; i++)
    if (tc_sv_is(text, words[i])) {
      out->integer = i & 1;
      out->text = out->integer ? TC_SV("true") : TC_SV("false");
      return TC_OK;
    }
  return tc_error(TC_STATUS_INVALID_ARGUMENT, "'" TC_SV_FMT "' is neither true nor false", TC_SV_ARG(text));
}

static tc_status check_range(const tc_option *o, tc_option_value *out) {
  if (out->integer >= o->lo && out->integer <= o->hi) return TC_OK;
  if (o->hi == INT64_MAX)
    return tc_error(TC_STATUS_OUT_OF_RANGE, "%lld is less than %lld", (long long)out->integer, (long long)o->lo);
  return tc_error(TC_STATUS_OUT_OF_RANGE, "%lld is not within %lld … %lld", (long long)out->integer, (long long)o->lo,
                  (long long)o->hi);
}

static tc_status parse_int(tc_arena *arena, const tc_option *o, tc_sv text, tc_option_value *out) {
  if (!tc_sv_to_int(text, &out->integer))
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "'" TC_SV_FMT "' is not an integer", TC_SV_ARG(text));
  out->text = tc_sv_printf(arena, "%lld", (long long)out->integer);
  return check_range(o, out);
}

static tc_status parse_real(tc_arena *arena, tc_sv text, tc_option_value *out) {
  if (!tc_sv_to_double(text, &out->real))
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "'" TC_SV_FMT "' is not a number", TC_SV_ARG(text));
  tc_sb sb = tc_sb_make(arena);
  tc_sb_double(&sb, out->real);
  out->text = tc_sb_view(&sb);
  return TC_OK;
}

static tc_status parse_size(const tc_option *o, tc_sv text, tc_option_value *out) {
  static const char units[] = "KMGT";
  const char *unit = text.size > 1 ? strchr(units, text.data[text.size - 1]) : NULL;
  tc_sv digits = unit && *unit ? tc_sv_sub(text, 0, text.size - 1) : text;
  int64_t factor = unit && *unit ? INT64_C(1) << (10 * (unit - units + 1)) : 1;
  if (!tc_sv_to_int(digits, &out->integer) || __builtin_mul_overflow(out->integer, factor, &out->integer))
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "'" TC_SV_FMT "' is not a number of bytes such as 1000000 or 512M",
                    TC_SV_ARG(text));
  return check_range(o, out);
}

static tc_status parse_choice(const tc_option *o, tc_sv text, tc_option_value *out) {
  tc_sv rest = o->choices, word;
  for (int64_t i = 0; rest.size > 0; i++) {
    rest = tc_sv_cut(rest, ',', &word);
    if (!tc_sv_eq(word, text)) continue;
    out->integer = i;
    return TC_OK;
  }
  return tc_error(TC_STATUS_INVALID_ARGUMENT, "'" TC_SV_FMT "' is none of " TC_SV_FMT, TC_SV_ARG(text),
                  TC_SV_ARG(o->choices));
}

static tc_status parse_list(tc_arena *arena, const tc_option *o, tc_sv text, tc_option_value *out) {
  TC_VEC(tc_sv) list = {0};
  tc_sb joined = tc_sb_make(arena);
  char between = o->type == TC_OPT_PATHS ? ':' : ',';
  for (tc_sv word; text.size > 0;) {
    text = tc_sv_cut(text, between, &word);
    word = tc_sv_trim(word);
    if (word.size == 0) continue;
    if (o->type == TC_OPT_PATHS && word.data[0] != '/')
      return tc_error(TC_STATUS_INVALID_ARGUMENT, "'" TC_SV_FMT "' is not an absolute path", TC_SV_ARG(word));
    if (list.count) tc_sb_putc(&joined, between);
    tc_sb_put(&joined, word);
    tc_vec_push(arena, &list, word);
  }
  out->text = tc_sb_view(&joined);
  out->list = list.data;
  out->n_list = list.count;
  return TC_OK;
}

// `text` of the value is in one spelling whatever was read, so that equal values have equal keys.
tc_status tc_option_parse(tc_arena *arena, const tc_option *o, tc_sv text, tc_option_value *out) {
  *out = (tc_option_value){.set = true, .text = tc_sv_copy(arena, text)};
  switch (o->type) {
  case TC_OPT_BOOL: return parse_bool(text, out);
  case TC_OPT_INT: return parse_int(arena, o, text, out);
  case TC_OPT_SIZE: return parse_size(o, text, out);
  case TC_OPT_CHOICE: return parse_choice(o, text, out);
  case TC_OPT_LIST:
  case TC_OPT_PATHS: return parse_list(arena, o, out->text, out);
  case TC_OPT_REAL: return parse_real(arena, text, out);
  default: return TC_OK;
  }
}

static tc_status expected(const tc_option *o) {
  return tc_error(TC_STATUS_INVALID_ARGUMENT, "a value of type %s is expected", tc_option_type_name(o->type));
}

static tc_status join_array(tc_arena *arena, const tc_option *o, const tc_toml *v, tc_sv *out) {
  tc_sb sb = tc_sb_make(arena);
  char between = o->type == TC_OPT_PATHS ? ':' : ',';
  for (int32_t i = 0; i < v->n; i++) {
    if (v->kids[i].kind != TC_TOML_STRING || memchr(v->kids[i].text.data, between, v->kids[i].text.size))
      return tc_error(TC_STATUS_INVALID_ARGUMENT, "element %d is not a text without '%c'", i + 1, between);
    if (i) tc_sb_putc(&sb, between);
    tc_sb_put(&sb, v->kids[i].text);
  }
  *out = tc_sb_view(&sb);
  return TC_OK;
}

tc_status tc_option_from_toml(tc_arena *arena, const tc_option *o, const tc_toml *v, tc_option_value *out) {
  tc_sv text = v->text;
  bool fits = false;
  switch (v->kind) {
  case TC_TOML_STRING: fits = o->type != TC_OPT_BOOL && o->type != TC_OPT_INT && o->type != TC_OPT_REAL; break;
  case TC_TOML_BOOL:
    fits = o->type == TC_OPT_BOOL || o->type == TC_OPT_CHOICE; // dynamic = true
    text = v->integer ? TC_SV("true") : TC_SV("false");
    break;
  case TC_TOML_INT:
    fits = o->type == TC_OPT_INT || o->type == TC_OPT_SIZE || o->type == TC_OPT_REAL || o->type == TC_OPT_CHOICE;
    text = tc_sv_printf(arena, "%lld", (long long)v->integer);
    break;
  case TC_TOML_FLOAT: {
    tc_sb sb = tc_sb_make(arena);
    tc_sb_double(&sb, v->real);
    text = tc_sb_view(&sb);
    fits = o->type == TC_OPT_REAL;
    break;
  }
  case TC_TOML_ARRAY:
    if (o->type != TC_OPT_LIST && o->type != TC_OPT_PATHS) break;
    TC_TRY(join_array(arena, o, v, &text));
    fits = true;
    break;
  default: break;
  }
  return fits ? tc_option_parse(arena, o, text, out) : expected(o);
}
