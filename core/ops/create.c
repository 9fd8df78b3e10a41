// New tensors: filled with one value, counting up.
#include <math.h>

#include "core/ops/ops.h"

// What a row's name says about the value and where the size comes from.
static bool named(tc_op_args *a, const char *part) {
  tc_sv n = a->op->schema.name;
  size_t len = tc_sv_of(part).size;
  for (size_t i = 0; i + len <= n.size; i++) {
    if (tc_sv_eq(tc_sv_sub(n, i, i + len), tc_sv_of(part))) return true;
  }
  return false;
}

static int32_t value_arg(const tc_op_args *a) {
  int32_t arg = tc_op_arg_index(a, "fill_value");
  if (arg < 0) arg = tc_op_arg_index(a, "value");
  return arg < 0 ? tc_op_arg_index(a, "s") : arg;
}
static bool fill_value(tc_op_args *a, tc_number *v) {
  int32_t arg = value_arg(a);
  *v = (tc_number){.kind = TC_AK_INT, .i = named(a, "ones"), .re = named(a, "ones")};
  return arg >= 0 && tc_op_number(a, arg, v);
}

// fill, and fill_ made from it: the result looks like what is filled.
static bool fills(const tc_op_args *a) {
  return tc_sv_is(a->op->schema.name, "fill") || tc_sv_is(a->op->schema.name, "fill_");
}

static tc_dtype number_dtype(const tc_number *v) {
  return v->kind == TC_AK_BOOL ? TC_BOOL : v->kind == TC_AK_INT ? TC_I64 : v->kind == TC_AK_COMPLEX ? TC_C64 : TC_F32;
}

static int32_t fill_meta(tc_op_args *a) {
  tc_number v;
  bool given = fill_value(a, &v), like = named(a, "_like") || fills(a);
  const tc_tensor_type *self = tc_op_arg_index(a, "self") >= 0 ? tc_op_tensor(a, 0) : NULL;
  tc_dtype d = self ? self->dtype : given ? number_dtype(&v) : TC_F32;
  int32_t dtype = tc_op_arg_index(a, "dtype"), format = tc_op_arg_index(a, "memory_format");
  if (tc_sv_is(a->op->schema.name, "scalar_tensor")) d = TC_F32;
  if (dtype >= 0) d = tc_op_dtype(a, dtype, d);
  if (tc_op_number_fits(a, value_arg(a), d)) return TC_STATUS_INVALID_ARGUMENT;
  if (like)
    return tc_op_format_result(a, 0, d, self->rank, self->sizes,
                               format < 0 ? TC_FORMAT_PRESERVE : tc_op_memory_format(a, format, TC_FORMAT_PRESERVE), 0);
  int32_t size = tc_op_arg_index(a, "size"), n = size < 0 ? 0 : tc_op_count(a, size);
  tc_int sizes[TC_MAX_RANK];
  if (n > TC_MAX_RANK) return tc_op_fail(a, "rank %d; the largest is %d", n, TC_MAX_RANK);
  for (int32_t i = 0; i < n; i++) sizes[i] = tc_op_sym_at(a, size, i);
  return tc_op_set_result(a, 0, d, n, sizes, NULL);
}
// A value that comes from data: a tensor of no dimensions; -1 if it is known.
static tc_lt from_data(tc_op_args *a) {
  for (int32_t i = 0; i < a->n_args; i++)
    if (a->args[i].value && (a->args[i].kind == TC_AK_FLOAT || a->args[i].kind == TC_AK_BOOL)) return tc_lo_arg(a, i);
  return -1;
}

