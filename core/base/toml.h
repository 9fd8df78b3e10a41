// TOML reading: a C shim over toml++ (toml.cc). The tree is copied into the arena; every value knows its place.
#ifndef TC_CORE_BASE_TOML_H_
#define TC_CORE_BASE_TOML_H_

#include "core/base/str.h"

enum { TC_TOML_STRING, TC_TOML_INT, TC_TOML_FLOAT, TC_TOML_BOOL, TC_TOML_ARRAY, TC_TOML_TABLE };
typedef struct tc_toml {
  int32_t kind, n, line, column;
  tc_sv key, text;            // key within the parent table; STRING
  int64_t integer;            // INT, BOOL
  double real;                // FLOAT
  const struct tc_toml *kids; // ARRAY, TABLE (in the file's order)
} tc_toml;

// The root is a table. Dates and times are errors. `name` is the file's, for messages.
TC_NODISCARD tc_status tc_toml_parse(tc_arena *arena, tc_sv name, tc_sv text, const tc_toml **out);
const tc_toml *tc_toml_get(const tc_toml *table, const char *key); // NULL if absent

#endif
