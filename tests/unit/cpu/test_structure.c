// Control flow, lane arrays, tables, shared and scratch memory, checks, atomics, several kernels in a module, refusals.
#include "rig.h"

static rig rigs[RIG_ISAS];
static bool have[RIG_ISAS];

static int open_rigs(void **state) {
  (void)state;
  for (int32_t i = 0; i < RIG_ISAS; i++) have[i] = rig_open(&rigs[i], rig_isas[i]);
  return 0;
}

static int close_rigs(void **state) {
  (void)state;
  for (int32_t i = 0; i < RIG_ISAS; i++)
    if (have[i]) rig_close(&rigs[i]);
  return 0;
}

// A kernel of the form (%x : f32 in, %o : out, %n : i32) on every instruction set; x is random, o starts as zeros.
static tc_status check_text(tc_arena *arena, const char *text, tc_dtype out, int64_t n_in, int64_t n_out,
                            int64_t blocks, int32_t n, int64_t *out_site) {
  const tc_kernel *k;
  uint64_t seed = tc_test_seed();
  TC_TRY(rig_parse(arena, tc_sv_of(text), &k));
  for (int32_t i = 0; i < RIG_ISAS; i++) {
    if (!have[i]) continue;
    rig_buffer b[3] = {rig_buffer_make(TC_F32, n_in, 4), rig_buffer_make(out, n_out, (size_t)tc_dtype_size(out)),
                       rig_scalar(TC_I32, n)};
    for (int64_t e = 0; e < n_in; e++)
      ((float *)(void *)b[0].data)[e] = (float)((double)(tc_test_random(&seed) % 4001) / 100 - 20);
    memset(b[1].data, 0, (size_t)(n_out * tc_dtype_size(out)));
    int64_t site = rig_check(&rigs[i], k, blocks, b, 3);
    if (out_site) *out_site = site;
    rig_buffer_free(&b[0]), rig_buffer_free(&b[1]);
  }
  return TC_OK;
}

#define HEAD(out, lanes) "kernel @k (%x : global f32, %o : global " out ", %n : i32) blocks 1 lanes " #lanes " {\n"

TC_TEST(loops) {
  // Bounds known and not, steps, none and one round, carried scalars and vectors, nesting, unrolling.
  static const char text[] = HEAD(
      "f32",
      16) "  %b = block\n  %lo = sub %n, 3\n  lanes {\n    %l = lane\n    %z = const 0.0 : f32\n    %one = const 1 : "
          "i32\n"
          "    %s, %c = for %i = %lo to %n step 2 (%a = %z, %d = %one) {\n      %j = fma %i, 16, %l\n      %v = load "
          "%x[%j]\n      %a1 = add %a, %v\n"
          "      %d1 = mul %d, 3\n      yield %a1, %d1\n    }\n"
          "    %u = for %i2 = 0 to 5 unroll (%a2 = %s) {\n      %w = for %k2 = 0 to %i2 unroll (%a3 = %a2) {\n        "
          "%ki = cast %k2 : f32\n        %a4 = fma %a3, 0.5, %ki\n        yield %a4\n      }\n      yield %w\n    }\n"
          "    %e = for %i5 = %n to %lo (%a5 = %u) {\n      %a6 = add %a5, 100.0\n      yield %a6\n    }\n"
          "    %f = for %i7 = 4 to 4 (%a7 = %e) {\n      %a8 = add %a7, 100.0\n      yield %a8\n    }\n"
          "    %g = for %i9 = 2147483640 to 2147483647 step 5 (%a9 = %f) {\n      %a10 = add %a9, 1.0\n      yield "
          "%a10\n    }\n"
          "    %q = cast %c : f32\n    %r = add %g, %q\n    %oi = fma %b, 16, %l\n    store %o[%oi], %r\n  }\n}\n";
  for (int32_t n = 3; n < 6; n++) TC_TRY(check_text(arena, text, TC_F32, 96, 48, 3, n, NULL));
  // An induction variable that would overflow, with bounds that are not known; unsigned and 64-bit ones.
  return check_text(
      arena,
      HEAD("i64",
           4) "  %lo = const 2147483600 : i32\n  %hi = sub %lo, %n\n  lanes {\n    %l = lane\n    %z = const 0 : i64\n"
              "    %s = for %i = %lo to 2147483647 step 17 (%a = %z) {\n      %iw = cast %i : i64\n      %a1 = add %a, "
              "%iw\n      yield %a1\n    }\n"
              "    %t = for %i2 = %hi to 2147483647 step 100 (%a2 = %s) {\n      %iw2 = cast %i2 : i64\n      %a3 = "
              "add %a2, %iw2\n      yield %a3\n    }\n"
              "    %lw = cast %l : i64\n    %r = add %t, %lw\n    store %o[%l], %r\n  }\n}\n",
      TC_I64, 4, 4, 1, 7, NULL);
}

