// Random fills: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC'11) with
// counters made from the element's row-major number, so that values depend on neither strides, order nor threads.
//
// Tensors are filled in blocks of elements that have consecutive numbers, by all threads. Normals up to single
// precision are those of normal.c, several from a counter; f64 and c128 have the element's number as counter and
// Box-Muller pairs in double. The logarithm and the circular functions are computed here from operations that IEEE 754
// defines exactly (the build forbids contraction), because those of C libraries differ in last bits and the fills must
// not.
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

__extension__ typedef unsigned __int128 wide;

// 53 random bits as a multiple of 2^-53 in [0, 1).
static double unit(uint32_t high, uint32_t low) { return (double)(((uint64_t)high << 32 | low) >> 11) * 0x1p-53; }

// ---- Blocks of elements ----
enum { BLOCK = 4 * TC_NORMAL_BLOCK, GRAIN = 64 }; // elements in a block; blocks for a thread at least

typedef struct fill {
  const tc_tensor *t;
  int64_t numel;
  uint64_t seed;
  double mean, std; // normal
  int64_t low;      // uniform: [low, low + range)
  uint64_t range;
  bool contiguous;
} fill;

static void position_of(const tc_tensor *t, int64_t number, int64_t *index) {
  for (int32_t d = t->rank - 1; d >= 0; d--) {
    index[d] = number % t->sizes[d];
    number /= t->sizes[d];
  }
}

static void store_floats(const fill *f, int64_t first, int32_t n, double *re, double *im) {
  const tc_tensor *t = f->t;
  int64_t index[TC_MAX_RANK] = {0};
  for (int32_t i = 0; i < n && (t->neg || t->conj); i++) { // what is read back is the value drawn
    if (t->neg) re[i] = -re[i], im[i] = -im[i];
    if (t->conj) im[i] = -im[i];
  }
  position_of(t, first, index);
  if (f->contiguous) {
    tc_row_store_floats(t->dtype, tc_tensor_at(t, index), tc_dtype_size(t->dtype), n, re, im);
    return;
  }
  for (int32_t i = 0; i < n; i++, tc_index_next(t->rank, t->sizes, index))
    tc_row_store_floats(t->dtype, tc_tensor_at(t, index), 0, 1, &re[i], &im[i]);
}

// Up to single precision: normal number i is element i, or part i % 2 of the complex element i / 2.
static void narrow_block(const fill *f, int64_t first, int32_t n) {
  const bool complex = tc_dtype_is_complex(f->t->dtype);
  const float mean = (float)f->mean, std = (float)(complex ? f->std * 0.7071067811865476 : f->std);
  float z[BLOCK];
  double re[BLOCK], im[BLOCK];
  tc_normals(f->seed, (uint64_t)(complex ? first * 2 : first) / BLOCK, z);
  for (int32_t i = 0; complex && i < 2 * n; i += 2) z[i] = mean + std * z[i], z[i + 1] *= std;
  for (int32_t i = 0; !complex && i < n; i++) z[i] = mean + std * z[i];
  if (tc_dtype_real(f->t->dtype) == TC_F32 && f->contiguous && !f->t->neg && !f->t->conj) {
    const size_t parts = complex ? 2 : 1;
    memcpy((float *)tc_tensor_data(f->t) + (size_t)first * parts, z, (size_t)n * parts * sizeof *z);
    return;
  }
  for (int32_t i = 0; i < n; i++) re[i] = complex ? z[2 * i] : z[i], im[i] = complex ? z[2 * i + 1] : 0;
  store_floats(f, first, n, re, im);
}

static void wide_block(const fill *f, int64_t first, int32_t n) {
  const bool complex = tc_dtype_is_complex(f->t->dtype);
  double re[BLOCK], im[BLOCK];
  for (int32_t i = 0; i < n; i++) {
    uint32_t bits[4];
    philox(f->seed, (uint64_t)(first + i), bits);
    double c, s;
    turn(unit(bits[2], bits[3]), &c, &s);
    // 1 - u lies in (0, 1]. A complex value of variance 1 has two parts of variance 1/2: radius √(-ln) in place of
    // √(-2 ln), and both parts of the pair are used.
    const double radius = sqrt((complex ? -1.0 : -2.0) * natural_log(1 - unit(bits[0], bits[1])));
    re[i] = f->mean + f->std * (radius * c), im[i] = complex ? f->std * (radius * s) : 0;
  }
  store_floats(f, first, n, re, im);
}

static void uniform_block(const fill *f, int64_t first, int32_t n) {
  const tc_tensor *t = f->t;
  int64_t v[BLOCK], index[TC_MAX_RANK] = {0};
  for (int32_t i = 0; i < n; i++) {
    uint32_t bits[4];
    philox(f->seed, (uint64_t)(first + i), bits);
    const uint64_t draw = (uint64_t)bits[0] << 32 | bits[1];
    v[i] = (int64_t)((uint64_t)f->low + (uint64_t)((wide)draw * f->range >> 64)); // bias below range / 2^64
    if (t->neg && t->dtype != TC_BOOL) v[i] = (int64_t)(0u - (uint64_t)v[i]);
  }
  position_of(t, first, index);
  if (f->contiguous) {
    tc_row_store_ints(t->dtype, tc_tensor_at(t, index), tc_dtype_size(t->dtype), n, v, false);
    return;
  }
  for (int32_t i = 0; i < n; i++, tc_index_next(t->rank, t->sizes, index))
    tc_row_store_ints(t->dtype, tc_tensor_at(t, index), 0, 1, &v[i], false);
}

// A block is BLOCK elements, or half as many complex ones up to single precision: BLOCK normals.
static void run_blocks(const fill *f, void (*block)(const fill *f, int64_t first, int32_t n), int32_t size,
                       int64_t begin, int64_t end) {
  for (int64_t b = begin; b < end; b++) {
    const int64_t left = f->numel - b * size;
    block(f, b * size, left < size ? (int32_t)left : size);
  }
}

static int32_t narrow_size(const fill *f) { return tc_dtype_is_complex(f->t->dtype) ? BLOCK / 2 : BLOCK; }
static void narrow_range(void *arg, int64_t begin, int64_t end) {
  run_blocks(arg, narrow_block, narrow_size(arg), begin, end);
}
static void wide_range(void *arg, int64_t begin, int64_t end) { run_blocks(arg, wide_block, BLOCK, begin, end); }
static void uniform_range(void *arg, int64_t begin, int64_t end) { run_blocks(arg, uniform_block, BLOCK, begin, end); }

static void run_fill(fill *f, const tc_executor *e, int32_t size, tc_range_fn fn) {
  f->numel = tc_tensor_numel(f->t);
  f->contiguous = tc_tensor_is_contiguous(f->t);
  e->parallel_for(e->self, (f->numel + size - 1) / size, GRAIN, fn, f);
}

void tc_tensor_fill_normal(const tc_executor *e, const tc_tensor *t, uint64_t seed, double mean, double std) {
  fill f = {.t = t, .seed = seed, .mean = mean, .std = std};
  const bool wide_type = tc_dtype_real(t->dtype) == TC_F64;
  run_fill(&f, e, wide_type ? BLOCK : narrow_size(&f), wide_type ? wide_range : narrow_range);
}

void tc_tensor_fill_uniform_int(const tc_executor *e, const tc_tensor *t, uint64_t seed, int64_t low, int64_t high) {
  fill f = {.t = t, .seed = seed, .low = low, .range = high > low ? (uint64_t)high - (uint64_t)low : 1};
  run_fill(&f, e, BLOCK, uniform_range);
}
