// Sums of products. Canonical form: a sum is Σ coeff·unit + constant with units in tc_sym_order, each once; a unit is
// an atom, a power, or a product of powers of atoms in order. So adding is a merge of two sorted lists, and equal
// polynomials are the same node.
//
// Quotients and remainders meet again in a sum (all hold for every n ≠ 0 with rounding down):
//   n·(x // n) + x mod n = x,   x - n·(x // n) = x mod n,   n·((x // n) mod b) + x mod n = x mod (n·b) for b > 0,
//   n·(x // n) = x where n divides x.
//
// Where a coefficient would overflow, or a product would have too many terms, the operation makes a `raw` node that
// keeps its operands as they are; such a node is an atom to everything else.
#include <stdlib.h>
#include <string.h>

#include "core/symbolic/internal.h"

enum { FACTORS = 48, LOCAL = 96 };

// Coefficients are never INT64_MIN, so that they can be negated.
static bool coeff_mul(int64_t a, int64_t b, int64_t *out) {
  return !__builtin_mul_overflow(a, b, out) && *out != INT64_MIN;
}
static bool coeff_add(int64_t a, int64_t b, int64_t *out) {
  return !__builtin_add_overflow(a, b, out) && *out != INT64_MIN;
}

int64_t tc_sym_gcd(int64_t a, int64_t b) {
  uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
  while (y) {
    uint64_t t = x % y;
    x = y;
    y = t;
  }
  return x > INT64_MAX ? 1 : (int64_t)x; // 2^63 divides only the least integer: 1 is right, too
}

void tc_sym_terms(const tc_sym *e, terms *out) {
  if (e->kind == TC_SYM_CONST) {
    *out = (terms){.constant = e->value};
  } else if (e->kind == TC_SYM_ADD && !nd(e)->raw) {
    bool constant = e->kids[0]->kind == TC_SYM_CONST;
    *out = (terms){.constant = constant ? e->kids[0]->value : 0, .n = e->n - constant, .kids = e->kids + constant};
  } else {
    *out = (terms){.n = 1, .one = {e}};
    out->kids = out->one;
  }
}

const tc_sym *tc_sym_term(tc_sym_ctx *c, int64_t coeff, const tc_sym *unit) {
  if (!unit || coeff == 0) return tc_sym_int(c, coeff);
  if (coeff == 1) return unit;
  const tc_sym *kids[FACTORS + 1];
  kids[0] = tc_sym_int(c, coeff);
  if (unit->kind != TC_SYM_MUL || nd(unit)->raw) {
    kids[1] = unit;
    return tc_sym_make(c, TC_SYM_MUL, kids, 2, false);
  }
  memcpy(kids + 1, unit->kids, sizeof *kids * (size_t)unit->n);
  return tc_sym_make(c, TC_SYM_MUL, kids, unit->n + 1, false);
}

// ---- products of units

int32_t tc_sym_factors(const tc_sym *unit, factor *out, int32_t room) {
  const tc_sym *const *kids = &unit;
  int32_t n = 1;
  if (!unit) return 0;
  if (unit->kind == TC_SYM_MUL && !nd(unit)->raw) {
    kids = unit->kids;
    n = unit->n;
  }
  if (n > room) return -1;
  for (int32_t i = 0; i < n; i++) {
    const tc_sym *k = kids[i];
    bool power = k->kind == TC_SYM_POW && !nd(k)->raw && k->kids[0]->kind != TC_SYM_CONST &&
                 k->kids[1]->kind == TC_SYM_CONST && k->kids[1]->value >= 2;
    out[i] = power ? (factor){k->kids[0], k->kids[1]->value} : (factor){k, 1};
  }
  return n;
}

static const tc_sym *from_factors(tc_sym_ctx *c, const factor *f, int32_t n) {
  if (n == 0) return NULL;
  const tc_sym *kids[FACTORS];
  for (int32_t i = 0; i < n; i++)
    kids[i] = f[i].power == 1 ? f[i].base : tc_sym_make2(c, TC_SYM_POW, f[i].base, tc_sym_int(c, f[i].power));
  return n == 1 ? kids[0] : tc_sym_make(c, TC_SYM_MUL, kids, n, false);
}

