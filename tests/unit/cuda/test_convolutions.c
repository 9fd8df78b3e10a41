// Convolutions as library calls: random sizes, layouts and dtypes against the definition, over a library (fake_dnn.c)
// that knows nothing but definitions; which algorithms are taken, and what is refused.
#include <math.h>

#include "tests/unit/cuda/rig.h"

enum { MOST = 3 * 12 * 18 * 18 * 18, RANK = 5 }; // elements of the largest result that `draw` knows

typedef struct operand {
  tc_view view;
  int64_t sizes[RANK], strides[RANK];
  float values[MOST]; // row-major
} operand;

static int64_t size_of(tc_dtype t) { return t == TC_F32 ? 4 : 2; }
static int64_t count_of(const operand *o) {
  int64_t n = 1;
  for (int32_t i = 0; i < o->view.rank; i++) n *= o->sizes[i];
  return n;
}
static char *element(const operand *o, int64_t i) {
  int64_t at = 0;
  for (int32_t d = o->view.rank - 1; d >= 0; d--) at += i % o->sizes[d] * o->strides[d], i /= o->sizes[d];
  return (char *)(uintptr_t)o->view.memory + o->view.offset + at * size_of(o->view.dtype);
}
static float read_value(tc_dtype t, const char *p) {
  float f;
  uint16_t h;
  if (t == TC_F32) return memcpy(&f, p, 4), f;
  memcpy(&h, p, 2);
  uint32_t bits = (uint32_t)h << 16;
  return memcpy(&f, &bits, 4), f;
}

// Small integers, so that sums are exact in f32; channels (dimension 1 where there is a batch, else 0) last or not.
static void make(rig *q, operand *o, tc_dtype t, int32_t rank, const int64_t *sizes, int32_t channel, bool last,
                 uint64_t *seed) {
  rig r = *q;
  int64_t stride = 1;
  memcpy(o->sizes, sizes, (size_t)rank * sizeof *sizes);
  if (last) o->strides[channel] = stride, stride *= sizes[channel];
  for (int32_t i = rank - 1; i >= 0; i--)
    if (!last || i != channel) o->strides[i] = stride, stride *= sizes[i];
  o->view = (tc_view){.dtype = t, .rank = rank, .sizes = o->sizes, .strides = o->strides, .offset = 64};
  assert_true(count_of(o) <= MOST);
  OK(r.t->alloc(r.d, 64 + (uint64_t)(count_of(o) * size_of(t)), &o->view.memory));
  for (int64_t i = 0; i < count_of(o); i++) {
    uint32_t bits;
    o->values[i] = (float)(tc_test_random(seed) % 7) - 3;
    memcpy(&bits, &o->values[i], 4);
    uint16_t half = (uint16_t)(bits >> 16);
    memcpy(element(o, i), t == TC_F32 ? (const void *)&bits : &half, (size_t)size_of(t));
  }
}

typedef struct problem {
  rig_convolution args;
  int32_t space;
  bool batched;
  int64_t in[RANK], weight[RANK], out[RANK]; // with a batch
} problem;

