// Dtype tables, and 16-bit floats against a reference that searches all values of the format.
#include <float.h>
#include <math.h>

#include "core/tensor/tensor.h"
#include "tests/unit/unit.h"

TC_TEST(tables_agree) {
  for (tc_dtype d = 1; d < TC_DTYPE_COUNT; d++) {
    assert_int_equal(tc_dtype_parse(tc_sv_of(tc_dtype_name(d))), d);
    assert_true(tc_dtype_size(d) > 0);
    assert_int_equal(tc_dtype_is_complex(d), tc_dtype_class(d) == 'c');
    assert_int_equal(tc_dtype_is_float(d), tc_dtype_class(d) == 'f');
    if (tc_dtype_is_float(d)) assert_int_equal(tc_dtype_real(tc_dtype_complex(d)), d);
    else if (!tc_dtype_is_complex(d)) assert_int_equal(tc_dtype_complex(d), TC_DTYPE_NONE);
    if (tc_dtype_is_complex(d)) {
      assert_int_equal(tc_dtype_complex(d), d);
      assert_int_equal(2 * tc_dtype_size(tc_dtype_real(d)), tc_dtype_size(d));
    }
  }
  static const tc_dtype wrong[] = {TC_DTYPE_NONE, -1, TC_DTYPE_COUNT, 1 << 30};
  for (size_t i = 0; i < 4; i++) {
    assert_int_equal(tc_dtype_size(wrong[i]), 0);
    assert_non_null(tc_dtype_name(wrong[i]));
    assert_int_equal(tc_dtype_class(wrong[i]), '?');
  }
  assert_int_equal(tc_dtype_parse(TC_SV("f33")), TC_DTYPE_NONE);
  assert_int_equal(tc_dtype_parse(TC_SV("")), TC_DTYPE_NONE);
  assert_string_equal(tc_dtype_torch_name(TC_BF16), "torch.bfloat16");
  return TC_OK;
}

// A format described by its width of the mantissa, and its values by definition.
typedef struct format {
  int mant;
  float (*widen)(uint16_t);
  uint16_t (*narrow)(float);
  uint16_t (*narrow_wide)(double);
} format;
static const format formats[] = {{10, tc_f16_to_f32, tc_f32_to_f16, tc_f64_to_f16},
                                 {7, tc_bf16_to_f32, tc_f32_to_bf16, tc_f64_to_bf16}};

static double value_of(const format *f, uint32_t bits) {
  const int exp_bits = 15 - f->mant, bias = (1 << (exp_bits - 1)) - 1,
            exp = (int)(bits >> f->mant & ((1u << exp_bits) - 1));
  const double frac = bits & ((1u << f->mant) - 1);
  const double mag = exp == (1 << exp_bits) - 1 ? (frac != 0 ? (double)NAN : (double)INFINITY)
                     : exp == 0                 ? ldexp(frac, 1 - bias - f->mant)
                                                : ldexp(frac + (1 << f->mant), exp - bias - f->mant);
  return bits >> 15 ? -mag : mag;
}

// Nearest value of the format, ties to even bits; beyond the largest, the value that a longer exponent would have next.
static uint16_t nearest(const format *f, double v) {
  const uint32_t inf = ((1u << (15 - f->mant)) - 1) << f->mant;
  const uint16_t sign = signbit(v) ? 0x8000 : 0;
  const double a = fabs(v);
  if (isinf(a)) return (uint16_t)(sign | inf);
  uint32_t low = 0, high = inf; // value_of(low) <= a < "value" of high
  while (high - low > 1) {
    const uint32_t middle = (low + high) / 2;
    if (value_of(f, middle) <= a) low = middle;
    else high = middle;
  }
  const double below = value_of(f, low);
  const double above =
      high == inf ? value_of(f, inf - 1) + (value_of(f, inf - 1) - value_of(f, inf - 2)) : value_of(f, high);
  const double half = below + (above - below) / 2; // exact: one bit more than the format has
  return (uint16_t)(sign | (a > half || (a == half && (low & 1)) ? high : low));
}

TC_TEST(all_values_survive) {
  for (int i = 0; i < 2; i++) {
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
      const format *f = &formats[i];
      const float wide = f->widen((uint16_t)bits);
      const double exact = value_of(f, bits);
      if (isnan(exact)) {
        const uint16_t quiet = (uint16_t)(bits | 1u << (f->mant - 1));
        assert_true(isnan(wide));
        assert_int_equal(f->narrow(wide) | 1u << (f->mant - 1), quiet);
        assert_int_equal(f->narrow_wide((double)wide) | 1u << (f->mant - 1), quiet);
        continue;
      }
      assert_true((double)wide == exact && !signbit(wide) == !(bits >> 15));
      assert_int_equal(f->narrow(wide), bits);
      assert_int_equal(f->narrow_wide(exact), bits);
      assert_int_equal(nearest(f, exact), bits);
    }
  }
  return TC_OK;
}

static void check_rounding(const format *f, double v) {
  if (isnan(v)) return;
  const uint16_t want = nearest(f, v), got = f->narrow_wide(v);
  if (got != want) fail_msg("%a narrows to %04x, expected %04x (%d mantissa bits)", v, got, want, f->mant);
  const float s = (float)v;
  const uint16_t want_s = nearest(f, (double)s), got_s = f->narrow(s);
  if (got_s != want_s)
    fail_msg("float %a narrows to %04x, expected %04x (%d mantissa bits)", (double)s, got_s, want_s, f->mant);
}

TC_TEST(rounding_is_to_nearest_even_once) {
  uint64_t seed = tc_test_seed();
  for (int i = 0; i < 2; i++) {
    const format *f = &formats[i];
    for (uint32_t bits = 0; bits < 0x7fff; bits++) { // halfway points and their neighbours, in doubles and floats
      const double a = value_of(f, bits), b = value_of(f, bits + 1);
      if (!isfinite(b)) continue;
      const double half = a + (b - a) / 2;
      const double probes[] = {half, nextafter(half, a), nextafter(half, b), (double)nextafterf((float)half, (float)a),
                               (double)nextafterf((float)half, (float)b)};
      for (int k = 0; k < 5; k++) check_rounding(f, k & 1 ? -probes[k] : probes[k]);
    }
    const double edges[] = {65504,   65519.99999, 65520,    65536,      0x1p-24, 0x1p-25,    0x1.0000001p-25,
                            0x1p-26, 0x1p-133,    0x1p-134, 0x1.8p-134, DBL_MAX, DBL_MIN,    4.9e-324,
                            0.0,     -0.0,        INFINITY, -INFINITY,  FLT_MAX, 0x1.ffp127, 0x1.feffffp127};
    for (size_t k = 0; k < sizeof edges / sizeof *edges; k++) check_rounding(f, edges[k]);
    for (int k = 0; k < 400000; k++) {
      const uint64_t r = tc_test_random(&seed);
      double v;
      memcpy(&v, &r, sizeof v);
      check_rounding(f, v);                                                  // any exponent
      check_rounding(f, ldexp((double)(int64_t)r, (int)(r % 60) - 63 - 30)); // near the format's range
      check_rounding(f, ldexp((double)(int64_t)(r >> 40 << 40), -63 - 126 + (int)(r % 256)));
    }
  }
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(tables_agree), cmocka_unit_test(all_values_survive),
                                     cmocka_unit_test(rounding_is_to_nearest_even_once)};
  return TC_RUN(tests);
}
