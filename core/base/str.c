// String views, the builder, escapes and hashes. Conversions of floating-point numbers are in number.cc.
#include "core/base/str.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

tc_sv tc_sv_of(const char *z) { return z ? (tc_sv){z, strlen(z)} : TC_SV(""); }
bool tc_sv_eq(tc_sv a, tc_sv b) { return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0); }

bool tc_sv_starts(tc_sv s, const char *prefix) {
  size_t n = strlen(prefix);
  return n <= s.size && (n == 0 || memcmp(s.data, prefix, n) == 0);
}

bool tc_sv_ends(tc_sv s, const char *suffix) {
  size_t n = strlen(suffix);
  return n <= s.size && (n == 0 || memcmp(s.data + s.size - n, suffix, n) == 0);
}

int tc_sv_cmp(tc_sv a, tc_sv b) {
  size_t n = a.size < b.size ? a.size : b.size;
  int order = n ? memcmp(a.data, b.data, n) : 0;
  return order ? order : (a.size > b.size) - (a.size < b.size);
}

tc_sv tc_sv_sub(tc_sv s, size_t from, size_t to) {
  if (to > s.size) to = s.size;
  if (from > to) from = to;
  return s.data ? (tc_sv){s.data + from, to - from} : TC_SV("");
}

tc_sv tc_sv_cut(tc_sv s, char c, tc_sv *out_head) {
  const char *at = s.size ? memchr(s.data, c, s.size) : NULL;
  size_t head = at ? (size_t)(at - s.data) : s.size;
  *out_head = tc_sv_sub(s, 0, head);
  return tc_sv_sub(s, at ? head + 1 : head, s.size);
}

static bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

tc_sv tc_sv_trim(tc_sv s) {
  size_t from = 0, to = s.size;
  while (from < to && is_blank(s.data[from])) from++;
  while (to > from && is_blank(s.data[to - 1])) to--;
  return tc_sv_sub(s, from, to);
}

bool tc_sv_to_int(tc_sv s, int64_t *out) {
  bool negative = s.size > 0 && s.data[0] == '-';
  size_t i = s.size > 0 && (s.data[0] == '-' || s.data[0] == '+');
  if (i == s.size) return false;
  int64_t v = 0;
  for (; i < s.size; i++) {
    int digit = s.data[i] - '0';
    if (digit < 0 || digit > 9 || __builtin_mul_overflow(v, 10, &v)) return false;
    if (negative ? __builtin_sub_overflow(v, digit, &v) : __builtin_add_overflow(v, digit, &v)) return false;
  }
  *out = v;
  return true;
}

// Greedy matching with one point to come back to: the newest star suffices.
bool tc_sv_glob(tc_sv s, tc_sv pattern) {
  size_t i = 0, p = 0, star = SIZE_MAX, resume = 0;
  while (i < s.size) {
    if (p < pattern.size && pattern.data[p] == '*') {
      star = p++;
      resume = i;
    } else if (p < pattern.size && (pattern.data[p] == '?' || pattern.data[p] == s.data[i])) {
      i++, p++;
    } else if (star != SIZE_MAX) {
      p = star + 1;
      i = ++resume;
    } else return false;
  }
  while (p < pattern.size && pattern.data[p] == '*') p++;
  return p == pattern.size;
}

tc_sv tc_sv_copy(tc_arena *arena, tc_sv s) {
  char *copy = tc_arena_alloc(arena, s.size + 1);
  if (s.size) memcpy(copy, s.data, s.size);
  return (tc_sv){copy, s.size};
}

const char *tc_sv_z(tc_arena *arena, tc_sv s) { return tc_sv_copy(arena, s).data; }

tc_sv tc_sv_printf(tc_arena *arena, const char *fmt, ...) {
  tc_sb sb = tc_sb_make(arena);
  va_list args;
  va_start(args, fmt);
  tc_sb_vprintf(&sb, fmt, args);
  va_end(args);
  return tc_sb_view(&sb);
}

// Edit distance with exchanges of neighbours (optimal string alignment, Damerau 1964), letters compared without case.
// Three rows of the table are kept.
enum { NAME_MOST = 128 };
static int32_t edit_distance(tc_sv a, tc_sv b) {
  if (a.size > NAME_MOST || b.size > NAME_MOST) return INT32_MAX;
  int32_t rows[3][NAME_MOST + 1];
  int32_t *before = rows[0], *last = rows[1], *now = rows[2];
  for (size_t j = 0; j <= b.size; j++) last[j] = (int32_t)j;
  for (size_t i = 1; i <= a.size; i++) {
    now[0] = (int32_t)i;
    for (size_t j = 1; j <= b.size; j++) {
      int ca = tolower((unsigned char)a.data[i - 1]), cb = tolower((unsigned char)b.data[j - 1]);
      int32_t d = last[j - 1] + (ca != cb);
      if (last[j] + 1 < d) d = last[j] + 1;
      if (now[j - 1] + 1 < d) d = now[j - 1] + 1;
      if (i > 1 && j > 1 && ca == tolower((unsigned char)b.data[j - 2]) &&
          cb == tolower((unsigned char)a.data[i - 2]) && before[j - 2] + 1 < d)
        d = before[j - 2] + 1;
      now[j] = d;
    }
    int32_t *reuse = before;
    before = last, last = now, now = reuse;
  }
  return last[b.size];
}