// Element of an output: position by position and channel by channel of its group.
static double expected(const problem *p, const operand *x, const operand *w, const operand *b, const int64_t *at) {
  int64_t k[RANK] = {0}, groups = p->args.lists[RIG_GROUPS][0], o = at[1], taps = 1;
  int64_t outs = p->args.transposed ? p->weight[1] : p->weight[0] / groups;
  int64_t ins = p->args.transposed ? p->weight[0] / groups : p->weight[1];
  double sum = b ? b->values[o] : 0;
  for (int32_t i = 0; i < p->space; i++) taps *= p->weight[2 + i];
  for (int64_t tap = 0; tap < taps; tap++) {
    int64_t rest = tap, xo = 0, inside = 1;
    for (int32_t i = p->space - 1; i >= 0; i--) k[i] = rest % p->weight[2 + i], rest /= p->weight[2 + i];
    for (int32_t i = 0; i < p->space; i++) {
      int64_t s = p->args.lists[RIG_STRIDE][i], d = p->args.lists[RIG_DILATION][i], pad = p->args.lists[RIG_PADDING][i];
      int64_t from = p->args.transposed ? at[2 + i] + pad - k[i] * d : at[2 + i] * s + k[i] * d - pad;
      if (p->args.transposed) inside &= from >= 0 && from % s == 0, from /= s;
      inside &= from >= 0 && from < p->in[2 + i];
      xo = xo * p->in[2 + i] + from;
    }
    for (int64_t c = 0; c < ins && inside; c++) {
      int64_t channel = o / outs * ins + c, area = 1;
      for (int32_t i = 0; i < p->space; i++) area *= p->in[2 + i];
      int64_t wo = p->args.transposed ? channel * outs + o % outs : o * ins + c;
      sum += (double)x->values[(at[0] * p->in[1] + channel) * area + xo] * w->values[wo * taps + tap];
    }
  }
  return sum;
}

static tc_sv name_of(const problem *p) {
  static const char *const names[2][3] = {
      {"aten::conv1d", "aten::conv2d", "aten::conv3d"},
      {"aten::conv_transpose1d", "aten::conv_transpose2d.input", "aten::conv_transpose3d.input"}};
  return p->args.special ? tc_sv_of(names[p->args.transposed][p->space - 1]) : TC_SV("aten::convolution");
}

static void draw(problem *p, uint64_t *seed) {
  *p = (problem){.space = 1 + (int32_t)(tc_test_random(seed) % 3), .batched = tc_test_random(seed) % 4 != 0};
  int64_t groups = 1 + (int64_t)(tc_test_random(seed) % 3), c = 1 + (int64_t)(tc_test_random(seed) % 4),
          o = 1 + (int64_t)(tc_test_random(seed) % 4);
  rig_convolution *a = &p->args;
  a->n = p->space, a->transposed = tc_test_random(seed) % 2, a->bias = tc_test_random(seed) % 2;
  a->special = tc_test_random(seed) % 2;
  a->lists[RIG_GROUPS][0] = groups;
  p->in[0] = p->out[0] = p->batched ? 1 + (int64_t)(tc_test_random(seed) % 3) : 1;
  p->in[1] = groups * c, p->out[1] = groups * o;
  p->weight[0] = a->transposed ? groups * c : groups * o, p->weight[1] = a->transposed ? o : c;
  for (int32_t i = 0; i < p->space; i++) {
    int64_t k = 1 + (int64_t)(tc_test_random(seed) % 3), s = 1 + (int64_t)(tc_test_random(seed) % 2),
            d = 1 + (int64_t)(tc_test_random(seed) % 2), pad = (int64_t)(tc_test_random(seed) % (uint64_t)k),
            n = 5 + (int64_t)(tc_test_random(seed) % 3), more = (int64_t)(tc_test_random(seed) % (uint64_t)s);
    a->lists[RIG_STRIDE][i] = s, a->lists[RIG_DILATION][i] = d, a->lists[RIG_PADDING][i] = pad;
    p->weight[2 + i] = k, p->in[2 + i] = n;
    p->out[2 + i] =
        a->transposed ? (n - 1) * s + d * (k - 1) + 1 + more - 2 * pad : (n + 2 * pad - d * (k - 1) - 1) / s + 1;
  }
}

