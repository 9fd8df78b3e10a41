// Attention with fewer heads of keys and values than of queries, masks and sizes of all kinds, on every device.
#include "tests/unit/schedule/pipeline.h"

static tc_status attended(tc_arena *arena, int32_t heads, int32_t groups, int32_t queries, int32_t keys,
                          const char *mask, bool causal) {
  tc_sb sb = tc_sb_make(arena);
  tc_sb_printf(&sb,
               "graph @f [s0 in [1, 512] hint %d, s1 in [1, 512] hint %d] (%%q : f32[2, %d, s0, 8] = user \"q\", "
               "%%k : f32[2, %d, s1, 8] = user \"k\", %%v : f32[2, %d, s1, 12] = user \"v\"",
               (int)queries, (int)keys, (int)heads, (int)groups, (int)groups);
  if (mask) tc_sb_printf(&sb, ", %%m : %s = user \"m\"", mask);
  tc_sb_printf(&sb,
               ") {\n  %%y : f32[2, %d, s0, 12] = aten::scaled_dot_product_attention(%%q, %%k, %%v, %s, 0.0, %s, "
               "enable_gqa=true)\n  %%z : f32[2, %d, s0, 12] = aten::neg(%%y)\n  return user %%z\n}\n",
               (int)heads, mask ? "%m" : "none", causal ? "true" : "false", (int)heads);
  return pipeline_all(arena, sb.text, closely, 0);
}

TC_TEST(heads_share_keys) {
  uint64_t seed = tc_test_seed();
  static const int32_t groups[] = {1, 2, 3, 6};
  for (int32_t i = 0; i < 4; i++) {
    int32_t queries = 1 + (int32_t)(tc_test_random(&seed) % 40), keys = 1 + (int32_t)(tc_test_random(&seed) % 70);
    TC_TRY(attended(arena, 6, groups[i], queries, keys, NULL, false), "%d of 6 heads", (int)groups[i]);
    TC_TRY(attended(arena, 6, groups[i], queries, keys, NULL, true), "%d of 6 heads, causal", (int)groups[i]);
    TC_TRY(attended(arena, 6, groups[i], queries, keys, "f32[2, 1, s0, s1]", false), "%d of 6 heads, mask",
           (int)groups[i]);
    TC_TRY(attended(arena, 6, groups[i], queries, keys, "bool[s0, s1]", false), "%d of 6 heads, bool mask",
           (int)groups[i]);
  }
  return TC_OK;
}

// The logarithms of the sums and the derivatives that are made from them.
static tc_status differentiated(tc_arena *arena, int32_t queries, int32_t keys, int32_t depth, const char *mask,
                                bool causal) {
  tc_sb sb = tc_sb_make(arena);
  const char *rest =
      tc_sv_z(arena, tc_sv_printf(arena, "%s, %s, 0.3", mask ? "%m" : "none", causal ? "true" : "false"));
  tc_sb_printf(&sb,
               "graph @f [s0 in [0, 512] hint %d, s1 in [0, 512] hint %d] (%%q : f32[2, 3, s0, %d] = user \"q\", "
               "%%k : f32[2, 3, s1, %d] = user \"k\", %%v : f32[2, 1, s1, 12] = user \"v\", "
               "%%g : f32[2, 3, s0, 12] = user \"g\", %%d : f32[2, 3, s0] = user \"d\"",
               (int)queries, (int)keys, (int)depth, (int)depth);
  if (mask) tc_sb_printf(&sb, ", %%m : %s = user \"m\"", mask);
  tc_sb_printf(&sb,
               ") {\n  %%l = aten::_attention_logsumexp(%%q, %%k, %s)\n"
               "  %%x = aten::_attention_backward_query(%%g, %%q, %%k, %%v, %%l, %%d, %s)\n"
               "  %%y = aten::_attention_backward_pair(%%g, %%q, %%k, %%v, %%l, %%d, %s)\n"
               "  %%z = aten::neg(%%y)\n  return user %%l, user %%x, user %%z\n}\n",
               rest, rest, rest);
  return pipeline_all(arena, sb.text, closely, 0);
}

TC_TEST(shares_made_again) {
  uint64_t seed = tc_test_seed();
  for (int32_t i = 0; i < 2; i++) {
    int32_t queries = 1 + (int32_t)(tc_test_random(&seed) % 40), keys = 1 + (int32_t)(tc_test_random(&seed) % 70),
            depth = 1 + (int32_t)(tc_test_random(&seed) % 20);
    TC_TRY(differentiated(arena, queries, keys, depth, NULL, false), "%d, %d", (int)queries, (int)keys);
    TC_TRY(differentiated(arena, queries, keys, depth, NULL, true), "%d, %d, causal", (int)queries, (int)keys);
    TC_TRY(differentiated(arena, queries, keys, depth, "f32[2, 1, s0, s1]", true), "%d, %d, mask", (int)queries,
           (int)keys);
    TC_TRY(differentiated(arena, queries, keys, depth, "bool[s0, s1]", false), "%d, %d, bool mask", (int)queries,
           (int)keys);
  }
  return differentiated(arena, 0, 3, 5, NULL, false);
}

// Products and attention of no rows at all, whatever is known of the sizes.
TC_TEST(nothing_to_multiply) {
  TC_TRY(pipeline_all(arena,
                      "graph @f (%x : f32[0, 20] = user \"x\", %w : f32[20, 33] = user \"w\") {\n"
                      "  %y : f32[0, 33] = aten::mm(%x, %w)\n  %z : f32[0, 33] = aten::relu(%y)\n  return user %z\n}\n",
                      exactly, 0));
  return pipeline_all(arena,
                      "graph @f (%x : f32[7, 0] = user \"x\", %w : f32[0, 33] = user \"w\") {\n"
                      "  %y : f32[7, 33] = aten::mm(%x, %w)\n  return user %y\n}\n",
                      exactly, 0);
}

// A plan for sizes of which one may be zero, run with that one.
TC_TEST(symbols_that_are_zero) {
  pipeline p;
  int64_t zero = 0;
  tc_status s = pipeline_open_at(&p, arena,
                                 "graph @f [s0 in [0, 64] hint 9] (%x : f32[s0, 20] = user \"x\", %w : f32[20, 33] = "
                                 "user \"w\") {\n  %y : f32[s0, 33] = aten::mm(%x, %w)\n  return user %y\n}\n",
                                 1, &zero);
  for (int32_t d = 0; d < N_DEVICES && s == TC_OK; d++) {
    tc_plan *plan = NULL;
    s = pipeline_compile(&p, &devices[d].props, true, &plan);
    if (s == TC_OK) s = pipeline_check(&p, plan, exactly);
  }
  pipeline_close(&p);
  return s;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(heads_share_keys), cmocka_unit_test(shares_made_again),
                                     cmocka_unit_test(nothing_to_multiply), cmocka_unit_test(symbols_that_are_zero)};
  return TC_RUN(tests);
}
