// Symbolic expressions from trees of the expression parser. Operators and functions are tables; what a name, member or
// call means beyond them is asked from a resolver, so that "out.numel * weight.size(1)" is read by the same code.
#include "core/symbolic/internal.h"

enum { ARGUMENTS = 32 };

typedef const tc_sym *(*binary_fn)(tc_sym_ctx *c, const tc_sym *a, const tc_sym *b);

static const tc_sym *eq(tc_sym_ctx *c, const tc_sym *a, const tc_sym *b) { return tc_sym_cmp(c, TC_SYM_EQ, a, b); }
static const tc_sym *ne(tc_sym_ctx *c, const tc_sym *a, const tc_sym *b) { return tc_sym_cmp(c, TC_SYM_NE, a, b); }
static const tc_sym *lt(tc_sym_ctx *c, const tc_sym *a, const tc_sym *b) { return tc_sym_cmp(c, TC_SYM_LT, a, b); }
static const tc_sym *le(tc_sym_ctx *c, const tc_sym *a, const tc_sym *b) { return tc_sym_cmp(c, TC_SYM_LE, a, b); }
static const tc_sym *gt(tc_sym_ctx *c, const tc_sym *a, const tc_sym *b) { return tc_sym_cmp(c, TC_SYM_LT, b, a); }
static const tc_sym *ge(tc_sym_ctx *c, const tc_sym *a, const tc_sym *b) { return tc_sym_cmp(c, TC_SYM_LE, b, a); }
static const tc_sym *shift_left(tc_sym_ctx *c, const tc_sym *a, const tc_sym *b) {
  return tc_sym_mul(c, a, tc_sym_pow(c, tc_sym_int(c, 2), b));
}
static const tc_sym *shift_right(tc_sym_ctx *c, const tc_sym *a, const tc_sym *b) {
  return tc_sym_floordiv(c, a, tc_sym_pow(c, tc_sym_int(c, 2), b));
}

static const struct {
  const char *op;
  binary_fn fn;
} OPERATORS[] = {{"+", tc_sym_add},  {"-", tc_sym_sub},  {"*", tc_sym_mul},  {"//", tc_sym_floordiv},
                 {"%", tc_sym_mod},  {"**", tc_sym_pow}, {"==", eq},         {"!=", ne},
                 {"<", lt},          {"<=", le},         {">", gt},          {">=", ge},
                 {"&&", tc_sym_and}, {"||", tc_sym_or},  {"<<", shift_left}, {">>", shift_right}};

static const struct {
  const char *name;
  binary_fn fn;
  bool folds; // any number of arguments, from left to right
} FUNCTIONS[] = {{"Add", tc_sym_add, true},
                 {"Mul", tc_sym_mul, true},
                 {"Min", tc_sym_min, true},
                 {"Max", tc_sym_max, true},
                 {"And", tc_sym_and, true},
                 {"Or", tc_sym_or, true},
                 {"Mod", tc_sym_mod, false},
                 {"PythonMod", tc_sym_mod, false},
                 {"FloorDiv", tc_sym_floordiv, false},
                 {"CleanDiv", tc_sym_floordiv, false},
                 {"CeilDiv", tc_sym_ceildiv, false},
                 {"Pow", tc_sym_pow, false},
                 {"PowByNatural", tc_sym_pow, false},
                 {"LShift", shift_left, false},
                 {"RShift", shift_right, false},
                 {"Eq", eq, false},
                 {"Ne", ne, false},
                 {"Lt", lt, false},
                 {"Le", le, false},
                 {"Gt", gt, false},
                 {"Ge", ge, false},
                 {"Equality", eq, false},
                 {"Unequality", ne, false},
                 {"StrictLessThan", lt, false},
                 {"LessThan", le, false},
                 {"StrictGreaterThan", gt, false},
                 {"GreaterThan", ge, false},
                 {"min", tc_sym_min, true},
                 {"max", tc_sym_max, true},
                 {"mod", tc_sym_mod, false},
                 {"floordiv", tc_sym_floordiv, false},
                 {"ceildiv", tc_sym_ceildiv, false},
                 {"cdiv", tc_sym_ceildiv, false}};

