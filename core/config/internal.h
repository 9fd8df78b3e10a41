// What the files of this folder share.
#ifndef TC_CORE_CONFIG_INTERNAL_H_
#define TC_CORE_CONFIG_INTERNAL_H_

#include "core/base/toml.h"
#include "core/base/vec.h"
#include "core/config/config.h"

typedef struct tc_option_value {
  bool set;
  int64_t integer; // BOOL, INT, SIZE; CHOICE: its number
  double real;     // REAL
  tc_sv text;      // as one would write it
  const tc_sv *list;
  int32_t n_list;
  tc_sv origin;
} tc_option_value;

// A value of a plugin's section.
typedef struct tc_section_value {
  tc_sv section, key, text, origin;
  int32_t level;
  bool quoted; // was written as a text: printed with quotes
} tc_section_value;

// An environment variable that may belong to a plugin's section.
typedef struct tc_env_value {
  tc_sv name, value;
} tc_env_value;

struct tc_config {
  tc_arena *arena;
  tc_option_value values[TC_FROM_COUNT][TC_OPT_COUNT];
  TC_VEC(tc_section_value) sections;
  TC_VEC(tc_env_value) unknown_env;
  TC_VEC(tc_sv) expected; // plugins that are added later
};

// ---- value.c ----
// Reads a text as the option's type; errors say what is expected ("'many' is not an integer").
TC_NODISCARD tc_status tc_option_parse(tc_arena *arena, const tc_option *o, tc_sv text, tc_option_value *out);
// The same from a file's value.
TC_NODISCARD tc_status tc_option_from_toml(tc_arena *arena, const tc_option *o, const tc_toml *v, tc_option_value *out);

// ---- config.c ----
tc_sv tc_place(tc_arena *arena, tc_sv file, int32_t line);              // "my.toml:3"
const tc_option_value *tc_config_value(const tc_config *c, int32_t id); // the strongest one
int32_t tc_option_find(tc_sv key);                                      // -1 if there is none
bool tc_option_group(tc_sv name);                                       // is it the first part of some dotted key?
TC_NODISCARD tc_status tc_option_unknown(tc_sv place, tc_sv key);       // the error, with the nearest key
void tc_config_put_section(tc_config *c, int32_t level, tc_sv section, tc_sv key, tc_sv text, bool quoted,
                           tc_sv origin);
void tc_config_quote(tc_sb *sb, tc_sv s); // as a TOML text

// ---- modes.c ----
// Reads a parsed file into a level; `extends` first. `depth` bounds the chain.
TC_NODISCARD tc_status tc_config_read_tree(tc_config *c, int32_t level, tc_sv name, const tc_toml *root, int32_t depth);
TC_NODISCARD tc_status tc_config_read_mode(tc_config *c, int32_t level, tc_sv mode, int32_t depth);

#endif
