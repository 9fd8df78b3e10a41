// Derivatives of factorisations and what is made of them, for matrices of any batch, real or complex.
//
// Sources: Giles, "Collected matrix derivative results for forward and reverse mode algorithmic differentiation"
// (2008); Walter and Lehmann, "Algorithmic differentiation of linear algebra functions" (2010) for QR; Murray,
// "Differentiation of the Cholesky decomposition" (2016); Boeddeker et al. (2017) for complex eigenvectors and singular
// vectors. Where a factor is unique up to phases, the gradient is that of losses which do not depend on them. ᴴ:
// adjoint().
#include "core/ops/ops.h"

#define UPPER(a, b) "linalg_solve_triangular(" a ", " b ", upper=true)"
#define NO_DIAGONAL(x) "sub(" x ", diag_embed(diagonal(" x ", 0, -2, -1)))"

// A = P L U with L [m, k], U [k, n]: with the larger part of the rectangle as a product with the square one.
// gl, gu: gradients of the factors' own elements.
#define LU_BACK(lu, p)                                                                                                \
  "let k = min(" lu ".size(-2), " lu ".size(-1)); let m = " lu ".size(-2); let n = " lu ".size(-1); let f = "         \
  "lu_unpack(" lu ", " p "); let l1 = narrow(f[1], -2, 0, k); let u1 = narrow(f[2], -1, 0, k);"                       \
  "let tall = m > n; let wide_ = n > m; let gl1 = tril(narrow(gl, -2, 0, k), -1); let gu1 = triu(narrow(gu, -1, 0, "  \
  "k)); let gl2 = narrow(gl, -2, k, m - k); let gu2 = narrow(gu, -1, k, n - k); let l2 = narrow(f[1], -2, k, m - k);" \
  "let u2 = narrow(f[2], -1, k, n - k); let left = matmul(adjoint(l1), gl1); let inner = add(tril(if(tall, "          \
  "left, if(wide_, sub(left, matmul(gu2, adjoint(u2))), left)), -1), triu(if(tall, sub(matmul(gu1, adjoint(u1)), "    \
  "matmul(adjoint(l2), gl2)), matmul(gu1, adjoint(u1)))));"                                                           \
  "let core = " UPPER(                                                                                                \
      "adjoint(l1)",                                                                                                  \
      "adjoint(" UPPER("u1", "adjoint(inner)") ")") ";"                                                               \
                                                    "let whole = if(tall, cat([core, adjoint(" UPPER(                 \
                                                        "u1", "adjoint(gl2)") ")], -2), "                             \
                                                                              "if(wide_, cat([core, " UPPER(          \
                                                                                  "adjoint(l1)",                      \
                                                                                  "gu2") "], -1), core)); let "       \
                                                                                         "back = matmul(f[0], "       \
                                                                                         "whole);"
#define LU_FACTOR(a)                                                                                              \
  "let gl = tril(narrow(grad, -1, 0, min(grad.size(-2), grad.size(-1))), -1); let gu = triu(narrow(grad, -2, 0, " \
  "min(grad.size(-2), grad.size(-1))));" LU_BACK("result", "result1") a ": back"
// What flows back from the factors that a determinant gives, too: added to `own`.
#define WITH_FACTORS(own, flows, g, lu, p)                                                           \
  "let gl = tril(" g ", -1); let gu = triu(" g ");" LU_BACK(lu, p) "let own = " own "; A: if(" flows \
                                                                   ", add(own, back), own)"

// X = A⁻ᴴ of a matrix with these factors, and the conjugate of its determinant.
#define INVERTED(x, d, lu)                                                                            \
  "let " x " = linalg_lu_solve(" lu ", pivots, eye(A.size(-1), dtype=A.dtype), adjoint=true); let " d \
  " = unsqueeze(unsqueeze(conj(prod(diagonal(" lu ", 0, -2, -1), -1)), -1), -1);"
// The gradient of det(A)ᴴ A⁻ᴴ: det(A)ᴴ (tr(Gᴴ X) X - X Gᴴ X).
#define COFACTORS_BACK(x, d)                                                                                       \
  "mul(" d ", sub(mul(sum(mul(conj(grad), " x "), [-2, -1], true), " x "), matmul(" x ", matmul(adjoint(grad), " x \
  "))))"

