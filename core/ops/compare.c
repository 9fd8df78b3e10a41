// Comparisons, logic, selection. Results are bool; operands are compared in their promoted type.
#include <math.h>

#include "core/ops/ops.h"

#define COMPARE(name, op)                                       \
  static double name##_f(double x, double y) { return x op y; } \
  static int64_t name##_i(int64_t x, int64_t y) { return x op y; }
COMPARE(lt, <)
COMPARE(le, <=)
COMPARE(gt, >)
COMPARE(ge, >=)
COMPARE(eq, ==)
COMPARE(ne, !=)
#undef COMPARE
static tc_c128 eq_c(tc_c128 x, tc_c128 y) { return (tc_c128){x.re == y.re && x.im == y.im, 0}; }
static tc_c128 ne_c(tc_c128 x, tc_c128 y) { return (tc_c128){x.re != y.re || x.im != y.im, 0}; }
static const tc_scalar_ref lt_ref = {.f2 = lt_f, .i2 = lt_i}, le_ref = {.f2 = le_f, .i2 = le_i},
                           gt_ref = {.f2 = gt_f, .i2 = gt_i};
static const tc_scalar_ref ge_ref = {.f2 = ge_f, .i2 = ge_i}, eq_ref = {.f2 = eq_f, .i2 = eq_i, .c2 = eq_c},
                           ne_ref = {.f2 = ne_f, .i2 = ne_i, .c2 = ne_c};

static bool true_c(tc_c128 x) { return x.re != 0 || x.im != 0; }
static double and_f(double x, double y) { return x != 0 && y != 0; }
static tc_c128 and_c(tc_c128 x, tc_c128 y) { return (tc_c128){true_c(x) && true_c(y), 0}; }
static int64_t and_i(int64_t x, int64_t y) { return x != 0 && y != 0; }
static double or_f(double x, double y) { return x != 0 || y != 0; }
static tc_c128 or_c(tc_c128 x, tc_c128 y) { return (tc_c128){true_c(x) || true_c(y), 0}; }
static int64_t or_i(int64_t x, int64_t y) { return x != 0 || y != 0; }
static double xor_f(double x, double y) { return (x != 0) != (y != 0); }
static int64_t xor_i(int64_t x, int64_t y) { return (x != 0) != (y != 0); }
static double not_f(double x) { return x == 0; }
static tc_c128 not_c(tc_c128 x) { return (tc_c128){!true_c(x), 0}; }
static int64_t not_i(int64_t x) { return x == 0; }
static const tc_scalar_ref and_ref = {.f2 = and_f, .c2 = and_c, .i2 = and_i},
                           or_ref = {.f2 = or_f, .c2 = or_c, .i2 = or_i};
static tc_c128 xor_c(tc_c128 x, tc_c128 y) { return (tc_c128){true_c(x) != true_c(y), 0}; }
static const tc_scalar_ref xor_ref = {.f2 = xor_f, .c2 = xor_c, .i2 = xor_i},
                           not_ref = {.f1 = not_f, .c1 = not_c, .i1 = not_i};

static double isnan_f(double x) { return isnan(x) != 0; }
static double isinf_f(double x) { return isinf(x) != 0; }
static double isfinite_f(double x) { return isfinite(x) != 0; }
static int64_t zero_i(int64_t x) { return x * 0; }
static int64_t one_i(int64_t x) { return x * 0 + 1; }
static tc_c128 isnan_c(tc_c128 z) { return (tc_c128){isnan(z.re) || isnan(z.im), 0}; }
static tc_c128 isinf_c(tc_c128 z) { return (tc_c128){isinf(z.re) || isinf(z.im), 0}; }
static tc_c128 isfinite_c(tc_c128 z) { return (tc_c128){isfinite(z.re) && isfinite(z.im), 0}; }
static const tc_scalar_ref isnan_ref = {.f1 = isnan_f, .c1 = isnan_c, .i1 = zero_i};
static const tc_scalar_ref isinf_ref = {.f1 = isinf_f, .c1 = isinf_c, .i1 = zero_i};
static const tc_scalar_ref isfinite_ref = {.f1 = isfinite_f, .c1 = isfinite_c, .i1 = one_i};
// Integers are always finite; elsewhere the text decides.
static int32_t lower_kind(tc_op_args *a, const char *text, const char *integers) {
  const char *name = "v";
  tc_lt x = tc_lo_arg(a, 0);
  tc_dtype d = tc_lo_dtype(a, x);
  bool real = tc_dtype_is_float(d) || tc_dtype_is_complex(d);
  tc_lo_result(a, 0, tc_lower_text(a, real ? text : integers, 1, &name, &x, tc_op_math_type(d), TC_BOOL));
  return TC_STATUS_OK;
}
static int32_t lower_isnan(tc_op_args *a) { return lower_kind(a, "v != v", "false"); }
static int32_t lower_isinf(tc_op_args *a) { return lower_kind(a, "abs(v) == inf", "false"); }
static int32_t lower_isfinite(tc_op_args *a) { return lower_kind(a, "v - v == 0", "true"); }

