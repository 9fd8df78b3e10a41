// Arithmetic, comparisons, casts and reductions: each opcode as LLVM instructions on scalars or vectors alike.
//
// No fast-math flags anywhere; every case that LLVM calls undefined (shifts by too much, division by zero, float to
// integer out of range) is given a defined result first. 32-bit and smaller vector divisions go through doubles or
// floats, which is exact: a quotient that is not an integer differs from one by more than the rounding error.
#include <math.h>
#include <string.h>

#include "codegen.h"

static LLVMTypeRef int_type(cg *g, LLVMValueRef like, int32_t bits) {
  return cg_like(like, LLVMIntTypeInContext(g->ctx, (unsigned)bits));
}

static LLVMValueRef is_nan(cg *g, LLVMValueRef x) { return LLVMBuildFCmp(g->b, LLVMRealUNO, x, x, ""); }

static bool known_number(LLVMValueRef x) {
  if (!LLVMIsConstant(x)) return false;
  int32_t n = cg_count(x);
  for (int32_t i = 0; i < (n ? n : 1); i++) {
    LLVMValueRef e = n ? LLVMGetAggregateElement(x, (unsigned)i) : x;
    LLVMBool inexact;
    if (!e || !LLVMIsAConstantFP(e)) return false;
    double v = LLVMConstRealGetDouble(e, &inexact);
    if (v != v) return false;
  }
  return true;
}

// min or max: `keep_nan` as PyTorch's minimum, else as IEEE minNum. The processor's instruction gives its second
// operand if either is NaN, so with a constant the order of operands is enough.
static LLVMValueRef float_extreme(cg *g, LLVMValueRef a, LLVMValueRef b, bool max, bool keep_nan) {
  LLVMRealPredicate before = max ? LLVMRealOGT : LLVMRealOLT;
  bool number_a = known_number(a), number_b = known_number(b);
  if (keep_nan ? number_b : number_a) {
    LLVMValueRef t = a;
    a = b, b = t;
  }
  LLVMValueRef m = LLVMBuildSelect(g->b, LLVMBuildFCmp(g->b, before, a, b, ""), a, b, "");
  if (number_a || number_b) return m;
  return LLVMBuildSelect(g->b, is_nan(g, keep_nan ? a : b), a, m, "");
}

// True for constants without 0 and -1 among the elements.
static bool harmless_divisor(LLVMValueRef b) {
  int32_t n = cg_count(b);
  for (int32_t i = 0; i < (n ? n : 1); i++) {
    LLVMValueRef e = n && LLVMIsConstant(b) ? LLVMGetAggregateElement(b, (unsigned)i) : b;
    int64_t v;
    if (!cg_const_int(e, &v) || v == 0 || v == -1) return false;
  }
  return true;
}

// A divisor that cannot trap: 0 becomes 1; *minus: where it was -1 (then 1 here, the quotient is negated).
static LLVMValueRef safe_divisor(cg *g, LLVMValueRef b, bool is_signed, LLVMValueRef *minus) {
  *minus = NULL;
  if (harmless_divisor(b)) return b;
  LLVMValueRef one = cg_int_like(b, 1);
  LLVMValueRef safe = LLVMBuildSelect(g->b, LLVMBuildICmp(g->b, LLVMIntEQ, b, cg_int_like(b, 0), ""), one, b, "");
  if (!is_signed) return safe;
  *minus = LLVMBuildICmp(g->b, LLVMIntEQ, b, cg_int_like(b, -1), "");
  return LLVMBuildSelect(g->b, *minus, one, safe, "");
}

