// Folding while building: constants, and identities that hold for every value of the type (for floats also for -0, inf
// and NaN; only the payload and sign of a NaN may differ).
#include <math.h>
#include <string.h>

#include "core/kernel/builder.h"

// Constants among the operands of one operation.
typedef struct known {
  bool is[3];
  tc_knum v[3];
  int32_t count;
} known;

static bool is_int(const known *k, int32_t i, int64_t v) { return k->is[i] && k->v[i].i == v; }
static bool is_real(const known *k, int32_t i, double v) {
  return k->is[i] && memcmp(&k->v[i].re, &v, sizeof v) == 0; // bits: -0 is not 0
}

static const tc_kinst *made_by(const tc_kb *b, tc_kval v, int32_t op) {
  const tc_kinst *in = tc_kb_inst_of(b, v);
  return in && in->op == op ? in : NULL;
}

// A new operation in place of the given one.
static tc_kval again(tc_kb *b, int32_t op, int32_t n, tc_kval x, tc_kval y) {
  return tc_kb_op(b, op, n, (tc_kval[]){x, y});
}

// (x op c1) op c2 = x op (c1 op c2), for integer add and mul.
static tc_kval reassociate(tc_kb *b, int32_t op, tc_dtype type, tc_kval *v, const known *k) {
  const tc_kinst *in = k->is[1] ? made_by(b, v[0], op) : NULL;
  tc_knum c1, c;
  if (!in || !tc_kb_const_of(b, in->args[1], &c1)) return -1;
  tc_kir_eval(op, type, (tc_knum[]){c1, k->v[1]}, &c);
  tc_kval x = in->args[0];
  return again(b, op, 2, x, tc_kbi_const(b, type, c));
}

// The numbers between which an integer lies that is made of the lane's number and constants; nothing wraps around.
static bool range_of(const tc_kb *b, tc_kval v, int32_t depth, int64_t *lo, int64_t *hi) {
  const tc_kinst *in = tc_kb_inst_of(b, v);
  tc_dtype type = b->values.data[v].dtype;
  int64_t x0, x1, y0, y1, p;
  tc_knum c;
  if (type != TC_I32 && type != TC_I64) return false;
  if (tc_kb_const_of(b, v, &c)) {
    *lo = *hi = c.i;
    return c.i >= INT32_MIN && c.i <= INT32_MAX;
  }
  if (!in || depth == 0) return false;
  if (in->op == TC_K_LANE) {
    *lo = 0, *hi = b->lanes - 1;
    return true;
  }
  if (in->op != TC_K_ADD && in->op != TC_K_SUB && in->op != TC_K_MUL && in->op != TC_K_DIV && in->op != TC_K_REM &&
      in->op != TC_K_CAST)
    return false;
  if (!range_of(b, in->args[0], depth - 1, &x0, &x1)) return false;
  if (in->op == TC_K_CAST) {
    *lo = x0, *hi = x1;
    return true;
  }
  if (!range_of(b, in->args[1], depth - 1, &y0, &y1)) return false;
  if ((in->op == TC_K_DIV || in->op == TC_K_REM) && (x0 < 0 || y0 != y1 || y0 < 1)) return false;
  switch (in->op) {
  case TC_K_DIV: *lo = x0 / y0, *hi = x1 / y0; break;
  case TC_K_REM: *lo = x1 < y0 ? x0 : 0, *hi = x1 < y0 ? x1 : y0 - 1; break;
  case TC_K_ADD: *lo = x0 + y0, *hi = x1 + y1; break;
  case TC_K_SUB: *lo = x0 - y1, *hi = x1 - y0; break;
  default:
    if (y0 != y1) return false;
    p = x0 * y0, *hi = x1 * y0, *lo = p;
    if (y0 < 0) *lo = *hi, *hi = p;
  }
  return *lo >= INT32_MIN && *hi <= INT32_MAX;
}

