// Loads of neighbours, where lanes are threads.
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

// A block of `per_lane` elements a lane, each %v# made from its number %i# by the lines given.
static tc_kernel *kernel_with(tc_arena *arena, int32_t per_lane, const char *index) {
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
    tc_kernel *k = kernel_with(arena, 4, cases[i].index), *made;
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

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(neighbours), cmocka_unit_test(neighbours_that_stay)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
