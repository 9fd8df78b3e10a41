// Convolutions over bf16 on the processor's matrix unit against the references: channels and positions that fill no
// tile, strides, padding, dilation, groups, layouts, and what follows in one call. Where there is no such unit the same
// programs go through the template.
#include <math.h>

#include "tests/unit/runtime/rig.h"

enum { CASES = 30, FOLLOWERS = 6 };

typedef struct convolution {
  int64_t n, groups, in, out, h, w, kh, kw, stride[2], padding[2], dilation[2];
  bool bias, norm, sum, last, flat; // last: channels lie last; flat: one dimension
  int32_t follower;
} convolution;

static int64_t draw(uint64_t *seed, int64_t low, int64_t high) {
  return low + (int64_t)(tc_test_random(seed) % (uint64_t)(high - low + 1));
}

static int64_t out_size(int64_t in, int64_t k, int64_t stride, int64_t padding, int64_t dilation) {
  return (in + 2 * padding - dilation * (k - 1) - 1) / stride + 1;
}

static int64_t work(const convolution *c) {
  int64_t oh = c->flat ? 1 : out_size(c->h, c->kh, c->stride[0], c->padding[0], c->dilation[0]);
  return c->n * oh * out_size(c->w, c->kw, c->stride[1], c->padding[1], c->dilation[1]) * c->groups * c->in * c->out *
         c->kh * c->kw;
}

// Of a size that is worth a call, and that the references do soon.
static convolution draw_case(uint64_t *seed) {
  convolution c;
  do {
    c = (convolution){.n = draw(seed, 1, 3), .groups = draw(seed, 0, 3) ? 1 : draw(seed, 2, 3)};
    c.in = draw(seed, 0, 3) ? draw(seed, 8, 100) : draw(seed, 1, 8), c.out = draw(seed, 5, 100);
    c.flat = draw(seed, 0, 5) == 0;
    c.h = c.flat ? 1 : draw(seed, 1, 40), c.w = c.flat ? draw(seed, 50, 700) : draw(seed, 1, 60);
    c.kh = c.flat ? 1 : draw(seed, 1, 5), c.kw = draw(seed, 0, 2) ? c.kh : draw(seed, 1, 7);
    for (int32_t i = 0; i < 2; i++) {
      c.stride[i] = draw(seed, 0, 1) ? 1 : draw(seed, 1, 3), c.dilation[i] = draw(seed, 0, 2) ? 1 : draw(seed, 1, 3);
      c.padding[i] = draw(seed, 0, 3);
    }
    c.bias = draw(seed, 0, 1) != 0, c.norm = draw(seed, 0, 1) != 0, c.sum = draw(seed, 0, 1) != 0;
    c.last = draw(seed, 0, 1) != 0, c.follower = (int32_t)draw(seed, 0, FOLLOWERS - 1);
  } while (c.h + 2 * c.padding[0] <= c.dilation[0] * (c.kh - 1) ||
           c.w + 2 * c.padding[1] <= c.dilation[1] * (c.kw - 1) || work(&c) < 2000000 || work(&c) > 6000000);
  return c;
}

// "[…]" of one number for each dimension.
static tc_sv list(tc_arena *arena, const convolution *c, const int64_t v[2]) {
  if (c->flat) return tc_sv_printf(arena, "[%lld]", (long long)v[1]);
  return tc_sv_printf(arena, "[%lld, %lld]", (long long)v[0], (long long)v[1]);
}

// Sizes [a, b, h, w] as they lie in memory.
static tc_sv sizes(tc_arena *arena, bool flat, bool last, int64_t a, int64_t b, int64_t h, int64_t w) {
  if (flat) return tc_sv_printf(arena, "[%lld, %lld, %lld]", (long long)a, (long long)b, (long long)w);
  return tc_sv_printf(arena, "[%lld, %lld, %lld, %lld]", (long long)a, (long long)(last ? h : b),
                      (long long)(last ? w : h), (long long)(last ? b : w));
}

