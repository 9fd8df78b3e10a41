// Mixed precision: dtypes as torch.autocast (2.15) gives them, what keeps its type, and gradients of what was cast.
#include <math.h>

#include "core/autograd/autograd.h"
#include "core/ir/refexec.h"
#include "core/passes/autocast.h"
#include "core/passes/passes.h"
#include "tests/unit/autograd/module.h"

typedef struct rig {
  tc_module *module;
  tc_graph *graph;
  const char *text;
  tc_autocast_options o;
  bool gradients;
  tc_joint joint;
} rig;

static tc_status build(void *arg) {
  rig *r = arg;
  TC_TRY(graph_of(r->module, r->text, &r->graph));
  if (r->o.to) TC_TRY(tc_autocast(r->graph, &r->o));
  TC_TRY(tc_graph_verify(r->graph));
  bool wanted[8] = {true, true, true, true, true, true, true, true};
  return r->gradients ? tc_autograd_joint(r->graph, wanted, &r->joint) : TC_OK;
}

static tc_status open_rig(rig *r, tc_arena *arena) {
  TC_TRY(open_module(arena, &r->module));
  return tc_arena_guard(r->module->arena, build, r);
}

static tc_dtype output(const rig *r, int32_t i) { return r->graph->outputs.data[i].arg.value->type.dtype; }

// y = x w, and one call of x, y and of tensors of other types.
static tc_status gives(tc_arena *arena, const char *call, tc_autocast_options o, tc_dtype want) {
  rig r = {.o = o};
  r.text =
      tc_sv_z(arena, tc_sv_printf(arena,
                                  "graph @f (%%x : f32[4, 4] = user \"x\", %%d : f64[4, 4] = user \"d\", %%i : "
                                  "i64[4, 4] = user \"i\", %%b : f32[4] = user \"b\") {\n  %%y = aten::mm(%%x, %%x)\n"
                                  "  %%z = %s\n  return user %%z\n}\n",
                                  call));
  TC_TRY(open_rig(&r, arena), "%s", call);
  if (output(&r, 0) != want)
    return tc_error(TC_STATUS_MISMATCH, "%s gives %s, not %s", call, tc_dtype_name(output(&r, 0)), tc_dtype_name(want));
  tc_module_destroy(r.module);
  return TC_OK;
}

TC_TEST(types_of_results) {
  static const struct {
    const char *call;
    tc_dtype processor, accelerator;
  } cases[] = {
      {"aten::neg(%y)", TC_BF16, TC_BF16},
      {"aten::linear(%x, %x, %b)", TC_BF16, TC_BF16},
      {"aten::matmul(%y, %x)", TC_BF16, TC_BF16},
      {"aten::addmm(%b, %x, %y)", TC_BF16, TC_BF16},
      {"aten::mm(%d, %d)", TC_F64, TC_F64},
      {"aten::mm(%i, %i)", TC_I64, TC_I64},
      {"aten::gelu(%y)", TC_BF16, TC_BF16},
      {"aten::gelu(%x)", TC_F32, TC_F32},
      {"aten::softmax.int(%y, -1)", TC_BF16, TC_F32},
      {"aten::exp(%y)", TC_BF16, TC_F32},
      {"aten::sum(%y)", TC_BF16, TC_F32},
      {"aten::layer_norm(%y, [4])", TC_BF16, TC_F32},
      {"aten::prod.dim_int(%y, 0)", TC_F32, TC_F32},
      {"aten::mse_loss(%y, %x)", TC_F32, TC_F32},
      {"aten::add.Tensor(%y, %x)", TC_F32, TC_F32},
      {"aten::cat([%y, %x])", TC_F32, TC_F32},
      {"aten::cat([%y, %y])", TC_BF16, TC_BF16},
      {"aten::linalg_inv(%y)", TC_F32, TC_F32}, // on no list of GPUs, and there is none of bf16: it gets what it had
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    TC_TRY(gives(arena, cases[i].call, (tc_autocast_options){.to = TC_BF16}, cases[i].processor));
    TC_TRY(gives(arena, cases[i].call, (tc_autocast_options){TC_BF16, true}, cases[i].accelerator), "accelerator");
  }
  return gives(arena, "aten::neg(%y)", (tc_autocast_options){.to = TC_F16}, TC_F16);
}