// u·v, NULL being 1; false if there are too many factors or a power overflows.
static bool unit_product(tc_sym_ctx *c, const tc_sym *u, const tc_sym *v, const tc_sym **out) {
  *out = u ? u : v;
  if (!u || !v) return true;
  factor a[FACTORS], b[FACTORS], r[FACTORS];
  int32_t na = tc_sym_factors(u, a, FACTORS), nb = tc_sym_factors(v, b, FACTORS), n = 0;
  if (na < 0 || nb < 0 || na + nb > FACTORS) return false;
  for (int32_t i = 0, j = 0; i < na || j < nb;) {
    int32_t o = i == na ? 1 : j == nb ? -1 : tc_sym_order(a[i].base, b[j].base);
    if (o < 0) {
      r[n++] = a[i++];
    } else if (o > 0) {
      r[n++] = b[j++];
    } else {
      r[n] = a[i++];
      if (__builtin_add_overflow(r[n].power, b[j++].power, &r[n].power)) return false;
      n++;
    }
  }
  *out = from_factors(c, r, n);
  return true;
}

const tc_sym *tc_sym_exact(tc_sym_ctx *c, const tc_sym *t, const tc_sym *by) {
  const node *a = nd(t), *b = nd(by);
  if (b->coeff == 0 || (a->coeff == INT64_MIN && b->coeff == -1) || a->coeff % b->coeff) return NULL;
  int64_t coeff = a->coeff / b->coeff;
  if (!b->unit || coeff == 0) return tc_sym_term(c, coeff, a->unit);
  if (!a->unit || (b->mask & ~a->mask)) return NULL;
  if (a->unit == b->unit) return tc_sym_int(c, coeff);
  factor f[FACTORS], g[FACTORS], r[FACTORS];
  int32_t nf = tc_sym_factors(a->unit, f, FACTORS), ng = tc_sym_factors(b->unit, g, FACTORS), n = 0, j = 0;
  if (nf < 0 || ng < 0) return NULL;
  for (int32_t i = 0; i < nf; i++) {
    r[n] = f[i];
    if (j < ng && f[i].base == g[j].base) {
      if (f[i].power < g[j].power) return NULL;
      r[n].power -= g[j++].power;
      if (r[n].power == 0) continue;
    }
    n++;
  }
  if (j < ng) return NULL; // both lists are in order, so a missing factor stops j
  return tc_sym_term(c, coeff, from_factors(c, r, n));
}

const tc_sym *tc_sym_without_factor(tc_sym_ctx *c, const tc_sym *t, const tc_sym *base) {
  factor f[FACTORS], r[FACTORS];
  int32_t n = tc_sym_factors(nd(t)->unit, f, FACTORS), m = 0;
  for (int32_t i = 0; i < n; i++)
    if (f[i].base != base) r[m++] = f[i];
  return tc_sym_term(c, nd(t)->coeff, from_factors(c, r, m));
}

// ---- sums

static const tc_sym *raw2(tc_sym_ctx *c, int32_t kind, const tc_sym *a, const tc_sym *b) {
  bool swap = tc_sym_order(a, b) > 0;
  const tc_sym *kids[] = {swap ? b : a, swap ? a : b};
  return tc_sym_make(c, kind, kids, 2, true);
}

// The sum without its kids i and j.
static const tc_sym *without(tc_sym_ctx *c, int64_t constant, const tc_sym *const *kids, int32_t n, int32_t i,
                             int32_t j);

static int32_t find_unit(const tc_sym *const *kids, int32_t n, const tc_sym *unit) {
  for (int32_t i = 0; i < n; i++)
    if (nd(kids[i])->unit == unit) return i;
  return -1;
}

// k·(x mod n) with k·n·(x // n), or with k·n·((x // n) mod b). `k` is a term.
static const tc_sym *rejoin_mod(tc_sym_ctx *c, int64_t constant, const tc_sym *const *kids, int32_t n, int32_t at,
                                const tc_sym *k, const tc_sym *x, const tc_sym *by) {
  if (by->kind == TC_SYM_ADD) return NULL;
  const tc_sym *q = tc_sym_floordiv(c, x, by), *kn = tc_sym_mul(c, k, by);
  if (nd(kn)->raw || kn->kind == TC_SYM_ADD) return NULL;
  for (int32_t i = 0; i < n; i++) {
    if (i == at || !nd(kids[i])->divides) continue;
    const tc_sym *rest = tc_sym_exact(c, kids[i], kn);
    if (!rest) continue;
    const tc_sym *back = NULL;
    if (rest == q) back = x;
    else if (rest->kind == TC_SYM_MOD && rest->kids[0] == q && tc_sym_interval(c, rest->kids[1]).lo >= 0)
      back = tc_sym_mod(c, x, tc_sym_mul(c, by, rest->kids[1]));
    if (back) return tc_sym_add(c, without(c, constant, kids, n, at, i), tc_sym_mul(c, k, back));
  }
  return NULL;
}

