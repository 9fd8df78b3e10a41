// Proofs and assumptions.
//
// Everything is brought to "d is never negative" for a canonical d. When the interval of d does not settle it,
// variables are eliminated: where the sign of the coefficient of x in d is known, x is replaced by that bound of x
// which makes d least. Bounds may be expressions (i ≤ s0 - 1), so s1·s0 - i·s0 - j - 1 with i < s1, j < s0 comes down
// to 0. Quotients and remainders are variables with bounds of their own (n·(x // n) ≤ x, x mod n ≤ n - 1); Min, Max and
// Where are split into cases. This is Fourier and Motzkin's elimination restricted to one bound at a time; it is sound,
// not complete. A proof has a budget of steps, so a failing one costs a bounded time.
#include "core/symbolic/internal.h"

enum { BUDGET = 96, NESTING = 10, CANDIDATES = 12, FACTORS = 48, DEGREE = 4, FACTS = 24, ROUNDS = 4, LOCAL = 64 };

// ---- never negative

// d = rest + Σ coeff[k]·x^k; false if x has a higher power.
typedef struct parts {
  const tc_sym *rest, *coeff[DEGREE + 1];
  int32_t degree;
} parts;

static bool take_apart(tc_sym_ctx *c, const tc_sym *d, const tc_sym *x, parts *out) {
  terms t;
  tc_sym_terms(d, &t);
  const tc_sym *local[LOCAL];
  const tc_sym **rest = t.n <= LOCAL ? local : TC_NEW_ARRAY(c->arena, const tc_sym *, t.n);
  int32_t kept = 0;
  out->degree = 0;
  for (int32_t k = 0; k <= DEGREE; k++) out->coeff[k] = tc_sym_int(c, 0);
  for (int32_t i = 0; i < t.n; i++) {
    factor f[FACTORS];
    int32_t n = tc_sym_factors(nd(t.kids[i])->unit, f, FACTORS);
    int64_t power = 0;
    for (int32_t j = 0; j < n; j++)
      if (f[j].base == x) power = f[j].power;
    if (power == 0) {
      rest[kept++] = t.kids[i];
      continue;
    }
    if (power > DEGREE) return false;
    out->coeff[power] = tc_sym_add(c, out->coeff[power], tc_sym_without_factor(c, t.kids[i], x));
    if (power > out->degree) out->degree = (int32_t)power;
  }
  if (out->degree > 0) out->rest = tc_sym_sum_of(c, t.constant, rest, kept);
  return out->degree > 0;
}

static const tc_sym *put_together(tc_sym_ctx *c, const parts *p, const tc_sym *x) {
  const tc_sym *d = p->rest, *power = tc_sym_int(c, 1);
  for (int32_t k = 1; k <= p->degree; k++) {
    power = tc_sym_mul(c, power, x);
    d = tc_sym_add(c, d, tc_sym_mul(c, p->coeff[k], power));
  }
  return d;
}

// The coefficients of the polynomial in y = x - lo.
static parts shifted(tc_sym_ctx *c, const parts *p, int64_t lo) {
  parts q = *p;
  for (int32_t round = 0; round < q.degree; round++) // Horner's scheme, once per coefficient; coefficient 0 is unused
    for (int32_t k = q.degree - 1; k >= round && k > 0; k--)
      q.coeff[k] = tc_sym_add(c, q.coeff[k], tc_sym_muli(c, q.coeff[k + 1], lo));
  return q;
}

// In which direction d grows with x: 1 never falls, -1 never rises, 0 not known. With powers, all coefficients of the
// polynomial in x - lo ≥ 0 must have one sign.
static int32_t sign_of(tc_sym_ctx *c, const parts *given, const tc_sym *x) {
  parts shift;
  const parts *p = given;
  if (p->degree > 1) {
    int64_t lo = tc_sym_interval(c, x).lo;
    if (lo <= -TC_SYM_INF) return 0;
    if (lo) {
      shift = shifted(c, p, lo);
      p = &shift;
    }
  }
  for (int32_t sign = 1; sign >= -1; sign -= 2) {
    bool all = true;
    for (int32_t k = 1; k <= p->degree && all; k++) {
      interval v = tc_sym_interval(c, p->coeff[k]);
      if (sign > 0 ? v.lo >= 0 : v.hi <= 0) continue;
      all = sign > 0 ? v.hi > 0 && tc_sym_nonneg(c, p->coeff[k])
                     : v.lo < 0 && tc_sym_nonneg(c, tc_sym_neg(c, p->coeff[k]));
    }
    if (all) return sign;
  }
  return 0;
}

