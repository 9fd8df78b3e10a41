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

// gradient: a result per dimension, from differences of neighbours. `spacing` is a number for all dimensions, one for
// each, or a tensor of coordinates for each.
static int32_t gradient_expand(tc_op_args *a) {
  int32_t spacing = tc_op_arg_index(a, "spacing"), dim = tc_op_arg_index(a, "dim"),
          given = spacing < 0 ? 0 : tc_op_count(a, spacing), rank = tc_op_tensor(a, 0)->rank,
          n = tc_op_kind(a, dim) == TC_AK_NONE ? rank : tc_op_count(a, dim);
  bool list = spacing >= 0 && a->op->schema.args[spacing].is_list, seen[TC_MAX_RANK] = {false};
  int64_t order = tc_op_int(a, tc_op_arg_index(a, "edge_order"), 1);
  if (order != 1 && order != 2) return tc_op_fail(a, "torch.gradient only supports edge_order=1 and edge_order=2.");
  if (list && given != n)
    return tc_op_fail(a,
                      "torch.gradient expected spacing to be unspecified, a scalar or it's spacing and dim arguments "
                      "to have the same length, but got a spacing argument of length %d and %d dimensions",
                      given, n);
  for (int32_t k = 0; k < n; k++) {
    int64_t d = n == rank && tc_op_kind(a, dim) == TC_AK_NONE ? k : tc_op_int_at(a, dim, k, 0);
    int32_t at = tc_op_wrap_dim(a, d, rank);
    if (at < 0 || at >= rank) return TC_STATUS_INVALID_ARGUMENT;
    if (seen[at]) return tc_op_fail(a, "dim %d appears multiple times in the list of dims", at);
    seen[at] = true;
    if (tc_int_lt(a, tc_op_tensor(a, 0)->sizes[at], tc_int_const(a, order + 1)) == 1)
      return tc_op_fail(a, "torch.gradient expected each dimension size to be at least edge_order+1");
    const tc_tensor_type *along = list ? tc_op_tensor_at(a, spacing, k) : NULL;
    if (along && along->rank != 1)
      return tc_op_fail(a, "torch.gradient expected each element of spacing to have one dimension, but got %d",
                        along->rank);
    tc_gv self = tc_ex_arg(a, 0), coordinates = along ? tc_ex_arg_at(a, spacing, k) : -1;
    tc_ex_begin(a, along ? "tc::gradient_along" : "tc::gradient_even");
    tc_ex_push(a, self);
    if (along) tc_ex_push(a, coordinates);
    else if (list) tc_ex_push_float(a, tc_op_float_at(a, spacing, k, 1));
    else if (given) tc_ex_push_arg(a, spacing);
    else tc_ex_push_float(a, 1);
    tc_ex_push_int(a, tc_int_const(a, at));
    tc_ex_push_int(a, tc_int_const(a, order));
    tc_ex_result(a, k, tc_ex_make(a, 1, NULL));
  }
  return TC_STATUS_OK;
}

enum { C = TC_OP_COMPLEX };
#define GRADIENT(overload, arguments)                                                              \
  {.schema = "gradient." overload "(Tensor self, *, " arguments ", int edge_order=1) -> Tensor[]", \
   .traits = C,                                                                                    \
   .expand = gradient_expand}
// Elements from `from` to `to` along dim; three neighbours with factors a, b, c.
#define PART(from, to) "slice(self, dim, " from ", " to ")"
#define THREE(a, b, c, i, j, k, l) \
  "add(add(mul(" PART(i, j) ", " a "), mul(" PART(j, k) ", " b ")), mul(" PART(k, l) ", " c "))"
#define FIRST_TWO "sub(" PART("1", "2") ", " PART("0", "1") ")"
#define LAST_TWO "sub(" PART("n - 1", "n") ", " PART("n - 2", "n - 1") ")"
#define FIRST_THREE(a, b, c) THREE(a, b, c, "0", "1", "2", "3")
#define LAST_THREE(a, b, c) THREE(a, b, c, "n - 3", "n - 2", "n - 1", "n")
#define TEXT(s, d) {.schema = s, .traits = C, .decompose = d}
// Neighbours of y along dim added, times the widths between them in x: a vector serves every row, fewer or more
// dimensions than y's are aligned at the right. dim counts y's dimensions from the left.
#define PANELS                                                                                              \
  "let e = if(dim < 0, dim + y.rank, dim); let n = y.size(e);"                                              \
  "let w = if(x.rank == 1, reshape(diff(x), [-1] + repeated(1, y.rank - e - 1)), diff(if(x.rank < y.rank, " \
  "reshape(x, repeated(1, y.rank - x.rank) + x.sizes), x), 1, e));"                                         \
  "let p = mul(w, add(slice(y, e, 1, n), slice(y, e, 0, n - 1)));"
#define EVEN                                                   \
  "let e = if(dim < 0, dim + y.rank, dim); let n = y.size(e);" \
  "let p = mul(add(slice(y, e, 1, n), slice(y, e, 0, n - 1)), float(dx) / 2.0);"
