// From a graph text through lowering, scheduling and emission to a kernel that the interpreter runs; values against
// plain C.
#include <math.h>

#include "core/base/log.h"
#include "core/ir/op.h"
#include "core/ir/opargs.h"
#include "core/kernel/emit.h"
#include "core/kernel/templates/templates.h"
#include "tests/unit/unit.h"

// ---- a few rows, enough for rows, columns, chunks and templates ----
static int32_t sum_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  int64_t dim = tc_op_wrap_dim(a, tc_op_int(a, 1, 0), t->rank);
  tc_int sizes[TC_MAX_RANK];
  int32_t keep = tc_op_bool(a, 2, 0), n = 0;
  for (int32_t d = 0; d < t->rank; d++) {
    if (d != dim) sizes[n++] = t->sizes[d];
    else if (keep) sizes[n++] = tc_int_const(a, 1);
  }
  return tc_op_set_result(a, 0, t->dtype, n, sizes, NULL);
}

static int32_t lower_reduce(tc_op_args *a, int32_t kind) {
  const tc_tensor_type *t = tc_op_tensor(a, 0), *r = tc_op_result_type(a, 0);
  int64_t dim = tc_op_wrap_dim(a, tc_op_int(a, 1, 0), t->rank);
  tc_int par[TC_MAX_RANK], red[1] = {t->sizes[dim]}, index[TC_MAX_RANK], at[TC_MAX_RANK];
  int32_t n = 0;
  for (int32_t d = 0; d < t->rank; d++) {
    if (d != dim) par[n++] = t->sizes[d];
  }
  tc_lo_begin_reduce(a, kind, n, par, 1, red, index);
  for (int32_t d = 0, k = 0; d < t->rank; d++) at[d] = d == dim ? index[n] : index[k++];
  tc_lt s = tc_lo_end(a, tc_lo_load(a, tc_lo_arg(a, 0), at), t->dtype);
  if (r->rank == t->rank) s = tc_lo_reshape(a, s, r->rank, r->sizes);
  tc_lo_result(a, 0, s);
  return TC_STATUS_OK;
}
static int32_t lower_sum(tc_op_args *a) { return lower_reduce(a, TC_RED_SUM); }
static int32_t lower_max(tc_op_args *a) { return lower_reduce(a, TC_RED_MAX); }

static int32_t mm_meta(tc_op_args *a) {
  tc_int sizes[2] = {tc_op_tensor(a, 0)->sizes[0], tc_op_tensor(a, 1)->sizes[1]};
  return tc_op_set_result(a, 0, tc_op_tensor(a, 0)->dtype, 2, sizes, NULL);
}
static int32_t lower_mm(tc_op_args *a) {
  tc_lt x = tc_lo_arg(a, 0), w = tc_lo_arg(a, 1);
  tc_int k = tc_lo_size(a, w, 0), n = tc_lo_size(a, w, 1), p = tc_int_const(a, 64), i[3];
  tc_int panels[3] = {tc_int_floordiv(a, tc_int_add(a, n, tc_int_const(a, 63)), p), k, p};
  tc_lo_begin(a, 3, panels, i);
  tc_int column = tc_int_add(a, tc_int_mul(a, i[0], p), i[2]), at[2] = {i[1], column};
  tc_bval zero = tc_lo_const(a, tc_lo_dtype(a, w), 0, 0);
  tc_lo_keep(a);
  tc_int inside = tc_sym_cmp(a->syms, TC_SYM_LT, column, n);
  tc_lt packed = tc_lo_end(a, tc_lo_load_if(a, w, at, inside, zero), tc_lo_dtype(a, w));
  tc_lt operands[2] = {x, packed};
  tc_lo_result(a, 0,
               tc_lo_template(a, "matmul", 2, operands, tc_lo_dtype(a, x), 2, tc_op_result_type(a, 0)->sizes, 0, NULL));
  return TC_STATUS_OK;
}

