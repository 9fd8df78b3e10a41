// Random expressions, built once through the simplifying operations and once as plain trees: for random values within
// the ranges both must agree, and everything that is claimed of an expression (interval, divisor, proofs, code, text,
// copies) must hold.
#include <string.h>

#include "tests/unit/symbolic/sym_test.h"

__extension__ typedef __int128 i128;

enum { SIZES = 3, LOOPS = 4, PLAIN = 3, SYMBOLS = SIZES + LOOPS + PLAIN, EXPRESSIONS = 2000, TRIES = 12 };

typedef struct tree {
  int32_t kind;
  const struct tree *a, *b, *d;
  int64_t value; // CONST, or number of the SYMBOL
} tree;

typedef struct world {
  tc_arena *arena;
  tc_sym_ctx *c;
  uint64_t seed;
  const tc_sym *sym[SYMBOLS];
  int64_t value[SYMBOLS]; // of this try
  int64_t multiple[SYMBOLS], extent_scale[LOOPS];
  int32_t extent[LOOPS];
} world;

static int64_t pick(world *w, int64_t lo, int64_t hi) {
  return lo + (int64_t)(tc_test_random(&w->seed) % (uint64_t)(hi - lo + 1));
}

// ---- the plain meaning

static bool div_floor(i128 a, i128 b, i128 *q, i128 *r) {
  if (b == 0) return false;
  *q = a / b;
  *r = a % b;
  if (*r != 0 && (*r < 0) != (b < 0)) {
    *q -= 1;
    *r += b;
  }
  return true;
}

static bool value_of(const world *w, const tree *t, i128 *out) {
  i128 a, b, q, r;
  if (t->kind == TC_SYM_CONST) return *out = t->value, true;
  if (t->kind == TC_SYM_SYMBOL) return *out = w->value[t->value], true;
  bool has_a = value_of(w, t->a, &a);
  if (t->kind == TC_SYM_WHERE) return has_a && value_of(w, a ? t->b : t->d, out);
  if (t->kind == TC_SYM_NOT) return *out = a == 0, has_a;
  if (!has_a || !value_of(w, t->b, &b)) return false;
  const i128 limit = (i128)1 << 60;
  switch (t->kind) {
  case TC_SYM_ADD: *out = a + b; break;
  case TC_SYM_MUL: *out = a * b; break;
  case TC_SYM_FLOORDIV:
  case TC_SYM_MOD:
    if (!div_floor(a, b, &q, &r)) return false;
    *out = t->kind == TC_SYM_MOD ? r : q;
    break;
  case TC_SYM_MIN: *out = a < b ? a : b; break;
  case TC_SYM_MAX: *out = a > b ? a : b; break;
  case TC_SYM_EQ: *out = a == b; break;
  case TC_SYM_NE: *out = a != b; break;
  case TC_SYM_LT: *out = a < b; break;
  case TC_SYM_LE: *out = a <= b; break;
  case TC_SYM_AND: *out = a != 0 && b != 0; break;
  case TC_SYM_OR: *out = a != 0 || b != 0; break;
  default: return false;
  }
  return *out < limit && *out > -limit;
}

// ---- random expressions: a tree and its canonical node

typedef struct pair {
  const tree *t;
  const tc_sym *e;
} pair;

static pair leaf_const(world *w, int64_t v) {
  tree *t = TC_NEW(w->arena, tree);
  *t = (tree){.kind = TC_SYM_CONST, .value = v};
  return (pair){t, tc_sym_int(w->c, v)};
}
static pair leaf_symbol(world *w, int64_t i) {
  tree *t = TC_NEW(w->arena, tree);
  *t = (tree){.kind = TC_SYM_SYMBOL, .value = i};
  return (pair){t, w->sym[i]};
}

static pair join(world *w, int32_t kind, pair a, pair b, pair d) {
  tree *t = TC_NEW(w->arena, tree);
  *t = (tree){.kind = kind, .a = a.t, .b = b.t, .d = d.t};
  const tc_sym *e;
  tc_sym_ctx *c = w->c;
  switch (kind) {
  case TC_SYM_ADD: e = tc_sym_add(c, a.e, b.e); break;
  case TC_SYM_MUL: e = tc_sym_mul(c, a.e, b.e); break;
  case TC_SYM_FLOORDIV: e = tc_sym_floordiv(c, a.e, b.e); break;
  case TC_SYM_MOD: e = tc_sym_mod(c, a.e, b.e); break;
  case TC_SYM_MIN: e = tc_sym_min(c, a.e, b.e); break;
  case TC_SYM_MAX: e = tc_sym_max(c, a.e, b.e); break;
  case TC_SYM_AND: e = tc_sym_and(c, a.e, b.e); break;
  case TC_SYM_OR: e = tc_sym_or(c, a.e, b.e); break;
  case TC_SYM_NOT: e = tc_sym_not(c, a.e); break;
  case TC_SYM_WHERE: e = tc_sym_where(c, a.e, b.e, d.e); break;
  default: e = tc_sym_cmp(c, kind, a.e, b.e);
  }
  return (pair){t, e};
}
static pair join2(world *w, int32_t kind, pair a, pair b) { return join(w, kind, a, b, a); }

