// Passes over the indices of kernels whose lanes are threads: borders, loads of neighbours, shifts.
#include <stdlib.h>

#include "tests/unit/kernel/kernel_test.h"

enum { LANES = 8, BLOCKS = 40, ROOM = 4096 };

static void run(const tc_kernel *k, int64_t blocks, float *out) {
  float *x = malloc(ROOM * sizeof *x);
  for (int32_t i = 0; i < ROOM; i++) x[i] = (float)(i * 7 % 1013), out[i] = -1;
  tc_karg args[2] = {{.data = x, .count = ROOM}, {.data = out, .count = ROOM}};
  CHECK_OK(tc_kernel_interpret(tc_system_allocator(), k, blocks, args, 2, NULL));
  free(x);
}

// The same results, block by block.
static void same(tc_arena *arena, tc_kernel *k, tc_kernel *made) {
  float *a = malloc(2 * ROOM * sizeof *a), *b = a + ROOM;
  tc_kernel *simple;
  CHECK_OK(tc_kernel_verify(made));
  CHECK_OK(tc_kernel_simplify(arena, made, &simple));
  run(k, BLOCKS, a);
  run(simple, BLOCKS, b);
  assert_memory_equal(a, b, ROOM * sizeof *a);
  free(a);
}

static int32_t count(const tc_kernel *k, int32_t op) {
  int32_t n = 0;
  for (int32_t i = 0; i < k->n_insts; i++) n += k->insts[i].op == op;
  return n;
}

// A frame of 16 of `n` samples, every 4, reflected at both ends by the lines given for element %i; `pad` in front.
static tc_kernel *frames(tc_arena *arena, int32_t per_lane, const char *index) {
  tc_sb sb = tc_sb_make(arena);
  tc_sb_printf(&sb,
               "kernel @k (%%x : global f32 readonly noalias align 16, %%y : global f32 writeonly noalias align 16)\n"
               "    blocks 1 lanes %d {\n  %%b = block\n  lanes {\n    %%l = lane\n",
               LANES);
  for (int32_t j = 0; j < per_lane; j++) {
    tc_sb_printf(&sb, "    %%i%d = add %%l, %d\n", j, j * LANES);
    for (const char *c = index; *c; c++) {
      if (*c == '#') tc_sb_printf(&sb, "%d", j);
      else tc_sb_printf(&sb, "%c", *c);
    }
    tc_sb_printf(&sb, "    %%o%d = fma %%b, %d, %%i%d\n    store %%y[%%o%d], %%v%d\n", j, per_lane * LANES, j, j, j);
  }
  tc_sb_printf(&sb, "  }\n}\n");
  return kernel_of(arena, tc_sb_view(&sb).data);
}

#define REFLECTED                                                                                    \
  "    %f# = fma %b, 4, %i#\n    %p# = sub %f#, 20\n    %m# = sub 20, %f#\n    %e# = sub 254, %p#\n" \
  "    %n# = min %p#, %e#\n    %r# = max %m#, %n#\n    %v# = load %x[%r#]\n"

KERNEL_TEST(border_blocks) {
  tc_kernel *k = frames(arena, 8, REFLECTED), *made;
  CHECK_OK(tc_kernel_borders(arena, k, BLOCKS / 2, BLOCKS, &made));
  assert_ptr_not_equal(made, k);
  assert_int_equal(count(made, TC_K_IF), 1);
  assert_int_equal(count(made, TC_K_LOAD), 16); // both copies
  assert_int_equal(count(made, TC_K_MIN) + count(made, TC_K_MAX), 16);
  same(arena, k, made);
}

