// Complex numbers: their parts, made of parts, conjugates, views as pairs of reals. A conjugate is a bit on a view;
// loops see logical values, so lowering conjugates where the bit is set.
#include <complex.h>
#include <math.h>

#include "core/ops/ops.h"

static bool is_complex(tc_op_args *a) { return tc_dtype_is_complex(tc_op_tensor(a, 0)->dtype); }
static tc_int times(tc_op_args *a, tc_int e, int64_t v) { return tc_int_mul(a, e, tc_int_const(a, v)); }

// ---- views ----
static int32_t view_as_real_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  tc_int sizes[TC_MAX_RANK + 1], strides[TC_MAX_RANK + 1];
  if (!is_complex(a))
    return tc_op_fail(a, "view_as_real is only supported for complex tensors: %s", tc_op_shape_text(a, 0));
  for (int32_t d = 0; d < t->rank; d++) sizes[d] = t->sizes[d], strides[d] = times(a, t->strides[d], 2);
  sizes[t->rank] = tc_int_const(a, 2);
  strides[t->rank] = tc_int_const(a, 1);
  // A conjugate's parts are not in the storage: they are copied.
  if (t->conj) return tc_op_set_result(a, 0, tc_dtype_real(t->dtype), t->rank + 1, sizes, NULL);
  return tc_op_set_view(a, 0, 0, tc_dtype_real(t->dtype), t->rank + 1, sizes, strides, times(a, t->offset, 2));
}
static int32_t view_as_real_lower(tc_op_args *a) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  tc_int index[TC_MAX_RANK];
  tc_lt x = tc_lo_arg(a, 0);
  tc_lo_begin(a, r->rank, r->sizes, index);
  tc_bval z = tc_lo_load(a, x, index),
          im = tc_lower_condition(a, tc_sym_cmp(a->syms, TC_SYM_EQ, index[r->rank - 1], tc_int_const(a, 1)));
  tc_lo_result(
      a, 0,
      tc_lo_end(a, tc_lo_op3(a, TC_K_SELECT, im, tc_lo_op1(a, TC_K_IMAG, z), tc_lo_op1(a, TC_K_REAL, z)), r->dtype));
  return TC_STATUS_OK;
}

static int32_t view_as_real_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_result_data(a, 0);
  int64_t i[TC_MAX_RANK] = {0};
  for (bool more = tc_ref_numel(y) > 0; more; more = tc_ref_next(y->rank, y->sizes, i)) {
    tc_c128 z = tc_ref_c(x, tc_ref_offset(x, i));
    tc_ref_put(y, tc_ref_offset(y, i), (tc_c128){i[y->rank - 1] ? z.im : z.re, 0});
  }
  return TC_STATUS_OK;
}

static int32_t view_as_complex_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  tc_int sizes[TC_MAX_RANK], strides[TC_MAX_RANK], two = tc_int_const(a, 2);
  int32_t last = t->rank - 1;
  if (!tc_dtype_is_float(t->dtype))
    return tc_op_fail(a, "view_as_complex is only supported for floating point tensors: %s", tc_op_shape_text(a, 0));
  if (last < 0 || tc_int_require_eq(a, t->sizes[last], two))
    return tc_op_fail(a, "the last dimension must have size 2: %s", tc_op_shape_text(a, 0));
  if (tc_int_eq(a, t->strides[last], tc_int_const(a, 1)) == 0)
    return tc_op_fail(a, "the last dimension must have stride 1: %s", tc_op_shape_text(a, 0));
  if (tc_int_eq(a, tc_int_mod(a, t->offset, two), tc_int_const(a, 0)) == 0)
    return tc_op_fail(a, "Tensor must have a storage_offset divisible by 2: %s", tc_op_shape_text(a, 0));
  for (int32_t d = 0; d < last; d++) {
    if (tc_int_eq(a, tc_int_mod(a, t->strides[d], two), tc_int_const(a, 0)) == 0)
      return tc_op_fail(a, "the stride of dimension %d must be divisible by 2: %s", d, tc_op_shape_text(a, 0));
    sizes[d] = t->sizes[d], strides[d] = tc_int_floordiv(a, t->strides[d], two);
  }
  return tc_op_set_view(a, 0, 0, tc_dtype_complex(t->dtype), last, sizes, strides, tc_int_floordiv(a, t->offset, two));
}
static int32_t view_as_complex_lower(tc_op_args *a) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  tc_int index[TC_MAX_RANK + 1];
  tc_lt x = tc_lo_arg(a, 0);
  tc_lo_begin(a, r->rank, r->sizes, index);
  index[r->rank] = tc_int_const(a, 0);
  tc_bval re = tc_lo_load(a, x, index);
  index[r->rank] = tc_int_const(a, 1);
  tc_lo_result(a, 0, tc_lo_end(a, tc_lo_op2(a, TC_K_COMPLEX, re, tc_lo_load(a, x, index)), r->dtype));
  return TC_STATUS_OK;
}

