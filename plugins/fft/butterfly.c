// Small transforms as straight-line code.
//
// Lengths 2 and 4 are written out; an odd prime p pairs k with p-k, so that cosines multiply sums and sines
// differences; products a·b are made of a and b: with coprime factors by Good and Thomas' index map, which needs no
// turning, else by Cooley and Tukey's. Numbers carry a constant factor ("scale") that the next addition takes in as a
// fused multiply-add (Linzer and Feig, "Modified FFTs for fused multiply-add architectures", 1993): turning by a
// constant angle costs two operations a component pair instead of four.
//
// Where inputs are to be turned by factors that are not constants and their number is a power of two, the factors go
// into the additions: A ± c (1 + i t) B, with the cosine c and the tangent t of the angle, takes two fused
// multiply-adds for (1 + i t) B and four more, each rounded once (Linzer and Feig again). Of R - 1 factors R/2 others
// are needed, since the halves of each step share them up to a quarter of a turn. Fewer will do where loads cost more
// than arithmetic: inputs take a constant turn, too, whose scale the cosine takes in.
#include <math.h>
#include <stddef.h>

#include "fft.h"

enum { MAX = FFT_MAX_PRIME };

// ---- arithmetic on parts ----
static tc_kval real(const fft_code *c, double v) { return tc_kb_real(c->b, c->real, v); }
static tc_kval add(const fft_code *c, tc_kval x, tc_kval y) { return tc_kb_op2(c->b, TC_K_ADD, x, y); }
static tc_kval sub(const fft_code *c, tc_kval x, tc_kval y) { return tc_kb_op2(c->b, TC_K_SUB, x, y); }
static tc_kval mul(const fft_code *c, tc_kval x, tc_kval y) { return tc_kb_op2(c->b, TC_K_MUL, x, y); }
static tc_kval neg(const fft_code *c, tc_kval x) { return tc_kb_op1(c->b, TC_K_NEG, x); }
static tc_kval fma_(const fft_code *c, tc_kval x, tc_kval y, tc_kval z) { return tc_kb_op3(c->b, TC_K_FMA, x, y, z); }

fft_value fft_plain(const fft_code *c, fft_value v) {
  if (v.scale == 1) return v;
  tc_kval k = real(c, v.scale);
  return (fft_value){mul(c, v.re, k), mul(c, v.im, k), 1};
}

static fft_value scaled(fft_value v, double k) { return (fft_value){v.re, v.im, v.scale * k}; }

// Is it known to be zero, as what fills a row up? Equal constants are one value; where they are not, a sum is made.
static bool is_zero(const fft_code *c, fft_value v) {
  tc_kval zero = real(c, 0), minus_zero = real(c, -0.0);
  return (v.re == zero || v.re == minus_zero) && (v.im == zero || v.im == minus_zero);
}

// x + sign·y; the result has x's scale, or y's if x is nothing.
static fft_value add_signed(const fft_code *c, fft_value x, fft_value y, double sign) {
  if (is_zero(c, y)) return x;
  if (is_zero(c, x)) return scaled(y, sign);
  if (x.scale == y.scale || x.scale == -y.scale) {
    bool minus = (x.scale == y.scale) != (sign > 0);
    if (minus) return (fft_value){sub(c, x.re, y.re), sub(c, x.im, y.im), x.scale};
    return (fft_value){add(c, x.re, y.re), add(c, x.im, y.im), x.scale};
  }
  double ratio = sign * y.scale / x.scale;
  if (!(fabs(ratio) <= 0x1p20 && fabs(ratio) >= 0x1p-20)) { // factors that are far apart would lose digits
    x = fft_plain(c, x);
    ratio = sign * y.scale;
  }
  tc_kval k = real(c, ratio);
  return (fft_value){fma_(c, y.re, k, x.re), fma_(c, y.im, k, x.im), x.scale};
}

static fft_value plus(const fft_code *c, fft_value x, fft_value y) { return add_signed(c, x, y, 1); }
static fft_value minus(const fft_code *c, fft_value x, fft_value y) { return add_signed(c, x, y, -1); }

// v · exp(± 2πi/4): i·v for +1.
static fft_value quarter(const fft_code *c, fft_value v, double sign) {
  if (sign > 0) return (fft_value){neg(c, v.im), v.re, v.scale};
  return (fft_value){v.im, neg(c, v.re), v.scale};
}

