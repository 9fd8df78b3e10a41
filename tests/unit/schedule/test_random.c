// Random ops in kernels: on every device the same numbers as the references give, whatever is fused around them.
#include "tests/unit/schedule/pipeline.h"

// The call's one result and something computed from it.
static tc_status drawn(tc_arena *arena, const char *call, tolerance tol) {
  char text[512];
  snprintf(text, sizeof text,
           "graph @f (%%a : f32[5, 23] = user \"a\", %%p : f64[23] = user \"p\") {\n  %%r = aten::%s\n"
           "  %%s = aten::mul.Tensor(%%r, 2)\n  return user %%r, user %%s\n}\n",
           call);
  return tc_status_note(pipeline_all(arena, text, tol, 0), "%s", call);
}

TC_TEST(numbers_of_every_kind) {
  static const char *const exact[] = {"rand([5, 23])",
                                      "rand([5, 23], dtype=f64)",
                                      "rand([115], dtype=bf16)",
                                      "rand([115], dtype=f16)",
                                      "rand([7], dtype=c64)",
                                      "rand_like(%a)",
                                      "randint.low(-3, 40, [115])",
                                      "randint.low(-9000000000000000000, 9000000000000000000, [115])",
                                      "random(%a)",
                                      "random.from(%a, -5, 7)",
                                      "bernoulli.p(%a, 0.3)",
                                      "uniform(%a, -2.0, 3.0)",
                                      "randperm(115)"};
  // By functions that the references compute with the C library's.
  static const char *const near[] = {
      "randn([5, 23])",       "randn([115], dtype=f64)", "randn([9], dtype=c64)", "normal_functional(%a, 1.0, 2.0)",
      "exponential(%a, 2.0)", "log_normal(%a)",          "cauchy(%a, 1.0, 0.5)",  "normal.Tensor_float(%a, 0.5)",
      "geometric(%a, 0.2)"};
  for (size_t i = 0; i < sizeof exact / sizeof *exact; i++) TC_TRY(drawn(arena, exact[i], exactly));
  for (size_t i = 0; i < sizeof near / sizeof *near; i++) TC_TRY(drawn(arena, near[i], closely));
  return TC_OK;
}

TC_TEST(choices_and_dropout) {
  TC_TRY(pipeline_all(arena,
                      "graph @f (%a : f32[3, 19] = user \"a\") {\n  %w = aten::abs(%a)\n"
                      "  %x = aten::multinomial(%w, 4)\n  %y = aten::multinomial(%w, 30, true)\n"
                      "  return user %x, user %y\n}\n",
                      exactly, 0));
  return pipeline_all(arena,
                      "graph @f [s0 in [0, 4096] hint 37] (%a : f32[s0, 19] = user \"a\") {\n"
                      "  %b = aten::mul.Tensor(%a, 3)\n  %y, %m = aten::native_dropout(%b, 0.3, true)\n"
                      "  %z, %k = aten::native_dropout(%y, 0.5, true)\n"
                      "  return user %y, user %m, user %z, user %k\n}\n",
                      exactly, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(numbers_of_every_kind), cmocka_unit_test(choices_and_dropout)};
  return TC_RUN(tests);
}