static void once(rig *q, uint64_t *seed) {
  rig r = *q;
  static operand x, w, b, y;
  problem p;
  draw(&p, seed);
  tc_dtype t = tc_test_random(seed) % 2 ? TC_F32 : TC_BF16;
  bool last = tc_test_random(seed) % 2;
  int32_t lead = !p.batched, rank = p.space + 2;
  make(&r, &x, t, rank - lead, p.in + lead, 1 - lead, last, seed);
  make(&r, &w, t, rank, p.weight, 1, last, seed);
  make(&r, &y, t, rank - lead, p.out + lead, 1 - lead, last, seed);
  tc_view operands[3] = {x.view, w.view};
  if (p.args.bias) make(&r, &b, t, 1, p.out + 1, 0, false, seed), operands[2] = b.view;
  tc_call_node node = {.struct_size = sizeof node,
                       .op = name_of(&p),
                       .args = (const void *)&p.args,
                       .operands = operands,
                       .n_operands = 2 + p.args.bias,
                       .results = &y.view,
                       .n_results = 1};
  int32_t ways = -1;
  OK(r.convolutions->variants(&r.host, r.d, &node, &ways));
  for (node.variant = 0; node.variant <= ways; node.variant++) {
    void *prepared = NULL;
    uint64_t workspace = 0;
    tc_handle scratch = 0;
    OK(r.convolutions->prepare(&r.host, r.d, &node, &prepared, &workspace));
    if (workspace) OK(r.t->alloc(r.d, workspace, &scratch));
    memset(element(&y, 0), 0x7f, (size_t)(count_of(&y) * size_of(t)));
    OK(r.convolutions->run(prepared, 77, operands, &y.view, scratch, 0));
    for (int64_t i = 0; i < count_of(&y); i++) {
      int64_t at[RANK], rest = i;
      for (int32_t d = rank - 1; d >= 0; d--) at[d] = rest % p.out[d], rest /= p.out[d];
      double got = read_value(t, element(&y, i)), want = expected(&p, &x, &w, p.args.bias ? &b : NULL, at);
      if (fabs(got - want) > (t == TC_BF16 ? 0.01 * fabs(want) + 0.3 : 0)) // a sum and a bias may be rounded apart
        fail_msg("way %d, element %d: %g instead of %g", (int)node.variant, (int)i, got, want);
    }
    r.convolutions->destroy(prepared);
    if (scratch) r.t->free(r.d, scratch);
  }
  r.t->free(r.d, x.view.memory), r.t->free(r.d, w.view.memory), r.t->free(r.d, y.view.memory);
  if (p.args.bias) r.t->free(r.d, b.view.memory);
}

