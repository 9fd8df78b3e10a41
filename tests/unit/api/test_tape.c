// The tape: against compiled gradients, definitions and differences of orders; writing in place, regions, derivatives
// of the user's, and what is refused.
#include <math.h>
#include <unistd.h>

#include "tests/unit/api/backends.h"

#include "tc/op.h"

static tc_tensor *leaf(tc_context *c, tc_dtype dtype, int32_t rank, const int64_t *sizes) {
  tc_tensor *t = tc_new_tensor(c, dtype, rank, sizes);
  assert_non_null(t);
  for (int64_t i = 0; i < tc_numel_of(t) * (dtype == TC_C128 ? 2 : 1); i++)
    ((double *)tc_data_of(t))[i] = 0.2 + (double)rand() / RAND_MAX;
  assert_int_equal(tc_set_requires_grad(t, 1), TC_STATUS_OK);
  return t;
}

static void ok(int32_t code) {
  if (code != TC_STATUS_OK) fail_msg("%s", tc_last_error());
}

static void refused(int32_t code, const char *words) {
  assert_int_not_equal(code, TC_STATUS_OK);
  if (!strstr(tc_last_error(), words)) fail_msg("'%s' does not say '%s'", tc_last_error(), words);
  tc_clear_error();
}

static double at(const tc_tensor *t, int64_t i) { return ((const double *)tc_data_of((tc_tensor *)(uintptr_t)t))[i]; }
static void near(double have, double want) {
  if (!(fabs(have - want) <= 1e-9 * (1 + fabs(want)))) fail_msg("%.17g instead of %.17g", have, want);
}
static tc_tensor *sum(tc_tensor *x) { return tc_aten_sum(x, TC_DTYPE_NONE); }
static tc_tensor *mul(tc_tensor *x, tc_tensor *y) { return tc_aten_mul_Tensor(x, y); }

// A layer with a norm, an attention over itself and a residual; views, broadcasting, reductions of both kinds.
enum { N = 5, D = 4, N_IN = 4 };
static int32_t block(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)self, (void)n_in, (void)n_out;
  tc_tensor *h = tc_aten_layer_norm(in[0], (int64_t[]){D}, 1, in[2], in[3], 1e-5, 0);
  tc_tensor *q = tc_aten_linear(h, in[1], NULL);
  tc_tensor *p = tc_aten_softmax_int(tc_aten_mm(q, tc_aten_transpose_int(h, 0, 1)), -1, TC_DTYPE_NONE);
  tc_tensor *y = tc_aten_add_Tensor(tc_aten_mm(p, tc_aten_gelu(q, "none")), in[0], tc_scalar_int(1));
  out[0] = tc_aten_mean(mul(y, tc_aten_tanh(y)), TC_DTYPE_NONE);
  return tc_last_code();
}
static void block_inputs(tc_context *c, tc_tensor **in) {
  in[0] = leaf(c, TC_F64, 2, (int64_t[]){N, D});
  in[1] = leaf(c, TC_F64, 2, (int64_t[]){D, D});
  in[2] = leaf(c, TC_F64, 1, (int64_t[]){D});
  in[3] = leaf(c, TC_F64, 1, (int64_t[]){D});
}

static void is_what_is_compiled(void **state) {
  (void)state;
  seed_rand();
  FOR_BACKENDS(c, NULL) {
    tc_scope *s = tc_scope_open();
    tc_tensor *in[N_IN], *out[1 + N_IN], *y, *g[N_IN];
    block_inputs(c, in);
    tc_compile_options o = {.struct_size = sizeof o, .n_inputs = N_IN, .n_outputs = 1};
    tc_function *f;
    ok(tc_value_and_grad(c, block, NULL, &o, N_IN, (int32_t[]){0, 1, 2, 3}, &f));
    ok(tc_call(f, in, out));
    ok(block(NULL, in, N_IN, &y, 1));
    ok(tc_grad(1, &y, NULL, N_IN, in, 0, g));
    ok(tc_backward(y, NULL));
    ok(tc_backward(y, NULL)); // adds up
    for (int k = 0; k < N_IN; k++) {
      tc_tensor *own = tc_gradient_of(in[k]);
      for (int64_t i = 0; i < tc_numel_of(in[k]); i++) {
        near(at(g[k], i), at(out[1 + k], i));
        near(at(own, i), 2 * at(g[k], i));
      }
      tc_clear_gradient(in[k]);
      assert_null(tc_gradient_of(in[k]));
    }
    tc_function_destroy(f);
    tc_scope_close(s);
  }
}

