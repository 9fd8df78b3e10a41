// Binary arithmetic: add, sub, mul, div, pow, remainders, extremes, and bit operations.
// Definitions: PyTorch's documentation of torch.add … ; integer division truncates or floors as rounding_mode says.
#include <math.h>

#include "core/base/complex_parts.h"
#include "core/base/complex_power.h"
#include "core/ops/ops.h"

#define C(z) CMPLX((z).re, (z).im)
static tc_c128 pack(double complex z) { return (tc_c128){creal(z), cimag(z)}; }

static double add_f(double x, double y, double alpha) { return x + alpha * y; }
// The product with alpha is a complex one also where alpha is 1: an infinite part of y makes the other one NaN.
static tc_c128 add_c(tc_c128 x, tc_c128 y, tc_c128 alpha) {
  tc_c128 p = tc_ref_product(alpha, y);
  return (tc_c128){x.re + p.re, x.im + p.im};
}
static int64_t add_i(int64_t x, int64_t y, int64_t alpha) {
  return (int64_t)((uint64_t)x + (uint64_t)alpha * (uint64_t)y);
}
static const tc_scalar_ref add_ref = {.f3 = add_f, .c3 = add_c, .i3 = add_i};

static double sub_f(double x, double y, double alpha) { return x - alpha * y; }
static tc_c128 sub_c(tc_c128 x, tc_c128 y, tc_c128 alpha) { return add_c(x, y, (tc_c128){-alpha.re, -alpha.im}); }
static int64_t sub_i(int64_t x, int64_t y, int64_t alpha) {
  return (int64_t)((uint64_t)x - (uint64_t)alpha * (uint64_t)y);
}
static const tc_scalar_ref sub_ref = {.f3 = sub_f, .c3 = sub_c, .i3 = sub_i};

static double rsub_f(double x, double y, double alpha) { return y - alpha * x; }
static tc_c128 rsub_c(tc_c128 x, tc_c128 y, tc_c128 alpha) { return sub_c(y, x, alpha); }
static int64_t rsub_i(int64_t x, int64_t y, int64_t alpha) {
  return (int64_t)((uint64_t)y - (uint64_t)alpha * (uint64_t)x);
}
static const tc_scalar_ref rsub_ref = {.f3 = rsub_f, .c3 = rsub_c, .i3 = rsub_i};

static double mul_f(double x, double y) { return x * y; }
static tc_c128 mul_c(tc_c128 x, tc_c128 y) { return tc_ref_product(x, y); }
static int64_t mul_i(int64_t x, int64_t y) { return (int64_t)((uint64_t)x * (uint64_t)y); }
static const tc_scalar_ref mul_ref = {.f2 = mul_f, .c2 = mul_c, .i2 = mul_i};

static double div_f(double x, double y) { return x / y; }
static tc_c128 div_c(tc_c128 x, tc_c128 y) { return tc_ref_quotient(x, y); }
static const tc_scalar_ref div_ref = {.f2 = div_f, .c2 = div_c};