// real and imag: every second real of the storage.
static int32_t part_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  bool imag = tc_sv_is(a->op->schema.name, "imag");
  tc_int strides[TC_MAX_RANK];
  if (!is_complex(a) && imag)
    return tc_op_fail(a, "imag is not implemented for tensors with non-complex dtypes: %s", tc_op_shape_text(a, 0));
  if (!is_complex(a)) return tc_op_set_view(a, 0, 0, t->dtype, t->rank, t->sizes, t->strides, t->offset);
  if (t->conj && imag) { // the negative bit is not kept: a copy
    const int32_t self = 0;
    return tc_op_pointwise_result(a, 0, tc_dtype_real(t->dtype), 1, &self);
  }
  for (int32_t d = 0; d < t->rank; d++) strides[d] = times(a, t->strides[d], 2);
  return tc_op_set_view(a, 0, 0, tc_dtype_real(t->dtype), t->rank, t->sizes, strides,
                        tc_int_add(a, times(a, t->offset, 2), tc_int_const(a, imag)));
}
static int32_t lower_unary(tc_op_args *a, const char *text) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  const char *name = "v";
  tc_lt x = tc_lo_arg(a, 0);
  tc_lo_result(a, 0, tc_lower_text(a, text, 1, &name, &x, tc_lo_dtype(a, x), r->dtype));
  return TC_STATUS_OK;
}
static int32_t part_lower(tc_op_args *a) {
  return lower_unary(a, !is_complex(a) ? "v" : tc_sv_is(a->op->schema.name, "imag") ? "imag(v)" : "real(v)");
}
static int32_t part_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_result_data(a, 0);
  int64_t i[TC_MAX_RANK] = {0};
  bool imag = tc_sv_is(a->op->schema.name, "imag");
  for (bool more = tc_ref_numel(y) > 0; more; more = tc_ref_next(y->rank, y->sizes, i)) {
    tc_c128 z = tc_ref_c(x, tc_ref_offset(x, i));
    tc_ref_put(y, tc_ref_offset(y, i), (tc_c128){imag ? z.im : z.re, 0});
  }
  return TC_STATUS_OK;
}

// conj: the same storage, the other bit.
static int32_t conj_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  if (tc_op_set_view(a, 0, 0, t->dtype, t->rank, t->sizes, t->strides, t->offset)) return TC_STATUS_INVALID_ARGUMENT;
  return is_complex(a) ? tc_op_set_conj(a, 0, !t->conj) : TC_STATUS_OK;
}
static int32_t conj_lower(tc_op_args *a) {
  if (is_complex(a)) return lower_unary(a, "conj(v)");
  tc_lo_result(a, 0, tc_lo_arg(a, 0));
  return TC_STATUS_OK;
}
// resolve_conj: a copy without the bit where it is set.
static int32_t resolve_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  if (!t->conj) return tc_op_set_view(a, 0, 0, t->dtype, t->rank, t->sizes, t->strides, t->offset);
  return tc_op_format_result(a, 0, t->dtype, t->rank, t->sizes, TC_FORMAT_PRESERVE, 0);
}
static int32_t same_lower(tc_op_args *a) {
  tc_lo_result(a, 0, tc_lo_arg(a, 0));
  return TC_STATUS_OK;
}
static int32_t copy_ref(tc_op_args *a) {
  const tc_ref_view *x = tc_op_data(a, 0), *y = tc_op_result_data(a, 0);
  int64_t i[TC_MAX_RANK] = {0};
  for (bool more = tc_ref_numel(y) > 0; more; more = tc_ref_next(y->rank, y->sizes, i))
    tc_ref_copy(y, tc_ref_offset(y, i), x, tc_ref_offset(x, i));
  return TC_STATUS_OK;
}

