// Products of tiles: what the interpreter makes of mma, against the product of matrices laid out as tc/kernel.h says;
// what is refused, by the builder, the parser, the verifier and for devices that have none.
#include <math.h>

#include "tests/unit/kernel/kernel_test.h"

enum { LANES = 64, GROUPS = LANES / TC_MMA_LANES, WORDS = 6, SUMS = 4 };

static const char text[] =
    "kernel @k (%x : global i32 readonly, %c : global f32 readonly, %d : global f32)\n    blocks 1 lanes 64 {\n"
    "  lanes {\n    %l = lane\n    %i = mul %l, 6\n    %j = mul %l, 4\n"
    "    %a0, %a1, %a2, %a3, %b0, %b1 = load.v6 %x[%i]\n    %c0, %c1, %c2, %c3 = load.v4 %c[%j]\n"
    "    %d0, %d1, %d2, %d3 = mma.TYPE %a0, %a1, %a2, %a3, %b0, %b1, %c0, %c1, 0.0, %c3\n"
    "    store.v4 %d[%j], %d0, %d1, %d2, %d3\n  }\n}\n";

static const char *text_for(tc_arena *arena, const char *type) {
  const char *hole = strstr(text, "TYPE");
  return tc_sv_printf(arena, "%.*s%s%s", (int)(hole - text), text, type, hole + 4).data;
}

static uint16_t bits_of(tc_dtype t, double v) { return t == TC_BF16 ? tc_f64_to_bf16(v) : tc_f64_to_f16(v); }

// Matrices of small numbers, whose sums are exact, in the lanes' places.
static void products(tc_arena *arena, tc_dtype t, const char *type) {
  double a[GROUPS][16][16], b[GROUPS][16][8], c[GROUPS][16][8];
  uint32_t x[LANES * WORDS];
  float z[LANES * SUMS], got[LANES * SUMS];
  for (int32_t g = 0; g < GROUPS; g++)
    for (int32_t i = 0; i < 16; i++)
      for (int32_t k = 0; k < 16; k++) {
        a[g][i][k] = (i * 37 + k * 59 + g * 11) % 41 - 20;
        if (k < 8) b[g][i][k] = (i * 23 + k * 17 + g * 7) % 31 * 0.5 - 7, c[g][i][k] = (i * 8 + k + g) * 0.25;
      }
  c[1][15][7] = INFINITY, a[1][0][3] = NAN;
  for (int32_t l = 0; l < LANES; l++) {
    int32_t g = l / 32, row = l % 32 / 4, at = l % 4 * 2;
    for (int32_t w = 0; w < WORDS; w++) {
      int32_t r = row + w % 2 * 8, k = at + (w < 4 ? w / 2 : w - 4) * 8;
      double low = w < 4 ? a[g][r][k] : b[g][k][row], high = w < 4 ? a[g][r][k + 1] : b[g][k + 1][row];
      x[l * WORDS + w] = (uint32_t)bits_of(t, low) | (uint32_t)bits_of(t, high) << 16;
    }
    for (int32_t e = 0; e < SUMS; e++) z[l * SUMS + e] = (float)c[g][row + e / 2 * 8][at + e % 2];
  }
  tc_karg args[] = {
      {.data = x, .count = LANES * WORDS}, {.data = z, .count = LANES * SUMS}, {.data = got, .count = LANES * SUMS}};
  tc_kernel *k = kernel_of(arena, text_for(arena, type)), *plain;
  CHECK_OK(tc_kernel_legalise(arena, k, 32, &plain));
  CHECK_OK(tc_kernel_interpret(tc_system_allocator(), plain, 1, args, 3, NULL));
  for (int32_t l = 0; l < LANES; l++)
    for (int32_t e = 0; e < SUMS; e++) {
      int32_t g = l / 32, row = l % 32 / 4 + e / 2 * 8, column = l % 4 * 2 + e % 2;
      double sum = e == 2 ? 0 : c[g][row][column];
      for (int32_t i = 0; i < 16; i++) sum += a[g][row][i] * b[g][i][column];
      float v = got[l * SUMS + e];
      if (!((isnan(sum) && isnan(v)) || (float)sum == v))
        fail_msg("%s, lane %d, result %d: %g instead of %g", type, (int)l, (int)e, (double)v, sum);
    }
}

KERNEL_TEST(interpreted) {
  products(arena, TC_BF16, "bf16");
  products(arena, TC_F16, "f16");
}