static double where_f(double c, double x, double y) { return c != 0 ? x : y; }
static tc_c128 where_c(tc_c128 c, tc_c128 x, tc_c128 y) { return c.re != 0 ? x : y; }
static int64_t where_i(int64_t c, int64_t x, int64_t y) { return c ? x : y; }
static const tc_scalar_ref where_ref = {.f3 = where_f, .c3 = where_c, .i3 = where_i};
static int32_t where_meta(tc_op_args *a) {
  const int32_t values[] = {1, 2}, all[] = {0, 1, 2};
  return tc_op_pointwise_result(a, 0, tc_op_promote(a, 2, values), 3, all);
}
static double masked_fill_f(double x, double mask, double v) { return mask != 0 ? v : x; }
static tc_c128 masked_fill_c(tc_c128 x, tc_c128 mask, tc_c128 v) { return mask.re != 0 ? v : x; }
static int64_t masked_fill_i(int64_t x, int64_t mask, int64_t v) { return mask ? v : x; }
static const tc_scalar_ref masked_fill_ref = {.f3 = masked_fill_f, .c3 = masked_fill_c, .i3 = masked_fill_i};
static int32_t masked_fill_meta(tc_op_args *a) {
  const int32_t both[] = {0, 1};
  const tc_tensor_type *mask = tc_op_tensor(a, 1), *value = tc_op_tensor(a, 2);
  int32_t rank;
  if (mask->dtype != TC_BOOL)
    return tc_op_fail(a, "masked_fill only supports boolean masks, but got mask with dtype %s",
                      tc_dtype_torch_name(mask->dtype));
  if (value && value->rank > 0)
    return tc_op_fail(a, "masked_fill only supports a 0-dimensional value tensor, but got %s", tc_op_shape_text(a, 2));
  if (tc_op_number_fits(a, 2, tc_op_tensor(a, 0)->dtype)) return TC_STATUS_INVALID_ARGUMENT;
  const tc_int *sizes = tc_op_broadcast(a, 2, both, &rank);
  // PyTorch copies self row-major and fills that.
  return sizes ? tc_op_set_result(a, 0, tc_op_tensor(a, 0)->dtype, rank, sizes, NULL) : TC_STATUS_INVALID_ARGUMENT;
}

enum {
  CMP = TC_OP_POINTWISE | TC_OP_COMPUTE_PROMOTED,
  CMPC = CMP | TC_OP_COMPLEX,
  PWC = TC_OP_POINTWISE | TC_OP_COMPLEX
};
// PyTorch orders no unsigned integers but bytes.
static int32_t ordered_meta(tc_op_args *a) {
  int32_t args[8], n = tc_promoting_args(a, args);
  tc_dtype d = tc_op_promote(a, n, args);
  if (d == TC_U16 || d == TC_U32 || d == TC_U64)
    return tc_op_fail(a, "not implemented for '%s'", tc_dtype_torch_name(d));
  return tc_meta_bool(a);
}
#define ROWS(name, t, op, r, m)                                       \
  {.schema = name ".Tensor(Tensor self, Tensor other) -> Tensor",     \
   .traits = t,                                                       \
   .meta = m,                                                         \
   .body = "self " op " other",                                       \
   .scalar_ref = &(r),                                                \
   .flops = "numel"},                                                 \
      {.schema = name ".Scalar(Tensor self, Scalar other) -> Tensor", \
       .traits = t,                                                   \
       .meta = m,                                                     \
       .body = "self " op " other",                                   \
       .scalar_ref = &(r),                                            \
       .flops = "numel"}
