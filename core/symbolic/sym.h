// Symbolic integers: sizes, strides, index expressions, grids, guards.
//
// An expression is an immutable node, hash-consed in its context: equal canonical forms are the same pointer, so `==`
// on pointers is structural equality. Building simplifies: sums are flattened into Σ cᵢ·termᵢ + c with terms in a fixed
// order, constants folded, products distributed over sums when small, floordiv/mod reduced with ranges and
// divisibility:  (a·n + b) // n = a + b // n;  (a·n + b) mod n = b mod n;  x // n = 0 and x mod n = x for 0 ≤ x < n;
// (x // a) // b = x // (a·b);  n·(x // n) + x mod n = x.  Booleans are expressions with value 0 or 1.
//
// `//` rounds down, `%` has the sign of the divisor (both as Python). Arithmetic is exact in int64; constant folding
// that would overflow is refused: the node keeps its form and evaluation reports OUT_OF_RANGE.
//
// An operation on a divisor that may be 0 is simplified as if it were not: the result agrees wherever there is a value.
// Comparisons are brought to one form (s0 > 3 is 4 <= s0) but not settled from ranges, so that guards do not vanish:
// tc_sym_prove and tc_sym_simplify do that; Where, Min and Max do ask. And, Or, Min, Max have two kids and nest to the
// left. Expressions deeper than 1,500 levels unwind as out of memory. Evaluation, running code and printing only read.
//
// Text form (tc_sym_print / tc_sym_parse):  4*s0 + s1//8 + Mod(s2, 3) + Max(s0, 1);  conditions s0 <= 64 && s1 % 8 ==
// 0. A context belongs to one arena and one thread at a time.
#ifndef TC_CORE_SYMBOLIC_SYM_H_
#define TC_CORE_SYMBOLIC_SYM_H_

#include "core/base/expr.h"
#include "core/base/vec.h"

typedef struct tc_sym_ctx tc_sym_ctx;

enum {
  TC_SYM_CONST,  // value
  TC_SYM_SYMBOL, // name, id
  TC_SYM_ADD,    // n kids, each CONST (first, at most one), MUL or other
  TC_SYM_MUL,    // n kids, CONST first if any
  TC_SYM_FLOORDIV,
  TC_SYM_MOD,
  TC_SYM_MIN,
  TC_SYM_MAX,
  TC_SYM_POW, // a ** b, b ≥ 0
  TC_SYM_EQ,
  TC_SYM_NE,
  TC_SYM_LT,
  TC_SYM_LE,
  TC_SYM_AND,
  TC_SYM_OR,
  TC_SYM_NOT,
  TC_SYM_WHERE // c, a, b
};

typedef struct tc_sym {
  int32_t kind, n;
  int64_t value;  // CONST
  int32_t symbol; // SYMBOL: number in its context
  tc_sv name;     // SYMBOL
  uint64_t hash;
  const struct tc_sym *const *kids;
} tc_sym;

// What a symbol stands for: sizes are backed by an input and have a hint; unbacked ones come from data; loop variables
// and lanes belong to loop and kernel IR.
enum { TC_SYM_BACKED, TC_SYM_UNBACKED, TC_SYM_LOOP, TC_SYM_LOCAL };
#define TC_SYM_INF INT64_MAX
typedef struct tc_sym_info {
  tc_sv name;
  int32_t origin;
  int64_t lo, hi;                  // inclusive; -TC_SYM_INF / TC_SYM_INF: none
  const tc_sym *lo_expr, *hi_expr; // tighter symbolic bounds, or NULL (loop variable: 0 … extent - 1)
  int64_t divisor;                 // known to divide the symbol, ≥ 1
  int64_t hint;                    // example value; INT64_MIN: none
} tc_sym_info;