static bool has_bounds(const tc_sym_ctx *c, const tc_sym *x) {
  if (x->kind != TC_SYM_SYMBOL) return false;
  const tc_sym_info *info = &c->symbols.data[x->symbol]->info;
  return info->lo_expr || info->hi_expr;
}

// e with the symbols that have symbolic bounds moved to their upper ends; e itself if there are none.
static const tc_sym *raise(tc_sym_ctx *c, const tc_sym *e) {
  for (int32_t round = 0; round < ROUNDS; round++) {
    terms t;
    tc_sym_terms(e, &t);
    const tc_sym *next = e;
    for (int32_t i = t.n - 1; i >= 0 && next == e; i--) {
      factor f[FACTORS];
      int32_t n = tc_sym_factors(nd(t.kids[i])->unit, f, FACTORS);
      for (int32_t j = n - 1; j >= 0 && next == e; j--) {
        parts p;
        if (!has_bounds(c, f[j].base) || !take_apart(c, e, f[j].base, &p)) continue;
        int32_t sign = sign_of(c, &p, f[j].base);
        const tc_sym_info *info = &c->symbols.data[f[j].base->symbol]->info;
        const tc_sym *end = sign > 0 ? info->hi_expr : sign < 0 ? info->lo_expr : NULL;
        if (!end && sign < 0 && info->lo > -TC_SYM_INF) end = tc_sym_int(c, info->lo);
        if (end && end != f[j].base) next = put_together(c, &p, end);
      }
    }
    if (next == e) break;
    e = next;
  }
  return e;
}

static bool holds_with(tc_sym_ctx *c, const parts *p, const tc_sym *x, const tc_sym *bound) {
  return bound && bound != x && tc_sym_nonneg(c, put_together(c, p, bound));
}

static bool bounded(int64_t v) { return v > -TC_SYM_INF && v < TC_SYM_INF; }

// Tries to show d ≥ 0 by eliminating x.
static bool eliminate(tc_sym_ctx *c, const tc_sym *d, const tc_sym *x) {
  parts p;
  if (!take_apart(c, d, x, &p)) return false;
  if (x->kind == TC_SYM_MIN || x->kind == TC_SYM_MAX || x->kind == TC_SYM_WHERE) {
    int32_t from = x->kind == TC_SYM_WHERE;
    const tc_sym *a = x->kids[from], *b = x->kids[from + 1];
    bool first = holds_with(c, &p, x, a), second = holds_with(c, &p, x, b);
    if (first && second) return true;
    if (!from) { // where Min(a, b) is a, b - a is never negative
      const tc_sym *gap = x->kind == TC_SYM_MIN ? tc_sym_sub(c, b, a) : tc_sym_sub(c, a, b);
      if ((first || tc_sym_nonneg(c, tc_sym_sub(c, put_together(c, &p, a), gap))) &&
          (second || tc_sym_nonneg(c, tc_sym_add(c, put_together(c, &p, b), gap))))
        return true;
    }
    // Min(a, b) ≤ a: for a coefficient that is never positive, one case is enough.
    int32_t easy = x->kind == TC_SYM_MIN ? -1 : x->kind == TC_SYM_MAX ? 1 : 0;
    return (first || second) && easy && sign_of(c, &p, x) == easy;
  }
  int32_t sign = sign_of(c, &p, x);
  if (sign == 0) return false;
  if (x->kind == TC_SYM_SYMBOL) {
    const tc_sym_info *info = &c->symbols.data[x->symbol]->info;
    if (holds_with(c, &p, x, sign > 0 ? info->lo_expr : info->hi_expr)) return true;
  } else if (x->kind == TC_SYM_FLOORDIV && tc_sym_interval(c, x->kids[1]).lo >= 0) {
    const tc_sym *a = x->kids[0], *n = x->kids[1];
    if (p.degree == 1) { // a - n + 1 ≤ n·(a // n) ≤ a
      const tc_sym *low = sign > 0 ? tc_sym_sub(c, tc_sym_addi(c, a, 1), n) : a;
      const tc_sym *m = tc_sym_exact_sum(c, p.coeff[1], n), *scaled;
      if (m) {
        scaled = tc_sym_add(c, p.rest, tc_sym_mul(c, m, low));
      } else { // n·d > -n is enough for d ≥ 0
        scaled = tc_sym_add(c, tc_sym_mul(c, n, p.rest), tc_sym_mul(c, p.coeff[1], low));
        scaled = tc_sym_add(c, scaled, tc_sym_addi(c, n, -1));
      }
      if (tc_sym_nonneg(c, scaled)) return true;
    }
    if (sign < 0) {
      const tc_sym *high = raise(c, a);
      if (high != a && holds_with(c, &p, x, tc_sym_floordiv(c, high, n))) return true;
    }
  } else if (x->kind == TC_SYM_MOD && sign < 0 && tc_sym_interval(c, x->kids[1]).lo >= 0) {
    if (holds_with(c, &p, x, tc_sym_addi(c, x->kids[1], -1))) return true;
    if (tc_sym_nonneg(c, x->kids[0]) && holds_with(c, &p, x, x->kids[0])) return true;
  }
  interval v = tc_sym_interval(c, x);
  int64_t end = sign > 0 ? v.lo : v.hi;
  return bounded(end) && holds_with(c, &p, x, tc_sym_int(c, end));
}