static pair grow(world *w, int32_t depth);

static pair grow_condition(world *w, int32_t depth) {
  static const int32_t kinds[] = {TC_SYM_EQ, TC_SYM_NE, TC_SYM_LT, TC_SYM_LE};
  int64_t what = pick(w, 0, depth > 1 ? 6 : 3);
  if (what <= 3) return join2(w, kinds[what], grow(w, depth - 1), grow(w, depth - 1));
  if (what == 6) return join2(w, TC_SYM_NOT, grow_condition(w, depth - 1), leaf_const(w, 0));
  return join2(w, what == 4 ? TC_SYM_AND : TC_SYM_OR, grow_condition(w, depth - 1), grow_condition(w, depth - 1));
}

static pair divisor_like(world *w) {
  static const int64_t common[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, -4, -3, 5};
  if (pick(w, 0, 2)) return leaf_const(w, common[pick(w, 0, 12)]);
  pair s = leaf_symbol(w, pick(w, 0, pick(w, 0, 2) ? SIZES - 1 : SYMBOLS - 1));
  int64_t more = pick(w, 0, 3);
  if (more == 0) return join2(w, TC_SYM_MUL, s, leaf_symbol(w, pick(w, 0, SIZES - 1)));
  if (more == 1) return join2(w, TC_SYM_MUL, s, leaf_const(w, pick(w, 2, 4)));
  return more == 2 ? join2(w, TC_SYM_ADD, s, leaf_const(w, 1)) : s;
}

static pair grow(world *w, int32_t depth) {
  if (depth <= 0) {
    if (pick(w, 0, 2) == 0) return leaf_const(w, pick(w, -9, 33));
    return leaf_symbol(w, pick(w, 0, SYMBOLS - 1));
  }
  switch (pick(w, 0, 14)) {
  case 0:
  case 1:
  case 2: return join2(w, TC_SYM_ADD, grow(w, depth - 1), grow(w, depth - 1));
  case 3: return join2(w, TC_SYM_MUL, grow(w, depth - 1), divisor_like(w));
  case 4: return join2(w, TC_SYM_MUL, grow(w, depth - 1), grow(w, depth / 2 - 1));
  case 5:
  case 6: return join2(w, TC_SYM_FLOORDIV, grow(w, depth - 1), divisor_like(w));
  case 7:
  case 8: return join2(w, TC_SYM_MOD, grow(w, depth - 1), divisor_like(w));
  case 9: return join2(w, TC_SYM_MIN, grow(w, depth - 1), grow(w, depth - 1));
  case 10: return join2(w, TC_SYM_MAX, grow(w, depth - 1), grow(w, depth - 1));
  case 11: return join(w, TC_SYM_WHERE, grow_condition(w, depth - 1), grow(w, depth - 1), grow(w, depth - 1));
  case 12: { // what may join again: k·x + l·(x // n) + m·(x mod n), with factors that sometimes fit
    pair x = grow(w, depth / 2 - 1), n = divisor_like(w);
    pair k = leaf_const(w, pick(w, 0, 2)), l = pick(w, 0, 1) ? n : divisor_like(w);
    pair q = join2(w, TC_SYM_MUL, join2(w, TC_SYM_FLOORDIV, x, n), l);
    if (pick(w, 0, 1)) q = join2(w, TC_SYM_MUL, q, leaf_const(w, -1));
    pair e = join2(w, TC_SYM_ADD, join2(w, TC_SYM_MUL, x, k), q);
    return pick(w, 0, 1) ? e : join2(w, TC_SYM_ADD, e, join2(w, TC_SYM_MOD, x, n));
  }
  case 13: { // (g·x + r) by g·y
    pair g = pick(w, 0, 1) ? leaf_const(w, pick(w, 2, 6)) : leaf_symbol(w, pick(w, 0, SIZES - 1));
    pair r = pick(w, 0, 1) ? leaf_const(w, pick(w, -3, 5)) : leaf_symbol(w, pick(w, SIZES, SIZES + LOOPS - 1));
    pair a = join2(w, TC_SYM_ADD, join2(w, TC_SYM_MUL, g, grow(w, depth / 2 - 1)), r);
    pair b = join2(w, TC_SYM_MUL, g, leaf_symbol(w, pick(w, 0, SYMBOLS - 1)));
    return join2(w, pick(w, 0, 1) ? TC_SYM_MOD : TC_SYM_FLOORDIV, a, b);
  }
  default: { // the index of a reshape: rows·size + column
    int64_t l = pick(w, 0, LOOPS - 1), rows = pick(w, 0, SYMBOLS - 1);
    pair size = leaf_symbol(w, w->extent[l]);
    size = join2(w, TC_SYM_MUL, size, leaf_const(w, w->extent_scale[l]));
    pair at = join2(w, TC_SYM_ADD, join2(w, TC_SYM_MUL, leaf_symbol(w, rows), size), leaf_symbol(w, SIZES + l));
    return join2(w, pick(w, 0, 1) ? TC_SYM_MOD : TC_SYM_FLOORDIV, at, size);
  }
  }
}