static LLVMValueRef divide(cg *g, bool want_rem, bool is_signed, int32_t bits, LLVMValueRef a, LLVMValueRef b) {
  LLVMValueRef q;
  if (cg_count(a) && bits <= 32 && !LLVMIsConstant(b)) {
    LLVMTypeRef wide = int_type(g, a, 32);
    LLVMTypeRef real = cg_like(a, bits == 32 ? LLVMDoubleTypeInContext(g->ctx) : LLVMFloatTypeInContext(g->ctx));
    LLVMValueRef x = is_signed ? LLVMBuildSIToFP(g->b, a, real, "") : LLVMBuildUIToFP(g->b, a, real, "");
    LLVMValueRef y = is_signed ? LLVMBuildSIToFP(g->b, b, real, "") : LLVMBuildUIToFP(g->b, b, real, "");
    LLVMValueRef r = LLVMBuildFDiv(g->b, x, y, "");
    q = is_signed || bits < 32 ? LLVMBuildFPToSI(g->b, r, wide, "") : LLVMBuildFPToUI(g->b, r, wide, "");
    q = LLVMBuildFreeze(g->b, q, "");
    if (bits < 32) q = LLVMBuildTrunc(g->b, q, LLVMTypeOf(a), "");
    return want_rem ? LLVMBuildSub(g->b, a, LLVMBuildMul(g->b, q, b, ""), "") : q;
  }
  LLVMValueRef minus, d = safe_divisor(g, b, is_signed, &minus);
  if (want_rem) return is_signed ? LLVMBuildSRem(g->b, a, d, "") : LLVMBuildURem(g->b, a, d, "");
  q = is_signed ? LLVMBuildSDiv(g->b, a, d, "") : LLVMBuildUDiv(g->b, a, d, "");
  return minus ? LLVMBuildSelect(g->b, minus, LLVMBuildNeg(g->b, a, ""), q, "") : q;
}

static LLVMValueRef shift(cg *g, int32_t op, bool is_signed, int32_t bits, LLVMValueRef a, LLVMValueRef s) {
  LLVMValueRef last = cg_int_like(s, bits - 1);
  LLVMValueRef fits = LLVMBuildICmp(g->b, LLVMIntULE, s, last, "");
  if (op == TC_K_SHR && is_signed) return LLVMBuildAShr(g->b, a, LLVMBuildSelect(g->b, fits, s, last, ""), "");
  LLVMValueRef r = op == TC_K_SHL ? LLVMBuildShl(g->b, a, s, "") : LLVMBuildLShr(g->b, a, s, "");
  return LLVMBuildSelect(g->b, fits, r, LLVMConstNull(LLVMTypeOf(a)), "");
}

static LLVMValueRef mul_high(cg *g, bool is_signed, int32_t bits, LLVMValueRef a, LLVMValueRef b) {
  LLVMTypeRef wide = int_type(g, a, 2 * bits);
  LLVMValueRef x = is_signed ? LLVMBuildSExt(g->b, a, wide, "") : LLVMBuildZExt(g->b, a, wide, "");
  LLVMValueRef y = is_signed ? LLVMBuildSExt(g->b, b, wide, "") : LLVMBuildZExt(g->b, b, wide, "");
  LLVMValueRef p = LLVMBuildMul(g->b, x, y, "");
  return LLVMBuildTrunc(g->b, LLVMBuildLShr(g->b, p, cg_int_like(p, bits), ""), LLVMTypeOf(a), "");
}

static LLVMValueRef compare(cg *g, int32_t op, tc_dtype d, LLVMValueRef a, LLVMValueRef b) {
  // EQ NE LT LE GT GE
  static const LLVMRealPredicate real[] = {LLVMRealOEQ, LLVMRealUNE, LLVMRealOLT,
                                           LLVMRealOLE, LLVMRealOGT, LLVMRealOGE};
  static const LLVMIntPredicate s[] = {LLVMIntEQ, LLVMIntNE, LLVMIntSLT, LLVMIntSLE, LLVMIntSGT, LLVMIntSGE};
  static const LLVMIntPredicate u[] = {LLVMIntEQ, LLVMIntNE, LLVMIntULT, LLVMIntULE, LLVMIntUGT, LLVMIntUGE};
  if (d == TC_F16 || d == TC_BF16) a = cg_cast(g, a, d, TC_F32), b = cg_cast(g, b, d, TC_F32);
  if (cg_is_float(d)) return LLVMBuildFCmp(g->b, real[op - TC_K_EQ], a, b, "");
  LLVMIntPredicate p = cg_is_signed(d) ? s[op - TC_K_EQ] : u[op - TC_K_EQ];
  return LLVMBuildICmp(g->b, p, a, b, "");
}

static LLVMValueRef intrinsic1(cg *g, const char *name, LLVMValueRef x) {
  return cg_call(g, name, LLVMTypeOf(x), 1, &x);
}
static LLVMValueRef intrinsic2(cg *g, const char *name, LLVMValueRef x, LLVMValueRef y) {
  return cg_call(g, name, LLVMTypeOf(x), 2, (LLVMValueRef[]){x, y});
}

