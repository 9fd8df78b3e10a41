// Complex operands whose parts lie in planes (schedule/layout.c): the same numbers, whoever writes and reads them.
#include "tests/unit/schedule/pipeline.h"

// `body` computes %r from %a [m, k], %b [k, n] and %c [n, k]; sizes are symbols unless `fixed`.
static tc_status products(tc_arena *arena, const char *dtype, const char *body, const int *mkn, bool fixed) {
  char text[1024], head[160] = "", m[16] = "s0", k[16] = "s1", n[16] = "s2";
  if (fixed) {
    snprintf(m, sizeof m, "%d", mkn[0]);
    snprintf(k, sizeof k, "%d", mkn[1]);
    snprintf(n, sizeof n, "%d", mkn[2]);
  } else
    snprintf(head, sizeof head, "[s0 in [1, 512] hint %d, s1 in [1, 512] hint %d, s2 in [1, 512] hint %d] ", mkn[0],
             mkn[1], mkn[2]);
  snprintf(
      text, sizeof text,
      "graph @f %s(%%a : %s[%s, %s] = user \"a\", %%b : %s[%s, %s] = user \"b\", %%c : %s[%s, %s] = user \"c\") {\n"
      "%s  return user %%r\n}\n",
      head, dtype, m, k, dtype, k, n, dtype, n, k, body);
  return pipeline_all(arena, text, closely, 0);
}

TC_TEST(products_of_any_size) {
  static const char *const bodies[] = {
      "  %r = aten::mm(%a, %b)\n",
      "  %r = aten::linear(%a, %c)\n",
      // What feeds the panels is computed where they are stored, and a second reader takes the plain values.
      "  %e = aten::mul.Tensor(%b, %b)\n  %p = aten::mm(%a, %e)\n  %s = aten::sum.dim_IntList(%e, [0])\n"
      "  %r = aten::add.Tensor(%p, %s)\n",
      "  %j = aten::_conj(%c)\n  %t = aten::t(%j)\n  %p = aten::mm(%a, %t)\n  %r = aten::abs(%p)\n",
      "  %p = aten::mm(%a, %b)\n  %r = aten::mm(%p, %c)\n",
  };
  static const char *const dtypes[] = {"c64", "c128", "f32"};
  uint64_t seed = tc_test_seed();
  for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
      int sizes[3];
      for (int k = 0; k < 3; k++) sizes[k] = 1 + (int)(tc_test_random(&seed) % 90);
      if (d == 2 && i == 3) continue; // conj of real numbers is no node
      TC_TRY(products(arena, dtypes[d], bodies[i], sizes, tc_test_random(&seed) & 1), "product %d of %s, %d %d %d",
             (int)i, dtypes[d], sizes[0], sizes[1], sizes[2]);
    }
  }
  return TC_OK;
}

TC_TEST(batches_and_16_bit_parts) {
  TC_TRY(pipeline_all(arena,
                      "graph @f (%a : c64[3, 5, 7] = user \"a\", %b : c64[3, 7, 70] = user \"b\") {\n"
                      "  %r = aten::bmm(%a, %b)\n  return user %r\n}\n",
                      closely, 0));
  return pipeline_all(arena,
                      "graph @f (%a : f16[6, 9, 2] = user \"a\", %b : f16[9, 65, 2] = user \"b\") {\n"
                      "  %x = aten::view_as_complex(%a)\n  %y = aten::view_as_complex(%b)\n"
                      "  %p = aten::mm(%x, %y)\n  %r = aten::view_as_real(%p)\n  return user %r\n}\n",
                      (tolerance){.eps = 1e-2, .least = 1e-2}, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(products_of_any_size),
                                     cmocka_unit_test(batches_and_16_bit_parts)};
  return TC_RUN(tests);
}
