// Dense factorisations (dense.h). Algorithms: Golub, Van Loan: Matrix Computations, 4th edition, by section number
// below; choices that decide the result (pivots, signs) are LAPACK's.
#include "core/ops/dense.h"

#include <float.h>
#include <math.h>
#include <stddef.h>

static double size1(tc_z z) { return fabs(creal(z)) + fabs(cimag(z)); }
static double squared(tc_z z) { return creal(z) * creal(z) + cimag(z) * cimag(z); }
static void swap(tc_z *x, tc_z *y) {
  tc_z t = *x;
  *x = *y, *y = t;
}
// Real factors scale the parts, so that real matrices stay real and infinities clean.
static tc_z over(tc_z x, tc_z y) { return cimag(y) == 0 ? CMPLX(creal(x) / creal(y), cimag(x) / creal(y)) : x / y; }

// 3.4.1: outer products with partial pivoting.
int64_t tc_dense_lu(int64_t m, int64_t n, tc_z *a, int64_t *pivots, bool pivot) {
  int64_t info = 0;
  for (int64_t k = 0; k < m && k < n; k++) {
    int64_t p = k;
    for (int64_t i = k + 1; i < m && pivot; i++)
      if (size1(a[i + k * m]) > size1(a[p + k * m])) p = i;
    pivots[k] = p;
    if (a[p + k * m] == 0) {
      if (!info) info = k + 1;
      continue;
    }
    for (int64_t j = 0; j < n && p != k; j++) swap(&a[k + j * m], &a[p + j * m]);
    for (int64_t i = k + 1; i < m; i++) {
      tc_z f = a[i + k * m] = over(a[i + k * m], a[k + k * m]);
      for (int64_t j = k + 1; j < n; j++) a[i + j * m] -= f * a[k + j * m];
    }
  }
  return info;
}

// 4.2.5, on the lower triangle; the upper one is its conjugate transpose.
int64_t tc_dense_cholesky(int64_t n, tc_z *a, bool upper) {
  for (int64_t j = 0; j < n && upper; j++)
    for (int64_t i = j + 1; i < n; i++) a[i + j * n] = conj(a[j + i * n]);
  int64_t info = 0;
  for (int64_t j = 0; j < n; j++) {
    double d = creal(a[j + j * n]);
    for (int64_t k = 0; k < j; k++) d -= squared(a[j + k * n]);
    if (!(d > 0)) {
      a[j + j * n] = d; // as LAPACK leaves it
      info = j + 1;
      break;
    }
    a[j + j * n] = sqrt(d);
    for (int64_t i = j + 1; i < n; i++) {
      tc_z s = a[i + j * n];
      for (int64_t k = 0; k < j; k++) s -= a[i + k * n] * conj(a[j + k * n]);
      a[i + j * n] = over(s, a[j + j * n]);
    }
  }
  for (int64_t j = 0; j < n; j++) {
    for (int64_t i = 0; i < j; i++) {
      a[i + j * n] = upper ? conj(a[j + i * n]) : 0;
      if (upper) a[j + i * n] = 0;
    }
  }
  return info;
}

void tc_dense_triangular(int64_t n, const tc_z *t, bool upper, bool unit, int op, int64_t columns, tc_z *b) {
  bool backward = upper == (op == 0);
  for (int64_t c = 0; c < columns; c++) {
    tc_z *x = b + c * n;
    for (int64_t step = 0; step < n; step++) {
      int64_t i = backward ? n - 1 - step : step;
      tc_z s = x[i];
      for (int64_t k = backward ? i + 1 : 0; k < (backward ? n : i); k++) {
        tc_z e = op == 0 ? t[i + k * n] : t[k + i * n];
        s -= (op == 2 ? conj(e) : e) * x[k];
      }
      tc_z d = op == 2 ? conj(t[i + i * n]) : t[i + i * n];
      x[i] = unit ? s : over(s, d);
    }
  }
}