// vrcp14 per register where there is one, else NULL.
static LLVMValueRef estimate(cg *g, tc_dtype d, LLVMValueRef x) {
  int32_t n = cg_count(x), per = d == TC_F32 ? 16 : 8;
  if (!g->avx512 || n % per || n / per > CG_MAX_PARTS || n == 0) return NULL;
  LLVMValueRef parts[CG_MAX_PARTS];
  for (int32_t i = 0; i < n / per; i++) {
    LLVMValueRef part = cg_slice(g, x, i * per, per);
    LLVMTypeRef mask = LLVMIntTypeInContext(g->ctx, (unsigned)per);
    LLVMValueRef args[] = {part, LLVMConstNull(LLVMTypeOf(part)), LLVMConstAllOnes(mask)};
    parts[i] =
        cg_call2(g, d == TC_F32 ? "llvm.x86.avx512.rcp14.ps.512" : "llvm.x86.avx512.rcp14.pd.512", NULL, 0, 3, args);
  }
  return cg_concat(g, n / per, parts);
}

static LLVMValueRef reciprocal(cg *g, tc_dtype d, LLVMValueRef x) {
  LLVMValueRef r = estimate(g, d, x);
  return r ? r : LLVMBuildFDiv(g->b, cg_real_like(x, 1), x, "");
}

static LLVMValueRef fused(cg *g, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
  return cg_call(g, "llvm.fma", LLVMTypeOf(a), 3, (LLVMValueRef[]){a, b, c});
}

// a / b where two units in the last place suffice: from an estimate of 1/b in 14 bits, doubled by Newton's step where
// the type has more than 28, the quotient a first · (2 - b first). The processor's division of a whole register takes
// longer. Where infinities or zeros made that NaN, a · first is the answer, or is NaN itself.
static LLVMValueRef quotient(cg *g, int32_t flags, tc_dtype d, LLVMValueRef a, LLVMValueRef b) {
  LLVMValueRef first = flags & TC_KI_FAST ? estimate(g, d, b) : NULL;
  if (!first) return LLVMBuildFDiv(g->b, a, b, "");
  LLVMValueRef one = cg_real_like(b, 1), minus = LLVMBuildFNeg(g->b, b, ""), r = first;
  if (d == TC_F64) r = fused(g, r, fused(g, minus, r, one), r);
  LLVMValueRef near = LLVMBuildFMul(g->b, a, r, ""), q = fused(g, near, fused(g, minus, r, one), near);
  if (flags & TC_KI_NOWRAP) return q;
  return LLVMBuildSelect(g->b, is_nan(g, q), LLVMBuildFMul(g->b, a, first, ""), q, "");
}

static LLVMValueRef float_arith(cg *g, int32_t op, int32_t flags, tc_dtype d, LLVMValueRef *x) {
  LLVMValueRef a = x[0], b = x[1];
  if (d == TC_F16 || d == TC_BF16) {
    cg_fail(g, TC_STATUS_UNIMPLEMENTED, "%s on 16-bit floats must be lowered before code generation", tc_k_op_text(op));
    return a;
  }
  switch (op) {
  case TC_K_ADD: return LLVMBuildFAdd(g->b, a, b, "");
  case TC_K_SUB: return LLVMBuildFSub(g->b, a, b, "");
  case TC_K_MUL: return LLVMBuildFMul(g->b, a, b, "");
  case TC_K_DIV: return quotient(g, flags, d, a, b);
  case TC_K_FMA: return cg_call(g, "llvm.fma", LLVMTypeOf(a), 3, x);
  case TC_K_NEG: return LLVMBuildFNeg(g->b, a, "");
  case TC_K_ABS: return intrinsic1(g, "llvm.fabs", a);
  case TC_K_SQRT: return intrinsic1(g, "llvm.sqrt", a);
  case TC_K_FLOOR: return intrinsic1(g, "llvm.floor", a);
  case TC_K_CEIL: return intrinsic1(g, "llvm.ceil", a);
  case TC_K_TRUNC: return intrinsic1(g, "llvm.trunc", a);
  case TC_K_RINT: return intrinsic1(g, "llvm.roundeven", a);
  case TC_K_COPYSIGN: return intrinsic2(g, "llvm.copysign", a, b);
  case TC_K_MIN: return float_extreme(g, a, b, false, true);
  case TC_K_MAX: return float_extreme(g, a, b, true, true);
  case TC_K_FMIN: return float_extreme(g, a, b, false, false);
  case TC_K_FMAX: return float_extreme(g, a, b, true, false);
  case TC_K_RCP_APPROX: return reciprocal(g, d, a);
  default: break;
  }
  cg_fail(g, TC_STATUS_UNIMPLEMENTED, "%s on floats must be lowered before code generation", tc_k_op_text(op));
  return a;
}

