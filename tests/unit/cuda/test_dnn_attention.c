// Attention as a graph of cuDNN's: what the graph computes, by a library that does it operation by operation, for
// random sizes, strides and groups of heads; what is refused; that nothing stays.
#include <dlfcn.h>
#include <math.h>

#include "tests/unit/cuda/rig.h"

typedef struct side {
  tc_view view;
  int64_t sizes[4], strides[4];
} side;

typedef struct library {
  int (*live)(void), (*runs)(void);
  void (*refuse)(int plans);
} library;

static library open_library(void) {
  library l;
  void *fake = dlopen(FAKE_DNN, RTLD_NOW | RTLD_LOCAL);
  assert_non_null(fake);
  *(void **)&l.live = dlsym(fake, "fake_graph_live"), *(void **)&l.runs = dlsym(fake, "fake_graph_runs");
  *(void **)&l.refuse = dlsym(fake, "fake_graph_refuse");
  return l;
}

static double value(const side *x, int64_t b, int64_t h, int64_t r, int64_t e) {
  const int64_t *s = x->strides;
  const uint16_t *at = (const uint16_t *)(uintptr_t)(x->view.memory + (uint64_t)x->view.offset);
  uint32_t bits = (uint32_t)at[b * s[0] + h * s[1] + r * s[2] + e] << 16;
  float f;
  return memcpy(&f, &bits, 4), f;
}

// [batch, heads, rows, size], rows of one head beside those of the others where `together`.
static void make(rig *q, side *x, const int64_t *sizes, bool together, uint64_t *seed) {
  rig r = *q;
  memcpy(x->sizes, sizes, sizeof x->sizes);
  x->strides[3] = 1, x->strides[0] = sizes[1] * sizes[2] * sizes[3];
  x->strides[1] = together ? sizes[3] : sizes[2] * sizes[3], x->strides[2] = together ? sizes[1] * sizes[3] : sizes[3];
  x->view = (tc_view){.dtype = TC_BF16, .rank = 4, .sizes = x->sizes, .strides = x->strides, .offset = 32};
  int64_t count = sizes[0] * x->strides[0];
  OK(r.t->alloc(r.d, 32 + 2 * (uint64_t)count, &x->view.memory));
  uint16_t *at = (uint16_t *)(uintptr_t)(x->view.memory + 32);
  for (int64_t i = 0; i < count; i++) {
    float f = (float)(tc_test_random(seed) % 1000) * 0.002f - 1;
    uint32_t bits;
    memcpy(&bits, &f, 4);
    at[i] = (uint16_t)(bits >> 16);
  }
}

// The largest difference from the definition.
static double differs(const side *x, bool causal) {
  const int64_t *n = x[3].sizes, keys = x[1].sizes[2], group = n[1] / x[1].sizes[1];
  static double p[64];
  double most = 0;
  for (int64_t i = 0; i < n[0] * n[1] * n[2]; i++) {
    int64_t b = i / n[2] / n[1], h = i / n[2] % n[1], r = i % n[2], seen = causal && r + 1 < keys ? r + 1 : keys;
    double sum = 0;
    for (int64_t k = 0; k < seen; k++) {
      p[k] = 0;
      for (int64_t e = 0; e < n[3]; e++) p[k] += value(&x[0], b, h, r, e) * value(&x[1], b, h / group, k, e);
      p[k] = exp(p[k] / sqrt((double)n[3])), sum += p[k];
    }
    for (int64_t e = 0; e < n[3]; e++) {
      double v = 0;
      for (int64_t k = 0; k < seen; k++) v += p[k] / sum * value(&x[2], b, h / group, k, e);
      most = fmax(most, fabs(v - value(&x[3], b, h, r, e)));
    }
  }
  return most;
}

typedef struct attention {
  side sides[4];
  rig_attention args;
  tc_view operands[3];
  tc_call_node node;
} attention;

