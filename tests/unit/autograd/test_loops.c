// What the gradient of a loop costs: how often its body is gone through, counted by an op in it, and that first and
// second derivatives hold, for no turn and one, too, and for a loop in a loop.
#include "core/autograd/differences.h"
#include "core/ir/refexec.h"
#include "tests/unit/autograd/module.h"

static int64_t passages;

static int32_t counted_ref(tc_op_args *a) {
  passages++;
  for (int64_t i = 0; i < tc_ref_numel(tc_op_data(a, 0)); i++)
    tc_ref_copy(tc_op_result_data(a, 0), i, tc_op_data(a, 0), i);
  return TC_STATUS_OK;
}
static const tc_op_def counted = {.schema = "test::counted(Tensor self) -> Tensor",
                                  .meta = tc_meta_same_strides,
                                  .ref = counted_ref,
                                  .grad = "self: grad"};

// A loop of `turns` turns over a and a number, around `inner`, which makes %e of %a.
static tc_sv loop_text(tc_arena *arena, int32_t turns, const char *inner) {
  return tc_sv_printf(
      arena,
      "graph @f (%%x : f64[3] = user \"x\", %%w : f64[3] = user \"w\") {\n"
      "  %%z : i64[] = aten::zeros([], dtype=i64)\n"
      "  %%a : f64[3], %%k : i64[] = higher_order::while_loop(graph @test (%%a : f64[3] = operand \"a\", %%k : i64[] = "
      "operand \"k\", %%w : f64[3] = operand \"w\") {\n"
      "    %%g : bool[] = aten::lt.Scalar(%%k, %d)\n    return user %%g\n  }, "
      "graph @body (%%a : f64[3] = operand \"a\", %%k : i64[] = operand \"k\", %%w : f64[3] = operand \"w\") {\n%s"
      "    %%j : i64[] = aten::add.Scalar(%%k, 1)\n    return user %%e, user %%j\n  }, [%%x, %%z], [%%w])\n"
      "  %%y : f64[3] = aten::mul.Tensor(%%a, %%w)\n  return user %%y\n}",
      (int)turns, inner);
}

#define STEP \
  "    %b : f64[3] = aten::mul.Tensor(%a, %w)\n    %c : f64[3] = aten::sin(%b)\n    %e : f64[3] = test::counted(%c)\n"
// Two turns, the same number in every turn around.
#define NESTED                                                                                                     \
  "    %i : i64[] = aten::zeros([], dtype=i64)\n"                                                                  \
  "    %e : f64[3], %n : i64[] = higher_order::while_loop(graph @less (%a : f64[3] = operand \"a\", %k : i64[] = " \
  "operand \"k\", %w : f64[3] = operand \"w\") {\n"                                                                \
  "      %g : bool[] = aten::lt.Scalar(%k, 2)\n      return user %g\n    }, "                                      \
  "graph @inner (%a : f64[3] = operand \"a\", %k : i64[] = operand \"k\", %w : f64[3] = operand \"w\") {\n" STEP   \
  "      %j : i64[] = aten::add.Scalar(%k, 1)\n      return user %e, user %j\n    }, [%a, %i], [%w])\n"

typedef struct rig {
  tc_module *module;
  tc_graph *graph;
  tc_sv text;
  tc_joint joint;
} rig;

static tc_status build(void *arg) {
  rig *r = arg;
  TC_TRY(graph_of(r->module, r->text.data, &r->graph));
  return tc_autograd_joint(r->graph, (bool[]){true, true}, &r->joint);
}

static tc_status open_rig(rig *r, tc_arena *arena, tc_sv text) {
  tc_op_registry *ops;
  *r = (rig){.text = text};
  TC_TRY(tc_op_registry_create(arena, &ops));
  TC_TRY(tc_ops_register_core(ops));
  TC_TRY(tc_op_register(ops, &counted, TC_SV("")));
  TC_TRY(tc_module_create(tc_arena_allocator(arena), ops, &r->module));
  return tc_arena_guard(r->module->arena, build, r);
}

static tc_status fill(const tc_allocator *a, tc_graph *g, tc_tensor *in) {
  for (int32_t i = 0; i < g->inputs.count; i++) {
    TC_TRY(tensor_of(a, g->inputs.data[i].value, &in[i]));
    for (int32_t k = 0; k < 3; k++) ((double *)tc_tensor_data(&in[i]))[k] = 0.4 + 0.17 * i + 0.21 * k;
  }
  return TC_OK;
}

// The loss and its gradients once: how often was the op run?
static tc_status count(tc_arena *arena, tc_sv text, int64_t *out) {
  rig r;
  const tc_allocator *a = tc_arena_allocator(arena);
  tc_tensor in[3] = {0}, outputs[3] = {0};
  TC_TRY(open_rig(&r, arena, text));
  TC_TRY(fill(a, r.joint.graph, in));
  passages = 0;
  TC_TRY(tc_ref_run(r.joint.graph, a, 3, in, outputs, &(tc_ref_options){.wide = true}));
  *out = passages;
  for (int32_t i = 0; i < 3; i++) tc_tensor_unref(&in[i]), tc_tensor_unref(&outputs[i]);
  tc_module_destroy(r.module);
  return TC_OK;
}

typedef struct second {
  rig *r;
  tc_gradcheck check;
  tc_gradcheck_result result;
} second;
static tc_status run_check(void *arg) {
  second *s = arg;
  return tc_gradcheck_run(&s->check, 2, &s->result);
}

static tc_status holds(tc_arena *arena, tc_sv text) {
  rig r;
  const tc_allocator *a = tc_arena_allocator(arena);
  tc_tensor in[2] = {0};
  TC_TRY(open_rig(&r, arena, text));
  TC_TRY(fill(a, r.graph, in));
  second s = {&r, {a, arena, r.graph, in, 7}, {0}};
  TC_TRY(tc_arena_guard(r.module->arena, run_check, &s), "in %s", text.data);
  assert_int_equal(s.result.order, 2);
  for (int32_t i = 0; i < 2; i++) tc_tensor_unref(&in[i]);
  tc_module_destroy(r.module);
  return TC_OK;
}

TC_TEST(a_turn_is_gone_through_three_times) {
  static const int32_t turns[] = {0, 1, 2, 7, 64, 300};
  for (size_t i = 0; i < sizeof turns / sizeof *turns; i++) {
    int64_t n, nested;
    TC_TRY(count(arena, loop_text(arena, turns[i], STEP), &n));
    assert_in_range(n, turns[i], 3 * turns[i]);
    // The loop inside is run in the first two passages, and differentiated in the third.
    TC_TRY(count(arena, loop_text(arena, turns[i], NESTED), &nested));
    assert_in_range(nested, 2 * turns[i], 5 * 2 * turns[i]);
  }
  return TC_OK;
}

TC_TEST(first_and_second_derivatives) {
  static const int32_t turns[] = {0, 1, 4};
  for (size_t i = 0; i < sizeof turns / sizeof *turns; i++) {
    TC_TRY(holds(arena, loop_text(arena, turns[i], STEP)));
    TC_TRY(holds(arena, loop_text(arena, turns[i], NESTED)));
  }
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_turn_is_gone_through_three_times),
                                     cmocka_unit_test(first_and_second_derivatives)};
  return TC_RUN(tests);
}
