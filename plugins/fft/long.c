// Rows that no block can hold, as several nodes with memory between them.
//
// Four steps (Bailey, "FFTs in external or hierarchical memory", 1990): with N = N1 N2, j = N2 j1 + j2, k = k1 + N1 k2
//   X[k] = Σ_j2 w_N2^(j2 k2) ( w_N^(j2 k1) Σ_j1 w_N1^(j1 k1) x[j] ).
// The first stage transforms along j1, many j2 side by side, and turns what it stores; the second along j2, many k1
// side by side, and stores in order. Lengths without such factors are convolutions with a chirp (Bluestein), and real
// rows are complex ones of half the length with a step before or behind, as in stage.c.
#include <math.h>
#include <string.h>

#include "fft.h"

// Points that a block is asked to hold: a row and its copy lie on chip, also on devices with little memory there.
static int64_t limit_of(tc_dtype real) { return real == TC_F64 ? FFT_MAX_LENGTH / 8 : FFT_MAX_LENGTH / 4; }

// Whether a block holds a complex row of n. What is done as a convolution takes the room of its longer rows.
static bool fits(int64_t n, tc_dtype real) {
  fft_plan plan;
  int64_t most = limit_of(real);
  return n <= most && !fft_make_plan((int32_t)n, &(fft_limits){.max_lanes = 1024}, &plan) && plan.n <= most;
}

typedef struct row {
  tc_op_args *a;
  int32_t rank;
  tc_int sizes[TC_MAX_RANK]; // of all dimensions but the last
  tc_dtype storage;          // of results
  tc_dtype real, all;        // of the arithmetic
} row;

static tc_int number(const row *r, int64_t v) { return tc_int_const(r->a, v); }
static tc_bval real(const row *r, double v) { return tc_lo_const(r->a, r->real, v, 0); }
static tc_bval op1(const row *r, int32_t op, tc_bval x) { return tc_lo_op1(r->a, op, x); }
static tc_bval op2(const row *r, int32_t op, tc_bval x, tc_bval y) { return tc_lo_op2(r->a, op, x, y); }
static tc_bval choose(const row *r, tc_bval c, tc_bval x, tc_bval y) { return tc_lo_op3(r->a, TC_K_SELECT, c, x, y); }
static tc_bval pair(const row *r, tc_bval re, tc_bval im) { return op2(r, TC_K_COMPLEX, re, im); }
static tc_bval index_value(const row *r, tc_int e) { return tc_lo_index(r->a, e, TC_I64); }
static tc_bval whole(const row *r, int64_t v) { return tc_lo_const_int(r->a, TC_I64, v); }
static tc_bval less(const row *r, tc_int e, int64_t than) { return op2(r, TC_K_LT, index_value(r, e), whole(r, than)); }

// Opens a node over rows of n points; returns the index of the point.
static tc_int open(const row *r, int64_t n, tc_int *index) {
  tc_int sizes[TC_MAX_RANK];
  memcpy(sizes, r->sizes, sizeof sizes);
  sizes[r->rank - 1] = number(r, n);
  tc_lo_begin(r->a, r->rank, sizes, index);
  return index[r->rank - 1];
}
static tc_bval load(const row *r, tc_lt x, const tc_int *index, tc_int at) {
  tc_int i[TC_MAX_RANK];
  memcpy(i, index, sizeof *i * (size_t)r->rank);
  i[r->rank - 1] = at;
  tc_bval v = tc_lo_load(r->a, x, i);
  return tc_lo_cast(r->a, v, fft_is_complex(tc_lo_dtype(r->a, x)) ? r->all : r->real);
}
static tc_lt close(const row *r, tc_bval v, tc_dtype d) { return tc_lo_end(r->a, tc_lo_cast(r->a, v, d), d); }

// exp(sign 2πi e/n) for 0 ≤ e < n (i64), from an angle between -π and π.
static tc_bval unit(const row *r, tc_bval e, int64_t n, double sign) {
  tc_bval below = op2(r, TC_K_SUB, e, whole(r, n));
  tc_bval v = tc_lo_cast(r->a, choose(r, op2(r, TC_K_GT, e, whole(r, n / 2)), below, e), r->real);
  v = op2(r, TC_K_MUL, op2(r, TC_K_DIV, v, real(r, (double)n)), real(r, sign * 2 * FFT_PI));
  return pair(r, op1(r, TC_K_COS, v), op1(r, TC_K_SIN, v));
}

