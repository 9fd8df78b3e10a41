// Reductions over rows and over columns of one tensor in one kernel: when they are made, and that they compute what two
// would, on every device, for heights that blocks of rows divide and that they do not.
#include "tests/unit/schedule/pipeline.h"

// Launches that are expected with fusion, by device; 0: any number. Without, nothing is joined.
typedef struct launches {
  int32_t of[N_DEVICES];
} launches;
static const launches two = {{2, 2, 0}}, two_everywhere = {{2, 2, 2}}, any = {{0}};

static tc_status check_at(tc_arena *arena, const char *text, tolerance tol, launches want, int32_t n_values,
                          const int64_t *values) {
  pipeline p;
  tc_status s = pipeline_open_at(&p, arena, text, n_values, values);
  for (int32_t d = 0; d < N_DEVICES && s == TC_OK; d++) {
    for (int32_t fuse = 1; fuse >= 0 && s == TC_OK; fuse--) {
      tc_plan *plan = NULL;
      s = pipeline_compile(&p, &devices[d].props, fuse, &plan);
      if (s == TC_OK && fuse && want.of[d] && plan->ops.count != want.of[d])
        s = tc_error(TC_STATUS_MISMATCH, "%d launches on %s", (int)plan->ops.count, devices[d].name);
      if (s == TC_OK) s = pipeline_check(&p, plan, tol);
      if (s != TC_OK) s = tc_status_note(s, "on %s, %s", devices[d].name, fuse ? "fused" : "unfused");
    }
  }
  pipeline_close(&p);
  return s;
}

static tc_status check(tc_arena *arena, const char *text, tolerance tol, launches want) {
  return check_at(arena, text, tol, want, 0, NULL);
}

#define NORM(rows, row)                                                                                           \
  "graph @f (%g : f32[" rows ", " row "] = user \"g\", %x : f32[" rows ", " row "] = user \"x\",\n"               \
  "    %m : f32[" rows ", 1] = user \"m\", %r : f32[" rows ", 1] = user \"r\", %w : f32[" row "] = user \"w\",\n" \
  "    %b : f32[" row "] = user \"b\") {\n"                                                                       \
  "  %dx, %dw, %db = aten::native_layer_norm_backward(%g, %x, [" row "], %m, %r, %w, %b, [true, true, true])\n"   \
  "  return user %dx, user %dw, user %db\n}\n"

TC_TEST(the_backward_of_a_norm) {
  TC_TRY(check(arena, NORM("200", "24"), closely, two));
  TC_TRY(check(arena, NORM("257", "17"), closely, two));
  return check(arena, NORM("3203", "9"), closely, two_everywhere);
}

// The columns' elements are made after the rows' sums.
TC_TEST(softmax_and_a_bias) {
  return check(arena,
               "graph @f (%g : f32[390, 20] = user \"g\", %y : f32[390, 20] = user \"y\") {\n"
               "  %p : f32[390, 20] = aten::mul.Tensor(%g, %y)\n"
               "  %s : f32[390, 1] = aten::sum.dim_IntList(%p, [1], true)\n"
               "  %q : f32[390, 20] = aten::mul.Tensor(%y, %s)\n  %d : f32[390, 20] = aten::sub.Tensor(%p, %q)\n"
               "  %b : f32[20] = aten::sum.dim_IntList(%d, [0])\n  return user %d, user %b\n}\n",
               exactly, two);
}

// Values that cost so much that a row of them lies on chip, and is overwritten by the next row's.
TC_TEST(held_rows) {
  return check(arena,
               "graph @f (%x : f32[300, 40] = user \"x\") {\n  %y : f32[300, 40] = aten::softmax.int(%x, 1, none)\n"
               "  %t : f32[300, 40] = aten::tanh(%y)\n  %e : f32[300, 40] = aten::erf(%t)\n"
               "  %m : f32[300, 1] = aten::amax(%e, [1], true)\n  %z : f32[300, 40] = aten::div.Tensor(%e, %m)\n"
               "  %s : f32[40] = aten::sum.dim_IntList(%z, [0])\n  return user %z, user %s\n}\n",
               closely, any);
}

