// Images with their channels last inside of programs: random chains of what models do with images give the numbers of
// the references, in the strides that the programs promise.
#include <math.h>

#include "tests/unit/runtime/rig.h"

enum { CASES = 6, STEPS = 9, MOST_CHANNELS = 48, KINDS = 13 };

typedef struct chain {
  uint64_t seed;
  tc_sb text;
  int64_t c, h, w; // of the last image
  int32_t last;
} chain;

static int64_t draw(uint64_t *seed, int64_t low, int64_t high) {
  return low + (int64_t)(tc_test_random(seed) % (uint64_t)(high - low + 1));
}

#define ADD(...) tc_sb_printf(&x->text, __VA_ARGS__)

// What the next image is made of; its name is that of the last one plus 1.
static void add_convolution(chain *x, int64_t k, int64_t groups) {
  int32_t v = x->last + 1;
  long long out = groups > 1 ? x->c : draw(&x->seed, 4, MOST_CHANNELS), in = groups > 1 ? 1 : x->c;
  ADD("  %%a%d = aten::slice.Tensor(%%k%lld, 0, 0, %lld, 1)\n  %%b%d = aten::slice.Tensor(%%a%d, 1, 0, %lld, 1)\n", v,
      (long long)k, out, v, v, in);
  ADD("  %%d%d = aten::slice.Tensor(%%bias, 0, 0, %lld, 1)\n", v, out);
  ADD("  %%c%d = aten::conv2d(%%v%d, %%b%d, %%d%d, [1, 1], [%lld, %lld], [1, 1], %lld)\n", v, x->last, v, v,
      (long long)k / 2, (long long)k / 2, (long long)groups);
  ADD("  %%v%d = aten::mul.Tensor(%%c%d, 0.05)\n", v, v); // numbers of about 1
  x->c = out;
}

static void add_step(chain *x) {
  int32_t v = x->last + 1, u = x->last;
  long long c = x->c, h = x->h, w = x->w;
  switch (draw(&x->seed, 0, KINDS - 1)) {
  case 0: add_convolution(x, 3, 1); break;
  case 1: add_convolution(x, 1, 1); break;
  case 2: add_convolution(x, 3, c); break;
  case 3: ADD("  %%v%d = aten::relu(%%v%d)\n", v, u); break;
  case 4:
    if (h < 4 || w < 4) return;
    ADD("  %%v%d = aten::max_pool2d(%%v%d, [2, 2], [2, 2])\n", v, u);
    x->h /= 2, x->w /= 2;
    break;
  case 5:
    ADD("  %%v%d = aten::permute(%%v%d, [0, 1, 3, 2])\n", v, u);
    x->h = w, x->w = h;
    break;
  case 6:
    ADD("  %%a%d = aten::reshape(%%v%d, [2, %lld, %lld])\n  %%b%d = aten::softmax.int(%%a%d, 2)\n", v, u, c, h * w, v,
        v);
    ADD("  %%v%d = aten::reshape(%%b%d, [2, %lld, %lld, %lld])\n", v, v, c, h, w);
    break;
  case 7:
    if (c < 3) return;
    ADD("  %%v%d = aten::slice.Tensor(%%v%d, 1, 1, %lld, 1)\n", v, u, c);
    x->c = c - 1;
    break;
  case 8:
    if (h * w > 300) return;
    ADD("  %%v%d = aten::upsample_nearest2d(%%v%d, [%lld, %lld])\n", v, u, 2 * h, 2 * w);
    x->h = 2 * h, x->w = 2 * w;
    break;
  case 9:
    ADD("  %%a%d = aten::mean.dim(%%v%d, [2, 3], true)\n  %%v%d = aten::mul.Tensor(%%v%d, %%a%d)\n", v, u, v, u, v);
    break;
  case 10: ADD("  %%v%d = aten::clone(%%v%d, memory_format=contiguous_format)\n", v, u); break;
  case 11:
    if (2 * c > MOST_CHANNELS) return;
    ADD("  %%v%d = aten::cat([%%v%d, %%v%d], 1)\n", v, u, u);
    x->c = 2 * c;
    break;
  default: ADD("  %%a%d = aten::sigmoid(%%v%d)\n  %%v%d = aten::add.Tensor(%%v%d, %%a%d)\n", v, u, v, u, v);
  }
  x->last = v;
}

