// Quotients and remainders, rounding down. Both share one way of taking the dividend apart, so that x // n and x mod n
// always meet again in a sum (sum.c).
//
// For n ≠ 0, and with the conditions that follow from Knuth, "The Art of Computer Programming" 1, §1.2.4:
//   (n·q + r) // n = q + r // n             (n·q + r) mod n = r mod n
//   (g·x + r) // (g·n) = x // n             (g·x + r) mod (g·n) = g·(x mod n) + r      0 ≤ r < g, n > 0 (or r = 0)
//   (x // m + k) // n = (x + k·m) // (m·n)  (x mod (m·n)) // n = (x // n) mod m        n > 0;  m > 0
//   (k·(x mod m) + y) mod n = (k·x + y) mod n   where n divides k·m
//   (-1 - x) // n = -1 - x // n             (-1 - x) mod n = n - 1 - x mod n             n > 0
// A divisor that may be 0 is taken as non-zero: the result agrees wherever the operation has a value.
#include "core/symbolic/internal.h"

enum { FACTORS = 48, GROUPS = 12, SUM_STEPS = 8 };

static int64_t floor_div(int64_t a, int64_t b) {
  int64_t q = a / b;
  return q - (a % b != 0 && (a < 0) != (b < 0));
}

static int32_t term_count(const tc_sym *e) {
  terms t;
  tc_sym_terms(e, &t);
  return t.n + (t.constant != 0);
}

// a = q·b + r with the part q that can be read off the terms.
static void split(tc_sym_ctx *c, const tc_sym *a, const tc_sym *b, const tc_sym **out_q, const tc_sym **out_r) {
  const tc_sym *zero = tc_sym_int(c, 0), *q = zero, *r = a;
  terms t;
  if (b->kind == TC_SYM_ADD && !nd(b)->raw) {
    tc_sym_terms(b, &t);
    const tc_sym *lead = t.kids[0];
    for (int32_t step = 0; step < SUM_STEPS; step++) {
      terms left;
      tc_sym_terms(r, &left);
      const tc_sym *part = NULL;
      for (int32_t i = 0; i < left.n && !part; i++) part = tc_sym_exact(c, left.kids[i], lead);
      if (!part) break;
      q = tc_sym_add(c, q, part);
      r = tc_sym_sub(c, r, tc_sym_mul(c, part, b));
    }
    if (term_count(r) >= term_count(a)) {
      q = zero;
      r = a;
    }
  } else {
    tc_sym_terms(a, &t);
    int64_t n = b->kind == TC_SYM_CONST ? b->value : 0;
    for (int32_t i = 0; i < t.n; i++) {
      const tc_sym *part = tc_sym_exact(c, t.kids[i], b), *gone = t.kids[i];
      term u = term_at(&t, i);
      if (!part && n && (u.coeff >= n || u.coeff <= -n)) {
        part = tc_sym_term(c, u.coeff / n, u.unit);
        gone = tc_sym_term(c, u.coeff / n * n, u.unit);
      }
      if (!part) continue;
      q = tc_sym_add(c, q, part);
      r = tc_sym_sub(c, r, gone);
    }
    if (n && t.constant) {
      int64_t k = floor_div(t.constant, n), gone;
      if (k && !__builtin_mul_overflow(k, -n, &gone)) {
        q = tc_sym_addi(c, q, k);
        r = tc_sym_addi(c, r, gone);
      }
    }
  }
  *out_q = q;
  *out_r = r;
}

// The greatest common term of x and y.
static const tc_sym *common(tc_sym_ctx *c, const tc_sym *x, const tc_sym *y) {
  int64_t g = tc_sym_gcd(nd(x)->coeff, nd(y)->coeff);
  const tc_sym *r = tc_sym_int(c, g);
  if (!nd(x)->unit || !nd(y)->unit) return r;
  factor f[FACTORS], h[FACTORS];
  int32_t nf = tc_sym_factors(nd(x)->unit, f, FACTORS), nh = tc_sym_factors(nd(y)->unit, h, FACTORS);
  for (int32_t i = 0; i < nf; i++)
    for (int32_t j = 0; j < nh; j++)
      if (f[i].base == h[j].base) {
        int64_t power = f[i].power < h[j].power ? f[i].power : h[j].power;
        r = tc_sym_mul(c, r, tc_sym_pow(c, f[i].base, tc_sym_int(c, power)));
      }
  return r;
}

