// What is known of an expression from the ranges and divisors of its symbols: an interval (interval arithmetic with
// saturation; Moore, "Interval analysis", 1966) and a divisor. Both are kept in the node for one epoch of facts.
#include "core/symbolic/internal.h"

static const interval EVERYTHING = {-TC_SYM_INF, TC_SYM_INF};

static bool infinite(int64_t v) { return v >= TC_SYM_INF || v <= -TC_SYM_INF; }
static int64_t clamp(i128 v) { return v >= TC_SYM_INF ? TC_SYM_INF : v <= -TC_SYM_INF ? -TC_SYM_INF : (int64_t)v; }

static int64_t mul_bound(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  if (infinite(a) || infinite(b)) return (a < 0) == (b < 0) ? TC_SYM_INF : -TC_SYM_INF;
  return clamp((i128)a * b);
}

static int64_t add_bound(int64_t a, int64_t b) {
  if (infinite(a)) return a;
  return infinite(b) ? b : clamp((i128)a + b);
}

static int64_t floor_div(int64_t a, int64_t b) {
  int64_t q = a / b;
  return q - (a % b != 0 && (a < 0) != (b < 0));
}

static interval mul(interval a, interval b) {
  int64_t p[] = {mul_bound(a.lo, b.lo), mul_bound(a.lo, b.hi), mul_bound(a.hi, b.lo), mul_bound(a.hi, b.hi)};
  interval r = {p[0], p[0]};
  for (int32_t i = 1; i < 4; i++) {
    if (p[i] < r.lo) r.lo = p[i];
    if (p[i] > r.hi) r.hi = p[i];
  }
  return r;
}

static int64_t neg_bound(int64_t v) { return v == INT64_MIN ? TC_SYM_INF : -v; }
static interval negate(interval a) { return (interval){neg_bound(a.hi), neg_bound(a.lo)}; }
static int64_t magnitude(interval a) {
  int64_t l = a.lo < 0 ? neg_bound(a.lo) : a.lo, h = a.hi < 0 ? neg_bound(a.hi) : a.hi;
  return l > h ? l : h;
}

// The divisor is not 0 where the expression has a value, so [0, …] counts as [1, …].
static interval divide(interval a, interval b) {
  if (b.hi <= 0) {
    a = negate(a);
    b = negate(b);
  }
  if (b.lo < 0) {
    int64_t m = magnitude(a);
    return (interval){neg_bound(m), m};
  }
  if (b.lo < 1) b.lo = 1;
  if (b.hi < 1) b.hi = 1;
  interval r;
  if (a.lo >= 0) r.lo = infinite(a.lo) ? a.lo : infinite(b.hi) ? 0 : a.lo / b.hi;
  else r.lo = infinite(a.lo) ? a.lo : floor_div(a.lo, b.lo);
  if (a.hi >= 0) r.hi = infinite(a.hi) ? a.hi : a.hi / b.lo;
  else r.hi = infinite(b.hi) ? -1 : infinite(a.hi) ? -1 : floor_div(a.hi, b.hi);
  return r;
}

static interval modulo(interval a, interval b) {
  interval r = {b.lo < 0 ? add_bound(b.lo, 1) : 0, b.hi > 0 ? add_bound(b.hi, -1) : 0};
  if (b.lo >= 0 && a.lo >= 0) {
    if (a.hi < b.lo) return a;
    if (a.hi < r.hi) r.hi = a.hi;
  }
  if (r.hi < r.lo) r.hi = r.lo;
  return r;
}

static interval power(interval a, interval k) {
  if (k.lo != k.hi || k.lo < 0) {
    if (a.lo >= 1) return (interval){1, TC_SYM_INF};
    return a.lo >= 0 ? (interval){0, TC_SYM_INF} : EVERYTHING;
  }
  int64_t n = k.lo;
  if (n > 64 && (a.lo < -1 || a.hi > 1)) {
    int64_t hi = TC_SYM_INF;
    return (interval){a.lo >= 0 ? a.lo : n % 2 ? -TC_SYM_INF : 0, hi};
  }
  if (n > 64) n = 64 + n % 2;
  int64_t l = 1, h = 1;
  for (int64_t i = 0; i < n; i++) {
    l = mul_bound(l, a.lo);
    h = mul_bound(h, a.hi);
  }
  if (n % 2 || a.lo >= 0) return (interval){l, h};
  if (a.hi <= 0) return (interval){h, l};
  return (interval){0, l > h ? l : h};
}