// I - tau·v·vᴴ from the left on columns of c; v[0] is 1.
static void reflect(int64_t rows, const tc_z *v, tc_z tau, int64_t columns, tc_z *c, int64_t stride) {
  for (int64_t j = 0; j < columns; j++) {
    tc_z *x = c + j * stride, s = x[0];
    for (int64_t i = 1; i < rows; i++) s += conj(v[i]) * x[i];
    s *= tau;
    x[0] -= s;
    for (int64_t i = 1; i < rows; i++) x[i] -= v[i] * s;
  }
}
// The reflection that maps x to beta·e₁ with real beta (5.1.4; LAPACK's larfg): x becomes beta, v[1…].
static tc_z reflection(int64_t n, tc_z *x) {
  double tail = 0;
  for (int64_t i = 1; i < n; i++) tail = hypot(tail, cabs(x[i]));
  if (tail == 0 && cimag(x[0]) == 0) return 0;
  double beta = -copysign(hypot(cabs(x[0]), tail), creal(x[0]));
  tc_z tau = CMPLX((beta - creal(x[0])) / beta, -cimag(x[0]) / beta), d = x[0] - beta;
  for (int64_t i = 1; i < n; i++) x[i] = over(x[i], d);
  x[0] = beta;
  return tau;
}
void tc_dense_qr(int64_t m, int64_t n, tc_z *a, tc_z *tau) {
  for (int64_t k = 0; k < m && k < n; k++) {
    tau[k] = reflection(m - k, a + k + k * m);
    reflect(m - k, a + k + k * m, conj(tau[k]), n - k - 1, a + k + (k + 1) * m, m);
  }
}
void tc_dense_householder(int64_t m, int64_t k, const tc_z *a, const tc_z *tau, int64_t columns, tc_z *q) {
  for (int64_t j = 0; j < columns; j++)
    for (int64_t i = 0; i < m; i++) q[i + j * m] = i == j;
  for (int64_t r = k - 1; r >= 0; r--) reflect(m - r, a + r + r * m, tau[r], columns, q + r, m);
}

// 8.5.4: cyclic Jacobi rotations, each with the phase that makes the pivot real.
void tc_dense_eigh(int64_t n, tc_z *a, double *w, tc_z *v) {
  for (int64_t j = 0; j < n; j++)
    for (int64_t i = 0; i < n; i++) v[i + j * n] = i == j;
  for (int sweep = 0; sweep < 60; sweep++) {
    double off = 0, all = 0;
    for (int64_t j = 0; j < n; j++)
      for (int64_t i = 0; i < n; i++) all += squared(a[i + j * n]), off += i == j ? 0 : squared(a[i + j * n]);
    if (!(off > all * 1e-36)) break;
    for (int64_t p = 0; p < n; p++) {
      for (int64_t q = p + 1; q < n; q++) {
        double r = cabs(a[p + q * n]);
        if (r == 0) continue;
        tc_z phase = a[p + q * n] / r;
        double theta = (creal(a[q + q * n]) - creal(a[p + p * n])) / (2 * r),
               t = copysign(1, theta) / (fabs(theta) + hypot(theta, 1)), c = 1 / hypot(t, 1), s = t * c;
        for (int64_t k = 0; k < n; k++) { // columns: x_p c - conj(phase) s x_q, phase s x_p + c x_q
          tc_z x = a[k + p * n], y = a[k + q * n];
          a[k + p * n] = c * x - s * conj(phase) * y, a[k + q * n] = s * phase * x + c * y;
          x = v[k + p * n], y = v[k + q * n];
          v[k + p * n] = c * x - s * conj(phase) * y, v[k + q * n] = s * phase * x + c * y;
        }
        for (int64_t k = 0; k < n; k++) {
          tc_z x = a[p + k * n], y = a[q + k * n];
          a[p + k * n] = c * x - s * phase * y, a[q + k * n] = s * conj(phase) * x + c * y;
        }
        a[p + q * n] = a[q + p * n] = 0;
      }
    }
  }
  for (int64_t k = 0; k < n; k++) w[k] = creal(a[k + k * n]);
  for (int64_t i = 0; i < n; i++) { // ascending
    int64_t least = i;
    for (int64_t k = i + 1; k < n; k++)
      if (w[k] < w[least]) least = k;
    double t = w[i];
    w[i] = w[least], w[least] = t;
    for (int64_t k = 0; k < n && least != i; k++) swap(&v[k + i * n], &v[k + least * n]);
  }
  for (int64_t k = 0; k < n * n; k++) a[k] = v[k];
}

