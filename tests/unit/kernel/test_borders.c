// Loads of clamped indices, where lanes are threads.
#include "tests/unit/kernel/loads_test.h"

// Elements 2 i and 2 i + 1 of a window of 64 which moves by 16 with the block and begins 20 in front of memory.
#define POSITION "    %p# = mul %b, 16\n    %d# = fma %i#, 2, %p#\n    %s# = sub %d#, 20\n    %t# = add %s#, 1\n"
// The same with four windows a block, of which the last is not passed.
#define ROWS                                                                                     \
  "    %q# = rem %b, 8\n    %r# = shr %l, 1\n    %e# = fma %q#, 4, %r#\n    %c# = min %e#, 29\n" \
  "    %p# = mul %c#, 24\n    %d# = fma %i#, 2, %p#\n    %s# = sub %d#, 20\n    %t# = add %s#, 1\n"
#define REFLECTED(name, at)                                                                                      \
  "    %" name "n# = neg %" at "#\n    %" name "f# = sub 1240, %" at "#\n    %" name "m# = min %" at "#, %" name \
  "f#\n    %" name "# = max %" name "n#, %" name "m#\n"
#define HELD(name, at) "    %" name "m# = max %" at "#, 0\n    %" name "# = min 620, %" name "m#\n"
#define BOTH(name, at) \
  "    %g# = load %x[%" name "#]\n    %h# = load %x[%" at "#]\n    %w# = mul %h#, 3.0\n    %v# = sub %g#, %w#\n"

// In front of memory, inside and behind it the same elements are read; inside by pairs.
KERNEL_TEST(borders) {
  static const char *const indices[] = {POSITION REFLECTED("y", "s") REFLECTED("z", "t") BOTH("y", "z"),
                                        POSITION HELD("y", "s") HELD("z", "t") BOTH("y", "z"),
                                        ROWS REFLECTED("y", "s") REFLECTED("z", "t") BOTH("y", "z")};
  for (size_t i = 0; i < sizeof indices / sizeof *indices; i++) {
    tc_kernel *made, *joined, *k = kernel_with(arena, 4, indices[i]);
    CHECK_OK(tc_kernel_simplify(arena, k, &k));
    CHECK_OK(tc_kernel_split_borders(arena, k, &made));
    assert_int_equal(count(made, TC_K_IF), 1);
    assert_int_equal(count(made, TC_K_LOAD), 16);
    same(arena, k, made);
    CHECK_OK(tc_kernel_simplify(arena, made, &made));
    CHECK_OK(tc_kernel_join_loads(arena, made, &joined));
    assert_int_equal(count(joined, TC_K_LOAD), 12);
    same(arena, k, joined);
  }
}

// Where blocks are nowhere near the ends no clamp is met: the branch without it is the one that runs.
KERNEL_TEST(inside_is_taken) {
  tc_kernel *made, *k = kernel_with(arena, 4, POSITION REFLECTED("y", "s") REFLECTED("z", "t") BOTH("y", "z"));
  CHECK_OK(tc_kernel_split_borders(arena, k, &made));
  const tc_kir_region *other = NULL;
  for (int32_t r = 0; r < made->n_regions; r++)
    if (made->regions[r].kind == TC_KIR_ELSE) other = &made->regions[r];
  assert_non_null(other);
  // Loads of the branch with the clamp read the element of the block's number instead: blocks whose results change by
  // that took it, and are those at the ends.
  for (int32_t i = 0; i < other->insts.count; i++) {
    tc_kinst *in = &made->insts[other->insts.data[i]];
    if (in->op != TC_K_LOAD) continue;
    for (int32_t j = 0; j < made->n_insts; j++)
      if (made->insts[j].op == TC_K_BLOCK) ((tc_kval *)in->args)[0] = made->insts[j].results[0];
  }
  float *a = malloc(2 * ROOM * sizeof *a), *b = a + ROOM;
  run(k, BLOCKS, a);
  run(made, BLOCKS, b);
  const int32_t size = 4 * LANES;
  for (int32_t block = 0; block < BLOCKS; block++) {
    bool inside = 16 * block - 20 >= 0 && 16 * block - 20 + 63 <= 620;
    if ((memcmp(a + block * size, b + block * size, size * sizeof *a) == 0) != inside)
      fail_msg("block %d is %sside", (int)block, inside ? "in" : "out");
  }
  free(a);
}

// What comes from memory or wraps is no position; few loads are not worth a branch, and what is written may not move.
KERNEL_TEST(borders_that_stay) {
  static const struct {
    int32_t per_lane;
    const char *index;
  } cases[] = {
      {1, POSITION REFLECTED("y", "s") REFLECTED("z", "t") BOTH("y", "z")},
      {4, "    %q# = load %x[%b]\n    %r# = cast %q# : i32\n    %s# = add %i#, %r#\n" HELD("y", "s") BOTH("y", "y")},
      {4, "    %q# = mul %i#, %i#\n    %s# = fma %b, 16, %q#\n" HELD("y", "s") BOTH("y", "y")},
      {4, "    %s# = mul %i#, 2\n" HELD("y", "s") BOTH("y", "y")}, // the same in all blocks
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tc_kernel *made, *k = kernel_with(arena, cases[i].per_lane, cases[i].index);
    CHECK_OK(tc_kernel_split_borders(arena, k, &made));
    if (made != k) fail_msg("case %d:\n%s", (int)i, text_of(arena, made));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(borders), cmocka_unit_test(inside_is_taken),
                                     cmocka_unit_test(borders_that_stay)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
