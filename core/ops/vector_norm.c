// Norms of vectors and matrices, and distances, as texts. Definitions: PyTorch's documentation of torch.linalg.
//
// 16-bit floats are computed in f32 and rounded once.
#include "core/ops/ops.h"

enum { C = TC_OP_COMPLEX };
#define TEXT(s, d) {.schema = s, .traits = C, .decompose = d}
#define REAL(s, d) {.schema = s, .decompose = d}
// The result's dtype is the real one of `dtype`, else of self.
#define WIDE                                                                          \
  "let out = if(is_none(dtype), self.real_dtype, zeros([], dtype=dtype).real_dtype);" \
  "let v = if(is_none(dtype), self, to(self, dtype)); let x = abs(to(v, wide(v.dtype)));"
// By order: of absolute values x over dimensions `over`.
#define BY_ORDER(p)                                                                                     \
  "if(" p " == 2.0, sqrt(sum(mul(x, x), over, keepdim)), if(" p " == 1.0, sum(x, over, keepdim), if(" p \
  " == inf, amax(x, over, keepdim), if(" p " == -inf, amin(x, over, keepdim), if(" p                    \
  " == 0.0, sum(to(ne(x, 0), x.dtype), over, keepdim), pow(sum(pow(x, " p "), over, keepdim), 1.0 / " p ")))))) "
#define ALL_DIMS "let over = if(is_none(dim), [], dim); "
// ord of two dimensions: sums of columns or rows, singular values. `last` and `before` name the two behind movedim.
#define MATRIX                                                                                                      \
  "let a = movedim(self, dim, [-2, -1]); let m = if(is_none(dtype), a, to(a, dtype)); let rows = if(ord == 1.0 || " \
  "ord == "                                                                                                         \
  "-1.0, -2, -1); let large = ord > 0.0; let p = if(large, ord, 0.0 - ord);"                                        \
  "let s = if(p == 2.0, linalg_svdvals(m), sum(abs(m), [rows])); let r = if(large, amax(s, [-1]), amin(s, [-1]));"  \
  "if(p == 1.0 || p == 2.0 || p == inf, if(keepdim, movedim(unsqueeze(unsqueeze(r, -1), -1), [-2, -1], dim), r), "  \
  "fail(\"linalg.matrix_norm: this order is not supported; 1, -1, 2, -2, inf, -inf, fro and nuc are\"))"
#define NUCLEAR                                                                                                   \
  "let a = movedim(self, dim, [-2, -1]); let r = sum(linalg_svdvals(if(is_none(dtype), a, to(a, dtype))), [-1]);" \
  "if(keepdim, movedim(unsqueeze(unsqueeze(r, -1), -1), [-2, -1], dim), r)"

// What a distance r of order p changes by with the difference d, times g. Equal vectors let nothing through.
#define DISTANCE_SLOPE                                                                                        \
  "if(p == 0.0, zeros_like(mul(g, d)), if(p == 1.0, mul(g, sign(d)), if(p == inf, mul(mul(g, sign(d)), "      \
  "to(eq(abs(d), r), d.dtype)), if(p == 2.0, where(eq(r, 0), 0, div(mul(g, d), r)), where(if(p < 1.0, "       \
  "logical_or(eq(r, 0), eq(d, 0)), eq(r, 0)), 0, div(mul(mul(sign(d), pow(abs(d), p - 1.0)), g), pow(r, p - " \
  "1.0)))))))"
// The pair (i, j) of all n² has place k among those with i < j.
#define OF_PAIRS(x) "where(eq(i, j), 0, reshape(index_select(" x ", 0, reshape(k, [-1])), [n, n]))"
#define PDIST_BACKWARD                                                                                             \
  "let n = self.size(0); let j = arange(n); let i = unsqueeze(j, 1); let low = minimum(i, j); let high = "         \
  "maximum(i, j); let k = clamp(sub(add(mul(low, n), high), add(floor_divide(mul(low, add(low, 1)), 2), add(low, " \
  "1))), 0, n * (n - 1) // 2 - 1); let d = sub(unsqueeze(self, 1), unsqueeze(self, 0)); let g = "                  \
  "unsqueeze(" OF_PAIRS("grad") ", -1); let r = unsqueeze(" OF_PAIRS("pdist") ", -1);"                             \
                                                                              "sum(" DISTANCE_SLOPE ", [1])"
