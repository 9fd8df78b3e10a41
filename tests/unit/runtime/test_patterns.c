// The table of patterns: what each row finds, what it must leave alone, and that the numbers stay those of the
// references.
#include <math.h>

#include "tests/unit/runtime/rig.h"

static tc_status open_rig(rig *r, const char *text, const char *backend, int32_t last) {
  static const char *const options[] = {"cache.enabled", "false", NULL};
  TC_TRY(rig_context(r, tc_system_allocator(), backend, options));
  TC_TRY(rig_graph(r, text));
  return tc_session_create(r->context, r->graph, last, &r->session);
}

static void compare(const tc_tensor *got, const tc_tensor *want, const char *text) {
  double worst = 0, norm = 0;
  int64_t n = tc_tensor_numel(got), index[TC_MAX_RANK];
  assert_int_equal(n, tc_tensor_numel(want));
  for (int64_t i = 0; i < n; i++) {
    double a, b;
    int64_t rest = i;
    for (int32_t d = got->rank - 1; d >= 0; d--) index[d] = rest % got->sizes[d], rest /= got->sizes[d];
    tc_tensor_get(got, index, &a, NULL);
    tc_tensor_get(want, index, &b, NULL);
    if (isnan(a) || fabs(a - b) > worst) worst = fabs(a - b);
    norm = fmax(norm, fabs(b));
  }
  if (!(worst <= 1e-5 * (1 + norm))) fail_msg("differs by %g of %g:\n%s", worst, norm, text);
}

// Runs on the processor and on the references with the same random inputs, and looks for the op in the graph.
static tc_status check(tc_arena *arena, const char *text, const char *op, bool expected) {
  uint64_t seed = tc_test_seed();
  rig look, runs[2];
  tc_tensor inputs[RIG_MOST] = {{0}}, outputs[2][2];
  tc_sb sb = tc_sb_make(arena);
  TC_TRY(open_rig(&look, text, "cpu", TC_STAGE_FUNCTIONAL));
  TC_TRY(tc_session_text(look.session, TC_STAGE_FUNCTIONAL, &sb));
  if (!strstr(sb.text, op) == expected) fail_msg("%s: %s expected in\n%s", op, expected ? "was" : "was not", sb.text);
  rig_close(&look);
  for (int32_t side = 0; side < 2; side++) {
    rig *r = &runs[side];
    TC_TRY(open_rig(r, text, side ? "ref" : "cpu", TC_STAGE_EXEC));
    for (int32_t i = 0; side == 0 && i < r->graph->inputs.count; i++) {
      const tc_graph_input *in = &r->graph->inputs.data[i];
      const tc_tensor_type *t = &in->value->type;
      int64_t sizes[TC_MAX_RANK];
      for (int32_t d = 0; d < t->rank; d++) sizes[d] = tc_sym_hint_or(r->module->syms, t->sizes[d], 3);
      TC_TRY(tc_tensor_create(tc_system_allocator(), t->dtype, t->rank, sizes, &inputs[i]));
      bool variance = tc_sv_is(in->value->name, "var");
      if (t->dtype == TC_BOOL) tc_tensor_fill_uniform_int(&tc_executor_serial, &inputs[i], seed + (uint64_t)i, 0, 2);
      else tc_tensor_fill_normal(&tc_executor_serial, &inputs[i], seed + (uint64_t)i, 0, 1);
      for (int64_t k = 0; variance && k < tc_tensor_numel(&inputs[i]); k++) {
        float *v = (float *)tc_tensor_data(&inputs[i]) + k;
        *v = *v * *v + 0.1F;
      }
      if (!tc_sv_is(in->value->name, "row")) continue; // nobody is left without anything to attend to
      bool *v = tc_tensor_data(&inputs[i]);
      for (int64_t k = 0; k < tc_tensor_numel(&inputs[i]); k += sizes[t->rank - 1]) v[k] = false;
    }
    TC_TRY(tc_session_run(r->session, inputs, outputs[side], NULL));
  }
  int32_t n = runs[0].graph->outputs.count;
  for (int32_t i = 0; i < n; i++) compare(&outputs[0][i], &outputs[1][i], text);
  for (int32_t side = 0; side < 2; side++) {
    for (int32_t i = 0; i < n; i++) tc_tensor_unref(&outputs[side][i]);
    rig_close(&runs[side]);
  }
  for (int32_t i = 0; i < RIG_MOST; i++) tc_tensor_unref(&inputs[i]);
  return TC_OK;
}