// Branches give what they gave, so do writes to what is the caller's, and sizes that come from data stay the same ones.
TC_TEST(types_that_stay) {
  rig r = {.o = {.to = TC_BF16},
           .text = "graph @f [s0 in [0, 1000]] (%x : f32[4, 4] = user \"x\", %p : bool[] = user \"p\") {\n"
                   "  %y = aten::mm(%x, %x)\n"
                   "  %c : f32[4, 4] = higher_order::cond(%p, graph @yes (%x : f32[4, 4] = operand \"x\") {\n"
                   "    %a = aten::mm(%x, %x)\n    return user %a\n  }, graph @no (%x : f32[4, 4] = operand \"x\") {\n"
                   "    %a = aten::neg(%x)\n    return user %a\n  }, [%y])\n"
                   "  %n = aten::nonzero(%y)\n  %w = aten::add_.Tensor(%x, %y)\n"
                   "  return user %c, user %n, user %w, user %y\n}\n"};
  TC_TRY(open_rig(&r, arena));
  assert_int_equal(output(&r, 0), TC_F32);
  assert_int_equal(output(&r, 1), TC_I64);
  assert_int_equal(output(&r, 2), TC_F32);
  assert_int_equal(output(&r, 3), TC_BF16);
  tc_module_destroy(r.module);
  return TC_OK;
}

// A layer's results and gradients, as they are and cast.
TC_TEST(gradients_keep_their_types) {
  static const tc_dtype types[] = {0, TC_BF16, TC_F16};
  const tc_allocator *a = tc_arena_allocator(arena);
  tc_tensor in[8] = {0}, out[3][8] = {0};
  uint64_t seed = tc_test_seed();
  int32_t n = 0;
  for (int32_t k = 0; k < 3; k++) {
    rig r = {.o = {.to = types[k]}, .gradients = true};
    r.text =
        "graph @f (%x : f32[6, 8] = user \"x\", %w : f32[5, 8] = user \"w\", %b : f32[5] = user \"b\", %t : f32[6, 5] "
        "= user \"t\") {\n  %y = aten::linear(%x, %w, %b)\n  %h = aten::tanh(%y)\n  %l = aten::mse_loss(%h, %t)\n"
        "  return user %l\n}\n";
    TC_TRY(open_rig(&r, arena));
    const tc_graph *g = r.joint.graph;
    n = g->outputs.count;
    for (int32_t i = 0; k == 0 && i < g->inputs.count; i++) {
      TC_TRY(tensor_of(a, g->inputs.data[i].value, &in[i]));
      tc_tensor_fill_normal(&tc_executor_serial, &in[i], seed + (uint64_t)i, 0, 1);
    }
    TC_TRY(tc_ref_run(r.joint.graph, a, g->inputs.count, in, out[k], &(tc_ref_options){0}));
    tc_module_destroy(r.module);
  }
  assert_int_equal(n, 5);
  double all = 0;
  for (int32_t i = 0; i < n; i++) {
    double error[3] = {0}, norm = 0;
    const float *exact = tc_tensor_data(&out[0][i]);
    for (int32_t k = 1; k < 3; k++) {
      assert_int_equal(out[k][i].dtype, TC_F32);
      const float *v = tc_tensor_data(&out[k][i]);
      norm = 0;
      for (int64_t e = 0; e < tc_tensor_numel(&out[k][i]); e++)
        error[k] += (v[e] - exact[e]) * (v[e] - exact[e]), norm += exact[e] * exact[e];
    }
    assert_true(sqrt(error[1]) <= 0.05 * sqrt(norm) + 1e-3);
    assert_true(sqrt(error[2]) <= 0.01 * sqrt(norm) + 1e-3);
    all += error[1];
  }
  assert_true(all > 0); // something was cast
  for (int32_t i = 0; i < 8; i++) tc_tensor_unref(&in[i]);
  for (int32_t k = 0; k < 3; k++)
    for (int32_t i = 0; i < 8; i++) tc_tensor_unref(&out[k][i]);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(types_of_results), cmocka_unit_test(types_that_stay),
                                     cmocka_unit_test(gradients_keep_their_types)};
  return TC_RUN(tests);
}