// v = saved_v: norms by dimension dim, of which w = v · g / norms.
#define FLOATS(x) "let of = if(is_int(" x "), fail(\"not implemented for integers\"), " x ");"
#define WEIGHT_NORM_BACKWARD                                                                                     \
  FLOATS("saved_v")                                                                                              \
  "let d = wide(saved_v.dtype); let v = to(saved_v, d); let gw = to(grad_w, d); let norms = to(saved_norms, d);" \
  "let k = if(dim < 0, dim + saved_v.rank, dim); let p = mul(gw, v); let s = if(saved_v.rank < 2, p, sum(p, "    \
  "range(0, k) + range(k + 1, saved_v.rank), true)); to(mul(div(saved_g, norms), sub(gw, mul(v, div(s, "         \
  "mul(norms, norms))))), saved_v.dtype), to(div(s, norms), saved_g.dtype)"

// The norm over all dimensions but one; they stay, with size 1.
static int32_t norm_except_expand(tc_op_args *a) {
  const tc_tensor_type *t = tc_op_tensor(a, 0);
  int64_t dim = tc_op_dim(a, 2, t->rank);
  tc_int over[TC_MAX_RANK];
  int32_t n = 0;
  if (dim < 0) return TC_STATUS_INVALID_ARGUMENT;
  if (!tc_dtype_is_float(t->dtype) && !tc_dtype_is_complex(t->dtype))
    return tc_op_fail(a, "norm(): input dtype should be either floating point or complex. Got %s instead.",
                      tc_dtype_torch_name(t->dtype));
  for (int32_t d = 0; d < t->rank; d++)
    if (d != dim) over[n++] = tc_int_const(a, d);
  tc_gv x = tc_ex_arg(a, 0);
  if (n == 0) { // no dimension to sum over, which an empty list would not say
    tc_ex_begin(a, "aten::unsqueeze");
    tc_ex_push(a, x);
    tc_ex_push_int(a, over[n++] = tc_int_const(a, 1));
    x = tc_ex_make(a, 1, NULL);
  }
  tc_ex_begin(a, "aten::linalg_vector_norm");
  tc_ex_push(a, x);
  tc_ex_push_arg(a, 1);
  tc_ex_push_ints(a, n, over);
  tc_ex_push_bool(a, t->rank > 1);
  tc_ex_result(a, 0, tc_ex_make(a, 1, NULL));
  return TC_STATUS_OK;
}