tc_sym_ctx *tc_sym_create(tc_arena *arena);
tc_arena *tc_sym_arena(tc_sym_ctx *c);
const tc_sym *tc_sym_int(tc_sym_ctx *c, int64_t v);
// The symbol of that name, or its number (tc_sym_fix); a new one gets origin BACKED, range (-inf, inf).
const tc_sym *tc_sym_symbol(tc_sym_ctx *c, tc_sv name);
// From here on that name is the number: a program that is read then is one for this size. No symbol of the name may be
// there yet.
void tc_sym_fix(tc_sym_ctx *c, tc_sv name, int64_t value);
const tc_sym *tc_sym_fresh(tc_sym_ctx *c, const char *prefix, int32_t origin); // "i0", "i1", …: a name not yet used
// The seed of a run as symbols that the run gives values to, TC_SYM_SEEDS of them, 22 bits each from the lowest; behind
// them those of the stream that its nodes' streams are added to. By name, so that texts keep them. `tc_sym_seed_part`:
// which of them a symbol is, or -1.
enum { TC_SYM_SEEDS = 3, TC_SYM_STREAMS = 2, TC_SYM_SEED_BITS = 22 };
const tc_sym *tc_sym_seed(tc_sym_ctx *c, int32_t part);
int32_t tc_sym_seed_part(const tc_sym *symbol);
int32_t tc_sym_symbol_count(const tc_sym_ctx *c);
const tc_sym *tc_sym_symbol_at(tc_sym_ctx *c, int32_t symbol);
tc_sym_info *tc_sym_info_of(tc_sym_ctx *c, const tc_sym *symbol); // set ranges before building with the symbol
// The same to read only: from any thread, while none changes the context (plans at run time).
const tc_sym_info *tc_sym_info_read(const tc_sym_ctx *c, const tc_sym *symbol);

const tc_sym *tc_sym_add(tc_sym_ctx *c, const tc_sym *a, const tc_sym *b);
const tc_sym *tc_sym_sub(tc_sym_ctx *c, const tc_sym *a, const tc_sym *b);
const tc_sym *tc_sym_neg(tc_sym_ctx *c, const tc_sym *a);
const tc_sym *tc_sym_mul(tc_sym_ctx *c, const tc_sym *a, const tc_sym *b);
const tc_sym *tc_sym_muli(tc_sym_ctx *c, const tc_sym *a, int64_t b);
const tc_sym *tc_sym_addi(tc_sym_ctx *c, const tc_sym *a, int64_t b);
const tc_sym *tc_sym_floordiv(tc_sym_ctx *c, const tc_sym *a, const tc_sym *b);
const tc_sym *tc_sym_ceildiv(tc_sym_ctx *c, const tc_sym *a, const tc_sym *b); // (a + b - 1) // b
const tc_sym *tc_sym_mod(tc_sym_ctx *c, const tc_sym *a, const tc_sym *b);
const tc_sym *tc_sym_min(tc_sym_ctx *c, const tc_sym *a, const tc_sym *b);
const tc_sym *tc_sym_max(tc_sym_ctx *c, const tc_sym *a, const tc_sym *b);
const tc_sym *tc_sym_pow(tc_sym_ctx *c, const tc_sym *a, const tc_sym *b);
const tc_sym *tc_sym_cmp(tc_sym_ctx *c, int32_t kind, const tc_sym *a,
                         const tc_sym *b); // EQ, NE, LT, LE; GT/GE by swapping
const tc_sym *tc_sym_and(tc_sym_ctx *c, const tc_sym *a, const tc_sym *b);
const tc_sym *tc_sym_or(tc_sym_ctx *c, const tc_sym *a, const tc_sym *b);
const tc_sym *tc_sym_not(tc_sym_ctx *c, const tc_sym *a);
const tc_sym *tc_sym_where(tc_sym_ctx *c, const tc_sym *cond, const tc_sym *a, const tc_sym *b);

static inline bool tc_sym_is_int(const tc_sym *e, int64_t v) { return e->kind == TC_SYM_CONST && e->value == v; }
static inline bool tc_sym_is_const(const tc_sym *e) { return e->kind == TC_SYM_CONST; }

// Facts. `prove` answers from ranges, divisors and assumptions only: 1 true, 0 false, -1 not known.
void tc_sym_assume(tc_sym_ctx *c, const tc_sym *condition); // narrows ranges, divisors, equalities; kept as a fact
int32_t tc_sym_prove(tc_sym_ctx *c, const tc_sym *condition);
void tc_sym_range(tc_sym_ctx *c, const tc_sym *e, int64_t *out_lo, int64_t *out_hi);
int64_t tc_sym_divisor(tc_sym_ctx *c, const tc_sym *e); // a number ≥ 1 known to divide e (0 for the constant 0)
bool tc_sym_eq(tc_sym_ctx *c, const tc_sym *a, const tc_sym *b); // provably equal

