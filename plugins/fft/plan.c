// Plans: which radices, in which order, on how many lanes.
//
// The order of radices is a shortest path over the divisors of N: state s is the product of the radices so far, a step
// costs what its pass costs. Radices are the products up to 16 of what the butterflies know; a prime factor above 16 is
// a pass of its own kind (a sum over the inputs).
//
// On vectors a pass runs over p with the first radix (s = 1: outputs of a vector are transposed), later over q, where s
// that is no multiple of the vector wastes lanes. With neighbouring rows in the lanes nothing is wasted and factors are
// numbers. On threads every thread makes the same number of butterflies per pass.
//
// A length with a large prime factor is a convolution with a chirp (Bluestein, "A linear filtering approach to the
// computation of discrete Fourier transform", 1970): two transforms of some smooth length of at least 2 N - 1.
#include <math.h>
#include <stddef.h>

#include "fft.h"

int32_t fft_largest_prime(int32_t n) {
  int32_t largest = 1;
  for (int32_t p = 2; p * p <= n; p++)
    while (n % p == 0) largest = p, n /= p;
  return n > largest ? n : largest;
}

void fft_unit(int64_t k, int64_t n, double *re, double *im) {
  // Folded into the first octant in whole numbers: b is the angle in units of 1/(4n) of the circle.
  k %= n;
  int64_t b = 4 * (k < 0 ? k + n : k);
  bool neg_im = b > 2 * n, neg_re, swap;
  if (neg_im) b = 4 * n - b;
  neg_re = b > n;
  if (neg_re) b = 2 * n - b;
  swap = 2 * b > n;
  if (swap) b = n - b;
  const double half_pi = 0x1.921fb54442d18p+0;
  double x = half_pi * (double)b / (double)n, c = cos(x), s = sin(x);
  *re = swap ? s : c;
  *im = swap ? c : s;
  if (neg_re) *re = -*re;
  if (neg_im) *im = -*im;
}

static bool is_prime(int32_t n) { return n > 1 && fft_largest_prime(n) == n; }

bool fft_is_written_out(int32_t r) { return r <= FFT_FEW || (r <= FFT_MAX_RADIX && !is_prime(r)); }

static bool usable_radix(int32_t r, int32_t most) { return r <= most || (is_prime(r) && r <= FFT_MAX_PRIME); }

// ---- costs ----
static double rounds(int64_t n, int64_t per) { return (double)((n + per - 1) / per); }

// By registers of 32 bytes: (de)interleaving moves elements inside halves, then halves.
static double halves_transpose_cost(int32_t radix, int32_t lanes) {
  int32_t rounds_ = 0;
  while (1 << rounds_ < radix && 1 << rounds_ < lanes) rounds_++;
  return 2.0 * radix * ((radix & (radix - 1)) == 0 ? rounds_ < 2 ? 2 : rounds_ : radix - 1);
}

static double transpose_cost(int32_t radix, int32_t lanes, bool few) {
  if (!fft_is_written_out(radix)) return 4.0 * radix * lanes; // element by element
  if (few) return halves_transpose_cost(radix, lanes);
  int32_t rounds_ = 0;
  while (1 << rounds_ < radix) rounds_++;
  double one = 2.0 * radix * ((radix & (radix - 1)) == 0 ? rounds_ : radix - 1);
  return radix > lanes ? 3 * one : one; // in pieces
}

static double thread_cost(int32_t n, int32_t radix, int32_t s, int32_t lanes) {
  double each = rounds(n / radix, lanes), work = s == 1 ? fft_butterfly_cost(radix) : fft_turned_cost(radix);
  return each * lanes * (work + 12.0 * radix) + 40.0 * lanes;
}

// Half a vector costs as much as a whole one; of those that many processors take in two steps, half.
static double part_cost(const fft_limits *limits, int32_t lanes) {
  if (lanes >= limits->vector || limits->few) return 1;
  return 2 * lanes == limits->vector ? 0.5 : 0.285;
}

typedef struct search {
  int32_t n, lanes, vector, most /* radix that is no prime */, n_divisors, divisors[512];
  bool threads, rows, convolution, few /* as in fft_limits */;
  double cost[512];
  int32_t radix[512]; // of the last pass on the best way to this divisor
} search;

enum { REGISTER = 32 }; // bytes, of processors that have few

// What 16 registers have no room for is stored and loaded again.
static double spill_cost(const search *x, int32_t radix) {
  enum { REGISTERS = 16 };
  return x->few && 2 * radix > REGISTERS ? 4.0 * (2 * radix - REGISTERS) : 0;
}

// So many lines of memory, which are so many bytes apart: how often do they fill what the first cache has for them? 0:
// they fit.
static double crowd(int64_t apart, int32_t lines) {
  enum { WAY = 4096, WAYS = 8 };
  int64_t places = WAY;
  for (int64_t step = apart; step % 2 == 0 && places > 1; step /= 2) places /= 2;
  return lines >= places * WAYS ? (double)lines / (double)(places * WAYS) : 0;
}