TC_TEST(branches) {
  static const char text[] =
      HEAD("f32", 8) "  %b = block\n  %c = lt %b, %n\n  %base = if %c {\n    %t = mul %b, 8\n    yield %t\n  } else "
                     "{\n    %e = mul %n, 8\n    yield %e\n  }\n"
                     "  lanes {\n    %l = lane\n    %i = add %base, %l\n    %v = load %x[%i]\n"
                     "    %r = if %c {\n      %d = eq %b, 1\n      %w = if %d {\n        %p = mul %v, 3.0\n        "
                     "yield %p\n      } else {\n        yield %v\n      }\n      yield %w\n    } else {\n      %h = "
                     "const 7.5 : f32\n      yield %h\n    }\n"
                     "    if %c {\n      %oi = fma %b, 8, %l\n      store %o[%oi], %r\n    }\n  }\n}\n";
  for (int32_t n = 0; n < 4; n++) TC_TRY(check_text(arena, text, TC_F32, 40, 40, 5, n, NULL));
  return TC_OK;
}

TC_TEST(lane_arrays) {
  // Written and read with constant indices (registers), with a running index, with an index that differs by lane,
  // masked.
  static const char text[] = HEAD(
      "f32",
      16) "  lane_array %v : f32[8]\n  lane_array %f : bool[8]\n  lane_array %big : f64[100]\n  %b = block\n"
          "  lanes {\n    %l = lane\n    for %i = 0 to 8 unroll {\n      %q = fma %b, 8, %i\n      %j = fma %q, 16, "
          "%l\n      %e = load %x[%j]\n      store %v[%i], %e\n      %p = gt %e, 0.0\n      store %f[%i], %p\n    }\n"
          "    for %i2 = 0 to 100 {\n      %d = cast %i2 : f64\n      store %big[%i2], %d\n    }\n  }\n"
          "  lanes {\n    %l2 = lane\n    %low = and %l2, 7\n    %odd = and %l2, 1\n    %m = eq %odd, 1\n    store "
          "%v[%low], 5.0 if %m\n    store %v[3], 6.0 if %m\n    store.v2 %v[%n], 1.0, 2.0\n  }\n"
          "  lanes {\n    %l3 = lane\n    %low3 = and %l3, 7\n    %g = load %v[%low3]\n    %z = const 0.0 : f32\n"
          "    %s = for %i3 = 0 to 7 (%a = %g) {\n      %h, %h2 = load.v2 %v[%i3] if true else %z, %z\n      %fl = "
          "load %f[%i3]\n      %t = select %fl, %h, 1.0\n      %a1 = fma %a, 0.5, %t\n      yield %a1\n    }\n"
          "    %w = mul %l3, 6\n    %dd = load %big[%w]\n    %d2 = cast %dd : f32\n    %r = add %s, %d2\n    %oi = fma "
          "%b, 16, %l3\n    store %o[%oi], %r\n  }\n}\n";
  for (int32_t n = 0; n < 7; n += 3) TC_TRY(check_text(arena, text, TC_F32, 3 * 128, 3 * 16, 3, n, NULL));
  return TC_OK;
}

TC_TEST(tables) {
  return check_text(
      arena,
      HEAD("f64",
           8) "  table %w : f64 = [1.0, -0.5, 3.25, 1e300, inf, -0.0, 7.0, 8.0]\n  table %u : u8 = [0, 255, 3, 4]\n  "
              "table %t : bool = [true, false, true, true]\n  table %h : bf16 = [1.0, 2.0, 0.33203125, 4.0]\n"
              "  %b = block\n  lanes {\n    %l = lane\n    %a = load %w[%l]\n    %b1 = load %w[2]\n    %b2 = load "
              "%w[%n]\n    %q = and %l, 3\n    %c = load %u[%q]\n    %d = load %t[%q]\n    %e = load %h[%q]\n"
              "    %cf = cast %c : f64\n    %df = cast %d : f64\n    %ef = cast %e : f64\n    %s1 = add %a, %b1\n    "
              "%s2 = add %s1, %b2\n    %s3 = add %s2, %cf\n    %s4 = add %s3, %df\n    %s5 = add %s4, %ef\n    store "
              "%o[%l], %s5\n  }\n}\n",
      TC_F64, 8, 8, 1, 6, NULL);
}