// A comparison with a constant that every lane answers alike: 1, 0, or -1.
static int32_t same_for_all(const tc_kb *b, int32_t op, tc_kval v, int64_t c) {
  int64_t lo, hi;
  if (!range_of(b, v, 8, &lo, &hi)) return -1;
  switch (op) {
  case TC_K_LT: return hi < c ? 1 : lo >= c ? 0 : -1;
  case TC_K_LE: return hi <= c ? 1 : lo > c ? 0 : -1;
  case TC_K_GT: return lo > c ? 1 : hi <= c ? 0 : -1;
  case TC_K_GE: return lo >= c ? 1 : hi < c ? 0 : -1;
  case TC_K_EQ: return c < lo || c > hi ? 0 : -1;
  default: return c < lo || c > hi ? 1 : -1;
  }
}

static tc_kval fold_comparison(tc_kb *b, int32_t op, const tc_kval *v, const known *k) {
  bool alike = op == TC_K_EQ || op == TC_K_LE || op == TC_K_GE;
  int32_t answer = v[0] == v[1] ? alike : k->is[1] ? same_for_all(b, op, v[0], k->v[1].i) : -1;
  return answer < 0 ? -1 : tc_kb_int(b, TC_BOOL, answer);
}

// Is an integer a multiple of n by how it is made?
static bool is_multiple(const tc_kb *b, tc_kval v, int64_t n) {
  const tc_kinst *in = made_by(b, v, TC_K_MUL);
  tc_knum c;
  return tc_kb_const_of(b, in ? in->args[1] : v, &c) && c.i % n == 0;
}

// x div n or x rem n, x made of the lane's number: known where all lanes agree; of a sum, what is a multiple of n by
// itself stays outside, so that lines and places that lie whole rounds of lanes apart differ by constants.
static tc_kval fold_quotient(tc_kb *b, int32_t op, tc_dtype type, tc_kval x, int64_t n) {
  int64_t lo, hi, part_lo, part_hi;
  if (n < 1 || !range_of(b, x, 8, &lo, &hi) || lo < 0) return -1;
  if (lo / n == hi / n && op == TC_K_DIV) return tc_kb_int(b, type, lo / n);
  if (lo / n == hi / n) return again(b, TC_K_SUB, 2, x, tc_kb_int(b, type, lo / n * n));
  if (is_multiple(b, x, n)) {
    const tc_kinst *in = made_by(b, x, TC_K_MUL);
    tc_knum c = {0};
    if (op == TC_K_REM) return tc_kb_int(b, type, 0);
    if (!in || !range_of(b, in->args[0], 8, &part_lo, &part_hi) || !tc_kb_const_of(b, in->args[1], &c)) return -1;
    return again(b, TC_K_MUL, 2, in->args[0], tc_kb_int(b, type, c.i / n));
  }
  const tc_kinst *sum = made_by(b, x, TC_K_ADD);
  for (int32_t i = 0; i < 2 && sum; i++) {
    tc_kval whole = sum->args[i], part = sum->args[1 - i];
    if (!is_multiple(b, whole, n) || !range_of(b, whole, 8, &lo, &hi) || lo < 0 ||
        !range_of(b, part, 8, &part_lo, &part_hi) || part_lo < 0)
      continue;
    tc_kval of_part = again(b, op, 2, part, tc_kb_int(b, type, n));
    return op == TC_K_REM ? of_part : again(b, TC_K_ADD, 2, again(b, op, 2, whole, tc_kb_int(b, type, n)), of_part);
  }
  return -1;
}

