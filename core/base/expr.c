// The expression parser: precedence climbing (Pratt, "Top down operator precedence", 1973) over one table of operators.
//
// Trees are bounded: MAX_NEST for brackets, unary operators and `**`, MAX_DEPTH for the whole tree (a chain a + b + c …
// is a left-deep tree), so that readers may recurse.
#include "core/base/expr.h"

#include <string.h>

#include "core/base/vec.h"

enum { MAX_NEST = 200, MAX_DEPTH = 3000, COMPARE = 3, UNARY = 11, POWER = 12, POSTFIX = 13 };

static const struct {
  const char *text;
  int32_t level;
} OPERATORS[] = {{"||", 1}, {"&&", 2}, {"==", 3}, {"!=", 3}, {"<", 3},  {"<=", 3},    {">", 3},
                 {">=", 3}, {"|", 4},  {"^", 5},  {"&", 6},  {"<<", 7}, {">>", 7},    {"+", 8},
                 {"-", 8},  {"*", 9},  {"/", 9},  {"//", 9}, {"%", 9},  {"**", POWER}};

static int32_t level_of(tc_sv op) {
  for (size_t i = 0; i < sizeof OPERATORS / sizeof *OPERATORS; i++)
    if (OPERATORS[i].text[0] == op.data[0] && tc_sv_is(op, OPERATORS[i].text)) return OPERATORS[i].level;
  return 0;
}

// Nodes carry their depth behind the public part while they are built.
typedef struct node {
  tc_ex ex;
  int32_t depth;
} node;

typedef struct parser {
  tc_lexer *lx;
  int32_t nest;
} parser;

typedef TC_VEC(const tc_ex *) ex_list;
typedef TC_VEC(tc_sv) name_list;

static tc_status expr_at(parser *p, int32_t level, tc_ex **out);

static tc_ex *make(const parser *p, int32_t kind, const tc_token *at) {
  tc_ex *e = &TC_NEW(p->lx->arena, node)->ex;
  e->kind = kind;
  e->line = at->line;
  e->column = at->column;
  return e;
}

static tc_status set_kids(const parser *p, tc_ex *e, const tc_ex *const *kids, int32_t n) {
  e->kids = tc_arena_copy(p->lx->arena, kids, sizeof *kids * (size_t)n);
  e->n = n;
  int32_t depth = 0;
  for (int32_t i = 0; i < n; i++)
    if (((const node *)kids[i])->depth > depth) depth = ((const node *)kids[i])->depth;
  if (depth >= MAX_DEPTH) return tc_lex_error(p->lx, "the expression is too deep (more than %d levels)", MAX_DEPTH);
  ((node *)e)->depth = depth + 1;
  return TC_OK;
}

// Where an operator may stand, "%8" and "^x" are an operator and its operand, not a name with a sigil.
static void split_sigil(tc_lexer *lx) {
  if (lx->tok.kind != TC_TOK_SIGIL || lx->tok.text.data[0] == '@') return;
  lx->tok.kind = TC_TOK_PUNCT;
  lx->tok.text.size = 1;
  lx->pos = (size_t)(lx->tok.text.data - lx->text.data) + 1;
}

// Behind a dot, "0.1" is two member numbers.
static void split_float(tc_lexer *lx) {
  if (lx->tok.kind != TC_TOK_FLOAT) return;
  tc_sv head, text = lx->tok.text;
  tc_sv_cut(text, '.', &head);
  int64_t v;
  if (head.size == text.size || !tc_sv_to_int(head, &v)) return;
  lx->pos = (size_t)(text.data - lx->text.data) + head.size;
  lx->tok.kind = TC_TOK_INT;
  lx->tok.text = head;
  lx->tok.integer = v;
}

// A member's number: it is read again behind a '.', where 0x8 and what follows would be one number.
static bool is_decimal(tc_sv text) {
  for (size_t i = 0; i < text.size; i++)
    if (text.data[i] < '0' || text.data[i] > '9') return false;
  return true;
}

static tc_status nested(parser *p, int32_t level, tc_ex **out) {
  if (p->nest >= MAX_NEST)
    return tc_lex_error(p->lx, "the expression is nested too deep (more than %d levels)", MAX_NEST);
  p->nest++;
  tc_status st = expr_at(p, level, out);
  p->nest--;
  return st;
}

