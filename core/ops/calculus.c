// Sums that approximate integrals, statistics of several results, powers of a vector, and shapes of sums, as texts.
#include "core/ops/ops.h"

// sum_to_size: sums what broadcasting to self would have repeated.
static int32_t sum_to_size_expand(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  int32_t n = tc_op_count(a, 1), lead = t->rank - n, over = 0, kept = 0;
  tc_int dims[TC_MAX_RANK], first[TC_MAX_RANK], one = tc_int_const(a, 1);
  if (tc_op_kind(a, 0) != TC_AK_TENSOR) return tc_op_fail(a, "a tensor is expected");
  if (lead < 0) return tc_op_fail(a, "size has more dimensions than the tensor %s", tc_op_shape_text(a, 0));
  for (int32_t d = 0; d < lead; d++) first[over++] = tc_int_const(a, d);
  for (int32_t d = 0; d < n; d++) {
    tc_int want = tc_op_sym_at(a, 1, d), have = t->sizes[lead + d];
    if (tc_int_eq(a, want, have) == 1) continue;
    if (tc_int_eq(a, want, one) != 1)
      return tc_op_fail(a, "size is not expandable to the tensor's %s", tc_op_shape_text(a, 0));
    dims[kept++] = tc_int_const(a, lead + d);
  }
  tc_gv x = tc_ex_arg(a, 0);
  for (int32_t pass = 0; pass < 2; pass++) { // the kept ones first: their places are those in self
    int32_t count = pass ? over : kept;
    if (!count) continue;
    tc_ex_begin(a, "aten::sum.dim_IntList");
    tc_ex_push(a, x);
    tc_ex_push_ints(a, count, pass ? first : dims);
    tc_ex_push_bool(a, !pass);
    x = tc_ex_make(a, 1, NULL);
  }
  tc_ex_result(a, 0, x);
  return TC_STATUS_OK;
}

enum { C = TC_OP_COMPLEX };
#define TEXT(s, d) {.schema = s, .traits = C, .decompose = d}
// Averages of neighbours of y along its last dimension, times the widths. A vector x serves every row; with fewer
// dimensions than y it is aligned at the right.
#define PANELS                                                                               \
  "let u = movedim(y, dim, -1); let n = u.size(-1); let d = if(dim < 0, dim, dim - y.rank);" \
  "let w = if(x.rank == 1, diff(x), movedim(diff(x, 1, d), d, -1));"                         \
  "let p = div(mul(add(slice(u, -1, 1, n), slice(u, -1, 0, n - 1)), w), 2);"
#define EVEN                                         \
  "let u = movedim(y, dim, -1); let n = u.size(-1);" \
  "let p = mul(add(slice(u, -1, 1, n), slice(u, -1, 0, n - 1)), float(dx) / 2.0);"
#define CUMULATIVE(panels) panels "cumsum(movedim(p, -1, dim), dim)"
#define WHOLE(panels) panels "sum(p, [-1])"
#define TRAPEZOID(name)                                                 \
  TEXT(name ".x(Tensor y, Tensor x, *, int dim=-1) -> Tensor",          \
       "if(y.size(dim) == 0, sum(y, [dim]), _trapezoid_x(y, x, dim))"), \
      TEXT(name ".dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor",  \
           "if(y.size(dim) == 0, sum(y, [dim]), _trapezoid_dx(y, float(dx), dim))")
// From both ends towards the middle, so that both are met.
#define LINSPACE(head)                                                                                                \
  TEXT(head                                                                                                           \
       ", int steps, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> " \
       "Tensor",                                                                                                      \
       "let out = if(is_none(dtype), if(is_complex(start) || is_complex(end), c64, f32), dtype);"                     \
       "let w = if(is_int(out), f64, wide(out)); let s = add(zeros([], dtype=w), start); let e = add(zeros([], "      \
       "dtype=w), "                                                                                                   \
       "end); let k = arange(steps, dtype=zeros([], dtype=w).real_dtype);"                                            \
       "let d = div(sub(e, s), float(max(steps - 1, 1)));"                                                            \
       "to(if(steps == 1, reshape(s, [1]), where(lt(k, float(steps // 2)), add(s, mul(k, d)), sub(e, mul(rsub(k, "    \
       "float(steps - 1)), d)))), out)")
static const tc_op_def rows[] = {
    TRAPEZOID("trapezoid"),
    TEXT("trapz.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor", "trapezoid(y, x, dim=dim)"),
    TEXT("trapz.dx(Tensor y, *, float dx=1, int dim=-1) -> Tensor", "trapezoid(y, dx=dx, dim=dim)"),
    TEXT("_trapezoid_x(Tensor y, Tensor x, int dim) -> Tensor", WHOLE(PANELS)),
    TEXT("_trapezoid_dx(Tensor y, float dx, int dim) -> Tensor", WHOLE(EVEN)),
    TEXT("cumulative_trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor", CUMULATIVE(PANELS)),
    TEXT("cumulative_trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor", CUMULATIVE(EVEN)),
    // The mean beside a deviation: PyTorch adds complex numbers up in double precision there.
    TEXT("_exact_mean(Tensor self, int[1]? dim, bool keepdim) -> Tensor",
         "if(is_complex(self), to(mean(to(self, c128), dim, keepdim), self.dtype), mean(self, dim, keepdim))"),
    TEXT("std_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)",
         "std(self, unbiased), _exact_mean(self, [], false)"),
    TEXT("var_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)",
         "var(self, unbiased), _exact_mean(self, [], false)"),
    TEXT("std_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)",
         "std(self, dim, unbiased, keepdim), _exact_mean(self, dim, keepdim)"),
    TEXT("var_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)",
         "var(self, dim, unbiased, keepdim), _exact_mean(self, dim, keepdim)"),
    TEXT("nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
         "sum(if(is_int(self), self, where(isnan(self), 0, self)), dim, keepdim, dtype=dtype)"),
    TEXT("nanmean(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
         "div(nansum(self, dim, keepdim, dtype=dtype), sum(logical_not(isnan(self)), dim, keepdim))"),
    {.schema = "sum_to_size(Tensor self, SymInt[] size) -> Tensor", .traits = C, .expand = sum_to_size_expand},
    TEXT("linalg_vander(Tensor x, *, SymInt? N=None) -> Tensor",
         "let u = if(x.rank == 0, reshape(x, [1]), x); let n = if(is_none(N), u.size(-1), N); let v = "
         "unsqueeze(if(is_int(x), to(u, i64), u), -1); let one = ones_like(v);"
         "cat([one, cumprod(mul(v, ones([n - 1], dtype=v.dtype)), -1)], -1)"),
    TEXT("resize_as(Tensor self, Tensor the_template, *, MemoryFormat? memory_format=None) -> Tensor",
         "reshape(slice(reshape(self, [-1]), 0, 0, the_template.numel), the_template.sizes)"),
    LINSPACE("linspace.Tensor_Tensor(Tensor start, Tensor end"),
    LINSPACE("linspace.Tensor_Scalar(Tensor start, Scalar end"),
    LINSPACE("linspace.Scalar_Tensor(Scalar start, Tensor end"),
    TEXT("msort(Tensor self) -> Tensor", "let v, i = sort(self, 0); v"),
};
TC_OP_FAMILY(calculus);