static int32_t fill_lower(tc_op_args *a) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  tc_number v;
  tc_int index[TC_MAX_RANK];
  fill_value(a, &v);
  tc_lt number = from_data(a);
  char c = tc_dtype_class(r->dtype);
  tc_lo_begin(a, r->rank, r->sizes, index);
  tc_bval x = c == 'f' || c == 'c' ? tc_lo_const(a, r->dtype, v.re, v.im)
                                   : tc_lo_const_int(a, r->dtype, c == 'b' ? v.re != 0 || v.im != 0 : v.i);
  if (v.kind == TC_AK_INT && v.sym && !tc_int_is_const(v.sym, &(int64_t){0})) x = tc_lo_index(a, v.sym, r->dtype);
  if (number >= 0) x = tc_lo_cast(a, tc_lo_load(a, number, NULL), r->dtype);
  tc_lo_result(a, 0, tc_lo_end(a, x, r->dtype));
  return TC_STATUS_OK;
}
static int32_t fill_ref(tc_op_args *a) {
  const tc_ref_view *y = tc_op_result_data(a, 0);
  tc_number v;
  fill_value(a, &v);
  for (int64_t i = 0; i < tc_ref_numel(y); i++) {
    if (y->dtype == TC_I64 && v.kind == TC_AK_INT) tc_ref_put_i(y, i, v.i);
    else tc_ref_put(y, i, (tc_c128){v.re, v.im});
  }
  return TC_STATUS_OK;
}

// arange: start, end, step; ⌈(end − start) / step⌉ elements
typedef struct range {
  tc_number start, end, step;
  bool floats;
} range;
// Integers count in integers, from a real start by a real step, too, although those say how many there are.
static bool counts_reals(const range *r, tc_dtype d) { return r->floats && (tc_dtype_is_float(d) || d == TC_BOOL); }
static range read_range(tc_op_args *a) {
  range r = {.step = {.kind = TC_AK_INT, .i = 1, .re = 1}, .start = {.kind = TC_AK_INT}};
  int32_t start = tc_op_arg_index(a, "start"), step = tc_op_arg_index(a, "step");
  tc_op_number(a, tc_op_arg_index(a, "end"), &r.end);
  if (start >= 0) tc_op_number(a, start, &r.start);
  if (step >= 0) tc_op_number(a, step, &r.step);
  r.floats = r.start.kind == TC_AK_FLOAT || r.end.kind == TC_AK_FLOAT || r.step.kind == TC_AK_FLOAT;
  return r;
}
static tc_int as_int(tc_op_args *a, const tc_number *n) { return n->sym ? n->sym : tc_int_const(a, n->i); }
static int32_t arange_meta(tc_op_args *a) {
  range r = read_range(a);
  tc_dtype d = tc_op_dtype(a, tc_op_arg_index(a, "dtype"), r.floats ? TC_F32 : TC_I64);
  tc_int n;
  if (d == TC_BOOL) return tc_op_fail(a, "arange is not implemented for bool");
  if (r.step.re == 0) return tc_op_fail(a, "step must be nonzero");
  if (fabs(r.start.re) > 9e15 || fabs(r.end.re) > 9e15 || fabs(r.step.re) > 9e15)
    return tc_op_fail(a, "from %g to %g by %g is out of range", r.start.re, r.end.re, r.step.re);
  if (r.floats) {
    double count = ceil((r.end.re - r.start.re) / r.step.re);
    if (!(count >= 0) || count > 9e15) return tc_op_fail(a, "upper bound and lower bound inconsistent with step sign");
    n = tc_int_const(a, (int64_t)count);
  } else {
    tc_int span = tc_int_sub(a, as_int(a, &r.end), as_int(a, &r.start)), step = as_int(a, &r.step);
    n = tc_int_floordiv(a, tc_int_add(a, span, tc_int_sub(a, step, tc_int_const(a, r.step.re > 0 ? 1 : -1))), step);
    if (tc_int_lt(a, n, tc_int_const(a, 0)) == 1)
      return tc_op_fail(a, "upper bound and lower bound inconsistent with step sign");
  }
  return tc_op_set_result(a, 0, d, 1, &n, NULL);
}
static int32_t arange_lower(tc_op_args *a) {
  range r = read_range(a);
  const tc_tensor_type *t = tc_op_result_type(a, 0);
  tc_int i[1];
  bool reals = counts_reals(&r, t->dtype);
  tc_dtype compute = reals ? tc_op_math_type(t->dtype) : TC_I64;
  tc_lo_begin(a, 1, t->sizes, i);
  tc_bval v;
  if (!reals) {
    v = tc_lo_index(a, tc_int_add(a, as_int(a, &r.start), tc_int_mul(a, i[0], as_int(a, &r.step))), TC_I64);
  } else {
    v = tc_lo_op3(a, TC_K_FMA, tc_lo_index(a, i[0], compute), tc_lo_const(a, compute, r.step.re, 0),
                  tc_lo_const(a, compute, r.start.re, 0));
  }
  tc_lo_result(a, 0, tc_lo_end(a, v, t->dtype));
  return TC_STATUS_OK;
}
static int32_t arange_ref(tc_op_args *a) {
  range r = read_range(a);
  const tc_ref_view *y = tc_op_result_data(a, 0);
  for (int64_t i = 0; i < tc_ref_numel(y); i++) {
    if (counts_reals(&r, y->nominal)) tc_ref_put(y, i, (tc_c128){r.start.re + (double)i * r.step.re, 0});
    else tc_ref_put_i(y, i, r.start.i + i * r.step.i);
  }
  return TC_STATUS_OK;
}