static tc_kval fold_int(tc_kb *b, int32_t *op, tc_dtype type, tc_kval *v, const known *k) {
  switch (*op) {
  case TC_K_ADD:
    if (is_int(k, 1, 0)) return v[0];
    return reassociate(b, *op, type, v, k);
  case TC_K_SUB:
    if (is_int(k, 1, 0)) return v[0];
    if (v[0] == v[1]) return tc_kb_int(b, type, 0);
    if (k->is[1] && tc_dtype_class(type) == 'i')
      return again(b, TC_K_ADD, 2, v[0], tc_kb_int(b, type, (int64_t)(0 - (uint64_t)k->v[1].i)));
    return -1;
  case TC_K_MUL:
    if (is_int(k, 1, 0)) return v[1];
    if (is_int(k, 1, 1)) return v[0];
    return reassociate(b, *op, type, v, k);
  case TC_K_FMA:
    if (is_int(k, 2, 0)) return again(b, TC_K_MUL, 2, v[0], v[1]);
    if (is_int(k, 0, 0) || is_int(k, 1, 0)) return v[2];
    if (is_int(k, 1, 1)) return again(b, TC_K_ADD, 2, v[0], v[2]);
    if (is_int(k, 0, 1)) return again(b, TC_K_ADD, 2, v[1], v[2]);
    if (k->is[0] && k->is[1]) return again(b, TC_K_ADD, 2, v[2], again(b, TC_K_MUL, 2, v[0], v[1]));
    return -1;
  case TC_K_DIV:
    if (is_int(k, 1, 1)) return v[0];
    return k->is[1] ? fold_quotient(b, *op, type, v[0], k->v[1].i) : -1;
  case TC_K_REM:
    if (is_int(k, 1, 1)) return tc_kb_int(b, type, 0);
    return k->is[1] ? fold_quotient(b, *op, type, v[0], k->v[1].i) : -1;
  case TC_K_AND:
    if (is_int(k, 1, 0)) return v[1];
    if (is_int(k, 1, tc_kir_wrap(type, -1)) || v[0] == v[1]) return v[0];
    return -1;
  case TC_K_OR:
    if (is_int(k, 1, 0) || v[0] == v[1]) return v[0];
    if (is_int(k, 1, tc_kir_wrap(type, -1))) return v[1];
    return -1;
  case TC_K_XOR:
    if (is_int(k, 1, 0)) return v[0];
    if (type == TC_BOOL && is_int(k, 1, 1)) return again(b, TC_K_NOT, 1, v[0], -1);
    return v[0] == v[1] ? tc_kb_int(b, type, 0) : -1;
  case TC_K_SHL:
  case TC_K_SHR: return is_int(k, 1, 0) ? v[0] : -1;
  case TC_K_ABS: return tc_dtype_class(type) == 'u' ? v[0] : -1;
  case TC_K_EQ:
  case TC_K_LE:
  case TC_K_GE:
  case TC_K_NE:
  case TC_K_LT:
  case TC_K_GT: return fold_comparison(b, *op, v, k);
  default: return -1;
  }
}

// x / c is x · (1/c) where c is a power of two whose reciprocal is normal: exact.
static bool exact_reciprocal(tc_dtype type, double c, double *out) {
  double lo = type == TC_F64 ? 0x1p-1021 : type == TC_F16 ? 0x1p-14 : 0x1p-125;
  uint64_t bits;
  memcpy(&bits, &c, sizeof bits);
  double size = c < 0 ? -c : c;
  if (c != c || bits << 12 || size < lo || size > 1 / lo) return false;
  *out = 1 / c;
  return true;
}

// A number of its type that a float is never below, be it NaN or not; -HUGE_VAL: none is known.
static double least(const tc_kb *b, tc_kval v, int32_t depth) {
  const tc_kinst *in = tc_kb_inst_of(b, v);
  double x[3];
  tc_knum c;
  if (tc_kb_const_of(b, v, &c)) return c.re == c.re ? c.re : -HUGE_VAL;
  if (!in || depth == 0) return -HUGE_VAL;
  if (in->op == TC_K_ABS || in->op == TC_K_SQRT || in->op == TC_K_EXP) return 0;
  if (in->op != TC_K_ADD && in->op != TC_K_MUL && in->op != TC_K_FMA && in->op != TC_K_MAX && in->op != TC_K_SELECT)
    return -HUGE_VAL;
  for (int32_t i = in->op == TC_K_SELECT; i < in->n_args; i++) x[i] = least(b, in->args[i], depth - 1);
  bool square = in->args[0] == in->args[1];
  switch (in->op) {
  case TC_K_ADD: return x[0] < 0 || x[1] < 0 ? -HUGE_VAL : x[0] > x[1] ? x[0] : x[1];
  case TC_K_MAX: return x[0] > x[1] ? x[0] : x[1];
  case TC_K_SELECT: return x[1] < x[2] ? x[1] : x[2];
  case TC_K_MUL: return square || (x[0] >= 0 && x[1] >= 0) ? 0 : -HUGE_VAL;
  default: return square || (x[0] >= 0 && x[1] >= 0) ? x[2] : -HUGE_VAL;
  }
}