// ---- the world: sizes ≥ 1, loop variables below scale·size, plain symbols with ranges or divisors

static void make_world(world *w) {
  tc_sym_ctx *c = w->c = tc_sym_create(w->arena);
  for (int32_t i = 0; i < SYMBOLS; i++) {
    char name[8];
    snprintf(name, sizeof name, "%c%d", i < SIZES ? 's' : i < SIZES + LOOPS ? 'i' : 'u', i);
    w->sym[i] = tc_sym_symbol(c, tc_sv_of(name));
    tc_sym_info *info = tc_sym_info_of(c, w->sym[i]);
    w->multiple[i] = 1;
    if (i < SIZES) {
      w->multiple[i] = pick(w, 0, 2) == 0 ? pick(w, 2, 8) : 1;
      info->lo = 1;
      info->divisor = w->multiple[i];
    } else if (i < SIZES + LOOPS) {
      int32_t l = i - SIZES;
      w->extent[l] = (int32_t)pick(w, 0, SIZES - 1);
      w->extent_scale[l] = pick(w, 1, 3);
      const tc_sym *end = tc_sym_addi(c, tc_sym_muli(c, w->sym[w->extent[l]], w->extent_scale[l]), -1);
      info->lo = 0;
      info->hi_expr = end;
    } else if (i > SIZES + LOOPS) {
      info->lo = pick(w, -20, 4);
      info->hi = info->lo + pick(w, 0, 40);
    }
  }
}

static void choose_values(world *w) {
  for (int32_t i = 0; i < SIZES; i++) w->value[i] = w->multiple[i] * pick(w, 1, pick(w, 0, 1) ? 3 : 12);
  for (int32_t l = 0; l < LOOPS; l++) {
    int64_t end = w->value[w->extent[l]] * w->extent_scale[l] - 1;
    int64_t how = pick(w, 0, 3); // the ends are where mistakes are
    w->value[SIZES + l] = how == 0 ? 0 : how == 1 ? end : pick(w, 0, end);
  }
  for (int32_t i = SIZES + LOOPS; i < SYMBOLS; i++) {
    const tc_sym_info *info = tc_sym_info_of(w->c, w->sym[i]);
    w->value[i] = info->lo > -TC_SYM_INF ? pick(w, info->lo, info->hi) : pick(w, -50, 50);
  }
}

static const char *describe(const world *w, const tc_sym *e) {
  tc_sb sb = tc_sb_make(w->arena);
  tc_sym_print(&sb, e);
  for (int32_t i = 0; i < SYMBOLS; i++)
    tc_sb_printf(&sb, "  " TC_SV_FMT "=%lld", TC_SV_ARG(w->sym[i]->name), (long long)w->value[i]);
  return sb.text;
}

static void plain_text(tc_sb *sb, const world *w, const tree *t) {
  static const char *const ops[] = {"",   "",   "+", "*",  "//", "%",  "Min", "Max", "**",
                                    "==", "!=", "<", "<=", "&&", "||", "!",   "?"};
  if (t->kind == TC_SYM_CONST) tc_sb_int(sb, t->value);
  else if (t->kind == TC_SYM_SYMBOL) tc_sb_put(sb, w->sym[t->value]->name);
  else {
    tc_sb_printf(sb, "(%s ", ops[t->kind]);
    plain_text(sb, w, t->a);
    tc_sb_putc(sb, ' ');
    plain_text(sb, w, t->b);
    if (t->kind == TC_SYM_WHERE) {
      tc_sb_putc(sb, ' ');
      plain_text(sb, w, t->d);
    }
    tc_sb_putc(sb, ')');
  }
}

