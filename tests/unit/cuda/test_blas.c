// Matrix products as library calls: every op, random sizes, strides and dtypes, against the definition, over a library
// that computes what it is told and checks alignment.
#include <complex.h>
#include <math.h>

#include "tests/unit/cuda/rig.h"

enum { MOST = 1 << 16 };

typedef struct operand {
  tc_handle memory;
  tc_view view;
  int64_t sizes[4], strides[4];
  double complex values[MOST]; // row-major
} operand;

static int32_t size_of(tc_dtype t) { return t == TC_C128 ? 16 : t == TC_F64 || t == TC_C64 ? 8 : t == TC_F32 ? 4 : 2; }

static double complex read_value(tc_dtype t, const char *p) {
  float f[2];
  double d[2];
  uint16_t h;
  uint32_t bits;
  switch (t) {
  case TC_F32: return memcpy(f, p, 4), f[0];
  case TC_F64: return memcpy(d, p, 8), d[0];
  case TC_C64: return memcpy(f, p, 8), f[0] + f[1] * I;
  case TC_C128: return memcpy(d, p, 16), d[0] + d[1] * I;
  default: memcpy(&h, p, 2), bits = (uint32_t)h << 16, memcpy(f, &bits, 4); return f[0];
  }
}

static void write_value(tc_dtype t, char *p, double complex v) {
  float f[2] = {(float)creal(v), (float)cimag(v)};
  double d[2] = {creal(v), cimag(v)};
  uint32_t bits;
  memcpy(&bits, f, 4);
  uint16_t h = (uint16_t)(bits >> 16); // small integers: exact
  if (t == TC_F32 || t == TC_C64) memcpy(p, f, (size_t)size_of(t));
  else if (t == TC_F64 || t == TC_C128) memcpy(p, d, (size_t)size_of(t));
  else memcpy(p, &h, 2);
}

static int64_t count_of(const operand *o) {
  int64_t n = 1;
  for (int32_t i = 0; i < o->view.rank; i++) n *= o->sizes[i];
  return n;
}

// Byte address of the row-major element number i.
static char *element(const operand *o, int64_t i) {
  int64_t at = 0;
  for (int32_t d = o->view.rank - 1; d >= 0; d--) at += i % o->sizes[d] * o->strides[d], i /= o->sizes[d];
  return (char *)(uintptr_t)o->memory + o->view.offset + at * size_of(o->view.dtype);
}

// A tensor of small integers with random strides: dense, padded rows, or its last two dimensions stored transposed.
static void make(rig *q, operand *o, tc_dtype t, int32_t rank, const int64_t *sizes, bool plain, uint64_t *seed) {
  rig r = *q;
  int32_t order[4] = {0, 1, 2, 3};
  int64_t stride = 1, pad = plain ? 0 : (int64_t)(tc_test_random(seed) % 3) * 4;
  if (rank >= 2 && !plain && tc_test_random(seed) % 2) order[rank - 1] = rank - 2, order[rank - 2] = rank - 1;
  memcpy(o->sizes, sizes, (size_t)rank * sizeof *sizes);
  for (int32_t i = rank - 1; i >= 0; i--) {
    o->strides[order[i]] = stride;
    stride *= sizes[order[i]];
    if (i == rank - 1 && rank > 1) stride += pad;
  }
  o->view = (tc_view){.dtype = t, .rank = rank, .sizes = o->sizes, .strides = o->strides};
  o->view.offset = (int64_t)(tc_test_random(seed) % 3) * size_of(t) * (tc_test_random(seed) % 2 ? 8 : 1);
  OK(r.t->alloc(r.d, MOST * 16, &o->memory));
  o->view.memory = o->memory;
  bool is_complex = t == TC_C64 || t == TC_C128;
  for (int64_t i = 0; i < count_of(o); i++) {
    o->values[i] =
        (double)(tc_test_random(seed) % 7) - 3 + (is_complex ? ((double)(tc_test_random(seed) % 5) - 2) * I : 0);
    write_value(t, element(o, i), o->values[i]);
  }
}

