// Evaluation and compiled code: errors, conditions that guard operations, shared nodes, damaged code, large graphs.
#include "tests/unit/symbolic/sym_test.h"

static tc_status both(tc_sym_ctx *c, const char *text, const int64_t *values, int64_t *out) {
  const tc_sym *e = sym_parse(c, text);
  int64_t ran = 0;
  tc_sym_code code = tc_sym_compile(tc_sym_arena(c), e);
  assert_ok(tc_sym_code_check(code, tc_sym_symbol_count(c)));
  tc_status a = tc_sym_eval(e, values, out), b = tc_sym_run(code, values, &ran);
  assert_int_equal(tc_status_code(a), tc_status_code(b));
  if (a == TC_OK) assert_int_equal(*out, ran);
  tc_status_free(b);
  return a;
}

TC_TEST(evaluates) {
  tc_sym_ctx *c = tc_sym_create(arena);
  int64_t v = 0, values[3] = {7, -3, 0};
  sym_parse(c, "a + b + z");
  static const struct {
    const char *text;
    int64_t want;
  } rows[] = {{"a*b + 4", -17},
              {"a//b", -3},
              {"Mod(a, b)", -2},
              {"b//2", -2},
              {"Mod(b, 2)", 1},
              {"Min(a, b)", -3},
              {"Max(a, b)", 7},
              {"a**3", 343},
              {"a < b || a == 7", 1},
              {"a != 7", 0},
              {"Where(b < 0, a, b)", 7},
              {"z != 0 && Mod(a, z) == 0", 0},
              {"z == 0 || a//z > 3", 1},
              {"Where(z == 0, 5, a//z)", 5},
              {"2**a", 128}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    assert_ok(both(c, rows[i].text, values, &v));
    if (v != rows[i].want) fail_msg("%s is %lld", rows[i].text, (long long)v);
  }
  assert_error(both(c, "a//z + 1", values, &v), TC_STATUS_INVALID_ARGUMENT, "division by zero");
  assert_error(both(c, "Mod(a, z)", values, &v), TC_STATUS_INVALID_ARGUMENT, "division by zero");
  assert_error(both(c, "a**b", values, &v), TC_STATUS_INVALID_ARGUMENT, "negative exponent");
  assert_error(both(c, "a**100", values, &v), TC_STATUS_OUT_OF_RANGE, "64 bits");
  assert_error(both(c, "a**9223372036854775807", values, &v), TC_STATUS_OUT_OF_RANGE, "64 bits");
  assert_error(both(c, "9223372036854775807*a", values, &v), TC_STATUS_OUT_OF_RANGE, "64 bits");
  assert_ok(both(c, "(9223372036854775807*a)//a", values, &v));
  assert_int_equal(v, INT64_MAX);
  return TC_OK;
}

TC_TEST(hints) {
  tc_sym_ctx *c = tc_sym_create(arena);
  int64_t v = 0;
  tc_sym_info_of(c, sym_parse(c, "s0"))->hint = 12;
  assert_true(tc_sym_hint(c, sym_parse(c, "s0*2 + 1"), &v));
  assert_int_equal(v, 25);
  assert_false(tc_sym_hint(c, sym_parse(c, "s0 + u0"), &v));
  assert_int_equal(tc_sym_hint_or(c, sym_parse(c, "s0 + u0"), 99), 99);
  assert_false(tc_sym_hint(c, sym_parse(c, "s0//(s0 - 12)"), &v));
  return TC_OK;
}

