// Types, constants and small vector helpers of the emitter. No kernel semantics live here.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen.h"

void cg_fail(cg *g, int32_t code, const char *fmt, ...) {
  if (g->status != TC_STATUS_OK) return;
  g->status = code;
  va_list args;
  va_start(args, fmt);
  vsnprintf(g->message, sizeof g->message, fmt, args);
  va_end(args);
}

int32_t cg_bits(tc_dtype d) {
  switch (d) {
  case TC_BOOL: return 1;
  case TC_U8:
  case TC_I8: return 8;
  case TC_I16:
  case TC_U16:
  case TC_F16:
  case TC_BF16: return 16;
  case TC_I32:
  case TC_U32:
  case TC_F32: return 32;
  case TC_I64:
  case TC_U64:
  case TC_F64: return 64;
  default: return 0;
  }
}

bool cg_is_float(tc_dtype d) { return d >= TC_F16 && d <= TC_F64; }
bool cg_is_signed(tc_dtype d) { return d >= TC_I8 && d <= TC_I64; }

LLVMTypeRef cg_scalar_type(cg *g, tc_dtype d) {
  switch (d) {
  case TC_F16: return LLVMHalfTypeInContext(g->ctx);
  case TC_F32: return LLVMFloatTypeInContext(g->ctx);
  case TC_F64: return LLVMDoubleTypeInContext(g->ctx);
  default: break;
  }
  int32_t bits = cg_bits(d);
  if (bits == 0) {
    cg_fail(g, TC_STATUS_UNIMPLEMENTED, "the kernel uses a type that generated code cannot hold (dtype %d)", d);
    bits = 32;
  }
  return LLVMIntTypeInContext(g->ctx, (unsigned)bits);
}

LLVMTypeRef cg_storage_type(cg *g, tc_dtype d) {
  return d == TC_BOOL ? LLVMInt8TypeInContext(g->ctx) : cg_scalar_type(g, d);
}

LLVMTypeRef cg_type(cg *g, tc_dtype d, bool varying) {
  LLVMTypeRef t = cg_scalar_type(g, d);
  return varying ? LLVMVectorType(t, (unsigned)g->lanes) : t;
}

int32_t cg_count(LLVMValueRef x) {
  LLVMTypeRef t = LLVMTypeOf(x);
  return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? (int32_t)LLVMGetVectorSize(t) : 0;
}

LLVMTypeRef cg_like(LLVMValueRef x, LLVMTypeRef elem) {
  int32_t n = cg_count(x);
  return n ? LLVMVectorType(elem, (unsigned)n) : elem;
}

LLVMValueRef cg_i32(cg *g, int64_t v) { return LLVMConstInt(LLVMInt32TypeInContext(g->ctx), (uint64_t)v, 1); }
LLVMValueRef cg_i64(cg *g, int64_t v) { return LLVMConstInt(LLVMInt64TypeInContext(g->ctx), (uint64_t)v, 1); }

static LLVMValueRef const_like(LLVMValueRef x, LLVMValueRef c) {
  int32_t n = cg_count(x);
  if (!n) return c;
  LLVMValueRef all[1024];
  if (n > 1024) n = 1024; // lanes are limited to that in cg_kernel
  for (int32_t i = 0; i < n; i++) all[i] = c;
  return LLVMConstVector(all, (unsigned)n);
}

static LLVMTypeRef elem_type(LLVMValueRef x) {
  LLVMTypeRef t = LLVMTypeOf(x);
  return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? LLVMGetElementType(t) : t;
}

LLVMValueRef cg_int_like(LLVMValueRef x, int64_t v) {
  return const_like(x, LLVMConstInt(elem_type(x), (uint64_t)v, 1));
}
LLVMValueRef cg_real_like(LLVMValueRef x, double v) { return const_like(x, LLVMConstReal(elem_type(x), v)); }