typedef struct problem {
  const char *op;
  int32_t a_rank, b_rank;
  bool adds, linear;
} problem;
static const problem problems[] = {
    {"aten::mm", 2, 2, false, false},     {"aten::bmm", 3, 3, false, false},    {"aten::matmul", 3, 2, false, false},
    {"aten::matmul", 4, 4, false, false}, {"aten::matmul", 2, 3, false, false}, {"aten::linear", 2, 2, false, true},
    {"aten::linear", 3, 2, false, true},  {"aten::addmm", 2, 2, true, false},   {"aten::baddbmm", 3, 3, true, false}};

static double complex expected(const problem *p, const operand *a, const operand *b, const operand *c, const operand *d,
                               rig_factors f, int64_t batch, int64_t i, int64_t j) {
  int32_t r = d->view.rank, ar = a->view.rank, br = b->view.rank;
  int64_t m = d->sizes[r - 2], n = d->sizes[r - 1], k = a->sizes[ar - 1];
  int64_t a_batches = count_of(a) / (m * k), b_batches = count_of(b) / (n * k);
  double complex sum = 0;
  for (int64_t q = 0; q < k; q++)
    sum += a->values[(batch % a_batches * m + i) * k + q] *
           b->values[batch % b_batches * n * k + (p->linear ? j * k + q : q * n + j)];
  (void)br;
  if (p->adds) {
    double complex add = c->view.rank == 1 ? c->values[j] : c->values[(batch * m + i) * n + j];
    return f.alpha * sum + (f.beta != 0 ? f.beta * add : 0);
  }
  return sum + (c ? c->values[j] : 0);
}

// What follows a product in the same call.
enum { NOTHING, SUM, GELU };
static double gelu_tanh(double v) { return 0.5 * v * (1 + tanh(0.7978845608028654 * (v + 0.044715 * v * v * v))); }

