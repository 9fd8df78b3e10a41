// SymPy's srepr text, as .pt2 archives store it: Name(arg, …), Symbol('s0', positive=True, integer=True), Integer(16),
// Rational(1, 2), Float('2.0', precision=53), true, false. It is read by this grammar and never evaluated as code; text
// length, nesting and argument counts are bounded.
//
// Between its functions a value is a fraction of two integer expressions, so that FloorToInt(IntTrueDiv(s0, 3)) is
// s0 // 3. The result must be an integer: a fraction that comes from a rational coefficient is one by the meaning of
// the file (Mul(Rational(1, 2), s0) is only stored where s0 is even), one that comes from a true division is refused.
#include <math.h>

#include "core/symbolic/internal.h"

enum { MAX_TEXT = 1 << 20, MAX_NEST = 200, ARGUMENTS = 256, BINARY_DIGITS = 20 };

typedef struct value {
  const tc_sym *num, *den; // den ≠ 0
  bool real;               // from floating-point division: not an integer unless rounded
} value;

typedef struct reader {
  tc_sym_ctx *c;
  tc_sv text;
  size_t pos;
  int32_t nest;
} reader;

static tc_status fail(const reader *r, int32_t code, const char *what) {
  size_t from = r->pos > 30 ? r->pos - 30 : 0;
  tc_sv around = tc_sv_sub(r->text, from, r->pos + 30);
  return tc_error(code, "symbolic expression: %s at byte %zu, near \"" TC_SV_FMT "\"", what, r->pos, TC_SV_ARG(around));
}
static tc_status bad(const reader *r, const char *what) { return fail(r, TC_STATUS_INVALID_ARGUMENT, what); }

