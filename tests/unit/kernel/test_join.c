// Loads of neighbours, where lanes are threads.
#include "tests/unit/kernel/loads_test.h"

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