// 2^40 paths through shared nodes: nothing may walk the tree.
TC_TEST(shared_nodes_are_computed_once) {
  tc_sym_ctx *c = tc_sym_create(arena);
  const tc_sym *s = sym_parse(c, "s"), *e = s;
  for (int32_t i = 0; i < 40; i++) {
    const tc_sym *t = tc_sym_mod(c, e, tc_sym_int(c, 1000 + i));
    e = tc_sym_max(c, tc_sym_mul(c, t, t), tc_sym_addi(c, t, 17));
  }
  tc_sym_info_of(c, s)->hint = 5;
  int64_t v = 0, w = 0, x, lo, hi, values[1] = {5};
  tc_sym_code code = tc_sym_compile(arena, e);
  assert_true(code.n < 2000);
  assert_ok(tc_sym_code_check(code, 1));
  assert_ok(tc_sym_run(code, values, &v));
  assert_ok(tc_sym_eval(e, values, &w));
  assert_true(tc_sym_hint(c, e, &x));
  assert_int_equal(v, w);
  assert_int_equal(v, x);
  tc_sym_range(c, e, &lo, &hi);
  assert_true(lo >= 0 && hi >= v);
  const tc_sym *to = sym_parse(c, "2*r + 1"), *r = tc_sym_replace(c, e, 1, &s, &to);
  int64_t both_values[2] = {0, 2};
  assert_ok(tc_sym_eval(r, both_values, &w));
  assert_int_equal(w, v);
  assert_true(tc_sym_uses(r, sym_parse(c, "r")));
  assert_false(tc_sym_uses(r, s));
  const tc_sym *collides = NULL; // symbol numbers are hashed into 64 bits
  while (tc_sym_symbol_count(c) < 300) {
    collides = tc_sym_fresh(c, "z", TC_SYM_LOCAL);
    assert_false(tc_sym_uses(e, collides));
  }
  assert_string_equal(sym_text(c, e), "...");
  assert_true(tc_sym_prove(c, tc_sym_cmp(c, TC_SYM_LT, e, tc_sym_int(c, 0))) == 0);
  const tc_sym *p = sym_parse(c, "s > 3"), *q = sym_parse(c, "r > 3"), *cond = p;
  for (int32_t i = 0; i < 60; i++) cond = tc_sym_or(c, tc_sym_and(c, cond, p), tc_sym_and(c, cond, q));
  assert_int_equal(tc_sym_prove(c, cond), -1);
  tc_sym_ctx *other = tc_sym_create(arena);
  const tc_sym *copy = tc_sym_import(other, c, e);
  assert_ok(tc_sym_eval(copy, values, &w));
  assert_int_equal(w, v);
  return TC_OK;
}

// Deeper than any use: memory is said to be short, and the stack stays whole.
static tc_status too_deep(void *arg) {
  tc_sym_ctx *c = tc_sym_create(arg);
  const tc_sym *e = sym_parse(c, "s"), *n = sym_parse(c, "n");
  for (int32_t i = 0; i < 100000; i++) e = tc_sym_addi(c, tc_sym_max(c, tc_sym_mod(c, e, n), n), i);
  return TC_OK;
}

TC_TEST(depth_is_bounded) {
  assert_error(tc_arena_guard(arena, too_deep, arena), TC_STATUS_OUT_OF_MEMORY, "");
  return TC_OK;
}

TC_TEST(damaged_code_is_found) {
  tc_sym_ctx *c = tc_sym_create(arena);
  const tc_sym *e = sym_parse(c, "Where(Mod(a, 3) == 0, Max(a*b, 3)//(Mod(a, 3) + 7), Min(a*b, b**2)) + a*b");
  tc_sym_code good = tc_sym_compile(arena, e);
  assert_ok(tc_sym_code_check(good, 2));
  assert_error(tc_sym_code_check(good, 1), TC_STATUS_DATA_LOSS, "symbol");
  assert_error(tc_sym_code_check((tc_sym_code){0, NULL}, 1), TC_STATUS_DATA_LOSS, "empty");
  uint64_t seed = tc_test_seed();
  int32_t refused = 0;
  for (int32_t i = 0; i < 20000; i++) {
    int64_t *copy = tc_arena_copy(arena, good.code, sizeof *copy * (size_t)good.n), v, values[2] = {5, 6};
    tc_sym_code bad = {good.n, copy};
    int32_t at = (int32_t)(tc_test_random(&seed) % (uint64_t)good.n);
    switch (tc_test_random(&seed) % 4) {
    case 0: copy[at] = (int64_t)tc_test_random(&seed); break;
    case 1: copy[at] ^= (int64_t)(1ull << tc_test_random(&seed) % 64); break;
    case 2: copy[at] = good.code[tc_test_random(&seed) % (uint64_t)good.n]; break;
    default: bad.n = at;
    }
    tc_status st = tc_sym_code_check(bad, 2);
    if (st == TC_OK) tc_status_free(tc_sym_run(bad, values, &v));
    else refused++;
    tc_status_free(st);
  }
  assert_true(refused > 5000);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(evaluates), cmocka_unit_test(hints),
                                     cmocka_unit_test(shared_nodes_are_computed_once),
                                     cmocka_unit_test(depth_is_bounded), cmocka_unit_test(damaged_code_is_found)};
  return TC_RUN(tests);
}