// (L, U) of a solution: A = P L U, gA = -gB Xᴴ and its like; then L and U as in any product.
#define SOLVED_LU                                                                                             \
  "let f = lu_unpack(LU, pivots); let gb = linalg_lu_solve(LU, pivots, grad, left=left, adjoint=!adjoint);"   \
  "let ga = neg(if(left, if(adjoint, matmul(result, adjoint(gb)), matmul(gb, adjoint(result))), if(adjoint, " \
  "matmul(adjoint(gb), result), matmul(adjoint(result), gb)))); let pa = matmul(adjoint(f[0]), ga);"          \
  "LU: add(tril(matmul(pa, adjoint(f[2])), -1), triu(matmul(adjoint(f[1]), pa))); B: gb"

#define EIGH                                                                                                         \
  "let v = if(compute_v, result1, _linalg_eigh(A, UPLO, true)[1]); let e = result; let gaps = add(sub(unsqueeze(e, " \
  "-2), unsqueeze(e, -1)), eye(e.size(-1), dtype=e.dtype)); let vectors = compute_v && flows1; let by_v = "          \
  "if(vectors, " NO_DIAGONAL(                                                                                        \
      "div(matmul(adjoint(v), grad1), gaps)") ", none); let by_e = diag_embed(to(grad, A.dtype)); A: "               \
                                              "matmul(matmul(v, "                                                    \
                                              "if(vectors, add(by_v, by_e), by_e)), adjoint(v))"
// gA = V⁻ᴴ (diag(gλ) + (Vᴴ gV - Vᴴ V diag(Re(Vᴴ gV))) / conj(λj - λi)) Vᴴ
#define EIG                                                                                                          \
  "let v = result1; let e = result; let vg = matmul(adjoint(v), grad1); let gauge = mul(matmul(adjoint(v), v), "     \
  "unsqueeze(to(real(diagonal(vg, 0, -2, -1)), vg.dtype), -2)); let gaps = add(conj(sub(unsqueeze(e, -2), "          \
  "unsqueeze(e, -1))), eye(e.size(-1), dtype=e.dtype)); let inner = " NO_DIAGONAL(                                   \
      "div(sub(vg, gauge), gaps)") "; "                                                                              \
                                   "self: linalg_solve(adjoint(v), matmul(if(flows1, add(inner, diag_embed(grad)), " \
                                   "diag_embed(grad)), adjoint(v)))"
#define SVD                                                                                                          \
  "let k = min(A.size(-2), A.size(-1)); let again = _linalg_svd(A, false, true); let u = if(compute_uv, "            \
  "narrow(result, -1, 0, k), again[0]); let vh = if(compute_uv, narrow(result2, -2, 0, k), again[2]); let s = "      \
  "to(result1, A.dtype); let gs = diag_embed(to(grad1, A.dtype));"                                                   \
  "let gu = narrow(grad, -1, 0, k); let gvh = narrow(grad2, -2, 0, k); let ug = matmul(adjoint(u), gu); let vg = "   \
  "matmul(vh, adjoint(gvh)); let us = sub(ug, adjoint(ug)); let vs = sub(vg, adjoint(vg)); let s2 = mul(s, s); let " \
  "gaps = add(sub(unsqueeze(s2, -2), unsqueeze(s2, -1)), eye(k, dtype=A.dtype)); let inner = div(add(mul(us, "       \
  "unsqueeze(s, -2)), mul(unsqueeze(s, -1), vs)), gaps); let phase = if(is_complex(A), "                             \
  "diag_embed(div(diagonal(us, 0, -2, -1), mul(s, 2))), 0); let core = add(add(" NO_DIAGONAL(                        \
      "inner") ", gs), phase);"                                                                                      \
               "let gsu = div(gu, unsqueeze(s, -2)); let gsv = div(gvh, unsqueeze(s, -1)); let beside_u = "          \
               "if(A.size(-2) > k, "                                                                                 \
               "matmul(sub(gsu, matmul(u, matmul(adjoint(u), gsu))), vh), 0); let beside_v = if(A.size(-1) > k, "    \
               "matmul(u, "                                                                                          \
               "sub(gsv, matmul(matmul(gsv, adjoint(vh)), vh))), 0); A: if(compute_uv && (flows || flows2), "        \
               "add(add(matmul(matmul(u, core), vh), "                                                               \
               "beside_u), beside_v), matmul(matmul(u, gs), vh))"