static tc_sv graph_of(tc_arena *arena, const convolution *c) {
  static const char *const followers[FOLLOWERS] = {"aten::neg(%a)",   "aten::relu(%a)",
                                                   "aten::relu6(%a)", "aten::hardswish(%a)",
                                                   "aten::silu(%a)",  "aten::hardtanh(%a, 0.0, 6.0)"};
  bool last = c->last && !c->flat;
  const char *turn = last ? "aten::permute(%%%c0, [0, 3, 1, 2])" : "aten::transpose.int(%%%c0, 0, 0)";
  int64_t channels = c->groups * c->out;
  int64_t oh = out_size(c->h, c->kh, c->stride[0], c->padding[0], c->dilation[0]),
          ow = out_size(c->w, c->kw, c->stride[1], c->padding[1], c->dilation[1]);
  tc_sb s = tc_sb_make(arena);
  tc_sb_printf(&s,
               "graph @g (%%x0 : bf16" TC_SV_FMT " = user \"x\", %%w : bf16" TC_SV_FMT
               " = user \"w\", %%o0 : bf16" TC_SV_FMT " = user \"o\"",
               TC_SV_ARG(sizes(arena, c->flat, last, c->n, c->groups * c->in, c->h, c->w)),
               TC_SV_ARG(sizes(arena, c->flat, false, channels, c->in, c->kh, c->kw)),
               TC_SV_ARG(sizes(arena, c->flat, last, c->n, channels, oh, ow)));
  for (const char *p = "bgem"; *p; p++)
    tc_sb_printf(&s, ", %%%c : bf16[%lld] = user \"%c\"", *p, (long long)channels, *p);
  tc_sb_printf(&s, ", %%v0 : f32[%lld] = user \"v\") {\n", (long long)channels);
  for (const char *p = "xo"; *p; p++) {
    char view[80];
    snprintf(view, sizeof view, turn, *p);
    tc_sb_printf(&s, "  %%%c = %s\n", *p, view);
  }
  tc_sb_putz(&s,
             "  %v1 = aten::abs(%v0)\n  %v2 = aten::add.Scalar(%v1, 0.5)\n  %v = aten::_to_copy(%v2, dtype=bf16)\n");
  tc_sb_printf(&s, "  %%c = aten::conv%dd(%%x, %%w, %s, " TC_SV_FMT ", " TC_SV_FMT ", " TC_SV_FMT ", %lld)\n",
               c->flat ? 1 : 2, c->bias ? "%b" : "none", TC_SV_ARG(list(arena, c, c->stride)),
               TC_SV_ARG(list(arena, c, c->padding)), TC_SV_ARG(list(arena, c, c->dilation)), (long long)c->groups);
  tc_sb_printf(&s, "  %%n = %s\n",
               c->norm ? c->bias ? "aten::batch_norm(%c, none, none, %m, %v, false, 0.1, 0.001, true)"
                                 : "aten::batch_norm(%c, %g, %e, %m, %v, false, 0.1, 0.001, true)"
                       : "aten::transpose.int(%c, 0, 0)");
  tc_sb_printf(&s, "  %%a = %s\n  %%r = %s\n  return user %%r\n}\n",
               c->sum ? "aten::add.Tensor(%n, %o)" : "aten::transpose.int(%n, 0, 0)", followers[c->follower]);
  return tc_sb_view(&s);
}

static tc_status compare(const char *text, uint64_t seed, int32_t *joined) {
  tc_tensor got, want;
  bool call = false;
  TC_TRY(rig_run_on("cpu", "always", text, seed, "aten::_convolution_packed", &got, &call), "of\n%s", text);
  TC_TRY(rig_run_on("ref", "always", text, seed, "aten::_convolution_packed", &want, NULL), "of\n%s", text);
  *joined += call;
  int64_t n = tc_tensor_numel(&want);
  double norm = 0, error = 0;
  assert_int_equal(tc_tensor_numel(&got), n);
  for (int64_t i = 0; i < n; i++) norm += rig_bf16(&want, i) * rig_bf16(&want, i);
  norm = sqrt(norm / (double)(n ? n : 1));
  for (int64_t i = 0; i < n; i++) {
    double x = rig_bf16(&got, i), y = rig_bf16(&want, i);
    // The references round behind each op to 8 bits, the call once.
    if (!(fabs(x - y) <= 0x1p-5 * (norm + fabs(y))))
      fail_msg("element %lld is %g, not %g, of\n%s", (long long)i, x, y, text);
    error += (x - y) * (x - y);
  }
  if (n && !(sqrt(error / (double)n) <= 0x1p-7 * norm + 1e-30))
    fail_msg("%g of %g is wrong in\n%s", sqrt(error / (double)n), norm, text);
  tc_tensor_unref(&got), tc_tensor_unref(&want);
  return TC_OK;
}