static const tc_op_def rows[] = {
    {.schema = "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
     .traits = TC_OP_POINTWISE,
     .body = "self + alpha * other"},
    {.schema = "sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
     .traits = TC_OP_POINTWISE,
     .body = "self - alpha * other"},
    {.schema = "mul.Tensor(Tensor self, Tensor other) -> Tensor", .traits = TC_OP_POINTWISE, .body = "self * other"},
    {.schema = "div.Tensor(Tensor self, Tensor other) -> Tensor", .traits = TC_OP_POINTWISE, .body = "self / other"},
    {.schema = "exp(Tensor self) -> Tensor", .traits = TC_OP_POINTWISE, .body = "exp(self)"},
    {.schema = "relu(Tensor self) -> Tensor", .traits = TC_OP_POINTWISE, .body = "relu(self)"},
    {.schema = "tsum(Tensor self, int dim, bool keep=True) -> Tensor", .meta = sum_meta, .lower = lower_sum},
    {.schema = "tmax(Tensor self, int dim, bool keep=True) -> Tensor", .meta = sum_meta, .lower = lower_max},
    {.schema = "mm(Tensor self, Tensor other) -> Tensor", .meta = mm_meta, .lower = lower_mm},
};

// ---- compile and run by the interpreter ----
typedef struct program {
  tc_module *m;
  tc_schedule *s;
  float *mem[64]; // by buffer id
  int32_t kernels;
} program;

static const tc_device_props cpu_like = {.simd_bytes = 64,
                                         .simd_registers = 32,
                                         .cores = 2,
                                         .l1_bytes = 32768,
                                         .l2_bytes = 1 << 20,
                                         .shared_bytes = 1 << 18,
                                         .launch_ns = 1000,
                                         .bytes_per_ns = 20};
static const tc_device_props gpu_like = {
    .max_lanes = 1024, .subgroup = 32, .cores = 100, .shared_bytes = 49152, .launch_ns = 3000, .bytes_per_ns = 2000};

static tc_status run_group(tc_arena *arena, program *p, tc_group *g, const tc_device_props *dev) {
  tc_emitted out;
  tc_emit_options o = {.logger = &tc_logger_silent, .device = dev};
  TC_TRY(tc_emit_group(p->s, g, &o, &out));
  if (getenv("TC_TEST_PRINT")) {
    tc_sb sb = tc_sb_make(arena);
    tc_kernel_print(&sb, out.kernel);
    fprintf(stderr, "%s\n", sb.text);
  }
  tc_karg args[32] = {0};
  for (int32_t i = 0; i < out.params.count; i++) {
    const tc_emit_param *q = &out.params.data[i];
    if (q->buf) {
      int64_t bytes;
      assert_true(tc_sym_hint(p->m->syms, tc_buf_bytes(p->s->loops, q->buf), &bytes));
      if (!p->mem[q->buf->id]) {
        p->mem[q->buf->id] = tc_arena_alloc_aligned(arena, (size_t)bytes, 64);
        memset(p->mem[q->buf->id], 0xff, (size_t)bytes);
      }
      args[i] = (tc_karg){.data = p->mem[q->buf->id], .count = bytes / 4};
    } else {
      assert_true(tc_sym_hint(p->m->syms, q->scalar, &args[i].bits));
    }
  }
  int64_t blocks, site;
  assert_true(tc_sym_hint(p->m->syms, out.blocks, &blocks));
  TC_TRY(tc_kernel_interpret(tc_system_allocator(), out.kernel, blocks, args, out.params.count, &site));
  assert_int_equal(site, -1);
  p->kernels++;
  return TC_OK;
}

// Inputs are buffers 0 …; the result is the buffer of output 0.
static tc_status run(tc_arena *arena, const char *text, const tc_device_props *dev, int32_t n_in, float *const *in,
                     const float **out, int32_t *kernels) {
  tc_op_registry *reg;
  TC_TRY(tc_op_registry_create(arena, &reg));
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) TC_TRY(tc_op_register(reg, &rows[i], TC_SV("")));
  tc_module *m;
  TC_TRY(tc_module_create(tc_arena_allocator(arena), reg, &m));
  tc_arena_on_destroy(arena, (void (*)(void *))tc_module_destroy, m);
  tc_lexer lx;
  tc_lex_init(&lx, m->arena, TC_SV("test.tc"), tc_sv_of(text));
  tc_graph *g;
  TC_TRY(tc_graph_parse(m, &lx, &g));
  tc_template_registry templates = {0};
  tc_templates_register_core(arena, &templates);
  tc_lower_options lo = {.logger = &tc_logger_silent, .templates = &templates};
  tc_loops *l;
  TC_TRY(tc_lower_graph(g, &lo, &l));
  tc_schedule_options so = {.logger = &tc_logger_silent, .device = dev, .fuse = true};
  program p = {.m = m};
  TC_TRY(tc_schedule_loops(l, &so, &p.s));
  if (getenv("TC_TEST_PRINT")) {
    tc_sb sb = tc_sb_make(arena);
    tc_schedule_print(&sb, p.s);
    fprintf(stderr, "%s\n", sb.text);
  }
  for (int32_t i = 0; i < n_in; i++) p.mem[i] = in[i];
  for (int32_t i = 0; i < p.s->groups.count; i++) TC_TRY(run_group(arena, &p, p.s->groups.data[i], dev));
  *out = p.mem[l->outputs.data[0].buf->id];
  *kernels = p.kernels;
  return TC_OK;
}