static LLVMValueRef int_arith(cg *g, int32_t op, int32_t flags, tc_dtype d, LLVMValueRef *x) {
  LLVMValueRef a = x[0], b = x[1], r = NULL;
  bool s = cg_is_signed(d), no_wrap = flags & TC_KI_NOWRAP;
  int32_t bits = cg_bits(d);
  switch (op) {
  case TC_K_ADD: r = LLVMBuildAdd(g->b, a, b, ""); break;
  case TC_K_SUB: r = LLVMBuildSub(g->b, a, b, ""); break;
  case TC_K_MUL: r = LLVMBuildMul(g->b, a, b, ""); break;
  case TC_K_FMA: return LLVMBuildAdd(g->b, LLVMBuildMul(g->b, a, b, ""), x[2], "");
  case TC_K_DIV: return divide(g, false, s, bits, a, b);
  case TC_K_REM: return divide(g, true, s, bits, a, b);
  case TC_K_NEG: return LLVMBuildNeg(g->b, a, "");
  case TC_K_ABS:
    return s ? cg_call(g, "llvm.abs", LLVMTypeOf(a), 2,
                       (LLVMValueRef[]){a, LLVMConstInt(LLVMInt1TypeInContext(g->ctx), 0, 0)})
             : a;
  case TC_K_MIN:
  case TC_K_FMIN: return intrinsic2(g, s ? "llvm.smin" : "llvm.umin", a, b);
  case TC_K_MAX:
  case TC_K_FMAX: return intrinsic2(g, s ? "llvm.smax" : "llvm.umax", a, b);
  case TC_K_AND: return LLVMBuildAnd(g->b, a, b, "");
  case TC_K_OR: return LLVMBuildOr(g->b, a, b, "");
  case TC_K_XOR: return LLVMBuildXor(g->b, a, b, "");
  case TC_K_NOT: return LLVMBuildNot(g->b, a, "");
  case TC_K_SHL:
  case TC_K_SHR: return shift(g, op, s, bits, a, b);
  case TC_K_MULHI: return mul_high(g, s, bits, a, b);
  case TC_K_FLOOR:
  case TC_K_CEIL:
  case TC_K_TRUNC:
  case TC_K_RINT: return a;
  default:
    cg_fail(g, TC_STATUS_UNIMPLEMENTED, "%s on integers must be lowered before code generation", tc_k_op_text(op));
    return a;
  }
  if (no_wrap && LLVMIsAInstruction(r)) s ? LLVMSetNSW(r, 1) : LLVMSetNUW(r, 1);
  return r;
}

// Sums and products of bools are "or" and "and".
static int32_t bool_op(int32_t op) {
  switch (op) {
  case TC_K_ADD:
  case TC_K_MAX: return TC_K_OR;
  case TC_K_MUL:
  case TC_K_MIN: return TC_K_AND;
  case TC_K_SUB: return TC_K_XOR;
  default: return op;
  }
}

LLVMValueRef cg_arith(cg *g, int32_t op, int32_t flags, tc_dtype d, LLVMValueRef *x) {
  if (tc_k_op_class(op) == 'c') return compare(g, op, d, x[0], x[1]);
  if (cg_is_float(d)) return float_arith(g, op, flags, d, x);
  return int_arith(g, d == TC_BOOL ? bool_op(op) : op, flags, d, x);
}

// ---- Casts ----

static LLVMValueRef bits_of(cg *g, LLVMValueRef x, int32_t bits) {
  return LLVMBuildBitCast(g->b, x, int_type(g, x, bits), "");
}

