// Random fills: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC'11) with
// the element's row-major number as counter, so that values depend on neither strides nor order.
//
// Normals are Box-Muller pairs in double. The logarithm and the circular functions are computed here from operations
// that IEEE 754 defines exactly (the build forbids contraction), because those of C libraries differ in last bits and
// the fills must not.
#include <math.h>
#include <string.h>

#include "core/tensor/element.h"

static void philox(uint64_t seed, uint64_t counter, uint32_t out[4]) {
  uint32_t c0 = (uint32_t)counter, c1 = (uint32_t)(counter >> 32), c2 = 0, c3 = 0;
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  for (int round = 0; round < 10; round++) {
    const uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
    c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
    c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c1 = (uint32_t)p1, c3 = (uint32_t)p0;
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

// ln x for positive normal x: x = m 2^e with m in [√½, √2), ln m = 2 atanh((m-1)/(m+1)) by its series, |argument| <
// 0.172.
static double natural_log(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  int e = (int)(bits >> 52) - 1023;
  bits = (bits & ((1ull << 52) - 1)) | 1023ull << 52;
  double m;
  memcpy(&m, &bits, sizeof m);
  if (m > 1.4142135623730951) m *= 0.5, e++;
  const double s = (m - 1) / (m + 1), s2 = s * s;
  double sum = 0;
  for (int k = 21; k >= 1; k -= 2) sum = sum * s2 + 1.0 / k;
  return 2 * s * sum + e * 0.6931471805599453;
}

// Cosine and sine of 2πu, u in [0, 1): reduced to an eighth turn, then Taylor.
static void turn(double u, double *out_cos, double *out_sin) {
  const int quarter = (int)(u * 4 + 0.5);                                // nearest quarter turn
  const double x = (u - quarter * 0.25) * 6.283185307179586, x2 = x * x; // |x| ≤ π/4; the difference is exact
  double c = 0, s = 0;
  for (int k = 18; k >= 0; k -= 2) { // Horner over 1/(k+1)(k+2) factors
    c = 1 - c * x2 / ((k + 1.0) * (k + 2.0));
    s = 1 - s * x2 / ((k + 2.0) * (k + 3.0));
  }
  s *= x;
  switch (quarter & 3) {
  case 0: *out_cos = c, *out_sin = s; break;
  case 1: *out_cos = -s, *out_sin = c; break;
  case 2: *out_cos = -c, *out_sin = -s; break;
  default: *out_cos = s, *out_sin = -c; break;
  }
}

// 53 random bits as a multiple of 2^-53 in [0, 1).
static double unit(uint32_t high, uint32_t low) { return (double)(((uint64_t)high << 32 | low) >> 11) * 0x1p-53; }

void tc_tensor_fill_normal(const tc_tensor *t, uint64_t seed, double mean, double std) {
  int64_t index[TC_MAX_RANK] = {0};
  const bool complex = tc_dtype_is_complex(t->dtype);
  uint64_t counter = 0;
  for (bool more = tc_tensor_numel(t) > 0; more; more = tc_index_next(t->rank, t->sizes, index), counter++) {
    uint32_t bits[4];
    philox(seed, counter, bits);
    double c, s;
    turn(unit(bits[2], bits[3]), &c, &s);
    // 1 - u lies in (0, 1]. A complex value of variance 1 has two parts of variance 1/2: radius √(-ln) in place of
    // √(-2 ln), and both parts of the pair are used.
    const double radius = sqrt((complex ? -1.0 : -2.0) * natural_log(1 - unit(bits[0], bits[1])));
    double re = mean + std * (radius * c), im = complex ? std * (radius * s) : 0;
    if (t->neg) re = -re, im = -im; // lazy bits: what is read back is the value drawn
    if (t->conj) im = -im;
    tc_row_store_floats(t->dtype, tc_tensor_at(t, index), 0, 1, &re, &im);
  }
}

__extension__ typedef unsigned __int128 wide;

void tc_tensor_fill_uniform_int(const tc_tensor *t, uint64_t seed, int64_t low, int64_t high) {
  int64_t index[TC_MAX_RANK] = {0};
  const uint64_t range = high > low ? (uint64_t)high - (uint64_t)low : 1;
  uint64_t counter = 0;
  for (bool more = tc_tensor_numel(t) > 0; more; more = tc_index_next(t->rank, t->sizes, index), counter++) {
    uint32_t bits[4];
    philox(seed, counter, bits);
    const uint64_t draw = (uint64_t)bits[0] << 32 | bits[1];
    int64_t v = (int64_t)((uint64_t)low + (uint64_t)((wide)draw * range >> 64)); // bias below range / 2^64
    if (t->neg && t->dtype != TC_BOOL) v = (int64_t)(0u - (uint64_t)v);
    tc_row_store_ints(t->dtype, tc_tensor_at(t, index), 0, 1, &v, false);
  }
}
