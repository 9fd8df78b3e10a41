// Conditions, minima, maxima, choices.
//
// A comparison is brought to one form by collecting both sides in d, dividing by the greatest common divisor of the
// coefficients, and putting positive terms on one side and negative terms on the other: 2*s0 <= 2*s1 + 7 becomes
// s0 <= s1 + 3. Facts are not used for that (conditions that become guards must not vanish): tc_sym_prove and
// tc_sym_simplify do. And, Or, Min, Max have two operands each; longer ones nest to the left in a fixed order.
#include <stdlib.h>

#include "core/symbolic/internal.h"

enum { OPERANDS = 64 };

static const tc_sym *truth(tc_sym_ctx *c, bool v) { return tc_sym_int(c, v); }

static int64_t floor_div(int64_t a, int64_t b) {
  int64_t q = a / b;
  return q - (a % b != 0 && (a < 0) != (b < 0));
}

// e = out_plus - out_minus, each with positive coefficients and without the constant.
static void sides(tc_sym_ctx *c, const tc_sym *e, const tc_sym **out_plus, const tc_sym **out_minus) {
  terms t;
  tc_sym_terms(e, &t);
  *out_plus = *out_minus = tc_sym_int(c, 0);
  for (int32_t i = 0; i < t.n; i++) {
    if (nd(t.kids[i])->coeff > 0) *out_plus = tc_sym_add(c, *out_plus, t.kids[i]);
    else *out_minus = tc_sym_sub(c, *out_minus, t.kids[i]);
  }
}

// d ≥ 0 for d without overflow.
static const tc_sym *at_least_zero(tc_sym_ctx *c, const tc_sym *d) {
  if (d->kind == TC_SYM_CONST) return truth(c, d->value >= 0);
  int64_t content, constant;
  const tc_sym *p = tc_sym_primitive(c, d, &content, &constant), *plus, *minus;
  if (content < 0) p = tc_sym_neg(c, p);
  constant = floor_div(constant, content < 0 ? -content : content);
  sides(c, p, &plus, &minus);
  bool both = !tc_sym_is_int(plus, 0) && !tc_sym_is_int(minus, 0);
  if (constant == -1 && both) return tc_sym_make2(c, TC_SYM_LT, minus, plus);
  if (constant > 0) plus = tc_sym_addi(c, plus, constant);
  else minus = tc_sym_sub(c, minus, tc_sym_int(c, constant));
  return tc_sym_make2(c, TC_SYM_LE, minus, plus);
}

// A condition compared with 0 or 1.
static const tc_sym *compare_bool(tc_sym_ctx *c, int32_t kind, const tc_sym *a, const tc_sym *b) {
  if (a->kind == TC_SYM_CONST) {
    const tc_sym *t = a;
    a = b;
    b = t;
  }
  if ((kind != TC_SYM_EQ && kind != TC_SYM_NE) || b->kind != TC_SYM_CONST || a->kind == TC_SYM_CONST ||
      !tc_sym_is_bool(a))
    return NULL;
  if (b->value != 0 && b->value != 1) return truth(c, kind == TC_SYM_NE);
  return (b->value == 1) == (kind == TC_SYM_EQ) ? a : tc_sym_not(c, a);
}

static const tc_sym *equal(tc_sym_ctx *c, int32_t kind, const tc_sym *d) {
  bool eq = kind == TC_SYM_EQ;
  if (d->kind == TC_SYM_CONST) return truth(c, (d->value == 0) == eq);
  int64_t content, constant;
  const tc_sym *p = tc_sym_primitive(c, d, &content, &constant), *plus, *minus;
  if (constant == INT64_MIN) return tc_sym_make2(c, kind, d, tc_sym_int(c, 0));
  if (constant % content) return truth(c, !eq);
  constant /= content;
  sides(c, p, &plus, &minus);
  if (constant > 0) plus = tc_sym_addi(c, plus, constant);
  else minus = tc_sym_addi(c, minus, -constant);
  const tc_sym *condition = compare_bool(c, kind, plus, minus); // 4*(s0 < s1) != 0
  return condition ? condition : tc_sym_make2(c, kind, plus, minus);
}