// Which variable first: composite ones, then those with symbolic bounds, then sizes; the later made the earlier.
static int32_t urgency(const tc_sym_ctx *c, const tc_sym *x) {
  if (x->kind != TC_SYM_SYMBOL) return 3000 + nd(x)->depth;
  return (has_bounds(c, x) ? 1 << 20 : 0) + x->symbol - (1 << 22);
}

static bool search(tc_sym_ctx *c, const tc_sym *d) {
  uint64_t mask = nd(d)->mask;
  if (mask & c->nonneg_mask)
    for (int32_t i = c->nonneg.count, tried = 0; i-- > 0 && tried < FACTS;) {
      const tc_sym *f = c->nonneg.data[i];
      if (f == d) return true;
      if (!(nd(f)->mask & mask)) continue;
      tried++;
      if (tc_sym_interval(c, tc_sym_sub(c, d, f)).lo >= 0) return true;
    }
  terms t;
  tc_sym_terms(d, &t);
  const tc_sym *var[CANDIDATES];
  int32_t count = 0;
  for (int32_t i = 0; i < t.n; i++) {
    factor f[FACTORS];
    int32_t n = tc_sym_factors(nd(t.kids[i])->unit, f, FACTORS);
    for (int32_t j = 0; j < n && count < CANDIDATES; j++) {
      const tc_sym *x = f[j].base;
      // A symbol with plain numbers as bounds that occurs alone is settled by the interval.
      bool alone = n == 1 && f[j].power == 1;
      if (x->kind == TC_SYM_CONST || (x->kind == TC_SYM_SYMBOL && alone && !has_bounds(c, x))) continue;
      bool known = nd(x)->raw;
      for (int32_t k = 0; k < count; k++) known |= var[k] == x;
      if (!known) var[count++] = x;
    }
  }
  for (int32_t i = 0; i < count; i++) {
    int32_t best = i;
    for (int32_t k = i + 1; k < count; k++)
      if (urgency(c, var[k]) > urgency(c, var[best])) best = k;
    const tc_sym *x = var[best];
    var[best] = var[i];
    if (c->budget <= 0) return false;
    if (eliminate(c, d, x)) return true;
  }
  return false;
}

static const tc_sym *with_equalities(tc_sym_ctx *c, const tc_sym *e) {
  for (int32_t i = 0; i < ROUNDS && (nd(e)->mask & c->equal_mask); i++) {
    const tc_sym *next = tc_sym_replace(c, e, c->equal_from.count, c->equal_from.data, c->equal_to.data);
    if (next == e) break;
    e = next;
  }
  return e;
}

bool tc_sym_nonneg(tc_sym_ctx *c, const tc_sym *d) {
  interval v = tc_sym_interval(c, d);
  if (v.lo >= 0) return true;
  if (v.hi < 0) return false;
  node *k = nd(d);
  if (k->sign_epoch == c->epoch) return k->sign == 1;
  bool outer = c->proving == 0;
  if (outer) c->budget = BUDGET;
  if (c->proving >= NESTING || c->budget <= 0) return false;
  c->budget--;
  c->proving++;
  uint32_t epoch = c->epoch;
  bool yes;
  const tc_sym *same = with_equalities(c, d);
  if (same != d) yes = tc_sym_nonneg(c, same);
  else yes = search(c, d);
  c->proving--;
  // Inside another proof a "not known" may only be for lack of budget.
  if (yes || outer) {
    k->sign_epoch = epoch;
    k->sign = yes;
  }
  return yes;
}

bool tc_sym_below(tc_sym_ctx *c, const tc_sym *a, const tc_sym *b) {
  if (!tc_sym_nonneg(c, a)) return false;
  return tc_sym_nonneg(c, tc_sym_sub(c, tc_sym_addi(c, b, -1), a));
}

// ---- conditions