// ---- attention ----
#define QKV                                                                                                         \
  "graph @f (%q : f32[2, 3, 6, 8] = user \"q\", %k : f32[2, 3, 5, 8] = user \"k\", %v : f32[2, 3, 5, 4] "           \
  "= user \"v\", %m : f32[2, 1, 1, 5] = user \"m\", %row : bool[6, 5] = user \"row\", %c : f32[] = user \"c\") {\n" \
  "  %t = aten::transpose.int(%k, -2, -1)\n"
#define PRODUCT "  %s = aten::matmul(%q, %t)\n"
#define END "  %o = aten::matmul(%p, %v)\n  return user %o\n}\n"
#define SDPA "scaled_dot_product_attention"

TC_TEST(attention_from_its_parts) {
  static const char *const found[] = {
      QKV PRODUCT "  %p = aten::softmax.int(%s, -1)\n" END,
      QKV PRODUCT "  %p = aten::_softmax(%s, 3, false)\n" END,
      QKV PRODUCT "  %d = aten::mul.Tensor(%s, 0.25)\n  %p = aten::softmax.int(%d, -1)\n" END,
      QKV PRODUCT "  %d = aten::div.Scalar(%s, 4)\n  %p = aten::softmax.int(%d, -1)\n" END,
      QKV PRODUCT "  %a = aten::add.Tensor(%m, %s)\n  %p = aten::softmax.int(%a, -1)\n" END,
      QKV PRODUCT
      "  %d = aten::div.Tensor(%s, 2.5)\n  %a = aten::add.Tensor(%d, %m)\n  %p = aten::softmax.int(%a, -1)\n" END,
      QKV PRODUCT "  %a = aten::masked_fill.Scalar(%s, %row, -inf)\n  %p = aten::softmax.int(%a, -1)\n" END,
      // as batched products of flattened batches
      QKV
      "  %q3 = aten::reshape(%q, [6, 6, 8])\n  %t3 = aten::reshape(%t, [6, 8, 5])\n  %b = aten::bmm(%q3, %t3)\n"
      "  %s = aten::view(%b, [2, 3, 6, 5])\n  %d = aten::mul.Scalar(%s, 0.5)\n  %a = aten::add.Tensor(%d, %m)\n"
      "  %p4 = aten::_softmax(%a, -1, false)\n  %p = aten::view(%p4, [6, 6, 5])\n  %v3 = aten::reshape(%v, [6, 5, 4])\n"
      "  %o3 = aten::bmm(%p, %v3)\n  %o = aten::view(%o3, [2, 3, 6, 4])\n  return user %o\n}\n",
      // safe: rows without any score are 0
      QKV PRODUCT
      "  %z = aten::full([6, 5], 0.0)\n  %w = aten::where.ScalarOther(%row, %z, -inf)\n"
      "  %a = aten::add.Tensor(%s, %w)\n  %p4 = aten::_softmax(%a, -1, false)\n  %e = aten::eq.Scalar(%a, -inf)\n"
      "  %n = aten::logical_not(%e)\n  %y = aten::any.dim(%n, -1, true)\n  %l = aten::logical_not(%y)\n"
      "  %f = aten::full_like(%p4, 0)\n  %p = aten::where.self(%l, %f, %p4)\n" END,
  };
  for (size_t i = 0; i < sizeof found / sizeof *found; i++) TC_TRY(check(arena, found[i], SDPA, true), "case %zu", i);
  return TC_OK;
}

// What decides is above the number that is taken away, or it is none of it.
TC_TEST(shrinking_from_its_parts) {
#define SHRUNK(a, b)                                                                                 \
  "graph @f (%x : f32[7] = user \"x\") {\n  %m = aten::abs(%x)\n  %g = aten::gt.Scalar(%m, " a ")\n" \
  "  %s = aten::sign(%x)\n  %t = aten::mul.Tensor(%s, " b ")\n  %d = aten::sub.Tensor(%x, %t)\n"     \
  "  %z = aten::mul.Tensor(%x, 0)\n  %y = aten::where.self(%g, %d, %z)\n  return user %y\n}\n"
  TC_TRY(check(arena, SHRUNK("0.5", "0.5"), "lt", true)); // of the parts of softshrink
  return check(arena, SHRUNK("0.5", "0.25"), "lt", false);
}