// v · exp(sign 2πi k/n)
static fft_value turn_constant(const fft_code *c, fft_value v, int64_t k, int64_t n) {
  k %= n;
  if (c->sign < 0) k = (n - k) % n;
  if (k == 0) return v;
  if (4 * k == n) return quarter(c, v, 1);
  if (2 * k == n) return scaled(v, -1);
  if (4 * k == 3 * n) return quarter(c, v, -1);
  double re, im;
  fft_unit(k, n, &re, &im);
  if (8 * k % n == 0) { // |re| = |im|: plain sums
    double h = 0x1.6a09e667f3bcdp-1;
    double scale = re > 0 ? v.scale * h : -v.scale * h; // (a+bi)(1+i) = (a-b) + (a+b)i, (1-i): (a+b) + (b-a)i
    tc_kval s = add(c, v.re, v.im);
    if ((re > 0) == (im > 0)) return (fft_value){sub(c, v.re, v.im), s, scale};
    return (fft_value){s, sub(c, v.im, v.re), scale};
  }
  // (a+bi)(re+im i): the larger part of the constant stays outside.
  if (fabs(re) >= fabs(im)) {
    double t = im / re;
    return (fft_value){fma_(c, v.im, real(c, -t), v.re), fma_(c, v.re, real(c, t), v.im), v.scale * re};
  }
  tc_kval t = real(c, re / im);
  return (fft_value){fma_(c, v.re, t, neg(c, v.im)), fma_(c, v.im, t, v.re), v.scale * im};
}

fft_value fft_turn(const fft_code *c, fft_value v, tc_kval wr, tc_kval wi) {
  v = fft_plain(c, v);
  tc_kval a = c->sign > 0 ? neg(c, v.im) : v.im, b = c->sign > 0 ? v.re : neg(c, v.re);
  return (fft_value){fma_(c, a, wi, mul(c, v.re, wr)), fma_(c, b, wi, mul(c, v.im, wr)), 1};
}

// ---- transforms ----
static void transform(const fft_code *c, int32_t n, const fft_ports *p);

static void transform2(const fft_code *c, const fft_ports *p) {
  fft_value x = p->in(p->self, 0), y = p->in(p->self, 1);
  p->out(p->self, 0, plus(c, x, y));
  p->out(p->self, 1, minus(c, x, y));
}

static void transform4(const fft_code *c, const fft_ports *p) {
  fft_value x0 = p->in(p->self, 0), x2 = p->in(p->self, 2), x1 = p->in(p->self, 1), x3 = p->in(p->self, 3);
  fft_value s02 = plus(c, x0, x2), d02 = minus(c, x0, x2), s13 = plus(c, x1, x3),
            d13 = quarter(c, minus(c, x1, x3), c->sign);
  p->out(p->self, 0, plus(c, s02, s13));
  p->out(p->self, 1, plus(c, d02, d13));
  p->out(p->self, 2, minus(c, s02, s13));
  p->out(p->self, 3, minus(c, d02, d13));
}

static void transform_prime(const fft_code *c, int32_t n, const fft_ports *p) {
  fft_value x0 = fft_plain(c, p->in(p->self, 0)), s[MAX / 2], d[MAX / 2], zero = x0;
  int32_t h = n / 2;
  for (int32_t k = 1; k <= h; k++) {
    fft_value a = fft_plain(c, p->in(p->self, k)), b = fft_plain(c, p->in(p->self, n - k));
    s[k - 1] = plus(c, a, b);
    d[k - 1] = minus(c, a, b);
    zero = plus(c, zero, s[k - 1]);
  }
  p->out(p->self, 0, zero);
  for (int32_t j = 1; j <= h; j++) {
    fft_value even = x0, odd = {-1, -1, 0};
    for (int32_t k = 1; k <= h; k++) {
      double re, im;
      fft_unit((int64_t)j * k, n, &re, &im);
      even = plus(c, even, scaled(s[k - 1], re));
      odd = k == 1 ? scaled(d[0], im) : plus(c, odd, scaled(d[k - 1], im));
    }
    odd = quarter(c, odd, c->sign); // ± i Σ sin · difference
    p->out(p->self, j, plus(c, even, odd));
    p->out(p->self, n - j, minus(c, even, odd));
  }
}

