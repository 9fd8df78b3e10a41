// The order of groups by what is alive at the peak: what it saves, and that programs compute the same.
#include "tests/unit/schedule/pipeline.h"

// The bytes of the arena where outputs share their memory, on a device that packs nothing.
static tc_status arena_of(tc_arena *arena, const char *text, int64_t *out) {
  pipeline p;
  tc_plan *plan = NULL;
  int32_t d = 0;
  while (d < N_DEVICES && devices[d].props.simd_bytes) d++;
  assert_true(d < N_DEVICES);
  tc_status s = pipeline_open(&p, arena, text);
  if (s == TC_OK) s = pipeline_compile(&p, &devices[d].props, true, &plan);
  if (s == TC_OK) {
    tc_plan_memory_shared(plan);
    *out = plan->arena_bytes->value;
    s = pipeline_check(&p, plan, closely);
  }
  pipeline_close(&p);
  return s;
}

// The result %big is written last, since the intermediate value has room in it until then.
TC_TEST(results_wait_for_what_lies_in_them) {
  int64_t bytes = -1;
  TC_TRY(arena_of(arena,
                  "graph @f (%x : f32[16, 16] = user \"x\", %v : f32[16, 64] = user \"v\", %u : f32[16, 64] = user "
                  "\"u\", %z : f32[64, 16] = user \"z\") {\n"
                  "  %big : f32[16, 64] = aten::mm(%x, %v)\n  %t : f32[16, 64] = aten::mm(%x, %u)\n"
                  "  %y : f32[16, 16] = aten::mm(%t, %z)\n  return user %big, user %y\n}\n",
                  &bytes));
  assert_int_equal(bytes, 0);
  return TC_OK;
}

// Two products of one value, of which one makes much of little: the value's other readers come first, so that it is
// gone by then.
TC_TEST(the_last_reader_makes_much) {
  int64_t bytes = -1;
  TC_TRY(arena_of(arena,
                  "graph @f (%x : f32[64, 64] = user \"x\", %w : f32[64, 64] = user \"w\", %n : f32[64, 8] = user "
                  "\"n\", %m : f32[8, 64] = user \"m\") {\n"
                  "  %a : f32[64, 64] = aten::mm(%x, %w)\n"
                  "  %s : f32[64, 8] = aten::mm(%x, %n)\n"
                  "  %b : f32[64, 64] = aten::mm(%s, %m)\n"
                  "  %c : f32[64, 8] = aten::mm(%b, %n)\n"
                  "  %d : f32[64, 8] = aten::mm(%a, %n)\n"
                  "  %e : f32[64, 8] = aten::add.Tensor(%c, %d)\n  return user %e\n}\n",
                  &bytes));
  assert_in_range(bytes, 1, (64 * 64 + 2 * 64 * 8) * 4);
  return TC_OK;
}

// An activation that is read late beside its own argument is made again from that, on every device, and is the same.
#define LATE(rows)                                                                                       \
  "(%x : f32[" rows ", 16] = user \"x\", %w : f32[16, 96] = user \"w\", %v : f32[96, 16] = user \"v\", " \
  "%u : f32[16, 200] = user \"u\", %n : f32[200, 96] = user \"n\") {\n"                                  \
  "  %h : f32[" rows ", 96] = aten::mm(%x, %w)\n  %a : f32[" rows ", 96] = aten::gelu(%h)\n"             \
  "  %y : f32[" rows ", 16] = aten::mm(%a, %v)\n  %z : f32[" rows ", 200] = aten::mm(%y, %u)\n"          \
  "  %q : f32[" rows ", 96] = aten::mm(%z, %n)\n  %b : f32[" rows ", 96] = aten::mul.Tensor(%a, %h)\n"   \
  "  %o : f32[" rows ", 96] = aten::mul.Tensor(%b, %q)\n  return user %o\n}\n"

TC_TEST(what_is_read_late_is_made_again) {
  int64_t bytes = -1;
  TC_TRY(arena_of(arena, "graph @f " LATE("48"), &bytes));
  assert_in_range(bytes, 1, (96 + 200 + 16) * 48 * 4); // %h and %z, without %a
  TC_TRY(pipeline_all(arena, "graph @f " LATE("48"), closely, 0));
  return pipeline_all(arena, "graph @f [s0 in [1, 99] hint 48] " LATE("s0"), closely, 0);
}

