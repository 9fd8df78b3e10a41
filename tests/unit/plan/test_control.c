// Control flow in plans: text round trips, refusals, what the verifier says, damage.
#include "tests/unit/plan/plan_test.h"

#define EMPTY_REGION(name, input, output, rank)                                                                    \
  "plan @" name " (\n        %x : " input " = operand \"x\") arena 0 {\n      %y : " output " = output size " rank \
  ";\n      launch @k_0 blocks 1 grain 1 : (out %y) bytes 0 flops 0\n      return user %y as " output "\n    }"

static const char good[] =
    "plan @forward [s0 in [2, 64] hint 4] (\n"
    "    %p : bool[] = user \"p\",\n"
    "    %x : f32[s0] = user \"x\",\n"
    "    %xs : f32[s0, s0] = user \"xs\") arena 16*s0 + 64 {\n"
    "  %p : bool[]{} = input 0;\n"
    "  %x : f32[s0]{1} = input 1;\n"
    "  %xs : f32[s0, s0]{s0, 1} = input 2;\n"
    "  %c : f32[s0]{1} = arena 0 size 4*s0;\n"
    "  %w : f32[s0]{1} = arena 4*s0 size 4*s0;\n"
    "  %w.1 : f32[s0]{1} = arena 8*s0 size 4*s0;\n"
    "  %scratch : u8[64]{1} = arena 16*s0 size 64;\n"
    "  %s : f32[s0]{1} = output size 4*s0;\n"
    "  %s.1 : f32[s0]{1} = arena 8*s0 size 4*s0;\n"
    "  %ys : f32[s0, 2]{2, 1} = output size 8*s0;\n"
    "  if @cond_0 : (%p, %x, out %c) in %scratch bytes 8*s0 flops s0 @ \"m.py:1\"\n"
    "    then plan @yes (\n"
    "        %x : f32[s0] = operand \"x\") arena 64 {\n"
    "      %x : f32[s0]{1} = input 0;\n"
    "      %h : f32[]{} = arena 0 size 4;\n"
    "      %y : f32[s0]{1} = output size 4*s0;\n"
    "      launch @sum_0 blocks 1 grain 1 : (%x, out %h) bytes 0 flops 0\n"
    "      launch @add_1 blocks s0 grain 1 : (%x, %h, out %y) bytes 0 flops 0\n"
    "      return user %y as f32[s0]{1}\n"
    "    }\n"
    "    else " EMPTY_REGION(
        "no", "f32[s0]", "f32[s0]{1}",
        "4*s0") "\n"
                "  while @loop_1 : (%c, out %w) carry 1 spare (%w.1) bytes 0 flops 0\n"
                "    test " EMPTY_REGION(
                    "go", "f32[s0]", "bool[]{}",
                    "1") "\n"
                         "    do " EMPTY_REGION(
                             "step", "f32[s0]", "f32[s0]{1}",
                             "4*s0") "\n"
                                     "  scan @scan_2 turns s0 : (%w, %xs, out %s, out %ys) carry 1 over 1 spare (%s.1) "
                                     "bytes 0 flops 0\n"
                                     "    do plan @element (\n"
                                     "        %h : f32[s0] = operand \"h\",\n"
                                     "        %e : f32[s0] = operand \"e\") arena 0 {\n"
                                     "      %g : f32[s0]{1} = output size 4*s0;\n"
                                     "      %y : f32[2]{1} = output size 8;\n"
                                     "      launch @k_0 blocks 1 grain 1 : (out %g, out %y) bytes 0 flops 0\n"
                                     "      return user %g as f32[s0]{1}, user %y as f32[2]{1}\n"
                                     "    }\n"
                                     "  if @cond_3 when 5 <= s0 : (%s, out %w) bytes 0 flops 0\n"
                                     "    then " EMPTY_REGION(
                                         "a", "f32[s0]", "f32[s0]{1}",
                                         "4*s0") "\n"
                                                 "    else " EMPTY_REGION(
                                                     "b", "f32[s0]", "f32[s0]{1}",
                                                     "4*s0") "\n"
                                                             "  return user %w as f32[s0]{1}, user %s as f32[s0]{1}, "
                                                             "user %ys as f32[s0, 2]{2, 1}\n"
                                                             "}\n";

