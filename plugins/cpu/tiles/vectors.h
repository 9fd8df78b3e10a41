// Vectors of single precision between the products of the matrix unit, and the barrier around those. For files that are
// compiled for AVX-512.
#ifndef TC_PLUGINS_CPU_TILES_VECTORS_H_
#define TC_PLUGINS_CPU_TILES_VECTORS_H_

#include <immintrin.h>
#include <stdint.h>

// Compilers do not know which memory the unit reads and writes: between two of these nothing moves.
static inline void tiles_in_memory(void) { __asm__ volatile("" ::: "memory"); }

static inline __mmask16 tiles_first(int64_t n) { return (__mmask16)(n >= 16 ? 0xffff : n <= 0 ? 0 : (1 << n) - 1); }

// 2^t, zero below 2^-200, to 2^-18 of its value, which is rounded to 9 bits: a polynomial in the part behind the
// integer, whose coefficients are those of least error on [-1/2, 1/2].
static inline __m512 tiles_power(__m512 t) {
  t = _mm512_max_ps(_mm512_set1_ps(-200), t); // the second operand if that is NaN
  __m512 n = _mm512_roundscale_ps(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC), r = _mm512_sub_ps(t, n);
  __m512 p = _mm512_set1_ps(0x1.3a02cep-7f);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.c9fc46p-5f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.ec0378p-3f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.62e12cp-1f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1));
  return _mm512_scalef_ps(p, n);
}

// Rounded to bf16, subnormals, too, which the processor's own conversion makes zeros.
static inline __m256i tiles_round(__m512 y) {
  __m512i u = _mm512_castps_si512(y), odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
  __m512i r = _mm512_srli_epi32(_mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
  r = _mm512_mask_mov_epi32(r, _mm512_cmp_ps_mask(y, y, _CMP_UNORD_Q), _mm512_set1_epi32(0x7fc0));
  return _mm512_cvtepi32_epi16(r);
}

#endif