// ---- made of two reals ----
static int32_t pair_meta(tc_op_args *a) {
  const int32_t both[] = {0, 1};
  const tc_tensor_type *x = tc_op_tensor(a, 0), *y = tc_op_tensor(a, 1);
  if (!tc_dtype_is_float(x->dtype) || x->dtype != y->dtype)
    return tc_op_fail(a, "expected both inputs to be floating point tensors of one dtype: %s and %s",
                      tc_op_shape_text(a, 0), tc_op_shape_text(a, 1));
  return tc_op_pointwise_result(a, 0, tc_dtype_complex(x->dtype), 2, both);
}
static int32_t lower_pair(tc_op_args *a, bool polar) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  tc_dtype part = tc_op_math_type(tc_dtype_real(r->dtype));
  tc_int index[TC_MAX_RANK];
  tc_lt x = tc_lo_expand(a, tc_lo_arg(a, 0), r->rank, r->sizes),
        y = tc_lo_expand(a, tc_lo_arg(a, 1), r->rank, r->sizes);
  tc_lo_begin(a, r->rank, r->sizes, index);
  tc_bval u = tc_lo_cast(a, tc_lo_load(a, x, index), part), v = tc_lo_cast(a, tc_lo_load(a, y, index), part);
  if (polar) {
    tc_bval re = tc_lo_op2(a, TC_K_MUL, u, tc_lo_op1(a, TC_K_COS, v));
    v = tc_lo_op2(a, TC_K_MUL, u, tc_lo_op1(a, TC_K_SIN, v));
    u = re;
  }
  tc_lo_result(a, 0, tc_lo_end(a, tc_lo_op2(a, TC_K_COMPLEX, u, v), r->dtype));
  return TC_STATUS_OK;
}
static int32_t complex_lower(tc_op_args *a) { return lower_pair(a, false); }
static int32_t polar_lower(tc_op_args *a) { return lower_pair(a, true); }
static tc_c128 complex_c(tc_c128 x, tc_c128 y) { return (tc_c128){x.re, y.re}; }
static tc_c128 polar_c(tc_c128 r, tc_c128 angle) { return (tc_c128){r.re * cos(angle.re), r.re * sin(angle.re)}; }
static const tc_scalar_ref complex_ref = {.c2 = complex_c}, polar_ref = {.c2 = polar_c};

// ---- angle, sgn, isreal ----
static int32_t angle_meta(tc_op_args *a) {
  const int32_t self = 0;
  tc_dtype d = tc_op_tensor(a, 0)->dtype;
  return tc_op_pointwise_result(a, 0,
                                tc_dtype_is_complex(d) ? tc_dtype_real(d)
                                : tc_dtype_is_float(d) ? d
                                                       : TC_F32,
                                1, &self);
}
static int32_t angle_lower(tc_op_args *a) {
  tc_dtype out = tc_op_result_type(a, 0)->dtype;
  const char *name = "v";
  tc_lt x = tc_lo_arg(a, 0);
  if (is_complex(a)) return lower_unary(a, "angle(v)");
  tc_lo_result(a, 0,
               tc_lower_text(a, "where(v != v, v, where(v < 0, pi, 0))", 1, &name, &x, tc_op_math_type(out), out));
  return TC_STATUS_OK;
}
static double angle_f(double x) { return isnan(x) ? x : x < 0 ? M_PI : 0; }
static tc_c128 angle_c(tc_c128 z) { return (tc_c128){atan2(z.im, z.re), 0}; }
static const tc_scalar_ref angle_ref = {.f1 = angle_f, .c1 = angle_c};

