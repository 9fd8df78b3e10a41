// Schedules of graphs that were once merged wrongly, and of those that must be one kernel.
#include "tests/unit/schedule/pipeline.h"

TC_TEST(softmax_and_norms_are_one_kernel) {
  TC_TRY(pipeline_all(arena,
                      "graph @f (%x : f32[37, 77] = user \"x\") {\n"
                      "  %y : f32[37, 77] = aten::softmax.int(%x, 1, none)\n  return user %y\n}\n",
                      closely, 1));
  return pipeline_all(arena,
                      "graph @f [s0 in [1, inf] hint 19] (%x : f32[s0, 65] = user \"x\", %w : f32[65] = user \"w\") {\n"
                      "  %a : f32[s0, 65] = aten::add.Tensor(%x, %x)\n"
                      "  %y : f32[s0, 65] = aten::layer_norm(%a, [65], %w, none, 0.01)\n"
                      "  %z : f32[s0, 65] = aten::gelu(%y)\n  return user %z\n}\n",
                      closely, 1);
}

// Two reductions and an output each read the other's inputs: merging both ways would be a cycle, found only when groups
// are searched in their own order, not in that of their nodes.
TC_TEST(merging_makes_no_cycle) {
  return pipeline_all(
      arena,
      "graph @f (%x0 : f32[4, 4] = user \"a\", %x1 : f32[255, 1] = user \"b\", %x2 : f32[1, 1] = user \"c\") {\n"
      "  %m : f32[1, 1] = aten::amin(%x1, [0, 1], true)\n"
      "  %v : f32[4, 4] = aten::maximum(%m, %x0)\n"
      "  %t : bool[1, 1] = aten::any.dims(%x0, [0, 1], true)\n"
      "  %w : f32[1, 1] = aten::where.self(%t, %m, %x2)\n"
      "  %n : f32[1, 1] = aten::abs(%m)\n  return user %v, user %w, user %n\n}\n",
      exactly, 0);
}

// The reader of a reduction was merged with others first, in an order of its own; the reduction joined through a
// sibling.
TC_TEST(a_merged_reader_keeps_its_order) {
  return pipeline_all(arena,
                      "graph @f (%x : f32[2, 1, 2, 63] = user \"x\", %y : f32[1, 1, 2, 63] = user \"y\") {\n"
                      "  %t : bool[1, 1, 2, 63] = aten::any.dims(%x, [0, 1], true)\n"
                      "  %r : bool[1, 2, 63] = aten::reshape(%t, [1, 2, 63])\n"
                      "  %w : f32[2, 1, 2, 63] = aten::where.self(%t, %x, %y)\n"
                      "  %m : f32[1, 1, 2, 63] = aten::neg(%y)\n  return user %r, user %w, user %m\n}\n",
                      exactly, 0);
}

// Two reduced variables with neighbouring strides, and a pointwise member that sees the domain in another
// factorisation.
TC_TEST(variables_join_only_where_indices_agree) {
  return pipeline_all(
      arena,
      "graph @f [s0 in [2, 4096] hint 5] (%x : i64[3, s0, 16, s0] = user \"x\") {\n"
      "  %d : i64[3, s0, 16, s0] = aten::mul.Scalar(%x, 2)\n"
      "  %s : i64[1, 1, 16, 1] = aten::sum.dim_IntList(%x, [0, 1, 3], true)\n  return user %d, user %s\n}\n",
      exactly, 0);
}

TC_TEST(rows_of_one_element_are_stored) {
  TC_TRY(pipeline_all(arena,
                      "graph @f [s0 in [1, inf] hint 7] (%x : f32[s0, 3] = user \"x\", %w : f32[1, 3] = user \"w\") {\n"
                      "  %p : f32[s0, 1] = aten::linear(%x, %w, none)\n  %q : f32[s0] = aten::reshape(%p, [s0])\n"
                      "  %r : f32[s0, 1] = aten::neg(%p)\n  return user %q, user %r\n}\n",
                      exactly, 0));
  return pipeline_all(arena,
                      "graph @f (%x : f32[1] = user \"x\") {\n  %a : f32[1] = aten::sigmoid(%x)\n"
                      "  %s : f32[1] = aten::softmax.int(%a, 0, none)\n  %b : f32[1] = aten::add.Tensor(%a, %s)\n"
                      "  return user %a, user %b\n}\n",
                      closely, 0);
}

TC_TEST(reductions_beside_a_template_wait_for_it) {
  return pipeline_all(
      arena,
      "graph @f (%x : f32[5, 32] = user \"x\", %w : f32[13, 32] = user \"w\", %b : f32[13] = user \"b\") {\n"
      "  %p : f32[5, 13] = aten::linear(%x, %w, %b)\n  %n : f32[13] = aten::layer_norm(%b, [13], none, none, 0.01)\n"
      "  %m : f32[5, 13] = aten::layer_norm(%p, [13], none, none, 0.01)\n"
      "  %y : f32[5, 13] = aten::maximum(%m, %n)\n  return user %y\n}\n",
      closely, 0);
}