// A step of a unitary recurrence: phases of a real parameter, a transform, a reflection with lazy conjugates of views
// of a parameter that is used twice.
enum { WIDE = 4, TURNS = 2 };
static tc_tensor *reflected(tc_tensor *h, tc_tensor *v) {
  tc_tensor *along = tc_aten_unsqueeze(tc_aten_matmul(h, tc_aten__conj(v)), 1);
  tc_tensor *two = mul(tc_aten_mul_Scalar(along, tc_scalar_int(2)), v);
  tc_tensor *norm = tc_aten_real(sum(mul(tc_aten__conj(v), v)));
  return tc_aten_sub_Tensor(h, tc_aten_div_Tensor(two, norm), tc_scalar_int(1));
}

static int32_t recurrence(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)self, (void)n_in, (void)n_out;
  tc_argument by_i[] = {{.kind = TC_ARGUMENT_TENSOR, .v.tensor = in[0]}, tc_scalar_complex(0, 1)};
  tc_tensor *angle = NULL, *h = in[2];
  tc_call_op(NULL, "aten::mul.Tensor", 2, by_i, 1, &angle, NULL);
  tc_tensor *phases = tc_aten_exp(angle);
  for (int64_t k = 0; k < TURNS; k++) {
    h = mul(h, tc_aten_select_int(phases, 0, 0));
    h = reflected(h, tc_aten_select_int(in[1], 0, k % 2));
    h = mul(h, tc_aten_select_int(phases, 0, 1));
  }
  tc_tensor *size = tc_aten_abs(h);
  out[0] = tc_aten_mean(mul(size, tc_aten_sin(tc_aten_real(h))), TC_DTYPE_NONE);
  return tc_last_code();
}

static void recurrence_inputs(tc_context *c, tc_tensor **in) {
  in[0] = leaf(c, TC_F64, 2, (int64_t[]){2, WIDE});
  in[1] = leaf(c, TC_C128, 2, (int64_t[]){2, WIDE});
  in[2] = leaf(c, TC_C128, 2, (int64_t[]){3, WIDE});
}

static void complex_is_what_is_compiled(void **state) {
  (void)state;
  seed_rand();
  FOR_BACKENDS(c, NULL) {
    tc_scope *s = tc_scope_open();
    tc_tensor *in[3], *out[4], *y, *g[3];
    recurrence_inputs(c, in);
    tc_compile_options o = {.struct_size = sizeof o, .n_inputs = 3, .n_outputs = 1};
    tc_function *f;
    ok(tc_value_and_grad(c, recurrence, NULL, &o, 3, (int32_t[]){0, 1, 2}, &f));
    ok(tc_call(f, in, out));
    ok(recurrence(NULL, in, 3, &y, 1));
    ok(tc_grad(1, &y, NULL, 3, in, 0, g));
    near(at(y, 0), at(out[0], 0));
    for (int k = 0; k < 3; k++) {
      const tc_tensor *want =
          tc_aten_contiguous(out[1 + k], TC_FORMAT_CONTIGUOUS); // that of the phases is the real part of something
      for (int64_t i = 0; i < tc_numel_of(in[k]) * (k ? 2 : 1); i++) near(at(g[k], i), at(want, i));
    }
    tc_function_destroy(f);
    tc_scope_close(s);
  }
}