// The gradient of a convolution by its filter: the result is made in the workspace, and turned from there by a kernel,
// of whose launch the driver tells.
static void filter_once(rig *q, tc_handle stream, uint64_t *seed) {
  rig r = *q;
  static operand x, w, y;
  static const int32_t bytes[] = {8, 8, 8, 4, 4, 8, 8, 8};
  problem p;
  do draw(&p, seed);
  while (p.args.transposed || p.in[0] < 2 || p.weight[1] < 2);
  tc_dtype t = tc_test_random(seed) % 2 ? TC_F32 : TC_BF16;
  bool last = tc_test_random(seed) % 2;
  int32_t rank = p.space + 2;
  p.args.bias = 0, p.args.lists[RIG_GROUPS][0] = 1, p.in[1] = p.weight[1];
  operand *all[2] = {&x, &w};
  for (int32_t i = 0; i < 2; i++) { // made with batch and channels in each other's place, then seen the other way
    int64_t sizes[RANK], *own = i ? p.weight : p.in;
    memcpy(sizes, own, sizeof sizes);
    sizes[0] = own[1], sizes[1] = own[0];
    make(&r, all[i], t, rank, sizes, 1, last, seed);
    int64_t stride = all[i]->strides[0];
    all[i]->strides[0] = all[i]->strides[1], all[i]->strides[1] = stride;
    all[i]->sizes[0] = own[0], all[i]->sizes[1] = own[1];
    for (int64_t k = 0; k < count_of(all[i]); k++) all[i]->values[k] = read_value(t, element(all[i], k));
  }
  make(&r, &y, t, rank, p.out, 1, false, seed);
  tc_view operands[2] = {x.view, w.view};
  tc_call_node node = {.struct_size = sizeof node, .op = name_of(&p), .args = (const void *)&p.args};
  node.operands = operands, node.n_operands = 2, node.results = &y.view, node.n_results = 1;
  void *prepared = NULL;
  uint64_t workspace = 0;
  tc_handle scratch = 0;
  int32_t s = r.convolutions->prepare(&r.host, r.d, &node, &prepared, &workspace);
  if (s == TC_STATUS_OK) {
    OK(r.t->alloc(r.d, workspace + 8, &scratch));
    r.params(8, bytes);
    OK(r.convolutions->run(prepared, stream, operands, &y.view, scratch, 8));
    const fake_state *f = r.state();
    const uint64_t *v = f->words; // from, to, count, k, positions, strides
    assert_string_equal(f->kernel, t == TC_F32 ? "tc_turn_32" : "tc_turn_16");
    assert_int_equal(v[0] % 256, 0);
    assert_true(v[0] >= scratch + 8 && v[0] + v[2] * (uint64_t)size_of(t) <= scratch + 8 + workspace);
    assert_int_equal(v[1], y.view.memory + (uint64_t)y.view.offset);
    assert_int_equal(v[2], count_of(&y));
    assert_int_equal(f->grid, (v[2] + 255) / 256);
    assert_int_equal(f->lanes, 256);
    for (int64_t i = 0; i < count_of(&y); i++) {
      int64_t at[RANK], rest = i, row = i / (int64_t)v[4];
      for (int32_t d = rank - 1; d >= 0; d--) at[d] = rest % p.out[d], rest /= p.out[d];
      uint64_t from = (uint64_t)row % v[3] * v[5] + (uint64_t)row / v[3] * v[6] + (uint64_t)i % v[4] * v[7];
      double got = read_value(t, (const char *)(uintptr_t)v[0] + from * (uint64_t)size_of(t)),
             want = expected(&p, &x, &w, NULL, at);
      if (fabs(got - want) > (t == TC_BF16 ? 0.01 * fabs(want) : 0))
        fail_msg("element %d: %g instead of %g", (int)i, got, want);
    }
    r.make_fail("cuLaunchKernelEx", 0, 700);
    assert_int_equal(r.convolutions->run(prepared, stream, operands, &y.view, scratch, 8), TC_STATUS_DEVICE);
    assert_non_null(strstr(q->diag, "@tc_turn"));
    r.make_fail(NULL, 0, 0);
    r.convolutions->destroy(prepared);
    r.t->free(r.d, scratch);
  } else if (!strstr(q->diag, "libnvrtc") && !strstr(q->diag, "sizes that do not fit")) {
    fail_msg("%s", q->diag);
  }
  r.t->free(r.d, x.view.memory), r.t->free(r.d, w.view.memory), r.t->free(r.d, y.view.memory);
}

TC_TEST(gradients_by_the_filter) {
  rig r;
  uint64_t seed = tc_test_seed();
  tc_handle stream;
  open_rig(&r);
  OK(r.t->stream_create(r.d, &stream));
  for (int32_t i = 0; i < 60; i++) filter_once(&r, stream, &seed);
  r.t->stream_destroy(r.d, stream);
  close_rig(&r);
  return TC_OK;
}

typedef struct library {
  int (*live)(void), (*algorithm)(void), (*joined)(void);
  void (*refuse)(int);
  void *(*stream)(void);
} library;
static library open_library(void) {
  library l;
  void *fake = dlopen(FAKE_DNN, RTLD_NOW | RTLD_LOCAL);
  *(void **)&l.live = symbol(fake, "fake_dnn_live"), *(void **)&l.algorithm = symbol(fake, "fake_dnn_algorithm");
  *(void **)&l.joined = symbol(fake, "fake_dnn_joined"), *(void **)&l.refuse = symbol(fake, "fake_dnn_refuse");
  *(void **)&l.stream = symbol(fake, "fake_dnn_stream");
  return l;
}

TC_TEST(convolutions) {
  rig r;
  uint64_t seed = tc_test_seed();
  open_rig(&r);
  for (int32_t i = 0; i < 100; i++) once(&r, &seed);
  library l = open_library();
  assert_ptr_equal(l.stream(), (void *)77);
  close_rig(&r);
  assert_int_equal(l.live(), 0);
  return TC_OK;
}

