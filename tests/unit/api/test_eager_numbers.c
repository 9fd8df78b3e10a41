// Numbers among the arguments of single ops are operands: another value compiles nothing, and what comes out is what
// the op gives with the value as a constant (captured, on the references).
#include <math.h>

#include "core/runtime/eager.h"
#include "tests/unit/api/backends.h"

enum { N = 12, MAX_ARGS = 5 };

// Arguments by letter: t, u tensors of the case's dtype, m a mask, n a number.
typedef struct number_case {
  const char *op, *args;
  bool in_place, fills;
} number_case;
static const number_case cases[] = {
    {"aten::add.Tensor", "tun", false, false},
    {"aten::add.Scalar", "tnn", false, false},
    {"aten::rsub.Scalar", "tn", false, false},
    {"aten::mul.Scalar", "tn", false, false},
    {"aten::clamp", "tnn", false, false},
    {"aten::sub.Scalar", "tnn", false, false},
    {"aten::leaky_relu", "tn", false, false},
    {"aten::ge.Scalar", "tn", false, false},
    {"aten::where.ScalarOther", "mtn", false, false},
    {"aten::where.ScalarSelf", "mnt", false, false},
    {"aten::masked_fill.Scalar", "tmn", false, false},
    {"aten::addcmul", "ttun", false, false},
    {"aten::full_like", "tn", false, true},
    {"aten::eq.Scalar", "tn", false, false},
    {"aten::add_.Tensor", "tun", true, false},
    {"aten::mul_.Scalar", "tn", true, false},
    {"aten::fill_.Scalar", "tn", true, true},
    {"aten::masked_fill_.Scalar", "tmn", true, false},
};
static const tc_dtype dtypes[] = {TC_F32, TC_F64, TC_BF16, TC_I64, TC_U8, TC_BOOL, TC_C64};
enum { N_CASES = sizeof cases / sizeof *cases, N_DTYPES = sizeof dtypes / sizeof *dtypes };

// Small numbers, so that everything is exact in every dtype.
static tc_tensor *operand(tc_context *c, tc_dtype d, unsigned seed) {
  float data[N];
  for (int i = 0; i < N; i++) data[i] = (float)((seed >> i & 7u) + (unsigned)i % 3u);
  tc_tensor *x = tc_tensor_from(c, TC_F32, 1, (int64_t[]){N}, data);
  tc_tensor *y = x ? tc_aten_to_dtype(x, d, 0, 1, -1) : NULL;
  if (!y) fail_msg("%s", tc_last_error());
  return y;
}

static bool is_float(tc_dtype d) { return d == TC_F32 || d == TC_F64 || d == TC_BF16 || d == TC_C64; }

// The smallest and the largest integers are never operands.
static tc_scalar number(tc_dtype d, bool real) {
  static const int64_t whole[] = {0, 1, 2, 7, 5, -1, -3};
  static const double reals[] = {0, 1, 0.5, 3, 2.25, -0.0, -2.5, INFINITY, NAN};
  bool is_signed = d != TC_U8 && d != TC_BOOL;
  if (!real) return tc_scalar_int(whole[rand() % (is_signed ? 7 : 5)]);
  return tc_scalar_real(reals[rand() % (is_float(d) && d != TC_C64 ? 9 : is_signed ? 7 : 5)]);
}

typedef struct number_call {
  const number_case *c;
  tc_scalar numbers[2];
} number_call;

static int32_t apply(void *self, tc_tensor *const *in, int32_t n_in, tc_tensor **out, int32_t n_out) {
  const number_call *call = self;
  tc_argument args[MAX_ARGS];
  int32_t n = 0, k = 0;
  (void)n_in;
  for (const char *a = call->c->args; *a; a++) {
    args[n] = tc_arg_nothing();
    if (*a == 'n') args[n] = call->numbers[k++];
    else args[n].kind = TC_ARGUMENT_TENSOR, args[n].v.tensor = in[*a == 't' ? 0 : *a == 'u' ? 1 : 2];
    n++;
  }
  return tc_call_op(NULL, call->c->op, n, args, n_out, out, NULL);
}

