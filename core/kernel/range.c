// Sums and products of integers that do not wrap, by intervals.
#include "core/kernel/linear.h"

enum { STEPS = 256 };

typedef struct range {
  int64_t lo, hi;
} range;

static range of_type(tc_dtype d) {
  int32_t bits = tc_kir_bits(d);
  bool is_signed = tc_kir_wrap(d, -1) < 0;
  if (!is_signed) return (range){0, bits > 32 ? INT64_MAX : (1LL << bits) - 1};
  return bits > 32 ? (range){INT64_MIN, INT64_MAX} : (range){-(1LL << (bits - 1)), (1LL << (bits - 1)) - 1};
}

static bool within(range x, range limits) { return x.lo >= limits.lo && x.hi <= limits.hi; }
static bool is_small(range x) { return within(x, (range){INT32_MIN, INT32_MAX}); }
static range hull(int64_t a, int64_t b, int64_t c, int64_t d) {
  int64_t lo = a < b ? a : b, hi = a < b ? b : a;
  if (c < lo) lo = c;
  if (c > hi) hi = c;
  return (range){d < lo ? d : lo, d > hi ? d : hi};
}
static range product(range x, range y) { return hull(x.lo * y.lo, x.lo * y.hi, x.hi * y.lo, x.hi * y.hi); }

typedef struct walk {
  const tc_kernel *k;
  int64_t blocks;
  int32_t left; // steps
} walk;

// Least and largest of what sums and products are made of; false if one of them may wrap, or is too large to tell.
static bool range_of(walk *w, tc_kval v, range *out) {
  const tc_kernel *k = w->k;
  const tc_kinst *in = tc_kir_made_by(k, v);
  tc_dtype type = k->values[v].dtype;
  range x, y, z, limits = of_type(type);
  *out = limits;
  if (w->left-- <= 0) return false;
  switch (in ? in->op : TC_K_LOAD) {
  case TC_K_CONST: *out = (range){in->imm, in->imm}; break;
  case TC_K_LANE: *out = (range){0, k->lanes - 1}; break;
  case TC_K_BLOCK: *out = (range){0, w->blocks - 1}; break;
  case TC_K_SCALAR: {
    const tc_kscalar_info *s = &k->scalars[k->params[in->imm].index];
    *out = (range){s->lo, s->hi};
    break;
  }
  case TC_K_CAST:
    if (tc_kir_is_int(k->values[in->args[0]].dtype) && !range_of(w, in->args[0], out)) return false;
    break;
  case TC_K_NEG:
    if (!range_of(w, in->args[0], &x) || !is_small(x)) return false;
    *out = (range){-x.hi, -x.lo};
    break;
  case TC_K_ADD:
  case TC_K_SUB:
  case TC_K_MUL:
  case TC_K_MIN:
  case TC_K_MAX:
    if (!range_of(w, in->args[0], &x) || !range_of(w, in->args[1], &y) || !is_small(x) || !is_small(y)) return false;
    if (in->op == TC_K_ADD) *out = (range){x.lo + y.lo, x.hi + y.hi};
    else if (in->op == TC_K_SUB) *out = (range){x.lo - y.hi, x.hi - y.lo};
    else if (in->op == TC_K_MUL) *out = product(x, y);
    else *out = (range){x.lo < y.lo ? x.lo : y.lo, x.hi > y.hi ? x.hi : y.hi}; // no more than both together
    break;
  case TC_K_FMA:
    if (!range_of(w, in->args[0], &x) || !range_of(w, in->args[1], &y) || !range_of(w, in->args[2], &z)) return false;
    if (!is_small(x) || !is_small(y) || !is_small(z)) return false;
    *out = product(x, y);
    *out = (range){out->lo + z.lo, out->hi + z.hi};
    break;
  case TC_K_REM:
  case TC_K_AND: // by a number that is known and positive
    in = tc_kir_made_by(k, in->args[1]);
    if (in && in->op == TC_K_CONST && in->imm > 0)
      *out = (range){k->insts[k->values[v].inst].op == TC_K_AND ? 0 : -in->imm, in->imm};
    break;
  case TC_K_DIV:
    if (!range_of(w, in->args[0], &x) || !is_small(x)) return false;
    *out = (range){x.lo < 0 ? x.lo : 0, x.hi > 0 ? x.hi : 0};
    in = tc_kir_made_by(k, in->args[1]);
    if (!in || in->op != TC_K_CONST || in->imm < 1) *out = limits;
    else *out = (range){out->lo / in->imm, out->hi / in->imm};
    break;
  case TC_K_SHL: return false;
  default: break;
  }
  return within(*out, limits);
}

bool tc_kir_is_exact(const tc_kernel *k, int64_t blocks, tc_kval v) {
  walk w = {k, blocks, STEPS};
  range r;
  return range_of(&w, v, &r);
}