// ---- complex ----
static tc_lt template_node(const row *r, tc_lt x, int32_t rank, const tc_int *sizes, bool forward, int64_t norm,
                           int64_t columns, int64_t turn) {
  tc_int attrs[FFT_ATTRS];
  attrs[FFT_ATTR_KIND] = number(r, FFT_C2C);
  attrs[FFT_ATTR_FORWARD] = number(r, forward);
  attrs[FFT_ATTR_NORM] = number(r, norm);
  attrs[FFT_ATTR_MOST] = number(r, 0);
  attrs[FFT_ATTR_COLUMNS] = number(r, columns);
  attrs[FFT_ATTR_TURN] = number(r, turn);
  attrs[FFT_ATTR_LENGTH] = sizes[rank - 1];
  return tc_lo_template(r->a, "fft", 1, &x, r->storage, rank, sizes, FFT_ATTRS, attrs);
}

// The divisor next to the root such that both parts fit; those that fill vectors are better. 0: there is none.
static int64_t divisor(int64_t n, int64_t limit) {
  int64_t best = 0;
  for (int64_t d = 2; d * d <= n || d <= limit; d++) {
    if (d > limit || d > n / 2) break;
    if (n % d || n / d > limit) continue;
    double far = fabs(log((double)d * (double)d / (double)n)) + (d % 16 ? 2 : 0);
    double old = best ? fabs(log((double)best * (double)best / (double)n)) + (best % 16 ? 2 : 0) : HUGE_VAL;
    if (far < old) best = d;
  }
  return best;
}

static tc_lt chirp(const row *r, tc_lt x, int64_t n, bool forward, int64_t norm);

static tc_lt complex_row(const row *r, tc_lt x, int64_t n, bool forward, int64_t norm) {
  tc_op_args *a = r->a;
  int32_t last = r->rank - 1;
  tc_int sizes[TC_MAX_RANK + 1], index[TC_MAX_RANK + 1], map[TC_MAX_RANK + 1];
  memcpy(sizes, r->sizes, sizeof *sizes * (size_t)last);
  if (fits(n, r->real)) {
    sizes[last] = number(r, n);
    return template_node(r, x, r->rank, sizes, forward, norm, 0, 0);
  }
  int64_t n1 = divisor(n, limit_of(r->real)), n2 = n1 ? n / n1 : 0;
  if (!n1) return chirp(r, x, n, forward, norm);
  if (r->rank == TC_MAX_RANK) {
    tc_op_fail(a, "a transform of %lld points needs a dimension more than there can be", (long long)n);
    return -1;
  }
  // [j2, j1] of x; then [j2, k1]
  sizes[last] = number(r, n2), sizes[last + 1] = number(r, n1);
  tc_lo_indices(a, r->rank + 1, sizes, index);
  memcpy(map, index, sizeof *map * (size_t)last);
  map[last] = tc_int_add(a, tc_int_mul(a, index[last + 1], number(r, n2)), index[last]);
  x = tc_lo_view(a, x, r->rank + 1, sizes, index, map);
  x = template_node(r, x, r->rank + 1, sizes, forward, norm, 1, n);
  // [k1, j2]; then [k1, k2]
  sizes[last] = number(r, n1), sizes[last + 1] = number(r, n2);
  tc_lo_indices(a, r->rank + 1, sizes, index);
  memcpy(map, index, sizeof *map * (size_t)last);
  map[last] = index[last + 1], map[last + 1] = index[last];
  x = tc_lo_view(a, x, r->rank + 1, sizes, index, map);
  x = template_node(r, x, r->rank + 1, sizes, forward, norm, 3, 0);
  // k = k1 + n1 k2
  sizes[last] = number(r, n);
  tc_lo_indices(a, r->rank, sizes, index);
  memcpy(map, index, sizeof *map * (size_t)last);
  map[last] = tc_int_mod(a, index[last], number(r, n1)), map[last + 1] = tc_int_floordiv(a, index[last], number(r, n1));
  return tc_lo_view(a, x, r->rank, sizes, index, map);
}