static const char *make_text(chain *x) {
  x->c = draw(&x->seed, 1, 20), x->h = draw(&x->seed, 4, 14), x->w = draw(&x->seed, 4, 14), x->last = 0;
  ADD("graph @g (%%v0 : f32[2, %lld, %lld, %lld] = user \"x\", %%k1 : f32[48, 48, 1, 1] = user \"k1\", %%k3 : f32[48, "
      "48, "
      "3, 3] = user \"k3\", %%bias : f32[48] = user \"b\") {\n",
      (long long)x->c, (long long)x->h, (long long)x->w);
  add_convolution(x, 3, 1);
  x->last = 1;
  int32_t middle = 1;
  for (int32_t i = 0; i < STEPS; i++) {
    add_step(x);
    if (i == STEPS / 2) middle = x->last;
  }
  ADD("  return user %%v%d, user %%v%d\n}\n", x->last, middle);
  return x->text.text;
}

static tc_status run(const char *backend, const char *text, uint64_t seed, tc_tensor *out, bool *changed) {
  const char *const options[] = {"layouts", "channels_last", "cache.enabled", "false", NULL};
  rig r;
  TC_TRY(rig_context(&r, tc_system_allocator(), backend, options));
  TC_TRY(rig_graph(&r, text), "of\n%s", text);
  TC_TRY(rig_inputs(&r, seed));
  tc_sb sb = tc_sb_make(r.module->arena);
  TC_TRY(tc_session_create(r.context, r.graph, TC_STAGE_EXEC, &r.session), "of\n%s", text);
  TC_TRY(tc_session_run(r.session, r.inputs, out, NULL), "of\n%s", text);
  tc_graph_print(&sb, r.graph);
  if (strstr(sb.text, "channels_last")) *changed = true;
  rig_close(&r);
  return TC_OK;
}

static void compare(const tc_tensor *got, const tc_tensor *want, const char *text) {
  int64_t n = tc_tensor_numel(want), index[TC_MAX_RANK];
  assert_int_equal(got->rank, want->rank);
  for (int32_t d = 0; d < want->rank; d++) {
    assert_int_equal(got->sizes[d], want->sizes[d]);
    if (want->sizes[d] > 1 && got->strides[d] != want->strides[d])
      fail_msg("dimension %d has stride %lld, not %lld, of\n%s", d, (long long)got->strides[d],
               (long long)want->strides[d], text);
  }
  for (int64_t i = 0; i < n; i++) {
    double a, b;
    int64_t rest = i;
    for (int32_t d = want->rank - 1; d >= 0; d--) index[d] = rest % want->sizes[d], rest /= want->sizes[d];
    tc_tensor_get(got, index, &a, NULL), tc_tensor_get(want, index, &b, NULL);
    if (!(fabs(a - b) <= 2e-4 * (1 + fabs(b))) && !(isnan(a) && isnan(b)) && a != b)
      fail_msg("element %lld is %g, not %g, of\n%s", (long long)i, a, b, text);
  }
}

TC_TEST(random_chains) {
  uint64_t seed = tc_test_seed();
  bool changed = false, given = false;
  for (int32_t i = 0; i < CASES; i++) {
    chain x = {.seed = tc_test_random(&seed), .text = tc_sb_make(arena)};
    tc_tensor got[2], want[2];
    const char *text = make_text(&x);
    TC_TRY(run("cpu", text, seed, got, &changed));
    TC_TRY(run("ref", text, seed, want, &given));
    for (int32_t k = 0; k < 2; k++) {
      compare(&got[k], &want[k], text);
      tc_tensor_unref(&got[k]), tc_tensor_unref(&want[k]);
    }
  }
  assert_true(changed);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(random_chains)};
  return TC_RUN(tests);
}
