// oneDNN calls against sums in double: every op, strides and layouts, epilogues, dtypes, refusals.
#include "rig.h"

enum { MAX_RANK = 5 };

// Arguments of an op as the plugin asks for them, by number.
typedef struct fake_arg {
  const char *name;
  int32_t kind, n;
  int64_t ints[3];
  double real;
} fake_arg;
struct tc_op_args {
  const fake_arg *args;
  int32_t n;
};

static const fake_arg *arg_of(const tc_op_args *a, int32_t i) {
  static const fake_arg none = {.kind = TC_AK_NONE};
  return i >= 0 && i < a->n ? &a->args[i] : &none;
}
static int32_t fake_kind(const tc_op_args *a, int32_t i) { return arg_of(a, i)->kind; }
static int32_t fake_count(const tc_op_args *a, int32_t i) { return arg_of(a, i)->n; }
static int64_t fake_int(const tc_op_args *a, int32_t i, int64_t otherwise) {
  return arg_of(a, i)->kind == TC_AK_INT ? arg_of(a, i)->ints[0] : otherwise;
}
static int64_t fake_int_at(const tc_op_args *a, int32_t i, int32_t k, int64_t otherwise) {
  return k < arg_of(a, i)->n ? arg_of(a, i)->ints[k] : otherwise;
}
static double fake_float(const tc_op_args *a, int32_t i, double otherwise) {
  return arg_of(a, i)->kind == TC_AK_FLOAT ? arg_of(a, i)->real : otherwise;
}
static int32_t fake_bool(const tc_op_args *a, int32_t i, int32_t otherwise) {
  return arg_of(a, i)->kind == TC_AK_BOOL ? arg_of(a, i)->ints[0] != 0 : otherwise;
}
static int32_t fake_index(const tc_op_args *a, const char *name) {
  for (int32_t i = 0; i < a->n; i++)
    if (strcmp(a->args[i].name, name) == 0) return i;
  return -1;
}
static const tc_op_table fake_ops = {.struct_size = sizeof fake_ops,
                                     .tc_op_kind = fake_kind,
                                     .tc_op_count = fake_count,
                                     .tc_op_int = fake_int,
                                     .tc_op_int_at = fake_int_at,
                                     .tc_op_float = fake_float,
                                     .tc_op_bool = fake_bool,
                                     .tc_op_arg_index = fake_index};

static rig r;
static const tc_call_table *calls;

static int open_rig(void **state) {
  (void)state;
  if (!rig_open(&r, "native")) return -1;
  r.host.op = &fake_ops;
  for (int32_t i = 0; i < r.plugin.n_calls; i++) {
    tc_sv name = r.plugin.calls[i]->name;
    if (name.size == 6 && memcmp(name.data, "onednn", 6) == 0) calls = r.plugin.calls[i];
  }
  if (!calls) return 0;
  tc_plugin_query_fn query;
  void *p = dlsym(dlopen(RIG_PLUGIN, RTLD_NOW | RTLD_LOCAL), "tc_plugin_query");
  memcpy(&query, &p, sizeof query);
  return query(&r.host, &r.plugin) == TC_STATUS_OK ? 0 : -1;
}

static int close_rig(void **state) {
  (void)state;
  rig_close(&r);
  return 0;
}

// ---- Tensors ----

typedef struct tensor {
  tc_view view;
  int64_t sizes[MAX_RANK], strides[MAX_RANK], span;
  unsigned char *data;
} tensor;

static double get(const tensor *t, const int64_t *at) {
  int64_t e = 0;
  for (int32_t i = 0; i < t->view.rank; i++) e += t->sizes[i] == 1 ? 0 : at[i] * t->strides[i];
  return tc_kir_read(t->view.dtype, t->data + e * tc_dtype_size(t->view.dtype)).re;
}

// order: positions of the dimensions from outermost to innermost ("0123"), gap: unused elements between rows.
static void make(tensor *t, tc_dtype d, int32_t rank, const int64_t *sizes, const char *order, int64_t gap,
                 uint64_t *seed) {
  *t = (tensor){.view = {.dtype = d, .rank = rank}};
  int64_t stride = 1;
  for (int32_t i = rank - 1; i >= 0; i--) {
    int32_t dim = order ? order[i] - '0' : i;
    t->sizes[dim] = sizes[dim], t->strides[dim] = stride;
    stride *= sizes[dim];
    if (i == rank - 1) stride += gap;
  }
  t->span = stride > 0 ? stride : 1;
  size_t size = (size_t)tc_dtype_size(d);
  t->data = rig_alloc(NULL, (size_t)t->span * size + 64);
  for (int64_t i = 0; i < t->span; i++)
    tc_kir_write(d, t->data + (size_t)i * size,
                 (tc_knum){.re = seed ? (double)(tc_test_random(seed) % 2001) / 1000 - 1 : 777});
  t->view.sizes = t->sizes, t->view.strides = t->strides, t->view.memory = (uintptr_t)t->data - 128,
  t->view.offset = 128;
}