// What a row would keep on chip is computed again where lanes run along columns.
TC_TEST(columns_keep_no_tiles) {
  return pipeline_all(arena,
                      "graph @f (%x : f32[5, 127]{1, 5} = user \"x\") {\n  %s : f32[5, 127]{1, 5} = aten::sin(%x)\n"
                      "  %t : f32[1, 127] = aten::sum.dim_IntList(%s, [0], true)\n"
                      "  %y : f32[5, 127] = aten::softmax.int(%s, 1, none)\n"
                      "  %z : f32[5, 127] = aten::softmax.int(%s, 0, none)\n  return user %t, user %y, user %z\n}\n",
                      closely, 0);
}

TC_TEST(bools_compute_with_logic) {
  return pipeline_all(arena,
                      "graph @f (%a : bool[3, 17] = user \"a\", %b : bool[17] = user \"b\") {\n"
                      "  %s : bool[3, 17] = aten::add.Tensor(%a, %b)\n  %p : bool[3, 17] = aten::mul.Tensor(%a, %b)\n"
                      "  %x : bool[3, 17] = aten::maximum(%a, %b)\n  %n : bool[3, 17] = aten::minimum(%a, %b)\n"
                      "  %h : bool[3] = aten::amax(%a, [1])\n  %l : bool[17] = aten::amin(%a, [0])\n"
                      "  %c : i64[3] = aten::sum.dim_IntList(%a, [1])\n"
                      "  return user %s, user %p, user %x, user %n, user %h, user %l, user %c\n}\n",
                      exactly, 0);
}

TC_TEST(empty_tensors_pass_everything) {
  TC_TRY(pipeline_all(
      arena,
      "graph @f (%x : f32[8, 0, 3] = user \"x\", %w : f32[5, 3] = user \"w\", %v : f32[0, 4] = user \"v\", "
      "%u : f32[6, 0] = user \"u\") {\n"
      "  %l : f32[8, 0, 5] = aten::linear(%x, %w, none)\n  %n : f32[8, 0, 3] = aten::neg(%x)\n"
      "  %t = aten::permute(%n, [2, 1, 0])\n  %s : f32[8, 3] = aten::sum.dim_IntList(%x, [1])\n"
      "  %m : f32[6, 4] = aten::mm(%u, %v)\n  %a : f32[6, 4] = aten::add.Scalar(%m, 1)\n"
      "  %y : f32[8, 0, 3] = aten::softmax.int(%x, 2, none)\n  %p : f32[3] = aten::prod.dim_int(%s, 0)\n"
      "  return user %l, user %t, user %s, user %a, user %y, user %p\n}\n",
      exactly, 0));
  return pipeline_all(
      arena,
      "graph @f [s0 in [0, inf] hint 0, s1 in [0, inf] hint 5] (%x : f32[s0, s1] = user \"x\", %w : f32[7, s1] = user "
      "\"w\") {\n"
      "  %l : f32[s0, 7] = aten::linear(%x, %w, none)\n  %s : f32[s1] = aten::sum.dim_IntList(%x, [0])\n"
      "  %y : f32[s0, s1] = aten::softmax.int(%x, 1, none)\n"
      "  %t = aten::transpose.int(%x, 0, 1)\n  %c = aten::exp(%t)\n"
      "  return user %l, user %s, user %y, user %c\n}\n",
      closely, 0);
}

// What nothing reads is not computed.
TC_TEST(dead_nodes_vanish) {
  return pipeline_all(arena,
                      "graph @f (%x : f32[4, 9] = user \"x\") {\n  %d : f32[4, 9] = aten::softmax.int(%x, 1, none)\n"
                      "  %e = aten::transpose.int(%d, 0, 1)\n  %y : f32[4, 9] = aten::neg(%x)\n  return user %y\n}\n",
                      exactly, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(softmax_and_norms_are_one_kernel),
      cmocka_unit_test(merging_makes_no_cycle),
      cmocka_unit_test(a_merged_reader_keeps_its_order),
      cmocka_unit_test(variables_join_only_where_indices_agree),
      cmocka_unit_test(rows_of_one_element_are_stored),
      cmocka_unit_test(reductions_beside_a_template_wait_for_it),
      cmocka_unit_test(columns_keep_no_tiles),
      cmocka_unit_test(bools_compute_with_logic),
      cmocka_unit_test(empty_tensors_pass_everything),
      cmocka_unit_test(dead_nodes_vanish),
  };
  return TC_RUN(tests);
}
