// Kernels of bf16 whose lanes are held apart: in groups of as many lanes as a register has 16-bit numbers, those of
// even number come before those of odd number, in every value but those of bf16 itself. A register of bf16 then becomes
// two of f32 by a shift and a mask, and two of f32 become one of bf16 by a shift and a choice of bits, where lanes in
// order take two shuffles for each of both.
//
// It fits kernels that reach global memory of bf16 by neighbouring lanes, and no other memory so; shared memory keeps
// the order of the registers if lanes come to it by whole groups only. The kernel is emitted as if it fitted, and again
// with lanes in order if it turns out not to (function.c).
#include <string.h>

#include "codegen.h"

enum { LEAST_BYTES = 32 };               // of a register: a smaller one has few lanes to take apart
enum { BY_GROUPS = 1, BY_ELEMENTS = 2 }; // cg_mem.order

static int32_t group_of(const cg *g) { return g->vector_bytes / 2; }

void cg_apart_begin(cg *g) {
  g->apart.on = false, g->apart.whole = g->apart.masked = 0;
  g->apart.fits = g->vector_bytes >= LEAST_BYTES && g->lanes % group_of(g) == 0;
  for (int32_t i = 0; i < g->n_mems && g->apart.fits; i++)
    g->apart.on |= g->mems[i].info.space == TC_SPACE_GLOBAL && g->mems[i].info.dtype == TC_BF16;
}

bool cg_apart_fits(const cg *g) {
  bool fits = g->apart.fits && g->apart.whole > 0 && g->apart.whole >= g->apart.masked;
  for (int32_t i = 0; i < g->n_mems; i++) fits &= g->mems[i].order != (BY_GROUPS | BY_ELEMENTS);
  return fits;
}

// A vector of all lanes; others are not held apart.
static bool is_apart(const cg *g, LLVMValueRef v) { return g->apart.on && v && cg_count(v) == g->lanes; }

static int32_t place_of(const cg *g, int32_t lane) {
  int32_t n = group_of(g), in = lane % n;
  return lane - in + in % 2 * (n / 2) + in / 2;
}

LLVMValueRef cg_put_apart(cg *g, LLVMValueRef v) {
  int32_t from[CG_MAX_LANES];
  if (!is_apart(g, v)) return v;
  for (int32_t i = 0; i < g->lanes; i++) from[place_of(g, i)] = i;
  return cg_shuffle(g, v, NULL, g->lanes, from);
}

static LLVMValueRef in_order(cg *g, LLVMValueRef v) {
  int32_t from[CG_MAX_LANES];
  if (!is_apart(g, v)) return v;
  for (int32_t i = 0; i < g->lanes; i++) from[i] = place_of(g, i);
  return cg_shuffle(g, v, NULL, g->lanes, from);
}

static LLVMTypeRef words(cg *g, int32_t n) { return LLVMVectorType(LLVMInt32TypeInContext(g->ctx), (unsigned)n); }

LLVMValueRef cg_widen_pairs(cg *g, LLVMValueRef x) {
  if (!is_apart(g, x)) return NULL;
  int32_t n = group_of(g), half = n / 2, count = g->lanes / n;
  LLVMValueRef parts[CG_MAX_LANES], pairs = LLVMBuildBitCast(g->b, x, words(g, g->lanes / 2), "");
  for (int32_t i = 0; i < count; i++) {
    LLVMValueRef two = cg_slice(g, pairs, i * half, half);
    parts[2 * i] = LLVMBuildShl(g->b, two, cg_int_like(two, 16), "");
    parts[2 * i + 1] = LLVMBuildAnd(g->b, two, cg_int_like(two, -0x10000), "");
  }
  LLVMValueRef u = cg_concat(g, 2 * count, parts);
  return LLVMBuildBitCast(g->b, u, cg_like(u, LLVMFloatTypeInContext(g->ctx)), "");
}