// double → float rounded to odd: a second rounding to 16 bits then gives what one rounding would.
static LLVMValueRef to_float_odd(cg *g, LLVMValueRef x) {
  LLVMValueRef f = LLVMBuildFPTrunc(g->b, x, cg_like(x, LLVMFloatTypeInContext(g->ctx)), "");
  LLVMValueRef back = LLVMBuildFPExt(g->b, f, LLVMTypeOf(x), ""), u = bits_of(g, f, 32);
  LLVMValueRef inexact = LLVMBuildFCmp(g->b, LLVMRealONE, back, x, "");
  LLVMValueRef even =
      LLVMBuildICmp(g->b, LLVMIntEQ, LLVMBuildAnd(g->b, u, cg_int_like(u, 1), ""), cg_int_like(u, 0), "");
  LLVMValueRef over =
      LLVMBuildFCmp(g->b, LLVMRealOGT, intrinsic1(g, "llvm.fabs", back), intrinsic1(g, "llvm.fabs", x), "");
  LLVMValueRef step = LLVMBuildSelect(g->b, over, cg_int_like(u, -1), cg_int_like(u, 1), "");
  LLVMValueRef odd = LLVMBuildAdd(g->b, u, step, "");
  u = LLVMBuildSelect(g->b, LLVMBuildAnd(g->b, inexact, even, ""), odd, u, "");
  return LLVMBuildBitCast(g->b, u, LLVMTypeOf(f), "");
}

// r, or a quiet NaN where x is NaN, by one instruction for each register of AVX-512.
static LLVMValueRef keep_nan(cg *g, LLVMValueRef r, LLVMValueRef x) {
  enum { PER = 16, QUIET_NAN_STAYS_ONE = 0x22, CURRENT_ROUNDING = 4 }; // answers for quiet and signalling NaN: quiet x
  int32_t n = cg_count(x);
  LLVMValueRef parts[CG_MAX_PARTS];
  for (int32_t i = 0; i < n / PER; i++) {
    LLVMValueRef to =
        LLVMBuildBitCast(g->b, cg_slice(g, r, i * PER, PER), LLVMVectorType(cg_scalar_type(g, TC_F32), PER), "");
    LLVMValueRef args[] = {to,
                           cg_slice(g, x, i * PER, PER),
                           cg_int_like(cg_slice(g, r, i * PER, PER), QUIET_NAN_STAYS_ONE),
                           cg_i32(g, 0),
                           LLVMConstAllOnes(LLVMIntTypeInContext(g->ctx, PER)),
                           cg_i32(g, CURRENT_ROUNDING)};
    parts[i] = cg_call2(g, "llvm.x86.avx512.mask.fixupimm.ps.512", NULL, 0, 6, args);
  }
  return bits_of(g, cg_concat(g, n / PER, parts), 32);
}

// x rounded to a number of bf16, to nearest even. By integer arithmetic: the processor's own conversion flushes
// subnormals. Half a unit of the last place that stays is added, less one bit where that place is even. On AVX-512 a
// mask chooses between the two, which is shorter. NaNs of more than 16 bits get all bits.
static LLVMValueRef rounded_to_bf16(cg *g, LLVMValueRef x, bool long_nans) {
  LLVMValueRef u = bits_of(g, x, 32), half;
  if (g->avx512) {
    LLVMValueRef last = LLVMBuildAnd(g->b, u, cg_int_like(u, 0x10000), "");
    LLVMValueRef odd = LLVMBuildICmp(g->b, LLVMIntNE, last, cg_int_like(u, 0), "");
    half = LLVMBuildSelect(g->b, odd, cg_int_like(u, 0x8000), cg_int_like(u, 0x7fff), "");
  } else {
    LLVMValueRef last = LLVMBuildAnd(g->b, LLVMBuildLShr(g->b, u, cg_int_like(u, 16), ""), cg_int_like(u, 1), "");
    half = LLVMBuildAdd(g->b, last, cg_int_like(u, 0x7fff), "");
  }
  LLVMValueRef r = LLVMBuildAdd(g->b, u, half, "");
  int32_t n = cg_count(x);
  if (long_nans && g->avx512 && n && n % 16 == 0 && n / 16 <= CG_MAX_PARTS) r = keep_nan(g, r, x);
  else if (long_nans) r = LLVMBuildOr(g->b, r, LLVMBuildSExt(g->b, is_nan(g, x), LLVMTypeOf(u), ""), "");
  r = LLVMBuildAnd(g->b, r, cg_int_like(u, -0x10000), "");
  return LLVMBuildBitCast(g->b, r, LLVMTypeOf(x), "");
}