// Rows in the lanes, for one row; where registers are of 64 bytes measured to take 1.15 of what vectors along it take
// at this count. What does not fit into the first cache, or into half of the second, costs more.
static double rows_cost(const search *x, int32_t radix, int32_t s) {
  int32_t n = x->n, lanes = x->lanes;
  double turns = s == n / radix ? 0 : 6.0 * (radix - 1), points = (double)n * lanes, far = points > 4096 ? 1.3 : 1;
  if (x->few) far += 2 * crowd((int64_t)n / radix * REGISTER, 2 * radix);
  return (points > 10000 ? 1.7 : 1) * (x->few ? 1 : 1.15) * (double)(n / radix) *
         (fft_butterfly_cost(radix) + turns + 4.0 * radix * far + 3 + spill_cost(x, radix)) / lanes;
}

static double vector_cost(const search *x, int32_t radix, int32_t s) {
  int32_t lanes = x->lanes;
  int64_t m = x->n / radix / s;
  bool first = s == 1 && x->n > radix, power = (radix & (radix - 1)) == 0;
  double turns = s == x->n / radix ? 0 : 6.0 * (radix - 1);
  double vectors = s == 1 ? rounds(m, lanes) : (double)m * rounds(s, lanes);
  double moves = 6.0 * radix, masks = (s == 1 ? m : s) % lanes ? (x->few ? 40.0 : 2.0) * radix : 0;
  // Inputs that are a page apart push each other out of the first cache before the other half of their line is read.
  if (lanes < x->vector && x->n / radix % (64 * x->vector) == 0) moves *= 3;
  // So do outputs of the last pass, which go to memory.
  if (x->few && s > 1 && s == x->n / radix) moves *= 1 + 0.5 * crowd((int64_t)s * 2 * REGISTER / x->vector, radix);
  double transpose = first ? transpose_cost(radix, lanes, x->few) : 0;
  // What is left of the first pass is loaded from memory under a mask, element by element.
  double rest = first && m % lanes ? (power ? 6.0 : 12.0) * radix * lanes : 0;
  if (x->convolution) rest *= 0.5; // the second time it is on chip
  // What is left of the last one is stored so.
  if (s == x->n / radix) rest += 10.0 * radix * (s % lanes);
  return vectors * (fft_butterfly_cost(radix) + turns + moves + transpose + masks + spill_cost(x, radix)) + rest +
         (x->few ? 40 : 20);
}

static int32_t divisor_at(const search *x, int32_t d) {
  for (int32_t i = 0; i < x->n_divisors; i++)
    if (x->divisors[i] == d) return i;
  return -1;
}

static bool shortest(search *x, fft_plan *out) {
  for (int32_t i = 0; i < x->n_divisors; i++) x->cost[i] = i ? HUGE_VAL : 0;
  for (int32_t i = 0; i < x->n_divisors; i++) {
    int32_t s = x->divisors[i];
    if (x->cost[i] == HUGE_VAL) continue;
    for (int32_t r = 2; r <= FFT_MAX_PRIME; r++) {
      if (x->n / s % r || !usable_radix(r, x->most)) continue;
      int32_t to = divisor_at(x, s * r);
      double c = x->cost[i] + (x->threads ? thread_cost(x->n, r, s, x->lanes)
                               : x->rows  ? rows_cost(x, r, s)
                                          : vector_cost(x, r, s));
      if (c < x->cost[to]) x->cost[to] = c, x->radix[to] = r;
    }
  }
  int32_t last = x->n_divisors - 1, count = 0, radices[FFT_MAX_PASSES];
  if (x->cost[last] == HUGE_VAL) return false;
  for (int32_t at = last; at > 0 && count < FFT_MAX_PASSES; at = divisor_at(x, x->divisors[at] / x->radix[at]))
    radices[count++] = x->radix[at];
  *out = (fft_plan){.length = x->n, .n = x->n, .lanes = x->lanes, .rows = x->rows, .cost = x->cost[last]};
  for (int32_t s = 1; count > 0;) {
    int32_t r = radices[--count];
    out->passes[out->n_passes++] = (fft_pass){.radix = r, .s = s, .m = x->n / r / s};
    s *= r;
  }
  if (!out->n_passes) out->passes[out->n_passes++] = (fft_pass){.radix = 1, .s = 1, .m = 1};
  return true;
}

// What lanes of a row have together should be as long as what memory moves at once: 64 bytes, 32 at least (measured for
// 8 to 64 points). Lanes that no pass has work for do not count.
static double apart_cost(const fft_plan *p) {
  int32_t together = 1;
  for (int32_t i = 0; i < p->n_passes; i++) {
    int32_t busy = p->n / p->passes[i].radix;
    if (busy > together) together = busy;
  }
  if (together > p->lanes) together = p->lanes;
  return together >= 8 ? 1 : together >= 4 ? 1.8 : together > 1 ? 5 : 14;
}