// 8.6.3: one-sided Jacobi: columns are made orthogonal; their norms are the singular values.
void tc_dense_svd(int64_t m, int64_t n, tc_z *a, double *s, tc_z *v) {
  for (int64_t j = 0; j < n; j++)
    for (int64_t i = 0; i < n; i++) v[i + j * n] = i == j;
  bool rotated = true;
  for (int sweep = 0; sweep < 60 && rotated; sweep++) {
    rotated = false;
    for (int64_t p = 0; p < n; p++) {
      for (int64_t q = p + 1; q < n; q++) {
        double x2 = 0, y2 = 0;
        tc_z xy = 0;
        for (int64_t k = 0; k < m; k++) {
          x2 += squared(a[k + p * m]), y2 += squared(a[k + q * m]);
          xy += conj(a[k + p * m]) * a[k + q * m];
        }
        double r = cabs(xy);
        if (!(r > 1e-17 * sqrt(x2 * y2)) || r < DBL_MIN) continue;
        rotated = true;
        tc_z phase = xy / r;
        double theta = (y2 - x2) / (2 * r), t = copysign(1, theta) / (fabs(theta) + hypot(theta, 1)),
               c = 1 / hypot(t, 1), e = t * c;
        for (int64_t k = 0; k < m; k++) {
          tc_z x = a[k + p * m], y = a[k + q * m];
          a[k + p * m] = c * x - e * conj(phase) * y, a[k + q * m] = e * phase * x + c * y;
        }
        for (int64_t k = 0; k < n; k++) {
          tc_z x = v[k + p * n], y = v[k + q * n];
          v[k + p * n] = c * x - e * conj(phase) * y, v[k + q * n] = e * phase * x + c * y;
        }
      }
    }
  }
  for (int64_t j = 0; j < n; j++) {
    s[j] = 0;
    for (int64_t k = 0; k < m; k++) s[j] = hypot(s[j], cabs(a[k + j * m]));
  }
  for (int64_t i = 0; i < n; i++) { // descending
    int64_t most = i;
    for (int64_t k = i + 1; k < n; k++)
      if (s[k] > s[most]) most = k;
    double t = s[i];
    s[i] = s[most], s[most] = t;
    for (int64_t k = 0; k < m && most != i; k++) swap(&a[k + i * m], &a[k + most * m]);
    for (int64_t k = 0; k < n && most != i; k++) swap(&v[k + i * n], &v[k + most * n]);
  }
  int64_t rank = 0;
  for (; rank < n && s[rank] > 0 && s[rank] > s[0] * DBL_EPSILON * 1e-3; rank++)
    for (int64_t k = 0; k < m; k++) a[k + rank * m] /= s[rank];
  if (rank < n) { // what is left of U is any orthonormal complement
    for (int64_t j = rank; j < n; j++)
      for (int64_t k = 0; k < m; k++) a[k + j * m] = 0;
    for (int64_t j = rank; j < n; j++) {
      for (int64_t e = 0; e < m; e++) {
        tc_z *x = a + j * m;
        for (int64_t k = 0; k < m; k++) x[k] = k == e;
        double norm = 0;
        for (int pass = 0; pass < 2; pass++) {
          for (int64_t p = 0; p < j; p++) {
            tc_z d = 0;
            for (int64_t k = 0; k < m; k++) d += conj(a[k + p * m]) * x[k];
            for (int64_t k = 0; k < m; k++) x[k] -= d * a[k + p * m];
          }
        }
        for (int64_t k = 0; k < m; k++) norm = hypot(norm, cabs(x[k]));
        if (norm < 0.5 / sqrt((double)m)) continue;
        for (int64_t k = 0; k < m; k++) x[k] /= norm;
        break;
      }
    }
  }
}

// Gram's and Schmidt's process, twice, on unit vectors that are not nearly inside of the space already.
void tc_dense_complete(int64_t m, int64_t from, tc_z *q) {
  for (int64_t j = from, e = 0; j < m && e < m; e++) {
    tc_z *x = q + j * m;
    double norm = 0;
    for (int64_t k = 0; k < m; k++) x[k] = k == e;
    for (int pass = 0; pass < 2; pass++) {
      for (int64_t p = 0; p < j; p++) {
        tc_z d = 0;
        for (int64_t k = 0; k < m; k++) d += conj(q[k + p * m]) * x[k];
        for (int64_t k = 0; k < m; k++) x[k] -= d * q[k + p * m];
      }
    }
    for (int64_t k = 0; k < m; k++) norm = hypot(norm, cabs(x[k]));
    if (norm < 1e-6) continue;
    for (int64_t k = 0; k < m; k++) x[k] /= norm;
    j++;
  }
}