static void draw(rig *r, attention *a, uint64_t *seed) {
  int64_t groups = 1 + (int64_t)(tc_test_random(seed) % 2), heads = groups * (1 + (int64_t)(tc_test_random(seed) % 3));
  int64_t batch = 1 + (int64_t)(tc_test_random(seed) % 2), size = 64 << tc_test_random(seed) % 2;
  int64_t rows = 90 + (int64_t)(tc_test_random(seed) % 20), keys = 1 + (int64_t)(tc_test_random(seed) % 40);
  rows = (1 << 22) / (4 * batch * heads * keys * size) + rows % 7 + 1; // enough work to be taken
  int64_t q[] = {batch, heads, rows, size}, k[] = {batch, groups, keys, size};
  a->args = (rig_attention){.causal = (int32_t)(tc_test_random(seed) % 2)};
  for (int32_t i = 0; i < 4; i++) make(r, &a->sides[i], i == 0 || i == 3 ? q : k, tc_test_random(seed) % 2, seed);
  for (int32_t i = 0; i < 3; i++) a->operands[i] = a->sides[i].view;
  a->node = (tc_call_node){.struct_size = sizeof a->node,
                           .op = TC_SV("aten::scaled_dot_product_attention"),
                           .args = (const tc_op_args *)&a->args,
                           .operands = a->operands,
                           .n_operands = 3,
                           .results = &a->sides[3].view,
                           .n_results = 1};
}
static void drop(rig *r, attention *a) {
  for (int32_t i = 0; i < 4; i++) r->t->free(r->d, a->sides[i].view.memory);
}

TC_TEST(graphs) {
  uint64_t seed = tc_test_seed();
  static attention a;
  rig r;
  open_rig(&r);
  r.attention_wish = "cudnn";
  library l = open_library();
  for (int32_t i = 0; i < 4; i++) {
    void *prepared = NULL;
    uint64_t workspace = 0;
    draw(&r, &a, &seed);
    OK(r.dnn_attention->prepare(&r.host, r.d, &a.node, &prepared, &workspace));
    const int64_t *q = a.sides[0].sizes;
    assert_int_equal(workspace, 256 + 4 * q[0] * q[1] * q[2]); // logarithms behind the library's 64 bytes
    tc_handle scratch;
    OK(r.t->alloc(r.d, workspace, &scratch));
    for (int32_t turn = 0; turn < 2; turn++)
      OK(r.dnn_attention->run(prepared, 1, a.operands, &a.sides[3].view, scratch, 0));
    double d = differs(a.sides, a.args.causal);
    if (d > 0.02) fail_msg("attention %d, causal %d: off by %g", (int)i, (int)a.args.causal, d);
    r.dnn_attention->destroy(prepared);
    assert_int_equal(l.live(), 0);
    r.t->free(r.d, scratch);
    drop(&r, &a);
  }
  assert_int_equal(l.runs(), 8);
  close_rig(&r);
  return TC_OK;
}

// Where one plan is refused the next one is tried; where all are, the library does not do it.
TC_TEST(refusals) {
  uint64_t seed = tc_test_seed();
  static attention a;
  rig r;
  void *prepared = NULL;
  uint64_t workspace = 0;
  open_rig(&r);
  r.attention_wish = "cudnn";
  library l = open_library();
  draw(&r, &a, &seed);
  l.refuse(1);
  OK(r.dnn_attention->prepare(&r.host, r.d, &a.node, &prepared, &workspace));
  r.dnn_attention->destroy(prepared);
  l.refuse(100);
  assert_int_equal(r.dnn_attention->prepare(&r.host, r.d, &a.node, &prepared, &workspace), TC_STATUS_UNIMPLEMENTED);
  assert_non_null(strstr(r.diag, "planning a graph of cuDNN failed"));
  l.refuse(0);
  assert_int_equal(l.live(), 0);
  drop(&r, &a);
  close_rig(&r);
  return TC_OK;
}

// As a candidate it costs more than our own, and less when it is to be taken; it is not there where ours is asked for.
TC_TEST(wishes) {
  uint64_t seed = tc_test_seed();
  static attention a;
  int64_t ours, theirs;
  rig r;
  open_rig(&r);
  draw(&r, &a, &seed);
  r.attention_wish = "own";
  OK(r.dnn_attention->supports(&r.host, r.d, &a.node, &theirs));
  assert_true(theirs < 0);
  OK(r.attention->supports(&r.host, r.d, &a.node, &ours));
  if (ours >= 0) {
    r.attention_wish = NULL;
    OK(r.dnn_attention->supports(&r.host, r.d, &a.node, &theirs));
    assert_true(theirs > ours);
    r.attention_wish = "cudnn";
    OK(r.dnn_attention->supports(&r.host, r.d, &a.node, &theirs));
    assert_true(theirs >= 0 && theirs <= ours);
  }
  drop(&r, &a);
  close_rig(&r);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(graphs), cmocka_unit_test(refusals), cmocka_unit_test(wishes)};
  return TC_RUN(tests);
}