// Of an f32 that is a bf16 number: its upper half. Of two registers of AVX-512 those are picked by one shuffle.
static LLVMValueRef upper_half(cg *g, LLVMValueRef x) {
  enum { PAIR = 32 };
  LLVMValueRef u = bits_of(g, x, 32), parts[CG_MAX_PARTS], joined = cg_join_pairs(g, x);
  int32_t n = cg_count(x), odd[PAIR];
  if (joined) return joined;
  if (!g->avx512 || !n || n % PAIR || n / PAIR > CG_MAX_PARTS)
    return LLVMBuildTrunc(g->b, LLVMBuildLShr(g->b, u, cg_int_like(u, 16), ""), int_type(g, x, 16), "");
  LLVMTypeRef halves = LLVMVectorType(LLVMIntTypeInContext(g->ctx, 16), PAIR);
  for (int32_t i = 0; i < PAIR; i++) odd[i] = 2 * i + 1;
  for (int32_t i = 0; i < n / PAIR; i++) {
    LLVMValueRef two[2];
    for (int32_t k = 0; k < 2; k++)
      two[k] = LLVMBuildBitCast(g->b, cg_slice(g, u, i * PAIR + k * PAIR / 2, PAIR / 2), halves, "");
    parts[i] = cg_shuffle(g, two[0], two[1], PAIR, odd);
  }
  return cg_concat(g, n / PAIR, parts);
}

static LLVMValueRef to_bf16(cg *g, LLVMValueRef x, bool long_nans) {
  LLVMValueRef pairs = long_nans ? NULL : cg_round_pairs(g, x);
  return pairs ? pairs : upper_half(g, rounded_to_bf16(g, x, long_nans));
}

// What no integer is gives the least one, as the processor has it: without the comparison a value that is known while
// code is made would be left to chance.
static LLVMValueRef whole(cg *g, LLVMValueRef x, int32_t bits) {
  LLVMValueRef inside =
      LLVMBuildFCmp(g->b, LLVMRealOLT, intrinsic1(g, "llvm.fabs", x), cg_real_like(x, ldexp(1, bits - 1)), "");
  LLVMValueRef r = LLVMBuildFreeze(g->b, LLVMBuildFPToSI(g->b, x, int_type(g, x, bits), ""), "");
  return LLVMBuildSelect(g->b, inside, r, cg_int_like(r, bits == 64 ? INT64_MIN : INT32_MIN), "");
}

static LLVMValueRef float_to_int(cg *g, LLVMValueRef x, tc_dtype to) {
  int32_t bits = cg_bits(to), via = bits <= 16 || to == TC_I32 ? 32 : 64;
  LLVMValueRef r = whole(g, x, via);
  if (to == TC_U64) {
    LLVMValueRef half = cg_real_like(x, 0x1p63), big = LLVMBuildFCmp(g->b, LLVMRealOGE, x, half, "");
    LLVMValueRef high = whole(g, LLVMBuildFSub(g->b, x, half, ""), via);
    r = LLVMBuildSelect(g->b, big, LLVMBuildXor(g->b, high, cg_int_like(high, INT64_MIN), ""), r, "");
  }
  return bits < via ? LLVMBuildTrunc(g->b, r, int_type(g, x, bits), "") : r;
}