KERNEL_TEST(printed) {
  tc_kernel *k = kernel_of(arena, text_for(arena, "f16")), *simple;
  const char *printed = text_of(arena, k);
  assert_non_null(
      strstr(printed, "    %d0, %d1, %d2, %d3 = mma.f16 %a0, %a1, %a2, %a3, %b0, %b1, %c0, %c1, 0.0, %c3\n"));
  assert_string_equal(text_of(arena, kernel_of(arena, printed)), printed);
  CHECK_OK(tc_kernel_simplify(arena, k, &simple));
  CHECK_OK(tc_kernel_verify_plain(simple));
  assert_non_null(strstr(text_of(arena, simple), "mma.f16"));
}

// A product that nobody uses is no work.
KERNEL_TEST(unused) {
  tc_kernel *k = kernel_of(arena, "kernel @k (%y : global f32)\n    blocks 1 lanes 32 {\n  lanes {\n    %l = lane\n    "
                                  "%a, %b, %c, %d = mma.bf16 %l, 0, 0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0\n    store "
                                  "%y[%l], 1.0\n  }\n}\n"),
            *simple;
  CHECK_OK(tc_kernel_simplify(arena, k, &simple));
  assert_null(strstr(text_of(arena, simple), "mma"));
}

KERNEL_TEST(refused) {
  static const struct {
    const char *lanes, *body, *why;
  } rows[] = {
      {"32", "mma.bf16 0, 0, 0, 0, 0, 0, 0.0, 0.0, 0.0", "takes 10 operands, not 9"},
      {"32", "mma.bf16 0, 0, 0, 0, 0, 0.5, 0.0, 0.0, 0.0, 0.0", "expected i32, not a real number"},
      {"32", "mma.bf16 %f, 0, 0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0", "takes six i32 and four f32"},
      {"32", "mma.bf16 0, 0, 0, 0, 0, 0, %l, 0.0, 0.0, 0.0", "takes six i32 and four f32"},
      {"48", "mma.f16 0, 0, 0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0", "must be a multiple of 32"},
      {"32", "mma.f32 0, 0, 0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0", "there is no operation 'mma.f32'"},
  };
  tc_kernel *k;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    expect_error(parse_text(arena,
                            tc_sv_printf(arena,
                                         "kernel @k (%%y : global f32)\n    blocks 1 lanes %s {\n  lanes {\n    %%l = "
                                         "lane\n    %%f = cast %%l : f32\n    %%a, %%b, %%c, %%d = %s\n    store "
                                         "%%y[%%l], %%a\n  }\n}\n",
                                         rows[i].lanes, rows[i].body)
                                .data,
                            &k),
                 rows[i].why);
  expect_error(parse_text(arena,
                          "kernel @k ()\n    blocks 1 lanes 32 {\n  %a, %b, %c, %d = mma.bf16 0, 0, 0, 0, 0, 0, "
                          "0.0, 0.0, 0.0, 0.0\n}\n",
                          &k),
               "only inside a lanes region");
  tc_kb *b = tc_kb_create(arena, TC_SV("k"), 32);
  tc_kval out[4], zero = tc_kb_int(b, TC_I32, 0), real = tc_kb_real(b, TC_F32, 0);
  tc_kb_lanes(b);
  tc_kb_mma(b, TC_K_DOT2, (tc_kval[]){zero, zero, zero, zero}, (tc_kval[]){zero, zero},
            (tc_kval[]){real, real, real, real}, out);
  assert_int_equal(out[0], -1);
  expect_error(tc_kb_failure(b), "dot2 multiplies no tiles");
}

// What does not fit is found by the verifier, too, whoever made the kernel.
KERNEL_TEST(verified) {
  tc_kernel *k = kernel_of(arena, text_for(arena, "bf16"));
  k->lanes = 40;
  expect_error(tc_kernel_verify(k), "must be a multiple of 32");
  k->lanes = 64;
  for (int32_t i = 0; i < k->n_insts; i++)
    if (tc_kir_is_mma(k->insts[i].op)) k->values[k->insts[i].results[3]].dtype = TC_I32;
  expect_error(tc_kernel_verify(k), "the results must be f32");
}

KERNEL_TEST(devices) {
  tc_kernel *k = kernel_of(arena, text_for(arena, "f16")), *fit;
  expect_error(tc_kernel_fit(arena, 0, 1u << TC_BF16, k, &fit), "kernel @k multiplies tiles (mma.f16)");
  CHECK_OK(tc_kernel_fit(arena, 0, 1u << TC_F16, k, &fit));
  assert_ptr_equal(fit, k);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(interpreted), cmocka_unit_test(printed),
                                     cmocka_unit_test(unused),      cmocka_unit_test(refused),
                                     cmocka_unit_test(verified),    cmocka_unit_test(devices)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