// The module is destroyed by the arena; its guard is the test's.
static float *random_floats(tc_arena *arena, int64_t n) {
  float *x = tc_arena_alloc_aligned(arena, (size_t)n * sizeof *x, 64);
  for (int64_t i = 0; i < n; i++) x[i] = (float)(rand() % 2000 - 1000) / 500.0f;
  return x;
}

static void check(const float *got, const double *want, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    if (!(fabs(got[i] - want[i]) <= 1e-4 * (1 + fabs(want[i]))))
      fail_msg("element %lld: got %g, expected %g", (long long)i, got[i], want[i]);
  }
}

TC_TEST(pointwise_chain_is_one_kernel) {
  for (int32_t d = 0; d < 2; d++) {
    float *in[2] = {random_floats(arena, 3 * 41), random_floats(arena, 41)};
    const float *out;
    int32_t kernels;
    TC_TRY(run(arena,
               "graph @f (%x : f32[3, 41] = user \"x\", %y : f32[41] = user \"y\") {\n"
               "  %a : f32[3, 41] = aten::mul.Tensor(%x, %y)\n  %b : f32[3, 41] = aten::exp(%a)\n  %c : f32[3, 41] = "
               "aten::add.Tensor(%b, %x, 2)\n  return user %c\n}\n",
               d ? &gpu_like : &cpu_like, 2, in, &out, &kernels));
    double want[3 * 41];
    for (int i = 0; i < 3 * 41; i++) want[i] = exp((double)in[0][i] * in[1][i % 41]) + 2 * in[0][i];
    check(out, want, 3 * 41);
    assert_int_equal(kernels, 1);
  }
  return TC_OK;
}

TC_TEST(softmax_is_one_kernel) {
  for (int32_t d = 0; d < 2; d++) {
    enum { R = 5, N = 77 };
    float *in[1] = {random_floats(arena, R * N)};
    const float *out;
    int32_t kernels;
    TC_TRY(
        run(arena,
            "graph @f (%x : f32[5, 77] = user \"x\") {\n"
            "  %m : f32[5, 1] = aten::tmax(%x, 1)\n  %s : f32[5, 77] = aten::sub.Tensor(%x, %m, 1)\n  %e : f32[5, 77] "
            "= aten::exp(%s)\n"
            "  %t : f32[5, 1] = aten::tsum(%e, 1)\n  %y : f32[5, 77] = aten::div.Tensor(%e, %t)\n  return user %y\n}\n",
            d ? &gpu_like : &cpu_like, 1, in, &out, &kernels));
    double want[R * N];
    for (int r = 0; r < R; r++) {
      double s = 0;
      for (int i = 0; i < N; i++) s += exp(in[0][r * N + i]);
      for (int i = 0; i < N; i++) want[r * N + i] = exp(in[0][r * N + i]) / s;
    }
    check(out, want, R * N);
    assert_int_equal(kernels, 1);
  }
  return TC_OK;
}

TC_TEST(column_sums_run_along_columns) {
  enum { R = 19, N = 70 };
  float *in[1] = {random_floats(arena, R * N)};
  const float *out;
  int32_t kernels;
  TC_TRY(run(arena,
             "graph @f (%x : f32[19, 70] = user \"x\") {\n  %r : f32[19, 70] = aten::relu(%x)\n  %s : f32[70] = "
             "aten::tsum(%r, 0, false)\n  return user %s\n}\n",
             &cpu_like, 1, in, &out, &kernels));
  double want[N] = {0};
  for (int i = 0; i < R * N; i++) want[i % N] += in[0][i] > 0 ? in[0][i] : 0;
  check(out, want, N);
  assert_int_equal(kernels, 1);
  return TC_OK;
}