static interval of_symbol(tc_sym_ctx *c, const tc_sym *e) {
  symbol_slot *slot = c->symbols.data[e->symbol];
  interval r = {slot->info.lo, slot->info.hi};
  if (slot->ranging || (!slot->info.lo_expr && !slot->info.hi_expr)) return r;
  slot->ranging = true; // bounds may be circular: i ≤ j and j ≤ i
  if (slot->info.lo_expr) {
    int64_t lo = tc_sym_interval(c, slot->info.lo_expr).lo;
    if (lo > r.lo) r.lo = lo;
  }
  if (slot->info.hi_expr) {
    int64_t hi = tc_sym_interval(c, slot->info.hi_expr).hi;
    if (hi < r.hi) r.hi = hi;
  }
  slot->ranging = false;
  return r;
}

bool tc_sym_is_bool(const tc_sym *e) {
  return (e->kind >= TC_SYM_EQ && e->kind <= TC_SYM_NOT) ||
         (e->kind == TC_SYM_CONST && (e->value == 0 || e->value == 1));
}

static interval compute(tc_sym_ctx *c, const tc_sym *e) {
  interval a = EVERYTHING, b = EVERYTHING;
  if (e->n > 0) a = tc_sym_interval(c, e->kids[0]);
  if (e->n > 1) b = tc_sym_interval(c, e->kids[1]);
  switch (e->kind) {
  case TC_SYM_ADD:
    for (int32_t i = 1; i < e->n; i++) {
      interval k = tc_sym_interval(c, e->kids[i]);
      a = (interval){add_bound(a.lo, k.lo), add_bound(a.hi, k.hi)};
    }
    return a;
  case TC_SYM_MUL:
    for (int32_t i = 1; i < e->n; i++) a = mul(a, tc_sym_interval(c, e->kids[i]));
    return a;
  case TC_SYM_FLOORDIV: return divide(a, b);
  case TC_SYM_MOD: return modulo(a, b);
  case TC_SYM_MIN: return (interval){a.lo < b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi};
  case TC_SYM_MAX: return (interval){a.lo > b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi};
  case TC_SYM_POW: return power(a, b);
  case TC_SYM_WHERE: {
    interval k = tc_sym_interval(c, e->kids[2]);
    if (a.lo > 0 || a.hi < 0) return b;
    if (a.lo == 0 && a.hi == 0) return k;
    return (interval){b.lo < k.lo ? b.lo : k.lo, b.hi > k.hi ? b.hi : k.hi};
  }
  default: return (interval){0, 1}; // conditions
  }
}

static void narrow(interval *r, int64_t lo, int64_t hi) {
  if (lo > r->lo) r->lo = lo;
  if (hi < r->hi) r->hi = hi;
}

static interval with_facts(tc_sym_ctx *c, const tc_sym *e, interval r) {
  if (tc_sym_is_bool(e)) {
    tc_map_entry *known = tc_map_find_ptr(c->truths, e);
    if (known) return (interval){known->value.num, known->value.num};
  }
  int64_t content, constant;
  const tc_sym *p = tc_sym_primitive(c, e, &content, &constant);
  tc_map_entry *entry = p ? tc_map_find_ptr(c->facts, p) : NULL;
  if (!entry) return r;
  const fact *f = entry->value.ptr;
  interval k = mul((interval){f->lo, f->hi}, (interval){content, content});
  narrow(&r, add_bound(k.lo, constant), add_bound(k.hi, constant));
  return r;
}

interval tc_sym_interval(tc_sym_ctx *c, const tc_sym *e) {
  if (e->kind == TC_SYM_CONST) return (interval){e->value, e->value};
  if (e->kind == TC_SYM_SYMBOL) return of_symbol(c, e);
  node *k = nd(e);
  if (k->range_epoch == c->epoch) return (interval){k->lo, k->hi};
  interval r = compute(c, e);
  if (tc_map_count(c->facts) || tc_map_count(c->truths)) r = with_facts(c, e, r);
  if (r.lo > r.hi) r = (interval){r.lo, r.lo}; // contradicting facts: nothing reaches here
  k->range_epoch = c->epoch;
  k->lo = r.lo;
  k->hi = r.hi;
  return r;
}

