// Joint graphs against central differences in double precision, on the references; what has no gradient, and errors.
#include <math.h>

#include "core/autograd/autograd.h"
#include "core/ir/refexec.h"
#include "core/ops/ops.h"
#include "tests/unit/unit.h"

typedef struct rig {
  tc_module *module;
  tc_graph *graph;
  const char *text;
  bool wanted[8];
  tc_joint joint;
} rig;

static tc_status build(void *arg) {
  rig *r = arg;
  tc_lexer lx;
  tc_lex_init(&lx, r->module->arena, TC_SV("test"), tc_sv_of(r->text));
  TC_TRY(tc_graph_parse(r->module, &lx, &r->graph));
  return tc_autograd_joint(r->graph, r->wanted, &r->joint);
}

// In the test's arena's own registry; the module outlives the call.
static tc_status open_rig(rig *r, tc_arena *arena, const char *text) {
  tc_op_registry *ops;
  *r = (rig){.text = text};
  for (int i = 0; i < 8; i++) r->wanted[i] = true;
  TC_TRY(tc_op_registry_create(arena, &ops));
  TC_TRY(tc_ops_register_core(ops));
  TC_TRY(tc_module_create(tc_arena_allocator(arena), ops, &r->module));
  return tc_arena_guard(r->module->arena, build, r);
}

static tc_status fill(const tc_allocator *a, const tc_value *v, tc_tensor *out) {
  int64_t sizes[TC_MAX_RANK];
  for (int32_t d = 0; d < v->type.rank; d++) sizes[d] = v->type.sizes[d]->value;
  TC_TRY(tc_tensor_create(a, v->type.dtype, v->type.rank, sizes, out));
  // Away from kinks and poles: between 0.2 and 1.2.
  double *x = tc_tensor_data(out);
  for (int64_t i = 0; i < tc_tensor_numel(out) * (v->type.dtype == TC_C128 ? 2 : 1); i++)
    x[i] = 0.2 + (double)rand() / RAND_MAX;
  return TC_OK;
}

// Re(conj(ct)·y) of the forward graph's one output.
static tc_status loss(rig *r, const tc_allocator *a, const tc_tensor *in, const tc_tensor *ct, double *out) {
  tc_tensor y[4];
  tc_ref_options o = {.wide = true};
  TC_TRY(tc_ref_run(r->graph, a, r->graph->inputs.count, in, y, &o));
  *out = 0;
  tc_tensor flat;
  TC_TRY(tc_tensor_contiguous(a, &y[0], &flat));
  const double *p = tc_tensor_data(&flat), *q = tc_tensor_data(ct);
  int64_t n = tc_tensor_numel(&flat) * (flat.dtype == TC_C128 ? 2 : 1);
  for (int64_t i = 0; i < n; i++) *out += p[i] * q[i];
  tc_tensor_unref(&flat);
  tc_tensor_unref(&y[0]);
  return TC_OK;
}

static tc_status check(tc_arena *arena, const char *text) {
  rig r;
  const tc_allocator *a = tc_arena_allocator(arena);
  tc_tensor in[8] = {0}, out[8] = {0};
  TC_TRY(open_rig(&r, arena, text), "in %s", text);
  int32_t n = r.graph->inputs.count, at = r.joint.cotangents[0];
  assert_int_equal(at, n);
  for (int32_t i = 0; i <= n; i++) TC_TRY(fill(a, r.joint.graph->inputs.data[i].value, &in[i]));
  tc_ref_options o = {.wide = true};
  TC_TRY(tc_ref_run(r.joint.graph, a, n + 1, in, out, &o), "in %s", text);
  for (int32_t i = 0; i < n; i++) {
    assert_true(r.joint.gradients[i] >= 0);
    tc_tensor g;
    TC_TRY(tc_tensor_contiguous(a, &out[r.joint.gradients[i]], &g));
    assert_int_equal(g.dtype, in[i].dtype);
    double *x = tc_tensor_data(&in[i]);
    const double *have = tc_tensor_data(&g), h = 1e-5;
    for (int64_t k = 0; k < tc_tensor_numel(&in[i]) * (in[i].dtype == TC_C128 ? 2 : 1); k++) {
      double keep = x[k], up, down;
      x[k] = keep + h;
      TC_TRY(loss(&r, a, in, &in[at], &up));
      x[k] = keep - h;
      TC_TRY(loss(&r, a, in, &in[at], &down));
      x[k] = keep;
      double want = (up - down) / (2 * h);
      if (!(fabs(have[k] - want) <= 1e-6 * (1 + fabs(want))))
        fail_msg("input %d, element %d: %.9g, by differences %.9g\n%s", (int)i, (int)k, have[k], want, text);
    }
    tc_tensor_unref(&g);
  }
  for (int32_t i = 0; i < r.joint.graph->outputs.count; i++) tc_tensor_unref(&out[i]);
  for (int32_t i = 0; i <= n; i++) tc_tensor_unref(&in[i]);
  tc_module_destroy(r.module);
  return TC_OK;
}