// c[j] = exp(± πi j²/n)
static tc_bval chirp_value(const row *r, tc_int j, int64_t n, double sign) {
  tc_bval v = index_value(r, j);
  return unit(r, op2(r, TC_K_REM, op2(r, TC_K_MUL, v, v), whole(r, 2 * n)), 2 * n, sign);
}

// A table of them: a first pass loads many points in one place, where each would bring the code of its sine along.
static tc_lt chirp_table(const row *one, int64_t n, double sign) {
  tc_int index[TC_MAX_RANK], j = open(one, n, index);
  tc_bval v = chirp_value(one, j, n, sign);
  tc_lo_keep(one->a);
  return close(one, v, one->storage);
}

static tc_lt chirp(const row *r, tc_lt x, int64_t n, bool forward, int64_t norm) {
  tc_op_args *a = r->a;
  int64_t m = 1;
  while (m < 2 * n - 1) m *= 2;
  if (m > limit_of(r->real) * limit_of(r->real)) {
    tc_op_fail(a, "a transform of %lld points is too long", (long long)n);
    return -1;
  }
  row one = *r; // for all
  one.rank = 1;
  tc_lt chirps = chirp_table(&one, n, forward ? -1 : 1);
  tc_int index[TC_MAX_RANK], last = number(r, n - 1), j = open(r, m, index), in = tc_int_min(a, j, last);
  tc_bval zero = tc_lo_const(a, r->all, 0, 0);
  tc_bval v = op2(r, TC_K_MUL, load(r, x, index, in), load(&one, chirps, &in, in));
  x = complex_row(r, close(r, choose(r, less(r, j, n), v, zero), r->storage), m, true, 0);
  j = open(&one, m, index);
  tc_int d = tc_int_min(a, j, tc_int_sub(a, number(r, m), j)), from = tc_int_min(a, d, last);
  zero = tc_lo_const(a, r->all, 0, 0);
  tc_bval c = op1(r, TC_K_CONJ, load(&one, chirps, &from, from));
  tc_lt filter = complex_row(&one, close(&one, choose(r, less(r, d, n), c, zero), r->storage), m, true, 0);
  j = open(r, m, index);
  v = op2(r, TC_K_MUL, load(r, x, index, j), load(&one, filter, &j, j));
  x = complex_row(r, close(r, v, r->storage), m, false, 2);
  j = open(r, n, index);
  v = op2(r, TC_K_MUL, load(r, x, index, j), load(&one, chirps, &j, j));
  return close(r, op2(r, TC_K_MUL, v, tc_lo_const(a, r->all, fft_norm(norm, (double)n), 0)), r->storage);
}

// ---- real ----
// S + T of stage.c, from two values of a spectrum.
static tc_bval joined(const row *r, tc_bval x, tc_bval y, tc_bval turn, double sign, double scale) {
  tc_bval mirror = op1(r, TC_K_CONJ, y), s = op2(r, TC_K_ADD, x, mirror), d = op2(r, TC_K_SUB, x, mirror);
  tc_bval i = tc_lo_const(r->a, r->all, 0, sign), t = op2(r, TC_K_MUL, op2(r, TC_K_MUL, d, turn), i);
  return op2(r, TC_K_MUL, op2(r, TC_K_ADD, s, t), tc_lo_const(r->a, r->all, scale, 0));
}

// N reals to `points` of the spectrum.
static tc_lt from_real(const row *r, tc_lt x, int64_t n, int64_t points, int64_t norm) {
  tc_op_args *a = r->a;
  tc_int index[TC_MAX_RANK], two = number(r, 2);
  if (n % 2) {
    tc_int j = open(r, n, index);
    tc_lt z = close(r, pair(r, load(r, x, index, j), real(r, 0)), r->storage);
    z = complex_row(r, z, n, true, norm);
    j = open(r, points, index);
    return close(r, load(r, z, index, j), r->storage);
  }
  int64_t m = n / 2;
  tc_int j = tc_int_mul(a, open(r, m, index), two);
  tc_bval re = load(r, x, index, j), im = load(r, x, index, tc_int_add(a, j, number(r, 1)));
  tc_lt z = complex_row(r, close(r, pair(r, re, im), r->storage), m, true, 0);
  tc_int k = open(r, points, index), size = number(r, m);
  tc_bval u = load(r, z, index, tc_int_mod(a, k, size));
  tc_bval v = load(r, z, index, tc_int_mod(a, tc_int_sub(a, number(r, n), k), size));
  return close(r, joined(r, u, v, unit(r, index_value(r, k), n, -1), -1, 0.5 * fft_norm(norm, (double)n)), r->storage);
}

