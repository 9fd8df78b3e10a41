// Every plain opcode on every type, compiled against interpreted: as vectors of many widths and as scalars, on random
// and on awkward values.
#include "rig.h"

static const tc_dtype types[] = {TC_BOOL, TC_U8, TC_I8, TC_I16, TC_I32, TC_I64, TC_U16, TC_U32, TC_U64, TC_F32, TC_F64};
static const tc_dtype all_types[] = {TC_BOOL, TC_U8,  TC_I8,  TC_I16,  TC_I32, TC_I64, TC_U16,
                                     TC_U32,  TC_U64, TC_F16, TC_BF16, TC_F32, TC_F64};
#define COUNT(a) ((int32_t)(sizeof(a) / sizeof *(a)))
enum { ELEMENTS = 960 };

static bool is_extreme(int32_t op) { return op == TC_K_MIN || op == TC_K_MAX || op == TC_K_FMIN || op == TC_K_FMAX; }

static bool wanted(int32_t op, tc_dtype d, tc_dtype *result) {
  if ((tc_k_op_class(op) != 'a' && tc_k_op_class(op) != 'c') || op == TC_K_RCP_APPROX) return false;
  if (op == TC_K_REM && tc_dtype_is_float(d)) return false; // lowered before plugins see it
  tc_dtype args[3] = {d, d, d};
  return !tc_kir_type_rule(op, tc_kir_arity(op), args, result);
}

// Operands are read as vectors (lanes > 0), or one by one by a block-scope loop around a lanes region.
static void open_kernel(tc_sb *sb, const char *params, int32_t lanes, bool scalar) {
  tc_sb_printf(sb, "kernel @ops (%s) blocks 1 lanes %d {\n  %%b = block\n", params, (int)lanes);
  if (scalar)
    tc_sb_printf(sb, "  %%from = mul %%b, %d\n  %%to = add %%from, %d\n  for %%i = %%from to %%to {\n  lanes {\n",
                 (int)lanes, (int)lanes);
  else tc_sb_printf(sb, "  lanes {\n    %%l = lane\n    %%i = fma %%b, %d, %%l\n", (int)lanes);
}

static void close_kernel(tc_sb *sb, bool scalar) { tc_sb_printf(sb, "%s  }\n}\n", scalar ? "  }\n" : ""); }

static tc_status check_arith(tc_arena *arena, rig *r, tc_dtype d, int32_t lanes, bool scalar, uint64_t *seed) {
  const char *t = tc_dtype_name(d);
  for (int32_t pass = 0; pass < 2; pass++) { // 0: results of the type, 1: bools
    tc_sb sb = tc_sb_make(arena);
    char params[300];
    int32_t n = 0;
    bool zeros = false;
    tc_dtype out = pass ? TC_BOOL : d;
    snprintf(params, sizeof params,
             "%%x : global %s, %%y : global %s, %%z : global %s, %%nz : global %s, %%o : global %s", t, t, t, t,
             tc_dtype_name(out));
    open_kernel(&sb, params, lanes, scalar);
    tc_sb_printf(
        &sb, "    %%a = load %%x[%%i]\n    %%c = load %%y[%%i]\n    %%d = load %%z[%%i]\n    %%n = load %%nz[%%i]\n");
    for (int32_t op = 0; op < TC_K_COUNT; op++) {
      tc_dtype result;
      if (!wanted(op, d, &result) || (tc_k_op_class(op) == 'c') != (pass == 1)) continue;
      int32_t arity = tc_kir_arity(op);
      bool divides = (op == TC_K_DIV || op == TC_K_REM) && !tc_dtype_is_float(d);
      tc_sb_printf(&sb, "    %%r%d = %s %%a%s%s\n    %%j%d = add %%i, %d\n    store %%o[%%j%d], %%r%d\n", n,
                   tc_k_op_text(op), arity > 1 ? divides ? ", %n" : ", %c" : "", arity > 2 ? ", %d" : "", n,
                   n * ELEMENTS, n, n);
      zeros = zeros || is_extreme(op);
      n++;
    }
    if (!pass)
      tc_sb_printf(&sb,
                   "    %%cc = lt %%c, %%d\n    %%rs = select %%cc, %%a, %%d\n    %%js = add %%i, %d\n    store "
                   "%%o[%%js], %%rs\n",
                   n++ * ELEMENTS);
    close_kernel(&sb, scalar);
    const tc_kernel *k;
    TC_TRY(rig_parse(arena, (tc_sv){sb.text, strlen(sb.text)}, &k));
    rig_buffer b[5] = {rig_buffer_make(d, ELEMENTS, 1), rig_buffer_make(d, ELEMENTS, 1),
                       rig_buffer_make(d, ELEMENTS, 1), rig_buffer_make(d, ELEMENTS, 1),
                       rig_buffer_make(out, (int64_t)n * ELEMENTS, 1)};
    for (int32_t i = 0; i < 4; i++) rig_fill(&b[i], seed);
    int32_t size = tc_dtype_size(d);
    for (int32_t i = 0; i < ELEMENTS; i++) {
      bool zero = true;
      for (int32_t j = 0; j < size; j++) zero = zero && b[3].data[i * size + j] == 0;
      if (zero) b[3].data[i * size] = 3;
    }
    memset(b[4].data, 0, (size_t)(n * ELEMENTS * tc_dtype_size(out)));
    // min and max of zeros of both signs may give either
    rig_check_rule(r, k, ELEMENTS / lanes, b, 5, &(rig_rule){.any_zero = zeros});
    for (int32_t i = 0; i < 5; i++) rig_buffer_free(&b[i]);
  }
  return TC_OK;
}