// Too little to gain, nothing certain in the middle, sums that may wrap, minima of what memory has: the kernel stays.
KERNEL_TEST(no_borders) {
  static const struct {
    int32_t per_lane;
    const char *index;
  } cases[] = {
      {3, REFLECTED},
      {8, "    %p# = fma %b, 4, %i#\n    %r# = min %p#, 84\n    %v# = load %x[%r#]\n"},
      {8, "    %w# = mul %b, 268435456\n    %f# = add %w#, %i#\n    %q# = max %f#, 0\n    %r# = rem %q#, 64\n"
          "    %v# = load %x[%r#]\n"},
      {8, "    %g# = load %x[%i#]\n    %h# = cast %g# : i32\n    %r# = min %h#, %i#\n    %v# = load %x[%r#]\n"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tc_kernel *k = frames(arena, cases[i].per_lane, cases[i].index), *made;
    CHECK_OK(tc_kernel_borders(arena, k, BLOCKS / 2, BLOCKS, &made));
    if (made != k) fail_msg("case %d is changed:\n%s", (int)i, text_of(arena, made));
  }
}

// A grid of which no size is known: products of the block's number may wrap.
KERNEL_TEST(no_borders_of_any_grid) {
  tc_kernel *k = frames(arena, 8, REFLECTED), *made;
  CHECK_OK(tc_kernel_borders(arena, k, BLOCKS / 2, INT64_MAX, &made));
  assert_ptr_equal(made, k);
  CHECK_OK(tc_kernel_borders(arena, k, BLOCKS / 2, INT32_MAX, &made));
  assert_ptr_equal(made, k);
}

#define PAIR(first, second)                                                                                   \
  "    %d# = shl %i#, 1\n    %s# = add %d#, 1\n    %g# = load %x[" first "]\n    %h# = load %x[" second "]\n" \
  "    %t# = mul %h#, 3.0\n    %v# = sub %g#, %t#\n"

KERNEL_TEST(neighbours) {
  static const struct {
    const char *index;
    int32_t loads;
  } cases[] = {
      {PAIR("%d#", "%s#"), 4},
      {PAIR("%s#", "%d#"), 4},
      {"    %a# = mul %i#, 3\n    %c# = add %a#, 1\n    %g# = load %x[%a#]\n    %h# = load %x[%c#]\n    %v# = sub %g#, "
       "%h#\n",
       8}, // odd ones among them
      {"    %a# = mul %i#, 2\n    %c# = add %a#, 2\n    %g# = load %x[%a#]\n    %h# = load %x[%c#]\n    %v# = sub %g#, "
       "%h#\n",
       8},
      {"    %a# = mul %i#, 2\n    %c# = add %a#, 1\n    %q# = lt %i#, 9\n    %g# = load %x[%a#]\n"
       "    %h# = load %x[%c#] if %q# else 1.0\n    %v# = sub %g#, %h#\n",
       8},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tc_kernel *k = frames(arena, 4, cases[i].index), *made;
    CHECK_OK(tc_kernel_join_loads(arena, k, &made));
    if (count(made, TC_K_LOAD) != cases[i].loads) fail_msg("case %d:\n%s", (int)i, text_of(arena, made));
    same(arena, k, made);
  }
}

// What is written between two loads, and memory that is not aligned to pairs, keep them apart.
KERNEL_TEST(neighbours_that_stay) {
  static const char *const heads[] = {"%x : global f32 readonly noalias align 4, %y : global f32",
                                      "%x : global f32 align 16, %y : global f32"};
  for (size_t i = 0; i < 2; i++) {
    tc_kernel *made,
        *k = kernel_of(arena, tc_sv_printf(arena,
                                           "kernel @k (%s)\n    blocks 1 lanes 8 {\n  lanes {\n    %%l = lane\n"
                                           "    %%a = mul %%l, 2\n    %%c = add %%a, 1\n    %%g = load %%x[%%a]\n"
                                           "    %%h = load %%x[%%c]\n    %%v = sub %%g, %%h\n    store %%y[%%l], %%v\n"
                                           "  }\n}\n",
                                           heads[i])
                                  .data);
    CHECK_OK(tc_kernel_join_loads(arena, k, &made));
    assert_ptr_equal(made, k);
  }
}

KERNEL_TEST(shifts) {
  tc_kernel *made, *simple,
      *k = frames(arena, 6,
                  "    %s# = shr %i#, 3\n    %a# = add %i#, %s#\n    %z# = sub 200, %i#\n    %q# = shr %z#, 3\n"
                  "    %c# = sub %i#, 77\n    %e# = shr %c#, 2\n    %u# = add %q#, %a#\n    %w# = add %e#, 40\n"
                  "    %g# = load %x[%u#]\n    %h# = load %x[%w#]\n    %v# = sub %g#, %h#\n");
  CHECK_OK(tc_kernel_split_shifts(arena, k, BLOCKS, &made));
  same(arena, k, made);
  CHECK_OK(tc_kernel_simplify(arena, made, &simple));
  assert_int_equal(count(simple, TC_K_SHR), 3); // of the lane, of what is mirrored, and of the lane less 77
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(border_blocks),          cmocka_unit_test(no_borders),
                                     cmocka_unit_test(no_borders_of_any_grid), cmocka_unit_test(neighbours),
                                     cmocka_unit_test(neighbours_that_stay),   cmocka_unit_test(shifts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