// linspace: start + i·step, from the end for the second half, so that both ends are met. A complex one is two real
// ones.
typedef struct line {
  tc_number from, to;
} line;
static line read_line(tc_op_args *a, tc_dtype dtype) {
  line l = {0};
  tc_op_number(a, 0, &l.from);
  tc_op_number(a, 1, &l.to);
  if (tc_dtype_class(dtype) == 'i' || tc_dtype_class(dtype) == 'u') // of integers the ends are integers
    l.from.re = trunc(l.from.re), l.to.re = trunc(l.to.re);
  return l;
}
static int32_t linspace_meta(tc_op_args *a) {
  tc_int n = tc_op_sym(a, 2);
  line l = read_line(a, TC_F32);
  bool complex = l.from.kind == TC_AK_COMPLEX || l.to.kind == TC_AK_COMPLEX;
  if (tc_int_lt(a, n, tc_int_const(a, 0)) == 1) return tc_op_fail(a, "number of steps must be non-negative");
  tc_dtype d = tc_op_dtype(a, 3, complex ? TC_C64 : TC_F32);
  if (d == TC_BOOL || d == TC_U16 || d == TC_U32 || d == TC_U64)
    return tc_op_fail(a, "not implemented for '%s'", tc_dtype_torch_name(d));
  return tc_op_set_result(a, 0, d, 1, &n, NULL);
}
static double line_step(double from, double to, int64_t n) { return n > 1 ? (to - from) / (double)(n - 1) : 0; }
static tc_bval point_lower(tc_op_args *a, tc_dtype compute, double from, double to, int64_t n, tc_int i) {
  tc_bval step = tc_lo_const(a, compute, line_step(from, to, n), 0);
  tc_bval up = tc_lo_op2(a, TC_K_ADD, tc_lo_const(a, compute, from, 0),
                         tc_lo_op2(a, TC_K_MUL, tc_lo_index(a, i, compute), step));
  tc_bval left = tc_lo_index(a, tc_int_sub(a, tc_int_const(a, n - 1), i), compute);
  tc_bval down = tc_lo_op2(a, TC_K_SUB, tc_lo_const(a, compute, to, 0), tc_lo_op2(a, TC_K_MUL, left, step));
  tc_bval half = tc_lower_condition(a, tc_sym_cmp(a->syms, TC_SYM_LT, i, tc_int_const(a, n > 1 ? n / 2 : 1)));
  return tc_lo_op3(a, TC_K_SELECT, half, up, down);
}
static int32_t linspace_lower(tc_op_args *a) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  bool complex = tc_dtype_is_complex(r->dtype);
  tc_dtype compute = complex                       ? tc_dtype_real(tc_op_math_type(r->dtype))
                     : tc_dtype_is_float(r->dtype) ? tc_op_math_type(r->dtype)
                                                   : TC_F64;
  int64_t n = tc_op_int(a, 2, -1);
  line l = read_line(a, r->dtype);
  if (n < 0) return tc_op_fail(a, "linspace is lowered for a constant number of steps");
  tc_int i[1];
  tc_lo_begin(a, 1, r->sizes, i);
  tc_bval v = point_lower(a, compute, l.from.re, l.to.re, n, i[0]);
  if (complex) v = tc_lo_op2(a, TC_K_COMPLEX, v, point_lower(a, compute, l.from.im, l.to.im, n, i[0]));
  tc_lo_result(a, 0, tc_lo_end(a, v, r->dtype));
  return TC_STATUS_OK;
}
static double point(double from, double to, int64_t n, int64_t i) {
  double step = line_step(from, to, n);
  return i < n / 2 || n == 1 ? from + (double)i * step : to - (double)(n - 1 - i) * step;
}
static int32_t linspace_ref(tc_op_args *a) {
  const tc_ref_view *y = tc_op_result_data(a, 0);
  int64_t n = tc_ref_numel(y);
  line l = read_line(a, y->nominal);
  for (int64_t i = 0; i < n; i++)
    tc_ref_put(y, i, (tc_c128){point(l.from.re, l.to.re, n, i), point(l.from.im, l.to.im, n, i)});
  return TC_STATUS_OK;
}
static int32_t eye_meta(tc_op_args *a) {
  tc_int sizes[2] = {tc_op_sym(a, 0), tc_op_sym(a, tc_op_arg_index(a, "m") >= 0 ? 1 : 0)};
  return tc_op_set_result(a, 0, tc_op_dtype(a, tc_op_arg_index(a, "dtype"), TC_F32), 2, sizes, NULL);
}
static int32_t eye_lower(tc_op_args *a) {
  const tc_tensor_type *r = tc_op_result_type(a, 0);
  tc_int i[2];
  tc_lo_begin(a, 2, r->sizes, i);
  tc_lo_result(a, 0, tc_lo_end(a, tc_lower_condition(a, tc_sym_cmp(a->syms, TC_SYM_EQ, i[0], i[1])), r->dtype));
  return TC_STATUS_OK;
}
static int32_t eye_ref(tc_op_args *a) {
  const tc_ref_view *y = tc_op_result_data(a, 0);
  for (int64_t i = 0; i < y->sizes[0] && i < y->sizes[1]; i++)
    tc_ref_put(y, i * y->strides[0] + i * y->strides[1], (tc_c128){1, 0});
  return TC_STATUS_OK;
}