const tc_sym *tc_sym_call(tc_sym_ctx *c, tc_sv name, const tc_sym *const *args, int32_t n, bool *out_known) {
  *out_known = true;
  for (size_t i = 0; i < sizeof FUNCTIONS / sizeof *FUNCTIONS; i++) {
    if (!tc_sv_is(name, FUNCTIONS[i].name)) continue;
    if (n == 0 || (!FUNCTIONS[i].folds && n != 2)) return NULL;
    const tc_sym *r = args[0];
    for (int32_t k = 1; k < n; k++) r = FUNCTIONS[i].fn(c, r, args[k]);
    return r;
  }
  if (tc_sv_is(name, "Where") || tc_sv_is(name, "where"))
    return n == 3 ? tc_sym_where(c, args[0], args[1], args[2]) : NULL;
  if (tc_sv_is(name, "ModularIndexing"))
    return n == 3 ? tc_sym_mod(c, tc_sym_floordiv(c, args[0], args[1]), args[2]) : NULL;
  if (tc_sv_is(name, "Not")) return n == 1 ? tc_sym_not(c, args[0]) : NULL;
  if (tc_sv_is(name, "Identity")) return n == 1 ? args[0] : NULL;
  if (tc_sv_is(name, "Abs") || tc_sv_is(name, "abs"))
    return n == 1 ? tc_sym_max(c, args[0], tc_sym_neg(c, args[0])) : NULL;
  *out_known = false;
  return NULL;
}

typedef struct reader {
  tc_sym_ctx *c;
  tc_lexer *lx; // for messages; may be NULL
  bool make_symbols;
  tc_sym_resolve_fn resolve;
  void *self;
} reader;

static tc_status error_at(const reader *r, const tc_ex *ex, const char *fmt, ...) TC_PRINTF(3, 4);
static tc_status error_at(const reader *r, const tc_ex *ex, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  tc_sb sb = tc_sb_make(r->c->arena);
  tc_sb_vprintf(&sb, fmt, args);
  va_end(args);
  if (!r->lx)
    return tc_error(TC_STATUS_INVALID_ARGUMENT, "%d:%d: " TC_SV_FMT, (int)ex->line, (int)ex->column,
                    TC_SV_ARG(tc_sb_view(&sb)));
  tc_lexer at = *r->lx;
  at.tok = (tc_token){.kind = TC_TOK_PUNCT, .line = ex->line, .column = ex->column};
  return tc_lex_error(&at, TC_SV_FMT, TC_SV_ARG(tc_sb_view(&sb)));
}

static tc_status read(const reader *r, const tc_ex *ex, const tc_sym **out);

static tc_status read_call(const reader *r, const tc_ex *ex, const tc_sym **out) {
  const tc_ex *callee = ex->kids[0];
  if (callee->kind != TC_EX_NAME) return error_at(r, ex, "only a function can be called here");
  if (ex->n - 1 > ARGUMENTS) return error_at(r, ex, "more than %d arguments", ARGUMENTS);
  const tc_sym *args[ARGUMENTS];
  for (int32_t i = 1; i < ex->n; i++) {
    if (ex->names && ex->names[i].size) return error_at(r, ex->kids[i], "symbolic functions have no named arguments");
    TC_TRY(read(r, ex->kids[i], &args[i - 1]));
  }
  bool known;
  *out = tc_sym_call(r->c, callee->text, args, ex->n - 1, &known);
  if (*out) return TC_OK;
  if (known)
    return error_at(r, ex, "'" TC_SV_FMT "' does not take %d arguments", TC_SV_ARG(callee->text), (int)ex->n - 1);
  return error_at(r, ex, "'" TC_SV_FMT "' is not a symbolic function (Mod, Min, Max, Where, CeilDiv, Abs, …)",
                  TC_SV_ARG(callee->text));
}