// k·(x // n): equals (k/n)·x if n divides x; with -(k/n)·x in the sum a remainder is left.
static const tc_sym *rejoin_div(tc_sym_ctx *c, int64_t constant, const tc_sym *const *kids, int32_t n, int32_t at,
                                const tc_sym *k, const tc_sym *x, const tc_sym *by) {
  if (by->kind == TC_SYM_ADD || nd(by)->raw) return NULL;
  const tc_sym *m = tc_sym_exact(c, k, by);
  if (!m) return NULL;
  if (by->kind == TC_SYM_CONST) {
    int64_t d = tc_sym_divisor_of(c, x);
    if (d % by->value == 0) return tc_sym_add(c, without(c, constant, kids, n, at, -1), tc_sym_mul(c, m, x));
  }
  if (n < 2) return NULL;
  m = tc_sym_neg(c, m);
  const tc_sym *whole = tc_sym_mul(c, m, x);
  if (nd(whole)->raw) return NULL;
  terms t;
  tc_sym_terms(whole, &t);
  if (t.n == 0 || t.n >= n) return NULL;
  for (int32_t i = 0; i < t.n; i++) {
    term want = term_at(&t, i);
    int32_t there = find_unit(kids, n, want.unit);
    if (there < 0 || there == at || nd(kids[there])->coeff != want.coeff) return NULL;
  }
  const tc_sym *rest = tc_sym_sub(c, without(c, constant, kids, n, at, -1), whole);
  return tc_sym_add(c, rest, tc_sym_mul(c, m, tc_sym_mod(c, x, by)));
}

static const tc_sym *rejoin(tc_sym_ctx *c, int64_t constant, const tc_sym *const *kids, int32_t n) {
  int32_t dividing = 0;
  for (int32_t i = 0; i < n; i++) dividing += nd(kids[i])->divides;
  if (dividing == 0) return NULL;
  for (int32_t i = 0; i < n; i++) {
    if (!nd(kids[i])->divides) continue;
    factor f[FACTORS];
    int32_t nf = tc_sym_factors(nd(kids[i])->unit, f, FACTORS);
    for (int32_t j = 0; j < nf; j++) {
      const tc_sym *d = f[j].base;
      if (f[j].power != 1 || (d->kind != TC_SYM_MOD && d->kind != TC_SYM_FLOORDIV)) continue;
      if (d->kind == TC_SYM_MOD && dividing < 2) continue;
      const tc_sym *k = tc_sym_exact(c, kids[i], d);
      const tc_sym *r = d->kind == TC_SYM_MOD ? rejoin_mod(c, constant, kids, n, i, k, d->kids[0], d->kids[1])
                                              : rejoin_div(c, constant, kids, n, i, k, d->kids[0], d->kids[1]);
      if (r) return r;
    }
  }
  return NULL;
}

// The sum of terms in order, each unit once, no coefficient 0.
static const tc_sym *finish(tc_sym_ctx *c, int64_t constant, const tc_sym **kids, int32_t n) {
  const tc_sym *again = rejoin(c, constant, kids, n);
  if (again) return again;
  if (n == 0) return tc_sym_int(c, constant);
  if (constant == 0) return n == 1 ? kids[0] : tc_sym_make(c, TC_SYM_ADD, kids, n, false);
  const tc_sym *local[LOCAL];
  const tc_sym **all = n + 1 <= LOCAL ? local : TC_NEW_ARRAY(c->arena, const tc_sym *, n + 1);
  all[0] = tc_sym_int(c, constant);
  memcpy(all + 1, kids, sizeof *kids * (size_t)n);
  return tc_sym_make(c, TC_SYM_ADD, all, n + 1, false);
}

const tc_sym *tc_sym_sum_of(tc_sym_ctx *c, int64_t constant, const tc_sym **kids, int32_t n) {
  return finish(c, constant, kids, n);
}

static const tc_sym *without(tc_sym_ctx *c, int64_t constant, const tc_sym *const *kids, int32_t n, int32_t i,
                             int32_t j) {
  const tc_sym *local[LOCAL] = {0};
  const tc_sym **left = n <= LOCAL ? local : TC_NEW_ARRAY(c->arena, const tc_sym *, n);
  int32_t m = 0;
  for (int32_t k = 0; k < n; k++)
    if (k != i && k != j) left[m++] = kids[k];
  return finish(c, constant, left, m);
}

