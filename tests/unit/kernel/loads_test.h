// What the tests of passes over loads share: kernels that load by given indices, and what they make before and after.
#ifndef TESTS_UNIT_KERNEL_LOADS_TEST_H_
#define TESTS_UNIT_KERNEL_LOADS_TEST_H_

#include <stdlib.h>

#include "tests/unit/kernel/kernel_test.h"

enum { LANES = 8, BLOCKS = 40, ROOM = 4096 };

static inline void run(const tc_kernel *k, int64_t blocks, float *out) {
  float *x = malloc(ROOM * sizeof *x);
  for (int32_t i = 0; i < ROOM; i++) x[i] = (float)(i * 7 % 1013), out[i] = -1;
  tc_karg args[2] = {{.data = x, .count = ROOM}, {.data = out, .count = ROOM}};
  CHECK_OK(tc_kernel_interpret(tc_system_allocator(), k, blocks, args, 2, NULL));
  free(x);
}

// The same results, block by block.
static inline void same(tc_arena *arena, tc_kernel *k, tc_kernel *made) {
  float *a = malloc(2 * ROOM * sizeof *a), *b = a + ROOM;
  tc_kernel *simple;
  CHECK_OK(tc_kernel_verify(made));
  CHECK_OK(tc_kernel_simplify(arena, made, &simple));
  run(k, BLOCKS, a);
  run(simple, BLOCKS, b);
  assert_memory_equal(a, b, ROOM * sizeof *a);
  free(a);
}

static inline int32_t count(const tc_kernel *k, int32_t op) {
  int32_t n = 0;
  for (int32_t i = 0; i < k->n_insts; i++) n += k->insts[i].op == op;
  return n;
}

// A block of `per_lane` elements a lane, each %v# made from its number %i# by the lines given.
static inline tc_kernel *kernel_with(tc_arena *arena, int32_t per_lane, const char *index) {
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

#endif