static void drop(tensor *t) { rig_free(NULL, t->data); }

// Whether right factors and weights are said to be constant: what is kept of them is made once, and the runs do
// without them.
static bool constant;

static int say_constant(void **state) {
  (void)state;
  constant = true;
  return 0;
}

static int say_nothing(void **state) {
  (void)state;
  constant = false;
  return 0;
}

static uint64_t workspace; // of the last call

// Runs the call; false if it is refused (the reason in r.diag).
static bool run_call(const char *op, const fake_arg *args, int32_t n_args, tensor **operands, int32_t n, tensor *out,
                     const tc_epilogue *epilogue, int32_t n_epilogue) {
  tc_view views[9];
  for (int32_t i = 0; i < n; i++) views[i] = operands[i]->view;
  bool adds = strncmp(op, "aten::add", 9) == 0 || strncmp(op, "aten::badd", 10) == 0;
  int32_t weights = adds ? 2 : 1;
  tc_op_args a = {args, n_args};
  tc_call_node node = {.struct_size = sizeof node,
                       .op = tc_sv_of(op),
                       .args = &a,
                       .operands = views,
                       .n_operands = n,
                       .n_results = 1,
                       .results = &out->view,
                       .epilogue = epilogue,
                       .n_epilogue = n_epilogue,
                       .constant = constant ? UINT64_C(1) << weights : 0};
  int64_t cost = -1;
  assert_int_equal(calls->supports(&r.host, r.device, &node, &cost), TC_STATUS_OK);
  if (cost < 0) return false;
  void *prepared;
  if (calls->prepare(&r.host, r.device, &node, &prepared, &workspace) != TC_STATUS_OK) fail_msg("%s: %s", op, r.diag);
  char *w = rig_alloc(NULL, workspace + 64), *k = NULL;
  uint64_t kept = 0, spent = 0;
  assert_int_equal(calls->kept(prepared, &kept), TC_STATUS_OK);
  if (!constant) assert_int_equal(kept, 0);
  if (kept) {
    int64_t sizes = (int64_t)kept, strides = 1;
    k = rig_alloc(NULL, kept);
    views[n] =
        (tc_view){.dtype = TC_U8, .rank = 1, .sizes = &sizes, .strides = &strides, .memory = (tc_handle)(uintptr_t)k};
    assert_int_equal(calls->keep(prepared, 0, views, &views[n], (uintptr_t)w, 0), TC_STATUS_OK);
    assert_int_equal(calls->spent(prepared, &spent), TC_STATUS_OK);
    assert_int_equal(spent, node.constant);
    views[weights].memory = 0;
  }
  for (int32_t i = 0; i < 2; i++) // a plan may run more than once
    if (calls->run(prepared, 0, views, &out->view, (uintptr_t)w, 0) != TC_STATUS_OK) fail_msg("%s: %s", op, r.diag);
  calls->destroy(prepared);
  rig_free(NULL, w);
  rig_free(NULL, k);
  return true;
}

static double unit_error(tc_dtype d) { return d == TC_BF16 ? 0x1p-8 : d == TC_F16 ? 0x1p-10 : 0x1p-21; }

static void expect(const tensor *out, const int64_t *at, double want, double scale, const char *what) {
  double got = get(out, at), tolerance = unit_error(out->view.dtype) * (scale + fabs(want)) + 1e-6;
  if (!(fabs(got - want) <= tolerance))
    fail_msg("%s: [%d, %d, %d, %d] is %.9g, not %.9g", what, (int)at[0], (int)at[1], (int)at[2], (int)at[3], got, want);
}

// ---- Matrix products ----

static double gelu(double x) { return 0.5 * x * (1 + erf(x / sqrt(2))); }

typedef struct product {
  const char *op;
  tc_dtype dtype;
  int64_t batch, m, n, k;
  const char *a_order, *b_order;
  int64_t gap;
  double alpha;
  int32_t self_rank; // addmm's first argument; 0: none
  bool relu_add;     // epilogue: relu(y * 0.5) + e, then gelu
} product;