TC_TEST(real_graphs) {
  static const char *const texts[] = {
      "graph @f (%x : f64[3, 4] = user \"x\", %w : f64[4] = user \"w\") {\n"
      "  %a : f64[3, 4] = aten::mul.Tensor(%x, %w)\n  %b : f64[3, 4] = aten::tanh(%a)\n"
      "  %c : f64[3, 4] = aten::add.Tensor(%b, %x, 2)\n  return user %c\n}",
      "graph @f (%x : f64[2, 3] = user \"x\", %y : f64[3, 2] = user \"y\") {\n"
      "  %a : f64[2, 2] = aten::mm(%x, %y)\n  %b : f64[2, 2] = aten::_softmax(%a, -1, false)\n"
      "  %c : f64[2] = aten::sum.dim_IntList(%b, [0])\n  %d : f64[2] = aten::log(%c)\n  return user %d\n}",
      "graph @f (%x : f64[2, 3] = user \"x\", %w : f64[3] = user \"w\", %b : f64[3] = user \"b\") {\n"
      "  %a : f64[2, 3] = aten::layer_norm(%x, [3], %w, %b)\n  %c : f64[2, 3] = aten::gelu(%a)\n  return user %c\n}",
      "graph @f (%x : f64[2, 3] = user \"x\", %y : f64[2, 2] = user \"y\") {\n"
      "  %a : f64[2, 5] = aten::cat([%x, %y], 1)\n  %b : f64[2, 2]{5, 2}+1 = aten::slice.Tensor(%a, 1, 1, 5, 2)\n"
      "  %c : f64[2, 2]{2, 5}+1 = aten::t(%b)\n  %d : f64[2] = aten::sum.dim_IntList(%c, [0])\n  return user %d\n}",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) TC_TRY(check(arena, texts[i]));
  return TC_OK;
}

TC_TEST(complex_graphs) {
  static const char *const texts[] = {
      "graph @f (%x : c128[3] = user \"x\", %y : c128[3] = user \"y\") {\n"
      "  %a : c128[3] = aten::mul.Tensor(%x, %y)\n  %b : c128[3] = aten::exp(%a)\n"
      "  %c : c128[3] = aten::div.Tensor(%b, %y)\n  return user %c\n}",
      "graph @f (%x : c128[3] = user \"x\", %s : f64[3] = user \"s\") {\n" // the real one was promoted
      "  %a : c128[3] = aten::mul.Tensor(%x, %s)\n  %b : f64[3] = aten::abs(%a)\n  return user %b\n}",
      "graph @f (%x : c128[2, 3] = user \"x\", %y : c128[3, 2] = user \"y\") {\n"
      "  %a : c128[2, 2] = aten::mm(%x, %y)\n  %b : c128[2, 2] = aten::tanh(%a)\n  return user %b\n}",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) TC_TRY(check(arena, texts[i]));
  return TC_OK;
}

TC_TEST(what_has_no_gradient) {
  rig r;
  TC_TRY(open_rig(&r, arena,
                  "graph @f (%x : f64[3] = user \"x\", %i : i64[3] = user \"i\", %u : f64[3] = user \"u\") {\n"
                  "  %a : f64[3] = aten::index_select(%x, 0, %i)\n  %d : f64[3] = aten::detach(%u)\n"
                  "  %c : f64[3] = aten::mul.Tensor(%a, %d)\n  return user %c, user %i\n}"));
  assert_true(r.joint.gradients[0] >= 0);
  assert_int_equal(r.joint.gradients[1], -1); // integers
  assert_int_equal(r.joint.gradients[2], -1); // detached
  assert_int_equal(r.joint.cotangents[1], -1);
  tc_module_destroy(r.module);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(real_graphs), cmocka_unit_test(complex_graphs),
                                     cmocka_unit_test(what_has_no_gradient)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
