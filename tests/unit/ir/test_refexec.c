// The reference engine: values, rounding, strides, views that share storage, in-place ops, symbols, requirements.
#include "core/ir/refexec.h"
#include "tests/unit/ir/test_ops.h"

typedef struct fixture {
  tc_module *m;
  tc_graph *g;
  tc_tensor in[4], out[4];
  int32_t n_in, n_out;
} fixture;

static tc_tensor tensor(tc_dtype d, int32_t rank, const int64_t *sizes, const double *values) {
  tc_tensor t64, t;
  int64_t n = 1;
  for (int32_t i = 0; i < rank; i++) n *= sizes[i];
  assert_ok(tc_tensor_create(tc_system_allocator(), tc_dtype_is_complex(d) ? TC_C128 : TC_F64, rank, sizes, &t64));
  memcpy(tc_tensor_data(&t64), values, (size_t)n * (tc_dtype_is_complex(d) ? 16 : 8));
  assert_ok(tc_tensor_create(tc_system_allocator(), d, rank, sizes, &t));
  assert_ok(tc_tensor_copy(&t64, &t));
  tc_tensor_unref(&t64);
  return t;
}

static tc_status run(fixture *f, tc_arena *arena, const char *text, const tc_ref_options *o) {
  TC_TRY(test_module(arena, &f->m));
  TC_TRY(test_parse(f->m, text, &f->g));
  f->n_out = f->g->outputs.count;
  return tc_ref_run(f->g, tc_system_allocator(), f->n_in, f->in, f->out, o);
}

static void done(fixture *f) {
  for (int32_t i = 0; i < 4; i++) tc_tensor_unref(&f->in[i]), tc_tensor_unref(&f->out[i]);
  memset(f, 0, sizeof *f);
}

// Values in row-major order, whatever the strides.
static void expect(const tc_tensor *t, tc_dtype d, int32_t n, const double *values) {
  assert_int_equal(t->dtype, d);
  assert_int_equal(tc_tensor_numel(t), n);
  int64_t index[TC_MAX_RANK];
  for (int32_t i = 0; i < n; i++) {
    int64_t rest = i;
    for (int32_t k = t->rank - 1; k >= 0; k--) index[k] = rest % t->sizes[k], rest /= t->sizes[k];
    double re, im;
    tc_tensor_get(t, index, &re, &im);
    if (re != values[i] && !(re != re && values[i] != values[i]))
      fail_msg("element %d is %.17g, expected %.17g", (int)i, re, values[i]);
  }
}

#define D(...) ((const double[]){__VA_ARGS__})
#define S(...) ((const int64_t[]){__VA_ARGS__})

TC_TEST(values_and_layouts) {
  fixture f = {.n_in = 2};
  f.in[0] = tensor(TC_F32, 2, S(2, 3), D(1, -2, 3, 4, 5, -6));
  f.in[1] = tensor(TC_F32, 1, S(3), D(10, 20, 30));
  TC_TRY(run(&f, arena,
             "graph @f [s0 in [1, 9] hint 2] (%x : f32[s0, 3] = user \"x\", %b : f32[3] = user \"b\") {\n"
             "%t = aten::permute(%x, [1, 0])\n%y = aten::exp(%t)\n%r = aten::relu(%t)\n%a = aten::add.Tensor(%x, %b)\n"
             "%w = aten::linear(%x, %x)\n return user %r, user %a, user %w, user s0 }",
             NULL));
  expect(&f.out[0], TC_F32, 6, D(1, 4, 0, 5, 3, 0));
  assert_int_equal(f.out[0].strides[0], 1); // as declared: the layout of %t
  assert_int_equal(f.out[0].strides[1], 3);
  expect(&f.out[1], TC_F32, 6, D(11, 18, 33, 14, 25, 24));
  expect(&f.out[2], TC_F32, 4, D(14, -24, -24, 77));
  expect(&f.out[3], TC_I64, 1, D(2));
  done(&f);
  return TC_OK;
}