const tc_sym *tc_sym_cmp(tc_sym_ctx *c, int32_t kind, const tc_sym *a, const tc_sym *b) {
  const tc_sym *r = compare_bool(c, kind, a, b);
  if (r) return r;
  const tc_sym *d = tc_sym_sub(c, b, a);
  int64_t v;
  // Where the difference overflows the comparison is kept as it is.
  if (nd(d)->raw && d->kind == TC_SYM_ADD) {
    if (a->kind == TC_SYM_CONST && b->kind == TC_SYM_CONST && tc_sym_fold(kind, a->value, b->value, &v))
      return truth(c, v);
    return tc_sym_make2(c, kind, a, b);
  }
  if (kind == TC_SYM_EQ || kind == TC_SYM_NE) return equal(c, kind, d);
  if (kind == TC_SYM_LT) {
    const tc_sym *e = tc_sym_addi(c, d, -1);
    if (nd(e)->raw && e->kind == TC_SYM_ADD) return tc_sym_make2(c, kind, a, b);
    d = e;
  }
  return at_least_zero(c, d);
}

// ---- and, or, not

static const tc_sym *condition(tc_sym_ctx *c, const tc_sym *e) {
  if (e->kind == TC_SYM_CONST) return truth(c, e->value != 0);
  return tc_sym_is_bool(e) ? e : tc_sym_cmp(c, TC_SYM_NE, e, tc_sym_int(c, 0));
}

const tc_sym *tc_sym_not(tc_sym_ctx *c, const tc_sym *e) {
  e = condition(c, e);
  switch (e->kind) {
  case TC_SYM_CONST: return truth(c, !e->value);
  case TC_SYM_EQ: return tc_sym_cmp(c, TC_SYM_NE, e->kids[0], e->kids[1]);
  case TC_SYM_NE: return tc_sym_cmp(c, TC_SYM_EQ, e->kids[0], e->kids[1]);
  case TC_SYM_LT: return tc_sym_cmp(c, TC_SYM_LE, e->kids[1], e->kids[0]);
  case TC_SYM_LE: return tc_sym_cmp(c, TC_SYM_LT, e->kids[1], e->kids[0]);
  case TC_SYM_AND: return tc_sym_or(c, tc_sym_not(c, e->kids[0]), tc_sym_not(c, e->kids[1]));
  case TC_SYM_OR: return tc_sym_and(c, tc_sym_not(c, e->kids[0]), tc_sym_not(c, e->kids[1]));
  case TC_SYM_NOT: return e->kids[0];
  default: return tc_sym_make(c, TC_SYM_NOT, &e, 1, false);
  }
}

// The operands of a left-nested chain of `kind`, in order; false if there are too many.
static bool operands(const tc_sym *e, int32_t kind, const tc_sym **out, int32_t *n) {
  for (; e->kind == kind; e = e->kids[0]) {
    if (e->kids[1]->kind == kind || *n >= OPERANDS) return false;
    out[(*n)++] = e->kids[1];
  }
  if (*n >= OPERANDS) return false;
  out[(*n)++] = e;
  return true;
}

static int by_order(const void *a, const void *b) {
  return tc_sym_order(*(const tc_sym *const *)a, *(const tc_sym *const *)b);
}

static const tc_sym *chain(tc_sym_ctx *c, int32_t kind, const tc_sym **kids, int32_t n) {
  const tc_sym *r = kids[0];
  for (int32_t i = 1; i < n; i++) r = tc_sym_make2(c, kind, r, kids[i]);
  return r;
}