// A block transposes through shared memory; `size` decides whether that is stack or scratch memory.
static tc_status through_shared(tc_arena *arena, int64_t size) {
  tc_sb sb = tc_sb_make(arena);
  tc_sb_printf(
      &sb,
      "kernel @k (%%x : global f32, %%o : global f32, %%n : i32) blocks 1 lanes 16 {\n  shared %%t : f32[%lld]\n  "
      "lane_array %%big : f32[%lld]\n  %%b = block\n"
      "  lanes {\n    %%l = lane\n    for %%i = 0 to 16 {\n      %%q = fma %%b, 16, %%i\n      %%j = fma %%q, 16, "
      "%%l\n      %%v = load %%x[%%j]\n      %%p = fma %%i, 17, %%l\n      %%p1 = add %%p, %lld\n      store "
      "%%t[%%p1], %%v\n      store %%big[%%i], %%v\n    }\n  }\n  barrier\n"
      "  lanes {\n    %%l2 = lane\n    for %%i2 = 0 to 16 {\n      %%p2 = fma %%l2, 17, %%i2\n      %%p3 = add %%p2, "
      "%lld\n      %%v2 = load %%t[%%p3]\n      %%w2 = load %%big[%%i2]\n      %%s2 = add %%v2, %%w2\n      %%q2 = fma "
      "%%b, 16, %%i2\n      %%j2 = fma %%q2, 16, %%l2\n      store %%o[%%j2], %%s2\n    }\n  }\n"
      "  barrier\n}\n",
      (long long)size, (long long)(size / 16), (long long)(size - 17 * 16), (long long)(size - 17 * 16));
  return check_text(arena, sb.text, TC_F32, 4 * 256, 4 * 256, 4, 0, NULL);
}

TC_TEST(shared_memory) {
  TC_TRY(through_shared(arena, 17 * 16));
  TC_TRY(through_shared(arena, 40000));
  return through_shared(arena, 300000);
}

TC_TEST(uniform_work) {
  // Collectives feed block scope, which feeds lanes again; stores of one value by all lanes, and by one lane.
  return check_text(
      arena,
      HEAD("f32", 16) "  %b = block\n  %q, %q2 = lanes {\n    %l = lane\n    %i = fma %b, 16, %l\n    %v = load "
                      "%x[%i]\n    %c = load %x[%b]\n    yield %v, %c\n  }\n"
                      "  %mx = reduce.max %q\n  %third = broadcast %q, 3\n  %u = broadcast %q2, 0\n  %pos = gt %mx, "
                      "10.0\n  %s = select %pos, %mx, %third\n  %s2 = add %s, %u\n"
                      "  lanes {\n    %l2 = lane\n    %at = mul %b, 4\n    store %o[%at], %s2\n    %at1 = add %at, 1\n "
                      "   %last = eq %l2, 9\n    %lf = cast %l2 : f32\n    store %o[%at1], %lf if %last\n    %at2 = "
                      "add %at, 2\n    store.v2 %o[%at2], %s2, %lf\n  }\n}\n",
      TC_F32, 80, 20, 5, 0, NULL);
}

TC_TEST(checks) {
  static const char text[] = HEAD("f32", 16) "  %b = block\n  lanes {\n    %l = lane\n    %i = fma %b, 16, %l\n    %ok "
                                             "= lt %i, %n\n    check %ok, 42\n    %ok2 = lt %i, 1000\n    check %ok2, "
                                             "43\n    %v = load %x[%i] if %ok else 0.0\n    store %o[%i], %v\n  }\n}\n";
  int64_t site;
  TC_TRY(check_text(arena, text, TC_F32, 64, 64, 4, 64, &site));
  assert_int_equal(site, -1);
  TC_TRY(check_text(arena, text, TC_F32, 64, 64, 4, 50, &site));
  assert_int_equal(site, 42);
  TC_TRY(check_text(
      arena,
      HEAD("f32", 4) "  %ok = lt %n, 5\n  check %ok, 0\n  lanes {\n    %l = lane\n    store %o[%l], 1.0\n  }\n}\n",
      TC_F32, 4, 4, 2, 9, &site));
  assert_int_equal(site, 0);
  return TC_OK;
}