static bool once(rig *q, uint64_t *seed) {
  rig r = *q;
  static const tc_dtype types[] = {TC_F32, TC_F64, TC_BF16, TC_C64, TC_C128};
  static operand a, b, c, d, other;
  const problem *p = &problems[tc_test_random(seed) % (sizeof problems / sizeof *problems)];
  tc_dtype t = types[tc_test_random(seed) % 5];
  int64_t m = 1 + (int64_t)(tc_test_random(seed) % 9), n = 1 + (int64_t)(tc_test_random(seed) % 9),
          k = 1 + (int64_t)(tc_test_random(seed) % 9);
  if (tc_test_random(seed) % 2) m *= 4, n *= 4, k *= 4;
  int64_t lead[2] = {1 + (int64_t)(tc_test_random(seed) % 3), 1 + (int64_t)(tc_test_random(seed) % 3)};
  int32_t rank = p->a_rank > p->b_rank ? p->a_rank : p->b_rank;
  int64_t as[4], bs[4], ds[4];
  for (int32_t i = 0; i < rank - 2; i++) ds[i] = lead[i];
  for (int32_t i = 0; i < p->a_rank - 2; i++) as[i] = lead[i];
  for (int32_t i = 0; i < p->b_rank - 2; i++) bs[i] = lead[i];
  as[p->a_rank - 2] = m, as[p->a_rank - 1] = k;
  bs[p->b_rank - 2] = p->linear ? n : k, bs[p->b_rank - 1] = p->linear ? k : n;
  ds[rank - 2] = m, ds[rank - 1] = n;
  make(&r, &a, t, p->a_rank, as, false, seed);
  make(&r, &b, t, p->b_rank, bs, false, seed);
  make(&r, &d, t, rank, ds, tc_test_random(seed) % 2, seed);
  bool has_c = p->adds || (p->linear && tc_test_random(seed) % 2),
       row = has_c && (p->linear || tc_test_random(seed) % 2);
  rig_factors f = {(double)(tc_test_random(seed) % 3), 1 + (double)(tc_test_random(seed) % 2), 0};
  if (p->adds && tc_test_random(seed) % 8 == 0) f.imaginary = 1; // the library's scales are real here
  if (has_c) make(&r, &c, t, row ? 1 : rank, row ? &ds[rank - 1] : ds, row, seed);
  tc_view operands[4];
  int32_t count = 0;
  if (p->adds) operands[count++] = c.view;
  operands[count++] = a.view, operands[count++] = b.view;
  if (has_c && !p->adds) operands[count++] = c.view;
  tc_epilogue step = {.kind = TC_EPI_GELU_TANH, .operand = -1};
  int32_t then = p->linear ? (int32_t)(tc_test_random(seed) % 3) : NOTHING;
  if (then == SUM) {
    make(&r, &other, t, rank, ds, false, seed);
    step = (tc_epilogue){.kind = TC_EPI_ADD, .operand = count};
    operands[count++] = other.view;
  }
  tc_call_node node = {
      .struct_size = sizeof node, .op = {p->op, strlen(p->op)}, .args = p->adds ? (const void *)&f : NULL};
  node.operands = operands, node.n_operands = count, node.results = &d.view, node.n_results = 1;
  if (then) node.epilogue = &step, node.n_epilogue = 1;
  int64_t cost;
  OK(r.calls->supports(&r.host, r.d, &node, &cost));
  void *prepared = NULL;
  uint64_t workspace = 0;
  int32_t s = r.calls->prepare(&r.host, r.d, &node, &prepared, &workspace);
  if (cost >= 0 && s != TC_STATUS_OK) fail_msg("%s was promised: %s", p->op, q->diag);
  tc_handle scratch = 0;
  if (s == TC_STATUS_OK && workspace) OK(r.t->alloc(r.d, workspace, &scratch));
  if (s == TC_STATUS_OK) {
    if (r.calls->run(prepared, 1, operands, &d.view, scratch, 0) != TC_STATUS_OK) fail_msg("%s: %s", p->op, q->diag);
    for (int64_t i = 0; i < count_of(&d); i++) {
      double complex got = read_value(t, element(&d, i)),
                     want = expected(p, &a, &b, has_c ? &c : NULL, &d, f, i / (m * n), i / n % m, i % n);
      if (then == SUM) want += other.values[i];
      if (then == GELU) want = gelu_tanh(creal(want));
      // Sums of small integers are exact but in 16 bits.
      if (cabs(got - want) > (t == TC_BF16 ? 0.01 * cabs(want) + 1e-30 : 0))
        fail_msg("%s of %d x %d x %d, element %d: %g%+gi instead of %g%+gi", p->op, (int)m, (int)n, (int)k, (int)i,
                 creal(got), cimag(got), creal(want), cimag(want));
    }
  }
  r.calls->destroy(prepared);
  r.t->free(r.d, scratch);
  r.t->free(r.d, a.memory), r.t->free(r.d, b.memory), r.t->free(r.d, d.memory);
  if (has_c) r.t->free(r.d, c.memory);
  if (then == SUM) r.t->free(r.d, other.memory);
  if (f.imaginary != 0) assert_true(s != TC_STATUS_OK);
  if (then == GELU && t != TC_BF16) assert_true(s != TC_STATUS_OK); // as exact as 16 bits
  return s == TC_STATUS_OK;
}

TC_TEST(products) {
  rig r;
  uint64_t seed = tc_test_seed();
  int32_t done = 0;
  open_rig(&r);
  for (int32_t i = 0; i < 600; i++) done += once(&r, &seed);
  assert_true(done > 300); // strides and shapes that the library has no words for are refused
  close_rig(&r);
  int (*live)(void);
  *(void **)&live = symbol(dlopen(FAKE_BLAS, RTLD_NOW | RTLD_LOCAL), "fake_blas_live");
  assert_int_equal(live(), 0);
  return TC_OK;
}