static const tc_op_def rows[] = {
    TEXT("linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? "
         "dtype=None) -> Tensor",
         WIDE ALL_DIMS "to(" BY_ORDER("float(ord)") ", out)"),
    TEXT("linalg_matrix_norm(Tensor self, Scalar ord, int[] dim=[-2, -1], bool keepdim=False, *, ScalarType? "
         "dtype=None) -> Tensor",
         MATRIX),
    TEXT("linalg_matrix_norm.str_ord(Tensor self, str ord=\"fro\", int[] dim=[-2, -1], bool keepdim=False, *, "
         "ScalarType? dtype=None) -> Tensor",
         "if(ord == \"nuc\", _nuclear_norm(self, dim, keepdim, dtype=dtype), linalg_vector_norm(self, 2, dim, keepdim, "
         "dtype=dtype))"),
    TEXT("_nuclear_norm(Tensor self, int[] dim=[-2, -1], bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
         NUCLEAR),
    TEXT("linalg_norm(Tensor self, Scalar? ord=None, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) "
         "-> Tensor",
         "if(is_none(ord), linalg_vector_norm(self, 2, dim, keepdim, dtype=dtype), if(if(is_none(dim), self.rank, "
         "len(dim)) == 2, linalg_matrix_norm(self, ord, if(is_none(dim), [0, 1], dim), keepdim, dtype=dtype), "
         "linalg_vector_norm(self, ord, dim, keepdim, dtype=dtype)))"),
    TEXT(
        "linalg_norm.ord_str(Tensor self, str ord, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> "
        "Tensor",
        "linalg_matrix_norm(self, ord, if(is_none(dim), [0, 1], dim), keepdim, dtype=dtype)"),
    TEXT("norm.Scalar(Tensor self, Scalar p=2) -> Tensor", "linalg_vector_norm(self, p)"),
    TEXT("norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor",
         "linalg_vector_norm(self, if(is_none(p), 2, p), dim, keepdim)"),
    TEXT("norm.ScalarOpt_dtype(Tensor self, Scalar? p, *, ScalarType dtype) -> Tensor",
         "linalg_vector_norm(self, if(is_none(p), 2, p), dtype=dtype)"),
    TEXT("norm.ScalarOpt_dim_dtype(Tensor self, Scalar? p, int[1] dim, bool keepdim, *, ScalarType dtype) -> Tensor",
         "linalg_vector_norm(self, if(is_none(p), 2, p), dim, keepdim, dtype=dtype)"),
    TEXT("frobenius_norm.dim(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
         "linalg_vector_norm(self, 2, dim, keepdim)"),
    TEXT("_weight_norm(Tensor v, Tensor g, int dim=0) -> Tensor",
         "mul(contiguous(v), div(g, if(dim == -1, linalg_vector_norm(v, 2), _norm_except(v, 2, dim))))"),
    REAL("_weight_norm_interface(Tensor v, Tensor g, int dim=0) -> (Tensor, Tensor)",
         FLOATS("v") "let n = norm_except_dim(to(v, wide(v.dtype)), 2, dim); let norms = if(v.dtype == bf16, n, to(n, "
                     "v.dtype)); "
                     "to(mul(v, div(g, n)), v.dtype), norms"),
    REAL("_weight_norm_interface_backward(Tensor grad_w, Tensor saved_v, Tensor saved_g, Tensor saved_norms, int dim) "
         "-> (Tensor, Tensor)",
         WEIGHT_NORM_BACKWARD),
    REAL("_weight_norm_differentiable_backward(Tensor grad_w, Tensor saved_v, Tensor saved_g, Tensor saved_norms, int "
         "dim) -> (Tensor, Tensor)",
         WEIGHT_NORM_BACKWARD),
    {.schema = "_norm_except(Tensor self, Scalar p, int dim) -> Tensor", .traits = C, .expand = norm_except_expand},
    TEXT("norm_except_dim(Tensor v, int pow=2, int dim=0) -> Tensor",
         "if(dim == -1, linalg_vector_norm(v, pow), _norm_except(v, pow, dim))"),
    TEXT("renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor",
         "let n = _norm_except(to(self, wide(self.dtype)), p, dim); let f = where(gt(n, maxnorm), "
         "mul(reciprocal(add(n, 0.0000001)), maxnorm), 1); contiguous(mul(self, to(f, self.real_dtype)))"),
    TEXT("dist(Tensor self, Tensor other, Scalar p=2) -> Tensor", "linalg_vector_norm(sub(self, other), p)"),
    TEXT("pairwise_distance(Tensor x1, Tensor x2, float p=2., float eps=1e-06, bool keepdim=False) -> Tensor",
         "linalg_vector_norm(add(sub(x1, x2), eps), p, [-1], keepdim)"),
    REAL("cdist(Tensor x1, Tensor x2, float p=2., int? compute_mode=None) -> Tensor",
         "linalg_vector_norm(sub(unsqueeze(x1, -2), unsqueeze(x2, -3)), p, [-1])"),
    REAL("_cdist_forward(Tensor x1, Tensor x2, float p, int? compute_mode) -> Tensor",
         "linalg_vector_norm(sub(unsqueeze(x1, -2), unsqueeze(x2, -3)), p, [-1])"),
    REAL(
        "_pdist_forward(Tensor self, float p=2.) -> Tensor",
        "let ij = triu_indices(self.size(0), self.size(0), 1); linalg_vector_norm(sub(index(self, [select(ij, 0, 0)]), "
        "index(self, [select(ij, 0, 1)])), p, [-1])"),
    REAL("pdist(Tensor self, float p=2.) -> Tensor", "_pdist_forward(contiguous(self), p)"),
    REAL("_euclidean_dist(Tensor x1, Tensor x2) -> Tensor",
         "let r = linalg_vector_norm(sub(unsqueeze(if(x1.rank == 1, unsqueeze(x1, 0), x1), -2), unsqueeze(x2, -3)), 2, "
         "[-1]); if(x1.rank == 1, squeeze(r, -2), r)"),
    REAL("_cdist_backward(Tensor grad_output, Tensor x1, Tensor x2, float p, Tensor cdist) -> Tensor",
         "let d = sub(unsqueeze(x1, -2), unsqueeze(x2, -3)); let g = unsqueeze(grad_output, -1); let r = "
         "unsqueeze(cdist, -1); sum(" DISTANCE_SLOPE ", [-2])"),
    REAL("_pdist_backward(Tensor grad, Tensor self, float p, Tensor pdist) -> Tensor",
         "if(self.size(0) < 2, zeros_like(self), _pdist_backward_of_pairs(grad, self, p, pdist))"),
    REAL("_pdist_backward_of_pairs(Tensor grad, Tensor self, float p, Tensor pdist) -> Tensor", PDIST_BACKWARD),
    TEXT("linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor",
         "if(!is_int(x) && x.dtype == y.dtype, sum(mul(conj(x), y), [dim]), fail(\"expected floats of the same "
         "dtype\"))"),
};
TC_OP_FAMILY(vector_norm);