static double pow_f(double x, double y) { return pow(x, y); }
static tc_c128 pow_c(tc_c128 x, tc_c128 y) { return pack(tc_complex_pow(C(x), C(y))); }
static int64_t pow_i(int64_t x, int64_t y) {
  if (y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
  uint64_t r = 1, b = (uint64_t)x;
  for (uint64_t e = (uint64_t)y; e; e >>= 1, b *= b) {
    if (e & 1) r *= b;
  }
  return (int64_t)r;
}
static const tc_scalar_ref pow_ref = {.f2 = pow_f, .c2 = pow_c, .i2 = pow_i};
// Small powers are products, as in PyTorch: of what is not finite other parts are NaN. The number 0 as an exponent, and
// 1 as a base, give 1 of whatever the other is.
static tc_c128 pow_number_c(tc_c128 x, tc_c128 y) {
  if (y.im == 0 && y.re == 0) return (tc_c128){1, 0};
  if (y.im == 0 && y.re == 1) return x;
  if (y.im == 0 && y.re == 2) return tc_ref_product(x, x);
  if (y.im == 0 && y.re == 3) return tc_ref_product(tc_ref_product(x, x), x);
  return pow_c(x, y);
}
static tc_c128 pow_of_number_c(tc_c128 x, tc_c128 y) { return x.im == 0 && x.re == 1 ? x : pow_c(x, y); }
static const tc_scalar_ref pow_of_number_ref = {.f2 = pow_f, .c2 = pow_of_number_c, .i2 = pow_i};
static const tc_scalar_ref pow_number_ref = {.f2 = pow_f, .c2 = pow_number_c, .i2 = pow_i};

static double maximum_f(double x, double y) { return isnan(x) || isnan(y) ? NAN : x > y ? x : y; }
static int64_t maximum_i(int64_t x, int64_t y) { return x > y ? x : y; }
static const tc_scalar_ref maximum_ref = {.f2 = maximum_f, .i2 = maximum_i};
static double minimum_f(double x, double y) { return isnan(x) || isnan(y) ? NAN : x < y ? x : y; }
static int64_t minimum_i(int64_t x, int64_t y) { return x < y ? x : y; }
static const tc_scalar_ref minimum_ref = {.f2 = minimum_f, .i2 = minimum_i};
static double fmax_f(double x, double y) { return fmax(x, y); }
static const tc_scalar_ref fmax_ref = {.f2 = fmax_f, .i2 = maximum_i};
static double fmin_f(double x, double y) { return fmin(x, y); }
static const tc_scalar_ref fmin_ref = {.f2 = fmin_f, .i2 = minimum_i};

// Remainder with the sign of the divisor (Python's %), and floor division.
static double remainder_f(double x, double y) {
  double r = fmod(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
static int64_t remainder_i(int64_t x, int64_t y) {
  if (y == 0 || y == -1) return 0;
  int64_t r = x % y;
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
static const tc_scalar_ref remainder_ref = {.f2 = remainder_f, .i2 = remainder_i};
static double floor_divide_f(double x, double y) { // (x - x mod y) / y, brought to an integer
  if (y == 0) return x / y;
  double m = fmod(x, y), d = (x - m) / y;
  if (m != 0 && (y < 0) != (m < 0)) d -= 1;
  double f = floor(d);
  return d == 0 ? copysign(0, x / y) : d - f > 0.5 ? f + 1 : f;
}
static int64_t floor_divide_i(int64_t x, int64_t y) {
  if (y == 0) return 0;
  if (y == -1) return (int64_t)(0 - (uint64_t)x);
  return x / y - (x % y != 0 && (x % y < 0) != (y < 0));
}
static const tc_scalar_ref floor_divide_ref = {.f2 = floor_divide_f, .i2 = floor_divide_i};
static double atan2_f(double x, double y) { return atan2(x, y); }
static const tc_scalar_ref atan2_ref = {.f2 = atan2_f};

static int64_t and_i(int64_t x, int64_t y) { return x & y; }
static int64_t or_i(int64_t x, int64_t y) { return x | y; }
static int64_t xor_i(int64_t x, int64_t y) { return x ^ y; }
static const tc_scalar_ref and_ref = {.i2 = and_i}, or_ref = {.i2 = or_i}, xor_ref = {.i2 = xor_i};

// div with a rounding mode: none is true division, "trunc" and "floor" keep integers.
// Among integers a divisor that is known to be 0 is refused; one that comes from data is an error of the run
// (TC_OP_DIVIDES).
static int32_t division_meta(tc_op_args *a) {
  tc_number v;
  if (tc_meta_promote(a)) return TC_STATUS_INVALID_ARGUMENT;
  const tc_tensor_type *t = tc_op_result_type(a, 0);
  char c = tc_dtype_class(t->dtype);
  if (c == 'f' || c == 'c' || !tc_op_known_number(a, 1, &v)) return TC_STATUS_OK;
  int32_t bits = tc_dtype_size(t->dtype) * 8;
  bool zero = c == 'b' ? v.re == 0 : bits < 64 ? (v.i & ((1ll << bits) - 1)) == 0 : v.i == 0;
  for (int32_t d = 0; d < t->rank && zero; d++) zero = !tc_sym_is_int(t->sizes[d], 0);
  return zero ? tc_op_fail(a, "ZeroDivisionError: the divisor is 0 as %s", tc_dtype_torch_name(t->dtype))
              : TC_STATUS_OK;
}
static int32_t div_mode_meta(tc_op_args *a) {
  if (tc_op_kind(a, 2) == TC_AK_NONE) return tc_meta_promote_float(a);
  if (division_meta(a)) return TC_STATUS_INVALID_ARGUMENT;
  const tc_tensor_type *t = tc_op_result_type(a, 0);
  if (tc_dtype_is_complex(t->dtype))
    return tc_op_fail(a, "division rounded to integers is not implemented for %s", tc_dtype_torch_name(t->dtype));
  return TC_STATUS_OK;
}
static int32_t div_mode_expand(tc_op_args *a) {
  tc_sv mode = tc_op_string(a, 2);
  bool plain = mode.size == 0;
  tc_ex_begin(a, plain ? "aten::div.Tensor" : mode.data[0] == 'f' ? "aten::floor_divide" : "aten::_div_trunc");
  tc_ex_push_arg(a, 0);
  tc_ex_push_arg(a, 1);
  tc_ex_result(a, 0, tc_ex_make(a, 1, NULL));
  return TC_STATUS_OK;
}
static double trunc_f(double x, double y) { return trunc(x / y); }
static int64_t trunc_i(int64_t x, int64_t y) { return y == 0 ? 0 : y == -1 ? (int64_t)(0 - (uint64_t)x) : x / y; }
static const tc_scalar_ref trunc_ref = {.f2 = trunc_f, .i2 = trunc_i};

// An integer that something is divided by: 0 is an error of the run, and 1 in its place, since nothing may trap.
static tc_bval divisor(tc_op_args *a, tc_bval y, tc_dtype d) {
  tc_number v;
  tc_bval ok = tc_lo_op2(a, TC_K_NE, y, tc_lo_const_int(a, d, 0));
  if (!tc_op_known_number(a, 1, &v)) y = tc_lo_require(a, ok, y, "ZeroDivisionError"); // division_meta looks at those
  return tc_lo_op3(a, TC_K_SELECT, ok, y, tc_lo_const_int(a, d, 1));
}

// Remainders take their operands rounded to the result's dtype, before 16-bit floats compute in f32.
static int32_t lower_binary_text(tc_op_args *a, const char *floats, const char *ints) {
  tc_dtype out = tc_op_result_type(a, 0)->dtype, compute = tc_op_math_type(out);
  static const char *const names[] = {"x", "y"};
  const tc_tensor_type *t = tc_op_result_type(a, 0);
  tc_lt x[2];
  tc_bval v[2];
  tc_int index[TC_MAX_RANK];
  bool rounded = (a->op->def->traits & TC_OP_COMPUTE_PROMOTED) != 0, real = tc_dtype_is_float(compute);
  for (int32_t i = 0; i < 2; i++) {
    x[i] = rounded ? tc_lower_converted(a, tc_lo_arg(a, i), out) : tc_lo_arg(a, i);
    x[i] = tc_lo_expand(a, x[i], t->rank, t->sizes);
  }
  tc_lo_begin(a, t->rank, t->sizes, index);
  for (int32_t i = 0; i < 2; i++) v[i] = tc_lo_cast(a, tc_lo_load(a, x[i], index), compute);
  if (!real) v[1] = divisor(a, v[1], compute);
  tc_lo_result(a, 0, tc_lo_end(a, tc_lo_text(a, real ? floats : ints, 2, names, v), out));
  return TC_STATUS_OK;
}
static int32_t lower_remainder(tc_op_args *a) {
  return lower_binary_text(a, "let r = fmod(x, y); where((r != 0) && ((r < 0) != (y < 0)), r + y, r)",
                           "let r = x % y; where((r != 0) && ((r < 0) != (y < 0)), r + y, r)");
}
static int32_t lower_floor_divide(tc_op_args *a) {
  return lower_binary_text(
      a,
      "let m = fmod(x, y); let q = (x - m) / y; let d = where((m != 0) && ((y < 0) != (m < 0)), q - 1, q); let f = "
      "floor(d); where(y == 0, x / y, where(d == 0, copysign(0, x / y), where(d - f > 0.5, f + 1, f)))",
      "let q = x / y; let r = x - q * y; where((r != 0) && ((r < 0) != (y < 0)), q - 1, q)");
}
// pow. Constant exponents that are a few products or a root are done as such (as PyTorch does); integers by squaring.
static const char *pow_text(tc_op_args *a) {
  static const struct {
    double exponent;
    const char *text;
  } texts[] = {{2, "x * x"},        {3, "x * x * x"}, {1, "x"},          {-1, "1 / x"},
               {-2, "1 / (x * x)"}, {0.5, "sqrt(x)"}, {-0.5, "rsqrt(x)"}};
  tc_number e;
  if (tc_op_kind(a, 0) != TC_AK_TENSOR || !tc_op_number(a, 1, &e) || e.im != 0 ||
      (e.sym && !tc_int_is_const(e.sym, NULL)))
    return NULL;
  bool integer =
      !tc_dtype_is_float(tc_op_result_type(a, 0)->dtype) && !tc_dtype_is_complex(tc_op_result_type(a, 0)->dtype);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    if (texts[i].exponent == e.re && (!integer || e.re > 0)) return texts[i].text;
  }
  return NULL;
}
static tc_lt lower_int_pow(tc_op_args *a, tc_lt x[2], const tc_tensor_type *t) {
  enum { BITS = 63 };
  tc_dtype d = t->dtype;
  tc_int index[TC_MAX_RANK];
  tc_lo_begin(a, t->rank, t->sizes, index);
  tc_bval base = tc_lo_cast(a, tc_lo_load(a, x[0], index), d), e = tc_lo_cast(a, tc_lo_load(a, x[1], index), TC_I64);
  tc_bval one = tc_lo_const_int(a, d, 1), zero = tc_lo_const_int(a, d, 0), b = base, r = one, bit = -1, odd = -1;
  int64_t constant = tc_op_int(a, 1, -1);
  for (int32_t i = 0; i < BITS && (constant < 0 || constant >> i); i++, b = tc_lo_op2(a, TC_K_MUL, b, b)) {
    bit = tc_lo_cast(
        a,
        tc_lo_op2(a, TC_K_AND, tc_lo_op2(a, TC_K_SHR, e, tc_lo_const_int(a, TC_I64, i)), tc_lo_const_int(a, TC_I64, 1)),
        TC_BOOL);
    if (i == 0) odd = bit;
    r = tc_lo_op3(a, TC_K_SELECT, bit, tc_lo_op2(a, TC_K_MUL, r, b), r);
  }
  if (constant >= 0) return tc_lo_end(a, r, d);
  // A negative exponent: 1 and -1 stay what they are, everything else gives 0.
  tc_bval minus = tc_lo_const_int(a, d, -1);
  tc_bval unit =
      tc_lo_op3(a, TC_K_SELECT, tc_lo_op2(a, TC_K_EQ, base, minus), tc_lo_op3(a, TC_K_SELECT, odd, minus, one), zero);
  unit = tc_lo_op3(a, TC_K_SELECT, tc_lo_op2(a, TC_K_EQ, base, one), one, unit);
  return tc_lo_end(a, tc_lo_op3(a, TC_K_SELECT, tc_lo_op2(a, TC_K_LT, e, tc_lo_const_int(a, TC_I64, 0)), unit, r), d);
}
// Real powers are 1 where either number says so by themselves.
static const char *plain_pow_text(tc_op_args *a) {
  bool pairs = tc_dtype_is_complex(tc_op_result_type(a, 0)->dtype);
  return pairs && tc_op_kind(a, 1) != TC_AK_TENSOR   ? "where(y == 0, 1, pow(x, y))"
         : pairs && tc_op_kind(a, 0) != TC_AK_TENSOR ? "where(x == 1, 1, pow(x, y))"
                                                     : "pow(x, y)";
}
static int32_t lower_pow(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_result_type(a, 0);
  static const char *const names[] = {"x", "y"};
  const char *small = pow_text(a), *text = small ? small : plain_pow_text(a);
  bool real = tc_dtype_is_float(t->dtype) || tc_dtype_is_complex(t->dtype);
  tc_lt x[2] = {tc_lo_expand(a, tc_lo_arg(a, 0), t->rank, t->sizes),
                small ? -1 : tc_lo_expand(a, tc_lo_arg(a, 1), t->rank, t->sizes)};
  if (small || real)
    tc_lo_result(a, 0, tc_lower_text(a, text, small ? 1 : 2, names, x, tc_op_math_type(t->dtype), t->dtype));
  else tc_lo_result(a, 0, lower_int_pow(a, x, t));
  return TC_STATUS_OK;
}
static double fmod_f(double x, double y) { return fmod(x, y); }
static int64_t fmod_i(int64_t x, int64_t y) { return y == 0 || y == -1 ? 0 : x % y; }
static const tc_scalar_ref fmod_ref = {.f2 = fmod_f, .i2 = fmod_i};
static int32_t lower_fmod(tc_op_args *a) { return lower_binary_text(a, "fmod(x, y)", "x % y"); }
static double hypot_f(double x, double y) { return hypot(x, y); }
static const tc_scalar_ref hypot_ref = {.f2 = hypot_f};
static double copysign_f(double x, double y) { return copysign(x, y); }
static const tc_scalar_ref copysign_ref = {.f2 = copysign_f};
// Shifts by a negative amount or by all bits give 0, to the right the sign.
static int64_t shl_i(int64_t x, int64_t n) { return n < 0 || n > 63 ? 0 : (int64_t)((uint64_t)x << n); }
static int64_t shr_i(int64_t x, int64_t n) { return n < 0 || n > 63 ? (x < 0 ? -1 : 0) : x >> n; }
static const tc_scalar_ref shl_ref = {.i2 = shl_i}, shr_ref = {.i2 = shr_i};
static int32_t lower_shift(tc_op_args *a, int32_t op) {
  const tc_tensor_type *t = tc_op_result_type(a, 0);
  tc_int index[TC_MAX_RANK];
  tc_lt x = tc_lo_expand(a, tc_lo_arg(a, 0), t->rank, t->sizes),
        y = tc_lo_expand(a, tc_lo_arg(a, 1), t->rank, t->sizes);
  tc_lo_begin(a, t->rank, t->sizes, index);
  tc_bval v = tc_lo_cast(a, tc_lo_load(a, x, index), t->dtype), n = tc_lo_cast(a, tc_lo_load(a, y, index), t->dtype);
  int32_t bits = tc_dtype_size(t->dtype) * 8;
  tc_bval zero = tc_lo_const_int(a, t->dtype, 0), last = tc_lo_const_int(a, t->dtype, bits - 1);
  tc_bval all = tc_lo_op2(a, TC_K_OR, tc_lo_op2(a, TC_K_LT, n, zero), tc_lo_op2(a, TC_K_GT, n, last));
  tc_bval by = tc_lo_op3(a, TC_K_SELECT, all, last, n), out = tc_lo_op2(a, op, v, by);
  bool sign = op == TC_K_SHR && tc_dtype_class(t->dtype) == 'i'; // then the last bit has spread already
  tc_lo_result(a, 0, tc_lo_end(a, sign ? out : tc_lo_op3(a, TC_K_SELECT, all, zero, out), t->dtype));
  return TC_STATUS_OK;
}
static int32_t lower_shl(tc_op_args *a) { return lower_shift(a, TC_K_SHL); }
static int32_t lower_shr(tc_op_args *a) { return lower_shift(a, TC_K_SHR); }
static int32_t lower_div_trunc(tc_op_args *a) { return lower_binary_text(a, "trunc(x / y)", "x / y"); }

// Sums with a factor, whose dtype is that of the operands without it.
static int32_t sum_meta(tc_op_args *a, bool swapped) {
  int32_t alpha = tc_op_arg_index(a, "alpha");
  if (swapped ? tc_meta_promote_swapped(a) : tc_meta_promote(a)) return TC_STATUS_INVALID_ARGUMENT;
  return tc_op_alpha_fits(a, alpha, tc_op_result_type(a, 0)->dtype);
}
static int32_t add_meta(tc_op_args *a) { return sum_meta(a, false); }
static int32_t difference_meta(tc_op_args *a, bool swapped) {
  const tc_tensor_type *x = tc_op_tensor(a, 0), *y = tc_op_tensor(a, 1);
  int32_t bools = (x && x->dtype == TC_BOOL) + (y && y->dtype == TC_BOOL);
  if (bools == 2)
    return tc_op_fail(a, "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
                         "`logical_xor()` operator instead.");
  if (bools)
    return tc_op_fail(a, "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to "
                         "invert a mask, use the `~` or `logical_not()` operator instead.");
  return sum_meta(a, swapped);
}
static int32_t sub_meta(tc_op_args *a) { return difference_meta(a, false); }
static int32_t rsub_meta(tc_op_args *a) { return difference_meta(a, true); }

enum { PW = TC_OP_POINTWISE, PWC = TC_OP_POINTWISE | TC_OP_COMPLEX, TRUE_DIV = PWC | TC_OP_INT_TO_FLOAT };
// Integers take exponents that they can hold and that leave them integers.
static int32_t pow_number_meta(tc_op_args *a) {
  tc_number v;
  if (tc_meta_promote(a)) return TC_STATUS_INVALID_ARGUMENT;
  tc_dtype d = tc_op_result_type(a, 0)->dtype;
  if (tc_dtype_is_float(d) || tc_dtype_is_complex(d) || d == TC_BOOL) return TC_STATUS_OK;
  if (tc_op_known_number(a, 1, &v) && v.re < 0)
    return tc_op_fail(a, "Integers to negative integer powers are not allowed.");
  return tc_op_number_fits(a, 1, d);
}
// Row-major whatever the exponent's strides are.
static int32_t pow_scalar_meta(tc_op_args *a) {
  const int32_t both[] = {0, 1};
  const tc_tensor_type *t = tc_op_tensor(a, 1);
  tc_dtype d = tc_op_promote(a, 2, both);
  return d == TC_DTYPE_NONE ? TC_STATUS_INVALID_ARGUMENT : tc_op_set_result(a, 0, d, t->rank, t->sizes, NULL);
}

#define ROW(s, t, m, b, r) {.schema = s, .traits = t, .meta = m, .body = b, .scalar_ref = &(r), .flops = "numel"}
#define INPLACE(s) {.schema = s, .traits = PWC}

static const tc_op_def rows[] = {
    ROW("add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", PWC, add_meta, "fma(other, alpha, self)",
        add_ref),
    ROW("add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", PWC, add_meta, "fma(other, alpha, self)",
        add_ref),
    INPLACE("add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)"),
    INPLACE("add_.Scalar(Tensor(a!) self, Scalar other, Scalar alpha=1) -> Tensor(a!)"),
    ROW("sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", PWC, sub_meta, "fma(other, -alpha, self)",
        sub_ref),
    ROW("sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", PWC, sub_meta, "fma(other, -alpha, self)",
        sub_ref),
    INPLACE("sub_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)"),
    ROW("rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", PWC, rsub_meta,
        "fma(self, -alpha, other)", rsub_ref),
    ROW("rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", PWC, sub_meta, "fma(self, -alpha, other)",
        rsub_ref),
    ROW("mul.Tensor(Tensor self, Tensor other) -> Tensor", PWC, tc_meta_promote, "self * other", mul_ref),
    ROW("mul.Scalar(Tensor self, Scalar other) -> Tensor", PWC, tc_meta_promote, "self * other", mul_ref),
    INPLACE("mul_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)"),
    INPLACE("mul_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)"),
    ROW("div.Tensor(Tensor self, Tensor other) -> Tensor", TRUE_DIV, tc_meta_promote_float, "self / other", div_ref),
    ROW("div.Scalar(Tensor self, Scalar other) -> Tensor", TRUE_DIV, tc_meta_promote_float, "self / other", div_ref),
    INPLACE("div_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)"),
    {.schema = "div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor",
     .traits = PWC,
     .meta = div_mode_meta,
     .expand = div_mode_expand},
    {.schema = "div.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor",
     .traits = PWC,
     .meta = div_mode_meta,
     .expand = div_mode_expand},
    {.schema = "_div_trunc(Tensor self, Tensor other) -> Tensor",
     .traits = PW | TC_OP_DIVIDES,
     .meta = division_meta,
     .lower = lower_div_trunc,
     .scalar_ref = &trunc_ref,
     .flops = "numel"},
    {.schema = "floor_divide(Tensor self, Tensor other) -> Tensor",
     .traits = PW | TC_OP_DIVIDES,
     .meta = division_meta,
     .lower = lower_floor_divide,
     .scalar_ref = &floor_divide_ref,
     .flops = "numel"},
    {.schema = "floor_divide.Scalar(Tensor self, Scalar other) -> Tensor",
     .traits = PW | TC_OP_DIVIDES,
     .meta = division_meta,
     .lower = lower_floor_divide,
     .scalar_ref = &floor_divide_ref,
     .flops = "numel"},
    {.schema = "floor_divide_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", .traits = PW},
    {.schema = "remainder.Tensor(Tensor self, Tensor other) -> Tensor",
     .traits = PW | TC_OP_DIVIDES | TC_OP_COMPUTE_PROMOTED,
     .meta = division_meta,
     .lower = lower_remainder,
     .scalar_ref = &remainder_ref,
     .flops = "numel"},
    {.schema = "remainder.Scalar(Tensor self, Scalar other) -> Tensor",
     .traits = PW | TC_OP_DIVIDES | TC_OP_COMPUTE_PROMOTED,
     .meta = division_meta,
     .lower = lower_remainder,
     .scalar_ref = &remainder_ref,
     .flops = "numel"},
    {.schema = "pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor",
     .traits = PWC,
     .meta = tc_meta_promote,
     .lower = lower_pow,
     .scalar_ref = &pow_ref,
     .flops = "numel"},
    {.schema = "pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor",
     .traits = PWC,
     .meta = pow_number_meta,
     .lower = lower_pow,
     .scalar_ref = &pow_number_ref,
     .flops = "numel"},
    {.schema = "pow.Scalar(Scalar self, Tensor exponent) -> Tensor",
     .traits = PWC,
     .meta = pow_scalar_meta,
     .lower = lower_pow,
     .scalar_ref = &pow_of_number_ref,
     .flops = "numel"},
    ROW("maximum(Tensor self, Tensor other) -> Tensor", PW | TC_OP_ORDERS, tc_meta_promote, "max(self, other)",
        maximum_ref),
    ROW("minimum(Tensor self, Tensor other) -> Tensor", PW | TC_OP_ORDERS, tc_meta_promote, "min(self, other)",
        minimum_ref),
    ROW("fmax(Tensor self, Tensor other) -> Tensor", PW | TC_OP_ORDERS, tc_meta_promote, "fmax(self, other)", fmax_ref),
    ROW("fmin(Tensor self, Tensor other) -> Tensor", PW | TC_OP_ORDERS, tc_meta_promote, "fmin(self, other)", fmin_ref),
    ROW("atan2(Tensor self, Tensor other) -> Tensor", PW | TC_OP_INT_TO_FLOAT, tc_meta_promote_float,
        "atan2(self, other)", atan2_ref),
    {.schema = "__lshift__.Tensor(Tensor self, Tensor other) -> Tensor",
     .traits = PW,
     .meta = tc_meta_promote,
     .lower = lower_shl,
     .scalar_ref = &shl_ref,
     .flops = "numel"},
    {.schema = "__lshift__.Scalar(Tensor self, Scalar other) -> Tensor",
     .traits = PW,
     .meta = tc_meta_promote,
     .lower = lower_shl,
     .scalar_ref = &shl_ref,
     .flops = "numel"},
    {.schema = "bitwise_left_shift.Tensor(Tensor self, Tensor other) -> Tensor",
     .traits = PW,
     .meta = tc_meta_promote,
     .lower = lower_shl,
     .scalar_ref = &shl_ref,
     .flops = "numel"},
    {.schema = "bitwise_left_shift.Tensor_Scalar(Tensor self, Scalar other) -> Tensor",
     .traits = PW,
     .meta = tc_meta_promote,
     .lower = lower_shl,
     .scalar_ref = &shl_ref,
     .flops = "numel"},
    {.schema = "__rshift__.Tensor(Tensor self, Tensor other) -> Tensor",
     .traits = PW,
     .meta = tc_meta_promote,
     .lower = lower_shr,
     .scalar_ref = &shr_ref,
     .flops = "numel"},
    {.schema = "__rshift__.Scalar(Tensor self, Scalar other) -> Tensor",
     .traits = PW,
     .meta = tc_meta_promote,
     .lower = lower_shr,
     .scalar_ref = &shr_ref,
     .flops = "numel"},
    {.schema = "bitwise_right_shift.Tensor(Tensor self, Tensor other) -> Tensor",
     .traits = PW,
     .meta = tc_meta_promote,
     .lower = lower_shr,
     .scalar_ref = &shr_ref,
     .flops = "numel"},
    {.schema = "bitwise_right_shift.Tensor_Scalar(Tensor self, Scalar other) -> Tensor",
     .traits = PW,
     .meta = tc_meta_promote,
     .lower = lower_shr,
     .scalar_ref = &shr_ref,
     .flops = "numel"},
    {.schema = "fmod.Tensor(Tensor self, Tensor other) -> Tensor",
     .traits = PW | TC_OP_DIVIDES | TC_OP_COMPUTE_PROMOTED,
     .meta = division_meta,
     .lower = lower_fmod,
     .scalar_ref = &fmod_ref,
     .flops = "numel"},
    {.schema = "fmod.Scalar(Tensor self, Scalar other) -> Tensor",
     .traits = PW | TC_OP_DIVIDES | TC_OP_COMPUTE_PROMOTED,
     .meta = division_meta,
     .lower = lower_fmod,
     .scalar_ref = &fmod_ref,
     .flops = "numel"},
    ROW("hypot(Tensor self, Tensor other) -> Tensor", PW, tc_meta_promote, "hypot(self, other)", hypot_ref),
    ROW("copysign.Tensor(Tensor self, Tensor other) -> Tensor", PW | TC_OP_INT_TO_FLOAT, tc_meta_promote_float,
        "copysign(self, other)", copysign_ref),
    ROW("bitwise_or.Scalar(Tensor self, Scalar other) -> Tensor", PW, tc_meta_promote, "self | other", or_ref),
    ROW("bitwise_xor.Scalar(Tensor self, Scalar other) -> Tensor", PW, tc_meta_promote, "self ^ other", xor_ref),
    ROW("bitwise_and.Tensor(Tensor self, Tensor other) -> Tensor", PW, tc_meta_promote, "self & other", and_ref),
    ROW("bitwise_and.Scalar(Tensor self, Scalar other) -> Tensor", PW, tc_meta_promote, "self & other", and_ref),
    ROW("__and__.Tensor(Tensor self, Tensor other) -> Tensor", PW, tc_meta_promote, "self & other", and_ref),
    ROW("__and__.Scalar(Tensor self, Scalar other) -> Tensor", PW, tc_meta_promote, "self & other", and_ref),
    ROW("bitwise_or.Tensor(Tensor self, Tensor other) -> Tensor", PW, tc_meta_promote, "self | other", or_ref),
    ROW("__or__.Tensor(Tensor self, Tensor other) -> Tensor", PW, tc_meta_promote, "self | other", or_ref),
    ROW("bitwise_xor.Tensor(Tensor self, Tensor other) -> Tensor", PW, tc_meta_promote, "self ^ other", xor_ref),
    ROW("__xor__.Tensor(Tensor self, Tensor other) -> Tensor", PW, tc_meta_promote, "self ^ other", xor_ref),
};
// Derivatives; see docs/ADDING_AN_OP.md for what the texts can name.
static const tc_op_derivative derivatives[] = {
    {"add", "self: grad; other: mul(grad, conj(alpha))"},
    {"sub", "self: grad; other: neg(mul(grad, conj(alpha)))"},
    {"rsub", "self: neg(mul(grad, conj(alpha))); other: grad"},
    {"mul.Tensor", "self: mul(grad, conj(other)); other: mul(grad, conj(self))"},
    {"mul.Scalar", "self: mul(grad, conj(other))"},
    {"div.Tensor", "self: div(grad, conj(other)); other: neg(mul(grad, conj(div(result, other))))"},
    {"div.Scalar", "self: div(grad, conj(other))"},
    {"_div_trunc", "self: zeros_like(self); other: zeros_like(other)"},
    {"floor_divide", "self: zeros_like(self); other: zeros_like(other)"},
    {"remainder.Tensor", "self: grad; other: neg(mul(grad, floor(div(self, other))))"},
    {"remainder.Scalar", "self: grad"},
    {"fmod.Tensor", "self: grad; other: neg(mul(grad, trunc(div(self, other))))"},
    {"fmod.Scalar", "self: grad"},
    {"pow.Tensor_Scalar",
     "self: if(exponent == 0, zeros_like(self), mul(grad, conj(mul(pow(self, exponent - 1), exponent))))"},
    {"pow.Tensor_Tensor",
     "let zero = if(is_complex(exponent), eq(exponent, 0), eq(exponent, 0)); let none_at = if(is_complex(exponent) , "
     "logical_and(eq(self, 0), ge(real(exponent), 0)), logical_and(eq(self, 0), ge(exponent, 0))); self: where(zero, "
     "zeros_like(result), mul(grad, conj(mul(exponent, pow(self, sub(if(exponent.dtype == bool, to(exponent, i64), "
     "exponent), 1)))))); exponent: mul(grad, "
     "conj(where(none_at, zeros_like(result), mul(result, log(self)))))"},
    {"pow.Scalar", "exponent: mul(grad, conj(mul(result, log(scalar_tensor(self, dtype=result.dtype)))))"},
};
static const tc_op_refusal refusals[] = {
    {"fmax", "fmax not implemented for complex tensors."},
    {"fmin", "fmin not implemented for complex tensors."},
    {"maximum", "maximum not implemented for complex tensors."},
    {"minimum", "minimum not implemented for complex tensors."},
};
TC_OP_FAMILY_WITH_BOTH(arithmetic);