// empty_strided: sizes and strides as given.
static int32_t strided_meta(tc_op_args *a) {
  int32_t size = tc_op_arg_index(a, "size"), stride = size + 1, n = tc_op_count(a, size);
  tc_int sizes[TC_MAX_RANK], strides[TC_MAX_RANK];
  if (n > TC_MAX_RANK || tc_op_count(a, stride) != n)
    return tc_op_fail(a, "dimensionality of sizes (%d) must match dimensionality of strides (%d)", n,
                      tc_op_count(a, stride));
  for (int32_t i = 0; i < n; i++) {
    sizes[i] = tc_op_sym_at(a, size, i), strides[i] = tc_op_sym_at(a, stride, i);
    if (tc_int_lt(a, strides[i], tc_int_const(a, 0)) == 1)
      return tc_op_fail(a, "stride %lld of dimension %d is negative", (long long)strides[i]->value, i);
  }
  return tc_op_set_result(a, 0, tc_op_dtype(a, stride + 1, size ? tc_op_tensor(a, 0)->dtype : TC_F32), n, sizes,
                          strides);
}

// empty_permuted: physical_layout names the dimensions from the outermost in memory to the innermost.
static int32_t permuted_meta(tc_op_args *a) {
  int32_t n = tc_op_count(a, 0);
  tc_int sizes[TC_MAX_RANK], strides[TC_MAX_RANK] = {0}, one = tc_int_const(a, 1), step = one;
  if (n > TC_MAX_RANK || tc_op_count(a, 1) != n)
    return tc_op_fail(a, "number of dimensions in size (%d) does not match the length of physical_layout (%d)", n,
                      tc_op_count(a, 1));
  for (int32_t i = 0; i < n; i++) sizes[i] = tc_op_sym_at(a, 0, i);
  for (int32_t i = n; i-- > 0;) {
    int64_t d = tc_op_int_at(a, 1, i, -1);
    if (d < 0 || d >= n || strides[d])
      return tc_op_fail(a,
                        "physical_layout must name each of %d dimensions once: %lld is not one of them, or occurs "
                        "twice",
                        n, (long long)d);
    strides[d] = step;
    step = tc_int_mul(a, step, tc_int_max(a, sizes[d], one));
  }
  return tc_op_set_result(a, 0, tc_op_dtype(a, 2, TC_F32), n, sizes, strides);
}