// 7.4.3 and 7.5.4: Hessenberg form by reflections, then single-shift QR steps (Wilkinson's shift) by Givens rotations;
// vectors by back substitution in the triangular form.
static void to_hessenberg(int64_t n, tc_z *a, tc_z *q, tc_z *work) {
  for (int64_t k = 0; k + 2 < n; k++) {
    tc_z *v = work, tau;
    for (int64_t i = k + 1; i < n; i++) v[i - k - 1] = a[i + k * n];
    tau = reflection(n - k - 1, v);
    a[k + 1 + k * n] = v[0];
    for (int64_t i = k + 2; i < n; i++) a[i + k * n] = 0;
    reflect(n - k - 1, v, conj(tau), n - k - 1, a + (k + 1) + (k + 1) * n, n);
    v[0] = 1;
    for (int pass = 0; pass < 2; pass++) { // from the right: a and q
      tc_z *x = pass ? q : a;
      for (int64_t i = 0; i < n && x; i++) {
        tc_z s = 0;
        for (int64_t j = 0; j < n - k - 1; j++) s += x[i + (k + 1 + j) * n] * v[j];
        for (int64_t j = 0; j < n - k - 1; j++) x[i + (k + 1 + j) * n] -= s * tau * conj(v[j]);
      }
    }
  }
}
static tc_z shift_of(int64_t n, const tc_z *a, int64_t hi) {
  tc_z p = a[hi - 1 + (hi - 1) * n], q = a[hi - 1 + hi * n], r = a[hi + (hi - 1) * n], s = a[hi + hi * n];
  tc_z half = (p - s) / 2, root = csqrt(half * half + q * r);
  tc_z d = cabs(half + root) > cabs(half - root) ? half + root : half - root;
  return d == 0 ? s : s - q * r / d;
}
static bool to_triangular(int64_t n, tc_z *a, tc_z *q) {
  int64_t hi = n - 1, tries = 0;
  while (hi > 0) {
    int64_t lo = hi;
    for (; lo > 0; lo--) {
      double around = cabs(a[lo - 1 + (lo - 1) * n]) + cabs(a[lo + lo * n]);
      if (cabs(a[lo + (lo - 1) * n]) <= DBL_EPSILON / 4 * around || cabs(a[lo + (lo - 1) * n]) < DBL_MIN) break;
    }
    if (lo > 0) a[lo + (lo - 1) * n] = 0;
    if (lo == hi) {
      hi--, tries = 0;
      continue;
    }
    if (++tries > 300) return false;
    tc_z mu = tries % 11 == 10 ? a[hi + hi * n] + cabs(a[hi + (hi - 1) * n]) : shift_of(n, a, hi);
    tc_z x = a[lo + lo * n] - mu, y = a[lo + 1 + lo * n];
    for (int64_t k = lo; k < hi; k++) {
      if (k > lo) x = a[k + (k - 1) * n], y = a[k + 1 + (k - 1) * n];
      double r = hypot(cabs(x), cabs(y));
      if (r == 0) continue;
      tc_z c = x / r, s = y / r;
      for (int64_t j = k > lo ? k - 1 : lo; j < n; j++) {
        tc_z u = a[k + j * n], v = a[k + 1 + j * n];
        a[k + j * n] = conj(c) * u + conj(s) * v, a[k + 1 + j * n] = -s * u + c * v;
      }
      int64_t last = k + 2 < hi ? k + 2 : hi;
      for (int64_t i = 0; i <= last; i++) {
        tc_z u = a[i + k * n], v = a[i + (k + 1) * n];
        a[i + k * n] = c * u + s * v, a[i + (k + 1) * n] = -conj(s) * u + conj(c) * v;
      }
      for (int64_t i = 0; i < n && q; i++) {
        tc_z u = q[i + k * n], v = q[i + (k + 1) * n];
        q[i + k * n] = c * u + s * v, q[i + (k + 1) * n] = -conj(s) * u + conj(c) * v;
      }
    }
  }
  return true;
}
bool tc_dense_eig(int64_t n, tc_z *a, tc_z *w, tc_z *v, tc_z *work) {
  for (int64_t j = 0; j < n && v; j++)
    for (int64_t i = 0; i < n; i++) v[i + j * n] = i == j;
  to_hessenberg(n, a, v, work);
  if (!to_triangular(n, a, v)) return false;
  double scale = 0;
  for (int64_t k = 0; k < n; k++) w[k] = a[k + k * n];
  for (int64_t k = 0; k < n * n; k++) scale = fmax(scale, cabs(a[k]));
  for (int64_t k = 0; k < n && v; k++) { // (T - w_k)·y = 0 with y_k = 1
    tc_z *y = work + k * n;
    for (int64_t i = 0; i < n; i++) y[i] = i == k;
    for (int64_t i = k - 1; i >= 0; i--) {
      tc_z s = -a[i + k * n], d = a[i + i * n] - w[k];
      for (int64_t j = i + 1; j < k; j++) s -= a[i + j * n] * y[j];
      if (cabs(d) < DBL_EPSILON * scale) d = DBL_EPSILON * (scale > 0 ? scale : 1);
      y[i] = s / d;
    }
  }
  for (int64_t i = 0; i < n && v; i++) { // v·y, row by row
    for (int64_t k = n - 1; k >= 0; k--) {
      tc_z s = 0;
      for (int64_t j = 0; j <= k; j++) s += v[i + j * n] * work[j + k * n];
      v[i + k * n] = s;
    }
  }
  for (int64_t k = 0; k < n && v; k++) {
    double norm = 0;
    for (int64_t i = 0; i < n; i++) norm = hypot(norm, cabs(v[i + k * n]));
    for (int64_t i = 0; i < n && norm > 0; i++) v[i + k * n] /= norm;
  }
  return true;
}

