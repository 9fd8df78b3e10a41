// The template "iterate" through the whole pipeline: every kind, on random elements and degrees of every dtype that it
// takes, against the references.
#include "tests/unit/schedule/pipeline.h"

static tc_status run(tc_arena *arena, const char *call, const char *operands, const char *dtype, tolerance tol) {
  char text[1024];
  snprintf(text, sizeof text,
           "graph @f (%%a : %s[3, 37] = user \"a\", %%b : %s[37] = user \"b\") {\n%s"
           "  %%y = aten::%s(%%x, %%n)\n  %%z = aten::mul.Tensor(%%y, %%y)\n  return user %%y, user %%z\n}\n",
           dtype, dtype, operands, call);
  return pipeline_all(arena, text, tol, 0);
}
#define LINE(name, call) "  %" name " = aten::" call "\n"

TC_TEST(polynomials_of_data_dependent_degree) {
  static const char *const names[] = {
      "chebyshev_polynomial_t",         "chebyshev_polynomial_u",         "chebyshev_polynomial_v",
      "chebyshev_polynomial_w",         "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u",
      "shifted_chebyshev_polynomial_v", "shifted_chebyshev_polynomial_w", "hermite_polynomial_h",
      "hermite_polynomial_he",          "laguerre_polynomial_l",          "legendre_polynomial_p"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char call[64];
    snprintf(call, sizeof call, "special_%s", names[i]);
    TC_TRY(run(arena, call, LINE("x", "mul.Tensor(%a, 0.4)") LINE("n", "mul.Tensor(%b, 6)"), i % 2 ? "f32" : "f64",
               closely),
           "special_%s", names[i]);
  }
  return TC_OK;
}

TC_TEST(sums_and_fractions) {
#define ABS LINE("p", "abs(%a)") LINE("q", "abs(%b)")
  static const struct {
    const char *call, *operands;
  } cases[] = {
      {"special_zeta", ABS LINE("x", "add.Tensor(%p, 1.01)") LINE("n", "mul.Tensor(%q, 8)")},
      {"igamma", ABS LINE("x", "mul.Tensor(%p, 40)") LINE("n", "mul.Tensor(%q, 60)")},
      {"igammac", ABS LINE("x", "mul.Tensor(%p, 40)") LINE("n", "mul.Tensor(%q, 60)")},
      {"igammac", ABS LINE("x", "mul.Tensor(%p, 0.5)") LINE("n", "mul.Tensor(%q, 1.0)")},
      {"igamma", LINE("x", "add.Tensor(%a, 500)") LINE("p", "add.Tensor(%b, 100)") LINE("n", "mul.Tensor(%p, 5)")}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    TC_TRY(run(arena, cases[i].call, cases[i].operands, i % 2 ? "f32" : "f64", closely), "%s", cases[i].call);
  return TC_OK;
}

TC_TEST(common_divisors) {
  static const char *const dtypes[] = {"i64", "i32", "i16", "u8"};
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
    TC_TRY(run(arena, "gcd", LINE("x", "mul.Tensor(%a, 6)") LINE("n", "mul.Tensor(%b, 4)"), dtypes[i], exactly));
    TC_TRY(run(arena, "lcm", LINE("x", "mul.Tensor(%a, 1)") LINE("n", "mul.Tensor(%b, 1)"), dtypes[i], exactly));
  }
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(polynomials_of_data_dependent_degree),
      cmocka_unit_test(sums_and_fractions),
      cmocka_unit_test(common_divisors),
  };
  return TC_RUN(tests);
}
