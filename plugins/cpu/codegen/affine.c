// Which integers are base + stride*lane, and which powers of two divide them: decides how memory is accessed.
#include "codegen.h"

enum { ALL_ZERO = 62 };

int32_t cg_zeros_of(int64_t v) {
  return v == 0 ? ALL_ZERO : __builtin_ctzll((uint64_t)v) > ALL_ZERO ? ALL_ZERO : __builtin_ctzll((uint64_t)v);
}

static int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }

// base + stride*lane of an operand; for one with no stride, stride is NULL.
static bool form(cg *g, tc_kval v, cg_val *out) {
  *out = g->vals[v];
  return out->base != NULL;
}

static LLVMValueRef add(cg *g, LLVMValueRef a, LLVMValueRef b, bool minus) {
  if (!b) return a;
  if (!a) return minus ? LLVMBuildNeg(g->b, b, "") : b;
  return minus ? LLVMBuildSub(g->b, a, b, "") : LLVMBuildAdd(g->b, a, b, "");
}

static void add_forms(cg *g, const cg_val *a, const cg_val *b, bool minus, cg_val *out) {
  out->base = add(g, a->base, b->base, minus);
  out->stride = add(g, a->stride, b->stride, minus);
  out->zeros = least(a->zeros, b->zeros);
}

// a*b where at most one has a stride; else the base stays unknown.
static bool mul_forms(cg *g, const cg_val *a, const cg_val *b, cg_val *out) {
  if (a->stride && b->stride) return false;
  const cg_val *s = a->stride ? a : b, *u = a->stride ? b : a;
  out->base = LLVMBuildMul(g->b, s->base, u->base, "");
  out->stride = s->stride ? LLVMBuildMul(g->b, s->stride, u->base, "") : NULL;
  out->zeros = least(ALL_ZERO, a->zeros + b->zeros);
  return true;
}

// A cast keeps the form where lanes cannot wrap: see the top of codegen.h. Unsigned values wrap in earnest.
static bool cast_form(cg *g, const tc_kinst *in, const cg_val *a, cg_val *out) {
  tc_kvalue from, to;
  tc_k_value(g->k, in->args[0], &from);
  tc_k_value(g->k, in->results[0], &to);
  if (cg_is_float(from.dtype) || cg_is_float(to.dtype) || from.dtype == TC_BOOL || to.dtype == TC_BOOL) return false;
  if (a->stride && !cg_is_signed(from.dtype) && cg_bits(to.dtype) > cg_bits(from.dtype)) return false;
  out->base = cg_cast(g, a->base, from.dtype, to.dtype);
  out->stride = a->stride ? cg_cast(g, a->stride, from.dtype, to.dtype) : NULL;
  out->zeros = a->zeros;
  return true;
}

// root + offset of an operand's base: constants are offsets from nothing (root NULL).
static void split_offset(const cg_val *a, LLVMValueRef *root, int64_t *offset) {
  LLVMValueRef base = a->base ? a->base : a->v; // uniform: the value
  *root = a->root ? a->root : base, *offset = a->root ? a->offset : 0;
  if (!a->root && cg_const_int(base, offset)) *root = NULL;
}

// Constants that are added somewhere in the base of a signed integer, taken out.
static void track_offset(cg *g, const tc_kinst *in, const cg_val *a, const cg_val *b, cg_val *out) {
  enum { MOST = 1 << 28 };
  LLVMValueRef x, y = NULL, root = NULL;
  int64_t p, q = 0;
  tc_kvalue from, to;
  if (in->op != TC_K_ADD && in->op != TC_K_SUB && in->op != TC_K_MUL && in->op != TC_K_CAST) return;
  tc_k_value(g->k, in->args[0], &from);
  tc_k_value(g->k, in->results[0], &to);
  if (!cg_is_signed(from.dtype) || !cg_is_signed(to.dtype) || cg_bits(from.dtype) < 32 || cg_bits(to.dtype) < 32)
    return;
  split_offset(a, &x, &p);
  if (in->n_args > 1) split_offset(b, &y, &q);
  switch (in->op) {
  case TC_K_CAST: root = x && p ? cg_cast(g, x, from.dtype, to.dtype) : NULL; break;
  case TC_K_MUL:
    if (!x == !y || (x ? p : q) == 0 || p > MOST || p < -MOST || q > MOST || q < -MOST) return;
    root = LLVMBuildMul(g->b, x ? x : y, cg_int_like(x ? x : y, x ? q : p), "");
    p *= q, q = 0;
    break;
  default:
    if (in->op == TC_K_SUB) q = -q;
    if ((!p && !q) || (!x && !y)) return;
    root = add(g, x, y, in->op == TC_K_SUB);
  }
  if (p + q > MOST || p + q < -MOST) return;
  out->root = root, out->offset = p + q;
}

static int32_t scalar_zeros(cg *g, const tc_kinst *in) {
  tc_kscalar_info s;
  tc_k_scalar(g->k, (int32_t)in->imm, &s);
  return s.divisor > 0 ? cg_zeros_of(s.divisor) : 0;
}

void cg_track(cg *g, const tc_kinst *in, cg_val *out) {
  cg_val a = {0}, b = {0}, c = {0};
  int64_t n;
  bool varying = cg_count(out->v) != 0;
  bool known[3] = {in->n_args > 0 && form(g, in->args[0], &a), in->n_args > 1 && form(g, in->args[1], &b),
                   in->n_args > 2 && form(g, in->args[2], &c)};
  bool done = false;
  cg_val f = {0};
  switch (in->op) {
  case TC_K_CONST: f.zeros = cg_zeros_of(in->imm); break;
  case TC_K_SCALAR: f.zeros = scalar_zeros(g, in); break;
  case TC_K_LANE:
    f.base = cg_i32(g, 0), f.stride = cg_i32(g, 1), f.zeros = ALL_ZERO;
    done = true;
    break;
  case TC_K_ADD:
  case TC_K_SUB:
    if ((done = known[0] && known[1])) add_forms(g, &a, &b, in->op == TC_K_SUB, &f);
    break;
  case TC_K_NEG:
    if ((done = known[0])) add_forms(g, &(cg_val){.zeros = ALL_ZERO}, &a, true, &f);
    break;
  case TC_K_MUL: done = known[0] && known[1] && mul_forms(g, &a, &b, &f); break;
  case TC_K_FMA: {
    cg_val p = {0};
    if ((done = known[0] && known[1] && known[2] && mul_forms(g, &a, &b, &p))) add_forms(g, &p, &c, false, &f);
    break;
  }
  case TC_K_SHL:
    if (known[0] && known[1] && cg_const_int(b.base, &n) && n >= 0 && n < 32) {
      LLVMValueRef times = cg_int_like(a.base, 1ll << n);
      done = mul_forms(g, &a, &(cg_val){.base = times, .zeros = (int32_t)n}, &f);
    }
    break;
  case TC_K_CAST: done = known[0] && cast_form(g, in, &a, &f); break;
  case TC_K_MIN:
  case TC_K_MAX: f.zeros = least(a.zeros, b.zeros); break;
  case TC_K_SELECT: f.zeros = least(b.zeros, c.zeros); break;
  case TC_K_AND: f.zeros = a.zeros > b.zeros ? a.zeros : b.zeros; break;
  default: break;
  }
  if (varying) {
    if (!done) return;
    out->base = f.base, out->stride = f.stride, out->zeros = f.zeros;
  } else {
    out->base = out->v, out->zeros = f.zeros;
  }
  track_offset(g, in, &a, &b, out);
}