static int32_t sgn_lower(tc_op_args *a) {
  if (!is_complex(a)) return lower_unary(a, "sign(v)");
  tc_dtype d = tc_op_result_type(a, 0)->dtype;
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  tc_int index[TC_MAX_RANK];
  tc_lt x = tc_lo_arg(a, 0);
  tc_lo_begin(a, r->rank, r->sizes, index);
  tc_bval z = tc_lo_cast(a, tc_lo_load(a, x, index), tc_op_math_type(d)), m = tc_lo_op1(a, TC_K_ABS, z);
  tc_dtype part = tc_dtype_real(tc_op_math_type(d));
  tc_bval zero = tc_lo_const(a, part, 0, 0), none = tc_lo_op2(a, TC_K_EQ, m, zero);
  tc_bval re = tc_lo_op3(a, TC_K_SELECT, none, zero, tc_lo_op2(a, TC_K_DIV, tc_lo_op1(a, TC_K_REAL, z), m));
  tc_bval im = tc_lo_op3(a, TC_K_SELECT, none, zero, tc_lo_op2(a, TC_K_DIV, tc_lo_op1(a, TC_K_IMAG, z), m));
  tc_lo_result(a, 0, tc_lo_end(a, tc_lo_op2(a, TC_K_COMPLEX, re, im), d));
  return TC_STATUS_OK;
}
static double sgn_f(double x) { return (x > 0) - (x < 0); }
static int64_t sgn_i(int64_t x) { return (x > 0) - (x < 0); }
static tc_c128 sgn_c(tc_c128 z) {
  double m = hypot(z.re, z.im);
  return m == 0 ? (tc_c128){0, 0} : (tc_c128){z.re / m, z.im / m};
}
static const tc_scalar_ref sgn_ref = {.f1 = sgn_f, .i1 = sgn_i, .c1 = sgn_c};

static int32_t isreal_lower(tc_op_args *a) { return lower_unary(a, is_complex(a) ? "imag(v) == 0" : "true"); }
static double isreal_f(double x) { return x * 0 == 0 || x * 0 != 0; }
static int64_t isreal_i(int64_t x) { return x * 0 + 1; }
static tc_c128 isreal_c(tc_c128 z) { return (tc_c128){z.im == 0, 0}; }
static const tc_scalar_ref isreal_ref = {.f1 = isreal_f, .i1 = isreal_i, .c1 = isreal_c};