void tc_dense_multiply(int64_t m, int64_t k, int64_t n, const tc_z *a, const tc_z *b, tc_z *c) {
  for (int64_t j = 0; j < n; j++) {
    for (int64_t i = 0; i < m; i++) {
      tc_z s = 0;
      for (int64_t l = 0; l < k; l++) s += a[i + l * m] * b[l + j * k];
      c[i + j * m] = s;
    }
  }
}

// 9.3.1 with a Taylor sum in place of the quotient: the norm is brought below 1/2, where 18 terms are enough.
void tc_dense_exp(int64_t n, tc_z *a, tc_z *work) {
  tc_z *sum = work, *term = work + n * n, *next = work + 2 * n * n;
  double norm = 0;
  int halvings = 0;
  for (int64_t j = 0; j < n; j++) {
    double column = 0;
    for (int64_t i = 0; i < n; i++) column += cabs(a[i + j * n]);
    norm = fmax(norm, column);
  }
  for (; norm > 0.5 && halvings < 1100; norm /= 2) halvings++;
  for (int64_t k = 0; k < n * n; k++) a[k] = CMPLX(ldexp(creal(a[k]), -halvings), ldexp(cimag(a[k]), -halvings));
  for (int64_t k = 0; k < n * n; k++) sum[k] = term[k] = k % (n + 1) == 0;
  for (int order = 1; order <= 18; order++) {
    tc_dense_multiply(n, n, n, term, a, next);
    for (int64_t k = 0; k < n * n; k++) term[k] = next[k] / order, sum[k] += term[k];
  }
  for (; halvings > 0; halvings--) {
    tc_dense_multiply(n, n, n, sum, sum, next);
    for (int64_t k = 0; k < n * n; k++) sum[k] = next[k];
  }
  for (int64_t k = 0; k < n * n; k++) a[k] = sum[k];
}