// a + scale·b with scale ±1; NULL if a coefficient overflows or the sum is too long.
static const tc_sym *merge(tc_sym_ctx *c, const tc_sym *a, const tc_sym *b, int64_t scale) {
  terms s, t;
  tc_sym_terms(a, &s);
  tc_sym_terms(b, &t);
  int64_t constant, scaled;
  if (__builtin_mul_overflow(t.constant, scale, &scaled) || __builtin_add_overflow(s.constant, scaled, &constant) ||
      s.n + t.n > SUM_TERMS)
    return NULL;
  const tc_sym *local[LOCAL];
  const tc_sym **out = s.n + t.n <= LOCAL ? local : TC_NEW_ARRAY(c->arena, const tc_sym *, s.n + t.n);
  int32_t n = 0;
  for (int32_t i = 0, j = 0; i < s.n || j < t.n;) {
    int32_t o = i == s.n ? 1 : j == t.n ? -1 : tc_sym_order(nd(s.kids[i])->unit, nd(t.kids[j])->unit);
    if (o < 0) {
      out[n++] = s.kids[i++];
      continue;
    }
    term u = term_at(&t, j);
    if (!coeff_mul(u.coeff, scale, &u.coeff)) return NULL;
    if (o == 0 && !coeff_add(u.coeff, nd(s.kids[i++])->coeff, &u.coeff)) return NULL;
    if (u.coeff) out[n++] = scale == 1 && o > 0 ? t.kids[j] : tc_sym_term(c, u.coeff, u.unit);
    j++;
  }
  return finish(c, constant, out, n);
}

const tc_sym *tc_sym_add(tc_sym_ctx *c, const tc_sym *a, const tc_sym *b) {
  if (tc_sym_is_int(a, 0)) return b;
  if (tc_sym_is_int(b, 0)) return a;
  const tc_sym *r = merge(c, a, b, 1);
  return r ? r : raw2(c, TC_SYM_ADD, a, b);
}

const tc_sym *tc_sym_sub(tc_sym_ctx *c, const tc_sym *a, const tc_sym *b) {
  if (tc_sym_is_int(b, 0)) return a;
  if (a == b) return tc_sym_int(c, 0);
  const tc_sym *r = merge(c, a, b, -1);
  return r ? r : tc_sym_add(c, a, tc_sym_neg(c, b));
}

const tc_sym *tc_sym_neg(tc_sym_ctx *c, const tc_sym *a) { return tc_sym_muli(c, a, -1); }
const tc_sym *tc_sym_addi(tc_sym_ctx *c, const tc_sym *a, int64_t b) { return tc_sym_add(c, a, tc_sym_int(c, b)); }

const tc_sym *tc_sym_muli(tc_sym_ctx *c, const tc_sym *a, int64_t k) {
  if (k == 1) return a;
  if (k == 0) return tc_sym_int(c, 0);
  terms t;
  tc_sym_terms(a, &t);
  int64_t constant, coeff;
  const tc_sym *local[LOCAL];
  const tc_sym **out = t.n <= LOCAL ? local : TC_NEW_ARRAY(c->arena, const tc_sym *, t.n);
  bool overflow = __builtin_mul_overflow(t.constant, k, &constant);
  for (int32_t i = 0; i < t.n && !overflow; i++) {
    term u = term_at(&t, i);
    overflow = !coeff_mul(u.coeff, k, &coeff);
    if (!overflow) out[i] = tc_sym_term(c, coeff, u.unit);
  }
  return overflow ? raw2(c, TC_SYM_MUL, tc_sym_int(c, k), a) : finish(c, constant, out, t.n);
}

// ---- products of sums

static int by_unit(const void *a, const void *b) {
  return tc_sym_order(((const term *)a)->unit, ((const term *)b)->unit);
}