static char peek(const reader *r) { return r->pos < r->text.size ? r->text.data[r->pos] : '\0'; }
static void blanks(reader *r) {
  while (peek(r) == ' ' || peek(r) == '\t' || peek(r) == '\n' || peek(r) == '\r') r->pos++;
}
static bool eat(reader *r, char c) {
  blanks(r);
  if (peek(r) != c) return false;
  r->pos++;
  return true;
}
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_alpha(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

static tc_sv word(reader *r) {
  blanks(r);
  size_t from = r->pos;
  while (is_alpha(peek(r)) || is_digit(peek(r))) r->pos++;
  return tc_sv_sub(r->text, from, r->pos);
}

static tc_status quoted(reader *r, tc_sv *out) {
  blanks(r);
  char q = peek(r);
  if (q != '\'' && q != '"') return bad(r, "expected a quoted name");
  size_t from = ++r->pos;
  while (r->pos < r->text.size && peek(r) != q && peek(r) != '\\') r->pos++;
  if (peek(r) != q) return bad(r, "the quoted text is not closed");
  *out = tc_sv_sub(r->text, from, r->pos++);
  return TC_OK;
}

static tc_status integer(reader *r, int64_t *out) {
  blanks(r);
  size_t from = r->pos;
  if (peek(r) == '-') r->pos++;
  while (is_digit(peek(r))) r->pos++;
  if (!tc_sv_to_int(tc_sv_sub(r->text, from, r->pos), out)) return bad(r, "expected an integer of 64 bits");
  return TC_OK;
}

static value whole(const reader *r, const tc_sym *e) { return (value){e, tc_sym_int(r->c, 1), false}; }

// ---- atoms

static bool is_name(tc_sv s) {
  if (s.size == 0 || s.size > 200 || !is_alpha(s.data[0])) return false;
  for (size_t i = 0; i < s.size; i++)
    if (!is_alpha(s.data[i]) && !is_digit(s.data[i])) return false;
  return true;
}

// Behind "Symbol(": 'name' { , keyword = word }.
static tc_status symbol(reader *r, value *out) {
  tc_sv name;
  TC_TRY(quoted(r, &name));
  if (!is_name(name)) return bad(r, "a symbol's name must be an identifier");
  const tc_sym *s = tc_sym_symbol(r->c, name);
  int64_t lo = -TC_SYM_INF;
  while (eat(r, ',')) {
    tc_sv key = word(r);
    if (!is_name(key) || !eat(r, '=')) return bad(r, "expected keyword=True");
    tc_sv flag = word(r);
    if (!tc_sv_is(flag, "True") && !tc_sv_is(flag, "False")) return bad(r, "expected True or False");
    if (!tc_sv_is(flag, "True")) continue;
    if (tc_sv_is(key, "positive")) lo = 1;
    else if (tc_sv_is(key, "nonnegative") && lo < 0) lo = 0;
  }
  if (lo > -TC_SYM_INF) {
    tc_sym_info *info = tc_sym_info_of(r->c, s);
    if (info->lo < lo) info->lo = lo;
  }
  *out = whole(r, s);
  return eat(r, ')') ? TC_OK : bad(r, "expected ')'");
}

static tc_status rational(reader *r, value *out) {
  int64_t p, q;
  TC_TRY(integer(r, &p));
  if (!eat(r, ',')) return bad(r, "expected ','");
  TC_TRY(integer(r, &q));
  if (q <= 0) return bad(r, "a rational number needs a positive denominator");
  *out = (value){tc_sym_int(r->c, p), tc_sym_int(r->c, q), false};
  return eat(r, ')') ? TC_OK : bad(r, "expected ')'");
}

// Floats with few binary digits behind the point are exact fractions.
static tc_status floating(reader *r, value *out) {
  tc_sv text;
  double v;
  TC_TRY(quoted(r, &text));
  if (!tc_sv_to_double(text, &v) || !isfinite(v)) return bad(r, "expected a finite number");
  while (eat(r, ',')) {
    tc_sv key = word(r);
    int64_t precision;
    if (!is_name(key) || !eat(r, '=')) return bad(r, "expected precision=…");
    TC_TRY(integer(r, &precision));
  }
  double scaled = ldexp(v, BINARY_DIGITS);
  if (fabs(scaled) > 0x1p53 || scaled != floor(scaled))
    return fail(r, TC_STATUS_UNIMPLEMENTED, "a floating-point factor that is no short binary fraction");
  int64_t num = (int64_t)scaled, den = (int64_t)1 << BINARY_DIGITS, g = tc_sym_gcd(num, den);
  *out = (value){tc_sym_int(r->c, num / g), tc_sym_int(r->c, den / g), den / g != 1};
  return eat(r, ')') ? TC_OK : bad(r, "expected ')'");
}

// ---- functions

static bool is_whole(value v) { return tc_sym_is_int(v.den, 1); }

static value divide(const reader *r, value a, value b, bool real) {
  tc_sym_ctx *c = r->c;
  const tc_sym *num = tc_sym_mul(c, a.num, b.den), *den = tc_sym_mul(c, a.den, b.num);
  if (den->kind == TC_SYM_CONST && den->value < 0) {
    num = tc_sym_neg(c, num);
    den = tc_sym_neg(c, den);
  }
  const tc_sym *exact = tc_sym_exact_sum(c, num, den);
  if (exact) return whole(r, exact);
  return (value){num, den, real || a.real || b.real};
}

static value product(const reader *r, value a, value b) {
  value inverse = {b.den, b.num, b.real};
  return is_whole(a) && is_whole(b) ? whole(r, tc_sym_mul(r->c, a.num, b.num)) : divide(r, a, inverse, false);
}

static value sum(const reader *r, value a, value b) {
  tc_sym_ctx *c = r->c;
  const tc_sym *num = tc_sym_add(c, tc_sym_mul(c, a.num, b.den), tc_sym_mul(c, b.num, a.den));
  value v = {num, tc_sym_mul(c, a.den, b.den), a.real || b.real};
  return divide(r, v, whole(r, tc_sym_int(c, 1)), false);
}

static tc_status power(const reader *r, value a, value b, value *out) {
  tc_sym_ctx *c = r->c;
  if (!is_whole(b)) return fail(r, TC_STATUS_UNIMPLEMENTED, "a fractional exponent");
  if (b.num->kind == TC_SYM_CONST && b.num->value < 0 && b.num->value > INT64_MIN) {
    const tc_sym *k = tc_sym_int(c, -b.num->value);
    *out =
        divide(r, (value){tc_sym_pow(c, a.den, k), tc_sym_int(c, 1), a.real}, whole(r, tc_sym_pow(c, a.num, k)), false);
  } else {
    value num = whole(r, tc_sym_pow(c, a.num, b.num)), den = whole(r, tc_sym_pow(c, a.den, b.num));
    *out = is_whole(a) ? num : divide(r, num, den, a.real);
  }
  return TC_OK;
}

enum { FLOOR, CEIL, TRUNC, KEEP };
static const struct {
  const char *name;
  int32_t how;
} ROUNDINGS[] = {{"FloorToInt", FLOOR}, {"floor", FLOOR},        {"CeilToInt", CEIL}, {"ceiling", CEIL},
                 {"TruncToInt", TRUNC}, {"TruncToFloat", TRUNC}, {"ToFloat", KEEP},   {"Identity", KEEP}};

static const tc_sym *rounded(tc_sym_ctx *c, value v, int32_t how) {
  const tc_sym *down = tc_sym_floordiv(c, v.num, v.den);
  if (how == FLOOR || is_whole(v)) return down;
  const tc_sym *up = tc_sym_interval(c, v.den).lo >= 0 ? tc_sym_ceildiv(c, v.num, v.den)
                                                       : tc_sym_neg(c, tc_sym_floordiv(c, tc_sym_neg(c, v.num), v.den));
  if (how == CEIL) return up;
  // Towards zero: the sign of the quotient is that of num · den.
  const tc_sym *sign = tc_sym_mul(c, v.num, v.den);
  return tc_sym_where(c, tc_sym_cmp(c, TC_SYM_LE, tc_sym_int(c, 0), sign), down, up);
}

static tc_status to_integer(const reader *r, value v, const tc_sym **out) {
  if (!is_whole(v) && v.real) return fail(r, TC_STATUS_UNIMPLEMENTED, "a value that is not an integer (true division)");
  *out = is_whole(v) ? v.num : tc_sym_floordiv(r->c, v.num, v.den);
  return TC_OK;
}

static bool is_comparison(tc_sv name) {
  static const char *const names[] = {"Equality", "Unequality",  "StrictLessThan",
                                      "LessThan", "GreaterThan", "StrictGreaterThan",
                                      "Eq",       "Ne",          "Lt",
                                      "Le",       "Gt",          "Ge"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (tc_sv_is(name, names[i])) return true;
  return false;
}

static tc_status call(reader *r, tc_sv name, const value *v, int32_t n, value *out) {
  tc_sym_ctx *c = r->c;
  if (n > 0 && (tc_sv_is(name, "Add") || tc_sv_is(name, "Mul"))) {
    value acc = v[0];
    for (int32_t i = 1; i < n; i++) acc = name.data[0] == 'A' ? sum(r, acc, v[i]) : product(r, acc, v[i]);
    *out = acc;
    return TC_OK;
  }
  if (n == 2 && (tc_sv_is(name, "IntTrueDiv") || tc_sv_is(name, "FloatTrueDiv"))) {
    if (tc_sym_is_int(v[1].num, 0)) return bad(r, "division by zero");
    *out = divide(r, v[0], v[1], true);
    return TC_OK;
  }
  if (n == 2 && (tc_sv_is(name, "Pow") || tc_sv_is(name, "PowByNatural") || tc_sv_is(name, "FloatPow"))) {
    if (tc_sym_is_int(v[0].num, 0) && v[1].num->kind == TC_SYM_CONST && v[1].num->value < 0)
      return bad(r, "division by zero");
    return power(r, v[0], v[1], out);
  }
  for (size_t i = 0; n == 1 && i < sizeof ROUNDINGS / sizeof *ROUNDINGS; i++) {
    if (!tc_sv_is(name, ROUNDINGS[i].name)) continue;
    *out = ROUNDINGS[i].how == KEEP ? v[0] : whole(r, rounded(c, v[0], ROUNDINGS[i].how));
    return TC_OK;
  }
  const tc_sym *args[ARGUMENTS];
  bool compares = n == 2 && is_comparison(name);
  if (compares && !(is_whole(v[0]) && is_whole(v[1]))) { // with positive denominators, cross-multiplied
    if (tc_sym_interval(c, v[0].den).lo < 0 || tc_sym_interval(c, v[1].den).lo < 0)
      return fail(r, TC_STATUS_UNIMPLEMENTED, "a comparison of fractions with denominators of unknown sign");
    args[0] = tc_sym_mul(c, v[0].num, v[1].den);
    args[1] = tc_sym_mul(c, v[1].num, v[0].den);
  } else {
    for (int32_t i = 0; i < n; i++) TC_TRY(to_integer(r, v[i], &args[i]));
  }
  bool known;
  const tc_sym *e = tc_sym_call(c, name, args, n, &known);
  if (e) {
    *out = whole(r, e);
    return TC_OK;
  }
  const char *message =
      tc_sv_printf(c->arena, "function '" TC_SV_FMT "' with %d arguments", TC_SV_ARG(name), (int)n).data;
  return fail(r, TC_STATUS_UNIMPLEMENTED, message);
}

static tc_status read(reader *r, value *out);

// Behind "Piecewise(": ExprCondPair(value, condition) or Tuple(…) or (…), the last with condition true.
static tc_status piecewise(reader *r, value *out) {
  const tc_sym *values[ARGUMENTS], *conditions[ARGUMENTS];
  int32_t n = 0;
  do {
    tc_sv pair = word(r);
    if (pair.size && !tc_sv_is(pair, "ExprCondPair") && !tc_sv_is(pair, "Tuple")) return bad(r, "expected a pair");
    value v, t;
    if (n == ARGUMENTS) return bad(r, "too many cases");
    if (!eat(r, '(')) return bad(r, "expected '('");
    TC_TRY(read(r, &v));
    if (!eat(r, ',')) return bad(r, "expected ','");
    TC_TRY(read(r, &t));
    if (!eat(r, ')')) return bad(r, "expected ')'");
    TC_TRY(to_integer(r, v, &values[n]));
    TC_TRY(to_integer(r, t, &conditions[n++]));
  } while (eat(r, ','));
  if (!eat(r, ')')) return bad(r, "expected ')'");
  if (!tc_sym_is_int(conditions[n - 1], 1)) return bad(r, "the last case must hold always");
  const tc_sym *e = values[n - 1];
  for (int32_t i = n - 2; i >= 0; i--) e = tc_sym_where(r->c, conditions[i], values[i], e);
  *out = whole(r, e);
  return TC_OK;
}

static tc_status arguments(reader *r, tc_sv name, value *out) {
  value few[16], *args = few;
  int32_t n = 0;
  if (!eat(r, ')')) {
    do {
      if (n == ARGUMENTS) return bad(r, "too many arguments");
      if (n == 16) {
        value *more = TC_NEW_ARRAY(r->c->arena, value, ARGUMENTS);
        for (int32_t i = 0; i < n; i++) more[i] = few[i];
        args = more;
      }
      TC_TRY(read(r, &args[n]));
      n++;
    } while (eat(r, ','));
    if (!eat(r, ')')) return bad(r, "expected ',' or ')'");
  }
  return call(r, name, args, n, out);
}

static tc_status read(reader *r, value *out) {
  blanks(r);
  if (is_digit(peek(r)) || peek(r) == '-') {
    int64_t v;
    TC_TRY(integer(r, &v));
    *out = whole(r, tc_sym_int(r->c, v));
    return TC_OK;
  }
  tc_sv name = word(r);
  if (!is_name(name)) return bad(r, "expected a function, a symbol or an integer");
  if (!eat(r, '(')) {
    bool yes = tc_sv_is(name, "true") || tc_sv_is(name, "True"),
         no = tc_sv_is(name, "false") || tc_sv_is(name, "False");
    *out = whole(r, yes || no ? tc_sym_int(r->c, yes) : tc_sym_symbol(r->c, name));
    return TC_OK;
  }
  if (tc_sv_is(name, "Symbol") || tc_sv_is(name, "Dummy")) return symbol(r, out);
  if (tc_sv_is(name, "Rational")) return rational(r, out);
  if (tc_sv_is(name, "Float")) return floating(r, out);
  if (tc_sv_is(name, "Integer")) {
    int64_t v;
    TC_TRY(integer(r, &v));
    *out = whole(r, tc_sym_int(r->c, v));
    return eat(r, ')') ? TC_OK : bad(r, "expected ')'");
  }
  if (r->nest >= MAX_NEST) return bad(r, "nested too deep");
  r->nest++;
  tc_status st = tc_sv_is(name, "Piecewise") ? piecewise(r, out) : arguments(r, name, out);
  r->nest--;
  return st;
}

static bool contains(tc_sv text, const char *z) {
  tc_sv want = tc_sv_of(z);
  for (size_t i = 0; i + want.size <= text.size; i++)
    if (tc_sv_eq(tc_sv_sub(text, i, i + want.size), want)) return true;
  return false;
}

tc_status tc_sym_parse_srepr(tc_sym_ctx *c, tc_sv text, const tc_sym **out) {
  if (text.size > MAX_TEXT)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "symbolic expression of %zu bytes (more than %d)", text.size, MAX_TEXT);
  // SymPy's str() form ("4*s0 + 1", bare names), which older archives hold and range constraints use as keys.
  if (!contains(text, "Symbol(") && !contains(text, "Integer(") && !contains(text, "Rational(")) {
    tc_lexer lx;
    tc_lex_init(&lx, c->arena, TC_SV("symbolic expression"), text);
    TC_TRY(tc_sym_parse(c, &lx, out));
    if (lx.tok.kind != TC_TOK_END) return tc_lex_error(&lx, "expected the end of the expression");
    return TC_OK;
  }
  reader r = {.c = c, .text = text};
  value v;
  TC_TRY(read(&r, &v));
  blanks(&r);
  if (r.pos != text.size) return bad(&r, "text behind the expression");
  return to_integer(&r, v, out);
}
