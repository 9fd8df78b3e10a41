// Dense linear algebra on column-major matrices of complex doubles, for references: plain and accurate, not fast.
// Element (i, j) of a matrix with m rows is a[i + j*m]. Nothing allocates: work space is the caller's. Real matrices
// are complex ones without imaginary parts, and stay so.
#ifndef TC_CORE_OPS_DENSE_H_
#define TC_CORE_OPS_DENSE_H_

#include <stdbool.h>
#include <stdint.h>

#include "core/base/complex_parts.h"

typedef double complex tc_z;

// A = P·L·U in place; pivots[k] is the row (from 0) that row k was exchanged with. The number (from 1) of the first
// zero on U's diagonal, or 0.
int64_t tc_dense_lu(int64_t m, int64_t n, tc_z *a, int64_t *pivots, bool pivot);
// The lower (else upper) triangle's Cholesky factor in place, the other triangle set to 0. The order of the first
// leading minor that is not positive, or 0.
int64_t tc_dense_cholesky(int64_t n, tc_z *a, bool upper);
// T·X = B in place, T triangular; op 0: T, 1: Tᵀ, 2: Tᴴ.
void tc_dense_triangular(int64_t n, const tc_z *t, bool upper, bool unit, int op, int64_t columns, tc_z *b);
// Householder QR as LAPACK has it: R above, vectors below the diagonal, tau[min(m, n)].
void tc_dense_qr(int64_t m, int64_t n, tc_z *a, tc_z *tau);
// The first `columns` columns of H₁·H₂·…·H_k into q (m × columns); vectors in a (m rows).
void tc_dense_householder(int64_t m, int64_t k, const tc_z *a, const tc_z *tau, int64_t columns, tc_z *q);
// Hermitian a (full) is overwritten by its eigenvectors; w ascending.
void tc_dense_eigh(int64_t n, tc_z *a, double *w, tc_z *work); // work: n²
// a (m × n, m ≥ n) becomes U (m × n), v the right vectors (n × n, not conjugated), s descending.
void tc_dense_svd(int64_t m, int64_t n, tc_z *a, double *s, tc_z *v);
// Fills columns from..m of the m × m matrix q so that it is unitary.
void tc_dense_complete(int64_t m, int64_t from, tc_z *q);
// Eigenvalues of a (destroyed) and, where v is not NULL, vectors of norm 1. False where the iteration does not
// converge.
bool tc_dense_eig(int64_t n, tc_z *a, tc_z *w, tc_z *v, tc_z *work); // work: n²
void tc_dense_exp(int64_t n, tc_z *a, tc_z *work);                   // work: 3n²
// L·D·Lᵀ (hermitian: Lᴴ) of the lower triangle by Bunch's and Kaufman's pivoting; pivots as LAPACK's (from 1, negative
// in pairs for 2 × 2 blocks). The first zero on D's diagonal (from 1), or 0.
int64_t tc_dense_ldl(int64_t n, tc_z *a, int64_t *pivots, bool hermitian);
void tc_dense_ldl_solve(int64_t n, const tc_z *a, const int64_t *pivots, bool hermitian, int64_t columns, tc_z *b);
void tc_dense_multiply(int64_t m, int64_t k, int64_t n, const tc_z *a, const tc_z *b, tc_z *c); // c = a·b

#endif