// x⁴: 4x³, 12x², 24x, 24; and the gradients of a block's gradients by differences.
static void orders(void **state) {
  (void)state;
  seed_rand();
  FOR_BACKENDS(c, NULL) {
    tc_scope *s = tc_scope_open();
    tc_tensor *x = leaf(c, TC_F64, 1, (int64_t[]){3}), *y = mul(mul(x, x), mul(x, x));
    double factor = 1;
    for (int k = 1; k <= 4; k++) {
      tc_tensor *g;
      y = sum(y);
      ok(tc_grad(1, &y, NULL, 1, &x, 1, &g));
      factor *= 5 - k;
      for (int i = 0; i < 3; i++) near(at(g, i), factor * pow(at(x, i), 4 - k));
      y = g;
    }
    tc_tensor *in[N_IN], *loss, *g[N_IN], *norm = NULL, *second[N_IN];
    block_inputs(c, in);
    double up, down, h = 1e-5;
    for (int side = 0; side < 3; side++) {
      ((double *)tc_data_of(in[1]))[2] += side == 0 ? h : side == 1 ? -2 * h : h;
      ok(block(NULL, in, N_IN, &loss, 1));
      ok(tc_grad(1, &loss, NULL, N_IN, in, 1, g));
      norm = sum(mul(g[0], g[0]));
      for (int k = 1; k < N_IN; k++) norm = tc_aten_add_Tensor(norm, sum(mul(g[k], g[k])), tc_scalar_int(1));
      ok(tc_item_f64(norm, side ? &down : &up, NULL));
      if (side == 1) up = (up - down) / (2 * h);
    }
    ok(tc_grad(1, &norm, NULL, N_IN, in, 0, second));
    if (fabs(at(second[1], 2) - up) > 1e-6 * (1 + fabs(up))) fail_msg("%.12g instead of %.12g", at(second[1], 2), up);
    tc_scope_close(s);
  }
}

static void complex_numbers(void **state) {
  (void)state;
  seed_rand();
  FOR_BACKENDS(c, NULL) {
    tc_scope *s = tc_scope_open();
    tc_tensor *z = leaf(c, TC_C128, 1, (int64_t[]){3}), *r = leaf(c, TC_F64, 1, (int64_t[]){3}), *in[] = {z, r}, *g[2];
    tc_tensor *a = tc_aten_abs(mul(z, r)), *y = sum(mul(a, a)); // Σ |z|² r²
    ok(tc_grad(1, &y, NULL, 2, in, 0, g));
    for (int i = 0; i < 3; i++) {
      double re = at(z, 2 * i), im = at(z, 2 * i + 1), k = at(r, i);
      near(at(g[0], 2 * i), 2 * re * k * k);
      near(at(g[0], 2 * i + 1), 2 * im * k * k);
      near(at(g[1], i), 2 * k * (re * re + im * im));
    }
    tc_tensor *w = leaf(c, TC_C128, 1, (int64_t[]){3}),
              *both[] = {z, w}; // a lazy conjugate: Re Σ z·conj(w) and its kin
    tc_tensor *p = mul(z, tc_aten__conj(w));
    y = tc_aten_add_Tensor(sum(tc_aten_real(p)), sum(tc_aten_real(mul(p, p))), tc_scalar_int(1));
    ok(tc_grad(1, &y, NULL, 2, both, 0, g));
    for (int i = 0; i < 3; i++) {
      double zr = at(z, 2 * i), zi = at(z, 2 * i + 1), wr = at(w, 2 * i), wi = at(w, 2 * i + 1);
      double pr = 1 + 2 * (zr * wr + zi * wi), pi = -2 * (zi * wr - zr * wi); // 1 + 2·conj(p)
      near(at(g[0], 2 * i), pr * wr - pi * wi);
      near(at(g[0], 2 * i + 1), pr * wi + pi * wr);
      near(at(g[1], 2 * i), pr * zr + pi * zi); // conj(gp)·z
      near(at(g[1], 2 * i + 1), pr * zi - pi * zr);
    }
    tc_scope_close(s);
  }
}