const tc_sym *tc_sym_exact_sum(tc_sym_ctx *c, const tc_sym *e, const tc_sym *g) {
  terms t;
  tc_sym_terms(e, &t);
  const tc_sym *r = tc_sym_exact(c, tc_sym_int(c, t.constant), g);
  for (int32_t i = 0; i < t.n && r; i++) {
    const tc_sym *part = tc_sym_exact(c, t.kids[i], g);
    r = part ? tc_sym_add(c, r, part) : NULL;
  }
  return r;
}

// Finds a common part g of the divisor and of some terms, such that the other terms r stay in 0 ≤ r < g (r = 0, or the
// quotient of the divisor is positive): a = g·x + r, b = g·n.
static bool group(tc_sym_ctx *c, const tc_sym *a, const tc_sym *b, const tc_sym **out_g, const tc_sym **out_x,
                  const tc_sym **out_r, const tc_sym **out_n) {
  terms t, d;
  tc_sym_terms(a, &t);
  tc_sym_terms(b, &d);
  const tc_sym *tried[GROUPS];
  int32_t count = 0;
  for (int32_t i = 0; i < t.n && count < GROUPS; i++) {
    const tc_sym *g = t.kids[i];
    for (int32_t j = 0; j < d.n; j++) g = common(c, g, d.kids[j]);
    if (d.constant) g = common(c, g, tc_sym_int(c, d.constant));
    bool known = tc_sym_is_int(g, 1) || tc_sym_is_int(g, 0) || nd(g)->raw;
    for (int32_t j = 0; j < count; j++) known |= tried[j] == g;
    if (known) continue;
    tried[count++] = g;
    const tc_sym *n = tc_sym_exact_sum(c, b, g);
    if (!n) continue;
    const tc_sym *x = tc_sym_int(c, 0), *r = tc_sym_int(c, t.constant);
    for (int32_t j = 0; j < t.n; j++) {
      const tc_sym *part = tc_sym_exact(c, t.kids[j], g);
      if (part) x = tc_sym_add(c, x, part);
      else r = tc_sym_add(c, r, t.kids[j]);
    }
    if (g->kind == TC_SYM_CONST) {
      interval v = tc_sym_interval(c, r);
      bool bounded = v.lo > -TC_SYM_INF && v.hi < TC_SYM_INF;
      int64_t k = bounded ? floor_div(v.lo, g->value) : 0, gone;
      if (!bounded || k != floor_div(v.hi, g->value) || __builtin_mul_overflow(k, -g->value, &gone)) continue;
      x = tc_sym_addi(c, x, k);
      r = tc_sym_addi(c, r, gone);
    } else if (!tc_sym_is_int(r, 0) && !tc_sym_below(c, r, g)) {
      continue;
    }
    if (!tc_sym_is_int(r, 0) && !tc_sym_nonneg(c, n)) continue;
    *out_g = g;
    *out_x = x;
    *out_r = r;
    *out_n = n;
    return true;
  }
  return false;
}

// Takes the terms out that facts say are divisible by n (their coefficients are not, or split would have them).
static const tc_sym *divisible_part(tc_sym_ctx *c, const tc_sym *a, int64_t n) {
  terms t;
  tc_sym_terms(a, &t);
  const tc_sym *r = tc_sym_int(c, 0);
  for (int32_t i = 0; i < t.n; i++)
    if (tc_sym_divisor_of(c, t.kids[i]) % n == 0) r = tc_sym_add(c, r, t.kids[i]);
  return r;
}