static tc_status each_width(tc_arena *arena, tc_status (*fn)(tc_arena *, rig *, tc_dtype, int32_t, bool, uint64_t *),
                            const tc_dtype *list, int32_t n) {
  static const int32_t widths[] = {4, 8, 16, 32, 64, 1, 3, 24};
  uint64_t seed = tc_test_seed();
  for (int32_t i = 0; i < RIG_ISAS; i++) {
    rig r;
    if (!rig_open(&r, rig_isas[i])) continue;
    for (int32_t t = 0; t < n; t++) {
      // every type at one scalar and two vector widths, which change from run to run
      TC_TRY(fn(arena, &r, list[t], 16, true, &seed));
      for (int32_t w = 0; w < 2; w++) {
        int32_t lanes = widths[tc_test_random(&seed) % COUNT(widths)];
        TC_TRY(fn(arena, &r, list[t], lanes, false, &seed), "with %d lanes of %s on %s", (int)lanes,
               tc_dtype_name(list[t]), rig_isas[i]);
      }
    }
    rig_close(&r);
  }
  return TC_OK;
}

TC_TEST(arithmetic) { return each_width(arena, check_arith, types, COUNT(types)); }

// Values that fit both types, so that the result is specified; floats with fractions, ties of 16-bit rounding.
static void fill_convertible(rig_buffer *b, tc_dtype to, uint64_t *seed) {
  int32_t size = tc_dtype_size(b->dtype);
  bool to_int = !tc_dtype_is_float(to) && to != TC_BOOL;
  if (!tc_dtype_is_float(b->dtype) || !to_int) {
    rig_fill(b, seed);
    if (tc_dtype_is_float(b->dtype) && tc_dtype_size(to) == 2) // ties and near-ties of the narrower type
      for (int64_t i = 0; i < b->count; i += 3) {
        double base = tc_kir_round(to, ((double)(tc_test_random(seed) % 4096) - 2048) / 64), ulp = fabs(base) * 0x1p-11;
        static const double nudge[] = {0, 0x1p-30, -0x1p-30, 0x1p-52, -0x1p-52};
        tc_knum v = {.re = base + (ulp / 2) * (to == TC_BF16 ? 8 : 1) * (1 + nudge[tc_test_random(seed) % 5])};
        tc_kir_write(b->dtype, b->data + i * size, v);
      }
    return;
  }
  bool is_unsigned = tc_dtype_class(to) == 'u';
  double top = ldexp(1, tc_kir_bits(to) - !is_unsigned) * 0.98, limit = b->dtype == TC_F16 ? 60000 : top;
  if (top < limit) limit = top;
  for (int64_t i = 0; i < b->count; i++) {
    double u = (double)(tc_test_random(seed) >> 11) * 0x1p-53;
    tc_knum v = {.re = (i % 3 ? u * 100 : u * limit) * (is_unsigned || i % 2 ? 1 : -1)};
    tc_kir_write(b->dtype, b->data + i * size, v);
  }
}

