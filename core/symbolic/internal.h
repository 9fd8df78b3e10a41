// What the files of core/symbolic share: the node behind tc_sym, the context, and the steps between the files.
//
//   context.c  symbols, hash-consing, order          sum.c      sums, products, powers
//   divide.c   floordiv, mod                          logic.c    comparisons, and/or/not, min/max, where
//   range.c    intervals, divisors                    prove.c    prove, assume, equality
//   rewrite.c  linear, replace, import, simplify      eval.c     evaluation, compiled code
//   print.c, parse.c, srepr.c  text
#ifndef TC_CORE_SYMBOLIC_INTERNAL_H_
#define TC_CORE_SYMBOLIC_INTERNAL_H_

#include "core/symbolic/sym.h"

__extension__ typedef __int128 i128;

enum {
  MAX_DEPTH = 1500,    // of an expression; deeper ones unwind as out of memory, so that recursion is bounded
  EXPAND_TERMS = 64,   // products of sums are distributed up to so many terms
  SUM_TERMS = 1 << 16, // sums beyond are kept nested
  CACHE_SMALL = 128,   // results kept; large once the context is
  CACHE_LARGE = 8192
};

// Value intervals and the like are kept in the node and hold for the facts of one epoch.
typedef struct node {
  tc_sym s; // first: a tc_sym * is a node *
  uint32_t id;
  uint16_t depth;
  uint8_t raw;          // kept as written, since folding would overflow or grow too large; no flattening looks inside
  uint8_t divides;      // has FLOORDIV or MOD as itself or as a factor
  uint32_t size;        // nodes of the tree, saturating
  uint64_t mask;        // bit (symbol % 64) of every symbol below
  int64_t coeff;        // of a term: value of CONST, first kid of MUL, else 1
  const tc_sym *unit;   // the term without coeff; NULL for CONST
  const tc_sym *linear; // ADD: the sum without its constant (made when asked for)
  uint32_t range_epoch, divisor_epoch, sign_epoch, rewrite_epoch;
  int64_t lo, hi, divisor;
  uint32_t truth_epoch;
  int8_t sign;  // memo of prove: 1 never negative, 0 not known
  int8_t truth; // of a condition: as tc_sym_prove
  bool uses;    // answer of the last tc_sym_uses, about `asked`
  const tc_sym *asked, *rewritten;
} node;

static inline node *nd(const tc_sym *e) { return (node *)e; } // nodes live in arena memory; only memos change

// What was assumed of an expression without constant term, content 1 and positive leading coefficient.
typedef struct fact {
  int64_t lo, hi, divisor;
} fact;

typedef struct cached {
  const tc_sym *a, *b, *result;
  uint32_t epoch;
  int32_t op;
} cached;

typedef struct symbol_slot {
  const tc_sym *sym;
  tc_sym_info info, seen; // seen: as of the last look, to notice changes through the pointer
  bool used, ranging, touched;
} symbol_slot;

struct tc_sym_ctx {
  tc_arena *arena;
  struct slot {
    const tc_sym *sym;
    uint64_t hash; // beside the pointer, so that a probe touches a node only when it is likely the one
  } *table;        // open addressing
  uint32_t table_size, node_count;
  TC_VEC(symbol_slot *) symbols;
  tc_map *by_name, *fresh;
  TC_VEC(symbol_slot *) touched; // whose info was handed out since the last look
  uint32_t epoch, rewrites;
  cached *cache; // direct-mapped
  uint32_t cache_size;
  tc_map *facts;                 // node → fact
  tc_map *truths;                // condition node → 0 or 1
  TC_VEC(const tc_sym *) nonneg; // assumed ≥ 0
  uint64_t nonneg_mask;
  TC_VEC(const tc_sym *) equal_from;
  TC_VEC(const tc_sym *) equal_to;
  uint64_t equal_mask;
  int32_t budget, proving;  // of the running proof
  const tc_sym *small[130]; // -1 … 128
};