TC_TEST(other_reductions_and_types) {
  TC_TRY(check(arena,
               "graph @f (%x : i32[260, 12] = user \"x\") {\n  %r : i64[260] = aten::sum.dim_IntList(%x, [1])\n"
               "  %a : i32[12] = aten::amax(%x, [0])\n  %b : i32[12] = aten::amin(%x, [0])\n"
               "  %c : bool[12] = aten::all.dim(%x, 0)\n  return user %r, user %a, user %b, user %c\n}\n",
               exactly, two));
  TC_TRY(check(arena,
               "graph @f (%x : c64[260, 12] = user \"x\") {\n  %r : c64[260] = aten::sum.dim_IntList(%x, [1])\n"
               "  %s : c64[12] = aten::sum.dim_IntList(%x, [0])\n  %q = aten::real(%r)\n"
               "  %t = aten::imag(%s)\n  return user %q, user %t\n}\n",
               exactly, any));
  return check(arena,
               "graph @f (%x : bf16[260, 12] = user \"x\") {\n  %r : bf16[260] = aten::sum.dim_IntList(%x, [1])\n"
               "  %s : bf16[12] = aten::sum.dim_IntList(%x, [0])\n  return user %r, user %s\n}\n",
               (tolerance){.eps = 4e-3}, two);
}

// Rows of several dimensions, elements of several, and rows in another order than memory.
TC_TEST(dimensions) {
  TC_TRY(check(arena,
               "graph @f (%x : f32[7, 31, 20] = user \"x\") {\n  %r : f32[7, 31] = aten::sum.dim_IntList(%x, [2])\n"
               "  %s : f32[20] = aten::sum.dim_IntList(%x, [0, 1])\n  return user %r, user %s\n}\n",
               exactly, two));
  TC_TRY(check(arena,
               "graph @f (%x : f32[150, 4, 5] = user \"x\") {\n  %r : f32[150] = aten::sum.dim_IntList(%x, [1, 2])\n"
               "  %s : f32[4, 5] = aten::sum.dim_IntList(%x, [0])\n  return user %r, user %s\n}\n",
               exactly, two));
  TC_TRY(check(arena,
               "graph @f (%x : f32[11, 29, 16]{16, 176, 1} = user \"x\") {\n"
               "  %r : f32[11, 29] = aten::sum.dim_IntList(%x, [2])\n"
               "  %s : f32[16] = aten::sum.dim_IntList(%x, [0, 1])\n  return user %r, user %s\n}\n",
               exactly, two));
  TC_TRY(check(arena,
               "graph @f (%x : f32[130, 40]{1, 130} = user \"x\") {\n  %r : f32[130] = aten::sum.dim_IntList(%x, [1])\n"
               "  %s : f32[40] = aten::sum.dim_IntList(%x, [0])\n  return user %r, user %s\n}\n",
               exactly, any));
  return check(arena,
               "graph @f (%x : f32[96, 96] = user \"x\") {\n  %r : f32[96] = aten::sum.dim_IntList(%x, [1])\n"
               "  %s : f32[96] = aten::sum.dim_IntList(%x, [0])\n  %a : f32[96] = aten::amax(%x, [0])\n"
               "  return user %r, user %s, user %a\n}\n",
               exactly, two);
}

// What the rows need of the columns cannot be made in the same kernel.
TC_TEST(rows_that_wait_for_columns) {
  return check(arena,
               "graph @f (%x : f32[140, 16] = user \"x\") {\n  %s : f32[1, 16] = aten::sum.dim_IntList(%x, [0], true)\n"
               "  %d : f32[140, 16] = aten::sub.Tensor(%x, %s)\n  %r : f32[140] = aten::sum.dim_IntList(%d, [1])\n"
               "  %t : f32[16] = aten::sum.dim_IntList(%d, [0])\n  return user %d, user %r, user %t\n}\n",
               exactly, any);
}

TC_TEST(symbolic_heights) {
  static const int64_t heights[] = {0, 1, 7, 127, 128, 129, 300};
  for (size_t k = 0; k < sizeof heights / sizeof *heights; k++) {
    TC_TRY(check_at(arena,
                    "graph @f [s0 in [0, inf] hint 1000] (%x : f32[s0, 3, 12] = user \"x\") {\n"
                    "  %r : f32[s0, 3, 1] = aten::sum.dim_IntList(%x, [2], true)\n"
                    "  %d : f32[s0, 3, 12] = aten::sub.Tensor(%x, %r)\n"
                    "  %s : f32[12] = aten::sum.dim_IntList(%d, [0, 1])\n  return user %d, user %s\n}\n",
                    exactly, two, 1, &heights[k]),
           "with s0 = %lld", (long long)heights[k]);
  }
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_backward_of_a_norm),
      cmocka_unit_test(softmax_and_a_bias),
      cmocka_unit_test(held_rows),
      cmocka_unit_test(other_reductions_and_types),
      cmocka_unit_test(dimensions),
      cmocka_unit_test(rows_that_wait_for_columns),
      cmocka_unit_test(symbolic_heights),
  };
  return TC_RUN(tests);
}