// One value of a // n for all values of a?
static bool one_period(tc_sym_ctx *c, const tc_sym *a, int64_t n, int64_t *out_k) {
  interval v = tc_sym_interval(c, a);
  if (v.lo <= -TC_SYM_INF || v.hi >= TC_SYM_INF) return false;
  *out_k = floor_div(v.lo, n);
  return *out_k == floor_div(v.hi, n);
}

// Is a led by a negative term? Then, for b > 0, its mirror image z = -a - 1 is divided instead.
static bool mirrored(tc_sym_ctx *c, const tc_sym *a, const tc_sym *b, const tc_sym **out_z) {
  terms t;
  tc_sym_terms(a, &t);
  if (t.n ? nd(t.kids[0])->coeff >= 0 : t.constant >= 0) return false;
  if (tc_sym_interval(c, b).lo < 0) return false;
  *out_z = tc_sym_sub(c, tc_sym_int(c, -1), a);
  return !nd(*out_z)->raw;
}

static const tc_sym *divide(tc_sym_ctx *c, const tc_sym *a, const tc_sym *b) {
  int64_t n = b->kind == TC_SYM_CONST ? b->value : 0, k;
  if (n && one_period(c, a, n, &k)) return tc_sym_int(c, k);
  const tc_sym *q, *r, *g, *x, *m;
  split(c, a, b, &q, &r);
  if (!tc_sym_is_int(q, 0)) return tc_sym_add(c, q, tc_sym_floordiv(c, r, b));
  if (!n && tc_sym_below(c, a, b)) return tc_sym_int(c, 0);
  if (mirrored(c, a, b, &x)) return tc_sym_sub(c, tc_sym_int(c, -1), tc_sym_floordiv(c, x, b));
  if (n && term_count(a) > 1) {
    const tc_sym *part = divisible_part(c, a, n), *left = tc_sym_sub(c, a, part);
    if (part != a && !tc_sym_is_int(part, 0) && left != a)
      return tc_sym_add(c, tc_sym_floordiv(c, part, b), tc_sym_floordiv(c, left, b));
    terms t;
    tc_sym_terms(part, &t);
    if (part == a && t.n > 1) {
      const tc_sym *sum = tc_sym_int(c, 0);
      for (int32_t i = 0; i < t.n; i++) sum = tc_sym_add(c, sum, tc_sym_floordiv(c, t.kids[i], b));
      return sum;
    }
  }
  if (group(c, a, b, &g, &x, &r, &m)) return tc_sym_floordiv(c, x, m);
  terms t;
  tc_sym_terms(a, &t);
  if (t.n == 1 && t.kids[0]->kind == TC_SYM_FLOORDIV && tc_sym_interval(c, b).lo >= 0) {
    const tc_sym *inner = t.kids[0]->kids[1];
    const tc_sym *above = tc_sym_add(c, t.kids[0]->kids[0], tc_sym_muli(c, inner, t.constant));
    return tc_sym_floordiv(c, above, tc_sym_mul(c, inner, b));
  }
  if (a->kind == TC_SYM_MOD) {
    const tc_sym *e = tc_sym_exact(c, a->kids[1], b);
    if (e && tc_sym_interval(c, e).lo >= 0) return tc_sym_mod(c, tc_sym_floordiv(c, a->kids[0], b), e);
  }
  return tc_sym_make2(c, TC_SYM_FLOORDIV, a, b);
}