static void in_place(void **state) {
  (void)state;
  seed_rand();
  FOR_BACKENDS(c, NULL) {
    tc_scope *s = tc_scope_open();
    tc_tensor *x = leaf(c, TC_F64, 1, (int64_t[]){4}), *g;
    tc_tensor *y = mul(x, x); // y = exp(x² · x) in two writes
    tc_aten_mul__Tensor(y, x);
    tc_tensor *again = tc_aten_exp_(y), *l = sum(y);
    ok(tc_last_code());
    assert_ptr_equal(tc_data_of(again), tc_data_of(y));
    ok(tc_grad(1, &l, NULL, 1, &x, 0, &g));
    for (int i = 0; i < 4; i++) near(at(g, i), 3 * at(x, i) * at(x, i) * exp(at(x, i) * at(x, i) * at(x, i)));
    // What the gradient needs was overwritten.
    tc_tensor *a = mul(x, tc_aten_tanh(x)), *b = mul(a, a);
    int32_t before = tc_set_grad_enabled(0);
    tc_aten_add__Scalar(a, tc_scalar_int(1), tc_scalar_int(1));
    assert_int_equal(tc_set_grad_enabled(before), 0);
    l = sum(b);
    refused(tc_grad(1, &l, NULL, 1, &x, 0, &g), "written in place");
    l = sum(mul(x, x)); // … also of a leaf
    before = tc_set_grad_enabled(0);
    tc_aten_add__Scalar(x, tc_scalar_int(1), tc_scalar_int(1));
    tc_set_grad_enabled(before);
    refused(tc_grad(1, &l, NULL, 1, &x, 0, &g), "written in place");
    assert_null(tc_aten_add__Scalar(x, tc_scalar_int(1), tc_scalar_int(1)));
    refused(tc_last_code(), "requires a gradient is written in place");
    assert_null(tc_aten_zero_(tc_aten_select_int(x, 0, 1)));
    refused(tc_last_code(), "a part of a tensor that requires a gradient is written");
    before = tc_set_grad_enabled(0);
    tc_aten_zero_(b);
    tc_set_grad_enabled(before);
    assert_null(mul(b, x));
    refused(tc_last_code(), "written where they do not follow");
    tc_scope_close(s);
  }
}

static tc_tensor *cut(tc_tensor *x, int64_t from, int64_t to) { return tc_aten_slice_Tensor(x, 0, &from, &to, 1); }

// All handles of a memory see what is written through one of them.
static void in_place_through_views(void **state) {
  (void)state;
  seed_rand();
  FOR_BACKENDS(c, NULL) {
    tc_scope *s = tc_scope_open();
    tc_tensor *x = leaf(c, TC_F64, 1, (int64_t[]){4}), *w = leaf(c, TC_F64, 1, (int64_t[]){4}), *g, *l;
    double x1 = at(x, 1), x2 = at(x, 2), x3 = at(x, 3);
    tc_tensor *y = tc_aten_mul_Scalar(tc_aten_detach(x), tc_scalar_int(0)), *old = tc_aten_select_int(y, 0, 1);
    assert_false(tc_requires_grad(old));
    tc_aten_copy_(cut(y, 0, 3), cut(x, 0, 3), 0);
    tc_aten_mul__Tensor(cut(y, 1, 3), cut(x, 2, 4)); // x0, x1 x2, x2 x3, 0
    ok(tc_last_code());
    assert_true(tc_requires_grad(y) && tc_requires_grad(old));
    near(at(y, 2), x2 * x3);
    l = tc_aten_add_Tensor(sum(mul(y, w)), mul(old, old), tc_scalar_int(1));
    ok(tc_grad(1, &l, NULL, 1, &x, 0, &g));
    double a = at(w, 1) + 2 * x1 * x2;
    near(at(g, 0), at(w, 0));
    near(at(g, 1), a * x2);
    near(at(g, 2), a * x1 + at(w, 2) * x3);
    near(at(g, 3), at(w, 2) * x2);
    tc_aten_zero_(cut(y, 0, 2)); // what they were is gone
    l = tc_aten_add_Tensor(sum(mul(y, y)), mul(old, old), tc_scalar_int(1));
    ok(tc_grad(1, &l, NULL, 1, &x, 0, &g));
    near(at(g, 1), 0);
    near(at(g, 2), 2 * x2 * x3 * x3);
    tc_aten_copy_(y, w, 0);
    l = sum(mul(tc_aten_detach(x), mul(y, old)));
    ok(tc_grad(1, &l, NULL, 1, &w, 0, &g));
    near(at(g, 0), at(x, 0) * at(w, 1));
    // A complex number by its parts, and a matrix that lies by columns.
    tc_tensor *z = tc_aten_complex(tc_aten_detach(x), tc_aten_detach(x));
    tc_aten_copy_(tc_aten_real(z), x, 0);
    tc_aten_mul__Tensor(tc_aten_imag(z), w);
    l = sum(tc_aten_imag(mul(z, z))); // 2 x · x' w
    ok(tc_grad(1, &l, NULL, 1, &x, 0, &g));
    near(at(g, 3), 2 * x3 * at(w, 3));
    tc_tensor *m = tc_aten_exp(tc_aten_t(leaf(c, TC_F64, 2, (int64_t[]){4, 2})));
    assert_int_equal(tc_stride_of(m, 0), 1);
    assert_ptr_not_equal(tc_data_of(tc_aten_clone(m, TC_FORMAT_CONTIGUOUS)), tc_data_of(m));
    assert_ptr_not_equal(tc_data_of(tc_aten_clone(y, TC_FORMAT_CONTIGUOUS)), tc_data_of(y));
    tc_aten_copy_(tc_aten_select_int(m, 1, 3), cut(x, 0, 2), 0);
    l = sum(mul(m, tc_aten_unsqueeze(x, 0)));
    ok(tc_grad(1, &l, NULL, 1, &x, 0, &g));
    near(at(g, 0), x3 + at(m, 0) + at(m, 1));
    tc_scope_close(s);
  }
}

