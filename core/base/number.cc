// Floating-point numbers to text and back: shortest round-trip and correctly rounded, whatever the locale, as
// std::to_chars and std::from_chars have them.
#include <charconv>
#include <cmath>
#include <cstring>

extern "C" {
#include "core/base/str.h"
}

namespace {

bool digit(char c) { return c >= '0' && c <= '9'; }

// Is a decimal text that from_chars found out of range too large (rather than too small)? The decimal exponent of its
// first non-zero digit decides.
bool too_large(const char *at, const char *end) {
  long long point = 0, exponent = 0;
  bool seen_point = false, seen_digit = false;
  for (; at < end && (digit(*at) || *at == '.'); at++) {
    if (*at == '.') seen_point = true;
    else {
      seen_digit = seen_digit || *at != '0';
      if (seen_digit && !seen_point) point++;
      if (!seen_digit && seen_point) point--;
    }
  }
  if (at < end) { // at the e
    at++;
    bool negative = at < end && *at == '-';
    if (at < end && (*at == '-' || *at == '+')) at++;
    for (; at < end && exponent < 1000000000000; at++) exponent = exponent * 10 + (*at - '0');
    if (negative) exponent = -exponent;
  }
  return point + exponent > 0;
}

} // namespace

extern "C" bool tc_sv_to_double(tc_sv s, double *out) {
  const char *at = s.data, *end = s.data + s.size;
  bool negative = at < end && *at == '-';
  if (at < end && (*at == '-' || *at == '+')) at++;
  tc_sv rest = {at, (size_t)(end - at)};
  double v = 0;
  if (tc_sv_is(rest, "inf")) v = HUGE_VAL;
  else if (tc_sv_is(rest, "nan")) v = std::nan("");
  else {
    bool hex = rest.size > 2 && at[0] == '0' && (at[1] == 'x' || at[1] == 'X');
    if (hex) at += 2;
    // from_chars takes a sign and names of its own, so the first character must be a digit's.
    if (at == end || !(digit(*at) || *at == '.' || (hex && std::strchr("abcdefABCDEF", *at)))) return false;
    auto r = std::from_chars(at, end, v, hex ? std::chars_format::hex : std::chars_format::general);
    if (r.ec == std::errc::invalid_argument || r.ptr != end) return false;
    if (r.ec == std::errc::result_out_of_range) {
      if (hex || too_large(at, end)) return false;
      v = 0;
    }
    if (std::isinf(v)) return false;
  }
  *out = negative ? -v : v;
  return true;
}

template <typename T> static void put_shortest(tc_sb *sb, T v) {
  if (std::isnan(v)) return tc_sb_putz(sb, "nan");
  if (std::isinf(v)) return tc_sb_putz(sb, v < 0 ? "-inf" : "inf");
  char text[40];
  auto r = std::to_chars(text, text + sizeof text, v);
  double back = 0; // what reads it rounds twice
  std::from_chars(text, r.ptr, back);
  if (static_cast<T>(back) != v) return put_shortest(sb, static_cast<double>(v));
  tc_sv s = {text, (size_t)(r.ptr - text)};
  tc_sb_put(sb, s);
  if (std::memchr(text, '.', s.size) == nullptr && std::memchr(text, 'e', s.size) == nullptr) tc_sb_putz(sb, ".0");
}

extern "C" void tc_sb_double(tc_sb *sb, double v) { put_shortest(sb, v); }
extern "C" void tc_sb_float(tc_sb *sb, float v) { put_shortest(sb, v); }