static bool check_product(const product *p, uint64_t *seed) {
  tensor a, b, self, extra, out;
  bool linear = strcmp(p->op, "aten::linear") == 0, batched = p->batch > 0;
  int32_t rank = batched ? 3 : 2;
  int64_t as[] = {p->batch, p->m, p->k}, bs[] = {p->batch, p->k, p->n}, os[] = {p->batch, p->m, p->n},
          ws[] = {p->n, p->k};
  make(&a, p->dtype, rank, as + !batched, p->a_order, p->gap, seed);
  if (linear) make(&b, p->dtype, 2, ws, p->b_order, p->gap, seed);
  else make(&b, p->dtype, rank, bs + !batched, p->b_order, p->gap, seed);
  make(&out, p->dtype, rank, os + !batched, NULL, 0, NULL);
  make(&extra, p->dtype, rank, os + !batched, NULL, 0, seed);
  int64_t ss[] = {p->m, p->n};
  if (p->self_rank) make(&self, p->dtype, p->self_rank, ss + (2 - p->self_rank), NULL, 0, seed);
  tensor *operands[4];
  fake_arg args[5] = {{"self", TC_AK_TENSOR, 1, {0}, 0},
                      {"mat1", TC_AK_TENSOR, 1, {0}, 0},
                      {"mat2", TC_AK_TENSOR, 1, {0}, 0},
                      {"beta", TC_AK_FLOAT, 1, {0}, 1},
                      {"alpha", TC_AK_FLOAT, 1, {0}, p->alpha}};
  int32_t n = 0, n_args = 2;
  if (p->self_rank && !linear) operands[n++] = &self, n_args = 5;
  operands[n++] = &a, operands[n++] = &b;
  if (p->self_rank && linear) operands[n++] = &self, n_args = 3;
  if (p->relu_add) operands[n++] = &extra;
  tc_epilogue epilogue[] = {{TC_EPI_SCALE, 0, 0.5}, {TC_EPI_ADD, n - 1, 0}, {TC_EPI_GELU_ERF, 0, 0}};
  bool ran = run_call(p->op, args, n_args, operands, n, &out, epilogue, p->relu_add ? 3 : 0);
  for (int64_t i = 0; ran && i < (batched ? p->batch : 1); i++)
    for (int64_t j = 0; j < p->m; j++)
      for (int64_t l = 0; l < p->n; l++) {
        double sum = 0, scale = 0;
        for (int64_t q = 0; q < p->k; q++) {
          int64_t ia[] = {i, j, q}, ib[] = {i, q, l}, iw[] = {l, q};
          double x = get(&a, ia + !batched) * (linear ? get(&b, iw) : get(&b, ib + !batched));
          sum += x, scale += fabs(x);
        }
        sum *= p->alpha;
        int64_t at[] = {i, j, l, 0, 0}, is[] = {j, l};
        if (p->self_rank) sum += get(&self, is + (2 - p->self_rank));
        if (p->relu_add) sum = gelu(sum * 0.5 + get(&extra, at + !batched));
        expect(&out, at + !batched, sum, p->dtype == TC_F32 ? scale : 1, p->op);
      }
  drop(&a), drop(&b), drop(&out), drop(&extra);
  if (p->self_rank) drop(&self);
  return ran;
}