// e = Σ coeff·var + rest with respect to one symbol: *out_coeff without the symbol; false if not linear in it.
bool tc_sym_linear(tc_sym_ctx *c, const tc_sym *e, const tc_sym *symbol, const tc_sym **out_coeff,
                   const tc_sym **out_rest);
bool tc_sym_uses(const tc_sym *e, const tc_sym *symbol);
// Replaces symbols: from[i] → to[i], simultaneously.
const tc_sym *tc_sym_replace(tc_sym_ctx *c, const tc_sym *e, int32_t n, const tc_sym *const *from,
                             const tc_sym *const *to);
// Builds the expression anew with what is known by now, and settles conditions that can be proven.
const tc_sym *tc_sym_simplify(tc_sym_ctx *c, const tc_sym *e);
// Copies an expression into another context (symbols by name, with their info).
const tc_sym *tc_sym_import(tc_sym_ctx *c, tc_sym_ctx *from, const tc_sym *e);

// Evaluation with values[symbol]; OUT_OF_RANGE on overflow, INVALID_ARGUMENT on division by zero.
TC_NODISCARD tc_status tc_sym_eval(const tc_sym *e, const int64_t *values, int64_t *out);
// With hints; false if a symbol has none.
bool tc_sym_hint(tc_sym_ctx *c, const tc_sym *e, int64_t *out);
int64_t tc_sym_hint_or(tc_sym_ctx *c, const tc_sym *e, int64_t otherwise);

// A compiled expression for the run time: a short postfix program without the context (plans, guards, .tcx).
typedef struct tc_sym_code {
  int32_t n;
  const int64_t *code;
} tc_sym_code;
tc_sym_code tc_sym_compile(tc_arena *arena, const tc_sym *e);
// The same for values in other places than the symbols' numbers: symbol i lies at places[i], -1: nowhere. False if the
// expression uses a symbol that lies nowhere or has a number from n on; the code is then not to be run.
bool tc_sym_compile_places(tc_arena *arena, const tc_sym *e, int32_t n, const int32_t *places, tc_sym_code *out);
TC_NODISCARD tc_status tc_sym_run(tc_sym_code code, const int64_t *values, int64_t *out);

// Code from a file, before it is run: DATA_LOSS if it is not well-formed or uses more than n_values symbols.
TC_NODISCARD tc_status tc_sym_code_check(tc_sym_code code, int32_t n_values);

void tc_sym_print(tc_sb *sb, const tc_sym *e);
TC_NODISCARD tc_status tc_sym_parse(tc_sym_ctx *c, tc_lexer *lx, const tc_sym **out);
// From the tree of the one expression parser; unknown names become symbols when `make_symbols`.
TC_NODISCARD tc_status tc_sym_from_ex(tc_sym_ctx *c, tc_lexer *lx, const tc_ex *ex, bool make_symbols,
                                      const tc_sym **out);
// The same with a function that is asked first for every name, member, call and index ("out.numel", "x.size(1)"): it
// sets *out, or leaves it NULL for what it does not know, which is then read as above. `lx` may be NULL.
typedef tc_status (*tc_sym_resolve_fn)(void *self, tc_sym_ctx *c, const tc_ex *ex, const tc_sym **out);
TC_NODISCARD tc_status tc_sym_from_ex_with(tc_sym_ctx *c, tc_lexer *lx, const tc_ex *ex, bool make_symbols,
                                           tc_sym_resolve_fn resolve, void *self, const tc_sym **out);
// SymPy's srepr text as stored in .pt2 archives ("Add(Mul(Integer(16), Symbol('s0', …)), Integer(1))"); bare names too.
TC_NODISCARD tc_status tc_sym_parse_srepr(tc_sym_ctx *c, tc_sv text, const tc_sym **out);

#endif