// 4.4.4, as LAPACK's sytf2 and hetf2 on the lower triangle.
static tc_z mirrored(tc_z z, bool hermitian) { return hermitian ? conj(z) : z; }
int64_t tc_dense_ldl(int64_t n, tc_z *a, int64_t *pivots, bool hermitian) {
  const double alpha = (1 + sqrt(17)) / 8;
  int64_t info = 0;
  for (int64_t k = 0; k < n;) {
    if (hermitian) a[k + k * n] = creal(a[k + k * n]);
    double diagonal = size1(a[k + k * n]), most = 0;
    int64_t step = 1, p = k, r = k;
    for (int64_t i = k + 1; i < n; i++)
      if (size1(a[i + k * n]) > most) most = size1(a[i + k * n]), r = i;
    if (fmax(diagonal, most) == 0 || isnan(diagonal)) {
      if (!info) info = k + 1;
      pivots[k] = k + 1, k++;
      continue;
    }
    if (diagonal < alpha * most) {
      double row = 0;
      for (int64_t j = k; j < r; j++) row = fmax(row, size1(a[r + j * n]));
      for (int64_t i = r + 1; i < n; i++) row = fmax(row, size1(a[i + r * n]));
      if (diagonal >= alpha * most * (most / row)) p = k;
      else if (size1(hermitian ? creal(a[r + r * n]) : a[r + r * n]) >= alpha * row) p = r;
      else p = r, step = 2;
    }
    int64_t kk = k + step - 1;
    if (p != kk) {
      for (int64_t i = p + 1; i < n; i++) swap(&a[i + kk * n], &a[i + p * n]);
      for (int64_t j = kk + 1; j < p; j++) {
        tc_z t = mirrored(a[j + kk * n], hermitian);
        a[j + kk * n] = mirrored(a[p + j * n], hermitian), a[p + j * n] = t;
      }
      if (hermitian) a[p + kk * n] = conj(a[p + kk * n]);
      swap(&a[kk + kk * n], &a[p + p * n]);
      if (step == 2) swap(&a[k + 1 + k * n], &a[p + k * n]);
    }
    if (step == 1) {
      tc_z d = a[k + k * n];
      for (int64_t j = k + 1; j < n; j++) {
        tc_z f = over(mirrored(a[j + k * n], hermitian), d);
        for (int64_t i = j; i < n; i++) a[i + j * n] -= a[i + k * n] * f;
      }
      for (int64_t i = k + 1; i < n; i++) a[i + k * n] = over(a[i + k * n], d);
      pivots[k] = p + 1;
    } else {
      tc_z e = a[k + 1 + k * n], d11 = a[k + k * n], d22 = a[k + 1 + (k + 1) * n],
           det = d11 * d22 - e * mirrored(e, hermitian);
      for (int64_t j = k + 2; j < n; j++) { // rows of L: [x y] = [a_jk a_jk+1]·D⁻¹
        tc_z u = a[j + k * n], v = a[j + (k + 1) * n], x = (u * d22 - v * e) / det,
             y = (v * d11 - u * mirrored(e, hermitian)) / det;
        for (int64_t i = j; i < n; i++)
          a[i + j * n] -= a[i + k * n] * mirrored(x, hermitian) + a[i + (k + 1) * n] * mirrored(y, hermitian);
        a[j + k * n] = x, a[j + (k + 1) * n] = y;
      }
      pivots[k] = pivots[k + 1] = -(p + 1);
    }
    k += step;
  }
  return info;
}
void tc_dense_ldl_solve(int64_t n, const tc_z *a, const int64_t *pivots, bool hermitian, int64_t columns, tc_z *b) {
  for (int64_t c = 0; c < columns; c++) {
    tc_z *x = b + c * n;
    for (int64_t k = 0; k < n;) {
      int64_t step = pivots[k] > 0 ? 1 : 2, p = (pivots[k] > 0 ? pivots[k] : -pivots[k]) - 1;
      if (p != k + step - 1) swap(&x[k + step - 1], &x[p]);
      for (int64_t i = k + step; i < n; i++)
        for (int64_t s = 0; s < step; s++) x[i] -= a[i + (k + s) * n] * x[k + s];
      if (step == 1) {
        x[k] = over(x[k], a[k + k * n]);
      } else {
        tc_z e = a[k + 1 + k * n], d11 = a[k + k * n], d22 = a[k + 1 + (k + 1) * n], u = x[k], v = x[k + 1],
             det = d11 * d22 - e * mirrored(e, hermitian);
        x[k] = (d22 * u - mirrored(e, hermitian) * v) / det, x[k + 1] = (d11 * v - e * u) / det;
      }
      k += step;
    }
    for (int64_t k = n - 1; k >= 0;) {
      int64_t step = pivots[k] > 0 ? 1 : 2, first = k - step + 1, p = (pivots[k] > 0 ? pivots[k] : -pivots[k]) - 1;
      for (int64_t s = 0; s < step; s++)
        for (int64_t i = k + 1; i < n; i++) x[first + s] -= mirrored(a[i + (first + s) * n], hermitian) * x[i];
      if (p != k) swap(&x[k], &x[p]);
      k -= step;
    }
  }
}
