// Text of an expression. Brackets are such that tc_sym_parse, which builds with the public operations, arrives at the
// same node: products are read from left to right, sums term by term; raw nodes (context: overflow, size) stand in
// brackets of their own, so that their operands meet again as they did.
#include "core/symbolic/internal.h"

// Binding strength, as in the expression parser.
enum { MAX_NODES = 1 << 20 }; // text does not share: beyond, it shows "..." in place of the expression
enum { OR = 1, AND, COMPARE, SUM = 8, PRODUCT, FACTOR, UNARY, POWER, PRIMARY };

static void print(tc_sb *sb, const tc_sym *e, int32_t level);

static int32_t level_of(const tc_sym *e) {
  switch (e->kind) {
  case TC_SYM_CONST: return e->value < 0 ? UNARY : PRIMARY;
  case TC_SYM_ADD: return SUM;
  case TC_SYM_MUL:
  case TC_SYM_FLOORDIV: return PRODUCT;
  case TC_SYM_POW: return POWER;
  case TC_SYM_EQ:
  case TC_SYM_NE:
  case TC_SYM_LT:
  case TC_SYM_LE: return COMPARE;
  case TC_SYM_AND: return AND;
  case TC_SYM_OR: return OR;
  case TC_SYM_NOT: return UNARY;
  default: return PRIMARY;
  }
}

static void infix(tc_sb *sb, const tc_sym *e, const char *op, int32_t left, int32_t right) {
  print(sb, e->kids[0], left);
  for (int32_t i = 1; i < e->n; i++) {
    tc_sb_putz(sb, op);
    print(sb, e->kids[i], right);
  }
}

static void call(tc_sb *sb, const tc_sym *e, const char *name) {
  tc_sb_putz(sb, name);
  for (int32_t i = 0; i < e->n; i++) {
    tc_sb_putz(sb, i ? ", " : "(");
    print(sb, e->kids[i], OR);
  }
  tc_sb_putc(sb, ')');
}

// A term without its sign: "4*s0", "s0//8".
static void print_magnitude(tc_sb *sb, const tc_sym *t, int32_t level) {
  int64_t k = nd(t)->coeff;
  if (k < 0) k = -k;
  const tc_sym *unit = nd(t)->unit;
  bool product = unit->kind == TC_SYM_MUL && !nd(unit)->raw;
  if (k != 1) {
    tc_sb_int(sb, k);
    tc_sb_putc(sb, '*');
  }
  if (product) infix(sb, unit, "*", FACTOR, FACTOR);
  else print(sb, unit, k != 1 ? FACTOR : level);
}

static void print_sum(tc_sb *sb, const tc_sym *e) {
  terms t;
  tc_sym_terms(e, &t);
  for (int32_t i = 0; i < t.n; i++) {
    bool minus = nd(t.kids[i])->coeff < 0;
    if (i) tc_sb_putz(sb, minus ? " - " : " + ");
    else if (minus) tc_sb_putc(sb, '-');
    print_magnitude(sb, t.kids[i], i == 0 && minus ? UNARY : PRODUCT);
  }
  if (t.constant == 0) return;
  bool minus = t.constant < 0 && t.constant != INT64_MIN;
  tc_sb_putz(sb, minus ? " - " : " + ");
  tc_sb_int(sb, minus ? -t.constant : t.constant);
}

static void print(tc_sb *sb, const tc_sym *e, int32_t level) {
  bool brackets = level_of(e) < level;
  if (brackets) tc_sb_putc(sb, '(');
  switch (e->kind) {
  case TC_SYM_CONST: tc_sb_int(sb, e->value); break;
  case TC_SYM_SYMBOL: tc_sb_put(sb, e->name); break;
  case TC_SYM_ADD:
    if (nd(e)->raw) infix(sb, e, " + ", PRODUCT, PRODUCT);
    else print_sum(sb, e);
    break;
  case TC_SYM_MUL:
    if (nd(e)->raw) {
      infix(sb, e, "*", FACTOR, FACTOR);
    } else {
      if (nd(e)->coeff < 0) tc_sb_putc(sb, '-');
      print_magnitude(sb, e, UNARY);
    }
    break;
  case TC_SYM_FLOORDIV: infix(sb, e, "//", FACTOR, FACTOR); break;
  case TC_SYM_POW: infix(sb, e, "**", PRIMARY, UNARY); break;
  case TC_SYM_EQ: infix(sb, e, " == ", COMPARE + 1, COMPARE + 1); break;
  case TC_SYM_NE: infix(sb, e, " != ", COMPARE + 1, COMPARE + 1); break;
  case TC_SYM_LT: infix(sb, e, " < ", COMPARE + 1, COMPARE + 1); break;
  case TC_SYM_LE: infix(sb, e, " <= ", COMPARE + 1, COMPARE + 1); break;
  case TC_SYM_AND: infix(sb, e, " && ", AND, AND + 1); break;
  case TC_SYM_OR: infix(sb, e, " || ", OR, OR + 1); break;
  case TC_SYM_NOT:
    tc_sb_putc(sb, '!');
    print(sb, e->kids[0], UNARY);
    break;
  case TC_SYM_MOD: call(sb, e, "Mod"); break;
  case TC_SYM_MIN: call(sb, e, "Min"); break;
  case TC_SYM_MAX: call(sb, e, "Max"); break;
  default: call(sb, e, "Where");
  }
  if (brackets) tc_sb_putc(sb, ')');
}

void tc_sym_print(tc_sb *sb, const tc_sym *e) {
  if (nd(e)->size > MAX_NODES) tc_sb_putz(sb, "...");
  else print(sb, e, OR);
}