LLVMValueRef cg_cast(cg *g, LLVMValueRef x, tc_dtype from, tc_dtype to) {
  if (from == to) return x;
  LLVMTypeRef t = cg_like(x, cg_scalar_type(g, to)), f32 = cg_like(x, LLVMFloatTypeInContext(g->ctx));
  LLVMValueRef wide = from == TC_BF16 ? cg_widen_pairs(g, x) : NULL;
  if (wide) return cg_cast(g, wide, TC_F32, to);
  if (from == TC_BF16 && to == TC_BOOL) {
    LLVMValueRef magnitude = LLVMBuildAnd(g->b, x, cg_int_like(x, 0x7fff), "");
    return LLVMBuildICmp(g->b, LLVMIntNE, magnitude, cg_int_like(x, 0), "");
  }
  if (from == TC_BF16) {
    LLVMValueRef u = LLVMBuildZExt(g->b, x, int_type(g, x, 32), "");
    u = LLVMBuildShl(g->b, u, cg_int_like(u, 16), "");
    return cg_cast(g, LLVMBuildBitCast(g->b, u, f32, ""), TC_F32, to);
  }
  if (from == TC_F16) return cg_cast(g, LLVMBuildFPExt(g->b, x, f32, ""), TC_F32, to);
  if (to == TC_BOOL) {
    if (cg_is_float(from)) return LLVMBuildFCmp(g->b, LLVMRealUNE, x, cg_real_like(x, 0), "");
    return LLVMBuildICmp(g->b, LLVMIntNE, x, cg_int_like(x, 0), "");
  }
  if (to == TC_F16 || to == TC_BF16) {
    if (from != TC_F32 && from != TC_F64) {
      tc_dtype via = cg_bits(from) <= 16 ? TC_F32 : TC_F64;
      return cg_cast(g, cg_cast(g, x, from, via), via, to);
    }
    LLVMValueRef f = from == TC_F64 ? to_float_odd(g, x) : x;
    return to == TC_BF16 ? to_bf16(g, f, true) : LLVMBuildFPTrunc(g->b, f, t, "");
  }
  bool from_signed = cg_is_signed(from);
  if (cg_is_float(to)) {
    if (from == TC_F32) return LLVMBuildFPExt(g->b, x, t, "");
    if (from == TC_F64) return LLVMBuildFPTrunc(g->b, x, t, "");
    return from_signed ? LLVMBuildSIToFP(g->b, x, t, "") : LLVMBuildUIToFP(g->b, x, t, "");
  }
  if (cg_is_float(from)) return float_to_int(g, x, to);
  int32_t a = cg_bits(from), b = cg_bits(to);
  if (a == b) return x;
  if (a > b) return LLVMBuildTrunc(g->b, x, t, "");
  return from_signed ? LLVMBuildSExt(g->b, x, t, "") : LLVMBuildZExt(g->b, x, t, "");
}

static LLVMValueRef bitcast(cg *g, LLVMValueRef x, tc_dtype from, tc_dtype to) {
  if (from == TC_BOOL || to == TC_BOOL) return cg_cast(g, x, from, to);
  return LLVMBuildBitCast(g->b, x, cg_like(x, cg_scalar_type(g, to)), "");
}

// ---- Reductions: halves are combined pairwise, so the order depends on the number of lanes only. ----

LLVMValueRef cg_reduce(cg *g, int32_t op, tc_dtype d, LLVMValueRef v) {
  static const int32_t scalar_op[] = {TC_K_ADD, TC_K_MUL, TC_K_MIN, TC_K_MAX, TC_K_AND, TC_K_OR};
  int32_t with = scalar_op[op - TC_K_REDUCE_ADD], n = cg_count(v);
  if (d == TC_BOOL && bool_op(with) == TC_K_OR) return cg_any(g, v);
  if (d == TC_BOOL && bool_op(with) == TC_K_AND) return cg_all(g, v);
  LLVMValueRef rest = NULL;
  while (n > 1) {
    if (n % 2) {
      LLVMValueRef last = LLVMBuildExtractElement(g->b, v, cg_i32(g, n - 1), "");
      rest = rest ? cg_arith(g, with, 0, d, (LLVMValueRef[]){rest, last}) : last;
    }
    n /= 2;
    LLVMValueRef low = cg_slice(g, v, 0, n), high = cg_slice(g, v, n, n);
    v = cg_arith(g, with, 0, d, (LLVMValueRef[]){low, high});
  }
  v = LLVMBuildExtractElement(g->b, v, cg_i32(g, 0), "");
  return rest ? cg_arith(g, with, 0, d, (LLVMValueRef[]){v, rest}) : v;
}

// The lower or upper halves of pairs as f32: the bits of a bf16 are the upper ones of that number.
static LLVMValueRef half_of(cg *g, LLVMValueRef pair, int32_t half) {
  LLVMValueRef by = cg_int_like(pair, half ? -0x10000 : 16);
  LLVMValueRef bits = half ? LLVMBuildAnd(g->b, pair, by, "") : LLVMBuildShl(g->b, pair, by, "");
  return bitcast(g, bits, TC_I32, TC_F32);
}