static tc_status same(guarded *g) {
  tc_sb sb = tc_sb_make(g->arena);
  tc_plan_print(&sb, g->plan);
  assert_string_equal(sb.text, g->text);
  return TC_OK;
}
TC_TEST(round_trip) { return with(arena, good, same); }

static tc_status verify(guarded *g) {
  TC_TRY(tc_plan_verify(g->plan));
  return tc_plan_check_random(g->plan, tc_test_seed(), 50);
}
TC_TEST(is_good) { return with(arena, good, verify); }

static const char *edited(tc_arena *arena, const char *from, const char *to) {
  const char *at = strstr(good, from);
  assert_non_null(at);
  return tc_sv_printf(arena, "%.*s%s%s", (int)(at - good), good, to, at + strlen(from)).data;
}

typedef struct fault {
  const char *from, *to, *why;
} fault;

TC_TEST(refuses_bad_text) {
  static const fault cases[] = {
      {"carry 1 spare", "carry 2 spare", "2 of 1 operands"},
      {"carry 1 over 1", "carry 1 over 2", "2 of 1 operands"},
      {"spare (%w.1)", "spare (%v)", "no buffer %v"},
      {"in %scratch", "in %nothing", "no buffer %nothing"},
      {"    else plan @no", "    plan @no", "else"},
      {"turns s0", "", "turns"},
      {"when 5 <= s0", "when 5 <= q", "not among the plan's symbols"},
      {"plan @yes (\n", "plan @yes [s1 in [1, 2]] (\n", "arena"},
      {"(%p, %x, out %c)", "(%p, out %c, %x)", "before its results"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_error(with(arena, edited(arena, cases[i].from, cases[i].to), NULL), TC_STATUS_INVALID_ARGUMENT,
                 cases[i].why);
  return TC_OK;
}

TC_TEST(verifier_finds_faults) {
  static const fault cases[] = {
      {"(%p, %x, out %c)", "(%p, %x, %x, out %c)", "another number of inputs"},
      {"(%c, out %w)", "(%c, out %w, out %ys)", "other results"},
      {" in %scratch", "", "no memory for its regions"},
      {"u8[64]{1} = arena 16*s0 size 64", "u8[32]{1} = arena 16*s0 size 32", "32 bytes of"},
      {"%w.1 : f32[s0]{1} = arena 8*s0", "%w.1 : f32[s0]{1} = arena 4*s0", "overlap"},
      {"%y : f32[s0]{1} = output size 4*s0", "%y : f32[s0]{1} = arena 0 size 4*s0", "no place"},
      {"(%x, out %h)", "(%h, out %h)", "before it is written"},
      {"user %g as f32[s0]{1}, user %y as f32[2]{1}", "user %g as f32[s0]{1}, user %g as f32[s0]{1}",
       "two results in one place"},
      {"if @cond_0 : (%p, %x", "if @cond_0 : (%c, %x", "before it is written"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_error(with(arena, edited(arena, cases[i].from, cases[i].to), verify), TC_STATUS_INTERNAL, cases[i].why);
  return TC_OK;
}

// Damaged text: an error or a plan, never a crash.
TC_TEST(survives_damage) {
  uint64_t seed = tc_test_seed();
  for (int32_t round = 0; round < 1000; round++) {
    char text[sizeof good];
    memcpy(text, good, sizeof good);
    for (int32_t k = 0; k < 3; k++)
      text[tc_test_random(&seed) % (sizeof good - 1)] = (char)(' ' + tc_test_random(&seed) % 95);
    tc_status_free(with(arena, text, verify));
  }
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(round_trip), cmocka_unit_test(is_good),
                                     cmocka_unit_test(refuses_bad_text), cmocka_unit_test(verifier_finds_faults),
                                     cmocka_unit_test(survives_damage)};
  return TC_RUN(tests);
}
