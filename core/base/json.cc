// JSON: simdjson parses into its tape (its doc/tape.md describes the format), which is read here directly. A value is
// the document and the place of its first tape word.
//
// Tape words: 8 bits of type, 56 bits of payload. '{' and '[' carry the index behind their closing word and, above it,
// the number of members (saturated at 2^24 - 1); '"' an offset into the strings, each with its 32-bit length in front;
// 'l', 'u', 'd' are followed by a word with the number. Member names are strings before their values.
#include <cmath>
#include <cstring>
#include <new>
#include <simdjson.h>
#include <sys/mman.h>

extern "C" {
#include "core/base/json.h"
}

using simdjson::dom::document;

struct tc_json_doc {
  const tc_allocator *allocator;
  document dom;
};

namespace {

constexpr size_t max_depth = 1024;

const document &dom_of(const void *doc) { return static_cast<const tc_json_doc *>(doc)->dom; }
uint64_t word(const void *doc, uint64_t index) { return dom_of(doc).tape[index]; }
char type_of(tc_json v) { return v.doc ? static_cast<char>(word(v.doc, v.index) >> 56) : 0; }
uint64_t payload(tc_json v) { return word(v.doc, v.index) & 0x00ffffffffffffffull; }

tc_sv string_at(tc_json v) {
  const uint8_t *at = dom_of(v.doc).string_buf.get() + payload(v);
  uint32_t size;
  std::memcpy(&size, at, sizeof size);
  return {reinterpret_cast<const char *>(at + sizeof size), size};
}

// The tape index behind the value.
uint64_t behind(tc_json v) {
  switch (type_of(v)) {
  case '{':
  case '[': return payload(v) & 0xffffffffu;
  case 'l':
  case 'u':
  case 'd': return v.index + 2;
  default: return v.index + 1;
  }
}

template <typename T> T number_at(tc_json v) {
  T out;
  uint64_t bits = word(v.doc, v.index + 1);
  std::memcpy(&out, &bits, sizeof out);
  return out;
}

void destroy(tc_json_doc *doc) {
  const tc_allocator *a = doc->allocator;
  doc->~tc_json_doc();
  tc_free(a, doc);
}

tc_status fail(simdjson::error_code error) {
  switch (error) {
  case simdjson::MEMALLOC: return tc_error(TC_STATUS_OUT_OF_MEMORY, "out of memory while parsing JSON");
  case simdjson::CAPACITY: return tc_error(TC_STATUS_RESOURCE_EXHAUSTED, "JSON text is larger than 4 GiB");
  case simdjson::DEPTH_ERROR:
    return tc_error(TC_STATUS_RESOURCE_EXHAUSTED, "JSON is nested deeper than %zu levels", max_depth);
  default: return tc_error(TC_STATUS_DATA_LOSS, "malformed JSON: %s", simdjson::error_message(error));
  }
}

// Bytes of the UTF-8 sequence at s[0], or 0 where there is none (Unicode 15, table 3-7).
size_t utf8_length(const unsigned char *s, size_t n) {
  static const struct {
    unsigned char from, to, second_from, second_to, length;
  } rows[] = {{0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
              {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
              {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};
  if (s[0] < 0x80) return 1;
  for (const auto &r : rows) {
    if (s[0] < r.from || s[0] > r.to) continue;
    if (n < r.length || s[1] < r.second_from || s[1] > r.second_to) return 0;
    for (size_t i = 2; i < r.length; i++)
      if (s[i] < 0x80 || s[i] > 0xbf) return 0;
    return r.length;
  }
  return 0;
}

// The tables are sized for the worst text and written once from the front: huge pages save a fault per 4 KiB of them.
void prefer_huge_pages(const void *data, size_t size) {
#ifdef MADV_HUGEPAGE
  constexpr uintptr_t page = uintptr_t{2} << 20;
  const uintptr_t from = (reinterpret_cast<uintptr_t>(data) + page - 1) & ~(page - 1),
                  to = (reinterpret_cast<uintptr_t>(data) + size) & ~(page - 1);
  if (from < to) madvise(reinterpret_cast<void *>(from), to - from, MADV_HUGEPAGE);
#else
  (void)data, (void)size;
#endif
}

} // namespace

extern "C" tc_status tc_json_parse(const tc_allocator *allocator, tc_sv text, tc_json_doc **out_doc,
                                   tc_json *out_root) {
  *out_doc = nullptr;
  *out_root = {};
  if (text.size > UINT32_MAX - simdjson::SIMDJSON_PADDING) return fail(simdjson::CAPACITY);
  void *memory = tc_alloc(allocator, sizeof(tc_json_doc));
  auto *padded = static_cast<uint8_t *>(allocator->alloc(allocator->self, text.size + simdjson::SIMDJSON_PADDING));
  if (memory == nullptr || padded == nullptr) {
    tc_free(allocator, memory);
    tc_free(allocator, padded);
    return fail(simdjson::MEMALLOC);
  }
  if (text.size) std::memcpy(padded, text.data, text.size);
  std::memset(padded + text.size, 0, simdjson::SIMDJSON_PADDING);
  auto *doc = new (memory) tc_json_doc{allocator, {}};
  simdjson::error_code error;
  {
    simdjson::dom::parser parser;
    error = parser.allocate(text.size ? text.size : 1, max_depth);
    if (!error) error = doc->dom.allocate(text.size ? text.size : 1);
    if (!error) {
      prefer_huge_pages(doc->dom.tape.get(), text.size * sizeof(uint64_t));
      prefer_huge_pages(doc->dom.string_buf.get(), text.size);
      prefer_huge_pages(parser.implementation->structural_indexes.get(), text.size * sizeof(uint32_t));
    }
    if (!error) error = parser.parse_into_document(doc->dom, padded, text.size, false).error();
  }
  tc_free(allocator, padded);
  if (error) {
    destroy(doc);
    return fail(error);
  }
  *out_doc = doc;
  *out_root = {doc, 1}; // word 0 is the tape's own root
  return TC_OK;
}

extern "C" void tc_json_free(tc_json_doc *doc) {
  if (doc != nullptr) destroy(doc);
}

extern "C" int32_t tc_json_kind(tc_json v) {
  switch (type_of(v)) {
  case 'n': return TC_JSON_NULL;
  case 't':
  case 'f': return TC_JSON_BOOL;
  case 'l': return TC_JSON_INT;
  case 'u': return TC_JSON_UINT;
  case 'd': return TC_JSON_DOUBLE;
  case '"': return TC_JSON_STRING;
  case '[': return TC_JSON_ARRAY;
  case '{': return TC_JSON_OBJECT;
  default: return TC_JSON_ABSENT;
  }
}

extern "C" bool tc_json_present(tc_json v) { return tc_json_kind(v) > TC_JSON_NULL; }

extern "C" tc_json tc_json_get(tc_json object, const char *key) {
  if (type_of(object) != '{') return {};
  size_t size = std::strlen(key);
  for (tc_json_iter it = tc_json_begin(object); tc_json_next(&it);)
    if (it.key.size == size && std::memcmp(it.key.data, key, size) == 0) return it.value;
  return {};
}

extern "C" bool tc_json_int(tc_json v, int64_t *out) {
  if (type_of(v) != 'l') return false;
  *out = number_at<int64_t>(v);
  return true;
}

extern "C" bool tc_json_double(tc_json v, double *out) {
  switch (type_of(v)) {
  case 'l': *out = static_cast<double>(number_at<int64_t>(v)); return true;
  case 'u': *out = static_cast<double>(number_at<uint64_t>(v)); return true;
  case 'd': *out = number_at<double>(v); return true;
  case '"': {
    tc_sv s = string_at(v);
    if (tc_sv_is(s, "Infinity")) *out = HUGE_VAL;
    else if (tc_sv_is(s, "-Infinity")) *out = -HUGE_VAL;
    else if (tc_sv_is(s, "NaN")) *out = std::nan("");
    else return false;
    return true;
  }
  default: return false;
  }
}

extern "C" bool tc_json_bool(tc_json v, bool *out) {
  char t = type_of(v);
  if (t != 't' && t != 'f') return false;
  *out = t == 't';
  return true;
}

extern "C" bool tc_json_str(tc_json v, tc_sv *out) {
  if (type_of(v) != '"') return false;
  *out = string_at(v);
  return true;
}

extern "C" int64_t tc_json_count(tc_json v) {
  char t = type_of(v);
  if (t != '{' && t != '[') return 0;
  int64_t count = static_cast<int64_t>(payload(v) >> 32);
  if (count < 0xffffff) return count;
  count = 0;
  for (tc_json_iter it = tc_json_begin(v); tc_json_next(&it);) count++;
  return count;
}

extern "C" tc_json_iter tc_json_begin(tc_json v) {
  tc_json_iter it = {};
  char t = type_of(v);
  if (t != '{' && t != '[') return it;
  it.doc = v.doc;
  it.at = v.index + 1;
  it.end = behind(v) - 1; // the closing word
  it.object = t == '{';
  return it;
}

extern "C" bool tc_json_next(tc_json_iter *it) {
  if (it->at >= it->end) return false;
  if (it->object) it->key = string_at({it->doc, it->at++});
  it->value = {it->doc, it->at};
  it->at = behind(it->value);
  return true;
}

extern "C" void tc_json_quote(tc_sb *sb, tc_sv s) {
  tc_sb_putc(sb, '"');
  for (size_t i = 0; i < s.size;) {
    unsigned char c = static_cast<unsigned char>(s.data[i]);
    size_t n = utf8_length(reinterpret_cast<const unsigned char *>(s.data) + i, s.size - i);
    if (n == 0) tc_sb_putz(sb, "\\ufffd"); // JSON is UTF-8: what is not becomes the replacement character
    else if (c == '"' || c == '\\') tc_sb_putc(sb, '\\'), tc_sb_putc(sb, static_cast<char>(c));
    else if (c == '\n') tc_sb_putz(sb, "\\n");
    else if (c == '\t') tc_sb_putz(sb, "\\t");
    else if (c == '\r') tc_sb_putz(sb, "\\r");
    else if (c < 0x20) tc_sb_printf(sb, "\\u%04x", c);
    else tc_sb_put(sb, {s.data + i, n});
    i += n ? n : 1;
  }
  tc_sb_putc(sb, '"');
}