TC_TEST(what_is_no_attention) {
  static const char *const others[] = {
      // the weights are wanted, too
      QKV PRODUCT "  %p = aten::softmax.int(%s, -1)\n  %o = aten::matmul(%p, %v)\n  return user %o, user %p\n}\n",
      QKV PRODUCT "  %p = aten::softmax.int(%s, -1)\n  %o = aten::matmul(%p, %v)\n  return user %o, user %s\n}\n",
      // another dimension, a scale from data, a finite filling, a multiple of the mask
      QKV PRODUCT "  %p = aten::softmax.int(%s, -2)\n" END,
      QKV PRODUCT "  %d = aten::mul.Tensor(%s, %c)\n  %p = aten::softmax.int(%d, -1)\n" END,
      QKV PRODUCT "  %a = aten::masked_fill.Scalar(%s, %row, 1.5)\n  %p = aten::softmax.int(%a, -1)\n" END,
      QKV PRODUCT "  %a = aten::add.Tensor(%s, %m, alpha=2)\n  %p = aten::softmax.int(%a, -1)\n" END,
  };
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    TC_TRY(check(arena, others[i], SDPA, false), "case %zu", i);
  }
  return TC_OK;
}

// The mask has more heads than the scores: the sum is no attention over the scores' batches.
TC_TEST(masks_that_widen) {
  static const char text[] =
      "graph @f (%q : f32[2, 1, 6, 8] = user \"q\", %k : f32[2, 1, 8, 5] = user \"k\", %v : f32[2, 3, 5, 4] = user "
      "\"v\", %m : f32[2, 3, 6, 5] = user \"m\") {\n"
      "  %s = aten::matmul(%q, %k)\n  %a = aten::add.Tensor(%s, %m)\n  %p = aten::softmax.int(%a, -1)\n" END;
  return check(arena, text, SDPA, false);
}

// ---- weights ----
#define CONV(kind, w_type)                                                                                             \
  "graph @f (%x : f32[2, 4, 9, 7] = user \"x\", %w : " w_type " = " kind                                               \
  " \"w\", %b : f32[6] = parameter \"b\", %g : "                                                                       \
  "f32[6] = parameter \"g\", %h : f32[6] = parameter \"h\", %mean : f32[6] = buffer \"mean\", %var : f32[6] = buffer " \
  "\"var\") {\n"
#define NORM "aten::batch_norm(%y, %g, %h, %mean, %var, false, 0.1, 1e-05, true)\n  return user %o\n}\n"

TC_TEST(batch_norm_moves_into_weights) {
  static const char *const found[] = {
      CONV("parameter", "f32[6, 4, 3, 3]") "  %y = aten::conv2d(%x, %w, %b, [2, 1], [1, 0])\n  %o = " NORM,
      CONV("parameter", "f32[6, 4, 3, 3]") "  %y = aten::conv2d(%x, %w)\n  %o = " NORM,
      CONV("parameter", "f32[6, 2, 3, 3]") "  %y = aten::conv2d(%x, %w, %b, [1, 1], [1, 1], [1, 1], 2)\n  %o = "
                                           "aten::batch_norm(%y, none, none, %mean, %var, false, 0.1, 0.5, true)\n  "
                                           "return user %o\n}\n",
      CONV("parameter", "f32[6, 4, 3, 3]") "  %y = aten::convolution(%x, %w, none, [1, 1], [0, 0], [2, 2], false, [0, "
                                           "0], 1)\n  %o, %p, %q = "
                                           "aten::_native_batch_norm_legit_no_training(%y, %g, %h, %mean, %var, 0.1, "
                                           "1e-05)\n  return user %o\n}\n",
  };
  static const char *const others[] = {
      // weights of the caller; the convolution is wanted, too; statistics of the batch
      CONV("user", "f32[6, 4, 3, 3]") "  %y = aten::conv2d(%x, %w, %b)\n  %o = " NORM,
      CONV("parameter", "f32[6, 4, 3, 3]") "  %y = aten::conv2d(%x, %w, %b)\n  %o = "
                                           "aten::batch_norm(%y, %g, %h, %mean, %var, false, 0.1, 1e-05, true)\n  "
                                           "return user %o, user %y\n}\n",
      // the weight of a transposed convolution has its channels elsewhere
      CONV("parameter", "f32[4, 6, 3, 3]") "  %y = aten::convolution(%x, %w, none, [1, 1], [0, 0], [1, 1], true, [0, "
                                           "0], 1)\n  %o = " NORM,
  };
  for (size_t i = 0; i < sizeof found / sizeof *found; i++)
    TC_TRY(check(arena, found[i], "batch_norm(", false), "case %zu", i);
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    TC_TRY(check(arena, others[i], "batch_norm(", true), "case %zu", i);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(attention_from_its_parts),      cmocka_unit_test(what_is_no_attention),
      cmocka_unit_test(shrinking_from_its_parts),      cmocka_unit_test(masks_that_widen),
      cmocka_unit_test(batch_norm_moves_into_weights),
  };
  return TC_RUN(tests);
}