TC_TEST(products) {
  if (!calls) skip();
  uint64_t seed = tc_test_seed();
  static const product cases[] = {
      {"aten::mm", TC_F32, 0, 33, 65, 17, NULL, NULL, 0, 1, 0, false},
      {"aten::mm", TC_F32, 0, 20, 30, 40, "10", "10", 3, 1, 0, true},
      {"aten::mm", TC_F32, 0, 1, 1, 1, NULL, NULL, 0, 1, 0, false},
      {"aten::mm", TC_F32, 0, 1, 64, 100, NULL, "10", 0, 1, 0, true},
      {"aten::bmm", TC_F32, 3, 9, 20, 12, NULL, "021", 0, 1, 0, false},
      {"aten::bmm", TC_F32, 3, 9, 20, 12, "102", "210", 0, 1, 0, true},
      {"aten::addmm", TC_F32, 0, 7, 48, 31, NULL, NULL, 0, 1, 1, false},
      {"aten::addmm", TC_F32, 0, 7, 48, 31, NULL, "10", 0, 0.5, 1, true},
      {"aten::addmm", TC_F32, 0, 7, 48, 31, NULL, NULL, 0, 1, 2, false},
      {"aten::linear", TC_F32, 0, 12, 40, 24, NULL, NULL, 0, 1, 1, false},
      {"aten::linear", TC_F32, 5, 12, 40, 24, NULL, NULL, 0, 1, 1, true},
      {"aten::linear", TC_F32, 5, 12, 40, 24, "102", NULL, 0, 1, 0, true},
      {"aten::linear", TC_F32, 5, 12, 40, 24, "210", "10", 2, 1, 0, false},
      {"aten::matmul", TC_F32, 4, 5, 6, 7, NULL, NULL, 0, 1, 0, false},
      {"aten::mm", TC_BF16, 0, 40, 64, 96, NULL, NULL, 0, 1, 0, false},
      {"aten::linear", TC_BF16, 3, 10, 64, 96, NULL, NULL, 0, 1, 1, true},
      {"aten::bmm", TC_BF16, 2, 10, 20, 30, NULL, "021", 0, 1, 0, false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (!check_product(&cases[i], &seed)) {
      if (cases[i].dtype == TC_F32) fail_msg("case %d (%s) was refused: %s", (int)i, cases[i].op, r.diag);
      print_message("case %d is not supported here: %s\n", (int)i, r.diag);
    }
  // Weights of bf16, which are packed where there is a matrix unit: no multiples of a block.
  for (int32_t i = 0; i < 30; i++) {
    product p = {.op = "aten::linear",
                 .dtype = TC_BF16,
                 .m = 32 + (int64_t)(tc_test_random(&seed) % 40),
                 .n = 1 + (int64_t)(tc_test_random(&seed) % (i % 2 ? 300 : 70)),
                 .k = 1 + (int64_t)(tc_test_random(&seed) % 200),
                 .alpha = 1,
                 .gap = (int64_t)(tc_test_random(&seed) % 3),
                 .relu_add = tc_test_random(&seed) % 2};
    if (i % 5 == 0) p.n = 64 * (1 + i % 3), p.k = 32 * (1 + i % 4);
    if (!check_product(&p, &seed)) print_message("linear of bf16 is not supported here: %s\n", r.diag);
  }
  // Sums that are one short of a tile's depth, where oneDNN's own code for tiles ends in an illegal instruction.
  for (int32_t i = 0; i < 40; i++) {
    product p = {.op = i % 2 ? "aten::mm" : "aten::linear",
                 .dtype = TC_BF16,
                 .m = 33 + (int64_t)(tc_test_random(&seed) % 100),
                 .n = i < 10 ? 27 : 1 + (int64_t)(tc_test_random(&seed) % 130),
                 .k = i < 30 ? 63 : 31 + 32 * (int64_t)(tc_test_random(&seed) % 5),
                 .alpha = 1};
    if (!check_product(&p, &seed)) print_message("this product of bf16 is not supported here: %s\n", r.diag);
  }
  for (int32_t i = 0; i < 40; i++) {
    static const char *const names[] = {"aten::mm", "aten::bmm", "aten::linear"};
    product p = {.op = names[tc_test_random(&seed) % 3],
                 .dtype = TC_F32,
                 .m = 1 + (int64_t)(tc_test_random(&seed) % 50),
                 .n = 1 + (int64_t)(tc_test_random(&seed) % 70),
                 .k = 1 + (int64_t)(tc_test_random(&seed) % 90),
                 .alpha = 1,
                 .gap = (int64_t)(tc_test_random(&seed) % 3),
                 .relu_add = tc_test_random(&seed) % 2};
    if (strcmp(p.op, "aten::bmm") == 0) p.batch = 1 + (int64_t)(tc_test_random(&seed) % 4);
    if (!check_product(&p, &seed))
      fail_msg("%s of %d x %d x %d was refused: %s", p.op, (int)p.m, (int)p.n, (int)p.k, r.diag);
  }
  return TC_OK;
}

// Chains of epilogue steps drawn at random.
static double step_value(const tc_epilogue *e, double y, double operand) {
  switch (e->kind) {
  case TC_EPI_GELU_ERF: return gelu(y);
  case TC_EPI_GELU_TANH: return 0.5 * y * (1 + tanh(sqrt(2 / M_PI) * (y + 0.044715 * y * y * y)));
  case TC_EPI_SIGMOID: return 1 / (1 + exp(-y));
  case TC_EPI_TANH: return tanh(y);
  case TC_EPI_SILU: return y / (1 + exp(-y));
  case TC_EPI_SCALE: return y * e->alpha;
  case TC_EPI_ADD: return y + operand;
  case TC_EPI_MUL: return y * operand;
  default: return y > 0 ? y : 0;
  }
}

TC_TEST(chains) {
  if (!calls) skip();
  uint64_t seed = tc_test_seed();
  int32_t refused = 0;
  for (int32_t round = 0; round < 200; round++) {
    enum { M = 6, K = 10 };
    int64_t n_cols = 1 + (int64_t)(tc_test_random(&seed) % 40);
    tensor a, b, e1, e2, out;
    make(&a, TC_F32, 2, (int64_t[]){M, K}, NULL, 0, &seed);
    make(&b, TC_F32, 2, (int64_t[]){K, n_cols}, NULL, 0, &seed);
    make(&e1, TC_F32, 2, (int64_t[]){M, n_cols}, NULL, 0, &seed);
    make(&e2, TC_F32, 1, &n_cols, NULL, 0, &seed);
    make(&out, TC_F32, 2, (int64_t[]){M, n_cols}, NULL, 0, NULL);
    tc_epilogue chain[4];
    int32_t n = (int32_t)(tc_test_random(&seed) % 5);
    for (int32_t i = 0; i < n; i++)
      chain[i] = (tc_epilogue){1 + (int32_t)(tc_test_random(&seed) % 8), 2 + (int32_t)(tc_test_random(&seed) % 2),
                               (double)(tc_test_random(&seed) % 100) / 50 - 1};
    fake_arg args[2] = {{"self", TC_AK_TENSOR, 1, {0}, 0}, {"mat2", TC_AK_TENSOR, 1, {0}, 0}};
    bool ran = run_call("aten::mm", args, 2, (tensor *[]){&a, &b, &e1, &e2}, 4, &out, chain, n);
    refused += !ran;
    for (int64_t i = 0; ran && i < M; i++)
      for (int64_t j = 0; j < n_cols; j++) {
        double y = 0;
        for (int64_t k = 0; k < K; k++) y += get(&a, (int64_t[]){i, k}) * get(&b, (int64_t[]){k, j});
        for (int32_t s = 0; s < n; s++)
          y = step_value(&chain[s], y, chain[s].operand == 2 ? get(&e1, (int64_t[]){i, j}) : get(&e2, &j));
        double got = get(&out, (int64_t[]){i, j});
        if (!(fabs(got - y) <= 2e-5 * (1 + fabs(y)))) {
          for (int32_t s = 0; s < n; s++)
            print_message("step %d: kind %d operand %d alpha %g\n", s, chain[s].kind, chain[s].operand, chain[s].alpha);
          fail_msg("[%d, %d] of %d is %.9g, not %.9g", (int)i, (int)j, (int)n_cols, got, y);
        }
      }
    drop(&a), drop(&b), drop(&e1), drop(&e2), drop(&out);
  }
  print_message("%d of 200 chains refused\n", refused);
  assert_true(refused < 150);
  return TC_OK;
}

// A NaN or infinity in an operand comes through the epilogue as PyTorch's functions let it through.
TC_TEST(special_values) {
  if (!calls) skip();
  static const int32_t kinds[] = {TC_EPI_RELU,    TC_EPI_GELU_ERF, TC_EPI_GELU_TANH,
                                  TC_EPI_SIGMOID, TC_EPI_TANH,     TC_EPI_SILU};
  for (size_t e = 0; e < sizeof kinds / sizeof *kinds; e++)
    for (int32_t width = 1; width <= 65; width += 32) {
      tensor a, b, out;
      uint64_t seed = 5;
      make(&a, TC_F32, 2, (int64_t[]){4, 8}, NULL, 0, &seed);
      make(&b, TC_F32, 2, (int64_t[]){8, width}, NULL, 0, &seed);
      make(&out, TC_F32, 2, (int64_t[]){4, width}, NULL, 0, NULL);
      ((float *)(void *)a.data)[8] = NAN; // row 1
      fake_arg args[2] = {{"self", TC_AK_TENSOR, 1, {0}, 0}, {"mat2", TC_AK_TENSOR, 1, {0}, 0}};
      bool ran = run_call("aten::mm", args, 2, (tensor *[]){&a, &b}, 2, &out, &(tc_epilogue){kinds[e], 0, 0}, 1);
      if (ran)
        for (int64_t j = 0; j < width; j++) {
          int64_t at[5] = {1, j};
          if (!isnan(get(&out, at))) fail_msg("epilogue %d loses a NaN: %g", kinds[e], get(&out, at));
        }
      else print_message("epilogue %d: %s\n", kinds[e], r.diag);
      drop(&a), drop(&b), drop(&out);
    }
  return TC_OK;
}

// ---- Convolutions ----

typedef struct conv {
  tc_dtype dtype;
  int32_t spatial, bias, transposed;
  int64_t batch, in, out, groups, size, kernel, stride, pad, dilation;
  const char *order; // of the data
  bool relu_add;
  const char *result_order; // NULL: the data's
} conv;

static bool check_conv(const conv *p, uint64_t *seed) {
  tensor x, w, b, y, extra;
  int64_t effective = (p->kernel - 1) * p->dilation + 1;
  int64_t out_size = p->transposed ? (p->size - 1) * p->stride + effective - 2 * p->pad
                                   : (p->size + 2 * p->pad - effective) / p->stride + 1;
  int64_t xs[MAX_RANK] = {p->batch, p->in, p->size, p->size, p->size},
          ys[MAX_RANK] = {p->batch, p->out, out_size, out_size, out_size};
  int64_t ws[MAX_RANK] = {p->out, p->in / p->groups, p->kernel, p->kernel, p->kernel};
  if (p->transposed) ws[0] = p->in, ws[1] = p->out / p->groups;
  int32_t rank = p->spatial + 2;
  make(&x, p->dtype, rank, xs, p->order, 0, seed);
  make(&w, p->dtype, rank, ws, NULL, 0, seed);
  make(&b, p->dtype, 1, &p->out, NULL, 0, seed);
  const char *result_order = p->result_order ? p->result_order : p->order;
  make(&y, p->dtype, rank, ys, result_order, 0, NULL);
  make(&extra, p->dtype, rank, ys, result_order, 0, seed);
  fake_arg args[9] = {{"input", TC_AK_TENSOR, 1, {0}, 0},
                      {"weight", TC_AK_TENSOR, 1, {0}, 0},
                      {"bias", p->bias ? TC_AK_TENSOR : TC_AK_NONE, p->bias, {0}, 0},
                      {"stride", TC_AK_INTS, p->spatial, {p->stride, p->stride, p->stride}, 0},
                      {"padding", TC_AK_INTS, p->spatial, {p->pad, p->pad, p->pad}, 0},
                      {"dilation", TC_AK_INTS, 1, {p->dilation}, 0},
                      {"transposed", TC_AK_BOOL, 1, {p->transposed}, 0},
                      {"output_padding", TC_AK_INTS, 1, {0}, 0},
                      {"groups", TC_AK_INT, 1, {p->groups}, 0}};
  tensor *operands[4] = {&x, &w, &b};
  int32_t n = 2 + p->bias;
  if (p->relu_add) operands[n++] = &extra;
  tc_epilogue epilogue[] = {{TC_EPI_ADD, n - 1, 0}, {TC_EPI_TANH, 0, 0}};
  bool ran = run_call("aten::convolution", args, 9, operands, n, &y, epilogue, p->relu_add ? 2 : 0);
  int64_t per_in = p->in / p->groups, per_out = p->out / p->groups, s1 = p->spatial > 1 ? out_size : 1,
          s2 = p->spatial > 2 ? out_size : 1;
  int64_t k1 = p->spatial > 1 ? p->kernel : 1, k2 = p->spatial > 2 ? p->kernel : 1;
  for (int64_t bi = 0; ran && bi < p->batch; bi++)
    for (int64_t o = 0; o < p->out; o++)
      for (int64_t a0 = 0; a0 < out_size; a0++)
        for (int64_t a1 = 0; a1 < s1; a1++)
          for (int64_t a2 = 0; a2 < s2; a2++) {
            double sum = p->bias ? get(&b, &o) : 0, scale = fabs(sum);
            int64_t at[3] = {a0, a1, a2};
            for (int64_t i = 0; i < per_in; i++)
              for (int64_t q = 0; q < p->kernel * k1 * k2; q++) {
                int64_t t[3] = {q / (k1 * k2), q / k2 % k1, q % k2}, xi[MAX_RANK] = {bi, o / per_out * per_in + i},
                        wi[MAX_RANK];
                bool inside = true;
                for (int32_t d = 0; d < p->spatial; d++) {
                  int64_t v = p->transposed ? at[d] + p->pad - t[d] * p->dilation
                                            : at[d] * p->stride - p->pad + t[d] * p->dilation;
                  if (p->transposed) inside = inside && v % p->stride == 0, v = v >= 0 ? v / p->stride : -1;
                  inside = inside && v >= 0 && v < p->size;
                  xi[2 + d] = v, wi[2 + d] = t[d];
                }
                wi[0] = p->transposed ? o / per_out * per_in + i : o, wi[1] = p->transposed ? o % per_out : i;
                double v = inside ? get(&x, xi) * get(&w, wi) : 0;
                sum += v, scale += fabs(v);
              }
            int64_t yi[MAX_RANK] = {bi, o, a0, a1, a2};
            if (p->relu_add) sum = tanh(sum + get(&extra, yi));
            expect(&y, yi, sum, p->dtype == TC_F32 ? scale : 1, "convolution");
          }
  drop(&x), drop(&w), drop(&b), drop(&y), drop(&extra);
  return ran;
}

TC_TEST(convolutions) {
  if (!calls) skip();
  uint64_t seed = tc_test_seed();
  static const conv cases[] = {
      {TC_F32, 2, 1, 0, 2, 16, 32, 1, 9, 3, 1, 1, 1, NULL, false, NULL},
      {TC_F32, 2, 1, 0, 2, 16, 32, 1, 9, 3, 2, 1, 1, "0231", true, NULL},
      {TC_F32, 2, 0, 0, 1, 3, 20, 1, 12, 5, 2, 2, 1, NULL, true, NULL},
      {TC_F32, 2, 1, 0, 2, 24, 24, 24, 8, 3, 1, 1, 1, "0231", false, NULL},
      {TC_F32, 2, 1, 0, 1, 16, 16, 4, 7, 3, 1, 2, 2, NULL, false, NULL},
      {TC_F32, 2, 1, 0, 3, 32, 64, 1, 6, 1, 1, 0, 1, "0231", true, NULL},
      {TC_F32, 1, 1, 0, 2, 8, 8, 2, 20, 4, 3, 1, 1, NULL, false, NULL},
      {TC_F32, 3, 0, 0, 1, 4, 8, 1, 5, 3, 1, 1, 1, NULL, false, NULL},
      {TC_F32, 2, 1, 1, 2, 16, 8, 1, 5, 4, 2, 1, 1, NULL, false, NULL},
      {TC_F32, 2, 0, 1, 1, 8, 16, 2, 5, 3, 1, 1, 1, "0231", true, NULL},
      {TC_BF16, 2, 1, 0, 2, 16, 32, 1, 9, 3, 1, 1, 1, "0231", false, NULL},
      {TC_F32, 2, 1, 0, 2, 3, 16, 1, 12, 3, 2, 1, 1, NULL, false, "0231"},
      {TC_F32, 2, 1, 0, 1, 3, 16, 1, 12, 3, 2, 1, 1, NULL, true, "0231"},
      {TC_F32, 2, 1, 0, 2, 16, 8, 1, 9, 3, 1, 1, 1, "0231", false, "0123"},
      {TC_F32, 2, 1, 1, 2, 16, 8, 1, 5, 4, 2, 1, 1, NULL, false, "0231"},
      {TC_F32, 3, 1, 0, 1, 3, 8, 1, 6, 3, 1, 1, 1, NULL, false, "02341"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (!check_conv(&cases[i], &seed)) print_message("case %d is not supported here: %s\n", (int)i, r.diag);
  return TC_OK;
}

// An image in planes is moved for a result with channels last, which is larger.
TC_TEST(images_in_planes) {
  if (!calls || !__builtin_cpu_supports("avx2") || __builtin_cpu_supports("avx512f")) skip(); // what oneDNN has there
  uint64_t seed = tc_test_seed();
  const conv p = {TC_F32, 2, 1, 0, 2, 3, 64, 1, 24, 3, 1, 1, 1, NULL, false, "0231"};
  assert_true(check_conv(&p, &seed));
  assert_true(workspace < UINT64_C(2) * 64 * 24 * 24 * sizeof(float));
  return TC_OK;
}

// Whatever the stride of a single image is, it lies as several do, and needs no copies in another layout.
TC_TEST(single_images) {
  if (!calls) skip();
  uint64_t seed = tc_test_seed();
  static const conv cases[] = {
      {TC_F32, 2, 1, 0, 2, 32, 64, 1, 12, 1, 1, 0, 1, "0231", false, NULL},
      {TC_F32, 2, 1, 0, 2, 32, 64, 1, 12, 3, 1, 1, 1, "0231", false, NULL},
      {TC_F32, 2, 1, 0, 2, 32, 64, 1, 12, 12, 1, 0, 1, "0231", false, NULL},
      {TC_F32, 1, 1, 0, 2, 32, 64, 1, 12, 3, 1, 1, 1, "021", false, NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    conv one = cases[i];
    if (!check_conv(&one, &seed)) continue;
    uint64_t two = workspace;
    one.batch = 1;
    assert_true(check_conv(&one, &seed));
    int64_t places = one.spatial == 2 ? one.size * one.size : one.size;
    if (workspace >= two + (uint64_t)(one.in * places) * sizeof(float))
      fail_msg("case %d: %d bytes, %d for two images", (int)i, (int)workspace, (int)two);
  }
  return TC_OK;
}

// ---- Refusals, and what is not known yet ----

static int64_t ask(const char *op, tc_dtype d, int32_t rank, const int64_t *a, const int64_t *b, const int64_t *o) {
  tc_view views[2] = {{.dtype = d, .rank = rank, .sizes = a}, {.dtype = d, .rank = rank, .sizes = b}},
          out = {.dtype = d, .rank = rank, .sizes = o};
  fake_arg args[2] = {{"self", TC_AK_TENSOR, 1, {0}, 0}, {"mat2", TC_AK_TENSOR, 1, {0}, 0}};
  tc_op_args list = {args, 2};
  tc_call_node node = {.struct_size = sizeof node,
                       .op = tc_sv_of(op),
                       .args = &list,
                       .operands = views,
                       .n_operands = 2,
                       .n_results = 1,
                       .results = &out};
  int64_t cost;
  r.diag[0] = 0;
  assert_int_equal(calls->supports(&r.host, r.device, &node, &cost), TC_STATUS_OK);
  if (cost >= 0 && a[0] == INT64_MIN) { // without sizes there is nothing to prepare
    void *prepared;
    assert_int_equal(calls->prepare(&r.host, r.device, &node, &prepared, &workspace), TC_STATUS_INVALID_ARGUMENT);
  }
  return cost;
}

TC_TEST(questions) {
  if (!calls) skip();
  const int64_t x = INT64_MIN, unknown[] = {x, x}, known[] = {16, 16}, big[] = {1024, 1024}, none[] = {0, 16};
  assert_true(ask("aten::mm", TC_F32, 2, unknown, unknown, unknown) >= 0);
  assert_true(ask("aten::mm", TC_F32, 2, big, big, big) > ask("aten::mm", TC_F32, 2, known, known, known));
  assert_true(ask("aten::mm", TC_F32, 2, none, known, none) >= 0);
  assert_true(ask("aten::mm", TC_F64, 2, known, known, known) < 0);
  assert_non_null(strstr(r.diag, "dtype"));
  assert_true(ask("aten::mm", TC_C64, 2, known, known, known) < 0);
  assert_true(ask("aten::cumsum", TC_F32, 2, known, known, known) < 0);
  assert_non_null(strstr(r.diag, "aten::cumsum"));
  assert_true(ask("aten::mm", TC_F32, 2, known, big, known) < 0);
  return TC_OK;
}

TC_TEST(speed) {
  if (!calls) skip();
  static const int64_t sizes[][3] = {{1024, 1024, 1024}, {256, 256, 256}, {64, 256, 256},
                                     {32, 1024, 1024},   {1, 1024, 1024}, {8, 8, 8}};
  uint64_t seed = 1;
  TC_TRY(tc_executor_openmp(0, &r.executor));
  for (int32_t d = 0; d < 2; d++)
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
      tensor a, b, out;
      make(&a, d ? TC_BF16 : TC_F32, 2, (int64_t[]){sizes[i][0], sizes[i][2]}, NULL, 0, &seed);
      make(&b, d ? TC_BF16 : TC_F32, 2, (int64_t[]){sizes[i][2], sizes[i][1]}, NULL, 0, &seed);
      make(&out, d ? TC_BF16 : TC_F32, 2, (int64_t[]){sizes[i][0], sizes[i][1]}, NULL, 0, NULL);
      tc_view views[] = {a.view, b.view};
      fake_arg args[2] = {{"self", TC_AK_TENSOR, 1, {0}, 0}, {"mat2", TC_AK_TENSOR, 1, {0}, 0}};
      tc_op_args list = {args, 2};
      tc_call_node node = {.struct_size = sizeof node,
                           .op = TC_SV("aten::mm"),
                           .args = &list,
                           .operands = views,
                           .n_operands = 2,
                           .n_results = 1,
                           .results = &out.view};
      void *prepared;
      uint64_t workspace;
      struct timespec t0, t1;
      clock_gettime(CLOCK_MONOTONIC, &t0);
      if (calls->prepare(&r.host, r.device, &node, &prepared, &workspace) != TC_STATUS_OK) {
        drop(&a), drop(&b), drop(&out); // of bf16 on a processor that has no such products
        continue;
      }
      clock_gettime(CLOCK_MONOTONIC, &t1);
      double prepare_ms = (double)(t1.tv_sec - t0.tv_sec) * 1e3 + (double)(t1.tv_nsec - t0.tv_nsec) * 1e-6, best = 1e30;
      char *w = rig_alloc(NULL, workspace + 64);
      for (int32_t k = 0; k < 30; k++) {
        clock_gettime(CLOCK_MONOTONIC, &t0);
        assert_int_equal(calls->run(prepared, 0, views, &out.view, (uintptr_t)w, 0), TC_STATUS_OK);
        clock_gettime(CLOCK_MONOTONIC, &t1);
        double us = (double)(t1.tv_sec - t0.tv_sec) * 1e6 + (double)(t1.tv_nsec - t0.tv_nsec) * 1e-3;
        if (us < best) best = us;
      }
      print_message("%s %4d x %4d x %4d: prepare %6.2f ms, run %9.2f us, %7.1f GF/s, workspace %d\n",
                    d ? "bf16" : "f32 ", (int)sizes[i][0], (int)sizes[i][1], (int)sizes[i][2], prepare_ms, best,
                    2e-3 * (double)(sizes[i][0] * sizes[i][1] * sizes[i][2]) / best, (int)workspace);
      rig_free(NULL, w);
      calls->destroy(prepared);
      drop(&a), drop(&b), drop(&out);
    }
  tc_executor_destroy(&r.executor);
  r.executor = tc_executor_serial;
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(products),
                                     cmocka_unit_test(chains),
                                     cmocka_unit_test(special_values),
                                     cmocka_unit_test(convolutions),
                                     cmocka_unit_test(single_images),
                                     cmocka_unit_test(images_in_planes),
                                     cmocka_unit_test_setup_teardown(products, say_constant, say_nothing),
                                     cmocka_unit_test_setup_teardown(chains, say_constant, say_nothing),
                                     cmocka_unit_test_setup_teardown(convolutions, say_constant, say_nothing),
                                     cmocka_unit_test(questions),
                                     cmocka_unit_test(speed)};
  return cmocka_run_group_tests(tests, open_rig, close_rig);
}