// Layers that need equally much at once: no value lowers both peaks.
#define LAYER(i, x)                                                                                           \
  "  %h" i " : f32[48, 96] = aten::mm(%" x ", %w)\n  %a" i " : f32[48, 96] = aten::gelu(%h" i ")\n"           \
  "  %y" i " : f32[48, 16] = aten::mm(%a" i ", %v)\n  %z" i " : f32[48, 200] = aten::mm(%y" i ", %u)\n"       \
  "  %q" i " : f32[48, 96] = aten::mm(%z" i ", %n)\n  %b" i " : f32[48, 96] = aten::mul.Tensor(%a" i ", %h" i \
  ")\n  %o" i " : f32[48, 96] = aten::mul.Tensor(%b" i ", %q" i ")\n  %x" i " : f32[48, 16] = aten::mm(%o" i ", %v)\n"

TC_TEST(layers_lower_their_peaks_together) {
  static const char text[] =
      "graph @f (%x : f32[48, 16] = user \"x\", %w : f32[16, 96] = user \"w\", %v : f32[96, 16] "
      "= user \"v\", %u : f32[16, 200] = user \"u\", %n : f32[200, 96] = user \"n\") {\n" LAYER("1", "x")
          LAYER("2", "x1") "  return user %x2\n}\n";
  int64_t bytes = -1;
  TC_TRY(arena_of(arena, text, &bytes));
  assert_in_range(bytes, 1, (96 + 200 + 96) * 48 * 4); // %h, %z and %q, without %a
  return pipeline_all(arena, text, closely, 0);
}

// Chains of products over random values, some of which are results.
static tc_status products(tc_arena *arena, uint64_t *seed, bool symbolic) {
  enum { N = 14, N_WIDTHS = 3 };
  static const int32_t widths[N_WIDTHS] = {3, 16, 40};
  int32_t width[N + 1] = {1};
  bool result[N + 1] = {false};
  tc_sb sb = tc_sb_make(arena);
  tc_sb_printf(&sb, "graph @f %s(%%v0 : f32[%s, 16] = user \"x\"", symbolic ? "[s0 in [1, 99] hint 21] " : "",
               symbolic ? "s0" : "21");
  for (int32_t i = 0; i < N_WIDTHS; i++)
    for (int32_t k = 0; k < N_WIDTHS; k++)
      tc_sb_printf(&sb, ", %%w%d_%d : f32[%d, %d] = user \"w%d%d\"", i, k, widths[i], widths[k], i, k);
  tc_sb_putz(&sb, ") {\n");
  const char *rows = symbolic ? "s0" : "21";
  for (int32_t i = 1; i <= N; i++) {
    int32_t from = (int32_t)(tc_test_random(seed) % (uint64_t)i);
    width[i] = (int32_t)(tc_test_random(seed) % N_WIDTHS);
    result[i] = i == N || tc_test_random(seed) % 4 == 0;
    tc_sb_printf(&sb, "  %%p%d : f32[%s, %d] = aten::mm(%%v%d, %%w%d_%d)\n", i, rows, widths[width[i]], from,
                 width[from], width[i]);
    tc_sb_printf(&sb, "  %%q%d : f32[%s, %d] = aten::mul.Scalar(%%p%d, 0.05)\n", i, rows, widths[width[i]], i);
    tc_sb_printf(&sb, "  %%v%d : f32[%s, %d] = aten::tanh(%%q%d)\n", i, rows, widths[width[i]], i);
  }
  tc_sb_putz(&sb, "  return ");
  for (int32_t i = 1, n = 0; i <= N; i++)
    if (result[i]) tc_sb_printf(&sb, "%suser %%v%d", n++ ? ", " : "", i);
  tc_sb_putz(&sb, "\n}\n");
  return tc_status_note(pipeline_all(arena, sb.text, closely, 0), "%s", sb.text);
}

TC_TEST(random_products) {
  uint64_t seed = tc_test_seed();
  for (int32_t round = 0; round < 6; round++) TC_TRY(products(arena, &seed, round % 3 == 2));
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(results_wait_for_what_lies_in_them), cmocka_unit_test(the_last_reader_makes_much),
      cmocka_unit_test(what_is_read_late_is_made_again), cmocka_unit_test(layers_lower_their_peaks_together),
      cmocka_unit_test(random_products)};
  return TC_RUN(tests);
}