// A convolution of 3 x 3 over two images of so many channels, as many of them out, without memory.
typedef struct image {
  rig_convolution args;
  int64_t sizes[3][4], strides[3][4], channels, dense;
  tc_view views[3], out;
  tc_call_node node;
} image;
static void make_image_of(image *m, tc_dtype t, bool bias, int64_t channels, int64_t size) {
  *m = (image){.args = {.lists = {[RIG_STRIDE] = {1, 1}, [RIG_PADDING] = {1, 1}, [RIG_DILATION] = {1, 1}}},
               .channels = channels,
               .dense = 1};
  m->args.n = 2, m->args.bias = bias, m->args.lists[RIG_GROUPS][0] = 1;
  int64_t sizes[3][4] = {{2, channels, size, size}, {channels, channels, 3, 3}, {2, channels, size, size}};
  memcpy(m->sizes, sizes, sizeof sizes);
  for (int32_t i = 0; i < 3; i++) {
    int64_t stride = 1;
    for (int32_t d = 3; d >= 0; d--) m->strides[i][d] = stride, stride *= sizes[i][d];
    *(i < 2 ? &m->views[i] : &m->out) =
        (tc_view){.dtype = t, .rank = 4, .sizes = m->sizes[i], .strides = m->strides[i]};
  }
  m->views[2] = (tc_view){.dtype = t, .rank = 1, .sizes = &m->channels, .strides = &m->dense};
  m->node = (tc_call_node){.struct_size = sizeof m->node, .op = TC_SV("aten::conv2d"), .n_operands = 2 + bias};
  m->node.args = (const void *)&m->args, m->node.operands = m->views, m->node.results = &m->out;
  m->node.n_results = 1;
}
static void make_image(image *m, tc_dtype t, bool bias) { make_image_of(m, t, bias, 64, 32); }
static int64_t cost_of(rig *r, const image *m) {
  int64_t cost = 0;
  r->diag[0] = 0;
  assert_int_equal(r->convolutions->supports(&r->host, r->d, &m->node, &cost), TC_STATUS_OK);
  return cost;
}

TC_TEST(what_is_taken) {
  rig r;
  image m;
  open_rig(&r);
  make_image(&m, TC_F32, true);
  assert_true(cost_of(&r, &m) > 0);
  make_image(&m, TC_F64, true);
  assert_true(cost_of(&r, &m) < 0);
  make_image(&m, TC_F32, true);
  m.views[1].dtype = TC_F16;
  assert_true(cost_of(&r, &m) < 0);
  make_image(&m, TC_F32, false);
  m.strides[0][3] = 2; // gaps
  assert_true(cost_of(&r, &m) < 0);
  assert_non_null(strstr(r.diag, "channels first, or last"));
  make_image(&m, TC_F32, false);
  m.sizes[0][0] = m.sizes[2][0] = 0; // nothing to make: not worth a call, and nothing is done
  assert_true(cost_of(&r, &m) < 0);
  void *prepared = NULL;
  uint64_t workspace = 1;
  OK(r.convolutions->prepare(&r.host, r.d, &m.node, &prepared, &workspace));
  assert_int_equal(workspace, 0);
  OK(r.convolutions->run(prepared, 1, m.views, &m.out, 0, 0));
  r.convolutions->destroy(prepared);
  make_image(&m, TC_F32, false);
  m.sizes[2][3] = 31; // another size than it makes
  assert_true(cost_of(&r, &m) < 0);
  make_image(&m, TC_F32, false);
  m.sizes[0][0] = INT64_MIN;
  assert_true(cost_of(&r, &m) < 0);
  make_image(&m, TC_F32, false); // one channel in each group: a kernel's
  m.args.lists[RIG_GROUPS][0] = 64, m.sizes[1][1] = 1, m.strides[1][0] = 9;
  assert_true(cost_of(&r, &m) < 0);
  make_image(&m, TC_F32, false); // padding by name
  m.args.word = "same";
  assert_true(cost_of(&r, &m) > 0);
  m.args.word = "valid";
  assert_true(cost_of(&r, &m) < 0);
  close_rig(&r);
  load(&r);
  r.dnn = "/nonexistent/libcudnn.so.9";
  OK(r.t->open(&r.host, 0, &r.d));
  make_image(&m, TC_F32, false);
  assert_true(cost_of(&r, &m) < 0);
  assert_non_null(strstr(r.diag, "/nonexistent/libcudnn.so.9"));
  close_rig(&r);
  load(&r);
  r.conv_wish = "false";
  OK(r.t->open(&r.host, 0, &r.d));
  assert_true(cost_of(&r, &m) < 0);
  assert_non_null(strstr(r.diag, "turned off"));
  close_rig(&r);
  load(&r);
  r.conv_wish = "always";
  OK(r.t->open(&r.host, 0, &r.d));
  m.args.lists[RIG_GROUPS][0] = 64, m.sizes[1][1] = 1, m.strides[1][0] = 9;
  assert_true(cost_of(&r, &m) > 0);
  close_rig(&r);
  return TC_OK;
}