double tc_kb_most(const tc_kb *b, tc_kval v) {
  const tc_kinst *in = tc_kb_inst_of(b, v);
  tc_knum c;
  if (tc_kb_const_of(b, v, &c)) return c.re == c.re ? c.re : HUGE_VAL;
  if (in && in->op == TC_K_NEG) return -least(b, in->args[0], 6);
  if (!in || in->op != TC_K_MIN) return HUGE_VAL;
  double x = tc_kb_most(b, in->args[0]), y = tc_kb_most(b, in->args[1]);
  return x < y ? x : y;
}

// Does the type have both as numbers, so that a conversion to it keeps what lies between them?
static bool holds(tc_dtype type, double lo, double hi) {
  const double exact = 0x1p53;
  return lo >= -exact && hi <= exact && tc_kir_wrap(type, (int64_t)lo) == (int64_t)lo &&
         tc_kir_wrap(type, (int64_t)hi) == (int64_t)hi;
}

// Bounds of a number that is no NaN, by the constants that it was limited to on the way; else infinite ones.
static void bounds(const tc_kb *b, tc_kval v, int32_t depth, double *lo, double *hi) {
  const tc_kinst *in = tc_kb_inst_of(b, v);
  tc_knum c;
  *lo = -HUGE_VAL, *hi = HUGE_VAL;
  bool real = tc_dtype_class(tc_kb_type(b, v)) == 'f';
  if (tc_kb_const_of(b, v, &c)) {
    double x = real ? c.re : (double)c.i;
    if (x == x) *lo = *hi = x;
    return;
  }
  if (!in || depth == 0) return;
  if (in->op == TC_K_CAST && !real && tc_kb_type(b, in->args[0]) != TC_BOOL) {
    bounds(b, in->args[0], depth - 1, lo, hi);
    if (!holds(tc_kb_type(b, v), *lo, *hi)) *lo = -HUGE_VAL, *hi = HUGE_VAL;
  }
  bool least = in->op == (real ? TC_K_FMIN : TC_K_MIN), most = in->op == (real ? TC_K_FMAX : TC_K_MAX);
  if (!least && !most) return;
  double x[2], y[2];
  for (int32_t i = 0; i < 2; i++) bounds(b, in->args[i], depth - 1, &x[i], &y[i]);
  *lo = least == (x[0] < x[1]) ? x[0] : x[1];
  *hi = least == (y[0] < y[1]) ? y[0] : y[1];
}

bool tc_kb_is_within(const tc_kb *b, tc_kval v, int64_t lo, int64_t hi) {
  double from, to;
  bounds(b, v, 4, &from, &to);
  return from >= (double)lo && to <= (double)hi;
}

// A comparison of a float with a constant that is below or above all of its values; NaN is neither less nor equal.
static tc_kval fold_real_comparison(tc_kb *b, int32_t op, tc_kval x, double c) {
  bool less = op == TC_K_LT || op == TC_K_LE, greater = op == TC_K_GT || op == TC_K_GE;
  double from = greater ? -HUGE_VAL : least(b, x, 6), to = less ? HUGE_VAL : tc_kb_most(b, x);
  bool known = op == TC_K_LT ? from >= c : op == TC_K_GT ? to <= c : from > c || to < c;
  return known ? tc_kb_int(b, TC_BOOL, op == TC_K_NE) : -1;
}