TC_TEST(results_are_rounded_unless_wide) {
  fixture f = {.n_in = 1};
  const char *text = "graph @f (%x : f16[2] = user \"x\") {\n%y = aten::mul.Scalar(%x, 0.1)\n%z = aten::mul.Scalar(%y, "
                     "3.0)\nreturn user %z }";
  f.in[0] = tensor(TC_F16, 1, S(2), D(1, 3));
  TC_TRY(run(&f, arena, text, NULL));
  double y0 = tc_f16_to_f32(tc_f64_to_f16(0.1)), y1 = tc_f16_to_f32(tc_f64_to_f16(3 * 0.1));
  expect(&f.out[0], TC_F16, 2, D(tc_f16_to_f32(tc_f64_to_f16(y0 * 3)), tc_f16_to_f32(tc_f64_to_f16(y1 * 3))));
  tc_tensor_unref(&f.out[0]);
  TC_TRY(run(&f, arena, text, &(tc_ref_options){.wide = true}));
  expect(&f.out[0], TC_F64, 2, D(0.1 * 3, 3 * 0.1 * 3));
  done(&f);
  return TC_OK;
}

TC_TEST(integers_complex_and_mixed) {
  fixture f = {.n_in = 2};
  f.in[0] = tensor(TC_I32, 1, S(2), D(2147483647, -3));
  f.in[1] = tensor(TC_C64, 1, S(2), D(1, 2, 3, -4));
  TC_TRY(run(&f, arena,
             "graph @f (%i : i32[2] = user \"i\", %c : c64[2] = user \"c\") {\n"
             "%a : i32[2] = aten::add.Tensor(%i, 1)\n%d : f32[2] = aten::div.Tensor(%i, 2)\n%j : c64[2] conj = "
             "aten::_conj(%c)\n%m : c64[2] = aten::mul.Tensor(%c, %j)\n"
             "%l : bool[2] = aten::lt.Tensor(%i, 0)\n return user %a, user %d, user %m, user %l }",
             NULL));
  expect(&f.out[0], TC_I32, 2, D(-2147483648.0, -2)); // wraps
  expect(&f.out[1], TC_F32, 2, D(1073741824, -1.5));
  expect(&f.out[2], TC_C64, 2, D(5, 25)); // z conj(z)
  expect(&f.out[3], TC_BOOL, 2, D(0, 1));
  done(&f);
  return TC_OK;
}

TC_TEST(views_share_and_inplace_ops_write_through) {
  fixture f = {.n_in = 1};
  f.in[0] = tensor(TC_F32, 2, S(2, 3), D(1, 2, 3, 4, 5, 6));
  TC_TRY(run(&f, arena,
             "graph @f (%x : f32[2, 3] = user \"x\") {\n%c = aten::clone(%x)\n%t = aten::permute(%c, [1, 0])\n%s = "
             "aten::select.int(%t, 0, 1)\n"
             "%w = aten::mul_.Tensor(%s, 10.0)\n%y = aten::add.Tensor(%c, 0.0)\n%z = aten::copy_(%t, %w)\nreturn user "
             "%y, user %c, user %w }",
             NULL));
  expect(&f.out[0], TC_F32, 6, D(1, 20, 3, 4, 50, 6));
  expect(&f.out[1], TC_F32, 6, D(20, 20, 20, 50, 50, 50)); // copy_ of the row itself, over all rows of the view
  done(&f);
  return TC_OK;
}

// Ops with arguments for their results write these.
TC_TEST(results_are_written_to_arguments) {
  fixture f = {.n_in = 2};
  f.in[0] = tensor(TC_F32, 1, S(2), D(1, 2));
  f.in[1] = tensor(TC_F64, 1, S(4), D(5, 6, 7, 8));
  TC_TRY(run(&f, arena,
             "graph @f (%x : f32[2] = user \"x\", %all : f64[4] = user \"all\") {\n%o = aten::slice.Tensor(%all, 0, 0, "
             "4, 2)\n%y = aten::neg.out(%x, %o)\n%n = aten::mul.Tensor(%all, 2)\nreturn user %n, user %y }",
             NULL));
  expect(&f.out[0], TC_F64, 4, D(-2, 12, -4, 16));
  expect(&f.out[1], TC_F64, 2, D(-1, -2));
  done(&f);
  return TC_OK;
}