static const tc_sym *junction(tc_sym_ctx *c, int32_t kind, const tc_sym *a, const tc_sym *b) {
  bool settles = kind == TC_SYM_OR;
  a = condition(c, a);
  b = condition(c, b);
  if (a == b) return a;
  if (a->kind == TC_SYM_CONST) return (a->value != 0) == settles ? a : b;
  if (b->kind == TC_SYM_CONST) return (b->value != 0) == settles ? b : a;
  const tc_sym *kids[OPERANDS * 2];
  int32_t na = 0, nb = 0, n = 0;
  if (!operands(a, kind, kids, &na) || !operands(b, kind, kids + na, &nb) || na + nb > OPERANDS)
    return tc_sym_make2(c, kind, a, b);
  qsort(kids, (size_t)(na + nb), sizeof *kids, by_order);
  for (int32_t i = 0; i < na + nb; i++)
    if (n == 0 || kids[n - 1] != kids[i]) kids[n++] = kids[i];
  for (int32_t i = 0; i < n; i++) {
    if (kids[i]->kind == kind || kids[i]->kind == TC_SYM_AND || kids[i]->kind == TC_SYM_OR) continue;
    const tc_sym *no = tc_sym_not(c, kids[i]);
    for (int32_t j = i + 1; j < n; j++)
      if (kids[j] == no) return truth(c, settles);
  }
  return chain(c, kind, kids, n);
}

const tc_sym *tc_sym_and(tc_sym_ctx *c, const tc_sym *a, const tc_sym *b) { return junction(c, TC_SYM_AND, a, b); }
const tc_sym *tc_sym_or(tc_sym_ctx *c, const tc_sym *a, const tc_sym *b) { return junction(c, TC_SYM_OR, a, b); }

// ---- min, max, where

static const tc_sym *extremum(tc_sym_ctx *c, int32_t kind, const tc_sym *a, const tc_sym *b) {
  if (a == b) return a;
  bool min = kind == TC_SYM_MIN;
  if (a->kind == TC_SYM_CONST && b->kind == TC_SYM_CONST) return (a->value < b->value) == min ? a : b;
  tc_sym_look(c);
  const tc_sym *kids[OPERANDS * 2], *r = tc_sym_cached(c, kind, a, b);
  if (r) return r;
  int32_t na = 0, nb = 0, n = 0;
  if (!operands(a, kind, kids, &na) || !operands(b, kind, kids + na, &nb) || na + nb > OPERANDS) {
    r = tc_sym_make2(c, kind, a, b);
  } else {
    qsort(kids, (size_t)(na + nb), sizeof *kids, by_order);
    for (int32_t i = 0; i < na + nb; i++) {
      bool needed = true;
      for (int32_t j = 0; j < n && needed; j++) {
        const tc_sym *d = tc_sym_sub(c, kids[i], kids[j]); // for Min: d ≥ 0 drops i, d ≤ 0 drops j
        if (!min) d = tc_sym_neg(c, d);
        if (tc_sym_nonneg(c, d)) {
          needed = false;
        } else if (tc_sym_nonneg(c, tc_sym_neg(c, d))) {
          for (int32_t k = j; k + 1 < n; k++) kids[k] = kids[k + 1];
          n--;
          j--;
        }
      }
      if (needed) kids[n++] = kids[i];
    }
    r = chain(c, kind, kids, n);
  }
  tc_sym_remember(c, kind, a, b, r);
  return r;
}

const tc_sym *tc_sym_min(tc_sym_ctx *c, const tc_sym *a, const tc_sym *b) { return extremum(c, TC_SYM_MIN, a, b); }
const tc_sym *tc_sym_max(tc_sym_ctx *c, const tc_sym *a, const tc_sym *b) { return extremum(c, TC_SYM_MAX, a, b); }

const tc_sym *tc_sym_where(tc_sym_ctx *c, const tc_sym *cond, const tc_sym *a, const tc_sym *b) {
  cond = condition(c, cond);
  if (a == b) return a;
  if (cond->kind == TC_SYM_CONST) return cond->value ? a : b;
  tc_sym_look(c);
  int32_t known = tc_sym_truth(c, cond);
  if (known >= 0) return known ? a : b;
  if (tc_sym_is_int(a, 1) && tc_sym_is_int(b, 0)) return cond;
  if (tc_sym_is_int(a, 0) && tc_sym_is_int(b, 1)) return tc_sym_not(c, cond);
  const tc_sym *kids[] = {cond, a, b};
  return tc_sym_make(c, TC_SYM_WHERE, kids, 3, false);
}