// Writes through views of views in any order: as the compiled function, which has no memory to write to.
typedef struct writing {
  uint32_t seed;
} writing;
static uint32_t draw(uint32_t *state, uint32_t n) {
  *state = *state * 1664525 + 1013904223;
  return (*state >> 8) % n;
}

static tc_tensor *view_of(uint32_t *r, tc_tensor *t) {
  int32_t rank = tc_rank_of(t);
  int64_t d = rank ? draw(r, (uint32_t)rank) : 0, one = 1;
  uint32_t kind = draw(r, 4);
  if (rank && tc_size_of(t, (int32_t)d) > 1 && kind == 0) return tc_aten_select_int(t, d, 1);
  if (rank && tc_size_of(t, (int32_t)d) > 1 && kind == 1) return tc_aten_slice_Tensor(t, d, &one, NULL, 1);
  if (rank > 1 && kind == 2) return tc_aten_transpose_int(t, 0, -1);
  return tc_aten_unsqueeze(t, 0);
}

static int32_t writes(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  enum { STEPS = 9, MOST_VIEWS = 12 };
  uint32_t r = ((const writing *)self)->seed;
  tc_tensor *views[MOST_VIEWS] = {mul(in[0], in[0])}, *total = sum(in[0]);
  int32_t n = 1;
  (void)n_in, (void)n_out;
  for (int32_t i = 0; i < STEPS; i++) {
    tc_tensor *t = views[draw(&r, (uint32_t)n)];
    tc_tensor *p = tc_aten_select_int(in[1], 0, draw(&r, 3)), *now;
    switch (draw(&r, 7)) {
    case 0: tc_aten_mul__Tensor(t, p); break;
    case 1: tc_aten_copy_(t, p, 0); break;
    case 2: tc_aten_zero_(t); break;
    case 3: tc_aten_sin_(t); break;
    case 4:
      now = tc_aten_clone(t, TC_FORMAT_CONTIGUOUS),
      total = tc_aten_add_Tensor(total, mul(sum(mul(now, now)), p), tc_scalar_int(1));
      break;
    default:
      if (n < MOST_VIEWS) views[n] = view_of(&r, t), n++;
    }
  }
  for (int32_t i = 0; i < n; i++)
    total = tc_aten_add_Tensor(total, mul(sum(tc_aten_sin(views[i])), tc_aten_select_int(in[1], 0, i % 3)),
                               tc_scalar_int(1));
  out[0] = total;
  return tc_last_code();
}