static tc_status check_casts(tc_arena *arena, rig *r, tc_dtype from, int32_t lanes, bool scalar, uint64_t *seed) {
  for (int32_t t = 0; t < COUNT(all_types); t++) {
    tc_dtype to = all_types[t];
    tc_sb sb = tc_sb_make(arena);
    char params[200];
    bool bits = tc_dtype_size(from) == tc_dtype_size(to) && from != TC_BOOL && to != TC_BOOL;
    snprintf(params, sizeof params, "%%x : global %s, %%o : global %s, %%p : global %s", tc_dtype_name(from),
             tc_dtype_name(to), tc_dtype_name(to));
    open_kernel(&sb, params, lanes, scalar);
    tc_sb_printf(&sb, "    %%a = load %%x[%%i]\n    %%r = cast %%a : %s\n    store %%o[%%i], %%r\n", tc_dtype_name(to));
    if (bits) tc_sb_printf(&sb, "    %%s = bitcast %%a : %s\n    store %%p[%%i], %%s\n", tc_dtype_name(to));
    close_kernel(&sb, scalar);
    const tc_kernel *k;
    TC_TRY(rig_parse(arena, (tc_sv){sb.text, strlen(sb.text)}, &k));
    rig_buffer b[3] = {rig_buffer_make(from, ELEMENTS, 1), rig_buffer_make(to, ELEMENTS, 1),
                       rig_buffer_make(to, ELEMENTS, 1)};
    fill_convertible(&b[0], to, seed);
    memset(b[1].data, 0, (size_t)(ELEMENTS * tc_dtype_size(to)));
    memset(b[2].data, 0, (size_t)(ELEMENTS * tc_dtype_size(to)));
    rig_check(r, k, ELEMENTS / lanes, b, 3);
    for (int32_t i = 0; i < 3; i++) rig_buffer_free(&b[i]);
  }
  return TC_OK;
}

TC_TEST(casts) { return each_width(arena, check_casts, all_types, COUNT(all_types)); }

// Widened numbers that are only chosen from, or change sign, come back as they were; constants among them need not.
static tc_status check_chosen(tc_arena *arena, rig *r, tc_dtype from, int32_t lanes, bool scalar, uint64_t *seed) {
  static const char *const steps[] = {"%%r = neg %%a",
                                      "%%r = abs %%c",
                                      "%%r = max %%a, %%c",
                                      "%%r = min %%a, -0.0",
                                      "%%r = max %%c, 0.3",
                                      "%%p = lt %%a, %%c\n    %%q = max %%c, 1.5\n    %%r = select %%p, %%a, %%q",
                                      "%%q = add %%a, %%c\n    %%r = max %%q, %%c"};
  for (int32_t t = 0; t < COUNT(steps); t++) {
    tc_sb sb = tc_sb_make(arena);
    char params[200];
    const char *d = tc_dtype_name(from);
    snprintf(params, sizeof params, "%%x : global %s, %%y : global %s, %%o : global %s", d, d, d);
    open_kernel(&sb, params, lanes, scalar);
    tc_sb_printf(&sb, "    %%u = load %%x[%%i]\n    %%v = load %%y[%%i]\n    %%a = cast %%u : f32\n"
                      "    %%c = cast %%v : f32\n    ");
    tc_sb_printf(&sb, steps[t]);
    tc_sb_printf(&sb, "\n    %%s = cast %%r : %s\n    store %%o[%%i], %%s\n", d);
    close_kernel(&sb, scalar);
    const tc_kernel *k;
    TC_TRY(rig_parse(arena, (tc_sv){sb.text, strlen(sb.text)}, &k));
    rig_buffer b[3];
    for (int32_t i = 0; i < 3; i++) {
      b[i] = rig_buffer_make(from, ELEMENTS, 1);
      rig_fill(&b[i], seed);
    }
    rig_check_rule(r, k, ELEMENTS / lanes, b, 3, &(rig_rule){.any_zero = true});
    for (int32_t i = 0; i < 3; i++) rig_buffer_free(&b[i]);
  }
  return TC_OK;
}