// Q R of a tall matrix; of a wide one, that of its first columns, and R's others by the product.
#define HALF_DIAGONAL(x) "sub(" x ", mul(diag_embed(diagonal(" x ", 0, -2, -1)), 0.5))"
#define QR                                                                                                            \
  "let m = A.size(-2); let n = A.size(-1); let q = if(mode == \"r\", fail(\"the derivative of qr needs Q: mode 'r' "  \
  "does not give it\"), if(mode == \"complete\" && m > n, fail(\"qr with mode 'complete' has no derivative for more " \
  "rows than columns\"), result)); let k = min(m, n); let wide_ = n > m; let r1 = narrow(result1, -1, 0, k); let "    \
  "gr1 = narrow(grad1, -1, 0, k); let a2 = narrow(A, -1, k, n - k); let gr2 = narrow(grad1, -1, k, n - k); let gq = " \
  "if(wide_, add(grad, matmul(a2, adjoint(gr2))), grad); let t = triu(sub(matmul(gr1, adjoint(r1)), "                 \
  "matmul(adjoint(q), gq))); let both = add(t, adjoint(t)); let sym = " HALF_DIAGONAL(                                \
      "both") "; let core = "                                                                                         \
              "add(gq, matmul(q, sym)); let first = adjoint(" UPPER("r1",                                             \
                                                                    "adjoint(core)") "); A: if(wide_, cat([first, "   \
                                                                                     "matmul(q, gr2)], -1), first)"
#define INVERSE(x) x ": neg(matmul(adjoint(result), matmul(grad, adjoint(result))))"
// With P for the pseudoinverse; the shorter products first.
#define PSEUDO(x)                                                                                                  \
  "let p = result; let ph = adjoint(p); let gh = adjoint(grad); let k = if(" x ".size(-2) <= " x ".size(-1), "     \
  "matmul(gh, p), matmul(p, gh)); let kp = if(" x ".size(-2) <= " x ".size(-1), matmul(k, ph), matmul(ph, k)); " x \
  ": if(" x ".size(-2) <= " x ".size(-1), add(sub(sub(kp, adjoint(matmul(p, k))), matmul(matmul(" x ", p), kp)), " \
  "matmul(matmul(ph, p), sub(gh, matmul(k, " x                                                                     \
  ")))), add(sub(sub(kp, adjoint(matmul(k, p))), matmul(matmul(kp, p), " x ")), matmul(matmul(sub(gh, matmul(" x   \
  ", k)), p), ph)))"