#define BOOL2(name, b, r)                                  \
  {.schema = name "(Tensor self, Tensor other) -> Tensor", \
   .traits = CMPC,                                         \
   .meta = tc_meta_bool,                                   \
   .body = b,                                              \
   .scalar_ref = &(r)}
#define BOOL1(name, b, r) \
  {.schema = name "(Tensor self) -> Tensor", .traits = CMPC, .meta = tc_meta_bool, .body = b, .scalar_ref = &(r)}
#define KIND(name)                            \
  {.schema = #name "(Tensor self) -> Tensor", \
   .traits = CMPC,                            \
   .meta = tc_meta_bool,                      \
   .lower = lower_##name,                     \
   .scalar_ref = &name##_ref,                 \
   .flops = "numel"}

static const tc_op_def rows[] = {
    ROWS("lt", CMP, "<", lt_ref, ordered_meta),
    ROWS("le", CMP, "<=", le_ref, ordered_meta),
    ROWS("gt", CMP, ">", gt_ref, ordered_meta),
    ROWS("ge", CMP, ">=", ge_ref, ordered_meta),
    ROWS("eq", CMPC, "==", eq_ref, tc_meta_bool),
    ROWS("ne", CMPC, "!=", ne_ref, tc_meta_bool),
    BOOL2("logical_and", "self && other", and_ref),
    BOOL2("logical_or", "self || other", or_ref),
    BOOL2("logical_xor", "bool(self) ^ bool(other)", xor_ref),
    BOOL1("logical_not", "!self", not_ref),
    KIND(isnan),
    KIND(isinf),
    KIND(isfinite),
    {.schema = "where.self(Tensor condition, Tensor self, Tensor other) -> Tensor",
     .traits = PWC,
     .meta = where_meta,
     .body = "where(condition, self, other)",
     .scalar_ref = &where_ref},
    {.schema = "where.ScalarSelf(Tensor condition, Scalar self, Tensor other) -> Tensor",
     .traits = PWC,
     .meta = where_meta,
     .body = "where(condition, self, other)",
     .scalar_ref = &where_ref},
    {.schema = "where.ScalarOther(Tensor condition, Tensor self, Scalar other) -> Tensor",
     .traits = PWC,
     .meta = where_meta,
     .body = "where(condition, self, other)",
     .scalar_ref = &where_ref},
    {.schema = "where.Scalar(Tensor condition, Scalar self, Scalar other) -> Tensor",
     .traits = PWC,
     .meta = where_meta,
     .body = "where(condition, self, other)",
     .scalar_ref = &where_ref},
    {.schema = "masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor",
     .traits = PWC,
     .meta = masked_fill_meta,
     .body = "where(mask, value, self)",
     .scalar_ref = &masked_fill_ref},
    {.schema = "masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor",
     .traits = PWC,
     .meta = masked_fill_meta,
     .body = "where(mask, value, self)",
     .scalar_ref = &masked_fill_ref},
    {.schema = "masked_fill_.Scalar(Tensor(a!) self, Tensor mask, Scalar value) -> Tensor(a!)", .traits = PWC},
};
// Derivatives; see docs/ADDING_AN_OP.md for what the texts can name.
static const tc_op_derivative derivatives[] = {
    {"where.self", "self: where(condition, grad, zeros_like(grad)); other: where(condition, zeros_like(grad), grad)"},
    {"where.ScalarSelf", "other: where(condition, zeros_like(grad), grad)"},
    {"where.ScalarOther", "self: where(condition, grad, zeros_like(grad))"},
    {"masked_fill.Scalar", "self: masked_fill(grad, mask, 0)"},
    {"masked_fill.Tensor", "self: masked_fill(grad, mask, 0); value: sum(where(mask, grad, zeros_like(grad)))"},
    {"maximum", "self: mul(grad, where(eq(self, other), 0.5, gt(self, other))); other: mul(grad, where(eq(self, "
                "other), 0.5, gt(other, self)))"},
    {"minimum", "self: mul(grad, where(eq(self, other), 0.5, lt(self, other))); other: mul(grad, where(eq(self, "
                "other), 0.5, lt(other, self)))"},
};
TC_OP_FAMILY_WITH_DERIVATIVES(compare);
