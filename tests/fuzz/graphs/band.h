// How far the results of a random graph may be from the references': measured by running these several times, once
// without rounding and otherwise with every input and every result moved at random by what a single op may be off
// (Vignes, "A stochastic arithmetic for reliable scientific computation", 1993; Higham, "Accuracy and stability of
// numerical algorithms", 2002, 1.5).
//
// A band is what these runs gave for one output. An element that is an integer in one run and another one in the next,
// or finite here and infinite there, is decided by rounding: it tells nothing. All others may differ by a multiple of
// what the runs do. A complex number with a part that is not finite stands for all such numbers: formulas that are
// equally good give one or another, as results and for what reads them.
#ifndef TC_TESTS_FUZZ_GRAPHS_BAND_H_
#define TC_TESTS_FUZZ_GRAPHS_BAND_H_

#include <math.h>

#include "tests/fuzz/graphs/compare.h"
#include "tests/fuzz/graphs/random.h"

enum { UNITS = 4 /* in the last place: what functions are held to elsewhere */ };

typedef struct band {
  tc_tensor first;      // the references' as they are; owned
  double *moved;        // by element: how far the runs are apart; infinite where rounding decides
  double most, largest; // of `moved` where that is finite, and of the elements
  int64_t undecided;    // elements that rounding decides
  bool open;            // sizes are decided by rounding
  bool any;             // there are other results that are as right
  bool factored;        // made of what a factorisation gave
} band;

static inline double unit_of(tc_dtype d) {
  switch (d) {
  case TC_BF16:
  case TC_BC32: return 0x1p-7;
  case TC_F16:
  case TC_C32: return 0x1p-10;
  case TC_F32:
  case TC_C64: return 0x1p-23;
  case TC_F64:
  case TC_C128: return 0x1p-52;
  default: return 0;
  }
}

// The least number with all digits.
static inline double normal_of(tc_dtype d) {
  return d == TC_F16 || d == TC_C32 ? 0x1p-14 : d == TC_F64 || d == TC_C128 ? 0x1p-1022 : 0x1p-126;
}

// ---- moving ----
// Other parts for a complex number that is not finite.
static inline void shake_infinite(uint64_t *noise, double *at) {
  static const double parts[] = {NAN, INFINITY, -INFINITY};
  for (int32_t k = 0; k < 2; k++) at[k] = parts[fuzz_random(noise) % 3];
}

// The components of floats in f64, to be moved and put back by close_wide: *out_n of them; 0: nothing can be moved.
static inline tc_status open_wide(const tc_tensor *t, tc_tensor *out, int64_t *out_n) {
  bool complex_numbers = tc_dtype_is_complex(t->dtype);
  *out_n = 0, *out = (tc_tensor){0};
  if (unit_of(t->dtype) == 0) return TC_OK;
  TC_TRY(tc_tensor_create(tc_system_allocator(), complex_numbers ? TC_C128 : TC_F64, t->rank, t->sizes, out));
  *out_n = tc_tensor_numel(t) * (complex_numbers ? 2 : 1);
  tc_status s = tc_tensor_copy(t, out);
  if (s != TC_OK) tc_tensor_unref(out);
  return s;
}

static inline tc_status close_wide(tc_tensor *wide, const tc_tensor *t) {
  tc_status s = tc_tensor_copy(wide, t);
  tc_tensor_unref(wide);
  return s;
}

// Moves each component by UNITS units at most, which are `unit` of itself, or (`norm`) of the largest of its matrix.
// With `norm`, *out_infinite is set where an element is not finite. What is not a number has either sign. A result
// (`made`) below the normal range may be zero, as what an op computes on its way to it.
static inline tc_status shake(uint64_t *noise, const tc_tensor *t, double unit, bool norm, bool made,
                              bool *out_infinite) {
  double largest = 0;
  int64_t n, parts = tc_dtype_is_complex(t->dtype) ? 2 : 1, matrix = parts;
  tc_tensor wide;
  TC_TRY(open_wide(t, &wide, &n));
  if (n == 0) return tc_tensor_unref(&wide), TC_OK;
  for (int32_t d = t->rank - 1; d >= 0 && d >= t->rank - 2; d--) matrix *= t->sizes[d];
  double *at = tc_tensor_data(&wide);
  for (int64_t i = 0; i < n; i++) {
    for (int64_t k = i; i % matrix == 0 && k < i + matrix; k++) {
      double size = fabs(at[k]);
      largest = fmax(k == i ? 0 : largest, isfinite(size) ? size : 0);
      *out_infinite |= norm && !isfinite(size);
    }
    double by = UNITS * unit * ((double)(fuzz_random(noise) >> 11) * 0x1p-52 - 1);
    if (isfinite(at[i])) at[i] += norm ? largest * by : at[i] * by;
    if (made && fabs(at[i]) < normal_of(t->dtype) && (fuzz_random(noise) & 1)) at[i] = copysign(0, at[i]);
    if (isnan(at[i])) at[i] = fuzz_random(noise) & 1 ? NAN : -NAN;
    if (norm && fabs(at[i]) <= UNITS * unit * largest && (fuzz_random(noise) & 1)) at[i] = 0;
    if (parts == 2 && i % 2 && !(isfinite(at[i]) && isfinite(at[i - 1]))) shake_infinite(noise, at + i - 1);
  }
  return close_wide(&wide, t);
}