static const tc_sym *minus_one_minus(tc_sym_ctx *c, const tc_sym *d) { return tc_sym_sub(c, tc_sym_int(c, -1), d); }

static int32_t is_zero(tc_sym_ctx *c, const tc_sym *d) {
  if (d->kind == TC_SYM_CONST) return d->value == 0;
  int64_t content, constant;
  const tc_sym *p = tc_sym_primitive(c, d, &content, &constant);
  int64_t g = tc_sym_divisor_of(c, p);
  if (content < 0) content = -content;
  if (constant && (constant % content || (g && (constant / content) % g))) return 0;
  d = with_equalities(c, d);
  if (d->kind == TC_SYM_CONST) return d->value == 0;
  bool up = tc_sym_nonneg(c, d), down = tc_sym_nonneg(c, tc_sym_neg(c, d));
  if (up && down) return 1;
  if (tc_sym_nonneg(c, minus_one_minus(c, d)) || tc_sym_nonneg(c, tc_sym_addi(c, d, -1))) return 0;
  return -1;
}

static int32_t negated(int32_t t) { return t < 0 ? t : !t; }

static int32_t truth_by_kind(tc_sym_ctx *c, const tc_sym *e) {
  switch (e->kind) {
  case TC_SYM_LT:
  case TC_SYM_LE: {
    const tc_sym *d = tc_sym_sub(c, e->kids[1], e->kids[0]);
    if (e->kind == TC_SYM_LT) d = tc_sym_addi(c, d, -1);
    if (tc_sym_nonneg(c, d)) return 1;
    return tc_sym_nonneg(c, minus_one_minus(c, d)) ? 0 : -1;
  }
  case TC_SYM_EQ: return is_zero(c, tc_sym_sub(c, e->kids[0], e->kids[1]));
  case TC_SYM_NE: return negated(is_zero(c, tc_sym_sub(c, e->kids[0], e->kids[1])));
  case TC_SYM_NOT: return negated(tc_sym_truth(c, e->kids[0]));
  case TC_SYM_AND:
  case TC_SYM_OR: {
    int32_t a = tc_sym_truth(c, e->kids[0]), b = tc_sym_truth(c, e->kids[1]), settles = e->kind == TC_SYM_OR;
    if (a == settles || b == settles) return settles;
    return a < 0 || b < 0 ? -1 : !settles;
  }
  case TC_SYM_WHERE: {
    int32_t t = tc_sym_truth(c, e->kids[0]);
    if (t >= 0) return tc_sym_truth(c, e->kids[t ? 1 : 2]);
    int32_t a = tc_sym_truth(c, e->kids[1]), b = tc_sym_truth(c, e->kids[2]);
    return a == b ? a : -1;
  }
  default: return negated(is_zero(c, e));
  }
}

int32_t tc_sym_truth(tc_sym_ctx *c, const tc_sym *e) {
  interval v = tc_sym_interval(c, e);
  if (v.lo > 0 || v.hi < 0) return 1;
  if (v.lo == 0 && v.hi == 0) return 0;
  node *k = nd(e);
  if (k->truth_epoch == c->epoch) return k->truth;
  uint32_t epoch = c->epoch;
  int32_t t = truth_by_kind(c, e);
  if (t >= 0 || c->proving == 0) { // inside a proof, "not known" may be for lack of budget
    k->truth_epoch = epoch;
    k->truth = (int8_t)t;
  }
  return t;
}

int32_t tc_sym_prove(tc_sym_ctx *c, const tc_sym *condition) {
  tc_sym_look(c);
  return tc_sym_truth(c, condition);
}

bool tc_sym_eq(tc_sym_ctx *c, const tc_sym *a, const tc_sym *b) {
  if (a == b) return true;
  tc_sym_look(c);
  return is_zero(c, tc_sym_sub(c, a, b)) == 1;
}

// ---- assumptions

static fact *fact_of(tc_sym_ctx *c, const tc_sym *e) {
  bool made;
  tc_map_entry *entry = tc_map_put_ptr(c->facts, e, &made);
  if (made) {
    fact *f = TC_NEW(c->arena, fact);
    *f = (fact){-TC_SYM_INF, TC_SYM_INF, 1};
    entry->value.ptr = f;
  }
  return entry->value.ptr;
}

static int64_t floor_div(int64_t a, int64_t b) {
  int64_t q = a / b;
  return q - (a % b != 0 && (a < 0) != (b < 0));
}