TC_TEST(convolutions_are_the_references) {
  uint64_t seed = tc_test_seed();
  int32_t joined = 0;
  for (int32_t i = 0; i < CASES; i++) {
    convolution c = draw_case(&seed);
    TC_TRY(compare(graph_of(arena, &c).data, seed, &joined));
  }
  if (joined != 0 && joined < CASES / 2) fail_msg("%d of %d programs had a call", joined, CASES);
  return TC_OK;
}

// The first convolution of networks for images: three channels, whose kernel's rows are packed.
TC_TEST(images_of_three_colours) {
  uint64_t seed = tc_test_seed();
  int32_t joined = 0;
  for (int32_t last = 0; last < 2; last++) {
    convolution c = {.n = 2, .groups = 1, .in = 3, .out = 40, .h = 37, .w = 35, .kh = 7, .kw = 7, .norm = true};
    for (int32_t i = 0; i < 2; i++) c.stride[i] = 2, c.padding[i] = 3, c.dilation[i] = 1;
    c.last = last != 0, c.follower = 1;
    TC_TRY(compare(graph_of(arena, &c).data, seed, &joined));
  }
  return TC_OK;
}

// No images, and sizes of one.
TC_TEST(few_positions) {
  uint64_t seed = tc_test_seed();
  int32_t joined = 0;
  convolution c = {.groups = 1, .in = 40, .out = 24, .h = 9, .w = 9, .kh = 3, .kw = 3, .sum = true, .bias = true};
  for (int32_t i = 0; i < 2; i++) c.stride[i] = 1, c.padding[i] = 1, c.dilation[i] = 1;
  TC_TRY(compare(graph_of(arena, &c).data, seed, &joined));
  c.n = 10, c.h = c.w = 1, c.in = 600, c.out = 340;
  return compare(graph_of(arena, &c).data, seed, &joined);
}

// Functions behind the sum keep what is not a number.
TC_TEST(not_a_number_stays) {
  static const char *const functions[] = {"relu(%c)", "hardtanh(%c, 0.0, 6.0)", "hardswish(%c)", "silu(%c)"};
  uint64_t seed = tc_test_seed();
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    tc_sv text =
        tc_sv_printf(arena,
                     "graph @g (%%x : bf16[1, 64, 16, 16] = user \"x\", %%w : bf16[64, 64, 3, 3] = user \"w\") {\n"
                     "  %%n = aten::full_like(%%x, nan)\n"
                     "  %%c = aten::conv2d(%%n, %%w, none, [1, 1], [1, 1], [1, 1], 1)\n  %%r = aten::%s\n"
                     "  %%z = aten::isnan(%%r)\n  %%y = aten::_to_copy(%%z, dtype=bf16)\n  return user %%y\n}\n",
                     functions[i]);
    tc_tensor got;
    TC_TRY(rig_run_on("cpu", "always", text.data, seed, "aten::_convolution_packed", &got, NULL), "of\n%s", text.data);
    for (int64_t k = 0; k < tc_tensor_numel(&got); k++) assert_true(rig_bf16(&got, k) == 1);
    tc_tensor_unref(&got);
  }
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(convolutions_are_the_references),
                                     cmocka_unit_test(images_of_three_colours), cmocka_unit_test(few_positions),
                                     cmocka_unit_test(not_a_number_stays)};
  return TC_RUN(tests);
}