void tc_sym_range(tc_sym_ctx *c, const tc_sym *e, int64_t *out_lo, int64_t *out_hi) {
  tc_sym_look(c);
  interval r = tc_sym_interval(c, e);
  if (r.lo < 0 && r.hi >= 0 && tc_sym_nonneg(c, e)) r.lo = 0; // what symbolic bounds add
  *out_lo = r.lo < -TC_SYM_INF ? -TC_SYM_INF : r.lo;
  *out_hi = r.hi;
}

static int64_t product_divisor(int64_t a, int64_t b) {
  int64_t p;
  if (__builtin_mul_overflow(a, b, &p)) return a > b ? a : b;
  return p;
}

static int64_t divisor(tc_sym_ctx *c, const tc_sym *e) {
  int64_t d = 1;
  switch (e->kind) {
  case TC_SYM_ADD:
    d = 0;
    for (int32_t i = 0; i < e->n && d != 1; i++) d = tc_sym_gcd(d, tc_sym_divisor_of(c, e->kids[i]));
    break;
  case TC_SYM_MUL:
    for (int32_t i = 0; i < e->n; i++) d = product_divisor(d, tc_sym_divisor_of(c, e->kids[i]));
    break;
  case TC_SYM_POW:
    if (e->kids[1]->kind == TC_SYM_CONST) {
      int64_t base = tc_sym_divisor_of(c, e->kids[0]);
      for (int64_t i = 0; i < e->kids[1]->value && i < 64; i++) d = product_divisor(d, base);
    }
    break;
  case TC_SYM_FLOORDIV:
    d = tc_sym_divisor_of(c, e->kids[0]);
    if (e->kids[1]->kind == TC_SYM_CONST && e->kids[1]->value > 0 && d % e->kids[1]->value == 0) d /= e->kids[1]->value;
    else d = 1;
    break;
  case TC_SYM_MOD:
  case TC_SYM_MIN:
  case TC_SYM_MAX: d = tc_sym_gcd(tc_sym_divisor_of(c, e->kids[0]), tc_sym_divisor_of(c, e->kids[1])); break;
  case TC_SYM_WHERE: d = tc_sym_gcd(tc_sym_divisor_of(c, e->kids[1]), tc_sym_divisor_of(c, e->kids[2])); break;
  default: break;
  }
  if (tc_map_count(c->facts) == 0) return d;
  int64_t content, constant;
  const tc_sym *p = tc_sym_primitive(c, e, &content, &constant);
  if (content < 0) content = -content;
  tc_map_entry *entry = constant ? tc_map_find_ptr(c->facts, e) : p ? tc_map_find_ptr(c->facts, p) : NULL;
  if (!entry) return d;
  int64_t known = ((const fact *)entry->value.ptr)->divisor;
  if (!constant) known = product_divisor(content, known);
  int64_t g = tc_sym_gcd(d, known);
  return d == 0 || known == 0 ? 0 : product_divisor(d / g, known); // the least common multiple
}

int64_t tc_sym_divisor_of(tc_sym_ctx *c, const tc_sym *e) {
  if (e->kind == TC_SYM_CONST) return e->value == INT64_MIN ? INT64_MAX / 2 + 1 : e->value < 0 ? -e->value : e->value;
  if (e->kind == TC_SYM_SYMBOL) {
    int64_t d = c->symbols.data[e->symbol]->info.divisor;
    return d < 1 ? 1 : d;
  }
  node *k = nd(e);
  if (k->divisor_epoch != c->epoch) {
    k->divisor = divisor(c, e);
    k->divisor_epoch = c->epoch;
  }
  return k->divisor;
}

int64_t tc_sym_divisor(tc_sym_ctx *c, const tc_sym *e) {
  tc_sym_look(c);
  return tc_sym_divisor_of(c, e);
}