TC_TEST(chosen_numbers_of_16_bits) {
  static const tc_dtype halves[] = {TC_BF16, TC_F16};
  return each_width(arena, check_chosen, halves, COUNT(halves));
}

// Collectives, and the lanes they broadcast.
static tc_status check_reduce(tc_arena *arena, rig *r, tc_dtype d, int32_t lanes, bool scalar, uint64_t *seed) {
  if (scalar) return TC_OK;
  const char *t = tc_dtype_name(d);
  for (int32_t op = TC_K_REDUCE_ADD; op <= TC_K_BROADCAST; op++) {
    bool logic = op == TC_K_REDUCE_AND || op == TC_K_REDUCE_OR;
    if (tc_dtype_is_float(d) ? logic : false) continue;
    if (d == TC_BOOL && !logic && op != TC_K_BROADCAST) continue;
    tc_sb sb = tc_sb_make(arena);
    char params[200];
    snprintf(params, sizeof params, "%%x : global %s, %%o : global %s", t, t);
    open_kernel(&sb, params, lanes, false);
    tc_sb_printf(&sb, "    %%a = load %%x[%%i]\n    yield %%a\n  }\n");
    const char *text = strstr(sb.text, "  lanes {");
    tc_sv head = {sb.text, (size_t)(text - sb.text)};
    tc_sb all = tc_sb_make(arena);
    tc_sb_printf(&all, TC_SV_FMT "  %%q =%s  %%s = %s %%q%s\n  lanes {\n    store %%o[%%b], %%s\n  }\n}\n",
                 TC_SV_ARG(head), text, tc_k_op_text(op), op == TC_K_BROADCAST ? lanes > 2 ? ", 2" : ", 0" : "");
    const tc_kernel *k;
    TC_TRY(rig_parse(arena, (tc_sv){all.text, strlen(all.text)}, &k));
    rig_buffer b[2] = {rig_buffer_make(d, ELEMENTS, 1), rig_buffer_make(d, ELEMENTS / lanes, 1)};
    rig_fill(&b[0], seed);
    if (tc_dtype_is_float(d) && op <= TC_K_REDUCE_MUL) // sums in another order need values without cancellation
      for (int64_t i = 0; i < ELEMENTS; i++)
        tc_kir_write(d, b[0].data + i * tc_dtype_size(d),
                     (tc_knum){.re = 0.5 + (double)(tc_test_random(seed) % 1000) / 1000});
    memset(b[1].data, 0, (size_t)(ELEMENTS / lanes * tc_dtype_size(d)));
    rig_check_rule(r, k, ELEMENTS / lanes, b, 2,
                   &(rig_rule){.any_zero = true, .relative = op <= TC_K_REDUCE_MUL ? d == TC_F32 ? 1e-5 : 1e-13 : 0});
    for (int32_t i = 0; i < 2; i++) rig_buffer_free(&b[i]);
  }
  return TC_OK;
}

TC_TEST(collectives) { return each_width(arena, check_reduce, types, COUNT(types)); }