static const tc_op_derivative derivatives[] = {
    {"_linalg_checked", "self: grad"},
    {"linalg_lu_factor_ex", LU_FACTOR("A")},
    {"_lu_with_info", LU_FACTOR("self")},
    {"lu_unpack",
     "let k = min(LU_data.size(-2), LU_data.size(-1)); LU_data: if(unpack_data, add(constant_pad_nd(tril(grad1, -1), "
     "[0, LU_data.size(-1) - k], 0), constant_pad_nd(triu(grad2), [0, 0, 0, LU_data.size(-2) - k], 0)), none)"},
    {"linalg_lu_solve", SOLVED_LU},
    {"linalg_cholesky_ex",
     "let l = if(upper, adjoint(result), result); let g = if(upper, adjoint(grad), grad); let t = "
     "tril(matmul(adjoint(l), g)); let phi = mul(add(t, adjoint(tril(t, -1))), 0.5); let x = " UPPER(
         "adjoint(l)", "phi") "; self: adjoint(" UPPER("adjoint(l)", "adjoint(x)") ")"},
    {"cholesky_solve",
     "let gb = cholesky_solve(grad, input2, upper); let common = matmul(gb, adjoint(result)); let both = add(common, "
     "adjoint(common)); self: gb; input2: neg(if(upper, matmul(input2, both), matmul(both, input2)))"},
    {"cholesky_inverse",
     "let both = matmul(result, matmul(add(grad, adjoint(grad)), result)); self: neg(if(upper, matmul(self, both), "
     "matmul(both, self)))"},
    {"linalg_solve_triangular",
     "let gb = linalg_solve_triangular(adjoint(self), grad, upper=!upper, left=left, unitriangular=unitriangular); let "
     "ga = neg(if(left, matmul(gb, adjoint(result)), matmul(adjoint(result), gb))); self: if(upper, triu(ga, "
     "if(unitriangular, 1, 0)), tril(ga, if(unitriangular, -1, 0))); B: gb"},
    {"linalg_qr", QR},
    // I - V T Vᴴ with T = (I + D · triu(Vᴴ V, 1))⁻¹ D, D = diag(tau): Schreiber and Van Loan (1989).
    {"linalg_householder_product",
     "let m = input.size(-2); let n = input.size(-1); let k = tau.size(-1); let v = add(tril(narrow(input, -1, 0, "
     "k), -1), eye(m, k, dtype=input.dtype)); let inner = mul(unsqueeze(tau, -1), triu(matmul(adjoint(v), v), 1)); let "
     "t "
     "= linalg_solve_triangular(add(inner, eye(k, dtype=input.dtype)), diag_embed(tau), upper=true, "
     "unitriangular=true);"
     "forward: sub(eye(m, n, dtype=input.dtype), matmul(v, matmul(t, adjoint(narrow(v, -2, 0, n)))))"},
    {"_linalg_eigh", EIGH},
    {"linalg_eig", EIG},
    {"linalg_eigvals", "forward: linalg_eig(self)[0]"},
    {"_linalg_svd", SVD},
    // The derivative at A in the direction of the gradient is the upper right block of the exponential of [Aᴴ G; 0 Aᴴ].
    {"_matrix_exp", "let n = self.size(-1); let w = wide(self.dtype); let a = to(adjoint(self), w); let e = "
                    "matrix_exp(cat([cat([a, to(grad, w)], -1), cat([zeros_like(a), "
                    "a], -1)], -2)); self: narrow(narrow(e, -2, 0, n), -1, n, n)"},
    {"linalg_inv", INVERSE("A")},
    {"linalg_inv_ex", INVERSE("A")},
    {"_pinv", PSEUDO("A")},
    {"_pinv_hermitian", PSEUDO("A")},
    {"_linalg_det", WITH_FACTORS("mul(unsqueeze(unsqueeze(grad, -1), -1), _linalg_cofactors(A, result1, result2))",
                                 "flows1", "grad1", "result1", "result2")},
    // In one element of U each cofactor and each of its derivatives is linear, so where that element is next to nothing
    // it is moved by as much both ways, and the mean is what it is without a division by it.
    {"_linalg_cofactors",
     "let d = abs(diagonal(LU, 0, -2, -1)); let top = if(LU.size(-1) == 0, d, unsqueeze(amax(abs(triu(LU)), [-2, -1]), "
     "-1)); let step = "
     "mul(where(eq(top, 0), ones_like(top), top), eps(A.dtype) ** 0.333); let move = diag_embed(to(where(lt(d, "
     "mul(step, 0.5)), step, 0), A.dtype)); let up = add(LU, move); let down = sub(LU, move); let sign = "
     "_linalg_pivot_sign(pivots);" INVERTED("x", "dx", "up") INVERTED("y", "dy", "down") "A: mul(add(" COFACTORS_BACK(
         "x", "dx") ", " COFACTORS_BACK("y", "dy") "), unsqueeze(unsqueeze(mul(sign, 0.5), -1), -1))"},
    {"_linalg_slogdet",
     "let g = if(is_complex(A), complex(grad1, neg(imag(mul(conj(grad), result)))), grad1);" WITH_FACTORS(
         "linalg_lu_solve(result2, result3, mul(unsqueeze(unsqueeze(g, -1), -1), eye(A.size(-1), dtype=A.dtype)), "
         "adjoint=true)",
         "flows2", "grad2", "result2", "result3")},
};
TC_OP_DERIVATIVES(linalg_derivatives);