static void writes_in_any_order(void **state) {
  (void)state;
  seed_rand();
  FOR_BACKENDS(c, NULL) {
    for (int round = 0; round < 6; round++) {
      tc_scope *s = tc_scope_open();
      writing w = {(uint32_t)rand()};
      tc_tensor *in[] = {leaf(c, TC_F64, 2, (int64_t[]){3, 2}), leaf(c, TC_F64, 1, (int64_t[]){3})}, *out[3], *y, *g[2];
      tc_compile_options o = {.struct_size = sizeof o, .n_inputs = 2, .n_outputs = 1};
      tc_function *f;
      ok(tc_value_and_grad(c, writes, &w, &o, 2, (int32_t[]){0, 1}, &f));
      ok(tc_call(f, in, out));
      ok(writes(&w, in, 2, &y, 1));
      near(at(y, 0), at(out[0], 0));
      ok(tc_grad(1, &y, NULL, 2, in, 0, g));
      for (int k = 0; k < 2; k++) {
        const tc_tensor *want = tc_aten_contiguous(out[1 + k], TC_FORMAT_CONTIGUOUS);
        for (int64_t i = 0; i < tc_numel_of(in[k]); i++) near(g[k] ? at(g[k], i) : 0, at(want, i));
      }
      tc_function_destroy(f);
      tc_scope_close(s);
    }
  }
}

static int32_t twice(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)n_in, (void)n_out;
  ++*(int *)self;
  tc_argument args[] = {{.kind = TC_ARGUMENT_TENSOR, .v.tensor = in[0]}, tc_scalar_real(0.5), tc_scalar_bool(1)};
  tc_tensor *dropped[2];
  tc_call_op(NULL, "aten::native_dropout", 3, args, 2, dropped, NULL);
  out[0] = mul(tc_aten_tanh(dropped[0]), in[1]);
  return tc_last_code();
}

static void regions(void **state) {
  (void)state;
  seed_rand();
  FOR_BACKENDS(c, NULL) {
    tc_scope *s = tc_scope_open();
    tc_tensor *in[] = {leaf(c, TC_F64, 1, (int64_t[]){50}), leaf(c, TC_F64, 1, (int64_t[]){50})}, *y, *g[2][2];
    for (int way = 0; way < 2; way++) {
      int calls = 0;
      tc_manual_seed(c, 7);
      if (way) ok(tc_checkpoint(c, twice, &calls, 2, in, 1, &y));
      else ok(twice(&calls, in, 2, &y, 1));
      tc_tensor *l = sum(mul(y, y));
      ok(tc_grad(1, &l, NULL, 2, in, 0, g[way]));
      assert_int_equal(calls, 1 + way);
    }
    for (int k = 0; k < 2; k++)
      for (int i = 0; i < 50; i++) near(at(g[1][k], i), at(g[0][k], i));
    tc_scope_close(s);
  }
}

// Straight through: rounding, whose derivative is said to be 2.
static int32_t rounding(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)self, (void)n_in, (void)n_out;
  out[0] = tc_aten_round(in[0]);
  return tc_last_code();
}
static int32_t straight(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  (void)self, (void)n_out;
  assert_int_equal(n_in, 3); // the input, the output, its cotangent
  out[0] = tc_aten_mul_Scalar(in[2], tc_scalar_int(2));
  return tc_last_code();
}

static void derivatives_of_the_user(void **state) {
  (void)state;
  seed_rand();
  FOR_BACKENDS(c, NULL) {
    tc_scope *s = tc_scope_open();
    tc_tensor *x = leaf(c, TC_F64, 1, (int64_t[]){3}), *y, *g;
    ok(tc_with_derivative(c, rounding, straight, NULL, 1, &x, 1, &y));
    tc_tensor *l = sum(mul(y, x));
    ok(tc_grad(1, &l, NULL, 1, &x, 0, &g));
    for (int i = 0; i < 3; i++) near(at(g, i), 2 * at(x, i) + round(at(x, i)));
    tc_scope_close(s);
  }
}

