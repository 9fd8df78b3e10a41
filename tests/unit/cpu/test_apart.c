// Kernels of bf16 whose lanes are held apart (codegen/apart.c), and those that only look like them: compiled against
// interpreted, with NaNs of all bits.
#include "rig.h"

enum { ROW = 101, ROWS = 3 };

// One element of the first pass, whose column is %c, and of the second. `mask`: " if %in", or nothing. gathers: every
// third element comes from %f, whose NaNs have long payloads; else what is rounded is what shared memory held.
static void first_pass(tc_sb *sb, const char *most, const char *extra, const char *mask, int32_t t) {
  const char *other = *mask ? " else 0.0" : "";
  tc_sb_printf(sb,
               "    %%at%d = add %%row, %%c%d\n    %%xv%d = load %%x[%%at%d]%s%s\n    %%wv%d = load %%w[%%c%d]%s%s\n",
               t, t, t, t, mask, other, t, t, mask, other);
  tc_sb_printf(sb, "    %%xf%d = cast %%xv%d : f32\n    %%wf%d = cast %%wv%d : f32\n    %%p%d = mul %%xf%d, %%wf%d\n",
               t, t, t, t, t, t, t);
  tc_sb_printf(sb, "    %%h%d = cast %%p%d : bf16\n    %%q%d = cast %%h%d : f32\n", t, t, t, t);
  for (const char *p = extra; *p; p++) { // # stands for the number
    if (*p == '#') tc_sb_printf(sb, "%d", t);
    else tc_sb_printf(sb, "%c", *p);
  }
  tc_sb_printf(sb, "    store %%t[%%c%d], %%e%d%s\n    %%g%d = gt %%e%d, %s\n    %%s%d = select %%g%d, %%e%d, %s\n", t,
               t, mask, t, t, most, t, t, t, most);
}

static void second_pass(tc_sb *sb, bool gathers, const char *mask, int32_t t) {
  const char *other = *mask ? " else 0.0" : "";
  tc_sb_printf(sb, "    %%at%d = add %%row, %%c%d\n    %%tv%d = load %%t[%%c%d]%s%s\n    %%d%d = sub %%tv%d, %%most\n",
               t, t, t, t, mask, other, t, t);
  tc_sb_printf(sb,
               "    %%lf%d = cast %%c%d : f32\n    %%y%d = fma %%lf%d, 0.125, %%d%d\n    %%u%d = load %%f[%%b]\n"
               "    %%k%d = and %%c%d, 7\n    %%gk%d = load %%f[%%k%d]\n    %%z%d = add %%y%d, %%u%d\n"
               "    %%ch%d = select %%third, %%gk%d, %%z%d\n    %%zz%d = add %%%s%d, 0.0\n",
               t, t, t, t, t, t, t, t, t, t, t, t, t, t, t, t, t, gathers ? "ch" : "tv", t);
  tc_sb_printf(sb, "    %%r%d = cast %%zz%d : bf16\n    store %%o[%%at%d], %%r%d%s\n", t, t, t, t, mask);
}

// extra: gives %e# of %q#, %xv#, %wv#; between: what lies between the passes.
static void write_kernel(tc_sb *sb, int32_t lanes, bool gathers, const char *extra, const char *between) {
  int32_t whole = ROW / lanes * lanes;
  tc_sb_printf(
      sb,
      "kernel @k (%%x : global bf16, %%w : global bf16, %%f : global f32, %%o : global bf16) blocks 1 lanes %d {\n"
      "  shared %%t : f32[%d]\n  lane_array %%v : f32[2]\n  %%b = block\n  %%row = mul %%b, %d\n",
      (int)lanes, ROW, ROW);
  tc_sb_printf(
      sb,
      "  %%top = lanes {\n    %%l = lane\n    %%low = const -1000.0 : f32\n    %%a = for %%i = 0 to %d step %d "
      "(%%m = %%low) {\n    %%c0 = add %%l, %%i\n",
      (int)whole, (int)lanes);
  first_pass(sb, "%m", extra, "", 0);
  tc_sb_printf(sb, "    yield %%s0\n    }\n    %%c1 = add %%l, %d\n    %%in = lt %%c1, %d\n", (int)whole, ROW);
  first_pass(sb, "%a", extra, " if %in", 1);
  tc_sb_printf(sb, "    %%s = select %%in, %%s1, %%a\n    yield %%s\n  }\n  %%most = reduce.max %%top\n  barrier\n%s",
               between);
  tc_sb_printf(
      sb,
      "  lanes {\n    %%l2 = lane\n    %%part = rem %%l2, 3\n    %%third = eq %%part, 0\n    for %%i2 = 0 to %d step "
      "%d {\n    %%c2 = add %%l2, %%i2\n",
      (int)whole, (int)lanes);
  second_pass(sb, gathers, "", 2);
  tc_sb_printf(sb, "    }\n    %%c3 = add %%l2, %d\n    %%in2 = lt %%c3, %d\n", (int)whole, ROW);
  second_pass(sb, gathers, " if %in2", 3);
  tc_sb_printf(sb, "  }\n}\n");
}