#define TRAPEZOID(name)                                                              \
  TEXT(name ".x(Tensor y, Tensor x, *, int dim=-1) -> Tensor",                       \
       "if(y.size(dim) == 0, to(sum(y, [dim]), y.dtype), _trapezoid_x(y, x, dim))"), \
      TEXT(name ".dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor",               \
           "if(y.size(dim) == 0, to(sum(y, [dim]), y.dtype), _trapezoid_dx(y, float(dx), dim))")
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
    GRADIENT("scalarint", "Scalar? spacing=None, int? dim=None"),
    GRADIENT("scalararray", "Scalar spacing, int[] dim"),
    GRADIENT("array", "int[] dim"),
    GRADIENT("scalarrayint", "Scalar[] spacing, int? dim=None"),
    GRADIENT("scalarrayarray", "Scalar[] spacing, int[] dim"),
    GRADIENT("tensorarrayint", "Tensor[] spacing, int? dim=None"),
    GRADIENT("tensorarray", "Tensor[] spacing, int[] dim"),
    TEXT("tc::gradient_even(Tensor self, Scalar spacing, int dim, int edge_order) -> Tensor",
         "let n = self.size(dim); cat([div(if(edge_order == 1, " FIRST_TWO
         ", " FIRST_THREE("-1.5", "2", "-0.5") "), spacing), div(div(sub(" PART("2", "n") ", " PART(
             "0", "n - 2") "), spacing), 2), div(if(edge_order == 1, " LAST_TWO
                           ", " LAST_THREE("0.5", "-2", "1.5") "), spacing)], dim)"),
    // h and k are the distances to the neighbours on both sides; first and last ones at the ends.
    TEXT(
        "tc::gradient_along(Tensor self, Tensor coordinates, int dim, int edge_order) -> Tensor",
        "let n = self.size(dim); let d = diff(coordinates); let m = d.size(0); let h = slice(d, 0, 0, m - 1); let k = "
        "slice(d, 0, 1, m); let by = repeated(1, dim) + [m - 1] + repeated(1, self.rank - dim - 1);"
        "let a = reshape(div(neg(k), mul(h, add(h, k))), by); let b = reshape(div(sub(k, h), mul(h, k)), by);"
        "let c = reshape(div(h, mul(k, add(h, k))), by);"
        "let h0 = slice(d, 0, 0, 1); let k0 = slice(d, 0, 1, 2); let h1 = slice(h, 0, -1); let k1 = slice(d, 0, -1);"
        "cat([if(edge_order == 1, div(" FIRST_TWO
        ", select(d, 0, 0)), " FIRST_THREE("div(neg(add(mul(h0, 2), k0)), mul(h0, add(h0, k0)))", "div(add(h0, k0), mul(h0, k0))", "div(neg(h0), mul(k0, add(h0, k0)))") "), add(add(mul(" PART(
            "0", "n - 2") ", a), mul(" PART("1",
                                            "n - 1") ", b)), mul(" PART("2",
                                                                        "n") ", c)), if("
                                                                             "edge_order == 1, div(" LAST_TWO
                                                                             ", select(d, 0, -1)), " LAST_THREE(
                                                                                 "div(k1, mul(h1, add(h1, k1)))",
                                                                                 "neg(div(add(k1, h1), mul(h1, k1)))",
                                                                                 "div(add(mul(k1, 2), h1), mul(k1, "
                                                                                 "add(h1, k1)))") ")], dim)"),
    TRAPEZOID("trapezoid"),
    TEXT("trapz.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor", "trapezoid(y, x, dim=dim)"),
    TEXT("trapz.dx(Tensor y, *, float dx=1, int dim=-1) -> Tensor", "trapezoid(y, dx=dx, dim=dim)"),
    TEXT("_trapezoid_x(Tensor y, Tensor x, int dim) -> Tensor", PANELS "div(sum(p, [e]), 2)"),
    TEXT("_trapezoid_dx(Tensor y, float dx, int dim) -> Tensor", EVEN "sum(p, [e])"),
    TEXT("cumulative_trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor", PANELS "div(cumsum(p, e), 2)"),
    TEXT("cumulative_trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor", EVEN "cumsum(p, e)"),
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
         "let u = if(x.rank == 0, reshape(x, [1]), x); _vander(u, if(is_none(N), u.size(-1), N))"),
    TEXT("_vander(Tensor x, SymInt N) -> Tensor",
         "if(N < 1, new_empty(if(is_int(x), to(x, i64), x), x.sizes + [0]), _powers_from_zero(x, N))"),
    TEXT("_powers_from_zero(Tensor x, SymInt N) -> Tensor",
         "let v = unsqueeze(if(is_int(x), to(x, i64), x), -1); let one = ones_like(v);"
         "cat([one, cumprod(mul(v, ones([N - 1], dtype=v.dtype)), -1)], -1)"),
    TEXT("resize_as(Tensor self, Tensor the_template, *, MemoryFormat? memory_format=None) -> Tensor",
         "let x = clone(self); if(is_none(memory_format) && self.sizes == the_template.sizes, x, resize(x, "
         "the_template.sizes, memory_format=memory_format))"),
    LINSPACE("linspace.Tensor_Tensor(Tensor start, Tensor end"),
    LINSPACE("linspace.Tensor_Scalar(Tensor start, Scalar end"),
    LINSPACE("linspace.Scalar_Tensor(Scalar start, Tensor end"),
    {.schema = "msort(Tensor self) -> Tensor", .decompose = "let v, i = sort(self, 0); v"},
};
TC_OP_FAMILY(calculus);