static void what_is_off_or_wrong(void **state) {
  (void)state;
  seed_rand();
  FOR_BACKENDS(c, NULL) {
    tc_scope *s = tc_scope_open();
    tc_tensor *x = leaf(c, TC_F64, 1, (int64_t[]){3}), *other = leaf(c, TC_F64, 1, (int64_t[]){3}), *g = NULL;
    int32_t before = tc_set_grad_enabled(0);
    tc_tensor *y = sum(mul(x, x));
    tc_set_grad_enabled(before);
    assert_false(tc_requires_grad(y));
    refused(tc_grad(1, &y, NULL, 1, &x, 0, &g), "no gradient flows from output 0");
    y = sum(mul(x, tc_aten_detach(x)));
    ok(tc_grad(1, &y, NULL, 1, &x, 0, &g));
    for (int i = 0; i < 3; i++) near(at(g, i), at(x, i));
    ok(tc_grad(1, &y, NULL, 1, &other, 0, &g));
    assert_null(g);
    // A result that depends on x, and through which nothing flows.
    tc_argument like[] = {{.kind = TC_ARGUMENT_TENSOR, .v.tensor = x}, tc_scalar_real(3)};
    tc_tensor *threes;
    ok(tc_call_op(c, "aten::full_like", 2, like, 1, &threes, NULL));
    y = sum(mul(x, threes));
    ok(tc_grad(1, &y, NULL, 1, &x, 0, &g));
    for (int i = 0; i < 3; i++) near(at(g, i), 3);
    y = mul(x, x);
    refused(tc_grad(1, &y, NULL, 1, &x, 0, &g), "needs a cotangent");
    ok(tc_grad(1, &y, &other, 1, &x, 0, &g));
    for (int i = 0; i < 3; i++) near(at(g, i), 2 * at(x, i) * at(other, i));
    tc_tensor *integers = tc_new_tensor(c, TC_I64, 0, NULL);
    refused(tc_set_requires_grad(integers, 1), "has no gradient");
    tc_scope_close(s);
  }
}

// An offset counts from where the storage begins, where the tensor need not.
static void views_by_offset(void **state) {
  (void)state;
  FOR_BACKENDS(c, NULL) {
    tc_scope *s = tc_scope_open();
    tc_tensor *base = tc_new_tensor(c, TC_F64, 1, (int64_t[]){10}), *g;
    for (int32_t i = 0; i < 10; i++) ((double *)tc_data_of(base))[i] = i;
    tc_tensor *x = tc_aten_slice_Tensor(base, 0, (int64_t[]){4}, (int64_t[]){9}, 1); // 4 … 8
    ok(tc_set_requires_grad(x, 1));
    tc_tensor *v = tc_aten_as_strided(x, (int64_t[]){2, 2}, 2, (int64_t[]){1, 1}, 2, (int64_t[]){5}); // 5 6, 6 7
    tc_tensor *l = tc_aten_sum(tc_aten_mul_Tensor(v, v), 0);
    near(at(l, 0), 25 + 36 + 36 + 49);
    ok(tc_grad(1, &l, NULL, 1, &x, 0, &g));
    for (int32_t i = 0; i < 5; i++) near(at(g, i), (double[]){0, 10, 24, 14, 0}[i]);
    tc_tensor *earlier = tc_aten_as_strided(x, (int64_t[]){2}, 1, (int64_t[]){1}, 1, (int64_t[]){3}); // 3 4
    l = tc_aten_sum(earlier, 0);
    ok(tc_grad(1, &l, NULL, 1, &x, 0, &g));
    for (int32_t i = 0; i < 5; i++) near(at(g, i), i == 0);
    tc_scope_close(s);
  }
}

