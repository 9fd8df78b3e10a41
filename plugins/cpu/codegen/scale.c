// x · 2^n by one instruction. The core's maths multiply by two powers of two, made of bits (core/kernel/maths: neither
// factor leaves the normal range, the first product is exact); where the processor has vscalef that is found again
// here. Both round once, so the bits are the same.
#include "codegen.h"

typedef struct finder {
  cg *g;
  tc_dtype real;
  int32_t mantissa;
  int64_t bias;
  double magic; // 1.5 · 2^mantissa
  int64_t magic_bits;
} finder;

// Of f32 a sum may count sixteenths, which are cut off; vscalef does that itself.
enum { SIXTEENTHS = 4 };
static const double magic_of_sixteenths = 0x1.8p19;
static const int64_t bits_of_sixteenths = 0x49400000;

// The instruction that makes a value, if it has that opcode.
static bool made_by(const finder *f, tc_kval v, int32_t op, tc_kinst *out) {
  tc_kvalue info;
  tc_k_value(f->g->k, v, &info);
  if (info.inst < 0) return false;
  tc_k_inst(f->g->k, info.inst, out);
  return out->op == op;
}

// op(x, constant)
static bool with_constant(const finder *f, tc_kval v, int32_t op, int64_t constant, tc_kval *out) {
  tc_kinst in, c;
  if (!made_by(f, v, op, &in) || !made_by(f, in.args[1], TC_K_CONST, &c) || c.imm != constant) return false;
  *out = in.args[0];
  return true;
}

// 2^n made of bits.
static bool power(const finder *f, tc_kval v, tc_kval *out_n) {
  tc_kinst cast;
  tc_kval shifted;
  return made_by(f, v, TC_K_BITCAST, &cast) && with_constant(f, cast.args[0], TC_K_SHL, f->mantissa, &shifted) &&
         with_constant(f, shifted, TC_K_ADD, f->bias, out_n);
}

// 2^(n - n/2) times x · 2^(n/2), the factors of the inner product in any order; x is -1 where it is the number 1.
static bool matches(const finder *f, tc_kval rest, tc_kval product, tc_kval *out_x, tc_kval *out_n) {
  tc_kval minus, half, n;
  tc_kinst sub, inner;
  if (!power(f, rest, &minus) || !made_by(f, minus, TC_K_SUB, &sub)) return false;
  if (!with_constant(f, sub.args[1], TC_K_SHR, 1, &n) || n != sub.args[0]) return false;
  *out_x = -1, *out_n = n;
  if (power(f, product, &half)) return half == sub.args[1];
  if (!made_by(f, product, TC_K_MUL, &inner)) return false;
  for (int32_t i = 0; i < 2; i++) {
    if (!power(f, inner.args[i], &half) || half != sub.args[1]) continue;
    *out_x = inner.args[1 - i];
    return true;
  }
  return false;
}

// n as a real, without converting it where it was read from the bits of a sum with `magic`.
static LLVMValueRef as_real(const finder *f, tc_kval n) {
  cg *g = f->g;
  tc_kinst cast;
  tc_kval sum, whole;
  tc_kvalue from = {0};
  double magic = f->magic;
  bool found = with_constant(f, n, TC_K_ADD, -f->magic_bits, &sum);
  if (!found && f->real == TC_F32 && with_constant(f, n, TC_K_SHR, SIXTEENTHS, &whole)) {
    found = with_constant(f, whole, TC_K_ADD, -bits_of_sixteenths, &sum);
    magic = magic_of_sixteenths;
  }
  if (found && made_by(f, sum, TC_K_BITCAST, &cast)) tc_k_value(g->k, cast.args[0], &from);
  if (from.dtype != f->real) return LLVMBuildSIToFP(g->b, cg_form(g, n, true), cg_type(g, f->real, true), "");
  LLVMValueRef x = cg_form(g, cast.args[0], true);
  return LLVMBuildFSub(g->b, x, cg_real_like(x, magic), "");
}

LLVMValueRef cg_scaled(cg *g, const tc_kinst *in, tc_dtype d) {
  finder f = {g, d, 23, 127, 0x1.8p23, 0x4b400000};
  if (d == TC_F64) f = (finder){g, d, 52, 1023, 0x1.8p52, 0x4338000000000000};
  int32_t per = d == TC_F32 ? 16 : 8, lanes = g->lanes;
  tc_kval x, n;
  bool whole = lanes % per == 0 && lanes / per <= CG_MAX_PARTS, part = lanes < per && lanes >= 4;
  if (!g->avx512 || (d != TC_F32 && d != TC_F64) || (!whole && !part)) return NULL;
  if (!matches(&f, in->args[0], in->args[1], &x, &n) && !matches(&f, in->args[1], in->args[0], &x, &n)) return NULL;
  LLVMValueRef powers = as_real(&f, n), values = x < 0 ? cg_real_like(powers, 1) : cg_form(g, x, true);
  LLVMValueRef parts[CG_MAX_PARTS];
  int32_t count = whole ? lanes / per : 1;
  for (int32_t i = 0; i < count; i++) {
    LLVMValueRef x_part = cg_register(g, values, i, per), by = cg_register(g, powers, i, per);
    LLVMTypeRef mask = LLVMIntTypeInContext(g->ctx, (unsigned)per);
    enum { CURRENT_ROUNDING = 4 };
    LLVMValueRef args[] = {x_part, by, x_part, LLVMConstAllOnes(mask), cg_i32(g, CURRENT_ROUNDING)};
    parts[i] = cg_call2(g, d == TC_F32 ? "llvm.x86.avx512.mask.scalef.ps.512" : "llvm.x86.avx512.mask.scalef.pd.512",
                        NULL, 0, 5, args);
  }
  return cg_slice(g, cg_concat(g, count, parts), 0, lanes);
}