TC_TEST(atomics) {
  static const char *const types[] = {"i32", "i64", "f32", "f64", "u8"};
  for (int32_t t = 0; t < 5; t++) {
    tc_sb sb = tc_sb_make(arena);
    tc_sb_printf(&sb,
                 "kernel @k (%%x : global f32, %%o : global %s, %%n : i32) blocks 1 lanes 16 {\n  %%b = block\n  lanes "
                 "{\n    %%l = lane\n    %%i = and %%l, 3\n    %%m = lt %%l, %%n\n    %%v = cast %%l : %s\n    "
                 "atomic_add %%o[%%i], %%v if %%m\n    atomic_add %%o[4], %s\n  }\n}\n",
                 types[t], types[t], types[t][0] == 'f' ? "2.0" : "2");
    TC_TRY(check_text(arena, sb.text, tc_dtype_parse(tc_sv_of(types[t])), 4, 5, 3, 11, NULL));
  }
  return TC_OK;
}

TC_TEST(many_parameters) {
  tc_sb sb = tc_sb_make(arena);
  tc_sb_printf(&sb, "kernel @k (%%o : global f64");
  static const char *const types[] = {"f32", "i32", "i64", "u8", "bool", "f16", "bf16", "f64", "i16", "u32"};
  for (int32_t i = 0; i < 60; i++) tc_sb_printf(&sb, ", %%p%d : %s", i, types[i % 10]);
  tc_sb_printf(&sb, ") blocks 1 lanes 8 {\n  lanes {\n    %%l = lane\n    %%s0 = cast %%l : f64\n");
  for (int32_t i = 0; i < 60; i++)
    tc_sb_printf(&sb, "    %%c%d = cast %%p%d : f64\n    %%s%d = add %%s%d, %%c%d\n", i, i, i + 1, i, i);
  tc_sb_printf(&sb, "    store %%o[%%l], %%s60\n  }\n}\n");
  const tc_kernel *k;
  TC_TRY(rig_parse(arena, (tc_sv){sb.text, strlen(sb.text)}, &k));
  for (int32_t r = 0; r < RIG_ISAS; r++) {
    if (!have[r]) continue;
    rig_function f = rig_load(&rigs[r], k);
    double out[8], want = 0;
    tc_launch_arg args[61] = {{.kind = TC_ARG_MEMORY, .value = (uintptr_t)out}};
    for (int32_t i = 0; i < 60; i++) {
      tc_dtype d = tc_dtype_parse(tc_sv_of(types[i % 10]));
      tc_knum v = tc_kir_int(d, i % 7);
      want += tc_dtype_is_float(d) ? v.re : (double)v.i;
      args[1 + i] = (tc_launch_arg){.kind = TC_ARG_SCALAR, .bytes = tc_dtype_size(d), .value = tc_kir_to_bits(d, v)};
    }
    tc_launch l = {.struct_size = sizeof l, .function = f.function, .blocks = 1, .args = args, .n_args = 61};
    assert_int_equal(rigs[r].plugin.device->launch(rigs[r].device, 0, &l), TC_STATUS_OK);
    for (int32_t i = 0; i < 8; i++) assert_true(out[i] == want + i);
    l.n_args = 60;
    assert_int_equal(rigs[r].plugin.device->launch(rigs[r].device, 0, &l), TC_STATUS_INVALID_ARGUMENT);
    rigs[r].plugin.device->module_unload(rigs[r].device, f.module);
  }
  return TC_OK;
}