static void matmul_center(tc_arena *arena, int m, int k, int n, const float *x, const float *w, const float *b,
                          double *want, bool center) {
  (void)arena;
  for (int i = 0; i < m; i++) {
    double mean = 0;
    for (int j = 0; j < n; j++) {
      double s = b[j];
      for (int q = 0; q < k; q++) s += (double)x[i * k + q] * w[q * n + j];
      want[i * n + j] = s > 0 ? s : 0;
      mean += want[i * n + j] / n;
    }
    for (int j = 0; j < n && center; j++) want[i * n + j] -= mean;
  }
}

TC_TEST(matmul_with_epilogue_is_one_kernel_and_a_pack) {
  enum { M = 29, K = 33, N = 100 };
  float *in[3] = {random_floats(arena, M * K), random_floats(arena, K * N), random_floats(arena, N)};
  const float *out;
  int32_t kernels;
  TC_TRY(run(arena,
             "graph @f (%x : f32[29, 33] = user \"x\", %w : f32[33, 100] = user \"w\", %b : f32[100] = user \"b\") {\n"
             "  %p : f32[29, 100] = aten::mm(%x, %w)\n  %a : f32[29, 100] = aten::add.Tensor(%p, %b, 1)\n  %r : "
             "f32[29, 100] = aten::relu(%a)\n  return user %r\n}\n",
             &cpu_like, 3, in, &out, &kernels));
  double want[M * N];
  matmul_center(arena, M, K, N, in[0], in[1], in[2], want, false);
  check(out, want, M * N);
  assert_int_equal(kernels, 2);
  return TC_OK;
}

TC_TEST(matmul_carries_a_row_reduction) {
  enum { M = 29, K = 33, N = 100 };
  float *in[3] = {random_floats(arena, M * K), random_floats(arena, K * N), random_floats(arena, N)};
  const float *out;
  int32_t kernels;
  TC_TRY(run(arena,
             "graph @f (%x : f32[29, 33] = user \"x\", %w : f32[33, 100] = user \"w\", %b : f32[100] = user \"b\") {\n"
             "  %p : f32[29, 100] = aten::mm(%x, %w)\n  %a : f32[29, 100] = aten::add.Tensor(%p, %b, 1)\n  %r : "
             "f32[29, 100] = aten::relu(%a)\n"
             "  %s : f32[29, 1] = aten::tsum(%r, 1)\n  %q : f32[29, 1] = aten::mul.Tensor(%s, 0.01)\n  %y : f32[29, "
             "100] = aten::sub.Tensor(%r, %q, 1)\n  return user %y\n}\n",
             &cpu_like, 3, in, &out, &kernels));
  double want[M * N];
  matmul_center(arena, M, K, N, in[0], in[1], in[2], want, true);
  check(out, want, M * N);
  assert_int_equal(kernels, 2);
  return TC_OK;
}

// Neither product may run in the other's tile: one is finished first.
TC_TEST(products_that_meet_stay_apart) {
  enum { M = 29, K = 33, N = 100 };
  float *in[3] = {random_floats(arena, M * K), random_floats(arena, K * N), random_floats(arena, K * N)};
  const float *out;
  int32_t kernels;
  TC_TRY(
      run(arena,
          "graph @f (%x : f32[29, 33] = user \"x\", %w : f32[33, 100] = user \"w\", %v : f32[33, 100] = user \"v\") {\n"
          "  %p : f32[29, 100] = aten::mm(%x, %w)\n  %q : f32[29, 100] = aten::mm(%x, %v)\n"
          "  %r : f32[29, 100] = aten::relu(%p)\n  %y : f32[29, 100] = aten::mul.Tensor(%r, %q)\n  return user %y\n}\n",
          &cpu_like, 3, in, &out, &kernels));
  double p[M * N], q[M * N];
  float zero[N] = {0};
  matmul_center(arena, M, K, N, in[0], in[1], zero, p, false);
  for (int i = 0; i < M * N; i++) {
    q[i] = 0;
    for (int k = 0; k < K; k++) q[i] += (double)in[0][i / N * K + k] * in[2][k * N + i % N];
    p[i] *= q[i];
  }
  check(out, p, M * N);
  assert_int_equal(kernels, 4); // two packs, two products
  return TC_OK;
}

int main(void) {
  srand((unsigned)tc_run_seed());
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pointwise_chain_is_one_kernel),  cmocka_unit_test(softmax_is_one_kernel),
      cmocka_unit_test(column_sums_run_along_columns),  cmocka_unit_test(matmul_with_epilogue_is_one_kernel_and_a_pack),
      cmocka_unit_test(matmul_carries_a_row_reduction), cmocka_unit_test(products_that_meet_stay_apart),
  };
  return TC_RUN(tests);
}