// Arguments up to `close`, behind the opening bracket; names only in calls.
static tc_status list(parser *p, const char *close, ex_list *items, name_list *names) {
  tc_lexer *lx = p->lx;
  while (!tc_lex_at(lx, close)) {
    tc_sv name = {0};
    if (names && lx->tok.kind == TC_TOK_IDENT) {
      tc_lexer look = *lx;
      tc_lex_next(&look);
      if (tc_lex_at(&look, "=")) {
        name = lx->tok.text;
        tc_lex_next(&look);
        *lx = look;
      }
    }
    tc_ex *item = NULL;
    TC_TRY(nested(p, 1, &item));
    tc_vec_push(lx->arena, items, item);
    if (names) tc_vec_push(lx->arena, names, name);
    if (!tc_lex_eat(lx, ",")) break;
  }
  return tc_lex_expect(lx, close);
}

// IDENT { '::' IDENT }, as one text.
static tc_status name(parser *p, tc_ex *e) {
  tc_lexer *lx = p->lx;
  e->text = lx->tok.text;
  tc_lex_next(lx);
  while (tc_lex_eat(lx, "::")) {
    tc_sv part = {0};
    TC_TRY(tc_lex_ident(lx, &part));
    e->text = tc_sv_printf(lx->arena, TC_SV_FMT "::" TC_SV_FMT, TC_SV_ARG(e->text), TC_SV_ARG(part));
  }
  return TC_OK;
}

static tc_status primary(parser *p, tc_ex **out) {
  tc_lexer *lx = p->lx;
  tc_token t = lx->tok;
  tc_ex *e = NULL;
  switch (t.kind) {
  case TC_TOK_INT:
    if (t.integer == INT64_MIN && t.text.data[0] == '9')
      return tc_lex_error(lx, "the integer does not fit into 64 bits");
    e = make(p, TC_EX_INT, &t);
    e->integer = t.integer;
    e->real = t.real;
    break;
  case TC_TOK_FLOAT:
    e = make(p, TC_EX_FLOAT, &t);
    e->real = t.real;
    break;
  case TC_TOK_STRING:
    e = make(p, TC_EX_STRING, &t);
    e->text = t.text;
    break;
  case TC_TOK_IDENT:
    if (tc_lex_at(lx, "true") || tc_lex_at(lx, "false")) {
      e = make(p, TC_EX_BOOL, &t);
      e->integer = tc_lex_at(lx, "true");
    } else if (tc_lex_at(lx, "none")) {
      e = make(p, TC_EX_NONE, &t);
    } else if (tc_lex_at(lx, "inf") || tc_lex_at(lx, "nan")) {
      e = make(p, TC_EX_FLOAT, &t);
      e->real = tc_lex_at(lx, "inf") ? (double)__builtin_inf() : (double)__builtin_nan("");
    } else {
      *out = make(p, TC_EX_NAME, &t);
      return name(p, *out);
    }
    break;
  default:
    if (tc_lex_eat(lx, "(")) {
      TC_TRY(nested(p, 1, out));
      return tc_lex_expect(lx, ")");
    }
    if (tc_lex_eat(lx, "[")) {
      ex_list items = {0};
      TC_TRY(list(p, "]", &items, NULL));
      *out = make(p, TC_EX_LIST, &t);
      return set_kids(p, *out, items.data, items.count);
    }
    if (t.kind == TC_TOK_END) return tc_lex_error(lx, "expected an expression, found the end of the text");
    return tc_lex_error(lx, "expected an expression, found '%.*s'", (int)(t.text.size < 40 ? t.text.size : 40),
                        t.text.data);
  }
  tc_lex_next(lx);
  *out = e;
  return TC_OK;
}

static tc_status postfix(parser *p, tc_ex **out) {
  tc_lexer *lx = p->lx;
  TC_TRY(primary(p, out));
  for (;;) {
    tc_token t = lx->tok;
    tc_ex *e = NULL;
    if (!tc_lex_at(lx, ".") && !tc_lex_at(lx, "(") && !tc_lex_at(lx, "[")) return TC_OK;
    ex_list items = {0};
    tc_vec_push(lx->arena, &items, *out);
    if (tc_lex_eat(lx, ".")) {
      split_float(lx);
      if (lx->tok.kind != TC_TOK_IDENT && (lx->tok.kind != TC_TOK_INT || !is_decimal(lx->tok.text)))
        return tc_lex_error(lx, "expected a name or a number behind '.'");
      e = make(p, TC_EX_MEMBER, &t);
      e->text = lx->tok.text;
      tc_lex_next(lx);
    } else if (tc_lex_eat(lx, "(")) {
      name_list names = {0};
      tc_vec_push(lx->arena, &names, (tc_sv){0});
      TC_TRY(list(p, ")", &items, &names));
      e = make(p, TC_EX_CALL, &t);
      e->names = names.data;
    } else {
      tc_lex_next(lx);
      TC_TRY(list(p, "]", &items, NULL));
      if (items.count < 2) return tc_lex_error(lx, "an index must not be empty");
      e = make(p, TC_EX_INDEX, &t);
    }
    TC_TRY(set_kids(p, e, items.data, items.count));
    *out = e;
  }
}