static tc_status read_name(const reader *r, const tc_ex *ex, const tc_sym **out) {
  tc_map_entry *known = tc_map_find(r->c->by_name, ex->text);
  if (known || r->make_symbols) {
    *out = known ? known->value.ptr : tc_sym_symbol(r->c, ex->text);
    return TC_OK;
  }
  int32_t n = r->c->symbols.count;
  tc_sv *names = TC_NEW_ARRAY(r->c->arena, tc_sv, n + 1);
  for (int32_t i = 0; i < n; i++) names[i] = r->c->symbols.data[i]->sym->name;
  tc_sv near = tc_sv_nearest(ex->text, names, n);
  if (near.size)
    return error_at(r, ex, "unknown symbol '" TC_SV_FMT "'; did you mean '" TC_SV_FMT "'?", TC_SV_ARG(ex->text),
                    TC_SV_ARG(near));
  return error_at(r, ex, "unknown symbol '" TC_SV_FMT "'", TC_SV_ARG(ex->text));
}

static tc_status read(const reader *r, const tc_ex *ex, const tc_sym **out) {
  bool asks = ex->kind == TC_EX_NAME || ex->kind == TC_EX_MEMBER || ex->kind == TC_EX_CALL || ex->kind == TC_EX_INDEX;
  *out = NULL;
  if (asks && r->resolve) {
    TC_TRY(r->resolve(r->self, r->c, ex, out));
    if (*out) return TC_OK;
  }
  switch (ex->kind) {
  case TC_EX_INT:
  case TC_EX_BOOL: *out = tc_sym_int(r->c, ex->integer); return TC_OK;
  case TC_EX_NAME: return read_name(r, ex, out);
  case TC_EX_CALL: return read_call(r, ex, out);
  case TC_EX_UNARY: {
    const tc_sym *a = NULL;
    TC_TRY(read(r, ex->kids[0], &a));
    if (tc_sv_is(ex->text, "-")) *out = tc_sym_neg(r->c, a);
    else if (tc_sv_is(ex->text, "!")) *out = tc_sym_not(r->c, a);
    else return error_at(r, ex, "'" TC_SV_FMT "' has no meaning for sizes", TC_SV_ARG(ex->text));
    return TC_OK;
  }
  case TC_EX_BINARY: {
    const tc_sym *a = NULL, *b = NULL;
    TC_TRY(read(r, ex->kids[0], &a));
    TC_TRY(read(r, ex->kids[1], &b));
    for (size_t i = 0; i < sizeof OPERATORS / sizeof *OPERATORS && !*out; i++)
      if (tc_sv_is(ex->text, OPERATORS[i].op)) *out = OPERATORS[i].fn(r->c, a, b);
    if (*out) return TC_OK;
    if (tc_sv_is(ex->text, "/")) return error_at(r, ex, "sizes are integers: use '//', which rounds down");
    return error_at(r, ex, "'" TC_SV_FMT "' has no meaning for sizes", TC_SV_ARG(ex->text));
  }
  case TC_EX_FLOAT: return error_at(r, ex, "a symbolic expression has no fractions");
  default: return error_at(r, ex, "this has no meaning in a symbolic expression");
  }
}

tc_status tc_sym_from_ex_with(tc_sym_ctx *c, tc_lexer *lx, const tc_ex *ex, bool make_symbols,
                              tc_sym_resolve_fn resolve, void *self, const tc_sym **out) {
  reader r = {c, lx, make_symbols, resolve, self};
  return read(&r, ex, out);
}

tc_status tc_sym_from_ex(tc_sym_ctx *c, tc_lexer *lx, const tc_ex *ex, bool make_symbols, const tc_sym **out) {
  return tc_sym_from_ex_with(c, lx, ex, make_symbols, NULL, NULL, out);
}

tc_status tc_sym_parse(tc_sym_ctx *c, tc_lexer *lx, const tc_sym **out) {
  const tc_ex *ex = NULL;
  TC_TRY(tc_ex_parse(lx, &ex));
  return tc_sym_from_ex(c, lx, ex, true, out);
}