static void take_better(search *x, const fft_limits *limits, double weight, fft_plan *best) {
  fft_plan p;
  if (limits->lanes && limits->lanes != x->lanes) return;
  if (!shortest(x, &p)) return;
  if (x->threads) weight *= apart_cost(&p);
  p.cost *= weight;
  if (!best->n_passes || p.cost < best->cost) *best = p;
}

static int32_t points_of_lane(const fft_plan *p) {
  int32_t most = 0;
  for (int32_t i = 0; i < p->n_passes; i++) {
    int32_t radix = p->passes[i].radix, points = (p->n / radix + p->lanes - 1) / p->lanes * radix;
    if (points > most) most = points;
  }
  return most;
}

// As many threads as one of the passes has butterflies.
static void plan_threads(search *x, const fft_limits *limits, fft_plan *out) {
  for (int32_t r = 1; r <= FFT_MAX_PRIME; r++) {
    if (x->n % r || !usable_radix(r, x->most)) continue;
    x->lanes = x->n / r;
    if (x->lanes > limits->max_lanes) continue;
    take_better(x, limits, 1, out); // rows share a block, so that few lanes a row are none that idle
  }
  if (!out->n_passes || limits->lanes) {
    x->lanes = limits->lanes ? limits->lanes : limits->max_lanes;
    take_better(x, limits, 1, out);
  }
}

bool fft_saves_a_pass(const fft_plan *wide, const fft_plan *few) {
  bool busy = wide->n_passes > 0;
  for (int32_t i = 0; i < wide->n_passes; i++) busy &= wide->n / wide->passes[i].radix * 4 >= wide->lanes * 3;
  return busy && wide->per_lane <= FFT_MAX_RADIX && wide->n_passes < few->n_passes;
}
bool fft_pays(const fft_plan *wide, const fft_plan *few) { return few->n_passes > 3 && fft_saves_a_pass(wide, few); }

// By passes alone.
static void direct_plan(int32_t n, const fft_limits *limits, bool convolution, fft_plan *out) {
  *out = (fft_plan){0};
  if (fft_largest_prime(n) > FFT_MAX_PRIME) return;
  search x = {.n = n,
              .threads = limits->vector == 0,
              .vector = limits->vector,
              .most = limits->wide ? FFT_MAX_RADIX : FFT_FEW,
              .rows = limits->rows,
              .few = limits->few,
              .convolution = convolution};
  for (int32_t d = 1; d <= n; d++)
    if (n % d == 0 && x.n_divisors < 512) x.divisors[x.n_divisors++] = d;
  if (x.threads) {
    plan_threads(&x, limits, out);
  } else {
    int32_t halves = limits->rows ? 1 : 3;
    for (int32_t lanes = limits->vector, halved = 0; lanes >= 1 && halved < halves; lanes /= 2, halved++) {
      x.lanes = lanes;
      take_better(&x, limits, part_cost(limits, x.lanes), out);
    }
  }
  out->per_lane = points_of_lane(out);
  out->wide = limits->wide;
}

// The next length from n on whose only prime factors are 2, 3 and 5, and that is worth a look: not too many threes and
// fives.
static int32_t next_smooth(int32_t n) {
  for (;; n++) {
    int32_t m = n, odd = 0;
    while (m % 2 == 0) m /= 2;
    for (; m % 3 == 0; odd++) m /= 3;
    for (; m % 5 == 0; odd++) m /= 5;
    if (m == 1 && odd <= 2) return n;
  }
}

static void convolution_plan(int32_t n, const fft_limits *limits, fft_plan *best) {
  if (n < 2 || n > FFT_MAX_LENGTH / 2) return;
  int32_t tried = 0;
  for (int32_t m = next_smooth(2 * n - 1); tried < 6 && m <= FFT_MAX_LENGTH; m = next_smooth(m + 1), tried++) {
    fft_plan p;
    direct_plan(m, limits, true, &p);
    if (!p.n_passes) continue;
    p.length = n;
    // Two transforms and what is between them; neighbouring rows have no room for it near them.
    p.cost = (2 * p.cost + 24.0 * m / p.lanes * part_cost(limits, p.lanes)) * (p.rows ? 1.7 : 1);
    if (!best->n_passes || p.cost < best->cost) *best = p;
  }
}

const char *fft_make_plan(int32_t n, const fft_limits *limits, fft_plan *out) {
  *out = (fft_plan){0};
  if (n < 1) return "the length is not known or zero";
  if (n > FFT_MAX_LENGTH) return "the length is more than one block can hold";
  direct_plan(n, limits, false, out);
  if (fft_largest_prime(n) > FFT_FEW) convolution_plan(n, limits, out);
  return out->n_passes ? NULL : "the length has no plan";
}

const char *fft_make_plan_up_to(int32_t most, const fft_limits *limits, fft_plan *out) {
  *out = (fft_plan){0};
  if (most < 1 || most > FFT_MAX_LENGTH / 2) return "the length is not known, nor that a block can hold it";
  if (most == 1) return fft_make_plan(1, limits, out);
  convolution_plan(most, limits, out);
  out->cost *= 1.6; // the chirp and its transform are made for each row
  return out->n_passes ? NULL : "the length has no plan";
}
