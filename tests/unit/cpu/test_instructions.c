// Sequences that code generation makes shorter than they are written: scaling by a power of two, tables that fit a
// register, and rounding to bf16, which must keep the bits, and divisions marked `fast`, which must be within two units
// in the last place, also with infinities, zeros and NaN.
#include "rig.h"

enum { ELEMENTS = 960 };

static double awkward(uint64_t *seed, int32_t exponents) {
  static const double special[] = {0, -0.0, INFINITY, -INFINITY, NAN};
  uint64_t v = tc_test_random(seed);
  if (v % 16 == 0) return special[v / 16 % 5];
  double x = 0.5 + (double)(v >> 11) * 0x1p-54;
  return ldexp(tc_test_random(seed) % 2 ? x : -x,
               (int32_t)(tc_test_random(seed) % (uint64_t)(2 * exponents)) - exponents);
}

static void open_kernel(tc_sb *sb, const char *params, int32_t lanes) {
  tc_sb_printf(
      sb, "kernel @f (%s) blocks 1 lanes %d {\n  %%b = block\n  lanes {\n    %%l = lane\n    %%i = fma %%b, %d, %%l\n",
      params, (int)lanes, (int)lanes);
}

typedef tc_status check(tc_arena *arena, rig *r, tc_dtype d, int32_t lanes, uint64_t *seed);

static tc_status each(tc_arena *arena, check *f) {
  uint64_t seed = tc_test_seed();
  static const int32_t widths[] = {1, 4, 12, 16, 32, 64};
  for (int32_t i = 0; i < RIG_ISAS; i++) {
    rig r;
    if (!rig_open(&r, rig_isas[i])) continue;
    for (int32_t w = 0; w < 6; w++) {
      TC_TRY(f(arena, &r, TC_F32, widths[w], &seed));
      TC_TRY(f(arena, &r, TC_F64, widths[w], &seed));
    }
    rig_close(&r);
  }
  return TC_OK;
}

// x · 2^(n/2) · 2^(n - n/2), as core/kernel/maths writes it, the factors in either order; what only looks like it; and
// with an n that is
// read from the bits of a sum, and of the number 1.
static tc_status check_scaling(tc_arena *arena, rig *r, tc_dtype d, int32_t lanes, uint64_t *seed) {
  bool wide = d == TC_F64;
  const char *t = tc_dtype_name(d), *u = wide ? "i64" : "i32";
  int32_t bias = wide ? 1023 : 127, mantissa = wide ? 52 : 23, most = wide ? 1500 : 180;
  double magic = wide ? 0x1.8p52 : 0x1.8p23;
  for (int32_t variant = 0; variant < 7; variant++) {
    tc_sb sb = tc_sb_make(arena);
    char params[100];
    snprintf(params, sizeof params, "%%x : global %s, %%n : global %s, %%o : global %s", t, variant == 5 ? t : u, t);
    open_kernel(&sb, params, lanes);
    if (variant == 5)
      tc_sb_printf(&sb, "    %%s = load %%n[%%i]\n    %%sb = bitcast %%s : %s\n    %%k = sub %%sb, %lld\n", u,
                   wide ? 0x4338000000000000ll : 0x4b400000ll);
    else tc_sb_printf(&sb, "    %%k = load %%n[%%i]\n");
    tc_sb_printf(&sb,
                 "    %%a = load %%x[%%i]\n    %%h = shr %%k, %d\n    %%r = sub %%k, %%h\n"
                 "    %%hb = add %%h, %d\n    %%hs = shl %%hb, %d\n    %%p = bitcast %%hs : %s\n"
                 "    %%rb = add %%r, %d\n    %%rs = shl %%rb, %d\n    %%q = bitcast %%rs : %s\n",
                 variant == 4 ? 2 : 1, bias, mantissa, t, variant == 3 ? bias - 1 : bias, mantissa, t);
    tc_sb_printf(&sb, "    %%m = mul %s\n    %%y = mul %s\n    store %%o[%%i], %%y\n  }\n}\n",
                 variant & 1 ? "%p, %a" : "%a, %p",
                 variant == 6  ? "%q, %p"
                 : variant & 2 ? "%q, %m"
                               : "%m, %q");
    const tc_kernel *k;
    TC_TRY(rig_parse(arena, (tc_sv){sb.text, strlen(sb.text)}, &k));
    tc_dtype powers = variant == 5 ? d : wide ? TC_I64 : TC_I32;
    rig_buffer b[3] = {rig_buffer_make(d, ELEMENTS, 1), rig_buffer_make(powers, ELEMENTS, 1),
                       rig_buffer_make(d, ELEMENTS, 1)};
    for (int64_t e = 0; e < ELEMENTS; e++) {
      int64_t n = (int64_t)(tc_test_random(seed) % (uint64_t)(2 * most)) - most;
      if (variant == 4) n /= 2; // the second factor has three quarters of n
      tc_kir_write(d, b[0].data + e * tc_dtype_size(d), (tc_knum){.re = awkward(seed, 2)});
      tc_kir_write(powers, b[1].data + e * tc_dtype_size(d),
                   variant == 5 ? (tc_knum){.re = magic + (double)n} : (tc_knum){.i = n});
    }
    rig_check(r, k, ELEMENTS / lanes, b, 3);
    for (int32_t j = 0; j < 3; j++) rig_buffer_free(&b[j]);
  }
  return TC_OK;
}