// What a mean is off by its differences are all off by alike. It is as much at most as the moves of what was read make
// of single ones: `even` has all components as they are without any.
static inline tc_status shake_alike(uint64_t *noise, const tc_tensor *t, const double *even) {
  int64_t n;
  double most = 0;
  tc_tensor wide;
  TC_TRY(open_wide(t, &wide, &n));
  if (n == 0) return tc_tensor_unref(&wide), TC_OK;
  double *at = tc_tensor_data(&wide);
  for (int64_t i = 0; i < n; i++)
    if (isfinite(at[i]) && isfinite(even[i])) most = fmax(most, fabs(at[i] - even[i]));
  double by = most * ((double)(fuzz_random(noise) >> 11) * 0x1p-52 - 1);
  for (int64_t i = 0; i < n; i++) at[i] += by;
  return close_wide(&wide, t);
}

// Moves integers by one at most, those at the ends of their range inwards.
static inline tc_status shake_whole(uint64_t *noise, const tc_tensor *t) {
  tc_tensor wide;
  int32_t bits = 8 * tc_dtype_size(t->dtype);
  bool sign = t->dtype == TC_I8 || t->dtype == TC_I16 || t->dtype == TC_I32 || t->dtype == TC_I64;
  if (unit_of(t->dtype) > 0 || t->dtype == TC_BOOL || bits > 63 + sign) return TC_OK;
  int64_t high = INT64_MAX >> (63 + sign - bits), low = sign ? -high - 1 : 0;
  TC_TRY(tc_tensor_create(tc_system_allocator(), TC_I64, t->rank, t->sizes, &wide));
  tc_status s = tc_tensor_copy(t, &wide);
  int64_t *at = tc_tensor_data(&wide);
  for (int64_t i = 0, n = s == TC_OK ? tc_tensor_numel(t) : 0; i < n; i++) {
    int64_t by = (int64_t)(fuzz_random(noise) % 3) - 1;
    at[i] += at[i] == high ? -llabs(by) : at[i] == low ? llabs(by) : by;
  }
  if (s == TC_OK) s = tc_tensor_copy(&wide, t);
  tc_tensor_unref(&wide);
  return s;
}

// Has this number so many digits that it was rounded? The last third of the others' is 0.
static inline bool is_rounded(double v, double unit) {
  int exponent;
  return isfinite(v) && fmod(frexp(v, &exponent) * 2 / unit, exp2(-ilogb(unit) / 3)) != 0;
}

// What a decomposition gives on the way is moved by what it was rounded: a unit in the last place of what has all
// digits (random rounding, Vignes 1993). Numbers that are exact stay, so that places and truth values are what they
// are, unless they are sums (`sum`) of 16 bits: 1 + 1e-6 is 1 there.
static inline tc_status shake_rounded(uint64_t *noise, const tc_tensor *t, bool sum) {
  double unit = unit_of(t->dtype);
  int64_t n;
  tc_tensor wide;
  TC_TRY(open_wide(t, &wide, &n));
  if (n == 0) return tc_tensor_unref(&wide), TC_OK;
  double *at = tc_tensor_data(&wide);
  bool all = sum && unit >= 0x1p-10;
  for (int64_t i = 0; i < n; i++)
    if ((all && isfinite(at[i])) || is_rounded(at[i], unit))
      at[i] += at[i] * unit * ((double)(fuzz_random(noise) >> 11) * 0x1p-52 - 1);
  return close_wide(&wide, t);
}

// ---- elements ----
static inline tc_c128 element(const tc_tensor *t, const int64_t *index) {
  tc_c128 v;
  tc_tensor_get(t, index, &v.re, &v.im);
  return v;
}