// n = a b: first b transforms of a inputs, then a of b, over a matrix of values.
typedef struct product {
  const fft_code *c;
  const fft_ports *outer;
  int32_t a, b, at; // at: the row or column being transformed
  bool coprime;
  int32_t back_a, back_b; // coprime: b·(1/b mod a), a·(1/a mod b)
  fft_value v[MAX];       // v[i2 * a + k1]
} product;

static fft_value product_in1(void *self, int32_t k) {
  product *x = self;
  int32_t n = x->a * x->b, i = x->coprime ? (x->b * k + x->a * x->at) % n : x->b * k + x->at;
  return x->outer->in(x->outer->self, i);
}
static void product_out1(void *self, int32_t k, fft_value v) {
  product *x = self;
  x->v[x->at * x->a + k] = x->coprime ? v : turn_constant(x->c, v, (int64_t)x->at * k, x->a * x->b);
}
static fft_value product_in2(void *self, int32_t k) {
  product *x = self;
  return x->v[k * x->a + x->at];
}
static void product_out2(void *self, int32_t k, fft_value v) {
  product *x = self;
  int32_t n = x->a * x->b,
          i = x->coprime ? (int32_t)(((int64_t)x->back_a * x->at + (int64_t)x->back_b * k) % n) : x->at + x->a * k;
  x->outer->out(x->outer->self, i, v);
}

static int32_t inverse_times(int32_t x, int32_t mod) { // x · (1/x mod m)
  for (int32_t y = 1; y < mod; y++)
    if (x * y % mod == 1) return x * y;
  return x;
}

static int32_t gcd(int32_t a, int32_t b) { return b ? gcd(b, a % b) : a; }

static int32_t first_factor(int32_t n) {
  if (n % 4 == 0) return 4;
  for (int32_t p = 2; p * p <= n; p++)
    if (n % p == 0) return p;
  return n;
}

static void transform_product(const fft_code *c, int32_t a, int32_t b, const fft_ports *p) {
  product x = {.c = c, .outer = p, .a = a, .b = b, .coprime = gcd(a, b) == 1};
  if (x.coprime) x.back_a = inverse_times(b, a), x.back_b = inverse_times(a, b);
  fft_ports first = {&x, product_in1, product_out1}, second = {&x, product_in2, product_out2};
  for (x.at = 0; x.at < b; x.at++) transform(c, a, &first);
  for (x.at = 0; x.at < a; x.at++) transform(c, b, &second);
}

static void transform(const fft_code *c, int32_t n, const fft_ports *p) {
  int32_t f = first_factor(n);
  if (n == 1) p->out(p->self, 0, p->in(p->self, 0));
  else if (n == 2) transform2(c, p);
  else if (n == 4) transform4(c, p);
  else if (f == n) transform_prime(c, n, p);
  else if (n == 8) transform_product(c, 2, 4, p);
  else transform_product(c, f, n / f, p);
}

void fft_butterfly(const fft_code *c, int32_t radix, const fft_ports *ports) { transform(c, radix, ports); }

int32_t fft_butterfly_cost(int32_t n) {
  int32_t f = first_factor(n);
  if (n == 1) return 0;
  if (n == 2) return 4;
  if (n == 4) return 16;
  if (f == n) return 4 * (n / 2) * (n / 2) + 6 * n;
  if (n == 8) f = 2;
  int32_t a = f, b = n / f, turns = gcd(a, b) == 1 ? 0 : 2 * (a - 1) * (b - 1);
  return b * fft_butterfly_cost(a) + a * fft_butterfly_cost(b) + turns;
}

// ---- turned inputs ----
static bool power_of_two(int32_t n) { return (n & (n - 1)) == 0; }

// The step that makes transforms of 2 h points of those of h has h/2 factors (1 at least), or `most` if that is less.
static int32_t factors_of_step(int32_t h, int32_t most) { return h == 1 ? 1 : h / 2 < most ? h / 2 : most; }

// Factors of the steps before.
static int32_t first_of_step(int32_t h, int32_t most) {
  int32_t first = 0;
  for (int32_t before = 1; before < h; before *= 2) first += factors_of_step(before, most);
  return first;
}

int32_t fft_factor_count(int32_t radix, int32_t most) {
  return power_of_two(radix) ? first_of_step(radix, most) : radix - 1;
}