// An input with the lazy bit, whether the tensor that is given has it or not: its square and that of a view of it.
TC_TEST(views_of_conjugated_inputs) {
  for (int32_t lazy = 0; lazy < 2; lazy++) {
    fixture f = {.n_in = 1};
    f.in[0] = tensor(TC_C64, 1, S(2), lazy ? D(1, 2, 3, -4) : D(1, -2, 3, 4));
    f.in[0].conj = lazy;
    TC_TRY(run(&f, arena,
               "graph @f (%c : c64[2] conj = user \"c\") {\n%s = aten::select.int(%c, 0, 1)\n"
               "%v : c64[] = aten::mul.Tensor(%s, %s)\n%w : c64[2] = aten::mul.Tensor(%c, %c)\n"
               "%j = aten::_conj(%s)\n%x : c64[] = aten::mul.Tensor(%s, %j)\nreturn user %v, user %w, user %x }",
               NULL));
    double re, im;
    expect(&f.out[0], TC_C64, 1, D(-7));
    tc_tensor_get(&f.out[0], NULL, &re, &im);
    assert_true(im == 24); // (3 + 4i)²
    expect(&f.out[1], TC_C64, 2, D(-3, -7));
    tc_tensor_get(&f.out[1], S(0), &re, &im);
    assert_true(im == -4); // (1 - 2i)²
    expect(&f.out[2], TC_C64, 1, D(25));
    done(&f);
  }
  return TC_OK;
}

TC_TEST(components_of_complex_views) {
  fixture f = {.n_in = 1};
  f.in[0] = tensor(TC_C64, 1, S(3), D(1, 2, 3, 4, 5, 6));
  TC_TRY(run(&f, arena,
             "graph @f (%c : c64[3] = user \"c\") {\n%r = aten::view_as_real(%c)\n%i = aten::select.int(%r, 1, 1)\n"
             "%l = aten::select.int(%i, 0, 2)\n%b = aten::view_as_complex(%r)\nreturn user %i, user %l, user %b }",
             NULL));
  expect(&f.out[0], TC_F32, 3, D(2, 4, 6));
  expect(&f.out[1], TC_F32, 1, D(6));
  expect(&f.out[2], TC_C64, 3, D(1, 3, 5));
  done(&f);
  return TC_OK;
}

TC_TEST(data_dependent_sizes) {
  fixture f = {.n_in = 1};
  f.in[0] = tensor(TC_F32, 1, S(4), D(0, 2, 0, 3));
  TC_TRY(run(&f, arena,
             "graph @f [u0 unbacked in [0, inf]] (%x : f32[4] = user \"x\") {\n%n : i64[u0, 1] = aten::nonzero(%x)\n%o "
             ": f32[u0, 2] = aten::full([u0, 2], 1.5)\nreturn user %n, user %o, user u0 }",
             NULL));
  expect(&f.out[0], TC_I64, 2, D(1, 3));
  expect(&f.out[1], TC_F32, 4, D(1.5, 1.5, 1.5, 1.5));
  expect(&f.out[2], TC_I64, 1, D(2));
  done(&f);
  return TC_OK;
}

