// The places of a mask's true elements, and the steps of running sums, through lowering, scheduling and emission, on
// every device of the interpreter.
#include "tests/unit/schedule/pipeline.h"

// The first `places` places of a mask of n elements that is true where x > limit.
static tc_status placed(tc_arena *arena, int32_t n, int32_t places, double limit) {
  char text[1024];
  int32_t chunks = n < 256 ? 1 : (n + 255) / 256;
  snprintf(text, sizeof text,
           "graph @f (%%x : f32[%d] = user \"x\") {\n  %%m : bool[%d] = aten::gt.Scalar(%%x, %g)\n"
           "  %%e : i64[%d] = tc::mask_ends(%%m)\n  %%p : i64[%d] = tc::mask_places(%%m, %%e, %d)\n"
           "  return user %%e, user %%p\n}\n",
           (int)n, (int)n, limit, (int)chunks, (int)places, (int)places);
  return pipeline_all(arena, text, exactly, 0);
}

TC_TEST(places_of_masks) {
  static const double limits[] = {-100, -0.5, 0.7, 2.5, 100}; // all, many, few, hardly any, none
  static const int32_t sizes[] = {0, 1, 7, 8, 9, 255, 256, 257, 1024, 3000};
  uint64_t seed = tc_test_seed();
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    for (size_t k = 0; k < sizeof limits / sizeof *limits; k++) {
      int32_t places = (int32_t)(tc_test_random(&seed) % (uint64_t)(sizes[i] + 3));
      TC_TRY(placed(arena, sizes[i], places, limits[k]), "%d places of %d above %g", (int)places, (int)sizes[i],
             limits[k]);
    }
  }
  return placed(arena, 2600, 2600, -0.5);
}

TC_TEST(indices_of_places) {
  return pipeline_all(arena,
                      "graph @f (%x : f32[6, 5, 7] = user \"x\") {\n  %r : f32[210] = aten::reshape(%x, [210])\n"
                      "  %m : bool[210] = aten::gt.Scalar(%r, 0.3)\n  %e : i64[1] = tc::mask_ends(%m)\n"
                      "  %p : i64[90] = tc::mask_places(%m, %e, 90)\n  %u : i64[3, 90] = tc::unravel(%p, [6, 5, 7])\n"
                      "  return user %u\n}\n",
                      exactly, 0);
}

TC_TEST(steps_of_sums) {
  for (int32_t n = 1; n < 200; n = n * 3 + 1) {
    char text[512];
    snprintf(text, sizeof text,
             "graph @f (%%x : f32[%d] = user \"x\") {\n  %%m : bool[%d] = aten::gt.Scalar(%%x, 0)\n"
             "  %%s : i64[%d] = aten::cumsum(%%m, 0)\n  %%y : i64[%d] = tc::steps(%%s, %d)\n  return user %%y\n}\n",
             (int)n, (int)n, (int)n, (int)n + 3, (int)n + 3);
    TC_TRY(pipeline_all(arena, text, exactly, 0), "%d", (int)n);
  }
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(places_of_masks), cmocka_unit_test(indices_of_places),
                                     cmocka_unit_test(steps_of_sums)};
  return TC_RUN(tests);
}