int32_t fft_turned_cost(int32_t radix) {
  if (!power_of_two(radix)) return fft_butterfly_cost(radix) + 6 * (radix - 1);
  int32_t levels = 0;
  while (1 << levels < radix) levels++;
  return 3 * radix * levels + radix;
}

void fft_factor(int32_t radix, int32_t most, int64_t s, int64_t q, int32_t i, double factor[2]) {
  if (!power_of_two(radix)) {
    fft_unit(q * (i + 1), s * radix, &factor[0], &factor[1]);
    return;
  }
  int32_t h = 1;
  while (first_of_step(2 * h, most) <= i) h *= 2;
  fft_unit(q + s * (i - first_of_step(h, most)), 2 * h * s, &factor[0], &factor[1]);
  // Angles of all steps but the first are less than a quarter of a turn.
  if (h > 1) factor[1] /= factor[0];
}

typedef struct turned {
  const fft_code *c;
  const fft_ports *ports;
  int32_t most;
  void (*factor)(void *self, int32_t i, tc_kval factor[2]);
} turned;

// a ± c (1 ± i t) b, the inner sign being that of the direction.
static void add_turned(const fft_code *c, fft_value a, fft_value b, const tc_kval factor[2], fft_value *plus_,
                       fft_value *minus_) {
  tc_kval t = c->sign > 0 ? factor[1] : neg(c, factor[1]), scale = factor[0];
  fft_value v = {fma_(c, neg(c, b.im), t, b.re), fma_(c, b.re, t, b.im), 1};
  if (fabs(b.scale) != 1) scale = mul(c, scale, real(c, fabs(b.scale)));
  fft_value up = {fma_(c, v.re, scale, a.re), fma_(c, v.im, scale, a.im), 1};
  fft_value down = {fma_(c, neg(c, v.re), scale, a.re), fma_(c, neg(c, v.im), scale, a.im), 1};
  *plus_ = b.scale > 0 ? up : down;
  *minus_ = b.scale > 0 ? down : up;
}

// a ± w b of the first step, where the cosine may be zero: a - w b = 2 a - (a + w b).
static void add_turned_by_any(const fft_code *c, fft_value a, fft_value b, const tc_kval w[2], fft_value *plus_,
                              fft_value *minus_) {
  tc_kval two = real(c, 2), across = c->sign > 0 ? neg(c, b.im) : b.im, down = c->sign > 0 ? b.re : neg(c, b.re);
  fft_value x = {fma_(c, b.re, w[0], fma_(c, across, w[1], a.re)), fma_(c, b.im, w[0], fma_(c, down, w[1], a.im)), 1};
  *plus_ = x;
  *minus_ = (fft_value){fma_(c, two, a.re, neg(c, x.re)), fma_(c, two, a.im, neg(c, x.im)), 1};
}

// The transform of n inputs first, first + step, …; the whole goes to the ports.
static void transform_turned(const turned *t, int32_t n, int32_t first, int32_t step, fft_value *out) {
  const fft_code *c = t->c;
  fft_value even[FFT_MAX_RADIX / 2], odd[FFT_MAX_RADIX / 2];
  int32_t h = n / 2;
  if (n == 1) {
    *out = fft_plain(c, t->ports->in(t->ports->self, first));
    return;
  }
  transform_turned(t, h, first, 2 * step, even);
  transform_turned(t, h, first + step, 2 * step, odd);
  for (int32_t k = 0; k < h; k++) {
    int32_t m = k / 2 + k % 2 * (h / 2); // those of one factor one after the other
    int32_t number = k / 2 % factors_of_step(h, t->most);
    fft_value x, y;
    tc_kval w[2];
    t->factor(t->ports->self, first_of_step(h, t->most) + number, w);
    if (h == 1) add_turned_by_any(c, even[m], odd[m], w, &x, &y);
    else add_turned(c, even[m], turn_constant(c, odd[m], m - number, 2 * h), w, &x, &y);
    if (out) {
      out[m] = x, out[m + h] = y;
    } else {
      t->ports->out(t->ports->self, m, x);
      t->ports->out(t->ports->self, m + h, y);
    }
  }
}

void fft_turned_butterfly(const fft_code *c, int32_t radix, const fft_ports *ports, int32_t most,
                          void (*factor)(void *self, int32_t i, tc_kval factor[2])) {
  transform_turned(&(turned){c, ports, most, factor}, radix, 0, 1, NULL);
}