TC_TEST(refusals) {
  rig r;
  int64_t cost = 0, wide[2] = {512, 512}, none[2] = {512, 0}, dense[2] = {512, 1}, empty[2] = {0, 1};
  open_rig(&r);
  tc_view views[2] = {{.dtype = TC_F32, .rank = 2, .sizes = wide, .strides = dense}};
  views[1] = views[0];
  tc_call_node node = {.struct_size = sizeof node,
                       .op = TC_SV("aten::mm"),
                       .operands = views,
                       .n_operands = 2,
                       .results = &views[0],
                       .n_results = 1};
  OK(r.calls->supports(&r.host, r.d, &node, &cost));
  assert_true(cost > 0);
  node.op = TC_SV("aten::add");
  OK(r.calls->supports(&r.host, r.d, &node, &cost));
  assert_true(cost < 0);
  node.op = TC_SV("aten::mm");
  views[0].dtype = TC_I32; // a dtype that it does not multiply, and two that differ
  OK(r.calls->supports(&r.host, r.d, &node, &cost));
  assert_true(cost < 0);
  views[0].dtype = TC_F32;
  tc_view nothing[2] = {{.dtype = TC_F32, .rank = 2, .sizes = none, .strides = empty}, views[1]};
  node.operands = nothing;
  OK(r.calls->supports(&r.host, r.d, &node, &cost));
  assert_true(cost < 0);
  // Many small matrices are the template's.
  static const struct {
    tc_dtype dtype;
    int64_t size;
    bool taken;
  } small[] = {{TC_C64, 16, false}, {TC_C64, 17, true},   {TC_F32, 24, false},
               {TC_F32, 25, true},  {TC_BF16, 24, false}, {TC_F64, 24, true}};
  for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
    int64_t size = small[i].size, sizes[3] = {64, size, size}, packed[3] = {size * size, size, 1};
    tc_view square[2] = {{.dtype = small[i].dtype, .rank = 3, .sizes = sizes, .strides = packed}};
    square[1] = square[0];
    tc_call_node many = {.struct_size = sizeof many,
                         .op = TC_SV("aten::bmm"),
                         .operands = square,
                         .n_operands = 2,
                         .results = square,
                         .n_results = 1};
    OK(r.calls->supports(&r.host, r.d, &many, &cost));
    assert_int_equal(cost >= 0, small[i].taken);
  }
  // A product of few tiles is, too, unless it goes on for long.
  static const struct {
    int64_t m, k;
    bool taken;
  } few[] = {{64, 256, false}, {64, 1025, true}, {256, 256, true}};
  for (size_t i = 0; i < sizeof few / sizeof *few; i++) {
    int64_t left[2] = {few[i].m, few[i].k}, right[2] = {few[i].k, 256}, result[2] = {few[i].m, 256};
    int64_t steps[2] = {few[i].k, 1}, columns[2] = {256, 1};
    tc_view factors[2] = {{.dtype = TC_F32, .rank = 2, .sizes = left, .strides = steps},
                          {.dtype = TC_F32, .rank = 2, .sizes = right, .strides = columns}},
            out = {.dtype = TC_F32, .rank = 2, .sizes = result, .strides = columns};
    tc_call_node product = {.struct_size = sizeof product,
                            .op = TC_SV("aten::mm"),
                            .operands = factors,
                            .n_operands = 2,
                            .results = &out,
                            .n_results = 1};
    OK(r.calls->supports(&r.host, r.d, &product, &cost));
    assert_int_equal(cost >= 0, few[i].taken);
  }
  // Without the library products stay with the kernels.
  node.operands = views;
  r.t->close(r.d);
  r.blas = "/nonexistent/libcublasLt.so";
  assert_int_equal(r.t->open(&r.host, 0, &r.d), TC_STATUS_OK);
  OK(r.calls->supports(&r.host, r.d, &node, &cost));
  assert_true(cost < 0);
  assert_non_null(strstr(r.diag, "/nonexistent/libcublasLt.so"));
  close_rig(&r);
  return TC_OK;
}