static void check_value(world *w, pair p, tc_sym_code code, int32_t proven) {
  i128 want;
  choose_values(w);
  if (!value_of(w, p.t, &want)) return;
  int64_t got = 0, ran = 0, lo, hi;
  tc_status st = tc_sym_eval(p.e, w->value, &got);
  if (st || got != want) {
    tc_sb sb = tc_sb_make(w->arena);
    plain_text(&sb, w, p.t);
    fail_msg("%s\n became %s\n: value %lld, wanted %lld %s", sb.text, describe(w, p.e), (long long)got, (long long)want,
             st ? tc_status_text(st) : "");
  }
  assert_ok(tc_sym_run(code, w->value, &ran));
  if (ran != got) fail_msg("code of %s gave %lld, wanted %lld", describe(w, p.e), (long long)ran, (long long)got);
  tc_sym_range(w->c, p.e, &lo, &hi);
  if (got < lo || got > hi)
    fail_msg("%lld is not in [%lld, %lld]: %s", (long long)got, (long long)lo, (long long)hi, describe(w, p.e));
  int64_t d = tc_sym_divisor(w->c, p.e);
  if (d == 0 ? got != 0 : got % d != 0) fail_msg("%lld does not divide %s", (long long)d, describe(w, p.e));
  if (proven >= 0 && proven != (got != 0)) fail_msg("proven %d, but not so: %s", (int)proven, describe(w, p.e));
}

// A denominator that is sometimes zero may be simplified away, so text need not come back for those.
static void check_text(world *w, const tc_sym *e) {
  const char *text = sym_text(w->c, e);
  const tc_sym *back = sym_parse(w->c, text);
  if (back != e) fail_msg("'%s' was read as '%s'", text, sym_text(w->c, back));
}

static tc_status random_expressions(tc_arena *arena, uint64_t seed, int32_t depth, int32_t count) {
  world w = {.arena = arena, .seed = seed};
  for (int32_t n = 0; n < count; n++) {
    if (n % 100 == 0) make_world(&w);
    pair p = pick(&w, 0, 4) ? grow(&w, depth) : grow_condition(&w, depth);
    tc_sym_code code = tc_sym_compile(arena, p.e);
    assert_ok(tc_sym_code_check(code, SYMBOLS));
    int32_t proven = tc_sym_prove(w.c, p.e);
    for (int32_t i = 0; i < TRIES; i++) check_value(&w, p, code, proven);
    check_text(&w, p.e);
    // Built anew, in this context and in another, it still means the same.
    pair again = {p.t, tc_sym_simplify(w.c, p.e)};
    tc_sym_code code2 = tc_sym_compile(arena, again.e);
    for (int32_t i = 0; i < 3; i++) check_value(&w, again, code2, -1);
    tc_sym_ctx *other = tc_sym_create(arena);
    for (int32_t i = SYMBOLS; i-- > 0;) tc_sym_import(other, w.c, w.sym[i]);
    const tc_sym *there = tc_sym_import(other, w.c, p.e);
    i128 want;
    int64_t values[SYMBOLS], got = 0;
    for (int32_t i = 0; i < 3; i++) {
      choose_values(&w);
      if (!value_of(&w, p.t, &want)) continue;
      for (int32_t s = 0; s < SYMBOLS; s++) values[tc_sym_symbol(other, w.sym[s]->name)->symbol] = w.value[s];
      assert_ok(tc_sym_eval(there, values, &got));
      if (got != want) fail_msg("copy of %s: %s", describe(&w, p.e), sym_text(other, there));
    }
  }
  return TC_OK;
}

TC_TEST(small_expressions_keep_their_value) { return random_expressions(arena, tc_test_seed(), 2, EXPRESSIONS); }
TC_TEST(expressions_keep_their_value) { return random_expressions(arena, tc_test_seed(), 4, EXPRESSIONS); }
TC_TEST(large_expressions_keep_their_value) { return random_expressions(arena, tc_test_seed(), 6, EXPRESSIONS / 4); }