// content·p + constant ≥ 0.
static void assume_nonneg(tc_sym_ctx *c, const tc_sym *d) {
  int64_t content, constant;
  const tc_sym *p = tc_sym_primitive(c, d, &content, &constant);
  if (!p || constant == INT64_MIN) return;
  int64_t lo = -TC_SYM_INF, hi = TC_SYM_INF;
  if (content > 0) lo = -floor_div(constant, content); // ceil(-constant / content)
  else hi = floor_div(constant, -content);
  if (p->kind == TC_SYM_SYMBOL) {
    tc_sym_info *info = &c->symbols.data[p->symbol]->info;
    if (lo > info->lo) info->lo = lo;
    if (hi < info->hi) info->hi = hi;
    return;
  }
  fact *f = fact_of(c, p);
  if (lo > f->lo) f->lo = lo;
  if (hi < f->hi) f->hi = hi;
  tc_vec_push(c->arena, &c->nonneg, d);
  c->nonneg_mask |= nd(d)->mask;
}

static int64_t lcm(int64_t a, int64_t b) {
  int64_t r;
  if (a <= 0 || b <= 0) return 1;
  return __builtin_mul_overflow(a / tc_sym_gcd(a, b), b, &r) ? a : r;
}

// n divides x.
static void assume_divides(tc_sym_ctx *c, const tc_sym *x, int64_t n) {
  int64_t content, constant;
  const tc_sym *p = tc_sym_primitive(c, x, &content, &constant);
  if (!p) return;
  if (constant) {
    p = x;
  } else {
    n /= tc_sym_gcd(n, content);
  }
  int64_t *divisor = p->kind == TC_SYM_SYMBOL ? &c->symbols.data[p->symbol]->info.divisor : &fact_of(c, p)->divisor;
  *divisor = lcm(*divisor, n);
}

// Remembers "symbol = expression" for d = 0, if a symbol occurs in d once and alone.
static void assume_equal(tc_sym_ctx *c, const tc_sym *d) {
  d = with_equalities(c, d);
  terms t;
  tc_sym_terms(d, &t);
  const tc_sym *best = NULL, *to = NULL;
  for (int32_t i = 0; i < t.n; i++) {
    term u = term_at(&t, i);
    if (u.unit->kind != TC_SYM_SYMBOL || (u.coeff != 1 && u.coeff != -1)) continue;
    if (best && best->symbol > u.unit->symbol) continue;
    const tc_sym *rest = tc_sym_sub(c, d, t.kids[i]);
    if (tc_sym_uses(rest, u.unit)) continue;
    best = u.unit;
    to = u.coeff == 1 ? tc_sym_neg(c, rest) : rest;
  }
  if (!best) return;
  tc_vec_push(c->arena, &c->equal_from, best);
  tc_vec_push(c->arena, &c->equal_to, to);
  c->equal_mask |= nd(best)->mask;
}

static void assume(tc_sym_ctx *c, const tc_sym *e) {
  tc_map_put_ptr(c->truths, e, NULL)->value.num = 1;
  tc_map_put_ptr(c->truths, tc_sym_not(c, e), NULL)->value.num = 0;
  const tc_sym *a = e->n > 0 ? e->kids[0] : NULL, *b = e->n > 1 ? e->kids[1] : NULL;
  switch (e->kind) {
  case TC_SYM_AND:
    assume(c, a);
    assume(c, b);
    break;
  case TC_SYM_LE: assume_nonneg(c, tc_sym_sub(c, b, a)); break;
  case TC_SYM_LT: assume_nonneg(c, tc_sym_addi(c, tc_sym_sub(c, b, a), -1)); break;
  case TC_SYM_EQ: {
    const tc_sym *d = tc_sym_sub(c, a, b);
    if (a->kind == TC_SYM_MOD && tc_sym_is_int(b, 0) && a->kids[1]->kind == TC_SYM_CONST && a->kids[1]->value > 0)
      assume_divides(c, a->kids[0], a->kids[1]->value);
    assume_nonneg(c, d);
    assume_nonneg(c, tc_sym_neg(c, d));
    assume_equal(c, d);
    break;
  }
  case TC_SYM_NE: { // an end of the range that is excluded moves in
    const tc_sym *d = tc_sym_sub(c, a, b);
    interval v = tc_sym_interval(c, d);
    if (v.lo == 0) assume_nonneg(c, tc_sym_addi(c, d, -1));
    if (v.hi == 0) assume_nonneg(c, minus_one_minus(c, d));
    break;
  }
  default: break;
  }
}

void tc_sym_assume(tc_sym_ctx *c, const tc_sym *condition) {
  tc_sym_look(c);
  if (condition->kind == TC_SYM_CONST) return;
  assume(c, condition);
  c->epoch++;
}