static tc_status unary(parser *p, tc_ex **out) {
  tc_lexer *lx = p->lx;
  tc_token t = lx->tok;
  if (!tc_lex_at(lx, "-") && !tc_lex_at(lx, "!") && !tc_lex_at(lx, "~")) return postfix(p, out);
  tc_lex_next(lx);
  if (t.text.data[0] == '-' && lx->tok.kind == TC_TOK_INT && lx->tok.integer == INT64_MIN &&
      lx->tok.text.data[0] == '9') {
    *out = make(p, TC_EX_INT, &t);
    (*out)->integer = INT64_MIN;
    (*out)->real = (double)INT64_MIN;
    tc_lex_next(lx);
    return TC_OK;
  }
  tc_ex *kid = NULL;
  TC_TRY(nested(p, UNARY, &kid));
  *out = make(p, TC_EX_UNARY, &t);
  (*out)->text = t.text;
  const tc_ex *kids[] = {kid};
  return set_kids(p, *out, kids, 1);
}

static tc_status expr_at(parser *p, int32_t level, tc_ex **out) {
  tc_lexer *lx = p->lx;
  TC_TRY(unary(p, out));
  bool compared = false;
  for (;;) {
    split_sigil(lx);
    tc_token t = lx->tok;
    int32_t op = t.kind == TC_TOK_PUNCT ? level_of(t.text) : 0;
    if (op == 0 || op < level) return TC_OK;
    if (op == COMPARE && compared) return tc_lex_error(lx, "comparisons do not chain: write a < b && b < c");
    compared = op == COMPARE;
    tc_lex_next(lx);
    tc_ex *right = NULL;
    TC_TRY(nested(p, op == POWER ? UNARY : op + 1, &right));
    tc_ex *e = make(p, TC_EX_BINARY, &t);
    e->text = t.text;
    const tc_ex *kids[] = {*out, right};
    TC_TRY(set_kids(p, e, kids, 2));
    *out = e;
  }
}

tc_status tc_ex_parse(tc_lexer *lx, const tc_ex **out) {
  parser p = {lx, 0};
  tc_ex *e = NULL;
  TC_TRY(expr_at(&p, 1, &e));
  *out = e;
  return TC_OK;
}

typedef struct program_text {
  tc_arena *arena;
  tc_lexer lx;
  TC_VEC(tc_ex_let) lets;
  ex_list results;
  name_list labels;
} program_text;

static tc_status parse_lets(program_text *p) {
  tc_lexer *lx = &p->lx;
  while (tc_lex_eat(lx, "let")) {
    name_list names = {0};
    do {
      tc_sv name;
      TC_TRY(tc_lex_ident(lx, &name));
      tc_vec_push(p->arena, &names, name);
    } while (tc_lex_eat(lx, ","));
    TC_TRY(tc_lex_expect(lx, "="));
    const tc_ex *value = NULL;
    TC_TRY(tc_ex_parse(lx, &value));
    TC_TRY(tc_lex_expect(lx, ";"));
    tc_vec_push(p->arena, &p->lets, ((tc_ex_let){names.data, names.count, value}));
  }
  return TC_OK;
}

static tc_status end_program(program_text *p, tc_ex_program *out) {
  if (p->lx.tok.kind != TC_TOK_END) return tc_lex_error(&p->lx, "expected the end of the text behind the expression");
  *out = (tc_ex_program){p->lets.data, p->lets.count, p->results.data, p->results.count, false};
  return TC_OK;
}

tc_status tc_ex_parse_program(tc_arena *arena, tc_sv source, tc_sv text, tc_ex_program *out) {
  program_text p = {.arena = arena};
  tc_lex_init(&p.lx, arena, source, text);
  TC_TRY(parse_lets(&p));
  do {
    const tc_ex *e = NULL;
    TC_TRY(tc_ex_parse(&p.lx, &e));
    tc_vec_push(arena, &p.results, e);
  } while (tc_lex_eat(&p.lx, ","));
  return end_program(&p, out);
}