static const tc_sym *modulo(tc_sym_ctx *c, const tc_sym *a, const tc_sym *b) {
  int64_t n = b->kind == TC_SYM_CONST ? b->value : 0, k;
  if (n) {
    if (one_period(c, a, n, &k) && !__builtin_mul_overflow(k, -n, &k)) return tc_sym_addi(c, a, k);
    if (tc_sym_divisor_of(c, a) % n == 0) return tc_sym_int(c, 0);
  }
  const tc_sym *q, *r, *g, *x, *m;
  split(c, a, b, &q, &r);
  if (!tc_sym_is_int(q, 0)) return tc_sym_mod(c, r, b);
  if (!n && tc_sym_below(c, a, b)) return a;
  if (mirrored(c, a, b, &x)) return tc_sym_sub(c, tc_sym_addi(c, b, -1), tc_sym_mod(c, x, b));
  if (n) {
    const tc_sym *part = divisible_part(c, a, n);
    if (!tc_sym_is_int(part, 0)) return tc_sym_mod(c, tc_sym_sub(c, a, part), b);
  }
  terms t;
  tc_sym_terms(a, &t);
  for (int32_t i = 0; i < t.n; i++) {
    factor f[FACTORS];
    int32_t count = nd(t.kids[i])->divides ? tc_sym_factors(nd(t.kids[i])->unit, f, FACTORS) : 0;
    for (int32_t j = 0; j < count; j++) {
      const tc_sym *inner = f[j].base;
      if (inner->kind != TC_SYM_MOD || f[j].power != 1) continue;
      const tc_sym *by = tc_sym_exact(c, t.kids[i], inner), *whole = tc_sym_mul(c, by, inner->kids[1]);
      if (whole->kind == TC_SYM_ADD || nd(whole)->raw || !tc_sym_exact(c, whole, b)) continue;
      const tc_sym *rest = tc_sym_sub(c, a, t.kids[i]);
      return tc_sym_mod(c, tc_sym_add(c, rest, tc_sym_mul(c, by, inner->kids[0])), b);
    }
  }
  if (group(c, a, b, &g, &x, &r, &m)) return tc_sym_add(c, tc_sym_mul(c, g, tc_sym_mod(c, x, m)), r);
  return tc_sym_make2(c, TC_SYM_MOD, a, b);
}

static const tc_sym *operation(tc_sym_ctx *c, int32_t kind, const tc_sym *a, const tc_sym *b) {
  bool div = kind == TC_SYM_FLOORDIV;
  int64_t v;
  if (a->kind == TC_SYM_CONST && b->kind == TC_SYM_CONST)
    return tc_sym_fold(kind, a->value, b->value, &v) ? tc_sym_int(c, v) : tc_sym_make2(c, kind, a, b);
  if (tc_sym_is_int(b, 0)) return tc_sym_make2(c, kind, a, b);
  if (tc_sym_is_int(a, 0)) return a;
  if (tc_sym_is_int(b, 1)) return div ? a : tc_sym_int(c, 0);
  if (a == b) return tc_sym_int(c, div);
  tc_sym_look(c);
  const tc_sym *r = tc_sym_cached(c, kind, a, b);
  if (r) return r;
  if (b->kind == TC_SYM_CONST && b->value < 0 && b->value > INT64_MIN) {
    const tc_sym *na = tc_sym_neg(c, a), *nb = tc_sym_int(c, -b->value);
    r = div ? tc_sym_floordiv(c, na, nb) : tc_sym_neg(c, tc_sym_mod(c, na, nb));
  } else if (b->kind == TC_SYM_CONST && b->value == INT64_MIN) {
    r = tc_sym_make2(c, kind, a, b);
  } else {
    r = div ? divide(c, a, b) : modulo(c, a, b);
  }
  tc_sym_remember(c, kind, a, b, r);
  return r;
}

const tc_sym *tc_sym_floordiv(tc_sym_ctx *c, const tc_sym *a, const tc_sym *b) {
  return operation(c, TC_SYM_FLOORDIV, a, b);
}
const tc_sym *tc_sym_mod(tc_sym_ctx *c, const tc_sym *a, const tc_sym *b) { return operation(c, TC_SYM_MOD, a, b); }
const tc_sym *tc_sym_ceildiv(tc_sym_ctx *c, const tc_sym *a, const tc_sym *b) {
  return tc_sym_floordiv(c, tc_sym_add(c, a, tc_sym_addi(c, b, -1)), b);
}
