// JSON reading: a C shim over simdjson's DOM (json.cc). Strings are UTF-8 views into the document.
// A document is immutable after parsing and may be read from several threads.
#ifndef TC_CORE_BASE_JSON_H_
#define TC_CORE_BASE_JSON_H_

#include "core/base/str.h"

typedef struct tc_json_doc tc_json_doc;
typedef struct tc_json { // a value; {0} is "absent"
  const void *doc;
  uint64_t index;
} tc_json;
enum {
  TC_JSON_ABSENT,
  TC_JSON_NULL,
  TC_JSON_BOOL,
  TC_JSON_INT,
  TC_JSON_UINT,
  TC_JSON_DOUBLE,
  TC_JSON_STRING,
  TC_JSON_ARRAY,
  TC_JSON_OBJECT
};

// Copies the text (simdjson wants padding). Depth ≤ 1024; errors carry the byte offset where known.
TC_NODISCARD tc_status tc_json_parse(const tc_allocator *allocator, tc_sv text, tc_json_doc **out_doc,
                                     tc_json *out_root);
void tc_json_free(tc_json_doc *doc);
int32_t tc_json_kind(tc_json v);
bool tc_json_present(tc_json v);                      // neither absent nor null
tc_json tc_json_get(tc_json object, const char *key); // absent if no such member or not an object
bool tc_json_int(tc_json v, int64_t *out);            // exact integers only
bool tc_json_double(tc_json v, double *out);          // numbers, and "Infinity", "-Infinity", "NaN"
bool tc_json_bool(tc_json v, bool *out);
bool tc_json_str(tc_json v, tc_sv *out);
int64_t tc_json_count(tc_json v); // of an array or object, else 0
// Iteration: tc_json_iter it = tc_json_begin(v); while (tc_json_next(&it)) use it.key (objects), it.value.
typedef struct tc_json_iter {
  tc_json value;
  tc_sv key;
  const void *doc;
  uint64_t at, end;
  int32_t object;
} tc_json_iter;
tc_json_iter tc_json_begin(tc_json v);
bool tc_json_next(tc_json_iter *it);
// Writing.
void tc_json_quote(tc_sb *sb, tc_sv s); // with the quotes

#endif