static tc_kval fold_real(tc_kb *b, int32_t *op, tc_dtype type, tc_kval *v, const known *k) {
  const tc_kinst *in;
  double r;
  switch (*op) {
  case TC_K_ADD:
    if (is_real(k, 1, -0.0)) return v[0];
    if ((in = made_by(b, v[1], TC_K_NEG))) *op = TC_K_SUB, v[1] = in->args[0];
    return -1;
  case TC_K_SUB:
    if (is_real(k, 1, 0.0)) return v[0];
    if (is_real(k, 0, -0.0)) return again(b, TC_K_NEG, 1, v[1], -1);
    if ((in = made_by(b, v[1], TC_K_NEG))) *op = TC_K_ADD, v[1] = in->args[0];
    return -1;
  case TC_K_MUL:
    if (is_real(k, 1, 1)) return v[0];
    if (is_real(k, 1, -1)) return again(b, TC_K_NEG, 1, v[0], -1);
    return -1;
  case TC_K_DIV:
    if (is_real(k, 1, 1)) return v[0];
    if (k->is[1] && exact_reciprocal(type, k->v[1].re, &r)) *op = TC_K_MUL, v[1] = tc_kb_real(b, type, r);
    return -1;
  case TC_K_FMA:
    if (is_real(k, 2, -0.0)) return again(b, TC_K_MUL, 2, v[0], v[1]);
    if (is_real(k, 1, 1)) return again(b, TC_K_ADD, 2, v[0], v[2]);
    if (is_real(k, 0, 1)) return again(b, TC_K_ADD, 2, v[1], v[2]);
    if (is_real(k, 1, -1)) return again(b, TC_K_SUB, 2, v[2], v[0]);
    return -1;
  case TC_K_NEG: return (in = made_by(b, v[0], TC_K_NEG)) ? in->args[0] : -1;
  case TC_K_ABS:
    if (made_by(b, v[0], TC_K_ABS)) return v[0];
    if ((in = made_by(b, v[0], TC_K_NEG))) v[0] = in->args[0];
    return -1;
  case TC_K_ABS2: return again(b, TC_K_MUL, 2, v[0], v[0]);
  case TC_K_EQ:
  case TC_K_NE:
  case TC_K_LT:
  case TC_K_LE:
  case TC_K_GT:
  case TC_K_GE: return k->is[1] ? fold_real_comparison(b, *op, v[0], k->v[1].re) : -1;
  case TC_K_FLOOR:
  case TC_K_CEIL:
  case TC_K_TRUNC:
  case TC_K_RINT:
  case TC_K_ROUND:
    in = tc_kb_inst_of(b, v[0]);
    return in && (in->op == TC_K_FLOOR || in->op == TC_K_CEIL || in->op == TC_K_TRUNC || in->op == TC_K_RINT ||
                  in->op == TC_K_ROUND)
               ? v[0]
               : -1;
  default: return -1;
  }
}

static tc_kval fold_select(tc_kb *b, tc_dtype type, tc_kval *v, const known *k) {
  const tc_kinst *in;
  if (k->is[0]) return k->v[0].i ? v[1] : v[2];
  if (v[1] == v[2]) return v[1];
  if (type == TC_BOOL && is_int(k, 1, 1) && is_int(k, 2, 0)) return v[0];
  if (type == TC_BOOL && is_int(k, 1, 0) && is_int(k, 2, 1)) return again(b, TC_K_NOT, 1, v[0], -1);
  if ((in = made_by(b, v[0], TC_K_NOT))) { // the other operand is the last one then
    int32_t flags = tc_kb_flags(b);
    tc_kb_set_flags(b, flags & ~TC_KI_RARE);
    tc_kval r = tc_kb_op3(b, TC_K_SELECT, in->args[0], v[2], v[1]);
    tc_kb_set_flags(b, flags);
    return r;
  }
  return -1;
}

static tc_kval fold_parts(tc_kb *b, int32_t op, tc_dtype type, tc_kval *v) {
  const tc_kinst *in;
  bool complex = tc_dtype_is_complex(type);
  switch (op) {
  case TC_K_REAL: return !complex ? v[0] : (in = made_by(b, v[0], TC_K_COMPLEX)) ? in->args[0] : -1;
  case TC_K_IMAG: return !complex ? tc_kb_real(b, type, 0) : (in = made_by(b, v[0], TC_K_COMPLEX)) ? in->args[1] : -1;
  case TC_K_CONJ: return !complex ? v[0] : (in = made_by(b, v[0], TC_K_CONJ)) ? in->args[0] : -1;
  default: return -1;
  }
}

