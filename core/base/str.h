// Strings: borrowed views, a builder, escapes, number parsing, 64-bit hashes (xxHash's XXH3).
#ifndef TC_CORE_BASE_STR_H_
#define TC_CORE_BASE_STR_H_

#include <string.h>

#include "core/base/alloc.h"

#define TC_SV(literal) ((tc_sv){(literal), sizeof(literal) - 1})
#define TC_SV_FMT "%.*s"
#define TC_SV_ARG(s) (int)(s).size, ((s).data ? (s).data : "")

tc_sv tc_sv_of(const char *z); // NUL-terminated; NULL gives ""
bool tc_sv_eq(tc_sv a, tc_sv b);
// Inline: most comparisons are with literals, whose lengths the compiler knows, and most lengths differ.
static inline bool tc_sv_is(tc_sv a, const char *z) {
  size_t n = z ? strlen(z) : 0;
  return a.size == n && (n == 0 || memcmp(a.data, z, n) == 0);
}
bool tc_sv_starts(tc_sv s, const char *prefix);
bool tc_sv_ends(tc_sv s, const char *suffix);
int tc_sv_cmp(tc_sv a, tc_sv b);
tc_sv tc_sv_sub(tc_sv s, size_t from, size_t to); // clamped
// Splits at the first `c`: *out_head before it, the result after it; without one, all is head and the rest is empty.
tc_sv tc_sv_cut(tc_sv s, char c, tc_sv *out_head);
tc_sv tc_sv_trim(tc_sv s);
// Strict: the whole string; false on overflow or junk.
bool tc_sv_to_int(tc_sv s, int64_t *out);
bool tc_sv_to_double(tc_sv s, double *out); // also inf, -inf, nan; locale-independent
bool tc_sv_glob(tc_sv s, tc_sv pattern);    // * and ?

tc_sv tc_sv_copy(tc_arena *arena, tc_sv s);    // NUL-terminated copy
const char *tc_sv_z(tc_arena *arena, tc_sv s); // the same as char *
tc_sv tc_sv_printf(tc_arena *arena, const char *fmt, ...) TC_PRINTF(2, 3);
// The nearest of `n` names by edit distance, or "" if none is near: for "did you mean".
tc_sv tc_sv_nearest(tc_sv s, const tc_sv *names, int32_t n);

// A string builder in an arena; `text` is always NUL-terminated.
typedef struct tc_sb {
  tc_arena *arena;
  char *text;
  size_t size, capacity;
} tc_sb;
tc_sb tc_sb_make(tc_arena *arena);
void tc_sb_put(tc_sb *sb, tc_sv s);
void tc_sb_putz(tc_sb *sb, const char *z);
void tc_sb_putc(tc_sb *sb, char c);
void tc_sb_printf(tc_sb *sb, const char *fmt, ...) TC_PRINTF(2, 3);
void tc_sb_vprintf(tc_sb *sb, const char *fmt, va_list args);
void tc_sb_int(tc_sb *sb, int64_t v);
void tc_sb_double(tc_sb *sb, double v); // shortest text that reads back equal; always has . or e, or is inf/-inf/nan
void tc_sb_float(tc_sb *sb, float v);   // the same of a float
void tc_sb_quoted(tc_sb *sb, tc_sv s);  // "…" with \" \\ \n \t \xHH
tc_sv tc_sb_view(const tc_sb *sb);

uint64_t tc_hash(const void *data, size_t size);
uint64_t tc_hash_mix(uint64_t a, uint64_t b);
typedef struct tc_hash128 {
  uint64_t lo, hi;
} tc_hash128;
tc_hash128 tc_hash_long(const void *data, size_t size); // content keys of caches

#endif