#define OPTIONS "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None"
#define FORMAT ", MemoryFormat? memory_format=None"
#define FILL(s) {.schema = s, .traits = TC_OP_COMPLEX, .meta = fill_meta, .lower = fill_lower, .ref = fill_ref}
// By a number that is an argument.
#define FILL_BY(s) \
  {.schema = s, .traits = TC_OP_COMPLEX | TC_OP_TAKES_NUMBERS, .meta = fill_meta, .lower = fill_lower, .ref = fill_ref}
#define STRIDED(s) {.schema = s, .traits = TC_OP_COMPLEX, .meta = strided_meta, .lower = fill_lower, .ref = fill_ref}
#define RANGE(s) {.schema = s, .meta = arange_meta, .lower = arange_lower, .ref = arange_ref}
static const tc_op_def rows[] = {
    FILL_BY("full(SymInt[] size, Scalar fill_value, *, " OPTIONS ") -> Tensor"),
    FILL("zeros(SymInt[] size, *, " OPTIONS ") -> Tensor"),
    FILL("ones(SymInt[] size, *, " OPTIONS ") -> Tensor"),
    FILL_BY("full_like(Tensor self, Scalar fill_value, *, " OPTIONS FORMAT ") -> Tensor"),
    FILL("zeros_like(Tensor self, *, " OPTIONS FORMAT ") -> Tensor"),
    FILL("ones_like(Tensor self, *, " OPTIONS FORMAT ") -> Tensor"),
    FILL("new_zeros(Tensor self, SymInt[] size, *, " OPTIONS ") -> Tensor"),
    FILL("new_ones(Tensor self, SymInt[] size, *, " OPTIONS ") -> Tensor"),
    FILL_BY("new_full(Tensor self, SymInt[] size, Scalar fill_value, *, " OPTIONS ") -> Tensor"),
    FILL("empty.memory_format(SymInt[] size, *, " OPTIONS FORMAT
         ") -> Tensor"), // zeros: uninitialised memory is never shown
    FILL("new_empty(Tensor self, SymInt[] size, *, " OPTIONS ") -> Tensor"),
    FILL("empty_like(Tensor self, *, " OPTIONS FORMAT ") -> Tensor"),
    STRIDED("empty_strided(SymInt[] size, SymInt[] stride, *, " OPTIONS ") -> Tensor"),
    STRIDED("new_empty_strided(Tensor self, SymInt[] size, SymInt[] stride, *, " OPTIONS ") -> Tensor"),
    {.schema = "empty_permuted(SymInt[] size, int[] physical_layout, *, " OPTIONS ") -> Tensor",
     .traits = TC_OP_COMPLEX,
     .meta = permuted_meta,
     .lower = fill_lower,
     .ref = fill_ref},
    FILL_BY("scalar_tensor(Scalar s, *, " OPTIONS ") -> Tensor"),
    FILL_BY("fill.Scalar(Tensor self, Scalar value) -> Tensor"),
    {.schema = "fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!)", .traits = TC_OP_COMPLEX},
    RANGE("arange(Scalar end, *, " OPTIONS ") -> Tensor"),
    RANGE("arange.start(Scalar start, Scalar end, *, " OPTIONS ") -> Tensor"),
    RANGE("arange.start_step(Scalar start, Scalar end, Scalar step=1, *, " OPTIONS ") -> Tensor"),
    {.schema = "linspace(Scalar start, Scalar end, int steps, *, " OPTIONS ") -> Tensor",
     .traits = TC_OP_COMPLEX,
     .meta = linspace_meta,
     .lower = linspace_lower,
     .ref = linspace_ref},
    {.schema = "eye(SymInt n, *, " OPTIONS ") -> Tensor",
     .traits = TC_OP_COMPLEX,
     .meta = eye_meta,
     .lower = eye_lower,
     .ref = eye_ref},
    {.schema = "eye.m(SymInt n, SymInt m, *, " OPTIONS ") -> Tensor",
     .traits = TC_OP_COMPLEX,
     .meta = eye_meta,
     .lower = eye_lower,
     .ref = eye_ref},
};
// Derivatives; see docs/ADDING_AN_OP.md for what the texts can name.
static const tc_op_derivative derivatives[] = {
    {"zeros_like", "self: none"},
    {"ones_like", "self: none"},
    {"full_like", "self: none"},
};
TC_OP_FAMILY_WITH_DERIVATIVES(create);