TC_TEST(scaling_by_powers_of_two) { return each(arena, check_scaling); }

// A number for a quotient that is promised to be an ordinary one: neither infinite nor 0.
static double moderate(uint64_t *seed) {
  double v = awkward(seed, 25);
  return isinf(v) || v == 0 ? 3 : v;
}

// `plain`: with the promise that nothing is infinite and no divisor 0.
static tc_status check_quotients_of(tc_arena *arena, rig *r, tc_dtype d, int32_t lanes, uint64_t *seed, bool plain) {
  const char *t = tc_dtype_name(d);
  tc_sb sb = tc_sb_make(arena);
  char params[100];
  snprintf(params, sizeof params, "%%x : global %s, %%y : global %s, %%o : global %s", t, t, t);
  open_kernel(&sb, params, lanes);
  tc_sb_printf(&sb,
               "    %%a = load %%x[%%i]\n    %%c = load %%y[%%i]\n    %%q = div %%a, %%c fast%s\n"
               "    store %%o[%%i], %%q\n  }\n}\n",
               plain ? " nowrap" : "");
  const tc_kernel *k;
  TC_TRY(rig_parse(arena, (tc_sv){sb.text, strlen(sb.text)}, &k));
  rig_buffer b[3] = {rig_buffer_make(d, ELEMENTS, 1), rig_buffer_make(d, ELEMENTS, 1), rig_buffer_make(d, ELEMENTS, 1)};
  for (int64_t e = 0; e < ELEMENTS; e++)
    for (int32_t j = 0; j < 2; j++) {
      double v = plain ? moderate(seed) : awkward(seed, d == TC_F32 ? 50 : 500);
      tc_kir_write(d, b[j].data + e * tc_dtype_size(d), (tc_knum){.re = v});
    }
  rig_check_rule(r, k, ELEMENTS / lanes, b, 3, &(rig_rule){.relative = d == TC_F32 ? 0x1p-22 : 0x1p-51});
  for (int32_t j = 0; j < 3; j++) rig_buffer_free(&b[j]);
  return TC_OK;
}

static tc_status check_quotients(tc_arena *arena, rig *r, tc_dtype d, int32_t lanes, uint64_t *seed) {
  TC_TRY(check_quotients_of(arena, r, d, lanes, seed, false));
  return check_quotients_of(arena, r, d, lanes, seed, true);
}

TC_TEST(fast_quotients) { return each(arena, check_quotients); }