// Bit for bit, but for NaN, of which there are many.
static void same(const number_call *call, tc_tensor *have, tc_tensor *want) {
  assert_int_equal(tc_dtype_of(have), tc_dtype_of(want));
  tc_tensor *x = tc_aten_view_as_real(tc_aten_to_dtype(have, TC_C128, 0, 1, -1));
  tc_tensor *y = tc_aten_view_as_real(tc_aten_to_dtype(want, TC_C128, 0, 1, -1));
  if (!x || !y) fail_msg("%s", tc_last_error());
  const double *p = tc_data_of(x), *q = tc_data_of(y);
  for (int64_t i = 0; i < tc_numel_of(y); i++)
    if (p[i] != q[i] && !(isnan(p[i]) && isnan(q[i])))
      fail_msg("%s: element %d is %g, not %g", call->c->op, (int)i, p[i], q[i]);
}

static void inputs_of(tc_context *c, tc_dtype d, unsigned seed, tc_tensor **in) {
  in[0] = operand(c, d, seed), in[1] = operand(c, d, seed >> 7), in[2] = operand(c, TC_BOOL, seed >> 3);
}

static int64_t compiles(tc_context *c) { return tc_eager_stats_of(c->eager).compiles; }

// Two values, both of the same kind. False where PyTorch's rules do not let
// the op have them.
static bool try_values(tc_context *c, tc_context *constant, const number_case *n, tc_dtype d, bool real) {
  tc_compile_options o = {.struct_size = sizeof o, .n_inputs = 3, .n_outputs = 1};
  for (int round = 0; round < 2; round++) {
    number_call call = {n, {number(d, real), number(d, real)}};
    unsigned seed = (unsigned)rand();
    tc_tensor *in[3], *given[3], *want, *have = NULL;
    tc_function *f;
    inputs_of(constant, d, seed, in);
    inputs_of(c, d, seed, given);
    if (tc_compile(constant, apply, &call, &o, &f) != TC_STATUS_OK) fail_msg("%s", tc_last_error());
    bool taken = tc_call(f, in, &want) == TC_STATUS_OK;
    tc_function_destroy(f);
    tc_clear_error();
    int64_t before = compiles(c);
    bool ran = apply(&call, given, 3, &have, 1) == TC_STATUS_OK;
    if (ran != taken) fail_msg("%s: %s, %s", n->op, ran ? "taken" : "refused", tc_last_error());
    tc_clear_error();
    if (!taken) return false;
    if (round && compiles(c) != before) fail_msg("%s is compiled again for another value", n->op);
    same(&call, have, want);
    if (n->in_place) assert_ptr_equal(tc_data_of(have), tc_data_of(given[0]));
  }
  return true;
}

static void values_do_not_compile_again(void **state) {
  (void)state;
  seed_rand();
  tc_context *constant = open_backend("ref", NULL);
  FOR_BACKENDS(c, "verify=true") {
    int taken = 0;
    for (int i = 0; i < N_CASES; i++) {
      for (int k = 0; k < 4; k++) { // a selection; all of them take too long
        tc_scope *s = tc_scope_open();
        tc_dtype d = dtypes[(i + rand()) % N_DTYPES];
        bool real = k & 1 && (is_float(d) || cases[i].fills); // most ops on integers take no reals
        taken += try_values(c, constant, &cases[i], d, real);
        tc_scope_close(s);
      }
    }
    assert_true(taken > N_CASES);
  }
  tc_close(constant);
}