tc_sv tc_sv_nearest(tc_sv s, const tc_sv *names, int32_t n) {
  tc_sv best = TC_SV("");
  int32_t limit = s.size < 4 ? 1 : (int32_t)(s.size < 30 ? (s.size + 2) / 3 : 10), best_distance = limit + 1;
  for (int32_t i = 0; i < n; i++) {
    int32_t d = edit_distance(s, names[i]);
    if (d < best_distance) best = names[i], best_distance = d;
  }
  return best;
}

// ---- builder

tc_sb tc_sb_make(tc_arena *arena) {
  tc_sb sb = {arena, tc_arena_alloc(arena, 64), 0, 64};
  return sb;
}

// Room for `more` bytes and the NUL.
static void reserve(tc_sb *sb, size_t more) {
  if (more < sb->capacity - sb->size) return;
  if (more > SIZE_MAX / 4 || sb->capacity > SIZE_MAX / 4) (void)tc_arena_array(sb->arena, SIZE_MAX, 2); // unwinds
  size_t capacity = sb->capacity * 2;
  if (capacity < sb->size + more + 1) capacity = sb->size + more + 1;
  char *text = tc_arena_alloc(sb->arena, capacity);
  memcpy(text, sb->text, sb->size);
  sb->text = text;
  sb->capacity = capacity;
}

void tc_sb_put(tc_sb *sb, tc_sv s) {
  reserve(sb, s.size);
  if (s.size) memcpy(sb->text + sb->size, s.data, s.size);
  sb->size += s.size;
  sb->text[sb->size] = 0;
}

void tc_sb_putz(tc_sb *sb, const char *z) { tc_sb_put(sb, tc_sv_of(z)); }
void tc_sb_putc(tc_sb *sb, char c) { tc_sb_put(sb, (tc_sv){&c, 1}); }

void tc_sb_vprintf(tc_sb *sb, const char *fmt, va_list args) {
  va_list again;
  va_copy(again, args);
  int length = vsnprintf(sb->text + sb->size, sb->capacity - sb->size, fmt, args);
  if (length > 0 && (size_t)length >= sb->capacity - sb->size) {
    reserve(sb, (size_t)length);
    vsnprintf(sb->text + sb->size, (size_t)length + 1, fmt, again);
  }
  va_end(again);
  if (length > 0) sb->size += (size_t)length;
  sb->text[sb->size] = 0;
}

void tc_sb_printf(tc_sb *sb, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  tc_sb_vprintf(sb, fmt, args);
  va_end(args);
}

void tc_sb_int(tc_sb *sb, int64_t v) {
  char digits[20];
  size_t at = sizeof digits;
  uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
  do digits[--at] = (char)('0' + u % 10);
  while (u /= 10);
  if (v < 0) digits[--at] = '-';
  tc_sb_put(sb, (tc_sv){digits + at, sizeof digits - at});
}

void tc_sb_quoted(tc_sb *sb, tc_sv s) {
  tc_sb_putc(sb, '"');
  for (size_t i = 0; i < s.size; i++) {
    unsigned char c = (unsigned char)s.data[i];
    if (c == '"' || c == '\\') tc_sb_putc(sb, '\\'), tc_sb_putc(sb, (char)c);
    else if (c == '\n') tc_sb_putz(sb, "\\n");
    else if (c == '\t') tc_sb_putz(sb, "\\t");
    else if (c < 0x20 || c == 0x7f) tc_sb_printf(sb, "\\x%02x", c);
    else tc_sb_putc(sb, (char)c);
  }
  tc_sb_putc(sb, '"');
}

tc_sv tc_sb_view(const tc_sb *sb) { return (tc_sv){sb->text, sb->size}; }

// ---- hashes

uint64_t tc_hash(const void *data, size_t size) { return XXH3_64bits(size ? data : "", size); }
uint64_t tc_hash_mix(uint64_t a, uint64_t b) { return XXH3_64bits_withSeed(&b, sizeof b, a); }

tc_hash128 tc_hash_long(const void *data, size_t size) {
  XXH128_hash_t h = XXH3_128bits(size ? data : "", size);
  return (tc_hash128){h.low64, h.high64};
}
