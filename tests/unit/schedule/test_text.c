// Schedules as text: round trips, refusals with their places, the verifier.
#include "core/ops/ops.h"
#include "core/schedule/schedule.h"
#include "tests/unit/unit.h"

static const char good[] =
    "loops @f [s0 in [2, 64] hint 4] (\n"
    "    %x : f32[s0, 64] = user \"x\") {\n"
    "  %x : f32[s0, 64]{64, 1} = input 0\n"
    "  %m : f32[s0] = reduce.max [i0 : s0] over [r0 : 64] of \"amax\" { %0 = load %x[i0, r0]  yield %0 }\n"
    "  %e : f32[s0, 64] = pointwise [i1 : s0, i2 : 64] { %0 = load %x[i1, i2]  %1 = exp %0  yield %1 }\n"
    "  %y : f32[s0, 64]{64, 1} = pointwise [i3 : s0, i4 : 64] of \"sub\" { %0 = load %e[i3, i4]  %1 = load %m[i3]  "
    "%2 = sub %0, %1  yield %2 }\n"
    "  %z : f32[64*s0]{1} = pointwise [i5 : 64*s0] { %0 = load %y[i5//64, Mod(i5, 64)]  %1 = neg %0  yield %1 }\n"
    "  return user %z\n"
    "}\n"
    "schedule candidates 2 merges 1 {\n"
    "  group @amax_sub_0 kernel @amax_sub [g0 : s0] over [g1 : 64] {\n"
    "    phase 0: %m[g0, g1] row\n"
    "    phase 1: %y[g0, g1] inline, stored\n"
    "    reads %x\n"
    "    writes %y\n"
    "    # bytes 512*s0\n"
    "  }\n"
    "  group @neg_1 kernel @neg [i5 : 64*s0] {\n"
    "    phase 0: %z[i5] inline, stored\n"
    "    reads %y\n"
    "    writes %z\n"
    "    # bytes 512*s0\n"
    "  }\n"
    "  refused %y with %z: \"no \\\"common\\\" domain\"\n"
    "}\n";

// A block of rows that makes parts of columns.
static const char columns[] =
    "loops @f [s0 in [0, inf] hint 300] (\n"
    "    %x : f32[s0, 8] = user \"x\") {\n"
    "  %x : f32[s0, 8]{8, 1} = input 0\n"
    "  %r : f32[s0]{1} = reduce.max [i0 : s0] over [r0 : 8] { %0 = load %x[i0, r0]  yield %0 }\n"
    "  %p : f32[(s0 + 127)//128, 8]{8, 1} = reduce.max [i1 : (s0 + 127)//128, i2 : 8] over [r1 : 128] {\n"
    "    %0 = const -inf : f32\n"
    "    %1 = load %x[128*i1 + r1, i2] if 128*i1 + r1 < s0 else %0\n"
    "    yield %1\n"
    "  }\n"
    "  %c : f32[8]{1} = reduce.max [i3 : 8] over [r2 : (s0 + 127)//128] { %0 = load %p[r2, i3]  yield %0 }\n"
    "  return user %r, user %c\n"
    "}\n"
    "schedule candidates 2 merges 1 {\n"
    "  group @max_0 kernel @max [g0 : s0] by 128 over [g1 : 8] {\n"
    "    phase 0: %r[g0, g1] row, stored\n"
    "    phase 0: %p[g0//128, g1, Mod(g0, 128)] column, stored\n"
    "    reads %x\n"
    "    writes %r %p\n"
    "  }\n"
    "  group @max_1 kernel @max [i3 : 8] over [r2 : (s0 + 127)//128] {\n"
    "    phase 0: %c[i3, r2] row, stored\n"
    "    reads %p\n"
    "    writes %c\n"
    "  }\n"
    "}\n";

typedef struct reading {
  tc_arena *arena; // the test's
  const char *text;
  tc_sv printed;
} reading;

static tc_status read_schedule(void *arg) {
  reading *r = arg;
  tc_op_registry *ops;
  TC_TRY(tc_op_registry_create(r->arena, &ops));
  tc_module *m = TC_NEW(r->arena, tc_module);
  *m = (tc_module){.arena = r->arena, .ops = ops, .syms = tc_sym_create(r->arena), .bindings = tc_map_create(r->arena)};
  tc_lexer lx;
  tc_loops *l;
  tc_schedule *s;
  tc_lex_init(&lx, r->arena, TC_SV("s.tc"), tc_sv_of(r->text));
  TC_TRY(tc_loops_parse(m, &lx, &l));
  TC_TRY(tc_schedule_parse(l, &lx, &s));
  tc_sb sb = tc_sb_make(r->arena);
  tc_schedule_print(&sb, s);
  r->printed = tc_sb_view(&sb);
  return TC_OK;
}

static const char *edited(tc_arena *arena, const char *text, const char *from, const char *to) {
  const char *at = strstr(text, from);
  assert_non_null(at);
  return tc_sv_printf(arena, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)).data;
}