TC_TEST(modules_of_several_kernels) {
  const tc_kernel *k[3];
  rig *r = &rigs[0];
  const char *names[] = {"a", "b.c", "c_1"};
  for (int32_t i = 0; i < 3; i++)
    TC_TRY(rig_parse(arena,
                     tc_sv_printf(arena,
                                  "kernel @%s (%%o : global i32) blocks 1 lanes 8 {\n  table %%t : i32 = [%d, 5, 6, "
                                  "7]\n  %%b = block\n  lanes {\n    %%l = lane\n    %%i = fma %%b, 8, %%l\n    %%v = "
                                  "load %%t[%%b]\n    %%w = add %%l, %%v\n    store %%o[%%i], %%w\n  }\n}\n",
                                  names[i], i + 10),
                     &k[i]));
  rig_blob code, again, text = {0};
  assert_int_equal(rig_compile(r, k, 3, &code, &text), TC_STATUS_OK);
  assert_non_null(strstr(text.data, "c_1"));
  assert_int_equal(rig_compile(r, k, 3, &again, NULL), TC_STATUS_OK);
  assert_int_equal(code.size, again.size); // pure: the same kernels give the same object
  assert_memory_equal(code.data, again.data, code.size);
  tc_handle module, f;
  // from an address that is not aligned
  char *shifted = malloc(code.size + 1);
  memcpy(shifted + 1, code.data, code.size);
  assert_int_equal(r->plugin.device->module_load(r->device, shifted + 1, code.size, &module), TC_STATUS_OK);
  free(shifted);
  for (int32_t i = 0; i < 3; i++) {
    int32_t out[32];
    assert_int_equal(r->plugin.device->function(r->device, module, tc_sv_of(names[i]), &f), TC_STATUS_OK);
    tc_launch_arg args[] = {{.kind = TC_ARG_MEMORY, .value = (uintptr_t)out}};
    tc_launch l = {.struct_size = sizeof l, .function = f, .blocks = 4, .grain = 1, .args = args, .n_args = 1};
    assert_int_equal(r->plugin.device->launch(r->device, 0, &l), TC_STATUS_OK);
    for (int32_t e = 0; e < 32; e++) assert_int_equal(out[e], e % 8 + (e < 8 ? i + 10 : 4 + e / 8));
  }
  assert_int_equal(r->plugin.device->function(r->device, module, tc_sv_of("nothing"), &f), TC_STATUS_NOT_FOUND);
  assert_int_equal(r->plugin.device->function(r->device, module, tc_sv_of("a.body"), &f), TC_STATUS_NOT_FOUND);
  r->plugin.device->module_unload(r->device, module);
  free(code.data), free(again.data), free(text.data);
  const tc_kernel *same[2] = {k[0], k[0]};
  assert_int_equal(rig_compile(r, same, 2, &code, NULL), TC_STATUS_INVALID_ARGUMENT);
  assert_non_null(strstr(r->diag, "same name"));
  return TC_OK;
}

static tc_status refused(tc_arena *arena, const char *text, const char *part) {
  tc_lexer lx;
  tc_kernel *k;
  tc_lex_init(&lx, arena, TC_SV("test.tc"), tc_sv_of(text));
  TC_TRY(tc_kernel_parse(arena, &lx, &k));
  rig_blob code;
  const tc_kernel *one = k;
  int32_t s = rig_compile(&rigs[0], &one, 1, &code, NULL);
  if (s == TC_STATUS_OK || !strstr(rigs[0].diag, part))
    fail_msg("status %d, '%s', expected '%s'", s, rigs[0].diag, part);
  free(code.data);
  return TC_OK;
}

TC_TEST(refusals) {
  TC_TRY(refused(arena,
                 "kernel @k (%o : global f32) blocks 1 lanes 8 {\n  lanes {\n    %l = lane\n    %f = cast %l : f32\n   "
                 " %e = exp %f\n    store %o[%l], %e\n  }\n}\n",
                 "exp must be lowered"));
  TC_TRY(refused(arena,
                 "kernel @k (%o : global c64) blocks 1 lanes 8 {\n  lanes {\n    %l = lane\n    %v = load %o[%l]\n    "
                 "store %o[%l], %v\n  }\n}\n",
                 "type"));
  TC_TRY(refused(arena,
                 "kernel @k (%o : global f16) blocks 1 lanes 8 {\n  lanes {\n    %l = lane\n    %v = load %o[%l]\n    "
                 "%w = add %v, %v\n    store %o[%l], %w\n  }\n}\n",
                 "16-bit"));
  TC_TRY(refused(
      arena,
      "kernel @k (%o : global f32) blocks 1 lanes 512 {\n  lanes {\n    %l = lane\n    store %o[%l], 1.0\n  }\n}\n",
      "512 lanes"));
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(loops),           cmocka_unit_test(branches),
                                     cmocka_unit_test(lane_arrays),     cmocka_unit_test(tables),
                                     cmocka_unit_test(shared_memory),   cmocka_unit_test(uniform_work),
                                     cmocka_unit_test(checks),          cmocka_unit_test(atomics),
                                     cmocka_unit_test(many_parameters), cmocka_unit_test(modules_of_several_kernels),
                                     cmocka_unit_test(refusals)};
  return cmocka_run_group_tests(tests, open_rigs, close_rigs);
}
