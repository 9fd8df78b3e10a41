// Joint graphs in two: what is saved, counted in bytes, and that both together give what the one gives.
#include "core/autograd/partition.h"
#include "core/ir/refexec.h"
#include "tests/unit/autograd/module.h"

typedef struct rig {
  tc_module *module;
  tc_graph *graph;
  const char *text;
  tc_joint joint;
  tc_partition_options options;
  tc_partition part;
} rig;

static tc_status build(void *arg) {
  rig *r = arg;
  bool wanted[8] = {true, true, true, true, true, true, true, true};
  TC_TRY(graph_of(r->module, r->text, &r->graph));
  TC_TRY(tc_autograd_joint(r->graph, wanted, &r->joint));
  return tc_autograd_partition(&r->joint, &r->options, &r->part);
}

static tc_status open_rig(rig *r, tc_arena *arena, const char *text, bool all, double budget) {
  *r = (rig){.text = text, .options = {all, budget}};
  TC_TRY(open_module(arena, &r->module));
  return tc_arena_guard(r->module->arena, build, r);
}

static tc_status fill(const tc_allocator *a, const tc_value *v, tc_tensor *out) {
  TC_TRY(tensor_of(a, v, out));
  double *x = tc_tensor_data(out);
  for (int64_t i = 0; i < tc_tensor_numel(out); i++) x[i] = (double)((i * 7) % 11) / 11 - 0.4;
  return TC_OK;
}

// Forward and backward against the joint graph, on the references.
static tc_status check_values(rig *r, tc_arena *arena) {
  const tc_allocator *a = tc_arena_allocator(arena);
  tc_ref_options o = {.wide = true, .seed = 5};
  const tc_partition *p = &r->part;
  tc_tensor in[12] = {0}, one[16] = {0}, saved[32] = {0}, later[24] = {0}, two[16] = {0};
  int32_t n = r->joint.graph->inputs.count, n_gradients = p->backward->outputs.count;
  for (int32_t i = 0; i < n; i++) TC_TRY(fill(a, r->joint.graph->inputs.data[i].value, &in[i]));
  TC_TRY(tc_ref_run(r->joint.graph, a, n, in, one, &o));
  TC_TRY(tc_ref_run(p->forward, a, p->forward->inputs.count, in, saved, &o));
  int32_t first = p->forward->outputs.count - p->n_saved;
  assert_int_equal(p->n_sources, p->backward->inputs.count);
  for (int32_t i = 0; i < p->n_sources; i++) {
    int32_t from = p->sources[i];
    later[i] = from >= 0 ? in[from] : saved[first - 1 - from];
  }
  TC_TRY(tc_ref_run(p->backward, a, p->n_sources, later, two, &o));
  for (int32_t i = 0; i < n_gradients; i++) {
    tc_tensor x, y;
    TC_TRY(tc_tensor_contiguous(a, &one[first + i], &x));
    TC_TRY(tc_tensor_contiguous(a, &two[i], &y));
    assert_int_equal(tc_tensor_numel(&x), tc_tensor_numel(&y));
    assert_memory_equal(tc_tensor_data(&x), tc_tensor_data(&y), (size_t)(tc_tensor_numel(&x) * 8));
    tc_tensor_unref(&x);
    tc_tensor_unref(&y);
  }
  for (int32_t i = 0; i < first + n_gradients; i++) tc_tensor_unref(&one[i]);
  for (int32_t i = 0; i < p->forward->outputs.count; i++) tc_tensor_unref(&saved[i]);
  for (int32_t i = 0; i < n_gradients; i++) tc_tensor_unref(&two[i]);
  for (int32_t i = 0; i < n; i++) tc_tensor_unref(&in[i]);
  return TC_OK;
}

static tc_status saved_bytes(tc_arena *arena, const char *text, bool all, double budget, int64_t *out) {
  rig r;
  TC_TRY(open_rig(&r, arena, text, all, budget), "in %s", text);
  TC_TRY(check_values(&r, arena));
  *out = r.part.saved_bytes;
  int64_t sum = 0;
  for (int32_t i = 0; i < r.part.n_saved; i++) {
    const tc_graph *g = r.part.forward;
    const tc_value *v = g->outputs.data[g->outputs.count - r.part.n_saved + i].arg.value;
    sum += tc_type_numel(r.module, &v->type)->value * tc_dtype_size(v->type.dtype);
  }
  assert_true(sum == *out); // what is counted is what is there
  tc_module_destroy(r.module);
  return TC_OK;
}

enum { HIDDEN = 8 * 32 * 8 /* bytes of f64[8, 32] */ };
static const char mlp[] =
    "graph @f (%x : f64[8, 16] = user \"x\", %w : f64[16, 32] = user \"w\", %v : f64[32, 4] = user \"v\") {\n"
    "  %a : f64[8, 32] = aten::mm(%x, %w)\n  %g : f64[8, 32] = aten::gelu(%a)\n"
    "  %y : f64[8, 4] = aten::mm(%g, %v)\n  return user %y\n}";