TC_TEST(reads_and_prints) {
  reading r = {arena, good, {0}};
  TC_TRY(read_schedule(&r));
  assert_string_equal(r.printed.data, good);
  static const char *const ways[] = {"inline", "inline, dear", "inline, dear, stored", "tile, dear"};
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    r.text = edited(arena, good, "inline, stored", ways[i]);
    TC_TRY(read_schedule(&r));
    assert_string_equal(r.printed.data, r.text);
  }
  return TC_OK;
}

TC_TEST(refuses_bad_text) {
  static const struct {
    const char *from, *to, *why;
  } cases[] = {
      {"candidates 2", "candidates -2", "s.tc:10:21: -2 is too many"},
      {"[g0 : s0]", "[s0 : s0]", "s.tc:11:39: 's0' is a size symbol"},
      {"over [g1 : 64]", "over [g0 : 64]", "s.tc:11:54: 'g0' is a variable already"},
      {"%m[g0, g1] row", "%m[g0] row", "s.tc:12:16: %m has 2 variables"},
      {"%m[g0, g1] row", "%m[g0, i0] row", "neither a variable of this group"},
      {"%m[g0, g1] row", "%x[g0, g1] row", "s.tc:12:14: %x is not the first result of a node"},
      {"%m[g0, g1] row", "%m[g0, g1] bank", "s.tc:12:25: expected memory, inline, row, tile or column"},
      {"inline, stored", "inline, restored", "s.tc:13:33:"},
      {"reads %x", "reads %q", "s.tc:14:11: there is no buffer %q"},
      {"refused %y with", "refused %y without", "s.tc:24:14:"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    reading r = {arena, edited(arena, good, cases[i].from, cases[i].to), {0}};
    assert_error(read_schedule(&r), TC_STATUS_INVALID_ARGUMENT, cases[i].why);
  }
  return TC_OK;
}

TC_TEST(verifier_finds_faults) {
  static const struct {
    const char *from, *to, *why;
  } cases[] = {
      {"    phase 0: %m[g0, g1] row\n", "", "%y uses %m, which the group neither reads nor makes before it"},
      {"%m[g0, g1] row", "%m[g0, g1] row, dear", "%m cannot be computed again and is dear"},
      {"    reads %x\n", "    reads\n", "%m uses %x, which the group neither reads"},
      {"    writes %y\n", "    writes\n", "%y is read before it is written"},
      {"    writes %y\n", "    writes %y %z\n", "%z is written and never made"},
      {"    writes %z\n", "    writes\n", "the output %z is never written"},
      {"%y : f32[s0, 64]{64, 1} = pointwise", "%y : f32[s0, 64] = pointwise", "%y has no strides"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    reading r = {arena, edited(arena, good, cases[i].from, cases[i].to), {0}};
    tc_status s = read_schedule(&r);
    if (!s) fail_msg("nothing wrong without %s", cases[i].from);
    assert_non_null(strstr(tc_status_text(s), "in the schedule at s.tc:10:1"));
    assert_error(s, TC_STATUS_INVALID_ARGUMENT, cases[i].why);
  }
  return TC_OK;
}

TC_TEST(columns_of_rows) {
  static const char *const faults[][2] = {
      {"by 128 over", "over"},
      {"by 128 over", "by 64 over"},
      {"column, stored", "column"},
      {"%p[g0//128", "%p[g0//64"},
      {"Mod(g0, 128)", "Mod(g0, 64)"},
      {"g1, Mod", "g1 - 1, Mod"},
      {"%r[g0, g1] row", "%r[g0, g1] column"},
  };
  reading r = {arena, columns, {0}};
  TC_TRY(read_schedule(&r));
  reading again = {arena, r.printed.data, {0}};
  assert_non_null(strstr(again.text, "[g0 : s0] by 128 over [g1 : 8]"));
  TC_TRY(read_schedule(&again));
  assert_string_equal(r.printed.data, again.printed.data);
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
    r.text = edited(arena, columns, faults[i][0], faults[i][1]);
    assert_error(read_schedule(&r), TC_STATUS_INVALID_ARGUMENT, "is no part of the columns of the group's rows");
  }
  r.text = edited(arena, columns, "by 128 over", "by 0 over");
  assert_error(read_schedule(&r), TC_STATUS_INVALID_ARGUMENT, "is no part of the columns of the group's rows");
  return TC_OK;
}

TC_TEST(survives_damage) {
  uint64_t seed = tc_test_seed();
  for (int32_t round = 0; round < 2000; round++) {
    char text[sizeof good];
    memcpy(text, good, sizeof good);
    for (int32_t k = 0; k < 2; k++)
      text[tc_test_random(&seed) % (sizeof good - 1)] = (char)(' ' + tc_test_random(&seed) % 95);
    reading r = {.text = text};
    TC_TRY(tc_arena_create(tc_system_allocator(), &r.arena));
    tc_status s = tc_arena_guard(r.arena, read_schedule, &r);
    if (s) assert_non_null(strstr(tc_status_text(s), "s.tc:"));
    tc_status_free(s);
    tc_arena_destroy(r.arena);
  }
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(reads_and_prints), cmocka_unit_test(refuses_bad_text),
                                     cmocka_unit_test(verifier_finds_faults), cmocka_unit_test(columns_of_rows),
                                     cmocka_unit_test(survives_damage)};
  return TC_RUN(tests);
}