// What has no mirror is real.
static tc_bval without_imaginary(const row *r, tc_bval alone, tc_bval v) {
  tc_bval im = op1(r, TC_K_IMAG, v);
  return pair(r, op1(r, TC_K_REAL, v), choose(r, alone, real(r, 0), im));
}

static tc_lt to_real(const row *r, tc_lt x, int64_t n, int64_t norm, tc_dtype dtype) {
  tc_op_args *a = r->a;
  tc_int index[TC_MAX_RANK], two = number(r, 2);
  if (n % 2) {
    tc_int j = open(r, n, index);
    tc_bval here = less(r, j, n / 2 + 1);
    tc_bval v = load(r, x, index, tc_int_min(a, j, tc_int_sub(a, number(r, n), j)));
    v = without_imaginary(r, less(r, j, 1), choose(r, here, v, op1(r, TC_K_CONJ, v)));
    tc_lt z = complex_row(r, close(r, v, r->storage), n, false, norm);
    j = open(r, n, index);
    return close(r, op1(r, TC_K_REAL, load(r, z, index, j)), dtype);
  }
  int64_t m = n / 2;
  tc_int k = open(r, m, index);
  tc_bval first = less(r, k, 1);
  tc_bval u = without_imaginary(r, first, load(r, x, index, k));
  tc_bval v = without_imaginary(r, first, load(r, x, index, tc_int_sub(a, number(r, m), k)));
  tc_bval z_value = joined(r, u, v, unit(r, index_value(r, k), n, 1), 1, fft_norm(norm, (double)n));
  tc_lt z = complex_row(r, close(r, z_value, r->storage), m, false, 0);
  tc_int j = open(r, n, index);
  tc_bval w = load(r, z, index, tc_int_floordiv(a, j, two));
  return close(r, choose(r, less(r, tc_int_mod(a, j, two), 1), op1(r, TC_K_REAL, w), op1(r, TC_K_IMAG, w)), dtype);
}

bool fft_is_long(int64_t n, int64_t kind, tc_dtype dtype) {
  bool half = kind != FFT_C2C && n % 2 == 0; // a real row lies there as one of half its length
  return !fits(half ? n / 2 : n, fft_real_of(dtype) == TC_F64 ? TC_F64 : TC_F32);
}

tc_lt fft_lower_long(tc_op_args *a, tc_lt x, int32_t rank, const tc_int *sizes, int64_t kind, bool forward, int64_t n,
                     int64_t norm, tc_dtype dtype) {
  tc_dtype storage = fft_complex_of(dtype);
  bool wide = storage == TC_C128;
  row r = {.a = a, .rank = rank, .storage = storage, .real = wide ? TC_F64 : TC_F32, .all = wide ? TC_C128 : TC_C64};
  memcpy(r.sizes, sizes, sizeof *sizes * (size_t)(rank - 1));
  // What lies between the steps is not rounded to 16 bits.
  if (storage == TC_C32 || storage == TC_BC32) r.storage = TC_C64;
  tc_lt y;
  int64_t points = n;
  if (kind == FFT_R2C) points = n / 2 + 1;
  if (kind == FFT_C2C) y = complex_row(&r, x, n, forward, norm);
  else if (kind == FFT_C2R) y = to_real(&r, x, n, norm, dtype);
  else y = from_real(&r, x, n, points, norm);
  if (kind == FFT_C2R || r.storage == storage) return y;
  tc_int index[TC_MAX_RANK], k = open(&r, points, index);
  return close(&r, load(&r, y, index, k), storage);
}