TC_TEST(bytes_of_a_layer) {
  int64_t all, least, half, none;
  TC_TRY(saved_bytes(arena, mlp, true, 1, &all));
  TC_TRY(saved_bytes(arena, mlp, false, 1, &least));
  TC_TRY(saved_bytes(arena, mlp, false, 0.5, &half));
  TC_TRY(saved_bytes(arena, mlp, false, 0, &none));
  assert_int_equal(all, 2 * HIDDEN); // gelu(a) for the second product, and gelu'(a)
  assert_int_equal(least, HIDDEN);   // a: both are pointwise functions of it
  assert_int_equal(half, 0);         // a does not fit
  assert_int_equal(none, 0);         // a is a product of inputs
  return TC_OK;
}

// Products are dear: with less room the cheaper one to compute again goes.
static const char deep[] =
    "graph @f (%x : f64[8, 4] = user \"x\", %w : f64[4, 32] = user \"w\", %v : f64[32, 32] = user \"v\") {\n"
    "  %a : f64[8, 32] = aten::mm(%x, %w)\n  %b : f64[8, 32] = aten::tanh(%a)\n  %c : f64[8, 32] = aten::mm(%b, %v)\n"
    "  %d : f64[8, 32] = aten::tanh(%c)\n  %e : f64[8, 32] = aten::mul.Tensor(%d, %d)\n  return user %e\n}";

TC_TEST(budgets_hold) {
  int64_t before = -1;
  for (int32_t i = 0; i <= 8; i++) {
    int64_t now, most;
    TC_TRY(saved_bytes(arena, deep, false, 1, &most));
    TC_TRY(saved_bytes(arena, deep, false, i / 8.0, &now));
    assert_true(now <= most * i / 8);
    assert_true(now >= before);
    before = now;
  }
  assert_int_equal(before, 2 * HIDDEN);
  return TC_OK;
}

// Random numbers are drawn once, whatever the budget.
TC_TEST(masks_are_saved) {
  static const char text[] = "graph @f (%x : f64[8, 32] = user \"x\") {\n"
                             "  %m : f64[8, 32], %k : bool[8, 32] = aten::native_dropout(%x, 0.5, true)\n"
                             "  %y : f64[8, 32] = aten::mul.Tensor(%m, %m)\n  return user %y\n}";
  rig r;
  for (int32_t i = 0; i < 3; i++) {
    TC_TRY(open_rig(&r, arena, text, i == 2, i));
    assert_true(r.part.n_saved > 0);
    for (const tc_node *n = r.part.backward->first; n; n = n->next) assert_false(n->op->def->traits & TC_OP_RANDOM);
    tc_module_destroy(r.module);
  }
  return TC_OK;
}

// The gradient of a sum reads no element, but has as many: what tells how many is kept.
TC_TEST(sizes_are_told) {
  static const char text[] = "graph @f [s0 in [2, inf] hint 4] (%x : f64[s0] = user \"x\") {\n"
                             "  %y : f64[] = aten::sum(%x, none)\n  return user %y\n}";
  const tc_allocator *a = tc_arena_allocator(arena);
  rig r;
  tc_tensor in[2], out;
  int64_t size = 5, index = 4;
  double first, last;
  TC_TRY(open_rig(&r, arena, text, false, 1));
  assert_int_equal(r.part.n_sources, 2);
  TC_TRY(tc_tensor_create(a, TC_F64, 1, &size, &in[0]));
  TC_TRY(tc_tensor_create(a, TC_F64, 0, NULL, &in[1]));
  *(double *)tc_tensor_data(&in[1]) = 3;
  TC_TRY(tc_ref_run(r.part.backward, a, 2, in, &out, &(tc_ref_options){0}));
  assert_int_equal(out.sizes[0], 5);
  tc_tensor_get(&out, &(int64_t){0}, &first, NULL);
  tc_tensor_get(&out, &index, &last, NULL);
  assert_true(first == 3 && last == 3);
  for (int32_t i = 0; i < 2; i++) tc_tensor_unref(&in[i]);
  tc_tensor_unref(&out);
  tc_module_destroy(r.module);
  return TC_OK;
}

// The forward counts a loop's turns; the backward is told how many there were, whatever else is saved.
TC_TEST(turns_are_told) {
  static const char text[] =
      "graph @f (%x : f64[3] = user \"x\", %w : f64[3] = user \"w\") {\n"
      "  %a : f64[3] = higher_order::while_loop(graph @test (%a : f64[3] = operand \"a\", %w : f64[3] = operand \"w\") "
      "{\n    %s : f64[] = aten::sum(%a)\n    %g : bool[] = aten::lt.Scalar(%s, 4)\n    return user %g\n  }, "
      "graph @body (%a : f64[3] = operand \"a\", %w : f64[3] = operand \"w\") {\n"
      "    %e : f64[3] = aten::exp(%w)\n    %d : f64[3] = aten::add.Tensor(%a, %e)\n    return user %d\n  }, [%x], "
      "[%w])\n  %y : f64[3] = aten::mul.Tensor(%a, %w)\n  return user %y\n}";
  for (int32_t i = 0; i < 3; i++) {
    rig r;
    TC_TRY(open_rig(&r, arena, text, i == 2, i));
    TC_TRY(check_values(&r, arena));
    tc_module_destroy(r.module);
  }
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(bytes_of_a_layer), cmocka_unit_test(budgets_hold),
                                     cmocka_unit_test(masks_are_saved), cmocka_unit_test(sizes_are_told),
                                     cmocka_unit_test(turns_are_told)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