const tc_sym *tc_sym_mul(tc_sym_ctx *c, const tc_sym *a, const tc_sym *b) {
  if (a->kind == TC_SYM_CONST) return tc_sym_muli(c, b, a->value);
  if (b->kind == TC_SYM_CONST) return tc_sym_muli(c, a, b->value);
  terms s, t;
  tc_sym_terms(a, &s);
  tc_sym_terms(b, &t);
  int32_t sn = s.n + (s.constant != 0), tn = t.n + (t.constant != 0);
  if (sn > 1 && tn > 1 && (int64_t)sn * tn > EXPAND_TERMS) return raw2(c, TC_SYM_MUL, a, b);
  term local[LOCAL];
  term *out = sn * tn <= LOCAL ? local : TC_NEW_ARRAY(c->arena, term, sn * tn);
  int32_t n = 0;
  int64_t constant;
  if (__builtin_mul_overflow(s.constant, t.constant, &constant)) return raw2(c, TC_SYM_MUL, a, b);
  for (int32_t i = 0; i < sn; i++)
    for (int32_t j = 0; j < tn; j++) {
      term x = i < s.n ? term_at(&s, i) : (term){s.constant, NULL};
      term y = j < t.n ? term_at(&t, j) : (term){t.constant, NULL};
      if (!x.unit && !y.unit) continue;
      if (!coeff_mul(x.coeff, y.coeff, &out[n].coeff) || !unit_product(c, x.unit, y.unit, &out[n].unit))
        return raw2(c, TC_SYM_MUL, a, b);
      n++;
    }
  if (n > 1) qsort(out, (size_t)n, sizeof *out, by_unit);
  const tc_sym *few[LOCAL];
  const tc_sym **kids = n <= LOCAL ? few : TC_NEW_ARRAY(c->arena, const tc_sym *, n);
  int32_t m = 0;
  for (int32_t i = 0; i < n;) {
    term u = out[i++];
    for (; i < n && out[i].unit == u.unit; i++)
      if (!coeff_add(u.coeff, out[i].coeff, &u.coeff)) return raw2(c, TC_SYM_MUL, a, b);
    if (u.coeff) kids[m++] = tc_sym_term(c, u.coeff, u.unit);
  }
  return finish(c, constant, kids, m);
}

// C(n + k - 1, k), the number of terms of the k-th power of n terms, saturating above EXPAND_TERMS.
static int64_t power_terms(int64_t n, int64_t k) {
  int64_t r = 1;
  for (int64_t i = 1; i <= k && r <= EXPAND_TERMS; i++) r = r * (n + i - 1) / i;
  return r;
}

const tc_sym *tc_sym_pow(tc_sym_ctx *c, const tc_sym *a, const tc_sym *b) {
  if (b->kind != TC_SYM_CONST || b->value < 0)
    return tc_sym_is_int(a, 1) && b->kind != TC_SYM_CONST ? a : tc_sym_make2(c, TC_SYM_POW, a, b);
  int64_t k = b->value, v = 0;
  if (k == 0) return tc_sym_int(c, 1);
  if (k == 1) return a;
  if (a->kind == TC_SYM_CONST)
    return tc_sym_fold(TC_SYM_POW, a->value, k, &v) ? tc_sym_int(c, v) : tc_sym_make2(c, TC_SYM_POW, a, b);
  terms t;
  tc_sym_terms(a, &t);
  if (t.n > 1 || t.constant) {
    if (power_terms(t.n + (t.constant != 0), k) > EXPAND_TERMS) return tc_sym_make2(c, TC_SYM_POW, a, b);
    const tc_sym *r = a;
    for (int64_t i = 1; i < k; i++) r = tc_sym_mul(c, r, a);
    return r;
  }
  factor f[FACTORS];
  int32_t n = tc_sym_factors(nd(a)->unit, f, FACTORS);
  bool overflow = n < 0 || !tc_sym_fold(TC_SYM_POW, nd(a)->coeff, k, &v) || v == INT64_MIN;
  for (int32_t i = 0; i < n && !overflow; i++) overflow = __builtin_mul_overflow(f[i].power, k, &f[i].power);
  if (overflow) return tc_sym_make(c, TC_SYM_POW, (const tc_sym *[]){a, b}, 2, true);
  const tc_sym *r = tc_sym_term(c, v, from_factors(c, f, n));
  return finish(c, 0, &r, 1);
}

const tc_sym *tc_sym_primitive(tc_sym_ctx *c, const tc_sym *e, int64_t *out_content, int64_t *out_constant) {
  terms t;
  tc_sym_terms(e, &t);
  *out_constant = t.constant;
  *out_content = 1;
  if (t.n == 0) return NULL;
  int64_t g = 0;
  for (int32_t i = 0; i < t.n; i++) g = tc_sym_gcd(g, nd(t.kids[i])->coeff);
  if (nd(t.kids[0])->coeff < 0) g = -g;
  *out_content = g;
  if (g == 1 && t.constant == 0) return e;
  if (t.n == 1) return nd(t.kids[0])->unit;
  node *sum = nd(e);
  if (sum->linear) return sum->linear;
  const tc_sym *local[LOCAL];
  const tc_sym **out = t.n <= LOCAL ? local : TC_NEW_ARRAY(c->arena, const tc_sym *, t.n);
  for (int32_t i = 0; i < t.n; i++) out[i] = tc_sym_term(c, nd(t.kids[i])->coeff / g, nd(t.kids[i])->unit);
  return sum->linear = tc_sym_make(c, TC_SYM_ADD, out, t.n, false);
}