tc_status tc_ex_parse_labelled(tc_arena *arena, tc_sv source, tc_sv text, tc_ex_program *out,
                               const tc_sv **out_labels) {
  program_text p = {.arena = arena};
  tc_lex_init(&p.lx, arena, source, text);
  TC_TRY(parse_lets(&p));
  do {
    const tc_ex *e = NULL;
    tc_sv label;
    TC_TRY(tc_lex_ident(&p.lx, &label));
    TC_TRY(tc_lex_expect(&p.lx, ":"));
    TC_TRY(tc_ex_parse(&p.lx, &e));
    tc_vec_push(arena, &p.labels, label);
    tc_vec_push(arena, &p.results, e);
  } while (tc_lex_eat(&p.lx, ";"));
  *out_labels = p.labels.data;
  TC_TRY(end_program(&p, out));
  out->lazy = true;
  return TC_OK;
}

static int32_t level_of_node(const tc_ex *e) {
  switch (e->kind) {
  case TC_EX_BINARY: return level_of(e->text);
  case TC_EX_UNARY: return UNARY;
  case TC_EX_INT: return e->integer < 0 ? UNARY : POSTFIX;
  case TC_EX_FLOAT: return __builtin_signbit(e->real) ? UNARY : POSTFIX;
  default: return POSTFIX;
  }
}

static void print(tc_sb *sb, const tc_ex *e, int32_t level);

static void print_list(tc_sb *sb, const tc_ex *e, int32_t from) {
  for (int32_t i = from; i < e->n; i++) {
    if (i > from) tc_sb_putz(sb, ", ");
    if (e->kind == TC_EX_CALL && e->names && e->names[i].size) {
      tc_sb_put(sb, e->names[i]);
      tc_sb_putc(sb, '=');
    }
    print(sb, e->kids[i], 1);
  }
}

// Prints with brackets if the node binds weaker than `level`.
static void print(tc_sb *sb, const tc_ex *e, int32_t level) {
  int32_t own = level_of_node(e);
  bool brackets = own < level;
  if (brackets) tc_sb_putc(sb, '(');
  switch (e->kind) {
  case TC_EX_INT: tc_sb_int(sb, e->integer); break;
  case TC_EX_FLOAT: tc_sb_double(sb, e->real); break;
  case TC_EX_STRING: tc_sb_quoted(sb, e->text); break;
  case TC_EX_BOOL: tc_sb_putz(sb, e->integer ? "true" : "false"); break;
  case TC_EX_NONE: tc_sb_putz(sb, "none"); break;
  case TC_EX_NAME: tc_sb_put(sb, e->text); break;
  case TC_EX_MEMBER: {
    // "1.size" would do, but "1.0" would be a float.
    const tc_ex *of = e->kids[0];
    print(sb, of, of->kind == TC_EX_INT || of->kind == TC_EX_FLOAT ? POSTFIX + 1 : POSTFIX);
    tc_sb_putc(sb, '.');
    tc_sb_put(sb, e->text);
    break;
  }
  case TC_EX_CALL:
    print(sb, e->kids[0], POSTFIX);
    tc_sb_putc(sb, '(');
    print_list(sb, e, 1);
    tc_sb_putc(sb, ')');
    break;
  case TC_EX_INDEX:
    print(sb, e->kids[0], POSTFIX);
    tc_sb_putc(sb, '[');
    print_list(sb, e, 1);
    tc_sb_putc(sb, ']');
    break;
  case TC_EX_LIST:
    tc_sb_putc(sb, '[');
    print_list(sb, e, 0);
    tc_sb_putc(sb, ']');
    break;
  case TC_EX_UNARY:
    tc_sb_put(sb, e->text);
    print(sb, e->kids[0], UNARY);
    break;
  default: {
    bool power = own == POWER;
    print(sb, e->kids[0], power ? POSTFIX : own == COMPARE ? own + 1 : own);
    if (!power) tc_sb_putc(sb, ' ');
    tc_sb_put(sb, e->text);
    if (!power) tc_sb_putc(sb, ' ');
    print(sb, e->kids[1], power ? UNARY : own + 1);
  }
  }
  if (brackets) tc_sb_putc(sb, ')');
}

void tc_ex_print(tc_sb *sb, const tc_ex *e) { print(sb, e, 1); }