// Cotangents of results whose sizes come from data.
TC_TEST(inputs_whose_sizes_come_from_data) {
#define HEAD "graph @f [u0 unbacked in [0, inf]] (%x : f32[4] = user \"x\", %c : f32[Max(u0 - 1, 0)] = user \"c\") {\n"
  const char *text = HEAD "%n : i64[u0, 1] = aten::nonzero(%x)\n%y = aten::neg(%c)\nreturn user %n, user %y }";
  fixture f = {.n_in = 2};
  f.in[0] = tensor(TC_F32, 1, S(4), D(0, 2, 0, 3));
  f.in[1] = tensor(TC_F32, 1, S(1), D(10));
  TC_TRY(run(&f, arena, text, NULL));
  expect(&f.out[0], TC_I64, 2, D(1, 3));
  expect(&f.out[1], TC_F32, 1, D(-10));
  for (int32_t i = 0; i < 2; i++) tc_tensor_unref(&f.out[i]);
  tc_tensor_unref(&f.in[1]);
  f.in[1] = tensor(TC_F32, 1, S(2), D(10, 11));
  assert_error(run(&f, arena, text, NULL), TC_STATUS_INVALID_ARGUMENT, "size mismatch at index 0");
  assert_error(
      run(&f, arena, HEAD "%y = aten::neg(%c)\n%n : i64[u0, 1] = aten::nonzero(%x)\nreturn user %n, user %y }", NULL),
      TC_STATUS_UNIMPLEMENTED, "the input 'c' is read before the data that tells its sizes");
  assert_error(run(&f, arena, HEAD "%y = aten::neg(%x)\nreturn user %y }", NULL), TC_STATUS_INVALID_ARGUMENT,
               "the sizes do not determine dimension 0");
  done(&f);
  return TC_OK;
#undef HEAD
}

TC_TEST(strides_and_offsets_bind_symbols) {
  fixture f = {.n_in = 1};
  f.in[0] = tensor(TC_F32, 2, S(2, 4), D(0, 1, 2, 3, 4, 5, 6, 7));
  f.in[0].sizes[1] = 2, f.in[0].offset = 1;
  TC_TRY(run(&f, arena,
             "graph @f [s1 in [1, inf], s2 in [0, inf]] (%x : f32[2, 2]{s1, 1}+s2 = user \"x\") {\n"
             "%y = aten::mul.Tensor(%x, s2)\nreturn user %y, user s1, user s2 }",
             NULL));
  expect(&f.out[0], TC_F32, 4, D(1, 2, 5, 6));
  expect(&f.out[1], TC_I64, 1, D(4));
  expect(&f.out[2], TC_I64, 1, D(1));
  done(&f);
  return TC_OK;
}

TC_TEST(mutations_are_written_back) {
  fixture f = {.n_in = 2};
  f.in[0] = tensor(TC_F32, 1, S(2), D(1, 2));
  f.in[1] = tensor(TC_I64, 0, NULL, D(7));
  TC_TRY(run(&f, arena,
             "graph @f (%x : f32[2] = user \"x\", %n : i64[] = buffer \"count\" persistent) {\n%a = "
             "aten::add.Tensor(%n, 1)\n%y = aten::neg(%x)\nreturn buffer \"count\" %a, input \"x\" %y, user %x }",
             &(tc_ref_options){.write_back = true}));
  expect(&f.in[1], TC_I64, 1, D(8));
  expect(&f.in[0], TC_F32, 2, D(-1, -2));
  expect(&f.out[2], TC_F32, 2, D(1, 2));
  done(&f);
  return TC_OK;
}

// What is compiled relies on the range, as on the sizes of inputs.
TC_TEST(sizes_from_data_keep_to_their_range) {
  fixture f = {.n_in = 1};
  f.in[0] = tensor(TC_F32, 1, S(4), D(1, 0, 2, 3));
  assert_error(run(&f, arena,
                   "graph @f [u0 unbacked in [0, 2]] (%x : f32[4] = user \"x\") {\n%n : i64[u0, 1] = "
                   "aten::nonzero(%x)\nreturn user %n }",
                   NULL),
               TC_STATUS_INVALID_ARGUMENT, "u0 = 3 is outside of [0, 2]");
  done(&f);
  return TC_OK;
}