// The algorithm that a convolution is made by, and how many went with their bias in one step.
static int run_image(rig *q, const library *l, tc_dtype t, bool bias, int32_t variant, int *out_joined) {
  rig r = *q;
  image m;
  void *prepared = NULL;
  uint64_t workspace = 0;
  tc_handle scratch = 0, memory;
  make_image_of(&m, t, bias, 4, 8);
  OK(r.t->alloc(r.d, 1 << 12, &memory));
  memset((void *)(uintptr_t)memory, 0, 1 << 12);
  for (int32_t i = 0; i < 3; i++) m.views[i].memory = memory;
  m.out.memory = memory, m.node.variant = variant;
  OK(r.convolutions->prepare(&r.host, r.d, &m.node, &prepared, &workspace));
  OK(r.t->alloc(r.d, workspace + 1, &scratch));
  int before = l->joined();
  OK(r.convolutions->run(prepared, 1, m.views, &m.out, scratch, 0));
  OK(r.convolutions->run(prepared, 1, m.views, &m.out, scratch, 0));
  *out_joined = l->joined() - before;
  r.convolutions->destroy(prepared);
  r.t->free(r.d, scratch), r.t->free(r.d, memory);
  return l->algorithm();
}

// By the fake library's order: Fourier (4), Winograd (6), products (1, 0), and one that wants too much memory (2).
TC_TEST(algorithms) {
  rig r;
  library l = open_library();
  int joined;
  open_rig(&r);
  assert_int_equal(run_image(&r, &l, TC_F32, false, 0, &joined), 6);
  assert_int_equal(run_image(&r, &l, TC_F32, false, 1, &joined), 1);
  assert_int_equal(run_image(&r, &l, TC_F32, false, 2, &joined), 0);
  assert_int_equal(run_image(&r, &l, TC_F32, false, 3, &joined), 6); // there is no third way
  assert_int_equal(run_image(&r, &l, TC_BF16, false, 0, &joined), 1);
  assert_int_equal(joined, 0);
  assert_int_equal(run_image(&r, &l, TC_BF16, true, 0, &joined), 1);
  assert_int_equal(joined, 2);
  l.refuse(1);
  assert_int_equal(run_image(&r, &l, TC_BF16, true, 0, &joined), 1); // in two steps where one is refused
  assert_int_equal(joined, 0);
  l.refuse(0);
  close_rig(&r);
  load(&r);
  r.winograd = "false";
  OK(r.t->open(&r.host, 0, &r.d));
  assert_int_equal(run_image(&r, &l, TC_F32, false, 0, &joined), 1);
  close_rig(&r);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(convolutions), cmocka_unit_test(gradients_by_the_filter),
                                     cmocka_unit_test(what_is_taken), cmocka_unit_test(algorithms)};
  return TC_RUN(tests);
}