// An autotuner asks for the heuristic's other choices by number.
TC_TEST(ways) {
  rig r;
  int64_t sizes[2] = {64, 64}, dense[2] = {64, 1}, odd[2] = {67, 1};
  open_rig(&r);
  int (*number)(void);
  *(void **)&number = symbol(dlopen(FAKE_BLAS, RTLD_NOW | RTLD_LOCAL), "fake_blas_algorithm");
  tc_view views[3] = {{.dtype = TC_F32, .rank = 2, .sizes = sizes, .strides = dense}};
  for (int32_t i = 0; i < 3; i++) {
    if (i) views[i] = views[0];
    OK(r.t->alloc(r.d, 64 * 67 * 4, &views[i].memory));
    memset((void *)(uintptr_t)views[i].memory, 0, 64 * 67 * 4); // this driver's memory is the host's
  }
  tc_call_node node = {.struct_size = sizeof node, .op = TC_SV("aten::mm"), .operands = views, .n_operands = 2};
  node.results = &views[2], node.n_results = 1;
  static const int32_t taken[] = {0, 1, 3, 0}; // the library refuses number 2; there is no third way
  int32_t count = -1;
  OK(r.calls->variants(&r.host, r.d, &node, &count));
  assert_int_equal(count, 2);
  for (node.variant = 0; node.variant < 4; node.variant++) {
    void *prepared = NULL;
    uint64_t workspace = 0;
    tc_handle scratch = 0;
    OK(r.calls->prepare(&r.host, r.d, &node, &prepared, &workspace));
    OK(r.t->alloc(r.d, workspace + 1, &scratch));
    OK(r.calls->run(prepared, 1, views, &views[2], scratch, 0));
    assert_int_equal(number(), taken[node.variant]);
    r.calls->destroy(prepared);
    r.t->free(r.d, scratch);
  }
  views[0].strides = odd; // rows that lie anywhere: one way
  OK(r.calls->variants(&r.host, r.d, &node, &count));
  assert_int_equal(count, 0);
  for (int32_t i = 0; i < 3; i++) r.t->free(r.d, views[i].memory);
  close_rig(&r);
  return TC_OK;
}

// Opens a device, asks about a product if `asks`, and closes it: how often the library was looked for.
static int32_t look(rig *r, bool asks) {
  int64_t cost = 0, wide[2] = {512, 512}, dense[2] = {512, 1};
  tc_view views[2] = {{.dtype = TC_F32, .rank = 2, .sizes = wide, .strides = dense}};
  views[1] = views[0];
  tc_call_node node = {.struct_size = sizeof node, .op = TC_SV("aten::mm"), .operands = views, .n_operands = 2};
  node.results = views, node.n_results = 1;
  rig_blas_sought = 0;
  assert_int_equal(r->t->open(&r->host, 0, &r->d), TC_STATUS_OK);
  if (asks) assert_int_equal(r->calls->supports(&r->host, r->d, &node, &cost), TC_STATUS_OK);
  close_rig(r);
  return rig_blas_sought;
}

// What a process has used, later ones open while the driver starts.
TC_TEST(opened_early) {
  rig r;
  load(&r);
  rig_give_cache(&r);
  assert_int_equal(look(&r, false), 0);
  assert_int_equal(r.n_kept, 0);
  assert_int_equal(look(&r, true), 1);
  assert_int_equal(r.n_kept, 1);
  assert_int_equal(look(&r, false), 1); // ahead of what then was not asked
  assert_int_equal(look(&r, true), 2);
  assert_int_equal(r.n_kept, 1);
  rig_drop_cache(&r);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(products), cmocka_unit_test(refusals), cmocka_unit_test(ways),
                                     cmocka_unit_test(opened_early)};
  return TC_RUN(tests);
}