TC_TEST(wrong_inputs_are_refused) {
  fixture f = {.n_in = 2};
  const char *text = "graph @f [s0 in [2, 4] hint 2, require s0 % 2 == 0] (%x : f32[s0, 3] = user \"x\", %y : "
                     "f32[2*s0] = user \"y\") {\n%z = aten::relu(%x)\nreturn user %z }";
#define TRY_WITH(d, a, b, c, part)                                                          \
  f.in[0] = tensor(d, 2, S(a, b), D(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)); \
  f.in[1] = tensor(TC_F32, 1, S(c), D(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));                 \
  assert_error(run(&f, arena, text, NULL), TC_STATUS_INVALID_ARGUMENT, part);               \
  for (int32_t i = 0; i < 2; i++) tc_tensor_unref(&f.in[i])
  TRY_WITH(TC_F64, 2, 3, 4, "the input 'x' is f64 of rank 2, f32[s0, 3] is wanted");
  TRY_WITH(TC_F32, 2, 4, 4, "size mismatch at index 1. expected 3 = 3, actual 4");
  TRY_WITH(TC_F32, 2, 3, 5, "size mismatch at index 0. expected 2*s0 = 4, actual 5");
  TRY_WITH(TC_F32, 6, 3, 12, "s0 = 6 is outside of [2, 4]");
  TRY_WITH(TC_F32, 3, 3, 6, "requirement");
#undef TRY_WITH
  f.n_in = 1;
  f.in[0] = tensor(TC_F32, 2, S(2, 3), D(0, 0, 0, 0, 0, 0));
  assert_error(run(&f, arena, text, NULL), TC_STATUS_INVALID_ARGUMENT, "more inputs");
  f.n_in = 2;
  assert_error(run(&f, arena, text, NULL), TC_STATUS_INVALID_ARGUMENT, "the input 'y' is missing");
  assert_error(run(&f, arena,
                   "graph @f (%x : f32[2, 3] = user \"x\", %y : f32[1] = buffer \"b\") {\n%z = aten::slice_scatter(%x, "
                   "%x) @ \"m.py:3\"\nreturn user %z }",
                   NULL),
               TC_STATUS_INVALID_ARGUMENT, "the input 'b' is missing");
  f.n_in = 1;
  assert_error(
      run(&f, arena,
          "graph @f (%x : f32[2, 3] = user \"x\") {\n%z, %k = aten::max.dim(%x, 0) @ \"m.py:3\"\nreturn user %z }",
          NULL),
      TC_STATUS_UNIMPLEMENTED, "at m.py:3");
  done(&f);
  return TC_OK;
}

// No allocation failure may leak or crash.
TC_TEST(allocation_failures) {
  fixture f = {.n_in = 1};
  f.in[0] = tensor(TC_F32, 2, S(2, 3), D(1, 2, 3, 4, 5, 6));
  TC_TRY(run(&f, arena,
             "graph @f (%x : f32[2, 3] = user \"x\") {\n%w = aten::linear(%x, %x)\n%a = aten::abs(%w)\nreturn user %a, "
             "user %w }",
             NULL));
  for (int32_t i = 0; i < 2; i++) tc_tensor_unref(&f.out[i]);
  for (int64_t n = 1;; n++) {
    tc_fault_allocator fault;
    tc_fault_allocator_init(&fault, tc_system_allocator());
    fault.fail_at = n;
    tc_status s = tc_ref_run(f.g, &fault.iface, 1, f.in, f.out, NULL);
    if (!s) {
      for (int32_t i = 0; i < 2; i++) tc_tensor_unref(&f.out[i]);
    } else {
      assert_int_equal(tc_status_code(s), TC_STATUS_OUT_OF_MEMORY);
    }
    assert_int_equal(fault.live, 0);
    if (!s && fault.count < n) break;
    tc_status_free(s);
  }
  done(&f);
  return TC_OK;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(values_and_layouts),
                                     cmocka_unit_test(results_are_rounded_unless_wide),
                                     cmocka_unit_test(integers_complex_and_mixed),
                                     cmocka_unit_test(views_share_and_inplace_ops_write_through),
                                     cmocka_unit_test(results_are_written_to_arguments),
                                     cmocka_unit_test(views_of_conjugated_inputs),
                                     cmocka_unit_test(components_of_complex_views),
                                     cmocka_unit_test(inputs_whose_sizes_come_from_data),
                                     cmocka_unit_test(strides_and_offsets_bind_symbols),
                                     cmocka_unit_test(data_dependent_sizes),
                                     cmocka_unit_test(mutations_are_written_back),
                                     cmocka_unit_test(sizes_from_data_keep_to_their_range),
                                     cmocka_unit_test(wrong_inputs_are_refused),
                                     cmocka_unit_test(allocation_failures)};
  return TC_RUN(tests);
}