static int32_t mirrored(int32_t op) {
  switch (op) {
  case TC_K_LT: return TC_K_GT;
  case TC_K_LE: return TC_K_GE;
  case TC_K_GT: return TC_K_LT;
  case TC_K_GE: return TC_K_LE;
  default: return op;
  }
}

tc_kval tc_kbi_fold(tc_kb *b, int32_t *op, tc_dtype type, int32_t n, tc_kval *v) {
  bool complex = tc_dtype_is_complex(type);
  if (*op == TC_K_REM && tc_dtype_is_float(type)) *op = TC_K_FMOD;
  tc_kval part = fold_parts(b, *op, type, v);
  if (part >= 0 || complex) return *op == TC_K_SELECT && part < 0 && v[1] == v[2] ? v[1] : part;
  known k = {0};
  for (int32_t i = 0; i < n; i++) k.count += k.is[i] = tc_kb_const_of(b, v[i], &k.v[i]);
  char cls = (char)tc_k_op_class(*op);
  bool exact = (cls == 'a' && *op != TC_K_RCP_APPROX) || cls == 'c' || *op == TC_K_SELECT;
  tc_knum r;
  if (k.count == n && exact && !tc_kir_eval(*op, type, k.v, &r)) return tc_kbi_const(b, cls == 'c' ? TC_BOOL : type, r);
  bool swaps = tc_kir_is_commutative(*op) || mirrored(*op) != *op;
  if (n == 2 && swaps && (k.is[0] || (!k.is[1] && v[0] > v[1] && tc_kir_is_commutative(*op))) &&
      !(k.is[0] && k.is[1])) {
    *op = mirrored(*op);
    tc_kval t = v[0];
    v[0] = v[1], v[1] = t;
    bool is = k.is[0];
    tc_knum c = k.v[0];
    k.is[0] = k.is[1], k.v[0] = k.v[1], k.is[1] = is, k.v[1] = c;
  }
  const tc_kinst *in;
  if (*op == TC_K_SELECT) return fold_select(b, type, v, &k);
  if ((*op == TC_K_MIN || *op == TC_K_MAX || *op == TC_K_FMIN || *op == TC_K_FMAX) && v[0] == v[1]) return v[0];
  if (*op == TC_K_NOT && (in = made_by(b, v[0], TC_K_NOT))) return in->args[0];
  return tc_dtype_is_float(type) ? fold_real(b, op, type, v, &k) : fold_int(b, op, type, v, &k);
}

// Does every value of `from` survive the way to `to` and back?
static bool widens(tc_dtype from, tc_dtype to) {
  bool ff = tc_dtype_is_float(from), ft = tc_dtype_is_float(to);
  if (tc_dtype_is_complex(from) || tc_dtype_is_complex(to) || from == TC_BOOL || to == TC_BOOL) return false;
  if (ff != ft) return !ff && tc_dtype_size(to) > tc_dtype_size(from) && !(to == TC_F16 || to == TC_BF16);
  if (ff) return tc_dtype_size(to) > tc_dtype_size(from);
  return tc_dtype_size(to) >= tc_dtype_size(from);
}

tc_kval tc_kbi_fold_cast(tc_kb *b, tc_dtype to, tc_kval x) {
  tc_dtype from = b->values.data[x].dtype;
  if (from == to) return x;
  tc_knum v;
  if (!tc_dtype_is_complex(to) && tc_kb_const_of(b, x, &v)) return tc_kbi_const(b, to, tc_kir_cast(from, to, v));
  if (tc_dtype_is_complex(to) && !tc_dtype_is_complex(from)) {
    tc_dtype part = tc_dtype_real(to);
    return tc_kb_op2(b, TC_K_COMPLEX, tc_kb_cast(b, part, x), tc_kb_real(b, part, 0));
  }
  if (tc_dtype_is_complex(from) && !tc_dtype_is_complex(to) && to != TC_BOOL)
    return tc_kb_cast(b, to, tc_kb_op1(b, TC_K_REAL, x));
  const tc_kinst *in = made_by(b, x, TC_K_CAST);
  if (in && b->values.data[in->args[0]].dtype == to && widens(to, from)) return in->args[0];
  return -1;
}