// Polynomials with a few composite factors, whose sign is asked for: what is proven must hold.
TC_TEST(proofs_hold) {
  world w = {.arena = arena, .seed = tc_test_seed()};
  int32_t proven[2] = {0, 0};
  for (int32_t n = 0; n < 6000; n++) {
    if (n % 100 == 0) make_world(&w);
    int64_t pool[3]; // few symbols, so that powers meet
    for (int32_t k = 0; k < 3; k++) pool[k] = pick(&w, 0, SYMBOLS - 1);
    pair d = leaf_const(&w, pick(&w, -6, 12));
    for (int64_t k = pick(&w, 1, 4); k > 0; k--) {
      pair t = leaf_const(&w, pick(&w, -3, 3));
      for (int64_t j = pick(&w, 1, 3); j > 0; j--)
        t = join2(&w, TC_SYM_MUL, t, pick(&w, 0, 5) ? leaf_symbol(&w, pool[pick(&w, 0, 2)]) : grow(&w, 1));
      d = join2(&w, TC_SYM_ADD, d, t);
    }
    pair p = join2(&w, TC_SYM_LE, leaf_const(&w, 0), d);
    int32_t known = tc_sym_prove(w.c, p.e);
    if (known < 0) continue;
    proven[known]++;
    tc_sym_code code = tc_sym_compile(arena, p.e);
    for (int32_t i = 0; i < TRIES * 2; i++) check_value(&w, p, code, known);
  }
  print_message("%d proven, %d refuted\n", (int)proven[1], (int)proven[0]);
  assert_true(proven[0] > 100 && proven[1] > 100);
  return TC_OK;
}

// Equal polynomials are one node however they are built.
TC_TEST(sums_and_products_are_canonical) {
  world w = {.arena = arena, .seed = tc_test_seed()};
  make_world(&w);
  for (int32_t n = 0; n < 2000; n++) {
    const tc_sym *x[6];
    for (int32_t i = 0; i < 6; i++) {
      x[i] = w.sym[pick(&w, 0, SYMBOLS - 1)];
      if (pick(&w, 0, 1)) x[i] = tc_sym_addi(w.c, tc_sym_muli(w.c, x[i], pick(&w, -5, 5)), pick(&w, -3, 3));
    }
    const tc_sym *a = tc_sym_add(w.c, tc_sym_mul(w.c, x[0], x[1]), tc_sym_mul(w.c, x[2], x[3]));
    const tc_sym *b = tc_sym_add(w.c, tc_sym_mul(w.c, x[3], x[2]), tc_sym_mul(w.c, x[1], x[0]));
    assert_ptr_equal(a, b);
    const tc_sym *left = tc_sym_mul(w.c, tc_sym_add(w.c, x[0], x[4]), x[5]);
    const tc_sym *right = tc_sym_add(w.c, tc_sym_mul(w.c, x[5], x[4]), tc_sym_mul(w.c, x[0], x[5]));
    assert_ptr_equal(left, right);
    assert_ptr_equal(tc_sym_sub(w.c, tc_sym_add(w.c, a, left), left), a);
    assert_true(tc_sym_is_int(tc_sym_sub(w.c, a, b), 0));
  }
  return TC_OK;
}

// Replacing symbols is the same as evaluating with other values.
TC_TEST(replaces_at_once) {
  world w = {.arena = arena, .seed = tc_test_seed()};
  for (int32_t n = 0; n < 1000; n++) {
    if (n % 50 == 0) {
      make_world(&w);
      for (int32_t i = 0; i < SYMBOLS; i++) // without facts, since the values are not kept
        *tc_sym_info_of(w.c, w.sym[i]) = (tc_sym_info){w.sym[i]->name, 0, -TC_SYM_INF, TC_SYM_INF, NULL, NULL, 1, 0};
    }
    pair p = grow(&w, 3), x = grow(&w, 1), y = grow(&w, 1);
    const tc_sym *from[] = {w.sym[0], w.sym[3]}, *to[] = {x.e, y.e};
    const tc_sym *r = tc_sym_replace(w.c, p.e, 2, from, to);
    for (int32_t i = 0; i < 4; i++) {
      int64_t old[SYMBOLS], got = 0;
      i128 vx, vy, want;
      for (int32_t s = 0; s < SYMBOLS; s++) old[s] = w.value[s] = pick(&w, -30, 30);
      if (!value_of(&w, x.t, &vx) || !value_of(&w, y.t, &vy)) continue;
      w.value[0] = (int64_t)vx;
      w.value[3] = (int64_t)vy;
      if (!value_of(&w, p.t, &want)) continue;
      assert_ok(tc_sym_eval(r, old, &got));
      if (got != want) fail_msg("replaced: %s", describe(&w, r));
    }
  }
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(small_expressions_keep_their_value), cmocka_unit_test(expressions_keep_their_value),
      cmocka_unit_test(large_expressions_keep_their_value), cmocka_unit_test(proofs_hold),
      cmocka_unit_test(sums_and_products_are_canonical),    cmocka_unit_test(replaces_at_once)};
  return TC_RUN(tests);
}