// context.c
const tc_sym *tc_sym_make(tc_sym_ctx *c, int32_t kind, const tc_sym *const *kids, int32_t n, bool raw);
static inline const tc_sym *tc_sym_make2(tc_sym_ctx *c, int32_t kind, const tc_sym *a, const tc_sym *b) {
  const tc_sym *kids[] = {a, b};
  return tc_sym_make(c, kind, kids, 2, false);
}
int32_t tc_sym_order(const tc_sym *a, const tc_sym *b); // a fixed order of expressions
void tc_sym_look(tc_sym_ctx *c);                        // notices changed symbol infos
// Results of operations that look at facts, for this epoch; NULL if not there. What is made inside a proof is not kept:
// there the budget may have run out.
const tc_sym *tc_sym_cached(tc_sym_ctx *c, int32_t op, const tc_sym *a, const tc_sym *b);
void tc_sym_remember(tc_sym_ctx *c, int32_t op, const tc_sym *a, const tc_sym *b, const tc_sym *result);

// A sum as terms: e = Σ coeff·unit + constant. One term or constant is a sum too.
typedef struct term {
  int64_t coeff;
  const tc_sym *unit;
} term;
typedef struct terms {
  int64_t constant;
  int32_t n;
  const tc_sym *const *kids;
  const tc_sym *one[1];
} terms;
// sum.c
void tc_sym_terms(const tc_sym *e, terms *out); // kids point into e or to out->one: do not copy `out`
static inline term term_at(const terms *t, int32_t i) {
  const node *k = nd(t->kids[i]);
  return (term){k->coeff, k->unit};
}
const tc_sym *tc_sym_term(tc_sym_ctx *c, int64_t coeff, const tc_sym *unit); // NULL on overflow
// e / by if every value is exactly divisible term by term: coefficients and factors; else NULL. `by`: one term.
const tc_sym *tc_sym_exact(tc_sym_ctx *c, const tc_sym *t, const tc_sym *by);
const tc_sym *tc_sym_exact_sum(tc_sym_ctx *c, const tc_sym *e, const tc_sym *by); // the same for every term of a sum
// A sum from some terms of another, still in order.
const tc_sym *tc_sym_sum_of(tc_sym_ctx *c, int64_t constant, const tc_sym **kids, int32_t n);
const tc_sym *tc_sym_without_factor(tc_sym_ctx *c, const tc_sym *t, const tc_sym *base); // whatever its power
typedef struct factor {
  const tc_sym *base;
  int64_t power;
} factor;
// The factors of a term's unit as base and power. At most `room`; returns the count or -1.
int32_t tc_sym_factors(const tc_sym *unit, factor *out, int32_t room);
int64_t tc_sym_gcd(int64_t a, int64_t b); // ≥ 0
// e = content·(primitive) + constant; the primitive part (NULL for constants) has a positive leading coefficient.
const tc_sym *tc_sym_primitive(tc_sym_ctx *c, const tc_sym *e, int64_t *out_content, int64_t *out_constant);

// range.c
typedef struct interval {
  int64_t lo, hi;
} interval;
interval tc_sym_interval(tc_sym_ctx *c, const tc_sym *e);
bool tc_sym_is_bool(const tc_sym *e); // its value is 0 or 1 by its kind
int64_t tc_sym_divisor_of(tc_sym_ctx *c, const tc_sym *e);
// prove.c
bool tc_sym_nonneg(tc_sym_ctx *c, const tc_sym *e);                 // provably ≥ 0
bool tc_sym_below(tc_sym_ctx *c, const tc_sym *a, const tc_sym *b); // provably 0 ≤ a < b
int32_t tc_sym_truth(tc_sym_ctx *c, const tc_sym *condition);       // prove without looking for changed facts
// eval.c
bool tc_sym_fold(int32_t kind, int64_t a, int64_t b, int64_t *out); // false on overflow or division by zero
// parse.c: the functions of the text form by name; NULL if there is none of that name or not with n arguments.
const tc_sym *tc_sym_call(tc_sym_ctx *c, tc_sv name, const tc_sym *const *args, int32_t n, bool *out_known);

#endif