// The upper or the lower halves of a group's f32 in the order of memory.
static LLVMValueRef halves_of(cg *g, LLVMValueRef u, int32_t i, bool upper) {
  int32_t n = group_of(g), half = n / 2;
  LLVMValueRef even = cg_slice(g, u, i * n, half), odd = cg_slice(g, u, i * n + half, half);
  if (upper) {
    even = LLVMBuildLShr(g->b, even, cg_int_like(even, 16), "");
    odd = LLVMBuildAnd(g->b, odd, cg_int_like(odd, -0x10000), "");
  } else {
    even = LLVMBuildAnd(g->b, even, cg_int_like(even, 0xffff), "");
    odd = LLVMBuildShl(g->b, odd, cg_int_like(odd, 16), "");
  }
  LLVMTypeRef numbers = LLVMVectorType(LLVMInt16TypeInContext(g->ctx), (unsigned)n);
  return LLVMBuildBitCast(g->b, LLVMBuildOr(g->b, even, odd, ""), numbers, "");
}

LLVMValueRef cg_join_pairs(cg *g, LLVMValueRef x) {
  if (!is_apart(g, x)) return NULL;
  int32_t count = g->lanes / group_of(g);
  LLVMValueRef parts[CG_MAX_LANES], u = LLVMBuildBitCast(g->b, x, words(g, g->lanes), "");
  for (int32_t i = 0; i < count; i++) parts[i] = halves_of(g, u, i, true);
  return cg_concat(g, count, parts);
}

// The upper half is one more where the lower one is above 0x8000, or is 0x8000 and the upper one odd: where the lower
// one less 1, if the upper one is even, has its first bit. AVX-512 rounds in as few instructions before halves meet.
LLVMValueRef cg_round_pairs(cg *g, LLVMValueRef x) {
  if (!is_apart(g, x) || g->avx512) return NULL;
  int32_t count = g->lanes / group_of(g);
  LLVMValueRef parts[CG_MAX_LANES], u = LLVMBuildBitCast(g->b, x, words(g, g->lanes), "");
  for (int32_t i = 0; i < count; i++) {
    LLVMValueRef upper = halves_of(g, u, i, true), lower = halves_of(g, u, i, false);
    LLVMValueRef even = LLVMBuildAnd(g->b, LLVMBuildNot(g->b, upper, ""), cg_int_like(upper, 1), "");
    LLVMValueRef rest = cg_call(g, "llvm.usub.sat", LLVMTypeOf(lower), 2, (LLVMValueRef[]){lower, even});
    parts[i] = LLVMBuildSub(g->b, upper, LLVMBuildAShr(g->b, rest, cg_int_like(rest, 15), ""), "");
  }
  return cg_concat(g, count, parts);
}

// Does each lane find its own element where its register has it: in shared memory by whole groups, by an index that is
// a vector, too, or all the same one?
static bool follows(cg *g, cg_access *a, int64_t stride, int32_t zeros) {
  if (a->m->info.space != TC_SPACE_SHARED) return !a->base || stride == 0;
  bool groups = a->base && stride == 1 && group_of(g) <= 1ll << (zeros < 62 ? zeros : 62);
  a->m->order |= groups ? BY_GROUPS : BY_ELEMENTS;
  if (groups) a->index = in_order(g, a->index); // places of registers
  return true;
}

void cg_apart_access(cg *g, cg_access *a, int32_t zeros) {
  int64_t stride = 0;
  if (!g->apart.on) return;
  bool affine = !a->base || cg_const_int(a->stride, &stride);
  if (a->m->info.dtype != TC_BF16) {
    g->apart.fits &= affine && follows(g, a, stride, zeros);
    return;
  }
  *(a->mask ? &g->apart.masked : &g->apart.whole) += 1;
  g->apart.fits &= a->base && affine && stride == 1;
  a->index = in_order(g, a->index), a->mask = in_order(g, a->mask);
}

void cg_apart_scalar(cg *g, cg_mem *m) {
  if (g->apart.on && m->info.space == TC_SPACE_SHARED) m->order |= BY_ELEMENTS;
}
