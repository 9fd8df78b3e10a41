// Counts, covariances and functions that take numbers apart, as texts over other ops. Definitions: PyTorch's
// documentation of torch.cov, torch.corrcoef, torch.mvlgamma and torch.frexp.
#include "core/ops/ops.h"

#define TEXT(s, d) {.schema = s, .decompose = d}
#define CTEXT(s, d) {.schema = s, .traits = TC_OP_COMPLEX, .decompose = d}

// Exponents by a logarithm, which may be one off beside powers of two: the fraction says where. In f64, where all
// powers of the narrower formats are exact; tiny numbers are scaled first.
#define FREXP                                                                                                          \
  "let w = to(self, f64); let a = abs(w); let tiny = lt(a, 1e-290); let s = where(tiny, mul(a, 18014398509481984.0), " \
  "a); let odd = logical_or(eq(a, 0), logical_not(isfinite(a))); let u = where(odd, 1.0, s);"                          \
  "let e = add(floor(log2(u)), 1.0); let h = floor(mul(e, 0.5));"                                                      \
  "let m = mul(mul(u, exp2(neg(h))), exp2(sub(h, e))); let over = ge(m, 1.0); let under = lt(m, 0.5);"                 \
  "let f = where(over, mul(m, 0.5), where(under, mul(m, 2.0), m));"                                                    \
  "let x = sub(add(e, to(over, f64)), add(to(under, f64), where(tiny, 54.0, 0.0)));"                                   \
  "to(where(odd, w, copysign(f, w)), self.dtype), to(where(odd, 0.0, x), i32)"

// base to evenly spaced exponents; of integers their ends are integers.
#define LOGSPACE                                                                                        \
  "let out = if(is_none(dtype), if(is_complex(start) || is_complex(end), c64, f32), dtype); let w = "   \
  "if(is_int(zeros([], dtype=out)), f64, wide(out)); let i = if(is_int(zeros([], dtype=out)), out, w);" \
  "let s = to(add(zeros([], dtype=w), start), i); let e = to(add(zeros([], dtype=w), end), i);"         \
  "to(pow(base, linspace(to(s, w), to(e, w), steps, dtype=w)), out)"

// PyTorch gives a view, whose holes stay.
static int32_t narrow_meta(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  tc_int sizes[TC_MAX_RANK];
  bool overlaps = false;
  if (t->rank == 0) return tc_op_fail(a, "narrow() cannot be applied to a 0-dim tensor");
  int64_t dim = tc_op_dim(a, 1, t->rank);
  if (dim < 0 || tc_op_require_size(a, tc_op_sym(a, 3))) return TC_STATUS_INVALID_ARGUMENT;
  for (int32_t d = 0; d < t->rank; d++) {
    sizes[d] = d == dim ? tc_op_sym(a, 3) : t->sizes[d];
    overlaps |= tc_sym_is_int(t->strides[d], 0) && !tc_sym_is_int(t->sizes[d], 1);
  }
  return tc_op_set_result(a, 0, t->dtype, t->rank, sizes, overlaps ? NULL : t->strides);
}

static const tc_op_def rows[] = {
    CTEXT("count_nonzero(Tensor self, int? dim=None) -> Tensor",
          "if(is_none(dim), sum(ne(self, 0)), sum(ne(self, 0), [dim]))"),
    CTEXT("count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor",
          "if(len(dim) == 0, sum(ne(self, 0)), sum(ne(self, 0), dim))"),
    CTEXT("cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor",
          "let d = if(is_int(self), f32, self.dtype); let x = to(if(self.rank < 2, reshape(self, [1, -1]), self), "
          "wide(d));"
          "to(squeeze(if(is_none(fweights) && is_none(aweights), _cov(x, float(correction)), _cov_weighted(x, "
          "float(correction), if(is_none(aweights), fweights, if(is_none(fweights), aweights, mul(fweights, "
          "aweights))), aweights))), d)"),
    CTEXT("_cov(Tensor self, float correction) -> Tensor",
          "let n = self.size(1); let c = sub(self, mean(self, [1], true)); let f = float(n) - correction;"
          "div(mm(c, t(conj(c))), max(f, 0.0))"),
    CTEXT(
        "_cov_weighted(Tensor self, float correction, Tensor weights, Tensor? aweights) -> Tensor",
        "let w = to(weights, self.real_dtype); let total = sum(w); let c = sub(self, div(sum(mul(self, w), [1], true), "
        "total)); let f = if(is_none(aweights), sub(total, correction), sub(total, div(mul(sum(mul(w, aweights)), "
        "correction), total))); div(mm(mul(c, w), t(conj(c))), clamp_min(f, 0))"),
    CTEXT("corrcoef(Tensor self) -> Tensor", "let c = cov(self); if(c.rank == 0, div(c, c), _correlation(c))"),
    CTEXT(
        "_correlation(Tensor self) -> Tensor",
        "let d = diagonal(self); let s = sqrt(if(is_complex(d), real(d), d)); let r = div(div(self, unsqueeze(s, 1)), "
        "unsqueeze(s, 0)); if(is_complex(r), complex(clamp(real(r), -1, 1), clamp(imag(r), -1, 1)), clamp(r, -1, 1))"),
    TEXT("mvlgamma(Tensor self, int p) -> Tensor",
         "let d = if(is_int(self), f32, self.dtype); let x = unsqueeze(to(self, wide(d)), -1);"
         "let k = mul(arange(p, dtype=x.dtype), -0.5);"
         "to(add(sum(lgamma(add(x, k)), [-1]), float(p * (p - 1)) * 0.28618247146235004355), d)"),
    TEXT("frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent)", FREXP),
    TEXT("argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor",
         "let v, i = sort.stable(self, stable=stable, dim=dim, descending=descending); i"),
    // From the place that a tensor holds; negative ones count from the end.
    {.schema = "narrow.Tensor(Tensor self, int dim, Tensor start, SymInt length) -> Tensor",
     .traits = TC_OP_COMPLEX,
     .meta = narrow_meta,
     .decompose = "let s = reshape(start, []); index_select(self, dim, add(where(lt(s, 0), add(s, self.size(dim)), s), "
                  "arange(length)))"},
    CTEXT("logspace(Scalar start, Scalar end, int steps, float base=10., *, ScalarType? dtype=None, Layout? "
          "layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
          LOGSPACE),
    CTEXT("logspace.Tensor_Tensor(Tensor start, Tensor end, int steps, float base=10., *, ScalarType? dtype=None, "
          "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
          LOGSPACE),
    CTEXT("logspace.Tensor_Scalar(Tensor start, Scalar end, int steps, float base=10., *, ScalarType? dtype=None, "
          "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
          LOGSPACE),
    CTEXT("logspace.Scalar_Tensor(Scalar start, Tensor end, int steps, float base=10., *, ScalarType? dtype=None, "
          "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
          LOGSPACE),
};
TC_OP_FAMILY(statistics);