// Pairs of bf16, multiplied and added to c by registers of sixteen; other numbers of lanes by single multiply-adds.
static LLVMValueRef dot2(cg *g, LLVMValueRef *x) {
  enum { PER = 16 };
  int32_t n = cg_count(x[2]);
  LLVMValueRef parts[16], sum = x[2];
  if (n % PER || n / PER > 16 || n == 0) {
    for (int32_t half = 0; half < 2; half++) {
      LLVMValueRef args[3] = {half_of(g, x[0], half), half_of(g, x[1], half), sum};
      sum = cg_call(g, "llvm.fma", LLVMTypeOf(sum), 3, args);
    }
    return sum;
  }
  LLVMTypeRef pairs = LLVMVectorType(LLVMBFloatTypeInContext(g->ctx), 2 * PER);
  for (int32_t i = 0; i < n / PER; i++) {
    LLVMValueRef args[3] = {cg_slice(g, x[2], i * PER, PER)};
    for (int32_t k = 0; k < 2; k++) args[1 + k] = LLVMBuildBitCast(g->b, cg_slice(g, x[k], i * PER, PER), pairs, "");
    parts[i] = cg_call2(g, "llvm.x86.avx512bf16.dpbf16ps.512", NULL, 0, 3, args);
  }
  return cg_concat(g, n / PER, parts);
}

// ---- One instruction ----

// Is the f32 that an instruction makes a bf16 number: one that was widened, or one of several such numbers?
static bool makes_bf16(const cg *g, const tc_kinst *in, tc_dtype from) {
  int32_t first = 0;
  float constant = (float)in->fimm;
  uint32_t bits;
  switch (in->op) {
  case TC_K_CONST: memcpy(&bits, &constant, sizeof bits); return !(bits & 0xffff);
  case TC_K_CAST: return from == TC_BF16;
  case TC_K_SELECT: first = 1; break;
  case TC_K_NEG:
  case TC_K_ABS:
  case TC_K_MIN:
  case TC_K_MAX: break;
  default: return false;
  }
  for (int32_t i = first; i < in->n_args; i++)
    if (!g->vals[in->args[i]].is_bf16) return false;
  return true;
}

void cg_pure(cg *g, const tc_kinst *in) {
  tc_kvalue to, from = {0};
  tc_k_value(g->k, in->results[0], &to);
  if (in->n_args > 0) tc_k_value(g->k, in->args[0], &from);
  cg_val out = {0};
  LLVMValueRef x[3] = {0};
  for (int32_t i = 0; i < in->n_args && i < 3; i++) x[i] = cg_form(g, in->args[i], to.varying);
  switch (in->op) {
  case TC_K_CONST: out.v = cg_const(g, to.dtype, in->imm, in->fimm); break;
  case TC_K_BLOCK: out.v = g->block; break;
  case TC_K_LANE: out.v = cg_put_apart(g, cg_lane_numbers(g, cg_scalar_type(g, to.dtype), g->lanes)); break;
  case TC_K_SCALAR:
    if (in->imm < 0 || in->imm >= g->n_scalars) {
      cg_fail(g, TC_STATUS_INTERNAL, "the kernel reads scalar %lld of %d", (long long)in->imm, g->n_scalars);
      return;
    }
    out.v = g->scalars[in->imm];
    break;
  case TC_K_SELECT:
    g->apart.fits &= to.dtype != TC_BF16;
    out.v = LLVMBuildSelect(g->b, x[0], x[1], x[2], "");
    break;
  case TC_K_CAST:
    if (to.dtype != TC_BF16 || from.dtype != TC_F32) out.v = cg_cast(g, x[0], from.dtype, to.dtype);
    else if (g->vals[in->args[0]].is_bf16) out.v = upper_half(g, x[0]);
    else out.v = to_bf16(g, x[0], g->long_nans[in->args[0]]);
    break;
  case TC_K_BITCAST:
    g->apart.fits &= from.dtype != TC_BF16 && to.dtype != TC_BF16;
    out.v = bitcast(g, x[0], from.dtype, to.dtype);
    break;
  case TC_K_MUL:
    out.v = to.varying ? cg_scaled(g, in, to.dtype) : NULL;
    if (!out.v) out.v = cg_arith(g, in->op, in->flags, from.dtype, x);
    break;
  case TC_K_DOT2: out.v = dot2(g, x); break;
  default:
    if (tc_k_op_class(in->op) != 'a' && tc_k_op_class(in->op) != 'c') {
      cg_fail(g, TC_STATUS_UNIMPLEMENTED, "%s must be lowered before code generation", tc_k_op_text(in->op));
      return;
    }
    out.v = cg_arith(g, in->op, in->flags, from.dtype, x);
  }
  if (to.varying && !cg_count(out.v)) out.v = cg_splat(g, out.v, g->lanes);
  if (!cg_is_float(to.dtype)) cg_track(g, in, &out);
  out.is_bf16 = to.dtype == TC_F32 && makes_bf16(g, in, from.dtype);
  g->vals[in->results[0]] = out;
}