// A long chain is released without a deep stack, and shapes that change compile nothing again.
static void long_chains(void **state) {
  (void)state;
  seed_rand();
  tc_context *c = open_backend("cpu", NULL);
  tc_scope *s = tc_scope_open();
  enum { LENGTH = 20000 };
  tc_tensor *x = leaf(c, TC_F64, 1, (int64_t[]){2}), *y = tc_retain(x), *g;
  for (int i = 0; i < LENGTH; i++) {
    tc_scope *inner = tc_scope_open();
    tc_tensor *next = tc_retain(tc_aten_mul_Scalar(y, tc_scalar_real(i % 2 ? 2 : 0.5)));
    tc_release(y);
    y = next;
    tc_scope_close(inner);
  }
  tc_tensor *l = sum(y);
  ok(tc_grad(1, &l, NULL, 1, &x, 0, &g));
  near(at(g, 0), 1);
  tc_release(y);
  tc_scope_close(s);
  tc_close(c);
}

// Training goes on from a file as if it had not stopped, bit for bit; parameters on the tape, Adam's state with them.
enum { STEPS = 6, HALF = 3, N_STATE = 1 + 2 * N_IN };
static void descend(tc_tensor *const *in, tc_optimizer *adam) {
  tc_scope *s = tc_scope_open();
  tc_tensor *y, *g[N_IN];
  ok(block(NULL, in, N_IN, &y, 1));
  ok(tc_grad(1, &y, NULL, N_IN, in, 0, g));
  ok(tc_optimizer_step(adam, g));
  tc_scope_close(s);
}

static void resumes(void **state) {
  (void)state;
  seed_rand();
  char path[64]; // in the folder that the test runs in
  snprintf(path, sizeof path, "checkpoint-%d.safetensors", (int)getpid());
  FOR_BACKENDS(c, NULL) {
    tc_scope *s = tc_scope_open();
    static const char *const names[] = {"x",      "w",      "gamma",  "beta",   "adam.0", "adam.1", "adam.2",
                                        "adam.3", "adam.4", "adam.5", "adam.6", "adam.7", "adam.8"};
    tc_tensor *all[2][N_IN + N_STATE];
    tc_optimizer_options q = {.struct_size = sizeof q, .kind = TC_ADAM, .rate = 0.01};
    for (int way = 0; way < 2; way++) {
      tc_optimizer *adam;
      int32_t n;
      block_inputs(c, all[way]);
      ok(tc_optimizer_create(c, &q, N_IN, all[way], &adam));
      ok(tc_optimizer_state(adam, N_STATE, all[way] + N_IN, &n));
      assert_int_equal(n, N_STATE);
      if (way) ok(tc_load_tensors(path, N_IN + N_STATE, names, all[way]));
      for (int i = way ? HALF : 0; i < STEPS; i++) {
        if (i == HALF && !way) ok(tc_save_tensors(path, N_IN + N_STATE, names, all[way]));
        descend(all[way], adam);
      }
      tc_optimizer_destroy(adam);
    }
    for (int k = 0; k < N_IN + N_STATE; k++) {
      size_t bytes = (size_t)tc_numel_of(all[0][k]) * (tc_dtype_of(all[0][k]) == TC_F64 ? 8 : 4);
      assert_memory_equal(tc_data_of(all[0][k]), tc_data_of(all[1][k]), bytes);
    }
    static const char *const other[] = {"x", "nowhere"};
    double before = at(all[0][0], 0);
    tc_tensor *swapped[] = {all[0][1], all[0][0]};
    refused(tc_load_tensors(path, 2, other, all[0]), "no tensor 'nowhere'");
    refused(tc_load_tensors(path, 2, names, swapped), "has another dtype or other sizes");
    assert_true(at(all[0][0], 0) == before);
    tc_scope_close(s);
  }
  unlink(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(is_what_is_compiled),
                                     cmocka_unit_test(complex_is_what_is_compiled),
                                     cmocka_unit_test(orders),
                                     cmocka_unit_test(complex_numbers),
                                     cmocka_unit_test(in_place),
                                     cmocka_unit_test(in_place_through_views),
                                     cmocka_unit_test(writes_in_any_order),
                                     cmocka_unit_test(regions),
                                     cmocka_unit_test(derivatives_of_the_user),
                                     cmocka_unit_test(what_is_off_or_wrong),
                                     cmocka_unit_test(views_by_offset),
                                     cmocka_unit_test(long_chains),
                                     cmocka_unit_test(resumes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
