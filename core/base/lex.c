// The lexer. One pass over the text, one token of look-ahead; nothing is copied except the decoded contents of strings.
// Invariant: `pos` is just behind the current token, `line_start` is the offset of the line that `pos` is in.
// Numbers: decimal integers must fit int64, except 9223372036854775808, which exists so that the least integer can be
// written with a minus sign in front: it has `integer` INT64_MIN, and readers without a minus refuse it. Hexadecimal
// integers are bit patterns of up to 64 bits.
#include "core/base/lex.h"

#include <math.h>
#include <string.h>

enum { SHOWN = 100 }; // bytes of a long line that an error shows

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_alpha(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_sigil(char c) { return is_alpha(c) || is_digit(c) || c == '.' || c == '$'; }
static int32_t hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

static char peek(const tc_lexer *lx, size_t ahead) {
  return lx->pos + ahead < lx->text.size ? lx->text.data[lx->pos + ahead] : '\0';
}

static void bad(tc_lexer *lx, const char *why) {
  lx->tok.kind = TC_TOK_BAD;
  lx->bad = tc_sv_of(why);
}

static void skip_blanks(tc_lexer *lx) {
  while (lx->pos < lx->text.size) {
    char c = lx->text.data[lx->pos];
    if (c == '\n') {
      lx->pos++;
      lx->line++;
      lx->line_start = lx->pos;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      lx->pos++;
    } else if (c == '#') {
      while (lx->pos < lx->text.size && lx->text.data[lx->pos] != '\n') lx->pos++;
    } else {
      return;
    }
  }
}

// 0x… : an integer, or a float when a point or a binary exponent follows (C's hexadecimal floats; the exponent is
// required). Digits beyond 60 bits only set a sticky bit, which keeps the one rounding of ldexp's argument right.
static void hex_number(tc_lexer *lx) {
  lx->pos += 2;
  uint64_t value = 0, mantissa = 0;
  int32_t digits = 0, dropped = 0, exponent = 0;
  bool wide = false, point = false;
  for (;; lx->pos++) {
    char c = peek(lx, 0);
    if (c == '.' && !point && (hex_digit(peek(lx, 1)) >= 0 || peek(lx, 1) == 'p' || peek(lx, 1) == 'P')) {
      point = true;
      continue;
    }
    int32_t d = hex_digit(c);
    if (d < 0) break;
    digits++;
    if (value >> 60) wide = true;
    value = value << 4 | (uint64_t)d;
    if (mantissa >> 56) {
      mantissa |= d != 0;
      if (dropped < 1 << 20) dropped++;
      if (!point) exponent += exponent < 1 << 20 ? 4 : 0;
    } else {
      mantissa = mantissa << 4 | (uint64_t)d;
      if (point) exponent -= 4;
    }
  }
  lx->tok.kind = TC_TOK_INT;
  lx->tok.integer = (int64_t)value;
  lx->tok.real = (double)(int64_t)value;
  if (digits == 0) {
    bad(lx, "a hexadecimal number needs digits");
  } else if (peek(lx, 0) == 'p' || peek(lx, 0) == 'P') {
    lx->pos++;
    bool minus = peek(lx, 0) == '-';
    if (minus || peek(lx, 0) == '+') lx->pos++;
    if (!is_digit(peek(lx, 0))) {
      bad(lx, "a hexadecimal float needs digits in its exponent");
      return;
    }
    int32_t e = 0;
    for (; is_digit(peek(lx, 0)); lx->pos++)
      if (e < 1 << 20) e = e * 10 + (peek(lx, 0) - '0');
    lx->tok.kind = TC_TOK_FLOAT;
    lx->tok.real = ldexp((double)mantissa, exponent + (minus ? -e : e));
  } else if (point) {
    bad(lx, "a hexadecimal float needs an exponent (0x1.8p3)");
  } else if (wide) {
    bad(lx, "the integer does not fit into 64 bits");
  }
}

static void number(tc_lexer *lx) {
  size_t start = lx->pos;
  if (peek(lx, 0) == '0' && (peek(lx, 1) == 'x' || peek(lx, 1) == 'X')) {
    hex_number(lx);
  } else {
    bool real = false, overflow = false;
    uint64_t v = 0;
    for (; is_digit(peek(lx, 0)); lx->pos++) {
      uint64_t d = (uint64_t)(peek(lx, 0) - '0');
      if (v > ((uint64_t)INT64_MAX + 1 - d) / 10) overflow = true;
      v = v * 10 + d;
    }
    // "1." is a float, "1.size" a member, "1..2" neither.
    if (peek(lx, 0) == '.' && !is_alpha(peek(lx, 1)) && peek(lx, 1) != '.') {
      real = true;
      lx->pos++;
      while (is_digit(peek(lx, 0))) lx->pos++;
    }
    if (peek(lx, 0) == 'e' || peek(lx, 0) == 'E') {
      size_t sign = peek(lx, 1) == '+' || peek(lx, 1) == '-' ? 1 : 0;
      if (is_digit(peek(lx, 1 + sign))) {
        real = true;
        lx->pos += 1 + sign;
        while (is_digit(peek(lx, 0))) lx->pos++;
      }
    }
    if (real) {
      tc_sv text = {lx->text.data + start, lx->pos - start};
      if (text.data[text.size - 1] == '.') text.size--;
      lx->tok.kind = TC_TOK_FLOAT;
      if (!tc_sv_to_double(text, &lx->tok.real)) bad(lx, "the number cannot be read");
    } else {
      lx->tok.kind = TC_TOK_INT;
      lx->tok.integer = (int64_t)v;
      lx->tok.real = (double)v;
      if (overflow) bad(lx, "the integer does not fit into 64 bits");
    }
  }
  if (lx->tok.kind != TC_TOK_BAD && (is_alpha(peek(lx, 0)) || is_digit(peek(lx, 0)))) {
    while (is_alpha(peek(lx, 0)) || is_digit(peek(lx, 0))) lx->pos++;
    bad(lx, "a number must not run into a name");
  }
}

static bool three_quotes(const tc_lexer *lx) { return peek(lx, 0) == '"' && peek(lx, 1) == '"' && peek(lx, 2) == '"'; }

static void long_string(tc_lexer *lx) {
  lx->pos += 3;
  size_t start = lx->pos;
  for (; lx->pos < lx->text.size && !three_quotes(lx); lx->pos++)
    if (lx->text.data[lx->pos] == '\n') lx->line++, lx->line_start = lx->pos + 1;
  if (!three_quotes(lx)) {
    bad(lx, "the text is not closed by \"\"\"");
    return;
  }
  lx->tok.kind = TC_TOK_STRING;
  lx->tok.text = (tc_sv){lx->text.data + start, lx->pos - start};
  lx->pos += 3;
}

static void string(tc_lexer *lx) {
  size_t end = ++lx->pos;
  bool escapes = false;
  while (end < lx->text.size && lx->text.data[end] != '"' && lx->text.data[end] != '\n') {
    if (lx->text.data[end] == '\\') {
      escapes = true;
      end++;
    }
    end++;
  }
  if (end >= lx->text.size || lx->text.data[end] != '"') {
    lx->pos = end < lx->text.size ? end : lx->text.size;
    bad(lx, "the string is not closed on its line");
    return;
  }
  tc_sv raw = {lx->text.data + lx->pos, end - lx->pos};
  lx->pos = end + 1;
  lx->tok.kind = TC_TOK_STRING;
  lx->tok.text = raw;
  if (!escapes) return;
  char *out = tc_arena_alloc(lx->arena, raw.size + 1);
  size_t n = 0;
  for (size_t i = 0; i < raw.size; i++) {
    char c = raw.data[i];
    if (c == '\\') {
      c = raw.data[++i];
      if (c == 'n') c = '\n';
      else if (c == 't') c = '\t';
      else if (c == 'r') c = '\r';
      else if (c == 'x') {
        int32_t hi = i + 1 < raw.size ? hex_digit(raw.data[i + 1]) : -1;
        int32_t lo = i + 2 < raw.size ? hex_digit(raw.data[i + 2]) : -1;
        if (hi < 0 || lo < 0) {
          bad(lx, "\\x needs two hexadecimal digits");
          return;
        }
        c = (char)(hi * 16 + lo);
        i += 2;
      } else if (c != '"' && c != '\\') {
        bad(lx, "unknown escape; known are \\\" \\\\ \\n \\t \\r \\xHH");
        return;
      }
    }
    out[n++] = c;
  }
  lx->tok.text = (tc_sv){out, n};
}

void tc_lex_next(tc_lexer *lx) {
  static const char pairs[][3] = {"->", "::", "==", "!=", "<=", ">=", "&&", "||", "<<", ">>", "//", "**"};
  skip_blanks(lx);
  size_t start = lx->pos;
  lx->tok = (tc_token){.line = lx->line, .column = (int32_t)(start - lx->line_start) + 1};
  if (start >= lx->text.size) {
    lx->tok.kind = TC_TOK_END;
    lx->tok.text = (tc_sv){lx->text.data + lx->text.size, 0};
    return;
  }
  char c = lx->text.data[start];
  if (is_alpha(c)) {
    while (is_alpha(peek(lx, 0)) || is_digit(peek(lx, 0))) lx->pos++;
    lx->tok.kind = TC_TOK_IDENT;
  } else if (is_digit(c)) {
    number(lx);
  } else if (c == '"') {
    if (three_quotes(lx)) long_string(lx);
    else string(lx);
    if (lx->tok.kind == TC_TOK_STRING) return; // the text is the contents
  } else if ((c == '%' || c == '@' || c == '^') && is_sigil(peek(lx, 1))) {
    lx->pos++;
    while (is_sigil(peek(lx, 0))) lx->pos++;
    lx->tok.kind = TC_TOK_SIGIL;
  } else if (c > ' ' && c < 0x7f) {
    lx->tok.kind = TC_TOK_PUNCT;
    lx->pos++;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
      if (pairs[i][0] == c && pairs[i][1] == peek(lx, 0)) {
        lx->pos++;
        break;
      }
  } else {
    lx->pos++;
    bad(lx, "a byte that no token has (outside strings and comments the text is printable ASCII)");
  }
  lx->tok.text = (tc_sv){lx->text.data + start, lx->pos - start};
}

void tc_lex_init(tc_lexer *lx, tc_arena *arena, tc_sv name, tc_sv text) {
  *lx = (tc_lexer){.arena = arena, .name = name, .text = text, .line = 1};
  tc_lex_next(lx);
}

bool tc_lex_at(const tc_lexer *lx, const char *want) {
  bool word = lx->tok.kind == TC_TOK_IDENT || lx->tok.kind == TC_TOK_PUNCT;
  return word && lx->tok.text.data[0] == want[0] && tc_sv_is(lx->tok.text, want); // mostly the first byte decides
}

bool tc_lex_eat(tc_lexer *lx, const char *want) {
  if (!tc_lex_at(lx, want)) return false;
  tc_lex_next(lx);
  return true;
}

tc_status tc_lex_error(const tc_lexer *lx, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  tc_sb sb = tc_sb_make(lx->arena);
  tc_sb_vprintf(&sb, fmt, args);
  va_end(args);
  if (lx->tok.kind == TC_TOK_BAD) tc_sb_printf(&sb, " (" TC_SV_FMT ")", TC_SV_ARG(lx->bad));
  // The token's own line: behind a string's error the position may already be further on.
  size_t at = 0;
  for (int32_t line = 1; line < lx->tok.line && at < lx->text.size; at++) line += lx->text.data[at] == '\n';
  size_t end = at;
  while (end < lx->text.size && lx->text.data[end] != '\n' && lx->text.data[end] != '\r') end++;
  size_t column = (size_t)lx->tok.column - 1;
  size_t from = at;
  if (column > SHOWN / 2 && end - at > SHOWN) {
    from = at + column - SHOWN / 2;
    column = SHOWN / 2;
  }
  if (end - from > SHOWN) end = from + SHOWN;
  tc_sb mark = tc_sb_make(lx->arena);
  for (size_t i = 0; i < column; i++) tc_sb_putc(&mark, from + i < end && lx->text.data[from + i] == '\t' ? '\t' : ' ');
  return tc_error(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT ":%d:%d: " TC_SV_FMT "\n  " TC_SV_FMT "\n  " TC_SV_FMT "^",
                  TC_SV_ARG(lx->name), (int)lx->tok.line, (int)lx->tok.column, TC_SV_ARG(tc_sb_view(&sb)),
                  (int)(end - from), lx->text.data ? lx->text.data + from : "", TC_SV_ARG(tc_sb_view(&mark)));
}

static tc_status expected(const tc_lexer *lx, const char *what) {
  if (lx->tok.kind == TC_TOK_END) return tc_lex_error(lx, "expected %s, found the end of the text", what);
  int size = (int)(lx->tok.text.size < 40 ? lx->tok.text.size : 40);
  return tc_lex_error(lx, "expected %s, found '%.*s'", what, size, lx->tok.text.data);
}

tc_status tc_lex_expect(tc_lexer *lx, const char *want) {
  if (tc_lex_eat(lx, want)) return TC_OK;
  const char *quoted = tc_sv_printf(lx->arena, "'%s'", want).data;
  return expected(lx, quoted);
}

tc_status tc_lex_ident(tc_lexer *lx, tc_sv *out) {
  if (lx->tok.kind != TC_TOK_IDENT) return expected(lx, "a name");
  *out = lx->tok.text;
  tc_lex_next(lx);
  return TC_OK;
}

tc_status tc_lex_sigil(tc_lexer *lx, char sigil, tc_sv *out) {
  if (lx->tok.kind != TC_TOK_SIGIL || lx->tok.text.data[0] != sigil) {
    const char *what = tc_sv_printf(lx->arena, "a name that starts with '%c'", sigil).data;
    return expected(lx, what);
  }
  *out = tc_sv_sub(lx->tok.text, 1, lx->tok.text.size);
  tc_lex_next(lx);
  return TC_OK;
}

// Is the token the decimal 2^63, which only a minus sign makes an int64?
static bool needs_minus(const tc_token *t) {
  return t->kind == TC_TOK_INT && t->integer == INT64_MIN && t->text.data[0] == '9';
}

tc_status tc_lex_int(tc_lexer *lx, int64_t *out) {
  bool minus = tc_lex_eat(lx, "-");
  if (lx->tok.kind != TC_TOK_INT) return expected(lx, "an integer");
  if (!minus && needs_minus(&lx->tok)) return tc_lex_error(lx, "the integer does not fit into 64 bits");
  *out = minus ? (int64_t)(0 - (uint64_t)lx->tok.integer) : lx->tok.integer;
  tc_lex_next(lx);
  return TC_OK;
}

tc_status tc_lex_double(tc_lexer *lx, double *out) {
  bool minus = tc_lex_eat(lx, "-");
  double v;
  if (lx->tok.kind == TC_TOK_INT || lx->tok.kind == TC_TOK_FLOAT) v = lx->tok.real;
  else if (tc_lex_at(lx, "inf")) v = (double)INFINITY;
  else if (tc_lex_at(lx, "nan")) v = (double)NAN;
  else return expected(lx, "a number");
  *out = minus ? -v : v;
  tc_lex_next(lx);
  return TC_OK;
}

tc_status tc_lex_string(tc_lexer *lx, tc_sv *out) {
  if (lx->tok.kind != TC_TOK_STRING) return expected(lx, "a string");
  *out = lx->tok.text;
  tc_lex_next(lx);
  return TC_OK;
}