// The bits of a double rounded to bf16, to nearest even. Rounding to float first would round twice, so the float is
// made "sticky": where inexact its last bit is set to odd.
static uint16_t to_bf16(double v) {
  float f = (float)v;
  uint32_t u;
  memcpy(&u, &f, 4);
  if (f != f) return 0x7fc0;
  if (f == 0) u |= v != 0;
  else if ((double)f != v && !(u & 1)) u += ((double)f > v) == (f > 0) ? -1u : 1u;
  return (uint16_t)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

LLVMValueRef cg_const(cg *g, tc_dtype d, int64_t imm, double fimm) {
  LLVMTypeRef t = cg_scalar_type(g, d);
  if (d == TC_BF16) return LLVMConstInt(t, to_bf16(fimm), 0);
  if (cg_is_float(d)) return LLVMConstReal(t, fimm);
  return LLVMConstInt(t, d == TC_BOOL ? imm != 0 : (uint64_t)imm, 1);
}

bool cg_const_int(LLVMValueRef v, int64_t *out) {
  if (!v || !LLVMIsAConstantInt(v) || LLVMGetIntTypeWidth(LLVMTypeOf(v)) > 64) return false;
  *out = LLVMConstIntGetSExtValue(v);
  return true;
}

LLVMValueRef cg_splat(cg *g, LLVMValueRef s, int32_t n) {
  LLVMTypeRef t = LLVMVectorType(LLVMTypeOf(s), (unsigned)n);
  if (LLVMIsConstant(s) && !LLVMIsAUndefValue(s)) return const_like(LLVMGetPoison(t), s);
  LLVMValueRef one = LLVMBuildInsertElement(g->b, LLVMGetPoison(t), s, cg_i32(g, 0), "");
  LLVMTypeRef mask = LLVMVectorType(LLVMInt32TypeInContext(g->ctx), (unsigned)n);
  return LLVMBuildShuffleVector(g->b, one, LLVMGetPoison(t), LLVMConstNull(mask), "");
}

bool cg_varying(cg *g, tc_kval v) {
  tc_kvalue info;
  tc_k_value(g->k, v, &info);
  return info.varying != 0;
}

static LLVMValueRef value(cg *g, tc_kval v) {
  if (v >= 0 && v < g->n_vals && g->vals[v].v) return g->vals[v].v;
  cg_fail(g, TC_STATUS_INTERNAL, "value %d is used before its definition", v);
  return LLVMGetPoison(LLVMInt32TypeInContext(g->ctx));
}

LLVMValueRef cg_vector(cg *g, tc_kval v) {
  LLVMValueRef x = value(g, v);
  return cg_count(x) ? x : cg_splat(g, x, g->lanes);
}

LLVMValueRef cg_scalar(cg *g, tc_kval v) {
  LLVMValueRef x = value(g, v);
  if (!cg_count(x)) return x;
  cg_fail(g, TC_STATUS_INTERNAL, "value %d differs by lane where one value is needed", v);
  return LLVMGetPoison(elem_type(x));
}

LLVMValueRef cg_form(cg *g, tc_kval v, bool varying) { return varying ? cg_vector(g, v) : cg_scalar(g, v); }

LLVMValueRef cg_call2(cg *g, const char *name, LLVMTypeRef *overloads, int32_t n_overloads, int32_t n,
                      LLVMValueRef *args) {
  unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
  LLVMValueRef fn = LLVMGetIntrinsicDeclaration(g->mod, id, overloads, (size_t)n_overloads);
  return LLVMBuildCall2(g->b, LLVMIntrinsicGetType(g->ctx, id, overloads, (size_t)n_overloads), fn, args, (unsigned)n,
                        "");
}

LLVMValueRef cg_call(cg *g, const char *name, LLVMTypeRef overload, int32_t n, LLVMValueRef *args) {
  return cg_call2(g, name, &overload, 1, n, args);
}

LLVMValueRef cg_alloca(cg *g, LLVMTypeRef t, int32_t align, const char *name) {
  LLVMValueRef a = LLVMBuildAlloca(g->allocas, t, name);
  LLVMSetAlignment(a, (unsigned)align);
  return a;
}

LLVMBasicBlockRef cg_new_block(cg *g, const char *name) { return LLVMAppendBasicBlockInContext(g->ctx, g->fn, name); }

LLVMValueRef cg_shuffle(cg *g, LLVMValueRef a, LLVMValueRef b, int32_t n, const int32_t *mask) {
  LLVMTypeRef i32 = LLVMInt32TypeInContext(g->ctx);
  LLVMValueRef small[128], *m = small;
  if (n > 128) m = malloc((size_t)n * sizeof *m);
  if (!m) {
    cg_fail(g, TC_STATUS_OUT_OF_MEMORY, "no memory for a shuffle");
    return LLVMGetPoison(LLVMVectorType(elem_type(a), (unsigned)n));
  }
  for (int32_t i = 0; i < n; i++) m[i] = mask[i] < 0 ? LLVMGetPoison(i32) : LLVMConstInt(i32, (uint64_t)mask[i], 0);
  LLVMValueRef r =
      LLVMBuildShuffleVector(g->b, a, b ? b : LLVMGetPoison(LLVMTypeOf(a)), LLVMConstVector(m, (unsigned)n), "");
  if (m != small) free(m);
  return r;
}

LLVMValueRef cg_slice(cg *g, LLVMValueRef v, int32_t first, int32_t n) {
  if (first == 0 && n == cg_count(v)) return v;
  int32_t mask[1024];
  for (int32_t i = 0; i < n; i++) mask[i] = first + i;
  return cg_shuffle(g, v, NULL, n, mask);
}

LLVMValueRef cg_register(cg *g, LLVMValueRef v, int32_t i, int32_t n) {
  int32_t mask[64];
  if (n > 64 || (i + 1) * n <= cg_count(v)) return cg_slice(g, v, i * n, n);
  for (int32_t k = 0; k < n; k++) mask[k] = i * n + k < cg_count(v) ? i * n + k : -1;
  return cg_shuffle(g, v, NULL, n, mask);
}

LLVMValueRef cg_concat(cg *g, int32_t n, LLVMValueRef *parts) {
  if (n == 1) return parts[0];
  int32_t half = (n + 1) / 2, rest = n - half;
  LLVMValueRef a = cg_concat(g, half, parts), b = cg_concat(g, rest, parts + half);
  int32_t na = cg_count(a), nb = cg_count(b), mask[1024];
  for (int32_t i = 0; i < na; i++) mask[i] = i < nb ? i : -1;
  if (nb < na) b = cg_shuffle(g, b, NULL, na, mask);
  for (int32_t i = 0; i < na + nb; i++) mask[i] = i;
  return cg_shuffle(g, a, b, na + nb, mask);
}

LLVMValueRef cg_lane_numbers(cg *g, LLVMTypeRef elem, int32_t n) {
  (void)g;
  LLVMValueRef c[1024];
  for (int32_t i = 0; i < n; i++) c[i] = LLVMConstInt(elem, (uint64_t)i, 0);
  return LLVMConstVector(c, (unsigned)n);
}

static LLVMValueRef mask_word(cg *g, LLVMValueRef mask) {
  return LLVMBuildBitCast(g->b, mask, LLVMIntTypeInContext(g->ctx, (unsigned)cg_count(mask)), "");
}

LLVMValueRef cg_any(cg *g, LLVMValueRef mask) {
  if (!cg_count(mask)) return mask;
  LLVMValueRef w = mask_word(g, mask);
  return LLVMBuildICmp(g->b, LLVMIntNE, w, LLVMConstNull(LLVMTypeOf(w)), "any");
}

LLVMValueRef cg_all(cg *g, LLVMValueRef mask) {
  if (!cg_count(mask)) return mask;
  LLVMValueRef w = mask_word(g, mask);
  return LLVMBuildICmp(g->b, LLVMIntEQ, w, LLVMConstAllOnes(LLVMTypeOf(w)), "all");
}