enum {
  C = TC_OP_COMPLEX,
  PWC = TC_OP_COMPLEX | TC_OP_POINTWISE,
  VIEW = TC_OP_VIEW | TC_OP_COMPLEX,
  MAYBE = TC_OP_MAYBE_VIEW | TC_OP_COMPLEX
};
static const tc_op_def rows[] = {
    {.schema = "view_as_real(Tensor(a) self) -> Tensor(a)",
     .traits = MAYBE,
     .meta = view_as_real_meta,
     .lower = view_as_real_lower,
     .ref = view_as_real_ref},
    {.schema = "view_as_complex(Tensor(a) self) -> Tensor(a)",
     .traits = VIEW,
     .meta = view_as_complex_meta,
     .lower = view_as_complex_lower},
    {.schema = "real(Tensor(a) self) -> Tensor(a)",
     .traits = MAYBE,
     .meta = part_meta,
     .lower = part_lower,
     .ref = part_ref},
    {.schema = "imag(Tensor(a) self) -> Tensor(a)",
     .traits = MAYBE,
     .meta = part_meta,
     .lower = part_lower,
     .ref = part_ref},
    {.schema = "_conj(Tensor(a) self) -> Tensor(a)", .traits = VIEW, .meta = conj_meta, .lower = conj_lower},
    {.schema = "conj(Tensor(a) self) -> Tensor(a)", .traits = VIEW, .meta = conj_meta, .lower = conj_lower},
    {.schema = "resolve_conj(Tensor(a) self) -> Tensor(a)",
     .traits = MAYBE,
     .meta = resolve_meta,
     .lower = same_lower,
     .ref = copy_ref},
    {.schema = "resolve_neg(Tensor(a) self) -> Tensor(a)",
     .traits = MAYBE,
     .meta = resolve_meta,
     .lower = same_lower,
     .ref = copy_ref},
    {.schema = "_neg_view(Tensor(a) self) -> Tensor(a)",
     .traits = C,
     .meta = tc_meta_same_strides,
     .decompose = "neg(self)"},
    {.schema = "mH(Tensor(a) self) -> Tensor(a)", .traits = VIEW, .decompose = "_conj(mT(self))"},
    {.schema = "matrix_H(Tensor(a) self) -> Tensor(a)",
     .traits = VIEW,
     .decompose = "if(self.rank == 0, _conj(self), _conj(mT(self)))"},
    {.schema = "adjoint(Tensor(a) self) -> Tensor(a)", .traits = VIEW, .decompose = "_conj(mT(self))"},
    {.schema = "view_as_real_copy(Tensor self) -> Tensor", .traits = C, .decompose = "_row_major(view_as_real(self))"},
    {.schema = "view_as_complex_copy(Tensor self) -> Tensor",
     .traits = C,
     .decompose = "_row_major(view_as_complex(self))"},
    {.schema = "_conj_copy(Tensor self) -> Tensor", .traits = C, .decompose = "_row_major(_conj(self))"},
    {.schema = "complex(Tensor real, Tensor imag) -> Tensor",
     .traits = PWC,
     .meta = pair_meta,
     .lower = complex_lower,
     .scalar_ref = &complex_ref},
    {.schema = "polar(Tensor abs, Tensor angle) -> Tensor",
     .traits = PWC,
     .meta = pair_meta,
     .lower = polar_lower,
     .scalar_ref = &polar_ref,
     .flops = "numel"},
    {.schema = "angle(Tensor self) -> Tensor",
     .traits = PWC | TC_OP_INT_TO_FLOAT,
     .meta = angle_meta,
     .lower = angle_lower,
     .scalar_ref = &angle_ref,
     .flops = "numel"},
    {.schema = "sgn(Tensor self) -> Tensor",
     .traits = PWC,
     .meta = tc_meta_same,
     .lower = sgn_lower,
     .scalar_ref = &sgn_ref,
     .flops = "numel"},
    {.schema = "isreal(Tensor self) -> Tensor",
     .traits = PWC | TC_OP_COMPUTE_PROMOTED,
     .meta = tc_meta_bool,
     .lower = isreal_lower,
     .scalar_ref = &isreal_ref,
     .flops = "numel"},
};
// Derivatives; see docs/ADDING_AN_OP.md for what the texts can name.
static const tc_op_derivative derivatives[] = {
    {"view_as_real", "self: complex(select(grad, -1, 0), select(grad, -1, 1))"},
    {"view_as_complex", "self: stack([real(grad), imag(grad)], -1)"},
    {"real", "self: grad"},
    {"imag", "self: complex(zeros_like(grad), grad)"},
    {"_conj", "self: conj(grad)"},
    {"conj", "self: conj(grad)"},
    {"resolve_conj", "self: grad"},
    {"resolve_neg", "self: grad"},
    {"complex", "real: real(grad); imag: imag(grad)"},
    {"polar", "abs: real(mul(grad, conj(sgn(result)))); angle: real(mul(grad, "
              "conj(complex(neg(imag(result)), real(result)))))"},
    {"angle", "self: if(is_complex(self), where(eq(self, 0), zeros_like(self), div(mul(mul(self, "
              "complex(zeros_like(grad), ones_like(grad))), grad), mul(abs(self), abs(self)))), zeros_like(self))"},
    {"sgn", "self: if(is_complex(self), where(eq(self, 0), zeros_like(grad), div(sub(grad, mul(real(mul(grad, "
            "conj(result))), result)), abs(self))), zeros_like(self))"},
};
TC_OP_FAMILY_WITH_DERIVATIVES(complex);