// Numbers of one sign and size, infinities, and NaNs of any bits.
static void fill(rig_buffer *b, uint64_t *seed) {
  int32_t size = tc_dtype_size(b->dtype);
  for (int64_t i = 0; i < b->count; i++) {
    uint64_t v = tc_test_random(seed);
    uint32_t bits = v % 8 == 0   ? 0x7f800000u | ((uint32_t)(v >> 8) & 0x7fffff) | (uint32_t)(v >> 63 << 31)
                    : v % 8 == 1 ? 0x7fffffffu
                                 : 0x3f000000u + ((uint32_t)(v >> 8) & 0xffffff);
    if (size == 2) bits >>= 16;
    memcpy(b->data + i * size, &bits, (size_t)size);
  }
}

static tc_status check(tc_arena *arena, bool gathers, const char *extra, const char *between) {
  static const int32_t lanes[] = {8, 16, 32, 64};
  uint64_t seed = tc_test_seed();
  for (int32_t r = 0; r < RIG_ISAS; r++) {
    rig at;
    if (!rig_open(&at, rig_isas[r])) continue;
    for (int32_t i = 0; i < 4; i++) {
      tc_sb sb = tc_sb_make(arena);
      const tc_kernel *k;
      write_kernel(&sb, lanes[i], gathers, extra, between);
      TC_TRY(rig_parse(arena, (tc_sv){sb.text, strlen(sb.text)}, &k));
      rig_buffer b[4] = {rig_buffer_make(TC_BF16, ROW * ROWS, 2), rig_buffer_make(TC_BF16, ROW, 2),
                         rig_buffer_make(TC_F32, ROW * ROWS, 4), rig_buffer_make(TC_BF16, ROW * ROWS, 2)};
      for (int32_t j = 0; j < 3; j++) fill(&b[j], &seed);
      memset(b[3].data, 0, ROW * ROWS * 2);
      rig_check(&at, k, ROWS, b, 4);
      for (int32_t j = 0; j < 4; j++) rig_buffer_free(&b[j]);
    }
    rig_close(&at);
  }
  return TC_OK;
}

#define SAME "    %e# = max %q#, -2.0\n"

TC_TEST(lanes_apart) {
  TC_TRY(check(arena, true, SAME, ""));
  // Through an array of lanes, and with NaNs of f32 that come by way of shared memory and the loop.
  TC_TRY(check(arena, true, "    store %v[1], %q#\n    %e# = load %v[1]\n", ""));
  return check(arena, false, "    %j# = and %c#, 15\n    %n# = load %f[%j#]\n    %e# = add %q#, %n#\n", "");
}

// What does not fit them: bf16 chosen by lanes or in another order, f32 by neighbours, elements and single lanes of
// what groups have written.
TC_TEST(lanes_in_order) {
  TC_TRY(
      check(arena, true, "    %o# = gt %q#, 1.0\n    %ch# = select %o#, %xv#, %wv#\n    %e# = cast %ch# : f32\n", ""));
  TC_TRY(check(arena, true,
               "    %j# = sub 100, %c#\n    %jm# = max %j#, 0\n    %n# = load %w[%jm#]\n    %e# = cast %n# : f32\n",
               ""));
  TC_TRY(check(arena, true, "    %jm# = min %at#, 302\n    %n# = load %f[%jm#]\n    %e# = add %q#, %n#\n", ""));
  TC_TRY(check(arena, true, SAME,
               "  %one = broadcast %top, 3\n  lanes {\n    %l9 = lane\n    store %t[%l9], %one\n  }\n  barrier\n"));
  TC_TRY(check(arena, true, SAME,
               "  lanes {\n    %l9 = lane\n    %m9 = eq %l9, 1\n    %first = load %t[0]\n    store %t[5], %first if "
               "%m9\n  }\n  barrier\n"));
  return check(arena, true, SAME,
               "  lanes {\n    %l9 = lane\n    %j9 = add %l9, 7\n    %n9 = load %t[%j9]\n    %w9 = mul %n9, 0.5\n    "
               "store %t[%j9], "
               "%w9\n  }\n  barrier\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(lanes_apart), cmocka_unit_test(lanes_in_order)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