TC_TEST(approximate_reciprocal) {
  uint64_t seed = tc_test_seed();
  for (int32_t i = 0; i < RIG_ISAS; i++) {
    rig r;
    if (!rig_open(&r, rig_isas[i])) continue;
    for (int32_t t = 0; t < 2; t++)
      for (int32_t lanes = 8; lanes <= 32; lanes *= 2) {
        tc_dtype d = t ? TC_F64 : TC_F32;
        tc_sb sb = tc_sb_make(arena);
        char params[100];
        snprintf(params, sizeof params, "%%x : global %s, %%o : global %s", tc_dtype_name(d), tc_dtype_name(d));
        open_kernel(&sb, params, lanes, false);
        tc_sb_printf(&sb, "    %%a = load %%x[%%i]\n    %%r = rcp_approx %%a\n    store %%o[%%i], %%r\n");
        close_kernel(&sb, false);
        const tc_kernel *k;
        TC_TRY(rig_parse(arena, (tc_sv){sb.text, strlen(sb.text)}, &k));
        rig_buffer b[2] = {rig_buffer_make(d, ELEMENTS, 1), rig_buffer_make(d, ELEMENTS, 1)};
        for (int64_t e = 0; e < ELEMENTS; e++)
          tc_kir_write(d, b[0].data + e * tc_dtype_size(d),
                       (tc_knum){.re = ((double)(tc_test_random(&seed) % 20001) - 10000.5) / 100});
        rig_check_rule(&r, k, ELEMENTS / lanes, b, 2, &(rig_rule){.relative = 0x1p-12});
        for (int32_t j = 0; j < 2; j++) rig_buffer_free(&b[j]);
      }
    rig_close(&r);
  }
  return TC_OK;
}

// Pairs of bf16, where the processor has them. Numbers of one sign: the order of the sum is the processor's.
TC_TEST(products_of_pairs) {
  uint64_t seed = tc_test_seed();
  for (int32_t i = 0; i < RIG_ISAS; i++) {
    rig r;
    if (!rig_open(&r, rig_isas[i])) continue;
    tc_device_props props = {.struct_size = sizeof props};
    assert_int_equal(r.plugin.device->properties(r.device, &props), TC_STATUS_OK);
    static const int32_t widths[] = {1, 4, 16, 24, 32, 64};
    for (int32_t w = 0; w < COUNT(widths) && props.pairs >> TC_BF16 & 1; w++) {
      int32_t lanes = widths[w];
      tc_sb sb = tc_sb_make(arena);
      open_kernel(&sb, "%x : global i32, %y : global i32, %z : global f32, %o : global f32", lanes, false);
      tc_sb_printf(&sb, "    %%a = load %%x[%%i]\n    %%c = load %%y[%%i]\n    %%d = load %%z[%%i]\n"
                        "    %%r = dot2 %%a, %%c, %%d\n    store %%o[%%i], %%r\n");
      close_kernel(&sb, false);
      const tc_kernel *k;
      TC_TRY(rig_parse(arena, (tc_sv){sb.text, strlen(sb.text)}, &k));
      rig_buffer b[4] = {rig_buffer_make(TC_I32, ELEMENTS, 1), rig_buffer_make(TC_I32, ELEMENTS, 1),
                         rig_buffer_make(TC_F32, ELEMENTS, 1), rig_buffer_make(TC_F32, ELEMENTS, 1)};
      for (int64_t e = 0; e < ELEMENTS; e++) {
        for (int32_t half = 0; half < 4; half++) {
          double v = (double)(1 + tc_test_random(&seed) % 255) * (half < 2 ? 0.25 : 8);
          if (tc_test_random(&seed) % 50 == 0) v = half ? INFINITY : NAN;
          tc_kir_write(TC_BF16, b[half / 2].data + e * 4 + half % 2 * 2, (tc_knum){.re = v});
        }
        tc_kir_write(TC_F32, b[2].data + e * 4, (tc_knum){.re = (double)(tc_test_random(&seed) % 1000) / 8});
      }
      rig_check_rule(&r, k, ELEMENTS / lanes, b, 4, &(rig_rule){.relative = 0x1p-22});
      for (int32_t j = 0; j < 4; j++) rig_buffer_free(&b[j]);
    }
    rig_close(&r);
  }
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(arithmetic),
                                     cmocka_unit_test(casts),
                                     cmocka_unit_test(chosen_numbers_of_16_bits),
                                     cmocka_unit_test(collectives),
                                     cmocka_unit_test(approximate_reciprocal),
                                     cmocka_unit_test(products_of_pairs)};
  return TC_RUN(tests);
}
