// The lexer of every text form (.tc files, op schemas, body strings, symbolic expressions).
//
// Tokens: identifiers [A-Za-z_][A-Za-z0-9_]*; sigil names %x @x ^x with [A-Za-z0-9_.$]*; integers (decimal, 0x…);
// floats (also hexadecimal floats; inf and nan are identifiers); "strings" with the escapes of tc_sb_quoted;
// """texts""" of any number of lines as they stand, without escapes; punctuation, longest first: -> :: == != <= >= &&
// || << >> // ** and single characters. '#' starts a comment to the end of the line. Newlines are blanks. Errors name
// line and column ("file.tc:3:14: …") and show the line.
#ifndef TC_CORE_BASE_LEX_H_
#define TC_CORE_BASE_LEX_H_

#include "core/base/str.h"

enum { TC_TOK_END, TC_TOK_IDENT, TC_TOK_SIGIL, TC_TOK_INT, TC_TOK_FLOAT, TC_TOK_STRING, TC_TOK_PUNCT, TC_TOK_BAD };

typedef struct tc_token {
  int32_t kind;
  tc_sv text;      // as written; for strings the decoded contents (in the arena), for sigils with the sigil
  int64_t integer; // INT
  double real;     // FLOAT, and INT converted
  int32_t line, column;
} tc_token;

typedef struct tc_lexer {
  tc_arena *arena;
  tc_sv name, text; // file name for messages; the whole text
  size_t pos;
  int32_t line;
  size_t line_start;
  tc_token tok; // the current token
  tc_sv bad;    // what is wrong, if tok.kind is TC_TOK_BAD
} tc_lexer;

// Starts at the first token.
void tc_lex_init(tc_lexer *lx, tc_arena *arena, tc_sv name, tc_sv text);
void tc_lex_next(tc_lexer *lx);
bool tc_lex_at(const tc_lexer *lx, const char *punct_or_ident); // is the current token this text (not a string)?
bool tc_lex_eat(tc_lexer *lx, const char *punct_or_ident);      // the same, and steps over it
TC_NODISCARD tc_status tc_lex_expect(tc_lexer *lx, const char *punct_or_ident);
TC_NODISCARD tc_status tc_lex_ident(tc_lexer *lx, tc_sv *out);
TC_NODISCARD tc_status tc_lex_sigil(tc_lexer *lx, char sigil, tc_sv *out); // without the sigil
TC_NODISCARD tc_status tc_lex_int(tc_lexer *lx, int64_t *out);             // with an optional '-'
TC_NODISCARD tc_status tc_lex_double(tc_lexer *lx, double *out);           // with an optional '-', ints too; inf, nan
TC_NODISCARD tc_status tc_lex_string(tc_lexer *lx, tc_sv *out);
// An error at the current token.
TC_NODISCARD tc_status tc_lex_error(const tc_lexer *lx, const char *fmt, ...) TC_PRINTF(2, 3);

#endif
