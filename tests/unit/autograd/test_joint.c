// Joint graphs against central differences in double precision, on the references; what has no gradient, and errors.
#include <math.h>

#include "core/autograd/autograd.h"
#include "core/ir/refexec.h"
#include "tests/unit/autograd/module.h"

typedef struct rig {
  tc_module *module;
  tc_graph *graph;
  const char *text;
  bool wanted[8];
  tc_joint joint;
} rig;

static tc_status build(void *arg) {
  rig *r = arg;
  TC_TRY(graph_of(r->module, r->text, &r->graph));
  return tc_autograd_joint(r->graph, r->wanted, &r->joint);
}

static tc_status open_rig(rig *r, tc_arena *arena, const char *text) {
  *r = (rig){.text = text};
  for (int i = 0; i < 8; i++) r->wanted[i] = true;
  TC_TRY(open_module(arena, &r->module));
  return tc_arena_guard(r->module->arena, build, r);
}

static tc_status fill(const tc_allocator *a, const tc_value *v, tc_tensor *out) {
  TC_TRY(tensor_of(a, v, out));
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

// A tensor says where what is taken begins.
TC_TEST(starts_from_data) {
  for (int32_t at = -2; at <= 2; at += 2) {
    tc_sv text = tc_sv_printf(arena,
                              "graph @f (%%x : f64[3, 4] = user \"x\") {\n  %%s = aten::full([], %d, dtype=i64)\n"
                              "  %%a = aten::narrow.Tensor(%%x, 1, %%s, 2)\n  %%y = aten::mul.Tensor(%%a, %%a)\n"
                              "  return user %%y\n}",
                              (int)at);
    TC_TRY(check(arena, text.data));
  }
  return TC_OK;
}

// What is empty has the strides that its readers were made for.
TC_TEST(strides_of_nothing) {
  rig r;
  TC_TRY(open_rig(&r, arena,
                  "graph @f (%x : f64[4, 3, 0, 11]{66, 22, 22, 1} = user \"x\") {\n"
                  "  %y = aten::diagonal(%x)\n  return user %y\n}"));
  tc_sb sb = tc_sb_make(arena);
  tc_graph_print(&sb, r.joint.graph);
  rig again;
  TC_TRY(open_rig(&again, arena, sb.text), "in %s", sb.text);
  tc_module_destroy(again.module);
  tc_module_destroy(r.module);
  return TC_OK;
}

// A bias may be broadcast in more than the rows.
TC_TEST(biases) {
  static const char *const texts[] = {
      "graph @f (%x : f64[3, 2] = user \"x\", %w : f64[2, 2] = user \"w\", %b : f64[3, 2] = user \"b\") {\n"
      "  %y = aten::linear(%x, %w, %b)\n  return user %y\n}",
      "graph @f (%x : f64[3, 2] = user \"x\", %w : f64[4, 2] = user \"w\", %b : f64[3, 1] = user \"b\") {\n"
      "  %y = aten::linear(%x, %w, %b)\n  return user %y\n}",
      "graph @f (%x : f64[3, 2] = user \"x\", %w : f64[2] = user \"w\", %b : f64[] = user \"b\") {\n"
      "  %y = aten::linear(%x, %w, %b)\n  return user %y\n}",
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

// One graph or more for each way of differentiating; what copies elements is squared, so that its places matter.
TC_TEST(families) {
  static const char *const texts[] = {
      "graph @f (%x : f64[2, 4, 7] = user \"x\", %w : f64[6, 2, 3] = user \"w\", %b : f64[6] = user \"b\") {\n"
      "  %y = aten::conv1d(%x, %w, %b, [2], [1], [2], 2)\n"
      "  return user %y\n}",
      "graph @f (%x : f64[1, 2, 4, 5] = user \"x\", %w : f64[3, 2, 3, 2] = user \"w\", %b : f64[3] = user \"b\") {\n"
      "  %y = aten::conv2d.padding(%x, %w, %b, [1, 1], \"same\", [1, 2], 1)\n"
      "  return user %y\n}",
      "graph @f (%x : f64[1, 4, 3, 3] = user \"x\", %w : f64[4, 2, 3, 2] = user \"w\", %b : f64[4] = user \"b\") {\n"
      "  %y = aten::conv_transpose2d.input(%x, %w, %b, [2, 1], [1, 0], [1, 0], 2, [1, 1])\n"
      "  return user %y\n}",
      "graph @f (%x : f64[1, 2, 5, 6] = user \"x\") {\n"
      "  %p, %i = aten::max_pool2d_with_indices(%x, [2, 3], [2, 2], [1, 1])\n"
      "  %y = aten::mul.Tensor(%p, %p)\n"
      "  return user %y\n}",
      "graph @f (%x : f64[1, 2, 5, 6] = user \"x\") {\n"
      "  %a = aten::avg_pool2d(%x, [2, 3], [2, 2], [1, 1], true, false)\n"
      "  %b = aten::avg_pool2d(%x, [2, 3], [2, 2], [1, 1], true, true, 5)\n"
      "  %y = aten::mul.Tensor(%a, %b)\n"
      "  return user %y\n}",
      "graph @f (%x : f64[1, 2, 5, 7] = user \"x\") {\n"
      "  %a = aten::adaptive_avg_pool2d(%x, [2, 3])\n"
      "  %y = aten::mul.Tensor(%a, %a)\n"
      "  return user %y\n}",
      "graph @f (%x : f64[1, 1, 3, 4] = user \"x\") {\n"
      "  %a = aten::upsample_bilinear2d(%x, [5, 7], true)\n"
      "  %b = aten::upsample_bicubic2d(%x, [5, 7], false)\n"
      "  %c = aten::upsample_nearest2d(%x, [5, 7])\n"
      "  %d = aten::mul.Tensor(%a, %b)\n"
      "  %y = aten::mul.Tensor(%d, %c)\n"
      "  return user %y\n}",
      "graph @f (%x : f64[1, 2, 4, 5] = user \"x\", %g : f64[1, 3, 2, 2] = user \"g\") {\n"
      "  %s = aten::sub.Tensor(%g, 0.63)\n"
      "  %a = aten::grid_sampler(%x, %s, 0, 0, false)\n"
      "  %b = aten::grid_sampler(%x, %s, 2, 1, true)\n"
      "  %y = aten::mul.Tensor(%a, %b)\n"
      "  return user %y\n}",
      "graph @f (%x : f64[2, 3, 4] = user \"x\", %w : f64[3] = user \"w\", %b : f64[3] = user \"b\") {\n"
      "  %y, %m, %r = aten::native_batch_norm(%x, %w, %b, none, none, true, 0.1, 0.01)\n"
      "  return user %y\n}",
      "graph @f (%x : f64[2, 6, 3] = user \"x\", %w : f64[6] = user \"w\", %b : f64[6] = user \"b\") {\n"
      "  %y, %m, %r = aten::native_group_norm(%x, %w, %b, 2, 6, 3, 3, 0.01)\n"
      "  %z = aten::mul.Tensor(%y, %y)\n"
      "  return user %z\n}",
      "graph @f (%x : f64[2, 5] = user \"x\") {\n"
      "  %a = aten::reflection_pad1d(%x, [2, 3])\n"
      "  %b = aten::pad(%x, [2, 3], \"circular\")\n"
      "  %y = aten::mul.Tensor(%a, %b)\n"
      "  return user %y\n}",
      "graph @f (%x : f64[3, 7] = user \"x\") {\n"
      "  %a = aten::unfold(%x, 1, 3, 2)\n"
      "  %b = aten::repeat(%a, [2, 1, 1, 2])\n"
      "  %y = aten::mul.Tensor(%b, %b)\n"
      "  return user %y\n}",
      "graph @f (%x : f64[3, 4] = user \"x\") {\n"
      "  %a, %i = aten::sort(%x, 1, true)\n"
      "  %b = aten::cumprod(%a, 1)\n"
      "  %c = aten::logcumsumexp(%x, 0)\n"
      "  %y = aten::mul.Tensor(%b, %c)\n"
      "  return user %y\n}",
      "graph @f (%x : f64[3, 4] = user \"x\") {\n"
      "  %a = aten::prod.dim_int(%x, 1)\n"
      "  %b = aten::std.correction(%x, [1], correction=1)\n"
      "  %c = aten::linalg_vector_norm(%x, 3, [1])\n"
      "  %d = aten::mul.Tensor(%a, %b)\n"
      "  %y = aten::mul.Tensor(%c, %d)\n"
      "  return user %y\n}",
      "graph @f (%x : f64[4, 3] = user \"x\", %s : f64[2, 3] = user \"s\") {\n"
      "  %i = aten::arange.start(1, 3)\n"
      "  %a = aten::index_add(%x, 0, %i, %s, alpha=2)\n"
      "  %b = aten::index_copy(%a, 0, %i, %s)\n"
      "  %y = aten::mul.Tensor(%a, %b)\n"
      "  return user %y\n}",
      "graph @f (%x : f64[4, 3] = user \"x\", %s : f64[2, 3] = user \"s\") {\n"
      "  %i = aten::arange.start(1, 3)\n"
      "  %a = aten::index_reduce(%x, 0, %i, %s, \"prod\")\n"
      "  %b = aten::index_reduce(%x, 0, %i, %s, \"mean\", include_self=false)\n"
      "  %y = aten::mul.Tensor(%a, %b)\n"
      "  return user %y\n}",
      "graph @f (%x : f64[4, 3] = user \"x\", %s : f64[2, 3] = user \"s\") {\n"
      "  %a = aten::slice_scatter(%x, %s, 0, 1, 3)\n"
      "  %b = aten::as_strided(%a, [3, 2], [3, 2], 1)\n"
      "  %y = aten::mul.Tensor(%b, %b)\n"
      "  return user %y\n}",
      "graph @f (%a : f64[3, 3] = user \"a\", %b : f64[3, 2] = user \"b\") {\n"
      "  %s = aten::linalg_solve(%a, %b)\n"
      "  %i = aten::linalg_inv(%a)\n"
      "  %y = aten::mm(%i, %s)\n"
      "  return user %y\n}",
      "graph @f (%x : f64[3, 3] = user \"x\") {\n"
      "  %t = aten::t(%x)\n"
      "  %p = aten::mm(%x, %t)\n"
      "  %e = aten::eye(3, dtype=f64)\n"
      "  %q = aten::add.Tensor(%p, %e)\n"
      "  %l = aten::linalg_cholesky(%q)\n"
      "  %d = aten::linalg_det(%q)\n"
      "  %y = aten::mul.Tensor(%l, %d)\n"
      "  return user %y\n}",
      "graph @f (%x : f64[4, 3] = user \"x\") {\n"
      "  %q, %r = aten::linalg_qr(%x)\n"
      "  %s = aten::linalg_svdvals(%x)\n"
      "  %a = aten::mm(%q, %r)\n"
      "  %b = aten::mul.Tensor(%r, %s)\n"
      "  %y = aten::cat([%a, %b], 0)\n"
      "  return user %y\n}",
      "graph @f (%x : f64[3, 3] = user \"x\") {\n"
      "  %e = aten::matrix_exp(%x)\n"
      "  %p = aten::linalg_pinv(%x, 1e-10)\n"
      "  %y = aten::mul.Tensor(%e, %p)\n"
      "  return user %y\n}",
      "graph @f (%x : f64[4, 5] = user \"x\") {\n"
      "  %lu, %p, %i = aten::linalg_lu_factor_ex(%x)\n"
      "  %y = aten::mul.Tensor(%lu, %lu)\n"
      "  return user %y\n}",
      "graph @f (%x : f64[5] = user \"x\") {\n"
      "  %a = aten::i0(%x)\n"
      "  %b = aten::special_i1e(%x)\n"
      "  %c = aten::special_erfcx(%x)\n"
      "  %d = aten::special_bessel_j1(%x)\n"
      "  %e = aten::mul.Tensor(%a, %b)\n"
      "  %h = aten::mul.Tensor(%c, %d)\n"
      "  %y = aten::mul.Tensor(%e, %h)\n"
      "  return user %y\n}",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) TC_TRY(check(arena, texts[i]));
  return TC_OK;
}

TC_TEST(complex_families) {
  static const char *const texts[] = {
      "graph @f (%x : c128[2, 2, 4] = user \"x\", %w : c128[3, 2, 2] = user \"w\") {\n"
      "  %y = aten::conv1d(%x, %w)\n"
      "  return user %y\n}",
      "graph @f (%a : c128[3, 3] = user \"a\", %b : c128[3, 2] = user \"b\") {\n"
      "  %s = aten::linalg_solve(%a, %b)\n"
      "  %i = aten::linalg_inv(%a)\n"
      "  %y = aten::mm(%i, %s)\n"
      "  return user %y\n}",
      "graph @f (%x : c128[2, 3] = user \"x\") {\n"
      "  %a = aten::cumprod(%x, 1)\n"
      "  %b = aten::prod.dim_int(%x, 1, true)\n"
      "  %y = aten::mul.Tensor(%a, %b)\n"
      "  return user %y\n}",
      "graph @f (%x : c128[3, 2] = user \"x\") {\n"
      "  %q, %r = aten::linalg_qr(%x)\n"
      "  %y = aten::mm(%q, %r)\n"
      "  return user %y\n}",
      "graph @f (%x : c128[2, 3] = user \"x\") {\n"
      "  %a = aten::std.correction(%x, [1], correction=1)\n"
      "  %b = aten::linalg_vector_norm(%x, 3, [1])\n"
      "  %y = aten::mul.Tensor(%a, %b)\n"
      "  return user %y\n}",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) TC_TRY(check(arena, texts[i]));
  return TC_OK;
}

// Carried, stacked and further operands; what is carried and not begun with; a scan of a scan's results.
TC_TEST(loops) {
  static const char *const texts[] = {
      "graph @f (%h : f64[3] = user \"h\", %x : f64[4, 3] = user \"x\", %w : f64[3] = user \"w\") {\n"
      "  %c : f64[3], %y : f64[4, 3] = higher_order::scan(graph @body (%h : f64[3] = operand \"h\", %x : f64[3] = "
      "operand "
      "\"x\", %w : f64[3] = operand \"w\") {\n    %a : f64[3] = aten::mul.Tensor(%h, %w)\n    %b : f64[3] = "
      "aten::add.Tensor(%a, %x)\n    %n : f64[3] = aten::tanh(%b)\n    %y : f64[3] = aten::mul.Tensor(%n, %x)\n    "
      "return "
      "user %n, user %y\n  }, [%h], [%x], [%w])\n"
      "  %z : f64[4, 3] = aten::mul.Tensor(%y, %c)\n  return user %z\n}",
      "graph @f (%x : f64[4, 3] = user \"x\") {\n  %h : f64[3] = aten::ones([3], dtype=f64)\n"
      "  %c : f64[3], %y : f64[4, 3] = higher_order::scan(graph @body (%h : f64[3] = operand \"h\", %x : f64[3] = "
      "operand "
      "\"x\") {\n    %n : f64[3] = aten::mul.Tensor(%h, %x)\n    %y : f64[3] = aten::sin(%h)\n    return user %n, user "
      "%y\n  }, [%h], [%x], [])\n"
      "  %d : f64[3], %z : f64[4, 3] = higher_order::scan(graph @again (%h : f64[3] = operand \"h\", %x : f64[3] = "
      "operand "
      "\"x\") {\n    %n : f64[3] = aten::add.Tensor(%h, %x)\n    %y : f64[3] = aten::exp(%n)\n    return user %n, user "
      "%y\n  }, [%c], [%y], [])\n"
      "  %r : f64[4, 3] = aten::mul.Tensor(%z, %d)\n  return user %r\n}",
      "graph @f (%x : f64[4, 3] = user \"x\", %w : f64[3] = user \"w\") {\n"
      "  %y : f64[4, 3] = higher_order::map_impl(graph @body (%x : f64[3] = operand \"x\", %w : f64[3] = operand "
      "\"w\") {\n"
      "    %a : f64[3] = aten::mul.Tensor(%x, %w)\n    %b : f64[3] = aten::sin(%a)\n    return user %b\n  }, [%x], "
      "[%w])\n"
      "  return user %y\n}",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) TC_TRY(check(arena, texts[i]));
  return TC_OK;
}

// As many turns as the data wants, none among them; with a number that is counted by itself, and what is only read.
TC_TEST(loops_without_end) {
#define WHILE(least)                                                                                                  \
  "graph @f (%x : f64[3] = user \"x\", %w : f64[3] = user \"w\", %v : f64[3] = user \"v\") {\n"                       \
  "  %k : i64[] = aten::zeros([], dtype=i64)\n"                                                                       \
  "  %a : f64[3], %b : f64[3], %n : i64[] = higher_order::while_loop(graph @test (%a : f64[3] = operand \"a\", %b : " \
  "f64[3] = operand \"b\", %k : i64[] = operand \"k\", %w : f64[3] = operand \"w\") {\n"                              \
  "    %s : f64[] = aten::sum(%a)\n    %g : bool[] = aten::lt.Scalar(%s, " least ")\n    return user %g\n  }, "       \
  "graph @body (%a : f64[3] = operand \"a\", %b : f64[3] = operand \"b\", %k : i64[] = operand \"k\", %w : f64[3] = " \
  "operand \"w\") {\n    %e : f64[3] = aten::mul.Tensor(%a, %w)\n    %c : f64[3] = aten::sigmoid(%e)\n"               \
  "    %d : f64[3] = aten::add.Tensor(%a, %c)\n    %h : f64[3] = aten::mul.Tensor(%b, %w)\n"                          \
  "    %i : f64[3] = aten::sin(%h)\n    %j : i64[] = aten::add.Scalar(%k, 1)\n"                                       \
  "    return user %d, user %i, user %j\n  }, [%x, %v, %k], [%w])\n"                                                  \
  "  %y : f64[3] = aten::mul.Tensor(%a, %b)\n  return user %y\n}"
  static const char *const texts[] = {WHILE("12"), WHILE("5"), WHILE("0")};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) TC_TRY(check(arena, texts[i]), "%zu", i);
  return TC_OK;
}

// A row that may attend to nothing has no gradient, not NaN.
TC_TEST(rows_of_infinity) {
  return check(arena,
               "graph @f (%q : f64[1, 3, 2] = user \"q\", %k : f64[1, 3, 2] = user \"k\", %v : f64[1, 3, 2] = user "
               "\"v\") {\n  %n = aten::full([1, 3], -inf, dtype=f64)\n  %z = aten::zeros([2, 3], dtype=f64)\n"
               "  %m = aten::cat([%n, %z], 0)\n"
               "  %y = aten::scaled_dot_product_attention(%q, %k, %v, %m)\n  return user %y\n}");
}

// Sequences of labels, equal ones in a row among them; the gradient is that of a loss of log_softmax's results.
TC_TEST(sequences_of_labels) {
  static const char *const texts[] = {
      "graph @f (%x : f64[4, 2, 3] = user \"x\") {\n  %l = aten::log_softmax.int(%x, -1)\n"
      "  %a = aten::arange(6)\n  %b = aten::div.Scalar_mode(%a, 2, rounding_mode=\"floor\")\n  %t = aten::view(%b, [2, "
      "3])\n"
      "  %y = aten::ctc_loss.IntList(%l, %t, [4, 3], [3, 2], 0, 0)\n  return user %y\n}",
      "graph @f (%x : f64[5, 2, 3] = user \"x\") {\n  %l = aten::log_softmax.int(%x, -1)\n"
      "  %a = aten::arange(4)\n  %t = aten::div.Scalar_mode(%a, 2, rounding_mode=\"floor\")\n  %m = aten::full([2], 5, "
      "dtype=i64)\n"
      "  %n = aten::full([2], 2, dtype=i64)\n  %y = aten::ctc_loss.Tensor(%l, %t, %m, %n, 2)\n  return user %y\n}",
      "graph @f (%x : f64[3, 3] = user \"x\") {\n  %l = aten::log_softmax.int(%x, -1)\n"
      "  %t = aten::full([1, 4], 1, dtype=i64)\n"
      "  %y = aten::ctc_loss.IntList(%l, %t, [3], [3], 0, 2, true)\n  return user %y\n}",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) TC_TRY(check(arena, texts[i]));
  return TC_OK;
}

// Attention in all its forms, also where what flows back comes through the logarithms of the sums.
TC_TEST(attention) {
  static const char *const texts[] = {
      "graph @f (%q : f64[2, 3, 4, 2] = user \"q\", %k : f64[2, 3, 5, 2] = user \"k\", %v : f64[2, 3, 5, 3] = user "
      "\"v\") {\n  %y = aten::scaled_dot_product_attention(%q, %k, %v, none, 0.0, true, scale=0.7)\n  return user "
      "%y\n}",
      "graph @f (%q : f64[2, 4, 3, 2] = user \"q\", %k : f64[2, 2, 5, 2] = user \"k\", %v : f64[2, 2, 5, 3] = user "
      "\"v\", %m : f64[4, 3, 5] = user \"m\") {\n  %y = aten::scaled_dot_product_attention(%q, %k, %v, %m, "
      "enable_gqa=true)\n  return user %y\n}",
      "graph @f (%q : f64[1, 4, 2] = user \"q\", %k : f64[3, 5, 2] = user \"k\", %v : f64[3, 5, 2] = user \"v\") {\n"
      "  %y = aten::scaled_dot_product_attention(%q, %k, %v)\n  return user %y\n}",
      "graph @f (%q : f64[3, 4, 2] = user \"q\", %k : f64[3, 5, 2] = user \"k\", %v : f64[3, 5, 2] = user \"v\") {\n"
      "  %y, %l = aten::_attention(%q, %k, %v, none, false, 0.5)\n  %s = aten::sum.dim_IntList(%y, [-1])\n"
      "  %z = aten::mul.Tensor(%s, %l)\n  return user %z\n}",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) TC_TRY(check(arena, texts[i]));
  return TC_OK;
}

// Both branches, one of which does not use an operand.
TC_TEST(conditions) {
  static const char *const texts[] = {
      "graph @f (%x : f64[2, 3] = user \"x\", %w : f64[3] = user \"w\", %v : f64[3] = user \"v\") {\n"
      "  %s : f64[] = aten::sum(%x, none)\n  %p : bool[] = aten::gt.Scalar(%s, 0)\n"
      "  %c : f64[2, 3], %d : f64[3] = higher_order::cond(%p, graph @yes (%x : f64[2, 3] = operand \"x\", %w : f64[3] "
      "= "
      "operand \"w\", %v : f64[3] = operand \"v\") {\n    %a : f64[2, 3] = aten::mul.Tensor(%x, %w)\n    %b : f64[3] = "
      "aten::sin(%w)\n    return user %a, user %b\n  }, graph @no (%x : f64[2, 3] = operand \"x\", %w : f64[3] = "
      "operand "
      "\"w\", %v : f64[3] = operand \"v\") {\n    %a : f64[2, 3] = aten::div.Tensor(%x, %v)\n    %b : f64[3] = "
      "aten::exp(%v)\n    return user %a, user %b\n  }, [%x, %w, %v])\n"
      "  %y : f64[2, 3] = aten::mul.Tensor(%c, %d)\n  return user %y\n}",
      "graph @f (%x : f64[2, 3] = user \"x\", %w : f64[3] = user \"w\", %v : f64[3] = user \"v\") {\n"
      "  %s : f64[] = aten::sum(%x, none)\n  %p : bool[] = aten::lt.Scalar(%s, 0)\n"
      "  %c : f64[2, 3], %d : f64[3] = higher_order::cond(%p, graph @yes (%x : f64[2, 3] = operand \"x\", %w : f64[3] "
      "= "
      "operand \"w\", %v : f64[3] = operand \"v\") {\n    %a : f64[2, 3] = aten::mul.Tensor(%x, %w)\n    %b : f64[3] = "
      "aten::sin(%w)\n    return user %a, user %b\n  }, graph @no (%x : f64[2, 3] = operand \"x\", %w : f64[3] = "
      "operand "
      "\"w\", %v : f64[3] = operand \"v\") {\n    %a : f64[2, 3] = aten::div.Tensor(%x, %v)\n    %b : f64[3] = "
      "aten::exp(%v)\n    return user %a, user %b\n  }, [%x, %w, %v])\n"
      "  %y : f64[2, 3] = aten::mul.Tensor(%c, %d)\n  return user %y\n}",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) TC_TRY(check(arena, texts[i]));
  return TC_OK;
}

// No op is forgotten: it has a derivative or a decomposition, or is one of those through which nothing flows (integers,
// conditions, constants, writes that functionalization replaces), or whose derivatives are not known in closed form.
TC_TEST(every_op_says_something) {
  static const char *const none[] = {"bitwise_",
                                     "__and__",
                                     "__or__",
                                     "__xor__",
                                     "__lshift__",
                                     "__rshift__",
                                     "lt",
                                     "le",
                                     "gt",
                                     "ge",
                                     "eq",
                                     "ne",
                                     "logical_",
                                     "isnan",
                                     "isinf",
                                     "isfinite",
                                     "isreal",
                                     "isin",
                                     "any",
                                     "all",
                                     "argmax",
                                     "argmin",
                                     "argsort",
                                     "gcd",
                                     "lcm",
                                     "where.Scalar",
                                     "full",
                                     "zeros",
                                     "ones",
                                     "empty",
                                     "scalar_tensor",
                                     "arange",
                                     "linspace",
                                     "eye",
                                     "rand",
                                     "randn",
                                     "randint",
                                     "tril_indices",
                                     "triu_indices",
                                     "_assert",
                                     "item",
                                     "_local_scalar_dense",
                                     "hash_tensor",
                                     "mask_ends",
                                     "mask_places",
                                     "unravel",
                                     "steps",
                                     "resize",
                                     "_native_batch_norm_legit",
                                     "_batch_norm_with_update",
                                     "copy_",
                                     "_ctc_paths",
                                     "_int_list",
                                     "special_airy_ai",
                                     "special_chebyshev",
                                     "special_shifted_chebyshev",
                                     "special_hermite",
                                     "special_laguerre",
                                     "special_legendre",
                                     "geqrf",
                                     "linalg_ldl",
                                     "_linear_then", // made behind gradients: what a library does in one call
                                     "_pack_convolution",
                                     "_convolution_packed",
                                     "cond",
                                     "while_loop",
                                     "scan",
                                     "map_impl",
                                     "grad."};
  tc_op_registry *ops;
  TC_TRY(tc_op_registry_create(arena, &ops));
  TC_TRY(tc_ops_register_core(ops));
  for (int32_t i = 0; i < tc_op_registry_count(ops); i++) {
    const tc_op *op = tc_op_registry_at(ops, i);
    bool says = op->grad.n_results || op->forward.n_results || tc_op_can_expand(op) ||
                (op->schema.n_args && op->schema.args[0].writes);
    tc_sv name = tc_sv_printf(arena, "%.*s.%.*s", (int)op->schema.name.size, op->schema.name.data,
                              (int)op->schema.overload.size, op->schema.overload.data);
    for (size_t k = 0; k < sizeof none / sizeof *none && !says; k++) says = tc_sv_starts(name, none[k]);
    if (!says)
      fail_msg("%.*s has neither a derivative nor a decomposition", (int)op->full_name.size, op->full_name.data);
  }
  return TC_OK;
}

// Sums over nothing are zeros, whichever size it is that is 0.
TC_TEST(empty_tensors) {
  static const char *const texts[] = {
      "graph @f (%x : f64[2, 3, 0] = user \"x\", %w : f64[4, 0] = user \"w\", %b : f64[4] = user \"b\") {\n"
      "  %y = aten::linear(%x, %w, %b)\n  return user %y\n}",
      "graph @f (%x : f64[2, 3] = user \"x\", %w : f64[0, 3] = user \"w\") {\n"
      "  %y = aten::linear(%x, %w)\n  return user %y\n}",
      "graph @f (%x : f64[2, 0] = user \"x\", %w : f64[0, 0] = user \"w\") {\n"
      "  %y = aten::linear(%x, %w)\n  return user %y\n}",
      "graph @f (%x : f64[0] = user \"x\", %w : f64[0] = user \"w\") {\n"
      "  %y = aten::linear(%x, %w)\n  return user %y\n}",
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
  TC_TRY(open_rig(&r, arena,
                  "graph @f (%x : f64[3, 3] = user \"x\", %p : i32[3] = user \"p\") {\n"
                  "  %a, %l, %u = aten::lu_unpack(%x, %p, false)\n  return user %a, user %l\n}"));
  assert_int_equal(r.joint.gradients[0], -1); // the factors are not asked for
  tc_module_destroy(r.module);
  return TC_OK;
}

// What nobody knows is no zero: an error names the op.
TC_TEST(unknown_derivatives_are_refused) {
  static const char *const ops[] = {"igamma", "igammac", "special_gammainc", "special_gammaincc", "special_zeta"};
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
    for (int32_t first = 0; first < 2; first++) {
      rig r;
      tc_sv text = tc_sv_printf(arena,
                                "graph @f (%%x : f64[3] = user \"x\") {\n  %%c : f64[3] = aten::full([3], 1.5, "
                                "dtype=f64)\n  %%a : f64[3] = aten::%s(%s)\n  return user %%a\n}",
                                ops[i], first ? "%x, %c" : "%c, %x");
      tc_status s = open_rig(&r, arena, text.data);
      if (!first) TC_TRY(s);
      else if (s == TC_OK) fail_msg("%s has a derivative for its first argument", ops[i]);
      else assert_non_null(strstr(tc_status_text(s), ops[i]));
      if (first) assert_int_equal(tc_status_code(s), TC_STATUS_UNIMPLEMENTED);
      tc_status_free(s);
      tc_module_destroy(r.module);
    }
  }
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(unknown_derivatives_are_refused),
                                     cmocka_unit_test(real_graphs),
                                     cmocka_unit_test(complex_graphs),
                                     cmocka_unit_test(families),
                                     cmocka_unit_test(complex_families),
                                     cmocka_unit_test(conditions),
                                     cmocka_unit_test(loops),
                                     cmocka_unit_test(loops_without_end),
                                     cmocka_unit_test(rows_of_infinity),
                                     cmocka_unit_test(sequences_of_labels),
                                     cmocka_unit_test(attention),
                                     cmocka_unit_test(every_op_says_something),
                                     cmocka_unit_test(starts_from_data),
                                     cmocka_unit_test(strides_of_nothing),
                                     cmocka_unit_test(biases),
                                     cmocka_unit_test(empty_tensors),
                                     cmocka_unit_test(what_has_no_gradient)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