static inline bool is_finite(tc_c128 v) { return isfinite(v.re) && isfinite(v.im); }
static inline double apart(tc_c128 a, tc_c128 b) { return hypot(a.re - b.re, a.im - b.im); }

static inline bool equal(const tc_tensor *a, const tc_tensor *b, const int64_t *index) {
  if (unit_of(a->dtype) == 0) return tc_tensor_get_int(a, index) == tc_tensor_get_int(b, index);
  tc_c128 x = element(a, index), y = element(b, index);
  if (tc_dtype_is_complex(a->dtype) && !is_finite(x) && !is_finite(y)) return true;
  return (x.re == y.re || (isnan(x.re) && isnan(y.re))) && (x.im == y.im || (isnan(x.im) && isnan(y.im)));
}

// ---- bands ----
// Takes over `first`.
static inline void band_start(band *b, tc_arena *arena, tc_tensor first) {
  int64_t index[TC_MAX_RANK], n = tc_tensor_numel(&first);
  *b = (band){.first = first, .moved = TC_NEW_ARRAY(arena, double, n)};
  for (int64_t e = 0; e < n; e++) {
    each(&first, e, index);
    tc_c128 v = element(&first, index);
    if (is_finite(v)) b->largest = fmax(b->largest, hypot(v.re, v.im));
  }
}

// Another run gave this.
static inline void band_widen(band *b, const tc_tensor *run) {
  const tc_tensor *first = &b->first;
  int64_t index[TC_MAX_RANK];
  b->open |= run->rank != first->rank;
  for (int32_t d = 0; d < first->rank && !b->open; d++) b->open = run->sizes[d] != first->sizes[d];
  if (b->open) return;
  for (int64_t e = 0, n = tc_tensor_numel(first); e < n; e++) {
    each(first, e, index);
    if (isinf(b->moved[e]) || equal(first, run, index)) continue;
    tc_c128 x = element(first, index), y = element(run, index);
    bool decided = unit_of(first->dtype) > 0 && is_finite(x) && is_finite(y);
    b->moved[e] = decided ? fmax(b->moved[e], apart(x, y)) : INFINITY;
    b->undecided += !decided;
    if (decided) b->most = fmax(b->most, b->moved[e]);
  }
}

static inline tc_status same_form(const tc_tensor *got, const tc_tensor *want, bool open, int32_t i) {
  if (got->dtype != want->dtype || got->rank != want->rank)
    return tc_error(TC_STATUS_MISMATCH, "output %d is %s of rank %d, expected %s of rank %d", i,
                    tc_dtype_name(got->dtype), got->rank, tc_dtype_name(want->dtype), want->rank);
  bool empty = tc_tensor_numel(want) == 0;
  for (int32_t d = 0; d < got->rank && !open; d++) {
    if (got->sizes[d] != want->sizes[d])
      return tc_error(TC_STATUS_MISMATCH, "output %d: size %d is %lld, expected %lld", i, d, (long long)got->sizes[d],
                      (long long)want->sizes[d]);
    if (want->sizes[d] > 1 && !empty && got->strides[d] != want->strides[d])
      return tc_error(TC_STATUS_MISMATCH, "output %d: stride %d is %lld, expected %lld", i, d,
                      (long long)got->strides[d], (long long)want->strides[d]);
  }
  return TC_OK;
}

// Is output i within its band? Integers may be off by `whole`.
static inline tc_status band_check(const band *b, const tc_tensor *got, double whole, int32_t i) {
  const tc_tensor *want = &b->first;
  double unit = unit_of(want->dtype), allowed = unit > 0 ? 16 * b->most + 64 * unit * b->largest + 1e-300 : whole;
  int64_t index[TC_MAX_RANK];
  TC_TRY(same_form(got, want, b->open, i));
  for (int64_t e = 0, n = b->open || b->any ? 0 : tc_tensor_numel(want); e < n; e++) {
    each(want, e, index);
    if (isinf(b->moved[e]) || equal(got, want, index)) continue;
    tc_c128 x = element(got, index), y = element(want, index);
    if (is_finite(x) && is_finite(y) && apart(x, y) <= allowed) continue;
    char at[200] = "";
    for (int32_t d = 0; d < got->rank; d++)
      snprintf(at + strlen(at), sizeof at - strlen(at), "%s%lld", d ? ", " : "", (long long)index[d]);
    return tc_error(TC_STATUS_MISMATCH, "output %d[%s] is %.9g + %.9gi, expected %.9g + %.9gi (allowed error %.3g)", i,
                    at, x.re, x.im, y.re, y.im, allowed);
  }
  return TC_OK;
}

#endif