// Bits of f32 around what decides how they are rounded to bf16: ties, both sides of them, subnormals, the largest
// numbers, infinities, and NaNs whose bits an addition would carry out of.
static uint32_t bits_to_round(uint64_t *seed) {
  static const uint32_t low[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
  static const uint32_t high[] = {0, 1, 0x7f, 0x80, 0x7f7f, 0x7f80, 0x7fc0, 0x7fff, 0x3f80};
  uint64_t v = tc_test_random(seed);
  uint32_t top = v % 2 ? (uint32_t)(v >> 8) & 0x7fff : high[v / 2 % (sizeof high / sizeof *high)];
  uint64_t w = tc_test_random(seed);
  uint32_t rest = w % 4 ? low[w / 4 % (sizeof low / sizeof *low)] : (uint32_t)(w >> 8) & 0xffff;
  return (uint32_t)(v >> 63 << 31) | top << 16 | rest;
}

static tc_status check_roundings(tc_arena *arena, rig *r, tc_dtype d, int32_t lanes, uint64_t *seed) {
  if (d != TC_F32) return TC_OK;
  tc_sb sb = tc_sb_make(arena);
  open_kernel(&sb, "%x : global f32, %half : global bf16, %whole : global f32", lanes);
  tc_sb_printf(&sb, "    %%a = load %%x[%%i]\n    %%h = cast %%a : bf16\n    %%w = cast %%h : f32\n"
                    "    store %%half[%%i], %%h\n    store %%whole[%%i], %%w\n  }\n}\n");
  const tc_kernel *k;
  TC_TRY(rig_parse(arena, (tc_sv){sb.text, strlen(sb.text)}, &k));
  rig_buffer b[3] = {rig_buffer_make(d, ELEMENTS, 1), rig_buffer_make(TC_BF16, ELEMENTS, 1),
                     rig_buffer_make(d, ELEMENTS, 1)};
  for (int64_t e = 0; e < ELEMENTS; e++) {
    uint32_t bits = bits_to_round(seed);
    memcpy(b[0].data + e * 4, &bits, sizeof bits);
  }
  rig_check(r, k, ELEMENTS / lanes, b, 3);
  for (int32_t j = 0; j < 3; j++) rig_buffer_free(&b[j]);
  return TC_OK;
}

TC_TEST(roundings_to_bf16) { return each(arena, check_roundings); }

// A table of 16 numbers of 32 bits at places that the lanes have, with the bits above theirs or without, and a power of
// two whose exponent is a sum's in sixteenths, cut off.
static tc_status check_tables(tc_arena *arena, rig *r, tc_dtype d, int32_t lanes, uint64_t *seed) {
  if (d != TC_F32) return TC_OK;
  for (int32_t variant = 0; variant < 2; variant++) {
    const tc_kernel *k;
    tc_sb sb = tc_sb_make(arena);
    tc_sb_printf(&sb, "kernel @f (%%x : global f32, %%o : global f32) blocks 1 lanes %d {\n  table %%t : f32 = [1.0",
                 (int)lanes);
    for (int32_t j = 1; j < 16; j++) tc_sb_printf(&sb, ", %d.5", (int)j);
    tc_sb_printf(&sb,
                 "]\n  %%b = block\n  lanes {\n    %%l = lane\n    %%i = fma %%b, %d, %%l\n    %%a = load %%x[%%i]\n"
                 "    %%c = bitcast %%a : i32\n    %%j = %s %%c, %d\n    %%p = load %%t[%%j]\n"
                 "    %%w = sub %%c, %d\n    %%k = shr %%w, 4\n    %%h = shr %%k, 1\n    %%r = sub %%k, %%h\n"
                 "    %%hb = add %%h, 127\n    %%hs = shl %%hb, 23\n    %%hp = bitcast %%hs : f32\n"
                 "    %%rb = add %%r, 127\n    %%rs = shl %%rb, 23\n    %%rp = bitcast %%rs : f32\n"
                 "    %%m = mul %%p, %%hp\n    %%y = mul %%rp, %%m\n    store %%o[%%i], %%y\n  }\n}\n",
                 (int)lanes, variant ? "rem" : "and", variant ? 16 : 15, 0x49400000);
    TC_TRY(rig_parse(arena, (tc_sv){sb.text, strlen(sb.text)}, &k));
    rig_buffer b[2] = {rig_buffer_make(d, ELEMENTS, 1), rig_buffer_make(d, ELEMENTS, 1)};
    for (int64_t e = 0; e < ELEMENTS; e++) {
      int64_t sixteenths = (int64_t)(tc_test_random(seed) % (2 * 16 * 180)) - 16 * 180;
      tc_kir_write(d, b[0].data + e * 4, (tc_knum){.re = 0x1.8p19 + (double)sixteenths / 16});
    }
    rig_check(r, k, ELEMENTS / lanes, b, 2);
    for (int32_t j = 0; j < 2; j++) rig_buffer_free(&b[j]);
  }
  return TC_OK;
}

TC_TEST(tables_in_registers) { return each(arena, check_tables); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(scaling_by_powers_of_two), cmocka_unit_test(tables_in_registers),
                                     cmocka_unit_test(fast_quotients), cmocka_unit_test(roundings_to_bf16)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