// What decides over more than arithmetic is a constant, and so are integers that symbols cannot be.
static void other_numbers_are_part_of_the_key(void **state) {
  (void)state;
  FOR_BACKENDS(c, "verify=true") {
    tc_scope *s = tc_scope_open();
    tc_tensor *x = operand(c, TC_I64, 1234);
    for (int64_t k = 1; k < 4; k++) assert_non_null(tc_aten_pow_Tensor_Scalar(x, tc_scalar_int(k)));
    assert_int_equal(((int64_t *)tc_data_of(tc_aten_add_Scalar(x, tc_scalar_int(INT64_MIN), tc_scalar_int(1))))[0],
                     (int64_t)((uint64_t)((int64_t *)tc_data_of(x))[0] + (uint64_t)INT64_MIN));
    assert_int_equal(((int64_t *)tc_data_of(tc_aten_mul_Scalar(x, tc_scalar_int(INT64_MAX))))[0],
                     (int64_t)((uint64_t)((int64_t *)tc_data_of(x))[0] * (uint64_t)INT64_MAX));
    tc_tensor *z = tc_aten_mul_Scalar(tc_aten_to_dtype(x, TC_F64, 0, 1, -1), tc_scalar_real(-0.0));
    assert_true(signbit(((double *)tc_data_of(z))[0]));
    tc_scope_close(s);
  }
}

// A number that the dtype cannot hold wraps or is refused, as the op has it: PyTorch's answers for u8 ones.
static void numbers_beyond_the_dtype(void **state) {
  (void)state;
  FOR_BACKENDS(c, "verify=true") {
    tc_scope *s = tc_scope_open();
    tc_tensor *x = tc_tensor_from(c, TC_U8, 1, (int64_t[]){3}, (uint8_t[]){1, 1, 1});
    tc_tensor *half = tc_aten_to_dtype(x, TC_F16, 0, 1, -1), *mask = tc_aten_to_dtype(x, TC_BOOL, 0, 1, -1);
    if (!mask) fail_msg("%s", tc_last_error());
    assert_non_null(tc_aten_masked_fill_Scalar(x, mask, tc_scalar_int(2))); // is found again only by what fits
    tc_tensor *sum = tc_aten_add_Scalar(x, tc_scalar_int(300), tc_scalar_int(1)),
              *product = tc_aten_mul_Scalar(x, tc_scalar_int(300));
    assert_int_equal(((uint8_t *)tc_data_of(sum))[0], 45);
    assert_int_equal(((uint8_t *)tc_data_of(product))[0], 44);
    assert_false(((bool *)tc_data_of(tc_aten_ge_Scalar(x, tc_scalar_int(300))))[0]);
    assert_int_equal(((uint8_t *)tc_data_of(tc_aten_masked_fill_Scalar(x, mask, tc_scalar_int(-1))))[0], 255);
    assert_null(tc_aten_masked_fill_Scalar(x, mask, tc_scalar_int(300)));
    assert_non_null(strstr(tc_last_error(), "without overflow"));
    assert_null(tc_aten_add_Tensor(x, x, tc_scalar_int(300)));
    assert_null(tc_aten_masked_fill_Scalar(half, mask, tc_scalar_real(1e6)));
    tc_clear_error();
    tc_scope_close(s);
  }
}

// Threads that ask for different values share what is compiled.
static void *multiply(void *arg) {
  tc_context *c = arg;
  tc_scope *s = tc_scope_open();
  tc_tensor *x = operand(c, TC_F32, 99);
  for (int k = 0; k < 50; k++) {
    tc_tensor *y = tc_aten_mul_Scalar(x, tc_scalar_real(k));
    if (!y || ((float *)tc_data_of(y))[0] != ((float *)tc_data_of(x))[0] * (float)k) return "wrong";
  }
  tc_scope_close(s);
  return NULL;
}

static void threads_share_values(void **state) {
  (void)state;
  FOR_BACKENDS(c, "verify=true") {
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) assert_int_equal(pthread_create(&threads[i], NULL, multiply, c), 0);
    for (int i = 0; i < 8; i++) {
      void *failed;
      assert_int_equal(pthread_join(threads[i], &failed), 0);
      assert_null(failed);
    }
    if (compiles(c) != 2) fail_msg("%d compilations of 2 ops", (int)compiles(c)); // the dtype and the product
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values_do_not_compile_again), cmocka_unit_test(other_numbers_are_part_of_the_key),
      cmocka_unit_test(numbers_beyond_the_dtype), cmocka_unit_test(threads_share_values)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
